//! The state machine of one response on one connection.
//!
//! ```text
//!            prepare
//!   1 idle ──────────► idle
//!            execute            bound           info                    all read
//!          ──────────► 2 bind? ───────► 3 ask ───────► 4 read ────────► idle
//!                                       ▲     │         │
//!                                       │     ▼         │
//!                                       │◄─ log in      │
//!                                       └───────────────┘ once, before the first row
//! ```
//!
//! A connection may be older than the credentials that the server accepts now. If the server
//! refuses them before the first row, we replace the connection, and ask again.
//!
//! An error leads from any state to 5, broken. `drop` then closes the connection, unless the server
//! itself reported the error.
//!
//! In state 1, with no statement left to close, `drop` returns the connection to the pool.
//! Otherwise it leaves the connection to `recycle`. That cancels the statement, closes prepared
//! statements, and returns the connection. If it takes longer than [`RECYCLE_DEADLINE`], `recycle`
//! closes the connection.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_ipc::convert::try_schema_from_ipc_buffer;
use arrow_ipc::writer::{DictionaryTracker, EncodedData, IpcDataGenerator, IpcWriteContext, IpcWriteOptions};
use arrow_schema::Schema;
use bytes::Bytes;
use rowstream_core::Error;
use rowstream_core::params::ParamValue;
use rowstream_core::pool::Lease;
use rowstream_database::{Batch, Statement};
use rowstream_encode::Column;
use tokio::runtime::Handle as Runtime;
use tokio::time::timeout;

use super::SourceState;
use super::connection::{FlightConnection, decoded};
use super::error::{Failure, code};
use super::grpc::{Call, framed};
use super::message::{
    CancelFlightInfo, Descriptor, FlightData, FlightInfo, PreparedStatement, PutResult, Query, SchemaResult,
    StatementHandle, any, command, from_any,
};
use super::reading::EndpointReader;
use crate::arrow_rows::{self, Columns, Pieces, Row, argument, column, piece, sent_schema};

/// A connection must be ready again within this time after its response was dropped. Otherwise we
/// close it.
const RECYCLE_DEADLINE: Duration = Duration::from_secs(2);

/// One connection, held by one response.
pub struct Session {
    shared: Arc<SourceState>,
    /// Taken only when the session is dropped.
    held: Option<(Lease<FlightConnection>, FlightConnection)>,
    prepared: Vec<Prepared>,
    state: State,
    /// The row that we lend.
    packed: Vec<u8>,
}

/// A prepared or described statement.
struct Prepared {
    described: Arc<StatementColumns>,
    request: RowsRequest,
    /// The number of columns that clients get as batches. `None` if they get rows.
    batches: Option<usize>,
}

/// The columns of a statement.
pub(super) struct StatementColumns {
    columns: Arc<[Column]>,
    schema: Schema,
}

/// The way to request the rows of a statement.
enum RowsRequest {
    /// By SQL, because the server doesn't prepare statements. If the server described the columns
    /// with a [`FlightInfo`], it may have begun to compute the rows, so we keep that.
    Text(Arc<str>, Option<FlightInfo>),
    /// By the server's handle.
    Handle(Bytes),
}

enum State {
    Idle,
    /// A request couldn't be sent; `poll_row` returns the reason.
    Unsent(Error),
    Running(Box<RunningStatement>),
    Broken,
}

/// A statement whose rows we read.
struct RunningStatement {
    index: usize,
    step: Step,
    /// The answer that lists the endpoints, needed to cancel the statement.
    info: Option<FlightInfo>,
    batch: Option<RecordBatch>,
    /// The columns of the batch, if we read rows.
    values: Columns,
    row: usize,
    /// Cuts the batches, if clients get batches.
    pieces: Option<Pieces>,
    /// True after the first batch.
    has_rows: bool,
    /// True after a retry.
    is_retried: bool,
}

impl RunningStatement {
    /// Records that this many rows of the batch were read.
    #[inline]
    fn took(&mut self, rows: usize) {
        self.row += rows;
        if self.batch.as_ref().is_some_and(|batch| self.row == batch.num_rows()) {
            // Frees the batch before we read the next one.
            (self.batch, self.values) = (None, Columns::default());
        }
    }
}

enum Step {
    Bind(Call, Option<Bytes>),
    Ask(Call, Option<Bytes>),
    Read(EndpointReader),
    /// The connection is replaced, because the server refused its credentials with this failure.
    LogIn(Replacement, Failure),
}

