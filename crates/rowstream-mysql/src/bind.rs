//! Encodes parameter values for COM_STMT_EXECUTE: a bit for each NULL, the types, and the values.
//!
//! MySQL and MariaDB have no types for lists, durations and UUIDs. We bind a list as a JSON array,
//! which `json_table` and `json_contains` read, a duration as the text of a `time`, and a UUID as a
//! text.

use http::StatusCode;
use jiff::{SignedDuration, Span, SpanRelativeTo};
use rowstream_core::Error;
use rowstream_core::diagnostic::shown;
use rowstream_core::error::INVALID_DATA;
use rowstream_core::params::ParamValue;
use rowstream_core::sql::LimitPart;

use super::packet::push_text;

/// Types by the protocol's numbers (`enum_field_types`), each followed by the flag for unsigned
/// ones.
const TINY: [u8; 2] = [1, 0];
const DOUBLE: [u8; 2] = [5, 0];
const NULL: [u8; 2] = [6, 0];
const BIGINT: [u8; 2] = [8, 0];
const UNSIGNED_BIGINT: [u8; 2] = [8, 0x80];
const DATE: [u8; 2] = [10, 0];
const DATETIME: [u8; 2] = [12, 0];
const DECIMAL: [u8; 2] = [246, 0];
const TEXT: [u8; 2] = [253, 0];

/// The most digits of a decimal, and the most after its point. The server would cut more.
const DECIMAL_DIGITS: i64 = 65;
const DECIMAL_PLACES: i64 = 30;

/// Appends the arguments of a statement. `limits` are the placeholders that are a whole limit; for
/// these, NULL means "no limit".
///
/// # Errors
/// A duration has years or months, or is longer than the longest `time`.
pub(super) fn write(
    args: &[&ParamValue],
    limits: &[(usize, LimitPart)],
    out: &mut Vec<u8>,
) -> Result<(), Error> {
    if args.is_empty() {
        return Ok(());
    }
    let mut nulls = vec![0_u8; args.len().div_ceil(8)];
    let mut types = Vec::with_capacity(2 * args.len());
    let mut values = Vec::new();
    for (index, arg) in args.iter().enumerate() {
        let limit = limits.iter().find(|(place, _)| *place == index).map(|(_, part)| *part);
        let kind = match (arg, limit) {
            (ParamValue::Null, Some(part)) => no_limit(part, &mut values),
            (ParamValue::Null, None) => {
                nulls[index / 8] |= 1 << (index % 8);
                NULL
            }
            (arg, _) => value(arg, &mut values)?,
        };
        types.extend_from_slice(&kind);
    }
    out.extend_from_slice(&nulls);
    // This execution includes its types, instead of reusing the previous ones.
    out.push(1);
    out.extend_from_slice(&types);
    out.extend_from_slice(&values);
    Ok(())
}

/// Appends the limit that means all rows, or the offset that skips none.
fn no_limit(part: LimitPart, out: &mut Vec<u8>) -> [u8; 2] {
    let number = match part {
        LimitPart::Rows => u64::MAX,
        LimitPart::Offset => 0,
    };
    out.extend_from_slice(&number.to_le_bytes());
    UNSIGNED_BIGINT
}

/// Appends a value that isn't NULL, and returns its type.
fn value(arg: &ParamValue, out: &mut Vec<u8>) -> Result<[u8; 2], Error> {
    Ok(match arg {
        ParamValue::Null => NULL,
        ParamValue::Integer(integer) => {
            out.extend_from_slice(&integer.to_le_bytes());
            BIGINT
        }
        ParamValue::Boolean(boolean) => {
            out.push((*boolean).into());
            TINY
        }
        ParamValue::Number(text) => number(text, out),
        ParamValue::Float(float) => {
            out.extend_from_slice(&float.to_le_bytes());
            DOUBLE
        }
        ParamValue::Date(date) => {
            out.push(4);
            push_date(*date, out);
            DATE
        }
        ParamValue::Timestamp(timestamp) => {
            push_timestamp(*timestamp, out);
            DATETIME
        }
        ParamValue::Text(text) | ParamValue::Uuid(text) | ParamValue::Json(text) => {
            push_text(text.as_bytes(), out);
            TEXT
        }
        ParamValue::Duration(text) => {
            push_text(time(text)?.as_bytes(), out);
            TEXT
        }
        ParamValue::List(items) => {
            push_text(json_list(items)?.as_bytes(), out);
            TEXT
        }
    })
}

/// The text of a `time`. MySQL reads `PT5M` as the time 0.
///
/// # Errors
/// The duration has years or months, or is longer than the longest `time`.
fn time(duration: &str) -> Result<String, Error> {
    const LONGEST: SignedDuration = SignedDuration::new(838 * 3600 + 59 * 60 + 59, 999_999_000);
    let span = duration.parse::<Span>();
    let time = span.and_then(|span| span.to_duration(SpanRelativeTo::days_are_24_hours()));
    let Some(time) = time.ok().filter(|time| *time <= LONGEST) else {
        let message = format!("{} doesn't fit into a `time` of the database", shown(duration));
        let error = Error::new(INVALID_DATA, StatusCode::BAD_REQUEST, message);
        return Err(error.hint("a `time` has no years and months, and is at most 838:59:59"));
    };
    let (minutes, seconds) = (time.as_secs() / 60, time.as_secs() % 60);
    Ok(format!("{}:{:02}:{seconds:02}.{:06}", minutes / 60, minutes % 60, time.subsec_micros()))
}

