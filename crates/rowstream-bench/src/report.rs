//! The report: a table for people, and JSON for programs. Times are in seconds and memory in bytes.

use std::fmt::{self, Write as _};

use serde_json::{Map, Value, json};

use super::ratio::{Figure, Spread};
use super::tally::{Latency, Phase};
use super::watch::{Cost, Peak};
use super::{Report, Run};

/// The quantiles in reports, with their names in JSON.
const QUANTILES: [(&str, f64); 5] =
    [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99_9", 0.999), ("p99_99", 0.9999)];

impl Report {
    /// The report as JSON. `command` is the command line.
    pub fn json(&self, command: &[String]) -> Value {
        let targets: Vec<Value> = self
            .targets
            .iter()
            .map(|target| {
                let runs: Vec<Value> = target.runs.iter().map(run_json).collect();
                json!({ "url": target.url, "runs": runs })
            })
            .collect();
        let mut report = json!({
            "rowstream_bench": 1, "command": command, "started": self.started.to_string(), "targets": targets,
        });
        if self.targets.len() > 1 {
            let ratio =
                |figure: Figure| (figure.name().to_owned(), json!(self.ratio(figure).map(spread_json)));
            report["ratios"] = Value::Object(Figure::ALL.into_iter().map(ratio).collect());
        }
        report
    }
}

impl Run {
    /// A summary in one line.
    pub fn summary(&self) -> String {
        let (requests, rows) = (self.per_second(self.tally.complete), self.per_second(self.tally.rows));
        let (wall, failed) = (time(self.wall.as_secs_f64()), self.tally.failed());
        format!("{wall}, {} requests/s, {} rows/s, {failed} failed", grouped(requests), grouped(rows))
    }
}

fn spread_json(spread: Spread) -> Value {
    json!({ "median": spread.median, "min": spread.min, "max": spread.max })
}

fn run_json(run: &Run) -> Value {
    let tally = &run.tally;
    let failures: Map<String, Value> =
        tally.failures.iter().map(|(kind, failed)| (kind.name().to_owned(), json!(failed.count))).collect();
    let examples: Map<String, Value> =
        tally.failures.iter().map(|(kind, failed)| (kind.name().to_owned(), json!(failed.example))).collect();
    let statuses: Map<String, Value> =
        tally.statuses.iter().map(|(status, count)| (status.to_string(), json!(count))).collect();
    let latency: Map<String, Value> = Phase::ALL
        .into_iter()
        .map(|phase| (phase.name().to_owned(), latency_json(tally.latency(phase))))
        .collect();
    json!({
        "wall": run.wall.as_secs_f64(),
        "interrupted": run.interrupted,
        "requests": tally.requests(),
        "complete": tally.complete,
        "failures": failures,
        "failure_examples": examples,
        "statuses": statuses,
        "rows": tally.rows,
        "bytes": tally.bytes,
        "requests_per_second": run.per_second(tally.complete),
        "rows_per_second": run.per_second(tally.rows),
        "bytes_per_second": run.per_second(tally.bytes),
        "latency": latency,
        "server": run.cost.map(cost_json),
        "client": {
            "cpu": run.client.cpu.as_secs_f64(), "busy": run.client.busy, "limited": run.client.limited(),
        },
        "timeline": run.timeline.iter().map(|moment| json!({
            "at": moment.at.as_secs_f64(),
            "requests": moment.requests,
            "rows": moment.rows,
            "bytes": moment.bytes,
            "server_memory": moment.server.map(|server| server.memory),
            "server_cpu": moment.server.map(|server| server.cpu),
        })).collect::<Vec<_>>(),
    })
}

/// `null` without values.
fn latency_json(latency: &Latency) -> Value {
    if latency.count() == 0 {
        return Value::Null;
    }
    let mut object = json!({ "count": latency.count(), "min": latency.min(), "mean": latency.mean() });
    for (name, quantile) in QUANTILES {
        object[name] = json!(latency.at(quantile));
    }
    object["max"] = json!(latency.max());
    object
}

fn cost_json(cost: Cost) -> Value {
    json!({
        "cpu_user": cost.cpu_user,
        "cpu_system": cost.cpu_system,
        "peak_memory": cost.peak_memory,
        "peak_memory_is": cost.peak.name(),
        "voluntary_switches": cost.voluntary,
        "involuntary_switches": cost.involuntary,
    })
}

/// The table for people.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.targets.as_slice() {
            [target] => {
                writeln!(f, "{}", target.url)?;
                target.runs.iter().try_for_each(|run| write_run(f, run))
            }
            _ => self.write_comparison(f),
        }
    }
}

