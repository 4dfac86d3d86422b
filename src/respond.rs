//! One request to one response: route, authorize, negotiate, bind, admit, and hold the headers
//! until the first chunk.
//!
//! An error on this path becomes a problem document with its real status. After the headers, an
//! error can only abort the response, which [`ResponseBody`] does: hyper closes the connection
//! (HTTP/1.1: without a last chunk) or resets the stream (HTTP/2).

mod admin;
mod app;
mod arrival;
mod body;
mod columns;
mod console;
mod cors;
mod documents;
mod follow;
mod head;
mod hold;
mod host;
mod index;
mod last;
mod opening;
pub(crate) mod probe;
mod proxy;
mod range;
mod refine;
mod request;
mod request_body;
mod run;
mod signed;
mod spare;
mod streaming;
mod tracker;
mod unread;
mod wire;

use std::error::Error as StdError;
use std::net::IpAddr;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Instant;

use bytes::{Buf, Bytes};
use futures_util::future::Either;
use http::{HeaderMap, Method, Request, Response, Uri, Version, header};
use http_body::Body;
use rowstream_core::Error;
use rowstream_core::client::{Client, UNIX};
use rowstream_core::diagnostic::shown;
use rowstream_core::params::BodyParams;
use rowstream_core::pool::Waiter;
use rowstream_encode::Format;

pub(crate) use self::admin::is_check;
use self::admin::{ADMIN, holder};
pub use self::app::App;
pub use self::arrival::Arrival;
use self::arrival::is_admin;
use self::body::AnswerBody;
pub use self::body::{AbortError, ResponseBody};
use self::head::{ALLOW, ALLOW_BODIES, complete_head, head, no_endpoint, no_more_events, problem, to_https};
use self::refine::Refined;
pub(crate) use self::request::PlanAsJson;
use self::request::{STREAMED, StreamRequest, read_stream_request};
pub(crate) use self::request_body::has_body;
use self::request_body::refuse_format;
use self::signed::SentSignature;
pub(crate) use self::signed::take_signature;
use self::tracker::RequestTracker;
use crate::access_log::{LogEntry, LogNames};
use crate::admission::{Claim, Permit};
use crate::auth::Credentials;
use crate::database::Actor;
use crate::endpoint::{Authorization, Endpoint, Handler, ProxyHandler};
use crate::html::Page;
use crate::metrics::{ExemplarIds, Meter, Subject};
use crate::outcome::Outcome;
use crate::rate_limit::ClientProperty;
use crate::route::near::near;
use crate::route::{Match, Suffixes, ends_in_format};

