//! PostgreSQL through a real PgBouncer in each of its modes. The rows are the same as without it,
//! shared connections are left clean, and statements are cancelled in the database.

#![expect(clippy::unwrap_used, reason = "the helpers of tests are tests, too")]

use crate::support::{Client, Ended, Launch, PgBouncer, Reply, Server, TestDb, get, rowstream, wait_until};
use tokio::task::JoinSet;
use tokio_postgres::{NoTls, SimpleQueryMessage};

const TABLES: &str = "
create table item as select i as id, 'item ' || i as name, i * 1.5 as price, timestamptz '2024-01-01' + i * interval '1 hour' as at,
    i * interval '1 day 2 hours' as span, i / 7.0::float8 as ratio, decode(to_hex(i + 4096), 'hex') as bytes, '<a/>'::xml as doc
    from generate_series(1, 20000) i;
create unique index on item (id);
create table part as select i / 2 as item_id, i as id from generate_series(2, 40001) i;
create type mood as enum ('sad', 'ok');
create table feeling as select 'ok'::mood as mood;
create function open_items(count int) returns refcursor language plpgsql stable as $$
    declare c refcursor; begin open c for select id, name from item where id <= count order by id; return c; end $$;
create table log (id bigint primary key, note text);
";

/// Lists, several statements with one snapshot, nested and interleaved ones, cursors, and a lookup.
const ENDPOINTS: &[(&str, &str)] = &[
    ("items", "/*\n[params]\nmost = { type = \"integer\", default = 20000 }\n*/\nselect * from item where id <= :most order by id"),
    (
        "both",
        "/* body = { items = \"$items\", mood = \"$mood\", n = \"$n\" } */
        -- name: items :many\nselect id, span from item where id < 500 order by id;
        -- name: mood :one\nselect mood, pg_current_snapshot()::text = pg_current_snapshot()::text as same from feeling;
        -- name: n :value\nselect count(*) from item",
    ),
    (
        "nested",
        "-- name: items :many\nselect id, name from item where id <= 1000 order by id;
        -- name: parts :many nested in items on item_id = id\nselect item_id, id from part where item_id <= 1000 order by item_id, id",
    ),
    ("cursor", "/*\n[params]\nmost = { type = \"integer\", default = 3000 }\n*/\nselect open_items(:most)"),
    ("item/{id}", "/*\nresult = \"one\"\n[params]\nid = \"integer\"\n*/\nselect id, name, span, bytes from item where id = :id"),
    // PostgreSQL first determines this parameter as text, so the statement is described twice.
    ("typed", "/*\n[params]\na = { type = \"integer\", default = 9 }\n*/\nselect :a > :a as greater, id from item where id < 3 order by id"),
    ("divided", "/*\n[params]\nby = { type = \"integer\", default = 0 }\n*/\nselect 1 / :by as n"),
    ("slow", "select generate_series(1, 1000000000) as i, repeat('x', 1000) as x, 'slow' as slow"),
    ("log", "/* key = [\"id\"]\nfollow = { commits = \"ordered\", channel = \"news\", poll = \"50ms\" }\nheartbeat = \"100ms\" */\nselect id, note from log order by id"),
];

async fn server(url: &str, settings: &str) -> Server {
    let config = format!(
        "write_timeout = \"1h\"\n[source.db]\nurl = \"{url}\"\npool = {{ max = 20, acquire_timeout = \"20s\" }}\n{settings}\n"
    );
    let endpoints = ENDPOINTS.iter().map(|(name, sql)| (format!("endpoints/{name}.sql"), *sql));
    let endpoints: Vec<_> = endpoints.collect();
    let mut files = vec![("rowstream.toml", &config[..])];
    files.extend(endpoints.iter().map(|(name, sql)| (&name[..], *sql)));
    Launch::files(&files).start().await
}

/// A database whose settings all differ from those that Rowstream reads values with.
async fn database() -> TestDb {
    let db = TestDb::new().await;
    db.execute(TABLES).await;
    for setting in [
        "intervalstyle = iso_8601",
        "timezone = 'Asia/Tokyo'",
        "datestyle = 'German'",
        "bytea_output = escape",
    ] {
        db.execute(&format!("alter database {} set {setting}", db.name())).await;
    }
    db
}

#[track_caller]
fn whole(reply: &Reply) -> &str {
    assert_eq!((reply.status.as_u16(), &reply.ended), (200, &Ended::Complete), "{}", reply.text());
    reply.text()
}

