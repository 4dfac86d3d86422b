//! The number of all rows of a list, on PostgreSQL, MariaDB and SQLite.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::Request;
use serde_json::json;

use crate::support::{Client, MariaDb, Reply, Server, TestDb, get};

const PEOPLE: &str = "create table person (id integer primary key, name varchar(20), age integer);
    insert into person values (1, 'Ada', 36), (2, 'Ben', 36), (3, 'Cy', null), (4, 'Di', 7), (5, 'Ed', 0), (6, 'Flo', 9), (7, 'Gus', 99);";
const TABLE: &str = "/*\nkey = [\"id\"]\nfilter = true\nsort = true\nselect = true\ntotal = true\n*/
    select id, name, age from person order by id";
/// A statement with a parameter on either side of its limit's.
const LIMITED: &str =
    "/*\nkey = [\"id\"]\nfilter = true\ntotal = true\n[params]\nleast = { type = \"integer\", default = 0 }
n = { type = \"integer\", optional = true }\n*/
    select id, name, age from person where id > :least order by id limit :n";
/// Its limit is only known once it runs.
const COMPUTED: &str =
    "/*\nkey = [\"id\"]\ntotal = true\n*/\nselect id from person order by id limit (select 3)";
/// Without a key, nothing says where a page begins.
const UNORDERED: &str = "/*\nfilter = true\ntotal = true\n*/\nselect id, age from person";
const TAIL: &str = "/*\nkey = [\"id\"]\ntotal = true\nfollow = { poll = \"20ms\", commits = \"ordered\" }\n*/\nselect id from person order by id";
const NONE: &str = "/*\nkey = [\"id\"]\nfilter = true\n*/\nselect id, age from person order by id";

async fn server(url: &str) -> Server {
    server_with(url, "").await
}

/// A server whose totals can be `planned`.
async fn server_that_guesses(url: &str) -> Server {
    server_with(url, "planned").await
}

async fn server_with(url: &str, totals: &str) -> Server {
    let total = |text: &str| match totals {
        "" => text.to_owned(),
        kind => text.replace("total = true", &format!("total = \"{kind}\"")),
    };
    let [table, limited, unordered] = [TABLE, LIMITED, UNORDERED].map(total);
    let config =
        format!("cursor_secret = \"0123456789abcdef0123456789abcdef\"\n[source.db]\nurl = \"{url}\"\n");
    let mut files = vec![
        ("rowstream.toml", &*config),
        ("endpoints/people.sql", &table),
        ("endpoints/limited.sql", &limited),
        ("endpoints/unordered.sql", &unordered),
        ("endpoints/none.sql", NONE),
    ];
    // MariaDB computes no limits.
    if !url.starts_with("mysql:") {
        files.push(("endpoints/computed.sql", COMPUTED));
    }
    Server::start(&files).await
}

fn rows(reply: &Reply) -> usize {
    reply.json().as_array().unwrap_or_else(|| panic!("{}", reply.text())).len()
}

async fn counts_rows(url: &str) {
    let server = server(url).await;
    for (path, sent, range) in [
        ("/people?_count=exact", 7, "0-6/7"),
        ("/people?_count=exact&limit=3", 3, "0-2/7"),
        ("/people?_count=exact&limit=3&offset=5", 2, "5-6/7"),
        ("/people?_count=exact&offset=9", 0, "*/7"),
        ("/people?_count=exact&limit=0", 0, "*/7"),
        ("/people?_count=exact&age=eq.36", 2, "0-1/2"),
        ("/people?_count=exact&age=is.null&limit=5", 1, "0-0/1"),
        ("/people?_count=exact&age=gt.1000", 0, "*/0"),
        ("/people?_count=exact&or=(id.eq.1,age.lt.10)&order=age.desc&select=name&limit=2", 2, "0-1/4"),
        ("/limited?_count=exact", 7, "*/7"),
        ("/limited?_count=exact&n=2", 2, "0-1/7"),
        ("/limited?_count=exact&n=2&least=3", 2, "0-1/4"),
        ("/limited?_count=exact&n=0", 0, "*/7"),
        ("/limited?_count=exact&n=1&least=1&age=gte.9", 1, "0-0/3"),
        ("/unordered?_count=exact&age=eq.36", 2, "0-1/2"),
    ] {
        let reply = get(&server.url(path)).await;
        assert_eq!(reply.status, 200, "{path} on {url}: {}", reply.text());
        assert_eq!((rows(&reply), reply.header("content-range")), (sent, Some(range)), "{path} on {url}");
    }
    if !url.starts_with("mysql:") {
        let computed = get(&server.url("/computed?_count=exact")).await;
        assert_eq!((rows(&computed), computed.header("content-range")), (3, Some("*/7")), "{url}");
    }
    heads_have_the_total(&server, url).await;
    let first = get(&server.url("/people?_count=exact&limit=3&age=gte.0")).await;
    let link =
        first.header("link").and_then(|link| link.strip_prefix('<')?.split_once('>')).expect("a page").0;
    let second = get(&server.url(&format!("/people{link}"))).await;
    assert_eq!((rows(&second), second.header("content-range")), (3, Some("*/6")), "after a cursor");
    let framed = get(&server.url("/people.ndjson?_count=exact&_end=1&limit=2")).await;
    assert!(framed.text().contains("\"total\":7"), "{}", framed.text());
    let plain = get(&server.url("/people?limit=2")).await;
    assert_eq!(plain.header("content-range"), None);
}

/// HEAD returns the range of the same GET, in any format.
async fn heads_have_the_total(server: &Server, url: &str) {
    for path in [
        "/people?_count=exact",
        "/people?_count=exact&limit=3&offset=5",
        "/people?_count=exact&limit=0",
        "/people?_count=exact&age=gt.1000",
        "/people?_count=exact&age=gte.9&order=age&select=name",
        "/people.csv?_count=exact&age=eq.36",
        "/people.ndjson?_count=exact&_end=1",
        "/people.sse?_count=exact",
        "/limited?_count=exact&n=1&least=1",
        "/limited?_count=exact",
        "/unordered?_count=exact&age=eq.36",
    ] {
        let request = |method| Request::builder().method(method).uri(server.url(path)).body(String::new());
        let head = Client::HTTP1.send(request("HEAD").expect("a request")).await;
        let whole = Client::HTTP1.send(request("GET").expect("a request")).await;
        assert_eq!((head.status.as_u16(), head.text()), (200, ""), "{path} on {url}");
        for name in ["content-range", "content-type"] {
            assert_eq!(head.header(name), whole.header(name), "{name} of {path} on {url}");
        }
        assert!(head.header("content-range").is_some(), "{path} on {url}");
        assert_eq!(head.header("content-length"), None, "{path} on {url}");
    }
}

#[tokio::test]
async fn postgres_counts_rows() {
    let db = TestDb::new().await;
    db.execute(PEOPLE).await;
    counts_rows(&db.url()).await;
}

#[tokio::test]
async fn mariadb_counts_rows() {
    counts_rows(&MariaDb::new(PEOPLE).url()).await;
}

#[tokio::test]
async fn sqlite_counts_rows() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("people.db");
    rusqlite::Connection::open(&file).and_then(|open| open.execute_batch(PEOPLE)).expect("a database");
    counts_rows(&format!("sqlite:{}", file.display())).await;
}

