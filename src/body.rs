//! The hot path: rows to chunks.
//!
//! A [`RowStream`] is pulled by whoever sends its chunks (the HTTP library, a file) and pulls rows from its session. No
//! channel, no queue and no task of our own stands between, so a reader that does not read stops the database, and
//! dropping the stream cancels what runs there. Invariants:
//!
//! 1. memory: one chunk (at most [`CHUNK`] and one row, or one of Arrow's batches, which is built before it is written) and the
//!    session's buffer, whatever the size of the result; while the client does not take a chunk, none is begun;
//! 2. a chunk is handed out when it is full, or when the source has had nothing ready for [`FLUSH_AFTER`]; the first one
//!    not before there is a row;
//! 3. after the last chunk of a whole result comes `None`; after a failure comes `Err`, and nothing more. A result that
//!    ends early cannot look whole: its closing bytes are written by the encoder only at the rows' own end;
//! 4. a failed row leaves no byte in a chunk.
//!
//! Statements whose rows have others nested in them are read by turns, and merged by a [`Nest`], which has invariants of its own.

mod key;
mod nest;

use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::StatusCode;
use rowstream_encode::{
    ArrowEncoder, Column, CsvEncoder, Format, OptionsEncoder, RowEncoder, Shape, ValueOptions,
};
use tokio::time::Sleep;

use self::nest::Nest;
use crate::Error;
use crate::encoder::Encoder;
use crate::endpoint::{Cardinality, Endpoint, Piece};
use crate::params::ParamValue;
use crate::source::{Session, Snapshot, Source};

/// A full chunk. Measured: 32 to 64 KiB are as fast as larger ones, and each stream holds one.
pub(crate) const CHUNK: usize = 32 * 1024;
/// The first chunk is full earlier: the client's first byte matters more than one write.
const FIRST_CHUNK: usize = 4 * 1024;
/// A full chunk until the client is known to keep up. There may be hundreds that do not, and each holds one or two chunks
/// for most of its time.
const SMALL_CHUNK: usize = 8 * 1024;
/// A client keeps up once it took so much in a go: more than the sockets' buffers hold.
const FLOWING_AFTER: usize = 512 * 1024;
/// A client that lets a chunk wait for so long is slow. A fast one on a busy machine takes a few time slices.
const SLOW_AFTER: Duration = Duration::from_millis(50);
/// Room for most look-ups, which have one row.
const LOOK_UP: usize = 512;
/// Until there is a row, no chunk is full, and none is flushed: an error before the first row then has a real status, also
/// when the body begins with literals, and however long the database takes. The rows of `:one` and `:value` do not count,
/// because a second one would be an error.
const HELD: usize = usize::MAX;
/// How long rows may wait for company once the source has nothing ready. A flush at each empty read would send a chunk per 8 KiB.
const FLUSH_AFTER: Duration = Duration::from_millis(1);

/// The chunks of one response.
pub struct RowStream {
    /// Dropped at the last row, so that the connection is free while the last chunks are still on their way.
    session: Option<Session>,
    steps: std::vec::IntoIter<Step>,
    current: Option<Rows>,
    /// In the place of `current` where statements are nested.
    nest: Option<Box<Nest>>,
    values: Vec<ParamValue>,
    chunk: Vec<u8>,
    /// Where `chunk` is full.
    full: usize,
    /// Bytes since the start, or since the client was slow.
    flowing: usize,
    flush: Option<Pin<Box<Sleep>>>,
    flush_armed: bool,
    rows: u64,
    clock: Clock,
}

/// What a response sends next.
enum Step {
    Literal(Bytes),
    Rows(Rows),
    Nest(Box<Nest>),
    Count(Count),
}

/// The number of rows of a statement that was sent before.
struct Count {
    /// The statement's index in the endpoint.
    statement: usize,
    rows: u64,
}

/// The rows of one statement.
struct Rows {
    /// The statement's place in the session.
    index: usize,
    /// Its index in the endpoint.
    statement: usize,
    name: String,
    args: Vec<usize>,
    cardinality: Cardinality,
    required: bool,
    encoder: Encoder,
}

impl RowStream {
    /// Takes a connection and prepares the statements that `format` needs; the first one runs when the first chunk is polled.
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

