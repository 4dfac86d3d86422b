//! The clients: `curl` for one stream, `rowstream bench` for many, and `pgbench` and `mysqlslap`
//! for the databases' own lookups.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use distance::Place;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::database::{MariaDb, Postgres};
use crate::record::{Measure, Sample};
use crate::{Result, workspace};

/// The token of the events example. Every server gets it, but only Rowstream requires it.
const TOKEN: &str = "Authorization: Bearer example-reader-token";

/// If a server hangs, only its own measurement fails, and not the whole run.
const TIMEOUT_SECONDS: &str = "60";
/// Slow readers may share few connections and have to wait for earlier ones.
const SLOW_TIMEOUT_SECONDS: &str = "300";

const CURL: &str = "curl";
const NOWHERE: &str = "/dev/null";

/// The protocol of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Http {
    One,
    Two,
}

/// Reads one response into a file and returns its size.
pub(crate) fn fetch(url: &str, file: &Path) -> Result<f64> {
    Ok(curl(url, Http::One, file)?[&Measure::Bytes])
}

/// Reads and discards one response. It must have as many bytes as the proven response.
pub(crate) fn stream(url: &str, http: Http, bytes: f64) -> Result<Sample> {
    whole(curl(url, http, Path::new(NOWHERE))?, bytes)
}

/// Does the same from another place.
pub(crate) fn stream_to(place: &Place, url: &str, bytes: f64) -> Result<Sample> {
    let sample = read_by(place.command(CURL), url, Http::One, Path::new(NOWHERE), &[])?;
    whole(sample, bytes)
}

/// Checks that a response has as many bytes as the proven one.
fn whole(sample: Sample, bytes: f64) -> Result<Sample> {
    if sample[&Measure::Bytes] == bytes {
        return Ok(sample);
    }
    Err(format!("an answer had {} bytes instead of {bytes}", sample[&Measure::Bytes]))
}

/// Reads and discards one response.
pub(crate) fn read(url: &str) -> Result<Sample> {
    curl(url, Http::One, Path::new(NOWHERE))
}

/// Reads one response with the given content coding and discards it without decoding. The request
/// pretends to arrive through a proxy, because responses to the same machine aren't compressed.
pub(crate) fn coded(url: &str, coding: &str) -> Result<Sample> {
    let coding = format!("Accept-Encoding: {coding}");
    read_by(Command::new(CURL), url, Http::One, Path::new(NOWHERE), &[&coding, "Via: 1.1 compare"])
}

fn curl(url: &str, http: Http, file: &Path) -> Result<Sample> {
    read_by(Command::new(CURL), url, http, file, &[])
}

