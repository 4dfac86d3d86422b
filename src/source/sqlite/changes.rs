//! What tells that something was committed: a connection of its own that asks for SQLite's count of other connections' changes.

use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::{Settings, fault};
use crate::Error;

/// The changes of a file, as they come.
pub struct Changes {
    /// On its way to and from a thread on which it may block.
    connection: Option<Connection>,
    settings: Arc<Settings>,
    every: Duration,
    seen: Option<i64>,
}

impl Changes {
    /// Those of the source's file; it is asked `every` so often.
    ///
    /// # Errors
    /// 503: the file cannot be opened.
    pub(super) async fn new(settings: Arc<Settings>, every: Duration) -> Result<Self, Error> {
        let path = settings.path.clone();
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let opened = tokio::task::spawn_blocking(move || Connection::open_with_flags(path, flags));
        let connection = opened.await.map_err(ended)?.map_err(|error| fault::of(&settings.source, error))?;
        Ok(Self { connection: Some(connection), settings, every, seen: None })
    }

    /// Waits until something was committed since the call before; the first one returns at once. A call that is dropped is to be the
    /// last.
    ///
    /// # Errors
    /// The file cannot be read.
    pub async fn next(&mut self) -> Result<(), Error> {
        loop {
            if self.seen.is_some() {
                tokio::time::sleep(self.every).await;
            }
            let version = self.version().await?;
            if version.is_some() && std::mem::replace(&mut self.seen, version) != version {
                return Ok(());
            }
        }
    }

    /// SQLite's `data_version`; `None` while somebody writes.
    async fn version(&mut self) -> Result<Option<i64>, Error> {
        let connection = self.connection.take().ok_or_else(|| ended("a call was dropped"))?;
        let asked = tokio::task::spawn_blocking(move || {
            let version = connection.pragma_query_value(None, "data_version", |row| row.get(0));
            (connection, version)
        });
        let (connection, version) = asked.await.map_err(ended)?;
        self.connection = Some(connection);
        match version {
            Ok(version) => Ok(Some(version)),
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => Ok(None),
            Err(error) => Err(fault::of(&self.settings.source, error)),
        }
    }
}

fn ended(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::source_unavailable("the file is not looked at any more").cause(cause)
}
