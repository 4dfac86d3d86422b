//! The body of a response: pieces to chunks, polled by the HTTP library.
//!
//! Nothing runs unless the body is polled, so a client that does not read stops the streams, and a
//! body that is dropped drops them. Invariants:
//!
//! 1. memory: one chunk, of at most [`CHUNK`] and one piece over it; none before it is asked for,
//!    nor while there is nothing for it;
//! 2. a chunk is handed out when it is full, or at once when a stream has nothing ready: there is
//!    no timer here;
//! 3. after the last chunk of a whole body comes the end; after a failure come errors and nothing
//!    else.

use std::fmt;
use std::future::poll_fn;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::StreamError;

/// A full chunk. Larger ones are no faster, and each response holds one.
const CHUNK: usize = 32 * 1024;
/// The first chunk is full earlier: the client's first byte matters more than one write.
const FIRST_CHUNK: usize = 4 * 1024;

/// Writes a body piece by piece.
pub(super) trait Pieces: Send {
    /// Appends the next piece to `out`; `None` after the last one, and then this is not called
    /// again.
    ///
    /// # Errors
    /// The body cannot be completed: what `out` holds is not sent, and this is not called again.
    fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
        out: &mut Vec<u8>,
    ) -> Poll<Option<Result<Piece, StreamError>>>;
}

/// What was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Piece {
    /// An item of a stream.
    Item,
    /// What stands around the items, or a value that was awaited.
    Frame,
}

/// The chunks of one response.
pub(super) struct Chunks {
    state: State,
    chunk: Vec<u8>,
    /// Where `chunk` is full.
    full: usize,
}

enum State {
    Running(Box<dyn Pieces>),
    /// Everything is in `chunk`, or was in one before.
    Whole,
    Failed,
}

impl Chunks {
    pub(super) fn new(pieces: impl Pieces + 'static) -> Self {
        Self { state: State::Running(Box::new(pieces)), chunk: Vec::new(), full: FIRST_CHUNK }
    }

    /// Writes up to the first item of a stream, or to the end of a body that has none.
    ///
    /// # Errors
    /// The body failed before.
    pub(super) async fn first(mut self) -> Result<Self, StreamError> {
        poll_fn(|cx| self.poll_first(cx)).await?;
        Ok(self)
    }

    fn poll_first(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamError>> {
        while let Some(Piece::Frame) = ready!(self.poll_piece(cx))? {}
        Poll::Ready(Ok(()))
    }

    /// Writes pieces until the chunk is full or all is done.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamError>> {
        while self.chunk.len() < self.full && ready!(self.poll_piece(cx))?.is_some() {}
        Poll::Ready(Ok(()))
    }

    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Piece>, StreamError>> {
        let polled = match &mut self.state {
            State::Running(pieces) => ready!(pieces.poll_next(cx, &mut self.chunk)),
            State::Whole => None,
            State::Failed => Some(Err(StreamError::broken_off())),
        };
        let piece = polled.transpose();
        match &piece {
            Ok(Some(_)) => {}
            Ok(None) => self.state = State::Whole,
            Err(_) => {
                self.state = State::Failed;
                self.chunk = Vec::new();
            }
        }
        Poll::Ready(piece)
    }

    fn take_chunk(&mut self) -> Frame<Bytes> {
        self.full = CHUNK;
        Frame::data(Bytes::from(mem::take(&mut self.chunk)))
    }
}

impl Body for Chunks {
    type Data = Bytes;
    type Error = StreamError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, StreamError>>> {
        if self.chunk.capacity() == 0 && matches!(self.state, State::Running(_)) {
            // A piece may overshoot the mark; the slack keeps most of them from growing the buffer.
            let room = self.full + self.full / 8;
            self.chunk.reserve(room);
        }
        match self.poll_fill(cx) {
            Poll::Ready(Ok(())) if self.chunk.is_empty() => Poll::Ready(None),
            Poll::Pending if self.chunk.is_empty() => {
                // There may be thousands that wait for an event: they hold no buffer.
                self.chunk = Vec::new();
                Poll::Pending
            }
            Poll::Ready(Ok(())) | Poll::Pending => Poll::Ready(Some(Ok(self.take_chunk()))),
            Poll::Ready(Err(error)) => Poll::Ready(Some(Err(error))),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.state, State::Whole) && self.chunk.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        match self.state {
            State::Whole => SizeHint::with_exact(self.chunk.len() as u64),
            State::Running(_) | State::Failed => SizeHint::default(),
        }
    }
}

impl fmt::Debug for Chunks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chunks").finish_non_exhaustive()
    }
}
