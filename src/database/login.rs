//! What opening a connection has in common for all servers: whether there is one already, the
//! address, the time it may take, and what is said when it fails.

use std::io;
use std::time::Duration;

use tokio::net::TcpStream;

use rowstream_core::Error;
use rowstream_core::pool::Lease;
use rowstream_core::tcp::{self, Refused};

/// Why a connection could not be opened. Clients learn only that the source cannot be reached; the
/// log and the commands say why, in the database's own words, and to whom which user came.
pub(super) struct ConnectError {
    /// Host, database and user; no password. `None`: there was no password to begin with.
    login: Option<String>,
    cause: Error,
}

/// The message of a login without a password, if the server wants one.
pub(super) const NO_PASSWORD: &str = "the database asks for a password, and there is none";

impl ConnectError {
    /// If the server refuses the user or the password: SQLSTATE 28000 or 28P01, which is 1045 in
    /// MySQL and MariaDB.
    pub(super) fn is_refused_login(&self) -> bool {
        self.cause.sqlstate_text().is_some_and(|sqlstate| sqlstate.starts_with("28"))
            || self.cause.message() == NO_PASSWORD
    }

    /// Of a password that couldn't be had.
    pub(super) fn before_login(cause: Error) -> Self {
        Self { login: None, cause }
    }

    /// The error itself.
    pub(super) fn into_cause(self) -> Error {
        self.cause
    }

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
        let words = self.login.map_or(words.clone(), |login| format!("{words}, {login}"));
        match self.cause.hint_text().or_else(|| remedy(&words)) {
            Some(remedy) => error.cause(format!("{words}; {remedy}")),
            None => error.cause(words),
        }
    }
}

/// What helps against what the system or the TLS library says.
fn remedy(words: &str) -> Option<&'static str> {
    Some(match () {
        () if words.contains("Connection refused") => {
            "nothing listens there: start the server, or correct host and port in the source's `url`"
        }
        () if words.contains("failed to lookup address") => {
            "no such host is known: correct it in the source's `url`"
        }
        () if words.contains("No such file") => {
            "there is no such socket: start the server, or correct the folder in the source's `url`"
        }
        () if words.contains("no answer within") => {
            "correct host and port in the source's `url`, and see whether a firewall is between"
        }
        () if words.contains("invalid peer certificate") => {
            "the server's certificate is not trusted for this host: name its authority by `sslrootcert` (`ssl-ca` of MySQL) in the source's `url`, and the host as the certificate does"
        }
        () => return None,
    })
}

/// What `opening` comes to within `limit`; `login` tells who came to which database.
pub(super) async fn within<T>(
    limit: Duration,
    opening: impl Future<Output = Result<T, Error>>,
    login: impl FnOnce() -> String,
) -> Result<T, ConnectError> {
    let opened = tokio::time::timeout(limit, opening).await;
    let silent = |_| Err(Error::source_unavailable(format!("no answer within {limit:?}")));
    opened.unwrap_or_else(silent).map_err(|cause| ConnectError { login: Some(login()), cause })
}

/// The order in which the addresses of a name are tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AddressOrder {
    /// As the resolver gives them.
    Given,
    /// At random, so that connections are spread over servers that share a name.
    Random,
}

/// Opens a TCP connection to the first address of `host` that takes one.
pub(super) async fn connect_tcp(host: &str, port: u16, order: AddressOrder) -> io::Result<TcpStream> {
    let mut addresses: Vec<_> = tokio::net::lookup_host((host, port)).await?.collect();
    if order == AddressOrder::Random {
        fastrand::shuffle(&mut addresses);
    }
    // The login as a whole is bounded, and not the time of each address.
    tcp::connect(addresses, Duration::MAX).await.map_err(Refused::into_cause)
}

/// A connection to a server, which a pool keeps while nobody uses it.
pub(super) trait Reusable: Sized + Send + 'static {
    /// Whether this thread's runtime waits for its socket.
    fn is_here(&self) -> bool;

    /// Makes the connection this thread's own.
    ///
    /// # Errors
    /// The system refuses the registration; the connection is then closed.
    fn move_here(self) -> io::Result<Self>;

    /// Whether an idle connection is still open.
    fn is_alive(&mut self) -> bool;
}

/// An idle connection of the pool, best one of this thread, or a new one to the source called
/// `name`. Opening is boxed, as it is rare and takes kilobytes: each request would carry them.
pub(super) async fn reuse_or_open<C: Reusable, F: Future<Output = Result<C, ConnectError>>>(
    place: &Lease<C>,
    name: &str,
    open: impl FnOnce() -> F,
) -> Result<C, Error> {
    while let Some(mut connection) = place.take_idle_of(C::is_here) {
        if connection.is_alive()
            && let Ok(connection) = connection.move_here()
        {
            return Ok(connection);
        }
    }
    let connection = Box::pin(open()).await.map_err(|cause| cause.of_source(name))?;
    place.opened();
    Ok(connection)
}
