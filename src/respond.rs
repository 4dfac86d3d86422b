//! One request to one response: route, authorize, negotiate, bind, admit, and hold the head until the first chunk.
//!
//! An error on this way is a problem document with its real status. After the head it can only be told by breaking off,
//! which [`ResponseBody`] does: hyper ends the connection (HTTP/1.1: no last chunk) or resets the stream (HTTP/2).

mod follow;
mod hold;
mod last;
mod opening;
mod proxy;

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Instant;

use bytes::Bytes;
use http::header::{self, HeaderName, HeaderValue};
use http::{HeaderMap, Method, Request, Response, StatusCode, Version};
use http_body::{Body, Frame, SizeHint};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use rowstream_encode::Format;
use tokio::sync::watch;

pub(crate) use self::last::Last;
use self::proxy::Passed;
use crate::Error;
use crate::access_log::{Entry, LogFormat};
use crate::admission::{Admission, Claim, Holder, Permit, Usage};
use crate::auth;
use crate::capacity::memory;
use crate::client::Client;
use crate::completeness::Asked;
use crate::completeness::delivery::{Delivery, Wait};
use crate::completeness::digest::{CONTENT_DIGEST, Digest};
use crate::completeness::framing::{Frames, TAG};
use crate::completeness::streams::{STREAM, Stream, Streams};
use crate::completeness::trailers::{self, PAGE};
use crate::compress::{self, Coding, Compressor};
use crate::config::{Config, Cors};
use crate::diagnostic::shown;
use crate::endpoint::{Authorization, Compression, Endpoint, Followed, Pass, SlowClients, Timeout, Upstream};
use crate::error::ErrorDetail;
use crate::metrics::{self, Exposition, Meter, Metrics, SERVER_TIMING, Series, Subject};
use crate::negotiate::{self, Encoding};
use crate::outcome::Outcome;
use crate::params::{self, ParamValue};
use crate::pool::Waiter;
use crate::readiness::Readiness;
use crate::route::near::near;
use crate::route::{Match, Router, Suffix};
use crate::source::{Source, SourceConfig};
use crate::spool::file::Used;
use crate::spool::spill::{GivesWay, Spill, Spills};
use crate::spool::whole::{self, Spooled};
use crate::stream::notifier::Feeds;
use crate::stream::{Reading, RowStream};
use crate::upstream::{self as upstream, Call, fields, per_row};
use crate::watchdog::{Over, Watchdog};

/// What every path can be asked with.
const ALLOW: &str = "GET, HEAD, OPTIONS";
/// Where an `EventSource` that connects anew goes on (HTML standard, "Server-sent events").
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// The server's own paths.
const OWN: &str = "/_rowstream/";
/// Below [`OWN`]: whether it answers at all.
const LIVE: &str = "live";
/// Below [`OWN`]: whether requests should come here.
const READY: &str = "ready";
/// Where the values of a response are not those of the database: what was done to them.
const CHANGES: HeaderName = HeaderName::from_static("rowstream-changes");
/// What pages of other origins may read of a head, besides what Fetch lets them.
const EXPOSED: &str = "allow, content-digest, content-disposition, incremental, link, retry-after, rowstream-changes, \
    rowstream-page, rowstream-stream, rowstream-tag, server-timing, trailer, www-authenticate";
/// Keeps browsers from taking an answer for something else than its media type says (Fetch
/// standard).
const NOSNIFF: HeaderValue = HeaderValue::from_static("nosniff");
/// Which pages of other origins are told `Server-Timing` (W3C, "Resource Timing").
const TIMING_ALLOW_ORIGIN: HeaderName = HeaderName::from_static("timing-allow-origin");
/// Room for the headers of most successes: growing it twice costs a look-up as much as all its headers.
const HEADERS: usize = 12;
/// RFC 9457.
const PROBLEM: &str = "application/problem+json";
/// What proxies tell of the client that they ask for.
const FORWARDED: [HeaderName; 3] =
    [header::FORWARDED, HeaderName::from_static("x-forwarded-for"), header::VIA];
/// Where the metrics are, below [`OWN`].
const METRICS: &str = "metrics";
/// Where it is told how streams go, below [`OWN`].
const STREAMS: &str = "streams/";
/// A whole answer up to this length fits the buffers on its way, so that no client can hold it up.
const LARGE: usize = 64 * 1024;
/// The length of a body that is longer than is known.
const STREAMED: usize = usize::MAX;

/// Everything that answers requests: the endpoints, their sources, and the bounds.
pub struct App {
    config: Config,
    router: Router,
    sources: HashMap<String, Source>,
    admission: Admission,
    feeds: Feeds,
    log: LogFormat,
    readiness: Readiness,
    /// How much of what a database says clients are told.
    detail: ErrorDetail,
    kept: Arc<Kept>,
    /// What is counted of each endpoint.
    series: Vec<Arc<Series>>,
}

/// What outlives a configuration.
#[derive(Default)]
struct Kept {
    streams: Streams,
    leaving: AtomicBool,
    metrics: Metrics,
    /// What is in temporary files.
    spooled: Arc<Used>,
    ending: AtomicBool,
    /// Whether followers are to end.
    closing: watch::Sender<bool>,
}

/// In a request's extensions: its client is on another machine, as the server has seen.
#[derive(Debug, Clone, Copy)]
pub struct Remote;

/// In a request's extensions: it came to the port of the server's own paths.
#[derive(Debug, Clone, Copy)]
pub struct Admin;

/// In a request's extensions: it does not say once which host it is for.
#[derive(Debug, Clone, Copy)]
pub struct NoHost;

/// In a request's extensions: the address that it came from, as the server has seen.
#[derive(Debug, Clone, Copy)]
pub struct Peer(pub IpAddr);

/// What a request asks for, once it is known to be well-formed and allowed.
struct Query<'a> {
    endpoint: &'a Endpoint,
    /// The endpoint's index.
    index: usize,
    /// What is read; its options as far as they change anything in the format.
    reading: Reading,
    /// Whether rows are waited for.
    followed: Followed,
    /// The request's query.
    asked_for: Option<&'a str>,
    vary_accept: bool,
    /// How the client lets the body be compressed; `None` where it is not asked.
    encoding: Option<Encoding>,
    /// What is to prove the end.
    asked: Asked,
    /// How many rows of the endpoint's key come at most, if that is known.
    page: Option<u64>,
    /// The name of the file that the answer is to be saved as.
    download: Option<String>,
    values: Vec<ParamValue>,
    /// What an upstream is told of the request.
    told: HeaderMap,
}

/// A request to an upstream whose answer is passed through.
struct PassedOn<'a> {
    endpoint: &'a Endpoint,
    call: Call,
    /// Who asks, where clients are counted.
    client: Option<IpAddr>,
}

impl metrics::Observed for App {
    fn metrics(&self) -> &Metrics {
        &self.kept.metrics
    }

    fn usage(&self) -> Usage {
        self.admission.usage()
    }

    fn sources(&self) -> impl Iterator<Item = (&str, &Source)> {
        let named = move |settings: &SourceConfig| self.sources.get_key_value(&settings.name);
        self.config.sources.iter().filter_map(named).map(|(name, source)| (name.as_str(), source))
    }

    fn max_connections(&self) -> usize {
        self.config.limits.max_connections
    }
}

