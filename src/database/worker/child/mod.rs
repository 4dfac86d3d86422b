//! The worker process: it loads a driver, and serves the connections that the server makes to it.
//!
//! Each connection has two threads. One reads requests, so that a cancellation is seen while a
//! statement runs; the other one calls the driver and writes rows. A write waits until the server
//! reads, which is the back-pressure.

mod bind;

use std::error::Error as _;
use std::io::{self, Write as _};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread;

use adbc_core::error::Status;
use adbc_core::options::{AdbcVersion, OptionConnection, OptionDatabase, OptionValue};
use adbc_core::{
    CancelHandle, Connection as _, Database as _, Driver as _, LOAD_FLAG_DEFAULT, Optionable as _,
    Statement as _,
};
use adbc_driver_manager::{ManagedConnection, ManagedDatabase, ManagedDriver, ManagedStatement};
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, Schema};

use super::frame::{self, ARROW, Argument, END, FAILED, Failed, Fault, Opening, Request};
use crate::lock::Mutex;

/// Serves until the server has gone. Standard input is a pipe that ends then, and standard output
/// the socket to listen on.
///
/// # Errors
/// Standard output is no socket: somebody else has called it.
pub(crate) fn run() -> io::Result<()> {
    let listener = UnixListener::from(io::stdout().as_fd().try_clone_to_owned()?);
    // Asked first: what is no socket cannot be listened to.
    listener.local_addr()?;
    thread::Builder::new().name("server".to_owned()).spawn(|| {
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
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

/// The database, which is opened by the first connection.
#[derive(Default)]
struct Database {
    opening: Mutex<()>,
    open: OnceLock<ManagedDatabase>,
}

impl Database {
    fn connect(&self, opening: &Opening) -> Result<ManagedConnection, Failed> {
        let _one_at_a_time = self.opening.lock();
        if let Some(open) = self.open.get() {
            return open.new_connection().map_err(connection_failed);
        }
        let open = load(opening)?;
        let mut connection = open.new_connection().map_err(connection_failed)?;
        for sql in &opening.first {
            execute_update(&mut connection, sql)?;
        }
        // Only now, so that what failed is tried again.
        let _ = self.open.set(open);
        Ok(connection)
    }
}

fn load(opening: &Opening) -> Result<ManagedDatabase, Failed> {
    let Opening { driver, entrypoint, options, .. } = opening;
    let entrypoint = entrypoint.as_ref().map(String::as_bytes);
    let loaded =
        ManagedDriver::load_from_name(driver, entrypoint, AdbcVersion::V110, LOAD_FLAG_DEFAULT, None);
    let options = options
        .iter()
        .map(|(key, value)| (OptionDatabase::from(key.as_str()), OptionValue::String(value.clone())));
    let mut driver = loaded.map_err(connection_failed)?;
    driver.new_database_with_opts(options).map_err(connection_failed)
}

fn execute_update(connection: &mut ManagedConnection, sql: &str) -> Result<(), Failed> {
    let mut statement = connection.new_statement().map_err(connection_failed)?;
    statement.set_sql_query(sql).map_err(connection_failed)?;
    statement.execute_update().map_err(connection_failed)?;
    Ok(())
}

/// What runs at this moment, for the thread that reads requests.
#[derive(Default)]
struct Running {
    /// How many cancellations have come.
    cancelled: AtomicU64,
    handles: Mutex<Vec<Box<dyn CancelHandle>>>,
}

impl Running {
    /// Ends what runs. A driver that cannot is waited for, and the server ends the process.
    fn cancel(&self) {
        self.cancelled.fetch_add(1, Ordering::SeqCst);
        for handle in &*self.handles.lock() {
            let _ = handle.try_cancel();
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
    let mut connection = match due.recv() {
        Ok((Request::Open(opening), _)) => match database.connect(&opening) {
            Ok(connection) => connection,
            Err(failed) => return answer(socket, Err(Ended::Failed(failed))),
        },
        _ => return Ok(()),
    };
    answer(socket, Ok(()))?;
    Serving { socket, running: &running, connection: &mut connection }.serve(&due)
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
    connection: &'a mut ManagedConnection,
}

impl Serving<'_> {
    fn serve(&mut self, due: &Receiver<Job>) -> io::Result<()> {
        while let Ok((request, before)) = due.recv() {
            let ended = self.obey(request, before);
            self.running.handles.lock().clear();
            answer(self.socket, ended)?;
        }
        Ok(())
    }

    fn obey(&mut self, request: Request, before: u64) -> Result<(), Ended> {
        match request {
            Request::Describe { sql, arguments } => self.describe(&sql, &arguments),
            Request::Execute { sql, arguments } => self.execute(&sql, &arguments, before),
            Request::Begin => self.autocommit(false),
            Request::RollBack => {
                self.connection.rollback().map_err(statement_failed)?;
                self.autocommit(true)
            }
            Request::Open(_) | Request::Cancel => Ok(()),
        }
    }

    fn autocommit(&mut self, on: bool) -> Result<(), Ended> {
        let value = OptionValue::String(on.to_string());
        let set = self.connection.set_option(OptionConnection::AutoCommit, value);
        Ok(set.map_err(statement_failed)?)
    }

    fn prepare(&mut self, sql: &str) -> Result<ManagedStatement, Failed> {
        let mut statement = self.connection.new_statement().map_err(statement_failed)?;
        statement.set_sql_query(sql).map_err(statement_failed)?;
        statement.prepare().map_err(statement_failed)?;
        Ok(statement)
    }

    /// Sends the schema of the rows. A driver that cannot say it without running the statement, or
    /// without the types of its arguments, runs it with NULLs.
    fn describe(&mut self, sql: &str, arguments: &[Argument]) -> Result<(), Ended> {
        let mut statement = self.prepare(sql)?;
        let placeholders = statement.get_parameter_schema().map(|schema| schema.fields().len());
        if placeholders.as_ref().is_ok_and(|placeholders| *placeholders != arguments.len()) {
            let message = format!(
                "the statement has {} placeholders, and {} parameters are declared for it",
                placeholders.unwrap_or_default(),
                arguments.len()
            );
            return Err(Failed { fault: Fault::Statement, message, sqlstate: None }.into());
        }
        let schema = match statement.execute_schema() {
            Ok(schema) => schema,
            Err(_) => {
                bind::bind(&mut statement, arguments)?;
                statement.execute().map_err(statement_failed)?.schema().as_ref().clone()
            }
        };
        RowSender::new(self.socket, &schema)?.finish()
    }

    fn execute(&mut self, sql: &str, arguments: &[Argument], before: u64) -> Result<(), Ended> {
        let mut statement = self.prepare(sql)?;
        bind::bind(&mut statement, arguments)?;
        *self.running.handles.lock() =
            vec![statement.get_cancel_handle(), self.connection.get_cancel_handle()];
        self.go_on(before)?;
        let rows = statement.execute().map_err(|error| self.why(before, statement_failed(error)))?;
        let mut sender = RowSender::new(self.socket, &rows.schema())?;
        for batch in rows {
            self.go_on(before)?;
            sender.write(&batch.map_err(|error| self.why(before, of_rows(error)))?)?;
        }
        sender.finish()
    }

    /// Whether the statement is still wanted.
    fn go_on(&self, before: u64) -> Result<(), Failed> {
        match self.running.cancelled.load(Ordering::SeqCst) == before {
            true => Ok(()),
            false => Err(cancelled()),
        }
    }

    /// What is reported of a statement that failed: that it was cancelled, if it was.
    fn why(&self, before: u64, failed: Failed) -> Failed {
        self.go_on(before).err().unwrap_or(failed)
    }
}

fn cancelled() -> Failed {
    Failed { fault: Fault::Cancelled, message: "the statement was cancelled".to_owned(), sqlstate: None }
}

/// Sends rows as pieces of an Arrow stream.
struct RowSender<'a> {
    socket: &'a UnixStream,
    writer: StreamWriter<Vec<u8>>,
}

impl<'a> RowSender<'a> {
    /// The schema goes with the first piece.
    fn new(socket: &'a UnixStream, schema: &Schema) -> Result<Self, Ended> {
        let writer = StreamWriter::try_new(Vec::new(), schema).map_err(of_rows)?;
        Ok(Self { socket, writer })
    }

    /// Sends a batch in pieces of some size, so that what both ends hold of it is bounded.
    fn write(&mut self, batch: &RecordBatch) -> Result<(), Ended> {
        let bytes = batch.get_array_memory_size().max(1);
        let rows = (batch.num_rows() * super::BATCH / bytes).clamp(1, batch.num_rows().max(1));
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

fn of_rows(error: ArrowError) -> Failed {
    match error {
        ArrowError::ExternalError(error) => match error.downcast::<adbc_core::error::Error>() {
            Ok(error) => statement_failed(*error),
            Err(error) => data_failed(error.to_string()),
        },
        error => data_failed(error.source().map_or_else(|| error.to_string(), ToString::to_string)),
    }
}

fn data_failed(message: String) -> Failed {
    Failed { fault: Fault::Statement, message, sqlstate: None }
}

fn connection_failed(error: adbc_core::error::Error) -> Failed {
    Failed { fault: Fault::Connection, ..statement_failed(error) }
}

fn statement_failed(error: adbc_core::error::Error) -> Failed {
    let fault = match error.status {
        Status::Cancelled | Status::Timeout => Fault::Cancelled,
        Status::InvalidData => Fault::Data,
        Status::IO | Status::Unauthenticated | Status::Unauthorized => Fault::Connection,
        _ => Fault::Statement,
    };
    // A driver fills what it does not know with zeros.
    let sqlstate: Vec<_> = error.sqlstate.iter().map(|byte| *byte as u8).collect();
    let sqlstate = String::from_utf8(sqlstate)
        .ok()
        .filter(|text| text.bytes().all(|byte| byte.is_ascii_alphanumeric()) && text != "00000");
    Failed { fault, message: error.message, sqlstate }
}
