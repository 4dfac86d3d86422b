//! How requests end: one set of words for the access log, the metrics and the account of a stream.

use std::time::Duration;

use http::StatusCode;

use crate::Error;
use crate::error::{POOL_FULL, POOL_TIMEOUT};

/// Where the time of a stream went.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Times {
    /// Waiting for a connection.
    pub pool: Duration,
    /// Waiting for the database.
    pub database: Duration,
    /// Reading and encoding rows.
    pub encode: Duration,
    /// Waiting for the client to take what there is.
    pub client: Duration,
    /// How much of `client` a connection was held for.
    pub held: Duration,
}

/// Why there is no permit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The client has all of its own.
    Client,
    /// All of the endpoint's are in use.
    Endpoint,
    /// All of the server's are in use.
    Server,
    /// What runs has all the memory for streams.
    Memory,
}

impl Refusal {
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

/// How a request ended.
#[derive(Debug)]
pub enum Outcome {
    /// Everything was handed to the client's connection.
    Complete,
    /// It failed, by the error's code: with a status where the head was not sent yet, else by
    /// aborting the response.
    Failed(Error),
    /// The client went away.
    Aborted,
    /// The client took nothing for too long.
    Stalled,
    /// The client took less than the endpoint's minimum rate.
    TooSlow,
    /// The server ended while it ran.
    Shutdown,
}

/// How a request ended, as it is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Everything was handed to the client's connection.
    Complete,
    /// Answered with a status from 400 to 499: by the request, or because there is no such row.
    ClientError,
    /// There was no room: no permit, no place in a pool or in its queue in time.
    Refused,
    /// It failed otherwise, before the head or after it.
    Failed,
    /// The client went away.
    Aborted,
    /// The client took nothing for too long.
    Stalled,
    /// The client took less than the endpoint's minimum rate.
    TooSlow,
    /// The server ended while it ran.
    Shutdown,
}

impl Ended {
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

    /// What can become of a stream, whose head is that of a success.
    pub(crate) const OF_STREAMS: [Self; 6] =
        [Self::Complete, Self::Failed, Self::Aborted, Self::Stalled, Self::TooSlow, Self::Shutdown];

    /// The end of a request whose response has this status, if it has one.
    pub(crate) fn of(outcome: &Outcome, status: Option<StatusCode>) -> Self {
        match outcome {
            // What an upstream answered is passed through as a whole, whatever it says.
            Outcome::Complete => match status {
                Some(status) if status.is_client_error() => Self::ClientError,
                Some(status) if status.is_server_error() => Self::Failed,
                _ => Self::Complete,
            },
            // After the head of a success, nobody has seen the status of the error.
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

/// Whether an error says that there was no room.
fn is_refusal(error: &Error) -> bool {
    let codes = Refusal::ALL.map(Refusal::code);
    codes.contains(&error.code()) || [POOL_FULL, POOL_TIMEOUT].contains(&error.code())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// The access log called a 404 `failed` where the metrics said `client_error`.
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
            // Its stream had begun: it had all the room that there is to refuse.
            (full(), Some(200), "failed"),
            (Outcome::Failed(Error::protocol("broken")), Some(502), "failed"),
            (Outcome::Aborted, None, "aborted"),
        ] {
            let status = status.map(|status| StatusCode::from_u16(status).unwrap());
            assert_eq!(Ended::of(&outcome, status).name(), name, "{outcome:?} {status:?}");
        }
    }
}
