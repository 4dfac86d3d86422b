//! Upstreams: the HTTP services that we call on behalf of a request, and the JSON of their replies.
//!
//! JSON is read piece by piece: a [`Splitter`](split::Splitter) finds the elements of one list in it,
//! however large the reply is.
//!
//! ```
//! use rowstream_upstream::pointer::Pointer;
//! use rowstream_upstream::split::{Layout, Splitter};
//!
//! let rows = Pointer::parse("/_embedded/films").expect("a pointer");
//! let mut splitter = Splitter::new(&rows, [], 1 << 20);
//! splitter.begin(Layout::Document);
//! let mut films = Vec::new();
//! for chunk in [&br#"{"total": 2, "_embedded": {"films": [{"id": 1}, {"i"#[..], br#"d": 2}]}}"#] {
//!     splitter.push(chunk.into());
//!     while splitter.advance()? {
//!         films.push(splitter.element()?.to_owned());
//!     }
//! }
//! assert!(!splitter.finish()?);
//! assert_eq!(films, [r#"{"id": 1}"#, r#"{"id": 2}"#]);
//! # Ok::<(), rowstream_upstream::split::SplitError>(())
//! ```
//!
//! | file | contents |
//! |---|---|
//! | [`url`], [`settings`] | the URL of an upstream, and how we call it |
//! | [`hosts`] | the choice of a host for a request |
//! | [`host`] | one host: its connections, and the requests on them |
//! | [`discovery`] | the instances of an upstream, from Consul or SRV records |
//! | [`address`] | the addresses that an upstream may have |
//! | [`connect`] | names, addresses, TCP, TLS |
//! | [`http1`], [`http2`] | connections, and the responses on them |
//! | [`checked_socket`] | a socket that can be checked for unexpected bytes |
//! | [`retry`] | the requests that are sent again |
//! | [`reply`] | a response whose body is polled, and which keeps its slot until the end |
//! | [`template`] | requests built from parameters, with each value escaped for its position |
//! | [`own_headers`] | the header fields of every request, whose files may change |
//! | [`fields`] | the header fields that are passed on, and those that aren't |
//! | [`payload`] | bodies of requests, built from parameters |
//! | [`split`], [`mod@pointer`] | the rows of a document, while it arrives |
//! | [`json_columns`], [`by_column`] | the columns of a row |
//! | [`error`] | failures, and the errors that users see |
//!
//! A [`RequestLease`] of the pool is the right to one request in flight at one host. Over HTTP/1.1
//! it also has a connection; over HTTP/2, requests share connections. A request with a slot is sent
//! at once: no library has a queue or a limit of its own behind the pool. That's why we have our
//! own pool and don't use the one in hyper-util's client. A connection only serves requests to its
//! own host.

pub mod address;
pub mod by_column;
pub mod discovery;
pub mod fields;
pub mod json_columns;
pub mod payload;
pub mod pointer;
pub mod settings;
pub mod split;
pub mod template;
pub mod url;

mod checked_socket;
mod connect;
mod error;
mod host;
mod hosts;
mod http1;
mod http2;
mod own_headers;
mod reply;
mod retry;

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{HeaderMap, Method};
use tokio::sync::OwnedSemaphorePermit;

pub use self::hosts::{Balance, MOST as MOST_HOSTS};
pub use self::reply::Reply;
pub use self::retry::Retries;
pub use self::settings::{FileStamp, Protocol, Settings, Timeouts, TlsFiles};
pub use rowstream_core::pool::Health;

use rowstream_core::Error;
use rowstream_core::client::Client;
use rowstream_core::pool::{self, Patience, Pool};
use rowstream_core::settings::SourceSettings;

use self::connect::Connector;
use self::discovery::{Discovery, DiscoveryStats};
use self::host::{Answer, FailedRequest, Host};
use self::hosts::{Failover, HostSet, Hosts, TriedHosts};
use self::http1::Http1;
use self::own_headers::OwnHeaders;
use self::retry::{Budget, NextAttempt};

/// The right to use a slot of the pool at one host.
type RequestLease = hosts::Lease<Box<Http1>>;
/// The requests of one response, which the pool admits together.
pub struct Group(hosts::HostGroup<Box<Http1>>);

impl Group {
    /// True if one of the requests has had a slot.
    pub fn has_begun(&self) -> bool {
        self.0.has_begun()
    }

