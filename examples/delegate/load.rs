//! Compares the calculation with measurements: for less load than a pool of 25 can carry, for more,
//! and for 5,000 slow calls at once.
//!
//! A response is 50 calls of 100 ms, and 25 calls run at a time. So a response takes 200 ms, and the
//! pool carries five per second. 150 more calls may wait, those of six responses. So the last response
//! that is admitted waits for six others: 7 × 200 ms. Further ones are refused at once.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::StatusCode;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::server::{Result, Server, ask, beside};
use super::upstream;

const TARGET: &str = "/h1/delegate/subcalldemo.ndjson?subCalls=50&subCallDuration=PT0.1S";
const CALLS: usize = 50;
/// The times of a response that's alone, and of one that's admitted when the queue is otherwise full.
const ALONE: Duration = Duration::from_millis(200);
const BEHIND_ALL: Duration = Duration::from_millis(1400);
/// The duration of each rate.
const HELD: Duration = Duration::from_secs(30);
const SLOW_CALLS: usize = 5000;
/// The path prefix and the protocol to the upstream, and the server's memory limit: 25 KB for each
/// call with its client connection, and 15 KB more if it has its own connection to the upstream.
const SLOW: [(&str, &str, u64); 2] = [("/h1", "HTTP/1.1", 200_000_000), ("/h2", "HTTP/2", 125_000_000)];
/// Connections that we open at a time, because the kernel's queue for them is short.
const OPENING: usize = 200;

/// The outcome of a request.
struct Asked {
    status: StatusCode,
    rows: usize,
    /// The time between the first request and this one, and the duration of this one.
    at: Duration,
    took: Duration,
}

