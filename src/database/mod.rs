//! Databases: a folder each, which speaks with one kind of them, and a line in the list below.
//!
//! A database implements [`Database`], [`DatabaseSession`], [`DatabaseRow`] and
//! [`RowLayout`]. The list makes of them the enums that the rest of the server uses, so that a row
//! costs a match and no virtual call. What no database does is not here: requests to upstreams are
//! row producers of their own (`stream/producer.rs`).
//!
//! A [`Session`] is one connection, held by one response from its first statement to its last row.
//! The order of calls is fixed:
//!
//! 1. [`AnyDatabase::acquire`] waits for the pool;
//! 2. [`Session::prepare`] for each statement, which returns the columns;
//! 3. [`Session::execute`] starts one of them, and does no I/O;
//! 4. [`Session::poll_row`] until it yields no row; then 3 again for the next statement.
//!
//! Or statements that are interleaved: [`Session::execute_interleaved`] in place of 3, and in place
//! of 4 [`Session::poll_row_of`] until each of them has yielded no row.
//!
//! Or rows that come as record batches, where [`Session::as_batches`] is called between 2 and 3:
//! then [`Session::poll_batch`] stands in place of 4.
//!
//! A statement may have no rows of its own ([`Session::rows_of`]): between 2 and 3, once all
//! statements are prepared, [`Session::call`] runs it. Then [`Session::open_refcursor`] puts a
//! cursor that it has opened in its place; or [`Session::poll_result`] waits for the columns of a
//! result, whose rows are polled in place of 3 and 4.
//!
//! A session may be dropped at any point: what still runs in the database is cancelled there, and
//! the connection goes back to the pool once the database has said that it is ready, or is closed.
//! All statements of a session that was acquired with a snapshot read the same state of the data.

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
use rowstream_encode::{Column, RowWriter};
use tokio::sync::OwnedSemaphorePermit;

pub use self::postgres::Actor;
pub(crate) use self::table_files::{DatabaseFile, is_csv, is_table_file};
pub(crate) use self::table_snapshot::TableSnapshot;
#[cfg(feature = "adbc")]
use self::worker::adbc;
#[cfg(feature = "odbc")]
use self::worker::odbc;
use rowstream_core::Error;
use rowstream_core::client::Client;
use rowstream_core::histogram::Histogram;
use rowstream_core::params::{BindType, ParamValue, Shard};
use rowstream_core::pool::{self, HostStats, Kept, Patience, Pool, Priority, SlowReader, SlowStream};
use rowstream_core::settings::SourceSettings;
use rowstream_core::sql::Dialect;
use rowstream_core::sql::dialect::Location;

/// How many statements of a response must agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Snapshot {
    /// One statement, which is a snapshot by itself.
    Statement,
    /// Several: they read one snapshot, in one read-only transaction.
    Transaction,
}

/// Lookups on the connections that they share.
#[derive(Debug)]
pub struct SharedLookups {
    /// How many are on their way.
    pub(crate) pending: usize,
    /// How many were sent together.
    pub(crate) batches: Histogram<u64>,
}

/// What a host has said of itself.
#[derive(Debug)]
pub struct HostSaid {
    /// Its host and port, or its socket.
    pub name: String,
    /// Its version and its role; or why it cannot be asked.
    pub said: Result<String, Error>,
}

/// A statement as a database takes it.
#[derive(Debug, Clone)]
pub struct Statement {
    /// The text with the database's own placeholders (`$1`, `?1`, `?`).
    pub sql: Arc<str>,
    /// The declared type of each argument.
    pub types: Vec<BindType>,
}

/// Whose rows a prepared statement answers with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowsOf<'a> {
    /// Its own.
    Own,
    /// Those of refcursors: these columns of its only row name the cursors.
    Refcursors(&'a [usize]),
    /// Those of the procedure that it calls, whose results come one after another.
    Results,
}

/// One of the results of a procedure, as a response reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResultSet {
    /// How many come before it.
    pub place: usize,
    /// How many the procedure has.
    pub of: usize,
    /// Whether the response reads none after it: then its rows end when the procedure does.
    pub is_last: bool,
}

