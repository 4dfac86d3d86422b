//! `[source.NAME]` of an HTTP service.

use std::path::Path;

use http::{HeaderName, HeaderValue, StatusCode};
use rowstream_core::diagnostic::Template;
use rowstream_core::diagnostic::reader::{Table, Value, set};
use rowstream_upstream::address::AllowEntry;
use rowstream_upstream::url::{Base, HostAddress};
use rowstream_upstream::{Balance, Health, MOST_HOSTS, Protocol, Retries, Settings, Timeouts, TlsFiles};

use super::super::files::stamped;
use super::{Scheme, UrlError, discover, pool_table, read_pool};
use crate::endpoint::upstream::header_name;
use crate::source::{SourceConfig, SourceKind};

/// Reads the rest of a source, whose URL or URLs are in `given`. Returns `None` and records the
/// reason if they can't be used.
pub(super) fn read(
    name: &str,
    given: &Value<'_>,
    mut table: Table<'_>,
    folder: &Path,
) -> Option<SourceConfig> {
    let hosts = read_hosts(given, folder);
    let known = hosts.as_deref().unwrap_or_default();
    let protocol = table.take("protocol").and_then(|value| read_protocol(&value));
    let tls = read_tls(&mut table, known, folder);
    let allow = table.take("allow");
    let discover = table
        .take("discover")
        .and_then(|value| discover::read(name, &value, hosts.as_deref(), allow.is_some()));
    let headers = table.take("headers").map(|value| read_headers(name, &value)).unwrap_or_default();
    let header_files = headers.iter().filter_map(|(name, _, file)| Some((name.clone(), file.clone()?)));
    let header_files = header_files.collect();
    let headers = headers.into_iter().map(|(name, value, _)| (name, value)).collect();
    let timeouts = table.take("timeout").map(|value| read_timeouts(name, &value)).unwrap_or_default();
    let retries = table.take("retries").and_then(|value| read_retries(name, &value));
    let balance = table.take("balance").and_then(|value| read_balance(&value)).unwrap_or_default();
    let health = match table.take("health") {
        Some(value) => read_health(name, &value),
        // By default, a single host is called even after failures, because there's no other one.
        None => (known.len() > 1).then(Health::default),
    };
    let pool = table.take("pool").and_then(|pool| pool_table(name, &pool).map(|table| (pool, table)));
    let max_row_bytes = table.take("max_row_bytes").and_then(|value| value.size());
    let expected_duration = table.take("expected_duration").and_then(|value| value.duration());
    table.refuse("password_command", "is for databases", "write a token into `headers`");
    table.finish();
    let hosts = hosts?;
    let allow = read_allow(allow.as_ref(), &hosts);
    let url = hosts.iter().map(Base::host_and_port).collect::<Vec<_>>().join(" ");
    let protocol = protocol.unwrap_or_default();
    let (max_per_host, max_age) = (None, None);
    let mut settings = Settings {
        hosts,
        discover,
        balance,
        max_per_host,
        health,
        protocol,
        tls,
        allow,
        headers,
        header_files,
        timeouts,
        retries,
        max_age,
    };
    let mut source = SourceConfig::http(name, url, settings.clone());
    set(&mut source.max_row_bytes, max_row_bytes);
    source.expected_duration = expected_duration;
    if let Some((value, mut pool)) = pool {
        read_pool(&mut pool, &mut source.pool);
        settings.max_age = pool.take("max_age").and_then(|value| value.duration());
        settings.max_per_host = pool.take("max_per_host").and_then(|value| value.count(1));
        pool.finish();
        check_max(&value, source.pool.max, &settings);
        source.kind = SourceKind::Http(Box::new(settings));
    }
    Some(source)
}

