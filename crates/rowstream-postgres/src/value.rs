//! Decodes field bytes to [`Value`]s, in place.
//!
//! We choose the wire format per column: binary if it's cheaper for the server (integers, floats,
//! dates and times, uuid, bytea), otherwise text. PostgreSQL counts days and microseconds from
//! 2000-01-01, we from 1970-01-01.

use std::sync::Arc;

use postgres_types::Type;
use rowstream_core::Error;
use rowstream_database::{DatabaseRow, RowLayout};
use rowstream_encode::{
    Column, ColumnKind, Intervals, RowEncoder, RowWriter, Value, ValueOptions, write_value,
};

use super::interval;
use super::nested::NestedForms;
use super::text::{BadField, boolean, number};
use super::types::Types;

/// Days from 1970-01-01 to 2000-01-01.
const EPOCH_DAYS: i32 = 10_957;
/// The same in microseconds.
const EPOCH_MICROS: i64 = EPOCH_DAYS as i64 * 86_400_000_000;

/// The decoder of a column, chosen once per statement.
#[derive(Debug, Clone)]
pub(super) enum Decoder {
    Bool,
    Int2,
    Int4,
    Int8,
    Float4,
    Float8,
    Number,
    Text,
    Json,
    Bytes,
    Date,
    Time,
    Timestamp,
    TimestampTz,
    Interval,
    Uuid,
    /// Arrays, composites, and other values that contain values.
    Nested(Arc<NestedForms>),
}

impl Decoder {
    /// The decoder of a type whose values contain no others.
    pub(super) fn of(oid: u32) -> Self {
        match Type::from_oid(oid) {
            Some(Type::BOOL) => Self::Bool,
            Some(Type::INT2) => Self::Int2,
            Some(Type::INT4) => Self::Int4,
            Some(Type::INT8) => Self::Int8,
            Some(Type::FLOAT4) => Self::Float4,
            Some(Type::FLOAT8) => Self::Float8,
            Some(Type::NUMERIC) => Self::Number,
            Some(Type::JSON | Type::JSONB) => Self::Json,
            Some(Type::BYTEA) => Self::Bytes,
            Some(Type::DATE) => Self::Date,
            Some(Type::TIME) => Self::Time,
            Some(Type::TIMESTAMP) => Self::Timestamp,
            Some(Type::TIMESTAMPTZ) => Self::TimestampTz,
            Some(Type::INTERVAL) => Self::Interval,
            Some(Type::UUID) => Self::Uuid,
            _ => Self::Text,
        }
    }

    /// True if the values have attributes, whose names no value shows.
    pub(super) fn has_composites(&self) -> bool {
        matches!(self, Self::Nested(nested) if nested.has_composites())
    }

    /// The wire format to ask for: 0 is text, 1 is binary.
    pub(super) fn wire_format(&self) -> i16 {
        match self {
            Self::Bool | Self::Number | Self::Text | Self::Json | Self::Interval | Self::Nested(_) => 0,
            _ => 1,
        }
    }

    /// The kind of a column's values; `modifier` is the column's.
    pub(super) fn kind(&self, modifier: i32) -> ColumnKind {
        match self {
            Self::Bool => ColumnKind::Bool,
            Self::Int2 => ColumnKind::Int16,
            Self::Int4 => ColumnKind::Int32,
            Self::Int8 => ColumnKind::Int64,
            Self::Float4 => ColumnKind::Float32,
            Self::Float8 => ColumnKind::Float64,
            Self::Number => numeric_kind(modifier),
            Self::Text | Self::Interval => ColumnKind::Text,
            Self::Json => ColumnKind::Json,
            Self::Nested(nested) => nested.kind(modifier),
            Self::Bytes => ColumnKind::Bytes,
            Self::Date => ColumnKind::Date,
            Self::Time => ColumnKind::Time,
            Self::Timestamp => ColumnKind::Timestamp,
            Self::TimestampTz => ColumnKind::TimestampTz,
            Self::Uuid => ColumnKind::Uuid,
        }
    }