/// Rows that come together, as a message of an Arrow stream.
pub struct Batch<'a, R> {
    /// How many there are.
    pub rows: u64,
    /// The message.
    pub message: &'a [u8],
    /// The last of them, where the statement has columns that are not in the message, which are
    /// those of a key; or one that has no key.
    pub last: Option<R>,
}

impl<'a, R> Batch<'a, R> {
    /// The same with another kind of rows.
    pub(crate) fn map<S>(self, row: impl FnOnce(R) -> S) -> Batch<'a, S> {
        Batch { rows: self.rows, message: self.message, last: self.last.map(row) }
    }
}

/// What a database may take of the memory, in bytes.
#[derive(Clone, Copy)]
pub struct Sizes {
    /// An idle connection of the pool.
    pub idle: usize,
    /// A session of a source with these settings.
    pub session: fn(&SourceSettings) -> usize,
    /// What may wait of one of several interleaved statements, whose longest row has so many bytes.
    pub portion: fn(usize) -> usize,
}

/// One kind of database: a source of it, with its pool.
pub trait Database: Clone + Send + Sync + 'static {
    /// A connection as the pool keeps it.
    type Connection: Send + 'static;
    /// A connection that is held by one response.
    type Session: DatabaseSession;
    /// The rows of a lookup on a shared connection; [`NoAnswer`] where the database shares none.
    type Answer: LookupAnswer;
    /// What notices that rows may have been committed.
    type Changes: ChangeSource;
    /// What asks whether the database can be reached.
    type Probe: Ping;
    /// Its SQL, and what it can do.
    const DIALECT: &'static Dialect;
    /// What it takes of the memory.
    const SIZES: Sizes;
    /// How long a lookup may take on a shared connection before it gets one of its own; `None`
    /// where none is shared.
    const LOOKUP_PATIENCE: Option<Duration> = None;

    /// A source without open connections; no I/O but reading root certificates.
    ///
    /// # Errors
    /// The URL is not understood, or its certificates cannot be read.
    fn open(settings: &SourceSettings) -> Result<Self, Error>;

    /// Makes what the settings say how to make and what is not there yet. Whether it did.
    ///
    /// # Errors
    /// It cannot be made.
    fn create_missing(_settings: &SourceSettings) -> Result<bool, Error> {
        Ok(false)
    }

    /// Its name.
    fn name(&self) -> &str;

    /// Its pool.
    fn pool(&self) -> &Pool<Self::Connection>;

    /// What asks whether it can be reached, on a connection beside those of the pool: that all of
    /// them are taken is no reason to say that it cannot.
    fn probe(&self) -> Self::Probe;

    /// Waits for a connection and makes it ready.
    ///
    /// # Errors
    /// The pool's (503, 504), or 503 when the database cannot be reached.
    fn acquire(
        &self,
        snapshot: Snapshot,
        priority: Priority,
        patience: Patience<'_>,
    ) -> impl Future<Output = Result<Self::Session, Error>>;

    /// See [`AnyDatabase::changes`].
    ///
    /// # Errors
    /// 503: the database cannot be reached, or does not let its channel be listened to.
    fn changes(
        &self,
        channel: Option<&str>,
        every: Duration,
    ) -> impl Future<Output = Result<Self::Changes, Error>>;

    /// See [`AnyDatabase::look_up`].
    ///
    /// # Errors
    /// What the database says of the statement; 503 when too many lookups are on their way.
    fn look_up(
        &self,
        _statement: &Statement,
        _args: &[&ParamValue],
        _patience: Patience<'_>,
    ) -> impl Future<Output = Result<Option<Self::Answer>, Error>> {
        std::future::ready(Ok(None))
    }

    /// How many hosts it has.
    fn hosts(&self) -> usize {
        1
    }

    /// What is known of each of its hosts, where it has several.
    fn host_stats(&self) -> Vec<HostStats> {
        Vec::new()
    }

    /// Looks after its hosts, for as long as it is used.
    fn watch(&self) -> impl Future<Output = ()> + Send + 'static {
        std::future::ready(())
    }

    /// Connects to each of its hosts, and asks what it is.
    fn inspect(&self) -> impl Future<Output = Vec<HostSaid>> {
        std::future::ready(Vec::new())
    }

    /// How long followers have waited for the end of a transaction, zero if they don't; `None`: they
    /// never do.
    fn longest_wait(&self) -> Option<Duration> {
        None
    }

    /// What there is to know of lookups on shared connections; `None` where none is shared.
    fn lookups(&self) -> Option<SharedLookups> {
        None
    }

    /// How many connections of a pool of `max` lookups share.
    fn shared(_max: usize) -> usize {
        0
    }
}

