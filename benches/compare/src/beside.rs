//! Slow readers of a long list, with lookups beside them: the cost of a slow client for other
//! clients.

use std::thread;
use std::time::{Duration, Instant};

use crate::client::{self, Amount, Load, Running};
use crate::database::{Data, Postgres};
use crate::process::Server;
use crate::record::{Measure, Sample};
use crate::target;
use crate::{Result, Size, workspace};

pub(crate) const READERS: u64 = 200;
const BYTES_PER_SECOND: u64 = 100_000;
/// The rate of lookups, regardless of how long earlier ones need.
const LOOKUPS_PER_SECOND: u64 = 200;
/// The time limit until all readers have begun and their connections are free again.
const PATIENCE: Duration = Duration::from_secs(300);
/// Often enough for events that last seconds, and rare enough to cost nothing.
const EVERY: Duration = Duration::from_millis(250);

/// The treatment of a slow reader's rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Policy {
    /// They wait in the database, and each reader holds a connection.
    Hold,
    /// They wait in files, and a few connections serve all readers.
    Spill,
}

/// A server that serves the events as a list and one by one.
pub(crate) fn server(policy: Policy, postgres: &Postgres) -> Result<Server> {
    let name = match policy {
        Policy::Hold => "beside-hold",
        Policy::Spill => "beside-spill",
    };
    let folder = workspace::scratch()?.join(name);
    let list = workspace::read(&Data::Events.folder().join("endpoints/events.sql"))?;
    let look_up = "/*\nresult = \"one\"\n[params]\nid = \"integer\"\n*/\n\
                   select event_no, paymt_status, status_chg_date from payment_event where event_no = :id\n";
    workspace::write(&folder.join("endpoints/events.sql"), &list)?;
    workspace::write(&folder.join("endpoints/event/{id}.sql"), look_up)?;
    let (slow_clients, connections) = match policy {
        Policy::Hold => ("", READERS + 20),
        // As many bytes as all readers read in total.
        Policy::Spill => ("slow_clients = \"spill\"\nspool_folder = \".\"\nspool_quota = \"40GiB\"\n", 10),
    };
    let settings = format!(
        "{slow_clients}\n[source.events]\nurl = \"{}\"\npool = {{ max = {connections}, waiting = {READERS}, acquire_timeout = \"{}s\" }}",
        postgres.url(),
        PATIENCE.as_secs(),
    );
    Server::start(&target::configured(name, "endpoints", &settings)?)
}

/// Lookups without slow readers.
pub(crate) fn alone(port: u16, size: Size) -> Result<Sample> {
    client::load(&lookups(port, size))
}

/// Lookups beside readers that have all begun, once all connections are free that can become free.
/// With [`Policy::Spill`], the sample also contains the time before that.
pub(crate) fn beside(port: u16, policy: Policy, size: Size) -> Result<Sample> {
    // The connections of these lookups are open and stay open.
    client::load(&lookups(port, size))?;
    let shared = Pool::of(port)?.used;
    let readers = Load {
        url: format!("http://127.0.0.1:{port}/events.ndjson"),
        connections: READERS,
        amount: Amount::Requests(READERS),
        slow: Some(BYTES_PER_SECOND),
        rate: None,
        rows: None,
    };
    let begun = Instant::now();
    let readers = Running::start(&readers)?;
    let meanwhile =
        Running::start(&Load { amount: Amount::Seconds(PATIENCE.as_secs()), ..lookups(port, size) })?;
    let (mut held, mut last) = (0.0, Instant::now());
    loop {
        thread::sleep(EVERY);
        let pool = Pool::of(port)?;
        let busy = pool.used.saturating_sub(shared);
        held += busy as f64 * last.elapsed().as_secs_f64();
        last = Instant::now();
        let settled = match policy {
            Policy::Hold => busy >= READERS,
            Policy::Spill => busy == 0 && pool.waiting == 0,
        };
        if settled && pool.streams >= READERS {
            break;
        }
        if begun.elapsed() > PATIENCE {
            return Err(format!(
                "after {PATIENCE:?} there are {busy} connections in use and {} streams",
                pool.streams
            ));
        }
    }
    let freed = begun.elapsed().as_secs_f64();
    let meanwhile = meanwhile.broken_off()?;
    let mut sample = client::load(&lookups(port, size))?;
    readers.broken_off()?;
    if policy == Policy::Spill {
        sample.insert(Measure::Freed, freed);
        sample.insert(Measure::HeldPerStream, held / READERS as f64);
        sample.insert(Measure::P99Meanwhile, meanwhile[&Measure::P99]);
    }
    Ok(sample)
}

fn lookups(port: u16, size: Size) -> Load {
    Load {
        url: format!("http://127.0.0.1:{port}/event/{{1-{}}}", Data::Events.rows(size)),
        connections: 4,
        amount: Amount::Seconds(size.of(10).max(1)),
        slow: None,
        rate: Some(LOOKUPS_PER_SECOND),
        rows: None,
    }
}

/// Values of the server's metrics.
struct Pool {
    used: u64,
    waiting: u64,
    streams: u64,
}

impl Pool {
    fn of(port: u16) -> Result<Self> {
        let file = workspace::scratch()?.join("metrics");
        client::fetch(&format!("http://127.0.0.1:{port}/_rowstream/metrics"), &file)?;
        let metrics = workspace::read(&file)?;
        let [used, waiting, streams] = [
            "rowstream_pool_used{source=\"events\"}",
            "rowstream_pool_waiting{source=\"events\"}",
            "rowstream_permits",
        ]
        .map(|name| value(&metrics, name).ok_or_else(|| format!("there is no {name} in the metrics")));
        Ok(Self { used: used?, waiting: waiting?, streams: streams? })
    }
}

fn value(metrics: &str, name: &str) -> Option<u64> {
    let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
    line.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_understood() {
        let metrics = "# TYPE rowstream_permits gauge\nrowstream_permits_max 1024\nrowstream_permits 200\n";
        assert_eq!(value(metrics, "rowstream_permits"), Some(200));
        assert_eq!(value(metrics, "rowstream_pool_used"), None);
    }
}
