//! Opens TCP connections to servers that can have several addresses.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd as _;
use std::time::Duration;

use socket2::SockRef;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// The kernel's buffer for unread bytes if the server is on this machine (the kernel doubles it).
/// By default the buffer would grow to a megabyte and stay at that size, and the next slow client
/// would leave it full.
const RECEIVE_BUFFER: usize = 48 * 1024;

/// The most bytes that a server sends per microsecond. The buffer has to hold the bytes of a round
/// trip, because the server learns only after that time that it may send more.
const BYTES_PER_MICROSECOND: usize = 256;

/// The largest buffer that we set. With the default `net.core.rmem_max`, Linux doesn't grant more.
/// A buffer whose size isn't set grows to some megabytes.
const LARGEST_RECEIVE_BUFFER: usize = 208 * 1024;

/// The reason why no address accepted a connection: the last one's error.
#[derive(Debug)]
pub struct ConnectFailure {
    /// The last address. Missing if the name has no address.
    address: Option<SocketAddr>,
    cause: io::Error,
}

impl ConnectFailure {
    /// The system's error.
    pub fn into_cause(self) -> io::Error {
        self.cause
    }

    /// The system's error, with the address in its message.
    pub fn into_named_cause(self) -> io::Error {
        io::Error::new(self.cause.kind(), self.to_string())
    }
}

impl fmt::Display for ConnectFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.address {
            Some(address) => write!(f, "{address}: {}", self.cause),
            None => write!(f, "{}", self.cause),
        }
    }
}

/// Connects to the first address that accepts a connection within `patience`.
///
/// # Errors
/// No address accepts one.
pub async fn connect(
    addresses: impl IntoIterator<Item = SocketAddr>,
    patience: Duration,
) -> Result<TcpStream, ConnectFailure> {
    let mut refused = ConnectFailure { address: None, cause: io::Error::other("the name has no address") };
    for address in addresses {
        let connected = timeout(patience, connect_to(address)).await;
        let no_answer = |_| Err(io::Error::new(io::ErrorKind::TimedOut, "no answer"));
        match connected.unwrap_or_else(no_answer) {
            Ok(stream) => return Ok(stream),
            Err(cause) => refused = ConnectFailure { address: Some(address), cause },
        }
    }
    Err(refused)
}

async fn connect_to(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    // Only now, because the handshake fixes the buffer's maximum size.
    if let Some(size) = round_trip(&stream).and_then(receive_buffer) {
        SockRef::from(&stream).set_recv_buffer_size(size)?;
    }
    Ok(stream)
}

/// The receive buffer for a server at this distance; `None` leaves it to the kernel.
fn receive_buffer(round_trip: Duration) -> Option<usize> {
    let on_the_way = usize::try_from(round_trip.as_micros()).ok()?.checked_mul(BYTES_PER_MICROSECOND)?;
    Some(RECEIVE_BUFFER.checked_add(on_the_way)?).filter(|&size| size <= LARGEST_RECEIVE_BUFFER)
}

/// The shortest round trip of a packet, by the kernel's clock (tcp(7), `TCP_INFO`); `None` if the
/// kernel doesn't know it.
pub fn round_trip(stream: &TcpStream) -> Option<Duration> {
    let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
    #[expect(unsafe_code, reason = "neither the standard library nor socket2 asks for this")]
    // SAFETY: all fields of the structure are integers, the descriptor is open for as long as
    // `stream` is borrowed, and the call writes at most `length` bytes to `info`.
    let (status, info) = unsafe {
        let mut info = std::mem::zeroed::<libc::tcp_info>();
        let to = (&raw mut info).cast();
        let status =
            libc::getsockopt(stream.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, to, &raw mut length);
        (status, info)
    };
    // An old kernel writes a shorter structure. Before the first reply, the value is the maximum.
    let is_known = status == 0 && ![0, u32::MAX].contains(&info.tcpi_min_rtt);
    is_known.then(|| Duration::from_micros(info.tcpi_min_rtt.into()))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(20);

    /// An address without a listener.
    fn closed() -> SocketAddr {
        TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
    }

    #[tokio::test]
    async fn the_first_address_that_takes_a_connection_has_it() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let open = listener.local_addr().unwrap();
        let stream = connect([closed(), open], PATIENCE).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), open);
        // The kernel measures a short round trip, and doubles the requested size.
        let size = SockRef::from(&stream).recv_buffer_size().unwrap();
        assert!((2 * RECEIVE_BUFFER..=2 * LARGEST_RECEIVE_BUFFER).contains(&size), "{size}");
    }

    #[test]
    fn a_buffer_has_room_for_what_is_on_the_way() {
        let size = |microseconds| receive_buffer(Duration::from_micros(microseconds));
        assert_eq!(size(20), Some(53 * 1024));
        assert_eq!(size(400), Some(148 * 1024));
        assert_eq!(size(640), Some(LARGEST_RECEIVE_BUFFER));
        assert_eq!(size(641), None);
        assert_eq!(size(20_000), None);
        assert_eq!(receive_buffer(Duration::MAX), None);
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
