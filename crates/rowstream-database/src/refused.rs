//! The messages that clients get for a statement that a database has refused, and the reasons that
//! several databases have.

use rowstream_core::error::{INVALID_DATA, Reason, STATEMENT_TIMEOUT};

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

/// The reason that an SQLSTATE gives, of the SQL standard, PostgreSQL or ODBC.
pub fn reason_of_state(sqlstate: &str) -> Option<Reason> {
    Some(match sqlstate {
        "0A000" => Reason::Unsupported,
        "42501" => Reason::Privilege,
        "42702" | "42703" | "42S22" => Reason::Column,
        "42725" => Reason::Operator,
        "42883" => Reason::NoOperator,
        "42P10" => Reason::Order,
        "42P21" => Reason::Collations,
        _ if sqlstate.starts_with("42") => Reason::Statement,
        _ => return None,
    })
}

/// The reason that a message of SQLite, DuckDB or a foreign driver gives. They have no SQLSTATE for it.
pub fn reason_of_text(message: &str) -> Option<Reason> {
    const OF_COLUMN: [&str; 4] =
        ["ambiguous", "no such column", "referenced column", "does not match any column in the result set"];
    let message = message.to_lowercase();
    OF_COLUMN.iter().any(|part| message.contains(part)).then_some(Reason::Column)
}
