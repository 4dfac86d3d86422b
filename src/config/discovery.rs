//! `[discovery]`: how Prometheus, Consul and the other replicas find this replica.

use std::fmt;

use http::Uri;
use http::uri::Authority;
use rowstream_core::diagnostic::reader::Value;

/// `[discovery]`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Discovery {
    /// The address that other hosts use for this replica: a host, and a port if it differs from the
    /// server's. `None`: its listen address.
    pub address: Option<Authority>,
    /// The other replicas, as `/_rowstream/sd` lists them.
    pub peers: Vec<String>,
    /// The Consul agent at which this replica registers itself. `None`: it doesn't register.
    pub consul: Option<Consul>,
    /// The `address` at the start, with which it registers.
    pub registered: Option<Authority>,
}

/// `[discovery.consul]`: the agent, and the service to register.
#[derive(Clone, PartialEq, Eq)]
pub struct Consul {
    /// The agent's URL, without a path.
    pub url: Uri,
    /// The service's name.
    pub service: String,
    /// The service's tags.
    pub tags: Vec<String>,
    /// The ACL token, as the value of a header.
    pub token: Option<http::HeaderValue>,
}

/// Omits the token.
impl fmt::Debug for Consul {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Consul").field("url", &self.url).field("service", &self.service).finish()
    }
}

pub(super) fn read(value: &Value<'_>) -> Discovery {
    let Some(mut table) = value.table("[discovery]") else { return Discovery::default() };
    let address = table.take("address").and_then(|value| read_address(&value));
    let discovery = Discovery {
        registered: address.clone(),
        address,
        peers: table.take("peers").and_then(|value| read_peers(&value)).unwrap_or_default(),
        consul: table.take("consul").and_then(|value| read_consul(&value)),
    };
    table.finish();
    discovery
}

/// A host, or a host and a port.
fn read_address(value: &Value<'_>) -> Option<Authority> {
    let text = value.string()?;
    let address =
        text.parse().ok().filter(|address: &Authority| !text.contains('@') && !address.host().is_empty());
    if address.is_none() {
        let message = format!("{} isn't an address of a replica", value.shown(&text));
        value.error_with(message, "write a host, or host and port: \"10.0.0.5\", \"10.0.0.5:8080\"");
    }
    address
}

fn read_peers(value: &Value<'_>) -> Option<Vec<String>> {
    let peers = value.strings()?.into_iter().filter_map(|(text, item)| {
        let address = read_address(&item)?;
        if address.port_u16().is_none() {
            let message = format!("{} has no port", item.shown(&text));
            item.error_with(message, "write the port of its metrics: \"10.0.0.6:8080\"");
        }
        Some(text)
    });
    Some(peers.collect())
}

fn read_consul(value: &Value<'_>) -> Option<Consul> {
    let mut table = value.table("[discovery.consul]")?;
    let url = table.require("url", "the URL of the agent on this machine: `url = \"http://127.0.0.1:8500\"`");
    let service = table.take("service").map_or(Some("rowstream".to_owned()), |value| read_name(&value));
    let tags = table.take("tags").and_then(|value| value.strings()).unwrap_or_default();
    let token = table.take("token").and_then(|value| read_token(&value));
    table.finish();
    Some(Consul {
        url: read_url(&url?, "http://127.0.0.1:8500")?,
        service: service?,
        tags: tags.into_iter().map(|(tag, _)| tag).collect(),
        token,
    })
}

/// A name that's also a DNS label, because Consul answers DNS queries for it too.
pub(super) fn read_name(value: &Value<'_>) -> Option<String> {
    let text = value.string()?;
    let is_well = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    if !text.is_empty() && text.bytes().all(is_well) {
        return Some(text);
    }
    let message = format!("{} cannot be the name of a service", value.shown(&text));
    value.error_with(message, "names are ASCII letters, digits and hyphens");
    None
}

/// The URL of a service that has its own host: `http` or `https`, and no path.
pub(super) fn read_url(value: &Value<'_>, example: &str) -> Option<Uri> {
    let text = value.string()?;
    let is_well = |url: &Uri| {
        matches!(url.scheme_str(), Some("http" | "https"))
            && url.authority().is_some_and(|host| !host.as_str().contains('@'))
            && url.path_and_query().is_none_or(|path| path == "/")
    };
    let url = text.parse().ok().filter(is_well);
    if url.is_none() {
        let message = format!("{} isn't the URL of a host", value.shown(&text));
        value.error_with(message, format!("write scheme, host and port: \"{example}\""));
    }
    url
}

/// A token. An empty one counts as no token, because a variable may be empty.
pub(super) fn read_token(value: &Value<'_>) -> Option<http::HeaderValue> {
    let text = value.string().filter(|text| !text.is_empty())?;
    let mut token = http::HeaderValue::try_from(text.trim()).ok();
    match &mut token {
        Some(token) => token.set_sensitive(true),
        None => value.error_with("`token` has characters that a header can't contain", "it is a UUID"),
    }
    token
}
