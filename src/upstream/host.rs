//! One host of a source: connections to it, and what is asked on them.

use std::error::Error as StdError;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use http::{HeaderMap, Request, Uri, header};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::connect::{Connector, Version};
use super::discovery::Discovery;
use super::hosts::HostSet;
use super::http1::Http1;
use super::http2::Connections;
use super::reply::{Body, Carrier};
use super::settings::{Protocol, Settings};
use super::url::Base;
use super::{Call, error};
use crate::Error;
use crate::pool::Lease;

/// How many new connections a request may meet that go away before it was begun with.
const GOING: usize = 3;

/// A host, and its connections but for those of HTTP/1.1 that are idle, which are the pool's.
pub(super) struct Host {
    /// Among those of its source.
    number: usize,
    source: String,
    settings: Arc<Settings>,
    base: Base,
    connector: Connector,
    http2: Arc<Connections>,
    /// Whether it has chosen HTTP/1.1: then nobody waits for another's connection to share it.
    has_http1: AtomicBool,
}

/// The head of an answer, and its body.
pub(super) type Answer = (http::response::Parts, Body);

/// The two kinds of bodies, while they come.
pub(super) enum Incoming {
    Http1(hyper::body::Incoming),
    Http2(h2::RecvStream),
}

/// Why an answer did not come.
pub(super) struct Failed {
    pub(super) failure: Failure,
    pub(super) error: Error,
}

/// How far a request came that was not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Failure {
    /// No connection could be opened.
    NotSent {
        /// Whether another request was waited for that opens one, and tells of it.
        is_known: bool,
    },
    /// The connection had ended while it was idle, or goes away: the host has not begun with the
    /// request.
    NotBegun,
    /// The connection ended before anything of the answer came.
    Lost {
        /// Whether other requests on it have reported that already.
        is_known: bool,
    },
    /// No head came in time, or what came was none.
    NoHead,
    /// That is no matter of the host: the request is none, or was given hardly any time there.
    Ours,
}

impl Failure {
    /// Whether it is one of the host.
    pub(super) fn is_the_hosts(self) -> bool {
        match self {
            Self::NotBegun | Self::NoHead => true,
            Self::NotSent { is_known } | Self::Lost { is_known } => !is_known,
            Self::Ours => false,
        }
    }

    /// Whether the host has done nothing for the request.
    pub(super) fn is_untouched(self) -> bool {
        matches!(self, Self::NotSent { .. } | Self::NotBegun)
    }
}

impl Failed {
    pub(super) fn ours(error: Error) -> Self {
        Self { failure: Failure::Ours, error }
    }
}

