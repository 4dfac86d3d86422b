//! `order by /*sort*/ …`: the order of a request in that of the statement, before its limit.

use http::{Request, StatusCode, header};

use super::{HOSTILE, encoded, ids};
use crate::support::{Client, MariaDb, Reply, Server, TestDb, get, rowstream, wait_until};

const TABLE: &str = "create table sale (id integer primary key, amount integer, name varchar(20));
    insert into sale values (1, 5, 'b'), (2, 1, 'a'), (3, null, 'c'), (4, 9, 'd'), (5, 1, 'e');";

/// The result's `amount` isn't the table's, and the statement orders by a column that isn't in it.
const TOP: &str = "/*\nsort = [\"amount\", \"-id\", \"name\"]\n*/
    select id, 10 - amount as amount, upper(name) as name
    from sale as s order by -- the client's choice
    /*sort*/ s.id * 2 desc limit 3";

const ALL: &str = "/*\nsort = true\n[params]\nleast = { type = \"integer\", default = 0 }\n*/
    select id, amount, '/*sort*/' as text from sale where id > :least order by /*sort*/ id -- the end";

const PAGED: &str = "/*\nsort = [\"name\"]\n[params]\nn = { type = \"integer\", default = 2 }\nskip = { type = \"integer\", default = 0 }\n*/
    select id, name from sale order by /*sort*/ id limit :n offset :skip";

const UNION: &str = "/*\nsort = [\"id\"]\n*/
    select id, name from sale union all select id + 10, name from sale order by /* sort */ name limit 2";

/// Names that would be SQL if they weren't quoted.
const ODD: [&str; 6] = ["we\"ird", "a*/b", "x -- y", "it's", "b`c", "select 1"];

fn odd(quote: char) -> String {
    let quoted = |name: &str| format!("{quote}{}{quote}", name.replace(quote, &format!("{quote}{quote}")));
    let columns: Vec<_> = ODD.iter().map(|name| format!("5 - id as {}", quoted(name))).collect();
    format!("/*\nsort = true\n*/ select id, {} from sale order by /*sort*/ id", columns.join(", "))
}

async fn server(url: &str) -> Server {
    let config = format!("explain = true\n[source.db]\nurl = \"{url}\"\n");
    let odd = odd(if url.starts_with("mysql:") { '`' } else { '"' });
    let files = [
        ("rowstream.toml", &*config),
        ("endpoints/top.sql", TOP),
        ("endpoints/all.sql", ALL),
        ("endpoints/paged.sql", PAGED),
        ("endpoints/union.sql", UNION),
        ("endpoints/odd.sql", &odd),
    ];
    Server::start(&files).await
}

async fn ask(server: &Server, path: &str, accept: &str) -> Reply {
    let request = Request::get(server.url(path)).header(header::ACCEPT, accept);
    Client::HTTP1.send(request.body(String::new()).unwrap()).await
}

/// Requests, and the ids of their rows.
const ANSWERS: &[(&str, &[i64])] = &[
    ("/top", &[5, 4, 3]),
    ("/top?order=id.desc", &[5, 4, 3]),
    ("/top?order=amount.desc.nullslast", &[5, 2, 1]),
    ("/top?order=amount.nullsfirst", &[3, 4, 1]),
    ("/top?order=amount.desc.nullslast,name", &[2, 5, 1]),
    ("/top?order=name", &[2, 1, 3]),
    ("/top?order=name.desc", &[5, 4, 3]),
    ("/all", &[1, 2, 3, 4, 5]),
    ("/all?order=amount.desc.nullslast&limit=2", &[4, 1]),
    ("/all?limit=2&offset=1&least=1", &[3, 4]),
    ("/all?offset=3", &[4, 5]),
    ("/all?order=id.desc&offset=3", &[2, 1]),
    ("/all?order=id.desc&least=2&limit=10", &[5, 4, 3]),
    ("/paged", &[1, 2]),
    ("/paged?order=name.desc&n=3&skip=1", &[4, 3, 1]),
    ("/union?order=id.desc", &[15, 14]),
];