fn read_hosts(given: &Value<'_>, folder: &Path) -> Option<Vec<Base>> {
    if !given.is_list() {
        return read_host(given, folder).map(|host| vec![host]);
    }
    let items = given.list()?;
    let hosts: Vec<_> = items.iter().map(|item| read_host(item, folder)).collect();
    if hosts.is_empty() || hosts.len() > MOST_HOSTS {
        let message = format!("`url` lists {} hosts", hosts.len());
        given.error_with(message, format!("a source has from 1 to {MOST_HOSTS} of them"));
        return None;
    }
    let hosts: Vec<_> = hosts.into_iter().collect::<Option<_>>()?;
    for (at, item) in items.iter().enumerate() {
        let name = hosts[at].host_and_port();
        if hosts[..at].iter().any(|other| other.host_and_port() == name) {
            item.error_with("`url` lists this host twice", "leave one out, or make another source of it");
        }
    }
    Some(hosts)
}

fn read_host(value: &Value<'_>, folder: &Path) -> Option<Base> {
    let refuse = |message: &str, hint: &str| {
        value.error_with(message, hint);
        None
    };
    match super::url(&value.string()?, folder) {
        Ok((url, Scheme::Http)) => match Base::parse(&url) {
            Ok(base) => Some(base),
            Err((message, hint)) => refuse(message, hint),
        },
        Ok((_, Scheme::Sql(_))) => {
            refuse("a list is for the hosts of an HTTP service", "write one URL: `url = \"…\"`")
        }
        Err(UrlError { message, hint }) => refuse(&message, &hint),
    }
}

/// Reports an error if the hosts allow fewer requests than the pool has slots.
fn check_max(pool: &Value<'_>, max: usize, settings: &Settings) {
    let Some(max_per_host) = settings.max_per_host else { return };
    let hosts = settings.hosts.len();
    let most = hosts.saturating_mul(max_per_host);
    if most < max {
        let of = if hosts == 1 { "the one host has".to_owned() } else { format!("{hosts} hosts have") };
        let message =
            format!("with `max_per_host = {max_per_host}` {of} {most} requests at most, but `max` is {max}");
        pool.error_with(
            message,
            "raise `max_per_host`, or lower `max`: no host could serve the other requests",
        );
    }
}

fn read_balance(value: &Value<'_>) -> Option<Balance> {
    match value.string()?.as_str() {
        "round_robin" => Some(Balance::RoundRobin),
        "least_busy" => Some(Balance::LeastBusy),
        text => {
            let message = format!("`balance` cannot be {}", value.shown(text));
            value.error_with(message, r#"write "round_robin" or "least_busy""#);
            None
        }
    }
}

fn read_health(source: &str, value: &Value<'_>) -> Option<Health> {
    let mut health = Health::default();
    let mut table = value.table(format!("`health` of [source.{source}]"))?;
    set(&mut health.failures, table.take("failures").and_then(|value| value.count(1)));
    set(&mut health.backoff, table.take("rest").and_then(|value| value.duration()));
    let statuses = table.take("statuses").and_then(|value| value.list()).unwrap_or_default();
    health.statuses = statuses.iter().filter_map(read_status).collect();
    table.finish();
    Some(health)
}

fn read_status(value: &Value<'_>) -> Option<StatusCode> {
    let status = value.count(0)?;
    let code = u16::try_from(status).ok().and_then(|status| StatusCode::from_u16(status).ok());
    let code = code.filter(StatusCode::is_server_error);
    if code.is_none() {
        let hint = "write statuses from 500 to 599, such as `statuses = [502, 503, 504]`";
        value.error_with(format!("{status} can't be a failure of a host"), hint);
    }
    code
}

fn read_protocol(value: &Value<'_>) -> Option<Protocol> {
    match value.string()?.as_str() {
        "auto" => Some(Protocol::Auto),
        "http1" => Some(Protocol::Http1),
        "http2" => Some(Protocol::Http2),
        text => {
            let message = format!("`protocol` cannot be {}", value.shown(text));
            value.error_with(message, r#"write "auto", "http1" or "http2""#);
            None
        }
    }
}

/// The TLS files, which only hosts with TLS may have.
fn read_tls<'a>(table: &mut Table<'a>, hosts: &[Base], folder: &Path) -> TlsFiles {
    let has_tls = hosts.is_empty() || hosts.iter().any(|host| host.tls);
    let read = |key, value: Option<Value<'a>>| {
        let value = value?;
        if !has_tls {
            let message = format!("`{key}` is for TLS, and this URL has none");
            value.error_with(message, "write `https://`, or leave it out");
        }
        Some((value.file(folder)?, value))
    };
    let roots = read("roots", table.take("roots"));
    let certificate = read("cert", table.take("cert"));
    let key = read("key", table.take("key"));
    if let (Some((_, alone)), None) | (None, Some((_, alone))) = (&certificate, &key)
        && has_tls
    {
        alone.error_with(
            "a client's certificate needs its key, and the key its certificate",
            "write both: `cert = \"client.crt\"` and `key = \"client.key\"`",
        );
    }
    let [roots, certificate, key] = [roots, certificate, key].map(|file| file.map(|(path, _)| path));
    let read = [&roots, &certificate, &key].into_iter().flatten().cloned().map(stamped).collect();
    TlsFiles { roots, client: certificate.zip(key), read }
}

