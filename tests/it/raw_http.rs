//! HTTP/1 as an attacker writes it: raw bytes, followed at once by a second request, and the
//! statuses of all responses. If the end of the first request is ambiguous, the second one gets no
//! response, because a proxy may have treated it as part of the first (request smuggling; RFC 9112,
//! sections 6.3 and 11.2).

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use serde_json::{Value, json};

use crate::support::{Client, Launch, Server, get, wait, wait_until};

/// The request after each case. It ends the connection.
const SECOND: &[u8] = b"GET /missing HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";

/// A title, the bytes, and the statuses of the responses.
#[rustfmt::skip]
const CASES: &[(&str, &[u8], &str)] = &[
    ("Content-Length and Transfer-Encoding", b"GET /one HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", "200"),
    ("Transfer-Encoding and Content-Length", b"GET /one HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n0\r\n\r\n", "200"),
    ("two Content-Length differ", b"GET /one HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello", "400"),
    ("two Content-Length same", b"GET /one HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\ncontent-length: 5\r\n\r\nhello", "200"),
    ("Content-Length list", b"GET /one HTTP/1.1\r\nhost: a\r\ncontent-length: 5, 5\r\n\r\nhello", "400"),
    ("Content-Length +5", b"GET /one HTTP/1.1\r\nhost: a\r\ncontent-length: +5\r\n\r\nhello", "400"),
    ("Content-Length -1", b"GET /one HTTP/1.1\r\nhost: a\r\ncontent-length: -1\r\n\r\n", "400"),
    ("Content-Length 0x5", b"GET /one HTTP/1.1\r\nhost: a\r\ncontent-length: 0x5\r\n\r\nhello", "400"),
    ("Content-Length empty", b"GET /one HTTP/1.1\r\nhost: a\r\ncontent-length: \r\n\r\n", "400"),
    ("Content-Length huge", b"GET /one HTTP/1.1\r\nhost: a\r\ncontent-length: 99999999999999999999999\r\n\r\n", "400"),
    ("Content-Length space before colon", b"GET /one HTTP/1.1\r\nhost: a\r\ncontent-length : 5\r\n\r\nhello", "400"),
    ("Transfer-Encoding xchunked", b"GET /one HTTP/1.1\r\nhost: a\r\ntransfer-encoding: xchunked\r\n\r\n0\r\n\r\n", "400"),
    ("Transfer-Encoding identity", b"GET /one HTTP/1.1\r\nhost: a\r\ntransfer-encoding: identity\r\n\r\n", "400"),
    ("Transfer-Encoding chunked, identity", b"GET /one HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked, identity\r\n\r\n0\r\n\r\n", "400"),
    ("Transfer-Encoding twice", b"GET /one HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\ntransfer-encoding: identity\r\n\r\n0\r\n\r\n", "400"),
    ("Transfer-Encoding vtab", b"GET /one HTTP/1.1\r\nhost: a\r\ntransfer-encoding: \x0bchunked\r\n\r\n0\r\n\r\n", "400"),
    ("Transfer-Encoding space before colon", b"GET /one HTTP/1.1\r\nhost: a\r\ntransfer-encoding : chunked\r\n\r\n0\r\n\r\n", "400"),
    ("Transfer-Encoding folded", b"GET /one HTTP/1.1\r\nhost: a\r\ntransfer-encoding:\r\n chunked\r\n\r\n0\r\n\r\n", "400"),
    ("Transfer-Encoding HTTP/1.0", b"GET /one HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", "400"),
    ("chunk size bad", b"GET /one HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n", "200"),
    ("chunk size neg", b"GET /one HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n-1\r\n\r\n", "200"),
    ("chunk size overflow", b"GET /one HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\nfffffffffffffffff\r\n", "200"),
    ("chunk ext", b"GET /one HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\n\r\n", "200"),
    ("chunk LF", b"GET /one HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n5\nhello\n0\n\n", "200"),
    ("bare LF lines", b"GET /one HTTP/1.1\nhost: a\n\n", "200 404"),
    ("bare CR in header", b"GET /one HTTP/1.1\r\nhost: a\r\nx: a\rb\r\n\r\n", "400"),
    ("NUL in header", b"GET /one HTTP/1.1\r\nhost: a\r\nx: a\x00b\r\n\r\n", "400"),
    ("space in name", b"GET /one HTTP/1.1\r\nhost: a\r\nx y: z\r\n\r\n", "400"),
    ("no colon", b"GET /one HTTP/1.1\r\nhost: a\r\nxyz\r\n\r\n", "400"),
    ("empty name", b"GET /one HTTP/1.1\r\nhost: a\r\n: z\r\n\r\n", "400"),
    ("fold", b"GET /one HTTP/1.1\r\nhost: a\r\nx: a\r\n b\r\n\r\n", "400"),
    ("first header folded", b"GET /one HTTP/1.1\r\n host: a\r\n\r\n", "400"),
    ("no host", b"GET /one HTTP/1.1\r\n\r\n", "400 404"),
    ("two hosts", b"GET /one HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n", "400 404"),
    ("absolute URL", b"GET http://b/one HTTP/1.1\r\nhost: a\r\n\r\n", "200 404"),
    ("absolute URL other scheme", b"GET ftp://b/one HTTP/1.1\r\nhost: a\r\n\r\n", "200 404"),
    ("asterisk GET", b"GET * HTTP/1.1\r\nhost: a\r\n\r\n", "404 404"),
    ("asterisk OPTIONS", b"OPTIONS * HTTP/1.1\r\nhost: a\r\n\r\n", "404 404"),
    ("CONNECT", b"CONNECT a:80 HTTP/1.1\r\nhost: a\r\n\r\n", "404 404"),
    ("TRACE", b"TRACE /one HTTP/1.1\r\nhost: a\r\n\r\n", "405 404"),
    ("POST", b"POST /one HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\nhello", "415 404"),
    ("lower get", b"get /one HTTP/1.1\r\nhost: a\r\n\r\n", "405 404"),
    ("unknown method", b"FOO /one HTTP/1.1\r\nhost: a\r\n\r\n", "405 404"),
    ("HTTP/2.0 line", b"GET /one HTTP/2.0\r\nhost: a\r\n\r\n", "400"),
    ("HTTP/1.2", b"GET /one HTTP/1.2\r\nhost: a\r\n\r\n", "400"),
    ("HTTP/0.9", b"GET /one\r\n\r\n", "400"),
    ("http/1.1 lower", b"GET /one http/1.1\r\nhost: a\r\n\r\n", "400"),
    ("two spaces", b"GET  /one HTTP/1.1\r\nhost: a\r\n\r\n", "400"),
    ("tab", b"GET\t/one HTTP/1.1\r\nhost: a\r\n\r\n", "400"),
    ("space at end", b"GET /one HTTP/1.1 \r\nhost: a\r\n\r\n", "400"),
    ("leading CRLF", b"\r\n\r\nGET /one HTTP/1.1\r\nhost: a\r\n\r\n", "200 404"),
    ("leading space", b" GET /one HTTP/1.1\r\nhost: a\r\n\r\n", "400"),
    ("raw utf8 path", b"GET /\xc3\xa4 HTTP/1.1\r\nhost: a\r\n\r\n", "404 404"),
    ("raw space path", b"GET /a b HTTP/1.1\r\nhost: a\r\n\r\n", "400"),
    ("NUL path", b"GET /\x00 HTTP/1.1\r\nhost: a\r\n\r\n", "400"),
    ("%00 path", b"GET /%00 HTTP/1.1\r\nhost: a\r\n\r\n", "404 404"),
    ("%zz path", b"GET /%zz HTTP/1.1\r\nhost: a\r\n\r\n", "400 404"),
    ("dot dot", b"GET /x/../one HTTP/1.1\r\nhost: a\r\n\r\n", "404 404"),
    ("%2e%2e", b"GET /x/%2e%2e/one HTTP/1.1\r\nhost: a\r\n\r\n", "404 404"),
    ("%2f", b"GET /_rowstream%2flive HTTP/1.1\r\nhost: a\r\n\r\n", "404 404"),
    ("double slash", b"GET //one HTTP/1.1\r\nhost: a\r\n\r\n", "404 404"),
    ("fragment", b"GET /one#x HTTP/1.1\r\nhost: a\r\n\r\n", "200 404"),
    ("upgrade h2c", b"GET /one HTTP/1.1\r\nhost: a\r\nconnection: upgrade, http2-settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABkAAQAAP__\r\n\r\n", "200 404"),
    ("upgrade websocket", b"GET /one HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n", "200 404"),
    ("expect", b"GET /one HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 5\r\n\r\nhello", "200"),
    ("expect other", b"GET /one HTTP/1.1\r\nhost: a\r\nexpect: 200-maybe\r\n\r\n", "200 404"),
    ("conn close then more", b"GET /one HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n", "200"),
    ("conn nominated", b"GET /one HTTP/1.1\r\nhost: a\r\nconnection: host\r\n\r\n", "200 404"),
    ("tls hello", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "400"),
    ("response", b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", "400"),
    ("authority form", b"GET a:80 HTTP/1.1\r\nhost: a\r\n\r\n", "404 404"),
    ("host with path", b"GET /one HTTP/1.1\r\nhost: a/b\r\n\r\n", "200 404"),
    ("host userinfo", b"GET /one HTTP/1.1\r\nhost: u@a\r\n\r\n", "200 404"),
    ("empty host", b"GET /one HTTP/1.1\r\nhost: \r\n\r\n", "200 404"),
];

/// A server with `/one`, and these tables in its configuration.
async fn server(tables: &str) -> Server {
    let config = format!("[source.db]\nurl = \"sqlite:t.db\"\ncreate = [\"t.sql\"]\n{tables}");
    let files = [
        ("rowstream.toml", config.as_str()),
        ("t.sql", "create table t (n)"),
        ("endpoints/one.sql", "select 1 as n"),
    ];
    Launch::files(&files).start().await
}

/// The responses to some bytes, until the connection closes.
async fn answers(server: &Server, bytes: &[u8]) -> String {
    let mut client = TcpStream::connect(server.address()).await.expect("it listens");
    // The server may have closed by now, but its responses count.
    let _ = client.write_all(bytes).await;
    let mut answers = Vec::new();
    let _ = wait("it is closed", client.read_to_end(&mut answers)).await;
    String::from_utf8_lossy(&answers).into_owned()
}

/// The statuses of the responses to some bytes.
async fn statuses(server: &Server, bytes: &[u8]) -> String {
    let answers = answers(server, bytes).await;
    let heads = answers.split("HTTP/1.").skip(1).filter_map(|answer| answer.split(' ').nth(1));
    heads.map(|status| status.chars().take(3).collect::<String>()).collect::<Vec<_>>().join(" ")
}

#[tokio::test]
async fn what_is_in_doubt_is_refused_and_ends_the_connection() {
    let server = server("").await;
    let request = "GET /one HTTP/1.1\r\nhost: a\r\n";
    let long = [
        ("more fields than are read", format!("{request}{}\r\n", "x: y\r\n".repeat(101)), "431"),
        ("a field that is too long", format!("{request}x: {}\r\n\r\n", "a".repeat(17_000)), "431"),
        (
            "a URL that is too long",
            format!("GET /one?{} HTTP/1.1\r\nhost: a\r\n\r\n", "a".repeat(17_000)),
            "431",
        ),
    ];
    let long = long.iter().map(|(what, bytes, expected)| (*what, bytes.as_bytes(), *expected));
    let mut wrong = Vec::new();
    for (what, bytes, expected) in CASES.iter().copied().chain(long) {
        let answered = statuses(&server, &[bytes, SECOND].concat()).await;
        // A reset because of unread bytes can discard the response.
        if answered != expected && !(answered.is_empty() && expected == "431") {
            wrong.push(format!("{what}: {answered} instead of {expected}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// A body that isn't read: its answer promised that the connection stays, but it was closed. A client
/// that waits for `100 Continue` couldn't tell if its next bytes are a body or a request.
#[tokio::test]
async fn a_body_that_is_not_read_ends_its_connection() {
    let server = server("").await;
    let body = "GET /one HTTP/1.1\r\nhost: a\r\n\r\n";
    let length = format!("content-length: {}\r\n", body.len());
    let chunk = format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    for (request, status) in [
        ("POST /missing", 404),
        ("PUT /one", 405),
        ("POST /_rowstream/live", 405),
        ("OPTIONS /one", 204),
        ("HEAD /one", 200),
        ("GET /one", 200),
        ("GET /", 200),
    ] {
        for (framing, body) in [(&*length, body), ("transfer-encoding: chunked\r\n", &*chunk)] {
            for expect in ["", "expect: 100-continue\r\n"] {
                let head = format!("{request} HTTP/1.1\r\nhost: a\r\n{expect}{framing}\r\n");
                let mut client = TcpStream::connect(server.address()).await.expect("it listens");
                client.write_all(head.as_bytes()).await.expect("it reads");
                let mut answered = vec![0; 16];
                wait("it answers", client.read_exact(&mut answered)).await.expect("the begin of a head");
                // The server may have closed by now.
                let _ = client.write_all(body.as_bytes()).await;
                let _ = wait("it is closed", client.read_to_end(&mut answered)).await;
                let answered = String::from_utf8_lossy(&answered);
                assert!(answered.starts_with(&format!("HTTP/1.1 {status} ")), "{head}{answered}");
                assert!(answered.contains("\r\nconnection: close\r\n"), "{head}{answered}");
                assert_eq!(answered.matches("HTTP/1.1 ").count(), 1, "{head}{answered}");
            }
        }
    }
}

/// A quotation mark in a URL got a response with `content-length: 0` and left no trace: no line in
/// the log, no count, and no hint.
#[tokio::test]
async fn requests_that_cannot_be_read_are_explained_logged_and_counted() {
    let server = server("[cors]\norigins = [\"*\"]\n[log]\nformat = \"json\"\n").await;
    let one = "GET /one HTTP/1.1\r\nhost: a\r\n";
    // As long as the buffer, so all of it is read, and no reset discards the response.
    let long = &format!("{one}x: {}", "a".repeat(16 * 1024))[..16 * 1024];
    for (request, before, code, status) in [
        ("GET /one?q=\"a\" HTTP/1.1\r\nhost: a\r\n\r\n", "", "malformed_request", 400),
        ("BLAH\r\n\r\n", "", "malformed_request", 400),
        (&format!("{one}\r\nBLAH\r\n\r\n"), "[{\"n\":1}]", "malformed_request", 400),
        (&format!("{one}{}\r\n", "x: y\r\n".repeat(101)), "", "headers_too_long", 431),
        (long, "", "headers_too_long", 431),
    ] {
        let answers = answers(&server, request.as_bytes()).await;
        let at =
            answers.find(&format!("HTTP/1.1 {status} ")).unwrap_or_else(|| panic!("{request}: {answers}"));
        let (head, body) = answers[at..].split_once("\r\n\r\n").expect("a head has an end");
        assert!(answers[..at].ends_with(before), "{answers}");
        for field in [
            "connection: close",
            "content-type: application/problem+json",
            "access-control-allow-origin: *",
            &format!("content-length: {}", body.len()),
            "date: ",
        ] {
            assert!(head.contains(&format!("\r\n{field}")), "{field}: {head}");
        }
        let problem: Value = serde_json::from_str(body).expect("a problem document");
        assert_eq!((&problem["code"], &problem["status"]), (&json!(code), &json!(status)), "{problem}");
        assert!(problem["hint"].is_string(), "{problem}");
    }
    let is_unread = |line: &Value| line["method"] == "-" && line["target"] == "-";
    wait_until("five lines are logged", async || {
        server.stdout().matches("\"-\",\"target\":\"-\"").count() == 5
    })
    .await;
    let log = server.stdout();
    let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).expect("an object"));
    let lines: Vec<_> = lines.filter(is_unread).collect();
    assert_eq!(lines.len(), 5, "{log}");
    for line in lines {
        assert_eq!((&line["address"], &line["version"]), (&json!("127.0.0.1"), &json!("HTTP/1.1")), "{line}");
        assert_eq!(line["outcome"], "client_error", "{line}");
        assert!(line["code"].is_string(), "{line}");
    }
    let metrics = get(&server.url("/_rowstream/metrics")).await;
    let count = "rowstream_requests_total{endpoint=\"none\",format=\"none\",protocol=\"HTTP/1.1\",outcome=\"client_error\"} 5\n";
    assert!(metrics.text().contains(count), "{}", metrics.text());
}

/// Over HTTP/2 the library responds itself. There has to be a response, and the connection stays
/// usable.
#[tokio::test]
async fn fields_of_http2_that_are_too_long_are_431() {
    let server = server("").await;
    let request = http::Request::get(server.url("/one")).header("x", "a".repeat(17_000));
    let reply = Client::H2C.send(request.body(String::new()).expect("a request")).await;
    assert_eq!(reply.status, 431);
}
