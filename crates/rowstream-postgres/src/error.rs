//! `ErrorResponse` to [`Error`]: says for each SQLSTATE who is at fault.

use fallible_iterator::FallibleIterator;
use http::StatusCode;
use postgres_protocol::message::backend::ErrorResponseBody;
use rowstream_core::Error;
use rowstream_core::diagnostic::list;
use rowstream_core::error::{INVALID_DATA, Reason, STATEMENT_TIMEOUT};
use rowstream_encode::{Column, ColumnKind};
use std::time::Duration;

use rowstream_database::refused::{general, reason_of_state};

/// The fields of an `ErrorResponse` that we use (PostgreSQL manual, "Error and Notice Message
/// Fields").
#[derive(Debug, Default, Clone)]
pub(super) struct DatabaseError {
    pub(super) sqlstate: String,
    message: String,
    hint: Option<String>,
    /// Characters from the start of the statement, from 1.
    position: Option<usize>,
    /// True if the error is in a statement that a function runs.
    is_internal: bool,
    /// True if the server was reading an argument of the statement.
    is_of_argument: bool,
    /// The function of the server that reported it; unlike the message, never translated.
    routine: String,
    /// True if it ends the connection.
    pub(super) fatal: bool,
}

impl DatabaseError {
    pub(super) fn new(body: &ErrorResponseBody) -> Self {
        let mut this = Self::default();
        let mut fields = body.fields();
        // A field that we can't read ends the list. The fields until then are all that we know.
        while let Ok(Some(field)) = fields.next() {
            let value = || String::from_utf8_lossy(field.value_bytes()).into_owned();
            match field.type_() {
                b'C' => this.sqlstate = value(),
                b'M' => this.message = value(),
                b'H' => this.hint = Some(value()),
                b'P' => this.position = value().parse().ok(),
                b'q' => this.is_internal = true,
                b'W' => this.is_of_argument = names_argument(&value()),
                b'R' => this.routine = value(),
                b'V' => this.fatal = matches!(field.value_bytes(), b"FATAL" | b"PANIC"),
                _ => {}
            }
        }
        this
    }

    /// True if a prepared statement can't be used any more: its result changed (a migration), a
    /// pooler dropped it, or a type of its parameters was dropped and perhaps created again.
    pub(super) fn is_stale_statement(&self) -> bool {
        // Errors of this class are never translated.
        let lost_type = self.sqlstate == "XX000" && self.message.starts_with("cache lookup failed for type");
        self.is_missing_statement() || self.routine == "RevalidateCachedQuery" || lost_type
    }

    /// True if the server has no prepared statement with that name.
    pub(super) fn is_missing_statement(&self) -> bool {
        self.sqlstate == "26000"
    }

    /// True if PostgreSQL has analysed a prepared statement again, because its tables were altered, and
    /// refuses it with the types that its parameters had. Only such errors have a place.
    pub(super) fn is_refused_again(&self) -> bool {
        let is_of_statement = !self.is_internal && !self.is_of_argument;
        self.sqlstate.starts_with("42") && self.position.is_some() && is_of_statement
    }

    /// True if a value can't be read by its type, which may be the one that an altered column had.
    pub(super) fn is_of_value(&self) -> bool {
        self.sqlstate.starts_with("22") || self.is_of_argument
    }

    /// True if the statement alone doesn't determine a parameter's type (42P18 and 42P08), or one of
    /// several functions or operators (42725).
    pub(super) fn is_undetermined(&self) -> bool {
        matches!(&*self.sqlstate, "42P18" | "42P08" | "42725")
    }

    /// True if an operator or function doesn't take the type that PostgreSQL has found for an operand
    /// (42883 and 42804), which could be a parameter's.
    pub(super) fn is_mistyped(&self) -> bool {
        matches!(&*self.sqlstate, "42883" | "42804")
    }

    /// The number of the parameter that the message names, `$1`. Messages in all languages have it.
    pub(super) fn parameter(&self) -> Option<usize> {
        let (_, number) = self.message.split_once('$')?;
        let end = number.find(|c: char| !c.is_ascii_digit()).unwrap_or(number.len());
        number[..end].parse().ok()
    }

