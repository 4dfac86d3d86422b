//! One request on its way to its response. Its stages: limit, route, authorize, read, sign, admit, run.

use std::error::Error as StdError;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use bytes::Buf;
use http::{Method, Request, Response};
use http_body::Body;
use rowstream_core::Error;
use rowstream_core::client::Client;
use rowstream_core::diagnostic::shown;
use rowstream_core::params::{BodyParams, ParamValue};
use rowstream_core::pool::Waiter;
use rowstream_encode::Format;

use super::admin::{ADMIN, is_check};
use super::app::App;
use super::arrival::{self, Arrival, is_admin};
use super::body::AnswerBody;
use super::head::{ALLOW, ALLOW_BODIES, head, no_endpoint, no_more_events, to_https};
use super::refine::{self, Refined};
use super::request::{STREAMED, StreamRequest, read_stream_request};
use super::request_body::{has_body, refuse_format};
use super::run::AdmittedRequest;
use super::tracker::RequestTracker;
use super::{cors, host, index, range, signed, spare};
use crate::admission::Claim;
use crate::auth::Credentials;
use crate::config::memory;
use crate::database::Actor;
use crate::endpoint::{Authorization, Endpoint, Handler};
use crate::html::Page;
use crate::metrics::Subject;
use crate::rate_limit::ClientProperty;
use crate::route::near::near;
use crate::route::{Match, Suffixes, ends_in_format};
use crate::spool::whole;

/// One request, with the server that answers it. Its response begins when this ends, and keeps the
/// tracker.
pub(super) struct Exchange<'a> {
    pub(super) app: &'a App,
    pub(super) request: &'a mut Request<Arrival>,
    pub(super) tracker: &'a mut RequestTracker,
}

