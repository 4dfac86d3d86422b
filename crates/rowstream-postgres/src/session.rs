//! The state machine of one response on one connection.
//!
//! We send messages in groups. Each group ends in Sync, or is a simple query, so the server answers
//! it with exactly one ReadyForQuery, even after an error (PostgreSQL manual, "Extended Query").
//! [`State`] says which answers we still expect:
//!
//! ```text
//!                     ┌───────────► 2 answering ──────────┐ note_ready
//!    prepare, call    │                   ▲               │
//!                     │   statement_error │               ▼
//!   1 idle ───────────┼───────────► 3 running ─────────► idle
//!            execute  │                   │ after_ready   ▲
//!                     │   statement_error ▼               │
//!                     │             5 stopped ────────────┤ note_ready
//!                     │   statement_error ▲               │
//! execute_interleaved ├───────────► 4 interleaved         │
//!                     └───────────► 6 unsent ─────────────┘ fail_unsent
//! ```
//!
//! | state | entered by | left by |
//! |---|---|---|
//! | 1 idle | a new session; the last ReadyForQuery: `note_ready`, `after_ready` | any method that sends |
//! | 2 answering | `answering` (`prepare`, `call`); `statement_error`, when more was sent | `note_ready` |
//! | 3 running | `execute` | `after_ready` at the end of the rows, `statement_error` |
//! | 4 interleaved | `execute_interleaved` | `statement_error`; `execute`, once everything is answered |
//! | 5 stopped | `statement_error`, when nothing else was sent | `note_ready` |
//! | 6 unsent | `execute`, `execute_interleaved`, if the messages can't be sent | `fail_unsent` |
//! | 7 broken | `broken`, from each of the others | nothing: the connection is closed |
//!
//! Within state 3, [`Progress`] counts the steps:
//!
//! ```text
//!   BeginSent ── note_end ──► BeginDone ── after_ready ──┐
//!                                                        ▼
//!   Suspended ── fetch_more ──────────────────────────► Rows ◄── fetch_step, of a refcursor ── Complete
//!       ▲                                               │  │                                      ▲
//!       └──────────────── note_suspended ───────────────┘  └────────────── note_end ──────────────┘
//! ```
//!
//! If no answer is pending and no transaction is open, `drop` returns the connection to the pool.
//! In state 7 it closes the connection. Otherwise it leaves the connection to `recycle`, which
//! cancels the statement, reads until the server is ready, rolls back, and returns the connection.
//! If that takes longer than [`RECYCLE_DEADLINE`], `recycle` closes it.
//!
//! Invariants:
//! 1. a connection returns to the pool only if it's idle, outside of a transaction, and without a
//!    pending cancel request;
//! 2. a slot is free again once its connection was returned or closed, no matter which future is
//!    dropped, or when;
//! 3. rows end with `None` only after CommandComplete and ReadyForQuery: an error at commit is an
//!    error of the rows.

mod functions;
mod interleaved;
mod numbering;
mod parameters;
mod parts;
mod refcursor;
mod rewritten;
mod snapshots;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use fallible_iterator::FallibleIterator;
use http::StatusCode;
use postgres_protocol::IsNull;
use postgres_protocol::message::backend::{Message, RowDescriptionBody};
use postgres_protocol::message::frontend;
use rowstream_core::Error;
use rowstream_core::error::STATEMENT_TIMEOUT;
use rowstream_core::params::ParamValue;
use rowstream_core::pool::Lease;
use rowstream_database::pipeline::PATIENCE;
use rowstream_database::{Actor, DatabaseSession, RowSource, Snapshot, Statement};
use rowstream_encode::Column;
use tokio::runtime::Handle;

pub(super) use self::functions::Functions;
use self::functions::{UserFunction, plan};
use self::interleaved::Portals;
use self::parameters::{ParsedStatement, of_parameters};
pub use self::parts::Parts;
use self::refcursor::Refcursor;
pub(super) use self::snapshots::Snapshots;
use super::SourceState;
use super::actor::{self, Settings};
use super::connect::Connection;
use super::error::DatabaseError;
use super::statement::{Field, Prepared, SentStatement, SessionEffect};
use super::types::{ColumnType, catalog_query};
use super::value::{Decoder, Row};
use super::wire::Frame;

/// A connection must be ready again within this time after its response was dropped. Otherwise we
/// close it.
const RECYCLE_DEADLINE: Duration = Duration::from_secs(2);

/// One PostgreSQL connection, held by one response.
pub struct Session {
    shared: Arc<SourceState>,
    /// Taken only when the session is dropped.
    held: Option<(Lease<Connection>, Connection)>,
    isolation: Isolation,
    /// The role and claims for the statements; `None` if they run as the source's user.
    actor: Option<Arc<Actor>>,
    prepared: Vec<Arc<Prepared>>,
    state: State,
    /// The cursors that we haven't read yet, each with the index of the statement that it replaces.
    refcursors: Vec<(usize, Refcursor)>,
    /// Arrays are converted to JSON here, one at a time.
    scratch: Vec<u8>,
}