impl App {
    /// Answers a request. Its memory is reserved now, before the future is polled, because many
    /// requests may arrive at the same time.
    pub fn respond<B: Body<Data: Buf, Error: StdError + 'static> + Unpin>(
        self: Arc<Self>,
        arrival: Arrival,
        request: Request<B>,
    ) -> impl Future<Output = Response<ResponseBody>> + use<B> {
        self.respond_unless(None, arrival, request)
    }

    /// Answers a request, or refuses it.
    pub(crate) fn respond_unless<B: Body<Data: Buf, Error: StdError + 'static> + Unpin>(
        self: Arc<Self>,
        refused: Option<Error>,
        arrival: Arrival,
        mut request: Request<B>,
    ) -> impl Future<Output = Response<ResponseBody>> + use<B> {
        if let Some(signature) = take_signature(request.uri_mut()) {
            request.extensions_mut().insert(SentSignature(signature));
        }
        let (head, body) = request.into_parts();
        let request = Request::from_parts(head, arrival);
        let proxies = &self.config.limits.proxies;
        let held = match refused {
            Some(error) => Err(error),
            None => self.admission.hold(holder(&request), || arrival::network(proxies, &request)),
        };
        // A connection has room for one check.
        let is_lone_check = is_check(&request) && request.body().is_alone;
        let held = held.or_else(|error| if is_lone_check { Ok(None) } else { Err(error) });
        // Boxed here, so that the request is moved as few times as possible.
        match held {
            Ok(held) => Either::Left(Box::pin(self.respond_within(request, body, held))),
            Err(error) => Either::Right(Box::pin(async move {
                let response = self.respond_without_room(&request, error);
                // It must not be closed before the answer.
                drop(body);
                response
            })),
        }
    }

    /// The answer to a request when there's no room for it. Over HTTP/2 and HTTP/3 it has no body
    /// if many such answers wait, because a client that opens no window would leave them unread
    /// too.
    fn respond_without_room(
        self: Arc<Self>,
        request: &Request<Arrival>,
        error: Error,
    ) -> Response<ResponseBody> {
        let (held, has_room) =
            self.admission.hold_short(arrival::network(&self.config.limits.proxies, request));
        let is_told = has_room || request.version() < Version::HTTP_2;
        let mut tracker = RequestTracker::new(Arc::clone(&self), request, held);
        let answered = self.check_without_room(request, &mut tracker).unwrap_or(Err(error));
        let mut response = answered.unwrap_or_else(|error| {
            problem(&self.config, tracker.meter.subject, &error)
                .map(|bytes| tracker.fail_before_head(error, bytes))
        });
        tracker.entry.status = Some(response.status());
        let cors = self.config.cors.as_ref();
        complete_head(cors, cors::origin(cors, request).as_ref(), response.headers_mut());
        if tracker.is_signed {
            signed::keep_private(response.headers_mut());
        }
        if !is_told {
            *response.body_mut() = AnswerBody::Nothing;
            response.headers_mut().remove(header::CONTENT_TYPE);
        }
        response.map(|answer| ResponseBody::new(answer, tracker))
    }

    /// The answer to a request whose head can't be read. It's logged and counted like any other.
    pub(crate) fn refuse_unread(&self, version: Version, peer: IpAddr, error: Error) -> Response<Bytes> {
        let mut response = problem(&self.config, Subject::None, &error);
        complete_head(self.config.cors.as_ref(), None, response.headers_mut());
        let mut entry = LogEntry::unread(version, Some(peer).filter(|peer| *peer != UNIX));
        (entry.status, entry.bytes) = (Some(response.status()), response.body().len() as u64);
        let (outcome, ids) = (Outcome::Failed(error), ExemplarIds { trace: None, stream: None });
        Meter::new(version).end(self.series(Subject::None), &entry, &outcome, ids);
        entry.end(&self.config.log, &outcome, LogNames::default);
        response
    }

    #[expect(clippy::manual_async_fn, reason = "an `async fn` stores its arguments twice")]
    fn respond_within<B: Body<Data: Buf, Error: StdError + 'static> + Unpin>(
        self: Arc<Self>,
        mut request: Request<Arrival>,
        mut body: B,
        held: Option<Permit>,
    ) -> impl Future<Output = Response<ResponseBody>> + use<B> {
        async move {
            let cors = self.config.cors.as_ref();
            let origin = cors::origin(cors, &request);
            let mut tracker = RequestTracker::new(Arc::clone(&self), &request, held);
            let mut response = match self.answer(&mut request, &mut body, &mut tracker).await {
                Ok(response) => response,
                Err(error) => {
                    let error = error.in_detail(self.detail);
                    problem(&self.config, tracker.meter.subject, &error)
                        .map(|bytes| tracker.fail_before_head(error, bytes))
                }
            };
            // A client that has left sees no status.
            if !matches!(tracker.outcome, Some(Outcome::Aborted)) {
                tracker.entry.status = Some(response.status());
            }
            tracker.note_head();
            tracker.tell_timing(response.headers_mut());
            if let Some(rates) = &self.rates {
                rates.tell(&tracker.quotas, response.headers_mut());
            }
            complete_head(cors, origin.as_ref(), response.headers_mut());
            if tracker.is_signed {
                signed::keep_private(response.headers_mut());
            }
            if *request.method() == Method::HEAD {
                *response.body_mut() = AnswerBody::Nothing;
            }
            response.map(|answer| ResponseBody::new(answer, tracker))
        }
    }

    /// Answers a request, with the endpoint of its path or with an error.
    #[expect(clippy::manual_async_fn, reason = "an `async fn` stores its arguments twice")]
    fn answer<'a, B: Body<Data: Buf, Error: StdError + 'static> + Unpin>(
        &'a self,
        request: &'a mut Request<Arrival>,
        body: &'a mut B,
        tracker: &'a mut RequestTracker,
    ) -> impl Future<Output = Result<Response<AnswerBody>, Error>> {
        async move {
            self.limit_address(request, tracker)?;
            host::check(request)?;
            if self.is_for_own_hosts {
                host::check_own(request)?;
            }
            if let Some(port) = request.body().to_https {
                return to_https(request, port.get()).map(|head| head.map(|()| AnswerBody::Nothing));
            }
            let path = request.uri().path();
            if let Some(name) = path.strip_prefix(ADMIN) {
                return Box::pin(self.answer_admin_path(name, request, tracker)).await;
            }
            if is_admin(request) {
                return Err(no_endpoint(path));
            }
            let Some(found) = self.router.find(path)? else {
                return Box::pin(self.answer_without_endpoint(request, tracker)).await;
            };
            let endpoint = &self.config.endpoints[found.endpoint];
            tracker.meter.subject = Subject::Endpoint(found.endpoint);
            let allow = if endpoint.is_proxy() { ALLOW } else { ALLOW_BODIES };
            if let Some(answer) = self.without_query(request, allow)? {
                return Ok(answer);
            }
            if let Some(signature) = request.extensions().get() {
                tracker.credentials = signed::credentials(&self.config, signature, request)?;
            }
            self.authorize(&endpoint.authorization, request.headers(), tracker).await?;
            self.limit_token(tracker)?;
            tracker.waiter = Waiter::new(self.who(&tracker.credentials, request));
            tracker.sign = signed::take(request.uri_mut(), signed::SIGN);
            if tracker.is_signed || tracker.sign.is_some() {
                signed::remove_header_params(endpoint, request.headers_mut());
            }
            match &endpoint.handler {
                Handler::Proxy(proxy) => Box::pin(self.answer_proxy(proxy, &found, request, tracker)).await,
                _ => self.answer_rows(&found, request, body, tracker).await,
            }
        }
    }

    /// Answers a request for an upstream's own answer.
    async fn answer_proxy(
        &self,
        proxy: &ProxyHandler,
        found: &Match<'_>,
        request: &mut Request<Arrival>,
        tracker: &mut RequestTracker,
    ) -> Result<Response<AnswerBody>, Error> {
        let endpoint = &self.config.endpoints[found.endpoint];
        let mut asked = self.proxy_request(proxy, endpoint, found, request)?;
        if let Some(seconds) = &tracker.sign {
            return signed::answer(&self.config, seconds, endpoint, &tracker.credentials, request);
        }
        tracker.pass_trace(asked.headers());
        // Each part of a head keeps the whole buffer into which the head was read.
        (*request.headers_mut(), *request.uri_mut()) = (HeaderMap::new(), Uri::default());
        self.proxy(asked, tracker).await
    }

    /// Answers a request for rows: reads it, checks if there's room for it, and runs its statements.
    #[expect(clippy::manual_async_fn, reason = "an `async fn` stores its arguments twice")]
    fn answer_rows<'a, B: Body<Data: Buf, Error: StdError + 'static> + Unpin>(
        &'a self,
        found: &'a Match<'_>,
        request: &'a mut Request<Arrival>,
        body: &'a mut B,
        tracker: &'a mut RequestTracker,
    ) -> impl Future<Output = Result<Response<AnswerBody>, Error>> {
        async move {
            // Some clients send a body only if its head isn't refused.
            let actor =
                self.actor(&self.config.endpoints[found.endpoint], request.headers(), tracker).await?;
            let asks = self.config.endpoints[found.endpoint].refine_settings().is_some();
            let mut stream_request = {
                let body = match has_body(request.method()) || asks {
                    // Boxed, because few requests need it and all would carry it.
                    true => Box::pin(self.read_asked(found, request, body, tracker)).await?,
                    false => None,
                };
                self.read_rows_request(found, request, body.as_deref(), tracker)?
            };
            stream_request.actor = actor;
            let endpoint = self.refined_endpoint(found, request);
            // An endpoint without some of its optional parts has the same authorization.
            let wanted = &stream_request.endpoint.authorization;
            if !std::ptr::eq(stream_request.endpoint, endpoint) && *wanted != endpoint.authorization {
                self.authorize(wanted, request.headers(), tracker).await?;
            }
            tracker.note_statement(stream_request.endpoint);
            tracker.meter.format(stream_request.reading.format);
            if let Some(answer) = self.answer_without_rows(&stream_request, endpoint, request, tracker)? {
                return Ok(answer);
            }
            let memory = self.budget(&stream_request) + tracker.body_memory;
            let client = arrival::counted(&self.config.limits, request);
            self.admission.admit(&Claim { endpoint, client, memory }, &mut tracker.permit)?;
            tracker.meter.admit();
            let (acts, given) = (stream_request.actor.is_some(), stream_request.given());
            let begun = Instant::now();
            let looked_up = match self.lookup(&stream_request) {
                Some(lookup) => {
                    Box::pin(self.look_up(&stream_request, lookup, &tracker.waiter, begun)).await.map(Some)
                }
                None => Ok(None),
            };
            // The answer's scope ends before the last wait, so that requests don't carry it.
            let error = {
                let answer = match self.answer_lookup(&stream_request, tracker, begun, looked_up) {
                    ControlFlow::Break(answer) => answer,
                    // Boxed, so that lookups and idle connections don't carry the state of statements.
                    ControlFlow::Continue(looked_up) => {
                        Box::pin(self.answer_stream(stream_request, tracker, begun, looked_up)).await
                    }
                };
                spare::keep(std::mem::take(request.headers_mut()));
                match answer {
                    Ok(answer) => return Ok(answer),
                    Err(error) => error,
                }
            };
            // Boxed, because few requests fail and all would carry it.
            let error = Box::pin(self.unless_altered(found.endpoint, error)).await.of_request(given);
            let error = match request.extensions().get::<Arc<Refined>>() {
                Some(refined) => refined.explain(error),
                None => error,
            };
            let error = if acts { tracker.credentials.refused_as_role(error) } else { error };
            Err(explain_suffix(error, &self.config.endpoints[found.endpoint], found))
        }
    }

    /// The endpoint of a request, with its filters, order and columns.
    fn refined_endpoint<'a>(&'a self, found: &Match<'_>, request: &'a Request<Arrival>) -> &'a Endpoint {
        let refined = request.extensions().get::<Arc<Refined>>();
        refined.map_or(&self.config.endpoints[found.endpoint], |refined| &refined.endpoint)
    }

    /// Reads and checks a request for rows. `body` has the parameters of its body.
    fn read_rows_request<'a>(
        &'a self,
        found: &Match<'_>,
        request: &'a Request<Arrival>,
        body: Option<&BodyParams>,
        tracker: &RequestTracker,
    ) -> Result<StreamRequest<'a>, Error> {
        let refined = request.extensions().get::<Arc<Refined>>().map(|refined| &**refined);
        let endpoint = self.refined_endpoint(found, request);
        let claims = tracker.credentials.claims_for(&endpoint.params)?;
        let mut stream_request = read_stream_request(endpoint, found, request, claims, body, refined)?;
        stream_request.vary_range = range::is_read(&self.config.endpoints[found.endpoint], request.method());
        if stream_request.reading.format == Format::Html {
            let limit = refined.map(|refined| refined.limit).unwrap_or_default();
            let own = &self.config.endpoints[found.endpoint];
            stream_request.reading.page = Some(Box::new(Page::new(own, request.uri(), limit)));
        }
        if endpoint.asks_upstreams() {
            let mut forwarded = Box::new(arrival::forwarded(&self.config.limits.proxies, request));
            tracker.pass_trace(&mut forwarded);
            stream_request.forwarded = Some(forwarded);
        }
        Ok(stream_request)
    }

    /// The answer if no statement has to run for it: a signed URL, headers alone, or the end for an
    /// `EventSource` that has had all events.
    fn answer_without_rows(
        &self,
        stream_request: &StreamRequest<'_>,
        endpoint: &Endpoint,
        request: &Request<Arrival>,
        tracker: &RequestTracker,
    ) -> Result<Option<Response<AnswerBody>>, Error> {
        if let Some(seconds) = &tracker.sign {
            return signed::answer(&self.config, seconds, endpoint, &tracker.credentials, request).map(Some);
        }
        if stream_request.has_had_events(request.headers()) {
            return Ok(Some(no_more_events()));
        }
        if request.method() == Method::HEAD && !stream_request.endpoint.has_only_total() {
            // The statement doesn't run, so its length isn't known: these are the headers of a long
            // result.
            let head = head(stream_request, stream_request.coding(STREAMED));
            return Ok(Some(head.map(|()| AnswerBody::Nothing)));
        }
        Ok(None)
    }

    /// Reads the parameters in the body of a request. If it asks something of the rows, that becomes an
    /// extension of the request.
    async fn read_asked<B: Body<Data: Buf, Error: StdError + 'static> + Unpin>(
        &self,
        found: &Match<'_>,
        request: &mut Request<Arrival>,
        body: &mut B,
        tracker: &mut RequestTracker,
    ) -> Result<Option<Box<BodyParams>>, Error> {
        let endpoint = &self.config.endpoints[found.endpoint];
        let mut body = match has_body(request.method()) {
            true => {
                tracker.credentials.claims_for(&endpoint.params)?;
                refuse_format(endpoint, &found.suffix, request)?;
                self.read_body(request, body, tracker).await?
            }
            false => None,
        };
        if range::is_read(endpoint, request.method()) {
            range::move_to_url(request)?;
        }
        let refined = match self.refine(found, request, body.as_deref_mut()).await {
            Ok(refined) => refined,
            Err(error) => return Err(self.unless_altered(found.endpoint, error).await),
        };
        if let Some(refined) = refined {
            request.extensions_mut().insert(Arc::new(refined));
        }
        Ok(body)
    }

    /// Answers with the admin endpoint of this name, if the client may use it.
    async fn answer_admin_path(
        &self,
        name: &str,
        request: &Request<Arrival>,
        tracker: &mut RequestTracker,
    ) -> Result<Response<AnswerBody>, Error> {
        tracker.meter.subject = Subject::Admin;
        if tracker.is_signed {
            return Err(signed::only_endpoints());
        }
        let endpoint = self.find_admin(name, request)?;
        if !endpoint.is_of(request.method())
            && let Some(answer) = self.without_query(request, ALLOW)?
        {
            return Ok(answer);
        }
        self.authorize_admin(&endpoint, request.headers(), tracker).await?;
        self.answer_admin(endpoint, request.headers(), tracker).await
    }

    /// Answers for a path without an endpoint.
    async fn answer_without_endpoint(
        &self,
        request: &Request<Arrival>,
        tracker: &mut RequestTracker,
    ) -> Result<Response<AnswerBody>, Error> {
        let credentials = self.credentials(request.headers()).await;
        if request.uri().path() != index::PATH {
            return Err(self.no_endpoint_near(request.uri().path(), &credentials));
        }
        if tracker.is_signed {
            return Err(signed::only_endpoints());
        }
        tracker.meter.subject = Subject::Admin;
        match self.without_query(request, ALLOW)? {
            Some(answer) => Ok(answer),
            None => self.answer_index(request.headers(), &credentials, tracker).await,
        }
    }

    /// Checks that the client may use an endpoint. Public endpoints ignore credentials.
    async fn authorize(
        &self,
        wanted: &Authorization,
        headers: &HeaderMap,
        tracker: &mut RequestTracker,
    ) -> Result<(), Error> {
        if *wanted == Authorization::Public {
            return Ok(());
        }
        // Those of a signed URL are known already.
        if !tracker.is_signed {
            tracker.credentials = self.credentials(headers).await;
        }
        tracker.credentials.authorize(wanted)
    }

    /// The role in which the statements of an endpoint run, if its source's roles depend on the
    /// client. Then credentials count on public endpoints too.
    async fn actor(
        &self,
        endpoint: &Endpoint,
        headers: &HeaderMap,
        tracker: &mut RequestTracker,
    ) -> Result<Option<Arc<Actor>>, Error> {
        let Some(roles) = &self.config.source(&endpoint.source).roles else { return Ok(None) };
        if endpoint.authorization == Authorization::Public {
            if !tracker.is_signed {
                tracker.credentials = self.credentials(headers).await;
            }
            self.limit_token(tracker)?;
        }
        tracker.credentials.actor(roles).map(|actor| Some(Arc::new(actor)))
    }

    /// Counts a request against the quota of its address. Health checks, requests on the admin
    /// port, and CORS preflights, which browsers add on their own, aren't counted.
    fn limit_address(&self, request: &Request<Arrival>, tracker: &mut RequestTracker) -> Result<(), Error> {
        match &self.rates {
            Some(rates) if !is_check(request) && !is_admin(request) && !cors::is_preflight(request) => {
                let address = arrival::network(&self.config.limits.proxies, request).map(Client::Address);
                rates.take(ClientProperty::Address, address, &mut tracker.quotas)
            }
            _ => Ok(()),
        }
    }

    /// Counts a request against the quota of its token.
    fn limit_token(&self, tracker: &mut RequestTracker) -> Result<(), Error> {
        match &self.rates {
            Some(rates) => {
                rates.take(ClientProperty::Token, tracker.credentials.client(), &mut tracker.quotas)
            }
            None => Ok(()),
        }
    }

    /// The client, when clients take turns.
    fn who(&self, credentials: &Credentials, request: &Request<Arrival>) -> Client {
        let address = || arrival::network(&self.config.limits.proxies, request).map(Client::Address);
        credentials.client().or_else(address).unwrap_or_default()
    }

    /// The credentials of a request.
    async fn credentials(&self, headers: &HeaderMap) -> Credentials {
        Credentials::read(headers, &self.config.tokens, self.verifier.as_ref()).await
    }

    /// The error for a path without an endpoint. It suggests one with a similar path, but only if
    /// the client may use it, so that the others stay hidden.
    fn no_endpoint_near(&self, path: &str, credentials: &Credentials) -> Error {
        let endpoints = &self.config.endpoints;
        let may_tell = |index: usize| credentials.authorize(&endpoints[index].authorization).is_ok();
        let near = near(path, endpoints.iter().map(|endpoint| endpoint.path.as_str()), may_tell);
        let suggest = |error: Error, near: String| error.hint(format!("did you mean {}?", shown(&near)));
        near.into_iter().fold(no_endpoint(path), suggest)
    }

    /// The answer to a method that doesn't read the path; `None` for a method that does. `allow` lists
    /// the path's methods.
    fn without_query<B>(
        &self,
        request: &Request<B>,
        allow: &'static str,
    ) -> Result<Option<Response<AnswerBody>>, Error> {
        match request.method() {
            &Method::GET | &Method::HEAD => Ok(None),
            &Method::OPTIONS => Ok(Some(cors::options(self.config.cors.as_ref(), allow, request.headers()))),
            method if has_body(method) && allow == ALLOW_BODIES => Ok(None),
            _ => Err(Error::method_not_allowed(allow)),
        }
    }
}

/// Tells the client of a lookup that a suffix that looks like a format was read as part of the key.
fn explain_suffix(error: Error, endpoint: &Endpoint, found: &Match<'_>) -> Error {
    match found.args.last() {
        Some((name, value))
            if error.code() == "not_found"
                && ends_in_format(value)
                && endpoint.route().suffixes == Suffixes::Data =>
        {
            let value = shown(value);
            error
                .hint(format!("`{name}` is a text, and {value} is all of it: choose a format with `_format`"))
        }
        _ => error,
    }
}
