//! Lists from upstreams: replies that are split into rows while they arrive, and consecutive pages,
//! with real servers.

use std::fmt::Write as _;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::support::upstream::{Asked, Payload, Seen, Speaks, Upstream, reply, stream};
use crate::support::{
    Client, Ended, Launch, Reply, Server, get, peak_memory_bytes, rowstream, wait, wait_until,
};
use bytes::Bytes;
use futures_util::stream as pieces;
use http::{Method, Response, StatusCode};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

const JSON: &str = "application/json";

fn launch(head: &str, url: &str, settings: &str, endpoints: &[(&str, &str)]) -> Launch {
    let config = format!("{head}\n[source.up]\nurl = \"{url}\"\n{settings}\n");
    let names: Vec<_> = endpoints.iter().map(|(name, _)| format!("endpoints/{name}.toml")).collect();
    let files = names.iter().zip(endpoints).map(|(name, (_, text))| (name.as_str(), *text));
    Launch::files(&[("rowstream.toml", config.as_str())].into_iter().chain(files).collect::<Vec<_>>())
}

/// A server with one source, `up`, these settings and these endpoints.
async fn server(upstream: &Upstream, settings: &str, endpoints: &[(&str, &str)]) -> Server {
    launch("", &format!("http://{}", upstream.address()), settings, endpoints).start().await
}

/// An HTTP/1.1 upstream that answers requests with `answer`.
async fn upstream(answer: impl Fn(&Asked) -> Response<Payload> + Send + Sync + 'static) -> Upstream {
    Upstream::start(Speaks::Http1, move |_, asked| {
        let answer = answer(&asked);
        async move { answer }
    })
    .await
}

/// An endpoint that reads a list of `id`s.
fn list(request: &str, more: &str) -> String {
    format!("[upstream]\nrequest = '{request}'\nrows = '/items'\ncolumns = {{ id = 'integer' }}\n{more}\n")
}

fn assert_problem(reply: &Reply, status: u16, code: &str) {
    assert_eq!((reply.status.as_u16(), &reply.ended), (status, &Ended::Complete), "{}", reply.text());
    assert_eq!(reply.json()["code"], code, "{}", reply.text());
}

/// The `id`s of a complete response.
fn ids(reply: &Reply) -> Vec<i64> {
    assert_eq!((reply.status, &reply.ended), (StatusCode::OK, &Ended::Complete), "{}", reply.text());
    let rows = reply.json();
    rows.as_array().expect("a list").iter().map(|row| row["id"].as_i64().expect("a number")).collect()
}

/// The value of a query parameter.
fn parameter<'a>(asked: &'a Asked, name: &str) -> Option<&'a str> {
    let (_, query) = asked.target.split_once('?')?;
    query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
}

/// A page with these rows.
fn page(ids: std::ops::Range<u64>, more: &Value) -> Response<Payload> {
    let mut page = json!({ "items": ids.map(|id| json!({ "id": id })).collect::<Vec<_>>() });
    for (name, value) in more.as_object().expect("members") {
        page[name] = value.clone();
    }
    reply(200, JSON, page.to_string())
}

const ORDERS: &str = r#"
[upstream]
request = "GET /orders"
rows    = "/items"
[upstream.columns]
id      = "integer"
name    = "text"
total   = "decimal(20, 2)"
rate    = "decimal"
part    = "float"
done    = "boolean"
day     = "date"
at      = "timestamp"
uid     = "uuid"
details = "json"
city    = { type = "text", at = "/address/ci~1ty" }
second  = { type = "integer", at = "/list/1" }
"#;

const ORDER: &str = r#"{ "total" : 123456789012345678.10, "more":[{"id":0}], "id": 9007199254740993,
    "name":"a \"b\"\n\u00e4\ud83d\ude00", "rate":"0.10", "part":1.5e3, "done":true, "day":"2024-02-29",
    "at":"2024-02-29T12:30:00.000001+02:00", "uid":"6ba7b810-9dad-11d1-80b4-00c04fd430c8",
    "details": {"id" : 1.50,
    "x":[ ]}, "address":{"ci\u002fty":"Köln"}, "list":[1,2,3]}"#;

#[tokio::test]
async fn a_list_is_rows_in_every_format() {
    let upstream = upstream(|_| {
        reply(200, JSON, format!("{{\"count\":2,\n\"items\":[{ORDER},\n{{\"id\":1,\"name\":null}} ],\"links\":{{\"items\":[1]}}}}"))
    })
    .await;
    let body = format!("body = {{ orders = '$rows', count = '$count' }}\n{ORDERS}");
    let server = server(&upstream, "", &[("orders", ORDERS), ("body", &body)]).await;
    let rows = get(&server.url("/orders")).await;
    let first = concat!(
        r#"{"id":9007199254740993,"name":"a \"b\"\nä😀","total":123456789012345678.10,"rate":0.10,"part":1500,"done":true,"#,
        r#""day":"2024-02-29","at":"2024-02-29T10:30:00.000001Z","uid":"6ba7b810-9dad-11d1-80b4-00c04fd430c8","#,
        r#""details":{"id" : 1.50,LINE"x":[ ]},"city":"Köln","second":2}"#
    );
    let second = r#"{"id":1,"name":null,"total":null,"rate":null,"part":null,"done":null,"day":null,"at":null,"uid":null,"details":null,"city":null,"second":null}"#;
    assert_eq!(rows.text(), format!("[{},{second}]", first.replace("LINE", "\n    ")));
    assert_eq!(rows.ended, Ended::Complete);
    let lines = get(&server.url("/orders.ndjson?_end=1")).await;
    let lines: Vec<_> = lines.text().lines().collect();
    assert_eq!(lines[1..3], [first.replace("LINE", "     "), second.to_owned()]);
    assert_eq!(serde_json::from_str::<Value>(lines[3]).unwrap()["end"]["rows"], 2, "{lines:?}");
    let types = concat!(
        r#""columns":[{"name":"id","type":"int64"},{"name":"name","type":"string"},{"name":"total","type":"decimal"},"#,
        r#"{"name":"rate","type":"decimal"},{"name":"part","type":"double"},{"name":"done","type":"boolean"},"#,
        r#"{"name":"day","type":"date"},{"name":"at","type":"date-time"},{"name":"uid","type":"uuid"},"#,
        r#"{"name":"details","type":"json"},{"name":"city","type":"string"},{"name":"second","type":"int64"}]}"#
    );
    assert!(lines[0].ends_with(types), "{}", lines[0]);
    let body = get(&server.url("/body")).await.json();
    assert_eq!((&body["count"], body["orders"].as_array().unwrap().len()), (&json!(2), 2));
    let text = get(&server.url("/orders.csv")).await;
    let records: Vec<_> =
        csv::Reader::from_reader(&text.body[..]).into_records().map(Result::unwrap).collect();
    assert_eq!(
        (&records[0][0], &records[0][2], &records[0][10]),
        ("9007199254740993", "123456789012345678.10", "Köln")
    );
    assert_eq!(&records[1][1], "");
    assert_eq!(get(&server.url("/orders.sse")).await.text().matches("data:").count(), 2);
    let arrow = get(&server.url("/orders.arrow")).await;
    assert_eq!(
        (arrow.status, &arrow.ended),
        (StatusCode::OK, &Ended::Complete),
        "{}",
        String::from_utf8_lossy(&arrow.body)
    );
    let exact = 9_007_199_254_740_993_i64.to_le_bytes();
    assert!(arrow.body.windows(8).any(|bytes| bytes == exact), "integers are exact");
    let head = http::Request::head(server.url("/orders")).body(String::new()).unwrap();
    let asked = upstream.asked().len();
    assert_eq!(Client::HTTP1.send(head).await.status, StatusCode::OK);
    assert_eq!(upstream.asked().len(), asked, "HEAD asks for nothing");
}

