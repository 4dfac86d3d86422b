//! `rowstream serve`: serves endpoints from files, the tables of a database, or one statement from
//! the command line.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rowstream_core::log::{self, LogFormat};

use super::guard::GuardArgs;
use super::locate::{ConfigArgs, GivenTarget, folder, target};
use super::{Failure, block_on, listen, listing, param, tables};
use crate::access_log::{LogFlag, LogSettings};
use crate::capacity;
use crate::config::memory;
use crate::config::{Argument, Config, Purpose, Tls};
use crate::respond::App;
use crate::server;
use crate::server::{
    EndpointOrigin, Listener, Listeners, PreparationTime, RefusalTreatment, ReloadSettings, Roles,
};
use crate::source;

/// Serves the endpoints of a configuration, the tables of a database, or one statement at /rows.
#[derive(Debug, clap::Args)]
pub(super) struct ServeArgs {
    /// The configuration file, or its folder; or the URL of a database or the path of a SQLite
    /// file, to serve its tables and views, or one statement with --sql [default: rowstream.toml].
    #[arg(value_name = "CONFIG|URL")]
    given: Option<PathBuf>,
    #[command(flatten)]
    config: ConfigArgs,
    /// Serve this statement at /rows; its `:names` are parameters.
    #[arg(long, value_name = "STATEMENT")]
    sql: Option<String>,
    /// A parameter of the statement with its type (integer, number, text, boolean, date, timestamp,
    /// duration, uuid, json, and lists: integer[]), and its default if it's optional. An empty
    /// default is NULL, except for text.
    ///
    /// The type may be left out if PostgreSQL infers it from the statement. Other databases don't
    /// infer types.
    #[arg(short, long, value_name = "NAME:TYPE[=DEFAULT]", requires = "sql", value_parser = param::parse)]
    param: Vec<Argument>,
    /// Reload when the configuration or an endpoint file changes, as on SIGHUP. Without files,
    /// reload when the tables of the database change.
    #[arg(long, conflicts_with = "sql")]
    watch: bool,
    /// Don't prepare every statement at the start and at each reload.
    #[arg(long)]
    no_check: bool,
    /// The mode of a pooler in front of the database at URL, which lends its connections for a
    /// transaction or for a session each, like `pooler` in a configuration. PostgreSQL only.
    #[arg(long, value_enum, value_name = "MODE")]
    pooler: Option<tables::PoolerMode>,
    #[command(flatten)]
    guard: GuardArgs,
    #[command(flatten)]
    listen: ListenArgs,
}

/// Where to listen and how to log.
#[derive(Debug, clap::Args)]
pub(super) struct ListenArgs {
    /// The address to listen on, instead of the configuration's. :PORT is all addresses of this
    /// machine, and port 0 is any free port.
    #[arg(long, value_name = "[HOST]:PORT|unix:PATH", value_parser = listen::parse)]
    pub(super) listen: Option<String>,
    /// The port to listen on, instead of the one in the address.
    #[arg(long, value_name = "PORT")]
    pub(super) port: Option<u16>,
    /// Open the console in a browser.
    #[arg(long)]
    pub(super) open: bool,
    /// The format of log lines, instead of the configuration's: those of requests on standard
    /// output, and all others on standard error.
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub(super) log_format: Option<LogFlag>,
}

impl ServeArgs {
    fn chosen(&self) -> PathBuf {
        self.config.chosen(self.given.as_ref())
    }

    /// The folder of `.env`.
    pub(super) fn folder(&self) -> PathBuf {
        folder(&self.chosen())
    }
}

