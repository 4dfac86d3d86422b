//! HTTP/3 with third-party clients: it keeps the promises of HTTP/1.1 and HTTP/2.

mod heads;

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::support::upstream::Certificate;
use crate::support::{
    Browser, Server, TestDb, curl, limit, peak_memory_bytes, repository, rowstream, wait_until,
};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

const MILLION: &str = "select n, repeat('x', 20) as t from generate_series(1, 1000000) n";
/// Endless rows.
const LONG: &str = "select generate_series(1, 1000000000) as n, repeat('x', 100) as t";
/// Fails after many chunks.
const FAILS: &str = "select n, 1 / (50000 - n) as x, repeat('x', 100) as t from generate_series(1, 99999) n";
/// Sends nothing for a long time after its first row.
const SILENT: &str = "select 1 as n union all select 2 from (select pg_sleep(1000)) s";
/// Longer than any test runs.
const NO_HEARTBEAT: &str = "heartbeat = \"1h\"";
/// How many of the numbers to a million are among the ids.
const COUNT: &str = "/*\n[params]\nids = \"integer[]\"\n*/\n\
    select count(*) as n from generate_series(1, 1000000) id where id = any(:ids)";
const PACED: &str = "/*\nslow_clients = { min_rate = \"1MB/s\" }\n*/\nselect generate_series(1, 1000000000) as n, repeat('x', 100) as t";

async fn server(db: &TestDb, certificate: &Certificate, before: &str) -> Server {
    let (file, key) = (certificate.certificate(), certificate.key());
    let config = format!(
        "{before}\n[source.db]\nurl = \"{}\"\n[tls]\ncertificate = \"{}\"\nkey = \"{}\"\nhttp3 = true\n",
        db.url(),
        file.display(),
        key.display()
    );
    let files = [
        ("rowstream.toml", &*config),
        ("endpoints/million.sql", MILLION),
        ("endpoints/long.sql", LONG),
        ("endpoints/fails.sql", FAILS),
        ("endpoints/silent.sql", SILENT),
        ("endpoints/paced.sql", PACED),
        ("endpoints/pause.sql", "select 1 as n union all select 2 from (select pg_sleep(6)) s"),
        ("endpoints/one.sql", "select 1 as n"),
        ("endpoints/count.sql", COUNT),
    ];
    Server::start(&files).await
}

/// The URL of a path, with the name in the certificate.
fn https(server: &Server, path: &str) -> String {
    let (_, port) = server.address().rsplit_once(':').expect("it has a port");
    format!("https://localhost:{port}{path}")
}

/// A client that requests a path.
fn client(server: &Server, certificate: &Certificate, path: &str, options: &[&str]) -> Child {
    let python = std::env::var_os("ROWSTREAM_TEST_PYTHON");
    let python = python.expect("ROWSTREAM_TEST_PYTHON is not set: run `cargo xtask test`");
    let script = repository().join("tests/readers/http3.py");
    let mut command = Command::new(python);
    command.arg(script).arg(certificate.ca()).arg(https(server, path)).args(options);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command.spawn().expect("Python runs")
}

