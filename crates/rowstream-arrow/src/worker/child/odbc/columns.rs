//! The columns of a result: how to read each one, and its Arrow array.
//!
//! We read a decimal as text. Values without an exact Arrow type become texts: times of day
//! (durations in some databases), intervals, and timestamps with more than six digits, because
//! Arrow's nanoseconds end in 2262.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_array::builder::{
    BinaryBuilder, BooleanBuilder, Date32Builder, Float32Builder, Float64Builder, Int16Builder, Int32Builder,
    Int64Builder, StringBuilder, TimestampMicrosecondBuilder, UInt64Builder,
};
use arrow_schema::{DataType, Field};
use rowstream_database::json::is_document;

use super::super::super::frame::{Failed, Fault};
use super::api::ColumnDescription;
use super::c;
use crate::arrow_rows::{JSON, KIND, NUMBER};

/// How to read a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReadType {
    Bool,
    Int16,
    Int32,
    Int64,
    UInt64,
    Float32,
    Float64,
    Text,
    /// A decimal, with its precision and scale if the database enforces them.
    Number(Option<(u16, i16)>),
    Json,
    /// A UUID as text. Some drivers write it in capital letters.
    Uuid,
    Bytes,
    Date,
    Timestamp,
    /// A timestamp with nanoseconds, as text.
    Nanoseconds,
}

impl ReadType {
    /// Chooses how to read a column. `keeps_decimals`: the database limits decimals to the digits
    /// of their column.
    pub(super) fn of(column: &ColumnDescription, keeps_decimals: bool) -> Self {
        match column.type_name.as_str() {
            "bool" | "boolean" => return Self::Bool,
            "json" | "jsonb" => return Self::Json,
            _ => {}
        }
        match column.sql_type {
            -7 if column.size <= 1 => Self::Bool,
            -6 | 5 if column.is_unsigned => Self::Int32,
            -6 | 5 => Self::Int16,
            4 if column.is_unsigned => Self::Int64,
            4 => Self::Int32,
            -5 if column.is_unsigned => Self::UInt64,
            -5 => Self::Int64,
            7 => Self::Float32,
            6 | 8 => Self::Float64,
            2 | 3 => {
                let size = u16::try_from(column.size).ok().filter(|_| keeps_decimals);
                Self::Number(size.map(|size| (size, column.digits)))
            }
            -7 | -2 | -3 | -4 => Self::Bytes,
            -11 => Self::Uuid,
            9 | 91 => Self::Date,
            11 | 93 if column.digits > 6 => Self::Nanoseconds,
            11 | 93 => Self::Timestamp,
            _ => Self::Text,
        }
    }

    /// Returns the C type to read it as.
    pub(super) fn c_type(self) -> i16 {
        match self {
            Self::Bool => c::BIT,
            Self::Int16 | Self::Int32 | Self::Int64 => c::BIGINT,
            Self::UInt64 => c::UBIGINT,
            // Not SQL_C_FLOAT: MariaDB's driver writes arrays of it with eight bytes per value.
            Self::Float32 | Self::Float64 => c::DOUBLE,
            Self::Text | Self::Number(_) | Self::Json | Self::Uuid => c::WCHAR,
            Self::Bytes => c::BINARY,
            Self::Date => c::DATE,
            Self::Timestamp | Self::Nanoseconds => c::TIMESTAMP,
        }
    }

    /// Returns the number of bytes of a value, if all values have the same.
    pub(super) fn fixed(self) -> Option<usize> {
        match self {
            Self::Bool => Some(1),
            Self::Date => Some(6),
            Self::Int16 | Self::Int32 | Self::Int64 | Self::UInt64 | Self::Float32 | Self::Float64 => Some(8),
            Self::Timestamp | Self::Nanoseconds => Some(16),
            Self::Text | Self::Number(_) | Self::Json | Self::Uuid | Self::Bytes => None,
        }
    }

    /// Returns the length of the zero that a driver writes after a text.
    pub(super) fn terminator(self) -> usize {
        if self.c_type() == c::WCHAR { 2 } else { 0 }
    }