fn write_run(f: &mut fmt::Formatter<'_>, run: &Run) -> fmt::Result {
    let tally = &run.tally;
    writeln!(f)?;
    let interrupted =
        if run.interrupted { ", interrupted: what was in flight then is not counted" } else { "" };
    let failed = tally.failed();
    line(f, "time", &format!("{}{interrupted}", time(run.wall.as_secs_f64())))?;
    line(
        f,
        "requests",
        &format!("{} ended, {} complete, {failed} failed", tally.requests(), tally.complete),
    )?;
    let rate = |count: u64| grouped(run.per_second(count));
    line(f, "", &format!("{} requests/s", rate(tally.complete)))?;
    line(f, "rows", &format!("{}, {} rows/s", grouped(tally.rows as f64), rate(tally.rows)))?;
    let per_second = bytes(run.per_second(tally.bytes));
    line(f, "bodies", &format!("{}, {per_second}/s", bytes(tally.bytes as f64)))?;
    write_failures(f, run)?;
    write_latencies(f, run)?;
    if let Some(cost) = run.cost {
        write_cost(f, cost)?;
    }
    let (busy, cpu) = (run.client.busy * 100.0, time(run.client.cpu.as_secs_f64()));
    line(f, "load tester", &format!("{cpu} of CPU time, its busiest thread {busy:.0} % busy"))?;
    write_limited(f, run)
}

fn write_failures(f: &mut fmt::Formatter<'_>, run: &Run) -> fmt::Result {
    for (kind, failed) in &run.tally.failures {
        let text = format!("{} × {} (the first: {})", failed.count, kind.name(), failed.example);
        line(f, "failed", &text)?;
    }
    let of_failures = run.tally.statuses.iter().filter(|(status, _)| !(200..300).contains(*status));
    for (status, count) in of_failures {
        line(f, &format!("status {status}"), &count.to_string())?;
    }
    Ok(())
}

fn write_latencies(f: &mut fmt::Formatter<'_>, run: &Run) -> fmt::Result {
    writeln!(f)?;
    let names = ["min", "mean", "p50", "p90", "p99", "p99.9", "p99.99", "max"];
    writeln!(f, "{}", row("", &names.map(str::to_owned)))?;
    for phase in Phase::ALL {
        let latency = run.tally.latency(phase);
        if latency.count() == 0 {
            continue;
        }
        let [p50, p90, p99, p99_9, p99_99] = QUANTILES.map(|(_, quantile)| latency.at(quantile));
        let values = [latency.min(), latency.mean(), p50, p90, p99, p99_9, p99_99, latency.max()];
        writeln!(f, "{}", row(&phase.name().replace('_', " "), &values.map(time)))?;
    }
    writeln!(f)
}

fn write_cost(f: &mut fmt::Formatter<'_>, cost: Cost) -> fmt::Result {
    let cpu = time(cost.cpu_user + cost.cpu_system);
    let (user, system) = (time(cost.cpu_user), time(cost.cpu_system));
    line(f, "server", &format!("{cpu} of CPU time: {user} user, {system} system"))?;
    let how = match cost.peak {
        Peak::HighWaterMark => "the kernel's high-water mark of this run",
        Peak::Sampled => "the most that was seen, every 100 ms",
    };
    line(f, "", &format!("{} of memory at most ({how})", bytes(cost.peak_memory as f64)))?;
    let switches = format!("{} voluntary, {} involuntary context switches", cost.voluntary, cost.involuntary);
    line(f, "", &switches)
}

fn write_limited(f: &mut fmt::Formatter<'_>, run: &Run) -> fmt::Result {
    match run.client.limited() {
        true => {
            writeln!(f, "\nThe load tester was the bottleneck: the server may be faster than these figures.")
        }
        false => Ok(()),
    }
}

