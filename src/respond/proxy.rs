//! Proxied answers of an upstream: bytes as they arrive, at the client's speed.
//!
//! The body of the response polls that of the upstream's answer. So a client that doesn't read
//! stops the upstream, and a client that leaves closes the connection to it. If the answer is
//! aborted, the response is too.

use std::net::IpAddr;
use std::pin::pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, Request, Response, Uri, header};
use rowstream_core::Error;
use rowstream_core::params::{self, ParamValue};
use rowstream_core::pool::Patience;
use rowstream_upstream::{Call, Reply, Source, WaitTimes, fields};

use super::arrival;
use super::body::AnswerBody;
use super::exchange::Exchange;
use super::head::AUTHORIZED;
use crate::admission::Claim;
use crate::config::memory;
use crate::endpoint::{Authorization, Endpoint, ProxyHandler, SlowClients};
use crate::route::Match;

/// How long an answer that exceeds its source's time may take to be polled and report that.
pub(crate) const LATE: Duration = Duration::from_millis(500);

/// The body of an answer that is being passed on.
pub(crate) struct ProxiedBody {
    reply: Reply,
    /// The number of missing bytes, if the answer states its length.
    left: Option<u64>,
}

impl Exchange<'_> {
    /// Answers with an upstream's own answer.
    pub(super) async fn answer_proxy(
        &mut self,
        proxy: &ProxyHandler,
        found: &Match<'_>,
    ) -> Result<Response<AnswerBody>, Error> {
        let endpoint = &self.app.config.endpoints[found.endpoint];
        let mut call = self.call(proxy, endpoint, found)?;
        if let Some(signed) = self.answer_signed(endpoint) {
            return signed;
        }
        self.tracker.pass_trace(&mut call.headers);
        let client = arrival::counted(&self.app.config.limits, self.request);
        // Each part of a head keeps the whole buffer into which the head was read.
        (*self.request.headers_mut(), *self.request.uri_mut()) = (HeaderMap::new(), Uri::default());
        self.proxy(endpoint, &call, client).await
    }

    /// The call of an upstream on behalf of the client.
    fn call(&self, proxy: &ProxyHandler, endpoint: &Endpoint, found: &Match<'_>) -> Result<Call, Error> {
        let request = &*self.request;
        let mut call = proxy.call(&values(endpoint, found, request)?)?;
        let own = std::mem::take(&mut call.headers);
        let forwarded = arrival::forwarded(&self.app.config.limits.proxies, request);
        let is_public = endpoint.authorization == Authorization::Public;
        call.method = request.method().clone();
        call.headers = fields::request(request.headers(), &forwarded, is_public);
        for name in proxy.header_names() {
            call.headers.remove(name);
        }
        fields::put(&mut call.headers, &own);
        Ok(call)
    }

    /// Calls the upstream, and proxies its answer.
    async fn proxy(
        &mut self,
        endpoint: &Endpoint,
        call: &Call,
        client: Option<IpAddr>,
    ) -> Result<Response<AnswerBody>, Error> {
        let (app, tracker) = (self.app, &mut *self.tracker);
        let memory = match app.config.limits.memory {
            Some(_) => memory::proxy_budget(app.config.source(&endpoint.source)),
            None => 0,
        };
        let begun = Instant::now();
        app.admission.admit(&Claim { endpoint, client, memory }, &mut tracker.permit)?;
        tracker.meter.admit();
        let source = app.source(&endpoint.source).upstream()?;
        let asked = pin!(ask(source, call, tracker.waiter.begin()));
        let (reply, waited) = endpoint.response.timeout.until_row(begun, asked).await?;
        tracker.entry.times.pool = waited.pool;
        tracker.entry.times.database = waited.begun.elapsed();
        // The answer reports its own timeout, but only when it's polled, and it isn't polled while
        // the client reads nothing.
        let late = source.total().map(|total| total + LATE);
        if let Some(total) = endpoint.response.timeout.total.into_iter().chain(late).min() {
            tracker.watchdog.limit(begun.into(), total);
        }
        if let SlowClients::MinRate(rate) = endpoint.response.slow_clients {
            tracker.watchdog.set_min_rate(rate);
        }
        let mut response = response(reply).map(|proxied| AnswerBody::Proxied(Box::new(proxied)));
        if endpoint.authorization != Authorization::Public {
            response.headers_mut().append(header::VARY, AUTHORIZED);
        }
        Ok(response)
    }
}

/// The values of the parameters. Options for the format of rows make no sense here, and are
/// refused.
///
/// # Errors
/// 400: it names every parameter that is wrong.
pub(crate) fn values<B>(
    endpoint: &Endpoint,
    found: &Match,
    request: &Request<B>,
) -> Result<Vec<ParamValue>, Error> {
    let query = request.uri().query();
    let bound = params::bind(&endpoint.params, &found.args, query, request.headers())?;
    let pairs = query.unwrap_or_default().split('&').map(|pair| pair.split('=').next().unwrap_or_default());
    let names = pairs.filter_map(params::percent_decode).filter(|name| name.starts_with('_'));
    let refused: Vec<_> = names
        .map(|name| (name.into_owned(), "it needs rows, but this response is passed through".to_owned()))
        .collect();
    if refused.is_empty() { Ok(bound.values) } else { Err(Error::invalid_parameters(refused)) }
}

/// Requests an answer that can be proxied.
///
/// # Errors
/// Those of [`Source::send`]; and 502 if the answer is declared as JSON but is empty.
pub(crate) async fn ask(
    source: &Source,
    call: &Call,
    patience: Patience<'_>,
) -> Result<(Reply, WaitTimes), Error> {
    let (mut reply, waited) = source.send(call, patience).await?;
    reply.begin().await?;
    Ok((reply, waited))
}

/// The headers of a response that proxies an answer, and the body that polls it.
pub(crate) fn response(reply: Reply) -> Response<ProxiedBody> {
    let headers = fields::response(&reply.head.headers);
    let length = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    let status = reply.head.status;
    // An answer without a body may state the length that a body would have.
    let left = if reply.is_over() { Some(0) } else { length };
    let mut response = Response::new(ProxiedBody { reply, left });
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

impl ProxiedBody {
    /// The next bytes.
    ///
    /// # Errors
    /// The answer was aborted, or is late.
    pub(crate) fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>> {
        let polled = self.reply.poll_data(cx);
        if let (Poll::Ready(Some(Ok(data))), Some(left)) = (&polled, &mut self.left) {
            *left = left.saturating_sub(data.len() as u64);
        }
        polled
    }

    /// True if the last byte has been given.
    pub(crate) fn is_done(&self) -> bool {
        self.reply.is_over() || self.left == Some(0)
    }
}
