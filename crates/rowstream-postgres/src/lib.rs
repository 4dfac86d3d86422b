//! PostgreSQL, and other servers that speak its protocol (version 3.0).
//!
//! The row path is our own. We frame messages in one reused read buffer ([`wire`]) and decode a DataRow
//! in place ([`value`]), so no row allocates. We check everything that the server sends: an impossible
//! length or count ends the stream with an error, and the connection with it.
//!
//! ```no_run
//! use rowstream_core::settings::SourceSettings;
//! use rowstream_database::Database as _;
//!
//! # async fn example() -> Result<(), rowstream_core::Error> {
//! let shop = rowstream_postgres::Source::open(&SourceSettings::new("shop", "postgres://reader@db.example.com/shop"))?;
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
//! | [`dialect`] | PostgreSQL's SQL, as data |
//! | [`settings`] | the settings of a source that not every database has |
//! | [`url`], [`libpq`] | `postgres://…`, and libpq's variables and files, to connection settings |
//! | [`wire`] | the framing of messages |
//! | [`hosts`] | the choice of a host for a connection |
//! | [`connect`] | start-up, authentication, session settings, cancel requests |
//! | [`statement`] | prepared statements and their cache |
//! | [`types`] | the types that we know, and the decoder of each column |
//! | [`session`] | the state machine of one response |
//! | [`actor`] | the role of a request, and the claims of its token |
//! | [`mod@pipeline`] | lookups of many requests on one connection: messages and replies |
//! | [`waits`] | the transactions that live tails wait for |
//! | [`changes`] | a poller that reports possible new rows |
//! | [`value`], [`text`] | field bytes to [`Value`](rowstream_encode::Value)s |
//! | [`probe`] | a check that the database can be reached |
//! | [`nested`], [`mod@array`], [`composite`], [`hstore`], [`interval`] | text with values in it, to JSON |
//! | [`error`] | `ErrorResponse` to [`Error`] |

mod actor;
mod array;
mod changes;
mod composite;
mod connect;
mod dialect;
mod error;
mod estimate;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod hosts;
mod hstore;
mod interval;
mod libpq;
mod nested;
mod pipeline;
mod probe;
mod session;
mod settings;
mod statement;
mod text;
mod types;
mod url;
mod value;
mod waits;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use rowstream_core::Error;
use rowstream_core::client::Client;
use rowstream_core::params::ParamValue;
use rowstream_core::pool::{HostStats, Lease, Patience, Pool, Priority};
use rowstream_core::settings::SourceSettings;
use rowstream_core::sql::Dialect;
use rowstream_database::pipeline::{PATIENCE, Pipelines};
use rowstream_database::{
    Actor, Database, HostReport, LookupAnswer, OwnSetting, PartsRequest, SharedLookups, Sizes, Snapshot,
    Statement, lookups, portions,
};
use rowstream_encode::Column;

use self::waits::Waits;
use connect::Connection;
use hosts::Hosts;
use session::{Functions, Snapshots};
use statement::{Descriptions, StatementDescription};
use types::Types;

pub use changes::Changes;
pub use dialect::DIALECT;
pub use probe::Probe;
pub use session::{Parts, Session};
pub use value::Layout;
pub use value::Row;

/// A PostgreSQL database with its pool, and the actor of its statements. Without an actor, they run
/// as the source's user.
#[derive(Clone)]
pub struct Source(Arc<SourceState>, Option<Arc<Actor>>);

/// The state that all connections of a source share.
struct SourceState {
    name: String,
    hosts: Hosts,
    pool: Pool<Connection>,
    statement_timeout: Option<Duration>,
    /// Rows per fetch; 0 fetches all rows at once.
    fetch_rows: i32,
    types: Types,
    descriptions: Descriptions,
    functions: Functions,
    pipelines: Pipelines<pipeline::Peer>,
    snapshots: Snapshots,
    waits: Arc<Waits>,
}

impl SourceState {
    /// Makes every connection prepare its statements again, because one that was described with this
    /// version of the types is outdated.
    fn outdate(&self, version: u64) {
        self.descriptions.forget_sent();
        self.types.outdate(version);
    }

    /// Waits for a slot, and takes an idle connection or opens one.
    async fn connection(
        &self,
        priority: Priority,
        patience: Patience<'_>,
    ) -> Result<(Lease<Connection>, Connection), Error> {
        let place = self.pool.acquire(priority, patience).await?;
        let connection = self.hosts.connection(Some(&place)).await?;
        Ok((place, connection))
    }
}

impl Source {
    /// A further session for a response that has one already, if a connection is free at once.
    pub async fn another(self, priority: Priority, client: Client) -> Option<Session> {
        let place = self.0.pool.try_acquire_at(&(), priority, client)?;
        let mut connection = self.0.hosts.connection(Some(&place)).await.ok()?;
        self.learn_role(&mut connection).await.ok()?;
        Some(Session::new(self.0, place, connection, Snapshot::Transaction, self.1))
    }

