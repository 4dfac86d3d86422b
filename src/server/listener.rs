//! Accepts connections at a TCP port or at a Unix socket, which is a file.
//!
//! A Unix connection is served like a TCP one: the calls that we use (read, write, peek, the
//! unacknowledged bytes) work on both. Options that only TCP has fail on a Unix socket, and we
//! don't rely on them. One exception is the reset in the middle of an HTTP/1.0 body, so HTTP/1.0 is
//! refused on Unix sockets.

use std::fs::{self, Permissions};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rowstream_core::client::UNIX;
use socket2::{Domain, Protocol, SockAddr, SockRef, Socket, Type};
use tokio::net::{TcpListener, UnixListener};

use super::{BACKLOG, set_up, url_of};

/// A listening socket.
pub enum Listener {
    /// A TCP port.
    Tcp(TcpListener),
    /// A Unix socket, with its file if we created it.
    Unix(UnixListener, Option<SocketFile>),
}

/// The file of a Unix socket. Dropping it removes the file.
pub struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Fails if the file is gone already.
        let _ = fs::remove_file(&self.0);
    }
}

impl Listener {
    /// Opens a listening socket at `host:port`, or at `unix:/path` with the mode of its file.
    ///
    /// # Errors
    /// The address can't be resolved or is in use.
    pub async fn open(address: &str, mode: u32) -> io::Result<Self> {
        match address.strip_prefix("unix:") {
            Some(path) => Self::at_file(Path::new(path), mode),
            None => Self::at_port(address).await,
        }
    }

    async fn at_port(address: &str) -> io::Result<Self> {
        let address = tokio::net::lookup_host(address).await?.next();
        let address = address.ok_or_else(|| io::Error::other("the address names no host"))?;
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_reuse_address(true)?;
        set_up(&SockRef::from(&socket))?;
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        TcpListener::from_std(socket.into()).map(Self::Tcp)
    }

    fn at_file(path: &Path, mode: u32) -> io::Result<Self> {
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        set_up(&SockRef::from(&socket))?;
        remove_left(path)?;
        socket.bind(&SockAddr::unix(path)?)?;
        let file = SocketFile(path.to_owned());
        // No client can connect before `listen`.
        fs::set_permissions(path, Permissions::from_mode(mode))?;
        socket.listen(BACKLOG)?;
        Ok(Self::Unix(UnixListener::from_std(OwnedFd::from(socket).into())?, Some(file)))
    }

    /// Takes over a socket that already listens. If it has a file, we don't remove it.
    ///
    /// # Errors
    /// The socket doesn't listen, or isn't a TCP or Unix stream socket.
    pub(super) fn handed_over(socket: Socket) -> io::Result<Self> {
        let address = socket.local_addr()?;
        let is_known = address.as_socket().is_some() || address.is_unix();
        if !is_known || socket.r#type()? != Type::STREAM || !socket.is_listener()? {
            return Err(io::Error::other("it isn't a listening TCP or Unix socket"));
        }
        set_up(&SockRef::from(&socket))?;
        match address.is_unix() {
            true => Ok(Self::Unix(UnixListener::from_std(OwnedFd::from(socket).into())?, None)),
            false => TcpListener::from_std(socket.into()).map(Self::Tcp),
        }
    }

    /// Accepts the next connection, with the client's address. It belongs to no runtime yet.
    pub(super) async fn accept(&self) -> io::Result<(std::net::TcpStream, IpAddr)> {
        match self {
            Self::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                Ok((stream.into_std()?, peer.ip()))
            }
            Self::Unix(listener, _) => {
                let (stream, _) = listener.accept().await?;
                Ok((OwnedFd::from(stream.into_std()?).into(), UNIX))
            }
        }
    }

    /// The address and port.
    ///
    /// # Errors
    /// It's a Unix socket, which has neither.
    pub fn address(&self) -> io::Result<SocketAddr> {
        match self {
            Self::Tcp(listener) => listener.local_addr(),
            Self::Unix(..) => Err(io::Error::other("a Unix socket has no host and no port")),
        }
    }

    /// Its URL with scheme `http` or `https`, or the address of a Unix socket.
    ///
    /// # Errors
    /// The socket is gone.
    pub fn url(&self, scheme: &str) -> io::Result<String> {
        match self {
            Self::Tcp(listener) => listener.local_addr().map(|address| url_of(scheme, address)),
            Self::Unix(..) => self.shown(),
        }
    }

    /// Its address as written in `listen`: `host:port`, `unix:/path`, or `unix:@name` for a socket
    /// without a file (unix(7), "abstract").
    ///
    /// # Errors
    /// The socket is gone.
    pub(super) fn shown(&self) -> io::Result<String> {
        match self {
            Self::Tcp(listener) => listener.local_addr().map(|address| address.to_string()),
            Self::Unix(listener, _) => {
                let address = SockRef::from(listener).local_addr()?;
                let name = address.as_abstract_namespace().map(String::from_utf8_lossy);
                Ok(match (address.as_pathname(), name) {
                    (Some(path), _) => format!("unix:{}", path.display()),
                    (None, name) => format!("unix:@{}", name.unwrap_or_default().escape_debug()),
                })
            }
        }
    }
}

/// Removes a socket file that no process listens on any more. A killed process leaves one behind.
fn remove_left(path: &Path) -> io::Result<()> {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
    let is_left = is_socket
        && std::os::unix::net::UnixStream::connect(path)
            .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
    if is_left { fs::remove_file(path) } else { Ok(()) }
}
