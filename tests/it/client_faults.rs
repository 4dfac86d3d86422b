//! Our clients read lists through nginx and HAProxy, and a peer behind them damages the responses.
//! Each run ends with all rows, each once and in their order, or with an error. An error leaves a
//! beginning of the list.
//!
//! `cargo xtask clients` makes more runs than a test, keeps their results in
//! `client_faults/runs/`, and writes the table of `docs/src/explanation/cuts.md`.
//!
//! | file | contents |
//! |---|---|
//! | `client_faults/peer.rs` | the peer and its faults |
//! | `client_faults/table.rs` | the results as files, and the table |
//! | `client_faults/read.mjs` | the program for Node |
//! | `clients/python/tests/faults.py` | the program for Python |

#![expect(clippy::unwrap_used, reason = "the helpers of tests are tests, too")]

mod peer;
mod table;

use std::path::Path;
use std::process::Stdio;

use serde::Deserialize;

use self::peer::{Fault, Peer, SEED};
use self::table::{Run, keep, kept_runs};
use crate::support::{self, Ended, Hop, wait};
use crate::{client_js, client_python, get};

/// The rows of the list. A mark follows at most 1,000 of them.
const ROWS: usize = 3_000;
/// The runs through each proxy: a few of each fault. `cargo xtask clients` sets more.
const FEW: usize = 40;
const RUNS: &str = "ROWSTREAM_CLIENT_RUNS";
/// This many runs, and one of them reads a list without a key, which can't be resumed.
const PLAIN: usize = 5;
const PROXIES: [&str; 2] = ["nginx", "HAProxy"];

const CONFIG: &str = "[source.db]\nurl = \"sqlite:rows.db\"\ncreate = [\"data.sql\"]\n";
const LIST: &str = "/* key = [\"id\"]\nheartbeat = \"200ms\" */ select id, note from t order by id";
const PLAIN_LIST: &str = "/* heartbeat = \"200ms\" */ select id, note from t order by id";

/// The report of a client about one run.
#[derive(Debug, Deserialize)]
struct Seen {
    run: usize,
    rows: usize,
    /// Rows that are missing before others. Without an error, also those at the end.
    lost: usize,
    doubled: usize,
    /// The code or the kind of the error.
    error: Option<String>,
}

/// The peer behind a proxy.
struct Way {
    name: &'static str,
    peer: Peer,
    hop: Hop,
}

impl Way {
    async fn new(name: &'static str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("endpoints")).unwrap();
        let data = format!(
            "create table t (id integer primary key, note text not null);
             with recursive r(n) as (select 1 union all select n + 1 from r where n < {ROWS})
             insert into t select n, 'row ' || n from r;"
        );
        for (file, text) in [
            ("rowstream.toml", CONFIG),
            ("data.sql", &data),
            ("endpoints/rows.sql", LIST),
            ("endpoints/plain.sql", PLAIN_LIST),
        ] {
            std::fs::write(folder.path().join(file), text).unwrap();
        }
        let peer = Peer::start(folder, "/rows.ndjson?_end=1").await;
        let hop = match name {
            "nginx" => Hop::nginx(peer.address).await,
            _ => Hop::haproxy(peer.address).await,
        };
        Self { name, peer, hop }
    }

    async fn both() -> [Self; 2] {
        let [nginx, haproxy] = PROXIES;
        [Self::new(nginx).await, Self::new(haproxy).await]
    }

    fn url(&self) -> String {
        format!("http://{}", self.hop.http1)
    }

    /// Checks each run.
    fn check(&self, client: &str, seen: Vec<Seen>) -> Vec<Run> {
        assert_eq!(seen.len(), runs());
        seen.into_iter().map(|seen| self.check_run(client, seen)).collect()
    }

    fn check_run(&self, client: &str, seen: Seen) -> Run {
        let (fault, events) = (Fault::of(seen.run), self.peer.events(seen.run));
        let what = format!("{client} through {}, seed {SEED}: {fault:?} {events:?} {seen:?}", self.name);
        assert_eq!((seen.lost, seen.doubled), (0, 0), "{what}");
        let is_keyed = !seen.run.is_multiple_of(PLAIN);
        match &seen.error {
            None => assert_eq!(seen.rows, ROWS, "{what}"),
            Some(code) if events.refused > 0 => assert_eq!(code, "invalid_cursor", "{what}"),
            // Without a key, the rows that the caller has can't be continued.
            Some(_) => assert!(!is_keyed, "{what}"),
        }
        assert!(seen.error.is_some() || events.refused == 0, "{what}");
        Run { faults: events.faults, is_keyed, seen }
    }
}

/// The number of runs through each proxy.
fn runs() -> usize {
    let given = std::env::var(RUNS).ok();
    given.map_or(FEW, |runs| runs.parse().unwrap_or_else(|_| panic!("{RUNS} isn't a number: {runs}")))
}

/// The name of the endpoint of a run.
fn endpoint(run: usize) -> &'static str {
    if run.is_multiple_of(PLAIN) { "plain" } else { "rows" }
}

fn reports(text: &str) -> Vec<Seen> {
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"))).collect()
}

