//! HTTP upstreams: responses that are passed through, and calls whose replies become rows, with
//! real servers.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::support::upstream::{Asked, Certificate, Payload, Seen, Speaks, Upstream, reply, stream};
use crate::support::{Client, Ended, Hop, Launch, Reply, Server, get, get_h2c, rowstream, wait_until};
use bytes::Bytes;
use futures_util::stream as pieces;
use http::{Request, Response, StatusCode, Version};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// A server with one source, `up`, and these endpoints. `settings` are the source's.
async fn server(url: &str, settings: &str, endpoints: &[(&str, &str)]) -> Server {
    launch("", url, settings, endpoints).start().await
}

fn launch(head: &str, url: &str, settings: &str, endpoints: &[(&str, &str)]) -> Launch {
    let config = format!("{head}\n[source.up]\nurl = \"{url}\"\n{settings}\n");
    let names: Vec<_> = endpoints.iter().map(|(name, _)| format!("endpoints/{name}.toml")).collect();
    let files = names.iter().zip(endpoints).map(|(name, (_, text))| (name.as_str(), *text));
    Launch::files(&[("rowstream.toml", config.as_str())].into_iter().chain(files).collect::<Vec<_>>())
}

/// Passes `/pass/PATH?…` to `/PATH`.
const PASS: &str = r#"
[params]
path = "text"
[upstream]
request = "GET /{path}"
"#;

/// Calls `/PATH?id=n` `count` times.
fn calls(more: &str) -> String {
    format!(
        "[params]\npath = 'text'\ncount = {{ type = 'integer', default = 10 }}\n\
         [upstream]\nrequest = 'GET /{{path}}?id={{n}}'\nrepeat = 'count'\n{more}"
    )
}

/// The received request as JSON.
fn echo(asked: &Asked) -> Response<Payload> {
    let fields =
        asked.headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap_or("?")));
    let mut fields: Vec<_> = fields.collect();
    fields.sort();
    let said = json!({
        "method": asked.method.as_str(),
        "version": format!("{:?}", asked.version),
        "target": asked.target,
        "fields": fields,
    });
    reply(200, "application/json", said.to_string())
}

/// The number after `id=`.
fn id(asked: &Asked) -> u64 {
    let (_, id) = asked.target.split_once("id=").expect("it has one");
    id.parse().expect("it is a number")
}

/// Answers `/wait` when the test adds a permit, and everything else at once.
async fn usual(seen: Arc<Seen>, asked: Asked) -> Response<Payload> {
    let path = asked.target.split('?').next().unwrap_or_default();
    match path {
        "/echo" => echo(&asked),
        "/json" => {
            reply(200, "application/json; charset=utf-8", format!("{{\n \"id\": {}.50\r\n}}\n", id(&asked)))
        }
        "/text" => reply(200, "text/plain", "a \"b\"\n,c"),
        "/empty" => reply(204, "text/plain", ""),
        "/marked" => reply(200, "application/json", "\u{feff}{\"a\": 1}"),
        "/bad" => reply(200, "application/json", "{\"a\": 1"),
        "/binary" => reply(200, "text/plain", vec![b'a', 0xff]),
        "/large" => reply(200, "text/plain", "x".repeat(2000)),
        "/fail" if id(&asked) == 2 => reply(503, "text/plain", "busy"),
        "/redirect" => {
            let mut response = reply(302, "text/plain", "");
            response.headers_mut().insert("location", "http://10.0.0.1/secret".parse().expect("a value"));
            response
        }
        // Each request needs its own permit.
        "/wait" => {
            seen.gate.acquire().await.expect("it is never closed").forget();
            reply(200, "application/json", id(&asked).to_string())
        }
        "/cut" => {
            // A server that aborts immediately discards its buffered bytes.
            stream(pieces::unfold(0, |sent| async move {
                tokio::time::sleep(Duration::from_millis(50 * sent)).await;
                let piece =
                    if sent == 0 { Ok(Bytes::from_static(b"half")) } else { Err(io::Error::other("cut")) };
                Some((piece, sent + 1))
            }))
        }
        _ => reply(200, "application/json", "1"),
    }
}

async fn http1() -> Upstream {
    Upstream::start(Speaks::Http1, usual).await
}

fn url(upstream: &Upstream) -> String {
    format!("http://{}", upstream.address())
}

fn assert_problem(reply: &Reply, status: u16, code: &str) {
    assert_eq!((reply.status.as_u16(), &reply.ended), (status, &Ended::Complete), "{}", reply.text());
    assert_eq!(reply.json()["code"], code, "{}", reply.text());
}

