//! Decodes rows of the binary protocol to [`Value`]s, in place.
//!
//! A row has a byte 0, a bit for each column that is set if it's NULL, and the other values in
//! sequence. The type determines a value's length.

mod bits;

use std::io::Write as _;

use rowstream_core::Error;
use rowstream_core::datetime::days;
use rowstream_database::json::is_document;
use rowstream_database::{DatabaseRow, RowLayout};
use rowstream_encode::{Column, ColumnKind, RowEncoder, RowWriter, Value, is_json_number};

pub(super) use self::bits::BitEncoding;
use self::bits::ComputedBits;
use super::packet::{Definition, Reader};

const SECOND: i64 = 1_000_000;
const DAY: i64 = 86_400 * SECOND;
/// The whole days of 838:59:59.
const LONGEST_TIME: i64 = 34;

/// The collation of a text column that contains bytes.
const BINARY: u16 = 63;
const UNSIGNED: u16 = 1 << 5;

/// The bits before the first column's in a row's map of NULLs.
const NULL_BITS_BEFORE: usize = 2;

/// The treatment of a date that no calendar has (`0000-00-00`, `2024-02-00`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ZeroDates {
    /// An error, because the database doesn't consider it NULL.
    Refuse,
    /// NULL, because the URL says so.
    Null,
}

/// The settings for values that a result's columns don't determine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DecodeSettings {
    pub(super) zero_dates: ZeroDates,
    pub(super) computed_bits: BitEncoding,
}

/// The beginning of the names of a cursor's columns, which are the last ones of a result.
const OF_CURSOR: &str = "rowstream_key_";

impl DecodeSettings {
    /// The treatment of a column's zero dates. The server sorts them as they're stored, so a cursor
    /// with NULL would point to another place.
    fn zero_dates_of(self, column: &Definition) -> ZeroDates {
        if column.name.starts_with(OF_CURSOR) { ZeroDates::Refuse } else { self.zero_dates }
    }
}

/// The decoder of a column, chosen once per statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decoder {
    Int1,
    UInt1,
    Int2,
    UInt2,
    Int4,
    UInt4,
    Int8,
    UInt8,
    Float4,
    Float8,
    Decimal {
        precision: u16,
        scale: u8,
    },
    /// Up to 64 bits, as a number.
    Bits,
    ComputedBits(ComputedBits),
    Text,
    /// MySQL's JSON, which the server has checked.
    Json,
    /// MariaDB's JSON, a text that may be invalid.
    JsonText,
    Bytes,
    Date(ZeroDates),
    Timestamp(ZeroDates),
    TimestampTz(ZeroDates),
    /// From -838:59:59 to 838:59:59.
    Time,
    /// NULL in each row.
    Null,
}

/// The reason why a value can't be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BadField {
    /// It's impossible for its type.
    Malformed,
    NotUtf8,
    ZeroDate,
    /// It could be bits or digits, or is neither.
    UnclearBits,
    NotJson,
}

impl Decoder {
    pub(super) fn of(column: &Definition, reading: DecodeSettings) -> Option<Self> {
        let zero_dates = || reading.zero_dates_of(column);
        let unsigned = column.flags & UNSIGNED != 0;
        let signed = |signed, other| if unsigned { other } else { signed };
        // The protocol's numbers of types (`enum_field_types`).
        Some(match column.kind {
            1 => signed(Self::Int1, Self::UInt1),
            // YEAR has two bytes, and is never signed.
            2 => signed(Self::Int2, Self::UInt2),
            13 => Self::UInt2,
            3 | 9 => signed(Self::Int4, Self::UInt4),
            8 => signed(Self::Int8, Self::UInt8),
            4 => Self::Float4,
            5 => Self::Float8,
            0 | 246 => decimal(column, unsigned),
            6 => Self::Null,
            7 | 17 => Self::TimestampTz(zero_dates()),
            10 | 14 => Self::Date(zero_dates()),
            11 | 19 => Self::Time,
            12 | 18 => Self::Timestamp(zero_dates()),
            16 => match ComputedBits::of(column, reading.computed_bits) {
                Some(computed) => Self::ComputedBits(computed),
                None => Self::Bits,
            },
            245 => Self::Json,
            255 => Self::Bytes,
            15 | 247..=254 if column.is_json => Self::JsonText,
            15 | 247..=254 if column.charset == BINARY => Self::Bytes,
            15 | 247..=254 => Self::Text,
            _ => return None,
        })
    }

