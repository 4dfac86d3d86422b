//! The settings of one source, in the form that its drivers need. `config` reads them from files.

use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::time::Duration;

use rowstream_core::Error;
use rowstream_core::pool::{PoolConfig, ReservedSlots};
use rowstream_core::settings::SourceSettings;
use rowstream_core::sql::dialect::Location;

use crate::database::DatabaseKind;
use rowstream_upstream as http;

/// One `[source.NAME]`: its kind, and the settings that all sources share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceConfig {
    /// The settings that all sources share. `SourceConfig` derefs to them.
    pub settings: SourceSettings,
    /// The kind that the URL's scheme names.
    pub kind: SourceKind,
}

impl Deref for SourceConfig {
    type Target = SourceSettings;

    fn deref(&self) -> &SourceSettings {
        &self.settings
    }
}

impl DerefMut for SourceConfig {
    fn deref_mut(&mut self) -> &mut SourceSettings {
        &mut self.settings
    }
}

/// The kind of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SourceKind {
    /// A database, which runs statements.
    Sql(DatabaseKind),
    /// An HTTP service, which answers requests.
    Http(Box<http::Settings>),
}

impl SourceConfig {
    /// Creates the database if it's missing and the settings say how: a file, with the scripts of
    /// `create`.
    ///
    /// # Errors
    /// The database can't be created.
    pub(crate) fn create_missing(&self) -> Result<(), Error> {
        match self.kind {
            SourceKind::Sql(database) => database.create_missing(self).map(drop),
            SourceKind::Http(_) => Ok(()),
        }
    }

    /// The source for a check. If scripts would create its file, they create it in `folder`, so
    /// that the check leaves no file behind.
    ///
    /// # Errors
    /// The file can't be created.
    pub(crate) fn created_in(&self, folder: &Path) -> Result<Self, Error> {
        let mut apart = self.clone();
        let SourceKind::Sql(database) = self.kind else { return Ok(apart) };
        let (scheme, file) = self.url.split_once(':').unwrap_or_default();
        let is_file = database.dialect().urls.location == Location::File;
        if is_file && !self.create.is_empty() && !Path::new(file).exists() {
            apart.url = format!("{scheme}:{}", folder.join(&self.name).display());
            apart.create_missing()?;
        }
        Ok(apart)
    }

    /// The memory budget of a stream's session, in bytes.
    pub(crate) fn budget(&self) -> usize {
        match self.kind {
            SourceKind::Sql(database) => (database.sizes().session)(self),
            SourceKind::Http(_) => http::budget(),
        }
    }

    /// The rows of an interleaved statement that may wait, in bytes.
    pub(crate) fn portion(&self) -> usize {
        match self.kind {
            SourceKind::Sql(database) => (database.sizes().portion)(self.max_row_bytes),
            SourceKind::Http(_) => 0,
        }
    }

    /// The slots that its pool keeps for lookups, if the source has any.
    pub(crate) fn kept(&self) -> ReservedSlots {
        match self.kind {
            SourceKind::Sql(database) => database.kept(self.pool.max),
            SourceKind::Http(_) => ReservedSlots::default(),
        }
    }

    /// The time limit for a lookup on a shared connection; `None` if none are shared.
    pub(crate) fn lookup_patience(&self) -> Option<Duration> {
        match self.kind {
            SourceKind::Sql(database) => database.lookup_patience(),
            SourceKind::Http(_) => None,
        }
    }

    /// The memory that an idle connection of the pool needs, in bytes.
    pub(crate) fn idle(&self) -> usize {
        match self.kind {
            SourceKind::Sql(database) => database.sizes().idle,
            SourceKind::Http(_) => http::IDLE,
        }
    }

    /// A database with every setting at its default.
    pub fn new(name: impl Into<String>, url: impl Into<String>, database: DatabaseKind) -> Self {
        Self { settings: SourceSettings::new(name, url), kind: SourceKind::Sql(database) }
    }

    /// An HTTP service with its own settings, and all others at their defaults. Its `idle_timeout`
    /// is shorter than a database's, because most servers close idle connections after a minute or
    /// so.
    pub fn http(name: impl Into<String>, url: impl Into<String>, settings: http::Settings) -> Self {
        let common = SourceSettings {
            pool: PoolConfig { idle_timeout: Duration::from_secs(60), ..PoolConfig::default() },
            max_row_bytes: 1 << 20,
            ..SourceSettings::new(name, url)
        };
        Self { settings: common, kind: SourceKind::Http(Box::new(settings)) }
    }
}
