//! A pool: the open connections of one source, bounded in number, and the bounded queue before it.
//!
//! A [`Place`] is the right to hold one connection. Those who wait for one are served by turns of
//! their clients, look-ups for one stream at most behind those before them ([`queue`]), and some
//! places are kept for look-ups. Beyond `waiting` requests in the queue the answer is an error at
//! once, unless another client has more of them there: then its last one has to go. Nobody waits
//! for a first place longer than `acquire_timeout`. A response that takes several places, one after
//! the other or side by side, is let in as a whole, as a [`Group`]: it is refused before its first
//! call, and never in the middle, whose further calls wait as long as their response may take. What
//! a place does with its connection (open, check, cancel, close) is its source's affair; the pool
//! counts places and keeps the idle connections. The invariants, which the tests check:
//!
//! 1. places in use + free places = `max`, at every moment, whatever is dropped when, and streams leave those free that are kept;
//! 2. an idle connection belongs to nobody, and is closed after `idle_timeout`;
//! 3. a place that is dropped without giving its connection back frees the place and closes the connection;
//! 4. a group is let in that finds fewer than `max` + `waiting` inside, or a free place. It is inside with as many as it says that it may
//!    have at a time: one that knows how many it will ask for says so at the start, so that groups which come together do not
//!    overfill the queue later; one that does not ([`Group::resize`]) is as wide as what it has asked for.

mod queue;
mod turns;
mod waiter;

use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::Instant;

pub use self::queue::Errand;
pub(crate) use self::queue::Kept;
use self::queue::{Queue, Standing};
pub use self::waiter::{Patience, Waiter};
use crate::Error;
use crate::client::Client;
use crate::histogram::{Histogram, WAITS};

/// The limits of a pool (`pool = { … }` of a source).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolConfig {
    /// Most connections open at a time.
    pub max: usize,
    /// How long a connection may be idle before it is closed.
    pub idle_timeout: Duration,
    /// How long a request waits for a connection.
    pub acquire_timeout: Duration,
    /// How many requests may wait at a time.
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
pub struct Pool<C>(Arc<Shared<C>>);

struct Shared<C> {
    config: PoolConfig,
    source: String,
    queue: Mutex<Queue<oneshot::Sender<Permit<C>>>>,
    /// See [`Pool::turn`].
    turns: Arc<Semaphore>,
    /// Those that were let in and have not gone: places in use, requests that wait, and what groups may take beyond what they have.
    inside: AtomicUsize,
    waiting: AtomicUsize,
    /// See [`Pool::vacate`].
    given_up: Arc<AtomicUsize>,
    counts: Counts,
    /// The most recently used connection is last: it is warm, and the cold ones reach their `idle_timeout`.
    idle: Mutex<Vec<Idle<C>>>,
}

/// What happened so far.
struct Counts {
    /// Places that were taken without waiting.
    at_once: AtomicU64,
    /// Of requests that waited, how long they did, whatever came of it.
    waits: Mutex<Histogram>,
    opened: AtomicU64,
    timed_out: AtomicU64,
    refused: AtomicU64,
}

impl Default for Counts {
    fn default() -> Self {
        let [at_once, opened, timed_out, refused] = [0; 4].map(AtomicU64::new);
        Self { at_once, waits: Mutex::new(Histogram::new(WAITS)), opened, timed_out, refused }
    }
}

struct Idle<C> {
    connection: C,
    since: Instant,
}

/// The right to one connection of the pool; see the invariants above.
pub struct Place<C> {
    // Dropped before the permit: who is let in for it may have to wait a moment, and nobody is refused while a place is free.
    entry: Entry<C>,
    _permit: Permit<C>,
}

/// One place, which is free again when it is dropped.
struct Permit<C> {
    shared: Arc<Shared<C>>,
    errand: Errand,
}

/// What became of asking for a place.
enum Asked<C> {
    Given(Permit<C>),
    Waits(Ticket<C>),
    /// As many wait as may.
    Refused,
}