/// The addresses that the hosts may have, if the file limits them.
fn read_allow(value: Option<&Value<'_>>, hosts: &[Base]) -> Option<Vec<AllowEntry>> {
    const HINT: &str = "write \"public\", an address, or a network such as \"10.0.0.0/8\"";
    let value = value?;
    let texts = value.strings()?;
    let mut allow = Vec::new();
    for (text, item) in texts {
        let Some(allowed) = AllowEntry::parse(&text) else {
            item.error_with(format!("{} is neither an address nor a network", item.shown(&text)), HINT);
            return Some(allow);
        };
        allow.push(allowed);
    }
    let is_left_out = |base: &Base| match base.host {
        HostAddress::Address(address) => !allow.iter().any(|allowed| allowed.has(address)),
        HostAddress::Name(_) => false,
    };
    if hosts.iter().any(is_left_out) {
        value.error_with("`allow` leaves out the address of the URL", HINT);
    } else if allow.is_empty() {
        value.error_with("`allow` allows no address", HINT);
    }
    Some(allow)
}

/// The fields, each with its text in the configuration if that mentions files.
fn read_headers(source: &str, value: &Value<'_>) -> Vec<(HeaderName, HeaderValue, Option<Template>)> {
    let Some(table) = value.table(format!("`headers` of [source.{source}]")) else { return Vec::new() };
    let fields = table.entries().into_iter().filter_map(|(_, name, value)| {
        let text = value.string()?;
        let field = header_name(&name, &value)?;
        let Ok(mut content) = HeaderValue::from_str(&text) else {
            // It may be a secret, so it isn't shown.
            value.error_with("a header field can't contain this", "use printable ASCII only");
            return None;
        };
        content.set_sensitive(true);
        Some((field, content, value.template()))
    });
    fields.collect()
}

fn read_timeouts(source: &str, value: &Value<'_>) -> Timeouts {
    let mut timeouts = Timeouts::default();
    let hint = "write `timeout = { total = \"10s\" }`, or `connect`, or `first_byte`";
    let table = value.table_like(format!("`timeout` of [source.{source}]"), hint);
    let Some(mut table) = table else { return timeouts };
    set(&mut timeouts.connect, table.take("connect").and_then(|value| value.duration()));
    set(&mut timeouts.first_byte, table.take("first_byte").and_then(|value| value.duration()));
    timeouts.total = table.take("total").and_then(|value| value.duration());
    table.finish();
    timeouts
}

fn read_retries(source: &str, value: &Value<'_>) -> Option<Retries> {
    let mut retries = Retries::default();
    let mut table = value.table(format!("`retries` of [source.{source}]"))?;
    set(&mut retries.max, table.take("max").and_then(|value| u32::try_from(value.count(1)?).ok()));
    set(&mut retries.backoff, table.take("backoff").and_then(|value| value.duration()));
    set(&mut retries.budget, table.take("budget").and_then(|value| value.count(1)));
    table.finish();
    Some(retries)
}
