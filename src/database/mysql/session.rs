//! The state machine of one response on one connection.
//!
//! One command is sent at a time, and answered before the next: by rows, which end in an EOF, or by
//! an ERR, which ends them too ([`Stage`]). [`State`] says what is to come:
//!
//! ```text
//!            prepare                                  prepare
//!   1 idle ──────────► 2 preparing ──────────────────────────► idle
//!            execute                                  control
//!          ──────────► 3 running: begin? ─► answer ──────────► idle
//!            execute_interleaved
//!          ──────────► 4 interleaved ([`interleaved`])
//!          ──────────► 5 unsent ────────────────────────────► idle
//! ```
//!
//! 6, broken, is entered from each of the others by `broken`; the connection is then closed.
//!
//! `drop` gives the connection back when nothing is to come and no transaction is open, closes it
//! in 2 and 6, and else leaves it to `recycle`, which ends the statement by KILL QUERY, reads on
//! until its answer has ended, rolls back, and gives the connection back, or closes it after
//! [`RECYCLE_DEADLINE`].
//!
//! Invariants:
//! 1. a connection goes back to the pool only when nothing is to come, outside of a transaction, and
//!    with no KILL QUERY under way that could meet the next statement;
//! 2. a place is free again when its connection is back or closed, whatever is dropped when;
//! 3. rows end with `None` only after the EOF behind the last of them.

pub(super) mod call;
mod interleaved;

use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use http::StatusCode;
use rowstream_encode::Column;
use tokio::runtime::Handle;
use tokio::time::timeout;

use self::call::Call;
use self::interleaved::Interleaved;
use super::super::refused::general;
use super::Shared;
use super::answer::{Stage, Step};
use super::connect::{Connection, query_command};
use super::error::DatabaseError;
use super::packet::{self, Definition, ERR, OK};
use super::preparing::{self, Preparing};
use super::statement::{Cursor, Prepared};
use super::value::{Decoder, Reading, Row};
use super::wire::{Frame, Wire, out_of_order};
use crate::Error;
use crate::database::{Snapshot, Statement};
use crate::error::STATEMENT_TIMEOUT;
use crate::params::ParamValue;
use crate::pool::Lease;

/// All statements of a response read one snapshot, and write nothing.
const BEGIN: &str = "start transaction with consistent snapshot, read only";

/// How long a connection may take to become ready again after its response was dropped; then it is
/// closed.
const RECYCLE_DEADLINE: Duration = Duration::from_secs(2);
/// A KILL QUERY that reaches the server before the statement has begun has no effect: after so long
/// it is sent again.
const PATIENCE: Duration = Duration::from_millis(200);

/// One connection, held by one response.
pub struct Session {
    shared: Arc<Shared>,
    /// Taken only when the session is dropped.
    held: Option<(Lease<Connection>, Connection)>,
    snapshot: Snapshot,
    prepared: Vec<Arc<Prepared>>,
    state: State,
    /// Numbers beyond 64 bits with a sign become text here, one at a time.
    scratch: Vec<u8>,
}

/// Where a session stands; the module's text draws it.
enum State {
    /// Nothing is to come.
    Idle,
    /// A statement is being prepared.
    Preparing,
    /// The rows of one statement come.
    Running(Running),
    /// The rows of several statements are read side by side.
    Interleaved(Interleaved),
    /// What was executed could not be sent; `poll_row` and `poll_row_of` say why.
    Unsent(Error),
    /// The connection can no longer be trusted.
    Broken,
}

/// A statement whose rows come.
struct Running {
    execution: Execution,
    /// When it was executed.
    started: Instant,
    progress: Progress,
}

/// How far a statement has come.
enum Progress {
    /// The start of the transaction was sent; once that is answered, this command is.
    Begin(Vec<u8>),
    /// The command was sent.
    Answer(Stage),
    /// The same of a procedure, of whose results nobody reads what is to come.
    Unread(Stage),
}

/// One run of a statement, and what its columns turned out to be: the type of `select ?` is known
/// only once something is bound, and a migration changes others.
struct Execution {
    prepared: Arc<Prepared>,
    /// Those of this run, where they differ.
    decoders: Vec<Decoder>,
    /// Where it stands, if it calls a procedure.
    call: Option<Call>,
}

