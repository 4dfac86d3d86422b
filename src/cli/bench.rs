//! `rowstream bench`: the load tester. This file reads the command line and writes the reports.

use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use http::{HeaderName, HeaderValue};
use rowstream_bench::{Error, Extent, Plan, Protocol, Report, Run, Subject, Target, measure};
use rowstream_core::diagnostic::reader::{parse_duration, parse_size};

use super::output::ResultOutput;
use super::{Failure, block_on};

/// Drives a URL, counts its rows, checks that each answer is whole, and reports times, rates and
/// memory.
#[derive(Debug, clap::Args)]
pub(super) struct BenchArgs {
    /// An http:// URL; {1-1000} in it is a random integer in each request.
    #[arg(value_parser = Target::parse)]
    url: Target,
    /// Connections, each with one request at a time.
    #[arg(short, value_name = "CONNECTIONS", default_value_t = 1, value_parser = positive())]
    connections: u32,
    /// Requests over all connections [default: 1].
    #[arg(short = 'n', value_name = "REQUESTS", value_parser = clap::value_parser!(u64).range(1..))]
    requests: Option<u64>,
    /// Start requests for this long (10s, 1m30s), instead of a fixed number.
    #[arg(short = 'z', value_name = "DURATION", conflicts_with = "requests", value_parser = duration)]
    duration: Option<Duration>,
    /// Start this many requests a second, even if earlier ones haven't ended.
    #[arg(short = 'q', value_name = "RATE", value_parser = rate)]
    rate: Option<f64>,
    /// Read at most this many bytes a second on each connection (100KB, 1MB).
    #[arg(long, value_name = "BYTES_PER_S", value_parser = byte_rate)]
    slow: Option<u64>,
    /// Speak HTTP/2 without TLS, by prior knowledge.
    #[arg(long)]
    http2: bool,
    /// A header to send with every request.
    #[arg(short = 'H', value_name = "NAME: VALUE", value_parser = header)]
    header: Vec<(HeaderName, HeaderValue)>,
    /// The number of rows that each answer must have.
    #[arg(long, value_name = "N")]
    expect_rows: Option<u64>,
    /// The longest time that a server may send nothing.
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = duration)]
    timeout: Duration,
    /// The server's process, to report its CPU time and memory (Linux).
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
    /// A second URL, measured in turn with the first one.
    #[arg(long, value_name = "URL", value_parser = Target::parse)]
    compare: Option<Target>,
    /// The process of the second server.
    #[arg(long, value_name = "PID", requires = "compare")]
    compare_pid: Option<u32>,
    /// The number of runs for each URL [default: 7].
    #[arg(long, value_name = "N", requires = "compare", value_parser = positive())]
    pairs: Option<u32>,
    /// The number of threads [default: the number of cores].
    #[arg(long, value_name = "N", value_parser = positive())]
    threads: Option<u32>,
    /// The format of the report.
    #[arg(long, value_enum, default_value_t)]
    format: BenchFormat,
    /// The file to write the report to, instead of stdout.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Also write the report to this file, as a web page with charts.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// How reports are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
enum BenchFormat {
    /// Tables for people.
    #[default]
    Text,
    /// One JSON object.
    Json,
}

const DEFAULT_PAIRS: u32 = 7;

fn positive() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..)
}

fn duration(text: &str) -> Result<Duration, String> {
    parse_duration(text)
        .filter(|duration| !duration.is_zero())
        .ok_or_else(|| "write a duration such as 10s or 1m30s".into())
}

fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse().ok().filter(|rate: &f64| rate.is_finite() && *rate > 0.0);
    rate.ok_or_else(|| "write requests per second, such as 100 or 0.5".into())
}

/// The lowest rate that is steady. We read in intervals of a tenth of a second.
const MIN_BYTE_RATE: u64 = 10;

