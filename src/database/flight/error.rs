//! What goes wrong in a call of gRPC, and what users see of it.

use http::StatusCode;

use super::super::refused::general;
use rowstream_core::Error;
use rowstream_core::error::STATEMENT_TIMEOUT;

/// The codes of gRPC that make a difference here.
pub(super) mod code {
    pub(in super::super) const CANCELLED: u32 = 1;
    pub(in super::super) const DEADLINE_EXCEEDED: u32 = 4;
    pub(in super::super) const NOT_FOUND: u32 = 5;
    pub(in super::super) const RESOURCE_EXHAUSTED: u32 = 8;
    pub(in super::super) const UNIMPLEMENTED: u32 = 12;
    pub(in super::super) const UNAVAILABLE: u32 = 14;
    pub(in super::super) const UNAUTHENTICATED: u32 = 16;
}

/// Why a call has no answer, or no more of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Failure {
    /// What the server says, by gRPC's code.
    Status(u32, String),
    /// The connection or the stream was lost.
    Lost(String),
    /// What came is no gRPC, or no Arrow Flight.
    Broken(String),
    /// A message has so many bytes.
    TooLong(u64),
    /// A ticket was valid until then.
    Expired,
    /// An endpoint can only be read where the configuration does not allow it.
    Elsewhere(String),
    /// The columns are not those that were described.
    Changed,
}

impl Failure {
    pub(super) fn broken(message: impl Into<String>) -> Self {
        Self::Broken(message.into())
    }

    /// Whether the server has no such call.
    pub(super) fn is_unimplemented(&self) -> bool {
        matches!(self, Self::Status(code::UNIMPLEMENTED, _))
    }

    /// Whether the same statement, asked again, may well be answered.
    pub(super) fn may_pass(&self) -> bool {
        match self {
            Self::Expired | Self::Lost(_) => true,
            Self::Status(code, _) => {
                matches!(*code, code::NOT_FOUND | code::UNAVAILABLE | code::RESOURCE_EXHAUSTED)
            }
            Self::Broken(_) | Self::TooLong(_) | Self::Elsewhere(_) | Self::Changed => false,
        }
    }

    /// The error of a statement of the source called `source`.
    pub(super) fn into_error(self, source: &str, limit: usize) -> Error {
        match self {
            Self::Status(code, message) => of_status(source, code, message),
            Self::Lost(cause) => {
                Error::source_unavailable(format!("the connection to source `{source}` was lost"))
                    .cause(cause)
            }
            Self::Broken(cause) => {
                Error::protocol(format!("source `{source}` does not speak Arrow Flight SQL as it is written"))
                    .cause(cause)
            }
            Self::TooLong(bytes) => Error::new(
                "row_too_large",
                StatusCode::INTERNAL_SERVER_ERROR,
                format!("a batch of rows has {bytes} bytes, and {limit} are the limit"),
            )
            .hint(
                "have the server send smaller batches, raise `max_row_bytes` of the source, or select less",
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
                .cause(format!("{message}; it wants a user and a password, or a `token`, in the URL"));
        }
        _ => ("statement_failed", StatusCode::INTERNAL_SERVER_ERROR),
    };
    Error::new(name, status, general(name)).database(message)
}