    /// The decoder for a run of a statement that was described before. The rows of a `union all`
    /// are bits, but each run declares them as computed.
    pub(super) fn in_run(self, described: Option<&Self>, column: &Definition) -> Self {
        match (self, described) {
            (Self::ComputedBits(_), Some(Self::Bits)) if !column.has_table => Self::Bits,
            _ => self,
        }
    }

    /// The kind of a column's values. `bits` is the length of a column of bits.
    fn kind(self, bits: u32) -> ColumnKind {
        match self {
            Self::Int1 | Self::UInt1 | Self::Int2 => ColumnKind::Int16,
            Self::UInt2 | Self::Int4 => ColumnKind::Int32,
            Self::UInt4 | Self::Int8 => ColumnKind::Int64,
            Self::Bits | Self::ComputedBits(_) if bits < 64 => ColumnKind::Int64,
            Self::UInt8 | Self::Bits | Self::ComputedBits(_) => ColumnKind::decimal(20, 0),
            Self::Float4 => ColumnKind::Float32,
            Self::Float8 => ColumnKind::Float64,
            Self::Decimal { precision, scale } => ColumnKind::decimal(precision, scale.into()),
            // Arrow has no times beyond a day.
            Self::Text | Self::Time | Self::Null => ColumnKind::Text,
            Self::Json | Self::JsonText => ColumnKind::Json,
            Self::Bytes => ColumnKind::Bytes,
            Self::Date(_) => ColumnKind::Date,
            Self::Timestamp(_) => ColumnKind::Timestamp,
            Self::TimestampTz(_) => ColumnKind::TimestampTz,
        }
    }

    /// The column of a result.
    pub(super) fn column(self, definition: &Definition) -> Column {
        Column {
            name: definition.name.clone(),
            type_name: self.type_name(definition),
            kind: self.kind(definition.length),
        }
    }

    /// The database's name for the type.
    fn type_name(self, definition: &Definition) -> String {
        const ENUM: u16 = 1 << 8;
        const SET: u16 = 1 << 11;
        if !definition.data_type.is_empty() {
            return definition.data_type.clone();
        }
        let unsigned = if definition.flags & UNSIGNED != 0 { " unsigned" } else { "" };
        let name = match self {
            Self::Int1 | Self::UInt1 => "tinyint",
            Self::UInt2 if definition.kind == 13 => return "year".to_owned(),
            Self::Int2 | Self::UInt2 => "smallint",
            Self::Int4 | Self::UInt4 if definition.kind == 9 => "mediumint",
            Self::Int4 | Self::UInt4 => "int",
            Self::Int8 | Self::UInt8 => "bigint",
            Self::Float4 => "float",
            Self::Float8 => "double",
            Self::Decimal { precision, scale } => return format!("decimal({precision},{scale}){unsigned}"),
            Self::Bits | Self::ComputedBits(_) => return format!("bit({})", definition.length),
            Self::Text if definition.flags & ENUM != 0 => return "enum".to_owned(),
            Self::Text if definition.flags & SET != 0 => return "set".to_owned(),
            Self::Text if definition.kind == 254 => return format!("char({})", characters(definition)),
            Self::Text if definition.kind == 253 => return format!("varchar({})", characters(definition)),
            Self::Text => "text",
            Self::Json | Self::JsonText => "json",
            Self::Bytes if definition.kind == 255 => "geometry",
            Self::Bytes if definition.kind == 254 => "binary",
            Self::Bytes if definition.kind == 253 => "varbinary",
            Self::Bytes => "blob",
            Self::Date(_) => "date",
            Self::Timestamp(_) => "datetime",
            Self::TimestampTz(_) => "timestamp",
            Self::Time => "time",
            Self::Null => "null",
        };
        format!("{name}{unsigned}")
    }

