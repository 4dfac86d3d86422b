//! The socket of a client: it sees a client that takes nothing, and it is reset where a close would look like an end.

use std::io;
use std::os::fd::AsRawFd;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep};

use crate::watchdog::Watchdog;

/// A client's socket.
///
/// - While bytes wait that the kernel does not take, a timer runs. When the client has acknowledged nothing for `write_timeout`,
///   which is seen at the latest after twice that, writing fails, and with it the connection. A client that takes a little now and
///   then goes on: room for more shows only once a third of the kernel's buffer is free, so it is the client's acknowledgements that count.
/// - It is reset when it is dropped before a body has ended whose end is the close of its connection (HTTP/1.0, which has no
///   chunks): closed in order, what was cut would look whole. nginx asks its upstreams so unless it is told otherwise.
pub(super) struct ClientSocket {
    stream: TcpStream,
    reset: Arc<AtomicBool>,
    watchdog: Arc<Watchdog>,
    write_timeout: Duration,
    timer: Option<Pin<Box<Sleep>>>,
    /// Whether bytes wait, and what the client had not acknowledged when the timer was set.
    waits: Option<usize>,
}

impl ClientSocket {
    pub(super) fn new(
        stream: TcpStream,
        reset: Arc<AtomicBool>,
        watchdog: Arc<Watchdog>,
        write_timeout: Duration,
    ) -> Self {
        Self { stream, reset, watchdog, write_timeout, timer: None, waits: None }
    }

    /// What becomes of a write: pending ones are waited for no longer than the client may take.
    fn bounded(&mut self, written: Poll<io::Result<usize>>, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            self.waits = None;
            return written;
        }
        ready!(self.poll_stalled(cx));
        self.watchdog.stall();
        // What the kernel still holds for this client is of no use to anybody.
        self.reset.store(true, Ordering::Relaxed);
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }

    /// Ready when the client has acknowledged nothing for `write_timeout`.
    fn poll_stalled(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let patience = self.write_timeout;
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(patience)));
        let mut left = self.waits.unwrap_or_else(|| {
            timer.as_mut().reset(Instant::now() + patience);
            unacknowledged(&self.stream)
        });
        loop {
            self.waits = Some(left);
            ready!(timer.as_mut().poll(cx));
            let now = unacknowledged(&self.stream);
            if now >= left {
                return Poll::Ready(());
            }
            left = now;
            timer.as_mut().reset(Instant::now() + patience);
        }
    }
}

/// Bytes that the kernel holds because the client has not acknowledged them (tcp(7), `SIOCOUTQ`); 0 where it does not tell, so that a
/// client which lets no room come for `write_timeout` is one that takes nothing.
fn unacknowledged(stream: &TcpStream) -> usize {
    let mut bytes: libc::c_int = 0;
    #[expect(unsafe_code, reason = "neither the standard library nor socket2 asks for this")]
    // SAFETY: the descriptor is open for as long as `stream` is borrowed, and the call writes an int to `bytes`.
    let status = unsafe { libc::ioctl(stream.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    if status == 0 { usize::try_from(bytes).unwrap_or(0) } else { 0 }
}

impl Drop for ClientSocket {
    fn drop(&mut self) {
        if self.reset.load(Ordering::Relaxed) {
            // It can only fail where the socket is gone already.
            let _ = self.stream.set_zero_linger();
        }
    }
}

impl AsyncRead for ClientSocket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for ClientSocket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.bounded(written, cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.bounded(written, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// Who flushes has written all that was handed over.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.watchdog.flushed();
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
