//! Streams that fail: aborted in the middle, abandoned by their client, not read, or ended by the
//! server.
//!
//! A truncated stream must never look complete. An abandoned one must free its statements,
//! connections, permits and descriptors.

use std::future::Future;
use std::net::SocketAddr;
use std::path::Path;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use crate::support::{
    Client, Ended, Faults, Hop, Launch, Pieces, Server, Streaming, TcpProxy, TestDb, curl, get,
    open_descriptors, peak_memory_bytes, pg_port, wait_until,
};
use bytes::Bytes;
use http::Request;
use http_body::Body;
use http_body_util::Empty;
use rowstream::config::Config;
use rowstream::respond::{App, Arrival};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;

/// Endless rows, sent as they're produced: a function in the select list isn't materialized first.
const LONG: &str = "select generate_series(1, 1000000000) as n, repeat('x', 100) as t";
/// Fails at row 500,000.
const FAILS_LATE: &str = "select n, 1 / (500000 - n) as q from (select generate_series(1, 600000) as n) s";
/// For SQLite; fails at row 50,000. The error depends on the row. Otherwise SQLite would find it
/// before the first one.
const FAILS_LATE_SQLITE: &str =
    "with recursive c(i) as (select 1 union all select i + 1 from c where i < 100000)
    select i, abs(-9223372036854775807 - i / 50000) as v from c";

/// The SQL with a body template that has text after the rows.
fn in_template(sql: &str) -> String {
    format!("/*\nbody = {{ before = 1, list = \"$rows\", after = [\"the end\"] }}\n*/\n{sql}")
}

fn source(url: &str, settings: &str) -> String {
    format!("[source.db]\nurl = \"{url}\"\n{settings}\n")
}

/// A server of one PostgreSQL database.
async fn server(db: &TestDb, settings: &str, endpoints: &[(&str, &str)]) -> Server {
    let config = source(&db.url(), settings);
    let names: Vec<_> = endpoints.iter().map(|(name, _)| format!("endpoints/{name}.sql")).collect();
    let sql = names.iter().zip(endpoints).map(|(name, (_, sql))| (name.as_str(), *sql));
    Server::start(&[("rowstream.toml", config.as_str())].into_iter().chain(sql).collect::<Vec<_>>()).await
}

/// A SQLite file with a table `t` of one row.
fn sqlite_file(folder: &Path) {
    let connection = rusqlite::Connection::open(folder.join("test.db")).unwrap();
    connection
        .execute_batch("pragma journal_mode = wal; create table t(n integer); insert into t values (1)")
        .unwrap();
}

/// The number of running statements in a test's database, without this query.
async fn active(db: &tokio_postgres::Client) -> i64 {
    let sql = "select count(*) from pg_stat_activity
        where datname = current_database() and state <> 'idle' and pid <> pg_backend_pid()";
    db.query_one(sql, &[]).await.unwrap().get(0)
}

/// Kills the backend of a matching statement once it waits for us to read its rows. By then the
/// head has been sent.
async fn kill_backend(db: &tokio_postgres::Client, like: &str) {
    let sql = "select count(pg_terminate_backend(pid)) from pg_stat_activity
        where datname = current_database() and pid <> pg_backend_pid() and state = 'active' and query like $1
        and wait_event = 'ClientWrite'";
    let killed = async || db.query_one(sql, &[&like]).await.unwrap().get::<_, i64>(0) > 0;
    wait_until(&format!("a backend runs {like}"), killed).await;
}

/// The lines of the access log for a target.
fn log_of(server: &Server, target: &str) -> Vec<String> {
    let target = format!(" GET {target} HTTP/");
    server.stdout().lines().filter(|line| line.contains(&target)).map(str::to_owned).collect()
}

/// Checks how curl and the log report an aborted stream.
async fn assert_breaks(server: &Server, target: &str, version: &str, closing: &str, logged: &str) {
    let before = log_of(server, target).len();
    let ran = curl(&[version, &server.url(target)]).await;
    assert_broken(&ran, version, closing);
    let line = one_more_line(server, target, before).await;
    assert!(line.contains(" 200 failed ") && line.contains(logged), "{line}");
}

