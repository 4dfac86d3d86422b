//! A pool: the open connections of one source, bounded in number, and the bounded queue before it.
//!
//! A [`Lease`] is the right to hold one connection. Those who wait for one are served by turns of
//! their clients, lookups for one stream at most after those before them ([`queue`]), and some
//! places are kept for lookups. Beyond `waiting` lists in the queue, and `waiting` lookups, the
//! answer is an error at once, unless another client has more of them there: then its last one has
//! to go. The same holds for whoever could not be served in time ([`pressure`]). Nobody waits
//! for a first place longer than `acquire_timeout`. A response that takes several places, one after
//! the other or side by side, is let in as a whole, as a [`Group`]: it is refused before its first
//! call, and never in the middle, whose further calls wait as long as their response may take. What
//! a place does with its connection (open, check, cancel, close) is its source's affair; the pool
//! counts places and keeps the idle connections. Where places are not all alike, the source's
//! [`Sites`] choose which one suits whom; the order of those who wait is the pool's all the same.
//! The invariants, which the tests check:
//!
//! 1. places in use + free places = `max`, at every moment, whatever is dropped when, and streams
//!    leave those free that are kept;
//! 2. an idle connection belongs to nobody, and is closed after `idle_timeout`;
//! 3. a place that is dropped without giving its connection back frees the place and closes the
//!    connection;
//! 4. a group is let in that finds fewer than `max` + `waiting` inside, or a free place. It is
//!    inside with as many as it says that it may have at a time: one that knows how many it will
//!    ask for says so at the start, so that groups which come together do not overfill the queue
//!    later; one that does not ([`Group::resize`]) is as wide as what it has asked for;
//! 5. a place is handed out only together with its site: nobody who has one waits for another
//!    thing.

mod group;
mod health;
mod lease;
mod pressure;
mod queue;
mod sites;
mod stats;
mod streams;
mod turns;
mod waiter;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::Instant;

pub use self::group::Group;
pub(crate) use self::health::{Breaker, Epoch};
pub use self::health::{Health, HostCounts, HostStats};
pub use self::lease::Lease;
use self::lease::Permit;
use self::pressure::Pressure;
pub(crate) use self::queue::Kept;
pub use self::queue::Priority;
use self::queue::{Next, Queue, Standing};
pub use self::sites::{Alike, Choice, Sites};
pub(crate) use self::stats::Stats;
pub use self::stats::Usage;
use self::stats::{Counts, WaitClock};
use self::streams::Streams;
pub(crate) use self::streams::{SlowReader, SlowStream};
pub use self::waiter::{Patience, Waiter};
use crate::Error;
use crate::client::Client;
use crate::lock::Mutex;

/// The limits of a pool (`pool = { … }` of a source).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolConfig {
    /// Most connections open at a time.
    pub max: usize,
    /// How long a connection may be idle before it is closed.
    pub idle_timeout: Duration,
    /// How long a request waits for a connection.
    pub acquire_timeout: Duration,
    /// How many lists may wait at a time, and how many lookups.
    pub waiting: usize,
    /// Most connections that are kept while nobody uses them.
    pub max_idle: usize,
}

impl Default for PoolConfig {
    fn default() -> Self {
        Self {
            max: 20,
            idle_timeout: Duration::from_secs(600),
            acquire_timeout: Duration::from_secs(5),
            waiting: 100,
            max_idle: usize::MAX,
        }
    }
}

/// The pool of one source, for connections of type `C`.
pub struct Pool<C, S: Sites = Alike>(Arc<Shared<C, S>>);

struct Shared<C, S: Sites> {
    config: PoolConfig,
    source: String,
    state: Mutex<PoolState<C, S>>,
    /// Told where those who wait may find room earlier than [`Sites::next_room`] has said before.
    rooms: Notify,
    /// See [`Pool::turn`].
    turns: Arc<Semaphore>,
    /// Those that were let in and have not gone: places in use, requests that wait, and what groups
    /// may take beyond what they have.
    inside: AtomicUsize,
    streams: Arc<Mutex<Streams>>,
    counts: Counts,
    /// The most recently used connection is last: it is warm, and the cold ones reach their
    /// `idle_timeout`.
    idle: Mutex<Vec<Idle<C>>>,
}

/// How many places are taken, by whom they are waited for, and where they are.
struct PoolState<C, S: Sites> {
    queue: Queue<Waits<C, S>>,
    pressure: Pressure,
    sites: S,
}

struct Idle<C> {
    connection: C,
    since: Instant,
}

