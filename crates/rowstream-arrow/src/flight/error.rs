//! Failures of gRPC calls, and the errors that users see.

use http::StatusCode;
use rowstream_core::Error;
use rowstream_core::error::STATEMENT_TIMEOUT;
use rowstream_database::refused::{general, reason_of_text};

/// The gRPC codes that we treat differently.
pub(super) mod code {
    pub(in super::super) const CANCELLED: u32 = 1;
    pub(in super::super) const DEADLINE_EXCEEDED: u32 = 4;
    pub(in super::super) const NOT_FOUND: u32 = 5;
    pub(in super::super) const RESOURCE_EXHAUSTED: u32 = 8;
    pub(in super::super) const UNIMPLEMENTED: u32 = 12;
    pub(in super::super) const UNAVAILABLE: u32 = 14;
    pub(in super::super) const UNAUTHENTICATED: u32 = 16;
}

/// The reason why a call got no answer, or only a part of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Failure {
    /// The server's gRPC code and message.
    Status(u32, String),
    /// The connection or the stream was lost.
    Lost(String),
    /// The server's bytes aren't valid gRPC or Arrow Flight.
    Broken(String),
    /// A message has this many bytes, which is too long.
    TooLong(u64),
    /// A ticket has expired.
    Expired,
    /// An endpoint can only be read at this server, and the configuration doesn't allow it.
    Elsewhere(String),
    /// The columns differ from those that were described.
    Changed,
}

impl Failure {
    pub(super) fn broken(message: impl Into<String>) -> Self {
        Self::Broken(message.into())
    }

    /// Returns true if the server doesn't implement the call.
    pub(super) fn is_unimplemented(&self) -> bool {
        matches!(self, Self::Status(code::UNIMPLEMENTED, _))
    }

    /// Returns true if the server doesn't accept the credentials.
    pub(super) fn is_refused_login(&self) -> bool {
        matches!(self, Self::Status(code::UNAUTHENTICATED, _))
    }

    /// Returns true if the same statement may succeed when it's sent again.
    pub(super) fn may_pass(&self) -> bool {
        match self {
            Self::Expired | Self::Lost(_) => true,
            Self::Status(code, _) => {
                matches!(*code, code::NOT_FOUND | code::UNAVAILABLE | code::RESOURCE_EXHAUSTED)
            }
            Self::Broken(_) | Self::TooLong(_) | Self::Elsewhere(_) | Self::Changed => false,
        }
    }

    /// The error of a statement of the source `source`.
    pub(super) fn into_error(self, source: &str, limit: usize) -> Error {
        match self {
            Self::Status(code, message) => of_status(source, code, message),
            Self::Lost(cause) => {
                Error::source_unavailable(format!("the connection to source `{source}` was lost"))
                    .cause(cause)
            }
            Self::Broken(cause) => {
                Error::protocol(format!("source `{source}` doesn't follow the protocol of Arrow Flight SQL"))
                    .cause(cause)
            }
            Self::TooLong(bytes) => Error::new(
                "row_too_large",
                StatusCode::INTERNAL_SERVER_ERROR,
                format!("a batch of rows has {bytes} bytes, but {limit} are the limit"),
            )
            .hint(
                "configure smaller batches in the server, raise `max_row_bytes` of the source, or select \
                 less",
            ),
            Self::Expired => {
                Error::source_unavailable(format!("a ticket of source `{source}` expired before it was read"))
            }
            Self::Elsewhere(host) => Error::endpoint(format!(
                "source `{source}` keeps rows at {host}, which its URL does not allow"
            ))
            .hint("if that is one of its own servers, add `location=HOST:PORT` to the URL's parameters"),
            Self::Changed => {
                let code = "statement_changed";
                Error::new(code, StatusCode::SERVICE_UNAVAILABLE, general(code))
                    .retry_after(std::time::Duration::from_secs(1))
            }
        }
    }
}

fn of_status(source: &str, code: u32, message: String) -> Error {
    let message = if message.is_empty() { format!("status {code} of gRPC") } else { message };
    let (name, status) = match code {
        code::CANCELLED | code::DEADLINE_EXCEEDED => (STATEMENT_TIMEOUT, StatusCode::GATEWAY_TIMEOUT),
        code::UNAVAILABLE | code::RESOURCE_EXHAUSTED => {
            let text = format!("source `{source}` cannot answer now");
            return Error::source_unavailable(text).cause(message);
        }
        code::UNAUTHENTICATED => {
            let text = format!("source `{source}` cannot be reached");
            return Error::source_unavailable(text)
                .cause(format!("{message}; it needs a user and a password, or a `token`, in the URL"));
        }
        _ => ("statement_failed", StatusCode::INTERNAL_SERVER_ERROR),
    };
    Error::new(name, status, general(name)).because(reason_of_text(&message)).database(message)
}
