//! The hot path: rows to chunks.
//!
//! The reader of a [`RowStream`] (the HTTP library, or a file) pulls chunks from it, and the stream
//! pulls rows from its session. There's no channel, queue or task of our own in between. So a
//! reader that stops reading also stops the database, and dropping the stream cancels its
//! statements. Invariants:
//!
//! 1. memory: one chunk and the session's buffer, for a result of any size. A chunk has at most
//!    [`CHUNK`](crate::budget::CHUNK) bytes and one row, or one Arrow batch, which is built before
//!    it's written. While the client hasn't read a chunk, no other is begun;
//! 2. a chunk is handed out when it's full, or when the source has had nothing ready for a
//!    millisecond. The first chunk also waits for the first row;
//! 3. after the last chunk of a complete result, the stream returns `None`. After a failure, it
//!    returns the chunk that was encoded before it, then `Err`, and nothing more. If that would be
//!    the first chunk, it's dropped, and the error has a status. A result that ends early can't
//!    look complete, because the encoder writes the closing bytes only when the rows themselves
//!    have ended;
//! 4. a row that fails leaves no byte in a chunk;
//! 5. rows that an encoder has collected (Arrow's open batch) count as waiting bytes: they're
//!    written when the source has had nothing ready for a millisecond, and before the end;
//! 6. the session is dropped at the last row, and not at the last byte. So a slow client doesn't
//!    keep the connection while it reads the last chunks.
//!
//! Nested statements are interleaved and merged by a [`Nest`], which has its own invariants.

mod calls;
mod chunk;
mod clock;
mod counts;
mod cursors;
pub(crate) mod encoder;
mod follow;
mod holder;
mod idle;
mod key;
mod lookup;
mod nest;
mod nest_encoder;
pub(crate) mod notifier;
mod open;
mod pages;
mod per_row;
mod position;
mod prepare;
mod producer;
mod reading;
mod refcursor;
mod steps;

use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use rowstream_core::Error;
use rowstream_core::error::ErrorDetail;
use rowstream_core::params::{ParamValue, RequestedShard};
use rowstream_core::pool::{SlowReader, Waiter};
use rowstream_encode::{CsvDialect, Format, ValueOptions};

use self::chunk::{FIRST_CHUNK, OpenChunk};
use self::clock::{Clock, Phase};
use self::counts::{Counts, StatementRows};
use self::cursors::Cursors;
use self::follow::FollowState;
pub(crate) use self::follow::{Follower, StreamOpening};
use self::holder::ConnectionHolder;
pub(crate) use self::idle::Heartbeat;
use self::idle::IdleTimer;
pub(crate) use self::lookup::{LookedUpRow, LookupResult, look_up, lookup};
use self::nest::Nest;
pub(crate) use self::open::{OpenedStatements, ReadPart};
use self::position::StreamPosition;
use self::producer::{Producer, Row};
use self::reading::{CurrentStatements, Reading};
use self::steps::{ProbeFinding, Rows, Step, pieces};
use crate::completeness::framing::{Frames, Record, RowDescription};
pub use crate::completeness::page::PageEnd;
use crate::endpoint::{Cardinality, Endpoint, Piece};
use crate::html::{Page, PageEnding};
use crate::outcome::RowTotal;
pub use crate::outcome::{ListCount, RowCounts, Times};
use crate::source::Source;

/// The most rows of a page whose headers wait for its end, so that they can name the next page.
/// Longer pages don't compute cursors that no part of the answer contains.
pub(crate) const SHORT_PAGE: u64 = 1000;
/// The chunks of one response.
pub struct RowStream {
    reading: Reading,
    /// The parts of a table that it reads. `None`: one connection reads all of it.
    part: Option<ReadPart>,
    holder: ConnectionHolder,
    chunk: OpenChunk,
    idle: IdleTimer,
    following: FollowState,
    position: StreamPosition,
    counts: Counts,
    /// True if there's something to do after a row: until the first row of a list, and on streams
    /// with marks.
    watches_rows: bool,
    /// Set in the framed profile, until its last record is written.
    frames: Option<Frames>,
    failure: StreamFailure,
    clock: Clock,
}

