//! A pool: the open connections of one source, limited in number, and the bounded queue in front of
//! them.
//!
//! A [`Lease`] is the right to use one connection. A pool has `max` slots, and each lease occupies
//! one. Some slots are kept for lookups. Requests that find no slot wait in a [`queue`], in which
//! clients take turns and a lookup waits for at most one stream.
//!
//! At most `waiting` lists and `waiting` lookups may wait. Further requests are refused at once,
//! unless another client has more requests in the queue: then its last one is refused instead.
//! Requests that couldn't be served in time are refused too ([`pressure`]). No request waits longer
//! than `acquire_timeout` for its first slot.
//!
//! A response that needs several slots, one after the other or at the same time, is admitted as a
//! whole, as a [`Group`]. It's refused before its first call and never in the middle: once it has
//! begun, its calls wait as long as the response may take.
//!
//! The pool counts slots and keeps the idle connections. Their source opens, checks, cancels and
//! closes them. If slots differ, the source's [`Sites`] choose one that suits a request; the order
//! of the waiters is still the pool's. The invariants, which the tests check:
//!
//! 1. slots in use + free slots = `max`, at every moment, whatever is dropped and when; and streams
//!    leave the kept slots free;
//! 2. an idle connection has no owner, and is closed after `idle_timeout`;
//! 3. a lease that's dropped without giving its connection back frees its slot and closes the
//!    connection;
//! 4. a group is admitted if a slot is free and the queue is empty, or if fewer than `max` +
//!    `waiting` are inside. It counts as the number of slots that it may use at the same time. A
//!    group that knows how many calls it will make says so at the start, so that groups that arrive
//!    together don't overfill the queue later. A group that doesn't know ([`Group::resize`]) counts
//!    as the calls that it has made;
//! 5. a slot is handed out only together with its site, so a request that has one waits for nothing
//!    else.

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
pub use self::health::{Breaker, Epoch};
pub use self::health::{Health, HostCounts, HostStats};
pub use self::lease::Lease;
use self::lease::Permit;
use self::pressure::Pressure;
pub use self::queue::Priority;
pub use self::queue::ReservedSlots;
use self::queue::{NextWaiter, Queue, WaiterId};
pub use self::sites::{Choice, Sites, UniformSites};
pub use self::stats::Stats;
pub use self::stats::Usage;
use self::stats::{Counts, WaitClock};
use self::streams::Streams;
pub use self::streams::{SlowReader, SlowStream};
pub use self::waiter::{Patience, Waiter};
use crate::Error;
use crate::client::Client;
use crate::lock::Mutex;

/// The limits of a pool (`pool = { … }` of a source).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolConfig {
    /// The most connections that are open at a time.
    pub max: usize,
    /// How long a connection may be idle before it's closed.
    pub idle_timeout: Duration,
    /// How long a request waits for a connection.
    pub acquire_timeout: Duration,
    /// The number of lists that may wait at a time, and also of lookups.
    pub waiting: usize,
    /// The most idle connections that are kept open.
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
pub struct Pool<C, S: Sites = UniformSites>(Arc<PoolCore<C, S>>);

struct PoolCore<C, S: Sites> {
    config: PoolConfig,
    source: String,
    state: Mutex<PoolState<C, S>>,
    /// Wakes waiters when a site may have room earlier than [`Sites::next_room`] said before.
    rooms: Notify,
    /// See [`Pool::turn`].
    turns: Arc<Semaphore>,
    /// The requests that are admitted and haven't left: slots in use, waiters, and the further
    /// slots that groups may use. Lookups outside of groups don't count.
    inside: AtomicUsize,
    streams: Arc<Mutex<Streams>>,
    counts: Counts,
    /// The most recently used connection is last. New leases take it because it's warm; the cold
    /// ones reach their `idle_timeout`.
    idle: Mutex<Vec<IdleConnection<C>>>,
}

/// The slots in use, the requests that wait for one, and the sites of the slots.
struct PoolState<C, S: Sites> {
    queue: Queue<QueuedRequest<C, S>>,
    pressure: Pressure,
    sites: S,
}

struct IdleConnection<C> {
    connection: C,
    since: Instant,
}

/// A request for a slot.
struct SlotRequest<S: Sites> {
    priority: Priority,
    client: Client,
    wish: S::Wish,
}

/// The reply to a request for a slot.
enum SlotReply<C, S: Sites> {
    Lease(Lease<C, S>),
    Queued(LeaseReceiver<C, S>),
}