/// The rows of a lookup on a shared connection, which have all come.
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

/// Asks whether a database can be reached.
pub trait Ping {
    /// Asks. May be dropped at any point, and asked again.
    ///
    /// # Errors
    /// Why it cannot be reached, with the name of the source.
    fn ask(&mut self) -> impl Future<Output = Result<(), Error>>;
}

/// Notices that rows may have been committed.
pub trait ChangeSource {
    /// Whether no other connection can notice what this one cannot any more: that of a file that
    /// was replaced would be to another one.
    const IS_LOST_FOR_GOOD: bool;

    /// Waits until rows may have been committed since the call before; the first one returns at
    /// once. A call that is dropped is to be the last.
    ///
    /// # Errors
    /// The database cannot be asked any more.
    fn next(&mut self) -> impl Future<Output = Result<(), Error>>;

    /// Reports the transactions that followers wait for from now on, if there can be some.
    fn report_waits(&mut self) {}
}

/// One connection of a database, held by one response. The order of its calls stands above.
pub trait DatabaseSession {
    /// A row, lent until the next call.
    type Row<'a>: DatabaseRow
    where
        Self: 'a;

    /// See [`Session::prepare`].
    ///
    /// # Errors
    /// What the database says of the statement, with the place in its text where known.
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
    /// The statement failed, or the connection did.
    fn poll_row(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Self::Row<'_>>, Error>>;

    /// See [`Session::as_batches`].
    fn as_batches(&mut self, _index: usize, _columns: usize) -> Option<Schema> {
        None
    }

    /// See [`Session::poll_batch`].
    ///
    /// # Errors
    /// The statement failed, or the connection did.
    fn poll_batch(&mut self, _cx: &mut Context<'_>) -> Poll<Result<Option<Batch<'_, Self::Row<'_>>>, Error>> {
        Poll::Ready(Err(Error::protocol("this database has no record batches")))
    }

    /// See [`Session::execute_interleaved`].
    fn execute_interleaved(&mut self, runs: &[(usize, Vec<&ParamValue>)]);

    /// See [`Session::poll_row_of`].
    ///
    /// # Errors
    /// One of the statements failed, or the connection did.
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
    /// The statement failed, or the connection did.
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
    /// There is no such cursor, or the connection failed.
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
    /// There is no such result, or the connection failed.
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
    /// What rows are read by that were copied, so that they outlive the poll that lent them.
    type Layout;

    /// Writes the row's values to `out`.
    ///
    /// # Errors
    /// A value that cannot be decoded; `out` then ends in half a row, which the caller removes.
    fn encode(self, encoder: &mut impl RowWriter, out: &mut Vec<u8>) -> Result<(), Error>;

    /// What copies of the statement's rows are read by.
    fn layout(&self) -> Self::Layout;

    /// What a copy of it holds.
    fn bytes(&self) -> &[u8];
}

/// What rows are read by that were copied.
pub trait RowLayout {
    /// The row of a copy.
    type Row<'a>: DatabaseRow
    where
        Self: 'a;

