//! `/_rowstream/ready`: the state of sources and of a server that is stopping, and the number of
//! queries behind it.

use std::io::{BufRead as _, BufReader, Write as _};
use std::time::{Duration, Instant};

use crate::support::{
    Client, Ended, Launch, Reply, Server, TcpProxy, TestDb, get, pg_port, rowstream, wait_until,
};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// Endless rows.
const LONG: &str = "select generate_series(1, 1000000000) as n, repeat('x', 100) as t";
/// The response of a server that is ready.
const OK: &str = "ok\n";

async fn ready(server: &Server) -> Reply {
    get(&server.url("/_rowstream/ready")).await
}

/// Waits for this response, because the previous one is cached for a moment.
async fn until(server: &Server, said: &str) {
    wait_until(said, async || {
        let reply = ready(server).await;
        match reply.status.as_u16() {
            200 if reply.text() == said => Ok(()),
            503 if reply.json()["detail"] == said => {
                assert_not_ready(&reply, said);
                Ok(())
            }
            _ => Err(format!("{} {}", reply.status, reply.text())),
        }
    })
    .await;
}

#[track_caller]
fn assert_not_ready(reply: &Reply, detail: &str) {
    let problem = reply.json();
    assert_eq!((reply.status.as_u16(), &problem["code"]), (503, &json!("not_ready")), "{problem}");
    assert_eq!(problem["detail"], detail);
    assert_eq!(reply.header("retry-after"), Some("1"));
    assert_eq!(reply.header("content-type"), Some("application/problem+json"));
}

async fn proxy() -> TcpProxy {
    TcpProxy::transparent(([127, 0, 0, 1], pg_port()).into()).await
}

fn url(proxy: &TcpProxy, db: &TestDb) -> String {
    format!("postgres://postgres@{}/{}?sslmode=disable", proxy.address(), db.name())
}

#[tokio::test]
async fn each_source_has_to_be_reached() {
    let (db, proxy) = (TestDb::new().await, proxy().await);
    let config = format!(
        "[source.near]\nurl = \"{}\"\n[source.far]\nurl = \"{}\"\n[source.file]\nurl = \"sqlite:file.db\"\ncreate = [\"file.sql\"]\n",
        db.url(),
        url(&proxy, &db)
    );
    let files = [
        ("rowstream.toml", config.as_str()),
        ("file.sql", "create table t(n)"),
        ("endpoints/near.sql", "/*\nsource = \"near\"\n*/\nselect 1 as n"),
    ];
    let server = Server::start(&files).await;
    until(&server, OK).await;
    assert_eq!(ready(&server).await.header("cache-control"), Some("no-store"));

    proxy.stall();
    until(&server, "source `far` cannot be reached: no answer within 1s").await;
    // The process is alive, and the other sources can be used.
    assert_eq!(get(&server.url("/_rowstream/live")).await.status, 200);
    assert_eq!(get(&server.url("/near")).await.text(), "[{\"n\":1}]");
    proxy.resume();
    until(&server, OK).await;

    let rename = |from: &str, to: &str| {
        std::fs::rename(server.folder().join(from), server.folder().join(to)).expect("it is there");
    };
    rename("file.db", "gone.db");
    until(&server, "the file of source `file` does not exist").await;
    drop(proxy);
    until(&server, "source `far` cannot be reached; the file of source `file` does not exist").await;
    rename("gone.db", "file.db");
    until(&server, "source `far` cannot be reached").await;
}

/// If a database closes its connections, for example in a restart, the check uses a new one.
#[tokio::test]
async fn a_connection_that_was_lost_is_made_anew() {
    let db = TestDb::new().await;
    let config = format!("[source.db]\nurl = \"{}\"\n", db.url());
    let server = Server::start(&[("rowstream.toml", &config), ("endpoints/one.sql", "select 1 as n")]).await;
    until(&server, OK).await;
    let client = db.client().await;
    let kill = "select count(pg_terminate_backend(pid)) from pg_stat_activity
        where datname = current_database() and pid <> pg_backend_pid()";
    for _ in 0..2 {
        assert_eq!(client.query_one(kill, &[]).await.expect("a count").get::<_, i64>(0), 1);
        // Longer than a response is cached.
        tokio::time::sleep(Duration::from_millis(1100)).await;
        assert_eq!(ready(&server).await.status, 200);
    }
}

