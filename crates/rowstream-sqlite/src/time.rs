//! `rowstream_time(text)`, a function of SQL. SQLite has no type for times, and texts of the same
//! time differ: `2026-03-01 09:00:00`, `2026-03-01T09:00Z`, `2026-03-01T10:00:00.0+01:00`. This function
//! makes them comparable. SQLite's own functions round to milliseconds.

use rowstream_core::datetime::{date, timestamp};
use rusqlite::Connection;
use rusqlite::functions::FunctionFlags;
use rusqlite::types::ValueRef;

const MICROS_PER_DAY: i64 = 86_400_000_000;

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
    let ValueRef::Text(text) = value else { return None };
    let midnight = || date(text).map(|days| i64::from(days) * MICROS_PER_DAY);
    timestamp(text).map(|time| time.micros).or_else(midnight)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_the_same_in_each_form() {
        let nine = micros(ValueRef::Text(b"2026-03-01 09:00:00"));
        assert_eq!(nine, Some(1_772_355_600_000_000));
        for text in ["2026-03-01T09:00", "2026-03-01T09:00:00.000Z", "2026-03-01 10:00:00.0+01:00"] {
            assert_eq!(micros(ValueRef::Text(text.as_bytes())), nine, "{text}");
        }
        assert_eq!(micros(ValueRef::Text(b"1970-01-02")), Some(MICROS_PER_DAY));
        for other in
            [ValueRef::Null, ValueRef::Integer(5), ValueRef::Blob(b"2026-03-01"), ValueRef::Text(b"soon")]
        {
            assert_eq!(micros(other), None, "{other:?}");
        }
    }
}