    /// The row of these bytes.
    fn row<'a>(&'a mut self, bytes: &'a [u8]) -> Self::Row<'a>;
}

/// The answer of a database that shares no connections: there is none.
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

/// Makes the enums of all databases, each method a static match.
macro_rules! databases {
    ($($(#[$doc:meta])+ $name:ident => $module:ident $(if $feature:literal)?,)+) => {
        /// A database that rows come from, with its pool.
        #[derive(Clone)]
        pub enum AnyDatabase {
            $($(#[$doc])+ $(#[cfg(feature = $feature)])? $name($module::Source),)+
        }

        /// One connection of a database, held by one response.
        ///
        /// Boxed: a lookup holds none, and would be moved with the room of the largest.
        pub enum Session {
            $($(#[$doc])+ $(#[cfg(feature = $feature)])? $name(Box<<$module::Source as Database>::Session>),)+
            /// The rows of a lookup, which have come: a connection no longer.
            Lookup(Answer),
        }

        /// The rows of a lookup on a shared connection, which have come.
        pub enum Answer {
            $($(#[$doc])+ $(#[cfg(feature = $feature)])? $name(<$module::Source as Database>::Answer),)+
        }

        /// One row, lent by its session.
        pub enum Row<'a> {
            $($(#[$doc])+ $(#[cfg(feature = $feature)])? $name($module::Row<'a>),)+
        }

        /// What rows are read by that were copied, so that they outlive the poll that lent them.
        pub(crate) enum Layout {
            $($(#[$doc])+ $(#[cfg(feature = $feature)])? $name($module::Layout),)+
        }

        /// Notices that rows may have been committed.
        #[allow(clippy::large_enum_variant, reason = "one per endpoint that is followed")]
        pub enum Changes {
            $($(#[$doc])+ $(#[cfg(feature = $feature)])? $name(<$module::Source as Database>::Changes),)+
        }

        /// Asks whether a database can be reached, on a connection beside those of its pool.
        pub enum Probe {
            $($(#[$doc])+ $(#[cfg(feature = $feature)])? $name(Box<<$module::Source as Database>::Probe>),)+
        }

        /// Which database a source is.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum DatabaseKind {
            $($(#[$doc])+ $(#[cfg(feature = $feature)])? $name,)+
        }

        impl DatabaseKind {
            /// All that there are.
            pub const ALL: &'static [Self] = &[$($(#[cfg(feature = $feature)])? Self::$name,)+];

            /// Its SQL, and what it can do.
            pub fn dialect(self) -> &'static Dialect {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name => <$module::Source as Database>::DIALECT,)+
                }
            }

            /// Makes what the settings of a source say how to make and what is not there yet: a
            /// file, by the scripts of `create`. Whether it did.
            ///
            /// # Errors
            /// It cannot be made.
            pub(crate) fn create_missing(self, settings: &SourceSettings) -> Result<bool, Error> {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name => <$module::Source as Database>::create_missing(settings),)+
                }
            }

            /// What such a database takes of the memory.
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

            /// What the pool of such a database keeps for lookups, where there are any.
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
            /// The URL is not understood, or root certificates cannot be read.
            pub fn open(kind: DatabaseKind, settings: &SourceSettings) -> Result<Self, Error> {
                match kind {
                    $($(#[cfg(feature = $feature)])? DatabaseKind::$name => Database::open(settings).map(Self::$name),)+
                }
            }

            /// Its SQL, and what it can do.
            pub fn dialect(&self) -> &'static Dialect {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name(_) => <$module::Source as Database>::DIALECT,)+
                }
            }

            /// Its name.
            pub fn name(&self) -> &str {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name(source) => Database::name(source),)+
                }
            }

            /// Closes idle connections as they reach their `idle_timeout`, and looks after hosts,
            /// for as long as the database is used.
            pub fn reap(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name(source) => {
                        let (reap, watch) = (source.pool().reap(), Database::watch(source));
                        Box::pin(async { ((), ()) = tokio::join!(reap, watch) })
                    })+
                }
            }

            /// What asks whether it can be reached.
            pub fn probe(&self) -> Probe {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name(source) => Probe::$name(Box::new(Database::probe(source))),)+
                }
            }

            /// How many hosts it has.
            pub(crate) fn hosts(&self) -> usize {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name(source) => Database::hosts(source),)+
                }
            }

            /// What is known of each of its hosts, where it has several.
            pub(crate) fn host_stats(&self) -> Vec<HostStats> {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name(source) => Database::host_stats(source),)+
                }
            }

            /// Connects to each of its hosts, and asks what it is.
            pub(crate) async fn inspect(&self) -> Vec<HostSaid> {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name(source) => Database::inspect(source).await,)+
                }
            }

            /// What is known of its pool.
            pub(crate) fn pool_stats(&self) -> pool::Stats {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name(source) => source.pool().stats(),)+
                }
            }

            /// For how long a stream has had to give its connection up; see [`Pool::gives_way`].
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

            /// How long followers have waited for the end of a transaction; `None`: they never do.
            pub(crate) fn longest_wait(&self) -> Option<Duration> {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name(source) => Database::longest_wait(source),)+
                }
            }

            /// What there is to know of lookups on shared connections; `None` where the database
            /// shares none.
            pub(crate) fn lookups(&self) -> Option<SharedLookups> {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name(source) => Database::lookups(source),)+
                }
            }

            /// Keeps connections of the pool for lookups, or none where nobody asks for `any`:
            /// lists leave them free.
            pub(crate) fn keep_for_lookups(&self, any: bool) {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name(source) => {
                        let max = source.pool().max();
                        let kept = if any { DatabaseKind::$name.kept(max) } else { Kept::default() };
                        source.pool().keep(kept);
                    })+
                }
            }

            /// Waits for the turn of one that has time to [`acquire`](Self::acquire) a connection;
            /// see [`Pool::turn`].
            pub async fn turn(&self) -> Option<OwnedSemaphorePermit> {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name(source) => source.pool().turn().await,)+
                }
            }

            /// How long a request waits for a connection.
            pub fn acquire_timeout(&self) -> Duration {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name(source) => source.pool().acquire_timeout(),)+
                }
            }

            /// Asks `statement`, which answers with one row at most, on a connection that is shared
            /// with other lookups; its rows then hold no connection. `None`: it has to be asked on
            /// a connection of its own, because it has not been prepared yet, or takes long, or
            /// types may have been altered, or the database does not share.
            ///
            /// # Errors
            /// What the database says of the statement; 503 when too many lookups are on their way.
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

            /// What notices that rows may have been committed: by a notification on `channel`, or
            /// when it is asked, `every` so often. It has a connection of its own, beside the pool.
            ///
            /// # Errors
            /// 503: the database cannot be reached, or does not let its channel be listened to.
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
            /// The pool's (503, 504), or 503 when the database cannot be reached.
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
            /// Waits until rows may have been committed since the call before; the first one
            /// returns at once. A call that is dropped is to be the last.
            ///
            /// # Errors
            /// The database cannot be asked any more.
            pub async fn next(&mut self) -> Result<(), Error> {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name(changes) => ChangeSource::next(changes).await,)+
                }
            }

            /// Reports the transactions that followers wait for from now on, if there can be some.
            pub(crate) fn report_waits(&mut self) {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name(changes) => ChangeSource::report_waits(changes),)+
                }
            }

            /// Whether no other connection can notice what this one cannot any more: that of a file
            /// that was replaced would be to another one.
            pub(crate) fn is_lost_for_good(&self) -> bool {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name(_) => <$module::Changes as ChangeSource>::IS_LOST_FOR_GOOD,)+
                }
            }
        }

        impl Probe {
            /// Asks. May be dropped at any point, and asked again.
            ///
            /// # Errors
            /// Why it cannot be reached, with the name of the source.
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
            /// Whether a connection of the pool is in use for it.
            pub(crate) fn holds_connection(&self) -> bool {
                !matches!(self, Self::Lookup(_))
            }

            /// When its rows have to be read on, however slow the client is: the database ends it else.
            /// `None`: it waits for as long as it takes.
            pub(crate) fn read_by(&self) -> Option<Instant> {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name(session) => DatabaseSession::read_by(&**session),)+
                    Self::Lookup(_) => None,
                }
            }

            /// Prepares the next statement and returns its columns. The first one is 0 for
            /// [`Session::execute`], and so on.
            ///
            /// # Errors
            /// What the database says of the statement, with the place in its text where known.
            pub async fn prepare(&mut self, statement: &Statement) -> Result<Arc<[Column]>, Error> {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name(session) => DatabaseSession::prepare(&mut **session, statement).await,)+
                    Self::Lookup(answer) => Ok(answer.columns()),
                }
            }

            /// Begins the snapshot of several statements, once all of them are prepared. Without it, a
            /// table that is rewritten meanwhile could be empty for them.
            ///
            /// # Errors
            /// The connection failed, or a table can't be read now.
            pub async fn begin(&mut self) -> Result<(), Error> {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name(session) => DatabaseSession::begin(&mut **session).await,)+
                    Self::Lookup(_) => Ok(()),
                }
            }

            /// Has the database forget what it has begun for statements that nobody will execute.
            /// A session that is dropped sees to that too, but only while its runtime is there.
            pub async fn let_go(&mut self) {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name(session) => DatabaseSession::let_go(&mut **session).await,)+
                    Self::Lookup(_) => {}
                }
            }

            /// Whose rows the prepared statement `index` answers with.
            pub fn rows_of(&self, index: usize) -> RowsOf<'_> {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name(session) => DatabaseSession::rows_of(&**session, index),)+
                    Self::Lookup(_) => RowsOf::Own,
                }
            }

            /// Runs the prepared statement `index`, which opens refcursors or has results, in the
            /// transaction of all that is executed later. Of refcursors, returns the names in its
            /// rows by column: two rows at most, of which the second is only the proof that there
            /// is one too many.
            ///
            /// # Errors
            /// The statement failed, or the connection did.
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

            /// Has [`Session::execute`] read the cursor `name` where it would run the statement
            /// `index`, and returns the columns of its rows, which may be others at each call.
            ///
            /// # Errors
            /// There is no such cursor, or the connection failed.
            pub async fn open_refcursor(&mut self, index: usize, name: &str) -> Result<Arc<[Column]>, Error> {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name(session) => DatabaseSession::open_refcursor(&mut **session, index, name).await,)+
                    Self::Lookup(_) => Err(of_lookup()),
                }
            }

            /// Waits for a result of the procedure that was called, and returns its columns; then
            /// [`Session::poll_row`] yields its rows. Rows that come before it and that nobody has
            /// read are skipped. The result before must have yielded its last row.
            ///
            /// # Errors
            /// There is no such result, or there are more; the procedure failed, or the connection
            /// did.
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
            /// Does no I/O: the first [`Session::poll_row`] does, and reports what fails. The
            /// statement before must have yielded its last row.
            pub fn execute(&mut self, index: usize, args: &[&ParamValue]) {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name(session) => DatabaseSession::execute(&mut **session, index, args),)+
                    Self::Lookup(_) => {}
                }
            }

            /// Starts several prepared statements at once, each by its index and arguments, of a
            /// session that was acquired with [`Snapshot::Transaction`]. Does no I/O, as
            /// [`Session::execute`].
            pub fn execute_interleaved(&mut self, runs: &[(usize, Vec<&ParamValue>)]) {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name(session) => DatabaseSession::execute_interleaved(&mut **session, runs),)+
                    Self::Lookup(_) => {}
                }
            }

            /// The next row of the statement that was the `which`th of
            /// [`Session::execute_interleaved`], lent until the next call; `None` after its last
            /// one, and from then on. Rows of the others that come meanwhile are held, a portion of
            /// each at most.
            ///
            /// # Errors
            /// One of the statements failed, or the connection did. Nothing may be polled after an
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
            /// The statement failed, or the connection did. Nothing may be polled after an error.
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
            /// Has the rows of the prepared statement `index` come as record batches of its first
            /// `columns` columns, and returns their schema. `None`: they come as rows, as the
            /// database has no such batches.
            pub(crate) fn as_batches(&mut self, index: usize, columns: usize) -> Option<Schema> {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name(session) => DatabaseSession::as_batches(&mut **session, index, columns),)+
                    Self::Lookup(_) => None,
                }
            }

            /// The next rows, lent until the next call; `None` after the last ones.
            ///
            /// # Errors
            /// The statement failed, or the connection did. Nothing may be polled after an error.
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
            /// A value that cannot be decoded; `out` then ends in half a row, which the caller
            /// removes.
            #[inline]
            pub fn encode(self, encoder: &mut impl RowWriter, out: &mut Vec<u8>) -> Result<(), Error> {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name(row) => DatabaseRow::encode(row, encoder, out),)+
                }
            }

            /// What copies of the statement's rows are read by.
            pub(crate) fn layout(&self) -> Layout {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name(row) => Layout::$name(DatabaseRow::layout(row)),)+
                }
            }

            /// What a copy of it holds.
            pub(crate) fn bytes(&self) -> &[u8] {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name(row) => DatabaseRow::bytes(row),)+
                }
            }
        }

        impl Layout {
            /// The row of these bytes.
            pub(crate) fn row<'a>(&'a mut self, bytes: &'a [u8]) -> Row<'a> {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name(layout) => Row::$name(RowLayout::row(layout, bytes)),)+
                }
            }
        }
    };
}

