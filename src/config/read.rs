//! Reads `rowstream.toml`, then the endpoints.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ipnet::IpNet;
use rowstream_core::client::{ClientHeader, UNIX};
use rowstream_core::cursor::Signer;
use rowstream_core::diagnostic::reader::{Table, Value, set};
use rowstream_core::diagnostic::{Collector, Diagnostics, Environment, File, Variables, shown};
use rowstream_core::error::detail;
use rowstream_core::log::LogFormat;
use rowstream_core::settings::SettingOrigin;

use super::memory;
use super::{
    AllowedHosts, Config, Cors, Discovery, Limits, RateLimits, UnservedFile, admin, discovery, dotenv, files,
    jwt, source, tls, tokens, traces,
};
use crate::access_log::LogSettings;
use crate::database::SourceContext;
use crate::endpoint::read::{self as endpoint, ClientIdentification, Defaults};
use crate::endpoint::{Authorization, Endpoint, ResponseSettings};
use crate::route::conflicts;
use crate::source::SourceConfig;
use crate::spool::SpoolSettings;

/// How long a browser may cache a preflight by default: long enough to save most of them, and short
/// enough that a change soon takes effect.
const CORS_MAX_AGE: Duration = Duration::from_secs(600);

/// The shortest and the longest `idle_timeout` of connections to clients.
const IDLE_TIMEOUTS: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(24 * 60 * 60)];
/// The shortest and the longest window of a rate. HTTP's fields for rates have whole seconds.
const RATE_WINDOWS: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(24 * 60 * 60)];
/// The highest rate. Beyond it, the time between two requests is too few nanoseconds to be exact.
const MOST_REQUESTS: usize = 1_000_000;
/// The shortest `url_secret`, in bytes.
const LEAST_URL_SECRET: usize = 32;

/// See [`Config::load_with`].
pub(super) fn load(path: &Path, environment: &Environment<'_>) -> Result<Config, Diagnostics> {
    let errors = Collector::default();
    let config = read(path, environment, &errors);
    errors.finish(config).map(|config| config.expect("a configuration that wasn't read has left an error"))
}

/// See [`Config::load_partly`].
pub(super) fn load_partly(path: &Path, environment: &Environment<'_>) -> (Option<Config>, Diagnostics) {
    let collector = Collector::default();
    let mut config = read(path, environment, &collector);
    let errors = collector.into_diagnostics();
    if let Some(Config { endpoints, .. }) = &mut config {
        let is_whole = |endpoint: &Endpoint| errors.iter().all(|error| error.file != endpoint.file);
        endpoints.retain(is_whole);
    }
    (config, errors)
}