    /// Returns the column's field.
    pub(super) fn field(self, name: &str) -> Field {
        let said = match self {
            Self::Number(Some((precision, scale))) => Some(format!("{precision},{scale}")),
            Self::Number(None) => Some(NUMBER.to_owned()),
            Self::Json => Some(JSON.to_owned()),
            _ => None,
        };
        let said: HashMap<_, _> = said.map(|said| (KIND.to_owned(), said)).into_iter().collect();
        Field::new(name, self.data_type(), true).with_metadata(said)
    }

    fn data_type(self) -> DataType {
        match self {
            Self::Bool => DataType::Boolean,
            Self::Int16 => DataType::Int16,
            Self::Int32 => DataType::Int32,
            Self::Int64 => DataType::Int64,
            Self::UInt64 => DataType::UInt64,
            Self::Float32 => DataType::Float32,
            Self::Float64 => DataType::Float64,
            Self::Text | Self::Number(_) | Self::Json | Self::Uuid | Self::Nanoseconds => DataType::Utf8,
            Self::Bytes => DataType::Binary,
            Self::Date => DataType::Date32,
            Self::Timestamp => DataType::Timestamp(arrow_schema::TimeUnit::Microsecond, None),
        }
    }

    /// Returns an empty builder for its values.
    pub(super) fn values(self) -> Values {
        match self {
            Self::Bool => Values::Bool(BooleanBuilder::new()),
            Self::Int16 => Values::Int16(Int16Builder::new()),
            Self::Int32 => Values::Int32(Int32Builder::new()),
            Self::Int64 => Values::Int64(Int64Builder::new()),
            Self::UInt64 => Values::UInt64(UInt64Builder::new()),
            Self::Float32 => Values::Float32(Float32Builder::new()),
            Self::Float64 => Values::Float64(Float64Builder::new()),
            Self::Text => Values::Text(StringBuilder::new(), String::new(), Check::Nothing),
            Self::Number(_) => Values::Text(StringBuilder::new(), String::new(), Check::Number),
            Self::Json => Values::Text(StringBuilder::new(), String::new(), Check::Json),
            Self::Uuid => Values::Text(StringBuilder::new(), String::new(), Check::Uuid),
            Self::Bytes => Values::Bytes(BinaryBuilder::new()),
            Self::Date => Values::Date(Date32Builder::new()),
            Self::Timestamp => Values::Timestamp(TimestampMicrosecondBuilder::new()),
            Self::Nanoseconds => Values::Nanoseconds(StringBuilder::new()),
        }
    }
}

/// The check of a text.
#[derive(Debug, Clone, Copy)]
pub(super) enum Check {
    Nothing,
    Number,
    Json,
    Uuid,
}

/// The values of a column.
pub(super) enum Values {
    Bool(BooleanBuilder),
    Int16(Int16Builder),
    Int32(Int32Builder),
    Int64(Int64Builder),
    UInt64(UInt64Builder),
    Float32(Float32Builder),
    Float64(Float64Builder),
    /// The texts, and a buffer for decoding one.
    Text(StringBuilder, String, Check),
    Bytes(BinaryBuilder),
    Date(Date32Builder),
    Timestamp(TimestampMicrosecondBuilder),
    Nanoseconds(StringBuilder),
}

impl Values {
    /// Adds NULL.
    pub(super) fn push_null(&mut self) {
        match self {
            Self::Bool(values) => values.append_null(),
            Self::Int16(values) => values.append_null(),
            Self::Int32(values) => values.append_null(),
            Self::Int64(values) => values.append_null(),
            Self::UInt64(values) => values.append_null(),
            Self::Float32(values) => values.append_null(),
            Self::Float64(values) => values.append_null(),
            Self::Text(values, ..) | Self::Nanoseconds(values) => values.append_null(),
            Self::Bytes(values) => values.append_null(),
            Self::Date(values) => values.append_null(),
            Self::Timestamp(values) => values.append_null(),
        }
    }

