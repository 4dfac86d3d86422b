//! Converts Arrow's arrays to [`Value`]s, and its types to columns.
//!
//! Nested values (lists, structs, maps, unions) become JSON documents. No decimal passes through a
//! float. A time that doesn't fit in microseconds becomes a text with all its digits.

use std::fmt::Write as _;

use arrow_array::cast::AsArray as _;
use arrow_array::types::{
    ArrowDictionaryKeyType, Date32Type, Date64Type, Decimal32Type, Decimal64Type, Decimal128Type,
    Decimal256Type, DurationMicrosecondType, DurationMillisecondType, DurationNanosecondType,
    DurationSecondType, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    IntervalDayTimeType, IntervalMonthDayNanoType, IntervalYearMonthType, RunEndIndexType,
    Time32MillisecondType, Time32SecondType, Time64MicrosecondType, Time64NanosecondType,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType};
use arrow_schema::{DataType, Field, IntervalUnit, TimeUnit};
use rowstream_core::Error;
use rowstream_database::json::is_document;
use rowstream_encode::{Column, ColumnKind, Value, write_value};

/// The column of a field.
pub(crate) fn column(field: &Field) -> Column {
    let said = field.metadata().get(KIND).map(|said| said_kind(said));
    let said = said.or(is_uuid(field).then_some(ColumnKind::Uuid));
    Column {
        name: field.name().clone(),
        type_name: type_name(field),
        kind: said.unwrap_or_else(|| kind(field.data_type())),
    }
}

/// The name of a field's type.
pub(super) fn type_name(field: &Field) -> String {
    match field.metadata().get(KIND) {
        Some(said) if said == BIGNUM => BIGNUM.to_owned(),
        _ => field.data_type().to_string(),
    }
}

/// Returns true if the field's extension type says that its bytes are a UUID.
fn is_uuid(field: &Field) -> bool {
    field.extension_type_name() == Some("arrow.uuid") && *field.data_type() == DataType::FixedSizeBinary(16)
}

/// The kind of texts, from the metadata that a driver process adds.
fn said_kind(said: &str) -> ColumnKind {
    match said.split_once(',') {
        Some((precision, scale)) => {
            ColumnKind::decimal(precision.parse().unwrap_or(u16::MAX), scale.parse().unwrap_or(0))
        }
        None if said == JSON => ColumnKind::Json,
        None => ColumnKind::Number,
    }
}

/// The precision and scale of texts that a driver process declares as decimals, if they fit in
/// Arrow's types.
pub(super) fn decimal_kind(said: &str) -> Option<(u8, i8)> {
    match said_kind(said) {
        ColumnKind::Decimal { precision, scale } => Some((precision, scale.cast_signed())),
        _ => None,
    }
}

/// The key of a field's metadata. Its value declares a kind of text: [`JSON`], `number`, [`BIGNUM`], or a
/// decimal's `precision,scale`.
pub(crate) const KIND: &str = "rowstream.kind";
/// Texts that are JSON documents.
pub(crate) const JSON: &str = "json";
/// Texts that are decimals of any length.
#[cfg(feature = "odbc")]
pub(crate) const NUMBER: &str = "number";
/// The same for a `bignum` of DuckDB, which compares it only with others.
pub(crate) const BIGNUM: &str = "bignum";