/// PostgREST's clients ask by a header. A server may ignore a preference, but not a parameter.
#[tokio::test]
async fn a_total_can_be_preferred() {
    let db = TestDb::new().await;
    db.execute(PEOPLE).await;
    let server = server(&db.url()).await;
    for (path, prefer, range, applied) in [
        ("/people?limit=2", "count=exact", Some("0-1/7"), Some("count=exact")),
        ("/people", "return=minimal, count=exact; x", Some("0-6/7"), Some("count=exact")),
        ("/people", "Count=\"exact\"", Some("0-6/7"), Some("count=exact")),
        ("/people", "return=minimal; count=exact", None, None),
        ("/people", "count=guessed", None, None),
        ("/people?age=eq.36&limit=1", "count=estimated", None, None),
        ("/none", "count=exact", None, None),
        ("/people?_count=exact", "count=exact", Some("0-6/7"), None),
    ] {
        let request =
            Request::get(server.url(path)).header("prefer", prefer).body(String::new()).expect("one");
        let reply = Client::HTTP1.send(request).await;
        assert_eq!(reply.status, 200, "{path} {prefer}: {}", reply.text());
        let told = [reply.header("content-range"), reply.header("preference-applied")];
        assert_eq!(told, [range, applied], "{path} {prefer}");
    }
    let config = format!("[source.db]\nurl = \"{}\"\n", db.url());
    let server_of_tail = Server::start(&[("rowstream.toml", &*config), ("endpoints/tail.sql", TAIL)]).await;
    let request = Request::get(server_of_tail.url("/tail.ndjson?_follow=1")).header("prefer", "count=exact");
    let tail = Client::HTTP1.open(request.body(String::new()).expect("one")).await.expect("a live tail");
    assert_eq!(tail.status, 200, "a preference never makes a request fail");
    for (path, part) in [
        ("/people?_count=many", "`many` is not a kind of total: write `exact`, `planned` or `estimated`"),
        ("/people?_count=planned&_count=exact", "more than once"),
        ("/people?_count=planned", "this endpoint has no planned totals: write `exact`"),
        ("/none?_count=planned", "this endpoint has no totals"),
        ("/people?_count=exact&_count=exact", "more than once"),
        ("/none?_count=exact", "this endpoint has no totals"),
        ("/none?_count=exact&id=eq.1", "this endpoint has no totals"),
    ] {
        let reply = get(&server.url(path)).await;
        assert_eq!((reply.status.as_u16(), &reply.json()["code"]), (400, &json!("invalid_parameter")));
        assert!(reply.text().contains(part), "{path}: {}", reply.text());
    }
}

