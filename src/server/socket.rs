//! A client's socket. It detects stalled clients, and resets the connection if a close would look
//! like a complete response.

use std::io;
use std::os::fd::AsRawFd;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rowstream_core::lock::Mutex;
use rowstream_core::timer::Timer;
use socket2::{SockRef, Socket};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use super::connections::{Activity, BusyRequest};
use crate::completeness::delivery::Flush;
use crate::watchdog::Watchdog;

/// We keep reading a connection for this long after we have ended it and the client has
/// acknowledged everything. If we closed it with unread bytes, or if more arrived afterwards, the
/// kernel would reset it. The client would then lose the bytes that it hasn't read yet (RFC 9112,
/// section 9.6). An HTTP/2 client sends window updates to the last, and an HTTP/1 client may have
/// sent its next request.
const LINGER: Duration = Duration::from_secs(1);
/// An HTTP/1 client that has closed its side still counts as present for this long, while its
/// request runs and we send nothing. `nc -N` closes its side and keeps reading. A client that has
/// left closes it too, and answers further bytes by a reset. Before the first byte we can't
/// distinguish the two, and a statement has to be cancelled within a second after its client
/// leaves.
const HALF_CLOSED: Duration = Duration::from_millis(500);
/// The bytes that we read and discard at a time.
const DISCARDED: usize = 1024;

/// How a connection ends. Its socket and the tasks that serve it share this.
#[derive(Default)]
pub(super) struct ConnectionEnd {
    /// Dropping the socket resets the connection.
    pub(super) reset: AtomicBool,
    /// The connection was served to its end. We keep reading it after the socket is dropped, unless
    /// the client has closed its side.
    pub(super) lingers: AtomicBool,
    /// For HTTP/1: the body of the current request has an end that we haven't read.
    pub(super) unread_body: AtomicBool,
    /// Reports when everything that was handed over is written.
    pub(super) flush: Arc<Flush>,
    /// The socket that we keep reading.
    socket: Mutex<Option<Socket>>,
    /// For an HTTP/1 response whose last bytes are being sent. The connection isn't idle until they
    /// have left.
    leaving: Mutex<Option<BusyRequest>>,
}

impl ConnectionEnd {
    /// Records that a response was handed over completely, or given up.
    pub(super) fn leave(&self, busy: BusyRequest) {
        *self.leaving.lock() = Some(busy);
    }

    /// Records that the response has left, or never will.
    pub(super) fn left(&self) {
        drop(self.leaving.lock().take());
    }

    fn keep(&self, stream: &TcpStream) {
        let socket = SockRef::from(stream).try_clone().ok();
        *self.socket.lock() = socket;
    }

    /// Closes our side of a connection, and reads until the client has closed its own. We wait
    /// while the client acknowledges bytes, with the usual limit for stalled clients, and then for
    /// [`LINGER`]. A failure here loses nothing that could still be saved.
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
/// - While the kernel accepts no more bytes, a timer runs. If the client acknowledges nothing for
///   `write_timeout`, the write fails, and so does the connection. We notice within twice that
///   time. A client that acknowledges a little now and then may continue. Acknowledgements count
///   because the kernel reports free space only once a third of its buffer is free.
/// - They also count for an endpoint's minimum rate (`slow_clients = { min_rate = … }`). The socket
///   reports to the watchdog how long bytes waited, and how many were acknowledged.
/// - An HTTP/1.0 body has no chunks, so it ends when the connection closes. If the socket is
///   dropped or the process dies before the body's end, the kernel resets the connection. After an
///   orderly close, a truncated body would look complete. nginx uses HTTP/1.0 for its upstreams by
///   default.
pub(super) struct ClientSocket {
    stream: TcpStream,
    ends: Arc<ConnectionEnd>,
    watchdog: Arc<Watchdog>,
    write_timeout: Duration,
    timer: Timer,
    stalled: Option<StalledBytes>,
    /// The bytes that the kernel accepted, and those of them that the watchdog knows to be
    /// acknowledged.
    written: u64,
    reported: u64,
    /// True if the client has closed its side.
    is_read: bool,
    /// For HTTP/1, whose clients can close their side and keep reading.
    activity: Option<Activity>,
    /// True if no one else reads while a request is being answered, so this socket has to notice a
    /// client that leaves.
    watches: bool,
    /// True if it noticed the next request instead.
    has_more: bool,
    half_closed: Option<HalfClosedClient>,
    /// True if the kernel resets the connection when it closes, even if the process is killed.
    is_armed: bool,
}

/// A client that has closed its side while its request is being answered.
struct HalfClosedClient {
    /// The bytes written before the timer was set.
    written: u64,
    timer: Timer,
}

/// Bytes are waiting because the kernel doesn't accept them.
struct StalledBytes {
    /// The unacknowledged bytes at `write_timeout` before `stalled_at`.
    unacknowledged: usize,
    stalled_at: Instant,
    /// For a minimum rate.
    pace: Option<MinimumRate>,
}

/// The state of a client with a minimum rate.
#[derive(Clone, Copy)]
struct MinimumRate {
    /// The last report to the watchdog.
    since: Instant,
    /// When the client will have been below its rate for too long, unless it acknowledges more.
    too_slow_at: Instant,
}

impl ClientSocket {
    pub(super) fn new(
        stream: TcpStream,
        ends: Arc<ConnectionEnd>,
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
            stalled: None,
            written,
            reported,
            is_read: false,
            is_armed: false,
        }
    }

