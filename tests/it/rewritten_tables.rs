//! PostgreSQL tables that are rewritten during a response: by `truncate` and `insert` in one
//! transaction, as in a nightly reload, by an `alter table`, or by another table that gets the
//! name.
//!
//! Responses were empty but complete. Their snapshot was taken before they waited for the table's
//! lock, and an earlier snapshot doesn't see the new rows (PostgreSQL manual, "Caveats" of
//! concurrency control).

use crate::support::logins::SCRAM;
use crate::support::{Client, Ended, Server, TestDb, get, wait_until};

const ROWS: &str = "insert into t select n, n % 7 from generate_series(1, 2000) n";

/// Ways to rewrite a table in a transaction.
const REWRITES: &[(&str, &str)] = &[
    ("truncate", "truncate t; insert into t select n, n % 7 from generate_series(1, 2000) n"),
    ("alter", "alter table t alter column v type bigint using v + 1"),
    (
        "rename",
        "create table u as select * from t; alter table u add primary key (id); drop table t; alter table u rename to t",
    ),
    (
        "partition",
        "truncate p1; insert into p1 select n, n % 7 from generate_series(1, 999) n; truncate t;
         insert into t select n, n % 7 from generate_series(1, 2000) n",
    ),
];

const SEVERAL: &str = "/*\nbody = { rows = \"$rows\", n = \"$n\" }\n*/\n-- name: rows :many\nselect id from t order by id;\n\
    -- name: n :value\nselect count(*) from t";
const NESTED: &str = "-- name: ts :many\nselect id from t order by id;\n\
    -- name: us :many nested in ts on id = id\nselect id, v::bigint as v from t order by id";
const PARTITIONS: &str = "/*\nbody = { rows = \"$rows\", n = \"$n\" }\n*/\n-- name: rows :many\nselect id from p order by id;\n\
    -- name: n :value\nselect count(*) from p";
/// A function that becomes a part of its statement.
const FUNCTIONS: &str = "/*\nbody = { rows = \"$rows\", n = \"$n\" }\n[params]\nx = { type = \"integer\", optional = true }\n*/\n\
    -- name: rows :many\nselect id from all_t(:x) order by id;\n-- name: n :value\nselect count(*) from all_t(1)";
/// The same, beside a statement that can't be planned by itself: NULL isn't a value of its parameter.
/// Its error released the locks of the function.
const UNPLANNED: &str = "/*\nbody = { rows = \"$rows\", n = \"$n\" }\n[params]\n\
    x = { type = \"integer\", optional = true }\ny = { type = \"integer\", default = 2000 }\n*/\n\
    -- name: rows :many\nselect id from all_t(:x) order by id;\n-- name: n :value\nselect same(:y)";
const ENDPOINTS: &[(&str, &str)] = &[
    ("list", "select id from t order by id"),
    (
        "keyed",
        "/*\nkey = [\"id\"]\n[params]\nn = { type = \"integer\", optional = true }\n*/\nselect id from t order by id limit :n",
    ),
    ("several", SEVERAL),
    ("nested", NESTED),
    ("partitions", PARTITIONS),
    ("functions", FUNCTIONS),
    ("unplanned", UNPLANNED),
    ("cursor", "-- name: opener :refcursors\nselect open_t() as rows;\n-- name: rows :many from opener\n"),
];

async fn database() -> TestDb {
    let db = TestDb::new().await;
    db.execute(&format!(
        "create table t (id int primary key, v int); {ROWS};
         create table p (id int, v int) partition by range (id);
         create table p1 partition of p for values from (0) to (1000);
         create table p2 partition of p for values from (1000) to (3000);
         insert into p select * from t;
         create function all_t(x int) returns table (id int) language sql stable as
             'select id from t where x is null or id > 0';
         create domain needed as int check (value is not null);
         create function same(y needed) returns int language sql stable as 'select y';
         create function open_t() returns refcursor language plpgsql stable as $$
             declare c refcursor; begin open c for select id from t order by id; return c; end $$"
    ))
    .await;
    db
}

/// The number of objects with an `id` in a response: 2,000, and as many nested ones.
fn ids(text: &str) -> usize {
    text.matches("\"id\":").count()
}

