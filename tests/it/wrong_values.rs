//! Values that a database can't use. If a request contains one, it's the client's error. If the
//! statement reads or computes it, it's the server's.

use serde_json::{Value, json};
use tokio::task::spawn_blocking;

use crate::support::drivers::duckdb;
use crate::support::{Launch, MariaDb, Server, TestDb, get};

/// A statement with a typed parameter, and optionally a default.
fn with(param: &str, sql: &str) -> String {
    format!("/*\n[params]\n{param}\n*/\n{sql}")
}

async fn server(url: &str, endpoints: &[(&str, String)]) -> Server {
    let config = format!("error_detail = \"database\"\n[source.db]\nurl = \"{url}\"\n");
    let names: Vec<_> = endpoints.iter().map(|(name, _)| format!("endpoints/{name}.sql")).collect();
    let files = names.iter().zip(endpoints).map(|(name, (_, sql))| (&**name, &**sql));
    let files: Vec<_> = [("rowstream.toml", &*config)].into_iter().chain(files).collect();
    Launch::files(&files).argument("--no-check").start().await
}

/// Checks the status and the code of each request.
async fn are(server: &Server, requests: &[(&str, u16, &str)]) {
    for &(path, status, code) in requests {
        let reply = get(&server.url(path)).await;
        let told = if reply.status == 200 { json!("") } else { reply.json()["code"].clone() };
        assert_eq!((reply.status.as_u16(), &told), (status, &json!(code)), "{path}: {}", reply.text());
    }
}

const OPTIONAL: &str = "q = { type = \"text\", optional = true }";

#[tokio::test]
async fn of_postgres() {
    let db = TestDb::new().await;
    db.execute(
        "create function raises() returns int language plpgsql as $$ begin raise 'no'; end $$;
         create function runs(t text) returns int language plpgsql as
            $$ begin execute 'selec ' || t; return 1; end $$",
    )
    .await;
    let endpoints = [
        ("computed", "select 1 / (n - 2) as x from generate_series(1, 3) n".to_owned()),
        ("late", "select 1 / (n - 200000) as x from generate_series(1, 200000) n".to_owned()),
        ("default", with("d = { type = \"integer\", default = 0 }", "select 1 / :d::int as x")),
        ("limit", with("n = \"integer\"", "select 1 as x limit :n")),
        ("search", with(OPTIONAL, "select to_tsvector('a') @@ to_tsquery('simple', :q) as x")),
        ("path", with(OPTIONAL, "select jsonb_path_exists('{}', :q::jsonpath) as x")),
        ("raises", "select raises() as x".to_owned()),
        ("runs", with(OPTIONAL, "select runs(:q) as x")),
    ];
    let server = server(&db.url(), &endpoints).await;
    let requests = [
        ("/computed", 500, "bad_value"),
        ("/default", 500, "bad_value"),
        ("/default?d=0", 400, "invalid_data"),
        ("/default?d=1", 200, ""),
        ("/limit?n=-1", 400, "invalid_data"),
        ("/search?q=a%20%26", 400, "invalid_data"),
        ("/search?q=a", 200, ""),
        ("/path?q=$.a%20=", 400, "invalid_data"),
        ("/raises", 400, "invalid_data"),
        ("/runs?q=1", 500, "statement_failed"),
    ];
    are(&server, &requests).await;
    let late = get(&server.url("/late.ndjson?_end=1")).await;
    let record: Value =
        late.text().lines().last().and_then(|line| serde_json::from_str(line).ok()).expect("a record");
    assert_eq!(
        (&record["error"]["code"], &record["error"]["sqlstate"]),
        (&json!("bad_value"), &json!("22012"))
    );
}

