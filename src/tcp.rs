//! TCP connections to servers that may have several addresses.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

/// What the kernel may hold of bytes that are not read (it doubles the number). Left to itself it
/// grows to megabytes per slow client.
const RECEIVE_BUFFER: u32 = 48 * 1024;

/// Why no address took a connection: what came of the last one.
#[derive(Debug)]
pub(crate) struct Refused {
    /// `None`: there was none.
    address: Option<SocketAddr>,
    cause: io::Error,
}

impl Refused {
    /// What the system said.
    pub(crate) fn into_cause(self) -> io::Error {
        self.cause
    }

    /// The same, with the address of which it was said.
    pub(crate) fn into_named_cause(self) -> io::Error {
        io::Error::new(self.cause.kind(), self.to_string())
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.address {
            Some(address) => write!(f, "{address}: {}", self.cause),
            None => write!(f, "{}", self.cause),
        }
    }
}

/// Connects to the first address that takes a connection; each has `patience` to do so.
///
/// # Errors
/// None takes one.
pub(crate) async fn connect(
    addresses: impl IntoIterator<Item = SocketAddr>,
    patience: Duration,
) -> Result<TcpStream, Refused> {
    let mut refused = Refused { address: None, cause: io::Error::other("the name has no address") };
    for address in addresses {
        let connected = timeout(patience, connect_to(address)).await;
        let no_answer = |_| Err(io::Error::new(io::ErrorKind::TimedOut, "no answer"));
        match connected.unwrap_or_else(no_answer) {
            Ok(stream) => return Ok(stream),
            Err(cause) => refused = Refused { address: Some(address), cause },
        }
    }
    Err(refused)
}

async fn connect_to(address: SocketAddr) -> io::Result<TcpStream> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // Before the connection is made, because the window is agreed on there.
    socket.set_recv_buffer_size(RECEIVE_BUFFER)?;
    let stream = socket.connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(20);

    /// An address at which nobody listens.
    fn closed() -> SocketAddr {
        TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
    }

    #[tokio::test]
    async fn the_first_address_that_takes_a_connection_has_it() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let open = listener.local_addr().unwrap();
        let stream = connect([closed(), open], PATIENCE).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), open);
    }

    #[tokio::test]
    async fn the_last_address_tells_why_there_is_no_connection() {
        let last = closed();
        let refused = connect([closed(), last], PATIENCE).await.unwrap_err();
        assert!(refused.to_string().starts_with(&format!("{last}: ")), "{refused}");
        assert_eq!(refused.into_named_cause().kind(), io::ErrorKind::ConnectionRefused);
        let refused = connect([], PATIENCE).await.unwrap_err();
        assert_eq!(refused.into_cause().to_string(), "the name has no address");
    }
}
