//! The framing of messages: one read buffer, reused, and one write buffer.
//!
//! The read buffer holds `[start, end)`: bytes that came and are not consumed. Invariants:
//!
//! 1. a [`Frame`] stays readable by [`Wire::body`] until the next poll;
//! 2. the buffer grows only as bytes really arrive, never on the word of a length, and never beyond
//!    the limit;
//! 3. whoever waits for messages also sends what is to be sent, and neither waits for the other:
//!    the server may have to be read before it reads on;
//! 4. what has come is read at the latest [`PATIENCE`] later, also while the receive mark is up;
//! 5. after [`UNASKED`] messages in a row that answer nothing, whoever waits for one lets other
//!    tasks run first.
//!
//! PostgreSQL sends 8 KiB at a time, and each piece wakes the reader. While a result flows, the
//! receive mark lets several pieces come together, which halves the CPU time of a stream:
//!
//! ```text
//!  mark down ──── RAISE_AFTER bytes have come ────► mark up
//!      ▲                                               │
//!      └── nothing for PATIENCE, or something is sent ─┘
//! ```

use std::future::poll_fn;
use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use postgres_protocol::message::backend::Message;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::socket::Socket;
use crate::Error;
use crate::timer::Timer;

/// Enough for several of the 8 KiB pieces in which PostgreSQL sends; larger ones do not change the
/// wall time.
pub(super) const BUFFER: usize = 32 * 1024;

/// Bytes that have come at low mark before it is raised: a small result never pays for setting it.
const RAISE_AFTER: usize = 128 * 1024;

/// The mark of a flowing result. Measured: 64 KiB take a third less CPU time than 8 KiB, more take
/// no less.
const MARK: usize = 64 * 1024;

/// How long the rest of a result, which may be shorter than the mark, waits for it.
const PATIENCE: Duration = Duration::from_millis(1);

/// How many messages are taken at once that answer nothing: a statement can raise millions of
/// notices, for as long as it runs.
const UNASKED: u32 = 256;

/// Tag and length: what stands before each message's body.
const HEADER: usize = 5;

/// Buffers and socket of one connection.
pub(super) struct Wire {
    socket: Socket,
    read: Box<[u8]>,
    start: usize,
    end: usize,
    /// What is to be sent; messages are appended by `postgres_protocol::message::frontend`.
    pub(super) write: BytesMut,
    /// The longest message taken, in bytes.
    limit: usize,
    mark: Mark,
    /// Notices and their like since the last message that answers something, or since others could
    /// run.
    unasked: u32,
}

/// Where the socket's receive mark stands.
enum Mark {
    /// Every byte wakes us; this many have come since it was lowered.
    Down(usize),
    /// `MARK` bytes wake us, or the timer, which runs while nothing is there to be read.
    Up(Timer),
}

/// A whole message in the read buffer.
#[derive(Debug, Clone)]
pub(super) struct Frame {
    /// The message's tag (`D` for DataRow).
    pub(super) tag: u8,
    message: Range<usize>,
}

impl Wire {
    pub(super) fn new(socket: Socket, limit: usize) -> Self {
        Self {
            socket,
            read: vec![0; BUFFER].into_boxed_slice(),
            start: 0,
            end: 0,
            write: BytesMut::new(),
            limit,
            mark: Mark::Down(0),
            unasked: 0,
        }
    }

    /// Makes the connection the current runtime's own.
    pub(super) fn move_here(self) -> io::Result<Self> {
        Ok(Self { socket: self.socket.move_here()?, ..self })
    }

    /// The longest message taken, in bytes.
    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// The next message, consumed; its body can be read until the next poll.
    ///
    /// # Errors
    /// The connection failed or ended, or the message is longer than the limit.
    #[inline]
    pub(super) fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Result<Frame, Error>> {
        loop {
            if let Some(length) = self.message_length()? {
                let message = self.start..self.start + length;
                if message.end <= self.end {
                    let tag = self.read[message.start];
                    if tag != b'D' && self.is_enough(tag) {
                        cx.waker().wake_by_ref();
                        return Poll::Pending;
                    }
                    self.start = message.end;
                    return Poll::Ready(Ok(Frame { tag, message }));
                }
            }
            ready!(self.poll_fill(cx))?;
        }
    }

    /// Counts those in a row that answer nothing. Whether there were enough of them for once.
    fn is_enough(&mut self, tag: u8) -> bool {
        self.unasked = match tag {
            b'N' | b'S' | b'A' if self.unasked < UNASKED => self.unasked + 1,
            _ => 0,
        };
        self.unasked == 0 && matches!(tag, b'N' | b'S' | b'A')
    }

    /// The next message, for the parts that run once per statement.
    pub(super) async fn frame(&mut self) -> Result<Frame, Error> {
        poll_fn(|cx| self.poll_frame(cx)).await
    }

    /// The body of the frame that was polled last.
    #[inline]
    pub(super) fn body(&self, frame: &Frame) -> &[u8] {
        &self.read[frame.message.start + HEADER..frame.message.end]
    }

    /// The frame that was polled last, parsed; for everything that is no DataRow.
    pub(super) fn parse(&self, frame: &Frame) -> Result<Message, Error> {
        let mut copy = BytesMut::from(&self.read[frame.message.clone()]);
        match Message::parse(&mut copy) {
            Ok(Some(message)) => Ok(message),
            Ok(None) => Err(Error::protocol("the database sent half a message as a whole one")),
            Err(cause) => {
                Err(Error::protocol("the database sent a message that cannot be read").cause(cause))
            }
        }
    }

