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
//! | [`statement`] | prepared statements, their cache, and the decoder chosen for each column |
//! | [`session`] | the state machine of one response: execute, rows, recycling |
//! | [`value`], [`text`], [`mod@array`] | field bytes to [`Value`](rowstream_encode::Value)s |
//! | [`error`] | `ErrorResponse` to [`Error`] |

mod array;
mod connect;
mod error;
mod session;
mod socket;
mod statement;
mod text;
mod url;
mod value;
mod wire;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Snapshot;
use crate::Error;
use crate::pool::Pool;
use crate::source::SourceConfig;
use connect::Connection;
use statement::TypeInfo;

pub use session::Session;
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
    /// Types that are not built in, by OID: enums, domains, and arrays of these.
    types: Mutex<HashMap<u32, TypeInfo>>,
}

impl Shared {
    fn known_types(&self) -> MutexGuard<'_, HashMap<u32, TypeInfo>> {
        // Nothing under this lock panics half way; a poisoned map is still a map.
        self.types.lock().unwrap_or_else(PoisonError::into_inner)
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
            types: Mutex::new(HashMap::new()),
        })))
    }

    /// See [`super::Source::acquire`].
    ///
    /// # Errors
    /// The pool's, or 503 when the database cannot be reached.
    pub async fn acquire(&self, snapshot: Snapshot) -> Result<Session, Error> {
        let place = self.0.pool.acquire().await?;
        while let Some(mut connection) = place.take_idle_of(Connection::is_here) {
            if connection.is_alive()
                && let Ok(connection) = connection.move_here()
            {
                return Ok(Session::new(Arc::clone(&self.0), place, connection, snapshot));
            }
        }
        let connection = self.0.connector.connect().await.map_err(|cause| cause.of_source(&self.0.name))?;
        Ok(Session::new(Arc::clone(&self.0), place, connection, snapshot))
    }

    /// Closes idle connections as they reach their `idle_timeout`, for as long as the source is used.
    pub async fn reap(&self) {
        self.0.pool.reap().await;
    }
}