#[tokio::test]
async fn requests_and_answers_are_passed_through() {
    let upstream = http1().await;
    let endpoint = r#"
        [params]
        name   = "text"
        filter = { type = "text[]", optional = true }
        tenant = { type = "text", in = "header", header = "X-Tenant", optional = true }
        [upstream]
        request = "GET /echo?name={name}&filter={filter}&fixed=1"
        headers = { X-Tenant-Id = "t-{tenant}", X-Fixed = "yes" }
    "#;
    let settings = "headers = { X-Api-Key = 'secret' }";
    let server = server(&url(&upstream), settings, &[("pass/{name}", endpoint)]).await;
    let request = Request::get(server.url("/pass/a%2Fb%3F&%23?filter=x%26y&filter=z"))
        .header("X-Tenant", "blue")
        .header("X-Api-Key", "mine")
        .header("X-Other", "1")
        .header("Connection", "x-other")
        .header("Keep-Alive", "timeout=1")
        .header("X-Forwarded-For", "10.9.8.7")
        .header("Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
        .body(String::new())
        .unwrap();
    let reply = Client::HTTP1.send(request).await;
    assert_eq!(reply.status, StatusCode::OK, "{}", reply.text());
    assert_eq!(reply.ended, Ended::Complete);
    assert_eq!(reply.header("content-type"), Some("application/json"));
    assert_eq!(reply.header("content-length"), Some(reply.body.len().to_string().as_str()));
    assert_eq!(reply.header("via"), Some("1.1 rowstream"));
    let said = reply.json();
    assert_eq!(said["target"], "/echo?name=a%2Fb%3F%26%23&filter=x%26y&filter=z&fixed=1");
    let fields: Vec<_> =
        said["fields"].as_array().unwrap().iter().map(|field| field.as_str().unwrap()).collect();
    let host = server.address();
    assert_eq!(
        fields,
        [
            &format!("forwarded: for=127.0.0.1;host=\"{host}\";proto=http"),
            &format!("host: {}", upstream.address()),
            "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "via: 1.1 rowstream",
            "x-api-key: secret",
            "x-fixed: yes",
            "x-forwarded-for: 127.0.0.1",
            &format!("x-forwarded-host: {host}"),
            "x-forwarded-proto: http",
            "x-tenant-id: t-blue",
            "x-tenant: blue",
        ]
    );
    let reply = get(&server.url("/pass/x?_format=csv&other=1")).await;
    assert_problem(&reply, 400, "invalid_parameter");
    let reply = get(&server.url("/pass/x?_format=csv")).await;
    assert_problem(&reply, 400, "invalid_parameter");
    assert_eq!(upstream.asked().len(), 1, "what is refused is not asked");
}

/// A client could send the header itself by leaving the parameter out.
#[tokio::test]
async fn a_header_of_the_endpoint_is_no_clients() {
    let upstream = http1().await;
    let endpoint = r#"
        [params]
        tenant = { type = "text", optional = true }
        [upstream]
        request = "GET /echo"
        headers = { X-Tenant-Id = "{tenant}" }
    "#;
    let server = server(&url(&upstream), "", &[("pass", endpoint)]).await;
    let request =
        Request::get(server.url("/pass")).header("X-Tenant-Id", "other").body(String::new()).unwrap();
    let reply = Client::HTTP1.send(request).await;
    assert!(!reply.text().contains("x-tenant-id"), "{}", reply.text());
}

#[tokio::test]
async fn what_an_upstream_says_is_what_a_client_gets() {
    let upstream = http1().await;
    let server = server(&url(&upstream), "", &[("pass/{path}", PASS)]).await;
    let reply = get(&server.url("/pass/empty")).await;
    assert_eq!((reply.status, reply.body.len()), (StatusCode::NO_CONTENT, 0));
    let reply = get(&server.url("/pass/text")).await;
    assert_eq!((reply.text(), reply.header("content-type")), ("a \"b\"\n,c", Some("text/plain")));
    // An apparent format belongs to the upstream's path.
    get(&server.url("/pass/file.json")).await;
    assert_eq!(upstream.asked().last().unwrap().target, "/file.json");
    let head = Request::head(server.url("/pass/text")).body(String::new()).unwrap();
    let reply = Client::HTTP1.send(head).await;
    assert_eq!(
        (reply.status, reply.body.len(), reply.header("content-length")),
        (StatusCode::OK, 0, Some("8"))
    );
    assert_eq!(upstream.asked().last().unwrap().method, "HEAD");
    assert_eq!(upstream.connections(), 1, "a connection is used again");
    assert_problem(&get(&server.url("/pass/redirect")).await, 502, "upstream_redirect");
    assert!(!server.stderr().contains("panicked"), "{}", server.stderr());
}

#[tokio::test]
async fn every_protocol_is_spoken() {
    let certificate = Certificate::new();
    let ca = certificate.ca().display().to_string();
    let both: &[&[u8]] = &[b"h2", b"http/1.1"];
    for (speaks, protocol, expected) in [
        (Speaks::Http1, "auto", Ok(Version::HTTP_11)),
        (Speaks::Http1, "http1", Ok(Version::HTTP_11)),
        (Speaks::H2c(10), "http2", Ok(Version::HTTP_2)),
        (Speaks::Tls(certificate.clone(), both), "auto", Ok(Version::HTTP_2)),
        (Speaks::Tls(certificate.clone(), both), "http1", Ok(Version::HTTP_11)),
        (Speaks::Tls(certificate.clone(), both), "http2", Ok(Version::HTTP_2)),
        (Speaks::Tls(certificate.clone(), &[b"http/1.1"]), "auto", Ok(Version::HTTP_11)),
        (Speaks::Tls(certificate.clone(), &[]), "http2", Err("source_unavailable")),
        (Speaks::Http1, "http2", Err("source_unavailable")),
        (Speaks::H2c(10), "http1", Err("upstream_broken")),
    ] {
        let tls = matches!(speaks, Speaks::Tls(..));
        let upstream = Upstream::start(speaks, usual).await;
        let (scheme, roots) =
            if tls { ("https", format!("roots = '{ca}'")) } else { ("http", String::new()) };
        let url = format!("{scheme}://{}", upstream.address());
        let settings = format!("protocol = '{protocol}'\n{roots}");
        let server = server(&url, &settings, &[("pass/{path}", PASS), ("calls/{path}", &calls(""))]).await;
        let reply = get(&server.url("/pass/echo")).await;
        match expected {
            Ok(version) => {
                assert_eq!(reply.json()["version"], format!("{version:?}"), "{scheme} {protocol}");
                let rows = get(&server.url("/calls/json?_format=ndjson&count=3")).await;
                assert_eq!((rows.text().lines().count(), &rows.ended), (3, &Ended::Complete));
            }
            Err(code) => assert_eq!(reply.json()["code"], code, "{scheme} {protocol}: {}", reply.text()),
        }
    }
}

#[tokio::test]
async fn tls_is_believed_only_by_its_roots() {
    let (certificate, other) = (Certificate::new(), Certificate::new());
    let upstream = Upstream::start(Speaks::Tls(certificate.clone(), &[b"h2"]), usual).await;
    let url = format!("https://{}", upstream.address());
    for (roots, status) in [(certificate.ca(), 200), (other.ca(), 503)] {
        let server = server(&url, &format!("roots = '{}'", roots.display()), &[("pass/{path}", PASS)]).await;
        assert_eq!(get(&server.url("/pass/echo")).await.status, status);
    }
}

/// Many upstreams are behind nginx.
#[tokio::test]
async fn nginx_is_an_upstream() {
    let upstream = http1().await;
    let nginx = Hop::nginx(upstream.address()).await;
    for (address, protocol) in [(nginx.http1, "http1"), (nginx.http2, "http2")] {
        let settings = format!("protocol = '{protocol}'");
        let endpoints = [("pass/{path}", PASS), ("calls/{path}", &calls(""))];
        let server = server(&format!("http://{address}"), &settings, &endpoints).await;
        assert_eq!(get(&server.url("/pass/text")).await.text(), "a \"b\"\n,c");
        let rows = get(&server.url("/calls/json?count=30")).await;
        assert_eq!(rows.json().as_array().unwrap().len(), 30);
        let reply = get(&server.url("/pass/cut")).await;
        assert!(matches!(reply.ended, Ended::Broken(_)), "{protocol}: {:?}", reply.ended);
    }
}

/// nginx responds with 400 to a client without a certificate of its authority.
#[tokio::test]
async fn an_upstream_may_want_a_certificate() {
    let (own, other) = (Certificate::new(), Certificate::new());
    let upstream = http1().await;
    let nginx = Hop::nginx_for_certificates(upstream.address(), &own).await;
    let shown = |shown: &Certificate| {
        format!("cert = '{}'\nkey = '{}'", shown.certificate().display(), shown.key().display())
    };
    for (address, protocol) in [(nginx.http1, "http1"), (nginx.http2, "http2")] {
        for (client, status) in [(String::new(), 400), (shown(&other), 400), (shown(&own), 200)] {
            let settings = format!("protocol = '{protocol}'\nroots = '{}'\n{client}", own.ca().display());
            let server = server(&format!("https://{address}"), &settings, &[("pass/{path}", PASS)]).await;
            assert_eq!(get(&server.url("/pass/text")).await.status, status, "{protocol}: {client}");
        }
    }
}

/// A renewed certificate doesn't change the settings, so a reload kept the source with the old one.
#[tokio::test]
async fn a_certificate_that_changes_is_read_again() {
    let (own, other) = (Certificate::new(), Certificate::new());
    let upstream = http1().await;
    let nginx = Hop::nginx_for_certificates(upstream.address(), &own).await;
    let config = format!(
        "[source.up]\nurl = 'https://{}'\nallow = ['127.0.0.1']\nroots = '{}'\ncert = 'client.crt'\nkey = 'client.key'\n",
        nginx.http1,
        own.ca().display()
    );
    let launch = Launch::files(&[("rowstream.toml", &config), ("endpoints/pass/{path}.toml", PASS)]);
    let folder = launch.path().to_owned();
    let show = |certificate: &Certificate| {
        std::fs::copy(certificate.key(), folder.join("client.key")).unwrap();
        std::fs::copy(certificate.certificate(), folder.join("client.crt")).unwrap();
    };
    show(&other);
    let server = launch.argument("--watch").start().await;
    assert_eq!(get(&server.url("/pass/text")).await.status, 400);
    show(&own);
    wait_until("the renewed certificate is shown", async || {
        get(&server.url("/pass/text")).await.status == 200
    })
    .await;
}

#[tokio::test]
async fn a_key_of_another_certificate_is_refused() {
    let (own, other) = (Certificate::new(), Certificate::new());
    let config = format!(
        "[source.up]\nurl = 'https://127.0.0.1:9'\nallow = ['127.0.0.1']\ncert = '{}'\nkey = '{}'\n",
        own.certificate().display(),
        other.key().display()
    );
    let launch = Launch::files(&[("rowstream.toml", &config), ("endpoints/pass/{path}.toml", PASS)]);
    let exit = launch.try_start().await.err().expect("no start");
    assert!(exit.stderr.contains("the key isn't that of the certificate"), "{}", exit.stderr);
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_never_whole() {
    for speaks in [Speaks::Http1, Speaks::H2c(10)] {
        let upstream = Upstream::start(speaks.clone(), usual).await;
        let protocol = if matches!(speaks, Speaks::Http1) { "http1" } else { "http2" };
        let settings = format!("protocol = '{protocol}'");
        let server = server(&url(&upstream), &settings, &[("pass/{path}", PASS)]).await;
        for reply in [get(&server.url("/pass/cut")).await, get_h2c(&server.url("/pass/cut")).await] {
            assert_eq!((reply.status, reply.text()), (StatusCode::OK, "half"), "{protocol}");
            assert!(matches!(reply.ended, Ended::Broken(_)), "{protocol}: {:?}", reply.ended);
        }
        server.wait_for_stdout("upstream_broken").await;
        // The connection's slot is free again.
        assert_eq!(get(&server.url("/pass/text")).await.status, StatusCode::OK);
    }
}

/// A peer that sends raw bytes after each request.
async fn scripted(answers: &'static [&'static str]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        for answer in answers {
            let (mut socket, _) = listener.accept().await.unwrap();
            let mut buffer = [0; 4096];
            if socket.read(&mut buffer).await.unwrap() > 0 {
                socket.write_all(answer.as_bytes()).await.unwrap();
            }
            // An orderly close, which doesn't show if everything was sent.
            drop(socket.shutdown().await);
        }
    });
    url
}

