//! Statements nested in each other's rows: the result, compared with the databases' own JSON;
//! aborts because rows don't match; and leaks.

use std::path::Path;

use crate::support::{
    Client, Ended, Launch, Reply, Server, TestDb, arrow, get, peak_memory_bytes, rowstream,
};
use http::StatusCode;
use serde_json::{Value, json};

/// The documented limit.
const CEILING: u64 = 32 * 1000 * 1000;

const AUTHORS: &str = "
-- name: authors :many
select id, name, fee, since from author order by id;
-- name: books :many nested in authors on author_id = id
select author_id, id, title from book order by author_id, id;
-- name: reviews :many nested in books on author_id = author_id and book = id
select author_id, book, id, stars, words from review order by author_id, book, id;
-- name: prizes :many nested in authors on won_by = id
select won_by, year from prize order by won_by, year
";

/// A server with one source and these endpoints.
async fn server(url: &str, settings: &str, endpoints: &[(&str, &str)]) -> Server {
    Server::start(&files(url, settings, endpoints).iter().map(|(a, b)| (&a[..], &b[..])).collect::<Vec<_>>())
        .await
}

fn files(url: &str, settings: &str, endpoints: &[(&str, &str)]) -> Vec<(String, String)> {
    let config = format!("write_timeout = \"1h\"\n[source.db]\nurl = \"{url}\"\n{settings}\n");
    let endpoint = |(name, sql): &(&str, &str)| (format!("endpoints/{name}.sql"), (*sql).to_owned());
    [("rowstream.toml".to_owned(), config)].into_iter().chain(endpoints.iter().map(endpoint)).collect()
}

/// A SQLite file in a new folder, filled by `sql`, and its URL.
fn sqlite(sql: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("test.db");
    let connection = rusqlite::Connection::open(&file).unwrap();
    connection.execute_batch(&format!("pragma journal_mode = wal; {sql}")).unwrap();
    (folder, format!("sqlite:{}", file.display()))
}

/// Asserts that the response is complete, and returns it.
#[track_caller]
fn whole(reply: &Reply) -> Value {
    assert_eq!((reply.status, &reply.ended), (StatusCode::OK, &Ended::Complete), "{:?}", reply.body);
    reply.json()
}

/// Asserts that two lists are equal, without printing all of them.
#[track_caller]
fn assert_same(told: &[Value], expected: &[Value], what: &str) {
    for (i, (told, expected)) in told.iter().zip(expected).enumerate() {
        assert!(told == expected, "{what}, row {i}:\n{told}\nis not\n{expected}");
    }
    assert_eq!(told.len(), expected.len(), "{what}");
}

/// Asserts that an endpoint returns these rows in each format that supports them.
async fn assert_rows(server: &Server, path: &str, expected: &[Value]) {
    let json = whole(&get(&server.url(path)).await);
    assert_same(json.as_array().unwrap(), expected, path);
    for (format, separator) in [("ndjson", ""), ("json-seq", "\u{1e}")] {
        let reply = get(&server.url(&format!("{path}.{format}"))).await;
        assert_eq!((reply.status, &reply.ended), (StatusCode::OK, &Ended::Complete), "{format}");
        let line = |line: &str| {
            let row = line.strip_prefix(separator).expect("each row begins so");
            serde_json::from_str(row).unwrap_or_else(|error| panic!("{error}: {row}"))
        };
        let rows: Vec<Value> = reply.text().lines().map(line).collect();
        assert_same(&rows, expected, format);
    }
    let reply = get(&server.url(&format!("{path}.arrow"))).await;
    assert_eq!((reply.status, &reply.ended), (StatusCode::OK, &Ended::Complete), "arrow");
    assert_same(&arrow::rows(&reply.body), expected, "arrow");
    assert_eq!(get(&server.url(&format!("{path}.csv"))).await.status, StatusCode::NOT_ACCEPTABLE);
}

