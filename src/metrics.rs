//! The numbers of a server: what `/_rowstream/metrics` tells, and `Server-Timing`.
//!
//! Nothing is looked up by name where it is counted. What a request adds is put together on its own
//! ([`Meter`]), and added once, at its end, to the counts of its endpoint ([`Series`]); a stream
//! that lasts adds what has come about once a second. What others count anyway (admission, the
//! pools, the runtimes, the kernel) is read when it is asked for, and never counted twice. So a
//! scrape takes a [`Snapshot`], which is then written in the words of the [`families`].
//!
//! Invariants:
//!
//! 1. the labels are bounded: an endpoint is its template, and what meets none is one label;
//! 2. what is counted of a request hangs neither on its rows nor on its chunks;
//! 3. counts outlive a configuration: an endpoint that is gone keeps its series until the process
//!    ends, and a pool whose settings stay the same goes on counting.

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

pub(crate) use self::denied::{Denied, RateLimited};
pub(crate) use self::exemplars::Ids;
pub(crate) use self::exposition::Exposition;
pub use self::families::table;
use self::history::History;
pub(crate) use self::meter::{Meter, Subject};
use self::requests::Counts;
pub(crate) use self::requests::Series;
pub(crate) use self::runtime::{Connected, Connections, Worker, Workers};
use self::snapshot::Snapshot;
pub(crate) use self::timing::{SERVER_TIMING, server_timing};
use crate::admission::Usage;
use crate::endpoint::Endpoint;
use crate::source::Source;
use rowstream_core::Error;
use rowstream_core::lock::Mutex;

/// A server as its metrics see it.
pub(crate) trait Observed: Send + Sync + 'static {
    /// What is counted.
    fn metrics(&self) -> &Metrics;
    /// The permits in use.
    fn usage(&self) -> Usage;
    /// The sources by name, in the order of the file.
    fn sources(&self) -> impl Iterator<Item = (&str, &Source)>;
    /// The most connections of clients.
    fn max_connections(&self) -> usize;
    /// When the server's certificate expires; `None`: it has none.
    fn certificate_expiry(&self) -> Option<SystemTime>;
}

/// What is counted, whatever the configuration is at the moment.
#[derive(Default)]
pub(crate) struct Metrics {
    /// By template; also of endpoints that are gone.
    endpoints: Mutex<BTreeMap<String, Arc<Series>>>,
    /// Of requests that met no endpoint.
    pub(crate) none: Series,
    /// Of requests for the admin endpoints.
    pub(crate) admin: Series,
    pub(crate) connections: Arc<Connections>,
    pub(crate) workers: Workers,
    /// Requests that were denied.
    pub(crate) denied: Denied,
    /// Requests of clients that asked too often.
    pub(crate) rate_limited: RateLimited,
    /// What the last minutes were like.
    pub(crate) history: History,
    /// Held while it is reported: whoever asks again and again takes no more than one thread and
    /// its memory.
    telling: Arc<tokio::sync::Mutex<()>>,
}

impl Metrics {
    /// The series of endpoints, in their order.
    pub(crate) fn series_of(&self, endpoints: &[Endpoint]) -> Vec<Arc<Series>> {
        let mut known = self.endpoints.lock();
        let series = |endpoint: &Endpoint| Arc::clone(known.entry(endpoint.path.clone()).or_default());
        endpoints.iter().map(series).collect()
    }

    /// What there is to tell of the `server`, as `exposition` has it. It is put together on a
    /// thread for what blocks: reading `/proc` and writing it all takes longer than the requests of
    /// a worker should wait.
    ///
    /// # Errors
    /// It panicked, which is a bug of ours.
    pub(crate) async fn tell(server: Arc<impl Observed>, exposition: Exposition) -> Result<String, Error> {
        let one = Arc::clone(&server.metrics().telling).lock_owned().await;
        let tell = move || {
            let text = exposition.write(Snapshot::take(&*server));
            drop(one);
            text
        };
        let text = tokio::task::spawn_blocking(tell).await;
        text.map_err(|cause| Error::endpoint("the metrics could not be written").cause(cause))
    }

    /// Keeps what the `server` is like now in its history. A moment at which that panics is left
    /// out.
    pub(crate) async fn remember(server: Arc<impl Observed>) {
        let one = Arc::clone(&server.metrics().telling).lock_owned().await;
        let look = move || {
            server.metrics().history.add(history::now(), Snapshot::take(&*server).lately());
            drop(one);
        };
        let _ = tokio::task::spawn_blocking(look).await;
    }

    /// What was counted of every endpoint, by its template.
    fn totals(&self) -> Vec<(String, Counts)> {
        let known = self.endpoints.lock();
        known.iter().map(|(path, series)| (path.clone(), series.total())).collect()
    }
}