#[tokio::test]
async fn replies_have_many_shapes() {
    for (kind, body, rows, expected) in [
        (JSON, r#"[{"id":1},{"id":2}]"#, "''", Ok(vec![1, 2])),
        (
            JSON,
            r#"{"hits":{"total":{"value":2},"hits":[{"id":1},{"id":2}]}}"#,
            "'/hits/hits'",
            Ok(vec![1, 2]),
        ),
        (JSON, r#"{"data":[[1,"x"],[2]]}"#, "'/data'", Ok(vec![1, 2])),
        (JSON, r#"{"data":[]}"#, "'/data'", Ok(vec![])),
        (JSON, r#"{"stats":{}}"#, "{ at = '/data', optional = true }", Ok(vec![])),
        (JSON, r#"{"data":null}"#, "{ at = '/data', optional = true }", Ok(vec![])),
        ("application/x-ndjson", "{\"id\":1}\n\n{\"id\":2}\n", "''", Ok(vec![1, 2])),
        ("application/JSONL; charset=utf-8", "{\"id\":1}\n{\"id\":2}", "'/data'", Ok(vec![1, 2])),
        ("application/x-ndjson", "", "''", Ok(vec![])),
        (JSON, r#"{"id":"3"}"#, "''", Err("without an array in the place of its rows")),
        (
            JSON,
            r#"{"error":"no such index"}"#,
            "'/data'",
            Err("without rows: it has no value in their place"),
        ),
        (JSON, r#"{"data":null}"#, "'/data'", Err("without rows: it has no value in their place")),
        (JSON, "", "''", Err("truncated: its JSON doesn't end")),
        ("text/html", "<html></html>", "''", Err("invalid JSON from byte 0 on")),
        (
            JSON,
            r#"{"data":[1]}"#,
            "'/data'",
            Err("row 1 of source `up`: it is neither an object nor an array"),
        ),
    ] {
        let upstream = upstream(move |_| reply(200, kind, body)).await;
        let endpoint = list("GET /", "").replace("'/items'", rows);
        let server = server(&upstream, "", &[("list", &endpoint)]).await;
        let reply = get(&server.url("/list")).await;
        match expected {
            Ok(expected) => assert_eq!(ids(&reply), expected, "{body}"),
            Err(words) => {
                assert_problem(&reply, 502, "upstream_reply");
                assert!(reply.text().contains(words), "{words}: {}", reply.text());
            }
        }
    }
}

#[tokio::test]
async fn what_was_compressed_unasked_is_not_taken_for_json() {
    let upstream = upstream(|_| {
        let mut response = page(0..1, &json!({}));
        response.headers_mut().insert("content-encoding", "gzip".parse().expect("a value"));
        response
    })
    .await;
    let server = server(&upstream, "", &[("list", &list("GET /", ""))]).await;
    let reply = get(&server.url("/list")).await;
    assert_problem(&reply, 502, "upstream_reply");
    assert!(
        reply.text().contains("is compressed, although the request didn't allow that"),
        "{}",
        reply.text()
    );
}

/// The pages of fifty rows, twenty per page, in the form of each kind of upstream.
fn paged(asked: &Asked) -> Response<Payload> {
    let number = |name| parameter(asked, name).map_or(0, |text| text.parse().expect("a number"));
    let (path, _) = asked.target.split_once('?').unwrap_or((&asked.target, ""));
    let rows = |begin: u64| begin..(begin + 20).clamp(begin, 50.max(begin));
    // HTTP/2 has no such field.
    let host = asked.headers.get("host").and_then(|host| host.to_str().ok());
    let origin = host.map(|host| format!("http://{host}")).unwrap_or_default();
    let at = number("at");
    let next = at + 20;
    match path {
        "/v1/url" if next < 50 => page(rows(at), &json!({ "next": format!("{origin}/v1/url?at={next}") })),
        "/v1/path" if next < 50 => page(rows(at), &json!({ "next": format!("/v1/path?at={next}") })),
        "/v1/query" if next < 50 => page(rows(at), &json!({ "next": format!("?at={next}") })),
        "/v1/url" => page(rows(at), &json!({ "next": "" })),
        "/v1/path" => page(rows(at), &json!({ "next": null })),
        "/v1/query" => page(rows(at), &json!({})),
        "/v1/link" => {
            let mut page = page(rows(at), &json!({}));
            let link = format!(
                "</v1/link?at=0>; rel=first, <link?at={next}>; rel=\"{}\"",
                if next < 50 { "next" } else { "last" }
            );
            page.headers_mut().insert("link", link.parse().expect("a value"));
            page
        }
        "/v1/offset" => page(rows(number("offset")), &json!({})),
        "/v1/page" => {
            page(rows((number("page[number]").max(number("page%5Bnumber%5D")) - 1) * 20), &json!({}))
        }
        "/v1/cursor" => {
            let begin = parameter(asked, "after")
                .map_or(0, |after| after.trim_start_matches("a%26").parse().expect("a number"));
            let cursor = if begin + 20 < 50 { json!(format!("a&{}", begin + 20)) } else { Value::Null };
            page(rows(begin), &json!({ "meta": { "cursor": cursor } }))
        }
        "/v1/feed" => {
            let begin = number("after");
            page(rows(begin), &json!({ "meta": { "cursor": (begin + 20).min(50) } }))
        }
        "/v1/number" => {
            let begin = number("after");
            let cursor = if begin + 20 < 50 { json!(begin + 20) } else { Value::Null };
            page(rows(begin), &json!({ "meta": { "cursor": cursor } }))
        }
        "/v1/body" => {
            let body: Value = serde_json::from_str(&asked.body).expect("JSON");
            let begin = body["cursor"]
                .as_str()
                .map_or(0, |cursor| cursor.trim_start_matches("a\"").parse().expect("a number"));
            assert_eq!(body.get("q").is_some(), begin == 0, "{body}");
            let cursor = if begin + 20 < 50 { json!(format!("a\"{}", begin + 20)) } else { Value::Null };
            page(rows(begin), &json!({ "meta": { "cursor": cursor } }))
        }
        path => reply(404, "text/plain", path.to_owned()),
    }
}

#[tokio::test]
async fn pages_follow_one_another() {
    for (speaks, protocol) in [(Speaks::Http1, "http1"), (Speaks::H2c(10), "http2")] {
        for (request, next, targets) in [
            ("GET /url", "next = { at = '/next' }", &["/v1/url", "/v1/url?at=20", "/v1/url?at=40"][..]),
            (
                "GET /path?x=1",
                "next = { at = '/next' }",
                &["/v1/path?x=1", "/v1/path?at=20", "/v1/path?at=40"],
            ),
            (
                "GET /query?x=1",
                "next = { at = '/next' }",
                &["/v1/query?x=1", "/v1/query?at=20", "/v1/query?at=40"],
            ),
            ("GET /link", "next = 'link'", &["/v1/link", "/v1/link?at=20", "/v1/link?at=40"]),
            (
                "GET /offset?x=1",
                "next = { offset = 'offset' }",
                &[
                    "/v1/offset?x=1&offset=0",
                    "/v1/offset?x=1&offset=20",
                    "/v1/offset?x=1&offset=40",
                    "/v1/offset?x=1&offset=50",
                ],
            ),
            (
                "GET /page",
                "next = { page = 'page[number]' }",
                &[
                    "/v1/page?page%5Bnumber%5D=1",
                    "/v1/page?page%5Bnumber%5D=2",
                    "/v1/page?page%5Bnumber%5D=3",
                    "/v1/page?page%5Bnumber%5D=4",
                ],
            ),
            (
                "GET /cursor?after=0&x=1",
                "next = { cursor = 'after', at = '/meta/cursor' }",
                &["/v1/cursor?after=0&x=1", "/v1/cursor?x=1&after=a%2620", "/v1/cursor?x=1&after=a%2640"],
            ),
            (
                "GET /feed",
                "next = { cursor = 'after', at = '/meta/cursor' }",
                &["/v1/feed", "/v1/feed?after=20", "/v1/feed?after=40", "/v1/feed?after=50"],
            ),
            (
                "GET /number",
                "next = { cursor = 'after', at = '/meta/cursor' }",
                &["/v1/number", "/v1/number?after=20", "/v1/number?after=40"],
            ),
            (
                "POST /body?x=1",
                "body = '{\"q\":1}'\nnext = { body = '{\"cursor\":\"{cursor}\"}', at = '/meta/cursor' }",
                &["/v1/body?x=1", "/v1/body?x=1", "/v1/body?x=1"],
            ),
            (
                "POST /body",
                "body = '{\"q\":1}'\nnext = { body = '{\"cursor\":{cursor}}', at = '/meta/cursor' }",
                &["/v1/body", "/v1/body", "/v1/body"],
            ),
        ] {
            let upstream = Upstream::start(speaks.clone(), |_, asked| async move { paged(&asked) }).await;
            // One connection: each page releases it before the next one is requested.
            let settings = format!("protocol = '{protocol}'\npool = {{ max = 1, waiting = 0 }}");
            let url = format!("http://{}/v1", upstream.address());
            let server = launch("", &url, &settings, &[("list", &list(request, next))]).start().await;
            assert_eq!(ids(&get(&server.url("/list")).await), (0..50).collect::<Vec<_>>(), "{request}");
            let asked = upstream.asked();
            assert_eq!(
                asked.iter().map(|asked| asked.target.as_str()).collect::<Vec<_>>(),
                targets,
                "{protocol}"
            );
            let method = if request.starts_with("POST") { Method::POST } else { Method::GET };
            assert!(asked.iter().all(|asked| asked.method == method));
            assert!(asked.iter().all(|asked| asked.headers.contains_key("user-agent")));
        }
    }
}

const TRINO: &str = r#"
[upstream]
request = "POST /v1/statement"
headers = { X-Trino-User = "rowstream" }
body    = "select id, name from orders"
rows    = { at = "/data", optional = true }
columns = { id = "integer", total = "decimal", at = "timestamp" }
next    = { at = "/nextUri" }
error   = "/error"
"#;

/// Trino's protocol: the client posts a statement and follows links until there are no more. Rows
/// are arrays, and many pages have none.
fn trino(asked: &Asked) -> Response<Payload> {
    let host = asked.headers["host"].to_str().expect("a host");
    let uri = |path: &str| format!("http://{host}/v1/statement/{path}");
    let columns = json!([{ "name": "id", "type": "bigint" }, { "name": "total", "type": "decimal(38,2)" }]);
    let body = match (asked.method.as_str(), asked.target.as_str()) {
        ("POST", "/v1/statement") if asked.body == "fail" => {
            json!({ "id": "q", "nextUri": uri("fail/1"), "stats": {} })
        }
        ("POST", "/v1/statement") => {
            assert_eq!(asked.headers["x-trino-user"], "rowstream");
            assert_eq!(asked.headers["content-type"], "text/plain; charset=utf-8");
            assert_eq!(asked.body, "select id, name from orders");
            json!({ "id": "q", "nextUri": uri("queued/1"), "stats": { "state": "QUEUED" } })
        }
        ("GET", "/v1/statement/queued/1") => json!({ "id": "q", "nextUri": uri("executing/1"), "stats": {} }),
        ("GET", "/v1/statement/executing/1") => {
            json!({ "id": "q", "nextUri": uri("executing/2"), "columns": columns, "stats": {} })
        }
        ("GET", "/v1/statement/executing/2") => json!({
            "id": "q", "columns": columns, "nextUri": uri("executing/3"),
            "data": [[1, "0.10", "2024-01-02 03:04:05.678"], [2, null, null]],
        }),
        ("GET", "/v1/statement/executing/3") => {
            json!({ "id": "q", "columns": columns, "nextUri": uri("executing/4"), "data": [[3, "99999999999999999999999999999999.99", null]] })
        }
        ("GET", "/v1/statement/executing/4") => {
            json!({ "id": "q", "columns": columns, "stats": { "state": "FINISHED" } })
        }
        ("GET", "/v1/statement/fail/1") => {
            json!({ "id": "q", "nextUri": uri("fail/2"), "data": [[1, null, null]] })
        }
        ("GET", "/v1/statement/fail/2") => {
            json!({ "id": "q", "stats": { "state": "FAILED" }, "error": { "message": "line 1: no such table" } })
        }
        other => panic!("{other:?}"),
    };
    reply(200, JSON, body.to_string())
}

#[tokio::test]
async fn trinos_protocol_is_a_list() {
    let upstream = upstream(trino).await;
    let fails = TRINO.replace("select id, name from orders", "fail");
    let server = server(&upstream, "", &[("orders", TRINO), ("fails", &fails)]).await;
    let reply = get(&server.url("/orders.ndjson")).await;
    assert_eq!(reply.ended, Ended::Complete);
    assert_eq!(
        reply.text(),
        "{\"id\":1,\"total\":0.10,\"at\":\"2024-01-02T03:04:05.678Z\"}\n{\"id\":2,\"total\":null,\"at\":null}\n\
         {\"id\":3,\"total\":99999999999999999999999999999999.99,\"at\":null}\n"
    );
    assert_eq!(upstream.asked().len(), 6);
    let failed = get(&server.url("/fails?_wait=end")).await;
    assert_problem(&failed, 502, "upstream_failed");
    assert!(failed.text().contains("page 3 of source `up` reports a failure"), "{}", failed.text());
}

#[tokio::test]
async fn searches_are_lists() {
    let endpoint = r#"
        [params]
        customer = "text"
        least    = "number"
        tags     = "text[]"
        [upstream]
        request = "POST /orders/_search?allow_partial_search_results=false"
        body    = '{"size":10000,"query":{"bool":{"filter":[{"term":{"customer":"{customer}"}},{"range":{"total":{"gte":{least}}}},{"terms":{"tags":{tags}}}]}}}'
        rows    = "/hits/hits"
        columns = { id = { type = "text", at = "/_id" }, total = { type = "decimal", at = "/_source/total" }, source = { type = "json", at = "/_source" } }
    "#;
    let upstream = upstream(|_| reply(200, JSON, r#"{"took":1,"timed_out":false,"hits":{"total":{"value":1},"hits":[{"_index":"orders","_id":"x","_score":null,"_source":{"total":1.50}}]}}"#)).await;
    let server = server(&upstream, "", &[("search", endpoint)]).await;
    let reply = get(&server.url("/search?customer=a%22%7D%5C%0A&least=.50&tags=x&tags=y%22")).await;
    assert_eq!(reply.text(), r#"[{"id":"x","total":1.50,"source":{"total":1.50}}]"#);
    let asked = &upstream.asked()[0];
    assert_eq!((asked.method.as_str(), asked.headers["content-type"].to_str().unwrap()), ("POST", JSON));
    let filter = serde_json::from_str::<Value>(&asked.body).unwrap()["query"]["bool"]["filter"].clone();
    let expected = json!([{ "term": { "customer": "a\"}\\\n" } }, { "range": { "total": { "gte": 0.5 } } }, { "terms": { "tags": ["x", "y\""] } }]);
    assert_eq!(filter, expected);
    assert!(asked.body.contains("\"gte\":0.50}"), "{}", asked.body);
}

/// A reply that continues with each permit of the gate, and ends with the pieces.
fn by_permits(seen: Arc<Seen>, texts: Vec<String>) -> Response<Payload> {
    let mut response = stream(pieces::unfold((seen, texts.into_iter()), |(seen, mut texts)| async move {
        let text = texts.next()?;
        seen.gate.acquire().await.expect("it is never closed").forget();
        Some((Ok(Bytes::from(text)), (seen, texts)))
    }));
    response.headers_mut().insert("content-type", JSON.parse().expect("a value"));
    response
}

#[tokio::test]
async fn the_first_row_leaves_before_the_reply_has_ended() {
    for path in ["/list", "/list.ndjson", "/list.csv", "/list.sse", "/list.arrow"] {
        let upstream = Upstream::start(Speaks::Http1, |seen, _| async move {
            let texts = ["{\"items\":[{\"id\":1}", ",{\"id\":2},{\"i", "d\":3}],\"next\":null", "}"];
            by_permits(seen, texts.map(str::to_owned).to_vec())
        })
        .await;
        let server = server(&upstream, "", &[("list", &list("GET /", "next = { at = '/next' }"))]).await;
        upstream.seen.gate.add_permits(1);
        let mut client = Client::HTTP1.stream(&server.url(path)).await;
        assert_eq!(client.status, StatusCode::OK);
        let first = client.chunk().await.expect("the first row");
        assert!(!first.is_empty(), "{path}");
        upstream.seen.gate.add_permits(1);
        let second = client.chunk().await.expect("the second row");
        if path != "/list.arrow" {
            assert!(String::from_utf8_lossy(&second).contains('2'), "{path}: {second:?}");
            assert!(!String::from_utf8_lossy(&second).contains('3'), "{path}: {second:?}");
        }
        upstream.seen.gate.add_permits(2);
        assert_eq!(client.rest().await.ended, Ended::Complete, "{path}");
    }
}

#[tokio::test]
async fn what_is_cut_or_garbled_is_never_a_short_list() {
    let whole = r#"{"items":[{"id":1},{"id":2}],"next":null}"#;
    let endless = "x".repeat(2000);
    let garbled: Vec<(Vec<u8>, &str)> = vec![
        (whole.as_bytes()[..whole.len() - 1].to_vec(), "is truncated"),
        (whole.as_bytes()[..20].to_vec(), "is truncated"),
        (format!("{whole} x").into_bytes(), "invalid JSON from byte 42 on"),
        (whole.replace("},{", "} {").into_bytes(), "invalid JSON from byte 19 on"),
        (whole.replace("\"next\"", "\"items\"").into_bytes(), "it contains `items` twice"),
        (b"{\"items\":[{\"id\":1}],\"a\":\"\xff\"}".to_vec(), "not UTF-8"),
        (format!("{{\"items\":[{{\"id\":1}},{}", "[".repeat(200)).into_bytes(), "nested more than 128 deep"),
        (whole.replace("null", "[1]").into_bytes(), "something other than a string or a number"),
        (
            format!("{{\"items\":[{{\"id\":1}},{{\"id\":2,\"x\":\"{endless}\"}}]}}").into_bytes(),
            "is over the limit of 1000 bytes",
        ),
    ];
    for (body, words) in garbled {
        // The first row is on its way before the bytes after it are read.
        let at = body.windows(2).position(|bytes| bytes == b"1}").expect("a row") + 2;
        let texts = [body[..at].to_vec(), body[at..].to_vec()];
        let upstream = Upstream::start(Speaks::Http1, move |seen, _| {
            let texts = texts.clone();
            async move {
                stream(pieces::unfold((seen, texts.into_iter()), |(seen, mut texts)| async move {
                    let text = texts.next()?;
                    seen.gate.acquire().await.expect("it is never closed").forget();
                    Some((Ok(Bytes::from(text)), (seen, texts)))
                }))
            }
        })
        .await;
        let server =
            server(&upstream, "max_row_bytes = 1000", &[("list", &list("GET /", "next = { at = '/next' }"))])
                .await;
        upstream.seen.gate.add_permits(1);
        let mut client = Client::HTTP1.stream(&server.url("/list")).await;
        assert_eq!(&client.chunk().await.expect("a row")[..], b"[{\"id\":1}", "{words}");
        upstream.seen.gate.add_permits(1);
        let reply = client.rest().await;
        assert!(matches!(reply.ended, Ended::Broken(_)), "{words}: {} {:?}", reply.text(), reply.ended);
        server.wait_for_stdout(words).await;
    }
}

#[tokio::test]
async fn an_upstream_that_breaks_off_breaks_the_list_off() {
    for speaks in [Speaks::Http1, Speaks::H2c(10)] {
        let protocol = if matches!(speaks, Speaks::Http1) { "http1" } else { "http2" };
        let upstream = Upstream::start(speaks, |_, _| async {
            stream(pieces::unfold(0, |sent| async move {
                tokio::time::sleep(Duration::from_millis(50 * sent)).await;
                let piece = if sent == 0 {
                    Ok(Bytes::from_static(b"{\"items\":[{\"id\":1},{\"id\":2}"))
                } else {
                    Err(io::Error::other("cut"))
                };
                Some((piece, sent + 1))
            }))
        })
        .await;
        let server =
            server(&upstream, &format!("protocol = '{protocol}'"), &[("list", &list("GET /", ""))]).await;
        let reply = get(&server.url("/list")).await;
        assert_eq!((reply.status, reply.text()), (StatusCode::OK, "[{\"id\":1},{\"id\":2}"), "{protocol}");
        assert!(matches!(reply.ended, Ended::Broken(_)), "{protocol}: {:?}", reply.ended);
        server.wait_for_stdout("upstream_broken").await;
    }
}

#[tokio::test]
async fn a_list_that_cannot_go_on_fails() {
    let elsewhere = upstream(|_| page(0..1, &json!({}))).await;
    let other = format!("http://{}/", elsewhere.address());
    for (first, more, code, words) in [
        (
            json!({ "next": other }),
            "next = { at = '/next' }",
            "upstream_refused",
            "names a next page at another scheme, host or port",
        ),
        (
            json!({ "next": "//169.254.169.254/latest" }),
            "next = { at = '/next' }",
            "upstream_refused",
            "names a next page at another scheme",
        ),
        (
            json!({ "next": "/p\r\nX-Evil: 1" }),
            "next = { at = '/next' }",
            "upstream_refused",
            "isn't a usable URL",
        ),
        (
            json!({ "next": "/list" }),
            "next = { at = '/next' }",
            "upstream_reply",
            "page 1 of source `up` leads to itself",
        ),
        (json!({ "next": 7 }), "next = { at = '/next' }", "upstream_reply", "by something other than a URL"),
        (
            json!({ "next": "/a" }),
            "next = { at = '/next' }\npages = 5",
            "upstream_pages",
            "has more than 5 pages",
        ),
        (
            json!({ "next": "/other" }),
            "next = { at = '/next' }",
            "upstream_status",
            "answered page 2 with 404 Not Found",
        ),
        (
            json!({ "next": "same" }),
            "next = { cursor = 'after', at = '/next' }",
            "upstream_reply",
            "page 2 of source `up` leads to itself",
        ),
        (json!({}), "next = 'link'", "upstream_reply", "has a `Link` that cannot be read"),
    ] {
        let upstream = upstream(move |asked| {
            let mut page = match asked.target.as_str() {
                "/list" => page(1..2, &first),
                "/a" => page(1..2, &json!({ "next": "/b" })),
                "/b" => page(1..2, &json!({ "next": "/a" })),
                target if target.starts_with("/list?after=") => page(1..2, &first),
                _ => return reply(404, "text/plain", "none"),
            };
            page.headers_mut().insert("link", "</broken".parse().expect("a value"));
            page
        })
        .await;
        let server = server(&upstream, "", &[("list", &list("GET /list", more))]).await;
        let reply = get(&server.url("/list?_wait=end")).await;
        assert_problem(&reply, 502, code);
        assert!(reply.text().contains(words), "{words}: {}", reply.text());
        let broken = get(&server.url("/list")).await;
        // If the first chunk isn't full by then, the failure has a status.
        assert!(
            matches!(broken.ended, Ended::Broken(_)) || broken.status == StatusCode::BAD_GATEWAY,
            "{words}"
        );
    }
    assert_eq!(elsewhere.connections(), 0, "it was never asked");
}

/// Lines have no place beside their rows for an error. An error as a line would become a row of
/// NULLs.
#[tokio::test]
async fn lines_in_which_a_failure_cannot_be_told_are_refused() {
    let lines = "{\"id\":1}\n{\"error\":\"shard 3 failed\"}\n";
    let upstream = upstream(move |_| reply(200, "application/x-ndjson", lines)).await;
    let files = [("list", list("GET /list", "error = '/error'"))];
    let server = server(&upstream, "", &[(files[0].0, &files[0].1)]).await;
    let failed = get(&server.url("/list")).await;
    assert_problem(&failed, 502, "upstream_reply");
    assert!(failed.text().contains("`error` can't be looked up"), "{}", failed.text());
}

/// A link belongs to the host that returned it, whose prefix may differ from the other hosts'.
#[tokio::test]
async fn links_belong_to_the_host_that_gives_them() {
    let answer = |asked: &Asked| match asked.target.as_str() {
        "/list" => page(1..2, &json!({ "next": "list?page=2" })),
        "/v2/list" => page(1..2, &json!({ "next": "/v2/list?page=2" })),
        "/list?page=2" | "/v2/list?page=2" => page(2..3, &json!({ "next": "?page=3" })),
        "/list?page=3" | "/v2/list?page=3" => page(3..4, &json!({})),
        _ => reply(404, "text/plain", "none"),
    };
    let (one, two) = (upstream(answer).await, upstream(answer).await);
    let hosts = format!("http://{}\", \"http://{}/v2", one.address(), two.address());
    let config = format!("[source.up]\nurl = [\"{hosts}\"]\n");
    let list = list("GET /list", "next = { at = '/next' }");
    let server = Server::start(&[("rowstream.toml", &config), ("endpoints/list.toml", &list)]).await;
    for _ in 0..4 {
        assert_eq!(ids(&get(&server.url("/list")).await), [1, 2, 3]);
    }
    assert!(one.asked().len() >= 4 && two.asked().len() >= 4, "both were asked");
}

#[tokio::test]
async fn values_that_do_not_fit_are_told_by_column_and_row() {
    for (kind, value, words) in [
        (
            "integer",
            "1.5",
            "row 2 of source `up`: column `v` of type integer holds a number that doesn't fit",
        ),
        ("integer", "9223372036854775808", "column `v` of type integer holds an integer beyond 64 bits"),
        ("integer", "true", "column `v` of type integer holds a boolean"),
        ("float", "1e999", "column `v` of type float holds"),
        ("decimal", "\"x\"", "column `v` of type decimal holds a string that doesn't fit"),
        ("text", "7", "column `v` of type text holds an integer"),
        ("text", "\"\\ud800\"", "column `v` of type text holds a string with half a surrogate pair"),
        ("boolean", "0", "column `v` of type boolean holds an integer"),
        ("date", "\"2023-02-29\"", "column `v` of type date holds a string that doesn't fit"),
        (
            "timestamp",
            "\"2023-02-28T00:00:00.0000001Z\"",
            "column `v` of type timestamp holds a string that doesn't fit",
        ),
        ("uuid", "\"6ba7b810\"", "column `v` of type uuid holds a string that doesn't fit"),
        ("text", "{}", "column `v` of type text holds an object"),
        ("json", "1,\"v\":2", "row 2 of source `up`: it contains `v` twice"),
    ] {
        let upstream =
            upstream(move |_| reply(200, JSON, format!("[{{\"v\":null}},{{\"v\":{value}}}]"))).await;
        let endpoint = format!("[upstream]\nrequest = 'GET /'\nrows = ''\ncolumns = {{ v = '{kind}' }}");
        let server = server(&upstream, "", &[("list", &endpoint)]).await;
        let reply = get(&server.url("/list?_wait=end")).await;
        assert_problem(&reply, 502, "upstream_reply");
        assert!(reply.text().contains(words), "{words}: {}", reply.text());
    }
    // Arrow limits digits if the type does.
    let upstream = upstream(|_| reply(200, JSON, "[{\"v\":12.345}]")).await;
    let endpoint = "[upstream]\nrequest = 'GET /'\nrows = ''\ncolumns = { v = 'decimal(4, 2)' }";
    let server = server(&upstream, "", &[("list", endpoint)]).await;
    assert_eq!(get(&server.url("/list")).await.text(), "[{\"v\":12.345}]");
    assert_ne!(get(&server.url("/list.arrow")).await.status, StatusCode::OK);
}

/// An endless list, and the number of its bytes so far.
async fn endless(speaks: Speaks) -> (Upstream, Arc<AtomicU64>) {
    let made = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&made);
    let upstream = Upstream::start(speaks, move |_, _| {
        let count = Arc::clone(&count);
        let rows: String = (0..1000).fold(String::new(), |mut rows, id| {
            let _ = write!(rows, "{{\"id\":{id},\"text\":\"{}\"}},", "x".repeat(20));
            rows
        });
        let rows = Bytes::from(rows);
        let begin = Bytes::from_static(b"{\"items\":[");
        let endless = pieces::unfold(Some(begin), move |begin| {
            let piece = begin.unwrap_or_else(|| rows.clone());
            count.fetch_add(piece.len() as u64, Ordering::Relaxed);
            async move { Some((Ok(piece), None)) }
        });
        async move { stream(endless) }
    })
    .await;
    (upstream, made)
}

#[tokio::test]
async fn a_slow_client_slows_the_upstream() {
    for (speaks, protocol) in [(Speaks::Http1, "http1"), (Speaks::H2c(10), "http2")] {
        let (upstream, made) = endless(speaks).await;
        let server =
            server(&upstream, &format!("protocol = '{protocol}'"), &[("list", &list("GET /", ""))]).await;
        let mut slow = Client::HTTP1.receive_buffer(16 * 1024).stream(&server.url("/list")).await;
        slow.at_least(100_000).await;
        let mut before = 0;
        loop {
            tokio::time::sleep(Duration::from_millis(300)).await;
            let now = made.load(Ordering::Relaxed);
            assert!(now < 64 << 20, "{protocol}: nobody reads, and {now} bytes were made");
            if now == before {
                break;
            }
            before = now;
        }
        slow.at_least(4 << 20).await;
        assert!(made.load(Ordering::Relaxed) > before, "{protocol}: it goes on with the client");
        // If a client disconnects, no more of its list is produced.
        drop(slow);
        wait_until(&format!("{protocol}: it ends without a client"), async || {
            let before = made.load(Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(300)).await;
            made.load(Ordering::Relaxed) == before
        })
        .await;
    }
}

/// Answers a connection, and reports when its client closes it.
async fn half_a_list() -> (String, tokio::sync::oneshot::Receiver<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (closed, is_closed) = tokio::sync::oneshot::channel();
    tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut buffer = [0; 4096];
        assert!(socket.read(&mut buffer).await.unwrap() > 0, "it is asked");
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n";
        socket.write_all(format!("{head}{{\"items\":[{{\"id\":1}},").as_bytes()).await.unwrap();
        while socket.read(&mut buffer).await.is_ok_and(|read| read > 0) {}
        closed.send(()).unwrap();
    });
    (url, is_closed)
}

#[tokio::test]
async fn a_client_that_leaves_closes_the_connection() {
    let (url, is_closed) = half_a_list().await;
    let server = launch("", &url, "", &[("list", &list("GET /", ""))]).start().await;
    let mut client = Client::HTTP1.stream(&server.url("/list")).await;
    client.chunk().await.expect("a row");
    drop(client);
    wait("it is closed", is_closed).await.expect("by its client");
}

#[tokio::test]
async fn each_page_has_its_own_time() {
    let upstream = Upstream::start(Speaks::Http1, |seen, asked| async move {
        if asked.target.contains("at=40") {
            seen.gate.acquire().await.expect("it is never closed").forget();
        }
        tokio::time::sleep(Duration::from_millis(1500)).await;
        paged(&asked)
    })
    .await;
    let url = format!("http://{}/v1", upstream.address());
    let settings = "timeout = { first_byte = '2800ms', total = '2800ms' }";
    let server =
        launch("", &url, settings, &[("list", &list("GET /url", "next = { at = '/next' }"))]).start().await;
    let reply = get(&server.url("/list")).await;
    assert_eq!(reply.status, StatusCode::OK);
    assert!(matches!(reply.ended, Ended::Broken(_)), "{:?}", reply.ended);
    assert_eq!(upstream.asked().len(), 3, "two pages in time, together later than one may be");
    server.wait_for_stdout("upstream_timeout").await;
}

/// A peer that answers each connection once, and closes it without an answer at the next request.
async fn answers_once(answer: &'static str) -> (String, Arc<AtomicU64>, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (asked, connections) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (counted, taken) = (Arc::clone(&asked), Arc::clone(&connections));
    tokio::spawn(async move {
        loop {
            let (mut socket, _) = listener.accept().await.unwrap();
            taken.fetch_add(1, Ordering::SeqCst);
            let asked = Arc::clone(&counted);
            tokio::spawn(async move {
                let mut buffer = [0; 4096];
                let mut answers = [answer].into_iter();
                while socket.read(&mut buffer).await.is_ok_and(|read| read > 0) {
                    asked.fetch_add(1, Ordering::SeqCst);
                    let Some(answer) = answers.next().filter(|answer| !answer.is_empty()) else { return };
                    socket.write_all(answer.as_bytes()).await.unwrap();
                }
            });
        }
    });
    (url, asked, connections)
}

#[tokio::test]
async fn what_is_posted_is_posted_once() {
    let retries = "retries = { max = 3, backoff = '1ms', budget = 100 }";
    let post = list("POST /", "body = '{}'");
    // If a connection ends before an answer, we can't know if the request arrived.
    let (url, asked, _) = answers_once("").await;
    let server = launch("", &url, retries, &[("list", &post)]).start().await;
    assert_problem(&get(&server.url("/list")).await, 502, "upstream_broken");
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    // If it ends after an answer without announcing it, it isn't reused.
    let (url, asked, connections) =
        answers_once("HTTP/1.1 200 OK\r\ncontent-length: 19\r\n\r\n{\"items\":[{\"id\":1}]").await;
    let server = launch("", &url, retries, &[("list", &post)]).start().await;
    for _ in 0..5 {
        assert_problem(&get(&server.url("/list?_wait=end")).await, 502, "upstream_reply");
    }
    assert_eq!((asked.load(Ordering::SeqCst), connections.load(Ordering::SeqCst)), (5, 5));
}

#[tokio::test]
async fn memory_is_constant_for_a_million_elements() {
    const ROWS: u64 = 1_000_000;
    const CEILING: u64 = 40_000_000;
    let upstream = Upstream::start(Speaks::Http1, |_, _| async {
        let pieces = pieces::iter((0..ROWS / 1000).map(|thousand| {
            let mut piece =
                String::from(if thousand == 0 { "{\"skipped\":[1,2,3],\"items\":[" } else { "," });
            for id in thousand * 1000..(thousand + 1) * 1000 {
                let comma = if id % 1000 == 0 { "" } else { "," };
                let _ = write!(piece, "{comma}{{\"id\":{id},\"text\":\"{}\"}}", "x".repeat(80));
            }
            piece.push_str(if thousand == ROWS / 1000 - 1 { "]}" } else { "" });
            Ok(Bytes::from(piece))
        }));
        stream(pieces)
    })
    .await;
    let endpoint = list("GET /", "").replace("id = 'integer'", "id = 'integer', text = 'text'");
    let server = server(&upstream, "", &[("list", &endpoint)]).await;
    let mut client = Client::HTTP1.stream(&server.url("/list.ndjson")).await;
    let (mut lines, mut bytes) = (0, 0);
    let ended = loop {
        match client.chunk().await {
            Ok(chunk) => {
                lines += chunk.iter().filter(|byte| **byte == b'\n').count() as u64;
                bytes += chunk.len() as u64;
            }
            Err(ended) => break ended,
        }
    };
    assert_eq!((lines, ended), (ROWS, Ended::Complete));
    let peak = peak_memory_bytes(server.pid());
    println!("peak memory of {bytes} bytes: {:.1} MB", peak as f64 / 1e6);
    assert!(bytes > 2 * CEILING && peak < CEILING, "{peak} bytes for {bytes}");
}

const EVENTS: usize = 100_000;

/// Another Rowstream, whose events are read in pages. A page that it holds until its end has a
/// `Link` in its head.
async fn events() -> Server {
    let fill = format!(
        "create table event (id integer primary key, name text, total decimal, at timestamptz, details json);
         with recursive n(i) as (select 1 union all select i + 1 from n where i < {EVENTS})
         insert into event select i, case when i % 7 = 0 then null else 'n\u{e4}me \"' || i || '\"' end,
           printf('%d.%02d', 9007199254740993 + i, i % 100), '2024-01-02T03:04:05.' || printf('%06d', i) || 'Z',
           json_object('i', i, 'list', json_array(i, 'x')) from n;"
    );
    let select = "select id, name, total, at, details from event order by id";
    let config = "[source.db]\nurl = \"sqlite:events.db\"\ncreate = [\"events.sql\"]\n";
    let paged = format!(
        "/*\nbody = {{ data = {{ events = '$rows' }}, next = '$next' }}\nkey = ['id']\n[params]\nmaxEvents = 'integer'\n*/\n{select} limit :maxEvents"
    );
    let listed = format!("/*\nkey = ['id']\n[params]\nmaxEvents = 'integer'\n*/\n{select} limit :maxEvents");
    let files = [
        ("rowstream.toml", config),
        ("events.sql", &fill),
        ("endpoints/events.sql", select),
        ("endpoints/paged.sql", &paged),
        ("endpoints/listed.sql", &listed),
    ];
    Server::start(&files).await
}

fn digest(body: &[u8]) -> String {
    Sha256::digest(body).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test]
async fn what_another_rowstream_has_is_read_as_it_is() {
    let upstream = events().await;
    let direct = get(&upstream.url("/events.ndjson")).await;
    assert_eq!((direct.text().lines().count(), &direct.ended), (EVENTS, &Ended::Complete));
    let columns =
        "columns = { id = 'integer', name = 'text', total = 'decimal', at = 'timestamp', details = 'json' }";
    let endpoint =
        |request: &str, more: &str| format!("[upstream]\nrequest = '{request}'\n{columns}\n{more}\n");
    let by_cursor = "rows = '/data/events'\nnext = { cursor = '_after', at = '/next' }";
    let endpoints = [
        ("body", endpoint("GET /paged?maxEvents=4999", by_cursor)),
        ("link", endpoint("GET /listed?maxEvents=997", "rows = ''\nnext = 'link'")),
        ("lines", endpoint("GET /listed.ndjson?maxEvents=2000&_wait=end", "rows = ''\nnext = 'link'")),
        ("long", endpoint("GET /listed?maxEvents=2000", "rows = ''\nnext = 'link'")),
        ("whole", endpoint("GET /events", "rows = ''")),
        ("whole-lines", endpoint("GET /events.ndjson", "rows = ''")),
    ];
    let endpoints: Vec<_> = endpoints.iter().map(|(name, text)| (*name, text.as_str())).collect();
    let url = format!("http://{}", upstream.address());
    for (protocol, names) in [("http1", &["body", "lines", "whole"][..]), ("http2", &["link", "whole-lines"])]
    {
        let server = launch("", &url, &format!("protocol = '{protocol}'"), &endpoints).start().await;
        for name in names {
            let reply = get(&server.url(&format!("/{name}.ndjson"))).await;
            assert_eq!((reply.status, &reply.ended), (StatusCode::OK, &Ended::Complete), "{name}");
            assert_eq!(reply.text().lines().count(), EVENTS, "{protocol} {name}");
            assert_eq!(digest(&reply.body), digest(&direct.body), "{protocol} {name}");
        }
        // Because it has no `Link`, we treated it as the last page.
        let long = get(&server.url("/long.ndjson")).await;
        assert_problem(&long, 502, "upstream_reply");
        assert!(long.text().contains("too long to name the next page"), "{}", long.text());
    }
}

#[tokio::test]
async fn what_lists_take_is_told_and_counted() {
    let upstream = upstream(|_| page(0..3, &json!({}))).await;
    let url = format!("http://{}", upstream.address());
    let endpoints = [("list", &*list("GET /", "next = { at = '/next' }\npages = 7"))];
    let server = launch("memory = '256MB'", &url, "", &endpoints).start().await;
    let said = server.stderr();
    assert!(said.contains("/list:") && said.contains(" each, "), "{said}");
    assert_eq!(ids(&get(&server.url("/list")).await), [0, 1, 2]);
    let config = server.folder().join("rowstream.toml").display().to_string();
    let checked = rowstream(&["check", &config]).await;
    let told = String::from_utf8_lossy(&checked.stdout).into_owned();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    assert!(told.contains("rows :many -> id integer, of 7 pages at most"), "{told}");
    // A row counts as often as it can exist: in the list, in the chunks and in its growing buffer.
    let small = launch("memory = '256MB'", &url, "max_row_bytes = '50MB'", &endpoints);
    let Err(exit) = small.try_start().await else { panic!("it cannot be held") };
    assert!(exit.stderr.contains("`memory` has no room for a stream of /list"), "{}", exit.stderr);
}

#[tokio::test]
async fn faults_have_their_place() {
    const COLUMNS: &str = "columns = { id = 'integer' }";
    for (upstream, words) in [
        ("request = 'GET /'\nrows = '/a'".to_owned(), "`columns` is missing"),
        ("request = 'GET /'\nrows = '/a'\ncolumns = {}".to_owned(), "`columns` is empty"),
        (format!("request = 'GET /'\nrows = 'a'\n{COLUMNS}"), "`a` isn't a JSON pointer"),
        (format!("request = 'GET /'\nrows = '/~2'\n{COLUMNS}"), "`/~2` isn't a JSON pointer"),
        ("request = 'GET /'\nrows = ''\ncolumns = { id = 'int' }".to_owned(), "`int` isn't a column type"),
        ("request = 'GET /'\nrows = ''\ncolumns = { id = 'decimal(80)' }".to_owned(), "isn't a column type"),
        (
            "request = 'GET /'\nrows = ''\ncolumns = { id = { at = '/x' } }".to_owned(),
            "`type` is missing in the column `id`",
        ),
        (format!("request = 'GET /'\nrows = {{ optional = true }}\n{COLUMNS}"), "`at` is missing in `rows`"),
        (format!("request = 'GET /'\n{COLUMNS}"), "this needs a reply that is split into rows"),
        ("request = 'GET /'\nnext = 'link'".to_owned(), "this needs a reply that is split into rows"),
        (
            format!("request = 'GET /'\nrows = ''\nnext = 'links'\n{COLUMNS}"),
            "`links` isn't a way to the next page",
        ),
        (
            format!("request = 'GET /'\nrows = ''\nnext = {{ cursor = 'a' }}\n{COLUMNS}"),
            "this isn't a way to the next page",
        ),
        (
            format!("request = 'GET /'\nrows = ''\nnext = {{ at = '/n', page = 'p' }}\n{COLUMNS}"),
            "or it's more than one",
        ),
        (
            format!("request = 'GET /?o=1'\nrows = ''\nnext = {{ offset = 'o' }}\n{COLUMNS}"),
            "the request already has `o`",
        ),
        (format!("request = 'GET /'\nrows = ''\npages = 0\n{COLUMNS}"), "must be an integer of at least 1"),
        (format!("request = 'GET /'\nrows = ''\nbody = '{{}}'\n{COLUMNS}"), "a GET request has no body"),
        (format!("request = 'POST /'\nrows = ''\n{COLUMNS}"), "the request is a POST, but has no body"),
        (
            format!("request = 'POST /'\nrows = ''\nbody = '{{\"a\":{{b}}}}'\n{COLUMNS}"),
            "the parameter `{b}` is not declared",
        ),
        (
            format!("request = 'POST /'\nrows = ''\nbody = '{{\"a\":}}'\n{COLUMNS}"),
            "this body begins like JSON, but isn't valid JSON",
        ),
        (
            format!(
                "request = 'POST /'\nrows = ''\nbody = '{{}}'\nnext = {{ body = '{{}}', at = '/c' }}\n{COLUMNS}"
            ),
            "would be the same for each page",
        ),
        (format!("request = 'PUT /'\nrows = ''\n{COLUMNS}"), "a request must begin with `GET`"),
        ("request = 'POST /'".to_owned(), "a request must begin with `GET`"),
        (
            format!("request = 'GET /'\nrows = ''\nrepeat = 2\n{COLUMNS}"),
            "`rows` and `repeat` exclude each other",
        ),
        (
            format!("request = 'GET /'\nrows = ''\norder = 'input'\n{COLUMNS}"),
            "has no effect on a single request",
        ),
    ] {
        let endpoint = format!("[upstream]\n{upstream}\n");
        let launch = launch("", "http://127.0.0.1:9", "", &[("a", &endpoint)]);
        let Err(exit) = launch.try_start().await else { panic!("no error of {endpoint}") };
        assert!(exit.stderr.contains(words), "{words}:\n{}", exit.stderr);
        assert_eq!(exit.stderr.lines().filter(|line| line.contains(".toml:")).count(), 1, "{}", exit.stderr);
    }
    let endpoint = format!(
        "[params]\nsql = 'text'\n[upstream]\nrequest = 'POST /'\nrows = ''\nbody = 'select {{sql}}'\n{COLUMNS}"
    );
    let Err(exit) = launch("", "http://127.0.0.1:9", "", &[("a", &endpoint)]).try_start().await else {
        panic!("an error")
    };
    assert!(exit.stderr.contains("is in a body that isn't JSON"), "{}", exit.stderr);
}
