//! The buffers of a database's connection: a read buffer, which is reused, and a write buffer.
//!
//! Framing is up to the protocol of each database. The read buffer contains `[start, end)`:
//! received bytes that aren't consumed. Invariants:
//!
//! 1. bytes in the buffer don't move until the next poll;
//! 2. the buffer grows only when bytes arrive, never because a length announces them, and never
//!    beyond the limit;
//! 3. a caller that waits for bytes also sends pending output. Neither waits for the other, because
//!    the server may not read before its own output is read;
//! 4. received bytes are read within [`PATIENCE`], even while the receive mark is up;
//! 5. if a reader has set [a limit](Buffers::expect_within), it fails when the server is silent for
//!    longer.
//!
//! PostgreSQL sends 8 KiB at a time and MariaDB 16 KiB, and each piece would wake the reader. While
//! a result flows, the receive mark makes the kernel collect several pieces, which halves the CPU
//! time of a stream:
//!
//! ```text
//!  mark down ──── RAISE_AFTER bytes received ─────► mark up
//!      ▲                                               │
//!      └─ silence for PATIENCE, or something is sent ──┘
//! ```
//!
//! A reader that is slow, or reads little, has a small buffer, because there may be hundreds of
//! them.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use bytes::{Buf, BytesMut};
use http::StatusCode;
use rowstream_core::Error;
use rowstream_core::error::STATEMENT_TIMEOUT;
use rowstream_core::timer::Timer;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::socket::Socket;

/// Room for several of the pieces that servers send. A larger buffer doesn't change the wall time.
pub const BUFFER: usize = 32 * 1024;

/// Room for one piece.
pub const SMALL: usize = 8 * 1024;

/// The buffer becomes large after it was filled by this many bytes.
const FLOWING_AFTER: usize = 256 * 1024;

/// If a full buffer isn't read for this long, the reader is slow. A fast reader on a busy machine
/// waits for a few time slices.
const SLOW_AFTER: Duration = Duration::from_millis(50);

/// The mark is raised after this many bytes at low mark. So small results don't pay for it.
const RAISE_AFTER: usize = 128 * 1024;

/// The mark of a flowing result. We measured a third less CPU time at 64 KiB than at 8 KiB, and no
/// further gain above.
const MARK: usize = 64 * 1024;

/// The longest time that the last bytes of a result wait, if they're fewer than the mark.
const PATIENCE: Duration = Duration::from_millis(1);

/// The time that a server may be silent beyond `statement_timeout`. It ends the statement itself,
/// and this is for its error to arrive.
const GRACE: Duration = Duration::from_secs(2);

/// The buffers and the socket of a connection.
pub struct Buffers {
    socket: Socket,
    /// Input. The bytes from `start` to `end` are unread.
    pub read: Box<[u8]>,
    /// The start of the unread bytes.
    pub start: usize,
    /// The end of the unread bytes.
    pub end: usize,
    /// Output that isn't sent yet.
    pub write: BytesMut,
    /// The most unread bytes to hold.
    pub limit: usize,
    /// The round-trip time to the server.
    pub round_trip: Duration,
    /// The time of the last send.
    pub sent: Instant,
    mark: Mark,
    flow: Flow,
    silence: Silence,
    /// The thread whose runtime waits for the socket.
    home: ThreadId,
}

/// Measures the speed of the reader.
struct Flow {
    /// The last time that the buffer was full.
    filled: Instant,
    /// The bytes that have filled it since the reader was last slow.
    bytes: usize,
    /// True if the bytes are only discarded, at any speed.
    is_discarded: bool,
}

