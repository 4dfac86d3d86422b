//! The transport below HTTP: a client's socket, plain or with TLS.
//!
//! The socket is the lower layer of both, so stalled clients and resets work the same way.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::Version;
use rowstream_core::tls::HTTP2;
use rustls::server::Acceptor;
use rustls::{ServerConfig, ServerConnection};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio_rustls::server::TlsStream;
use tokio_rustls::{LazyConfigAcceptor, TlsAcceptor};

use super::connections::Activity;
use super::socket::ClientSocket;
use crate::budget::TLS_BUFFER;
use crate::certificate::issued::{HandshakePurpose, IssuedCertificate};

/// The first byte from a client that speaks TLS: the record type of a handshake (RFC 8446, section
/// 5.1). No HTTP method begins with it.
pub(super) const HANDSHAKE: u8 = 22;

/// A client's socket, with or without TLS.
pub(super) enum Transport {
    Plain(ClientSocket),
    // Boxed because it's many times as large.
    Tls(Box<TlsStream<ClientSocket>>),
}

impl Transport {
    /// Performs the TLS handshake, and returns the HTTP version that the client chose by ALPN (RFC
    /// 7301). Without ALPN it's HTTP/1.1.
    ///
    /// # Errors
    /// The client left, doesn't speak TLS, or lacks a required certificate.
    pub(super) async fn accept(
        socket: ClientSocket,
        config: Arc<ServerConfig>,
    ) -> io::Result<(Self, Version)> {
        Ok(Self::shaken(TlsAcceptor::from(config).accept_with(socket, bound).await?))
    }

    /// Like [`Transport::accept`], but also serves an ACME authority that wants a proof for a name.
    /// It gets its proof and isn't a client: `None`.
    ///
    /// # Errors
    /// The same as for [`Transport::accept`], or there's no proof for the name.
    pub(super) async fn accept_or_prove(
        socket: ClientSocket,
        config: Arc<ServerConfig>,
        issued: &IssuedCertificate,
    ) -> io::Result<Option<(Self, Version)>> {
        let hello = LazyConfigAcceptor::new(Acceptor::default(), socket).await?;
        let asked = issued.asked(&hello.client_hello());
        match asked {
            HandshakePurpose::Connection => {
                Ok(Some(Self::shaken(hello.into_stream_with(config, bound).await?)))
            }
            HandshakePurpose::Proof(proof) => {
                // The handshake is the whole proof (RFC 8737, section 3).
                hello.into_stream_with(proof, bound).await?.shutdown().await?;
                Ok(None)
            }
            HandshakePurpose::UnknownProof => Err(io::Error::other("no proof is wanted for this name")),
        }
    }

    fn shaken(stream: TlsStream<ClientSocket>) -> (Self, Version) {
        let version = match stream.get_ref().1.alpn_protocol() {
            Some(HTTP2) => Version::HTTP_2,
            _ => Version::HTTP_11,
        };
        (Self::Tls(Box::new(stream)), version)
    }

    /// Connects an HTTP/1 socket with its activity. True if the socket then notices by itself when
    /// a client leaves. In TLS that takes reading a message.
    pub(super) fn answers(&mut self, activity: Activity) -> bool {
        match self {
            Self::Plain(socket) => {
                socket.answers(activity, true);
                true
            }
            Self::Tls(stream) => {
                stream.get_mut().0.answers(activity, false);
                false
            }
        }
    }

    /// True if no HTTP/1 request is being answered.
    pub(super) fn is_idle(&self) -> bool {
        match self {
            Self::Plain(socket) => socket.is_idle(),
            Self::Tls(stream) => stream.get_ref().0.is_idle(),
        }
    }
}

/// Bounds the part of a response that TLS buffers.
fn bound(session: &mut ServerConnection) {
    session.set_buffer_limit(Some(TLS_BUFFER));
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
