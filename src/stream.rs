//! The hot path: rows to chunks.
//!
//! A [`RowStream`] is pulled by whoever sends its chunks (the HTTP library, a file) and pulls rows
//! from its session. No channel, no queue and no task of our own stands between, so a reader that
//! does not read stops the database, and dropping the stream cancels what runs there. Invariants:
//!
//! 1. memory: one chunk (at most [`CHUNK`] and one row, or one of Arrow's batches, which is built
//!    before it is written) and the session's buffer, whatever the size of the result; while the
//!    client does not take a chunk, none is begun;
//! 2. a chunk is handed out when it is full, or when the source has had nothing ready for
//!    [`FLUSH_AFTER`]; the first one not before there is a row;
//! 3. after the last chunk of a whole result comes `None`; after a failure comes `Err`, and nothing
//!    more, but before it what had been encoded, unless that would have been the first chunk: then
//!    the error has a status. A result that ends early cannot look whole: its closing bytes are
//!    written by the encoder only at the rows' own end;
//! 4. a failed row leaves no byte in a chunk.
//!
//! Statements whose rows have others nested in them are interleaved, and merged by a [`Nest`],
//! which has invariants of its own.

mod calls;
mod clock;
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
use rowstream_encode::{Format, ValueOptions};

use self::clock::{Clock, Phase};
use self::cursors::Cursors;
use self::encoder::Encoder;
pub(crate) use self::follow::{Follower, Reopen};
use self::follow::{Following, heartbeat};
pub(crate) use self::lookup::{LookedUp, LookedUpRow, look_up, lookup};
use self::nest::Nest;
pub(crate) use self::open::{Opened, Part};
use self::producer::Producer;
use self::steps::{Awaited, Finds, Probe, Rows, Step, pieces, prepared};
use crate::Error;
use crate::budget::CHUNK;
use crate::client::Client;
use crate::completeness::digest::ChunkDigest;
use crate::completeness::framing::{Frames, Record};
pub use crate::completeness::page::PageEnd;
use crate::endpoint::{Cardinality, Endpoint, Piece};
use crate::error::ErrorDetail;
pub use crate::outcome::Times;
use crate::params::{AskedShard, ParamValue};
use crate::pool::{SlowReader, SlowStream, Waiter};
use crate::source::Source;
use crate::timer::Timer;
use crate::upstream;

/// The first chunk is full earlier: the client's first byte matters more than one write.
const FIRST_CHUNK: usize = 4 * 1024;
/// A full chunk until the client is known to keep up. There may be hundreds that do not, and each
/// holds one or two chunks for most of its time.
const SMALL_CHUNK: usize = 8 * 1024;
/// A client keeps up once it took so much in a go: more than the sockets' buffers hold.
const FLOWING_AFTER: usize = 512 * 1024;
/// A client that lets a chunk wait for so long is slow. A fast one on a busy machine takes a few
/// time slices.
const SLOW_AFTER: Duration = Duration::from_millis(50);
/// The most rows of a page whose head waits for its end, and names the next page. Longer pages do
/// not pay for cursors that nothing holds.
pub(crate) const SHORT_PAGE: u64 = 1000;
/// How long rows may wait for company once the source has nothing ready. A flush at each empty read
/// would send a chunk per 8 KiB.
const FLUSH_AFTER: Duration = Duration::from_millis(1);