async fn answers_have_all_rows(settings: &str) {
    let db = database().await;
    let config = format!("[source.main]\nurl = \"{}\"\n{settings}", db.url());
    let names: Vec<_> = ENDPOINTS.iter().map(|(name, _)| format!("endpoints/{name}.sql")).collect();
    let mut files = vec![("rowstream.toml", config.as_str())];
    files.extend(names.iter().zip(ENDPOINTS).map(|(name, (_, sql))| (name.as_str(), *sql)));
    let server = Server::start(&files).await;
    let mut writer = db.client().await;
    for (rewrite, sql) in REWRITES {
        // Behind a pooler, functions lock their tables later.
        let is_served =
            |name: &&str| !["functions", "unplanned"].contains(name) || !settings.contains("pooler");
        let paths = ENDPOINTS.iter().map(|(name, _)| *name).filter(is_served).map(|name| format!("/{name}"));
        for path in paths {
            let case = format!("{rewrite} {path} {settings}");
            // Its connection may have prepared the statements. The first time, it hasn't.
            for _ in 0..2 {
                let transaction = writer.transaction().await.expect("a transaction");
                transaction.batch_execute(sql).await.expect("it is rewritten");
                let url = server.url(&path);
                let asked = tokio::spawn(async move { get(&url).await });
                let reads_it = path != "/partitions" || *rewrite == "partition";
                if reads_it {
                    until_one_waits(&db).await;
                }
                transaction.commit().await.expect("a commit");
                let reply = asked.await.expect("a reply");
                assert_eq!(
                    (reply.status.as_u16(), &reply.ended),
                    (200, &Ended::Complete),
                    "{case}: {}",
                    reply.text()
                );
                let expected = if path == "/nested" { 4000 } else { 2000 };
                assert_eq!(ids(reply.text()), expected, "{case}");
                if reply.text().contains("\"n\":") {
                    assert!(reply.text().ends_with("\"n\":2000}"), "{case}");
                }
            }
        }
    }
}

#[tokio::test]
async fn answers_have_all_rows_of_a_table_that_is_rewritten() {
    answers_have_all_rows("").await;
}

#[tokio::test]
async fn in_portions_too() {
    answers_have_all_rows("fetch_rows = 100\n").await;
}

#[tokio::test]
async fn in_a_transaction_each_too() {
    answers_have_all_rows("pooler = \"transaction\"\n").await;
}

/// A user who may select only one column, and so can't lock the table.
#[tokio::test]
async fn a_user_of_some_columns_needs_no_right_to_lock() {
    let db = database().await;
    db.execute(&format!("grant select (id) on t, p to {}", SCRAM.user)).await;
    let config = format!("[source.main]\nurl = \"{}\"\n", db.url_of(&SCRAM, "sslmode=disable"));
    let files = [
        ("rowstream.toml", config.as_str()),
        ("endpoints/several.sql", SEVERAL),
        ("endpoints/partitions.sql", PARTITIONS),
    ];
    let server = Server::start(&files).await;
    assert_eq!(ids(get(&server.url("/partitions")).await.text()), 2000);
    let mut writer = db.client().await;
    let transaction = writer.transaction().await.expect("a transaction");
    transaction.batch_execute(REWRITES[0].1).await.expect("it is rewritten");
    let url = server.url("/several");
    let asked = tokio::spawn(async move { get(&url).await });
    until_one_waits(&db).await;
    transaction.commit().await.expect("a commit");
    assert_eq!(ids(asked.await.expect("a reply").text()), 2000);
}

/// Waits until a statement waits for a lock.
async fn until_one_waits(db: &TestDb) {
    let sql = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'";
    let watcher = db.client().await;
    wait_until("the response waits for a lock", async || {
        watcher.query_one(sql, &[]).await.expect("a count").get::<_, i64>(0) > 0
    })
    .await;
}

/// From its first row on, a response prevents the tables of its later statements from being
/// rewritten.
#[tokio::test]
async fn a_response_has_the_locks_of_all_its_statements() {
    let db = database().await;
    db.execute("create table late as select n as id from generate_series(1, 2000) n").await;
    let config = format!("[source.main]\nurl = \"{}\"\n", db.url());
    let list = "/*\nbody = { rows = \"$rows\", n = \"$n\" }\n*/\n\
        -- name: rows :many\nselect n, repeat('x', 1000) as x from generate_series(1, 100000) n;\n\
        -- name: n :value\nselect count(*) from late";
    let server = Server::start(&[("rowstream.toml", &config), ("endpoints/slow.sql", list)]).await;
    let mut stream = Client::HTTP1.stream(&server.url("/slow")).await;
    stream.at_least(100_000).await;
    let writer = db.client().await;
    let refused = writer.batch_execute("set lock_timeout = '50ms'; truncate late").await;
    let code = refused.expect_err("it is locked").code().map(|code| code.code().to_owned());
    assert_eq!(code.as_deref(), Some("55P03"));
    drop(stream);
    db.until_none_active().await;
    writer.batch_execute("set lock_timeout = 0; truncate late").await.expect("the lock is given up");
}

/// `lock_timeout` ends the wait, with an error that says so.
#[tokio::test]
async fn the_wait_for_a_lock_ends_by_lock_timeout() {
    let db = database().await;
    let config = format!("[source.main]\nurl = \"{}&options=-c%20lock_timeout=100ms\"\n", db.url());
    let server = Server::start(&[("rowstream.toml", &config), ("endpoints/several.sql", SEVERAL)]).await;
    let mut writer = db.client().await;
    let transaction = writer.transaction().await.expect("a transaction");
    transaction.batch_execute("truncate t").await.expect("it is locked");
    let reply = get(&server.url("/several")).await;
    assert_eq!((reply.status.as_u16(), &reply.json()["code"]), (503, &"source_unavailable".into()));
    transaction.rollback().await.expect("a rollback");
    assert_eq!(ids(get(&server.url("/several")).await.text()), 2000);
}
