//! Opens a connection to an upstream: resolves its name, checks its addresses, connects with TCP
//! and TLS, and finds out the HTTP version.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rowstream_core::Error;
use rowstream_core::fetch::Failure;
use rowstream_core::tcp;
use rowstream_core::tls::servers::{self, ClientCertificate, Roots, Trust};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::address::AllowEntry;
use super::checked_socket::CheckedSocket;
pub(super) use super::checked_socket::KernelReads;
use super::discovery::Discovery;
use super::error::{refused, unreachable};
use super::settings::{Protocol, Settings, TlsFiles};
use super::url::{Base, HostAddress};

/// TCP or TLS as a stream of bytes.
pub(super) trait Io: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// Opens the connections to a host.
pub(super) struct Connector {
    source: String,
    settings: Arc<Settings>,
    base: Base,
    tls: Option<TlsConnector>,
    /// Finds the host's addresses. `None`: the URL has the address or name.
    discovery: Option<Arc<Discovery>>,
    /// The number of connections that we began to open.
    begun: AtomicUsize,
}

/// A connection without any request yet.
pub(super) struct NewConnection {
    pub(super) io: Box<dyn Io>,
    pub(super) kernel_reads: KernelReads,
    pub(super) version: Version,
}

/// The HTTP version of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    Http1,
    Http2,
}

impl Connector {
    pub(super) fn new(
        source: &str,
        settings: &Arc<Settings>,
        base: &Base,
        tls: Option<TlsConnector>,
        discovery: Option<Arc<Discovery>>,
    ) -> Self {
        let (source, settings, base) = (source.to_owned(), Arc::clone(settings), base.clone());
        let tls = tls.filter(|_| base.tls);
        Self { source, settings, tls, discovery, base, begun: AtomicUsize::new(0) }
    }

    /// The TLS settings that all hosts of a source share. `None` if no host has TLS.
    ///
    /// # Errors
    /// A file can't be read, or a key doesn't belong to its certificate.
    pub(super) fn tls(source: &str, settings: &Settings) -> Result<Option<TlsConnector>, Error> {
        if !settings.hosts.iter().any(|base| base.tls) {
            return Ok(None);
        }
        let unreadable = |cause| Error::endpoint(format!("source `{source}`: TLS can't be set up: {cause}"));
        tls_connector(settings).map(Some).map_err(unreadable)
    }

    /// Opens a connection.
    ///
    /// # Errors
    /// 503 if that fails. 502 if the upstream has no allowed address.
    pub(super) async fn open(&self) -> Result<NewConnection, Error> {
        let begun = self.begun.fetch_add(1, Ordering::Relaxed);
        let mut addresses = self.addresses(begun).await?;
        // The instances of a registry are already rotated.
        if self.discovery.is_none() {
            turn(&mut addresses, begun);
        }
        // Each address gets an equal share of the time, so that a silent one leaves some for the
        // others.
        let share = self.settings.timeouts.connect / u32::try_from(addresses.len()).unwrap_or(u32::MAX);
        let stream = tcp::connect(addresses, share).await;
        let stream = stream.map_err(|refused| self.unreachable(&refused.into_named_cause()))?;
        self.secure(stream).await.map_err(|cause| self.unreachable(&cause))
    }

    /// The upstream's allowed addresses.
    async fn addresses(&self, begun: usize) -> Result<Vec<SocketAddr>, Error> {
        let base = &self.base;
        let found: Vec<_> = match &base.host {
            _ if let Some(discovery) = &self.discovery => {
                let unknown = |cause: Failure| self.unreachable(&io::Error::other(cause));
                // Boxed, because otherwise each request would have room for a state that few need.
                Box::pin(discovery.addresses(begun)).await.map_err(unknown)?
            }
            HostAddress::Address(address) => vec![SocketAddr::new(*address, base.port)],
            HostAddress::Name(name) => {
                let found = tokio::net::lookup_host((name.as_str(), base.port)).await;
                found.map_err(|cause| self.unreachable(&cause))?.collect()
            }
        };
        let allowed: Vec<_> = found.iter().filter(|address| self.allows(address.ip())).copied().collect();
        match allowed.is_empty() {
            true => Err(refused(&self.source, &format!("{} has {found:?}", base.authority()))),
            false => Ok(allowed),
        }
    }

