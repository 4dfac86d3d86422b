//! Header fields between a client, this server and an upstream: which ones are passed on, left out
//! or added.

use std::net::IpAddr;

use http::header::{self, HeaderName};
use http::{HeaderMap, HeaderValue};

/// Fields that only apply to one connection (RFC 9110, section 7.6.1; RFC 2616, section 13.5.1).
const HOP_BY_HOP: [HeaderName; 9] = [
    header::CONNECTION,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
];
/// Fields about the body, which our GET request doesn't have, and about the host, which is another
/// one from here on.
const NOT_OURS: [HeaderName; 5] =
    [header::HOST, header::CONTENT_LENGTH, header::CONTENT_TYPE, header::CONTENT_ENCODING, header::EXPECT];
/// Fields in which proxies describe the client of a request.
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
/// Fields that identify a request across services (W3C Trace Context).
const TRACE: [HeaderName; 2] =
    [HeaderName::from_static("traceparent"), HeaderName::from_static("tracestate")];
/// Our name, for upstreams and clients (RFC 9110, section 7.6.3).
const VIA: HeaderValue = HeaderValue::from_static("1.1 rowstream");
const AGENT: HeaderValue = HeaderValue::from_static(concat!("rowstream/", env!("CARGO_PKG_VERSION")));

/// The client of a request.
#[derive(Debug, Clone, Copy)]
pub struct Client {
    /// The address of the request's peer.
    pub peer: Option<IpAddr>,
    /// True if the peer is a trusted proxy. Then we pass on its claims about its own client.
    pub is_trusted: bool,
}

/// The header fields that describe the client's request and its trace to an upstream.
pub fn forwarded(headers: &HeaderMap, host: Option<&str>, client: Client) -> HeaderMap {
    let mut forwarded = HeaderMap::new();
    for name in TRACE {
        copy(headers, &name, &mut forwarded);
    }
    if client.is_trusted {
        for name in [header::FORWARDED, FORWARDED_FOR, FORWARDED_HOST, FORWARDED_PROTO] {
            copy(headers, &name, &mut forwarded);
        }
    }
    if let Some(peer) = client.peer.map(|peer| peer.to_canonical()) {
        extend(&mut forwarded, FORWARDED_FOR, &peer.to_string());
        extend(&mut forwarded, header::FORWARDED, &forwarded_element(peer, host));
    }
    if let Some(host) = host {
        add(&mut forwarded, FORWARDED_HOST, host);
    }
    add(&mut forwarded, FORWARDED_PROTO, "http");
    forwarded
}

/// The header fields of a request that we make ourselves.
pub(super) fn own(forwarded: &HeaderMap) -> HeaderMap {
    let mut headers = forwarded.clone();
    headers.insert(header::USER_AGENT, AGENT);
    headers.insert(header::ACCEPT, HeaderValue::from_static("*/*"));
    headers.insert(header::VIA, VIA);
    headers
}

/// The fields of a client's request that are passed on, and the `forwarded` ones. `is_public` is
/// false if this server itself authenticates the client. Then `Authorization` is meant for this
/// server alone, so it isn't passed on.
pub fn request(client: &HeaderMap, forwarded: &HeaderMap, is_public: bool) -> HeaderMap {
    let mut headers = client.clone();
    strip(&mut headers);
    for name in NOT_OURS {
        headers.remove(name);
    }
    if !is_public {
        headers.remove(header::AUTHORIZATION);
    }
    for name in [header::FORWARDED, FORWARDED_FOR, FORWARDED_HOST, FORWARDED_PROTO] {
        headers.remove(name);
    }
    put(&mut headers, forwarded);
    headers.append(header::VIA, VIA);
    for value in headers.values_mut() {
        *value = detached(value);
    }
    headers
}

/// A copy of the value. A clone would keep the whole buffer of its head alive.
pub fn detached(value: &HeaderValue) -> HeaderValue {
    let mut own = HeaderValue::from_bytes(value.as_bytes()).unwrap_or_else(|_| value.clone());
    own.set_sensitive(value.is_sensitive());
    own
}

/// The fields of a response that are passed on.
pub fn response(upstream: &HeaderMap) -> HeaderMap {
    let mut headers = upstream.clone();
    // If there are chunks, the length is ignored (RFC 9112, section 6.3).
    if headers.contains_key(header::TRANSFER_ENCODING) {
        headers.remove(header::CONTENT_LENGTH);
    }
    // `63, 63` is the length 63 (RFC 9110, section 8.6), but most clients refuse it.
    if let Some(length) = headers.get(header::CONTENT_LENGTH)
        && let Some(first) = length.as_bytes().split(|byte| *byte == b',').next()
        && let Ok(length) = HeaderValue::from_bytes(first.trim_ascii())
    {
        headers.insert(header::CONTENT_LENGTH, length);
    }
    strip(&mut headers);
    headers.append(header::VIA, VIA);
    headers
}

/// Returns true if only the HTTP implementation of a connection may set this field.
pub fn is_of_connection(name: &HeaderName) -> bool {
    HOP_BY_HOP.contains(name) || NOT_OURS.contains(name)
}

/// Sets fields, and replaces those with the same names.
pub fn put(headers: &mut HeaderMap, fields: &HeaderMap) {
    for name in fields.keys() {
        copy(fields, name, headers);
    }
}

/// Removes the fields that only apply to one connection, and those that `Connection` names.
fn strip(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in HOP_BY_HOP.into_iter().chain(named) {
        headers.remove(name);
    }
}

fn copy(from: &HeaderMap, name: &HeaderName, to: &mut HeaderMap) {
    to.remove(name);
    for value in from.get_all(name) {
        to.append(name, value.clone());
    }
}

