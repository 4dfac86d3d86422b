//! Rows of one table that several PostgreSQL connections read from one snapshot.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::{Client, Ended, Reply, Server, TestDb, get, pg_port, rowstream, wait, wait_until};
use arrow_ipc::reader::StreamReader;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// An endpoint with a table large enough for three parts.
const PARALLEL: &str = "/*\nparallel = 3\n*/\nselect * from event";
/// Some 27 MB: more than all sockets between the database and a client can buffer.
const LARGE: &str = "create table event as
    select n as id, repeat('x', 100) as t, 0 as moved, now() as at from generate_series(1, 200000) n";
/// Some 100 pages.
pub(crate) const SMALL: &str = "create table event as
    select n as id, repeat('x', 100) as t, 0 as moved, now() as at from generate_series(1, 6000) n";

pub(crate) async fn server(db: &TestDb, pool: usize, endpoints: &[(&str, &str)]) -> Server {
    let config =
        format!("write_timeout = \"1h\"\n[source.db]\nurl = \"{}\"\npool = {{ max = {pool} }}\n", db.url());
    let names: Vec<_> = endpoints.iter().map(|(name, _)| format!("endpoints/{name}.sql")).collect();
    let files = names.iter().zip(endpoints).map(|(name, (_, sql))| (name.as_str(), *sql));
    Server::start(&[("rowstream.toml", config.as_str())].into_iter().chain(files).collect::<Vec<_>>()).await
}

/// The lines in sorted order.
pub(crate) fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<_> = text.lines().collect();
    lines.sort_unstable();
    lines
}

fn parts(reply: &Reply) -> Option<&str> {
    reply.header("rowstream-parts")
}

/// Waits until a query returns `true`.
pub(crate) async fn until(db: &TestDb, sql: &str) {
    let client = db.client().await;
    wait_until(sql, async || client.query_one(sql, &[]).await.unwrap().get::<_, bool>(0)).await;
}

/// A transaction that waits for an exclusive lock on the table `event`.
pub(crate) struct LocksAlone(JoinHandle<()>);

impl LocksAlone {
    /// Starts to wait, while another transaction reads the table.
    pub(crate) async fn begin(db: &TestDb) -> Self {
        let client = db.client().await;
        let locks = tokio::spawn(async move {
            client.batch_execute("begin; lock table event in access exclusive mode; rollback").await.unwrap();
        });
        let waits = "select exists (select from pg_locks where relation = 'event'::regclass and not granted)";
        until(db, waits).await;
        Self(locks)
    }

    /// Waits until it got the lock.
    pub(crate) async fn end(self) {
        wait("the lock of the table", self.0).await.unwrap();
    }
}

/// Writes until `stop` is set, and returns the number of transactions. Each one keeps the rows 1 to
/// 6000 and the sum 0 of `moved`.
pub(crate) fn write_on(db: &TestDb, seed: i32, stop: &Arc<AtomicBool>) -> JoinHandle<i32> {
    let (url, stop) = (db.url(), Arc::clone(stop));
    tokio::spawn(async move {
        let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        let mut at = seed;
        while !stop.load(Ordering::Relaxed) {
            let (from, to) = (at % 5000 + 1, (at * 7 + 13) % 5000 + 1);
            client
                .batch_execute(&format!(
                    "begin;
                     update event set moved = moved - 1 where id = {from};
                     update event set moved = moved + 1 where id = {to};
                     delete from event where id = 5900;
                     insert into event values (5900, repeat('y', {}), 0, now());
                     commit",
                    at % 200
                ))
                .await
                .ok();
            at += 1;
        }
        at - seed
    })
}

/// Checks that the rows of these responses are one state that [`write_on`] left.
pub(crate) fn assert_is_one_state(replies: &[Reply]) {
    let (mut ids, mut sum) = (Vec::new(), 0);
    for reply in replies {
        assert_eq!((reply.status.as_u16(), &reply.ended), (200, &Ended::Complete), "{}", reply.text());
        for row in reply.json().as_array().unwrap() {
            ids.push(row["id"].as_i64().unwrap());
            sum += row["moved"].as_i64().unwrap();
        }
    }
    ids.sort_unstable();
    assert!(ids.into_iter().eq(1..=6000), "each row once");
    assert_eq!(sum, 0);
}

