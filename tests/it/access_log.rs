//! The server's output: the access log on standard output, and its messages on standard error.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::process::Command;

use http::StatusCode;
use serde_json::Value;

use crate::support::{Client, Launch, Reply, Server, get, rowstream, wait_until};

/// The SHA-256 of `r` and of `o`.
const TOKENS: &str = r#"
[token.reader]
sha256 = "454349e422f05297191ead13e21d3db520e5abef52055e4964b82fb213f593a1"
[token."the other"]
sha256 = "65c74c15a686187bb6bbf9958f494fc6b80068034a659a9ad44991b08c58f2d2"
"#;
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

/// A configuration with one SQLite source, two tokens, and additional lines.
fn config(more: &str) -> String {
    let source = "[source.db]\nurl = \"sqlite:t.db\"\ncreate = [\"t.sql\"]";
    format!(
        "authorization = \"public\"\n{more}\n{source}\n{TOKENS}\n[admin]\npublic = [\"live\", \"metrics\"]\n"
    )
}

fn launch(config: &str) -> Launch {
    Launch::files(&[
        ("rowstream.toml", config),
        ("t.sql", "create table t (n)"),
        ("endpoints/one.sql", "select 1 as n"),
        (
            "endpoints/items/{id}.sql",
            "/*\nauthorization = [\"reader\"]\n[params]\nid = \"integer\"\n*/\nselect :id as n",
        ),
    ])
}

async fn ask(server: &Server, target: &str, headers: &[(&str, &str)]) -> Reply {
    let request = http::Request::get(server.url(target));
    let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    Client::HTTP1.send(request.body(String::new()).expect("a request")).await
}

/// The lines as objects. Each line must be one.
fn objects(lines: &str) -> Vec<Value> {
    let read = |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    lines.lines().map(read).collect()
}

/// Waits for the line of a target.
async fn line_of(server: &Server, target: &str) -> Value {
    server.wait_for_stdout(&format!("\"target\":\"{target}\"")).await;
    objects(&server.stdout()).into_iter().find(|line| line["target"] == target).expect("it is there")
}

#[tokio::test]
async fn a_line_says_who_asked_for_what() {
    let config = config("[log]\nformat = \"json\"");
    let server = launch(&config).start().await;
    let traceparent = format!("00-{TRACE}-00f067aa0ba902b7-01");
    let agent = format!("a\" b\t\\ {}", "c".repeat(1000));
    for (target, headers, expected) in [
        (
            "/items/7?_format=csv",
            &[("authorization", "Bearer r"), ("user-agent", "curl/8.5.0"), ("traceparent", &*traceparent)][..],
            ("complete", Some("/items/{id}"), Some("reader"), Some("curl/8.5.0"), Some(TRACE)),
        ),
        (
            "/items/8",
            &[("authorization", "Bearer o")],
            ("client_error", Some("/items/{id}"), Some("the other"), None, None),
        ),
        (
            "/items/9",
            &[("authorization", "Bearer x")],
            ("client_error", Some("/items/{id}"), None, None, None),
        ),
        ("/items/10", &[], ("client_error", Some("/items/{id}"), None, None, None)),
        ("/one", &[("user-agent", &*agent)], ("complete", Some("/one"), None, Some(&agent[..256]), None)),
        ("/none", &[("traceparent", TRACE)], ("client_error", None, None, None, None)),
        ("/_rowstream/live", &[], ("complete", None, None, None, None)),
    ] {
        ask(&server, target, headers).await;
        let line = line_of(&server, target).await;
        let (outcome, endpoint, token, agent, trace) = expected;
        assert_eq!((&line["outcome"], &line["address"]), (&outcome.into(), &"127.0.0.1".into()), "{line}");
        for (name, value) in
            [("endpoint", endpoint), ("token", token), ("user_agent", agent), ("trace_id", trace)]
        {
            assert_eq!(line.get(name).and_then(Value::as_str), value, "{name}: {line}");
        }
        for name in ["status", "rows", "bytes", "ms", "pool_ms", "database_ms", "encode_ms", "client_ms"] {
            assert!(line[name].is_number(), "{name}: {line}");
        }
        let time: Result<jiff::Timestamp, _> = line["time"].as_str().expect("a text").parse();
        assert!(time.is_ok(), "{line}");
    }
    for secret in ["Bearer", "454349e4", "\"r\""] {
        assert!(!server.stdout().contains(secret), "{}", server.stdout());
    }
}