impl Exchange<'_> {
    /// Answers with the endpoint of the request's path, or with an error.
    #[expect(clippy::manual_async_fn, reason = "an `async fn` stores its arguments twice")]
    pub(super) fn answer<B: Body<Data: Buf, Error: StdError + 'static> + Unpin>(
        &mut self,
        body: &mut B,
    ) -> impl Future<Output = Result<Response<AnswerBody>, Error>> {
        async move {
            let app = self.app;
            self.limit_address()?;
            host::check(self.request)?;
            if app.is_for_own_hosts {
                host::check_own(self.request)?;
            }
            if let Some(port) = self.request.body().to_https {
                return to_https(self.request, port.get()).map(|head| head.map(|()| AnswerBody::Nothing));
            }
            let path = self.request.uri().path();
            if path.starts_with(ADMIN) {
                return Box::pin(self.answer_admin()).await;
            }
            if is_admin(self.request) {
                return Err(no_endpoint(path));
            }
            let Some(found) = app.router.find(path)? else {
                return Box::pin(self.answer_without_endpoint()).await;
            };
            let endpoint = &app.config.endpoints[found.endpoint];
            self.tracker.meter.subject = Subject::Endpoint(found.endpoint);
            let allow = if endpoint.is_proxy() { ALLOW } else { ALLOW_BODIES };
            if let Some(answer) = self.answer_without_query(allow)? {
                return Ok(answer);
            }
            if let Some(signature) = self.request.extensions().get() {
                self.tracker.credentials = signed::credentials(&app.config, signature, self.request)?;
            }
            self.authorize(&endpoint.authorization).await?;
            self.limit_token()?;
            self.tracker.waiter = Waiter::new(self.client());
            self.tracker.sign = signed::take(self.request.uri_mut(), signed::SIGN);
            if self.tracker.is_signed || self.tracker.sign.is_some() {
                signed::remove_header_params(endpoint, self.request.headers_mut());
            }
            match &endpoint.handler {
                Handler::Proxy(proxy) => Box::pin(self.answer_proxy(proxy, &found)).await,
                _ => self.answer_rows(&found, body).await,
            }
        }
    }

    /// Answers a request for rows: reads it, checks if there's room for it, and runs its statements.
    #[expect(clippy::manual_async_fn, reason = "an `async fn` stores its arguments twice")]
    fn answer_rows<B: Body<Data: Buf, Error: StdError + 'static> + Unpin>(
        &mut self,
        found: &Match<'_>,
        body: &mut B,
    ) -> impl Future<Output = Result<Response<AnswerBody>, Error>> {
        async move {
            let own = &self.app.config.endpoints[found.endpoint];
            // Some clients send a body only if its head isn't refused.
            let actor = self.actor(own).await?;
            let (params, refined) = match has_body(self.request.method()) || own.refine_settings().is_some() {
                // Boxed, because few requests need it and all would carry it.
                true => Box::pin(self.read_asked(found, body)).await?,
                false => (None, None),
            };
            let endpoint = refined.as_ref().map_or(own, |refined| &refined.endpoint);
            let mut request =
                self.read_rows_request(found, endpoint, params.as_deref(), refined.as_deref())?;
            drop(params);
            request.actor = actor;
            // An endpoint without some of its optional parts has the same authorization.
            let wanted = &request.endpoint.authorization;
            if !std::ptr::eq(request.endpoint, endpoint) && *wanted != endpoint.authorization {
                // Boxed, because few requests need it and all would carry it with what was read.
                Box::pin(self.authorize(wanted)).await?;
            }
            self.tracker.note_statement(request.endpoint);
            self.tracker.meter.format(request.reading.format);
            if let Some(answer) = self.answer_without_rows(&request, endpoint)? {
                return Ok(answer);
            }
            let values = std::mem::take(&mut request.values);
            // The answer's scope ends before the last wait, so that requests don't carry it.
            let error = {
                let mut admitted = self.admit(endpoint, &request, values)?;
                let answer = admitted.answer().await;
                drop(admitted);
                spare::keep(std::mem::take(self.request.headers_mut()));
                match answer {
                    Ok(answer) => return Ok(answer),
                    Err(error) => error,
                }
            };
            // Boxed, because few requests fail and all would carry it.
            let error = Box::pin(refine::unless_altered(self.app, found.endpoint, error)).await;
            let error = error.of_request(request.given());
            let error = match &refined {
                Some(refined) => refined.explain(error),
                None => error,
            };
            let acts = request.actor.is_some();
            let error = if acts { self.tracker.credentials.refused_as_role(error) } else { error };
            Err(explain_suffix(error, own, found))
        }
    }

    /// Reads the parameters in the body of the request, and what it asks of the rows.
    async fn read_asked<B: Body<Data: Buf, Error: StdError + 'static> + Unpin>(
        &mut self,
        found: &Match<'_>,
        body: &mut B,
    ) -> Result<(Option<Box<BodyParams>>, Option<Box<Refined>>), Error> {
        let endpoint = &self.app.config.endpoints[found.endpoint];
        let mut params = match has_body(self.request.method()) {
            true => {
                self.tracker.credentials.claims_for(&endpoint.params)?;
                refuse_format(endpoint, &found.suffix, self.request)?;
                self.read_body(body).await?
            }
            false => None,
        };
        if range::is_read(endpoint, self.request.method()) {
            range::move_to_url(self.request)?;
        }
        match refine::refine(self.app, found, self.request, params.as_deref_mut()).await {
            Ok(refined) => Ok((params, refined.map(Box::new))),
            Err(error) => Err(refine::unless_altered(self.app, found.endpoint, error).await),
        }
    }

    /// Reads and checks a request for rows of `endpoint`. `params` are the body's parameters.
    fn read_rows_request<'e>(
        &self,
        found: &Match<'_>,
        endpoint: &'e Endpoint,
        params: Option<&BodyParams>,
        refined: Option<&Refined>,
    ) -> Result<StreamRequest<'e>, Error> {
        let claims = self.tracker.credentials.claims_for(&endpoint.params)?;
        let mut request = read_stream_request(endpoint, found, self.request, claims, params, refined)?;
        let own = &self.app.config.endpoints[found.endpoint];
        request.vary_range = range::is_read(own, self.request.method());
        if request.reading.format == Format::Html {
            let limit = refined.map(|refined| refined.limit).unwrap_or_default();
            request.reading.page = Some(Box::new(Page::new(own, self.request.uri(), limit)));
        }
        if endpoint.asks_upstreams() {
            let mut forwarded = Box::new(arrival::forwarded(&self.app.config.limits.proxies, self.request));
            self.tracker.pass_trace(&mut forwarded);
            request.forwarded = Some(forwarded);
        }
        Ok(request)
    }

    /// The answer if no statement has to run for it: a signed URL, headers alone, or the end for an
    /// `EventSource` that has had all events.
    fn answer_without_rows(
        &self,
        request: &StreamRequest<'_>,
        endpoint: &Endpoint,
    ) -> Result<Option<Response<AnswerBody>>, Error> {
        if let Some(signed) = self.answer_signed(endpoint) {
            return signed.map(Some);
        }
        if request.has_had_events(self.request.headers()) {
            return Ok(Some(no_more_events()));
        }
        if self.request.method() == Method::HEAD && !request.endpoint.has_only_total() {
            // The statement doesn't run, so its length isn't known: these are the headers of a long
            // result.
            let head = head(request, request.coding(STREAMED));
            return Ok(Some(head.map(|()| AnswerBody::Nothing)));
        }
        Ok(None)
    }

    /// The signed URL of an authorized request, if it asks for that.
    pub(super) fn answer_signed(&self, endpoint: &Endpoint) -> Option<Result<Response<AnswerBody>, Error>> {
        let seconds = self.tracker.sign.as_deref()?;
        let credentials = &self.tracker.credentials;
        Some(signed::answer(&self.app.config, seconds, endpoint, credentials, self.request))
    }

    /// Admits a request if there's room for its stream.
    fn admit<'s>(
        &'s mut self,
        endpoint: &Endpoint,
        request: &'s StreamRequest<'s>,
        values: Vec<ParamValue>,
    ) -> Result<AdmittedRequest<'s>, Error> {
        let memory = self.budget(request) + self.tracker.body_memory;
        let client = arrival::counted(&self.app.config.limits, self.request);
        self.app.admission.admit(&Claim { endpoint, client, memory }, &mut self.tracker.permit)?;
        self.tracker.meter.admit();
        Ok(AdmittedRequest {
            app: self.app,
            tracker: self.tracker,
            request,
            values,
            url_query: self.request.uri().query(),
            begun: Instant::now(),
        })
    }

    /// The most memory that a stream may use, in bytes; 0 if memory has no limit.
    fn budget(&self, request: &StreamRequest<'_>) -> usize {
        if self.app.config.limits.memory.is_none() {
            return 0;
        }
        let source = self.app.config.source(&request.endpoint.source);
        let budget =
            memory::budget(request.endpoint, source, request.reading.format, request.coding(STREAMED));
        budget + if request.waits().is_some() { whole::IN_MEMORY } else { 0 }
    }

    /// Answers for a path without an endpoint.
    async fn answer_without_endpoint(&mut self) -> Result<Response<AnswerBody>, Error> {
        let credentials = self.credentials().await;
        let path = self.request.uri().path();
        if path != index::PATH {
            return Err(no_endpoint_near(&self.app.config.endpoints, path, &credentials));
        }
        if self.tracker.is_signed {
            return Err(signed::only_endpoints());
        }
        self.tracker.meter.subject = Subject::Admin;
        match self.answer_without_query(ALLOW)? {
            Some(answer) => Ok(answer),
            None => self.answer_index(&credentials).await,
        }
    }

    /// The answer to a method that doesn't read the path; `None` for a method that does. `allow` lists
    /// the path's methods.
    pub(super) fn answer_without_query(
        &self,
        allow: &'static str,
    ) -> Result<Option<Response<AnswerBody>>, Error> {
        let cors = self.app.config.cors.as_ref();
        match self.request.method() {
            &Method::GET | &Method::HEAD => Ok(None),
            &Method::OPTIONS => Ok(Some(cors::options(cors, allow, self.request.headers()))),
            method if has_body(method) && allow == ALLOW_BODIES => Ok(None),
            _ => Err(Error::method_not_allowed(allow)),
        }
    }

    /// Checks that the client may use an endpoint. Public endpoints ignore credentials.
    pub(super) async fn authorize(&mut self, wanted: &Authorization) -> Result<(), Error> {
        if *wanted == Authorization::Public {
            return Ok(());
        }
        self.read_credentials().await;
        self.tracker.credentials.authorize(wanted)
    }

    /// The role in which the statements of an endpoint run, if its source's roles depend on the
    /// client. Then credentials count on public endpoints too.
    async fn actor(&mut self, endpoint: &Endpoint) -> Result<Option<Arc<Actor>>, Error> {
        let Some(roles) = &self.app.config.source(&endpoint.source).roles else { return Ok(None) };
        if endpoint.authorization == Authorization::Public {
            self.read_credentials().await;
            self.limit_token()?;
        }
        self.tracker.credentials.actor(roles).map(|actor| Some(Arc::new(actor)))
    }

    /// Reads the credentials, unless the URL is signed: then they're known already.
    async fn read_credentials(&mut self) {
        if !self.tracker.is_signed {
            self.tracker.credentials = self.credentials().await;
        }
    }

    /// The credentials in the request's headers.
    pub(super) fn credentials(&self) -> impl Future<Output = Credentials> {
        let app = self.app;
        Credentials::read(self.request.headers(), &app.config.tokens, app.verifier.as_ref())
    }

    /// The client, when clients take turns.
    fn client(&self) -> Client {
        let address = || self.network().map(Client::Address);
        self.tracker.credentials.client().or_else(address).unwrap_or_default()
    }

    /// The client's address, in the form in which clients are counted.
    pub(super) fn network(&self) -> Option<IpAddr> {
        arrival::network(&self.app.config.limits.proxies, self.request)
    }

    /// Counts the request against the quota of its address. Health checks, requests on the admin
    /// port, and CORS preflights, which browsers add on their own, aren't counted.
    fn limit_address(&mut self) -> Result<(), Error> {
        let request = &*self.request;
        match &self.app.rates {
            Some(rates) if !is_check(request) && !is_admin(request) && !cors::is_preflight(request) => {
                let client = self.network().map(Client::Address);
                rates.take(ClientProperty::Address, client, &mut self.tracker.quotas)
            }
            _ => Ok(()),
        }
    }

    /// Counts the request against the quota of its token.
    fn limit_token(&mut self) -> Result<(), Error> {
        let RequestTracker { credentials, quotas, .. } = &mut *self.tracker;
        match &self.app.rates {
            Some(rates) => rates.take(ClientProperty::Token, credentials.client(), quotas),
            None => Ok(()),
        }
    }
}

/// The error for a path without an endpoint. It suggests one with a similar path, but only if the
/// client may use it, so that the others stay hidden.
fn no_endpoint_near(endpoints: &[Endpoint], path: &str, credentials: &Credentials) -> Error {
    let may_tell = |index: usize| credentials.authorize(&endpoints[index].authorization).is_ok();
    let near = near(path, endpoints.iter().map(|endpoint| endpoint.path.as_str()), may_tell);
    let suggest = |error: Error, near: String| error.hint(format!("did you mean {}?", shown(&near)));
    near.into_iter().fold(no_endpoint(path), suggest)
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
