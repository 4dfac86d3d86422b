//! Compressed responses: the same bytes as plain ones, equally early, and as clearly truncated.

use std::sync::{Arc, Mutex, PoisonError};

use crate::support::{
    CODINGS, Client, Ended, Reply, Server, Streaming, TestDb, curl, decode, decoder, wait_until,
};
use bytes::Bytes;
use http::Request;
use http_body_util::Empty;
use rowstream::config::Config;
use rowstream::respond::{App, Arrival};

/// A header that makes a client count as one on another machine.
const FORWARDED: (&str, &str) = ("x-forwarded-for", "192.0.2.1");
const CLIENTS: [Client; 2] = [Client::HTTP1, Client::H2C];

/// Some 5 MB.
const LARGE: &str = "select i as n, md5(i::text) as hash, case when i % 7 > 0 then 'paid' end as status,
    timestamptz '2024-02-29T12:00:00Z' + i * interval '1 second' as at from generate_series(1, 50000) i";
/// Some 2 KB.
const SHORT: &str = "select i as n, 'OPEN' as status from generate_series(1, 80) i";
const TINY: &str = "select 1 as n";

/// A server with one PostgreSQL database. Its configuration begins with `settings`.
async fn server(db: &TestDb, settings: &str, source: &str, endpoints: &[(&str, &str)]) -> Server {
    let config = format!("{settings}\n[source.db]\nurl = \"{}\"\n{source}\n", db.url());
    let names: Vec<_> = endpoints.iter().map(|(name, _)| format!("endpoints/{name}.sql")).collect();
    let sql = names.iter().zip(endpoints).map(|(name, (_, sql))| (name.as_str(), *sql));
    Server::start(&[("rowstream.toml", config.as_str())].into_iter().chain(sql).collect::<Vec<_>>()).await
}

fn request(method: &str, url: &str, headers: &[(&str, &str)]) -> Request<String> {
    let mut request = Request::builder().method(method).uri(url);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(String::new()).unwrap()
}

async fn get(client: Client, url: &str, headers: &[(&str, &str)]) -> Reply {
    client.send(request("GET", url, headers)).await
}

async fn open(client: Client, url: &str, coding: &str) -> Streaming {
    client.open(request("GET", url, &[("accept-encoding", coding)])).await.unwrap()
}

/// The names in `Vary`.
fn vary(reply: &Reply) -> Vec<&str> {
    reply.headers.get_all("vary").iter().map(|value| value.to_str().unwrap()).collect()
}

#[tokio::test]
async fn every_coding_gives_the_bytes_of_the_plain_answer() {
    let db = TestDb::new().await;
    let template =
        format!("/*\nbody = {{ before = 1, list = \"$rows\", after = [\"the end\"] }}\n*/\n{LARGE}");
    // Rows larger than all buffers on the way, followed by a short one.
    let wide = "select string_agg(md5(i::text), ',') as text from generate_series(1, 30000) i
        union all select repeat('x', 1000000) union all select 'the end'";
    let endpoints = [("large", LARGE), ("template", &template), ("wide", wide), ("short", SHORT)];
    let server = server(&db, "compression = \"on\"", "", &endpoints).await;
    for path in ["/large", "/large.ndjson", "/large.csv", "/template", "/wide", "/short", "/short.ndjson"] {
        let url = server.url(path);
        let plain = get(Client::HTTP1, &url, &[]).await;
        assert_eq!((&plain.ended, plain.header("content-encoding")), (&Ended::Complete, None));
        for coding in CODINGS {
            for client in CLIENTS {
                let reply = get(client, &url, &[("accept-encoding", coding)]).await;
                assert_eq!((reply.status.as_u16(), &reply.ended), (200, &Ended::Complete), "{path} {coding}");
                assert_eq!(reply.header("content-encoding"), Some(coding), "{path}");
                assert_eq!(reply.header("content-type"), plain.header("content-type"));
                assert_eq!(reply.header("cache-control"), Some("no-transform"));
                let length = path.starts_with("/short").then(|| reply.body.len().to_string());
                assert_eq!(reply.header("content-length"), length.as_deref(), "{path} {coding}");
                assert!(reply.body.len() < plain.body.len() * 2 / 3, "{path} {coding}: {}", reply.body.len());
                assert!(decode(coding, &reply.body) == Ok(plain.body.to_vec()), "{path} {coding}");
            }
            let header = format!("accept-encoding: {coding}");
            let ran = curl(&["--compressed", "--header", &header, &url]).await;
            assert_eq!(ran.code, 0, "{path} {coding}: {}", ran.stderr);
            assert!(ran.stdout == plain.body, "{path} {coding}: {} bytes", ran.stdout.len());
        }
    }
}

