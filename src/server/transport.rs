//! What HTTP is spoken over: a client's socket, or TLS on it.
//!
//! The socket stays below TLS, so that what it sees of a client that takes nothing, and how it is
//! reset, holds for both.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::Version;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::connections::Activity;
use super::socket::ClientSocket;
use crate::budget::TLS_BUFFER;
use crate::tls::HTTP2;

/// The first byte of a client that speaks TLS: the type of a record of the handshake (RFC 8446,
/// section 5.1). No method of HTTP begins with it.
pub(super) const HANDSHAKE: u8 = 22;

/// A client's socket, with or without TLS.
pub(super) enum Transport {
    Plain(ClientSocket),
    // Boxed: it is many times as large.
    Tls(Box<TlsStream<ClientSocket>>),
}

impl Transport {
    /// Shakes hands with a client, and tells which version of HTTP it wants (RFC 7301); HTTP/1.1
    /// where it does not say.
    ///
    /// # Errors
    /// The client left, speaks no TLS, or has no certificate where it needs one.
    pub(super) async fn accept(
        socket: ClientSocket,
        config: Arc<ServerConfig>,
    ) -> io::Result<(Self, Version)> {
        let bound = |session: &mut rustls::ServerConnection| session.set_buffer_limit(Some(TLS_BUFFER));
        let stream = TlsAcceptor::from(config).accept_with(socket, bound).await?;
        let version = match stream.get_ref().1.alpn_protocol() {
            Some(HTTP2) => Version::HTTP_2,
            _ => Version::HTTP_11,
        };
        Ok((Self::Tls(Box::new(stream)), version))
    }

    /// Tells the socket of HTTP/1 whether a request is being answered.
    pub(super) fn answers(&mut self, activity: Activity) {
        match self {
            Self::Plain(socket) => socket.answers(activity),
            Self::Tls(stream) => stream.get_mut().0.answers(activity),
        }
    }
}

impl AsyncRead for Transport {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Plain(socket) => Pin::new(socket).poll_read(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Transport {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match &mut *self {
            Self::Plain(socket) => Pin::new(socket).poll_write(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, buf),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut *self {
            Self::Plain(socket) => Pin::new(socket).poll_write_vectored(cx, bufs),
            Self::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(socket) => socket.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Plain(socket) => Pin::new(socket).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Plain(socket) => Pin::new(socket).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