#[tokio::test]
async fn ends_that_prove_nothing_are_no_ends() {
    for (answer, expected) in [
        ("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nhalf", Ok(true)),
        ("HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\nhalf", Ok(false)),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n0\r\n\r\n", Ok(true)),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n", Ok(false)),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n0\r\n", Ok(false)),
        ("HTTP/1.1 200 OK\r\n\r\nhalf", Err("upstream_without_end")),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\nhalf", Err("upstream_without_end")),
        (
            "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n4\r\nhalf\r\n0\r\n\r\n",
            Err("upstream_without_end"),
        ),
        // A length is ignored together with chunks.
        (
            "HTTP/1.1 200 OK\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n0\r\n\r\n",
            Ok(true),
        ),
        ("HTTP/1.0 200 OK\r\n\r\nhalf", Err("upstream_without_end")),
        ("HTTP/1.1 200 OK\r\ncontent-le", Err("upstream_broken")),
        ("", Err("upstream_broken")),
        ("SSH-2.0-OpenSSH_9\r\n", Err("upstream_broken")),
    ] {
        let url = scripted(Box::leak(Box::new([answer]))).await;
        let server = server(&url, "protocol = 'http1'", &[("pass/{path}", PASS)]).await;
        let reply = get(&server.url("/pass/x")).await;
        match expected {
            Ok(whole) => {
                assert_eq!(reply.text(), "half", "{answer:?}");
                assert_eq!(reply.ended == Ended::Complete, whole, "{answer:?}: {:?}", reply.ended);
            }
            Err(code) => assert_problem(&reply, 502, code),
        }
    }
}

