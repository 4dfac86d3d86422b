//! ERR packets to [`Error`]: says for each number and SQLSTATE who is at fault.

use http::StatusCode;
use rowstream_core::Error;
use rowstream_core::error::{INVALID_DATA, Reason, STATEMENT_TIMEOUT};
use std::time::Duration;

use rowstream_database::refused::{general, reason_of_state};

/// The contents of an ERR packet.
#[derive(Debug, Clone)]
pub(super) struct DatabaseError {
    /// The server's own number, which is more precise than the SQLSTATE.
    pub(super) number: u16,
    pub(super) sqlstate: String,
    pub(super) message: String,
}

/// The hint for an illegal mix of collations.
const OTHER_CHARSET: &str = "the character set of a column lacks a character of a value, or of a text in the \
    statement: `convert(column using utf8mb4)` can be compared with any text";

/// The SQLSTATE of a `SIGNAL` without a more specific one. Its message was written for the client.
const SIGNALLED: &str = "45000";

impl DatabaseError {
    /// True if a prepared statement isn't valid any more: `ER_UNKNOWN_STMT_HANDLER`,
    /// `ER_NEED_REPREPARE`.
    pub(super) fn is_stale_statement(&self) -> bool {
        matches!(self.number, 1243 | 1615)
    }

    /// True if the server has reached its maximum of prepared statements, over all its connections:
    /// `ER_MAX_PREPARED_STMT_COUNT_REACHED`.
    pub(super) fn is_too_many_statements(&self) -> bool {
        self.number == 1461
    }

    /// True if the server closes the connection with it: `ER_SERVER_SHUTDOWN`, `ER_FORCING_CLOSE`,
    /// errors of its network, `ER_CONNECTION_KILLED` of MariaDB, `ER_SESSION_WAS_KILLED` and
    /// `ER_CLIENT_INTERACTION_TIMEOUT` of MySQL.
    pub(super) fn ends_connection(&self) -> bool {
        matches!(self.number, 1053 | 1080 | 1152..=1161 | 1927 | 3169 | 4031)
    }

    /// True if a function or a clause can't read its value: a full-text search, a regular
    /// expression (`ER_REGEXP_ERROR`, and those of MySQL 8), a JSON path (`ER_INVALID_JSON_PATH`),
    /// a negative `limit` (`ER_WRONG_ARGUMENTS`). The syntax error of a statement quotes the text
    /// near it.
    fn is_syntax_of_value(&self) -> bool {
        match self.number {
            1064 => self.message.starts_with("syntax error, "),
            1210 => self.message.to_ascii_lowercase().ends_with("execute"),
            number => matches!(number, 1139 | 3143 | 3685..=3700),
        }
    }

    /// True if a value and a column, or a function of columns, have no common character set: an
    /// illegal mix of collations. Columns are more than `COERCIBLE`.
    fn is_charset_of_value(&self) -> bool {
        matches!(self.number, 1267 | 1270 | 1271) && self.message.contains(",COERCIBLE)")
    }

    /// The error as a user sees it. `sql` is the statement's text, if it's known.
    pub(super) fn into_error(self, sql: Option<&str>) -> Error {
        let (code, status) = match self.is_syntax_of_value() || self.is_charset_of_value() {
            true => (INVALID_DATA, StatusCode::BAD_REQUEST),
            false => classify(self.number, &self.sqlstate),
        };
        let offset = sql.and_then(|sql| self.offset(sql));
        let remedy = match self.is_charset_of_value() {
            true => Some(OTHER_CHARSET),
            false => remedy(self.number, &self.message),
        };
        let mut error = match self.sqlstate == SIGNALLED {
            true => Error::new(code, status, self.message),
            false => Error::new(code, status, general(code)).database(self.message),
        };
        error = error.because(reason(self.number, &self.sqlstate));
        if let Some(remedy) = remedy {
            error = error.hint(remedy);
        }
        if !self.sqlstate.is_empty() {
            error = error.sqlstate(self.sqlstate);
        }
        if status == StatusCode::SERVICE_UNAVAILABLE {
            error = error.retry_after(Duration::from_secs(1));
        }
        match offset {
            Some(offset) => error.position(offset),
            None => error,
        }
    }

