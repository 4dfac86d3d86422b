//! Connections by drivers of ADBC.

mod files;
mod opaque;

use std::sync::{Arc, Weak};

use adbc_core::error::Status;
use adbc_core::options::{AdbcVersion, OptionConnection, OptionDatabase, OptionValue};
use adbc_core::{
    CancelHandle, Connection as _, Database as _, Driver as _, LOAD_FLAG_DEFAULT, Optionable as _,
    Statement as _,
};
use adbc_driver_manager::{ManagedConnection, ManagedDatabase, ManagedDriver, ManagedStatement};
use arrow_array::RecordBatchReader;
use arrow_schema::{ArrowError, Schema};
use rowstream_core::lock::Mutex;
use rowstream_core::sql::Dialect;
use rowstream_database::blocking::{self, FileId};

use self::files::FileStatement;
use super::super::dialect;
use super::super::frame::{AdbcOpening, Failed, Fault};
use super::session::MortalConnection;
use super::{CancelCall, EndReason, Run};
use crate::arrow_rows::{self, Argument};

/// The database. The first connection opens it, and the last one closes it, because DuckDB locks
/// its file as long as the database is open.
#[derive(Default)]
pub(super) struct Database {
    /// Locked while the database is opened or closed. A process has one lock per file: closing the
    /// old database after opening the new one would release the new one's lock.
    open: Mutex<Weak<OpenDatabase>>,
}

/// An open database.
struct OpenDatabase {
    database: ManagedDatabase,
    /// The options that it was opened with.
    options: Vec<(String, String)>,
    /// The file that was at its path when we opened it.
    file: Option<FileId>,
}

impl OpenDatabase {
    fn new(opening: &AdbcOpening) -> Result<Self, Failed> {
        loop {
            let file = file_at(opening);
            let database = load(opening)?;
            // Otherwise the file was replaced meanwhile, and we may have opened either.
            if file_at(opening) == file {
                return Ok(Self { database, options: opening.options.clone(), file });
            }
        }
    }
}

impl Database {
    /// Makes a connection. Opens the database if it isn't open, or if its file has been replaced or
    /// its options have changed. Connections to the old one keep it.
    pub(super) fn connect(self: &Arc<Self>, opening: &AdbcOpening) -> Result<AdbcConnection, Failed> {
        let mut latest = self.open.lock();
        let file = file_at(opening);
        let is_current = |open: &Arc<OpenDatabase>| open.file == file && open.options == opening.options;
        let current = latest.upgrade().filter(is_current);
        let (open, is_new) = match current {
            Some(open) => (open, false),
            None => (Arc::new(OpenDatabase::new(opening)?), true),
        };
        let mut connection = open.database.new_connection().map_err(connection_failed)?;
        if is_new {
            for sql in &opening.first {
                execute_update(&mut connection, sql).map_err(connection_failed)?;
            }
            // Not earlier: after a failure, the next connection must run these statements again.
            *latest = Arc::downgrade(&open);
        }
        let lease = Lease { open: Some(open), database: Arc::clone(self) };
        Ok(AdbcConnection { connection, _open: lease })
    }
}

/// Keeps a database open.
struct Lease {
    open: Option<Arc<OpenDatabase>>,
    database: Arc<Database>,
}

impl Drop for Lease {
    fn drop(&mut self) {
        let _one_at_a_time = self.database.open.lock();
        self.open = None;
    }
}

/// Identifies the file that is at the database's path now.
fn file_at(opening: &AdbcOpening) -> Option<FileId> {
    blocking::file_id(opening.file.as_ref()?)
}

fn load(opening: &AdbcOpening) -> Result<ManagedDatabase, Failed> {
    let AdbcOpening { driver, entrypoint, options, .. } = opening;
    let entrypoint = entrypoint.as_ref().map(String::as_bytes);
    let loaded =
        ManagedDriver::load_from_name(driver, entrypoint, AdbcVersion::V110, LOAD_FLAG_DEFAULT, None);
    let options = options
        .iter()
        .map(|(key, value)| (OptionDatabase::from(key.as_str()), OptionValue::String(value.clone())));
    let mut driver = loaded.map_err(|error| Failed { fault: Fault::Driver, ..statement_failed(error) })?;
    driver.new_database_with_opts(options).map_err(connection_failed)
}

fn execute_update(connection: &mut ManagedConnection, sql: &str) -> Result<(), adbc_core::error::Error> {
    let mut statement = connection.new_statement()?;
    statement.set_sql_query(sql)?;
    statement.execute_update()?;
    Ok(())
}

/// A driver's connection.
pub(super) struct AdbcConnection {
    connection: ManagedConnection,
    /// Dropped after the connection.
    _open: Lease,
}

impl AdbcConnection {
    fn autocommit(&mut self, on: bool) -> Result<(), Failed> {
        let value = OptionValue::String(on.to_string());
        self.connection.set_option(OptionConnection::AutoCommit, value).map_err(statement_failed)
    }

    fn prepare(&mut self, sql: &str, arguments: &[Argument]) -> Result<ManagedStatement, Failed> {
        let mut statement = self.connection.new_statement().map_err(statement_failed)?;
        statement.set_sql_query(sql).map_err(statement_failed)?;
        match statement.prepare() {
            // Without arguments, we can run the text on an engine that can't prepare.
            Err(error) if error.status == Status::NotImplemented && arguments.is_empty() => {}
            prepared => prepared.map_err(statement_failed)?,
        }
        Ok(statement)
    }
}

