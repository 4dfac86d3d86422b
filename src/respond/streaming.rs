//! A stream in flight: its rows, compressed, spilled and digested as they are asked for.

use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::HeaderMap;

use crate::Error;
use crate::completeness::digest::Digest;
use crate::completeness::trailers;
use crate::compress::Compressor;
use crate::lock::Mutex;
use crate::spool::spill::{NoRoom, Spill};
use crate::spool::whole::Spooled;
use crate::stream::RowStream;
use crate::watchdog::{Over, Spilling};

/// How long a stream that gives way waits for room for its rows before it ends.
const ROOM_WITHIN: Duration = Duration::from_secs(1);

/// A stream in flight. The body and its watchdog have it, which are polled by the same task.
pub(super) struct Streaming {
    /// What was sent to wait for the end, of a result that is too long for that.
    pub(super) ahead: Option<Box<Spooled>>,
    /// What was polled before the head was made; a compressor has it where there is one.
    pub(super) first: Option<Bytes>,
    pub(super) stream: RowStream,
    pub(super) compressor: Option<Compressor>,
    /// Follows the last of what was compressed, and of what waits in `spill`.
    pub(super) failed: Option<Error>,
    /// Where slow clients are spilled.
    pub(super) spill: Option<Box<Spill>>,
    /// Of what is sent, where it was asked for.
    pub(super) digest: Option<Box<Digest>>,
    /// Whether fields follow the body.
    pub(super) trailers: bool,
}

impl Streaming {
    /// The client wants more.
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

    /// What [`Spilling`] asks for, of a stream that is locked.
    fn poll_spill(&mut self, cx: &mut Context<'_>) -> Result<Option<tokio::time::Instant>, Over> {
        while let Some(spill) = &mut self.spill {
            let reader = spill.slow_reader();
            let gives_way = self.stream.gives_way(reader);
            let is_due = due_at(&self.stream, spill).is_some_and(|at| at <= tokio::time::Instant::now());
            let Poll::Ready(room) = spill.poll_room(self.stream.rows(), gives_way.is_some() || is_due, cx)
            else {
                break;
            };
            if let Err(NoRoom) = room {
                match gives_way {
                    Some(_) if reader.is_some_and(|reader| reader.stands_still) => return Err(Over::Stalled),
                    Some(waited) if waited >= ROOM_WITHIN => return Err(Over::TooSlow),
                    // If the client stays as slow, the database ends the transaction.
                    _ => break,
                }
            }
            let Poll::Ready(chunk) = self.poll_live(cx) else { break };
            let (Some(spill), rows) = (&mut self.spill, self.stream.rows()) else { break };
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

    /// The next chunk as it is sent, once it is in the digest.
    fn poll_live(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>> {
        if let Some(ahead) = &mut self.ahead {
            // It is in the digest already.
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

    /// Whether all has been given: the last chunk, and no trailers are to follow.
    pub(super) fn is_done(&self) -> bool {
        let given = match &self.compressor {
            Some(compressor) => compressor.is_finished(),
            None => self.first.is_none() && self.stream.is_done(),
        };
        let spilled = self.spill.as_ref().is_some_and(|spill| !spill.is_empty());
        given && self.ahead.is_none() && self.failed.is_none() && !spilled && !self.trailers
    }

    /// Rows that were handed over.
    pub(super) fn rows(&self) -> u64 {
        let rows = self.stream.rows();
        self.spill.as_ref().map_or(rows, |spill| spill.rows(rows))
    }

    /// A chunk that is sent, once it is in the digest.
    fn hashed(&mut self, chunk: Bytes) -> Bytes {
        if let Some(digest) = &mut self.digest {
            digest.update(&chunk);
        }
        chunk
    }

    /// The digest of all chunks so far.
    pub(super) fn content_digest(&self) -> Option<String> {
        self.digest.as_ref().map(|digest| digest.text())
    }

    /// What follows the body of a whole result.
    pub(super) fn trailers(&self) -> Option<HeaderMap> {
        let (next, digest) = (self.stream.cursor(), self.content_digest());
        let end = (next.as_deref(), self.stream.page());
        self.trailers.then(|| trailers::complete(self.stream.rows(), end, digest.as_deref()))
    }
}

/// When the rows have to be read on because the client is slow; `None`: they wait for as long as it
/// takes, or the client waits for them.
fn due_at(stream: &RowStream, spill: &Spill) -> Option<tokio::time::Instant> {
    let (read_by, slow_at) = (stream.read_by()?, spill.slow_at()?);
    Some(slow_at.max(read_by.into()))
}

/// A panic under the lock ends the task of both who have it, and nothing is polled after that.
impl Spilling for Mutex<Streaming> {
    fn poll_spill(&self, cx: &mut Context<'_>) -> Result<Option<tokio::time::Instant>, Over> {
        self.lock().poll_spill(cx)
    }
}

/// The next chunk of a compressed body. A row stream that fails ends it without an end mark, after
/// all that was compressed; the error then waits in `failed`.
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

/// Runs a step of a stream's compression, whose time is that of encoding.
fn timed<T>(stream: &mut RowStream, step: impl FnOnce() -> T) -> T {
    let begun = Instant::now();
    let out = step();
    stream.compressed(begun.elapsed());
    out
}
