//! The limits of one client's use of a pool: it never takes the connection that lookups need, or
//! another client's turn.

use std::time::{Duration, Instant};

use crate::support::upstream::{Speaks, Upstream};
use crate::support::{
    Client, Cut, Ended, Reply, Server, Streaming, TcpProxy, TestDb, get, pg_port, wait_until,
};
use bytes::Bytes;
use h2::client::SendRequest;
use http::Request;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Endless rows that aren't read.
const LIST: &str = "select generate_series(1, 1000000000000) as n, repeat('x', 100) as t";
/// The same in SQLite.
const SQLITE_LIST: &str = "with recursive t(n) as (select 1 union all select n + 1 from t) select n, printf('%100s', 'x') as t from t";
/// The maximum number of HTTP/2 streams per connection.
const STREAMS: usize = 200;

fn look_up(sql: &str) -> String {
    format!("/*\nresult = \"one\"\n[params]\nid = \"integer\"\n*/\n{sql}")
}

/// A server with one source. Each client is identified by `X-Forwarded-For`.
async fn server(source: &str, pool: &str, endpoints: &[(&str, &str)]) -> Server {
    server_with("", source, pool, endpoints).await
}

/// The same with these tables in its configuration.
async fn server_with(tables: &str, source: &str, pool: &str, endpoints: &[(&str, &str)]) -> Server {
    let config = format!(
        "trusted_proxies = [\"127.0.0.0/8\"]\nmax_streams = 1000\n[source.db]\n{source}\npool = {{ {pool} }}\n{tables}"
    );
    let endpoints = endpoints.iter().map(|(name, sql)| (format!("endpoints/{name}.sql"), *sql));
    let endpoints: Vec<_> = endpoints.collect();
    let mut files = vec![("rowstream.toml", config.as_str()), ("db.sql", "create table t(n)")];
    files.extend(endpoints.iter().map(|(name, sql)| (name.as_str(), *sql)));
    Server::start(&files).await
}

fn postgres(db: &TestDb) -> String {
    format!("url = \"{}\"", db.url())
}

const SQLITE: &str = "url = \"sqlite:file.db\"\ncreate = [\"db.sql\"]";

/// A value of the pool's metrics.
async fn of_pool(server: &Server, name: &str) -> usize {
    let metrics = get(&server.url("/_rowstream/metrics")).await;
    let name = format!("rowstream_pool_{name}{{source=\"db\"}} ");
    let line = metrics.text().lines().find_map(|line| line.strip_prefix(&name));
    line.and_then(|number| number.parse().ok()).expect("it is there")
}

/// Waits until this many requests wait for a connection.
async fn until_waiting(server: &Server, requests: usize) {
    let what = format!("{requests} requests wait");
    wait_until(&what, async || of_pool(server, "waiting").await == requests).await;
}

/// Waits until this many requests have or wait for a connection.
async fn until_inside(server: &Server, requests: usize) {
    let inside = async || of_pool(server, "used").await + of_pool(server, "waiting").await;
    wait_until(&format!("{requests} requests"), async || inside().await == requests).await;
}

/// Opens this many unread lists of one client, each on its own connection. Some of them wait.
async fn open_lists(server: &Server, lists: usize) -> JoinSet<Result<Streaming, String>> {
    let mut opened = JoinSet::new();
    for _ in 0..lists {
        opened.spawn(as_client(1, &server.url("/list.ndjson")));
    }
    opened
}

/// Sends a request as the client with this number, and reads its head.
fn as_client(number: u8, url: &str) -> impl Future<Output = Result<Streaming, String>> + use<> {
    let request = Request::get(url).header("x-forwarded-for", format!("192.0.2.{number}"));
    Client::HTTP1.receive_buffer(64 * 1024).open(request.body(String::new()).expect("a request"))
}

async fn answer(number: u8, url: String) -> Reply {
    as_client(number, &url).await.expect("there is a head").rest().await
}

