//! HTTP services: upstreams, which are asked on behalf of a request.
//!
//! | file | what is in it |
//! |---|---|
//! | [`url`], [`settings`] | where an upstream is, and how it is asked |
//! | [`hosts`] | which of its hosts a request goes to |
//! | [`host`] | one host: its connections, and what is asked on them |
//! | [`discovery`] | where it is, as Consul or SRV records say |
//! | [`address`] | which addresses it may have |
//! | [`connect`] | names, addresses, TCP, TLS |
//! | [`http1`], [`http2`] | connections, and answers on them |
//! | [`looked`] | a socket that can be looked at for bytes that nobody has asked for |
//! | [`retry`] | which requests are sent again |
//! | [`reply`] | an answer whose body is polled, and what holds its place |
//! | [`template`] | requests made of parameters, each value escaped for its place |
//! | [`fields`] | the header fields that are handed on, and those that are not |
//! | [`payload`] | bodies of requests, made of parameters |
//!
//! A [`Lease`] of the pool is the right to one request in flight at one host. Over HTTP/1.1 it is a
//! connection too; over HTTP/2 requests share connections. Whoever has a place asks at once: no
//! library's queue or limit stands behind the pool, which is why it is our own and not that of
//! hyper-util's client. A connection serves requests to its own host alone.

pub mod address;
pub mod discovery;
pub mod fields;
pub mod payload;
pub mod settings;
pub mod template;
pub mod url;

mod connect;
mod error;
mod host;
mod hosts;
mod http1;
mod http2;
mod looked;
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
pub use crate::pool::Health;

use self::connect::Connector;
use self::discovery::{Discovery, Seen};
use self::host::{Answer, Failed, Failure, Host};
use self::hosts::{Failover, HostSet, Hosts, Tried};
use self::http1::Http1;
use self::retry::Budget;
use crate::Error;
use crate::client::Client;
use crate::pool::{self, Patience, Pool};
use crate::settings::SourceSettings;

/// A place of the pool at one host.
type Lease = hosts::Lease<Box<Http1>>;
/// The requests of one response, which the pool lets in together.
pub(crate) type Group = hosts::Group<Box<Http1>>;

/// An HTTP service with its pool.
#[derive(Clone)]
pub struct Source {
    shared: Arc<Inner>,
    /// What the upstream learns of the request on whose behalf it is asked.
    forwarded: Arc<HeaderMap>,
    /// Whose request that is.
    client: Client,
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
    /// Which host a request goes to.
    balance: Hosts<Box<Http1>>,
    /// By the same numbers.
    hosts: Vec<Host>,
    /// `None`: none is sent again.
    retries: Option<Budget>,
    /// Where its one host is; `None`: where its URL says.
    discovery: Option<Arc<Discovery>>,
}

/// One request, as it is sent to whichever connection.
#[derive(Debug, Clone)]
pub struct Call {
    /// Its method.
    pub method: Method,
    /// Its path and query, after the source's own prefix.
    pub target: String,
    /// Its header fields.
    pub headers: HeaderMap,
    /// Its body, if it has one.
    pub body: Option<String>,
}

impl Call {
    /// Whether it may be sent again where nobody knows if it has come (RFC 9110, section 9.2.2).
    fn is_repeatable(&self) -> bool {
        self.method.is_idempotent()
    }
}

/// What came before an answer: how long it was waited for.
#[derive(Debug, Clone, Copy)]
pub struct Waited {
    /// For a place.
    pub pool: Duration,
    /// When the request was begun.
    pub begun: Instant,
}

