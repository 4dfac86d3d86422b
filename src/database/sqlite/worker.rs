//! The thread of one connection: it opens the file, serves session after session, and closes.

mod turns;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;

use rowstream_encode::Column;
use rusqlite::limits::Limit;
use rusqlite::types::Value;
use rusqlite::{CachedStatement, Connection, OpenFlags};

use super::filling::{self, Stop};
use super::handover::{Command, Link, Reply, Work};
use super::known::Described;
use super::rows::Rows;
use super::{Settings, fault, plan};
use crate::Error;
use crate::database::Statement;

/// The page cache of a connection, in KiB. It is per connection, and the system caches the file
/// anyway: 200 slow streams took 616 MB with SQLite's 2 MB, and 50 took 40 MB with 256 KiB, at the
/// same speed, also of joins by random keys.
const CACHE_KIB: i64 = 64;

/// Starts the thread of a new connection, which answers `Opened` or `Failed` first.
///
/// # Errors
/// The system has no thread left.
pub(super) fn spawn(settings: &Arc<Settings>) -> std::io::Result<Arc<Link>> {
    let link = Arc::new(Link::new());
    let (worker, settings) = (Arc::clone(&link), Arc::clone(settings));
    std::thread::Builder::new()
        .name(format!("sqlite {}", settings.source))
        .spawn(move || run(&worker, &settings))?;
    Ok(link)
}

/// The thread. A panic ends the connection and nothing else: rusqlite's types are dropped by the
/// unwinding, and the hand-over has no half-done states.
fn run(link: &Arc<Link>, settings: &Settings) {
    filling::bind(link, settings);
    let ended = catch_unwind(AssertUnwindSafe(|| match open(settings) {
        Ok(connection) => {
            link.reply(Reply::Opened);
            let worker = Worker { link, settings, connection: &connection };
            while worker.serve() {}
        }
        Err(error) => link.reply(Reply::Failed(error)),
    }));
    // The panic's own message is on stderr already, from the panic hook.
    drop(ended);
    link.die();
}

fn open(settings: &Settings) -> Result<Connection, Error> {
    if !settings.path.exists() {
        return Err(missing(settings));
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(&settings.path, flags)
        .and_then(|connection| prepare_connection(connection, settings))
        .map_err(|error| fault::of(&settings.source, error))
}

fn missing(settings: &Settings) -> Error {
    Error::source_unavailable(format!("the file of source `{}` does not exist", settings.source))
        .hint("`create` names the SQL scripts that make it")
        .cause(format!("no file {}", settings.path.display()))
}

fn prepare_connection(mut connection: Connection, settings: &Settings) -> rusqlite::Result<Connection> {
    connection.set_prepared_statement_cache_capacity(settings.statement_cache);
    connection.set_limit(
        Limit::SQLITE_LIMIT_LENGTH,
        i32::try_from(longest_value(settings.max_row_bytes)).unwrap_or(i32::MAX),
    )?;
    connection.busy_handler(Some(filling::busy))?;
    connection.progress_handler(filling::TICK, Some(filling::tick))?;
    connection.pragma_update(None, "query_only", true)?;
    connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
    connection.pragma_update(None, "mmap_size", i64::try_from(settings.mmap).unwrap_or(i64::MAX))?;
    // SQLite reads the file at the first statement, not when it opens it: what is no database shows
    // here.
    read_schema(&connection)?;
    Ok(connection)
}

/// The longest value or record that SQLite builds, in bytes, where rows have at most `row`: what is
/// longer it refuses while it reads it, and not when it is there. Statements are texts too, and the
/// schema is made of them.
pub(super) fn longest_value(row: usize) -> usize {
    row.max(64 * 1024)
}

/// Makes SQLite look whether tables have changed. It does so when a statement runs, not when one is
/// compiled.
fn read_schema(connection: &Connection) -> rusqlite::Result<()> {
    connection.query_row("select count(*) from sqlite_schema", [], |_| Ok(()))
}

/// A worker with its open connection.
struct Worker<'a> {
    link: &'a Link,
    settings: &'a Settings,
    connection: &'a Connection,
}

