//! Databases: a folder for each kind, and a line in the list below.
//!
//! A database implements [`Database`], [`DatabaseSession`], [`DatabaseRow`] and [`RowLayout`]. The
//! list turns them into the enums that the rest of the server uses. So a row costs a match instead
//! of a virtual call. Requests to upstreams aren't here, because they produce rows in another way
//! (`stream/producer.rs`).
//!
//! A [`Session`] is one connection, held by one response from its first statement to its last row.
//! The order of calls is fixed:
//!
//! 1. [`AnyDatabase::acquire`] waits for the pool;
//! 2. [`Session::prepare`], for each statement, returns the columns;
//! 3. [`Session::execute`] starts one of them, and does no I/O;
//! 4. [`Session::poll_row`] until it returns no row; then 3 again for the next statement.
//!
//! For interleaved statements, [`Session::execute_interleaved`] replaces 3, and
//! [`Session::poll_row_of`] replaces 4, until each statement has returned no row.
//!
//! For record batches, [`Session::as_batches`] is called between 2 and 3, and
//! [`Session::poll_batch`] replaces 4.
//!
//! Some statements return the rows of cursors or results instead of their own
//! ([`Session::rows_of`]). Once all statements are prepared, [`Session::call`] runs such a
//! statement between 2 and 3. Then [`Session::open_refcursor`] replaces the statement with a cursor
//! that it has opened. For a result, [`Session::poll_result`] waits for the columns, and its rows
//! are polled instead of 3 and 4.
//!
//! A session can be dropped at any point. The running statement is then cancelled in the database.
//! The connection returns to the pool once the database is ready, or is closed. If a session was
//! acquired with a snapshot, all its statements read the same state of the data.

#[cfg(any(feature = "worker", feature = "flight"))]
mod arrow_rows;
pub mod blocking;
mod buffers;
mod credentials;
#[cfg(feature = "flight")]
pub mod flight;
mod json;
mod login;
mod lookups;
pub mod mysql;
mod password_command;
mod pipeline;
mod portions;
pub mod postgres;
mod refused;
mod socket;
pub mod sqlite;
mod statements;
mod table_files;
mod table_snapshot;
mod tls;
mod url;
#[cfg(feature = "worker")]
pub mod worker;

use std::convert::Infallible;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use arrow_schema::Schema;
use rowstream_core::Error;
use rowstream_core::client::Client;
use rowstream_core::histogram::Histogram;
use rowstream_core::params::{BindType, ParamValue, Shard};
use rowstream_core::pool::{self, HostStats, Kept, Patience, Pool, Priority, SlowReader, SlowStream};
use rowstream_core::settings::SourceSettings;
use rowstream_core::sql::Dialect;
use rowstream_core::sql::dialect::Location;
use rowstream_encode::{Column, RowWriter};
use tokio::sync::OwnedSemaphorePermit;

pub use self::postgres::Actor;
pub(crate) use self::table_files::{DatabaseFile, is_csv, is_table_file};
pub(crate) use self::table_snapshot::TableSnapshot;
#[cfg(feature = "adbc")]
use self::worker::adbc;
#[cfg(feature = "odbc")]
use self::worker::odbc;

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
    pub(crate) pending: usize,
    /// The sizes of the batches that lookups were sent in.
    pub(crate) batches: Histogram<u64>,
}

/// A host's report about itself.
#[derive(Debug)]
pub struct HostSaid {
    /// Its host and port, or its socket.
    pub name: String,
    /// Its version and its role, or the reason why it can't be reached.
    pub said: Result<String, Error>,
}

/// A statement in the form that a database accepts.
#[derive(Debug, Clone)]
pub struct Statement {
    /// The text with the database's own placeholders (`$1`, `?1`, `?`).
    pub sql: Arc<str>,
    /// The declared type of each argument.
    pub types: Vec<BindType>,
}