impl Source {
    /// The source of a configuration. Opens nothing.
    ///
    /// # Errors
    /// A file of TLS can't be read.
    pub fn open(config: &SourceSettings, settings: &Settings) -> Result<Self, Error> {
        let settings = Arc::new(settings.clone());
        let names = settings.hosts.iter().map(url::Base::host_and_port).collect();
        let tls = Connector::tls(&config.name, &settings)?;
        let most = settings.max_per_host.map_or(config.pool.max, |most| most.min(config.pool.max));
        let discovery = settings.discover.as_ref().map(|discover| Discovery::new(&config.name, discover));
        let discovery = discovery.map(Arc::new);
        let host =
            |number| Host::new(&config.name, &settings, number, (tls.clone(), discovery.clone()), most);
        let shared = Inner {
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
            discovery,
        };
        Ok(Self { shared: Arc::new(shared), forwarded: Arc::default(), client: Client::default() })
    }

    /// The same source, asked on behalf of a client's request whose headers are
    /// [`forwarded`](fields::forwarded).
    #[must_use]
    pub fn on_behalf_of(&self, client: Client, forwarded: HeaderMap) -> Self {
        Self { client, forwarded: Arc::new(forwarded), ..self.clone() }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// The fields that every request has which is made here.
    pub(crate) fn own_fields(&self) -> HeaderMap {
        fields::own(&self.forwarded)
    }

    /// The URL of a host, by its number.
    pub(crate) fn base(&self, host: usize) -> &url::Base {
        &self.shared.settings.hosts[host]
    }

    fn pool(&self) -> &Pool<Box<Http1>, HostSet> {
        self.shared.balance.pool()
    }

    /// Opens a connection to each host, to see whether that can be done.
    ///
    /// # Errors
    /// 503 or 502 when it cannot; its cause tells all the hosts that cannot be reached.
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

    /// Closes connections that have been idle for long; ends with the pool.
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

    /// What is known of the pool.
    pub(crate) fn pool_stats(&self) -> pool::Stats {
        self.pool().stats()
    }

    /// What is known of each host.
    pub(crate) fn host_stats(&self) -> Vec<pool::HostStats> {
        self.shared.balance.stats()
    }

    /// What its registry has said; `None`: it has none.
    pub(crate) fn discovered(&self) -> Option<Seen> {
        self.shared.discovery.as_ref().map(|discovery| discovery.seen())
    }

    /// See [`Pool::turn`].
    pub async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        self.pool().turn().await
    }

    /// How long a request waits for a place at a host.
    pub fn acquire_timeout(&self) -> Duration {
        self.pool().acquire_timeout()
    }

    /// How long an answer may take, to its last byte.
    pub(crate) fn total(&self) -> Option<Duration> {
        self.shared.settings.timeouts.total
    }

    /// What the pool holds.
    pub fn usage(&self) -> pool::Usage {
        self.pool().usage()
    }

    /// Sends a request and waits for the head of its answer.
    ///
    /// # Errors
    /// The pool's (503, 504); 503 when no connection can be opened or all hosts are ejected, 502
    /// where none may be opened; 504 when no head comes in time; 502 when what comes is no answer,
    /// or a redirect.
    pub async fn send(&self, call: &Call, patience: Patience<'_>) -> Result<(Reply, Waited), Error> {
        let entered = Instant::now();
        let wait = patience.wait();
        let place = self.shared.balance.acquire(patience).await?;
        drop(wait);
        self.send_from(place, None, call, entered).await
    }

    /// Lets in the requests of one response, of which up to `width` are in flight at a time; see
    /// [`pool::Group`].
    ///
    /// # Errors
    /// 503 at once when as many wait as may.
    pub(crate) fn enter(&self, width: usize) -> Result<Group, Error> {
        self.shared.balance.enter(width, self.client)
    }

    /// [`Source::send`], as one of the requests of a group.
    ///
    /// # Errors
    /// As there, without the pool's 503.
    pub(crate) async fn send_in(&self, group: &Group, call: &Call) -> Result<(Reply, Waited), Error> {
        let entered = Instant::now();
        let place = self.shared.balance.acquire_in(group).await?;
        self.send_from(place, Some(group), call, entered).await
    }

