//! Where connections are accepted: a port, or a Unix socket, which is a file.
//!
//! A connection of a Unix socket is served as one of TCP: what is asked of it (read, write, peek,
//! what the other side has not taken) are calls of sockets of either kind. What only TCP has fails
//! there, and is not relied on; but a reset in the middle of a body is, by HTTP/1.0, which is
//! refused on a Unix socket.

use std::fs::{self, Permissions};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use socket2::{Domain, Protocol, SockAddr, SockRef, Socket, Type};
use tokio::net::{TcpListener, UnixListener};

use super::{BACKLOG, set_up, url_of};
use rowstream_core::client::UNIX;

/// A socket that listens.
pub enum Listener {
    /// At a port.
    Tcp(TcpListener),
    /// At a file, which goes with it where we made it.
    Unix(UnixListener, Option<SocketFile>),
}

/// The file of a Unix socket; removed when dropped.
pub struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Somebody else has taken it away.
        let _ = fs::remove_file(&self.0);
    }
}

impl Listener {
    /// Opens a listening socket at `host:port`, or at `unix:/path` with the mode of its file.
    ///
    /// # Errors
    /// The address cannot be resolved or is taken.
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
        // Nobody can connect before it listens.
        fs::set_permissions(path, Permissions::from_mode(mode))?;
        socket.listen(BACKLOG)?;
        Ok(Self::Unix(UnixListener::from_std(OwnedFd::from(socket).into())?, Some(file)))
    }

    /// A socket that listens already. Its file, if it has one, is whose it was.
    ///
    /// # Errors
    /// It does not listen, or is of neither kind.
    pub(super) fn handed_over(socket: Socket) -> io::Result<Self> {
        let address = socket.local_addr()?;
        let is_known = address.as_socket().is_some() || address.is_unix();
        if !is_known || socket.r#type()? != Type::STREAM || !socket.is_listener()? {
            return Err(io::Error::other("it is no socket of TCP or Unix that listens"));
        }
        set_up(&SockRef::from(&socket))?;
        match address.is_unix() {
            true => Ok(Self::Unix(UnixListener::from_std(OwnedFd::from(socket).into())?, None)),
            false => TcpListener::from_std(socket.into()).map(Self::Tcp),
        }
    }

    /// The next connection, and who it comes from. It belongs to no runtime yet.
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

    /// The address of its port.
    ///
    /// # Errors
    /// It has none: it is a file.
    pub fn address(&self) -> io::Result<SocketAddr> {
        match self {
            Self::Tcp(listener) => listener.local_addr(),
            Self::Unix(..) => Err(io::Error::other("a Unix socket has no host and no port")),
        }
    }

    /// The URL at which it is reached by `http` or `https`; of a Unix socket, its address.
    ///
    /// # Errors
    /// The socket is gone.
    pub fn url(&self, scheme: &str) -> io::Result<String> {
        match self {
            Self::Tcp(listener) => listener.local_addr().map(|address| url_of(scheme, address)),
            Self::Unix(..) => self.shown(),
        }
    }

    /// Where it listens, as `listen` has it: `host:port`, `unix:/path`, or `unix:@name` of a socket
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

/// Removes the file of a socket at which nobody listens any more: that of a process that was
/// killed.
fn remove_left(path: &Path) -> io::Result<()> {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
    let is_left = is_socket
        && std::os::unix::net::UnixStream::connect(path)
            .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
    if is_left { fs::remove_file(path) } else { Ok(()) }
}