fn read(path: &Path, environment: &Environment<'_>, errors: &Collector) -> Option<Config> {
    let text = files::read_text(path, errors)?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let beside = dotenv::read(folder, errors);
    let environment = |name: &str| environment(name).or_else(|| beside.get(name).cloned());
    let file = File { path, text: &text, variables: Variables::Expand(&environment), errors };
    let mut table = Table::parse(file, 0..text.len(), None)?;

    let jwt = table.take("jwt");
    let context = SourceContext { folder, has_claims: jwt.is_some() };
    let sources = read_sources(file, table.take("source"), &context);
    let tokens = tokens::read(table.take("token"));
    let mut identification = tokens.identification;
    identification.has_claims = jwt.is_some();
    identification.asks |= identification.has_claims;
    let jwt = jwt.and_then(|value| jwt::read(&value, folder, errors));
    identification.scopes.extend(jwt.iter().flat_map(|jwt| &jwt.scopes).cloned());
    let cursor_secret = table.take("cursor_secret").and_then(|value| value.string()).unwrap_or_default();
    let defaults = Defaults {
        sources: &sources,
        identification: &identification,
        authorization: read_authorization(table.take("authorization"), &identification),
        response: ResponseSettings::take(&mut table, &ResponseSettings::default()),
        cursor_secret: &cursor_secret,
    };
    let (endpoint_folder, endpoints, unserved) =
        read_folder(file, table.take("endpoints").as_ref(), folder, &defaults);
    let mut config = Config {
        listen: table
            .take("listen")
            .and_then(|value| read_listen(&value))
            .unwrap_or_else(|| Config::LISTEN.to_owned()),
        socket_mode: table
            .take("socket_mode")
            .and_then(|value| read_mode(&value))
            .unwrap_or(Config::SOCKET_MODE),
        admin_listen: table.take("admin_listen").and_then(|value| read_listen(&value)),
        admin: admin::read(table.take("admin"), &identification),
        console: table.take("console").and_then(|value| value.boolean()).unwrap_or(true),
        discovery: table.take("discovery").map_or_else(Discovery::default, |value| discovery::read(&value)),
        tls: table.take("tls").and_then(|value| tls::read(&value, folder)),
        limits: read_limits(&mut table, folder),
        hosts: AllowedHosts::All,
        cors: table.take("cors").and_then(|value| read_cors(&value)),
        log: table.take("log").map_or_else(LogSettings::default, |value| read_log(&value)),
        traces: table.take("traces").and_then(|value| traces::read(&value)),
        error_detail: table.take("error_detail").and_then(|value| detail::read(&value)),
        tokens: tokens.read,
        jwt,
        sources: sources.into_iter().filter_map(|(_, source)| source).collect(),
        folder: endpoint_folder,
        endpoints,
        unserved,
        cursor_signer: Signer::new(&cursor_secret, &[]),
        url_signer: table.take("url_secret").and_then(|value| read_url_secret(&value, &cursor_secret)),
        watched: Vec::new(),
    };
    if table.take("explain").and_then(|value| value.boolean()) == Some(true) {
        config.explain();
    }
    if let Some(value) = table.take("memory") {
        config.limits.memory = value.size();
        memory::fit_defaults(&mut config);
        if let Some((message, hint)) = memory::error(&config) {
            value.error_with(message, hint);
        }
    }
    table.finish();
    config.watched = errors.files();
    Some(config)
}

/// The signer of URLs. Anyone who has a signed URL can try secrets, so a short one isn't enough. And
/// without a secret for cursors, `Last-Event-ID` could move the URL to any row of its list.
fn read_url_secret(value: &Value<'_>, cursor_secret: &str) -> Option<Signer> {
    let secret = value.string()?;
    if cursor_secret.is_empty() {
        value.error_with(
            "`url_secret` needs `cursor_secret`, because anyone could make up cursors for signed URLs",
            "set `cursor_secret` too, to another secret",
        );
    }
    if secret.len() < LEAST_URL_SECRET {
        let message = format!("`url_secret` is shorter than {LEAST_URL_SECRET} bytes");
        value.error_with(message, "use the output of `openssl rand -hex 32`");
    }
    Some(Signer::new(&secret, &[]))
}

/// The sources by name. A source with an error has no configuration.
fn read_sources(
    file: File<'_>,
    value: Option<Value<'_>>,
    context: &SourceContext<'_>,
) -> Vec<(String, Option<SourceConfig>)> {
    let Some(value) = value else {
        let hint = "add `[source.main]` with `url = \"postgres://…\"` or `url = \"sqlite:…\"`".to_owned();
        file.error(0, "the configuration has no source", Some(hint));
        return Vec::new();
    };
    let entries = value.table("[source]").map(Table::entries).unwrap_or_default();
    entries
        .into_iter()
        .map(|(_, name, value)| {
            let source = source::read(&name, &value, context);
            (name, source)
        })
        .collect()
}

/// The default authorization of endpoints. Without tokens, every client may call them. With tokens,
/// there's no default, so that an endpoint isn't opened by accident.
fn read_authorization(
    value: Option<Value<'_>>,
    identification: &ClientIdentification,
) -> Option<Authorization> {
    match value {
        // An error in the value isn't reported again at each endpoint that relies on it.
        Some(value) => Some(endpoint::authorization(&value, identification).unwrap_or(Authorization::Public)),
        None => (!identification.asks).then_some(Authorization::Public),
    }
}