/// What somebody asks the pool for.
struct Asks<S: Sites> {
    priority: Priority,
    client: Client,
    wish: S::Wish,
}

/// What became of asking for a place.
enum Asked<C, S: Sites> {
    Given(Lease<C, S>),
    Waits(Ticket<C, S>),
}

/// Somebody in the queue.
struct Waits<C, S: Sites> {
    wish: S::Wish,
    entry: Entry<C, S>,
    /// The place; an error where there will be none, or another client's request waits instead.
    sender: oneshot::Sender<Result<Lease<C, S>, Error>>,
}

/// Somebody's own end of the queue; leaves it when dropped.
struct Ticket<C, S: Sites> {
    shared: Arc<Shared<C, S>>,
    standing: Standing,
    receiver: oneshot::Receiver<Result<Lease<C, S>, Error>>,
}

/// What is inside of the pool with one request; leaves it when dropped.
struct Entry<C, S: Sites> {
    shared: Arc<Shared<C, S>>,
    /// How many places it may have at a time; 0 for those of a group, which are inside with it.
    width: AtomicUsize,
}

impl<C, S: Sites> Clone for Pool<C, S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<C: Send + 'static> Pool<C> {
    /// A pool without connections, whose places are all alike; `source` names it in errors.
    pub fn new(source: &str, config: PoolConfig) -> Self {
        Self::at(source, config, Alike)
    }

    /// Waits for a place.
    ///
    /// # Errors
    /// 503 at once when `waiting` requests wait already, or later where it has to go for another
    /// client's; 504 when `acquire_timeout` is over, as `patience` counts it. Both name the source
    /// and say when to retry.
    pub async fn acquire(&self, priority: Priority, patience: Patience<'_>) -> Result<Lease<C>, Error> {
        self.acquire_at((), priority, patience).await
    }
}

impl<C: Send + 'static, S: Sites> Pool<C, S> {
    /// A pool without connections, whose places are at `sites`.
    pub(crate) fn at(source: &str, config: PoolConfig, sites: S) -> Self {
        Self(Arc::new(Shared {
            state: Mutex::new(PoolState {
                queue: Queue::new(config.max),
                pressure: Pressure::default(),
                sites,
            }),
            rooms: Notify::new(),
            turns: Arc::new(Semaphore::new((config.max / 2).max(1))),
            inside: AtomicUsize::new(0),
            streams: Arc::default(),
            counts: Counts::default(),
            idle: Mutex::new(Vec::new()),
            source: source.to_owned(),
            config,
        }))
    }

    /// Waits for a place at a site that suits.
    ///
    /// # Errors
    /// As [`Pool::acquire`]; and at once where there is no such site.
    pub(crate) async fn acquire_at(
        &self,
        wish: S::Wish,
        priority: Priority,
        patience: Patience<'_>,
    ) -> Result<Lease<C, S>, Error> {
        let asks = Asks { priority, client: patience.client(), wish };
        let mut ticket = match self.0.ask(asks, None)? {
            Asked::Given(place) => return Ok(place),
            Asked::Waits(ticket) => ticket,
        };
        let _clock = WaitClock::begin(&self.0);
        let until = patience.until(self.0.config.acquire_timeout);
        let given = tokio::time::timeout_at(until, ticket.wait()).await;
        given.unwrap_or_else(|_| Err(self.0.too_late()))
    }

    /// A place that is free and that nobody waits for; `None`: there is none. Whoever holds a place
    /// and wants a further one asks so: nobody who holds one waits.
    pub(crate) fn try_acquire_at(
        &self,
        wish: &S::Wish,
        priority: Priority,
        client: Client,
    ) -> Option<Lease<C, S>> {
        let mut state = self.0.state();
        let Choice::At(at) = state.sites.choose(wish) else { return None };
        if state.queue.len() > 0 || !state.queue.take(priority) {
            return None;
        }
        let permit = Permit::new(&self.0, (priority, client), state.sites.begin(at));
        self.0.counts.at_once.fetch_add(1, Ordering::Relaxed);
        Some(Lease { entry: Entry::of(&self.0, priority), permit })
    }

    /// Keeps places for lookups from now on.
    pub(crate) fn keep(&self, kept: Kept) {
        self.0.change(|state| state.queue.keep(kept));
    }

    /// A connection was opened that may serve several places.
    pub fn opened(&self) {
        self.0.counts.opened.fetch_add(1, Ordering::Relaxed);
    }

    /// Waits for the turn of one that has time, such as a follower: half as many as there are
    /// places may [`acquire`](Self::acquire) at once, so that they leave room in the queue for
    /// those that have none.
    pub async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.0.turns).acquire_owned().await.ok()
    }

    /// How many places there are.
    pub(crate) fn max(&self) -> usize {
        self.0.config.max
    }

    /// How long a request waits for a connection.
    pub fn acquire_timeout(&self) -> Duration {
        self.0.config.acquire_timeout
    }

    /// The error of a request before which `waiting` others wait, which are as many as may; it is
    /// counted.
    pub fn refuse(&self, waiting: usize) -> Error {
        self.0.refuse(waiting)
    }

    /// Looks at the sites.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&S) -> T) -> T {
        look(&self.0.state().sites)
    }

    /// Closes the connections that have been idle for `idle_timeout`, until the pool is dropped.
    pub fn reap(&self) -> impl Future<Output = ()> + use<C, S> {
        let shared = Arc::downgrade(&self.0);
        let period = (self.0.config.idle_timeout / 2).max(Duration::from_millis(50));
        async move {
            loop {
                tokio::time::sleep(period).await;
                let Some(shared) = shared.upgrade() else { return };
                let dead: Vec<_> = {
                    let mut idle = shared.idle();
                    let keep_from =
                        idle.partition_point(|idle| idle.since.elapsed() >= shared.config.idle_timeout);
                    idle.drain(..keep_from).collect()
                };
                drop(dead);
            }
        }
    }

    /// Places in use, idle connections, and requests that wait.
    pub fn usage(&self) -> Usage {
        let idle = self.0.idle().len();
        let state = self.0.state();
        Usage { used: state.queue.used(), idle, waiting: state.queue.len() }
    }

    /// For how long a stream of `client`, which reads so, has had to give its place up for a request
    /// that waits; `None`: it needn't. It's known as `slow` from now on.
    pub(crate) fn gives_way(
        &self,
        slow: &mut Option<SlowStream>,
        client: Client,
        reader: SlowReader,
    ) -> Option<Duration> {
        let slow = slow.get_or_insert_with(|| Streams::slow(&self.0.streams, client));
        let state = self.0.state();
        slow.gives_way(reader, state.queue.len(), state.queue.clients())
    }

    /// Whether no place is free.
    pub(crate) fn is_full(&self) -> bool {
        self.0.state().queue.used() >= self.0.config.max
    }
}