impl Flow {
    /// Records that this many bytes filled the buffer.
    fn note(&mut self, bytes: usize, now: Instant) {
        if now.duration_since(self.filled) > SLOW_AFTER {
            self.bytes = 0;
        }
        self.filled = now;
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// The size of the buffer, if no message is longer.
    fn buffer(&self) -> usize {
        if self.bytes < FLOWING_AFTER || self.is_discarded { SMALL } else { BUFFER }
    }
}

/// Limits the time that a reader waits for a silent server.
#[derive(Default)]
struct Silence {
    /// The server's time limit for a statement; `None` if there's no limit.
    statement_timeout: Option<Duration>,
    /// The end of the current wait; `None` if something has arrived since the last one.
    end: Option<tokio::time::Instant>,
    /// True if the statement's time is over, and the server has only the grace period left. A
    /// reader that returns later than both still waits for the grace period.
    in_grace: bool,
    timer: Timer,
}

impl Silence {
    /// Call this while there's nothing to read. Ready when the silence is too long.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Error> {
        let Some(statement_timeout) = self.statement_timeout else { return Poll::Pending };
        let mut end = *self.end.get_or_insert_with(|| tokio::time::Instant::now() + statement_timeout);
        loop {
            self.timer.run_at_most_until(end);
            ready!(self.timer.poll(cx));
            let now = tokio::time::Instant::now();
            if now < end {
                continue;
            }
            if self.in_grace {
                return Poll::Ready(silent(statement_timeout + GRACE));
            }
            end = now + GRACE;
            (self.end, self.in_grace) = (Some(end), true);
        }
    }

    /// Records that something has arrived.
    fn end(&mut self) {
        (self.end, self.in_grace) = (None, false);
    }
}

/// The socket's receive mark.
enum Mark {
    /// Each byte wakes us. This many have arrived since the mark was lowered.
    Down(usize),
    /// We wake after `MARK` bytes, or when the timer ends. It runs while there's nothing to read.
    Up(Timer),
}

impl Buffers {
    /// Empty buffers for a socket, which hold at most `limit` unread bytes.
    pub fn new(socket: Socket, limit: usize) -> Self {
        Self {
            round_trip: socket.round_trip(),
            socket,
            read: vec![0; SMALL].into_boxed_slice(),
            start: 0,
            end: 0,
            write: BytesMut::new(),
            limit,
            sent: Instant::now(),
            mark: Mark::Down(0),
            flow: Flow { filled: Instant::now(), bytes: 0, is_discarded: false },
            silence: Silence::default(),
            home: thread::current().id(),
        }
    }

    /// The socket.
    pub fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Returns true if this thread's runtime waits for the socket.
    pub fn is_here(&self) -> bool {
        self.home == thread::current().id()
    }

    /// Moves the socket to this thread. Otherwise every wake-up would go through another core.
    ///
    /// # Errors
    /// The system refuses the registration. The connection is then closed.
    pub fn move_here(self) -> io::Result<Self> {
        match self.is_here() {
            true => Ok(self),
            false => Ok(Self { socket: self.socket.move_here()?, home: thread::current().id(), ..self }),
        }
    }

