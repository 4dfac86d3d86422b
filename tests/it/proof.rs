//! Proofs of completeness: in every format and protocol, a complete result has one, and a partial
//! result never does.

use std::time::Duration;

use crate::support::{Client, Ended, Reply, Server, TestDb, decode, get, peak_memory_bytes, wait_until};
use base64::prelude::{BASE64_STANDARD, Engine as _};
use http::Request;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;

const CLIENTS: [Client; 2] = [Client::HTTP1, Client::H2C];
/// The folders of the endpoints, each with its own source.
const SOURCES: [&str; 2] = ["pg", "lite"];
const ROWS: usize = 5000;
/// The number of rows before the failing one.
const BEFORE: [usize; 2] = [29_999, 49_999];

/// The endpoints for PostgreSQL.
const PG: &[(&str, &str)] = &[
    ("rows", "select i as n, repeat('x', 100) as t from generate_series(1, 5000) i"),
    ("late", "select n, 1 / (30000 - n) as q from (select generate_series(1, 40000) as n) s"),
    ("long", "select generate_series(1, 1000000000) as n, repeat('x', 100) as t"),
    (
        "large",
        "select n, repeat('x', case n when 2 then 8000000 else 10000 end) as t from generate_series(1, 2) as n",
    ),
    ("few", "select generate_series(1, 3) as n"),
    (
        "forged",
        "select '00000000000000000000000000000000' as \"$rowstream\", '{\"rows\":1}'::json as \"end\" from generate_series(1, 3)",
    ),
];

/// The same for SQLite. The errors depend on the row. Otherwise SQLite would find them before the
/// first one.
const LITE: &[(&str, &str)] = &[
    (
        "rows",
        "with recursive c(i) as (select 1 union all select i + 1 from c where i < 5000) select i as n, printf('%100d', i) as t from c",
    ),
    (
        "late",
        "with recursive c(i) as (select 1 union all select i + 1 from c where i < 100000)
        select i as n, abs(-9223372036854775807 - i / 50000) as v from c",
    ),
    (
        "long",
        "with recursive c(i) as (select 1 union all select i + 1 from c where i < 100000000) select i as n, printf('%100d', i) as t from c",
    ),
    ("few", "select 1 as n union all select 2 union all select 3"),
    (
        "forged",
        "select '00000000000000000000000000000000' as \"$rowstream\", json('{\"rows\":1}') as \"end\" union all select 'a', 'b'
        union all select 'a', 'c'",
    ),
];

/// Fails inside the object of a row.
const NESTED: &str = "/*\nsource = \"pg\"\n*/
    -- name: a :many\nselect i as id from generate_series(0, 19) i order by i;
    -- name: b :many nested in a on a = id\nselect n / 1000 as a, 1 / (14500 - n) as q from (select generate_series(0, 19999) as n) s";

/// A server with both sources. `settings` precede them.
async fn server(db: &TestDb, settings: &str) -> Server {
    let config = format!(
        "{settings}\n[source.pg]\nurl = \"{}\"\n[source.lite]\nurl = \"sqlite:lite.db\"\ncreate = [\"lite.sql\"]\n",
        db.url()
    );
    let mut files = vec![
        ("rowstream.toml".to_owned(), config),
        ("lite.sql".to_owned(), "create table t(n integer);".to_owned()),
    ];
    for (source, endpoints) in SOURCES.into_iter().zip([PG, LITE]) {
        for (name, sql) in endpoints {
            files.push((
                format!("endpoints/{source}/{name}.sql"),
                format!("/*\nsource = \"{source}\"\n*/\n{sql}"),
            ));
        }
        let body = "body = { rows = \"$rows\", count = \"$count\", digest = \"$digest\", last = true }";
        for name in ["rows", "few"] {
            let sql = endpoints.iter().find(|endpoint| endpoint.0 == name).unwrap().1;
            let sql = format!("/*\nsource = \"{source}\"\n{body}\n*/\n{sql}");
            files.push((format!("endpoints/{source}/digest_{name}.sql"), sql));
        }
    }
    files.push(("endpoints/pg/nested.sql".to_owned(), NESTED.to_owned()));
    let files: Vec<_> = files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    Server::start(&files).await
}