/// Every kind of fault happened, through both proxies.
fn check_all(client: &str, ways: &[Way; 2], seen: [Vec<Seen>; 2]) {
    for (way, seen) in ways.iter().zip(seen) {
        let runs = way.check(client, seen);
        for fault in Fault::ALL {
            let happened: usize = runs.iter().filter(|run| run.fault() == fault).map(|run| run.faults).sum();
            assert!(happened > 0, "{fault:?} never happened to {client}");
        }
        keep(client, way.name, &runs);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn javascript_loses_no_row_silently() {
    let (package, ways) = tokio::join!(client_js::Package::build(), Way::both());
    let [nginx, haproxy] = ways.each_ref().map(Way::url);
    let settings = format!(
        "const [BASES, RUNS, ROWS, PLAIN] = [['{nginx}', '{haproxy}'], {}, {ROWS}, {PLAIN}];\n",
        runs()
    );
    let printed = package.node(&(settings + include_str!("client_faults/read.mjs"))).await;
    let (nginx, haproxy) = printed.split_once("\n\n").unwrap();
    check_all("JavaScript", &ways, [nginx, haproxy].map(reports));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn python_loses_no_row_silently() {
    let ways = Way::both().await;
    let read = async |way: &Way| {
        let mut python = client_python::python();
        python
            .args(["tests/faults.py", &way.url()])
            .args([runs(), ROWS, PLAIN].map(|number| number.to_string()));
        reports(&client_python::run_beside(python).await.0)
    };
    let (nginx, haproxy) = tokio::join!(read(&ways[0]), read(&ways[1]));
    check_all("Python", &ways, [nginx, haproxy]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn get_loses_no_row_silently() {
    let ways = Way::both().await;
    let read = async |way: &Way| {
        let mut seen = Vec::new();
        for run in 0..runs() {
            seen.push(download(run, &format!("{}/{run}/{}.ndjson", way.url(), endpoint(run))).await);
        }
        seen
    };
    let (nginx, haproxy) = tokio::join!(read(&ways[0]), read(&ways[1]));
    check_all("rowstream get", &ways, [nginx, haproxy]);
}

/// Downloads to a file or to standard output.
async fn download(run: usize, url: &str) -> Seen {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rows.ndjson");
    let mut command = get::command(&[url, "--quiet"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let is_file = (run / Fault::ALL.len()).is_multiple_of(2);
    if is_file {
        command.arg("-o").arg(&file);
    }
    let running = tokio::task::spawn_blocking(move || command.output());
    let output = wait("the download ends", running).await.unwrap().unwrap();
    // A file gets its name only once it's complete.
    assert!(!is_file || file.exists() == output.status.success(), "{output:?}");
    let text = if is_file { read_if_there(&file) } else { String::from_utf8(output.stdout).unwrap() };
    let told = String::from_utf8(output.stderr).unwrap();
    let error = (!output.status.success()).then(|| code_of(&told));
    seen_of(run, &text, error)
}

fn read_if_there(file: &Path) -> String {
    if file.exists() { std::fs::read_to_string(file).unwrap() } else { String::new() }
}

/// `error: invalid_cursor: …` has the code of the server's error.
fn code_of(told: &str) -> String {
    let reason = told.strip_prefix("error: ").unwrap_or_else(|| panic!("{told}"));
    let first = reason.split(": ").next().unwrap_or_default();
    if first.contains(' ') { "incomplete".to_owned() } else { first.to_owned() }
}

/// Compares the rows with the list.
fn seen_of(run: usize, text: &str, error: Option<String>) -> Seen {
    let mut seen = Seen { run, rows: 0, lost: 0, doubled: 0, error };
    let mut last = 0;
    for line in text.lines() {
        let row: serde_json::Value = serde_json::from_str(line).unwrap();
        let id = usize::try_from(row["id"].as_u64().unwrap()).unwrap();
        seen.rows += 1;
        seen.doubled += usize::from(id <= last);
        seen.lost += id.saturating_sub(last + 1);
        last = last.max(id);
    }
    if seen.error.is_none() {
        seen.lost += ROWS - last;
    }
    seen
}

/// The checks find lost rows: a reader that trusts the end of the body has too few.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_trusts_the_end_of_the_body_is_caught() {
    let run = Fault::ALL.iter().position(|fault| *fault == Fault::CleanEnd).unwrap();
    for way in Way::both().await {
        let reply = support::get(&format!("{}/{run}/rows.ndjson?_end=1", way.url())).await;
        assert_eq!(reply.ended, Ended::Complete, "{}", way.name);
        let whole = reply.text().rsplit_once('\n').unwrap().0;
        let rows: Vec<_> = whole.lines().filter(|line| !line.starts_with("{\"$rowstream\"")).collect();
        let seen = seen_of(run, &rows.join("\n"), None);
        assert!(seen.rows > 0 && seen.lost == ROWS - seen.rows && seen.lost > 0, "{}: {seen:?}", way.name);
    }
}

/// The table in the documentation is that of the kept runs.
#[test]
fn the_table_is_that_of_the_runs() {
    table::compare(&kept_runs());
}
