//! MySQL and MariaDB, by their own protocol (version 10 of the greeting, 4.1 of the packets).
//!
//! The row path is our own. We frame packets in one reused read buffer ([`wire`]) and decode a row of
//! the binary protocol in place ([`value`]), so no row allocates. We check everything that the server
//! sends: an impossible length or count ends the stream with an error, and the connection with it.
//!
//! ```no_run
//! use rowstream_core::settings::SourceSettings;
//! use rowstream_database::Database as _;
//!
//! # async fn example() -> Result<(), rowstream_core::Error> {
//! let shop = rowstream_mysql::Source::open(&SourceSettings::new("shop", "mysql://reader@db.example.com/shop"))?;
//! for host in shop.inspect().await {
//!     println!("{}: {:?}", host.name, host.said);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! [`rowstream_database`] shows how rows are read.
//!
//! | file | contents |
//! |---|---|
//! | [`dialect`] | their SQL, as data |
//! | [`url`] | `mysql://…` to connection settings |
//! | [`wire`] | the framing of packets; long ones are joined |
//! | [`packet`] | the contents of packets: greetings, errors, columns |
//! | [`connect`] | TLS, authentication, session settings, KILL QUERY |
//! | [`statement`], [`bind`] | prepared statements and their cache; arguments |
//! | [`routines`] | the effects of functions and views on a session |
//! | [`answer`], [`preparing`] | the answer to a command, packet by packet |
//! | [`session`] | the state machine of one response: execute, rows, recycling; interleaved statements; rows of procedures |
//! | [`mod@pipeline`] | lookups of many requests on one connection: packets and answers |
//! | [`value`] | rows to [`Value`](rowstream_encode::Value)s |
//! | [`changes`], [`probe`] | a timer for possible new rows; a check that the database can be reached |
//! | [`look`] | the description of a server: version, role, lag |
//! | [`error`] | ERR packets to [`Error`] |

mod answer;
mod bind;
mod changes;
mod connect;
mod dialect;
mod error;
mod estimate;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod look;
mod packet;
mod pipeline;
mod preparing;
mod probe;
mod routines;
mod session;
mod statement;
mod url;
mod value;
mod wire;

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use rowstream_core::Error;
use rowstream_core::params::ParamValue;
use rowstream_core::pool::{Lease, Patience, Pool, Priority};
use rowstream_core::settings::SourceSettings;
use rowstream_core::sql::Dialect;
use rowstream_encode::Column;

use connect::Connection;
use routines::Routines;
use rowstream_database::pipeline::{PATIENCE, Pipelines};
use rowstream_database::{
    Database, DatabaseSession, HostReport, LookupAnswer, NoParts, OwnSetting, ResultSet, RowSource,
    SharedLookups, Sizes, Snapshot, Statement, login, lookups, password_command, portions,
};
use statement::{Descriptions, StatementDescription};

pub use changes::Changes;
pub use dialect::DIALECT;
pub use probe::Probe;
pub use session::Session;
pub use value::Layout;
pub use value::Row;
use value::{BitEncoding, DecodeSettings};

/// A MySQL or MariaDB database with its pool.
#[derive(Clone)]
pub struct Source(Arc<SourceState>);

/// The state that all connections of a source share.
struct SourceState {
    name: String,
    connector: connect::Connector,
    pool: Pool<Connection>,
    statement_timeout: Option<Duration>,
    /// Rows per fetch of interleaved statements; for 0, the number depends on the rows' sizes.
    fetch_rows: i32,
    descriptions: Descriptions,
    routines: Routines,
    pipelines: Pipelines<pipeline::Peer>,
}

impl SourceState {
    /// The way to read the values of a statement. `computed_bits` says how the server sends its
    /// computed BITs.
    fn reading(&self, computed_bits: BitEncoding) -> DecodeSettings {
        DecodeSettings { zero_dates: self.connector.zero_dates(), computed_bits }
    }

    /// An idle connection of the pool, or a new one.
    async fn connect(&self, place: &Lease<Connection>) -> Result<Connection, Error> {
        login::reuse_or_open(place, &self.name, || self.connector.connect()).await
    }
}

impl Database for Source {
    type Connection = Connection;
    type Session = Session;
    type Answer = Answer;
    type Parts = NoParts<Session>;
    type Changes = Changes;
    type Probe = Probe;

    const DIALECT: &'static Dialect = &DIALECT;
    const SIZES: Sizes = Sizes {
        // Its buffers, and the descriptions of its prepared statements.
        idle: 2 * wire::BUFFER,
        // The commands to send, and the read buffer, which copies itself when it grows.
        session: |SourceSettings { max_row_bytes: row, .. }| 2 * wire::BUFFER + row.saturating_add(row / 2),
        portion: |row| portions::HELD_AT_MOST.max(row),
    };
    const SETTINGS: &'static [OwnSetting] = &[password_command::SETTING];