    /// Records that the response has begun: from now on its requests wait without a time limit.
    pub fn begin(&self) {
        self.0.begin();
    }

    /// Sets the number of requests at a time to `width`. If it's lower than before, other requests
    /// may use the difference.
    pub fn resize(&self, width: usize) {
        self.0.resize(width);
    }
}

/// An HTTP service with its pool.
#[derive(Clone)]
pub struct Source {
    shared: Arc<SourceState>,
    /// The fields that tell the upstream about the client's request.
    forwarded: Arc<HeaderMap>,
    /// The client of that request.
    client: Client,
}

/// Shows only the name.
impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Source").field(&self.shared.name).finish()
    }
}

struct SourceState {
    name: String,
    settings: Arc<Settings>,
    headers: Arc<OwnHeaders>,
    idle_timeout: Duration,
    /// Chooses the host of a request.
    balance: Hosts<Box<Http1>>,
    /// The hosts, with the same numbers as in `balance`.
    hosts: Vec<Host>,
    /// `None`: requests are never sent again.
    retries: Option<Budget>,
    /// Finds the addresses of the only host. `None`: its URL has the address.
    discovery: Option<Arc<Discovery>>,
}

/// A request, independent of the connection that it's sent on.
#[derive(Debug, Clone)]
pub struct Call {
    /// The request's method.
    pub method: Method,
    /// The path and query, without the source's own prefix.
    pub target: String,
    /// The header fields.
    pub headers: HeaderMap,
    /// The body, if there is one.
    pub body: Option<String>,
}

impl Call {
    /// Returns true if the request may be sent again when we don't know if it arrived (RFC 9110,
    /// section 9.2.2).
    fn is_repeatable(&self) -> bool {
        self.method.is_idempotent()
    }
}

/// The wait before a response.
#[derive(Debug, Clone, Copy)]
pub struct WaitTimes {
    /// The wait for a slot.
    pub pool: Duration,
    /// The time when the request was sent.
    pub begun: Instant,
}

impl Source {
    /// Opens a source of the configuration, but no connection.
    ///
    /// # Errors
    /// A TLS file can't be read.
    pub fn open(config: &SourceSettings, settings: &Settings) -> Result<Self, Error> {
        let settings = Arc::new(settings.clone());
        let names = settings.hosts.iter().map(url::Base::host_and_port).collect();
        let tls = Connector::tls(&config.name, &settings)?;
        let most = settings.max_per_host.map_or(config.pool.max, |most| most.min(config.pool.max));
        let discovery = settings.discover.as_ref().map(|discover| Discovery::new(&config.name, discover));
        let discovery = discovery.map(Arc::new);
        let headers = Arc::new(OwnHeaders::new(&config.name, &settings));
        let host = |number| {
            let (tls, discovery, headers) = (tls.clone(), discovery.clone(), Arc::clone(&headers));
            Host::new(&config.name, &settings, number, headers, tls, discovery, most)
        };
        let shared = SourceState {
            name: config.name.clone(),
            idle_timeout: config.pool.idle_timeout,
            balance: Hosts::new(
                &config.name,
                config.pool.clone(),
                names,
                settings.balance,
                settings.max_per_host,
                settings.health.as_ref(),
                settings.timeouts.connect.saturating_add(settings.timeouts.first_byte),
            ),
            hosts: (0..settings.hosts.len()).map(host).collect(),
            retries: settings.retries.clone().map(Budget::new),
            settings,
            headers,
            discovery,
        };
        Ok(Self { shared: Arc::new(shared), forwarded: Arc::default(), client: Client::default() })
    }

    /// The same source for the request of a client. `forwarded` has that request's
    /// [`forwarded`](fields::forwarded) headers.
    #[must_use]
    pub fn on_behalf_of(&self, client: Client, forwarded: HeaderMap) -> Self {
        Self { client, forwarded: Arc::new(forwarded), ..self.clone() }
    }

    /// The source's name.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// The header fields of every request that we make ourselves.
    pub fn own_fields(&self) -> HeaderMap {
        fields::own(&self.forwarded)
    }

    /// The URL of the host with this number.
    pub fn base(&self, host: usize) -> &url::Base {
        &self.shared.settings.hosts[host]
    }

