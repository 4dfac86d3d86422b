//! The raw runs: a measurement's results as small JSON files. They're committed together with their
//! report.
//!
//! ```text
//! benches/runs/2026-11-21-53aa0de/machine.json   where it ran, and the versions of what ran
//!                                 events.json    one file for each row
//! ```

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::rows::FLOORS;
use crate::stats::Spread;
use crate::{Result, workspace};

/// A floor may be slower than usual by at most this factor.
const OFF: f64 = 1.4;

/// A quantity of one run of one target. Times are in seconds, sizes in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Measure {
    /// From the start of the client's process to its end. For many clients, as their driver reports
    /// it.
    Wall,
    /// From the client's start to the first byte of the response, as the client reports it.
    FirstByte,
    /// User and system time of the server.
    Cpu,
    /// The same per successful request.
    CpuPerRequest,
    /// The server's largest resident memory.
    PeakMemory,
    RequestsPerSecond,
    /// The 99th percentile of a request's total time.
    P99,
    /// The same for lookups during the time in which slow readers' rows were spilled.
    P99Meanwhile,
    /// The time until no slow reader held a connection to the database.
    Freed,
    /// The time that a slow reader held a connection, on average.
    HeldPerStream,
    /// Requests that failed.
    Failures,
    /// The largest size of the kernel's buffers for the server's sockets, per stream.
    SocketMemory,
    /// The bytes that the client received, without headers.
    Bytes,
    /// The same per second of the client's time.
    BytesPerSecond,
    /// Rows per second of the client's time.
    RowsPerSecond,
}

/// The quantities of one run.
pub(crate) type Sample = BTreeMap<Measure, f64>;

/// One target of a row, with all its runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Series {
    pub(crate) target: String,
    /// The variable of a curve: rows or streams.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) x: Option<u64>,
    /// Runs of the same work before the first one that counts.
    pub(crate) warm_ups: usize,
    pub(crate) samples: Vec<Sample>,
    /// Runs that failed and were repeated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) faults: Vec<String>,
    /// The server's first complaint in a run with failed requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) complaint: Option<String>,
    /// The reason why it wasn't run, or not to the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) missing: Option<String>,
}

impl Series {
    /// A target without any runs yet.
    pub(crate) fn new(target: &str, warm_ups: usize) -> Self {
        Self {
            target: target.into(),
            x: None,
            warm_ups,
            samples: Vec::new(),
            faults: Vec::new(),
            complaint: None,
            missing: None,
        }
    }

    /// A target that couldn't be run.
    pub(crate) fn missing(target: &str, why: &str) -> Self {
        Self { missing: Some(why.into()), ..Self::new(target, 0) }
    }

    /// The median of the requests, or runs, per second.
    fn speed(&self) -> Option<f64> {
        let median = |measure| Some(Spread::of(&self.values(measure))?.median);
        median(Measure::RequestsPerSecond).or_else(|| Some(1.0 / median(Measure::Wall)?))
    }

    /// The values of one measure, in the order of the runs.
    pub(crate) fn values(&self, measure: Measure) -> Vec<f64> {
        self.samples.iter().filter_map(|sample| sample.get(&measure).copied()).collect()
    }
}

/// One row of the comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct RowRun {
    pub(crate) row: String,
    pub(crate) started: Timestamp,
    pub(crate) series: Vec<Series>,
    /// Facts that a reader needs and no number shows.
    #[serde(default)]
    pub(crate) notes: Vec<String>,
}

impl RowRun {
    /// The series of a target. For a curve, the first point.
    pub(crate) fn series(&self, target: &str) -> Option<&Series> {
        self.series.iter().find(|series| series.target == target)
    }
}

/// The machine and the versions of the programs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub(crate) date: String,
    /// Rowstream's commit, followed by `+` if the work tree was changed.
    pub(crate) commit: String,
    /// Measured once at a tenth of the size, so it isn't a result.
    pub(crate) quick: bool,
    pub(crate) runs: usize,
    /// In output order.
    pub(crate) facts: Vec<(String, String)>,
}

impl Machine {
    fn is_the_machine_of(&self, other: &Self) -> bool {
        let hardware = |machine: &Self| {
            let facts = machine.facts.iter().filter(|(name, _)| ["Processor", "Memory"].contains(&&**name));
            facts.cloned().collect::<Vec<_>>()
        };
        hardware(self) == hardware(other)
    }
}

/// A run on disk.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    /// Its folder.
    pub(crate) folder: PathBuf,
    pub(crate) machine: Machine,
    pub(crate) rows: Vec<RowRun>,
}

impl Run {
    /// Reads a folder. A file that isn't a row is an error, because a report must not omit
    /// unreadable files.
    pub(crate) fn read(folder: &Path) -> Result<Self> {
        let machine = from_json(&folder.join("machine.json"))?;
        let mut paths = json_files(folder)?;
        paths.retain(|path| !path.ends_with("machine.json"));
        let rows = paths.iter().map(|path| from_json(path)).collect::<Result<Vec<RowRun>>>()?;
        Ok(Self { folder: folder.into(), machine, rows })
    }

