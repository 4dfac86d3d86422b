//! One host of a source: its connections, and the requests on them.

use std::error::Error as StdError;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use http::{HeaderMap, Request, Uri, header};
use rowstream_core::Error;
use rowstream_core::pool::Lease;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::connect::{Connector, Version};
use super::discovery::Discovery;
use super::hosts::HostSet;
use super::http1::Http1;
use super::http2::Connections;
use super::own_headers::OwnHeaders;
use super::reply::{Body, Carrier};
use super::settings::{Protocol, Settings};
use super::url::Base;
use super::{Call, error};

/// A request may meet this many new connections that close before the host begins with it.
const GOING: usize = 3;

/// A host and its connections, except the idle ones of HTTP/1.1, which are in the pool.
pub(super) struct Host {
    /// The host's number in its source.
    number: usize,
    source: String,
    settings: Arc<Settings>,
    headers: Arc<OwnHeaders>,
    base: Base,
    connector: Connector,
    http2: Arc<Connections>,
    /// True once the host chose HTTP/1.1. Then no request waits for another's connection to share
    /// it.
    has_http1: AtomicBool,
}

/// The head of a response, and its body.
pub(super) type Answer = (http::response::Parts, Body);

/// The two kinds of bodies, while they arrive.
pub(super) enum IncomingBody {
    Http1(hyper::body::Incoming),
    Http2(h2::RecvStream),
}

/// The error of a request without a response.
pub(super) struct FailedRequest {
    pub(super) failure: Failure,
    pub(super) error: Error,
}

/// How far a request without a response got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Failure {
    /// No connection could be opened.
    NotSent {
        /// True if we waited for another request to open the connection. That request reports the
        /// failure.
        is_known: bool,
    },
    /// The connection ended while it was idle, or is closing. The host hasn't begun with the
    /// request.
    NotBegun,
    /// The connection ended before any byte of the response arrived.
    Lost {
        /// True if another request on the connection has already reported it.
        is_known: bool,
    },
    /// No head arrived in time, or it was invalid.
    NoHead,
    /// Not the host's failure: the request is invalid, or the host had hardly any time to answer.
    Ours,
}

impl Failure {
    /// Returns true if it counts as a failure of the host.
    pub(super) fn is_the_hosts(self) -> bool {
        match self {
            Self::NotBegun | Self::NoHead => true,
            Self::NotSent { is_known } | Self::Lost { is_known } => !is_known,
            Self::Ours => false,
        }
    }
}

impl FailedRequest {
    pub(super) fn ours(error: Error) -> Self {
        Self { failure: Failure::Ours, error }
    }

    fn hint(self, hint: &'static str) -> Self {
        Self { error: self.error.hint(hint), ..self }
    }
}

impl Host {
    /// The host with this number, which may have `most` requests at the same time.
    pub(super) fn new(
        source: &str,
        settings: &Arc<Settings>,
        number: usize,
        headers: Arc<OwnHeaders>,
        tls: Option<TlsConnector>,
        discovery: Option<Arc<Discovery>>,
        most: usize,
    ) -> Self {
        let base = &settings.hosts[number];
        Self {
            number,
            source: source.to_owned(),
            settings: Arc::clone(settings),
            headers,
            base: base.clone(),
            connector: Connector::new(source, settings, base, tls, discovery),
            http2: Arc::new(Connections::new(most, settings.max_age)),
            has_http1: AtomicBool::new(false),
        }
    }

    /// See [`Connections::close_idle`].
    pub(super) fn close_idle(&self, idle_timeout: Duration) {
        self.http2.close_idle(idle_timeout);
    }

    /// Opens a connection, to check that the host can be reached.
    ///
    /// # Errors
    /// 503, or 502 if the host has no allowed address.
    pub(super) async fn reach(&self) -> Result<(), Error> {
        let late = Instant::now() + self.settings.timeouts.connect;
        let connected = self.in_time(late, &AtomicBool::new(false), pin!(self.connect())).await;
        connected.map(drop).map_err(|failed| failed.error)
    }