fn assert_broken(ran: &crate::support::Curl, version: &str, closing: &str) {
    let expected: &[i32] = if version == "--http1.1" { &[18, 56] } else { &[92] };
    let body = String::from_utf8_lossy(&ran.stdout);
    let end = &body[body.len().saturating_sub(60)..];
    assert!(expected.contains(&ran.code), "{version}: curl said {}: {}: {end}", ran.code, ran.stderr);
    assert!(!body.is_empty(), "nothing came before it broke");
    assert!(!body.ends_with(closing), "{version}: cut, and yet it ends well: {end}");
    assert!(
        serde_json::from_str::<serde::de::IgnoredAny>(&body).is_err(),
        "{version}: it is whole JSON: {end}"
    );
}

async fn one_more_line(server: &Server, target: &str, before: usize) -> String {
    wait_until("the request is logged", async || {
        log_of(server, target).into_iter().nth(before).ok_or_else(|| server.stdout())
    })
    .await
}

const VERSIONS: [&str; 2] = ["--http1.1", "--http2-prior-knowledge"];

#[tokio::test]
async fn a_killed_backend_breaks_the_stream() {
    let db = TestDb::new().await;
    let template = in_template(LONG);
    let server = server(&db, "", &[("long", LONG), ("template", &template)]).await;
    let client = db.client().await;
    for version in VERSIONS {
        for (target, closing) in [("/long", "]"), ("/template", "]}"), ("/long.ndjson", "\u{0}")] {
            // The previous round's backend may still be ending, and must not be killed again
            // instead of the next one.
            db.until_none_active().await;
            let url = server.url(target);
            let arguments = [version, "--limit-rate", "4M", &url];
            let before = log_of(&server, target).len();
            let (ran, ()) = tokio::join!(curl(&arguments), kill_backend(&client, "%generate_series%"));
            assert_broken(&ran, version, closing);
            let line = one_more_line(&server, target, before).await;
            // A backend that can't write also can't report why it ends.
            let told = line.contains("57P01") || line.contains("the connection to the database was lost");
            assert!(line.contains(" 200 failed ") && told, "{line}");
        }
    }
    let whole = get(&server.url("/_rowstream/live")).await;
    assert_eq!(whole.ended, Ended::Complete);
}

#[tokio::test]
async fn an_error_at_a_late_row_breaks_the_stream() {
    let db = TestDb::new().await;
    let template = in_template(FAILS_LATE);
    let server = server(&db, "", &[("late", FAILS_LATE), ("template", &template)]).await;
    for version in VERSIONS {
        assert_breaks(&server, "/late", version, "]", "22012").await;
        assert_breaks(&server, "/template", version, "]}", "22012").await;
        assert_breaks(&server, "/late.ndjson", version, "\u{0}", "22012").await;
    }
    db.until_none_active().await;
}

#[tokio::test]
async fn an_error_at_a_late_row_of_sqlite_breaks_the_stream() {
    let folder = tempfile::tempdir().unwrap();
    sqlite_file(folder.path());
    let config = source(&format!("sqlite:{}/test.db", folder.path().display()), "");
    let template = in_template(FAILS_LATE_SQLITE);
    let server = Server::start(&[
        ("rowstream.toml", &config),
        ("endpoints/late.sql", FAILS_LATE_SQLITE),
        ("endpoints/template.sql", &template),
    ])
    .await;
    for version in VERSIONS {
        assert_breaks(&server, "/late", version, "]", "integer overflow").await;
        assert_breaks(&server, "/template", version, "]}", "integer overflow").await;
        assert_breaks(&server, "/late.ndjson", version, "\u{0}", "integer overflow").await;
    }
}

