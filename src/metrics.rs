//! Metrics: the text of `/_rowstream/metrics`, and `Server-Timing`.
//!
//! Counting looks up nothing by name. A request collects its own numbers ([`Meter`]), and adds them
//! once, at its end, to the counts of its endpoint ([`Series`]). A long stream adds its progress
//! about once a second. Numbers that other modules keep anyway (admission, the pools, the runtimes,
//! the kernel) are read on demand and never counted twice. So a scrape takes a [`Snapshot`], and
//! writes it as [`families`].
//!
//! Invariants:
//!
//! 1. the labels are bounded: an endpoint's label is its template, and all requests without an
//!    endpoint share one label;
//! 2. the cost of counting a request depends neither on its rows nor on its chunks;
//! 3. counts outlive a configuration: a removed endpoint keeps its series until the process ends,
//!    and a pool with unchanged settings keeps its counts.

mod denied;
mod exemplars;
mod exposition;
mod families;
pub(crate) mod history;
mod meter;
mod requests;
mod runtime;
mod snapshot;
mod times;
mod timing;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use rowstream_core::Error;
use rowstream_core::lock::Mutex;

pub(crate) use self::denied::{DenialCounts, RateLimitCounts};
pub(crate) use self::exemplars::ExemplarIds;
pub(crate) use self::exposition::Exposition;
pub use self::families::table;
use self::history::History;
pub(crate) use self::meter::{Meter, Subject};
use self::requests::EndpointCounts;
pub(crate) use self::requests::Series;
pub(crate) use self::runtime::{AllWorkerMetrics, ConnectionCounts, CountedConnection, WorkerMetrics};
use self::snapshot::Snapshot;
pub(crate) use self::timing::{SERVER_TIMING, server_timing};
use crate::admission::Usage;
use crate::endpoint::Endpoint;
use crate::source::Source;

/// A server as its metrics see it.
pub(crate) trait MetricsSource: Send + Sync + 'static {
    /// The server's counts.
    fn metrics(&self) -> &Metrics;
    /// The permits in use.
    fn usage(&self) -> Usage;
    /// The sources by name, in the order of the file.
    fn sources(&self) -> impl Iterator<Item = (&str, &Source)>;
    /// The most connections of clients.
    fn max_connections(&self) -> usize;
    /// When the server's certificate expires. `None` without a certificate.
    fn certificate_expiry(&self) -> Option<SystemTime>;
}

/// Counts that outlive the configuration.
#[derive(Default)]
pub(crate) struct Metrics {
    /// By template, including removed endpoints.
    endpoints: Mutex<BTreeMap<String, Arc<Series>>>,
    /// For requests without an endpoint.
    pub(crate) none: Series,
    /// For requests to the admin endpoints.
    pub(crate) admin: Series,
    pub(crate) connections: Arc<ConnectionCounts>,
    pub(crate) workers: AllWorkerMetrics,
    /// Requests that were denied.
    pub(crate) denied: DenialCounts,
    /// Requests beyond a client's rate limit.
    pub(crate) rate_limited: RateLimitCounts,
    /// The last few minutes.
    pub(crate) history: History,
    /// Held during a report, so that frequent scrapes use at most one thread and its memory.
    telling: Arc<tokio::sync::Mutex<()>>,
}

impl Metrics {
    /// The series of endpoints, in their order.
    pub(crate) fn series_of(&self, endpoints: &[Endpoint]) -> Vec<Arc<Series>> {
        let mut known = self.endpoints.lock();
        let series = |endpoint: &Endpoint| Arc::clone(known.entry(endpoint.path.clone()).or_default());
        endpoints.iter().map(series).collect()
    }

    /// Writes the metrics of the `server` as `exposition`. Runs on a thread for blocking work,
    /// because reading `/proc` and writing everything takes longer than a worker's requests should
    /// wait.
    ///
    /// # Errors
    /// The writer panicked, which is a bug.
    pub(crate) async fn tell(
        server: Arc<impl MetricsSource>,
        exposition: Exposition,
    ) -> Result<String, Error> {
        let one = Arc::clone(&server.metrics().telling).lock_owned().await;
        let tell = move || {
            let text = exposition.write(Snapshot::take(&*server));
            drop(one);
            text
        };
        let text = tokio::task::spawn_blocking(tell).await;
        text.map_err(|cause| Error::endpoint("the metrics could not be written").cause(cause))
    }

    /// Adds the `server`'s present state to its history. If that panics, the moment is left out.
    pub(crate) async fn remember(server: Arc<impl MetricsSource>) {
        let one = Arc::clone(&server.metrics().telling).lock_owned().await;
        let look = move || {
            server.metrics().history.add(history::now(), Snapshot::take(&*server).lately());
            drop(one);
        };
        let _ = tokio::task::spawn_blocking(look).await;
    }

    /// The counts of every endpoint, by template.
    fn totals(&self) -> Vec<(String, EndpointCounts)> {
        let known = self.endpoints.lock();
        known.iter().map(|(path, series)| (path.clone(), series.total())).collect()
    }
}
