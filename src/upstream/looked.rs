//! A socket that can be looked at for bytes that have come already.
//!
//! The runtime knows of bytes once it has asked the kernel for events, which a worker that has much
//! to do does seldom; and it lets a task read only so much at a time. Between two requests that is
//! not enough: bytes that nobody has asked for would be taken for the answer to the next request.
//! So a read that has to know asks the kernel itself. What comes later than the look, nobody can
//! tell from an answer.

use std::io::{self, Read as _};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// Whether the reads of a socket ask the kernel itself.
#[derive(Default, Clone)]
pub(in crate::upstream) struct Looks(Arc<AtomicBool>);

/// For as long as it is there, reads ask the kernel itself.
pub(super) struct Looking(Looks);

impl Looks {
    pub(super) fn begin(&self) -> Looking {
        self.0.store(true, Ordering::Relaxed);
        Looking(self.clone())
    }
}

impl Drop for Looking {
    fn drop(&mut self) {
        self.0.0.store(false, Ordering::Relaxed);
    }
}

/// The socket.
pub(super) struct Looked {
    stream: TcpStream,
    looks: Looks,
}

impl Looked {
    pub(super) fn new(stream: TcpStream) -> (Self, Looks) {
        let looks = Looks::default();
        (Self { stream, looks: looks.clone() }, looks)
    }
}

impl AsyncRead for Looked {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_read(cx, buf);
        if polled.is_ready() || !self.looks.0.load(Ordering::Relaxed) {
            return polled;
        }
        match (&*SockRef::from(&self.stream)).read(buf.initialize_unfilled()) {
            Ok(read) => {
                buf.advance(read);
                Poll::Ready(Ok(()))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Poll::Pending,
            Err(error) => Poll::Ready(Err(error)),
        }
    }
}

impl AsyncWrite for Looked {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