async fn send(client: Client, url: &str, headers: &[(&str, &str)]) -> Reply {
    let request =
        headers.iter().fold(Request::get(url), |request, (name, value)| request.header(*name, *value));
    client.send(request.body(String::new()).unwrap()).await
}

/// The expected value of `Content-Digest` and of digests within bodies.
fn digest_of(bytes: &[u8]) -> String {
    format!("sha-256=:{}:", BASE64_STANDARD.encode(Sha256::digest(bytes)))
}

/// The server's own records after the first one, which describes the columns, and the rows before
/// them.
fn records(reply: &Reply) -> (Vec<Value>, &[u8]) {
    let tag = reply.header("rowstream-tag").expect("the response is framed");
    assert!(tag.len() == 32 && tag.bytes().all(|byte| byte.is_ascii_hexdigit()), "{tag}");
    let begins = format!("{{\"$rowstream\":\"{tag}\",");
    let (columns, rows) = reply.text().split_once('\n').expect("it has lines");
    assert!(columns.trim_start_matches('\u{1e}').starts_with(&format!("{begins}\"columns\":[")), "{columns}");
    let at = rows.find(&begins).unwrap_or(rows.len());
    let (rows, rest) = rows.split_at(at);
    let records = rest.lines().map(|line| serde_json::from_str(line.trim_start_matches('\u{1e}')).unwrap());
    (records.collect(), rows.trim_end_matches('\u{1e}').as_bytes())
}

#[tokio::test]
async fn a_framed_result_ends_with_its_record() {
    let db = TestDb::new().await;
    let server = server(&db, "").await;
    for source in SOURCES {
        for (format, media_type) in [
            ("ndjson", "application/x-ndjson; profile=framed"),
            ("json-seq", "application/json-seq; profile=framed"),
        ] {
            for (name, rows) in [("rows", ROWS), ("few", 3)] {
                let plain = get(&server.url(&format!("/{source}/{name}.{format}"))).await;
                assert_eq!((plain.header("rowstream-tag"), plain.text().lines().count()), (None, rows));
                let url = server.url(&format!("/{source}/{name}.{format}?_end=1"));
                for client in CLIENTS {
                    let reply = client.get(&url).await;
                    assert_eq!(reply.ended, Ended::Complete);
                    assert_eq!(reply.header("content-type"), Some(media_type));
                    let (records, before) = records(&reply);
                    let tag = reply.header("rowstream-tag");
                    assert_eq!(records, [json!({"$rowstream": tag, "end": {"rows": rows}})]);
                    assert_eq!(before, plain.body, "the rows are those of the plain format");

                    let reply = client.get(&format!("{url}&_digest=sha-256")).await;
                    let (records, _) = self::records(&reply);
                    let end = reply.text().rfind("{\"$rowstream\"").unwrap();
                    let before = &reply.body[..if format == "json-seq" { end - 1 } else { end }];
                    assert_eq!(records[0]["end"]["digest"], digest_of(before), "{source} {format} {name}");
                }
            }
        }
    }
}

#[tokio::test]
async fn accept_asks_for_the_profile_and_the_parameter_wins() {
    let db = TestDb::new().await;
    let server = server(&db, "").await;
    let framed = "application/x-ndjson; profile=framed";
    for (target, accept, expected) in [
        ("/pg/few", framed, framed),
        ("/pg/few", "application/x-ndjson;profile=\"framed\"", framed),
        ("/pg/few", "application/x-ndjson;profile=other", "application/x-ndjson"),
        ("/pg/few", "application/json-seq;profile=framed", "application/json-seq; profile=framed"),
        ("/pg/few", "application/x-ndjson, application/x-ndjson;profile=framed", framed),
        (
            "/pg/few",
            "application/x-ndjson, application/x-ndjson;profile=framed;q=0.5",
            "application/x-ndjson",
        ),
        ("/pg/few", "application/json;profile=framed", "application/json"),
        ("/pg/few?_end=0", framed, "application/x-ndjson"),
        ("/pg/few.ndjson", framed, "application/x-ndjson"),
        ("/pg/few?_end=1", "application/x-ndjson", framed),
    ] {
        let reply = send(Client::HTTP1, &server.url(target), &[("accept", accept)]).await;
        assert_eq!(reply.header("content-type"), Some(expected), "{target} {accept}");
        assert_eq!(
            reply.header("rowstream-tag").is_some(),
            expected.ends_with("framed"),
            "{target} {accept}"
        );
    }
}