/// Opens a connection in place of another one.
type Replacement = Pin<Box<dyn Future<Output = Option<FlightConnection>> + Send>>;

impl RowsRequest {
    fn descriptor(&self) -> Descriptor {
        match self {
            Self::Text(sql, _) => command("CommandStatementQuery", &Query { sql: sql.to_string() }),
            Self::Handle(handle) => {
                command("CommandPreparedStatementQuery", &StatementHandle { handle: handle.clone() })
            }
        }
    }
}

impl Session {
    pub(super) fn new(
        shared: Arc<SourceState>,
        place: Lease<FlightConnection>,
        connection: FlightConnection,
    ) -> Self {
        let held = Some((place, connection));
        Self { shared, held, prepared: Vec::new(), state: State::Idle, packed: Vec::new() }
    }

    fn connection(&mut self) -> &mut FlightConnection {
        &mut self.held.as_mut().expect("a session holds its connection until it is dropped").1
    }

    /// See [`rowstream_database::DatabaseSession::prepare`].
    ///
    /// # Errors
    /// The server refuses the statement or its parameters, or the connection is lost.
    pub(super) async fn prepare(&mut self, statement: &Statement) -> Result<Arc<[Column]>, Error> {
        // Boxed, because otherwise each request's future would have room for these calls.
        let mut described = Box::pin(self.describe(statement)).await;
        if described.as_ref().is_err_and(Failure::is_refused_login) && Box::pin(self.log_in_again()).await {
            described = Box::pin(self.describe(statement)).await;
        }
        let prepared = match described {
            Ok(prepared) => prepared?,
            Err(failure) => return Err(self.failed(failure)),
        };
        let columns = Arc::clone(&prepared.described.columns);
        self.prepared.push(prepared);
        Ok(columns)
    }

    /// Replaces the connection by one with the current credentials. Returns false if there are no
    /// others, or if the connection has prepared statements.
    async fn log_in_again(&mut self) -> bool {
        let Some((place, connection)) = self.held.as_mut().filter(|_| self.prepared.is_empty()) else {
            return false;
        };
        let Some(renewed) = self.shared.connector.replace(connection).await else { return false };
        place.opened();
        *connection = renewed;
        true
    }

    async fn describe(&mut self, statement: &Statement) -> Result<Result<Prepared, Error>, Failure> {
        if let Some(described) = self.shared.described.lock().get(&*statement.sql) {
            let request = RowsRequest::Text(Arc::clone(&statement.sql), None);
            return Ok(Ok(Prepared { described, request, batches: None }));
        }
        let query = Query { sql: statement.sql.to_string() };
        let body = any("ActionCreatePreparedStatementRequest", &query);
        match self.connection().act("CreatePreparedStatement", body).await {
            Ok(Some(answer)) => self.prepared(statement, answer).await,
            Ok(None) => Err(Failure::broken("a statement was prepared without an answer")),
            Err(failure) if failure.is_unimplemented() && statement.types.is_empty() => {
                self.unprepared(&statement.sql).await
            }
            Err(failure) if failure.is_unimplemented() => Ok(Err(Error::endpoint(
                "this server of Arrow Flight SQL doesn't prepare statements, so they can't have parameters",
            )
            .hint("leave out the parameters, or use an engine that prepares statements"))),
            Err(failure) => Err(failure),
        }
    }

    /// Handles the server's answer for a prepared statement.
    async fn prepared(
        &mut self,
        statement: &Statement,
        answer: Bytes,
    ) -> Result<Result<Prepared, Error>, Failure> {
        let answer: PreparedStatement =
            from_any(answer).map_err(|error| Failure::broken(error.to_string()))?;
        let request = RowsRequest::Handle(answer.handle);
        let given = statement.types.len();
        let wanted = schema(&answer.parameters)?.map(|schema| schema.fields().len());
        // A server that doesn't report the number checks it when we bind.
        if let Some(wanted) = wanted.filter(|wanted| *wanted != given && *wanted != 0) {
            self.close(&request).await?;
            return Ok(Err(Error::endpoint(format!(
                "the statement has {wanted} placeholders for {given} parameters"
            ))));
        }
        let described = match schema(&answer.columns)? {
            Some(described) if !described.fields().is_empty() => Some(described),
            _ if given == 0 => {
                let (described, info) = self.schema(&request).await?;
                if let Some(info) = info {
                    discard(self.connection(), info).await;
                }
                described
            }
            _ => None,
        };
        Ok(described_by(described, request))
    }