/// Waits until the slow endpoint's statement has ended.
async fn until_cancelled(db: &TestDb) {
    let client = db.client().await;
    let runs = "select count(*) from pg_stat_activity where datname = current_database()
        and query like '%as slow%' and query not like '%pg_stat_activity%' and state = 'active'";
    let count = async || client.query_one(runs, &[]).await.unwrap().get::<_, i64>(0);
    wait_until("the statement ends", async || count().await == 0).await;
}

/// The results of another program on each of the shared connections.
async fn finds(bouncer: &PgBouncer, db: &TestDb, sql: &str) -> Vec<Option<String>> {
    let (client, connection) = tokio_postgres::connect(&bouncer.url(db), NoTls).await.unwrap();
    tokio::spawn(async { drop(connection.await) });
    let mut found = Vec::new();
    for message in client.simple_query(sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}")) {
        if let SimpleQueryMessage::Row(row) = message {
            found.extend((0..row.len()).map(|column| row.get(column).map(str::to_owned)));
        }
    }
    found
}

/// Checks that the responses are the same as without it. There are more concurrent requests than
/// connections. Each is sent twice, so that a cached statement runs on any connection.
async fn answers_are_the_same(mode: &str, settings: &str) {
    let db = database().await;
    let direct = server(&db.url(), "").await;
    // In session mode, each of our connections holds one of PgBouncer's, even while it's idle.
    let bouncer = PgBouncer::start(mode, if mode == "session" { 24 } else { 6 }).await;
    let pooled = server(&bouncer.url(&db), settings).await;
    let paths = [
        "items",
        "items?most=7",
        "both",
        "nested",
        "cursor",
        "cursor?most=0",
        "item/7",
        "item/9",
        "typed",
        "items.csv",
    ];
    for _ in 0..2 {
        let mut asked = JoinSet::new();
        for path in paths {
            let (direct, pooled) = (direct.url(&format!("/{path}")), pooled.url(&format!("/{path}")));
            asked.spawn(async move {
                let (expected, came) = (get(&direct).await, get(&pooled).await);
                assert_eq!(whole(&expected), whole(&came), "{pooled}");
            });
        }
        asked.join_all().await;
    }
    assert_eq!(get(&pooled.url("/item/0")).await.status, 404);
    let divided = get(&pooled.url("/divided")).await;
    assert_eq!(divided.status, 500, "{}", divided.text());
    assert_eq!(whole(&get(&pooled.url("/divided?by=1")).await), "[{\"n\":1}]");
}

#[tokio::test]
async fn in_transaction_mode_answers_are_the_same() {
    answers_are_the_same("transaction", "").await;
}

#[tokio::test]
async fn in_session_mode_answers_are_the_same() {
    answers_are_the_same("session", "").await;
    answers_are_the_same("session", "pooler = \"session\"").await;
}

#[tokio::test]
async fn rows_in_portions() {
    answers_are_the_same("transaction", "fetch_rows = 100").await;
}

#[tokio::test]
async fn a_connection_serves_many_lookups_and_is_left_as_it_was() {
    let db = database().await;
    let bouncer = PgBouncer::start("transaction", 1).await;
    let server = server(&bouncer.url(&db), "").await;
    let mut asked = JoinSet::new();
    for id in 1..=100 {
        let url = server.url(&format!("/item/{id}"));
        asked.spawn(async move { whole(&get(&url).await).contains(&format!("\"id\":{id},")) });
    }
    assert!(asked.join_all().await.into_iter().all(|right| right));
    let left = "show default_transaction_read_only; show intervalstyle; show statement_timeout; select count(*) from pg_prepared_statements";
    let left = finds(&bouncer, &db, left).await;
    assert_eq!(left, ["off", "iso_8601", "0", "0"].map(|value| Some(value.to_owned())));
    finds(&bouncer, &db, "insert into log values (1, 'written by another')").await;
}

#[tokio::test]
async fn who_leaves_cancels_the_statement() {
    let db = database().await;
    for mode in ["transaction", "session"] {
        // One connection for each stream and one for the lookup. On a busy machine, the next stream
        // may arrive before the last connection is free. In session mode, PgBouncer then has no
        // other connection for it.
        let bouncer = PgBouncer::start(mode, 5).await;
        let server = server(&bouncer.url(&db), "").await;
        for _ in 0..4 {
            let mut stream = Client::HTTP1.stream(&server.url("/slow.ndjson")).await;
            stream.at_least(100_000).await;
            drop(stream);
            until_cancelled(&db).await;
        }
        assert!(whole(&get(&server.url("/item/7")).await).contains("item 7"), "{mode}");
    }
}