/// The source of the rows that a prepared statement returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowsOf<'a> {
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
    pub(crate) fn map<S>(self, row: impl FnOnce(R) -> S) -> Batch<'a, S> {
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
    /// Detects that rows may have been committed.
    type Changes: ChangeSource;
    /// Checks if the database can be reached.
    type Probe: Ping;
    /// Its SQL and its abilities.
    const DIALECT: &'static Dialect;
    /// The memory that it needs.
    const SIZES: Sizes;
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

    /// See [`AnyDatabase::changes`].
    ///
    /// # Errors
    /// 503: the database can't be reached, or doesn't allow listening on the channel.
    fn changes(
        &self,
        channel: Option<&str>,
        every: Duration,
    ) -> impl Future<Output = Result<Self::Changes, Error>>;

    /// See [`AnyDatabase::look_up`].
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
    fn inspect(&self) -> impl Future<Output = Vec<HostSaid>> {
        std::future::ready(Vec::new())
    }

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

    /// See [`Session::prepare`].
    ///
    /// # Errors
    /// The database's error for the statement, with its position in the text if known.
    fn prepare(&mut self, statement: &Statement) -> impl Future<Output = Result<Arc<[Column]>, Error>>;

    /// See [`Session::begin`].
    ///
    /// # Errors
    /// The connection failed, or a table can't be read now.
    fn begin(&mut self) -> impl Future<Output = Result<(), Error>> {
        std::future::ready(Ok(()))
    }

    /// See [`Session::read_by`].
    fn read_by(&self) -> Option<Instant> {
        None
    }

    /// See [`Session::execute`].
    fn execute(&mut self, index: usize, args: &[&ParamValue]);

    /// See [`Session::poll_row`].
    ///
    /// # Errors
    /// The statement or the connection failed.
    fn poll_row(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Self::Row<'_>>, Error>>;

    /// See [`Session::as_batches`].
    fn as_batches(&mut self, _index: usize, _columns: usize) -> Option<Schema> {
        None
    }

    /// See [`Session::poll_batch`].
    ///
    /// # Errors
    /// The statement or the connection failed.
    fn poll_batch(&mut self, _cx: &mut Context<'_>) -> Poll<Result<Option<Batch<'_, Self::Row<'_>>>, Error>> {
        Poll::Ready(Err(Error::protocol("this database has no record batches")))
    }

    /// See [`Session::execute_interleaved`].
    fn execute_interleaved(&mut self, runs: &[(usize, Vec<&ParamValue>)]);

    /// See [`Session::poll_row_of`].
    ///
    /// # Errors
    /// One of the statements or the connection failed.
    fn poll_row_of(
        &mut self,
        which: usize,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Self::Row<'_>>, Error>>;

    /// See [`Session::let_go`].
    fn let_go(&mut self) -> impl Future<Output = ()> {
        std::future::ready(())
    }

    /// See [`Session::rows_of`].
    fn rows_of(&self, _index: usize) -> RowsOf<'_> {
        RowsOf::Own
    }

    /// See [`Session::call`].
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

    /// See [`Session::open_refcursor`].
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

    /// See [`Session::poll_result`].
    ///
    /// # Errors
    /// There's no such result, or the connection failed.
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

/// Generates the enums of all databases, with a static match in each method.
macro_rules! databases {
    ($($(#[$doc:meta])+ $name:ident => $module:ident $(if $feature:literal)?,)+) => {
        /// A database that rows are read from, with its pool.
        #[derive(Clone)]
        pub enum AnyDatabase {
            $($(#[$doc])+ $(#[cfg(feature = $feature)])? $name($module::Source),)+
        }

        /// A connection of a database, held by one response.
        ///
        /// Boxed, because a lookup holds no connection. Otherwise it would be as large as the
        /// largest session.
        pub enum Session {
            $($(#[$doc])+ $(#[cfg(feature = $feature)])? $name(Box<<$module::Source as Database>::Session>),)+
            /// The received rows of a lookup, without a connection.
            Lookup(Answer),
        }

        /// The rows of a lookup on a shared connection. All have been received.
        pub enum Answer {
            $($(#[$doc])+ $(#[cfg(feature = $feature)])? $name(<$module::Source as Database>::Answer),)+
        }

        /// One row, lent by its session.
        pub enum Row<'a> {
            $($(#[$doc])+ $(#[cfg(feature = $feature)])? $name($module::Row<'a>),)+
        }

        /// Reads copies of rows, which outlive the poll that lent them.
        pub(crate) enum Layout {
            $($(#[$doc])+ $(#[cfg(feature = $feature)])? $name($module::Layout),)+
        }

        /// Detects that rows may have been committed.
        #[allow(clippy::large_enum_variant, reason = "one per endpoint that is followed")]
        pub enum Changes {
            $($(#[$doc])+ $(#[cfg(feature = $feature)])? $name(<$module::Source as Database>::Changes),)+
        }

        /// Checks if a database can be reached, on a connection outside of the pool.
        pub enum Probe {
            $($(#[$doc])+ $(#[cfg(feature = $feature)])? $name(Box<<$module::Source as Database>::Probe>),)+
        }

        /// The kind of database of a source.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum DatabaseKind {
            $($(#[$doc])+ $(#[cfg(feature = $feature)])? $name,)+
        }

        impl DatabaseKind {
            /// All kinds in this build.
            pub const ALL: &'static [Self] = &[$($(#[cfg(feature = $feature)])? Self::$name,)+];

            /// Its SQL and its abilities.
            pub fn dialect(self) -> &'static Dialect {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name => <$module::Source as Database>::DIALECT,)+
                }
            }

            /// Creates a source's database if it's missing and the settings say how: a file, with
            /// the scripts of `create`. Returns true if it was created.
            ///
            /// # Errors
            /// The database can't be created.
            pub(crate) fn create_missing(self, settings: &SourceSettings) -> Result<bool, Error> {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name => <$module::Source as Database>::create_missing(settings),)+
                }
            }

            /// The memory that a database of this kind needs.
            pub(crate) fn sizes(self) -> Sizes {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name => <$module::Source as Database>::SIZES,)+
                }
            }

            /// See [`Database::LOOKUP_PATIENCE`].
            pub(crate) fn lookup_patience(self) -> Option<Duration> {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name => <$module::Source as Database>::LOOKUP_PATIENCE,)+
                }
            }

            /// The slots that the pool keeps for lookups, if the source has any.
            pub(crate) fn kept(self, max: usize) -> Kept {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name => Kept::for_lookups(max, <$module::Source as Database>::shared(max)),)+
                }
            }
        }

        impl AnyDatabase {
            /// A database without open connections.
            ///
            /// # Errors
            /// The URL is invalid, or root certificates can't be read.
            pub fn open(kind: DatabaseKind, settings: &SourceSettings) -> Result<Self, Error> {
                match kind {
                    $($(#[cfg(feature = $feature)])? DatabaseKind::$name => Database::open(settings).map(Self::$name),)+
                }
            }

            /// Its SQL and its abilities.
            pub fn dialect(&self) -> &'static Dialect {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name(_) => <$module::Source as Database>::DIALECT,)+
                }
            }

            /// The name of the source.
            pub fn name(&self) -> &str {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name(source) => Database::name(source),)+
                }
            }

            /// Closes idle connections when they reach their `idle_timeout`, and monitors hosts,
            /// while the database is used.
            pub fn reap(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name(source) => {
                        let (reap, watch) = (source.pool().reap(), Database::watch(source));
                        Box::pin(async { ((), ()) = tokio::join!(reap, watch) })
                    })+
                }
            }

            /// A probe with a connection of its own.
            pub fn probe(&self) -> Probe {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name(source) => Probe::$name(Box::new(Database::probe(source))),)+
                }
            }

            /// The number of its hosts.
            pub(crate) fn hosts(&self) -> usize {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name(source) => Database::hosts(source),)+
                }
            }

            /// Statistics of each host, if there are several.
            pub(crate) fn host_stats(&self) -> Vec<HostStats> {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name(source) => Database::host_stats(source),)+
                }
            }

            /// Connects to each host and asks for its version and role.
            pub(crate) async fn inspect(&self) -> Vec<HostSaid> {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name(source) => Database::inspect(source).await,)+
                }
            }

            /// Statistics of its pool.
            pub(crate) fn pool_stats(&self) -> pool::Stats {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name(source) => source.pool().stats(),)+
                }
            }

            /// For how long a stream has had to give its slot up; see [`Pool::gives_way`].
            pub(crate) fn gives_way(
                &self,
                slow: &mut Option<SlowStream>,
                client: Client,
                reader: SlowReader,
            ) -> Option<Duration> {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name(source) => source.pool().gives_way(slow, client, reader),)+
                }
            }

            /// The time that followers have waited for a transaction to end; `None` if they never
            /// wait.
            pub(crate) fn longest_wait(&self) -> Option<Duration> {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name(source) => Database::longest_wait(source),)+
                }
            }

            /// Statistics of the lookups on shared connections; `None` if none are shared.
            pub(crate) fn lookups(&self) -> Option<SharedLookups> {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name(source) => Database::lookups(source),)+
                }
            }

            /// Keeps slots of the pool for lookups, which streams then leave free. Keeps none if
            /// the source has no lookups (`any` is false).
            pub(crate) fn keep_for_lookups(&self, any: bool) {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name(source) => {
                        let max = source.pool().max();
                        let kept = if any { DatabaseKind::$name.kept(max) } else { Kept::default() };
                        source.pool().keep(kept);
                    })+
                }
            }

            /// Waits until a task that isn't urgent may [`acquire`](Self::acquire) a connection;
            /// see [`Pool::turn`].
            pub async fn turn(&self) -> Option<OwnedSemaphorePermit> {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name(source) => source.pool().turn().await,)+
                }
            }

            /// The limit for waiting for a connection.
            pub fn acquire_timeout(&self) -> Duration {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name(source) => source.pool().acquire_timeout(),)+
                }
            }

            /// Runs `statement`, a lookup, on a connection shared with other lookups. Its rows then
            /// hold no connection. Returns `None` if the statement needs its own connection: it
            /// isn't prepared yet, it's slow, types may have been altered, or the database doesn't
            /// share connections.
            ///
            /// # Errors
            /// The database's error for the statement; 503 if too many lookups are pending.
            pub async fn look_up(
                &self,
                statement: &Statement,
                args: &[&ParamValue],
                patience: Patience<'_>,
            ) -> Result<Option<Answer>, Error> {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name(source) => {
                        Database::look_up(source, statement, args, patience).await.map(|answer| answer.map(Answer::$name))
                    })+
                }
            }

            /// Detects commits: by notifications on `channel`, or by a query once per `every`. It
            /// has its own connection, outside of the pool.
            ///
            /// # Errors
            /// 503: the database can't be reached, or doesn't allow listening on the channel.
            pub async fn changes(&self, channel: Option<&str>, every: Duration) -> Result<Changes, Error> {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name(source) => {
                        Database::changes(source, channel, every).await.map(Changes::$name)
                    })+
                }
            }

            /// Waits for a connection and makes it ready.
            ///
            /// # Errors
            /// The pool's (503, 504), or 503 if the database can't be reached.
            pub async fn acquire(
                &self,
                snapshot: Snapshot,
                priority: Priority,
                patience: Patience<'_>,
            ) -> Result<Session, Error> {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name(source) => {
                        Database::acquire(source, snapshot, priority, patience).await.map(Box::new).map(Session::$name)
                    })+
                }
            }
        }

        impl Changes {
            /// Waits until rows may have been committed since the last call. The first call returns
            /// at once. Don't call it after a call was dropped.
            ///
            /// # Errors
            /// The database can't be reached any more.
            pub async fn next(&mut self) -> Result<(), Error> {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name(changes) => ChangeSource::next(changes).await,)+
                }
            }

            /// Starts reporting the transactions that followers wait for, if the database can have
            /// any.
            pub(crate) fn report_waits(&mut self) {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name(changes) => ChangeSource::report_waits(changes),)+
                }
            }

            /// True if a new connection can't replace a failed one: after a file was replaced, it
            /// would watch another file.
            pub(crate) fn is_lost_for_good(&self) -> bool {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name(_) => <$module::Changes as ChangeSource>::IS_LOST_FOR_GOOD,)+
                }
            }
        }

        impl Probe {
            /// Checks once. May be dropped at any point and called again.
            ///
            /// # Errors
            /// The reason why it can't be reached, with the name of the source.
            pub async fn ask(&mut self) -> Result<(), Error> {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name(probe) => Ping::ask(&mut **probe).await,)+
                }
            }
        }

        impl Answer {
            /// The columns of its rows.
            pub fn columns(&self) -> Arc<[Column]> {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name(answer) => LookupAnswer::columns(answer),)+
                }
            }

            /// The next row, lent until the next call.
            pub fn next_row(&mut self) -> Option<Row<'_>> {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name(answer) => LookupAnswer::next_row(answer).map(Row::$name),)+
                }
            }
        }

        impl Session {
            /// Returns true if it uses a connection of the pool.
            pub(crate) fn holds_connection(&self) -> bool {
                !matches!(self, Self::Lookup(_))
            }

            /// The time by which more rows must be read, even for a slow client, because the
            /// database would end the session. `None` if there's no limit.
            pub(crate) fn read_by(&self) -> Option<Instant> {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name(session) => DatabaseSession::read_by(&**session),)+
                    Self::Lookup(_) => None,
                }
            }

            /// Prepares the next statement and returns its columns. [`Session::execute`] counts
            /// statements from 0.
            ///
            /// # Errors
            /// The database's error for the statement, with its position in the text if known.
            pub async fn prepare(&mut self, statement: &Statement) -> Result<Arc<[Column]>, Error> {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name(session) => DatabaseSession::prepare(&mut **session, statement).await,)+
                    Self::Lookup(answer) => Ok(answer.columns()),
                }
            }

            /// Begins the snapshot of several statements, once all are prepared. Without it, a
            /// table that is rewritten meanwhile could seem empty.
            ///
            /// # Errors
            /// The connection failed, or a table can't be read now.
            pub async fn begin(&mut self) -> Result<(), Error> {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name(session) => DatabaseSession::begin(&mut **session).await,)+
                    Self::Lookup(_) => Ok(()),
                }
            }

            /// Cancels work that the database has begun for statements that won't be executed.
            /// Dropping the session does this too, but only while its runtime exists.
            pub async fn let_go(&mut self) {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name(session) => DatabaseSession::let_go(&mut **session).await,)+
                    Self::Lookup(_) => {}
                }
            }

            /// The source of the rows of the prepared statement `index`.
            pub fn rows_of(&self, index: usize) -> RowsOf<'_> {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name(session) => DatabaseSession::rows_of(&**session, index),)+
                    Self::Lookup(_) => RowsOf::Own,
                }
            }

            /// Runs the prepared statement `index`, which opens refcursors or has results. It runs
            /// in the same transaction as later statements. For refcursors, returns the names in
            /// its rows, by column. We read at most two rows; the second one only proves that there
            /// are too many.
            ///
            /// # Errors
            /// The statement or the connection failed.
            pub async fn call(
                &mut self,
                index: usize,
                args: &[&ParamValue],
            ) -> Result<Vec<Vec<Option<String>>>, Error> {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name(session) => DatabaseSession::call(&mut **session, index, args).await,)+
                    Self::Lookup(_) => Ok(Vec::new()),
                }
            }

            /// Makes [`Session::execute`] read the cursor `name` instead of the statement `index`.
            /// Returns the columns of its rows, which can differ at each call.
            ///
            /// # Errors
            /// There's no such cursor, or the connection failed.
            pub async fn open_refcursor(&mut self, index: usize, name: &str) -> Result<Arc<[Column]>, Error> {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name(session) => DatabaseSession::open_refcursor(&mut **session, index, name).await,)+
                    Self::Lookup(_) => Err(of_lookup()),
                }
            }

            /// Waits for a result of the called procedure and returns its columns. Then
            /// [`Session::poll_row`] returns its rows. Unread rows before it are skipped. The last
            /// row of the previous result must have been read.
            ///
            /// # Errors
            /// There's no such result, or there are more; the procedure or the connection failed.
            pub fn poll_result(
                &mut self,
                result: ResultSet,
                cx: &mut Context<'_>,
            ) -> Poll<Result<Arc<[Column]>, Error>> {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name(session) => DatabaseSession::poll_result(&mut **session, result, cx),)+
                    Self::Lookup(_) => Poll::Ready(Err(of_lookup())),
                }
            }

            /// Starts the prepared statement `index` with `args` in the order of its placeholders.
            /// Does no I/O: the first [`Session::poll_row`] does, and reports failures. The
            /// previous statement must have returned its last row.
            pub fn execute(&mut self, index: usize, args: &[&ParamValue]) {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name(session) => DatabaseSession::execute(&mut **session, index, args),)+
                    Self::Lookup(_) => {}
                }
            }

            /// Starts several prepared statements at once, each by its index and arguments. The
            /// session must have been acquired with [`Snapshot::Transaction`]. Does no I/O, like
            /// [`Session::execute`].
            pub fn execute_interleaved(&mut self, runs: &[(usize, Vec<&ParamValue>)]) {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name(session) => DatabaseSession::execute_interleaved(&mut **session, runs),)+
                    Self::Lookup(_) => {}
                }
            }

            /// The next row of the statement at index `which` of [`Session::execute_interleaved`],
            /// lent until the next call. Returns `None` after its last row, even if called again.
            /// If rows of other statements arrive first, at most a portion of each is held.
            ///
            /// # Errors
            /// One of the statements or the connection failed. Nothing may be polled after an
            /// error.
            #[inline]
            pub fn poll_row_of(
                &mut self,
                which: usize,
                cx: &mut Context<'_>,
            ) -> Poll<Result<Option<Row<'_>>, Error>> {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name(session) => {
                        DatabaseSession::poll_row_of(&mut **session, which, cx).map_ok(|row| row.map(Row::$name))
                    })+
                    Self::Lookup(_) => Poll::Ready(Err(of_lookup())),
                }
            }

            /// The next row, lent until the next call; `None` after the last one.
            ///
            /// # Errors
            /// The statement or the connection failed. Nothing may be polled after an error.
            #[inline]
            pub fn poll_row(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Row<'_>>, Error>> {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name(session) => {
                        DatabaseSession::poll_row(&mut **session, cx).map_ok(|row| row.map(Row::$name))
                    })+
                    Self::Lookup(answer) => Poll::Ready(Ok(answer.next_row())),
                }
            }
        }

        impl Session {
            /// Switches the prepared statement `index` to record batches of its first `columns`
            /// columns, and returns their schema. Returns `None` if the database has no batches;
            /// its rows are then read as usual.
            pub(crate) fn as_batches(&mut self, index: usize, columns: usize) -> Option<Schema> {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name(session) => DatabaseSession::as_batches(&mut **session, index, columns),)+
                    Self::Lookup(_) => None,
                }
            }

            /// The next batch, lent until the next call; `None` after the last one.
            ///
            /// # Errors
            /// The statement or the connection failed. Nothing may be polled after an error.
            pub(crate) fn poll_batch(
                &mut self,
                cx: &mut Context<'_>,
            ) -> Poll<Result<Option<Batch<'_, Row<'_>>>, Error>> {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name(session) => {
                        DatabaseSession::poll_batch(&mut **session, cx)
                            .map_ok(|batch| batch.map(|batch| batch.map(Row::$name)))
                    })+
                    Self::Lookup(_) => Poll::Ready(Err(of_lookup())),
                }
            }
        }

        impl Row<'_> {
            /// Writes the row's values to `out`.
            ///
            /// # Errors
            /// A value can't be decoded. `out` then ends in half a row, which the caller removes.
            #[inline]
            pub fn encode(self, encoder: &mut impl RowWriter, out: &mut Vec<u8>) -> Result<(), Error> {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name(row) => DatabaseRow::encode(row, encoder, out),)+
                }
            }

            /// The layout of copies of the statement's rows.
            pub(crate) fn layout(&self) -> Layout {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name(row) => Layout::$name(DatabaseRow::layout(row)),)+
                }
            }

            /// The bytes to copy.
            pub(crate) fn bytes(&self) -> &[u8] {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name(row) => DatabaseRow::bytes(row),)+
                }
            }
        }

        impl Layout {
            /// The row in these bytes.
            pub(crate) fn row<'a>(&'a mut self, bytes: &'a [u8]) -> Row<'a> {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name(layout) => Row::$name(RowLayout::row(layout, bytes)),)+
                }
            }
        }
    };
}