/// The message was that the answer is invalid or truncated, and only curl told that it's well.
#[tokio::test]
async fn a_long_header_of_an_upstream_is_named() {
    let many: String = (0..150).map(|number| format!("x-{number}: 1\r\n")).collect();
    let long = format!("x-long: {}\r\n", "x".repeat(200_000));
    for fields in [many, long] {
        let answer = &*format!("HTTP/1.1 200 OK\r\n{fields}content-length: 4\r\n\r\nhalf").leak();
        let url = scripted(Box::leak(Box::new([answer]))).await;
        let server = server(&url, "protocol = 'http1'", &[("pass/{path}", PASS)]).await;
        let reply = get(&server.url("/pass/x")).await;
        assert_problem(&reply, 502, "upstream_broken");
        assert!(reply.text().contains("more than 100 fields or 32 KiB"), "{}", reply.text());
    }
}

/// `4, 4` is a length (RFC 9110, section 8.6), but most clients refuse it.
#[tokio::test]
async fn a_length_that_is_repeated_is_passed_on_once() {
    for lengths in ["content-length: 4, 4", "content-length: 4\r\ncontent-length: 4"] {
        let answer = &*format!("HTTP/1.1 200 OK\r\n{lengths}\r\n\r\nhalf").leak();
        let url = scripted(Box::leak(Box::new([answer, answer]))).await;
        let server = server(&url, "protocol = 'http1'", &[("pass/{path}", PASS)]).await;
        for reply in [get(&server.url("/pass/x")).await, get_h2c(&server.url("/pass/x")).await] {
            assert_eq!((reply.text(), &reply.ended), ("half", &Ended::Complete), "{lengths}");
            assert_eq!(reply.header("content-length"), Some("4"), "{lengths}");
        }
    }
}

/// A server may close an idle connection at any moment, even while the next request is on its way.
/// The request must not fail.
#[tokio::test]
async fn a_connection_that_was_closed_while_idle_fails_nothing() {
    const ANSWER: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
    let url = scripted(&[ANSWER, ANSWER, ANSWER]).await;
    let server = server(&url, "", &[("pass/{path}", PASS)]).await;
    for _ in 0..3 {
        let reply = get(&server.url("/pass/x")).await;
        assert_eq!((reply.status, reply.text()), (StatusCode::OK, "ok"));
    }
}

#[tokio::test]
async fn requests_are_sent_again_while_nothing_of_an_answer_has_come() {
    const ANSWER: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
    for (answers, retries, expected) in [
        // Connections that close silently.
        (&["", "", ANSWER][..], "retries = { max = 2, backoff = '1ms' }", (200, "ok")),
        (&["", "", ANSWER], "retries = { max = 1, backoff = '1ms' }", (502, "upstream_broken")),
        (&["", ANSWER], "", (502, "upstream_broken")),
        // A negative response is a response, and so is half a body.
        (&["HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n", ANSWER], "retries = {}", (503, "")),
        (&["HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf", ANSWER], "retries = {}", (200, "half")),
        (&["SSH-2.0-OpenSSH_9\r\n", ANSWER], "retries = {}", (502, "upstream_broken")),
    ] {
        let url = scripted(Box::leak(answers.to_vec().into_boxed_slice())).await;
        let server = server(&url, retries, &[("pass/{path}", PASS)]).await;
        let reply = get(&server.url("/pass/x")).await;
        assert_eq!(reply.status.as_u16(), expected.0, "{answers:?} {retries}: {}", reply.text());
        assert!(reply.text().contains(expected.1), "{answers:?} {retries}: {}", reply.text());
        assert_eq!(matches!(reply.ended, Ended::Broken(_)), expected.1 == "half", "{answers:?}");
    }
}

/// An upstream that is down gets few more requests than one that is up.
#[tokio::test]
async fn a_budget_bounds_what_is_sent_again() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let taken = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&taken);
    tokio::spawn(async move {
        loop {
            drop(listener.accept().await);
            count.fetch_add(1, Ordering::SeqCst);
        }
    });
    let settings = "retries = { max = 5, backoff = '1ms', budget = 20 }";
    let server = server(&url, settings, &[("pass/{path}", PASS)]).await;
    for _ in 0..50 {
        assert_eq!(get(&server.url("/pass/x")).await.status.as_u16(), 502);
    }
    // Ten are saved, and a fifth of fifty is ten.
    let taken = taken.load(Ordering::SeqCst);
    assert!((51..=70).contains(&taken), "{taken} connections for 50 requests");
}

#[tokio::test]
async fn a_slow_client_slows_the_upstream() {
    for (speaks, protocol) in [(Speaks::Http1, "http1"), (Speaks::H2c(10), "http2")] {
        let sent = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&sent);
        let upstream = Upstream::start(speaks, move |_, _| {
            let count = Arc::clone(&count);
            let endless = pieces::repeat_with(move || {
                count.fetch_add(16 * 1024, Ordering::Relaxed);
                Ok(Bytes::from(vec![b'x'; 16 * 1024]))
            });
            async move { stream(endless) }
        })
        .await;
        let server =
            server(&url(&upstream), &format!("protocol = '{protocol}'"), &[("pass/{path}", PASS)]).await;
        let mut slow = Client::HTTP1.receive_buffer(16 * 1024).stream(&server.url("/pass/x")).await;
        slow.at_least(100_000).await;
        // Waits until production has stopped for a while. Sockets hold some megabytes, of gigabytes
        // per second.
        let mut before = 0;
        loop {
            tokio::time::sleep(Duration::from_millis(300)).await;
            let now = sent.load(Ordering::Relaxed);
            assert!(now < 64 << 20, "{protocol}: nobody reads, and {now} bytes were made");
            if now == before {
                break;
            }
            before = now;
        }
        slow.at_least(8 << 20).await;
        assert!(sent.load(Ordering::Relaxed) > before, "{protocol}: it goes on with the client");
    }
}