impl App {
    /// An app of checked configuration; opens no connection.
    ///
    /// # Errors
    /// A source whose URL is not understood.
    pub fn new(config: Config, log: LogFormat) -> Result<Self, Error> {
        let admission = Admission::new(&config.limits, memory::for_streams(&config));
        Self::build(config, log, admission, Arc::default(), |_| None)
    }

    /// The app of another configuration, for the requests to come. Streams that run count in it, and sources whose settings are the
    /// same are the same, with their connections.
    ///
    /// # Errors
    /// See [`App::new`].
    pub fn reloaded(&self, config: Config) -> Result<Self, Error> {
        let admission = Admission::new(&config.limits, memory::for_streams(&config));
        let admission = admission.with_streams_of(&self.admission);
        Self::build(config, self.log, admission, Arc::clone(&self.kept), |wanted| {
            let same = self.config.sources.iter().find(|source| *source == wanted)?;
            self.sources.get(&same.name).cloned()
        })
    }

    fn build(
        config: Config,
        log: LogFormat,
        admission: Admission,
        kept: Arc<Kept>,
        open: impl Fn(&SourceConfig) -> Option<Source>,
    ) -> Result<Self, Error> {
        let mut sources = HashMap::new();
        for source in &config.sources {
            let opened = open(source).map_or_else(|| Source::open(source), Ok)?;
            sources.insert(source.name.clone(), opened);
        }
        let router = Router::new(config.endpoints.iter().map(|endpoint| endpoint.path.as_str()))
            .map_err(|_| Error::endpoint("two endpoints match the same paths"))?;
        let feeds = Feeds::new(config.endpoints.len());
        let readiness = Readiness::new(config.sources.iter().filter_map(|source| sources.get(&source.name)));
        let series = kept.metrics.series_of(&config.endpoints);
        for (name, source) in &sources {
            let looks_up = |endpoint: &Endpoint| endpoint.source == *name && endpoint.looks_up();
            source.keep_for_look_ups(config.endpoints.iter().any(looks_up));
        }
        let detail = config.error_detail();
        Ok(Self { config, router, sources, admission, feeds, log, readiness, detail, kept, series })
    }

    /// What was configured.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Whether requests should come here.
    pub(crate) fn readiness(&self) -> &Readiness {
        &self.readiness
    }

    /// The sources that are not those of the app `before`.
    pub fn new_sources(&self, before: Option<&Self>) -> impl Iterator<Item = &Source> {
        let settings = &self.config.sources;
        let new =
            move |source: &&SourceConfig| !before.is_some_and(|app| app.config.sources.contains(source));
        settings.iter().filter(new).filter_map(|source| self.sources.get(&source.name))
    }

    fn series(&self, subject: Subject) -> &Series {
        match subject {
            Subject::None => &self.kept.metrics.none,
            Subject::Own => &self.kept.metrics.own,
            Subject::Endpoint(index) => &self.series[index],
        }
    }

    /// Who may run a stream.
    pub fn admission(&self) -> &Admission {
        &self.admission
    }

    /// From now on the server is on its way out, though it still answers: [`ready`](crate::readiness) says so.
    pub fn leave(&self) {
        self.kept.leaving.store(true, Ordering::Relaxed);
    }

    /// Whether the server is on its way out.
    pub fn is_leaving(&self) -> bool {
        self.kept.leaving.load(Ordering::Relaxed)
    }

    /// From now on, a response that is dropped was ended by the server and not by its client.
    pub fn end(&self) {
        self.kept.ending.store(true, Ordering::Relaxed);
    }

    /// Answers a request. Memory for it is held from now on, before the answer is polled: many may
    /// have come at once.
    pub fn respond<B>(
        self: Arc<Self>,
        request: Request<B>,
    ) -> impl Future<Output = Response<ResponseBody>> + use<B> {
        self.respond_unless(None, request)
    }

    /// Answers a request, or refuses it.
    pub(crate) fn respond_unless<B>(
        self: Arc<Self>,
        refused: Option<Error>,
        request: Request<B>,
    ) -> impl Future<Output = Response<ResponseBody>> + use<B> {
        let held = match refused {
            Some(error) => Err(error),
            None => self.admission.hold(holder(&request)),
        };
        // Boxed, so that a request that is refused is small.
        async move {
            match held {
                Ok(held) => Box::pin(self.respond_within(request, held)).await,
                Err(error) => self.refuse(&request, error),
            }
        }
    }

    /// The answer to a request for which there is no room. In HTTP/2 it has no body where many of
    /// them wait: a client that opens no window would have it wait, too.
    fn refuse<B>(self: Arc<Self>, request: &Request<B>, error: Error) -> Response<ResponseBody> {
        let (held, has_room) = self.admission.hold_refused();
        let is_told = has_room || request.version() != Version::HTTP_2;
        let mut record = Record::new(Arc::clone(&self), request, held);
        let mut response = problem(&error).map(|bytes| record.fail_before_head(error, bytes));
        record.entry.status = Some(response.status());
        self.complete_head(self.origin(request).as_ref(), response.headers_mut());
        if !is_told {
            *response.body_mut() = Answer::Nothing;
            response.headers_mut().remove(header::CONTENT_TYPE);
        }
        response.map(|answer| ResponseBody::new(answer, record))
    }

    async fn respond_within<B>(
        self: Arc<Self>,
        request: Request<B>,
        held: Option<Permit>,
    ) -> Response<ResponseBody> {
        let method = request.method().clone();
        let origin = self.origin(&request);
        let mut record = Record::new(Arc::clone(&self), &request, held);
        let mut response = match self.answer(request, &mut record).await {
            Ok(response) => response,
            Err(error) => {
                let error = error.in_detail(self.detail);
                problem(&error).map(|bytes| record.fail_before_head(error, bytes))
            }
        };
        record.entry.status = Some(response.status());
        record.tell_timing(response.headers_mut());
        self.complete_head(origin.as_ref(), response.headers_mut());
        if method == Method::HEAD {
            *response.body_mut() = Answer::Nothing;
        }
        response.map(|answer| ResponseBody::new(answer, record))
    }

    /// Which page asks, where pages of other origins may.
    fn origin<B>(&self, request: &Request<B>) -> Option<HeaderValue> {
        self.config.cors.as_ref()?;
        request.headers().get(header::ORIGIN).map(fields::detached)
    }