/// A client that waits for occasional rows gets each one immediately: the next row is produced only
/// once this one was read.
#[tokio::test]
async fn a_slow_row_arrives_before_the_next_one_is_made() {
    const ROWS: i64 = 5;
    let db = TestDb::new().await;
    let locks = db.client().await;
    let sql = "select i as n, pg_advisory_xact_lock_shared(i)::text as s from generate_series(1, 5) i";
    let server = server(&db, "compression = \"on\"", "fetch_rows = 1", &[("slow", sql)]).await;
    for coding in CODINGS {
        for client in CLIENTS {
            for row in 1..=ROWS {
                locks.execute("select pg_advisory_lock($1)", &[&row]).await.unwrap();
            }
            let unlock = |row: i64| {
                let locks = &locks;
                async move { locks.execute("select pg_advisory_unlock($1)", &[&row]).await.unwrap() }
            };
            unlock(1).await;
            let mut stream = open(client, &server.url("/slow.ndjson"), coding).await;
            let decoded = Shared::default();
            let mut decoder = decoder(coding, decoded.clone());
            let mut body = Vec::new();
            for row in 1..=ROWS {
                while decoded.lines() < row as usize {
                    let chunk = stream.chunk().await.expect("the row comes");
                    body.extend_from_slice(&chunk);
                    decoder.write_all(&chunk).unwrap();
                    decoder.flush().unwrap();
                }
                assert_eq!(decoded.lines(), row as usize, "{coding}: the next row is not made yet");
                if row < ROWS {
                    unlock(row + 1).await;
                }
            }
            let rest = stream.rest().await;
            assert_eq!(rest.ended, Ended::Complete);
            body.extend_from_slice(&rest.body);
            let text = String::from_utf8(decode(coding, &body).unwrap()).unwrap();
            assert!(text.ends_with("{\"n\":5,\"s\":\"\"}\n"), "{coding}: {text}");
        }
    }
}

/// Bytes that one place writes and another reads.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Shared {
    fn lines(&self) -> usize {
        self.0.lock().unwrap().iter().filter(|&&byte| byte == b'\n').count()
    }
}

impl std::io::Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A truncated body has no end mark, so its decoder detects the truncation as well as its framing
/// does.
#[tokio::test]
async fn what_is_cut_has_no_end() {
    let db = TestDb::new().await;
    let late = "select n, 1 / (100000 - n) as q from (select generate_series(1, 110000) as n) s";
    let server = server(&db, "compression = \"on\"", "", &[("late", late)]).await;
    for coding in CODINGS {
        for client in CLIENTS {
            let reply = get(client, &server.url("/late.ndjson"), &[("accept-encoding", coding)]).await;
            assert_eq!((reply.status.as_u16(), reply.header("content-encoding")), (200, Some(coding)));
            assert!(matches!(reply.ended, Ended::Broken(_)), "{coding}: {:?}", reply.ended);
            let decoded = decode(coding, &reply.body).expect_err("it is not whole");
            assert!(
                decoded.starts_with(b"{\"n\":1,\"q\":0}\n{\"n\":2,"),
                "{coding}: {} bytes",
                decoded.len()
            );
        }
        let header = format!("accept-encoding: {coding}");
        for version in ["--http1.1", "--http2-prior-knowledge"] {
            let ran = curl(&[version, "--compressed", "--header", &header, &server.url("/late")]).await;
            assert_ne!(ran.code, 0, "{coding} {version}");
            assert!(!ran.stdout.is_empty() && !ran.stdout.ends_with(b"]"), "{coding} {version}");
        }
    }
    until_logged(&server, " 200 failed ", CODINGS.len() * 4).await;
}

