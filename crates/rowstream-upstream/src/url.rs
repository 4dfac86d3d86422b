//! The URL of an HTTP source: `http://host:port/prefix`.

use std::fmt;
use std::net::IpAddr;

use http::Uri;
use http::uri::Scheme;

/// The location of an upstream, and the prefix of its requests' paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Base {
    /// True if requests use TLS.
    pub tls: bool,
    /// The host.
    pub host: HostAddress,
    /// The port.
    pub port: u16,
    /// The prefix of each path: empty, or a path without a slash at its end.
    pub prefix: String,
}

/// A name that must be resolved, or an address from the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostAddress {
    /// A name.
    Name(String),
    /// An address.
    Address(IpAddr),
}

impl Base {
    /// Reads a URL.
    ///
    /// # Errors
    /// The message and the hint. Neither quotes the URL.
    pub fn parse(url: &str) -> Result<Self, (&'static str, &'static str)> {
        const WRITE: &str = "write `http://host:port` or `https://host/prefix`, in ASCII";
        let unreadable = ("this isn't the URL of an HTTP service", WRITE);
        if url.contains(['#', '?']) {
            return Err(("this URL has a query or a fragment", "leave it out: requests have their own"));
        }
        let uri: Uri = url.parse().map_err(|_| unreadable)?;
        let authority = uri.authority().ok_or(unreadable)?;
        if authority.as_str().contains('@') {
            return Err(("this URL has a name or a password", "send it as a header: `headers = { … }`"));
        }
        let host = HostAddress::parse(authority.host()).ok_or(unreadable)?;
        let tls = uri.scheme() == Some(&Scheme::HTTPS);
        let port = match authority.as_str().strip_prefix(authority.host()).unwrap_or_default() {
            "" => Some(if tls { 443 } else { 80 }),
            port => port.strip_prefix(':').and_then(|port| port.parse().ok()).filter(|port| *port > 0),
        };
        let prefix = uri.path().trim_end_matches('/');
        if prefix.split('/').any(|segment| matches!(segment, "." | "..")) {
            return Err(("the path of this URL has a segment of dots", "write the path that it leads to"));
        }
        Ok(Self { tls, host, port: port.ok_or(unreadable)?, prefix: prefix.to_owned() })
    }

    /// `host`, or `host:port` if the port isn't the default of the scheme.
    pub(super) fn authority(&self) -> String {
        match (self.tls, self.port) {
            (false, 80) | (true, 443) => self.host.to_string(),
            _ => self.host_and_port(),
        }
    }

    /// `host:port`, even if the port is the default of the scheme.
    pub fn host_and_port(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }
}

impl fmt::Display for HostAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(IpAddr::V4(address)) => write!(f, "{address}"),
            Self::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

impl HostAddress {
    fn parse(host: &str) -> Option<Self> {
        if let Some(address) = host.strip_prefix('[') {
            return Some(Self::Address(IpAddr::V6(address.strip_suffix(']')?.parse().ok()?)));
        }
        if let Ok(address) = host.parse() {
            return Some(Self::Address(IpAddr::V4(address)));
        }
        let well = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
        let is_name = !host.is_empty() && host.chars().all(well);
        is_name.then(|| Self::Name(host.to_ascii_lowercase()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        for (url, expected) in [
            ("http://api.example", Ok("api.example 80 ")),
            ("https://API.example/v2/", Ok("api.example 443 /v2")),
            ("HTTP://api.example:8080/a/b", Ok("api.example:8080 8080 /a/b")),
            ("http://127.0.0.1:9090", Ok("127.0.0.1:9090 9090 ")),
            ("http://[::1]:9090/", Ok("[::1]:9090 9090 ")),
            ("https://[2001:db8::1]", Ok("[2001:db8::1] 443 ")),
            ("http://api.example:0", Err("this isn't the URL of an HTTP service")),
            ("http://api.example:", Err("this isn't the URL of an HTTP service")),
            ("http://:80", Err("this isn't the URL of an HTTP service")),
            ("http:///a", Err("this isn't the URL of an HTTP service")),
            ("http://größe.example", Err("this isn't the URL of an HTTP service")),
            ("http://u:p@api.example", Err("this URL has a name or a password")),
            ("http://api.example/a?b=1", Err("this URL has a query or a fragment")),
            ("http://api.example/a/../b", Err("the path of this URL has a segment of dots")),
        ] {
            let base = Base::parse(url).map_err(|(message, _)| message);
            let shown = base.map(|base| format!("{} {} {}", base.authority(), base.port, base.prefix));
            assert_eq!(shown.as_deref().map_err(|message| *message), expected, "{url}");
        }
    }
}
