//! The target: a URL, and its requests.

use std::net::SocketAddr;

use http::HeaderName;
use http::header::{ACCEPT, HOST, HeaderValue, USER_AGENT};
use http::uri::PathAndQuery;

const AGENT: &str = concat!("rowstream-bench/", env!("CARGO_PKG_VERSION"));

/// An `http://` URL. In its path or query, `{a-b}` is a random integer, chosen for each request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The URL as given.
    pub url: String,
    pub(super) authority: String,
    host: String,
    port: u16,
    path: Vec<Piece>,
}

/// A part of the path and query.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    /// An integer between these two, inclusive.
    Random(u64, u64),
}

impl Target {
    /// Parses a URL.
    ///
    /// # Errors
    /// The text isn't a URL that can be driven. The message says why.
    pub fn parse(url: &str) -> Result<Self, String> {
        let rest = url.strip_prefix("http://").ok_or_else(|| match url.starts_with("https://") {
            true => "https is not supported: drive the server behind its TLS proxy, over http://".to_owned(),
            false => format!("`{url}` is no URL: write http://HOST[:PORT]/PATH"),
        })?;
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let (host, port) = host_and_port(authority)?;
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        let target =
            Self { url: url.to_owned(), authority: authority.to_owned(), host, port, path: pieces(&path)? };
        let sample = target.path();
        match sample.parse::<PathAndQuery>() {
            Ok(parsed) if parsed.as_str() == sample => Ok(target),
            _ => Err(format!(
                "`{path}` is no path of a URL: percent-encode what is special, and leave #… away"
            )),
        }
    }

    /// The addresses of its host.
    ///
    /// # Errors
    /// The host has no address.
    pub(super) async fn resolve(&self) -> Result<Vec<SocketAddr>, String> {
        let found = tokio::net::lookup_host((self.host.as_str(), self.port)).await;
        let addresses: Vec<_> = found.map_err(|error| format!("{}: {error}", self.host))?.collect();
        if addresses.is_empty() { Err(format!("{} has no address", self.host)) } else { Ok(addresses) }
    }

    /// The path and query for one request.
    pub(super) fn path(&self) -> String {
        let write = |piece: &Piece| match piece {
            Piece::Text(text) => text.clone(),
            Piece::Random(from, to) => fastrand::u64(from..=to).to_string(),
        };
        self.path.iter().map(write).collect()
    }
}

fn host_and_port(authority: &str) -> Result<(String, u16), String> {
    if authority.contains('@') {
        return Err("a user in the URL is not sent: use -H 'Authorization: …'".to_owned());
    }
    let parsed: http::uri::Authority =
        authority.parse().map_err(|_| format!("`{authority}` is no host and port"))?;
    let port = match authority.rsplit_once(':') {
        Some((_, port)) if !port.ends_with(']') => {
            port.parse().map_err(|_| format!("`{port}` is no port"))?
        }
        _ => 80,
    };
    let host = parsed.host().trim_start_matches('[').trim_end_matches(']');
    if host.is_empty() {
        return Err("the URL has no host".to_owned());
    }
    Ok((host.to_owned(), port))
}

fn pieces(path: &str) -> Result<Vec<Piece>, String> {
    let mut pieces = Vec::new();
    let mut rest = path;
    while let Some((before, after)) = rest.split_once('{') {
        let error = || "write {FROM-TO} in the URL, such as {1-1000}, for a random integer".to_owned();
        let (range, after) = after.split_once('}').ok_or_else(error)?;
        let (from, to) = range.split_once('-').ok_or_else(error)?;
        let (from, to) = (from.parse().map_err(|_| error())?, to.parse().map_err(|_| error())?);
        if from > to {
            return Err(format!("{{{range}}} holds no integer: {from} is more than {to}"));
        }
        pieces.extend([Piece::Text(before.to_owned()), Piece::Random(from, to)]);
        rest = after;
    }
    pieces.push(Piece::Text(rest.to_owned()));
    Ok(pieces)
}

/// The headers of every request.
#[derive(Debug, Clone)]
pub(super) struct Headers(Vec<(HeaderName, HeaderValue)>);

impl Headers {
    /// Our own headers, followed by the `given` ones. A given header replaces ours of the same
    /// name.
    pub(super) fn new(target: &Target, given: &[(HeaderName, HeaderValue)]) -> Self {
        // A parsed authority is a valid header value.
        let host = HeaderValue::from_str(&target.authority).unwrap_or(HeaderValue::from_static(""));
        let own = [
            (HOST, host),
            (USER_AGENT, HeaderValue::from_static(AGENT)),
            (ACCEPT, HeaderValue::from_static("*/*")),
        ];
        let is_given = |name: &HeaderName| given.iter().any(|(other, _)| other == name);
        Self(own.into_iter().filter(|(name, _)| !is_given(name)).chain(given.iter().cloned()).collect())
    }

    /// The bytes of an HTTP/1.1 request.
    pub(super) fn http1(&self, path: &str) -> Vec<u8> {
        let mut request = format!("GET {path} HTTP/1.1\r\n").into_bytes();
        for (name, value) in &self.0 {
            for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
                request.extend_from_slice(part);
            }
        }
        request.extend_from_slice(b"\r\n");
        request
    }

    /// The fields of an HTTP/2 request, whose authority is a pseudo-header.
    pub(super) fn http2(&self) -> impl Iterator<Item = &(HeaderName, HeaderValue)> {
        self.0.iter().filter(|(name, _)| name != HOST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        let target = Target::parse("http://[::1]:8080?a=b").unwrap();
        assert_eq!((target.host.as_str(), target.port, target.path()), ("::1", 8080, "/?a=b".to_owned()));
        let target = Target::parse("http://localhost").unwrap();
        assert_eq!((target.host.as_str(), target.port, target.path()), ("localhost", 80, "/".to_owned()));
    }

    #[test]
    fn random_integers() {
        let target = Target::parse("http://h/a/{3-4}?b={7-7}").unwrap();
        let paths: std::collections::BTreeSet<_> = (0..100).map(|_| target.path()).collect();
        assert_eq!(paths.into_iter().collect::<Vec<_>>(), ["/a/3?b=7", "/a/4?b=7"]);
    }

    #[test]
    fn no_urls() {
        for (url, words) in [
            ("https://h/", "https is not supported"),
            ("localhost:80/", "write http://"),
            ("http:///a", "no host"),
            ("http://h:x/", "no port"),
            ("http://h:/", "no port"),
            ("http://u:p@h/", "Authorization"),
            ("http://h/{a}", "{FROM-TO}"),
            ("http://h/{2-1}", "no integer"),
            ("http://h/{1-2", "{FROM-TO}"),
            ("http://h/a b", "percent-encode"),
            ("http://h/a#b", "percent-encode"),
        ] {
            let error = Target::parse(url).unwrap_err();
            assert!(error.contains(words), "{url}: {error}");
        }
    }

    #[test]
    fn given_headers_replace_ours() {
        let target = Target::parse("http://h:1/x").unwrap();
        let given = [(ACCEPT, HeaderValue::from_static("text/csv"))];
        let request = String::from_utf8(Headers::new(&target, &given).http1("/x")).unwrap();
        let expected =
            format!("GET /x HTTP/1.1\r\nhost: h:1\r\nuser-agent: {AGENT}\r\naccept: text/csv\r\n\r\n");
        assert_eq!(request, expected);
    }
}
