//! The hot path: rows to chunks.
//!
//! The reader of a [`RowStream`] (the HTTP library, or a file) pulls chunks from it, and the stream
//! pulls rows from its session. There's no channel, queue or task of our own in between. So a
//! reader that stops reading also stops the database, and dropping the stream cancels its
//! statements. Invariants:
//!
//! 1. memory: one chunk and the session's buffer, for a result of any size. A chunk has at most
//!    [`CHUNK`] bytes and one row, or one Arrow batch, which is built before it's written. While
//!    the client hasn't read a chunk, no other is begun;
//! 2. a chunk is handed out when it's full, or when the source has had nothing ready for
//!    [`FLUSH_AFTER`]. The first chunk also waits for the first row;
//! 3. after the last chunk of a complete result, the stream returns `None`. After a failure, it
//!    returns the chunk that was encoded before it, then `Err`, and nothing more. If that would be
//!    the first chunk, it's dropped, and the error has a status. A result that ends early can't
//!    look complete, because the encoder writes the closing bytes only when the rows themselves
//!    have ended;
//! 4. a row that fails leaves no byte in a chunk;
//! 5. rows that an encoder has collected (Arrow's open batch) count as waiting bytes: they're
//!    written when the source has had nothing ready for [`FLUSH_AFTER`], and before the end;
//! 6. the session is dropped at the last row, and not at the last byte. So a slow client doesn't
//!    keep the connection while it reads the last chunks.
//!
//! Nested statements are interleaved and merged by a [`Nest`], which has its own invariants.

mod calls;
mod clock;
mod counts;
mod cursors;
pub(crate) mod encoder;
mod follow;
mod key;
mod lookup;
mod nest;
pub(crate) mod notifier;
mod open;
mod pages;
mod per_row;
mod producer;
mod refcursor;
mod steps;

use std::mem;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use rowstream_core::Error;
use rowstream_core::client::Client;
use rowstream_core::error::ErrorDetail;
use rowstream_core::params::{ParamValue, RequestedShard};
use rowstream_core::pool::{SlowReader, SlowStream, Waiter};
use rowstream_core::timer::Timer;
use rowstream_encode::{CsvDialect, Format, ValueOptions};

use self::clock::{Clock, Phase};
use self::counts::{Counts, StatementRows};
use self::cursors::Cursors;
use self::encoder::Encoder;
use self::follow::{FollowState, heartbeat};
pub(crate) use self::follow::{Follower, StreamOpening};
pub(crate) use self::lookup::{LookedUpRow, LookupResult, look_up, lookup};
use self::nest::Nest;
pub(crate) use self::open::{OpenedStatements, ReadPart};
use self::producer::Producer;
use self::steps::{AwaitedResult, EmptinessProbe, ProbeFinding, Rows, Step, TotalRow, pieces, prepared};
use crate::budget::CHUNK;
use crate::completeness::digest::ChunkDigest;
use crate::completeness::framing::{Frames, Record, RowDescription};
pub use crate::completeness::page::PageEnd;
use crate::endpoint::{Cardinality, Endpoint, Piece};
use crate::html::{Page, PageRows};
use crate::outcome::RowTotal;
pub use crate::outcome::{ListCount, RowCounts, Times};
use crate::source::Source;

/// The first chunk is full earlier, because the client's first byte matters more than one write.
const FIRST_CHUNK: usize = 4 * 1024;
/// The size of a full chunk until we know that the client keeps up. Hundreds of clients may not,
/// and each of their streams has one or two chunks in memory for most of its time.
const SMALL_CHUNK: usize = 8 * 1024;
/// A client keeps up once it has read this much without a pause: more than the buffers of the
/// sockets.
const FLOWING_AFTER: usize = 512 * 1024;
/// A client that leaves a chunk unread for this long is slow. A fast client on a busy machine takes
/// a few time slices.
const SLOW_AFTER: Duration = Duration::from_millis(50);
/// The most rows of a page whose headers wait for its end, so that they can name the next page.
/// Longer pages don't compute cursors that no part of the answer contains.
pub(crate) const SHORT_PAGE: u64 = 1000;
/// How long rows may wait for further ones once the source has nothing ready. If each empty read
/// flushed them, there would be a chunk per 8 KiB.
const FLUSH_AFTER: Duration = Duration::from_millis(1);