#[tokio::test]
async fn the_parts_are_the_whole_in_every_format() {
    let db = TestDb::new().await;
    db.execute(SMALL).await;
    // Creates holes, dead versions, and rows that have moved to other pages.
    db.execute("delete from event where id % 7 = 0; update event set moved = 1 where id % 3 = 0").await;
    let filtered = "/*\nparallel = 3\n[params]\nleast = \"integer\"\n*/
        select id, e.at from event as e where id >= :least -- all of them
        or id is distinct from id";
    let body = "/*\nparallel = 3\nbody = { rows = \"$rows\", n = \"$count\" }\n*/\nselect id from event";
    let server = server(
        &db,
        5,
        &[("p", PARALLEL), ("whole", "select * from event"), ("filtered", filtered), ("body", body)],
    )
    .await;
    for format in ["ndjson", "csv"] {
        let (part, whole) = (
            get(&server.url(&format!("/p.{format}"))).await,
            get(&server.url(&format!("/whole.{format}"))).await,
        );
        assert_eq!((&part.ended, parts(&part), parts(&whole)), (&Ended::Complete, Some("3"), None));
        assert_eq!(sorted(part.text()), sorted(whole.text()), "{format}");
    }
    let ids = |reply: Reply| {
        assert_eq!((&reply.ended, parts(&reply)), (&Ended::Complete, Some("3")));
        let json = reply.json();
        let rows = json.get("rows").unwrap_or(&json).as_array().unwrap().clone();
        let mut ids: Vec<_> = rows.iter().map(|row| row["id"].as_i64().unwrap()).collect();
        ids.sort_unstable();
        (ids, json)
    };
    let all: Vec<_> = (1..=6000).filter(|id| id % 7 != 0).collect();
    assert_eq!(ids(get(&server.url("/p.json")).await).0, all);
    assert_eq!(ids(get(&server.url("/filtered?least=1")).await).0, all);
    let (of_body, json) = ids(get(&server.url("/body")).await);
    assert_eq!((of_body, json["n"].as_u64()), (all.clone(), Some(all.len() as u64)));
    let arrow = get(&server.url("/p.arrow")).await;
    let batches = StreamReader::try_new(&arrow.body[..], None).unwrap();
    assert_eq!(batches.map(|batch| batch.unwrap().num_rows()).sum::<usize>(), all.len());
    let framed = get(&server.url("/p.ndjson?_end=1")).await;
    let end: serde_json::Value = serde_json::from_str(framed.text().lines().last().unwrap()).unwrap();
    assert_eq!(end["end"]["rows"], all.len());
}

/// Each transaction keeps the number of rows and their sum, so each snapshot has them too.
#[tokio::test]
async fn the_parts_are_of_one_snapshot() {
    let db = TestDb::new().await;
    db.execute(SMALL).await;
    db.execute("alter table event add primary key (id)").await;
    let server = server(&db, 5, &[("p", PARALLEL)]).await;
    let stop = Arc::new(AtomicBool::new(false));
    let writers = [write_on(&db, 0, &stop), write_on(&db, 2500, &stop)];
    for _ in 0..15 {
        let reply = get(&server.url("/p")).await;
        assert_eq!(parts(&reply), Some("3"));
        assert_is_one_state(&[reply]);
    }
    stop.store(true, Ordering::Relaxed);
    for writer in writers {
        assert!(writer.await.unwrap() > 10, "it was written meanwhile");
    }
}

