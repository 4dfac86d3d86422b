//! One connection: opens the file, and describes, compiles and steps statements.

use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rowstream_core::Error;
use rowstream_core::sql::Outline;
use rowstream_database::Statement;
use rowstream_database::blocking::{self, DriverConnection, DriverRows, Failure};
use rowstream_encode::Column;
use rusqlite::limits::Limit;
use rusqlite::types::Value;
use rusqlite::{CachedStatement, OpenFlags};

use super::plan::{self, Plan};
use super::rows::{Handle, Rows};
use super::{DIALECT, Sqlite, cells, fault, library, number, time};

/// A statement's description in the source's cache.
type Description = blocking::StatementDescription<Box<[Plan]>>;

/// The page cache of a connection, in KiB. Each connection has one, and the system caches the file
/// anyway. 200 slow streams used 616 MB with SQLite's default of 2 MB, and 50 used 40 MB with 256
/// KiB, at the same speed, even for joins by random keys.
const CACHE_KIB: i64 = 32;

/// Virtual machine instructions between two calls of `tick`: 10 to 50 microseconds of computing,
/// some 50 rows.
const TICK: i32 = 500;

/// How long we wait for a writer's lock.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

thread_local! {
    /// When this thread's connection stops waiting for a writer's lock.
    static BUSY_UNTIL: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// SQLite's busy handler; `tries` counts from 0. Returns true to try again. SQLite's own handler
/// would ignore that the session has left, and exceed the statement's deadline.
fn busy(tries: i32) -> bool {
    if tries == 0 {
        BUSY_UNTIL.set(Some(Instant::now() + BUSY_TIMEOUT));
    }
    thread::sleep(Duration::from_millis(tries.clamp(1, 20) as u64));
    !blocking::tick() && BUSY_UNTIL.get().is_some_and(|until| Instant::now() < until)
}

/// An open connection.
pub struct Connection {
    driver: Arc<Sqlite>,
    open: rusqlite::Connection,
    /// The statements that have a row. A statement that starts finds its own handle by excluding
    /// them.
    running: RefCell<Vec<Handle>>,
    /// True while longer values are allowed, because a parameter is one.
    is_widened: Cell<bool>,
}

impl Connection {
    /// Opens the file, for reading only.
    ///
    /// # Errors
    /// The file is missing, or isn't a SQLite database.
    pub(super) fn open(driver: &Arc<Sqlite>) -> Result<Self, Error> {
        if !driver.path.exists() {
            return Err(missing(driver));
        }
        library::configure();
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let open = rusqlite::Connection::open_with_flags(&driver.path, flags)
            .and_then(|connection| configure(connection, driver))
            .map_err(|error| driver.fault(error))?;
        let (driver, running) = (Arc::clone(driver), RefCell::default());
        Ok(Self { driver, open, running, is_widened: Cell::default() })
    }

    fn fault(&self, error: rusqlite::Error) -> Error {
        self.driver.fault(error)
    }

    /// Allows values as long as the parameters, until the session ends. The memory of a request
    /// bounds them.
    fn widen(&self, args: &[Value]) -> rusqlite::Result<()> {
        let text = |arg: &Value| if let Value::Text(text) = arg { text.len() } else { 0 };
        let longest = args.iter().map(text).max().unwrap_or_default();
        if longest > self.driver.longest_value {
            limit_values(&self.open, longest)?;
            self.is_widened.set(true);
        }
        Ok(())
    }
}

fn missing(driver: &Sqlite) -> Error {
    Error::source_unavailable(format!("the file of source `{}` does not exist", driver.source))
        .hint("`create` names the SQL scripts that create it")
        .cause(format!("no file {}", driver.path.display()))
}

fn configure(
    mut connection: rusqlite::Connection,
    driver: &Sqlite,
) -> rusqlite::Result<rusqlite::Connection> {
    connection.set_prepared_statement_cache_capacity(driver.statement_cache);
    limit_values(&connection, driver.longest_value)?;
    time::define(&connection)?;
    number::define(&connection)?;
    connection.busy_handler(Some(busy))?;
    connection.progress_handler(TICK, Some(blocking::tick))?;
    connection.pragma_update(None, "query_only", true)?;
    connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
    connection.pragma_update(None, "mmap_size", i64::try_from(driver.mmap).unwrap_or(i64::MAX))?;
    // SQLite reads the file at the first statement, not when it opens it. So this shows if it isn't
    // a database.
    read_schema(&connection)?;
    Ok(connection)
}

fn limit_values(connection: &rusqlite::Connection, longest: usize) -> rusqlite::Result<()> {
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, i32::try_from(longest).unwrap_or(i32::MAX))?;
    Ok(())
}