/// Refused requests, and a part of the message.
const REFUSED: &[(&str, &str)] = &[
    ("/top?order=id", "write `id.desc`"),
    ("/top?order=id.asc.nullsfirst", "write `id.desc`"),
    ("/top?order=s.id", ""),
    ("/top?order=nam", "`nam` can't order the rows: did you mean `name`?"),
    ("/top?limit=2", "a limit of its own"),
    ("/paged?offset=2", "a limit of its own"),
    ("/top?name=eq.A", "`name` can't be filtered"),
    ("/top?select=id", "this endpoint has no `select`"),
    ("/top?_count=exact", "this endpoint has no totals"),
    ("/top?_after=x", "_after"),
];

async fn sorts_before_the_limit(url: &str, moves_nulls: bool) {
    let server = server(url).await;
    has_answers(&server).await;
    for (path, part) in REFUSED {
        let reply = get(&server.url(path)).await;
        assert_eq!(reply.status, StatusCode::BAD_REQUEST, "{path} on {url}: {}", reply.text());
        assert!(reply.text().contains(part), "{path}: {}", reply.text());
    }
    for (path, expected) in
        [("/top?order=amount.nullslast", [4, 1, 5]), ("/top?order=amount.desc.nullsfirst", [3, 5, 2])]
    {
        let reply = get(&server.url(path)).await;
        match moves_nulls {
            true => assert_eq!(ids(&reply), expected, "{path} on {url}"),
            false => assert!(reply.text().contains("this endpoint can't move NULLs"), "{}", reply.text()),
        }
    }
    for name in ODD {
        let path = format!("/odd?{}", encoded(&format!("order={name}.asc")));
        assert_eq!(ids(&get(&server.url(&path)).await), [5, 4, 3, 2, 1], "{name} on {url}");
    }
    one_row_and_pages(&server).await;
    nothing_leaves_the_order(&server).await;
    // The texts of statements are others then, and the place must be right in them.
    server.hang_up();
    server.wait_for_stderr("reloaded: 5 endpoints").await;
    has_answers(&server).await;
}

async fn has_answers(server: &Server) {
    for (path, expected) in ANSWERS {
        let reply = get(&server.url(path)).await;
        assert_eq!(reply.status, StatusCode::OK, "{path}: {}", reply.text());
        assert_eq!(ids(&reply), *expected, "{path}");
    }
}

/// After a migration, a request's order was put at another place of the statement: a syntax error, or
/// another statement.
#[tokio::test]
async fn requests_sort_before_the_limit_after_a_column_was_altered() {
    let db = TestDb::new().await;
    db.execute(TABLE).await;
    let server = server(&db.url()).await;
    assert_eq!(ids(&get(&server.url("/all?order=id.desc&limit=2")).await), [5, 4]);
    db.execute("alter table sale alter column amount type bigint").await;
    let mut refused = 0;
    wait_until("the columns are known", async || {
        let reply = get(&server.url("/all?order=id.desc&limit=2")).await;
        if reply.status != StatusCode::OK {
            assert_eq!(reply.json()["code"], "statement_changed", "{}", reply.text());
            refused += 1;
        }
        reply.status == StatusCode::OK
    })
    .await;
    assert!(refused > 0, "no request found the change, so this is no test");
    has_answers(&server).await;
}

async fn one_row_and_pages(server: &Server) {
    const ONE: &str = "application/vnd.pgrst.object+json";
    let row = ask(server, "/all?least=4&order=amount", ONE).await;
    assert_eq!(row.json()["id"], 5, "{}", row.text());
    for path in ["/all?order=id.desc", "/top?order=id.desc"] {
        let several = ask(server, path, ONE).await;
        assert_eq!((several.status.as_u16(), &several.json()["code"]), (406, &"PGRST116".into()), "{path}");
    }
    let page = ask(server, "/all?order=id.desc", "text/html").await;
    assert!(page.text().contains("aria-sort=\"descending\""), "{}", page.text());
    let plan = get(&server.url("/top?order=amount.desc&_explain=1")).await.json();
    let sql = plan["statements"][0]["sql"].as_str().unwrap().replace('`', "\"");
    assert!(sql.ends_with("-- the client's choice\n    \"amount\" desc, s.id * 2 desc limit 3"), "{sql}");
    let document = get(&server.url("/_rowstream/openapi.json")).await.json();
    let parameters = document["paths"]["/top"]["get"]["parameters"].to_string();
    assert!(parameters.contains("#/components/parameters/order"), "{parameters}");
    assert!(!parameters.contains("#/components/parameters/limit"), "{parameters}");
}

