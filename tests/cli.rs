//! The commands: what they print where, and how they exit.

mod support;

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use support::{Launch, Server, TestDb, get, rowstream};

fn code(output: &Output) -> Option<i32> {
    output.status.code()
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A SQLite file with a table of two rows, and its URL.
fn sqlite(folder: &Path) -> String {
    let file = folder.join("test.db");
    let connection = rusqlite::Connection::open(&file).unwrap();
    connection
        .execute_batch("create table t(n integer, s text); insert into t values (1, 'a'), (2, 'b')")
        .unwrap();
    format!("sqlite:{}", file.display())
}

const FAILS_LATE: &str = "with recursive c(i) as (select 1 union all select i + 1 from c where i < 100000)
    select i, abs(-9223372036854775807 - i / 50000) as v from c";
const LONG: &str =
    "with recursive c(i) as (select 1 union all select i + 1 from c where i < 1000000) select i from c";

#[tokio::test]
async fn query_writes_rows() {
    let folder = tempfile::tempdir().unwrap();
    let url = sqlite(folder.path());
    for (arguments, expected) in [
        (&["select n, s from t order by n"][..], "{\"n\":1,\"s\":\"a\"}\n{\"n\":2,\"s\":\"b\"}\n"),
        (&["select n from t order by n", "--format", "json"], "[{\"n\":1},{\"n\":2}]"),
        (&["select n from t where s = :s", "-p", "s=b"], "{\"n\":2}\n"),
        (&["select :a || :b as x", "-p", "a=1&b=2", "--param", "b==%20 ä"], "{\"x\":\"1&b=2=%20 ä\"}\n"),
        (&["select n from t where false"], ""),
        (
            &[
                "select n, null as z, x'6869' as b from t where n = 1",
                "--numbers",
                "string",
                "--bytes",
                "base64",
                "--nulls",
                "omit",
            ],
            "{\"n\":\"1\",\"b\":\"aGk=\"}\n",
        ),
    ] {
        let ran = rowstream(&[&["query", &url], arguments].concat()).await;
        assert_eq!((code(&ran), stdout(&ran), stderr(&ran)), (Some(0), expected.to_owned(), String::new()));
    }
}

#[tokio::test]
async fn query_writes_files_whole_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let url = sqlite(folder.path());
    let file = folder.path().join("out.ndjson");
    let path = file.to_str().unwrap();
    let ran = rowstream(&["query", &url, FAILS_LATE, "-o", path]).await;
    assert_eq!(code(&ran), Some(1));
    assert!(stderr(&ran).contains("integer overflow"), "{}", stderr(&ran));
    let names = || {
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect::<Vec<_>>()
    };
    assert_eq!(names(), ["test.db"], "nothing is left of what failed");
    let ran = rowstream(&["query", &url, "select n from t order by n", "-o", path]).await;
    assert_eq!((code(&ran), stdout(&ran)), (Some(0), String::new()));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "{\"n\":1}\n{\"n\":2}\n");
    let ran = rowstream(&["query", &url, FAILS_LATE, "-o", path]).await;
    assert_eq!(code(&ran), Some(1));
    assert_eq!(
        std::fs::read_to_string(&file).unwrap(),
        "{\"n\":1}\n{\"n\":2}\n",
        "the file of before is as it was"
    );
    let ran = rowstream(&["query", &url, "select 1", "-o", "/nowhere/out"]).await;
    assert_eq!(code(&ran), Some(1));
    assert!(stderr(&ran).contains("/nowhere/out"), "{}", stderr(&ran));
}

#[tokio::test]
async fn query_says_what_fails() {
    let folder = tempfile::tempdir().unwrap();
    let url = sqlite(folder.path());
    for (arguments, words) in [
        (&[url.as_str(), "select n from missing"][..], "missing"),
        (&[&url, "select :a as a"], "`a`"),
        (&[&url, "select 1", "-p", "b=1"], "`b`"),
        (&["sqlite:/nowhere/a.db", "select 1"], "main"),
        (&["postgres://u@127.0.0.1:1/d", "select 1"], "main"),
        (&["mysql://h/d", "select 1"], "mysql"),
    ] {
        let ran = rowstream(&[&["query"], arguments].concat()).await;
        assert_eq!((code(&ran), stdout(&ran)), (Some(1), String::new()), "{arguments:?}");
        assert!(stderr(&ran).contains(words), "{arguments:?}: {}", stderr(&ran));
    }
}

#[test]
fn a_reader_that_leaves_ends_query_quietly() {
    let folder = tempfile::tempdir().unwrap();
    let url = sqlite(folder.path());
    let mut child = Command::new(env!("CARGO_BIN_EXE_rowstream"))
        .args(["query", &url, LONG])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let ran = child.wait_with_output().unwrap();
    assert_eq!((code(&ran), stderr(&ran)), (Some(1), String::new()));
}

