//! Sources: databases and HTTP services that rows come from.
//!
//! A [`Source`] has a URL and a pool. A [`Session`] is one connection of it, held by one response from its first
//! statement to its last row. The order of calls is fixed:
//!
//! 1. [`Source::acquire`] waits for the pool;
//! 2. [`Session::prepare`] for each statement, which tells the columns;
//! 3. [`Session::execute`] starts one of them, and does no I/O;
//! 4. [`Session::poll_row`] until it yields no row; then 3 again for the next statement.
//!
//! Or statements that are read by turns: [`Session::execute_together`] in place of 3, and in place of 4 [`Session::poll_row_of`]
//! until each of them has yielded no row.
//!
//! A statement of which [`Session::refcursors`] tells columns has no rows of its own: between 2 and 3, once all statements are
//! prepared, [`Session::call`] runs it, and [`Session::open_refcursor`] puts a cursor that it has opened in its place.
//!
//! A session of an HTTP source ([`Source::calls`], [`Source::pages`]) has one statement, which is prepared and executed as 2 to 4 have it. One
//! with calls for its rows ([`http::per_row`]) is told between 2 and 3 of which statement they are: [`Session::call_per_row`].
//!
//! A session may be dropped at any point: what still runs in the database is cancelled there, and the connection goes
//! back to the pool once the database has said that it is ready, or is closed. All statements of a session that was
//! acquired with a snapshot read the same state of the data.

mod settings;

pub use settings::{ChosenBy, Kind, SourceConfig};

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use rowstream_encode::{Column, RowWriter};
use tokio::sync::OwnedSemaphorePermit;

use crate::Error;
use crate::database::{postgres, sqlite};
use crate::params::{BindType, ParamValue};
use crate::pool::{self, Errand, Patience, Waiter};
use crate::sql::Dialect;
use crate::upstream as http;

/// How many statements of a response must agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Snapshot {
    /// One statement, which is a snapshot by itself.
    Statement,
    /// Several: they read one snapshot, in one read-only transaction.
    Transaction,
}

/// A database or an HTTP service that rows come from, with its pool.
#[derive(Clone)]
pub enum Source {
    /// PostgreSQL, and what speaks its protocol.
    Postgres(postgres::Source),
    /// A SQLite file.
    Sqlite(sqlite::Source),
    /// An HTTP service.
    Http(http::Source),
}

impl Source {
    /// A source without open connections.
    ///
    /// # Errors
    /// The URL is not understood, or root certificates cannot be read.
    pub fn open(config: &SourceConfig) -> Result<Self, Error> {
        match &config.kind {
            Kind::Sql(Dialect::Postgres) => postgres::Source::open(config).map(Self::Postgres),
            Kind::Sql(Dialect::Sqlite) => sqlite::Source::open(config).map(Self::Sqlite),
            Kind::Http(settings) => http::Source::open(config, settings).map(Self::Http),
        }
    }

    /// Closes idle connections as they reach their `idle_timeout`, for as long as the source is used.
    pub fn reap(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        match self {
            Self::Postgres(source) => Box::pin(source.reap()),
            Self::Sqlite(source) => Box::pin(source.reap()),
            Self::Http(source) => Box::pin(source.reap()),
        }
    }