#[tokio::test]
async fn formats_with_an_end_of_their_own_stay_as_they_are_and_csv_refuses() {
    let db = TestDb::new().await;
    let server = server(&db, "").await;
    // The ends of Arrow's batches depend on the rows' arrival, so its bytes differ between runs.
    for (target, end) in
        [("/pg/rows.json", &b"}]"[..]), ("/pg/rows.arrow", &[0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0])]
    {
        let plain = get(&server.url(target)).await;
        let framed = get(&server.url(&format!("{target}?_end=1"))).await;
        let told = ["rowstream-tag", "content-type"].map(|name| framed.header(name));
        assert_eq!(told, [None, plain.header("content-type")], "{target}");
        assert!(framed.ended == Ended::Complete && framed.body.ends_with(end), "{target}");
        assert!(!String::from_utf8_lossy(&framed.body).contains("$rowstream"), "{target}");
    }
    for (target, told) in [
        ("/pg/rows.csv?_end=1", "`csv` holds only rows"),
        ("/pg/rows?_end=yes", "`yes` is not one of"),
        ("/pg/rows?_digest=md5", "`md5` is not one of `sha-256`"),
        ("/pg/rows?_wait=start", "`start` is not one of `end`"),
    ] {
        let reply = get(&server.url(target)).await;
        assert_eq!(reply.status, 400, "{target}");
        assert!(reply.json()["detail"].as_str().unwrap().contains(told), "{}", reply.text());
    }
}

#[tokio::test]
async fn what_looks_like_a_record_stays_a_row() {
    let db = TestDb::new().await;
    let server = server(&db, "").await;
    // SQLite has no type for the result of `json()`.
    for (source, end) in SOURCES.into_iter().zip([json!({"rows": 1}), json!("{\"rows\":1}")]) {
        let reply = get(&server.url(&format!("/{source}/forged.ndjson?_end=1"))).await;
        let tag = reply.header("rowstream-tag").unwrap();
        let lines: Vec<Value> =
            reply.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines[1], json!({"$rowstream": "0".repeat(32), "end": end}));
        let own: Vec<_> = lines.iter().filter(|line| line["$rowstream"] == tag).collect();
        assert_eq!((own.len(), &own[0]["columns"][1]["name"]), (2, &json!("end")), "{own:?}");
        assert_eq!(*own[1], json!({"$rowstream": tag, "end": {"rows": 3}}));
        let again = get(&server.url(&format!("/{source}/forged.ndjson?_end=1"))).await;
        assert_ne!(again.header("rowstream-tag"), Some(tag), "each response has its own");
    }
}

