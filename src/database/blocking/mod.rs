//! Databases whose libraries block: one bounded hand-over between a session and the thread of its
//! connection, for all of them.
//!
//! A library that blocks must not block the threads that serve requests, so each connection lives
//! on a thread of its own, the worker ([`worker`]). Between it and the session stands one bounded
//! hand-over ([`handover`]): two batches of packed rows ([`batch`]), so that a client that does not
//! read stops the worker, and what a stream holds is two batches: about 72 KB when many streams
//! run, 270 KB when few do, unless a row is larger ([`filling`]).
//!
//! The worker only steps and copies; what the values mean is decided where they are read. So the
//! two threads share the work, and the worker, which is the bound, has the lesser part of it.
//!
//! A library is a [`Driver`], whose [`Source`] then is a [`Database`]. Its calls come in this
//! order, on the worker's thread but for those of the session ([`Driver::argument`],
//! [`Driver::row`]) and for [`Interrupt::interrupt`]:
//!
//! ```text
//! Driver::connect
//!   for each session
//!     describe                                  a statement that is not known yet
//!     begin                                     where the session has a snapshot
//!     compile, rows, first, (pack, next)…       a statement, to its end or the session's
//!     clean_up                                  the connection goes back to the pool, or is dropped
//! ```
//!
//! Interleaved statements are all compiled before the first of them is stepped, and then each is
//! stepped for a portion of its rows. A session that read its only statement to the end leaves
//! nothing to be cleaned up.

mod batch;
mod filling;
mod handover;
mod interleaved;
mod known;
mod lookups;
mod probe;
mod session;
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
pub use self::known::Described;
pub use self::lookups::Answer;
pub use self::probe::Probe;
pub use self::session::Session;

use self::filling::Running;
use self::handover::Reply;
use self::known::Known;
use self::lookups::Lookups;
use super::{
    Batch, ChangeSource, Database, DatabaseRow, HostSaid, SharedLookups, Sizes, Snapshot, Statement,
    lookups as shared,
};
use rowstream_core::Error;
use rowstream_core::params::ParamValue;
use rowstream_core::pool::{self, Lease, Patience, Pool, Priority};
use rowstream_core::settings::SourceSettings;
use rowstream_core::sql::Dialect;

/// What the library's calls back to us may ask, on the thread of a connection: whether what runs is
/// to stop. Hands over the rows that have waited for long.
pub(in crate::database) use self::filling::tick;

/// A file, whatever its name: its device and its inode.
pub type FileId = (u64, u64);

/// The file at `path`; `None` if it doesn't exist.
pub(in crate::database) fn file_id(path: impl AsRef<Path>) -> Option<FileId> {
    std::fs::metadata(path).ok().map(|file| (file.dev(), file.ino()))
}