/// The longest value or record that SQLite builds, in bytes, if rows have at most `row`. SQLite
/// refuses a longer one while it reads it, before it needs the memory. The limit also applies to
/// the texts of statements and of the schema.
pub(super) fn longest_value(row: usize) -> usize {
    row.max(64 * 1024)
}

/// Makes SQLite check if tables have changed. It does so when a statement runs, not when one is
/// compiled.
fn read_schema(connection: &rusqlite::Connection) -> rusqlite::Result<()> {
    connection.query_row("select count(*) from sqlite_schema", [], |_| Ok(()))
}

impl DriverConnection for Connection {
    type Driver = Sqlite;
    /// None: a statement's first step clears `sqlite3_interrupt`, so an interrupt just before it
    /// would be lost. The progress handler ends statements instead.
    type Interrupt = ();
    type Statement<'c> = CachedStatement<'c>;
    type Rows<'r> = Steps<'r>;

    fn interrupt(&self) {}

    fn describe(&self, statement: &Statement) -> Result<(Arc<[Column]>, Box<[Plan]>), Error> {
        read_schema(&self.open).map_err(|error| self.fault(error))?;
        // Not from the connection's cache: a cached statement keeps the columns of its last run.
        let prepared = self.open.prepare(&statement.sql).map_err(|error| self.fault(error))?;
        check(&prepared, statement.types.len())?;
        let columns = columns(&prepared, &statement.sql);
        let plans = columns.iter().map(|column| Plan::of(&column.type_name)).collect();
        Ok((columns, plans))
    }

    fn begin(&self) -> Result<(), Error> {
        if self.open.is_autocommit() {
            // The first read takes the snapshot.
            self.open.execute_batch("begin").map_err(|error| self.fault(error))?;
        }
        Ok(())
    }

    /// Takes the statement from the connection's cache, or compiles it. If it no longer compiles, a
    /// table has changed since it was described. We then return the error that a cached statement
    /// gets at its first step, which has no position in the text.
    fn compile(&self, described: &Description, args: &[Value]) -> Result<CachedStatement<'_>, Failure> {
        let mut statement =
            self.open.prepare_cached(&described.statement.sql).map_err(|error| match error {
                rusqlite::Error::SqlInputError { error, msg, .. } => {
                    Failure::Outdated(self.fault(rusqlite::Error::SqliteFailure(error, Some(msg))))
                }
                error => Failure::Failed(self.fault(error)),
            })?;
        self.widen(args).and_then(|()| bind(&mut statement, args)).map_err(|error| self.fault(error))?;
        Ok(statement)
    }

    fn rows<'r, 'c: 'r>(
        &'r self,
        statement: &'r mut CachedStatement<'c>,
        described: &'r Description,
    ) -> Steps<'r> {
        Steps { connection: self, rows: Rows::new(&self.open, statement), described }
    }

    fn clean_up(&self) -> bool {
        if self.is_widened.take() && limit_values(&self.open, self.driver.longest_value).is_err() {
            return false;
        }
        if !self.open.is_autocommit() {
            // The next line checks if it succeeded.
            let _ = self.open.execute_batch("rollback");
        }
        self.open.is_autocommit()
    }
}

/// The rows of a running statement.
pub struct Steps<'r> {
    connection: &'r Connection,
    rows: Rows<'r>,
    described: &'r Description,
}

