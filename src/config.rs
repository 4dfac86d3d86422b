//! Reads `rowstream.toml` and the endpoint files into a [`Config`].
//!
//! All files are read before errors are reported, so that a user sees every error at once.
//! Questions that only the database can answer aren't checked here, such as if a statement can be
//! prepared, or which columns it returns.

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

use rowstream_core::client::Proxies;
use rowstream_core::cursor::Signer;
use rowstream_core::diagnostic::{Collector, Diagnostic, Diagnostics};
use rowstream_core::error::ErrorDetail;
use rowstream_core::settings::SettingOrigin;

pub use self::acme::{Acme, ExternalAccount};
pub use self::admin::AdminAccess;
pub use self::discovery::{Consul, Discovery};
pub(crate) use self::files::Files;
pub(crate) use self::jwt::OIDC_CONFIGURATION;
pub use self::jwt::{JwtSettings, KeySource};
pub use self::single::{Argument, Purpose};
pub use self::tls::Tls;
pub use self::tokens::Token;
pub use self::unserved::{Reason, UnservedFile};
use crate::access_log::LogSettings;
use crate::endpoint::{Authorization, Endpoint, SourceRef};
use crate::source::{SourceConfig, SourceKind};
use crate::spool::SpoolSettings;
use crate::traces::TraceSettings;

/// All settings of a server, read and checked.
#[derive(Debug, Clone)]
pub struct Config {
    /// The listen address: `host:port` or `unix:/path`. Port 0 means any free port.
    pub listen: String,
    /// The file mode of a Unix socket.
    pub socket_mode: u32,
    /// The listen address of the admin endpoints, if it's another one.
    pub admin_listen: Option<String>,
    /// The clients that may call the admin endpoints.
    pub admin: AdminAccess,
    /// True if the server offers the console to browsers.
    pub console: bool,
    /// How Prometheus, Consul and the other replicas find this replica.
    pub discovery: Discovery,
    /// TLS for clients. `None`: plain HTTP.
    pub tls: Option<Tls>,
    /// The sources, in the order of the file.
    pub sources: Vec<SourceConfig>,
    /// The folder of the endpoint files. Empty if the configuration has no such folder.
    pub folder: PathBuf,
    /// The endpoints, by path.
    pub endpoints: Vec<Endpoint>,
    /// Files that look like endpoint files but aren't served.
    pub unserved: Vec<UnservedFile>,
    /// The tokens, by name.
    pub tokens: BTreeMap<String, Arc<Token>>,
    /// The issuer whose JSON Web Tokens the server accepts. `None`: it accepts no such token.
    pub jwt: Option<JwtSettings>,
    /// Cross-origin rules. `None`: the server sends no CORS headers.
    pub cors: Option<Cors>,
    /// The hosts that requests may name.
    pub hosts: AllowedHosts,
    /// The limits of the server.
    pub limits: Limits,
    /// The log: its format, and which lines are written.
    pub log: LogSettings,
    /// The collector that receives spans, and the share of requests that are traced. `None`: no
    /// traces.
    pub traces: Option<TraceSettings>,
    /// The part of a database's error messages that clients see. `None`: it depends on the listen
    /// address.
    pub error_detail: Option<ErrorDetail>,
    /// The signer of `cursor_secret`, so that two configurations can be compared without their
    /// secrets.
    pub cursor_signer: Signer,
    /// The signer of `url_secret`. `None`: the server has no signed URLs.
    pub url_signer: Option<Signer>,
    /// Further files that `--watch` observes because the configuration refers to them: secrets, and
    /// the TLS files for upstreams.
    pub watched: Vec<PathBuf>,
}

/// The hosts that requests may name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AllowedHosts {
    /// All: a proxy on this machine may pass on its public name.
    All,
    /// Those of this machine, as long as no other machine can connect and no token is needed.
    ThisMachine,
}

impl Config {
    /// The default listen address. Only this machine can reach it.
    pub const LISTEN: &'static str = "127.0.0.1:8080";

    /// The default file mode of a Unix socket: read and write for the process's user and group.
    pub const SOCKET_MODE: u32 = 0o660;

    /// Reads a listen address: `host:port`, `unix:/path`, or `:port` for all addresses of this
    /// machine. Returns `None` for any other text.
    pub(crate) fn listen_address(text: &str) -> Option<String> {
        if let Some(path) = text.strip_prefix("unix:") {
            return path.starts_with('/').then(|| text.to_owned());
        }
        let (host, port) = text.rsplit_once(':')?;
        port.parse::<u16>().ok()?;
        Some(if host.is_empty() { format!("0.0.0.0:{port}") } else { text.to_owned() })
    }

    /// The part of a database's error messages that clients see.
    pub fn error_detail(&self) -> ErrorDetail {
        self.error_detail.unwrap_or_else(|| ErrorDetail::of_address(&self.listen))
    }