    /// Describes a statement for a server that can't prepare it. The columns are cached.
    async fn unprepared(&mut self, sql: &Arc<str>) -> Result<Result<Prepared, Error>, Failure> {
        let (described, info) = self.schema(&RowsRequest::Text(Arc::clone(sql), None)).await?;
        let prepared = described_by(described, RowsRequest::Text(Arc::clone(sql), info));
        if let Ok(prepared) = &prepared {
            self.shared.described.lock().insert(
                Arc::clone(sql),
                Arc::clone(&prepared.described),
                false,
                |_| {},
            );
        }
        Ok(prepared)
    }

    /// Requests the columns of a statement. Without GetSchema we get them from a [`FlightInfo`],
    /// which is returned too.
    async fn schema(
        &mut self,
        request: &RowsRequest,
    ) -> Result<(Option<Schema>, Option<FlightInfo>), Failure> {
        let (timeout, descriptor) = (self.shared.connector.statement_timeout, request.descriptor());
        let connection = self.connection();
        match connection.ask::<SchemaResult>("GetSchema", &descriptor, timeout).await {
            Ok(answer) => Ok((schema(&answer.schema)?, None)),
            Err(failure) if failure.is_unimplemented() => {
                let info: FlightInfo = connection.ask("GetFlightInfo", &descriptor, timeout).await?;
                Ok((schema(&info.schema)?, Some(info)))
            }
            Err(failure) => Err(failure),
        }
    }

    /// See [`rowstream_database::DatabaseSession::let_go`].
    pub(super) async fn let_go(&mut self) {
        let Some((_, connection)) = &mut self.held else { return };
        for prepared in &mut self.prepared {
            if let RowsRequest::Text(_, info) = &mut prepared.request
                && let Some(info) = info.take()
            {
                discard(connection, info).await;
            }
        }
    }

    async fn close(&mut self, request: &RowsRequest) -> Result<(), Failure> {
        close(self.connection(), request).await
    }

    /// See [`rowstream_database::DatabaseSession::execute`].
    pub(super) fn execute(&mut self, index: usize, args: &[&ParamValue]) {
        self.state = match self.start(index, args) {
            Ok(running) => State::Running(Box::new(running)),
            Err(failure) => State::Unsent(self.shared.connector.error(failure)),
        };
    }

    fn start(&mut self, index: usize, args: &[&ParamValue]) -> Result<RunningStatement, Failure> {
        let told = match &mut self.prepared[index].request {
            RowsRequest::Text(_, info) => info.take(),
            RowsRequest::Handle(_) => None,
        };
        let (step, info) = match (told, args) {
            (Some(info), _) => (self.read(index, info.clone()), Some(info)),
            (None, []) => (self.ask(index)?, None),
            (None, _) => (self.bind(index, args)?, None),
        };
        let prepared = &self.prepared[index];
        let pieces = prepared.batches.map(|columns| Pieces::new(&prepared.described.schema, columns));
        let pieces = pieces.transpose().map_err(|error| Failure::broken(error.to_string()))?;
        Ok(RunningStatement {
            index,
            step,
            info,
            batch: None,
            values: Columns::default(),
            row: 0,
            pieces,
            has_rows: false,
            is_retried: false,
        })
    }

    fn read(&self, index: usize, info: FlightInfo) -> Step {
        let (connector, columns) = (&self.shared.connector, &self.prepared[index].described.columns);
        Step::Read(EndpointReader::new(connector, columns, info))
    }

    fn ask(&mut self, index: usize) -> Result<Step, Failure> {
        let message = framed(&self.prepared[index].request.descriptor());
        let timeout = self.shared.connector.statement_timeout;
        Ok(Step::Ask(self.connection().call("GetFlightInfo", &[message], timeout)?, None))
    }

    fn bind(&mut self, index: usize, args: &[&ParamValue]) -> Result<Step, Failure> {
        let arguments: Vec<_> = args.iter().map(|param| argument(param)).collect();
        let batch = arrow_rows::batch(&arguments).map_err(|error| Failure::broken(error.to_string()))?;
        let messages = put(self.prepared[index].request.descriptor(), &batch)?;
        Ok(Step::Bind(self.connection().call("DoPut", &messages, None)?, None))
    }