/// The error of a call that a lookup doesn't support.
#[cold]
fn of_lookup() -> Error {
    Error::protocol("a lookup has no refcursors, and no statements beside its own")
}

// The list. Each line has the name of a variant, the module of the database, and the cargo feature
// that enables it.
databases! {
    /// PostgreSQL, and servers that speak its protocol.
    Postgres => postgres,
    /// A SQLite file.
    Sqlite => sqlite,
    /// MySQL and MariaDB.
    Mysql => mysql,
    /// A database with a foreign ADBC driver, in a driver process.
    Adbc => adbc if "adbc",
    /// The same with ODBC.
    Odbc => odbc if "odbc",
    /// A server of Arrow Flight SQL.
    Flight => flight if "flight",
}

impl AnyDatabase {
    /// Waits for a connection, to read parts of a table from one snapshot. Also takes other
    /// connections that are free at once, up to the requested total.
    ///
    /// # Errors
    /// The pool's (503, 504), or 503 if the database can't be reached. The table doesn't exist, or
    /// the database can't read parts.
    pub(crate) async fn acquire_parts(
        &self,
        part: (&str, usize),
        priority: Priority,
        patience: Patience<'_>,
    ) -> Result<Parts, Error> {
        match self {
            Self::Postgres(source) => {
                let parts = source.acquire_parts(part, priority, patience).await?;
                Ok(Parts(Box::new(parts)))
            }
            _ => Err(Error::endpoint("this database does not read parts of a table")),
        }
    }