    /// The place in the statement `sql`, in bytes.
    pub(super) fn offset(&self, sql: &str) -> Option<usize> {
        self.position.map(|position| byte_offset(sql, position))
    }

    /// True if a value can't be read by its type or its function while the statement runs, as in
    /// `to_tsquery` and `jsonpath`. A syntax error of the statement itself has a position.
    fn is_syntax_of_value(&self) -> bool {
        self.sqlstate == "42601" && self.position.is_none() && !self.is_internal
    }

    /// True if the text of an argument is wrong, with any SQLSTATE that its type has for that: 42P01 for
    /// a `regclass`, 23514 for a domain, and XX000 for an `hstore`. An error of
    /// the server's state (503, 504) isn't the argument's.
    fn is_wrong_argument(&self) -> bool {
        let passes = matches!(classify(&self.sqlstate).1.as_u16(), 503 | 504);
        self.is_of_argument && !self.is_stale_statement() && !passes
    }

    /// True if a text isn't valid in the encoding of the database. It's a stored text, because
    /// texts in requests are UTF-8.
    fn is_undecodable(&self) -> bool {
        self.sqlstate == "22021"
    }

    /// True if the server ends the transaction because of the client, and not because of its own
    /// state.
    pub(super) fn is_of_client(&self) -> bool {
        matches!(&*self.sqlstate, IDLE_TOO_LONG | TRANSACTION_TOO_LONG)
    }

    /// True if the message was written for the client: an exception that a function raises (class
    /// P0), with any SQLSTATE that the function gives it.
    fn is_for_clients(&self) -> bool {
        self.sqlstate.starts_with("P0") || self.routine == "exec_stmt_raise"
    }

    /// The error as a user sees it.
    pub(super) fn into_error(self) -> Error {
        match self.is_syntax_of_value() || self.is_wrong_argument() {
            true => self.into_error_as(INVALID_DATA, StatusCode::BAD_REQUEST, None),
            false => self.into_error_at(None),
        }
    }

    /// The error as a user sees it, of a statement with these columns.
    pub(super) fn into_error_of(self, columns: &[Column]) -> Error {
        if !self.is_undecodable() {
            return self.into_error();
        }
        let is_text = |column: &&Column| column.kind == ColumnKind::Text;
        let texts: Vec<_> = columns.iter().filter(is_text).map(|column| &*column.name).collect();
        let holders = match texts.len() {
            0 => "a column".to_owned(),
            1 => format!("column {}", list(texts)),
            _ => format!("one of the columns {}", list(texts)),
        };
        let message = format!("{holders} holds text that isn't valid in the database's encoding");
        let hint = "decode it in the statement: `convert_from(column::bytea, 'LATIN1')`";
        Error::bad_value(message).cause(self.message).sqlstate(self.sqlstate).hint(hint)
    }

    /// The error of a statement that a migration has made invalid.
    pub(super) fn into_changed(self) -> Error {
        self.into_error_as(STATEMENT_CHANGED, StatusCode::SERVICE_UNAVAILABLE, None)
    }

    /// The error of a statement that can't be prepared, with its place in bytes, if that is known.
    /// An internal error (class XX) is the server's or a pooler's, and may pass.
    pub(super) fn into_refusal(self, offset: Option<usize>) -> Error {
        if self.sqlstate.starts_with("XX") {
            let message = "the database can't prepare the statement now";
            return Error::source_unavailable(message).database(self.message).sqlstate(self.sqlstate);
        }
        self.into_error_at(offset)
    }

    /// The error as a user sees it, with its place in the statement in bytes, if that is known.
    fn into_error_at(self, offset: Option<usize>) -> Error {
        let (code, status) = match self.is_stale_statement() {
            true => (STATEMENT_CHANGED, StatusCode::SERVICE_UNAVAILABLE),
            false => classify(&self.sqlstate),
        };
        self.into_error_as(code, status, offset)
    }

