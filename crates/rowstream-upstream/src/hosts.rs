//! Chooses the host of a request. This module knows no sockets and has no queue. The pool, whose
//! slots are at these hosts, decides which requests wait and in which order.
//!
//! ```text
//! acquire ──► a host has room, and the pool a slot ──► Lease at that host ──► reports the result, given back or dropped
//!    │                                                   ▲        │
//!    ├──► the pool's queue ── room: the next waiter ─────┘        └─► fail_over: at another host, with the same slot
//!    └──► every host is ejected: an error at once
//! ```
//!
//! Invariants:
//!
//! 1. No request waits if it could be served: room at a host is made under the pool's lock, and the
//!    pool then serves its queue.
//! 2. A request that returns from a failed host is among the first waiters, and waits for another
//!    host.
//! 3. Each host has at most `max_per_host` requests in flight, and only one while it's probed.
//! 4. No request waits if all its hosts are ejected.

use std::fmt::Display;
use std::time::{Duration, Instant};

use rowstream_core::Error;
use rowstream_core::client::Client;
use rowstream_core::log;
use rowstream_core::pool::{
    self, Breaker, Choice, Epoch, Health, HostCounts as Counts, HostStats as Stats, Patience, Pool,
    PoolConfig, Priority, Sites,
};

use super::error;

/// The most hosts of a source.
pub const MOST: usize = 64;

/// How a source chooses among several hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Balance {
    /// Each host in turn.
    #[default]
    RoundRobin,
    /// The host with the fewest requests in flight. Equal hosts take turns.
    LeastBusy,
}

/// The pool of a source, whose slots are at its hosts.
pub(super) struct Hosts<C>(Pool<C, HostSet>);

/// The requests of one response.
pub(crate) type HostGroup<C> = pool::Group<C, HostSet>;

/// The hosts of a source, as the pool's sites.
pub(crate) struct HostSet {
    source: String,
    balance: Balance,
    max_per_host: usize,
    hosts: Vec<HostState>,
    /// The host that is next in turn.
    turn: usize,
}

struct HostState {
    /// The name in metrics and in the log.
    name: String,
    in_flight: usize,
    breaker: Breaker,
    counts: Counts,
}

/// The hosts at which a request failed. It doesn't return to them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct TriedHosts(u64);

impl TriedHosts {
    pub(super) fn only(host: usize) -> Self {
        Self(1 << host)
    }

    pub(super) fn insert(&mut self, host: usize) {
        self.0 |= 1 << host;
    }

    fn has(self, host: usize) -> bool {
        self.0 & (1 << host) != 0
    }
}

/// The result of a failover.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Failover {
    /// The lease is at another host now.
    Done,
    /// All other hosts are full, so it must wait.
    Full,
    /// There's no other host.
    Nowhere,
}

/// A slot of the pool at one host: the right to one request in flight there.
pub(super) struct Lease<C>(pool::Lease<C, HostSet>);

/// The host of a slot.
#[derive(Debug)]
pub(crate) struct HostSlot {
    host: usize,
    epoch: Epoch,
    /// True once the result of the request at this host was recorded.
    is_told: bool,
}

