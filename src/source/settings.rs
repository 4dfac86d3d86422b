//! The settings of one source, as its drivers take them; how they are read from files is `config`'s affair.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::database::{postgres, sqlite};
use crate::pool::{Kept, PoolConfig};
use crate::sql::Dialect;
use crate::upstream as http;

/// One `[source.NAME]`.
#[derive(Clone, PartialEq, Eq)]
pub struct SourceConfig {
    /// Its name.
    pub name: String,
    /// Its URL, secrets included; never printed.
    pub url: String,
    /// What the URL's scheme stands for.
    pub kind: Kind,
    /// The pool's limits.
    pub pool: PoolConfig,
    /// Prepared statements kept per connection.
    pub statement_cache: usize,
    /// Rows per fetch; 0: all in one, which is the fastest and holds no more memory.
    pub fetch_rows: usize,
    /// The largest row, in bytes as the database sends it.
    pub max_row_bytes: usize,
    /// Who has chosen it.
    pub max_row_bytes_by: ChosenBy,
    /// How long a statement may run in the database; `None`: as long as it wants.
    pub statement_timeout: Option<Duration>,
    /// How long one request or statement holds its place, as those who run it expect; `None`: nobody says.
    pub expected_duration: Option<Duration>,
    /// How many bytes of a SQLite file are mapped into memory instead of read; 0: none.
    pub mmap: usize,
    /// SQL scripts that fill a SQLite file that does not exist yet; other databases pass them over.
    pub create: Vec<PathBuf>,
}

/// Who has chosen the value of a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChosenBy {
    /// Nobody: it may be another default where `memory` is bounded.
    Default,
    /// The file that it stands in.
    User,
}

/// What a source is asked with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// Statements: a database.
    Sql(Dialect),
    /// Requests: an HTTP service.
    Http(Box<http::Settings>),
}

impl fmt::Debug for SourceConfig {
    /// Without the URL, which may hold a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SourceConfig")
            .field("name", &self.name)
            .field("pool", &self.pool)
            .finish_non_exhaustive()
    }
}

impl SourceConfig {
    /// What a stream's session may take, in bytes.
    pub(crate) fn budget(&self) -> usize {
        match self.kind {
            Kind::Sql(Dialect::Postgres) => postgres::budget(self.max_row_bytes),
            Kind::Sql(Dialect::Sqlite) => sqlite::budget(self.max_row_bytes),
            Kind::Http(_) => http::budget(),
        }
    }

    /// What may wait of one of several statements that are read by turns, in bytes.
    pub(crate) fn portion(&self) -> usize {
        match self.kind {
            Kind::Sql(Dialect::Postgres) => postgres::portion(self.max_row_bytes),
            Kind::Sql(Dialect::Sqlite) => sqlite::portion(self.max_row_bytes),
            Kind::Http(_) => 0,
        }
    }

    /// What its pool keeps for look-ups, where there are any.
    pub(crate) fn kept(&self) -> Kept {
        match self.kind {
            Kind::Sql(Dialect::Postgres) => postgres::kept(self.pool.max),
            Kind::Sql(Dialect::Sqlite) => sqlite::kept(self.pool.max),
            Kind::Http(_) => Kept::default(),
        }
    }

    /// What an idle connection of the pool takes, in bytes.
    pub(crate) fn idle(&self) -> usize {
        match self.kind {
            Kind::Sql(Dialect::Postgres) => postgres::IDLE,
            Kind::Sql(Dialect::Sqlite) => sqlite::IDLE,
            Kind::Http(_) => http::IDLE,
        }
    }

    /// A database with every setting at its default.
    pub fn new(name: impl Into<String>, url: impl Into<String>, dialect: Dialect) -> Self {
        Self {
            name: name.into(),
            url: url.into(),
            kind: Kind::Sql(dialect),
            pool: PoolConfig::default(),
            statement_cache: 1000,
            fetch_rows: 0,
            max_row_bytes: 16 << 20,
            max_row_bytes_by: ChosenBy::Default,
            statement_timeout: None,
            expected_duration: None,
            mmap: 0,
            create: Vec::new(),
        }
    }

    /// An HTTP service with every setting at its default, but for those of its own. It closes idle connections earlier than a
    /// database: most servers close theirs after a minute or so.
    pub fn http(name: impl Into<String>, url: impl Into<String>, settings: http::Settings) -> Self {
        Self {
            pool: PoolConfig { idle_timeout: Duration::from_secs(60), ..PoolConfig::default() },
            max_row_bytes: 1 << 20,
            kind: Kind::Http(Box::new(settings)),
            ..Self::new(name, url, Dialect::Postgres)
        }
    }
}
