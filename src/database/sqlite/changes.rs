//! What tells that something was committed: a connection of its own that asks for SQLite's count of
//! other connections' changes.

use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::Sqlite;
use crate::database::ChangeSource;
use crate::database::blocking::{Driver as _, FileId};
use rowstream_core::Error;

/// The changes of a file, as they come.
pub struct Changes {
    /// On its way to and from a thread on which it may block.
    connection: Option<Connection>,
    settings: Arc<Sqlite>,
    every: Duration,
    seen: Option<i64>,
    /// The file that was opened, which may not be the one of this name any more.
    file: Option<FileId>,
}

impl ChangeSource for Changes {
    const IS_LOST_FOR_GOOD: bool = true;

    async fn next(&mut self) -> Result<(), Error> {
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
}

impl Changes {
    /// Those of the source's file; it is asked `every` so often.
    ///
    /// # Errors
    /// 503: the file cannot be opened.
    pub(super) async fn new(settings: Arc<Sqlite>, every: Duration) -> Result<Self, Error> {
        let (path, asked) = (settings.path.clone(), Arc::clone(&settings));
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let opened = tokio::task::spawn_blocking(move || {
            // Looked at first: a file that is replaced between the two is found to be another one.
            let file = asked.file();
            (file, Connection::open_with_flags(path, flags))
        });
        let (file, connection) = opened.await.map_err(ended)?;
        let connection = connection.map_err(|error| settings.fault(error))?;
        Ok(Self { connection: Some(connection), settings, every, seen: None, file })
    }

    /// SQLite's `data_version`; `None` while somebody writes.
    async fn version(&mut self) -> Result<Option<i64>, Error> {
        let connection = self.connection.take().ok_or_else(|| ended("a call was dropped"))?;
        let settings = Arc::clone(&self.settings);
        let asked = tokio::task::spawn_blocking(move || {
            let version = connection.pragma_query_value(None, "data_version", |row| row.get(0));
            (connection, version, settings.file())
        });
        let (connection, version, file) = asked.await.map_err(ended)?;
        self.connection = Some(connection);
        if file != self.file {
            return Err(ended("the file was replaced"));
        }
        match version {
            Ok(version) => Ok(Some(version)),
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => Ok(None),
            Err(error) => Err(self.settings.fault(error)),
        }
    }
}

fn ended(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::source_unavailable("the file is not looked at any more").cause(cause)
}