    /// Sends a request on an existing or a new connection, and waits for the head of the response.
    pub(super) async fn ask(
        &self,
        place: &Lease<Box<Http1>, HostSet>,
        call: &Call,
        begun: Instant,
    ) -> Result<Answer, FailedRequest> {
        let mut new = 0;
        let mut is_idle_lost = false;
        loop {
            let idle = if is_idle_lost { self.shared() } else { self.idle(place, call) };
            let was_idle = matches!(idle, Some(Carrier::Http1(_)));
            let carrier = match idle {
                Some(carrier) => carrier,
                None => {
                    new += 1;
                    place.make_room();
                    let late = begun + self.settings.timeouts.first_byte;
                    let waits = AtomicBool::new(false);
                    // Boxed, because few requests open a connection, and all would have room for
                    // its state.
                    let connected = Box::pin(self.connect_or_share(place, &waits));
                    self.in_time(late, &waits, connected).await?
                }
            };
            match self.ask_on(carrier, call, begun).await {
                // It ended while it was idle, which isn't a failure of this request. A shared
                // connection had other requests, so there it may be one.
                Err(FailedRequest { failure: Failure::Lost { .. }, .. }) if was_idle => is_idle_lost = true,
                Err(FailedRequest { failure: Failure::NotBegun, .. }) if new < GOING => {}
                answered => return answered,
            }
        }
    }

    /// A stream of a shared connection.
    fn shared(&self) -> Option<Carrier> {
        self.http2.take().map(Carrier::Http2)
    }

    /// An existing connection. One of HTTP/1.1 may end at any time while it's idle, and then we
    /// can't know if a request arrived. So a request that may not be sent again gets a new
    /// connection.
    fn idle(&self, place: &Lease<Box<Http1>, HostSet>, call: &Call) -> Option<Carrier> {
        if let Some(carrier) = self.shared() {
            return Some(carrier);
        }
        if !call.is_repeatable() {
            return None;
        }
        let next = || {
            place.take_idle_among(
                |connection| connection.host() == self.number,
                |connection| connection.is_home(),
            )
        };
        while let Some(mut connection) = next() {
            if self.is_young(&connection) && connection.is_ready() {
                return Some(Carrier::Http1(connection));
            }
        }
        None
    }

    fn is_young(&self, connection: &Http1) -> bool {
        self.settings.max_age.is_none_or(|most| connection.age() < most)
    }

    /// Opens a new connection. If requests may share it and another request is already opening one,
    /// waits for that one and sets `waits`.
    async fn connect_or_share(
        &self,
        place: &Lease<Box<Http1>, HostSet>,
        waits: &AtomicBool,
    ) -> Result<Carrier, Error> {
        let is_shared = match self.settings.protocol {
            Protocol::Http1 => false,
            Protocol::Http2 => true,
            Protocol::Auto => self.base.tls && !self.has_http1.load(Ordering::Relaxed),
        };
        let _opening = match self.http2.opening.try_lock() {
            _ if !is_shared => None,
            Ok(opening) => Some(opening),
            Err(_) => {
                waits.store(true, Ordering::Relaxed);
                Some(self.http2.opening.lock().await)
            }
        };
        if is_shared && let Some(carrier) = self.shared() {
            return Ok(carrier);
        }
        let carrier = self.connect().await?;
        place.opened();
        Ok(carrier)
    }

    /// Waits for a connection, at most for `timeout.connect`, also if another request opens it.
    /// Never waits beyond `late`, when the head of the response is due.
    async fn in_time(
        &self,
        late: Instant,
        waits: &AtomicBool,
        connected: impl Future<Output = Result<Carrier, Error>> + Unpin,
    ) -> Result<Carrier, FailedRequest> {
        let bound = self.settings.timeouts.connect.min(late.saturating_duration_since(Instant::now()));
        let late = |_| Err(self.unreachable(&format!("no connection within {bound:?}")));
        let connected = timeout(bound, connected).await.unwrap_or_else(late);
        connected.map_err(|error| {
            let is_known = waits.load(Ordering::Relaxed);
            FailedRequest { failure: Failure::NotSent { is_known }, error }
        })
    }

    async fn connect(&self) -> Result<Carrier, Error> {
        let opened = self.connector.open().await?;
        match opened.version {
            Version::Http1 => {
                self.has_http1.store(true, Ordering::Relaxed);
                let opened = Http1::new(opened.io, opened.kernel_reads, self.number).await;
                opened
                    .map(|opened| Carrier::Http1(Box::new(opened)))
                    .map_err(|cause| self.unreachable(&cause))
            }
            Version::Http2 => {
                let opened = self.http2.open(opened.io).await;
                opened.map(Carrier::Http2).map_err(|cause| self.unreachable(&cause))
            }
        }
    }

