//! Parses URLs of servers, `scheme://user:password@host:port/database?parameters`.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use percent_encoding::percent_decode_str;

/// A host name or address, or the path of a Unix socket or its folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Host {
    /// A host name or an address.
    Tcp(String),
    /// The path of a Unix socket, or of its folder.
    Unix(PathBuf),
}

/// The parts of a URL.
pub struct Parts<'a> {
    /// The user; empty if the URL names none.
    pub user: String,
    /// The password.
    pub password: Option<String>,
    /// At least one, each with its port, which may be empty.
    pub addresses: Vec<(String, &'a str)>,
    /// The path without its first slash.
    pub database: String,
    /// The parameters behind `?`.
    pub query: Query<'a>,
}

impl<'a> Parts<'a> {
    /// Splits a URL that begins with one of `schemes`. Error messages name the first of them.
    pub fn parse(url: &'a str, schemes: &[&str]) -> Result<Self, UrlError> {
        let rest = schemes
            .iter()
            .find_map(|scheme| strip_scheme(url, scheme))
            .ok_or_else(|| UrlError(format!("the URL must begin with {}", schemes[0])))?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, database) = rest.split_once('/').unwrap_or((rest, ""));
        let (login, address) = authority.rsplit_once('@').unwrap_or(("", authority));
        let (user, password) = match login.split_once(':') {
            Some((user, password)) => (user, Some(decode(password)?)),
            None => (login, None),
        };
        Ok(Self {
            user: decode(user)?,
            password,
            addresses: address.split(',').map(split_port).collect::<Result<_, _>>()?,
            database: decode(database)?,
            query: Query(query),
        })
    }
}

/// Removes the scheme from a URL. Its case is ignored.
fn strip_scheme<'a>(url: &'a str, scheme: &str) -> Option<&'a str> {
    let (begin, rest) = url.split_at_checked(scheme.len())?;
    begin.eq_ignore_ascii_case(scheme).then_some(rest)
}

impl<'a> Parts<'a> {
    /// The host and the port of a URL that must have only one.
    pub fn address(&self) -> Result<(&str, &'a str), UrlError> {
        match &self.addresses[..] {
            [(host, port)] => Ok((host, port)),
            _ => refuse("several hosts in one URL are not supported"),
        }
    }
}

/// The part after the `?`.
pub struct Query<'a>(&'a str);

impl Query<'_> {
    /// Removes a possible password from the error of a parameter.
    pub fn unquoted(&self, error: UrlError) -> UrlError {
        quote_no_password(error, self.0)
    }

    /// Calls `set` for each parameter.
    pub fn each(&self, mut set: impl FnMut(&str, String) -> Result<(), UrlError>) -> Result<(), UrlError> {
        for pair in self.0.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            set(&decode(name)?, decode(value)?).map_err(|error| quote_no_password(error, self.0))?;
        }
        Ok(())
    }
}

/// The reason why a URL is invalid. It never contains the password.
#[derive(Debug, PartialEq, Eq)]
pub struct UrlError(String);

impl fmt::Display for UrlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UrlError {}

impl UrlError {
    /// An error with this message, which must not contain a password.
    pub fn new(message: String) -> Self {
        Self(message)
    }
}

/// Fails with this message.
///
/// # Errors
/// Always.
pub fn refuse<T>(message: impl Into<String>) -> Result<T, UrlError> {
    Err(UrlError(message.into()))
}

/// A parameter that other programs write into a URL.
pub struct Word {
    /// The name of the parameter.
    pub name: &'static str,
    /// The values that have no effect here, in lower case. Empty: no value; `*`: any.
    pub harmless: &'static [&'static str],
    /// Advice for all other values.
    pub instead: &'static str,
}

/// Ignores a parameter if its value has no effect.
///
/// # Errors
/// It would have an effect, or it isn't in `words`.
pub fn ignore(words: &[Word], name: &str, value: &str) -> Result<(), UrlError> {
    let Some(word) = words.iter().find(|word| word.name == name) else {
        return refuse(format!("the parameter `{name}` isn't known: leave it out"));
    };
    let value = value.to_ascii_lowercase();
    if word.harmless.iter().any(|harmless| *harmless == "*" || *harmless == value) {
        return Ok(());
    }
    let with = if word.harmless.is_empty() { "" } else { " with this value" };
    refuse(format!("the parameter `{name}` isn't supported{with}: {}", word.instead))
}

fn decode(text: &str) -> Result<String, UrlError> {
    match percent_decode_str(text).decode_utf8() {
        Ok(text) => Ok(text.into_owned()),
        Err(_) => refuse("the URL holds an escape that is not UTF-8"),
    }
}

/// A host, or a path if it begins with a slash.
pub fn to_host(host: &str) -> Host {
    match host {
        "" => Host::Tcp("localhost".into()),
        path if path.starts_with('/') => Host::Unix(path.into()),
        name => Host::Tcp(name.into()),
    }
}

/// Removes the port from `host:port`. The host can be an IPv6 address in brackets.
fn split_port(address: &str) -> Result<(String, &str), UrlError> {
    let (host, port) = match address.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((host, port)) => (host, port.strip_prefix(':').unwrap_or(port)),
            None => return refuse("the URL's IPv6 address has no closing bracket"),
        },
        None => address.split_once(':').unwrap_or((address, "")),
    };
    Ok((decode(host)?, port))
}

/// A port; `default` if it's empty.
pub fn parse_port(port: &str, default: u16) -> Result<u16, UrlError> {
    match port {
        "" => Ok(default),
        // Not quoted: if a password contains an unescaped `/` or `?`, its beginning is parsed as
        // the port.
        port => {
            port.parse().or_else(|_| refuse(format!("the URL's port is not a number up to 65535; {ESCAPES}")))
        }
    }
}

const ESCAPES: &str = "in a password, `/` is written as %2F, `?` as %3F and `@` as %40";

/// Parameters that contain an `@` aren't quoted. The password probably has an unescaped `?`, so its
/// end was parsed as parameters.
fn quote_no_password(error: UrlError, query: &str) -> UrlError {
    match query.contains('@') {
        true => UrlError(format!("the URL's parameters are not supported; {ESCAPES}")),
        false => error,
    }
}

/// A number of seconds, for `connect_timeout`; 0 means no limit.
pub fn parse_seconds(seconds: &str) -> Result<Duration, UrlError> {
    match seconds.parse() {
        Ok(0) => Ok(Duration::MAX),
        Ok(seconds) => Ok(Duration::from_secs(seconds)),
        _ => refuse(format!("connect_timeout `{seconds}` is not a number of seconds")),
    }
}