    /// Adds a value in the form that the driver wrote.
    ///
    /// # Errors
    /// The value isn't of the column's type.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<(), Failed> {
        match self {
            Self::Bool(values) => values.append_value(bytes.first().is_some_and(|byte| *byte != 0)),
            Self::Int16(values) => values.append_value(integer(bytes)?),
            Self::Int32(values) => values.append_value(integer(bytes)?),
            Self::Int64(values) => values.append_value(integer(bytes)?),
            Self::UInt64(values) => values.append_value(u64::from_ne_bytes(part(bytes, 0)?)),
            Self::Float32(values) => values.append_value(f64::from_ne_bytes(part(bytes, 0)?) as f32),
            Self::Float64(values) => values.append_value(f64::from_ne_bytes(part(bytes, 0)?)),
            Self::Text(values, text, check) => {
                text.clear();
                decode(bytes, text)?;
                check.check(text)?;
                values.append_value(text);
            }
            Self::Bytes(values) => values.append_value(bytes),
            Self::Date(values) => values.append_value(days(date(bytes)?)?),
            Self::Timestamp(values) => {
                let (date, nanos) = (date(bytes)?, nanos_of_day(bytes)?);
                values.append_value(i64::from(days(date)?) * MICROS_PER_DAY + nanos / 1000);
            }
            Self::Nanoseconds(values) => values.append_value(nanosecond_text(bytes)?),
        }
        Ok(())
    }

    /// Returns the array of the added values, and empties the builder.
    pub(super) fn finish(&mut self) -> ArrayRef {
        match self {
            Self::Bool(values) => Arc::new(values.finish()),
            Self::Int16(values) => Arc::new(values.finish()),
            Self::Int32(values) => Arc::new(values.finish()),
            Self::Int64(values) => Arc::new(values.finish()),
            Self::UInt64(values) => Arc::new(values.finish()),
            Self::Float32(values) => Arc::new(values.finish()),
            Self::Float64(values) => Arc::new(values.finish()),
            Self::Text(values, ..) | Self::Nanoseconds(values) => Arc::new(values.finish()),
            Self::Bytes(values) => Arc::new(values.finish()),
            Self::Date(values) => Arc::new(values.finish()),
            Self::Timestamp(values) => Arc::new(values.finish()),
        }
    }
}

impl Check {
    /// Checks the text, and normalizes it.
    fn check(self, text: &mut String) -> Result<(), Failed> {
        match self {
            Self::Nothing => Ok(()),
            Self::Number => number(text),
            Self::Uuid => {
                text.make_ascii_lowercase();
                Ok(())
            }
            Self::Json if is_document(text) => Ok(()),
            Self::Json => Err(unlike("a text that isn't a valid JSON document")),
        }
    }
}

const MICROS_PER_DAY: i64 = 86_400_000_000;

/// Converts UTF-16 to UTF-8.
fn decode(bytes: &[u8], text: &mut String) -> Result<(), Failed> {
    let units = bytes.as_chunks::<2>().0.iter().map(|unit| u16::from_ne_bytes(*unit));
    text.reserve(bytes.len() / 2);
    if units.clone().all(|unit| unit < 0x80) {
        text.extend(units.map(|unit| char::from(unit as u8)));
        return Ok(());
    }
    for character in char::decode_utf16(units) {
        text.push(character.map_err(|_| unlike("a text that is not UTF-16"))?);
    }
    Ok(())
}

fn integer<T: TryFrom<i64>>(bytes: &[u8]) -> Result<T, Failed> {
    let value = i64::from_ne_bytes(part(bytes, 0)?);
    T::try_from(value).map_err(|_| unlike("an integer out of the range of its column's type"))
}