/// The error of a stream, and its form.
struct StreamFailure {
    /// Reported after the last chunk.
    pending: Option<Error>,
    /// How much the error record quotes from the database.
    detail: ErrorDetail,
    /// True if the request gave a value, which may be the reason of an error.
    given: bool,
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
        Self::open_with(endpoint, source, (format, endpoint.response.values), values).await
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
        Self::open_for(&Waiter::default(), endpoint, source, reading.into(), values, None).await
    }

    /// The same on behalf of `waiter`, which measures the wait for a connection even if none
    /// arrives. If the row was looked up before, `looked_up` has it.
    ///
    /// # Errors
    /// The same.
    pub(crate) async fn open_for(
        waiter: &Waiter,
        endpoint: &Endpoint,
        source: &Source,
        reading: RowsRequest,
        values: Vec<ParamValue>,
        looked_up: Option<Box<LookupResult>>,
    ) -> Result<Self, Error> {
        let OpenedStatements { producer, steps, values, mut clock, part, begin } =
            OpenedStatements::open(waiter, endpoint, source, &reading, values, looked_up).await?;
        clock.enter(true);
        clock.leave(Phase::Database);
        let has_digest = pieces(endpoint, reading.format, &[]).contains(&Piece::Digest);
        let capacity = if matches!(producer, Producer::Lookup(_)) { lookup::ROOM } else { FIRST_CHUNK * 2 };
        let heartbeat = Heartbeat::of(reading.format, endpoint.response.heartbeat)
            .filter(|_| reading.format == Format::Sse);
        Ok(Self {
            counts: Counts::of(&steps),
            reading: Reading::new(producer, steps, values),
            part,
            holder: ConnectionHolder::new(source.clone(), waiter.client()),
            chunk: OpenChunk::first(capacity, has_digest),
            idle: IdleTimer::with(heartbeat),
            following: FollowState::not(),
            position: StreamPosition { next: begin, resume: reading.after, ..StreamPosition::default() },
            watches_rows: true,
            frames: None,
            failure: StreamFailure { pending: None, detail: ErrorDetail::Code, given: true },
            clock,
        })
    }

    /// Keeps the stream open after the last row, for the rows that `follower` brings. From now on
    /// it sends the `heartbeat`.
    pub(crate) fn follow(&mut self, follower: Follower, heartbeat: Option<Heartbeat>) {
        self.following = FollowState::by(follower);
        self.idle.heartbeat = heartbeat;
    }

    /// Adds records about the end of the rows, from the first chunk on, with a digest of the
    /// preceding bytes if `digest`. From now on it sends the `heartbeat`.
    pub(crate) fn frame(&mut self, frames: Frames, digest: bool, heartbeat: Option<Heartbeat>) {
        self.frames = Some(frames);
        self.idle.heartbeat = heartbeat;
        self.chunk.set_digest(digest);
    }

    /// True if it computes the digest of its bytes.
    pub(crate) fn has_digest(&self) -> bool {
        self.chunk.has_digest()
    }

    /// The digest of all chunks of a complete result. `None` if it isn't computed.
    pub(crate) fn digest(&self) -> Option<String> {
        self.chunk.taken_digest()
    }

    /// The next chunk; `None` after the last one of a complete result.
    ///
    /// # Errors
    /// The result can't be completed. Nothing may be polled after that.
    pub fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>> {
        let waited = self.clock.enter(self.reading.holds_connection());
        if let Some(error) = self.failure.pending.take() {
            return Poll::Ready(Some(Err(error)));
        }
        if self.chunk.is_taken() && !self.is_done() {
            self.chunk.begin(waited);
        }
        let polled = match self.poll_readings(cx) {
            Poll::Ready(Ok(())) if self.chunk.bytes.is_empty() => Poll::Ready(None),
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
            false if self.reading.waits_for_place() => Phase::Pool,
            false => Phase::Database,
        });
        polled
    }

    /// Encodes rows until the chunk is full or everything is done. If a later reading of a followed
    /// stream fails, it may begin again.
    fn poll_readings(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        loop {
            match ready!(self.poll_fill(cx)) {
                Ok(()) => return Poll::Ready(Ok(())),
                Err(error) => {
                    let rows = self.reading.current.count().map_or(0, |count| count.rows);
                    self.following.begin_again(error, rows)?;
                }
            }
            self.drop_reading();
        }
    }

    /// Encodes rows until the chunk is full or everything is done.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        while !self.chunk.is_full() {
            let (rows, row) = match (&mut self.reading.current, &mut self.reading.producer) {
                (CurrentStatements::Rows(rows), Some(producer)) => (rows, ready!(producer.poll_row(cx))?),
                (CurrentStatements::Enriched(rows, calls), Some(producer)) => {
                    (rows, ready!(calls.poll_row(producer, cx))?.map(Row::Enriched))
                }
                _ => {
                    if !ready!(self.poll_step(cx))? {
                        break;
                    }
                    continue;
                }
            };
            match row {
                Some(row) => {
                    rows.admit_row()?;
                    let begin = self.chunk.bytes.len();
                    if let Err(error) = rows.encode(row, &mut self.chunk.bytes) {
                        self.chunk.bytes.truncate(begin);
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

    /// Advances statements that don't deliver single rows, or begins the next piece. False if the
    /// chunk has to be sent, or nothing is left.
    fn poll_step(&mut self, cx: &mut Context<'_>) -> Poll<Result<bool, Error>> {
        match self.reading.current {
            CurrentStatements::Nest(_) => ready!(self.poll_nest(cx))?,
            CurrentStatements::Batches(_) => ready!(self.poll_batch(cx))?,
            CurrentStatements::Probe(_) => ready!(self.poll_probe(cx))?,
            CurrentStatements::Total(_) => ready!(self.poll_total(cx))?,
            CurrentStatements::Awaited(..) => ready!(self.poll_result(cx))?,
            CurrentStatements::Rows(_) | CurrentStatements::Enriched(..) => return ended_early(),
            CurrentStatements::Nothing if self.reading.is_done() && !self.following.is_over() => {
                self.send_head();
                // Existing bytes are sent first, because a client that reads nothing shouldn't wait
                // for a connection.
                if !self.chunk.bytes.is_empty() {
                    return Poll::Ready(Ok(false));
                }
                ready!(self.poll_follow(cx))?;
            }
            CurrentStatements::Nothing => return Poll::Ready(self.next_step()),
        }
        Poll::Ready(Ok(true))
    }

    /// Writes the next batch of rows, or ends the rows.
    fn poll_batch(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let (CurrentStatements::Batches(rows), Some(Producer::Statements(session))) =
            (&mut self.reading.current, &mut self.reading.producer)
        else {
            return ended_early();
        };
        match ready!(session.poll_batch(cx))? {
            Some(batch) => {
                rows.batch(batch, &mut self.chunk.bytes)?;
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
        self.chunk.send_head();
        self.watches_rows = self.has_cursors() && self.frames.as_ref().is_some_and(Frames::has_marks);
        self.mark(Frames::is_due);
    }

    /// The cursor that begins a new page after the last encoded row; `None` if the endpoint has no
    /// key.
    pub(crate) fn cursor(&self) -> Option<String> {
        let cursors = self.reading.current.cursors();
        cursors.and_then(|(cursors, _)| cursors.at_end()).or_else(|| self.position.next.clone())
    }

    /// True if the rows that are being read have cursors.
    pub(crate) fn has_cursors(&self) -> bool {
        self.reading.current.has_cursors()
    }

    /// True if the list with the key has ended, and had a row.
    pub(crate) fn has_moved(&self) -> bool {
        self.position.has_moved
    }

    /// The cursor that continues the list after the last encoded row.
    fn resume_cursor(&self) -> Option<String> {
        let cursors = self.reading.current.cursors();
        cursors.and_then(|(cursors, rows)| cursors.within(rows)).or_else(|| self.position.resume.clone())
    }

    /// Writes a mark if rows have waited too long for one and more rows may follow.
    fn mark_if_late(&mut self) {
        let may_continue = self.reading.current.is_list() || !self.following.is_over();
        if self.frames.is_some() && may_continue {
            self.mark(Frames::is_late);
        }
    }

    /// Writes a mark if one is due after the rows so far.
    fn mark(&mut self, is_due: impl FnOnce(&Frames, u64) -> bool) {
        if self.reading.current.is_within_row() {
            return;
        }
        let rows = self.rows();
        if self.frames.as_ref().is_some_and(|frames| is_due(frames, rows))
            && let Some(next) = self.resume_cursor()
            && let Some(frames) = &mut self.frames
        {
            let digest = self.chunk.digest();
            frames.mark(rows, &next, digest.as_deref(), &mut self.chunk.bytes);
        }
    }

    /// Encodes the next row of nested statements, or ends one of their lists.
    fn poll_nest(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let (CurrentStatements::Nest(nest), Some(Producer::Statements(session))) =
            (&mut self.reading.current, &mut self.reading.producer)
        else {
            return ended_early();
        };
        if !ready!(nest.poll_step(session, cx, &mut self.chunk.bytes))? {
            self.end_nest();
        } else if self.watches_rows && nest.cursors().is_some() {
            self.note_row();
        } else if nest.has_begun() {
            self.chunk.send_head();
        }
        Poll::Ready(Ok(()))
    }

    /// Refuses the response if it would leave out a row.
    fn poll_probe(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let (CurrentStatements::Probe(probe), Some(producer)) =
            (&self.reading.current, &mut self.reading.producer)
        else {
            return ended_early();
        };
        if ready!(producer.poll_row(cx))?.is_some() {
            return Poll::Ready(Err(match probe.finds {
                ProbeFinding::LeftOut { committed_only } => Cursors::left_out(&probe.name, committed_only),
                ProbeFinding::Ahead => Cursors::ahead(),
            }));
        }
        self.reading.current = CurrentStatements::Nothing;
        Poll::Ready(Ok(()))
    }

    /// Reads the number of all rows.
    fn poll_total(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let (CurrentStatements::Total(total), Some(producer)) =
            (&mut self.reading.current, &mut self.reading.producer)
        else {
            return ended_early();
        };
        match ready!(producer.poll_row(cx))? {
            Some(row) if !total.is_read => {
                let mut value = Vec::new();
                total.encoder.encode(row, &mut value)?;
                self.counts.total = total.reads.total(&value, self.counts.total)?;
                total.is_read = true;
            }
            Some(_) => {}
            None => self.reading.current = CurrentStatements::Nothing,
        }
        Poll::Ready(Ok(()))
    }

    /// The number of all rows of the list, if the request asked for it.
    pub(crate) fn total(&self) -> Option<RowTotal> {
        self.counts.total
    }

    /// Waits for the columns of a procedure's next result.
    fn poll_result(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let (CurrentStatements::Awaited(_, awaited), Some(Producer::Statements(session))) =
            (&self.reading.current, &mut self.reading.producer)
        else {
            return ended_early();
        };
        let columns = ready!(session.poll_result(awaited.result, cx))?;
        if let CurrentStatements::Awaited(mut rows, awaited) = self.reading.take_current() {
            rows.describe(awaited, columns)?;
            self.begin_rows(rows)?;
        }
        Poll::Ready(Ok(()))
    }

    fn end_nest(&mut self) {
        if let CurrentStatements::Nest(nest) = self.reading.take_current() {
            for (statement, rows) in nest.counts() {
                self.reading.note_count(statement, rows);
            }
            let count = nest.count();
            self.counts.end(nest.name(), count);
            let (cursors, page) = nest.into_end();
            self.end_list(cursors.as_deref(), page, count.rows);
            self.reading.free_producer();
        }
    }

    /// Sends the headers without a row, because the first one may be hours away.
    fn send_head(&mut self) {
        if self.chunk.send_head() {
            self.beat();
        }
    }

    /// Waits for rows that are added after the last one.
    fn poll_follow(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let after = || (self.position.next.clone(), self.position.may_have_more);
        if let Some(opened) = ready!(self.following.poll_next(after, cx))? {
            self.clock.times.pool += opened.clock.times.pool;
            self.reading = Reading::new(opened.producer, opened.steps, opened.values);
        }
        Poll::Ready(Ok(()))
    }

    /// Drops a reading that has failed between two rows. The next one begins after the last of
    /// them.
    fn drop_reading(&mut self) {
        (self.position.next, self.position.resume) = (self.cursor(), self.resume_cursor());
        self.position.may_have_more = true;
        self.counts.keep(self.reading.current.count());
        self.reading = Reading::none();
    }

    /// Sends a heartbeat: a mark if the stream has marks, because that contains more information.
    fn beat(&mut self) {
        self.mark(|frames, _| frames.has_marks());
        if let (true, Some(heartbeat)) = (self.chunk.bytes.is_empty(), self.idle.heartbeat) {
            // A row with lists in it may have begun, and a line break would split it. A blank is
            // allowed between its values.
            let is_within_row = self.chunk.last_byte().is_some_and(|last| !matches!(last, b'\n' | 0x1e));
            self.chunk.bytes.extend_from_slice(if is_within_row { b" " } else { heartbeat.bytes });
        }
    }

    /// Begins the next piece of the body; false if there's none.
    ///
    /// # Errors
    /// The calls for its rows can't be made.
    fn next_step(&mut self) -> Result<bool, Error> {
        match self.reading.steps.next() {
            Some(Step::Literal(text)) => self.chunk.bytes.extend_from_slice(&text),
            Some(Step::Probe(probe)) => self.reading.execute_probe(probe),
            Some(Step::Total(total)) => self.reading.execute_total(total),
            Some(Step::Rows(rows)) => self.execute(*rows)?,
            Some(Step::Nest(nest)) => self.execute_nest(nest),
            Some(Step::Count(count)) => {
                self.chunk.bytes.extend_from_slice(count.rows.to_string().as_bytes());
            }
            Some(Step::Next) => self.write_next(),
            Some(Step::Digest) => self.write_digest(),
            Some(Step::PageEnd(page)) => self.end_page(&page),
            None => return Ok(self.end_frames()),
        }
        Ok(true)
    }

    /// Writes the end of a page for browsers.
    fn end_page(&mut self, page: &Page) {
        let end = PageEnding { rows: self.rows(), total: self.counts.total, next: self.next_page() };
        let end = page.end(&end);
        self.chunk.bytes.extend_from_slice(&end);
    }

    fn write_digest(&mut self) {
        if let Some(digest) = self.chunk.digest() {
            self.chunk.bytes.extend_from_slice(format!("\"{digest}\"").as_bytes());
        }
    }

    /// Sets how much the error record quotes from the database, and records if the request gave a
    /// value.
    pub(crate) fn tell(&mut self, detail: ErrorDetail, given: bool) {
        (self.failure.detail, self.failure.given) = (detail, given);
    }

    /// The time since the stream should have given up its connection to a waiting request, because
    /// its client is slow. `None` if it may keep it.
    pub(crate) fn gives_way(&mut self, reader: Option<SlowReader>) -> Option<Duration> {
        self.holder.gives_way(reader, self.reading.holds_connection())
    }

    /// The deadline for reading further rows, even if the client is slow.
    pub(crate) fn read_by(&self) -> Option<Instant> {
        self.reading.producer.as_ref().and_then(Producer::read_by)
    }

    /// Writes the end record; false if there's none or it has been written.
    fn end_frames(&mut self) -> bool {
        let Some(frames) = self.frames.take() else { return false };
        let (rows, next) = (self.counts(), self.cursor());
        let digest = self.chunk.digest();
        let (total, page) = (self.counts.total.map(|total| total.rows), self.position.page);
        let end = Record::End { rows, total, next: next.as_deref(), page, digest: digest.as_deref() };
        frames.write(&end, &mut self.chunk.bytes);
        true
    }

    /// Ends a result that can't be completed. If the client already has a chunk, it first gets the
    /// bytes that were encoded since then, and the error record.
    fn fail(&mut self, error: Error) -> Result<Bytes, Error> {
        self.reading.stop();
        self.following = FollowState::not();
        let error = error.of_request(self.failure.given).in_detail(self.failure.detail);
        if !self.chunk.has_previous() {
            return Err(error);
        }
        if let Some(frames) = self.frames.take() {
            let is_within_line = self.chunk.last_byte() != Some(b'\n');
            frames.write_error(&error, is_within_line, &mut self.chunk.bytes);
        }
        if self.chunk.bytes.is_empty() {
            return Err(error);
        }
        self.failure.pending = Some(error);
        Ok(self.take_chunk())
    }

    fn execute_nest(&mut self, nest: Box<Nest>) {
        if let Some(frames) = &mut self.frames {
            frames.describe(&nest.description(), &mut self.chunk.bytes);
        }
        self.reading.execute_nest(nest, &mut self.chunk.bytes);
    }

    fn execute(&mut self, mut rows: Rows) -> Result<(), Error> {
        if let Some(awaited) = rows.awaited.take() {
            self.reading.current = CurrentStatements::Awaited(rows, *awaited);
            return Ok(());
        }
        self.reading.execute_rows(&rows);
        self.begin_rows(rows)
    }

    fn begin_rows(&mut self, rows: Rows) -> Result<(), Error> {
        if let Some(frames) = &mut self.frames {
            let columns = rows.columns.shown();
            frames.describe(&RowDescription { columns, lists: Vec::new() }, &mut self.chunk.bytes);
        }
        self.reading.begin_rows(rows, &mut self.chunk.bytes)
    }

    fn end_rows(&mut self) -> Result<(), Error> {
        let (CurrentStatements::Rows(mut rows)
        | CurrentStatements::Batches(mut rows)
        | CurrentStatements::Enriched(mut rows, _)) = self.reading.take_current()
        else {
            return Ok(());
        };
        rows.one_row.check_end(rows.encoder.rows())?;
        rows.encoder.finish(&mut self.chunk.bytes);
        self.end_list(rows.cursors.as_deref(), rows.page, rows.encoder.rows());
        self.reading.note_count(rows.statement, rows.encoder.rows());
        self.counts.end(&rows.name, StatementRows::of(rows.cardinality, rows.encoder.rows()));
        self.reading.free_producer();
        Ok(())
    }

    /// Notes the end of a list with these `rows`.
    fn end_list(&mut self, cursors: Option<&Cursors>, page: Option<u64>, rows: u64) {
        // A followed list has no last page.
        let page = page.filter(|_| self.following.is_over());
        self.position.end_list(cursors, page, rows);
    }

    /// Writes the cursor of the last row, or null without rows.
    fn write_next(&mut self) {
        match &self.position.next {
            // A cursor needs no escapes.
            Some(next) => self.chunk.bytes.extend_from_slice(format!("\"{next}\"").as_bytes()),
            None => self.chunk.bytes.extend_from_slice(b"null"),
        }
    }

    /// Ready if bytes or rows may be sent and the source has had nothing ready for a millisecond
    /// since the first of them. Without any, ready when a heartbeat is due.
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.chunk.holds_head() {
            return Poll::Pending;
        }
        if !self.chunk.bytes.is_empty() || self.reading.current.holds_rows() {
            return self.idle.poll_flush(cx);
        }
        match self.idle.heartbeat {
            Some(heartbeat) => self.idle.poll_heartbeat(self.mark_within(heartbeat.pause), cx),
            None => Poll::Pending,
        }
    }

    /// The pause before a heartbeat, which is shorter if rows wait for a mark.
    fn mark_within(&self, pause: Duration) -> Duration {
        let has_cursor = self.has_cursors() || self.position.resume.is_some();
        let due = self
            .frames
            .as_ref()
            .filter(|_| has_cursor && !self.reading.current.is_within_row())
            .and_then(|frames| frames.late_in(self.rows()));
        due.map_or(pause, |due| due.min(pause))
    }

    /// Writes the rows that the encoder has collected, or a heartbeat if there's nothing to write.
    fn flush_waiting(&mut self) {
        match &mut self.reading.current {
            CurrentStatements::Rows(rows) => rows.encoder.flush(&mut self.chunk.bytes),
            CurrentStatements::Nest(nest) => nest.flush(&mut self.chunk.bytes),
            _ => {}
        }
        if self.chunk.bytes.is_empty() {
            self.beat();
        }
    }

    fn take_chunk(&mut self) -> Bytes {
        self.idle.reset();
        self.chunk.take()
    }

    /// True if we know that the client keeps up.
    pub(crate) fn keeps_up(&self) -> bool {
        self.chunk.keeps_up()
    }

    /// True if everything has been encoded, so the last chunk was the final one.
    pub fn is_done(&self) -> bool {
        self.reading.is_done()
            && self.following.is_over()
            && self.frames.is_none()
            && self.failure.pending.is_none()
    }

    /// The number of rows encoded so far, as a client counts them: without those inside of others.
    pub fn rows(&self) -> u64 {
        self.counts().rows
    }

    /// The rows encoded so far, by their place in the response.
    pub fn counts(&self) -> RowCounts {
        self.counts.with(self.reading.current.count())
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
        self.position.page
    }

    /// The cursor that begins the next page, once this one has ended and is full.
    pub fn next_page(&self) -> Option<&str> {
        self.position.next_page()
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
        self.clock.enter(self.reading.holds_connection());
        self.clock.leave(Phase::Client);
    }

    /// The times up to the last poll.
    pub fn times(&self) -> Times {
        self.clock.times
    }

    /// The times up to now, for a stream that isn't polled any more.
    pub(crate) fn times_to_now(&self) -> Times {
        let mut clock = self.clock;
        clock.enter(self.reading.holds_connection());
        clock.times
    }
}

/// The error of statements that are being read although their producer is gone.
fn ended_early<T>() -> Poll<Result<T, Error>> {
    Poll::Ready(Err(Error::endpoint("the statements have ended too early")))
}
