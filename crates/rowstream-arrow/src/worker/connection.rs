//! A connection to a driver process, on its thread.

use std::cell::{Cell, RefCell};
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::{ArrayRef, RecordBatch};
use arrow_ipc::reader::StreamDecoder;
use arrow_schema::{ArrowError, SchemaRef};
use http::StatusCode;
use rowstream_core::Error;
use rowstream_core::error::{INVALID_DATA, STATEMENT_TIMEOUT};
use rowstream_core::params::{BindType, ParamType};
use rowstream_core::sql::dialect::Placeholders;
use rowstream_core::sql::{LimitPart, limit_placeholders};
use rowstream_database::Statement;
use rowstream_database::blocking::{self, DriverConnection, DriverRows, Failure};
use rowstream_database::login::ConnectError;
use rowstream_database::refused::{general, reason_of_state, reason_of_text};
use rowstream_encode::{Column, ColumnKind};
use tokio::runtime::Handle;

use super::frame::{self, Failed, Fault, HEADER, Opening, Request};
use super::{DriverKind, ForeignDriver};
use crate::arrow_rows::{self, Argument, Columns, Pieces, column, is_described};

/// How often a thread that waits for the driver process checks if it must stop.
const LOOK: Duration = Duration::from_millis(20);
/// How long a cancelled statement can take to end, before we kill its process.
const GRACE: Duration = Duration::from_secs(2);
/// How long a connection can take to open.
const CONNECT: Duration = Duration::from_secs(30);

/// The schema of a statement's batches, which the source keeps with its columns. Packed rows need
/// no schema, because each value has its type.
pub(super) type Plan = SchemaRef;

type Description = blocking::StatementDescription<Plan>;

/// An open connection.
pub struct ProcessConnection<K> {
    driver: Arc<ForeignDriver<K>>,
    /// The settings that it was opened with; `None`: the driver process couldn't open it again, and
    /// has closed the old one.
    opening: RefCell<Option<Opening>>,
    link: RefCell<Link>,
    in_transaction: Cell<bool>,
    /// The next request must not get this connection, because it would see the effects of a
    /// statement on the session.
    leaves_state: Cell<bool>,
}

/// The socket and its read state.
struct Link {
    socket: UnixStream,
    /// The driver process hasn't yet sent the end of its answer.
    is_busy: bool,
    /// When to stop waiting for the next frame; `None`: when [`blocking::tick`] returns true.
    deadline: Option<Instant>,
    /// The current frame. It can be half read if we stopped waiting for it.
    header: [u8; HEADER],
    payload: Vec<u8>,
    read: usize,
}

/// Waits on the connection's thread, while the runtime of a session does the I/O.
fn wait<T>(login: impl Future<Output = T>) -> T {
    Handle::current().block_on(login)
}

impl<K> ForeignDriver<K> {
    /// Makes the driver process connect to the database. Returns the settings of the connection.
    fn open(&self, link: &RefCell<Link>, opening: Opening) -> Result<Opening, ConnectError> {
        let request = Request::Open { opening: opening.clone(), fetch_bytes: self.fetch_bytes };
        match link.borrow_mut().run(&request) {
            Ok(()) => Ok(opening),
            // Drivers don't agree on an SQLSTATE for refused logins.
            Err(FrameError::Failed(failed)) if matches!(failed.fault, Fault::Connection | Fault::Login) => {
                Err(ConnectError::refused(of_driver(&self.source, failed)))
            }
            Err(missing) => Err(self.error(missing).into()),
        }
    }

    fn error(&self, missing: FrameError) -> Error {
        let source = &self.source;
        match missing {
            FrameError::Failed(failed) => of_driver(source, failed),
            FrameError::Lost(error) if is_closed(&error) => self.process.closed(),
            FrameError::Lost(error) => {
                Error::source_unavailable(format!("the worker of source `{source}` sends invalid answers"))
                    .cause(error)
            }
            FrameError::Stopped => Error::source_unavailable(format!("source `{source}` does not answer")),
            FrameError::NotReplaced(error) => error,
        }
    }
}

/// A frame of the driver process.
enum Reply {
    Arrow(Vec<u8>),
    End,
}

/// The reason why there's no frame.
enum FrameError {
    /// The driver process reports a failure.
    Failed(Failed),
    /// The connection can't be used any more.
    Lost(io::Error),
    /// The session has left, or a deadline has passed.
    Stopped,
    /// The connection can't be replaced by one with other credentials.
    NotReplaced(Error),
}