/// Asks for the total of `path`, with both methods.
async fn total_of(server: &Server, path: &str) -> (String, String) {
    let mut ranges = Vec::new();
    for method in ["GET", "HEAD"] {
        let request = Request::builder().method(method).uri(server.url(path)).body(String::new());
        let reply = Client::HTTP1.send(request.expect("a request")).await;
        assert_eq!(reply.status, 200, "{method} {path}: {}", reply.text());
        ranges.push(reply.header("content-range").unwrap_or_else(|| panic!("{method} {path}")).to_owned());
    }
    assert_eq!(ranges[0], ranges[1], "{path}");
    let (range, total) = ranges[0].split_once('/').expect("a total");
    (range.to_owned(), total.to_owned())
}

/// A count of a large table takes as long as reading it. The planner answers at once.
async fn estimates_rows(url: &str) {
    let server = server_that_guesses(url).await;
    for (path, least, most) in [
        ("/people?_count=planned&limit=3", 25_000, 35_000),
        ("/people?_count=estimated&limit=3", 25_000, 35_000),
        ("/people?_count=planned&id=lte.20000&limit=3", 5_000, 30_000),
        ("/limited?_count=planned&n=2&least=20000&id=gt.20000", 1_000, 15_000),
    ] {
        let (range, total) = total_of(&server, path).await;
        let total: u64 = total.parse().expect("a number");
        assert!(range == "*" && (least..=most).contains(&total), "{path} on {url}: {range}/{total}");
    }
    for (path, expected) in [
        ("/people?_count=estimated&id=lte.500&limit=3", ("0-2", "500")),
        ("/people?_count=estimated&id=lte.10000&limit=3&offset=9998", ("9998-9999", "10000")),
        ("/people?_count=estimated&id=lt.0", ("*", "0")),
        ("/limited?_count=estimated&n=2&least=29990", ("0-1", "10")),
    ] {
        let (range, total) = total_of(&server, path).await;
        assert_eq!((&*range, &*total), expected, "few rows are counted: {path} on {url}");
    }
    let framed = get(&server.url("/people.ndjson?_count=planned&limit=1&_end=1")).await;
    let end: serde_json::Value =
        serde_json::from_str(framed.text().lines().last().expect("an end")).expect("JSON");
    assert!(end["end"]["total"].as_u64().is_some_and(|total| total > 10_000), "{end} on {url}");
    let page = get(&server.url("/people.html?_count=planned&limit=3")).await;
    assert!(page.text().contains("3 rows of about "), "{} on {url}", page.text());
}