/// Checks that two new lookups are answered, although all lists stay open.
async fn lookups_are_answered(server: &Server, what: &str) {
    for path in ["/first/7", "/second/7", "/first/8", "/second/8"] {
        let asked = Instant::now();
        let reply = get(&server.url(path)).await;
        println!("{path} beside {what}: {:.1} ms", asked.elapsed().as_secs_f64() * 1e3);
        assert_eq!(reply.status, 200, "{path} beside {what}: {}", reply.text());
    }
}

/// Lists used all connections before lookups had one, for as long as their clients wanted. Lookups
/// waited twice for `acquire_timeout`: for the shared connection, and for one of their own.
#[tokio::test]
async fn lookups_have_a_connection_beside_any_number_of_lists() {
    let db = TestDb::new().await;
    let (first, second) = (look_up("select :id as n"), look_up("select :id + 1 as n"));
    for (source, list) in [(postgres(&db), LIST), (SQLITE.to_owned(), SQLITE_LIST)] {
        for max in [2, 3, 4, 20] {
            let endpoints = [("list", list), ("first/{id}", first.as_str()), ("second/{id}", &second)];
            let server = server(&source, &format!("max = {max}, acquire_timeout = \"5s\""), &endpoints).await;
            let lists = open_lists(&server, 60).await;
            until_inside(&server, 60).await;
            assert!((1..max).contains(&of_pool(&server, "used").await));
            lookups_are_answered(&server, &format!("60 lists on {max} connections")).await;
            drop(lists);
        }
    }
}

#[tokio::test]
async fn lookups_have_a_connection_beside_streams_without_a_window() {
    let db = TestDb::new().await;
    let (first, second) = (look_up("select :id as n"), look_up("select :id + 1 as n"));
    let endpoints = [("list", LIST), ("first/{id}", first.as_str()), ("second/{id}", &second)];
    let server = server(&postgres(&db), "max = 20, waiting = 300", &endpoints).await;
    let socket = TcpStream::connect(server.address()).await.expect("it listens");
    let mut builder = h2::client::Builder::new();
    builder.initial_window_size(0);
    let (mut sender, connection) = builder.handshake::<_, Bytes>(socket).await.expect("it speaks HTTP/2");
    tokio::spawn(async { drop(connection.await) });
    let mut streams = Vec::new();
    for _ in 0..STREAMS {
        sender = sender.ready().await.expect("the connection is open");
        let request = Request::get(server.url("/list.ndjson")).body(()).expect("a request");
        streams.push(sender.send_request(request, true).expect("it can be sent"));
    }
    until_inside(&server, STREAMS).await;
    lookups_are_answered(&server, "200 streams without a window").await;
}

/// After a reload with the first lookup, lists leave it a connection too.
#[tokio::test]
async fn where_nothing_is_looked_up_lists_have_all_connections() {
    let db = TestDb::new().await;
    let server = server(&postgres(&db), "max = 4", &[("list", LIST)]).await;
    let lists = open_lists(&server, 6).await;
    until_waiting(&server, 2).await;
    assert_eq!(of_pool(&server, "used").await, 4);
    drop(lists);
    std::fs::write(server.folder().join("endpoints/one.sql"), "/*\nresult = \"one\"\n*/\nselect 1 as n")
        .expect("a file");
    server.hang_up();
    server.wait_for_stderr("reloaded").await;
    // The old lists hold their connections until their statements are cancelled.
    until_inside(&server, 0).await;
    let lists = open_lists(&server, 6).await;
    until_waiting(&server, 4).await;
    assert_eq!((of_pool(&server, "used").await, get(&server.url("/one")).await.status.as_u16()), (2, 200));
    drop(lists);
}