impl From<io::Error> for FrameError {
    fn from(error: io::Error) -> Self {
        Self::Lost(error)
    }
}

impl Link {
    /// Sends a request, and returns the first frame of its answer.
    fn ask(&mut self, request: &Request) -> Result<Reply, FrameError> {
        self.is_busy = true;
        request.write(&mut &self.socket)?;
        self.reply()
    }

    /// Sends a request, and waits for the end of its answer.
    fn run(&mut self, request: &Request) -> Result<(), FrameError> {
        match self.ask(request)? {
            Reply::Arrow(_) => self.end(),
            Reply::End => Ok(()),
        }
    }

    /// Returns the next frame of the answer.
    fn reply(&mut self) -> Result<Reply, FrameError> {
        let (kind, length) = loop {
            let found = match self.read {
                0..HEADER => None,
                _ => Some(frame::header(self.header)?),
            };
            match found {
                Some((kind, length)) if self.read == HEADER + length => break (kind, length),
                Some((_, length)) => self.payload.resize(length, 0),
                None => {}
            }
            self.read_more()?;
        };
        self.read = 0;
        let payload = std::mem::take(&mut self.payload);
        debug_assert_eq!(payload.len(), length, "a frame is read to its end");
        self.is_busy = kind == frame::ARROW;
        match kind {
            frame::ARROW => Ok(Reply::Arrow(payload)),
            frame::END => Ok(Reply::End),
            frame::FAILED => Err(FrameError::Failed(frame::parse(&payload)?)),
            _ => Err(FrameError::Lost(io::Error::other(format!("no frame is of the kind {kind}")))),
        }
    }

    /// Waits for the end of the answer, and discards the frames before it.
    fn end(&mut self) -> Result<(), FrameError> {
        while let Reply::Arrow(_) = self.reply()? {}
        Ok(())
    }

    /// Reads more of the frame.
    fn read_more(&mut self) -> Result<(), FrameError> {
        let rest = match self.read {
            0..HEADER => &mut self.header[self.read..],
            read => &mut self.payload[read - HEADER..],
        };
        match (&self.socket).read(rest) {
            Ok(0) => Err(FrameError::Lost(io::ErrorKind::UnexpectedEof.into())),
            Ok(read) => {
                self.read += read;
                Ok(())
            }
            Err(error) if is_pause(&error) && !self.is_over() => Ok(()),
            Err(error) if is_pause(&error) => Err(FrameError::Stopped),
            Err(error) => Err(error.into()),
        }
    }

    fn is_over(&self) -> bool {
        self.deadline.map_or_else(blocking::tick, |deadline| Instant::now() >= deadline)
    }
}

fn is_pause(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}

impl<K: DriverKind> ProcessConnection<K> {
    /// Connects to the driver process, which connects to the database.
    ///
    /// # Errors
    /// 503: one of these connections failed.
    pub(super) fn open(driver: &Arc<ForeignDriver<K>>) -> Result<Self, Error> {
        let socket = driver.process.connect()?;
        let lost = |error| Error::source_unavailable("the worker has no socket").cause(error);
        socket.set_read_timeout(Some(LOOK)).map_err(lost)?;
        socket.set_write_timeout(Some(GRACE)).map_err(lost)?;
        let link = RefCell::new(Link {
            socket,
            is_busy: false,
            deadline: Some(Instant::now() + CONNECT),
            header: [0; HEADER],
            payload: Vec::new(),
            read: 0,
        });
        let log_in = driver.credentials.log_in(|opening| async { driver.open(&link, opening) });
        let opening = RefCell::new(Some(wait(log_in).map_err(ConnectError::into_cause)?));
        link.borrow_mut().deadline = None;
        Ok(Self {
            driver: Arc::clone(driver),
            opening,
            link,
            in_transaction: Cell::new(false),
            leaves_state: Cell::new(false),
        })
    }

    /// Sends a request, and returns the first frame of its answer. If the database refuses the
    /// connection's credentials, sends it again on a connection with others.
    fn ask(&self, request: &Request) -> Result<Reply, FrameError> {
        let asked = self.link.borrow_mut().ask(request);
        match asked {
            Err(FrameError::Failed(failed)) if failed.fault == Fault::Login => match self.log_in_again()? {
                true => self.link.borrow_mut().ask(request),
                false => Err(FrameError::Failed(failed)),
            },
            asked => asked,
        }
    }