/// For any number of concurrent requests, a source is queried once, on one connection.
#[tokio::test]
async fn many_that_ask_are_one_question() {
    let (db, proxy) = (TestDb::new().await, proxy().await);
    let config = format!("[source.db]\nurl = \"{}\"\n", url(&proxy, &db));
    let server = Server::start(&[("rowstream.toml", &config), ("endpoints/one.sql", "select 1 as n")]).await;
    let storm = async |wanted: u16| {
        let mut asking = JoinSet::new();
        for client in [Client::HTTP1, Client::H2C].into_iter().cycle().take(200) {
            let url = server.url("/_rowstream/ready");
            asking.spawn(async move { client.get(&url).await });
        }
        for reply in asking.join_all().await {
            assert_eq!((reply.status.as_u16(), &reply.ended), (wanted, &Ended::Complete), "{}", reply.text());
        }
    };
    let at_start = proxy.connections();
    storm(200).await;
    assert_eq!(proxy.connections() - at_start, 1);
    // The same for clients that disconnected before their response.
    proxy.stall();
    until(&server, "source `db` cannot be reached: no answer within 1s").await;
    let before = proxy.connections();
    let begun = Instant::now();
    for _ in 0..100 {
        let mut socket = TcpStream::connect(server.address()).await.expect("it listens");
        socket.write_all(b"GET /_rowstream/ready HTTP/1.1\r\nhost: a\r\n\r\n").await.expect("it is open");
    }
    storm(503).await;
    let seconds = begun.elapsed().as_secs() + 2;
    let asked = proxy.connections() - before;
    assert!(asked <= seconds, "{asked} connections in {seconds} s");
}

/// A busy server mustn't be taken out of service.
#[tokio::test]
async fn neither_a_permit_nor_a_place_is_needed() {
    let db = TestDb::new().await;
    let config = format!(
        "max_streams = 1\nmax_streams_per_client = 1\n[source.db]\nurl = \"{}\"\npool = {{ max = 1, waiting = 0 }}\n",
        db.url()
    );
    let server = Server::start(&[("rowstream.toml", &config), ("endpoints/long.sql", LONG)]).await;
    let mut stream = Client::HTTP1.receive_buffer(64 * 1024).stream(&server.url("/long")).await;
    stream.at_least(1000).await;
    assert_eq!(get(&server.url("/long")).await.status, 429);
    assert_eq!(ready(&server).await.status, 200);
    drop(stream);
}

/// Other methods query no source.
#[tokio::test]
async fn methods() {
    let (db, proxy) = (TestDb::new().await, proxy().await);
    let config = format!("[source.db]\nurl = \"{}\"\n", url(&proxy, &db));
    let server = Server::start(&[("rowstream.toml", &config), ("endpoints/one.sql", "select 1 as n")]).await;
    let at_start = proxy.connections();
    for (method, status) in [("OPTIONS", 204), ("POST", 405)] {
        let request = http::Request::builder().method(method).uri(server.url("/_rowstream/ready"));
        let reply = Client::HTTP1.send(request.body(String::new()).expect("a request")).await;
        assert_eq!((reply.status.as_u16(), proxy.connections() - at_start), (status, 0));
    }
    let head = http::Request::head(server.url("/_rowstream/ready")).body(String::new()).expect("a request");
    let reply = Client::HTTP1.send(head).await;
    assert_eq!((reply.status.as_u16(), reply.body.len(), proxy.connections() - at_start), (200, 0, 1));
}

