//! The headers of answers: those of successes, and those of problem documents.

use std::borrow::Cow;

use bytes::Bytes;
use http::header::{self, HeaderName, HeaderValue};
use http::uri::{Authority, PathAndQuery};
use http::{HeaderMap, Request, Response, StatusCode};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use rowstream_core::Error;
use rowstream_core::diagnostic::shown;
use rowstream_core::error::denial::Denial;
use rowstream_core::params;
use rowstream_encode::{CsvDialect, Format, Separator};

use super::body::AnswerBody;
use super::cors::cors_headers;
use super::host::no_host;
use super::refine::preference;
use super::request::StreamRequest;
use super::signed::{SentSignature, with_signature};
use super::{spare, wire};
use crate::completeness::digest::CONTENT_DIGEST;
use crate::completeness::framing::TAG;
use crate::completeness::trailers::PAGE;
use crate::compress::Coding;
use crate::config::{Config, Cors};
use crate::endpoint::{Authorization, Endpoint, OneRow};
use crate::html;
use crate::metrics::Subject;
use crate::stream::{ReadPart, RowStream};

/// Lists the changes that were made to the database's values.
const CHANGES: HeaderName = HeaderName::from_static("rowstream-changes");
/// The server's root, relative to the request's path.
const ROOT: HeaderName = HeaderName::from_static("rowstream-root");
/// The number of connections that read parts of a table for the response.
const PARTS: HeaderName = HeaderName::from_static("rowstream-parts");
/// The token of a shard's snapshot.
const SNAPSHOT: HeaderName = HeaderName::from_static("rowstream-snapshot");
/// The most shards of an endpoint, in the answer to a request for more.
const SHARDS: HeaderName = HeaderName::from_static("rowstream-shards");
/// The preferences that an answer follows (RFC 7240).
const PREFERENCE_APPLIED: HeaderName = HeaderName::from_static("preference-applied");
/// Keeps nginx from buffering an answer.
const X_ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");
/// Keeps proxies from buffering an answer (draft-ietf-httpbis-incremental).
const INCREMENTAL: HeaderName = HeaderName::from_static("incremental");
/// Keeps browsers from treating an answer as another media type than its own (Fetch standard).
const NOSNIFF: HeaderValue = HeaderValue::from_static("nosniff");
/// Room for the headers of most successes. Growing it twice would cost a lookup as much as all its
/// headers.
const HEADERS: usize = 12;
/// The port of HTTPS URLs without a port.
const HTTPS: u16 = 443;
/// For tools that don't know bearer tokens: the token is the password (RFC 7617).
const BASIC: HeaderValue = HeaderValue::from_static("Basic realm=\"rowstream\", charset=\"UTF-8\"");
/// In `Vary`: the answer may depend on `Authorization`.
pub(super) const AUTHORIZED: HeaderValue = HeaderValue::from_static("authorization");
/// PostgREST's media type of a list's only row.
const ONLY_ROW: &str = "application/vnd.pgrst.object+json; charset=utf-8";
/// RFC 9457.
const PROBLEM: &str = "application/problem+json";
/// The methods of every path.
pub(super) const ALLOW: &str = "GET, HEAD, OPTIONS";
/// The methods of paths whose parameters may be in a body.
pub(super) const ALLOW_BODIES: &str = "GET, HEAD, QUERY, POST, OPTIONS";

/// The headers of a success.
pub(super) fn head(request: &StreamRequest<'_>, coding: Option<Coding>) -> Response<()> {
    let mut response = Response::new(());
    let headers = response.headers_mut();
    *headers = spare::take();
    headers.reserve(HEADERS);
    headers.insert(header::CONTENT_TYPE, content_type(request));
    if let Some((_, tag)) = request.asked.framed {
        tag.tell(TAG, headers);
    }
    wire::tell(request, headers);
    if request.reading.format == Format::Html {
        headers.insert(header::CONTENT_SECURITY_POLICY, html::policy());
        headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    }
    if let Some(changes) = changes(request) {
        headers.insert(CHANGES, changes);
    }
    let file = request.download.as_deref().map(|name| file_name(name, request));
    if let Some(disposition) = file.as_deref().and_then(attachment) {
        headers.insert(header::CONTENT_DISPOSITION, disposition);
    }
    if request.vary_accept {
        headers.insert(header::VARY, HeaderValue::from_static("accept"));
    }
    if request.vary_range {
        headers.append(header::VARY, HeaderValue::from_static("range"));
    }
    if request.endpoint.authorization != Authorization::Public || request.actor.is_some() {
        headers.append(header::VARY, AUTHORIZED);
    }
    if request.encoding.is_some() {
        headers.append(header::VARY, HeaderValue::from_static("accept-encoding"));
    }
    if let Some(coding) = coding {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static(coding.name()));
    }
    ask_not_to_buffer(headers);
    response
}

/// Asks proxies not to buffer. `no-transform` (RFC 9111) keeps them from compressing.
pub(super) fn ask_not_to_buffer(headers: &mut HeaderMap) {
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-transform"));
    headers.insert(X_ACCEL_BUFFERING, HeaderValue::from_static("no"));
    headers.insert(INCREMENTAL, HeaderValue::from_static("?1"));
}