    /// Waits for a connection that reads one shard of a table. It reads from the snapshot `given`,
    /// or from a new one, which is kept for a while.
    ///
    /// # Errors
    /// The pool's (503, 504). 503 if the database can't be reached or keeps too many snapshots, or
    /// if a transaction waits for an exclusive lock on the table. 410 if the snapshot has expired.
    /// The table doesn't exist, or the database can't read parts.
    pub(crate) async fn acquire_shard(
        &self,
        part: (&str, Shard),
        given: Option<TableSnapshot>,
        asks: (Priority, Patience<'_>),
    ) -> Result<Parts, Error> {
        match self {
            Self::Postgres(source) => {
                let parts = source.acquire_shard(part, given, asks).await?;
                Ok(Parts(Box::new(parts)))
            }
            _ => Err(Error::endpoint("this database does not read parts of a table")),
        }
    }

    /// The same database, with statements that run as `actor`.
    ///
    /// # Errors
    /// The database has no roles for requests.
    pub(crate) fn acting(&self, actor: &Arc<Actor>) -> Result<Self, Error> {
        match self {
            Self::Postgres(source) => Ok(Self::Postgres(source.acting(Arc::clone(actor)))),
            _ => Err(Error::endpoint("this database has no roles for requests")),
        }
    }
}

/// Sessions that read parts of one table in parallel. The calls are those of a [`Session`] with one
/// statement.
pub(crate) struct Parts(Box<postgres::Parts>);

impl Parts {
    /// The number of sessions.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// See [`Session::read_by`].
    pub(crate) fn read_by(&self) -> Option<Instant> {
        self.0.read_by()
    }

