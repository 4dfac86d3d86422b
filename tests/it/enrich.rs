//! Calls for the rows of a statement: members of rows (`[enrich.NAME]`), and rows of replies
//! (`each`), with real databases and upstreams.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::support::upstream::{Asked, Payload, Seen, Speaks, Upstream, reply};
use crate::support::{
    Client, Ended, Launch, Reply, Server, TestDb, get, get_h2c, peak_memory_bytes, rowstream, wait_until,
};
use http::{Request, Response, StatusCode};
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};
use tokio::sync::{Barrier, Semaphore};

/// A statement with this many rows, with ids from 1. Ten consecutive rows have ten different
/// customers.
const ROWS: &str = "with recursive r(id) as (select 1 union all select id + 1 from r where id < :rows)
    select id, id % 10 as customer from r order by id";

/// An endpoint with [`ROWS`] and these lines in its front matter.
fn endpoint(more: &str) -> String {
    format!("/*\n{more}\n[params]\nrows = {{ type = 'integer', default = 30 }}\n*/ {ROWS}\n")
}

/// A server with a database, an upstream and these settings.
async fn server(database: &str, upstream: &Upstream, settings: &str, files: &[(&str, &str)]) -> Server {
    launch(database, upstream, settings, files).start().await
}

fn launch(database: &str, upstream: &Upstream, settings: &str, files: &[(&str, &str)]) -> Launch {
    let config = format!(
        "write_timeout = '1h'\n[source.db]\nurl = \"{database}\"\ncreate = ['schema.sql']\n[source.up]\nurl = \"http://{}\"\n{settings}\n",
        upstream.address()
    );
    let names: Vec<_> = files.iter().map(|(name, _)| format!("endpoints/{name}")).collect();
    let schema = ("schema.sql", "create table t (id integer primary key, name text)");
    let files = names.iter().zip(files).map(|(name, (_, text))| (name.as_str(), *text));
    Launch::files(&[("rowstream.toml", config.as_str()), schema].into_iter().chain(files).collect::<Vec<_>>())
}

const SQLITE: &str = "sqlite:main.db";

/// The target after its first segment, and the part of it that other requests share.
fn asked_for(asked: &Asked) -> (&str, &str) {
    let target = asked.target.strip_prefix('/').expect("a path");
    target.split_once('/').unwrap_or((target, ""))
}

/// Answers after a few milliseconds, except `/wait`, which waits for a permit from the test.
async fn usual(seen: Arc<Seen>, asked: Asked) -> Response<Payload> {
    let (path, what) = asked_for(&asked);
    let id = what.split('?').next().unwrap_or_default();
    if path == "wait" {
        seen.gate.acquire().await.expect("it is never closed").forget();
    } else {
        let scattered = asked.target.bytes().fold(7_u64, |sum, byte| sum.wrapping_mul(31) + u64::from(byte));
        tokio::time::sleep(Duration::from_millis(scattered % 7)).await;
    }
    match (path, id) {
        ("some", "2") => reply(404, "text/plain", "there is none"),
        ("some", "3") => reply(503, "application/json", "{\"name\": \"busy\"}"),
        ("some", "4") => reply(200, "application/json", "{\"name\": "),
        ("some", "5") => reply(200, "application/json", format!("{{\"name\": \"{}\"}}", "x".repeat(5000))),
        ("some", "6") => reply(200, "text/html", "<p>log in"),
        ("some", "7") => reply(200, "application/json", "{\"other\": 1}"),
        ("none", _) => reply(404, "text/plain", "there is none"),
        ("late", id) if id.parse::<u64>().is_ok_and(|id| id > 60) => reply(404, "text/plain", "none"),
        ("text", id) => reply(200, "text/plain", format!("a \"{id}\",\nb")),
        (_, id) => reply(
            200,
            "application/json",
            format!(
                "{{\n \"id\": \"{id}\", \"name\": {{ \"de\": \"größe {id}\" }}, \"price\": [1.50, null]\r\n}}\n"
            ),
        ),
    }
}

async fn http1() -> Upstream {
    Upstream::start(Speaks::Http1, usual).await
}

fn assert_problem(reply: &Reply, status: u16, code: &str) {
    assert_eq!((reply.status.as_u16(), &reply.ended), (status, &Ended::Complete), "{}", reply.text());
    assert_eq!(reply.json()["code"], code, "{}", reply.text());
}

fn lines(reply: &Reply) -> Vec<Value> {
    assert_eq!((reply.status, &reply.ended), (StatusCode::OK, &Ended::Complete), "{}", reply.text());
    reply.text().lines().map(|line| serde_json::from_str(line).expect("a row")).collect()
}

/// The name in the upstream's reply.
fn name(id: u64) -> String {
    format!("größe {id}")
}