/// A body begins with bytes that aren't a row (`[`, the template before its first placeholder).
/// They left after a millisecond without a row, so any later failure had status 200.
#[tokio::test]
async fn an_error_before_the_first_row_has_its_status_however_late_it_comes() {
    let db = TestDb::new().await;
    let late = "select 1 / (i - 1) as q from (select 1 as i, pg_sleep(0.1)) s";
    let template = in_template(late);
    let large = format!("/*\nbody = {{ before = \"{}\", list = \"$rows\" }}\n*/\n{late}", "x".repeat(40_000));
    let second = "-- name: empty :many\nselect 1 as n where false;\n-- name: late :many\n";
    let second = format!("/*\nbody = {{ a = \"$empty\", b = \"$late\" }}\n*/\n{second}{late}");
    let two = "/*\nresult = \"one\"\n*/\nselect i, repeat('x', 9000) as t, pg_sleep(0.1)::text as s from generate_series(1, 2) i";
    let none = "/*\nresult = \"one\"\n*/\nselect 1 as n from pg_sleep(0.1) where false";
    let server = server(
        &db,
        "",
        &[
            ("late", late),
            ("template", &template),
            ("large", &large),
            ("second", &second),
            ("two", two),
            ("none", none),
        ],
    )
    .await;
    for (target, status) in [
        ("/late", 500),
        ("/late.ndjson", 500),
        ("/template", 500),
        ("/large", 500),
        ("/second", 500),
        ("/two", 500),
        ("/two.ndjson", 500),
        ("/none", 404),
        ("/none.ndjson", 404),
    ] {
        for http in [Client::HTTP1, Client::H2C] {
            let reply = http.get(&server.url(target)).await;
            let told = (reply.status.as_u16(), reply.header("content-type"), &reply.ended);
            assert_eq!(told, (status, Some("application/problem+json"), &Ended::Complete), "{target}");
        }
    }
}

/// The response that an HTTP/1.0 client sees: the status, the length if there is one, the received
/// body, and how the connection ended.
struct Old {
    status: String,
    length: Option<usize>,
    body: Vec<u8>,
    end: Result<(), std::io::ErrorKind>,
}

/// Reads the response to an HTTP/1.0 request, after `meanwhile` has completed.
async fn http_1_0(address: &str, path: &str, meanwhile: impl Future<Output = ()>) -> Old {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(16 * 1024).unwrap();
    let mut socket = socket.connect(address.parse().unwrap()).await.unwrap();
    socket.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).await.unwrap();
    let mut read = Vec::new();
    while !read.windows(4).any(|end| end == b"\r\n\r\n") {
        assert!(socket.read_buf(&mut read).await.unwrap() > 0, "{}", String::from_utf8_lossy(&read));
    }
    meanwhile.await;
    let end = socket.read_to_end(&mut read).await.map(drop).map_err(|error| error.kind());
    let head = read.windows(4).position(|end| end == b"\r\n\r\n").unwrap();
    let text = String::from_utf8_lossy(&read[..head]).to_ascii_lowercase();
    let length = text.lines().find_map(|line| line.strip_prefix("content-length: "));
    let status = text.lines().next().unwrap().split(' ').nth(1).unwrap().to_owned();
    Old { status, length: length.map(|length| length.parse().unwrap()), body: read[head + 4..].to_vec(), end }
}

/// More than sockets can buffer.
const LARGE: &str = "select generate_series(1, 60000) as n, repeat('x', 100) as t";

/// Without chunks, closing the connection ends an HTTP/1.0 body. So a truncated stream, or one of a
/// killed server, looked complete, and nginx uses HTTP/1.0 for upstreams by default. With a length
/// the client can tell, and a failure has its status.
#[tokio::test]
async fn http_1_0_gets_a_length() {
    let db = TestDb::new().await;
    let late = "select n, 1 / (30000 - n) as q from (select generate_series(1, 40000) as n) s";
    let mut server = server(&db, "", &[("late", late), ("large", LARGE)]).await;
    let address = server.address().to_owned();
    let failed = http_1_0(&address, "/late", async {}).await;
    assert_eq!((failed.status.as_str(), failed.length, failed.end), ("500", Some(failed.body.len()), Ok(())));
    let whole = http_1_0(&address, "/large", async {}).await;
    assert_eq!((whole.status.as_str(), whole.length, whole.end), ("200", Some(whole.body.len()), Ok(())));
    assert_eq!(whole.body, get(&server.url("/large")).await.body);
    let killed = http_1_0(&address, "/large", async { server.kill() }).await;
    assert!(killed.length.is_some_and(|length| length > killed.body.len()), "{:?}", killed.length);
}

