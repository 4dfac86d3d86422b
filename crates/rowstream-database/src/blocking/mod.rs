//! Databases whose libraries block. All of them share one bounded hand-over between a session and
//! its connection's thread.
//!
//! A library that blocks must not block the threads that serve requests, so each connection lives
//! on its own thread, the worker ([`worker`]). The session and its worker exchange two batches of
//! packed rows ([`batch`]) through a bounded hand-over ([`handover`]). So a client that doesn't
//! read stops the worker, and a stream holds only two batches: about 72 KB when many streams run,
//! 270 KB when few do, unless a row is larger ([`filling`]).
//!
//! The worker only steps and copies; the session's thread interprets the values. The worker is the
//! bottleneck, so it gets the smaller share of the work.
//!
//! A library is a [`Driver`], and its [`Source`] is a [`Database`]. The drawing shows the order of
//! calls. They run on the worker's thread, except [`Driver::argument`] and [`Driver::row`], which
//! the session calls, and [`Interrupt::interrupt`]:
//!
//! ```text
//! Driver::connect
//!   for each session
//!     describe                                  a statement that isn't known yet
//!     begin                                     if the session has a snapshot
//!     compile, rows, first, (pack, next)…       a statement, until it or the session ends
//!     clean_up                                  the connection returns to the pool, or is dropped
//! ```
//!
//! We compile all interleaved statements before we step the first one. Then we step each of them
//! for one portion of its rows at a time. A session that has read its only statement to the end
//! needs no cleaning up.

mod batch;
mod filling;
mod handover;
mod interleaved;
mod lookups;
mod probe;
mod session;
mod statement_cache;
#[cfg(test)]
mod tests;
mod worker;

use std::future::poll_fn;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arrow_schema::Schema;
use rowstream_encode::Column;

pub use self::handover::Connection;
pub use self::lookups::Answer;
pub use self::probe::Probe;
pub use self::session::Session;
pub use self::statement_cache::StatementDescription;

use rowstream_core::Error;
use rowstream_core::params::ParamValue;
use rowstream_core::pool::{self, Lease, Patience, Pool, Priority};
use rowstream_core::settings::SourceSettings;
use rowstream_core::sql::Dialect;

use self::filling::RunningCount;
use self::handover::WorkerReply;
use self::lookups::LookupQueues;
use self::statement_cache::StatementCache;
use super::{
    Batch, ChangeSource, Database, DatabaseRow, HostReport, NoParts, OwnSetting, SharedLookups, Sizes,
    Snapshot, Statement, lookups as shared,
};

/// For the library's callbacks, on a connection's thread: returns true if the running statement
/// must stop. Also hands over rows that have waited too long.
pub use self::filling::tick;

/// Identifies a file by its device and inode, independent of its name.
pub type FileId = (u64, u64);

/// The file at `path`; `None` if it doesn't exist.
pub fn file_id(path: impl AsRef<Path>) -> Option<FileId> {
    std::fs::metadata(path).ok().map(|file| (file.dev(), file.ino()))
}