    /// Replaces the driver's connection by one with other credentials. Returns false if there are
    /// none. If the last replacement failed, any credentials will do.
    fn log_in_again(&self) -> Result<bool, FrameError> {
        let credentials = &self.driver.credentials;
        let open = |opening| async { self.open_again(opening) };
        let refused = self.opening.borrow().clone();
        let opened = match &refused {
            Some(refused) => wait(credentials.log_in_again(refused, open)),
            None => wait(credentials.log_in(open)).map(Some),
        };
        let is_open = opened.map_err(|error| FrameError::NotReplaced(error.into_cause()))?.is_some();
        if is_open && self.in_transaction.get() {
            self.link.borrow_mut().run(&Request::Begin)?;
        }
        Ok(is_open)
    }

    /// Opens the driver's connection with these settings. The old one is closed, even if that fails.
    fn open_again(&self, opening: Opening) -> Result<(), ConnectError> {
        self.opening.replace(None);
        let opened = self.driver.open(&self.link, opening)?;
        self.opening.replace(Some(opened));
        Ok(())
    }

    fn error(&self, missing: FrameError) -> Error {
        self.driver.error(missing)
    }

    /// Cancels the running statement. Returns true if the driver process reports its end. If it
    /// doesn't within [`GRACE`], we kill the process.
    fn cancel(&self) -> bool {
        let mut link = self.link.borrow_mut();
        link.deadline = Some(Instant::now() + GRACE);
        let asked = Request::Cancel.write(&mut &link.socket);
        let ended = asked.map_err(FrameError::from).and_then(|()| link.end());
        link.deadline = None;
        match ended {
            Ok(()) | Err(FrameError::Failed(_)) => true,
            Err(FrameError::Lost(_) | FrameError::NotReplaced(_)) => false,
            Err(FrameError::Stopped) => {
                self.driver.process.kill();
                false
            }
        }
    }
}

fn is_closed(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset
    )
}

impl<K: DriverKind> DriverConnection for ProcessConnection<K> {
    type Driver = ForeignDriver<K>;
    /// None: a thread that waits for the driver process calls `tick` itself.
    type Interrupt = ();
    type Statement<'c> = Vec<Argument>;
    type Rows<'r> = ForeignRows<'r, K>;

    fn interrupt(&self) {}

    fn describe(&self, statement: &Statement) -> Result<(Arc<[Column]>, Plan), Error> {
        let sql = statement.sql.to_string();
        let mut decoder = StreamDecoder::new();
        let request =
            Request::Describe { sql, arguments: statement.types.iter().copied().map(null).collect() };
        let mut reply = self.ask(&request);
        while let Ok(Reply::Arrow(bytes)) = reply {
            reply = decode(&mut decoder, bytes).and_then(|_| self.link.borrow_mut().reply());
        }
        reply.map_err(|missing| self.error(missing))?;
        let schema = decoder.schema().ok_or_else(|| Error::protocol("the worker sent no schema"))?;
        if schema.fields().is_empty() {
            return Err(Error::endpoint("the statement has no columns, so it isn't a query"));
        }
        Ok((schema.fields().iter().map(|field| column(field)).collect(), schema))
    }

    fn begin(&self) -> Result<(), Error> {
        if !self.in_transaction.get() {
            self.ask(&Request::Begin).map_err(|missing| self.error(missing))?;
            self.in_transaction.set(true);
        }
        Ok(())
    }

    fn compile(&self, described: &Description, args: &[Argument]) -> Result<Vec<Argument>, Failure> {
        self.leaves_state.set(self.leaves_state.get() || described.leaves_state);
        let mut arguments = args.to_vec();
        if args.contains(&Argument::Null) {
            let statement = &described.statement;
            match K::DIALECT.placeholders {
                Placeholders::ByOccurrence => {
                    fill_limits(&mut arguments, &limit_placeholders(&statement.sql, K::DIALECT));
                }
                Placeholders::ByNumber(_) => type_nulls(&mut arguments, &statement.types),
            }
        }
        Ok(arguments)
    }

    fn rows<'r, 'c: 'r>(
        &'r self,
        statement: &'r mut Vec<Argument>,
        described: &'r Description,
    ) -> ForeignRows<'r, K> {
        ForeignRows {
            connection: self,
            described,
            arguments: std::mem::take(statement),
            decoder: StreamDecoder::new(),
            columns: Vec::new(),
            values: Columns::default(),
            row: 0,
            rows: 0,
            pieces: None,
            taken: Cell::new(1),
        }
    }

    fn clean_up(&self) -> bool {
        let is_busy = self.link.borrow().is_busy;
        if is_busy && !(self.cancel() && K::SURVIVES) {
            return false;
        }
        if self.leaves_state.get() {
            return false;
        }
        !self.in_transaction.replace(false) || self.roll_back()
    }
}