/// A response that is too long to wait for its length ends with a reset, whatever happens to the
/// server.
#[tokio::test]
async fn http_1_0_is_told_of_a_failure_by_a_reset() {
    let db = TestDb::new().await;
    let whole = "select generate_series(1, 50000) as n";
    let config = format!("spool_limit = \"100KB\"\n{}", source(&db.url(), ""));
    let endpoint = |name: &str| format!("endpoints/{name}.sql");
    let [late, short, large] = ["late", "whole", "large"].map(endpoint);
    let files = [("rowstream.toml", &config[..]), (&late, FAILS_LATE), (&short, whole), (&large, LARGE)];
    let mut server = Server::start(&files).await;
    let address = server.address().to_owned();
    let failed = http_1_0(&address, "/late", async {}).await;
    assert!(failed.length.is_none() && failed.body.len() > 100_000, "{:?}", failed.length);
    assert_eq!(failed.end, Err(std::io::ErrorKind::ConnectionReset));
    let complete = http_1_0(&address, "/whole", async {}).await;
    assert_eq!(complete.body, get(&server.url("/whole")).await.body);
    assert_eq!((complete.length, complete.end), (None, Ok(())));
    let killed = http_1_0(&address, "/large", async { server.kill() }).await;
    assert_eq!((killed.length, killed.end), (None, Err(std::io::ErrorKind::ConnectionReset)));
}

/// nginx uses HTTP/1.0 by default.
#[tokio::test]
async fn nginx_at_its_default_passes_no_part_on_as_the_whole() {
    let db = TestDb::new().await;
    for limit in ["1GB", "100KB"] {
        let config = format!("spool_limit = \"{limit}\"\n{}", source(&db.url(), ""));
        let files = [
            ("rowstream.toml", &config[..]),
            ("endpoints/late.sql", FAILS_LATE),
            ("endpoints/large.sql", LARGE),
        ];
        let mut server = Server::start(&files).await;
        let nginx = Hop::nginx_by_default(server.address().parse().unwrap()).await;
        let url = |path: &str| format!("http://{}{path}", nginx.http1);
        let whole = get(&url("/large.ndjson")).await;
        assert_eq!((&whole.ended, whole.text().lines().count()), (&Ended::Complete, 60_000), "{limit}");
        let failed = get(&url("/late.ndjson")).await;
        assert!(failed.status != 200 || failed.ended != Ended::Complete, "{limit}: {:?}", failed.status);
        let mut stream = Client::HTTP1.receive_buffer(16 * 1024).stream(&url("/large.ndjson")).await;
        stream.at_least(1).await;
        server.kill();
        let killed = stream.rest().await;
        assert!(killed.ended != Ended::Complete, "{limit}: {} bytes", killed.body.len());
    }
}

/// A simple generator of numbers (Knuth's MMIX constants).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_disconnects_leave_nothing_behind() {
    const MAX: usize = 8;
    const DISCONNECTS: usize = 1000;
    let db = TestDb::new().await;
    let pool = format!("pool = {{ max = {MAX}, waiting = 100, acquire_timeout = \"30s\" }}");
    let server =
        server(&db, &pool, &[("long", LONG), ("short", "select 1 as n, pg_sleep(0.1)::text as s")]).await;
    all_permits_are_free(&server, MAX).await;
    let base_line = open_descriptors(server.pid());

    let (mut random, mut tasks) = (Random(7), JoinSet::new());
    for i in 0..DISCONNECTS {
        if tasks.len() >= 16 {
            tasks.join_next().await.unwrap().unwrap();
        }
        let (client, bytes) = (if i % 2 == 0 { Client::HTTP1 } else { Client::H2C }, random.below(200_000));
        let url = server.url("/long");
        tasks.spawn(async move {
            let mut stream = client.stream(&url).await;
            assert_eq!(stream.status, 200);
            stream.at_least(usize::try_from(bytes).unwrap()).await;
        });
    }
    tasks.join_all().await;

    db.until_none_active().await;
    all_permits_are_free(&server, MAX).await;
    wait_until("all are logged, and their descriptors closed", async || {
        let (open, lines) = (open_descriptors(server.pid()), log_of(&server, "/long").len());
        let seen = format!("{open} descriptors, {base_line} before; {lines} lines");
        if open <= base_line && lines >= DISCONNECTS { Ok(()) } else { Err(seen) }
    })
    .await;
    let lines = log_of(&server, "/long");
    assert_eq!(lines.len(), DISCONNECTS);
    assert!(lines.iter().all(|line| line.contains(" 200 aborted ")), "{lines:#?}");
}

