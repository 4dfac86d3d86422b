//! The settings of all kinds of sources: the URL, the pool and the limits.
//!
//! Some belong to certain databases. They're here too, so that a source is one plain value to build,
//! compare and clone. The drivers of those databases read them from a configuration.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::diagnostic::Template;
use crate::pool::PoolConfig;

/// The common settings of a `[source.NAME]`.
#[derive(Clone, PartialEq, Eq)]
pub struct SourceSettings {
    /// The source's name.
    pub name: String,
    /// The URL, with its secrets. It's never printed.
    pub url: String,
    /// The URL in the configuration, if it mentions files.
    pub template: Option<Template>,
    /// The program that prints the password for logins, and its arguments. Empty if there's none.
    /// Only some databases have logins.
    pub password_command: Vec<String>,
    /// The pool's limits.
    pub pool: PoolConfig,
    /// The number of prepared statements kept per connection.
    pub statement_cache: usize,
    /// The rows per fetch. 0 fetches all at once, which is fastest and needs no more memory.
    pub fetch_rows: usize,
    /// Drivers (ADBC, ODBC): the most bytes of rows in a batch from their process.
    pub fetch_bytes: usize,
    /// The largest row, in bytes as the database sends it.
    pub max_row_bytes: usize,
    /// The origin of `max_row_bytes`.
    pub max_row_bytes_by: SettingOrigin,
    /// The time limit for a statement in the database; `None` for no limit.
    pub statement_timeout: Option<Duration>,
    /// The time that a request or statement is expected to hold its connection; `None` if unknown.
    pub expected_duration: Option<Duration>,
    /// SQLite: the bytes of the file that are mapped into memory instead of read; 0 for none.
    pub mmap: usize,
    /// Drivers (ADBC, ODBC): the memory limit of their process, in bytes.
    pub worker_memory: usize,
    /// PostgreSQL: the pooler between us and the server.
    pub pooler: Pooler,
    /// The environment variables that the database's own clients read too, by name.
    pub variables: BTreeMap<&'static str, String>,
    /// PostgreSQL: the roles of a request's statements, if they depend on its token.
    pub roles: Option<Roles>,
    /// PostgreSQL: the largest lag of a replica that we use; `None` for any lag.
    pub max_lag: Option<Duration>,
    /// SQLite: SQL scripts that fill a new file.
    pub create: Vec<PathBuf>,
}

/// The mode of a pooler such as PgBouncer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pooler {
    /// Per transaction, if the server's responses show that there's a pooler.
    #[default]
    Detected,
    /// Per transaction.
    Transaction,
    /// Per client connection, as if there were no pooler.
    Session,
}

/// The PostgreSQL roles of a request's statements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Roles {
    /// The claim with the role's name. If there's no claim `a.b`, it's the member `b` of `a`.
    pub claim: String,
    /// The role of a request without a token, or whose token has no such claim. `None` denies it.
    pub anonymous: Option<String>,
    /// The roles that a token can choose. Empty: all roles of the source's user.
    pub allowed: Vec<String>,
}

impl Roles {
    /// Returns true if a token can choose this role.
    pub fn allows(&self, role: &str) -> bool {
        self.allowed.is_empty() || self.allowed.iter().any(|allowed| allowed == role)
    }
}

/// The origin of a setting's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingOrigin {
    /// The default, which can be lower if `memory` is limited.
    Default,
    /// The configuration file.
    User,
}

impl SourceSettings {
    /// All settings at their defaults.
    pub fn new(name: impl Into<String>, url: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            url: url.into(),
            template: None,
            password_command: Vec::new(),
            pool: PoolConfig::default(),
            statement_cache: 1000,
            fetch_rows: 0,
            fetch_bytes: 1 << 20,
            max_row_bytes: 16 << 20,
            max_row_bytes_by: SettingOrigin::Default,
            statement_timeout: None,
            expected_duration: None,
            mmap: 0,
            worker_memory: 2 << 30,
            pooler: Pooler::default(),
            variables: BTreeMap::new(),
            roles: None,
            max_lag: None,
            create: Vec::new(),
        }
    }
}

impl SourceSettings {
    /// The URL with the current contents of its files; `None` if one can't be read.
    pub fn url_now(&self) -> Option<String> {
        match &self.template {
            Some(template) => template.expand(),
            None => Some(self.url.clone()),
        }
    }
}

impl fmt::Debug for SourceSettings {
    /// Omits the URL, which can contain a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SourceSettings")
            .field("name", &self.name)
            .field("pool", &self.pool)
            .finish_non_exhaustive()
    }
}
