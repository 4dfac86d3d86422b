//! The results of runs as files, and as a table of the documentation.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use super::peer::Fault;
use super::{PROXIES, RUNS, Seen};
use crate::support::repository;

const PAGE: &str = "docs/src/explanation/cuts.md";
const BEGIN: &str = "<!-- written by tests/it/client_faults/table.rs -->\n";
const CLIENTS: [&str; 3] = ["JavaScript", "Python", "rowstream get"];
/// The first line of a file.
const HEAD: &str = "run,fault,faults,key,rows,lost,doubled,error\n";

/// The result of a run.
#[derive(Debug)]
pub(super) struct Run {
    /// The damaged responses.
    pub(super) faults: usize,
    /// True if its list has a key, so that it can be resumed.
    pub(super) is_keyed: bool,
    pub(super) seen: Seen,
}

impl Run {
    pub(super) fn fault(&self) -> Fault {
        Fault::of(self.seen.run)
    }

    fn line(&self) -> String {
        let Seen { run, rows, lost, doubled, error } = &self.seen;
        let key = if self.is_keyed { "yes" } else { "no" };
        let error = error.as_deref().unwrap_or("none");
        format!("{run},{:?},{},{key},{rows},{lost},{doubled},{error}\n", self.fault(), self.faults)
    }

    fn read(line: &str) -> Self {
        let cells: Vec<_> = line.split(',').collect();
        let number = |at: usize| cells[at].parse().unwrap_or_else(|_| panic!("{line}"));
        let error = (cells[7] != "none").then(|| cells[7].to_owned());
        let seen = Seen { run: number(0), rows: number(4), lost: number(5), doubled: number(6), error };
        Self { faults: number(2), is_keyed: cells[3] == "yes", seen }
    }
}

type Runs = BTreeMap<(&'static str, &'static str), Vec<Run>>;

fn file(client: &str, proxy: &str) -> PathBuf {
    let name = format!("{}-{proxy}.csv", client.replace(' ', "-")).to_lowercase();
    repository().join("tests/it/client_faults/runs").join(name)
}

/// Prints the results, and keeps those of `cargo xtask clients`.
pub(super) fn keep(client: &str, proxy: &str, runs: &[Run]) {
    let faults: usize = runs.iter().map(|run| run.faults).sum();
    println!("{client} through {proxy}: {} runs, {faults} faults", runs.len());
    if std::env::var_os(RUNS).is_none() {
        return;
    }
    let text = runs.iter().fold(HEAD.to_owned(), |text, run| text + &run.line());
    std::fs::write(file(client, proxy), text).expect("the folder is writable");
}

/// The runs in the files.
pub(super) fn kept_runs() -> Runs {
    let ways = CLIENTS.into_iter().flat_map(|client| PROXIES.map(|proxy| (client, proxy)));
    ways.map(|way| (way, read(&file(way.0, way.1)))).collect()
}

fn read(file: &PathBuf) -> Vec<Run> {
    let text = std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let rows = text.strip_prefix(HEAD).expect("the file has its head");
    rows.lines().map(Run::read).collect()
}

/// Compares the table of the documentation, or writes it if `ROWSTREAM_WRITE_DOCS` is set.
pub(super) fn compare(runs: &Runs) {
    let path = repository().join(PAGE);
    let page = std::fs::read_to_string(&path).expect("the page");
    let (words, old) = page.split_once(BEGIN).expect("the table has its mark");
    let new = written(runs);
    if std::env::var_os("ROWSTREAM_WRITE_DOCS").is_some() {
        std::fs::write(path, format!("{words}{BEGIN}{new}")).expect("the page is writable");
        return;
    }
    assert_eq!(new, old, "run it with ROWSTREAM_WRITE_DOCS=1");
}

/// A line for each fault, with the runs of all clients through all proxies.
fn written(runs: &Runs) -> String {
    let mut text = "| fault of the response | runs | faults | complete | error, with a key | error, without | lost silently | doubled |\n".to_owned();
    text += &("|---".repeat(8) + "|\n");
    for fault in Fault::ALL {
        let runs = runs.values().flatten().filter(|run| run.fault() == fault);
        let cells = cells(&runs.collect::<Vec<_>>()).join(" | ");
        let _ = writeln!(text, "| {} | {cells} |", fault.name());
    }
    text
}

fn cells(runs: &[&Run]) -> [String; 7] {
    let count = |is: &dyn Fn(&Run) -> bool| runs.iter().filter(|run| is(run)).count();
    let sum = |of: &dyn Fn(&Run) -> usize| runs.iter().map(|run| of(run)).sum();
    let silently = |run: &Run| if run.seen.error.is_none() { run.seen.lost } else { 0 };
    [
        runs.len(),
        sum(&|run| run.faults),
        count(&|run| run.seen.error.is_none()),
        count(&|run| run.seen.error.is_some() && run.is_keyed),
        count(&|run| run.seen.error.is_some() && !run.is_keyed),
        sum(&silently),
        sum(&|run| run.seen.doubled),
    ]
    .map(|number| number.to_string())
}
