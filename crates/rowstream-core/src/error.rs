//! The failures of a request, as its user sees them.
//!
//! A constructor's name states the situation. Before the head is sent, an [`Error`] becomes a
//! problem document (RFC 9457). After that it aborts the stream. It never becomes data. Users see
//! its code, status, message, hint and SQLSTATE. The cause goes only to the log. The [`bounds`]
//! limit all texts, so a problem document has at most 4 KB.

pub mod bounds;
mod codes;
pub mod denial;
pub mod detail;
pub mod reason;

pub use self::codes::{PAGES, Retry, codes, retry_of};
pub use self::detail::ErrorDetail;
pub use self::reason::Reason;

use std::fmt;
use std::time::Duration;

use http::StatusCode;

use self::denial::Denial;

/// The code of a statement that would be given a composite.
pub const COMPOSITE: &str = "statement_composite";
/// The code of [`Error::source_unavailable`].
pub const SOURCE_UNAVAILABLE: &str = "source_unavailable";

/// The code of a statement that its database refuses.
pub const STATEMENT_FAILED: &str = "statement_failed";
/// The code of [`Error::pool_full`].
pub const POOL_FULL: &str = "pool_full";
/// The code of a file that isn't a database, or is a damaged one.
pub const SOURCE_DAMAGED: &str = "source_damaged";
/// The code of [`Error::pool_timeout`].
pub const POOL_TIMEOUT: &str = "pool_timeout";

/// PostgREST's code of [`Error::not_the_only_row`], which its clients compare.
const NOT_THE_ONLY_ROW: &str = "PGRST116";
/// The code of a value that the database can't use.
pub const INVALID_DATA: &str = "invalid_data";
/// The code of [`Error::bad_value`].
pub(crate) const BAD_VALUE: &str = "bad_value";
/// The code of a statement that exceeded its time limit.
pub const STATEMENT_TIMEOUT: &str = "statement_timeout";

/// A failure with a stable code, an HTTP status, and a message for the user.
pub struct Error(Box<ErrorFields>);

struct ErrorFields {
    code: &'static str,
    status: StatusCode,
    message: String,
    /// The database's text, if clients shouldn't see it.
    database: Option<String>,
    hint: Option<String>,
    sqlstate: Option<String>,
    reason: Option<Reason>,
    position: Option<usize>,
    retry_after: Option<Duration>,
    /// True if this situation passes, of a code for which that [depends](Retry::Depends).
    passes: bool,
    denial: Option<Denial>,
    /// The methods that are allowed, as `Allow` lists them.
    allow: Option<&'static str>,
    /// The most shards of the endpoint, if the request names more.
    shards: Option<u32>,
    parameters: Vec<(String, String)>,
    cause: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// An error with its `code` (stable), `status` and `message`. Prefer the constructors for a
    /// situation. A long message is cut. The code must be one of [`codes()`], because each has a page.
    pub fn new(code: &'static str, status: StatusCode, message: impl Into<String>) -> Self {
        debug_assert!(retry_of(code).is_some(), "{code} is missing in error/codes.rs");
        Self(Box::new(ErrorFields {
            code,
            status,
            message: bounds::cut(message.into(), bounds::MESSAGE),
            database: None,
            hint: None,
            sqlstate: None,
            reason: None,
            position: None,
            retry_after: None,
            passes: false,
            denial: None,
            allow: None,
            shards: None,
            parameters: Vec::new(),
            cause: None,
        }))
    }

    /// The database can't be reached, or the connection to it is lost: 503. It's worth another try.
    pub fn source_unavailable(message: impl Into<String>) -> Self {
        Self::new(SOURCE_UNAVAILABLE, StatusCode::SERVICE_UNAVAILABLE, message)
            .retry_after(Duration::from_secs(1))
    }

    /// There are too many connections, and none can be closed: 503.
    pub fn too_many_connections() -> Self {
        Self::new(
            "too_many_connections",
            StatusCode::SERVICE_UNAVAILABLE,
            "the server has no room for another connection, because each open one has a request in flight",
        )
        .retry_after(Duration::from_secs(1))
    }