    /// [`RowStream::open`] with other options of values than the endpoint's.
    ///
    /// # Errors
    /// The same.
    pub async fn open_with(
        endpoint: &Endpoint,
        source: &Source,
        written: (Format, ValueOptions),
        values: Vec<ParamValue>,
    ) -> Result<Self, Error> {
        let rows = [Piece::Rows(endpoint.rows_statement().unwrap_or_default())];
        let pieces = match written.0 {
            Format::Json => &endpoint.body[..],
            Format::Ndjson | Format::Csv | Format::JsonSeq | Format::Arrow => &rows[..],
        };
        let (mut session, mut clock) = begin(endpoint, source, pieces, &values).await?;
        let mut steps = Vec::with_capacity(pieces.len());
        for piece in pieces {
            steps.push(match piece {
                Piece::Literal(text) => Step::Literal(text.clone()),
                Piece::Rows(root) if endpoint.children(*root).next().is_some() => {
                    let nest = Nest::prepare(endpoint, *root, written, &mut session, prepared(&steps));
                    Step::Nest(Box::new(nest.await?))
                }
                Piece::Rows(statement) => {
                    let rows = Rows::prepare(endpoint, *statement, written, &mut session, prepared(&steps));
                    Step::Rows(rows.await?)
                }
                Piece::Count(statement) => Step::Count(Count { statement: *statement, rows: 0 }),
            });
        }
        clock.enter();
        clock.leave(Phase::Database);
        let capacity = if matches!(session, Session::Answer(_)) { LOOK_UP } else { FIRST_CHUNK * 2 };
        Ok(Self {
            session: Some(session),
            steps: steps.into_iter(),
            current: None,
            nest: None,
            values,
            chunk: Vec::with_capacity(capacity),
            full: HELD,
            flowing: 0,
            flush: None,
            flush_armed: false,
            rows: 0,
            clock,
        })
    }

    /// The next chunk; `None` after the last one of a whole result.
    ///
    /// # Errors
    /// The result cannot be completed. Nothing may be polled after that.
    pub fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>> {
        let waited = self.clock.enter();
        if self.chunk.capacity() == 0 && !self.is_done() {
            self.begin_chunk(waited);
        }
        let polled = match self.poll_fill(cx) {
            Poll::Ready(Ok(())) if self.chunk.is_empty() => Poll::Ready(None),
            Poll::Ready(Ok(())) => Poll::Ready(Some(Ok(self.take_chunk()))),
            Poll::Ready(Err(error)) => Poll::Ready(Some(Err(error))),
            Poll::Pending => self.poll_flush(cx).map(|()| {
                self.flush_rows();
                Some(Ok(self.take_chunk()))
            }),
        };
        self.clock.leave(if polled.is_ready() { Phase::Client } else { Phase::Database });
        polled
    }

    /// Makes room for a chunk when it is asked for, `waited` after the one before.
    fn begin_chunk(&mut self, waited: Duration) {
        if waited > SLOW_AFTER {
            self.flowing = 0;
        }
        self.full = if self.flowing < FLOWING_AFTER { SMALL_CHUNK } else { CHUNK };
        // A row may overshoot the mark; the slack keeps most of them from growing the buffer.
        self.chunk.reserve(self.full + self.full / 8);
    }