/// Authors, some without books and one with many, and their other tables.
async fn library(db: &TestDb, authors: u32, books: u32, reviews: u32) {
    db.execute(&format!(
        r#"create table author as
            select i as id, md5(random()::text) as name, (case when random() < 0.9 then random() * 1e6 end)::numeric(12, 2) as fee,
              timestamp '2024-01-01' + random() * interval '1000 days' as since
            from generate_series(1, {authors}) i;
          create table book as select * from (
            select case when random() < 0.3 then {authors} / 2 + 1 else (1 + random() * ({authors} - 1))::int8 end as author_id, i as id,
              repeat('é"\', (random() * 9)::int) as title
            from generate_series(1, {books}) i) b
            where author_id % 10 <> 0;
          create table review as
            select author_id, book.id as book, i as id, (random() * 5)::int as stars, repeat('x', (random() * 100)::int) as words
            from generate_series(1, {reviews}) i join book on book.id = 1 + (i * 7919) % {books};
          create table prize as
            select (1 + random() * ({authors} - 1))::int2 as won_by, 1900 + i % 120 as year from generate_series(1, {authors}) i;"#
    ))
    .await;
}

/// PostgreSQL's own result.
async fn json_agg(db: &TestDb) -> Vec<Value> {
    let sql = "with
        reviews as (
          select author_id, book, json_agg(r order by id) as list from review r group by author_id, book),
        books as (
          select b.author_id, json_agg(json_build_object('author_id', b.author_id, 'id', b.id, 'title', b.title,
            'reviews', coalesce(r.list, '[]')) order by b.id) as list
          from book b left join reviews r on r.author_id = b.author_id and r.book = b.id group by b.author_id),
        prizes as (
          select won_by, json_agg(p order by year) as list from prize p group by won_by)
        select json_build_object('id', a.id, 'name', a.name, 'fee', a.fee, 'since', a.since,
          'books', coalesce(b.list, '[]'), 'prizes', coalesce(p.list, '[]'))::text
        from author a left join books b on b.author_id = a.id left join prizes p on p.won_by = a.id order by a.id";
    let rows = db.client().await.query(sql, &[]).await.unwrap();
    rows.iter().map(|row| serde_json::from_str(row.get(0)).unwrap()).collect()
}

#[tokio::test]
async fn lists_are_those_of_json_agg() {
    for (settings, [authors, books, reviews]) in [
        ("", [1000, 10_000, 30_000]),
        ("", [3, 10_000, 10]),
        ("", [5000, 100, 100]),
        ("fetch_rows = 1", [40, 300, 600]),
        ("fetch_rows = 100", [400, 3000, 6000]),
    ] {
        let db = TestDb::new().await;
        library(&db, authors, books, reviews).await;
        let expected = json_agg(&db).await;
        let without = expected.iter().filter(|author| author["books"] == json!([])).count();
        assert!(without >= authors as usize / 10, "a tenth has no book");
        let server = server(&db.url(), settings, &[("authors", AUTHORS)]).await;
        assert_rows(&server, "/authors", &expected).await;
        // On a connection that has run it already.
        assert_rows(&server, "/authors", &expected).await;
    }
}

#[tokio::test]
async fn lists_are_those_of_sqlite() {
    for [authors, books, reviews] in [[1000, 10_000, 30_000], [3, 10_000, 10], [5000, 100, 100]] {
        let series = |rows| {
            format!("with recursive s(i) as (select 1 union all select i + 1 from s where i < {rows})")
        };
        let (_folder, url) = sqlite(&format!(
            "create table author (id integer primary key, name text, fee real, since text);
             insert into author {} select i, hex(randomblob(8)), case when i % 7 > 0 then abs(random() % 1000) + 0.25 end, '2024' from s;
             create table book (author_id integer, id integer primary key, title text);
             insert into book {} select case when i % 3 = 0 then {authors} / 2 + 1 else 1 + abs(random() % {authors}) end, i,
               'é\"\\' || hex(randomblob(i % 9)) from s;
             create index book_author on book (author_id, id);
             create table review (author_id integer, book integer, id integer primary key, stars integer, words text);
             insert into review {} select author_id, book.id, i, i % 6, hex(randomblob(i % 50))
               from s join book on book.id = 1 + (i * 7919) % {books};
             create index review_book on review (author_id, book, id);
             create table prize (won_by integer, year integer);
             insert into prize {} select 1 + abs(random() % {authors}), 1900 + i % 120 from s;
             create index prize_author on prize (won_by, year);",
            series(authors),
            series(books),
            series(reviews),
            series(authors),
        ));
        let oracle = "select json_object('id', id, 'name', name, 'fee', fee, 'since', since,
            'books', json((select json_group_array(json_object('author_id', author_id, 'id', id, 'title', title,
               'reviews', json((select json_group_array(json_object('author_id', author_id, 'book', book, 'id', id, 'stars', stars,
                  'words', words) order by id) from review r where r.author_id = b.author_id and r.book = b.id))) order by id)
               from book b where b.author_id = a.id)),
            'prizes', json((select json_group_array(json_object('won_by', won_by, 'year', year) order by year)
               from prize where won_by = a.id)))
            from author a order by id";
        let connection = rusqlite::Connection::open(url.trim_start_matches("sqlite:")).unwrap();
        let mut statement = connection.prepare(oracle).unwrap();
        let rows = statement.query_map([], |row| row.get::<_, String>(0)).unwrap();
        let expected: Vec<Value> = rows.map(|row| serde_json::from_str(&row.unwrap()).unwrap()).collect();
        let server = server(&url, "", &[("authors", AUTHORS)]).await;
        assert_rows(&server, "/authors", &expected).await;
        assert_rows(&server, "/authors", &expected).await;
    }
}

/// Small tables, with values only, for both databases.
const SMALL: &str = "
    create table a (id integer, k text, n numeric(9, 3));
    insert into a values (1, 'x', 1.5), (2, 'y', 2), (3, null, null);
    create table b (a_id bigint, v text);
    insert into b values (1, 'b1'), (1, 'b2'), (3, 'b3');
    create table c (a_k text, a_n numeric(9, 1), b_v text);
    insert into c values ('x', 1.5, 'b2'), ('y', 2.0, 'none');
    create table empty (a_id integer);";

/// The same server on both databases.
async fn on_both(tables: &str, settings: &str, endpoints: &[(&str, &str)]) -> Vec<Both> {
    let db = TestDb::new().await;
    db.execute(tables).await;
    let postgres = server(&db.url(), settings, endpoints).await;
    let (folder, url) = sqlite(tables);
    let sqlite = server(&url, settings, endpoints).await;
    let in_sqlite = Both { server: sqlite, _folder: Some(folder), db: None };
    vec![Both { server: postgres, _folder: None, db: Some(db) }, in_sqlite]
}

struct Both {
    server: Server,
    _folder: Option<tempfile::TempDir>,
    db: Option<TestDb>,
}

impl Both {
    /// Checks that nothing is running or open in the database, and that the only connection still
    /// works.
    async fn assert_clean(&self) {
        if let Some(db) = &self.db {
            db.until_none_active().await;
        }
        assert_eq!(whole(&get(&self.server.url("/plain")).await), json!([{"n": 1}]));
        assert_eq!(whole(&get(&self.server.url("/well")).await), json!([{"id": 1, "b": [{"a_id": 1}]}]));
    }
}