impl DriverRows for Steps<'_> {
    fn first(&mut self) -> Result<bool, Failure> {
        self.rows.beside(self.connection.running.borrow().clone());
        let is_row = DriverRows::next(self)?;
        if is_row {
            self.connection.running.borrow_mut().extend(self.rows.handle());
            self.check_columns()?;
        }
        Ok(is_row)
    }

    #[inline]
    fn next(&mut self) -> Result<bool, Failure> {
        let driver = &self.connection.driver;
        self.rows.next().map_err(|error| Failure::Failed(fault::of_run(&driver.source, &driver.path, error)))
    }

    #[inline]
    fn pack(&self, limit: usize, batch: &mut Vec<u8>) -> Result<(), Error> {
        cells::push_values(&self.rows, limit, batch)
    }
}

impl Steps<'_> {
    /// When a table has changed, SQLite recompiles a statement by itself. Its columns may then
    /// differ from the described ones, and values would get the wrong names.
    fn check_columns(&self) -> Result<(), Failure> {
        let is_as_described = |statement| columns_are(statement, &self.described.columns);
        match self.rows.statement().is_some_and(is_as_described) {
            true => Ok(()),
            false => Err(Failure::Outdated(fault::schema_changed(&self.connection.driver.source))),
        }
    }
}

impl Drop for Steps<'_> {
    fn drop(&mut self) {
        let own = self.rows.handle();
        self.connection.running.borrow_mut().retain(|handle| Some(*handle) != own);
    }
}

fn bind(statement: &mut rusqlite::Statement<'_>, args: &[Value]) -> rusqlite::Result<()> {
    statement.clear_bindings();
    for (i, arg) in args.iter().enumerate() {
        statement.raw_bind_parameter(i + 1, arg)?;
    }
    Ok(())
}

/// Refuses statements that no endpoint can have. The file is open for reading only, so this only
/// gives a clear message early.
fn check(statement: &rusqlite::Statement<'_>, types: usize) -> Result<(), Error> {
    if !statement.readonly() {
        return Err(Error::endpoint("the statement writes, but sources are read-only"));
    }
    if statement.column_count() == 0 {
        return Err(Error::endpoint("the statement has no columns, so it isn't a query"));
    }
    let placeholders = statement.parameter_count();
    if placeholders != types {
        return Err(Error::endpoint(format!(
            "the statement has {placeholders} placeholders, but {types} parameters are declared for it"
        )));
    }
    Ok(())
}

/// Describes the columns. A column that isn't one of a table has no declared type, so its type is
/// that of its expression.
fn columns(statement: &rusqlite::Statement<'_>, sql: &str) -> Arc<[Column]> {
    let outline = Outline::new(sql, &DIALECT);
    let computed = outline.map(|outline| outline.computed(statement.column_count())).unwrap_or_default();
    let column = |(index, column): (usize, rusqlite::Column<'_>)| {
        let computed = computed.get(index).and_then(Option::as_ref).map_or("", plan::computed_type);
        let type_name = column.decl_type().unwrap_or(computed).to_owned();
        Column { name: column.name().to_owned(), kind: plan::kind(&type_name), type_name }
    };
    statement.columns().enumerate().map(column).collect()
}

fn columns_are(statement: &rusqlite::Statement<'_>, described: &[Column]) -> bool {
    let is_type = |now: &rusqlite::Column<'_>, described: &str| match now.decl_type() {
        Some(declared) => declared == described,
        None => plan::is_computed_type(described),
    };
    let now = statement.columns();
    now.len() == described.len()
        && now
            .zip(described)
            .all(|(now, described)| now.name() == described.name && is_type(&now, &described.type_name))
}

/// The file of a `sqlite:` URL: `sqlite:PATH` or `sqlite:///PATH`.
pub(super) fn path(url: &str) -> PathBuf {
    let path = url.strip_prefix("sqlite:").unwrap_or(url);
    PathBuf::from(path.strip_prefix("//").unwrap_or(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_name_files() {
        for (url, path) in
            [("sqlite:shop.db", "shop.db"), ("sqlite:/a/b.db", "/a/b.db"), ("sqlite:///a/b.db", "/a/b.db")]
        {
            assert_eq!(super::path(url), PathBuf::from(path));
        }
    }
}
