//! What opening a connection has in common for all servers: the address, the time it may take, and
//! what is told when it fails.

use std::io;
use std::time::Duration;

use tokio::net::TcpStream;

use crate::Error;
use crate::tcp::{self, Refused};

/// Why a connection could not be opened. Clients learn only that the source cannot be reached; the
/// log and the commands say why, in the database's own words, and to whom which user came.
pub(super) struct ConnectError {
    /// Host, database and user; no password.
    login: String,
    cause: Error,
}

impl ConnectError {
    /// The error of a request that needed the source called `name`.
    pub(super) fn of_source(self, name: &str) -> Error {
        let error = Error::source_unavailable(format!("source `{name}` cannot be reached"));
        let error = match self.cause.sqlstate_text() {
            Some(sqlstate) => error.sqlstate(sqlstate),
            None => error,
        };
        let words = match std::error::Error::source(&self.cause) {
            Some(deeper) => format!("{}: {deeper}", self.cause),
            None => self.cause.to_string(),
        };
        error.cause(format!("{words}, {}", self.login))
    }
}

/// What `opening` comes to within `limit`; `login` tells who came to which database.
pub(super) async fn within<T>(
    limit: Duration,
    opening: impl Future<Output = Result<T, Error>>,
    login: impl FnOnce() -> String,
) -> Result<T, ConnectError> {
    let opened = tokio::time::timeout(limit, opening).await;
    let silent = |_| Err(Error::source_unavailable(format!("no answer within {limit:?}")));
    opened.unwrap_or_else(silent).map_err(|cause| ConnectError { login: login(), cause })
}

/// Opens a TCP connection to the first address of `host` that takes one.
pub(super) async fn connect_tcp(host: &str, port: u16) -> io::Result<TcpStream> {
    let addresses = tokio::net::lookup_host((host, port)).await?;
    // The login as a whole is bounded, and not the time of each address.
    tcp::connect(addresses, Duration::MAX).await.map_err(Refused::into_cause)
}