#[tokio::test]
async fn what_is_not_of_one_table_row_by_row_is_refused() {
    let db = TestDb::new().await;
    db.execute(
        "create table event (id int, count int); create table other (id int);
         create table parent (id int); create table child () inherits (parent);
         create table split (id int) partition by range (id);
         create view seen as select * from event;
         create materialized view held as select * from event;
         create aggregate joined(text) (sfunc = textcat, stype = text)",
    )
    .await;
    for (sql, why) in [
        ("select count(*) from event", "calls an aggregate"),
        ("select max(id) from event", "calls an aggregate"),
        ("select other.count from other", "calls an aggregate"),
        ("select (e).count from other e", "calls an aggregate"),
        ("select joined(id::text) from event", "calls an aggregate"),
        ("select \"joined\"(id::text) from event", "calls an aggregate"),
        ("select row_number() over () from event", "calls an aggregate"),
        ("select (select count(event.id) from other) from event", "calls an aggregate"),
        ("select distinct id from event", "it has `distinct`"),
        ("select id from event order by id", "it has `order`"),
        ("select id from event limit 3", "it has `limit`"),
        ("select id from event OFFSET 3", "it has `OFFSET`"),
        ("select id from event fetch first row only", "it has `fetch`"),
        ("select id from event group by id", "it has `group`"),
        ("select id from event where true having true", "it has `having`"),
        ("select id from event for update", "it has `for`"),
        ("select id from event window w as ()", "it has `window`"),
        ("select id from event union all select id from other", "it has `union`"),
        ("select id from event except select id from other", "it has `except`"),
        ("select event.id from event join other on true", "it has `join`"),
        ("select event.id from event, other", "more than the name of one table"),
        ("select id from (select * from event) e", "more than the name of one table"),
        ("select n from generate_series(1, 3) n", "more than the name of one table"),
        ("select id from event tablesample system (10)", "more than the name of one table"),
        ("select id from only event", "only ordinary tables"),
        ("select 1 as a", "it selects from no table"),
        ("select 1 is distinct from 2 as a", "it selects from no table"),
        ("with e as (select 1 as id) select id from e", "begins with `with`"),
        ("table event", "begins with `table`"),
        ("(select id from event)", "begins with `(`"),
        ("select id from seen", "only ordinary tables"),
        ("select id from held", "only ordinary tables"),
        ("select id from split", "only ordinary tables"),
        ("select * from current_user", "only ordinary tables"),
        ("select id from parent", "other tables inherit"),
        ("select id from nowhere", "does not exist"),
        ("select idd from event", "does not exist"),
    ] {
        let ran = rowstream(&["query", &db.url(), sql, "--parallel", "2"]).await;
        let said = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.code() == Some(1) && said.contains(why), "{sql}: {said}");
        assert!(said.contains("hint: ") || why == "does not exist", "{sql}: {said}");
        assert_eq!(ran.stdout, b"", "{sql}");
    }
    for (sql, rows) in [
        ("select id, count from event", 0),
        ("select e.count, id from event e where id in (select id from other)", 0),
        ("select ctid, tableoid, e from event as e where exists (select from other)", 0),
        ("select unnest(array[id, 1]) as n from only_one", 2),
        ("select id as \"from\" from public.\"only_one\";", 1),
    ] {
        db.execute("create table if not exists only_one as select 7 as id").await;
        let ran = rowstream(&["query", &db.url(), sql, "--parallel", "2"]).await;
        assert!(ran.status.success(), "{sql}: {}", String::from_utf8_lossy(&ran.stderr));
        assert_eq!(ran.stdout.split(|byte| *byte == b'\n').count() - 1, rows, "{sql}");
    }
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    let lite = format!("sqlite:{}", file.path().display());
    let lite = rowstream(&["query", &lite, "select 1 from t", "--parallel", "2"]).await;
    let said = String::from_utf8_lossy(&lite.stderr);
    assert!(said.contains("connections of SQLite can't read one snapshot together"), "{said}");
}

