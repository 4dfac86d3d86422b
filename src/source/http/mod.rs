//! HTTP services: upstreams, which are asked on behalf of a request.
//!
//! | file | what is in it |
//! |---|---|
//! | [`url`], [`settings`] | where an upstream is, and how it is asked |
//! | [`address`] | which addresses it may have |
//! | [`connect`] | names, addresses, TCP, TLS |
//! | [`http1`], [`http2`] | connections, and answers on them |
//! | [`retry`] | which requests are sent again |
//! | [`reply`] | an answer whose body is polled, and what holds its place |
//! | [`template`] | requests made of parameters, each value escaped for its place |
//! | [`fields`] | the header fields that are handed on, and those that are not |
//! | [`calls`] | several requests at a time, whose replies are rows |
//! | [`per_row`] | requests for the rows of a statement |
//! | [`pointer`] | the part of a reply that is wanted |
//!
//! A [`Place`] of the pool is the right to one request in flight. Over HTTP/1.1 it is a connection too; over
//! HTTP/2 requests share connections. Whoever has a place asks at once: no library's queue or limit stands behind the pool, which
//! is why it is our own and not that of hyper-util's client.

pub mod address;
pub mod calls;
pub mod fields;
pub mod per_row;
pub mod pointer;
pub mod settings;
pub mod template;
pub mod url;

mod connect;
mod error;
mod http1;
mod http2;
mod reply;
mod retry;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use http::{HeaderMap, Method, Request, Uri, header};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

pub use self::reply::Reply;
use self::reply::{Body, Carrier};
pub use self::retry::Retries;
pub use self::settings::{Protocol, Settings, Timeouts};

use self::connect::{Connector, Version};
use self::http1::Http1;
use self::http2::Connections;
use self::retry::Budget;
use crate::Error;
use crate::pool::{Place, Pool};
use crate::source::SourceConfig;

/// An HTTP service with its pool.
#[derive(Clone)]
pub struct Source {
    shared: Arc<Inner>,
    /// What the upstream is told of the request on whose behalf it is asked.
    told: Arc<HeaderMap>,
}

/// Its name alone.
impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Source").field(&self.shared.name).finish()
    }
}

struct Inner {
    name: String,
    settings: Arc<Settings>,
    idle_timeout: Duration,
    pool: Pool<Box<Http1>>,
    connector: Connector,
    http2: Arc<Connections>,
    /// Whether the upstream has chosen HTTP/1.1: then nobody waits for another's connection to share it.
    has_http1: AtomicBool,
    /// `None`: none is sent again.
    retries: Option<Budget>,
}

/// One request, as it is sent to whichever connection.
#[derive(Debug, Clone)]
pub struct Call {
    /// Its method.
    pub method: Method,
    /// Its path and query, behind the source's own prefix.
    pub target: String,
    /// Its header fields.
    pub headers: HeaderMap,
}

/// What is behind an answer: how long it was waited for.
#[derive(Debug, Clone, Copy)]
pub struct Waited {
    /// For a place.
    pub pool: Duration,
    /// When the request was begun.
    pub begun: Instant,
}

/// Why an answer did not come.
enum Failed {
    /// The connection had ended while it was idle, or takes no more requests: this one was not sent.
    Stale(Error),
    /// The connection ended before anything of it came, or there was none.
    Lost(Error),
    /// For another reason.
    Else(Error),
}

/// The head of an answer, and its body.
type Answer = (http::response::Parts, Body);

impl Source {
    /// The source of a configuration. Opens nothing.
    ///
    /// # Errors
    /// The root certificates cannot be read.
    pub fn open(config: &SourceConfig, settings: &Settings) -> Result<Self, Error> {
        let settings = Arc::new(settings.clone());
        let shared = Inner {
            name: config.name.clone(),
            idle_timeout: config.pool.idle_timeout,
            pool: Pool::new(&config.name, config.pool.clone()),
            connector: Connector::new(&config.name, &settings)?,
            http2: Arc::new(Connections::new(config.pool.max, settings.max_age)),
            has_http1: AtomicBool::new(false),
            retries: settings.retries.clone().map(Budget::new),
            settings,
        };
        Ok(Self { shared: Arc::new(shared), told: Arc::default() })
    }