    /// Marks the socket as HTTP/1, with the requests that `activity` knows. If it `watches`, it
    /// notices clients that leave during a request. Otherwise hyper would have to read, into
    /// another buffer of 8 KB for each waiting request.
    pub(super) fn answers(&mut self, activity: Activity, watches: bool) {
        activity.begin_head();
        (self.activity, self.watches) = (Some(activity), watches);
    }

    /// True if no request is being answered.
    pub(super) fn is_idle(&self) -> bool {
        self.activity.as_ref().is_some_and(Activity::is_idle)
    }

    /// Arms the reset for a body that ends with the connection.
    fn arm(&mut self) {
        if self.ends.reset.load(Ordering::Relaxed) && !self.is_armed {
            // Fails only if the socket is gone already.
            self.is_armed = self.stream.set_zero_linger().is_ok();
        }
    }

    /// Completes a write, and limits how long a pending one waits for the client.
    fn bounded(&mut self, written: Poll<io::Result<usize>>, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(result) = written {
            self.written += result.as_ref().map_or(0, |&bytes| bytes as u64);
            if let Some(StalledBytes { pace: Some(pace), .. }) = self.stalled.take() {
                self.tell(pace.since.elapsed(), unacknowledged(&self.stream));
            }
            return Poll::Ready(result);
        }
        self.watch(cx)?;
        ready!(self.poll_given_up(cx));
        // The kernel's unsent bytes for this client are worthless now.
        self.ends.reset.store(true, Ordering::Relaxed);
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }

    /// Ready when the client has acknowledged nothing for `write_timeout`, or too little for the
    /// minimum rate. The watchdog then knows why.
    fn poll_given_up(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut stalled = self.stalled.take().unwrap_or_else(|| self.begin_wait());
        loop {
            let at = stalled.pace.map_or(stalled.stalled_at, |pace| pace.too_slow_at.min(stalled.stalled_at));
            self.timer.run_until(at);
            if self.timer.poll(cx).is_pending() {
                self.stalled = Some(stalled);
                return Poll::Pending;
            }
            if self.is_over(&mut stalled) {
                return Poll::Ready(());
            }
        }
    }

    fn begin_wait(&mut self) -> StalledBytes {
        let (now, unacknowledged) = (Instant::now(), unacknowledged(&self.stream));
        let left = self.tell(Duration::ZERO, unacknowledged);
        let pace = left.map(|left| MinimumRate { since: now, too_slow_at: now + left });
        StalledBytes { unacknowledged, stalled_at: now + self.write_timeout, pace }
    }

    /// True if the wait for the client is over. Tells the watchdog why.
    fn is_over(&mut self, stalled: &mut StalledBytes) -> bool {
        let (now, unacknowledged) = (Instant::now(), unacknowledged(&self.stream));
        if let Some(pace) = stalled.pace {
            let left = self.tell(now - pace.since, unacknowledged);
            if left.is_some_and(|left| left.is_zero()) {
                self.watchdog.too_slow();
                return true;
            }
            stalled.pace = left.map(|left| MinimumRate { since: now, too_slow_at: now + left });
        }
        if stalled.stalled_at <= now {
            if unacknowledged >= stalled.unacknowledged {
                self.watchdog.stall();
                return true;
            }
            (stalled.unacknowledged, stalled.stalled_at) = (unacknowledged, now + self.write_timeout);
        }
        false
    }

    /// Ready when a client that has closed its side counts as gone. Either none of its requests is
    /// being answered, or it has acknowledged everything and nothing could be sent for
    /// [`HALF_CLOSED`].
    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while self.activity.as_ref().is_some_and(|activity| !activity.is_idle()) {
            let written = self.written;
            let begin = || HalfClosedClient { written, timer: Timer::default() };
            let half_closed = self.half_closed.get_or_insert_with(begin);
            half_closed.timer.start(HALF_CLOSED);
            ready!(half_closed.timer.poll(cx));
            let goes_on = self.stalled.is_some() || half_closed.written < written;
            if !goes_on && unacknowledged(&self.stream) == 0 {
                break;
            }
            half_closed.written = written;
            half_closed.timer.restart(HALF_CLOSED);
        }
        Poll::Ready(())
    }

    /// Checks for a client that closes its side while no one else reads.
    ///
    /// # Errors
    /// The client has left.
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

    /// Reports to the watchdog how long bytes waited, and how many were acknowledged since the last
    /// report. Bytes acknowledged earlier in the response count in the client's favor.
    fn tell(&mut self, waited: Duration, unacknowledged: usize) -> Option<Duration> {
        let acknowledged = self.written.saturating_sub(unacknowledged as u64);
        let taken = acknowledged.saturating_sub(self.reported);
        self.reported = acknowledged;
        self.watchdog.waited(waited, taken)
    }
}

/// The bytes that the kernel holds because the client hasn't acknowledged them (tcp(7),
/// `SIOCOUTQ`). Returns 0 if the system doesn't say. A client then counts as stalled if its buffer
/// stays full for `write_timeout`.
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
            // Fails only if the socket is gone already.
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

    /// hyper flushes after it has written everything that was handed over.
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