/// How a response is isolated from concurrent writers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Isolation {
    /// Its one statement is a snapshot by itself.
    NoTransaction,
    /// The same within a transaction: PostgreSQL takes the snapshot once the statement has its
    /// locks.
    ReadCommitted,
    /// All its statements read one snapshot.
    RepeatableRead,
}

impl Isolation {
    /// The statement that opens the transaction.
    fn begin(self) -> &'static str {
        match self {
            Self::NoTransaction | Self::ReadCommitted => "begin isolation level read committed, read only",
            Self::RepeatableRead => "begin isolation level repeatable read, read only",
        }
    }
}

/// The answers that a session expects. The module's docs have a drawing.
enum State {
    /// No answer is pending.
    Idle,
    /// This many ReadyForQuery are pending, and no caller reads rows before them.
    Answering(u32),
    /// The server sends the rows of one statement.
    Running(RunningStatement),
    /// The server sends the rows of several statements, interleaved.
    Interleaved(Portals),
    /// The statement has failed, and only one ReadyForQuery is pending.
    Stopped,
    /// The messages couldn't be sent; `poll_row` and `poll_row_of` return the reason.
    Unsent(Error),
    /// The connection can no longer be trusted.
    Broken,
}

impl State {
    /// The number of pending ReadyForQuery messages.
    fn in_flight(&self) -> u32 {
        match self {
            Self::Idle | Self::Unsent(_) | Self::Broken => 0,
            Self::Answering(in_flight) => *in_flight,
            Self::Running(running) => running.progress.in_flight(),
            Self::Interleaved(portals) => portals.in_flight(),
            Self::Stopped => 1,
        }
    }
}

/// A statement whose rows arrive.
struct RunningStatement {
    prepared: Arc<Prepared>,
    /// When it was executed.
    started: Instant,
    progress: Progress,
    /// The cursor that we read instead of the statement.
    refcursor: Option<Refcursor>,
}

impl RunningStatement {
    fn new(prepared: Arc<Prepared>, progress: Progress, refcursor: Option<Refcursor>) -> Self {
        Self { prepared, started: Instant::now(), progress, refcursor }
    }
}

/// How far a statement has got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    /// We sent the start of the transaction before the statement.
    BeginSent,
    /// The start of the transaction has completed.
    BeginDone,
    /// Rows may arrive.
    Rows,
    /// The portal has more rows than we fetched.
    Suspended,
    /// CommandComplete has arrived.
    Complete,
}

impl Progress {
    fn in_flight(self) -> u32 {
        match self {
            Self::BeginSent | Self::BeginDone => 2,
            Self::Rows | Self::Suspended | Self::Complete => 1,
        }
    }
}

// The methods for refcursors and interleaved statements are in files of their own.
impl DatabaseSession for Session {
    type Row<'a> = Row<'a>;

    async fn prepare(&mut self, statement: &Statement) -> Result<Arc<[Column]>, Error> {
        let prepared = match self.known(statement) {
            Some(prepared) if prepared.composites.is_empty() => prepared,
            Some(prepared) => Box::pin(self.renewed(&prepared.composites, statement)).await?,
            // Boxed, because otherwise every request would reserve memory that few need.
            None => Box::pin(self.prepare_anew(statement)).await?,
        };
        match prepared.leaves {
            SessionEffect::Nothing => {}
            SessionEffect::Settings => {
                if self.isolation == Isolation::NoTransaction {
                    self.isolation = Isolation::ReadCommitted;
                }
                let connection = self.connection();
                // Behind a pooler, the session may be another client's, whose locks must stay.
                connection.may_hold_locks = !connection.is_pooled && connection.other.is_none();
            }
            SessionEffect::Locks => self.connection().must_close = true,
        }
        let columns = Arc::clone(&prepared.columns);
        self.prepared.push(prepared);
        Ok(columns)
    }

    fn execute(&mut self, index: usize, args: &[&ParamValue]) {
        debug_assert_eq!(self.state.in_flight(), 0, "the statement before must have yielded its last row");
        let sent = match self.take_refcursor(index) {
            Some(refcursor) => self.execute_refcursor(index, refcursor),
            None => self.execute_statement(index, args),
        };
        self.enter(sent.map(State::Running));
    }

    #[inline]
    fn poll_row(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Row<'_>>, Error>> {
        match ready!(self.poll_row_frame(cx))? {
            Some(frame) => Poll::Ready(self.row(&frame).map(Some)),
            None => Poll::Ready(Ok(None)),
        }
    }

    fn execute_interleaved(&mut self, runs: &[(usize, Vec<&ParamValue>)]) {
        self.begin_interleaved(runs);
    }