    /// Reads the next value of a row. A number that doesn't fit a signed 64-bit integer is written
    /// to `scratch`.
    #[inline]
    fn read<'v, 'row: 'v>(
        self,
        row: &mut Reader<'row>,
        scratch: &'v mut Vec<u8>,
    ) -> Result<Value<'v>, BadField> {
        Ok(match self {
            Self::Int8 => Value::Int(i64::from_le_bytes(fixed(row)?)),
            Self::Int4 => Value::Int4(i32::from_le_bytes(fixed(row)?).into()),
            Self::UInt4 => Value::Int4(u32::from_le_bytes(fixed(row)?).into()),
            Self::Int2 => Value::Int4(i16::from_le_bytes(fixed(row)?).into()),
            Self::UInt2 => Value::Int4(u16::from_le_bytes(fixed(row)?).into()),
            Self::Int1 => Value::Int4(i8::from_le_bytes(fixed(row)?).into()),
            Self::UInt1 => Value::Int4(u8::from_le_bytes(fixed(row)?).into()),
            Self::UInt8 => unsigned(u64::from_le_bytes(fixed(row)?), scratch)?,
            Self::Text => Value::Text(text(field(row)?)?),
            Self::Timestamp(zero_dates) => timestamp(field_of_time(row)?, zero_dates, Value::Timestamp)?,
            Self::TimestampTz(zero_dates) => timestamp(field_of_time(row)?, zero_dates, Value::TimestampTz)?,
            Self::Date(zero_dates) => date(field_of_time(row)?, zero_dates)?,
            Self::Time => Value::Time(time(field_of_time(row)?)?),
            Self::Float4 => Value::Float4(f32::from_le_bytes(fixed(row)?)),
            Self::Float8 => Value::Float(f64::from_le_bytes(fixed(row)?)),
            Self::Decimal { .. } => number(text(field(row)?)?, scratch)?,
            Self::Json => Value::Json(text(field(row)?)?),
            Self::JsonText => document(text(field(row)?)?)?,
            Self::Bytes => Value::Bytes(field(row)?),
            Self::Bits => bits(field(row)?, scratch)?,
            Self::ComputedBits(computed) => computed_bits(computed, field(row)?, scratch)?,
            Self::Null => return Err(BadField::Malformed),
        })
    }
}

/// The number of characters of a text, from its bytes in the `utf8mb4` of our sessions.
fn characters(column: &Definition) -> u32 {
    column.length / 4
}

/// `decimal(precision, scale)` from the length of its longest text: digits, point and sign.
fn decimal(column: &Definition, unsigned: bool) -> Decoder {
    let around = u32::from(!unsigned) + u32::from(column.decimals > 0);
    let precision = u16::try_from(column.length.saturating_sub(around)).unwrap_or(u16::MAX);
    Decoder::Decimal { precision, scale: column.decimals }
}

fn fixed<const N: usize>(row: &mut Reader<'_>) -> Result<[u8; N], BadField> {
    row.fixed().ok_or(BadField::Malformed)
}

/// The bytes of a value, after their length.
#[inline]
fn field<'a>(row: &mut Reader<'a>) -> Result<&'a [u8], BadField> {
    row.text().ok_or(BadField::Malformed)
}

/// The bytes of a date or a time, after their length of one byte.
#[inline]
fn field_of_time<'a>(row: &mut Reader<'a>) -> Result<&'a [u8], BadField> {
    let length = row.u8().ok_or(BadField::Malformed)?;
    row.bytes(length.into()).ok_or(BadField::Malformed)
}

#[inline]
fn text(field: &[u8]) -> Result<&str, BadField> {
    std::str::from_utf8(field).map_err(|_| BadField::NotUtf8)
}

