//! The state machine of one response on one connection.
//!
//! What is sent ends in Sync (or is a simple query), so that each sending is answered by exactly one ReadyForQuery
//! whatever fails (PostgreSQL manual, "Extended Query"). `in_flight` counts those still to come:
//!
//! ```text
//!            prepare / execute                ReadyForQuery
//!   idle ────────────────────────► in flight ───────────────► idle          in_flight: 0 → n → 0
//!                                   │     │
//!             connection or protocol│     │ drop
//!                      fails        ▼     ▼
//!                               broken   recycle: cancel, read on until ready, roll back
//!                                   │     │             │
//!                                closed   └── 2 s over ─┴──► back in the pool
//! ```
//!
//! Invariants:
//! 1. a connection goes back to the pool only idle, outside of a transaction, and with no cancel request under way;
//! 2. a place is free again when its connection is back or closed, whatever is dropped when;
//! 3. rows end with `None` only after CommandComplete and ReadyForQuery: an error at commit is an error of the rows.

mod parameters;
pub(super) mod portals;
mod refcursor;

use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use fallible_iterator::FallibleIterator;
use http::StatusCode;
use postgres_protocol::IsNull;
use postgres_protocol::message::backend::{Message, RowDescriptionBody};
use postgres_protocol::message::frontend;
use rowstream_encode::Column;
use tokio::runtime::Handle;

use self::parameters::{Described, of_parameters};
use self::portals::Portals;
use self::refcursor::Refcursor;
use super::Shared;
use super::connect::Connection;
use super::error::DatabaseError;
use super::pipeline::PATIENCE;
use super::statement::{Field, Prepared};
use super::types::{ColumnType, catalog_query};
use super::value::{Decoder, Row};
use super::wire::Frame;
use crate::Error;
use crate::database::{Snapshot, Statement};
use crate::params::ParamValue;
use crate::pool::Place;

/// All statements of a response read one snapshot, and write nothing.
const BEGIN: &str = "begin isolation level repeatable read, read only";

/// How long a connection may take to become ready again after its response was dropped; then it is closed.
const RECYCLE_DEADLINE: Duration = Duration::from_secs(2);

/// One PostgreSQL connection, held by one response.
pub struct Session {
    shared: Arc<Shared>,
    /// Taken only when the session is dropped.
    held: Option<(Place<Connection>, Connection)>,
    snapshot: Snapshot,
    prepared: Vec<Arc<Prepared>>,
    /// The statement whose rows come.
    current: Option<Arc<Prepared>>,
    /// When it was executed.
    started: Option<Instant>,
    /// ReadyForQuery messages still to come.
    in_flight: u32,
    /// Whether the statement has failed, so that all that is to come is ReadyForQuery.
    stopped: bool,
    /// Whether the current statement's CommandComplete has come.
    complete: bool,
    /// Whether the portal has more rows than were fetched.
    suspended: bool,
    in_transaction: bool,
    /// Whether the connection can no longer be trusted.
    broken: bool,
    /// What failed in `execute`, which has nobody to tell it to.
    failed: Option<Error>,
    /// The statements that are read by turns.
    portals: Portals,
    /// The cursors that are yet to be read, each with the statement in whose place it is.
    refcursors: Vec<(usize, Refcursor)>,
    /// The one whose rows come.
    refcursor: Option<Refcursor>,
    /// Arrays become JSON here, one at a time.
    scratch: Vec<u8>,
}

impl Session {
    pub(super) fn new(
        shared: Arc<Shared>,
        place: Place<Connection>,
        connection: Connection,
        snapshot: Snapshot,
    ) -> Self {
        // A portal outlives a Sync only inside a transaction.
        let snapshot = if shared.fetch_rows > 0 { Snapshot::Transaction } else { snapshot };
        Self {
            shared,
            held: Some((place, connection)),
            snapshot,
            prepared: Vec::new(),
            current: None,
            started: None,
            in_flight: 0,
            stopped: false,
            complete: false,
            suspended: false,
            in_transaction: false,
            broken: false,
            failed: None,
            portals: Portals::default(),
            refcursors: Vec::new(),
            refcursor: None,
            scratch: Vec::new(),
        }
    }

