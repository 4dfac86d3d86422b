//! `flightsql://user:password@host:port/?parameters`, and the same with `flightsql+tls`.

use std::path::PathBuf;
use std::time::Duration;

use http::{HeaderName, HeaderValue};
use rowstream_core::diagnostic::shown;
use rowstream_database::credentials;
use rowstream_database::url::{Host, Parts, UrlError, parse_port, parse_seconds, refuse, to_host};

/// The default port. Dremio and Sail use it.
const PORT: u16 = 32010;

const SCHEME: &str = "flightsql://";
const TLS_SCHEME: &str = "flightsql+tls://";

/// A header field of every call.
pub(super) type Field = (HeaderName, HeaderValue);

/// The server, the login and the options of a URL.
#[derive(Clone)]
pub(super) struct ServerTarget {
    pub(super) address: Address,
    pub(super) credentials: Credentials,
    pub(super) ssl_ca: Option<PathBuf>,
    pub(super) connect_timeout: Duration,
    /// Other servers that rows may be read from: a host, and a port unless any port will do.
    pub(super) allowed: Vec<(String, Option<u16>)>,
}

/// The address of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) has_tls: bool,
}

/// The parts of a URL that can contain secrets.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Credentials {
    pub(super) login: Login,
    /// More header fields for each call.
    pub(super) fields: Vec<Field>,
}

/// The login at a server.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Login {
    Anonymous,
    Basic { user: String, password: String },
    Bearer(String),
}

impl credentials::Credentials for Credentials {
    fn password(&self) -> Option<&str> {
        match &self.login {
            Login::Anonymous => None,
            Login::Basic { password, .. } => Some(password),
            Login::Bearer(token) => Some(token),
        }
    }

    /// Without a user, it's a token.
    fn with_password(self, password: String) -> Self {
        let login = match self.login {
            Login::Basic { user, .. } => Login::Basic { user, password },
            Login::Anonymous | Login::Bearer(_) => Login::Bearer(password),
        };
        Self { login, ..self }
    }
}

impl Credentials {
    /// Describes the user for the log, without secrets.
    pub(super) fn user(&self) -> String {
        match &self.login {
            Login::Anonymous => String::new(),
            Login::Basic { user, .. } => format!(" as user {}", shown(user)),
            Login::Bearer(_) => " with a token".to_owned(),
        }
    }
}

impl ServerTarget {
    /// Reads a URL.
    pub(super) fn parse(url: &str) -> Result<Self, UrlError> {
        let parts = Parts::parse(url, &[SCHEME, TLS_SCHEME])?;
        if !parts.database.is_empty() {
            return refuse(
                "a URL of Arrow Flight SQL has no path; a database is named by a header field: `header.database=NAME`",
            );
        }
        let (host, port) = parts.address()?;
        let Host::Tcp(host) = to_host(host) else {
            return refuse("a URL of Arrow Flight SQL names a host, not a socket");
        };
        let address = Address { host, port: parse_port(port, PORT)?, has_tls: url.starts_with(TLS_SCHEME) };
        let login = match (parts.user, parts.password) {
            (user, None) if user.is_empty() => Login::Anonymous,
            (user, password) => Login::Basic { user, password: password.unwrap_or_default() },
        };
        let mut target = Self {
            address,
            credentials: Credentials { login, fields: Vec::new() },
            ssl_ca: None,
            connect_timeout: Duration::from_secs(10),
            allowed: Vec::new(),
        };
        parts.query.each(|name, value| target.set(name, value))?;
        Ok(target)
    }

    fn set(&mut self, name: &str, value: String) -> Result<(), UrlError> {
        match name.replace('_', "-").as_str() {
            "token" if self.credentials.login != Login::Anonymous => {
                return refuse("the URL has both a user and a `token`");
            }
            "token" => self.credentials.login = Login::Bearer(value),
            "ssl-ca" if !self.address.has_tls => return refuse("`ssl-ca` is for flightsql+tls://"),
            "ssl-ca" => self.ssl_ca = Some(value.into()),
            "connect-timeout" => self.connect_timeout = parse_seconds(&value)?,
            "location" => self.allowed.push(host_and_port(&value)?),
            _ => match name.strip_prefix("header.") {
                Some(field) => self.credentials.fields.push(parse_field(field, &value)?),
                None => return refuse(format!("the URL's parameter `{name}` is not supported")),
            },
        }
        Ok(())
    }

    /// Returns true if rows may be read from this server.
    pub(super) fn allows(&self, address: &Address) -> bool {
        let is_own =
            address.host.eq_ignore_ascii_case(&self.address.host) && address.port == self.address.port;
        // A source that uses TLS never sends its credentials without it.
        let is_as_safe = address.has_tls || !self.address.has_tls;
        let mut allowed = self.allowed.iter();
        is_as_safe
            && (is_own
                || allowed.any(|(host, port)| {
                    host.eq_ignore_ascii_case(&address.host) && port.is_none_or(|port| port == address.port)
                }))
    }
}

