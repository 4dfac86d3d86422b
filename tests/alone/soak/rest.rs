//! The resources that are free again once the server is quiet.

use std::fmt;
use std::num::NonZero;
use std::thread;
use std::time::{Duration, Instant};

use super::faults::reload;
use super::setting::{MAX_STREAMS, PLACES, Reloaded, Setting, Source};
use crate::support::{Client, Streaming, get, limit, open_descriptors, wait_until};

/// The time between two looks at it.
const LOOK: Duration = Duration::from_millis(250);
/// The allowed growth of resident memory: free memory that the allocator keeps, and the results of
/// streams, which are available for ten minutes.
const GROWTH: u64 = 40_000_000;

/// The server's resources at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Use {
    memory: u64,
    descriptors: usize,
    threads: usize,
    /// Connections of the database.
    connections: i64,
}

impl fmt::Display for Use {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { memory, descriptors, threads, connections } = self;
        let megabytes = *memory as f64 / 1e6;
        write!(
            f,
            "{megabytes:.1} MB resident, {descriptors} descriptors, {threads} threads, {connections} connections"
        )
    }
}

impl Use {
    async fn of(setting: &Setting) -> Self {
        let pid = setting.server.pid();
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the process is there");
        let field = |name: &str| -> u64 {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("proc(5)");
            line.split_whitespace().next().and_then(|number| number.parse().ok()).expect("a number")
        };
        let sql = "select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()";
        let client = setting.db.client().await;
        Self {
            memory: field("VmRSS:") * 1024,
            descriptors: open_descriptors(pid),
            threads: usize::try_from(field("Threads:")).expect("a count"),
            connections: client.query_one(sql, &[]).await.expect("it can be asked").get(0),
        }
    }

    /// Waits until the server is quiet for some seconds, without any database connection. Returns
    /// its resources then.
    pub(crate) async fn quiet(setting: &Setting) -> Self {
        let (mut last, mut since) = (Self::of(setting).await, Instant::now());
        wait_until("it's quiet", async || {
            tokio::time::sleep(LOOK).await;
            let (before, now) = (last, Self::of(setting).await);
            if now.connections > 0 || (now.descriptors, now.threads) != (before.descriptors, before.threads) {
                since = Instant::now();
            }
            last = now;
            let is_quiet = since.elapsed() > Duration::from_secs(3);
            if is_quiet { Ok(now) } else { Err(format!("{before}, then {now}")) }
        })
        .await
    }

    /// Waits until it has no more resources than `before`, and returns them.
    pub(crate) async fn until_no_more_than(before: &Self, setting: &Setting) -> Self {
        wait_until("all is given back", async || {
            tokio::time::sleep(LOOK).await;
            let now = Self::of(setting).await;
            let all = [
                now.descriptors <= before.descriptors,
                now.threads <= before.threads,
                now.connections <= before.connections,
                now.memory <= before.memory + GROWTH,
            ];
            if all == [true; 4] { Ok(now) } else { Err(format!("before: {before}, and now: {now}")) }
        })
        .await
    }
}

/// Opens endless streams, and reads the first rows of each.
async fn take(setting: &Setting, source: Source, count: usize) -> Vec<Streaming> {
    let mut streams = Vec::new();
    for number in 0..count {
        let client = if number % 2 == 0 { Client::HTTP1 } else { Client::H2C };
        let client = client.receive_buffer(32 * 1024);
        let mut stream = client.stream(&setting.url(source, "endless.ndjson")).await;
        if stream.status != 200 {
            panic!("{source:?}: stream {number}: {}", stream.rest().await.text());
        }
        stream.at_least(1000).await;
        streams.push(stream);
    }
    streams
}

/// The slots of a source that lists can use. The rest is for lookups: the connections that they
/// share, one per core and at most a quarter of all, and one more.
fn places_of_lists() -> usize {
    let shared = thread::available_parallelism().map_or(1, NonZero::get).min(PLACES / 4);
    PLACES - shared - 1
}

/// Checks for leaked permits and slots: takes all that streams can have at once, of each source and
/// of the server.
pub(crate) async fn all_can_be_taken_again(setting: &Setting) {
    // The streams are held without reading, so the time limits are raised.
    let (total, write_timeout) = (limit(), limit());
    reload(setting, &Reloaded { total, write_timeout, ..Reloaded::default() }).await;
    for (first, second) in
        [(Source::Direct, Source::Lite), (Source::Faulty, Source::Direct), (Source::Lite, Source::Faulty)]
    {
        let places = places_of_lists();
        let streams = [take(setting, first, places).await, take(setting, second, MAX_STREAMS - places).await];
        let reply = get(&setting.url(second, "event/1")).await;
        assert_eq!((reply.status.as_u16(), &reply.json()["code"]), (503, &"too_many_streams".into()));
        drop(streams);
        wait_until("the permits are free again", async || {
            get(&setting.url(second, "event/1")).await.status == 200
        })
        .await;
        setting.db.until_none_active().await;
    }
}