#[tokio::test]
async fn a_client_that_leaves_ends_the_requests() {
    for (speaks, protocol) in [(Speaks::Http1, "http1"), (Speaks::H2c(100), "http2")] {
        let upstream = Upstream::start(speaks, usual).await;
        let endpoints = [("pass/{path}", PASS), ("calls/{path}", &calls(""))];
        // No timeout ends a request while the test waits for it.
        let settings = format!("protocol = '{protocol}'\ntimeout = {{ first_byte = '1h' }}");
        let server = server(&url(&upstream), &settings, &endpoints).await;
        for (path, running) in [("/pass/wait%3Fid=1", 0), ("/calls/wait", 10)] {
            let target = server.url(path);
            let client = tokio::spawn(async move { drop(Client::HTTP1.stream(&target).await) });
            if running > 0 {
                upstream.until_running(running).await;
            }
            client.abort();
            upstream.until_running(0).await;
        }
        assert_eq!(get(&server.url("/pass/text")).await.status, StatusCode::OK, "places are free");
    }
}

#[tokio::test]
async fn the_pool_is_the_only_limit() {
    for (speaks, protocol, connections) in
        [(Speaks::Http1, "http1", 5), (Speaks::H2c(100), "http2", 1), (Speaks::H2c(2), "http2", 3)]
    {
        let upstream = Upstream::start(speaks, usual).await;
        let settings =
            format!("protocol = '{protocol}'\npool = {{ max = 5, waiting = 100, acquire_timeout = '60s' }}");
        let endpoint = "[params]\nid = 'integer'\n[upstream]\nrequest = 'GET /wait?id={id}'";
        let server = server(&url(&upstream), &settings, &[("wait/{id}", endpoint)]).await;
        let clients: Vec<_> = (0..20)
            .map(|id| {
                let target = server.url(&format!("/wait/{id}"));
                tokio::spawn(async move { (id, get(&target).await) })
            })
            .collect();
        upstream.until_running(5).await;
        upstream.seen.gate.add_permits(20);
        for client in clients {
            let (id, reply) = client.await.unwrap();
            assert_eq!((reply.status, reply.text()), (StatusCode::OK, id.to_string().as_str()));
        }
        assert_eq!((upstream.most(), upstream.connections()), (5, connections), "{protocol}");
    }
}

#[tokio::test]
async fn connections_are_kept_as_long_as_the_pool_says() {
    for (speaks, protocol, pool, connections) in [
        (Speaks::Http1, "http1", "max_idle = 1", 1),
        (Speaks::Http1, "http1", "max_idle = 0", 3),
        (Speaks::Http1, "http1", "max_age = '1ms'", 3),
        (Speaks::H2c(10), "http2", "max_age = '10m'", 1),
        (Speaks::H2c(10), "http2", "max_age = '1ms'", 3),
    ] {
        let upstream = Upstream::start(speaks, usual).await;
        let settings = format!("protocol = '{protocol}'\npool = {{ {pool} }}");
        let server = server(&url(&upstream), &settings, &[("pass/{path}", PASS)]).await;
        for _ in 0..3 {
            assert_eq!(get(&server.url("/pass/text")).await.status, StatusCode::OK);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(upstream.connections(), connections, "{protocol} {pool}");
    }
}

#[tokio::test]
async fn the_queue_of_the_pool_is_bounded() {
    let upstream = http1().await;
    let settings = "pool = { max = 1, waiting = 1, acquire_timeout = '300ms' }";
    let endpoint = "[params]\nid = 'integer'\n[upstream]\nrequest = 'GET /wait?id={id}'";
    let server = server(&url(&upstream), settings, &[("wait/{id}", endpoint)]).await;
    let target = server.url("/wait/1");
    let first = tokio::spawn(async move { get(&target).await });
    upstream.until_running(1).await;
    let (second, third) = (server.url("/wait/2"), server.url("/wait/3"));
    let (one, other) = tokio::join!(get(&second), get(&third));
    let mut codes = [one.json()["code"].clone(), other.json()["code"].clone()];
    codes.sort_by_key(ToString::to_string);
    assert_eq!(codes, ["pool_full", "pool_timeout"]);
    upstream.seen.gate.add_permits(1);
    assert_eq!(first.await.unwrap().text(), "1");
}

#[tokio::test]
async fn an_upstream_that_says_nothing_is_not_waited_for() {
    for (speaks, protocol) in [(Speaks::Http1, "http1"), (Speaks::H2c(10), "http2")] {
        let upstream = Upstream::start(speaks, usual).await;
        let endpoint = "[params]\nid = 'integer'\n[upstream]\nrequest = 'GET /wait?id={id}'";
        let settings = format!("protocol = '{protocol}'\ntimeout = {{ first_byte = '300ms' }}");
        let endpoints = [("wait/{id}", endpoint), ("pass/{path}", PASS)];
        let server = server(&url(&upstream), &settings, &endpoints).await;
        assert_problem(&get(&server.url("/wait/1")).await, 504, "upstream_timeout");
        upstream.until_running(0).await;
        assert_eq!(get(&server.url("/pass/text")).await.status, StatusCode::OK);
        assert_eq!(upstream.connections(), 2, "{protocol}: the connection may be why");
    }
}

#[tokio::test]
async fn an_answer_that_takes_too_long_is_broken_off() {
    let slowly = || async move {
        let slow = pieces::unfold((), |()| async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            Some((Ok(Bytes::from_static(b"x")), ()))
        });
        stream(slow)
    };
    let upstream = Upstream::start(Speaks::Http1, move |_, _| slowly()).await;
    let server = server(&url(&upstream), "timeout = { total = '300ms' }", &[("pass/{path}", PASS)]).await;
    let reply = get(&server.url("/pass/x")).await;
    assert_eq!(reply.status, StatusCode::OK);
    assert!(matches!(reply.ended, Ended::Broken(_)), "{:?}", reply.ended);
    server.wait_for_stdout("upstream_timeout").await;
}