/// Converts a text to the kind that its field's metadata declares, if the text is valid. We check,
/// because a driver or server can declare any text. Converts the bytes of a UUID, too.
#[inline]
pub(super) fn of_kind(value: Value<'_>, kind: ColumnKind) -> Value<'_> {
    match (value, kind) {
        (Value::Text(text), ColumnKind::Json) if is_document(text) => Value::Json(text),
        (Value::Text(text), ColumnKind::Number | ColumnKind::Decimal { .. }) if is_number(text) => {
            Value::Number(text)
        }
        (Value::Bytes(bytes), ColumnKind::Uuid) => bytes.try_into().map_or(value, Value::Uuid),
        (value, _) => value,
    }
}

/// Returns true if a text declared as a decimal is a number, not `NaN`.
pub(super) fn is_number(text: &str) -> bool {
    text.ends_with(|last: char| last.is_ascii_digit())
}

fn kind(data_type: &DataType) -> ColumnKind {
    match data_type {
        DataType::Boolean => ColumnKind::Bool,
        DataType::Int8 | DataType::Int16 | DataType::UInt8 => ColumnKind::Int16,
        DataType::Int32 | DataType::UInt16 => ColumnKind::Int32,
        DataType::Int64 | DataType::UInt32 => ColumnKind::Int64,
        DataType::UInt64 => ColumnKind::decimal(20, 0),
        DataType::Float16 | DataType::Float32 => ColumnKind::Float32,
        DataType::Float64 => ColumnKind::Float64,
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => {
            ColumnKind::decimal(u16::from(*precision), i16::from(*scale))
        }
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            ColumnKind::Bytes
        }
        DataType::Date32 | DataType::Date64 => ColumnKind::Date,
        DataType::Time32(_) | DataType::Time64(_) => ColumnKind::Time,
        DataType::Timestamp(_, None) => ColumnKind::Timestamp,
        DataType::Timestamp(_, Some(_)) => ColumnKind::TimestampTz,
        DataType::Dictionary(_, values) => kind(values),
        DataType::RunEndEncoded(_, values) => kind(values.data_type()),
        data_type if data_type.is_nested() => ColumnKind::Json,
        _ => ColumnKind::Text,
    }
}

/// The value of `array` in `row`. If the array doesn't contain its final form, that is written to
/// `text`, which must be empty.
///
/// # Errors
/// A time is outside of the range of [`Value`].
///
/// # Panics
/// The array has no such row.
#[inline]
pub(super) fn value<'a>(array: &'a ArrayRef, row: usize, text: &'a mut String) -> Result<Value<'a>, Error> {
    if array.is_null(row) {
        return Ok(Value::Null);
    }
    Ok(match array.data_type() {
        DataType::Null => Value::Null,
        DataType::Boolean => Value::Bool(array.as_boolean().value(row)),
        DataType::Int8 => Value::Int4(at::<Int8Type>(array, row).into()),
        DataType::Int16 => Value::Int4(at::<Int16Type>(array, row).into()),
        DataType::Int32 => Value::Int4(at::<Int32Type>(array, row).into()),
        DataType::Int64 => Value::Int(at::<Int64Type>(array, row)),
        DataType::UInt8 => Value::Int4(at::<UInt8Type>(array, row).into()),
        DataType::UInt16 => Value::Int4(at::<UInt16Type>(array, row).into()),
        DataType::UInt32 => Value::Int(at::<UInt32Type>(array, row).into()),
        DataType::UInt64 => match i64::try_from(at::<UInt64Type>(array, row)) {
            Ok(value) => Value::Int(value),
            Err(_) => number(at::<UInt64Type>(array, row), text),
        },
        DataType::Float16 => Value::Float4(at::<Float16Type>(array, row).to_f32()),
        DataType::Float32 => Value::Float4(at::<Float32Type>(array, row)),
        DataType::Float64 => Value::Float(at::<Float64Type>(array, row)),
        DataType::Decimal32(_, scale) => decimal(at::<Decimal32Type>(array, row).into(), *scale, text),
        DataType::Decimal64(_, scale) => decimal(at::<Decimal64Type>(array, row).into(), *scale, text),
        DataType::Decimal128(_, scale) => decimal(at::<Decimal128Type>(array, row), *scale, text),
        DataType::Decimal256(_, scale) => match at::<Decimal256Type>(array, row).to_i128() {
            Some(units) => decimal(units, *scale, text),
            None => {
                *text = array.as_primitive::<Decimal256Type>().value_as_string(row);
                Value::Number(text)
            }
        },
        DataType::Utf8 => Value::Text(array.as_string::<i32>().value(row)),
        DataType::LargeUtf8 => Value::Text(array.as_string::<i64>().value(row)),
        DataType::Utf8View => Value::Text(array.as_string_view().value(row)),
        DataType::Binary => Value::Bytes(array.as_binary::<i32>().value(row)),
        DataType::LargeBinary => Value::Bytes(array.as_binary::<i64>().value(row)),
        DataType::BinaryView => Value::Bytes(array.as_binary_view().value(row)),
        DataType::FixedSizeBinary(_) => Value::Bytes(array.as_fixed_size_binary().value(row)),
        DataType::Date32 => date(at::<Date32Type>(array, row)),
        DataType::Date64 => {
            let days = at::<Date64Type>(array, row).div_euclid(MILLIS_PER_DAY);
            Value::Date(i32::try_from(days).map_err(|_| out_of_range())?)
        }
        DataType::Time32(_) | DataType::Time64(_) => time(array, row, text),
        DataType::Timestamp(unit, zone) => timestamp(array, row, *unit, zone.is_some(), text)?,
        DataType::Duration(unit) => duration(array, row, *unit, text),
        DataType::Interval(unit) => interval(array, row, *unit, text),
        DataType::Dictionary(keys, _) => {
            return value(array.as_any_dictionary().values(), key_at(keys, array, row), text);
        }
        DataType::RunEndEncoded(ends, _) => {
            let (values, run) = of_run(ends.data_type(), array, row);
            return value(values, run, text);
        }
        // Unions have no NULLs themselves: a value is NULL if its member is.
        DataType::Union(..) if is_null_member(array, row) => Value::Null,
        _ => {
            let mut json = std::mem::take(text).into_bytes();
            write_json(array, row, &mut json)?;
            *text = String::from_utf8(json).expect("JSON is written of texts");
            Value::Json(text)
        }
    })
}

