//! Opening a connection to an upstream: its name, the check of its addresses, TCP, TLS, and which HTTP is spoken.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::error::{refused, unreachable};
use super::settings::{Protocol, Settings};
use super::url::Host;
use crate::Error;
use crate::source::tls::{roots_of, system_roots};

/// What the kernel may hold of an answer that is not read (it doubles the number). Left to itself it grows to megabytes per slow
/// client.
const RECEIVE_BUFFER: u32 = 64 * 1024;

/// TCP or TLS as one stream of bytes.
pub(super) trait Io: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// Opens the connections of a source.
pub(super) struct Connector {
    source: String,
    settings: Arc<Settings>,
    tls: Option<TlsConnector>,
}

/// A connection on which nothing was asked yet.
pub(super) struct Opened {
    pub(super) io: Box<dyn Io>,
    pub(super) version: Version,
}

/// What is spoken on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    Http1,
    Http2,
}

impl Connector {
    /// # Errors
    /// The root certificates cannot be read.
    pub(super) fn new(source: &str, settings: &Arc<Settings>) -> Result<Self, Error> {
        let unreadable = |cause| {
            Error::endpoint(format!("source `{source}`: the root certificates cannot be read: {cause}"))
        };
        let tls = match settings.base.tls {
            true => Some(tls_connector(settings).map_err(unreadable)?),
            false => None,
        };
        Ok(Self { source: source.to_owned(), settings: Arc::clone(settings), tls })
    }

    /// Opens a connection.
    ///
    /// # Errors
    /// 503 when that fails; 502 when the upstream has no address that is allowed.
    pub(super) async fn open(&self) -> Result<Opened, Error> {
        let addresses = self.addresses().await?;
        // Each of several gets its share of the time, so that one that says nothing leaves some for the others.
        let share = self.settings.timeouts.connect / u32::try_from(addresses.len()).unwrap_or(u32::MAX);
        let stream = connect(&addresses, share).await;
        let stream = stream.map_err(|cause| unreachable(&self.source, cause))?;
        self.secure(stream).await.map_err(|cause| unreachable(&self.source, cause))
    }

    /// Those addresses of the upstream that are allowed.
    async fn addresses(&self) -> Result<Vec<SocketAddr>, Error> {
        let base = &self.settings.base;
        let found: Vec<_> = match &base.host {
            Host::Address(address) => vec![SocketAddr::new(*address, base.port)],
            Host::Name(name) => {
                let found = tokio::net::lookup_host((name.as_str(), base.port)).await;
                found.map_err(|cause| unreachable(&self.source, cause))?.collect()
            }
        };
        let is_allowed =
            |address: &&SocketAddr| self.settings.allow.iter().any(|allowed| allowed.has(address.ip()));
        let allowed: Vec<_> = found.iter().filter(is_allowed).copied().collect();
        match allowed.is_empty() {
            true => Err(refused(&self.source, &format!("{} has {found:?}", base.authority()))),
            false => Ok(allowed),
        }
    }

    async fn secure(&self, stream: TcpStream) -> io::Result<Opened> {
        let Some(tls) = &self.tls else {
            let version = match self.settings.protocol {
                Protocol::Http2 => Version::Http2,
                Protocol::Auto | Protocol::Http1 => Version::Http1,
            };
            return Ok(Opened { io: Box::new(stream), version });
        };
        let stream = tls.connect(self.server_name()?, stream).await?;
        let version = match (stream.get_ref().1.alpn_protocol(), self.settings.protocol) {
            (Some(b"h2"), _) => Version::Http2,
            (_, Protocol::Http2) => return Err(io::Error::other("the server has no HTTP/2 over TLS")),
            (_, Protocol::Auto | Protocol::Http1) => Version::Http1,
        };
        Ok(Opened { io: Box::new(stream), version })
    }

    fn server_name(&self) -> io::Result<ServerName<'static>> {
        match &self.settings.base.host {
            Host::Name(name) => ServerName::try_from(name.clone()).map_err(io::Error::other),
            Host::Address(address) => Ok(ServerName::from(*address)),
        }
    }
}

/// A connection to the first address that takes one.
async fn connect(addresses: &[SocketAddr], share: Duration) -> io::Result<TcpStream> {
    let mut failed = io::Error::other("there is no address");
    for address in addresses {
        match timeout(share, connect_to(*address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => failed = io::Error::new(error.kind(), format!("{address}: {error}")),
            Err(_) => failed = io::Error::new(io::ErrorKind::TimedOut, format!("{address}: no answer")),
        }
    }
    Err(failed)
}

async fn connect_to(address: SocketAddr) -> io::Result<TcpStream> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_recv_buffer_size(RECEIVE_BUFFER)?;
    let stream = socket.connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

fn tls_connector(settings: &Settings) -> Result<TlsConnector, Box<dyn std::error::Error>> {
    let roots = match &settings.roots {
        Some(path) => roots_of(path)?,
        None => system_roots()?,
    };
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions()?.with_root_certificates(roots);
    let mut config = builder.with_no_client_auth();
    let protocols: &[&[u8]] = match settings.protocol {
        Protocol::Auto => &[b"h2", b"http/1.1"],
        Protocol::Http1 => &[b"http/1.1"],
        Protocol::Http2 => &[b"h2"],
    };
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    Ok(TlsConnector::from(Arc::new(config)))
}
