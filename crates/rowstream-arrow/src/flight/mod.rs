//! Arrow Flight SQL: gRPC over HTTP/2, whose messages contain record batches.
//!
//! The gRPC calls are our own ([`grpc`]), on top of the h2 library. The session polls the
//! connection and its streams itself. So the server can't send more than the windows that we set,
//! until we read. Everything received is checked: an impossible length, order or end is an error of
//! the stream. Rows are built by [`crate::arrow_rows`].
//!
//! | file | contents |
//! |---|---|
//! | [`dialect`] | the SQL that these servers have in common, as data |
//! | [`url`] | `flightsql://…`: the server, the login, and the locations that we follow |
//! | [`message`] | the messages of Flight and Flight SQL |
//! | [`grpc`] | a call: its messages, and how its answer ends |
//! | [`connection`] | TLS, HTTP/2 and the login |
//! | [`session`] | the state machine of one response: prepare, bind, ask, read, recycle |
//! | [`reading`] | the endpoints of a statement, read in parallel |
//! | [`error`] | failures, and the [`Error`] that users see |
//!
//! The module writes nothing, reads no catalog, and follows only the locations that the URL allows.

mod connection;
mod dialect;
mod error;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod grpc;
mod message;
mod reading;
mod session;
mod url;

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use arrow_schema::Schema;
use rowstream_core::Error;
use rowstream_core::lock::Mutex;
use rowstream_core::params::ParamValue;
use rowstream_core::pool::{Patience, Pool, Priority};
use rowstream_core::settings::SourceSettings;
use rowstream_core::sql::Dialect;
use rowstream_database::statements::Statements;
use rowstream_database::{
    Batch, Database, DatabaseSession, NoAnswer, NoChanges, NoParts, OwnSetting, Ping, Sizes, Snapshot,
    Statement, login, password_command,
};
use rowstream_encode::Column;

use self::connection::{Connector, FlightConnection};

pub use self::session::Session;
pub use crate::arrow_rows::{Layout, Row};

/// The number of endpoints of a statement that are read in parallel.
const PARALLEL: usize = 4;
/// The bytes that a server can send for an endpoint before we read any of them.
const WINDOW: usize = 1 << 20;
/// The longest message, unless a row may be longer. gRPC's own clients have the same default.
const MESSAGE: usize = 4 << 20;
/// The largest block of LZ4. It's decoded whole, even if its buffer claims to be shorter.
const BLOCK: usize = 8 << 20;

/// A server of Arrow Flight SQL with its pool.
#[derive(Clone)]
pub struct Source(Arc<SourceState>);

/// The parts of a source that all its connections share.
struct SourceState {
    name: String,
    connector: Arc<Connector>,
    pool: Pool<FlightConnection>,
    max_row: usize,
    /// The columns of statements that the server doesn't prepare.
    described: Mutex<Statements<Arc<str>, session::StatementColumns>>,
}

impl Database for Source {
    type Connection = FlightConnection;
    type Session = Session;
    type Answer = NoAnswer<Session>;
    type Parts = NoParts<Session>;
    type Changes = NoChanges;
    type Probe = Probe;

    const DIALECT: &'static Dialect = &dialect::DIALECT;
    const SIZES: Sizes = Sizes {
        // Frames of HTTP/2 and TLS.
        idle: 128 * 1024,
        // Unread bytes, a message and its batch, a block of LZ4, and the packed row.
        session: |settings| {
            let row = settings.max_row_bytes;
            PARALLEL * WINDOW + 2 * MESSAGE.max(row) + BLOCK + row
        },
        portion: |row| row,
    };
    const SETTINGS: &'static [OwnSetting] = &[password_command::SETTING];

    fn open(settings: &SourceSettings) -> Result<Self, Error> {
        Ok(Self(Arc::new(SourceState {
            name: settings.name.clone(),
            connector: Arc::new(Connector::new(settings)?),
            pool: Pool::new(&settings.name, settings.pool.clone()),
            max_row: settings.max_row_bytes,
            described: Mutex::new(Statements::new(settings.statement_cache)),
        })))
    }

    fn name(&self) -> &str {
        &self.0.name
    }

    fn pool(&self) -> &Pool<FlightConnection> {
        &self.0.pool
    }

    fn probe(&self) -> Probe {
        Probe { shared: Arc::clone(&self.0), connection: None }
    }

    async fn acquire(
        &self,
        _snapshot: Snapshot,
        priority: Priority,
        patience: Patience<'_>,
    ) -> Result<Session, Error> {
        let place = self.0.pool.acquire(priority, patience).await?;
        let connector = &self.0.connector;
        let connection = login::reuse_or_open(&place, &self.0.name, || connector.connect()).await?;
        Ok(Session::new(Arc::clone(&self.0), place, connection))
    }

    async fn changes(&self, _channel: Option<&str>, _every: Duration) -> Result<NoChanges, Error> {
        Err(Error::endpoint("a source of Arrow Flight SQL has no live tail"))
    }
}

impl DatabaseSession for Session {
    type Row<'a> = Row<'a>;

    async fn prepare(&mut self, statement: &Statement) -> Result<Arc<[Column]>, Error> {
        self.prepare(statement).await
    }

    async fn let_go(&mut self) {
        self.let_go().await;
    }

    fn execute(&mut self, index: usize, args: &[&ParamValue]) {
        self.execute(index, args);
    }

    #[inline]
    fn poll_row(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Row<'_>>, Error>> {
        self.poll_row(cx)
    }

    fn as_batches(&mut self, index: usize, columns: usize) -> Option<Schema> {
        self.as_batches(index, columns)
    }

    fn poll_batch(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Batch<'_, Row<'_>>>, Error>> {
        self.poll_batch(cx)
    }

    fn execute_interleaved(&mut self, _runs: &[(usize, Vec<&ParamValue>)]) {}

    fn poll_row_of(&mut self, _which: usize, _cx: &mut Context<'_>) -> Poll<Result<Option<Row<'_>>, Error>> {
        Poll::Ready(Err(Error::endpoint("statements of Arrow Flight SQL are not interleaved")))
    }
}

/// Pings the server on a connection of its own.
pub struct Probe {
    shared: Arc<SourceState>,
    /// `None` before the first ping, during a ping, and after a failure.
    connection: Option<FlightConnection>,
}

impl Ping for Probe {
    async fn ask(&mut self) -> Result<(), Error> {
        if let Some(mut connection) = self.connection.take()
            && connection.ping().await.is_ok()
        {
            self.connection = Some(connection);
            return Ok(());
        }
        // The connection may be dead because the server has restarted.
        let connected = self.shared.connector.connect().await;
        self.connection = Some(connected.map_err(|cause| cause.of_source(&self.shared.name))?);
        Ok(())
    }
}