    /// What asks whether it can be reached. `None`: that is no matter of this server, whose other replicas would not reach it either.
    pub fn probe(&self) -> Option<Probe> {
        match self {
            Self::Postgres(source) => Some(Probe::Postgres(Box::new(source.probe()))),
            Self::Sqlite(source) => Some(Probe::Sqlite(source.probe())),
            Self::Http(_) => None,
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        match self {
            Self::Postgres(source) => source.name(),
            Self::Sqlite(source) => source.name(),
            Self::Http(source) => source.name(),
        }
    }

    /// What is known of its pool.
    pub(crate) fn pool_stats(&self) -> pool::Stats {
        match self {
            Self::Postgres(source) => source.pool_stats(),
            Self::Sqlite(source) => source.pool_stats(),
            Self::Http(source) => source.pool_stats(),
        }
    }

    /// What is known of each of its hosts; of none, where it has no such.
    pub(crate) fn host_stats(&self) -> Vec<http::HostStats> {
        match self {
            Self::Postgres(_) | Self::Sqlite(_) => Vec::new(),
            Self::Http(source) => source.host_stats(),
        }
    }

    /// Says that a connection is about to be given up for one of the requests that wait, as
    /// [`Pool::vacate`](crate::pool::Pool::vacate) does. Never for an HTTP service, where no
    /// request holds up the others for long.
    pub(crate) fn vacate(&self) -> Option<pool::Vacating> {
        match self {
            Self::Postgres(source) => source.vacate(),
            Self::Sqlite(source) => source.vacate(),
            Self::Http(_) => None,
        }
    }

    /// How many look-ups are on their way on shared connections; `None` where the source shares none.
    pub(crate) fn look_ups(&self) -> Option<usize> {
        match self {
            Self::Postgres(source) => Some(source.look_ups()),
            Self::Sqlite(_) | Self::Http(_) => None,
        }
    }

    /// Keeps places of the pool for look-ups, or none where nobody asks for `any`: lists leave them
    /// free.
    pub(crate) fn keep_for_look_ups(&self, any: bool) {
        match self {
            Self::Postgres(source) => source.keep_for_look_ups(any),
            Self::Sqlite(source) => source.keep_for_look_ups(any),
            Self::Http(_) => {}
        }
    }

    /// Asks `statement`, which answers with one row at most, on a connection that is shared with other look-ups; it then has its
    /// rows, and holds no connection. `None`: it has to be asked on a connection of its own, because it has not been prepared
    /// yet, or takes long, or types may have been altered, or the source does not share.
    ///
    /// # Errors
    /// What the database says of the statement; 503 when too many look-ups are on their way.
    pub async fn look_up(
        &self,
        statement: &Statement,
        args: &[&ParamValue],
        patience: Patience<'_>,
    ) -> Result<Option<Session>, Error> {
        match self {
            Self::Postgres(source) => {
                Ok(source.look_up(statement, args, patience).await?.map(Session::Answer))
            }
            Self::Sqlite(_) | Self::Http(_) => Ok(None),
        }
    }

    /// What tells that rows may have been committed: by a notification on `channel`, or when it is asked, `every` so often. It has a
    /// connection of its own, beside the pool.
    ///
    /// # Errors
    /// 503: the database cannot be reached, or does not let its channel be listened to.
    pub async fn changes(&self, channel: Option<&str>, every: Duration) -> Result<Changes, Error> {
        match self {
            Self::Postgres(source) => source.changes(channel, every).await.map(Changes::Postgres),
            Self::Sqlite(source) => source.changes(every).await.map(Changes::Sqlite),
            Self::Http(source) => Err(no_statements(source.name())),
        }
    }

    /// Waits for the turn of one that has time to [`acquire`](Self::acquire) a connection; see [`Pool::turn`](crate::pool::Pool::turn).
    pub async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        match self {
            Self::Postgres(source) => source.turn().await,
            Self::Sqlite(source) => source.turn().await,
            Self::Http(source) => source.turn().await,
        }
    }

    /// How long a request waits for a connection.
    pub fn acquire_timeout(&self) -> Duration {
        match self {
            Self::Postgres(source) => source.acquire_timeout(),
            Self::Sqlite(source) => source.acquire_timeout(),
            Self::Http(source) => source.acquire_timeout(),
        }
    }

    /// Waits for a connection and makes it ready.
    ///
    /// # Errors
    /// The pool's (503, 504), or 503 when the database cannot be reached.
    pub async fn acquire(&self, snapshot: Snapshot, errand: Errand) -> Result<Session, Error> {
        self.acquire_for(snapshot, errand, Waiter::default().begin()).await
    }

    /// The same for somebody who may have waited already.
    ///
    /// # Errors
    /// The same.
    pub async fn acquire_for(
        &self,
        snapshot: Snapshot,
        errand: Errand,
        patience: Patience<'_>,
    ) -> Result<Session, Error> {
        match self {
            Self::Postgres(source) => source.acquire(snapshot, errand, patience).await.map(Session::Postgres),
            Self::Sqlite(source) => source.acquire(snapshot, errand, patience).await.map(Session::Sqlite),
            Self::Http(source) => Err(no_statements(source.name())),
        }
    }

    /// Connects, to see whether that can be done.
    ///
    /// # Errors
    /// The pool's, or 503 when it cannot.
    pub async fn reach(&self) -> Result<(), Error> {
        match self {
            Self::Http(source) => source.reach().await,
            Self::Postgres(_) | Self::Sqlite(_) => {
                self.acquire(Snapshot::Statement, Errand::LookUp).await.map(drop)
            }
        }
    }

