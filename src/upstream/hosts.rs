//! Which host a request goes to, and the queue of those that have to wait for one. It knows nothing of sockets.
//!
//! ```text
//! acquire ──► a host has room, and the pool a place ──► Place at that host ──► told how it went, given back or dropped
//!    │                                                    ▲        │
//!    ├──► queue ── room: the first that it suits ─────────┘        └─► go_elsewhere: at another host, with the same place
//!    └──► every host is set aside: an error at once
//! ```
//!
//! Invariants:
//!
//! 1. There is one queue, which is the pool's: whoever waits counts among its `waiting`, and waits no longer than `acquire_timeout`.
//!    A place is handed out only together with a host, so that nobody who has one waits for another thing.
//! 2. Nobody waits who could be served: whatever makes room serves the queue before its lock is let go of.
//! 3. First come, first served, among those whom a host suits: one that has come back from a host is the first, and waits for another.
//! 4. Of each host, requests in flight are `max_per_host` at most, and one while it is tried.
//! 5. Nobody waits for hosts that are all set aside.

use std::collections::VecDeque;
use std::fmt::Display;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, oneshot};

use super::error;
use super::health::{Breaker, Epoch, Health};
use crate::Error;
use crate::pool::{self, Group, Pool};

/// The most hosts of a source.
pub const MOST: usize = 64;

/// Which of several hosts a request goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Balance {
    /// By turns.
    #[default]
    RoundRobin,
    /// To the one with the fewest requests in flight; by turns among equals.
    LeastBusy,
}

/// The hosts of a source, with its pool.
pub(super) struct Hosts<C>(Arc<Shared<C>>);

struct Shared<C> {
    source: String,
    pool: Pool<C>,
    balance: Balance,
    max_per_host: usize,
    state: Mutex<State<C>>,
    /// A host begins to rest, so that those that wait learn until when.
    rests: Notify,
}

struct State<C> {
    hosts: Vec<Host>,
    /// The host whose turn it is.
    turn: usize,
    queue: VecDeque<Waiter<C>>,
    next_id: u64,
}

struct Host {
    /// As metrics and the log have it.
    name: String,
    in_flight: usize,
    breaker: Breaker,
    counts: Counts,
}

/// What has become of the requests to a host.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counts {
    /// The head of an answer came, and was no failure.
    pub(crate) answered: u64,
    pub(crate) failed: u64,
    /// They ended before either, such as those whose client left.
    pub(crate) aborted: u64,
    /// How often it was set aside.
    pub(crate) set_aside: u64,
}

/// What is known of a host.
#[derive(Debug)]
pub(crate) struct Stats {
    pub(crate) name: String,
    pub(crate) in_flight: usize,
    pub(crate) is_up: bool,
    pub(crate) counts: Counts,
}

/// The hosts that have failed a request, which it does not go to again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Tried(u64);

impl Tried {
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

/// One in the queue. Dropping `sender` tells it that there is no host for it.
struct Waiter<C> {
    id: u64,
    tried: Tried,
    sender: oneshot::Sender<Place<C>>,
}

/// A waiter's own end of it; leaves the queue when dropped.
struct Ticket<C> {
    hosts: Hosts<C>,
    id: u64,
    receiver: oneshot::Receiver<Place<C>>,
}

/// Where a request may go now.
enum Choice {
    Host(usize),
    /// Hosts are up, and have no room.
    Full,
    /// All hosts are set aside.
    Nowhere,
}

/// What came of going to another host.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Elsewhere {
    /// It is there.
    There,
    /// It has to wait for one.
    Full,
    /// There is none.
    Nowhere,
}

/// A place of the pool at one host: the right to one request in flight there.
pub(super) struct Place<C> {
    hosts: Hosts<C>,
    host: usize,
    epoch: Epoch,
    /// Whether it is known how the request went at this host.
    is_told: bool,
    /// `None` once it was given back.
    place: Option<pool::Place<C>>,
}