impl Report {
    /// Writes the medians of both targets and the ratios of their pairs.
    fn write_comparison(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, target) in ["A", "B"].iter().zip(&self.targets) {
            writeln!(f, "{name}  {} ({} runs)", target.url, target.runs.len())?;
        }
        writeln!(f, "\n{:<22}{:>14}{:>14}{:>10}  (min to max)", "medians", "A", "B", "A ÷ B")?;
        for figure in Figure::ALL {
            let mut text = format!("{:<22}", figure.name().replace('_', " "));
            for target in &self.targets {
                let values = target.runs.iter().filter_map(|run| figure.of(run)).collect();
                let shown =
                    Spread::of(values).map_or("–".to_owned(), |spread| shown(figure, spread.median));
                write!(text, "{shown:>14}")?;
            }
            match self.ratio(figure) {
                Some(Spread { median, min, max }) => write!(text, "{median:>10.3}  ({min:.3} to {max:.3})")?,
                None => write!(text, "{:>10}", "–")?,
            }
            writeln!(f, "{}", text.trim_end())?;
        }
        self.write_faults(f)
    }

    /// Writes everything that makes the comparison worthless.
    fn write_faults(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, target) in ["A", "B"].iter().zip(&self.targets) {
            for (number, run) in target.runs.iter().enumerate() {
                for (kind, failed) in &run.tally.failures {
                    let (count, example) = (failed.count, &failed.example);
                    writeln!(
                        f,
                        "\n{name}, run {}: {count} × {} (the first: {example})",
                        number + 1,
                        kind.name()
                    )?;
                }
                if run.interrupted {
                    writeln!(f, "\n{name}, run {}: interrupted", number + 1)?;
                }
            }
            let limited = target.runs.iter().filter(|run| run.client.limited()).count();
            if limited > 0 {
                writeln!(f, "\n{name}: the load tester was the bottleneck in {limited} runs.")?;
            }
        }
        Ok(())
    }
}

fn shown(figure: Figure, value: f64) -> String {
    match figure {
        Figure::Wall | Figure::ServerCpu | Figure::FirstByte => time(value),
        Figure::RequestsPerSecond | Figure::RowsPerSecond => grouped(value),
        Figure::PeakMemory => bytes(value),
    }
}

fn line(f: &mut fmt::Formatter<'_>, name: &str, text: &str) -> fmt::Result {
    writeln!(f, "{name:<13}{text}")
}

fn row(name: &str, cells: &[String; 8]) -> String {
    let cells: String = cells.iter().map(|cell| format!("{cell:>10}")).collect();
    format!("{name:<13}{cells}")
}

/// Seconds, in a fitting unit.
pub(super) fn time(seconds: f64) -> String {
    match seconds {
        0.0 => "0 s".to_owned(),
        ..1e-3 => format!("{:.0} µs", seconds * 1e6),
        ..1.0 => format!("{:.2} ms", seconds * 1e3),
        _ => format!("{seconds:.3} s"),
    }
}

/// Bytes, in a fitting decimal unit.
pub(super) fn bytes(bytes: f64) -> String {
    match bytes {
        ..1e3 => format!("{bytes:.0} B"),
        ..1e6 => format!("{:.1} KB", bytes / 1e3),
        ..1e9 => format!("{:.1} MB", bytes / 1e6),
        _ => format!("{:.2} GB", bytes / 1e9),
    }
}

/// A number with separated thousands. Small ones get a digit after the point.
pub(super) fn grouped(value: f64) -> String {
    if value < 100.0 && value.fract() != 0.0 {
        return format!("{value:.1}");
    }
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units() {
        assert_eq!([0.0, 12e-6, 0.0123, 2.5].map(time), ["0 s", "12 µs", "12.30 ms", "2.500 s"]);
        assert_eq!([1.0, 1234.0, 5e6, 1.2e9].map(bytes), ["1 B", "1.2 KB", "5.0 MB", "1.20 GB"]);
        assert_eq!([0.0, 2.5, 100.4, 1234.0, 1e6].map(grouped), ["0", "2.5", "100", "1,234", "1,000,000"]);
    }
}