/// A lookup has one statement, whose rows have come.
#[cold]
fn of_lookup() -> Error {
    Error::protocol("a lookup has no refcursors, and no statements beside its own")
}

// The list. Each line is the name of a variant, the module of the database, and the feature of
// cargo that it hangs on.
databases! {
    /// PostgreSQL, and what speaks its protocol.
    Postgres => postgres,
    /// A SQLite file.
    Sqlite => sqlite,
    /// MySQL and MariaDB.
    Mysql => mysql,
    /// A database whose driver is others' (ADBC), in a process of its own.
    Adbc => adbc if "adbc",
    /// The same, by ODBC.
    Odbc => odbc if "odbc",
    /// A server of Arrow Flight SQL.
    Flight => flight if "flight",
}

impl AnyDatabase {
    /// Waits for a connection, and takes with it others that are free at once, up to so many in
    /// all, to read parts of a table from one snapshot.
    ///
    /// # Errors
    /// The pool's (503, 504), or 503 when the database cannot be reached; the table is none; or the
    /// database does not read parts.
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

    /// Waits for a connection that reads one shard of a table: from `given`, or from a new
    /// snapshot, which is kept for a while.
    ///
    /// # Errors
    /// The pool's (503, 504), or 503 when the database cannot be reached, keeps too many snapshots,
    /// or somebody waits to lock the table alone; 410 where the snapshot is kept no longer; the
    /// table is none; or the database does not read parts.
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