    fn into_error_as(self, code: &'static str, status: StatusCode, offset: Option<usize>) -> Error {
        let remedy = remedy(&self.sqlstate, &self.message).map(str::to_owned);
        let mut error = match self.is_for_clients() {
            true => Error::new(code, status, self.message),
            false => Error::new(code, status, general(code)).database(self.message),
        };
        if let Some(hint) = self.hint.or(remedy) {
            error = error.hint(hint);
        }
        error = error.because(reason(&self.sqlstate, offset)).sqlstate(self.sqlstate);
        if status == StatusCode::SERVICE_UNAVAILABLE {
            error = error.retry_after(Duration::from_secs(1));
        }
        match offset {
            Some(offset) => error.position(offset),
            None => error,
        }
    }
}

/// The code of a statement that the next attempt prepares again.
const STATEMENT_CHANGED: &str = "statement_changed";
/// `idle_in_transaction_session_timeout` has passed.
const IDLE_TOO_LONG: &str = "25P03";
/// `transaction_timeout` has passed.
const TRANSACTION_TOO_LONG: &str = "25P04";

/// Code and status of an SQLSTATE (PostgreSQL manual, appendix A). An error of the client is a 4xx,
/// a temporary state of the database a 503, and an error that the endpoint's author must fix a 500.
fn classify(sqlstate: &str) -> (&'static str, StatusCode) {
    let class = sqlstate.get(..2).unwrap_or_default();
    match (class, sqlstate) {
        (_, "57014") => (STATEMENT_TIMEOUT, StatusCode::GATEWAY_TIMEOUT),
        ("08" | "40" | "53" | "57" | "58", _) | (_, "55P03" | IDLE_TOO_LONG | TRANSACTION_TOO_LONG) => {
            ("source_unavailable", StatusCode::SERVICE_UNAVAILABLE)
        }
        ("22", _) | (_, "P0001") => (INVALID_DATA, StatusCode::BAD_REQUEST),
        ("23", _) => ("conflict", StatusCode::CONFLICT),
        _ => ("statement_failed", StatusCode::INTERNAL_SERVER_ERROR),
    }
}

/// The reason to refuse a statement. A wrong type with a place in the statement is that of an operator that
/// isn't a condition, such as `&&` of two `tsquery`. From inside of a function, it has no place.
fn reason(sqlstate: &str, offset: Option<usize>) -> Option<Reason> {
    match sqlstate {
        "42804" if offset.is_some() => Some(Reason::Operator),
        _ => reason_of_state(sqlstate),
    }
}

/// A hint for errors without one from the server. PgBouncer has one SQLSTATE for everything that it
/// refuses.
fn remedy(sqlstate: &str, message: &str) -> Option<&'static str> {
    Some(match sqlstate {
        // The prepared statement doesn't exist, or exists already.
        "26000" | "42P05" => {
            "if a pooler such as PgBouncer gives each transaction another connection, set `pooler = \
             \"transaction\"` of the source"
        }
        "08P01" if message.contains("statement pooling") => {
            "a response is a transaction: set `pool_mode = transaction` in the pooler"
        }
        "08P01" if message.contains("startup parameter: options") => {
            "PgBouncer doesn't support `options` in a URL: leave them out, and set them with `alter role … \
             set …` or `alter database … set …`"
        }
        "28P01" => "correct the user and the password in the source's `url`",
        "28000" if message.contains("no encryption") => {
            "this user must connect over TLS: leave `sslmode=disable` out of the `url`"
        }
        "28000" => "correct the user in the source's `url`, or allow it in the server's pg_hba.conf",
        "3D000" => {
            "correct the database in the source's `url`, or create it; `psql -l` lists the existing ones"
        }
        "53300" => "lower `pool.max` of the source, or raise `max_connections` of the server",
        IDLE_TOO_LONG | TRANSACTION_TOO_LONG => {
            "the client reads more slowly than the database's limit for a transaction allows: raise \
             `idle_in_transaction_session_timeout` and `transaction_timeout` of the source's user, or set \
             `slow_clients = \"spill\"`"
        }
        "57P03" => "the server is starting or stopping: try again in a moment",
        _ => return None,
    })
}

