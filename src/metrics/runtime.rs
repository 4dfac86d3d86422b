//! The workers and the connections to clients: what they are doing, and whether they keep up.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use http::Version;
use tokio::runtime::{Handle, RuntimeMetrics};
use tokio::time::{Instant, sleep_until};

use super::requests::Protocol;
use rowstream_core::histogram::{DELAYS, Histogram};
use rowstream_core::lock::Mutex;

/// How often each worker's timer is looked at: rarely enough to cost nothing, and often enough for
/// a scrape to have many.
const LOOK: Duration = Duration::from_millis(500);

/// How late the timers of a worker fire.
#[derive(Debug, Clone)]
pub(crate) struct Delay(Arc<Mutex<Histogram>>);

impl Delay {
    /// Has a timer fire again and again, which tells how long what is ready has to wait for this
    /// worker.
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
pub(crate) struct Worker {
    runtime: RuntimeMetrics,
    connections: Arc<AtomicUsize>,
    delay: Delay,
}

impl Worker {
    /// The worker that drives `runtime`, and has so many connections.
    pub(crate) fn new(runtime: &Handle, connections: &Arc<AtomicUsize>) -> Self {
        let delay = Delay(Arc::new(Mutex::new(Histogram::new(DELAYS))));
        Self { runtime: runtime.metrics(), connections: Arc::clone(connections), delay }
    }

    /// What its thread has to measure.
    pub(crate) fn delay(&self) -> Delay {
        self.delay.clone()
    }

    /// How long it has been doing something.
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
pub(crate) struct Workers(Mutex<Vec<Worker>>);

impl Workers {
    /// One more.
    pub(crate) fn add(&self, worker: Worker) {
        self.0.lock().push(worker);
    }

    /// What `seen` makes of each, by its number.
    pub(super) fn map<T>(&self, seen: impl FnMut((usize, &Worker)) -> T) -> Vec<T> {
        self.0.lock().iter().enumerate().map(seen).collect()
    }
}

/// The connections to clients, by the protocol of their requests.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    accepted: AtomicU64,
    /// How many the descriptors of the process leave room for; 0 if that isn't known.
    limit: AtomicUsize,
    /// Those that gave way to others.
    gave_way: AtomicU64,
    /// Those on which nothing came in time.
    timed_out: AtomicU64,
    /// Those for which there was no room.
    refused: AtomicU64,
    /// Those that did not come to speak TLS.
    no_tls: AtomicU64,
    /// Of no protocol yet, then as in [`Protocol::ALL`].
    open: [AtomicUsize; 1 + Protocol::ALL.len()],
}

/// One connection, counted until it is dropped.
#[derive(Debug)]
pub(crate) struct Connected {
    connections: Arc<Connections>,
    /// Its place in `open`.
    place: AtomicU8,
}

impl Connections {
    /// A client has connected.
    pub(crate) fn accept(self: &Arc<Self>) -> Connected {
        self.accepted.fetch_add(1, Ordering::Relaxed);
        self.open[0].fetch_add(1, Ordering::Relaxed);
        Connected { connections: Arc::clone(self), place: AtomicU8::new(0) }
    }

    /// Descriptors leave room for so many.
    pub(crate) fn limit(&self, limit: usize) {
        self.limit.store(limit, Ordering::Relaxed);
    }

    /// The limit by descriptors, if it's known.
    pub(crate) fn limited_to(&self) -> Option<usize> {
        Some(self.limit.load(Ordering::Relaxed)).filter(|limit| *limit > 0)
    }

    /// A connection gives way.
    pub(crate) fn give_way(&self) {
        self.gave_way.fetch_add(1, Ordering::Relaxed);
    }

    /// Nothing came on a connection in time.
    pub(crate) fn time_out(&self) {
        self.timed_out.fetch_add(1, Ordering::Relaxed);
    }

    /// There is no room for a connection.
    pub(crate) fn refuse(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// A client speaks no TLS where it should, or not as is needed.
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

    /// How many are open of each protocol; of `None` those that have sent no request yet.
    pub(super) fn open(&self) -> Vec<(Option<Protocol>, usize)> {
        let protocols = [None].into_iter().chain(Protocol::ALL.map(Some));
        protocols.zip(&self.open).map(|(protocol, open)| (protocol, open.load(Ordering::Relaxed))).collect()
    }
}

impl Connected {
    /// A request has come on it.
    pub(crate) fn speaks(&self, version: Version) {
        if self.place.load(Ordering::Relaxed) == 0 {
            let place = 1 + Protocol::of(version) as u8;
            self.place.store(place, Ordering::Relaxed);
            self.connections.open[usize::from(place)].fetch_add(1, Ordering::Relaxed);
            self.connections.open[0].fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Connected {
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
        let connections = Arc::<Connections>::default();
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
