//! What every source is given, whatever it is: its URL, its pool and its bounds.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::diagnostic::Template;
use crate::pool::PoolConfig;

/// The settings that all sources have, of one `[source.NAME]`.
#[derive(Clone, PartialEq, Eq)]
pub struct SourceSettings {
    /// Its name.
    pub name: String,
    /// Its URL, secrets included; never printed.
    pub url: String,
    /// The URL as the configuration has it, if files stand in it.
    pub template: Option<Template>,
    /// The program that writes the password of logins, and its arguments; empty if there's none. Only
    /// for databases whose dialect says so.
    pub password_command: Vec<String>,
    /// The pool's limits.
    pub pool: PoolConfig,
    /// Prepared statements kept per connection.
    pub statement_cache: usize,
    /// Rows per fetch; 0: all in one, which is the fastest and holds no more memory.
    pub fetch_rows: usize,
    /// How many bytes of rows the worker of a driver sends at once, at most; other databases have
    /// no such batches.
    pub fetch_bytes: usize,
    /// The largest row, in bytes as the database sends it.
    pub max_row_bytes: usize,
    /// Who has chosen it.
    pub max_row_bytes_by: ChosenBy,
    /// How long a statement may run in the database; `None`: as long as it wants.
    pub statement_timeout: Option<Duration>,
    /// How long one request or statement holds its connection, as those who run it expect; `None`:
    /// nobody says.
    pub expected_duration: Option<Duration>,
    /// How many bytes of a SQLite file are mapped into memory instead of read; 0: none.
    pub mmap: usize,
    /// What the worker process of a driver may take of the memory, in bytes; other databases pass
    /// it over.
    pub worker_memory: usize,
    /// What is between here and a PostgreSQL server; other databases pass it over.
    pub pooler: Pooler,
    /// What the variables of the environment say that the database's own clients read too, by name.
    pub variables: BTreeMap<&'static str, String>,
    /// As whom the statements of a request are run in PostgreSQL, where that hangs on who asks.
    pub roles: Option<Roles>,
    /// How late a PostgreSQL replica may be that is asked; `None`: as late as it is.
    pub max_lag: Option<Duration>,
    /// SQL scripts that fill a SQLite file that does not exist yet; other databases pass them over.
    pub create: Vec<PathBuf>,
}

/// How a pooler such as PgBouncer hands out its server's connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pooler {
    /// Where there is one, for a transaction each; the server's answers tell whether there is.
    #[default]
    Detected,
    /// For a transaction each.
    Transaction,
    /// For as long as a client stays, as if there were no pooler.
    Session,
}

/// Which role of PostgreSQL a request's statements have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Roles {
    /// The claim that names it. If no claim is called `a.b`, it's the member `b` of `a`.
    pub claim: String,
    /// That of a request whose token names none, or that has none; `None`: it is denied.
    pub anonymous: Option<String>,
    /// Those that a token may name; none: those that the source's user may have.
    pub allowed: Vec<String>,
}

impl Roles {
    /// Whether a token may name this role.
    pub fn allows(&self, role: &str) -> bool {
        self.allowed.is_empty() || self.allowed.iter().any(|allowed| allowed == role)
    }
}

/// Who has chosen the value of a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChosenBy {
    /// Nobody: it may be another default where `memory` is bounded.
    Default,
    /// The file that it stands in.
    User,
}

impl SourceSettings {
    /// Every setting at its default.
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
            max_row_bytes_by: ChosenBy::Default,
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
    /// The URL by its files as they are now; `None` if one can't be read.
    pub fn url_now(&self) -> Option<String> {
        match &self.template {
            Some(template) => template.expand(),
            None => Some(self.url.clone()),
        }
    }
}

impl fmt::Debug for SourceSettings {
    /// Without the URL, which may hold a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SourceSettings")
            .field("name", &self.name)
            .field("pool", &self.pool)
            .finish_non_exhaustive()
    }
}