impl<C> Clone for Hosts<C> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<C: Send + 'static> Hosts<C> {
    /// Hosts of these names, which are up; a request that tries one may take as long as `trial`.
    pub(super) fn new(
        source: &str,
        pool: Pool<C>,
        names: Vec<String>,
        balance: Balance,
        max_per_host: Option<usize>,
        health: Option<&Health>,
        trial: Duration,
    ) -> Self {
        let host = |name| Host {
            name,
            in_flight: 0,
            breaker: Breaker::new(health.cloned(), trial),
            counts: Counts::default(),
        };
        let hosts = names.into_iter().map(host).collect();
        Self(Arc::new(Shared {
            source: source.to_owned(),
            pool,
            balance,
            max_per_host: max_per_host.unwrap_or(usize::MAX),
            state: Mutex::new(State { hosts, turn: 0, queue: VecDeque::new(), next_id: 0 }),
            rests: Notify::new(),
        }))
    }

    pub(super) fn pool(&self) -> &Pool<C> {
        &self.0.pool
    }

    /// Waits for a place at a host, but for those that were tried; alone, or as one of a group that was let in.
    ///
    /// # Errors
    /// The pool's; 503 at once when all hosts are set aside.
    pub(super) async fn acquire(&self, group: Option<&Group<C>>, tried: Tried) -> Result<Place<C>, Error> {
        let pool = &self.0.pool;
        if let Some(place) = self.take(tried, usize::from(group.is_none()))? {
            pool.took_at_once();
            group.into_iter().for_each(Group::begin);
            return Ok(place);
        }
        let Some(group) = group else {
            let entry = pool.let_in(1)?;
            let mut place = pool.wait_for(self.wait(tried)).await?.ok_or_else(|| self.all_aside())?;
            if let Some(place) = &mut place.place {
                place.adopt(entry);
            }
            return Ok(place);
        };
        let place = group.wait_for(self.wait(tried)).await?.ok_or_else(|| self.all_aside())?;
        group.begin();
        Ok(place)
    }

    /// Gives a place up and waits for one at a host that was not tried, as the first of those that wait. `None`: there is none in time.
    pub(super) async fn move_on(
        &self,
        mut place: Place<C>,
        group: Option<&Group<C>>,
        tried: Tried,
    ) -> Option<Place<C>> {
        let entry = place.place.as_mut().map(pool::Place::keep_entry);
        drop(place);
        let waited = match group {
            Some(group) => group.wait_for(self.wait(tried)).await,
            None => self.0.pool.wait_again(self.wait(tried)).await,
        };
        let mut place = waited.ok()??;
        if let (Some(place), Some(entry)) = (&mut place.place, entry) {
            place.adopt(entry);
        }
        Some(place)
    }

    /// A place that is free, for so many who were not let in before. By the second invariant, nobody waits for it.
    fn take(&self, tried: Tried, width: usize) -> Result<Option<Place<C>>, Error> {
        let now = Instant::now();
        let mut state = self.lock();
        match self.choose(&state, tried, now) {
            Choice::Host(host) => {
                Ok(self.0.pool.try_place(width).map(|place| self.begin(&mut state, host, place, now)))
            }
            Choice::Full => Ok(None),
            Choice::Nowhere => {
                drop(state);
                Err(self.all_aside())
            }
        }
    }

    /// Waits in the queue. `None`: there is no host for it.
    async fn wait(&self, tried: Tried) -> Option<Place<C>> {
        let mut ticket = self.join(tried);
        loop {
            // Before it is asked when rests end: one that begins meanwhile is not missed.
            let begins = self.0.rests.notified();
            let rest = self.next_rest();
            tokio::select! {
                biased;
                place = &mut ticket.receiver => return place.ok(),
                // A host may be tried now, which makes room.
                () = until(rest) => self.change(|_, _| ()),
                () = begins => {}
            }
        }
    }

    fn join(&self, tried: Tried) -> Ticket<C> {
        let (sender, receiver) = oneshot::channel();
        let id = self.change(|state, _| {
            let id = state.next_id;
            state.next_id += 1;
            let waiter = Waiter { id, tried, sender };
            match tried == Tried::default() {
                true => state.queue.push_back(waiter),
                false => state.queue.push_front(waiter),
            }
            id
        });
        Ticket { hosts: self.clone(), id, receiver }
    }

    /// When the next rest of a host ends.
    fn next_rest(&self) -> Option<Instant> {
        let now = Instant::now();
        self.lock().hosts.iter().filter_map(|host| host.breaker.rests_until(now)).min()
    }

    fn all_aside(&self) -> Error {
        let rest = self.next_rest().map_or(Duration::ZERO, |until| until.duration_since(Instant::now()));
        error::all_aside(&self.0.source, rest)
    }

    /// What is known of each host.
    pub(super) fn stats(&self) -> Vec<Stats> {
        let stats = |host: &Host| Stats {
            name: host.name.clone(),
            in_flight: host.in_flight,
            is_up: host.breaker.is_up(),
            counts: host.counts,
        };
        self.lock().hosts.iter().map(stats).collect()
    }
}

