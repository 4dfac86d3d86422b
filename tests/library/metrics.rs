//! `/_rowstream/metrics` and `Server-Timing`: exact counts, a bounded number of series, and
//! Prometheus's view of them.

use std::collections::BTreeMap;

use crate::support::{
    Client, Ended, Launch, Prometheus, Reply, Server, Streaming, TestDb, get, get_h2c, program, promtool,
    repository, wait_until,
};
use crate::worked;
use http::{Method, Request};
use serde_json::{Value as Json, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// More than one chunk, so that it's streamed.
const FEW: &str = "select generate_series(1, 1000) as n, repeat('x', 100) as t";
/// Endless rows, sent as they're produced.
const LONG: &str = "select generate_series(1, 1000000000) as n, repeat('x', 100) as t";
/// Fails after more than a chunk.
const FAILS: &str = "select n, 1 / (5000 - n) as x, repeat('x', 100) as t from generate_series(1, 9999) n";
const LOOKUP: &str = "/*\nresult = \"one\"\n[params]\nid = \"integer\"\n*/\nselect n from generate_series(1, 9) n where n = :id";

/// The samples of a scrape, by name with labels.
struct Scrape {
    text: String,
    samples: BTreeMap<String, f64>,
}

impl Scrape {
    async fn of(server: &Server) -> Self {
        let reply = get(&server.url("/_rowstream/metrics")).await;
        assert_eq!((reply.status.as_u16(), &reply.ended), (200, &Ended::Complete), "{}", reply.text());
        let text = reply.text().to_owned();
        let sample = |line: &str| {
            let (name, value) = line.rsplit_once(' ').expect("a name and a value");
            (name.to_owned(), value.parse().expect("a number"))
        };
        let samples = text.lines().filter(|line| !line.starts_with('#')).map(sample).collect();
        Self { text, samples }
    }

    fn value(&self, sample: &str) -> f64 {
        *self.samples.get(sample).unwrap_or_else(|| panic!("there is no {sample} in\n{}", self.text))
    }

    /// The sum of all samples with this name whose labels contain `part`.
    fn sum(&self, name: &str, part: &str) -> f64 {
        let of = |sample: &str| sample.split('{').next() == Some(name) && sample.contains(part);
        self.samples.iter().filter(|(sample, _)| of(sample)).map(|(_, value)| value).sum()
    }
}

/// Waits until each of these samples has its value. A larger value fails the test.
async fn until(server: &Server, expected: &[(String, f64)]) -> Scrape {
    wait_until("all samples", async || {
        let scrape = Scrape::of(server).await;
        let value = |sample: &String| scrape.samples.get(sample).copied();
        let missing: Vec<_> =
            expected.iter().filter(|(sample, wanted)| value(sample) != Some(*wanted)).collect();
        if missing.is_empty() {
            Ok(scrape)
        } else {
            Err(format!("{missing:#?}\nare not in\n{}", scrape.text))
        }
    })
    .await
}

/// The name of the count of requests with this outcome.
fn requests(endpoint: &str, format: &str, protocol: &str, outcome: &str) -> String {
    format!(
        "rowstream_requests_total{{endpoint=\"{endpoint}\",format=\"{format}\",protocol=\"{protocol}\",outcome=\"{outcome}\"}}"
    )
}

fn streams(endpoint: &str, format: &str, protocol: &str, outcome: &str) -> String {
    requests(endpoint, format, protocol, outcome).replace("requests_total", "streams_total")
}

fn of(name: &str, endpoint: &str) -> String {
    format!("{name}{{endpoint=\"{endpoint}\"}}")
}

fn of_format(name: &str, endpoint: &str, format: &str) -> String {
    format!("{name}{{endpoint=\"{endpoint}\",format=\"{format}\"}}")
}

/// A server with one PostgreSQL database. `settings` precede its source, and `pool` is its pool.
async fn server(db: &TestDb, settings: &str, pool: &str, endpoints: &[(&str, &str)]) -> Server {
    let config = format!(
        "{settings}\n[source.db]\nurl = \"{}\"\npool = {{ {pool} }}\nmax_row_bytes = \"64KiB\"\n",
        db.url()
    );
    let names: Vec<_> = endpoints.iter().map(|(name, _)| format!("endpoints/{name}.sql")).collect();
    let sql = names.iter().zip(endpoints).map(|(name, (_, sql))| (name.as_str(), *sql));
    Server::start(&[("rowstream.toml", config.as_str())].into_iter().chain(sql).collect::<Vec<_>>()).await
}

/// A stream whose client reads only the beginning.
async fn begun(server: &Server, target: &str) -> Streaming {
    // With one connection only, the server may not have noticed yet that the previous one has
    // ended.
    let mut stream = wait_until("a stream", async || {
        let stream = Client::HTTP1.receive_buffer(64 * 1024).stream(&server.url(target)).await;
        (stream.status != 503).then_some(stream)
    })
    .await;
    assert_eq!(stream.status, 200);
    stream.at_least(1000).await;
    stream
}

async fn send(server: &Server, method: Method, target: &str) -> u16 {
    let request = Request::builder().method(method).uri(server.url(target)).body(String::new());
    Client::HTTP1.send(request.expect("a request")).await.status.as_u16()
}

#[tokio::test]
async fn every_request_is_counted_by_what_became_of_it() {
    let db = TestDb::new().await;
    let endpoints =
        [("few", FEW), ("fails", FAILS), ("long", LONG), ("look/{id}", LOOKUP), ("bad", "select 1 / 0 as n")];
    let server = server(&db, "", "max = 8", &endpoints).await;
    let (mut bytes, mut bytes_of_csv) = (0, 0);
    for _ in 0..3 {
        bytes += get(&server.url("/few")).await.body.len();
    }
    for _ in 0..2 {
        bytes_of_csv += get_h2c(&server.url("/few.csv")).await.body.len();
        assert!(matches!(get(&server.url("/fails.ndjson")).await.ended, Ended::Broken(_)));
        drop(begun(&server, "/long.ndjson").await);
    }
    for (target, status) in
        [("/look/1", 200), ("/look/9", 200), ("/look/10", 404), ("/look/x", 400), ("/bad", 500)]
    {
        assert_eq!(get(&server.url(target)).await.status, status, "{target}");
    }
    for target in ["/none", "/none.csv?a=b", "/_rowstream/none"] {
        assert_eq!(get(&server.url(target)).await.status, 404, "{target}");
    }
    assert_eq!(send(&server, Method::HEAD, "/few").await, 200);
    assert_eq!(send(&server, Method::OPTIONS, "/few").await, 204);
    assert_eq!(send(&server, Method::DELETE, "/few").await, 405);
    let scrape = until(
        &server,
        &[
            // HEAD counts as a request too.
            (requests("/few", "json", "HTTP/1.1", "complete"), 4.0),
            (streams("/few", "json", "HTTP/1.1", "complete"), 3.0),
            (requests("/few", "csv", "HTTP/2", "complete"), 2.0),
            (streams("/few", "csv", "HTTP/2", "complete"), 2.0),
            (requests("/few", "none", "HTTP/1.1", "complete"), 1.0),
            (requests("/few", "none", "HTTP/1.1", "client_error"), 1.0),
            (of_format("rowstream_rows_total", "/few", "json"), 3000.0),
            (of_format("rowstream_rows_total", "/few", "csv"), 2000.0),
            (of_format("rowstream_sent_bytes_total", "/few", "json"), bytes as f64),
            (of_format("rowstream_sent_bytes_total", "/few", "csv"), bytes_of_csv as f64),
            (of("rowstream_first_row_seconds_count", "/few"), 5.0),
            (of("rowstream_request_duration_seconds_count", "/few"), 5.0),
            (requests("/fails", "ndjson", "HTTP/1.1", "failed"), 2.0),
            (streams("/fails", "ndjson", "HTTP/1.1", "failed"), 2.0),
            (requests("/fails", "ndjson", "HTTP/1.1", "complete"), 0.0),
            (of_format("rowstream_rows_total", "/fails", "ndjson"), 2.0 * 4999.0),
            (requests("/long", "ndjson", "HTTP/1.1", "aborted"), 2.0),
            (streams("/long", "ndjson", "HTTP/1.1", "aborted"), 2.0),
            (of("rowstream_streams_running", "/long"), 0.0),
            (requests("/look/{id}", "json", "HTTP/1.1", "complete"), 2.0),
            (requests("/look/{id}", "json", "HTTP/1.1", "client_error"), 1.0),
            // It was refused before its format was known.
            (requests("/look/{id}", "none", "HTTP/1.1", "client_error"), 1.0),
            (of_format("rowstream_rows_total", "/look/{id}", "json"), 2.0),
            (requests("/bad", "json", "HTTP/1.1", "failed"), 1.0),
            (requests("none", "none", "HTTP/1.1", "client_error"), 2.0),
            (requests("/_rowstream/", "none", "HTTP/1.1", "client_error"), 1.0),
            ("rowstream_permits".to_owned(), 0.0),
        ],
    )
    .await;
    assert_eq!(scrape.sum("rowstream_streams_total", "endpoint=\"/look/{id}\""), 0.0);
    assert_eq!(scrape.sum("rowstream_requests_total", "outcome=\"refused\""), 0.0);
    assert!(scrape.sum("rowstream_phase_seconds_total", "endpoint=\"/few\"") > 0.0);
    assert_eq!(promtool(&scrape.text), "");
}

#[tokio::test]
async fn sqlite_is_counted_as_well() {
    let config = "[source.db]\nurl = \"sqlite:data.db\"\npool = { max = 2 }\ncreate = [\"data.sql\"]\n";
    let rows = "create table t as with recursive n(n) as (select 1 union all select n + 1 from n where n < 3000) \
        select n, 'some text that is rather long' as t from n;";
    let files = [
        ("rowstream.toml", config),
        ("data.sql", rows),
        ("endpoints/t.sql", "select n, t from t order by n"),
        (
            "endpoints/t/{id}.sql",
            "/*\nresult = \"one\"\n[params]\nid = \"integer\"\n*/\nselect n from t where n = :id",
        ),
    ];
    let server = Server::start(&files).await;
    for _ in 0..4 {
        assert_eq!(get(&server.url("/t.ndjson")).await.ended, Ended::Complete);
        assert_eq!(get_h2c(&server.url("/t/7")).await.text(), "{\"n\":7}");
    }
    until(
        &server,
        &[
            (streams("/t", "ndjson", "HTTP/1.1", "complete"), 4.0),
            (of_format("rowstream_rows_total", "/t", "ndjson"), 12_000.0),
            (requests("/t/{id}", "json", "HTTP/2", "complete"), 4.0),
            ("rowstream_pool_max{source=\"db\"}".to_owned(), 2.0),
            ("rowstream_pool_used{source=\"db\"}".to_owned(), 0.0),
            ("rowstream_pool_idle{source=\"db\"}".to_owned(), 1.0),
            ("rowstream_pool_opened_total{source=\"db\"}".to_owned(), 1.0),
            ("rowstream_pool_acquire_seconds_count{source=\"db\"}".to_owned(), 8.0),
        ],
    )
    .await;
}

/// A long stream and its client's connection are counted while they exist.
#[tokio::test]
async fn a_stream_is_counted_while_it_runs() {
    let db = TestDb::new().await;
    let drops = "select n, repeat('x', 100) as t, pg_sleep(0.2)::text as s from generate_series(1, 10000) n";
    let config = format!("[source.db]\nurl = \"{}\"\nfetch_rows = 1\n", db.url());
    let server = Server::start(&[("rowstream.toml", &config), ("endpoints/drops.sql", drops)]).await;
    let mut stream = Client::HTTP1.stream(&server.url("/drops.ndjson")).await;
    wait_until("three rows are counted", async || {
        stream.chunk().await.expect("it goes on");
        let scrape = Scrape::of(&server).await;
        assert_eq!(scrape.value(&of("rowstream_streams_running", "/drops")), 1.0);
        assert_eq!(scrape.value("rowstream_permits"), 1.0);
        if scrape.sum("rowstream_rows_total", "\"/drops\"") < 3.0 {
            return Err(scrape.text);
        }
        assert!(scrape.sum("rowstream_phase_seconds_total", "endpoint=\"/drops\",phase=\"database\"") > 0.0);
        Ok(())
    })
    .await;
    drop(stream);
    until(&server, &[(streams("/drops", "ndjson", "HTTP/1.1", "aborted"), 1.0)]).await;
}

#[tokio::test]
async fn what_slow_clients_hold_is_told() {
    let db = TestDb::new().await;
    let server = server(&db, "write_timeout = \"300ms\"", "max = 4", &[("long", LONG)]).await;
    let stream = begun(&server, "/long.ndjson").await;
    let stalled = [(streams("/long", "ndjson", "HTTP/1.1", "client_stalled"), 1.0)];
    let scrape = until(&server, &stalled).await;
    drop(stream);
    // During that time the client read nothing, and nothing else happened.
    let held = scrape.value(&of("rowstream_connection_held_seconds_total", "/long"));
    assert!(held >= 0.3, "{held}");
    assert!(scrape.sum("rowstream_phase_seconds_total", "endpoint=\"/long\",phase=\"client\"") >= held);
}

#[tokio::test]
async fn random_paths_make_no_series() {
    let db = TestDb::new().await;
    let server = server(&db, "", "max = 8", &[("few", FEW), ("look/{id}", LOOKUP)]).await;
    for target in ["/look/1", "/look/0", "/none"] {
        get(&server.url(target)).await;
    }
    let before = until(&server, &[(requests("none", "none", "HTTP/1.1", "client_error"), 1.0)]).await;
    let random = scattered(10_000).map(|number| format!("/{number:x}/{}.csv?x={number}", number % 7));
    ask_all(&server, random, 404).await;
    ask_all(&server, scattered(500).map(|number| format!("/look/{}", 10 + number % 1_000_000)), 404).await;
    let after = until(
        &server,
        &[
            (requests("none", "none", "HTTP/1.1", "client_error"), 10_001.0),
            (requests("/look/{id}", "json", "HTTP/1.1", "client_error"), 501.0),
        ],
    )
    .await;
    // The first scrape doesn't contain itself.
    let is_own = |sample: &String| sample.contains("/_rowstream/");
    let names =
        |scrape: &Scrape| scrape.samples.keys().filter(|name| !is_own(name)).cloned().collect::<Vec<_>>();
    assert_eq!(names(&before), names(&after));
}

/// Numbers that look random but are the same in each run.
fn scattered(count: u64) -> impl Iterator<Item = u64> {
    (1..=count).map(|n| n.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ (n << 7))
}

/// Pipelines requests for all targets on one connection.
async fn ask_all(server: &Server, targets: impl Iterator<Item = String>, status: u16) {
    let mut questions: Vec<String> =
        targets.map(|target| format!("GET {target} HTTP/1.1\r\nHost: x\r\n\r\n")).collect();
    let count = questions.len();
    questions.push("GET /_rowstream/live HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".to_owned());
    let (mut read, mut write) = TcpStream::connect(server.address()).await.expect("it listens").into_split();
    let asking =
        tokio::spawn(async move { write.write_all(questions.concat().as_bytes()).await.map(|()| write) });
    let mut answers = String::new();
    read.read_to_string(&mut answers).await.expect("text");
    asking.await.expect("no panic").expect("it reads");
    assert_eq!(answers.matches(&format!("HTTP/1.1 {status} ")).count(), count);
}

#[tokio::test]
async fn a_pool_tells_how_it_is() {
    let db = TestDb::new().await;
    let pool = "max = 2, waiting = 3, acquire_timeout = \"1s\"";
    let server = server(&db, "", pool, &[("long", LONG), ("few", FEW)]).await;
    let held = [begun(&server, "/long").await, begun(&server, "/long").await];
    let waiting: Vec<_> = (0..3)
        .map(|_| {
            let url = server.url("/few");
            tokio::spawn(async move { get(&url).await.status.as_u16() })
        })
        .collect();
    let of = |name: &str| format!("rowstream_pool_{name}{{source=\"db\"}}");
    let full = [
        (of("max"), 2.0),
        (of("waiting_max"), 3.0),
        (of("used"), 2.0),
        (of("idle"), 0.0),
        (of("waiting"), 3.0),
    ];
    until(&server, &full).await;
    for _ in 0..4 {
        assert_eq!(get(&server.url("/few")).await.status, 503);
    }
    for waits in waiting {
        assert_eq!(waits.await.expect("no panic"), 504);
    }
    let tried = [
        (of("refused_total"), 4.0),
        (of("timeouts_total"), 3.0),
        (of("acquire_seconds_count"), 5.0),
        (of("waiting"), 0.0),
    ];
    let scrape = until(&server, &tried).await;
    assert!(scrape.value(&of("acquire_seconds_sum")) >= 3.0, "each of them waited for a second");
    // Requests without room were refused, both those that waited and those that didn't.
    until(&server, &[(requests("/few", "json", "HTTP/1.1", "refused"), 7.0)]).await;
    drop(held);
    until(&server, &[(of("used"), 0.0), (of("opened_total"), 2.0)]).await;
    assert_eq!(get(&server.url("/few")).await.status, 200);
    until(&server, &[(requests("/few", "json", "HTTP/1.1", "complete"), 1.0), (of("opened_total"), 2.0)])
        .await;
}

#[tokio::test]
async fn permits_and_their_memory_are_told() {
    let db = TestDb::new().await;
    let settings = "max_streams = 2\nmax_streams_per_client = 1\nmemory = \"80MB\"\nmax_connections = 100";
    let server = server(&db, settings, "max = 4", &[("long", LONG)]).await;
    let stream = begun(&server, "/long").await;
    assert_eq!(get(&server.url("/long")).await.status, 429);
    let scrape = until(
        &server,
        &[
            ("rowstream_permits".to_owned(), 1.0),
            ("rowstream_permits_max".to_owned(), 2.0),
            ("rowstream_refused_total{reason=\"too_many_streams_of_client\"}".to_owned(), 1.0),
            ("rowstream_refused_total{reason=\"too_many_streams\"}".to_owned(), 0.0),
            (requests("/long", "json", "HTTP/1.1", "refused"), 1.0),
        ],
    )
    .await;
    let (used, most) =
        (scrape.value("rowstream_stream_memory_bytes"), scrape.value("rowstream_stream_memory_max_bytes"));
    assert!(used > 0.0 && used < most, "{used} of {most}");
    drop(stream);
    until(
        &server,
        &[("rowstream_permits".to_owned(), 0.0), ("rowstream_stream_memory_bytes".to_owned(), 0.0)],
    )
    .await;
}

#[tokio::test]
async fn connections_workers_and_the_process_are_told() {
    let db = TestDb::new().await;
    let server = server(&db, "", "max = 4", &[("long", LONG)]).await;
    let silent = TcpStream::connect(server.address()).await.expect("it listens");
    let stream = begun(&server, "/long").await;
    let scrape = until(
        &server,
        &[
            ("rowstream_connections{protocol=\"none\"}".to_owned(), 1.0),
            // One of them is the scrape's own.
            ("rowstream_connections{protocol=\"HTTP/1.1\"}".to_owned(), 2.0),
            ("rowstream_connections{protocol=\"HTTP/2\"}".to_owned(), 0.0),
        ],
    )
    .await;
    drop((silent, stream));
    assert_eq!(scrape.sum("rowstream_worker_connections", ""), 3.0);
    assert!(scrape.value("rowstream_connections_accepted_total") >= 3.0);
    let workers = std::thread::available_parallelism().expect("there are cores").get();
    let busy =
        (0..workers).map(|n| scrape.value(&format!("rowstream_worker_busy_seconds_total{{worker=\"{n}\"}}")));
    assert!(busy.sum::<f64>() > 0.0);
    assert!(scrape.value("process_resident_memory_bytes") > 1e6);
    assert!(scrape.value("process_open_fds") > 5.0);
    assert!(scrape.value("process_threads") >= workers as f64);
    assert!(scrape.value("process_start_time_seconds") > 1.7e9);
    // Each worker measures twice a second, and the kernel counts hundredths of a second.
    let has_both = |scrape: &Scrape| {
        let looks = scrape.value("rowstream_worker_delay_seconds_count{worker=\"0\"}");
        looks >= 2.0 && scrape.value("process_cpu_seconds_total") > 0.0
    };
    wait_until("a worker looks", async || has_both(&Scrape::of(&server).await)).await;
}

#[tokio::test]
async fn counts_outlive_a_configuration() {
    let db = TestDb::new().await;
    let server = server(&db, "", "max = 4", &[("few", FEW), ("gone", FEW)]).await;
    for target in ["/few", "/gone"] {
        assert_eq!(get(&server.url(target)).await.status, 200);
    }
    let counted = |endpoint: &str, count: f64| (requests(endpoint, "json", "HTTP/1.1", "complete"), count);
    until(&server, &[counted("/few", 1.0), counted("/gone", 1.0)]).await;
    std::fs::remove_file(server.folder().join("endpoints/gone.sql")).expect("it is there");
    let hang_up = ["-c", "kill -s HUP \"$0\"", &server.pid().to_string()];
    assert!(std::process::Command::new("sh").args(hang_up).status().is_ok_and(|status| status.success()));
    server.wait_for_stderr("reloaded: 1 endpoints").await;
    assert_eq!(get(&server.url("/few")).await.status, 200);
    assert_eq!(get(&server.url("/gone")).await.status, 404);
    let opened = ("rowstream_pool_opened_total{source=\"db\"}".to_owned(), 1.0);
    let none = (requests("none", "none", "HTTP/1.1", "client_error"), 1.0);
    until(&server, &[counted("/few", 2.0), counted("/gone", 1.0), opened, none]).await;
}

#[tokio::test]
async fn scrapers_get_what_they_ask_for() {
    let db = TestDb::new().await;
    let server = server(&db, "", "max = 4", &[("few", FEW)]).await;
    let plain = get(&server.url("/_rowstream/metrics")).await;
    assert_eq!(plain.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    assert_eq!(plain.header("cache-control"), Some("no-store"));
    let request = Request::get(server.url("/_rowstream/metrics"))
        .header("accept", "application/openmetrics-text; version=1.0.0");
    let open = Client::HTTP1.send(request.body(String::new()).expect("a request")).await;
    assert_eq!(
        open.header("content-type"),
        Some("application/openmetrics-text; version=1.0.0; charset=utf-8")
    );
    assert!(
        open.text().ends_with("\n# EOF\n") && open.text().contains("# UNIT rowstream_sent_bytes bytes\n")
    );
    assert!(!plain.text().contains("# EOF") && !plain.text().contains("# UNIT"));
}

/// The newest moment of the history by series, once it has `complete` completed requests.
async fn newest_moment(server: &Server, complete: u64) -> (u64, BTreeMap<String, Json>) {
    wait_until("a moment of the history", async || {
        let history = get(&server.url("/_rowstream/history")).await.json();
        let series = history["series"].as_array().expect("series");
        let name =
            |series: &Json| [&series["name"], &series["labels"]].map(|part| part.as_str().unwrap()).join(" ");
        if let Some(moment) = history["moments"].as_array().and_then(|moments| moments.last()) {
            let values = moment["values"].as_array().expect("values").iter().cloned();
            let values: BTreeMap<_, _> = series.iter().map(name).zip(values).collect();
            if values["rowstream_requests_total outcome=\"complete\""].as_f64() >= Some(complete as f64) {
                return Ok((moment["at"].as_u64().expect("a time"), values));
            }
        }
        Err(history)
    })
    .await
}

/// A user who opens the console during a problem sees what happened before. Neither time nor
/// clients increase the size of the history.
#[tokio::test]
async fn the_last_minutes_are_kept() {
    let db = TestDb::new().await;
    let server = server(&db, "", "max = 4", &[("few", FEW)]).await;
    for _ in 0..5 {
        assert_eq!(get(&server.url("/few")).await.status, 200);
    }
    let (at, values) = newest_moment(&server, 5).await;
    let rows = get(&server.url("/few")).await.json().as_array().expect("rows").len();
    for (series, value) in [
        ("rowstream_requests_total outcome=\"complete\"", 5),
        ("rowstream_requests_total outcome=\"other\"", 0),
        ("rowstream_streams_running ", 0),
        ("rowstream_rows_total ", 5 * rows),
        ("rowstream_pool_used source=\"db\"", 0),
        ("rowstream_pool_waiting source=\"db\"", 0),
        ("rowstream_pool_max source=\"db\"", 4),
    ] {
        assert_eq!(values[series], json!(value as f64), "{series}");
    }
    assert!(values["process_resident_memory_bytes "].as_f64() > Some(1e6));
    for number in 0..50 {
        assert_eq!(get(&server.url(&format!("/no-{number}?x={number}"))).await.status, 404);
    }
    let (later, more) = newest_moment(&server, 6).await;
    assert_eq!(more.keys().collect::<Vec<_>>(), values.keys().collect::<Vec<_>>());
    let newer = get(&server.url(&format!("/_rowstream/history?after={at}"))).await.json();
    let newer: Vec<_> = newer["moments"].as_array().unwrap().iter().map(|moment| &moment["at"]).collect();
    assert!(newer[0].as_u64() > Some(at) && newer.contains(&&json!(later)), "{newer:?}");
    for query in ["after=x", "after=-1", "since=1"] {
        assert_eq!(get(&server.url(&format!("/_rowstream/history?{query}"))).await.status, 400, "{query}");
    }
}

/// With `admin_listen`, the public port reveals nothing about the server, except a stream's result
/// for clients that know its id.
#[tokio::test]
async fn the_servers_own_paths_can_have_a_port_of_their_own() {
    let db = TestDb::new().await;
    let settings = "admin_listen = \"127.0.0.1:0\"\nmax_connections = 1";
    let server = server(&db, settings, "max = 4", &[("long", LONG)]).await;
    server.wait_for_stderr("admin endpoints at ").await;
    let admin = |path: &str| {
        let said = server.stderr();
        let (_, rest) = said.split_once("admin endpoints at ").expect("it says where");
        let base = rest.lines().next().expect("a line").trim_end_matches("/_rowstream/");
        format!("{base}{path}")
    };
    for path in [
        "/_rowstream/metrics",
        "/_rowstream/history",
        "/_rowstream/live",
        "/_rowstream/ready",
        "/_rowstream/none",
    ] {
        assert_eq!(get_alone(&server.url(path)).await.status, 404, "{path}");
    }
    // This client has the only connection.
    let mut stream = begun(&server, "/long.ndjson").await;
    for (path, status) in [
        ("/_rowstream/metrics", 200),
        ("/_rowstream/history", 200),
        ("/_rowstream/live", 200),
        ("/_rowstream/ready", 200),
        ("/_rowstream/none", 404),
        ("/long", 404),
        ("/", 404),
    ] {
        assert_eq!(get(&admin(path)).await.status, status, "{path}");
    }
    let id = stream.headers.remove("rowstream-stream").expect("it has an id");
    let told = format!("/_rowstream/streams/{}", id.to_str().expect("text"));
    assert_eq!(get(&admin(&told)).await.json()["state"], "running");
    drop(stream);
    // Until then its connection is busy, and there isn't another one.
    server.wait_for_stdout(" 200 aborted ").await;
    assert_eq!(get_alone(&server.url(&told)).await.status, 200);
}

/// Requests a URL from a server with one connection only. It may not have noticed yet that the
/// previous one has ended.
async fn get_alone(url: &str) -> Reply {
    wait_until(url, async || Some(get(url).await).filter(|reply| reply.status != 503)).await
}

#[tokio::test]
async fn heads_tell_where_the_time_went() {
    let db = TestDb::new().await;
    let slow = "select 1 as n, pg_sleep(0.2)::text as s";
    let endpoints = [("few", FEW), ("look/{id}", LOOKUP), ("slow", slow)];
    let server = server(&db, "[cors]\norigins = [\"https://a.example\"]", "max = 4", &endpoints).await;
    for target in ["/few", "/few?_wait=end", "/look/1", "/look/99", "/slow"] {
        let reply = get(&server.url(target)).await;
        let told = reply.header("server-timing").unwrap_or_else(|| panic!("{target} tells nothing"));
        let times: Vec<(&str, f64)> = told
            .split(", ")
            .map(|time| {
                time.split_once(";dur=")
                    .map(|(name, ms)| (name, ms.parse().expect("a number")))
                    .expect("a time")
            })
            .collect();
        let [("pool", pool), ("database", database), ("first_row", first_row)] = times[..] else {
            panic!("{told}")
        };
        // A response that waits for its end reports all of the database's time.
        assert!(first_row >= pool + database - 0.002 || target.ends_with("_wait=end"), "{told}");
        if target == "/slow" {
            // On a busy machine, some time passes before the server continues to wait.
            assert!(database >= 100.0, "{told}");
        }
    }
    // Without a wait there's no header.
    for target in ["/none", "/look/x", "/_rowstream/live"] {
        assert_eq!(get(&server.url(target)).await.header("server-timing"), None, "{target}");
    }
    for (origin, allowed) in [("https://a.example", Some("https://a.example")), ("https://b.example", None)] {
        let request = Request::get(server.url("/few")).header("origin", origin).body(String::new());
        let reply = Client::HTTP1.send(request.expect("a request")).await;
        assert_eq!(reply.header("timing-allow-origin"), allowed, "{origin}");
    }
}

/// Metrics of special servers: the first needs replicas, the next two need discovery, and the last
/// needs TLS. The modules `replicas`, `registry` and `acme` check them.
pub(crate) const ELSEWHERE: [&str; 4] = [
    "rowstream_host_lag_seconds",
    "rowstream_discovered_instances",
    "rowstream_discovery_failures_total",
    "rowstream_tls_certificate_expiry_timestamp_seconds",
];

/// The documentation's table matches the code, and a server exports every documented metric.
#[tokio::test]
async fn the_table_is_what_there_is() {
    const BEGIN: &str = "<!-- written by tests/library/metrics.rs -->\n";
    let path = repository().join("docs/src/reference/metrics.md");
    let old = std::fs::read_to_string(&path).expect("the page is there");
    let (words, old) = old.split_once(BEGIN).expect("it has a place for the table");
    let table = rowstream::metrics::table();
    if std::env::var_os("ROWSTREAM_WRITE_DOCS").is_some() {
        std::fs::write(path, format!("{words}{BEGIN}{table}")).expect("it can be written");
    } else {
        assert!(table == old, "run it with ROWSTREAM_WRITE_DOCS=1:\n{table}");
    }
    let db = TestDb::new().await;
    let settings = "memory = \"80MB\"\nmax_connections = 100\n[source.up]\nurl = \"http://127.0.0.1:9\"";
    let server = server(&db, settings, "max = 4", &[("few", FEW)]).await;
    get(&server.url("/few")).await;
    let scrape = until(&server, &[(streams("/few", "json", "HTTP/1.1", "complete"), 1.0)]).await;
    let told = scrape.text.lines().filter_map(|line| line.strip_prefix("# HELP ")?.split(' ').next());
    let promised = table.lines().skip(2).filter_map(|line| line.split(['`', '{']).nth(1));
    let promised = promised.filter(|name| !ELSEWHERE.contains(name));
    assert_eq!(told.collect::<Vec<_>>(), promised.collect::<Vec<_>>());
}

/// An operator's view of an example with more load than its pool can serve. The pool is exhausted,
/// more and more requests wait, they wait longer and longer, and the rest is refused.
#[tokio::test]
async fn prometheus_tells_the_story_of_a_pool() {
    // A failed scrape has no sample. So each awaited state was seen in a successful scrape.
    let folder = worked::filled("events", program()).await;
    let server = Launch::folder(folder.path()).argument("--log-format=off").start().await;
    let prometheus = Prometheus::start(&server).await;
    prometheus.wait_for("up == 1").await;
    let (max, waiting_max) = (
        prometheus.wait_for("rowstream_pool_max").await,
        prometheus.wait_for("rowstream_pool_waiting_max").await,
    );
    let held = many(&server, max as usize).await;
    prometheus.wait_for("rowstream_pool_used == rowstream_pool_max").await;
    let half = waiting_max as usize / 2;
    let first = wait_for_a_place(&server, half);
    prometheus.wait_for(&format!("rowstream_pool_waiting == {half}")).await;
    let others = wait_for_a_place(&server, waiting_max as usize - half);
    prometheus.wait_for("rowstream_pool_waiting == rowstream_pool_waiting_max").await;
    assert_eq!(ask(&server).await, 503);
    prometheus.wait_for("rowstream_pool_refused_total == 1").await;
    for waits in first.into_iter().chain(others) {
        assert_eq!(waits.await.expect("no panic"), 504);
    }
    prometheus.wait_for(&format!("rowstream_pool_timeouts_total == {waiting_max}")).await;
    prometheus
        .wait_for("max_over_time(rowstream_pool_waiting[1m]) > min_over_time(rowstream_pool_waiting[1m])")
        .await;
    let acquire = "histogram_quantile(0.5, increase(rowstream_pool_acquire_seconds_bucket[1m]))";
    let median = prometheus.wait_for(&format!("{acquire} > 2.5")).await;
    assert!(median <= 10.0, "{median}: nobody waits for more than five seconds");
    let refused = "sum(rowstream_requests_total{endpoint=\"/events\", outcome=\"refused\"})";
    prometheus.wait_for(&format!("{refused} == {}", waiting_max + 1.0)).await;
    prometheus.wait_for(&format!("sum(rowstream_streams_running) == {max}")).await;
    drop(held);
    prometheus.wait_for("rowstream_pool_used == 0").await;
}

const TOKEN: &str = "Bearer example-reader-token";

fn events(server: &Server) -> Request<String> {
    let request = Request::get(server.url("/events.ndjson")).header("authorization", TOKEN);
    request.body(String::new()).expect("a request")
}

/// This many clients that don't read on.
async fn many(server: &Server, count: usize) -> Vec<Streaming> {
    let mut held = Vec::new();
    for _ in 0..count {
        let stream = Client::HTTP1.receive_buffer(64 * 1024).open(events(server)).await.expect("a head");
        assert_eq!(stream.status, 200);
        held.push(stream);
    }
    held
}

async fn ask(server: &Server) -> u16 {
    Client::HTTP1.open(events(server)).await.expect("a head").status.as_u16()
}

fn wait_for_a_place(server: &Server, count: usize) -> Vec<tokio::task::JoinHandle<u16>> {
    let ask = |_| {
        let request = events(server);
        tokio::spawn(async move { Client::HTTP1.open(request).await.expect("a head").status.as_u16() })
    };
    (0..count).map(ask).collect()
}
