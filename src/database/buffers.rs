//! The bytes of a database's connection on their way: one read buffer, reused, and one write
//! buffer.
//!
//! It frames nothing: the protocol of a database does, over it. The read buffer holds `[start,
//! end)`: bytes that came and are not consumed. Invariants:
//!
//! 1. what lies in the buffer stays where it is until the next poll;
//! 2. the buffer grows only as bytes really arrive, never on the word of a length, and never beyond
//!    the limit;
//! 3. whoever waits for bytes also sends what is to be sent, and neither waits for the other: the
//!    server may have to be read before it reads on;
//! 4. bytes that arrive are read at the latest [`PATIENCE`] later, also while the receive mark is up;
//! 5. if a reader has said [how long](Buffers::expect_within) it waits, a silent server fails it.
//!
//! PostgreSQL sends 8 KiB at a time and MariaDB 16 KiB, and each piece wakes the reader. While a
//! result flows, the receive mark lets several pieces come together, which halves the CPU time of a
//! stream:
//!
//! ```text
//!  mark down ──── RAISE_AFTER bytes have come ────► mark up
//!      ▲                                               │
//!      └── nothing for PATIENCE, or something is sent ─┘
//! ```
//!
//! A reader that is slow, or asks for little, has a small buffer: there may be hundreds of them.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use bytes::{Buf, BytesMut};
use http::StatusCode;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::socket::Socket;
use rowstream_core::Error;
use rowstream_core::error::STATEMENT_TIMEOUT;
use rowstream_core::timer::Timer;

/// Enough for several of the pieces in which servers send; larger ones do not change the wall time.
pub(super) const BUFFER: usize = 32 * 1024;

/// Enough for one of them.
pub(super) const SMALL: usize = 8 * 1024;

/// Bytes that have filled the buffer again and again before it is a large one.
const FLOWING_AFTER: usize = 256 * 1024;

/// A full buffer that is not read on for so long has a slow reader. A fast one on a busy machine
/// takes a few time slices.
const SLOW_AFTER: Duration = Duration::from_millis(50);

/// Bytes that have come at low mark before it is raised: a small result never pays for setting it.
const RAISE_AFTER: usize = 128 * 1024;

/// The mark of a flowing result. Measured: 64 KiB take a third less CPU time than 8 KiB, more take
/// no less.
const MARK: usize = 64 * 1024;

/// How long the rest of a result, which may be shorter than the mark, waits for it.
const PATIENCE: Duration = Duration::from_millis(1);

/// How much longer than `statement_timeout` a server may be silent. It ends the statement itself, and
/// this is for the way of its error.
const GRACE: Duration = Duration::from_secs(2);

/// Buffers and socket of one connection.
pub(super) struct Buffers {
    socket: Socket,
    pub(super) read: Box<[u8]>,
    pub(super) start: usize,
    pub(super) end: usize,
    /// What is to be sent.
    pub(super) write: BytesMut,
    /// The most that is held unread, in bytes.
    pub(super) limit: usize,
    /// How far the server is.
    pub(super) round_trip: Duration,
    /// When something was sent last.
    pub(super) sent: Instant,
    mark: Mark,
    flow: Flow,
    silence: Silence,
    /// The thread whose runtime waits for the socket.
    home: ThreadId,
}

/// How fast what fills the buffer is read.
struct Flow {
    /// When the buffer was full last.
    filled: Instant,
    /// Bytes that have filled it since the reader was slow.
    bytes: usize,
    /// Whether nothing of it is of worth, however fast it is read.
    is_discarded: bool,
}

impl Flow {
    /// So many bytes have filled the buffer, `now`.
    fn note(&mut self, bytes: usize, now: Instant) {
        if now.duration_since(self.filled) > SLOW_AFTER {
            self.bytes = 0;
        }
        self.filled = now;
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// The size of the buffer while no message is longer.
    fn buffer(&self) -> usize {
        if self.bytes < FLOWING_AFTER || self.is_discarded { SMALL } else { BUFFER }
    }
}

/// How long the reader waits for a server that says nothing.
#[derive(Default)]
struct Silence {
    /// After which the server ends a statement; `None`: the reader waits for as long as it takes.
    statement_timeout: Option<Duration>,
    /// When the wait is over; `None`: something has arrived since the last one.
    end: Option<tokio::time::Instant>,
    /// If the statement is over, and the server has its time of grace. A reader that was elsewhere
    /// for longer than both has that time, too.
    in_grace: bool,
    timer: Timer,
}

impl Silence {
    /// Nothing is there to be read: ready once that is so for too long.
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

