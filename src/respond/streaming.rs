//! A stream in flight: its rows, which are compressed, spilled and hashed when they're polled.

use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::HeaderMap;
use rowstream_core::Error;
use rowstream_core::lock::Mutex;

use crate::completeness::digest::Digest;
use crate::completeness::streams::EndProof;
use crate::completeness::trailers;
use crate::compress::Compressor;
use crate::outcome::RowCounts;
use crate::spool::spill::{RoomError, Spill};
use crate::spool::whole::SpooledResult;
use crate::stream::RowStream;
use crate::watchdog::{EndReason, SpillingStream};

/// How long a stream that gives way waits for room for its rows before it ends.
const ROOM_WITHIN: Duration = Duration::from_secs(1);

/// A stream in flight. Its body and its watchdog share it; the same task polls both.
pub(super) struct ActiveStream {
    /// The beginning of a result that was too long to hold.
    pub(super) ahead: Option<Box<SpooledResult>>,
    /// The chunk that was polled before the headers were made, unless the compressor has it.
    pub(super) first: Option<Bytes>,
    pub(super) stream: RowStream,
    pub(super) compressor: Option<Compressor>,
    /// The error that follows the compressed bytes and those in `spill`.
    pub(super) failed: Option<Error>,
    /// Set if the rows of slow clients may be spilled.
    pub(super) spill: Option<Box<Spill>>,
    /// The digest of the sent bytes, if it was requested.
    pub(super) digest: Option<ContentDigest>,
    /// True if trailers follow the body.
    pub(super) trailers: bool,
}

/// The digest of the sent bytes.
pub(super) enum ContentDigest {
    /// The row stream computes it, and its bytes are sent as they are.
    OfRows,
    OfSent(Box<Digest>),
}

impl ActiveStream {
    /// Returns the next chunk for the client.
    pub(super) fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>> {
        let Some(spill) = &mut self.spill else { return self.poll_live(cx) };
        if spill.is_draining() {
            self.stream.wait_for_client();
        }
        if let Some(waited) = ready!(spill.poll_take(cx)) {
            return Poll::Ready(Some(waited));
        }
        let polled = self.poll_live(cx);
        if let (Poll::Ready(polled), Some(spill)) = (&polled, &mut self.spill) {
            spill.given(polled.as_ref().and_then(|chunk| chunk.as_ref().ok()).map_or(0, Bytes::len));
        }
        polled
    }

    /// Implements [`SpillingStream`] for a locked stream.
    fn poll_spill(&mut self, cx: &mut Context<'_>) -> Result<Option<tokio::time::Instant>, EndReason> {
        while let Some(spill) = &mut self.spill {
            let reader = spill.slow_reader();
            let gives_way = self.stream.gives_way(reader);
            let is_due = due_at(&self.stream, spill).is_some_and(|at| at <= tokio::time::Instant::now());
            let Poll::Ready(room) = spill.poll_room(self.stream.counts(), gives_way.is_some() || is_due, cx)
            else {
                break;
            };
            if let Err(RoomError) = room {
                match gives_way {
                    Some(_) if reader.is_some_and(|reader| reader.stands_still) => {
                        return Err(EndReason::Stalled);
                    }
                    Some(waited) if waited >= ROOM_WITHIN => return Err(EndReason::TooSlow),
                    // If the client stays this slow, the database ends the transaction.
                    _ => break,
                }
            }
            let Poll::Ready(chunk) = self.poll_live(cx) else { break };
            let (Some(spill), rows) = (&mut self.spill, self.stream.counts()) else { break };
            match chunk {
                Some(Ok(chunk)) => spill.put(&chunk, rows),
                Some(Err(error)) => {
                    self.failed = Some(error);
                    spill.end();
                }
                None => spill.end(),
            }
        }
        let Some(spill) = &self.spill else { return Ok(None) };
        let due_at = due_at(&self.stream, spill).filter(|at| *at > tokio::time::Instant::now());
        Ok(spill.again().into_iter().chain(due_at).min())
    }

