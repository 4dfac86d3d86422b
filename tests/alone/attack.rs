//! Attacks with third-party tools and with crowds of clients. `cargo xtask attack` installs the
//! tools and runs everything. A tool's finding fails the test, unless a line in this file explains
//! it.
//!
//! An ordinary test run has no tools, so it ignores their tests, and its crowds are smaller.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::support::upstream::Certificate;
use crate::support::{
    Client, Ended, Launch, Server, TestDb, get, peak_memory_bytes, release_program, wait_until,
};

/// Returns true in the long form.
fn is_long() -> bool {
    std::env::var_os("ROWSTREAM_ATTACK").is_some()
}

/// A program that `cargo xtask attack` has installed.
fn tool(variable: &str) -> PathBuf {
    std::env::var_os(variable)
        .map(PathBuf::from)
        .unwrap_or_else(|| panic!("{variable}: run `cargo xtask attack`"))
}

async fn server(head: &str) -> Server {
    let long =
        "with recursive r(n) as (select 1 union all select n + 1 from r where n < 200000)\nselect n from r";
    let orders = "/*\n[params]\nmin = { type = \"integer\", default = 0, min = 0, max = 1000 }\n\
        status = { type = \"text\", enum = [\"sent\", \"paid\"], optional = true }\nday = { type = \"date\", optional = true }\n\
        ids = { type = \"integer[]\", optional = true }\n*/\n\
        select n, 'sent' as status from (select 1 as n union all select 2)\n\
        where n > :min and (:status is null or :status = 'sent') and :day is null and :ids is null";
    Launch::files(&[
        ("rowstream.toml", &format!("{head}\n[source.db]\nurl = \"sqlite:t.db\"\ncreate = [\"t.sql\"]\n")),
        ("t.sql", "create table t (n)"),
        ("endpoints/one.sql", "select 1 as n"),
        ("endpoints/long.sql", long),
        ("endpoints/orders.sql", orders),
        (
            "endpoints/authors/{id}.sql",
            "/*\nresult = \"one\"\n[params]\nid = \"integer\"\n*/\nselect :id as id where :id < 10",
        ),
    ])
    .argument("--log-format=off")
    .start()
    .await
}

