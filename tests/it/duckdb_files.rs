//! DuckDB files that other programs write and replace while they're served.
//!
//! The driver process kept an opened file for its whole life. Other programs couldn't write to it,
//! and a file that was moved to its name was never read.

#![expect(clippy::unwrap_used, reason = "the helpers of tests are tests, too")]

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output};

use crate::replaced_files::names_at;
use crate::support::drivers::duckdb;
use crate::support::{Client, Ended, Launch, Server, get, program, wait_until};

/// The number of rows in the table.
const ROWS: usize = 300_000;

/// Runs a statement on the file as its only writer, in a separate process.
fn write(file: &Path, sql: &str) -> Output {
    let url = format!("adbc:{}?entrypoint=duckdb_adbc_init&path={}", duckdb(), file.display());
    Command::new(program()).args(["query", &url, sql]).output().unwrap()
}

fn written(file: &Path, sql: &str) {
    let output = write(file, sql);
    assert!(output.status.success(), "{sql}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Creates a file with `name` in each row.
fn create(file: &Path, name: &str) {
    written(file, &format!("create table t as select range as id, '{name}' as name from range({ROWS})"));
    // Otherwise the table is in a second file, which isn't moved.
    written(file, "checkpoint");
}

async fn serve(file: &Path, pool: &str) -> Server {
    let config = format!("[source.lake]\nurl = \"duckdb:{}\"\npool = {{ {pool} }}\n", file.display());
    let files = [
        ("rowstream.toml", &*config),
        ("endpoints/list.sql", "select id, name from t where id < 3 order by id"),
        ("endpoints/max.sql", "/* result = \"one\" */\nselect max(name) as name, count(*) as n from t"),
        ("endpoints/all.sql", "select id, name, repeat('x', 100) as text from t"),
    ];
    Launch::files(&files).variable("ROWSTREAM_DUCKDB", &duckdb()).start().await
}

async fn names(server: &Server) -> Vec<String> {
    names_at(server, &["/list", "/max"], 15).await
}

#[tokio::test]
async fn all_requests_after_a_file_was_replaced_read_the_new_one() {
    let folder = tempfile::tempdir().unwrap();
    let (file, next) = (folder.path().join("lake.duckdb"), folder.path().join("next.duckdb"));
    create(&file, "old");
    let server = serve(&file, "max = 4").await;
    assert_eq!(names(&server).await, ["old"]);
    for name in ["new", "newer", "old"] {
        create(&next, name);
        fs::rename(&next, &file).unwrap();
        assert_eq!(names(&server).await, [name]);
    }
}

/// A stream completes with the rows of the file that it opened.
#[tokio::test]
async fn a_stream_keeps_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let (file, next) = (folder.path().join("lake.duckdb"), folder.path().join("next.duckdb"));
    create(&file, "old");
    create(&next, "new");
    let server = serve(&file, "max = 4").await;
    let mut stream = Client::HTTP1.stream(&server.url("/all.ndjson")).await;
    let begun = stream.at_least(100_000).await;
    fs::rename(&next, &file).unwrap();
    assert_eq!(names(&server).await, ["new"]);
    let rest = stream.rest().await;
    assert_eq!(rest.ended, Ended::Complete);
    let text = String::from_utf8([&begun[..], rest.text().as_bytes()].concat()).unwrap();
    assert_eq!((text.matches("\"old\"").count(), text.matches("\"new\"").count()), (ROWS, 0));
}

/// Once no request has used it for `idle_timeout`, another process writes to it, and the next request
/// reads the new rows.
#[tokio::test]
async fn an_idle_file_can_be_written_by_others() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("lake.duckdb");
    create(&file, "old");
    let server = serve(&file, "max = 4, idle_timeout = \"200ms\"").await;
    for name in ["new", "newer", "old"] {
        let mut stream = Client::HTTP1.stream(&server.url("/all.ndjson")).await;
        stream.at_least(1000).await;
        let locked = write(&file, "update t set name = 'never'");
        assert!(String::from_utf8_lossy(&locked.stderr).contains("lock"), "it's in use");
        assert_eq!(stream.rest().await.ended, Ended::Complete);
        let update = format!("update t set name = '{name}'");
        wait_until("it's given up", async || write(&file, &update).status.success()).await;
        assert_eq!(names(&server).await, [name]);
    }
}