#[tokio::test]
async fn rows_get_a_member_in_every_format() {
    let db = TestDb::new().await;
    for (database, speaks, protocol) in [
        (db.url().as_str(), Speaks::Http1, "auto"),
        (SQLITE, Speaks::Http1, "http1"),
        (SQLITE, Speaks::H2c(100), "http2"),
    ] {
        let upstream = Upstream::start(speaks, usual).await;
        let enriched = endpoint(
            "body = { rows = '$rows', count = '$count' }\n\
             [enrich.whole]\nrequest = 'GET /a/{id}'\n\
             [enrich.name]\nrequest = 'GET /b/{customer}?row={id}'\nheaders = { X-Row = '{id}' }\nat = '/name/de'\n\
             [enrich.text]\nrequest = 'GET /text/{id}'",
        );
        let files = [("rows.sql", enriched.as_str())];
        let server = server(database, &upstream, &format!("protocol = '{protocol}'"), &files).await;
        let expected = |id: u64| {
            json!({
                "id": id,
                "customer": id % 10,
                "whole": { "id": id.to_string(), "name": { "de": name(id) }, "price": [1.5, null] },
                "name": name(id % 10),
                "text": format!("a \"{id}\",\nb"),
            })
        };
        let expected: Vec<_> = (1..=30).map(expected).collect();
        let body = get(&server.url("/rows")).await;
        assert_eq!(body.json(), json!({ "rows": expected, "count": 30 }), "{database} {protocol}");
        assert!(body.text().contains("[1.50, null]"), "numbers are as they were: {}", body.text());
        assert_eq!(lines(&get(&server.url("/rows.ndjson")).await), expected);
        assert_eq!(lines(&get_h2c(&server.url("/rows.ndjson")).await), expected);
        let sequence = get(&server.url("/rows.json-seq")).await;
        let records = sequence.text().split('\u{1e}').skip(1).map(serde_json::from_str::<Value>);
        assert_eq!(records.map(Result::unwrap).collect::<Vec<_>>(), expected);
        let events = get(&server.url("/rows.sse")).await;
        let data = events.text().lines().filter_map(|line| line.strip_prefix("data: "));
        assert_eq!(
            data.map(|data| serde_json::from_str::<Value>(data).unwrap()).collect::<Vec<_>>(),
            expected
        );
        let csv = get(&server.url("/rows.csv")).await;
        let mut reader = csv::Reader::from_reader(&csv.body[..]);
        assert_eq!(reader.headers().unwrap(), vec!["id", "customer", "whole", "name", "text"]);
        for (record, expected) in reader.into_records().map(Result::unwrap).zip(&expected) {
            assert_eq!(serde_json::from_str::<Value>(&record[2]).unwrap(), expected["whole"]);
            assert_eq!(record[3], expected["name"].to_string(), "JSON, as other columns of JSON");
            assert_eq!(record[4], *expected["text"].as_str().unwrap());
        }
        let arrow = get(&server.url("/rows.arrow")).await;
        assert_eq!((arrow.status, &arrow.ended), (StatusCode::OK, &Ended::Complete));
        let arrow = String::from_utf8_lossy(&arrow.body).into_owned();
        assert!((1..=30).all(|id| arrow.contains(&format!("\"id\": \"{id}\""))), "every reply is in it");
        let asked = upstream.asked();
        let rows = asked.iter().filter(|asked| asked.target.starts_with("/b/"));
        for asked in rows {
            let (_, row) = asked.target.split_once("row=").unwrap();
            assert_eq!(asked.headers["x-row"], row);
        }
    }
}

/// A response counts in the pool by its calls in flight, and not by its maximum. So more responses
/// than connections wait for each other, and none is refused, neither at once nor in the middle.
#[tokio::test]
async fn many_responses_share_a_pool() {
    let upstream = http1().await;
    let one = "/*\nresult = 'one'\n[enrich.x]\nrequest = 'GET /a/{id}'\n*/ select 7 as id";
    // The first rows make no call, and are sent before the first call is made.
    let late = endpoint("[enrich.x]\nrequest = 'GET /a/{asked}'")
        .replace("id % 10 as customer", "nullif(max(id, 20), 20) as asked");
    // As many as can be in flight together: 20 with one call at a time, and 20 with four.
    let settings = "pool = { max = 4, waiting = 100, acquire_timeout = '20s' }";
    let server = server(SQLITE, &upstream, settings, &[("one.sql", one), ("late.sql", &late)]).await;
    let mut requests = tokio::task::JoinSet::new();
    for number in 0..40 {
        let url = server.url(if number % 2 == 0 { "/one" } else { "/late.ndjson?rows=25" });
        requests.spawn(async move { get(&url).await });
    }
    for reply in requests.join_all().await {
        assert_eq!((reply.status, &reply.ended), (StatusCode::OK, &Ended::Complete), "{}", reply.text());
    }
}

/// Only a success is a reply. Everything else is a failure, even without a failure's status or a
/// body.
#[tokio::test]
async fn only_a_success_is_a_reply() {
    let upstream = Upstream::start(Speaks::Http1, |_, asked: Asked| async move {
        match asked.target.as_str() {
            "/304" => reply(304, "text/plain", ""),
            "/503" => reply(503, "text/plain", "busy"),
            "/300" => reply(300, "text/plain", "choose"),
            _ => {
                let mut coded = reply(200, "text/plain", "text");
                coded.headers_mut().insert("content-encoding", "rot13".parse().expect("a value"));
                coded
            }
        }
    })
    .await;
    let of = |target: &str| format!("/*\n[enrich.x]\nrequest = 'GET /{target}'\n*/ select 1 as id");
    let files = ["304", "300", "503", "coded"].map(|target| (format!("{target}.sql"), of(target)));
    let files: Vec<_> = files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let server = server(SQLITE, &upstream, "", &files).await;
    for (path, code, retry) in [
        ("/304", "upstream_status", false),
        ("/300", "upstream_status", false),
        ("/503", "upstream_status", true),
        ("/coded", "upstream_reply", false),
    ] {
        let reply = get(&server.url(path)).await;
        assert_problem(&reply, 502, code);
        assert_eq!(reply.json()["retry"], retry, "{path}");
    }
}

/// A lookup, which has no connection of its own, and a list beside a single row.
#[tokio::test]
async fn single_rows_and_rows_beside_others_get_members() {
    let db = TestDb::new().await;
    for database in [db.url().as_str(), SQLITE] {
        let upstream = http1().await;
        let one = "/*\nresult = 'one'\n[params]\nid = 'integer'\nlang = 'text'\n\
            [enrich.name]\nrequest = 'GET /a/{id}?lang={lang}'\nat = '/name/de'\n*/ \
            select cast(:id as int) as id where :id > 0";
        let beside = "/*\nbody = { head = '$head', rows = '$list' }\n\
            [enrich.name]\nrequest = 'GET /a/{id}'\nat = '/name/de'\n*/\n\
            -- name: head :one\nselect 'x' as title\n-- name: list :many\nselect 1 as id union all select 2 as id order by 1";
        let files = [("one/{id}.sql", one), ("beside.sql", beside)];
        let server = server(database, &upstream, "", &files).await;
        // The second request uses the cached statement.
        for _ in 0..3 {
            let row = get(&server.url("/one/7?lang=de")).await;
            assert_eq!(row.json(), json!({ "id": 7, "name": name(7) }), "{}", row.text());
        }
        assert_eq!(upstream.asked()[0].target, "/a/7?lang=de");
        assert_problem(&get(&server.url("/one/0?lang=de")).await, 404, "not_found");
        let rows = [json!({ "id": 1, "name": name(1) }), json!({ "id": 2, "name": name(2) })];
        assert_eq!(
            get(&server.url("/beside")).await.json(),
            json!({ "head": { "title": "x" }, "rows": rows })
        );
        assert_eq!(lines(&get(&server.url("/beside.ndjson")).await), rows);
    }
}

