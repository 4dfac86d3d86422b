//! Measures rows that each get a member from an upstream that takes a millisecond: rows per second,
//! their order, and the server's memory.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use tokio::net::TcpListener;

use super::server::{Result, Server, beside, get};
use super::upstream;

const ROWS: usize = 100_000;
/// Runs of each protocol; their median counts.
const RUNS: usize = 5;
/// The goals: at least so many rows per second, and at most so many bytes of the server's memory.
const LEAST: f64 = 20_000.0;
const MOST: u64 = 32_000_000;
/// The configuration, its data and its endpoints.
const FILES: [&str; 4] =
    ["rowstream.toml", "data/sqlite.sql", "endpoints/h1/orders.sql", "endpoints/h2/orders.sql"];

/// Measures, and prints a table. Fails if a row is wrong or a goal is missed. `program` is Rowstream's
/// program; by default the one next to this program.
pub(crate) async fn measure(program: Option<String>) -> Result<ExitCode> {
    let program = program.map_or_else(beside, |program| Ok(PathBuf::from(program)))?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let upstream = format!("http://{}", listener.local_addr()?);
    tokio::spawn(upstream::serve(listener));
    let folder = copy()?;
    let config = folder.path().join("rowstream.toml");
    let config = config.to_str().ok_or("the temporary folder has a name that is no text")?;
    // In a separate process, because filling the database uses memory that serving doesn't.
    drop(Server::start(&program, config, &upstream)?);
    println!("{ROWS} rows, a call of 1 ms for each, 64 at a time; median of {RUNS} runs");
    println!("{:8}  {:>8}  {:>7}", "protocol", "rows/s", "peak");
    let mut is_promised = true;
    for (prefix, protocol) in [("/h1", "HTTP/1.1"), ("/h2", "HTTP/2")] {
        let server = Server::start(&program, config, &upstream)?;
        let mut rates = Vec::new();
        for _ in 0..RUNS {
            let begun = Instant::now();
            let body = get(&server.address, &format!("{prefix}/orders.ndjson")).await?;
            let took = begun.elapsed();
            check(&body)?;
            rates.push(ROWS as f64 / took.as_secs_f64());
        }
        rates.sort_by(f64::total_cmp);
        let (rate, peak) = (rates[RUNS / 2], server.memory()?.1);
        let is_well = rate >= LEAST && peak <= MOST;
        is_promised &= is_well;
        let short = if is_well { "" } else { "  not what is promised" };
        println!("{protocol:8}  {rate:>8.0}  {:>4.1} MB{short}", peak as f64 / 1e6);
    }
    Ok(if is_promised { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Copies the files into a folder of their own, because the database is created next to them.
fn copy() -> Result<tempfile::TempDir> {
    let folder = tempfile::tempdir()?;
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/delegate/enrich");
    for name in FILES {
        let to = folder.path().join(name);
        to.parent().map_or(Ok(()), std::fs::create_dir_all)?;
        std::fs::copy(from.join(name), to)?;
    }
    Ok(folder)
}

/// Checks that all rows are there, in order, each with its own reply.
fn check(body: &[u8]) -> Result<()> {
    let mut lines = body.split(|byte| *byte == b'\n');
    for id in 1..=ROWS {
        let line = std::str::from_utf8(lines.next().unwrap_or_default())?;
        let (begin, reply) =
            (format!("{{\"id\":{id},"), format!("\"reply\":{{\"id\":{id},\"processed_ms\":1}}}}"));
        if !line.starts_with(&begin) || !line.ends_with(&reply) {
            return Err(format!("where row {id} belongs: {line}").into());
        }
    }
    match lines.next() {
        Some([]) if lines.next().is_none() => Ok(()),
        _ => Err("there are more rows".into()),
    }
}
