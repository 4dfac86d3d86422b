//! The state machine of one response on one connection.
//!
//! We send one command at a time, and the server answers it before the next: with rows, which end
//! in an EOF, or with an ERR, which ends them too ([`Stage`]). [`State`] says which answers we
//! still expect:
//!
//! ```text
//!            prepare                                  prepare
//!   1 idle ──────────► 2 preparing ──────────────────────────► idle
//!            execute                                  control
//!          ──────────► 3 running: preface? ─► answer ──────────► idle
//!            execute_interleaved
//!          ──────────► 4 interleaved ([`interleaved`])
//!          ──────────► 5 unsent ────────────────────────────► idle
//! ```
//!
//! `broken` leads from each state to state 6, broken, in which the connection is closed.
//!
//! If no answer is pending and no transaction is open, `drop` returns the connection to the pool.
//! In states 2 and 6 it closes the connection. Otherwise it leaves the connection to `recycle`,
//! which ends the statement by KILL QUERY, reads its answer to the end, rolls back, and returns the
//! connection. If that takes longer than [`RECYCLE_DEADLINE`], `recycle` closes it.
//!
//! Invariants:
//! 1. a connection returns to the pool only if no answer is pending, outside of a transaction, and
//!    without a pending KILL QUERY that could hit the next statement;
//! 2. a slot is free again once its connection was returned or closed, no matter which future is
//!    dropped, or when;
//! 3. rows end with `None` only after the EOF that follows the last one.

pub(super) mod call;
mod interleaved;

use std::borrow::Cow;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use http::StatusCode;
use rowstream_core::Error;
use rowstream_core::error::STATEMENT_TIMEOUT;
use rowstream_core::params::ParamValue;
use rowstream_core::pool::Lease;
use rowstream_database::refused::general;
use rowstream_database::{Snapshot, Statement};
use rowstream_encode::Column;
use tokio::runtime::Handle;
use tokio::time::timeout;

use self::call::Call;
use self::interleaved::InterleavedStatements;
use super::SourceState;
use super::answer::{Stage, Step};
use super::connect::{Connection, query_command};
use super::error::DatabaseError;
use super::packet::{self, Definition, ERR, OK};
use super::preparing::{self, Preparation};
use super::statement::{Cursor, Prepared};
use super::value::{DecodeSettings, Decoder, Row};
use super::wire::{Frame, Wire, out_of_order};

/// Starts a transaction in which all statements of a response read one snapshot, and write nothing.
const BEGIN: &str = "start transaction with consistent snapshot, read only";

/// A connection must be ready again within this time after its response was dropped. Otherwise we
/// close it.
const RECYCLE_DEADLINE: Duration = Duration::from_secs(2);
/// A KILL QUERY that reaches the server before the statement has begun has no effect. We send it
/// again after this time.
const PATIENCE: Duration = Duration::from_millis(200);

/// One connection, held by one response.
pub struct Session {
    shared: Arc<SourceState>,
    /// Taken only when the session is dropped.
    held: Option<(Lease<Connection>, Connection)>,
    snapshot: Snapshot,
    prepared: Vec<Arc<Prepared>>,
    state: State,
    /// Unsigned numbers that exceed a signed 64-bit integer become text here, one at a time.
    scratch: Vec<u8>,
}

/// The answers that a session expects. The module's docs have a drawing.
enum State {
    /// No answer is pending.
    Idle,
    /// The server prepares a statement.
    Preparing,
    /// The server sends the rows of one statement.
    Running(RunningStatement),
    /// The rows of several statements, interleaved.
    Interleaved(InterleavedStatements),
    /// The command couldn't be sent; `poll_row` and `poll_row_of` return the reason.
    Unsent(Error),
    /// The connection can no longer be trusted.
    Broken,
}

/// A statement whose rows arrive.
struct RunningStatement {
    execution: Execution,
    /// When it was executed.
    started: Instant,
    progress: Progress,
}

/// How far a statement has got.
enum Progress {
    /// We sent the statement's [preface](Session::preface). Once it's answered, we send this command.
    Preface(Vec<u8>),
    /// We sent the command.
    Answer(Stage),
    /// The same for a procedure whose further results we don't read.
    Unread(Stage),
}