#[tokio::test]
async fn rows_keep_their_order_and_calls_their_bounds() {
    for (pool, concurrency, parallel) in [(8, "", 8), (50, "concurrency = 7", 7), (5, "concurrency = 50", 5)]
    {
        let upstream = http1().await;
        let settings = format!("pool = {{ max = {pool}, waiting = 0 }}");
        // Two calls per row in one pool, which refuses none of them.
        let two = endpoint(&format!(
            "[enrich.a]\nrequest = 'GET /a/{{id}}'\nat = '/id'\n{concurrency}\n\
             [enrich.b]\nrequest = 'GET /b/{{id}}'\nat = '/id'\n{concurrency}"
        ));
        let one = endpoint(&format!("[enrich.a]\nrequest = 'GET /a/{{id}}'\n{concurrency}"));
        let files = [("two.sql", two.as_str()), ("one.sql", one.as_str())];
        let server = server(SQLITE, &upstream, &settings, &files).await;
        let rows = lines(&get(&server.url("/one.ndjson?rows=300")).await);
        assert_eq!(rows.len(), 300);
        assert_eq!(upstream.most(), parallel, "{pool} {concurrency}");
        let rows = lines(&get(&server.url("/two.ndjson?rows=1000")).await);
        let expected = (1..=1000)
            .map(|id| json!({ "id": id, "customer": id % 10, "a": id.to_string(), "b": id.to_string() }));
        assert_eq!(rows, expected.collect::<Vec<_>>());
        assert!(upstream.most() <= pool, "{} of {pool}", upstream.most());
        assert_eq!((upstream.count("/a/"), upstream.count("/b/")), (1300, 1000));
    }
}

#[tokio::test]
async fn calls_run_side_by_side_and_rows_leave_at_once() {
    let upstream = http1().await;
    let waiting = endpoint("[enrich.a]\nrequest = 'GET /wait/{id}'\nconcurrency = 5");
    let server = server(SQLITE, &upstream, "", &[("rows.sql", &waiting)]).await;
    let target = server.url("/rows.ndjson");
    let client = tokio::spawn(async move { Client::HTTP1.stream(&target).await });
    upstream.until_running(5).await;
    upstream.seen.gate.add_permits(5);
    let mut rows = client.await.unwrap();
    // Free calls are used for the next rows, before the client has read the current ones.
    upstream.until_running(5).await;
    let first = rows.at_least(1).await;
    assert!(first.starts_with(b"{\"id\":1,"), "{first:?}");
    upstream.seen.gate.add_permits(1000);
    let rest = rows.rest().await;
    assert_eq!((&rest.ended, upstream.most()), (&Ended::Complete, 5));
}

#[tokio::test]
async fn equal_calls_are_made_once() {
    let upstream = http1().await;
    let by = |request: &str| endpoint(&format!("[enrich.a]\n{request}\nat = '/id'"));
    let files = [
        ("same.sql", by("request = 'GET /wait/{customer}'")),
        ("none.sql", by("request = 'GET /all/x'")),
        ("header.sql", by("request = 'GET /header/x'\nheaders = { X-Customer = '{customer}' }")),
        ("narrow.sql", by("request = 'GET /narrow/{customer}'\nconcurrency = 2")),
    ];
    let files = files.each_ref().map(|(name, text)| (*name, text.as_str()));
    let server = server(SQLITE, &upstream, "pool = { max = 40 }", &files).await;
    let target = server.url("/same.ndjson?rows=200");
    let client = tokio::spawn(async move { get(&target).await });
    // Forty rows are held, and call for ten customers.
    upstream.until_running(10).await;
    upstream.seen.gate.add_permits(60);
    let rows = lines(&client.await.unwrap());
    let customers = (1..=200).map(|id| (id % 10).to_string());
    assert_eq!(
        rows.iter().map(|row| row["a"].as_str().unwrap().to_owned()).collect::<Vec<_>>(),
        customers.collect::<Vec<_>>()
    );
    // If a statement has no row for a moment, the window can become empty. Then all customers are
    // requested again.
    assert!(upstream.count("/wait/") <= 60, "{} calls for 200 rows", upstream.count("/wait/"));
    assert_eq!(lines(&get(&server.url("/none.ndjson?rows=500")).await).len(), 500);
    let for_one = upstream.count("/all/");
    assert!(for_one <= 10, "{for_one} calls for 500 rows");
    lines(&get(&server.url("/header.ndjson")).await);
    let of_headers = upstream.count("/header/");
    assert!((10..=20).contains(&of_headers), "another header is another request: {of_headers}");
    lines(&get(&server.url("/narrow.ndjson")).await);
    assert_eq!(upstream.count("/narrow/"), 30, "rows that are not held together share none");
    // Two concurrent responses make separate calls.
    let (one, other) = (server.url("/none.ndjson"), server.url("/none.ndjson"));
    tokio::join!(get(&one), get(&other));
    assert!(upstream.count("/all/") >= for_one + 2, "responses share none");
}

