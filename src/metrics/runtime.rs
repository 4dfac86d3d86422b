//! The workers and the client connections: their activity, and their delays.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use http::Version;
use rowstream_core::histogram::{DELAYS, Histogram};
use rowstream_core::lock::Mutex;
use tokio::runtime::{Handle, RuntimeMetrics};
use tokio::time::{Instant, sleep_until};

use super::requests::Protocol;

/// The interval of each worker's timer: long enough to cost nothing, and short enough for many
/// samples per scrape.
const LOOK: Duration = Duration::from_millis(500);

/// How late a worker's timers fire.
#[derive(Debug, Clone)]
pub(crate) struct TimerDelay(Arc<Mutex<Histogram>>);

impl TimerDelay {
    /// Measures again and again how late a timer fires. A ready task has to wait for as long.
    pub(crate) async fn measure(self) {
        loop {
            let due = Instant::now() + LOOK;
            sleep_until(due).await;
            self.0.lock().observe(due.elapsed());
        }
    }
}

/// One worker.
#[derive(Debug)]
pub(crate) struct WorkerMetrics {
    runtime: RuntimeMetrics,
    connections: Arc<AtomicUsize>,
    delay: TimerDelay,
}

impl WorkerMetrics {
    /// The worker that drives `runtime`. `connections` counts its connections.
    pub(crate) fn new(runtime: &Handle, connections: &Arc<AtomicUsize>) -> Self {
        let delay = TimerDelay(Arc::new(Mutex::new(Histogram::new(DELAYS))));
        Self { runtime: runtime.metrics(), connections: Arc::clone(connections), delay }
    }

    /// The delay for the worker's thread to measure.
    pub(crate) fn delay(&self) -> TimerDelay {
        self.delay.clone()
    }

    /// The time that it has spent running tasks.
    pub(super) fn busy(&self) -> Duration {
        self.runtime.worker_total_busy_duration(0)
    }

    pub(super) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    pub(super) fn delays(&self) -> Histogram {
        self.delay.0.lock().clone()
    }
}

/// The workers of a server, in the order of their numbers.
#[derive(Debug, Default)]
pub(crate) struct AllWorkerMetrics(Mutex<Vec<WorkerMetrics>>);

impl AllWorkerMetrics {
    /// Adds a worker.
    pub(crate) fn add(&self, worker: WorkerMetrics) {
        self.0.lock().push(worker);
    }

    /// Maps each worker and its number.
    pub(super) fn map<T>(&self, seen: impl FnMut((usize, &WorkerMetrics)) -> T) -> Vec<T> {
        self.0.lock().iter().enumerate().map(seen).collect()
    }
}

/// The client connections, by the protocol of their requests.
#[derive(Debug, Default)]
pub(crate) struct ConnectionCounts {
    accepted: AtomicU64,
    /// The number that the process's descriptors allow; 0 if it's unknown.
    limit: AtomicUsize,
    /// The connections that gave way to others.
    gave_way: AtomicU64,
    /// The connections that received nothing in time.
    timed_out: AtomicU64,
    /// The requests refused because their connection has no seat.
    refused: AtomicU64,
    /// The connections without a TLS handshake.
    no_tls: AtomicU64,
    /// Without a protocol yet, then in the order of [`Protocol::ALL`].
    open: [AtomicUsize; 1 + Protocol::ALL.len()],
}

/// One connection, counted until it is dropped.
#[derive(Debug)]
pub(crate) struct CountedConnection {
    connections: Arc<ConnectionCounts>,
    /// Its index in `open`.
    place: AtomicU8,
}

impl ConnectionCounts {
    /// Counts a connection.
    pub(crate) fn accept(self: &Arc<Self>) -> CountedConnection {
        self.accepted.fetch_add(1, Ordering::Relaxed);
        self.open[0].fetch_add(1, Ordering::Relaxed);
        CountedConnection { connections: Arc::clone(self), place: AtomicU8::new(0) }
    }

    /// Sets the number that descriptors allow.
    pub(crate) fn limit(&self, limit: usize) {
        self.limit.store(limit, Ordering::Relaxed);
    }

    /// The number that descriptors allow, if it's known.
    pub(crate) fn limited_to(&self) -> Option<usize> {
        Some(self.limit.load(Ordering::Relaxed)).filter(|limit| *limit > 0)
    }

    /// Counts a connection that gives way.
    pub(crate) fn give_way(&self) {
        self.gave_way.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a connection that received nothing in time.
    pub(crate) fn time_out(&self) {
        self.timed_out.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a request refused because its connection has no seat.
    pub(crate) fn refuse(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a client that doesn't speak TLS, or fails its handshake.
    pub(crate) fn fail_tls(&self) {
        self.no_tls.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }

    pub(super) fn gave_way(&self) -> u64 {
        self.gave_way.load(Ordering::Relaxed)
    }

    pub(super) fn timed_out(&self) -> u64 {
        self.timed_out.load(Ordering::Relaxed)
    }

    pub(super) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    pub(super) fn no_tls(&self) -> u64 {
        self.no_tls.load(Ordering::Relaxed)
    }

    /// The open connections of each protocol. `None` means that no request has arrived yet.
    pub(super) fn open(&self) -> Vec<(Option<Protocol>, usize)> {
        let protocols = [None].into_iter().chain(Protocol::ALL.map(Some));
        protocols.zip(&self.open).map(|(protocol, open)| (protocol, open.load(Ordering::Relaxed))).collect()
    }
}

impl CountedConnection {
    /// Records the protocol of its first request.
    pub(crate) fn speaks(&self, version: Version) {
        if self.place.load(Ordering::Relaxed) == 0 {
            let place = 1 + Protocol::of(version) as u8;
            self.place.store(place, Ordering::Relaxed);
            self.connections.open[usize::from(place)].fetch_add(1, Ordering::Relaxed);
            self.connections.open[0].fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Drop for CountedConnection {
    fn drop(&mut self) {
        let place = usize::from(self.place.load(Ordering::Relaxed));
        self.connections.open[place].fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_counted_once_wherever_it_is() {
        let connections = Arc::<ConnectionCounts>::default();
        let open = || connections.open().into_iter().map(|(_, open)| open).collect::<Vec<_>>();
        let (one, other) = (connections.accept(), connections.accept());
        assert_eq!(open(), [2, 0, 0, 0, 0]);
        one.speaks(Version::HTTP_2);
        one.speaks(Version::HTTP_2);
        other.speaks(Version::HTTP_11);
        assert_eq!(open(), [0, 0, 1, 1, 0]);
        drop(one);
        drop((other, connections.accept()));
        assert_eq!((open(), connections.accepted()), (vec![0; 5], 3));
    }
}