#[inline(never)]
fn document(text: &str) -> Result<Value<'_>, BadField> {
    if is_document(text) { Ok(Value::Json(text)) } else { Err(BadField::NotJson) }
}

fn unsigned(number: u64, scratch: &mut Vec<u8>) -> Result<Value<'_>, BadField> {
    match i64::try_from(number) {
        Ok(number) => Ok(Value::Int(number)),
        Err(_) => written(scratch, |out| write!(out, "{number}")),
    }
}

/// The bits of a column, the first byte the highest.
fn bits<'a>(field: &[u8], scratch: &'a mut Vec<u8>) -> Result<Value<'a>, BadField> {
    if field.len() > size_of::<u64>() {
        return Err(BadField::Malformed);
    }
    unsigned(bits::number(field), scratch)
}

#[inline(never)]
fn computed_bits<'a>(
    column: ComputedBits,
    field: &[u8],
    scratch: &'a mut Vec<u8>,
) -> Result<Value<'a>, BadField> {
    unsigned(column.read(field)?, scratch)
}

/// A decimal. With `ZEROFILL` it has leading zeros, which JSON's numbers can't have.
fn number<'a>(text: &'a str, scratch: &'a mut Vec<u8>) -> Result<Value<'a>, BadField> {
    if is_json_number(text.as_bytes()) {
        return Ok(Value::Number(text));
    }
    let digits = text.trim_start_matches('0');
    let zero = if digits.starts_with(|c: char| c.is_ascii_digit()) { "" } else { "0" };
    written(scratch, |out| write!(out, "{zero}{digits}"))
}

/// Writes a number to `scratch`.
fn written(
    scratch: &mut Vec<u8>,
    write: impl FnOnce(&mut Vec<u8>) -> std::io::Result<()>,
) -> Result<Value<'_>, BadField> {
    scratch.clear();
    write(scratch).map_err(|_| BadField::Malformed)?;
    match is_json_number(scratch) {
        true => Ok(Value::Number(text(scratch)?)),
        false => Err(BadField::Malformed),
    }
}

/// Year, month and day as days, and the rest. An empty field has none.
fn split_date(field: &[u8]) -> Result<(Option<i32>, &[u8]), BadField> {
    let Some(([y1, y2, month, day], rest)) = field.split_first_chunk() else {
        return if field.is_empty() { Ok((None, field)) } else { Err(BadField::Malformed) };
    };
    let year = u16::from_le_bytes([*y1, *y2]);
    match (year, month) {
        (0..=9999, 0..=12) => Ok((days(year.into(), (*month).into(), (*day).into()), rest)),
        _ => Err(BadField::Malformed),
    }
}

/// Hours below `hours`, minutes, seconds, and microseconds if present.
fn micros(field: &[u8], hours: u8) -> Result<i64, BadField> {
    let (hour, minute, second, micros) = match *field {
        [] => (0, 0, 0, 0),
        [hour, minute, second] => (hour, minute, second, 0),
        [hour, minute, second, a, b, c, d] => (hour, minute, second, u32::from_le_bytes([a, b, c, d])),
        _ => return Err(BadField::Malformed),
    };
    if hour >= hours || minute >= 60 || second >= 60 || micros >= 1_000_000 {
        return Err(BadField::Malformed);
    }
    let seconds = (i64::from(hour) * 60 + i64::from(minute)) * 60 + i64::from(second);
    Ok(seconds * SECOND + i64::from(micros))
}

fn date(field: &[u8], zero_dates: ZeroDates) -> Result<Value<'static>, BadField> {
    match split_date(field)? {
        (Some(days), _) => Ok(Value::Date(days)),
        (None, _) => no_date(zero_dates),
    }
}

#[inline]
fn timestamp(
    field: &[u8],
    zero_dates: ZeroDates,
    kind: fn(i64) -> Value<'static>,
) -> Result<Value<'static>, BadField> {
    match split_date(field)? {
        (Some(days), rest) => Ok(kind(i64::from(days) * DAY + micros(rest, 24)?)),
        (None, _) => no_date(zero_dates),
    }
}