impl super::ChildConnection for AdbcConnection {
    /// If the driver can't describe a statement without running it, or without the types of its
    /// arguments, we run it with NULLs.
    fn describe(&mut self, sql: &str, arguments: &[Argument]) -> Result<Schema, Failed> {
        let mut statement = self.prepare(sql, arguments)?;
        let placeholders = statement.get_parameter_schema().map(|schema| schema.fields().len());
        match placeholders {
            Ok(placeholders) if placeholders != arguments.len() => {
                return Err(super::wrong_number(placeholders, arguments.len()));
            }
            _ => {}
        }
        // We bind before we ask for the schema, because the type of PostgreSQL's `:x + 1` depends
        // on the bound value.
        bind(&mut statement, arguments)?;
        if let Ok(schema) = statement.execute_schema() {
            return Ok(opaque::schema(&schema));
        }
        Ok(opaque::schema(&statement.execute().map_err(statement_failed)?.schema()))
    }

    fn execute(&mut self, sql: &str, arguments: &[Argument], run: &Run<'_>) -> Result<(), EndReason> {
        let reading = FileStatement::begin();
        let ended = self.run(sql, arguments, run, &reading);
        if ended.is_err() && reading.has_files() {
            self.release();
        }
        match ended {
            // A driver may fail because of the changed bytes.
            Err(EndReason::Failed(failed)) => Err(reading.end().err().unwrap_or(failed).into()),
            ended => ended,
        }
    }

    fn begin(&mut self) -> Result<(), Failed> {
        self.autocommit(false)
    }

    fn roll_back(&mut self) -> Result<(), Failed> {
        self.connection.rollback().map_err(statement_failed)?;
        self.autocommit(true)
    }
}

impl MortalConnection for AdbcConnection {
    const DIALECT: &'static Dialect = &dialect::ADBC;

    fn ping(&mut self) -> Result<(), Failed> {
        match execute_update(&mut self.connection, "select 1").map_err(statement_failed) {
            Err(failed) if failed.is_of_connection() => Err(failed),
            _ => Ok(()),
        }
    }
}

impl AdbcConnection {
    /// Runs a statement that reads files, and sends its rows.
    fn run(
        &mut self,
        sql: &str,
        arguments: &[Argument],
        run: &Run<'_>,
        reading: &FileStatement,
    ) -> Result<(), EndReason> {
        let mut statement = self.prepare(sql, arguments)?;
        reading.is_prepared()?;
        bind(&mut statement, arguments)?;
        let cancels =
            vec![cancel(statement.get_cancel_handle()), cancel(self.connection.get_cancel_handle())];
        let _cancellable = run.cancelled_by(cancels)?;
        let mut rows = statement.execute().map_err(statement_failed)?;
        let sent = send(&mut rows, run, reading);
        if sent.is_err() {
            // Otherwise PostgreSQL's driver reads all other rows before its next statement.
            run.cancel();
        }
        sent
    }

    /// Makes the driver close the files of a statement that failed. DuckDB keeps them open until
    /// the connection's next statement.
    fn release(&mut self) {
        // A connection that fails here also fails at its next statement.
        let _ = execute_update(&mut self.connection, "select 1");
    }
}

/// Sends the rows of a statement.
fn send(rows: &mut impl RecordBatchReader, run: &Run<'_>, reading: &FileStatement) -> Result<(), EndReason> {
    let schema = Arc::new(opaque::schema(&rows.schema()));
    let mut sender = run.rows(&schema)?;
    for batch in rows {
        run.go_on()?;
        reading.go_on()?;
        let batch = opaque::batch(batch.map_err(of_rows)?, &schema).map_err(super::of_rows)?;
        sender.write(&batch)?;
    }
    reading.end()?;
    sender.finish()
}

/// Binds `arguments` to the placeholders of a statement, in order.
fn bind(statement: &mut ManagedStatement, arguments: &[Argument]) -> Result<(), Failed> {
    if arguments.is_empty() {
        return Ok(());
    }
    let batch = arrow_rows::batch(arguments).map_err(super::of_rows)?;
    statement.bind(batch).map_err(statement_failed)
}

/// If the driver can't cancel, we wait for it, and the server kills the process.
fn cancel(handle: Box<dyn CancelHandle>) -> CancelCall {
    Box::new(move || {
        let _ = handle.try_cancel();
    })
}

fn of_rows(error: ArrowError) -> Failed {
    match error {
        ArrowError::ExternalError(error) => match error.downcast::<adbc_core::error::Error>() {
            Ok(error) => statement_failed(*error),
            Err(error) => super::data_failed(error.to_string()),
        },
        error => super::of_rows(error),
    }
}

fn connection_failed(error: adbc_core::error::Error) -> Failed {
    Failed { fault: Fault::Connection, ..statement_failed(error) }
}

/// DuckDB's messages about values. Its errors have no SQLSTATE.
const DUCKDB_DATA: [&str; 3] = ["Conversion Error:", "Out of Range Error:", "Invalid Input Error:"];

fn statement_failed(error: adbc_core::error::Error) -> Failed {
    // Drivers fill an unknown SQLSTATE with zeros.
    let sqlstate: Vec<_> = error.sqlstate.iter().map(|byte| *byte as u8).collect();
    let sqlstate = String::from_utf8(sqlstate)
        .ok()
        .filter(|text| text.bytes().all(|byte| byte.is_ascii_alphanumeric()) && text != "00000");
    let failed = Failed { fault: Fault::Statement, message: error.message, sqlstate };
    let fault = match error.status {
        Status::Cancelled | Status::Timeout => Fault::Cancelled,
        Status::InvalidData => Fault::Data,
        _ if DUCKDB_DATA.iter().any(|begin| failed.message.starts_with(begin)) => Fault::Data,
        Status::Unauthenticated => Fault::Login,
        // PostgreSQL's driver has no other status for most of its errors.
        Status::IO if failed.may_be_of_connection() => Fault::Connection,
        _ => Fault::Statement,
    };
    Failed { fault, ..failed }
}