#[tokio::test]
async fn addresses_that_are_not_allowed_are_refused() {
    let upstream = http1().await;
    let port = upstream.address().port();
    for (host, allow, expected) in [
        // By default, names must resolve to public addresses.
        ("localhost", "", Some((502, "upstream_refused"))),
        ("localhost", "allow = ['public', '10.0.0.0/8']", Some((502, "upstream_refused"))),
        // The system's resolver treats this as 127.0.0.1.
        ("2130706433", "", Some((502, "upstream_refused"))),
        ("localhost", "allow = ['127.0.0.0/8']", None),
        ("127.0.0.1", "", None),
        ("127.0.0.1", "allow = ['127.0.0.1', 'public']", None),
    ] {
        let url = format!("http://{host}:{port}");
        let server = server(&url, allow, &[("pass/{path}", PASS), ("calls/{path}", &calls(""))]).await;
        for path in ["/pass/echo", "/calls/json"] {
            let reply = get(&server.url(path)).await;
            match expected {
                Some((status, code)) => {
                    assert_problem(&reply, status, code);
                    assert!(
                        !reply.text().contains("127.0.0.1"),
                        "addresses are for the log: {}",
                        reply.text()
                    );
                }
                None => assert_eq!(reply.status, StatusCode::OK, "{url} {allow}: {}", reply.text()),
            }
        }
        if expected.is_some() {
            server.wait_for_stdout(&format!("127.0.0.1:{port}")).await;
        }
    }
}

