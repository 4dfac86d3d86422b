//! Lookups: many requests for one row each, which share a connection. What one of them meets must
//! never reach another.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use crate::support::{Ended, Reply, Server, TestDb, get};
use serde_json::{Value, json};
use tokio::task::JoinSet;

/// Room for all that these tests ask at a time.
const QUEUE: &str = "pool = { waiting = 400 }";

/// More than lookups take on any machine, and less than the slow statement here does.
const SOON: Duration = Duration::from_secs(5);

/// A server of one database, with an endpoint of one row for each statement.
async fn server(db: &TestDb, pool: &str, endpoints: &[(&str, &str)]) -> Server {
    let config = format!("[source.db]\nurl = \"{}\"\n{pool}\n", db.url());
    let file = |(name, sql): &(&str, &str)| {
        let text = if sql.contains(":t)") { "t = \"text\"\n" } else { "" };
        let head = format!("/*\nresult = \"one\"\n[params]\nid = \"integer\"\n{text}*/\n");
        (format!("endpoints/{name}/{{id}}.sql"), head + sql)
    };
    let files: Vec<_> = endpoints.iter().map(file).collect();
    let files = files.iter().map(|(name, sql)| (name.as_str(), sql.as_str()));
    Server::start(&[("rowstream.toml", config.as_str())].into_iter().chain(files).collect::<Vec<_>>()).await
}

/// All of `paths` at once, in their order.
async fn get_all(server: &Server, paths: impl IntoIterator<Item = String>) -> Vec<Reply> {
    let mut requests = JoinSet::new();
    for (index, path) in paths.into_iter().enumerate() {
        let url = server.url(&path);
        requests.spawn(async move { (index, get(&url).await) });
    }
    let mut replies = requests.join_all().await;
    replies.sort_by_key(|(index, _)| *index);
    replies.into_iter().map(|(_, reply)| reply).collect()
}

fn row(reply: &Reply) -> Value {
    assert_eq!((reply.status.as_u16(), &reply.ended), (200, &Ended::Complete), "{}", reply.text());
    reply.json()
}

/// The connections of the server, by what they ran last.
async fn connections(db: &TestDb) -> i64 {
    let client = db.client().await;
    let sql = "select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()";
    client.query_one(sql, &[]).await.unwrap().get(0)
}

/// A table of 1,000 rows whose text tells their number.
async fn table(db: &TestDb) {
    db.execute("create table t as select n, 'row ' || n as text from generate_series(1, 1000) n").await;
    db.execute("alter table t add primary key (n)").await;
}

const BY_KEY: &str =
    "select n, text, case when n % 3 = 0 then null else array[n, -n] end as list from t where n = :id";

fn by_key(n: usize) -> Value {
    let list = if n.is_multiple_of(3) { Value::Null } else { json!([n, -(n as i64)]) };
    json!({ "n": n, "text": format!("row {n}"), "list": list })
}

/// On a machine that is busy enough to keep PostgreSQL from answering for a while, lookups are sent
/// elsewhere, which is no error.
#[tokio::test]
async fn each_request_gets_its_own_row_over_few_connections() {
    let cores = std::thread::available_parallelism().unwrap().get() as i64;
    let mut took = Vec::new();
    while took.len() < 3 {
        let db = TestDb::new().await;
        took.push(rows_and_connections(&db).await);
        if took.iter().any(|&connections| connections <= cores + 1) {
            return;
        }
    }
    panic!("300 requests at a time took {took:?} connections");
}

async fn rows_and_connections(db: &TestDb) -> i64 {
    table(db).await;
    let server = server(db, QUEUE, &[("t", BY_KEY)]).await;
    // The statement is prepared, and told of, by the first request.
    assert_eq!(row(&get(&server.url("/t/1")).await), by_key(1));
    for _ in 0..3 {
        let replies = get_all(&server, (1..=300).map(|n| format!("/t/{n}"))).await;
        for (n, reply) in (1..).zip(&replies) {
            assert_eq!(row(reply), by_key(n));
        }
    }
    assert_eq!(get(&server.url("/t/1001")).await.status, 404);
    connections(db).await
}

/// Batches had collapsed: each reply woke a worker, which sent a batch of one.
#[tokio::test]
async fn what_is_asked_while_replies_are_awaited_goes_into_one_batch() {
    let db = TestDb::new().await;
    table(&db).await;
    let server = server(&db, QUEUE, &[("t", BY_KEY)]).await;
    // Which requests come while others wait is chance; that none ever does is not.
    for _ in 0..100 {
        let replies = get_all(&server, (1..=200).map(|n| format!("/t/{n}"))).await;
        assert!(replies.iter().all(|reply| reply.status == 200));
        let metrics = get(&server.url("/_rowstream/metrics")).await;
        let sample = |labels: &str| {
            let name = format!("rowstream_pool_batch_size_{labels} ");
            let line = metrics.text().lines().find_map(|line| line.strip_prefix(&name)).expect("a sample");
            line.parse::<f64>().expect("a number")
        };
        let (all, small) = (sample("count{source=\"db\"}"), sample("bucket{le=\"8.0\",source=\"db\"}"));
        assert!(sample("sum{source=\"db\"}") >= all);
        if small < all {
            return;
        }
    }
    panic!("no batch had more than eight lookups");
}