#[cold]
fn no_date(zero_dates: ZeroDates) -> Result<Value<'static>, BadField> {
    match zero_dates {
        ZeroDates::Null => Ok(Value::Null),
        ZeroDates::Refuse => Err(BadField::ZeroDate),
    }
}

/// A sign, days, and the rest of a day.
fn time(field: &[u8]) -> Result<i64, BadField> {
    let Some(([sign, d1, d2, d3, d4], rest)) = field.split_first_chunk() else {
        return if field.is_empty() { Ok(0) } else { Err(BadField::Malformed) };
    };
    let days = i64::from(u32::from_le_bytes([*d1, *d2, *d3, *d4]));
    if days > LONGEST_TIME {
        return Err(BadField::Malformed);
    }
    let micros = days * DAY + micros(rest, 24)?;
    Ok(if *sign == 0 { micros } else { -micros })
}

/// A row in the connection's read buffer.
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
        let mut rest = Reader(self.data);
        rest.u8().ok_or_else(malformed_row)?;
        let nulls = (self.decoders.len() + NULL_BITS_BEFORE).div_ceil(8);
        let nulls = rest.bytes(nulls).ok_or_else(malformed_row)?;
        encoder.begin_row(out);
        for (index, decoder) in self.decoders.iter().enumerate() {
            let bit = index + NULL_BITS_BEFORE;
            let value = match nulls[bit / 8] >> (bit % 8) & 1 {
                0 => {
                    let read = decoder.read(&mut rest, self.scratch);
                    read.map_err(|bad| bad_field(bad, self.columns, index))?
                }
                _ => Value::Null,
            };
            encoder.value(value, out);
        }
        encoder.end_row(out);
        if rest.0.is_empty() { Ok(()) } else { Err(malformed_row()) }
    }

    fn layout(&self) -> Layout {
        Layout { decoders: self.decoders.into(), columns: self.columns.into(), scratch: Vec::new() }
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
    /// Encodes rows of `columns` with these definitions of the server, without a session.
    /// `benches/micro` uses it to measure this path without a database and its sockets.
    #[doc(hidden)]
    pub fn encode_apart(
        columns: Vec<Column>,
        definitions: &[Vec<u8>],
    ) -> impl FnMut(&[u8], &mut RowEncoder, &mut Vec<u8>) -> Result<(), Error> + use<> {
        let reading = DecodeSettings { zero_dates: ZeroDates::Refuse, computed_bits: BitEncoding::Either };
        let decoder = |body: &Vec<u8>| Decoder::of(&Definition::parse(body, true)?, reading);
        let decoders: Option<Box<[Decoder]>> = definitions.iter().map(decoder).collect();
        let mut scratch = Vec::new();
        move |data, encoder, out| {
            let decoders = decoders.as_deref().ok_or_else(malformed_row)?;
            Row { data, decoders, columns: &columns, scratch: &mut scratch }.encode(encoder, out)
        }
    }
}

#[cold]
fn malformed_row() -> Error {
    Error::protocol("the database sent a row that is not as long as its values")
}

#[cold]
fn bad_field(bad: BadField, columns: &[Column], index: usize) -> Error {
    let name = columns.get(index).map_or("", |column| &column.name);
    match bad {
        BadField::Malformed => Error::protocol(format!("a value in column `{name}` doesn't fit its type")),
        BadField::NotUtf8 => Error::bad_value(format!("a text in column `{name}` is not UTF-8"))
            .hint("select it as `cast(… as binary)` to see its bytes"),
        BadField::ZeroDate if name.starts_with(OF_CURSOR) => {
            Error::bad_value("a column that orders the pages contains an impossible date, such as 0000-00-00")
                .hint("leave such rows out, or sort by another column")
        }
        BadField::ZeroDate => {
            Error::bad_value(format!("column `{name}` contains an impossible date, such as 0000-00-00"))
                .hint("add `zero-dates=null` to the URL of the source to get NULL instead, or select its \
                    text, `concat(…)`")
        }
        BadField::UnclearBits => Error::bad_value(format!(
            "column `{name}` is a computed BIT, and the form in which the database sent this value isn't clear"
        ))
        .hint("select the number: `cast(… as unsigned)`"),
        BadField::NotJson => Error::bad_value(format!("column `{name}` is JSON, and a value of it isn't"))
            .hint("correct the value, or select its text: `cast(… as char)`. In `json_object` and its like, write `cast(… as unsigned)` for a BIT"),
    }
}