#[tokio::test]
async fn replies_are_rows_in_every_format() {
    let upstream = http1().await;
    let server =
        server(&url(&upstream), "", &[("calls/{path}", &calls("order = 'input'\nconcurrency = 3"))]).await;
    let rows = get(&server.url("/calls/json?count=12")).await;
    assert_eq!((rows.status, &rows.ended), (StatusCode::OK, &Ended::Complete), "{}", rows.text());
    let list = rows.json();
    let list = list.as_array().unwrap();
    assert_eq!(list.len(), 12);
    for (n, row) in list.iter().enumerate() {
        let members: Vec<_> = row.as_object().unwrap().keys().collect();
        assert_eq!(members, ["n", "status", "duration_ms", "body"]);
        assert_eq!((&row["n"], &row["status"]), (&json!(n), &json!(200)));
        assert!(row["duration_ms"].as_f64().unwrap() > 0.0);
    }
    // JSON is the upstream's text, digit by digit.
    assert!(rows.text().contains(r#""body":{  "id": 3.50  }"#), "{}", rows.text());
    let lines = get(&server.url("/calls/json?_format=ndjson&count=12")).await;
    assert_eq!(lines.text().lines().count(), 12);
    assert!(lines.text().lines().all(|line| line.starts_with("{\"n\":") && line.ends_with("}}")));
    let text = get(&server.url("/calls/text?_format=csv&count=2")).await;
    let records: Vec<_> =
        csv::Reader::from_reader(&text.body[..]).into_records().map(Result::unwrap).collect();
    assert_eq!(records.len(), 2);
    assert_eq!((&records[1][0], &records[1][1], &records[1][3]), ("1", "200", "a \"b\"\n,c"));
    let events = get(&server.url("/calls/json?_format=sse&count=4")).await;
    assert_eq!(events.text().matches("data:").count(), 4);
    let arrow = get(&server.url("/calls/json?_format=arrow&count=4")).await;
    assert_eq!((arrow.status, &arrow.ended), (StatusCode::OK, &Ended::Complete));
    // A byte order mark isn't part of the JSON.
    let marked = get(&server.url("/calls/marked?_format=csv&count=1")).await;
    assert!(marked.text().ends_with(",\"{\"\"a\"\": 1}\"\r\n"), "{}", marked.text());
    let none = get(&server.url("/calls/json?count=0")).await;
    assert_eq!(none.text(), "[]");
    assert_problem(&get(&server.url("/calls/json?count=-1")).await, 400, "invalid_parameter");
    let empty = get(&server.url("/calls/empty?_format=ndjson&count=1")).await;
    assert_eq!(serde_json::from_str::<serde_json::Value>(empty.text()).unwrap()["body"], "");
}

#[tokio::test]
async fn rows_stand_in_a_body() {
    let upstream = http1().await;
    let endpoint = calls("").replace("[params]", "body = { replies = '$rows', count = '$count' }\n[params]");
    let server = server(&url(&upstream), "", &[("calls/{path}", &endpoint)]).await;
    let reply = get(&server.url("/calls/text?count=4")).await;
    assert_eq!((&reply.json()["count"], reply.json()["replies"].as_array().unwrap().len()), (&json!(4), 4));
}

#[tokio::test]
async fn calls_run_side_by_side() {
    for (speaks, protocol, pool, concurrency, parallel) in [
        (Speaks::Http1, "http1", 5, "", 5),
        (Speaks::Http1, "http1", 50, "concurrency = 7", 7),
        (Speaks::Http1, "http1", 5, "concurrency = 50", 5),
        (Speaks::H2c(100), "http2", 25, "", 25),
    ] {
        let upstream = Upstream::start(speaks, usual).await;
        let settings = format!("protocol = '{protocol}'\npool = {{ max = {pool}, waiting = 0 }}");
        let server = server(&url(&upstream), &settings, &[("calls/{path}", &calls(concurrency))]).await;
        let target = server.url("/calls/wait?count=50");
        let client = tokio::spawn(async move { get(&target).await });
        for done in (0..50).step_by(parallel) {
            upstream.until_running(parallel.min(50 - done)).await;
            upstream.seen.gate.add_permits(parallel);
        }
        let reply = client.await.unwrap();
        assert_eq!(reply.json().as_array().unwrap().len(), 50);
        let connections = if protocol == "http2" { 1 } else { parallel };
        assert_eq!((upstream.most(), upstream.connections()), (parallel, connections), "{protocol} {pool}");
        assert_eq!(upstream.count("/wait"), 50);
    }
}

#[tokio::test]
async fn each_reply_is_on_its_way_while_others_run() {
    let upstream = http1().await;
    let server = server(&url(&upstream), "", &[("calls/{path}", &calls(""))]).await;
    for format in ["sse", "ndjson", "csv", "arrow", "json"] {
        let target = server.url(&format!("/calls/wait?count=4&_format={format}"));
        let client = tokio::spawn(async move { Client::HTTP1.stream(&target).await });
        upstream.until_running(4).await;
        upstream.seen.gate.add_permits(1);
        let mut streaming = client.await.unwrap();
        let first = streaming.chunk().await.expect("a row is there");
        assert!(!first.is_empty());
        assert_eq!(upstream.running(), 3, "{format}: the others run");
        upstream.seen.gate.add_permits(3);
        assert_eq!(streaming.rest().await.ended, Ended::Complete, "{format}");
    }
}

#[tokio::test]
async fn rows_come_in_the_order_that_was_asked_for() {
    // The calls from here on are answered.
    let from = Arc::new(AtomicU64::new(u64::MAX));
    let least = Arc::clone(&from);
    let upstream = Upstream::start(Speaks::Http1, move |_, asked| {
        let least = Arc::clone(&least);
        async move {
            while id(&asked) < least.load(Ordering::SeqCst) {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            reply(200, "text/plain", "x")
        }
    })
    .await;
    let by = |order: &str| calls(&format!("order = '{order}'"));
    let endpoints = [("input/{path}", by("input")), ("completion/{path}", by("completion"))];
    let endpoints = endpoints.each_ref().map(|(name, text)| (*name, text.as_str()));
    let server = server(&url(&upstream), "", &endpoints).await;
    let number = |row: &str| serde_json::from_str::<serde_json::Value>(row).expect("a row")["n"].as_u64();

    let target = server.url("/completion/x?count=4&_format=ndjson");
    let client = tokio::spawn(async move { Client::HTTP1.stream(&target).await });
    upstream.until_running(4).await;
    from.store(3, Ordering::SeqCst);
    let mut rows = client.await.unwrap();
    for expected in (0..4).rev() {
        from.store(expected, Ordering::SeqCst);
        let row = rows.chunk().await.expect("a row is there");
        assert_eq!(number(std::str::from_utf8(&row).unwrap()), Some(expected));
    }

    from.store(u64::MAX, Ordering::SeqCst);
    let target = server.url("/input/x?count=4&_format=ndjson");
    let client = tokio::spawn(async move { get(&target).await });
    for running in (0..4).rev() {
        upstream.until_running(running + 1).await;
        from.store(running as u64, Ordering::SeqCst);
    }
    let rows = client.await.unwrap();
    assert_eq!(rows.text().lines().filter_map(number).collect::<Vec<_>>(), [0, 1, 2, 3]);
}

#[tokio::test]
async fn a_call_that_fails_fails_the_response_or_is_a_row() {
    let upstream = http1().await;
    let endpoints = [
        ("fail/{path}", calls("concurrency = 1")),
        ("row/{path}", calls("on_error = 'row'\norder = 'input'")),
    ];
    let endpoints = endpoints.each_ref().map(|(name, text)| (*name, text.as_str()));
    let server = server(&url(&upstream), "max_row_bytes = 1000", &endpoints).await;
    // Before the first row it has a status. After that, the response is aborted.
    assert_problem(&get(&server.url("/fail/redirect?count=1")).await, 502, "upstream_redirect");
    let broken = get(&server.url("/fail/fail?count=4")).await;
    if broken.status == StatusCode::OK {
        assert!(matches!(broken.ended, Ended::Broken(_)), "{:?}", broken.ended);
    } else {
        assert_problem(&broken, 502, "upstream_status");
    }
    assert_eq!(upstream.count("/fail"), 3, "nothing is asked after a failure");
    for (path, status, body, error) in [
        ("bad", json!(200), json!(null), "is declared as JSON, but invalid"),
        ("binary", json!(200), json!(null), "is not UTF-8"),
        ("large", json!(200), json!(null), "is over the limit of 1000 bytes"),
        ("redirect", json!(null), json!(null), "redirects aren't followed"),
        ("cut", json!(200), json!(null), "was invalid or truncated"),
    ] {
        let rows = get(&server.url(&format!("/row/{path}?count=2"))).await;
        assert_eq!(rows.ended, Ended::Complete, "{path}");
        for row in rows.json().as_array().unwrap() {
            assert_eq!((&row["status"], &row["body"]), (&status, &body), "{path}");
            assert!(row["error"].as_str().unwrap().contains(error), "{path}: {row}");
        }
    }
    let rows = get(&server.url("/row/fail?count=4")).await.json();
    let errors: Vec<_> = rows.as_array().unwrap().iter().map(|row| row["error"].is_null()).collect();
    assert_eq!(errors, [true, true, false, true]);
    assert_eq!((&rows[2]["status"], &rows[2]["body"]), (&json!(503), &json!("busy")));
}

#[tokio::test]
async fn calls_are_made_on_behalf_of_their_request() {
    let upstream = http1().await;
    let server =
        server(&url(&upstream), "", &[("calls/{path}", &calls("headers = { X-Call = '{n}' }"))]).await;
    let request = Request::get(server.url("/calls/echo?count=2"))
        .header("Traceparent", "00-1-2-01")
        .header("Cookie", "session=1")
        .header("Authorization", "Bearer mine")
        .body(String::new())
        .unwrap();
    Client::HTTP1.send(request).await;
    let asked = upstream.asked();
    assert_eq!(asked.len(), 2);
    for asked in &asked {
        assert_eq!(asked.headers["traceparent"], "00-1-2-01");
        assert_eq!(asked.headers["x-forwarded-for"], "127.0.0.1");
        assert_eq!(asked.headers["x-call"], id(asked).to_string().as_str());
        assert!(!asked.headers.contains_key("cookie") && !asked.headers.contains_key("authorization"));
    }
    let head = Request::head(server.url("/calls/echo")).body(String::new()).unwrap();
    assert_eq!(Client::HTTP1.send(head).await.status, StatusCode::OK);
    assert_eq!(upstream.asked().len(), 2, "HEAD asks nothing");
}

/// A token for this server must not reach another one.
#[tokio::test]
async fn tokens_are_not_handed_on() {
    let upstream = http1().await;
    let head = "authorization = ['reader']\n[token.reader]\n\
        sha256 = '2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b'";
    let server = launch(head, &url(&upstream), "", &[("pass/{path}", PASS)]).start().await;
    assert_eq!(get(&server.url("/pass/echo")).await.status, StatusCode::UNAUTHORIZED);
    let request = Request::get(server.url("/pass/echo")).header("authorization", "Bearer secret");
    let reply = Client::HTTP1.send(request.body(String::new()).unwrap()).await;
    assert_eq!(reply.status, StatusCode::OK, "{}", reply.text());
    assert!(!reply.text().to_lowercase().contains("bearer"), "{}", reply.text());
}

#[tokio::test]
async fn what_upstreams_take_is_told_and_held() {
    let upstream = http1().await;
    let endpoints = [("calls/{path}", &*calls("concurrency = 2")), ("pass/{path}", PASS)];
    let server = launch("memory = '256MB'", &url(&upstream), "pool = { max = 4 }", &endpoints).start().await;
    let said = server.stderr();
    assert!(said.contains("source up: 4 requests, 100 waiting"), "{said}");
    assert!(said.contains("/calls/{path}:") && said.contains("/pass/{path}:"), "{said}");
    assert_eq!(get(&server.url("/calls/json")).await.status, StatusCode::OK);
    assert_eq!(get(&server.url("/pass/text")).await.status, StatusCode::OK);
    let config = server.folder().join("rowstream.toml").display().to_string();
    let checked = rowstream(&["check", &config]).await;
    let told = String::from_utf8_lossy(&checked.stdout).into_owned();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    for words in [
        "source up: connected, pool of 4",
        "rows :many -> n integer, status integer, duration_ms number, body json or text, of 2 calls at a time",
        "passes the answer through",
    ] {
        assert!(told.contains(words), "{told}");
    }
}

#[tokio::test]
async fn faults_have_their_place() {
    for (config, endpoint, words) in [
        ("url = 'http://127.0.0.1:9'\nprotocol = 'http3'", PASS, "`protocol` cannot be `http3`"),
        (
            "url = 'http://127.0.0.1:9'\nallow = ['example.org']",
            PASS,
            "`example.org` is neither an address nor a network",
        ),
        ("url = 'http://127.0.0.1:9'\nallow = ['public']", PASS, "`allow` leaves out the address of the URL"),
        ("url = 'http://127.0.0.1:9'\nallow = []", PASS, "`allow` leaves out the address of the URL"),
        ("url = 'http://127.0.0.1:9'\nstatement_cache = 3", PASS, "unknown key `statement_cache`"),
        ("url = 'http://127.0.0.1:9'\npool = { max_age = '1' }", PASS, "is not a positive duration"),
        ("url = 'https://127.0.0.1:9'\nroots = 'none.pem'", PASS, "there is no file `none.pem`"),
        (
            "url = 'https://127.0.0.1:9'\ncert = 'rowstream.toml'",
            PASS,
            "a client's certificate needs its key",
        ),
        ("url = 'https://127.0.0.1:9'\nkey = 'rowstream.toml'", PASS, "a client's certificate needs its key"),
        ("url = 'http://127.0.0.1:9'\ncert = 'rowstream.toml'", PASS, "`cert` is for TLS"),
        (
            "url = 'http://127.0.0.1:9'\nheaders = { Host = 'x' }",
            PASS,
            "the header `host` belongs to the connection",
        ),
        ("url = 'http://u:hunter2@127.0.0.1:9'", PASS, "this URL has a name or a password"),
        ("url = 'sqlite:a.db'", PASS, "the configuration has no HTTP service"),
        (
            "url = 'http://127.0.0.1:9'",
            "sql = 'select 1'",
            "this SQL needs a database, but the configuration has none",
        ),
        (
            "url = 'http://127.0.0.1:9'",
            "source = 'up'\nsql = 'select 1'",
            "is an HTTP service and can't run SQL",
        ),
        (
            "url = 'http://127.0.0.1:9'",
            "[upstream]\nrequest = 'GET /'\nsource = 'upp'",
            "there is no source `upp`",
        ),
        ("url = 'http://127.0.0.1:9'", "[upstream]\nrequest = 'GET http://a/'", "must begin with a slash"),
        (
            "url = 'http://127.0.0.1:9'",
            "[upstream]\nrequest = 'GET /{a}'",
            "the parameter `{a}` is not declared",
        ),
        (
            "url = 'http://127.0.0.1:9'",
            "[params]\na = 'text'\n[upstream]\nrequest = 'GET /'",
            "doesn't use the parameter `a`",
        ),
        (
            "url = 'http://127.0.0.1:9'",
            "[upstream]\nrequest = 'GET /'\norder = 'input'",
            "has no effect on a single request",
        ),
        (
            "url = 'http://127.0.0.1:9'",
            "[upstream]\nrequest = 'GET /'\nrepeat = 'a'",
            "there is no parameter `a`",
        ),
        (
            "url = 'http://127.0.0.1:9'",
            "[upstream]\nrequest = 'GET /'\nrepeat = 2\norder = 'size'",
            "isn't one of the choices",
        ),
        (
            "url = 'http://127.0.0.1:9'",
            "body = {}\n[upstream]\nrequest = 'GET /'",
            "`body` has no effect on a response that is passed",
        ),
        (
            "url = 'http://127.0.0.1:9'",
            "key = ['a']\n[upstream]\nrequest = 'GET /'\nrepeat = 2",
            "`key` is for rows of a database",
        ),
        (
            "url = 'http://127.0.0.1:9'",
            "total = true\n[upstream]\nrequest = 'GET /'",
            "`total` is for rows of a database",
        ),
        (
            "url = 'http://127.0.0.1:9'",
            "source = 'up'\n[upstream]\nrequest = 'GET /'",
            "`source` belongs in `[upstream]`",
        ),
        (
            "url = 'http://127.0.0.1:9'",
            "[params]\nn = 'integer'\n[upstream]\nrequest = 'GET /'\nrepeat = 'n'",
            "`n` is the number of the call",
        ),
        (
            "url = 'http://127.0.0.1:9'",
            "[params]\nc = 'text'\n[upstream]\nrequest = 'GET /'\nrepeat = 'c'",
            "`c` is the number of calls",
        ),
    ] {
        let config = format!("[source.up]\n{config}\n");
        let endpoint = endpoint.replace("GET /{path}", "GET /x{path}");
        let name = if endpoint.contains("{path}") { "endpoints/{path}.toml" } else { "endpoints/a.toml" };
        let launch = Launch::files(&[("rowstream.toml", &config), (name, &endpoint)]);
        let Err(exit) = launch.try_start().await else { panic!("no error of {config} {endpoint}") };
        assert!(exit.stderr.contains(words), "{words}:\n{}", exit.stderr);
        assert!(!exit.stderr.contains("hunter2"), "{}", exit.stderr);
        assert_eq!(exit.stderr.lines().filter(|line| line.contains(".toml:")).count(), 1, "{}", exit.stderr);
    }
}
