//! The scripts of `testdata/wire`, played to the console in a real browser. It shows each response as
//! complete, failed or truncated, as the script expects.
//!
//! The scripts of trailers aren't for it: browsers neither ask for trailers nor show them to pages. Those of
//! `EventSource` aren't either, because it reads events with records.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::console::Console;
use crate::support::{Launch, Server, get};
use crate::wire::{scripts, start, text};

const PARTS: [&str; 5] = ["ndjson", "json-seq", "sse", "json", "csv"];
/// Formats whose records prove the end.
const FRAMED: [&str; 3] = ["ndjson", "json-seq", "sse"];
/// An endpoint with the parameters of all scripts.
const ENDPOINT: &str = "/*\nkey = [\"id\"]\n[params]\nstatus = { type = \"text\", optional = true }\n\
    n = { type = \"integer\", default = 1 }\n*/\nselect 1 as id where :status is null or :n > 0 order by id";
/// After a cut, a browser drops bytes that the page hasn't read. It has read most of them by then.
const BEFORE_CUT: Duration = Duration::from_millis(100);
/// The most peers for scripts whose bytes a browser dropped.
const MOST_PEERS: usize = 10;

/// The scripts whose requests the console sends.
fn playable() -> Vec<Value> {
    let is_of_event_source = |script: &Value| text(script, "start") == "/rows.sse";
    scripts(&PARTS).into_iter().filter(|script| !is_of_event_source(script)).collect()
}

/// The address of a script's request in the console.
fn place(script: &Value) -> String {
    let (name, part) = (text(script, "name"), text(script, "part"));
    let query = text(script, "start").split_once('?').map_or("", |(_, query)| query);
    format!("#/endpoints/{name}/rows?{query}&_format={part}")
}

/// A server with an endpoint for each script.
async fn server(scripts: &[Value]) -> Server {
    let config = "[source.db]\nurl = \"sqlite:test.db\"\ncreate = [\"nothing.sql\"]\n";
    let names: Vec<_> =
        scripts.iter().map(|script| format!("endpoints/{}/rows.sql", text(script, "name"))).collect();
    let mut files = vec![("rowstream.toml", config), ("nothing.sql", "create table t (a)")];
    files.extend(names.iter().map(|name| (name.as_str(), ENDPOINT)));
    Launch::files(&files).argument("--log-format=off").start().await
}

/// Forwards requests for rows to a peer, and others to the server, because a page may contact only its
/// own origin.
async fn front(server: SocketAddr, peer: SocketAddr) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            // An error is the browser's way to end a connection.
            tokio::spawn(async move { drop(forward(client, server, peer).await) });
        }
    });
    address
}

/// Forwards the only request of a connection.
async fn forward(mut client: TcpStream, server: SocketAddr, peer: SocketAddr) -> io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(client.read_u8().await?);
    }
    let head = String::from_utf8(head).expect("UTF-8").replace("Connection: keep-alive", "Connection: close");
    let is_servers = head.starts_with("GET /_rowstream/");
    let mut target = TcpStream::connect(if is_servers { server } else { peer }).await?;
    target.write_all(if is_servers { head } else { with_suffix(&head) }.as_bytes()).await?;
    let (mut from_client, mut to_client) = client.split();
    let ended = tokio::select! {
        ended = tokio::io::copy(&mut target, &mut to_client) => ended,
        _ = from_client.read_u8() => return Ok(()),
    };
    tokio::time::sleep(BEFORE_CUT).await;
    // Dropping it is a reset, as it was for us.
    if ended.is_err() { client.set_zero_linger() } else { Ok(()) }
}

/// A request with the path of the scripts, which has a suffix instead of a parameter.
fn with_suffix(head: &str) -> String {
    let (_, format) = head.split_once("_format=").expect("the console names the format");
    let end = format.find(['&', ' ']).expect("the end of the line");
    head.replacen("/rows?", &format!("/rows.{}?", &format[..end]), 1)
}

/// Runs the endpoint of a script. Returns the shown state, the rows, and the text about the result.
async fn run(console: &Console, script: &Value) -> (String, Vec<Value>, String) {
    let name = text(script, "name");
    console.0.run(&format!("location.hash = '{}';", place(script))).await;
    console.wait(&format!("return document.querySelector('h1')?.innerText === 'GET /{name}/rows' && !document.querySelector('.result');")).await;
    console.click("button.run").await;
    let (state, result) = console.ended().await;
    let rows = "const { rows } = document.querySelector('rs-endpoint').run;
        return Array.from({ length: rows.length }, (_, at) => JSON.parse(rows.at(at).line));";
    (state, console.0.run(rows).await.as_array().expect("a list").clone(), result)
}

/// The states that the console may show for an outcome.
fn states(script: &Value) -> &'static [&'static str] {
    let is_framed = FRAMED.contains(&text(script, "part"));
    match text(&script["expect"], "outcome") {
        "error" => &["failed"],
        "complete" if is_framed => &["complete"],
        "incomplete" if is_framed => &["truncated"],
        // Only a length or the server's report proves these, which the peer doesn't have.
        "complete" => &["complete", "unproved"],
        _ => &["truncated", "unproved"],
    }
}

/// Compares what the console shows with a script.
fn check(script: &Value, state: &str, rows: &[Value], result: &str) {
    let (name, expect) = (text(script, "name"), &script["expect"]);
    assert!(states(script).contains(&state), "{name}: {state}: {result}");
    assert!(result.contains(expect["code"].as_str().unwrap_or_default()), "{name}: {result}");
    if text(script, "part") != "ndjson" {
        return;
    }
    match &expect["rows"] {
        Value::Array(expected) if state == "complete" => assert_eq!(rows, expected, "{name}"),
        Value::Array(expected) => assert!(expected.starts_with(rows), "{name}: {rows:?}"),
        expected => assert_eq!(json!(rows.len()), expected["count"], "{name}"),
    }
}

/// Its own reader ignored the numbers of marks, and ended at the first cut. Later, it didn't count the rows of
/// `json-seq` and `sse`, and couldn't send cursors and `_wait`.
#[tokio::test]
async fn the_console_shows_each_response_as_its_script_expects() {
    let mut left = playable();
    assert!(left.len() > 60, "{}", left.len());
    let (server, console) = tokio::join!(server(&left), Console::start());
    let address: SocketAddr = server.address().parse().expect("an address");
    for _ in 0..MOST_PEERS {
        let peer = start();
        let front = front(address, peer["http://".len()..].parse().expect("an address")).await;
        console.open(&front, "").await;
        let mut again = Vec::new();
        for script in left {
            let (state, rows, result) = run(&console, &script).await;
            let is_complete = text(&script["expect"], "outcome") == "complete";
            assert!(is_complete || state != "complete", "{script}: {result}");
            let seen = &get(&format!("{peer}/_results")).await.json()[text(&script, "name")];
            let requests = seen["requests"].as_array().expect("a list").len();
            if seen["mismatches"] == json!([]) && script["expect"]["requests"] == requests {
                check(&script, &state, &rows, &result);
            } else {
                // The browser dropped bytes before a cut, so the client went further back.
                again.push(script);
            }
        }
        left = again;
        if left.is_empty() {
            return;
        }
    }
    panic!("the browser never read these: {left:?}");
}