    /// Encodes rows until the chunk is full or all is done.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        while self.chunk.len() < self.full {
            let (Some(rows), Some(session)) = (&mut self.current, &mut self.session) else {
                if self.nest.is_some() {
                    ready!(self.poll_nest(cx))?;
                } else if !self.next_step() {
                    break;
                }
                continue;
            };
            match ready!(session.poll_row(cx))? {
                Some(row) => {
                    rows.admit_row()?;
                    let begin = self.chunk.len();
                    if let Err(error) = rows.encoder.encode(row, &mut self.chunk) {
                        self.chunk.truncate(begin);
                        return Poll::Ready(Err(error));
                    }
                    if self.full == HELD && rows.cardinality == Cardinality::Many {
                        self.full = FIRST_CHUNK;
                    }
                }
                None => self.end_rows()?,
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Encodes the next row of statements that are nested, or ends one of their lists.
    fn poll_nest(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let (Some(nest), Some(session)) = (&mut self.nest, &mut self.session) else {
            return Poll::Ready(Err(Error::endpoint("the statements have ended too early")));
        };
        if !ready!(nest.poll_step(session, cx, &mut self.chunk))? {
            self.end_nest();
        } else if self.full == HELD && nest.has_rows() {
            self.full = FIRST_CHUNK;
        }
        Poll::Ready(Ok(()))
    }

    fn end_nest(&mut self) {
        if let Some(nest) = self.nest.take() {
            for (statement, rows) in nest.counts() {
                self.note_count(statement, rows);
            }
            self.free_session();
        }
    }

    /// Goes on to the next piece of the body; false when there is none.
    fn next_step(&mut self) -> bool {
        match self.steps.next() {
            Some(Step::Literal(text)) => self.chunk.extend_from_slice(&text),
            Some(Step::Rows(rows)) => self.execute(rows),
            Some(Step::Nest(nest)) => self.execute_nest(nest),
            Some(Step::Count(count)) => self.chunk.extend_from_slice(count.rows.to_string().as_bytes()),
            None => return false,
        }
        true
    }

    fn execute_nest(&mut self, mut nest: Box<Nest>) {
        if let Some(session) = &mut self.session {
            nest.execute(session, &self.values, &mut self.chunk);
        }
        self.nest = Some(nest);
    }

    fn execute(&mut self, mut rows: Rows) {
        let args: Vec<&ParamValue> = rows.args.iter().map(|&arg| &self.values[arg]).collect();
        if let Some(session) = &mut self.session {
            session.execute(rows.index, &args);
        }
        rows.encoder.start(&mut self.chunk);
        self.current = Some(rows);
    }

    fn end_rows(&mut self) -> Result<(), Error> {
        let Some(mut rows) = self.current.take() else { return Ok(()) };
        if rows.required && rows.encoder.rows() == 0 {
            return Err(Error::new("not_found", StatusCode::NOT_FOUND, "there is no such row"));
        }
        rows.encoder.finish(&mut self.chunk);
        self.note_count(rows.statement, rows.encoder.rows());
        self.free_session();
        Ok(())
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

    /// Ready when bytes or rows wait that need not be held, and the source has had nothing for [`FLUSH_AFTER`] since the first of
    /// them did.
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let holds_rows = self.current.as_ref().is_some_and(|rows| rows.encoder.holds_rows());
        if (self.chunk.is_empty() && !holds_rows) || self.full == HELD {
            return Poll::Pending;
        }
        let flush = self.flush.get_or_insert_with(|| Box::pin(tokio::time::sleep(FLUSH_AFTER)));
        if !mem::replace(&mut self.flush_armed, true) {
            flush.as_mut().reset(tokio::time::Instant::now() + FLUSH_AFTER);
        }
        flush.as_mut().poll(cx)
    }

    /// Writes the rows that the encoder holds back.
    fn flush_rows(&mut self) {
        if let Some(rows) = &mut self.current {
            rows.encoder.flush(&mut self.chunk);
        }
    }

    fn take_chunk(&mut self) -> Bytes {
        self.flush_armed = false;
        self.flowing += self.chunk.len();
        Bytes::from(mem::take(&mut self.chunk))
    }

    /// Whether everything has been encoded: the chunk that came last was the last.
    pub fn is_done(&self) -> bool {
        self.current.is_none() && self.nest.is_none() && self.steps.len() == 0
    }

    /// Rows encoded so far.
    pub fn rows(&self) -> u64 {
        let nested = || self.nest.as_ref().map_or(0, |nest| nest.counts().map(|(_, rows)| rows).sum::<u64>());
        self.rows + self.current.as_ref().map_or_else(nested, |rows| rows.encoder.rows())
    }

    /// Attributes `took`, which has passed since the last poll, to encoding: the chunk of then was compressed.
    pub fn compressed(&mut self, took: Duration) {
        self.clock.times.encode += took;
        self.clock.last += took;
    }

    /// Where the time went so far.
    pub fn times(&self) -> Times {
        self.clock.times
    }
}

impl Rows {
    async fn prepare(
        endpoint: &Endpoint,
        statement: usize,
        written: (Format, ValueOptions),
        session: &mut Session,
        before: usize,
    ) -> Result<Self, Error> {
        let index = statement;
        let statement = &endpoint.statements[statement];
        let columns = session.prepare(&statement.query).await?;
        statement.check_columns(&columns)?;
        Ok(Self {
            index: before,
            statement: index,
            name: statement.name.clone(),
            args: statement.args.clone(),
            cardinality: statement.cardinality,
            required: endpoint.not_found,
            encoder: encoder(endpoint, written, statement.cardinality, &columns),
        })
    }

