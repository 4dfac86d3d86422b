//! `[source.NAME]` of an HTTP service.

use std::path::{Path, PathBuf};

use http::{HeaderName, HeaderValue};
use ipnet::IpNet;

use super::{pool_table, read_pool};
use crate::endpoint::upstream::header_name;
use crate::fault::reader::{Table, Value, set};
use crate::source::http::address::Allowed;
use crate::source::http::url::{Base, Host};
use crate::source::http::{Protocol, Retries, Settings, Timeouts};
use crate::source::{Kind, SourceConfig};

/// Reads the rest of a source, whose `url` was `given` so. `None`, with the reason recorded, when that cannot be used.
pub(super) fn read(
    name: &str,
    url: &str,
    given: &Value<'_>,
    mut table: Table<'_>,
    folder: &Path,
) -> Option<SourceConfig> {
    let base = Base::parse(url).map_err(|(message, hint)| given.fault_with(message, hint)).ok();
    let protocol = table.take("protocol").and_then(|value| read_protocol(&value));
    let roots = table.take("roots").and_then(|value| read_roots(&value, base.as_ref(), folder));
    let allow = table.take("allow");
    let headers = table.take("headers").map(|value| read_headers(name, &value)).unwrap_or_default();
    let timeouts = table.take("timeout").map(|value| read_timeouts(name, &value)).unwrap_or_default();
    let retries = table.take("retries").and_then(|value| read_retries(name, &value));
    let pool = table.take("pool").and_then(|pool| pool_table(name, &pool));
    let max_row_bytes = table.take("max_row_bytes").and_then(|value| value.size());
    let expected_duration = table.take("expected_duration").and_then(|value| value.duration());
    table.finish();
    let base = base?;
    let allow = read_allow(allow.as_ref(), &base);
    let protocol = protocol.unwrap_or_default();
    let settings = Settings { base, protocol, roots, allow, headers, timeouts, retries, max_age: None };
    let mut source = SourceConfig::http(name, url, settings.clone());
    set(&mut source.max_row_bytes, max_row_bytes);
    source.expected_duration = expected_duration;
    if let Some(mut pool) = pool {
        read_pool(&mut pool, &mut source.pool);
        let max_age = pool.take("max_age").and_then(|value| value.duration());
        pool.finish();
        source.kind = Kind::Http(Box::new(Settings { max_age, ..settings }));
    }
    Some(source)
}

fn read_protocol(value: &Value<'_>) -> Option<Protocol> {
    match value.string()?.as_str() {
        "auto" => Some(Protocol::Auto),
        "http1" => Some(Protocol::Http1),
        "http2" => Some(Protocol::Http2),
        text => {
            let message = format!("`protocol` cannot be {}", value.shown(text));
            value.fault_with(message, r#"write "auto", "http1" or "http2""#);
            None
        }
    }
}

fn read_roots(value: &Value<'_>, base: Option<&Base>, folder: &Path) -> Option<PathBuf> {
    let name = value.string()?;
    if base.is_some_and(|base| !base.tls) {
        value.fault_with("`roots` are for TLS, and this URL has none", "write `https://`, or leave it out");
    }
    let path = folder.join(&name);
    if !path.is_file() {
        value.fault(format!("there is no file {}", value.shown(&name)));
    }
    Some(path)
}

/// The addresses that the host may have: those that the file lists, else the one that the URL names, else every public one.
fn read_allow(value: Option<&Value<'_>>, base: &Base) -> Vec<Allowed> {
    const HINT: &str = "write \"public\", an address, or a network such as \"10.0.0.0/8\"";
    let Some(value) = value else {
        return vec![match base.host {
            Host::Address(address) => Allowed::Network(IpNet::from(address)),
            Host::Name(_) => Allowed::Public,
        }];
    };
    let Some(texts) = value.strings() else { return Vec::new() };
    let mut allow = Vec::new();
    for (text, item) in texts {
        let Some(allowed) = Allowed::parse(&text) else {
            item.fault_with(format!("{} is no address and no network", item.shown(&text)), HINT);
            return allow;
        };
        allow.push(allowed);
    }
    if let Host::Address(address) = base.host
        && !allow.iter().any(|allowed| allowed.has(address))
    {
        value.fault_with("`allow` leaves out the address of the URL", HINT);
    } else if allow.is_empty() {
        value.fault_with("`allow` allows no address", HINT);
    }
    allow
}

fn read_headers(source: &str, value: &Value<'_>) -> Vec<(HeaderName, HeaderValue)> {
    let Some(table) = value.table(format!("`headers` of [source.{source}]")) else { return Vec::new() };
    let fields = table.entries().into_iter().filter_map(|(_, name, value)| {
        let text = value.string()?;
        let field = header_name(&name, &value)?;
        let Ok(mut content) = HeaderValue::from_str(&text) else {
            // It may be a secret, and is not shown.
            value.fault_with("a header field cannot hold this", "leave out what is not printable ASCII");
            return None;
        };
        content.set_sensitive(true);
        Some((field, content))
    });
    fields.collect()
}

fn read_timeouts(source: &str, value: &Value<'_>) -> Timeouts {
    let mut timeouts = Timeouts::default();
    let Some(mut table) = value.table(format!("`timeout` of [source.{source}]")) else { return timeouts };
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