/// `host:port`, `:port`, or `unix:/path`.
pub(super) fn read_listen(value: &Value<'_>) -> Option<String> {
    let text = value.string_or_number(|port| {
        format!("write \"127.0.0.1:{port}\" for this machine only, or \":{port}\" for all its addresses")
    })?;
    let address = Config::listen_address(&text);
    if address.is_none() {
        let message = format!("{} isn't an address to listen on", value.shown(&text));
        value.error_with(
            message,
            "write host and port: \"127.0.0.1:8080\", \"[::]:80\"; or a file: \"unix:/run/rowstream/http.sock\"",
        );
    }
    address
}

/// Reads a file mode in the form that `chmod` uses.
fn read_mode(value: &Value<'_>) -> Option<u32> {
    let text = value.string()?;
    let mode = u32::from_str_radix(&text, 8).ok().filter(|mode| *mode <= 0o777);
    if mode.is_none() {
        value.error_with(
            format!("{} isn't a file mode", value.shown(&text)),
            "write it as for `chmod`: \"0660\"",
        );
    }
    mode
}

/// A folder, relative to the folder of the configuration file.
fn read_spool_folder(value: &Value<'_>, base: &Path) -> Option<PathBuf> {
    let name = value.string()?;
    let folder = base.join(&name);
    if !folder.is_dir() {
        value.error_with(
            format!("there is no folder {}", value.shown(&name)),
            "make it, or leave it out for the system's",
        );
        return None;
    }
    Some(folder)
}

fn read_limits(table: &mut Table<'_>, folder: &Path) -> Limits {
    let mut limits = Limits::default();
    set(&mut limits.max_streams, table.take("max_streams").and_then(|value| value.count(1)));
    limits.max_streams_per_client = table.take("max_streams_per_client").and_then(|value| value.count(1));
    if let Some(count) = table.take("max_connections").and_then(|value| value.count(1)) {
        (limits.max_connections, limits.max_connections_by) = (count, SettingOrigin::User);
    }
    limits.max_connections_per_client =
        table.take("max_connections_per_client").and_then(|value| value.count(1));
    limits.rates = table.take("rate_limit").map_or_else(RateLimits::default, |value| read_rates(&value));
    set(&mut limits.max_body, table.take("max_body").and_then(|value| value.size()));
    set(&mut limits.header_timeout, table.take("header_timeout").and_then(|value| value.duration()));
    set(&mut limits.idle_timeout, table.take("idle_timeout").and_then(|value| read_idle_timeout(&value)));
    set(&mut limits.write_timeout, table.take("write_timeout").and_then(|value| value.duration()));
    set(&mut limits.drain_delay, table.take("drain_delay").and_then(|value| value.duration()));
    set(&mut limits.drain_timeout, table.take("drain_timeout").and_then(|value| value.duration()));
    limits.spooling = read_spooling(table, folder);
    if let Some(value) = table.take("trusted_proxies") {
        limits.proxies.trusted = read_networks(&value);
    }
    if let Some(value) = table.take("proxy_protocol") {
        limits.proxies.announcing = read_networks(&value);
    }
    set(&mut limits.proxies.header, table.take("client_header").and_then(|value| read_client_header(&value)));
    limits
}

fn read_idle_timeout(value: &Value<'_>) -> Option<Duration> {
    let idle = value.duration()?;
    if !(IDLE_TIMEOUTS[0]..=IDLE_TIMEOUTS[1]).contains(&idle) {
        value.error_with(
            "`idle_timeout` must be from one second to one day",
            "write more than the proxy's own, such as \"75s\"",
        );
    }
    Some(idle)
}

fn read_rates(value: &Value<'_>) -> RateLimits {
    let mut rates = RateLimits::default();
    let Some(mut table) = value.table("[rate_limit]") else { return rates };
    rates.per_address = table.take("per_address").and_then(|value| read_rate(&value));
    rates.per_token = table.take("per_token").and_then(|value| read_rate(&value));
    if let Some(value) = table.take("window") {
        set(&mut rates.window, value.duration());
        if !(RATE_WINDOWS[0]..=RATE_WINDOWS[1]).contains(&rates.window) {
            value.error_with("`window` must be from one second to one day", "write \"1s\" or \"1m\"");
        }
    }
    table.finish();
    rates
}

