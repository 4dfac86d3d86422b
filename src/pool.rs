//! A pool: the open connections of one source, bounded in number, and the bounded queue before it.
//!
//! A [`Place`] is the right to hold one connection. Places are handed out first come, first served; beyond
//! `waiting` requests in the queue the answer is an error at once, and nobody waits longer than `acquire_timeout`.
//! What a place does with its connection (open, check, cancel, close) is its source's affair; the pool counts places and keeps the idle
//! connections. The invariants, which the tests check:
//!
//! 1. places in use + free places = `max`, at every moment, whatever is dropped when;
//! 2. an idle connection belongs to nobody, and is closed after `idle_timeout`;
//! 3. a place that is dropped without giving its connection back frees the place and closes the connection.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::Error;
use crate::metrics::{Histogram, WAITS};

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
    places: Arc<Semaphore>,
    /// See [`Pool::turn`].
    turns: Arc<Semaphore>,
    waiting: AtomicUsize,
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
    shared: Arc<Shared<C>>,
    _permit: OwnedSemaphorePermit,
}

impl<C> Clone for Pool<C> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<C> Pool<C> {
    /// A place, if one is free. For whoever keeps the order of those that wait by itself, because places are not all alike; those
    /// wait by [`Pool::wait_for`].
    pub(crate) fn try_place(&self) -> Option<Place<C>> {
        let permit = Arc::clone(&self.0.places).try_acquire_owned().ok()?;
        Some(Place { shared: Arc::clone(&self.0), _permit: permit })
    }
}

impl<C: Send + 'static> Pool<C> {
    /// A pool without connections; `source` names it in errors.
    pub fn new(source: &str, config: PoolConfig) -> Self {
        Self(Arc::new(Shared {
            places: Arc::new(Semaphore::new(config.max)),
            turns: Arc::new(Semaphore::new((config.max / 2).max(1))),
            waiting: AtomicUsize::new(0),
            counts: Counts::default(),
            idle: Mutex::new(Vec::new()),
            source: source.to_owned(),
            config,
        }))
    }

    /// Waits for a place.
    ///
    /// # Errors
    /// 503 at once when `waiting` requests wait already; 504 after `acquire_timeout`. Both name the source and say when to retry.
    pub async fn acquire(&self) -> Result<Place<C>, Error> {
        let permit = match Arc::clone(&self.0.places).try_acquire_owned() {
            Ok(permit) => {
                self.0.counts.at_once.fetch_add(1, Ordering::Relaxed);
                permit
            }
            Err(_) => self.wait().await?,
        };
        Ok(Place { shared: Arc::clone(&self.0), _permit: permit })
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

    /// How long a request waits for a connection.
    pub fn acquire_timeout(&self) -> Duration {
        self.0.config.acquire_timeout
    }

    async fn wait(&self) -> Result<OwnedSemaphorePermit, Error> {
        let permit = self.wait_for(Arc::clone(&self.0.places).acquire_owned()).await?;
        Ok(permit.expect("the semaphore of a pool is never closed"))
    }

    /// A place was taken without waiting that [`Pool::try_place`] gave.
    pub(crate) fn took_at_once(&self) {
        self.0.counts.at_once.fetch_add(1, Ordering::Relaxed);
    }

    /// Waits for a place as one of the queue: counted, bounded in number and in time.
    ///
    /// # Errors
    /// As [`Pool::acquire`].
    pub(crate) async fn wait_for<T>(&self, place: impl Future<Output = T>) -> Result<T, Error> {
        let _waiting = Waiting::enter(&self.0).ok_or_else(|| self.refuse(self.0.config.waiting))?;
        match tokio::time::timeout(self.0.config.acquire_timeout, place).await {
            Ok(place) => Ok(place),
            Err(_) => {
                self.0.counts.timed_out.fetch_add(1, Ordering::Relaxed);
                Err(Error::pool_timeout(&self.0.source, self.0.config.acquire_timeout))
            }
        }
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
            used: self.0.config.max - self.0.places.available_permits(),
            idle: self.0.idle().len(),
            waiting: self.0.waiting.load(Ordering::Relaxed),
        }
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
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing under these locks panics half way; a poisoned list is still a list.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<C> Place<C> {
    /// How long a connection may be idle before it is closed.
    pub fn idle_timeout(&self) -> Duration {
        self.shared.config.idle_timeout
    }

    /// A connection was opened for this place.
    pub fn opened(&self) {
        self.shared.counts.opened.fetch_add(1, Ordering::Relaxed);
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
        let mut idle = self.shared.idle();
        let both = |idle: &Idle<C>| serve(&idle.connection) && ours(&idle.connection);
        let index = idle.iter().rposition(both);
        let index = index.or_else(|| idle.iter().rposition(|idle| serve(&idle.connection)))?;
        Some(idle.remove(index).connection)
    }

    /// Closes the coldest idle connections where, with one for each place in use, more would be open than there are places: those
    /// that are idle may be none that serve this place.
    pub(crate) fn make_room(&self) {
        let used = self.shared.config.max - self.shared.places.available_permits();
        let mut idle = self.shared.idle();
        let most = self.shared.config.max.saturating_sub(used);
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
        let mut idle = self.shared.idle();
        if idle.len() < self.shared.config.max_idle {
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
    fn enter(shared: &'a Shared<C>) -> Option<Self> {
        shared
            .waiting
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| {
                (n < shared.config.waiting).then_some(n + 1)
            })
            .ok()
            .map(|_| Self { shared, since: Instant::now() })
    }
}

impl<C> Drop for Waiting<'_, C> {
    fn drop(&mut self) {
        self.shared.waiting.fetch_sub(1, Ordering::Relaxed);
        lock(&self.shared.counts.waits).observe(self.since.elapsed());
    }
}