/// The chunks of one response.
pub struct RowStream {
    /// Dropped at the last row, so that the connection is free while the last chunks are being
    /// sent.
    session: Option<Producer>,
    /// The source of the connection, and the client of the stream.
    source: Source,
    client: Client,
    /// The parts of a table that it reads. `None`: one connection reads all of it.
    part: Option<ReadPart>,
    /// Set while the client is slow and the stream has a connection.
    slow: Option<SlowStream>,
    steps: std::vec::IntoIter<Step>,
    current: CurrentStatements,
    values: Vec<ParamValue>,
    chunk: Vec<u8>,
    head: HeaderState,
    /// Bytes since the start, or since the client was last slow.
    flowing: usize,
    flush: Timer,
    armed: TimerPurpose,
    /// The pause before an idle stream sends a heartbeat, and the heartbeat's bytes.
    heartbeat: Option<(Duration, &'static [u8])>,
    following: FollowState,
    /// The cursor that begins a new page after the rows so far, once the statement with the key
    /// has ended.
    next: Option<String>,
    /// The cursor that continues the list, likewise. It differs from `next` if the list has a
    /// limit.
    resume: Option<String>,
    /// True if the statement with the key has ended with a row.
    has_moved: bool,
    /// The end of the page, if that statement has a known limit.
    page: Option<PageEnd>,
    /// True if that statement had rows, and its limit may have cut others off.
    may_have_more: bool,
    counts: Counts,
    /// The number of all rows of the list, if the request asked for it.
    total: Option<RowTotal>,
    /// True if there's something to do after a row: until the first row of a list, and on streams
    /// with marks.
    watches_rows: bool,
    /// Set in the framed profile, until its last record is written.
    frames: Option<Frames>,
    digest: Option<Box<ChunkDigest>>,
    /// The last byte of the last chunk that was handed out; `None` before the first one.
    taken: Option<u8>,
    /// Reported after the last chunk.
    failed: Option<Error>,
    detail: ErrorDetail,
    /// True if the request gave a value, which may be the reason of an error.
    given: bool,
    clock: Clock,
}

/// The rows that a response reads, and their format.
#[derive(Debug, Clone)]
pub struct RowsRequest {
    /// The format of the response.
    pub format: Format,
    /// Options for the values.
    pub options: ValueOptions,
    /// The dialect of CSV. `None`: the endpoint's own.
    pub csv: Option<Box<CsvDialect>>,
    /// Only rows after this cursor are read.
    pub after: Option<String>,
    /// The page for browsers around the rows, if the format is HTML. Boxed, because few requests
    /// have one.
    pub(crate) page: Option<Box<Page>>,
    /// The part of the table to read. `None`: all of it. Boxed, because few requests have one.
    pub shard: Option<Box<RequestedShard>>,
    /// True if cursors are wanted in addition to those in the body.
    pub cursors: bool,
    /// True if the rows are followed, so that a limit is only the size of a reading.
    pub followed: bool,
    /// True if events make an `EventSource` stop at the end.
    pub ends_events: bool,
    /// The upstreams to call for each row, in the order of the endpoint's calls.
    pub upstreams: Box<[rowstream_upstream::Source]>,
}

/// All rows, in a format and with options.
impl From<(Format, ValueOptions)> for RowsRequest {
    fn from((format, options): (Format, ValueOptions)) -> Self {
        Self {
            format,
            options,
            csv: None,
            page: None,
            after: None,
            shard: None,
            cursors: false,
            followed: false,
            ends_events: false,
            upstreams: Box::default(),
        }
    }
}

/// The state of the headers: they wait for a row, or they may be sent and chunks have a full size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HeaderState {
    /// No chunk is full or flushed. So an error before the first row has a real status, even if the
    /// body begins with literals, and even if the database is slow. The rows of `:one` and `:value`
    /// don't count, because a second row would be an error.
    Held,
    /// The headers may be sent, and a chunk with this many bytes is full.
    Sent(usize),
}

impl HeaderState {
    #[inline]
    fn is_full(self, chunk: usize) -> bool {
        matches!(self, Self::Sent(full) if chunk >= full)
    }

    /// Lets the headers be sent. Returns true if they had to wait until now.
    fn send(&mut self) -> bool {
        let held = *self == Self::Held;
        if held {
            *self = Self::Sent(FIRST_CHUNK);
        }
        held
    }
}

/// The statements that are being read.
enum CurrentStatements {
    Nothing,
    Rows(Rows),
    /// Rows that arrive as record batches.
    Batches(Rows),
    Nest(Box<Nest>),
    Probe(EmptinessProbe),
    Total(Box<TotalRow>),
    /// The columns of a procedure's next result haven't arrived yet.
    Awaited(Rows, AwaitedResult),
}

impl CurrentStatements {
    fn rows(&self) -> Option<&Rows> {
        match self {
            Self::Rows(rows) | Self::Batches(rows) => Some(rows),
            Self::Nothing | Self::Nest(_) | Self::Probe(_) | Self::Total(_) | Self::Awaited(..) => None,
        }
    }