/// A library that blocks, with the data that all connections of a source share.
pub trait Driver: Send + Sync + Sized + 'static {
    /// A connection, which never leaves its thread.
    type Connection: DriverConnection<Driver = Self>;
    /// A value that the library can bind.
    type Argument: Send + Sync + 'static;
    /// Describes how to read the rows of a statement.
    type Plan: Send + Sync + 'static;
    /// A packed row.
    type Row<'a>: DatabaseRow;
    /// Notices that rows may have been committed.
    type Changes: ChangeSource;
    /// The database's SQL and its abilities.
    const DIALECT: &'static Dialect;
    /// The memory of an idle connection, in bytes.
    const IDLE: usize;
    /// See [`Database::SETTINGS`].
    const SETTINGS: &'static [OwnSetting] = &[];
    /// Lookups of several requests share one connection and run one after the other. Set it only if
    /// the library calls [`tick`] while it works. Otherwise one lookup could delay the others
    /// without limit.
    const SHARES_LOOKUPS: bool = false;

    /// Creates a source without open connections; no I/O.
    ///
    /// # Errors
    /// The URL can't be understood.
    fn new(settings: &SourceSettings) -> Result<Self, Error>;

    /// See [`Database::create_missing`].
    ///
    /// # Errors
    /// The database can't be created.
    fn create_missing(_settings: &SourceSettings) -> Result<bool, Error> {
        Ok(false)
    }

    /// The file that a new connection would open. A request must not read another file from an
    /// older connection. `None`: the file is missing, or the database isn't a file. We ask for it
    /// before each session, by a system call that doesn't wait on a local file system.
    fn file(&self) -> Option<FileId> {
        None
    }

    /// A caution for operators about the database's file.
    fn caution(&self) -> Option<HostReport> {
        None
    }

    /// The memory that the library uses while rows are read, in bytes.
    fn held(settings: &SourceSettings) -> usize;

    /// Opens a connection.
    ///
    /// # Errors
    /// The connection can't be opened.
    fn connect(self: &Arc<Self>) -> Result<Self::Connection, Error>;

    /// See [`Database::changes`].
    ///
    /// # Errors
    /// 503: the database can't be reached.
    fn changes(
        self: &Arc<Self>,
        channel: Option<&str>,
        every: Duration,
    ) -> impl Future<Output = Result<Self::Changes, Error>>;

    /// Judges by the text of a statement if the next session could see what it leaves in the
    /// connection. If so, [`DriverConnection::clean_up`] runs after it.
    fn leaves_state(_sql: &str) -> bool {
        false
    }

    /// Converts a parameter to the value to bind.
    ///
    /// # Errors
    /// The database has no such value.
    fn argument(param: &ParamValue) -> Result<Self::Argument, Error>;

    /// Returns the row that [`DriverRows::pack`] has packed.
    fn row<'a>(described: &'a StatementDescription<Self::Plan>, packed: &'a [u8]) -> Self::Row<'a>;

    /// See [`DatabaseSession::as_batches`](super::DatabaseSession::as_batches). If it returns a schema,
    /// [`DriverRows::as_batches`] is called.
    fn as_batches(_described: &StatementDescription<Self::Plan>, _columns: usize) -> Option<Schema> {
        None
    }

    /// Returns the batch that [`DriverRows::pack`] has packed instead of a row.
    fn batch<'a>(
        _described: &'a StatementDescription<Self::Plan>,
        _packed: &'a [u8],
    ) -> Batch<'a, Self::Row<'a>> {
        unreachable!("only a driver whose `as_batches` returns a schema has batches")
    }
}

/// The [`Driver::Plan`] of a connection's driver.
pub type DriverPlan<C> = <<C as DriverConnection>::Driver as Driver>::Plan;

/// An open connection, on its thread.
pub trait DriverConnection {
    /// The driver of this connection.
    type Driver: Driver;
    /// Ends a call of the library from another thread.
    type Interrupt: Interrupt;
    /// A statement with its arguments.
    type Statement<'c>
    where
        Self: 'c;
    /// The rows of a statement.
    type Rows<'r>: DriverRows
    where
        Self: 'r;

    /// Returns a handle that interrupts this connection's calls.
    fn interrupt(&self) -> Self::Interrupt;

    /// Returns a statement's columns and the plan that reads its rows.
    ///
    /// # Errors
    /// The database's error, with its position in the text if known. Or the statement writes, or
    /// the number of its placeholders differs from the number of its types.
    fn describe(&self, statement: &Statement) -> Result<(Arc<[Column]>, DriverPlan<Self>), Error>;

    /// Opens the session's transaction, unless it's already open.
    ///
    /// # Errors
    /// The transaction can't be opened.
    fn begin(&self) -> Result<(), Error>;

    /// Prepares a statement to run. It may have been described on another connection.
    ///
    /// # Errors
    /// The statement can't be run.
    fn compile(
        &self,
        described: &StatementDescription<DriverPlan<Self>>,
        args: &[<Self::Driver as Driver>::Argument],
    ) -> Result<Self::Statement<'_>, Failure>;

    /// Returns the rows of a compiled statement. It starts to run at the first step, and is reset
    /// when the rows are dropped.
    fn rows<'r, 'c: 'r>(
        &'r self,
        statement: &'r mut Self::Statement<'c>,
        described: &'r StatementDescription<DriverPlan<Self>>,
    ) -> Self::Rows<'r>
    where
        Self: 'c;

    /// Ends the transaction, so that the connection is ready for its next session. Returns false if
    /// that failed; the connection is then closed.
    fn clean_up(&self) -> bool;
}

