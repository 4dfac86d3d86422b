//! The driver process: it loads a driver, and serves the server's connections.
//!
//! Each connection has two threads. One reads requests, so that it sees a cancellation while a
//! statement runs. The other calls the driver and writes rows. A write waits until the server
//! reads, which provides the back-pressure.

#[cfg(feature = "adbc")]
mod adbc;
#[cfg(feature = "odbc")]
mod odbc;
mod session;

use std::cell::Cell;
use std::error::Error as _;
use std::io::{self, Write as _};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, Schema};
use rowstream_core::lock::{Condvar, Mutex};

use self::session::Session;
use super::frame::{self, ARROW, END, FAILED, Failed, Fault, Opening, Request};
use super::process::remove_folder;
use crate::arrow_rows::Argument;

/// Serves until the server ends. Standard input is a pipe that closes then, and standard output is
/// the socket to listen on.
///
/// # Errors
/// Standard output isn't a socket, because the server hasn't started this process. Or the system
/// refuses the memory limit.
pub fn run(memory: u64) -> io::Result<()> {
    let listener = UnixListener::from(io::stdout().as_fd().try_clone_to_owned()?);
    // Checked first, because we can't listen on anything except a socket.
    let address = listener.local_addr()?;
    bound_memory(memory)?;
    thread::Builder::new().name("server".to_owned()).spawn(move || {
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        // They remain if the server was killed. A server that shuts down removes them, too.
        if let Some(socket) = address.as_pathname() {
            remove_folder(socket);
        }
        std::process::exit(0);
    })?;
    let database = Arc::new(DriverState::default());
    for socket in listener.incoming() {
        let (socket, database) = (socket?, Arc::clone(&database));
        // If the system has no thread for it, the server notices that the connection is closed. The
        // others continue.
        let _ = thread::Builder::new().name("connection".to_owned()).spawn(move || {
            let _ = serve(&socket, &database);
        });
    }
    Ok(())
}