/// hyper dropped its buffer when a body failed, so the last rows before a failure were lost.
#[tokio::test]
async fn all_rows_before_a_failure_arrive_and_then_it_breaks() {
    let db = TestDb::new().await;
    let server = server(&db, "compression = \"on\"").await;
    for (source, before) in SOURCES.into_iter().zip(BEFORE) {
        for client in CLIENTS {
            for (target, framed) in
                [("late.ndjson", false), ("late.ndjson?_end=1", true), ("late.json-seq?_end=1", true)]
            {
                let reply = client.get(&server.url(&format!("/{source}/{target}"))).await;
                assert!(matches!(reply.ended, Ended::Broken(_)), "{target}: {:?}", reply.ended);
                assert_eq!(reply.text().matches("{\"n\":").count(), before, "{source} {target} {client:?}");
                assert!(reply.text().ends_with('\n'), "the last row is whole");
                if framed {
                    let (records, _) = records(&reply);
                    assert_eq!(records.len(), 1);
                    let error = &records[0]["error"];
                    assert!(error["code"].is_string() && error["detail"].is_string(), "{error}");
                    assert!(source == "lite" || error["sqlstate"] == "22012", "{error}");
                }
            }
            let url = server.url(&format!("/{source}/late.csv"));
            let reply = client.get(&url).await;
            assert_eq!(reply.text().lines().count(), before + 1);
            assert!(matches!(reply.ended, Ended::Broken(_)), "{:?}", reply.ended);
            for coding in crate::support::CODINGS {
                let reply = send(client, &url, &[("accept-encoding", coding)]).await;
                assert!(matches!(reply.ended, Ended::Broken(_)), "{:?}", reply.ended);
                let decoded =
                    decode(coding, &reply.body).expect_err("a compressed body that breaks has no end");
                assert_eq!(decoded.iter().filter(|&&byte| byte == b'\n').count(), before + 1, "{coding}");
            }
        }
    }
}

/// An error record is a separate line, even after half a row.
#[tokio::test]
async fn an_error_within_a_row_is_told_in_a_line_of_its_own() {
    let db = TestDb::new().await;
    let server = server(&db, "").await;
    for client in CLIENTS {
        let reply = client.get(&server.url("/pg/nested.ndjson?_end=1")).await;
        assert!(matches!(reply.ended, Ended::Broken(_)), "{:?}", reply.ended);
        let (records, rows) = records(&reply);
        assert_eq!((records.len(), &records[0]["error"]["sqlstate"]), (1, &json!("22012")));
        let rows = std::str::from_utf8(rows).unwrap();
        let whole = rows.lines().filter(|line| serde_json::from_str::<Value>(line).is_ok()).count();
        assert!(rows.ends_with('\n') && whole == 14, "{whole}");
        assert_eq!(rows.lines().count(), whole + 1, "the last row is not whole");
        let framed = client.get(&server.url("/pg/nested.json-seq?_end=1")).await;
        assert_eq!(self::records(&framed).0[0]["error"]["sqlstate"], "22012");
    }
}

#[tokio::test]
async fn a_killed_backend_is_told_by_a_record() {
    let db = TestDb::new().await;
    let server = server(&db, "").await;
    let admin = db.client().await;
    for client in CLIENTS {
        let mut stream = client.receive_buffer(32 * 1024).stream(&server.url("/pg/long.ndjson?_end=1")).await;
        let tag = stream.headers["rowstream-tag"].to_str().unwrap().to_owned();
        stream.at_least(100_000).await;
        let kill = "select count(pg_terminate_backend(pid)) from pg_stat_activity
            where datname = current_database() and pid <> pg_backend_pid() and query like '%generate_series%'";
        assert_eq!(admin.query_one(kill, &[]).await.unwrap().get::<_, i64>(0), 1);
        let reply = stream.rest().await;
        assert!(matches!(reply.ended, Ended::Broken(_)), "{:?}", reply.ended);
        let last: Value = serde_json::from_str(reply.text().lines().last().unwrap()).unwrap();
        assert_eq!(last["$rowstream"], tag, "{last}");
        assert!(last["error"]["code"].is_string(), "{last}");
    }
}