/// `check` and the start report the error at the place of the key.
#[tokio::test]
async fn an_endpoint_that_cannot_be_read_so_is_refused_with_its_place() {
    let db = TestDb::new().await;
    db.execute("create table event (id int primary key); create view seen as select * from event").await;
    for (keys, sql, why) in [
        ("key = [\"id\"]", "select id from event", "a cursor needs an order"),
        ("result = \"one\"", "select id from event", "has no list of rows"),
        (
            "",
            "-- name: a :many\nselect id from event;\n-- name: b :many\nselect id from event",
            "several statements",
        ),
        ("", "select id from event order by id", "it has `order`"),
        ("", "select id from seen", "only ordinary tables"),
    ] {
        let body = if sql.contains("name: b") { "body = { a = \"$a\", b = \"$b\" }\n" } else { "" };
        let endpoint = format!("/*\n{keys}\n{body}parallel = 2\n*/\n{sql}");
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("endpoints")).unwrap();
        std::fs::write(folder.path().join("endpoints/e.sql"), endpoint).unwrap();
        for (pool, why) in [(3, why), (1, "2 connections cannot read one response")] {
            let config = format!("[source.db]\nurl = \"{}\"\npool = {{ max = {pool} }}\n", db.url());
            std::fs::write(folder.path().join("rowstream.toml"), config).unwrap();
            let checked = rowstream(&["check", folder.path().join("rowstream.toml").to_str().unwrap()]).await;
            let said = String::from_utf8_lossy(&checked.stderr).into_owned()
                + &String::from_utf8_lossy(&checked.stdout);
            assert_eq!(checked.status.code(), Some(1), "{said}");
            assert!(
                said.contains(why) && said.contains("e.sql:") && said.contains("hint: "),
                "{why}: {said}"
            );
        }
    }
}

#[tokio::test]
async fn a_part_that_fails_fails_the_response_and_stops_the_others() {
    let db = TestDb::new().await;
    db.execute(LARGE).await;
    let server = server(&db, 5, &[("p", PARALLEL)]).await;
    for client in [Client::HTTP1, Client::H2C] {
        let mut stream = client.receive_buffer(64 * 1024).stream(&server.url("/p.ndjson?_end=1")).await;
        stream.at_least(10_000).await;
        let killed = db
            .client()
            .await
            .query_one(
                "select count(pg_terminate_backend(pid)) from (
                   select pid from pg_stat_activity
                   where datname = current_database() and query like '%ctid%' and pid <> pg_backend_pid()
                     and state = 'active' order by backend_start desc limit 1) a",
                &[],
            )
            .await
            .unwrap();
        assert_eq!(killed.get::<_, i64>(0), 1);
        let reply = stream.rest().await;
        assert!(matches!(reply.ended, Ended::Broken(_)), "{:?}", reply.ended);
        assert!(!reply.text().contains("\"end\":{"), "no record of the end");
        db.until_none_active().await;
    }
    let whole = get(&server.url("/p")).await;
    assert_eq!((&whole.ended, whole.json().as_array().unwrap().len()), (&Ended::Complete, 200_000));
}

/// One row fails: the error of a part becomes the response's error.
#[tokio::test]
async fn an_error_of_one_row_is_the_responses() {
    let db = TestDb::new().await;
    db.execute(SMALL).await;
    let fails = "/*\nparallel = 3\n*/\nselect 1 / (id - 5990) as n, t from event";
    let server = server(&db, 5, &[("fails", fails)]).await;
    let reply = get(&server.url("/fails.ndjson?_end=1")).await;
    assert!(matches!(reply.ended, Ended::Broken(_)) || reply.status == 500, "{reply:?}");
    db.until_none_active().await;
}

#[tokio::test]
async fn a_client_that_leaves_stops_all_parts() {
    let db = TestDb::new().await;
    db.execute(LARGE).await;
    let server = server(&db, 3, &[("p", PARALLEL)]).await;
    for client in [Client::HTTP1, Client::H2C] {
        let mut stream = client.receive_buffer(64 * 1024).stream(&server.url("/p.ndjson")).await;
        stream.at_least(10_000).await;
        drop(stream);
        db.until_none_active().await;
    }
    // All connections are free again.
    let reply = get(&server.url("/p.ndjson")).await;
    assert_eq!((parts(&reply), reply.ended.clone()), (Some("3"), Ended::Complete));
    assert_eq!(reply.text().lines().count(), 200_000);
}

