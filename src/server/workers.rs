//! The workers: a thread with a single-threaded runtime for each core.

use std::io;
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::metrics::{self, Metrics};

/// The time that the shutdown waits for statements to be cancelled. A database that doesn't answer
/// can't delay it longer.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(2);
/// A worker's threads for blocking calls: the files of slow clients and of `_wait=end`, and name
/// resolution. More threads wouldn't make a disk faster, and each one uses memory.
const BLOCKING_THREADS: usize = 16;

/// The workers, one for each core that this process can use.
pub(super) struct Workers {
    workers: Vec<Worker>,
    /// Ends the threads when it is dropped.
    _running: watch::Sender<()>,
}

/// One worker. Its thread drives the runtime until all workers end, because a database connection
/// opened on one worker can serve a stream of another.
struct Worker {
    runtime: Handle,
    connections: Arc<AtomicUsize>,
}

/// One connection of a worker. Dropping it ends the count.
pub(super) struct ConnectionCount(Arc<AtomicUsize>);

impl ConnectionCount {
    fn add(connections: &Arc<AtomicUsize>) -> Self {
        connections.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(connections))
    }
}

impl Drop for ConnectionCount {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Workers {
    pub(super) fn start(metrics: &Metrics) -> io::Result<Self> {
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        let (running, ended) = watch::channel(());
        let worker = |number| {
            let mut builder = Builder::new_current_thread();
            let runtime = builder.enable_all().max_blocking_threads(BLOCKING_THREADS).build()?;
            let handle = runtime.handle().clone();
            let connections = Arc::default();
            let measured = metrics::WorkerMetrics::new(&handle, &connections);
            let (mut ended, delay) = (ended.clone(), measured.delay());
            let run = async move {
                tokio::select! {
                    () = async { while ended.changed().await.is_ok() {} } => {}
                    () = delay.measure() => {}
                }
            };
            let run = move || runtime.block_on(run);
            std::thread::Builder::new().name(format!("worker {number}")).spawn(run)?;
            metrics.workers.add(measured);
            Ok(Worker { runtime: handle, connections })
        };
        let workers = (0..cores).map(worker).collect::<io::Result<_>>()?;
        Ok(Self { workers, _running: running })
    }

    /// The runtime for the next connection, with the [`ConnectionCount`] that counts it.
    pub(super) fn least_loaded(&self) -> (&Handle, ConnectionCount) {
        let load = |worker: &&Worker| worker.connections.load(Ordering::Relaxed);
        let worker = self.workers.iter().min_by_key(load).expect("there is a worker for each core");
        (&worker.runtime, ConnectionCount::add(&worker.connections))
    }

    /// Waits until the databases have cancelled the aborted statements, then ends the workers.
    /// Separate tasks cancel them, because a database continues a statement after its client
    /// disconnects.
    pub(super) async fn finish(self) {
        let deadline = Instant::now() + CANCEL_TIMEOUT;
        let busy = |worker: &Worker| worker.runtime.metrics().num_alive_tasks() > 0;
        while self.workers.iter().any(busy) && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}