    /// The next chunk as it's sent, after it was added to the digest.
    fn poll_live(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>> {
        if let Some(ahead) = &mut self.ahead {
            // These bytes are in the digest already.
            if let Some(chunk) = ready!(ahead.poll_chunk(cx)) {
                return Poll::Ready(Some(chunk));
            }
            self.ahead = None;
        }
        if let Some(error) = self.failed.take() {
            return Poll::Ready(Some(Err(error)));
        }
        let polled = match (self.first.take(), &mut self.compressor) {
            (Some(first), _) => Poll::Ready(Some(Ok(first))),
            (None, None) => self.stream.poll_chunk(cx),
            (None, Some(compressor)) => poll_compressed(&mut self.stream, compressor, &mut self.failed, cx),
        };
        polled.map_ok(|chunk| self.hashed(chunk))
    }

    /// True if everything has been given: the last chunk, and no trailers follow.
    pub(super) fn is_done(&self) -> bool {
        let given = match &self.compressor {
            Some(compressor) => compressor.is_finished(),
            None => self.first.is_none() && self.stream.is_done(),
        };
        let spilled = self.spill.as_ref().is_some_and(|spill| !spill.is_empty());
        given && self.ahead.is_none() && self.failed.is_none() && !spilled && !self.trailers
    }

    /// Rows that were handed over.
    pub(super) fn rows(&self) -> RowCounts {
        let rows = self.stream.counts();
        self.spill.as_ref().map_or(rows, |spill| spill.rows(rows))
    }

    /// Adds a chunk to the digest.
    fn hashed(&mut self, chunk: Bytes) -> Bytes {
        if let Some(ContentDigest::OfSent(digest)) = &mut self.digest {
            digest.update(&chunk);
        }
        chunk
    }

    /// The digest of all chunks so far.
    pub(super) fn content_digest(&self) -> Option<String> {
        match self.digest.as_ref()? {
            ContentDigest::OfRows => self.stream.digest(),
            ContentDigest::OfSent(digest) => Some(digest.text()),
        }
    }

    /// The facts that are reported about a complete result.
    pub(super) fn end_proof(&self) -> EndProof {
        EndProof {
            digest: self.content_digest(),
            coding: self.compressor.as_ref().map(Compressor::coding),
            lists: self.stream.lists().to_vec(),
        }
    }

    /// The trailers of a complete result.
    pub(super) fn trailers(&self) -> Option<HeaderMap> {
        let (next, digest) = (self.stream.cursor(), self.content_digest());
        let (rows, page) = (self.stream.counts(), self.stream.page());
        self.trailers.then(|| trailers::complete(rows, next.as_deref(), page, digest.as_deref()))
    }
}

/// When the rows have to be read although the client is slow. `None` if they can wait, or if the
/// client waits for them.
fn due_at(stream: &RowStream, spill: &Spill) -> Option<tokio::time::Instant> {
    let (read_by, slow_at) = (stream.read_by()?, spill.slow_at()?);
    Some(slow_at.max(read_by.into()))
}

/// A panic under the lock ends the task that polls both owners, so nothing is polled after it.
impl SpillingStream for Mutex<ActiveStream> {
    fn poll_spill(&self, cx: &mut Context<'_>) -> Result<Option<tokio::time::Instant>, EndReason> {
        self.lock().poll_spill(cx)
    }
}

/// The next chunk of a compressed body. If the row stream fails, the body ends without an end mark,
/// after everything that was compressed, and the error waits in `failed`.
fn poll_compressed(
    stream: &mut RowStream,
    compressor: &mut Compressor,
    failed: &mut Option<Error>,
    cx: &mut Context<'_>,
) -> Poll<Option<Result<Bytes, Error>>> {
    loop {
        if let Some(chunk) = timed(stream, || compressor.compress())? {
            return Poll::Ready(Some(Ok(chunk)));
        }
        match stream.poll_chunk(cx) {
            Poll::Ready(Some(Ok(chunk))) => compressor.put(chunk),
            Poll::Ready(Some(Err(error))) => match timed(stream, || compressor.release())? {
                Some(chunk) => {
                    *failed = Some(error);
                    return Poll::Ready(Some(Ok(chunk)));
                }
                None => return Poll::Ready(Some(Err(error))),
            },
            Poll::Ready(None) => return Poll::Ready(timed(stream, || compressor.finish()).transpose()),
            Poll::Pending => return timed(stream, || compressor.poll_flush(cx)).map(Some),
        }
    }
}

/// Runs a step of a stream's compression. Its time counts as encoding.
fn timed<T>(stream: &mut RowStream, step: impl FnOnce() -> T) -> T {
    let begun = Instant::now();
    let out = step();
    stream.compressed(begun.elapsed());
    out
}
