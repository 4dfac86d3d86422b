//! Checks that the database can be reached: an empty round trip on a connection that is kept for
//! it.
//!
//! The connection isn't one of the pool's, which may all be in use. Because we keep it, the
//! database has no login for each check; with SCRAM, a login costs both sides milliseconds of CPU.
//! If a server accepts only a single connection, the source's pool has one, and the check uses
//! that.

use std::sync::Arc;

use postgres_protocol::message::frontend;
use rowstream_core::Error;
use rowstream_core::client::Client;
use rowstream_core::pool::Priority;
use rowstream_database::Ping;
use rowstream_database::login::ReusableConnection as _;

use super::SourceState;
use super::connect::Connection;

/// Checks that the database can be reached.
pub struct Probe {
    shared: Arc<SourceState>,
    /// `None` during a check: if the check is dropped before its answer arrives, the connection is
    /// closed. Otherwise the next check would get that answer.
    connection: Option<Connection>,
}

impl Probe {
    pub(super) fn new(shared: Arc<SourceState>) -> Self {
        Self { shared, connection: None }
    }
}

impl Ping for Probe {
    async fn ask(&mut self) -> Result<(), Error> {
        if self.shared.pool.max() == 1 {
            return self.ask_by_pool().await;
        }
        if let Some(connection) = self.connection.take()
            && let Ok(connection) = round_trip(connection).await
        {
            self.connection = Some(connection);
            return Ok(());
        }
        // The database may have restarted since we opened the kept connection.
        self.connection = Some(self.shared.hosts.connection(None).await?.unlent());
        Ok(())
    }
}

impl Probe {
    /// Checks the one connection that there may be. While a request uses it, the database can be
    /// reached.
    async fn ask_by_pool(&self) -> Result<(), Error> {
        let Some(place) = self.shared.pool.try_acquire_at(&(), Priority::Lookup, Client::Unknown) else {
            return Ok(());
        };
        let connection = self.shared.hosts.connection(Some(&place)).await?;
        let connection = match round_trip(connection).await {
            Ok(connection) => connection,
            Err(_) => self.shared.hosts.connection(None).await?,
        };
        place.give_back(connection.unlent());
        Ok(())
    }
}

/// A Sync, which is answered by ReadyForQuery and does nothing else (PostgreSQL manual, "Extended
/// Query").
async fn round_trip(connection: Connection) -> Result<Connection, Error> {
    let moved = connection.move_here();
    let mut connection = moved.map_err(|cause| Error::protocol("the connection is lost").cause(cause))?;
    frontend::sync(&mut connection.wire.write);
    connection.wire.flush().await?;
    connection.until_ready().await?;
    Ok(connection)
}