/// Sets a field if it's absent.
fn add(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let (false, Ok(value)) = (headers.contains_key(&name), HeaderValue::from_str(value)) {
        headers.insert(name, value);
    }
}

/// Appends a value to a field.
fn extend(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    let before = headers.get_all(&name).iter().filter_map(|value| value.to_str().ok());
    let all: Vec<_> = before.chain([value]).collect();
    if let Ok(value) = HeaderValue::from_str(&all.join(", ")) {
        headers.insert(name, value);
    }
}

/// An element of `Forwarded` (RFC 7239).
fn forwarded_element(peer: IpAddr, host: Option<&str>) -> String {
    let node = match peer {
        IpAddr::V4(peer) => peer.to_string(),
        IpAddr::V6(peer) => format!("\"[{peer}]\""),
    };
    // The host is a quoted string, and these two characters would end it.
    let host = host.filter(|host| !host.contains(['"', '\\'])).map(|host| format!(";host=\"{host}\""));
    format!("for={node}{};proto=http", host.unwrap_or_default())
}

/// Returns true if a reply has a content coding that must be decoded (RFC 9110, section 8.4).
pub fn is_coded(headers: &HeaderMap) -> bool {
    let coding = headers.get(header::CONTENT_ENCODING);
    coding.is_some_and(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"identity"))
}

/// Returns true if a response claims to be JSON: `application/json`, or a type that ends in `+json`
/// (RFC 6839).
pub fn is_json(headers: &HeaderMap) -> bool {
    let Some(kind) = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()) else {
        return false;
    };
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    kind == "application/json" || kind == "text/json" || kind.ends_with("+json")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(fields: &[(&'static str, &str)]) -> HeaderMap {
        let field = |(name, value): &(&'static str, &str)| {
            (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())
        };
        fields.iter().map(field).collect()
    }

    fn shown(headers: &HeaderMap) -> Vec<String> {
        let mut fields: Vec<_> =
            headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
        fields.sort();
        fields
    }

    #[test]
    fn fields_of_one_connection_end_here() {
        let client = map(&[
            ("accept", "text/plain"),
            ("authorization", "Bearer x"),
            ("connection", "keep-alive, x-secret"),
            ("content-length", "3"),
            ("cookie", "a=b"),
            ("host", "rowstream.example"),
            ("keep-alive", "timeout=5"),
            ("proxy-authorization", "Basic x"),
            ("te", "trailers"),
            ("upgrade", "h2c"),
            ("x-secret", "1"),
        ]);
        assert_eq!(
            shown(&request(&client, &HeaderMap::new(), true)),
            ["accept: text/plain", "authorization: Bearer x", "cookie: a=b", "via: 1.1 rowstream"]
        );
        assert_eq!(
            shown(&request(&client, &HeaderMap::new(), false)),
            ["accept: text/plain", "cookie: a=b", "via: 1.1 rowstream"]
        );
        let upstream =
            map(&[("content-length", "3"), ("transfer-encoding", "chunked"), ("via", "1.1 other")]);
        assert_eq!(shown(&response(&upstream)), ["via: 1.1 other", "via: 1.1 rowstream"]);
    }

    #[test]
    fn upstreams_are_told_for_whom() {
        let headers = map(&[
            ("traceparent", "00-1-2-01"),
            ("tracestate", "a=b"),
            ("x-forwarded-for", "203.0.113.9"),
            ("x-forwarded-host", "shop.example"),
            ("x-forwarded-proto", "https"),
            ("forwarded", "for=203.0.113.9;proto=https"),
        ]);
        let peer = Some("192.0.2.1".parse().unwrap());
        let forwarded_by =
            |is_trusted| shown(&forwarded(&headers, Some("h:80"), Client { peer, is_trusted }));
        assert_eq!(
            forwarded_by(false),
            [
                "forwarded: for=192.0.2.1;host=\"h:80\";proto=http",
                "traceparent: 00-1-2-01",
                "tracestate: a=b",
                "x-forwarded-for: 192.0.2.1",
                "x-forwarded-host: h:80",
                "x-forwarded-proto: http",
            ]
        );
        assert_eq!(
            forwarded_by(true),
            [
                "forwarded: for=203.0.113.9;proto=https, for=192.0.2.1;host=\"h:80\";proto=http",
                "traceparent: 00-1-2-01",
                "tracestate: a=b",
                "x-forwarded-for: 203.0.113.9, 192.0.2.1",
                "x-forwarded-host: shop.example",
                "x-forwarded-proto: https",
            ]
        );
        let peer = Some("2001:db8::1".parse().unwrap());
        let forwarded =
            shown(&forwarded(&HeaderMap::new(), Some("a\"b"), Client { peer, is_trusted: false }));
        assert_eq!(forwarded[0], "forwarded: for=\"[2001:db8::1]\";proto=http");
    }

    /// A client can't pass itself off as another one with fields that it writes itself.
    #[test]
    fn untrusted_claims_are_replaced() {
        let client = map(&[("x-forwarded-for", "10.0.0.1"), ("x-forwarded-host", "internal")]);
        let peer = Some("192.0.2.1".parse().unwrap());
        let forwarded = forwarded(&client, None, Client { peer, is_trusted: false });
        let fields = shown(&request(&client, &forwarded, true));
        assert_eq!(
            fields,
            [
                "forwarded: for=192.0.2.1;proto=http",
                "via: 1.1 rowstream",
                "x-forwarded-for: 192.0.2.1",
                "x-forwarded-proto: http",
            ]
        );
    }
}