    /// True if requests must name this machine as their host: a page whose name was made to resolve to
    /// this machine (DNS rebinding) could read the rows otherwise. A token or another listen address
    /// lifts this.
    pub(crate) fn is_for_own_hosts(&self) -> bool {
        let is_local = || ErrorDetail::of_address(&self.listen) == ErrorDetail::Database;
        self.hosts == AllowedHosts::ThisMachine && self.tokens.is_empty() && is_local()
    }

    /// True if clients can have credentials.
    pub(crate) fn has_credentials(&self) -> bool {
        !self.tokens.is_empty() || self.jwt.is_some()
    }

    /// Makes every request need this token, except the probes `live` and `ready`.
    pub(crate) fn require(&mut self, token: Token) {
        let authorization = Authorization::Tokens(vec![token.name.clone()]);
        self.admin = AdminAccess::of(&authorization);
        for endpoint in &mut self.endpoints {
            endpoint.authorization.clone_from(&authorization);
        }
        self.tokens = BTreeMap::from([(token.name.clone(), Arc::new(token))]);
        self.explain();
    }

    /// Gives each endpoint the longest row of its source, which is known once the memory of the server
    /// has been divided.
    pub(crate) fn bound_rows(&mut self) {
        for endpoint in &mut self.endpoints {
            let longest = self.sources[endpoint.source.index()].max_row_bytes;
            endpoint.longest_row = longest;
            endpoint.forms_mut().iter_mut().for_each(|form| form.longest_row = longest);
        }
    }

    /// Keeps only endpoints with statements, and lets every client read their plans, which are those
    /// of the source's own user.
    pub(crate) fn explain_to_all(&mut self) {
        self.admin.explain = Authorization::Public;
        self.endpoints.retain(|endpoint| !endpoint.statements().is_empty());
        for source in &mut self.sources {
            source.roles = None;
        }
        for endpoint in &mut self.endpoints {
            endpoint.authorization = Authorization::Public;
            for form in endpoint.forms_mut() {
                form.authorization = Authorization::Public;
            }
        }
        self.explain();
    }

    /// Adds, to each endpoint whose database can explain its statements, the endpoint that returns
    /// their plans.
    fn explain(&mut self) {
        for endpoint in &mut self.endpoints {
            if let SourceKind::Sql(database) = self.sources[endpoint.source.index()].kind {
                for form in endpoint.forms_mut() {
                    let explained = form.explained(database.dialect(), &self.admin.explain);
                    form.explained = explained.map(Box::new);
                }
                let explained = endpoint.explained(database.dialect(), &self.admin.explain);
                endpoint.explained = explained.map(Box::new);
            }
        }
    }

    /// The settings of a source.
    pub fn source(&self, source: &SourceRef) -> &SourceConfig {
        &self.sources[source.index()]
    }

    /// Reads a configuration file and its endpoint files. `${NAME}` in a string of the
    /// configuration is replaced by an environment variable. If the environment lacks it, the file
    /// `.env` beside the configuration may set it.
    ///
    /// # Errors
    /// Every error of every file.
    pub fn load(path: &Path) -> Result<Self, Diagnostics> {
        // A variable that isn't Unicode can't be part of a text, so it's reported as not set.
        Self::load_with(path, &|name| std::env::var(name).ok())
    }

    /// [`Config::load`] with variables that aren't from the environment.
    ///
    /// # Errors
    /// Every error of every file.
    pub fn load_with(path: &Path, environment: &dyn Fn(&str) -> Option<String>) -> Result<Self, Diagnostics> {
        read::load(path, environment)
    }

    /// The URL of a database without the parts that may contain a password. `None` if `text` isn't
    /// such a URL.
    pub(crate) fn shown_database(text: &str) -> Option<String> {
        source::shown_database(text)
    }

    /// The message and the hint for the URL of a database that this build lacks. Otherwise `None`.
    pub(crate) fn lacking_database(url: &str) -> Option<(String, String)> {
        let (scheme, _) = url.split_once(':')?;
        source::lacking(scheme).map(|error| (error.message, error.hint))
    }

    /// The variables of the file `.env` in a folder. Empty if the file can't be read: the caller
    /// that reads the configuration there reports the error.
    pub(crate) fn variables_beside(folder: &Path) -> BTreeMap<String, String> {
        dotenv::read(folder, &Collector::default())
    }

    /// The errors of all files, and a partial configuration in which further errors can be found.
    /// It has the sources that could be read, and the endpoints whose own files have no error.
    /// Serve it only if there are no errors at all.
    pub(crate) fn load_partly(path: &Path) -> (Option<Self>, Diagnostics) {
        read::load_partly(path, &|name| std::env::var(name).ok())
    }

