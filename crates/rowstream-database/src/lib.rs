//! The contract of a database, and the parts that drivers share.
//!
//! A database implements [`Database`], [`DatabaseSession`], [`DatabaseRow`] and [`RowLayout`]. The
//! server has a list of the databases, which it turns into enums, so a row costs a match instead of a
//! virtual call. Nothing here knows which databases there are.
//!
//! A [`DatabaseSession`] is one connection, held by one response from its first statement to its last
//! row. The order of calls is fixed:
//!
//! 1. [`Database::acquire`] waits for the pool;
//! 2. [`DatabaseSession::prepare`], for each statement, returns the columns;
//! 3. [`DatabaseSession::execute`] starts one of them, and does no I/O;
//! 4. [`DatabaseSession::poll_row`] until it returns no row; then 3 again for the next statement.
//!
//! For interleaved statements, [`DatabaseSession::execute_interleaved`] replaces 3, and
//! [`DatabaseSession::poll_row_of`] replaces 4, until each statement has returned no row.
//!
//! For record batches, [`DatabaseSession::as_batches`] is called between 2 and 3, and
//! [`DatabaseSession::poll_batch`] replaces 4.
//!
//! Some statements return the rows of cursors or results instead of their own
//! ([`DatabaseSession::rows_of`]). Once all statements are prepared, [`DatabaseSession::call`] runs such a
//! statement between 2 and 3. Then [`DatabaseSession::open_refcursor`] replaces the statement with a cursor
//! that it has opened. For a result, [`DatabaseSession::poll_result`] waits for the columns, and its rows
//! are polled instead of 3 and 4.
//!
//! A session can be dropped at any point. The running statement is then cancelled in the database.
//! The connection returns to the pool once the database is ready, or is closed. If a session was
//! acquired with a snapshot, all its statements read the same state of the data.
//!
//! The rows of one statement as lines of JSON, from any database:
//!
//! ```
//! use std::future::poll_fn;
//! use std::sync::Arc;
//!
//! use rowstream_core::Error;
//! use rowstream_core::pool::{Priority, Waiter};
//! use rowstream_database::{Database, DatabaseRow, DatabaseSession, Snapshot, Statement};
//! use rowstream_encode::{RowEncoder, Shape};
//!
//! async fn lines<D: Database>(database: &D, sql: &str) -> Result<Vec<u8>, Error> {
//!     let waiter = Waiter::default();
//!     let mut session = database.acquire(Snapshot::Statement, Priority::Stream, waiter.begin()).await?;
//!     let columns = session.prepare(&Statement { sql: Arc::from(sql), types: Vec::new(), ad_hoc: false }).await?;
//!     session.execute(0, &[]);
//!     let (mut encoder, mut out) = (RowEncoder::new(Shape::Lines, &columns), Vec::new());
//!     encoder.start(&mut out);
//!     let mut encode_next = async || {
//!         poll_fn(|cx| {
//!             session.poll_row(cx).map(|row| match row? {
//!                 Some(row) => row.encode(&mut encoder, &mut out).map(|()| true),
//!                 None => Ok(false),
//!             })
//!         })
//!         .await
//!     };
//!     while encode_next().await? {}
//!     encoder.finish(&mut out);
//!     Ok(out)
//! }
//! ```
//!
//! The other modules are for drivers:
//!
//! | modules | hold |
//! |---|---|
//! | [`url`], [`tls`], [`credentials`], [`password_command`] | the source's URL, certificates and passwords |
//! | [`login`], [`socket`], [`buffers`] | a connection to a server |
//! | [`statements`], [`portions`], [`json`], [`refused`] | prepared statements, waiting rows, values, errors |
//! | [`pipeline`], [`lookups`] | lookups that share connections |
//! | [`optional`], [`table_files`] | databases that a build may lack, and the kinds of database files |
//! | [`blocking`] | libraries that block, each connection on a thread of its own |

// Tests may unwrap; what runs in production may not.
#![warn(clippy::unwrap_used)]

mod actor;
pub mod blocking;
pub mod buffers;
pub mod credentials;
pub mod json;
pub mod login;
pub mod lookups;
pub mod optional;
mod own_settings;
mod parts;
pub mod password_command;
pub mod pipeline;
pub mod portions;
pub mod refused;
mod shard_read;
pub mod socket;
pub mod statements;
pub mod table_files;
mod table_snapshot;
pub mod tls;
pub mod url;

