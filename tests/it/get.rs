//! `rowstream get`: exit status 0 means that nothing is missing, whatever happens on the way.

#![expect(clippy::unwrap_used, reason = "the helpers of tests are tests, too")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::StreamExt as _;
use http::StatusCode;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

use crate::support::upstream::{Certificate, Scripted};
use crate::support::{
    Cut, Faults, Pieces, Server, TcpProxy, TestDb, get, program, repository, sha256, wait, wait_until,
};
use crate::wire;

/// Rows of the list that is cut, and bytes between two cuts. A mark follows at most 1,000 rows, of
/// some 30 bytes.
const ROWS: usize = 100_000;
const BYTES: std::ops::Range<u64> = 20_000..80_000;
/// Slow enough that a download can be killed, and that several marks are saved.
const SLOW: Pieces = Pieces { bytes: 500, pause: Duration::from_millis(2) };

pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(program());
    command.arg("get").args(arguments).stdin(Stdio::null()).env_remove("ROWSTREAM_TOKEN");
    command
}

/// Runs a download until it ends, without blocking the servers of its test.
async fn run(mut command: Command) -> Output {
    let running = tokio::task::spawn_blocking(move || command.output());
    wait("the download ends", running).await.unwrap().unwrap()
}

pub(crate) async fn download(arguments: &[&str]) -> (Option<i32>, String) {
    let output = run(command(arguments)).await;
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

/// A folder for files, and the path of one in it.
pub(crate) fn file(name: &str) -> (TempDir, PathBuf, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    let text = path.to_str().unwrap().to_owned();
    (folder, path, text)
}

/// The names of the files in a folder.
pub(crate) fn names(folder: &TempDir) -> Vec<String> {
    let entries = fs::read_dir(folder.path()).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// A server with these rows in SQLite, as `rows` with a key, and as `plain` without one.
pub(crate) async fn server() -> Server {
    let data = format!(
        "create table t (n integer primary key, note text not null);
         with recursive r(n) as (select 1 union all select n + 1 from r where n < {ROWS})
         insert into t select n, 'row ' || n from r;"
    );
    let rows = "/* key = [\"n\"] */ select n, note from t order by n";
    let files = [
        ("rowstream.toml", "[source.db]\nurl = \"sqlite:rows.db\"\ncreate = [\"data.sql\"]\n"),
        ("data.sql", &data),
        ("endpoints/rows.sql", rows),
        (
            "endpoints/plain.sql",
            "/* formats = [\"ndjson\", \"csv\", \"sse\"] */ select n, note from t order by n",
        ),
    ];
    Server::start(&files).await
}

/// A source that any statement can use.
const ONE: &str = "[source.db]\nurl = \"sqlite:one.db\"\ncreate = [\"one.sql\"]\n";

/// The files of a server with an endpoint of one row.
fn one(config: &str) -> [(&str, &str); 3] {
    [("rowstream.toml", config), ("one.sql", "create table one (n)"), ("endpoints/one.sql", "select 1 as n")]
}

pub(crate) async fn behind_proxy(server: &Server, faults: Faults) -> TcpProxy {
    TcpProxy::to_client(server.address().parse().unwrap(), faults).await
}

/// The body without faults.
pub(crate) async fn whole(server: &Server, path: &str) -> String {
    get(&server.url(path)).await.text().to_owned()
}

mod scripts {
    use super::*;

    fn all() -> Vec<Value> {
        let files = fs::read_dir(repository().join("testdata/wire")).unwrap();
        let files = files.map(|file| file.unwrap().path());
        let scripts = files.filter(|path| path.extension().is_some_and(|extension| extension == "json"));
        let scripts = scripts.map(|path| serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap());
        // Events are never resumed, and we don't ask for records among them.
        let is_ours = |script: &Value| {
            let name = script["name"].as_str().unwrap();
            name != "sse-resume" && !name.starts_with("sse-framed")
        };
        scripts.filter(is_ours).collect()
    }

    /// The rows of a file.
    fn rows(part: &str, bytes: &[u8]) -> Vec<Value> {
        let text = std::str::from_utf8(bytes).unwrap();
        let lines = |prefix: &'static str| {
            let lines = text.split('\n').filter_map(move |line| line.strip_prefix(prefix));
            lines.filter(|line| !line.is_empty()).map(|line| serde_json::from_str(line).unwrap())
        };
        match part {
            "ndjson" => lines("").collect(),
            "json-seq" => lines("\u{1e}").collect(),
            "sse" => lines("data: ").collect(),
            "json" => serde_json::from_slice(bytes).unwrap(),
            _ => {
                let mut reader = csv::Reader::from_reader(bytes);
                reader.records().map(|record| json!(record.unwrap().iter().collect::<Vec<_>>())).collect()
            }
        }
    }

    /// The differences between a script's `expect` and a download.
    fn differences(script: &Value, output: &Output, bytes: Option<&[u8]>, seen: &Value) -> Vec<String> {
        let (expect, part) = (&script["expect"], script["part"].as_str().unwrap());
        let told = String::from_utf8_lossy(&output.stderr);
        let mut differences: Vec<_> =
            seen["mismatches"].as_array().unwrap().iter().map(ToString::to_string).collect();
        let mut compare = |what: &str, is_met: bool| {
            if !is_met {
                differences.push(format!("{what}: {told} {seen}"));
            }
        };
        let is_complete = expect["outcome"] == "complete";
        compare("outcome", output.status.code() == Some(i32::from(!is_complete)));
        if let Some(code) = expect["code"].as_str() {
            compare("code", told.contains(&format!("error: {code}: ")));
        }
        let requests = json!(seen["requests"].as_array().unwrap().len());
        let are_expected = expect["requests"].as_array().is_some_and(|counts| counts.contains(&requests));
        compare("requests", are_expected || requests == expect["requests"]);
        match (&expect["rows"], bytes) {
            (_, None) => compare("no file", !is_complete),
            (Value::Array(expected), Some(bytes)) if is_complete => {
                compare("rows", rows(part, bytes) == *expected);
            }
            // A part of a document that isn't divided into rows can't be parsed.
            (Value::Array(expected), Some(bytes)) if part == "ndjson" || part == "json-seq" => {
                compare("rows", expected.starts_with(&rows(part, bytes)));
            }
            (Value::Array(_), Some(_)) => {}
            (expected, Some(bytes)) => {
                let digest: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
                compare("digest", digest == expected["sha256"].as_str().unwrap());
            }
        }
        differences
    }

    /// Plays all scripts. `to_file`: rows are written to a file, and not to standard output.
    async fn failures(to_file: bool) -> Vec<(String, Vec<String>)> {
        let peer = wire::start();
        let scripts = all();
        assert!(scripts.len() > 75, "{}", scripts.len());
        let folder = tempfile::tempdir().unwrap();
        let outputs = scripts.iter().map(|script| {
            let name = script["name"].as_str().unwrap();
            let url = format!("{peer}/{name}{}", script["start"].as_str().unwrap());
            // Without a cursor, a client that hasn't handed over rows may repeat a request, but the
            // scripts take it for one that has.
            let events = script["part"] == "sse";
            let retries = if events { 0 } else { script["exchanges"].as_array().unwrap().len() - 1 };
            let path = folder.path().join(name);
            let mut command = command(&[&url, "--retries", &retries.to_string()]);
            if to_file {
                command.arg("-o").arg(&path);
            }
            async move {
                let output = run(command).await;
                let bytes = if to_file { fs::read(path).ok() } else { Some(output.stdout.clone()) };
                (script, output, bytes)
            }
        });
        let outputs: Vec<_> = futures_util::stream::iter(outputs).buffer_unordered(8).collect().await;
        let results = get(&format!("{peer}/_results")).await.json();
        let judged = outputs.iter().map(|(script, output, bytes)| {
            let name = script["name"].as_str().unwrap();
            (name.to_owned(), differences(script, output, bytes.as_deref(), &results[name]))
        });
        judged.filter(|(_, differences)| !differences.is_empty()).collect()
    }

    #[tokio::test]
    async fn all_pass_to_standard_output() {
        assert_eq!(failures(false).await, []);
    }

    #[tokio::test]
    async fn all_pass_to_a_file() {
        assert_eq!(failures(true).await, []);
    }
}

#[tokio::test]
async fn files_are_equal_to_the_responses() {
    let server = server().await;
    for name in ["ndjson", "json", "csv", "json-seq", "sse"] {
        let (folder, path, text) = file("rows");
        let (status, told) = download(&[&server.url(&format!("/rows.{name}")), "-o", &text]).await;
        assert_eq!((status, names(&folder)), (Some(0), vec!["rows".to_owned()]), "{told}");
        assert!(
            fs::read_to_string(path).unwrap() == whole(&server, &format!("/rows.{name}")).await,
            "{name}"
        );
        assert!(told.contains(": 100,000 rows, ") && told.contains(", verified by its "), "{told}");
    }
}

/// The first response is NDJSON without records, because the URL names no format.
#[tokio::test]
async fn records_are_requested_once_the_format_is_known() {
    let server = server().await;
    let (_folder, path, text) = file("rows");
    let (status, told) = download(&[&server.url("/plain"), "-o", &text]).await;
    assert!(status == Some(0) && told.contains("verified by its end record"), "{told}");
    assert!(fs::read_to_string(path).unwrap() == whole(&server, "/plain.ndjson").await);
}

#[tokio::test]
async fn digests_are_verified() {
    let server = server().await;
    for (path, proof) in [
        ("/rows.ndjson?_digest=sha-256", "its end record and digest"),
        ("/rows.ndjson", "its end record and digest"),
        ("/plain", "its end record and digest"),
        ("/rows.json-seq", "its end record and digest"),
        ("/rows.csv?_digest=sha-256", "its digest"),
        ("/rows.csv", "its digest"),
        ("/rows.sse", "its digest"),
        ("/rows.arrow", "its digest"),
        ("/rows.csv?_wait=end", "its digest"),
    ] {
        let (_folder, _, text) = file("rows");
        let (status, told) = download(&[&server.url(path), "-o", &text]).await;
        assert!(status == Some(0) && told.ends_with(&format!("verified by {proof}\n")), "{path} {told}");
    }
}

/// Each connection is cut after a random number of bytes.
async fn cut_at_random(proxy: &TcpProxy) {
    loop {
        let how = if fastrand::bool() { Cut::Close } else { Cut::Reset };
        proxy.set_to_client(Faults { cut: Some((fastrand::u64(BYTES), how)), ..Faults::default() });
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Downloads while the connections are cut, and returns what it printed.
pub(crate) async fn survive_cuts(proxy: &TcpProxy, mut command: Command) -> Output {
    command.args(["--retries", "50"]);
    tokio::select! {
        output = run(command) => output,
        () = cut_at_random(proxy) => unreachable!("it doesn't end"),
    }
}

pub(crate) fn attempts(output: &Output) -> usize {
    String::from_utf8_lossy(&output.stderr).matches("the next attempt is in").count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_row_is_lost_or_doubled_by_cuts() {
    let server = server().await;
    let proxy = behind_proxy(&server, Faults::default()).await;
    for name in ["ndjson", "json-seq"] {
        let (folder, path, text) = file("rows");
        let url = format!("http://{}/rows.{name}", proxy.address());
        let output = survive_cuts(&proxy, command(&[&url, "-o", &text])).await;
        assert!(output.status.success() && attempts(&output) >= 60, "{output:?}");
        assert!(fs::read_to_string(path).unwrap() == whole(&server, &format!("/rows.{name}")).await);
        assert_eq!(names(&folder), ["rows"]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_on_standard_output_wait_for_their_marks() {
    let server = server().await;
    let proxy = behind_proxy(&server, Faults::default()).await;
    let url = format!("http://{}/rows.ndjson", proxy.address());
    let output = survive_cuts(&proxy, command(&[&url])).await;
    assert!(output.status.success() && attempts(&output) >= 60, "{}", attempts(&output));
    assert!(output.stdout == whole(&server, "/rows.ndjson").await.as_bytes());
}

/// Starts a download that takes some time.
fn start(url: &str, path: &str) -> Child {
    command(&[url, "-o", path]).stderr(Stdio::piped()).spawn().unwrap()
}

/// Waits until another mark is saved than this one.
async fn until_saved(part: &Path, before: &Value) -> Value {
    wait_until("a mark is saved", async || {
        let state = fs::read_to_string(part.with_extension("part.json")).ok();
        let position = state.map(|text| serde_json::from_str::<Value>(&text).unwrap()["position"].clone());
        position.filter(|position| position != before)
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_download_continues() {
    let server = server().await;
    let slow = Faults { pieces: Some(SLOW), ..Faults::default() };
    let proxy = behind_proxy(&server, slow).await;
    let url = format!("http://{}/rows.ndjson", proxy.address());
    let (folder, path, text) = file("rows.ndjson");
    fs::write(&path, "the earlier file").unwrap();
    let (part, mut saved) = (folder.path().join("rows.ndjson.part"), Value::Null);
    for signal in ["KILL", "TERM", "KILL"] {
        let mut child = start(&url, &text);
        until_saved(&part, &saved).await;
        // A second process would destroy the rows of the first one.
        let (status, told) = download(&[&url, "-o", &text]).await;
        assert!(status == Some(1) && told.contains("another process is writing"), "{told}");
        let killed = Command::new("kill").args(["-s", signal, &child.id().to_string()]).status();
        assert!(killed.unwrap().success());
        let code = tokio::task::block_in_place(|| child.wait()).unwrap().code();
        assert_eq!(code, if signal == "TERM" { Some(143) } else { None });
        saved = until_saved(&part, &Value::Null).await;
        assert_eq!(fs::read_to_string(&path).unwrap(), "the earlier file");
    }
    proxy.set_to_client(Faults::default());
    let before = proxy.bytes_to_client();
    let (status, told) = download(&[&url, "-o", &text]).await;
    assert!(status == Some(0) && told.contains(": continues after "), "{told}");
    let expected = whole(&server, "/rows.ndjson").await;
    assert!(fs::read_to_string(&path).unwrap() == expected);
    assert!(proxy.bytes_to_client() - before < expected.len() as u64, "it began from the start");
    assert_eq!(names(&folder), ["rows.ndjson"]);
}

/// A file with rows of an earlier download that was killed, and the state beside it.
fn leave_behind(path: &Path, rows: &str, url: &str, bytes: usize, cursor: &str) {
    let position = json!({"bytes": bytes, "rows": 1, "cursor": cursor, "snapshot": null});
    fs::write(path.with_extension("ndjson.part"), rows).unwrap();
    fs::write(path.with_extension("ndjson.part.json"), json!({"url": url, "position": position}).to_string())
        .unwrap();
}

#[tokio::test]
async fn two_answers_are_never_mixed() {
    let server = server().await;
    let url = server.url("/rows.ndjson");
    let expected = whole(&server, "/rows.ndjson").await;
    for (of, bytes, cursor, told) in [
        (
            "http://localhost/another",
            7,
            "x",
            "an earlier download had another URL, so it begins from the start",
        ),
        (&*url, 7, "x", "the server refuses to continue (invalid_cursor: "),
        (&*url, 700, "x", "rows of an earlier download are missing, so it begins from the start"),
    ] {
        let (folder, path, text) = file("rows.ndjson");
        leave_behind(&path, "{\"n\":0}\n", of, bytes, cursor);
        let (status, said) = download(&[&url, "-o", &text]).await;
        assert!(status == Some(0) && said.contains(told), "{said}");
        assert!(fs::read_to_string(&path).unwrap() == expected, "{told}");
        assert_eq!(names(&folder), ["rows.ndjson"]);
    }
}

/// Each attempt ended with `invalid_parameter`, until someone removed the files.
#[tokio::test]
async fn a_download_begins_again_if_the_endpoint_has_lost_its_key() {
    let server = server().await;
    let (folder, path, text) = file("rows.ndjson");
    let url = server.url("/plain.ndjson");
    leave_behind(&path, "{\"n\":0}\n", &url, 8, "x");
    let (status, told) = download(&[&url, "-o", &text]).await;
    let reason = "the server refuses to continue (invalid_parameter: ";
    assert!(status == Some(0) && told.contains(reason), "{told}");
    assert!(fs::read_to_string(&path).unwrap() == whole(&server, "/plain.ndjson").await);
    assert_eq!(names(&folder), ["rows.ndjson"]);
}

#[tokio::test]
async fn a_cut_document_gets_no_name() {
    let server = server().await;
    for name in ["rows.json", "rows.csv", "rows.arrow", "rows.sse", "plain.ndjson"] {
        for how in [Cut::Close, Cut::Reset] {
            let faults = Faults { cut: Some((100_000, how)), ..Faults::default() };
            let proxy = behind_proxy(&server, faults).await;
            let (folder, _, text) = file("rows");
            let url = format!("http://{}/{name}", proxy.address());
            let (status, told) = download(&[&url, "-o", &text, "--retries", "1"]).await;
            assert_eq!((status, names(&folder)), (Some(1), Vec::new()), "{name} {told}");
            assert!(told.contains("; the next attempt is in ") && told.contains("\nerror: "), "{told}");
        }
    }
}

/// Another attempt would fail in the same way, so there's none.
#[tokio::test]
async fn the_server_says_why_a_document_was_cut() {
    let db = TestDb::new().await;
    let config = format!("[source.db]\nurl = \"{}\"\n", db.url());
    let fails = "select n, 1 / (50000 - n) as x, repeat('x', 100) as t from generate_series(1, 99999) n";
    let server = Server::start(&[("rowstream.toml", &config), ("endpoints/fails.sql", fails)]).await;
    for name in ["fails.csv", "fails.json", "fails.ndjson"] {
        let (folder, _, text) = file("rows");
        let (status, told) = download(&[&server.url(&format!("/{name}")), "-o", &text]).await;
        assert_eq!((status, names(&folder)), (Some(1), Vec::new()), "{told}");
        assert!(told.starts_with("error: bad_value: ") && told.contains("division by zero"), "{name} {told}");
    }
}

#[tokio::test]
async fn failures_have_a_remedy() {
    let answer = |head: &str, body: &str| {
        format!("HTTP/1.1 {head}\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
    };
    let peer = Scripted::start(move |target, _| match target {
        "/moved" => answer("302 Found\r\nLocation: http://other/", ""),
        "/gzip.csv" => answer("200 OK\r\nContent-Encoding: gzip", ""),
        "/bare.ndjson?_end=1" => answer("200 OK\r\nContent-Type: application/x-ndjson", ""),
        "/escape" => answer(
            "400 Bad Request\r\nContent-Type: application/problem+json",
            r#"{"code":"c","detail":"a\u001b[2J\nb","hint":"h","retry":false}"#,
        ),
        _ => answer("404 Not Found", ""),
    })
    .await;
    for (path, status, words) in [
        ("/moved", 1, "the URL redirects to http://other/"),
        ("/escape", 1, "error: c: a\u{fffd}[2J\u{fffd}b\n    hint: h\n"),
        ("/gzip.csv", 1, "a proxy or an upstream does it: turn it off there"),
        ("/bare.ndjson", 1, "the header Rowstream-Tag is missing"),
        ("/other", 1, "status 404 Not Found, without a reason"),
        ("/rows?_follow=1", 2, "a live tail has no end: read it with `curl -N`"),
    ] {
        let (code, told) = download(&[&format!("{}{path}", peer.url)]).await;
        assert!(code == Some(status) && told.contains(words), "{path} {code:?} {told}");
        assert!(told.contains("hint: ") || status == 2, "{told}");
        assert!(!told.contains('\u{1b}'), "{told}");
    }
    for (url, words) in [
        ("http://ann:secret@host/rows", "a user in the URL isn't sent"),
        ("localhost:8080/rows", "write http://HOST:PORT/PATH"),
        ("ftp://host/rows", "write http://HOST:PORT/PATH"),
    ] {
        let (code, told) = download(&[url]).await;
        assert!(code == Some(2) && told.contains(words) && !told.contains("secret"), "{url} {told}");
    }
    let (code, told) = download(&["http://127.0.0.1:1/rows", "-o", "/dev/null"]).await;
    assert!(code == Some(1) && told.contains("/dev/null isn't a regular file"), "{told}");
}

/// Its signature covers the query. A record, a cursor or another order of the parameters made it invalid.
#[tokio::test]
async fn a_signed_url_is_requested_as_it_is() {
    let framed = AtomicUsize::new(0);
    let peer = Scripted::start(move |target, _| {
        let record = |members: String| format!("{{\"$rowstream\":\"t\",{members}}}\n");
        let (status, body) = match target {
            "/rows.ndjson?k=2&_signature=s" => ("200 OK", "{\"id\":1}\n{\"id\":2}\n".to_owned()),
            "/rows.ndjson?_end=1&k=2&_signature=s" => {
                let rows = 3 - framed.fetch_add(1, Ordering::Relaxed).min(1);
                let [columns, mark] = ["\"columns\":[]", "\"mark\":{\"rows\":1,\"next\":\"c\"}"]
                    .map(|members| record(members.to_owned()));
                let end = record(format!("\"end\":{{\"rows\":{rows}}}"));
                ("200 OK", format!("{columns}{{\"id\":1}}\n{mark}{{\"id\":2}}\n{end}"))
            }
            _ => ("403 Forbidden", String::new()),
        };
        let head = "Content-Type: application/x-ndjson\r\nRowstream-Tag: t\r\nRowstream-Resume: marks";
        format!("HTTP/1.1 {status}\r\n{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
    })
    .await;
    for (query, proof) in [("k=2", "its length"), ("_end=1&k=2", "its end record; requested again once")] {
        let (_folder, saved, text) = file("rows.ndjson");
        let url = format!("{}/rows.ndjson?{query}&_signature=s", peer.url);
        let (status, said) = download(&[&url, "-o", &text]).await;
        assert!(status == Some(0) && said.contains(proof), "{query} {said}");
        assert_eq!(fs::read_to_string(saved).unwrap(), "{\"id\":1}\n{\"id\":2}\n", "{query}");
    }
}

/// A server that hung before its first row held the download without limit.
#[tokio::test]
async fn the_wait_for_the_first_row_has_a_limit() {
    let server = server().await;
    let proxy = behind_proxy(&server, Faults::default()).await;
    proxy.stall();
    let url = format!("http://{}/rows.ndjson", proxy.address());
    let (folder, path, text) = file("rows");
    let (status, told) = download(&[&url, "-o", &text, "--timeout", "1", "--retries", "1"]).await;
    assert_eq!((status, names(&folder), proxy.connections()), (Some(1), Vec::new(), 2), "{told}");
    assert!(told.contains("rows: no response in 1 s; the next attempt is in "), "{told}");
    assert!(told.contains("error: no response in 1 s\n    hint: ") && told.contains("--timeout"), "{told}");

    let mut patient = command(&[&url, "-o", &text, "--timeout", "2", "--retries", "1000"]).spawn().unwrap();
    wait_until("a further attempt", async || proxy.connections() >= 4).await;
    proxy.resume();
    let ended = wait("the download ends", tokio::task::spawn_blocking(move || patient.wait())).await;
    assert!(ended.unwrap().unwrap().success());
    assert_eq!(fs::read_to_string(path).unwrap(), whole(&server, "/rows.ndjson").await);
}

#[tokio::test]
async fn the_token_is_sent_and_never_shown() {
    let config = format!("authorization = [\"me\"]\n{ONE}[token.me]\nsha256 = \"{}\"\n", sha256("s3cret"));
    let server = Server::start(&one(&config)).await;
    let (folder, path, text) = file("token");
    let url = server.url("/one.ndjson");
    let (status, told) = download(&[&url]).await;
    assert!(status == Some(1) && told.contains("unauthorized"), "{told}");
    for (token, status) in [("s3cret", 0), ("wr0ng", 1), ("two words", 1)] {
        fs::write(&path, format!("{token}\n")).unwrap();
        let mut of_variable = command(&[&url]);
        of_variable.env("ROWSTREAM_TOKEN", token);
        for command in [of_variable, command(&[&url, "--token-file", &text])] {
            let output = run(command).await;
            let told = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
            assert_eq!(output.status.code(), Some(status), "{told}");
            assert!(!told.contains(token), "{told}");
        }
    }
    drop(folder);
}

/// A download of an hour began again with a token that had expired meanwhile, and ended with 401, although
/// its file had a new one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_may_be_replaced_during_a_download() {
    let server = server().await;
    let config = |token: &str| {
        let source = "[source.db]\nurl = \"sqlite:rows.db\"\ncreate = [\"data.sql\"]\n";
        let config =
            format!("authorization = [\"me\"]\n{source}[token.me]\nsha256 = \"{}\"\n", sha256(token));
        fs::write(server.folder().join("rowstream.toml"), config).unwrap();
        server.hang_up();
    };
    let expected = whole(&server, "/rows.ndjson").await;
    config("first");
    let url = server.url("/rows.ndjson");
    wait_until("it needs a token", async || match get(&url).await.status {
        StatusCode::UNAUTHORIZED => Ok(()),
        status => Err(status),
    })
    .await;
    let proxy = behind_proxy(&server, Faults { pieces: Some(SLOW), ..Faults::default() }).await;
    let (folder, token, _) = file("token");
    fs::write(&token, "first").unwrap();
    let path = folder.path().join("rows.ndjson");
    let url = format!("http://{}/rows.ndjson", proxy.address());
    let mut child = command(&[&url, "-o", path.to_str().unwrap(), "--token-file", token.to_str().unwrap()])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    until_saved(&folder.path().join("rows.ndjson.part"), &Value::Null).await;
    fs::write(&token, "second").unwrap();
    config("second");
    wait_until("both reloads", async || match server.stderr().matches("reloaded: ").count() {
        2 => Ok(()),
        reloads => Err(reloads),
    })
    .await;
    proxy.set_to_client(Faults::default());
    proxy.cut_now(Cut::Reset);
    let ended = wait("the download ends", tokio::task::spawn_blocking(move || child.wait())).await;
    assert!(ended.unwrap().unwrap().success(), "{}", server.stderr());
    assert!(fs::read_to_string(&path).unwrap() == expected);
}

/// A shell gives `<(command)` as a pipe, which is empty when it's read again.
#[tokio::test]
async fn a_token_may_come_through_a_pipe() {
    let config = format!("authorization = [\"me\"]\n{ONE}[token.me]\nsha256 = \"{}\"\n", sha256("s3cret"));
    let server = Server::start(&one(&config)).await;
    let mut command = Command::new("sh");
    let script = "echo s3cret | \"$0\" get \"$1\" --token-file /dev/stdin";
    command.args(["-c", script]).arg(program()).arg(server.url("/one.ndjson")).env_remove("ROWSTREAM_TOKEN");
    let output = run(command).await;
    assert!(output.status.success(), "{output:?}");
    assert_eq!(output.stdout, b"{\"n\":1}\n");
}

#[tokio::test]
async fn certificates_are_checked() {
    let certificate = Certificate::new();
    let config = format!(
        "{ONE}[tls]\ncertificate = \"{}\"\nkey = \"{}\"\n",
        certificate.certificate().display(),
        certificate.key().display()
    );
    let server = Server::start(&one(&config)).await;
    let url = format!("https://localhost:{}/one.ndjson", server.address().rsplit_once(':').unwrap().1);
    let output = run(command(&[&url, "--quiet", "--ca", certificate.ca().to_str().unwrap()])).await;
    assert_eq!((&*output.stdout, &*output.stderr), (&b"{\"n\":1}\n"[..], &b""[..]), "{output:?}");
    let (status, told) = download(&[&url]).await;
    assert!(status == Some(1) && told.contains("with --ca FILE") && !told.contains("attempt"), "{told}");
}

#[tokio::test]
async fn a_reader_that_leaves_early_has_no_complete_response() {
    let server = server().await;
    let script = format!(
        "'{}' get --quiet '{}' | head -n 1; echo ${{PIPESTATUS[0]}}",
        program().display(),
        server.url("/rows.ndjson")
    );
    let mut shell = Command::new("bash");
    shell.args(["-c", &script]);
    let output = run(shell).await;
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "{\"n\":1,\"note\":\"row 1\"}\n1\n");
}

/// Its error was followed by a second write, and that by a panic.
#[tokio::test]
async fn a_full_output_is_an_error() {
    let server = server().await;
    for name in ["rows.ndjson", "rows.csv"] {
        let mut command = command(&[&server.url(&format!("/{name}"))]);
        command.stdout(fs::OpenOptions::new().write(true).open("/dev/full").unwrap()).stderr(Stdio::piped());
        let ended = tokio::task::spawn_blocking(move || command.spawn().unwrap().wait_with_output());
        let output = wait("the download ends", ended).await.unwrap().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(told.starts_with("error: the output can't be written: No space left on device"), "{told}");
        assert_eq!(output.status.code(), Some(1));
    }
}
