//! The number of rows that the server reports is the number that a client counts, on every endpoint
//! of the examples and with lists inside of rows or beside each other.

use std::collections::BTreeMap;

use crate::support::{Client, Ended, Launch, Reply, Server, get, program, wait_until};
use crate::worked;
use http::Request;
use serde_json::{Value, json};

/// The examples that run on SQLite alone, and queries that make their long lists shorter.
const EXAMPLES: [(&str, &str); 5] = [
    ("articles", ""),
    ("authors", ""),
    ("events", "&lastEventNo=5&maxEvents=2000"),
    ("films", ""),
    ("shop", ""),
];
/// The token in the README of the events.
const TOKEN: &str = "Bearer example-reader-token";
const CLIENTS: [Client; 2] = [Client::HTTP1, Client::H2C];

/// Two thousand shelves with two books each, and a third one on each second shelf.
const DATA: &str = "
create table shelf as
  with recursive n(id) as (select 1 union all select id + 1 from n where id < 2000)
  select id, printf('%60d', id) as label from n;
create table book as
  select shelf.id as shelf, shelf.id * 10 + n.column1 as id from shelf, (values (1), (2), (3)) as n
  where n.column1 < 3 or shelf.id % 2 = 0;";
const SHELVES: &str = "
-- name: shelves :many
select id, label from shelf order by id;
-- name: books :many nested in shelves on shelf = id
select shelf, id from book order by shelf, id;";

async fn send(client: Client, url: &str, headers: &[(&str, &str)]) -> Reply {
    let request =
        headers.iter().fold(Request::get(url), |request, (name, value)| request.header(*name, *value));
    let reply = client.send(request.body(String::new()).expect("a request")).await;
    assert_eq!(
        (reply.status.as_u16(), &reply.ended),
        (200, &Ended::Complete),
        "{url}: {:.300}",
        reply.text()
    );
    reply
}

/// The number of rows in a framed answer, and the value of its end record.
fn counted(reply: &Reply) -> (usize, Value) {
    let tag = reply.header("rowstream-tag").expect("the response is framed");
    let begin = format!("{{\"$rowstream\":\"{tag}\",");
    let rows = reply.text().lines().filter(|line| !line.starts_with(&begin)).count();
    let end = reply.text().lines().last().expect("it has an end record");
    (rows, serde_json::from_str::<Value>(end).expect("it's JSON")["end"].clone())
}

/// The paths of endpoints that offer NDJSON and need no value, according to the server.
fn lists(document: &Value) -> Vec<String> {
    let paths = document["paths"].as_object().expect("the document has paths");
    let is_list = |operation: &Value| {
        let content = &operation["responses"]["200"]["content"];
        !content["application/x-ndjson"].is_null()
    };
    let lists = paths.iter().filter(|(_, item)| is_list(&item["get"]));
    lists.map(|(path, _)| path.replace("{id}", "1")).collect()
}

/// The list of customers with their orders has 4 lines, and its end record reported 11 rows.
#[tokio::test]
async fn end_records_count_the_lines_of_every_example() {
    let mut seen = BTreeMap::new();
    for (example, query) in EXAMPLES {
        let folder = worked::filled(example, program()).await;
        let server = Launch::folder(folder.path()).argument("--log-format=off").start().await;
        let auth = [("authorization", TOKEN)];
        let document = send(Client::HTTP1, &server.url("/_rowstream/openapi.json"), &auth).await.json();
        for path in lists(&document) {
            let query = if document["paths"][&path]["get"]["parameters"].to_string().contains("maxEvents") {
                query
            } else {
                ""
            };
            let url = server.url(&format!("{path}.ndjson?_end=1{query}"));
            let (rows, end) = counted(&send(Client::HTTP1, &url, &auth).await);
            assert_eq!(end["rows"], rows, "{example} {path}");
            seen.insert(format!("{example}{path}"), (rows, end["nested_rows"].as_u64()));
        }
    }
    assert_eq!(seen["shop/customers"], (4, Some(7)), "{seen:?}");
    assert_eq!((seen["events/events"], seen["authors/authors"].0), ((2000, None), 100_000), "{seen:?}");
    assert!(seen.len() >= 10, "{seen:?}");
}