/// Behind a trusted proxy, the client is the one that the proxy reports.
#[tokio::test]
async fn the_address_is_the_clients() {
    let server = launch(&config("trusted_proxies = [\"127.0.0.1\"]\n[log]\nformat = \"json\"")).start().await;
    for (target, forwarded, address) in [
        ("/one?_format=csv", "192.0.2.7", "192.0.2.7"),
        ("/one", "2001:db8:1:2:3:4:5:6", "2001:db8:1:2:3:4:5:6"),
        ("/none", "a\", \"token\":\"x", "127.0.0.1"),
    ] {
        ask(&server, target, &[("x-forwarded-for", forwarded)]).await;
        assert_eq!(line_of(&server, target).await["address"], address);
    }
}

/// A sample of successful requests, and all others. A reload can change the sample.
#[tokio::test]
async fn failures_are_always_logged() {
    let settings = |log: &str| config(&format!("[log]\n{log}"));
    let server = launch(&settings("sample = 0")).start().await;
    for _ in 0..20 {
        assert_eq!(get(&server.url("/one")).await.status, StatusCode::OK);
    }
    get(&server.url("/none?1")).await;
    server.wait_for_stdout("GET /none?1 HTTP/1.1 404 client_error ").await;
    assert_eq!(server.stdout().lines().count(), 1, "{}", server.stdout());
    reload(&server, &settings("access = false"), 1).await;
    get(&server.url("/none?2")).await;
    reload(&server, &settings("sample = 1.0"), 2).await;
    get(&server.url("/one?_format=csv")).await;
    server.wait_for_stdout("GET /one?_format=csv HTTP/1.1 200 complete ").await;
    assert_eq!(server.stdout().lines().count(), 2, "{}", server.stdout());
}

async fn reload(server: &Server, config: &str, reloads: usize) {
    std::fs::write(server.folder().join("rowstream.toml"), config).expect("a file");
    server.hang_up();
    let count = || server.count_stderr("reloaded: 2 endpoints");
    wait_until("it's reloaded", async || if count() >= reloads { Ok(()) } else { Err(server.stderr()) })
        .await;
}

#[tokio::test]
async fn all_that_the_server_says_is_json() {
    let good = config("[log]\nformat = \"json\"");
    let mut server = launch(&good).start().await;
    std::fs::write(server.folder().join("endpoints/bad.sql"), "select :x").expect("a file");
    server.hang_up();
    server.wait_for_stderr("not reloaded").await;
    server.terminate();
    server.wait_drained().await;
    let said = objects(&server.stderr());
    for (level, words) in
        [("info", "listening on http://"), ("error", "bad.sql:1:8"), ("info", "draining: 0 connections")]
    {
        let is_it = |line: &&Value| line["message"].as_str().is_some_and(|message| message.contains(words));
        let line = said.iter().find(is_it).unwrap_or_else(|| panic!("{words}: {said:?}"));
        assert_eq!(line["level"], level, "{line}");
        assert!(line["time"].is_string() && line.as_object().expect("an object").len() == 3, "{line}");
    }
}

/// The error that stops a start has the format from the configuration, if that could be read, or
/// from the flag.
#[tokio::test]
async fn what_stops_a_start_is_json_too() {
    let broken = config("listen = \"nowhere\"\n[log]\nformat = \"json\"");
    for launch in [launch(&broken), launch("[log").argument("--log-format=json")] {
        let exit = launch.try_start().await.err().expect("it cannot start");
        assert_eq!(exit.status.code(), Some(1), "{}", exit.stderr);
        let said = objects(&exit.stderr);
        assert_eq!(said.len(), 1, "{}", exit.stderr);
        assert_eq!(said[0]["level"], "error");
        assert!(said[0]["message"].as_str().is_some_and(|message| message.contains("rowstream.toml:")));
    }
}

