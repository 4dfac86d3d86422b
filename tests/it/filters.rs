//! Filters, orders, columns and pages of requests, on PostgreSQL, MariaDB and SQLite.

mod oracle;
mod placed;

use std::collections::{BTreeMap, BTreeSet};

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use self::oracle::{Database, Random, table};
use crate::support::{MariaDb, MariaReplica, corpus, program};
use http::Request;

use crate::support::{Client, Reply, Server, TestDb, get};
use crate::worked::{Listening, Started};

/// An id, a name, an age, an amount and a day.
type Person = (i64, Option<&'static str>, Option<i64>, Option<&'static str>, &'static str);

/// Seven people on each database. Texts are compared byte by byte.
const PEOPLE: [Person; 7] = [
    (1, Some("Ada"), Some(36), Some("1.50"), "2026-01-01"),
    (2, Some("ada"), Some(36), Some("-2.00"), "2026-01-02"),
    (3, Some("Bob"), None, None, "2026-01-03"),
    (4, None, Some(7), Some("10.25"), "2026-01-04"),
    (5, Some("50%_*"), Some(0), Some("0.00"), "2026-01-05"),
    (6, Some("O'Hara, \"Eve\" (x)"), Some(-5), None, "2026-01-06"),
    (7, Some(""), Some(99), Some("99.99"), "2026-01-07"),
];

fn people(text: &str) -> String {
    let rows: Vec<_> = PEOPLE
        .iter()
        .map(|(id, name, age, paid, day)| {
            let quoted = |text: &str| format!("'{}'", text.replace('\'', "''"));
            let name = name.map_or("null".to_owned(), quoted);
            let [age, paid] = [age.map(|age| age.to_string()), paid.map(str::to_owned)];
            let [age, paid] = [age, paid].map(|value| value.unwrap_or("null".to_owned()));
            format!("({id}, {name}, {age}, {paid}, '{day}')")
        })
        .collect();
    format!(
        "create table person (id integer primary key, name {text}, age integer, paid decimal(10, 2), day date);
         insert into person values {};",
        rows.join(", ")
    )
}

async fn serve(url: &str) -> Listening {
    Started::new(program(), &["serve", url, "--port", "0"]).listening().await
}

fn encoded(query: &str) -> String {
    query.bytes().fold(String::new(), |mut out, byte| {
        match byte {
            b'a'..=b'z'
            | b'A'..=b'Z'
            | b'0'..=b'9'
            | b'='
            | b'&'
            | b'.'
            | b'('
            | b')'
            | b','
            | b'*'
            | b'_' => {
                out.push(byte.into());
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
        out
    })
}

async fn ask(server: &Listening, query: &str) -> Reply {
    get(&server.url(&format!("/person?{}", encoded(query)))).await
}

fn ids(reply: &Reply) -> Vec<i64> {
    let json = reply.json();
    let rows = json.as_array().unwrap_or_else(|| panic!("{}", reply.text()));
    rows.iter().map(|row| row["id"].as_i64().unwrap()).collect()
}

/// Requests after PostgREST's documentation, and the ids of their rows.
const ANSWERS: &[(&str, &[i64])] = &[
    ("id=eq.3", &[3]),
    ("id=neq.3", &[1, 2, 4, 5, 6, 7]),
    ("age=gt.36", &[7]),
    ("age=gte.36", &[1, 2, 7]),
    ("age=lt.0", &[6]),
    ("age=lte.0", &[5, 6]),
    ("age=neq.36", &[4, 5, 6, 7]),
    ("age=gte.0&age=lt.36", &[4, 5]),
    ("age=not.gt.7", &[4, 5, 6]),
    ("age=is.null", &[3]),
    ("age=not.is.null", &[1, 2, 4, 5, 6, 7]),
    ("age=is.not_null", &[1, 2, 4, 5, 6, 7]),
    ("age=is.NULL", &[3]),
    ("age=in.(7,36)", &[1, 2, 4]),
    ("age=in.(7,7,7)", &[4]),
    ("age=not.in.(7,36)", &[5, 6, 7]),
    ("age=in.()", &[]),
    ("age=not.in.()", &[1, 2, 3, 4, 5, 6, 7]),
    ("paid=eq.1.5", &[1]),
    ("paid=eq.1.50", &[1]),
    ("paid=gt.9.99", &[4, 7]),
    ("paid=lt.0", &[2]),
    ("paid=in.(0,99.99)", &[5, 7]),
    ("day=gt.2026-01-05", &[6, 7]),
    ("day=eq.2026-01-02", &[2]),
    ("day=in.(2026-01-01,2026-01-07)", &[1, 7]),
    ("name=eq.Ada", &[1]),
    ("name=eq.", &[7]),
    ("name=neq.Ada", &[2, 3, 5, 6, 7]),
    ("name=gt.B", &[2, 3, 6]),
    (r#"name=eq.O'Hara, "Eve" (x)"#, &[6]),
    (r#"name=in.("O'Hara, \"Eve\" (x)",Bob)"#, &[3, 6]),
    (r#"or=(name.eq."O'Hara, \"Eve\" (x)",id.eq.1)"#, &[1, 6]),
    ("name=like.A*", &[1]),
    ("name=like.A%", &[1]),
    ("name=like.a*", &[2]),
    ("name=like._d_", &[1, 2]),
    ("name=like.*a", &[1, 2]),
    ("name=ilike.a*", &[1, 2]),
    ("name=ilike.*B", &[3]),
    ("name=not.ilike.a*", &[3, 5, 6, 7]),
    (r"name=like.50\%*", &[5]),
    (r"name=like.50\%\_*", &[5]),
    ("name=like.", &[7]),
    (r"name=like.*\*", &[5]),
    (r"name=ilike.*\*", &[5]),
    ("name=like.[AB]*", &[]),
    ("or=(age.eq.7,name.eq.Bob)", &[3, 4]),
    ("or=(age.lt.0,age.gt.90)", &[6, 7]),
    ("and=(age.gte.0,age.lt.36)", &[4, 5]),
    ("not.or=(age.lt.36,age.gt.90)", &[1, 2]),
    ("not.and=(age.gte.0,age.lte.36)", &[6, 7]),
    ("or=(and(age.eq.36,name.eq.Ada),not.and(age.gte.0,age.lt.90))", &[1, 6, 7]),
    ("or=(age.is.null,id.in.(1,2))", &[1, 2, 3]),
    ("or=(id.eq.1,id.eq.2)&name=eq.ada", &[2]),
    ("or=(id.eq.1)&or=(id.eq.2)", &[]),
    ("and=(or(id.eq.1,id.eq.2),or(id.eq.2,id.eq.3))", &[2]),
    ("order=id.desc", &[7, 6, 5, 4, 3, 2, 1]),
    ("order=id.asc", &[1, 2, 3, 4, 5, 6, 7]),
    ("order=age.nullslast,id", &[6, 5, 4, 1, 2, 7, 3]),
    ("order=age.nullsfirst,id.desc", &[3, 6, 5, 4, 2, 1, 7]),
    ("order=age.desc.nullslast,id", &[7, 1, 2, 4, 5, 6, 3]),
    ("order=age.desc.nullsfirst", &[3, 7, 1, 2, 4, 5, 6]),
    ("order=paid.nullslast,age.nullsfirst", &[2, 5, 1, 4, 7, 3, 6]),
    ("order=name.desc.nullslast&limit=3", &[2, 6, 3]),
    ("limit=2", &[1, 2]),
    ("limit=0", &[]),
    ("limit=100", &[1, 2, 3, 4, 5, 6, 7]),
    ("offset=5", &[6, 7]),
    ("limit=2&offset=5", &[6, 7]),
    ("limit=2&offset=1", &[2, 3]),
    ("offset=100", &[]),
    ("order=id.desc&limit=2&offset=1", &[6, 5]),
    ("age=is.not_null&order=age.desc&limit=3&offset=1", &[1, 2, 4]),
    ("select=id&id=eq.2", &[2]),
    ("select=*&id=eq.2", &[2]),
    ("select=id,name&order=age.desc.nullslast&limit=1", &[7]),
];

/// Refused requests: a part of the message, which says what to write.
const REFUSED: &[(&str, &str)] = &[
    ("nam=eq.Ada", "this endpoint has no such parameter or column; did you mean `name`?"),
    ("name=Ada", "write `column=eq.value`"),
    ("name=eqq.Ada", "did you mean `eq`?"),
    ("name=fts.Ada", "write an endpoint file for a text search"),
    ("age=eq.old", "old"),
    ("age=eq.1.5", "1.5"),
    ("age=eq.", ""),
    ("paid=gt.much", "much"),
    ("day=eq.someday", "someday"),
    ("day=eq.2026-13-01", "2026-13-01"),
    ("age=like.3*", "`like` is for texts"),
    ("age=is.true", "for booleans"),
    ("age=is.5", "`is` compares with"),
    ("name=match.^A", "`match`"),
    ("age=in.1", "in brackets"),
    ("age=in.(1", "the closing bracket of `in` is missing"),
    ("or=(nam.eq.Ada)", "`nam` can't be filtered: did you mean `name`?"),
    ("or=(name.eq.Ada", "the closing bracket is missing"),
    ("order=nam", "`nam` can't order the rows: did you mean `name`?"),
    ("order=name,name", "it names `name` twice"),
    ("select=nam", "`nam` isn't a column: did you mean `name`?"),
    ("select=id,id", "two columns called `id`"),
    ("select=name:id,name", "two columns called `name`"),
    ("select=id,films(title)", "other tables and aggregates"),
    ("select=count()", "other tables and aggregates"),
    ("select=name::text", "casts"),
    ("select=name->a", "parts of JSON"),
    ("select=", "the name of a column is missing"),
    ("limit=-1", "is not a number of rows"),
    ("limit=all", "is not a number of rows"),
    ("limit=1&limit=2", "it is given more than once"),
    ("offset=-1", "is not a number of rows"),
    ("order=age&_follow=1", "leave out `order`, `offset` and `_count`"),
    ("offset=1&_follow=1", "leave out `order`, `offset` and `_count`"),
];

async fn keeps_the_contract(url: &str) {
    let server = serve(url).await;
    for (query, expected) in ANSWERS {
        let reply = ask(&server, query).await;
        assert_eq!(reply.status.as_u16(), 200, "{query}: {}", reply.text());
        assert_eq!(ids(&reply), *expected, "{query} on {url}");
    }
    for (query, part) in REFUSED {
        let reply = ask(&server, query).await;
        assert_eq!(reply.status.as_u16(), 400, "{query}: {}", reply.text());
        let problem = reply.json();
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(part), "{query}: {detail}");
        assert_eq!(problem["retry"], false, "{query}");
    }
    let renamed = ask(&server, "select=number:id,id:age,name&order=id.desc&limit=2").await;
    assert_eq!(
        renamed.json(),
        json!([{"number": 7, "id": 99, "name": ""}, {"number": 6, "id": -5, "name": "O'Hara, \"Eve\" (x)"}]),
        "a name of the response isn't one of the order"
    );
    let unfollowed = ask(&server, "order=id&offset=1&limit=1&_count=exact&_follow=0").await;
    assert_eq!(ids(&unfollowed), [2], "`_follow=0` asks for nothing: {}", unfollowed.text());
    let csv = get(&server.url("/person.csv?select=name,id&id=lte.2")).await;
    assert_eq!(csv.text(), "name,id\r\nAda,1\r\nada,2\r\n");
}

#[tokio::test]
async fn postgres_keeps_the_contract() {
    let db = TestDb::new().await;
    db.execute(&people("text collate \"C\"")).await;
    keeps_the_contract(&db.url()).await;
}

#[tokio::test]
async fn mariadb_keeps_the_contract() {
    let db = MariaDb::new(&people("varchar(50) character set utf8mb4 collate utf8mb4_nopad_bin"));
    keeps_the_contract(&db.url()).await;
}

#[tokio::test]
async fn sqlite_keeps_the_contract() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("people.db");
    rusqlite::Connection::open(&file).unwrap().execute_batch(&people("text")).unwrap();
    keeps_the_contract(file.to_str().unwrap()).await;
}

/// The path of the next page.
fn next(reply: &Reply) -> Option<String> {
    let (query, _) = reply.header("link")?.strip_prefix('<')?.split_once('>')?;
    Some(format!("/t{query}"))
}

/// Random conditions, orders and page sizes give the rows that these have by the rules of SQL, page
/// by page and after any row.
async fn reads_what_was_asked(url: &str, database: Database, rows: &[oracle::Row]) {
    let server = serve(url).await;
    let seed = fastrand::u64(..);
    let mut random = Random::new(seed);
    let mut read = 0;
    for _ in 0..60 {
        let asked = random.asked(database);
        let expected = asked.rows(rows);
        let (query, size) = (encoded(&asked.query()), random.size());
        let context = format!("{} of {url}, seed {seed}", asked.query());

        let mut path = format!("/t?{query}&limit={size}&_count=exact");
        let mut found = Vec::new();
        loop {
            let reply = get(&server.url(&path)).await;
            assert_eq!(reply.status.as_u16(), 200, "{context}: {}", reply.text());
            let page = ids(&reply);
            let total = reply.header("content-range").and_then(|range| range.split_once('/'));
            let expected_total = expected.len().to_string();
            assert_eq!(total.map(|(_, total)| total), Some(&*expected_total), "{context}");
            assert!(page.len() <= size, "{context}");
            found.extend(page);
            assert!(found.len() <= expected.len(), "{context}: {found:?}, expected {expected:?}");
            match next(&reply) {
                Some(next) => path = next,
                None => break,
            }
        }
        assert_eq!(found, expected, "{context}, pages of {size}");

        let whole = get(&server.url(&format!("/t.sse?{query}"))).await;
        let events: Vec<_> = whole.text().split("\n\n").filter(|event| event.contains("data: ")).collect();
        if let Some(at) = random.below(events.len()) {
            let id = events[at].lines().find_map(|line| line.strip_prefix("id: ")).unwrap();
            let rest = get(&server.url(&format!("/t?{query}&_after={id}"))).await;
            assert_eq!(rest.status.as_u16(), 200, "{context}, after {id}: {}", rest.text());
            assert_eq!(ids(&rest), expected[at + 1..], "{context}, after row {at}");
        }
        read += expected.len();
    }
    assert!(read > 200, "{read} rows are no test, seed {seed}");
}

#[tokio::test]
async fn postgres_reads_what_was_asked() {
    let (sql, rows) = table(Database::Postgres);
    let db = TestDb::new().await;
    db.execute(&sql).await;
    reads_what_was_asked(&db.url(), Database::Postgres, &rows).await;
}

#[tokio::test]
async fn mariadb_reads_what_was_asked() {
    let (sql, rows) = table(Database::MariaDb);
    let db = MariaDb::new(&sql);
    reads_what_was_asked(&db.url(), Database::MariaDb, &rows).await;
}

/// MariaDB compared a `float` with the decimal in the request: 0.1 in a response wasn't equal to 0.1 in a
/// filter. Decimals of more than 30 places lost digits, so small doubles weren't found either.
#[tokio::test]
async fn mariadb_finds_the_floats_of_a_response() {
    let db = MariaDb::new(
        "create table person (id integer primary key, single float, pair float(7, 2), twice double);
         insert into person values (1, 0.1, 0.1, 0.1), (2, 3.4028234e38, 12345.67, 1.2345678901234567e-20),
           (3, 1e-45, 99999.99, 5e-324), (4, 123456.7, -0.01, 1.7976931348623157e308),
           (5, 0, 0, 0), (6, -1e-38, 1.1, 9007199254740993), (7, 16777216, 7, -1.1e-31)",
    );
    let server = serve(&db.url()).await;
    let all = get(&server.url("/person")).await.json();
    let rows = all.as_array().unwrap();
    assert_eq!(rows.len(), 7);
    for row in rows {
        for column in ["single", "pair", "twice"] {
            for filter in [format!("eq.{}", row[column]), format!("in.({},7.5)", row[column])] {
                let found = ask(&server, &format!("{column}={filter}&order={column}")).await;
                assert_eq!(found.json(), json!([row]), "{column}={filter}");
            }
            let [less, more] = ["lt", "gt"].map(|operator| format!("{column}={operator}.{}", row[column]));
            let less = ids(&ask(&server, &less).await).len();
            let more = ids(&ask(&server, &more).await).len();
            assert_eq!(less + more, 6, "{column}: {row}");
        }
    }
}

/// With `EMPTY_STRING_IS_NULL`, MariaDB read the empty text of a condition or a cursor as NULL, so conditions found
/// no row, and pages lost the rows behind an empty text.
#[tokio::test]
async fn empty_texts_of_mariadb_are_not_null() {
    let servers = MariaReplica::start();
    servers.ask(
        0,
        "create database shop; use shop; create table person (id integer primary key, name varchar(9));
         insert into person values (1, ''), (2, 'b'), (3, 'a'), (4, '');
         set global sql_mode = 'EMPTY_STRING_IS_NULL'",
    );
    let server = serve(&servers.url(0, "").replace("/mysql", "/shop")).await;
    assert_eq!(ids(&ask(&server, "name=eq.").await), [1, 4]);
    assert_eq!(ids(&ask(&server, "name=neq.").await), [2, 3]);
    let mut read: Vec<i64> = Vec::new();
    let mut path = "/person?order=name&limit=1".to_owned();
    while read.len() < 5 {
        let page = get(&server.url(&path)).await;
        read.extend(ids(&page));
        let Some(next) = page.header("link").and_then(|link| link.split(['<', '>']).nth(1)) else { break };
        path = format!("/person{next}");
    }
    assert_eq!(read, [1, 4, 3, 2]);
}

#[tokio::test]
async fn sqlite_reads_what_was_asked() {
    let (sql, rows) = table(Database::Sqlite);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t.db");
    rusqlite::Connection::open(&file).unwrap().execute_batch(&sql).unwrap();
    reads_what_was_asked(file.to_str().unwrap(), Database::Sqlite, &rows).await;
}

fn sqlite_people() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("people.db");
    rusqlite::Connection::open(&file).unwrap().execute_batch(&people("text")).unwrap();
    let url = file.to_str().unwrap().to_owned();
    (folder, url)
}

/// A cursor leads to the rest of the rows that were asked, and of no others.
#[tokio::test]
async fn cursors_are_for_the_rows_that_were_asked() {
    let (_folder, file) = sqlite_people();
    let server = serve(&file).await;
    let first = ask(&server, "age=gte.0&order=age.desc&limit=1").await;
    let cursor = next(&first).unwrap().rsplit_once("_after=").unwrap().1.to_owned();
    for (query, expected) in [
        ("age=gte.0&order=age.desc&limit=1", &[1][..]),
        ("age=gte.0&order=age.desc", &[1, 2, 4, 5]),
        ("age=gte.0&order=age.desc&select=id", &[1, 2, 4, 5]),
        ("age=gte.0&order=age.desc&limit=2&offset=3", &[1, 2]),
    ] {
        let reply = ask(&server, &format!("{query}&_after={cursor}")).await;
        assert_eq!(ids(&reply), expected, "{query}");
    }
    for query in [
        "order=age.desc",
        "age=gte.1&order=age.desc",
        "age=gt.0&order=age.desc",
        "age=gte.0&id=gte.0&order=age.desc",
        "age=gte.0&order=age",
        "age=gte.0&order=age.desc.nullsfirst",
        "age=gte.0&order=id.desc",
        "age=gte.0",
        "paid=gte.0&order=age.desc",
    ] {
        let reply = ask(&server, &format!("{query}&_after={cursor}")).await;
        assert_eq!(
            (reply.status.as_u16(), &reply.json()["code"]),
            (400, &json!("invalid_cursor")),
            "{query}"
        );
    }
}

const COLUMNS: &str = r#"
    create table odd ("select" integer primary key, "order" text, _hidden integer, "a.b" integer, "x""y" integer);
    insert into odd values (1, 'x', 5, 6, 7), (2, 'y', 50, 60, 70);
"#;

/// Columns with names that mean something else can be asked inside of brackets.
#[tokio::test]
async fn every_column_can_be_asked() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("odd.db");
    rusqlite::Connection::open(&file).unwrap().execute_batch(COLUMNS).unwrap();
    let server = serve(file.to_str().unwrap()).await;
    for query in [
        "and=(select.eq.2)",
        "and=(order.eq.y)",
        "and=(_hidden.gt.5)",
        "and=(\"a.b\".eq.60)",
        "a.b=eq.60",
        "and=(\"x\\\"y\".eq.70)",
        "x\"y=eq.70",
    ] {
        let reply = get(&server.url(&format!("/odd?{}", encoded(query)))).await;
        assert_eq!(reply.status.as_u16(), 200, "{query}: {}", reply.text());
        assert_eq!(reply.json().as_array().unwrap().len(), 1, "{query}");
        assert_eq!(reply.json()[0]["select"], 2, "{query}");
    }
}

const HOSTILE: [&str; 12] = [
    "'; drop table person; --",
    "' or '1'='1",
    "\" or 1=1 --",
    "1) or (1=1",
    "\\' or 1=1 --",
    "$1",
    "?1",
    "*/ or 1=1 /*",
    "a\u{0}b",
    "`",
    "\n-- ",
    "x' union select 1,2,3,4,5 --",
];

/// No value, name, alias or operator becomes SQL.
async fn takes_nothing_for_sql(url: &str) {
    let server = serve(url).await;
    for text in HOSTILE {
        let quoted = format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
        for query in [
            format!("name=eq.{text}"),
            format!("name=in.({quoted})"),
            format!("or=(name.eq.{quoted},name.like.{quoted})"),
            format!("name=like.{text}"),
            format!("name=ilike.{text}"),
            format!("{text}=eq.1"),
            format!("or=({quoted}.eq.1)"),
            format!("select={text}"),
            format!("select={text}:id&id=eq.0"),
            format!("order={text}"),
            format!("id={text}.1"),
            format!("limit={text}"),
        ] {
            let reply = get(&server.url(&format!("/person?{}", encoded(&query)))).await;
            match reply.status.as_u16() {
                400 => {}
                200 => assert_eq!(reply.json(), json!([]), "{query}"),
                status => panic!("{query}: {status} {}", reply.text()),
            }
        }
    }
    assert_eq!(ids(&ask(&server, "").await).len(), 7);
}

#[tokio::test]
async fn nothing_becomes_sql() {
    let db = TestDb::new().await;
    db.execute(&people("text")).await;
    takes_nothing_for_sql(&db.url()).await;
    takes_nothing_for_sql(&MariaDb::new(&people("varchar(50)")).url()).await;
    let (_folder, file) = sqlite_people();
    takes_nothing_for_sql(&file).await;
}

const FILE: &str = "/*
key = [\"id\"]
filter = [\"age\", \"name\"]
sort = [\"age\", \"-paid\"]
[params]
least = { type = \"integer\", default = 0 }
*/
select id, name, age, paid from person where id > :least order by id limit 5";

/// An endpoint's file names what requests may ask. Its own conditions and its limit stay.
#[tokio::test]
async fn a_file_says_what_may_be_asked() {
    let db = TestDb::new().await;
    db.execute(&people("text collate \"C\"")).await;
    let maria = MariaDb::new(&people("varchar(50)"));
    let (_folder, sqlite) = sqlite_people();
    for url in [db.url(), maria.url(), format!("sqlite:{sqlite}")] {
        let config = format!("[source.db]\nurl = \"{url}\"\n");
        let files = [("rowstream.toml", config.as_str()), ("endpoints/people.sql", FILE)];
        let server = Server::start(&files).await;
        for (query, expected) in [
            ("", &[1, 2, 3, 4, 5][..]),
            ("age=gte.0", &[1, 2, 4, 5, 7]),
            ("age=gte.0&least=1", &[2, 4, 5, 7]),
            ("order=age.desc.nullslast", &[7, 1, 2, 4, 5]),
            ("order=paid.desc.nullslast&least=3", &[7, 4, 5, 6]),
            ("name=eq.Bob", &[3]),
        ] {
            let reply = get(&server.url(&format!("/people?{query}"))).await;
            assert_eq!(ids(&reply), expected, "{query} on {url}");
        }
        for (query, part) in [
            ("paid=gt.0", "`paid` can't be filtered: the columns with filters are `age`, `name`"),
            ("order=paid", "only from its greatest value on: write `paid.desc`"),
            ("order=name", "`name` can't order the rows: the columns that can are `age`, `paid`"),
            ("select=id", "this endpoint has no `select`"),
            ("limit=2", "a limit of its own"),
            ("offset=2", "a limit of its own"),
            ("lest=2", "did you mean `least`?"),
            ("age=eq.1&least=x", "least"),
        ] {
            let reply = get(&server.url(&format!("/people?{query}"))).await;
            assert_eq!(reply.status.as_u16(), 400, "{query}: {}", reply.text());
            assert!(reply.json()["detail"].as_str().unwrap().contains(part), "{query}: {}", reply.text());
        }
    }
}

/// The rows of a request that follow were those of all requests.
#[tokio::test]
async fn a_live_tail_has_only_what_was_asked() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t.db");
    let connection = rusqlite::Connection::open(&file).unwrap();
    let sql = "pragma journal_mode = wal; create table t (id integer primary key, kind text, more text)";
    connection.execute_batch(sql).unwrap();
    let config = format!("[source.db]\nurl = \"sqlite:{}\"\n", file.display());
    let tail = "/*\nkey = [\"id\"]\nfilter = true\nselect = true\nfollow = { poll = \"20ms\" }\n*/
        select id, kind, more from t order by id";
    let server = Server::start(&[("rowstream.toml", &config), ("endpoints/t.sql", tail)]).await;
    let url = server.url("/t.ndjson?kind=eq.a&select=id,kind&_follow=1");
    let mut stream = Client::HTTP1.open(Request::get(url).body(String::new()).unwrap()).await.unwrap();
    let mut body = String::new();
    for (wanted, other) in [(2, 1), (4, 3), (6, 5)] {
        let sql =
            format!("insert into t values ({other}, 'b', 'x'); insert into t values ({wanted}, 'a', 'x')");
        connection.execute_batch(&sql).unwrap();
        let line = format!("{{\"id\":{wanted},\"kind\":\"a\"}}\n");
        while !body.contains(&line) {
            body.push_str(std::str::from_utf8(&stream.chunk().await.unwrap()).unwrap());
        }
    }
    assert_eq!(
        body.replace("}\n\n", "}\n").trim_start(),
        "{\"id\":2,\"kind\":\"a\"}\n{\"id\":4,\"kind\":\"a\"}\n{\"id\":6,\"kind\":\"a\"}\n"
    );
}

/// SQLite has no type for times. Filters compared their texts, and a `T` is greater than a blank: so
/// `gt` gave all rows of the day, and `eq` none.
#[tokio::test]
async fn times_of_sqlite_are_compared_in_each_form() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t.db");
    let sql = "create table big (id integer primary key, at timestamptz, local datetime);
        create index by_time on big (at);
        insert into big (id, at) values
            (1, '2026-03-01 08:59:59.999999'),
            (2, '2026-03-01T09:00:00Z'), (3, '2026-03-01 09:00'), (4, '2026-03-01T10:00:00.0+01:00'),
            (5, '2026-03-01T09:00:00.000001'), (6, '2026-02-28T23:30:00-09:30'),
            (7, '2026-03-02'), (8, '9999-12-31 23:59:59'), (9, '0001-01-01T00:00:00Z'),
            (10, null), (11, 'soon'), (12, 1772355600), (13, '2026-03-01T08:59:59.9999991Z');
        update big set local = at";
    rusqlite::Connection::open(&file).unwrap().execute_batch(sql).unwrap();
    let server = serve(file.to_str().unwrap()).await;
    for (condition, expected) in [
        ("eq.2026-03-01T09:00:00Z", &[2, 3, 4, 6][..]),
        ("eq.2026-03-01%2009:00", &[2, 3, 4, 6]),
        ("eq.2026-03-01T11:00:00%2B02:00", &[2, 3, 4, 6]),
        // As in parameters, the second 60 is the next one.
        ("eq.2026-03-01T08:59:60Z", &[2, 3, 4, 6]),
        ("lt.2026-03-01%2010:59:60.0%2B02:00", &[1, 9, 13]),
        ("in.(2026-03-01T08:59:60)", &[2, 3, 4, 6]),
        ("neq.2026-03-01T09:00:00Z", &[1, 5, 7, 8, 9, 13]),
        ("gt.2026-03-01T09:00:00Z", &[5, 7, 8]),
        ("gte.2026-03-01T09:00:00.0Z", &[2, 3, 4, 5, 6, 7, 8]),
        ("lt.2026-03-01T09:00:00Z", &[1, 9, 13]),
        ("lte.2026-03-01T09:00:00Z", &[1, 2, 3, 4, 6, 9, 13]),
        ("gte.2026-03-02", &[7, 8]),
        ("lte.9999-12-31T23:59:59Z", &[1, 2, 3, 4, 5, 6, 7, 8, 9, 13]),
        ("gte.0001-01-01", &[1, 2, 3, 4, 5, 6, 7, 8, 9, 13]),
        ("eq.2026-03-01T08:59:59.9999995Z", &[1, 13]),
        ("in.()", &[]),
        ("in.(2026-03-02,2026-03-01T09:00:00.000001Z)", &[5, 7]),
        ("not.in.(2026-03-02,2026-03-01T09:00:00Z)", &[1, 5, 8, 9, 11, 12, 13]),
    ] {
        for column in ["at", "local"] {
            let reply = get(&server.url(&format!("/big?order=id&{column}={condition}"))).await;
            assert_eq!(ids(&reply), expected, "{column}={condition}");
        }
    }
    let plan = plan(&server, "").await;
    assert!(!plan.contains("by_time"), "{plan}");
    for condition in [
        "at=in.(2026-03-01T09:00:00Z,2026-03-02)",
        "at=gte.2026-03-01T09:00:00Z",
        "at=eq.2026-03-01T09:00:00Z",
        "at=lt.2026-03-01",
    ] {
        let plan = self::plan(&server, &format!("{condition}&order=at")).await;
        assert!(plan.contains("SEARCH") && plan.contains("by_time"), "{condition}: {plan}");
    }
    let config = format!("[source.db]\nurl = \"sqlite:{}\"\n", file.display());
    let since = "/*\n[params]\nsince = \"timestamp\"\n*/
        select id from big where rowstream_time(at) > rowstream_time(:since)";
    let files = Server::start(&[("rowstream.toml", &config), ("endpoints/t.sql", since)]).await;
    let reply = get(&files.url("/t?since=2026-03-01T09:00:00Z")).await;
    assert_eq!(ids(&reply), [5, 7, 8]);
    for wrong in [
        "soon",
        "2026-02-30",
        "2026-03-01T23:59:60.5Z",
        "2026-03-01T08:59:61Z",
        "9999-12-31T23:59:60Z",
        "2026-03-01T09:00:00%2B15:00",
        "1772355600",
    ] {
        let reply = get(&server.url(&format!("/big?at=gt.{wrong}"))).await;
        assert_eq!(reply.status.as_u16(), 400, "{wrong}");
        assert!(reply.text().contains("write `2026-03-01T09:00:00Z`"), "{}", reply.text());
    }
}

/// Bytes of SQLite's columns without a type were greater than any number, met no comparison as they are shown, and
/// patterns read them as a text. `neq.abc` left out numbers, which `not.eq.abc` found.
#[tokio::test]
async fn values_of_several_types_are_compared_as_they_are_shown() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t.db");
    let sql = "create table number (id integer primary key, x integer);
        insert into number values (1, 5), (2, 10), (3, null);
        create view mixed as
            select id, x from number union all select 11, '5' union all select 12, 'abc';
        create table untyped (id integer primary key, x);
        insert into untyped values (1, 5), (2, 10), (3, null), (11, '5'), (12, 'abc'), (21, x'35'), (22, x'616263');";
    rusqlite::Connection::open(&file).unwrap().execute_batch(sql).unwrap();
    let server = serve(file.to_str().unwrap()).await;
    for (query, expected, bytes) in [
        ("x=eq.5", &[1, 11][..], &[][..]),
        ("x=neq.5", &[2, 12], &[21, 22]),
        ("x=not.eq.5", &[2, 12], &[21, 22]),
        ("x=lt.6", &[1, 11], &[]),
        ("x=in.(5,abc)", &[1, 11, 12], &[]),
        ("x=eq.abc", &[12], &[]),
        ("x=neq.abc", &[1, 2, 11], &[21, 22]),
        ("x=lt.abc", &[11], &[21, 22]),
        ("x=like.a*", &[12], &[]),
        ("x=not.ilike.A*", &[1, 2, 11], &[21, 22]),
        ("x=eq.\\x35", &[], &[21]),
        ("x=in.(5,\"\\\\x616263\")", &[1, 11], &[22]),
    ] {
        let all = [expected, bytes].concat();
        for (name, expected) in [("mixed", expected), ("untyped", &all)] {
            let reply = get(&server.url(&format!("/{name}?order=id&{}", encoded(query)))).await;
            assert_eq!(ids(&reply), expected, "{query} of {name}: {}", reply.text());
        }
    }
}

/// Values that a database would read as something else.
#[tokio::test]
async fn no_value_is_read_as_another() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t.db");
    let sql = "create view v as
        select 1 as id, 'abc' as x union all select 2, 5 union all select 3, null union all select 4, 'z'";
    rusqlite::Connection::open(&file).unwrap().execute_batch(sql).unwrap();
    let sqlite = serve(file.to_str().unwrap()).await;
    let many: Vec<_> = (0..600).map(|number| number.to_string()).collect();
    for (query, expected) in [
        ("x=eq.abc", &[1][..]),
        ("x=neq.abc", &[2, 4]),
        ("x=not.eq.abc", &[2, 4]),
        ("x=eq.5", &[2]),
        ("x=not.eq.5", &[1, 4]),
        ("x=in.(abc,5)", &[1, 2]),
        ("x=not.in.(abc,5)", &[4]),
        (&format!("x=in.({})", many.join(",")), &[2]),
    ] {
        let reply = get(&sqlite.url(&format!("/v?order=id&{query}"))).await;
        assert_eq!(ids(&reply), expected, "{query}");
    }
    let times = "create table t (id integer primary key, at datetime, t time, d date);
        insert into t values (1, '2026-03-01 09:00:00', '00:00:00', '2026-03-01'),
            (2, '2026-03-01 11:00:00', '-100:30:00', null)";
    let maria = MariaDb::new(times);
    let db = TestDb::new().await;
    db.execute(
        "create table t (id integer primary key, at timestamp, t time, d date);
        insert into t values (1, '2026-03-01 09:00:00', '00:00:00', '2026-03-01')",
    )
    .await;
    for (url, refused) in [
        (maria.url(), &["t=eq.abc", "t=gt.soon", "t=eq.1:2:3:4"][..]),
        (db.url(), &["t=eq.abc", "t=eq.00:00:00%2B02", "t=eq.00:00-05", "t=eq.00:00Z", "t=eq.00:00%20PST"]),
    ] {
        let server = serve(&url).await;
        let offsets = [
            "at=gt.2026-03-01T09:00:00%2B02:00",
            "at=gt.2026-03-01T09:00:00Z",
            "at=gt.2026-03-01%2009:00-04",
            "d=lt.2026-03-01T12:00:00",
            "d=eq.2026-03-01T23:30:00-02:00",
            "d=eq.2026-03-01%2B02",
            "d=eq.2026-03-01Z",
            "d=eq.2026-03-01T00:00:01",
            "d=eq.2026-03-01T00:00:00%2B02:00",
            "d=eq.20260301T123000",
            "d=eq.2026-03-01%20123000",
            "d=in.(2026-03-01T123000.5)",
            "d=eq.1%20Mar%202026%20123000",
        ];
        for query in refused.iter().chain(&offsets) {
            let reply = get(&server.url(&format!("/t?{query}"))).await;
            assert_eq!(reply.status.as_u16(), 400, "{query} on {url}: {}", reply.text());
        }
        for query in [
            "at=eq.2026-03-01T09:00:00",
            "t=eq.00:00:00",
            "t=eq.00:00",
            "at=gte.2026-03-01&id=eq.1",
            "d=eq.2026-03-01",
            "d=eq.2026-03-01T00:00",
            "d=eq.2026-03-01%2000:00:00",
            "d=in.(2026-03-01T00:00:00.000Z)",
            "d=gte.2026-03-01T00:00:00%2B00:00",
        ] {
            let reply = get(&server.url(&format!("/t?{query}"))).await;
            assert_eq!(ids(&reply), [1], "{query} on {url}: {}", reply.text());
        }
    }
    let server = serve(&maria.url()).await;
    assert_eq!(ids(&get(&server.url("/t?t=eq.-100:30:00")).await), [2]);
    let server = serve(&db.url()).await;
    for day in ["1%20Mar%202026", "2026-Mar-01", "3/1/2026", "20260301", "2026-03-01%20AD"] {
        let reply = get(&server.url(&format!("/t?d=gt.-infinity&d=eq.{day}"))).await;
        assert_eq!(ids(&reply), [1], "{day}: {}", reply.text());
    }
}

/// Types without `=`, and an operator that PostgreSQL doesn't find for domains of enums.
const NOT_COMPARED: [&str; 9] =
    ["bytea", "json", "jsonpath", "moods", "pg_snapshot", "point", "polygon", "txid_snapshot", "xml"];

/// A value in a row's JSON finds the row. That of a `regclass` or another type like it was a 400, because
/// PostgreSQL read it as a number.
#[tokio::test]
async fn each_value_of_postgresql_finds_its_row() {
    let db = TestDb::new().await;
    db.execute(corpus::POSTGRES_SETUP).await;
    let mut types = BTreeMap::<_, Vec<_>>::new();
    // Lists and objects have another form in PostgreSQL than in JSON. No column is a `record`.
    for line in corpus::postgres(db.version().await).filter(|line| line.type_name != "record") {
        let Some(json) = line.written.json.as_deref().filter(|json| *json != "null") else { continue };
        let is_jsonb = matches!(&*line.type_name, "jsonb" | "document");
        if is_jsonb || !json.starts_with(['[', '{']) {
            let text = serde_json::from_str(json).ok().filter(|_| !is_jsonb);
            types.entry(&*line.type_name).or_default().push((&line.sql, text.unwrap_or(json.to_owned())));
        }
    }
    for (number, (name, values)) in types.iter().enumerate() {
        let row = |(id, (sql, _)): (usize, &(&String, String))| format!("({id}, ({sql})::{name})");
        let rows: Vec<_> = values.iter().enumerate().map(row).collect();
        let rows = rows.join(", ");
        db.execute(&format!(
            "create table v{number} (id int primary key, v {name}); insert into v{number} values {rows}"
        ))
        .await;
    }
    let server = serve(&db.url()).await;
    for (number, (name, values)) in types.iter().enumerate() {
        for (id, (_, text)) in (0_i64..).zip(values) {
            let quoted = text.replace('\\', "\\\\").replace('"', "\\\"");
            for condition in [format!("eq.{text}"), format!("in.(\"{quoted}\")")] {
                let condition = utf8_percent_encode(&condition, NON_ALPHANUMERIC);
                let reply = get(&server.url(&format!("/v{number}?select=id&v={condition}"))).await;
                match NOT_COMPARED.contains(name) {
                    true => assert_eq!(reply.status.as_u16(), 400, "{name} {condition}"),
                    false => assert!(ids(&reply).contains(&id), "{name} {condition}: {}", reply.text()),
                }
            }
        }
    }
}

/// PostgreSQL's `is null` is true for a composite of NULLs, and its `is not null` is false for one with
/// a NULL, but both are values. A composite can't be compared with a parameter.
#[tokio::test]
async fn composites_with_nulls_are_not_null() {
    let db = TestDb::new().await;
    db.execute(
        "create type part as (a text, b int);
        create table t (id int primary key, p part);
        insert into t values (1, null), (2, row('x', 1)), (3, row('x', null)), (4, row(null, null))",
    )
    .await;
    let server = serve(&db.url()).await;
    for (query, expected) in [
        ("p=is.null", &[1][..]),
        ("p=is.not_null", &[2, 3, 4]),
        ("p=not.is.null", &[2, 3, 4]),
        ("p=not.is.not_null", &[1]),
    ] {
        assert_eq!(ids(&get(&server.url(&format!("/t?{query}"))).await), expected, "{query}");
    }
    let reply = get(&server.url("/t?p=eq.(x,1)")).await;
    assert_eq!((reply.status.as_u16(), &reply.json()["code"]), (400, &"invalid_parameter".into()));
}

/// The overlap of two `tsquery` is a `tsquery`, so the filter isn't a condition. That was a 500.
#[tokio::test]
async fn an_operator_without_a_boolean_is_a_mistake_of_the_request() {
    let db = TestDb::new().await;
    db.execute("create table t (id int primary key, q tsquery); insert into t values (1, 'a & b')").await;
    let server = serve(&db.url()).await;
    for query in ["q=ov.a", "q=not.ov.a", "or=(q.ov.a,id.eq.1)"] {
        let reply = get(&server.url(&format!("/t?{query}"))).await;
        let code = &reply.json()["code"];
        assert_eq!((reply.status.as_u16(), code), (400, &"invalid_parameter".into()), "{query}");
    }
    assert_eq!(ids(&get(&server.url("/t?q=cs.a")).await), [1]);
}

/// A function that fails with the same SQLSTATE was called a mistake of the request.
#[tokio::test]
async fn a_function_that_fails_is_no_mistake_of_the_request() {
    let db = TestDb::new().await;
    db.execute(
        "create function broken() returns table (id int, name text) language plpgsql stable as
         $$ begin return query select 'a'::text, 1; end $$",
    )
    .await;
    let config = format!("[source.db]\nurl = \"{}\"\n", db.url());
    let list = "/*\nkey = [\"id\"]\nfilter = true\n*/\nselect * from broken() order by id";
    let files = [("rowstream.toml", config.as_str()), ("endpoints/broken.sql", list)];
    let server = Server::start(&files).await;
    for query in ["", "?id=eq.1"] {
        assert_eq!(get(&server.url(&format!("/broken{query}"))).await.status, 500, "{query}");
    }
}

const ROWS: usize = 1_000_000;

/// The plans of a table's list.
async fn plan(server: &Listening, query: &str) -> String {
    get(&server.url(&format!("/big?_explain=1&{query}"))).await.text().to_owned()
}

/// Conditions reach the table, so that the database uses its indexes.
#[tokio::test]
async fn conditions_use_indexes() {
    let db = TestDb::new().await;
    db.execute(&format!(
        "create table big as select i as id, i % 5000 as customer, 'n' || i as name from generate_series(1, {ROWS}) as i;
         alter table big add primary key (id);
         create index on big (customer);
         analyze big"
    ))
    .await;
    let server = serve(&db.url()).await;
    for query in [
        "customer=eq.7",
        "customer=in.(7,8)",
        "and=(customer.eq.7)&order=name&limit=5",
        "order=customer&limit=9",
    ] {
        let plan = plan(&server, query).await;
        assert!(plan.contains("big_customer_idx"), "{query}: {plan}");
    }
    let found = get(&server.url("/big?customer=eq.7&select=id")).await;
    assert_eq!(ids(&found).len(), ROWS / 5000);

    let maria = MariaDb::new(
        "create table big (id integer primary key, customer integer, name varchar(20), key by_customer (customer));
         insert into big select seq, seq % 500, concat('n', seq) from seq_1_to_10000; analyze table big",
    );
    let server = serve(&maria.url()).await;
    for query in ["customer=eq.7", "customer=eq.7&order=name&limit=5", "order=customer&limit=9"] {
        let plan = plan(&server, query).await;
        assert!(plan.contains("\"key\":\"by_customer\""), "{query}: {plan}");
    }

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("big.db");
    let sql = "create table big (id integer primary key, customer integer, name text);
        create index by_customer on big (customer);
        create index by_name on big (name);
        insert into big values (1, 1, 'a')";
    rusqlite::Connection::open(&file).unwrap().execute_batch(sql).unwrap();
    let server = serve(file.to_str().unwrap()).await;
    for (query, index) in [
        ("customer=eq.7", "by_customer"),
        ("customer=in.(7,8)", "by_customer"),
        ("order=customer&limit=9", "by_customer"),
        ("name=like.a*", "by_name"),
        ("id=gt.5", "INTEGER PRIMARY KEY"),
    ] {
        let plan = plan(&server, query).await;
        assert!(
            plan.contains(&format!("USING INDEX {index}")) || plan.contains(&format!("USING {index}")),
            "{query}: {plan}"
        );
    }
}

/// OpenAPI describes filters once, and `/` says which endpoints have them.
#[tokio::test]
async fn filters_are_described() {
    let (_folder, file) = sqlite_people();
    let server = serve(&file).await;
    let document = get(&server.url("/_rowstream/openapi.json")).await.json();
    let references: BTreeSet<_> = document["paths"]["/person"]["get"]["parameters"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|parameter| parameter["$ref"].as_str()?.rsplit_once('/'))
        .map(|(_, name)| name)
        .collect();
    for name in ["filters", "and", "or", "select", "order", "limit", "offset", "_count"] {
        assert!(references.contains(name), "{name}: {references:?}");
    }
    let filters = &document["components"]["parameters"]["filters"];
    assert_eq!((&filters["style"], &filters["explode"]), (&json!("form"), &json!(true)));
    let lookup = &document["paths"]["/person/{id}"]["get"]["parameters"];
    assert!(!lookup.to_string().contains("filters"), "{lookup}");
    let listed = get(&server.url("/")).await.json();
    let words = |index: usize| listed["endpoints"][index]["filters"].clone();
    assert_eq!(words(0), json!(["filters", "order", "select", "_count", "limit", "offset"]));
    assert_eq!(words(1), Value::Null);
}
