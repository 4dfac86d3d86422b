//! `rowstream.toml` and the endpoint files, read into a [`Config`].
//!
//! Everything is read before anything is reported: all errors of all files come together. What a
//! database would have to be asked for (whether a statement can be prepared, what its columns are)
//! is not checked here.

mod acme;
mod admin;
mod discovery;
mod dotenv;
mod features;
mod files;
mod generated;
mod jwt;
pub mod memory;
mod read;
mod single;
mod source;
mod tls;
mod tokens;
mod traces;
mod unserved;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

pub use self::acme::{Acme, ExternalAccount};
pub use self::admin::AdminAccess;
pub use self::discovery::{Consul, Discovery};
pub(crate) use self::files::Files;
pub(crate) use self::jwt::OIDC_CONFIGURATION;
pub use self::jwt::{JwtSettings, KeySource};
pub use self::single::{Argument, Purpose};
pub use self::tls::Tls;
pub use self::tokens::Token;
pub use self::unserved::{Reason, Unserved};
use crate::client::Proxies;
use crate::diagnostic::{Collector, Diagnostics};
use crate::endpoint::{Authorization, Endpoint, SourceRef};
use crate::error::ErrorDetail;
use crate::log::LogSettings;
use crate::settings::ChosenBy;
use crate::source::{Kind, SourceConfig};
use crate::spool::Spooling;
use crate::traces::TraceSettings;

/// Everything a server needs to know, read and checked.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where to listen (`host:port`, where port 0 is any free one, or `unix:/path`).
    pub listen: String,
    /// The mode of the file of a Unix socket.
    pub socket_mode: u32,
    /// Where to listen for the admin endpoints, if not there.
    pub admin_listen: Option<String>,
    /// Who may ask the admin endpoints.
    pub admin: AdminAccess,
    /// Whether browsers are given the console.
    pub console: bool,
    /// How others find this replica.
    pub discovery: Discovery,
    /// TLS for clients; `None`: plain HTTP.
    pub tls: Option<Tls>,
    /// The sources, in the order of the file.
    pub sources: Vec<SourceConfig>,
    /// The folder of the endpoint files; empty where there is none.
    pub folder: PathBuf,
    /// The endpoints, by path.
    pub endpoints: Vec<Endpoint>,
    /// What looks like an endpoint file, and is none.
    pub unserved: Vec<Unserved>,
    /// The tokens, by name.
    pub tokens: BTreeMap<String, Arc<Token>>,
    /// Whose JSON Web Tokens are believed; `None`: nobody's.
    pub jwt: Option<JwtSettings>,
    /// Cross-origin rules; `None`: no CORS headers.
    pub cors: Option<Cors>,
    /// The bounds of the server.
    pub limits: Limits,
    /// What the server says, and how.
    pub log: LogSettings,
    /// Where spans are sent, and of which requests; `None`: there are none.
    pub traces: Option<TraceSettings>,
    /// How much of what a database says reaches clients; `None`: as the address says where it
    /// listens.
    pub error_detail: Option<ErrorDetail>,
    /// The files that it names and that `--watch` looks at: secrets, and those of TLS with upstreams.
    pub watched: Vec<PathBuf>,
}

impl Config {
    /// Where a server listens without that setting: reachable from this machine alone.
    pub const LISTEN: &'static str = "127.0.0.1:8080";

    /// The mode of the file of a Unix socket without that setting: for the user and the group of
    /// the process.
    pub const SOCKET_MODE: u32 = 0o660;

    /// Where to listen by `host:port`, by `:port` for all addresses of this machine, or by
    /// `unix:/path`; `None` where a text is none of these.
    pub(crate) fn listen_address(text: &str) -> Option<String> {
        if let Some(path) = text.strip_prefix("unix:") {
            return path.starts_with('/').then(|| text.to_owned());
        }
        let (host, port) = text.rsplit_once(':')?;
        port.parse::<u16>().ok()?;
        Some(if host.is_empty() { format!("0.0.0.0:{port}") } else { text.to_owned() })
    }

    /// How much of what a database says reaches clients.
    pub fn error_detail(&self) -> ErrorDetail {
        self.error_detail.unwrap_or_else(|| ErrorDetail::of_address(&self.listen))
    }

    /// Has each request need this token, except for the probes `live` and `ready`.
    pub(crate) fn require(&mut self, token: Token) {
        let authorization = Authorization::Tokens(vec![token.name.clone()]);
        self.admin = AdminAccess::of(&authorization);
        for endpoint in &mut self.endpoints {
            endpoint.authorization.clone_from(&authorization);
        }
        self.tokens = BTreeMap::from([(token.name.clone(), Arc::new(token))]);
        self.explain();
    }

    /// Has endpoints answer with the plans of their statements where that is asked for.
    fn explain(&mut self) {
        for endpoint in &mut self.endpoints {
            if let Kind::Sql(database) = self.sources[endpoint.source.index()].kind {
                let explained = endpoint.explained(database.dialect(), &self.admin.explain);
                endpoint.explained = explained.map(Box::new);
            }
        }
    }

    /// The settings of a source.
    pub fn source(&self, source: &SourceRef) -> &SourceConfig {
        &self.sources[source.index()]
    }