/// The client's output, one line per response.
async fn seen(client: Child) -> Vec<Value> {
    let ended = tokio::task::spawn_blocking(move || client.wait_with_output());
    // A million rows and 3,000 stopped requests are much work for Python, beside other tests.
    let ended = tokio::time::timeout(4 * limit(), ended).await.expect("it ends");
    let output = ended.expect("it is waited for").expect("it ran");
    let text = String::from_utf8(output.stdout).expect("JSON");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

async fn ask(server: &Server, certificate: &Certificate, path: &str, options: &[&str]) -> Value {
    seen(client(server, certificate, path, options)).await.remove(0)
}

/// Waits until no running statement of the database contains these words.
async fn wait_until_gone(db: &TestDb, words: &str) {
    let client = db.client().await;
    let sql = "select count(*) from pg_stat_activity where datname = current_database()
        and pid <> pg_backend_pid() and state = 'active' and query like '%' || $1 || '%'";
    let count = async || client.query_one(sql, &[&words]).await.expect("it is asked").get::<_, i64>(0);
    wait_until("the statement ends", async || count().await == 0).await;
}

#[tokio::test]
async fn a_million_rows_come_whole() {
    let (db, certificate) = (TestDb::new().await, Certificate::new());
    let server = server(&db, &certificate, "").await;
    server.wait_for_stderr("HTTP/3: listening on UDP port ").await;
    let ca = certificate.ca();
    let tcp = ["--cacert", ca.to_str().expect("text"), "--ipv4", "-D", "-", "-o"];
    let file = tempfile::NamedTempFile::new().expect("a file");
    let url = https(&server, "/million.ndjson");
    let got = curl(&[&tcp[..], &[file.path().to_str().expect("text"), &url]].concat()).await;
    let head = String::from_utf8(got.stdout).expect("text").to_lowercase();
    let (_, port) = server.address().rsplit_once(':').expect("it has a port");
    assert!(head.contains(&format!("alt-svc: h3=\":{port}\"; ma=86400")), "{head}");
    let bytes = std::fs::read(file.path()).expect("what curl wrote");
    let digest: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    let answer = ask(&server, &certificate, "/million.ndjson", &[]).await;
    assert_eq!((&answer["status"], &answer["ended"]), (&200.into(), &"whole".into()), "{answer}");
    assert_eq!((&answer["bytes"], &answer["sha256"]), (&bytes.len().into(), &digest.into()));
    assert_eq!(answer["trailers"]["rowstream-rows"], "1000000", "{answer}");
    assert_eq!(answer["trailers"]["rowstream-status"], "complete", "{answer}");
    assert!(answer["headers"]["date"].is_string(), "{answer}");
    let metrics = ask(&server, &certificate, "/_rowstream/metrics", &[]).await;
    assert_eq!(metrics["ended"], "whole");
    let one = ask(&server, &certificate, "/one", &[]).await;
    assert_eq!((&one["tail"], &one["headers"]["content-length"]), (&"[{\"n\":1}]".into(), &"9".into()));
    let missing = ask(&server, &certificate, "/missing", &[]).await;
    assert_eq!((&missing["status"], &missing["ended"]), (&404.into(), &"whole".into()));
}

#[tokio::test]
async fn parameters_may_be_in_a_body() {
    let (db, certificate) = (TestDb::new().await, Certificate::new());
    let server = server(&db, &certificate, "max_body = \"1MiB\"").await;
    let folder = tempfile::tempdir().expect("a folder");
    let body = |name: &str, ids: Vec<u32>| {
        let file = folder.path().join(name);
        std::fs::write(&file, serde_json::json!({ "ids": ids }).to_string()).expect("it's written");
        format!("body={}", file.display())
    };
    let counted = ask(&server, &certificate, "/count", &[&body("ids", (1..=100_000).collect())]).await;
    assert_eq!(
        (&counted["status"], &counted["tail"]),
        (&200.into(), &"[{\"n\":100000}]".into()),
        "{counted}"
    );
    let long = ask(&server, &certificate, "/count", &[&body("long", vec![1_000_000; 200_000])]).await;
    assert_eq!(long["status"], 413, "{long}");
}

#[tokio::test]
async fn what_fails_after_its_head_is_reset() {
    let (db, certificate) = (TestDb::new().await, Certificate::new());
    let server = server(&db, &certificate, "").await;
    for path in ["/fails", "/fails.csv", "/fails.ndjson?_end=1"] {
        let answer = ask(&server, &certificate, path, &[]).await;
        assert_eq!((&answer["status"], &answer["ended"]), (&200.into(), &"reset 0x102".into()), "{answer}");
        assert!(answer["bytes"].as_u64() > Some(100_000), "{answer}");
    }
}

/// A reset discards bytes in flight. If a client was busy for longer than we waited before a reset,
/// it missed the last rows and the error record.
#[tokio::test]
async fn a_reset_waits_for_what_was_sent_before() {
    let (db, certificate) = (TestDb::new().await, Certificate::new());
    let server = server(&db, &certificate, "").await;
    let path = "/fails.ndjson?_end=1";
    let at_once = ask(&server, &certificate, path, &[]).await;
    let bytes = at_once["bytes"].as_u64().expect("a number");
    let pause = format!("pause={}", bytes - 200_000);
    for answer in [at_once, ask(&server, &certificate, path, &[&pause]).await] {
        assert_eq!((&answer["bytes"], &answer["ended"]), (&bytes.into(), &"reset 0x102".into()), "{answer}");
        assert!(answer["tail"].as_str().is_some_and(|tail| tail.contains("\"error\"")), "{answer}");
    }
}

#[tokio::test]
async fn a_stream_that_is_stopped_ends_its_statement() {
    let (db, certificate) = (TestDb::new().await, Certificate::new());
    let server = server(&db, &certificate, NO_HEARTBEAT).await;
    // One stream has rows, and the other one has nothing to send, not even a heartbeat. So no write
    // can fail.
    for (path, words, leaves) in
        [("/long.ndjson", "100000000", "stop=1"), ("/silent.ndjson", "pg_sleep(1000)", "leave=2")]
    {
        let answer = ask(&server, &certificate, path, &[leaves]).await;
        assert_ne!(answer["ended"], "whole", "{answer}");
        wait_until_gone(&db, words).await;
        server.wait_for_stdout(" aborted ").await;
    }
}

#[tokio::test]
async fn who_takes_nothing_is_ended_and_holds_little() {
    let (db, certificate) = (TestDb::new().await, Certificate::new());
    for (settings, path, outcome) in [
        ("write_timeout = \"2s\"", "/long.ndjson", " 200 client_stalled "),
        ("", "/paced.ndjson", " 200 client_shed "),
    ] {
        let server = server(&db, &certificate, settings).await;
        let before = peak_memory_bytes(server.pid());
        let answer = ask(&server, &certificate, path, &["take=65536"]).await;
        assert_eq!(answer["ended"], "reset 0x102", "{answer}");
        assert!(answer["bytes"].as_u64() <= Some(65_536), "{answer}");
        server.wait_for_stdout(outcome).await;
        let more = peak_memory_bytes(server.pid()) - before;
        assert!(more < 16 << 20, "{more} bytes");
        wait_until_gone(&db, "100000000").await;
    }
}

#[tokio::test]
async fn headers_and_connections_have_limits() {
    let (db, certificate) = (TestDb::new().await, Certificate::new());
    let server = server(&db, &certificate, "max_connections_per_client = 5").await;
    let answer = ask(&server, &certificate, "/one", &["header=20000"]).await;
    assert_eq!((&answer["status"], &answer["ended"]), (&431.into(), &"whole".into()), "{answer}");
    server.wait_for_stdout(" - - HTTP/3.0 431 client_error ").await;
    let answer = ask(&server, &certificate, "/one", &["header=200000"]).await;
    assert_eq!((&answer["status"], &answer["ended"]), (&Value::Null, &"reset 0x10d".into()), "{answer}");
    // Idle connections of the same address give way.
    let answer = ask(&server, &certificate, "/one", &["connections=60"]).await;
    assert_eq!((&answer["status"], &answer["ended"]), (&200.into(), &"whole".into()), "{answer}");
    assert!(answer["retried"].as_u64() > Some(0), "{answer}");
    let metrics = ask(&server, &certificate, "/_rowstream/metrics", &[]).await;
    assert_eq!(metrics["status"], 200);
}

/// The address of a first datagram can be forged, so its owner would get our responses. RFC 9000,
/// section 8.1, allows three times the received bytes. We sent 3.19 times as many, because we
/// repeated the handshake.
#[tokio::test]
async fn little_is_sent_to_an_address_that_may_be_forged() {
    let (db, certificate) = (TestDb::new().await, Certificate::new());
    let server = server(&db, &certificate, "").await;
    for bytes in ["silent=1200", "silent=1280", "silent=1452"] {
        let seen = ask(&server, &certificate, "/one", &[bytes]).await;
        let received: Vec<u64> = serde_json::from_value(seen["received"].clone()).expect("numbers");
        let (received, sent) = (received.iter().sum::<u64>(), seen["sent"].as_u64().expect("a number"));
        assert!(received > 0 && received <= 3 * sent, "{seen}");
    }
    assert_eq!(ask(&server, &certificate, "/one", &[]).await["status"], 200);
}

/// A client accepts only one Retry. A second one would leave it without a connection.
#[tokio::test]
async fn a_client_that_returns_from_a_retry_is_known_after_a_reload() {
    const RETRY: u8 = 3;
    let (db, certificate) = (TestDb::new().await, Certificate::new());
    let server = server(&db, &certificate, "").await;
    let mut client = client(&server, &certificate, "/one", &["silent=1200", "returns=1"]);
    let mut output = BufReader::new(client.stdout.take().expect("a pipe"));
    let mut kinds = || {
        let mut line = String::new();
        output.read_line(&mut line).expect("a line");
        let seen: Value = serde_json::from_str(&line).expect("JSON");
        serde_json::from_value::<Vec<u8>>(seen["kinds"].clone()).expect("numbers")
    };
    assert_eq!(kinds(), [RETRY]);
    server.hang_up();
    server.wait_for_stderr("reloaded: ").await;
    client.stdin.as_mut().expect("a pipe").write_all(b"\n").expect("it listens");
    let kinds = kinds();
    assert!(!kinds.is_empty() && !kinds.contains(&RETRY), "{kinds:?}");
    client.wait().expect("it ends");
}

/// Its client sends keep-alives every few seconds, so QUIC's own timeout never ends it.
#[tokio::test]
async fn an_idle_connection_ends() {
    let (db, certificate) = (TestDb::new().await, Certificate::new());
    let server = server(&db, &certificate, "idle_timeout = \"1s\"").await;
    let mut client = client(&server, &certificate, "/one", &["then=/one"]);
    let ca = certificate.ca();
    let (ca, url) = (ca.to_str().expect("text"), https(&server, "/_rowstream/metrics"));
    wait_until("it is counted", async || {
        let metrics = String::from_utf8(curl(&["--cacert", ca, "--ipv4", &url]).await.stdout).expect("text");
        metrics.contains("rowstream_connections_timed_out_total 1")
    })
    .await;
    client.kill().expect("it runs");
    client.wait().expect("it ends");
}

#[tokio::test]
async fn who_stops_what_it_asks_for_is_sent_away() {
    let (db, certificate) = (TestDb::new().await, Certificate::new());
    let server = server(&db, &certificate, NO_HEARTBEAT).await;
    let answer = ask(&server, &certificate, "/silent", &["stops=3000"]).await;
    assert!(answer["ended"].as_str().is_some_and(|how| how.starts_with("closed 0x107")), "{answer}");
    wait_until_gone(&db, "pg_sleep(1000)").await;
    assert_eq!(ask(&server, &certificate, "/one", &[]).await["status"], 200);
}

#[tokio::test]
async fn a_drain_lets_streams_end_and_takes_no_more() {
    let (db, certificate) = (TestDb::new().await, Certificate::new());
    let mut server = server(&db, &certificate, "").await;
    let mut client = client(&server, &certificate, "/pause.ndjson", &["then=/one"]);
    let sql = "select count(*) from pg_stat_activity where datname = current_database()
        and pid <> pg_backend_pid() and query like '%pg_sleep(6)%'";
    let asking = db.client().await;
    let count = async || asking.query_one(sql, &[]).await.expect("it is asked").get::<_, i64>(0);
    wait_until("the statement runs", async || count().await > 0).await;
    server.terminate();
    server.wait_for_stderr("draining").await;
    // The GOAWAY needs some time to arrive.
    tokio::time::sleep(Duration::from_millis(300)).await;
    client.stdin.as_mut().expect("a pipe").write_all(b"\n").expect("it listens");
    let answers = seen(client).await;
    assert_eq!(answers[0]["ended"], "reset 0x10b", "{answers:?}");
    assert_eq!(answers[1]["ended"], "whole", "{answers:?}");
    assert_eq!(answers[1]["tail"], "{\"n\":1}\n{\"n\":2}\n", "{answers:?}");
    server.wait_drained().await;
}

#[tokio::test]
async fn a_new_certificate_is_seen_by_the_next_connection() {
    let (db, certificate, next) = (TestDb::new().await, Certificate::new(), Certificate::new());
    let server = server(&db, &certificate, "").await;
    assert_eq!(ask(&server, &certificate, "/one", &[]).await["status"], 200);
    std::fs::copy(next.certificate(), certificate.certificate()).expect("a copy");
    std::fs::copy(next.key(), certificate.key()).expect("a copy");
    server.hang_up();
    server.wait_for_stderr("reloaded: ").await;
    assert_eq!(ask(&server, &next, "/one", &[]).await["status"], 200);
    assert!(seen(client(&server, &certificate, "/one", &[])).await.is_empty(), "another authority");
}

#[tokio::test]
async fn chromium_takes_the_whole_and_sees_what_is_cut() {
    let (db, certificate) = (TestDb::new().await, Certificate::new());
    let server = server(&db, &certificate, "").await;
    let key = format!(
        "openssl x509 -in {} -pubkey -noout | openssl pkey -pubin -outform der \
         | openssl dgst -sha256 -binary | openssl enc -base64",
        certificate.certificate().display()
    );
    let hash = Command::new("sh").args(["-c", &key]).output().expect("openssl runs").stdout;
    let hash = String::from_utf8(hash).expect("base64");
    let (_, port) = server.address().rsplit_once(':').expect("it has a port");
    let quic = format!("--origin-to-force-quic-on=localhost:{port}");
    let trusted = format!("--ignore-certificate-errors-spki-list={}", hash.trim());
    // If HTTP/3 is required, the browser would only try ::1.
    let resolved = "--host-resolver-rules=MAP localhost 127.0.0.1";
    let browser = Browser::start_with(&[&quic, &trusted, resolved]).await;
    browser.open(&https(&server, "/one")).await;
    let took = browser
        .run(
            "const bytes = await (await fetch('/million.ndjson')).arrayBuffer();
             const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', bytes));
             const hex = Array.from(digest, (byte) => byte.toString(16).padStart(2, '0')).join('');
             const cut = await fetch('/fails.csv').then((got) => got.text()).then(() => 'whole', () => 'cut');
             const { nextHopProtocol } = performance.getEntriesByType('resource')[0];
             return [nextHopProtocol, hex, cut];",
        )
        .await;
    let whole = ask(&server, &certificate, "/million.ndjson", &[]).await;
    assert_eq!(took, serde_json::json!(["h3", whole["sha256"], "cut"]));
}

#[tokio::test]
async fn a_socket_that_is_a_file_has_no_port_for_it() {
    let certificate = Certificate::new();
    let folder = tempfile::tempdir().expect("a folder");
    let config = format!(
        "listen = \"unix:{}/s\"\n[source.db]\nurl = \"sqlite:t.db\"\ncreate = [\"t.sql\"]\n\
         [tls]\ncertificate = \"{}\"\nkey = \"{}\"\nhttp3 = true\n",
        folder.path().display(),
        certificate.certificate().display(),
        certificate.key().display()
    );
    std::fs::create_dir(folder.path().join("endpoints")).expect("a folder");
    std::fs::write(folder.path().join("endpoints/one.sql"), "select 1 as n").expect("a file");
    std::fs::write(folder.path().join("t.sql"), "create table t (n)").expect("a file");
    std::fs::write(folder.path().join("rowstream.toml"), config).expect("a file");
    let ran = rowstream(&["serve", folder.path().to_str().expect("text")]).await;
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert!(ran.status.code() == Some(1) && said.contains("HTTP/3: a Unix socket has no"), "{said}");
}