/// The media type, with the facts that a reader of CSV needs (RFC 4180, section 3).
fn content_type(request: &StreamRequest<'_>) -> HeaderValue {
    if let Some((framing, _)) = request.asked.framed {
        return HeaderValue::from_static(framing.media_type());
    }
    HeaderValue::from_static(match (request.reading.format, request.endpoint.response.csv.header) {
        (Format::Csv, true) => "text/csv; charset=utf-8; header=present",
        (Format::Csv, false) => "text/csv; charset=utf-8; header=absent",
        (Format::Json, _) if request.endpoint.one_row() == OneRow::Requested => ONLY_ROW,
        (Format::Html, _) => "text/html; charset=utf-8",
        (format, _) => format.media_type(),
    })
}

/// The changes that are made to the database's values, if there are any.
fn changes(request: &StreamRequest<'_>) -> Option<HeaderValue> {
    let guard = (request.reading.format == Format::Csv && dialect(request).guard).then_some("formula-guard");
    let changes: Vec<_> = guard.into_iter().chain(request.reading.options.changes()).collect();
    if changes.is_empty() { None } else { changes.join(", ").parse().ok() }
}

/// The dialect of CSV that the request has chosen, or the endpoint's.
fn dialect<'a>(request: &'a StreamRequest<'_>) -> &'a CsvDialect {
    request.reading.csv.as_deref().unwrap_or(&request.endpoint.response.csv)
}

/// The name of a file with the format's extension. Programs rely on the extension and ignore the
/// media type.
fn file_name<'a>(name: &'a str, request: &StreamRequest<'_>) -> Cow<'a, str> {
    let (own, also) = match request.reading.format {
        Format::Ndjson => ("ndjson", "jsonl"),
        Format::Arrow => ("arrow", "arrows"),
        Format::Csv if dialect(request).separator == Separator::Tab => ("tsv", "csv"),
        format => (format.name(), format.name()),
    };
    let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
    match [own, also].iter().any(|own| own.eq_ignore_ascii_case(extension)) {
        true => name.into(),
        false => format!("{name}.{own}").into(),
    }
}

/// `Content-Disposition` (RFC 6266) that makes browsers save the answer as `name`: in ASCII for old
/// clients, and in full (RFC 8187). `None` if no header can hold it, which doesn't happen.
fn attachment(name: &str) -> Option<HeaderValue> {
    let plain = |c: char| if c.is_ascii() && !matches!(c, '"' | '\\' | '%') { c } else { '_' };
    let plain: String = name.chars().map(plain).collect();
    let full = utf8_percent_encode(name, NON_ALPHANUMERIC);
    format!("attachment; filename=\"{plain}\"; filename*=UTF-8''{full}").parse().ok()
}

/// Tells if a page is the last, and links to the page after a full one (`Link`, RFC 8288). The link
/// is relative to this page, because a proxy may serve it at another path.
pub(super) fn tell_page(url_query: Option<&str>, stream: &RowStream, headers: &mut HeaderMap) {
    if let Some(page) = stream.page() {
        headers.insert(PAGE, HeaderValue::from_static(page.name()));
    }
    let Some(cursor) = stream.next_page() else { return };
    let asked = url_query.unwrap_or_default();
    let is_after = |pair: &&str| {
        let name = pair.split('=').next().unwrap_or_default();
        params::percent_decode(name).is_some_and(|name| name == "_after")
    };
    let others = asked.split('&').filter(|pair| !pair.is_empty() && !is_after(pair));
    let after = format!("_after={cursor}");
    let next: Vec<_> = others.chain([after.as_str()]).collect();
    if let Ok(link) = format!("<?{}>; rel=\"next\"", next.join("&")).parse() {
        headers.insert(header::LINK, link);
    }
}

/// States the total and the page's range, as PostgREST does.
pub(super) fn tell_total(request: &StreamRequest<'_>, stream: &RowStream, headers: &mut HeaderMap) {
    let (Some(total), Some(counted)) = (stream.total(), &request.counted) else { return };
    // A guess may be less than the rows of the page.
    let page = counted.page.filter(|_| !total.is_planned).and_then(|page| page.of(total.rows));
    let range = page.unwrap_or_else(|| format!("*/{}", total.rows));
    if let Ok(range) = range.parse() {
        headers.insert(header::CONTENT_RANGE, range);
    }
    if let Some(kind) = counted.preferred {
        headers.insert(PREFERENCE_APPLIED, HeaderValue::from_static(preference(kind)));
    }
}

/// Tells the way to the server's root: `./` from `/orders`, `../` from `/orders/7`. It's relative,
/// because a proxy may serve the root below a prefix that we don't know.
pub(super) fn tell_root(request: &StreamRequest<'_>, headers: &mut HeaderMap) {
    let folders = request.endpoint.path.matches('/').count().saturating_sub(1);
    let root = match folders {
        0 => Ok(HeaderValue::from_static("./")),
        _ => "../".repeat(folders).try_into(),
    };
    if let Ok(root) = root {
        headers.insert(ROOT, root);
    }
}