#[cfg(test)]
mod tests {
    use rowstream_encode::Shape;

    use super::*;

    fn encoded(decoder: Decoder, data: &[u8]) -> Result<String, Error> {
        let columns = [Column { name: "v".into(), type_name: String::new(), kind: ColumnKind::Text }];
        let mut encoder = RowEncoder::new(Shape::Scalar, &columns);
        let mut out = Vec::new();
        let data = [&[0, 0][..], data].concat();
        let row = Row { data: &data, decoders: &[decoder], columns: &columns, scratch: &mut Vec::new() };
        row.encode(&mut encoder, &mut out).map(|()| String::from_utf8(out).unwrap())
    }

    #[test]
    fn values_are_read() {
        use Decoder as D;
        const NONE: ZeroDates = ZeroDates::Null;
        let decimal = D::Decimal { precision: 5, scale: 2 };
        for (decoder, data, expected) in [
            (D::Int1, &b"\xff"[..], "-1"),
            (D::UInt1, b"\xff", "255"),
            (D::UInt2, b"\xff\xff", "65535"),
            (D::UInt4, b"\xff\xff\xff\xff", "4294967295"),
            (D::Int8, &[0xff; 8], "-1"),
            (D::UInt8, &[0xff; 8], "18446744073709551615"),
            (decimal, b"\x05-1.50", "-1.50"),
            (decimal, b"\x06001.50", "1.50"),
            (decimal, b"\x04000.", "\"\""),
            (D::Bits, b"\x02\x01\x02", "258"),
            (D::Text, b"\x03abc", "\"abc\""),
            (D::Date(NONE), b"\x04\xe8\x07\x02\x1d", "\"2024-02-29\""),
            (D::Date(NONE), b"\x04\xe8\x07\x02\x1e", "null"),
            (D::Date(NONE), b"\x00", "null"),
            (D::Timestamp(NONE), b"\x07\xe8\x07\x01\x02\x03\x04\x05", "\"2024-01-02T03:04:05\""),
            (D::Time, b"\x08\x01\x22\0\0\0\x16\x3b\x3b", "\"-838:59:59\""),
            (D::Time, b"\x00", "\"00:00:00\""),
        ] {
            match encoded(decoder, data) {
                Ok(json) => assert_eq!(json, expected, "{decoder:?} {data:?}"),
                Err(_) => assert_eq!(expected, "\"\"", "{decoder:?} {data:?}"),
            }
        }
    }

    #[test]
    fn what_is_cut_or_too_long_is_an_error() {
        for (decoder, data) in [
            (Decoder::Int8, &b"1234567"[..]),
            (Decoder::Int1, b"12"),
            (Decoder::Text, b"\x05abc"),
            (Decoder::Text, b"\x02\xc3\x28"),
            (Decoder::Text, b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff"),
            (Decoder::Time, b"\x08\x01\x22\0\0\0\x18\x3b\x3b"),
            (Decoder::Time, b"\x08\x01\xff\xff\xff\xff\x17\x3b\x3b"),
            (Decoder::Date(ZeroDates::Refuse), b"\x00"),
            (Decoder::Bits, b"\x09123456789"),
            (Decoder::Null, b""),
        ] {
            assert!(encoded(decoder, data).is_err(), "{decoder:?} {data:?}");
        }
    }
}