/// The rows of a running statement.
pub trait DriverRows {
    /// Packs batches of the first `columns` columns instead of rows. Called before all other
    /// methods, and only if [`Driver::as_batches`] returned a schema.
    ///
    /// # Errors
    /// The batches can't be sent.
    fn as_batches(&mut self, _columns: usize) -> Result<(), Error> {
        Err(Error::protocol("this database has no record batches"))
    }

    /// Steps to the first row. Returns true if there is one.
    ///
    /// # Errors
    /// The statement failed, or its columns differ from the described ones.
    fn first(&mut self) -> Result<bool, Failure>;

    /// Steps to the next row. Returns true if there is one. Not called after the last row.
    ///
    /// # Errors
    /// The statement failed.
    fn next(&mut self) -> Result<bool, Failure>;

    /// Appends the current row to `batch`, for [`Driver::row`] to read.
    ///
    /// # Errors
    /// The row has more than `limit` bytes. Its bytes are then removed from `batch`.
    fn pack(&self, limit: usize, batch: &mut Vec<u8>) -> Result<(), Error>;
}

/// Ends a connection's running call, from another thread.
pub trait Interrupt: Send + Sync + 'static {
    /// Makes the library's current call fail. It can also be called between two calls, and must not
    /// wait for the worker. The session has left, so [`tick`] returns true from then on.
    fn interrupt(&self);
}

/// For a library that calls [`tick`] while it works, so that no other thread has to end its calls.
impl Interrupt for () {
    fn interrupt(&self) {}
}