/// A type may have any SQLSTATE for a wrong text: these were a 500, or a 409 for the domain. A type name
/// with a syntax error made the server prepare all statements again, and its answer was a 503.
#[tokio::test]
async fn of_types_of_postgres_with_other_sqlstates() {
    let db = TestDb::new().await;
    db.execute(
        "create extension hstore; create domain even as int check (value % 2 = 0);
         create table t (h hstore); insert into t values ('a=>1')",
    )
    .await;
    // Since PostgreSQL 16, hstore has the SQLSTATE of a syntax error, also for texts that aren't arguments.
    let is_syntax = db.version().await >= 16;
    let stored = if is_syntax { "bad_value" } else { "statement_failed" };
    let computed = if is_syntax { (400, "invalid_data") } else { (500, "statement_failed") };
    let with_default = "d = { type = \"text\", default = \"x y\" }";
    let endpoints = [
        ("t", "/*\nfilter = true\n*/\nselect * from t".to_owned()),
        ("one", with(OPTIONAL, "select h from t where h = :q").replacen("/*", "/*\nresult = \"one\"", 1)),
        ("default", with(with_default, "select h from t where h = :d")),
        ("stored", "select (h::text || 'x y')::hstore as h from t".to_owned()),
        ("table", with(OPTIONAL, "select :q::regclass is null as x")),
        ("type", with(OPTIONAL, "select :q::regtype is null as x")),
        ("even", with(OPTIONAL, "select :q::even as x")),
        ("computed", with(OPTIONAL, "select (:q || 'x y')::hstore as h from t")),
    ];
    let server = server(&db.url(), &endpoints).await;
    let requests = [
        ("/t?h=eq.a%3D%3E1", 200, ""),
        ("/t?h=eq.x%20y", 400, "invalid_data"),
        ("/t?h=cs.x%20y", 400, "invalid_data"),
        ("/t?h=in.(x%20y)", 400, "invalid_data"),
        ("/one?q=a%3D%3E1", 200, ""),
        ("/one?q=x%20y", 400, "invalid_data"),
        ("/default", 500, "bad_value"),
        ("/default?d=x%20y", 400, "invalid_data"),
        ("/default?d=a%3D%3E1", 200, ""),
        ("/stored", 500, stored),
        ("/computed?q=1", computed.0, computed.1),
        ("/table?q=t", 200, ""),
        ("/table?q=missing", 400, "invalid_data"),
        ("/table?q=a.b.c", 400, "invalid_data"),
        ("/type?q=int", 200, ""),
        ("/type?q=missing", 400, "invalid_data"),
        ("/type?q=a%20b%20c", 400, "invalid_data"),
        ("/type?q=a%20b%20c", 400, "invalid_data"),
        ("/even?q=2", 200, ""),
        ("/even?q=3", 400, "invalid_data"),
    ];
    are(&server, &requests).await;
}

#[tokio::test]
async fn of_mariadb() {
    let tables = "create table d (t text, fulltext (t)) engine = innodb; insert into d values ('word');
        create table latin (t varchar(9) character set latin1); insert into latin values ('é')";
    let db = spawn_blocking(move || MariaDb::new(tables)).await.expect("a database");
    let endpoints = [
        ("computed", "select 9223372036854775807 + 1 as x".to_owned()),
        ("limit", with("n = \"integer\"", "select t from d limit :n")),
        ("search", with(OPTIONAL, "select t from d where match(t) against (:q in boolean mode)")),
        ("pattern", with(OPTIONAL, "select t from d where t regexp :q")),
        ("latin", with(OPTIONAL, "select t from latin where t = :q")),
    ];
    let server = server(&db.url(), &endpoints).await;
    let requests = [
        ("/latin?q=%C3%A9", 200, ""),
        ("/latin?q=%E6%97%A5", 400, "invalid_data"),
        ("/computed", 500, "bad_value"),
        ("/limit?n=-1", 400, "invalid_data"),
        ("/limit?n=1", 200, ""),
        ("/search?q=%2B-", 400, "invalid_data"),
        ("/search?q=word", 200, ""),
        ("/pattern?q=(", 400, "invalid_data"),
    ];
    are(&server, &requests).await;
}

