//! The body of a response, polled by the HTTP library: collects pieces into chunks.
//!
//! Nothing runs unless the body is polled. So a client that doesn't read stops the streams, and
//! dropping the body drops them. Invariants:
//!
//! 1. memory: one chunk, of at most [`CHUNK`] plus one piece. There's no buffer before the first
//!    poll, or while the streams have nothing ready;
//! 2. a chunk leaves when it's full, or at once when a stream has nothing ready. There's no timer;
//! 3. after the last chunk of a complete body, the body ends. After a failure, every poll returns
//!    an error;
//! 4. the hook for errors is called once at most, and only for an error that the HTTP library gets.

use std::fmt;
use std::future::poll_fn;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::StreamError;

/// The size of a full chunk. Larger ones aren't faster, and each response holds one.
const CHUNK: usize = 32 * 1024;
/// The size of the first chunk, which is smaller: the client's first byte matters more than one
/// write.
const FIRST_CHUNK: usize = 4 * 1024;

/// Writes a body piece by piece.
pub(super) trait Pieces: Send {
    /// Appends the next piece to `out`. Returns `None` after the last one, and isn't called again.
    ///
    /// # Errors
    /// The body can't be completed. The bytes in `out` aren't sent, and this isn't called again.
    fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
        out: &mut Vec<u8>,
    ) -> Poll<Option<Result<Piece, StreamError>>>;
}

/// The kind of a written piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Piece {
    /// An item of a stream.
    Item,
    /// JSON around the items, or the value of a future.
    Frame,
}

/// The body of a response. It reads its streams only while the HTTP library polls it.
///
/// If a stream fails, the body ends with an error, and never like a complete one. Each further poll
/// returns an error, too.
pub struct StreamedBody {
    state: State,
    chunk: Vec<u8>,
    /// The size at which `chunk` is full.
    full: usize,
    on_error: Option<ErrorHook>,
}

/// Called with the error that aborts a response.
pub(super) type ErrorHook = Box<dyn FnOnce(&StreamError) + Send>;

enum State {
    Running(Box<dyn Pieces>),
    /// All pieces are written: they're in `chunk` or in earlier chunks.
    Whole,
    Failed,
}

impl StreamedBody {
    pub(super) fn new(pieces: impl Pieces + 'static) -> Self {
        let state = State::Running(Box::new(pieces));
        Self { state, chunk: Vec::new(), full: FIRST_CHUNK, on_error: None }
    }

    /// Replaces the hook for errors.
    pub(super) fn set_on_error(&mut self, hook: ErrorHook) {
        self.on_error = Some(hook);
    }

    /// Writes up to the first item of a stream, or to the end of a body without items.
    ///
    /// # Errors
    /// The body failed before that.
    pub(super) async fn first(&mut self) -> Result<(), StreamError> {
        poll_fn(|cx| self.poll_first(cx)).await
    }

    fn poll_first(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamError>> {
        while let Some(Piece::Frame) = ready!(self.poll_piece(cx))? {}
        Poll::Ready(Ok(()))
    }

    /// Writes pieces until the chunk is full or the body is complete.
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

impl Body for StreamedBody {
    type Data = Bytes;
    type Error = StreamError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, StreamError>>> {
        if self.chunk.capacity() == 0 && matches!(self.state, State::Running(_)) {
            // A piece can exceed the mark. The extra space avoids growing the buffer in most cases.
            let room = self.full + self.full / 8;
            self.chunk.reserve(room);
        }
        match self.poll_fill(cx) {
            Poll::Ready(Ok(())) if self.chunk.is_empty() => Poll::Ready(None),
            Poll::Pending if self.chunk.is_empty() => {
                // Thousands of responses may wait for an event, so we free their buffers.
                self.chunk = Vec::new();
                Poll::Pending
            }
            Poll::Ready(Ok(())) | Poll::Pending => Poll::Ready(Some(Ok(self.take_chunk()))),
            Poll::Ready(Err(error)) => {
                if let Some(hook) = self.on_error.take() {
                    hook(&error);
                }
                Poll::Ready(Some(Err(error)))
            }
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

impl fmt::Debug for StreamedBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamedBody").finish_non_exhaustive()
    }
}