    /// The calls of a response, of an HTTP service. None is made yet.
    ///
    /// # Errors
    /// It is a database.
    pub fn calls(&self, calls: &Arc<http::calls::Calls>) -> Result<Session, Error> {
        self.http().map(|source| Session::Http(Box::new(http::calls::Session::new(source, calls))))
    }

    /// The pages of a response, of an HTTP service. None is asked for yet.
    ///
    /// # Errors
    /// It is a database.
    pub fn pages(&self, pages: &Arc<http::pages::Pages>) -> Result<Session, Error> {
        self.http().map(|source| Session::Pages(Box::new(http::pages::Session::new(source, pages))))
    }

    /// The HTTP service.
    ///
    /// # Errors
    /// It is a database.
    pub fn http(&self) -> Result<&http::Source, Error> {
        match self {
            Self::Http(source) => Ok(source),
            Self::Postgres(_) | Self::Sqlite(_) => Err(Error::endpoint("this source is no HTTP service")),
        }
    }
}

/// What tells that rows may have been committed.
#[allow(clippy::large_enum_variant, reason = "one per endpoint that is followed")]
pub enum Changes {
    /// In a PostgreSQL database.
    Postgres(postgres::Changes),
    /// In a SQLite file.
    Sqlite(sqlite::Changes),
}

impl Changes {
    /// Waits until rows may have been committed since the call before; the first one returns at once. A call that is dropped is to be
    /// the last.
    ///
    /// # Errors
    /// The database cannot be asked any more.
    pub async fn next(&mut self) -> Result<(), Error> {
        match self {
            Self::Postgres(changes) => changes.next().await,
            Self::Sqlite(changes) => changes.next().await,
        }
    }

    /// Whether no other connection can tell what this one cannot any more: that of a file that was
    /// replaced would be to another one.
    pub(crate) fn is_lost_for_good(&self) -> bool {
        matches!(self, Self::Sqlite(_))
    }
}

/// Asks whether a source can be reached, on a connection beside those of its pool: that all of them are taken is no reason to say
/// that it cannot.
pub enum Probe {
    /// A PostgreSQL connection that is kept.
    Postgres(Box<postgres::Probe>),
    /// A SQLite file that is opened.
    Sqlite(sqlite::Probe),
}

impl Probe {
    /// Asks. May be dropped at any point, and asked again.
    ///
    /// # Errors
    /// Why it cannot be reached, with the name of the source.
    pub async fn ask(&mut self) -> Result<(), Error> {
        match self {
            Self::Postgres(probe) => probe.ask().await,
            Self::Sqlite(probe) => probe.ask().await,
        }
    }
}

/// One connection of a source, held by one response; of an HTTP service, its requests.
#[allow(
    clippy::large_enum_variant,
    reason = "one per response, which is boxed as a whole; the difference is near the limit"
)]
pub enum Session {
    /// A PostgreSQL connection.
    Postgres(postgres::Session),
    /// The rows of a look-up in PostgreSQL, which have come: a connection no longer.
    Answer(postgres::Answer),
    /// A SQLite connection on its own thread.
    Sqlite(sqlite::Session),
    /// The requests to an HTTP service.
    Http(Box<http::calls::Session>),
    /// The pages of a list of one.
    Pages(Box<http::pages::Session>),
    /// One of the others, with calls for the rows of one of its statements.
    PerRow(Box<http::per_row::Session>),
}

impl Session {
    /// Has calls made for each row of the prepared statement `index`, and tells the columns of its rows then. The last `keys` columns of
    /// the statement itself are those of a key, and stay the last.
    ///
    /// # Errors
    /// The calls do not fit the columns.
    pub fn call_per_row(&mut self, index: usize, keys: usize) -> Result<Arc<[Column]>, Error> {
        match self {
            Self::PerRow(session) => session.call_per_row(index, keys),
            Self::Postgres(_) | Self::Answer(_) | Self::Sqlite(_) | Self::Http(_) | Self::Pages(_) => {
                Err(Error::protocol("this session makes no calls for rows"))
            }
        }
    }

    /// Whether it was let into its pool, and has had no place there yet.
    pub(crate) fn waits_for_place(&self) -> bool {
        match self {
            Self::Http(session) => session.waits_for_place(),
            Self::Pages(session) => session.waits_for_place(),
            Self::Postgres(_) | Self::Answer(_) | Self::Sqlite(_) | Self::PerRow(_) => false,
        }
    }

