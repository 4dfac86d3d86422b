//! What lookups of many requests share: for each thread of the server a link to the database, as
//! far as the size of its pool allows. What a link is, the databases know.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, ThreadId};

use super::SharedLookups;
use rowstream_core::histogram::{Histogram, SIZES};
use rowstream_core::lock::Mutex;
use rowstream_core::pool::PoolConfig;

/// Connections of a pool for each one that lookups share: most of them are for streams.
const SHARE: usize = 4;

/// How many connections of a pool of `max` lookups share; where there are none, each has one of its
/// own.
pub(super) fn connections(max: usize) -> usize {
    let cores = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    cores.min(max / SHARE)
}

/// By what the lookups of a thread go.
pub(super) trait Link {
    /// Whether nobody answers on it any more.
    fn is_closed(&self) -> bool;

    /// Ends it: what was not sent goes elsewhere.
    fn close(&self);
}

/// The links of one source.
pub(super) struct Links<L: Link> {
    /// The lookups that may be on their way at a time: as many as could hold a connection or wait
    /// for one.
    pub(super) most: usize,
    pending: AtomicUsize,
    /// What was sent together, by whichever link.
    pub(super) batches: Arc<Mutex<Histogram<u64>>>,
    /// The threads that have asked, in the order of their first lookup.
    threads: Mutex<Vec<ThreadId>>,
    /// By the number of the thread, modulo their count.
    slots: Box<[Mutex<Option<Arc<L>>>]>,
}

impl<L: Link> Links<L> {
    /// So many links.
    pub(super) fn new(pool: &PoolConfig, links: usize) -> Self {
        Self {
            most: pool.max + pool.waiting,
            pending: AtomicUsize::new(0),
            batches: Arc::new(Mutex::new(Histogram::new(SIZES))),
            threads: Mutex::default(),
            slots: (0..links).map(|_| Mutex::default()).collect(),
        }
    }

    /// Whether each lookup has a connection of its own.
    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Counts one more lookup until what is returned is dropped; `None`: too many are on their way.
    pub(super) fn enter(&self) -> Option<Pending<'_>> {
        let pending = Pending(&self.pending);
        (self.pending.fetch_add(1, Ordering::Relaxed) < self.most).then_some(pending)
    }

    /// The link of this thread; a new one if there is none that is open.
    pub(super) fn of_thread(&self, open: impl FnOnce() -> Arc<L>) -> Arc<L> {
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

    /// What there is to know of the lookups.
    pub(super) fn seen(&self) -> SharedLookups {
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

/// One lookup on its way; counted until it is dropped.
pub(super) struct Pending<'a>(&'a AtomicUsize);

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