pub(super) fn run(args: &ServeArgs) -> Result<(), Failure> {
    let preparing = if args.no_check { PreparationTime::Never } else { PreparationTime::Ahead };
    // Errors before the configuration is read use this format too.
    log::set_format(LogSettings::default().with(args.listen.log_format).format);
    let token = args.guard.read()?;
    let Some(sql) = &args.sql else {
        let (config, origin) = match target(&args.chosen())? {
            GivenTarget::Configuration(_) if args.pooler.is_some() => {
                let message = "`--pooler` is for the URL of a database: write `pooler` into the source";
                return Err(Failure::Message(message.to_owned()));
            }
            GivenTarget::Configuration(_) if args.guard.is_given() => {
                let message = "a token of the command line is for the URL of a database: write `[token.NAME]` into the configuration\n    hint: `rowstream token NAME` prints it";
                return Err(Failure::Message(message.to_owned()));
            }
            GivenTarget::Configuration(path) => {
                let config = load(&path, args.listen.log_format)?;
                let origin = EndpointOrigin::file(path, &config);
                (config, origin)
            }
            GivenTarget::Database(url) => tables::configuration(&url, args.pooler, token)?,
        };
        let (inherited, log) = (Roles::default(), args.listen.log_format);
        let listen = args.listen.address(&config.listen);
        let reload = ReloadSettings { origin, listen, inherited, log, watch: args.watch, preparing };
        return serve(config, &args.listen, preparing, Some(reload), |_| {});
    };
    let mut config = Config::single_with(
        &args.chosen().to_string_lossy(),
        Path::new("--sql"),
        sql,
        Purpose::Serve,
        &args.param,
    )?;
    tables::set_pooler(&mut config.sources[0], args.pooler)?;
    if let Some(token) = token {
        config.require(token);
    }
    serve(config, &args.listen, preparing, None, |_| {})
}

/// Listens, fills databases that must be created, checks the statements, reports that it's ready,
/// and serves until it's stopped.
pub(super) fn serve(
    mut config: Config,
    args: &ListenArgs,
    preparing: PreparationTime,
    mut reload: Option<ReloadSettings>,
    on_listen: impl FnOnce(&str),
) -> Result<(), Failure> {
    if let Some(listen) = args.address(&config.listen) {
        config.listen = listen;
    }
    config.log = config.log.with(args.log_format);
    log::set_format(config.log.format);
    block_on(async {
        server::ignore_user_signals()?;
        // First, so that we report a port in use before we fill a database.
        let inherited = server::inherited()?;
        let addresses = inherited.addresses();
        addresses.apply(&mut config);
        let listeners = listen(&config, inherited).await?;
        if let Some(reload) = &mut reload {
            reload.inherited = addresses;
        }
        for source in &config.sources {
            source.create_missing()?;
        }
        let scheme = if config.tls.is_some() { "https" } else { "http" };
        let url = listeners.public.url(scheme)?;
        if config.log.format == LogFormat::Text {
            for line in listing::lines(&config, &url) {
                log::info!("{line}");
            }
        }
        log::info!("{}", bounds(&config));
        if let Some(memory) = memory::describe(&config) {
            log::info!("{memory}");
        }
        if let Some(capacity) = capacity::describe(&config) {
            log::info!("{capacity}");
        }
        for unserved in &config.unserved {
            log::warning!("{unserved}");
        }
        for warning in capacity::warnings(&config) {
            log::warning!("{warning}");
        }
        if let Some(expired) = config.tls.as_ref().and_then(Tls::expired) {
            log::warning!("{expired}");
        }
        if let Some(open) = open_tables(&config, reload.as_ref(), &listeners.public) {
            log::warning!("{open}");
        }
        let has_console = config.console;
        let mut app = App::new(config)?;
        if preparing == PreparationTime::Ahead {
            let on_refusal =
                reload.as_ref().map_or(RefusalTreatment::Stop, |reload| reload.origin.on_refusal());
            app = server::prepare(app, on_refusal).await.map_err(Failure::Refused)?;
        }
        log::info!("listening on {url}");
        if let Some(redirect) = &listeners.redirect {
            log::info!("{} redirects there", redirect.url("http")?);
        }
        if let Some(admin) = &listeners.admin {
            log::info!("admin endpoints at {}/_rowstream/", admin.url("http")?);
        }
        on_listen(&url);
        if args.open {
            listen::open_browser(scheme, listeners.public.address()?, has_console);
        }
        Ok(server::serve(listeners, Arc::new(app), reload).await?)
    })
}