/// One run of a statement, with the columns of this run. Only a bound value determines the type of
/// `select ?`, and a migration changes other types.
struct Execution {
    prepared: Arc<Prepared>,
    /// The decoders of this run, if they differ.
    decoders: Vec<Decoder>,
    /// The state of its results, if it calls a procedure.
    call: Option<Call>,
}

impl Execution {
    fn new(prepared: Arc<Prepared>) -> Self {
        let call = prepared.is_call.then(Call::default);
        Self { prepared, decoders: Vec::new(), call }
    }

    /// Checks the number of the result's columns.
    fn count(&mut self, columns: u64) -> Result<(), Error> {
        if let Some(call) = &mut self.call {
            return call.begin_result();
        }
        if columns == self.prepared.columns.len() as u64 { Ok(()) } else { Err(changed()) }
    }

    /// Records the next column.
    fn column(&mut self, shared: &SourceState, definition: Definition) -> Result<(), Error> {
        if let Some(call) = &mut self.call {
            return call.column(definition);
        }
        let known = self.prepared.columns.get(self.decoders.len());
        if known.is_none_or(|column| column.name != definition.name) {
            return Err(changed());
        }
        let described = self.prepared.decoders.get(self.decoders.len());
        let decoder = decoder(shared.reading(self.prepared.computed_bits), &definition)?;
        self.decoders.push(decoder.in_run(described, &definition));
        Ok(())
    }

    /// Ends the columns. Returns true if they are the prepared ones.
    ///
    /// # Errors
    /// A procedure's result has a column of an unknown type.
    fn settle(&mut self, shared: &SourceState) -> Result<bool, Error> {
        if let Some(call) = &mut self.call {
            if let Some(prepared) = call.described(shared, &self.prepared)? {
                self.prepared = Arc::new(prepared);
            }
            return Ok(true);
        }
        let same = self.decoders == *self.prepared.decoders;
        if same {
            self.decoders.clear();
        }
        Ok(same)
    }

    #[inline]
    fn row<'a>(&'a self, data: &'a [u8], scratch: &'a mut Vec<u8>) -> Row<'a> {
        let decoders = if self.decoders.is_empty() { &*self.prepared.decoders } else { &*self.decoders };
        Row { data, decoders, columns: &self.prepared.columns, scratch }
    }
}

fn decoder(reading: DecodeSettings, definition: &Definition) -> Result<Decoder, Error> {
    Decoder::of(definition, reading).ok_or_else(|| {
        let Definition { name, kind, .. } = definition;
        Error::endpoint(format!("column `{name}` has an unknown type (number {kind})"))
            .hint("select its text: `cast(… as char)`")
    })
}

/// The result's columns differ from the prepared ones.
#[cold]
fn changed() -> Error {
    let code = "statement_changed";
    Error::new(code, StatusCode::SERVICE_UNAVAILABLE, general(code)).retry_after(Duration::from_secs(1))
}

impl Session {
    pub(super) fn new(
        shared: Arc<SourceState>,
        place: Lease<Connection>,
        mut connection: Connection,
        snapshot: Snapshot,
    ) -> Self {
        connection.wire.expect_within(shared.statement_timeout);
        let held = Some((place, connection));
        Self { shared, held, snapshot, prepared: Vec::new(), state: State::Idle, scratch: Vec::new() }
    }

    fn connection(&mut self) -> &mut Connection {
        &mut self.held.as_mut().expect("a session holds its connection until it is dropped").1
    }

    fn wire(&mut self) -> &mut Wire {
        &mut self.connection().wire
    }

