//! The worker process: it loads a driver, and serves the connections that the server makes to it.
//!
//! Each connection has two threads. One reads requests, so that a cancellation is seen while a
//! statement runs; the other one calls the driver and writes rows. A write waits until the server
//! reads, which is the back-pressure.

#[cfg(feature = "adbc")]
mod adbc;
#[cfg(feature = "odbc")]
mod odbc;

use std::cell::Cell;
use std::error::Error as _;
use std::fs;
use std::io::{self, Write as _};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, Schema};

use super::frame::{self, ARROW, END, FAILED, Failed, Fault, Opening, Request};
use crate::database::arrow_rows::Argument;
use rowstream_core::lock::{Condvar, Mutex};

/// Serves until the server has gone. Standard input is a pipe that ends then, and standard output
/// the socket to listen on.
///
/// # Errors
/// Standard output is no socket: somebody else has called it. Or the system takes no bound.
pub(crate) fn run(memory: u64) -> io::Result<()> {
    let listener = UnixListener::from(io::stdout().as_fd().try_clone_to_owned()?);
    // Asked first: what is no socket cannot be listened to.
    let address = listener.local_addr()?;
    bound_memory(memory)?;
    thread::Builder::new().name("server".to_owned()).spawn(move || {
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        if let Some(socket) = address.as_pathname() {
            remove_folder(socket);
        }
        std::process::exit(0);
    })?;
    let database = Arc::new(Database::default());
    for socket in listener.incoming() {
        let (socket, database) = (socket?, Arc::clone(&database));
        thread::Builder::new().name("connection".to_owned()).spawn(move || {
            // The server sees that the connection has ended.
            let _ = serve(&socket, &database);
        })?;
    }
    Ok(())
}

/// Removes the socket and the folder that is made for it, which a server that was killed leaves.
/// One that ends in peace may be removing them at the same moment.
fn remove_folder(socket: &Path) {
    let _ = fs::remove_file(socket);
    let _ = socket.parent().map(fs::remove_dir);
}