#[tokio::test]
async fn a_call_that_fails_fails_the_response() {
    let upstream = http1().await;
    let files = [
        ("early.sql", endpoint("[enrich.a]\nrequest = 'GET /none/{id}'\nconcurrency = 2")),
        ("late.sql", endpoint("[enrich.a]\nrequest = 'GET /late/{id}'\nconcurrency = 2")),
    ];
    let files = files.each_ref().map(|(name, text)| (*name, text.as_str()));
    let server = server(SQLITE, &upstream, "", &files).await;
    assert_problem(&get(&server.url("/early.ndjson?rows=2")).await, 502, "upstream_status");
    assert!(upstream.count("/none/") <= 3, "{} calls", upstream.count("/none/"));
    for reply in
        [get(&server.url("/late.ndjson?rows=1000")).await, get_h2c(&server.url("/late?rows=1000")).await]
    {
        assert_eq!(reply.status, StatusCode::OK);
        assert!(matches!(reply.ended, Ended::Broken(_)), "{:?}", reply.ended);
        assert!(
            reply.text().contains("\"id\":50,") && !reply.text().contains("\"id\":61,"),
            "{}",
            reply.text()
        );
    }
    assert!(upstream.count("/late/") < 140, "nothing is asked after a failure: {}", upstream.count("/late/"));
    let framed = get(&server.url("/late.ndjson?rows=1000&_end=1")).await;
    assert!(framed.text().lines().next().is_some_and(|line| line.contains("\"type\":\"json\"}]")));
    assert!(framed.text().contains("\"code\":\"upstream_status\",\"retry\":"), "{}", framed.text());
    server.wait_for_stdout("upstream_status").await;
    upstream.until_running(0).await;
}

#[tokio::test]
async fn a_call_that_fails_may_be_null() {
    let upstream = http1().await;
    let files = [
        ("part.sql", "[enrich.a]\nrequest = 'GET /some/{id}'\nat = '/name/de'\non_error = 'null'"),
        ("whole.sql", "[enrich.a]\nrequest = 'GET /some/{id}'\non_error = 'null'"),
        ("gone.sql", "[enrich.a]\nrequest = 'GET /x/{id}'\nsource = 'gone'\non_error = 'null'"),
    ];
    let files = files.map(|(name, text)| (name, endpoint(text)));
    let files = files.each_ref().map(|(name, text)| (*name, text.as_str()));
    let settings = "max_row_bytes = 4000\n[source.gone]\nurl = 'http://127.0.0.1:1'";
    let named = files.map(|(name, text)| {
        (
            name,
            if name == "gone.sql" {
                text.to_owned()
            } else {
                text.replace("request", "source = 'up'\nrequest")
            },
        )
    });
    let named = named.each_ref().map(|(name, text)| (*name, text.as_str()));
    let server = server(SQLITE, &upstream, settings, &named).await;
    let of = |rows: &[Value]| rows.iter().map(|row| row["a"].clone()).collect::<Vec<_>>();
    let part = of(&lines(&get(&server.url("/part.ndjson?rows=8")).await));
    let mut expected = vec![Value::Null; 8];
    (expected[0], expected[7]) = (name(1).into(), name(8).into());
    assert_eq!(part, expected);
    let whole = of(&lines(&get(&server.url("/whole.ndjson?rows=7")).await));
    assert_eq!(whole[1..5], vec![Value::Null; 4]);
    assert_eq!((&whole[5], &whole[6]), (&json!("<p>log in"), &json!({ "other": 1 })));
    assert_eq!(of(&lines(&get(&server.url("/gone.ndjson?rows=3")).await)), vec![Value::Null; 3]);
}

/// A NULL column makes no call. A column whose text can't be inserted is a failed call.
#[tokio::test]
async fn columns_stand_in_requests_or_nothing_is_asked() {
    let db = TestDb::new().await;
    let texts = [
        "x",
        "a/b",
        "..",
        ".",
        "",
        "%2e",
        "a?b=c&d",
        "größe ☃",
        "x\r\nX-Evil: 1",
        "x\ny",
        "\u{7f}",
        "a b#c",
        "%",
        "'\";--",
        "\u{0}",
    ];
    let quoted = |text: &str| match text {
        "\u{0}" => "null".to_owned(),
        text => format!("'{}'", text.replace('\'', "''")),
    };
    let rows: Vec<_> =
        texts.iter().enumerate().map(|(id, text)| format!("({id}, {})", quoted(text))).collect();
    let statement =
        format!("with t(id, name) as (values {}) select id, name from t order by id", rows.join(", "));
    for database in [db.url().as_str(), SQLITE] {
        let upstream = http1().await;
        let of = |request: &str| {
            format!("/*\n[enrich.a]\n{request}\non_error = 'null'\nat = '/id'\n*/ {statement}")
        };
        let files = [
            ("path.sql", of("request = 'GET /p/{name}/end?n={id}'")),
            ("query.sql", of("request = 'GET /q/x?name={name}&n={id}'")),
            ("header.sql", of("request = 'GET /h/x?n={id}'\nheaders = { X-Name = '{name}' }")),
        ];
        let files = files.each_ref().map(|(name, text)| (*name, text.as_str()));
        let server = server(database, &upstream, "", &files).await;
        for (path, cannot) in [
            ("path", &["..", ".", "", "\u{0}"][..]),
            ("query", &["\u{0}"]),
            ("header", &["x\r\nX-Evil: 1", "x\ny", "\u{7f}", "\u{0}"]),
        ] {
            let before = upstream.asked().len();
            let rows = lines(&get(&server.url(&format!("/{path}.ndjson"))).await);
            assert_eq!(rows.len(), texts.len());
            for (row, text) in rows.iter().zip(&texts) {
                assert_eq!(row["a"].is_null(), cannot.contains(text), "{path} {text:?}: {row}");
            }
            let mut asked = upstream.asked().split_off(before);
            let number = |asked: &Asked| asked.target.rsplit_once("n=").unwrap().1.parse::<usize>().unwrap();
            asked.sort_by_key(number);
            assert_eq!(asked.len(), texts.len() - cannot.len(), "{path}");
            for (asked, (id, text)) in
                asked.iter().zip(texts.iter().enumerate().filter(|(_, text)| !cannot.contains(text)))
            {
                let decoded = |text: &str| percent_decode_str(text).decode_utf8().unwrap().into_owned();
                let (way, query) = asked.target.split_once('?').unwrap();
                let segments: Vec<_> = way.split('/').map(decoded).collect();
                let pairs: Vec<_> = query.split('&').map(decoded).collect();
                let id = format!("n={id}");
                match path {
                    "path" => assert_eq!(
                        (segments, pairs),
                        (vec!["".into(), "p".into(), (*text).into(), "end".into()], vec![id])
                    ),
                    "query" => assert_eq!((segments.len(), pairs), (3, vec![format!("name={text}"), id])),
                    _ => assert_eq!(asked.headers["x-name"].as_bytes(), text.as_bytes()),
                }
                assert!(!asked.headers.contains_key("x-evil"));
            }
        }
    }
}