/// A request in the queue.
struct QueuedRequest<C, S: Sites> {
    wish: S::Wish,
    entry: AdmissionCount<C, S>,
    /// Sends the lease, or an error if no site will ever suit or another client's request waits
    /// instead.
    sender: oneshot::Sender<Result<Lease<C, S>, Error>>,
}

/// The requesting side of a place in the queue. Leaves the queue when it's dropped.
struct LeaseReceiver<C, S: Sites> {
    shared: Arc<PoolCore<C, S>>,
    waiter: WaiterId,
    receiver: oneshot::Receiver<Result<Lease<C, S>, Error>>,
}

/// Counts one request, or one group, as inside of the pool until it's dropped.
struct AdmissionCount<C, S: Sites> {
    shared: Arc<PoolCore<C, S>>,
    /// The slots that it may use at the same time. It's 0 for a call of a group, because the
    /// group's own entry counts, and for lookups.
    width: AtomicUsize,
}

impl<C, S: Sites> Clone for Pool<C, S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<C: Send + 'static> Pool<C> {
    /// A pool without connections whose slots are all alike. Errors name it as `source`.
    pub fn new(source: &str, config: PoolConfig) -> Self {
        Self::at(source, config, UniformSites)
    }

    /// Waits for a slot.
    ///
    /// # Errors
    /// 503 at once if `waiting` requests already wait, or later if another client's request takes
    /// the place in the queue. 504 if `acquire_timeout` is over, counted from the start of
    /// `patience`. Both name the source and say when to retry.
    pub async fn acquire(&self, priority: Priority, patience: Patience<'_>) -> Result<Lease<C>, Error> {
        self.acquire_at((), priority, patience).await
    }
}