    /// Whether a connection of the pool is in use for it.
    pub(crate) fn holds_connection(&self) -> bool {
        match self {
            Self::Postgres(_) | Self::Sqlite(_) | Self::Http(_) | Self::Pages(_) => true,
            Self::PerRow(session) => session.holds_connection(),
            Self::Answer(_) => false,
        }
    }

    /// Prepares the next statement and tells its columns. The first one is 0 for [`Session::execute`], and so on.
    ///
    /// # Errors
    /// What the database says of the statement, with the place in its text where known.
    pub async fn prepare(&mut self, statement: &Statement) -> Result<Arc<[Column]>, Error> {
        match self {
            Self::Postgres(session) => session.prepare(statement).await,
            Self::Answer(answer) => Ok(answer.columns()),
            Self::Sqlite(session) => session.prepare(statement).await,
            Self::Http(session) => Ok(session.columns()),
            Self::Pages(session) => Ok(session.columns()),
            Self::PerRow(session) => session.prepare(statement).await,
        }
    }

    /// The columns of the prepared statement `index` that are refcursors: names of cursors, whose rows are read in the place of its
    /// own.
    pub fn refcursors(&self, index: usize) -> &[usize] {
        match self {
            Self::Postgres(session) => session.refcursors(index),
            Self::Answer(_) | Self::Sqlite(_) | Self::Http(_) | Self::Pages(_) | Self::PerRow(_) => &[],
        }
    }

    /// Runs the prepared statement `index`, which opens refcursors, in the transaction of all that is executed later. Tells the names
    /// in its rows by column: two rows at most, of which the second is only the proof that there is one too many.
    ///
    /// # Errors
    /// The statement failed, or the connection did.
    pub async fn call(
        &mut self,
        index: usize,
        args: &[&ParamValue],
    ) -> Result<Vec<Vec<Option<String>>>, Error> {
        match self {
            Self::Postgres(session) => session.call(index, args).await,
            Self::Answer(_) | Self::Sqlite(_) | Self::Http(_) | Self::Pages(_) | Self::PerRow(_) => {
                Ok(Vec::new())
            }
        }
    }

    /// Has [`Session::execute`] read the cursor `name` where it would run the statement `index`, and tells the columns of its rows,
    /// which may be others at each call.
    ///
    /// # Errors
    /// There is no such cursor, or the connection failed.
    pub async fn open_refcursor(&mut self, index: usize, name: &str) -> Result<Arc<[Column]>, Error> {
        match self {
            Self::Postgres(session) => session.open_refcursor(index, name).await,
            Self::Answer(_) | Self::Sqlite(_) | Self::Http(_) | Self::Pages(_) | Self::PerRow(_) => {
                Err(Error::protocol("this source has no refcursors"))
            }
        }
    }

    /// Starts the prepared statement `index` with `args` in the order of its placeholders. Does no I/O: the first
    /// [`Session::poll_row`] does, and reports what fails. The statement before must have yielded its last row.
    pub fn execute(&mut self, index: usize, args: &[&ParamValue]) {
        match self {
            Self::Postgres(session) => session.execute(index, args),
            Self::Answer(_) => {}
            Self::Sqlite(session) => session.execute(index, args),
            Self::Http(session) => session.execute(args),
            Self::Pages(session) => session.execute(args),
            Self::PerRow(session) => session.execute(index, args),
        }
    }

    /// Starts several prepared statements at once, each by its index and arguments, of a session that was acquired with
    /// [`Snapshot::Transaction`]. Does no I/O, as [`Session::execute`].
    pub fn execute_together(&mut self, runs: &[(usize, Vec<&ParamValue>)]) {
        match self {
            Self::Postgres(session) => session.execute_together(runs),
            Self::Answer(_) | Self::Http(_) | Self::Pages(_) | Self::PerRow(_) => {}
            Self::Sqlite(session) => session.execute_together(runs),
        }
    }