/// Measures, and prints the results. Fails if one isn't near the calculated value. `program` is
/// Rowstream's program; by default the one next to this program.
pub(crate) async fn load(program: Option<String>) -> Result<ExitCode> {
    let program = program.map_or_else(beside, |program| Ok(PathBuf::from(program)))?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let upstream = format!("http://{}", listener.local_addr()?);
    tokio::spawn(upstream::serve(listener));
    let mut well = less_and_more(&program, &upstream).await?;
    for slow in SLOW {
        well &= slow_calls(&program, &upstream, slow).await?;
    }
    Ok(if well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn less_and_more(program: &Path, upstream: &str) -> Result<bool> {
    let server = Server::start(program, "pool25.toml", upstream)?;
    at_a_rate(&server, 4, Duration::from_secs(1)).await?;
    let (before, _) = server.memory()?;
    println!("50 calls of 100 ms for each request, pool of 25: computed 200 ms, and 5 requests/s");
    let calm = at_a_rate(&server, 4, HELD).await?;
    let (answered, refused) = told("4 requests/s", &calm);
    let is_calm = refused.is_empty() && answered[answered.len() / 2] < ALONE * 3 / 2;
    let full = at_a_rate(&server, 6, HELD).await?;
    let (answered, refused) = told("6 requests/s", &full);
    let first = full.iter().find(|asked| asked.status != StatusCode::OK);
    if let Some(first) = first {
        println!("  the first was refused after {:.1} s", first.at.as_secs_f64());
    }
    println!("  computed for the last that is let in: {BEHIND_ALL:?}");
    let (after, most) = server.memory()?;
    println!("memory: {} before, {} after, {} at most", megabytes(before), megabytes(after), megabytes(most));
    let in_time = answered.last().is_some_and(|slowest| *slowest < BEHIND_ALL * 2);
    let at_once = refused.last().is_some_and(|slowest| *slowest < ALONE);
    Ok(is_calm && in_time && at_once)
}

/// Sends so many requests per second for so long, without waiting for earlier responses.
async fn at_a_rate(server: &Server, rate: u32, held: Duration) -> Result<Vec<Asked>> {
    let begun = Instant::now();
    let mut requests = JoinSet::new();
    for number in 0..rate * held.as_secs() as u32 {
        let at = Duration::from_secs(1) * number / rate;
        tokio::time::sleep_until((begun + at).into()).await;
        requests.spawn(asked(server.address.clone(), TARGET, at));
    }
    let mut asked = all(requests).await?;
    asked.sort_by_key(|asked| asked.at);
    if let Some(half) = asked.iter().find(|asked| asked.status.is_success() && asked.rows != CALLS) {
        return Err(format!("an answer has {} rows of {CALLS}", half.rows).into());
    }
    Ok(asked)
}

async fn asked(address: String, target: &str, at: Duration) -> std::result::Result<Asked, String> {
    let begun = Instant::now();
    let (status, body) = ask(&address, target).await.map_err(|error| error.to_string())?;
    let rows = body.iter().filter(|byte| **byte == b'\n').count();
    Ok(Asked { status, rows, at, took: begun.elapsed() })
}

async fn all(requests: JoinSet<std::result::Result<Asked, String>>) -> Result<Vec<Asked>> {
    Ok(requests.join_all().await.into_iter().collect::<std::result::Result<_, _>>()?)
}

/// Prints the outcomes, and returns the sorted times of answered and of refused requests.
fn told(what: &str, asked: &[Asked]) -> (Vec<Duration>, Vec<Duration>) {
    let of = |wanted: StatusCode| {
        let mut times: Vec<_> =
            asked.iter().filter(|asked| asked.status == wanted).map(|asked| asked.took).collect();
        times.sort();
        times
    };
    let (answered, refused) = (of(StatusCode::OK), of(StatusCode::SERVICE_UNAVAILABLE));
    println!("{what} for {} s: {} requests", HELD.as_secs(), asked.len());
    for (what, times) in [("answered", &answered), ("refused with 503", &refused)] {
        if let Some(slowest) = times.last() {
            let median = times[times.len() / 2];
            println!(
                "  {:>4} {what}: median {} ms, slowest {} ms",
                times.len(),
                median.as_millis(),
                slowest.as_millis()
            );
        }
    }
    (answered, refused)
}

/// Sends 5,000 requests of ten seconds each, at once, to a pool with room for all.
async fn slow_calls(
    program: &Path,
    upstream: &str,
    (prefix, protocol, memory): (&str, &str, u64),
) -> Result<bool> {
    if descriptors().is_some_and(|most| most < 2 * SLOW_CALLS + 1000) {
        println!(
            "{SLOW_CALLS} requests of 10 s are left out: they need more descriptors; run `ulimit -n 12000` first"
        );
        return Ok(false);
    }
    let server = Server::start(program, "pool5000.toml", upstream)?;
    let target = format!("{prefix}/delegate/demo?processDuration=PT10S");
    let opening = Arc::new(Semaphore::new(OPENING));
    let mut requests = JoinSet::new();
    for _ in 0..SLOW_CALLS {
        let turn = Arc::clone(&opening).acquire_owned().await?;
        let (address, target) = (server.address.clone(), target.clone());
        requests.spawn(async move {
            // The next one may start once this one is on its way.
            let request = asked(address, &target, Duration::ZERO);
            let mut request = std::pin::pin!(request);
            let early = tokio::time::timeout(Duration::from_millis(20), &mut request).await;
            drop(turn);
            match early {
                Ok(asked) => asked,
                Err(_) => request.await,
            }
        });
    }
    let asked = all(requests).await?;
    let mut times: Vec<_> =
        asked.iter().filter(|asked| asked.status.is_success()).map(|asked| asked.took).collect();
    times.sort();
    let (Some(first), Some(last)) = (times.first(), times.last()) else {
        return Err("none was answered".into());
    };
    let (_, most) = server.memory()?;
    println!(
        "{} of {SLOW_CALLS} requests of 10 s over {protocol}, pool of {SLOW_CALLS}: answered after {:.2} to {:.2} s; memory of the server at most {}",
        times.len(),
        first.as_secs_f64(),
        last.as_secs_f64(),
        megabytes(most)
    );
    Ok(times.len() == SLOW_CALLS && last.as_secs() < 13 && most < memory)
}

/// The limit of open descriptors for this process and its children, if there is one.
fn descriptors() -> Option<usize> {
    let limits = std::fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

fn megabytes(bytes: u64) -> String {
    format!("{}.{} MB", bytes / 1_000_000, bytes % 1_000_000 / 100_000)
}