#[tokio::test]
async fn of_sqlite() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("t.db");
    let db = rusqlite::Connection::open(&file).expect("a file");
    db.execute_batch(
        "create virtual table f using fts5 (t); insert into f values ('word'); create table t (n)",
    )
    .expect("tables");
    let endpoints = [
        ("computed", "select json_extract('{', '$') as x".to_owned()),
        ("search", with(OPTIONAL, "select t from f where f match :q")),
        ("limit", with("n = { type = \"integer\", optional = true }", "select n from t limit min(:n, 2)")),
    ];
    let server = server(&format!("sqlite:{}", file.display()), &endpoints).await;
    let requests = [
        ("/computed", 500, "bad_value"),
        ("/search?q=%22", 400, "invalid_data"),
        ("/search?q=name:word", 400, "invalid_data"),
        ("/search?q=word", 200, ""),
        ("/limit", 400, "invalid_data"),
        ("/limit?n=1", 200, ""),
    ];
    are(&server, &requests).await;
    db.execute_batch("drop table t").expect("it's dropped");
    are(&server, &[("/limit?n=1", 500, "statement_failed")]).await;
}

/// Its errors have no SQLSTATE, so a request's wrong value was a 500.
#[tokio::test]
async fn of_duckdb() {
    let endpoints = [
        ("computed", "select cast('x' || i as integer) as x from range(2) r(i)".to_owned()),
        ("cast", with(OPTIONAL, "select cast(:q as integer) as x")),
        ("pattern", with(OPTIONAL, "select regexp_matches('a', :q) as x")),
        ("sum", with("n = \"integer\"", "select 9223372036854775807::bigint + :n::bigint as x")),
    ];
    let config = "[source.db]\nurl = \"duckdb:\"\n".to_owned();
    let names: Vec<_> = endpoints.iter().map(|(name, _)| format!("endpoints/{name}.sql")).collect();
    let files = names.iter().zip(&endpoints).map(|(name, (_, sql))| (&**name, &**sql));
    let files: Vec<_> = [("rowstream.toml", &*config)].into_iter().chain(files).collect();
    let launch = Launch::files(&files).variable("ROWSTREAM_DUCKDB", &duckdb());
    let server = launch.argument("--no-check").start().await;
    let requests = [
        ("/computed", 500, "bad_value"),
        ("/cast?q=x", 400, "invalid_data"),
        ("/cast?q=1", 200, ""),
        ("/pattern?q=(", 400, "invalid_data"),
        ("/sum?n=1", 400, "invalid_data"),
        ("/sum?n=0", 200, ""),
    ];
    are(&server, &requests).await;
}

/// The request contained a value, but the invalid text is from the database.
#[tokio::test]
async fn a_text_in_another_encoding_names_its_column() {
    let db = TestDb::new().await;
    let name = format!("{}_ascii", db.name());
    db.execute(&format!(
        "create database {name} encoding 'SQL_ASCII' lc_collate 'C' lc_ctype 'C' template template0"
    ))
    .await;
    let url = db.url().replace(db.name(), &name);
    let (client, connection) =
        tokio_postgres::connect(&url, tokio_postgres::NoTls).await.expect("it's there");
    tokio::spawn(connection);
    let table = "create table t (id int primary key, n text); insert into t values (1, 'a'), (3, E'\\xe9')";
    client.batch_execute(table).await.expect("a table");
    let id = "id = \"integer\"";
    let endpoints = [
        ("list", "select id, n from t".to_owned()),
        ("from", with(id, "select id, n from t where id >= :id order by id")),
        (
            "one",
            format!("/*\nresult = \"one\"\n[params]\n{id}\n*/\nselect id, n, n as m from t where id = :id"),
        ),
    ];
    let server = server(&url, &endpoints).await;
    for (path, columns) in [("/list", "column `n`"), ("/from?id=2", "column `n`"), ("/one?id=3", "`n`, `m`")]
    {
        let problem = get(&server.url(path)).await.json();
        assert_eq!((&problem["status"], &problem["code"]), (&json!(500), &json!("bad_value")), "{problem}");
        let told =
            |member: &str, text: &str| problem[member].as_str().is_some_and(|said| said.contains(text));
        assert!(told("detail", columns) && told("hint", "convert_from"), "{problem}");
    }
}