/// All clients shared one queue. If one put sixty lists into it, all others waited for them.
#[tokio::test]
async fn clients_take_turns() {
    const LISTS: usize = 30;
    let db = TestDb::new().await;
    let list = "select pg_sleep(0.2)::text as slept";
    let pool = "max = 1, acquire_timeout = \"60s\"";
    let server = server(&postgres(&db), pool, &[("list", list)]).await;
    let url = server.url("/list");
    let mut lists = JoinSet::new();
    (0..LISTS).for_each(|_| drop(lists.spawn(answer(1, url.clone()))));
    until_waiting(&server, LISTS - 1).await;
    let asked = Instant::now();
    assert_eq!(answer(2, url).await.status, 200);
    println!("a list of another client, of 0.2 s: {:.1} s", asked.elapsed().as_secs_f64());
    let mut ended = 0;
    while lists.try_join_next().is_some() {
        ended += 1;
    }
    assert!(ended < LISTS / 2, "{ended} of {LISTS} lists of another client had ended before");
    assert!(lists.join_all().await.iter().all(|reply| reply.status == 200), "nobody is forgotten");
}

/// A client with a token is the same one at any address.
#[tokio::test]
async fn a_token_is_one_client() {
    const LISTS: u8 = 20;
    let db = TestDb::new().await;
    let list = "/*\nauthorization = [\"a\", \"b\"]\n*/\nselect pg_sleep(0.2)::text as slept";
    let hash = |token: &str| {
        use sha2::Digest as _;
        sha2::Sha256::digest(token).iter().map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    let tokens = ["a", "b"].map(|token| format!("\n[token.{token}]\nsha256 = \"{}\"", hash(token)));
    let tokens = tokens.concat() + "\n[admin]\npublic = [\"metrics\"]";
    let pool = "max = 1, acquire_timeout = \"60s\"";
    let server = server_with(&tokens, &postgres(&db), pool, &[("list", list)]).await;
    let ask = |token: &str, number: u8| {
        let request = Request::get(server.url("/list"))
            .header("x-forwarded-for", format!("192.0.2.{number}"))
            .header("authorization", format!("Bearer {token}"));
        Client::HTTP1.send(request.body(String::new()).expect("a request"))
    };
    let mut lists = JoinSet::new();
    (0..LISTS).for_each(|number| drop(lists.spawn(ask("a", number))));
    until_waiting(&server, usize::from(LISTS) - 1).await;
    assert_eq!(ask("b", 1).await.status, 200);
    let mut ended = 0;
    while lists.try_join_next().is_some() {
        ended += 1;
    }
    assert!(ended < LISTS / 2, "{ended} of {LISTS} lists of another token had ended before");
}

/// One client could fill the queue, so all others were refused.
#[tokio::test]
async fn a_full_queue_has_room_for_one_more_client() {
    let db = TestDb::new().await;
    let list = "select pg_sleep(2)::text as slept";
    let pool = "max = 1, waiting = 4, acquire_timeout = \"60s\"";
    let server = server(&postgres(&db), pool, &[("list", list)]).await;
    let url = server.url("/list");
    let mut lists = JoinSet::new();
    (0..5).for_each(|_| drop(lists.spawn(answer(1, url.clone()))));
    until_waiting(&server, 4).await;
    let refused = answer(1, url.clone()).await;
    assert_eq!((refused.status.as_u16(), &refused.json()["code"]), (503, &"pool_full".into()));
    assert_eq!(answer(2, url).await.status, 200);
    let replies = lists.join_all().await;
    let (answered, refused): (Vec<_>, Vec<_>) = replies.iter().partition(|reply| reply.status == 200);
    let [refused] = &refused[..] else { panic!("{} were refused for one more", refused.len()) };
    assert_eq!(
        (refused.json()["code"].as_str(), refused.header("retry-after")),
        (Some("pool_full"), Some("1"))
    );
    assert_eq!((answered.len(), of_pool(&server, "waiting").await), (4, 0));
}

/// A lookup waited in vain for the shared connection to open, and then for one of its own.
#[tokio::test]
async fn a_look_up_waits_once_for_a_database_that_does_not_answer() {
    let db = TestDb::new().await;
    let proxy = TcpProxy::transparent(([127, 0, 0, 1], pg_port()).into()).await;
    let source = format!(
        "url = \"postgres://postgres@{}/{}?sslmode=disable&connect_timeout=2\"",
        proxy.address(),
        db.name()
    );
    let first = look_up("select :id as n");
    let server = server(&source, "max = 4", &[("first/{id}", &first)]).await;
    assert_eq!(get(&server.url("/first/1")).await.status, 200);
    // Open connections are lost, and new ones never get a response.
    proxy.cut_now(Cut::Reset);
    proxy.stall();
    tokio::time::sleep(Duration::from_millis(200)).await;
    let before = proxy.connections();
    let reply = get(&server.url("/first/2")).await;
    assert_eq!((reply.status.as_u16(), &reply.json()["code"]), (503, &"source_unavailable".into()));
    assert_eq!(proxy.connections() - before, 1, "it has waited for more than one connection");
}

/// The waits of requests that ended in the queue, in milliseconds from the log: one that timed out,
/// and one whose client disconnected.
async fn logged_waits(server: &Server, target: &str) -> [f64; 2] {
    let line = |outcome: &str| {
        let words = format!(" GET {target} HTTP/1.1 {outcome} ");
        let log = server.stdout();
        let line = log.lines().find(|line| line.contains(&words) && !line.contains(" 200 "))?.to_owned();
        let (_, pool) = line.split_once(" pool=")?;
        pool.split(' ').next()?.parse().ok()
    };
    wait_until("both are logged", async || Some([line("504 refused")?, line("- aborted")?])).await
}

/// A request that got no connection in time was logged with `pool=0.0`, as if it hadn't waited.
#[tokio::test]
async fn waits_in_vain_are_logged() {
    // Longer than the server needs to notice that an HTTP/1 client disconnected, and shorter than a
    // client that reads nothing may hold its connection.
    const TIMEOUT: Duration = Duration::from_secs(2);
    let db = TestDb::new().await;
    let upstream = Upstream::start(Speaks::Http1, |_, _| std::future::pending()).await;
    let up = format!("url = \"http://{}\"", upstream.address());
    let pass = "[upstream]\nrequest = 'GET /'\n";
    let calls = "[upstream]\nrequest = 'GET /?n={n}'\nrepeat = 2\nconcurrency = 1\n";
    let pages = "[upstream]\nrequest = 'GET /'\nrows = '/items'\ncolumns = { id = 'integer' }\n";
    let ups = [pass, calls, pages].map(|text| (up.clone(), "list.toml", text));
    let cases = [(postgres(&db), "list.sql", LIST)].into_iter().chain(ups);
    for (source, file, text) in cases {
        let config = format!("[source.db]\n{source}\npool = {{ max = 1, acquire_timeout = \"2s\" }}\n");
        let files = [("rowstream.toml", config.as_str()), (&format!("endpoints/{file}"), text)];
        let server = Server::start(&files).await;
        let url = server.url("/list");
        let held = tokio::spawn(as_client(1, &url));
        until_inside(&server, 1).await;
        let late = answer(1, url.clone()).await;
        assert_eq!((late.status.as_u16(), &late.json()["code"]), (504, &"pool_timeout".into()));
        let left = tokio::time::timeout(TIMEOUT / 10, as_client(1, &url)).await;
        assert!(left.is_err(), "it waits");
        let [refused, aborted] = logged_waits(&server, "/list").await;
        let least = TIMEOUT.as_secs_f64() * 1e3;
        assert!(refused >= least && aborted > 0.0 && aborted < least, "{refused} {aborted}");
        let phase = "rowstream_phase_seconds_total{endpoint=\"/list\",phase=\"pool\"} ";
        let metrics = get(&server.url("/_rowstream/metrics")).await;
        let waited = metrics.text().lines().find_map(|line| line.strip_prefix(phase)).expect("it is there");
        assert!(waited.parse::<f64>().expect("a number") >= TIMEOUT.as_secs_f64(), "{waited}");
        held.abort();
    }
}

/// More rows than all buffers on the way can hold.
const ROWS: usize = 200_000;

/// Unread lists of one client on all connections that lists can use: one over HTTP/1, and one over
/// HTTP/2 without a window.
async fn stalled(server: &Server) -> (Streaming, h2::client::ResponseFuture, SendRequest<Bytes>) {
    let first = as_client(1, &server.url("/list.ndjson")).await.expect("there is a head");
    let (mut sender, connection) = without_window(server).await;
    tokio::spawn(async { drop(connection.await) });
    let request = Request::get(server.url("/list.ndjson")).header("x-forwarded-for", "192.0.2.1");
    let second = sender.send_request(request.body(()).expect("a request"), true).expect("it can be sent").0;
    until_inside(server, 2).await;
    (first, second, sender)
}

/// An HTTP/2 connection whose streams can't send until their windows are opened.
async fn without_window(server: &Server) -> (SendRequest<Bytes>, h2::client::Connection<TcpStream>) {
    let socket = TcpStream::connect(server.address()).await.expect("it listens");
    let mut builder = h2::client::Builder::new();
    let (sender, connection) =
        builder.initial_window_size(0).handshake(socket).await.expect("it speaks HTTP/2");
    (sender.ready().await.expect("the connection is open"), connection)
}

/// Checks that the rows have all numbers from 1 on.
fn assert_whole(rows: &str) {
    let numbers = rows.lines().map(|line| line[5..].split(',').next().and_then(|n| n.parse().ok()));
    assert!(numbers.eq((1..=ROWS).map(Some)), "{} rows", rows.lines().count());
}

fn finite(source: &str) -> String {
    match source {
        SQLITE => format!("{SQLITE_LIST} limit {ROWS}"),
        _ => format!("{LIST} limit {ROWS}"),
    }
}

/// Lists of clients that had stopped reading held their connections for `write_timeout`, even if
/// other clients waited.
#[tokio::test]
async fn who_takes_nothing_leaves_its_connection_to_those_who_wait() {
    let db = TestDb::new().await;
    for source in [postgres(&db), SQLITE.to_owned()] {
        let list = finite(&source);
        let endpoints = [("list", list.as_str()), ("other", "select 1 as n")];
        let server = server(&source, "max = 2, acquire_timeout = \"50s\"", &endpoints).await;
        let (first, second, _sender) = stalled(&server).await;
        let reply = answer(2, server.url("/other")).await;
        assert_eq!((reply.status.as_u16(), reply.text()), (200, r#"[{"n":1}]"#), "{source}");
        // The unread rows are complete, each once.
        let first = first.rest().await;
        assert_eq!(first.ended, Ended::Complete);
        assert_whole(first.text());
        drop(second);
    }
}

/// Without space for a client's unread rows, its stream ends, but only while another client waits.
#[tokio::test]
async fn who_takes_nothing_and_cannot_be_spilled_is_ended_for_those_who_wait() {
    let db = TestDb::new().await;
    let list = finite("");
    let endpoints = [("list", list.as_str()), ("other", "select 1 as n")];
    let source = postgres(&db);
    let config = format!(
        "spool_limit = \"1MiB\"\ntrusted_proxies = [\"127.0.0.0/8\"]\n[source.db]\n{source}\npool = {{ max = 2, acquire_timeout = \"50s\" }}\n"
    );
    let files = [
        ("rowstream.toml", config.as_str()),
        ("endpoints/list.sql", endpoints[0].1),
        ("endpoints/other.sql", endpoints[1].1),
    ];
    let server = Server::start(&files).await;
    let (first, second, _sender) = stalled(&server).await;
    // While no client waits, a longer pause loses nothing.
    tokio::time::sleep(Duration::from_secs(8)).await;
    assert_eq!(of_pool(&server, "used").await, 2);
    let reply = answer(2, server.url("/other")).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    server.wait_for_stdout(" client_stalled ").await;
    // The waiting client needed only one connection, so one of the two streams is complete.
    let ends = server.stdout().matches(" client_stalled ").count();
    assert_eq!(ends, 1);
    let first = first.rest().await;
    match first.ended {
        Ended::Complete => assert_whole(first.text()),
        _ => assert!(first.text().lines().count() < ROWS),
    }
    drop(second);
}

/// Reads a list at this many bytes per second, and to its end after `go_on`. Returns the rows and
/// how it ended.
async fn read_slowly(url: String, rate: f64, mut go_on: watch::Receiver<bool>) -> (String, Ended) {
    let mut stream = as_client(1, &url).await.expect("there is a head");
    let (mut read, begun) = (Vec::new(), Instant::now());
    let ended = loop {
        match stream.chunk().await {
            Ok(chunk) => read.extend_from_slice(&chunk),
            Err(ended) => break ended,
        }
        let pause = Duration::from_secs_f64(read.len() as f64 / rate).saturating_sub(begun.elapsed());
        drop(tokio::time::timeout(pause, go_on.wait_for(|go_on| *go_on)).await);
    };
    (String::from_utf8(read).expect("text"), ended)
}

/// One client's lists have all four connections, and another client requests a list. Returns how
/// the four end. The first one is read most slowly.
async fn slow_readers(limits: &str) -> (Server, Vec<(String, Ended)>) {
    let db = TestDb::new().await;
    let config = format!(
        "{limits}\ntrusted_proxies = [\"127.0.0.0/8\"]\n[source.db]\n{}\npool = {{ max = 4, acquire_timeout = \"50s\" }}\n",
        postgres(&db)
    );
    let files = [
        ("rowstream.toml", config.as_str()),
        ("endpoints/list.sql", &finite("")),
        ("endpoints/other.sql", "select 1 as n"),
    ];
    let server = Server::start(&files).await;
    let (go, go_on) = watch::channel(false);
    let reader = |rate| read_slowly(server.url("/list.ndjson"), rate, go_on.clone());
    let readers = futures_util::future::join_all([50e3, 150e3, 150e3, 150e3].map(reader));
    let other = async {
        until_inside(&server, 4).await;
        // By now, each of them has been slow for some time.
        tokio::time::sleep(Duration::from_secs(5)).await;
        let reply = answer(2, server.url("/other")).await;
        go.send(true).expect("they read");
        reply
    };
    let (lists, other) = tokio::join!(readers, other);
    assert_eq!((other.status.as_u16(), other.text()), (200, r#"[{"n":1}]"#));
    (server, lists)
}

/// Readers of 65 KB per second read each chunk in time, so they held all connections, regardless of
/// how long other clients waited.
#[tokio::test]
async fn a_slow_reader_of_the_client_with_the_most_leaves_its_connection_to_others() {
    let (server, lists) = slow_readers("").await;
    for (rows, ended) in &lists {
        assert_eq!(*ended, Ended::Complete);
        assert_whole(rows);
    }
    let is_spilled = |line: &&str| line.contains(" complete ") && line.contains(" spilled=");
    wait_until("one was spilled", async || server.stdout().lines().filter(is_spilled).count() == 1).await;
}

#[tokio::test]
async fn a_slow_reader_of_the_client_with_the_most_is_ended_if_it_cannot_be_spilled() {
    let (server, lists) = slow_readers("spool_limit = \"64KiB\"").await;
    let (whole, ended): (Vec<_>, Vec<_>) = lists.iter().partition(|(_, ended)| *ended == Ended::Complete);
    whole.iter().for_each(|(rows, _)| assert_whole(rows));
    assert_eq!((whole.len(), ended.len()), (3, 1));
    // On a machine that pauses for seconds, the reader may seem to have stopped.
    let is_told = |line: &&str| line.contains(" client_shed ") || line.contains(" client_stalled ");
    wait_until("one is in the log", async || server.stdout().lines().filter(is_told).count() == 1).await;
}
