//! `rowstream_time(text)`, a function of SQL. SQLite has no type for times, and texts of the same
//! time differ: `2026-03-01 09:00:00`, `2026-03-01T09:00Z`, `2026-03-01T10:00:00.0+01:00`. This function
//! makes them comparable. SQLite's own functions round to milliseconds.

use rowstream_core::datetime::instant;
use rusqlite::Connection;
use rusqlite::functions::FunctionFlags;
use rusqlite::types::ValueRef;

/// Defines the function for the statements of a connection.
///
/// # Errors
/// SQLite has no memory for it.
pub(super) fn define(connection: &Connection) -> rusqlite::Result<()> {
    let flags =
        FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC | FunctionFlags::SQLITE_DIRECTONLY;
    connection.create_scalar_function("rowstream_time", 1, flags, |call| Ok(micros(call.get_raw(0))))
}

/// Microseconds since 1970 in UTC. A date is its midnight, and a time without a zone is in UTC. NULL
/// for anything else.
fn micros(value: ValueRef<'_>) -> Option<i64> {
    if let ValueRef::Text(text) = value { instant(text) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_the_same_in_each_form() {
        let nine = micros(ValueRef::Text(b"2026-03-01 09:00:00"));
        assert_eq!(nine, Some(1_772_355_600_000_000));
        for text in ["2026-03-01T09:00", "2026-03-01T09:00:00.000Z", "2026-03-01 10:00:00.0000009+01:00"] {
            assert_eq!(micros(ValueRef::Text(text.as_bytes())), nine, "{text}");
        }
        assert_eq!(micros(ValueRef::Text(b"1970-01-02")), Some(86_400_000_000));
        for other in
            [ValueRef::Null, ValueRef::Integer(5), ValueRef::Blob(b"2026-03-01"), ValueRef::Text(b"soon")]
        {
            assert_eq!(micros(other), None, "{other:?}");
        }
    }
}
