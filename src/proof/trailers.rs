//! Trailers (RFC 9110, section 6.5): fields behind the body, for clients that say `TE: trailers`.
//!
//! They say what only the end knows. Many proxies and clients drop them, so nothing rests on them alone.

use http::{HeaderMap, HeaderName, HeaderValue, Version, header};

use super::digest::CONTENT_DIGEST;

/// How the stream went. A failed one has no trailers, because it has no end.
const STATUS: HeaderName = HeaderName::from_static("rowstream-status");
/// Its rows.
const ROWS: HeaderName = HeaderName::from_static("rowstream-rows");
/// The cursor behind its last row, on endpoints with a key.
const NEXT: HeaderName = HeaderName::from_static("rowstream-next");

/// Whether a request takes trailers. HTTP/1.0 has no chunks that they could follow.
pub(crate) fn are_taken(version: Version, headers: &HeaderMap) -> bool {
    let lines = headers.get_all(header::TE).into_iter().filter_map(|line| line.to_str().ok());
    version > Version::HTTP_10
        && lines.flat_map(|line| line.split(',')).any(|coding| coding.trim().eq_ignore_ascii_case("trailers"))
}

/// `Trailer`: what will come. HTTP/1.1 sends no field that is not named here.
pub(crate) fn announcement(next: bool, digest: bool) -> HeaderValue {
    HeaderValue::from_static(match (next, digest) {
        (false, false) => "rowstream-status, rowstream-rows",
        (false, true) => "rowstream-status, rowstream-rows, content-digest",
        (true, false) => "rowstream-status, rowstream-rows, rowstream-next",
        (true, true) => "rowstream-status, rowstream-rows, rowstream-next, content-digest",
    })
}

/// The trailers of a stream that is complete.
pub(crate) fn complete(rows: u64, next: Option<&str>, digest: Option<&str>) -> HeaderMap {
    let mut trailers = HeaderMap::new();
    trailers.insert(STATUS, HeaderValue::from_static("complete"));
    trailers.insert(ROWS, rows.into());
    for (name, text) in [(NEXT, next), (CONTENT_DIGEST, digest)] {
        if let Some(value) = text.and_then(|text| HeaderValue::from_str(text).ok()) {
            trailers.insert(name, value);
        }
    }
    trailers
}