    /// The cursors after the rows so far, and the number of these. `None` within a row.
    fn cursors(&self) -> Option<(&Cursors, u64)> {
        match self {
            Self::Nest(nest) => Some((nest.cursors()?, nest.count().rows)),
            _ => self.rows().and_then(|rows| Some((rows.cursors.as_deref()?, rows.encoder.rows()))),
        }
    }

    /// True if a row has begun and isn't complete.
    fn is_within_row(&self) -> bool {
        matches!(self, Self::Nest(nest) if nest.is_within_row())
    }

    /// The rows encoded so far; `None` before the first statement and between two of them.
    fn count(&self) -> Option<StatementRows> {
        match self {
            Self::Rows(rows) | Self::Batches(rows) => {
                Some(StatementRows::of(rows.cardinality, rows.encoder.rows()))
            }
            Self::Nest(nest) => Some(nest.count()),
            Self::Nothing | Self::Probe(_) | Self::Total(_) | Self::Awaited(..) => None,
        }
    }
}

/// The purpose of a stream's timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TimerPurpose {
    Nothing,
    Flush,
    Heartbeat,
}

impl RowStream {
    /// Takes a connection, prepares the statements that `format` needs, and calls those that open
    /// refcursors. All other statements run when chunks are polled.
    ///
    /// # Errors
    /// The pool's, the database's, or a statement doesn't fit its place in the body.
    pub async fn open(
        endpoint: &Endpoint,
        source: &Source,
        format: Format,
        values: Vec<ParamValue>,
    ) -> Result<Self, Error> {
        Self::open_with(endpoint, source, (format, endpoint.options), values).await
    }

    /// Like [`RowStream::open`], with options other than the endpoint's.
    ///
    /// # Errors
    /// The same, and 400 if a cursor isn't the endpoint's.
    pub async fn open_with(
        endpoint: &Endpoint,
        source: &Source,
        reading: impl Into<RowsRequest>,
        values: Vec<ParamValue>,
    ) -> Result<Self, Error> {
        Self::open_for(&Waiter::default(), (endpoint, source), reading.into(), values, None).await
    }

    /// The same on behalf of `waiter`, which measures the wait for a connection even if none
    /// arrives. If the row was looked up before, `looked_up` has it.
    ///
    /// # Errors
    /// The same.
    pub(crate) async fn open_for(
        waiter: &Waiter,
        (endpoint, source): (&Endpoint, &Source),
        reading: RowsRequest,
        values: Vec<ParamValue>,
        looked_up: Option<Box<LookupResult>>,
    ) -> Result<Self, Error> {
        let OpenedStatements { session, steps, values, mut clock, part, begin } =
            OpenedStatements::open(waiter, (endpoint, source), &reading, values, looked_up).await?;
        clock.enter(true);
        clock.leave(Phase::Database);
        let digest = pieces(endpoint, reading.format, &[]).contains(&Piece::Digest).then(Box::default);
        let capacity = if !session.holds_connection() { lookup::ROOM } else { FIRST_CHUNK * 2 };
        let beat = heartbeat(reading.format).filter(|_| reading.format == Format::Sse);
        Ok(Self {
            counts: Counts::of(&steps),
            total: None,
            part,
            session: Some(session),
            source: source.clone(),
            client: waiter.client(),
            slow: None,
            steps: steps.into_iter(),
            current: CurrentStatements::Nothing,
            values,
            chunk: Vec::with_capacity(capacity),
            head: HeaderState::Held,
            flowing: 0,
            flush: Timer::default(),
            armed: TimerPurpose::Nothing,
            heartbeat: beat.map(|beat| (endpoint.heartbeat, beat)),
            following: FollowState::not(),
            next: begin,
            resume: reading.after,
            has_moved: false,
            page: None,
            may_have_more: false,
            watches_rows: true,
            frames: None,
            digest,
            taken: None,
            failed: None,
            detail: ErrorDetail::Code,
            given: true,
            clock,
        })
    }

    /// Keeps the stream open after the last row, for the rows that `follower` brings. From now on
    /// it sends a heartbeat after each idle `pause`.
    pub(crate) fn follow(&mut self, follower: Follower, (format, pause): (Format, Duration)) {
        self.following = FollowState::by(follower);
        self.heartbeat = heartbeat(format).map(|beat| (pause, beat));
    }

    /// Adds records about the end of the rows, from the first chunk on, with a digest of the
    /// preceding bytes if `digest`. It sends a heartbeat after each idle `pause`.
    pub(crate) fn frame(&mut self, frames: Frames, digest: bool, (format, pause): (Format, Duration)) {
        self.frames = Some(frames);
        self.heartbeat = heartbeat(format).map(|beat| (pause, beat));
        self.digest = digest.then(Box::default);
    }