/// If a client was still sending when its response failed, the kernel reset the connection and
/// discarded the unread rows.
#[tokio::test]
async fn requests_that_nobody_reads_do_not_cost_the_rows() {
    let db = TestDb::new().await;
    let server = server(&db, "").await;
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(8 * 1024).unwrap();
    let mut socket = socket.connect(server.address().parse().unwrap()).await.unwrap();
    let next = "GET /pg/few HTTP/1.1\r\nhost: a\r\n\r\n".repeat(800);
    socket
        .write_all(format!("GET /pg/late.ndjson HTTP/1.1\r\nhost: a\r\n\r\n{next}").as_bytes())
        .await
        .unwrap();
    let (mut read, mut piece) = (Vec::new(), vec![0; 16 * 1024]);
    let end = loop {
        match socket.read(&mut piece).await {
            Ok(0) => break Ok(()),
            Ok(bytes) => read.extend_from_slice(&piece[..bytes]),
            Err(error) => break Err(error.kind()),
        }
        // The server ends long before the last byte is read, and no longer reads the remaining
        // requests.
        tokio::time::sleep(Duration::from_millis(1)).await;
    };
    let text = String::from_utf8_lossy(&read);
    assert_eq!(text.matches("{\"n\":").count(), BEFORE[0], "{end:?}");
    assert_eq!(end, Ok(()));
    assert!(!text.ends_with("\r\n0\r\n\r\n"), "it has no last chunk");
}

#[tokio::test]
async fn trailers_tell_of_the_end() {
    let db = TestDb::new().await;
    let server = server(&db, "compression = \"on\"").await;
    let wishes = [("te", "trailers"), ("want-content-digest", "sha-512=10, sha-256=1")];
    for source in SOURCES {
        for client in CLIENTS {
            for target in
                ["rows", "rows.ndjson", "rows.csv", "rows.json-seq", "rows.arrow", "rows.ndjson?_end=1"]
            {
                let url = server.url(&format!("/{source}/{target}"));
                for coding in ["identity", "zstd", "br", "gzip"] {
                    let reply =
                        send(client, &url, &[wishes[0], wishes[1], ("accept-encoding", coding)]).await;
                    assert_eq!(reply.ended, Ended::Complete);
                    let announced = "rowstream-status, rowstream-rows, content-digest";
                    assert_eq!(reply.header("trailer"), Some(announced));
                    let trailers = reply.trailers.as_ref().expect("trailers");
                    let told =
                        ["rowstream-status", "rowstream-rows", "content-digest"].map(|name| &trailers[name]);
                    assert_eq!(
                        told,
                        ["complete", "5000", digest_of(&reply.body).as_str()],
                        "{target} {coding}"
                    );
                }
                let reply = send(client, &url, &wishes[..1]).await;
                let trailers = reply.trailers.as_ref().expect("trailers");
                assert_eq!((trailers.len(), &trailers["rowstream-rows"]), (2, &"5000".parse().unwrap()));
                let reply = client.get(&url).await;
                assert_eq!((reply.trailers, reply.headers.get("trailer")), (None, None), "nobody asked");
            }
            let reply = send(client, &server.url(&format!("/{source}/late.ndjson")), &wishes).await;
            assert!(matches!(reply.ended, Ended::Broken(_)), "{:?}", reply.ended);
            assert_eq!(reply.trailers, None, "what has no end has no trailers");
        }
    }
}

#[tokio::test]
async fn a_whole_answer_has_its_digest_in_the_head() {
    let db = TestDb::new().await;
    let server = server(&db, "compression = \"on\"").await;
    for target in ["/pg/few", "/pg/few.ndjson?_end=1", "/pg/few.csv", "/lite/few.json-seq"] {
        let asked = format!("{target}{}_digest=sha-256", if target.contains('?') { '&' } else { '?' });
        let replies = [
            get(&server.url(&asked)).await,
            send(Client::H2C, &server.url(target), &[("want-content-digest", "sha-256=1")]).await,
        ];
        for reply in replies {
            assert_eq!(reply.header("content-digest"), Some(digest_of(&reply.body).as_str()), "{target}");
            let none = ["rowstream-stream", "trailer"].map(|name| reply.header(name));
            assert_eq!(none, [None, None], "its length proves its end");
        }
        assert_eq!(get(&server.url(target)).await.header("content-digest"), None);
    }
}

