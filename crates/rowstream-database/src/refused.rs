//! The messages that clients get for a statement that a database has refused.

use rowstream_core::error::{INVALID_DATA, STATEMENT_TIMEOUT};

/// The message for an error code. It replaces the database's own text.
pub fn general(code: &str) -> &'static str {
    match code {
        "statement_changed" => "the statement is no longer what the database has prepared",
        STATEMENT_TIMEOUT => "the database ended the statement before it was complete",
        "source_unavailable" => "the database cannot answer now",
        INVALID_DATA => "the database cannot use a value as the statement has it",
        "conflict" => "the database refused the statement, because a constraint does not hold",
        _ => "the database refused the statement",
    }
}