    /// Makes a connection learn the settings of its role. If the server stays silent, this fails
    /// with the same time limit as a statement.
    async fn learn_role(&self, connection: &mut Connection) -> Result<(), Error> {
        match &self.1 {
            // Boxed, because otherwise every request would reserve memory that few need.
            Some(actor) => {
                connection.wire.expect_within(self.0.statement_timeout);
                Box::pin(connection.learn_role(actor.role())).await
            }
            None => Ok(()),
        }
    }
}

impl Database for Source {
    type Connection = Connection;
    type Session = Session;
    type Answer = Answer;
    type Parts = Parts;
    type Changes = Changes;
    type Probe = Probe;

    const DIALECT: &'static Dialect = &DIALECT;
    const SIZES: Sizes = Sizes {
        // Its buffers, and the names of its prepared statements.
        idle: 2 * wire::BUFFER,
        // The messages to send, and the read buffer, which copies itself when it grows.
        session: |SourceSettings { max_row_bytes: row, .. }| 2 * wire::BUFFER + row.saturating_add(row / 2),
        portion: |row| portions::HELD_AT_MOST.max(row),
    };

    const SETTINGS: &'static [OwnSetting] = settings::OWN;
    const LOOKUP_PATIENCE: Option<Duration> = Some(PATIENCE);

    fn open(settings: &SourceSettings) -> Result<Self, Error> {
        Ok(Self(
            Arc::new(SourceState {
                name: settings.name.clone(),
                hosts: Hosts::new(settings)?,
                pool: Pool::new(&settings.name, settings.pool.clone()),
                statement_timeout: settings.statement_timeout,
                fetch_rows: i32::try_from(settings.fetch_rows).unwrap_or(i32::MAX),
                types: Types::default(),
                descriptions: Descriptions::default(),
                functions: Functions::default(),
                pipelines: Pipelines::new(&settings.pool),
                snapshots: Snapshots::new(settings.pool.max),
                waits: Arc::default(),
            }),
            None,
        ))
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
        let (place, mut connection) = self.0.connection(priority, patience).await?;
        if let Some(name) = &connection.other
            && (snapshot == Snapshot::Transaction || self.1.is_some() || self.0.fetch_rows > 0)
        {
            let error = no_transaction(name);
            place.give_back(connection);
            return Err(error);
        }
        self.learn_role(&mut connection).await?;
        Ok(Session::new(Arc::clone(&self.0), place, connection, snapshot, self.1.clone()))
    }

    async fn acquire_parts(
        &self,
        read: PartsRequest<'_>,
        priority: Priority,
        patience: Patience<'_>,
    ) -> Result<Parts, Error> {
        match read {
            PartsRequest::All { table, most } => {
                let first = self.acquire(Snapshot::Transaction, priority, patience).await?;
                Parts::begin(first, self, priority, patience.client(), table, most).await
            }
            PartsRequest::Shard(read) => Parts::of_shard(self, read, priority, patience).await,
        }
    }

    fn acting(&self, actor: Arc<Actor>) -> Result<Self, Error> {
        Ok(Self(Arc::clone(&self.0), Some(actor)))
    }

    async fn changes(&self, channel: Option<&str>, every: Duration) -> Result<Changes, Error> {
        let connection = self.0.hosts.connection(None).await?;
        Changes::new(&self.0, connection, channel, every).await
    }

    async fn look_up(
        &self,
        statement: &Statement,
        args: &[&ParamValue],
        patience: Patience<'_>,
    ) -> Result<Option<Answer>, Error> {
        // A transaction of many requests has one role.
        if self.1.is_some() {
            return Ok(None);
        }
        let version = self.0.types.version();
        let described = self.0.descriptions.get(statement);
        let described = described.filter(|known| known.version == version && known.is_shareable);
        let Some(described) = described else { return Ok(None) };
        let rows = self.0.pipelines.look_up(&self.0, &described, args, patience).await?;
        Ok(rows.map(|rows| Answer { described, rows: rows.into_iter(), row: None, scratch: Vec::new() }))
    }

    fn forget_statements(&self) {
        self.0.outdate(self.0.types.version());
    }

    fn hosts(&self) -> usize {
        self.0.hosts.count()
    }

    fn host_stats(&self) -> Vec<HostStats> {
        self.0.hosts.stats()
    }

    fn watch(&self) -> impl Future<Output = ()> + Send + 'static {
        hosts::watch(Arc::downgrade(&self.0))
    }

    async fn inspect(&self) -> Vec<HostReport> {
        let said = self.0.hosts.inspect().await.into_iter();
        said.map(|(name, said)| HostReport { name, said }).collect()
    }

    fn longest_wait(&self) -> Option<Duration> {
        Some(self.0.waits.longest())
    }

    fn lookups(&self) -> Option<SharedLookups> {
        Some(self.0.pipelines.seen())
    }

    fn shared(max: usize) -> usize {
        lookups::connections(max)
    }
}

/// Refuses transactions on a server that isn't PostgreSQL, because it may not support them.
#[cold]
fn no_transaction(name: &str) -> Error {
    Error::endpoint(format!(
        "the server isn't PostgreSQL but `{name}`, so it gets no transactions that read one snapshot"
    ))
    .hint("write one statement per response, without nested ones; leave out `key`, `fetch_rows` and roles")
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