    /// A method that a path doesn't have: 405. `allow` lists those that it has.
    pub fn method_not_allowed(allow: &'static str) -> Self {
        let message = format!("this path has these methods: {allow}");
        let mut error = Self::new("method_not_allowed", StatusCode::METHOD_NOT_ALLOWED, message);
        error.0.allow = Some(allow);
        error
    }

    /// Bytes that aren't the head of a request: 400.
    pub fn malformed_request() -> Self {
        let message = "the request line or a header field isn't HTTP";
        Self::new("malformed_request", StatusCode::BAD_REQUEST, message).hint(
            "percent-encode the URL (`%22` for `\"`, `%20` for a space); a header field is `name: value`, with one \
            valid `Content-Length` or `Transfer-Encoding: chunked`, not both",
        )
    }

    /// The request line and header fields are too long: 431.
    pub fn headers_too_long() -> Self {
        let message = "the request line and the header fields have more than 16 KiB, or more than 100 fields";
        Self::new("headers_too_long", StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, message)
            .hint("send a shorter URL, and fewer or shorter cookies and other fields")
    }

    /// HTTP/1.0 on a Unix socket: 505.
    pub fn no_http_1_0() -> Self {
        let message = "HTTP/1.0 isn't supported on a Unix socket, because a cut response would look complete";
        Self::new("http_version", StatusCode::HTTP_VERSION_NOT_SUPPORTED, message)
            .hint("use HTTP/1.1; in nginx: `proxy_http_version 1.1;`")
    }

    /// The pool's queue is full: 503 at once.
    pub fn pool_full(source: &str, waiting: usize) -> Self {
        Self::new(
            POOL_FULL,
            StatusCode::SERVICE_UNAVAILABLE,
            format!("source `{source}` is busy, and {waiting} requests are already waiting"),
        )
        .retry_after(Duration::from_secs(1))
    }

    /// No connection was free within `acquire_timeout`: 504.
    pub fn pool_timeout(source: &str, timeout: Duration) -> Self {
        Self::new(
            POOL_TIMEOUT,
            StatusCode::GATEWAY_TIMEOUT,
            format!("no connection of source `{source}` became free within {timeout:?}"),
        )
        .retry_after(Duration::from_secs(1))
    }

    /// No row within `timeout.first_row`: 504.
    pub fn first_row_timeout(timeout: Duration) -> Self {
        Self::new(
            "first_row_timeout",
            StatusCode::GATEWAY_TIMEOUT,
            format!("the first row didn't arrive within {timeout:?}"),
        )
    }

    /// The response took longer than `timeout.total`: 504, or aborted.
    pub fn total_timeout(timeout: Duration) -> Self {
        Self::new(
            "total_timeout",
            StatusCode::GATEWAY_TIMEOUT,
            format!("the answer was not complete within {timeout:?}"),
        )
    }

    /// An operator stopped the stream: aborted.
    pub fn stream_stopped() -> Self {
        Self::new("stream_stopped", StatusCode::SERVICE_UNAVAILABLE, "the stream was stopped by an operator")
    }

    /// The peer broke its protocol with an impossible length, count or order. Ends the stream and
    /// the connection.
    pub fn protocol(message: impl Into<String>) -> Self {
        Self::new("source_protocol", StatusCode::BAD_GATEWAY, message)
    }

    /// An upstream's status isn't a success: 502. It may pass if the upstream was busy, or if a proxy
    /// didn't reach it. A 500 is more often a fault that stays.
    pub fn upstream_status(status: StatusCode, message: impl Into<String>) -> Self {
        const PASSING: [StatusCode; 5] = [
            StatusCode::REQUEST_TIMEOUT,
            StatusCode::TOO_MANY_REQUESTS,
            StatusCode::BAD_GATEWAY,
            StatusCode::SERVICE_UNAVAILABLE,
            StatusCode::GATEWAY_TIMEOUT,
        ];
        let mut error = Self::new("upstream_status", StatusCode::BAD_GATEWAY, message);
        error.0.passes = PASSING.contains(&status);
        error
    }