    const LOOKUP_PATIENCE: Option<Duration> = Some(PATIENCE);

    fn open(settings: &SourceSettings) -> Result<Self, Error> {
        Ok(Self(Arc::new(SourceState {
            name: settings.name.clone(),
            connector: connect::Connector::new(settings)?,
            pool: Pool::new(&settings.name, settings.pool.clone()),
            statement_timeout: settings.statement_timeout,
            fetch_rows: i32::try_from(settings.fetch_rows).unwrap_or(i32::MAX),
            descriptions: Descriptions::default(),
            routines: Routines::default(),
            pipelines: Pipelines::new(&settings.pool),
        })))
    }

    fn name(&self) -> &str {
        &self.0.name
    }

    fn pool(&self) -> &Pool<Connection> {
        &self.0.pool
    }

    fn probe(&self) -> Probe {
        Probe::new(Arc::clone(&self.0))
    }

    async fn acquire(
        &self,
        snapshot: Snapshot,
        priority: Priority,
        patience: Patience<'_>,
    ) -> Result<Session, Error> {
        let place = self.0.pool.acquire(priority, patience).await?;
        let connection = self.0.connect(&place).await?;
        Ok(Session::new(Arc::clone(&self.0), place, connection, snapshot))
    }

    async fn inspect(&self) -> Vec<HostReport> {
        let connector = &self.0.connector;
        let said = connector.inspect().await.map_err(|cause| cause.of_source(&self.0.name));
        vec![HostReport { name: connector.address(), said }]
    }

    async fn changes(&self, _channel: Option<&str>, every: Duration) -> Result<Changes, Error> {
        Ok(Changes::new(every))
    }

    async fn look_up(
        &self,
        statement: &Statement,
        args: &[&ParamValue],
        patience: Patience<'_>,
    ) -> Result<Option<Answer>, Error> {
        let described = self.0.descriptions.get(&statement.sql);
        let described = described.filter(|known| !known.is_call && !known.leaves_state());
        let Some(described) = described else { return Ok(None) };
        let rows = self.0.pipelines.look_up(&self.0, &described, args, patience).await?;
        Ok(rows.map(|rows| Answer { described, rows: rows.into_iter(), row: None, scratch: Vec::new() }))
    }

    fn lookups(&self) -> Option<SharedLookups> {
        Some(self.0.pipelines.seen())
    }

    fn shared(max: usize) -> usize {
        lookups::connections(max)
    }
}

/// The rows of a lookup. All have arrived.
pub struct Answer {
    described: Arc<StatementDescription>,
    rows: std::vec::IntoIter<Box<[u8]>>,
    row: Option<Box<[u8]>>,
    scratch: Vec<u8>,
}

impl LookupAnswer for Answer {
    type Row<'a> = Row<'a>;

    fn columns(&self) -> Arc<[Column]> {
        Arc::clone(&self.described.columns)
    }

    fn next_row(&mut self) -> Option<Row<'_>> {
        self.row = self.rows.next();
        let StatementDescription { decoders, columns, .. } = &*self.described;
        self.row.as_deref().map(|data| Row { data, decoders, columns, scratch: &mut self.scratch })
    }
}

// The inherent methods of a session are in several files, by subject.
impl DatabaseSession for Session {
    type Row<'a> = Row<'a>;

    async fn prepare(&mut self, statement: &Statement) -> Result<Arc<[Column]>, Error> {
        self.prepare(statement).await
    }

    fn execute(&mut self, index: usize, args: &[&ParamValue]) {
        self.execute(index, args);
    }

    #[inline]
    fn poll_row(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Row<'_>>, Error>> {
        self.poll_row(cx)
    }

    fn execute_interleaved(&mut self, runs: &[(usize, Vec<&ParamValue>)]) {
        self.execute_interleaved(runs);
    }

    fn rows_of(&self, index: usize) -> RowSource<'_> {
        self.rows_of(index)
    }

    async fn call(&mut self, index: usize, args: &[&ParamValue]) -> Result<Vec<Vec<Option<String>>>, Error> {
        self.call_procedure(index, args);
        Ok(vec![Vec::new()])
    }

    fn poll_result(&mut self, result: ResultSet, cx: &mut Context<'_>) -> Poll<Result<Arc<[Column]>, Error>> {
        self.poll_result(result, cx)
    }

    #[inline]
    fn poll_row_of(&mut self, which: usize, cx: &mut Context<'_>) -> Poll<Result<Option<Row<'_>>, Error>> {
        self.poll_row_of(which, cx)
    }
}