/// Limits the private writable memory of this process, in bytes. Allocations of a driver beyond it
/// fail. Address space that is only reserved doesn't count.
fn bound_memory(bytes: u64) -> io::Result<()> {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: bytes };
    #[expect(unsafe_code, reason = "the standard library sets no such limit")]
    // SAFETY: the call reads the limit, and doesn't keep the pointer.
    match unsafe { libc::setrlimit(libc::RLIMIT_DATA, &raw const limit) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The state that all connections of a source share.
#[derive(Default)]
struct DriverState {
    #[cfg(feature = "adbc")]
    adbc: Arc<adbc::Database>,
}

impl DriverState {
    fn connect(&self, opening: &Opening) -> Result<Box<dyn ChildConnection>, Failed> {
        match opening {
            #[cfg(feature = "adbc")]
            Opening::Adbc(opening) => {
                let (database, opening) = (Arc::clone(&self.adbc), opening.clone());
                Ok(Box::new(Session::open(move || database.connect(&opening))?))
            }
            #[cfg(feature = "odbc")]
            Opening::Odbc(opening) => {
                let opening = opening.clone();
                Ok(Box::new(Session::open(move || odbc::OdbcConnection::open(&opening))?))
            }
            #[cfg(not(all(feature = "adbc", feature = "odbc")))]
            _ => Err(data_failed("this program was built without such drivers".to_owned())),
        }
    }
}

/// A driver's connection.
trait ChildConnection {
    /// Returns the schema of a statement's rows. `arguments` are NULLs of its parameters' types.
    ///
    /// # Errors
    /// The driver's error for the statement.
    fn describe(&mut self, sql: &str, arguments: &[Argument]) -> Result<Schema, Failed>;

    /// Runs a statement, and sends its rows.
    ///
    /// # Errors
    /// The statement failed, or the server has left.
    fn execute(&mut self, sql: &str, arguments: &[Argument], run: &Run<'_>) -> Result<(), EndReason>;

    /// Begins a transaction.
    ///
    /// # Errors
    /// The driver has no transactions.
    fn begin(&mut self) -> Result<(), Failed>;

    /// Ends the transaction.
    ///
    /// # Errors
    /// The transaction can't be ended.
    fn roll_back(&mut self) -> Result<(), Failed>;
}

/// How far a connection's transaction has got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Transaction {
    /// No transaction is open.
    None,
    /// It has begun, and no statement has run in it. We can begin it again on a new connection.
    Begun,
    /// A statement has run in it. No other connection sees its snapshot.
    Reading,
}

impl Transaction {
    /// Records that a statement has run.
    fn has_run(&mut self) {
        if *self == Self::Begun {
            *self = Self::Reading;
        }
    }

    /// The reason why a request in this transaction ended. The server must not repeat the request on
    /// another connection if it needs the snapshot.
    fn failure(self, ended: EndReason) -> EndReason {
        match (self, ended) {
            (Self::Reading, EndReason::Failed(failed)) if failed.fault == Fault::Login => {
                EndReason::Failed(Failed { fault: Fault::Connection, ..failed })
            }
            (_, ended) => ended,
        }
    }
}

/// Ends a driver's call, from another thread.
type CancelCall = Box<dyn Fn() + Send>;

/// How long a cancelled statement can take to end by itself, because it checks between two calls of
/// its driver. After that, we ask the driver to end it.
///
/// We ask from another thread, perhaps during one of the statement's calls. Some drivers can't do
/// that safely: MariaDB's ODBC driver frees the rows that are being fetched.
const BY_ITSELF: Duration = Duration::from_millis(100);

/// The running statement, for the thread that reads requests.
#[derive(Default)]
struct CurrentStatement {
    /// The number of cancellations so far.
    cancelled: AtomicU64,
    cancels: Mutex<Vec<CancelCall>>,
    /// Notified when a statement has ended.
    ended: Condvar,
}

impl CurrentStatement {
    /// Ends the running statement. If the driver can't cancel, we wait for it, and the server kills
    /// the process.
    fn cancel(&self) {
        self.cancelled.fetch_add(1, Ordering::SeqCst);
        let runs = |cancels: &mut Vec<CancelCall>| !cancels.is_empty();
        for cancel in &*self.ended.wait_timeout_while(self.cancels.lock(), BY_ITSELF, runs) {
            cancel();
        }
    }
}

/// A request, and the number of cancellations before it.
type Job = (Request, u64);

fn serve(socket: &UnixStream, database: &DriverState) -> io::Result<()> {
    let running = Arc::new(CurrentStatement::default());
    let (jobs, due) = channel();
    let (reader, watched) = (socket.try_clone()?, Arc::clone(&running));
    thread::Builder::new()
        .name("requests".to_owned())
        .spawn(move || read_requests(reader, &jobs, &watched))?;
    ConnectionServer { socket, running: &running, database, connection: None, fetch_bytes: 0 }.serve(&due)
}

/// Forwards requests, and handles cancellations at once.
fn read_requests(mut socket: UnixStream, jobs: &Sender<Job>, running: &CurrentStatement) {
    while let Ok(Some(request)) = Request::read(&mut socket) {
        match request {
            Request::Cancel => running.cancel(),
            request => {
                let before = running.cancelled.load(Ordering::SeqCst);
                if jobs.send((request, before)).is_err() {
                    return;
                }
            }
        }
    }
    // The server has closed the connection, so we end its statement.
    running.cancel();
}

/// The reason why a request ended early.
enum EndReason {
    Failed(Failed),
    /// The server has closed the connection.
    Gone(io::Error),
}

impl EndReason {
    /// Returns the failure of a request that sends no rows.
    fn failed(self) -> Failed {
        match self {
            Self::Failed(failed) => failed,
            Self::Gone(error) => data_failed(error.to_string()),
        }
    }
}

impl From<Failed> for EndReason {
    fn from(failed: Failed) -> Self {
        Self::Failed(failed)
    }
}

impl From<io::Error> for EndReason {
    fn from(error: io::Error) -> Self {
        Self::Gone(error)
    }
}

/// Sends the result of a request.
fn answer(mut socket: &UnixStream, ended: Result<(), EndReason>) -> io::Result<()> {
    match ended {
        Ok(()) => frame::write(&mut socket, END, &[]),
        Err(EndReason::Failed(failed)) => frame::write(&mut socket, FAILED, &serde_json::to_vec(&failed)?),
        Err(EndReason::Gone(error)) => Err(error),
    }
}

struct ConnectionServer<'a> {
    socket: &'a UnixStream,
    running: &'a CurrentStatement,
    database: &'a DriverState,
    /// `None` if the driver couldn't connect.
    connection: Option<Box<dyn ChildConnection>>,
    fetch_bytes: usize,
}

impl ConnectionServer<'_> {
    fn serve(&mut self, due: &Receiver<Job>) -> io::Result<()> {
        while let Ok((request, before)) = due.recv() {
            let ended = self.obey(request, before);
            answer(self.socket, ended)?;
        }
        Ok(())
    }

    fn obey(&mut self, request: Request, before: u64) -> Result<(), EndReason> {
        let Self { socket, running, fetch_bytes, .. } = *self;
        let run = Run { socket, running, before, fetch_bytes, has_rows: Cell::new(false) };
        match request {
            Request::Open { opening, fetch_bytes } => Ok(self.open(&opening, fetch_bytes)?),
            Request::Describe { sql, arguments } => {
                let schema = self.connection()?.describe(&sql, &arguments)?;
                run.rows(&schema)?.finish()
            }
            Request::Execute { sql, arguments } => {
                let ended = self.connection()?.execute(&sql, &arguments, &run);
                ended.map_err(|ended| match ended {
                    EndReason::Failed(failed) => run.why(failed).into(),
                    gone => gone,
                })
            }
            Request::Begin => Ok(self.connection()?.begin()?),
            Request::RollBack => Ok(self.connection()?.roll_back()?),
            // The other thread handles it.
            Request::Cancel => Ok(()),
        }
    }

    fn open(&mut self, opening: &Opening, fetch_bytes: usize) -> Result<(), Failed> {
        // A file has one lock for all connections of this process, so the old one ends first.
        self.connection = None;
        self.connection = Some(self.database.connect(opening)?);
        self.fetch_bytes = fetch_bytes;
        Ok(())
    }

    fn connection(&mut self) -> Result<&mut (dyn ChildConnection + 'static), Failed> {
        self.connection.as_deref_mut().ok_or_else(not_connected)
    }
}