/// The reason why a driver failed.
#[derive(Debug)]
pub enum Failure {
    /// The request failed.
    Failed(Error),
    /// The request failed, and our description of the statement may be outdated. We describe it
    /// again.
    Outdated(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// The state that all connections of a source share.
struct SourceState<D: Driver> {
    driver: Arc<D>,
    /// The source's name, for errors and threads.
    name: String,
    /// At most `u32::MAX`, because the length of a packed row is a u32.
    max_row_bytes: usize,
    statement_timeout: Option<Duration>,
    statements: StatementCache<D::Plan>,
    running: Arc<RunningCount>,
}

impl<D: Driver> SourceState<D> {
    /// Begins to open a connection. Its first reply reports success or failure.
    fn open(self: &Arc<Self>) -> Result<Connection<D>, Error> {
        // We read this first: if the file is replaced before the worker opens it, the connection
        // isn't used again.
        let file = self.driver.file();
        let spawned = worker::spawn(self).map(|link| Connection::new(link, file));
        spawned.map_err(|error| {
            let source = &self.name;
            Error::source_unavailable(format!("no thread for a connection of source `{source}`")).cause(error)
        })
    }
}

/// The connections of a source.
struct Connections<D: Driver> {
    pool: Pool<Connection<D>>,
    shared: Arc<SourceState<D>>,
}

impl<D: Driver> Clone for Connections<D> {
    fn clone(&self) -> Self {
        Self { pool: self.pool.clone(), shared: Arc::clone(&self.shared) }
    }
}

impl<D: Driver> Connections<D> {
    /// See [`Database::acquire`].
    async fn acquire(
        &self,
        snapshot: Snapshot,
        priority: Priority,
        patience: Patience<'_>,
    ) -> Result<Session<D>, Error> {
        let place = self.pool.acquire(priority, patience).await?;
        let file = self.shared.driver.file();
        let is_current =
            |connection: &Connection<D>| connection.file() == file && !connection.link().is_dead();
        match place.take_idle().filter(is_current) {
            Some(connection) => Ok(Session::new(&self.shared, place, connection, snapshot)),
            None => self.connect(place, snapshot).await,
        }
    }

    async fn connect(&self, place: Lease<Connection<D>>, snapshot: Snapshot) -> Result<Session<D>, Error> {
        let connection = self.shared.open()?;
        // We create the session first: if this future is dropped meanwhile, the session still
        // returns the connection to the pool.
        let mut session = Session::new(&self.shared, place, connection, snapshot);
        session.is_asking();
        match poll_fn(|cx| session.link().poll_reply(cx)).await {
            WorkerReply::Failed(error) => Err(error),
            _ => {
                session.is_open();
                Ok(session)
            }
        }
    }
}

/// A database whose library blocks, with its pool.
pub struct Source<D: Driver> {
    connections: Connections<D>,
    lookups: Arc<LookupQueues<D>>,
}

impl<D: Driver> Clone for Source<D> {
    fn clone(&self) -> Self {
        Self { connections: self.connections.clone(), lookups: Arc::clone(&self.lookups) }
    }
}

impl<D: Driver> Database for Source<D> {
    type Connection = Connection<D>;
    type Session = Session<D>;
    type Answer = Answer<D>;
    type Parts = NoParts<Session<D>>;
    type Changes = D::Changes;
    type Probe = Probe<D>;

    const DIALECT: &'static Dialect = D::DIALECT;
    const SIZES: Sizes = Sizes {
        idle: D::IDLE,
        // Two batches, and the library's own memory.
        session: |settings| {
            let batch = filling::LARGEST.saturating_add(settings.max_row_bytes);
            batch.saturating_mul(2).saturating_add(D::held(settings))
        },
        portion: |row| filling::LARGEST.saturating_add(row),
    };
    const SETTINGS: &'static [OwnSetting] = D::SETTINGS;
    const LOOKUP_PATIENCE: Option<Duration> = if D::SHARES_LOOKUPS { Some(lookups::PATIENCE) } else { None };

    /// Opens no connection. If the database is missing, [`Database::acquire`] fails, unless it
    /// exists by then.
    fn open(settings: &SourceSettings) -> Result<Self, Error> {
        let shared = SourceState {
            driver: Arc::new(D::new(settings)?),
            name: settings.name.clone(),
            max_row_bytes: settings.max_row_bytes.min(u32::MAX as usize),
            statement_timeout: settings.statement_timeout,
            statements: StatementCache::new(settings.statement_cache),
            running: Arc::default(),
        };
        let pool = Pool::new(&settings.name, settings.pool.clone());
        let lookups = LookupQueues::new(&settings.pool, Self::shared(settings.pool.max));
        Ok(Self { connections: Connections { pool, shared: Arc::new(shared) }, lookups: Arc::new(lookups) })
    }

    fn create_missing(settings: &SourceSettings) -> Result<bool, Error> {
        D::create_missing(settings)
    }

    fn name(&self) -> &str {
        &self.connections.shared.name
    }

    fn pool(&self) -> &Pool<Connection<D>> {
        &self.connections.pool
    }

    async fn inspect(&self) -> Vec<HostReport> {
        self.connections.shared.driver.caution().into_iter().collect()
    }

    fn probe(&self) -> Probe<D> {
        Probe::new(Arc::clone(&self.connections.shared))
    }

    async fn acquire(
        &self,
        snapshot: Snapshot,
        priority: Priority,
        patience: Patience<'_>,
    ) -> Result<Session<D>, Error> {
        self.connections.acquire(snapshot, priority, patience).await
    }

    async fn changes(&self, channel: Option<&str>, every: Duration) -> Result<D::Changes, Error> {
        self.connections.shared.driver.changes(channel, every).await
    }

    async fn look_up(
        &self,
        statement: &Statement,
        args: &[&ParamValue],
        patience: Patience<'_>,
    ) -> Result<Option<Answer<D>>, Error> {
        if self.lookups.is_empty() {
            return Ok(None);
        }
        let known = self.connections.shared.statements.get(statement);
        match known.filter(|known| !known.slow.is_slow()) {
            Some(known) => lookups::look_up(self, known, args, patience).await,
            None => Ok(None),
        }
    }

    fn lookups(&self) -> Option<SharedLookups> {
        D::SHARES_LOOKUPS.then(|| self.lookups.seen())
    }

    fn shared(max: usize) -> usize {
        if D::SHARES_LOOKUPS { shared::connections(max) } else { 0 }
    }
}

impl<D: Driver> Source<D> {
    /// The pool's usage.
    pub fn usage(&self) -> pool::Usage {
        self.connections.pool.usage()
    }
}
