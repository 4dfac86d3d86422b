//! What a request asks for, and who asks.

use std::net::IpAddr;
use std::num::NonZeroU16;
use std::sync::Arc;

use http::header::{self, HeaderName};
use http::{HeaderMap, Request};
use rowstream_encode::Format;

use super::app::App;
use super::follow;
use crate::Error;
use crate::auth::Credentials;
use crate::client::{Client, UNIX, network_of};
use crate::completeness::Asked;
use crate::compress::Coding;
use crate::database::Actor;
use crate::endpoint::{Compression, Endpoint, Followed, Timeout};
use crate::negotiate::{self, Encoding};
use crate::params::{self, AskedShard, Bound, Claims, ParamValue, Shard};
use crate::route::{Match, Suffix};
use crate::stream::Reading;
use crate::upstream::fields;

/// Where an `EventSource` that connects anew goes on (HTML standard, "Server-sent events").
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// What proxies tell of the client that they ask for.
const FORWARDED: [HeaderName; 3] =
    [header::FORWARDED, HeaderName::from_static("x-forwarded-for"), header::VIA];
/// The length of a body that is longer than is known.
pub(super) const STREAMED: usize = usize::MAX;

/// How a request has come, as its connection has seen.
#[derive(Debug, Clone, Copy, Default)]
pub struct Arrival {
    /// The address that it came from, where that is known.
    pub peer: Option<IpAddr>,
    /// Whether its client is on another machine.
    pub is_remote: bool,
    /// True if its connection has no other request that is still answered.
    pub is_alone: bool,
    /// Whether it does not say once which host it is for.
    pub no_host: bool,
    /// Whether it came to the port of the admin endpoints.
    pub to_admin: bool,
    /// The port on which TLS is spoken, where it came to the one that leads there.
    pub to_https: Option<NonZeroU16>,
}

/// The body of a request, with how that has come: a map of extensions would be four allocations of
/// each request.
pub(crate) struct Arrived<B> {
    pub(super) arrival: Arrival,
    /// Nobody reads it, but it is not to be closed before the answer.
    _body: B,
}

impl<B> Arrived<B> {
    pub(super) fn new(arrival: Arrival, body: B) -> Self {
        Self { arrival, _body: body }
    }
}

/// What a request asks for, once it is known to be well-formed and allowed.
pub(super) struct StreamRequest<'a> {
    pub(super) endpoint: &'a Endpoint,
    /// The endpoint's index.
    pub(super) index: usize,
    /// What is read; its options as far as they change anything in the format.
    pub(super) reading: Reading,
    /// Whether rows are waited for.
    pub(super) followed: Followed,
    /// The query of its URL.
    pub(super) url_query: Option<&'a str>,
    pub(super) vary_accept: bool,
    /// How the client lets the body be compressed; `None` where it is not asked.
    pub(super) encoding: Option<Encoding>,
    /// What is to prove the end.
    pub(super) asked: Asked,
    /// How many rows of the endpoint's key come at most, if that is known.
    pub(super) page: Option<u64>,
    /// The name of the file that the answer is to be saved as.
    pub(super) download: Option<String>,
    pub(super) values: Vec<ParamValue>,
    /// If the request gave one of them.
    pub(super) given: bool,
    /// As whom the statements are run; `None`: as the source's user.
    pub(super) actor: Option<Arc<Actor>>,
    /// The headers that an upstream gets of the request. Boxed: few requests have any.
    pub(super) forwarded: Option<Box<HeaderMap>>,
}

/// Checks what the request asks for.
pub(super) fn read_stream_request<'a, B>(
    endpoint: &'a Endpoint,
    found: &Match<'_>,
    request: &'a Request<Arrived<B>>,
    claims: Option<&Claims>,
) -> Result<StreamRequest<'a>, Error> {
    let mut bound =
        params::bind_with(claims, &endpoint.params, &found.args, request.uri().query(), request.headers())?;
    let endpoint = if bound.explain { explained(endpoint, &bound)? } else { endpoint };
    let followed = follow::read(endpoint, &mut bound)?;
    let accept = request.headers().get_all(header::ACCEPT);
    let formats = match (followed, &found.suffix, &bound.format) {
        (Followed::Continuously, Suffix::None, None) => &follow::formats(endpoint)[..],
        _ => &endpoint.formats,
    };
    let choice = negotiate::choose(&found.suffix, bound.format.as_deref(), accept, formats)?;
    let negotiate::Choice { format, framed, vary_accept } = choice;
    let asked = Asked::read(request, bound.completeness, format, framed)?;
    follow::check(followed, format, &asked)?;
    let options = bound.options.over(endpoint.options).in_format(format);
    let encoding = match negotiates_encoding(endpoint, format, request) {
        true => Some(Encoding::choose(request.headers().get_all(header::ACCEPT_ENCODING))?),
        false => None,
    };
    let after = after(endpoint, format, bound.after, request)?;
    let proves = asked.framed.is_some() || asked.trailers || asked.wait || asked.without_chunks;
    let cursors = proves || followed != Followed::No;
    let shard = asked_shard(endpoint, bound.shard, bound.snapshot)?;
    let reading = Reading { format, options, after, shard, cursors, upstreams: Vec::new() };
    let (download, values, given) = (bound.download, bound.values, bound.given);
    let page = endpoint.key().and_then(|key| endpoint.page_of(key.statement, &values));
    let url_query = request.uri().query();
    let index = found.endpoint;
    Ok(StreamRequest {
        endpoint,
        index,
        reading,
        followed,
        url_query,
        vary_accept,
        encoding,
        asked,
        page,
        download,
        values,
        given,
        actor: None,
        forwarded: None,
    })
}

