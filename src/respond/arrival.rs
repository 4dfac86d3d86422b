//! The arrival of a request: its connection, and the address of its client.

use std::net::IpAddr;
use std::num::NonZeroU16;

use http::header::{self, HeaderName};
use http::{HeaderMap, Request};
use rowstream_core::client::{Proxies, UNIX, network_of};
use rowstream_upstream::fields;

use crate::config::Limits;

/// The headers that tell that a proxy forwarded a request.
const FORWARDED: [HeaderName; 3] =
    [header::FORWARDED, HeaderName::from_static("x-forwarded-for"), header::VIA];

/// Facts about a request that its connection knows.
#[derive(Debug, Clone, Copy, Default)]
pub struct Arrival {
    /// The address that it arrived from, if that's known.
    pub peer: Option<IpAddr>,
    /// True if its client is on another machine.
    pub is_remote: bool,
    /// True if its connection has no other request that is still answered.
    pub is_alone: bool,
    /// True if it doesn't name exactly one host.
    pub no_host: bool,
    /// True if it arrived at the port of the admin endpoints.
    pub to_admin: bool,
    /// The port of TLS, if the request arrived at the port that redirects there.
    pub to_https: Option<NonZeroU16>,
}

/// True if a request arrived at the port of the admin endpoints.
pub(super) fn is_admin(request: &Request<Arrival>) -> bool {
    request.body().to_admin
}

/// True if the client is on another machine. A proxy on this machine adds headers that reveal this.
pub(super) fn is_remote(request: &Request<Arrival>) -> bool {
    request.body().is_remote || request.headers().keys().any(|name| FORWARDED.contains(name))
}

/// The address of a request's client.
pub(super) fn address(proxies: &Proxies, request: &Request<Arrival>) -> Option<IpAddr> {
    let peer = request.body().peer?;
    Some(proxies.address(peer, request.headers())).filter(|address| *address != UNIX)
}

/// The address of a request's client, in the form in which clients are counted.
pub(super) fn network(proxies: &Proxies, request: &Request<Arrival>) -> Option<IpAddr> {
    address(proxies, request).map(network_of)
}

/// The client's address, if the streams of each client are limited.
pub(super) fn counted(limits: &Limits, request: &Request<Arrival>) -> Option<IpAddr> {
    limits.max_streams_per_client?;
    network(&limits.proxies, request)
}

/// The headers of a request that are forwarded to an upstream.
pub(super) fn forwarded(proxies: &Proxies, request: &Request<Arrival>) -> HeaderMap {
    let peer = request.body().peer;
    let is_trusted = peer.is_some_and(|peer| proxies.trusts(peer));
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    let host = request.uri().authority().map(http::uri::Authority::as_str).or(host);
    let peer = peer.filter(|peer| *peer != UNIX);
    fields::forwarded(request.headers(), host, fields::Client { peer, is_trusted })
}