#[tokio::test]
async fn an_error_is_told_to_its_own_request_alone() {
    let db = TestDb::new().await;
    table(&db).await;
    let sql = "select n, 100 / (n % 10) as q from t where n = :id";
    let server = server(&db, QUEUE, &[("q", sql)]).await;
    row(&get(&server.url("/q/1")).await);
    for _ in 0..3 {
        let replies = get_all(&server, (1..=200).map(|n| format!("/q/{n}"))).await;
        for (n, reply) in (1..).zip(&replies) {
            if n % 10 == 0 {
                assert_eq!(reply.status, 400, "{n}: {}", reply.text());
                assert_eq!(reply.json()["sqlstate"], "22012");
            } else {
                assert_eq!(row(reply), json!({ "n": n, "q": 100 / (n % 10) }));
            }
        }
    }
}

#[tokio::test]
async fn a_slow_one_does_not_hold_up_the_others() {
    let db = TestDb::new().await;
    table(&db).await;
    let slow = "select n, case when n = 7 then pg_sleep(6)::text end as slept from t where n = :id";
    let server = server(&db, QUEUE, &[("t", BY_KEY), ("slow", slow)]).await;
    row(&get(&server.url("/t/1")).await);
    row(&get(&server.url("/slow/1")).await);
    let sleeping: Vec<_> = (0..3)
        .map(|_| {
            let url = server.url("/slow/7");
            tokio::spawn(async move { get(&url).await })
        })
        .collect();
    let started = Instant::now();
    for _ in 0..5 {
        let replies = get_all(&server, (1..=50).map(|n| format!("/t/{n}"))).await;
        for (n, reply) in (1..).zip(&replies) {
            assert_eq!(row(reply), by_key(n));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(started.elapsed() < SOON, "the others waited {:?}", started.elapsed());
    for reply in sleeping {
        assert_eq!(row(&reply.await.unwrap()), json!({ "n": 7, "slept": "" }));
    }
}

#[tokio::test]
async fn a_migration_is_never_misread() {
    let db = TestDb::new().await;
    table(&db).await;
    let server = server(&db, QUEUE, &[("t", "select * from t where n = :id")]).await;
    for _ in 0..3 {
        assert_eq!(row(&get(&server.url("/t/5")).await), json!({ "n": 5, "text": "row 5" }));
    }
    db.execute("alter table t alter column text type integer using n * 100").await;
    let mut renewed = 0;
    for _ in 0..20 {
        let reply = get(&server.url("/t/5")).await;
        if reply.status == 503 {
            assert_eq!(reply.json()["code"], "statement_changed");
        } else {
            assert_eq!(row(&reply), json!({ "n": 5, "text": 500 }));
            renewed += 1;
        }
    }
    assert!(renewed >= 15, "only {renewed} of 20 requests saw the new column");
}

/// A pipeline that parses a statement after the migration gets the new columns, and its readers
/// know the old ones.
#[tokio::test]
async fn a_description_from_before_a_migration_is_noticed() {
    let db = TestDb::new().await;
    table(&db).await;
    // The second endpoint brings the pipelines up before the statement of the first is known.
    let server = server(&db, QUEUE, &[("t", "select * from t where n = :id"), ("other", BY_KEY)]).await;
    row(&get(&server.url("/other/1")).await);
    row(&get(&server.url("/t/5")).await);
    db.execute("alter table t rename column text to words").await;
    for _ in 0..10 {
        let reply = get(&server.url("/t/5")).await;
        match reply.status.as_u16() {
            503 => assert_eq!(reply.json()["code"], "statement_changed"),
            _ => assert_eq!(row(&reply), json!({ "n": 5, "words": "row 5" })),
        }
    }
}

#[tokio::test]
async fn a_lost_backend_loses_no_request() {
    let db = TestDb::new().await;
    table(&db).await;
    let server = server(&db, QUEUE, &[("t", BY_KEY)]).await;
    row(&get(&server.url("/t/1")).await);
    let client = db.client().await;
    for _ in 0..5 {
        let killing = client.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity
             where datname = current_database() and pid <> pg_backend_pid()",
            &[],
        );
        let (replies, killed) = tokio::join!(get_all(&server, (1..=100).map(|n| format!("/t/{n}"))), killing);
        killed.unwrap();
        for (n, reply) in (1..).zip(&replies) {
            // One that had a connection of its own when it was killed is told so.
            if reply.status == 503 {
                assert_eq!(reply.json()["code"], "source_unavailable");
            } else {
                assert_eq!(row(reply), by_key(n));
            }
        }
        let whole = replies.iter().filter(|reply| reply.status == 200).count();
        assert!(whole >= 80, "only {whole} of 100 were answered");
    }
}

#[tokio::test]
async fn a_second_row_is_an_error_and_is_not_held() {
    let db = TestDb::new().await;
    table(&db).await;
    let server = server(&db, QUEUE, &[("many", "select n from t where n >= :id order by n")]).await;
    row(&get(&server.url("/many/1000")).await);
    for _ in 0..3 {
        let reply = get(&server.url("/many/1")).await;
        assert_eq!(reply.status, 500);
        assert!(reply.text().contains("must yield one row"), "{}", reply.text());
        assert_eq!(row(&get(&server.url("/many/1000")).await), json!({ "n": 1000 }));
    }
}

/// The server tells nobody that a type was altered: one answer is lost, and those after it are
/// right, on whatever connection.
#[tokio::test]
async fn an_altered_type_loses_one_answer() {
    let db = TestDb::new().await;
    db.execute("create type pair as (a int8, b text)").await;
    db.execute("create table t as select n, row(n, 'x')::pair as p from generate_series(1, 9) n").await;
    let server = server(&db, QUEUE, &[("t", "select p from t where n = :id")]).await;
    for n in 1..=3 {
        let (plain, by_options) = (format!("/t/{n}"), format!("/t/{n}?_numbers=string"));
        assert_eq!(row(&get(&server.url(&plain)).await), json!({ "p": { "a": n, "b": "x" } }));
        let a = n.to_string();
        assert_eq!(row(&get(&server.url(&by_options)).await), json!({ "p": { "a": a, "b": "x" } }));
    }
    db.execute("alter type pair add attribute c bool").await;
    let lost = get(&server.url("/t/1")).await;
    assert_eq!((lost.status.as_u16(), &lost.json()["code"]), (502, &json!("source_protocol")));
    for n in 1..=9 {
        let reply = get(&server.url(&format!("/t/{n}"))).await;
        assert_eq!(row(&reply), json!({ "p": { "a": n, "b": "x", "c": null } }));
    }
    db.execute("alter type pair rename attribute c to d").await;
    let deadline = Instant::now() + SOON * 4;
    while row(&get(&server.url("/t/1")).await) != json!({ "p": { "a": 1, "b": "x", "d": null } }) {
        assert!(Instant::now() < deadline, "the new name is not seen");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn long_arguments_and_long_rows_pass() {
    let db = TestDb::new().await;
    let sql = "select length(:t) as length, repeat('x', :id) as long";
    let server = server(&db, QUEUE, &[("long", sql)]).await;
    row(&get(&server.url("/long/1?t=a")).await);
    let mut paths = Vec::new();
    for length in [0, 1, 1000, 15_000] {
        let mut path = format!("/long/{}?t=", length * 50);
        (0..length).for_each(|_| path.write_char('a').unwrap());
        paths.push((length, path));
    }
    let replies = get_all(&server, paths.iter().map(|(_, path)| path.clone())).await;
    for ((length, _), reply) in paths.iter().zip(&replies) {
        let row = row(reply);
        assert_eq!(row["length"], *length);
        assert_eq!(row["long"].as_str().map(str::len), Some(length * 50));
    }
}

/// A pool of `max` connections, with lookups, and lists that do not end (`/endless`) or take 0.3 s
/// (`/list`).
async fn with_lists(db: &TestDb, max: usize, lookups: &[(&str, &str)]) -> Server {
    table(db).await;
    let head = "/*\nresult = \"one\"\n[params]\nid = \"integer\"\n*/\n";
    let config = format!(
        "[source.db]\nurl = \"{}\"\npool = {{ max = {max}, waiting = 100, acquire_timeout = \"20s\" }}\n",
        db.url()
    );
    let mut files = vec![
        ("rowstream.toml".to_owned(), config),
        ("endpoints/list.sql".into(), "select pg_sleep(0.3)::text as slept".into()),
        (
            "endpoints/endless.sql".into(),
            "select generate_series(1, 1000000000000) as n, repeat('x', 100) as text".into(),
        ),
    ];
    files.extend(
        lookups.iter().map(|(name, sql)| (format!("endpoints/{name}/{{id}}.sql"), head.to_owned() + sql)),
    );
    Server::start(&files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect::<Vec<_>>()).await
}

/// Waits until so many requests wait for a connection.
async fn until_waiting(server: &Server, requests: usize) {
    let line = format!("rowstream_pool_waiting{{source=\"db\"}} {requests}\n");
    let deadline = Instant::now() + SOON * 4;
    loop {
        let metrics = get(&server.url("/_rowstream/metrics")).await;
        if metrics.text().contains(&line) {
            return;
        }
        assert!(Instant::now() < deadline, "there are not {requests} that wait: {}", metrics.text());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_look_up_waits_for_few_of_the_lists_that_wait() {
    const LISTS: usize = 30;
    let db = TestDb::new().await;
    // One connection, of which none can be kept.
    let server = with_lists(&db, 1, &[("t", BY_KEY)]).await;
    let mut lists = JoinSet::new();
    for _ in 0..LISTS {
        let url = server.url("/list");
        lists.spawn(async move { get(&url).await.status });
    }
    until_waiting(&server, LISTS - 1).await;
    assert_eq!(row(&get(&server.url("/t/1")).await), by_key(1));
    let mut ended = 0;
    while lists.try_join_next().is_some() {
        ended += 1;
    }
    assert!(ended < LISTS / 2, "{ended} of {LISTS} lists had ended before the lookup");
    assert!(lists.join_all().await.iter().all(|status| *status == 200), "no list is forgotten");
}

#[tokio::test]
async fn lookups_keep_their_connection_where_lists_have_all_others() {
    const SLOW: usize = 4;
    let db = TestDb::new().await;
    let slow = "select n, case when n = 7 then pg_sleep(60)::text when n = 3 then pg_sleep(0.1)::text end as slept from t where n = :id";
    // Lists leave one connection for all lookups, and one for those that need their own.
    let server = with_lists(&db, 5, &[("t", BY_KEY), ("slow", slow)]).await;
    let mut lists = Vec::new();
    for _ in 0..3 {
        let mut list = crate::support::Client::HTTP1.stream(&server.url("/endless.ndjson")).await;
        list.at_least(1000).await;
        lists.push(list);
    }
    let waiting: Vec<_> = (0..5)
        .map(|_| {
            let url = server.url("/endless.ndjson");
            tokio::spawn(async move { get(&url).await })
        })
        .collect();
    until_waiting(&server, 5).await;
    // Described on the connection that is kept for that, then asked on the one that they share.
    for path in ["/t/1", "/slow/1", "/t/2", "/slow/2"] {
        row(&get(&server.url(path)).await);
    }
    // Too slow for a connection that others share.
    assert_eq!(row(&get(&server.url("/slow/3")).await)["n"], 3);
    let slow: Vec<_> = (0..SLOW)
        .map(|_| {
            let url = server.url("/slow/7");
            tokio::spawn(async move { get(&url).await })
        })
        .collect();
    // Some stand after several of the slow ones.
    let replies = get_all(&server, (1..=50).map(|n| format!("/t/{n}"))).await;
    for (n, reply) in (1..).zip(&replies) {
        assert_eq!(row(reply), by_key(n));
    }
    // One of those has a connection of its own, for which the others wait.
    until_waiting(&server, 5 + SLOW - 1).await;
    waiting.iter().chain(&slow).for_each(tokio::task::JoinHandle::abort);
}

/// What is beyond the pool and its queue is refused at once, as it is on connections of their own.
#[tokio::test]
async fn too_many_are_refused() {
    let db = TestDb::new().await;
    table(&db).await;
    let sql = "select n, case when n = 1 then null else pg_sleep(1)::text end as slept from t where n = :id";
    let server = server(&db, "pool = { max = 8, waiting = 4 }", &[("t", sql)]).await;
    row(&get(&server.url("/t/1")).await);
    let replies = get_all(&server, (0..40).map(|_| "/t/2".into())).await;
    let (mut whole, mut refused) = (0, 0);
    for reply in &replies {
        match reply.status.as_u16() {
            200 => whole += 1,
            503 => {
                assert_eq!(reply.json()["code"], "pool_full");
                assert!(reply.header("retry-after").is_some());
                refused += 1;
            }
            status => panic!("{status}: {}", reply.text()),
        }
    }
    assert!(whole >= 8 && refused >= 1, "{whole} answered, {refused} refused");
}

#[tokio::test]
async fn the_end_of_the_server_waits_for_no_idle_connection() {
    let db = TestDb::new().await;
    table(&db).await;
    let mut server = server(&db, QUEUE, &[("t", BY_KEY)]).await;
    for n in 1..=3 {
        row(&get(&server.url(&format!("/t/{n}"))).await);
    }
    server.terminate();
    let started = Instant::now();
    assert!(server.wait_exit(SOON).await.is_some_and(|status| status.success()));
    assert!(started.elapsed() < Duration::from_millis(1500), "the end took {:?}", started.elapsed());
}
