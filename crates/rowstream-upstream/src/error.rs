//! The errors of upstreams, as users see them. Addresses and causes are only in the log.

use std::time::Duration;

use http::StatusCode;
use rowstream_core::Error;

/// The upstream's address, `seen`, isn't an allowed one.
pub(super) fn refused(source: &str, seen: &str) -> Error {
    let message = format!("the address of source `{source}` isn't allowed");
    Error::new("upstream_refused", StatusCode::BAD_GATEWAY, message)
        .hint("`allow` of the source lists the networks that its addresses may be in")
        .cause(seen.to_owned())
}

/// No connection could be opened.
pub(super) fn unreachable(source: &str, cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::source_unavailable(format!("source `{source}` cannot be reached")).cause(cause)
}

/// All hosts are ejected. `backoff` is the time until the first one is probed. Users get whole
/// seconds.
pub(super) fn all_ejected(source: &str, backoff: Duration) -> Error {
    let message =
        format!("source `{source}` has failed too often lately, so it gets no requests for a moment");
    let seconds = backoff.as_secs() + u64::from(backoff.subsec_nanos() > 0);
    Error::new("upstream_unavailable", StatusCode::SERVICE_UNAVAILABLE, message)
        .retry_after(Duration::from_secs(seconds.max(1)))
}

/// No head arrived in time.
pub(super) fn no_answer(source: &str, timeout: Duration) -> Error {
    let message = format!("source `{source}` did not answer within {timeout:?}");
    Error::new("upstream_timeout", StatusCode::GATEWAY_TIMEOUT, message)
}

/// The response didn't end in time.
pub(super) fn no_end(source: &str, timeout: Duration) -> Error {
    let message = format!("the answer of source `{source}` was not complete within {timeout:?}");
    Error::new("upstream_timeout", StatusCode::GATEWAY_TIMEOUT, message)
}

/// The response was truncated, or it's invalid.
pub(super) fn broken(source: &str, cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    let message = format!("the answer of source `{source}` was invalid or truncated");
    Error::new("upstream_broken", StatusCode::BAD_GATEWAY, message).cause(cause)
}

/// The hint for the head of a response that hyper refuses.
pub(super) const LONG_HEAD: &str = "its header has more than 100 fields or 32 KiB: let it, or a proxy before it, send \
    fewer fields, such as cookies";

/// The end of the connection is the end of the response, so it can't be told from a truncated one.
pub(super) fn endless(source: &str) -> Error {
    let message = format!(
        "the answer of source `{source}` has neither a length nor chunks, so a truncated one would look \
         complete"
    );
    Error::new("upstream_without_end", StatusCode::BAD_GATEWAY, message)
}

/// The response doesn't fit the request: it's a part of the content, or another protocol.
pub(super) fn unasked(source: &str, status: StatusCode, what: &str) -> Error {
    let message = format!(
        "source `{source}` answered {} with {what}, which the request didn't ask for",
        status.as_u16()
    );
    Error::new("upstream_broken", StatusCode::BAD_GATEWAY, message)
}

/// The response claims to be JSON, but it's empty.
pub(super) fn empty(source: &str) -> Error {
    let message = format!("the answer of source `{source}` is empty, although it's declared as JSON");
    Error::new("upstream_reply", StatusCode::BAD_GATEWAY, message)
}

/// The response is a redirect.
pub(super) fn redirect(source: &str, status: StatusCode, location: Option<&str>) -> Error {
    let message =
        format!("source `{source}` answered {}, a redirect, and redirects aren't followed", status.as_u16());
    Error::new("upstream_redirect", StatusCode::BAD_GATEWAY, message)
        .hint("request the new address, or make it a source of its own")
        .cause(format!("to {}", location.unwrap_or("nowhere")))
}