/// After SIGTERM everything except `ready` continues for `drain_delay`.
#[tokio::test]
async fn a_server_that_ends_says_so_before_it_refuses() {
    let db = TestDb::new().await;
    let config = format!("drain_delay = \"3s\"\n[source.db]\nurl = \"{}\"\n", db.url());
    let files = [
        ("rowstream.toml", config.as_str()),
        ("endpoints/one.sql", "select 1 as n"),
        ("endpoints/few.sql", "select generate_series(1, 1000) as n, repeat('x', 100) as t"),
    ];
    let mut server = Server::start(&files).await;
    until(&server, OK).await;
    let mut kept = TcpStream::connect(server.address()).await.expect("it listens");
    let asked = b"GET /one HTTP/1.1\r\nhost: a\r\n\r\n";
    kept.write_all(asked).await.expect("it is open");
    let mut read = vec![0; 4096];
    let bytes = kept.read(&mut read).await.expect("it is open");
    assert!(!String::from_utf8_lossy(&read[..bytes]).to_lowercase().contains("connection: close"));

    server.terminate();
    server.wait_for_stderr("leaving").await;
    for client in [Client::HTTP1, Client::H2C] {
        assert_not_ready(&client.get(&server.url("/_rowstream/ready")).await, "the server is shutting down");
        assert_eq!(client.get(&server.url("/_rowstream/live")).await.status, 200);
        let reply = client.get(&server.url("/few")).await;
        assert_eq!((reply.status.as_u16(), &reply.ended), (200, &Ended::Complete));
    }
    // A persistent connection gets one more response, with `connection: close`, and is closed.
    kept.write_all(asked).await.expect("it is open");
    let mut answer = String::new();
    kept.read_to_string(&mut answer).await.expect("it is closed well");
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains("connection: close\r\n"), "{answer}");
    assert!(answer.ends_with("[{\"n\":1}]"), "{answer}");
    assert!(!server.stderr().contains("draining"), "it took longer than the delay:\n{}", server.stderr());

    server.wait_for_stderr("draining").await;
    let refused = TcpStream::connect(server.address()).await.map(drop).map_err(|error| error.kind());
    assert_eq!(refused, Err(std::io::ErrorKind::ConnectionRefused));
    server.wait_drained().await;
}

#[tokio::test]
async fn a_second_signal_does_not_wait_for_the_delay() {
    let db = TestDb::new().await;
    let config =
        format!("drain_delay = \"1h\"\ndrain_timeout = \"1h\"\n[source.db]\nurl = \"{}\"\n", db.url());
    let mut server =
        Launch::files(&[("rowstream.toml", &config), ("endpoints/long.sql", LONG)]).start().await;
    let mut stream = Client::HTTP1.receive_buffer(64 * 1024).stream(&server.url("/long")).await;
    stream.at_least(1000).await;
    server.terminate();
    server.wait_for_stderr("leaving").await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!server.has_exited());
    server.terminate();
    server.wait_drained().await;
    assert!(matches!(stream.rest().await.ended, Ended::Broken(_)));
}

/// With a wrong password or a missing database, a server used to start silently. It still starts,
/// because the database may become available later. But it reports the error, isn't ready, and
/// prepares its statements once it can.
#[tokio::test]
async fn a_database_that_comes_later_is_waited_for() {
    let db = TestDb::new().await;
    let later = format!("{}_later", db.name());
    let config = format!("[source.shop]\nurl = \"{}\"\n", db.url().replace(db.name(), &later));
    let files = [
        ("rowstream.toml", config.as_str()),
        ("endpoints/one.sql", "select 1 as n"),
        ("endpoints/two.sql", "/*\nsummary = \"Two\"\n*/\nselect n\nfrom two"),
    ];
    let server = Server::start(&files).await;
    let warning = format!(
        "warning: source `shop` cannot be reached: database \"{later}\" does not exist (SQLSTATE 3D000), at `127.0.0.1:{}` as user `postgres`, database `{later}`",
        pg_port()
    );
    assert!(server.stderr().contains(&warning), "{}", server.stderr());
    // Clients see no more details than this.
    until(&server, "source `shop` cannot be reached").await;

    db.execute(&format!("create database {later}")).await;
    until(&server, "source `shop` refuses a statement of /two").await;
    let refusal = "endpoints/two.sql:5:6: statement `rows`: relation \"two\" does not exist (SQLSTATE 42P01)
    5 | from two
      |      ^";
    server.wait_for_stderr(refusal).await;
    assert_eq!(get(&server.url("/one")).await.text(), "[{\"n\":1}]");
    assert_eq!(get(&server.url("/two")).await.json()["sqlstate"], "42P01");

    // The missing part may be a migration, which needs no restart of the server.
    let (client, connection) =
        tokio_postgres::connect(&db.url().replace(db.name(), &later), tokio_postgres::NoTls)
            .await
            .expect("it is there");
    let driven = tokio::spawn(connection);
    client.batch_execute("create table two(n integer)").await.expect("a table");
    until(&server, OK).await;
    server.wait_for_stderr("source shop: all statements are prepared").await;
    assert_eq!(server.count_stderr("two.sql:5:6"), 1, "{}", server.stderr());
    assert_eq!(get(&server.url("/two")).await.text(), "[]");
    drop(client);
    drop(driven.await);
    drop(server);
    db.execute(&format!("drop database {later} with (force)")).await;
}

