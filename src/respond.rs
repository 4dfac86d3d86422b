//! One request to one response: route, authorize, negotiate, bind, admit, and hold the head until the first chunk.
//!
//! An error on this way is a problem document with its real status. After the head it can only be told by breaking off,
//! which [`ResponseBody`] does: hyper ends the connection (HTTP/1.1: no last chunk) or resets the stream (HTTP/2).

use std::collections::HashMap;
use std::fmt;
use std::future::poll_fn;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Instant;

use bytes::Bytes;
use http::header::{self, HeaderName, HeaderValue};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use rowstream_encode::{Format, ValueOptions};

use crate::Error;
use crate::access_log::{Entry, LogFormat, Outcome};
use crate::admission::{Admission, Claim, Permit};
use crate::auth;
use crate::body::RowStream;
use crate::compress::{self, Coding, Compressor};
use crate::config::{Config, Cors};
use crate::endpoint::{Compression, Endpoint};
use crate::memory;
use crate::negotiate::{self, Encoding};
use crate::params::{self, ParamValue};
use crate::route::{Match, Router};
use crate::source::{Source, SourceConfig};
use crate::watchdog::{Over, Watchdog};

/// What every path can be asked with.
const ALLOW: &str = "GET, HEAD, OPTIONS";
/// The server's own paths.
const OWN: &str = "/_rowstream/";
/// Where the values of a response are not those of the database: what was done to them.
const CHANGES: HeaderName = HeaderName::from_static("rowstream-changes");
/// RFC 9457.
const PROBLEM: &str = "application/problem+json";
/// What proxies tell of the client that they ask for.
const FORWARDED: [HeaderName; 3] =
    [header::FORWARDED, HeaderName::from_static("x-forwarded-for"), header::VIA];
/// The length of a body that is longer than is known.
const STREAMED: usize = usize::MAX;

/// Everything that answers requests: the endpoints, their sources, and the bounds.
pub struct App {
    config: Config,
    router: Router,
    sources: HashMap<String, Source>,
    admission: Admission,
    log: LogFormat,
    /// Shared with the apps before and after it.
    ending: Arc<AtomicBool>,
}

/// In a request's extensions: its client is on another machine, as the server has seen.
#[derive(Debug, Clone, Copy)]
pub struct Remote;

/// In a request's extensions: the address that it came from, as the server has seen.
#[derive(Debug, Clone, Copy)]
pub struct Peer(pub IpAddr);