/// Bounds the memory that this process can write to and shares with nobody, in bytes: what a driver
/// allocates beyond it, it does not get. Address space that is only reserved does not count.
fn bound_memory(bytes: u64) -> io::Result<()> {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: bytes };
    #[expect(unsafe_code, reason = "the standard library sets no such limit")]
    // SAFETY: the limit is read by the call, and not kept.
    match unsafe { libc::setrlimit(libc::RLIMIT_DATA, &raw const limit) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// What the connections of a source share.
#[derive(Default)]
struct Database {
    #[cfg(feature = "adbc")]
    adbc: Arc<adbc::Database>,
}

impl Database {
    fn connect(&self, opening: &Opening) -> Result<Box<dyn Connection>, Failed> {
        match opening {
            #[cfg(feature = "adbc")]
            Opening::Adbc(opening) => Ok(Box::new(self.adbc.connect(opening)?)),
            #[cfg(feature = "odbc")]
            Opening::Odbc(opening) => Ok(Box::new(odbc::Session::open(opening)?)),
            #[cfg(not(all(feature = "adbc", feature = "odbc")))]
            _ => Err(data_failed("this program was built without such drivers".to_owned())),
        }
    }
}

/// A connection of a driver.
trait Connection {
    /// The schema of the rows of a statement. `arguments` are NULLs of its parameters' types.
    ///
    /// # Errors
    /// What the driver says of the statement.
    fn describe(&mut self, sql: &str, arguments: &[Argument]) -> Result<Schema, Failed>;

    /// Runs a statement, and sends its rows.
    ///
    /// # Errors
    /// It failed, or nobody wants it.
    fn execute(&mut self, sql: &str, arguments: &[Argument], run: &Run<'_>) -> Result<(), Ended>;

    /// Begins a transaction.
    ///
    /// # Errors
    /// The driver has none.
    fn begin(&mut self) -> Result<(), Failed>;

    /// Ends it.
    ///
    /// # Errors
    /// It cannot be ended.
    fn roll_back(&mut self) -> Result<(), Failed>;
}

/// Ends what a driver does, from another thread.
type Cancel = Box<dyn Fn() + Send>;

/// How long a cancelled statement may take to end by itself: it looks between two calls of its
/// driver. After that, the driver is asked to end it.
///
/// The driver is asked from another thread, while the statement may be in one of its calls. Some
/// drivers do not bear that: MariaDB's for ODBC frees the rows that are being fetched.
const BY_ITSELF: Duration = Duration::from_millis(100);

/// What runs at this moment, for the thread that reads requests.
#[derive(Default)]
struct Running {
    /// How many cancellations have come.
    cancelled: AtomicU64,
    cancels: Mutex<Vec<Cancel>>,
    /// Notified when a statement has ended.
    ended: Condvar,
}

impl Running {
    /// Ends what runs. A driver that cannot is waited for, and the server ends the process.
    fn cancel(&self) {
        self.cancelled.fetch_add(1, Ordering::SeqCst);
        let runs = |cancels: &mut Vec<Cancel>| !cancels.is_empty();
        for cancel in &*self.ended.wait_timeout_while(self.cancels.lock(), BY_ITSELF, runs) {
            cancel();
        }
    }
}

/// A request, and how many cancellations had come before it.
type Job = (Request, u64);

fn serve(socket: &UnixStream, database: &Database) -> io::Result<()> {
    let running = Arc::new(Running::default());
    let (jobs, due) = channel();
    let (reader, watched) = (socket.try_clone()?, Arc::clone(&running));
    thread::Builder::new()
        .name("requests".to_owned())
        .spawn(move || read_requests(reader, &jobs, &watched))?;
    let Ok((Request::Open { opening, fetch_bytes }, _)) = due.recv() else { return Ok(()) };
    let mut connection = match database.connect(&opening) {
        Ok(connection) => connection,
        Err(failed) => return answer(socket, Err(Ended::Failed(failed))),
    };
    answer(socket, Ok(()))?;
    Serving { socket, running: &running, connection: &mut *connection, fetch_bytes }.serve(&due)
}

/// Passes requests on, and does at once what ends one.
fn read_requests(mut socket: UnixStream, jobs: &Sender<Job>, running: &Running) {
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
    // The server has closed the connection: nobody wants what runs.
    running.cancel();
}

/// Why a request was not done.
enum Ended {
    Failed(Failed),
    /// The server has gone.
    Gone(io::Error),
}

#[cfg(feature = "odbc")]
impl Ended {
    /// The failure of a request that sends no rows.
    fn failed(self) -> Failed {
        match self {
            Self::Failed(failed) => failed,
            Self::Gone(error) => data_failed(error.to_string()),
        }
    }
}

impl From<Failed> for Ended {
    fn from(failed: Failed) -> Self {
        Self::Failed(failed)
    }
}

impl From<io::Error> for Ended {
    fn from(error: io::Error) -> Self {
        Self::Gone(error)
    }
}

/// Sends how a request ended.
fn answer(mut socket: &UnixStream, ended: Result<(), Ended>) -> io::Result<()> {
    match ended {
        Ok(()) => frame::write(&mut socket, END, &[]),
        Err(Ended::Failed(failed)) => frame::write(&mut socket, FAILED, &serde_json::to_vec(&failed)?),
        Err(Ended::Gone(error)) => Err(error),
    }
}

struct Serving<'a> {
    socket: &'a UnixStream,
    running: &'a Running,
    connection: &'a mut dyn Connection,
    fetch_bytes: usize,
}

impl Serving<'_> {
    fn serve(&mut self, due: &Receiver<Job>) -> io::Result<()> {
        while let Ok((request, before)) = due.recv() {
            let ended = self.obey(request, before);
            answer(self.socket, ended)?;
        }
        Ok(())
    }

    fn obey(&mut self, request: Request, before: u64) -> Result<(), Ended> {
        let Self { socket, running, fetch_bytes, .. } = *self;
        let run = Run { socket, running, before, fetch_bytes, has_rows: Cell::new(false) };
        match request {
            Request::Describe { sql, arguments } => {
                let schema = self.connection.describe(&sql, &arguments)?;
                run.rows(&schema)?.finish()
            }
            Request::Execute { sql, arguments } => {
                let ended = self.connection.execute(&sql, &arguments, &run);
                ended.map_err(|ended| match ended {
                    Ended::Failed(failed) => run.why(failed).into(),
                    gone => gone,
                })
            }
            Request::Begin => Ok(self.connection.begin()?),
            Request::RollBack => Ok(self.connection.roll_back()?),
            Request::Open { .. } | Request::Cancel => Ok(()),
        }
    }
}