    /// See [`rowstream_database::DatabaseSession::poll_row`].
    ///
    /// # Errors
    /// The statement failed, the connection was lost, or the server broke the protocol.
    #[inline]
    pub(super) fn poll_row(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Row<'_>>, Error>> {
        match ready!(self.poll_rows(cx))? {
            true => Poll::Ready(self.row().map(Some)),
            false => Poll::Ready(Ok(None)),
        }
    }

    /// See [`rowstream_database::DatabaseSession::as_batches`].
    pub(super) fn as_batches(&mut self, index: usize, columns: usize) -> Option<Schema> {
        let prepared = self.prepared.get_mut(index)?;
        prepared.batches = Some(columns);
        Some(sent_schema(&prepared.described.schema, columns))
    }

    /// See [`rowstream_database::DatabaseSession::poll_batch`].
    ///
    /// # Errors
    /// Those of [`Session::poll_row`].
    pub(super) fn poll_batch(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Batch<'_, Row<'_>>>, Error>> {
        match ready!(self.poll_rows(cx))? {
            true => Poll::Ready(self.batch().map(Some)),
            false => Poll::Ready(Ok(None)),
        }
    }

    /// Polls for a batch with unread rows. Returns false after the last one.
    #[inline]
    fn poll_rows(&mut self, cx: &mut Context<'_>) -> Poll<Result<bool, Error>> {
        loop {
            match &self.state {
                State::Running(running) if running.batch.is_some() => return Poll::Ready(Ok(true)),
                State::Running(_) => match ready!(self.poll_step(cx)) {
                    Ok(true) => {}
                    Ok(false) => {
                        self.state = State::Idle;
                        return Poll::Ready(Ok(false));
                    }
                    Err(failure) => self.retry(failure)?,
                },
                State::Idle => return Poll::Ready(Ok(false)),
                State::Unsent(_) | State::Broken => return Poll::Ready(Err(self.fail_unsent())),
            }
        }
    }

    /// The next row of the batch.
    #[inline]
    fn row(&mut self) -> Result<Row<'_>, Error> {
        let State::Running(running) = &mut self.state else { return Err(out_of_order()) };
        let columns = &self.prepared[running.index].described.columns;
        if running.batch.is_none() || running.pieces.is_some() {
            return Err(out_of_order());
        }
        self.packed.clear();
        running.values.pack(running.row, columns, self.shared.max_row, &mut self.packed)?;
        running.took(1);
        Ok(Row::new(&self.packed, columns.len()))
    }

    /// The next piece of the batch.
    fn batch(&mut self) -> Result<Batch<'_, Row<'_>>, Error> {
        let State::Running(running) = &mut self.state else { return Err(out_of_order()) };
        let (Some(batch), Some(pieces)) = (&running.batch, &mut running.pieces) else {
            return Err(out_of_order());
        };
        let columns = &self.prepared[running.index].described.columns;
        self.packed.clear();
        let rows = running.row..batch.num_rows();
        let taken = pieces.pack(batch.columns(), rows, columns, self.shared.max_row, &mut self.packed)?;
        running.took(taken);
        Ok(piece(&self.packed, columns.len()))
    }

    /// Performs the next step. Returns false when all rows were read.
    fn poll_step(&mut self, cx: &mut Context<'_>) -> Poll<Result<bool, Failure>> {
        let (State::Running(running), Some((place, connection))) = (&mut self.state, &mut self.held) else {
            return Poll::Ready(Err(Failure::broken("nothing runs")));
        };
        let index = running.index;
        match &mut running.step {
            Step::Bind(call, last) => {
                let answer = ready!(connection.poll_last(call, last, cx))?;
                let step = self.bound(index, answer)?;
                self.go_on(step, None);
            }
            Step::Ask(call, last) => {
                let answer = ready!(connection.poll_last(call, last, cx))?;
                let info = answer.ok_or_else(|| Failure::broken("an answer has no message"))?;
                let info: FlightInfo = decoded(info)?;
                let step = self.read(index, info.clone());
                self.go_on(step, Some(info));
            }
            Step::Read(reading) => match ready!(reading.poll_batch(connection, cx))? {
                Some(batch) => {
                    if running.pieces.is_none() {
                        running.values = Columns::of(batch.columns());
                    }
                    (running.batch, running.row, running.has_rows) = (Some(batch), 0, true);
                }
                None => return Poll::Ready(Ok(false)),
            },
            Step::LogIn(replacement, failure) => {
                let Some(renewed) = ready!(replacement.as_mut().poll(cx)) else {
                    return Poll::Ready(Err(failure.clone()));
                };
                place.opened();
                *connection = renewed;
                let step = self.ask(index)?;
                self.go_on(step, None);
            }
        }
        Poll::Ready(Ok(true))
    }

