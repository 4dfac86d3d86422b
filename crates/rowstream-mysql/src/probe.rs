//! Checks that the database can be reached: a COM_PING on a connection that is kept for it.
//!
//! The connection isn't one of the pool's, which may all be in use. Because we keep it, the
//! database has no login for each check.

use std::sync::Arc;

use rowstream_core::Error;
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
        if let Some(connection) = self.connection.take()
            && let Ok(mut connection) = connection.move_here()
            && connection.ping().await.is_ok()
        {
            self.connection = Some(connection);
            return Ok(());
        }
        // The database may have restarted since we opened the kept connection.
        let connected = self.shared.connector.connect().await;
        self.connection = Some(connected.map_err(|cause| cause.of_source(&self.shared.name))?);
        Ok(())
    }
}