/// Normalizes a decimal for JSON: some drivers write `.5` and `12.`. `NaN` and infinities stay as
/// texts.
fn number(text: &mut String) -> Result<(), Failed> {
    if matches!(text.as_str(), "NaN" | "Infinity" | "-Infinity") {
        return Ok(());
    }
    let (sign, digits) = text.strip_prefix('-').map_or(("", &**text), |digits| ("-", digits));
    let (whole, places) = digits.split_once('.').unwrap_or((digits, ""));
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.len() + places.len() == 0 || !is_digits(whole) || !is_digits(places) {
        return Err(unlike("a decimal that isn't a valid number"));
    }
    let is_plain = (whole == "0" || !whole.is_empty() && !whole.starts_with('0'))
        && (!places.is_empty() || !digits.ends_with('.'));
    if !is_plain {
        let whole = whole.trim_start_matches('0');
        let whole = if whole.is_empty() { "0" } else { whole };
        let point = if places.is_empty() { "" } else { "." };
        *text = format!("{sign}{whole}{point}{places}");
    }
    Ok(())
}

/// Returns `N` bytes at `at`.
fn part<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N], Failed> {
    let part = bytes.get(at..).and_then(<[u8]>::first_chunk);
    part.copied().ok_or_else(|| unlike("too few bytes for a value"))
}

/// Reads the date at the start of `SQL_DATE_STRUCT` and `SQL_TIMESTAMP_STRUCT`.
fn date(bytes: &[u8]) -> Result<jiff::civil::Date, Failed> {
    let year = i16::from_ne_bytes(part(bytes, 0)?);
    let [month, day] = [2, 4].map(|at| part(bytes, at).map(i16::from_ne_bytes));
    let (month, day) = (i8::try_from(month?), i8::try_from(day?));
    let date =
        month.ok().zip(day.ok()).and_then(|(month, day)| jiff::civil::Date::new(year, month, day).ok());
    date.ok_or_else(|| unlike("an impossible date"))
}

fn days(date: jiff::civil::Date) -> Result<i32, Failed> {
    let span = jiff::civil::date(1970, 1, 1).until(date);
    span.map(|span| span.get_days()).map_err(|_| unlike("an impossible date"))
}

/// Reads the time in `SQL_TIMESTAMP_STRUCT`, in nanoseconds.
fn nanos_of_day(bytes: &[u8]) -> Result<i64, Failed> {
    let mut seconds = 0;
    for at in [6, 8, 10] {
        seconds = seconds * 60 + i64::from(u16::from_ne_bytes(part(bytes, at)?));
    }
    Ok(seconds * 1_000_000_000 + i64::from(u32::from_ne_bytes(part(bytes, 12)?)))
}

/// Formats an ISO 8601 text with all digits of the timestamp.
fn nanosecond_text(bytes: &[u8]) -> Result<String, Failed> {
    let (date, nanos) = (date(bytes)?, nanos_of_day(bytes)?);
    let time = jiff::civil::Time::midnight().checked_add(jiff::SignedDuration::from_nanos(nanos));
    let time = time.map_err(|_| unlike("an impossible time"))?;
    Ok(date.to_datetime(time).to_string())
}

fn unlike(what: &str) -> Failed {
    Failed { fault: Fault::Data, message: format!("the driver sent {what}"), sqlstate: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_plain() {
        for (written, expected) in [
            ("0", "0"),
            ("-1", "-1"),
            ("12.50", "12.50"),
            ("-0.5", "-0.5"),
            (".5", "0.5"),
            ("-.50", "-0.50"),
            ("12.", "12"),
            ("007.1", "7.1"),
            ("NaN", "NaN"),
        ] {
            let mut text = written.to_owned();
            assert!(number(&mut text).is_ok(), "{written}");
            assert_eq!(text, expected);
        }
        for bad in ["", "-", ".", "1e5", "1,5", "+1", "nan"] {
            assert!(number(&mut bad.to_owned()).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_driver_that_lies_about_lengths_is_found_out() {
        let mut values = ReadType::Int64.values();
        assert!(values.push(&[1, 2, 3]).is_err());
        assert!(values.push(&7_i64.to_ne_bytes()).is_ok());
        assert_eq!(values.finish().len(), 1);
    }
}