    /// Adds what every answer has, whatever it is.
    fn complete_head(&self, origin: Option<&HeaderValue>, headers: &mut HeaderMap) {
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, NOSNIFF);
        if let Some(cors) = &self.config.cors {
            cors_headers(cors, origin, headers);
        }
    }

    async fn answer<B>(&self, request: Request<B>, record: &mut Record) -> Result<Response<Answer>, Error> {
        let path = request.uri().path();
        if request.extensions().get::<NoHost>().is_some() {
            return Err(no_host());
        }
        if let Some(own) = path.strip_prefix(OWN) {
            record.meter.subject = Subject::Own;
            let answer = match own {
                own if !self.tells_own(own, &request) => return Err(no_endpoint(path)),
                METRICS => {
                    let exposition = Exposition::choose(request.headers());
                    let answer = Box::pin(own_metrics(Arc::clone(&record.app), exposition)).await?;
                    if let (Some(held), Answer::Whole(bytes)) = (&mut record.permit, answer.body()) {
                        self.admission.widen(held, bytes.len(), Holder::Admin)?;
                    }
                    answer
                }
                own => self.own_path(own)?,
            };
            if let Some(answer) = self.without_query(&request)? {
                return Ok(answer);
            }
            if own == READY {
                Box::pin(self.readiness.check(self.is_leaving(), &self.config.endpoints)).await?;
            }
            return Ok(answer);
        }
        if is_admin(&request) {
            return Err(no_endpoint(path));
        }
        let found = self.router.find(path)?.ok_or_else(|| self.no_endpoint_near(&request))?;
        let endpoint = &self.config.endpoints[found.endpoint];
        record.meter.subject = Subject::Endpoint(found.endpoint);
        if let Some(answer) = self.without_query(&request)? {
            return Ok(answer);
        }
        let token = auth::authorize(&endpoint.authorization, &self.config.tokens, request.headers())?;
        record.waiter = Waiter::new(self.who(token, &request));
        if let Some(Upstream::Pass(pass)) = &endpoint.upstream {
            let asked = self.pass_on(pass, (endpoint, &found), &request)?;
            // What is kept of a head keeps all of the buffer that it was read into. The body is not to be closed yet.
            let _body = request.into_body();
            return Box::pin(self.pass(asked, record)).await;
        }
        let request = &request;
        let mut query = read_query(endpoint, &found, request)?;
        record.meter.format(query.reading.format);
        if asks_upstreams(endpoint) {
            query.told = self.told(request);
        }
        if request.method() == Method::HEAD {
            // The length of what is not run is not known: this is the head of a long result.
            return Ok(head(&query, query.coding(STREAMED)).map(|()| Answer::Nothing));
        }
        let mut begun = Instant::now();
        let total = query.timeout().total;
        let (client, memory) = (self.client(request), self.window(&query)?);
        self.admission.admit(&Claim { endpoint, client, memory }, &mut record.permit)?;
        record.meter.admit();
        // Boxed, so that what waits for an upstream or for its next request does not carry what statements need.
        let answer = Box::pin(self.run(query, record, &mut begun)).await?;
        let takes_time = match answer.body() {
            Answer::Whole(bytes) => bytes.len() > LARGE,
            body => matches!(body, Answer::Stream(_) | Answer::File(_)),
        };
        if let Some(total) = total.filter(|_| takes_time) {
            record.watchdog.limit(begun.into(), total);
        }
        if let (Answer::Stream(_) | Answer::File(_), SlowClients::Shed(rate)) =
            (answer.body(), endpoint.slow_clients)
        {
            record.watchdog.shed_below(rate);
        }
        Ok(answer)
    }

    /// There is no endpoint for a path. One that its client may use and that is nearly called so is
    /// suggested: who may not use it is not told of it.
    fn no_endpoint_near<B>(&self, request: &Request<B>) -> Error {
        let path = request.uri().path();
        let endpoints = &self.config.endpoints;
        let may_tell = |index: usize| {
            let authorization = &endpoints[index].authorization;
            auth::authorize(authorization, &self.config.tokens, request.headers()).is_ok()
        };
        let near = near(path, endpoints.iter().map(|endpoint| endpoint.path.as_str()), may_tell);
        let suggest = |error: Error, near: String| error.hint(format!("did you mean {}?", shown(&near)));
        near.into_iter().fold(no_endpoint(path), suggest)
    }

    /// Who asks, where clients are counted.
    fn client<B>(&self, request: &Request<B>) -> Option<IpAddr> {
        self.config.limits.max_streams_per_client?;
        self.address(request)
    }

    /// The address of who asks.
    fn address<B>(&self, request: &Request<B>) -> Option<IpAddr> {
        let Peer(peer) = request.extensions().get()?;
        Some(self.config.limits.proxies.client(*peer, request.headers()))
    }

    /// Who asks, where clients take turns.
    fn who<B>(&self, token: Option<[u8; 32]>, request: &Request<B>) -> Client {
        let address = || self.address(request).map(Client::Address);
        token.map(Client::Token).or_else(address).unwrap_or_default()
    }

    /// What an upstream is asked on behalf of a request, and by whom.
    fn pass_on<'a, B>(
        &self,
        pass: &Pass,
        (endpoint, found): (&'a Endpoint, &Match),
        request: &Request<B>,
    ) -> Result<PassedOn<'a>, Error> {
        // What looks like a format is a part of the path: the upstream's answers have a type of their own.
        let path = request.uri().path();
        let whole = self.router.find_whole(path)?.filter(|whole| whole.endpoint == found.endpoint);
        let values = proxy::values(endpoint, &whole.ok_or_else(|| no_endpoint(path))?, request)?;
        let mut call = pass.call(&values)?;
        let own = std::mem::take(&mut call.headers);
        let is_public = endpoint.authorization == Authorization::Public;
        call.method = request.method().clone();
        call.headers = fields::request(request.headers(), &self.told(request), is_public);
        for name in pass.header_names() {
            call.headers.remove(name);
        }
        fields::put(&mut call.headers, &own);
        Ok(PassedOn { endpoint, call, client: self.client(request) })
    }

    /// Asks an upstream, and passes its answer through.
    async fn pass(&self, asked: PassedOn<'_>, record: &mut Record) -> Result<Response<Answer>, Error> {
        let PassedOn { endpoint, call, client } = asked;
        let memory = match self.config.limits.memory {
            Some(_) => memory::passed_window(self.settings(endpoint)?),
            None => 0,
        };
        let begun = Instant::now();
        self.admission.admit(&Claim { endpoint, client, memory }, &mut record.permit)?;
        record.meter.admit();
        let source = self.sources.get(&endpoint.source).ok_or_else(source_is_gone)?.http()?;
        let asked = pin!(proxy::ask(source, &call, record.waiter.begin()));
        let (reply, waited) = endpoint.timeout.until_row(begun, asked).await?;
        record.entry.times.pool = waited.pool;
        record.entry.times.database = waited.begun.elapsed();
        // The answer tells by itself that it is late when it is polled, which it is not while the client takes nothing.
        let late = source.total().map(|total| total + proxy::LATE);
        if let Some(total) = endpoint.timeout.total.into_iter().chain(late).min() {
            record.watchdog.limit(begun.into(), total);
        }
        if let SlowClients::Shed(rate) = endpoint.slow_clients {
            record.watchdog.shed_below(rate);
        }
        Ok(proxy::response(reply).map(|passed| Answer::Passed(Box::new(passed))))
    }

    /// What an upstream is told of a request.
    fn told<B>(&self, request: &Request<B>) -> HeaderMap {
        let peer = request.extensions().get().map(|Peer(peer)| *peer);
        let is_trusted = peer.is_some_and(|peer| self.config.limits.proxies.trusts(peer));
        let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
        let host = request.uri().authority().map(http::uri::Authority::as_str).or(host);
        fields::told(request.headers(), host, fields::Client { peer, is_trusted })
    }

    /// The settings of an endpoint's source.
    fn settings(&self, endpoint: &Endpoint) -> Result<&SourceConfig, Error> {
        let mut settings = self.config.sources.iter();
        settings.find(|source| source.name == endpoint.source).ok_or_else(source_is_gone)
    }

    /// What a stream may take at most, in bytes; 0 where memory has no limit.
    fn window(&self, query: &Query<'_>) -> Result<usize, Error> {
        if self.config.limits.memory.is_none() {
            return Ok(0);
        }
        let source = self.settings(query.endpoint)?;
        let window = memory::window(query.endpoint, source, query.reading.format, query.coding(STREAMED));
        Ok(window + if query.waits().is_some() { whole::IN_MEMORY } else { 0 })
    }

    /// Runs the statements up to the first chunk, or to the end if that is waited for.
    async fn run(
        &self,
        mut query: Query<'_>,
        record: &mut Record,
        begun: &mut Instant,
    ) -> Result<Response<Answer>, Error> {
        let timeout = query.timeout();
        let values = std::mem::take(&mut query.values);
        let (mut stream, first) = match query.followed {
            // Boxed, as is all that few requests do: every request would carry what it needs.
            Followed::ByLongPoll => Box::pin(self.long_poll(&query, &values, record, begun)).await?,
            Followed::No | Followed::Continuously => {
                timeout.until_row(*begun, pin!(self.open(&query, values, record))).await?
            }
        };
        if stream.is_done() && stream.rows() == 0 && query.ends_events() {
            return Ok(no_more_events());
        }
        if stream.is_done() {
            return whole(&query, first, &mut stream, record);
        }
        let coding = query.coding(STREAMED);
        let (first, compressor) = match coding {
            Some(coding) => (None, Some(Compressor::new(coding, first)?)),
            None => (Some(first), None),
        };
        let digest = query.asked.digest.then(Box::default);
        let streaming = Streaming {
            ahead: None,
            first,
            stream,
            compressor,
            failed: None,
            spill: None,
            digest,
            trailers: false,
        };
        if let Some(waits) = query.waits() {
            let held = Box::pin(self.hold((&query, waits), coding, streaming, record));
            return timeout.until_end(*begun, held).await;
        }
        self.begin_stream(&query, coding, streaming, record)
    }

    /// Begins the statements, and waits for the first chunk.
    async fn open(
        &self,
        query: &Query<'_>,
        values: Vec<ParamValue>,
        record: &mut Record,
    ) -> Result<(RowStream, Bytes), Error> {
        let source = self.sources.get(&query.endpoint.source).ok_or_else(source_is_gone)?;
        let upstream = match source {
            Source::Http(source) => Some(Source::Http(source.on_behalf_of(query.told.clone()))),
            Source::Postgres(_) | Source::Sqlite(_) => None,
        };
        let source = upstream.as_ref().unwrap_or(source);
        let follower = match query.followed {
            Followed::Continuously => Some(Box::pin(self.follower(query, &values, record)).await?),
            Followed::No | Followed::ByLongPoll => None,
        };
        let reading = Reading { upstreams: self.upstreams(query)?, ..query.reading.clone() };
        let turn = if query.followed == Followed::No { None } else { source.turn().await };
        let mut stream =
            RowStream::open_for(&record.waiter, (query.endpoint, source), reading, values).await?;
        stream.tell(self.detail);
        drop(turn);
        if let Some(follower) = follower {
            stream.follow(follower, (query.reading.format, query.endpoint.heartbeat));
        }
        if let Some((framing, tag)) = query.asked.framed {
            stream.frame(Frames::new(framing, tag), query.asked.digest);
        }
        let first = opening::first_chunk(&mut stream, record).await?;
        Ok((stream, first))
    }

    /// Who is asked for each row.
    fn upstreams(&self, query: &Query<'_>) -> Result<Vec<upstream::Source>, Error> {
        let Some(plan) = &query.endpoint.per_row else { return Ok(Vec::new()) };
        let open = |upstream: &per_row::Upstream| {
            let source = self.sources.get(&upstream.source).ok_or_else(source_is_gone)?.http()?;
            Ok(source.on_behalf_of(query.told.clone()))
        };
        plan.upstreams.iter().map(open).collect()
    }

    /// The answer that is sent while its rows come: with an id, and with trailers where they are taken.
    fn begin_stream(
        &self,
        query: &Query<'_>,
        coding: Option<Coding>,
        mut streaming: Streaming,
        record: &mut Record,
    ) -> Result<Response<Answer>, Error> {
        let mut response = head(query, coding);
        let stream = self.kept.streams.begin(&query.endpoint.path, query.reading.format.name())?;
        stream.id().tell(STREAM, response.headers_mut());
        record.stream = Some(stream);
        record.meter.begin_stream(self.series(record.meter.subject));
        streaming.trailers = query.asked.trailers;
        if streaming.trailers {
            let (next, page) = (streaming.stream.cursor().is_some(), query.page.is_some());
            let fields = trailers::Fields { next, page, digest: query.asked.digest };
            if let Some(names) = trailers::announcement(fields) {
                response.headers_mut().insert(header::TRAILER, names);
            }
        }
        hold::tell_streamed(query, &mut response);
        streaming.spill = self.spill(query)?;
        let spills = streaming.spill.is_some();
        let streaming = Arc::new(Mutex::new(streaming));
        if spills {
            record.watchdog.spill(Arc::downgrade(&streaming));
        }
        Ok(response.map(|()| Answer::Stream(streaming)))
    }

    /// What has the rows of a stream wait in a file where its client is behind. Nobody waits for
    /// long for an upstream's.
    fn spill(&self, query: &Query<'_>) -> Result<Option<Box<Spill>>, Error> {
        let endpoint = query.endpoint;
        let (spills, spare) = match (endpoint.slow_clients, &endpoint.upstream) {
            (SlowClients::Spill, _) => (Spills::WhenSlow, 0),
            (SlowClients::Hold | SlowClients::Shed(_), Some(_)) => return Ok(None),
            (SlowClients::Hold | SlowClients::Shed(_), None) => {
                (Spills::WhenWanted, self.spilled_window(query)?)
            }
        };
        let (settings, used) = (&self.config.limits.spooling, &self.kept.spooled);
        Ok(Some(Box::new(Spill::new(spills, settings, used, Box::new(self.admission.spare(spare))))))
    }

    /// What a stream takes besides once it is spilled, in bytes; 0 where memory has no limit.
    fn spilled_window(&self, query: &Query<'_>) -> Result<usize, Error> {
        if self.config.limits.memory.is_none() {
            return Ok(0);
        }
        Ok(memory::spilled(query.endpoint, self.settings(query.endpoint)?, query.reading.format))
    }

    /// Whether a path of the server's own can be asked for where a request has come. How a stream went is told wherever streams are.
    fn tells_own<B>(&self, path: &str, request: &Request<B>) -> bool {
        self.config.admin_listen.is_none() || is_admin(request) || path.starts_with(STREAMS)
    }

    /// The server's own paths.
    fn own_path(&self, path: &str) -> Result<Response<Answer>, Error> {
        let told = path.strip_prefix(STREAMS).and_then(|id| self.kept.streams.told(id));
        match (path, told) {
            (LIVE | READY, _) => Ok(own(Bytes::from_static(b"ok\n"), "text/plain")),
            (_, Some(told)) => Ok(own(Bytes::from(told), "application/json")),
            (_, None) => Err(no_endpoint(&format!("{OWN}{path}"))),
        }
    }

    /// The answer to a method that asks for nothing of the path itself; `None` for those that read it.
    fn without_query<B>(&self, request: &Request<B>) -> Result<Option<Response<Answer>>, Error> {
        match *request.method() {
            Method::GET | Method::HEAD => Ok(None),
            Method::OPTIONS => Ok(Some(self.options(request.headers()))),
            _ => Err(Error::new(
                "method_not_allowed",
                StatusCode::METHOD_NOT_ALLOWED,
                "this path is read with GET",
            )),
        }
    }

    /// `OPTIONS`, and the preflight of CORS (Fetch standard, "CORS-preflight request").
    fn options(&self, headers: &HeaderMap) -> Response<Answer> {
        let mut response = Response::new(Answer::Nothing);
        *response.status_mut() = StatusCode::NO_CONTENT;
        let out = response.headers_mut();
        out.insert(header::ALLOW, HeaderValue::from_static(ALLOW));
        if let (Some(cors), true) =
            (&self.config.cors, headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD))
        {
            out.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(ALLOW));
            out.insert(header::ACCESS_CONTROL_MAX_AGE, cors.max_age.as_secs().into());
            if let Some(wanted) = headers.get(header::ACCESS_CONTROL_REQUEST_HEADERS) {
                out.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, wanted.clone());
            }
        }
        response
    }
}