impl<C, S: Sites> Shared<C, S> {
    fn idle(&self) -> MutexGuard<'_, Vec<Idle<C>>> {
        self.idle.lock()
    }

    fn state(&self) -> MutexGuard<'_, PoolState<C, S>> {
        self.state.lock()
    }

    /// A place, or a standing in the queue. Who has no entry is not inside yet.
    ///
    /// # Errors
    /// 503 where it may not wait; and where no site suits.
    fn ask(self: &Arc<Self>, asks: Asks<S>, entry: Option<Entry<C, S>>) -> Result<Asked<C, S>, Error> {
        let Asks { priority, client, wish } = asks;
        let mut state = self.state();
        match state.sites.choose(&wish) {
            Choice::Nowhere(error) => return Err(error),
            Choice::At(at) if state.queue.take(priority) => {
                let permit = Permit::new(self, (priority, client), state.sites.begin(at));
                let entry = entry.unwrap_or_else(|| Entry::of(self, priority));
                self.counts.at_once.fetch_add(1, Ordering::Relaxed);
                return Ok(Asked::Given(Lease { entry, permit }));
            }
            Choice::At(_) | Choice::Full | Choice::FullForAll => {}
        }
        let now = Instant::now();
        if entry.is_none() {
            let most = state.pressure.most(priority, &self.config, now);
            if !self.makes_room(&mut state.queue, priority, client, most) {
                // Those who came before it was known that they would be served too late.
                if state.queue.len_of(priority) > most {
                    let last = state.queue.shed(priority);
                    drop(last.map(|waits| waits.sender.send(Err(self.refuse(most)))));
                }
                return Err(self.refuse(most));
            }
        }
        let entry = entry.unwrap_or_else(|| Entry::of(self, priority));
        let (sender, receiver) = oneshot::channel();
        let standing = state.queue.join(priority, client, Waits { wish, entry, sender });
        state.pressure.waits(priority, now);
        drop(state);
        Ok(Asked::Waits(Ticket { shared: Arc::clone(self), standing, receiver }))
    }

    /// Whether one more request of this priority may wait, of which `most` may. Where another
    /// client has more of them in the queue, its last one has to go.
    fn makes_room(
        &self,
        queue: &mut Queue<Waits<C, S>>,
        priority: Priority,
        client: Client,
        most: usize,
    ) -> bool {
        if queue.len_of(priority) < most {
            return priority != Priority::Stream || self.has_room(queue);
        }
        match queue.displace(priority, client) {
            Some(waits) => {
                drop(waits.sender.send(Err(self.refuse(most))));
                true
            }
            None => false,
        }
    }

    /// Whether one more may come inside. A free place before which somebody waits is one that does
    /// not suit.
    fn has_room(&self, queue: &Queue<Waits<C, S>>) -> bool {
        let most = self.config.max.saturating_add(self.config.waiting);
        let is_free = queue.used() < self.config.max && queue.len() == 0;
        is_free || self.inside.load(Ordering::Relaxed) < most
    }

    /// Changes something, and serves those for whom there is a place then, before anybody else can
    /// come.
    fn change<T>(self: &Arc<Self>, change: impl FnOnce(&mut PoolState<C, S>) -> T) -> T {
        let mut state = self.state();
        let changed = change(&mut state);
        while let Some(next) = state.next() {
            let (sender, given) = match next {
                Next::Served((priority, client), Waits { entry, sender, .. }, at) => {
                    state.pressure.serves(priority, Instant::now());
                    let permit = Permit::new(self, (priority, client), state.sites.begin(at));
                    (sender, Ok(Lease { entry, permit }))
                }
                Next::Exhausted(Waits { sender, .. }, error) => (sender, Err(error)),
            };
            drop(state);
            // One that has left meanwhile drops its place, which serves the next.
            drop(sender.send(given));
            state = self.state();
        }
        state.settle();
        changed
    }

    fn refuse(&self, waiting: usize) -> Error {
        self.counts.refused.fetch_add(1, Ordering::Relaxed);
        Error::pool_full(&self.source, waiting)
    }

    /// The error of a request that may not wait, because as many do as may.
    fn refused(&self) -> Error {
        self.refuse(self.config.waiting)
    }

    /// The error of a request that got no place in time; it is counted.
    fn too_late(&self) -> Error {
        self.counts.timed_out.fetch_add(1, Ordering::Relaxed);
        Error::pool_timeout(&self.source, self.config.acquire_timeout)
    }
}