    #[inline]
    fn poll_row_of(&mut self, which: usize, cx: &mut Context<'_>) -> Poll<Result<Option<Row<'_>>, Error>> {
        self.poll_interleaved(which, cx)
    }

    fn rows_of(&self, index: usize) -> RowSource<'_> {
        match &*self.prepared[index].refcursors {
            [] => RowSource::Own,
            refcursors => RowSource::Refcursors(refcursors),
        }
    }

    async fn begin(&mut self) -> Result<(), Error> {
        self.begin_snapshot().await
    }

    /// Our last message plus half of the server's idle limit, because the server may have been idle
    /// since then.
    fn read_by(&self) -> Option<Instant> {
        let (_, connection) = self.held.as_ref().filter(|_| self.isolation != Isolation::NoTransaction)?;
        let limit = match self.role_settings() {
            Some(settings) => settings.idle_limit(connection.idle_limit),
            None => connection.idle_limit,
        };
        Some(connection.wire.sent + limit? / 2)
    }

    async fn call(&mut self, index: usize, args: &[&ParamValue]) -> Result<Vec<Vec<Option<String>>>, Error> {
        self.call_on_snapshot(index, args).await
    }

    async fn open_refcursor(&mut self, index: usize, name: &str) -> Result<Arc<[Column]>, Error> {
        self.describe_refcursor(index, name).await
    }
}

impl Session {
    pub(super) fn new(
        shared: Arc<SourceState>,
        place: Lease<Connection>,
        mut connection: Connection,
        snapshot: Snapshot,
        actor: Option<Arc<Actor>>,
    ) -> Self {
        connection.wire.expect_within(shared.statement_timeout);
        // A portal and a role outlive a Sync only inside a transaction. Behind a pooler, nothing
        // else outlives it either.
        let needs_transaction = shared.fetch_rows > 0 || connection.is_pooled || actor.is_some();
        let isolation = match snapshot {
            Snapshot::Transaction => Isolation::RepeatableRead,
            Snapshot::Statement if needs_transaction => Isolation::ReadCommitted,
            Snapshot::Statement => Isolation::NoTransaction,
        };
        Self {
            shared,
            held: Some((place, connection)),
            isolation,
            actor,
            prepared: Vec::new(),
            state: State::Idle,
            refcursors: Vec::new(),
            scratch: Vec::new(),
        }
    }

    fn connection(&mut self) -> &mut Connection {
        &mut self.held.as_mut().expect("a session holds its connection until it is dropped").1
    }

    /// True if the response needs a transaction that isn't open yet. Call it only when idle.
    fn needs_begin(&mut self) -> bool {
        self.isolation != Isolation::NoTransaction && self.connection().status == b'I'
    }

    /// The statements that start the transaction. `then` precedes the role, because no query may
    /// run before it.
    fn begin_sql(&mut self, then: &str) -> String {
        let Connection { is_pooled, letters, .. } = *self.connection();
        let settings = if is_pooled { self.shared.hosts.transaction_settings() } else { "" };
        // If the server refuses the role, the transaction fails, and so does everything after it.
        let role = self.actor.as_ref().map_or_else(String::new, |actor| actor::sql(actor, letters));
        // The claims are last, because a role may have a setting of that name.
        let of_role = self.role_settings().map_or("", Settings::sql);
        [self.isolation.begin(), settings, then, of_role, &role].concat()
    }

    /// The settings of the role that runs the statements.
    fn role_settings(&self) -> Option<&Settings> {
        let (_, connection) = self.held.as_ref()?;
        connection.roles.of(self.actor.as_ref()?.role())
    }

    /// Expects the answers to `sent` more groups of messages. We stream none of them.
    fn answering(&mut self, sent: u32) -> Result<(), Error> {
        if let State::Broken = self.state {
            return Err(Error::source_unavailable("the connection to the database was lost"));
        }
        self.state = State::Answering(self.state.in_flight() + sent);
        Ok(())
    }

    /// Appends the start of the transaction if it's needed. Returns true if it was.
    fn write_begin(&mut self, messages: &mut BytesMut) -> Result<bool, Error> {
        let begin = self.needs_begin();
        if begin {
            frontend::query(&self.begin_sql(""), messages).map_err(unsendable)?;
        }
        Ok(begin)
    }

    /// The statement that the connection has prepared, unless types were altered since then.
    fn known(&mut self, statement: &Statement) -> Option<Arc<Prepared>> {
        let version = self.shared.types.version();
        let connection = self.connection();
        let prepared = connection.statements.get(statement)?;
        if prepared.version != version {
            connection.statements.remove(statement, &mut connection.wire.write);
            return None;
        }
        Some(prepared)
    }

    /// The prepared statement, after we queried the catalog for these composites.
    async fn renewed(&mut self, composites: &[u32], statement: &Statement) -> Result<Arc<Prepared>, Error> {
        self.look_up(composites).await?;
        match self.known(statement) {
            Some(prepared) => Ok(prepared),
            None => self.prepare_anew(statement).await,
        }
    }