    fn pool(&self) -> &Pool<Box<Http1>, HostSet> {
        self.shared.balance.pool()
    }

    /// Opens a connection to each host, to check that it can be reached.
    ///
    /// # Errors
    /// 503 or 502 if a host can't be reached. The cause names all such hosts.
    pub async fn reach(&self) -> Result<(), Error> {
        let mut failed: Option<Error> = None;
        let mut causes = Vec::new();
        for host in &self.shared.hosts {
            if let Err(error) = host.reach().await {
                causes.extend(std::error::Error::source(&error).map(ToString::to_string));
                failed = failed.or(Some(error));
            }
        }
        failed.map_or(Ok(()), |error| Err(error.cause(causes.join("; "))))
    }

    /// Closes connections that have been idle for too long. Ends with the pool.
    pub fn reap(&self) -> impl Future<Output = ()> + use<> {
        let (http1, shared) = (self.pool().reap(), Arc::downgrade(&self.shared));
        let period = (self.shared.idle_timeout / 2).max(Duration::from_millis(50));
        let http2 = async move {
            loop {
                tokio::time::sleep(period).await;
                let Some(shared) = shared.upgrade() else { return };
                for host in &shared.hosts {
                    host.close_idle(shared.idle_timeout);
                }
            }
        };
        async move {
            tokio::join!(http1, http2);
        }
    }

    /// The state of the pool.
    pub fn pool_stats(&self) -> pool::Stats {
        self.pool().stats()
    }

    /// The state of each host.
    pub fn host_stats(&self) -> Vec<pool::HostStats> {
        self.shared.balance.stats()
    }

    /// The state of the registry. `None`: the source has none.
    pub fn discovered(&self) -> Option<DiscoveryStats> {
        self.shared.discovery.as_ref().map(|discovery| discovery.seen())
    }