impl<K: DriverKind> ProcessConnection<K> {
    fn roll_back(&self) -> bool {
        self.link.borrow_mut().deadline = Some(Instant::now() + GRACE);
        let ended = self.link.borrow_mut().run(&Request::RollBack);
        self.link.borrow_mut().deadline = None;
        ended.is_ok()
    }
}

/// The rows of a running statement.
pub struct ForeignRows<'r, K> {
    connection: &'r ProcessConnection<K>,
    described: &'r Description,
    arguments: Vec<Argument>,
    decoder: StreamDecoder,
    /// The columns of the current batch, if it's sent in pieces.
    columns: Vec<ArrayRef>,
    /// The columns of the current batch, if its rows are packed one by one.
    values: Columns,
    row: usize,
    rows: usize,
    /// Cuts batches into pieces; `None`: rows are packed one by one.
    pieces: Option<RefCell<Pieces>>,
    /// How many rows the last `pack` took.
    taken: Cell<usize>,
}

impl<K: DriverKind> DriverRows for ForeignRows<'_, K> {
    fn as_batches(&mut self, columns: usize) -> Result<(), Error> {
        self.pieces = Some(RefCell::new(Pieces::new(&self.described.plan, columns)?));
        Ok(())
    }

    fn first(&mut self) -> Result<bool, Failure> {
        let sql = self.described.statement.sql.to_string();
        let request = Request::Execute { sql, arguments: std::mem::take(&mut self.arguments) };
        let reply = self.connection.ask(&request);
        let is_row = self.batch(reply)?;
        self.check_columns()?;
        Ok(is_row)
    }

    #[inline]
    fn next(&mut self) -> Result<bool, Failure> {
        self.row += self.taken.get();
        if self.row < self.rows {
            return Ok(true);
        }
        // Frees the last batch while the driver process makes the next.
        self.columns.clear();
        self.values = Columns::default();
        let reply = self.connection.link.borrow_mut().reply();
        Ok(self.batch(reply)?)
    }

    #[inline]
    fn pack(&self, limit: usize, batch: &mut Vec<u8>) -> Result<(), Error> {
        let columns = &self.described.columns;
        let Some(pieces) = &self.pieces else {
            return self.values.pack(self.row, columns, limit, batch);
        };
        let rows = self.row..self.rows;
        self.taken.set(pieces.borrow_mut().pack(&self.columns, rows, columns, limit, batch)?);
        Ok(())
    }
}

impl<K: DriverKind> ForeignRows<'_, K> {
    /// Reads the next batch that has rows, from this frame on. Returns false after the last one.
    fn batch(&mut self, mut reply: Result<Reply, FrameError>) -> Result<bool, Error> {
        let mut link = self.connection.link.borrow_mut();
        loop {
            let batch = match reply {
                Ok(Reply::End) => return Ok(false),
                Ok(Reply::Arrow(bytes)) => decode(&mut self.decoder, bytes),
                Err(missing) => Err(missing),
            };
            match batch {
                Ok(Some(batch)) if batch.num_rows() > 0 => {
                    (self.row, self.rows) = (0, batch.num_rows());
                    match &self.pieces {
                        Some(_) => self.columns = batch.columns().to_vec(),
                        None => self.values = Columns::of(batch.columns()),
                    }
                    return Ok(true);
                }
                Ok(_) => reply = link.reply(),
                Err(missing) => {
                    drop(link);
                    return Err(self.connection.error(missing));
                }
            }
        }
    }

    /// Tables can change after the statement was described, and values would get the wrong names.
    fn check_columns(&self) -> Result<(), Failure> {
        let schema = self.decoder.schema();
        let is_same = schema.as_ref().is_some_and(|schema| is_described(schema, &self.described.columns));
        if is_same { Ok(()) } else { Err(Failure::Outdated(self.changed(schema.as_ref()))) }
    }

    /// The error for other columns than those described. The scale of a decimal without a type of its
    /// own is that of a parameter's value.
    #[cold]
    fn changed(&self, schema: Option<&SchemaRef>) -> Error {
        let Description { statement, columns, .. } = self.described;
        let takes_decimals = statement.types.contains(&ParamType::Number.into());
        let fields = schema.into_iter().flat_map(|schema| schema.fields());
        let rescaled = fields.zip(columns.iter()).find(|(field, column)| {
            matches!(column.kind, ColumnKind::Decimal { .. })
                && field.data_type().to_string() != column.type_name
        });
        match rescaled {
            Some((_, column)) if takes_decimals => {
                let message =
                    format!("the type of column `{}` depends on the value of a parameter", column.name);
                Error::endpoint(message)
                    .hint("cast the parameter in the statement, as in `:x::decimal(18, 4)`")
            }
            _ => Error::source_unavailable(format!(
                "the tables of source `{}` changed while a statement was prepared",
                self.connection.driver.source
            )),
        }
    }
}