impl Address {
    /// Reads a location of an endpoint. Returns `None` for a scheme that isn't supported, or
    /// without a port.
    pub(super) fn of_location(uri: &str) -> Option<Self> {
        let (scheme, rest) = uri.split_once("://")?;
        let has_tls = match scheme {
            "grpc" | "grpc+tcp" => false,
            "grpc+tls" => true,
            _ => return None,
        };
        let authority = rest.split(['/', '?']).next().unwrap_or_default();
        let (host, port) = host_and_port(authority).ok()?;
        Some(Self { host, port: port?, has_tls })
    }

    /// `host:port`, for a URL.
    pub(super) fn name(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }
}

/// `host`, `host:port`, or the same with an IPv6 address in brackets.
fn host_and_port(text: &str) -> Result<(String, Option<u16>), UrlError> {
    let parts = Parts::parse(text, &[""])?;
    let (host, port) = parts.address()?;
    match (host, port) {
        ("", _) => refuse("a `location` has no host"),
        (host, "") => Ok((host.to_owned(), None)),
        (host, port) => Ok((host.to_owned(), Some(parse_port(port, 0)?))),
    }
}

/// Reads a header field. Its value is marked as sensitive, because it may be a token.
fn parse_field(name: &str, value: &str) -> Result<Field, UrlError> {
    let name = HeaderName::try_from(name.to_ascii_lowercase());
    match (name, HeaderValue::try_from(value)) {
        (Ok(name), Ok(mut value)) => {
            value.set_sensitive(true);
            Ok((name, value))
        }
        _ => refuse("a `header.NAME=VALUE` of the URL isn't a valid header field"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(url: &str) -> ServerTarget {
        ServerTarget::parse(url).unwrap_or_else(|error| panic!("{url}: {error}"))
    }

    fn address(host: &str, port: u16, has_tls: bool) -> Address {
        Address { host: host.to_owned(), port, has_tls }
    }

    #[test]
    fn a_url_has_all_its_parts() {
        let t = target("flightsql://ann:p%40ss@lake.example:31337/?header.database=shop&connect-timeout=3");
        assert_eq!(t.address, address("lake.example", 31337, false));
        assert!(t.credentials.login == Login::Basic { user: "ann".into(), password: "p@ss".into() });
        assert_eq!(
            (t.credentials.fields[0].0.as_str(), t.connect_timeout),
            ("database", Duration::from_secs(3))
        );
        assert_eq!(t.credentials.user(), " as user `ann`");
        let t = target("flightsql+tls://lake.example?token=s3cret&ssl-ca=/ca.pem");
        assert_eq!(t.address, address("lake.example", 32010, true));
        assert!(t.credentials.login == Login::Bearer("s3cret".into()) && t.ssl_ca == Some("/ca.pem".into()));
        assert!(!t.credentials.user().contains("s3cret"));
    }

    #[test]
    fn what_is_not_understood_is_refused_without_the_secrets() {
        for (url, message) in [
            ("postgres://x", "must begin with flightsql://"),
            ("flightsql://u:secret@h/d", "no path"),
            ("flightsql://u:secret@h:x", "port is not a number"),
            ("flightsql://u:secret@h?token=secret", "both a user and a `token`"),
            ("flightsql://h?tokn=secret", "`tokn`"),
            ("flightsql://h?header.a%20b=secret", "a valid header field"),
            ("flightsql://h?ssl-ca=/x", "flightsql+tls"),
            ("flightsql://a,b", "several hosts"),
        ] {
            let error = ServerTarget::parse(url).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(error.contains(message), "{url}: {error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn locations_are_followed_where_that_is_allowed() {
        let plain = target("flightsql://h:1?location=w1:2&location=w2");
        let secure = target("flightsql+tls://h:1?location=w1:2");
        for (uri, by_plain, by_secure) in [
            ("grpc://h:1", true, false),
            ("grpc+tls://H:1", true, true),
            ("grpc://h:2", false, false),
            ("grpc+tcp://w1:2", true, false),
            ("grpc+tls://w1:2", true, true),
            ("grpc://w1:3", false, false),
            ("grpc://w2:9", true, false),
            ("grpc://169.254.169.254:80", false, false),
        ] {
            let address = Address::of_location(uri).unwrap_or_else(|| panic!("{uri}"));
            assert_eq!((plain.allows(&address), secure.allows(&address)), (by_plain, by_secure), "{uri}");
        }
        for uri in ["grpc+unix:///run/x", "http://h:1", "grpc://h", "", "arrow-flight-reuse-connection://?"] {
            assert_eq!(Address::of_location(uri), None, "{uri}");
        }
    }
}
