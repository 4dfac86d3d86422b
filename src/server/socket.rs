//! The socket of a client: it sees a client that takes nothing, and it is reset where a close would
//! look like an end.

use std::io;
use std::os::fd::AsRawFd;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use socket2::{SockRef, Socket};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use super::connections::{Activity, Busy};
use crate::completeness::delivery::Flush;
use crate::watchdog::Watchdog;
use rowstream_core::lock::Mutex;
use rowstream_core::timer::Timer;

/// How long a connection is still read that we have ended, once the client has taken all: closed
/// with bytes that nobody read, or hit by more of them, it would be reset, and what lies unread at
/// the client would be lost (RFC 9112, section 9.6). A client of HTTP/2 says what it has taken to
/// the last, and one of HTTP/1 may have sent its next request.
const LINGER: Duration = Duration::from_secs(1);
/// How long a client of HTTP/1 that has ended its side is taken to be there still, while it is
/// being answered and nothing of that can be sent. `nc -N` ends its side and reads on; a client
/// that has gone ends it, too, and answers what it is sent by a reset. Before the first byte
/// nothing tells the two apart, and a statement is to be cancelled within a second of its client's
/// leaving.
const HALF_CLOSED: Duration = Duration::from_millis(500);
/// What is read of it at a time, to no end.
const DISCARDED: usize = 1024;

/// How a connection ends: what its socket and those who serve it tell each other.
#[derive(Default)]
pub(super) struct Ends {
    /// It is reset when it is dropped.
    pub(super) reset: AtomicBool,
    /// It was served to its end, and is still read when it is dropped, unless the client has ended
    /// its side.
    pub(super) lingers: AtomicBool,
    /// Tells when all that was handed over has been written.
    pub(super) flush: Arc<Flush>,
    /// What is still read.
    socket: Mutex<Option<Socket>>,
    /// Of a response of HTTP/1 whose last bytes are on their way: the connection is not idle before
    /// they have gone.
    leaving: Mutex<Option<Busy>>,
}

impl Ends {
    /// A response was handed over as a whole, or given up.
    pub(super) fn leave(&self, busy: Busy) {
        *self.leaving.lock() = Some(busy);
    }

    /// It has left, or never will.
    pub(super) fn left(&self) {
        drop(self.leaving.lock().take());
    }

    fn keep(&self, stream: &TcpStream) {
        let socket = SockRef::from(stream).try_clone().ok();
        *self.socket.lock() = socket;
    }

    /// Ends our side of a connection, and reads what still comes until the client has ended its
    /// own: while it takes what it was sent, as long as somebody who takes nothing may, and then
    /// for [`LINGER`]. Nothing is lost that could still be saved if that fails.
    pub(super) async fn linger(&self, write_timeout: Duration) {
        let socket = self.socket.lock().take();
        let Some(Ok(mut stream)) = socket.map(|socket| TcpStream::from_std(socket.into())) else { return };
        if stream.shutdown().await.is_err() {
            return;
        }
        let (mut left, mut since) = (unacknowledged(&stream), Instant::now());
        while timeout(LINGER, discard(&mut stream)).await.is_err() {
            let now = unacknowledged(&stream);
            if now < left {
                (left, since) = (now, Instant::now());
            } else if now == 0 || since.elapsed() >= write_timeout {
                return;
            }
        }
    }
}

/// Reads to the end.
async fn discard(stream: &mut TcpStream) {
    let mut nowhere = [0; DISCARDED];
    while stream.read(&mut nowhere).await.is_ok_and(|bytes| bytes > 0) {}
}

/// A client's socket.
///
/// - While bytes wait that the kernel does not take, a timer runs. When the client has acknowledged
///   nothing for `write_timeout`, which is seen at the latest after twice that, writing fails, and
///   with it the connection. A client that takes a little now and then goes on: room for more shows
///   only once a third of the kernel's buffer is free, so it is the client's acknowledgements that
///   count.
/// - So they do where an endpoint has a minimum rate (`slow_clients = { min_rate = … }`): the
///   watchdog learns how long bytes waited, and how many were acknowledged.
/// - It is reset when it is dropped before a body has ended whose end is the close of its
///   connection (HTTP/1.0, which has no chunks), and when the process dies before that: closed in
///   order, what was cut would look whole. nginx asks its upstreams so unless it is configured
///   otherwise.
pub(super) struct ClientSocket {
    stream: TcpStream,
    ends: Arc<Ends>,
    watchdog: Arc<Watchdog>,
    write_timeout: Duration,
    timer: Timer,
    waits: Option<Waits>,
    /// Bytes that the kernel took, and of these what the watchdog knows to be acknowledged.
    written: u64,
    reported: u64,
    /// Whether the client has ended its side.
    is_read: bool,
    /// Of HTTP/1, where a client that has ended its side may read on.
    activity: Option<Activity>,
    /// Whether nobody else reads while a request is answered, so that this sees who leaves.
    watches: bool,
    /// Whether it did and found the next request.
    has_more: bool,
    half_closed: Option<HalfClosed>,
    /// Whether the kernel resets it when it is closed, also for a process that was killed.
    is_armed: bool,
}