#[tokio::test]
async fn settings_are_checked() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(folder.path().join("endpoints")).expect("a folder");
    std::fs::write(folder.path().join("endpoints/one.sql"), "select 1 as n").expect("a file");
    let path = folder.path().join("rowstream.toml");
    let settings = "[log]\nformat = \"xml\"\naccess = 1\nsample = \"all\"\nrate = 2";
    std::fs::write(&path, config(settings)).expect("a file");
    let checked = rowstream(&["check", &path.display().to_string()]).await;
    let said = String::from_utf8_lossy(&checked.stderr);
    for words in [
        "rowstream.toml:3:10: `format` cannot be `xml`",
        "rowstream.toml:4:10: `access` must be `true` or `false`, not an integer",
        "rowstream.toml:5:10: `sample` must be a number from 0 to 1",
        "rowstream.toml:6:1: unknown key `rate` in [log]",
    ] {
        assert!(said.contains(words), "{words}\n{said}");
    }
}

/// A server whose standard output is a pipe of the test, and the pipe's reading end.
async fn with_pipe(config: &str) -> (Server, File, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let pipe = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().is_ok_and(|status| status.success()));
    let opened = tokio::task::spawn_blocking({
        let pipe = pipe.clone();
        move || File::open(pipe)
    });
    let script = format!("exec \"$0\" \"$@\" >'{}'", pipe.display());
    let server = launch(config).shell(&script).start().await;
    (server, opened.await.expect("no panic").expect("a reader"), folder)
}

/// Produces lines of some 2 KB, more than fit into the queue and the writer's buffer.
async fn ask_much(server: &Server) {
    for n in 0..1500 {
        let target = format!("/none?{n}&{}", "x".repeat(2000));
        assert_eq!(get(&server.url(&target)).await.status, StatusCode::NOT_FOUND);
    }
}

async fn dropped(server: &Server) -> u64 {
    let metrics = get(&server.url("/_rowstream/metrics")).await;
    let name = "rowstream_access_log_dropped_lines_total ";
    let line = metrics.text().lines().find_map(|line| line.strip_prefix(name)).expect("it is told");
    line.parse().expect("a number")
}

/// Once there was 1 MiB of unread log, requests waited for its reader.
#[tokio::test]
async fn a_log_that_nobody_reads_stops_nothing() {
    let (server, pipe, _folder) = with_pipe(&config("[log]\nformat = \"json\"")).await;
    ask_much(&server).await;
    server.wait_for_stderr("lines of the access log are dropped").await;
    assert!(dropped(&server).await > 0);
    // When the log is read, the waiting lines arrive complete and in order, followed by new ones.
    let reading = tokio::task::spawn_blocking(move || {
        let lines = BufReader::new(pipe).lines().map_while(Result::ok);
        lines.take_while(|line| !line.contains("/again")).collect::<Vec<_>>()
    });
    wait_until("lines follow those that were dropped", async || {
        get(&server.url("/again")).await;
        reading.is_finished()
    })
    .await;
    let lines = objects(&reading.await.expect("no panic").join("\n"));
    let numbers: Vec<usize> = lines.iter().filter_map(number).collect();
    assert!(numbers.is_sorted() && numbers.first() == Some(&0), "{numbers:?}");
    assert!((100..1500).contains(&numbers.len()), "{numbers:?}");
}

/// The number of a request of [`ask_much`].
fn number(line: &Value) -> Option<usize> {
    let target = line["target"].as_str()?.strip_prefix("/none?")?;
    target.split_once('&')?.0.parse().ok()
}

#[tokio::test]
async fn a_reader_of_the_log_that_leaves_stops_nothing() {
    let (mut server, pipe, _folder) = with_pipe(&config("")).await;
    drop(pipe);
    get(&server.url("/none")).await;
    server.wait_for_stderr("lines of the access log are dropped").await;
    assert_eq!(get(&server.url("/one")).await.status, StatusCode::OK);
    server.terminate();
    server.wait_drained().await;
}
