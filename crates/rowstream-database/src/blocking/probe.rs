//! Checks if the database can be reached. It opens another connection, like a request that finds no
//! idle one.
//!
//! A connection that's already open wouldn't notice that the file was removed or replaced.

use std::future::poll_fn;
use std::sync::Arc;

use rowstream_core::Error;

use super::handover::{Connection, WorkerReply};
use super::{Driver, SourceState};
use crate::Ping;

/// Checks if a connection can be opened.
pub struct Probe<D: Driver> {
    shared: Arc<SourceState<D>>,
    /// The connection that is being opened. If a file system hangs, the next check waits for the
    /// same connection, because each new one would hang another thread.
    opening: Option<Connection<D>>,
}

impl<D: Driver> Probe<D> {
    pub(super) fn new(shared: Arc<SourceState<D>>) -> Self {
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
            WorkerReply::Failed(error) => Err(error),
            _ => Ok(()),
        }
    }
}