    async fn prepare_anew(&mut self, statement: &Statement) -> Result<Arc<Prepared>, Error> {
        let version = self.shared.types.version();
        let (sent, ParsedStatement { name, parameters, fields }) = self.describe_typed(statement).await?;
        self.check_times(&fields)?;
        let types = self.types_of(&fields).await?;
        let functions = self.functions_of(&statement.sql).await;
        let mut prepared = prepared(name, statement.clone(), sent, &fields, &types, version);
        prepared.leaves = prepared.leaves.max(functions.leaves());
        prepared.plan = (functions != UserFunction::None).then(|| plan(&prepared.name, parameters.len()));
        let prepared = Arc::new(prepared);
        if self.connection().is_pooled {
            return Ok(prepared);
        }
        // Lookups share connections only if they leave nothing behind.
        if prepared.leaves == SessionEffect::Nothing && !statement.ad_hoc {
            self.shared.descriptions.learn(&prepared, fields);
        }
        let connection = self.connection();
        connection.statements.insert(Arc::clone(&prepared), &mut connection.wire.write);
        Ok(prepared)
    }

    /// Parses a statement on the server, and asks for its parameters and columns. Each statement
    /// gets a new name, except behind a pooler. There it has no name, and the response's
    /// transaction keeps everything that it reads as it is, until it runs. If the server refuses
    /// the statement, an open transaction continues.
    async fn describe(
        &mut self,
        sent: &SentStatement,
    ) -> Result<Result<ParsedStatement, DatabaseError>, Error> {
        let is_pooled = self.connection().is_pooled;
        let mut messages = BytesMut::new();
        let begin = is_pooled && self.write_begin(&mut messages)?;
        let in_transaction = begin || self.connection().status == b'T';
        if in_transaction {
            frontend::query("savepoint described", &mut messages).map_err(unsendable)?;
        }
        let connection = self.connection();
        let name = if is_pooled { String::new() } else { connection.statements.next_name(&mut messages) };
        write_describe(&name, sent, &mut messages)?;
        frontend::sync(&mut messages);
        connection.wire.write.unsplit(messages);
        let described = self.description(1 + u32::from(begin) + u32::from(in_transaction)).await?;
        if described.is_err() && self.connection().status == b'E' {
            let back = "rollback to savepoint described";
            frontend::query(back, &mut self.connection().wire.write).map_err(unsendable)?;
            self.description(1).await?.map_err(DatabaseError::into_error)?;
        }
        match described {
            Ok((parameters, fields)) => ParsedStatement::new(name, parameters, fields).map(Ok),
            Err(refused) => Ok(Err(refused)),
        }
    }

    /// Reads the answers to `sent` groups of messages. The last group has a Describe, which returns
    /// the types of the parameters, and the columns. No columns means that the statement has no
    /// result.
    async fn description(&mut self, sent: u32) -> Result<Result<Description, DatabaseError>, Error> {
        self.answering(sent)?;
        let mut described = None;
        let mut parameters = Vec::new();
        let mut failed = None;
        while self.state.in_flight() > 0 {
            let message = match self.message().await {
                Ok(message) => message,
                // If the error ended the connection, the error is the reason.
                Err(lost) => return failed.map_or(Err(lost), |failed| Ok(Err(failed))),
            };
            match message {
                Message::RowDescription(body) => described = Some(fields(&body)?),
                Message::ParameterDescription(body) => parameters = of_parameters(&body)?,
                Message::ErrorResponse(body) => {
                    failed.get_or_insert(DatabaseError::new(&body));
                }
                _ => {}
            }
        }
        Ok(failed.map_or(Ok((parameters, described)), Err))
    }

    /// Refuses time columns from servers that encode times differently from PostgreSQL, because we
    /// would decode wrong values.
    fn check_times(&mut self, fields: &[Field]) -> Result<(), Error> {
        let connection = self.connection();
        let (Some(name), false) = (&connection.other, connection.has_integer_times) else { return Ok(()) };
        match fields.iter().find(|field| field.is_time()) {
            None => Ok(()),
            Some(Field { name: column, .. }) => {
                let message = format!(
                    "column `{column}` is a time, but the server isn't PostgreSQL but `{name}`, whose times \
                     can't be read"
                );
                Err(Error::endpoint(message).hint("select its text: `cast(… as varchar)`"))
            }
        }
    }

    /// The columns' types. We ask the catalog once per source for those that aren't built in, and
    /// each time for composites.
    async fn types_of(&mut self, fields: &[Field]) -> Result<Vec<ColumnType>, Error> {
        let oids = || fields.iter().map(|field| field.type_oid);
        let composites = self.shared.types.composites(oids());
        if !composites.is_empty() {
            self.look_up(&composites).await?;
        }
        self.learn_types(oids()).await?;
        Ok(self.shared.types.of_columns(oids()))
    }

