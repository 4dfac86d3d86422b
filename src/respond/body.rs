//! The body of a response, as hyper polls it.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use rowstream_core::Error;
use rowstream_core::lock::Mutex;

use super::documents::UnpackedDocument;
use super::last::LastResponse;
use super::probe;
use super::proxy::ProxiedBody;
use super::streaming::ActiveStream;
use super::tracker::RequestTracker;
use super::unread::UnreadAnswer;
use crate::admission::{Admission, Permit};
use crate::completeness::delivery::{Delivery, DeliveryWait};
use crate::completeness::streams::EndProof;
use crate::outcome::Outcome;
use crate::spool::whole::SpooledResult;

/// The sockets accept a whole stream of this length, so its chunks needn't wait for one another.
const SHORT: u64 = 192 * 1024;

/// The body of an answer, before its headers are known to be sent.
pub(super) enum AnswerBody {
    Nothing,
    Whole(Bytes),
    Unpacked(Box<UnpackedDocument>),
    Stream(Arc<Mutex<ActiveStream>>),
    /// A result that has waited for its end.
    File(Box<SpooledResult>),
    /// An upstream's answer.
    Proxied(Box<ProxiedBody>),
    /// A probe of `rowstream doctor`.
    Probe(Box<probe::Script>),
    /// It has failed. It's aborted once the chunks before the failure are on their way.
    Aborting(Box<DeliveryWait>),
}

/// The body of a response, polled by hyper.
pub struct ResponseBody {
    answer: AnswerBody,
    /// The rest of a chunk that is given in pieces.
    rest: Bytes,
    /// The most bytes that are given at a time.
    piece: usize,
    /// `None` once the watchdog has it.
    tracker: Option<Box<RequestTracker>>,
    delivery: Delivery,
    /// Only for HTTP/1: ready when the last chunk has left. Without it, hyper would buffer two or
    /// three chunks for each client that isn't known to keep up.
    leaving: Option<Box<DeliveryWait>>,
    /// Set when everything was given, if the end has to wait until that has left.
    end: Option<Box<DeliveryWait>>,
    /// Ends the answer if the client leaves it unread while other requests need memory.
    unread: Option<Arc<UnreadAnswer>>,
}

/// Aborts a response. The log has the reason.
#[derive(Debug)]
pub struct AbortError;

impl fmt::Display for AbortError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the result could not be completed")
    }
}

impl std::error::Error for AbortError {}

impl ResponseBody {
    pub(super) fn new(answer: AnswerBody, tracker: Box<RequestTracker>) -> Self {
        let mut this = Self {
            answer,
            rest: Bytes::new(),
            piece: usize::MAX,
            tracker: Some(tracker),
            delivery: Delivery::Unknown,
            leaving: None,
            end: None,
            unread: None,
        };
        // hyper doesn't poll a body that has ended before it began.
        if this.is_end_stream() {
            this.complete();
        }
        this
    }

    /// Gives at most so many bytes at a time.
    pub(crate) fn in_pieces(&mut self, bytes: usize) {
        self.piece = bytes;
    }

    /// Lets an answer that isn't a stream end if its client leaves it unread while other requests
    /// are refused for lack of memory.
    pub(crate) fn give_way(&mut self, admission: &Admission) {
        let permit = self.tracker.as_ref().and_then(|tracker| tracker.permit.as_ref());
        if !self.is_end_stream() && permit.is_some_and(Permit::holds_memory) {
            self.unread = Some(UnreadAnswer::begin(admission));
        }
    }

    fn next_piece(&mut self) -> Frame<Bytes> {
        // A task that waits until a chunk has left waits for its last piece, which may be empty.
        let piece = match self.rest.len() <= self.piece {
            true => std::mem::take(&mut self.rest),
            false => self.rest.split_to(self.piece),
        };
        if let Some(tracker) = &mut self.tracker {
            tracker.note_bytes(piece.len());
        }
        if let Some(unread) = &self.unread {
            unread.given();
        }
        if self.is_end_stream() {
            self.complete();
        }
        Frame::data(piece)
    }

    /// Makes a failure wait for the bytes before it, and in HTTP/2 the end too.
    pub(crate) fn deliver(&mut self, delivery: Delivery) {
        self.delivery = delivery;
    }

    /// True while it waits for its client, before it gives more or after it has given everything.
    pub(crate) fn is_delivering(&self) -> bool {
        self.leaving.is_some() || self.end.as_ref().is_some_and(|end| end.is_waiting())
    }