#[tokio::test]
async fn small_lists_of_every_kind() {
    let two_pairs = "-- name: a :many\nselect id, k, n from a where id < 3 order by id;
        -- name: c :many nested in a on \"a_n\" = n and a_k = k\nselect a_k, a_n from c order by a_k";
    let no_parents = "-- name: a :many\nselect id from a where id > 9;
        -- name: b :many nested in a on a_id = id\nselect a_id from b where a_id > 9";
    let none = "-- name: a :many\nselect id from a order by id;
        -- name: b :many nested in a on a_id = id\nselect a_id from empty";
    let null_parent = "-- name: a :many\nselect k from a order by id;
        -- name: c :many nested in a on a_k = k\nselect a_k, b_v from c order by a_k";
    let alone = "/*\n[params]\nid = \"integer\"\n*/\n-- name: a :one\nselect id, k from a where id = :id;
        -- name: b :many nested in a on a_id = id\nselect a_id, v from b where a_id = :id order by v";
    let template = "/*\nbody = { list = \"$a\", count = \"$count(a)\", all = \"$count(b)\", first = \"$one\", others = \"$others\", n = \"$n\" }\n*/
        -- name: others :many\nselect v from b order by v;
        -- name: n :value\nselect count(*) as n from c;
        -- name: one :one\nselect id from a where id = 2;
        -- name: in_one :many nested in one on id = id\nselect 2 as id;
        -- name: a :many\nselect id from a order by id;
        -- name: b :many nested in a on a_id = id\nselect a_id, v from b order by a_id, v";
    let endpoints = [
        ("two_pairs", two_pairs),
        ("no_parents", no_parents),
        ("none", none),
        ("null_parent", null_parent),
        ("one/{id}", alone),
        ("template", template),
    ];
    for Both { server, .. } in &on_both(SMALL, "pool = { max = 1 }", &endpoints).await {
        for (path, expected) in [
            (
                "/two_pairs",
                json!([
                    {"id": 1, "k": "x", "n": 1.5, "c": [{"a_k": "x", "a_n": 1.5}]},
                    {"id": 2, "k": "y", "n": 2, "c": [{"a_k": "y", "a_n": 2}]},
                ]),
            ),
            ("/no_parents", json!([])),
            ("/none", json!([{"id": 1, "b": []}, {"id": 2, "b": []}, {"id": 3, "b": []}])),
            (
                "/null_parent",
                json!([
                    {"k": "x", "c": [{"a_k": "x", "b_v": "b2"}]},
                    {"k": "y", "c": [{"a_k": "y", "b_v": "none"}]},
                    {"k": null, "c": []},
                ]),
            ),
            ("/one/1", json!({"id": 1, "k": "x", "b": [{"a_id": 1, "v": "b1"}, {"a_id": 1, "v": "b2"}]})),
            ("/one/2", json!({"id": 2, "k": "y", "b": []})),
            ("/one/9", json!(null)),
            (
                "/template",
                json!({
                    "list": [
                        {"id": 1, "b": [{"a_id": 1, "v": "b1"}, {"a_id": 1, "v": "b2"}]},
                        {"id": 2, "b": []},
                        {"id": 3, "b": [{"a_id": 3, "v": "b3"}]},
                    ],
                    "count": 3,
                    "all": 3,
                    "first": {"id": 2, "in_one": [{"id": 2}]},
                    "others": [{"v": "b1"}, {"v": "b2"}, {"v": "b3"}],
                    "n": 2,
                }),
            ),
        ] {
            let told = whole(&get(&server.url(path)).await).to_string();
            // PostgreSQL's numerics keep the zeros of their type.
            let told = told.replace("2.0", "2");
            assert_eq!(serde_json::from_str::<Value>(&told).unwrap(), expected, "{path}");
        }
        let reply = get(&server.url("/one/1.ndjson")).await;
        let line = r#"{"id":1,"k":"x","b":[{"a_id":1,"v":"b1"},{"a_id":1,"v":"b2"}]}"#;
        assert_eq!((reply.text(), &reply.ended), (&format!("{line}\n")[..], &Ended::Complete));
        server.wait_for_stdout("GET /one/1.ndjson HTTP/1.1 200 complete rows=1 nested_rows=2 ").await;
        for (path, expected) in [
            (
                "/one/1.arrow",
                json!([{"id": 1, "k": "x", "b": [{"a_id": 1, "v": "b1"}, {"a_id": 1, "v": "b2"}]}]),
            ),
            ("/one/2.arrow", json!([{"id": 2, "k": "y", "b": []}])),
            ("/one/9.arrow", json!([])),
            ("/none.arrow", json!([{"id": 1, "b": []}, {"id": 2, "b": []}, {"id": 3, "b": []}])),
            ("/no_parents.arrow", json!([])),
        ] {
            let reply = get(&server.url(path)).await;
            assert_eq!((reply.status, &reply.ended), (StatusCode::OK, &Ended::Complete), "{path}");
            assert_eq!(json!(arrow::rows(&reply.body)), expected, "{path}");
        }
        server.wait_for_stdout("GET /one/1.arrow HTTP/1.1 200 complete rows=1 nested_rows=2 ").await;
        server.wait_for_stdout("GET /template HTTP/1.1 200 complete rows=6 nested_rows=4 ").await;
    }
}

/// If all columns of an object are left out, it contains only its lists.
#[tokio::test]
async fn options_of_values_reach_nested_rows() {
    let orphans = "-- name: a :many\nselect k from a order by id;
        -- name: c :many nested in a on a_k = k\nselect a_k from c order by a_k;
        -- name: d :many nested in a on a_k = k\nselect a_k, null as v from c order by a_k";
    let numbers = "-- name: a :many\nselect id from a where id = 1;
        -- name: b :many nested in a on a_id = id\nselect a_id, 4 * a_id as four from b where a_id = 1 and v = 'b1'";
    let endpoints = [("orphans", orphans), ("numbers", numbers)];
    for Both { server, .. } in &on_both(SMALL, "", &endpoints).await {
        let reply = get(&server.url("/orphans?_nulls=omit")).await;
        let rows = r#"[{"k":"x","c":[{"a_k":"x"}],"d":[{"a_k":"x"}]},{"k":"y","c":[{"a_k":"y"}],"d":[{"a_k":"y"}]},{"c":[],"d":[]}]"#;
        assert_eq!((reply.text(), &reply.ended), (rows, &Ended::Complete));
        let reply = get(&server.url("/numbers.ndjson?_numbers=string")).await;
        assert!(reply.text().ends_with("\"b\":[{\"a_id\":\"1\",\"four\":\"4\"}]}\n"), "{}", reply.text());
    }
}

/// Keys in the databases' own orders: collations, descending, and by another column than the key.
#[tokio::test]
async fn any_order_that_both_have() {
    let db = TestDb::new().await;
    db.execute(
        "create table a as select i as id, chr(65 + (i * 7) % 58) || i as name, md5(i::text)::uuid as u from generate_series(1, 500) i;
         create table b as select 1 + i % 500 as a_id, i as n from generate_series(0, 1999) i",
    )
    .await;
    let by = |order: &str, key: &str| {
        format!(
            "-- name: a :many\nselect id, name, u from a order by {order};
             -- name: b :many nested in a on key = {key}
             select a.{key} as key, b.n from b join a on a.id = b.a_id order by {order}, n"
        )
    };
    let (names, down, uuids, other) =
        (by("a.name", "name"), by("a.id desc", "id"), by("a.u", "u"), by("a.name", "id"));
    let endpoints =
        [("names", &names[..]), ("down", &down[..]), ("uuids", &uuids[..]), ("other", &other[..])];
    let server = server(&db.url(), "", &endpoints).await;
    for (path, key) in [("/names", "name"), ("/down", "id"), ("/uuids", "u"), ("/other", "id")] {
        let rows = whole(&get(&server.url(path)).await);
        let rows = rows.as_array().unwrap();
        assert_eq!(rows.len(), 500);
        for row in rows {
            let of = row["id"].as_u64().unwrap() - 1;
            let list: Vec<_> = (0..4).map(|i| json!({"key": row[key], "n": of + i * 500})).collect();
            assert_eq!(row["b"], Value::from(list), "{path}");
        }
    }
}