/// The run of a statement.
struct Run<'a> {
    socket: &'a UnixStream,
    running: &'a CurrentStatement,
    /// The number of cancellations before it.
    before: u64,
    /// The size of a batch of its rows, in bytes.
    fetch_bytes: usize,
    /// True once we have begun to send its rows.
    has_rows: Cell<bool>,
}

impl<'a> Run<'a> {
    /// Returns true if it can be run again: it wasn't cancelled, and the server has seen none of
    /// its rows.
    fn can_begin_again(&self) -> bool {
        !self.has_rows.get() && self.go_on().is_ok()
    }

    /// Registers `cancels`, which are called on a cancellation, until the returned value is
    /// dropped.
    ///
    /// # Errors
    /// The statement was already cancelled.
    fn cancelled_by(&self, cancels: Vec<CancelCall>) -> Result<CancelScope<'a>, Failed> {
        *self.running.cancels.lock() = cancels;
        let cancellable = CancelScope(self.running);
        self.go_on().map(|()| cancellable)
    }

    /// Asks the driver to end the statement, between two of its calls.
    #[cfg(feature = "adbc")]
    fn cancel(&self) {
        for cancel in &*self.running.cancels.lock() {
            cancel();
        }
    }

    /// Fails if the statement was cancelled.
    fn go_on(&self) -> Result<(), Failed> {
        match self.running.cancelled.load(Ordering::SeqCst) == self.before {
            true => Ok(()),
            false => Err(cancelled()),
        }
    }

    /// Returns the failure to report: a cancellation if there was one, otherwise `failed`.
    fn why(&self, failed: Failed) -> Failed {
        self.go_on().err().unwrap_or(failed)
    }

    /// Begins to send its rows.
    fn rows(&self, schema: &Schema) -> Result<RowSender<'a>, EndReason> {
        self.has_rows.set(true);
        RowSender::new(self.socket, schema, self.fetch_bytes)
    }
}

/// A statement that can be ended from another thread. Must be dropped before the statement.
struct CancelScope<'a>(&'a CurrentStatement);

impl Drop for CancelScope<'_> {
    fn drop(&mut self) {
        self.0.cancels.lock().clear();
        self.0.ended.notify_one();
    }
}

fn not_connected() -> Failed {
    Failed { fault: Fault::Login, message: "the driver isn't connected".to_owned(), sqlstate: None }
}

fn cancelled() -> Failed {
    Failed { fault: Fault::Cancelled, message: "the statement was cancelled".to_owned(), sqlstate: None }
}

/// Sends rows as pieces of an Arrow stream.
struct RowSender<'a> {
    socket: &'a UnixStream,
    writer: StreamWriter<Vec<u8>>,
    /// The size of a piece, in bytes.
    most: usize,
}

impl<'a> RowSender<'a> {
    /// Creates the sender. The first piece contains the schema.
    fn new(socket: &'a UnixStream, schema: &Schema, most: usize) -> Result<Self, EndReason> {
        let writer = StreamWriter::try_new(Vec::new(), schema).map_err(of_rows)?;
        Ok(Self { socket, writer, most })
    }

    /// Sends a batch in pieces of limited size, which bounds the memory at both ends.
    fn write(&mut self, batch: &RecordBatch) -> Result<(), EndReason> {
        let bytes = batch.get_array_memory_size().max(1);
        let rows = (batch.num_rows() * self.most / bytes).clamp(1, batch.num_rows().max(1));
        for start in (0..batch.num_rows()).step_by(rows) {
            let piece = batch.slice(start, rows.min(batch.num_rows() - start));
            self.writer.write(&piece).map_err(of_rows)?;
            self.send()?;
        }
        Ok(())
    }

    /// Sends the end of the stream, with the schema if there was no row.
    fn finish(mut self) -> Result<(), EndReason> {
        self.writer.finish().map_err(of_rows)?;
        self.send()
    }

    /// Sends the bytes that were written.
    fn send(&mut self) -> Result<(), EndReason> {
        let written = std::mem::take(self.writer.get_mut());
        let mut socket = self.socket;
        frame::write(&mut socket, ARROW, &written)?;
        Ok(socket.flush()?)
    }
}

#[expect(clippy::needless_pass_by_value, reason = "as `map_err` calls it")]
fn of_rows(error: ArrowError) -> Failed {
    data_failed(error.source().map_or_else(|| error.to_string(), ToString::to_string))
}

fn data_failed(message: String) -> Failed {
    Failed { fault: Fault::Statement, message, sqlstate: None }
}

/// The number of a statement's placeholders differs from that of its declared parameters.
fn wrong_number(placeholders: usize, declared: usize) -> Failed {
    data_failed(format!(
        "the statement has {placeholders} placeholders, but {declared} parameters are declared for it"
    ))
}