impl<C> Hosts<C> {
    fn lock(&self) -> MutexGuard<'_, State<C>> {
        // Nothing under this lock panics half way.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state, and serves whom that suits.
    fn change<T>(&self, change: impl FnOnce(&mut State<C>, Instant) -> T) -> T {
        let now = Instant::now();
        let mut state = self.lock();
        let changed = change(&mut state, now);
        let served = self.serve(&mut state, now);
        drop(state);
        for (sender, place) in served {
            // One that has left meanwhile drops its place, which serves the next.
            drop(sender.send(place));
        }
        changed
    }

    /// Takes those out of the queue who can be served, or whom nobody will.
    fn serve(&self, state: &mut State<C>, now: Instant) -> Vec<(oneshot::Sender<Place<C>>, Place<C>)> {
        let mut served = Vec::new();
        let mut at = 0;
        while let Some(waiter) = state.queue.get(at) {
            match self.choose(state, waiter.tried, now) {
                Choice::Host(host) => {
                    // Whoever waits has been let in.
                    let Some(place) = self.0.pool.try_place(0) else { break };
                    let place = self.begin(state, host, place, now);
                    served.extend(state.queue.remove(at).map(|waiter| (waiter.sender, place)));
                }
                Choice::Nowhere => drop(state.queue.remove(at)),
                // Nor is there room for those behind, who are no more choosy.
                Choice::Full if waiter.tried == Tried::default() => break,
                Choice::Full => at += 1,
            }
        }
        served
    }

    fn choose(&self, state: &State<C>, tried: Tried, now: Instant) -> Choice {
        let count = state.hosts.len();
        let by_turns = (0..count).map(|n| (state.turn + n) % count);
        let usable = by_turns.filter(|&at| !tried.has(at) && state.hosts[at].breaker.lets_through(now));
        let mut usable = usable.peekable();
        if usable.peek().is_none() {
            return Choice::Nowhere;
        }
        let mut with_room = usable.filter(|&at| state.hosts[at].in_flight < self.0.max_per_host);
        let chosen = match self.0.balance {
            Balance::RoundRobin => with_room.next(),
            Balance::LeastBusy => with_room.min_by_key(|&at| state.hosts[at].in_flight),
        };
        chosen.map_or(Choice::Full, Choice::Host)
    }

    fn begin(&self, state: &mut State<C>, host: usize, place: pool::Place<C>, now: Instant) -> Place<C> {
        let epoch = state.begin(host, now);
        Place { hosts: self.clone(), host, epoch, is_told: false, place: Some(place) }
    }
}

impl<C> State<C> {
    fn begin(&mut self, host: usize, now: Instant) -> Epoch {
        self.turn = (host + 1) % self.hosts.len();
        self.hosts[host].in_flight += 1;
        self.hosts[host].breaker.begin(now)
    }

    /// A request is no longer in flight at the host of `place`.
    fn end<T>(&mut self, place: &Place<T>, now: Instant) {
        let host = &mut self.hosts[place.host];
        host.in_flight -= 1;
        if !place.is_told {
            host.counts.aborted += 1;
            host.breaker.left(place.epoch, now);
        }
    }
}

impl<C> Place<C> {
    /// The host, by its number.
    pub(super) fn host(&self) -> usize {
        self.host
    }

    /// The place of the pool; `None` only while it is given back.
    pub(super) fn pooled(&self) -> Option<&pool::Place<C>> {
        self.place.as_ref()
    }

    /// The head of an answer has come.
    pub(super) fn answered(&mut self) {
        let (host, epoch) = (self.host, self.epoch);
        self.is_told = true;
        let readmitted = self.hosts.change(|state, _| {
            let host = &mut state.hosts[host];
            host.counts.answered += 1;
            host.breaker.answered(epoch).then(|| host.name.clone())
        });
        if let Some(name) = readmitted {
            eprintln!("source {}: host {name} answers again, and is readmitted", self.hosts.0.source);
        }
    }