/// What a request asks for, once it is known to be well-formed and allowed.
struct Query<'a> {
    endpoint: &'a Endpoint,
    format: Format,
    /// As far as they change anything in the format.
    options: ValueOptions,
    vary_accept: bool,
    /// How the client lets the body be compressed; `None` where it is not asked.
    encoding: Option<Encoding>,
    /// The name of the file that the answer is to be saved as.
    download: Option<String>,
    values: Vec<ParamValue>,
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
        Self::build(config, self.log, admission, Arc::clone(&self.ending), |wanted| {
            let same = self.config.sources.iter().find(|source| *source == wanted)?;
            self.sources.get(&same.name).cloned()
        })
    }

    fn build(
        config: Config,
        log: LogFormat,
        admission: Admission,
        ending: Arc<AtomicBool>,
        open: impl Fn(&SourceConfig) -> Option<Source>,
    ) -> Result<Self, Error> {
        let mut sources = HashMap::new();
        for source in &config.sources {
            let opened = open(source).map_or_else(|| Source::open(source), Ok)?;
            sources.insert(source.name.clone(), opened);
        }
        let router = Router::new(&config.endpoints)
            .map_err(|_| Error::endpoint("two endpoints match the same paths"))?;
        Ok(Self { config, router, sources, admission, log, ending })
    }

    /// What was configured.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The sources that are not those of the app `before`.
    pub fn new_sources(&self, before: Option<&Self>) -> impl Iterator<Item = &Source> {
        let settings = &self.config.sources;
        let new =
            move |source: &&SourceConfig| !before.is_some_and(|app| app.config.sources.contains(source));
        settings.iter().filter(new).filter_map(|source| self.sources.get(&source.name))
    }

    /// Who may run a stream.
    pub fn admission(&self) -> &Admission {
        &self.admission
    }

    /// From now on, a response that is dropped was ended by the server and not by its client.
    pub fn end(&self) {
        self.ending.store(true, Ordering::Relaxed);
    }

    /// Answers a request.
    pub async fn respond<B>(self: Arc<Self>, request: Request<B>) -> Response<ResponseBody> {
        let (method, origin) = (request.method().clone(), request.headers().get(header::ORIGIN).cloned());
        let mut record = Record {
            entry: Entry::new(self.log, &request),
            outcome: None,
            permit: None,
            watchdog: Watchdog::current(),
            app: Arc::clone(&self),
        };
        let mut response = match self.answer(&request, &mut record).await {
            Ok(response) => response,
            Err(error) => problem(&error).map(|bytes| record.fail_before_head(error, bytes)),
        };
        record.entry.status = Some(response.status());
        if let Some(cors) = &self.config.cors {
            cors_headers(cors, origin.as_ref(), response.headers_mut());
        }
        if method == Method::HEAD {
            *response.body_mut() = Answer::Nothing;
        }
        response.map(|answer| ResponseBody::new(answer, record))
    }

    async fn answer<B>(&self, request: &Request<B>, record: &mut Record) -> Result<Response<Answer>, Error> {
        let path = request.uri().path();
        if let Some(own) = path.strip_prefix(OWN) {
            let answer = own_path(own)?;
            return Ok(self.without_query(request)?.unwrap_or(answer));
        }
        let found = self.router.find(path)?.ok_or_else(|| no_endpoint(path))?;
        let endpoint = &self.config.endpoints[found.endpoint];
        if let Some(answer) = self.without_query(request)? {
            return Ok(answer);
        }
        auth::authorize(&endpoint.authorization, &self.config.tokens, request.headers())?;
        let query = read_query(endpoint, &found, request)?;
        if request.method() == Method::HEAD {
            // The length of what is not run is not known: this is the head of a long result.
            return Ok(head(&query, query.coding(STREAMED)).map(|()| Answer::Nothing));
        }
        let (begun, timeout) = (Instant::now(), endpoint.timeout);
        let (client, memory) = (self.client(request), self.window(&query)?);
        record.permit = Some(self.admission.admit(&Claim { endpoint, client, memory })?);
        let answer = timeout.until_head(self.run(query, record)).await?;
        if let (Answer::Stream(_), Some(total)) = (answer.body(), timeout.total) {
            record.watchdog.limit(begun.into(), total);
        }
        Ok(answer)
    }

    /// Who asks, where clients are counted.
    fn client<B>(&self, request: &Request<B>) -> Option<IpAddr> {
        self.config.limits.max_streams_per_client?;
        let Peer(peer) = request.extensions().get()?;
        Some(self.config.limits.proxies.client(*peer, request.headers()))
    }

    /// What a stream may take at most, in bytes; 0 where memory has no limit.
    fn window(&self, query: &Query<'_>) -> Result<usize, Error> {
        if self.config.limits.memory.is_none() {
            return Ok(0);
        }
        let mut settings = self.config.sources.iter();
        let source =
            settings.find(|source| source.name == query.endpoint.source).ok_or_else(source_is_gone)?;
        Ok(memory::window(query.endpoint, source, query.format, query.coding(STREAMED)))
    }

    /// Runs the statements up to the first chunk.
    async fn run(&self, mut query: Query<'_>, record: &mut Record) -> Result<Response<Answer>, Error> {
        let source = self.sources.get(&query.endpoint.source).ok_or_else(source_is_gone)?;
        let values = std::mem::take(&mut query.values);
        let written = (query.format, query.options);
        let mut stream = RowStream::open_with(query.endpoint, source, written, values).await?;
        let first = poll_fn(|cx| stream.poll_chunk(cx)).await;
        record.note(&stream);
        let first = first.transpose()?.unwrap_or_default();
        if stream.is_done() {
            return whole(&query, first, &mut stream, record);
        }
        let coding = query.coding(STREAMED);
        let (first, compressor) = match coding {
            Some(coding) => (None, Some(Compressor::new(coding, first)?)),
            None => (Some(first), None),
        };
        let streaming = Streaming { first, stream, compressor };
        Ok(head(&query, coding).map(|()| Answer::Stream(Box::new(streaming))))
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
    response.headers_mut().insert(header::CONTENT_LENGTH, body.len().into());
    Ok(response.map(|()| Answer::Whole(body)))
}