/// A statement that is about to run.
struct Run<'a> {
    socket: &'a UnixStream,
    running: &'a Running,
    /// How many cancellations had come before it.
    before: u64,
    /// What a batch of its rows may have, in bytes.
    fetch_bytes: usize,
    /// True if its rows have begun.
    has_rows: Cell<bool>,
}

impl<'a> Run<'a> {
    /// True if it can be run once more: it's still wanted, and the server has seen none of its rows.
    #[cfg(feature = "odbc")]
    fn can_begin_again(&self) -> bool {
        !self.has_rows.get() && self.go_on().is_ok()
    }

    /// Has `cancels` called when the statement is to end, until what is returned is dropped.
    ///
    /// # Errors
    /// It is to end already.
    fn cancelled_by(&self, cancels: Vec<Cancel>) -> Result<Cancellable<'a>, Failed> {
        *self.running.cancels.lock() = cancels;
        let cancellable = Cancellable(self.running);
        self.go_on().map(|()| cancellable)
    }

    /// Whether the statement is still wanted.
    fn go_on(&self) -> Result<(), Failed> {
        match self.running.cancelled.load(Ordering::SeqCst) == self.before {
            true => Ok(()),
            false => Err(cancelled()),
        }
    }

    /// What is reported of a statement that failed: that it was cancelled, if it was.
    fn why(&self, failed: Failed) -> Failed {
        self.go_on().err().unwrap_or(failed)
    }

    /// Sends its rows.
    fn rows(&self, schema: &Schema) -> Result<RowSender<'a>, Ended> {
        self.has_rows.set(true);
        RowSender::new(self.socket, schema, self.fetch_bytes)
    }
}

/// A statement that can be ended from another thread. It must be dropped before the statement is.
struct Cancellable<'a>(&'a Running);

impl Drop for Cancellable<'_> {
    fn drop(&mut self) {
        self.0.cancels.lock().clear();
        self.0.ended.notify_one();
    }
}

fn cancelled() -> Failed {
    Failed { fault: Fault::Cancelled, message: "the statement was cancelled".to_owned(), sqlstate: None }
}

/// Sends rows as pieces of an Arrow stream.
struct RowSender<'a> {
    socket: &'a UnixStream,
    writer: StreamWriter<Vec<u8>>,
    /// What a piece may have, in bytes.
    most: usize,
}

impl<'a> RowSender<'a> {
    /// The schema goes with the first piece.
    fn new(socket: &'a UnixStream, schema: &Schema, most: usize) -> Result<Self, Ended> {
        let writer = StreamWriter::try_new(Vec::new(), schema).map_err(of_rows)?;
        Ok(Self { socket, writer, most })
    }

    /// Sends a batch in pieces of some size, so that what both ends hold of it is bounded.
    fn write(&mut self, batch: &RecordBatch) -> Result<(), Ended> {
        let bytes = batch.get_array_memory_size().max(1);
        let rows = (batch.num_rows() * self.most / bytes).clamp(1, batch.num_rows().max(1));
        for start in (0..batch.num_rows()).step_by(rows) {
            let piece = batch.slice(start, rows.min(batch.num_rows() - start));
            self.writer.write(&piece).map_err(of_rows)?;
            self.send()?;
        }
        Ok(())
    }

    /// Sends the end of the stream, and the schema if there was no row.
    fn finish(mut self) -> Result<(), Ended> {
        self.writer.finish().map_err(of_rows)?;
        self.send()
    }

    /// Sends what was written.
    fn send(&mut self) -> Result<(), Ended> {
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

/// A statement whose placeholders are not as many as the parameters that are declared for it.
fn wrong_number(placeholders: usize, declared: usize) -> Failed {
    data_failed(format!(
        "the statement has {placeholders} placeholders, and {declared} parameters are declared for it"
    ))
}
