//! `Accept: application/vnd.pgrst.object+json`: the only row of a list as an object, on PostgreSQL,
//! MariaDB and SQLite.

use http::Request;
use serde_json::{Value, json};

use crate::support::{Client, Ended, MariaDb, Reply, Server, TestDb, get};

const OBJECT: &str = "application/vnd.pgrst.object+json";
const PEOPLE: &str = "create table person (id integer primary key, name varchar(20), age integer);
    insert into person values (1, 'Ada', 36), (2, 'Ben', 36), (3, 'Cy', null), (4, 'Di', 7), (5, 'Ed', 0), (6, 'Flo', 9), (7, 'Gus', 99);";
const TABLE: &str = "/*\nkey = [\"id\"]\nfilter = true\nsort = true\nselect = true\ntotal = true\n*/
    select id, name, age from person order by id";
/// A list with a limit of its own, and members around it.
const LIMITED: &str = "/*\nkey = [\"id\"]\nfilter = true\nselect = true\ntotal = true
body = { rows = \"$rows\", next = \"$next\" }\n[params]\nleast = { type = \"integer\", default = 0 }
n = { type = \"integer\", optional = true }\n*/
    select id, name, age from person where id > :least order by id limit :n";
/// A list whose name is that of its only format.
const LINES: &str =
    "/*\nkey = [\"id\"]\nfilter = true\nformats = [\"ndjson\"]\n*/\nselect id from person order by id";
const PLAIN: &str = "select id from person order by id";

async fn server(url: &str) -> Server {
    let config = format!(
        "cursor_secret = \"0123456789abcdef0123456789abcdef\"\nexplain = true\n[source.db]\nurl = \"{url}\"\n"
    );
    Server::start(&[
        ("rowstream.toml", &*config),
        ("endpoints/people.sql", TABLE),
        ("endpoints/limited.sql", LIMITED),
        ("endpoints/lines.sql", LINES),
        ("endpoints/plain.sql", PLAIN),
    ])
    .await
}

async fn ask(server: &Server, path: &str, accept: &str) -> Reply {
    let request = Request::get(server.url(path)).header("accept", accept).body(String::new());
    Client::HTTP1.send(request.expect("a request")).await
}

/// Requests, and their only row.
fn found() -> [(&'static str, Value); 13] {
    let ada = json!({"id": 1, "name": "Ada", "age": 36});
    let cy = json!({"id": 3, "name": "Cy", "age": null});
    let gus = json!({"id": 7, "name": "Gus", "age": 99});
    [
        ("/people?id=eq.3", cy.clone()),
        ("/people?age=is.null", cy),
        ("/people?id=eq.3&select=first:name", json!({"first": "Cy"})),
        ("/people?or=(id.eq.7,id.gt.100)&limit=100", gus.clone()),
        ("/people?order=age.desc.nullslast&limit=1", gus.clone()),
        ("/people?limit=1", ada.clone()),
        ("/people?limit=1&offset=3&order=id.desc&select=id", json!({"id": 4})),
        ("/people?offset=6", gus.clone()),
        ("/limited?n=1", ada),
        ("/limited?n=1&least=3&age=lt.7", json!({"id": 5, "name": "Ed", "age": 0})),
        ("/limited?least=6", gus.clone()),
        ("/limited?n=5&id=eq.7", gus),
        ("/limited?n=1&least=1&select=id", json!({"id": 2})),
    ]
}

const NOT_FOUND: &[(&str, &str)] = &[
    ("/people?id=eq.8", "0 rows"),
    ("/people?limit=0", "0 rows"),
    ("/people?offset=7", "0 rows"),
    ("/limited?n=0", "0 rows"),
    ("/limited?n=1&least=7", "0 rows"),
    ("/people", "several rows"),
    ("/people?age=eq.36", "several rows"),
    ("/people?limit=2&order=age", "several rows"),
    ("/people?age=gte.0&limit=100&_count=exact", "several rows"),
    ("/limited", "several rows"),
    ("/limited?n=2", "several rows"),
];

async fn returns_the_only_row(url: &str) {
    let server = server(url).await;
    for (path, row) in found() {
        let reply = ask(&server, path, OBJECT).await;
        assert_eq!((reply.status.as_u16(), &reply.ended), (200, &Ended::Complete), "{path} on {url}");
        assert_eq!(reply.json(), row, "{path} on {url}");
        let told = [reply.header("content-type"), reply.header("vary"), reply.header("link")];
        let expected = [Some("application/vnd.pgrst.object+json; charset=utf-8"), Some("accept"), None];
        assert_eq!(told, expected, "{path} on {url}");
    }
    for (path, found) in NOT_FOUND {
        let reply = ask(&server, path, OBJECT).await;
        let problem = reply.json();
        assert_eq!((reply.status.as_u16(), &problem["code"]), (406, &json!("PGRST116")), "{path} on {url}");
        for member in ["detail", "details", "message"] {
            let text = problem[member].as_str().unwrap_or_default();
            assert!(text.starts_with(&format!("the result contains {found}")), "{path} on {url}: {problem}");
        }
    }
    for (path, range) in [
        ("/people?id=eq.3&_count=exact", "0-0/1"),
        ("/people?limit=1&_count=exact", "0-0/7"),
        ("/limited?n=1&_count=exact", "0-0/7"),
    ] {
        let reply = ask(&server, path, OBJECT).await;
        assert_eq!((reply.status.as_u16(), reply.header("content-range")), (200, Some(range)), "{path}");
    }
}

#[tokio::test]
async fn postgres_returns_the_only_row() {
    let db = TestDb::new().await;
    db.execute(PEOPLE).await;
    returns_the_only_row(&db.url()).await;
}

#[tokio::test]
async fn mariadb_returns_the_only_row() {
    returns_the_only_row(&MariaDb::new(PEOPLE).url()).await;
}

#[tokio::test]
async fn sqlite_returns_the_only_row() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("people.db");
    rusqlite::Connection::open(&file).and_then(|open| open.execute_batch(PEOPLE)).expect("a database");
    returns_the_only_row(&format!("sqlite:{}", file.display())).await;
}

/// A name in the URL precedes `Accept`, and other media types mean a list.
#[tokio::test]
async fn only_accept_asks_for_an_object() {
    let db = TestDb::new().await;
    db.execute(PEOPLE).await;
    let server = server(&db.url()).await;
    let either = format!("{OBJECT}, application/json");
    let stripped = format!("{OBJECT};nulls=stripped");
    for (path, accept, status, part) in [
        ("/people.csv?select=id&id=eq.1", OBJECT, 200, "id\r\n1\r\n"),
        ("/people?select=id&id=eq.1&_format=ndjson", OBJECT, 200, "{\"id\":1}\n"),
        ("/people?select=id&id=eq.1", &*either, 200, "[{\"id\":1}]"),
        ("/people?select=id&id=eq.1", "*/*", 200, "[{\"id\":1}]"),
        ("/people?id=eq.1", &*stripped, 406, "not_acceptable"),
        ("/people?id=eq.1&_explain=1", OBJECT, 406, "not_acceptable"),
        ("/lines?id=eq.1", OBJECT, 406, "not_acceptable"),
        ("/plain", OBJECT, 406, "not_acceptable"),
        ("/people?id=eq.1&_after=x", OBJECT, 400, "a response of one row has no cursors"),
        ("/people?nam=eq.1", OBJECT, 400, "did you mean `name`?"),
    ] {
        let reply = ask(&server, path, accept).await;
        assert_eq!(reply.status.as_u16(), status, "{path} {accept}: {}", reply.text());
        assert!(reply.text().contains(part), "{path} {accept}: {}", reply.text());
    }
}

/// However many rows meet the conditions, the database returns two. A third one would fail.
#[tokio::test]
async fn two_rows_are_read_at_most() {
    let db = TestDb::new().await;
    db.execute(PEOPLE).await;
    let config = format!("[source.db]\nurl = \"{}\"\n", db.url());
    let fails = "/*\nfilter = true\n*/\nselect id, 1 / (id - 5) as part from person";
    let limited = format!("{fails} limit 5");
    let files =
        [("rowstream.toml", &*config), ("endpoints/all.sql", fails), ("endpoints/limited.sql", &*limited)];
    let server = Server::start(&files).await;
    for path in ["/all?id=gt.2", "/limited?id=gt.2", "/all?id=gt.2&limit=100"] {
        let list = ask(&server, path, "application/json").await;
        assert!(!list.text().ends_with(']'), "{path}: the third row of the list fails");
        let reply = ask(&server, path, OBJECT).await;
        assert_eq!((reply.status.as_u16(), &reply.json()["code"]), (406, &json!("PGRST116")), "{path}");
    }
}

/// PostgREST's clients hand on `message`. Other endpoints' documents are as they were.
#[tokio::test]
async fn problem_documents_of_lists_have_a_message() {
    let db = TestDb::new().await;
    db.execute(PEOPLE).await;
    let server = server(&db.url()).await;
    for (path, has_message) in [("/people?nam=eq.1", true), ("/people?id=gt.x", true), ("/plain?n=1", false)]
    {
        let problem = get(&server.url(path)).await.json();
        let expected = if has_message { problem["detail"].clone() } else { Value::Null };
        assert_eq!((&problem["status"], &problem["message"]), (&json!(400), &expected), "{path}: {problem}");
        assert_eq!(problem.get("details"), None, "{path}");
    }
}

/// `null` in a body is the same as no member, but `"_format": null` made the response a list.
#[tokio::test]
async fn null_chooses_no_format() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("people.db");
    rusqlite::Connection::open(&file).and_then(|open| open.execute_batch(PEOPLE)).expect("a database");
    let server = server(&format!("sqlite:{}", file.display())).await;
    for (body, starts) in [
        (json!({"id": "eq.3", "_format": null}), "{\"id\":3"),
        (json!({"id": "eq.3", "_format": null, "_follow": null}), "{\"id\":3"),
        (json!({"id": "eq.3"}), "{\"id\":3"),
        (json!({"id": "eq.3", "_format": "json"}), "[{\"id\":3"),
    ] {
        let request = Request::post(server.url("/people")).header("accept", OBJECT);
        let request = request.header("content-type", "application/json").body(body.to_string());
        let reply = Client::HTTP1.send(request.expect("a request")).await;
        assert!(reply.status == 200 && reply.text().starts_with(starts), "{body}: {}", reply.text());
    }
    // Clients of lists with filters read `message`, also if a table doesn't exist.
    let missing = get(&server.url("/persons")).await;
    assert_eq!((missing.status.as_u16(), &missing.json()["code"]), (404, &json!("no_endpoint")));
    assert_eq!(missing.json()["message"], missing.json()["detail"], "{}", missing.text());
}