const PLAIN: (&str, &str) = ("plain", "select n from one");
const WELL: (&str, &str) = (
    "well",
    "-- name: a :many\nselect n as id from one;\n-- name: b :many nested in a on a_id = id\nselect n as a_id from one",
);

/// A parent statement with `parents` rows, and a child statement.
fn nested(parents: u32, child: &str) -> String {
    format!(
        "-- name: parents :many\nselect id, pad from p where id <= {parents} order by id;
         -- name: children :many nested in parents on parent = id\n{child}"
    )
}

const PARENTS: &str = "create table one (n integer); insert into one values (1);
    create table p (id integer primary key, pad text);
    insert into p with recursive s(i) as (select 1 union all select i + 1 from s where i < 2000)
      select i, '0123456789012345678901234567890123456789' from s;";

#[tokio::test]
async fn rows_that_do_not_fit_together_are_errors_that_name_the_statement() {
    let orphans = "select id + 1 as parent from p order by id";
    let disorder = "select id as parent from p order by id desc";
    let nulls = "select case when id = 1000 then null else id end as parent from p order by id";
    let first_null = "select case when id = 1 then null else id end as parent from p order by id";
    let twins = "-- name: parents :many\nselect 1 + id / 2 as id, pad from p order by id;
        -- name: children :many nested in parents on parent = id\nselect 1 as parent";
    let second = "-- name: parent :one\nselect id from p order by id;
        -- name: children :many nested in parent on parent = id\nselect 1 as parent";
    let (short_orphans, short_disorder) = (nested(10, orphans), nested(10, disorder));
    let (long_orphans, long_disorder) = (nested(2000, orphans), nested(2000, disorder));
    let (long_nulls, short_nulls) = (nested(2000, nulls), nested(2000, first_null));
    let endpoints = [
        ("short_orphans", &short_orphans[..]),
        ("short_disorder", &short_disorder),
        ("short_nulls", &short_nulls),
        ("long_orphans", &long_orphans),
        ("long_disorder", &long_disorder),
        ("long_nulls", &long_nulls),
        ("twins", twins),
        ("second", second),
        PLAIN,
        WELL,
    ];
    let unordered = "statement `children` isn't in the order of `parents`, or has rows that belong to no row \
        of `parents`";
    let null = "statement `children` has a row whose key is NULL, so it belongs to no row of `parents`";
    let twins = "statement `parents` has two rows with the same key, so `children` can't be nested in them";
    for both in &on_both(PARENTS, "pool = { max = 1 }", &endpoints).await {
        for (path, detail) in [
            ("/short_orphans", unordered),
            ("/short_disorder", unordered),
            ("/short_nulls", null),
            ("/twins", twins),
            ("/second", "statement `parent` must return one row, but returns more"),
        ] {
            let reply = get(&both.server.url(path)).await;
            let told = reply.json();
            assert_eq!(
                (reply.status, &told["detail"]),
                (StatusCode::INTERNAL_SERVER_ERROR, &json!(detail)),
                "{path}"
            );
            both.assert_clean().await;
        }
        for (path, detail) in
            [("/long_orphans", unordered), ("/long_disorder", unordered), ("/long_nulls", null)]
        {
            for client in [Client::HTTP1, Client::H2C] {
                let reply = client.get(&both.server.url(path)).await;
                assert!(matches!(reply.ended, Ended::Broken(_)), "{path}: {:?}", reply.ended);
                assert!(reply.text().starts_with(r#"[{"id":1,"pad":"#), "{path}");
                assert!(serde_json::from_str::<Value>(reply.text()).is_err(), "{path}");
            }
            both.server.wait_for_stdout(detail).await;
            both.assert_clean().await;
        }
    }
}

#[tokio::test]
async fn errors_of_a_statement_have_a_status_before_the_first_row_and_break_off_after() {
    let db = TestDb::new().await;
    db.execute(PARENTS).await;
    // The rows are produced one by one, because sorting would produce all of them before the first.
    let fails = |row| {
        format!("select n as parent, 1 / ({row} - n) as q from (select generate_series(1, 2000) as n) s")
    };
    let (fails_first, fails_late) = (nested(2000, &fails(1)), nested(2000, &fails(1900)));
    let parent_fails = "-- name: parents :many
        select n as id, repeat('x', 40) as pad, 1 / (1900 - n) as q from (select generate_series(1, 2000) as n) s;
        -- name: children :many nested in parents on parent = id\nselect id as parent from p order by id";
    let fails_below = "-- name: parents :many\nselect id, pad from p order by id;
        -- name: children :many nested in parents on parent = id\nselect id as parent from p order by id;
        -- name: grandchildren :many nested in children on parent = parent
        select id as parent, 1 / (id - 1) as q from p order by id";
    let endpoints = [
        ("fails_first", &fails_first[..]),
        ("fails_late", &fails_late),
        ("parent_fails", parent_fails),
        ("fails_below", fails_below),
        PLAIN,
        WELL,
    ];
    let server = server(&db.url(), "pool = { max = 1 }", &endpoints).await;
    let both = Both { server, _folder: None, db: Some(db) };
    for path in ["/fails_first", "/fails_below"] {
        let reply = get(&both.server.url(path)).await;
        let told = reply.json();
        assert_eq!((reply.status.as_u16(), &told["sqlstate"]), (500, &json!("22012")), "{path}");
        both.assert_clean().await;
    }
    for path in ["/fails_late", "/parent_fails"] {
        for client in [Client::HTTP1, Client::H2C] {
            let reply = client.get(&both.server.url(path)).await;
            assert!(matches!(reply.ended, Ended::Broken(_)), "{path}: {:?}", reply.ended);
            assert!(reply.text().starts_with(r#"[{"id":1,"pad":"#), "{path}");
        }
        both.server.wait_for_stdout("22012").await;
        both.assert_clean().await;
    }
}

/// SQLite also detects them at the row.
#[tokio::test]
async fn errors_in_sqlite_come_at_their_row() {
    let (_folder, url) = sqlite(PARENTS);
    let fails = |row| {
        nested(
            2000,
            &format!("select id as parent, abs(-9223372036854775807 - id / {row}) as q from p order by id"),
        )
    };
    let (first, late) = (fails(1), fails(1900));
    let server = server(&url, "pool = { max = 1 }", &[("first", &first), ("late", &late), PLAIN, WELL]).await;
    let both = Both { server, _folder: None, db: None };
    let reply = get(&both.server.url("/first")).await;
    assert_eq!(
        (reply.status, reply.json()["code"].as_str()),
        (StatusCode::INTERNAL_SERVER_ERROR, Some("bad_value"))
    );
    both.assert_clean().await;
    let reply = get(&both.server.url("/late")).await;
    assert!(matches!(reply.ended, Ended::Broken(_)), "{:?}", reply.ended);
    // The rows before the failing one are present.
    assert!(reply.text().contains(r#"{"id":1800,"#));
    both.assert_clean().await;
}

#[tokio::test]
async fn a_client_that_leaves_cancels_all_statements() {
    let db = TestDb::new().await;
    db.execute(PARENTS).await;
    let long = "-- name: parents :many\nselect 1 as id, pad from p where id = 1;
        -- name: children :many nested in parents on parent = id
        select 1 as parent, generate_series(1, 1000000000) as n, repeat('x', 100) as t";
    let waits = "-- name: parents :many\nselect id, pad from p order by id;
        -- name: children :many nested in parents on parent = id
        select n as parent, case when n > 1000 then pg_sleep(1000)::text end as s from (select generate_series(1, 2000) as n) s";
    let endpoints = [("long", long), ("waits", waits), PLAIN, WELL];
    let server = server(&db.url(), "pool = { max = 1 }", &endpoints).await;
    let both = Both { server, _folder: None, db: Some(db) };
    for path in ["/long", "/waits"] {
        for client in [Client::HTTP1, Client::H2C] {
            let mut stream = client.stream(&both.server.url(path)).await;
            stream.at_least(20_000).await;
            drop(stream);
            both.assert_clean().await;
        }
    }
}

/// Rows that are added to both tables during a response aren't in it.
#[tokio::test]
async fn all_statements_read_one_snapshot() {
    let db = TestDb::new().await;
    db.execute(
        "create table a as select i as id, repeat('x', 2000) as pad from generate_series(1, 20000) i;
         create table b as select id as a_id, 1 as n from a",
    )
    .await;
    let sql = "/*\nbody = { before = \"$before\", a = \"$a\", after = \"$after\" }\n*/
        -- name: before :value\nselect count(*) from b;
        -- name: a :many\nselect id, pad from a order by id;
        -- name: b :many nested in a on a_id = id\nselect a_id, n from b order by a_id, n;
        -- name: after :value\nselect count(*) from b";
    let server = server(&db.url(), "", &[("all", sql)]).await;
    let mut stream = Client::HTTP1.receive_buffer(32 * 1024).stream(&server.url("/all")).await;
    let mut body = stream.at_least(10_000).await.to_vec();
    db.execute("insert into a values (20001, 'new'); insert into b select id, 2 from a").await;
    let rest = stream.rest().await;
    assert_eq!(rest.ended, Ended::Complete);
    body.extend_from_slice(&rest.body);
    let told: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!((&told["before"], &told["after"]), (&json!(20_000), &json!(20_000)));
    let rows = told["a"].as_array().unwrap();
    assert_eq!(rows.len(), 20_000);
    assert!(rows.iter().all(|row| row["b"].as_array().unwrap().len() == 1));
}

/// Rows that wait for another statement's rows are held up to a limit: the maximum row, or a
/// megabyte.
#[tokio::test]
async fn large_rows_are_merged_within_bounds() {
    let db = TestDb::new().await;
    db.execute(
        "create table a as select i as id, repeat('a', 10 * i) as pad from generate_series(1, 2000) i;
         create table b as select 1 + i / 3 as a_id, repeat('b', case when i % 100 = 0 then 50000 else i % 50 end) as t
           from generate_series(0, 5999) i",
    )
    .await;
    let sql = "-- name: a :many\nselect id, pad from a order by id;
        -- name: b :many nested in a on a_id = id\nselect a_id, t from b order by a_id, length(t)";
    // While the rows of the second portion arrive, the next parents are needed.
    let wide = "-- name: a :many\nselect id from a where id <= 120 order by id;
        -- name: b :many nested in a on a_id = id
        select id as a_id, repeat('b', case when id > 32 then 300000 else 1 end) as t from a where id <= 120 order by id";
    let endpoints = [("a", sql), ("wide", wide)];
    let of_size = |size: &str| format!("max_row_bytes = \"{size}\"\npool = {{ max = 1 }}");
    let roomy = server(&db.url(), &of_size("64KiB"), &endpoints).await;
    let rows = whole(&get(&roomy.url("/a")).await);
    let rows = rows.as_array().unwrap();
    assert_eq!(rows.len(), 2000);
    let lengths = |row: &Value| {
        let list = row["b"].as_array().unwrap().iter();
        list.map(|row| row["t"].as_str().unwrap().len()).sum::<usize>()
    };
    assert!(rows.iter().all(|row| row["b"].as_array().unwrap().len() == 3));
    let expected: usize = (0..6000).map(|i| if i % 100 == 0 { 50_000 } else { i % 50 }).sum();
    assert_eq!(rows.iter().map(lengths).sum::<usize>(), expected);
    assert_fails(&roomy, "/wide", "row_too_large: a row of 300019 bytes is over the limit").await;
    let tight = server(&db.url(), &of_size("301KiB"), &endpoints).await;
    let held = "row_too_large: rows that wait for those of another statement take more than 1048576 bytes";
    assert_fails(&tight, "/wide", held).await;
    assert_same(whole(&get(&tight.url("/a")).await).as_array().unwrap(), rows, "after the failure");
    // With fewer of them, it succeeds.
    let few = server(&db.url(), &format!("fetch_rows = 1\n{}", of_size("301KiB")), &endpoints).await;
    let reply = get(&few.url("/wide")).await;
    assert_eq!(whole(&reply).as_array().unwrap().len(), 120);
}

/// Asserts that a response fails for this reason, with a status unless its first rows have been
/// sent.
async fn assert_fails(server: &Server, path: &str, reason: &str) {
    let reply = get(&server.url(path)).await;
    assert!(reply.status != StatusCode::OK || matches!(reply.ended, Ended::Broken(_)), "{reply:?}");
    server.wait_for_stdout(reason).await;
}

/// Runs `check` for a folder with these files.
async fn check(folder: &Path, files: &[(String, String)]) -> std::process::Output {
    for (name, text) in files {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    rowstream(&["check", folder.join("rowstream.toml").to_str().unwrap()]).await
}

#[tokio::test]
async fn check_shows_what_is_nested_and_finds_columns_that_do_not_suit() {
    let tables = "create table a (id integer, name text); create table b (a_id integer, t text);";
    let db = TestDb::new().await;
    db.execute(tables).await;
    let (folder, url) = sqlite(tables);
    let head = "-- name: list :many\nselect id, name from a;\n";
    let well = format!("{head}-- name: b :many nested in list on a_id = id and t = name\nselect a_id, t from b;
        -- name: c :many nested in b on k = t\nselect t as k from b;\n-- name: d :many nested in list on k = id\nselect a_id as k from b");
    let child = |on: &str, name: &str| {
        format!("{head}-- name: {name} :many nested in list on {on}\nselect a_id, t from b")
    };
    let endpoints = [
        ("a_well", well),
        ("b_own", child("a_ad = id", "b")),
        ("c_other", child("a_id = identity", "b")),
        ("d_kinds", child("a_id = id and a_id = name", "b")),
        ("e_name", child("a_id = id", "name")),
    ];
    let endpoints: Vec<_> = endpoints.iter().map(|(name, sql)| (*name, &sql[..])).collect();
    for url in [db.url(), url] {
        let ran = check(folder.path(), &files(&url, "", &endpoints)).await;
        // SQLite prints its types in capitals.
        let [out, err] = [&ran.stdout, &ran.stderr]
            .map(|told| String::from_utf8_lossy(told).replace("INTEGER", "integer").replace("TEXT", "text"));
        let integer = if url.starts_with("sqlite") { "integer" } else { "int4" };
        let shown = format!(
            "GET /a_well  [json, ndjson, sse, json-seq, arrow]
    list :many -> id {integer}, name text
        b :many nested on a_id = id and t = name -> a_id {integer}, t text
            c :many nested on k = t -> k text
        d :many nested on k = id -> k {integer}
"
        );
        assert!(out.contains(&shown), "{out}");
        for (place, message, hint) in [
            (
                "b_own.sql:3:1",
                "`a_ad` isn't a column of statement `b`, but rows are nested by it",
                "did you mean `a_id`?",
            ),
            (
                "c_other.sql:3:1",
                "`identity` isn't a column of statement `list`, but rows are nested by it",
                "its columns are `id`, `name`",
            ),
            (
                "d_kinds.sql:3:1",
                &format!(
                    "`a_id` of statement `b` is {integer}, and `name` of `list` is text: they can't be equal"
                ),
                "cast one of them to the type of the other",
            ),
            (
                "e_name.sql:3:1",
                "statement `list` has a column `name`, but `name` is also nested in its rows",
                "rename one of them",
            ),
        ] {
            let told = err.lines().position(|line| line.contains(place) && line.contains(message));
            let told = told.unwrap_or_else(|| panic!("{place}: {message}\n{err}"));
            // Between them are the line of the file and a caret.
            assert_eq!(err.lines().nth(told + 3).unwrap().trim(), format!("hint: {hint}"));
        }
        assert!(err.contains("4 errors"), "{err}");
    }
    // A server that prepares nothing in advance reports it at the first request.
    let files = files(&db.url(), "", &endpoints);
    let files: Vec<_> = files.iter().map(|(name, text)| (&name[..], &text[..])).collect();
    let server = Launch::files(&files).argument("--no-check").start().await;
    let reply = get(&server.url("/b_own")).await;
    assert_eq!(reply.status, StatusCode::INTERNAL_SERVER_ERROR);
    assert!(reply.text().contains("`a_ad` isn't a column of statement `b`"), "{}", reply.text());
}

/// If two parents had the same key and another one was between them, the first had the rows, and
/// the second silently had an empty list. A merge can't detect this. `check` warns about statements
/// that may have such rows.
#[tokio::test]
async fn parents_that_may_be_the_same_are_a_warning() {
    let tables = "create table a (id integer primary key, name text unique, x integer, y integer, part integer, unique (x, y));
        create unique index a_part on a (part) where part > 0;
        create unique index a_lower on a (lower(name), part);
        create table b (a_id integer, v text);
        create table plain (id integer, name text);
        insert into plain values (1, 'a'), (2, 'b'), (1, 'c');
        insert into b values (1, 'v');
        create view shown as select a.id, a.name from a join b on a_id = id;";
    let db = TestDb::new().await;
    db.execute(tables).await;
    db.execute(
        "create table parted (id integer primary key) partition by range (id);
        create table inherited (id integer primary key); create table heir () inherits (inherited)",
    )
    .await;
    let (folder, url) = sqlite(tables);
    let both = [
        // The silent failure: the second `1` has no rows.
        ("id", "select id, name from plain order by name", true),
        // One table with a unique key.
        ("id", "select id, name from a order by name", false),
        ("id", "select * from a", false),
        ("id", "select t.*, 1 as one from a as t where t.id > 0 order by x desc limit 9", false),
        ("key", "select t.id as key from a t order by y", false),
        ("key", "select \"id\" as \"key\", name from \"a\" order by name", false),
        ("name", "select distinct id, name from a order by name", false),
        ("x and v = y", "select y, x from a order by id", false),
        ("id and v = name", "select id, name from a order by x", false),
        ("x", "select x, y from a order by id", true),
        ("part", "select part from a order by id", true),
        ("id", "select x as id from a order by name", true),
        ("id", "select id + 0 as id from a order by name", true),
        ("id", "select a.id, name from a join b on a_id = id order by name", true),
        ("id", "select a.id, name from a, b order by name", true),
        ("id", "select a.id, name from a left join b on a_id = id order by name", true),
        ("id", "select id, name from a union all select id, name from a order by name", true),
        ("id", "select id, name from (select id, name from a) s order by name", true),
        ("id", "with a as (select 1 as id, 'x' as name) select id, name from a order by name", true),
        ("id", "select id, name from shown order by name", true),
        // Sorted by the key first, such rows are adjacent, which is an error.
        ("id", "select id, name from plain order by id, name", false),
        ("id", "select id, name from plain order by ID desc -- , name", false),
        ("id", "select name, id from plain order by 2 limit 5", false),
        ("id", "select p.id, name from plain p join b on a_id = id order by p.id nulls last, name", false),
        ("id", "select b.a_id as id, name from plain p join b on a_id = id order by p.id, name", true),
        ("id", "select id, name from plain union all select id, name from a order by id", false),
        ("id and v = name", "select id, name from plain order by name, id", false),
        ("id and v = name", "select id, name from plain order by name, length(name), id", true),
        ("id", "select id, name from plain order by -id", true),
        ("id", "select id, name from (select id, name from plain order by id) s", true),
        ("id", "select id, name from plain", true),
    ];
    let of_postgres = [
        ("id", "select id, name from public.a order by name", false),
        ("id", "select id, lower(name) as l from a order by name", false),
        ("id", "select id, unnest(array[1, 2]) as n from a order by name", true),
        ("id", "select id from inherited order by 1 + id", true),
        ("id", "select id from parted order by 1 + id", false),
    ];
    let of_sqlite = [
        ("id", "select [ID] as id from `A` order by name", false),
        ("id", "select id, lower(name) as l from a order by name", false),
    ];
    for (url, own) in [(db.url(), &of_postgres[..]), (url, &of_sqlite[..])] {
        let cases: Vec<_> = both.iter().chain(own).collect();
        let endpoint = |(index, (on, parent, _)): (usize, &&(&str, &str, bool))| {
            let child = "select a_id, v from b order by a_id, v";
            let on = if on.starts_with("name") { "v = name".to_owned() } else { format!("a_id = {on}") };
            let child = if on.contains("v = y") { "select a_id, a_id as v from b" } else { child };
            (
                format!("c{index}"),
                format!("-- name: a :many\n{parent}\n;\n-- name: b :many nested in a on {on}\n{child}"),
            )
        };
        let endpoints: Vec<_> = cases.iter().enumerate().map(endpoint).collect();
        let mut endpoints: Vec<_> = endpoints.iter().map(|(name, sql)| (&name[..], &sql[..])).collect();
        let one = "-- name: a :one\nselect id from plain where id = 2;\n-- name: b :many nested in a on a_id = id\nselect a_id from b";
        endpoints.push(("one", one));
        let _ = std::fs::remove_dir_all(folder.path().join("endpoints"));
        let files = files(&url, "", &endpoints);
        let ran = check(folder.path(), &files).await;
        let [out, err] = [&ran.stdout, &ran.stderr].map(|told| String::from_utf8_lossy(told));
        assert_eq!(ran.status.code(), Some(0), "{err}");
        assert!(out.ends_with(&format!("OK, {} endpoints\n", endpoints.len())), "{out}");
        for (index, (_, parent, warns)) in cases.iter().enumerate() {
            let warned = err.lines().any(|line| {
                line.starts_with("warning: ")
                    && line.contains(&format!("/c{index}.sql:"))
                    && line.contains("may not be unique in `a`")
            });
            assert_eq!(warned, *warns, "{parent}\n{err}");
        }
        assert!(!err.contains("one.sql"), "one row is no two\n{err}");
        let config = folder.path().join("rowstream.toml");
        let ran = rowstream(&["check", config.to_str().unwrap(), "--format", "json"]).await;
        let found: Value = serde_json::from_slice(&ran.stdout).unwrap();
        let is_of_parents = |warning: &&Value| {
            warning["message"].as_str().is_some_and(|message| message.contains("may not be unique in `a`"))
        };
        let warnings: Vec<_> = found["warnings"].as_array().unwrap().iter().filter(is_of_parents).collect();
        assert_eq!(warnings.len(), cases.iter().filter(|(_, _, warns)| *warns).count());
        let first = warnings.iter().find(|warning| warning["endpoint"] == "/c0").unwrap();
        assert_eq!(
            (&first["line"], &first["source"], &found["errors"]),
            (&json!(4), &json!("db"), &json!([]))
        );
        // A server starts, prints the same warning, and answers as before.
        let files: Vec<_> = files.iter().map(|(name, text)| (&name[..], &text[..])).collect();
        let server = Server::start(&files).await;
        server.wait_for_stderr("`id` may not be unique in `a`").await;
        let rows = whole(&get(&server.url("/c0")).await);
        let lists: Vec<_> =
            rows.as_array().unwrap().iter().map(|row| row["b"].as_array().unwrap().len()).collect();
        assert_eq!(lists, [1, 0, 0]);
        assert_fails(&server, "/c20", "statement `a` has two rows with the same key").await;
    }
}

#[tokio::test]
async fn a_number_of_rows_stands_behind_them() {
    let rows =
        "select n from (select 1 as n union all select 2 union all select 3) r where n <= :max order by n";
    let only = format!(
        "/*\nbody = {{ rows = \"$rows\", end = {{ count = \"$count\", text = \"$$count\" }} }}\n[params]\nmax = \"integer\"\n*/\n{rows}"
    );
    let several = format!(
        "/*\nbody = [\"$b\", \"$count(b)\", \"$a\", \"$count(a)\", \"$count(b)\", \"$n\"]\n[params]\nmax = \"integer\"\n*/
        -- name: a :many\n{rows};\n-- name: b :many\nselect 1 as x;\n-- name: n :value\nselect 7 as n"
    );
    for Both { server, .. } in &on_both("", "", &[("only", &only), ("several", &several)]).await {
        for (path, expected) in [
            ("/only?max=2", r#"{"rows":[{"n":1},{"n":2}],"end":{"count":2,"text":"$count"}}"#),
            ("/only?max=0", r#"{"rows":[],"end":{"count":0,"text":"$count"}}"#),
            ("/only.ndjson?max=2", "{\"n\":1}\n{\"n\":2}\n"),
            ("/several?max=3", r#"[[{"x":1}],1,[{"n":1},{"n":2},{"n":3}],3,1,7]"#),
        ] {
            let reply = get(&server.url(path)).await;
            assert_eq!((reply.text(), &reply.ended), (expected, &Ended::Complete), "{path}");
        }
    }
}

/// One parent with a million rows, and many parents at once: neither is ever held in memory.
#[tokio::test]
async fn memory_is_constant_while_nested_rows_are_read() {
    const ROWS: usize = 1_000_000;
    const READERS: usize = 20;
    let tables = "create table p (id integer primary key, pad text);
        insert into p with recursive s(i) as (select 1 union all select i + 1 from s where i < 1000)
          select i, '0123456789012345678901234567890123456789' from s;
        create table million (n integer primary key);
        insert into million with recursive s(i) as (select 1 union all select i + 1 from s where i < 1000000) select i from s;
        create table few (parent integer, n integer);
        insert into few select p.id, n from p join million on n <= 100;
        create index few_parent on few (parent, n);";
    let one = "-- name: parents :many\nselect id, pad from p where id <= 3 order by id;
        -- name: children :many nested in parents on parent = id
        select 2 as parent, n, 'abcdefghijklmnopqrstuvwxyz' as t from million order by n";
    let many = "-- name: parents :many\nselect id, pad from p order by id;
        -- name: children :many nested in parents on parent = id\nselect parent, n from few order by parent, n;
        -- name: grandchildren :many nested in children on parent = parent and n = n
        select parent, n from few where n % 10 = 0 order by parent, n";
    let db = TestDb::new().await;
    db.execute(tables).await;
    let (_folder, url) = sqlite(tables);
    for (database, url) in [("PostgreSQL", db.url()), ("SQLite", url)] {
        let settings = format!("pool = {{ max = {READERS} }}");
        let files = files(&url, &settings, &[("one", one), ("many", many)]);
        let files: Vec<_> = files.iter().map(|(name, text)| (&name[..], &text[..])).collect();
        let server = Launch::files(&files).release().start().await;
        assert_eq!(objects(&server, "/one").await, ROWS + 3);
        assert_small(&server, &format!("one row with 1,000,000 below it from {database}"));
        let mut readers = tokio::task::JoinSet::new();
        for _ in 0..READERS {
            let stream = Client::HTTP1.stream(&server.url("/many")).await;
            readers.spawn(count(stream));
        }
        while let Some(read) = readers.join_next().await {
            assert_eq!(read.unwrap(), 1000 + 100_000 + 10_000);
        }
        assert_small(&server, &format!("{READERS} readers of 111,000 nested rows from {database}"));
    }
}

/// The number of objects in a complete response, which is discarded.
async fn objects(server: &Server, path: &str) -> usize {
    count(Client::HTTP1.stream(&server.url(path)).await).await
}

async fn count(mut stream: crate::support::Streaming) -> usize {
    let mut objects = 0;
    loop {
        match stream.chunk().await {
            Ok(chunk) => objects += chunk.iter().filter(|&&byte| byte == b'{').count(),
            Err(ended) => {
                assert_eq!(ended, Ended::Complete);
                return objects;
            }
        }
    }
}

fn assert_small(server: &Server, what: &str) {
    let peak = peak_memory_bytes(server.pid());
    println!("peak memory of {what}: {:.1} MB", peak as f64 / 1e6);
    assert!(peak < CEILING, "{what} took {peak} bytes");
}

/// In Arrow, the lists of a row stay in memory until it ends.
#[tokio::test]
async fn lists_in_arrow_have_a_bound() {
    let sql = "/*\n[params]\nlong = \"integer\"\n*/
        -- name: a :many\nselect n as id from generate_series(1, 2000) n order by n;
        -- name: b :many nested in a on a_id = id
        select n as a_id, i from generate_series(1, 2000) n, generate_series(1, case n when :long then 10000 else 2 end) i
        order by n, i;
        -- name: c :many nested in b on a_id = a_id and i = i
        select n as a_id, i, null::int8 as v from generate_series(1, 2000) n, generate_series(1, 2) i order by n, i";
    let db = TestDb::new().await;
    let server = server(&db.url(), "max_row_bytes = \"64KiB\"\npool = { max = 1 }", &[("a", sql)]).await;
    let reply = get(&server.url("/a.arrow?long=0")).await;
    assert_eq!((reply.status, &reply.ended), (StatusCode::OK, &Ended::Complete));
    assert_eq!(arrow::rows(&reply.body), whole(&get(&server.url("/a?long=0")).await).as_array().unwrap()[..]);

    let first = get(&server.url("/a.arrow?long=1")).await;
    let problem = first.json();
    let message = "the lists in one row have more than 65536 bytes in Arrow, the last of them in `b`";
    assert_eq!((first.status.as_u16(), &problem["code"]), (500, &json!("row_too_large")), "{problem}");
    assert_eq!(problem["detail"], message);
    assert!(
        problem["hint"].as_str().unwrap().starts_with("request `ndjson` if the endpoint offers it"),
        "{problem}"
    );
    let late = get(&server.url("/a.arrow?long=1900")).await;
    assert!(matches!(late.ended, Ended::Broken(_)), "{:?}", late.ended);
    let rows = arrow::rows(&late.body);
    assert!((1000..1900).contains(&rows.len()), "{}", rows.len());
    assert_eq!(rows.last().unwrap()["b"].as_array().unwrap().len(), 2, "all of its rows are whole");
    let lines = get(&server.url("/a.ndjson?long=1900")).await;
    assert_eq!((lines.text().lines().count(), &lines.ended), (2000, &Ended::Complete));
}

/// The message names the list of the column.
#[tokio::test]
async fn a_value_that_arrow_lacks_is_an_error_in_a_list_too() {
    let sql = "-- name: a :many\nselect 1 as id;
        -- name: b :many nested in a on a_id = id\nselect 1 as a_id;
        -- name: c :many nested in b on a_id = a_id\nselect 1 as a_id, 'infinity'::date as day";
    let db = TestDb::new().await;
    let server = server(&db.url(), "", &[("a", sql)]).await;
    let problem = get(&server.url("/a.arrow")).await.json();
    let message = "column `b.c.day` holds an infinite date, which its Arrow type Date32 cannot";
    assert_eq!((&problem["code"], &problem["detail"]), (&json!("bad_value"), &json!(message)));
}

/// Complete rows don't wait for the end of a later one.
#[tokio::test]
async fn complete_rows_in_arrow_arrive_before_an_open_one_ends() {
    let sql = "-- name: a :many\nselect id from generate_series(1, 3) id order by id;
        -- name: b :many nested in a on a_id = id
        select a_id, i, case when a_id = 2 and i = 2 then pg_advisory_xact_lock(7)::text end as locked
        from generate_series(1, 3) a_id, generate_series(1, 3) i";
    let db = TestDb::new().await;
    let server = server(&db.url(), "fetch_rows = 1", &[("a", sql)]).await;
    let locks = db.client().await;
    locks.batch_execute("select pg_advisory_lock(7)").await.unwrap();
    let mut stream = Client::HTTP1.stream(&server.url("/a.arrow")).await;
    let mut body = Vec::new();
    while body.is_empty() || arrow::rows(&body).is_empty() {
        body.extend_from_slice(&stream.chunk().await.unwrap());
    }
    let row = |id: u8| {
        let of = |i: u8| json!({"a_id": id, "i": i, "locked": if (id, i) == (2, 2) { json!("") } else { json!(null) }});
        json!({"id": id, "b": [of(1), of(2), of(3)]})
    };
    assert_eq!(arrow::rows(&body), [row(1)]);
    locks.batch_execute("select pg_advisory_unlock(7)").await.unwrap();
    let rest = stream.rest().await;
    assert_eq!(rest.ended, Ended::Complete);
    body.extend_from_slice(&rest.body);
    assert_eq!(arrow::rows(&body), [row(1), row(2), row(3)]);
}
