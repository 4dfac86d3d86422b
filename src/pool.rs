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

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::Error;

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
    waiting: AtomicUsize,
    /// The most recently used connection is last: it is warm, and the cold ones reach their `idle_timeout`.
    idle: Mutex<Vec<Idle<C>>>,
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

impl<C: Send + 'static> Pool<C> {
    /// A pool without connections; `source` names it in errors.
    pub fn new(source: &str, config: PoolConfig) -> Self {
        Self(Arc::new(Shared {
            places: Arc::new(Semaphore::new(config.max)),
            waiting: AtomicUsize::new(0),
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
            Ok(permit) => permit,
            Err(_) => self.wait().await?,
        };
        Ok(Place { shared: Arc::clone(&self.0), _permit: permit })
    }

    async fn wait(&self) -> Result<OwnedSemaphorePermit, Error> {
        let _waiting = Waiting::enter(&self.0.waiting, self.0.config.waiting)
            .ok_or_else(|| Error::pool_full(&self.0.source, self.0.config.waiting))?;
        let acquired =
            tokio::time::timeout(self.0.config.acquire_timeout, Arc::clone(&self.0.places).acquire_owned());
        match acquired.await {
            Ok(permit) => Ok(permit.expect("the semaphore of a pool is never closed")),
            Err(_) => Err(Error::pool_timeout(&self.0.source, self.0.config.acquire_timeout)),
        }
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
        // Nothing under this lock panics half way; a poisoned list is still a list.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<C> Place<C> {
    /// How long a connection may be idle before it is closed.
    pub fn idle_timeout(&self) -> Duration {
        self.shared.config.idle_timeout
    }

    /// The most recently used idle connection, if there is one.
    pub fn take_idle(&self) -> Option<C> {
        self.take_idle_of(|_| true)
    }

    /// The most recently used idle connection that is `ours`, else the most recently used one of all.
    pub fn take_idle_of(&self, ours: impl Fn(&C) -> bool) -> Option<C> {
        let mut idle = self.shared.idle();
        let last = idle.len().checked_sub(1)?;
        let index = idle.iter().rposition(|idle| ours(&idle.connection)).unwrap_or(last);
        Some(idle.remove(index).connection)
    }

    /// Gives a connection back, ready for its next user, and frees the place. Where enough are idle already, it is closed.
    pub fn give_back(self, connection: C) {
        let mut idle = self.shared.idle();
        if idle.len() < self.shared.config.max_idle {
            idle.push(Idle { connection, since: Instant::now() });
        }
    }
}

/// One request in the queue; leaves it when dropped.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn enter(count: &'a AtomicUsize, limit: usize) -> Option<Self> {
        count
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| (n < limit).then_some(n + 1))
            .ok()
            .map(|_| Self(count))
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