    /// Sends a request that has a place, which was waited for since `entered`.
    async fn send_from(
        &self,
        place: Lease,
        group: Option<&Group>,
        call: &Call,
        entered: Instant,
    ) -> Result<(Reply, Waited), Error> {
        let waited = Waited { pool: entered.elapsed(), begun: Instant::now() };
        let (place, (head, body)) = self.ask_again(place, group, call, waited.begun).await?;
        Ok((Reply::new(head, body, place, (self, call), waited.begun)?, waited))
    }

    /// Asks, and asks again where that can help and the source may.
    async fn ask_again(
        &self,
        mut place: Lease,
        group: Option<&Group>,
        call: &Call,
        begun: Instant,
    ) -> Result<(Lease, Answer), Error> {
        let retries = self.shared.retries.as_ref().filter(|_| call.is_repeatable());
        if let Some(retries) = retries {
            retries.earn();
        }
        let late = begun + self.shared.settings.timeouts.first_byte;
        let mut tried = Tried::default();
        let mut before = 0;
        loop {
            let failed = match self.ask_once(&mut place, call, begun).await {
                Ok(answer) => return Ok((place, answer)),
                Err(failed) => failed,
            };
            tried.insert(place.host());
            let Failed { failure, error } = failed;
            if failure.is_untouched() && Instant::now() < late {
                // It has cost no host anything, so that no budget is asked whether it may go on.
                match Self::fail_over(place, group, tried, late).await {
                    Moved::There(moved) => {
                        place = moved;
                        continue;
                    }
                    Moved::Nowhere(kept) => place = kept,
                    Moved::Exhausted => return Err(error),
                }
            }
            let may_repeat = match failure {
                // A host that has no address which is allowed has none a moment later.
                Failure::NotSent { .. } => error.retry_delay().is_some(),
                Failure::NotBegun | Failure::Lost { .. } => true,
                Failure::NoHead | Failure::Ours => false,
            };
            match retries.filter(|_| may_repeat).and_then(|retries| retries.spend(before)) {
                Some(wait) if Instant::now() + wait < late => tokio::time::sleep(wait).await,
                _ => return Err(error),
            }
            before += 1;
            tried = Tried::only(place.host());
            // Where the others have no room, it is not waited for: this host may well answer now.
            if place.fail_over(tried) != Failover::Done {
                place = place.stay().ok_or(error)?;
            }
        }
    }

    /// Goes to a host that was not tried. Where those have no room, it waits among the others,
    /// until it is late.
    async fn fail_over(mut place: Lease, group: Option<&Group>, tried: Tried, late: Instant) -> Moved {
        match place.fail_over(tried) {
            Failover::Done => Moved::There(place),
            Failover::Nowhere => Moved::Nowhere(place),
            Failover::Full => {
                let moved = place.move_on(group, tried);
                let moved = tokio::time::timeout_at(late.into(), moved).await;
                moved.ok().flatten().map_or(Moved::Exhausted, Moved::There)
            }
        }
    }

    /// Asks the host of a place, and tells how that went.
    async fn ask_once(&self, place: &mut Lease, call: &Call, begun: Instant) -> Result<Answer, Failed> {
        let answered = self.shared.hosts[place.host()].ask(place.pooled(), call, begun).await;
        let health = self.shared.settings.health.as_ref();
        match &answered {
            Ok((head, _)) if health.is_some_and(|health| health.statuses.contains(&head.status)) => {
                place.failed(&format_args!("it answered {}", head.status));
            }
            Ok(_) => place.answered(),
            Err(Failed { failure, error }) if failure.is_the_hosts() => {
                place.failed(&format_args!("{error:?}"));
            }
            Err(_) => {}
        }
        answered
    }
}

/// What came of the failover to another host.
enum Moved {
    There(Lease),
    /// There is none, and the place is still the one that it was.
    Nowhere(Lease),
    /// It has waited for one, and has no place any more.
    Exhausted,
}

/// What an idle connection takes, in bytes.
pub(crate) const IDLE: usize = http1::IDLE;

/// What one request in flight may take whose reply is passed on as it comes.
pub(crate) fn budget() -> usize {
    http1::IDLE + http2::WINDOW as usize
}