/// The chunks of one response.
pub struct RowStream {
    /// Dropped at the last row, so that the connection is free while the last chunks are still on
    /// their way.
    session: Option<Producer>,
    /// The source that its connection is of, and its client.
    source: Source,
    client: Client,
    /// The parts of a table that it reads; `None`: all of it, by one connection.
    part: Option<Part>,
    /// While its client is slow and holds that connection.
    slow: Option<SlowStream>,
    steps: std::vec::IntoIter<Step>,
    current: Current,
    values: Vec<ParamValue>,
    chunk: Vec<u8>,
    head: Head,
    /// Bytes since the start, or since the client was slow.
    flowing: usize,
    flush: Timer,
    armed: Armed,
    /// How long the source may have nothing before the stream says that it is still there, and how
    /// it does.
    heartbeat: Option<(Duration, &'static [u8])>,
    following: Following,
    /// Behind which row the stream can be resumed, once the statement with the key has ended.
    next: Option<String>,
    /// Whether rows may stand after that statement's, where it has a known limit.
    page: Option<PageEnd>,
    /// Whether it had rows, and may have others that its limit has kept back.
    may_have_more: bool,
    rows: u64,
    /// Whether there is something to do after a row: until the first of a list, and on streams
    /// with marks.
    watches_rows: bool,
    /// In the framed profile, until its last record is written.
    frames: Option<Frames>,
    digest: Option<Box<ChunkDigest>>,
    /// Whether a chunk was taken, and the last byte of the last one.
    taken: Option<u8>,
    /// Follows the chunk that was taken last.
    failed: Option<Error>,
    detail: ErrorDetail,
    /// If the request gave a value, which may be the reason of an error.
    given: bool,
    clock: Clock,
}

/// What a response reads, and how it is written.
#[derive(Debug, Clone)]
pub struct Reading {
    /// How values become bytes.
    pub format: Format,
    /// How values are written.
    pub options: ValueOptions,
    /// The cursor after whose row the rows begin.
    pub after: Option<String>,
    /// The part of the table that is read; `None`: all of it.
    pub shard: Option<AskedShard>,
    /// Whether cursors are asked for beside those that the body holds.
    pub cursors: bool,
    /// Who is asked for each row, as the endpoint's calls number them.
    pub upstreams: Vec<upstream::Source>,
}

/// All rows, in a format and with these options.
impl From<(Format, ValueOptions)> for Reading {
    fn from((format, options): (Format, ValueOptions)) -> Self {
        Self { format, options, after: None, shard: None, cursors: false, upstreams: Vec::new() }
    }
}

/// Whether the head waits for a row, and how large chunks are once it does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Head {
    /// No chunk is full, and none is flushed: an error before the first row then has a real status,
    /// also when the body begins with literals, and however long the database takes. The rows of
    /// `:one` and `:value` do not count, because a second one would be an error.
    Held,
    /// The head may be sent, and a chunk of so many bytes is full.
    Sent(usize),
}

impl Head {
    #[inline]
    fn is_full(self, chunk: usize) -> bool {
        matches!(self, Self::Sent(full) if chunk >= full)
    }

    /// Waits for nothing any more. Whether it did until now.
    fn send(&mut self) -> bool {
        let held = *self == Self::Held;
        if held {
            *self = Self::Sent(FIRST_CHUNK);
        }
        held
    }
}

/// The statements that are being read.
enum Current {
    Nothing,
    Rows(Rows),
    /// Rows that come as record batches.
    Batches(Rows),
    Nest(Box<Nest>),
    Probe(Probe),
    /// The columns of its result are awaited.
    Awaited(Rows, Awaited),
}

impl Current {
    fn rows(&self) -> Option<&Rows> {
        match self {
            Self::Rows(rows) | Self::Batches(rows) => Some(rows),
            Self::Nothing | Self::Nest(_) | Self::Probe(_) | Self::Awaited(..) => None,
        }
    }

    /// How many rows were encoded.
    fn count(&self) -> u64 {
        match self {
            Self::Rows(rows) | Self::Batches(rows) => rows.encoder.rows(),
            Self::Nest(nest) => nest.counts().map(|(_, rows)| rows).sum(),
            Self::Nothing | Self::Probe(_) | Self::Awaited(..) => 0,
        }
    }
}

/// What the timer of a stream waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Armed {
    Nothing,
    Flush,
    Heartbeat,
}

impl RowStream {
    /// Takes a connection, prepares the statements that `format` needs, and calls those that open
    /// refcursors; all others run when chunks are polled.
    ///
    /// # Errors
    /// The pool's, the database's, or a statement that does not fit its place in the body.
    pub async fn open(
        endpoint: &Endpoint,
        source: &Source,
        format: Format,
        values: Vec<ParamValue>,
    ) -> Result<Self, Error> {
        Self::open_with(endpoint, source, (format, endpoint.options), values).await
    }

    /// [`RowStream::open`] for more than the endpoint's own.
    ///
    /// # Errors
    /// The same, and 400 for a cursor that is not one of the endpoint's.
    pub async fn open_with(
        endpoint: &Endpoint,
        source: &Source,
        reading: impl Into<Reading>,
        values: Vec<ParamValue>,
    ) -> Result<Self, Error> {
        Self::open_for(&Waiter::default(), (endpoint, source), reading.into(), values, None).await
    }

