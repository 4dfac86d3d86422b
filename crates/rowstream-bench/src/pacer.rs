//! Decides when requests begin.
//!
//! Closed model: a connection sends its next request when the last one has ended, so a slow server
//! gets fewer. Open model: requests are due at a constant rate, regardless of the server. If no
//! connection is free, a request waits, and its time runs from when it was due. So a server that
//! stalls can't hide the requests that it delayed (coordinated omission).

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// When a run ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// After this number of requests over all connections.
    Requests(u64),
    /// Requests begin during this time.
    Duration(Duration),
}

/// tokio's timer counts whole milliseconds and rounds up. If a free connection wakes within this
/// time after its request was due, the delay is our timer's and not the server's.
const TIMER_GRAIN: Duration = Duration::from_millis(2);

/// Hands out requests to connections on any thread.
pub(super) struct Pacer {
    extent: Extent,
    /// Requests per second over all connections (the open model). `None` is the closed model.
    rate: Option<f64>,
    next: AtomicU64,
    start: OnceLock<Instant>,
}

/// A request to send now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    Closed,
    /// Contains the time when it was due.
    Open(Instant),
}

impl Pacer {
    pub(super) fn new(extent: Extent, rate: Option<f64>) -> Self {
        Self { extent, rate, next: AtomicU64::new(0), start: OnceLock::new() }
    }

    /// The start of the run: the first request, or the first call of this method if that's earlier.
    pub(super) fn start(&self) -> Instant {
        *self.start.get_or_init(Instant::now)
    }

    /// The time to stop starting requests, if the run has a time limit.
    pub(super) fn end(&self) -> Option<Instant> {
        match self.extent {
            Extent::Duration(duration) => Some(self.start() + duration),
            Extent::Requests(_) => None,
        }
    }

    /// Waits for the next request. Returns `None` after the last one.
    pub(super) async fn next(&self) -> Option<Turn> {
        let start = self.start();
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        match self.rate {
            None => self.within(number, Instant::now()).then_some(Turn::Closed),
            Some(rate) => {
                let due = start + Duration::from_secs_f64(number as f64 / rate);
                if !self.within(number, due) {
                    return None;
                }
                Some(Turn::Open(wait_until(due).await))
            }
        }
    }

    fn within(&self, number: u64, due: Instant) -> bool {
        match self.extent {
            Extent::Requests(requests) => number < requests,
            Extent::Duration(duration) => due < self.start() + duration,
        }
    }
}

/// Returns the start of the request's latency.
async fn wait_until(due: Instant) -> Instant {
    if due <= Instant::now() {
        return due;
    }
    tokio::time::sleep_until(due.into()).await;
    let now = Instant::now();
    if now.saturating_duration_since(due) <= TIMER_GRAIN { now } else { due }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn turns(pacer: &Pacer) -> Vec<Turn> {
        let mut turns = Vec::new();
        while let Some(turn) = pacer.next().await {
            turns.push(turn);
        }
        turns
    }

    #[tokio::test]
    async fn a_number_of_requests() {
        let pacer = Pacer::new(Extent::Requests(3), None);
        assert_eq!(turns(&pacer).await, [Turn::Closed; 3]);
        assert_eq!(pacer.next().await, None);
    }

    #[tokio::test]
    async fn a_run_begins_with_its_first_request_though_nobody_has_looked_yet() {
        let pacer = Pacer::new(Extent::Requests(1), None);
        assert_eq!(pacer.next().await, Some(Turn::Closed));
        let after = Instant::now();
        assert!(pacer.start() <= after);
    }

    #[tokio::test]
    async fn requests_that_could_not_be_sent_in_time_keep_their_times() {
        let pacer = Pacer::new(Extent::Duration(Duration::from_millis(40)), Some(100.0));
        let start = pacer.start();
        std::thread::sleep(Duration::from_millis(50));
        let due = [0, 10, 20, 30].map(|at| Turn::Open(start + Duration::from_millis(at)));
        assert_eq!(turns(&pacer).await, due);
    }
}