    /// Reads one field that isn't NULL. A value that contains others is written to `scratch` as
    /// JSON.
    #[inline]
    fn read<'a>(
        &self,
        field: &'a [u8],
        options: ValueOptions,
        scratch: &'a mut Vec<u8>,
    ) -> Result<Value<'a>, BadField> {
        Ok(match self {
            Self::Int8 => Value::Int(i64::from_be_bytes(fixed(field)?)),
            Self::Int4 => Value::Int4(i32::from_be_bytes(fixed(field)?).into()),
            Self::Int2 => Value::Int4(i16::from_be_bytes(fixed(field)?).into()),
            Self::Text => Value::Text(text(field)?),
            Self::TimestampTz => timestamp(i64::from_be_bytes(fixed(field)?), Value::TimestampTz, scratch)?,
            Self::Timestamp => timestamp(i64::from_be_bytes(fixed(field)?), Value::Timestamp, scratch)?,
            Self::Date => Value::Date(days_from_2000(i32::from_be_bytes(fixed(field)?))?),
            Self::Time => Value::Time(time_of_day(i64::from_be_bytes(fixed(field)?))?),
            Self::Bool => Value::Bool(boolean(field)?),
            Self::Float4 => Value::Float4(f32::from_be_bytes(fixed(field)?)),
            Self::Float8 => Value::Float(f64::from_be_bytes(fixed(field)?)),
            Self::Number => number(text(field)?)?,
            Self::Json => Value::Json(text(field)?),
            Self::Bytes => Value::Bytes(field),
            Self::Uuid => Value::Uuid(fixed(field)?),
            Self::Interval if options.intervals == Intervals::Iso => {
                scratch.clear();
                scratch.extend_from_slice(interval::iso(text(field)?)?.as_bytes());
                Value::Text(text(scratch)?)
            }
            Self::Interval => Value::Text(text(field)?),
            Self::Nested(nested) => {
                scratch.clear();
                nested.write(text(field)?, options, scratch)?;
                Value::Json(text(scratch)?)
            }
        })
    }
}

/// `numeric(precision, scale)` from its modifier (PostgreSQL, `numeric.c`, `make_numeric_typmod`).
/// Both have 16 bits; the lower 11 of the second are the scale with its sign. A plain `numeric` has
/// values of any scale.
fn numeric_kind(modifier: i32) -> ColumnKind {
    /// The offset of modifiers.
    const HEADER: i32 = 4;
    match modifier.checked_sub(HEADER) {
        Some(packed @ 0..) => {
            let scale = ((packed & 0x7ff) ^ 0x400) - 0x400;
            ColumnKind::decimal((packed >> 16) as u16, scale as i16)
        }
        _ => ColumnKind::Number,
    }
}

fn fixed<const N: usize>(field: &[u8]) -> Result<[u8; N], BadField> {
    field.try_into().map_err(|_| BadField::Malformed)
}

#[inline]
fn text(field: &[u8]) -> Result<&str, BadField> {
    if is_ascii(field) {
        #[expect(unsafe_code, reason = "the safe check is a call of its own, and a tenth of a row's time")]
        // SAFETY: ASCII is UTF-8.
        return Ok(unsafe { std::str::from_utf8_unchecked(field) });
    }
    std::str::from_utf8(field).map_err(|_| BadField::NotUtf8)
}

/// `[u8]::is_ascii` for short fields, as most are. It reads eight bytes at a time, and then the
/// last eight, which may overlap.
#[inline]
fn is_ascii(field: &[u8]) -> bool {
    let high = |bytes: &[u8; 8]| u64::from_ne_bytes(*bytes) & 0x8080_8080_8080_8080;
    match field.last_chunk() {
        Some(last) => field.as_chunks().0.iter().fold(high(last), |seen, word| seen | high(word)) == 0,
        None => field.iter().fold(0, |seen, byte| seen | byte) < 0x80,
    }
}

/// A timestamp from its microseconds since 2000-01-01.
#[inline]
fn timestamp<'a>(
    micros: i64,
    kind: fn(i64) -> Value<'static>,
    scratch: &'a mut Vec<u8>,
) -> Result<Value<'a>, BadField> {
    match micros {
        i64::MAX | i64::MIN => Ok(kind(micros)),
        _ => match micros.checked_add(EPOCH_MICROS) {
            Some(micros) => Ok(kind(micros)),
            None => far_timestamp(micros, kind, scratch),
        },
    }
}