impl Host {
    /// The host of this number, which has `most` requests at a time.
    pub(super) fn new(
        source: &str,
        settings: &Arc<Settings>,
        number: usize,
        (tls, discovery): (Option<TlsConnector>, Option<Arc<Discovery>>),
        most: usize,
    ) -> Self {
        let base = &settings.hosts[number];
        Self {
            number,
            source: source.to_owned(),
            settings: Arc::clone(settings),
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

    /// Opens a connection, to see whether that can be done.
    ///
    /// # Errors
    /// 503, or 502 where none may be opened.
    pub(super) async fn reach(&self) -> Result<(), Error> {
        let late = Instant::now() + self.settings.timeouts.connect;
        let connected = self.in_time(late, &AtomicBool::new(false), pin!(self.connect())).await;
        connected.map(drop).map_err(|failed| failed.error)
    }

    /// Sends a request on a connection that is there, or on a new one, and waits for the head of
    /// its answer.
    pub(super) async fn ask(
        &self,
        place: &Lease<Box<Http1>, HostSet>,
        call: &Call,
        begun: Instant,
    ) -> Result<Answer, Failed> {
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
                    // Boxed: few requests open a connection, and all would carry what that needs.
                    let connected = Box::pin(self.connect_or_share(place, &waits));
                    self.in_time(late, &waits, connected).await?
                }
            };
            match self.ask_on(carrier, call, begun).await {
                // It ended while it was idle, which is no failure of this request. Others were on
                // one that is shared: then it may be.
                Err(Failed { failure: Failure::Lost { .. }, .. }) if was_idle => is_idle_lost = true,
                Err(Failed { failure: Failure::NotBegun, .. }) if new < GOING => {}
                answered => return answered,
            }
        }
    }

    /// A stream of a connection that requests share.
    fn shared(&self) -> Option<Carrier> {
        self.http2.take().map(Carrier::Http2)
    }

    /// A connection that is there already. One of HTTP/1.1 may end at any time while it is idle,
    /// and then nobody knows whether a request has come: one that may not be sent again has a new
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

    /// A new connection; or, where it may be one that requests share, one that another request
    /// opens meanwhile, which it then `waits` for.
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

    /// Waits for a connection, within `timeout.connect`, also where another request opens it; and
    /// no longer than the head of the answer may take, which is `late` then.
    async fn in_time(
        &self,
        late: Instant,
        waits: &AtomicBool,
        connected: impl Future<Output = Result<Carrier, Error>> + Unpin,
    ) -> Result<Carrier, Failed> {
        let bound = self.settings.timeouts.connect.min(late.saturating_duration_since(Instant::now()));
        let late = |_| Err(self.unreachable(&format!("no connection within {bound:?}")));
        let connected = timeout(bound, connected).await.unwrap_or_else(late);
        connected.map_err(|error| {
            let is_known = waits.load(Ordering::Relaxed);
            Failed { failure: Failure::NotSent { is_known }, error }
        })
    }

    async fn connect(&self) -> Result<Carrier, Error> {
        let opened = self.connector.open().await?;
        match opened.version {
            Version::Http1 => {
                self.has_http1.store(true, Ordering::Relaxed);
                let opened = Http1::new(opened.io, opened.looks, self.number).await;
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

    /// Sends a request on a connection.
    async fn ask_on(&self, mut carrier: Carrier, call: &Call, begun: Instant) -> Result<Answer, Failed> {
        let (bound, asked) = (self.settings.timeouts.first_byte, Instant::now());
        let answer = async {
            match &mut carrier {
                Carrier::Http1(connection) => {
                    let sent = connection.send(self.http1_request(call).map_err(Failed::ours)?).await;
                    sent.map(|answer| answer.map(Incoming::Http1))
                        .map_err(|cause| self.failed(failure_of_http1(&cause), &cause))
                }
                Carrier::Http2(slot) => {
                    slot.ready().await.map_err(|cause| self.failed(Failure::NotBegun, &cause))?;
                    let request = self.http2_request(call).map_err(Failed::ours)?;
                    let sent = slot.send(request, call.body.as_deref()).await;
                    sent.map(|answer| answer.map(Incoming::Http2))
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
            // A request that comes from another host may have lost its time there.
            let failure = if asked.elapsed() < bound / 2 { Failure::Ours } else { Failure::NoHead };
            return Err(Failed { failure, error });
        };
        let (head, incoming) = answer?.into_parts();
        Ok((head, Body { carrier: Some(carrier), incoming }))
    }

    fn unreachable(&self, cause: &dyn std::fmt::Display) -> Error {
        error::unreachable(&self.source, format!("{}: {cause}", self.base.host_and_port()))
    }

    fn failed(&self, failure: Failure, cause: &dyn std::fmt::Display) -> Failed {
        let error = error::broken(&self.source, format!("{}: {cause}", self.base.host_and_port()));
        Failed { failure, error }
    }

    /// Path and query, which begin with a slash: a link may lead to the prefix itself.
    fn target(&self, call: &Call) -> String {
        let target = format!("{}{}", self.base.prefix, call.target);
        if target.starts_with('/') { target } else { format!("/{target}") }
    }

    fn http1_request(&self, call: &Call) -> Result<Request<String>, Error> {
        let mut request = Request::new(call.body.clone().unwrap_or_default());
        *request.method_mut() = call.method.clone();
        *request.uri_mut() = self.target(call).parse().map_err(bad_target)?;
        *request.headers_mut() = self.headers(call);
        let host =
            self.base.authority().parse().map_err(|_| Error::endpoint("the host is no header value"))?;
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

    /// The fields of a request; those of the source come last, and are never another's.
    fn headers(&self, call: &Call) -> HeaderMap {
        let mut headers = call.headers.clone();
        for (name, value) in &self.settings.headers {
            headers.insert(name, value.clone());
        }
        headers
    }
}

/// Whether the connection was lost before anything of an answer came, or what came is none.
fn failure_of_http1(error: &hyper::Error) -> Failure {
    let is_io = error.source().and_then(|cause| cause.downcast_ref::<std::io::Error>()).is_some();
    match is_io || error.is_canceled() || error.is_closed() || error.is_incomplete_message() {
        true => Failure::Lost { is_known: false },
        false => Failure::NoHead,
    }
}

fn bad_target(cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Error {
    Error::endpoint("the request of this endpoint is no URL").cause(cause)
}
