//! Whether the database can be reached: a connection is opened once more, as for a request that
//! finds no idle one.
//!
//! A connection that is open already would tell nothing of a file that has been removed or
//! replaced.

use std::future::poll_fn;
use std::sync::Arc;

use super::handover::{Connection, Reply};
use super::{Driver, Shared};
use crate::database::Ping;
use rowstream_core::Error;

/// Asks whether a connection can be opened.
pub struct Probe<D: Driver> {
    shared: Arc<Shared<D>>,
    /// What is being opened. Where a file system hangs, the next question waits for the same: each
    /// further one would hang a thread.
    opening: Option<Connection<D>>,
}

impl<D: Driver> Probe<D> {
    pub(super) fn new(shared: Arc<Shared<D>>) -> Self {
        Self { shared, opening: None }
    }
}

impl<D: Driver> Ping for Probe<D> {
    async fn ask(&mut self) -> Result<(), Error> {
        let connection = match self.opening.take() {
            Some(connection) => connection,
            None => self.shared.open()?,
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
