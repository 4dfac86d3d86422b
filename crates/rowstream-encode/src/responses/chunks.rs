//! The body of a response, polled by the HTTP library: collects pieces into chunks.
//!
//! Nothing runs unless the body is polled. So a client that doesn't read stops the streams, and
//! dropping the body drops them. Invariants:
//!
//! 1. memory: one chunk, of at most [`CHUNK`] plus one piece. There's no buffer before the first
//!    poll, or while the streams have nothing ready;
//! 2. a chunk leaves when it's full, or at once when a stream has nothing ready. There's no timer;
//! 3. after the last chunk of a complete body, its trailers follow, and it ends. After a failure,
//!    every poll returns an error;
//! 4. the hook for errors is called once at most, and only for an error that aborts the response;
//! 5. a framed body begins with its columns, and its last record is its end or its error.
//!
//! ```text
//! Running ── poll_piece: no more pieces ──► Written ── write_end ──► Whole
//!    └────── poll_piece: an error ──► Failed ◄── delivered ── Aborting (only framed)
//! ```

use std::fmt;
use std::future::poll_fn;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::header::{HeaderMap, TRAILER};
use http_body::{Body, Frame, SizeHint};

use super::StreamError;
use super::delivery::DeliveryWait;
use super::framed::RecordWriter;
use super::proof::{ChunkDigest, Trailers};

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
    /// An item of a stream that isn't in another item.
    Row,
    /// Any other item, or a heartbeat.
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
    rows: u64,
    on_error: Option<ErrorHook>,
    records: Option<RecordWriter>,
    digest: Option<ChunkDigest>,
    trailers: Trailers,
}

/// Called with the error that aborts a response.
pub(super) type ErrorHook = Box<dyn FnOnce(&StreamError) + Send>;

enum State {
    Running(Box<dyn Pieces>),
    /// All pieces are written: they're in `chunk` or in earlier chunks.
    Written,
    /// The end record is written too.
    Whole,
    /// The error record is on its way.
    Aborting(Option<StreamError>, DeliveryWait),
    Failed,
}

impl StreamedBody {
    pub(super) fn new(pieces: impl Pieces + 'static) -> Self {
        Self {
            state: State::Running(Box::new(pieces)),
            chunk: Vec::new(),
            full: FIRST_CHUNK,
            rows: 0,
            on_error: None,
            records: None,
            digest: None,
            trailers: Trailers::None,
        }
    }

    /// Replaces the hook for errors.
    pub(super) fn set_on_error(&mut self, hook: ErrorHook) {
        self.on_error = Some(hook);
    }

    /// Adds records among the rows.
    pub(super) fn set_records(&mut self, records: RecordWriter) {
        self.records = Some(records);
    }

    /// Adds trailers, unless there are some with a digest.
    pub(super) fn add_trailers(&mut self) {
        if self.trailers == Trailers::None {
            self.trailers = Trailers::Status;
        }
    }

    /// Adds the digest to the trailers and to the end record.
    pub(super) fn add_digest(&mut self) {
        self.digest = Some(ChunkDigest::default());
        self.trailers = Trailers::StatusAndDigest;
    }

    /// Adds the headers of records and trailers, and writes the first record. Called once, before the
    /// body is sent.
    pub(super) fn begin(&mut self, headers: &mut HeaderMap) {
        if let Some(trailers) = self.trailers.announcement() {
            headers.insert(TRAILER, trailers);
        }
        if let Some(records) = &mut self.records {
            records.add_headers(headers);
            let mut chunk = Vec::new();
            records.write_columns(&mut chunk);
            // The first row may have been awaited.
            match records.check(&self.chunk) {
                Ok(()) => chunk.append(&mut self.chunk),
                Err(error) => self.state = State::Running(Box::new(FailedPieces(Some(error)))),
            }
            self.chunk = chunk;
        }
        // So that a response that's complete already has a length.
        self.write_end();
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
        self.write_end();
        Poll::Ready(Ok(()))
    }

