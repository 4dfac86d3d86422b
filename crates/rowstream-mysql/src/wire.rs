//! Frames packets in the connection's buffers.
//!
//! A packet has a header of four bytes: the length of its payload, and a number that counts the
//! packets of a command and its answer. A payload of 16 MB or more is split into several packets;
//! all but the last have the greatest length. We join them in place, so that a row of any length is
//! one run of bytes.
//!
//! 1. A [`Frame`] stays readable by [`Wire::body`] until the next poll;
//! 2. the packets that answer a command are numbered consecutively. If the answers to several
//!    commands are pending, [`Wire::expect_answer`] marks the start of the next one.

use std::future::poll_fn;
use std::io;
use std::ops::{Deref, DerefMut, Range};
use std::task::{Context, Poll, Waker, ready};

use rowstream_core::Error;
use rowstream_database::buffers::Buffers;
use rowstream_database::socket::Socket;

use super::packet::{ERR, LOCAL_INFILE, error};

pub(super) use rowstream_database::buffers::BUFFER;

/// The bytes of the header before each payload.
pub(super) const HEADER: usize = 4;
/// The longest payload of one packet.
pub(super) const LONGEST: usize = 0xff_ffff;
/// The least limit, even if rows must be shorter: metadata and errors need it.
const SHORTEST_LIMIT: usize = 64 * 1024;

/// The connection's bytes, as packets.
pub(super) struct Wire {
    buffers: Buffers,
    /// The longest payload that we accept, in bytes.
    limit: usize,
    /// The bytes at the front of the buffer that are joined into one packet already, with its
    /// header.
    joined: usize,
    /// The number of the next packet, ours or the server's.
    sequence: u8,
}

impl Deref for Wire {
    type Target = Buffers;

    #[inline]
    fn deref(&self) -> &Buffers {
        &self.buffers
    }
}

impl DerefMut for Wire {
    #[inline]
    fn deref_mut(&mut self) -> &mut Buffers {
        &mut self.buffers
    }
}

/// A whole payload in the read buffer.
#[derive(Debug, Clone)]
pub(super) struct Frame {
    /// Its first byte, which determines its meaning.
    pub(super) tag: u8,
    payload: Range<usize>,
}

impl Frame {
    /// The length of the payload in bytes.
    pub(super) fn len(&self) -> usize {
        self.payload.len()
    }
}

impl Wire {
    /// The packets on `socket`, with payloads of at most `limit` bytes. `sequence` is the number of
    /// the next packet.
    pub(super) fn new(socket: Socket, limit: usize, sequence: u8) -> Self {
        let limit = limit.max(SHORTEST_LIMIT);
        Self { buffers: Buffers::new(socket, limit + 2 * HEADER), limit, joined: 0, sequence }
    }

    /// Registers the connection with the current runtime.
    pub(super) fn move_here(self) -> io::Result<Self> {
        Ok(Self { buffers: self.buffers.move_here()?, ..self })
    }

    /// The longest payload that we accept, in bytes.
    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// Queues a command, which the next poll sends.
    pub(super) fn command(&mut self, payload: &[u8]) {
        self.sequence = 0;
        self.reply(payload);
    }

    /// Queues a packet that continues a command or the login.
    pub(super) fn reply(&mut self, payload: &[u8]) {
        let mut rest = payload;
        loop {
            let (packet, behind) = rest.split_at(rest.len().min(LONGEST));
            let [a, b, c, _] = (packet.len() as u32).to_le_bytes();
            let header = [a, b, c, self.sequence];
            self.buffers.write.extend_from_slice(&header);
            self.buffers.write.extend_from_slice(packet);
            self.sequence = self.sequence.wrapping_add(1);
            rest = behind;
            // Another packet follows a full one, even if it's empty.
            if packet.len() < LONGEST {
                return;
            }
        }
    }

    /// Queues a command after others that haven't been answered yet, or one without an answer.
    pub(super) fn append_command(&mut self, payload: &[u8]) {
        let sequence = self.sequence;
        self.command(payload);
        self.sequence = sequence;
    }

    /// Expects the start of an answer in the next packet.
    pub(super) fn expect_answer(&mut self) {
        self.sequence = 1;
    }

    /// Consumes the next payload, which can be read until the next poll.
    ///
    /// # Errors
    /// The connection failed or ended, the payload is longer than the limit, or packets are out of
    /// order.
    #[inline]
    pub(super) fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Result<Frame, Error>> {
        loop {
            if let Some(frame) = self.next_frame()? {
                return Poll::Ready(Ok(frame));
            }
            ready!(self.buffers.poll_fill(cx))?;
        }
    }