    fn connection(&mut self) -> &mut Connection {
        &mut self.held.as_mut().expect("a session holds its connection until it is dropped").1
    }

    /// See [`crate::database::Session::prepare`].
    ///
    /// # Errors
    /// What the database says of the statement; a statement without a result; a lost connection.
    pub async fn prepare(&mut self, statement: &Statement) -> Result<Arc<[Column]>, Error> {
        let due = self.shared.types.take_due();
        if !due.is_empty() {
            self.look_up(&due).await?;
        }
        let prepared = match self.known(&statement.sql) {
            Some(prepared) => prepared,
            None => self.prepare_anew(statement).await?,
        };
        let columns = Arc::clone(&prepared.columns);
        self.prepared.push(prepared);
        Ok(columns)
    }

    /// The statement as the connection has prepared it, unless types were altered since.
    fn known(&mut self, sql: &str) -> Option<Arc<Prepared>> {
        let version = self.shared.types.version();
        let connection = self.connection();
        let prepared = connection.statements.get(sql)?;
        if prepared.version != version {
            connection.statements.remove(sql, &mut connection.wire.write);
            return None;
        }
        Some(prepared)
    }

    async fn prepare_anew(&mut self, statement: &Statement) -> Result<Arc<Prepared>, Error> {
        let version = self.shared.types.version();
        let (declared, Described { name, fields, .. }) = self.describe_typed(statement).await?;
        let types = self.types_of(&fields).await?;
        let prepared = Arc::new(prepared(name, Arc::clone(&statement.sql), &fields, &types, version));
        self.shared.descriptions.learn(&prepared, declared, fields);
        let connection = self.connection();
        connection.statements.insert(Arc::clone(&prepared), &mut connection.wire.write);
        Ok(prepared)
    }

    /// Parses the statement on the server under a new name, and tells its parameters and columns.
    async fn describe(&mut self, statement: &Statement, types: &[u32]) -> Result<Described, Error> {
        let connection = self.connection();
        let write = &mut connection.wire.write;
        let name = connection.statements.next_name(write);
        frontend::parse(&name, &statement.sql, types.iter().copied(), write).map_err(unsendable)?;
        frontend::describe(b'S', &name, write).map_err(unsendable)?;
        frontend::sync(write);
        match self.description(Some(&statement.sql)).await? {
            (parameters, Some(_)) if parameters.iter().any(|oid| COMPOSITES.contains(oid)) => {
                Err(of_composite())
            }
            (parameters, Some(fields)) => Ok(Described { name, parameters, fields }),
            (_, None) => Err(Error::endpoint("the statement has no result: only queries can be streamed")),
        }
    }

    /// The types of the parameters, and the columns, by which the server answers the Describe that
    /// was written; `None`: there is no result. Errors have their place in `sql`.
    async fn description(&mut self, sql: Option<&str>) -> Result<(Vec<u32>, Option<Vec<Field>>), Error> {
        self.in_flight += 1;
        let mut described = None;
        let mut parameters = Vec::new();
        let mut failed = None;
        while self.in_flight > 0 {
            match self.message().await? {
                Message::RowDescription(body) => described = Some(fields(&body)?),
                Message::ParameterDescription(body) => parameters = of_parameters(&body)?,
                Message::ErrorResponse(body) => failed = Some(DatabaseError::new(&body).into_error(sql)),
                _ => {}
            }
        }
        failed.map_or(Ok((parameters, described)), Err)
    }

    /// What is known of the columns' types; the catalog is asked once per source for those that are not built in.
    async fn types_of(&mut self, fields: &[Field]) -> Result<Vec<ColumnType>, Error> {
        let oids = || fields.iter().map(|field| field.type_oid);
        let missing = self.shared.types.missing(oids());
        if !missing.is_empty() {
            self.look_up(&missing).await?;
        }
        Ok(self.shared.types.of_columns(oids()))
    }