    /// Queries the catalog for those of these types that aren't known.
    async fn learn_types(&mut self, oids: impl Iterator<Item = u32>) -> Result<(), Error> {
        let missing = self.shared.types.missing(oids);
        if missing.is_empty() { Ok(()) } else { self.look_up(&missing).await }
    }

    async fn look_up(&mut self, oids: &[u32]) -> Result<(), Error> {
        frontend::query(&catalog_query(oids), &mut self.connection().wire.write).map_err(unsendable)?;
        self.answering(1)?;
        let mut failed = None;
        while self.state.in_flight() > 0 {
            let frame = self.frame().await?;
            match frame.tag {
                b'D' => self.note_type(&frame)?,
                b'E' => failed = Some(self.error_of(&frame)?.into_error()),
                _ => self.note_ready(&frame)?,
            }
        }
        failed.map_or(Ok(()), Err)
    }

    fn note_type(&mut self, frame: &Frame) -> Result<(), Error> {
        let row = self.connection().wire.body(frame).to_vec();
        match self.shared.types.learn(&row) {
            Some(()) => Ok(()),
            None => Err(self.broken(Error::protocol("the database sent a catalog row that cannot be read"))),
        }
    }

    /// Enters the state after an execution. A broken session stays broken.
    fn enter(&mut self, sent: Result<State, Error>) {
        if !matches!(self.state, State::Broken) {
            self.state = sent.unwrap_or_else(State::Unsent);
        }
    }

    fn execute_statement(&mut self, index: usize, args: &[&ParamValue]) -> Result<RunningStatement, Error> {
        let progress = self.write_execute(index, args, self.shared.fetch_rows)?;
        Ok(RunningStatement::new(Arc::clone(&self.prepared[index]), progress, None))
    }

    /// Sends a statement. The server returns its rows in portions of `fetch_rows`, or all at once
    /// for 0.
    fn write_execute(
        &mut self,
        index: usize,
        args: &[&ParamValue],
        fetch_rows: i32,
    ) -> Result<Progress, Error> {
        let prepared = Arc::clone(&self.prepared[index]);
        // Written to a separate buffer, so that arguments that can't be sent leave no unfinished
        // message.
        let mut messages = BytesMut::new();
        let begin = self.write_begin(&mut messages)?;
        bind_prepared("", &prepared, args, &mut messages)?;
        frontend::execute("", fetch_rows, &mut messages).map_err(unsendable)?;
        frontend::sync(&mut messages);
        self.connection().wire.write.unsplit(messages);
        Ok(if begin { Progress::BeginSent } else { Progress::Rows })
    }

    /// The frame of the next row, which [`Session::row`] lends; `None` after the last one.
    #[inline]
    fn poll_row_frame(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Frame>, Error>> {
        if let State::Unsent(_) = self.state {
            return Poll::Ready(Err(self.fail_unsent()));
        }
        loop {
            let frame = match ready!(self.connection().wire.poll_frame(cx)) {
                Ok(frame) => frame,
                Err(error) => return Poll::Ready(Err(self.broken(error))),
            };
            if frame.tag == b'D' {
                return Poll::Ready(Ok(Some(frame)));
            }
            if self.control(&frame)? {
                return Poll::Ready(Ok(None));
            }
        }
    }

    /// Returns the error of messages that couldn't be sent.
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
        // A row is valid only after the answers to everything before this statement, and before the
        // end of the statement or of the portion.
        let in_place =
            matches!(self.state, State::Running(RunningStatement { progress: Progress::Rows, .. }));
        if !in_place {
            return Err(self.broken(out_of_order()));
        }
        let (Some((_, connection)), State::Running(RunningStatement { prepared, .. })) =
            (&self.held, &self.state)
        else {
            return Err(out_of_order());
        };
        let data = connection.wire.body(frame);
        Ok(Row { data, decoders: &prepared.decoders, columns: &prepared.columns, scratch: &mut self.scratch })
    }

    /// Handles a message that isn't a row. Returns true at the end of the rows.
    fn control(&mut self, frame: &Frame) -> Result<bool, Error> {
        match frame.tag {
            b'C' => self.note_end(frame)?,
            b's' => self.note_suspended()?,
            b'E' => return Err(self.statement_error(frame)?),
            b'Z' => {
                self.note_status(frame)?;
                return self.after_ready();
            }
            b'1' | b'2' | b'3' | b'N' | b'S' | b'A' => {}
            _ => return Err(self.broken(out_of_order())),
        }
        Ok(false)
    }

    /// Records a CommandComplete: of the statement, a step of it, or `begin`.
    fn note_end(&mut self, frame: &Frame) -> Result<(), Error> {
        let State::Running(running) = &mut self.state else { return Err(self.broken(out_of_order())) };
        running.progress = match running.progress {
            // The server sends a CommandComplete for each setting of the transaction.
            Progress::BeginSent | Progress::BeginDone => Progress::BeginDone,
            Progress::Rows => Progress::Complete,
            _ => return Err(self.broken(out_of_order())),
        };
        self.note_step(frame)
    }

