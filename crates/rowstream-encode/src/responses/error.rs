//! Errors while a response is created, before or after its first byte.

use std::fmt;

use super::BoxError;

/// The reason why a response couldn't be created or completed.
///
/// If a stream failed, its error is the [`source`](std::error::Error::source), which a handler can
/// downcast to choose a status. Returned from a handler of axum unchanged, this is a 500 without
/// details.
#[derive(Debug)]
pub struct StreamError {
    kind: ErrorKind,
    cause: Option<BoxError>,
}

#[derive(Debug)]
enum ErrorKind {
    Stream,
    Unserialisable,
    Aborted,
    NoRandomness,
}

impl StreamError {
    /// A stream or a future yielded an error.
    pub(super) fn stream(cause: BoxError) -> Self {
        Self { kind: ErrorKind::Stream, cause: Some(cause) }
    }

    /// The structure or an item can't be written in this format.
    pub(super) fn unserialisable(cause: impl Into<BoxError>) -> Self {
        Self { kind: ErrorKind::Unserialisable, cause: Some(cause.into()) }
    }

    /// A framed response has no tag.
    pub(super) fn no_randomness(cause: impl Into<BoxError>) -> Self {
        Self { kind: ErrorKind::NoRandomness, cause: Some(cause.into()) }
    }

    /// A body was polled after it had failed.
    pub(super) fn broken_off() -> Self {
        Self { kind: ErrorKind::Aborted, cause: None }
    }
}

impl fmt::Display for StreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            ErrorKind::Stream => "a stream of the response failed",
            ErrorKind::Unserialisable => "the response holds what its format cannot",
            ErrorKind::Aborted => "the response was aborted",
            ErrorKind::NoRandomness => "the system returns no random numbers",
        })
    }
}

impl std::error::Error for StreamError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.cause.as_ref().map(|cause| cause.as_ref() as _)
    }
}

#[cfg(feature = "axum")]
impl axum_core::response::IntoResponse for StreamError {
    fn into_response(self) -> axum_core::response::Response {
        (http::StatusCode::INTERNAL_SERVER_ERROR, "the response could not be made\n").into_response()
    }
}
