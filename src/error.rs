//! What goes wrong on the way from a request to its last byte, as a user is told it.
//!
//! An [`Error`] is made where the situation is known, by a constructor that names it. It becomes a problem
//! document (RFC 9457) before the head is sent, and an aborted stream after it; it never becomes data. What users
//! are told (code, status, message, hint, SQLSTATE) is apart from the cause, which goes to the log alone.

use std::fmt;
use std::time::Duration;

use http::StatusCode;

/// The code of [`Error::pool_full`].
pub(crate) const POOL_FULL: &str = "pool_full";
/// The code of [`Error::pool_timeout`].
pub(crate) const POOL_TIMEOUT: &str = "pool_timeout";

/// A failure with a stable code, an HTTP status, and a message for the user.
pub struct Error(Box<Inner>);

struct Inner {
    code: &'static str,
    status: StatusCode,
    message: String,
    hint: Option<String>,
    sqlstate: Option<String>,
    position: Option<usize>,
    retry_after: Option<Duration>,
    parameters: Vec<(String, String)>,
    cause: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// A failure by its `code` (stable, snake_case), `status` and `message`; see the constructors by situation first.
    pub fn new(code: &'static str, status: StatusCode, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            code,
            status,
            message: message.into(),
            hint: None,
            sqlstate: None,
            position: None,
            retry_after: None,
            parameters: Vec::new(),
            cause: None,
        }))
    }

    /// The database cannot be reached, or went away: 503, worth another try.
    pub fn source_unavailable(message: impl Into<String>) -> Self {
        Self::new("source_unavailable", StatusCode::SERVICE_UNAVAILABLE, message)
            .retry_after(Duration::from_secs(1))
    }

    /// The pool's queue is full: 503 at once.
    pub fn pool_full(source: &str, waiting: usize) -> Self {
        Self::new(
            POOL_FULL,
            StatusCode::SERVICE_UNAVAILABLE,
            format!("source `{source}` is busy, and {waiting} requests wait already"),
        )
        .retry_after(Duration::from_secs(1))
    }

    /// No connection came free within `acquire_timeout`: 504.
    pub fn pool_timeout(source: &str, timeout: Duration) -> Self {
        Self::new(
            POOL_TIMEOUT,
            StatusCode::GATEWAY_TIMEOUT,
            format!("no connection of source `{source}` came free within {timeout:?}"),
        )
        .retry_after(Duration::from_secs(1))
    }

    /// No row within `timeout.first_row`: 504.
    pub fn first_row_timeout(timeout: Duration) -> Self {
        Self::new(
            "first_row_timeout",
            StatusCode::GATEWAY_TIMEOUT,
            format!("there was no row within {timeout:?}"),
        )
    }

    /// An answer that took longer than `timeout.total`: 504, or broken off.
    pub fn total_timeout(timeout: Duration) -> Self {
        Self::new(
            "total_timeout",
            StatusCode::GATEWAY_TIMEOUT,
            format!("the answer was not complete within {timeout:?}"),
        )
    }

    /// The peer broke its protocol: a length, count or order that cannot be. Ends the stream and the connection.
    pub fn protocol(message: impl Into<String>) -> Self {
        Self::new("source_protocol", StatusCode::BAD_GATEWAY, message)
    }

    /// A value that its source holds but no format can carry (text that is not UTF-8).
    pub fn bad_value(message: impl Into<String>) -> Self {
        Self::new("bad_value", StatusCode::INTERNAL_SERVER_ERROR, message)
    }

    /// A row beyond `max_row_bytes`.
    pub fn row_too_large(bytes: u64, limit: usize) -> Self {
        Self::new(
            "row_too_large",
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("a row of {bytes} bytes is over the limit of {limit} bytes"),
        )
        .hint("raise `max_row_bytes` of the source, or select less")
    }

    /// A fault of the endpoint's own definition that shows only when it runs.
    pub fn endpoint(message: impl Into<String>) -> Self {
        Self::new("endpoint", StatusCode::INTERNAL_SERVER_ERROR, message)
    }

    /// A statement that must yield one row yields a second one.
    pub fn several_rows(statement: &str) -> Self {
        Self::endpoint(format!("statement `{statement}` must yield one row, and yields more"))
    }

    /// Parameters that the request has wrong, each by its name and what is wrong with it: 400.
    pub fn invalid_parameters(parameters: Vec<(String, String)>) -> Self {
        // A request can make up any number of names; the message is for people.
        const TOLD: usize = 20;
        let mut told: Vec<_> = (parameters.iter().take(TOLD))
            .map(|(name, message)| format!("parameter `{name}`: {message}"))
            .collect();
        if parameters.len() > TOLD {
            told.push(format!("and {} more", parameters.len() - TOLD));
        }
        let mut error = Self::new("invalid_parameter", StatusCode::BAD_REQUEST, told.join("; "));
        error.0.parameters = parameters;
        error
    }

    /// Adds what the user can do about it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// Adds the SQLSTATE that the database gave.
    #[must_use]
    pub fn sqlstate(mut self, sqlstate: impl Into<String>) -> Self {
        self.0.sqlstate = Some(sqlstate.into());
        self
    }

    /// Adds the place in the statement's text, in bytes from its start, at which the database found the fault.
    #[must_use]
    pub fn position(mut self, offset: usize) -> Self {
        self.0.position = Some(offset);
        self
    }

    /// Adds when another try is worth it (`Retry-After`).
    #[must_use]
    pub fn retry_after(mut self, delay: Duration) -> Self {
        self.0.retry_after = Some(delay);
        self
    }

    /// Adds the cause, for the log.
    #[must_use]
    pub fn cause(mut self, cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.0.cause = Some(cause.into());
        self
    }

    /// The problem document (RFC 9457): `type`, `title`, `status`, `detail` and `code`, and where there is one `hint`,
    /// `sqlstate`, and the list of `parameters` that are wrong.
    pub fn problem(&self) -> String {
        self.members().to_string() + "\n"
    }

    /// The members of the problem document.
    pub(crate) fn members(&self) -> serde_json::Value {
        let Inner { code, status, message, .. } = &*self.0;
        let mut problem = serde_json::json!({
            "type": format!("urn:rowstream:problem:{code}"),
            "title": status.canonical_reason(),
            "status": status.as_u16(),
            "detail": message,
            "code": code,
        });
        if let Some(hint) = &self.0.hint {
            problem["hint"] = hint.as_str().into();
        }
        if let Some(sqlstate) = &self.0.sqlstate {
            problem["sqlstate"] = sqlstate.as_str().into();
        }
        if !self.parameters().is_empty() {
            let wrong = self.parameters().iter();
            problem["parameters"] =
                wrong.map(|(name, message)| serde_json::json!({"name": name, "message": message})).collect();
        }
        problem
    }

    /// The stable code.
    pub fn code(&self) -> &'static str {
        self.0.code
    }

    /// The status that the response has when nothing of it has been sent.
    pub fn status(&self) -> StatusCode {
        self.0.status
    }

    /// What happened, for the user.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The parameters that the request has wrong, each by its name and what is wrong with it.
    pub fn parameters(&self) -> &[(String, String)] {
        &self.0.parameters
    }

    /// What the user can do about it.
    pub fn hint_text(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }

    /// The database's SQLSTATE.
    pub fn sqlstate_text(&self) -> Option<&str> {
        self.0.sqlstate.as_deref()
    }

    /// The place in the statement's text, in bytes from its start.
    pub fn position_offset(&self) -> Option<usize> {
        self.0.position
    }

    /// When another try is worth it.
    pub fn retry_delay(&self) -> Option<Duration> {
        self.0.retry_after
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
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