    /// Records that the portion has ended, but not the rows.
    fn note_suspended(&mut self) -> Result<(), Error> {
        match &mut self.state {
            State::Running(RunningStatement {
                progress: progress @ Progress::Rows,
                prepared,
                refcursor: None,
                ..
            }) if self.shared.fetch_rows > 0 => {
                *progress = Progress::Suspended;
                prepared.note_run();
                Ok(())
            }
            _ => Err(self.broken(out_of_order())),
        }
    }

    /// Continues after a ReadyForQuery. Returns true at the end of the rows.
    fn after_ready(&mut self) -> Result<bool, Error> {
        let State::Running(running) = &mut self.state else { return Err(self.broken(out_of_order())) };
        match running.progress {
            Progress::BeginSent | Progress::BeginDone => running.progress = Progress::Rows,
            Progress::Suspended => self.fetch_more()?,
            Progress::Complete if running.has_more_steps() => self.fetch_step()?,
            Progress::Complete => {
                self.note_time();
                return Ok(true);
            }
            Progress::Rows => return Err(self.broken(out_of_order())),
        }
        Ok(false)
    }

    /// Records the time of a statement that has ended. If it had delayed others, it may be fast
    /// again.
    fn note_time(&mut self) {
        if let State::Running(RunningStatement { prepared, started, .. }) =
            std::mem::replace(&mut self.state, State::Idle)
        {
            prepared.note_run();
            let Some(described) = self.shared.descriptions.get(&prepared.statement) else { return };
            let round_trip = self.connection().wire.round_trip;
            described.slow.note_time(started.elapsed().saturating_sub(round_trip));
        }
    }

    fn fetch_more(&mut self) -> Result<(), Error> {
        let fetch_rows = self.shared.fetch_rows;
        let write = &mut self.connection().wire.write;
        frontend::execute("", fetch_rows, write).map_err(unsendable)?;
        frontend::sync(write);
        self.progress(Progress::Rows);
        Ok(())
    }

    fn progress(&mut self, progress: Progress) {
        if let State::Running(running) = &mut self.state {
            running.progress = progress;
        }
    }

    /// Stops the statement that runs, and returns its error.
    fn statement_error(&mut self, frame: &Frame) -> Result<Error, Error> {
        let error = self.error_of(frame)?;
        let prepared = match self.stop() {
            State::Running(running) => Some(running.prepared),
            State::Interleaved(portals) => portals.coming().cloned(),
            _ => None,
        };
        let Some(prepared) = prepared else { return Ok(error.into_error()) };
        let is_stale = self.forget_if_stale(&prepared, &error);
        Ok(if is_stale { error.into_changed() } else { error.into_error_of(&prepared.columns) })
    }

    /// Stops after an error in the first pending answer. Returns the state until then.
    fn stop(&mut self) -> State {
        let stopped = match self.state.in_flight() {
            0 => return State::Idle,
            1 => State::Stopped,
            // The server still runs the messages after it: the statement after a `begin` that
            // failed.
            in_flight => State::Answering(in_flight),
        };
        std::mem::replace(&mut self.state, stopped)
    }

    /// Removes a statement that may not be valid any more, so that the next request prepares it
    /// again, and after a migration all others too. Returns true if it isn't valid.
    fn forget_if_stale(&mut self, prepared: &Prepared, error: &DatabaseError) -> bool {
        if prepared.may_be_stale(error) {
            let connection = self.connection();
            connection.statements.remove(&prepared.statement, &mut connection.wire.write);
        }
        let is_stale = prepared.is_stale(error);
        if is_stale && !error.is_missing_statement() {
            self.shared.outdate(prepared.version);
        }
        is_stale
    }

    fn error_of(&mut self, frame: &Frame) -> Result<DatabaseError, Error> {
        match self.parse(frame)? {
            Message::ErrorResponse(body) => {
                let error = DatabaseError::new(&body);
                if error.fatal && !error.is_of_client() {
                    let host_use = &self.connection().host_use;
                    host_use.iter().for_each(|host_use| host_use.failed(&error.clone().into_error()));
                }
                Ok(error)
            }
            _ => Err(self.broken(out_of_order())),
        }
    }

    async fn frame(&mut self) -> Result<Frame, Error> {
        match self.connection().wire.frame().await {
            Ok(frame) => Ok(frame),
            Err(error) => Err(self.broken(error)),
        }
    }

    fn parse(&mut self, frame: &Frame) -> Result<Message, Error> {
        match self.connection().wire.parse(frame) {
            Ok(message) => Ok(message),
            Err(error) => Err(self.broken(error)),
        }
    }

