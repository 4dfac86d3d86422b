//! Compares the time of many calls with the calculated one: calls × duration ÷ parallelism.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::server::{Result, Server, beside, get};
use super::upstream;

const CALLS: u32 = 50;
const DURATION: Duration = Duration::from_millis(100);
/// Runs of each pool and protocol; their median counts.
const RUNS: usize = 7;
/// Allowed in addition to the calculated time.
const GRACE: Duration = Duration::from_millis(15);
/// The pools and their configurations.
const POOLS: [(u32, &str); 3] = [(5, "rowstream.toml"), (25, "pool25.toml"), (50, "pool50.toml")];

/// Measures, and prints a table. Fails if a time isn't near the calculated one. `program` is
/// Rowstream's program; by default the one next to this program.
pub(crate) async fn measure(program: Option<String>) -> Result<ExitCode> {
    let program = program.map_or_else(beside, |program| Ok(PathBuf::from(program)))?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let upstream = format!("http://{}", listener.local_addr()?);
    tokio::spawn(upstream::serve(listener));
    println!("{CALLS} calls of {} ms, median of {RUNS} runs", DURATION.as_millis());
    println!("{:>4}  {:8}  {:>8}  {:>8}  {:>6}", "pool", "protocol", "computed", "measured", "off");
    let mut all_near = true;
    for (pool, config) in POOLS {
        let server = Server::start(&program, config, &upstream)?;
        for (prefix, protocol, share) in [("/h1", "HTTP/1.1", 10), ("/h2", "HTTP/2", 20)] {
            let computed = DURATION * CALLS / pool;
            let measured = median(&server.address, prefix).await?;
            let off = measured.as_secs_f64() / computed.as_secs_f64() - 1.0;
            let is_near = measured <= computed * (100 + share) / 100 + GRACE && measured >= computed;
            all_near &= is_near;
            println!(
                "{pool:>4}  {protocol:8}  {:>5} ms  {:>5} ms  {:>+5.1}%{}",
                computed.as_millis(),
                measured.as_millis(),
                off * 100.0,
                if is_near { "" } else { "  not near" },
            );
        }
    }
    all_near &= ten_long_calls(&program, &upstream).await?;
    Ok(if all_near { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn median(address: &str, prefix: &str) -> Result<Duration> {
    let target = format!("{prefix}/delegate/subcalldemo.ndjson?subCalls={CALLS}&subCallDuration=PT0.1S");
    let mut times = Vec::new();
    for _ in 0..RUNS {
        let begun = Instant::now();
        let body = get(address, &target).await?;
        times.push(begun.elapsed());
        let rows = body.iter().filter(|byte| **byte == b'\n').count();
        if rows != CALLS as usize {
            return Err(format!("{rows} rows of {CALLS}").into());
        }
    }
    times.sort();
    Ok(times[RUNS / 2])
}

/// Sends ten requests of ten seconds each, at once, to a pool of five.
async fn ten_long_calls(program: &Path, upstream: &str) -> Result<bool> {
    let server = Server::start(program, POOLS[0].1, upstream)?;
    let begun = Instant::now();
    let mut requests = JoinSet::new();
    for _ in 0..10 {
        let address = server.address.clone();
        let answered = async move {
            let got = get(&address, "/delegate/demo?processDuration=PT10S").await;
            got.map(|_| begun.elapsed()).map_err(|error| error.to_string())
        };
        requests.spawn(answered);
    }
    let mut times = requests.join_all().await.into_iter().collect::<std::result::Result<Vec<_>, _>>()?;
    times.sort();
    let seconds: Vec<_> = times.iter().map(|time| format!("{:.2}", time.as_secs_f64())).collect();
    println!("10 requests of 10 s, pool of 5: answered after {} s", seconds.join(", "));
    let within =
        |times: &[Duration], least| times.iter().all(|time| (least..least + 1).contains(&time.as_secs()));
    Ok(within(&times[..5], 10) && within(&times[5..], 20))
}
