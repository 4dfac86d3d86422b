//! `rowstream bench` reports the truth, both about the server and about scripted ones that lie,
//! stall and truncate.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::{Server, free_port, peak_memory_bytes, program, rowstream};
use bytes::Bytes;
use serde_json::{Value, json};

/// Runs it, and reads its JSON report.
async fn bench(arguments: &[&str]) -> (Value, Output) {
    let ran = rowstream(&[&["bench", "--format", "json"], arguments].concat()).await;
    let report = serde_json::from_slice(&ran.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&ran.stderr)));
    (report, ran)
}

/// The only run of its report.
async fn run(arguments: &[&str]) -> Value {
    let (mut report, ran) = bench(arguments).await;
    let run = report["targets"][0]["runs"][0].take();
    assert_eq!(ran.status.code(), Some(i32::from(run["failures"] != json!({}))), "{run:#}");
    run
}

fn names(value: &Value) -> Vec<&str> {
    value.as_object().unwrap_or_else(|| panic!("no object: {value}")).keys().map(String::as_str).collect()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("no number: {value}"))
}

/// A scripted server's answer to a request.
enum Answer {
    /// Sends this, and waits for the next request.
    Keep(String),
    /// Sends this, and closes.
    Close(String),
    /// Waits, then continues with the other answer.
    Late(Duration, Box<Answer>),
    /// Sends nothing until the client disconnects.
    Hang,
    /// Sends as much as the client reads.
    Endless,
}

/// A server on raw sockets, with a thread per connection. It lives until the tests end.
struct Scripted {
    address: String,
    /// The requested paths.
    paths: Arc<Mutex<Vec<String>>>,
    connections: Arc<AtomicUsize>,
    /// Bytes that an endless answer has sent.
    sent: Arc<AtomicU64>,
}

