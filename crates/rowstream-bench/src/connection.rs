//! One connection of either protocol, and the state that all connections of a thread share.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use super::http1::Http1;
use super::http2::Http2;
use super::reply::{Failure, FailureKind, Framing, Reply};
use super::target::{Headers, Target};
use super::throttle::Throttle;
use super::{Plan, Protocol};

/// Per thread. Larger reads aren't cheaper, and don't fit into a core's cache.
const READ_BUFFER: usize = 256 * 1024;

/// The kernel doubles it. With the default, a slow reader's socket absorbs megabytes before the
/// server notices.
const SLOW_RECEIVE_BUFFER: u32 = 64 * 1024;

/// State that the connections of a thread share.
pub(super) struct Wire {
    pub(super) headers: Headers,
    pub(super) authority: String,
    pub(super) timeout: Duration,
    pub(super) slow: Option<u64>,
    pub(super) buffer: RefCell<Vec<u8>>,
    addresses: Vec<SocketAddr>,
    protocol: Protocol,
}

impl Wire {
    pub(super) fn new(plan: &Plan, target: &Target, addresses: &[SocketAddr]) -> Self {
        Self {
            headers: Headers::new(target, &plan.headers),
            authority: target.authority.clone(),
            timeout: plan.timeout,
            slow: plan.slow,
            buffer: RefCell::new(vec![0; READ_BUFFER]),
            addresses: addresses.to_vec(),
            protocol: plan.protocol,
        }
    }
}

/// The reason why an exchange returned no response.
pub(super) enum Trouble {
    /// The server had closed the connection before the request. We repeat it on a new one.
    Stale,
    Failed(Failure),
}

/// A connection to the target.
pub(super) enum Connection {
    Http1(Http1),
    Http2(Http2),
}

impl Connection {
    pub(super) async fn open(wire: &Wire) -> Result<Self, Failure> {
        let stream = connect(wire).await?;
        let throttle = Throttle::new(wire.slow);
        match wire.protocol {
            Protocol::Http1 => Ok(Self::Http1(Http1::new(stream, throttle))),
            Protocol::Http2 => Ok(Self::Http2(Http2::new(stream, throttle, wire).await?)),
        }
    }

    pub(super) async fn exchange(
        &mut self,
        path: &str,
        wire: &Wire,
        reply: &mut Reply<'_>,
    ) -> Result<Framing, Trouble> {
        match self {
            Self::Http1(connection) => connection.exchange(path, wire, reply).await,
            Self::Http2(connection) => connection.exchange(path, wire, reply).await,
        }
    }

    /// Returns true if it can carry another request.
    pub(super) fn reusable(&self) -> bool {
        match self {
            Self::Http1(connection) => connection.reusable,
            Self::Http2(connection) => connection.reusable,
        }
    }
}

/// Tries the addresses in order, and reports the failure of the last one.
async fn connect(wire: &Wire) -> Result<TcpStream, Failure> {
    let mut failure = Failure::new(FailureKind::Connect, "no address");
    for address in &wire.addresses {
        match timeout(wire.timeout, connect_to(*address, wire.slow.is_some())).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => failure = Failure::new(FailureKind::Connect, format!("{address}: {error}")),
            Err(_) => failure = Failure::new(FailureKind::Connect, format!("{address} does not answer")),
        }
    }
    Err(failure)
}

async fn connect_to(address: SocketAddr, slow: bool) -> std::io::Result<TcpStream> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    if slow {
        socket.set_recv_buffer_size(SLOW_RECEIVE_BUFFER)?;
    }
    let stream = socket.connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

pub(super) fn timed_out(after: Duration) -> Failure {
    Failure::new(FailureKind::Timeout, format!("nothing came for {after:?}"))
}