#[tokio::test]
async fn postgres_estimates_rows() {
    let db = TestDb::new().await;
    db.execute(
        "create table person (id integer primary key, name varchar(20), age integer);
        insert into person select id, 'x', id % 100 from generate_series(1, 30000) as id;",
    )
    .await;
    db.execute("analyze person").await;
    estimates_rows(&db.url()).await;
}

#[tokio::test]
async fn mariadb_estimates_rows() {
    let db = MariaDb::new(
        "create table person (id integer primary key, name varchar(20), age integer);
        insert into person select seq, 'x', seq % 100 from seq_1_to_30000;
        analyze table person;",
    );
    estimates_rows(&db.url()).await;
}

/// MariaDB explains a view only to users who can read its tables. A preference, and a count of few
/// rows, don't need that.
#[tokio::test]
async fn mariadb_counts_views_that_it_does_not_explain() {
    let db = MariaDb::new(&format!("{PEOPLE} create view seen as select id, name, age from person;"));
    let user = format!("{}_v", db.name());
    db.execute(&format!(
        "create user {user}@'%' identified by 's3cret'; grant select on {}.seen to {user}@'%'",
        db.name()
    ));
    let config =
        format!("[source.db]\nurl = \"{}\"\n", db.url_of(&format!("{user}:s3cret"), "ssl-mode=disabled"));
    let seen = TABLE.replace("person", "seen").replace("total = true", "total = \"planned\"");
    let server = Server::start(&[("rowstream.toml", &*config), ("endpoints/seen.sql", &seen)]).await;
    for (path, prefer, range) in [
        ("/seen?limit=2", "count=planned", None),
        ("/seen?limit=2", "count=estimated", Some("0-1/7")),
        ("/seen?limit=2&_count=estimated", "", Some("0-1/7")),
        ("/seen?limit=2&_count=planned", "", None),
    ] {
        let request = Request::get(server.url(path)).header("prefer", prefer).body(String::new());
        let reply = Client::HTTP1.send(request.expect("a request")).await;
        assert_eq!(reply.status, 200, "{path} {prefer}: {}", reply.text());
        assert_eq!(reply.header("content-range"), range, "{path} {prefer}");
    }
    db.execute(&format!("drop user {user}@'%'"));
}

#[tokio::test]
async fn sqlite_estimates_no_rows() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("people.db");
    rusqlite::Connection::open(&file).and_then(|open| open.execute_batch(PEOPLE)).expect("a database");
    let server = server(&format!("sqlite:{}", file.display())).await;
    for kind in ["planned", "estimated"] {
        let reply = get(&server.url(&format!("/people?_count={kind}"))).await;
        assert_eq!(reply.status, 400);
        let why = format!("this endpoint has no {kind} totals: write `exact`");
        assert!(reply.text().contains(&why), "{}", reply.text());
        let request = Request::get(server.url("/people")).header("prefer", format!("count={kind}"));
        let reply = Client::HTTP1.send(request.body(String::new()).expect("a request")).await;
        assert_eq!((reply.status.as_u16(), reply.header("content-range")), (200, None));
    }
}