/// The last 30 of PostgreSQL's years (294247 to 294276) exceed the 64 bits that count from 1970.
/// The calendar repeats every 400 years, so we write the text for 400 years earlier and correct the
/// year.
#[cold]
fn far_timestamp<'a>(
    micros: i64,
    kind: fn(i64) -> Value<'static>,
    scratch: &'a mut Vec<u8>,
) -> Result<Value<'a>, BadField> {
    const CYCLE_MICROS: i64 = 146_097 * 86_400_000_000;
    let before = micros.checked_sub(CYCLE_MICROS).and_then(|micros| micros.checked_add(EPOCH_MICROS));
    let mut written = Vec::new();
    write_value(kind(before.ok_or(BadField::Malformed)?), &mut written);
    let (year, rest) = text(&written)?.trim_matches('"').split_once('-').ok_or(BadField::Malformed)?;
    let year: u32 = year.parse().map_err(|_| BadField::Malformed)?;
    scratch.clear();
    scratch.extend_from_slice(format!("{}-{rest}", year + 400).as_bytes());
    Ok(Value::Text(text(scratch)?))
}

fn days_from_2000(days: i32) -> Result<i32, BadField> {
    match days {
        i32::MAX | i32::MIN => Ok(days),
        _ => days.checked_add(EPOCH_DAYS).ok_or(BadField::Malformed),
    }
}

fn time_of_day(micros: i64) -> Result<i64, BadField> {
    match micros {
        0..=86_400_000_000 => Ok(micros),
        _ => Err(BadField::Malformed),
    }
}

/// A DataRow in the connection's read buffer (PostgreSQL manual, "Message Formats"): the number of
/// fields, then for each field its length, -1 for NULL, and its bytes.
pub struct Row<'a> {
    pub(super) data: &'a [u8],
    pub(super) decoders: &'a [Decoder],
    pub(super) columns: &'a [Column],
    pub(super) scratch: &'a mut Vec<u8>,
}

impl DatabaseRow for Row<'_> {
    type Layout = Layout;

    #[inline]
    fn encode(self, encoder: &mut impl RowWriter, out: &mut Vec<u8>) -> Result<(), Error> {
        let (count, mut rest) = self.data.split_first_chunk::<2>().ok_or_else(malformed_row)?;
        if usize::from(u16::from_be_bytes(*count)) != self.decoders.len() {
            return Err(malformed_row());
        }
        let options = encoder.options();
        encoder.begin_row(out);
        for (index, decoder) in self.decoders.iter().enumerate() {
            let field;
            (field, rest) = split_field(rest).ok_or_else(malformed_row)?;
            let value = match field {
                Some(field) => {
                    let read = decoder.read(field, options, self.scratch);
                    read.map_err(|bad| bad_field(bad, self.columns, index))?
                }
                None => Value::Null,
            };
            encoder.value(value, out);
        }
        encoder.end_row(out);
        if rest.is_empty() { Ok(()) } else { Err(malformed_row()) }
    }

    fn layout(&self) -> Layout {
        let (decoders, columns) = (self.decoders.into(), self.columns.into());
        Layout { decoders, columns, scratch: Vec::new() }
    }

    fn bytes(&self) -> &[u8] {
        self.data
    }
}

/// The decoders and columns of rows that have left their connection's buffer.
pub struct Layout {
    decoders: Box<[Decoder]>,
    columns: Box<[Column]>,
    scratch: Vec<u8>,
}

impl RowLayout for Layout {
    type Row<'a> = Row<'a>;

    fn row<'a>(&'a mut self, data: &'a [u8]) -> Row<'a> {
        Row { data, decoders: &self.decoders, columns: &self.columns, scratch: &mut self.scratch }
    }
}

impl Row<'static> {
    /// Encodes DataRows of `columns`, of built-in types, without a session. `benches/micro` uses it
    /// to measure this path without a database and its sockets.
    #[doc(hidden)]
    pub fn encode_apart(
        columns: Vec<Column>,
        oids: &[u32],
    ) -> impl FnMut(&[u8], &mut RowEncoder, &mut Vec<u8>) -> Result<(), Error> + use<> {
        let types = Types::default().of_columns(oids.iter().copied());
        let decoders: Box<[Decoder]> = types.into_iter().map(|kind| kind.decoder).collect();
        let mut scratch = Vec::new();
        move |data, encoder, out| {
            Row { data, decoders: &decoders, columns: &columns, scratch: &mut scratch }.encode(encoder, out)
        }
    }
}

