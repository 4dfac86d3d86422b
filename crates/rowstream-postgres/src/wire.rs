//! Frames messages in the connection's buffers.
//!
//! 1. A [`Frame`] stays readable by [`Wire::body`] until the next poll;
//! 2. after [`UNASKED`] messages in a row that answer nothing, the task that waits for an answer
//!    lets other tasks run first.

use std::future::poll_fn;
use std::io;
use std::ops::{Deref, DerefMut, Range};
use std::task::{Context, Poll, Waker, ready};

use bytes::BytesMut;
use postgres_protocol::message::backend::Message;
use rowstream_core::Error;
use rowstream_database::buffers::Buffers;
use rowstream_database::socket::Socket;

pub(super) use rowstream_database::buffers::BUFFER;

/// The most messages that we take at once if they answer nothing. A statement can raise millions of
/// notices while it runs.
const UNASKED: u32 = 256;

/// The bytes of the tag and the length before each message's body.
const HEADER: usize = 5;

/// The connection's bytes, as messages. `postgres_protocol::message::frontend` appends our messages
/// to the buffer `write`.
pub(super) struct Wire {
    buffers: Buffers,
    /// Notices and similar messages since the last answer, or since other tasks could run.
    unasked: u32,
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

/// A whole message in the read buffer.
#[derive(Debug, Clone)]
pub(super) struct Frame {
    /// The message's tag (`D` for DataRow).
    pub(super) tag: u8,
    message: Range<usize>,
}

impl Wire {
    /// The messages on `socket`, each of at most `limit` bytes.
    pub(super) fn new(socket: Socket, limit: usize) -> Self {
        Self { buffers: Buffers::new(socket, limit), unasked: 0 }
    }

    /// Registers the connection with the current runtime.
    pub(super) fn move_here(self) -> io::Result<Self> {
        Ok(Self { buffers: self.buffers.move_here()?, ..self })
    }

    /// The longest message that we accept, in bytes.
    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// Consumes the next message. Its body can be read until the next poll.
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

    /// Counts messages in a row that answer nothing. Returns true if other tasks should run first.
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

    /// Parses the frame that was polled last, which isn't a DataRow.
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

    /// The length of the message at `start`, with its tag; `None` while its header is incomplete.
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

    /// Returns true if an idle connection is still open: the server may only have sent notices.
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
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rowstream_database::buffers::SMALL;
    use tokio::io::AsyncWriteExt;
    use tokio::net::UnixStream;

    use super::*;

    fn message(tag: u8, bytes: usize) -> Vec<u8> {
        let length = u32::try_from(bytes + 4).unwrap().to_be_bytes();
        [&[tag][..], &length, &vec![b'x'; bytes]].concat()
    }

    /// After one large row, the buffer stayed large while its connection was idle. The messages
    /// after the row arrived with its last bytes, so we read nothing more and never shrank the
    /// buffer.
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
        assert_eq!(wire.read.len(), SMALL);
        let mut server = sending.await.unwrap();
        server.write_all(&message(b'N', 3)).await.unwrap();
        assert_eq!(wire.frame().await.unwrap().tag, b'N');
    }

    /// A statement raised notices without end, and the task that read them kept its worker from all
    /// other tasks meanwhile.
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
        assert_eq!(wire.read.len(), SMALL);
    }
}