/// Waits until this many lines of the log contain these words.
async fn until_logged(server: &Server, words: &str, lines: usize) {
    wait_until(&format!("{lines} times {words:?}"), async || {
        let log = server.stdout();
        let found = log.lines().filter(|line| line.contains(words)).count() >= lines;
        if found { Ok(()) } else { Err(log) }
    })
    .await;
}

#[tokio::test]
async fn a_client_that_leaves_cancels_the_statement() {
    let db = TestDb::new().await;
    let long = "select generate_series(1, 1000000000) as n, md5(random()::text) as t";
    let endpoints = [("long", long), ("short", SHORT)];
    let server = server(&db, "compression = \"on\"", "pool = { max = 1 }", &endpoints).await;
    for coding in CODINGS {
        for http in CLIENTS {
            let mut stream = open(http, &server.url("/long"), coding).await;
            stream.at_least(200_000).await;
            drop(stream);
            db.until_none_active().await;
            // The pool has one connection.
            assert_eq!(get(http, &server.url("/short"), &[]).await.status, 200);
        }
    }
    until_logged(&server, " 200 aborted ", CODINGS.len() * CLIENTS.len()).await;
}

#[tokio::test]
async fn head_has_the_headers_of_get() {
    let db = TestDb::new().await;
    let settings = "compression = \"on\"\n[cors]\norigins = [\"https://a.example\"]";
    let server = server(&db, settings, "", &[("large", LARGE)]).await;
    for path in ["/large", "/large.csv"] {
        for accept in ["zstd", "br", "gzip", "identity", "gzip;q=0"] {
            for client in CLIENTS {
                let headers = [("accept-encoding", accept), ("origin", "https://a.example")];
                let url = server.url(path);
                let mut head = client.send(request("HEAD", &url, &headers)).await;
                let mut got = client.open(request("GET", &url, &headers)).await.unwrap();
                assert_eq!((head.status, head.text(), &head.ended), (got.status, "", &Ended::Complete));
                for headers in [&mut head.headers, &mut got.headers] {
                    for own in
                        ["date", "transfer-encoding", "rowstream-stream", "rowstream-root", "server-timing"]
                    {
                        headers.remove(own);
                    }
                }
                assert_eq!(head.headers, got.headers, "{path} {accept}");
                assert!(vary(&head).contains(&"accept-encoding") && vary(&head).contains(&"origin"));
            }
        }
    }
}

#[tokio::test]
async fn who_is_asked_for_a_coding() {
    let db = TestDb::new().await;
    let with = |setting: &str| format!("/*\ncompression = \"{setting}\"\n*/\n{SHORT}");
    let (on, off, auto) = (with("on"), with("off"), with("auto"));
    let endpoints = [("on", on.as_str()), ("off", &off), ("auto", &auto), ("silent", SHORT)];
    for (settings, default) in
        [("", "auto"), ("compression = \"on\"", "on"), ("compression = \"off\"", "off")]
    {
        let server = server(&db, settings, "", &endpoints).await;
        for (path, setting) in [("/on", "on"), ("/off", "off"), ("/auto", "auto"), ("/silent", default)] {
            for told in [None, Some(FORWARDED), Some(("forwarded", "for=192.0.2.1")), Some(("via", "1.1 p"))]
            {
                let headers: Vec<_> = [("accept-encoding", "gzip")].into_iter().chain(told).collect();
                let reply = get(Client::HTTP1, &server.url(path), &headers).await;
                let asked = setting == "on" || (setting == "auto" && told.is_some());
                let coding = asked.then_some("gzip");
                assert_eq!(reply.header("content-encoding"), coding, "{settings} {path} {told:?}");
                let expected: &[&str] = if asked { &["accept", "accept-encoding"] } else { &["accept"] };
                assert_eq!(vary(&reply), expected, "{settings} {path} {told:?}");
            }
        }
    }
}