/// Checks that as many concurrent requests as there are permits are all answered.
async fn all_permits_are_free(server: &Server, max: usize) {
    let mut requests: JoinSet<_> = (0..max)
        .map(|_| {
            let url = server.url("/short");
            async move { get(&url).await }
        })
        .collect();
    while let Some(reply) = requests.join_next().await {
        let reply = reply.unwrap();
        assert_eq!((reply.status.as_u16(), &reply.ended), (200, &Ended::Complete), "{}", reply.text());
    }
}

#[tokio::test]
async fn a_client_that_leaves_before_the_first_row_cancels_the_statement() {
    let db = TestDb::new().await;
    let sql = "select pg_sleep(1000)::text as s";
    let server = server(&db, "pool = { max = 1 }", &[("sleep", sql), ("short", "select 1 as n")]).await;
    let url = server.url("/sleep");
    for http in [Client::HTTP1, Client::H2C] {
        let request = http.open(Request::get(&url).body(String::new()).unwrap());
        assert!(
            tokio::time::timeout(Duration::from_millis(300), request).await.is_err(),
            "no head comes yet"
        );
        db.until_none_active().await;
        assert_eq!(get(&server.url("/short")).await.status, 200);
    }
    server.wait_for_stdout("aborted").await;
}

#[tokio::test]
async fn a_client_that_does_not_read_holds_the_database() {
    let db = TestDb::new().await;
    let postgres: SocketAddr = format!("127.0.0.1:{}", pg_port()).parse().unwrap();
    let proxy = TcpProxy::transparent(postgres).await;
    let url = format!("postgres://postgres@{}/{}?sslmode=disable", proxy.address(), db.name());
    let config = source(&url, "");
    const ROWS: usize = 400_000;
    let sql = format!("select generate_series(1, {ROWS}) as n, repeat('x', 200) as t");
    let server = Server::start(&[("rowstream.toml", &config), ("endpoints/t.sql", &sql)]).await;

    for http in [Client::HTTP1, Client::H2C] {
        let before = proxy.bytes_to_client();
        let mut stream = http.receive_buffer(32 * 1024).stream(&server.url("/t.ndjson")).await;
        let mut read = stream.at_least(1000).await.to_vec();
        let held = until_it_stops(|| proxy.bytes_to_client()).await - before;
        // The buffers of three sockets, most of them the kernel's, for a result of 80 MB.
        assert!(held < 12_000_000, "{held} bytes went past a client that does not read");
        let memory = peak_memory_bytes(server.pid());
        assert!(memory < 100_000_000, "{memory} bytes of memory");

        let rest = stream.rest().await;
        read.extend_from_slice(&rest.body);
        assert_eq!(rest.ended, Ended::Complete);
        assert_eq!(read.iter().filter(|&&byte| byte == b'\n').count(), ROWS);
        // The kernel's peak is imprecise by a few pages.
        let grown = peak_memory_bytes(server.pid()).saturating_sub(memory);
        assert!(grown < 10_000_000, "memory grew by {grown} bytes with the rows");
    }
}

/// Waits until a count hasn't changed for half a second.
async fn until_it_stops(count: impl Fn() -> u64) -> u64 {
    let mut last = (count(), Instant::now());
    loop {
        tokio::time::sleep(Duration::from_millis(20)).await;
        if count() != last.0 {
            last = (count(), Instant::now());
        } else if last.1.elapsed() > Duration::from_millis(500) {
            return last.0;
        }
    }
}