    /// Sends pending output, then reads at least one byte.
    pub fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        if let Poll::Ready(flushed) = self.poll_flush(cx) {
            flushed?;
        }
        self.make_room();
        loop {
            let mut space = ReadBuf::new(&mut self.read[self.end..]);
            match Pin::new(&mut self.socket).poll_read(cx, &mut space).map_err(lost)? {
                Poll::Ready(()) => {
                    let count = space.filled().len();
                    if count == 0 {
                        return Poll::Ready(Err(lost(io::ErrorKind::UnexpectedEof.into())));
                    }
                    self.end += count;
                    self.note_read(count);
                    // Only a full buffer could have received more. Short answers don't read the
                    // clock.
                    if self.end == self.read.len() {
                        self.flow.note(count, Instant::now());
                    }
                    return Poll::Ready(Ok(()));
                }
                Poll::Pending => {
                    if let Poll::Ready(silent) = self.silence.poll(cx) {
                        return Poll::Ready(Err(silent));
                    }
                    ready!(self.poll_patience(cx));
                }
            }
        }
    }

    /// Limits the silence: the server ends its statements itself after `statement_timeout`. A
    /// reader that waits longer fails. The limit ends when the connection [rests](Self::rest).
    pub fn expect_within(&mut self, statement_timeout: Option<Duration>) {
        self.silence.statement_timeout = statement_timeout;
        self.silence.end();
    }

    /// Raises the mark once a result flows.
    fn note_read(&mut self, count: usize) {
        self.silence.end();
        match &mut self.mark {
            Mark::Down(read) if *read + count < RAISE_AFTER => *read += count,
            Mark::Down(read) => {
                *read = 0;
                if self.socket.set_receive_mark(MARK) {
                    self.mark = Mark::Up(Timer::default());
                }
            }
            Mark::Up(timer) => timer.stop(),
        }
    }

    /// Call this while there's nothing to read. Ready when the mark was up for too long and has
    /// been lowered.
    fn poll_patience(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Mark::Up(timer) = &mut self.mark else { return Poll::Pending };
        timer.start(PATIENCE);
        ready!(timer.poll(cx));
        self.lower_mark();
        Poll::Ready(())
    }

    /// Lowers the mark. Each byte wakes us then, and bytes that have arrived do so at once.
    fn lower_mark(&mut self) {
        if matches!(self.mark, Mark::Up(_)) {
            self.socket.set_receive_mark(1);
            self.mark = Mark::Down(0);
        }
    }

    /// Moves unread bytes to the front. Grows the buffer if one message fills it, or shrinks it
    /// again.
    fn make_room(&mut self) {
        let held = self.end - self.start;
        let usual = self.flow.buffer();
        if held == self.read.len() {
            self.resize((held * 2).min(self.limit.max(BUFFER)));
        } else if self.read.len() < usual || (self.read.len() > usual && held < usual / 2) {
            self.resize(usual);
        } else if self.start > 0 {
            self.read.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, held);
        }
    }

    /// Discards the rest until the connection [rests](Self::rest). Clients may leave by the
    /// hundred, and each leaves megabytes in flight.
    pub fn discard(&mut self) {
        self.flow.is_discarded = true;
        self.silence.statement_timeout = None;
    }

    /// Frees the memory that a large result needed, before the connection is idle. Keeps unread
    /// bytes.
    pub fn rest(&mut self) {
        self.lower_mark();
        (self.flow.bytes, self.flow.is_discarded) = (0, false);
        self.silence.statement_timeout = None;
        if self.read.len() > SMALL && self.end - self.start <= SMALL {
            self.resize(SMALL);
        }
    }

    fn resize(&mut self, size: usize) {
        let mut larger = vec![0; size].into_boxed_slice();
        let held = &self.read[self.start..self.end];
        larger[..held.len()].copy_from_slice(held);
        (self.start, self.end) = (0, held.len());
        self.read = larger;
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        if self.write.is_empty() {
            return Poll::Ready(Ok(()));
        }
        self.lower_mark();
        self.sent = Instant::now();
        while !self.write.is_empty() {
            let sent = ready!(Pin::new(&mut self.socket).poll_write(cx, &self.write)).map_err(lost)?;
            self.write.advance(sent);
        }
        Pin::new(&mut self.socket).poll_flush(cx).map_err(lost)
    }

    /// Sends pending output, without reading.
    pub async fn flush(&mut self) -> Result<(), Error> {
        poll_fn(|cx| self.poll_flush(cx)).await
    }

    /// Waits until the server has closed its side, and discards everything until then.
    pub async fn until_closed(&mut self) {
        self.discard();
        while poll_fn(|cx| self.poll_fill(cx)).await.is_ok() {
            (self.start, self.end) = (0, 0);
        }
    }
}

/// The connection failed or ended too early.
fn lost(cause: io::Error) -> Error {
    Error::source_unavailable("the connection to the database was lost").cause(cause)
}

