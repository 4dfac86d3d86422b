//! The headers that let pages of other origins read answers (Fetch standard, "CORS protocol").

use http::header::{self, HeaderName, HeaderValue};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use rowstream_upstream::fields;

use super::body::AnswerBody;
use crate::config::Cors;

/// The headers that pages of other origins may read, in addition to those that Fetch allows.
const EXPOSED: &str = "allow, content-digest, content-disposition, content-range, incremental, link, preference-applied, ratelimit, ratelimit-policy, retry-after, rowstream-changes, \
    rowstream-heartbeat, rowstream-page, rowstream-parts, rowstream-resume, rowstream-root, rowstream-shards, rowstream-snapshot, rowstream-stream, rowstream-tag, \
    rowstream-wire, server-timing, trailer, www-authenticate";
/// The pages of other origins that may read `Server-Timing` (W3C, "Resource Timing").
const TIMING_ALLOW_ORIGIN: HeaderName = HeaderName::from_static("timing-allow-origin");

/// The origin of the page that sends a request, if pages of other origins are allowed.
pub(super) fn origin<B>(cors: Option<&Cors>, request: &Request<B>) -> Option<HeaderValue> {
    cors?;
    request.headers().get(header::ORIGIN).map(fields::detached)
}

/// Answers `OPTIONS` for a path with the methods `allow`, and the preflight of CORS (Fetch standard,
/// "CORS-preflight request").
pub(super) fn options(cors: Option<&Cors>, allow: &'static str, headers: &HeaderMap) -> Response<AnswerBody> {
    let mut response = Response::new(AnswerBody::Nothing);
    *response.status_mut() = StatusCode::NO_CONTENT;
    let out = response.headers_mut();
    out.insert(header::ALLOW, HeaderValue::from_static(allow));
    if let (Some(cors), true) = (cors, headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)) {
        out.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(allow));
        out.insert(header::ACCESS_CONTROL_MAX_AGE, cors.max_age.as_secs().into());
        if let Some(wanted) = headers.get(header::ACCESS_CONTROL_REQUEST_HEADERS) {
            out.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, wanted.clone());
        }
    }
    response
}

/// True if a browser checks ahead of a request by a page of another origin (Fetch standard,
/// "CORS-preflight request").
pub(super) fn is_preflight<B>(request: &Request<B>) -> bool {
    *request.method() == Method::OPTIONS
        && request.headers().contains_key(header::ORIGIN)
        && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

/// Adds the origins whose pages may read the response. With a list of origins the answer depends on
/// `Origin`, and caches must know that.
pub(super) fn cors_headers(cors: &Cors, origin: Option<&HeaderValue>, headers: &mut HeaderMap) {
    // An upstream may send headers for its own clients.
    for name in [header::ACCESS_CONTROL_ALLOW_ORIGIN, header::ACCESS_CONTROL_ALLOW_CREDENTIALS] {
        headers.remove(name);
    }
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED));
    let any = cors.origins.iter().any(|allowed| allowed == "*");
    if any {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
        headers.insert(TIMING_ALLOW_ORIGIN, HeaderValue::from_static("*"));
        return;
    }
    headers.append(header::VARY, HeaderValue::from_static("origin"));
    if let Some(origin) =
        origin.filter(|origin| cors.origins.iter().any(|allowed| allowed.as_bytes() == origin.as_bytes()))
    {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
        headers.insert(TIMING_ALLOW_ORIGIN, origin.clone());
    }
}