/// PostgreSQL sends rows only when its buffer of 8 KB is full, or at the end of a fetch. Small rows
/// arrive as they're produced with `fetch_rows = 1`, and large ones always do.
#[tokio::test]
async fn rows_arrive_as_they_come() {
    let db = TestDb::new().await;
    let small = "select i, pg_sleep(0.2)::text as s from generate_series(1, 5) i";
    let large = "select i, pg_sleep(0.2)::text || repeat('x', 9000) as s from generate_series(1, 5) i";
    for (settings, sql) in [("fetch_rows = 1", small), ("", large)] {
        let server = server(&db, settings, &[("slow", sql)]).await;
        for http in [Client::HTTP1, Client::H2C] {
            let mut stream = http.stream(&server.url("/slow.ndjson")).await;
            let first = stream.at_least(1).await;
            let came = Instant::now();
            assert!(first.iter().filter(|&&byte| byte == b'\n').count() <= 1, "several rows came at once");
            let reply = stream.rest().await;
            assert_eq!(reply.ended, Ended::Complete);
            assert_eq!(
                reply.text().matches("{\"i\":").count() + usize::from(first.starts_with(b"{\"i\":1")),
                5
            );
            assert!(came.elapsed() > Duration::from_millis(500), "the last row came with the first");
        }
    }
}

/// Five rows in a second, each sent when it's produced.
const SLOW: &str = "select i, pg_sleep(0.2)::text || repeat('x', 9000) as s from generate_series(1, 5) i";

async fn begun(server: &Server, target: &str) -> Streaming {
    let mut stream = Client::HTTP1.stream(&server.url(target)).await;
    stream.at_least(1).await;
    stream
}

#[tokio::test]
async fn a_drain_lets_streams_end() {
    let db = TestDb::new().await;
    let mut server = server(&db, "", &[("slow", SLOW)]).await;
    let first = begun(&server, "/slow").await;
    let mut second = Client::H2C.stream(&server.url("/slow")).await;
    second.at_least(1).await;
    server.terminate();
    server.wait_for_stderr("draining").await;
    let refused = TcpStream::connect(server.address()).await.map(drop).map_err(|error| error.kind());
    assert_eq!(refused, Err(std::io::ErrorKind::ConnectionRefused));
    for reply in [first.rest().await, second.rest().await] {
        assert_eq!(reply.ended, Ended::Complete);
        assert!(reply.text().ends_with("}]"));
    }
    server.wait_drained().await;
    let lines = log_of(&server, "/slow");
    assert!(
        lines.len() == 2 && lines.iter().all(|line| line.contains(" 200 complete rows=5 ")),
        "{lines:#?}"
    );
}

/// A slow HTTP/2 client lost the end of its response. The server closed the socket after the last
/// byte. The client's next WINDOW_UPDATE was answered with a reset, which discarded the unread
/// bytes.
#[tokio::test]
async fn a_drain_lets_a_slow_client_have_the_end() {
    const ROWS: usize = 10_000;
    let db = TestDb::new().await;
    let some = format!("select generate_series(1, {ROWS}) as n, repeat('x', 100) as t");
    let mut server = server(&db, "", &[("some", &some)]).await;
    let pieces = Pieces { bytes: 4096, pause: Duration::from_millis(10) };
    let slow = Faults { pieces: Some(pieces), ..Faults::default() };
    let proxy = TcpProxy::to_client(server.address().parse().unwrap(), slow).await;
    let socket = TcpStream::connect(proxy.address()).await.unwrap();
    let (mut sender, connection) = h2::client::handshake(socket).await.unwrap();
    tokio::spawn(async { drop(connection.await) });
    let request = Request::get("http://a/some.ndjson").body(()).unwrap();
    let (response, _) = sender.send_request(request, true).unwrap();
    let mut body = response.await.unwrap().into_body();
    server.terminate();
    let mut rows = 0;
    while let Some(chunk) = body.data().await {
        let chunk = chunk.unwrap_or_else(|error| panic!("{error} after {rows} rows"));
        rows += chunk.iter().filter(|&&byte| byte == b'\n').count();
        body.flow_control().release_capacity(chunk.len()).unwrap();
    }
    assert_eq!((rows, body.is_end_stream()), (ROWS, true));
    drop((sender, body));
    server.wait_drained().await;
    assert!(log_of(&server, "/some.ndjson")[0].contains(" 200 complete "), "{}", server.stdout());
}