    /// A value that no format can represent, for example text that isn't UTF-8.
    pub fn bad_value(message: impl Into<String>) -> Self {
        Self::new(BAD_VALUE, StatusCode::INTERNAL_SERVER_ERROR, message)
    }

    /// A row is larger than `max_row_bytes`.
    pub fn row_too_large(bytes: u64, limit: usize) -> Self {
        Self::new(
            "row_too_large",
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("a row of {bytes} bytes is over the limit of {limit} bytes"),
        )
        .hint("raise `max_row_bytes` of the source, or select less")
    }

    /// An error in the endpoint's definition that appears only when it runs.
    pub fn endpoint(message: impl Into<String>) -> Self {
        Self::new("endpoint", StatusCode::INTERNAL_SERVER_ERROR, message)
    }

    /// A statement that must return one row returns a second one.
    pub fn several_rows(statement: &str) -> Self {
        Self::endpoint(format!("statement `{statement}` must return one row, but returns more")).hint(
            "its conditions must find at most one row: compare a unique key, or write `limit 1` or `:many`",
        )
    }

    /// A statement that must return a row returns none: 404.
    pub fn no_such_row() -> Self {
        Self::new("not_found", StatusCode::NOT_FOUND, "there is no such row")
    }

    /// A request wants the only row of a list, but the list has `found`: 406.
    pub fn not_the_only_row(found: &str) -> Self {
        let message =
            format!("the result contains {found}, but the request accepts exactly one, as an object");
        Self::new(NOT_THE_ONLY_ROW, StatusCode::NOT_ACCEPTABLE, message)
            .hint("send conditions that exactly one row meets, or `Accept: application/json` for a list")
    }

    /// Invalid parameters, each with its name and a message: 400. The first ten are listed.
    pub fn invalid_parameters(parameters: Vec<(String, String)>) -> Self {
        let more = parameters.len().saturating_sub(bounds::PARAMETERS);
        Self::wrong_parameters(parameters, (more > 0).then(|| format!("and {more} more")))
    }

    /// A shard of more than the `most` shards of an endpoint: 400.
    pub fn too_many_shards(most: u32) -> Self {
        let message = format!("there are at most {most} shards");
        let mut error = Self::invalid_parameters(vec![("_shard".to_owned(), message)]);
        error.0.shards = Some(most);
        error
    }

    /// Like [`Error::invalid_parameters`], with the number of later pairs and parameters that we
    /// didn't check.
    pub(crate) fn invalid_parameters_before(parameters: Vec<(String, String)>, unread: usize) -> Self {
        Self::wrong_parameters(parameters, (unread > 0).then(|| format!("and {unread} more weren't checked")))
    }

    fn wrong_parameters(mut parameters: Vec<(String, String)>, more: Option<String>) -> Self {
        parameters.truncate(bounds::PARAMETERS);
        let message = bounds::sentence(&parameters, more);
        let mut error = Self::new("invalid_parameter", StatusCode::BAD_REQUEST, message);
        error.0.parameters = parameters;
        error
    }

    /// A request with too many pairs: 400.
    pub(crate) fn too_many_pairs(pairs: usize, most: usize) -> Self {
        let message = format!("the request has {pairs} parameters, but at most {most} are read");
        Self::new("too_many_parameters", StatusCode::BAD_REQUEST, message).hint(
            "request less at a time; one parameter can hold a list of numbers, dates or UUIDs: `id=1,2,3`",
        )
    }