    /// The host has failed the request.
    pub(super) fn failed(&mut self, why: &dyn Display) {
        let (host, epoch) = (self.host, self.epoch);
        self.is_told = true;
        let (set_aside, rests) = self.hosts.change(|state, now| {
            let host = &mut state.hosts[host];
            host.counts.failed += 1;
            let rest = host.breaker.failed(epoch, now);
            host.counts.set_aside += u64::from(rest.is_some());
            (rest.map(|rest| (host.name.clone(), rest)), host.breaker.rests_until(now).is_some())
        });
        if rests {
            self.hosts.0.rests.notify_waiters();
        }
        if let Some((name, rest)) = set_aside {
            eprintln!("source {}: host {name} is set aside for {rest:?}: {why}", self.hosts.0.source);
        }
    }

    /// Goes to another host than those that were tried, if one has room.
    pub(super) fn go_elsewhere(&mut self, tried: Tried) -> Elsewhere {
        let hosts = self.hosts.clone();
        hosts.change(|state, now| match hosts.choose(state, tried, now) {
            Choice::Host(host) => {
                state.end(self, now);
                self.host = host;
                self.epoch = state.begin(host, now);
                self.is_told = false;
                Elsewhere::There
            }
            Choice::Full => Elsewhere::Full,
            Choice::Nowhere => Elsewhere::Nowhere,
        })
    }

    /// Asks the same host again. `None`: it is set aside, and the place is free.
    pub(super) fn stay(mut self) -> Option<Self> {
        let hosts = self.hosts.clone();
        let may_stay = hosts.change(|state, now| {
            let may_stay = state.hosts[self.host].breaker.lets_through(now);
            if may_stay {
                state.end(&self, now);
                self.epoch = state.begin(self.host, now);
                self.is_told = false;
            }
            may_stay
        });
        may_stay.then_some(self)
    }

    /// Gives a connection back that is ready for its next user, and frees the place.
    pub(super) fn give_back(self, connection: C) {
        if let Some(place) = &self.place {
            place.keep_idle(connection);
        }
    }
}

impl<C> Drop for Place<C> {
    fn drop(&mut self) {
        let hosts = self.hosts.clone();
        hosts.change(|state, now| {
            state.end(self, now);
            // Under the lock: who comes meanwhile must not take it before those that wait.
            drop(self.place.take());
        });
    }
}

impl<C> Drop for Ticket<C> {
    fn drop(&mut self) {
        if self.receiver.is_terminated() {
            return;
        }
        let mut state = self.hosts.lock();
        // Who was served meanwhile is not there any more, and what it was given is dropped with its receiver.
        let at = state.queue.iter().position(|waiter| waiter.id == self.id);
        let left = at.and_then(|at| state.queue.remove(at));
        drop(state);
        drop(left);
    }
}

