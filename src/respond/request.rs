//! The contents of a request for rows.

use std::sync::Arc;

use http::header;
use http::{HeaderMap, Request};
use rowstream_core::Error;
use rowstream_core::params::{self, BodyParams, Claims, ParamValue, RequestValues, RequestedShard, Shard};
use rowstream_encode::{Format, Separator};

use super::arrival::{Arrival, is_remote};
use super::follow;
use super::refine::{CountedResponse, Refined};
use crate::completeness::ProofRequest;
use crate::completeness::events::{self, LAST_EVENT_ID};
use crate::compress::Coding;
use crate::database::Actor;
use crate::endpoint::{Compression, Endpoint, FollowMode, OneRow, Timeout};
use crate::negotiate::{self, Encoding};
use crate::route::{Match, Suffix};
use crate::stream::RowsRequest;

/// The length of a body that is longer than is known.
pub(super) const STREAMED: usize = usize::MAX;

/// An extension of a request for plans that are JSON, although the rows would have another format.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PlanAsJson;

/// A request that is known to be well-formed and allowed.
pub(super) struct StreamRequest<'a> {
    pub(super) endpoint: &'a Endpoint,
    /// The endpoint's index.
    pub(super) index: usize,
    /// The rows to read. Its options are limited to those that matter in the format.
    pub(super) reading: RowsRequest,
    /// Tells if the request waits for future rows.
    pub(super) followed: FollowMode,
    pub(super) vary_accept: bool,
    /// True if a header can ask for a range of its rows.
    pub(super) vary_range: bool,
    /// The compression that the client accepts; `None` if it isn't negotiated.
    pub(super) encoding: Option<Encoding>,
    /// The answer's proofs of its end.
    pub(super) asked: ProofRequest,
    /// The most rows that the statement with the endpoint's key can return, if that's known.
    pub(super) page: Option<u64>,
    /// Set if the rows are counted. Boxed, because few requests ask for it.
    pub(super) counted: Option<Box<CountedResponse>>,
    /// The file name for saving the answer.
    pub(super) download: Option<Box<str>>,
    pub(super) values: Vec<ParamValue>,
    /// True if the request gave one of them.
    pub(super) given: bool,
    /// The role of the statements; `None`: that of the source's user.
    pub(super) actor: Option<Arc<Actor>>,
    /// The headers that are forwarded to an upstream. Boxed, because few requests have any.
    pub(super) forwarded: Option<Box<HeaderMap>>,
}

/// Reads and checks a request.
pub(super) fn read_stream_request<'a>(
    endpoint: &'a Endpoint,
    found: &Match<'_>,
    request: &Request<Arrival>,
    claims: Option<&Claims>,
    body: Option<&BodyParams>,
    refined: Option<&Refined>,
) -> Result<StreamRequest<'a>, Error> {
    let query = refined.map_or(request.uri().query(), |refined| Some(&refined.query));
    let values = refined.map_or(&[][..], |refined| &refined.values);
    let params = &endpoint.params[..endpoint.params.len() - values.len()];
    let mut bound = params::bind_with(claims, params, &found.args, query, body, request.headers())?;
    bound.values.extend_from_slice(values);
    bound.given |= refined.is_some();
    if refined.is_some_and(|refined| refined.is_fixed) {
        follow::refuse(&bound)?;
    }
    let own = endpoint.of_values(&bound.values);
    let explains = bound.explain == Some(true);
    let endpoint = if explains { explained(own, &bound)? } else { own };
    let as_json = explains && request.extensions().get::<PlanAsJson>().is_some();
    let followed = follow::read(endpoint, &mut bound)?;
    let accept = request.headers().get_all(header::ACCEPT);
    let formats = match (followed, &found.suffix, &bound.format) {
        _ if as_json => &own.formats,
        (FollowMode::Continuously, Suffix::None, None) => &follow::formats(endpoint)[..],
        _ => &endpoint.formats,
    };
    let choice = match endpoint.one_row() {
        OneRow::Requested => negotiate::Choice::ONLY_ROW,
        OneRow::Optional | OneRow::Required => {
            negotiate::choose(&found.suffix, bound.format.as_deref(), accept, formats)?
        }
    };
    let choice = if as_json { negotiate::Choice::PLAN } else { choice };
    let negotiate::Choice { format, framed, by_tabs, vary_accept } = choice;
    let asked = ProofRequest::read(request, bound.completeness, format, framed)?;
    follow::check(followed, format, &asked)?;
    let options = bound.options.over(endpoint.response.values).in_format(format);
    let encoding = match negotiates_encoding(endpoint, request) {
        true => Some(Encoding::choose(request.headers().get_all(header::ACCEPT_ENCODING))?),
        false => None,
    };
    let mut csv = std::mem::take(&mut bound.csv);
    csv.separator = csv.separator.or(by_tabs.then_some(Separator::Tab));
    let shard = asked_shard(endpoint, bound.shard, bound.snapshot)?;
    let after = after(endpoint, shard.as_ref(), format, bound.after, request)?;
    let proves = asked.framed.is_some() || asked.trailers || asked.wait || asked.without_chunks;
    // A shard has cursors only in its marks.
    let cursors = if shard.is_some() { asked.framed.is_some() } else { proves };
    let reading = RowsRequest {
        format,
        options,
        csv: csv.over(&endpoint.response.csv).map(Box::new),
        page: None,
        after,
        shard: shard.map(Box::new),
        cursors: cursors || followed != FollowMode::No,
        followed: followed == FollowMode::Continuously,
        ends_events: format == Format::Sse && followed == FollowMode::No,
        upstreams: Box::default(),
    };
    let (download, values, given) = (bound.download.map(String::into_boxed_str), bound.values, bound.given);
    let page = endpoint.key().and_then(|key| endpoint.page_of(key.statement, &values));
    let total = refined.and_then(|refined| refined.total.as_ref());
    let counted = total.map(|total| Box::new(total.of_response(page, reading.after.is_some())));
    let index = found.endpoint;
    Ok(StreamRequest {
        endpoint,
        index,
        reading,
        followed,
        vary_accept,
        vary_range: false,
        encoding,
        asked,
        page,
        counted,
        download,
        values,
        given,
        actor: None,
        forwarded: None,
    })
}

