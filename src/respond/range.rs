//! The header `Range` of a list with filters, as PostgREST has it: `0-24` are the first 25 rows, and
//! `25-` all others.
//!
//! It becomes `limit` and `offset` of the request's URL, so everything else only knows these. Ranges in
//! other units, such as bytes, are ignored (RFC 9110, section 14.2).

use http::{HeaderMap, HeaderName, Method, Request, header};
use rowstream_core::Error;
use rowstream_core::diagnostic::shown;
use rowstream_core::filter::{self, Refinement};
use rowstream_core::params;

use super::request_body::has_body;
use super::signed::set_query;
use crate::endpoint::Endpoint;

/// PostgREST's header for the unit of a range.
const RANGE_UNIT: HeaderName = HeaderName::from_static("range-unit");

/// Rows of a list. The first one is 0.
struct RowRange {
    first: i64,
    /// `None`: all from `first` on.
    last: Option<i64>,
}

impl RowRange {
    /// Reads the headers of a request. `None`: they have no range of rows.
    ///
    /// # Errors
    /// 400: the range has no rows, or a number is beyond 64 bits.
    fn read(headers: &HeaderMap) -> Result<Option<Self>, Error> {
        let in_items = headers.get(RANGE_UNIT).is_none_or(|unit| unit == "items");
        let text = headers.get(header::RANGE).filter(|_| in_items).and_then(|range| range.to_str().ok());
        let Some(text) = text else { return Ok(None) };
        let Some((first, last)) = text.split_once('-') else { return Ok(None) };
        let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if first.is_empty() || !is_number(first) || !is_number(last) {
            return Ok(None);
        }
        let last = (!last.is_empty()).then(|| last.parse()).transpose();
        match (first.parse(), last) {
            (Ok(first), Ok(last)) if last.is_none_or(|last| last >= first) => Ok(Some(Self { first, last })),
            _ => {
                let why = format!("{} isn't a range of rows: write `0-24`, or `25-`", shown(text));
                Err(Error::invalid_parameters(vec![("Range".to_owned(), why)]))
            }
        }
    }

    /// The offset and the limit of the rows that are also in this page.
    fn within(&self, page: &Refinement) -> (i64, Option<i64>) {
        let offset = page.offset.unwrap_or_default();
        let ends = [
            self.last.map(|last| last.saturating_add(1)),
            page.limit.map(|rows| offset.saturating_add(rows)),
        ];
        let first = self.first.max(offset);
        let limit = ends.into_iter().flatten().min().map(|end| (end - first).max(0));
        (first, limit)
    }
}

/// True if a range of rows changes the response of an endpoint. A statement with a limit of its own has no
/// pages. Only GET has ranges (RFC 9110, section 14.2), and HEAD has the headers of GET.
pub(super) fn is_read(endpoint: &Endpoint, method: &Method) -> bool {
    let has_pages = endpoint.refine_settings().is_some_and(|settings| !settings.has_limit);
    has_pages && !has_body(method)
}

/// Moves a range of rows from the headers of a request into its URL. If the URL has `limit` or `offset`,
/// the rows are those in both, as in PostgREST.
///
/// # Errors
/// 400: the range has no rows, or a value of the query can't be decoded.
pub(super) fn move_to_url<B>(request: &mut Request<B>) -> Result<(), Error> {
    let Some(range) = RowRange::read(request.headers())? else { return Ok(()) };
    let query = request.uri().query().unwrap_or_default();
    let (page, rest) = params::take_pairs(query, |name| matches!(name, "limit" | "offset"))?;
    // Errors are reported with those of the other pairs.
    let Ok(page) = filter::read(page.iter().map(|(name, value)| (name.as_str(), value.as_str()))) else {
        return Ok(());
    };
    let (offset, limit) = range.within(&page);
    let limit = limit.map(|limit| format!("limit={limit}"));
    let offset = (offset > 0).then(|| format!("offset={offset}"));
    let pairs: Vec<_> =
        Some(rest).filter(|rest| !rest.is_empty()).into_iter().chain(limit).chain(offset).collect();
    set_query(request.uri_mut(), &pairs.join("&"));
    Ok(())
}