/// Somebody's end of the queue; leaves it when dropped.
struct Ticket<C> {
    shared: Arc<Shared<C>>,
    standing: Standing,
    /// The place; an error where another client's request is let wait instead.
    receiver: oneshot::Receiver<Permit<C>>,
}

/// What is inside of the pool with one request; leaves it when dropped.
pub(crate) struct Entry<C> {
    shared: Arc<Shared<C>>,
    /// How many places it may have at a time; 0 for those of a group, which are inside with it.
    width: AtomicUsize,
}

/// The calls of one response, which are let in together. They take places as others do; none of them is refused, and once one has had a
/// place the others wait as long as it takes.
pub struct Group<C> {
    entry: Entry<C>,
    has_begun: AtomicBool,
}

impl<C> Clone for Pool<C> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<C> Pool<C> {
    /// A place, if one is free; `width` is 0 for one that was let in before, else 1. For whoever keeps the order of those that wait by
    /// itself, because places are not all alike; those wait by [`Pool::wait_for`], or as a [`Group`].
    pub(crate) fn try_place(&self, width: usize) -> Option<Place<C>> {
        let permit = self.0.take(Errand::Shared)?;
        Some(Place { entry: Entry::new(&self.0, width), _permit: permit })
    }
}

impl<C: Send + 'static> Pool<C> {
    /// A pool without connections; `source` names it in errors.
    pub fn new(source: &str, config: PoolConfig) -> Self {
        Self(Arc::new(Shared {
            queue: Mutex::new(Queue::new(config.max)),
            turns: Arc::new(Semaphore::new((config.max / 2).max(1))),
            inside: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            given_up: Arc::default(),
            counts: Counts::default(),
            idle: Mutex::new(Vec::new()),
            source: source.to_owned(),
            config,
        }))
    }

    /// Waits for a place.
    ///
    /// # Errors
    /// 503 at once when `waiting` requests wait already, or later where it has to go for another
    /// client's; 504 when `acquire_timeout` is over, as `patience` counts it. Both name the source
    /// and say when to retry.
    pub async fn acquire(&self, errand: Errand, patience: Patience<'_>) -> Result<Place<C>, Error> {
        let permit = match self.0.ask(errand, patience.client()) {
            Asked::Given(permit) => {
                self.took_at_once();
                permit
            }
            Asked::Waits(mut ticket) => {
                let _waiting = Waiting::begin(&self.0);
                let until = patience.until(self.0.config.acquire_timeout);
                match tokio::time::timeout_at(until, &mut ticket.receiver).await {
                    Ok(Ok(permit)) => permit,
                    Ok(Err(_)) => return Err(self.refuse(self.0.config.waiting)),
                    Err(_) => return Err(self.0.too_late()),
                }
            }
            Asked::Refused => return Err(self.refuse(self.0.config.waiting)),
        };
        Ok(Place { entry: Entry::new(&self.0, 1), _permit: permit })
    }

    /// Keeps places for look-ups from now on.
    pub(crate) fn keep(&self, kept: Kept) {
        self.0.change(|queue| queue.keep(kept));
    }

    /// Lets calls in that take up to `width` places at a time.
    ///
    /// # Errors
    /// 503 at once when `waiting` requests wait already.
    pub fn enter(&self, width: usize) -> Result<Group<C>, Error> {
        Ok(Group { entry: self.let_in(width)?, has_begun: AtomicBool::new(false) })
    }

    /// Lets one in that takes up to `width` places at a time.
    ///
    /// # Errors
    /// 503 at once when `waiting` requests wait already.
    pub(crate) fn let_in(&self, width: usize) -> Result<Entry<C>, Error> {
        let config = &self.0.config;
        let most = config.max.saturating_add(config.waiting);
        // A free place before which somebody waits is one that does not suit.
        let is_free = || !self.is_full() && self.0.waiting.load(Ordering::Relaxed) == 0;
        let has_room = |inside| inside < most || is_free();
        let inside = &self.0.inside;
        let entered = inside.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |inside| {
            has_room(inside).then_some(inside + width)
        });
        match entered {
            Ok(_) => Ok(Entry { shared: Arc::clone(&self.0), width: AtomicUsize::new(width) }),
            Err(_) => Err(self.refuse(config.waiting)),
        }
    }

    /// A connection was opened that may serve several places.
    pub fn opened(&self) {
        self.0.counts.opened.fetch_add(1, Ordering::Relaxed);
    }

    /// Waits for the turn of one that has time, such as a follower: half as many as there are places may [`acquire`](Self::acquire) at
    /// once, so that they leave room in the queue for those that have none.
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

    /// A place was taken without waiting that [`Pool::try_place`] gave.
    pub(crate) fn took_at_once(&self) {
        self.0.counts.at_once.fetch_add(1, Ordering::Relaxed);
    }

    /// Waits for a place that somebody else hands out, as one that was let in: counted, bounded in number and in time. There may be free places
    /// meanwhile, which do not suit.
    ///
    /// # Errors
    /// As [`Pool::acquire`].
    pub(crate) async fn wait_for<T>(&self, place: impl Future<Output = T>) -> Result<T, Error> {
        let most = self.0.config.waiting;
        let _waiting = Waiting::enter(&self.0, most).ok_or_else(|| self.refuse(most))?;
        tokio::time::timeout(self.0.config.acquire_timeout, place).await.map_err(|_| self.0.too_late())
    }

    /// The same, for one that had a place already: it is not refused.
    ///
    /// # Errors
    /// 504 after `acquire_timeout`.
    pub(crate) async fn wait_again<T>(&self, place: impl Future<Output = T>) -> Result<T, Error> {
        let _waiting = Waiting::begin(&self.0);
        tokio::time::timeout(self.0.config.acquire_timeout, place).await.map_err(|_| self.0.too_late())
    }

    /// The error of a request before which `waiting` others wait, which are as many as may; it is counted.
    pub fn refuse(&self, waiting: usize) -> Error {
        self.0.counts.refused.fetch_add(1, Ordering::Relaxed);
        Error::pool_full(&self.0.source, waiting)
    }

    /// Closes the connections that have been idle for `idle_timeout`, until the pool is dropped.
    pub fn reap(&self) -> impl Future<Output = ()> + use<C> {
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
        Usage {
            used: self.0.queue().used(),
            idle: self.0.idle().len(),
            waiting: self.0.waiting.load(Ordering::Relaxed),
        }
    }

    /// Says that a place is about to be given up for one of the requests that wait; `None`: none
    /// waits, or a place is given up for each already.
    pub(crate) fn vacate(&self) -> Option<Vacating> {
        let waiting = self.0.queue().len();
        let one_more = |given_up| (given_up < waiting).then_some(given_up + 1);
        let given_up = &self.0.given_up;
        given_up.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).ok()?;
        Some(Vacating(Arc::clone(given_up)))
    }

    /// Whether no place is free.
    pub(crate) fn is_full(&self) -> bool {
        self.0.queue().used() >= self.0.config.max
    }

    /// All that is known of it.
    pub(crate) fn stats(&self) -> Stats {
        let Shared { config, counts, .. } = &*self.0;
        let mut waits = lock(&counts.waits).clone();
        waits.add_instants(counts.at_once.load(Ordering::Relaxed));
        Stats {
            max: config.max,
            waiting_max: config.waiting,
            usage: self.usage(),
            waits,
            opened: counts.opened.load(Ordering::Relaxed),
            timed_out: counts.timed_out.load(Ordering::Relaxed),
            refused: counts.refused.load(Ordering::Relaxed),
        }
    }
}

