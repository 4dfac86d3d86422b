//! Whether the database can be reached: a COM_PING on a connection that is kept for it.
//!
//! The connection is none of the pool's, all of which may be taken. Keeping it spares the database
//! a login for each question.

use std::sync::Arc;

use super::super::login::Reusable as _;
use super::Shared;
use super::connect::Connection;
use crate::Error;
use crate::database::Ping;

/// Asks the database whether it is there.
pub struct Probe {
    shared: Arc<Shared>,
    /// Away while it is asked: what is dropped before its answer came is closed, or the next
    /// question would get that answer.
    connection: Option<Connection>,
}

impl Probe {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
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
        // What was kept may be of a database that has been started again since.
        let connected = self.shared.connector.connect().await;
        self.connection = Some(connected.map_err(|cause| cause.of_source(&self.shared.name))?);
        Ok(())
    }
}