/// Checks what the request asks for.
fn read_query<'a, B>(
    endpoint: &'a Endpoint,
    found: &Match,
    request: &Request<B>,
) -> Result<Query<'a>, Error> {
    let bound = params::bind(&endpoint.params, &found.args, request.uri().query(), request.headers())?;
    let accept = request.headers().get_all(header::ACCEPT);
    let choice = negotiate::choose(found.format, bound.format.as_deref(), accept, &endpoint.formats)?;
    let negotiate::Choice { format, vary_accept } = choice;
    let options = bound.options.over(endpoint.options).in_format(format);
    let encoding = match negotiates_encoding(endpoint, format, request) {
        true => Some(Encoding::choose(request.headers().get_all(header::ACCEPT_ENCODING))?),
        false => None,
    };
    let (download, values) = (bound.download, bound.values);
    Ok(Query { endpoint, format, options, vary_accept, encoding, download, values })
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
    headers.insert(header::CONTENT_TYPE, content_type(query));
    if let Some(changes) = changes(query) {
        headers.insert(CHANGES, changes);
    }
    if let Some(disposition) = query.download.as_deref().and_then(attachment) {
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

/// What is done to the values of the database; `None`: nothing.
fn changes(query: &Query<'_>) -> Option<HeaderValue> {
    let guard = (query.format == Format::Csv && query.endpoint.csv.guard).then_some("formula-guard");
    let changes: Vec<_> = guard.into_iter().chain(query.options.changes()).collect();
    if changes.is_empty() { None } else { changes.join(", ").parse().ok() }
}

/// The media type, with what a reader of CSV has to know (RFC 4180, section 3).
fn content_type(query: &Query<'_>) -> HeaderValue {
    HeaderValue::from_static(match (query.format, query.endpoint.csv.header) {
        (Format::Csv, true) => "text/csv; charset=utf-8; header=present",
        (Format::Csv, false) => "text/csv; charset=utf-8; header=absent",
        (format, _) => format.media_type(),
    })
}

/// `Content-Disposition` (RFC 6266) that has the answer saved as `name`: in ASCII for old clients, and in full (RFC 8187). `None` if
/// no header can hold it, which does not happen.
fn attachment(name: &str) -> Option<HeaderValue> {
    let plain = |c: char| if c.is_ascii() && !matches!(c, '"' | '\\' | '%') { c } else { '_' };
    let plain: String = name.chars().map(plain).collect();
    let full = utf8_percent_encode(name, NON_ALPHANUMERIC);
    format!("attachment; filename=\"{plain}\"; filename*=UTF-8''{full}").parse().ok()
}

/// The server's own paths.
fn own_path(path: &str) -> Result<Response<Answer>, Error> {
    match path {
        "live" | "ready" => {
            let mut response = Response::new(Answer::Whole(Bytes::from_static(b"ok\n")));
            response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain"));
            Ok(response)
        }
        _ => Err(no_endpoint(&format!("{OWN}{path}"))),
    }
}

fn source_is_gone() -> Error {
    Error::endpoint("the source is gone")
}

fn no_endpoint(path: &str) -> Error {
    Error::new(
        "no_endpoint",
        StatusCode::NOT_FOUND,
        format!("there is no endpoint {}", crate::fault::shown(path)),
    )
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
    let any = cors.origins.iter().any(|allowed| allowed == "*");
    if any {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
        return;
    }
    headers.append(header::VARY, HeaderValue::from_static("origin"));
    if let Some(origin) =
        origin.filter(|origin| cors.origins.iter().any(|allowed| allowed.as_bytes() == origin.as_bytes()))
    {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
    }
}

/// The body of an answer, before its head is known to be sent.
enum Answer {
    Nothing,
    Whole(Bytes),
    Stream(Box<Streaming>),
}

/// A stream in flight.
struct Streaming {
    /// What was polled before the head was made; a compressor has it where there is one.
    first: Option<Bytes>,
    stream: RowStream,
    compressor: Option<Compressor>,
}

impl Streaming {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>> {
        match (self.first.take(), &mut self.compressor) {
            (Some(first), _) => Poll::Ready(Some(Ok(first))),
            (None, None) => self.stream.poll_chunk(cx),
            (None, Some(compressor)) => poll_compressed(&mut self.stream, compressor, cx),
        }
    }

    /// Whether the last chunk was given.
    fn is_done(&self) -> bool {
        match &self.compressor {
            Some(compressor) => compressor.is_finished(),
            None => self.first.is_none() && self.stream.is_done(),
        }
    }
}

/// The next chunk of a compressed body. A row stream that fails ends it without an end mark.
fn poll_compressed(
    stream: &mut RowStream,
    compressor: &mut Compressor,
    cx: &mut Context<'_>,
) -> Poll<Option<Result<Bytes, Error>>> {
    loop {
        if let Some(chunk) = timed(stream, || compressor.compress())? {
            return Poll::Ready(Some(Ok(chunk)));
        }
        match stream.poll_chunk(cx) {
            Poll::Ready(Some(chunk)) => compressor.put(chunk?),
            Poll::Ready(None) => return Poll::Ready(timed(stream, || compressor.finish()).transpose()),
            Poll::Pending => return timed(stream, || compressor.poll_flush(cx)).map(Some),
        }
    }
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
    outcome: Option<Outcome>,
    /// Held to the last byte.
    permit: Option<Permit>,
    watchdog: Arc<Watchdog>,
    app: Arc<App>,
}

impl Record {
    fn note(&mut self, stream: &RowStream) {
        self.entry.rows = stream.rows();
        self.entry.times = stream.times();
    }

    fn fail_before_head(&mut self, error: Error, document: Bytes) -> Answer {
        self.outcome = Some(Outcome::Failed(error));
        Answer::Whole(document)
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        let ended = match (self.outcome.take(), self.watchdog.why()) {
            (Some(failed @ Outcome::Failed(_)), _) => failed,
            // Also where all was handed over: an HTTP/2 stream goes on until the client lets the last of it go.
            (_, Some(Over::Stalled)) => Outcome::Stalled,
            (_, Some(Over::Total(total))) => Outcome::Failed(Error::total_timeout(total)),
            (Some(outcome), None) => outcome,
            (None, None) if self.app.ending.load(Ordering::Relaxed) => Outcome::Shutdown,
            (None, None) => Outcome::Aborted,
        };
        self.entry.end(&ended);
        self.watchdog.release(self.permit.take());
    }
}

/// The body of a response, polled by hyper.
pub struct ResponseBody {
    answer: Answer,
    record: Record,
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
        let mut this = Self { answer, record };
        // hyper does not poll a body that has ended before it began.
        if this.is_end_stream() {
            this.complete();
        }
        this
    }

    /// Everything was handed over, unless the answer was a failure already. Gives the permit back, but for
    /// what is still on its way.
    fn complete(&mut self) {
        self.record.outcome.get_or_insert(Outcome::Complete);
        self.record.permit = self.record.permit.take().and_then(Permit::handed_over);
        self.answer = Answer::Nothing;
    }

    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>> {
        match &mut self.answer {
            Answer::Nothing => Poll::Ready(None),
            Answer::Whole(bytes) => Poll::Ready(Some(Ok(std::mem::take(bytes)))),
            Answer::Stream(streaming) => {
                let polled = streaming.poll_chunk(cx);
                self.record.note(&streaming.stream);
                polled
            }
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
        match ready!(self.poll_chunk(cx)) {
            Some(Ok(chunk)) => {
                self.record.entry.bytes += chunk.len() as u64;
                if self.is_end_stream() {
                    self.complete();
                }
                Poll::Ready(Some(Ok(Frame::data(chunk))))
            }
            Some(Err(error)) => {
                self.record.outcome = Some(Outcome::Failed(error));
                self.answer = Answer::Nothing;
                Poll::Ready(Some(Err(BrokenOff)))
            }
            None => {
                self.complete();
                Poll::Ready(None)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.answer {
            Answer::Nothing => true,
            Answer::Whole(bytes) => bytes.is_empty(),
            Answer::Stream(streaming) => streaming.is_done(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.answer {
            Answer::Nothing => SizeHint::with_exact(0),
            Answer::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Answer::Stream(_) => SizeHint::default(),
        }
    }
}