    /// See [`rowstream_database::DatabaseSession::prepare`].
    ///
    /// # Errors
    /// The database refuses the statement, the statement has no result, or the connection was lost.
    pub async fn prepare(&mut self, statement: &Statement) -> Result<Arc<[Column]>, Error> {
        if !matches!(self.state, State::Idle) {
            return Err(Error::source_unavailable("the connection to the database was lost"));
        }
        let sql = self.own_text(&statement.sql);
        let prepared = match self.connection().statements.get(&sql) {
            Some(prepared) => prepared,
            // Boxed, because otherwise every request would reserve memory that few need.
            None => Box::pin(self.prepare_anew(sql, statement.ad_hoc)).await?,
        };
        if prepared.parameters != statement.types.len() {
            return Err(Error::endpoint(format!(
                "the statement has {} placeholders for {} parameters",
                prepared.parameters,
                statement.types.len()
            )));
        }
        self.connection().must_close |= prepared.leaves_state();
        let columns = Arc::clone(&prepared.columns);
        self.prepared.push(prepared);
        Ok(columns)
    }

    /// The text that we prepare a statement with. A response may contain the same statement twice
    /// and interleave both. A prepared statement has only one cursor, so we append a blank to the
    /// second text, which makes it another statement. Calls have no cursors.
    fn own_text(&self, sql: &Arc<str>) -> Arc<str> {
        let mut own = Arc::clone(sql);
        while self.prepared.iter().any(|prepared| !prepared.is_call && prepared.sql == own) {
            own = Arc::from(format!("{own} "));
        }
        own
    }

    async fn prepare_anew(&mut self, sql: Arc<str>, ad_hoc: bool) -> Result<Arc<Prepared>, Error> {
        self.state = State::Preparing;
        let shared = Arc::clone(&self.shared);
        if let Err(error) = shared.routines.read(self.connection(), &shared.name).await {
            return Err(self.broken(error));
        }
        self.wire().command(&preparing::command(&sql));
        let mut preparing = Preparation::new(sql, ad_hoc, self.wire().limit());
        loop {
            let frame = self.frame().await?;
            match preparing.take(self.connection(), &frame) {
                Ok(preparing::PreparationStep::More) => {}
                Ok(preparing::PreparationStep::Done) => break,
                Ok(preparing::PreparationStep::Failed(error)) => {
                    self.state = State::Idle;
                    let connection = self.connection();
                    if error.is_too_many_statements()
                        && connection.statements.close_oldest(&mut connection.wire)
                    {
                        return Box::pin(self.prepare_anew(preparing.sql, ad_hoc)).await;
                    }
                    return Err(error.into_error(Some(&preparing.sql)));
                }
                Err(error) => return Err(self.broken(error)),
            }
        }
        self.state = State::Idle;
        preparing.finish(&shared, self.connection())
    }

    /// See [`rowstream_database::DatabaseSession::execute`].
    pub fn execute(&mut self, index: usize, args: &[&ParamValue]) {
        // A procedure has been running since it was called, so its rows arrive already.
        if self.is_called() {
            return;
        }
        let sent = self.execute_statement(index, args);
        self.enter(sent.map(State::Running));
    }

    /// Enters the state after an execution. A broken session stays broken.
    fn enter(&mut self, sent: Result<State, Error>) {
        debug_assert!(
            matches!(self.state, State::Idle | State::Interleaved(_) | State::Broken),
            "the statement before must have yielded its last row"
        );
        if !matches!(self.state, State::Broken) {
            self.state = sent.unwrap_or_else(State::Unsent);
        }
    }

    fn execute_statement(&mut self, index: usize, args: &[&ParamValue]) -> Result<RunningStatement, Error> {
        let prepared = Arc::clone(&self.prepared[index]);
        let command = prepared.execute(args, Cursor::None)?;
        let progress = match self.preface() {
            Some(preface) => {
                self.wire().command(&query_command(&preface));
                Progress::Preface(command)
            }
            None => {
                self.wire().command(&command);
                Progress::Answer(Stage::Head)
            }
        };
        Ok(RunningStatement { execution: Execution::new(prepared), started: Instant::now(), progress })
    }