/// Appends an integer if it is one, because the database searches indexes only by integers.
fn number(text: &str, out: &mut Vec<u8>) -> [u8; 2] {
    if let Ok(integer) = text.parse::<i64>() {
        out.extend_from_slice(&integer.to_le_bytes());
        return BIGINT;
    }
    if let Ok(integer) = text.parse::<u64>() {
        out.extend_from_slice(&integer.to_le_bytes());
        return UNSIGNED_BIGINT;
    }
    let exponent = text.split_once(['e', 'E']);
    match (exponent, text.parse::<f64>()) {
        (Some((digits, exponent)), Ok(float)) if float.is_finite() && !fits_decimal(digits, exponent) => {
            out.extend_from_slice(&float.to_le_bytes());
            DOUBLE
        }
        _ => {
            push_text(text.as_bytes(), out);
            DECIMAL
        }
    }
}

/// Returns true if a decimal can have all digits of a number with an exponent.
fn fits_decimal(digits: &str, exponent: &str) -> bool {
    let (whole, places) = digits.split_once('.').unwrap_or((digits, ""));
    let count = |digits: &str| i64::try_from(digits.len()).unwrap_or(i64::MAX);
    let Ok(exponent) = exponent.parse::<i32>().map(i64::from) else { return false };
    let whole = count(whole.trim_start_matches(['-', '+', '0'])).saturating_add(exponent).max(0);
    let places = count(places.trim_end_matches('0')).saturating_sub(exponent).max(0);
    places <= DECIMAL_PLACES && whole.saturating_add(places) <= DECIMAL_DIGITS
}

fn push_date(date: jiff::civil::Date, out: &mut Vec<u8>) {
    out.extend_from_slice(&date.year().to_le_bytes());
    out.extend_from_slice(&[date.month().unsigned_abs(), date.day().unsigned_abs()]);
}

/// In UTC, the time zone of our sessions.
fn push_timestamp(timestamp: jiff::civil::DateTime, out: &mut Vec<u8>) {
    out.push(11);
    push_date(timestamp.date(), out);
    out.extend_from_slice(&[timestamp.hour(), timestamp.minute(), timestamp.second()].map(i8::unsigned_abs));
    let micros = timestamp.subsec_nanosecond().unsigned_abs() / 1000;
    out.extend_from_slice(&micros.to_le_bytes());
}

/// A JSON array, for `json_table(:ids, '$[*]' columns (id bigint path '$'))`.
fn json_list(items: &[ParamValue]) -> Result<String, Error> {
    let items: Vec<_> = items.iter().map(json).collect::<Result<_, _>>()?;
    Ok(format!("[{}]", items.join(",")))
}

fn json(item: &ParamValue) -> Result<String, Error> {
    Ok(match item {
        ParamValue::Null => "null".to_owned(),
        ParamValue::Integer(integer) => integer.to_string(),
        ParamValue::Boolean(boolean) => boolean.to_string(),
        ParamValue::Number(text) => text.clone(),
        ParamValue::Float(float) => format!("{float:e}"),
        ParamValue::Json(document) => document.clone(),
        ParamValue::List(items) => json_list(items)?,
        ParamValue::Duration(text) => serde_json::Value::from(time(text)?).to_string(),
        // In the database's own form, without a zone.
        ParamValue::Timestamp(timestamp) => {
            serde_json::Value::from(timestamp.strftime("%Y-%m-%d %H:%M:%S%.f").to_string()).to_string()
        }
        other => serde_json::Value::from(other.postgres_text().unwrap_or_default()).to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nulls_are_bits_and_no_values() {
        let args = [&ParamValue::Null, &ParamValue::Integer(1), &ParamValue::Null];
        let mut out = Vec::new();
        write(&args, &[(2, LimitPart::Rows)], &mut out).expect("no duration");
        let mut expected = vec![0b001, 1, 6, 0, 8, 0, 8, 0x80, 1, 0, 0, 0, 0, 0, 0, 0];
        expected.extend_from_slice(&[0xff; 8]);
        assert_eq!(out, expected);
        out.clear();
        write(&[], &[], &mut out).expect("no duration");
        assert!(out.is_empty());
    }

    #[test]
    fn numbers_have_the_type_that_holds_them() {
        for (text, kind) in [
            ("-1", BIGINT),
            ("18446744073709551615", UNSIGNED_BIGINT),
            ("18446744073709551616", DECIMAL),
            ("1.50", DECIMAL),
            ("1e3", DECIMAL),
            ("1e300", DOUBLE),
            ("-1e-30", DECIMAL),
            ("1e-31", DOUBLE),
            ("1.2345678901234567e-20", DOUBLE),
            ("1.2345678901234567e30", DECIMAL),
            // A column of decimals is compared with all digits that the server keeps.
            ("0.1000000000000000055511151231257827", DECIMAL),
        ] {
            assert_eq!(number(text, &mut Vec::new()), kind, "{text}");
        }
    }

    #[test]
    fn lists_are_json() {
        let text = |text: &str| ParamValue::Text(text.to_owned());
        let items = [ParamValue::Integer(1), text("a\"b"), ParamValue::Null, ParamValue::Boolean(true)];
        assert_eq!(json_list(&items).expect("no duration"), r#"[1,"a\"b",null,true]"#);
    }

    #[test]
    fn durations_are_times() {
        for (duration, expected) in [
            ("PT0S", Some("0:00:00.000000")),
            ("PT5M", Some("0:05:00.000000")),
            ("PT1.5S", Some("0:00:01.500000")),
            ("P1W2DT3H", Some("219:00:00.000000")),
            ("PT838H59M59.5S", Some("838:59:59.500000")),
            ("PT839H", None),
            ("P1M", None),
            ("P1Y", None),
        ] {
            assert_eq!(time(duration).ok().as_deref(), expected, "{duration}");
        }
    }
}
