//! Converts parameters to SQLite's values. SQLite has no types for dates, lists and booleans. We
//! bind them in the form that its own functions return, so that they compare correctly with stored
//! values.

use std::fmt::Write as _;

use rowstream_core::params::ParamValue;
use rusqlite::types::Value;

/// Returns the value to bind for a parameter.
pub(super) fn value(param: &ParamValue) -> Value {
    match param {
        ParamValue::Null => Value::Null,
        ParamValue::Integer(value) => Value::Integer(*value),
        ParamValue::Boolean(value) => Value::Integer(i64::from(*value)),
        ParamValue::Number(text) => number(text),
        ParamValue::Float(float) => Value::Real(*float),
        ParamValue::Date(date) => Value::Text(date.to_string()),
        ParamValue::Timestamp(timestamp) => Value::Text(instant(*timestamp)),
        ParamValue::Text(text)
        | ParamValue::Duration(text)
        | ParamValue::Uuid(text)
        | ParamValue::Json(text) => Value::Text(text.clone()),
        ParamValue::List(list) => Value::Text(json_list(list)),
    }
}

/// Returns an integer if possible, because SQLite can't use an index on an integer column for a
/// text.
pub(super) fn number(text: &str) -> Value {
    match (text.parse(), text.parse()) {
        (Ok(integer), _) => Value::Integer(integer),
        (_, Ok(real)) => Value::Real(real),
        _ => Value::Text(text.to_owned()),
    }
}

/// Formats `YYYY-MM-DD HH:MM:SS[.ffffff]` in UTC, like `datetime()`. A fraction sorts after the
/// same time without one.
fn instant(timestamp: jiff::civil::DateTime) -> String {
    let format = match timestamp.subsec_nanosecond() {
        0 => "%Y-%m-%d %H:%M:%S",
        _ => "%Y-%m-%d %H:%M:%S.%6f",
    };
    timestamp.strftime(format).to_string()
}

/// Formats a JSON array, for `json_each(:ids)`.
fn json_list(list: &[ParamValue]) -> String {
    let mut json = String::from("[");
    for (i, item) in list.iter().enumerate() {
        if i > 0 {
            json.push(',');
        }
        push_json(item, &mut json);
    }
    json.push(']');
    json
}

fn push_json(item: &ParamValue, json: &mut String) {
    match item {
        ParamValue::Null => json.push_str("null"),
        ParamValue::Boolean(value) => json.push_str(if *value { "true" } else { "false" }),
        ParamValue::Integer(value) => write!(json, "{value}").expect("a string takes everything"),
        ParamValue::Number(text) => json.push_str(text),
        ParamValue::Float(float) => write!(json, "{float:e}").expect("a string takes everything"),
        ParamValue::Json(document) => json.push_str(document),
        ParamValue::List(list) => json.push_str(&json_list(list)),
        ParamValue::Date(date) => push_text(date.to_string(), json),
        ParamValue::Timestamp(timestamp) => push_text(instant(*timestamp), json),
        ParamValue::Text(text) | ParamValue::Duration(text) | ParamValue::Uuid(text) => {
            push_text(text.clone(), json);
        }
    }
}

fn push_text(text: String, json: &mut String) {
    write!(json, "{}", serde_json::Value::String(text)).expect("a string takes everything");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Value {
        Value::Text(text.to_owned())
    }

    #[test]
    fn one_form_per_type() {
        assert_eq!(value(&ParamValue::Null), Value::Null);
        assert_eq!(value(&ParamValue::Integer(i64::MIN)), Value::Integer(i64::MIN));
        assert_eq!(value(&ParamValue::Boolean(true)), Value::Integer(1));
        assert_eq!(value(&ParamValue::Number("9223372036854775807".into())), Value::Integer(i64::MAX));
        assert_eq!(value(&ParamValue::Number("9223372036854775808".into())), Value::Real(2.0_f64.powi(63)));
        assert_eq!(value(&ParamValue::Number("-12.50".into())), Value::Real(-12.5));
        assert_eq!(value(&ParamValue::Date(jiff::civil::date(2024, 2, 29))), text("2024-02-29"));
        assert_eq!(value(&ParamValue::Json("{\"a\": 1}".into())), text("{\"a\": 1}"));
    }

    #[test]
    fn timestamps_have_a_fraction_when_they_need_one() {
        let at = |given: &str| value(&ParamValue::Timestamp(given.parse().unwrap()));
        assert_eq!(at("2024-02-29T22:30:00"), text("2024-02-29 22:30:00"));
        assert_eq!(at("2024-02-29T23:30:00.5"), text("2024-02-29 23:30:00.500000"));
        assert_eq!(at("2024-02-29T23:30:00.123456"), text("2024-02-29 23:30:00.123456"));
    }

    #[test]
    fn lists_are_json() {
        let list = ParamValue::List(vec![
            ParamValue::Integer(-1),
            ParamValue::Number("12.50".into()),
            ParamValue::Text("a\"b\n".into()),
            ParamValue::Boolean(false),
            ParamValue::Null,
            ParamValue::Date(jiff::civil::date(2024, 2, 29)),
        ]);
        assert_eq!(value(&list), text(r#"[-1,12.50,"a\"b\n",false,null,"2024-02-29"]"#));
    }
}