async fn until(rest: Option<Instant>) {
    match rest {
        Some(rest) => tokio::time::sleep_until(rest.into()).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use super::*;
    use crate::pool::PoolConfig;

    const REST: Duration = Duration::from_secs(3600);

    fn hosts(balance: Balance, max: usize, max_per_host: usize, failures: usize) -> Hosts<()> {
        let config = PoolConfig { max, waiting: 10, ..PoolConfig::default() };
        let names = ["a", "b", "c"].map(str::to_owned).into();
        let health = Health { failures, rest: REST, statuses: Vec::new() };
        Hosts::new("s", Pool::new("s", config), names, balance, Some(max_per_host), Some(&health), REST)
    }

    /// What is there at once.
    fn now<T>(future: impl Future<Output = T>) -> Option<T> {
        let mut future = std::pin::pin!(future);
        match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        }
    }

    fn place(hosts: &Hosts<()>) -> Place<()> {
        now(hosts.acquire(None, Tried::default())).expect("it is there at once").expect("there is a host")
    }

    fn in_flight(hosts: &Hosts<()>) -> [usize; 3] {
        let in_flight: Vec<_> = hosts.stats().iter().map(|host| host.in_flight).collect();
        in_flight.try_into().expect("there are three")
    }

    /// Has a host fail until it is set aside.
    fn set_aside(hosts: &Hosts<()>, host: usize) {
        let mut place = place(hosts);
        while place.host() != host {
            assert_eq!(place.go_elsewhere(Tried::only(place.host())), Elsewhere::There);
        }
        place.failed(&"test");
    }

    #[tokio::test]
    async fn turns_are_even() {
        let hosts = hosts(Balance::RoundRobin, 9, 9, 1);
        let places: Vec<_> = (0..9).map(|_| place(&hosts)).collect();
        assert_eq!(places.iter().map(Place::host).collect::<Vec<_>>(), [0, 1, 2, 0, 1, 2, 0, 1, 2]);
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
        set_aside(&hosts, 0);
        let mut places: Vec<_> = (0..4).map(|_| place(&hosts)).collect();
        assert_eq!(in_flight(&hosts), [0, 2, 2]);
        let waiting = hosts.acquire(None, Tried::default());
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
        assert!(now(hosts.acquire(None, Tried::default())).is_none());
        assert_eq!(hosts.pool().usage().waiting, 0, "it has left");
        drop(places);
        assert_eq!(in_flight(&hosts), [0, 0, 0]);
    }

    /// A place that was given to somebody who is gone is given to the next one.
    #[tokio::test]
    async fn no_place_is_lost_with_one_that_leaves() {
        let hosts = hosts(Balance::RoundRobin, 1, 1, 1);
        let held = place(&hosts);
        let mut first = Box::pin(hosts.acquire(None, Tried::default()));
        let mut second = Box::pin(hosts.acquire(None, Tried::default()));
        assert!(now(first.as_mut()).is_none() && now(second.as_mut()).is_none());
        drop(held);
        assert!(now(second.as_mut()).is_none(), "first come, first served");
        drop(first);
        assert!(second.await.is_ok());
        assert_eq!((in_flight(&hosts), hosts.pool().usage().used), ([0, 0, 0], 0));
    }

    #[tokio::test]
    async fn nobody_waits_for_hosts_that_are_set_aside() {
        let hosts = hosts(Balance::RoundRobin, 9, 1, 1);
        let mut places: Vec<_> = (0..3).map(|_| place(&hosts)).collect();
        let waiting = hosts.acquire(None, Tried::default());
        tokio::pin!(waiting);
        assert!(now(waiting.as_mut()).is_none());
        for place in &mut places {
            place.failed(&"test");
        }
        let error = waiting.await.map(|_| ()).expect_err("there is no host");
        assert_eq!(error.code(), "upstream_unavailable");
        assert!(error.retry_delay().is_some_and(|delay| delay <= REST && delay > REST / 2));
        let error = now(hosts.acquire(None, Tried::default())).map(|place| place.map(|_| ()));
        assert!(matches!(error, Some(Err(_))), "at once");
    }

    /// Who waits for room learns when a host rests that was up before, and goes there once it may be tried.
    #[tokio::test]
    async fn a_rest_that_begins_later_is_waited_for() {
        let rest = Duration::from_millis(30);
        let config = PoolConfig { max: 9, waiting: 10, ..PoolConfig::default() };
        let names = ["a", "b"].map(str::to_owned).into();
        let health = Health { failures: 1, rest, statuses: Vec::new() };
        let pool = Pool::new("s", config);
        let hosts: Hosts<()> =
            Hosts::new("s", pool, names, Balance::RoundRobin, Some(1), Some(&health), REST);
        let (_held, mut fails) = (place(&hosts), place(&hosts));
        let waiting = tokio::spawn({
            let hosts = hosts.clone();
            async move { hosts.acquire(None, Tried::default()).await.map(|place| place.host()).ok() }
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
        let mut last = Box::pin(hosts.acquire(None, Tried::default()));
        assert!(now(last.as_mut()).is_none());
        let mut tried = Tried::only(0);
        tried.insert(1);
        let mut back = Box::pin(hosts.acquire(None, tried));
        assert!(now(back.as_mut()).is_none());
        drop(a);
        let last = last.await.expect("the host of the first suits the last");
        assert_eq!(last.host(), 0);
        drop(c);
        assert_eq!(back.await.expect("there is room").host(), 2);
        drop(b);
    }

    #[tokio::test]
    async fn going_elsewhere_frees_the_host_that_is_left() {
        let hosts = hosts(Balance::RoundRobin, 9, 1, 2);
        let mut a = place(&hosts);
        let b = place(&hosts);
        assert_eq!((a.go_elsewhere(Tried::only(0)), a.host()), (Elsewhere::There, 2));
        assert_eq!(in_flight(&hosts), [0, 1, 1]);
        let mut tried = Tried::only(0);
        tried.insert(2);
        assert_eq!(a.go_elsewhere(tried), Elsewhere::Full);
        tried.insert(1);
        assert_eq!(a.go_elsewhere(tried), Elsewhere::Nowhere);
        drop((a, b));
        assert_eq!((in_flight(&hosts), hosts.pool().usage().used), ([0, 0, 0], 0));
    }
}