impl<C: Send + 'static, S: Sites> Pool<C, S> {
    /// A pool without connections whose slots are at `sites`.
    pub fn at(source: &str, config: PoolConfig, sites: S) -> Self {
        Self(Arc::new(PoolCore {
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

    /// Waits for a slot at a site that suits.
    ///
    /// # Errors
    /// Those of [`Pool::acquire`], and an error at once if no site suits.
    pub async fn acquire_at(
        &self,
        wish: S::Wish,
        priority: Priority,
        patience: Patience<'_>,
    ) -> Result<Lease<C, S>, Error> {
        let request = SlotRequest { priority, client: patience.client(), wish };
        let mut receiver = match self.0.ask(request, None)? {
            SlotReply::Lease(place) => return Ok(place),
            SlotReply::Queued(receiver) => receiver,
        };
        let _clock = WaitClock::begin(&self.0);
        let until = patience.until(self.0.config.acquire_timeout);
        let given = tokio::time::timeout_at(until, receiver.wait()).await;
        given.unwrap_or_else(|_| Err(self.0.too_late()))
    }

    /// Returns a slot if one is free and no request waits; otherwise `None`. A request that already
    /// has a slot uses this for a further one, because it must not wait while it has one.
    pub fn try_acquire_at(&self, wish: &S::Wish, priority: Priority, client: Client) -> Option<Lease<C, S>> {
        let mut state = self.0.state();
        let Choice::At(at) = state.sites.choose(wish) else { return None };
        if state.queue.len() > 0 || !state.queue.take(priority) {
            return None;
        }
        let permit = Permit::new(&self.0, priority, client, state.sites.begin(at));
        self.0.counts.at_once.fetch_add(1, Ordering::Relaxed);
        Some(Lease { entry: AdmissionCount::of(&self.0, priority), permit })
    }

    /// Keeps slots for lookups from now on.
    pub fn keep(&self, reserved: ReservedSlots) {
        self.0.change(|state| state.queue.keep(reserved));
    }

    /// Counts a connection that was opened and that may serve several slots.
    pub fn opened(&self) {
        self.0.counts.opened.fetch_add(1, Ordering::Relaxed);
    }

    /// Waits until a task that isn't urgent, such as a follower, may call
    /// [`acquire`](Self::acquire). At most half as many as there are slots may do so at once, so
    /// that urgent requests find room in the queue.
    pub async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.0.turns).acquire_owned().await.ok()
    }

    /// The number of slots.
    pub fn max(&self) -> usize {
        self.0.config.max
    }

    /// How long a request waits for a connection.
    pub fn acquire_timeout(&self) -> Duration {
        self.0.config.acquire_timeout
    }

    /// Counts a refusal and returns its error, which says that `waiting` requests wait already and
    /// that no more may.
    pub fn refuse(&self, waiting: usize) -> Error {
        self.0.refuse(waiting)
    }

    /// Reads the sites under the pool's lock.
    pub fn look<T>(&self, look: impl FnOnce(&S) -> T) -> T {
        look(&self.0.state().sites)
    }

    /// Closes connections that have been idle for `idle_timeout`, until the pool is dropped.
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

    /// The slots in use, the idle connections, and the waiters.
    pub fn usage(&self) -> Usage {
        let idle = self.0.idle().len();
        let state = self.0.state();
        Usage { used: state.queue.used(), idle, waiting: state.queue.len() }
    }

    /// For how long a stream of `client`, which reads at the speed of `reader`, has had to give its
    /// slot up for a waiter. `None` if it may keep it. The stream is registered as `slow` from now
    /// on.
    pub fn gives_way(
        &self,
        slow: &mut Option<SlowStream>,
        client: Client,
        reader: SlowReader,
    ) -> Option<Duration> {
        let slow = slow.get_or_insert_with(|| Streams::slow(&self.0.streams, client));
        let state = self.0.state();
        slow.gives_way(reader, state.queue.clients())
    }

    /// True if no slot is free.
    pub fn is_full(&self) -> bool {
        self.0.state().queue.used() >= self.0.config.max
    }
}

impl<C, S: Sites> PoolCore<C, S> {
    fn idle(&self) -> MutexGuard<'_, Vec<IdleConnection<C>>> {
        self.idle.lock()
    }

    fn state(&self) -> MutexGuard<'_, PoolState<C, S>> {
        self.state.lock()
    }

    /// Returns a lease, or the receiver of one. A request without an `entry` is new: it doesn't
    /// count as inside yet.
    ///
    /// # Errors
    /// 503 if the request may not wait; and an error if no site suits.
    fn ask(
        self: &Arc<Self>,
        request: SlotRequest<S>,
        entry: Option<AdmissionCount<C, S>>,
    ) -> Result<SlotReply<C, S>, Error> {
        let SlotRequest { priority, client, wish } = request;
        let mut state = self.state();
        match state.sites.choose(&wish) {
            Choice::Nowhere(error) => return Err(error),
            Choice::At(at) if state.queue.take(priority) => {
                let permit = Permit::new(self, priority, client, state.sites.begin(at));
                let entry = entry.unwrap_or_else(|| AdmissionCount::of(self, priority));
                self.counts.at_once.fetch_add(1, Ordering::Relaxed);
                return Ok(SlotReply::Lease(Lease { entry, permit }));
            }
            Choice::At(_) | Choice::Full | Choice::FullForAll => {}
        }
        let now = Instant::now();
        if entry.is_none() {
            let most = state.pressure.most(priority, &self.config, now);
            if !self.makes_room(&mut state.queue, priority, client, most) {
                // These waiters joined before a rate was known, and would be served too late.
                if state.queue.len_of(priority) > most {
                    let last = state.queue.shed(priority);
                    drop(last.map(|waits| waits.sender.send(Err(self.refuse(most)))));
                }
                return Err(self.refuse(most));
            }
        }
        let entry = entry.unwrap_or_else(|| AdmissionCount::of(self, priority));
        let (sender, receiver) = oneshot::channel();
        let waiter = state.queue.join(priority, client, QueuedRequest { wish, entry, sender });
        state.pressure.waits(priority, now);
        drop(state);
        Ok(SlotReply::Queued(LeaseReceiver { shared: Arc::clone(self), waiter, receiver }))
    }

    /// True if one more request of this priority may wait when `most` may. If the queue is full and
    /// another client has more requests in it, the last one of those is refused to make room.
    fn makes_room(
        &self,
        queue: &mut Queue<QueuedRequest<C, S>>,
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

    /// True if one more request may come inside. A free slot counts only if the queue is empty: if
    /// requests wait although it's free, it doesn't suit them.
    fn has_room(&self, queue: &Queue<QueuedRequest<C, S>>) -> bool {
        let most = self.config.max.saturating_add(self.config.waiting);
        let is_free = queue.used() < self.config.max && queue.len() == 0;
        is_free || self.inside.load(Ordering::Relaxed) < most
    }

    /// Changes the state and then serves the waiters for whom there's a slot. The lock is held from
    /// the change to the choice of the first of them, so no new request can take that slot.
    fn change<T>(self: &Arc<Self>, change: impl FnOnce(&mut PoolState<C, S>) -> T) -> T {
        let mut state = self.state();
        let changed = change(&mut state);
        while let Some(next) = state.next() {
            let (sender, given) = match next {
                NextWaiter::Served((priority, client), QueuedRequest { entry, sender, .. }, at) => {
                    state.pressure.serves(priority, Instant::now());
                    let permit = Permit::new(self, priority, client, state.sites.begin(at));
                    (sender, Ok(Lease { entry, permit }))
                }
                NextWaiter::Exhausted(QueuedRequest { sender, .. }, error) => (sender, Err(error)),
            };
            drop(state);
            // If the waiter has left meanwhile, its lease is dropped here, and that serves the next
            // one.
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

    /// The error of a request that may not wait because `waiting` requests already do.
    fn refused(&self) -> Error {
        self.refuse(self.config.waiting)
    }

    /// Counts a timeout and returns its error.
    fn too_late(&self) -> Error {
        self.counts.timed_out.fetch_add(1, Ordering::Relaxed);
        Error::pool_timeout(&self.source, self.config.acquire_timeout)
    }
}

impl<C, S: Sites> PoolState<C, S> {
    /// Resets the load of each priority that has no waiters.
    fn settle(&mut self) {
        for priority in Priority::ALL.into_iter().filter(|priority| self.queue.len_of(*priority) == 0) {
            self.pressure.ends(priority);
        }
    }

    fn next(&mut self) -> Option<NextWaiter<QueuedRequest<C, S>, S::ChosenSite>> {
        let sites = &self.sites;
        self.queue.next(|waits| sites.choose(&waits.wish))
    }
}

impl<C, S: Sites> LeaseReceiver<C, S> {
    /// Waits for the lease. Also serves the queue whenever a site gets room although no slot was
    /// freed.
    async fn wait(&mut self) -> Result<Lease<C, S>, Error> {
        loop {
            // Created before we ask for the next room, so that an announcement in between isn't
            // missed.
            let announced = self.shared.rooms.notified();
            let next_room = self.shared.state().sites.next_room();
            tokio::select! {
                biased;
                // A request that is removed from the queue always gets an answer first, so the
                // channel isn't closed without one.
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

impl<C, S: Sites> Drop for LeaseReceiver<C, S> {
    fn drop(&mut self) {
        // A request that was served has left the queue already. Its lease is dropped with
        // `receiver`.
        let mut state = self.shared.state();
        let left = state.queue.leave(self.waiter);
        state.settle();
        drop(state);
        drop(left);
    }
}

impl<C, S: Sites> AdmissionCount<C, S> {
    /// The entry of one request. Only lists count: lookups have a limit of their own, so that
    /// neither keeps the other out.
    fn of(shared: &Arc<PoolCore<C, S>>, priority: Priority) -> Self {
        Self::new(shared, usize::from(priority == Priority::Stream))
    }

    /// Doesn't check the limit: a request that has a slot counts even if it's one too many.
    fn new(shared: &Arc<PoolCore<C, S>>, width: usize) -> Self {
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

impl<C, S: Sites> Drop for AdmissionCount<C, S> {
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

    /// While lists filled the queue, 18 of 48 lookups were refused.
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

    /// Queues exist for bursts: each request that's refused after one evicts at most one waiter.
    #[tokio::test(start_paused = true)]
    async fn a_burst_is_served_though_some_come_after_it() {
        let config = PoolConfig { max: 1, waiting: 1000, ..PoolConfig::default() };
        let pool = Pool::<()>::new("test", config);
        let mut requests = tokio::task::JoinSet::new();
        for number in 0..320 {
            let pool = pool.clone();
            requests.spawn(async move {
                // 300 requests at once, and ten a second after that.
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

    /// At ten times the load that the pool can carry, every request waited for five seconds, or
    /// until the timeout.
    #[tokio::test(start_paused = true)]
    async fn under_overload_who_is_served_has_not_waited_long() {
        let config = PoolConfig { max: 1, waiting: 10_000, ..PoolConfig::default() };
        let pool = Pool::<()>::new("test", config);
        let begun = Instant::now();
        let mut requests = tokio::task::JoinSet::new();
        // The pool serves a hundred requests a second, for twenty seconds.
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
        // The longest waits are those of the first half second, when no rate was known.
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
