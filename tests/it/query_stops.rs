//! If `rowstream query` ends before its last row, it cancels its statement and leaves no file.
//!
//! Ctrl-C only ended the program: five seconds later, three backends of a parallel read were still
//! running, and `FILE.partial` existed.

use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use crate::support::{
    MariaDb, TestDb, drivers, mariadb_port, pg_port, program, wait, wait_until, wait_until_blocking,
};

/// Runs longer than any test waits, before its first row.
const SILENT: &str = "select pg_sleep(3600)";
/// Endless rows, sent as they're produced.
const ENDLESS: &str = "select generate_series(1, 1000000000) as n, repeat('x', 100) as t";

fn start(arguments: &[&str]) -> Child {
    let mut command = Command::new(program());
    command.arg("query").args(arguments).env("ROWSTREAM_DUCKDB", drivers::duckdb());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn signal(child: &Child, name: &str) {
    let command = format!("kill -s {name} {}", child.id());
    assert!(Command::new("sh").args(["-c", &command]).status().unwrap().success());
}

/// The exit status and standard error of a program whose standard output isn't read.
async fn ended(mut child: Child) -> (Option<i32>, String) {
    let _unread = child.stdout.take();
    let ending = tokio::task::spawn_blocking(move || child.wait_with_output());
    let Output { status, stderr, .. } = wait("the query ends", ending).await.unwrap().unwrap();
    (status.code(), String::from_utf8(stderr).unwrap())
}

/// Waits until this many statements of the database run. With `waits_for`, they must be in this
/// wait.
async fn until_active(db: &TestDb, count: i64, waits_for: Option<&str>) {
    let client = db.client().await;
    let sql = "select count(*) from pg_stat_activity
        where datname = current_database() and pid <> pg_backend_pid() and state = 'active'
            and ($1::text is null or wait_event = $1)";
    wait_until("the statements run", async || {
        let active: i64 = client.query_one(sql, &[&waits_for]).await.unwrap().get(0);
        if active == count { Ok(()) } else { Err(format!("{active} run")) }
    })
    .await;
}

/// Checks that none is active as soon as the program has ended, and not some time later.
async fn assert_none_active(db: &TestDb) {
    let client = db.client().await;
    let sql = "select count(*) from pg_stat_activity
        where datname = current_database() and pid <> pg_backend_pid() and state = 'active'";
    assert_eq!(client.query_one(sql, &[]).await.unwrap().get::<_, i64>(0), 0);
}

#[tokio::test]
async fn signals_cancel_postgresqls_statement() {
    let db = TestDb::new().await;
    let url = db.url();
    for (name, status) in [("INT", 130), ("TERM", 143), ("HUP", 129)] {
        for (sql, waits_for) in [(SILENT, "PgSleep"), (ENDLESS, "ClientWrite")] {
            let child = start(&[&url, sql]);
            until_active(&db, 1, Some(waits_for)).await;
            signal(&child, name);
            let told = format!("error: SIG{name} ended the query: its rows are incomplete\n");
            assert_eq!(ended(child).await, (Some(status), told), "{name} {sql}");
            assert_none_active(&db).await;
        }
    }
}

#[tokio::test]
async fn all_connections_of_a_parallel_read_end() {
    let db = TestDb::new().await;
    db.execute("create table t as select g as n, repeat('x', 100) as s from generate_series(1, 300000) g")
        .await;
    let child = start(&[&db.url(), "select n, s from t", "--parallel", "3"]);
    until_active(&db, 3, Some("ClientWrite")).await;
    signal(&child, "INT");
    assert_eq!(ended(child).await.0, Some(130));
    assert_none_active(&db).await;
}

/// `rowstream query … | head`: the reader disconnects, and the statement has no row that would
/// reveal it.
#[tokio::test]
async fn a_reader_that_leaves_ends_the_statement() {
    let db = TestDb::new().await;
    for sql in ["select 1 as n union all select 2 from pg_sleep(3600)", ENDLESS] {
        let mut child = start(&[&db.url(), sql]);
        until_active(&db, 1, None).await;
        let mut out = child.stdout.take().unwrap();
        if sql == ENDLESS {
            out.read_exact(&mut [0; 1000]).unwrap();
        }
        drop(out);
        assert_eq!(ended(child).await, (Some(0), String::new()), "{sql}");
        assert_none_active(&db).await;
    }
}

/// The names of the files in a folder.
fn files(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    names.map(|name| name.into_string().unwrap()).collect()
}

#[tokio::test]
async fn no_partial_file_stays() {
    let db = TestDb::new().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("out.csv");
    let child = start(&[&db.url(), ENDLESS, "-o", file.to_str().unwrap()]);
    let partial = folder.path().join("out.csv.partial");
    wait_until_blocking("rows are written", || fs::metadata(&partial).is_ok_and(|file| file.len() > 0));
    signal(&child, "TERM");
    assert_eq!(ended(child).await.0, Some(143));
    assert_eq!(files(folder.path()), [""; 0]);
    assert_none_active(&db).await;
}

#[tokio::test]
async fn a_signal_cancels_mariadbs_statement() {
    let db = MariaDb::new("select 1");
    let running = format!(
        "select count(*) from information_schema.processlist where db = '{}' and info like '%sleep(3600)%'
            and id <> connection_id()",
        db.name()
    );
    let odbc = drivers::odbc_mariadb(db.name(), mariadb_port());
    for url in [&db.url(), &odbc] {
        let child = start(&[url, "select sleep(3600) as n"]);
        wait_until_blocking("the statement runs", || db.ask(&running).trim() == "1");
        signal(&child, "INT");
        assert_eq!(ended(child).await.0, Some(130), "{url}");
        assert_eq!(db.ask(&running).trim(), "0", "{url}");
    }
}

#[tokio::test]
async fn a_signal_cancels_the_statement_of_odbc() {
    let db = TestDb::new().await;
    let child = start(&[&drivers::odbc_postgres(db.name(), pg_port()), SILENT]);
    until_active(&db, 1, Some("PgSleep")).await;
    signal(&child, "INT");
    assert_eq!(ended(child).await.0, Some(130));
    assert_none_active(&db).await;
}

/// The processes with this parent.
fn children(pid: u32) -> Vec<String> {
    let output = Command::new("ps").args(["-o", "pid=", "--ppid", &pid.to_string()]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().split_whitespace().map(str::to_owned).collect()
}

#[tokio::test]
async fn embedded_databases_and_their_processes_end() {
    let folder = tempfile::tempdir().unwrap();
    let sqlite = folder.path().join("t.db");
    rusqlite::Connection::open(&sqlite).unwrap().execute_batch("create table t(n)").unwrap();
    let endless = "with recursive c(i) as (select 1 union all select i + 1 from c) select count(*) from c";
    let child = start(&[sqlite.to_str().unwrap(), endless]);
    wait_until_blocking("the file is open", || {
        let open = fs::read_dir(format!("/proc/{}/fd", child.id())).unwrap();
        open.flatten().any(|entry| fs::read_link(entry.path()).is_ok_and(|path| path == sqlite))
    });
    signal(&child, "INT");
    assert_eq!(ended(child).await.0, Some(130));

    let child =
        start(&["duckdb:", "select sum(a.range * b.range) as s from range(10000000) a, range(10000000) b"]);
    let mut processes = Vec::new();
    wait_until_blocking("the driver's process runs", || {
        processes = children(child.id());
        !processes.is_empty()
    });
    signal(&child, "INT");
    assert_eq!(ended(child).await.0, Some(130));
    for process in processes {
        wait_until_blocking("the driver's process ends", || !Path::new("/proc").join(&process).exists());
    }
}