    /// The next chunk; `None` after the last one of a complete result.
    ///
    /// # Errors
    /// The result can't be completed. Nothing may be polled after that.
    pub fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>> {
        let waited = self.clock.enter(self.session.as_ref().is_some_and(Producer::holds_connection));
        if let Some(error) = self.failed.take() {
            return Poll::Ready(Some(Err(error)));
        }
        if self.chunk.capacity() == 0 && !self.is_done() {
            self.begin_chunk(waited);
        }
        let polled = match self.poll_readings(cx) {
            Poll::Ready(Ok(())) if self.chunk.is_empty() => Poll::Ready(None),
            Poll::Ready(Ok(())) => {
                self.mark_if_late();
                Poll::Ready(Some(Ok(self.take_chunk())))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Some(self.fail(error))),
            Poll::Pending if let Poll::Ready(error) = self.following.poll_failed(cx) => {
                Poll::Ready(Some(self.fail(error)))
            }
            Poll::Pending => self.poll_flush(cx).map(|()| {
                self.flush_waiting();
                self.mark_if_late();
                Some(Ok(self.take_chunk()))
            }),
        };
        self.clock.leave(match polled.is_ready() {
            true => Phase::Client,
            false if self.following.is_waiting() => Phase::Changes,
            false if self.session.as_ref().is_some_and(Producer::waits_for_place) => Phase::Pool,
            false => Phase::Database,
        });
        polled
    }

    /// Allocates a chunk when it's polled, `waited` after the previous one.
    fn begin_chunk(&mut self, waited: Duration) {
        if waited > SLOW_AFTER {
            self.flowing = 0;
        }
        let full = if self.keeps_up() { CHUNK } else { SMALL_CHUNK };
        self.head = HeaderState::Sent(full);
        // A row may exceed the limit. With this slack, most rows don't make the buffer grow.
        self.chunk.reserve(full + full / 8);
    }

    /// Encodes rows until the chunk is full or everything is done. If a later reading of a followed
    /// stream fails, it may begin again.
    fn poll_readings(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        loop {
            match ready!(self.poll_fill(cx)) {
                Ok(()) => return Poll::Ready(Ok(())),
                Err(error) => {
                    let rows = self.current.count().map_or(0, |count| count.rows);
                    self.following.begin_again(error, rows)?;
                }
            }
            self.drop_reading();
        }
    }

