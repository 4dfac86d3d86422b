//! What is known of a pool: what it holds, and what has happened so far.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::time::Instant;

use super::sites::Sites;
use super::{Pool, Shared};
use crate::histogram::{Histogram, WAITS};
use crate::lock::Mutex;

/// What happened so far.
pub(super) struct Counts {
    /// Places that were taken without waiting.
    pub(super) at_once: AtomicU64,
    /// Of requests that waited, how long they did, whatever came of it.
    pub(super) waits: Mutex<Histogram>,
    pub(super) opened: AtomicU64,
    pub(super) timed_out: AtomicU64,
    pub(super) refused: AtomicU64,
}

impl Default for Counts {
    fn default() -> Self {
        let [at_once, opened, timed_out, refused] = [0; 4].map(AtomicU64::new);
        Self { at_once, waits: Mutex::new(Histogram::new(WAITS)), opened, timed_out, refused }
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

impl<C: Send + 'static, S: Sites> Pool<C, S> {
    /// All that is known of it.
    pub(crate) fn stats(&self) -> Stats {
        let Shared { config, counts, .. } = &*self.0;
        let mut waits = counts.waits.lock().clone();
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

/// How long one request waits; counts when it is dropped.
pub(super) struct WaitClock<'a> {
    waits: &'a Mutex<Histogram>,
    since: Instant,
}

impl<'a> WaitClock<'a> {
    pub(super) fn begin<C, S: Sites>(shared: &'a Shared<C, S>) -> Self {
        Self { waits: &shared.counts.waits, since: Instant::now() }
    }
}

impl Drop for WaitClock<'_> {
    fn drop(&mut self) {
        self.waits.lock().observe(self.since.elapsed());
    }
}
