//! The list of databases. It turns the traits of [`rowstream_database`] into the enums that the rest of
//! the server uses.
//!
//! The contract's items are re-exported, so that the server knows databases by this module alone.
//! Requests to upstreams aren't here, because they produce rows in another way
//! (`stream/producer.rs`).

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use arrow_schema::Schema;
#[cfg(feature = "flight")]
use rowstream_arrow::flight;
#[cfg(feature = "adbc")]
use rowstream_arrow::worker::adbc;
#[cfg(feature = "odbc")]
use rowstream_arrow::worker::odbc;
use rowstream_core::Error;
use rowstream_core::client::Client;
use rowstream_core::params::ParamValue;
use rowstream_core::pool::{self, HostStats, Patience, Priority, ReservedSlots, SlowReader, SlowStream};
use rowstream_core::settings::SourceSettings;
use rowstream_core::sql::Dialect;
use rowstream_core::sql::dialect::Location;
use rowstream_database::{
    ChangeSource, Database, DatabaseRow, DatabaseSession, LookupAnswer, Ping, RowLayout, TableParts as _,
};
use rowstream_encode::{Column, RowWriter};
use tokio::sync::OwnedSemaphorePermit;
use {rowstream_mysql as mysql, rowstream_postgres as postgres, rowstream_sqlite as sqlite};