/// A client that has ended its side, and is being answered.
struct HalfClosed {
    /// What had been written when the timer was set.
    written: u64,
    timer: Timer,
}

/// Bytes wait that the kernel does not take.
struct Waits {
    /// What the client had not acknowledged `write_timeout` before it is stalled.
    unacknowledged: usize,
    stalled_at: Instant,
    /// Where there is a minimum rate.
    pace: Option<Pace>,
}

/// How a client stands that has to keep a minimum rate.
#[derive(Clone, Copy)]
struct Pace {
    /// Until when the watchdog knows of it.
    since: Instant,
    /// When it is below its rate for too long, if it takes nothing more.
    too_slow_at: Instant,
}

impl ClientSocket {
    pub(super) fn new(
        stream: TcpStream,
        ends: Arc<Ends>,
        watchdog: Arc<Watchdog>,
        write_timeout: Duration,
    ) -> Self {
        let (written, reported) = (0, 0);
        Self {
            activity: None,
            watches: false,
            has_more: false,
            half_closed: None,
            stream,
            ends,
            watchdog,
            write_timeout,
            timer: Timer::default(),
            waits: None,
            written,
            reported,
            is_read: false,
            is_armed: false,
        }
    }

    /// It is one of HTTP/1, whose requests `activity` knows. While one of them is answered, this
    /// `watches` for clients that leave: hyper would read, into another buffer of eight kilobytes
    /// for each request that waits.
    pub(super) fn answers(&mut self, activity: Activity, watches: bool) {
        activity.begin_head();
        (self.activity, self.watches) = (Some(activity), watches);
    }

    /// True if no request is being answered.
    pub(super) fn is_idle(&self) -> bool {
        self.activity.as_ref().is_some_and(Activity::is_idle)
    }

    /// Has the kernel reset the connection unless a body ends before that whose end is the close.
    fn arm(&mut self) {
        if self.ends.reset.load(Ordering::Relaxed) && !self.is_armed {
            // It can only fail where the socket is gone already.
            self.is_armed = self.stream.set_zero_linger().is_ok();
        }
    }

    /// What becomes of a write: pending ones are waited for no longer than the client may take.
    fn bounded(&mut self, written: Poll<io::Result<usize>>, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(result) = written {
            self.written += result.as_ref().map_or(0, |&bytes| bytes as u64);
            if let Some(Waits { pace: Some(pace), .. }) = self.waits.take() {
                self.tell(pace.since.elapsed(), unacknowledged(&self.stream));
            }
            return Poll::Ready(result);
        }
        self.watch(cx)?;
        ready!(self.poll_given_up(cx));
        // What the kernel still holds for this client is of no use to anybody.
        self.ends.reset.store(true, Ordering::Relaxed);
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }

    /// Ready when the client has acknowledged nothing for `write_timeout`, or too little for the
    /// minimum rate. The watchdog knows then.
    fn poll_given_up(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut waits = self.waits.take().unwrap_or_else(|| self.begin_wait());
        loop {
            let at = waits.pace.map_or(waits.stalled_at, |pace| pace.too_slow_at.min(waits.stalled_at));
            self.timer.run_until(at);
            if self.timer.poll(cx).is_pending() {
                self.waits = Some(waits);
                return Poll::Pending;
            }
            if self.is_over(&mut waits) {
                return Poll::Ready(());
            }
        }
    }

    fn begin_wait(&mut self) -> Waits {
        let (now, unacknowledged) = (Instant::now(), unacknowledged(&self.stream));
        let left = self.tell(Duration::ZERO, unacknowledged);
        let pace = left.map(|left| Pace { since: now, too_slow_at: now + left });
        Waits { unacknowledged, stalled_at: now + self.write_timeout, pace }
    }

