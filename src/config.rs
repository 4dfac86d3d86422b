//! `rowstream.toml` and the endpoint files, read into a [`Config`].
//!
//! Everything is read before anything is told: all faults of all files come together. What a database would have to be
//! asked for (whether a statement can be prepared, what its columns are) is not checked here.

mod files;
mod read;
mod source;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub(crate) use self::files::Files;
use crate::client::Proxies;
use crate::endpoint::Endpoint;
use crate::fault::Faults;
use crate::proof::spool::Spooling;
use crate::source::SourceConfig;

/// Everything a server needs to know, read and checked.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where to listen (`host:port`; port 0 is any free one).
    pub listen: String,
    /// Where to listen for the server's own paths, if not there.
    pub admin_listen: Option<String>,
    /// The sources, in the order of the file.
    pub sources: Vec<SourceConfig>,
    /// The folder of the endpoint files; empty where there is none.
    pub folder: PathBuf,
    /// The endpoints, by path.
    pub endpoints: Vec<Endpoint>,
    /// The bearer tokens: name to SHA-256.
    pub tokens: BTreeMap<String, [u8; 32]>,
    /// Cross-origin rules; `None`: no CORS headers.
    pub cors: Option<Cors>,
    /// The bounds of the server.
    pub limits: Limits,
}

impl Config {
    /// Where a server listens that is not told otherwise: reachable from this machine alone.
    pub const LISTEN: &'static str = "127.0.0.1:8080";

    /// Reads a configuration file and the endpoint files that it leads to; `${NAME}` in its strings are environment variables.
    ///
    /// # Errors
    /// Every fault of every file.
    pub fn load(path: &Path) -> Result<Self, Faults> {
        // A variable that is not Unicode cannot stand in a text, and is told as one that is not set.
        Self::load_with(path, &|name| std::env::var(name).ok())
    }

    /// [`Config::load`] with variables from elsewhere than the environment.
    ///
    /// # Errors
    /// Every fault of every file.
    pub fn load_with(path: &Path, environment: &dyn Fn(&str) -> Option<String>) -> Result<Self, Faults> {
        read::load(path, environment)
    }

    /// One source, named `main`, and one endpoint, `/rows`, whose parameters are texts of the query.
    ///
    /// # Errors
    /// The faults of the SQL, in a file that is called `--sql`, and of the URL, in one called `URL`.
    pub fn single(url: &str, sql: &str) -> Result<Self, Faults> {
        read::single(url, sql)
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
    /// Streams in flight of one client; beyond: 429.
    pub max_streams_per_client: Option<usize>,
    /// Connections open to clients; beyond, new ones wait in the kernel's queue.
    pub max_connections: usize,
    /// What the server may take, in bytes; `None`: as much as its streams and connections need.
    pub memory: Option<usize>,
    /// How long a client may take nothing while bytes wait for it.
    pub write_timeout: Duration,
    /// How long connections are still accepted after SIGTERM, while `ready` says that it is over.
    pub drain_delay: Duration,
    /// How long streams may go on after that.
    pub drain_timeout: Duration,
    /// What results that wait for their end may take.
    pub spooling: Spooling,
    /// Which proxies tell who their clients are.
    pub proxies: Proxies,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_streams: 1024,
            max_streams_per_client: None,
            max_connections: 4096,
            memory: None,
            write_timeout: Duration::from_secs(60),
            drain_delay: Duration::ZERO,
            drain_timeout: Duration::from_secs(30),
            spooling: Spooling::default(),
            proxies: Proxies::default(),
        }
    }
}