#[tokio::test]
async fn rows_are_followed_without_listening() {
    let db = database().await;
    let bouncer = PgBouncer::start("transaction", 2).await;
    let server = server(&bouncer.url(&db), "").await;
    let mut stream = Client::HTTP1.stream(&server.url("/log.ndjson?_follow=1")).await;
    let mut read = Vec::new();
    for id in 1..=3 {
        db.execute(&format!("insert into log values ({id}, 'new')")).await;
        let row = format!("{{\"id\":{id},\"note\":\"new\"}}\n");
        while !String::from_utf8_lossy(&read).contains(&row) {
            read.extend_from_slice(&stream.chunk().await.unwrap());
        }
    }
    drop(stream);
    assert_eq!(
        finds(&bouncer, &db, "select count(*) from pg_listening_channels()").await,
        [Some("0".to_owned())]
    );
}

#[tokio::test]
async fn a_migration_between_two_requests() {
    let db = database().await;
    let bouncer = PgBouncer::start("transaction", 1).await;
    let server = server(&bouncer.url(&db), "").await;
    assert!(whole(&get(&server.url("/items?most=1")).await).contains("\"price\":1.5,"));
    db.execute("alter table item alter column price type text using 'about ' || price, drop column at").await;
    let changed = get(&server.url("/items?most=1")).await;
    assert!(whole(&changed).contains("\"price\":\"about 1.5\",\"span\":"), "{}", changed.text());
}

/// Unsupported settings have an error with a solution.
#[tokio::test]
async fn what_cannot_work_says_what_to_do() {
    let db = database().await;
    let check = |url: String, settings: &'static str| async move {
        let folder = tempfile::tempdir().unwrap();
        let config = format!("[source.db]\nurl = \"{url}\"\n{settings}\n");
        std::fs::write(folder.path().join("rowstream.toml"), config).unwrap();
        std::fs::create_dir(folder.path().join("endpoints")).unwrap();
        std::fs::write(folder.path().join("endpoints/one.sql"), "select 1 as one").unwrap();
        let checked = rowstream(&["check", folder.path().to_str().unwrap()]).await;
        assert_eq!(checked.status.code(), Some(1));
        String::from_utf8(checked.stderr).unwrap()
    };
    let statements = PgBouncer::start("statement", 1).await;
    let refused = check(statements.url(&db), "").await;
    assert!(refused.contains("pool_mode = transaction"), "{refused}");
    let transactions = PgBouncer::start("transaction", 1).await;
    let refused = check(format!("{}&options=-c%20search_path%3Dx", transactions.url(&db)), "").await;
    assert!(refused.contains("alter role") && refused.contains("unsupported startup parameter"), "{refused}");
    let refused = check(transactions.url(&db).replace(db.name(), "nowhere"), "").await;
    assert!(refused.contains("database \"nowhere\" does not exist"), "{refused}");
    let refused = check(transactions.url(&db), "pooler = \"yes\"").await;
    assert!(refused.contains("write \"transaction\" or \"session\""), "{refused}");
}

/// A server with a single session, like embedded ones: each client finds the previous one's
/// statements. All clients used the same names for theirs, and readiness needed a connection in
/// addition to the pool.
#[tokio::test]
async fn a_server_of_one_session_is_served_by_a_pool_of_one() {
    let db = database().await;
    let bouncer = PgBouncer::start_with("session", 1, "server_reset_query =").await;
    let config = format!(
        "[source.db]\nurl = \"{}\"\npool = {{ max = 1 }}\npooler = \"session\"\n[admin]\npublic = [\"ready\"]\n",
        bouncer.url(&db)
    );
    let item = "/*\n[params]\nid = \"integer\"\n*/\nselect id, name from item where id = :id";
    let files = [
        ("rowstream.toml", config.as_str()),
        ("endpoints/item.sql", item),
        ("endpoints/items.sql", "select id from item where id < 4 order by id"),
    ];
    for _ in 0..2 {
        let mut server = Launch::files(&files).start().await;
        for id in 1..=3 {
            let reply = get(&server.url(&format!("/item?id={id}"))).await;
            assert_eq!(whole(&reply), format!("[{{\"id\":{id},\"name\":\"item {id}\"}}]"));
            let ready = get(&server.url("/_rowstream/ready")).await;
            assert_eq!(ready.status, 200, "{}", ready.text());
            assert_eq!(whole(&get(&server.url("/items")).await), "[{\"id\":1},{\"id\":2},{\"id\":3}]");
        }
        server.terminate();
        server.wait_exit().await;
    }
    let (url, sql) = (bouncer.url(&db), "select id from item where id = 7");
    for _ in 0..2 {
        let queried = rowstream(&["query", "--pooler", "session", &url, sql]).await;
        assert_eq!(String::from_utf8_lossy(&queried.stdout), "{\"id\":7}\n", "{queried:?}");
    }
}