    async fn ask_on(
        &self,
        mut carrier: Carrier,
        call: &Call,
        begun: Instant,
    ) -> Result<Answer, FailedRequest> {
        let (bound, asked) = (self.settings.timeouts.first_byte, Instant::now());
        let answer = async {
            match &mut carrier {
                Carrier::Http1(connection) => {
                    let sent = connection.send(self.http1_request(call).map_err(FailedRequest::ours)?).await;
                    sent.map(|answer| answer.map(IncomingBody::Http1)).map_err(|cause| {
                        let failed = self.failed(failure_of_http1(&cause), &cause);
                        if cause.is_parse_too_large() { failed.hint(error::LONG_HEAD) } else { failed }
                    })
                }
                Carrier::Http2(slot) => {
                    slot.ready().await.map_err(|cause| self.failed(Failure::NotBegun, &cause))?;
                    let request = self.http2_request(call).map_err(FailedRequest::ours)?;
                    let sent = slot.send(request, call.body.as_deref()).await;
                    sent.map(|answer| answer.map(IncomingBody::Http2))
                        .map_err(|(failure, cause)| self.failed(failure, &cause))
                }
            }
        };
        let answer = tokio::time::timeout_at((begun + bound).into(), answer).await;
        let Ok(answer) = answer else {
            if let Carrier::Http2(slot) = &carrier {
                slot.retire();
            }
            let error = error::no_answer(&self.source, bound).cause(self.base.host_and_port());
            // The request may have lost most of its time at another host.
            let failure = if asked.elapsed() < bound / 2 { Failure::Ours } else { Failure::NoHead };
            return Err(FailedRequest { failure, error });
        };
        let (head, incoming) = answer?.into_parts();
        Ok((head, Body { carrier: Some(carrier), incoming }))
    }

    fn unreachable(&self, cause: &dyn std::fmt::Display) -> Error {
        error::unreachable(&self.source, format!("{}: {cause}", self.base.host_and_port()))
    }

    fn failed(&self, failure: Failure, cause: &dyn std::fmt::Display) -> FailedRequest {
        let error = error::broken(&self.source, format!("{}: {cause}", self.base.host_and_port()));
        FailedRequest { failure, error }
    }

    /// The path and query. They begin with a slash, because a link may lead to the prefix itself.
    fn target(&self, call: &Call) -> String {
        let target = format!("{}{}", self.base.prefix, call.target);
        if target.starts_with('/') { target } else { format!("/{target}") }
    }

    fn http1_request(&self, call: &Call) -> Result<Request<String>, Error> {
        let mut request = Request::new(call.body.clone().unwrap_or_default());
        *request.method_mut() = call.method.clone();
        *request.uri_mut() = self.target(call).parse().map_err(bad_target)?;
        *request.headers_mut() = self.headers(call);
        let host = self
            .base
            .authority()
            .parse()
            .map_err(|_| Error::endpoint("the host isn't a valid header value"))?;
        request.headers_mut().insert(header::HOST, host);
        Ok(request)
    }

    fn http2_request(&self, call: &Call) -> Result<Request<()>, Error> {
        let base = &self.base;
        let uri = Uri::builder().scheme(if base.tls { "https" } else { "http" }).authority(base.authority());
        let uri = uri.path_and_query(self.target(call)).build();
        let mut request = Request::new(());
        *request.method_mut() = call.method.clone();
        *request.version_mut() = http::Version::HTTP_2;
        *request.uri_mut() = uri.map_err(bad_target)?;
        *request.headers_mut() = self.headers(call);
        Ok(request)
    }

    /// The header fields of a request. Those of the source are set last, so they can't be replaced.
    fn headers(&self, call: &Call) -> HeaderMap {
        let mut headers = call.headers.clone();
        for (name, value) in &*self.headers.current() {
            headers.insert(name, value.clone());
        }
        headers
    }
}

/// Tells if the connection was lost before any byte of a response arrived, or if the response is
/// invalid.
fn failure_of_http1(error: &hyper::Error) -> Failure {
    let is_io = error.source().and_then(|cause| cause.downcast_ref::<std::io::Error>()).is_some();
    match is_io || error.is_canceled() || error.is_closed() || error.is_incomplete_message() {
        true => Failure::Lost { is_known: false },
        false => Failure::NoHead,
    }
}

fn bad_target(cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Error {
    Error::endpoint("the request of this endpoint isn't a valid URL").cause(cause)
}