#[tokio::test]
async fn a_template_has_the_digest_of_what_stands_before_it() {
    let db = TestDb::new().await;
    let server = server(&db, "").await;
    for source in SOURCES {
        for (name, rows) in [("rows", ROWS), ("few", 3)] {
            let reply = get(&server.url(&format!("/{source}/digest_{name}"))).await;
            let body = reply.json();
            assert_eq!((&body["count"], &body["last"]), (&json!(rows), &json!(true)));
            let at = reply.text().rfind("\"sha-256=:").unwrap();
            assert_eq!(body["digest"], digest_of(&reply.body[..at]), "{source} {name}");
        }
    }
}

/// The report of a stream, once its state is `state`.
async fn told(server: &Server, id: &str, state: &str) -> Value {
    wait_until(&format!("it's {state}"), async || {
        let reply = get(&server.url(&format!("/_rowstream/streams/{id}"))).await;
        assert_eq!((reply.status.as_u16(), reply.header("content-type")), (200, Some("application/json")));
        let told = reply.json();
        if told["state"] == state { Ok(told) } else { Err(told) }
    })
    .await
}

#[tokio::test]
async fn streams_are_told_of_by_their_id() {
    let db = TestDb::new().await;
    let server = server(&db, "").await;
    for ((source, before), client) in SOURCES.into_iter().zip(BEFORE).zip(CLIENTS) {
        for format in ["json", "ndjson", "csv", "json-seq", "arrow"] {
            let target = format!("/{source}/rows.{format}?_digest=sha-256");
            let reply = client.get(&server.url(&target)).await;
            // Available at once: a client with the last byte needs only one request.
            let id = reply.header("rowstream-stream").expect("it is streamed");
            let told = get(&server.url(&format!("/_rowstream/streams/{id}"))).await.json();
            let shown = [&told["id"], &told["state"], &told["endpoint"], &told["format"]];
            assert_eq!(shown, [id, "complete", &format!("/{source}/rows"), format]);
            assert_eq!((&told["rows"], &told["bytes"]), (&json!(ROWS), &json!(reply.body.len())), "{told}");
            assert_eq!(told["digest"], digest_of(&reply.body));
            assert!(told["started"].as_str().unwrap() <= told["ended"].as_str().unwrap(), "{told}");
        }
        let reply = client.get(&server.url(&format!("/{source}/late.csv"))).await;
        let failed = told(&server, reply.header("rowstream-stream").unwrap(), "failed").await;
        assert_eq!(
            (&failed["rows"], failed["error"]["code"].is_string()),
            (&json!(before), true),
            "{failed}"
        );
        assert!(source == "lite" || failed["error"]["sqlstate"] == "22012", "{failed}");

        let stream =
            client.receive_buffer(32 * 1024).stream(&server.url(&format!("/{source}/long.csv"))).await;
        let id = stream.headers["rowstream-stream"].to_str().unwrap().to_owned();
        let running = told(&server, &id, "running").await;
        assert_eq!((running.get("ended"), running.get("digest")), (None, None));
        drop(stream);
        let aborted = told(&server, &id, "aborted").await;
        assert!(aborted["rows"].as_u64().unwrap() > 0 && aborted.get("error").is_none(), "{aborted}");
    }
    // Its last row is complete in the server, but hasn't been sent when the client disconnects.
    let stream = Client::H2C.stream(&server.url("/pg/large.csv")).await;
    let id = stream.headers["rowstream-stream"].to_str().unwrap().to_owned();
    tokio::time::sleep(Duration::from_millis(300)).await;
    drop(stream);
    let aborted = told(&server, &id, "aborted").await;
    assert!(aborted["bytes"].as_u64().unwrap() < 8_000_000, "{aborted}");
    for id in ["", "0", "00000000000000000000000000000000", "../live"] {
        let reply = get(&server.url(&format!("/_rowstream/streams/{id}"))).await;
        assert_eq!(reply.status, 404, "{id}");
    }
}