fn byte_rate(text: &str) -> Result<u64, String> {
    let rate = parse_size(text.strip_suffix("/s").unwrap_or(text)).and_then(|rate| u64::try_from(rate).ok());
    rate.filter(|rate| *rate >= MIN_BYTE_RATE)
        .ok_or_else(|| "write bytes per second, such as 5000, 100KB or 1MB, and no less than 10".into())
}

pub(super) fn header(text: &str) -> Result<(HeaderName, HeaderValue), String> {
    let (name, value) = text.split_once(':').ok_or("write 'Name: value'")?;
    let name = name.trim().parse().map_err(|_| format!("`{name}` isn't a header name"))?;
    let value = value.trim().parse().map_err(|_| format!("`{value}` isn't a header value"))?;
    Ok((name, value))
}

pub(super) fn run(args: BenchArgs) -> Result<(), Failure> {
    let plan = args.plan();
    let target = Subject { target: args.url, pid: args.pid };
    let pairs = args.pairs.unwrap_or(DEFAULT_PAIRS);
    let compare = args.compare.map(|target| (Subject { target, pid: args.compare_pid }, pairs));
    let progress = if compare.is_some() && io::stderr().is_terminal() { say } else { |_: &_, _: &_| {} };
    let report = block_on(async { Ok(measure(&plan, target, compare, progress).await?) })?;
    // The page is first, because a reader of the report may leave early.
    if let Some(path) = &args.html {
        write_file(path, &report.html())?;
    }
    write_report(&report, args.format, args.output.as_deref())?;
    match report.failed() {
        0 => Ok(()),
        failed => Err(Failure::Message(format!("{failed} of {} requests failed", report.requests()))),
    }
}

impl BenchArgs {
    fn plan(&self) -> Plan {
        let cores = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Plan {
            connections: self.connections as usize,
            threads: self.threads.map_or_else(cores, |threads| threads as usize),
            extent: match self.duration {
                Some(duration) => Extent::Duration(duration),
                None => Extent::Requests(self.requests.unwrap_or(1)),
            },
            rate: self.rate,
            slow: self.slow,
            protocol: if self.http2 { Protocol::Http2 } else { Protocol::Http1 },
            headers: self.header.clone(),
            expect_rows: self.expect_rows,
            timeout: self.timeout,
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::Io(error) => error.into(),
            Error::Message(message) => Self::Message(message),
        }
    }
}

/// Prints the summary of a run for people who wait for many of them.
fn say(subject: &Subject, run: &Run) {
    eprintln!("{}: {}", subject.target.url, run.summary());
}

fn write_report(report: &Report, format: BenchFormat, output: Option<&Path>) -> Result<(), Failure> {
    let text = match format {
        BenchFormat::Text => report.to_string(),
        BenchFormat::Json => {
            let command: Vec<String> = std::env::args().collect();
            format!("{:#}\n", report.json(&command))
        }
    };
    match output {
        None => Ok(ResultOutput::new().write_all(text.as_bytes())?),
        Some(path) => write_file(path, &text),
    }
}

fn write_file(path: &Path, text: &str) -> Result<(), Failure> {
    fs::write(path, text).map_err(|error| Failure::Message(format!("{}: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_rates() {
        for (text, rate) in
            [("500", 500), ("100KB", 100_000), ("2KiB", 2048), ("1 GB", 1_000_000_000), ("3mb/s", 3_000_000)]
        {
            assert_eq!(byte_rate(text), Ok(rate), "{text}");
        }
        for text in ["", "KB", "0", "9", "2k", "-5", "1.5MB", "99999999999999999MB"] {
            assert!(byte_rate(text).is_err(), "{text}");
        }
    }

    #[test]
    fn rates_and_durations() {
        assert_eq!((rate("0.5"), duration("1m30s")), (Ok(0.5), Ok(Duration::from_secs(90))));
        for text in ["0", "-1", "x", "inf", "NaN"] {
            assert!(rate(text).is_err(), "{text}");
        }
        for text in ["0s", "-1s", "5", "x"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