    /// The command before the next statement, if it needs one: our settings, if a statement of the same response has
    /// changed the session, or the start of the transaction for the response's snapshot.
    fn preface(&mut self) -> Option<Cow<'static, str>> {
        let is_needed = self.snapshot == Snapshot::Transaction;
        let shared = Arc::clone(&self.shared);
        match self.connection() {
            Connection { is_changed: true, product, .. } => Some(shared.connector.settings(product).into()),
            Connection { in_transaction: false, .. } if is_needed => Some(BEGIN.into()),
            _ => None,
        }
    }

    /// See [`rowstream_database::DatabaseSession::poll_row`].
    ///
    /// # Errors
    /// The statement failed, the connection was lost, or the server broke the protocol.
    #[inline]
    pub fn poll_row(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Row<'_>>, Error>> {
        loop {
            let (State::Running(running), Some((_, connection))) = (&mut self.state, &mut self.held) else {
                return Poll::Ready(Err(self.fail_unsent()));
            };
            let frame = match ready!(connection.wire.poll_frame(cx)) {
                Ok(frame) => frame,
                Err(error) => return Poll::Ready(Err(self.broken(error))),
            };
            if frame.tag == OK && matches!(running.progress, Progress::Answer(Stage::Rows)) {
                return Poll::Ready(self.row(&frame).map(Some));
            }
            if self.control(&frame)? {
                return Poll::Ready(Ok(None));
            }
        }
    }

    /// Returns the error of a command that couldn't be sent.
    #[cold]
    fn fail_unsent(&mut self) -> Error {
        match std::mem::replace(&mut self.state, State::Idle) {
            State::Unsent(error) => error,
            state => {
                self.state = state;
                out_of_order()
            }
        }
    }

    #[inline]
    fn row(&mut self, frame: &Frame) -> Result<Row<'_>, Error> {
        match (&self.held, &self.state) {
            (Some((_, connection)), State::Running(running)) => {
                Ok(running.execution.row(connection.wire.body(frame), &mut self.scratch))
            }
            _ => Err(out_of_order()),
        }
    }

    /// Handles a packet that isn't a row. Returns true at the end of the rows.
    fn control(&mut self, frame: &Frame) -> Result<bool, Error> {
        let (State::Running(running), Some((_, connection))) = (&mut self.state, &mut self.held) else {
            return Err(self.broken(out_of_order()));
        };
        let step = match &mut running.progress {
            Progress::Answer(stage) | Progress::Unread(stage) => stage.step(connection, frame),
            Progress::Preface(command) => match prefaced(connection, frame) {
                PrefaceResult::Yes => {
                    let command = std::mem::take(command);
                    return self.send_after_preface(command);
                }
                PrefaceResult::No(step) => step,
            },
        };
        match step {
            Step::Counted(columns) => running.execution.count(columns).map_err(|error| self.stale(error))?,
            Step::Column { last } => {
                match note_column(&mut running.execution, &self.shared, connection, frame, last) {
                    Ok(true) => {}
                    Ok(false) => self.forget(),
                    Err(error) => return Err(self.stale(error)),
                }
            }
            Step::Described => {
                if !running.execution.settle(&self.shared)? {
                    self.forget();
                }
            }
            // After the results of a procedure, an OK ends it.
            Step::Another if running.execution.call.is_some() => return Ok(running.end_result()),
            Step::Row if running.execution.call.is_some() => {}
            Step::Done if running.execution.call.is_some() => {
                self.state = State::Idle;
                return Ok(true);
            }
            Step::End { .. } => {
                // If it had delayed other lookups, it may be fast again.
                let time = running.started.elapsed().saturating_sub(connection.wire.round_trip);
                running.execution.prepared.slow.note_time(time);
                self.state = State::Idle;
                return Ok(true);
            }
            Step::Failed(error) => return Err(self.failed(error)),
            Step::Another | Step::Done | Step::Row | Step::Opened | Step::Broken => {
                return Err(self.broken(out_of_order()));
            }
        }
        Ok(false)
    }

    /// Sends the command after its preface, or another preface.
    fn send_after_preface(&mut self, command: Vec<u8>) -> Result<bool, Error> {
        let preface = self.preface();
        let (State::Running(running), Some((_, connection))) = (&mut self.state, &mut self.held) else {
            return Err(out_of_order());
        };
        match preface {
            Some(preface) => {
                connection.wire.command(&query_command(&preface));
                running.progress = Progress::Preface(command);
            }
            None => {
                connection.wire.command(&command);
                running.progress = Progress::Answer(Stage::Head);
            }
        }
        Ok(false)
    }

    /// Handles the error of the statement that runs. No answer is pending after it.
    fn failed(&mut self, error: DatabaseError) -> Error {
        if error.is_stale_statement() {
            self.forget();
        }
        self.close_if_changed();
        self.state = State::Idle;
        error.into_error(None)
    }

    /// Closes the connection later if the statement that ends now may have changed the session. An error hides
    /// that.
    fn close_if_changed(&mut self) {
        let may_change = match &self.state {
            State::Running(running) => running.execution.prepared.may_change(),
            State::Interleaved(all) => all.may_change(),
            _ => false,
        };
        self.connection().must_close |= may_change;
    }

    /// Forgets the statement, because its columns have changed: the next request prepares it again.
    #[cold]
    fn stale(&mut self, error: Error) -> Error {
        self.forget();
        error
    }

    /// Forgets the statement that runs.
    fn forget(&mut self) {
        let prepared = match &self.state {
            State::Running(running) => Some(&running.execution.prepared),
            State::Interleaved(all) => all.coming(),
            _ => None,
        };
        if let (Some(prepared), Some((_, connection))) = (prepared, &mut self.held) {
            connection.statements.remove(&prepared.sql, &mut connection.wire);
        }
    }

    async fn frame(&mut self) -> Result<Frame, Error> {
        match self.wire().frame().await {
            Ok(frame) => Ok(frame),
            Err(error) => Err(self.broken(error)),
        }
    }

    /// Records that the connection can't be used any more. If the server is only silent, a
    /// statement may still run; `drop` cancels it.
    #[cold]
    fn broken(&mut self, error: Error) -> Error {
        if error.code() != STATEMENT_TIMEOUT {
            self.state = State::Broken;
        }
        error
    }
}

