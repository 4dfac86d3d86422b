//! Parameter values in the form that Arrow or a driver process binds.

use rowstream_core::params::{INFINITY, ParamValue};
use serde::{Deserialize, Serialize};

/// A value bound to a parameter.
#[cfg_attr(not(feature = "worker"), allow(unreachable_pub, reason = "a public trait of `worker` names it"))]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Argument {
    /// NULL.
    Null,
    /// NULL, with the type of this value.
    NullOf(Box<Argument>),
    /// A boolean.
    Boolean(bool),
    /// An integer.
    Integer(i64),
    /// A decimal, as text.
    Number(String),
    /// The bits of a double. Its digits would be read inexactly by the driver process.
    Float(u64),
    /// Text.
    Text(String),
    /// Days since 1970-01-01.
    Date(i32),
    /// Microseconds since 1970-01-01T00:00:00Z.
    Timestamp(i64),
    /// Values of one type.
    List(Vec<Argument>),
}

/// Converts a parameter's value.
pub(crate) fn argument(param: &ParamValue) -> Argument {
    match param {
        ParamValue::Null => Argument::Null,
        ParamValue::Integer(value) => Argument::Integer(*value),
        ParamValue::Boolean(value) => Argument::Boolean(*value),
        ParamValue::Number(text) => number(text),
        ParamValue::Float(float) => Argument::Float(float.to_bits()),
        ParamValue::Date(date) => Argument::Date(days(*date)),
        ParamValue::Timestamp(timestamp) => Argument::Timestamp(micros(*timestamp)),
        ParamValue::Text(text)
        | ParamValue::Duration(text)
        | ParamValue::Uuid(text)
        | ParamValue::Json(text) => Argument::Text(text.clone()),
        ParamValue::List(list) => Argument::List(list.iter().map(item).collect()),
    }
}

/// Infinity is a float in a cursor.
fn number(text: &str) -> Argument {
    match text.strip_prefix('-') {
        Some(INFINITY) => Argument::Float(f64::NEG_INFINITY.to_bits()),
        None if text == INFINITY => Argument::Float(f64::INFINITY.to_bits()),
        _ => Argument::Number(text.to_owned()),
    }
}

/// A list has items of one type: integers, or the texts of all other types.
fn item(param: &ParamValue) -> Argument {
    match param {
        ParamValue::Integer(value) => Argument::Integer(*value),
        param => param.postgres_text().map_or(Argument::Null, Argument::Text),
    }
}

fn days(date: jiff::civil::Date) -> i32 {
    let epoch = jiff::civil::date(1970, 1, 1);
    // Dates are in the years -9999 to 9999.
    epoch.until(date).map_or(0, |span| span.get_days())
}

/// Microseconds since 1970, for a time in UTC.
fn micros(time: jiff::civil::DateTime) -> i64 {
    let since_midnight = time.time().duration_since(jiff::civil::Time::midnight());
    let seconds = i64::from(days(time.date())) * 86_400 + since_midnight.as_secs();
    seconds * 1_000_000 + i64::from(since_midnight.subsec_micros())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_days() {
        for (date, expected) in
            [("1970-01-01", 0), ("1969-12-31", -1), ("2026-11-23", 20_780), ("9999-12-31", 2_932_896)]
        {
            let date = ParamValue::Date(date.parse().unwrap());
            assert_eq!(argument(&date), Argument::Date(expected), "{date:?}");
        }
    }

    #[test]
    fn timestamps_are_microseconds() {
        for (time, expected) in [
            ("1970-01-01T00:00:00", 0),
            ("1969-12-31T23:59:59.999999", -1),
            ("0001-01-01T00:00:00", -62_135_596_800_000_000),
            ("9999-12-31T23:59:59.999999", 253_402_300_799_999_999),
        ] {
            let time = ParamValue::Timestamp(time.parse().unwrap());
            assert_eq!(argument(&time), Argument::Timestamp(expected), "{time:?}");
        }
    }
}
