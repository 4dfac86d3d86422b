//! `rowstream_number(text)`, a function of SQL: the number of a text as rows show it. SQLite's own conversion
//! has no infinity, and rounds the last digit of some floats differently.

use rusqlite::Connection;
use rusqlite::functions::FunctionFlags;
use rusqlite::types::{Value, ValueRef};

use super::bind;

/// Defines the function for the statements of a connection.
///
/// # Errors
/// SQLite has no memory for it.
pub(super) fn define(connection: &Connection) -> rusqlite::Result<()> {
    let flags =
        FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC | FunctionFlags::SQLITE_DIRECTONLY;
    connection.create_scalar_function("rowstream_number", 1, flags, |call| Ok(number(call.get_raw(0))))
}

/// Reads a number as rows show it. Other texts stay texts, because a column of numbers can have them too. A
/// number beyond all floats is NULL.
fn number(value: ValueRef<'_>) -> Value {
    match value.as_str() {
        Ok("Infinity") => Value::Real(f64::INFINITY),
        Ok("-Infinity") => Value::Real(f64::NEG_INFINITY),
        Ok(text) if text.trim_start_matches('-').starts_with(|c: char| c.is_ascii_digit()) => {
            match bind::number(text) {
                Value::Real(real) if real.is_infinite() => Value::Null,
                number => number,
            }
        }
        Ok(text) => Value::Text(text.to_owned()),
        Err(_) => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_rows_are_read_exactly() {
        let text = |text: &str| Value::Text(text.to_owned());
        for (given, expected) in [
            ("5", Value::Integer(5)),
            ("9223372036854775807", Value::Integer(i64::MAX)),
            ("0.30000000000000004", Value::Real(0.300_000_000_000_000_04)),
            ("-1e+20", Value::Real(-1e20)),
            ("-Infinity", Value::Real(f64::NEG_INFINITY)),
            ("1e999", Value::Null),
            ("inf", text("inf")),
            ("nan", text("nan")),
            ("2b", text("2b")),
            ("", text("")),
        ] {
            assert_eq!(number(ValueRef::Text(given.as_bytes())), expected, "{given}");
        }
        assert_eq!(number(ValueRef::Null), Value::Null);
    }
}