/// Warns if the whole network can read tables without a token.
fn open_tables(config: &Config, reload: Option<&ReloadSettings>, listener: &Listener) -> Option<String> {
    let is_tables = reload.is_some_and(|reload| matches!(reload.origin, EndpointOrigin::Tables(_)));
    let address = listener.address().ok().filter(|address| !address.ip().is_loopback())?;
    (is_tables && config.tokens.is_empty()).then(|| {
        format!(
            "warning: anyone who can reach {address} can read every table and view of this database, and the \
             server's metrics, streams and plans\n    hint: `--token-file FILE` or `--token TOKEN` requires \
             a token of each request, and `rowstream token` makes one; `--listen 127.0.0.1:{}` serves only \
             this machine",
            address.port()
        )
    })
}

/// Reads a configuration. Its errors are logged in its own format, if that could be read.
fn load(path: &Path, log: Option<LogFlag>) -> Result<Config, Failure> {
    let config = Config::load(path).inspect_err(|_| {
        let (config, _) = Config::load_partly(path);
        log::set_format(config.map(|config| config.log).unwrap_or_default().with(log).format);
    });
    Ok(config?)
}

/// Opens the ports of a configuration that weren't inherited.
async fn listen(config: &Config, inherited: Roles<Listener>) -> Result<Listeners, Failure> {
    let public = match inherited.public {
        Some(listener) => listener,
        None => Listener::open(&config.listen, config.socket_mode)
            .await
            .map_err(|error| cannot_listen(&config.listen, &error))?,
    };
    let admin = config.admin_listen.as_deref().map(|address| (address, "admin_listen"));
    let redirect = config.tls.as_ref().and_then(|tls| tls.redirect.as_deref());
    let redirect = redirect.map(|address| (address, "redirect"));
    Ok(Listeners {
        public,
        admin: listen_if(admin, config.socket_mode, inherited.admin).await?,
        redirect: listen_if(redirect, config.socket_mode, inherited.redirect).await?,
    })
}

fn cannot_listen(address: &str, error: &std::io::Error) -> Failure {
    Failure::Message(format!(
        "cannot listen on {address}: {error}\n    hint: choose another address with --listen HOST:PORT"
    ))
}

/// Opens the port of an optional address, unless its socket was inherited. Errors name the
/// address's key.
async fn listen_if(
    address: Option<(&str, &str)>,
    mode: u32,
    inherited: Option<Listener>,
) -> Result<Option<Listener>, Failure> {
    let Some((address, key)) = address else { return Ok(None) };
    if inherited.is_some() {
        return Ok(inherited);
    }
    let listener = Listener::open(address, mode).await.map_err(|error| {
        Failure::Message(format!(
            "cannot listen on {address}: {error}\n    hint: it is `{key}` of the configuration"
        ))
    })?;
    Ok(Some(listener))
}

/// The limits of the server in one line. They're configured, so they're known at the start.
pub(super) fn bounds(config: &Config) -> String {
    let pools: Vec<String> = config
        .sources
        .iter()
        .map(|source| {
            let what = match source.kind {
                source::SourceKind::Sql(_) => "connections",
                source::SourceKind::Http(_) => "requests",
            };
            format!("source {}: {} {what}, {} waiting", source.name, source.pool.max, source.pool.waiting)
        })
        .collect();
    let files = memory::size(usize::try_from(config.limits.spooling.quota).unwrap_or(usize::MAX));
    let streams = config.limits.max_streams;
    format!("at most {streams} streams; {}; {files} in temporary files", pools.join("; "))
}