    /// The length, tag included, of the message at `start`; `None` while its header is not there.
    #[inline]
    fn message_length(&self) -> Result<Option<usize>, Error> {
        let Some(&[tag, a, b, c, d]) = self.read[self.start..self.end].first_chunk::<HEADER>() else {
            return Ok(None);
        };
        let length = u32::from_be_bytes([a, b, c, d]) as usize + 1;
        if length < HEADER {
            return Err(Error::protocol("the database sent a message that is shorter than its own length"));
        }
        if length > self.limit {
            return Err(self.too_long(tag, length));
        }
        Ok(Some(length))
    }

    #[cold]
    fn too_long(&self, tag: u8, length: usize) -> Error {
        match tag {
            b'D' => Error::row_too_large(length as u64, self.limit),
            _ => Error::protocol(format!("the database sent a message of {length} bytes")),
        }
    }

    /// Sends what is to be sent, then reads at least one byte.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
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
                    return Poll::Ready(Ok(()));
                }
                Poll::Pending => ready!(self.poll_patience(cx)),
            }
        }
    }

    /// Raises the mark once a result flows.
    fn note_read(&mut self, count: usize) {
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
        if held == self.read.len() {
            self.resize((held * 2).min(self.limit.max(BUFFER)));
        } else if self.read.len() > BUFFER && held < BUFFER / 2 {
            self.resize(BUFFER);
        } else if self.start > 0 {
            self.read.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, held);
        }
    }

    /// Gives back what a large result took, before the connection is idle. What came and is not
    /// consumed stays.
    pub(super) fn rest(&mut self) {
        self.lower_mark();
        if self.read.len() > BUFFER && self.end - self.start <= BUFFER {
            self.resize(BUFFER);
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

    /// Whether an idle connection is still open: nothing but notices may have come meanwhile.
    pub(super) fn is_quiet(&mut self) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        loop {
            match self.poll_frame(&mut cx) {
                Poll::Pending => return self.start == self.end,
                Poll::Ready(Ok(frame)) if matches!(frame.tag, b'N' | b'S' | b'A') => {}
                Poll::Ready(_) => return false,
            }
        }
    }

    /// Waits until the server has closed its side, reading nothing of worth.
    pub(super) async fn until_closed(&mut self) {
        while poll_fn(|cx| self.poll_fill(cx)).await.is_ok() {
            (self.start, self.end) = (0, 0);
        }
    }
}

/// The connection failed or ended where more was to come.
fn lost(cause: io::Error) -> Error {
    Error::source_unavailable("the connection to the database was lost").cause(cause)
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;
    use tokio::net::UnixStream;

    use super::*;

    fn message(tag: u8, bytes: usize) -> Vec<u8> {
        let length = u32::try_from(bytes + 4).unwrap().to_be_bytes();
        [&[tag][..], &length, &vec![b'x'; bytes]].concat()
    }

    /// A buffer that one large row had grown stayed large for as long as its connection was idle:
    /// what followed the row came with the last of its bytes, so there was no reading after it in
    /// which to shrink.
    #[tokio::test]
    async fn an_idle_connection_holds_no_large_buffer() {
        let (client, mut server) = UnixStream::pair().unwrap();
        let mut wire = Wire::new(Socket::Unix(client), 16 << 20);
        let sending = tokio::spawn(async move {
            let sent = [message(b'D', 3_000_000), message(b'C', 9), message(b'Z', 1)].concat();
            server.write_all(&sent).await.unwrap();
            server
        });
        let frame = wire.frame().await.unwrap();
        assert_eq!((frame.tag, wire.body(&frame).len()), (b'D', 3_000_000));
        assert!(wire.read.len() <= 8 << 20);
        for tag in [b'C', b'Z'] {
            assert_eq!(wire.frame().await.unwrap().tag, tag);
        }
        wire.rest();
        assert_eq!(wire.read.len(), BUFFER);
        let mut server = sending.await.unwrap();
        server.write_all(&message(b'N', 3)).await.unwrap();
        assert_eq!(wire.frame().await.unwrap().tag, b'N');
    }

    /// A statement raised notices without end, and whoever read them kept its worker from all
    /// others for as long as there were any.
    #[tokio::test]
    async fn notices_leave_others_their_turn() {
        let (client, mut server) = UnixStream::pair().unwrap();
        let mut wire = Wire::new(Socket::Unix(client), 1 << 20);
        let notices = 4 * UNASKED;
        let mut sent = message(b'N', 3).repeat(notices as usize);
        sent.extend(message(b'C', 9));
        server.write_all(&sent).await.unwrap();
        let (mut taken, mut most, mut at_once) = (0, 0, 0);
        let ended = poll_fn(|cx| {
            at_once = 0;
            loop {
                let frame = ready!(wire.poll_frame(cx)).unwrap();
                if frame.tag == b'C' {
                    return Poll::Ready(());
                }
                (taken, at_once) = (taken + 1, at_once + 1);
                most = most.max(at_once);
            }
        });
        tokio::time::timeout(Duration::from_secs(20), ended).await.expect("it is woken again");
        assert_eq!((taken, most), (notices, UNASKED), "all of them, and never more at a time");
    }

    #[tokio::test]
    async fn a_length_alone_takes_no_memory() {
        let (client, mut server) = UnixStream::pair().unwrap();
        let mut wire = Wire::new(Socket::Unix(client), 1 << 30);
        server.write_all(&[&[b'D'][..], &(900_000_000_u32).to_be_bytes(), &[0; 100]].concat()).await.unwrap();
        drop(server);
        assert!(wire.frame().await.is_err());
        assert_eq!(wire.read.len(), BUFFER);
    }
}