impl Query<'_> {
    /// Whether no row means that an `EventSource` has had all of them. Whoever asks for an end record gets one.
    fn ends_events(&self) -> bool {
        let has_ids = self.reading.format == Format::Sse && self.endpoint.key.is_some();
        has_ids && self.asked.framed.is_none() && self.followed == Followed::No
    }

    /// How long the answer may take: as long as they like for those who follow.
    fn timeout(&self) -> Timeout {
        let total = self.endpoint.timeout.total.filter(|_| self.followed != Followed::Continuously);
        Timeout { total, ..self.endpoint.timeout }
    }

    /// How a body of so many bytes is compressed.
    fn coding(&self, bytes: usize) -> Option<Coding> {
        self.encoding.and_then(|encoding| encoding.coding(bytes))
    }
}

/// The answer of a result that is there as a whole.
fn whole(
    query: &Query<'_>,
    mut body: Bytes,
    stream: &mut RowStream,
    record: &mut Record,
) -> Result<Response<Answer>, Error> {
    let coding = query.coding(body.len());
    if let Some(coding) = coding {
        body = timed(stream, || compress::whole(coding, &body))?;
        record.note(stream);
    }
    let mut response = head(query, coding);
    tell_page(query, stream, response.headers_mut());
    response.headers_mut().insert(header::CONTENT_LENGTH, body.len().into());
    if query.asked.digest {
        tell_digest(response.headers_mut(), Some(&Digest::of(&body)));
    }
    Ok(response.map(|()| Answer::Whole(body)))
}