/// It fails the response with a hint, and the error doesn't contain the value.
#[tokio::test]
async fn a_column_that_makes_no_request_is_told() {
    let upstream = http1().await;
    let of = |text: &str| {
        format!(
            "/*\n[params]\nlang = 'text'\n[enrich.a]\nrequest = 'GET /{{lang}}/{{name}}'\non_error = 'fail'\n*/ {text}"
        )
    };
    let files = [
        ("dots.sql", of("select '..' as name")),
        ("long.sql", of("select replace(hex(zeroblob(3000)), '0', 'y') as name")),
        ("well.sql", of("select 'x' as name")),
    ];
    let files = files.each_ref().map(|(name, text)| (*name, text.as_str()));
    let server = server(SQLITE, &upstream, "", &files).await;
    for (path, words) in [("dots", "would change the path"), ("long", "more than")] {
        let reply = get(&server.url(&format!("/{path}?lang=de"))).await;
        assert_problem(&reply, 500, "upstream_request");
        assert!(reply.text().contains("column `name`") && reply.text().contains(words), "{}", reply.text());
    }
    // A parameter is the client's error.
    assert_problem(&get(&server.url("/well?lang=..")).await, 400, "invalid_parameter");
    assert_problem(
        &get(&server.url(&format!("/well?lang={}", "x".repeat(5000)))).await,
        400,
        "invalid_parameter",
    );
    assert_eq!(upstream.asked().len(), 0);
}

/// The number of running statements in the database.
async fn statements(db: &TestDb) -> i64 {
    let sql = "select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid() and state = 'active'";
    db.client().await.query_one(sql, &[]).await.expect("a count").get(0)
}

#[tokio::test]
async fn a_client_that_leaves_ends_calls_and_statement() {
    let db = TestDb::new().await;
    let upstream = http1().await;
    let enriched = endpoint("[enrich.a]\nrequest = 'GET /wait/{id}'\nconcurrency = 5");
    let wide = enriched
        .replace("select id, id % 10", "select id, repeat('x', 1000) as wide, id % 10")
        .replace(" order by id", "");
    // No timeout ends a call while the test waits for it.
    let settings = "timeout = { first_byte = '1h' }";
    let server = server(&db.url(), &upstream, settings, &[("rows.sql", &wide)]).await;
    let target = server.url("/rows.ndjson?rows=10000000");
    let client = tokio::spawn(async move { Client::HTTP1.stream(&target).await });
    upstream.until_running(5).await;
    upstream.seen.gate.add_permits(7);
    let mut rows = client.await.unwrap();
    rows.at_least(1).await;
    upstream.until_running(5).await;
    assert_eq!(statements(&db).await, 1, "the statement waits for the calls");
    drop(rows);
    upstream.until_running(0).await;
    wait_until("the statement ends", async || statements(&db).await == 0).await;
    assert!(upstream.count("/wait/") <= 13, "{} calls", upstream.count("/wait/"));
    upstream.seen.gate.add_permits(1000);
    assert_eq!(
        lines(&get(&server.url("/rows.ndjson?rows=3")).await).len(),
        3,
        "places and connections are free"
    );
}

