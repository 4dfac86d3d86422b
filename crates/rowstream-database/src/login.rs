//! The steps that opening a connection has in common for all servers: reusing an idle one,
//! resolving the address, limiting the time, and reporting failures.

use std::io;
use std::time::Duration;

use rowstream_core::Error;
use rowstream_core::pool::Lease;
use rowstream_core::tcp::{self, ConnectFailure};
use tokio::net::TcpStream;

/// The reason why a connection couldn't be opened. Clients learn only that the source can't be
/// reached. The log and the commands show the database's own message, the user and the server.
pub struct ConnectError {
    /// Host, database and user, but no password. `None` before a login, or if the cause has them.
    login: Option<String>,
    cause: Error,
    is_refused: bool,
}

/// The message of a login without a password, if the server requires one.
pub const NO_PASSWORD: &str = "the database asks for a password, but none is configured";

impl ConnectError {
    /// The error of a login that the server has refused, or that a driver says no more about.
    pub fn refused(cause: Error) -> Self {
        Self { login: None, cause, is_refused: true }
    }

    /// Returns true if the server refused the user or the password: SQLSTATE 28000 or 28P01, which
    /// is 1045 in MySQL and MariaDB.
    pub fn is_refused_login(&self) -> bool {
        self.is_refused
            || self.cause.sqlstate_text().is_some_and(|sqlstate| sqlstate.starts_with("28"))
            || self.cause.message() == NO_PASSWORD
    }

    /// The error itself.
    pub fn into_cause(self) -> Error {
        self.cause
    }

    /// The error of a request that needed the source `name`.
    pub fn of_source(self, name: &str) -> Error {
        let message = format!("source `{name}` cannot be reached");
        let error = Error::source_unavailable(message).state_of(&self.cause);
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

impl From<Error> for ConnectError {
    fn from(cause: Error) -> Self {
        Self { login: None, cause, is_refused: false }
    }
}

/// Advice for an error of the system or the TLS library.
fn remedy(words: &str) -> Option<&'static str> {
    Some(match () {
        () if words.contains("Connection refused") => {
            "no server listens there: start it, or correct host and port in the source's `url`"
        }
        () if words.contains("failed to lookup address") => {
            "the host isn't known: correct it in the source's `url`"
        }
        () if words.contains("No such file") => {
            "the socket doesn't exist: start the server, or correct the folder in the source's `url`"
        }
        () if words.contains("no answer within") => {
            "correct host and port in the source's `url`, and check for a firewall in between"
        }
        () if words.contains("invalid peer certificate") => {
            "the server's certificate is not trusted for this host: name its authority with `sslrootcert` \
             (`ssl-ca` of MySQL) in the source's `url`, and write the host as in the certificate"
        }
        () => return None,
    })
}

/// Runs `opening` for at most `limit`. `login` describes the user and the database, for the error.
pub async fn within<T, E: Into<ConnectError>>(
    limit: Duration,
    opening: impl Future<Output = Result<T, E>>,
    login: impl FnOnce() -> String,
) -> Result<T, ConnectError> {
    let error = match tokio::time::timeout(limit, opening).await {
        Ok(Ok(opened)) => return Ok(opened),
        Ok(Err(error)) => error.into(),
        Err(_) => Error::source_unavailable(format!("no answer within {limit:?}")).into(),
    };
    Err(ConnectError { login: Some(login()), ..error })
}

/// The order of attempts, if a name has several addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressOrder {
    /// In the order of the resolver.
    Given,
    /// In random order, so that connections are spread over servers that share a name.
    Random,
}

/// Opens a TCP connection to the first address of `host` that accepts one.
pub async fn connect_tcp(host: &str, port: u16, order: AddressOrder) -> io::Result<TcpStream> {
    let mut addresses: Vec<_> = tokio::net::lookup_host((host, port)).await?.collect();
    if order == AddressOrder::Random {
        fastrand::shuffle(&mut addresses);
    }
    // The time of the whole login is limited, not the time for each address.
    tcp::connect(addresses, Duration::MAX).await.map_err(ConnectFailure::into_cause)
}

/// A connection to a server that a pool can keep.
pub trait ReusableConnection: Sized + Send + 'static {
    /// Returns true if this thread's runtime waits for its socket.
    fn is_here(&self) -> bool;

    /// Moves the connection to this thread.
    ///
    /// # Errors
    /// The system refuses the registration. The connection is then closed.
    fn move_here(self) -> io::Result<Self>;

    /// Returns true if an idle connection is still open.
    fn is_alive(&mut self) -> bool;
}

/// Takes an idle connection from the pool, preferably one of this thread, or opens a new one to the
/// source `name`. Opening is rare and needs kilobytes, so it's boxed. Otherwise each request would
/// have room for it.
pub async fn reuse_or_open<C: ReusableConnection, F: Future<Output = Result<C, ConnectError>>>(
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