/// A library that blocks, and what all connections of one source know.
pub trait Driver: Send + Sync + Sized + 'static {
    /// A connection, which never leaves its thread.
    type Connection: DriverConnection<Driver = Self>;
    /// A value as the library takes it.
    type Argument: Send + Sync + 'static;
    /// What the rows of a statement are read by.
    type Plan: Send + Sync + 'static;
    /// A row that was packed.
    type Row<'a>: DatabaseRow;
    /// What notices that rows may have been committed.
    type Changes: ChangeSource;
    /// Its SQL, and what it can do.
    const DIALECT: &'static Dialect;
    /// What an idle connection takes of the memory, in bytes.
    const IDLE: usize;
    /// Whether lookups of several requests run on one connection, one after the other. Only where
    /// the library calls [`tick`] while it works: else one of them would hold up the others for as
    /// long as it likes.
    const SHARES_LOOKUPS: bool = false;

    /// A source without open connections; no I/O.
    ///
    /// # Errors
    /// The URL is not understood.
    fn new(settings: &SourceSettings) -> Result<Self, Error>;

    /// See [`Database::create_missing`].
    ///
    /// # Errors
    /// It cannot be made.
    fn create_missing(_settings: &SourceSettings) -> Result<bool, Error> {
        Ok(false)
    }

    /// The file that a new connection would open, so that no request reads another one from an
    /// older connection. `None`: it's missing, or the database isn't a file. We ask for it before
    /// each session, by a system call that doesn't wait on a local file system.
    fn file(&self) -> Option<FileId> {
        None
    }

    /// A caution about its file for operators, if there is one.
    fn caution(&self) -> Option<HostSaid> {
        None
    }

    /// What the library holds while rows are read.
    fn held(settings: &SourceSettings) -> usize;

    /// Opens a connection.
    ///
    /// # Errors
    /// It cannot be opened.
    fn connect(self: &Arc<Self>) -> Result<Self::Connection, Error>;

    /// See [`super::AnyDatabase::changes`].
    ///
    /// # Errors
    /// 503: the database cannot be reached.
    fn changes(
        self: &Arc<Self>,
        channel: Option<&str>,
        every: Duration,
    ) -> impl Future<Output = Result<Self::Changes, Error>>;

    /// The value that is bound for a parameter.
    fn argument(param: &ParamValue) -> Self::Argument;

    /// The row that [`DriverRows::pack`] has packed.
    fn row<'a>(described: &'a Described<Self::Plan>, packed: &'a [u8]) -> Self::Row<'a>;

    /// See [`Database`](super::Session::as_batches); then [`DriverRows::as_batches`] is called.
    fn as_batches(_described: &Described<Self::Plan>, _columns: usize) -> Option<Schema> {
        None
    }

    /// The batch that [`DriverRows::pack`] has packed in place of a row.
    fn batch<'a>(_described: &'a Described<Self::Plan>, _packed: &'a [u8]) -> Batch<'a, Self::Row<'a>> {
        unreachable!("only a driver whose `as_batches` returns a schema has batches")
    }
}

/// What the rows of a connection's statements are read by.
pub type PlanOf<C> = <<C as DriverConnection>::Driver as Driver>::Plan;

/// An open connection, on its thread.
pub trait DriverConnection {
    /// Whose it is.
    type Driver: Driver;
    /// What ends a call of the library from another thread.
    type Interrupt: Interrupt;
    /// A statement with its arguments.
    type Statement<'c>
    where
        Self: 'c;
    /// The rows of one.
    type Rows<'r>: DriverRows
    where
        Self: 'r;

    /// What interrupts it.
    fn interrupt(&self) -> Self::Interrupt;

    /// The columns of a statement, and what its rows are read by.
    ///
    /// # Errors
    /// What the database says of the statement, with the place in its text where known; that it
    /// writes, or that its placeholders are not as many as its types.
    fn describe(&self, statement: &Statement) -> Result<(Arc<[Column]>, PlanOf<Self>), Error>;

    /// Opens the session's transaction, if it is not open yet.
    ///
    /// # Errors
    /// It cannot be opened.
    fn begin(&self) -> Result<(), Error>;

    /// Makes a statement ready that was described, perhaps on another connection.
    ///
    /// # Errors
    /// It cannot be run.
    fn compile(
        &self,
        described: &Described<PlanOf<Self>>,
        args: &[<Self::Driver as Driver>::Argument],
    ) -> Result<Self::Statement<'_>, Failure>;

    /// The rows of a statement that is ready; it runs from the first step on, and is reset when
    /// they are dropped.
    fn rows<'r, 'c: 'r>(
        &'r self,
        statement: &'r mut Self::Statement<'c>,
        described: &'r Described<PlanOf<Self>>,
    ) -> Self::Rows<'r>
    where
        Self: 'c;

    /// Makes the connection ready for its next session: ends the transaction. Whether it is; if not
    /// it is closed.
    fn clean_up(&self) -> bool;
}

/// The rows of a statement that runs.
pub trait DriverRows {
    /// Has batches of the first `columns` columns stand where rows stand else. Comes before all
    /// else, where [`Driver::as_batches`] has said that it may.
    ///
    /// # Errors
    /// They cannot be sent.
    fn as_batches(&mut self, _columns: usize) -> Result<(), Error> {
        Err(Error::protocol("this database has no record batches"))
    }

    /// Steps to the first row. Whether there is one.
    ///
    /// # Errors
    /// The statement failed, or its columns are not those that it was described with.
    fn first(&mut self) -> Result<bool, Failure>;