/// A path is enough, as for a SQLite file. A view that DuckDB refuses is left out.
#[tokio::test]
async fn a_file_is_named_by_its_path() {
    let folder = tempfile::tempdir().unwrap();
    let (file, parquet) = (folder.path().join("lake"), folder.path().join("gone.parquet"));
    create(&file, "old");
    written(&file, &format!("copy (select 1 as n) to '{}'", parquet.display()));
    for view in [
        format!("create view of_file as select * from '{}'", parquet.display()),
        "create table dropped as select 1 as n".to_owned(),
        "create view of_table as select * from dropped".to_owned(),
        "drop table dropped".to_owned(),
    ] {
        written(&file, &view);
    }
    fs::remove_file(&parquet).unwrap();
    let path = file.to_string_lossy();
    let mut query = Command::new(program());
    let output = query
        .args(["query", &path, "select max(id) as id from t"])
        .env("ROWSTREAM_DUCKDB", duckdb())
        .output();
    let output = output.unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{{\"id\":{}}}\n", ROWS - 1));
    let script = format!("exec \"$0\" serve '{path}' --listen 127.0.0.1:0");
    let server =
        Launch::folder(folder.path()).shell(&script).variable("ROWSTREAM_DUCKDB", &duckdb()).start().await;
    let rows = get(&server.url("/t.ndjson")).await;
    assert_eq!((rows.status.as_u16(), rows.text().lines().count()), (200, ROWS));
    for view in ["of_file", "of_table"] {
        server.wait_for_stderr(&format!("/{view} is left out")).await;
        assert_eq!(get(&server.url(&format!("/{view}"))).await.status, 404);
    }
}

/// The endpoints that read `part-1` first: `(name, SQL)`.
fn readers(folder: &Path, format: &str) -> [(String, String); 3] {
    let file = |name: &str| format!("'{}/{name}.{format}'", folder.display());
    [
        ("bare", format!("select * from {}", file("part-1"))),
        ("function", format!("select * from read_{format}({})", file("part-1"))),
        ("glob", format!("select * from {}", file("part-*"))),
    ]
    .map(|(name, sql)| (format!("endpoints/{name}.sql"), sql))
}

/// Writes a part with `name` in each row. All names have the same length, and so do the files.
fn write_part(file: &Path, name: &str) {
    let format =
        if file.extension().unwrap() == "csv" { "csv" } else { "parquet, compression 'uncompressed'" };
    let select =
        format!("select '{name}' as name, repeat(hash(i)::varchar, 6) as text from range({ROWS}) r(i)");
    let copy = format!("copy ({select}) to '{}' (format {format})", file.display());
    let mut query = Command::new(program());
    let output = query.args(["query", "duckdb:", &copy]).env("ROWSTREAM_DUCKDB", duckdb()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    /// Another file is moved to its name.
    Replaced,
    /// Other bytes of the same length are written into it.
    Rewritten,
    Truncated,
}

impl Change {
    fn make(self, file: &Path, new: &Path) {
        let open = || fs::OpenOptions::new().write(true).open(file).unwrap();
        match self {
            Self::Replaced => {
                let beside = file.with_extension("next");
                fs::copy(new, &beside).unwrap();
                fs::rename(&beside, file).unwrap();
            }
            Self::Rewritten => open().write_all(&fs::read(new).unwrap()).unwrap(),
            Self::Truncated => open().set_len(1_000_000).unwrap(),
        }
    }
}

/// A stream reads files that DuckDB opens by name, while they're changed.
///
/// When one was rewritten in place, the rows were a mix of the old and the new file, and the body
/// looked complete.
async fn files_change_while_they_are_read(format: &str) {
    let folder = tempfile::tempdir().unwrap();
    let [first, second, old, new] =
        ["part-1", "part-2", "old", "new"].map(|name| folder.path().join(format!("{name}.{format}")));
    write_part(&old, "old");
    write_part(&new, "new");
    for part in [&first, &second] {
        fs::copy(&old, part).unwrap();
    }
    let endpoints = readers(folder.path(), format);
    let config = ("rowstream.toml".to_owned(), "[source.lake]\nurl = \"duckdb:\"\n".to_owned());
    let files: Vec<_> = endpoints.iter().chain([&config]).map(|(name, text)| (&**name, &**text)).collect();
    let server = Launch::files(&files).variable("ROWSTREAM_DUCKDB", &duckdb()).start().await;
    for change in [Change::Replaced, Change::Rewritten, Change::Truncated] {
        for (path, rows) in [("/bare", ROWS), ("/function", ROWS), ("/glob", 2 * ROWS)] {
            let url = server.url(&format!("{path}.ndjson"));
            let mut stream = Client::HTTP1.receive_buffer(64 * 1024).stream(&url).await;
            let begun = stream.at_least(100_000).await;
            change.make(&first, &new);
            let rest = stream.rest().await;
            let text = String::from_utf8([&begun[..], &rest.body].concat()).unwrap();
            let names = ["old", "new"].map(|name| text.matches(&format!("\"{name}\"")).count());
            match change {
                Change::Replaced => {
                    assert_eq!((&rest.ended, names), (&Ended::Complete, [rows, 0]), "{path}");
                }
                // DuckDB may have read the whole file before.
                _ => assert!(
                    rest.ended != Ended::Complete || names == [rows, 0],
                    "{path} {change:?}: {names:?}"
                ),
            }
            Change::Replaced.make(&first, &old);
        }
    }
}

#[tokio::test]
async fn parquet_files_change_while_they_are_read() {
    files_change_while_they_are_read("parquet").await;
}

#[tokio::test]
async fn csv_files_change_while_they_are_read() {
    files_change_while_they_are_read("csv").await;
}
