//! Numbers about a pool: its current use, and its counts since the start.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::time::Instant;

use super::sites::Sites;
use super::{Pool, PoolCore};
use crate::histogram::{Histogram, WAITS};
use crate::lock::Mutex;

/// Counts since the start.
pub(super) struct Counts {
    /// Leases that were granted without a wait.
    pub(super) at_once: AtomicU64,
    /// The waits of all requests that had to wait, with or without success.
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

/// A pool's limits, its current use, and its counts since the start.
#[derive(Debug, Clone)]
pub struct Stats {
    /// The most connections that may be open at a time.
    pub max: usize,
    /// The number of requests that may wait at a time.
    pub waiting_max: usize,
    /// The current use.
    pub usage: Usage,
    /// The waits of all requests for a slot, with or without success. Those that got one at once
    /// count as zero.
    pub waits: Histogram,
    /// Connections that were opened.
    pub opened: u64,
    /// Requests that got no slot in time.
    pub timed_out: u64,
    /// Requests that weren't allowed to wait.
    pub refused: u64,
}

/// The current use of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Slots in use.
    pub used: usize,
    /// Idle connections.
    pub idle: usize,
    /// Requests in the queue.
    pub waiting: usize,
}

impl<C: Send + 'static, S: Sites> Pool<C, S> {
    /// Copies all numbers.
    pub fn stats(&self) -> Stats {
        let PoolCore { config, counts, .. } = &*self.0;
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

/// Measures the wait of one request, until it's dropped.
pub(super) struct WaitClock<'a> {
    waits: &'a Mutex<Histogram>,
    since: Instant,
}

impl<'a> WaitClock<'a> {
    pub(super) fn begin<C, S: Sites>(shared: &'a PoolCore<C, S>) -> Self {
        Self { waits: &shared.counts.waits, since: Instant::now() }
    }
}

impl Drop for WaitClock<'_> {
    fn drop(&mut self) {
        self.waits.lock().observe(self.since.elapsed());
    }
}
