//! TCP, a Unix socket or TLS as one stream of bytes.

use std::io;
use std::os::fd::AsRawFd;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use rowstream_core::tcp;
use rustls::pki_types::CertificateDer;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::client::TlsStream;

/// A connection's stream.
pub enum Socket {
    /// TCP without TLS.
    Tcp(TcpStream),
    /// A Unix socket.
    Unix(UnixStream),
    /// TLS over TCP.
    Tls(Box<TlsStream<TcpStream>>),
}

impl Socket {
    /// Registers the socket with the current runtime, so that received bytes wake no other thread.
    /// A TLS stream can't be taken apart, so it keeps its runtime. It still works.
    ///
    /// # Errors
    /// The system refuses the registration.
    pub fn move_here(self) -> io::Result<Self> {
        Ok(match self {
            Self::Tcp(stream) => Self::Tcp(TcpStream::from_std(stream.into_std()?)?),
            Self::Unix(stream) => Self::Unix(UnixStream::from_std(stream.into_std()?)?),
            Self::Tls(stream) => Self::Tls(stream),
        })
    }

    /// The server's certificate, if the connection uses TLS.
    pub fn server_certificate(&self) -> Option<&CertificateDer<'static>> {
        match self {
            Self::Tls(stream) => stream.get_ref().1.peer_certificates()?.first(),
            Self::Tcp(_) | Self::Unix(_) => None,
        }
    }

    /// The round-trip time to the server. It's zero for a Unix socket, or if the kernel doesn't
    /// know it.
    pub fn round_trip(&self) -> Duration {
        let stream = match self {
            Self::Tcp(stream) => stream,
            Self::Tls(stream) => stream.get_ref().0,
            Self::Unix(_) => return Duration::ZERO,
        };
        tcp::round_trip(stream).unwrap_or_default()
    }

    /// Asks the kernel to wake us only after `bytes` bytes have arrived, or the peer has ended
    /// (socket(7), `SO_RCVLOWAT`). Bytes that arrived earlier count, so a lower mark may wake us at
    /// once. Returns false if that failed; Unix sockets have no mark.
    pub fn set_receive_mark(&self, bytes: usize) -> bool {
        let stream = match self {
            Self::Tcp(stream) => stream,
            Self::Tls(stream) => stream.get_ref().0,
            Self::Unix(_) => return false,
        };
        let mark = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
        let length = size_of::<libc::c_int>() as libc::socklen_t;
        #[expect(unsafe_code, reason = "socket2 has no such option")]
        // SAFETY: the descriptor is open for as long as `stream` is borrowed, and `mark` is an int
        // that lives through the call.
        let status = unsafe {
            let mark = (&raw const mark).cast();
            libc::setsockopt(stream.as_raw_fd(), libc::SOL_SOCKET, libc::SO_RCVLOWAT, mark, length)
        };
        status == 0
    }
}

/// Calls a method of the inner stream.
macro_rules! each {
    ($self:ident, $stream:ident => $call:expr) => {
        match $self.get_mut() {
            Socket::Tcp($stream) => $call,
            Socket::Unix($stream) => $call,
            Socket::Tls($stream) => $call,
        }
    };
}

impl AsyncRead for Socket {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        each!(self, stream => Pin::new(stream).poll_read(cx, buf))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        each!(self, stream => Pin::new(stream).poll_write(cx, buf))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, stream => Pin::new(stream).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, stream => Pin::new(stream).poll_shutdown(cx))
    }
}