    fn go_on(&mut self, step: Step, info: Option<FlightInfo>) {
        if let State::Running(running) = &mut self.state {
            (running.step, running.info) = (step, info);
        }
    }

    /// Handles the answer to bound parameters. The server can return a new handle for the
    /// statement.
    fn bound(&mut self, index: usize, answer: Option<Bytes>) -> Result<Step, Failure> {
        if let Some(answer) = answer {
            let metadata = decoded::<PutResult>(answer)?.metadata;
            let renamed: StatementHandle =
                from_any(metadata).map_err(|error| Failure::broken(error.to_string()))?;
            if !renamed.handle.is_empty() {
                self.prepared[index].request = RowsRequest::Handle(renamed.handle);
            }
        }
        self.ask(index)
    }

    /// Requests the rows again, if none was read and a second try may help.
    ///
    /// # Errors
    /// Returns the failure if it can't, or was already made.
    #[cold]
    fn retry(&mut self, failure: Failure) -> Result<(), Error> {
        let step = self.second_try(&failure);
        let (Some(step), State::Running(running)) = (step, &mut self.state) else {
            return Err(self.failed(failure));
        };
        (running.step, running.info, running.is_retried) = (step, None, true);
        Ok(())
    }

    /// The first step of a second try.
    fn second_try(&mut self, failure: &Failure) -> Option<Step> {
        let (State::Running(running), Some((_, connection))) = (&self.state, &self.held) else { return None };
        if running.has_rows || running.is_retried {
            return None;
        }
        let index = running.index;
        // The connection has just prepared the others, so their credentials were right.
        let is_text = matches!(self.prepared[index].request, RowsRequest::Text(..));
        if is_text && failure.is_refused_login() {
            let replacement = self.shared.connector.replace(connection);
            return Some(Step::LogIn(Box::pin(replacement), failure.clone()));
        }
        let may_pass = failure.may_pass() && matches!(running.step, Step::Read(_));
        if may_pass { self.ask(index).ok() } else { None }
    }

    /// Turns a failure into an error. The connection is usable only if the server returned a status
    /// other than UNAUTHENTICATED.
    #[cold]
    fn failed(&mut self, failure: Failure) -> Error {
        if !matches!(failure, Failure::Status(status, _) if status != code::UNAUTHENTICATED) {
            self.connection().is_broken = true;
        }
        if let (Failure::Changed, State::Running(running)) = (&failure, &self.state)
            && let RowsRequest::Text(sql, _) = &self.prepared[running.index].request
        {
            self.shared.described.lock().remove(sql);
        }
        self.state = State::Broken;
        self.shared.connector.error(failure)
    }

    /// The error of a request that couldn't be sent.
    #[cold]
    fn fail_unsent(&mut self) -> Error {
        match std::mem::replace(&mut self.state, State::Broken) {
            State::Unsent(error) => error,
            _ => out_of_order(),
        }
    }
}

/// A statement with the columns that the server described.
fn described_by(described: Option<Schema>, request: RowsRequest) -> Result<Prepared, Error> {
    match described {
        Some(schema) if !schema.fields().is_empty() => {
            let columns = schema.fields().iter().map(|field| column(field)).collect();
            Ok(Prepared { described: Arc::new(StatementColumns { columns, schema }), request, batches: None })
        }
        Some(_) => Err(Error::endpoint("the statement has no columns, so it isn't a query")),
        None => Err(Error::endpoint("the server doesn't report the columns of the statement")),
    }
}

/// Decodes a schema, which Flight encodes as an Arrow IPC message. Returns `None` if it's empty.
pub(super) fn schema(bytes: &Bytes) -> Result<Option<Schema>, Failure> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let schema = try_schema_from_ipc_buffer(bytes);
    schema.map(Some).map_err(|error| Failure::broken(error.to_string()))
}

#[cold]
fn out_of_order() -> Error {
    Error::protocol("a session was polled out of order")
}

