//! Signed URLs in requests and their responses. [`auth::signed`](crate::auth::signed) signs and
//! verifies them.
//!
//! The signature leaves the URL before anything else reads it. So no log, span, link, message or
//! upstream can contain it, and the rest of the query is exactly the signed one.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Request, Response, Uri};
use jiff::Timestamp;
use rowstream_core::Error;
use rowstream_core::cursor::Signer;
use rowstream_core::params::{self, ParamPlace};
use serde_json::json;

use super::body::AnswerBody;
use super::head::ALLOW;
use super::request_body::has_body;
use crate::auth::Credentials;
use crate::auth::signed::{UsedClaims, refusal, signer};
use crate::config::Config;
use crate::endpoint::Endpoint;

/// The parameter that has the signature of a URL.
const SIGNATURE: &str = "_signature";
/// The parameter that requests a signed URL, valid for so many seconds.
pub(super) const SIGN: &str = "_sign";
/// The most seconds.
const LONGEST: u64 = 3600;
/// The longest signed URL, in bytes. Some clients and proxies accept no longer ones.
const MOST_BYTES: usize = 4096;
/// Headers that make a shared cache ignore `Cache-Control` (RFC 9213; Edge Architecture 1.0).
const OF_SHARED_CACHES: [HeaderName; 2] =
    [HeaderName::from_static("cdn-cache-control"), HeaderName::from_static("surrogate-control")];

/// The signature of a request's URL, as an extension of the request.
#[derive(Clone)]
pub(super) struct SentSignature(pub(super) Box<str>);

/// Removes the signature from a URL. Returns it as it was sent.
pub(crate) fn take_signature(uri: &mut Uri) -> Option<Box<str>> {
    take(uri, SIGNATURE)
}

/// Removes a parameter from the query of a URL. Returns its value as it was sent; several are
/// joined by `&`, which no value contains.
pub(super) fn take(uri: &mut Uri, name: &str) -> Option<Box<str>> {
    let query = uri.query()?;
    let is_own = |pair: &&str| {
        let own = pair.split('=').next().and_then(params::percent_decode);
        own.is_some_and(|own| own == name)
    };
    if !query.split('&').any(|pair| is_own(&pair)) {
        return None;
    }
    let (own, rest): (Vec<_>, Vec<_>) = query.split('&').partition(is_own);
    let values = own.iter().map(|pair| pair.split_once('=').map_or("", |(_, value)| value));
    let values = values.collect::<Vec<_>>().join("&").into();
    let rest = rest.join("&");
    set_query(uri, &rest);
    Some(values)
}

/// Replaces the query of a URL by valid pairs.
pub(super) fn set_query(uri: &mut Uri, query: &str) {
    let target = with_query(uri.path(), query);
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(target.parse().expect("parts of a valid target"));
    *uri = Uri::from_parts(parts).expect("the rest of it is unchanged");
}

fn with_query(path: &str, query: &str) -> String {
    if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") }
}

/// A target with a signature.
pub(super) fn with_signature(target: &str, signature: &str) -> String {
    let separator = if target.contains('?') { '&' } else { '?' };
    format!("{target}{separator}{SIGNATURE}={signature}")
}

/// The headers of each response to a signed URL: no other site and no shared cache gets the URL or
/// its rows.
pub(super) fn keep_private(headers: &mut HeaderMap) {
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    let is_shared = |directive: &str| {
        let directive = directive.to_ascii_lowercase();
        // The names of fields may be split here, and a private response needs none.
        directive.contains('"')
            || ["public", "private", "s-maxage"].iter().any(|name| directive.starts_with(name))
    };
    let lines = headers.get_all(header::CACHE_CONTROL).iter().filter_map(|line| line.to_str().ok());
    let directives = lines.flat_map(|line| line.split(',')).map(str::trim);
    let kept = directives.filter(|directive| !directive.is_empty() && !is_shared(directive));
    let control = ["private"].into_iter().chain(kept).collect::<Vec<_>>().join(", ");
    let control = HeaderValue::try_from(control).unwrap_or(HeaderValue::from_static("private"));
    headers.insert(header::CACHE_CONTROL, control);
    for name in OF_SHARED_CACHES {
        headers.remove(name);
    }
}

/// Removes the parameters in headers, because a URL can't contain them: they have their defaults.
pub(super) fn remove_header_params(endpoint: &Endpoint, headers: &mut HeaderMap) {
    for param in &endpoint.params {
        if let ParamPlace::Header { name, .. } = &param.place {
            headers.remove(name);
        }
    }
}

/// The credentials of a signed URL, which are all that its request has.
///
/// # Errors
/// 400: it also has others. 403: the signature isn't valid. 405: it has a body, which isn't signed.
pub(super) fn credentials<B>(
    config: &Config,
    SentSignature(signature): &SentSignature,
    request: &Request<B>,
) -> Result<Credentials, Error> {
    if has_body(request.method()) {
        return Err(Error::method_not_allowed(ALLOW));
    }
    if request.headers().contains_key(header::AUTHORIZATION) {
        return Err(wrong(SIGNATURE, "send either a signed URL or `Authorization`, not both"));
    }
    let signer = url_signer(config, request.uri());
    let signer =
        signer.ok_or_else(|| refusal("this server has no signed URLs, because it has no `url_secret`"))?;
    let (tokens, jwt) = (&config.tokens, config.jwt.as_ref());
    Credentials::of_signature(signature, &signer, tokens, jwt, now())
}