    /// A configuration with one source, named `database`, and one endpoint, `/rows`. PostgreSQL infers
    /// the types of its parameters.
    ///
    /// # Errors
    /// Those of [`Config::single_with`].
    pub fn single(url: &str, sql: &str) -> Result<Self, Diagnostics> {
        Self::single_with(url, Path::new("--sql"), sql, Purpose::Serve, &[])
    }

    /// A configuration with one source, named `database`, and one endpoint, `/rows`, for a statement.
    /// Errors refer to the statement by `path`. `arguments` has the types
    /// and values of its parameters.
    ///
    /// # Errors
    /// Errors in the SQL, in the URL (`URL`), and in the parameters (`--param` or `-p`): a missing
    /// type, a value that doesn't fit its type, or a name that the statement doesn't use.
    pub fn single_with(
        url: &str,
        path: &Path,
        sql: &str,
        purpose: Purpose,
        arguments: &[Argument],
    ) -> Result<Self, Diagnostics> {
        single::read(url, path, sql, purpose, arguments)
    }

    /// Reads the URL of a database, or the path of a database file.
    ///
    /// # Errors
    /// An unusable URL.
    pub(crate) fn database(url: &str) -> Result<SourceConfig, Diagnostics> {
        single::database(url).map(|(source, _)| source)
    }

    /// The hint for a CSV that DuckDB can't read here, added to the hint of the error.
    pub(crate) fn csv_hint(path: &str, hint: &str) -> String {
        single::with_init(path, hint)
    }

    /// A configuration with one source, and with endpoints whose files needn't exist. `files` has
    /// their paths below a folder of endpoints, and their texts. Files with an error are left out,
    /// and returned with their first error.
    pub(crate) fn of_endpoints(source: SourceConfig, files: &[(PathBuf, String)]) -> (Self, Vec<Diagnostic>) {
        generated::read(source, files)
    }

    /// Finds a file with a similar name in the folder of a file that doesn't exist.
    pub(crate) fn near_file(path: &Path) -> Option<PathBuf> {
        files::near(path)
    }
}

/// `[cors]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cors {
    /// The allowed origins. `*` alone allows all.
    pub origins: Vec<String>,
    /// How long a browser may cache the response to a preflight.
    pub max_age: Duration,
}

/// The limits of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// The most streams in flight. Further ones get a 503.
    pub max_streams: usize,
    /// The most streams in flight of one client. Further ones get a 429.
    pub max_streams_per_client: Option<usize>,
    /// The most connections of clients. A further one replaces an idle one.
    pub max_connections: usize,
    /// Set if the user chose `max_connections`, and it isn't the default.
    pub max_connections_by: SettingOrigin,
    /// The most connections of one client, unless it's a proxy. A further one replaces its own idle
    /// one.
    pub max_connections_per_client: Option<usize>,
    /// The memory that the server may use, in bytes. `None`: as much as its streams and connections
    /// need.
    pub memory: Option<usize>,
    /// The request rates of clients.
    pub rates: RateLimits,
    /// The most bytes of parameters in the body of a request.
    pub max_body: usize,
    /// The time limit for a client's TLS handshake, for the headers of a request, and for its body.
    pub header_timeout: Duration,
    /// How long an idle connection waits for its next request.
    pub idle_timeout: Duration,
    /// How long a client may read nothing while bytes wait for it.
    pub write_timeout: Duration,
    /// How long the server still accepts connections after SIGTERM. Meanwhile `ready` reports that
    /// it's shutting down.
    pub drain_delay: Duration,
    /// How long streams may continue after that.
    pub drain_timeout: Duration,
    /// Limits for results that are spooled until their end or for a slow client.
    pub spooling: SpoolSettings,
    /// The proxies that we trust to report the address of their client.
    pub proxies: Proxies,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_streams: 1024,
            max_streams_per_client: None,
            max_connections: 4096,
            max_connections_per_client: None,
            max_connections_by: SettingOrigin::Default,
            memory: None,
            rates: RateLimits::default(),
            max_body: 1 << 20,
            header_timeout: Duration::from_secs(30),
            // Like nginx's: proxies keep connections open for up to 60 s, and the client's side
            // must be the first to close.
            idle_timeout: Duration::from_secs(75),
            write_timeout: Duration::from_secs(60),
            drain_delay: Duration::ZERO,
            drain_timeout: Duration::from_secs(30),
            spooling: SpoolSettings::default(),
            proxies: Proxies::default(),
        }
    }
}

/// `[rate_limit]`: limits on requests per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimits {
    /// For one address. `None`: no limit.
    pub per_address: Option<u32>,
    /// For one token. `None`: no limit.
    pub per_token: Option<u32>,
    /// A client may send the requests of one window all at once. At least a second.
    pub window: Duration,
}

impl Default for RateLimits {
    fn default() -> Self {
        Self { per_address: None, per_token: None, window: Duration::from_secs(1) }
    }
}
