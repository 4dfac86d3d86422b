//! The first record of a framed response: the columns and their types, so that a client makes exact
//! decimals, integers of 64 bits and instants from the rows.

use crate::support::corpus::{self, POSTGRES_SETUP};
use crate::support::{Client, Ended, Reply, Server, TestDb, get};
use http::Request;
use serde_json::{Value, json};

const DATA: &str = "
create table customer (id integer primary key, name text, credit decimal(12, 2), since timestamp, photo blob);
create table orders (customer_id integer, id integer primary key, paid boolean, day date);
create table part (order_id integer, weight real);
insert into customer values (1, 'a', 1.50, '2026-03-01 09:00:00', x'00'), (2, 'b', null, null, null);
insert into orders values (1, 10, true, '2026-03-01'), (1, 11, false, '2026-03-02');
insert into part values (10, 0.5);";
const CUSTOMERS: &str = "
-- name: customers :many
select id, name, credit, since, photo from customer order by id;
-- name: orders :many nested in customers on customer_id = id
select customer_id, id, paid, day from orders order by customer_id, id;
-- name: parts :many nested in orders on order_id = id
select order_id, weight from part order by order_id;
";

/// A server with these endpoints on the customers.
async fn server(endpoints: &[(&str, &str)]) -> Server {
    let config = "[source.db]\nurl = \"sqlite:t.db\"\ncreate = [\"t.sql\"]\n";
    let mut files = vec![("rowstream.toml".to_owned(), config), ("t.sql".to_owned(), DATA)];
    files.extend(endpoints.iter().map(|(name, sql)| (format!("endpoints/{name}.sql"), *sql)));
    let files: Vec<_> = files.iter().map(|(name, text)| (name.as_str(), *text)).collect();
    Server::start(&files).await
}

/// The columns of a framed response's first record, and the rest of the response.
fn described(reply: &Reply) -> (Value, &str) {
    assert_eq!((reply.status.as_u16(), &reply.ended), (200, &Ended::Complete), "{}", reply.text());
    let tag = reply.header("rowstream-tag").expect("the response is framed");
    // The event before it has no data.
    let text = reply.text().strip_prefix("id: none\n\n").unwrap_or(reply.text());
    let text = text.strip_prefix("event: rowstream\ndata: ").unwrap_or(text);
    let (record, rest) = text.split_once('\n').expect("it has lines");
    let record: Value = serde_json::from_str(record.trim_start_matches('\u{1e}')).expect("it's JSON");
    assert_eq!(record["$rowstream"], tag, "{record}");
    (record["columns"].clone(), rest)
}

/// Names with types.
fn columns(columns: &[(&str, &str)]) -> Vec<Value> {
    columns.iter().map(|(name, word)| json!({"name": name, "type": word})).collect()
}

#[tokio::test]
async fn columns_come_first_in_the_order_of_the_rows() {
    let keyed =
        format!("/*\nkey = [\"name\", \"id\"]\n*/\n{}", "select name, id from customer order by name, id");
    let server = server(&[
        ("customers", CUSTOMERS),
        ("keyed", &keyed),
        ("none", "select id, credit from customer where id > 2"),
        ("total", "-- name: total :value\nselect count(*) as n from customer"),
    ])
    .await;
    let parts = json!({"name": "parts", "type": "list", "columns": columns(&[("order_id", "int64"), ("weight", "double")])});
    let mut orders =
        columns(&[("customer_id", "int64"), ("id", "int64"), ("paid", "boolean"), ("day", "date")]);
    orders.push(parts);
    let mut customers = columns(&[
        ("id", "int64"),
        ("name", "string"),
        ("credit", "decimal"),
        ("since", "date-time-local"),
        ("photo", "binary"),
    ]);
    customers.push(json!({"name": "orders", "type": "list", "columns": orders}));
    for (path, expected) in [
        ("customers", customers),
        ("keyed", columns(&[("name", "string"), ("id", "int64")])),
        ("none", columns(&[("id", "int64"), ("credit", "decimal")])),
    ] {
        for (format, separator) in [("ndjson", ""), ("json-seq", "\u{1e}"), ("sse", "\n")] {
            let plain = get(&server.url(&format!("/{path}.{format}"))).await;
            for client in [Client::HTTP1, Client::H2C] {
                let framed = client.get(&server.url(&format!("/{path}.{format}?_end=1"))).await;
                let (columns, rest) = described(&framed);
                assert_eq!(columns, json!(expected), "{path}.{format}");
                let rows =
                    if format == "sse" { rest.strip_prefix(separator).expect("an event ends") } else { rest };
                let plain = plain.text().strip_prefix("id: none\n\n").unwrap_or(plain.text());
                assert!(rows.starts_with(plain), "the rows stay as they are: {rows}");
                assert_eq!(rows.matches("$rowstream").count(), 1, "only the end follows: {rows}");
            }
        }
    }
    let total = get(&server.url("/total.ndjson?_end=1")).await;
    assert_eq!(described(&total).0, json!(columns(&[("n", "int64")])));
}