/// An `EventSource` connects anew whenever its stream ends, unless it is answered so (HTML standard, "Server-sent events").
fn no_more_events() -> Response<Answer> {
    let mut response = Response::new(Answer::Nothing);
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}

/// Tells whether a page is the last, and the one behind a full one (`Link`, RFC 8288), relative to
/// this one: a proxy may have its own idea of the path.
fn tell_page(query: &Query<'_>, stream: &RowStream, headers: &mut HeaderMap) {
    if let Some(page) = stream.page() {
        headers.insert(PAGE, HeaderValue::from_static(page.name()));
    }
    let Some(cursor) = stream.next_page() else { return };
    let asked = query.asked_for.unwrap_or_default();
    let is_after = |pair: &&str| {
        let name = pair.split('=').next().unwrap_or_default();
        params::percent_decode(name).is_some_and(|name| name == "_after")
    };
    let others = asked.split('&').filter(|pair| !pair.is_empty() && !is_after(pair));
    let after = format!("_after={cursor}");
    let query: Vec<_> = others.chain([after.as_str()]).collect();
    if let Ok(link) = format!("<?{}>; rel=\"next\"", query.join("&")).parse() {
        headers.insert(header::LINK, link);
    }
}

/// The cursor behind which the rows are to begin. An `EventSource` that connects anew repeats its URL, so its header counts.
fn after<B>(
    endpoint: &Endpoint,
    format: Format,
    given: Option<String>,
    request: &Request<B>,
) -> Result<Option<String>, Error> {
    if given.is_some() && endpoint.key.is_none() {
        let message = "this endpoint has no `key`, and so no cursors".to_owned();
        return Err(Error::invalid_parameters(vec![("_after".to_owned(), message)]));
    }
    let has_ids = format == Format::Sse && endpoint.key.is_some();
    let last = request.headers().get(LAST_EVENT_ID).filter(|last| has_ids && !last.is_empty());
    Ok(last.map(|last| String::from_utf8_lossy(last.as_bytes()).into_owned()).or(given))
}

/// Tells the digest of what is sent in the head, where it is known by then.
fn tell_digest(headers: &mut HeaderMap, digest: Option<&str>) {
    if let Some(value) = digest.and_then(|digest| HeaderValue::from_str(digest).ok()) {
        headers.insert(CONTENT_DIGEST, value);
    }
}

/// Checks what the request asks for.
fn read_query<'a, B>(
    endpoint: &'a Endpoint,
    found: &Match,
    request: &'a Request<B>,
) -> Result<Query<'a>, Error> {
    let mut bound = params::bind(&endpoint.params, &found.args, request.uri().query(), request.headers())?;
    let followed = follow::read(endpoint, &mut bound)?;
    let accept = request.headers().get_all(header::ACCEPT);
    let formats = match (followed, &found.suffix, &bound.format) {
        (Followed::Continuously, Suffix::None, None) => &follow::formats(endpoint)[..],
        _ => &endpoint.formats,
    };
    let choice = negotiate::choose(&found.suffix, bound.format.as_deref(), accept, formats)?;
    let negotiate::Choice { format, framed, vary_accept } = choice;
    let asked = Asked::read(request, bound.proof, format, framed)?;
    follow::check(followed, format, &asked)?;
    let options = bound.options.over(endpoint.options).in_format(format);
    let encoding = match negotiates_encoding(endpoint, format, request) {
        true => Some(Encoding::choose(request.headers().get_all(header::ACCEPT_ENCODING))?),
        false => None,
    };
    let after = after(endpoint, format, bound.after, request)?;
    let proves = asked.framed.is_some() || asked.trailers || asked.wait || asked.without_chunks;
    let cursors = proves || followed != Followed::No;
    let reading = Reading { format, options, after, cursors, upstreams: Vec::new() };
    let (download, values) = (bound.download, bound.values);
    let page = endpoint.key.as_ref().and_then(|key| endpoint.page_of(key.statement, &values));
    let asked_for = request.uri().query();
    let index = found.endpoint;
    Ok(Query {
        endpoint,
        index,
        reading,
        followed,
        asked_for,
        vary_accept,
        encoding,
        asked,
        page,
        download,
        values,
        told: HeaderMap::new(),
    })
}

/// Whether requests for an endpoint make others.
fn asks_upstreams(endpoint: &Endpoint) -> bool {
    endpoint.upstream.is_some() || endpoint.per_row.is_some()
}

/// Whether the client is asked how the body may be compressed.
fn negotiates_encoding<B>(endpoint: &Endpoint, format: Format, request: &Request<B>) -> bool {
    let compression = match endpoint.compression {
        Compression::On => true,
        Compression::Off => false,
        Compression::Auto => is_remote(request),
    };
    compression && !format.is_compressed()
}

/// Whether a request asks how the server is.
pub(crate) fn is_check<B>(request: &Request<B>) -> bool {
    matches!(request.uri().path().strip_prefix(OWN), Some(LIVE | READY))
}

/// Who holds memory for a request.
fn holder<B>(request: &Request<B>) -> Holder {
    match request.uri().path().starts_with(OWN) {
        true => Holder::Admin,
        false => Holder::Client,
    }
}

/// Whether a request came to the port of the server's own paths.
fn is_admin<B>(request: &Request<B>) -> bool {
    request.extensions().get::<Admin>().is_some()
}