impl<C, S: Sites> PoolState<C, S> {
    /// Nobody is under pressure where nobody waits.
    fn settle(&mut self) {
        for priority in Priority::ALL.into_iter().filter(|priority| self.queue.len_of(*priority) == 0) {
            self.pressure.ends(priority);
        }
    }

    fn next(&mut self) -> Option<Next<Waits<C, S>, S::At>> {
        let sites = &self.sites;
        self.queue.next(|waits| sites.choose(&waits.wish))
    }
}

impl<C, S: Sites> Ticket<C, S> {
    /// Waits for the place, also where a site has room before any place is given up.
    async fn wait(&mut self) -> Result<Lease<C, S>, Error> {
        loop {
            // Before it is asked when there is room: what is announced meanwhile is not missed.
            let announced = self.shared.rooms.notified();
            let next_room = self.shared.state().sites.next_room();
            tokio::select! {
                biased;
                // Whoever leaves the queue has learnt what came of it.
                given = &mut self.receiver => return given.unwrap_or_else(|_| Err(self.shared.refused())),
                () = until(next_room) => self.shared.change(|_| ()),
                () = announced => {}
            }
        }
    }
}

async fn until(moment: Option<std::time::Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment.into()).await,
        None => std::future::pending().await,
    }
}

impl<C, S: Sites> Drop for Ticket<C, S> {
    fn drop(&mut self) {
        // Who was served is not there any more, and what it was given is dropped with its receiver.
        let mut state = self.shared.state();
        let left = state.queue.leave(self.standing);
        state.settle();
        drop(state);
        drop(left);
    }
}

impl<C, S: Sites> Entry<C, S> {
    /// Of one request. Only lists are inside: as many lookups may wait besides, so that neither
    /// keeps the other out.
    fn of(shared: &Arc<Shared<C, S>>, priority: Priority) -> Self {
        Self::new(shared, usize::from(priority == Priority::Stream))
    }

    /// Whoever has a place is inside, however many there are.
    fn new(shared: &Arc<Shared<C, S>>, width: usize) -> Self {
        shared.inside.fetch_add(width, Ordering::Relaxed);
        Self { shared: Arc::clone(shared), width: AtomicUsize::new(width) }
    }