/// Replaces a NULL limit by all rows, and a NULL offset by 0. Databases disagree about NULL: some
/// have no limit then, some fail, and MariaDB returns no rows.
fn fill_limits(arguments: &mut [Argument], limits: &[(usize, LimitPart)]) {
    for (place, part) in limits {
        if let Some(argument @ Argument::Null) = arguments.get_mut(*place) {
            *argument = Argument::Integer(match part {
                LimitPart::Rows => i64::MAX,
                LimitPart::Offset => 0,
            });
        }
    }
}

/// Gives each NULL the type that it was described with. Without one, a column could have another type.
fn type_nulls(arguments: &mut [Argument], types: &[BindType]) {
    for (argument, bind) in arguments.iter_mut().zip(types) {
        if *argument == Argument::Null {
            *argument = null(*bind);
        }
    }
}

/// Returns the batch in a piece of an Arrow stream, if there is one.
fn decode(decoder: &mut StreamDecoder, bytes: Vec<u8>) -> Result<Option<RecordBatch>, FrameError> {
    decode_piece(decoder, bytes).map_err(|error| FrameError::Lost(io::Error::other(error)))
}

/// Converts a driver's failure to the error that a user sees.
fn of_driver(source: &str, failed: Failed) -> Error {
    let Failed { fault, message, sqlstate } = failed;
    let (code, status) = match fault {
        Fault::Driver => {
            let text = format!("the driver of source `{source}` cannot be loaded");
            return Error::source_unavailable(text).cause(message).hint(
                "name its library: `adbc:/path/to/it.so?…`; for DuckDB, which also reads files, set the \
                 variable \
                 `ROWSTREAM_DUCKDB=/path/to/libduckdb.so`, as on https://duckdb.org/docs/installation",
            );
        }
        Fault::Connection | Fault::Login => {
            let text = format!("source `{source}` cannot be reached");
            return Error::source_unavailable(text).cause(message);
        }
        Fault::Changed => {
            let text = format!("a file of source `{source}` changed while it was read");
            return Error::source_unavailable(text)
                .cause(message)
                .hint("write a new file beside it, and rename it: streams that have begun read the old one");
        }
        Fault::Statement => ("statement_failed", StatusCode::INTERNAL_SERVER_ERROR),
        Fault::Data => (INVALID_DATA, StatusCode::BAD_REQUEST),
        Fault::Cancelled => (STATEMENT_TIMEOUT, StatusCode::GATEWAY_TIMEOUT),
    };
    // The text is more precise than a general SQLSTATE.
    let reason = reason_of_text(&message).or_else(|| reason_of_state(sqlstate.as_deref()?));
    let error = Error::new(code, status, general(code)).because(reason).database(message);
    match sqlstate {
        Some(sqlstate) => error.sqlstate(sqlstate),
        None => error,
    }
}

/// NULL, with the type of a parameter.
fn null(bind: BindType) -> Argument {
    let value = match bind {
        BindType::Inferred => return Argument::Null,
        BindType::One(ParamType::Integer) => Argument::Integer(0),
        BindType::One(ParamType::Number) => Argument::Number("0".to_owned()),
        BindType::One(ParamType::Boolean) => Argument::Boolean(false),
        BindType::One(ParamType::Date) => Argument::Date(0),
        BindType::One(ParamType::Timestamp) => Argument::Timestamp(0),
        BindType::One(_) => Argument::Text(String::new()),
        BindType::List(ParamType::Integer) => Argument::List(vec![Argument::Integer(0)]),
        BindType::List(_) => Argument::List(Vec::new()),
    };
    Argument::NullOf(Box::new(value))
}

/// Decodes a piece of an Arrow stream, and returns its batch, if it has one. A piece is one
/// message, after the dictionaries that it needs.
///
/// # Errors
/// The piece is invalid.
pub(super) fn decode_piece(
    decoder: &mut StreamDecoder,
    piece: Vec<u8>,
) -> Result<Option<RecordBatch>, ArrowError> {
    arrow_rows::checked(|| decoder.decode(&mut piece.into()))
}