/// Whether the client is on another machine; a proxy on this one tells that it asks for somebody else.
fn is_remote<B>(request: &Request<B>) -> bool {
    request.extensions().get::<Remote>().is_some()
        || FORWARDED.iter().any(|name| request.headers().contains_key(name))
}

/// The head of a success. The last three headers ask proxies not to buffer: `no-transform` (RFC 9111) keeps them from
/// compressing, `X-Accel-Buffering` is nginx's, `Incremental` is draft-ietf-httpbis-incremental.
fn head(query: &Query<'_>, coding: Option<Coding>) -> Response<()> {
    let mut response = Response::new(());
    let headers = response.headers_mut();
    headers.reserve(HEADERS);
    headers.insert(header::CONTENT_TYPE, content_type(query));
    if let Some((_, tag)) = query.asked.framed {
        tag.tell(TAG, headers);
    }
    if let Some(changes) = changes(query) {
        headers.insert(CHANGES, changes);
    }
    let file = query.download.as_deref().map(|name| file_name(name, query.reading.format));
    if let Some(disposition) = file.as_deref().and_then(attachment) {
        headers.insert(header::CONTENT_DISPOSITION, disposition);
    }
    if query.vary_accept {
        headers.insert(header::VARY, HeaderValue::from_static("accept"));
    }
    if query.encoding.is_some() {
        headers.append(header::VARY, HeaderValue::from_static("accept-encoding"));
    }
    if let Some(coding) = coding {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static(coding.name()));
    }
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-transform"));
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    headers.insert(HeaderName::from_static("incremental"), HeaderValue::from_static("?1"));
    response
}

/// What `/_rowstream/metrics` tells.
async fn own_metrics(app: Arc<App>, exposition: Exposition) -> Result<Response<Answer>, Error> {
    let told = Metrics::tell(app, exposition).await?;
    let mut response = own(Bytes::from(told), exposition.media_type());
    response.headers_mut().insert(header::VARY, HeaderValue::from_static("accept"));
    Ok(response)
}

/// What is done to the values of the database; `None`: nothing.
fn changes(query: &Query<'_>) -> Option<HeaderValue> {
    let guard = (query.reading.format == Format::Csv && query.endpoint.csv.guard).then_some("formula-guard");
    let changes: Vec<_> = guard.into_iter().chain(query.reading.options.changes()).collect();
    if changes.is_empty() { None } else { changes.join(", ").parse().ok() }
}

/// The media type, with what a reader of CSV has to know (RFC 4180, section 3).
fn content_type(query: &Query<'_>) -> HeaderValue {
    if let Some((framing, _)) = query.asked.framed {
        return HeaderValue::from_static(framing.media_type());
    }
    HeaderValue::from_static(match (query.reading.format, query.endpoint.csv.header) {
        (Format::Csv, true) => "text/csv; charset=utf-8; header=present",
        (Format::Csv, false) => "text/csv; charset=utf-8; header=absent",
        (format, _) => format.media_type(),
    })
}

/// The name of a file with the format's extension: programs go by that, whatever the answer says of
/// itself.
fn file_name(name: &str, format: Format) -> Cow<'_, str> {
    let also = match format {
        Format::Ndjson => "jsonl",
        Format::Arrow => "arrows",
        _ => format.name(),
    };
    let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
    match [format.name(), also].iter().any(|own| own.eq_ignore_ascii_case(extension)) {
        true => name.into(),
        false => format!("{name}.{}", format.name()).into(),
    }
}

/// `Content-Disposition` (RFC 6266) that has the answer saved as `name`: in ASCII for old clients, and in full (RFC 8187). `None` if
/// no header can hold it, which does not happen.
fn attachment(name: &str) -> Option<HeaderValue> {
    let plain = |c: char| if c.is_ascii() && !matches!(c, '"' | '\\' | '%') { c } else { '_' };
    let plain: String = name.chars().map(plain).collect();
    let full = utf8_percent_encode(name, NON_ALPHANUMERIC);
    format!("attachment; filename=\"{plain}\"; filename*=UTF-8''{full}").parse().ok()
}

/// What the server says of itself, now.
fn own(body: Bytes, media_type: &'static str) -> Response<Answer> {
    let mut response = Response::new(Answer::Whole(body));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn source_is_gone() -> Error {
    Error::endpoint("the source is gone")
}

/// RFC 9112, section 3.2: who is asked may otherwise differ from hop to hop.
fn no_host() -> Error {
    let message = "the request needs one header `Host`, and has none or several";
    Error::new("invalid_host", StatusCode::BAD_REQUEST, message).hint("send one line `Host: HOST:PORT`")
}

fn no_endpoint(path: &str) -> Error {
    Error::new("no_endpoint", StatusCode::NOT_FOUND, format!("there is no endpoint {}", shown(path)))
}

/// A problem document (RFC 9457).
fn problem(error: &Error) -> Response<Bytes> {
    let mut response = Response::new(Bytes::from(error.problem()));
    *response.status_mut() = error.status();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(PROBLEM));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Some(delay) = error.retry_delay() {
        headers.insert(header::RETRY_AFTER, delay.as_secs().max(1).into());
    }
    match error.status() {
        StatusCode::UNAUTHORIZED => {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"rowstream\""));
        }
        StatusCode::METHOD_NOT_ALLOWED => {
            headers.insert(header::ALLOW, HeaderValue::from_static(ALLOW));
        }
        StatusCode::NOT_ACCEPTABLE => {
            headers.insert(header::VARY, HeaderValue::from_static("accept"));
            headers.append(header::VARY, HeaderValue::from_static("accept-encoding"));
        }
        _ => {}
    }
    response
}