/// The endpoint that answers with the plans of this one's statements.
fn explained<'a>(endpoint: &'a Endpoint, bound: &RequestValues) -> Result<&'a Endpoint, Error> {
    let wrong = |why: &str| Error::invalid_parameters(vec![("_explain".to_owned(), why.to_owned())]);
    let others = [
        ("_after", bound.after.is_some()),
        ("_follow", bound.follow.is_some()),
        ("feed", bound.feed.is_some()),
        ("_shard", bound.shard.is_some()),
    ];
    if let Some((name, _)) = others.iter().find(|(_, is_given)| *is_given) {
        return Err(wrong(&format!("it explains the statements as they are written, without `{name}`")));
    }
    endpoint.explained.as_deref().ok_or_else(|| {
        let why = "this endpoint doesn't explain its statements";
        wrong(why).hint("set `explain = true` in rowstream.toml, if the database can explain statements")
    })
}

/// The cursor after which the rows should begin. An `EventSource` that reconnects repeats its URL,
/// so its header takes precedence.
fn after<B>(
    endpoint: &Endpoint,
    shard: Option<&RequestedShard>,
    format: Format,
    given: Option<String>,
    request: &Request<B>,
) -> Result<Option<String>, Error> {
    let refusal = if given.is_some() { no_cursors(endpoint, shard) } else { None };
    if let Some((name, why)) = refusal {
        return Err(Error::invalid_parameters(vec![(name.to_owned(), why.to_owned())]));
    }
    let has_ids = format == Format::Sse && endpoint.key().is_some();
    let last = if has_ids { request.headers().get(LAST_EVENT_ID) } else { None };
    let last = last.filter(|last| !last.is_empty());
    Ok(last.map(|last| String::from_utf8_lossy(last.as_bytes()).into_owned()).or(given))
}

/// The parameter that makes a cursor useless, and the reason. `None`: the response can begin after
/// a cursor.
fn no_cursors(endpoint: &Endpoint, shard: Option<&RequestedShard>) -> Option<(&'static str, &'static str)> {
    match shard {
        _ if endpoint.key().is_some() => None,
        Some(RequestedShard { snapshot: Some(_), .. }) => None,
        Some(_) => Some((
            "_snapshot",
            "`_after` continues a shard of a snapshot: send the header `Rowstream-Snapshot` of the response \
             that was cut as `_snapshot`",
        )),
        None if endpoint.shards().is_some() => Some((
            "_after",
            "only the shards of this endpoint have cursors: also send the `_shard` and the snapshot of the \
             response that was cut",
        )),
        None if endpoint.one_row() == OneRow::Requested => {
            Some(("_after", "a response of one row has no cursors"))
        }
        None => Some(("_after", "this endpoint has no `key`, so it has no cursors")),
    }
}

/// The requested part of the endpoint's table.
fn asked_shard(
    endpoint: &Endpoint,
    shard: Option<Shard>,
    snapshot: Option<String>,
) -> Result<Option<RequestedShard>, Error> {
    let wrong = |name: &str, why: &str| Error::invalid_parameters(vec![(name.to_owned(), why.to_owned())]);
    let Some(shard) = shard else {
        return match snapshot {
            Some(_) => Err(wrong("_snapshot", "it needs `_shard`, which is missing")),
            None => Ok(None),
        };
    };
    let no_shards = || wrong("_shard", "this endpoint has no `shards`");
    let requested = RequestedShard { shard, snapshot };
    endpoint.shards().ok_or_else(no_shards)?.check(&requested)?;
    Ok(Some(requested))
}

/// True if the compression of the body is negotiated with the client.
fn negotiates_encoding(endpoint: &Endpoint, request: &Request<Arrival>) -> bool {
    match endpoint.response.compression {
        Compression::On => true,
        Compression::Off => false,
        Compression::Auto => is_remote(request),
    }
}

impl StreamRequest<'_> {
    /// The headers that are forwarded to an upstream.
    pub(super) fn forwarded(&self) -> HeaderMap {
        self.forwarded.as_deref().cloned().unwrap_or_default()
    }

    /// True if an answer without rows means that an `EventSource` has had all of them. Clients that
    /// request an end record get that instead.
    pub(super) fn ends_events(&self) -> bool {
        let has_ids = self.reading.format == Format::Sse && self.endpoint.key().is_some();
        has_ids && self.asked.framed.is_none() && self.followed == FollowMode::No
    }

    /// True if an `EventSource` connects again after it has had all events.
    pub(super) fn has_had_events(&self, headers: &HeaderMap) -> bool {
        self.reading.ends_events && events::has_ended(headers, self.reading.after.as_deref())
    }

    /// True if a value of the request, or its token, can be the reason of an error.
    pub(super) fn given(&self) -> bool {
        self.given || self.actor.is_some()
    }

    /// The time limits of the answer. Streams that are followed have no total limit.
    pub(super) fn timeout(&self) -> Timeout {
        let total =
            self.endpoint.response.timeout.total.filter(|_| self.followed != FollowMode::Continuously);
        Timeout { total, ..self.endpoint.response.timeout }
    }

    /// The compression of a body of so many bytes.
    pub(super) fn coding(&self, bytes: usize) -> Option<Coding> {
        self.encoding.and_then(|encoding| encoding.coding(bytes))
    }
}
