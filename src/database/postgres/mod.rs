//! PostgreSQL, and what speaks its protocol (version 3.0).
//!
//! The row path is our own: messages are framed in one reused read buffer ([`wire`]), a DataRow is decoded in place
//! ([`value`]), and nothing is allocated per row. Everything that comes from the server is checked: a length or a
//! count that cannot be ends the stream with an error, and the connection with it.
//!
//! | file | what it holds |
//! |---|---|
//! | [`url`] | `postgres://…` to connection settings |
//! | [`socket`] | TCP, Unix socket or TLS as one stream |
//! | [`wire`] | the read buffer and the framing of messages |
//! | [`connect`] | start-up, authentication, session settings, cancel requests |
//! | [`statement`] | prepared statements and their cache |
//! | [`types`] | what is known of types, and the decoder chosen for each column |
//! | [`session`] | the state machine of one response: execute, rows, recycling; rows by turns, and of refcursors |
//! | [`pipeline`] | look-ups of many requests on one connection |
//! | [`changes`] | what tells that there may be new rows |
//! | [`value`], [`text`] | field bytes to [`Value`](rowstream_encode::Value)s |
//! | [`probe`] | whether the database can be reached |
//! | [`nested`], [`mod@array`], [`composite`], [`hstore`], [`interval`] | text that holds other values to JSON |
//! | [`error`] | `ErrorResponse` to [`Error`] |

mod array;
mod changes;
mod composite;
mod connect;
mod error;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod hstore;
mod interval;
mod nested;
pub(crate) mod pipeline;
mod probe;
mod session;
mod socket;
mod statement;
mod text;
mod types;
mod url;
mod value;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use rowstream_encode::Column;
use tokio::sync::OwnedSemaphorePermit;

use crate::Error;
use crate::params::ParamValue;
use crate::pool::{self, Errand, Kept, Patience, Place, Pool, Vacating};
use crate::source::SourceConfig;
use crate::source::{Snapshot, Statement};
use connect::Connection;
use pipeline::Pipelines;
use statement::{Described, Descriptions};
use types::Types;

pub use changes::Changes;
pub use probe::Probe;
pub use session::Session;
pub(crate) use value::Layout;
pub use value::Row;

/// A PostgreSQL database with its pool.
#[derive(Clone)]
pub struct Source(Arc<Shared>);

/// What all connections of a source share.
struct Shared {
    name: String,
    connector: connect::Connector,
    pool: Pool<Connection>,
    /// Rows per fetch; 0: all in one.
    fetch_rows: i32,
    types: Types,
    descriptions: Descriptions,
    pipelines: Pipelines,
}

impl Shared {
    /// Waits for a place, and takes an idle connection or opens one.
    async fn connection(
        &self,
        errand: Errand,
        patience: Patience<'_>,
    ) -> Result<(Place<Connection>, Connection), Error> {
        let place = self.pool.acquire(errand, patience).await?;
        let connection = self.connect(&place).await?;
        Ok((place, connection))
    }

    /// An idle connection of the pool, or a new one.
    async fn connect(&self, place: &Place<Connection>) -> Result<Connection, Error> {
        while let Some(mut connection) = place.take_idle_of(Connection::is_here) {
            if connection.is_alive()
                && let Ok(connection) = connection.move_here()
            {
                return Ok(connection);
            }
        }
        let connection = self.connector.connect().await.map_err(|cause| cause.of_source(&self.name))?;
        place.opened();
        Ok(connection)
    }
}

