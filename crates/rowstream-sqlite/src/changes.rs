//! Detects commits: a dedicated connection polls SQLite's count of changes by other connections.

use std::sync::Arc;
use std::time::Duration;

use rowstream_core::Error;
use rowstream_database::ChangeSource;
use rowstream_database::blocking::{Driver as _, FileId};
use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::Sqlite;

/// The changes of a file.
pub struct Changes {
    /// `None` while a blocking call uses it on another thread.
    connection: Option<Connection>,
    settings: Arc<Sqlite>,
    every: Duration,
    seen: Option<i64>,
    /// The file that we opened. Its name may belong to another file by now.
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
    /// Watches the source's file, and polls it once per `every`.
    ///
    /// # Errors
    /// 503: the file can't be opened.
    pub(super) async fn new(settings: Arc<Sqlite>, every: Duration) -> Result<Self, Error> {
        let (path, asked) = (settings.path.clone(), Arc::clone(&settings));
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let opened = tokio::task::spawn_blocking(move || {
            // We read this first: if the file is replaced before we open it, `version` sees another
            // file.
            let file = asked.file();
            (file, Connection::open_with_flags(path, flags))
        });
        let (file, connection) = opened.await.map_err(ended)?;
        let connection = connection.map_err(|error| settings.fault(error))?;
        Ok(Self { connection: Some(connection), settings, every, seen: None, file })
    }

    /// Returns SQLite's `data_version`; `None` while a writer has the file locked.
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
