//! `rowstream serve`: endpoints from files, or one statement from the command line.

use std::path::PathBuf;
use std::sync::Arc;

use super::{Failure, block_on};
use crate::access_log::{self, LogFormat};
use crate::config::Config;
use crate::respond::App;
use crate::server::Reload;
use crate::{capacity, memory, server, source};

/// Serves the endpoints of a configuration, or one statement at /rows.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The configuration file; with --sql, the URL of a database.
    #[arg(value_name = "CONFIG|URL", default_value = "rowstream.toml")]
    config: PathBuf,
    /// Serve this statement at /rows; its `:names` are parameters.
    #[arg(long, value_name = "STATEMENT")]
    sql: Option<String>,
    /// Reload when the configuration or an endpoint file changes, as on SIGHUP.
    #[arg(long, conflicts_with = "sql")]
    watch: bool,
    #[command(flatten)]
    listen: ListenArgs,
}

/// Where to listen and how to log.
#[derive(Debug, clap::Args)]
pub(super) struct ListenArgs {
    /// Where to listen, instead of where the configuration says; port 0 is any free one.
    #[arg(long, value_name = "HOST:PORT")]
    pub(super) listen: Option<String>,
    /// How access log lines look.
    #[arg(long, value_enum, default_value_t)]
    pub(super) log_format: LogFormat,
}

pub(super) fn run(args: Args) -> Result<(), Failure> {
    let config = match &args.sql {
        Some(sql) => Config::single(&args.config.to_string_lossy(), sql)?,
        None => Config::load(&args.config)?,
    };
    let reload = args.sql.is_none().then(|| Reload {
        path: args.config,
        listen: args.listen.listen.clone(),
        watch: args.watch,
    });
    serve(config, args.listen, reload, |_| {})
}

/// Listens, fills databases that are to be created, says so, and serves until told to stop.
pub(super) fn serve(
    mut config: Config,
    args: ListenArgs,
    reload: Option<Reload>,
    on_listen: impl FnOnce(&str),
) -> Result<(), Failure> {
    if let Some(listen) = args.listen {
        config.listen = listen;
    }
    let served = block_on(async {
        // First, so that a taken port is told before a database is filled.
        let listener =
            server::listen(&config.listen).await.map_err(|error| cannot_listen(&config.listen, &error))?;
        let admin = match &config.admin_listen {
            Some(address) => Some(
                server::listen(address).await.map_err(|error| cannot_listen_for_admin(address, &error))?,
            ),
            None => None,
        };
        for source in &config.sources {
            source::sqlite::create_missing(source)?;
        }
        let url = server::url_of(listener.local_addr()?);
        eprintln!("{}", bounds(&config));
        if let Some(memory) = memory::describe(&config) {
            eprintln!("{memory}");
        }
        if let Some(capacity) = capacity::describe(&config) {
            eprintln!("{capacity}");
        }
        for warning in capacity::warnings(&config) {
            eprintln!("{warning}");
        }
        let app = Arc::new(App::new(config, args.log_format)?);
        eprintln!("listening on {url}");
        if let Some(admin) = &admin {
            eprintln!("own paths at {}/_rowstream/", server::url_of(admin.local_addr()?));
        }
        on_listen(&url);
        Ok(server::serve(listener, admin, app, reload).await?)
    });
    access_log::flush();
    served
}

fn cannot_listen(address: &str, error: &std::io::Error) -> Failure {
    Failure::Message(format!(
        "cannot listen on {address}: {error}\n    hint: choose another address with --listen HOST:PORT"
    ))
}

fn cannot_listen_for_admin(address: &str, error: &std::io::Error) -> Failure {
    Failure::Message(format!(
        "cannot listen on {address}: {error}\n    hint: it is `admin_listen` of the configuration"
    ))
}

/// The bounds of the server in one line: what it can hold at most is configured, and known at start.
pub(super) fn bounds(config: &Config) -> String {
    let pools: Vec<String> = config
        .sources
        .iter()
        .map(|source| {
            let what = match source.kind {
                source::Kind::Sql(_) => "connections",
                source::Kind::Http(_) => "requests",
            };
            format!("source {}: {} {what}, {} waiting", source.name, source.pool.max, source.pool.waiting)
        })
        .collect();
    let files = memory::megabytes(usize::try_from(config.limits.spooling.quota).unwrap_or(usize::MAX));
    let streams = config.limits.max_streams;
    format!("at most {streams} streams; {}; {files} in temporary files", pools.join("; "))
}