    /// Steps to the next row; not called after the last one. Whether there is one.
    ///
    /// # Errors
    /// The statement failed.
    fn next(&mut self) -> Result<bool, Failure>;

    /// Puts the row that was stepped to behind what is in `batch`, where [`Driver::row`] reads it.
    ///
    /// # Errors
    /// It has more than `limit` bytes; what was put into `batch` is then taken off again.
    fn pack(&self, limit: usize, batch: &mut Vec<u8>) -> Result<(), Error>;
}

/// Ends what a connection runs, from another thread.
pub trait Interrupt: Send + Sync + 'static {
    /// Has the call of the library fail that is under way. It may come between two calls, and must
    /// not wait for the worker. The session has left, which [`tick`] tells from then on.
    fn interrupt(&self);
}

/// For a library that calls [`tick`] while it works, and needs no other thread to end it.
impl Interrupt for () {
    fn interrupt(&self) {}
}

/// Why a driver could not go on.
#[derive(Debug)]
pub enum Failure {
    /// What was asked for failed.
    Failed(Error),
    /// The same, and what is known of the statement may be wrong: it is described anew.
    Outdated(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// What all connections of a source share.
struct Shared<D: Driver> {
    driver: Arc<D>,
    /// The source's name, for errors and threads.
    name: String,
    /// The packed row's length is a u32.
    max_row_bytes: usize,
    statement_timeout: Option<Duration>,
    known: Known<D::Plan>,
    running: Arc<Running>,
}

impl<D: Driver> Shared<D> {
    /// Begins to open a connection, whose first reply tells what came of it.
    fn open(self: &Arc<Self>) -> Result<Connection<D>, Error> {
        // Asked for first: if the file is replaced between the two, the connection isn't used again.
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
    shared: Arc<Shared<D>>,
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
            Some(connection) => Ok(Session::new(&self.shared, (place, connection), snapshot)),
            None => self.connect(place, snapshot).await,
        }
    }

    async fn connect(&self, place: Lease<Connection<D>>, snapshot: Snapshot) -> Result<Session<D>, Error> {
        let connection = self.shared.open()?;
        // A session from the start: dropped while the connection is opened, it gives it to the pool
        // all the same.
        let mut session = Session::new(&self.shared, (place, connection), snapshot);
        session.is_asking();
        match poll_fn(|cx| session.link().poll_reply(cx)).await {
            Reply::Failed(error) => Err(error),
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
    lookups: Arc<Lookups<D>>,
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
    type Changes = D::Changes;
    type Probe = Probe<D>;

    const DIALECT: &'static Dialect = D::DIALECT;
    const SIZES: Sizes = Sizes {
        idle: D::IDLE,
        // Two batches, and what the library holds.
        session: |settings| {
            let batch = filling::LARGEST.saturating_add(settings.max_row_bytes);
            batch.saturating_mul(2).saturating_add(D::held(settings))
        },
        portion: |row| filling::LARGEST.saturating_add(row),
    };
    const LOOKUP_PATIENCE: Option<Duration> = if D::SHARES_LOOKUPS { Some(lookups::PATIENCE) } else { None };

    /// Opens nothing: a database that is missing is an error of [`Database::acquire`], and may have
    /// come by then.
    fn open(settings: &SourceSettings) -> Result<Self, Error> {
        let shared = Shared {
            driver: Arc::new(D::new(settings)?),
            name: settings.name.clone(),
            max_row_bytes: settings.max_row_bytes.min(u32::MAX as usize),
            statement_timeout: settings.statement_timeout,
            known: Known::new(settings.statement_cache),
            running: Arc::default(),
        };
        let pool = Pool::new(&settings.name, settings.pool.clone());
        let lookups = Lookups::new(&settings.pool, Self::shared(settings.pool.max));
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

    async fn inspect(&self) -> Vec<HostSaid> {
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
        let known = self.connections.shared.known.get(&statement.sql);
        let known =
            known.filter(|known| known.placeholders == statement.types.len() && !known.slow.is_slow());
        match known {
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
    /// What the pool holds.
    pub fn usage(&self) -> pool::Usage {
        self.connections.pool.usage()
    }
}