#[tokio::test]
async fn the_drain_timeout_breaks_the_rest_off() {
    let db = TestDb::new().await;
    let config = format!("drain_timeout = \"300ms\"\n{}", source(&db.url(), ""));
    let sleep = "select i, case when i > 3 then pg_sleep(1000)::text end || repeat('x', 9000) as s from generate_series(1, 5) i";
    let files =
        [("rowstream.toml", config.as_str()), ("endpoints/long.sql", LONG), ("endpoints/sleep.sql", sleep)];
    for version in VERSIONS {
        let mut server = Server::start(&files).await;
        let (long, sleep) = (server.url("/long"), server.url("/sleep"));
        let end = async {
            let client = db.client().await;
            wait_until("both run", async || active(&client).await >= 2).await;
            tokio::time::sleep(Duration::from_millis(300)).await;
            server.terminate();
            assert!(server.wait_exit().await.success());
            // Without a cancel request, the backend keeps sleeping.
            db.until_none_active().await;
        };
        let (long, sleep) = ([version, "--limit-rate", "2M", &long], [version, &sleep]);
        let (long, sleep, ()) = tokio::join!(curl(&long), curl(&sleep), end);
        // The whole connection ends. In HTTP/2, curl reports 16 and 56 for that, or 52 if no head
        // had arrived.
        assert!([16, 18, 56, 92].contains(&long.code), "{}: {}", long.code, long.stderr);
        assert!([16, 18, 52, 56, 92].contains(&sleep.code), "{}: {}", sleep.code, sleep.stderr);
        assert_eq!(log_of(&server, "/long").len(), 1);
        assert!(log_of(&server, "/long")[0].contains(" 200 shutdown "), "{}", server.stdout());
    }
}

#[tokio::test]
async fn a_second_signal_ends_at_once() {
    let db = TestDb::new().await;
    let mut server = server(&db, "", &[("long", LONG)]).await;
    let stream = begun(&server, "/long").await;
    server.terminate();
    server.wait_for_stderr("draining").await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!server.has_exited(), "the stream still runs");
    server.terminate();
    server.wait_drained().await;
    assert!(matches!(stream.rest().await.ended, Ended::Broken(_)));
}