impl Source {
    /// A source without open connections; no I/O but reading the root certificates.
    ///
    /// # Errors
    /// The URL is not understood, or its certificates cannot be read.
    pub fn open(config: &SourceConfig) -> Result<Self, Error> {
        Ok(Self(Arc::new(Shared {
            name: config.name.clone(),
            connector: connect::Connector::new(config)?,
            pool: Pool::new(&config.name, config.pool.clone()),
            fetch_rows: i32::try_from(config.fetch_rows).unwrap_or(i32::MAX),
            types: Types::default(),
            descriptions: Descriptions::default(),
            pipelines: Pipelines::new(&config.pool),
        })))
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// See [`super::Source::probe`].
    pub fn probe(&self) -> Probe {
        Probe::new(Arc::clone(&self.0))
    }

    /// See [`super::Source::acquire`].
    ///
    /// # Errors
    /// The pool's, or 503 when the database cannot be reached.
    pub async fn acquire(
        &self,
        snapshot: Snapshot,
        errand: Errand,
        patience: Patience<'_>,
    ) -> Result<Session, Error> {
        let (place, connection) = self.0.connection(errand, patience).await?;
        Ok(Session::new(Arc::clone(&self.0), place, connection, snapshot))
    }

    /// See [`super::Source::look_up`].
    ///
    /// # Errors
    /// What the database says of the statement; 503 when too many look-ups are on their way.
    pub async fn look_up(
        &self,
        statement: &Statement,
        args: &[&ParamValue],
        patience: Patience<'_>,
    ) -> Result<Option<Answer>, Error> {
        if self.0.types.is_due() {
            return Ok(None);
        }
        let version = self.0.types.version();
        let described = self.0.descriptions.get(&statement.sql);
        let described = described.filter(|known| known.version == version && !known.has_refcursors);
        let Some(described) = described else { return Ok(None) };
        let rows = self.0.pipelines.look_up(&self.0, &described, args, patience).await?;
        Ok(rows.map(|rows| Answer { described, rows: rows.into_iter(), row: None, scratch: Vec::new() }))
    }

    /// See [`super::Source::keep_for_look_ups`].
    pub(crate) fn keep_for_look_ups(&self, any: bool) {
        self.0.pool.keep(if any { kept(self.0.pool.max()) } else { Kept::default() });
    }

    /// See [`super::Source::turn`].
    pub async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        self.0.pool.turn().await
    }

    /// See [`super::Source::acquire_timeout`].
    pub fn acquire_timeout(&self) -> Duration {
        self.0.pool.acquire_timeout()
    }

    /// See [`super::Source::changes`].
    ///
    /// # Errors
    /// 503: the database cannot be reached, or does not let its channel be listened to.
    pub async fn changes(&self, channel: Option<&str>, every: Duration) -> Result<Changes, Error> {
        let connection = self.0.connector.connect().await.map_err(|cause| cause.of_source(&self.0.name))?;
        Changes::new(connection, channel, every).await
    }

    /// See [`Pool::vacate`].
    pub(crate) fn vacate(&self) -> Option<Vacating> {
        self.0.pool.vacate()
    }

    /// What is known of the pool.
    pub(crate) fn pool_stats(&self) -> pool::Stats {
        self.0.pool.stats()
    }

    /// How many look-ups are on their way.
    pub(crate) fn look_ups(&self) -> usize {
        self.0.pipelines.pending()
    }

    /// Closes idle connections as they reach their `idle_timeout`, for as long as the source is used.
    pub fn reap(&self) -> impl Future<Output = ()> + use<> {
        self.0.pool.reap()
    }
}

/// What a pool of `max` connections keeps where there are look-ups.
pub(crate) fn kept(max: usize) -> Kept {
    Kept::for_look_ups(max, pipeline::connections(max))
}

/// What an idle connection takes, in bytes: its buffers, and the names of its prepared statements.
pub(crate) const IDLE: usize = 2 * wire::BUFFER;

/// What a session may take whose longest row has `row` bytes: what it sends, and the read buffer, which grows by copying itself.
pub(crate) fn budget(row: usize) -> usize {
    2 * wire::BUFFER + row.saturating_add(row / 2)
}

/// What may wait of the rows of one of several statements that are read by turns.
pub(crate) fn portion(row: usize) -> usize {
    session::portals::HELD_AT_MOST.max(row)
}

/// The rows of a look-up, which have all come.
pub struct Answer {
    described: Arc<Described>,
    rows: std::vec::IntoIter<Box<[u8]>>,
    row: Option<Box<[u8]>>,
    scratch: Vec<u8>,
}

impl Answer {
    /// The columns of its rows.
    pub fn columns(&self) -> Arc<[Column]> {
        Arc::clone(&self.described.columns)
    }

    /// The next row, lent until the next call.
    pub fn next_row(&mut self) -> Option<Row<'_>> {
        self.row = self.rows.next();
        let Described { decoders, columns, .. } = &*self.described;
        self.row.as_deref().map(|data| Row { data, decoders, columns, scratch: &mut self.scratch })
    }
}