const MILLIS_PER_DAY: i64 = 86_400_000;

#[inline]
fn at<T: ArrowPrimitiveType>(array: &ArrayRef, row: usize) -> T::Native {
    array.as_primitive::<T>().value(row)
}

fn number(value: u64, text: &mut String) -> Value<'_> {
    let _ = write!(text, "{value}");
    Value::Number(text)
}

/// Converts one of Arrow's decimals, an integer. `scale` digits are after the point. If `scale` is
/// negative, that many zeros follow the digits instead.
pub(super) fn decimal(units: i128, scale: i8, text: &mut String) -> Value<'_> {
    // Few values need more than 64 bits, which are formatted faster.
    let _ = match i64::try_from(units) {
        Ok(units) => write!(text, "{units}"),
        Err(_) => write!(text, "{units}"),
    };
    let first = usize::from(text.starts_with('-'));
    match usize::try_from(scale) {
        Ok(0) => {}
        Ok(places) => {
            while text.len() - first <= places {
                text.insert(first, '0');
            }
            text.insert(text.len() - places, '.');
        }
        // JSON doesn't allow `000` as a number.
        Err(_) if text == "0" => {}
        Err(_) => text.extend(std::iter::repeat_n('0', scale.unsigned_abs().into())),
    }
    Value::Number(text)
}

/// A time in microseconds, or a text if it needs nine digits.
fn time<'a>(array: &ArrayRef, row: usize, text: &'a mut String) -> Value<'a> {
    Value::Time(match array.data_type() {
        DataType::Time32(TimeUnit::Second) => i64::from(at::<Time32SecondType>(array, row)) * 1_000_000,
        DataType::Time32(_) => i64::from(at::<Time32MillisecondType>(array, row)) * 1000,
        DataType::Time64(TimeUnit::Nanosecond) => {
            let nanos = at::<Time64NanosecondType>(array, row);
            if nanos % 1000 != 0 {
                let (seconds, nanos) = (nanos.div_euclid(1_000_000_000), nanos.rem_euclid(1_000_000_000));
                let (minutes, seconds) = (seconds.div_euclid(60), seconds.rem_euclid(60));
                let (hours, minutes) = (minutes.div_euclid(60), minutes.rem_euclid(60));
                let _ = write!(text, "{hours:02}:{minutes:02}:{seconds:02}.{nanos:09}");
                return Value::Text(text);
            }
            nanos / 1000
        }
        _ => at::<Time64MicrosecondType>(array, row),
    })
}

/// A date. DuckDB's infinities are the largest number and its negative.
#[inline]
pub(super) fn date<'a>(days: i32) -> Value<'a> {
    Value::Date(if days == -i32::MAX { i32::MIN } else { days })
}

/// A timestamp in microseconds, with the same infinities.
#[inline]
pub(super) fn timestamp_of<'a>(micros: i64) -> Value<'a> {
    Value::Timestamp(if micros == -i64::MAX { i64::MIN } else { micros })
}

/// The same for an instant.
#[inline]
pub(super) fn timestamp_tz_of<'a>(micros: i64) -> Value<'a> {
    Value::TimestampTz(if micros == -i64::MAX { i64::MIN } else { micros })
}

/// Returns true for a timestamp of any unit that is an infinity.
fn is_infinite(timestamp: i64) -> bool {
    timestamp == i64::MAX || timestamp == -i64::MAX
}