    /// The offset of a syntax error in the statement. The message has `… near 'TEXT' at line N`;
    /// the text is the rest of the statement, up to 80 characters of it.
    fn offset(&self, sql: &str) -> Option<usize> {
        let (_, near) = self.message.rsplit_once(" near '")?;
        let (near, line) = near.rsplit_once("' at line ")?;
        let line: usize = line.parse().ok()?;
        let begins = |line: usize| sql.split_inclusive('\n').take(line).map(str::len).sum::<usize>();
        let start = begins(line.checked_sub(1)?);
        let found = if near.is_empty() { None } else { sql.get(start..)?.find(near) };
        found.map(|found| start + found)
    }
}

/// Code and status of an error. An error of the client is a 4xx, a temporary state of the database
/// a 503, and an error that the endpoint's author must fix a 500.
fn classify(number: u16, sqlstate: &str) -> (&'static str, StatusCode) {
    const UNAVAILABLE: (&str, StatusCode) = ("source_unavailable", StatusCode::SERVICE_UNAVAILABLE);
    match (number, sqlstate.get(..2).unwrap_or_default()) {
        (1243 | 1615, _) => ("statement_changed", StatusCode::SERVICE_UNAVAILABLE),
        // ER_QUERY_INTERRUPTED, and the timeouts of MariaDB and MySQL.
        (1317 | 1969 | 3024, _) => (STATEMENT_TIMEOUT, StatusCode::GATEWAY_TIMEOUT),
        // Too many connections, in all or for a user; out of memory; shutting down; lock wait
        // timeouts; killed connections. A full disk, and with it a full temporary table; no thread;
        // too many prepared statements.
        (1037 | 1038 | 1040 | 1041 | 1053 | 1203 | 1205 | 1226 | 1927, _)
        | (1021 | 1114 | 1135 | 1461, _)
        | (_, "08" | "40") => UNAVAILABLE,
        (_, "22") => (INVALID_DATA, StatusCode::BAD_REQUEST),
        // Wrong values in functions and casts, which have no SQLSTATE of their own.
        (1292 | 1411, _) => (INVALID_DATA, StatusCode::BAD_REQUEST),
        _ if sqlstate == SIGNALLED => (INVALID_DATA, StatusCode::BAD_REQUEST),
        (_, "23") => ("conflict", StatusCode::CONFLICT),
        _ => ("statement_failed", StatusCode::INTERNAL_SERVER_ERROR),
    }
}

/// The reason to refuse a statement.
fn reason(number: u16, sqlstate: &str) -> Option<Reason> {
    match number {
        // ER_NON_UNIQ_ERROR
        1052 => Some(Reason::Column),
        // ER_VIEW_NO_EXPLAIN
        1345 => Some(Reason::Unexplained),
        _ => reason_of_state(sqlstate),
    }
}

