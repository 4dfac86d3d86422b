//! A socket that can be checked for bytes that have already arrived.
//!
//! The runtime only knows of bytes after it has asked the kernel for events. A busy runtime thread
//! does so rarely, and the runtime also limits how much a task may read at a time. Between two
//! requests that isn't enough: unexpected bytes would be read as the response to the next request.
//! So a read that must be sure asks the kernel itself. Unexpected bytes that arrive after this
//! check can't be told from a response.

use std::io::{self, Read as _};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// True while the reads of a socket ask the kernel.
#[derive(Default, Clone)]
pub(crate) struct KernelReads(Arc<AtomicBool>);

/// Makes reads ask the kernel until it's dropped.
pub(super) struct KernelReadGuard(KernelReads);

impl KernelReads {
    pub(super) fn begin(&self) -> KernelReadGuard {
        self.0.store(true, Ordering::Relaxed);
        KernelReadGuard(self.clone())
    }
}

impl Drop for KernelReadGuard {
    fn drop(&mut self) {
        self.0.0.store(false, Ordering::Relaxed);
    }
}

/// The socket.
pub(super) struct CheckedSocket {
    stream: TcpStream,
    kernel_reads: KernelReads,
}

impl CheckedSocket {
    pub(super) fn new(stream: TcpStream) -> (Self, KernelReads) {
        let kernel_reads = KernelReads::default();
        (Self { stream, kernel_reads: kernel_reads.clone() }, kernel_reads)
    }
}

impl AsyncRead for CheckedSocket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_read(cx, buf);
        if polled.is_ready() || !self.kernel_reads.0.load(Ordering::Relaxed) {
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

impl AsyncWrite for CheckedSocket {
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