use std::convert::Infallible;
use std::marker::PhantomData;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use arrow_schema::Schema;
use rowstream_core::Error;
use rowstream_core::histogram::Histogram;
use rowstream_core::params::{BindType, ParamValue};
use rowstream_core::pool::{HostStats, Patience, Pool, Priority};
use rowstream_core::settings::SourceSettings;
use rowstream_core::sql::Dialect;
use rowstream_encode::{Column, RowWriter};

pub use self::actor::Actor;
pub use self::own_settings::{Elsewhere, OwnSetting, SourceContext};
pub use self::parts::{NoParts, PartsKind, PartsRequest, TableParts};
pub use self::shard_read::{RowOrder, RowPlace, ShardRead};
pub use self::table_snapshot::TableSnapshot;

/// The consistency that the statements of a response need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Snapshot {
    /// One statement, which is a snapshot by itself.
    Statement,
    /// Several: they read one snapshot, in one read-only transaction.
    Transaction,
}

/// Statistics of the lookups on shared connections.
#[derive(Debug)]
pub struct SharedLookups {
    /// The number of lookups that aren't answered yet.
    pub pending: usize,
    /// The sizes of the batches that lookups were sent in.
    pub batches: Histogram<u64>,
}

/// A host's report about itself.
#[derive(Debug)]
pub struct HostReport {
    /// Its host and port, or its socket.
    pub name: String,
    /// Its version and its role, or the reason why it can't be reached.
    pub said: Result<String, Error>,
}

/// A statement in the form that a database accepts. It's also the key of caches: statements of one text
/// differ if their parameters have other types.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Statement {
    /// The text with the database's own placeholders (`$1`, `?1`, `?`).
    pub sql: Arc<str>,
    /// The declared type of each argument.
    pub types: Vec<BindType>,
    /// True if requests can make any number of such statements. They're kept apart from those of
    /// files.
    pub ad_hoc: bool,
}

/// The source of the rows that a prepared statement returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowSource<'a> {
    /// The statement itself.
    Own,
    /// Refcursors: these columns of its only row contain their names.
    Refcursors(&'a [usize]),
    /// The procedure that it calls, which returns its results one after another.
    Results,
}

/// One of the results of a procedure, as a response reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResultSet {
    /// The number of results before it.
    pub place: usize,
    /// The number of results that the procedure has.
    pub of: usize,
    /// True if the response reads no result after it. Its rows end when the procedure does.
    pub is_last: bool,
}

/// Several rows, as a message of an Arrow stream.
pub struct Batch<'a, R> {
    /// The number of rows.
    pub rows: u64,
    /// The message.
    pub message: &'a [u8],
    /// Set if the statement has key columns, which the message leaves out. It's the last row, or a
    /// row without a key.
    pub last: Option<R>,
}

impl<'a, R> Batch<'a, R> {
    /// Converts the row to another type.
    pub fn map<S>(self, row: impl FnOnce(R) -> S) -> Batch<'a, S> {
        Batch { rows: self.rows, message: self.message, last: self.last.map(row) }
    }
}

/// The memory that a database needs, in bytes.
#[derive(Clone, Copy)]
pub struct Sizes {
    /// An idle connection of the pool.
    pub idle: usize,
    /// A session of a source with these settings.
    pub session: fn(&SourceSettings) -> usize,
    /// The waiting rows of an interleaved statement, for this `max_row_bytes`.
    pub portion: fn(usize) -> usize,
}