/// Tells how many connections read parts of a table, or which snapshot a shard belongs to.
pub(super) fn tell_parts(stream: &RowStream, headers: &mut HeaderMap) {
    match stream.part() {
        Some(ReadPart::All(parts)) => drop(headers.insert(PARTS, (*parts).into())),
        Some(ReadPart::Shard(token)) => {
            if let Ok(token) = HeaderValue::from_str(token) {
                headers.insert(SNAPSHOT, token);
            }
        }
        None => {}
    }
}

/// Tells that a body is empty. hyper writes all other lengths itself, which costs less than a
/// header of ours. In HTTP/2 it omits the length of an empty body.
pub(super) fn tell_if_empty(headers: &mut HeaderMap, length: u64) {
    if length == 0 {
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from_static("0"));
    }
}

/// Adds the digest of the body to the headers, if it's known before they're sent.
pub(super) fn tell_digest(headers: &mut HeaderMap, digest: Option<&str>) {
    if let Some(value) = digest.and_then(|digest| HeaderValue::from_str(digest).ok()) {
        headers.insert(CONTENT_DIGEST, value);
    }
}

/// Ends an `EventSource`, which would otherwise reconnect whenever its stream ends (HTML standard,
/// "Server-sent events").
pub(super) fn no_more_events() -> Response<AnswerBody> {
    let mut response = Response::new(AnswerBody::Nothing);
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}

/// Adds the headers that every answer has.
pub(super) fn complete_head(cors: Option<&Cors>, origin: Option<&HeaderValue>, headers: &mut HeaderMap) {
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, NOSNIFF);
    if let Some(cors) = cors {
        cors_headers(cors, origin, headers);
    }
}

/// A problem document (RFC 9457) for a request of `subject`. For lists with filters and for unknown tables it has a
/// `message`, which PostgREST's clients read.
pub(super) fn problem(config: &Config, subject: Subject, error: &Error) -> Response<Bytes> {
    let has_filters = |endpoint: &Endpoint| endpoint.refine_settings().is_some();
    let is_of_filters = match subject {
        Subject::Endpoint(index) => has_filters(&config.endpoints[index]),
        Subject::None | Subject::Admin => {
            error.code() == "no_endpoint" && config.endpoints.iter().any(has_filters)
        }
    };
    let document = if is_of_filters { error.problem_with_message() } else { error.problem() };
    let mut response = Response::new(Bytes::from(document));
    *response.status_mut() = error.status();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(PROBLEM));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Some(seconds) = error.retry_seconds() {
        headers.insert(header::RETRY_AFTER, seconds.into());
    }
    if let Some(denial) = error.denial() {
        challenge(config, denial, headers);
    }
    if let Some(allow) = error.allow() {
        headers.insert(header::ALLOW, HeaderValue::from_static(allow));
    }
    if let Some(shards) = error.shards() {
        headers.insert(SHARDS, shards.into());
    }
    if error.status() == StatusCode::NOT_ACCEPTABLE {
        headers.insert(header::VARY, HeaderValue::from_static("accept"));
        headers.append(header::VARY, HeaderValue::from_static("accept-encoding"));
    }
    response
}

/// Tells which credentials a client may send (RFC 9110, section 11.6.1).
fn challenge(config: &Config, denial: Denial, headers: &mut HeaderMap) {
    headers.append(header::WWW_AUTHENTICATE, HeaderValue::from_static(denial.challenge()));
    if denial.status() == StatusCode::UNAUTHORIZED && !config.tokens.is_empty() {
        headers.append(header::WWW_AUTHENTICATE, BASIC);
    }
}

/// Redirects to the same URL over TLS, at the port `port`, with the same method (RFC 9110, section
/// 15.4.9).
pub(super) fn to_https<B>(request: &Request<B>, port: u16) -> Result<Response<()>, Error> {
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    let authority = request.uri().authority().cloned().or_else(|| host?.parse::<Authority>().ok());
    let target = request.uri().path_and_query().map_or("/", PathAndQuery::as_str);
    let target = match request.extensions().get::<SentSignature>() {
        Some(SentSignature(signature)) => Cow::Owned(with_signature(target, signature)),
        None => Cow::Borrowed(target),
    };
    let location = authority.and_then(|authority| {
        let port = if port == HTTPS { String::new() } else { format!(":{port}") };
        HeaderValue::try_from(format!("https://{}{port}{target}", authority.host())).ok()
    });
    let mut response = Response::new(());
    *response.status_mut() = StatusCode::PERMANENT_REDIRECT;
    response.headers_mut().insert(header::LOCATION, location.ok_or_else(no_host)?);
    Ok(response)
}

pub(super) fn no_endpoint(path: &str) -> Error {
    Error::new("no_endpoint", StatusCode::NOT_FOUND, format!("there is no endpoint {}", shown(path)))
}