    /// Ready when the end of a stream may be sent. Returns a frame if one has to be sent before it.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if self.end.is_none() {
            self.end = DeliveryWait::before_end(&self.delivery).map(Box::new);
        }
        self.end.as_mut().map_or(Poll::Ready(None), |end| end.poll(cx))
    }

    /// Records that everything was handed over, unless the answer has failed already. Gives back
    /// the permit, except for the bytes that are still on their way. Over HTTP/1, an answer with a
    /// time limit counts as running until they have left.
    fn complete(&mut self) {
        let proof = match &self.answer {
            AnswerBody::Stream(streaming) => streaming.lock().end_proof(),
            _ => EndProof::default(),
        };
        self.answer = AnswerBody::Nothing;
        let Some(mut tracker) = self.tracker.take() else { return };
        tracker.permit = tracker.permit.take().and_then(Permit::handed_over);
        if tracker.watchdog.outlives_body() {
            return LastResponse::keep(tracker, proof);
        }
        tracker.end(Outcome::Complete, proof);
        self.tracker = Some(tracker);
    }

    /// Records that the answer can't be completed, and gives the permit back.
    fn fail(&mut self, error: Error) {
        if let Some(tracker) = &mut self.tracker {
            tracker.end(Outcome::Failed(error), EndProof::default());
            tracker.permit = tracker.permit.take().and_then(Permit::handed_over);
        }
        self.answer = AnswerBody::Aborting(Box::new(DeliveryWait::new(&self.delivery)));
    }

    /// The trailers of a stream whose last chunk was given.
    fn trailers(&self) -> Option<HeaderMap> {
        match &self.answer {
            AnswerBody::Stream(streaming) => streaming.lock().trailers(),
            AnswerBody::Probe(script) => script.trailers(),
            _ => None,
        }
    }

    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>> {
        match &mut self.answer {
            AnswerBody::Nothing => Poll::Ready(None),
            AnswerBody::Whole(bytes) => Poll::Ready(Some(Ok(std::mem::take(bytes)))),
            AnswerBody::Unpacked(document) => Poll::Ready(document.next().transpose()),
            AnswerBody::Stream(streaming) => {
                let mut streaming = streaming.lock();
                let polled = streaming.poll_chunk(cx);
                if let Some(tracker) = &mut self.tracker {
                    tracker.note_streaming(&streaming);
                    let is_held = tracker.entry.bytes > SHORT && !streaming.stream.keeps_up();
                    if let (true, Poll::Ready(Some(Ok(_))), Delivery::Http1(_)) =
                        (is_held, &polled, &self.delivery)
                    {
                        self.leaving = Some(Box::new(DeliveryWait::new(&self.delivery)));
                    }
                }
                polled
            }
            AnswerBody::File(file) => file.poll_chunk(cx),
            AnswerBody::Proxied(proxied) => proxied.poll_chunk(cx),
            AnswerBody::Probe(script) => script.poll_chunk(cx),
            AnswerBody::Aborting(wait) => wait.poll(cx).map(|frame| frame.map(Ok)),
        }
    }
}

impl Drop for ResponseBody {
    /// Reports the spilled bytes and the time in which the client read nothing, even if the client
    /// never returned for the rest.
    fn drop(&mut self) {
        if let (AnswerBody::Stream(streaming), Some(tracker)) = (&self.answer, &mut self.tracker) {
            let streaming = streaming.lock();
            tracker.note_streaming(&streaming);
            tracker.entry.times = streaming.stream.times_to_now();
        }
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = AbortError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, AbortError>>> {
        if !self.rest.is_empty() {
            return Poll::Ready(Some(Ok(self.next_piece())));
        }
        if let Some(leaving) = &mut self.leaving {
            ready!(leaving.poll(cx));
            self.leaving = None;
        }
        match ready!(self.poll_chunk(cx)) {
            Some(Ok(chunk)) => {
                self.rest = chunk;
                Poll::Ready(Some(Ok(self.next_piece())))
            }
            Some(Err(error)) => {
                self.fail(error);
                self.poll_frame(cx)
            }
            None if matches!(self.answer, AnswerBody::Aborting(_)) => {
                self.answer = AnswerBody::Nothing;
                Poll::Ready(Some(Err(AbortError)))
            }
            None => {
                if let Some(frame) = ready!(self.poll_end(cx)) {
                    return Poll::Ready(Some(Ok(Frame::data(frame))));
                }
                let trailers = self.trailers();
                self.complete();
                Poll::Ready(trailers.map(|trailers| Ok(Frame::trailers(trailers))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.answer {
            _ if !self.rest.is_empty() => false,
            AnswerBody::Nothing => true,
            AnswerBody::Whole(bytes) => bytes.is_empty(),
            AnswerBody::Unpacked(document) => document.left() == 0,
            AnswerBody::Stream(_) | AnswerBody::Proxied(_) if matches!(self.delivery, Delivery::Http2) => {
                false
            }
            AnswerBody::Stream(streaming) => streaming.lock().is_done(),
            AnswerBody::File(file) => file.left() == 0,
            AnswerBody::Proxied(proxied) => proxied.is_done(),
            AnswerBody::Probe(_) | AnswerBody::Aborting(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.answer {
            AnswerBody::Nothing => SizeHint::with_exact(0),
            AnswerBody::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            AnswerBody::Unpacked(document) => SizeHint::with_exact(document.left()),
            AnswerBody::File(file) => SizeHint::with_exact(file.left()),
            AnswerBody::Stream(_)
            | AnswerBody::Proxied(_)
            | AnswerBody::Probe(_)
            | AnswerBody::Aborting(_) => SizeHint::default(),
        }
    }
}