/// What answers with the plans of the endpoint's statements.
fn explained<'a>(endpoint: &'a Endpoint, bound: &Bound) -> Result<&'a Endpoint, Error> {
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
        let why = "the statements of this endpoint are not explained";
        wrong(why)
            .hint("`explain = true` in rowstream.toml has those explained that the database can explain")
    })
}

/// The cursor after which the rows are to begin. An `EventSource` that connects anew repeats its
/// URL, so its header counts.
fn after<B>(
    endpoint: &Endpoint,
    format: Format,
    given: Option<String>,
    request: &Request<B>,
) -> Result<Option<String>, Error> {
    if given.is_some() && endpoint.key().is_none() {
        let message = "this endpoint has no `key`, and so no cursors".to_owned();
        return Err(Error::invalid_parameters(vec![("_after".to_owned(), message)]));
    }
    let has_ids = format == Format::Sse && endpoint.key().is_some();
    let last = if has_ids { request.headers().get(LAST_EVENT_ID) } else { None };
    let last = last.filter(|last| !last.is_empty());
    Ok(last.map(|last| String::from_utf8_lossy(last.as_bytes()).into_owned()).or(given))
}

/// The part of the endpoint's table that is asked for.
fn asked_shard(
    endpoint: &Endpoint,
    shard: Option<Shard>,
    snapshot: Option<String>,
) -> Result<Option<AskedShard>, Error> {
    let wrong = |name: &str, why: &str| Error::invalid_parameters(vec![(name.to_owned(), why.to_owned())]);
    let Some(shard) = shard else {
        return match snapshot {
            Some(_) => Err(wrong("_snapshot", "it is that of a `_shard`, and there is none")),
            None => Ok(None),
        };
    };
    let no_shards = || wrong("_shard", "this endpoint has no `shards`");
    let asked = AskedShard { shard, snapshot };
    endpoint.shards().ok_or_else(no_shards)?.check(&asked)?;
    Ok(Some(asked))
}

/// Whether the client is asked how the body may be compressed.
fn negotiates_encoding<B>(endpoint: &Endpoint, format: Format, request: &Request<Arrived<B>>) -> bool {
    let compression = match endpoint.compression {
        Compression::On => true,
        Compression::Off => false,
        Compression::Auto => is_remote(request),
    };
    compression && !format.is_compressed()
}

/// Whether the client is on another machine; a proxy on this one tells that it asks for somebody
/// else.
pub(super) fn is_remote<B>(request: &Request<Arrived<B>>) -> bool {
    request.body().arrival.is_remote || request.headers().keys().any(|name| FORWARDED.contains(name))
}

impl StreamRequest<'_> {
    /// The headers that an upstream gets.
    pub(super) fn forwarded(&self) -> HeaderMap {
        self.forwarded.as_deref().cloned().unwrap_or_default()
    }

    /// Whether no row means that an `EventSource` has had all of them. Whoever asks for an end
    /// record gets one.
    pub(super) fn ends_events(&self) -> bool {
        let has_ids = self.reading.format == Format::Sse && self.endpoint.key().is_some();
        has_ids && self.asked.framed.is_none() && self.followed == Followed::No
    }

    /// If a value of the request, or its token, can be the reason of an error.
    pub(super) fn given(&self) -> bool {
        self.given || self.actor.is_some()
    }

    /// How long the answer may take: as long as they like for those who follow.
    pub(super) fn timeout(&self) -> Timeout {
        let total = self.endpoint.timeout.total.filter(|_| self.followed != Followed::Continuously);
        Timeout { total, ..self.endpoint.timeout }
    }

    /// How a body of so many bytes is compressed.
    pub(super) fn coding(&self, bytes: usize) -> Option<Coding> {
        self.encoding.and_then(|encoding| encoding.coding(bytes))
    }
}

impl App {
    /// Who asks, where clients are counted.
    pub(super) fn client<B>(&self, request: &Request<Arrived<B>>) -> Option<IpAddr> {
        self.config.limits.max_streams_per_client?;
        self.network(request)
    }

    /// The address of who asks.
    pub(super) fn address<B>(&self, request: &Request<Arrived<B>>) -> Option<IpAddr> {
        let peer = request.body().arrival.peer?;
        Some(self.config.limits.proxies.address(peer, request.headers())).filter(|address| *address != UNIX)
    }

    /// The address of who asks, as clients are counted.
    pub(super) fn network<B>(&self, request: &Request<Arrived<B>>) -> Option<IpAddr> {
        self.address(request).map(network_of)
    }

    /// Who asks, where clients take turns.
    pub(super) fn who<B>(&self, credentials: &Credentials, request: &Request<Arrived<B>>) -> Client {
        let address = || self.network(request).map(Client::Address);
        credentials.client().or_else(address).unwrap_or_default()
    }

    /// The headers that an upstream gets of a request.
    pub(super) fn forwarded<B>(&self, request: &Request<Arrived<B>>) -> HeaderMap {
        let peer = request.body().arrival.peer;
        let is_trusted = peer.is_some_and(|peer| self.config.limits.proxies.trusts(peer));
        let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
        let host = request.uri().authority().map(http::uri::Authority::as_str).or(host);
        let peer = peer.filter(|peer| *peer != UNIX);
        fields::forwarded(request.headers(), host, fields::Client { peer, is_trusted })
    }
}