    /// The same source, asked on behalf of a request of which it is [`told`](fields::told).
    #[must_use]
    pub fn on_behalf_of(&self, told: HeaderMap) -> Self {
        Self { told: Arc::new(told), ..self.clone() }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// Opens a connection and keeps it, to see whether that can be done.
    ///
    /// # Errors
    /// See [`Source::send`].
    pub async fn reach(&self) -> Result<(), Error> {
        let place = self.shared.pool.acquire().await?;
        match self.in_time(self.connect()).await {
            Ok(Carrier::Http1(connection)) => place.give_back(connection),
            Ok(Carrier::Http2(_)) => {}
            Err(Failed::Stale(error) | Failed::Lost(error) | Failed::Else(error)) => return Err(error),
        }
        Ok(())
    }

    /// Closes connections that have been idle for long; ends with the pool.
    pub fn reap(&self) -> impl Future<Output = ()> + use<> {
        let (http1, shared) = (self.shared.pool.reap(), Arc::downgrade(&self.shared));
        let period = (self.shared.idle_timeout / 2).max(Duration::from_millis(50));
        let http2 = async move {
            loop {
                tokio::time::sleep(period).await;
                let Some(shared) = shared.upgrade() else { return };
                shared.http2.close_idle(shared.idle_timeout);
            }
        };
        async move {
            tokio::join!(http1, http2);
        }
    }

    /// What is known of the pool.
    pub(crate) fn pool_stats(&self) -> crate::pool::Stats {
        self.shared.pool.stats()
    }

    /// See [`super::Source::turn`].
    pub async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        self.shared.pool.turn().await
    }

    /// See [`super::Source::acquire_timeout`].
    pub fn acquire_timeout(&self) -> Duration {
        self.shared.pool.acquire_timeout()
    }

    /// How long an answer may take, to its last byte.
    pub(crate) fn total(&self) -> Option<Duration> {
        self.shared.settings.timeouts.total
    }

    /// What the pool holds.
    pub fn usage(&self) -> crate::pool::Usage {
        self.shared.pool.usage()
    }

    /// Sends a request and waits for the head of its answer.
    ///
    /// # Errors
    /// The pool's (503, 504); 503 when no connection can be opened, 502 where none may be; 504 when no head comes in time; 502 when
    /// what comes is no answer, or one that leads elsewhere.
    pub async fn send(&self, call: &Call) -> Result<(Reply, Waited), Error> {
        let entered = Instant::now();
        let place = self.shared.pool.acquire().await?;
        let waited = Waited { pool: entered.elapsed(), begun: Instant::now() };
        let (head, body) = self.ask_again(&place, call, waited.begun).await?;
        Ok((Reply::new(head, body, place, self, waited.begun)?, waited))
    }

    /// Asks, and asks again where that can help and the source may.
    async fn ask_again(
        &self,
        place: &Place<Box<Http1>>,
        call: &Call,
        begun: Instant,
    ) -> Result<Answer, Error> {
        let retries = self.shared.retries.as_ref();
        if let Some(retries) = retries {
            retries.earn();
        }
        let late = begun + self.shared.settings.timeouts.first_byte;
        let mut before = 0;
        loop {
            let error = match self.ask_once(place, call, begun).await {
                Ok(answer) => return Ok(answer),
                Err(Failed::Else(error)) => return Err(error),
                Err(Failed::Stale(error) | Failed::Lost(error)) => error,
            };
            match retries.and_then(|retries| retries.spend(before)) {
                Some(wait) if Instant::now() + wait < late => tokio::time::sleep(wait).await,
                _ => return Err(error),
            }
            before += 1;
        }
    }

    /// Asks on a connection that is there, or on a new one.
    async fn ask_once(
        &self,
        place: &Place<Box<Http1>>,
        call: &Call,
        begun: Instant,
    ) -> Result<Answer, Failed> {
        while let Some(carrier) = self.idle(place) {
            let was_idle = matches!(carrier, Carrier::Http1(_));
            match self.ask(carrier, call, begun).await {
                Err(Failed::Stale(_)) => {}
                // It ended while it was idle, which is no failure of this request. Others were on one that is shared: then it may be.
                Err(Failed::Lost(_)) if was_idle => break,
                answered => return answered,
            }
        }
        self.ask(self.in_time(self.connect_or_share()).await?, call, begun).await
    }

    /// A connection that is there already.
    fn idle(&self, place: &Place<Box<Http1>>) -> Option<Carrier> {
        if let Some(slot) = self.shared.http2.take() {
            return Some(Carrier::Http2(slot));
        }
        while let Some(mut connection) = place.take_idle_of(|connection| connection.is_home()) {
            if self.is_young(&connection) && connection.is_ready() {
                return Some(Carrier::Http1(connection));
            }
        }
        None
    }

    fn is_young(&self, connection: &Http1) -> bool {
        self.shared.settings.max_age.is_none_or(|most| connection.age() < most)
    }

    /// A new connection; or, where it may be one that requests share, one that another request opens meanwhile.
    async fn connect_or_share(&self) -> Result<Carrier, Error> {
        let settings = &self.shared.settings;
        let is_shared = match settings.protocol {
            Protocol::Http1 => false,
            Protocol::Http2 => true,
            Protocol::Auto => settings.base.tls && !self.shared.has_http1.load(Ordering::Relaxed),
        };
        if !is_shared {
            return self.connect().await;
        }
        let _opening = self.shared.http2.opening.lock().await;
        match self.shared.http2.take() {
            Some(slot) => Ok(Carrier::Http2(slot)),
            None => self.connect().await,
        }
    }