/// A place that is about to be given up for a request that waits; counts until it is dropped.
#[derive(Debug)]
pub(crate) struct Vacating(Arc<AtomicUsize>);

impl Drop for Vacating {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A pool's limits, what it holds at a moment, and what happened so far.
#[derive(Debug, Clone)]
pub(crate) struct Stats {
    /// Most connections open at a time.
    pub(crate) max: usize,
    /// How many requests may wait at a time.
    pub(crate) waiting_max: usize,
    pub(crate) usage: Usage,
    /// How long requests waited for a place, whether they got one or not.
    pub(crate) waits: Histogram,
    /// Connections that were opened.
    pub(crate) opened: u64,
    /// Requests that got no place in time.
    pub(crate) timed_out: u64,
    /// Requests that were not let wait.
    pub(crate) refused: u64,
}

/// What a pool holds at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Places in use.
    pub used: usize,
    /// Connections open and idle.
    pub idle: usize,
    /// Requests in the queue.
    pub waiting: usize,
}

impl<C> Shared<C> {
    fn idle(&self) -> MutexGuard<'_, Vec<Idle<C>>> {
        lock(&self.idle)
    }

    fn queue(&self) -> MutexGuard<'_, Queue<oneshot::Sender<Permit<C>>>> {
        lock(&self.queue)
    }

    /// A place, if there is one for this errand.
    fn take(self: &Arc<Self>, errand: Errand) -> Option<Permit<C>> {
        let taken = self.queue().take(errand);
        taken.then(|| Permit { shared: Arc::clone(self), errand })
    }

    /// A place, or a standing in the queue.
    fn ask(self: &Arc<Self>, errand: Errand, client: Client) -> Asked<C> {
        let mut queue = self.queue();
        if queue.take(errand) {
            return Asked::Given(Permit { shared: Arc::clone(self), errand });
        }
        // Dropped, it tells its receiver.
        if queue.len() >= self.config.waiting && queue.displace(client).is_none() {
            return Asked::Refused;
        }
        let (sender, receiver) = oneshot::channel();
        let standing = queue.join(errand, client, sender);
        drop(queue);
        Asked::Waits(Ticket { shared: Arc::clone(self), standing, receiver })
    }

    /// Changes something, and serves those for whom there is a place then, before anybody else can
    /// come.
    fn change(self: &Arc<Self>, change: impl FnOnce(&mut Queue<oneshot::Sender<Permit<C>>>)) {
        let mut queue = self.queue();
        change(&mut queue);
        while let Some((errand, sender)) = queue.next() {
            drop(queue);
            // One that has left meanwhile drops its place, which serves the next.
            drop(sender.send(Permit { shared: Arc::clone(self), errand }));
            queue = self.queue();
        }
    }

    /// The error of a request that got no place in time; it is counted.
    fn too_late(&self) -> Error {
        self.counts.timed_out.fetch_add(1, Ordering::Relaxed);
        Error::pool_timeout(&self.source, self.config.acquire_timeout)
    }
}