/// A source of one kind of database, with its pool.
pub trait Database: Clone + Send + Sync + 'static {
    /// A connection in the pool.
    type Connection: Send + 'static;
    /// A connection that is held by one response.
    type Session: DatabaseSession;
    /// The rows of a lookup on a shared connection; [`NoAnswer`] if the database shares none.
    type Answer: LookupAnswer;
    /// Sessions that read parts of a table in parallel; [`NoParts`] if the database can't.
    type Parts: TableParts;
    /// Detects that rows may have been committed.
    type Changes: ChangeSource;
    /// Checks if the database can be reached.
    type Probe: Ping;
    /// Its SQL and its abilities.
    const DIALECT: &'static Dialect;
    /// The memory that it needs.
    const SIZES: Sizes;
    /// The settings that other databases don't have.
    const SETTINGS: &'static [OwnSetting] = &[];
    /// A lookup that takes longer on a shared connection gets one of its own. `None` if no
    /// connections are shared.
    const LOOKUP_PATIENCE: Option<Duration> = None;

    /// A source without open connections. The only I/O is to read root certificates.
    ///
    /// # Errors
    /// The URL is invalid, or its certificates can't be read.
    fn open(settings: &SourceSettings) -> Result<Self, Error>;

    /// Creates the database if it's missing and the settings say how. Returns true if it was
    /// created.
    ///
    /// # Errors
    /// The database can't be created.
    fn create_missing(_settings: &SourceSettings) -> Result<bool, Error> {
        Ok(false)
    }

    /// The name of the source.
    fn name(&self) -> &str;

    /// The pool of the source.
    fn pool(&self) -> &Pool<Self::Connection>;

    /// A probe with a connection outside of the pool. A full pool doesn't mean that the database
    /// can't be reached.
    fn probe(&self) -> Self::Probe;

    /// Waits for a connection and makes it ready.
    ///
    /// # Errors
    /// The pool's (503, 504), or 503 if the database can't be reached.
    fn acquire(
        &self,
        snapshot: Snapshot,
        priority: Priority,
        patience: Patience<'_>,
    ) -> impl Future<Output = Result<Self::Session, Error>>;

    /// Waits for a connection that reads a shard of a table, or all its parts. For all parts, it also takes
    /// other connections that are free at once. A new snapshot of a shard is kept for a while.
    ///
    /// # Errors
    /// The pool's (503, 504). 503 if the database can't be reached or keeps too many snapshots, or
    /// if a transaction waits for an exclusive lock on the table. 410 if the snapshot has expired.
    /// The table doesn't exist, or the database can't read parts.
    fn acquire_parts(
        &self,
        _read: PartsRequest<'_>,
        _priority: Priority,
        _patience: Patience<'_>,
    ) -> impl Future<Output = Result<Self::Parts, Error>> {
        std::future::ready(Err(Error::endpoint("this database does not read parts of a table")))
    }

    /// The same database, with statements that run as `actor`.
    ///
    /// # Errors
    /// The database has no roles for requests.
    fn acting(&self, _actor: Arc<Actor>) -> Result<Self, Error> {
        Err(Error::endpoint("this database has no roles for requests"))
    }

    /// Detects commits: by notifications on `channel`, or by a query once per `every`. It
    /// has its own connection, outside of the pool.
    ///
    /// # Errors
    /// 503: the database can't be reached, or doesn't allow listening on the channel.
    fn changes(
        &self,
        channel: Option<&str>,
        every: Duration,
    ) -> impl Future<Output = Result<Self::Changes, Error>>;

    /// Runs `statement`, a lookup, on a connection shared with other lookups. Its rows then
    /// hold no connection. Returns `None` if the statement needs its own connection: it
    /// isn't prepared yet, it's slow, types may have been altered, or the database doesn't
    /// share connections.
    ///
    /// # Errors
    /// The database's error for the statement; 503 if too many lookups are pending.
    fn look_up(
        &self,
        _statement: &Statement,
        _args: &[&ParamValue],
        _patience: Patience<'_>,
    ) -> impl Future<Output = Result<Option<Self::Answer>, Error>> {
        std::future::ready(Ok(None))
    }

    /// The number of its hosts.
    fn hosts(&self) -> usize {
        1
    }

    /// Statistics of each host, if there are several.
    fn host_stats(&self) -> Vec<HostStats> {
        Vec::new()
    }

    /// Monitors the hosts while the source is used.
    fn watch(&self) -> impl Future<Output = ()> + Send + 'static {
        std::future::ready(())
    }

    /// Connects to each host and asks for its version and role.
    fn inspect(&self) -> impl Future<Output = Vec<HostReport>> {
        std::future::ready(Vec::new())
    }

    /// Makes connections prepare their statements again, because a migration may have altered the columns
    /// that their parameters are compared with. Does nothing if the database notices that by itself.
    fn forget_statements(&self) {}

    /// The time that followers have waited for a transaction to end; zero if they don't wait now.
    /// `None` if they never wait.
    fn longest_wait(&self) -> Option<Duration> {
        None
    }

    /// Statistics of the lookups on shared connections; `None` if none are shared.
    fn lookups(&self) -> Option<SharedLookups> {
        None
    }

    /// The number of connections that lookups share, in a pool of `max`.
    fn shared(_max: usize) -> usize {
        0
    }
}