    async fn look_up(&mut self, oids: &[u32]) -> Result<(), Error> {
        frontend::query(&catalog_query(oids), &mut self.connection().wire.write).map_err(unsendable)?;
        self.in_flight += 1;
        let mut failed = None;
        while self.in_flight > 0 {
            let frame = self.frame().await?;
            match frame.tag {
                b'D' => self.note_type(&frame)?,
                b'E' => failed = Some(self.error_of(&frame)?.into_error(None)),
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

    /// See [`crate::database::Session::execute`].
    pub fn execute(&mut self, index: usize, args: &[&ParamValue]) {
        debug_assert_eq!(self.in_flight, 0, "the statement before must have yielded its last row");
        let written = match self.take_refcursor(index) {
            Some(refcursor) => self.execute_refcursor(index, refcursor),
            None => self.write_execute(index, args, self.shared.fetch_rows),
        };
        if let Err(error) = written {
            self.failed = Some(error);
        }
    }

    /// Starts a statement; its rows come in portions of `fetch_rows`, or all in one for 0.
    fn write_execute(&mut self, index: usize, args: &[&ParamValue], fetch_rows: i32) -> Result<(), Error> {
        let prepared = Arc::clone(&self.prepared[index]);
        let begin = self.snapshot == Snapshot::Transaction && !self.in_transaction;
        let write = &mut self.connection().wire.write;
        // Written apart, so that arguments that cannot be sent leave nothing half said.
        let mut messages = BytesMut::new();
        if begin {
            frontend::query(BEGIN, &mut messages).map_err(unsendable)?;
        }
        bind("", &prepared.name, &prepared.decoders, args, &mut messages)?;
        frontend::execute("", fetch_rows, &mut messages).map_err(unsendable)?;
        frontend::sync(&mut messages);
        write.unsplit(messages);
        self.in_flight += 1 + u32::from(begin);
        self.in_transaction |= begin;
        self.begin_rows(prepared);
        Ok(())
    }

    /// Those of `prepared` are the next rows that come.
    fn begin_rows(&mut self, prepared: Arc<Prepared>) {
        self.current = Some(prepared);
        self.started = Some(Instant::now());
        self.stopped = false;
        self.complete = false;
        self.suspended = false;
    }

    /// See [`crate::database::Session::poll_row`].
    ///
    /// # Errors
    /// The statement failed, the connection was lost, or the server broke the protocol.
    #[inline]
    pub fn poll_row(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Row<'_>>, Error>> {
        if let Some(error) = self.failed.take() {
            return Poll::Ready(Err(error));
        }
        loop {
            let frame = match ready!(self.connection().wire.poll_frame(cx)) {
                Ok(frame) => frame,
                Err(error) => return Poll::Ready(Err(self.broken(error))),
            };
            if frame.tag == b'D' {
                return Poll::Ready(self.row(&frame).map(Some));
            }
            if self.control(&frame)? {
                return Poll::Ready(Ok(None));
            }
        }
    }

    #[inline]
    fn row(&mut self, frame: &Frame) -> Result<Row<'_>, Error> {
        // Rows stand after all that came before this statement, and before the end of it or of the portion.
        let in_place = self.in_flight == 1 && !self.complete && !self.suspended;
        let (Some((_, connection)), Some(prepared), true) = (&self.held, &self.current, in_place) else {
            self.broken = true;
            return Err(out_of_order());
        };
        let data = connection.wire.body(frame);
        Ok(Row { data, decoders: &prepared.decoders, columns: &prepared.columns, scratch: &mut self.scratch })
    }

    /// Takes a message that is no row; true when the rows have ended.
    fn control(&mut self, frame: &Frame) -> Result<bool, Error> {
        match frame.tag {
            b'C' if !self.complete && !self.suspended => {
                self.complete = true;
                self.note_step(frame)?;
            }
            b's' if !self.complete && !self.suspended && self.in_portions() => self.suspended = true,
            b'E' => return Err(self.statement_error(frame)?),
            b'Z' => {
                self.note_ready(frame)?;
                return self.after_ready();
            }
            b'1' | b'2' | b'3' | b'N' | b'S' | b'A' => {}
            _ => return Err(self.broken(out_of_order())),
        }
        Ok(false)
    }

    fn after_ready(&mut self) -> Result<bool, Error> {
        if self.in_flight > 0 {
            // That was the answer to `begin`.
            self.complete = false;
            return Ok(false);
        }
        match (self.complete, self.suspended) {
            (true, _) if self.has_more_steps() => self.fetch_step().map(|()| false),
            (true, _) => {
                self.refcursor = None;
                self.note_time();
                Ok(true)
            }
            (false, true) => self.fetch_more().map(|()| false),
            (false, false) => Err(self.broken(out_of_order())),
        }
    }

    /// The statement has ended: if it had held up others, it may be quick again.
    fn note_time(&mut self) {
        if let (Some(prepared), Some(started)) = (self.current.take(), self.started)
            && let Some(described) = self.shared.descriptions.get(&prepared.sql)
        {
            described.note_time(started.elapsed());
        }
    }

    /// Whether Execute has a limit, so that it may leave rows in the portal.
    fn in_portions(&self) -> bool {
        self.shared.fetch_rows > 0 && self.refcursor.is_none()
    }

    fn fetch_more(&mut self) -> Result<(), Error> {
        let fetch_rows = self.shared.fetch_rows;
        let write = &mut self.connection().wire.write;
        frontend::execute("", fetch_rows, write).map_err(unsendable)?;
        frontend::sync(write);
        self.in_flight += 1;
        self.suspended = false;
        Ok(())
    }

    /// The error of the running statement; one that is no longer valid is forgotten, so that the next request prepares it anew.
    fn statement_error(&mut self, frame: &Frame) -> Result<Error, Error> {
        let error = self.error_of(frame)?;
        // Behind a `begin` that failed, the statement itself is still to run.
        self.stopped = self.in_flight == 1;
        let prepared = self.current.take();
        if let Some(prepared) = prepared.filter(|_| error.is_stale_statement()) {
            let connection = self.connection();
            connection.statements.remove(&prepared.sql, &mut connection.wire.write);
        }
        Ok(error.into_error(None))
    }

    fn error_of(&mut self, frame: &Frame) -> Result<DatabaseError, Error> {
        match self.parse(frame)? {
            Message::ErrorResponse(body) => Ok(DatabaseError::new(&body)),
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

    /// The next message; ReadyForQuery is counted.
    async fn message(&mut self) -> Result<Message, Error> {
        let frame = self.frame().await?;
        self.note_ready(&frame)?;
        self.parse(&frame)
    }

    /// Counts a ReadyForQuery, and notes the transaction status that it tells.
    fn note_ready(&mut self, frame: &Frame) -> Result<(), Error> {
        if frame.tag == b'Z' {
            let status = self.connection().wire.body(frame).first().copied();
            let (Some(status), Some(in_flight)) = (status, self.in_flight.checked_sub(1)) else {
                return Err(self.broken(out_of_order()));
            };
            self.connection().status = status;
            self.in_flight = in_flight;
        }
        Ok(())
    }

    /// Marks the connection as one that must be closed.
    #[cold]
    fn broken(&mut self, error: Error) -> Error {
        self.broken = true;
        error
    }
}

/// `record` and `record[]`: composites of no certain type. PostgreSQL compares a value of any
/// composite type as such.
const COMPOSITES: [u32; 2] = [2249, 2287];

/// It would be prepared, and refused whenever it is run.
fn of_composite() -> Error {
    Error::new(
        crate::error::COMPOSITE,
        StatusCode::INTERNAL_SERVER_ERROR,
        "the statement compares a composite with a value that it is given, and PostgreSQL reads no such value",
    )
    .hint("compare its parts, or cast the value to the composite's type: `:value::type`")
}

impl Drop for Session {
    fn drop(&mut self) {
        let Some((place, mut connection)) = self.held.take() else { return };
        if self.broken {
            return;
        }
        if self.in_flight == 0 && connection.status == b'I' {
            connection.wire.rest();
            return place.give_back(connection);
        }
        // Outside of a runtime (it is shutting down) the connection is closed, which ends the backend too.
        if let Ok(runtime) = Handle::try_current() {
            let runs = self.in_flight > 0 && !self.stopped;
            let recycled = recycle(Arc::clone(&self.shared), place, connection, self.in_flight, runs);
            runtime.spawn(recycled);
        }
    }
}

/// Brings a connection back to where its next user can begin, or closes it. `runs`: a statement may still run on it.
async fn recycle(
    shared: Arc<Shared>,
    place: Place<Connection>,
    mut connection: Connection,
    in_flight: u32,
    runs: bool,
) {
    if settle_in_time(&shared, &mut connection, in_flight, runs).await {
        place.give_back(connection);
    }
}

/// Whether the connection could be brought there within [`RECYCLE_DEADLINE`]; else it cannot be used.
pub(super) async fn settle_in_time(
    shared: &Shared,
    connection: &mut Connection,
    in_flight: u32,
    runs: bool,
) -> bool {
    let settled = tokio::time::timeout(RECYCLE_DEADLINE, settle(shared, connection, in_flight, runs)).await;
    let is_ready = matches!(settled, Ok(Ok(())));
    if is_ready {
        connection.wire.rest();
    }
    is_ready
}

/// Cancels what runs and reads on until the server is ready, outside of a transaction.
///
/// A cancel request travels on a connection of its own and could reach the backend late. Two things fence it: the server closes
/// that connection only once the signal is sent, and behind it one more round trip must pass without an error.
async fn settle(
    shared: &Shared,
    connection: &mut Connection,
    in_flight: u32,
    runs: bool,
) -> Result<(), Error> {
    if runs {
        shared.connector.cancel(connection).await?;
    }
    for _ in 0..in_flight {
        loop {
            match tokio::time::timeout(PATIENCE, connection.until_answered()).await {
                Ok(answered) => {
                    answered?;
                    break;
                }
                // What stands behind the one that was cancelled may be as slow.
                Err(_) if runs => shared.connector.cancel(connection).await?,
                Err(_) => {}
            }
        }
    }
    for _ in 0..3 {
        match connection.status {
            b'I' => frontend::sync(&mut connection.wire.write),
            _ => frontend::query("rollback", &mut connection.wire.write).map_err(unsendable)?,
        }
        if connection.until_answered().await? && connection.status == b'I' {
            return Ok(());
        }
    }
    Err(out_of_order())
}

impl Connection {
    /// Reads on until the server is ready; whether no error came on the way.
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

/// Binds the statement `name` to `portal`; the unnamed one is "".
pub(super) fn bind(
    portal: &str,
    name: &str,
    decoders: &[Decoder],
    args: &[&ParamValue],
    write: &mut BytesMut,
) -> Result<(), Error> {
    let result_formats = decoders.iter().map(Decoder::wire_format);
    let argument = |arg: &ParamValue, buf: &mut BytesMut| match arg.postgres_text() {
        Some(text) => {
            buf.extend_from_slice(text.as_bytes());
            Ok(IsNull::No)
        }
        None => Ok(IsNull::Yes),
    };
    frontend::bind(portal, name, [], args.iter().copied(), argument, result_formats, write)
        .map_err(|_| Error::endpoint("the arguments are too long for one message"))
}

fn fields(body: &RowDescriptionBody) -> Result<Vec<Field>, Error> {
    let fields = body.fields().map(|field| Ok(Field::new(&field)));
    fields
        .collect()
        .map_err(|cause| Error::protocol("the database sent columns that cannot be read").cause(cause))
}

/// What is known of a statement once its columns are.
fn prepared(name: String, sql: Arc<str>, fields: &[Field], types: &[ColumnType], version: u64) -> Prepared {
    let columns = fields.iter().zip(types);
    let refcursors = fields.iter().enumerate().filter(|(_, field)| field.is_refcursor());
    Prepared {
        name,
        sql,
        columns: columns.map(|(field, kind)| column(field, kind)).collect(),
        decoders: types.iter().map(|kind| kind.decoder.clone()).collect(),
        refcursors: refcursors.map(|(column, _)| column).collect(),
        version,
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