/// A HEAD once ran nothing. One with a total runs only the statement that counts, in the time that a
/// statement has, and in the role of its client.
#[tokio::test]
async fn a_head_only_counts() {
    let db = TestDb::new().await;
    db.execute(&format!("{PEOPLE} create function wait() returns integer language sql volatile as 'select 1 from pg_sleep(30)'")).await;
    let config = format!("[source.db]\nurl = \"{}\"\n[timeout]\nfirst_row = \"300ms\"\n", db.url());
    let fails =
        "/*\ntotal = true\nfilter = true\nselect = true\n*/\nselect id, 1 / (id - 1) as part from person";
    let slow = "/*\ntotal = true\n*/\nselect id from person where wait() = 1";
    let files = [("rowstream.toml", &*config), ("endpoints/fails.sql", fails), ("endpoints/slow.sql", slow)];
    let server = Server::start(&files).await;
    let ask = async |method: &str, path: &str| {
        let request = Request::builder().method(method).uri(server.url(path)).header("prefer", "count=exact");
        Client::HTTP1.send(request.body(String::new()).expect("a request")).await
    };
    let rows = ask("GET", "/fails").await;
    assert_eq!(rows.status, 400, "the statement of the rows divides by zero");
    let head = ask("HEAD", "/fails").await;
    let told = [head.header("content-range"), head.header("preference-applied")];
    assert_eq!((head.status.as_u16(), told), (200, [Some("0-6/7"), Some("count=exact")]));
    assert_eq!(ask("HEAD", "/fails?id=eq.x").await.status, 400);
    let late = ask("HEAD", "/slow").await;
    assert_eq!((late.status.as_u16(), late.text()), (504, ""));
    let plain =
        Client::HTTP1.send(Request::head(server.url("/slow")).body(String::new()).expect("one")).await;
    assert_eq!((plain.status.as_u16(), plain.header("content-range")), (200, None), "nothing runs");
}

/// While rows are added, each response has as many as its total says.
async fn total_is_of_the_same_moment(url: &str, add: impl Fn(i64) + Send + 'static) {
    let server = server(url).await;
    let stopped = Arc::new(AtomicBool::new(false));
    let stop = Arc::clone(&stopped);
    let adding = tokio::task::spawn_blocking(move || {
        for id in (8..).take_while(|_| !stop.load(Ordering::Relaxed)) {
            add(id);
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    let mut totals = Vec::new();
    while totals.len() < 200 || totals.first() == totals.last() {
        let reply = get(&server.url("/people?_count=exact&select=id")).await;
        let total = reply.header("content-range").and_then(|range| range.split_once('/')).expect("a total").1;
        assert_eq!(rows(&reply).to_string(), total, "on {url}");
        totals.push(total.to_owned());
    }
    stopped.store(true, Ordering::Relaxed);
    adding.await.expect("rows are added");
}

#[tokio::test]
async fn postgres_counts_in_the_snapshot_of_the_rows() {
    let db = TestDb::new().await;
    db.execute(PEOPLE).await;
    let runtime = tokio::runtime::Handle::current();
    let client = db.client().await;
    let add = move |id| {
        let id = i32::try_from(id).expect("few are added");
        let added = async { client.execute("insert into person values ($1, 'x', 1)", &[&id]).await };
        runtime.block_on(added).expect("it's added");
    };
    total_is_of_the_same_moment(&db.url(), add).await;
}

#[tokio::test]
async fn sqlite_counts_in_the_snapshot_of_the_rows() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("people.db");
    let writer = rusqlite::Connection::open(&file).expect("a database");
    writer
        .execute_batch(&format!("pragma journal_mode = wal; pragma synchronous = off; {PEOPLE}"))
        .expect("rows");
    let add = move |id: i64| {
        writer.execute("insert into person values (?1, 'x', 1)", [id]).expect("it's added");
    };
    total_is_of_the_same_moment(&format!("sqlite:{}", file.display()), add).await;
}
