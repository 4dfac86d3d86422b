//! The ends of requests, with one set of names for the access log, the metrics and the timing of a
//! stream; and the numbers of their rows.

use std::ops::Add;
use std::time::Duration;

use http::StatusCode;
use rowstream_core::Error;
use rowstream_core::error::{POOL_FULL, POOL_TIMEOUT};

/// The number of all rows of a list.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowTotal {
    pub(crate) rows: u64,
    /// True if the database's planner guessed it.
    pub(crate) is_planned: bool,
}

/// How long a stream waited and worked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Times {
    /// Waiting for a connection.
    pub pool: Duration,
    /// Waiting for the database.
    pub database: Duration,
    /// Reading and encoding rows.
    pub encode: Duration,
    /// Waiting for the client to read.
    pub client: Duration,
    /// The part of `client` while the stream held a connection.
    pub held: Duration,
}

/// The rows of a response, by their place in it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RowCounts {
    /// The rows that a client can count: lines, events, or elements of the lists in a JSON body.
    /// Without a list, the rows of all statements.
    pub rows: u64,
    /// The rows inside of other rows; `None` if the response has no nested statements.
    pub nested: Option<u64>,
    /// The rows of `:one` and `:value` statements in a JSON body with lists.
    pub beside: u64,
}

impl RowCounts {
    /// Rows that are neither nested nor beside a list.
    pub fn of(rows: u64) -> Self {
        Self { rows, ..Self::default() }
    }

    /// All rows that were encoded.
    pub fn all(self) -> u64 {
        self.rows + self.nested.unwrap_or(0) + self.beside
    }
}

impl Add for RowCounts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            rows: self.rows + other.rows,
            nested: match (self.nested, other.nested) {
                (Some(one), Some(further)) => Some(one + further),
                (one, further) => one.or(further),
            },
            beside: self.beside + other.beside,
        }
    }
}

/// The rows of one of a body's lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListCount {
    /// The name of the list's statement.
    pub name: Box<str>,
    /// The number of its rows.
    pub rows: u64,
}

/// The reason why there's no permit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PermitRefusal {
    /// The client runs as many streams as it may.
    Client,
    /// The endpoint has no permit left.
    Endpoint,
    /// The server has no permit left.
    Server,
    /// The streams and requests that run have all the memory.
    Memory,
}

impl PermitRefusal {
    /// Every reason.
    pub const ALL: [Self; 4] = [Self::Client, Self::Endpoint, Self::Server, Self::Memory];

    /// The code of its error.
    pub fn code(self) -> &'static str {
        match self {
            Self::Client => "too_many_streams_of_client",
            Self::Endpoint => "too_many_streams_of_endpoint",
            Self::Server => "too_many_streams",
            Self::Memory => "no_memory",
        }
    }

    pub(crate) fn status(self) -> StatusCode {
        match self {
            Self::Client => StatusCode::TOO_MANY_REQUESTS,
            Self::Endpoint | Self::Server | Self::Memory => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}

/// The end of a request.
#[derive(Debug)]
pub enum Outcome {
    /// Everything was handed to the client's connection.
    Complete,
    /// It failed with this error. The client got its status if the headers weren't sent yet;
    /// otherwise the response was aborted.
    Failed(Error),
    /// The client went away.
    Aborted,
    /// The client read nothing for too long.
    Stalled,
    /// The client read slower than the endpoint's minimum rate.
    TooSlow,
    /// The server ended before the request did.
    Shutdown,
}

/// The end of a request, as logs and metrics name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OutcomeName {
    /// Everything was handed to the client's connection.
    Complete,
    /// Answered with a status from 400 to 499: the request was wrong, or there's no such row.
    ClientError,
    /// Refused for lack of room: no permit, no slot in a pool in time, or no place in its queue.
    Refused,
    /// It failed in another way, before or after the headers.
    Failed,
    /// The client went away.
    Aborted,
    /// The client read nothing for too long.
    Stalled,
    /// The client read slower than the endpoint's minimum rate.
    TooSlow,
    /// The server ended before the request did.
    Shutdown,
}

impl OutcomeName {
    pub(crate) const ALL: [Self; 8] = [
        Self::Complete,
        Self::ClientError,
        Self::Refused,
        Self::Failed,
        Self::Aborted,
        Self::Stalled,
        Self::TooSlow,
        Self::Shutdown,
    ];

    /// The possible ends of a stream whose status was a success.
    pub(crate) const OF_STREAMS: [Self; 6] =
        [Self::Complete, Self::Failed, Self::Aborted, Self::Stalled, Self::TooSlow, Self::Shutdown];

    /// The end of a request whose response has this status, if it has one.
    pub(crate) fn of(outcome: &Outcome, status: Option<StatusCode>) -> Self {
        match outcome {
            // An upstream's answer is passed through completely, with any status.
            Outcome::Complete => match status {
                Some(status) if status.is_client_error() => Self::ClientError,
                Some(status) if status.is_server_error() => Self::Failed,
                _ => Self::Complete,
            },
            // The client has seen the status of a success, not that of the error.
            Outcome::Failed(_) if status.is_some_and(|status| status.is_success()) => Self::Failed,
            Outcome::Failed(error) if is_refusal(error) => Self::Refused,
            Outcome::Failed(_) if status.is_some_and(|status| status.is_client_error()) => Self::ClientError,
            Outcome::Failed(_) => Self::Failed,
            Outcome::Aborted => Self::Aborted,
            Outcome::Stalled => Self::Stalled,
            Outcome::TooSlow => Self::TooSlow,
            Outcome::Shutdown => Self::Shutdown,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::ClientError => "client_error",
            Self::Refused => "refused",
            Self::Failed => "failed",
            Self::Aborted => "aborted",
            Self::Stalled => "client_stalled",
            Self::TooSlow => "client_shed",
            Self::Shutdown => "shutdown",
        }
    }
}

/// True if admission or a pool refused the request.
fn is_refusal(error: &Error) -> bool {
    let codes = PermitRefusal::ALL.map(PermitRefusal::code);
    codes.contains(&error.code()) || [POOL_FULL, POOL_TIMEOUT].contains(&error.code())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// The access log called a 404 `failed`, and the metrics called it `client_error`.
    #[test]
    fn an_end_has_one_name() {
        let not_found = || Outcome::Failed(Error::new("not_found", StatusCode::NOT_FOUND, "none"));
        let full = || Outcome::Failed(Error::pool_full("db", 1));
        let timeout = || Outcome::Failed(Error::pool_timeout("db", Duration::from_secs(1)));
        for (outcome, status, name) in [
            (Outcome::Complete, Some(200), "complete"),
            (Outcome::Complete, Some(404), "client_error"),
            (Outcome::Complete, Some(502), "failed"),
            (not_found(), Some(404), "client_error"),
            (not_found(), Some(200), "failed"),
            (full(), Some(503), "refused"),
            (timeout(), Some(504), "refused"),
            // Its stream had begun, so it wasn't refused.
            (full(), Some(200), "failed"),
            (Outcome::Failed(Error::protocol("broken")), Some(502), "failed"),
            (Outcome::Aborted, None, "aborted"),
        ] {
            let status = status.map(|status| StatusCode::from_u16(status).unwrap());
            assert_eq!(OutcomeName::of(&outcome, status).name(), name, "{outcome:?} {status:?}");
        }
    }
}