/// Which pages of other origins may read the response. With a list of origins the answer differs by `Origin`, and caches must know.
fn cors_headers(cors: &Cors, origin: Option<&HeaderValue>, headers: &mut HeaderMap) {
    // An upstream may have an opinion of its own, about clients of its own.
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

/// The body of an answer, before its head is known to be sent.
enum Answer {
    Nothing,
    Whole(Bytes),
    Stream(Arc<Mutex<Streaming>>),
    /// What waited for its end.
    File(Box<Spooled>),
    /// What an upstream answers.
    Passed(Box<Passed>),
    /// It has failed, and is broken off once what was handed over is on its way.
    Breaking(Box<Wait>),
}

/// A stream in flight. The body and its watchdog have it, which are polled by the same task.
pub(crate) struct Streaming {
    /// What was sent to wait for the end, of a result that is too long for that.
    ahead: Option<Box<Spooled>>,
    /// What was polled before the head was made; a compressor has it where there is one.
    first: Option<Bytes>,
    stream: RowStream,
    compressor: Option<Compressor>,
    /// Follows the last of what was compressed, and of what waits in `spill`.
    failed: Option<Error>,
    /// Where slow clients are spilled.
    spill: Option<Box<Spill>>,
    /// Of what is sent, where it was asked for.
    digest: Option<Box<Digest>>,
    /// Whether fields follow the body.
    trailers: bool,
}

impl Streaming {
    /// The client wants more.
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>> {
        let Some(spill) = &mut self.spill else { return self.poll_live(cx) };
        if spill.is_draining() {
            self.stream.wait_for_client();
        }
        if let Some(waited) = ready!(spill.poll_take(cx)) {
            return Poll::Ready(Some(waited));
        }
        let polled = self.poll_live(cx);
        if let (true, Some(spill)) = (polled.is_ready(), &mut self.spill) {
            spill.given();
        }
        polled
    }

    /// Spills chunks for as long as the client is behind. When this is to be asked again, besides
    /// when it is woken.
    ///
    /// # Errors
    /// The stream has to end: others wait for its connection.
    pub(crate) fn poll_spill(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Result<Option<tokio::time::Instant>, GivesWay> {
        while let Some(spill) = &mut self.spill {
            let is_wanted = self.stream.gives_way(spill.stands_still());
            let Poll::Ready(room) = spill.poll_room(self.stream.rows(), is_wanted, cx) else { break };
            room?;
            let Poll::Ready(chunk) = self.poll_live(cx) else { break };
            let (Some(spill), rows) = (&mut self.spill, self.stream.rows()) else { break };
            match chunk {
                Some(Ok(chunk)) => spill.put(&chunk, rows),
                Some(Err(error)) => {
                    self.failed = Some(error);
                    spill.end();
                }
                None => spill.end(),
            }
        }
        Ok(self.spill.as_ref().and_then(|spill| spill.again()))
    }

    /// The next chunk as it is sent, once it is in the digest.
    fn poll_live(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>> {
        if let Some(ahead) = &mut self.ahead {
            // It is in the digest already.
            if let Some(chunk) = ready!(ahead.poll_chunk(cx)) {
                return Poll::Ready(Some(chunk));
            }
            self.ahead = None;
        }
        if let Some(error) = self.failed.take() {
            return Poll::Ready(Some(Err(error)));
        }
        let polled = match (self.first.take(), &mut self.compressor) {
            (Some(first), _) => Poll::Ready(Some(Ok(first))),
            (None, None) => self.stream.poll_chunk(cx),
            (None, Some(compressor)) => poll_compressed(&mut self.stream, compressor, &mut self.failed, cx),
        };
        polled.map_ok(|chunk| self.hashed(chunk))
    }

    /// Whether all has been given: the last chunk, and no trailers are to follow.
    fn is_done(&self) -> bool {
        let given = match &self.compressor {
            Some(compressor) => compressor.is_finished(),
            None => self.first.is_none() && self.stream.is_done(),
        };
        let spilled = self.spill.as_ref().is_some_and(|spill| !spill.is_empty());
        given && self.ahead.is_none() && self.failed.is_none() && !spilled && !self.trailers
    }

    /// Rows that were handed over.
    fn rows(&self) -> u64 {
        let rows = self.stream.rows();
        self.spill.as_ref().map_or(rows, |spill| spill.rows(rows))
    }

    /// A chunk that is sent, once it is in the digest.
    fn hashed(&mut self, chunk: Bytes) -> Bytes {
        if let Some(digest) = &mut self.digest {
            digest.update(&chunk);
        }
        chunk
    }

    /// The digest of all chunks so far.
    fn content_digest(&self) -> Option<String> {
        self.digest.as_ref().map(|digest| digest.text())
    }

    /// What follows the body of a whole result.
    fn trailers(&self) -> Option<HeaderMap> {
        let (next, digest) = (self.stream.cursor(), self.content_digest());
        let end = (next.as_deref(), self.stream.page());
        self.trailers.then(|| trailers::complete(self.stream.rows(), end, digest.as_deref()))
    }
}

/// The next chunk of a compressed body. A row stream that fails ends it without an end mark, behind all that was compressed; the
/// error then waits in `failed`.
fn poll_compressed(
    stream: &mut RowStream,
    compressor: &mut Compressor,
    failed: &mut Option<Error>,
    cx: &mut Context<'_>,
) -> Poll<Option<Result<Bytes, Error>>> {
    loop {
        if let Some(chunk) = timed(stream, || compressor.compress())? {
            return Poll::Ready(Some(Ok(chunk)));
        }
        match stream.poll_chunk(cx) {
            Poll::Ready(Some(Ok(chunk))) => compressor.put(chunk),
            Poll::Ready(Some(Err(error))) => match timed(stream, || compressor.release())? {
                Some(chunk) => {
                    *failed = Some(error);
                    return Poll::Ready(Some(Ok(chunk)));
                }
                None => return Poll::Ready(Some(Err(error))),
            },
            Poll::Ready(None) => return Poll::Ready(timed(stream, || compressor.finish()).transpose()),
            Poll::Pending => return timed(stream, || compressor.poll_flush(cx)).map(Some),
        }
    }
}

/// What a response streams.
pub(crate) fn lock(streaming: &Mutex<Streaming>) -> MutexGuard<'_, Streaming> {
    // After a panic under it nothing is polled any more: it ends the task of both who have it.
    streaming.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a step of a stream's compression, whose time is that of encoding.
fn timed<T>(stream: &mut RowStream, step: impl FnOnce() -> T) -> T {
    let begun = Instant::now();
    let out = step();
    stream.compressed(begun.elapsed());
    out
}

/// What the log will say of a request; says it when dropped, however the request ends.
struct Record {
    entry: Entry,
    meter: Meter,
    outcome: Option<Outcome>,
    /// What is told of it, where it is streamed, until it has ended.
    stream: Option<Arc<Stream>>,
    /// What it holds, to the last byte.
    permit: Option<Permit>,
    /// Waits for connections on its behalf.
    waiter: Waiter,
    watchdog: Arc<Watchdog>,
    app: Arc<App>,
}

impl Record {
    fn new<B>(app: Arc<App>, request: &Request<B>, held: Option<Permit>) -> Self {
        Self {
            entry: Entry::new(app.log, request),
            meter: Meter::new(request.version()),
            outcome: None,
            stream: None,
            permit: held,
            waiter: Waiter::default(),
            watchdog: Watchdog::current(),
            app,
        }
    }

    fn note(&mut self, stream: &RowStream) {
        self.entry.rows = stream.rows();
        self.entry.times = stream.times();
    }

    fn note_streaming(&mut self, streaming: &Streaming) {
        self.note(&streaming.stream);
        self.entry.rows = streaming.rows();
        self.entry.spilled = streaming.spill.as_ref().map_or(0, |spill| spill.spilled());
    }

    /// So many bytes more were handed over.
    fn note_bytes(&mut self, bytes: usize) {
        self.entry.bytes += bytes as u64;
        if let Some(stream) = &self.stream {
            stream.note(self.entry.rows, self.entry.bytes);
        }
        if self.meter.is_due(&self.entry) {
            self.meter.count(self.app.series(self.meter.subject), &self.entry);
        }
    }

    /// Tells where the time went until the head, where something was waited for.
    fn tell_timing(&self, headers: &mut HeaderMap) {
        let first_row = self.meter.until_first_row();
        if let Some(told) =
            first_row.and_then(|first_row| metrics::server_timing(&self.entry.times, first_row))
        {
            headers.insert(SERVER_TIMING, told);
        }
    }

    /// It has ended, unless it had already.
    fn end(&mut self, outcome: Outcome, digest: Option<String>) {
        let outcome = self.outcome.get_or_insert(outcome);
        if let Some(stream) = self.stream.take() {
            self.app.kept.streams.end(&stream, outcome, self.entry.times, digest);
        }
    }

    fn fail_before_head(&mut self, error: Error, document: Bytes) -> Answer {
        self.outcome = Some(Outcome::Failed(error));
        Answer::Whole(document)
    }
}

impl Over {
    /// How a response ended that was ended so.
    fn outcome(self) -> Outcome {
        match self {
            Self::Stalled => Outcome::Stalled,
            Self::Shed => Outcome::Shed,
            Self::Total(total) => Outcome::Failed(Error::total_timeout(total)),
        }
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        let ended = match (self.outcome.take(), self.watchdog.why()) {
            (Some(failed @ Outcome::Failed(_)), _) => failed,
            // Also where all was handed over: an HTTP/2 stream goes on until the client lets the last of it go.
            (_, Some(over)) => over.outcome(),
            (Some(outcome), None) => outcome,
            (None, None) if self.app.kept.ending.load(Ordering::Relaxed) => Outcome::Shutdown,
            (None, None) => Outcome::Aborted,
        };
        // Also where no stream came of it: no connection came, or its client left meanwhile.
        self.entry.times.pool = self.entry.times.pool.max(self.waiter.waited());
        self.end(ended, None);
        if let Some(outcome) = &self.outcome {
            self.meter.end(self.app.series(self.meter.subject), &self.entry, outcome);
            self.entry.end(outcome);
        }
        self.watchdog.release(self.permit.take());
    }
}

/// The body of a response, polled by hyper.
pub struct ResponseBody {
    answer: Answer,
    /// Of a chunk, what has not been given yet.
    rest: Bytes,
    /// The most that is given at a time.
    piece: usize,
    /// `None` once the watchdog has it.
    record: Option<Record>,
    delivery: Delivery,
    /// Begun when all was given, where the end waits until that has gone.
    end: Option<Box<Wait>>,
}

/// Breaks a response off; what failed is in the log.
#[derive(Debug)]
pub struct BrokenOff;

impl fmt::Display for BrokenOff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the result could not be completed")
    }
}

impl std::error::Error for BrokenOff {}

impl ResponseBody {
    fn new(answer: Answer, record: Record) -> Self {
        let mut this = Self {
            answer,
            rest: Bytes::new(),
            piece: usize::MAX,
            record: Some(record),
            delivery: Delivery::Unknown,
            end: None,
        };
        // hyper does not poll a body that has ended before it began.
        if this.is_end_stream() {
            this.complete();
        }
        this
    }

    /// Gives at most so many bytes at a time.
    pub(crate) fn in_pieces(&mut self, bytes: usize) {
        self.piece = bytes;
    }

    fn next_piece(&mut self) -> Frame<Bytes> {
        // Whoever waits for a chunk to be gone waits for its last piece, which may be empty.
        let piece = match self.rest.len() <= self.piece {
            true => std::mem::take(&mut self.rest),
            false => self.rest.split_to(self.piece),
        };
        if let Some(record) = &mut self.record {
            record.note_bytes(piece.len());
        }
        if self.is_end_stream() {
            self.complete();
        }
        Frame::data(piece)
    }

    /// Has a failure wait for what was handed over before it, and in HTTP/2 the end, too.
    pub(crate) fn deliver(&mut self, delivery: Delivery) {
        self.delivery = delivery;
    }

    /// Whether all was given, and its client is waited for.
    pub(crate) fn is_delivering(&self) -> bool {
        self.end.as_ref().is_some_and(|end| end.is_waiting())
    }

    /// Ready when the end of a stream may be sent; a frame, if there is one to be sent before.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if self.end.is_none() {
            self.end = Wait::before_end(&self.delivery).map(Box::new);
        }
        self.end.as_mut().map_or(Poll::Ready(None), |end| end.poll(cx))
    }

    /// Everything was handed over, unless the answer was a failure already. Gives the permit back,
    /// but for what is still on its way. Over HTTP/1, where its time is limited, it goes on until
    /// that has left.
    fn complete(&mut self) {
        let digest = match &self.answer {
            Answer::Stream(streaming) => lock(streaming).content_digest(),
            _ => None,
        };
        self.answer = Answer::Nothing;
        let Some(mut record) = self.record.take() else { return };
        record.permit = record.permit.take().and_then(Permit::handed_over);
        if record.watchdog.outlives_body() {
            return Last::keep(record, digest);
        }
        record.end(Outcome::Complete, digest);
        self.record = Some(record);
    }

    /// It cannot be completed. Gives the permit back.
    fn fail(&mut self, error: Error) {
        if let Some(record) = &mut self.record {
            record.end(Outcome::Failed(error), None);
            record.permit = record.permit.take().and_then(Permit::handed_over);
        }
        self.answer = Answer::Breaking(Box::new(Wait::new(&self.delivery)));
    }

    /// The trailers of a stream whose last chunk was given.
    fn trailers(&self) -> Option<HeaderMap> {
        match &self.answer {
            Answer::Stream(streaming) => lock(streaming).trailers(),
            _ => None,
        }
    }

    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>> {
        match &mut self.answer {
            Answer::Nothing => Poll::Ready(None),
            Answer::Whole(bytes) => Poll::Ready(Some(Ok(std::mem::take(bytes)))),
            Answer::Stream(streaming) => {
                let mut streaming = lock(streaming);
                let polled = streaming.poll_chunk(cx);
                if let Some(record) = &mut self.record {
                    record.note_streaming(&streaming);
                }
                polled
            }
            Answer::File(file) => file.poll_chunk(cx),
            Answer::Passed(passed) => passed.poll_chunk(cx),
            Answer::Breaking(wait) => wait.poll(cx).map(|frame| frame.map(Ok)),
        }
    }
}