/// Returns true if the context of an error ends in the line that PostgreSQL 14 and later add while they read
/// an argument, in the language of the server: `unnamed portal parameter $1 = '...'`. With `log_parameter_max_length_on_error`, it adds
/// one while the statement runs, too: `unnamed portal with parameters: $1 = 'a'`.
fn names_argument(context: &str) -> bool {
    let last = context.lines().next_back().and_then(|line| line.split_once(" $"));
    last.is_some_and(|(before, number)| {
        let value = number.trim_start_matches(|c: char| c.is_ascii_digit());
        let is_number = value.len() < number.len() && (value.is_empty() || value.starts_with(" = '"));
        is_number && !before.ends_with(':')
    })
}

/// The byte offset of character `position` (from 1) of `sql`.
fn byte_offset(sql: &str, position: usize) -> usize {
    sql.char_indices().nth(position.saturating_sub(1)).map_or(sql.len(), |(offset, _)| offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    impl DatabaseError {
        /// For tests: an error at a character of the statement, from 1.
        pub(in super::super) fn at(position: usize) -> Self {
            Self { position: Some(position), ..Self::default() }
        }
    }

    #[test]
    fn sqlstates_have_the_status_of_whose_fault_it_is() {
        for (sqlstate, status) in [
            ("22012", 400),
            ("22P02", 400),
            ("P0001", 400),
            ("23505", 409),
            ("42P01", 500),
            ("42601", 500),
            ("25006", 500),
            ("57014", 504),
            ("57P01", 503),
            ("53300", 503),
            ("40001", 503),
            ("08006", 503),
            ("", 500),
            ("é", 500),
        ] {
            assert_eq!(classify(sqlstate).1, status, "{sqlstate}");
        }
    }

    #[test]
    fn a_wrong_type_is_that_of_an_operator_only_if_it_has_a_place() {
        let error = || DatabaseError { sqlstate: "42804".to_owned(), ..DatabaseError::default() };
        assert_eq!(error().into_refusal(Some(7)).reason(), Some(Reason::Operator));
        assert_eq!(error().into_error().reason(), Some(Reason::Statement));
    }

    /// "cannot insert multiple commands into a prepared statement" has no place either.
    #[test]
    fn a_syntax_error_without_a_place_is_of_a_value_only_if_the_statement_runs() {
        let error = || DatabaseError { sqlstate: "42601".to_owned(), ..DatabaseError::default() };
        assert_eq!(error().into_refusal(None).code(), "statement_failed");
        assert_eq!(error().into_error().code(), INVALID_DATA);
        let internal = DatabaseError { is_internal: true, ..error() };
        assert_eq!(internal.into_error().code(), "statement_failed");
    }

    #[test]
    fn the_parameter_of_a_message_is_found_in_every_language() {
        for (message, number) in [
            ("could not determine data type of parameter $12", Some(12)),
            ("konnte Datentyp von Parameter $1 nicht ermitteln", Some(1)),
            ("operator is not unique: unknown + unknown", None),
            ("costs $ 3", None),
            ("$99999999999999999999999", None),
        ] {
            let error = DatabaseError { message: message.to_owned(), ..DatabaseError::default() };
            assert_eq!(error.parameter(), number, "{message}");
        }
    }

    #[test]
    fn an_error_of_an_argument_has_a_last_line_with_its_number() {
        for (context, expected) in [
            ("unnamed portal parameter $1 = '...'", true),
            ("portal \"p1\" parameter $12", true),
            ("invalid type name \"a b\"\nunbenanntes Portal Parameter $1 = 'a b'", true),
            ("unnamed portal with parameters: $1 = 'a', $2 = 'b'", false),
            ("portail sans nom avec les paramètres : $1 = 'a'", false),
            ("SQL statement \"select $1\"\nPL/pgSQL function f(text) line 1 at SQL statement", false),
            ("remote SQL command: SELECT id FROM public.t WHERE ((id = $1::integer))", false),
            ("remote SQL command: SELECT id FROM public.t WHERE ((note = 'cost $5'::text))", false),
            ("SQL statement \"select $1\"", false),
            ("", false),
        ] {
            assert_eq!(names_argument(context), expected, "{context}");
        }
    }

    #[test]
    fn positions_count_characters() {
        assert_eq!(byte_offset("select é, x", 11), 11);
        assert_eq!(byte_offset("select", 99), 6);
        assert_eq!(byte_offset("select", 0), 0);
    }
}