    /// Encodes rows until the chunk is full or everything is done.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        while !self.head.is_full(self.chunk.len()) {
            let (CurrentStatements::Rows(rows), Some(session)) = (&mut self.current, &mut self.session)
            else {
                if matches!(self.current, CurrentStatements::Nest(_)) {
                    ready!(self.poll_nest(cx))?;
                } else if matches!(self.current, CurrentStatements::Batches(_)) {
                    ready!(self.poll_batch(cx))?;
                } else if matches!(self.current, CurrentStatements::Probe(_)) {
                    ready!(self.poll_probe(cx))?;
                } else if matches!(self.current, CurrentStatements::Total(_)) {
                    ready!(self.poll_total(cx))?;
                } else if matches!(self.current, CurrentStatements::Awaited(..)) {
                    ready!(self.poll_result(cx))?;
                } else if self.steps.len() == 0 && !self.following.is_over() {
                    self.send_head();
                    // Existing bytes are sent first, because a client that reads nothing shouldn't
                    // wait for a connection.
                    if !self.chunk.is_empty() {
                        break;
                    }
                    ready!(self.poll_follow(cx))?;
                } else if !self.next_step() {
                    break;
                }
                continue;
            };
            match ready!(session.poll_row(cx))? {
                Some(row) => {
                    rows.admit_row()?;
                    let begin = self.chunk.len();
                    if let Err(error) = rows.encode(row, &mut self.chunk) {
                        self.chunk.truncate(begin);
                        return Poll::Ready(Err(error));
                    }
                    if self.watches_rows && rows.cardinality == Cardinality::Many {
                        self.note_row();
                    }
                }
                None => self.end_rows()?,
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Writes the next batch of rows, or ends the rows.
    fn poll_batch(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let (CurrentStatements::Batches(rows), Some(session)) = (&mut self.current, &mut self.session) else {
            return Poll::Ready(Err(Error::endpoint("the statements have ended too early")));
        };
        match ready!(session.poll_batch(cx))? {
            Some(batch) => {
                rows.batch(batch, &mut self.chunk)?;
                if self.watches_rows && rows.cardinality == Cardinality::Many {
                    self.note_row();
                }
            }
            None => self.end_rows()?,
        }
        Poll::Ready(Ok(()))
    }

    /// Sends the headers after the first row of a list, and writes marks that are due.
    #[cold]
    fn note_row(&mut self) {
        self.head.send();
        self.watches_rows = self.has_cursors() && self.frames.as_ref().is_some_and(Frames::has_marks);
        self.mark(Frames::is_due);
    }

    /// The cursor that begins a new page after the last encoded row; `None` if the endpoint has no
    /// key.
    pub(crate) fn cursor(&self) -> Option<String> {
        self.current.cursors().and_then(|(cursors, _)| cursors.at_end()).or_else(|| self.next.clone())
    }

    /// True if the rows that are being read have cursors.
    pub(crate) fn has_cursors(&self) -> bool {
        match &self.current {
            CurrentStatements::Nest(nest) => nest.has_cursors(),
            current => current.rows().is_some_and(|rows| rows.cursors.is_some()),
        }
    }

    /// True if the list with the key has ended, and had a row.
    pub(crate) fn has_moved(&self) -> bool {
        self.has_moved
    }

    /// The cursor that continues the list after the last encoded row.
    fn resume_cursor(&self) -> Option<String> {
        let cursors = self.current.cursors();
        cursors.and_then(|(cursors, rows)| cursors.within(rows)).or_else(|| self.resume.clone())
    }

    /// Writes a mark if rows have waited too long for one and more rows may follow.
    fn mark_if_late(&mut self) {
        let reads = self.current.rows().is_some() || matches!(self.current, CurrentStatements::Nest(_));
        if self.frames.is_some() && (reads || !self.following.is_over()) {
            self.mark(Frames::is_late);
        }
    }

    /// Writes a mark if one is due after the rows so far.
    fn mark(&mut self, is_due: impl FnOnce(&Frames, u64) -> bool) {
        if self.current.is_within_row() {
            return;
        }
        let rows = self.rows();
        if self.frames.as_ref().is_some_and(|frames| is_due(frames, rows))
            && let Some(next) = self.resume_cursor()
            && let Some(frames) = &mut self.frames
        {
            frames.mark(rows, &next, &mut self.chunk);
        }
    }

    /// Encodes the next row of nested statements, or ends one of their lists.
    fn poll_nest(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let (CurrentStatements::Nest(nest), Some(session)) = (&mut self.current, &mut self.session) else {
            return Poll::Ready(Err(Error::endpoint("the statements have ended too early")));
        };
        if !ready!(nest.poll_step(session, cx, &mut self.chunk))? {
            self.end_nest();
        } else if self.watches_rows && nest.cursors().is_some() {
            self.note_row();
        } else if nest.has_rows() {
            self.head.send();
        }
        Poll::Ready(Ok(()))
    }

    /// Refuses the response if it would leave out a row.
    fn poll_probe(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let (CurrentStatements::Probe(probe), Some(session)) = (&self.current, &mut self.session) else {
            return Poll::Ready(Err(Error::endpoint("the statements have ended too early")));
        };
        if ready!(session.poll_row(cx))?.is_some() {
            return Poll::Ready(Err(match probe.finds {
                ProbeFinding::LeftOut { committed_only } => Cursors::left_out(&probe.name, committed_only),
                ProbeFinding::Ahead => Cursors::ahead(),
            }));
        }
        self.current = CurrentStatements::Nothing;
        Poll::Ready(Ok(()))
    }

    /// Reads the number of all rows.
    fn poll_total(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let (CurrentStatements::Total(total), Some(session)) = (&mut self.current, &mut self.session) else {
            return Poll::Ready(Err(Error::endpoint("the statements have ended too early")));
        };
        match ready!(session.poll_row(cx))? {
            Some(row) if !total.is_read => {
                let mut value = Vec::new();
                total.encoder.encode(row, &mut value)?;
                self.total = total.reads.total(&value, self.total)?;
                total.is_read = true;
            }
            Some(_) => {}
            None => self.current = CurrentStatements::Nothing,
        }
        Poll::Ready(Ok(()))
    }

    /// The number of all rows of the list, if the request asked for it.
    pub(crate) fn total(&self) -> Option<RowTotal> {
        self.total
    }

    /// Waits for the columns of a procedure's next result.
    fn poll_result(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let (CurrentStatements::Awaited(_, awaited), Some(session)) = (&self.current, &mut self.session)
        else {
            return Poll::Ready(Err(Error::endpoint("the statements have ended too early")));
        };
        let columns = ready!(session.poll_result(awaited.result, cx))?;
        if let CurrentStatements::Awaited(mut rows, awaited) =
            mem::replace(&mut self.current, CurrentStatements::Nothing)
        {
            rows.describe(awaited, columns)?;
            self.begin_rows(rows);
        }
        Poll::Ready(Ok(()))
    }

    fn end_nest(&mut self) {
        if let CurrentStatements::Nest(nest) = mem::replace(&mut self.current, CurrentStatements::Nothing) {
            for (statement, rows) in nest.counts() {
                self.note_count(statement, rows);
            }
            let count = nest.count();
            self.counts.end(nest.name(), count);
            let (cursors, page) = nest.into_end();
            self.note_end(cursors.as_deref(), page, count.rows);
            self.free_session();
        }
    }

    /// Sends the headers without a row, because the first one may be hours away.
    fn send_head(&mut self) {
        if self.head.send() {
            self.beat();
        }
    }

    /// Waits for rows that are added after the last one.
    fn poll_follow(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let after = || (self.next.clone(), self.may_have_more);
        if let Some(opened) = ready!(self.following.poll_next(after, cx))? {
            self.clock.times.pool += opened.clock.times.pool;
            self.session = Some(opened.session);
            self.steps = opened.steps.into_iter();
            self.values = opened.values;
        }
        Poll::Ready(Ok(()))
    }

    /// Drops a reading that has failed between two rows. The next one begins after the last of
    /// them.
    fn drop_reading(&mut self) {
        (self.next, self.resume) = (self.cursor(), self.resume_cursor());
        self.may_have_more = true;
        self.counts.keep(self.current.count());
        self.current = CurrentStatements::Nothing;
        self.steps = Vec::new().into_iter();
        self.session = None;
    }

    /// Sends a heartbeat: a mark if the stream has marks, because that contains more information.
    fn beat(&mut self) {
        self.mark(|frames, _| frames.has_marks());
        if let (true, Some((_, beat))) = (self.chunk.is_empty(), self.heartbeat) {
            // A row with lists in it may have begun, and a line break would split it. A blank is
            // allowed between its values.
            let is_within_row = self.taken.is_some_and(|last| !matches!(last, b'\n' | 0x1e));
            self.chunk.extend_from_slice(if is_within_row { b" " } else { beat });
        }
    }

    /// Begins the next piece of the body; false if there's none.
    fn next_step(&mut self) -> bool {
        match self.steps.next() {
            Some(Step::Literal(text)) => self.chunk.extend_from_slice(&text),
            Some(Step::Probe(probe)) => self.execute_probe(probe),
            Some(Step::Total(total)) => self.execute_total(total),
            Some(Step::Rows(rows)) => self.execute(*rows),
            Some(Step::Nest(nest)) => self.execute_nest(nest),
            Some(Step::Count(count)) => self.chunk.extend_from_slice(count.rows.to_string().as_bytes()),
            Some(Step::Next) => self.write_next(),
            Some(Step::Digest) => self.write_digest(),
            Some(Step::PageEnd(page)) => self.end_page(&page),
            None => return self.end_frames(),
        }
        true
    }

    /// Writes the end of a page for browsers.
    fn end_page(&mut self, page: &Page) {
        let end = PageRows { rows: self.rows(), total: self.total, next: self.next_page() };
        let end = page.end(&end);
        self.chunk.extend_from_slice(&end);
    }

    fn write_digest(&mut self) {
        if let Some(digest) = &mut self.digest {
            let text = digest.up_to(&self.chunk);
            self.chunk.extend_from_slice(format!("\"{text}\"").as_bytes());
        }
    }

    /// Sets how much the error record quotes from the database, and records if the request gave a
    /// value.
    pub(crate) fn tell(&mut self, detail: ErrorDetail, given: bool) {
        (self.detail, self.given) = (detail, given);
    }

    /// The time since the stream should have given up its connection to a waiting request, because
    /// its client is slow. `None` if it may keep it. A connection to an HTTP service is never given
    /// up, because no request keeps it for long.
    pub(crate) fn gives_way(&mut self, reader: Option<SlowReader>) -> Option<Duration> {
        let holds = self.session.as_ref().is_some_and(Producer::holds_connection);
        let (Some(reader), Source::Database(database), true) = (reader, &self.source, holds) else {
            self.slow = None;
            return None;
        };
        database.gives_way(&mut self.slow, self.client, reader)
    }

    /// The deadline for reading further rows, even if the client is slow.
    pub(crate) fn read_by(&self) -> Option<Instant> {
        self.session.as_ref().and_then(Producer::read_by)
    }

    /// Writes the end record; false if there's none or it has been written.
    fn end_frames(&mut self) -> bool {
        let Some(frames) = self.frames.take() else { return false };
        let (rows, next) = (self.counts(), self.cursor());
        let digest = self.digest.as_mut().map(|digest| digest.up_to(&self.chunk));
        let (total, page) = (self.total.map(|total| total.rows), self.page);
        let end = Record::End { rows, total, next: next.as_deref(), page, digest: digest.as_deref() };
        frames.write(&end, &mut self.chunk);
        true
    }

    /// Ends a result that can't be completed. If the client already has a chunk, it first gets the
    /// bytes that were encoded since then, and the error record.
    fn fail(&mut self, error: Error) -> Result<Bytes, Error> {
        self.session = None;
        self.following = FollowState::not();
        let error = error.of_request(self.given).in_detail(self.detail);
        let Some(last) = self.taken else { return Err(error) };
        if let Some(frames) = self.frames.take() {
            let last = self.chunk.last().copied().unwrap_or(last);
            frames.write_error(&error, last != b'\n', &mut self.chunk);
        }
        if self.chunk.is_empty() {
            return Err(error);
        }
        self.failed = Some(error);
        Ok(self.take_chunk())
    }

    fn execute_nest(&mut self, mut nest: Box<Nest>) {
        if let Some(frames) = &mut self.frames {
            frames.describe(&nest.description(), &mut self.chunk);
        }
        if let Some(session) = &mut self.session {
            nest.execute(session, &self.values, &mut self.chunk);
        }
        self.current = CurrentStatements::Nest(nest);
    }

    fn execute_total(&mut self, total: Box<TotalRow>) {
        self.execute_statement(total.index, &total.args);
        self.current = CurrentStatements::Total(total);
    }

    fn execute_probe(&mut self, probe: EmptinessProbe) {
        self.execute_statement(probe.index, &probe.args);
        self.current = CurrentStatements::Probe(probe);
    }

    fn execute(&mut self, mut rows: Rows) {
        match rows.awaited.take() {
            Some(awaited) => self.current = CurrentStatements::Awaited(rows, *awaited),
            None => {
                self.execute_statement(rows.index, &rows.args);
                self.begin_rows(rows);
            }
        }
    }

    fn begin_rows(&mut self, mut rows: Rows) {
        if let Some(frames) = &mut self.frames {
            let columns = rows.columns.shown();
            frames.describe(&RowDescription { columns, lists: Vec::new() }, &mut self.chunk);
        }
        rows.encoder.start(&mut self.chunk);
        self.current = match rows.encoder {
            Encoder::Batches(_) => CurrentStatements::Batches(rows),
            _ => CurrentStatements::Rows(rows),
        };
    }

    fn execute_statement(&mut self, index: usize, args: &[usize]) {
        let args: Vec<&ParamValue> = args.iter().map(|&arg| &self.values[arg]).collect();
        if let Some(session) = &mut self.session {
            session.execute(index, &args);
        }
    }

    fn end_rows(&mut self) -> Result<(), Error> {
        let current = mem::replace(&mut self.current, CurrentStatements::Nothing);
        let (CurrentStatements::Rows(mut rows) | CurrentStatements::Batches(mut rows)) = current else {
            return Ok(());
        };
        if rows.encoder.rows() == 0
            && let Some(error) = rows.one_row.missing()
        {
            return Err(error);
        }
        rows.encoder.finish(&mut self.chunk);
        self.note_end(rows.cursors.as_deref(), rows.page, rows.encoder.rows());
        self.note_count(rows.statement, rows.encoder.rows());
        self.counts.end(&rows.name, StatementRows::of(rows.cardinality, rows.encoder.rows()));
        self.free_session();
        Ok(())
    }

    /// Notes the cursors at the end of a list with these `rows`, and the end of its page.
    fn note_end(&mut self, cursors: Option<&Cursors>, page: Option<u64>, rows: u64) {
        if let Some(cursors) = cursors {
            self.may_have_more = cursors.may_have_more(rows);
            let last = cursors.at_end();
            self.has_moved |= last.is_some();
            self.next = last.or(self.next.take());
            self.resume = cursors.within(rows).or(self.resume.take());
        }
        // A followed list has no last page.
        if let Some(limit) = page.filter(|_| self.following.is_over()) {
            let page_end = |cursors: &Cursors| cursors.page_end(limit, rows);
            self.page = cursors.map_or_else(|| PageEnd::of(limit, rows), page_end);
        }
    }

    /// Writes the cursor of the last row, or null without rows.
    fn write_next(&mut self) {
        match &self.next {
            // A cursor needs no escapes.
            Some(next) => self.chunk.extend_from_slice(format!("\"{next}\"").as_bytes()),
            None => self.chunk.extend_from_slice(b"null"),
        }
    }

    /// Notes the number of rows of a statement that has ended, for the placeholders after it.
    fn note_count(&mut self, ended: usize, rows: u64) {
        for step in self.steps.as_mut_slice() {
            match step {
                Step::Count(count) if count.statement == ended => count.rows = rows,
                _ => {}
            }
        }
    }

    /// Gives the session back if no statement is left.
    fn free_session(&mut self) {
        if prepared(self.steps.as_slice()) == 0 {
            self.session = None;
        }
    }

    /// Ready if bytes or rows may be sent and the source has had nothing ready for [`FLUSH_AFTER`]
    /// since the first of them. Without any, ready when a heartbeat is due.
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let holds_rows = self.current.rows().is_some_and(|rows| rows.encoder.holds_rows());
        let (armed, after) = match (!self.chunk.is_empty() || holds_rows, self.heartbeat) {
            _ if self.head == HeaderState::Held => return Poll::Pending,
            (true, _) => (TimerPurpose::Flush, FLUSH_AFTER),
            (false, Some((pause, _))) => (TimerPurpose::Heartbeat, self.mark_within(pause)),
            (false, None) => return Poll::Pending,
        };
        if mem::replace(&mut self.armed, armed) != armed {
            self.flush.restart(after);
        }
        self.flush.poll(cx)
    }