async fn library() -> Server {
    let sql = |body: &str, statements: &str| format!("/*\n{body}\n*/\n{statements}");
    let several = sql(
        "body = { first = \"$first\", shelves = \"$shelves\", all = \"$all\", books = \"$count(books)\" }",
        &format!(
            "-- name: first :one\nselect min(id) as id from shelf;\n{SHELVES}\n-- name: all :many\nselect id from book;"
        ),
    );
    let config = "[log]\nformat = \"json\"\n[source.db]\nurl = \"sqlite:t.db\"\ncreate = [\"t.sql\"]\n";
    Server::start(&[
        ("rowstream.toml", config),
        ("t.sql", DATA),
        ("endpoints/shelves.sql", SHELVES),
        ("endpoints/several.sql", &several),
        ("endpoints/books.sql", "select id from book"),
    ])
    .await
}

/// The state of a stream that has ended.
async fn report(server: &Server, reply: &Reply) -> Value {
    let id = reply.header("rowstream-stream").expect("it's streamed");
    wait_until("the stream has ended", async || {
        let report = get(&server.url(&format!("/_rowstream/streams/{id}"))).await.json();
        if report["state"] == "complete" { Ok(report) } else { Err(report) }
    })
    .await
}

#[tokio::test]
async fn rows_inside_of_rows_are_counted_separately() {
    let server = library().await;
    for client in CLIENTS {
        for target in ["/shelves.ndjson?_end=1", "/shelves.json-seq?_end=1", "/shelves"] {
            let reply = send(client, &server.url(target), &[("te", "trailers")]).await;
            let announced = reply.header("trailer").expect("trailers are announced");
            assert_eq!(announced, "rowstream-status, rowstream-rows, rowstream-nested-rows", "{target}");
            let trailers = reply.trailers.as_ref().expect("it has trailers");
            let counts = ["rowstream-rows", "rowstream-nested-rows"].map(|name| trailers[name].to_str().ok());
            assert_eq!(counts, [Some("2000"), Some("5000")], "{target}");
            let report = report(&server, &reply).await;
            assert_eq!((&report["rows"], &report["nested_rows"]), (&json!(2000), &json!(5000)), "{report}");
            assert_eq!(report.get("lists"), None, "one list needs no name: {report}");
        }
        let reply = send(client, &server.url("/shelves.ndjson?_end=1"), &[]).await;
        assert_eq!(counted(&reply), (2000, json!({"rows": 2000, "nested_rows": 5000})));
        let reply = send(client, &server.url("/books.ndjson?_end=1"), &[]).await;
        assert_eq!(counted(&reply), (5000, json!({"rows": 5000})), "nothing is nested");
        assert_eq!(report(&server, &reply).await.get("nested_rows"), None);
    }
    server.wait_for_stdout("\"target\":\"/books.ndjson?_end=1\"").await;
    let log = server.stdout();
    assert!(log.contains("\"outcome\":\"complete\",\"rows\":2000,\"nested_rows\":5000,\"bytes\":"), "{log}");
    assert!(log.contains("\"outcome\":\"complete\",\"rows\":5000,\"bytes\":"), "{log}");
}

/// `rows` is the sum of the lists that the client can count. The object beside them isn't a row of
/// a list.
#[tokio::test]
async fn several_lists_of_a_body_are_counted_by_name() {
    let server = library().await;
    for client in CLIENTS {
        let reply = send(client, &server.url("/several"), &[("te", "trailers")]).await;
        let (body, report) = (reply.json(), report(&server, &reply).await);
        let counts = ["shelves", "all"].map(|list| body[list].as_array().expect("a list").len());
        assert_eq!(counts, [2000, 5000]);
        assert_eq!(report["lists"], json!({"shelves": 2000, "all": 5000}), "{report}");
        assert_eq!((&report["rows"], &report["nested_rows"]), (&json!(7000), &json!(5000)), "{report}");
        assert_eq!(reply.trailers.expect("it has trailers")["rowstream-rows"], "7000");
        assert_eq!(body["books"], 5000, "`$count` still counts a nested statement");
    }
    let metrics = get(&server.url("/_rowstream/metrics")).await;
    let all = 2 * (1 + 2000 + 5000 + 5000);
    let line = format!("rowstream_rows_total{{endpoint=\"/several\",format=\"json\"}} {all}");
    assert!(metrics.text().contains(&line), "the metrics count all rows: {}", metrics.text());
}