/// The rows of a lookup on a shared connection. All have been received.
pub trait LookupAnswer {
    /// A row.
    type Row<'a>: DatabaseRow
    where
        Self: 'a;

    /// The columns of its rows.
    fn columns(&self) -> Arc<[Column]>;

    /// The next row, lent until the next call.
    fn next_row(&mut self) -> Option<Self::Row<'_>>;
}

/// Checks if a database can be reached.
pub trait Ping {
    /// Checks once. May be dropped at any point and called again.
    ///
    /// # Errors
    /// The reason why it can't be reached, with the name of the source.
    fn ask(&mut self) -> impl Future<Output = Result<(), Error>>;
}

/// Detects that rows may have been committed.
pub trait ChangeSource {
    /// True if a new connection can't replace a failed one: after a file was replaced, it would
    /// watch another file.
    const IS_LOST_FOR_GOOD: bool;

    /// Waits until rows may have been committed since the last call. The first call returns at
    /// once. Don't call it after a call was dropped.
    ///
    /// # Errors
    /// The database can't be reached any more.
    fn next(&mut self) -> impl Future<Output = Result<(), Error>>;

    /// Starts reporting the transactions that followers wait for, if the database can have any.
    fn report_waits(&mut self) {}
}

/// A connection of a database, held by one response. The module's documentation has the order of
/// calls.
pub trait DatabaseSession {
    /// A row, lent until the next call.
    type Row<'a>: DatabaseRow
    where
        Self: 'a;

    /// Prepares the next statement and returns its columns. [`DatabaseSession::execute`] counts
    /// statements from 0.
    ///
    /// # Errors
    /// The database's error for the statement, with its position in the text if known.
    fn prepare(&mut self, statement: &Statement) -> impl Future<Output = Result<Arc<[Column]>, Error>>;

    /// Begins the snapshot of several statements, once all are prepared. Without it, a
    /// table that is rewritten meanwhile could seem empty.
    ///
    /// # Errors
    /// The connection failed, or a table can't be read now.
    fn begin(&mut self) -> impl Future<Output = Result<(), Error>> {
        std::future::ready(Ok(()))
    }

    /// The deadline for reading more rows, even for a slow client: later, the database would end the
    /// session. `None` if there's no limit.
    fn read_by(&self) -> Option<Instant> {
        None
    }

    /// Starts the prepared statement `index` with `args` in the order of its placeholders.
    /// Does no I/O: the first [`DatabaseSession::poll_row`] does, and reports failures. The
    /// previous statement must have returned its last row.
    fn execute(&mut self, index: usize, args: &[&ParamValue]);