    /// The methods that a path has, if the error is that a request has another one.
    pub fn allow(&self) -> Option<&'static str> {
        self.0.allow
    }

    /// The most shards of the endpoint, if the request names more.
    pub fn shards(&self) -> Option<u32> {
        self.0.shards
    }

    /// Adds the database's text, for the log and the command line. It may contain names of tables
    /// and columns, and values. So clients see only the `message`, unless the configuration says
    /// [otherwise](ErrorDetail).
    #[must_use]
    pub fn database(mut self, text: impl Into<String>) -> Self {
        self.0.database = Some(bounds::cut(text.into(), bounds::MESSAGE));
        self
    }

    /// Adapts the error to a request, `given` if it has set a value. If it hasn't, an unusable
    /// value must be the database's own. An exception that a function raises is written for
    /// clients, and is kept.
    #[must_use]
    pub fn of_request(mut self, given: bool) -> Self {
        let inner = &mut self.0;
        if !given && inner.code == INVALID_DATA && inner.database.is_some() {
            inner.code = BAD_VALUE;
            inner.status = StatusCode::INTERNAL_SERVER_ERROR;
            inner.message = "the statement reads or computes a value that the database can't use".to_owned();
        }
        self
    }

    /// Replaces the message by the database's text if clients may see it.
    #[must_use]
    pub fn in_detail(mut self, detail: ErrorDetail) -> Self {
        if detail == ErrorDetail::Database
            && let Some(text) = self.0.database.take()
        {
            self.0.message = text;
        }
        self
    }

    /// Adds a hint for the user.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(bounds::cut(hint.into(), bounds::HINT));
        self
    }

    /// Adds the database's SQLSTATE.
    #[must_use]
    pub fn sqlstate(mut self, sqlstate: impl Into<String>) -> Self {
        self.0.sqlstate = Some(bounds::cut(sqlstate.into(), bounds::SQLSTATE));
        self
    }

    /// Adds the database's reason to refuse the statement.
    #[must_use]
    pub fn because(mut self, reason: Option<Reason>) -> Self {
        self.0.reason = reason;
        self
    }

    /// Adds the SQLSTATE and the reason of the `cause`.
    #[must_use]
    pub fn state_of(mut self, cause: &Self) -> Self {
        self.0.sqlstate.clone_from(&cause.0.sqlstate);
        self.because(cause.0.reason)
    }

    /// Adds the place of the error in the statement's text, in bytes from its start.
    #[must_use]
    pub fn position(mut self, offset: usize) -> Self {
        self.0.position = Some(offset);
        self
    }

    /// Adds the delay before another try is worthwhile (`Retry-After`). The code must be one that
    /// may pass.
    #[must_use]
    pub fn retry_after(mut self, delay: Duration) -> Self {
        debug_assert!(retry_of(self.0.code) != Some(Retry::No), "{} doesn't pass", self.0.code);
        self.0.retry_after = Some(delay);
        self
    }

    /// Adds the cause, for the log.
    #[must_use]
    pub fn cause(mut self, cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.0.cause = Some(cause.into());
        self
    }

    /// A copy of the failure for another request that it affects.
    pub fn retold(&self) -> Self {
        let ErrorFields {
            code,
            status,
            message,
            database,
            hint,
            sqlstate,
            reason,
            position,
            retry_after,
            passes,
            denial,
            allow,
            shards,
            parameters,
            cause,
        } = &*self.0;
        let cause = cause.as_ref().map(|cause| cause.to_string().into());
        Self(Box::new(ErrorFields {
            code,
            status: *status,
            message: message.clone(),
            database: database.clone(),
            hint: hint.clone(),
            sqlstate: sqlstate.clone(),
            reason: *reason,
            position: *position,
            retry_after: *retry_after,
            passes: *passes,
            denial: *denial,
            allow: *allow,
            shards: *shards,
            parameters: parameters.clone(),
            cause,
        }))
    }

    /// The problem document (RFC 9457). Its members are `type` (the path of a page of this server),
    /// `title`, `status`, `detail`, `code` and `retry`. `retry_after`, `hint`, `sqlstate` and the
    /// list of invalid `parameters` are optional. It has at most 4 KB.
    pub fn problem(&self) -> String {
        self.members().to_string() + "\n"
    }

    /// The problem document with the members that PostgREST's clients read: `message` repeats
    /// `detail`, as far as the length allows. An error with PostgREST's own code also has `details`.
    pub fn problem_with_message(&self) -> String {
        let mut members = self.members();
        let room = bounds::DOCUMENT.saturating_sub(members.to_string().len() + bounds::AROUND_MESSAGE);
        let message = bounds::cut(self.0.message.clone(), room);
        if self.0.code == NOT_THE_ONLY_ROW {
            members["details"] = message.as_str().into();
        }
        members["message"] = message.into();
        members.to_string() + "\n"
    }

    /// The members of the problem document.
    pub fn members(&self) -> serde_json::Value {
        let ErrorFields { code, status, message, .. } = &*self.0;
        let mut problem = serde_json::json!({
            "type": format!("{}{code}", PAGES),
            "title": status.canonical_reason(),
            "status": status.as_u16(),
            "detail": message,
            "code": code,
            "retry": self.may_pass(),
        });
        if let Some(seconds) = self.retry_seconds() {
            problem["retry_after"] = seconds.into();
        }
        if let Some(hint) = &self.0.hint {
            problem["hint"] = hint.as_str().into();
        }
        if let Some(sqlstate) = &self.0.sqlstate {
            problem["sqlstate"] = sqlstate.as_str().into();
        }
        if !self.parameters().is_empty() {
            let wrong = bounds::listed(self.parameters());
            problem["parameters"] =
                wrong.map(|(name, message)| serde_json::json!({"name": name, "message": message})).collect();
        }
        problem
    }

    /// The stable code.
    pub fn code(&self) -> &'static str {
        self.0.code
    }

    /// The status of the response, if its head hasn't been sent.
    pub fn status(&self) -> StatusCode {
        self.0.status
    }

    /// The message for the user. If clients shouldn't see the database's text, only `Display` shows
    /// it.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The invalid parameters, each with its name and a message.
    pub fn parameters(&self) -> &[(String, String)] {
        &self.0.parameters
    }

    /// The hint for the user.
    pub fn hint_text(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }

    /// The database's SQLSTATE.
    pub fn sqlstate_text(&self) -> Option<&str> {
        self.0.sqlstate.as_deref()
    }

    /// The database's reason to refuse the statement, if the server treats it differently.
    pub fn reason(&self) -> Option<Reason> {
        self.0.reason
    }

    /// The place in the statement's text, in bytes from its start.
    pub fn position_offset(&self) -> Option<usize> {
        self.0.position
    }

    /// The message and the cause, in one line for operators.
    pub fn for_operators(&self) -> String {
        match &self.0.cause {
            Some(cause) => format!("{}: {cause}", self.0.database.as_ref().unwrap_or(&self.0.message)),
            None => self.to_string(),
        }
    }

    /// Returns true if the error is due to the state of its source, which may change before the
    /// next try, and not to the request.
    pub fn is_of_source(&self) -> bool {
        let passing = [StatusCode::BAD_GATEWAY, StatusCode::SERVICE_UNAVAILABLE, StatusCode::GATEWAY_TIMEOUT];
        passing.contains(&self.0.status) || self.0.code == SOURCE_DAMAGED
    }

    /// The delay before another try is worthwhile.
    pub fn retry_delay(&self) -> Option<Duration> {
        self.0.retry_after
    }

    /// The delay in whole seconds, as clients get it, rounded up. At least one, because a client
    /// that gets 0 would repeat its request at once.
    pub fn retry_seconds(&self) -> Option<u64> {
        let rounded = |delay: Duration| delay.as_secs().saturating_add(u64::from(delay.subsec_nanos() > 0));
        self.0.retry_after.map(|delay| rounded(delay).max(1))
    }

    /// Returns true if the same request may succeed later. An error with a delay always may.
    pub fn may_pass(&self) -> bool {
        let passes = match retry_of(self.0.code) {
            Some(Retry::Yes) => true,
            Some(Retry::Depends) => self.0.passes,
            Some(Retry::No) | None => false,
        };
        passes || self.0.retry_after.is_some()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.database.as_ref().unwrap_or(&self.0.message))?;
        match &self.0.sqlstate {
            Some(sqlstate) => write!(f, " (SQLSTATE {sqlstate})"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {self}", self.0.code)?;
        match &self.0.cause {
            Some(cause) => write!(f, ": {cause}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.cause.as_deref().map(|cause| cause as &(dyn std::error::Error + 'static))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The longest possible error, from a character that JSON writes in six bytes.
    fn longest(parameters: usize) -> Error {
        let long = "\u{1}".repeat(100_000);
        let wrong = (0..parameters).map(|_| (long.clone(), long.clone())).collect();
        let error = Error::invalid_parameters(wrong).hint(long.as_str()).sqlstate(long);
        let code = "too_many_streams_of_endpoint";
        Error(Box::new(ErrorFields { code, retry_after: Some(Duration::MAX), ..*error.0 }))
    }

    /// 15 KB of unknown parameters once led to a response of 390 KB. It contained each of them
    /// twice, in full length.
    #[test]
    fn a_problem_document_has_an_end() {
        for parameters in [0, 1, 2, 5, 10, 11, 10_000] {
            let document = longest(parameters).problem();
            assert!(document.len() <= bounds::DOCUMENT, "{parameters}: {} bytes", document.len());
            let json: serde_json::Value = serde_json::from_str(&document).expect("it is JSON");
            let listed = json["parameters"].as_array().map_or(0, Vec::len);
            assert_eq!(listed, parameters.min(bounds::PARAMETERS));
            assert!(json["hint"].as_str().is_some_and(|hint| hint.ends_with('…')), "{document}");
            let with_message = longest(parameters).problem_with_message();
            assert!(with_message.len() <= bounds::DOCUMENT, "{parameters}: {} bytes", with_message.len());
            let json: serde_json::Value = serde_json::from_str(&with_message).expect("it is JSON");
            let message = json["message"].as_str().map(|message| message.trim_end_matches('…'));
            let is_beginning = |detail: &str| message.is_some_and(|message| detail.starts_with(message));
            assert!(json["detail"].as_str().is_some_and(is_beginning), "{with_message}");
        }
    }

    #[test]
    fn clients_of_postgrest_find_the_message() {
        let document = |error: Error| {
            serde_json::from_str::<serde_json::Value>(&error.problem_with_message()).expect("it is JSON")
        };
        let none = document(Error::not_the_only_row("0 rows"));
        assert_eq!((&none["code"], &none["message"]), (&"PGRST116".into(), &none["detail"]));
        assert!(
            none["details"].as_str().is_some_and(|details| details.contains("contains 0 rows")),
            "{none}"
        );
        let other = document(Error::endpoint("m"));
        assert_eq!((&other["message"], other.get("details")), (&"m".into(), None));
    }

    #[test]
    fn an_error_says_if_a_retry_makes_sense() {
        let status = |status| Error::upstream_status(status, "m");
        for (error, retry, seconds) in [
            (Error::endpoint("m"), false, None),
            (Error::total_timeout(Duration::from_secs(1)), true, None),
            (Error::pool_full("db", 1), true, Some(1)),
            (Error::pool_full("db", 1).retold(), true, Some(1)),
            (Error::source_unavailable("m").retry_after(Duration::from_millis(2100)), true, Some(3)),
            (Error::source_unavailable("m").retry_after(Duration::ZERO), true, Some(1)),
            (status(StatusCode::SERVICE_UNAVAILABLE), true, None),
            (status(StatusCode::SERVICE_UNAVAILABLE).retold(), true, None),
            (status(StatusCode::TOO_MANY_REQUESTS), true, None),
            (status(StatusCode::NOT_FOUND), false, None),
            (status(StatusCode::INTERNAL_SERVER_ERROR), false, None),
            // The database's error may pass, but not the denial into which it's turned.
            (Error::source_unavailable("m").denied_by_database(Denial::Role), false, None),
        ] {
            let members = error.members();
            assert_eq!(members["retry"], retry, "{error:?}");
            assert_eq!(members.get("retry_after").and_then(serde_json::Value::as_u64), seconds, "{error:?}");
        }
    }

    proptest! {
        #[test]
        fn any_texts_make_a_short_document(
            message in any::<String>(),
            hint in any::<String>(),
            wrong in proptest::collection::vec(any::<(String, String)>(), 0..20),
        ) {
            for error in [Error::endpoint(message.repeat(100)), Error::invalid_parameters(wrong)] {
                let document = error.hint(hint.repeat(100)).problem();
                prop_assert!(document.len() <= bounds::DOCUMENT);
                prop_assert!(serde_json::from_str::<serde_json::Value>(&document).is_ok());
            }
        }
    }
}