    /// Returns true if a connection to `address` is allowed. Without `allow`, it must be the
    /// address in the URL, or a public address of the URL's name.
    fn allows(&self, address: IpAddr) -> bool {
        match (&self.settings.allow, &self.base.host) {
            (Some(allow), _) => allow.iter().any(|allowed| allowed.has(address)),
            (None, HostAddress::Address(own)) => *own == address,
            (None, HostAddress::Name(_)) => AllowEntry::Public.has(address),
        }
    }

    fn unreachable(&self, cause: &io::Error) -> Error {
        unreachable(&self.source, format!("{}: {cause}", self.base.host_and_port()))
    }

    async fn secure(&self, stream: TcpStream) -> io::Result<NewConnection> {
        let (stream, kernel_reads) = CheckedSocket::new(stream);
        let Some(tls) = &self.tls else {
            let version = match self.settings.protocol {
                Protocol::Http2 => Version::Http2,
                Protocol::Auto | Protocol::Http1 => Version::Http1,
            };
            return Ok(NewConnection { io: Box::new(stream), kernel_reads, version });
        };
        let stream = servers::connect(tls, self.server_name()?, stream).await?;
        let version = match (stream.get_ref().1.alpn_protocol(), self.settings.protocol) {
            (Some(b"h2"), _) => Version::Http2,
            (_, Protocol::Http2) => return Err(io::Error::other("the server has no HTTP/2 over TLS")),
            (_, Protocol::Auto | Protocol::Http1) => Version::Http1,
        };
        Ok(NewConnection { io: Box::new(stream), kernel_reads, version })
    }

    fn server_name(&self) -> io::Result<ServerName<'static>> {
        match &self.base.host {
            HostAddress::Name(name) => ServerName::try_from(name.clone()).map_err(io::Error::other),
            HostAddress::Address(address) => Ok(ServerName::from(*address)),
        }
    }
}

/// Rotates the addresses of a name, so that connections are spread over the servers behind it (such
/// as the pods behind a headless service of Kubernetes). The resolver puts the address family first
/// that this machine can reach best, so only addresses of the first one's family are rotated.
fn turn(addresses: &mut [SocketAddr], begun: usize) {
    let is_like_first = |address: &SocketAddr| address.is_ipv4() == addresses[0].is_ipv4();
    let alike = addresses.iter().take_while(|address| is_like_first(address)).count();
    if alike > 0 {
        addresses[..alike].rotate_left(begun % alike);
    }
}

fn tls_connector(settings: &Settings) -> Result<TlsConnector, Box<dyn std::error::Error>> {
    let TlsFiles { roots, client, .. } = &settings.tls;
    let shown =
        client.as_ref().map(|(certificate, key)| ClientCertificate::read(certificate, key)).transpose()?;
    let mut config = servers::client_as(shown, Trust::Host(Roots::read(roots.as_deref())?))?;
    let protocols: &[&[u8]] = match settings.protocol {
        Protocol::Auto => &[b"h2", b"http/1.1"],
        Protocol::Http1 => &[b"http/1.1"],
        Protocol::Http2 => &[b"h2"],
    };
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    Ok(TlsConnector::from(Arc::new(config)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_the_first_kind_take_turns() {
        for (given, begun, expected) in [
            ("1.0.0.1 1.0.0.2 1.0.0.3", 0, "1.0.0.1 1.0.0.2 1.0.0.3"),
            ("1.0.0.1 1.0.0.2 1.0.0.3", 1, "1.0.0.2 1.0.0.3 1.0.0.1"),
            ("1.0.0.1 1.0.0.2 1.0.0.3", 5, "1.0.0.3 1.0.0.1 1.0.0.2"),
            ("::1 ::2 1.0.0.1", 1, "::2 ::1 1.0.0.1"),
            ("1.0.0.1 ::1", 1, "1.0.0.1 ::1"),
            ("1.0.0.1", 7, "1.0.0.1"),
            ("", 7, ""),
        ] {
            let addresses = given.split_whitespace().map(|address| address.parse().unwrap());
            let mut addresses: Vec<_> = addresses.map(|address| SocketAddr::new(address, 80)).collect();
            turn(&mut addresses, begun);
            let turned: Vec<_> = addresses.iter().map(|address| address.ip().to_string()).collect();
            assert_eq!(turned.join(" "), expected, "{given} {begun}");
        }
    }
}