    /// The same database, whose statements are run as `actor`.
    ///
    /// # Errors
    /// It has no roles for requests.
    pub(crate) fn acting(&self, actor: &Arc<Actor>) -> Result<Self, Error> {
        match self {
            Self::Postgres(source) => Ok(Self::Postgres(source.acting(Arc::clone(actor)))),
            _ => Err(Error::endpoint("this database has no roles for requests")),
        }
    }
}

/// Sessions that read parts of one table side by side. The calls are those of a [`Session`] of one
/// statement.
pub(crate) struct Parts(Box<postgres::Parts>);

impl Parts {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// See [`Session::read_by`].
    pub(crate) fn read_by(&self) -> Option<Instant> {
        self.0.read_by()
    }

    /// The snapshot from which others may read the other shards; `None`: these are all parts.
    pub(crate) fn shared_snapshot(&self) -> Option<&TableSnapshot> {
        self.0.shared_snapshot()
    }

    /// Prepares the statement for one part, whose bounds are its last two arguments.
    ///
    /// # Errors
    /// What the database says of it.
    pub(crate) async fn prepare(&mut self, statement: &Statement) -> Result<Arc<[Column]>, Error> {
        self.0.prepare(statement).await
    }

    /// Starts the statement for each part, with `args` and the bounds.
    pub(crate) fn execute(&mut self, index: usize, args: &[&ParamValue]) {
        self.0.execute(index, args);
    }

    /// The next row of any part, lent until the next call; `None` after the last one of all.
    ///
    /// # Errors
    /// A part failed, or its connection did. Nothing may be polled after an error.
    pub(crate) fn poll_row(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Row<'_>>, Error>> {
        self.0.poll_row(cx).map_ok(|row| row.map(Row::Postgres))
    }
}

impl DatabaseKind {
    /// The database whose URLs have this scheme, which is one of its own.
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