#[tokio::test]
async fn idle_connections_do_not_hold_the_drain() {
    let db = TestDb::new().await;
    let mut server = server(&db, "", &[("one", "select 1 as n")]).await;
    let silent = TcpStream::connect(server.address()).await.unwrap();
    let mut kept_alive = TcpStream::connect(server.address()).await.unwrap();
    kept_alive.write_all(b"GET /one HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
    let mut reply = vec![0; 1024];
    let read = kept_alive.read(&mut reply).await.unwrap();
    assert!(reply[..read].ends_with(b"[{\"n\":1}]"));
    let mut h2 = Client::H2C.stream(&server.url("/one")).await;
    h2.at_least(100).await;
    server.terminate();
    server.wait_drained().await;
    drop((silent, kept_alive, h2));
}

/// Polls a future or a body. The budget limits the polls of a whole request.
struct Budget(usize);

impl Budget {
    /// Returns `None` once the budget is spent.
    async fn spend<T>(&mut self, mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> Option<T> {
        std::future::poll_fn(|cx| {
            let Some(left) = self.0.checked_sub(1) else { return Poll::Ready(None) };
            self.0 = left;
            let polled = poll(cx).map(Some);
            if polled.is_pending() && left == 0 {
                return Poll::Ready(None);
            }
            polled
        })
        .await
    }
}

/// Sends a request and polls the response this often. Returns its bytes if it was complete by then.
async fn polled(app: &Arc<App>, target: &str, polls: usize) -> Option<usize> {
    let mut budget = Budget(polls);
    let request = Request::get(target).body(Empty::<Bytes>::new()).unwrap();
    let mut answer = Box::pin(Arc::clone(app).respond(Arrival::default(), request));
    let response = budget.spend(|cx| answer.as_mut().poll(cx)).await?;
    assert_eq!(response.status(), 200, "after {polls} polls");
    let mut body = pin!(response.into_body());
    let mut bytes = 0;
    loop {
        match budget.spend(|cx| Pin::as_mut(&mut body).poll_frame(cx)).await? {
            Some(frame) => bytes += frame.unwrap().into_data().unwrap().len(),
            None => return Some(bytes),
        }
    }
}

/// Drops an app at every poll of its responses until one is complete. Then all permits must be
/// free.
async fn drop_at_every_poll(source: &str, endpoints: &[(&str, &str)], targets: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    sqlite_file(folder.path());
    std::fs::write(folder.path().join("rowstream.toml"), source).unwrap();
    std::fs::create_dir(folder.path().join("endpoints")).unwrap();
    for (name, sql) in endpoints {
        std::fs::write(folder.path().join("endpoints").join(format!("{name}.sql")), sql).unwrap();
    }
    let mut config =
        Config::load(&folder.path().join("rowstream.toml")).unwrap_or_else(|errors| panic!("{errors}"));
    config.log.access = false;
    let app = Arc::new(App::new(config).unwrap());
    for target in targets {
        let whole = polled(&app, target, usize::MAX).await.unwrap();
        let mut polls = 0;
        loop {
            let came = polled(&app, target, polls).await;
            assert_eq!(app.admission().in_use(), 0, "{target}, dropped after {polls} polls");
            match came {
                Some(bytes) => break assert_eq!(bytes, whole, "{target}"),
                None => polls += 1,
            }
        }
        assert!(polls >= 3, "{target} was whole after {polls} polls, which tests nothing");
        // The pool has one connection, so a leaked one would be noticed here.
        assert_eq!(polled(&app, target, usize::MAX).await, Some(whole), "{target}");
    }
}

/// Nested lists with the rows of `rows`, which are produced one by one.
fn nested(rows: &str) -> String {
    format!(
        "-- name: a :many\nselect n, t from ({rows}) r where n % 100 = 0 order by n;
         -- name: b :many nested in a on a = n\nselect n - n % 10 as a, n from ({rows}) r where n % 100 < 10 and n >= 100 order by n;
         -- name: c :many nested in b on b = n\nselect n as b from ({rows}) r where n % 100 < 5 and n >= 100 order by n"
    )
}

const TWO: &str = "/*\nbody = { a = \"$a\", b = \"$b\" }\n*/\n-- name: a :many\n";

#[tokio::test]
async fn answers_of_postgresql_dropped_at_every_poll_free_everything() {
    let db = TestDb::new().await;
    let many = "select i as n, repeat('x', 100) as t from generate_series(1, 4000) i";
    let two = format!("{TWO}{many};\n-- name: b :one\nselect 1 as n");
    let nested = nested(many);
    let endpoints = [("many", many), ("two", &two[..]), ("nested", &nested)];
    for settings in ["pool = { max = 1 }", "pool = { max = 1 }\nfetch_rows = 1000"] {
        let source = source(&db.url(), settings);
        drop_at_every_poll(&source, &endpoints, &["/many", "/many.ndjson", "/two", "/nested"]).await;
    }
    db.until_none_active().await;
}

#[tokio::test]
async fn answers_of_sqlite_dropped_at_every_poll_free_everything() {
    let many = "with recursive c(i) as (select 1 union all select i + 1 from c where i < 4000)
        select i as n, printf('%100d', i) as t from c";
    let two = format!("{TWO}{many};\n-- name: b :one\nselect 1 as n");
    let nested = nested(many);
    let endpoints = [("many", many), ("two", &two[..]), ("nested", &nested)];
    let source = source("sqlite:test.db", "pool = { max = 1 }");
    drop_at_every_poll(&source, &endpoints, &["/many", "/many.ndjson", "/two", "/nested"]).await;
}

/// If a request waits in the pool's queue when the server is stopped, the server answers or aborts
/// it, and doesn't hang.
#[tokio::test]
async fn requests_that_wait_are_drained_too() {
    let db = TestDb::new().await;
    let config = format!("drain_timeout = \"20s\"\n{}", source(&db.url(), "pool = { max = 1 }"));
    let files = [("rowstream.toml", config.as_str()), ("endpoints/slow.sql", SLOW)];
    let mut server = Launch::files(&files).start().await;
    let first = begun(&server, "/slow").await;
    let url = server.url("/slow");
    let waiting = tokio::spawn(async move { get(&url).await });
    tokio::time::sleep(Duration::from_millis(200)).await;
    server.terminate();
    assert_eq!(first.rest().await.ended, Ended::Complete);
    assert_eq!(waiting.await.unwrap().ended, Ended::Complete);
    server.wait_drained().await;
}