/// Runs a tool to its end, on a separate thread.
async fn run(mut command: Command) -> Output {
    let ran = tokio::task::spawn_blocking(move || command.output()).await.expect("no panic");
    ran.unwrap_or_else(|error| panic!("the tool cannot be run: {error}"))
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Waits until the server responds as before. It may still be out of memory until it notices that
/// its clients have disconnected.
async fn still_answers(server: &Server) {
    wait_until("it answers", async || {
        let reply = get(&server.url("/one")).await;
        let answers = reply.text() == "[{\"n\":1}]";
        assert!(answers || reply.status == 503, "{}: {}", reply.status, reply.text());
        answers
    })
    .await;
}

/// Findings of h2spec without TLS, which we accept. With TLS it has none.
const H2SPEC: &[(&str, &str)] = &[
    // HTTP/1 and HTTP/2 share a port. Bytes that don't begin like HTTP/2 are HTTP/1 here: the
    // server responds with 400 and closes.
    ("3.5", "Sends invalid connection preface"),
];

#[tokio::test]
#[ignore = "`cargo xtask attack` has h2spec"]
async fn h2spec() {
    let server = server("").await;
    judge_h2spec(&server, &[], H2SPEC).await;
    still_answers(&server).await;
}

#[tokio::test]
#[ignore = "`cargo xtask attack` has h2spec"]
async fn h2spec_over_tls() {
    let certificate = Certificate::new();
    let server = server(&format!(
        "tls = {{ certificate = \"{}\", key = \"{}\" }}",
        certificate.certificate().display(),
        certificate.key().display()
    ))
    .await;
    judge_h2spec(&server, &["-t", "-k"], &[]).await;
    still_answers_over_tls(&server, &certificate.ca()).await;
}

/// Runs h2spec, which may find the `explained` cases. One path streams its response, the other
/// completes its response before the rest of the request arrives.
async fn judge_h2spec(server: &Server, options: &[&str], explained: &[(&str, &str)]) {
    let (host, port) = server.address().rsplit_once(':').expect("it has a port");
    for path in ["/long", "/one"] {
        let mut command = Command::new(tool("ROWSTREAM_ATTACK_H2SPEC"));
        command.args(["-h", host, "-p", port, "-P", path, "-o", "5"]).args(options);
        let text = said(&run(command).await);
        let (_, failures) = text.split_once("Failures:").unwrap_or((&text, ""));
        let (mut section, mut unexplained) = ("", Vec::new());
        for line in failures.lines().map(str::trim) {
            if let Some((_, case)) = line.strip_prefix("× ").and_then(|case| case.split_once(": ")) {
                if !explained.contains(&(section, case)) {
                    unexplained.push(format!("{section} {case}"));
                }
            } else if let Some((number, _)) =
                line.split_once(". ").filter(|(number, _)| number.starts_with(|c: char| c.is_ascii_digit()))
            {
                section = number;
            }
        }
        let summary = text.lines().rfind(|line| line.contains(" tests, ")).unwrap_or_default().to_owned();
        println!("h2spec {path} {options:?}: {summary}");
        assert!(unexplained.is_empty(), "{unexplained:#?}");
        let passed =
            summary.split(", ").nth(1).and_then(|text| text.split(' ').next()?.parse::<usize>().ok());
        assert!(passed.is_some_and(|passed| passed + explained.len() >= 145), "{summary}");
    }
}

/// For each kind of slow client, the service stays available in every second.
#[tokio::test]
#[ignore = "`cargo xtask attack` has slowhttptest"]
async fn slowhttptest() {
    let server = server("max_connections = 1500").await;
    let folder = tempfile::tempdir().expect("a folder");
    for (mode, path) in [("-H", "/one"), ("-B", "/one"), ("-R", "/long"), ("-X", "/long")] {
        let report = folder.path().join("report");
        let mut command = Command::new("slowhttptest");
        // 1000 connections, 200 new ones a second, for 40 seconds. Each sends something every 5
        // seconds.
        command
            .args([mode, "-c", "1000", "-r", "200", "-i", "5", "-l", "40", "-p", "3", "-g", "-o"])
            .arg(&report);
        command.args(["-u", &server.url(path)]);
        let output = run(command).await;
        let csv = std::fs::read_to_string(report.with_extension("csv"))
            .unwrap_or_else(|error| panic!("{mode}: {error}: {}", said(&output)));
        let seconds: Vec<Vec<u32>> = csv
            .lines()
            .skip(1)
            .map(|line| line.split(',').filter_map(|cell| cell.parse().ok()).collect())
            .collect();
        assert!(seconds.len() > 1, "{mode}: {csv}");
        let most = seconds.iter().filter_map(|cells| cells.get(3)).max();
        let gone: Vec<_> = seconds.iter().filter(|cells| cells.get(4) == Some(&0)).collect();
        // Its probe requests the same list from the same address as the slow readers. So the probe
        // waits with them for a database connection, until their remaining rows are spilled.
        let may_be_gone = if mode == "-X" { seconds.len() / 10 } else { 0 };
        println!(
            "slowhttptest {mode}: {} s, {most:?} connections at most, service gone in {} of them",
            seconds.len(),
            gone.len()
        );
        assert!(gone.len() <= may_be_gone, "{mode}: {gone:?}");
        still_answers(&server).await;
    }
    println!("slowhttptest: {} MB at most", peak_memory_bytes(server.pid()) >> 20);
}

/// Findings of testssl about the test's own certificate or other things that aren't the server's
/// fault.
const TESTSSL: &[&str] = &[
    // The test's certificate is valid for a day, and isn't signed, revoked or published by anyone.
    "cert_chain_of_trust",
    "cert_trust",
    "cert_crlDistributionPoints",
    "cert_ocspURL",
    "cert_expirationStatus",
    "cert_validityPeriod",
    "cert_caIssuers",
    "cert_revocation",
    "DNS_CAArecord",
    "OCSP_stapling",
    "certificate_transparency",
    "cert_notAfter",
    "grade_cap_reason_1",
    "overall_grade",
    // All offered suites are AEAD with forward secrecy, so the client chooses. A client without AES
    // instructions prefers ChaCha20.
    "cipher_order",
    // About the machine that runs testssl.
    "engine_problem",
];

#[tokio::test]
#[ignore = "`cargo xtask attack` has testssl.sh"]
async fn testssl() {
    let certificate = Certificate::new();
    let server = server(&format!(
        "tls = {{ certificate = \"{}\", key = \"{}\", hsts = \"365d\" }}",
        certificate.certificate().display(),
        certificate.key().display()
    ))
    .await;
    let (_, port) = server.address().rsplit_once(':').expect("it has a port");
    let folder = tempfile::tempdir().expect("a folder");
    let report = folder.path().join("report.json");
    let mut command = Command::new("testssl");
    command
        .args(["--quiet", "--warnings", "off", "--color", "0", "--ip", "127.0.0.1", "--add-ca"])
        .arg(certificate.ca());
    command.args(["--nodns", "min", "--jsonfile"]).arg(&report).arg(format!("localhost:{port}"));
    let output = run(command).await;
    let findings: Vec<Value> = std::fs::read_to_string(&report)
        .ok()
        .and_then(|text| serde_json::from_str(&text).ok())
        .unwrap_or_else(|| panic!("no report: {}", said(&output)));
    let mut by_severity = BTreeMap::<&str, usize>::new();
    let mut unexplained = Vec::new();
    for finding in &findings {
        let (id, severity) =
            (finding["id"].as_str().unwrap_or_default(), finding["severity"].as_str().unwrap_or_default());
        *by_severity.entry(severity).or_default() += 1;
        let id = id.split(' ').next().unwrap_or_default();
        if !["OK", "INFO", "LOW", "DEBUG"].contains(&severity) && !TESTSSL.contains(&id) {
            unexplained.push(format!("{severity} {id}: {}", finding["finding"]));
        }
    }
    println!("testssl: {by_severity:?}");
    assert!(findings.len() > 50, "{}", said(&output));
    assert!(unexplained.is_empty(), "{unexplained:#?}");
    still_answers_over_tls(&server, &certificate.ca()).await;
}

async fn still_answers_over_tls(server: &Server, ca: &Path) {
    let (_, port) = server.address().rsplit_once(':').expect("it has a port");
    let got = crate::support::curl(&[
        "--cacert",
        ca.to_str().expect("text"),
        "--ipv4",
        &format!("https://localhost:{port}/one"),
    ])
    .await;
    assert_eq!((got.code, &*got.stdout), (0, &b"[{\"n\":1}]"[..]), "{}", got.stderr);
}

/// Accepted findings of schemathesis, as words of each finding.
const SCHEMATHESIS: &[&[&str]] = &[
    // schemathesis parses events, but our schema describes the body as a text, as in OpenAPI 3.1.
    &["108 SSE event violates schema", "is not of type \"string\""],
    // The schema of one parameter can't express that only some formats have an end record.
    &["202 Schema-valid request rejected", "parameter `_end`: `", "` holds only rows"],
    // An empty optional parameter is NULL, whatever its type.
    &["201 Schema-violating request accepted", "parameter `day` in query", "day='"],
    &["201 Schema-violating request accepted", "parameter `day` in query", "day=&"],
    &["201 Schema-violating request accepted", "parameter `ids` in query", "ids='"],
    &["201 Schema-violating request accepted", "parameter `ids` in query", "ids=&"],
    // In a form, one value is a list of one.
    &["201 Schema-violating request accepted", "in body - ids: Incorrect type", "x-www-form-urlencoded"],
    // OpenAPI 3.1 can't describe QUERY, and an endpoint without parameters for a body has no `post`.
    &["204 Wrong response to undeclared method", "Unsupported method QUERY returned 200"],
    &["205 Allow header mismatch", "`Allow: GET, HEAD, QUERY, POST, OPTIONS` does not match"],
];

/// The server matches its OpenAPI document, both for values that the document allows and for
/// others.
#[tokio::test]
#[ignore = "`cargo xtask attack` has schemathesis"]
async fn schemathesis() {
    let server = server("").await;
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(tool("ROWSTREAM_ATTACK_SCHEMATHESIS"));
    command.current_dir(folder.path()).args(["run", &server.url("/_rowstream/openapi.json"), "--no-color"]);
    command.args([
        "--max-examples",
        "200",
        "--seed",
        "4711",
        "--request-timeout",
        "10",
        "--continue-on-failure",
    ]);
    let output = run(command).await;
    let text = said(&output);
    let findings: Vec<&str> = text.split("\n- ST").skip(1).collect();
    let is_explained =
        |finding: &&str| SCHEMATHESIS.iter().any(|words| words.iter().all(|word| finding.contains(word)));
    let unexplained: Vec<_> = findings.iter().filter(|finding| !is_explained(finding)).collect();
    let generated = text.lines().find(|line| line.contains(" generated")).unwrap_or_else(|| panic!("{text}"));
    println!(
        "schemathesis: {}; {} findings, {} unexplained",
        generated.trim(),
        findings.len(),
        unexplained.len()
    );
    assert!(output.status.success() || !findings.is_empty(), "{text}");
    assert!(unexplained.is_empty(), "{unexplained:#?}");
    still_answers(&server).await;
}

/// An HTTP/2 frame.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// The first bytes of an HTTP/2 client: its preface and settings.
fn preface(settings: &[u8]) -> Vec<u8> {
    [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &frame(4, 0, 0, settings)].concat()
}

/// The frame of a request: `:method: GET`, `:scheme: http`, `:path`, and `:authority: a`, with
/// names from the static table.
fn request(stream: u32, path: &str) -> Vec<u8> {
    let length = u8::try_from(path.len()).expect("a short path");
    let head = [&[0x82, 0x86, 0x04, length][..], path.as_bytes(), &[0x01, 1], b"a"].concat();
    frame(1, 0x5, stream, &head)
}

/// Requests that are reset at once. The first one includes the preface.
fn resets(first: u32, count: u32) -> Vec<u8> {
    let mut frames = if first == 1 { preface(&[]) } else { Vec::new() };
    for number in 0..count {
        let stream = first + 2 * number;
        frames.extend(request(stream, "/long"));
        frames.extend(frame(3, 0, stream, &8_u32.to_be_bytes()));
    }
    frames
}

/// Streams of one HTTP/2 connection.
const STREAMS: u32 = 200;

/// A connection from `from` that requests `path` on all its streams. The server may send `window`
/// bytes of each response.
async fn unread(server: &Server, from: [u8; 4], path: &str, window: u32) -> TcpStream {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind((from, 0).into()).expect("an address of this machine");
    let mut client = socket.connect(server.address().parse().expect("an address")).await.expect("it listens");
    // SETTINGS_INITIAL_WINDOW_SIZE.
    let mut frames = preface(&[&[0, 4][..], &window.to_be_bytes()].concat());
    frames.extend((0..STREAMS).flat_map(|number| request(2 * number + 1, path)));
    client.write_all(&frames).await.expect("it reads");
    client
}

/// The number of `count` requests for a path that get status 200.
async fn answered(server: &Server, path: &str, count: usize) -> usize {
    let mut answered = 0;
    for _ in 0..count {
        answered += usize::from(get(&server.url(path)).await.status == 200);
    }
    answered
}

/// The program may use its memory limit plus a tenth.
fn assert_within(server: &Server, memory: u64) {
    let peak = peak_memory_bytes(server.pid());
    println!("unread: {} MB at most of {} MB", peak / 1_000_000, memory / 1_000_000);
    assert!(peak < memory + memory / 10, "{peak}");
}

/// A client that reads none of its responses, whatever it requests, doesn't affect health checks or
/// the lookups of other clients.
#[tokio::test]
async fn answers_that_one_client_leaves_unread_take_nothing_from_others() {
    const MEMORY: u64 = 100_000_000;
    for path in ["/_rowstream/openapi.json", "/", "/_rowstream/live", "/_rowstream/ready", "/missing"] {
        let server = server(&format!("memory = \"{MEMORY}\"\nmax_connections = 500")).await;
        let mut crowd = Vec::new();
        for _ in 0..10 {
            crowd.push(unread(&server, [127, 0, 0, 2], path, 0).await);
        }
        for (other, count) in [
            ("/_rowstream/live", 20),
            ("/_rowstream/ready", 20),
            ("/authors/3", 30),
            ("/_rowstream/openapi.json", 5),
        ] {
            assert_eq!(answered(&server, other, count).await, count, "{other} beside {path}");
        }
        assert_within(&server, MEMORY);
        drop(crowd);
        still_answers(&server).await;
    }
}

/// Many clients together use all memory for a moment. Their responses end, because others need
/// memory.
#[tokio::test]
async fn answers_that_many_clients_leave_unread_give_way() {
    const MEMORY: u64 = 100_000_000;
    let server = server(&format!("memory = \"{MEMORY}\"\nmax_connections = 500")).await;
    let mut crowd = Vec::new();
    for number in 0..20 {
        crowd.push(unread(&server, [127, 0, 1, number], "/missing", 0).await);
    }
    let first = get(&server.url("/authors/3")).await;
    assert_eq!((first.status.as_u16(), first.header("retry-after")), (503, Some("1")), "they have all");
    wait_until("the lookup is answered", async || answered(&server, "/authors/3", 1).await == 1).await;
    assert_within(&server, MEMORY);
}

/// Without any configured limit, generated documents are shared between clients, and memory for
/// unpacking one is limited per client.
#[tokio::test]
async fn documents_take_the_same_memory_however_many_ask() {
    let server = server("").await;
    answered(&server, "/_rowstream/openapi.json", 1).await;
    let before = peak_memory_bytes(server.pid());
    let mut crowd = Vec::new();
    for (number, path) in (0..20).zip(["/", "/_rowstream/openapi.json"].into_iter().cycle()) {
        crowd.push(unread(&server, [127, 0, 1, number], path, 1).await);
    }
    assert_eq!(answered(&server, "/_rowstream/live", 20).await, 20);
    wait_until("a document can be read beside them", async || answered(&server, "/", 1).await == 1).await;
    let grown = peak_memory_bytes(server.pid()).saturating_sub(before) >> 20;
    println!("documents: {} requests, {grown} MB more", 20 * STREAMS);
    assert!(grown < 60, "{grown} MB");
}

/// Requests that are reset before their response (CVE-2023-44487). The server closes a connection
/// after some of them, everything else continues, and nothing leaks.
#[tokio::test]
async fn resets_end_their_connection_and_nothing_else() {
    let server = server("memory = \"400MB\"").await;
    let wanted = if is_long() { 100_000 } else { 2_000 };
    let before = {
        still_answers(&server).await;
        peak_memory_bytes(server.pid())
    };
    let (begun, mut sent, mut connections) = (Instant::now(), 0, 0_u32);
    while sent < wanted {
        let mut client = TcpStream::connect(server.address()).await.expect("it listens");
        connections += 1;
        let mut first = 1;
        // Until the server closes the connection.
        while sent < wanted && client.write_all(&resets(first, 50)).await.is_ok() && first < 20_000 {
            (first, sent) = (first + 100, sent + 50);
            let mut answer = [0; 4096];
            let read = timeout(Duration::from_millis(1), client.read(&mut answer)).await;
            if matches!(read, Ok(Ok(0) | Err(_))) {
                break;
            }
        }
    }
    still_answers(&server).await;
    let took = begun.elapsed();
    wait_until("no permit stays taken", async || {
        let metrics = get(&server.url("/_rowstream/metrics")).await;
        let mut permits = metrics.text().lines().filter(|line| line.starts_with("rowstream_permits "));
        permits.all(|line| line.ends_with(" 0"))
    })
    .await;
    let grown = peak_memory_bytes(server.pid()).saturating_sub(before) >> 20;
    println!(
        "resets: {sent} on {connections} connections in {:.1} s, {grown} MB more at most",
        took.as_secs_f64()
    );
    assert!(grown < 100, "{grown} MB");
}

/// Connections that send nothing, and others that read a long result byte by byte, stay within the
/// memory limit plus a tenth.
#[tokio::test]
async fn a_crowd_stays_within_the_memory() {
    const MEMORY: u64 = 400_000_000;
    let count = if is_long() { 5_000 } else { 500 };
    let server = server(&format!("memory = \"{MEMORY}\"\nmax_connections = {count}")).await;
    let mut crowd = Vec::new();
    for number in 0..count {
        let mut client = TcpStream::connect(server.address()).await.expect("it listens");
        let said: &[u8] = match number % 3 {
            0 => b"",
            1 => b"GET /long HTTP/1.1\r\nhost: a\r\nx: ",
            _ => b"GET /long.ndjson HTTP/1.1\r\nhost: a\r\n\r\n",
        };
        let _ = client.write_all(said).await;
        crowd.push(client);
    }
    // Requests still get a response or an immediate refusal.
    for path in ["/one", "/_rowstream/live", "/_rowstream/ready"] {
        let status = get(&server.url(path)).await.status;
        assert!([200, 503].contains(&status.as_u16()), "{path}: {status}");
    }
    assert_eq!(get(&server.url("/_rowstream/live")).await.status, 200);
    let peak = peak_memory_bytes(server.pid());
    println!("crowd: {count} connections, {} MB at most of {} MB", peak / 1_000_000, MEMORY / 1_000_000);
    assert!(peak < MEMORY + MEMORY / 10, "{peak}");
    drop(crowd);
    still_answers(&server).await;
}

/// The result of one request of many.
struct Asked {
    begun: Instant,
    status: u16,
    took: Duration,
}

async fn ask(url: String) -> Asked {
    let begun = Instant::now();
    let reply = get(&url).await;
    assert_eq!(reply.ended, Ended::Complete, "{url}");
    assert!(reply.status == 200 || reply.header("retry-after").is_some(), "{}", reply.status);
    Asked { begun, status: reply.status.as_u16(), took: begun.elapsed() }
}

/// Sends this many requests a second, regardless of their duration.
async fn at_a_rate(url: String, rate: u32, seconds: u32) -> Vec<Asked> {
    let begun = tokio::time::Instant::now();
    let mut requests = JoinSet::new();
    for number in 0..rate * seconds {
        tokio::time::sleep_until(begun + Duration::from_secs(1) * number / rate).await;
        requests.spawn(ask(url.clone()));
    }
    requests.join_all().await
}

fn percentile(mut times: Vec<Duration>, part: f64) -> Duration {
    times.sort();
    times.get((times.len() as f64 * part) as usize).or(times.last()).copied().unwrap_or_default()
}

/// Ten times as many requests as the pool can serve. Goodput stays nearly the same, admitted
/// requests don't wait long, all others are refused at once, and lookups aren't affected.
#[tokio::test]
async fn at_ten_times_the_capacity() {
    let db = TestDb::new().await;
    // Four lists at a time, 100 ms each: 40 a second.
    let (capacity, seconds) = (40, if is_long() { 20 } else { 5 });
    let server = Launch::files(&[
        (
            "rowstream.toml",
            &format!("[source.db]\nurl = \"{}\"\npool = {{ max = 6, waiting = 100 }}\n", db.url()),
        ),
        ("endpoints/list.sql", "select n, pg_sleep(0.1)::text as s from (values (1)) v(n)"),
        ("endpoints/lookup.sql", "/* result = \"one\" */ select 1 as n"),
    ])
    .argument("--log-format=off")
    .start()
    .await;
    let url = server.url("/list");
    for _ in 0..4 {
        get(&url).await;
    }
    let peak = at_a_rate(url.clone(), capacity, seconds).await;
    let served = |asked: &[Asked]| asked.iter().filter(|asked| asked.status == 200).count();
    let lookups = at_a_rate(server.url("/lookup"), 10, seconds);
    let begun = Instant::now();
    let (crowd, lookups) = tokio::join!(at_a_rate(url, 10 * capacity, seconds), lookups);
    let p99 = |asked: &dyn Fn(&&Asked) -> bool| {
        percentile(crowd.iter().filter(asked).map(|asked| asked.took).collect(), 0.99).as_secs_f64()
    };
    let admitted = p99(&|asked| asked.status == 200);
    let steady = p99(&|asked| asked.status == 200 && asked.begun > begun + Duration::from_secs(5));
    let refused = p99(&|asked| asked.status != 200);
    let answered = served(&lookups);
    println!(
        "overload: {} of {} served at capacity, {} of {} at ten times; p99 of those {admitted:.2} s, after five seconds {steady:.2} s, \
         of refusals {refused:.3} s; {answered} of {} lookups, p99 {:.3} s",
        served(&peak),
        peak.len(),
        served(&crowd),
        crowd.len(),
        lookups.len(),
        percentile(lookups.iter().map(|asked| asked.took).collect(), 0.99).as_secs_f64(),
    );
    assert!(served(&crowd) * 10 >= served(&peak) * 9, "goodput");
    assert_eq!(answered, lookups.len(), "lookups are not refused");
    assert!(admitted < 2.0, "{admitted}");
    if is_long() {
        assert!(refused < 1.0, "{refused}");
    }
    assert_eq!(Client::HTTP1.get(&server.url("/_rowstream/live")).await.status, 200);
}

/// The number of requests that are served in five seconds under a load.
async fn served(url: &str, load: &[&str]) -> u64 {
    let mut bench = Command::new(release_program());
    bench.args(["bench", "--format", "json", "-z", "5s"]).args(load).arg(url);
    let report: Value = serde_json::from_slice(&run(bench).await.stdout).expect("a report");
    report["targets"][0]["runs"][0]["complete"].as_u64().expect("a number")
}

/// A refusal cost 43 µs. Above thirty times the capacity, the server did almost nothing else.
#[tokio::test]
#[ignore = "`cargo xtask attack` has it"]
async fn twenty_thousand_refusals_per_second_leave_half_of_the_goodput() {
    let db = TestDb::new().await;
    let config = format!("[source.db]\nurl = \"{}\"\npool = {{ max = 4, waiting = 20 }}\n", db.url());
    let list = "select n, md5(n::text) as s from generate_series(1, 2000) n";
    let files = [("rowstream.toml", config.as_str()), ("endpoints/list.sql", list)];
    let server = Launch::files(&files).release().start().await;
    let url = server.url("/list");
    let mut parts = Vec::new();
    for _ in 0..3 {
        let peak = served(&url, &["-c", "8"]).await;
        let crowd = served(&url, &["-c", "400", "-q", "20000"]).await;
        println!("refusals: {crowd} served in 5 s beside 20,000 requests per second, {peak} without them");
        parts.push(crowd * 100 / peak);
    }
    parts.sort_unstable();
    assert!(parts[1] >= 50, "{parts:?} %");
}
