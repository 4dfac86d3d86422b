//! State that the lookups of many requests share. Each thread of the server has a link to the
//! database, if the pool is large enough. Each database defines its own links.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, ThreadId};

use rowstream_core::histogram::{Histogram, SIZES};
use rowstream_core::lock::Mutex;
use rowstream_core::pool::PoolConfig;

use super::SharedLookups;

/// The pool's connections for each one that lookups share. Most of them are for streams.
const SHARE: usize = 4;

/// The number of connections in a pool of `max` that lookups share. If it's 0, each lookup has a
/// connection of its own.
pub fn connections(max: usize) -> usize {
    let cores = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    cores.min(max / SHARE)
}

/// The connection or queue that the lookups of a thread share.
pub trait Link {
    /// Returns true if the link doesn't answer any more.
    fn is_closed(&self) -> bool;

    /// Closes the link. Lookups that weren't sent use another connection.
    fn close(&self);
}

/// The links of one source.
pub struct Links<L: Link> {
    /// The limit for pending lookups: as many as could hold a connection or wait for one.
    pub most: usize,
    pending: AtomicUsize,
    /// The batch sizes of all links.
    pub batches: Arc<Mutex<Histogram<u64>>>,
    /// The threads that have made lookups, in the order of their first.
    threads: Mutex<Vec<ThreadId>>,
    /// Indexed by the thread's number, modulo the length.
    slots: Box<[Mutex<Option<Arc<L>>>]>,
}

impl<L: Link> Links<L> {
    /// Room for this many links.
    pub fn new(pool: &PoolConfig, links: usize) -> Self {
        Self {
            most: pool.max + pool.waiting,
            pending: AtomicUsize::new(0),
            batches: Arc::new(Mutex::new(Histogram::new(SIZES))),
            threads: Mutex::default(),
            slots: (0..links).map(|_| Mutex::default()).collect(),
        }
    }

    /// Returns true if each lookup has a connection of its own.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Counts a lookup until the returned value is dropped. Returns `None` if too many are pending.
    pub fn enter(&self) -> Option<PendingLookup<'_>> {
        let pending = PendingLookup(&self.pending);
        (self.pending.fetch_add(1, Ordering::Relaxed) < self.most).then_some(pending)
    }

    /// The link of this thread. Opens a new one if it has none, or a closed one.
    pub fn of_thread(&self, open: impl FnOnce() -> Arc<L>) -> Arc<L> {
        let mut slot = self.slots[self.number() % self.slots.len()].lock();
        match &*slot {
            Some(link) if !link.is_closed() => Arc::clone(link),
            _ => Arc::clone(slot.insert(open())),
        }
    }

    /// The number of this thread.
    fn number(&self) -> usize {
        let thread = thread::current().id();
        let mut threads = self.threads.lock();
        threads.iter().position(|&other| other == thread).unwrap_or_else(|| {
            threads.push(thread);
            threads.len() - 1
        })
    }

    /// Statistics of the lookups.
    pub fn seen(&self) -> SharedLookups {
        let pending = self.pending.load(Ordering::Relaxed);
        SharedLookups { pending, batches: self.batches.lock().clone() }
    }
}

impl<L: Link> Drop for Links<L> {
    fn drop(&mut self) {
        for link in self.slots.iter().filter_map(|slot| slot.lock().take()) {
            link.close();
        }
    }
}

/// A pending lookup, counted until it's dropped.
pub struct PendingLookup<'a>(&'a AtomicUsize);

impl Drop for PendingLookup<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