/// Requests per second.
fn read_rate(value: &Value<'_>) -> Option<u32> {
    let rate = value.count(1)?;
    if rate > MOST_REQUESTS {
        value.error_with(
            format!("a client cannot be kept to {rate} requests per second"),
            format!("write {MOST_REQUESTS} at most, or leave it out for no limit"),
        );
    }
    u32::try_from(rate).ok()
}

fn read_spooling(table: &mut Table<'_>, folder: &Path) -> SpoolSettings {
    let mut spooling = SpoolSettings::default();
    let limit = table.take("spool_limit");
    set(&mut spooling.limit, limit.as_ref().and_then(Value::size).map(|size| size as u64));
    let quota = table.take("spool_quota");
    set(&mut spooling.quota, quota.as_ref().and_then(Value::size).map(|size| size as u64));
    if let Some(value) = quota.or(limit)
        && spooling.limit > spooling.quota
    {
        let SpoolSettings { limit, quota, .. } = spooling;
        let message = format!(
            "`spool_limit` lets one result take {limit} bytes, and `spool_quota` all of them {quota}"
        );
        value.error_with(message, "raise `spool_quota`, or lower `spool_limit`");
    }
    spooling.folder = table.take("spool_folder").and_then(|value| read_spool_folder(&value, folder));
    spooling
}

/// Addresses and networks. `"unix"` means the clients of a Unix socket.
fn read_networks(value: &Value<'_>) -> Vec<IpNet> {
    let networks = value.strings().unwrap_or_default().into_iter().filter_map(|(text, item)| {
        let address = || if text == "unix" { Ok(UNIX) } else { text.parse() };
        let network = text.parse().or_else(|_| address().map(IpNet::from));
        if network.is_err() {
            let message = format!("{} is neither an address nor a network", item.shown(&text));
            item.error_with(message, "write \"10.0.0.1\", \"10.0.0.0/8\", \"2001:db8::/32\" or \"unix\"");
        }
        network.ok()
    });
    networks.collect()
}

fn read_client_header(value: &Value<'_>) -> Option<ClientHeader> {
    match value.string()?.to_ascii_lowercase().as_str() {
        "x-forwarded-for" => Some(ClientHeader::XForwardedFor),
        "forwarded" => Some(ClientHeader::Forwarded),
        text => {
            let message = format!("`client_header` cannot be {}", value.shown(text));
            value.error_with(message, "write \"x-forwarded-for\" or \"forwarded\"");
            None
        }
    }
}

fn read_log(value: &Value<'_>) -> LogSettings {
    let mut log = LogSettings::default();
    let Some(mut table) = value.table("[log]") else { return log };
    set(&mut log.format, table.take("format").and_then(|value| read_log_format(&value)));
    set(&mut log.access, table.take("access").and_then(|value| value.boolean()));
    set(&mut log.sample, table.take("sample").and_then(|value| read_sample(&value)));
    table.finish();
    log
}

fn read_log_format(value: &Value<'_>) -> Option<LogFormat> {
    match value.string()?.as_str() {
        "text" => Some(LogFormat::Text),
        "json" => Some(LogFormat::Json),
        text => {
            let message = format!("`format` cannot be {}", value.shown(text));
            value.error_with(message, "write \"text\" or \"json\"; `access = false` is for no access log");
            None
        }
    }
}

pub(super) fn read_sample(value: &Value<'_>) -> Option<f64> {
    let text = value.scalar_text().filter(|_| !value.is_string());
    let sample = text.and_then(|text| text.parse().ok()).filter(|sample| (0.0..=1.0).contains(sample));
    if sample.is_none() {
        value.error_with(
            "`sample` must be a number from 0 to 1",
            "write 0.01 for one in a hundred of the requests that went well; all others have a line",
        );
    }
    sample
}