    /// The snapshot for reading the other shards; `None` if these are all parts.
    pub(crate) fn shared_snapshot(&self) -> Option<&TableSnapshot> {
        self.0.shared_snapshot()
    }

    /// Prepares the statement for one part, whose bounds are its last two arguments.
    ///
    /// # Errors
    /// The database's error for the statement.
    pub(crate) async fn prepare(&mut self, statement: &Statement) -> Result<Arc<[Column]>, Error> {
        self.0.prepare(statement).await
    }

    /// Starts the statement for each part, with `args` and the bounds.
    pub(crate) fn execute(&mut self, index: usize, args: &[&ParamValue]) {
        self.0.execute(index, args);
    }

    /// The next row of any part, lent until the next call; `None` after the last row of all.
    ///
    /// # Errors
    /// A part or its connection failed. Nothing may be polled after an error.
    pub(crate) fn poll_row(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Row<'_>>, Error>> {
        self.0.poll_row(cx).map_ok(|row| row.map(Row::Postgres))
    }
}

impl DatabaseKind {
    /// The database whose URLs have this scheme, with the scheme in its own spelling.
    pub(crate) fn of_scheme(scheme: &str) -> Option<(Self, &'static str)> {
        let schemes = |kind: Self| kind.dialect().urls.schemes.iter().map(move |known| (kind, *known));
        Self::ALL.iter().copied().flat_map(schemes).find(|(_, known)| known.eq_ignore_ascii_case(scheme))
    }

    /// The database whose sources are files.
    pub(crate) fn of_files() -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.dialect().urls.location == Location::File)
    }
}

#[cfg(test)]
mod tests;