    /// The same on behalf of `waiter`, which knows how long it has waited for a connection, also
    /// where none came; and of what was looked up before, if it was.
    ///
    /// # Errors
    /// The same.
    pub(crate) async fn open_for(
        waiter: &Waiter,
        (endpoint, source): (&Endpoint, &Source),
        reading: Reading,
        values: Vec<ParamValue>,
        looked_up: Option<Box<LookedUp>>,
    ) -> Result<Self, Error> {
        let Opened { session, steps, values, mut clock, part } =
            Opened::open(waiter, (endpoint, source), &reading, values, looked_up).await?;
        clock.enter(true);
        clock.leave(Phase::Database);
        let digest = pieces(endpoint, reading.format, &[]).contains(&Piece::Digest).then(Box::default);
        let capacity = if !session.holds_connection() { lookup::ROOM } else { FIRST_CHUNK * 2 };
        let beat = heartbeat(reading.format).filter(|_| reading.format == Format::Sse);
        Ok(Self {
            part,
            session: Some(session),
            source: source.clone(),
            client: waiter.client(),
            slow: None,
            steps: steps.into_iter(),
            current: Current::Nothing,
            values,
            chunk: Vec::with_capacity(capacity),
            head: Head::Held,
            flowing: 0,
            flush: Timer::default(),
            armed: Armed::Nothing,
            heartbeat: beat.map(|beat| (endpoint.heartbeat, beat)),
            following: Following::not(),
            next: reading.after,
            page: None,
            may_have_more: false,
            rows: 0,
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

    /// Stays open after the last row for those that `follower` brings. From now on it says that it
    /// is there after each `pause`.
    pub(crate) fn follow(&mut self, follower: Follower, (format, pause): (Format, Duration)) {
        self.following = Following::by(follower);
        self.heartbeat = heartbeat(format).map(|beat| (pause, beat));
    }

    /// From the first chunk on, has `frames` say how the rows end, with a digest of what stands
    /// before that if `digest`.
    pub(crate) fn frame(&mut self, frames: Frames, digest: bool) {
        self.frames = Some(frames);
        self.digest = digest.then(Box::default);
    }

    /// The next chunk; `None` after the last one of a whole result.
    ///
    /// # Errors
    /// The result cannot be completed. Nothing may be polled after that.
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

    /// Makes room for a chunk when it is asked for, `waited` after the one before.
    fn begin_chunk(&mut self, waited: Duration) {
        if waited > SLOW_AFTER {
            self.flowing = 0;
        }
        let full = if self.keeps_up() { CHUNK } else { SMALL_CHUNK };
        self.head = Head::Sent(full);
        // A row may overshoot the mark; the slack keeps most of them from growing the buffer.
        self.chunk.reserve(full + full / 8);
    }

    /// Encodes rows until the chunk is full or all is done. A later reading of a stream that follows
    /// may begin again.
    fn poll_readings(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        loop {
            match ready!(self.poll_fill(cx)) {
                Ok(()) => return Poll::Ready(Ok(())),
                Err(error) => self.following.begin_again(error, self.current.count())?,
            }
            self.drop_reading();
        }
    }

    /// Encodes rows until the chunk is full or all is done.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        while !self.head.is_full(self.chunk.len()) {
            let (Current::Rows(rows), Some(session)) = (&mut self.current, &mut self.session) else {
                if matches!(self.current, Current::Nest(_)) {
                    ready!(self.poll_nest(cx))?;
                } else if matches!(self.current, Current::Batches(_)) {
                    ready!(self.poll_batch(cx))?;
                } else if matches!(self.current, Current::Probe(_)) {
                    ready!(self.poll_probe(cx))?;
                } else if matches!(self.current, Current::Awaited(..)) {
                    ready!(self.poll_result(cx))?;
                } else if self.steps.len() == 0 && !self.following.is_over() {
                    self.send_head();
                    // What there is goes first: a client that takes nothing must not wait for a
                    // connection.
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

    /// Writes the next rows of those that come as batches, or ends them.
    fn poll_batch(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let (Current::Batches(rows), Some(session)) = (&mut self.current, &mut self.session) else {
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

    /// Does what is to be done after a row of a list.
    #[cold]
    fn note_row(&mut self) {
        self.head.send();
        let has_cursors = self.current.rows().is_some_and(|rows| rows.cursors.is_some());
        self.watches_rows = has_cursors && self.frames.as_ref().is_some_and(Frames::has_marks);
        self.mark(Frames::is_due);
    }

    /// The cursor after the row that was encoded last; `None` on endpoints without a key.
    pub(crate) fn cursor(&self) -> Option<String> {
        let cursors = self.current.rows().and_then(|rows| rows.cursors.as_ref());
        cursors.and_then(|cursors| cursors.last()).or_else(|| self.next.clone())
    }

    /// Writes a mark where rows have waited for one for too long, and more are to come.
    fn mark_if_late(&mut self) {
        if self.frames.is_some() && (self.current.rows().is_some() || !self.following.is_over()) {
            self.mark(Frames::is_late);
        }
    }

    /// Writes a mark where one is due after the rows so far.
    fn mark(&mut self, is_due: impl FnOnce(&Frames, u64) -> bool) {
        let rows = self.rows();
        if self.frames.as_ref().is_some_and(|frames| is_due(frames, rows))
            && let Some(next) = self.cursor()
            && let Some(frames) = &mut self.frames
        {
            frames.mark(rows, &next, &mut self.chunk);
        }
    }

    /// Encodes the next row of statements that are nested, or ends one of their lists.
    fn poll_nest(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let (Current::Nest(nest), Some(session)) = (&mut self.current, &mut self.session) else {
            return Poll::Ready(Err(Error::endpoint("the statements have ended too early")));
        };
        if !ready!(nest.poll_step(session, cx, &mut self.chunk))? {
            self.end_nest();
        } else if nest.has_rows() {
            self.head.send();
        }
        Poll::Ready(Ok(()))
    }

    /// Refuses the response if there is a row that it would leave out.
    fn poll_probe(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let (Current::Probe(probe), Some(session)) = (&self.current, &mut self.session) else {
            return Poll::Ready(Err(Error::endpoint("the statements have ended too early")));
        };
        if ready!(session.poll_row(cx))?.is_some() {
            return Poll::Ready(Err(match probe.finds {
                Finds::LeftOut { committed_only } => Cursors::left_out(&probe.name, committed_only),
                Finds::Ahead => Cursors::ahead(),
            }));
        }
        self.current = Current::Nothing;
        Poll::Ready(Ok(()))
    }

    /// Waits for the columns of a procedure's next result.
    fn poll_result(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let (Current::Awaited(_, awaited), Some(session)) = (&self.current, &mut self.session) else {
            return Poll::Ready(Err(Error::endpoint("the statements have ended too early")));
        };
        let columns = ready!(session.poll_result(awaited.result, cx))?;
        if let Current::Awaited(mut rows, awaited) = mem::replace(&mut self.current, Current::Nothing) {
            rows.describe(awaited, &columns)?;
            self.begin_rows(rows);
        }
        Poll::Ready(Ok(()))
    }

    fn end_nest(&mut self) {
        if let Current::Nest(nest) = mem::replace(&mut self.current, Current::Nothing) {
            for (statement, rows) in nest.counts() {
                self.note_count(statement, rows);
            }
            self.free_session();
        }
    }

    /// Has the head wait for no row: there may be none for hours.
    fn send_head(&mut self) {
        if self.head.send() {
            self.beat();
        }
    }

    /// Waits for rows after the last one.
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

    /// Drops a reading that has failed between two rows; the next one begins after the last of them.
    fn drop_reading(&mut self) {
        self.next = self.cursor();
        self.may_have_more = true;
        self.rows += self.current.count();
        self.current = Current::Nothing;
        self.steps = Vec::new().into_iter();
        self.session = None;
    }

    /// Says that the stream is still there: by a mark where there are some, which tells more.
    fn beat(&mut self) {
        self.mark(|frames, _| frames.has_marks());
        if let (true, Some((_, beat))) = (self.chunk.is_empty(), self.heartbeat) {
            self.chunk.extend_from_slice(beat);
        }
    }

    /// Goes on to the next piece of the body; false when there is none.
    fn next_step(&mut self) -> bool {
        match self.steps.next() {
            Some(Step::Literal(text)) => self.chunk.extend_from_slice(&text),
            Some(Step::Probe(probe)) => self.execute_probe(probe),
            Some(Step::Rows(rows)) => self.execute(rows),
            Some(Step::Nest(nest)) => self.execute_nest(nest),
            Some(Step::Count(count)) => self.chunk.extend_from_slice(count.rows.to_string().as_bytes()),
            Some(Step::Next) => self.write_next(),
            Some(Step::Digest) => self.write_digest(),
            None => return self.end_frames(),
        }
        true
    }

    fn write_digest(&mut self) {
        if let Some(digest) = &mut self.digest {
            let text = digest.up_to(&self.chunk);
            self.chunk.extend_from_slice(format!("\"{text}\"").as_bytes());
        }
    }

    /// Says how much of a database's text the record of an error tells, and if the request gave a
    /// value.
    pub(crate) fn tell(&mut self, detail: ErrorDetail, given: bool) {
        (self.detail, self.given) = (detail, given);
    }

    /// For how long the connection that it holds has had to be given up for a request that waits,
    /// because its client is slow; `None`: it needn't. Never that of an HTTP service, where no
    /// request holds up the others for long.
    pub(crate) fn gives_way(&mut self, reader: Option<SlowReader>) -> Option<Duration> {
        let holds = self.session.as_ref().is_some_and(Producer::holds_connection);
        let (Some(reader), Source::Database(database), true) = (reader, &self.source, holds) else {
            self.slow = None;
            return None;
        };
        database.gives_way(&mut self.slow, self.client, reader)
    }

    /// When the rows have to be read on, however slow the client is.
    pub(crate) fn read_by(&self) -> Option<Instant> {
        self.session.as_ref().and_then(Producer::read_by)
    }

    /// Writes the record of the end; false when there is none, or it has been written.
    fn end_frames(&mut self) -> bool {
        let Some(frames) = self.frames.take() else { return false };
        let (rows, next) = (self.rows(), self.cursor());
        let digest = self.digest.as_mut().map(|digest| digest.up_to(&self.chunk));
        let end = Record::End { rows, next: next.as_deref(), page: self.page, digest: digest.as_deref() };
        frames.write(&end, &mut self.chunk);
        true
    }

    /// The result cannot be completed. Once a chunk was taken, what has been encoded since comes
    /// first, and the record of the error.
    fn fail(&mut self, error: Error) -> Result<Bytes, Error> {
        self.session = None;
        self.following = Following::not();
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
        if let Some(session) = &mut self.session {
            nest.execute(session, &self.values, &mut self.chunk);
        }
        self.current = Current::Nest(nest);
    }

    fn execute_probe(&mut self, probe: Probe) {
        self.execute_statement(probe.index, &probe.args);
        self.current = Current::Probe(probe);
    }

    fn execute(&mut self, mut rows: Rows) {
        match rows.awaited.take() {
            Some(awaited) => self.current = Current::Awaited(rows, *awaited),
            None => {
                self.execute_statement(rows.index, &rows.args);
                self.begin_rows(rows);
            }
        }
    }

    fn begin_rows(&mut self, mut rows: Rows) {
        rows.encoder.start(&mut self.chunk);
        self.current = match rows.encoder {
            Encoder::Batches(_) => Current::Batches(rows),
            _ => Current::Rows(rows),
        };
    }

    fn execute_statement(&mut self, index: usize, args: &[usize]) {
        let args: Vec<&ParamValue> = args.iter().map(|&arg| &self.values[arg]).collect();
        if let Some(session) = &mut self.session {
            session.execute(index, &args);
        }
    }

    fn end_rows(&mut self) -> Result<(), Error> {
        let current = mem::replace(&mut self.current, Current::Nothing);
        let (Current::Rows(mut rows) | Current::Batches(mut rows)) = current else {
            return Ok(());
        };
        if rows.required && rows.encoder.rows() == 0 {
            return Err(Error::no_such_row());
        }
        rows.encoder.finish(&mut self.chunk);
        if let Some(cursors) = rows.cursors.take() {
            self.may_have_more = cursors.may_have_more(rows.encoder.rows());
            self.next = cursors.last().or(self.next.take());
        }
        // What is followed has no last page.
        if let Some(limit) = rows.page.filter(|_| self.following.is_over()) {
            self.page = PageEnd::of(limit, rows.encoder.rows());
        }
        self.note_count(rows.statement, rows.encoder.rows());
        self.free_session();
        Ok(())
    }

    /// Writes the cursor of the last row; null where there was none.
    fn write_next(&mut self) {
        match &self.next {
            // Its letters need no escapes.
            Some(next) => self.chunk.extend_from_slice(format!("\"{next}\"").as_bytes()),
            None => self.chunk.extend_from_slice(b"null"),
        }
    }

    /// A statement has ended, and had so many rows.
    fn note_count(&mut self, ended: usize, rows: u64) {
        self.rows += rows;
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

    /// Ready when bytes or rows wait that need not be held, and the source has had nothing for
    /// [`FLUSH_AFTER`] since the first of them did; or when none wait, and it is time to say that
    /// the stream is still there.
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let holds_rows = self.current.rows().is_some_and(|rows| rows.encoder.holds_rows());
        let (armed, after) = match (!self.chunk.is_empty() || holds_rows, self.heartbeat) {
            _ if self.head == Head::Held => return Poll::Pending,
            (true, _) => (Armed::Flush, FLUSH_AFTER),
            (false, Some((pause, _))) => (Armed::Heartbeat, pause),
            (false, None) => return Poll::Pending,
        };
        if mem::replace(&mut self.armed, armed) != armed {
            self.flush.restart(after);
        }
        self.flush.poll(cx)
    }

    /// Writes the rows that the encoder holds back, or a heartbeat where there is nothing to write.
    fn flush_waiting(&mut self) {
        if let Current::Rows(rows) = &mut self.current {
            rows.encoder.flush(&mut self.chunk);
        }
        if self.chunk.is_empty() {
            self.beat();
        }
    }

    fn take_chunk(&mut self) -> Bytes {
        self.armed = Armed::Nothing;
        self.flowing += self.chunk.len();
        self.taken = self.chunk.last().copied().or(self.taken);
        if let Some(digest) = &mut self.digest {
            digest.close(&self.chunk);
        }
        Bytes::from(mem::take(&mut self.chunk))
    }

    /// Whether the client is known to keep up.
    pub(crate) fn keeps_up(&self) -> bool {
        self.flowing >= FLOWING_AFTER
    }

    /// Whether everything has been encoded: the chunk that came last was the last.
    pub fn is_done(&self) -> bool {
        matches!(self.current, Current::Nothing)
            && self.steps.len() == 0
            && self.following.is_over()
            && self.frames.is_none()
            && self.failed.is_none()
    }

    /// Rows encoded so far.
    pub fn rows(&self) -> u64 {
        self.rows + self.current.count()
    }

    /// How many connections read parts of a table for it; `None`: one reads all.
    pub fn parts(&self) -> Option<usize> {
        match self.part {
            Some(Part::All(parts)) => Some(parts),
            Some(Part::Shard(_)) | None => None,
        }
    }

    /// Which parts of a table it reads; `None`: one connection reads all of it.
    pub(crate) fn part(&self) -> Option<&Part> {
        self.part.as_ref()
    }

    /// What is known of the rows after a page, once all of its rows have come.
    pub fn page(&self) -> Option<PageEnd> {
        self.page
    }

    /// Behind which row the next page begins, once this one has ended and is full.
    pub fn next_page(&self) -> Option<&str> {
        self.next.as_deref().filter(|_| self.page == Some(PageEnd::Full))
    }

    /// Attributes `took`, which has passed since the last poll, to encoding: the chunk of then was
    /// compressed.
    pub fn compressed(&mut self, took: Duration) {
        self.clock.times.encode += took;
        self.clock.last += took;
    }

    /// Attributes the time since a chunk was given to waiting for the client, which is not over
    /// while that has more to take.
    pub(crate) fn wait_for_client(&mut self) {
        self.clock.enter(self.session.as_ref().is_some_and(Producer::holds_connection));
        self.clock.leave(Phase::Client);
    }

    /// Where the time went up to the last poll.
    pub fn times(&self) -> Times {
        self.clock.times
    }

    /// Where it went up to now, of a stream that is not polled any more.
    pub(crate) fn times_to_now(&self) -> Times {
        let mut clock = self.clock;
        clock.enter(self.session.as_ref().is_some_and(Producer::holds_connection));
        clock.times
    }
}