    pub(crate) fn row(&self, id: &str) -> Option<&RowRun> {
        self.rows.iter().find(|row| row.row == id)
    }
}

/// All kept runs.
pub(crate) fn all() -> Result<Vec<Run>> {
    let runs = workspace::root().join("benches/runs");
    let folders = std::fs::read_dir(&runs).map_err(|_| "there are no runs yet: cargo xtask compare")?;
    folders.flatten().map(|entry| Run::read(&entry.path())).collect()
}

/// Keeps each row only in the run that measured it last, and removes runs without rows. Returns the
/// newest run first.
pub(crate) fn newest(runs: &[Run]) -> Vec<Run> {
    let last = |id: &str| runs.iter().filter_map(|run| Some(run.row(id)?.started)).max();
    let mut newest = runs.to_vec();
    newest.iter_mut().for_each(|run| run.rows.retain(|row| Some(row.started) == last(&row.row)));
    newest.retain(|run| !run.rows.is_empty());
    newest.sort_by_key(|run| Reverse(run.rows.iter().map(|row| row.started).max()));
    newest
}

/// Describes the first floor of a row that was slower than usual, compared with the newest run on
/// the same machine. A faster floor is harmless: something slowed down the older run.
pub(crate) fn slower_than_usual(run: &RowRun, machine: &Machine, kept: &[Run]) -> Option<String> {
    let same = kept.iter().filter(|kept| kept.machine.is_the_machine_of(machine));
    let before = same.filter_map(|kept| kept.row(&run.row)).max_by_key(|row| row.started)?;
    FLOORS.iter().find_map(|floor| {
        let (now, then) = (run.series(floor)?.speed()?, before.series(floor)?.speed()?);
        let ratio = now / then;
        (ratio < 1.0 / OFF).then(|| {
            format!(
                "{}: `{floor}` was {ratio:.2} times as fast as at {}, and the row is thrown away: measure again when \
                 nothing else uses the machine, or remove that run from benches/runs if the machine has changed",
                run.row, before.started
            )
        })
    })
}

/// Writes one of the files of a run with one line per sample, so that diffs of runs are readable.
pub(crate) fn write(path: &Path, value: &impl Serialize) -> Result<()> {
    let json = serde_json::to_string_pretty(value).map_err(|error| error.to_string())?;
    workspace::write(path, &(json + "\n"))
}

fn from_json<T: for<'de> Deserialize<'de>>(path: &Path) -> Result<T> {
    let text = workspace::read(path)?;
    serde_json::from_str(&text).map_err(|error| format!("{} is no run: {error}", path.display()))
}

fn json_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries =
        std::fs::read_dir(folder).map_err(|error| format!("cannot read {}: {error}", folder.display()))?;
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    paths.sort();
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(folder: &str, rows: &[(&str, &str)]) -> Run {
        let rows = rows.iter().map(|(row, started)| RowRun {
            row: (*row).into(),
            started: started.parse().unwrap(),
            series: vec![],
            notes: vec![],
        });
        let machine =
            Machine { date: String::new(), commit: String::new(), quick: false, runs: 7, facts: vec![] };
        Run { folder: folder.into(), machine, rows: rows.collect() }
    }

    #[test]
    fn a_floor_that_is_slower_than_usual_is_seen() {
        let with = |speed: f64, started: &str, processor: &str| {
            let mut run = run("r", &[("lookups", started)]);
            let mut series = Series::new(FLOORS[0], 0);
            series.samples = vec![Sample::from([(Measure::RequestsPerSecond, speed)])];
            run.rows[0].series = vec![series];
            run.machine.facts = vec![("Processor".into(), processor.into())];
            run
        };
        let kept = [
            with(10.0, "2026-01-01T10:00:00Z", "fast"),
            with(80.0, "2026-01-02T10:00:00Z", "fast"),
            with(1.0, "2026-01-03T10:00:00Z", "slow"),
        ];
        for (speed, processor, slow) in [
            (24.0, "fast", true),
            (60.0, "fast", false),
            (110.0, "fast", false),
            (120.0, "fast", false),
            (56.0, "fast", true),
            (24.0, "new", false),
        ] {
            let now = with(speed, "2026-01-04T10:00:00Z", processor);
            assert_eq!(
                slower_than_usual(&now.rows[0], &now.machine, &kept).is_some(),
                slow,
                "{speed} {processor}"
            );
        }
    }

    #[test]
    fn of_each_row_the_newest_run_counts() {
        let runs = [
            run("old", &[("films", "2026-01-01T10:00:00Z")]),
            run("all", &[("events", "2026-01-02T10:00:00Z"), ("films", "2026-01-02T11:00:00Z")]),
            // An hour later than it looks.
            run("one", &[("films", "2026-01-02T10:30:00-01:00")]),
        ];
        let newest = newest(&runs);
        let rows: Vec<_> = newest
            .iter()
            .map(|run| (run.folder.to_str().unwrap(), run.rows.iter().map(|row| &*row.row).collect()))
            .collect();
        assert_eq!(rows, [("one", vec!["films"]), ("all", vec!["events"])]);
    }
}