impl<C: Send + 'static> Hosts<C> {
    /// Hosts with these names, none of them ejected. A request that probes one may take as long as
    /// `probe`.
    pub(super) fn new(
        source: &str,
        pool: PoolConfig,
        names: Vec<String>,
        balance: Balance,
        max_per_host: Option<usize>,
        health: Option<&Health>,
        probe: Duration,
    ) -> Self {
        let host = |name| HostState {
            name,
            in_flight: 0,
            breaker: Breaker::new(health.cloned(), probe),
            counts: Counts::default(),
        };
        let set = HostSet {
            source: source.to_owned(),
            balance,
            max_per_host: max_per_host.unwrap_or(usize::MAX),
            hosts: names.into_iter().map(host).collect(),
            turn: 0,
        };
        Self(Pool::at(source, pool, set))
    }

    pub(super) fn pool(&self) -> &Pool<C, HostSet> {
        &self.0
    }

    /// Waits for a slot at a host.
    ///
    /// # Errors
    /// The pool's. 503 at once if all hosts are ejected.
    pub(super) async fn acquire(&self, patience: Patience<'_>) -> Result<Lease<C>, Error> {
        self.0.acquire_at(TriedHosts::default(), Priority::Stream, patience).await.map(Lease)
    }

    /// Waits for a slot at a host, for a request of an admitted group.
    ///
    /// # Errors
    /// Those of [`Hosts::acquire`].
    pub(super) async fn acquire_in(&self, group: &HostGroup<C>) -> Result<Lease<C>, Error> {
        group.acquire(TriedHosts::default()).await.map(Lease)
    }

    /// Admits the requests of one response. Up to `width` of them are in flight at the same time.
    ///
    /// # Errors
    /// 503 at once if the queue is full.
    pub(super) fn enter(&self, width: usize, client: Client) -> Result<HostGroup<C>, Error> {
        self.0.enter(width, client)
    }

    /// The state of each host.
    pub(super) fn stats(&self) -> Vec<Stats> {
        let stats = |host: &HostState| Stats {
            name: host.name.clone(),
            in_flight: host.in_flight,
            is_up: host.breaker.is_up(),
            counts: host.counts,
            lag: None,
        };
        self.0.look(|set| set.hosts.iter().map(stats).collect())
    }
}

impl Sites for HostSet {
    /// The hosts to avoid.
    type Wish = TriedHosts;
    /// A host's number.
    type ChosenSite = usize;
    type Site = HostSlot;

    fn choose(&self, tried: &TriedHosts) -> Choice<usize> {
        let (now, count) = (Instant::now(), self.hosts.len());
        let by_turns = (0..count).map(|n| (self.turn + n) % count);
        let usable = by_turns.filter(|&at| !tried.has(at) && self.hosts[at].breaker.lets_through(now));
        let mut usable = usable.peekable();
        if usable.peek().is_none() {
            return Choice::Nowhere(self.all_ejected(now));
        }
        let mut with_room = usable.filter(|&at| self.hosts[at].in_flight < self.max_per_host);
        let chosen = match self.balance {
            Balance::RoundRobin => with_room.next(),
            Balance::LeastBusy => with_room.min_by_key(|&at| self.hosts[at].in_flight),
        };
        match chosen {
            Some(host) => Choice::At(host),
            None if *tried == TriedHosts::default() => Choice::FullForAll,
            None => Choice::Full,
        }
    }

    fn begin(&mut self, host: usize) -> HostSlot {
        self.turn = (host + 1) % self.hosts.len();
        self.hosts[host].in_flight += 1;
        let epoch = self.hosts[host].breaker.begin(Instant::now());
        HostSlot { host, epoch, is_told: false }
    }

    fn end(&mut self, site: &HostSlot) {
        let host = &mut self.hosts[site.host];
        host.in_flight -= 1;
        if !site.is_told {
            host.counts.aborted += 1;
            host.breaker.left(site.epoch, Instant::now());
        }
    }

    /// The time when the next ejected host may be probed.
    fn next_room(&self) -> Option<Instant> {
        let now = Instant::now();
        self.hosts.iter().filter_map(|host| host.breaker.ejected_until(now)).min()
    }
}

impl HostSet {
    fn all_ejected(&self, now: Instant) -> Error {
        let backoff = self.next_room().map_or(Duration::ZERO, |until| until.saturating_duration_since(now));
        error::all_ejected(&self.source, backoff)
    }

    /// Moves a slot to a host, or begins there again if it's the same one.
    fn go(&mut self, site: &mut HostSlot, host: usize) {
        self.end(site);
        *site = self.begin(host);
    }
}

impl<C> Lease<C> {
    /// The host's number.
    pub(super) fn host(&self) -> usize {
        self.0.site().host
    }

    /// The pool's lease.
    pub(super) fn pooled(&self) -> &pool::Lease<C, HostSet> {
        &self.0
    }