fn read_cors(value: &Value<'_>) -> Option<Cors> {
    let mut table = value.table("[cors]")?;
    let origins =
        table.require("origins", "write `origins = [\"https://example.org\"]`, or `[\"*\"]` for all");
    let max_age = table.take("max_age").and_then(|value| value.duration()).unwrap_or(CORS_MAX_AGE);
    table.finish();
    let origins = read_origins(&origins?)?;
    Some(Cors { origins, max_age })
}

fn read_origins(value: &Value<'_>) -> Option<Vec<String>> {
    let origins = value.strings()?;
    if origins.is_empty() {
        value.error_with("`origins` is empty", "list some, or leave out `[cors]`");
    }
    for (origin, item) in &origins {
        if origin == "*" && origins.len() > 1 {
            item.error_with(
                "`*` allows all origins, but others are listed too",
                "leave out one or the others",
            );
        } else if origin != "*" && !is_origin(origin) {
            let message = format!("{} isn't an origin", item.shown(origin));
            item.error_with(message, "write scheme, host and port as browsers do: \"https://example.org\", without a slash at the end");
        }
    }
    Some(origins.into_iter().map(|(origin, _)| origin).collect())
}

/// Returns true if browsers can send this text as `Origin`: they write it in lower case and without
/// a path.
fn is_origin(text: &str) -> bool {
    let Some((scheme, host)) = text.split_once("://") else { return text == "null" };
    let plain = |text: &str| {
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic() && !byte.is_ascii_uppercase())
    };
    plain(scheme) && plain(host) && !host.contains(['/', '?', '#', '@', '*'])
}

/// The folder that the file names, its endpoints, and the files that look like endpoints but aren't
/// served.
fn read_folder(
    file: File<'_>,
    value: Option<&Value<'_>>,
    base: &Path,
    defaults: &Defaults<'_>,
) -> (PathBuf, Vec<Endpoint>, Vec<UnservedFile>) {
    let offset = value.map_or(0, Value::offset);
    let name = match value {
        None => "endpoints".to_owned(),
        Some(value) => match value.string() {
            Some(name) => name,
            None => return Default::default(),
        },
    };
    let named = value.map_or_else(|| shown(&name), |value| value.shown(&name));
    let folder = base.join(&name);
    if !folder.is_dir() {
        let hint = "it holds the endpoint files; name it with `endpoints = \"FOLDER\"`".to_owned();
        file.error(offset, format!("there is no folder {named} beside this file"), Some(hint));
        return Default::default();
    }
    let files::FolderContents { served: found, unserved } = files::endpoints(&folder, file.errors);
    if found.is_empty() {
        let hint = match unserved.first() {
            Some(unserved) => unserved.advice(),
            None => "write one: `endpoints/NAME.sql` answers at `/NAME`".to_owned(),
        };
        file.error(offset, format!("the folder {named} has no endpoints"), Some(hint));
    }
    let endpoints: Vec<_> =
        found.iter().filter_map(|relative| read_endpoint(&folder, relative, defaults, file.errors)).collect();
    check_conflicts(&endpoints, file.errors);
    (folder, endpoints, unserved)
}

fn read_endpoint(
    folder: &Path,
    relative: &Path,
    defaults: &Defaults<'_>,
    errors: &Collector,
) -> Option<Endpoint> {
    let path = folder.join(relative);
    let text = files::read_text(&path, errors)?;
    let file = File { path: &path, text: &text, variables: Variables::Keep, errors };
    endpoint::read(file, relative, defaults)
}

pub(super) fn check_conflicts(endpoints: &[Endpoint], errors: &Collector) {
    let paths: Vec<_> = endpoints.iter().map(|endpoint| endpoint.path.as_str()).collect();
    for conflict in conflicts(&paths) {
        let (first, second) = (&endpoints[conflict.first], &endpoints[conflict.second]);
        let message = format!(
            "the path {} is taken by {} ({})",
            shown(&second.path),
            first.file.display(),
            shown(&first.path)
        );
        errors.add_to_file(&second.file, message, Some("give one of them another path: `path = \"/…\"`"));
    }
}