/// Answers with the signed URL of an authorized request. `seconds` is the value of [`SIGN`].
///
/// # Errors
/// 400: the server has no signed URLs, the time or the URL is too long, there's no token, or the
/// request has a body.
pub(super) fn answer<B>(
    config: &Config,
    seconds: &str,
    endpoint: &Endpoint,
    credentials: &Credentials,
    request: &Request<B>,
) -> Result<Response<AnswerBody>, Error> {
    if has_body(request.method()) {
        return Err(wrong(SIGN, "a URL can't contain a body: send the parameters in the query, with GET"));
    }
    let signer = url_signer(config, request.uri())
        .ok_or_else(|| wrong(SIGN, "this server signs no URLs").hint("set `url_secret` in rowstream.toml"))?;
    let valid = seconds.parse().ok().filter(|valid| (1..=LONGEST).contains(valid));
    let valid = valid.ok_or_else(|| {
        wrong(SIGN, &format!("write how many seconds the URL is valid: a number from 1 to {LONGEST}"))
    })?;
    let has_roles = config.source(&endpoint.source).roles.is_some();
    let used = UsedClaims { params: &endpoint.params, has_roles };
    let signed = credentials.sign(&signer, used, Duration::from_secs(valid), now())?;
    let (path, query) = target(request.uri());
    let url = with_signature(&with_query(path, query), &signed.text);
    if url.len() > MOST_BYTES {
        let message = format!("the signed URL has {} bytes, but at most {MOST_BYTES} are allowed", url.len());
        return Err(
            wrong(SIGN, &message).hint("send fewer or shorter parameters, or use a token with fewer claims")
        );
    }
    let expires = i64::try_from(signed.until).ok().and_then(|until| Timestamp::from_second(until).ok());
    let expires = expires.map(|expires| expires.to_string());
    let document = format!("{}\n", json!({"url": url, "expires": expires}));
    let mut response = Response::new(AnswerBody::Whole(Bytes::from(document)));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// The signer for a URL. Signed URLs never contain [`SIGN`], so they can't sign others. The path
/// isn't decoded, because `/a.csv` and `/a%2Ecsv` may be different endpoints.
fn url_signer(config: &Config, uri: &Uri) -> Option<Signer> {
    let (path, query) = target(uri);
    Some(signer(config.url_signer.as_ref()?, path, query))
}

/// The path and the query as they were sent.
fn target(uri: &Uri) -> (&str, &str) {
    (uri.path(), uri.query().unwrap_or_default())
}

/// The error for the signature of another URL than an endpoint's.
pub(super) fn only_endpoints() -> Error {
    refusal("only the URLs of endpoints can be signed")
}

fn wrong(name: &str, why: &str) -> Error {
    Error::invalid_parameters(vec![(name.to_owned(), why.to_owned())])
}

/// The seconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_leaves_the_query() {
        for (target, rest, taken) in [
            ("/a", "/a", None),
            ("/a?", "/a?", None),
            ("/a?b=1&c", "/a?b=1&c", None),
            ("/a?signature=1", "/a?signature=1", None),
            ("/a?_signature=x", "/a", Some("x")),
            ("/a?_signature", "/a", Some("")),
            ("/a?b=1&_signature=x=%41&c=%20", "/a?b=1&c=%20", Some("x=%41")),
            ("/a?%5Fsignature=x&b", "/a?b", Some("x")),
            ("/a?_signature=x&b&_%73ignature=y", "/a?b", Some("x&y")),
            ("http://h:1/%2e?&_signature=x&&", "http://h:1/%2e?&&", Some("x")),
        ] {
            let mut uri: Uri = target.parse().unwrap();
            assert_eq!(take(&mut uri, SIGNATURE).as_deref(), taken, "{target}");
            assert_eq!(uri, rest, "{target}");
        }
    }

    #[test]
    fn no_shared_cache_keeps_a_response() {
        for (lines, expected) in [
            (&[][..], "private"),
            (&["no-transform"], "private, no-transform"),
            (&["no-store"], "private, no-store"),
            (&["Public, max-age=60", "S-MaxAge=9,no-cache"], "private, max-age=60, no-cache"),
            (&["private=\"a, public\", must-revalidate"], "private, must-revalidate"),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert("cdn-cache-control", HeaderValue::from_static("max-age=60"));
            for line in lines {
                headers.append(header::CACHE_CONTROL, HeaderValue::from_static(line));
            }
            keep_private(&mut headers);
            let control: Vec<_> = headers.get_all(header::CACHE_CONTROL).iter().collect();
            assert_eq!(control, [expected], "{lines:?}");
            assert_eq!(headers[header::REFERRER_POLICY], "no-referrer");
            assert!(!headers.contains_key("cdn-cache-control"));
        }
    }
}