    /// One row more must be in its place: only a `:many` has a second one.
    #[inline]
    fn admit_row(&self) -> Result<(), Error> {
        match self.cardinality {
            Cardinality::One | Cardinality::Value if self.encoder.rows() > 0 => {
                Err(Error::several_rows(&self.name))
            }
            _ => Ok(()),
        }
    }
}

/// The statements that the steps run, which were prepared for them in this order.
fn prepared(steps: &[Step]) -> usize {
    let statements = |step: &Step| match step {
        Step::Literal(_) | Step::Count(_) => 0,
        Step::Rows(_) => 1,
        Step::Nest(nest) => nest.len(),
    };
    steps.iter().map(statements).sum()
}

/// What encodes the rows of one of the endpoint's statements.
fn encoder(
    endpoint: &Endpoint,
    (format, options): (Format, ValueOptions),
    cardinality: Cardinality,
    columns: &[Column],
) -> Encoder {
    match shape(format, cardinality) {
        None if format == Format::Arrow => Encoder::Arrow(Box::new(ArrowEncoder::new(columns))),
        None => Encoder::Csv(CsvEncoder::new(endpoint.csv.clone(), columns).with_options(options)),
        Some(shape) if options == ValueOptions::DEFAULT => Encoder::Json(RowEncoder::new(shape, columns)),
        Some(shape) => Encoder::ByOptions(OptionsEncoder::new(shape, options, columns)),
    }
}

/// How rows stand in a body of JSON; `None` for other formats.
fn shape(format: Format, cardinality: Cardinality) -> Option<Shape> {
    Some(match (format, cardinality) {
        (Format::Csv | Format::Arrow, _) => return None,
        (Format::Ndjson, _) => Shape::Lines,
        (Format::JsonSeq, _) => Shape::Sequence,
        (Format::Json, Cardinality::Many) => Shape::Array,
        (Format::Json, Cardinality::One) => Shape::Object,
        (Format::Json, Cardinality::Value) => Shape::Scalar,
    })
}

/// What answers the statements of `pieces`: one of at most one row is looked up, all others get a connection.
async fn begin(
    endpoint: &Endpoint,
    source: &Source,
    pieces: &[Piece],
    values: &[ParamValue],
) -> Result<(Session, Clock), Error> {
    let mut statements = pieces.iter().filter_map(Piece::statement);
    let (first, second) = (statements.next(), statements.next());
    let more = second.or(first.and_then(|root| endpoint.children(root).next())).is_some();
    if let (Some(first), false) = (first.map(|index| &endpoint.statements[index]), more)
        && first.cardinality != Cardinality::Many
    {
        let clock = Clock::new(Duration::ZERO);
        let args: Vec<&ParamValue> = first.args.iter().map(|&arg| &values[arg]).collect();
        if let Some(session) = source.look_up(&first.query, &args).await? {
            return Ok((session, clock));
        }
    }
    let started = Instant::now();
    let session = source.acquire(if more { Snapshot::Transaction } else { Snapshot::Statement }).await?;
    Ok((session, Clock::new(started.elapsed())))
}

/// Where the time of a stream went.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Times {
    /// Waiting for a connection.
    pub pool: Duration,
    /// Waiting for the database.
    pub database: Duration,
    /// Reading and encoding rows.
    pub encode: Duration,
    /// Waiting for the client to take what there is.
    pub client: Duration,
}

/// What a stream waits for between two polls.
#[derive(Debug, Clone, Copy)]
enum Phase {
    Database,
    Client,
}

/// Attributes time: between polls to what was waited for, inside of polls to encoding.
struct Clock {
    times: Times,
    last: Instant,
    waits_for: Phase,
}

impl Clock {
    fn new(pool: Duration) -> Self {
        Self { times: Times { pool, ..Times::default() }, last: Instant::now(), waits_for: Phase::Database }
    }

    fn lap(&mut self) -> Duration {
        let now = Instant::now();
        now - mem::replace(&mut self.last, now)
    }

    /// Attributes the time since `leave`, and gives it.
    fn enter(&mut self) -> Duration {
        let lap = self.lap();
        match self.waits_for {
            Phase::Database => self.times.database += lap,
            Phase::Client => self.times.client += lap,
        }
        lap
    }

    fn leave(&mut self, waits_for: Phase) {
        let lap = self.lap();
        self.times.encode += lap;
        self.waits_for = waits_for;
    }
}