    /// Something has arrived.
    fn end(&mut self) {
        (self.end, self.in_grace) = (None, false);
    }
}

/// Where the socket's receive mark stands.
enum Mark {
    /// Every byte wakes us; this many have come since it was lowered.
    Down(usize),
    /// `MARK` bytes wake us, or the timer, which runs while nothing is there to be read.
    Up(Timer),
}

impl Buffers {
    pub(super) fn new(socket: Socket, limit: usize) -> Self {
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

    pub(super) fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Whether this thread's runtime waits for the socket.
    pub(super) fn is_here(&self) -> bool {
        self.home == thread::current().id()
    }

    /// Makes the socket this thread's own; without that, every wake-up would go through another
    /// core.
    ///
    /// # Errors
    /// The system refuses the registration; the connection is then closed.
    pub(super) fn move_here(self) -> io::Result<Self> {
        match self.is_here() {
            true => Ok(self),
            false => Ok(Self { socket: self.socket.move_here()?, home: thread::current().id(), ..self }),
        }
    }

    /// Sends what is to be sent, then reads at least one byte.
    pub(super) fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
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
                    // A larger buffer would have taken more: of short answers no clock is asked.
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

    /// From now on the server runs statements that it ends itself after `statement_timeout`. A reader
    /// that waits longer than that fails, until the connection [rests](Self::rest).
    pub(super) fn expect_within(&mut self, statement_timeout: Option<Duration>) {
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

    /// Nothing is there to be read: ready once the mark was up for too long, and is down.
    fn poll_patience(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Mark::Up(timer) = &mut self.mark else { return Poll::Pending };
        timer.start(PATIENCE);
        ready!(timer.poll(cx));
        self.lower_mark();
        Poll::Ready(())
    }

    /// From now on every byte wakes us, and what has come does so at once.
    fn lower_mark(&mut self) {
        if matches!(self.mark, Mark::Up(_)) {
            self.socket.set_receive_mark(1);
            self.mark = Mark::Down(0);
        }
    }

    /// Moves what is left to the front, and grows the buffer when one message fills it, or shrinks
    /// it again.
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

    /// What still comes is only read so that it is over, until the connection [rests](Self::rest):
    /// clients may leave by the hundred, and each leaves megabytes on the way.
    pub(super) fn discard(&mut self) {
        self.flow.is_discarded = true;
        self.silence.statement_timeout = None;
    }

    /// Gives back what a large result took, before the connection is idle. What came and is not
    /// consumed stays.
    pub(super) fn rest(&mut self) {
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

    /// Sends what is to be sent, and waits for nothing.
    pub(super) async fn flush(&mut self) -> Result<(), Error> {
        poll_fn(|cx| self.poll_flush(cx)).await
    }

    /// Waits until the server has closed its side, reading nothing of worth.
    pub(super) async fn until_closed(&mut self) {
        self.discard();
        while poll_fn(|cx| self.poll_fill(cx)).await.is_ok() {
            (self.start, self.end) = (0, 0);
        }
    }
}

/// The connection failed or ended where more was to come.
fn lost(cause: io::Error) -> Error {
    Error::source_unavailable("the connection to the database was lost").cause(cause)
}

/// The server hasn't ended the statement in time, nor said anything.
#[cold]
fn silent(limit: Duration) -> Error {
    let seconds = limit.as_secs_f32();
    Error::new(
        STATEMENT_TIMEOUT,
        StatusCode::GATEWAY_TIMEOUT,
        format!("the database has said nothing for {seconds} s, longer than `statement_timeout`"),
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

    /// A database that says nothing was waited for as long as it said nothing.
    #[tokio::test(start_paused = true)]
    async fn a_silent_server_is_given_up_after_the_statements_time() {
        const TIMEOUT: Duration = Duration::from_secs(5);
        let (client, mut server) = UnixStream::pair().unwrap();
        let mut buffers = Buffers::new(Socket::Unix(client), 1 << 20);
        buffers.expect_within(Some(TIMEOUT));
        // Each arrival begins another wait, also if the reader was late for it.
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
        // Nothing is expected of one that rests.
        buffers.rest();
        let rested = tokio::time::timeout(100 * TIMEOUT, poll_fn(|cx| buffers.poll_fill(cx))).await;
        assert!(rested.is_err(), "{rested:?}");
    }

    /// Two hundred slow readers held buffers of 32 KiB, of which each fetched 8 at a time.
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
        // Of those who leave, what is on its way is read as fast as it comes.
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