/// No test has a second machine, so this one simulates a client there.
#[tokio::test]
async fn clients_on_other_machines_are_asked() {
    let db = TestDb::new().await;
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("endpoints")).unwrap();
    let path = folder.path().join("rowstream.toml");
    std::fs::write(&path, format!("[source.db]\nurl = \"{}\"\n", db.url())).unwrap();
    std::fs::write(folder.path().join("endpoints/short.sql"), SHORT).unwrap();
    let mut config = Config::load(&path).unwrap_or_else(|errors| panic!("{errors}"));
    config.log.access = false;
    let app = Arc::new(App::new(config).unwrap());
    let request = || Request::get("/short").header("accept-encoding", "br");
    let local =
        Arc::clone(&app).respond(Arrival::default(), request().body(Empty::<Bytes>::new()).unwrap()).await;
    assert_eq!((local.status().as_u16(), local.headers().get("content-encoding")), (200, None));
    let from_afar = Arrival { is_remote: true, ..Arrival::default() };
    let remote = app.respond(from_afar, request().body(Empty::<Bytes>::new()).unwrap()).await;
    assert_eq!(
        (remote.status().as_u16(), &remote.headers()["content-encoding"]),
        (200, &"br".parse().unwrap())
    );
}

#[tokio::test]
async fn the_client_chooses_among_the_codings() {
    let db = TestDb::new().await;
    let fails = "select 1 / (n - 1) as q from generate_series(1, 2) n";
    let endpoints = [("short", SHORT), ("tiny", TINY), ("fails", fails)];
    let server = server(&db, "compression = \"on\"", "", &endpoints).await;
    for (path, accept, expected) in [
        ("/short", "gzip, deflate, br, zstd", Some("zstd")),
        ("/short", "gzip, deflate, br", Some("br")),
        ("/short", "x-gzip", Some("gzip")),
        ("/short", "*;q=0.1, gzip", Some("gzip")),
        ("/short", "zstd;q=0, *", Some("br")),
        ("/short", "deflate", None),
        ("/short", "", None),
        ("/tiny", "zstd", None),
        ("/tiny", "gzip, identity;q=0", Some("gzip")),
        ("/tiny.json", "br, *;q=0", Some("br")),
    ] {
        for client in CLIENTS {
            let url = server.url(path);
            let reply = get(client, &url, &[("accept-encoding", accept)]).await;
            assert_eq!((reply.status.as_u16(), &reply.ended), (200, &Ended::Complete), "{path} {accept}");
            assert_eq!(reply.header("content-encoding"), expected, "{path} {accept}");
            assert_eq!(vary(&reply).last(), Some(&"accept-encoding"), "{path} {accept}");
            let length = reply.body.len().to_string();
            assert_eq!(reply.header("content-length"), Some(length.as_str()));
            let plain = get(client, &url, &[]).await.body;
            let body = expected.map_or(Ok(reply.body.to_vec()), |coding| decode(coding, &reply.body));
            assert_eq!(body, Ok(plain.to_vec()), "{path} {accept}");
        }
    }
    for accept in ["identity;q=0", "deflate, *;q=0"] {
        let reply = get(Client::HTTP1, &server.url("/short"), &[("accept-encoding", accept)]).await;
        assert_eq!((reply.status.as_u16(), reply.json()["code"].as_str()), (406, Some("not_acceptable")));
        assert_eq!(vary(&reply), ["accept", "accept-encoding"]);
    }
    let problem = get(Client::HTTP1, &server.url("/fails"), &[("accept-encoding", "gzip")]).await;
    assert_eq!((problem.status.as_u16(), problem.json()["sqlstate"].as_str()), (500, Some("22012")));
    assert_eq!(problem.header("content-encoding"), None);
}

#[tokio::test]
async fn the_log_counts_the_bytes_that_were_sent() {
    let db = TestDb::new().await;
    let server = server(&db, "compression = \"on\"", "", &[("large", LARGE), ("short", SHORT)]).await;
    for path in ["/large", "/short"] {
        let reply = get(Client::HTTP1, &server.url(path), &[("accept-encoding", "gzip")]).await;
        let rows = if path == "/large" { 50_000 } else { 80 };
        let logged = format!("GET {path} HTTP/1.1 200 complete rows={rows} bytes={} ", reply.body.len());
        server.wait_for_stdout(&logged).await;
    }
}