/// The next field (`None` for NULL) and the rest after it; `None` if the length is impossible.
#[inline]
fn split_field(rest: &[u8]) -> Option<(Option<&[u8]>, &[u8])> {
    let (length, rest) = rest.split_first_chunk::<4>()?;
    match i32::from_be_bytes(*length) {
        -1 => Some((None, rest)),
        length => {
            rest.split_at_checked(usize::try_from(length).ok()?).map(|(field, rest)| (Some(field), rest))
        }
    }
}

/// A field of a DataRow as text, for the few queries of our own. `None` if it's NULL or missing.
pub(super) fn text_field(data: &[u8], index: usize) -> Option<&str> {
    let mut rest = data.get(2..)?;
    for _ in 0..index {
        (_, rest) = split_field(rest)?;
    }
    std::str::from_utf8(split_field(rest)?.0?).ok()
}

#[cold]
fn malformed_row() -> Error {
    Error::protocol("the database sent a row whose counts and lengths do not add up")
}

#[cold]
fn bad_field(bad: BadField, columns: &[Column], index: usize) -> Error {
    let Column { name, type_name, .. } = &columns[index];
    match bad {
        BadField::NotUtf8 => Error::bad_value(format!("column `{name}` holds text that is not UTF-8")),
        BadField::Malformed => Error::protocol(format!(
            "the database sent a value for column `{name}` that isn't a valid {type_name}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_high_byte_is_seen_wherever_it_stands() {
        for length in 0..40 {
            let mut field = vec![b'a'; length];
            assert!(is_ascii(&field));
            for at in 0..length {
                field[at] = 0x80;
                assert!(!is_ascii(&field), "{at} of {length}");
                assert!(text(&field).is_err());
                field[at] = 0x7f;
            }
        }
    }

    #[test]
    fn infinities_keep_their_sign_and_the_ends_do_not_overflow() {
        let mut scratch = Vec::new();
        assert_eq!(timestamp(i64::MAX, Value::Timestamp, &mut scratch), Ok(Value::Timestamp(i64::MAX)));
        assert_eq!(timestamp(i64::MIN, Value::TimestampTz, &mut scratch), Ok(Value::TimestampTz(i64::MIN)));
        // PostgreSQL itself never sends it, but we mustn't fail.
        let far = timestamp(i64::MAX - 1, Value::TimestampTz, &mut scratch);
        assert_eq!(far, Ok(Value::Text("294277-01-09T04:00:54.775806Z")));
        assert_eq!(days_from_2000(i32::MIN), Ok(i32::MIN));
        assert_eq!(days_from_2000(i32::MAX - 1), Err(BadField::Malformed));
        assert_eq!(days_from_2000(0), Ok(10_957));
    }

    #[test]
    fn no_altered_row_is_read_beyond_its_end() {
        let columns = [
            Column { name: "a".into(), type_name: "int4".into(), kind: ColumnKind::Int32 },
            Column { name: "b".into(), type_name: "text".into(), kind: ColumnKind::Text },
        ];
        let row = [&[0, 2, 0, 0, 0, 4, 0, 0, 0, 7, 0, 0, 0, 2][..], b"hi"].concat();
        let encode = |data: &[u8]| {
            let (mut out, mut scratch) = (Vec::new(), Vec::new());
            let decoders = [Decoder::Int4, Decoder::Text];
            let row = Row { data, decoders: &decoders, columns: &columns, scratch: &mut scratch };
            row.encode(&mut RowEncoder::new(rowstream_encode::Shape::Lines, &columns), &mut out).map(|()| out)
        };
        assert_eq!(encode(&row).unwrap(), b"{\"a\":7,\"b\":\"hi\"}\n");
        for cut in 0..row.len() {
            assert!(encode(&row[..cut]).is_err(), "cut at {cut}");
        }
        for at in 0..row.len() {
            for byte in [0x00, 0x7f, 0x80, 0xff] {
                let mut altered = row.clone();
                altered[at] = byte;
                let _ = encode(&altered);
            }
        }
        assert!(encode(&[&row[..], b"x"].concat()).is_err());
    }
}