    /// See [`Pool::turn`].
    pub async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        self.pool().turn().await
    }

    /// The time that a request waits for a slot at a host.
    pub fn acquire_timeout(&self) -> Duration {
        self.pool().acquire_timeout()
    }

    /// The time limit of a response, up to its last byte.
    pub fn total(&self) -> Option<Duration> {
        self.shared.settings.timeouts.total
    }

    /// The connections and waiters of the pool.
    pub fn usage(&self) -> pool::Usage {
        self.pool().usage()
    }

    /// Sends a request and waits for the head of its response.
    ///
    /// # Errors
    /// The pool's (503, 504). 503 if no connection can be opened, or if all hosts are ejected. 502
    /// if the upstream has no allowed address. 504 if no head arrives in time. 502 if the response
    /// is a redirect, or isn't valid.
    pub async fn send(&self, call: &Call, patience: Patience<'_>) -> Result<(Reply, WaitTimes), Error> {
        let entered = Instant::now();
        let wait = patience.wait();
        let place = self.shared.balance.acquire(patience).await?;
        drop(wait);
        self.send_from(place, None, call, entered).await
    }

    /// Admits the requests of one response. Up to `width` of them are in flight at the same time;
    /// see [`pool::Group`].
    ///
    /// # Errors
    /// 503 at once if the queue is full.
    pub fn enter(&self, width: usize) -> Result<Group, Error> {
        self.shared.balance.enter(width, self.client).map(Group)
    }

    /// Like [`Source::send`], for a request of a group.
    ///
    /// # Errors
    /// Like [`Source::send`], except the pool's 503.
    pub async fn send_in(&self, group: &Group, call: &Call) -> Result<(Reply, WaitTimes), Error> {
        let entered = Instant::now();
        let place = self.shared.balance.acquire_in(&group.0).await?;
        self.send_from(place, Some(group), call, entered).await
    }

    /// Sends a request that has a slot, for which it has waited since `entered`.
    async fn send_from(
        &self,
        place: RequestLease,
        group: Option<&Group>,
        call: &Call,
        entered: Instant,
    ) -> Result<(Reply, WaitTimes), Error> {
        let waited = WaitTimes { pool: entered.elapsed(), begun: Instant::now() };
        let (place, (head, body)) = self.ask_authorized(place, group, call, waited.begun).await?;
        Ok((Reply::new(head, body, place, self, call, waited.begun)?, waited))
    }

    /// Sends a request, and once more if the upstream refuses its header fields and these have changed.
    async fn ask_authorized(
        &self,
        place: RequestLease,
        group: Option<&Group>,
        call: &Call,
        begun: Instant,
    ) -> Result<(RequestLease, Answer), Error> {
        let sent = self.shared.headers.changeable();
        let (place, (head, body)) = self.ask_again(place, group, call, begun).await?;
        match sent {
            Some(sent) if self.shared.headers.have_changed(&sent, head.status).await => drop(body),
            _ => return Ok((place, (head, body))),
        }
        // Boxed, because otherwise every request would reserve memory that few need.
        Box::pin(self.ask_again(place, group, call, begun)).await
    }

    /// Sends a request, and sends it again if that may help and the source allows it.
    async fn ask_again(
        &self,
        mut place: RequestLease,
        group: Option<&Group>,
        call: &Call,
        begun: Instant,
    ) -> Result<(RequestLease, Answer), Error> {
        let retries = self.shared.retries.as_ref().filter(|_| call.is_repeatable());
        if let Some(retries) = retries {
            retries.earn();
        }
        let late = begun + self.shared.settings.timeouts.first_byte;
        let mut tried = TriedHosts::default();
        let mut before = 0;
        loop {
            let FailedRequest { failure, error } = match self.ask_once(&mut place, call, begun).await {
                Ok(answer) => return Ok((place, answer)),
                Err(failed) => failed,
            };
            tried.insert(place.host());
            let is_passing = error.retry_delay().is_some();
            let mut next = NextAttempt::after(failure, is_passing, Instant::now() < late);
            if next == NextAttempt::OtherHost {
                match Self::fail_over(place, group, tried, late).await {
                    HostMove::There(moved) => {
                        place = moved;
                        continue;
                    }
                    HostMove::Nowhere(kept) => place = kept,
                    HostMove::Exhausted => return Err(error),
                }
                next = NextAttempt::after(failure, is_passing, false);
            }
            let retries = retries.filter(|_| next == NextAttempt::Retry);
            match retries.and_then(|retries| retries.spend(before)) {
                Some(wait) if Instant::now() + wait < late => tokio::time::sleep(wait).await,
                _ => return Err(error),
            }
            before += 1;
            tried = TriedHosts::only(place.host());
            // If the other hosts have no room, we don't wait for it: this host may well answer now.
            if place.fail_over(tried) != Failover::Done {
                place = place.stay().ok_or(error)?;
            }
        }
    }

    /// Moves to a host that wasn't tried. If those have no room, waits for one until `late`.
    async fn fail_over(
        mut place: RequestLease,
        group: Option<&Group>,
        tried: TriedHosts,
        late: Instant,
    ) -> HostMove {
        match place.fail_over(tried) {
            Failover::Done => HostMove::There(place),
            Failover::Nowhere => HostMove::Nowhere(place),
            Failover::Full => {
                let moved = place.move_on(group.map(|Group(group)| group), tried);
                let moved = tokio::time::timeout_at(late.into(), moved).await;
                moved.ok().flatten().map_or(HostMove::Exhausted, HostMove::There)
            }
        }
    }

    /// Sends a request to the host of a lease, and records the result.
    async fn ask_once(
        &self,
        place: &mut RequestLease,
        call: &Call,
        begun: Instant,
    ) -> Result<Answer, FailedRequest> {
        let answered = self.shared.hosts[place.host()].ask(place.pooled(), call, begun).await;
        let health = self.shared.settings.health.as_ref();
        match &answered {
            Ok((head, _)) if health.is_some_and(|health| health.statuses.contains(&head.status)) => {
                place.failed(&format_args!("it answered {}", head.status));
            }
            Ok(_) => place.answered(),
            Err(FailedRequest { failure, error }) if failure.is_the_hosts() => {
                place.failed(&format_args!("{error:?}"));
            }
            Err(_) => {}
        }
        answered
    }
}

/// The result of a failover to another host.
enum HostMove {
    There(RequestLease),
    /// There's no other host, and the lease is unchanged.
    Nowhere(RequestLease),
    /// The wait for another host took too long, and the lease is gone.
    Exhausted,
}

/// The memory of an idle connection, in bytes.
pub const IDLE: usize = http1::IDLE;

/// The most memory for one request in flight whose response is passed through.
pub fn budget() -> usize {
    http1::IDLE + http2::WINDOW as usize
}