impl Worker<'_> {
    /// Serves one session. Whether there can be a next one.
    fn serve(&self) -> bool {
        let mut work = self.link.next();
        loop {
            work = match work {
                Work::Command(Command::ExecuteTogether(runs, first)) => self.execute_together(&runs, first),
                Work::Command(command) => {
                    self.obey(command);
                    self.link.next()
                }
                Work::Close => return false,
                Work::Leave(leaving) => {
                    let clean = self.clean_up();
                    if clean {
                        leaving.give_back();
                    }
                    return clean;
                }
            }
        }
    }

    fn obey(&self, command: Command) {
        match command {
            Command::Describe(statement) => self.link.reply(match self.describe(&statement) {
                Ok(described) => Reply::Described(described),
                Err(error) => Reply::Failed(error),
            }),
            Command::Execute { statement, args, transaction } => self.execute(&statement, &args, transaction),
            // Those that are run by turns have ended: their session has to know.
            Command::ExecuteTogether(..) | Command::Fetch(_) => {
                self.link.reply(Reply::Failed(Error::protocol("no statements are run by turns")));
            }
            #[cfg(test)]
            Command::Panic => panic!("as a bug of ours would"),
        }
    }

    /// What SQLite says of a statement, for this session and those to come.
    fn describe(&self, statement: &Statement) -> Result<Arc<Described>, Error> {
        let fault = |error| fault::of(&self.settings.source, error);
        read_schema(self.connection).map_err(fault)?;
        // Not from the connection's cache, where a statement keeps the columns that it had when it
        // ran last.
        let prepared = self.connection.prepare(&statement.sql).map_err(fault)?;
        let placeholders = statement.types.len();
        check(&prepared, placeholders)?;
        let described =
            Arc::new(Described::new(Arc::clone(&statement.sql), placeholders, columns(&prepared)));
        self.settings.known.learn(&described);
        Ok(described)
    }

    /// Runs a statement to its end, or to the session's. Its rows go to the session, and how it
    /// ended.
    fn execute(&self, statement: &Described, args: &[Value], transaction: bool) {
        let _run = filling::start(self.settings);
        match self.stream(statement, args, transaction) {
            Ok(()) => filling::finish(Ok(())),
            Err(Stop::Failed(error)) => filling::finish(Err(error)),
            Err(Stop::Abandoned) => {}
        }
    }

    /// The step loop. The statement is reset, and its locks are gone, when this returns.
    fn stream(&self, described: &Described, args: &[Value], transaction: bool) -> Result<(), Stop> {
        if transaction {
            self.begin()?;
        }
        let mut statement = self.compile(described)?;
        bind(&mut statement, args).map_err(|error| self.stop(error))?;
        let mut rows = Rows::new(self.connection, &mut statement);
        let mut checked = false;
        while rows.next().map_err(|error| self.stop(error))? {
            if !checked {
                self.check_columns(rows.statement(), described)?;
                checked = true;
            }
            filling::push(&rows, self.settings.max_row_bytes)?;
        }
        Ok(())
    }

    /// Opens the session's transaction, if it is not open yet.
    fn begin(&self) -> Result<(), Stop> {
        if self.connection.is_autocommit() {
            // The snapshot itself is taken by the first read.
            self.connection.execute_batch("begin").map_err(|error| self.stop(error))?;
        }
        Ok(())
    }

    /// The statement, from the connection's cache or compiled. When it no longer can be, a table
    /// has changed since it was described: the error is the one that a cached statement has at its
    /// first step, which knows no place in the text.
    fn compile(&self, described: &Described) -> Result<CachedStatement<'_>, Stop> {
        self.connection.prepare_cached(&described.sql).map_err(|error| match error {
            rusqlite::Error::SqlInputError { error, msg, .. } => {
                self.settings.known.forget(&described.sql);
                self.stop(rusqlite::Error::SqliteFailure(error, Some(msg)))
            }
            error => self.stop(error),
        })
    }

    /// SQLite prepares a statement anew by itself when a table has changed, so the columns may be
    /// others than the session was told, and their values would stand under wrong names.
    fn check_columns(
        &self,
        statement: Option<&rusqlite::Statement<'_>>,
        told: &Described,
    ) -> Result<(), Error> {
        if statement.is_some_and(|statement| columns_are(statement, &told.columns)) {
            return Ok(());
        }
        self.settings.known.forget(&told.sql);
        Err(fault::schema_changed(&self.settings.source))
    }

    /// Why the statement stopped: the handlers interrupt it for reasons of their own.
    fn stop(&self, error: rusqlite::Error) -> Stop {
        if self.link.abandoned() {
            return Stop::Abandoned;
        }
        Stop::Failed(match (filling::expired(), self.settings.statement_timeout) {
            (true, Some(timeout)) => fault::timed_out(&self.settings.source, timeout),
            _ => fault::of(&self.settings.source, error),
        })
    }

    /// Makes the connection ready for its next session. Whether it is: a transaction that cannot be
    /// ended would show the next session an old state of the data.
    fn clean_up(&self) -> bool {
        filling::rest();
        if !self.connection.is_autocommit() {
            // Whether it helped is asked below.
            let _ = self.connection.execute_batch("rollback");
        }
        self.connection.is_autocommit()
    }
}

fn bind(statement: &mut rusqlite::Statement<'_>, args: &[Value]) -> rusqlite::Result<()> {
    statement.clear_bindings();
    for (i, arg) in args.iter().enumerate() {
        statement.raw_bind_parameter(i + 1, arg)?;
    }
    Ok(())
}

/// Refuses what is no endpoint's statement: the file is open for reading only, so this is for a
/// clear message in time.
fn check(statement: &rusqlite::Statement<'_>, types: usize) -> Result<(), Error> {
    if !statement.readonly() {
        return Err(Error::endpoint("the statement writes, and sources are read-only"));
    }
    if statement.column_count() == 0 {
        return Err(Error::endpoint("the statement has no columns, so it is no query"));
    }
    let placeholders = statement.parameter_count();
    if placeholders != types {
        return Err(Error::endpoint(format!(
            "the statement has {placeholders} placeholders, and {types} parameters are declared for it"
        )));
    }
    Ok(())
}

fn columns(statement: &rusqlite::Statement<'_>) -> Arc<[Column]> {
    let column = |column: &rusqlite::Column<'_>| {
        let type_name = column.decl_type().unwrap_or_default().to_owned();
        Column { name: column.name().to_owned(), kind: plan::kind(&type_name), type_name }
    };
    statement.columns().map(|it| column(&it)).collect()
}

fn columns_are(statement: &rusqlite::Statement<'_>, told: &[Column]) -> bool {
    let now = statement.columns();
    now.len() == told.len()
        && now.zip(told).all(|(now, told)| {
            now.name() == told.name && now.decl_type().unwrap_or_default() == told.type_name
        })
}

/// The file of a `sqlite:` URL: `sqlite:PATH` or `sqlite:///PATH`.
pub(super) fn path(url: &str) -> PathBuf {
    let path = url.strip_prefix("sqlite:").unwrap_or(url);
    PathBuf::from(path.strip_prefix("//").unwrap_or(path))
}
