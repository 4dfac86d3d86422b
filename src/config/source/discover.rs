//! `discover` of an HTTP source: the registry that lists its addresses.

use std::time::Duration;

use rowstream_core::diagnostic::reader::Value;
use rowstream_upstream::discovery::{DiscoverySettings, Registry};
use rowstream_upstream::url::{Base, HostAddress};

use crate::config::discovery::{read_name, read_token, read_url};
use crate::config::features;

/// The shortest interval between two requests to a registry.
const LEAST: Duration = Duration::from_secs(1);

/// Reads `discover`. The source must also have one URL with a host name, and list the addresses
/// that it may have.
pub(super) fn read(
    source: &str,
    value: &Value<'_>,
    hosts: Option<&[Base]>,
    has_allow: bool,
) -> Option<DiscoverySettings> {
    features::require(cfg!(feature = "discovery"), value, "service discovery", "discovery");
    let mut table = value.table(format!("`discover` of [source.{source}]"))?;
    let (consul, srv) = (table.take("consul"), table.take("srv"));
    let refresh = table.take("refresh").and_then(|value| read_refresh(&value));
    let registry = match (consul, srv) {
        (Some(url), None) => {
            let service = table.require("service", "its name in Consul: `service = \"orders\"`");
            let tag = table.take("tag").and_then(|value| value.string());
            let token = table.take("token").and_then(|value| read_token(&value));
            let (url, service) =
                (read_url(&url, "http://127.0.0.1:8500"), service.and_then(|name| read_name(&name)));
            url.zip(service).map(|(url, service)| Registry::Consul { url, service, tag, token })
        }
        (None, Some(name)) => {
            let resolver = table.take("resolver").and_then(|value| read_resolver(&value));
            read_srv(&name).map(|name| Registry::Srv { name, resolver })
        }
        (None, None) | (Some(_), Some(_)) => {
            value.error_with(
                "`discover` asks one registry",
                "write `consul = \"http://127.0.0.1:8500\"` or `srv = \"_http._tcp.orders.example\"`",
            );
            None
        }
    };
    table.finish();
    match hosts {
        Some([Base { host: HostAddress::Name(_), .. }]) | None => {}
        Some(_) => value.error_with(
            "with `discover`, `url` is one URL with a name",
            "it gives scheme, path, `Host` and the name in TLS: `url = \"http://orders.internal/v1\"`",
        ),
    }
    if !has_allow {
        value.error_with(
            "`discover` finds addresses, but no setting says which of them are allowed",
            "write the networks of the service: `allow = [\"10.0.0.0/8\"]`",
        );
    }
    Some(DiscoverySettings { registry: registry?, refresh: refresh.unwrap_or(DiscoverySettings::REFRESH) })
}

fn read_refresh(value: &Value<'_>) -> Option<Duration> {
    let refresh = value.duration()?;
    if refresh < LEAST {
        value.error_with("a registry can't be queried that often", "write `refresh = \"1s\"`, or more");
    }
    Some(refresh)
}

/// `_service._proto.domain`, or any other DNS name.
fn read_srv(value: &Value<'_>) -> Option<String> {
    let text = value.string()?;
    let is_well = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let labels = text.trim_end_matches('.').split('.');
    let is_name = text.len() < 254
        && labels.clone().all(|label| (1..64).contains(&label.len()) && label.chars().all(is_well));
    if is_name {
        return Some(text.trim_end_matches('.').to_owned());
    }
    let message = format!("{} isn't a name of SRV records", value.shown(&text));
    value.error_with(message, "write `srv = \"_http._tcp.orders.example\"`");
    None
}

fn read_resolver(value: &Value<'_>) -> Option<std::net::SocketAddr> {
    let text = value.string()?;
    let resolver = text.parse().ok();
    if resolver.is_none() {
        let message = format!("{} isn't the address of a DNS server", value.shown(&text));
        value.error_with(message, "write address and port: \"127.0.0.1:8600\"");
    }
    resolver
}