/// SQLite gives no types for expressions, so counts were of any type. A request that filters and
/// chooses columns has the same types.
#[tokio::test]
async fn expressions_of_sqlite_that_have_one_type_are_of_it() {
    let days = "/*\nkey = [\"day\"]\nfilter = true\nsort = true\nselect = true\n*/
        select day, count(*) as n, avg(id) as middle, sum(id) as ids from orders group by day order by day";
    let server = server(&[("days", days)]).await;
    let all = [("day", "date"), ("n", "int64"), ("middle", "double"), ("ids", "any")];
    for (query, expected, row) in [
        ("", &all[..], r#"{"day":"2026-03-01","n":1,"middle":10,"ids":10}"#),
        ("&n=eq.1&middle=gt.10.5", &all, r#"{"day":"2026-03-02","n":1,"middle":11,"ids":11}"#),
        ("&select=ids,m:n&order=n.desc,day.desc", &[("ids", "any"), ("m", "int64")], r#"{"ids":11,"m":1}"#),
        ("&limit=1", &all, r#"{"day":"2026-03-01","n":1,"middle":10,"ids":10}"#),
    ] {
        let reply = get(&server.url(&format!("/days.ndjson?_end=1{query}"))).await;
        let (described, rest) = described(&reply);
        assert_eq!(described, json!(columns(expected)), "{query}");
        assert_eq!(rest.lines().next(), Some(row), "{query}");
    }
    let refused = get(&server.url("/days?n=eq.x")).await;
    assert_eq!(refused.status, 400, "{}", refused.text());
    let document = get(&server.url("/_rowstream/openapi.json")).await.json();
    let properties = &document["components"]["schemas"]["DaysRow"]["properties"];
    let words: Vec<_> = all.iter().map(|(name, _)| word(&properties[name])).collect();
    assert_eq!(words, all.map(|(_, word)| word));
}

/// A client can still tell an error before the first row by its status.
#[tokio::test]
async fn errors_before_the_first_row_have_a_status() {
    let late = "select id, abs(-9223372036854775807 - id) as n from customer";
    let server = server(&[("fails", late)]).await;
    let reply = get(&server.url("/fails.ndjson?_end=1")).await;
    assert_eq!((reply.status.as_u16(), reply.header("rowstream-tag")), (500, None), "{}", reply.text());
}

/// The word for a schema of OpenAPI.
fn word(schema: &Value) -> &str {
    let schema = schema["anyOf"].get(0).unwrap_or(schema);
    let of_type = schema["type"].as_str().or_else(|| schema["type"][0].as_str());
    schema["format"].as_str().or(of_type).unwrap_or("any")
}

/// `/_rowstream/openapi.json` and the wire have the same types, except for those that JSON Schema
/// has no word for.
#[tokio::test]
async fn the_wire_and_openapi_have_the_same_types() {
    let db = TestDb::new().await;
    db.execute(POSTGRES_SETUP).await;
    let lines = corpus::postgres(db.version().await);
    let values: Vec<_> = (0..).zip(lines).map(|(n, line)| format!("{} as c{n}", line.expression())).collect();
    let config = format!("[source.db]\nurl = \"{}\"\n", db.url());
    let sql = format!("select {}", values.join(", "));
    let server = Server::start(&[("rowstream.toml", &config), ("endpoints/values.sql", &sql)]).await;
    for options in ["", "&_intervals=iso"] {
        let document = get(&server.url(&format!("/_rowstream/openapi.json?{options}"))).await.json();
        let properties = &document["components"]["schemas"]["ValuesRow"]["properties"];
        let reply = get(&server.url(&format!("/values.ndjson?_end=1{options}"))).await;
        let (columns, _) = described(&reply);
        let columns = columns.as_array().expect("a list");
        assert_eq!(columns.len(), values.len());
        for column in columns {
            let name = column["name"].as_str().expect("a name");
            let expected = match column["type"].as_str().expect("a word") {
                "binary" => "string",
                "json" => "any",
                word => word,
            };
            assert_eq!(word(&properties[name]), expected, "{column}: {}", properties[name]);
        }
        let has_duration = columns.iter().any(|column| column["type"] == "duration");
        assert_eq!(has_duration, !options.is_empty());
    }
}

/// The columns of a refcursor are known only once it's open.
#[tokio::test]
async fn columns_of_a_refcursor_are_described() {
    let db = TestDb::new().await;
    db.execute(
        "create function opened() returns refcursor language plpgsql as $$ declare c refcursor; begin
            open c for select 1.5::numeric(5, 2) as price, now() as at; return c; end $$",
    )
    .await;
    let config = format!("[source.db]\nurl = \"{}\"\n", db.url());
    let files = [("rowstream.toml", config.as_str()), ("endpoints/opened.sql", "select opened()")];
    let server = Server::start(&files).await;
    let request =
        Request::get(server.url("/opened")).header("accept", "application/x-ndjson; profile=framed");
    let reply = Client::H2C.send(request.body(String::new()).expect("a request")).await;
    assert_eq!(described(&reply).0, json!(columns(&[("price", "decimal"), ("at", "date-time")])));
}