/// A timestamp in microseconds, or a text if it needs nine digits.
fn timestamp<'a>(
    array: &ArrayRef,
    row: usize,
    unit: TimeUnit,
    is_zoned: bool,
    text: &'a mut String,
) -> Result<Value<'a>, Error> {
    let value = match unit {
        TimeUnit::Second => at::<TimestampSecondType>(array, row),
        TimeUnit::Millisecond => at::<TimestampMillisecondType>(array, row),
        TimeUnit::Microsecond => at::<TimestampMicrosecondType>(array, row),
        TimeUnit::Nanosecond => at::<TimestampNanosecondType>(array, row),
    };
    let micros = match unit {
        _ if is_infinite(value) => Some(value),
        TimeUnit::Second => value.checked_mul(1_000_000),
        TimeUnit::Millisecond => value.checked_mul(1000),
        TimeUnit::Nanosecond if value % 1000 != 0 => {
            let instant = jiff::Timestamp::from_nanosecond(value.into()).map_err(|_| out_of_range())?;
            let local = instant.to_zoned(jiff::tz::TimeZone::UTC).datetime();
            let _ = if is_zoned { write!(text, "{instant:.9}") } else { write!(text, "{local:.9}") };
            return Ok(Value::Text(text));
        }
        TimeUnit::Microsecond => Some(value),
        TimeUnit::Nanosecond => Some(value / 1000),
    };
    let micros = micros.ok_or_else(out_of_range)?;
    Ok(if is_zoned { timestamp_tz_of(micros) } else { timestamp_of(micros) })
}

/// An ISO 8601 duration, in seconds.
fn duration<'a>(array: &ArrayRef, row: usize, unit: TimeUnit, text: &'a mut String) -> Value<'a> {
    let nanos = match unit {
        TimeUnit::Second => i128::from(at::<DurationSecondType>(array, row)) * 1_000_000_000,
        TimeUnit::Millisecond => i128::from(at::<DurationMillisecondType>(array, row)) * 1_000_000,
        TimeUnit::Microsecond => i128::from(at::<DurationMicrosecondType>(array, row)) * 1000,
        TimeUnit::Nanosecond => at::<DurationNanosecondType>(array, row).into(),
    };
    iso(0, 0, nanos, text)
}

fn interval<'a>(array: &ArrayRef, row: usize, unit: IntervalUnit, text: &'a mut String) -> Value<'a> {
    let (months, days, nanos) = match unit {
        IntervalUnit::YearMonth => (at::<IntervalYearMonthType>(array, row), 0, 0),
        IntervalUnit::DayTime => {
            let value = at::<IntervalDayTimeType>(array, row);
            (0, value.days, i128::from(value.milliseconds) * 1_000_000)
        }
        IntervalUnit::MonthDayNano => {
            let value = at::<IntervalMonthDayNanoType>(array, row);
            (value.months, value.days, value.nanoseconds.into())
        }
    };
    iso(months, days, nanos, text)
}

/// An ISO 8601 duration: `P14M3DT-1.5S`.
fn iso(months: i32, days: i32, nanos: i128, text: &mut String) -> Value<'_> {
    text.push('P');
    if months != 0 {
        let _ = write!(text, "{months}M");
    }
    if days != 0 {
        let _ = write!(text, "{days}D");
    }
    if nanos != 0 || text.len() == 1 {
        let (sign, nanos) = (if nanos < 0 { "-" } else { "" }, nanos.unsigned_abs());
        let fraction = format!(".{:09}", nanos % 1_000_000_000);
        let fraction = fraction.trim_end_matches('0').trim_end_matches('.');
        let _ = write!(text, "T{sign}{}{fraction}S", nanos / 1_000_000_000);
    }
    Value::Text(text)
}