impl<C> Drop for Permit<C> {
    fn drop(&mut self) {
        let shared = Arc::clone(&self.shared);
        shared.change(|queue| queue.give(self.errand));
    }
}

impl<C> Drop for Ticket<C> {
    fn drop(&mut self) {
        // Who was served is not there any more, and what it was given is dropped with its receiver.
        let left = self.shared.queue().leave(self.standing);
        drop(left);
    }
}

impl<C> Entry<C> {
    /// Whoever has a place is inside, however many there are.
    fn new(shared: &Arc<Shared<C>>, width: usize) -> Self {
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

impl<C> Drop for Entry<C> {
    fn drop(&mut self) {
        self.resize(0);
    }
}

impl<C> Group<C> {
    /// Waits for a place for one of the calls, which somebody else hands out.
    ///
    /// # Errors
    /// 504 when none of them has had one after `acquire_timeout`.
    pub(crate) async fn wait_for<T>(&self, place: impl Future<Output = T>) -> Result<T, Error> {
        let shared = &self.entry.shared;
        let _waiting = Waiting::begin(shared);
        let mut place = pin!(place);
        match tokio::time::timeout(shared.config.acquire_timeout, &mut place).await {
            Ok(place) => Ok(place),
            // The response is on its way; failing it now would waste what was done for it.
            Err(_) if self.has_begun() => Ok(place.await),
            Err(_) => Err(shared.too_late()),
        }
    }

    /// Whether one of the calls has had a place.
    pub(crate) fn has_begun(&self) -> bool {
        self.has_begun.load(Ordering::Relaxed)
    }

    /// One of the calls has a place.
    pub(crate) fn begin(&self) {
        self.has_begun.store(true, Ordering::Relaxed);
    }

    /// From now on there are up to `width` calls at a time: others may come in for the rest.
    pub fn resize(&self, width: usize) {
        self.entry.resize(width);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing under these locks panics half way; a poisoned list is still a list.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<C> Place<C> {
    /// What its user was let in with, who gives the place up and waits for another one.
    pub(crate) fn keep_entry(&mut self) -> Entry<C> {
        let none = Entry::new(&self.entry.shared, 0);
        std::mem::replace(&mut self.entry, none)
    }

    /// Takes over what its user was let in with while it waited.
    pub(crate) fn adopt(&mut self, entry: Entry<C>) {
        self.entry = entry;
    }

    /// How long a connection may be idle before it is closed.
    pub fn idle_timeout(&self) -> Duration {
        self.entry.shared.config.idle_timeout
    }

    /// A connection was opened for this place.
    pub fn opened(&self) {
        self.entry.shared.counts.opened.fetch_add(1, Ordering::Relaxed);
    }

    /// The most recently used idle connection, if there is one.
    pub fn take_idle(&self) -> Option<C> {
        self.take_idle_of(|_| true)
    }

    /// The most recently used idle connection that is `ours`, else the most recently used one of all.
    pub fn take_idle_of(&self, ours: impl Fn(&C) -> bool) -> Option<C> {
        self.take_idle_among(|_| true, ours)
    }

    /// As [`Place::take_idle_of`], of those that `serve`.
    pub(crate) fn take_idle_among(&self, serve: impl Fn(&C) -> bool, ours: impl Fn(&C) -> bool) -> Option<C> {
        let mut idle = self.entry.shared.idle();
        let both = |idle: &Idle<C>| serve(&idle.connection) && ours(&idle.connection);
        let index = idle.iter().rposition(both);
        let index = index.or_else(|| idle.iter().rposition(|idle| serve(&idle.connection)))?;
        Some(idle.remove(index).connection)
    }

    /// Closes the coldest idle connections where, with one for each place in use, more would be open than there are places: those
    /// that are idle may be none that serve this place.
    pub(crate) fn make_room(&self) {
        let shared = &self.entry.shared;
        let used = shared.queue().used();
        let mut idle = shared.idle();
        let most = shared.config.max.saturating_sub(used);
        let surplus = idle.len().saturating_sub(most);
        let closed: Vec<_> = idle.drain(..surplus).collect();
        drop(idle);
        drop(closed);
    }

    /// Gives a connection back, ready for its next user, and frees the place. Where enough are idle already, it is closed.
    pub fn give_back(self, connection: C) {
        self.keep_idle(connection);
    }

    /// Gives a connection back, and keeps the place.
    pub(crate) fn keep_idle(&self, connection: C) {
        let mut idle = self.entry.shared.idle();
        if idle.len() < self.entry.shared.config.max_idle {
            idle.push(Idle { connection, since: Instant::now() });
        }
    }
}

/// One request in the queue; leaves it when dropped.
struct Waiting<'a, C> {
    shared: &'a Shared<C>,
    since: Instant,
}

impl<'a, C> Waiting<'a, C> {
    /// One more, unless there are as many as may be.
    fn enter(shared: &'a Shared<C>, most: usize) -> Option<Self> {
        let enter = |waiting| (waiting < most).then_some(waiting + 1);
        let entered = shared.waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, enter);
        entered.ok().map(|_| Self { shared, since: Instant::now() })
    }

    fn begin(shared: &'a Shared<C>) -> Self {
        shared.waiting.fetch_add(1, Ordering::Relaxed);
        Self { shared, since: Instant::now() }
    }
}

impl<C> Drop for Waiting<'_, C> {
    fn drop(&mut self) {
        self.shared.waiting.fetch_sub(1, Ordering::Relaxed);
        lock(&self.shared.counts.waits).observe(self.since.elapsed());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_millis(50);

    fn pool(max: usize, waiting: usize) -> Pool<()> {
        Pool::new("test", PoolConfig { max, waiting, acquire_timeout: PATIENCE, ..PoolConfig::default() })
    }

    /// A place for one of the calls of a group, in the order of the pool.
    async fn acquire(group: &Group<()>) -> Result<Place<()>, Error> {
        let shared = &group.entry.shared;
        let place = async {
            match shared.ask(Errand::LookUp, Client::Unknown) {
                Asked::Given(permit) => permit,
                Asked::Waits(mut ticket) => (&mut ticket.receiver).await.expect("nobody else is let wait"),
                Asked::Refused => panic!("it was let in"),
            }
        };
        let permit = group.wait_for(place).await?;
        group.begin();
        Ok(Place { entry: Entry::new(shared, 0), _permit: permit })
    }

    async fn look_up(pool: &Pool<()>) -> Result<Place<()>, Error> {
        pool.acquire(Errand::LookUp, Waiter::default().begin()).await
    }

    fn code<T>(result: Result<T, Error>) -> &'static str {
        result.err().map_or("none", |error| error.code())
    }

    #[tokio::test]
    async fn a_group_is_let_in_as_a_whole() {
        let pool = pool(2, 2);
        let first = pool.enter(2).unwrap();
        let _places = (acquire(&first).await.unwrap(), acquire(&first).await.unwrap());
        // One more finds three inside; what it may take is inside with it, although it has asked for nothing.
        let single = pool.enter(1).unwrap();
        let second = pool.enter(2).unwrap();
        assert_eq!(code(pool.enter(1)), "pool_full");
        drop(single);
        assert_eq!(code(pool.enter(1)), "pool_full");
        second.resize(1);
        assert_eq!(code(pool.enter(1)), "none");
        assert_eq!(pool.usage(), Usage { used: 2, idle: 0, waiting: 0 });
    }

    #[tokio::test]
    async fn nobody_is_refused_while_a_place_is_free() {
        let pool = pool(2, 0);
        let _idle = pool.enter(2).unwrap();
        let place = look_up(&pool).await.unwrap();
        assert_eq!(code(pool.enter(2)), "none");
        let _other = look_up(&pool).await.unwrap();
        assert_eq!((code(pool.enter(2)), code(look_up(&pool).await)), ("pool_full", "pool_full"));
        drop(place);
        assert_eq!(code(look_up(&pool).await), "none");
    }

    #[tokio::test]
    async fn a_group_that_has_begun_waits_for_as_long_as_it_takes() {
        let pool = pool(1, 2);
        let group = Arc::new(pool.enter(1).unwrap());
        let first = acquire(&group).await.unwrap();
        let waits = tokio::spawn({
            let group = Arc::clone(&group);
            async move { acquire(&group).await.is_ok() }
        });
        // The other one, which has had no place, gives up meanwhile.
        let other = pool.enter(1).unwrap();
        assert_eq!(code(acquire(&other).await), "pool_timeout");
        tokio::time::sleep(2 * PATIENCE).await;
        assert!(!waits.is_finished());
        drop(first);
        assert!(waits.await.unwrap());
        drop((group, other));
        assert_eq!(pool.0.inside.load(Ordering::Relaxed), 0);
        assert_eq!(pool.usage(), Usage { used: 0, idle: 0, waiting: 0 });
    }
}