impl Drop for ResponseBody {
    /// What was spilled, and the time for which a client took nothing, is told also where the client has never come back for the rest.
    fn drop(&mut self) {
        if let (Answer::Stream(streaming), Some(record)) = (&self.answer, &mut self.record) {
            let streaming = lock(streaming);
            record.note_streaming(&streaming);
            record.entry.times = streaming.stream.times_to_now();
        }
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = BrokenOff;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BrokenOff>>> {
        if !self.rest.is_empty() {
            return Poll::Ready(Some(Ok(self.next_piece())));
        }
        match ready!(self.poll_chunk(cx)) {
            Some(Ok(chunk)) => {
                self.rest = chunk;
                Poll::Ready(Some(Ok(self.next_piece())))
            }
            Some(Err(error)) => {
                self.fail(error);
                self.poll_frame(cx)
            }
            None if matches!(self.answer, Answer::Breaking(_)) => {
                self.answer = Answer::Nothing;
                Poll::Ready(Some(Err(BrokenOff)))
            }
            None => {
                if let Some(frame) = ready!(self.poll_end(cx)) {
                    return Poll::Ready(Some(Ok(Frame::data(frame))));
                }
                let trailers = self.trailers();
                self.complete();
                Poll::Ready(trailers.map(|trailers| Ok(Frame::trailers(trailers))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.answer {
            _ if !self.rest.is_empty() => false,
            Answer::Nothing => true,
            Answer::Whole(bytes) => bytes.is_empty(),
            Answer::Stream(_) | Answer::Passed(_) if matches!(self.delivery, Delivery::Http2) => false,
            Answer::Stream(streaming) => lock(streaming).is_done(),
            Answer::File(file) => file.left() == 0,
            Answer::Passed(passed) => passed.is_done(),
            Answer::Breaking(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.answer {
            Answer::Nothing => SizeHint::with_exact(0),
            Answer::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Answer::File(file) => SizeHint::with_exact(file.left()),
            Answer::Stream(_) | Answer::Passed(_) | Answer::Breaking(_) => SizeHint::default(),
        }
    }
}