/// The result of a preface.
enum PrefaceResult {
    Yes,
    No(Step),
}

/// Handles the answer to a preface. Our settings precede the start of a transaction.
fn prefaced(connection: &mut Connection, frame: &Frame) -> PrefaceResult {
    match frame.tag {
        OK => {
            connection.in_transaction |= !connection.is_changed;
            connection.is_changed = false;
            PrefaceResult::Yes
        }
        ERR => {
            PrefaceResult::No(packet::error(connection.wire.body(frame)).map_or(Step::Broken, Step::Failed))
        }
        _ => PrefaceResult::No(Step::Broken),
    }
}

/// Handles a column. Returns false if all columns have arrived, and aren't the prepared ones.
fn note_column(
    execution: &mut Execution,
    shared: &SourceState,
    connection: &Connection,
    frame: &Frame,
    last: bool,
) -> Result<bool, Error> {
    let definition = Definition::parse(connection.wire.body(frame), connection.has_extended_metadata);
    execution.column(shared, definition.ok_or_else(out_of_order)?)?;
    if last { execution.settle(shared) } else { Ok(true) }
}

/// Columns and their decoders.
type Columns = (Arc<[Column]>, Box<[Decoder]>);

pub(super) fn described(reading: DecodeSettings, definitions: &[Definition]) -> Result<Columns, Error> {
    let decoders = definitions.iter().map(|definition| decoder(reading, definition));
    let decoders = decoders.collect::<Result<Box<[_]>, _>>()?;
    let columns = decoders.iter().zip(definitions).map(|(decoder, column)| decoder.column(column));
    Ok((columns.collect(), decoders))
}