/// A migration's lock on a table mustn't prevent the start of a server.
#[tokio::test]
async fn a_statement_that_waits_for_a_lock_is_prepared_later() {
    let db = TestDb::new().await;
    db.execute("create table t(n integer)").await;
    let client = db.client().await;
    client.batch_execute("begin; lock table t in access exclusive mode").await.expect("a lock");
    let config = format!("[source.db]\nurl = \"{}\"\n", db.url());
    let files = [("rowstream.toml", config.as_str()), ("endpoints/t.sql", "select n from t")];
    let server = Server::start(&files).await;
    let warning = "warning: source `db` does not answer: it prepared no statement within 5s";
    assert!(server.stderr().contains(warning), "{}", server.stderr());
    until(&server, "source `db` has not prepared its statements yet").await;
    client.batch_execute("rollback").await.expect("it is unlocked");
    until(&server, OK).await;
    // The checks leave no connections, except that of `ready` and this test's own.
    let sql = "select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()";
    let count = async || client.query_one(sql, &[]).await.expect("a count").get::<_, i64>(0);
    wait_until("one connection is left", async || count().await == 1).await;
}

/// The exit status and the output of `rowstream ready` for a URL.
async fn asked(arguments: &[&str]) -> (Option<i32>, String) {
    let ran = rowstream(&[&["ready"], arguments].concat()).await;
    let said = [ran.stdout, ran.stderr].concat();
    (ran.status.code(), String::from_utf8(said).expect("it is text"))
}

#[tokio::test]
async fn the_command_asks_for_health_checks() {
    let config = "[source.db]\nurl = \"sqlite:t.db\"\ncreate = [\"t.sql\"]";
    let files =
        [("rowstream.toml", config), ("t.sql", "create table t(n)"), ("endpoints/t.sql", "select n from t")];
    let server = Server::start(&files).await;
    let ready = (Some(0), "ready\n".to_owned());
    assert_eq!(asked(&[&server.url("")]).await, ready);
    assert_eq!(asked(&[&server.url("/")]).await, ready);
    assert_eq!(asked(&[&server.url("/_rowstream/live"), "--timeout", "60"]).await, ready);
    let none = (Some(1), "not ready: there is no endpoint `/none`\n".to_owned());
    assert_eq!(asked(&[&server.url("/none")]).await, none);
    std::fs::remove_file(server.folder().join("t.db")).expect("it is there");
    wait_until("it isn't ready", async || {
        let (code, line) = asked(&[&server.url("")]).await;
        let is_said = line.starts_with("not ready: the file of source `db` ") && line.lines().count() == 1;
        if code == Some(1) && is_said { Ok(()) } else { Err(format!("{code:?} {line}")) }
    })
    .await;
}

#[tokio::test]
async fn the_command_believes_nobody() {
    // This peer accepts connections but sends nothing, then nonsense, and then an unfinished
    // response.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let (code, line) = asked(&[&url, "--timeout", "1"]).await;
    assert_eq!(code, Some(1), "{line}");
    assert!(line.starts_with("not ready: 127.0.0.1:") && line.ends_with(": no answer within 1s\n"), "{line}");
    let answering = std::thread::spawn(move || {
        // The first one has been waiting since then.
        for answer in ["", "220 mail\r\n", "HTTP/1.1 503 No\r\n\r\n"] {
            let (mut stream, _) = listener.accept().expect("a connection");
            // Closing with unread bytes would reset the connection.
            let head =
                BufReader::new(&stream).lines().map_while(Result::ok).take_while(|line| !line.is_empty());
            let _ = head.count();
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    for reason in ["no answer in HTTP/1", "status 503"] {
        let (code, line) = asked(&[&url]).await;
        assert!(code == Some(1) && line.starts_with("not ready: ") && line.contains(reason), "{line}");
    }
    answering.join().expect("no panic");
    let (code, line) = asked(&["http://127.0.0.1:1"]).await;
    assert!(code == Some(1) && line.contains("Connection refused"), "{line}");
    for url in ["ftp://127.0.0.1:1", "postgres://h/d", "127.0.0.1"] {
        let (code, said) = asked(&[url]).await;
        assert!(code == Some(1) && said.contains("hint: write http://HOST:PORT"), "{said}");
    }
}