    /// The pause before a heartbeat, which is shorter if rows wait for a mark.
    fn mark_within(&self, pause: Duration) -> Duration {
        let has_cursor = self.has_cursors() || self.resume.is_some();
        let due = self
            .frames
            .as_ref()
            .filter(|_| has_cursor && !self.current.is_within_row())
            .and_then(|frames| frames.late_in(self.rows()));
        due.map_or(pause, |due| due.min(pause))
    }

    /// Writes the rows that the encoder has collected, or a heartbeat if there's nothing to write.
    fn flush_waiting(&mut self) {
        if let CurrentStatements::Rows(rows) = &mut self.current {
            rows.encoder.flush(&mut self.chunk);
        }
        if self.chunk.is_empty() {
            self.beat();
        }
    }

    fn take_chunk(&mut self) -> Bytes {
        self.armed = TimerPurpose::Nothing;
        self.flowing += self.chunk.len();
        self.taken = self.chunk.last().copied().or(self.taken);
        if let Some(digest) = &mut self.digest {
            digest.close(&self.chunk);
        }
        Bytes::from(mem::take(&mut self.chunk))
    }

    /// True if we know that the client keeps up.
    pub(crate) fn keeps_up(&self) -> bool {
        self.flowing >= FLOWING_AFTER
    }