/// No name, direction or place of NULLs becomes SQL.
async fn nothing_leaves_the_order(server: &Server) {
    for text in HOSTILE.iter().chain(&["id", "1", "id desc", "id.desc, (select 1)", "/*sort*/"]) {
        for query in [
            format!("order={text}"),
            format!("order=\"{}\".desc", text.replace('\\', "\\\\").replace('"', "\\\"")),
            format!("order=name.{text}"),
            format!("order=name.desc.{text}"),
            format!("order=name,{text}"),
            format!("limit={text}"),
            format!("offset={text}"),
        ] {
            let reply = get(&server.url(&format!("/top?{}", encoded(&query)))).await;
            assert_eq!(reply.status, StatusCode::BAD_REQUEST, "{query}: {}", reply.text());
        }
    }
}

#[tokio::test]
async fn requests_sort_before_the_limit_of_postgres() {
    let db = TestDb::new().await;
    db.execute(TABLE).await;
    sorts_before_the_limit(&db.url(), true).await;
}

/// MariaDB would look for the column of an expression, `amount is null`, in the table.
#[tokio::test]
async fn requests_sort_before_the_limit_of_mariadb() {
    sorts_before_the_limit(&MariaDb::new(TABLE).url(), false).await;
}

#[tokio::test]
async fn requests_sort_before_the_limit_of_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("test.db");
    rusqlite::Connection::open(&file).unwrap().execute_batch(TABLE).unwrap();
    sorts_before_the_limit(&format!("sqlite:{}", file.display()), true).await;
}

/// A column that is called like a clause doesn't end the order.
#[tokio::test]
async fn columns_of_sqlite_have_names_of_clauses() {
    const CLAUSES: &str = "/*\nsort = true\nfilter = false\nselect = false\ntotal = false\n*/
        select id, amount as offset, name as \"limit\" from sale order by /*sort*/ offset, \"limit\"";
    let config = "[source.db]\nurl = \"sqlite:t.db\"\ncreate = [\"t.sql\"]\n";
    let files = [("rowstream.toml", config), ("t.sql", TABLE), ("endpoints/clauses.sql", CLAUSES)];
    let server = Server::start(&files).await;
    for (path, expected) in [
        ("/clauses", [3, 2, 5, 1, 4].as_slice()),
        ("/clauses?limit=2&offset=1", &[2, 5]),
        ("/clauses?order=id.desc&limit=1", &[5]),
    ] {
        assert_eq!(ids(&get(&server.url(path)).await), expected, "{path}");
    }
}

/// A lock at the end of the statement is behind its limit.
#[tokio::test]
async fn nothing_is_added_behind_a_lock_of_mariadb() {
    const LOCKED: &str = "/*\nsort = true\n*/
        select id, name from sale order by /*sort*/ id lock in share mode";
    let db = MariaDb::new(TABLE);
    let config = format!("[source.db]\nurl = \"{}\"\n", db.url());
    let server = Server::start(&[("rowstream.toml", &*config), ("endpoints/locked.sql", LOCKED)]).await;
    assert_eq!(ids(&get(&server.url("/locked?order=id.desc")).await), [5, 4, 3, 2, 1]);
    let reply = get(&server.url("/locked?limit=2")).await;
    assert_eq!(reply.status, StatusCode::BAD_REQUEST, "{}", reply.text());
    assert!(reply.text().contains("a limit of its own"), "{}", reply.text());
}

/// `distinct on` needs its own order, so no column can precede it.
#[tokio::test]
async fn orders_that_postgres_refuses_are_refused() {
    const DISTINCT: &str = "/*\nsort = [\"amount\", \"name\"]\n*/
        select distinct on (amount) id, amount, name from sale order by /*sort*/ amount";
    let db = TestDb::new().await;
    db.execute(TABLE).await;
    let config = format!("[source.db]\nurl = \"{}\"\n", db.url());
    let sorted = DISTINCT.replace(", \"name\"]", "]");
    let server = Server::start(&[("rowstream.toml", &*config), ("endpoints/distinct.sql", &*sorted)]).await;
    assert_eq!(get(&server.url("/distinct?order=amount.desc")).await.status, StatusCode::OK);
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("endpoints")).unwrap();
    std::fs::write(folder.path().join("rowstream.toml"), config).unwrap();
    std::fs::write(folder.path().join("endpoints/a.sql"), DISTINCT).unwrap();
    let ran = rowstream(&["check", folder.path().to_str().unwrap()]).await;
    let errors = String::from_utf8_lossy(&ran.stderr);
    for part in ["can't sort by `name`", "DISTINCT ON", "leave the column out of `sort`"] {
        assert!(errors.contains(part), "{part}: {errors}");
    }
}