#[tokio::test]
async fn a_result_that_waits_has_its_length_and_its_status() {
    let db = TestDb::new().await;
    let server = server(&db, "spool_limit = \"2MiB\"\ncompression = \"on\"").await;
    for source in SOURCES {
        for client in CLIENTS {
            for target in ["rows", "rows.ndjson", "rows.csv", "few", "digest_rows"] {
                let url = server.url(&format!("/{source}/{target}"));
                let (streamed, waited) =
                    (client.get(&url).await, client.get(&format!("{url}?_wait=end&_digest=sha-256")).await);
                assert_eq!((&waited.body, &waited.ended), (&streamed.body, &Ended::Complete), "{target}");
                let length = streamed.body.len().to_string();
                assert_eq!(waited.header("content-length"), Some(length.as_str()), "{target}");
                assert_eq!(waited.header("content-digest"), Some(digest_of(&waited.body).as_str()));
                assert_eq!(waited.header("rowstream-stream"), None);
                for coding in crate::support::CODINGS {
                    let waited =
                        send(client, &format!("{url}?_wait=end"), &[("accept-encoding", coding)]).await;
                    let length = waited.body.len().to_string();
                    assert_eq!(waited.header("content-length"), Some(length.as_str()));
                    let whole = waited.header("content-encoding").map(|coding| decode(coding, &waited.body));
                    assert!(
                        whole.is_none_or(|decoded| decoded.unwrap() == streamed.body),
                        "{target} {coding}"
                    );
                }
            }
            let framed = client.get(&server.url(&format!("/{source}/rows.ndjson?_wait=end&_end=1"))).await;
            assert_eq!(records(&framed).0[0]["end"], json!({"rows": ROWS}));

            let failed = client.get(&server.url(&format!("/{source}/late.ndjson?_wait=end"))).await;
            let problem = failed.json();
            assert_eq!(failed.header("content-type"), Some("application/problem+json"));
            if source == "pg" {
                assert_eq!(
                    (failed.status.as_u16(), &problem["sqlstate"]),
                    (500, &json!("22012")),
                    "{problem}"
                );
            } else {
                assert!(failed.status.as_u16() >= 400, "{problem}");
            }

            let long = client.get(&server.url(&format!("/{source}/long.ndjson?_wait=end"))).await;
            assert_eq!((long.status.as_u16(), &long.json()["code"]), (507, &json!("result_too_long")));
            assert!(long.json()["detail"].as_str().unwrap().contains("2097152"), "{}", long.text());
        }
    }
}

/// A result that waits for its end needs a file but no database connection, and the server's memory
/// stays the same.
#[tokio::test]
async fn a_result_that_waits_frees_its_connection_and_takes_no_memory() {
    let db = TestDb::new().await;
    let folder = tempfile::tempdir().unwrap();
    let config = format!(
        "spool_folder = \"{}\"\n[source.pg]\nurl = \"{}\"\npool = {{ max = 1 }}\n",
        folder.path().display(),
        db.url()
    );
    let sql = "select generate_series(1, 100000) as n, repeat('x', 400) as t";
    let few = "select generate_series(1, 3) as n";
    let server = Server::start(&[
        ("rowstream.toml", &config),
        ("endpoints/large.sql", sql),
        ("endpoints/few.sql", few),
    ])
    .await;
    get(&server.url("/few")).await;
    let before = peak_memory_bytes(server.pid());
    let mut waiting = Vec::new();
    for client in CLIENTS {
        let stream = client.receive_buffer(32 * 1024).stream(&server.url("/large.ndjson?_wait=end")).await;
        assert!(stream.headers.contains_key("content-length"));
        waiting.push(stream);
    }
    // None of them is read, and the pool has one connection.
    assert_eq!(get(&server.url("/few")).await.status, 200);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "the files have no names");
    for stream in waiting {
        let length: usize = stream.headers["content-length"].to_str().unwrap().parse().unwrap();
        let reply = stream.rest().await;
        assert_eq!((reply.body.len(), &reply.ended), (length, &Ended::Complete));
        assert_eq!(reply.text().lines().count(), 100_000);
    }
    let grown = peak_memory_bytes(server.pid()).saturating_sub(before);
    assert!(grown < 16_000_000, "memory grew by {grown} bytes with two results of 40 MB");
}
