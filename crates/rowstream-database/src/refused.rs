//! The messages that clients get for a statement that a database has refused.

use rowstream_core::error::{INVALID_DATA, STATEMENT_TIMEOUT};

/// The message for an error code. It replaces the database's own text.
pub fn general(code: &str) -> &'static str {
    match code {
        "statement_changed" => "the database's prepared form of the statement is out of date or gone",
        STATEMENT_TIMEOUT => "the database ended the statement before it was complete",
        "source_unavailable" => "the database cannot answer now",
        INVALID_DATA => "the database can't use a value in the statement",
        "conflict" => "the database refused the statement, because it violates a constraint",
        _ => "the database refused the statement",
    }
}