#[tokio::test]
async fn a_busy_pool_gives_fewer_parts() {
    let db = TestDb::new().await;
    db.execute(LARGE).await;
    let slow = "select n, repeat('x', 100) as t from event, generate_series(1, 100) n";
    let server = server(&db, 3, &[("p", PARALLEL), ("slow", slow)]).await;
    let open = || async {
        let mut stream = Client::HTTP1.receive_buffer(64 * 1024).stream(&server.url("/slow.ndjson")).await;
        stream.at_least(1000).await;
        stream
    };
    let first = open().await;
    let reply = get(&server.url("/p.ndjson")).await;
    assert_eq!((parts(&reply), reply.text().lines().count()), (Some("2"), 200_000));
    let second = open().await;
    let reply = get(&server.url("/p.ndjson")).await;
    assert_eq!((parts(&reply), reply.text().lines().count()), (Some("1"), 200_000));
    drop((first, second));
    db.until_none_active().await;
    // Two requests that each want all connections don't deadlock.
    let url = server.url("/p.ndjson");
    let (one, other) = tokio::join!(get(&url), get(&url));
    for reply in [one, other] {
        assert_eq!((&reply.ended, reply.text().lines().count()), (&Ended::Complete, 200_000));
    }
}

#[tokio::test]
async fn small_tables_have_one_part() {
    let db = TestDb::new().await;
    db.execute("create table event (id int, t text, moved int, at timestamptz)").await;
    let server = server(&db, 5, &[("p", PARALLEL)]).await;
    let reply = get(&server.url("/p")).await;
    assert_eq!((reply.text(), parts(&reply)), ("[]", Some("1")));
    db.execute("insert into event select 1, 'a', 0").await;
    let reply = get(&server.url("/p.csv")).await;
    assert_eq!((reply.text(), parts(&reply)), ("id,t,moved,at\r\n1,a,0,\r\n", Some("1")));
    // The table gets another form, and is then rewritten.
    db.execute("alter table event drop column at").await;
    db.execute("vacuum full event").await;
    // Every connection with a prepared statement notices the change once, as usual.
    let mut reply = get(&server.url("/p")).await;
    while reply.text().contains("statement_changed") {
        reply = get(&server.url("/p")).await;
    }
    assert_eq!(reply.text(), r#"[{"id":1,"t":"a","moved":0}]"#);
    db.execute("alter table event rename to heap; create view event as select *, ctid from heap").await;
    let reply = get(&server.url("/p")).await;
    assert_eq!(reply.status, 500, "{reply:?}");
}

/// A port for PostgreSQL that accepts no new connections while it's closed.
async fn gate(mut open: watch::Receiver<bool>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            if open.wait_for(|open| *open).await.is_err() {
                return;
            }
            tokio::spawn(async move {
                let mut server = TcpStream::connect(("127.0.0.1", pg_port())).await.unwrap();
                tokio::io::copy_bidirectional(&mut client, &mut server).await.ok();
            });
        }
    });
    port
}

/// A transaction that waits for an exclusive lock waits for the first part, and the other parts
/// would wait for the transaction. So the first part reads the whole table.
#[tokio::test]
async fn parts_wait_for_nobody_who_waits_for_the_lock() {
    let db = TestDb::new().await;
    db.execute(SMALL).await;
    let (shut, open) = watch::channel(true);
    let port = gate(open).await;
    let url = db.url().replace(&format!(":{}/", pg_port()), &format!(":{port}/"));
    assert_ne!(url, db.url());
    let config = format!("[source.db]\nurl = \"{url}\"\npool = {{ max = 5 }}\n");
    let whole = ("endpoints/whole.sql", "select * from event");
    let files = [("rowstream.toml", config.as_str()), ("endpoints/p.sql", PARALLEL), whole];
    let server = Server::start(&files).await;
    // The pool has only this connection at that time.
    let reply = get(&server.url("/whole.csv")).await;
    let whole = sorted(reply.text());
    db.until_none_active().await;
    shut.send_replace(false);
    let url = server.url("/p.csv");
    let reading = tokio::spawn(async move { get(&url).await });
    until(&db, "select exists (select from pg_locks where relation = 'event'::regclass)").await;
    let locks = LocksAlone::begin(&db).await;
    shut.send_replace(true);
    let reply = wait("the answer", reading).await.unwrap();
    assert_eq!((&reply.ended, parts(&reply)), (&Ended::Complete, Some("1")));
    assert_eq!(sorted(reply.text()), whole);
    locks.end().await;
    // Without a waiting transaction there are three parts again.
    assert_eq!(parts(&get(&server.url("/p.csv")).await), Some("3"));
}