    /// Waits for a connection, within `timeout.connect`: also where another request opens it.
    async fn in_time(
        &self,
        connected: impl Future<Output = Result<Carrier, Error>>,
    ) -> Result<Carrier, Failed> {
        let bound = self.shared.settings.timeouts.connect;
        let late = |_| Err(error::unreachable(self.name(), format!("no connection within {bound:?}")));
        // An upstream that has no address which is allowed has none a moment later.
        timeout(bound, connected).await.unwrap_or_else(late).map_err(|error| match error.retry_delay() {
            Some(_) => Failed::Lost(error),
            None => Failed::Else(error),
        })
    }

    async fn connect(&self) -> Result<Carrier, Error> {
        let opened = self.shared.connector.open().await?;
        self.shared.pool.opened();
        match opened.version {
            Version::Http1 => {
                self.shared.has_http1.store(true, Ordering::Relaxed);
                let opened = Http1::new(opened.io).await;
                opened
                    .map(|opened| Carrier::Http1(Box::new(opened)))
                    .map_err(|cause| error::unreachable(self.name(), cause))
            }
            Version::Http2 => {
                let opened = self.shared.http2.open(opened.io).await;
                opened.map(Carrier::Http2).map_err(|cause| error::unreachable(self.name(), cause))
            }
        }
    }

    /// Sends a request on a connection.
    async fn ask(&self, mut carrier: Carrier, call: &Call, begun: Instant) -> Result<Answer, Failed> {
        let bound = self.shared.settings.timeouts.first_byte;
        let answer = async {
            match &mut carrier {
                Carrier::Http1(connection) => {
                    let sent = connection.send(self.http1_request(call).map_err(Failed::Else)?).await;
                    sent.map(|answer| answer.map(Incoming::Http1)).map_err(|cause| {
                        let ended = cause.is_canceled() || cause.is_closed() || cause.is_incomplete_message();
                        self.failed(ended || is_lost(&cause), cause)
                    })
                }
                Carrier::Http2(slot) => {
                    let stale = |cause| Failed::Stale(error::broken(self.name(), cause));
                    slot.ready().await.map_err(stale)?;
                    let sent = slot.send(self.http2_request(call).map_err(Failed::Else)?).await;
                    sent.map(|answer| answer.map(Incoming::Http2))
                        .map_err(|cause| self.failed(http2::is_untouched(&cause), cause))
                }
            }
        };
        let answer = tokio::time::timeout_at((begun + bound).into(), answer).await;
        let Ok(answer) = answer else {
            if let Carrier::Http2(slot) = &carrier {
                slot.retire();
            }
            return Err(Failed::Else(error::no_answer(self.name(), bound)));
        };
        let answer = answer?;
        let (head, incoming) = answer.into_parts();
        Ok((head, Body { carrier: Some(carrier), incoming }))
    }

    fn failed(&self, is_lost: bool, cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Failed {
        let error = error::broken(self.name(), cause);
        if is_lost { Failed::Lost(error) } else { Failed::Else(error) }
    }

    fn http1_request(&self, call: &Call) -> Result<Request<String>, Error> {
        let base = &self.shared.settings.base;
        let mut request = Request::new(String::new());
        *request.method_mut() = call.method.clone();
        *request.uri_mut() = format!("{}{}", base.prefix, call.target).parse().map_err(bad_target)?;
        *request.headers_mut() = self.headers(call);
        let host = base.authority().parse().map_err(|_| Error::endpoint("the host is no header value"))?;
        request.headers_mut().insert(header::HOST, host);
        Ok(request)
    }

    fn http2_request(&self, call: &Call) -> Result<Request<()>, Error> {
        let base = &self.shared.settings.base;
        let uri = Uri::builder().scheme(if base.tls { "https" } else { "http" }).authority(base.authority());
        let uri = uri.path_and_query(format!("{}{}", base.prefix, call.target)).build();
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
        for (name, value) in &self.shared.settings.headers {
            headers.insert(name, value.clone());
        }
        headers
    }
}

/// The two kinds of bodies, while they come.
enum Incoming {
    Http1(hyper::body::Incoming),
    Http2(h2::RecvStream),
}

/// Whether a connection was lost before anything of an answer came.
fn is_lost(error: &hyper::Error) -> bool {
    let cause = std::error::Error::source(error);
    cause.and_then(|cause| cause.downcast_ref::<std::io::Error>()).is_some()
}

fn bad_target(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::endpoint("the request of this endpoint is no URL").cause(cause)
}

/// What an idle connection takes, in bytes.
pub(super) const IDLE: usize = http1::IDLE;

/// What one request in flight may take whose reply is passed on as it comes.
pub(super) fn window() -> usize {
    http1::IDLE + http2::WINDOW as usize
}
