//! Whether the file can be read: it is opened once more, as for a request that finds no idle
//! connection.
//!
//! A connection that is open already would tell nothing of a file that has been removed or
//! replaced.

use std::future::poll_fn;
use std::sync::Arc;

use super::Settings;
use super::handover::{Connection, Reply};
use crate::Error;
use crate::database::Ping;

/// Asks whether the file can be opened.
pub struct Probe {
    settings: Arc<Settings>,
    /// What is being opened. Where a file system hangs, the next question waits for the same: each
    /// further one would hang a thread.
    opening: Option<Connection>,
}

impl Probe {
    pub(super) fn new(settings: Arc<Settings>) -> Self {
        Self { settings, opening: None }
    }
}

impl Ping for Probe {
    async fn ask(&mut self) -> Result<(), Error> {
        let connection = match self.opening.take() {
            Some(connection) => connection,
            None => self.settings.open()?,
        };
        let connection = self.opening.insert(connection);
        let reply = poll_fn(|cx| connection.link().poll_reply(cx)).await;
        self.opening = None;
        match reply {
            Reply::Failed(error) => Err(error),
            _ => Ok(()),
        }
    }
}