#[tokio::test]
async fn wrong_usage_exits_with_2() {
    for arguments in [
        &[][..],
        &["nothing"],
        &["query"],
        &["query", "sqlite:a.db"],
        &["query", "sqlite:a.db", "select 1", "--format", "xml"],
        &["query", "sqlite:a.db", "select 1", "-p", "noequals"],
        &["query", "sqlite:a.db", "select 1", "--numbers", "text"],
        &["serve", "--log-format", "xml"],
        &["check", "a", "b"],
    ] {
        let ran = rowstream(arguments).await;
        assert_eq!((code(&ran), stdout(&ran)), (Some(2), String::new()), "{arguments:?}: {}", stderr(&ran));
    }
}

/// `check` of a folder of these files.
async fn check(files: &[(&str, &str)]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    sqlite(folder.path());
    for (name, text) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    rowstream(&["check", folder.path().join("rowstream.toml").to_str().unwrap()]).await
}

const SQLITE: &str = "[source.db]\nurl = \"sqlite:test.db\"\n";

#[tokio::test]
async fn check_shows_what_is_served() {
    let sql = "/*\nsummary = \"One\"\nresult = \"one\"\n[params]\nn = \"integer\"\nlike = { type = \"text\", default = \"a\" }\n*/
select n, s from t where n = :n and s like :like";
    let ran = check(&[
        ("rowstream.toml", SQLITE),
        ("endpoints/t/{n}.sql", sql),
        ("endpoints/t.sql", "select n from t"),
    ])
    .await;
    assert_eq!(code(&ran), Some(0), "{}", stderr(&ran));
    for words in [
        "source db: connected",
        "GET /t/{n}  [json, ndjson, csv, sse, json-seq, arrow]  One",
        "n integer (path, required)",
        "like text (query, default a)",
        "rows :one -> n integer, s text",
        "GET /t  [json, ndjson, csv, sse, json-seq, arrow]",
        "rows :many -> n integer",
    ] {
        assert!(stdout(&ran).to_lowercase().contains(&words.to_lowercase()), "{words}\n{}", stdout(&ran));
    }
}

#[tokio::test]
async fn check_tells_every_fault_at_its_place() {
    let db = TestDb::new().await;
    db.execute("create table t(n integer, s text)").await;
    let postgres = format!("[source.db]\nurl = \"{}\"\n", db.url());
    let files = [
        ("endpoints/a_table.sql", "/*\nsummary = \"é\"\n*/\nselect n\nfrom  missing", ":5:7"),
        ("endpoints/b_column.sql", "select n,\n  nothing from t", ":2:3"),
        (
            "endpoints/c_param.sql",
            "/*\n[params]\nlonger = \"integer\"\n*/\nselect n from t where n = :longer and\n    nothing = 1",
            ":6:5",
        ),
        ("endpoints/d_twice.sql", "select n, s as n from t", "called `n`"),
        ("endpoints/e_key.sql", "/*\nkey = [\"id\"]\n*/\nselect n from t", "`key` names `id`"),
        (
            "endpoints/f_second.sql",
            "/*\nbody = { a = \"$a\", b = \"$b\" }\n*/\n-- name: a :many\nselect n from t;\n-- name: b :many\nselect zz from t",
            ":7:8",
        ),
    ];
    for config in [postgres.as_str(), SQLITE] {
        let mut all: Vec<_> = files.iter().map(|(name, sql, _)| (*name, *sql)).collect();
        all.push(("rowstream.toml", config));
        let ran = check(&all).await;
        assert_eq!(code(&ran), Some(1));
        for (name, _, words) in files {
            let told = stderr(&ran);
            // SQLite tells no place for a table that is missing.
            let words = if config == SQLITE && name.contains("a_table") { "missing" } else { words };
            assert!(
                told.lines().any(|line| line.contains(name) && line.contains(words)),
                "{name} {words}:\n{told}"
            );
        }
        assert!(stderr(&ran).contains("6 faults"), "{}", stderr(&ran));
    }
}

#[tokio::test]
async fn check_tells_of_a_database_that_cannot_be_reached() {
    let config = "[source.db]\nurl = \"postgres://u:secret@127.0.0.1:1/d\"\n";
    let ran = check(&[("rowstream.toml", config), ("endpoints/a.sql", "select 1 as n")]).await;
    assert_eq!(code(&ran), Some(1));
    assert!(
        stderr(&ran).contains("source db: error: ") && !stderr(&ran).contains("secret"),
        "{}",
        stderr(&ran)
    );
}