    /// Writes the end record after the last row.
    fn write_end(&mut self) {
        if !matches!(self.state, State::Written) {
            return;
        }
        self.state = State::Whole;
        if let Some(records) = &self.records {
            let digest = self.digest.as_mut().map(|digest| digest.up_to(&self.chunk));
            records.write_end(self.rows, digest.as_deref(), &mut self.chunk);
        }
    }

    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Piece>, StreamError>> {
        let begin = self.chunk.len();
        let polled = match &mut self.state {
            State::Running(pieces) => ready!(pieces.poll_next(cx, &mut self.chunk)),
            State::Written | State::Whole => None,
            State::Aborting(..) | State::Failed => Some(Err(StreamError::broken_off())),
        };
        let checked = polled.transpose().and_then(|piece| {
            let records = self.records.as_mut().filter(|_| piece.is_some());
            records.map_or(Ok(()), |records| records.check(&self.chunk[begin..])).map(|()| piece)
        });
        match &checked {
            Ok(Some(piece)) => self.rows += u64::from(*piece == Piece::Row),
            Ok(None) if matches!(self.state, State::Running(_)) => self.state = State::Written,
            Ok(None) => {}
            Err(_) => {
                self.state = State::Failed;
                self.chunk.truncate(begin);
            }
        }
        Poll::Ready(checked)
    }

    fn take_chunk(&mut self) -> Frame<Bytes> {
        self.full = CHUNK;
        let chunk = mem::take(&mut self.chunk);
        if let Some(digest) = &mut self.digest {
            digest.close(&chunk);
        }
        Frame::data(Bytes::from(chunk))
    }

    /// The trailers, once.
    fn take_trailers(&mut self) -> Option<Frame<Bytes>> {
        if mem::replace(&mut self.trailers, Trailers::None) == Trailers::None {
            return None;
        }
        let digest = self.digest.as_mut().map(|digest| digest.up_to(&self.chunk));
        Some(Frame::trailers(Trailers::fields(self.rows, digest.as_deref())))
    }

    /// Ends a body that can't be completed. A framed one first gets the complete rows and the error
    /// record.
    fn fail(&mut self, error: StreamError) -> Result<Frame<Bytes>, StreamError> {
        if let Some(hook) = self.on_error.take() {
            hook(&error);
        }
        let mut last = mem::take(&mut self.chunk);
        let Some(records) = self.records.take() else { return Err(error) };
        records.write_error(&error, &mut last);
        let (chunk, wait) = DeliveryWait::of(last);
        self.state = State::Aborting(Some(error), wait);
        Ok(Frame::data(chunk))
    }

    /// Waits for the error record to leave, and returns its error. `None` if there's none.
    fn poll_abort(&mut self, cx: &mut Context<'_>) -> Poll<Option<StreamError>> {
        let State::Aborting(error, wait) = &mut self.state else { return Poll::Ready(None) };
        ready!(wait.poll(cx));
        let error = error.take();
        self.state = State::Failed;
        Poll::Ready(error)
    }
}

/// A body that failed before it was sent.
struct FailedPieces(Option<StreamError>);

impl Pieces for FailedPieces {
    fn poll_next(
        &mut self,
        _: &mut Context<'_>,
        _: &mut Vec<u8>,
    ) -> Poll<Option<Result<Piece, StreamError>>> {
        Poll::Ready(self.0.take().map(Err))
    }
}

impl Body for StreamedBody {
    type Data = Bytes;
    type Error = StreamError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, StreamError>>> {
        if let Some(error) = ready!(self.poll_abort(cx)) {
            return Poll::Ready(Some(Err(error)));
        }
        if self.chunk.capacity() == 0 && matches!(self.state, State::Running(_)) {
            // A piece can exceed the mark. The extra space avoids growing the buffer in most cases.
            let room = self.full + self.full / 8;
            self.chunk.reserve(room);
        }
        match self.poll_fill(cx) {
            Poll::Ready(Ok(())) if self.chunk.is_empty() => Poll::Ready(self.take_trailers().map(Ok)),
            Poll::Pending if self.chunk.is_empty() => {
                // Thousands of responses may wait for an event, so we free their buffers.
                self.chunk = Vec::new();
                Poll::Pending
            }
            Poll::Ready(Ok(())) | Poll::Pending => Poll::Ready(Some(Ok(self.take_chunk()))),
            Poll::Ready(Err(error)) => Poll::Ready(Some(self.fail(error))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.size_hint().exact() == Some(0)
    }

    /// A body with trailers has no length, because HTTP/1.1 sends them only after chunks.
    fn size_hint(&self) -> SizeHint {
        match (&self.state, self.trailers) {
            (State::Whole, Trailers::None) => SizeHint::with_exact(self.chunk.len() as u64),
            _ => SizeHint::default(),
        }
    }
}

impl fmt::Debug for StreamedBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamedBody").finish_non_exhaustive()
    }
}