fn read_by(mut command: Command, url: &str, http: Http, file: &Path, headers: &[&str]) -> Result<Sample> {
    command.args(["--silent", "--show-error", "--max-time", TIMEOUT_SECONDS, "--header", TOKEN]);
    command.args(headers.iter().flat_map(|header| ["--header", header]));
    if http == Http::Two {
        command.arg("--http2-prior-knowledge");
    }
    command.args(["--write-out", "%{time_starttransfer} %{size_download} %{http_code}", "--output"]);
    let start = Instant::now();
    let output = command.arg(file).arg(url).output().map_err(|error| format!("cannot run curl: {error}"))?;
    let wall = start.elapsed().as_secs_f64();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        return Err(format!("curl: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    written(&said, wall).ok_or_else(|| format!("the answer was no 200: {said}"))
}

/// Parses the output of `--write-out` for a response with status 200.
fn written(said: &str, wall: f64) -> Option<Sample> {
    let words: Vec<&str> = said.split(' ').collect();
    let [first_byte, bytes, "200"] = words.as_slice() else { return None };
    Some(Sample::from([
        (Measure::Wall, wall),
        (Measure::FirstByte, first_byte.parse().ok()?),
        (Measure::Bytes, bytes.parse().ok()?),
    ]))
}

/// The size of a load.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Amount {
    Requests(u64),
    /// Requests begin for this many seconds. Those in flight then end, and count.
    Seconds(u64),
    /// One request per connection. We abort all of them after this many seconds.
    BrokenOff(u64),
}

/// Many parallel requests.
#[derive(Debug, Clone)]
pub(crate) struct Load {
    /// Each `{a-b}` in it is a random number, chosen per request.
    pub(crate) url: String,
    pub(crate) connections: u64,
    pub(crate) amount: Amount,
    /// The maximum rate of each reader, in bytes per second.
    pub(crate) slow: Option<u64>,
    /// The rate at which requests begin, per second. Otherwise each begins when the previous one
    /// has ended.
    pub(crate) rate: Option<u64>,
    /// A response with another number of rows counts as failed.
    pub(crate) rows: Option<u64>,
}

/// Runs `rowstream bench`.
pub(crate) fn load(load: &Load) -> Result<Sample> {
    let running = Running::start(load)?;
    match load.amount {
        Amount::BrokenOff(seconds) => {
            thread::sleep(Duration::from_secs(seconds));
            running.broken_off()
        }
        Amount::Requests(_) | Amount::Seconds(_) => running.ended(),
    }
}

/// A running `rowstream bench`. Dropping it kills the process.
pub(crate) struct Running(Option<Child>);

impl Running {
    /// Starts it.
    pub(crate) fn start(load: &Load) -> Result<Self> {
        let mut command = bench(load)?;
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        Ok(Self(Some(child.map_err(|error| format!("cannot run rowstream bench: {error}"))?)))
    }

    /// Stops it now, and returns its measurements until then.
    pub(crate) fn broken_off(self) -> Result<Sample> {
        if let Some(child) = &self.0 {
            let _ = kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGINT);
        }
        self.ended()
    }

    /// Waits for its end, and returns its measurements.
    fn ended(mut self) -> Result<Sample> {
        let child = self.0.take().ok_or("rowstream bench has ended already")?;
        let output = child.wait_with_output().map_err(|error| format!("rowstream bench is lost: {error}"))?;
        let told = || format!("rowstream bench: {}", String::from_utf8_lossy(&output.stderr).trim());
        let answer: Value = serde_json::from_slice(&output.stdout).map_err(|_| told())?;
        benched(&answer["targets"][0]["runs"][0]).ok_or_else(told)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn bench(load: &Load) -> Result<Command> {
    let mut command = Command::new(workspace::rowstream()?);
    command.args(["bench", &load.url, "-c", &load.connections.to_string(), "--format", "json", "-H", TOKEN]);
    match load.amount {
        Amount::Requests(number) => command.args(["-n", &number.to_string()]),
        Amount::Seconds(seconds) => command.args(["-z", &format!("{seconds}s")]),
        Amount::BrokenOff(_) => command.args(["-n", &load.connections.to_string()]),
    };
    if let Some(rate) = load.slow {
        command.args(["--slow", &rate.to_string()]);
    }
    if let Some(rate) = load.rate {
        command.args(["-q", &rate.to_string()]);
    }
    if let Some(rows) = load.rows {
        command.args(["--expect-rows", &rows.to_string()]);
    }
    let timeout = if load.slow.is_some() { SLOW_TIMEOUT_SECONDS } else { TIMEOUT_SECONDS };
    command.args(["--timeout", &format!("{timeout}s")]);
    Ok(command)
}

fn benched(run: &Value) -> Option<Sample> {
    let failures: u64 = run["failures"].as_object()?.values().filter_map(Value::as_u64).sum();
    let mut sample = Sample::from([
        (Measure::Wall, run["wall"].as_f64()?),
        (Measure::RequestsPerSecond, run["requests_per_second"].as_f64()?),
        (Measure::Failures, failures as f64),
        (Measure::Bytes, bytes_seen(run)?),
    ]);
    if let Some(p99) = run["latency"]["total"]["p99"].as_f64() {
        sample.insert(Measure::P99, p99);
    }
    Some(sample)
}

/// The received bytes, including responses that we aborted. The total of a run counts only complete
/// responses, but its timeline counts all.
fn bytes_seen(run: &Value) -> Option<f64> {
    let live = run["timeline"].as_array().and_then(|moments| moments.last()?["bytes"].as_f64());
    Some(run["bytes"].as_f64()?.max(live.unwrap_or(0.0)))
}

/// Runs `pgbench`: prepared statements, this many clients on two threads, and random ids.
pub(crate) fn pgbench(
    postgres: &Postgres,
    clients: u64,
    select: &str,
    ids: u64,
    amount: Amount,
) -> Result<Sample> {
    let script = workspace::scratch()?.join("pgbench.sql");
    workspace::write(&script, &format!("\\set id random(1, {ids})\n{select} = :id;\n"))?;
    let mut command = postgres.program("pgbench");
    command.args(["-n", "-M", "prepared", "-j", "2", "-c", &clients.to_string(), "-f"]).arg(script);
    match amount {
        Amount::Requests(number) => command.args(["-t", &(number / clients).to_string()]),
        Amount::Seconds(seconds) | Amount::BrokenOff(seconds) => command.args(["-T", &seconds.to_string()]),
    };
    let output = command.output().map_err(|error| format!("cannot run pgbench: {error}"))?;
    let said = String::from_utf8_lossy(&output.stdout);
    let rate = transactions_per_second(&said).filter(|_| output.status.success());
    let rate = rate.ok_or_else(|| format!("pgbench: {}", String::from_utf8_lossy(&output.stderr).trim()))?;
    Ok(Sample::from([(Measure::RequestsPerSecond, rate)]))
}

/// Runs `mysqlslap`: 64 clients, each with the prepared statement, and random ids.
pub(crate) fn mysqlslap(mariadb: &MariaDb, select: &str, ids: u64, lookups: u64) -> Result<Sample> {
    const CLIENTS: u64 = 64;
    let script = workspace::scratch()?.join("mysqlslap.sql");
    let each = lookups / CLIENTS;
    workspace::write(&script, &executions(ids, each))?;
    let prepared = format!("prepare looked_up from '{select} = ?'");
    let mut command = mariadb.slap(&script, &prepared, CLIENTS, each * CLIENTS);
    let output = command.output().map_err(|error| format!("cannot run mysqlslap: {error}"))?;
    let said = String::from_utf8_lossy(&output.stdout);
    let seconds = seconds_of_all(&said).filter(|_| output.status.success());
    let seconds =
        seconds.ok_or_else(|| format!("mysqlslap: {}", String::from_utf8_lossy(&output.stderr).trim()))?;
    let rate = (each * CLIENTS) as f64 / seconds;
    Ok(Sample::from([(Measure::RequestsPerSecond, rate), (Measure::Wall, seconds)]))
}

/// Executions of the statement with pseudo-random numbers, made like the examples' data.
fn executions(ids: u64, count: u64) -> String {
    let id = |n: u64| (n * n * 7 + n * 104_729 + 11) % 999_979 % ids + 1;
    (0..count).map(|n| format!("execute looked_up using {};\n", id(n))).collect()
}

/// The average time in a line such as `,mixed,4.044,4.044,4.044,64,1562`, which contains the
/// average, the minimum and the maximum.
fn seconds_of_all(said: &str) -> Option<f64> {
    said.lines().next()?.split(',').nth(2)?.parse().ok().filter(|seconds| *seconds > 0.0)
}

/// The rate in a line such as `tps = 53456.789 (without initial connection time)`.
fn transactions_per_second(said: &str) -> Option<f64> {
    let line = said.lines().find_map(|line| line.strip_prefix("tps = "))?;
    line.split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curl_is_understood() {
        let sample = written("0.000812 126000000 200", 0.25).unwrap();
        assert_eq!(sample[&Measure::FirstByte], 0.000_812);
        assert_eq!(sample[&Measure::Bytes], 126_000_000.0);
        assert_eq!(sample[&Measure::Wall], 0.25);
        assert_eq!(written("0.000812 310 503", 0.25), None);
    }

    #[test]
    fn pgbench_is_understood() {
        let said = "pgbench (15.14)\ntransaction type: x.sql\nnumber of clients: 16\nlatency average = 0.299 ms\n\
                    initial connection time = 17.4 ms\ntps = 53456.789012 (without initial connection time)\n";
        assert_eq!(transactions_per_second(said), Some(53_456.789_012));
        assert_eq!(transactions_per_second("pgbench: error: connection refused"), None);
    }

    #[test]
    fn mysqlslap_is_understood() {
        assert_eq!(seconds_of_all(",mixed,4.044,4.044,4.044,64,1562\n"), Some(4.044));
        assert_eq!(seconds_of_all("mysqlslap: Error when connecting to server"), None);
        let script = executions(10, 1000);
        let ids: std::collections::HashSet<&str> = script.lines().collect();
        assert!(ids.len() == 10 && ids.contains("execute looked_up using 10;"), "{ids:?}");
    }

    #[test]
    fn bench_is_understood() {
        let run = serde_json::json!({
            "wall": 2.0, "requests": 100, "complete": 97, "failures": {"reset": 1, "status": 2}, "bytes": 1000,
            "requests_per_second": 48.5, "latency": {"total": {"p99": 0.5}},
        });
        let sample = benched(&run).unwrap();
        assert_eq!(sample[&Measure::Failures], 3.0);
        assert_eq!(sample[&Measure::P99], 0.5);
        assert_eq!(sample[&Measure::RequestsPerSecond], 48.5);
        assert_eq!(sample[&Measure::Bytes], 1000.0);
        assert_eq!(benched(&serde_json::json!(null)), None);
        let broken_off = serde_json::json!({
            "wall": 2.0, "failures": {}, "bytes": 0, "requests_per_second": 0, "timeline": [{"bytes": 5}, {"bytes": 70}],
        });
        assert_eq!(benched(&broken_off).unwrap()[&Measure::Bytes], 70.0);
    }
}
