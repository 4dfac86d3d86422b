//! `rowstream.toml` and the endpoint files, read into a [`Config`].

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::endpoint::Endpoint;
use crate::pool::PoolConfig;
use crate::sql::Dialect;

/// Everything a server needs to know, read and checked.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where to listen (`host:port`; port 0 is any free one).
    pub listen: String,
    /// The sources, in the order of the file.
    pub sources: Vec<SourceConfig>,
    /// The endpoints, by path.
    pub endpoints: Vec<Endpoint>,
    /// The bearer tokens: name to SHA-256.
    pub tokens: BTreeMap<String, [u8; 32]>,
    /// Cross-origin rules; `None`: no CORS headers.
    pub cors: Option<Cors>,
    /// The bounds of the server.
    pub limits: Limits,
}

/// One `[source.NAME]`.
#[derive(Clone)]
pub struct SourceConfig {
    /// Its name.
    pub name: String,
    /// Its URL, secrets included; never printed.
    pub url: String,
    /// The dialect that the URL's scheme stands for.
    pub dialect: Dialect,
    /// The pool's limits.
    pub pool: PoolConfig,
    /// Prepared statements kept per connection.
    pub statement_cache: usize,
    /// Rows per fetch; 0: all in one, which is the fastest and holds no more memory.
    pub fetch_rows: usize,
    /// The largest row, in bytes as the database sends it.
    pub max_row_bytes: usize,
    /// How long a statement may run in the database; `None`: as long as it wants.
    pub statement_timeout: Option<Duration>,
    /// SQL scripts that fill a SQLite file that does not exist yet.
    pub create: Vec<PathBuf>,
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

/// `[cors]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cors {
    /// Allowed origins; `*` alone allows all.
    pub origins: Vec<String>,
    /// How long a browser may remember a preflight.
    pub max_age: Duration,
}

/// The bounds of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Streams in flight; beyond: 503.
    pub max_streams: usize,
    /// Connections open to clients; beyond, new ones wait in the kernel's queue.
    pub max_connections: usize,
    /// How long streams may go on after SIGTERM.
    pub drain_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_streams: 1024, max_connections: 4096, drain_timeout: Duration::from_secs(30) }
    }
}