    /// The next row, lent until the next call; `None` after the last one.
    ///
    /// # Errors
    /// The statement or the connection failed. Nothing may be polled after an error.
    fn poll_row(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Self::Row<'_>>, Error>>;

    /// Switches the prepared statement `index` to record batches of its first `columns`
    /// columns, and returns their schema. Returns `None` if the database has no batches;
    /// its rows are then read as usual.
    fn as_batches(&mut self, _index: usize, _columns: usize) -> Option<Schema> {
        None
    }

    /// The next batch, lent until the next call; `None` after the last one.
    ///
    /// # Errors
    /// The statement or the connection failed. Nothing may be polled after an error.
    fn poll_batch(&mut self, _cx: &mut Context<'_>) -> Poll<Result<Option<Batch<'_, Self::Row<'_>>>, Error>> {
        Poll::Ready(Err(Error::protocol("this database has no record batches")))
    }

    /// Starts several prepared statements at once, each by its index and arguments. The
    /// session must have been acquired with [`Snapshot::Transaction`]. Does no I/O, like
    /// [`DatabaseSession::execute`].
    fn execute_interleaved(&mut self, runs: &[(usize, Vec<&ParamValue>)]);

    /// The next row of the statement at index `which` of [`DatabaseSession::execute_interleaved`],
    /// lent until the next call. Returns `None` after its last row, even if called again.
    /// If rows of other statements arrive first, at most a portion of each is held.
    ///
    /// # Errors
    /// One of the statements or the connection failed. Nothing may be polled after an
    /// error.
    fn poll_row_of(
        &mut self,
        which: usize,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Self::Row<'_>>, Error>>;

    /// Cancels work that the database has begun for statements that won't be executed.
    /// Dropping the session does this too, but only while its runtime exists.
    fn let_go(&mut self) -> impl Future<Output = ()> {
        std::future::ready(())
    }

    /// The source of the rows of the prepared statement `index`.
    fn rows_of(&self, _index: usize) -> RowSource<'_> {
        RowSource::Own
    }

    /// Runs the prepared statement `index`, which opens refcursors or has results. It runs
    /// in the same transaction as later statements. For refcursors, returns the names in
    /// its rows, by column. We read at most two rows; the second one only proves that there
    /// are too many.
    ///
    /// # Errors
    /// The statement or the connection failed.
    fn call(
        &mut self,
        _index: usize,
        _args: &[&ParamValue],
    ) -> impl Future<Output = Result<Vec<Vec<Option<String>>>, Error>> {
        std::future::ready(Ok(Vec::new()))
    }

    /// Makes [`DatabaseSession::execute`] read the cursor `name` instead of the statement `index`.
    /// Returns the columns of its rows, which can differ at each call.
    ///
    /// # Errors
    /// There's no such cursor, or the connection failed.
    fn open_refcursor(
        &mut self,
        _index: usize,
        _name: &str,
    ) -> impl Future<Output = Result<Arc<[Column]>, Error>> {
        std::future::ready(Err(Error::protocol("this database has no refcursors")))
    }

    /// Waits for a result of the called procedure and returns its columns. Then
    /// [`DatabaseSession::poll_row`] returns its rows. Unread rows before it are skipped. The last
    /// row of the previous result must have been read.
    ///
    /// # Errors
    /// There's no such result, or there are more; the procedure or the connection failed.
    fn poll_result(
        &mut self,
        _result: ResultSet,
        _cx: &mut Context<'_>,
    ) -> Poll<Result<Arc<[Column]>, Error>> {
        Poll::Ready(Err(Error::protocol("this database calls no procedures")))
    }
}

/// One row, lent by its session.
pub trait DatabaseRow {
    /// Reads copies of rows, which outlive the poll that lent them.
    type Layout;

    /// Writes the row's values to `out`.
    ///
    /// # Errors
    /// A value can't be decoded. `out` then ends in half a row, which the caller removes.
    fn encode(self, encoder: &mut impl RowWriter, out: &mut Vec<u8>) -> Result<(), Error>;

    /// The layout of copies of the statement's rows.
    fn layout(&self) -> Self::Layout;

    /// The bytes to copy.
    fn bytes(&self) -> &[u8];
}

/// Reads copies of rows.
pub trait RowLayout {
    /// A row in a copy.
    type Row<'a>: DatabaseRow
    where
        Self: 'a;

    /// The row in these bytes.
    fn row<'a>(&'a mut self, bytes: &'a [u8]) -> Self::Row<'a>;
}

/// The answer type of a database that shares no connections. It has no values.
pub struct NoAnswer<S>(Infallible, PhantomData<fn() -> S>);

impl<S: DatabaseSession> LookupAnswer for NoAnswer<S> {
    type Row<'a>
        = S::Row<'a>
    where
        S: 'a;

    fn columns(&self) -> Arc<[Column]> {
        match self.0 {}
    }

    fn next_row(&mut self) -> Option<S::Row<'_>> {
        match self.0 {}
    }
}

/// The changes of a database that can't be followed. It has no values.
pub struct NoChanges(Infallible);

impl ChangeSource for NoChanges {
    const IS_LOST_FOR_GOOD: bool = true;

    async fn next(&mut self) -> Result<(), Error> {
        match self.0 {}
    }
}