    fn resize(&self, width: usize) {
        let before = self.width.swap(width, Ordering::Relaxed);
        match width.checked_sub(before) {
            Some(more) => self.shared.inside.fetch_add(more, Ordering::Relaxed),
            None => self.shared.inside.fetch_sub(before - width, Ordering::Relaxed),
        };
    }
}

impl<C, S: Sites> Drop for Entry<C, S> {
    fn drop(&mut self) {
        self.resize(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn code<T>(result: Result<T, Error>) -> &'static str {
        result.err().map_or("none", |error| error.code())
    }

    /// Of 48 lookups 18 were refused while lists filled the queue.
    #[tokio::test]
    async fn lists_that_wait_keep_no_lookup_out_nor_lookups_a_list() {
        let config = PoolConfig { max: 1, waiting: 2, ..PoolConfig::default() };
        for (many, few) in [(Priority::Stream, Priority::Lookup), (Priority::Lookup, Priority::Stream)] {
            let pool = Pool::<()>::new("test", config.clone());
            let place = pool.acquire(many, Waiter::default().begin()).await.unwrap();
            let wait = |priority| {
                let pool = pool.clone();
                tokio::spawn(async move { code(pool.acquire(priority, Waiter::default().begin()).await) })
            };
            let waits: Vec<_> = [many, many, few, few].map(wait).into();
            while pool.usage().waiting < waits.len() {
                tokio::task::yield_now().await;
            }
            for priority in [many, few] {
                assert_eq!(code(pool.acquire(priority, Waiter::default().begin()).await), "pool_full");
            }
            drop(place);
            for waits in waits {
                assert_eq!(waits.await.unwrap(), "none");
            }
        }
    }

    /// A queue is for bursts: who comes after one takes one more along at most.
    #[tokio::test(start_paused = true)]
    async fn a_burst_is_served_though_some_come_after_it() {
        let config = PoolConfig { max: 1, waiting: 1000, ..PoolConfig::default() };
        let pool = Pool::<()>::new("test", config);
        let mut requests = tokio::task::JoinSet::new();
        for number in 0..320 {
            let pool = pool.clone();
            requests.spawn(async move {
                // Three hundred at once, and ten a second after them.
                tokio::time::sleep(Duration::from_millis(100) * u32::saturating_sub(number, 300)).await;
                let place = pool.acquire(Priority::Stream, Waiter::default().begin()).await;
                if place.is_ok() {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                code(place)
            });
        }
        let served = requests.join_all().await.into_iter().filter(|code| *code == "none").count();
        assert!(served >= 280, "{served}");
    }

    /// At ten times the load that is carried, everybody waited for five seconds, or until the timeout.
    #[tokio::test(start_paused = true)]
    async fn under_overload_who_is_served_has_not_waited_long() {
        let config = PoolConfig { max: 1, waiting: 10_000, ..PoolConfig::default() };
        let pool = Pool::<()>::new("test", config);
        let begun = Instant::now();
        let mut requests = tokio::task::JoinSet::new();
        // A hundred a second are served, for twenty seconds.
        for _ in 0..20_000 {
            let pool = pool.clone();
            requests.spawn(async move {
                let came = Instant::now();
                let place = pool.acquire(Priority::Stream, Waiter::default().begin()).await;
                let waited = came.elapsed();
                if place.is_ok() {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                (came, waited, code(place))
            });
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let ended = requests.join_all().await;
        let served = ended.iter().filter(|(_, _, code)| *code == "none");
        let late = |(came, waited, _): &&(Instant, Duration, _)| {
            *came > begun + Duration::from_secs(3) && *waited > Duration::from_millis(1500)
        };
        assert_eq!(served.clone().filter(late).count(), 0);
        // Those of the first half second, when no rate was known.
        assert!(served.clone().all(|(_, waited, _)| *waited < Duration::from_millis(1800)));
        assert!(served.count() > 1800, "the place is hardly ever idle");
        let refused = ended.iter().filter(|(_, _, code)| *code == "pool_full");
        let at_once = refused.clone().filter(|(_, waited, _)| waited.is_zero()).count();
        assert!(at_once * 100 >= refused.clone().count() * 97, "who is refused is refused at once");
        assert!(
            refused.clone().all(|(_, waited, _)| *waited < Duration::from_secs(1)),
            "or in the first second"
        );
        assert!(refused.count() > 15_000);
    }
}