/// Settings and a statement, and the parts of an error.
const WRONG: &[(&str, &str, [&str; 2])] = &[
    (
        "",
        "select id from sale order by /*sort*/ id",
        ["this endpoint has no `sort`", "or remove the comment"],
    ),
    (
        "sort = true\nkey = [\"id\"]",
        "select id from sale order by /*sort*/ id",
        ["`/*sort*/` can't be combined with a `key`", "a request's order precedes the key"],
    ),
    (
        "sort = true\nfilter = true",
        "select id from sale order by /*sort*/ id",
        ["can't be combined with `filter`, `select` and `total`", "name the order in a `key`"],
    ),
    (
        "sort = true",
        "select * from (select id from sale order by /*sort*/ id limit 2) as s",
        ["`/*sort*/` isn't directly after an `order by` outside of brackets", "order by /*sort*/ id"],
    ),
    (
        "sort = true",
        "select id from sale order by /*sort*/ limit 2",
        ["`order by /*sort*/` has no order of its own", "the order that all requests have"],
    ),
    ("sort = true", "select id from sale order by /*sort*/ /*sort*/ id", ["there are two", "remove one"]),
    ("sort = true", "select id from sale order by /*SORT*/ id", ["looks like the place", "in lower case"]),
    (
        "sort = true",
        "-- name: a :many\nselect id from sale order by /*sort*/ id;\n-- name: b :many nested in a on id = id\nselect id from sale order by id",
        ["for an endpoint with one list", "write an endpoint for that list alone"],
    ),
    (
        "sort = [\"id\"]",
        "select s.id, s.name from sale as s join sale as t on t.id = s.id order by /*sort*/ s.id",
        ["the database can't sort by `id`, which `sort` allows: ambiguous column name", "a name of its own"],
    ),
    (
        "sort = [\"id\", \"name\"]",
        "select t.id as id, s.name from sale as s join sale as t on t.id = s.id order by /*sort*/ s.id",
        ["the database can't sort by `name`, which `sort` allows: ambiguous", "a name of its own"],
    ),
    (
        "sort = true",
        "select t.id as id, +s.amount from sale as s join sale as t on t.id = s.id order by /*sort*/ s.id",
        ["the database can't sort by `+s.amount`, which `sort` allows: no such column", "a name of its own"],
    ),
    ("sort = false", "select id from sale order by /*sort*/ id", ["this endpoint has no `sort`", ""]),
    ("sort = []", "select id from sale order by /*sort*/ id", ["this endpoint has no `sort`", ""]),
    (
        "sort = true\ntotal = true",
        "select id from sale order by /*sort*/ id",
        ["can't be combined with `filter`, `select` and `total`", ""],
    ),
    (
        "sort = [\"text\"]",
        "select id from sale order by /*sort*/ id",
        ["`text` isn't a column of the result", ""],
    ),
];

#[tokio::test]
async fn places_without_a_meaning_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let connection = rusqlite::Connection::open(folder.path().join("test.db")).unwrap();
    connection.execute_batch(TABLE).unwrap();
    std::fs::create_dir(folder.path().join("endpoints")).unwrap();
    std::fs::write(folder.path().join("rowstream.toml"), "[source.db]\nurl = \"sqlite:test.db\"\n").unwrap();
    for (settings, sql, parts) in WRONG {
        std::fs::write(folder.path().join("endpoints/a.sql"), format!("/*\n{settings}\n*/\n{sql}")).unwrap();
        let ran = rowstream(&["check", folder.path().to_str().unwrap()]).await;
        let errors = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(ran.status.code(), Some(1), "{settings} {sql}: {errors}");
        assert!(parts.iter().all(|part| errors.contains(part)), "{settings} {sql}: {errors}");
    }
    std::fs::write(folder.path().join("endpoints/a.sql"), TOP).unwrap();
    let ran = rowstream(&["check", folder.path().to_str().unwrap(), "--explain", "/a?order=name"]).await;
    let shown = String::from_utf8_lossy(&ran.stdout);
    assert!(shown.contains("`name`, s.id * 2 desc limit 3"), "{shown}");
}