/// Writes a value as JSON, including nested values.
pub(super) fn write_json(array: &ArrayRef, row: usize, out: &mut Vec<u8>) -> Result<(), Error> {
    if array.is_null(row) {
        write_value(Value::Null, out);
        return Ok(());
    }
    match array.data_type() {
        DataType::List(_) => write_list(&array.as_list::<i32>().value(row), out),
        DataType::LargeList(_) => write_list(&array.as_list::<i64>().value(row), out),
        DataType::FixedSizeList(..) => write_list(&array.as_fixed_size_list().value(row), out),
        DataType::ListView(_) => write_list(&array.as_list_view::<i32>().value(row), out),
        DataType::LargeListView(_) => write_list(&array.as_list_view::<i64>().value(row), out),
        DataType::Struct(fields) => {
            let names = fields.iter().map(|field| field.name().as_str());
            let members = names.zip(array.as_struct().columns());
            write_object(members.map(|(name, column)| (name.to_owned(), column, row)), out)
        }
        DataType::Map(..) => {
            let entries = array.as_map().value(row);
            let (keys, values) = (entries.column(0), entries.column(1));
            let key = |i: usize| key(keys, i).map(|key| (key, values, i));
            let members = (0..entries.len()).map(key).collect::<Result<Vec<_>, _>>()?;
            write_object(members.into_iter(), out)
        }
        DataType::Union(..) => {
            let union = array.as_union();
            write_json(union.child(union.type_id(row)), union.value_offset(row), out)
        }
        DataType::RunEndEncoded(ends, _) => {
            let (values, run) = of_run(ends.data_type(), array, row);
            write_json(values, run, out)
        }
        DataType::Dictionary(keys, _) => {
            write_json(array.as_any_dictionary().values(), key_at(keys, array, row), out)
        }
        _ => {
            write_value(value(array, row, &mut String::new())?, out);
            Ok(())
        }
    }
}

fn is_null_member(array: &ArrayRef, row: usize) -> bool {
    let union = array.as_union();
    union.child(union.type_id(row)).is_null(union.value_offset(row))
}

/// The index of a row's value in the dictionary. The row isn't NULL.
pub(super) fn key_at(keys: &DataType, array: &ArrayRef, row: usize) -> usize {
    fn of<T: ArrowDictionaryKeyType>(array: &ArrayRef, row: usize) -> Option<usize> {
        array.as_dictionary::<T>().key(row)
    }
    let key = match keys {
        DataType::Int8 => of::<Int8Type>(array, row),
        DataType::Int16 => of::<Int16Type>(array, row),
        DataType::Int32 => of::<Int32Type>(array, row),
        DataType::Int64 => of::<Int64Type>(array, row),
        DataType::UInt8 => of::<UInt8Type>(array, row),
        DataType::UInt16 => of::<UInt16Type>(array, row),
        DataType::UInt32 => of::<UInt32Type>(array, row),
        _ => of::<UInt64Type>(array, row),
    };
    key.expect("a row that is not NULL has a key")
}

/// The values of a run-end encoded array, and the index of a row's value.
pub(super) fn of_run<'a>(ends: &DataType, array: &'a ArrayRef, row: usize) -> (&'a ArrayRef, usize) {
    fn of<T: RunEndIndexType>(array: &ArrayRef, row: usize) -> (&ArrayRef, usize) {
        let runs = array.as_run::<T>();
        (runs.values(), runs.get_physical_index(row))
    }
    match ends {
        DataType::Int16 => of::<Int16Type>(array, row),
        DataType::Int32 => of::<Int32Type>(array, row),
        _ => of::<Int64Type>(array, row),
    }
}

fn write_list(items: &ArrayRef, out: &mut Vec<u8>) -> Result<(), Error> {
    out.push(b'[');
    for i in 0..items.len() {
        if i > 0 {
            out.push(b',');
        }
        write_json(items, i, out)?;
    }
    out.push(b']');
    Ok(())
}

fn write_object<'a>(
    members: impl Iterator<Item = (String, &'a ArrayRef, usize)>,
    out: &mut Vec<u8>,
) -> Result<(), Error> {
    out.push(b'{');
    for (i, (name, array, row)) in members.enumerate() {
        if i > 0 {
            out.push(b',');
        }
        write_value(Value::Text(&name), out);
        out.push(b':');
        write_json(array, row, out)?;
    }
    out.push(b'}');
    Ok(())
}

/// The key of a map entry, as a member's name.
fn key(keys: &ArrayRef, i: usize) -> Result<String, Error> {
    let mut text = String::new();
    if let Value::Text(key) = value(keys, i, &mut text)? {
        return Ok(key.to_owned());
    }
    let mut json = Vec::new();
    write_json(keys, i, &mut json)?;
    Ok(String::from_utf8_lossy(&json).trim_matches('"').to_owned())
}

#[cold]
fn out_of_range() -> Error {
    Error::bad_value("a date or a timestamp is beyond the years that can be written")
}
