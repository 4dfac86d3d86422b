//! SQLite's errors as users see them.

use std::path::Path;

use http::StatusCode;
use rowstream_core::Error;
use rowstream_core::error::{INVALID_DATA, SOURCE_DAMAGED};
use rowstream_database::refused::{general, reason_of_text};
use rusqlite::{ErrorCode, ffi};
use rustix::fs::{Access, access};

use super::create::beside;

/// Converts an error to the one that a user sees; `source` names the source of `file`. If another
/// try may succeed, it's a 503.
pub(super) fn of(source: &str, file: &Path, error: rusqlite::Error) -> Error {
    match &error {
        rusqlite::Error::SqlInputError { error: cause, msg, offset, .. } => {
            let refused = statement_failed(msg, *cause);
            // SQLite returns -1 if it doesn't know the position.
            match usize::try_from(*offset) {
                Ok(offset) => refused.position(offset),
                Err(_) => refused,
            }
        }
        rusqlite::Error::SqliteFailure(cause, message) => match unreadable(source, file, *cause) {
            Some(unreadable) => unreadable,
            None => failure(source, *cause, message.as_deref()).cause(error),
        },
        rusqlite::Error::MultipleStatement => {
            Error::endpoint("the text contains several statements, but SQLite runs one at a time")
        }
        _ => statement_failed(&error.to_string(), ffi::Error::new(ffi::SQLITE_ERROR)).cause(error),
    }
}

fn failure(source: &str, cause: ffi::Error, message: Option<&str>) -> Error {
    let message = message.map_or_else(|| ffi::code_to_str(cause.extended_code).to_owned(), str::to_owned);
    match cause.code {
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => {
            Error::source_unavailable(format!("source `{source}` is locked by a writer"))
                .hint("readers and a writer do not lock each other out with `pragma journal_mode = wal`")
        }
        ErrorCode::SchemaChanged => schema_changed(source),
        ErrorCode::CannotOpen
        | ErrorCode::PermissionDenied
        | ErrorCode::SystemIoFailure
        | ErrorCode::DiskFull
        | ErrorCode::OutOfMemory
        | ErrorCode::FileLockingProtocolFailed => {
            let text = format!("source `{source}` cannot be read");
            Error::source_unavailable(text.clone()).database(format!("{text}: {message}"))
        }
        ErrorCode::TooBig => Error::new(
            "row_too_large",
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("a value of source `{source}` is over the limit"),
        )
        .hint("raise `max_row_bytes` of the source, or select less"),
        ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt => Error::new(
            SOURCE_DAMAGED,
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("source `{source}` cannot be read"),
        )
        .database(format!("source `{source}` cannot be read: {message}")),
        _ => statement_failed(&message, cause),
    }
}

/// The error of a file that SQLite can't read before it has written to its folder or rolled it
/// back. For most of these files, SQLite reports an attempt to write a read-only database, although
/// no statement wrote.
fn unreadable(source: &str, file: &Path, cause: ffi::Error) -> Option<Error> {
    let code = cause.extended_code;
    match code {
        ffi::SQLITE_READONLY_RECOVERY
        | ffi::SQLITE_READONLY_CANTLOCK
        | ffi::SQLITE_READONLY_CANTINIT
        | ffi::SQLITE_READONLY_DIRECTORY => Some(no_shared_memory(source, file, code)),
        // Not by opening it: closing a file drops all of this process's locks on it (POSIX).
        ffi::SQLITE_CANTOPEN if beside(file, "-wal").exists() && access(file, Access::READ_OK).is_ok() => {
            Some(no_shared_memory(source, file, code))
        }
        ffi::SQLITE_READONLY_ROLLBACK => Some(hot_journal(source, file, code)),
        _ => None,
    }
}

/// SQLite reads a file in WAL mode through the `-shm` file beside it, which the first reader
/// creates.
///
/// We don't open it as `immutable`: SQLite would then ignore the `-wal`, and read half of another
/// user's writes.
fn no_shared_memory(source: &str, file: &Path, code: i32) -> Error {
    let text = format!(
        "source `{source}` cannot be read: its file is in WAL mode, and the `-shm` file beside it can't be written"
    );
    in_file(text, file, code).hint(
        "let the server's user write to the folder, keep a writer's connection open, or run `pragma \
         journal_mode = delete` before the file is shipped",
    )
}

/// The next writer rolls back an interrupted transaction. Until then, the file contains some of its
/// pages.
fn hot_journal(source: &str, file: &Path, code: i32) -> Error {
    let text = format!(
        "source `{source}` cannot be read: a writer ended within a transaction, which must be rolled back"
    );
    in_file(text, file, code).hint("open the file once as a user who may write it: `sqlite3 FILE .tables`")
}

fn in_file(text: String, file: &Path, code: i32) -> Error {
    let in_file = format!("{text}: {} (SQLite code {code})", file.display());
    Error::source_unavailable(text).database(in_file)
}

/// Like [`of`], for a running statement. It compiled, so a value may be wrong: a full-text search,
/// a `limit` that isn't a number, malformed JSON, an overflow. If a name doesn't exist any more,
/// the statement is wrong, except for a column, which a search can name.
pub(super) fn of_run(source: &str, file: &Path, error: rusqlite::Error) -> Error {
    const OF_VALUES: [i32; 2] = [ffi::SQLITE_ERROR, ffi::SQLITE_MISMATCH];
    let is_of_value =
        |message: &str| message.strip_prefix("no such ").is_none_or(|name| name.starts_with("column: "));
    match &error {
        rusqlite::Error::SqliteFailure(cause, Some(message))
            if OF_VALUES.contains(&cause.extended_code) && is_of_value(message) =>
        {
            let text = format!("{message} (SQLite code {})", cause.extended_code);
            Error::new(INVALID_DATA, StatusCode::BAD_REQUEST, general(INVALID_DATA)).database(text)
        }
        _ => of(source, file, error),
    }
}

fn statement_failed(message: &str, cause: ffi::Error) -> Error {
    let code = cause.extended_code;
    Error::new(
        "statement_failed",
        StatusCode::INTERNAL_SERVER_ERROR,
        format!("the database refused the statement (SQLite code {code})"),
    )
    .database(format!("{message} (SQLite code {code})"))
    .because(reason_of_text(message))
}

/// The statement's columns differ from those that the response has announced.
pub(super) fn schema_changed(source: &str) -> Error {
    Error::source_unavailable(format!(
        "the tables of source `{source}` changed while a statement was prepared"
    ))
}