    /// Reads a configuration file and the endpoint files that it leads to; `${NAME}` in its strings
    /// are environment variables, and those of the file `.env` beside it where the environment
    /// lacks them.
    ///
    /// # Errors
    /// Every error of every file.
    pub fn load(path: &Path) -> Result<Self, Diagnostics> {
        // A variable that is not Unicode cannot stand in a text, and is reported as one that is not
        // set.
        Self::load_with(path, &|name| std::env::var(name).ok())
    }

    /// [`Config::load`] with variables from elsewhere than the environment.
    ///
    /// # Errors
    /// Every error of every file.
    pub fn load_with(path: &Path, environment: &dyn Fn(&str) -> Option<String>) -> Result<Self, Diagnostics> {
        read::load(path, environment)
    }

    /// The URL of a database, as it may be shown: without what may be a password. `None`: the text
    /// is none.
    pub(crate) fn shown_database(text: &str) -> Option<String> {
        source::shown_database(text)
    }

    /// The message and the hint for the URL of a database that this build lacks; otherwise `None`.
    pub(crate) fn lacking_database(url: &str) -> Option<(String, String)> {
        let (scheme, _) = url.split_once(':')?;
        source::lacking(scheme).map(|error| (error.message, error.hint))
    }

    /// The variables of the file `.env` in a folder; none where it cannot be read, which whoever
    /// reads the configuration there reports.
    pub(crate) fn variables_beside(folder: &Path) -> BTreeMap<String, String> {
        dotenv::read(folder, &Collector::default())
    }

    /// The errors of all files, and what is good for finding more of them: the sources that could
    /// be read, and the endpoints in whose own files there is no error. Not to be served unless
    /// there is no error at all.
    pub(crate) fn load_partly(path: &Path) -> (Option<Self>, Diagnostics) {
        read::load_partly(path, &|name| std::env::var(name).ok())
    }

    /// One source, named `main`, and one endpoint, `/rows`, whose parameters have the types that
    /// PostgreSQL infers.
    ///
    /// # Errors
    /// Those of [`Config::single_with`].
    pub fn single(url: &str, sql: &str) -> Result<Self, Diagnostics> {
        Self::single_with(url, (Path::new("--sql"), sql), Purpose::Serve, &[])
    }

    /// One source, named `main`, and one endpoint, `/rows`, of a statement, which errors call by the
    /// name before it. Its parameters have these types and values.
    ///
    /// # Errors
    /// Those of the SQL, of the URL (`URL`), and of the parameters
    /// (`--param` or `-p`): a type that nobody says, a value of another, a name that the statement
    /// does not have.
    pub fn single_with(
        url: &str,
        statement: (&Path, &str),
        purpose: Purpose,
        arguments: &[Argument],
    ) -> Result<Self, Diagnostics> {
        single::read(url, statement, purpose, arguments)
    }

    /// The database of a URL, or of the path of its file.
    ///
    /// # Errors
    /// What is wrong with the URL.
    pub(crate) fn database(url: &str) -> Result<SourceConfig, Diagnostics> {
        single::database(url).map(|(source, _)| source)
    }

    /// The hint for a CSV that DuckDB can't read here, beside the one of the error.
    pub(crate) fn csv_hint(path: &str, hint: &str) -> String {
        single::with_init(path, hint)
    }

    /// One source, and the endpoints of files that need not be there: their paths below a folder of
    /// endpoints, and their texts.
    ///
    /// # Errors
    /// Those of the texts.
    pub(crate) fn of_endpoints(
        source: SourceConfig,
        files: &[(PathBuf, String)],
    ) -> Result<Self, Diagnostics> {
        generated::read(source, files)
    }

    /// The path of a file beside the one that is not there, whose name is nearly the same.
    pub(crate) fn near_file(path: &Path) -> Option<PathBuf> {
        files::near(path)
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
    /// Connections open to clients; beyond, idle ones give way.
    pub max_connections: usize,
    /// Who has chosen their number.
    pub max_connections_by: ChosenBy,
    /// Those of one client that is no proxy; beyond, its own idle ones give way.
    pub max_connections_per_client: Option<usize>,
    /// What the server may take, in bytes; `None`: as much as its streams and connections need.
    pub memory: Option<usize>,
    /// How often clients may ask.
    pub rates: RateLimits,
    /// How long a client may take for the handshake of TLS, and for the headers of a request.
    pub header_timeout: Duration,
    /// How long a connection waits for its next request.
    pub idle_timeout: Duration,
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
            max_connections_per_client: None,
            max_connections_by: ChosenBy::Default,
            memory: None,
            rates: RateLimits::default(),
            header_timeout: Duration::from_secs(30),
            // As nginx: proxies keep connections for up to 60 s, and the first to close must be
            // the one that asks.
            idle_timeout: Duration::from_secs(75),
            write_timeout: Duration::from_secs(60),
            drain_delay: Duration::ZERO,
            drain_timeout: Duration::from_secs(30),
            spooling: Spooling::default(),
            proxies: Proxies::default(),
        }
    }
}

/// `[rate_limit]`: how many requests a second there may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimits {
    /// Of an address; `None`: any number.
    pub per_address: Option<u32>,
    /// Of a token; `None`: any number.
    pub per_token: Option<u32>,
    /// In which as many may come at once as it has of them; a second at least.
    pub window: Duration,
}

impl Default for RateLimits {
    fn default() -> Self {
        Self { per_address: None, per_token: None, window: Duration::from_secs(1) }
    }
}