impl Execution {
    fn new(prepared: Arc<Prepared>) -> Self {
        let call = prepared.is_call.then(Call::default);
        Self { prepared, decoders: Vec::new(), call }
    }

    /// The result has so many columns.
    fn count(&mut self, columns: u64) -> Result<(), Error> {
        if let Some(call) = &mut self.call {
            return call.begin_result();
        }
        if columns == self.prepared.columns.len() as u64 { Ok(()) } else { Err(changed()) }
    }

    /// The next column.
    fn column(&mut self, shared: &Shared, definition: Definition) -> Result<(), Error> {
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

    /// All columns have come. Whether they are those that were prepared.
    ///
    /// # Errors
    /// A procedure's result has a column of a type that is not known here.
    fn settle(&mut self, shared: &Shared) -> Result<bool, Error> {
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

fn decoder(reading: Reading, definition: &Definition) -> Result<Decoder, Error> {
    Decoder::of(definition, reading).ok_or_else(|| {
        let Definition { name, kind, .. } = definition;
        Error::endpoint(format!("column `{name}` is of a type that is not known here (number {kind})"))
            .hint("select its text: `cast(… as char)`")
    })
}

/// The columns of the result are not those that were prepared.
#[cold]
fn changed() -> Error {
    let code = "statement_changed";
    Error::new(code, StatusCode::SERVICE_UNAVAILABLE, general(code)).retry_after(Duration::from_secs(1))
}

impl Session {
    pub(super) fn new(
        shared: Arc<Shared>,
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

    /// See [`crate::database::Session::prepare`].
    ///
    /// # Errors
    /// What the database says of the statement; a statement without a result; a lost connection.
    pub async fn prepare(&mut self, statement: &Statement) -> Result<Arc<[Column]>, Error> {
        if !matches!(self.state, State::Idle) {
            return Err(Error::source_unavailable("the connection to the database was lost"));
        }
        let sql = self.own_text(&statement.sql);
        let prepared = match self.connection().statements.get(&sql) {
            Some(prepared) => prepared,
            // Boxed: each request would carry what few need.
            None => Box::pin(self.prepare_anew(sql)).await?,
        };
        if prepared.parameters != statement.types.len() {
            return Err(Error::endpoint(format!(
                "the statement has {} placeholders for {} parameters",
                prepared.parameters,
                statement.types.len()
            )));
        }
        self.connection().must_close |= prepared.leaves_state;
        let columns = Arc::clone(&prepared.columns);
        self.prepared.push(prepared);
        Ok(columns)
    }

    /// The text under which a statement is prepared. A response may have the same one twice, and
    /// interleave them; a statement has one cursor, so the second is another, with a blank after
    /// it. Calls have no cursors.
    fn own_text(&self, sql: &Arc<str>) -> Arc<str> {
        let mut own = Arc::clone(sql);
        while self.prepared.iter().any(|prepared| !prepared.is_call && prepared.sql == own) {
            own = Arc::from(format!("{own} "));
        }
        own
    }

    async fn prepare_anew(&mut self, sql: Arc<str>) -> Result<Arc<Prepared>, Error> {
        self.state = State::Preparing;
        self.wire().command(&preparing::command(&sql));
        let mut preparing = Preparing::new(sql, self.wire().limit());
        loop {
            let frame = self.frame().await?;
            match preparing.take(self.connection(), &frame) {
                Ok(preparing::Step::More) => {}
                Ok(preparing::Step::Done) => break,
                Ok(preparing::Step::Failed(error)) => {
                    self.state = State::Idle;
                    let connection = self.connection();
                    if error.is_too_many_statements()
                        && connection.statements.close_oldest(&mut connection.wire)
                    {
                        return Box::pin(self.prepare_anew(preparing.sql)).await;
                    }
                    return Err(error.into_error(Some(&preparing.sql)));
                }
                Err(error) => return Err(self.broken(error)),
            }
        }
        self.state = State::Idle;
        let shared = Arc::clone(&self.shared);
        preparing.finish(&shared, self.connection())
    }

    /// See [`crate::database::Session::execute`].
    pub fn execute(&mut self, index: usize, args: &[&ParamValue]) {
        // A procedure runs since it was called: its rows are what comes.
        if self.is_called() {
            return;
        }
        let sent = self.execute_statement(index, args);
        self.enter(sent.map(State::Running));
    }

    /// What was executed says where the session stands, unless it is broken, which it stays.
    fn enter(&mut self, sent: Result<State, Error>) {
        debug_assert!(
            matches!(self.state, State::Idle | State::Interleaved(_) | State::Broken),
            "the statement before must have yielded its last row"
        );
        if !matches!(self.state, State::Broken) {
            self.state = sent.unwrap_or_else(State::Unsent);
        }
    }

    fn execute_statement(&mut self, index: usize, args: &[&ParamValue]) -> Result<Running, Error> {
        let prepared = Arc::clone(&self.prepared[index]);
        let command = prepared.execute(args, Cursor::None)?;
        let progress = if self.needs_begin() {
            self.wire().command(&query_command(BEGIN));
            Progress::Begin(command)
        } else {
            self.wire().command(&command);
            Progress::Answer(Stage::Head)
        };
        Ok(Running { execution: Execution::new(prepared), started: Instant::now(), progress })
    }

    /// Whether the transaction that the response's snapshot needs is still to be opened.
    fn needs_begin(&mut self) -> bool {
        self.snapshot == Snapshot::Transaction && !self.connection().in_transaction
    }

    /// See [`crate::database::Session::poll_row`].
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

    /// The error of what could not be sent.
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

    /// Takes a packet that is no row; true when the rows have ended.
    fn control(&mut self, frame: &Frame) -> Result<bool, Error> {
        let (State::Running(running), Some((_, connection))) = (&mut self.state, &mut self.held) else {
            return Err(self.broken(out_of_order()));
        };
        let step = match &mut running.progress {
            Progress::Answer(stage) | Progress::Unread(stage) => stage.step(&connection.wire, frame),
            Progress::Begin(command) => match begun(connection, frame) {
                Begun::Yes => {
                    connection.wire.command(command);
                    running.progress = Progress::Answer(Stage::Head);
                    return Ok(false);
                }
                Begun::No(step) => step,
            },
        };
        match step {
            Step::Counted(columns) => running.execution.count(columns).map_err(|error| self.stale(error))?,
            Step::Column => {
                let noted = note_column(&mut running.execution, &self.shared, connection, frame);
                noted.map_err(|error| self.stale(error))?;
            }
            Step::Described => {
                if !running.execution.settle(&self.shared)? {
                    self.forget();
                }
            }
            // Behind the results of a procedure, an OK ends it.
            Step::Another if running.execution.call.is_some() => return Ok(running.end_result()),
            Step::Row if running.execution.call.is_some() => {}
            Step::Done if running.execution.call.is_some() => {
                self.state = State::Idle;
                return Ok(true);
            }
            Step::End { .. } => {
                // If it had held up other lookups, it may be quick again.
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

    /// What runs has failed, and nothing more is to come.
    fn failed(&mut self, error: DatabaseError) -> Error {
        if error.is_stale_statement() {
            self.forget();
        }
        self.state = State::Idle;
        error.into_error(None)
    }

    /// The columns are others: the next request prepares the statement anew.
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

    /// Marks the connection as one that must be closed. If it's only silent, a statement may still run
    /// on it, which `drop` cancels.
    #[cold]
    fn broken(&mut self, error: Error) -> Error {
        if error.code() != STATEMENT_TIMEOUT {
            self.state = State::Broken;
        }
        error
    }
}

/// What came of the start of a transaction.
enum Begun {
    Yes,
    No(Step),
}

fn begun(connection: &mut Connection, frame: &Frame) -> Begun {
    match frame.tag {
        OK => {
            connection.in_transaction = true;
            Begun::Yes
        }
        ERR => Begun::No(packet::error(connection.wire.body(frame)).map_or(Step::Broken, Step::Failed)),
        _ => Begun::No(Step::Broken),
    }
}

fn note_column(
    execution: &mut Execution,
    shared: &Shared,
    connection: &Connection,
    frame: &Frame,
) -> Result<(), Error> {
    let definition = Definition::parse(connection.wire.body(frame), connection.has_extended_metadata);
    execution.column(shared, definition.ok_or_else(out_of_order)?)
}

/// What columns are, and how their values are read.
type Columns = (Arc<[Column]>, Box<[Decoder]>);

pub(super) fn described(reading: Reading, definitions: &[Definition]) -> Result<Columns, Error> {
    let decoders = definitions.iter().map(|definition| decoder(reading, definition));
    let decoders = decoders.collect::<Result<Box<[_]>, _>>()?;
    let columns = decoders.iter().zip(definitions).map(|(decoder, column)| decoder.column(column));
    Ok((columns.collect(), decoders))
}

/// What is still to come on a connection that is to be used again.
pub(super) enum Rest {
    Nothing,
    /// The answer to the start of a transaction.
    Begin,
    /// So many answers, of which the first has come so far.
    Answers(Stage, usize),
    /// What cannot be told from one another: the connection is closed.
    Unknown,
}

impl Drop for Session {
    fn drop(&mut self) {
        let Some((place, mut connection)) = self.held.take() else { return };
        let rest = match &self.state {
            State::Broken | State::Preparing => return,
            State::Idle | State::Unsent(_) => Rest::Nothing,
            State::Running(Running { progress: Progress::Begin(_), .. }) => Rest::Begin,
            State::Running(Running {
                progress: Progress::Answer(stage) | Progress::Unread(stage), ..
            }) => Rest::Answers(*stage, 1),
            State::Interleaved(all) => {
                // A cursor holds a table of its rows, for as long as its statement is there.
                for sql in all.unfinished() {
                    connection.statements.remove(sql, &mut connection.wire);
                }
                all.rest()
            }
        };
        if matches!(rest, Rest::Nothing) && !connection.in_transaction && connection.wire.write.is_empty() {
            if !connection.must_close {
                connection.wire.rest();
                place.give_back(connection);
            }
            return;
        }
        // Outside of a runtime (it is shutting down) the connection is closed.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(recycle(Arc::clone(&self.shared), place, connection, rest));
        }
    }
}

/// Brings a connection back to where its next user can begin, or closes it.
async fn recycle(shared: Arc<Shared>, place: Lease<Connection>, mut connection: Connection, rest: Rest) {
    if settle_in_time(&shared, &mut connection, rest).await && !connection.must_close {
        place.give_back(connection);
    }
}

/// Whether the connection could be brought there within [`RECYCLE_DEADLINE`]; else it cannot be
/// used.
pub(super) async fn settle_in_time(shared: &Shared, connection: &mut Connection, rest: Rest) -> bool {
    connection.wire.discard();
    let settled = timeout(RECYCLE_DEADLINE, settle(shared, connection, rest)).await;
    let is_ready = matches!(settled, Ok(Ok(())));
    if is_ready {
        connection.wire.rest();
    }
    is_ready
}

/// Ends what runs, and reads on until nothing is to come.
///
/// KILL QUERY travels on a connection of its own. Once that is answered, the server has noted it:
/// either the statement ends by it, or what is sent next, which is a rollback of ours.
async fn settle(shared: &Shared, connection: &mut Connection, rest: Rest) -> Result<(), Error> {
    match rest {
        Rest::Nothing => {}
        Rest::Begin => {
            connection.wire.frame().await?;
        }
        Rest::Answers(mut stage, mut left) => {
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
        Rest::Unknown => {
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

/// Reads so many answers to their ends; what stands behind the one that was cancelled runs on.
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

/// Reads an answer to its end, whatever that is.
async fn until_ended(connection: &mut Connection, stage: &mut Stage) -> Result<(), Error> {
    loop {
        let frame = connection.wire.frame().await?;
        match stage.step(&connection.wire, &frame) {
            Step::End { .. } | Step::Opened | Step::Done | Step::Failed(_) => return Ok(()),
            Step::Broken => return Err(out_of_order()),
            Step::Row | Step::Column | Step::Described | Step::Counted(_) | Step::Another => {}
        }
    }
}