    /// Records that the head of a response arrived.
    pub(super) fn answered(&mut self) {
        let restored = self.0.change(|set, site| {
            site.is_told = true;
            let host = &mut set.hosts[site.host];
            host.counts.answered += 1;
            host.breaker.answered(site.epoch).then(|| (set.source.clone(), host.name.clone()))
        });
        if let Some((source, name)) = restored {
            log::info!("source {source}: host {name} answers again, and is restored");
        }
    }

    /// Records that the host failed the request.
    pub(super) fn failed(&mut self, why: &dyn Display) {
        let (ejected, waits) = self.0.change(|set, site| {
            site.is_told = true;
            let (now, host) = (Instant::now(), &mut set.hosts[site.host]);
            host.counts.failed += 1;
            let backoff = host.breaker.failed(site.epoch, now);
            host.counts.ejected += u64::from(backoff.is_some());
            let ejected = backoff.map(|backoff| (set.source.clone(), host.name.clone(), backoff));
            (ejected, host.breaker.ejected_until(now).is_some())
        });
        if waits {
            self.0.tell_of_room();
        }
        if let Some((source, name, backoff)) = ejected {
            log::warning!("source {source}: host {name} is ejected for {backoff:?}: {why}");
        }
    }

    /// Moves to a host that wasn't tried, if one has room.
    pub(super) fn fail_over(&mut self, tried: TriedHosts) -> Failover {
        self.0.change(|set, site| match set.choose(&tried) {
            Choice::At(host) => {
                set.go(site, host);
                Failover::Done
            }
            Choice::Full | Choice::FullForAll => Failover::Full,
            Choice::Nowhere(_) => Failover::Nowhere,
        })
    }

    /// Prepares another request to the same host. `None`: the host is ejected, and the slot is free
    /// again.
    pub(super) fn stay(mut self) -> Option<Self> {
        let may_stay = self.0.change(|set, site| {
            let may_stay = set.hosts[site.host].breaker.lets_through(Instant::now());
            if may_stay {
                set.go(site, site.host);
            }
            may_stay
        });
        may_stay.then_some(self)
    }

    /// Returns a connection that is ready for its next request, and frees the slot.
    pub(super) fn give_back(self, connection: C) {
        self.0.give_back(connection);
    }
}