#[tokio::test]
async fn a_slow_client_stops_calls() {
    for (client, speaks) in [(Client::HTTP1, Speaks::Http1), (Client::H2C, Speaks::H2c(100))] {
        let protocol = if matches!(speaks, Speaks::Http1) { "http1" } else { "http2" };
        let upstream = Upstream::start(speaks, |_, _| async {
            reply(200, "application/json", format!("\"{}\"", "x".repeat(20_000)))
        })
        .await;
        let enriched = endpoint("[enrich.a]\nrequest = 'GET /a/{id}'\nconcurrency = 10");
        let settings = format!("protocol = '{protocol}'");
        let server = server(SQLITE, &upstream, &settings, &[("rows.sql", &enriched)]).await;
        let mut rows = client.receive_buffer(8192).stream(&server.url("/rows.ndjson?rows=20000")).await;
        rows.at_least(1).await;
        // Sockets and chunks buffer some hundred kilobytes, which is some tens of rows.
        let mut before = usize::MAX;
        while before != upstream.asked().len() {
            before = upstream.asked().len();
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
        assert!(before < 2000, "{before} calls of 20000");
        rows.at_least(5_000_000).await;
        assert!(upstream.asked().len() > before, "it goes on");
    }
}

/// Two hundred thousand rows, with half a gigabyte of replies, most of which we ignore. Then replies
/// that are long themselves.
#[tokio::test]
async fn memory_does_not_hang_on_the_number_of_rows() {
    let upstream = Upstream::start(Speaks::Http1, |_, asked| async move {
        let (path, id) = asked_for(&asked);
        let filling = "x".repeat(if path == "large" { 200_000 } else { 50_000 });
        reply(200, "application/json", format!("{{\"filling\": \"{filling}\", \"id\": {id}}}"))
    })
    .await;
    let statement = "with recursive r(id) as (select 1 union all select id + 1 from r where id < :rows) select id, id / 20 as g from r";
    let of = |enrich: &str| {
        format!("/*\n[params]\nrows = 'integer'\n[enrich.a]\nconcurrency = 16\n{enrich}\n*/ {statement}")
    };
    let files = [
        ("part.sql", of("request = 'GET /small/{g}'\nat = '/id'")),
        ("whole.sql", of("request = 'GET /large/{g}'")),
    ];
    let files = files.each_ref().map(|(name, text)| (*name, text.as_str()));
    let launch = launch(SQLITE, &upstream, "", &files);
    let server = launch.release().start().await;
    let mut rows = Client::HTTP1.stream(&server.url("/part.csv?rows=200000")).await;
    let mut read = 0;
    let ended = loop {
        match rows.chunk().await {
            Ok(chunk) => read += chunk.iter().filter(|byte| **byte == b'\n').count(),
            Err(ended) => break ended,
        }
    };
    assert_eq!((read, ended), (200_001, Ended::Complete));
    let calls = upstream.count("/small/");
    assert!((10_001..12_000).contains(&calls), "{calls} calls for 10001 that differ");
    let mut rows = Client::HTTP1.stream(&server.url("/whole.ndjson?rows=2000")).await;
    let mut read = 0;
    while let Ok(chunk) = rows.chunk().await {
        read += chunk.len();
    }
    assert!(read > 2000 * 200_000, "{read} bytes");
    let peak = peak_memory_bytes(server.pid());
    assert!(peak < 32 * 1000 * 1000, "{peak} bytes");
}

#[tokio::test]
async fn cursors_lead_to_enriched_rows() {
    let db = TestDb::new().await;
    let upstream = http1().await;
    for database in [db.url().as_str(), SQLITE] {
        let page = "/*\nkey = ['id']\nbody = { rows = '$rows', next = '$next' }\n[params]\nlimit = { type = 'integer', default = 4 }\n\
            [enrich.name]\nrequest = 'GET /a/{id}'\nat = '/name/de'\n*/\n\
            select id from (values (1), (2), (3), (4), (5), (6), (7), (8), (9)) as v(id) order by id limit :limit";
        let page = if database == SQLITE {
            page.replace("as v(id)", "").replace("select id", "select column1 as id")
        } else {
            page.to_owned()
        };
        let server = server(database, &upstream, "", &[("page.sql", &page)]).await;
        let mut target = "/page".to_owned();
        let mut seen = Vec::new();
        loop {
            let reply = get(&server.url(&target)).await;
            assert_eq!(reply.status, StatusCode::OK, "{}", reply.text());
            let body = reply.json();
            let rows = body["rows"].as_array().unwrap();
            seen.extend(rows.clone());
            if rows.len() < 4 {
                break;
            }
            target = format!("/page?_after={}", body["next"].as_str().unwrap());
        }
        let expected: Vec<_> = (1..=9).map(|id| json!({ "id": id, "name": name(id) })).collect();
        assert_eq!(seen, expected, "{database}");
        let events = get(&server.url("/page.sse")).await;
        let ids: Vec<_> = events.text().lines().filter_map(|line| line.strip_prefix("id: ")).collect();
        assert_eq!((ids.len(), ids[4]), (5, "end"), "{}", events.text());
        let id = ids[1];
        let request =
            Request::get(server.url("/page.sse")).header("last-event-id", id).body(String::new()).unwrap();
        let rest = Client::HTTP1.send(request).await;
        assert!(rest.text().starts_with("data: {\"id\":3,\"name\":"), "{}", rest.text());
    }
}

#[tokio::test]
async fn calls_are_made_on_behalf_of_their_request() {
    let upstream = http1().await;
    let enriched =
        endpoint("[enrich.a]\nrequest = 'GET /a/{id}'\nheaders = { X-Fixed = 'yes', Accept = 'text/x' }");
    let server =
        server(SQLITE, &upstream, "headers = { X-Api-Key = 'secret' }", &[("rows.sql", &enriched)]).await;
    let request = Request::get(server.url("/rows?rows=2"))
        .header("Traceparent", "00-1-2-01")
        .header("Cookie", "session=1")
        .header("Authorization", "Bearer mine")
        .body(String::new())
        .unwrap();
    assert_eq!(Client::HTTP1.send(request).await.status, StatusCode::OK);
    let asked = upstream.asked();
    assert_eq!(asked.len(), 2);
    for asked in &asked {
        for (name, value) in [
            ("traceparent", "00-1-2-01"),
            ("x-forwarded-for", "127.0.0.1"),
            ("x-fixed", "yes"),
            ("accept", "text/x"),
            ("x-api-key", "secret"),
            ("user-agent", asked.headers["user-agent"].to_str().unwrap()),
        ] {
            assert_eq!(asked.headers[name], value, "{name}");
        }
        assert!(!asked.headers.contains_key("cookie") && !asked.headers.contains_key("authorization"));
    }
    let head = Request::head(server.url("/rows")).body(String::new()).unwrap();
    assert_eq!(Client::HTTP1.send(head).await.status, StatusCode::OK);
    assert_eq!(upstream.asked().len(), 2, "HEAD asks nothing");
}

/// An `[upstream]` with a call for each row of [`ROWS`].
fn each(path: &str, more: &str) -> String {
    format!(
        "[params]\nrows = {{ type = 'integer', default = 10 }}\n[upstream]\nrequest = 'GET /{path}/{{id}}'\n\
         each = '''{}'''\n{more}\n",
        ROWS.replace("order by id", "")
    )
}

#[tokio::test]
async fn each_row_has_a_reply() {
    let db = TestDb::new().await;
    for database in [db.url().as_str(), SQLITE] {
        let upstream = http1().await;
        let files = [
            ("input.toml", each("some", "order = 'input'\non_error = 'row'")),
            ("fail.toml", each("some", "")),
            ("all.toml", format!("body = {{ replies = '$rows', count = '$count' }}\n{}", each("a", ""))),
            ("null.toml", "[upstream]\nrequest = 'GET /n/{name}'\non_error = 'row'\neach = { sql = \"select cast(null as text) as name\", source = 'db' }".to_owned()),
        ];
        let files = files.each_ref().map(|(name, text)| (*name, text.as_str()));
        let server =
            server(database, &upstream, "max_row_bytes = 4000\npool = { max = 4, waiting = 0 }", &files)
                .await;
        let rows = lines(&get(&server.url("/input.ndjson?rows=8")).await);
        assert_eq!(
            rows.iter().map(|row| row["id"].as_u64().unwrap()).collect::<Vec<_>>(),
            (1..=8).collect::<Vec<_>>()
        );
        let columns: Vec<_> = rows[0].as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(columns, ["id", "customer", "status", "duration_ms", "body", "error"]);
        assert!(rows.iter().all(|row| row["duration_ms"].is_number()), "{rows:?}");
        for (id, status, body, error) in [
            (1, 200, json!({ "id": "1", "name": { "de": name(1) }, "price": [1.5, null] }), None),
            (2, 404, json!("there is none"), Some("answered")),
            (3, 503, json!({ "name": "busy" }), Some("answered")),
            (4, 200, Value::Null, Some("declared as JSON")),
            (5, 200, Value::Null, Some("over the limit")),
            (6, 200, json!("<p>log in"), None),
        ] {
            let row = &rows[id - 1];
            assert_eq!((&row["status"], &row["body"]), (&json!(status), &body));
            assert_eq!(row["error"].is_string(), error.is_some(), "{row}");
            assert!(error.is_none_or(|error| row["error"].as_str().unwrap().contains(error)), "{row}");
        }
        let failed = get(&server.url("/fail.ndjson")).await;
        assert!(failed.status == 502 || matches!(failed.ended, Ended::Broken(_)), "{}", failed.text());
        let all = get(&server.url("/all?rows=500")).await.json();
        let mut ids: Vec<_> = all["replies"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| {
                assert_eq!(row["body"]["id"], row["id"].to_string());
                assert!(row.get("error").is_none());
                row["id"].as_u64().unwrap()
            })
            .collect();
        ids.sort_unstable();
        assert_eq!((ids, &all["count"]), ((1..=500).collect(), &json!(500)));
        assert!(upstream.most() <= 4, "{}", upstream.most());
        assert_eq!(upstream.count("/a/"), 500);
        let csv = get(&server.url("/all.csv?rows=20")).await;
        let records = csv::Reader::from_reader(&csv.body[..]).into_records().map(Result::unwrap);
        assert!(
            records.map(|record| assert!(record[4].contains(&format!("\"{}\"", &record[0])))).count() == 20
        );
        assert_eq!(get(&server.url("/all.arrow?rows=20")).await.ended, Ended::Complete);
        let none =
            json!([{ "name": null, "status": null, "duration_ms": null, "body": null, "error": null }]);
        assert_eq!(get(&server.url("/null")).await.json(), none);
        assert_eq!(upstream.count("/n/"), 0);
    }
}

#[tokio::test]
async fn replies_are_rows_in_the_order_that_is_asked_for() {
    // All four requests arrive before the first reply. The reply for row 1 waits for a permit.
    let (all, others, permits) =
        (Arc::new(Barrier::new(4)), Arc::new(AtomicUsize::new(0)), Arc::new(Semaphore::new(0)));
    let shared = (Arc::clone(&all), Arc::clone(&others), Arc::clone(&permits));
    let upstream = Upstream::start(Speaks::Http1, move |_, asked| {
        let (all, others, permits) = shared.clone();
        async move {
            let id = asked_for(&asked).1.to_owned();
            all.wait().await;
            if id == "1" {
                permits.acquire().await.expect("it stays open").forget();
            } else {
                others.fetch_add(1, Ordering::Relaxed);
            }
            reply(200, "application/json", id)
        }
    })
    .await;
    let by = |order: &str| each("x", &format!("order = '{order}'\nconcurrency = 4"));
    let files = [("input.toml", by("input")), ("completion.toml", by("completion"))];
    let files = files.each_ref().map(|(name, text)| (*name, text.as_str()));
    let server = server(SQLITE, &upstream, "", &files).await;
    let ids = |rows: Vec<Value>| rows.iter().map(|row| row["id"].as_u64().unwrap()).collect::<Vec<_>>();
    let url = server.url("/input.ndjson?rows=4");
    let asked = tokio::spawn(async move { get(&url).await });
    wait_until("the others have their replies", async || others.load(Ordering::Relaxed) == 3).await;
    permits.add_permits(1);
    assert_eq!(ids(lines(&asked.await.unwrap())), [1, 2, 3, 4]);
    let mut rows = Client::HTTP1.stream(&server.url("/completion.ndjson?rows=4")).await;
    let mut begun = Vec::new();
    while begun.iter().filter(|byte| **byte == b'\n').count() < 3 {
        begun.extend_from_slice(&rows.chunk().await.expect("three rows come without the first"));
    }
    assert!(!String::from_utf8(begun).unwrap().contains("\"id\":1,"));
    permits.add_permits(1);
    assert_eq!(ids(lines(&rows.rest().await)), [1]);
    assert_eq!(upstream.most(), 4);
}

/// An endless statement with calls that end. Each row leaves when its reply arrives, and a client
/// that disconnects ends both.
#[tokio::test]
async fn the_statement_of_each_is_streamed() {
    let upstream = http1().await;
    let endless = "[upstream]\nrequest = 'GET /a/{id}'\nconcurrency = 3\n\
        each = 'with recursive r(id) as (select 1 union all select id + 1 from r) select id from r'";
    let server = server(SQLITE, &upstream, "", &[("endless.toml", endless)]).await;
    let mut rows = Client::HTTP1.stream(&server.url("/endless.ndjson")).await;
    let first = rows.at_least(20_000).await;
    assert!(first.iter().filter(|byte| **byte == b'\n').count() > 100);
    drop(rows);
    upstream.until_running(0).await;
    assert!(peak_memory_bytes(server.pid()) < 100_000_000);
}

#[tokio::test]
async fn what_does_not_fit_the_columns_is_told() {
    let upstream = http1().await;
    let files = [
        ("missing.sql", endpoint("[enrich.a]\nrequest = 'GET /a/{costumer}'")),
        ("taken.sql", endpoint("[enrich.customer]\nrequest = 'GET /a/{id}'")),
        ("each.toml", each("a", "").replace("select id, id % 10 as customer", "select id, id as body")),
    ];
    let files = files.each_ref().map(|(name, text)| (*name, text.as_str()));
    let server = launch(SQLITE, &upstream, "", &files).argument("--no-check").start().await;
    let config = server.folder().join("rowstream.toml").display().to_string();
    let checked = rowstream(&["check", &config]).await;
    let told = String::from_utf8_lossy(&checked.stderr).into_owned();
    assert!(!checked.status.success() && told.contains("3 errors"), "{told}");
    for (path, words, hint) in [
        (
            "/missing",
            "a request uses `{costumer}`, which is neither a parameter nor a column of `rows`",
            "did you mean `customer`?",
        ),
        (
            "/taken",
            "statement `rows` already has a column `customer`, so `[enrich.customer]` can't add it",
            "with `as`",
        ),
        (
            "/each",
            "statement `rows` has a column `body`, but that name is used for a part of each reply",
            "with `as`",
        ),
    ] {
        assert!(told.contains(words) && told.contains(hint), "{told}");
        let reply = get(&server.url(path)).await;
        assert_problem(&reply, 500, "endpoint");
        assert!(reply.text().contains(words), "{}", reply.text());
    }
    assert_eq!(upstream.asked().len(), 0);
}

#[tokio::test]
async fn what_is_asked_is_told_and_held() {
    let upstream = http1().await;
    let files = [
        ("rows.sql", endpoint("[enrich.a]\nrequest = 'GET /a/{id}'\nconcurrency = 3")),
        ("each.toml", each("a", "on_error = 'row'")),
    ];
    let files = files.each_ref().map(|(name, text)| (*name, text.as_str()));
    let settings = "max_row_bytes = '64KiB'\npool = { max = 4 }";
    let server = server(SQLITE, &upstream, settings, &files).await;
    let config = server.folder().join("rowstream.toml").display().to_string();
    let checked = rowstream(&["check", &config]).await;
    let told = String::from_utf8_lossy(&checked.stdout).into_owned();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    for words in [
        "a json\n    a: a call of up for each row, 3 at a time",
        "status integer, duration_ms number, body json or text, error text\n    each: a call of up for each row, 4 at a time",
    ] {
        assert!(told.contains(words), "{told}");
    }
    // A database row can have 16 MiB, and three of them are held.
    let text = std::fs::read_to_string(&config)
        .unwrap()
        .replace("[source.up]", "max_row_bytes = '16MiB'\n[source.up]");
    let bounded = |memory: &str| format!("memory = '{memory}'\n{text}");
    std::fs::write(&config, bounded("400MB")).unwrap();
    let refused = rowstream(&["check", &config]).await;
    assert!(String::from_utf8_lossy(&refused.stderr).contains("`memory` has no room for a stream of"));
    std::fs::write(&config, bounded("2GB")).unwrap();
    assert!(rowstream(&["check", &config]).await.status.success());
}

#[tokio::test]
async fn faults_have_their_place() {
    let upstream = http1().await;
    let sql = |more: &str| ("a.sql", format!("/*\n{more}\n*/ select 1 as id"));
    let toml = |more: &str| ("a.toml", format!("[upstream]\nrequest = 'GET /{{id}}'\n{more}"));
    let enrich = |more: &str| sql(&format!("[enrich.a]\nrequest = 'GET /{{id}}'\n{more}"));
    for ((file, text), words) in [
        (enrich("source = 'upp'"), "there is no source `upp`"),
        (enrich("source = 'db'"), "the source `db` is a database"),
        (enrich("at = 'name'"), "`name` isn't a JSON pointer"),
        (enrich("at = '/a~2'"), "`/a~2` isn't a JSON pointer"),
        (enrich("on_error = 'row'"), "write \"fail\" or \"null\""),
        (enrich("concurrency = 0"), "must be an integer of at least 1"),
        (enrich("order = 'input'"), "unknown key `order` in [enrich.a]"),
        (enrich("headers = { Host = 'x' }"), "the header `host` belongs to the connection"),
        (sql("[enrich.a]\nat = '/a'"), "`request` is missing in [enrich.a]"),
        (sql("[enrich.a]\nrequest = 'POST /'"), "a request must begin with `GET`"),
        (sql("[enrich]"), "`[enrich]` adds nothing"),
        (sql("enrich = 'a'"), "must be a table"),
        (sql("[params]\nb = 'text'\n[enrich.a]\nrequest = 'GET /{id}'"), "no statement uses the parameter `b`"),
        (sql("result = 'value'\n[enrich.a]\nrequest = 'GET /{id}'"), "this statement has a single value"),
        (sql("key = ['id']\nfollow = {}\n[enrich.a]\nrequest = 'GET /{id}'"), "rows of a live tail can't be \
            enriched"),
        (
            (
                "a.sql",
                "/*\nbody = ['$a', '$b']\n[enrich.x]\nrequest = 'GET /{id}'\n*/\n-- name: a :many\nselect 1 as id;\n-- name: b :many\nselect 2 as id".to_owned(),
            ),
            "adds to the rows of one list, but this endpoint has several",
        ),
        (
            (
                "a.sql",
                "/*\n[enrich.x]\nrequest = 'GET /{id}'\n*/\n-- name: a :many\nselect 1 as id;\n-- name: b :many nested in a on id = id\nselect 1 as id".to_owned(),
            ),
            "a statement with nested ones can't be enriched",
        ),
        (toml("each = 'select :b as id'"), "the parameter `:b` is not declared"),
        (toml("each = 'select 1 as id; select 2'"), "there are two statements, but one is expected"),
        (toml("each = 3"), "must be a table"),
        (toml("each = { source = 'db' }"), "`sql` is missing in `each`"),
        (toml("each = { sql = 'select 1 as id', source = 'up' }"), "is an HTTP service and can't run SQL"),
        (toml("each = 'select 1 as id'\nrepeat = 2"), "`repeat` can't be combined with `each`"),
        (toml("each = 'select 1 as id'\norder = 'size'"), "isn't one of the choices"),
        (toml("each = 'select 1 as id'\nat = '/a'"), "unknown key `at`"),
        (toml("each = 'select 1 as id'\n[enrich.a]\nrequest = 'GET /'"), "`enrich` is for rows of a database"),
        (("a.toml", "key = ['id']\n".to_owned() + &toml("each = 'select 1 as id'").1), "`key` is for rows of a database"),
        (
            toml("each = '''\n-- name: a :many\nselect 1 as id\n-- name: b :many\nselect 1 as id'''"),
            "`each` makes calls for the rows of one list",
        ),
    ] {
        let launch = launch(SQLITE, &upstream, "", &[(file, &text)]);
        let Err(exit) = launch.try_start().await else { panic!("no error of {text}") };
        assert!(exit.stderr.contains(words), "{words}:\n{}", exit.stderr);
        assert_eq!(exit.stderr.lines().filter(|line| line.contains(&format!("{file}:"))).count(), 1, "{}", exit.stderr);
    }
}