pub(crate) use rowstream_database::optional;
pub(crate) use rowstream_database::table_files::{DatabaseFile, is_csv, is_table_file};
pub use rowstream_database::{
    Actor, Batch, HostReport, PartsKind, PartsRequest, ResultSet, RowOrder, RowPlace, RowSource, ShardRead,
    SharedLookups, Sizes, Snapshot, Statement, TableSnapshot,
};
pub(crate) use rowstream_database::{Elsewhere, OwnSetting, SourceContext};

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
        /// Boxed, because otherwise each would be as large as the largest one.
        pub enum Session {
            $($(#[$doc])+ $(#[cfg(feature = $feature)])? $name(Box<<$module::Source as Database>::Session>),)+
        }

        /// The rows of a lookup on a shared connection. All have been received.
        pub enum Answer {
            $($(#[$doc])+ $(#[cfg(feature = $feature)])? $name(<$module::Source as Database>::Answer),)+
        }

        /// Sessions that read parts of one table in parallel. Boxed like a [`Session`].
        pub(crate) enum TableParts {
            $($(#[$doc])+ $(#[cfg(feature = $feature)])? $name(Box<<$module::Source as Database>::Parts>),)+
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

            /// The settings that other databases don't have.
            pub(crate) fn settings(self) -> &'static [OwnSetting] {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name => <$module::Source as Database>::SETTINGS,)+
                }
            }

            /// True if a source of this kind can have the setting `name`, and others can't.
            pub(crate) fn has(self, name: &str) -> bool {
                self.settings().iter().any(|setting| setting.name == name)
            }

            /// See [`Database::LOOKUP_PATIENCE`].
            pub(crate) fn lookup_patience(self) -> Option<Duration> {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name => <$module::Source as Database>::LOOKUP_PATIENCE,)+
                }
            }

            /// The slots that the pool keeps for lookups, if the source has any.
            pub(crate) fn kept(self, max: usize) -> ReservedSlots {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name => ReservedSlots::for_lookups(max, <$module::Source as Database>::shared(max)),)+
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
            pub(crate) async fn inspect(&self) -> Vec<HostReport> {
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

            /// For how long a stream has had to give its slot up; see [`pool::Pool::gives_way`].
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

            /// Makes connections prepare their statements again.
            pub(crate) fn forget_statements(&self) {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name(source) => Database::forget_statements(source),)+
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
                        let kept = if any { DatabaseKind::$name.kept(max) } else { ReservedSlots::default() };
                        source.pool().keep(kept);
                    })+
                }
            }

            /// Waits until a task that isn't urgent may [`acquire`](Self::acquire) a connection;
            /// see [`pool::Pool::turn`].
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

            /// See [`Database::look_up`].
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

            /// See [`Database::changes`].
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

            /// See [`Database::acquire_parts`].
            ///
            /// # Errors
            /// The pool's (503, 504), and those of the database.
            pub(crate) async fn acquire_parts(
                &self,
                read: PartsRequest<'_>,
                priority: Priority,
                patience: Patience<'_>,
            ) -> Result<TableParts, Error> {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name(source) => {
                        Database::acquire_parts(source, read, priority, patience).await.map(Box::new).map(TableParts::$name)
                    })+
                }
            }

            /// See [`Database::acting`].
            ///
            /// # Errors
            /// The database has no roles for requests.
            pub(crate) fn acting(&self, actor: &Arc<Actor>) -> Result<Self, Error> {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name(source) => {
                        Database::acting(source, Arc::clone(actor)).map(Self::$name)
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
                    $($(#[cfg(feature = $feature)])? Self::$name(_) => <<$module::Source as Database>::Changes as ChangeSource>::IS_LOST_FOR_GOOD,)+
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
            /// See [`DatabaseSession::read_by`].
            pub(crate) fn read_by(&self) -> Option<Instant> {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name(session) => DatabaseSession::read_by(&**session),)+
                }
            }

            /// See [`DatabaseSession::prepare`].
            ///
            /// # Errors
            /// The database's error for the statement, with its position in the text if known.
            pub async fn prepare(&mut self, statement: &Statement) -> Result<Arc<[Column]>, Error> {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name(session) => DatabaseSession::prepare(&mut **session, statement).await,)+
                }
            }

            /// See [`DatabaseSession::begin`].
            ///
            /// # Errors
            /// The connection failed, or a table can't be read now.
            pub async fn begin(&mut self) -> Result<(), Error> {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name(session) => DatabaseSession::begin(&mut **session).await,)+
                }
            }

            /// See [`DatabaseSession::let_go`].
            pub async fn let_go(&mut self) {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name(session) => DatabaseSession::let_go(&mut **session).await,)+
                }
            }

            /// See [`DatabaseSession::rows_of`].
            pub fn rows_of(&self, index: usize) -> RowSource<'_> {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name(session) => DatabaseSession::rows_of(&**session, index),)+
                }
            }

            /// See [`DatabaseSession::call`].
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
                }
            }

            /// See [`DatabaseSession::open_refcursor`].
            ///
            /// # Errors
            /// There's no such cursor, or the connection failed.
            pub async fn open_refcursor(&mut self, index: usize, name: &str) -> Result<Arc<[Column]>, Error> {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name(session) => DatabaseSession::open_refcursor(&mut **session, index, name).await,)+
                }
            }

            /// See [`DatabaseSession::poll_result`].
            ///
            /// # Errors
            /// There's no such result, or the connection failed.
            pub fn poll_result(
                &mut self,
                result: ResultSet,
                cx: &mut Context<'_>,
            ) -> Poll<Result<Arc<[Column]>, Error>> {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name(session) => DatabaseSession::poll_result(&mut **session, result, cx),)+
                }
            }

            /// See [`DatabaseSession::execute`].
            pub fn execute(&mut self, index: usize, args: &[&ParamValue]) {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name(session) => DatabaseSession::execute(&mut **session, index, args),)+
                }
            }

            /// See [`DatabaseSession::execute_interleaved`].
            pub fn execute_interleaved(&mut self, runs: &[(usize, Vec<&ParamValue>)]) {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name(session) => DatabaseSession::execute_interleaved(&mut **session, runs),)+
                }
            }

            /// See [`DatabaseSession::poll_row_of`].
            ///
            /// # Errors
            /// One of the statements or the connection failed.
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
                }
            }

            /// See [`DatabaseSession::poll_row`].
            ///
            /// # Errors
            /// The statement or the connection failed.
            #[inline]
            pub fn poll_row(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Row<'_>>, Error>> {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name(session) => {
                        DatabaseSession::poll_row(&mut **session, cx).map_ok(|row| row.map(Row::$name))
                    })+
                }
            }

            /// See [`DatabaseSession::as_batches`].
            pub(crate) fn as_batches(&mut self, index: usize, columns: usize) -> Option<Schema> {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name(session) => DatabaseSession::as_batches(&mut **session, index, columns),)+
                }
            }

            /// See [`DatabaseSession::poll_batch`].
            ///
            /// # Errors
            /// The statement or the connection failed.
            pub(crate) fn poll_batch(
                &mut self,
                cx: &mut Context<'_>,
            ) -> Poll<Result<Option<Batch<'_, Row<'_>>>, Error>> {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name(session) => {
                        DatabaseSession::poll_batch(&mut **session, cx)
                            .map_ok(|batch| batch.map(|batch| batch.map(Row::$name)))
                    })+
                }
            }
        }

        impl TableParts {
            /// The parts that they read.
            pub(crate) fn kind(&self) -> PartsKind<'_> {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name(parts) => parts.kind(),)+
                }
            }

            /// See [`Session::read_by`].
            pub(crate) fn read_by(&self) -> Option<Instant> {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name(parts) => parts.read_by(),)+
                }
            }

            /// Prepares the statement for one part, whose bounds are its last two arguments.
            ///
            /// # Errors
            /// The database's error for the statement.
            pub(crate) async fn prepare(&mut self, statement: &Statement) -> Result<Arc<[Column]>, Error> {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name(parts) => parts.prepare(statement).await,)+
                }
            }

            /// Starts the statement for each part, with `args` and the bounds.
            pub(crate) fn execute(&mut self, index: usize, args: &[&ParamValue]) {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name(parts) => parts.execute(index, args),)+
                }
            }

            /// The next row of any part, lent until the next call; `None` after the last row of all.
            ///
            /// # Errors
            /// A part or its connection failed. Nothing may be polled after an error.
            pub(crate) fn poll_row(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Row<'_>>, Error>> {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$name(parts) => {
                        parts.poll_row(cx).map_ok(|row| row.map(Row::$name))
                    })+
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