    /// The next message. Counts it if it's a ReadyForQuery.
    async fn message(&mut self) -> Result<Message, Error> {
        let frame = self.frame().await?;
        self.note_ready(&frame)?;
        self.parse(&frame)
    }

    /// Counts a ReadyForQuery while no caller reads rows.
    fn note_ready(&mut self, frame: &Frame) -> Result<(), Error> {
        if frame.tag == b'Z' {
            self.note_status(frame)?;
            self.state = match self.state {
                State::Answering(1) | State::Stopped => State::Idle,
                State::Answering(in_flight) => State::Answering(in_flight - 1),
                _ => return Err(self.broken(out_of_order())),
            };
        }
        Ok(())
    }

    /// Records the transaction status in a ReadyForQuery.
    fn note_status(&mut self, frame: &Frame) -> Result<(), Error> {
        let Some(status) = self.connection().wire.body(frame).first().copied() else {
            return Err(self.broken(out_of_order()));
        };
        self.connection().status = status;
        Ok(())
    }

    /// Records that the connection can't be used any more. If the server is only silent, a
    /// statement may still run; `drop` cancels it.
    #[cold]
    fn broken(&mut self, error: Error) -> Error {
        self.connection().host_use.iter().for_each(|host_use| host_use.failed(&error));
        if error.code() != STATEMENT_TIMEOUT {
            self.state = State::Broken;
        }
        error
    }
}

/// `record` and `record[]`: composites without a fixed type. PostgreSQL gives a parameter this type
/// if it's compared with any composite.
const COMPOSITES: [u32; 2] = [2249, 2287];

/// PostgreSQL would prepare such a statement, and then refuse every execution.
fn of_composite() -> Error {
    Error::new(
        rowstream_core::error::COMPOSITE,
        StatusCode::INTERNAL_SERVER_ERROR,
        "the statement compares a composite with a parameter, and PostgreSQL can't read such a parameter",
    )
    .hint("compare its parts, or cast the value to the composite's type: `:value::type`")
}

impl Drop for Session {
    fn drop(&mut self) {
        let Some((place, mut connection)) = self.held.take() else { return };
        if let State::Broken = self.state {
            return;
        }
        let in_flight = self.state.in_flight();
        if in_flight == 0 && connection.status == b'I' {
            if !connection.must_close {
                connection.wire.rest();
                place.give_back(connection.unlent());
            }
            return;
        }
        // Outside of a runtime (the runtime is shutting down) we close the connection, which ends
        // the backend too.
        if let Ok(runtime) = Handle::try_current() {
            let runs = in_flight > 0 && !matches!(self.state, State::Stopped);
            let recycled = recycle(Arc::clone(&self.shared), place, connection, in_flight, runs);
            runtime.spawn(recycled);
        }
    }
}

/// Prepares a connection for its next user, or closes it. `runs` is true if a statement may still
/// run on it.
async fn recycle(
    shared: Arc<SourceState>,
    place: Lease<Connection>,
    mut connection: Connection,
    in_flight: u32,
    runs: bool,
) {
    if settle_in_time(&shared, &mut connection, in_flight, runs).await && !connection.must_close {
        place.give_back(connection.unlent());
    }
}

/// Returns true if the connection is ready for its next user within [`RECYCLE_DEADLINE`]. Otherwise
/// it can't be used.
pub(super) async fn settle_in_time(
    shared: &SourceState,
    connection: &mut Connection,
    in_flight: u32,
    runs: bool,
) -> bool {
    connection.wire.discard();
    let settled = tokio::time::timeout(RECYCLE_DEADLINE, settle(shared, connection, in_flight, runs)).await;
    let is_ready = matches!(settled, Ok(Ok(())));
    if is_ready {
        connection.wire.rest();
    }
    is_ready
}

/// Cancels the statement that runs, and reads until the server is ready and outside of a
/// transaction.
///
/// A cancel request uses its own connection, so it could reach the backend late. Two things keep it
/// from hitting a later statement: the server closes that connection only after it has sent the
/// signal, and then one more round trip must succeed without an error.
async fn settle(
    shared: &SourceState,
    connection: &mut Connection,
    in_flight: u32,
    runs: bool,
) -> Result<(), Error> {
    if runs {
        shared.hosts.connector(connection).cancel(connection).await?;
    }
    for _ in 0..in_flight {
        let mut patience = PATIENCE;
        loop {
            match tokio::time::timeout(patience, connection.until_answered()).await {
                Ok(answered) => {
                    answered?;
                    break;
                }
                // The statement after the cancelled one may be just as slow.
                Err(_) if runs => shared.hosts.connector(connection).cancel(connection).await?,
                Err(_) => {}
            }
            patience *= 2;
        }
    }
    let holds_locks = std::mem::take(&mut connection.may_hold_locks);
    let rollback = match holds_locks {
        true => "rollback; select pg_catalog.pg_advisory_unlock_all()",
        false => "rollback",
    };
    for _ in 0..3 {
        match connection.status {
            b'I' => frontend::sync(&mut connection.wire.write),
            _ => frontend::query(rollback, &mut connection.wire.write).map_err(unsendable)?,
        }
        let answered = connection.until_answered().await?;
        match (answered, connection.status) {
            (true, b'I') => return Ok(()),
            // The locks may not have been released.
            (false, b'I') if holds_locks => break,
            _ => {}
        }
    }
    Err(out_of_order())
}