    /// True if everything has been encoded, so the last chunk was the final one.
    pub fn is_done(&self) -> bool {
        matches!(self.current, CurrentStatements::Nothing)
            && self.steps.len() == 0
            && self.following.is_over()
            && self.frames.is_none()
            && self.failed.is_none()
    }

    /// The number of rows encoded so far, as a client counts them: without those inside of others.
    pub fn rows(&self) -> u64 {
        self.counts().rows
    }

    /// The rows encoded so far, by their place in the response.
    pub fn counts(&self) -> RowCounts {
        self.counts.with(self.current.count())
    }

    /// The rows of each list that has ended. Empty if the response has only one list.
    pub fn lists(&self) -> &[ListCount] {
        self.counts.lists()
    }

    /// The number of connections that read parts of a table. `None`: one connection reads all of
    /// it.
    pub fn parts(&self) -> Option<usize> {
        match self.part {
            Some(ReadPart::All(parts)) => Some(parts),
            Some(ReadPart::Shard(_)) | None => None,
        }
    }

    /// The parts of a table that it reads. `None`: one connection reads all of it.
    pub(crate) fn part(&self) -> Option<&ReadPart> {
        self.part.as_ref()
    }

    /// The end of the page, once all of its rows have arrived.
    pub fn page(&self) -> Option<PageEnd> {
        self.page
    }

    /// The cursor that begins the next page, once this one has ended and is full.
    pub fn next_page(&self) -> Option<&str> {
        self.next.as_deref().filter(|_| self.page == Some(PageEnd::Full))
    }

    /// Counts `took`, which has passed since the last poll, as encoding time: the chunk was
    /// compressed.
    pub fn compressed(&mut self, took: Duration) {
        self.clock.times.encode += took;
        self.clock.last += took;
    }

    /// Counts the time since the last chunk as waiting for the client, which still has bytes to
    /// read.
    pub(crate) fn wait_for_client(&mut self) {
        self.clock.enter(self.session.as_ref().is_some_and(Producer::holds_connection));
        self.clock.leave(Phase::Client);
    }

    /// The times up to the last poll.
    pub fn times(&self) -> Times {
        self.clock.times
    }

    /// The times up to now, for a stream that isn't polled any more.
    pub(crate) fn times_to_now(&self) -> Times {
        let mut clock = self.clock;
        clock.enter(self.session.as_ref().is_some_and(Producer::holds_connection));
        clock.times
    }
}