    /// The next payload, if it has arrived completely.
    #[inline]
    fn next_frame(&mut self) -> Result<Option<Frame>, Error> {
        loop {
            let held = &self.buffers.read[self.buffers.start..self.buffers.end];
            let Some(&[a, b, c, sequence]) = held.get(self.joined..).and_then(|rest| rest.first_chunk())
            else {
                return Ok(None);
            };
            let length = u32::from_le_bytes([a, b, c, 0]) as usize;
            // A packet that is joined to another loses its header.
            let whole = self.joined.max(HEADER) + length;
            if whole - HEADER > self.limit {
                return Err(Error::row_too_large((whole - HEADER) as u64, self.limit));
            }
            if held.len() < self.joined + HEADER + length {
                return Ok(None);
            }
            if sequence != self.sequence {
                return Err(out_of_order());
            }
            self.sequence = self.sequence.wrapping_add(1);
            if self.joined > 0 {
                self.drop_header();
            }
            if length == LONGEST {
                self.joined = whole;
                continue;
            }
            self.joined = 0;
            let start = self.buffers.start;
            self.buffers.start += whole;
            let payload = start + HEADER..start + whole;
            let Some(&tag) = self.buffers.read[payload.clone()].first() else { return Err(out_of_order()) };
            return Ok(Some(Frame { tag, payload }));
        }
    }

    /// Removes the header after the joined bytes from the buffer.
    #[cold]
    fn drop_header(&mut self) {
        let at = self.buffers.start + self.joined;
        let end = self.buffers.end;
        self.buffers.read.copy_within(at + HEADER..end, at);
        self.buffers.end -= HEADER;
    }

    /// The next payload, for the parts that run once per statement.
    pub(super) async fn frame(&mut self) -> Result<Frame, Error> {
        poll_fn(|cx| self.poll_frame(cx)).await
    }

    /// Like [`frame`](Self::frame), but an ERR packet becomes an error.
    ///
    /// # Errors
    /// The error that the server reports, or a lost connection.
    pub(super) async fn answer(&mut self) -> Result<Frame, Error> {
        let frame = self.frame().await?;
        match frame.tag {
            ERR => Err(error(self.body(&frame)).ok_or_else(out_of_order)?.into_error(None)),
            // The server would ask for one of our files.
            LOCAL_INFILE => Err(out_of_order()),
            _ => Ok(frame),
        }
    }

    /// The payload of the frame that was polled last.
    #[inline]
    pub(super) fn body(&self, frame: &Frame) -> &[u8] {
        &self.buffers.read[frame.payload.clone()]
    }

    /// Returns true if an idle connection is still open. A server sends nothing to it, unless it
    /// closes it.
    pub(super) fn is_quiet(&mut self) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        self.buffers.start == self.buffers.end && self.buffers.poll_fill(&mut cx).is_pending()
    }
}

pub(super) fn out_of_order() -> Error {
    Error::protocol("the database sent a packet out of order, or one that cannot be read")
}

#[cfg(test)]
mod tests {
    use rowstream_database::buffers::SMALL;
    use tokio::io::AsyncWriteExt;
    use tokio::net::UnixStream;

    use super::*;

    fn packet(sequence: u8, payload: &[u8]) -> Vec<u8> {
        let [a, b, c, _] = (payload.len() as u32).to_le_bytes();
        [&[a, b, c, sequence][..], payload].concat()
    }

    fn pair(limit: usize) -> (Wire, UnixStream) {
        let (client, server) = UnixStream::pair().unwrap();
        (Wire::new(Socket::Unix(client), limit, 0), server)
    }

    #[tokio::test]
    async fn a_long_payload_is_joined() {
        let (mut wire, mut server) = pair(40 << 20);
        let long = vec![b'x'; LONGEST];
        let sent = [packet(0, &long), packet(1, &long), packet(2, b"yz"), packet(3, b"last")].concat();
        let sending = tokio::spawn(async move { server.write_all(&sent).await.map(|()| server) });
        let frame = wire.frame().await.unwrap();
        let body = wire.body(&frame);
        assert_eq!(body.len(), 2 * LONGEST + 2);
        assert!(body.starts_with(b"xx") && body.ends_with(b"xyz"));
        let frame = wire.frame().await.unwrap();
        assert_eq!(wire.body(&frame), b"last");
        drop(sending.await.unwrap().unwrap());
    }

    #[tokio::test]
    async fn a_length_alone_takes_no_memory() {
        let (mut wire, mut server) = pair(1 << 30);
        server.write_all(&[0xff, 0xff, 0xff, 0, 1, 2, 3]).await.unwrap();
        drop(server);
        assert!(wire.frame().await.is_err());
        assert_eq!(wire.read.len(), SMALL);
    }

    #[tokio::test]
    async fn what_is_too_long_or_out_of_order_is_refused() {
        for (sent, code) in [
            (packet(1, b"x"), "source_protocol"),
            (packet(0, b""), "source_protocol"),
            (packet(0, &vec![0; SHORTEST_LIMIT + 1]), "row_too_large"),
        ] {
            let (mut wire, mut server) = pair(10);
            let sending = tokio::spawn(async move { server.write_all(&sent).await.map(|()| server) });
            assert_eq!(wire.frame().await.unwrap_err().code(), code);
            drop(wire);
            let _ = sending.await;
        }
    }

    #[tokio::test]
    async fn a_long_command_is_cut() {
        let (mut wire, _server) = pair(10);
        wire.command(&vec![7; LONGEST]);
        let written = &wire.write;
        assert_eq!(written.len(), LONGEST + 2 * HEADER);
        assert_eq!((&written[..4], &written[LONGEST + 4..]), (&[255, 255, 255, 0][..], &[0, 0, 0, 1][..]));
    }
}