/// The server was silent, and didn't end the statement in time.
#[cold]
fn silent(limit: Duration) -> Error {
    let seconds = limit.as_secs_f32();
    Error::new(
        STATEMENT_TIMEOUT,
        StatusCode::GATEWAY_TIMEOUT,
        format!("the database hasn't sent anything for {seconds} s, longer than `statement_timeout`"),
    )
    .hint("the database or the network on the way to it doesn't answer: look at the load of its machine, and if a firewall drops the connection")
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;
    use tokio::net::UnixStream;

    use super::*;

    async fn fill(buffers: &mut Buffers) {
        poll_fn(|cx| buffers.poll_fill(cx)).await.unwrap();
    }

    /// We used to wait for a silent server without a limit.
    #[tokio::test(start_paused = true)]
    async fn a_silent_server_is_given_up_after_the_statements_time() {
        const TIMEOUT: Duration = Duration::from_secs(5);
        let (client, mut server) = UnixStream::pair().unwrap();
        let mut buffers = Buffers::new(Socket::Unix(client), 1 << 20);
        buffers.expect_within(Some(TIMEOUT));
        // Each arrival begins a new wait, even if the reader was late for it.
        for _ in 0..3 {
            tokio::time::advance(2 * TIMEOUT).await;
            server.write_all(b"row").await.unwrap();
            fill(&mut buffers).await;
            let soon = tokio::time::timeout(TIMEOUT / 2, poll_fn(|cx| buffers.poll_fill(cx))).await;
            assert!(soon.is_err(), "{soon:?}");
        }
        let begun = tokio::time::Instant::now();
        server.write_all(b"row").await.unwrap();
        fill(&mut buffers).await;
        let silent = poll_fn(|cx| buffers.poll_fill(cx)).await.unwrap_err();
        assert_eq!((silent.code(), begun.elapsed().as_secs()), (STATEMENT_TIMEOUT, 7));
        // No limit applies to a connection that rests.
        buffers.rest();
        let rested = tokio::time::timeout(100 * TIMEOUT, poll_fn(|cx| buffers.poll_fill(cx))).await;
        assert!(rested.is_err(), "{rested:?}");
    }

    /// Two hundred slow readers had buffers of 32 KiB, but each read only 8 at a time.
    #[tokio::test]
    async fn only_a_result_that_flows_has_a_large_buffer() {
        let (client, mut server) = UnixStream::pair().unwrap();
        let mut buffers = Buffers::new(Socket::Unix(client), 1 << 20);
        let sending = tokio::spawn(async move { while server.write_all(&[7; 64 * 1024]).await.is_ok() {} });
        let mut read = 0;
        while read < 4 * FLOWING_AFTER {
            fill(&mut buffers).await;
            assert!(read < FLOWING_AFTER + BUFFER || buffers.read.len() == BUFFER, "after {read}");
            assert!(read > FLOWING_AFTER || buffers.read.len() == SMALL, "after {read}");
            read += buffers.end - buffers.start;
            (buffers.start, buffers.end) = (0, 0);
        }
        // Slow from now on.
        for _ in 0..2 {
            buffers.flow.filled -= 2 * SLOW_AFTER;
            fill(&mut buffers).await;
            (buffers.start, buffers.end) = (0, 0);
        }
        assert_eq!(buffers.read.len(), SMALL);
        // After clients have left, we read the rest at full speed.
        buffers.discard();
        for _ in 0..4 * FLOWING_AFTER / SMALL {
            fill(&mut buffers).await;
            assert_eq!(buffers.read.len(), SMALL);
            (buffers.start, buffers.end) = (0, 0);
        }
        buffers.rest();
        for _ in 0..4 * FLOWING_AFTER / SMALL {
            fill(&mut buffers).await;
            (buffers.start, buffers.end) = (0, 0);
        }
        assert_eq!(buffers.read.len(), BUFFER);
        drop(buffers);
        sending.await.unwrap();
    }
}