impl Drop for Session {
    fn drop(&mut self) {
        let Some((place, connection)) = self.held.take() else { return };
        let state = std::mem::replace(&mut self.state, State::Idle);
        let prepared = std::mem::take(&mut self.prepared);
        let is_clean = matches!(state, State::Idle)
            && prepared.iter().all(|prepared| matches!(prepared.request, RowsRequest::Text(_, None)));
        if connection.is_broken {
            return;
        }
        if is_clean {
            return place.give_back(connection);
        }
        // Without a runtime (during shutdown) the connection is closed.
        if let Ok(runtime) = Runtime::try_current() {
            let info = match state {
                State::Running(running) => running.info,
                _ => None,
            };
            runtime.spawn(recycle(place, connection, info, prepared));
        }
    }
}

/// Prepares a connection for its next user, or closes it.
async fn recycle(
    place: Lease<FlightConnection>,
    mut connection: FlightConnection,
    info: Option<FlightInfo>,
    prepared: Vec<Prepared>,
) {
    if let Ok(Ok(())) = timeout(RECYCLE_DEADLINE, settle(&mut connection, info, prepared)).await {
        place.give_back(connection);
    }
}

/// Ends the statement. Its calls were reset when they were dropped, but some servers would continue
/// anyway, so we cancel it. Closes prepared statements.
async fn settle(
    connection: &mut FlightConnection,
    info: Option<FlightInfo>,
    prepared: Vec<Prepared>,
) -> Result<(), Failure> {
    if let Some(info) = info {
        unless_unknown(cancel(connection, &info).await)?;
    }
    for prepared in prepared {
        match prepared.request {
            RowsRequest::Text(_, Some(info)) => discard(connection, info).await,
            request => close(connection, &request).await?,
        }
    }
    Ok(())
}

async fn cancel(connection: &mut FlightConnection, info: &FlightInfo) -> Result<Option<Bytes>, Failure> {
    let info = prost::Message::encode_to_vec(info).into();
    let body = prost::Message::encode_to_vec(&CancelFlightInfo { info });
    connection.act("CancelFlightInfo", body.into()).await
}

async fn close(connection: &mut FlightConnection, request: &RowsRequest) -> Result<(), Failure> {
    let RowsRequest::Handle(handle) = request else { return Ok(()) };
    let body = any("ActionClosePreparedStatementRequest", &StatementHandle { handle: handle.clone() });
    unless_unknown(connection.act("ClosePreparedStatement", body).await)
}

/// Ignores an error that the server reports. A lost connection is still a failure.
fn unless_unknown(answer: Result<Option<Bytes>, Failure>) -> Result<(), Failure> {
    match answer {
        Ok(_) | Err(Failure::Status(..)) => Ok(()),
        Err(failure) => Err(failure),
    }
}

/// Cancels rows that we won't read but that the server may have begun to compute. If the server
/// lacks CancelFlightInfo, we request each ticket and abort the call. Otherwise the rows of an
/// unredeemed ticket would hold their resources.
async fn discard(connection: &mut FlightConnection, info: FlightInfo) {
    if cancel(connection, &info).await.is_ok() {
        return;
    }
    for ticket in info.endpoints.iter().filter_map(|endpoint| endpoint.ticket.as_ref()) {
        let Ok(mut call) = connection.call("DoGet", &[framed(ticket)], None) else { return };
        let first = poll_fn(|cx| connection.poll_message(&mut call, cx));
        // The outcome doesn't matter: running the statement reports the same error.
        let _ = timeout(RECYCLE_DEADLINE, first).await;
    }
}

/// The messages that bind a batch: its schema with the statement's descriptor, then its row.
fn put(descriptor: Descriptor, batch: &RecordBatch) -> Result<[Bytes; 2], Failure> {
    let (generator, options) = (IpcDataGenerator::default(), IpcWriteOptions::default());
    let mut tracker = DictionaryTracker::new(false);
    let schema = generator.schema_to_bytes_with_dictionary_tracker(&batch.schema(), &mut tracker, &options);
    let row = generator.encode(batch, &mut tracker, &options, &mut IpcWriteContext::default());
    let (_, row) = row.map_err(|error| Failure::broken(error.to_string()))?;
    let message = |descriptor, encoded: EncodedData| {
        let (header, body) = (encoded.ipc_message.into(), encoded.arrow_data.into());
        framed(&FlightData { descriptor, header, body })
    };
    Ok([message(Some(descriptor), schema), message(None, row)])
}