    /// The next row of the statement that was the `which`th of [`Session::execute_together`], lent until the next call; `None` after
    /// its last one, and from then on. Rows of the others that come meanwhile are held, a portion of each at most.
    ///
    /// # Errors
    /// One of the statements failed, or the connection did. Nothing may be polled after an error.
    #[inline]
    pub fn poll_row_of(
        &mut self,
        which: usize,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Row<'_>>, Error>> {
        match self {
            Self::Postgres(session) => session.poll_row_of(which, cx).map_ok(|row| row.map(Row::Postgres)),
            Self::Answer(_) | Self::Http(_) | Self::Pages(_) | Self::PerRow(_) => {
                Poll::Ready(Err(Error::protocol("this session has none that are read by turns")))
            }
            Self::Sqlite(session) => session.poll_row_of(which, cx).map_ok(|row| row.map(Row::Sqlite)),
        }
    }

    /// The next row, lent until the next call; `None` after the last one.
    ///
    /// # Errors
    /// The statement failed, or the connection did. Nothing may be polled after an error.
    #[inline]
    pub fn poll_row(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Row<'_>>, Error>> {
        match self {
            Self::Postgres(session) => session.poll_row(cx).map_ok(|row| row.map(Row::Postgres)),
            Self::Answer(answer) => Poll::Ready(Ok(answer.next_row().map(Row::Postgres))),
            Self::Sqlite(session) => session.poll_row(cx).map_ok(|row| row.map(Row::Sqlite)),
            Self::Http(session) => session.poll_row(cx).map_ok(|row| row.map(Row::Http)),
            Self::Pages(session) => session.poll_row(cx).map_ok(|row| row.map(Row::Page)),
            Self::PerRow(session) => session.poll_row(cx),
        }
    }
}

#[cold]
fn no_statements(source: &str) -> Error {
    Error::endpoint(format!("source `{source}` is an HTTP service and takes no statements"))
}

/// A statement as a source takes it.
#[derive(Debug, Clone)]
pub struct Statement {
    /// The text with the source's own placeholders (`$1`, `?1`).
    pub sql: Arc<str>,
    /// The declared type of each placeholder, for sources that cannot infer it; PostgreSQL infers those that are not here.
    pub types: Vec<BindType>,
}

/// One row, lent by its source.
pub enum Row<'a> {
    /// A DataRow in the connection's read buffer.
    Postgres(postgres::Row<'a>),
    /// A row in the batch that the SQLite thread handed over.
    Sqlite(sqlite::Row<'a>),
    /// The reply to a request.
    Http(http::calls::Row<'a>),
    /// An element of a list in a reply.
    Page(http::pages::Row<'a>),
    /// The copy of a row, with what calls for it have said.
    PerRow(http::per_row::Row<'a>),
}

impl Row<'_> {
    /// Writes the row's values to `out`.
    ///
    /// # Errors
    /// A value that cannot be decoded; `out` then ends in half a row, which the caller removes.
    #[inline]
    pub fn encode(self, encoder: &mut impl RowWriter, out: &mut Vec<u8>) -> Result<(), Error> {
        match self {
            Self::Postgres(row) => row.encode(encoder, out),
            Self::Sqlite(row) => row.encode(encoder, out),
            Self::Http(row) => {
                row.encode(encoder, out);
                Ok(())
            }
            Self::Page(row) => row.encode(encoder, out),
            Self::PerRow(row) => row.encode(encoder, out),
        }
    }

    /// What a statement's rows are read by once they are copies; `None` for rows that are none of a statement's own.
    pub(crate) fn layout(&self) -> Option<Layout> {
        match self {
            Self::Postgres(row) => Some(Layout::Postgres(row.layout())),
            Self::Sqlite(row) => Some(Layout::Sqlite(row.layout())),
            Self::Http(_) | Self::Page(_) | Self::PerRow(_) => None,
        }
    }

    /// What a copy of it holds.
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Postgres(row) => row.bytes(),
            Self::Sqlite(row) => row.bytes(),
            Self::Http(_) | Self::Page(_) | Self::PerRow(_) => &[],
        }
    }
}

/// What rows are read by that were copied, so that they outlive the poll that lent them.
pub(crate) enum Layout {
    /// Those of PostgreSQL.
    Postgres(postgres::Layout),
    /// Those of SQLite.
    Sqlite(sqlite::Layout),
}

impl Layout {
    /// The row of these bytes.
    pub(crate) fn row<'a>(&'a mut self, bytes: &'a [u8]) -> Row<'a> {
        match self {
            Self::Postgres(layout) => Row::Postgres(layout.row(bytes)),
            Self::Sqlite(layout) => Row::Sqlite(layout.row(bytes)),
        }
    }
}
