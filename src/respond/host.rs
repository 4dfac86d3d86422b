//! The host that a request names, and the site of the page that made it.

use std::net::IpAddr;

use http::uri::Authority;
use http::{HeaderValue, Request, StatusCode, Uri, header};
use rowstream_core::Error;
use rowstream_core::client::UNIX;
use rowstream_core::diagnostic::shown;

use super::admin::is_check;
use super::arrival::Arrival;

/// Checks that a request names a host.
///
/// # Errors
/// 400: it names none, or several.
pub(super) fn check(request: &Request<Arrival>) -> Result<(), Error> {
    if request.body().no_host { Err(no_host()) } else { Ok(()) }
}

/// Checks that a request is for this machine, unless it asks for the server's health.
///
/// # Errors
/// 421: it names another host, which only pages of other sites have a reason to do here.
pub(super) fn check_own<B>(request: &Request<B>) -> Result<(), Error> {
    match named_hosts(request).find(|host| !is_this_machine(host)) {
        Some(host) if !is_check(request) => Err(foreign(host)),
        _ => Ok(()),
    }
}

/// The hosts that a request names, with their ports: in its URL, which counts, and in `Host`, which a
/// proxy could have read instead.
fn named_hosts<B>(request: &Request<B>) -> impl Iterator<Item = &[u8]> {
    let in_url = request.uri().authority().map(|authority| authority.as_str().as_bytes());
    let header = request.headers().get(header::HOST).map(HeaderValue::as_bytes);
    in_url.into_iter().chain(header)
}

/// True if a host, with or without a port, is this machine by definition. Browsers resolve
/// `*.localhost` themselves.
fn is_this_machine(host: &[u8]) -> bool {
    let port = host.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let host = host[..host.len() - port].strip_suffix(b":").unwrap_or(host);
    // Nearly all requests, so they cost no parsing.
    if matches!(host, b"localhost" | b"127.0.0.1") {
        return true;
    }
    let Ok(host) = str::from_utf8(host) else { return false };
    let host = host.strip_suffix('.').unwrap_or(host);
    let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    match address.parse::<IpAddr>() {
        Ok(address) => address.to_canonical().is_loopback(),
        Err(_) => host.rsplit('.').next().is_some_and(|label| label.eq_ignore_ascii_case("localhost")),
    }
}

/// The host that a request names, without its port.
fn host<B>(request: &Request<B>) -> Option<String> {
    let header = || request.headers().get(header::HOST)?.to_str().ok()?.parse().ok();
    let authority: Authority = request.uri().authority().cloned().or_else(header)?;
    Some(authority.host().to_owned())
}

/// True if a request also names this machine as its host. A page whose name was made to resolve to
/// this machine (DNS rebinding) names another host, and so do most proxies on this machine.
pub(super) fn names_this_machine(request: &Request<Arrival>) -> bool {
    let is_unix = request.body().peer == Some(UNIX);
    is_unix || (named_hosts(request).next().is_some() && named_hosts(request).all(is_this_machine))
}

/// True if a page of another host made the request (Fetch standard, "`Origin` header").
pub(super) fn is_of_other_site<B>(request: &Request<B>) -> bool {
    let Some(origin) = request.headers().get(header::ORIGIN) else { return false };
    let own = || Some(origin.to_str().ok()?.parse::<Uri>().ok()?.host()?.to_owned());
    own().is_none() || own() != host(request)
}

/// RFC 9112, section 3.2: otherwise each hop could read another host.
pub(super) fn no_host() -> Error {
    let message = "the request must have exactly one `Host` header";
    Error::new("invalid_host", StatusCode::BAD_REQUEST, message).hint("send one line `Host: HOST:PORT`")
}

fn foreign(host: &[u8]) -> Error {
    let message = format!(
        "the request is for the host {}, but without a token this server only answers as `localhost`",
        shown(&String::from_utf8_lossy(host))
    );
    Error::new("foreign_host", StatusCode::MISDIRECTED_REQUEST, message).hint(
        "open `http://localhost:PORT`; to allow other names, start it with `--token-file FILE`, or with a \
         configuration (`rowstream init`)",
    )
}
