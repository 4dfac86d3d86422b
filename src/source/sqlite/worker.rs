//! The thread of one connection: it opens the file, serves session after session, and closes.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;

use rowstream_encode::Column;
use rusqlite::types::Value;
use rusqlite::{CachedStatement, Connection, OpenFlags};

use super::filling::{self, Stop};
use super::handover::{Command, Link, Reply, Work};
use super::{Settings, fault};
use crate::Error;
use crate::source::Statement;

/// The page cache of a connection, in KiB. It is per connection, and the system caches the file anyway: 200 slow streams
/// took 616 MB with SQLite's 2 MB, and 50 took 40 MB with 256 KiB, at the same speed, also of joins by random keys.
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

/// The thread. A panic ends the connection and nothing else: rusqlite's types are dropped by the unwinding, and the
/// hand-over has no half-done states.
fn run(link: &Arc<Link>, settings: &Settings) {
    filling::bind(link);
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
    connection.busy_handler(Some(filling::busy))?;
    connection.progress_handler(filling::TICK, Some(filling::tick))?;
    connection.pragma_update(None, "query_only", true)?;
    connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
    // SQLite reads the file at the first statement, not when it opens it: what is no database shows here.
    connection.query_row("select count(*) from sqlite_schema", [], |_| Ok(()))?;
    Ok(connection)
}

/// A worker with its open connection.
struct Worker<'a> {
    link: &'a Link,
    settings: &'a Settings,
    connection: &'a Connection,
}

/// A statement of a session.
struct Prepared<'a> {
    statement: CachedStatement<'a>,
    /// What the session was told.
    columns: Arc<[Column]>,
}

impl<'a> Worker<'a> {
    /// Serves one session. Whether there can be a next one.
    fn serve(&self) -> bool {
        let mut statements = Vec::new();
        loop {
            match self.link.next() {
                Work::Command(command) => self.obey(command, &mut statements),
                Work::Close => return false,
                Work::Leave(leaving) => {
                    // They go back to the connection's cache before the connection goes back to the pool.
                    drop(statements);
                    let clean = self.clean_up();
                    if clean {
                        leaving.give_back();
                    }
                    return clean;
                }
            }
        }
    }

    fn obey(&self, command: Command, statements: &mut Vec<Prepared<'a>>) {
        match command {
            Command::Prepare(statement) => self.link.reply(match self.prepare(&statement) {
                Ok(prepared) => {
                    let columns = Arc::clone(&prepared.columns);
                    statements.push(prepared);
                    Reply::Prepared(columns)
                }
                Err(error) => Reply::Failed(error),
            }),
            Command::Execute { index, args, transaction } => {
                self.execute(statements.get_mut(index), &args, transaction);
            }
            #[cfg(test)]
            Command::Panic => panic!("as a bug of ours would"),
        }
    }

    fn prepare(&self, statement: &Statement) -> Result<Prepared<'a>, Error> {
        // rusqlite trims the text, so the place that it names is one in the trimmed text.
        let trimmed = statement.sql.len() - statement.sql.trim_start().len();
        let prepared = self.connection.prepare_cached(&statement.sql).map_err(|error| {
            let told = fault::of(&self.settings.source, error);
            match told.position_offset() {
                Some(offset) => told.position(offset + trimmed),
                None => told,
            }
        })?;
        check(&prepared, statement.types.len())?;
        let columns = columns(&prepared);
        Ok(Prepared { statement: prepared, columns })
    }

    /// Runs a statement to its end, or to the session's. Its rows go to the session, and how it ended.
    fn execute(&self, prepared: Option<&mut Prepared<'_>>, args: &[Value], transaction: bool) {
        filling::start(self.settings.statement_timeout);
        let ended = match prepared {
            Some(prepared) => self.stream(prepared, args, transaction),
            None => Err(Error::endpoint("a statement was executed that was not prepared").into()),
        };
        match ended {
            Ok(()) => filling::finish(Ok(())),
            Err(Stop::Failed(error)) => filling::finish(Err(error)),
            Err(Stop::Abandoned) => {}
        }
    }

    /// The step loop. The statement is reset, and its locks are gone, when this returns.
    fn stream(&self, prepared: &mut Prepared<'_>, args: &[Value], transaction: bool) -> Result<(), Stop> {
        if transaction && self.connection.is_autocommit() {
            // The snapshot itself is taken by the first read.
            self.connection.execute_batch("begin").map_err(|error| self.stop(error))?;
        }
        let Prepared { statement, columns } = prepared;
        bind(statement, args).map_err(|error| self.stop(error))?;
        let mut rows = statement.raw_query();
        let mut checked = false;
        while let Some(row) = rows.next().map_err(|error| self.stop(error))? {
            if !checked {
                self.check_columns(row.as_ref(), columns)?;
                checked = true;
            }
            filling::push(row, columns.len(), self.settings.max_row_bytes)?;
        }
        Ok(())
    }

    /// SQLite prepares a statement anew by itself when a table has changed, so the columns may be others than the
    /// session was told, and their values would stand under wrong names.
    fn check_columns(&self, statement: &rusqlite::Statement<'_>, told: &[Column]) -> Result<(), Error> {
        let same = statement.column_count() == told.len()
            && told.iter().enumerate().all(|(i, column)| statement.column_name(i).ok() == Some(&column.name));
        if same { Ok(()) } else { Err(fault::schema_changed(&self.settings.source)) }
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

    /// Makes the connection ready for its next session. Whether it is: a transaction that cannot be ended would show
    /// the next session an old state of the data.
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

/// Refuses what is no endpoint's statement: the file is open for reading only, so this is for a clear message in time.
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
    let column = |column: &rusqlite::Column<'_>| Column {
        name: column.name().to_owned(),
        type_name: column.decl_type().unwrap_or_default().to_owned(),
    };
    statement.columns().map(|it| column(&it)).collect()
}

/// The file of a `sqlite:` URL: `sqlite:PATH` or `sqlite:///PATH`.
pub(super) fn path(url: &str) -> PathBuf {
    let path = url.strip_prefix("sqlite:").unwrap_or(url);
    PathBuf::from(path.strip_prefix("//").unwrap_or(path))
}
