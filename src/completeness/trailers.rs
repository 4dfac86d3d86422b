//! Trailers (RFC 9110, section 6.5): fields after the body, for clients that send `TE: trailers`.
//!
//! They state facts that are known only at the end. Many proxies and clients drop them, so no
//! client should rely on them alone.

use http::{HeaderMap, HeaderName, HeaderValue, Version, header};

use super::digest::CONTENT_DIGEST;
use super::page::PageEnd;
use crate::outcome::RowCounts;

/// How the stream ended. A failed stream has no trailers, because it has no end.
const STATUS: HeaderName = HeaderName::from_static("rowstream-status");
/// The number of its rows.
const ROWS: HeaderName = HeaderName::from_static("rowstream-rows");
/// The number of the rows inside of them, if there are nested statements.
const NESTED_ROWS: HeaderName = HeaderName::from_static("rowstream-nested-rows");
/// The cursor after its last row, on endpoints with a key.
const NEXT: HeaderName = HeaderName::from_static("rowstream-next");
/// Tells if rows may follow a page.
pub(crate) const PAGE: HeaderName = HeaderName::from_static("rowstream-page");
/// In the headers of a page: its trailers or its end record tell it.
pub(crate) const STREAMED: HeaderValue = HeaderValue::from_static("streamed");

/// True if a request accepts trailers. HTTP/1.0 has no chunks that they could follow.
pub(crate) fn are_taken(version: Version, headers: &HeaderMap) -> bool {
    let lines = headers.get_all(header::TE).into_iter().filter_map(|line| line.to_str().ok());
    version > Version::HTTP_10
        && lines.flat_map(|line| line.split(',')).any(|coding| coding.trim().eq_ignore_ascii_case("trailers"))
}

/// The trailers of a stream, in addition to its status and its rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TrailerFields {
    pub(crate) nested: bool,
    pub(crate) next: bool,
    pub(crate) page: bool,
    pub(crate) digest: bool,
}

/// `Trailer`: the names of the fields. HTTP/1.1 doesn't send fields that aren't named here.
pub(crate) fn announcement(fields: TrailerFields) -> Option<HeaderValue> {
    let TrailerFields { nested, next, page, digest } = fields;
    let names = [
        (true, STATUS),
        (true, ROWS),
        (nested, NESTED_ROWS),
        (next, NEXT),
        (page, PAGE),
        (digest, CONTENT_DIGEST),
    ];
    let names: Vec<_> = names.iter().filter(|(comes, _)| *comes).map(|(_, name)| name.as_str()).collect();
    HeaderValue::try_from(names.join(", ")).ok()
}

/// The trailers of a complete stream.
pub(crate) fn complete(
    rows: RowCounts,
    next: Option<&str>,
    page: Option<PageEnd>,
    digest: Option<&str>,
) -> HeaderMap {
    let mut trailers = HeaderMap::new();
    trailers.insert(STATUS, HeaderValue::from_static("complete"));
    trailers.insert(ROWS, rows.rows.into());
    if let Some(nested) = rows.nested {
        trailers.insert(NESTED_ROWS, nested.into());
    }
    for (name, text) in [(NEXT, next), (PAGE, page.map(PageEnd::name)), (CONTENT_DIGEST, digest)] {
        if let Some(value) = text.and_then(|text| HeaderValue::from_str(text).ok()) {
            trailers.insert(name, value);
        }
    }
    trailers
}