#[tokio::test]
async fn faults_of_files_are_told_together() {
    let files = [
        (
            "rowstream.toml",
            "listen = 5\n[source.db]\nurl = \"sqlite:test.db\"\n[source.pg]\nurl = \"postgres:x\"\n",
        ),
        ("endpoints/a.sql", "/*\nsource = \"nothing\"\n*/\nselect 1"),
    ];
    let exit = Launch::files(&files).try_start().await.err().unwrap();
    let checked = check(&files).await;
    assert_eq!((exit.status.and_then(|status| status.code()), code(&checked)), (Some(1), Some(1)));
    for told in [exit.stderr, stderr(&checked)] {
        for place in ["rowstream.toml:1:10", "rowstream.toml:5:7", "a.sql:2:10"] {
            assert!(told.contains(place), "{place}\n{told}");
        }
    }
}

#[tokio::test]
async fn a_taken_port_is_told_with_a_way_out() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let folder = tempfile::tempdir().unwrap();
    let url = sqlite(folder.path());
    let ran = rowstream(&["serve", &url, "--sql", "select 1 as n", "--listen", &address]).await;
    assert_eq!(code(&ran), Some(1));
    assert!(stderr(&ran).contains(&address) && stderr(&ran).contains("--listen"), "{}", stderr(&ran));
}

#[tokio::test]
async fn one_statement_is_served() {
    let folder = tempfile::tempdir().unwrap();
    let url = sqlite(folder.path());
    // The support starts `serve CONFIG`; this is another command line.
    let program = folder.path().join("serve.sh");
    let script = format!(
        "#!/bin/sh\nexec '{}' serve '{url}' --sql 'select n from t where s = :s' --listen 127.0.0.1:0\n",
        env!("CARGO_BIN_EXE_rowstream")
    );
    std::fs::write(&program, script).unwrap();
    let mut permissions = std::fs::metadata(&program).unwrap().permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut permissions, 0o755);
    std::fs::set_permissions(&program, permissions).unwrap();
    let server = Launch::files(&[]).program(&program).start().await;
    assert_eq!(get(&server.url("/rows?s=b")).await.text(), "[{\"n\":2}]");
    assert_eq!(get(&server.url("/rows")).await.status, 400);
}

async fn logged(format: &str) -> (Server, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let config = format!("[source.db]\nurl = \"{}\"\n", sqlite(folder.path()));
    let files = [
        ("rowstream.toml", config.as_str()),
        ("endpoints/t.sql", "select n from t"),
        ("endpoints/late.sql", FAILS_LATE),
    ];
    let server = Launch::files(&files).argument("--log-format").argument(format).start().await;
    for path in ["/t", "/late", "/none"] {
        get(&server.url(path)).await;
    }
    (server, folder)
}

#[tokio::test]
async fn requests_are_logged_as_json() {
    let (server, _folder) = logged("json").await;
    server.wait_for_stderr("no_endpoint", Duration::from_secs(5)).await;
    let said = server.stderr();
    let lines: Vec<serde_json::Value> =
        said.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    for (line, target, status, outcome, rows) in
        [(0, "/t", 200, "complete", 2), (1, "/late", 200, "failed", 49_999), (2, "/none", 404, "failed", 0)]
    {
        let line = &lines[line];
        assert_eq!(
            (&line["target"], &line["status"], &line["outcome"]),
            (&target.into(), &status.into(), &outcome.into()),
            "{line}"
        );
        assert_eq!(line["rows"], rows, "{line}");
        for phase in ["ms", "pool_ms", "database_ms", "encode_ms", "client_ms"] {
            assert!(line[phase].is_number(), "{phase} {line}");
        }
    }
    assert_eq!(lines[0]["bytes"], 17);
    assert_eq!(lines[1]["code"], "statement_failed");
}

/// Characters beyond ASCII may stand in a target, and among these are a control sequence introducer (U+009B) for terminals and
/// ends of lines (U+0085, U+2028) for tools that read logs.
#[tokio::test]
async fn a_target_cannot_forge_log_lines() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let (server, _folder) = logged("text").await;
    let mut socket = tokio::net::TcpStream::connect(server.address()).await.unwrap();
    let request = "GET /t?ab\u{85}c\u{9b}d\u{2028}e HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    socket.write_all(request.as_bytes()).await.unwrap();
    socket.read_to_end(&mut Vec::new()).await.unwrap();
    server.wait_for_stderr("/t?a", Duration::from_secs(5)).await;
    let said = server.stderr();
    let line = said.lines().find(|line| line.contains("/t?a")).unwrap();
    assert!(!line.contains(|c: char| c.is_control() || c == '\u{2028}'), "{line:?}");
    for words in [
        " GET /t HTTP/1.1 200 complete rows=2 bytes=17 ms=",
        " pool=",
        " database=",
        " encode=",
        " client=",
        "/none HTTP/1.1 404 failed",
    ] {
        assert!(server.stderr().contains(words), "{words}\n{}", server.stderr());
    }
}
