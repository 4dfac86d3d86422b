//! The Python client in `clients/python`, as its users install it: from its wheel.
//!
//! `cargo xtask test` installs Python and the libraries. If they can't be installed, it skips these
//! tests with a message.

#![expect(clippy::unwrap_used, reason = "the helpers of tests are tests, too")]

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::support::{Cut, Faults, Launch, Server, TcpProxy, given, repository};
use crate::{wire, worked};

/// Rows of the list that is cut, and bytes between two cuts. A mark follows at most 1,000 rows, of
/// some 30 bytes.
const ROWS: usize = 150_000;
const BYTES: std::ops::Range<u64> = 1_000..80_000;

fn client() -> PathBuf {
    repository().join("clients/python")
}

/// The wheel, installed in a folder.
fn installed() -> &'static Path {
    static INSTALLED: OnceLock<TempDir> = OnceLock::new();
    let folder = INSTALLED.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let pip = ["-m", "pip", "--quiet", "--disable-pip-version-check", "--no-input"];
        let wheel = ["wheel", "--no-deps", "--no-index", "--no-build-isolation", "--wheel-dir"];
        run(Command::new(given("ROWSTREAM_TEST_PYTHON"))
            .args(pip)
            .args(wheel)
            .arg(folder.path())
            .arg(client()));
        let version = env!("CARGO_PKG_VERSION");
        let wheel = folder.path().join(format!("rowstream-{version}-py3-none-any.whl"));
        let install = ["install", "--no-deps", "--no-index", "--target"];
        run(Command::new(given("ROWSTREAM_TEST_PYTHON"))
            .args(pip)
            .args(install)
            .arg(folder.path().join("installed"))
            .arg(wheel));
        folder
    });
    Box::leak(folder.path().join("installed").into_boxed_path())
}

/// The tests' Python, which can import the client from its wheel.
pub(crate) fn python() -> Command {
    let mut python = Command::new(given("ROWSTREAM_TEST_PYTHON"));
    python.env("PYTHONPATH", installed()).env("PYTHONDONTWRITEBYTECODE", "1").current_dir(client());
    python
}

/// Runs a command that must succeed, and returns its output and its messages.
fn run(command: &mut Command) -> (String, String) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let [stdout, stderr] =
        [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
    assert!(output.status.success(), "{command:?}: {stdout}\n{stderr}");
    (stdout, stderr)
}

/// The same, without blocking the servers of this test.
pub(crate) async fn run_beside(mut command: Command) -> (String, String) {
    tokio::task::spawn_blocking(move || run(&mut command)).await.unwrap()
}

/// Also certifies it by the scripts.
#[test]
fn its_own_tests_pass() {
    let peers = [wire::start(), wire::start()].join(" ");
    let mut tests = python();
    tests.args(["-W", "error", "-m", "unittest", "discover", "--start-directory", "tests"]);
    let (_, said) = run(tests.env("ROWSTREAM_TEST_PEERS", peers));
    assert!(said.contains("\nOK\n"), "a test was skipped: {said}");
}

#[test]
fn its_code_has_no_lints_and_its_types_are_right() {
    run(python().args(["-m", "ruff", "check", "--no-cache"]));
    run(python().args(["-m", "ruff", "format", "--check", "--no-cache"]));
    run(python().args(["-m", "pyright", "--pythonpath", &given("ROWSTREAM_TEST_PYTHON")]));
}

/// Each connection is cut after a random number of bytes.
async fn cut_at_random(proxy: &TcpProxy) {
    loop {
        let how = if fastrand::bool() { Cut::Close } else { Cut::Reset };
        proxy.set_to_client(Faults { cut: Some((fastrand::u64(BYTES), how)), ..Faults::default() });
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

async fn survives_cuts(way: &str) {
    let data = format!(
        "create table t (n integer primary key, note text not null);
         with recursive r(n) as (select 1 union all select n + 1 from r where n < {ROWS})
         insert into t select n, 'row ' || n from r;"
    );
    let config = "[source.db]\nurl = \"sqlite:rows.db\"\ncreate = [\"data.sql\"]\n";
    let rows = "/* key = [\"n\"] */ select n, note from t order by n";
    let files = [("rowstream.toml", config), ("data.sql", &data), ("endpoints/rows.sql", rows)];
    let server = Server::start(&files).await;
    let proxy = TcpProxy::transparent(server.address().parse().unwrap()).await;
    let url = format!("http://{}/rows", proxy.address());
    let mut reading = python();
    reading.args(["tests/cuts.py", way, &url]);
    let (printed, _) = tokio::select! {
        ended = run_beside(reading) => ended,
        () = cut_at_random(&proxy) => unreachable!("it doesn't end"),
    };
    let seen: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(
        (&seen["lost"], &seen["doubled"], &seen["rows"]),
        (&0.into(), &0.into(), &ROWS.into()),
        "{seen}"
    );
    assert!(seen["resumptions"].as_u64().unwrap() >= 100, "{seen}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_row_is_lost_or_doubled_by_cuts() {
    survives_cuts("sync").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_row_is_lost_or_doubled_by_cuts_in_asyncio() {
    survives_cuts("async").await;
}

/// Frames of the libraries have the values of the rows.
#[tokio::test]
async fn frames_are_equal_to_the_rows() {
    let folder = worked::copy("shop");
    let server = Launch::folder(folder.path()).start().await;
    let mut comparing = python();
    comparing
        .args(["tests/frames.py"])
        .args(["/readings", "/orders", "/customers"].map(|path| server.url(path)));
    run_beside(comparing).await;
}

/// The server keeps its address, as behind a load balancer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_live_tail_survives_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let table = rusqlite::Connection::open(folder.path().join("rows.db")).unwrap();
    table.busy_timeout(Duration::from_secs(30)).unwrap();
    table
        .execute_batch("create table t (id integer primary key autoincrement); insert into t values (1), (2)")
        .unwrap();
    let rows = "/* key = [\"id\"]\nfollow = { poll = \"20ms\" } */ select id from t order by id";
    std::fs::write(folder.path().join("rowstream.toml"), "[source.db]\nurl = \"sqlite:rows.db\"\n").unwrap();
    std::fs::create_dir(folder.path().join("endpoints")).unwrap();
    std::fs::write(folder.path().join("endpoints/rows.sql"), rows).unwrap();
    let server = Launch::folder(folder.path()).start().await;
    let address = server.address().to_owned();
    let mut following = python();
    following.args(["tests/tail.py", &server.url("/rows"), "4"]).stdout(Stdio::piped());
    let mut following = following.spawn().unwrap();
    let mut lines = BufReader::new(following.stdout.take().unwrap()).lines();
    let mut next = || tokio::task::block_in_place(|| lines.next().map(Result::unwrap));
    assert_eq!([next(), next()], ["1", "2"].map(|id| Some(id.to_owned())));
    drop(server);
    table.execute_batch("insert into t values (3)").unwrap();
    let _server = Launch::folder(folder.path()).listen(&address).start().await;
    assert_eq!(next().as_deref(), Some("3"));
    table.execute_batch("insert into t values (4)").unwrap();
    assert_eq!([next(), next()], [Some("4".to_owned()), None]);
    assert!(tokio::task::block_in_place(|| following.wait()).unwrap().success());
}