impl Scripted {
    /// `script` gets the number of each request, from 0.
    fn start(script: impl Fn(usize) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = Self {
            address: listener.local_addr().unwrap().to_string(),
            paths: Arc::default(),
            connections: Arc::default(),
            sent: Arc::default(),
        };
        let (paths, connections, sent) =
            (server.paths.clone(), server.connections.clone(), server.sent.clone());
        let script = Arc::new(script);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                connections.fetch_add(1, Ordering::SeqCst);
                let (paths, sent, script) = (paths.clone(), sent.clone(), script.clone());
                std::thread::spawn(move || serve(&stream, &paths, &sent, &*script));
            }
        });
        server
    }

    fn always(text: &'static str) -> Self {
        Self::start(move |_| Answer::Keep(text.to_owned()))
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

/// Serves until the client disconnects or the script closes.
fn serve(stream: &TcpStream, paths: &Mutex<Vec<String>>, sent: &AtomicU64, script: &dyn Fn(usize) -> Answer) {
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    while let Some(line) = lines.next() {
        let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
        if lines.by_ref().find(String::is_empty).is_none() {
            return;
        }
        let number = {
            let mut paths = paths.lock().unwrap();
            paths.push(path);
            paths.len() - 1
        };
        if !answer(stream, sent, script(number)) {
            return;
        }
    }
}

/// Returns true if the connection stays open. A client that disconnects early is fine.
fn answer(mut stream: &TcpStream, sent: &AtomicU64, answer: Answer) -> bool {
    match answer {
        Answer::Keep(text) => stream.write_all(text.as_bytes()).is_ok(),
        Answer::Close(text) => {
            drop(stream.write_all(text.as_bytes()));
            drop(stream.shutdown(std::net::Shutdown::Both));
            false
        }
        Answer::Late(time, next) => {
            std::thread::sleep(time);
            self::answer(stream, sent, *next)
        }
        Answer::Hang => {
            drop(stream.peek(&mut [0]));
            false
        }
        Answer::Endless => {
            drop(stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n"));
            while stream.write_all(&[b'x'; 8192]).is_ok() {
                sent.fetch_add(8192, Ordering::SeqCst);
            }
            false
        }
    }
}

/// A response with a Content-Length.
fn response(status: &str, media_type: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\nContent-Type: {media_type}\r\nContent-Length: {length}\r\n\r\n{body}")
}

const SMALL: &str = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 5\r\n\r\n[1,2]";

const NUMBERS: &str = "with recursive c(i) as (select 1 union all select i + 1 from c where i < 50000)
    select i as n, 'a \"quoted\", {[text' as s from c";

async fn server() -> Server {
    let templated = format!(
        "/*\nbody = {{ _embedded = {{ list = \"$list\" }}, total = \"$total\" }}\n*/\n-- name: list :many\n{NUMBERS};\n\n\
         -- name: total :value\nselect 7;\n"
    );
    Server::start(&[
        ("rowstream.toml", "[source.db]\nurl = \"sqlite:test.db\"\ncreate = [\"empty.sql\"]\n"),
        ("empty.sql", "create table t(n integer);"),
        ("endpoints/list.sql", NUMBERS),
        ("endpoints/document.sql", &templated),
        (
            "endpoints/numbers/{id}.sql",
            "/*\nresult = \"one\"\n[params]\nid = \"integer\"\n*/\nselect :id as id where :id > 0",
        ),
    ])
    .await
}

#[tokio::test]
async fn rows_of_every_kind_over_both_protocols() {
    let server = server().await;
    for protocol in [&[][..], &["--http2"]] {
        for (path, rows) in [
            ("/list", 50_000),
            ("/list.ndjson", 50_000),
            ("/list.ndjson?_end=1", 50_000),
            ("/list.sse?_end=1", 50_000),
            ("/list?_format=json-seq&_end=1", 50_000),
            ("/document", 50_000),
            ("/numbers/{1-9}", 1),
        ] {
            let (url, expected) = (server.url(path), rows.to_string());
            let arguments = ["-n", "4", "-c", "2", "--expect-rows", &expected, &url];
            let run = run(&[protocol, &arguments].concat()).await;
            assert_eq!(run["complete"], 4, "{path} {protocol:?} {run:#}");
            assert_eq!(run["rows"], 4 * rows, "{path} {protocol:?}");
            assert_eq!(run["statuses"], json!({"200": 4}));
        }
        let url = server.url("/numbers/0");
        let run = run(&[protocol, &["-n", "2", &url]].concat()).await;
        assert_eq!(run["failures"], json!({"status-4xx": 2}), "{protocol:?}");
        assert_eq!(run["statuses"], json!({"404": 2}));
    }
}

type Script = Box<dyn Fn() -> Answer + Send + Sync>;

#[tokio::test]
async fn failures_by_kind() {
    let chunked =
        "HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n";
    let json = |body: &str| Answer::Keep(response("200 OK", "application/json", body));
    let cases: Vec<(&str, Script)> = vec![
        ("cut", Box::new(|| Answer::Close(SMALL[..SMALL.len() - 1].to_owned()))),
        ("cut", Box::new(move || Answer::Close(format!("{chunked}2\r\n{{}}\r\n")))),
        ("cut", Box::new(|| Answer::Close("HTTP/1.1 200 OK\r\n".to_owned()))),
        (
            "cut",
            Box::new(|| {
                Answer::Close(
                    "HTTP/1.0 200 OK\r\nContent-Type: application/x-ndjson\r\n\r\n{}\n{}\n{}\n".to_owned(),
                )
            }),
        ),
        ("incomplete", Box::new(move || json("[1,2"))),
        ("incomplete", Box::new(move || json("[1,2][3]"))),
        ("incomplete", Box::new(move || Answer::Keep(format!("{chunked}2\r\n{{}}\r\n0\r\n\r\n")))),
        ("wrong-rows", Box::new(move || json("[1]"))),
        ("protocol", Box::new(|| Answer::Keep("SSH-2.0-x\r\n".to_owned()))),
        ("protocol", Box::new(|| Answer::Keep(format!("{SMALL}x")))),
        ("protocol", Box::new(move || Answer::Keep(format!("{chunked}z\r\n")))),
        ("status-5xx", Box::new(|| Answer::Keep(response("500 No", "application/json", "[1,2]")))),
        ("status-5xx", Box::new(|| Answer::Close(response("503 No", "text/plain", "later")))),
        ("status-3xx", Box::new(|| Answer::Keep(response("301 No", "text/plain", "there")))),
        ("timeout", Box::new(|| Answer::Hang)),
    ];
    for (kind, script) in cases {
        // Every second request succeeds. A failure affects neither its rows nor its times.
        let server = Scripted::start(move |number| match number % 2 {
            0 => script(),
            _ => Answer::Keep(SMALL.to_owned()),
        });
        let run = run(&["-n", "4", "--timeout", "300ms", "--expect-rows", "2", &server.url("/")]).await;
        assert_eq!(run["failures"], json!({kind: 2}), "{run:#}");
        assert_eq!(
            (&run["requests"], &run["complete"], &run["rows"]),
            (&json!(4), &json!(2), &json!(4)),
            "{kind}"
        );
        assert_eq!(run["bytes"], 10, "{kind}");
        assert_eq!(run["latency"]["total"]["count"], 2, "{kind}");
        assert!(run["failure_examples"][kind].is_string(), "{kind}");
    }
}

/// HTTP/1.0 can only end with a close, but a JSON document itself proves that it's complete.
#[tokio::test]
async fn an_end_by_close_counts_if_the_document_proves_it() {
    let body = |media_type, body| format!("HTTP/1.0 200 OK\r\nContent-Type: {media_type}\r\n\r\n{body}");
    let json = Scripted::start(move |_| Answer::Close(body("application/json", "[1,2]")));
    assert_eq!(run(&["-n", "2", &json.url("/")]).await["complete"], 2);
    let lines = Scripted::start(move |_| Answer::Close(body("application/x-ndjson", "1\n2\n")));
    assert_eq!(run(&[&lines.url("/")]).await["failures"], json!({"cut": 1}));
    assert_eq!(run(&["--expect-rows", "2", &lines.url("/")]).await["complete"], 1);
}

#[tokio::test]
async fn nobody_listens() {
    let free = free_port();
    let run = run(&["-n", "3", &format!("http://{free}/")]).await;
    assert_eq!((&run["failures"], &run["complete"]), (&json!({"connect": 3}), &json!(0)));
    assert_eq!(run["latency"]["total"], Value::Null);
}

/// Servers close idle connections silently. The next request must not fail because of that.
#[tokio::test]
async fn a_closed_connection_is_opened_again() {
    let server = Scripted::start(|_| Answer::Close(SMALL.to_owned()));
    let run = run(&["-n", "5", &server.url("/")]).await;
    assert_eq!((&run["complete"], &run["latency"]["connect"]["count"]), (&json!(5), &json!(5)), "{run:#}");
    let kept = Scripted::always(SMALL);
    let run = self::run(&["-n", "50", "-c", "2", &kept.url("/")]).await;
    let opened = kept.connections.load(Ordering::SeqCst);
    assert_eq!((&run["complete"], &run["latency"]["connect"]["count"]), (&json!(50), &json!(opened)));
    assert!(opened <= 2, "{opened} connections");
}

#[tokio::test]
async fn each_request_has_a_random_integer() {
    let server = Scripted::always(SMALL);
    run(&["-n", "200", &server.url("/a/{3-5}?b={7-7}")]).await;
    let paths: BTreeSet<String> = server.paths.lock().unwrap().iter().cloned().collect();
    assert_eq!(paths.into_iter().collect::<Vec<_>>(), ["/a/3?b=7", "/a/4?b=7", "/a/5?b=7"]);
}

/// Coordinated omission: a server stalls once, and a load tester that stops sending sees only one
/// slow request.
#[tokio::test]
async fn the_open_model_counts_the_requests_that_a_stall_kept_waiting() {
    let server = Scripted::start(|number| {
        let answer = Answer::Keep(SMALL.to_owned());
        if number == 20 { Answer::Late(Duration::from_millis(300), Box::new(answer)) } else { answer }
    });
    let run = run(&["-q", "200", "-n", "120", &server.url("/")]).await;
    let total = &run["latency"]["total"];
    // Sixty requests were due during the stall. Those in its first half waited longer than half of
    // it.
    assert!(number(&total["max"]) >= 0.29 && number(&total["p90"]) >= 0.15, "{total:#}");
    assert_eq!(total["count"], 120);
}

#[tokio::test]
async fn a_slow_reader_keeps_to_its_rate_and_is_felt_by_the_server() {
    let body = format!("[{}]", "1,".repeat(14_999) + "1");
    let whole = response("200 OK", "application/json", &body);
    let server = Scripted::start(move |_| Answer::Keep(whole.clone()));
    let run = run(&["--slow", "30KB", &server.url("/")]).await;
    assert_eq!(run["rows"], 15_000);
    assert!(number(&run["wall"]) >= 0.7, "30 KB came in {} s", run["wall"]);

    let rows = self::server().await;
    let run = self::run(&["--slow", "1MB", "--http2", &rows.url("/list")]).await;
    let least = number(&run["bytes"]) / 1e6 * 0.7;
    assert_eq!(run["rows"], 50_000);
    assert!(number(&run["wall"]) >= least, "{} bytes came in {} s", run["bytes"], run["wall"]);

    let endless = Scripted::start(|_| Answer::Endless);
    let run = self::run(&["--slow", "10KB", "-z", "500ms", "--timeout", "500ms", &endless.url("/")]).await;
    assert_eq!(run["failures"], json!({"timeout": 1}));
    let sent = endless.sent.load(Ordering::SeqCst);
    assert!(sent < 8_000_000, "the server could send {sent} bytes");
}

#[tokio::test]
async fn the_servers_own_figures() {
    let server = server().await;
    let pid = server.pid().to_string();
    let run = run(&["-n", "20", "--pid", &pid, &server.url("/list")]).await;
    let cost = &run["server"];
    let cpu = number(&cost["cpu_user"]) + number(&cost["cpu_system"]);
    assert!(cpu > 0.0 && cpu <= number(&run["wall"]) * 64.0, "{cost:#}");
    assert_eq!(cost["peak_memory_is"], "hwm");
    let peak = number(&cost["peak_memory"]) as u64;
    // The kernel counts resident pages per core, so its peak misses pages that aren't summed up
    // yet.
    let most = peak_memory_bytes(server.pid()) + 2_000_000;
    assert!((1_000_000..=most).contains(&peak), "at most {most}: {cost:#}");
    assert!(number(&cost["voluntary_switches"]) > 0.0);
    let timeline = run["timeline"].as_array().unwrap();
    assert!(timeline.iter().all(|moment| moment["server_memory"].is_u64()), "{timeline:#?}");
    let last = timeline.last().unwrap();
    assert_eq!((&last["requests"], &last["rows"], &last["bytes"]), (&json!(20), &run["rows"], &run["bytes"]));
    assert!(number(&last["server_cpu"]) > 0.0);
}

#[tokio::test]
async fn a_comparison_takes_turns() {
    let order = Arc::new(Mutex::new(String::new()));
    let start = |name: char, millis: u64| {
        let order = Arc::clone(&order);
        Scripted::start(move |_| {
            order.lock().unwrap().push(name);
            Answer::Late(Duration::from_millis(millis), Box::new(Answer::Keep(SMALL.to_owned())))
        })
    };
    let (target, other) = (start('A', 1), start('B', 60));
    let pid = std::process::id().to_string();
    let arguments = ["-n", "2", "--pairs", "3", "--compare-pid", &pid, "--pid", &pid];
    let urls = [target.url("/"), other.url("/x")];
    let (report, _) = bench(&[&arguments[..], &[&urls[0], "--compare", &urls[1]]].concat()).await;
    assert_eq!(*order.lock().unwrap(), "AABBBBAAAABB");
    for (place, url) in urls.iter().enumerate() {
        let target = &report["targets"][place];
        assert_eq!((&target["url"], target["runs"].as_array().map(Vec::len)), (&json!(url), Some(3)));
    }
    let ratios = &report["ratios"];
    let figures =
        ["wall", "requests_per_second", "rows_per_second", "server_cpu", "peak_memory", "first_byte_p50"];
    assert_eq!(names(ratios), figures);
    for name in ["wall", "first_byte_p50"] {
        let ratio = &ratios[name];
        let [min, median, max] = ["min", "median", "max"].map(|part| number(&ratio[part]));
        assert!(0.0 < min && min <= median && median <= max && median < 1.0, "{name}: {ratio}");
    }
    assert!(number(&ratios["requests_per_second"]["median"]) > 1.0, "{ratios:#}");

    let text = rowstream(&[&["bench"], &arguments[..], &[&urls[0], "--compare", &urls[1]]].concat()).await;
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("A ÷ B") && urls.iter().all(|url| text.contains(url.as_str())), "{text}");
}

#[tokio::test]
async fn the_names_in_the_report() {
    let server = Scripted::always(SMALL);
    let (report, _) = bench(&["-n", "3", &server.url("/")]).await;
    assert_eq!(names(&report), ["rowstream_bench", "command", "started", "targets"]);
    assert_eq!((&report["rowstream_bench"], &report["command"][1]), (&json!(1), &json!("bench")));
    assert!(report["started"].as_str().unwrap().parse::<jiff::Timestamp>().is_ok());
    let run = &report["targets"][0]["runs"][0];
    let expected = "wall interrupted requests complete failures failure_examples statuses rows bytes requests_per_second \
         rows_per_second bytes_per_second latency server client timeline";
    assert_eq!(names(run), expected.split_whitespace().collect::<Vec<_>>());
    assert_eq!(names(&run["latency"]), ["connect", "first_byte", "first_row", "transfer", "total"]);
    let quantiles = ["count", "min", "mean", "p50", "p90", "p99", "p99_9", "p99_99", "max"];
    assert_eq!(names(&run["latency"]["total"]), quantiles);
    assert_eq!(names(&run["client"]), ["cpu", "busy", "limited"]);
    let moment = ["at", "requests", "rows", "bytes", "server_memory", "server_cpu"];
    assert_eq!(names(&run["timeline"][0]), moment);
    assert_eq!((&run["server"], &run["failures"]), (&Value::Null, &json!({})));
    assert_eq!((&run["rows"], &run["bytes"]), (&json!(6), &json!(15)));
    let rate = number(&run["wall"]) * number(&run["rows_per_second"]);
    assert!((rate - 6.0).abs() < 1e-6, "{rate}");
}

#[tokio::test]
async fn the_page_stands_alone() {
    let server = server().await;
    let folder = tempfile::tempdir().unwrap();
    let (page, report) = (folder.path().join("a.html"), folder.path().join("a.json"));
    let (page, report) = (page.to_str().unwrap(), report.to_str().unwrap());
    let (url, pid) = (server.url("/list?_format=json"), server.pid().to_string());
    let arguments = ["-z", "400ms", "--pid", &pid, "--pairs", "2", "--compare", &url, "--compare-pid", &pid];
    let output = ["--html", page, "--format", "json", "-o", report, &url];
    let ran = rowstream(&[&["bench"], &arguments[..], &output].concat()).await;
    assert_eq!((ran.status.code(), ran.stdout.len()), (Some(0), 0));
    assert!(serde_json::from_slice::<Value>(&std::fs::read(report).unwrap()).is_ok());
    let html = std::fs::read_to_string(page).unwrap();
    assert!(html.contains(&url), "the target is named");
    let without = html.replace(&url, "");
    for reference in ["http:", "https:", "src=", "href=", "url(", "@import", "<script", "NaN", "inf"] {
        assert!(!without.contains(reference), "{reference} in {without}");
    }
    assert_eq!(html.matches("<svg").count(), 5);
    assert_eq!(html.matches("<polyline").count(), 10, "each picture shows both targets");
    assert!(html.contains("prefers-color-scheme: dark"));
}

#[tokio::test]
async fn wrong_usage_and_what_is_not_there() {
    for (arguments, code, words) in [
        (&["http://h/", "-n", "0"][..], 2, "-n"),
        (&["http://h/", "-n", "1", "-z", "1s"], 2, "cannot be used with"),
        (&["http://h/", "-z", "0s"], 2, "10s"),
        (&["http://h/", "-q", "0"], 2, "requests per second"),
        (&["http://h/", "-c", "0"], 2, "-c"),
        (&["http://h/", "--slow", "fast"], 2, "100KB"),
        (&["http://h/", "-H", "x"], 2, "Name: value"),
        (&["http://h/", "--pairs", "3"], 2, "--compare"),
        (&["https://h/"], 2, "https is not supported"),
        (&["h/{1-2}"], 2, "http://"),
        (&["http://h/{9-2}"], 2, "no integer"),
        (&[], 2, "<URL>"),
        (&["http://127.0.0.1:1/", "--pid", "4294967295"], 1, "no process 4294967295"),
        (&["http://nowhere.invalid/"], 1, "nowhere.invalid"),
        (&["http://127.0.0.1:1/"], 1, "1 of 1 requests failed"),
        (&["http://127.0.0.1:1/", "-o", "/nowhere/a"], 1, "/nowhere/a"),
    ] {
        let ran = rowstream(&[&["bench"], arguments].concat()).await;
        let stderr = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(ran.status.code(), Some(code), "{arguments:?}: {stderr}");
        assert!(stderr.contains(words), "{arguments:?}: {stderr}");
    }
}

/// Measurements until Ctrl-C are reported. Requests in flight don't count.
#[tokio::test]
async fn an_interrupted_run_is_reported() {
    let server =
        Scripted::start(|number| if number < 3 { Answer::Keep(SMALL.to_owned()) } else { Answer::Hang });
    let child = Command::new(program())
        .args(["bench", "--format", "json", "-z", "10m", &server.url("/")])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    for _ in 0..2000 {
        if server.paths.lock().unwrap().len() == 4 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let pid = child.id().to_string();
    assert!(Command::new("sh").args(["-c", r#"kill -s INT "$0""#, &pid]).status().unwrap().success());
    let output = tokio::task::spawn_blocking(|| child.wait_with_output()).await.unwrap().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let run = &report["targets"][0]["runs"][0];
    assert_eq!((&run["interrupted"], &run["requests"]), (&json!(true), &json!(3)), "{run:#}");
    assert_eq!((output.status.code(), &run["complete"]), (Some(0), &json!(3)));
}

/// hyper's client treats a reset without an error code as the end of a body. A truncated stream
/// must not count as complete.
#[tokio::test]
async fn a_stream_that_is_reset_is_cut() {
    for reason in [h2::Reason::INTERNAL_ERROR, h2::Reason::NO_ERROR] {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let serving = tokio::spawn(async move {
            let (socket, _) = listener.accept().await.unwrap();
            let mut connection = h2::server::handshake(socket).await.unwrap();
            while let Some(Ok((_, mut respond))) = connection.accept().await {
                let head = http::Response::builder().header("content-type", "application/x-ndjson");
                let mut body = respond.send_response(head.body(()).unwrap(), false).unwrap();
                body.send_data(Bytes::from_static(b"{}\n"), false).unwrap();
                body.send_reset(reason);
            }
        });
        let run = run(&["--http2", &url]).await;
        assert_eq!(run["failures"], json!({"cut": 1}), "{reason:?}");
        serving.abort();
    }
}
