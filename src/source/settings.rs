//! The settings of one source, as its drivers take them; how they are read from files is `config`'s
//! affair.

use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::time::Duration;

use crate::database::DatabaseKind;
use crate::upstream as http;
use rowstream_core::Error;
use rowstream_core::pool::{Kept, PoolConfig};
use rowstream_core::settings::SourceSettings;
use rowstream_core::sql::dialect::Location;

/// One `[source.NAME]`: what it is, and the settings that all sources have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceConfig {
    /// What all sources have; this derefs to them.
    pub settings: SourceSettings,
    /// The kind that the URL's scheme names.
    pub kind: Kind,
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

/// What a source is asked with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// Statements: a database.
    Sql(DatabaseKind),
    /// Requests: an HTTP service.
    Http(Box<http::Settings>),
}

impl SourceConfig {
    /// Makes what it says how to make and what is not there yet: a file, by the scripts of
    /// `create`.
    ///
    /// # Errors
    /// It cannot be made.
    pub(crate) fn create_missing(&self) -> Result<(), Error> {
        match self.kind {
            Kind::Sql(database) => database.create_missing(self).map(drop),
            Kind::Http(_) => Ok(()),
        }
    }

    /// The source to be checked. If scripts have yet to make its file, they make it in `folder`, so
    /// that a check leaves nothing behind.
    ///
    /// # Errors
    /// It can't be made.
    pub(crate) fn created_in(&self, folder: &Path) -> Result<Self, Error> {
        let mut apart = self.clone();
        let Kind::Sql(database) = self.kind else { return Ok(apart) };
        let (scheme, file) = self.url.split_once(':').unwrap_or_default();
        let is_file = database.dialect().urls.location == Location::File;
        if is_file && !self.create.is_empty() && !Path::new(file).exists() {
            apart.url = format!("{scheme}:{}", folder.join(&self.name).display());
            apart.create_missing()?;
        }
        Ok(apart)
    }

    /// What a stream's session may take, in bytes.
    pub(crate) fn budget(&self) -> usize {
        match self.kind {
            Kind::Sql(database) => (database.sizes().session)(self),
            Kind::Http(_) => http::budget(),
        }
    }

    /// What may wait of one of several interleaved statements, in bytes.
    pub(crate) fn portion(&self) -> usize {
        match self.kind {
            Kind::Sql(database) => (database.sizes().portion)(self.max_row_bytes),
            Kind::Http(_) => 0,
        }
    }

    /// What its pool keeps for lookups, where there are any.
    pub(crate) fn kept(&self) -> Kept {
        match self.kind {
            Kind::Sql(database) => database.kept(self.pool.max),
            Kind::Http(_) => Kept::default(),
        }
    }

    /// How long a lookup may take on a shared connection; `None` where none is shared.
    pub(crate) fn lookup_patience(&self) -> Option<Duration> {
        match self.kind {
            Kind::Sql(database) => database.lookup_patience(),
            Kind::Http(_) => None,
        }
    }

    /// What an idle connection of the pool takes, in bytes.
    pub(crate) fn idle(&self) -> usize {
        match self.kind {
            Kind::Sql(database) => database.sizes().idle,
            Kind::Http(_) => http::IDLE,
        }
    }

    /// A database with every setting at its default.
    pub fn new(name: impl Into<String>, url: impl Into<String>, database: DatabaseKind) -> Self {
        Self { settings: SourceSettings::new(name, url), kind: Kind::Sql(database) }
    }

    /// An HTTP service with every setting at its default, but for those of its own. It closes idle
    /// connections earlier than a database: most servers close theirs after a minute or so.
    pub fn http(name: impl Into<String>, url: impl Into<String>, settings: http::Settings) -> Self {
        let common = SourceSettings {
            pool: PoolConfig { idle_timeout: Duration::from_secs(60), ..PoolConfig::default() },
            max_row_bytes: 1 << 20,
            ..SourceSettings::new(name, url)
        };
        Self { settings: common, kind: Kind::Http(Box::new(settings)) }
    }
}