impl Connection {
    /// Reads until the server is ready. Returns false if it sent an error.
    ///
    /// # Errors
    /// The connection was lost.
    async fn until_answered(&mut self) -> Result<bool, Error> {
        self.status = 0;
        let answered = self.until_ready().await;
        match (self.status, answered) {
            (0, Err(lost)) => Err(lost),
            (_, answered) => Ok(answered.is_ok()),
        }
    }
}

/// Binds a statement to `portal`. If it has no name, we parse it first, because another statement
/// may have replaced it.
fn bind_prepared(
    portal: &str,
    prepared: &Prepared,
    args: &[&ParamValue],
    write: &mut BytesMut,
) -> Result<(), Error> {
    if prepared.name.is_empty() {
        parse("", &prepared.sent, write)?;
    }
    bind(portal, &prepared.name, &prepared.sent, &prepared.decoders, args, write)
}

/// The types of a statement's parameters, and its columns, if it has a result.
type Description = (Vec<u32>, Option<Vec<Field>>);

/// Appends the messages that parse and describe a statement.
pub(super) fn write_describe(name: &str, sent: &SentStatement, write: &mut BytesMut) -> Result<(), Error> {
    parse(name, sent, write)?;
    frontend::describe(b'S', name, write).map_err(unsendable)
}

fn parse(name: &str, sent: &SentStatement, write: &mut BytesMut) -> Result<(), Error> {
    frontend::parse(name, &sent.text, sent.types.iter().copied(), write).map_err(unsendable)
}

/// Binds the statement `name` to `portal`; the unnamed one is "".
pub(super) fn bind(
    portal: &str,
    name: &str,
    sent: &SentStatement,
    decoders: &[Decoder],
    args: &[&ParamValue],
    write: &mut BytesMut,
) -> Result<(), Error> {
    let result_formats = decoders.iter().map(Decoder::wire_format);
    let argument = |arg: &ParamValue, buf: &mut BytesMut| {
        match arg {
            ParamValue::Null => return Ok(IsNull::Yes),
            // The type of most lookups' keys.
            ParamValue::Integer(key) => buf.extend_from_slice(itoa::Buffer::new().format(*key).as_bytes()),
            other => buf.extend_from_slice(other.postgres_text().unwrap_or_default().as_bytes()),
        }
        Ok(IsNull::No)
    };
    match &sent.arguments {
        None => frontend::bind(portal, name, [], args.iter().copied(), argument, result_formats, write),
        Some(numbers) => {
            let args = numbers.iter().map(|&number| args[number]);
            frontend::bind(portal, name, [], args, argument, result_formats, write)
        }
    }
    .map_err(|_| Error::endpoint("the arguments are too long for one message"))
}

fn fields(body: &RowDescriptionBody) -> Result<Vec<Field>, Error> {
    let fields = body.fields().map(|field| Ok(Field::new(&field)));
    fields
        .collect()
        .map_err(|cause| Error::protocol("the database sent columns that cannot be read").cause(cause))
}

/// Makes the prepared statement once its columns are known.
fn prepared(
    name: String,
    statement: Statement,
    sent: Arc<SentStatement>,
    fields: &[Field],
    types: &[ColumnType],
    version: u64,
) -> Prepared {
    let columns = fields.iter().zip(types);
    let composites = columns.clone().filter(|(_, kind)| kind.decoder.has_composites());
    let refcursors = fields.iter().enumerate().filter(|(_, field)| field.is_refcursor());
    Prepared {
        name,
        leaves: SessionEffect::of(&statement.sql),
        plan: None,
        statement,
        sent,
        columns: columns.map(|(field, kind)| column(field, kind)).collect(),
        decoders: types.iter().map(|kind| kind.decoder.clone()).collect(),
        refcursors: refcursors.map(|(column, _)| column).collect(),
        composites: composites.map(|(field, _)| field.type_oid).collect(),
        version,
        has_run: AtomicBool::new(false),
    }
}

fn column(field: &Field, kind: &ColumnType) -> Column {
    let (name, type_name) = (field.name.clone(), kind.name.clone());
    Column { name, type_name, kind: kind.decoder.kind(field.modifier) }
}

fn out_of_order() -> Error {
    Error::protocol("the database sent a message out of order")
}

pub(super) fn unsendable(cause: std::io::Error) -> Error {
    Error::endpoint("the statement cannot be sent: it is too long, or holds a NUL").cause(cause)
}