/// A hint for errors without one from the server: refused logins, limits and old versions.
fn remedy(number: u16, message: &str) -> Option<&'static str> {
    Some(match number {
        // ER_ACCESS_DENIED_ERROR. A user who must use TLS gets no other error.
        1045 | 1698 => {
            "correct the user and the password in the source's `url`, and leave `ssl-mode=disabled` out if the user needs TLS"
        }
        // ER_DBACCESS_DENIED_ERROR
        1044 => "correct the database in the source's `url`, or `grant select` on it to the user",
        // ER_BAD_DB_ERROR
        1049 => {
            "correct the database in the source's `url`, or create it; `show databases` lists the existing \
             ones"
        }
        // ER_HOST_NOT_PRIVILEGED, ER_HOST_IS_BLOCKED
        1129 | 1130 => {
            "the server doesn't accept connections from this machine: create the user for its address, or \
             correct the host in the source's `url`"
        }
        // ER_CON_COUNT_ERROR, ER_TOO_MANY_USER_CONNECTIONS, ER_USER_LIMIT_REACHED
        1040 | 1203 | 1226 => "lower `pool.max` of the source, or raise `max_connections` of the server",
        // ER_MAX_PREPARED_STMT_COUNT_REACHED
        1461 => {
            "lower `statement_cache` or `pool.max` of the source, or raise `max_prepared_stmt_count` of the server"
        }
        // ER_UNKNOWN_SYSTEM_VARIABLE
        1193 if message.contains("max_statement_time") || message.contains("max_execution_time") => {
            "this server is too old for `statement_timeout`: leave that out of the source"
        }
        _ if message.contains("insecure transport") => {
            "the server requires TLS: leave `ssl-mode=disabled` out of the `url`"
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_the_status_of_whose_fault_it_is() {
        for (number, sqlstate, status) in [
            (1365, "22012", 400),
            (1644, "45000", 400),
            (1062, "23000", 409),
            (1146, "42S02", 500),
            (1064, "42000", 500),
            (1792, "25006", 500),
            (1969, "70100", 504),
            (3024, "HY000", 504),
            (1317, "70100", 504),
            (1053, "08S01", 503),
            (1040, "08004", 503),
            (1213, "40001", 503),
            (1205, "HY000", 503),
            (1615, "HY000", 503),
            (1461, "42000", 503),
            (1021, "HY000", 503),
            (0, "", 500),
            (0, "é", 500),
        ] {
            assert_eq!(classify(number, sqlstate).1, status, "{number} {sqlstate}");
        }
    }

    #[test]
    fn numbers_give_reasons_that_sqlstates_hide() {
        for (number, sqlstate, expected) in [
            (1052, "23000", Some(Reason::Column)),
            (1054, "42S22", Some(Reason::Column)),
            (1146, "42S02", Some(Reason::Statement)),
            (1345, "HY000", Some(Reason::Unexplained)),
            (1205, "HY000", None),
        ] {
            assert_eq!(reason(number, sqlstate), expected, "{number} {sqlstate}");
        }
    }

    /// A column of latin1 compared with a text of other letters was the endpoint's fault.
    #[test]
    fn a_text_that_a_column_cannot_hold_is_the_fault_of_its_client() {
        let status = |number, message: &str| {
            let sqlstate = "HY000".to_owned();
            DatabaseError { number, sqlstate, message: message.to_owned() }.into_error(None).status()
        };
        let mix = |strength: &str| {
            format!(
                "Illegal mix of collations (latin1_swedish_ci,IMPLICIT) and (utf8mb4_general_ci,{strength}) for operation '='"
            )
        };
        assert_eq!(status(1267, &mix("COERCIBLE")), StatusCode::BAD_REQUEST);
        assert_eq!(status(1267, &mix("IMPLICIT")), StatusCode::INTERNAL_SERVER_ERROR);
    }

    #[test]
    fn a_syntax_error_has_its_place() {
        let place = |message: &str, sql: &str| {
            let error = DatabaseError { number: 1064, sqlstate: String::new(), message: message.to_owned() };
            error.offset(sql)
        };
        let syntax =
            "You have an error in your SQL syntax; check the manual for the right syntax to use near";
        assert_eq!(place(&format!("{syntax} 'form t' at line 1"), "select 1 form t"), Some(9));
        assert_eq!(place(&format!("{syntax} 'x' at line 2"), "select x\nfrom x"), Some(14));
        assert_eq!(place(&format!("{syntax} '' at line 1"), "select"), None);
        assert_eq!(place(&format!("{syntax} 'y' at line 9"), "select"), None);
        assert_eq!(place("Unknown column", "select x"), None);
    }
}