    /// Whether the client is waited for no longer; tells the watchdog why.
    fn is_over(&mut self, waits: &mut Waits) -> bool {
        let (now, unacknowledged) = (Instant::now(), unacknowledged(&self.stream));
        if let Some(pace) = waits.pace {
            let left = self.tell(now - pace.since, unacknowledged);
            if left.is_some_and(|left| left.is_zero()) {
                self.watchdog.too_slow();
                return true;
            }
            waits.pace = left.map(|left| Pace { since: now, too_slow_at: now + left });
        }
        if waits.stalled_at <= now {
            if unacknowledged >= waits.unacknowledged {
                self.watchdog.stall();
                return true;
            }
            (waits.unacknowledged, waits.stalled_at) = (unacknowledged, now + self.write_timeout);
        }
        false
    }

    /// Ready when a client that has ended its side is taken to have gone: nothing of it is being
    /// answered, or nothing could be sent for [`HALF_CLOSED`], and it has all that was sent.
    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while self.activity.as_ref().is_some_and(|activity| !activity.is_idle()) {
            let written = self.written;
            let begin = || HalfClosed { written, timer: Timer::default() };
            let half_closed = self.half_closed.get_or_insert_with(begin);
            half_closed.timer.start(HALF_CLOSED);
            ready!(half_closed.timer.poll(cx));
            let goes_on = self.waits.is_some() || half_closed.written < written;
            if !goes_on && unacknowledged(&self.stream) == 0 {
                break;
            }
            half_closed.written = written;
            half_closed.timer.restart(HALF_CLOSED);
        }
        Poll::Ready(())
    }

    /// Looks whether the client has ended its side, where nobody reads.
    ///
    /// # Errors
    /// It has gone.
    fn watch(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        if !self.watches || self.activity.as_ref().is_none_or(Activity::is_idle) {
            return Ok(());
        }
        if !self.is_read && !self.has_more {
            let mut first = [0];
            let Poll::Ready(bytes) = self.stream.poll_peek(cx, &mut ReadBuf::new(&mut first))? else {
                return Ok(());
            };
            (self.is_read, self.has_more) = (bytes == 0, bytes > 0);
        }
        match self.is_read && self.poll_gone(cx).is_ready() {
            true => Err(io::ErrorKind::UnexpectedEof.into()),
            false => Ok(()),
        }
    }

    /// Tells the watchdog that bytes waited for so long, and what was acknowledged since it
    /// was last reported. What the client took of an answer before counts in its favour.
    fn tell(&mut self, waited: Duration, unacknowledged: usize) -> Option<Duration> {
        let acknowledged = self.written.saturating_sub(unacknowledged as u64);
        let taken = acknowledged.saturating_sub(self.reported);
        self.reported = acknowledged;
        self.watchdog.waited(waited, taken)
    }
}

/// Bytes that the kernel holds because the client has not acknowledged them (tcp(7), `SIOCOUTQ`); 0
/// where it does not tell, so that a client which lets no room come for `write_timeout` is one that
/// takes nothing.
fn unacknowledged(stream: &TcpStream) -> usize {
    let mut bytes: libc::c_int = 0;
    #[expect(unsafe_code, reason = "neither the standard library nor socket2 asks for this")]
    // SAFETY: the descriptor is open for as long as `stream` is borrowed, and the call writes an
    // int to `bytes`.
    let status = unsafe { libc::ioctl(stream.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    if status == 0 { usize::try_from(bytes).unwrap_or(0) } else { 0 }
}

impl Drop for ClientSocket {
    fn drop(&mut self) {
        if self.ends.reset.load(Ordering::Relaxed) {
            // It can only fail where the socket is gone already.
            let _ = self.stream.set_zero_linger();
            return;
        }
        if self.is_armed {
            let _ = SockRef::from(&self.stream).set_linger(None);
        }
        if self.ends.lingers.load(Ordering::Relaxed) && !self.is_read {
            self.ends.keep(&self.stream);
        }
    }
}

impl AsyncRead for ClientSocket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let filled = buf.filled().len();
        self.has_more = false;
        if !self.is_read {
            ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
            self.is_read = buf.filled().len() == filled && buf.remaining() > 0;
            if let Some(activity) = self.activity.as_ref().filter(|_| buf.filled().len() > filled) {
                activity.begin_head();
            }
        }
        if self.is_read {
            ready!(self.poll_gone(cx));
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for ClientSocket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.arm();
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.bounded(written, cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.arm();
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.bounded(written, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// Who flushes has written all that was handed over.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.watchdog.flushed();
        self.ends.flush.flushed();
        self.ends.left();
        self.watch(cx)?;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