impl<C: Send + 'static> Lease<C> {
    /// Frees the slot, and waits for one at a host that wasn't tried. It's among the first waiters
    /// then. `None`: there's none in time.
    pub(super) async fn move_on(self, group: Option<&HostGroup<C>>, tried: TriedHosts) -> Option<Self> {
        self.0.move_on(tried, group).await.ok().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::task::{Context, Poll, Waker};

    use rowstream_core::pool::Waiter;

    use super::*;

    const BACKOFF: Duration = Duration::from_secs(3600);

    fn hosts(balance: Balance, max: usize, max_per_host: usize, failures: usize) -> Hosts<()> {
        let config = PoolConfig { max, waiting: 10, ..PoolConfig::default() };
        let names = ["a", "b", "c"].map(str::to_owned).into();
        let health = Health { failures, backoff: BACKOFF, statuses: Vec::new() };
        Hosts::new("s", config, names, balance, Some(max_per_host), Some(&health), BACKOFF)
    }

    /// The result of a future that must be ready at once.
    fn now<T>(future: impl Future<Output = T>) -> Option<T> {
        let mut future = std::pin::pin!(future);
        match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        }
    }

    async fn acquire(hosts: &Hosts<()>) -> Result<Lease<()>, Error> {
        hosts.acquire(Waiter::default().begin()).await
    }

    fn place(hosts: &Hosts<()>) -> Lease<()> {
        now(acquire(hosts)).expect("it is there at once").expect("there is a host")
    }

    fn in_flight(hosts: &Hosts<()>) -> [usize; 3] {
        let in_flight: Vec<_> = hosts.stats().iter().map(|host| host.in_flight).collect();
        in_flight.try_into().expect("there are three")
    }

    /// Makes a host fail until it's ejected.
    fn eject(hosts: &Hosts<()>, host: usize) {
        let mut place = place(hosts);
        while place.host() != host {
            assert_eq!(place.fail_over(TriedHosts::only(place.host())), Failover::Done);
        }
        place.failed(&"test");
    }

    #[tokio::test]
    async fn turns_are_even() {
        let hosts = hosts(Balance::RoundRobin, 9, 9, 1);
        let places: Vec<_> = (0..9).map(|_| place(&hosts)).collect();
        assert_eq!(places.iter().map(Lease::host).collect::<Vec<_>>(), [0, 1, 2, 0, 1, 2, 0, 1, 2]);
        assert_eq!(in_flight(&hosts), [3, 3, 3]);
        drop(places);
        assert_eq!((in_flight(&hosts), hosts.pool().usage().used), ([0, 0, 0], 0));
    }

    #[tokio::test]
    async fn the_least_busy_host_is_asked() {
        let hosts = hosts(Balance::LeastBusy, 9, 9, 1);
        let [a, b, c] = [(); 3].map(|()| place(&hosts));
        drop(b);
        let b = [(); 1].map(|()| place(&hosts));
        assert_eq!(b[0].host(), 1);
        drop(a);
        drop(c);
        let others = [(); 2].map(|()| place(&hosts).host());
        assert_eq!(others, [2, 0], "by turns among equals");
    }

    #[tokio::test]
    async fn a_host_that_is_full_leaves_its_turn_to_others_and_those_wait_in_the_pools_queue() {
        let hosts = hosts(Balance::RoundRobin, 9, 2, 1);
        eject(&hosts, 0);
        let mut places: Vec<_> = (0..4).map(|_| place(&hosts)).collect();
        assert_eq!(in_flight(&hosts), [0, 2, 2]);
        let waiting = acquire(&hosts);
        tokio::pin!(waiting);
        assert!(now(waiting.as_mut()).is_none());
        assert_eq!(hosts.pool().usage().waiting, 1);
        let left = places.remove(1);
        let host = left.host();
        drop(left);
        assert_eq!(waiting.await.expect("there is room").host(), host);
        assert_eq!(hosts.pool().usage().waiting, 0);
    }

    #[tokio::test]
    async fn the_pool_bounds_all_hosts_together() {
        let hosts = hosts(Balance::RoundRobin, 4, 2, 1);
        let places: Vec<_> = (0..4).map(|_| place(&hosts)).collect();
        assert!(now(acquire(&hosts)).is_none());
        assert_eq!(hosts.pool().usage().waiting, 0, "it has left");
        drop(places);
        assert_eq!(in_flight(&hosts), [0, 0, 0]);
    }

    #[tokio::test]
    async fn clients_take_turns() {
        let hosts = hosts(Balance::RoundRobin, 1, 1, 1);
        let held = place(&hosts);
        let waiters = [1, 1, 2].map(|last| Waiter::new(Client::Address([192, 0, 2, last].into())));
        let [mut first, mut second, mut other] =
            waiters.each_ref().map(|waiter| Box::pin(hosts.acquire(waiter.begin())));
        for waiting in [&mut first, &mut second, &mut other] {
            assert!(now(waiting.as_mut()).is_none());
        }
        drop(held);
        drop(now(first).expect("it came first"));
        assert!(now(second.as_mut()).is_none(), "another client has the next turn");
        drop(now(other).expect("it has its turn"));
        assert!(second.await.is_ok());
    }

    /// If a waiter gets a slot but is gone, the next waiter gets it.
    #[tokio::test]
    async fn no_place_is_lost_with_one_that_leaves() {
        let hosts = hosts(Balance::RoundRobin, 1, 1, 1);
        let held = place(&hosts);
        let mut first = Box::pin(acquire(&hosts));
        let mut second = Box::pin(acquire(&hosts));
        assert!(now(first.as_mut()).is_none() && now(second.as_mut()).is_none());
        drop(held);
        assert!(now(second.as_mut()).is_none(), "first come, first served");
        drop(first);
        assert!(second.await.is_ok());
        assert_eq!((in_flight(&hosts), hosts.pool().usage().used), ([0, 0, 0], 0));
    }

    #[tokio::test]
    async fn nobody_waits_for_hosts_that_are_ejected() {
        let hosts = hosts(Balance::RoundRobin, 9, 1, 1);
        let mut places: Vec<_> = (0..3).map(|_| place(&hosts)).collect();
        let waiting = acquire(&hosts);
        tokio::pin!(waiting);
        assert!(now(waiting.as_mut()).is_none());
        for place in &mut places {
            place.failed(&"test");
        }
        let error = waiting.await.map(|_| ()).expect_err("there is no host");
        assert_eq!(error.code(), "upstream_unavailable");
        assert!(error.retry_delay().is_some_and(|delay| delay <= BACKOFF && delay > BACKOFF / 2));
        let error = now(acquire(&hosts)).map(|place| place.map(|_| ()));
        assert!(matches!(error, Some(Err(_))), "at once");
    }

    /// If a host is ejected while a request waits for room, the request learns of it. It goes there
    /// once the host may be probed.
    #[tokio::test]
    async fn a_backoff_that_begins_later_is_waited_for() {
        let backoff = Duration::from_millis(30);
        let config = PoolConfig { max: 9, waiting: 10, ..PoolConfig::default() };
        let names = ["a", "b"].map(str::to_owned).into();
        let health = Health { failures: 1, backoff, statuses: Vec::new() };
        let hosts = Arc::new(Hosts::<()>::new(
            "s",
            config,
            names,
            Balance::RoundRobin,
            Some(1),
            Some(&health),
            BACKOFF,
        ));
        let (_held, mut fails) = (place(&hosts), place(&hosts));
        let waiting = tokio::spawn({
            let hosts = Arc::clone(&hosts);
            async move { acquire(&hosts).await.map(|place| place.host()).ok() }
        });
        while hosts.pool().usage().waiting == 0 {
            tokio::task::yield_now().await;
        }
        fails.failed(&"test");
        drop(fails);
        assert_eq!(waiting.await.expect("it does not panic"), Some(1));
    }

    #[tokio::test]
    async fn who_comes_back_waits_for_another_host_and_is_the_first() {
        let hosts = hosts(Balance::RoundRobin, 9, 1, 2);
        let [a, b, c] = [(); 3].map(|()| place(&hosts));
        let mut last = Box::pin(acquire(&hosts));
        assert!(now(last.as_mut()).is_none());
        let mut tried = TriedHosts::only(0);
        tried.insert(1);
        let mut back = Box::pin(b.move_on(None, tried));
        assert!(now(back.as_mut()).is_none());
        let last = now(last.as_mut()).expect("the host that is left suits the last").expect("a place");
        assert_eq!(last.host(), 1);
        let mut next = Box::pin(acquire(&hosts));
        assert!(now(next.as_mut()).is_none());
        drop(c);
        assert!(now(next.as_mut()).is_none(), "who has come back is the first");
        let back = back.await.expect("there is room");
        assert_eq!(back.host(), 2);
        drop(a);
        assert_eq!(next.await.expect("there is room").host(), 0);
    }

    #[tokio::test]
    async fn a_failover_frees_the_host_that_is_left() {
        let hosts = hosts(Balance::RoundRobin, 9, 1, 2);
        let mut a = place(&hosts);
        let b = place(&hosts);
        assert_eq!((a.fail_over(TriedHosts::only(0)), a.host()), (Failover::Done, 2));
        assert_eq!(in_flight(&hosts), [0, 1, 1]);
        let mut tried = TriedHosts::only(0);
        tried.insert(2);
        assert_eq!(a.fail_over(tried), Failover::Full);
        tried.insert(1);
        assert_eq!(a.fail_over(tried), Failover::Nowhere);
        drop((a, b));
        assert_eq!((in_flight(&hosts), hosts.pool().usage().used), ([0, 0, 0], 0));
    }
}