/// The pending answers on a connection that is to be reused.
pub(super) enum PendingAnswers {
    Nothing,
    /// The answer to a [preface](Session::preface).
    Preface,
    /// This many answers; the first one has reached this stage.
    Answers(Stage, usize),
    /// Answers that we can't tell apart. The connection is closed.
    Unknown,
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.held.is_some() {
            self.close_if_changed();
        }
        let Some((place, mut connection)) = self.held.take() else { return };
        let pending = match &self.state {
            State::Broken | State::Preparing => return,
            State::Idle | State::Unsent(_) => PendingAnswers::Nothing,
            State::Running(RunningStatement { progress: Progress::Preface(_), .. }) => {
                PendingAnswers::Preface
            }
            State::Running(RunningStatement {
                progress: Progress::Answer(stage) | Progress::Unread(stage),
                ..
            }) => PendingAnswers::Answers(*stage, 1),
            State::Interleaved(all) => {
                // The server keeps a table with a cursor's rows until its statement is closed.
                for sql in all.unfinished() {
                    connection.statements.remove(sql, &mut connection.wire);
                }
                all.rest()
            }
        };
        if matches!(pending, PendingAnswers::Nothing)
            && !connection.in_transaction
            && connection.wire.write.is_empty()
        {
            if !connection.must_close {
                connection.wire.rest();
                place.give_back(connection);
            }
            return;
        }
        // Outside of a runtime (the runtime is shutting down) we close the connection.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(recycle(Arc::clone(&self.shared), place, connection, pending));
        }
    }
}

/// Prepares a connection for its next user, or closes it.
async fn recycle(
    shared: Arc<SourceState>,
    place: Lease<Connection>,
    mut connection: Connection,
    pending: PendingAnswers,
) {
    if settle_in_time(&shared, &mut connection, pending).await && !connection.must_close {
        place.give_back(connection);
    }
}

/// Returns true if the connection is ready for its next user within [`RECYCLE_DEADLINE`]. Otherwise
/// it can't be used.
pub(super) async fn settle_in_time(
    shared: &SourceState,
    connection: &mut Connection,
    pending: PendingAnswers,
) -> bool {
    connection.wire.discard();
    let settled = timeout(RECYCLE_DEADLINE, settle(shared, connection, pending)).await;
    let is_ready = matches!(settled, Ok(Ok(())));
    if is_ready {
        connection.wire.rest();
    }
    is_ready
}

/// Ends the statement that runs, and reads until no answer is pending.
///
/// KILL QUERY uses its own connection. Once it's answered, the server has recorded it: it ends
/// either the statement or our next command, which is a rollback.
async fn settle(
    shared: &SourceState,
    connection: &mut Connection,
    pending: PendingAnswers,
) -> Result<(), Error> {
    match pending {
        PendingAnswers::Nothing => {}
        PendingAnswers::Preface => {
            connection.wire.frame().await?;
        }
        PendingAnswers::Answers(mut stage, mut left) => {
            let mut patience = PATIENCE;
            while left > 0 {
                shared.connector.cancel(connection).await?;
                let ended = until_all_ended(connection, &mut stage, &mut left);
                if let Ok(ended) = timeout(patience, ended).await {
                    ended?;
                }
                patience *= 2;
            }
        }
        PendingAnswers::Unknown => {
            shared.connector.cancel(connection).await?;
            return Err(out_of_order());
        }
    }
    let mut failed = None;
    for _ in 0..3 {
        match connection.query("rollback").await {
            Ok(()) => {
                connection.in_transaction = false;
                return Ok(());
            }
            Err(error) => failed = Some(error),
        }
    }
    Err(failed.unwrap_or_else(out_of_order))
}

/// Reads this many answers to their ends. A statement after the cancelled one runs on.
async fn until_all_ended(
    connection: &mut Connection,
    stage: &mut Stage,
    left: &mut usize,
) -> Result<(), Error> {
    while *left > 0 {
        until_ended(connection, stage).await?;
        connection.wire.expect_answer();
        *stage = Stage::Head;
        *left -= 1;
    }
    Ok(())
}

/// Reads an answer to its end.
async fn until_ended(connection: &mut Connection, stage: &mut Stage) -> Result<(), Error> {
    loop {
        let frame = connection.wire.frame().await?;
        match stage.step(connection, &frame) {
            Step::End { .. } | Step::Opened | Step::Done | Step::Failed(_) => return Ok(()),
            Step::Broken => return Err(out_of_order()),
            Step::Row | Step::Column { .. } | Step::Described | Step::Counted(_) | Step::Another => {}
        }
    }
}
