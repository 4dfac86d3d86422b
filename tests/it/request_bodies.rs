//! Parameters in the bodies of requests, over HTTP/1.1 and HTTP/2. HTTP/3 has its own tests.

use std::time::Duration;

use http::Request;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{Client, MariaDb, Reply, Server, TestDb, peak_memory_bytes, sha256};

/// The rows with one of these ids, in SQLite.
const SQLITE: &str = "/*
key = [\"id\"]
filter = true
sort = true
select = true
[params]
ids = { type = \"integer[]\", optional = true }
n   = { type = \"integer\", optional = true }
*/
select id, name, price from item
where :ids is null or id in (select value from json_each(:ids))
order by id
limit :n";
/// A parameter of each kind.
const ECHO: &str = "/*
result = \"one\"
[params]
t = { type = \"text\", optional = true }
d = { type = \"number\", optional = true }
b = { type = \"boolean\", optional = true }
j = { type = \"json\", optional = true }
l = { type = \"text[]\", optional = true }
*/
select cast(:t as text) as t, cast(:d as text) as d, cast(:b as integer) as b, cast(:j as text) as j, cast(:l as text) as l";
const ITEMS: &str = "create table item(id integer primary key, name text, price numeric);
    with recursive n(n) as (select 1 union all select n + 1 from n where n < 200000)
    insert into item select n, 'name ' || n, n * 1.5 from n;";
const JSON: &str = "application/json";
const FORM: &str = "application/x-www-form-urlencoded";

async fn server(settings: &str) -> Server {
    let config = format!("{settings}\n[source.db]\nurl = \"sqlite:t.db\"\ncreate = [\"items.sql\"]\n");
    let files = [
        ("rowstream.toml", &*config),
        ("items.sql", ITEMS),
        ("endpoints/items.sql", SQLITE),
        ("endpoints/echo.sql", ECHO),
    ];
    Server::start(&files).await
}

async fn send(
    (client, server): (Client, &Server),
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Reply {
    let mut request = Request::builder().method(method).uri(server.url(path));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    client.send(request.body(body.to_owned()).expect("a request")).await
}

async fn query(server: &Server, path: &str, body: &Value) -> Reply {
    send((Client::HTTP1, server), "QUERY", path, &[("content-type", JSON)], &body.to_string()).await
}

fn ids(reply: &Reply) -> Vec<i64> {
    let rows = reply.json();
    let rows = rows.as_array().unwrap_or_else(|| panic!("{}", reply.text()));
    rows.iter().map(|row| row["id"].as_i64().expect("an id")).collect()
}

/// Each answer is that of the GET with the same parameters.
#[tokio::test]
async fn a_body_has_the_answer_of_a_get() {
    let server = server("").await;
    for (path, get, json, form) in [
        ("/items", "ids=1,3", json!({"ids": [1, 3]}), "ids=1&ids=3"),
        ("/items.csv", "n=3", json!({"n": 3}), "n=3"),
        // JavaScript, Lua and spreadsheets write an integer like this.
        ("/items", "ids=1,3&n=1", json!({"ids": [1.0, 3.0], "n": 1.0}), "ids=1,3&n=1"),
        (
            "/items",
            "ids=7&_numbers=string",
            json!({"ids": "7", "_numbers": "string"}),
            "ids=7&_numbers=string",
        ),
        (
            "/items",
            "id=in.(5,9)&order=id.desc",
            json!({"id": "in.(5,9)", "order": "id.desc"}),
            "id=in.(5,9)&order=id.desc",
        ),
        (
            "/items",
            "id=gt.5&id=lt.8&select=id",
            json!({"id": ["gt.5", "lt.8"], "select": "id"}),
            "id=gt.5&id=lt.8&select=id",
        ),
        ("/echo", "t=a%26b%C3%A9&b=true", json!({"t": "a&bé", "b": true}), "t=a%26b%C3%A9&b=true"),
        (
            "/echo",
            "d=0.100000000000000005551",
            json!({"d": "0.100000000000000005551"}),
            "d=0.100000000000000005551",
        ),
        ("/echo", "l=a,b&l=c", json!({"l": ["a,b", "c"]}), "l=a%2Cb&l=c"),
        ("/echo", "j=%7B%22a%22%3A1%7D", json!({"j": {"a": 1}}), "j=%7B%22a%22%3A1%7D"),
        ("/echo", "", json!({"t": null}), ""),
        ("/echo", "", json!({"_format": null, "_count": null}), ""),
        (
            "/items",
            "n=2",
            json!({"n": 2, "_count": null, "offset": null, "select": null, "order": null}),
            "n=2",
        ),
        ("/items?n=2", "ids=1,2,3", json!({"ids": [1, 2, 3]}), "ids=1,2,3"),
    ] {
        let separator = if path.contains('?') { '&' } else { '?' };
        for client in [Client::HTTP1, Client::H2C] {
            let expected = client.get(&server.url(&format!("{path}{separator}{get}"))).await;
            assert_eq!(expected.status, 200, "{path} {get}: {}", expected.text());
            for method in ["QUERY", "POST"] {
                for (kind, body) in [(JSON, &*json.to_string()), (FORM, form)] {
                    let reply = send((client, &server), method, path, &[("content-type", kind)], body).await;
                    assert_eq!(reply.text(), expected.text(), "{method} {path} {kind} {body}");
                    for name in ["content-type", "rowstream-page"] {
                        assert_eq!(reply.header(name), expected.header(name), "{method} {path} {body}");
                    }
                }
            }
        }
    }
    let empty = send((Client::HTTP1, &server), "POST", "/items?n=1", &[], "").await;
    assert_eq!(ids(&empty), [1]);
}

/// A URL has room for 2,000 ids.
#[tokio::test]
async fn a_hundred_thousand_ids_are_asked_at_once() {
    let server = server("memory = \"512MB\"").await;
    let wanted: Vec<i64> = (0..100_000).map(|n| 2 * n + 1).collect();
    for client in [Client::HTTP1, Client::H2C] {
        let body = json!({ "ids": wanted }).to_string();
        let reply =
            send((client, &server), "QUERY", "/items?select=id", &[("content-type", JSON)], &body).await;
        assert_eq!(ids(&reply), wanted);
    }
    let form: Vec<_> = wanted.iter().map(|id| format!("ids={id}")).collect();
    let headers = [("content-type", FORM)];
    let reply =
        send((Client::HTTP1, &server), "POST", "/items?select=id", &headers, &form[..50_000].join("&")).await;
    assert_eq!(ids(&reply), wanted[..50_000]);
}

#[tokio::test]
async fn lists_reach_postgresql_and_mariadb() {
    let wanted: Vec<i64> = (0..50_000).map(|n| 2 * n + 1).collect();
    let postgres = TestDb::new().await;
    postgres.execute("create table item as select n::int as id from generate_series(1, 100000) n").await;
    let mariadb = MariaDb::new(
        "create table item (id integer primary key); insert into item select seq from seq_1_to_100000",
    );
    const PARAMS: &str = "/*\nkey = [\"id\"]\n[params]\nids = { type = \"integer[]\" }\n*/\n";
    for (url, condition) in [
        (postgres.url(), "id = any(:ids)"),
        (mariadb.url(), "id in (select i from json_table(:ids, '$[*]' columns (i integer path '$')) j)"),
    ] {
        let config = format!("[source.db]\nurl = \"{url}\"\n");
        let sql = format!("{PARAMS}select id from item where {condition} order by id");
        let server = Server::start(&[("rowstream.toml", &*config), ("endpoints/items.sql", &*sql)]).await;
        assert_eq!(ids(&query(&server, "/items", &json!({ "ids": wanted })).await), wanted, "{condition}");
    }
}

/// A cursor of one method continues the rows of another.
#[tokio::test]
async fn pages_follow_a_body() {
    let server = server("cursor_secret = \"0123456789abcdef0123456789abcdef\"").await;
    let body = json!({"ids": [2, 4, 6, 8, 10], "n": 2});
    let first = query(&server, "/items", &body).await;
    let link = first.header("link").expect("a next page");
    let next = link.strip_prefix("<").and_then(|link| link.split_once('>')).expect("a target").0.to_owned();
    assert_eq!(ids(&first), [2, 4]);
    let second = query(&server, &format!("/items{next}"), &body).await;
    assert_eq!(ids(&second), [6, 8]);
    let of_get = Client::HTTP1.get(&server.url(&format!("/items{next}&ids=2,4,6,8,10&n=2"))).await;
    assert_eq!(ids(&of_get), [6, 8]);
    let other = query(&server, &format!("/items{next}"), &json!({"ids": [1], "n": 2})).await;
    assert_eq!((other.status.as_u16(), &other.json()["code"]), (400, &json!("invalid_cursor")));
}

#[tokio::test]
async fn wrong_bodies_are_refused() {
    let server = server("max_body = \"1KiB\"").await;
    let long = format!("{{\"t\": \"{}\"}}", "x".repeat(1100));
    let deep = format!("{{\"j\": {}1{}}}", "[".repeat(400), "]".repeat(400));
    let coded = [("content-type", JSON), ("content-encoding", "gzip")];
    let twice = [("content-type", "application/x-www-form-urlencoded"), ("content-type", JSON)];
    for (path, headers, body, status, code, said) in [
        ("/echo", &[("content-type", JSON)][..], "[1]", 400, "invalid_body", "not a JSON object"),
        ("/echo", &[("content-type", JSON)], "{\"t\": 1", 400, "invalid_body", "not a JSON object"),
        ("/echo", &[("content-type", JSON)], "{\"t\": 1} {}", 400, "invalid_body", "not a JSON object"),
        ("/echo", &[("content-type", JSON)], &deep, 400, "invalid_parameter", "100 levels deep"),
        ("/echo", &[("content-type", JSON)], &long, 413, "body_too_long", "1024 bytes"),
        ("/echo", &[("content-type", "text/plain")], "t=1", 415, "unsupported_media_type", "text/plain"),
        (
            "/echo",
            &[("content-type", "application/json; charset=latin1")],
            "{}",
            415,
            "unsupported_media_type",
            "latin1",
        ),
        ("/echo", &[], "t=1", 415, "unsupported_media_type", "no `Content-Type`"),
        ("/echo", &twice, "t=1", 415, "unsupported_media_type", "two `Content-Type` headers"),
        ("/echo", &coded, "{}", 415, "unsupported_media_type", "gzip"),
        (
            "/echo?t=1",
            &[("content-type", JSON)],
            "{\"t\": 1}",
            400,
            "invalid_parameter",
            "both in the URL and in the body",
        ),
        (
            "/items?order=id",
            &[("content-type", JSON)],
            "{\"order\": \"id\"}",
            400,
            "invalid_parameter",
            "both in the URL and in the body",
        ),
        ("/items", &[("content-type", JSON)], "{\"n\": 3.5}", 400, "invalid_parameter", "not an integer"),
        ("/items?n=3.0", &[], "", 400, "invalid_parameter", "not an integer"),
        ("/echo", &[("content-type", JSON)], "{\"x\": 1}", 400, "invalid_parameter", "`x`"),
        ("/echo", &[("content-type", JSON)], "{\"t\": {}}", 400, "invalid_parameter", "an object"),
        ("/echo", &[("content-type", JSON)], "{\"t\": [\"a\"]}", 400, "invalid_parameter", "a list"),
        (
            "/echo",
            &[("content-type", JSON)],
            "{\"t\": 1, \"t\": 2}",
            400,
            "invalid_parameter",
            "more than once",
        ),
        ("/echo", &[("content-type", JSON)], "{\"t\": \"a\\u0000\"}", 400, "invalid_parameter", "NUL"),
        ("/items", &[("content-type", JSON)], "{\"id\": {}}", 400, "invalid_parameter", "an object"),
        ("/items", &[("content-type", JSON)], "{\"id\": []}", 400, "invalid_parameter", "an empty list"),
        ("/items", &[("content-type", JSON)], "{\"id\": null}", 400, "invalid_parameter", "is.null"),
        ("/items", &[("content-type", JSON)], "{\"nope\": null}", 400, "invalid_parameter", "or column"),
        ("/items", &[("content-type", JSON)], "{\"_nope\": null}", 400, "invalid_parameter", "`_nope`"),
        (
            "/items",
            &[("content-type", JSON)],
            "{\"limit\": null, \"limit\": 1}",
            400,
            "invalid_parameter",
            "more than once",
        ),
        (
            "/echo",
            &[("content-type", JSON)],
            "{\"_format\": null, \"_format\": \"csv\"}",
            400,
            "invalid_parameter",
            "more than once",
        ),
        ("/echo", &[("content-type", JSON), ("content-encoding", "Identity")], "{}", 200, "", ""),
        ("/echo", &[("content-type", FORM)], "t=%ZZ", 400, "invalid_parameter", "percent-encoding"),
        ("/_rowstream/live", &[("content-type", JSON)], "{}", 405, "method_not_allowed", "GET"),
    ] {
        for client in [Client::HTTP1, Client::H2C] {
            let reply = send((client, &server), "POST", path, headers, body).await;
            assert_eq!(reply.status.as_u16(), status, "{path} {body}: {}", reply.text());
            if status != 200 {
                assert_eq!(reply.json()["code"], code, "{path} {body}");
                assert!(reply.text().contains(said), "{path} {body}: {}", reply.text());
            }
        }
    }
    let many = vec!["id=gt.1"; 120].join("&");
    let reply = send((Client::HTTP1, &server), "POST", "/items", &[("content-type", FORM)], &many).await;
    assert_eq!((reply.status.as_u16(), &reply.json()["code"]), (400, &json!("invalid_parameter")));
}

/// The head of a POST to `/echo`, and the first bytes of its body. Returns what the server sends
/// until it closes the connection.
async fn half_a_body(server: &Server, head: &str, body: &[u8]) -> String {
    let mut socket = TcpStream::connect(server.address()).await.expect("it connects");
    let head = format!("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Type: {JSON}\r\n{head}\r\n\r\n");
    socket.write_all(head.as_bytes()).await.expect("it's sent");
    socket.write_all(body).await.expect("it's sent");
    let mut answer = Vec::new();
    let _ = socket.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

/// The server doesn't wait for a client that announces a body and sends it slowly, or not at all. It
/// refuses a body that is too long before all of it has arrived.
#[tokio::test]
async fn slow_and_endless_bodies_end() {
    let server = server("header_timeout = \"300ms\"\nmax_body = \"1KiB\"").await;
    let slow = half_a_body(&server, "Content-Length: 10", b"{\"t\":").await;
    assert!(slow.starts_with("HTTP/1.1 408 ") && slow.contains("body_timeout"), "{slow}");
    let chunked = half_a_body(&server, "Transfer-Encoding: chunked", b"5\r\n{\"t\":\r\n").await;
    assert!(chunked.starts_with("HTTP/1.1 408 "), "{chunked}");
    let announced = half_a_body(&server, "Content-Length: 1000000000", b"").await;
    assert!(announced.starts_with("HTTP/1.1 413 ") && announced.contains("body_too_long"), "{announced}");
    let endless = [b"1000\r\n".as_slice(), &[b'x'; 0x1000]].concat();
    let endless = half_a_body(&server, "Transfer-Encoding: chunked", &endless).await;
    assert!(endless.starts_with("HTTP/1.1 413 "), "{endless}");
}

/// The first bytes of the answer to a client that waits for `100 Continue` before it sends its body.
pub(crate) async fn answer_to_head(server: &Server, target: &str, headers: &str) -> String {
    let mut socket = TcpStream::connect(server.address()).await.expect("it connects");
    let head = format!("POST {target} HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n{headers}\r\n\r\n");
    socket.write_all(head.as_bytes()).await.expect("it's sent");
    let mut answer = [0; "HTTP/1.1 100 Continue".len()];
    let read = tokio::time::timeout(Duration::from_secs(4), socket.read_exact(&mut answer)).await;
    assert!(read.is_ok(), "{target}: an answer");
    String::from_utf8_lossy(&answer).into_owned()
}

/// A client that waits for `100 Continue` before it sends its body got that, and only then a refusal
/// that the head had already decided.
#[tokio::test]
async fn a_head_is_refused_without_its_body() {
    let open = server("max_body = \"1KiB\"").await;
    let closed = format!("authorization = [\"reader\"]\n[token.reader]\nsha256 = \"{}\"", sha256("secret"));
    let closed = server(&closed).await;
    for (server, target, headers, status) in [
        (&open, "/echo", "Content-Type: text/plain\r\nContent-Length: 3", "415 "),
        (&open, "/echo", "Content-Type: text/plain\r\nTransfer-Encoding: chunked", "415 "),
        (&open, "/echo", "Content-Type: application/json\r\nContent-Length: 5000", "413 "),
        (&open, "/nothing", "Content-Type: application/json\r\nContent-Length: 2", "404 "),
        (&open, "/echo", "Content-Type: application/json\r\nContent-Length: 2", "100 Continue"),
        (&open, "/echo?_format=xml", "Content-Type: application/json\r\nContent-Length: 2", "406 "),
        (&open, "/items?_format=xml", "Content-Type: application/json\r\nContent-Length: 2", "406 "),
        (&open, "/echo.xml", "Content-Type: application/json\r\nContent-Length: 2", "406 "),
        (&open, "/echo.csv", "Content-Type: application/json\r\nContent-Length: 2", "100 Continue"),
        // The body may choose a format with `_format`.
        (
            &open,
            "/echo",
            "Accept: image/png\r\nContent-Type: application/json\r\nContent-Length: 2",
            "100 Continue",
        ),
        (&closed, "/echo", "Content-Type: application/json\r\nContent-Length: 2", "401 "),
    ] {
        let answer = answer_to_head(server, target, headers).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{target} {headers}: {answer}");
    }
    let accept = [("content-type", JSON), ("accept", "image/png")];
    let reply =
        send((Client::HTTP1, &open), "POST", "/echo", &accept, r#"{"t": "a", "_format": "csv"}"#).await;
    assert_eq!(reply.status.as_u16(), 200, "{}", reply.text());
}

/// A client that left within its body counted as one that sent an invalid body.
#[tokio::test]
async fn a_client_that_leaves_within_its_body_has_made_no_mistake() {
    let server = server("[log]\nformat = \"json\"").await;
    for (target, framing, body, ended) in [
        ("/echo?t=length", "Content-Length: 10", "{\"t\":", "aborted"),
        ("/echo?t=chunk", "Transfer-Encoding: chunked", "a\r\n{\"t\":", "aborted"),
        ("/echo?t=wrong", "Transfer-Encoding: chunked", "xyz\r\n", "client_error"),
    ] {
        let mut socket = TcpStream::connect(server.address()).await.expect("it connects");
        let head = format!("POST {target} HTTP/1.1\r\nHost: x\r\nContent-Type: {JSON}\r\n{framing}\r\n\r\n");
        socket.write_all(format!("{head}{body}").as_bytes()).await.expect("it's sent");
        socket.shutdown().await.expect("it's sent");
        let line = log_line(&server, target).await;
        assert_eq!(line["outcome"], ended, "{line}");
        assert_eq!(line["status"].is_null(), ended == "aborted", "{line}");
    }
    for (target, leaves) in [("/echo?t=reset", true), ("/echo?t=closed", false)] {
        let socket = TcpStream::connect(server.address()).await.expect("it connects");
        let (mut client, connection) = h2::client::handshake(socket).await.expect("HTTP/2");
        let driven = tokio::spawn(connection);
        let post = Request::post(server.url(target)).header("content-type", JSON);
        let (_answer, mut body) =
            client.send_request(post.body(()).expect("a request"), false).expect("a stream");
        body.send_data("{\"t\":".into(), false).expect("a part of the body");
        // The server answers this one after it has begun to read the body.
        let other = Request::get(server.url("/echo")).body(()).expect("a request");
        let (other, _) = client.send_request(other, true).expect("a stream");
        assert_eq!(other.await.expect("an answer").status(), 200);
        match leaves {
            true => body.send_reset(h2::Reason::CANCEL),
            false => driven.abort(),
        }
        let line = log_line(&server, target).await;
        assert_eq!((&line["outcome"], &line["status"]), (&json!("aborted"), &Value::Null), "{line}");
    }
    let metrics = Client::HTTP1.get(&server.url("/_rowstream/metrics")).await;
    for (protocol, ended, count) in
        [("HTTP/1.1", "aborted", 2), ("HTTP/1.1", "client_error", 1), ("HTTP/2", "aborted", 2)]
    {
        let counted: u64 = metrics
            .text()
            .lines()
            .filter(|line| {
                line.starts_with("rowstream_requests_total{endpoint=\"/echo\"")
                    && line.contains(&format!("protocol=\"{protocol}\",outcome=\"{ended}\""))
            })
            .map(|line| line.rsplit(' ').next().expect("a count").parse::<u64>().expect("a number"))
            .sum();
        assert_eq!(counted, count, "{protocol} {ended}: {}", metrics.text());
    }
}

/// The line of the log about a request to `target`, once there's one.
async fn log_line(server: &Server, target: &str) -> Value {
    let line = || {
        let log = server.stdout();
        let mut lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.find(|line| line["target"] == target)
    };
    crate::support::wait_until("it's logged", async || line().is_some()).await;
    line().expect("it's logged")
}

/// A long name was copied for each element of its list, so that one request took gigabytes. A long
/// list of columns was kept for later requests.
#[tokio::test]
async fn a_short_body_takes_little_memory() {
    let server = server("memory = \"192MB\"").await;
    let long = "n".repeat(4000);
    let repeated = query(&server, "/items", &json!({ &*long: vec![1; 400_000] })).await;
    assert_eq!((repeated.status.as_u16(), &repeated.json()["code"]), (400, &json!("too_many_parameters")));
    let names: Vec<_> = (0..20_000).map(|n| format!("a{n}:id")).collect();
    let selected = query(&server, "/items", &json!({ "select": names.join(",") })).await;
    assert_eq!((selected.status.as_u16(), &selected.json()["code"]), (400, &json!("invalid_parameter")));
    let most = peak_memory_bytes(server.pid());
    assert!(most < 192_000_000, "{most} bytes");
}

/// Bodies count in `memory`, also those that don't arrive, and the memory is given back.
#[tokio::test]
async fn bodies_count_in_memory() {
    let server = server("memory = \"128MB\"\nmax_body = \"64MB\"\nheader_timeout = \"1h\"").await;
    let values = json!({ "ids": vec![1; 1_000_000] });
    let refused = query(&server, "/items", &values).await;
    assert_eq!((refused.status.as_u16(), &refused.json()["code"]), (413, &json!("body_too_long")));
    assert!(refused.text().contains("raise `memory`"), "{}", refused.text());
    let mut waiting = Vec::new();
    for _ in 0..8 {
        let mut socket = TcpStream::connect(server.address()).await.expect("it connects");
        let head = format!(
            "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Type: {JSON}\r\nContent-Length: 60000000\r\n\r\n"
        );
        socket.write_all(head.as_bytes()).await.expect("it's sent");
        let blanks = vec![b' '; 20_000_000];
        let _ = tokio::time::timeout(Duration::from_secs(2), socket.write_all(&blanks)).await;
        waiting.push(socket);
    }
    drop(waiting);
    crate::support::wait_until("the memory is given back", async || {
        query(&server, "/items", &json!({"ids": [1]})).await.status == 200
    })
    .await;
}

#[tokio::test]
async fn browsers_may_ask_with_a_body() {
    let server = server("[cors]\norigins = [\"https://a.example\"]").await;
    let preflight = [
        ("origin", "https://a.example"),
        ("access-control-request-method", "QUERY"),
        ("access-control-request-headers", "content-type"),
    ];
    let reply = send((Client::HTTP1, &server), "OPTIONS", "/items", &preflight, "").await;
    assert_eq!(reply.header("access-control-allow-methods"), Some("GET, HEAD, QUERY, POST, OPTIONS"));
    assert_eq!(reply.header("access-control-allow-headers"), Some("content-type"));
    let headers = [("origin", "https://a.example"), ("content-type", JSON)];
    let reply = send((Client::HTTP1, &server), "QUERY", "/items", &headers, r#"{"ids": [1]}"#).await;
    assert_eq!(reply.header("access-control-allow-origin"), Some("https://a.example"));
}
