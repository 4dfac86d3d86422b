//! Lookups of MariaDB: many requests for one row each, which share a connection. What one of them
//! meets must never reach another.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::support::{
    Client, Cut, Ended, Faults, MariaDb, Pieces, Reply, Server, TcpProxy, get, mariadb_port,
};
use serde_json::{Value, json};
use tokio::task::JoinSet;

/// Room for all that these tests ask at a time.
const QUEUE: &str = "pool = { waiting = 400 }";

/// More than lookups take on any machine, and less than the slow statement here does.
const SOON: Duration = Duration::from_secs(5);

/// A table of 1,000 rows whose text tells their number.
const TABLE: &str = "create table t (n int primary key, text varchar(40) not null); \
                     insert into t select seq, concat('row ', seq) from seq_1_to_1000";

const BY_KEY: &str = "select n, text, if(n % 3 = 0, null, -n) as maybe from t where n = :id";

/// A server of the database at `url`, with an endpoint of one row for each statement.
async fn server_at(url: &str, settings: &str, endpoints: &[(&str, &str)]) -> Server {
    let config = format!("[source.db]\nurl = \"{url}\"\n{settings}\n");
    let file = |(name, sql): &(&str, &str)| {
        let text = if sql.contains(":t)") { "t = \"text\"\n" } else { "" };
        let head = format!("/*\nresult = \"one\"\n[params]\nid = \"integer\"\n{text}*/\n");
        (format!("endpoints/{name}/{{id}}.sql"), head + sql)
    };
    let mut files: Vec<_> = endpoints.iter().map(file).collect();
    files.push(("endpoints/endless.sql".to_owned(), "select seq as n from seq_1_to_1000000000".to_owned()));
    let files = files.iter().map(|(name, sql)| (name.as_str(), sql.as_str()));
    Server::start(&[("rowstream.toml", config.as_str())].into_iter().chain(files).collect::<Vec<_>>()).await
}

async fn server(db: &MariaDb, settings: &str, endpoints: &[(&str, &str)]) -> Server {
    server_at(&db.url(), settings, endpoints).await
}

/// A server whose way from the database has these faults, once it has been checked.
async fn proxied(db: &MariaDb, endpoints: &[(&str, &str)]) -> (TcpProxy, Server) {
    let target = SocketAddr::from(([127, 0, 0, 1], mariadb_port()));
    let proxy = TcpProxy::transparent(target).await;
    let server = server_at(&db.url_at(proxy.port()), QUEUE, endpoints).await;
    (proxy, server)
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

fn by_key(n: usize) -> Value {
    let maybe = if n.is_multiple_of(3) { Value::Null } else { json!(-(n as i64)) };
    json!({ "n": n, "text": format!("row {n}"), "maybe": maybe })
}

/// Asks for the first `count` rows at once; each is its own.
async fn all_are_right(server: &Server, count: usize) {
    let replies = get_all(server, (1..=count).map(|n| format!("/t/{n}"))).await;
    for (n, reply) in (1..).zip(&replies) {
        assert_eq!(row(reply), by_key(n));
    }
}

/// The numbers of the connections to the database of the test.
fn connections(db: &MariaDb) -> Vec<u64> {
    let sql = format!(
        "select id from information_schema.processlist where db = '{}' and id <> connection_id()",
        db.name()
    );
    db.ask(&sql).lines().map(|line| line.parse().expect("a number")).collect()
}

/// A sample of the metrics of the pool.
async fn sample(server: &Server, name: &str) -> f64 {
    let metrics = get(&server.url("/_rowstream/metrics")).await;
    let line = metrics.text().lines().find_map(|line| line.strip_prefix(&format!("rowstream_pool_{name} ")));
    line.expect("a sample").parse().expect("a number")
}

/// On a machine that is busy enough to keep MariaDB from answering for a while, lookups are sent
/// elsewhere, which is no error.
#[tokio::test]
async fn each_request_gets_its_own_row_over_few_connections() {
    let cores = std::thread::available_parallelism().expect("a number of cores").get();
    let mut took = Vec::new();
    while took.len() < 3 {
        let db = MariaDb::new(TABLE);
        let server = server(&db, QUEUE, &[("t", BY_KEY)]).await;
        // The statement is prepared, and told of, by the first request.
        assert_eq!(row(&get(&server.url("/t/1")).await), by_key(1));
        for _ in 0..3 {
            all_are_right(&server, 300).await;
        }
        assert_eq!(get(&server.url("/t/1001")).await.status, 404);
        took.push(connections(&db).len());
        if took.iter().any(|&connections| connections <= cores + 1) {
            return;
        }
    }
    panic!("300 requests at a time took {took:?} connections");
}

#[tokio::test]
async fn what_is_asked_while_replies_are_awaited_goes_into_one_batch() {
    let db = MariaDb::new(TABLE);
    let server = server(&db, QUEUE, &[("t", BY_KEY)]).await;
    // Which requests come while others wait is chance; that none ever does is not.
    for _ in 0..100 {
        all_are_right(&server, 200).await;
        let all = sample(&server, "batch_size_count{source=\"db\"}").await;
        if sample(&server, "batch_size_bucket{le=\"8.0\",source=\"db\"}").await < all {
            return;
        }
    }
    panic!("no batch had more than eight lookups");
}

#[tokio::test]
async fn an_error_is_told_to_its_own_request_alone() {
    let db = MariaDb::new(TABLE);
    let sql = "select n, if(n % 10 = 0, (select o.n from t o), 100 div n) as q from t where n = :id";
    let server = server(&db, QUEUE, &[("q", sql)]).await;
    row(&get(&server.url("/q/1")).await);
    for _ in 0..3 {
        let replies = get_all(&server, (1..=200).map(|n| format!("/q/{n}"))).await;
        for (n, reply) in (1..).zip(&replies) {
            if n % 10 == 0 {
                assert_eq!(reply.status, 500, "{n}: {}", reply.text());
                assert_eq!(reply.json()["sqlstate"], "21000");
            } else {
                assert_eq!(row(reply), json!({ "n": n, "q": 100 / n }));
            }
        }
    }
}

#[tokio::test]
async fn a_slow_one_does_not_hold_up_the_others() {
    let db = MariaDb::new(TABLE);
    let slow = "select n, if(n = 7, sleep(6), 1) as slept from t where n = :id";
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
        all_are_right(&server, 50).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(started.elapsed() < SOON, "the others waited {:?}", started.elapsed());
    for reply in sleeping {
        assert_eq!(row(&reply.await.expect("a reply")), json!({ "n": 7, "slept": 0 }));
    }
}

/// A statement that a shared connection has yet to prepare waits there for a table that is locked.
#[tokio::test]
async fn one_that_cannot_be_prepared_yet_does_not_hold_up_the_others() {
    let db = Arc::new(MariaDb::new(&format!("{TABLE}; create table o as select * from t")));
    let other = "select n from o where n = :id";
    let settings = "pool = { waiting = 400 }\nstatement_cache = 1";
    let server = server(&db, settings, &[("t", BY_KEY), ("o", other)]).await;
    row(&get(&server.url("/o/1")).await);
    all_are_right(&server, 20).await;
    let locking = {
        let db = Arc::clone(&db);
        tokio::task::spawn_blocking(move || db.execute("lock tables o write; do sleep(3); unlock tables"))
    };
    tokio::time::sleep(Duration::from_millis(500)).await;
    let waiting = {
        let url = server.url("/o/2");
        tokio::spawn(async move { get(&url).await })
    };
    let started = Instant::now();
    for _ in 0..5 {
        all_are_right(&server, 50).await;
    }
    assert!(started.elapsed() < Duration::from_secs(2), "the others waited {:?}", started.elapsed());
    assert_eq!(row(&waiting.await.expect("a reply")), json!({ "n": 2 }));
    locking.await.expect("it is unlocked");
}

/// Statements that have to make room for one another are prepared again and again.
#[tokio::test]
async fn statements_beyond_the_cache_are_prepared_between_others() {
    let db = MariaDb::new(TABLE);
    let other = "select n * 2 as twice from t where n = :id";
    let settings = "pool = { waiting = 400 }\nstatement_cache = 1";
    let server = server(&db, settings, &[("t", BY_KEY), ("twice", other)]).await;
    row(&get(&server.url("/t/1")).await);
    row(&get(&server.url("/twice/1")).await);
    for _ in 0..3 {
        let path = |n: usize| if n.is_multiple_of(2) { format!("/t/{n}") } else { format!("/twice/{n}") };
        let replies = get_all(&server, (1..=200).map(path)).await;
        for (n, reply) in (1..).zip(&replies) {
            let expected = if n % 2 == 0 { by_key(n) } else { json!({ "twice": 2 * n }) };
            assert_eq!(row(reply), expected);
        }
    }
}

#[tokio::test]
async fn a_migration_is_never_misread() {
    let db = MariaDb::new(TABLE);
    let server = server(&db, QUEUE, &[("t", "select * from t where n = :id")]).await;
    for _ in 0..3 {
        assert_eq!(row(&get(&server.url("/t/5")).await), json!({ "n": 5, "text": "row 5" }));
    }
    db.execute("alter table t drop column text, add column text int not null default 500");
    for _ in 0..20 {
        assert_eq!(row(&get(&server.url("/t/5")).await), json!({ "n": 5, "text": 500 }));
    }
    db.execute("alter table t change column text words int not null");
    let mut renewed = 0;
    for _ in 0..20 {
        let reply = get(&server.url("/t/5")).await;
        if reply.status == 503 {
            assert_eq!(reply.json()["code"], "statement_changed");
        } else {
            assert_eq!(row(&reply), json!({ "n": 5, "words": 500 }));
            renewed += 1;
        }
    }
    assert!(renewed >= 10, "only {renewed} of 20 requests saw the new column");
}

/// What is bound says of what type the column is.
#[tokio::test]
async fn a_column_without_a_type_is_that_of_its_argument() {
    let db = MariaDb::new("select 1");
    let server = server(&db, QUEUE, &[("as", "select :id as n")]).await;
    for n in 1..=20 {
        assert_eq!(row(&get(&server.url(&format!("/as/{n}"))).await), json!({ "n": n }));
    }
}

/// Ends all connections to the database of the test; one may be gone before.
fn kill_all(db: &MariaDb) {
    let kill = |id| {
        format!(
            "set @kill = (select if(count(*), 'kill {id}', 'do 0') from information_schema.processlist \
             where id = {id}); execute immediate @kill;"
        )
    };
    db.execute(&connections(db).into_iter().map(kill).collect::<String>());
}

#[tokio::test]
async fn a_lost_connection_loses_no_request() {
    let db = Arc::new(MariaDb::new(TABLE));
    let server = server(&db, QUEUE, &[("t", BY_KEY)]).await;
    row(&get(&server.url("/t/1")).await);
    for _ in 0..5 {
        let killed = Arc::clone(&db);
        let killing = tokio::task::spawn_blocking(move || kill_all(&killed));
        let (replies, killed) = tokio::join!(get_all(&server, (1..=100).map(|n| format!("/t/{n}"))), killing);
        killed.expect("they are killed");
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

/// Few rows too many are read and dropped, many end the connection.
#[tokio::test]
async fn a_second_row_is_an_error_and_is_not_held() {
    let db = MariaDb::new(TABLE);
    let server =
        server(&db, QUEUE, &[("t", BY_KEY), ("many", "select n from t where n >= :id order by n")]).await;
    row(&get(&server.url("/many/1000")).await);
    row(&get(&server.url("/t/1")).await);
    for first in [999, 990, 1, 500, 998] {
        let paths = (1..=40).map(|n| if n == 20 { format!("/many/{first}") } else { format!("/t/{n}") });
        let replies = get_all(&server, paths).await;
        for (n, reply) in (1..).zip(&replies) {
            if n == 20 {
                assert_eq!(reply.status, 500);
                assert!(reply.text().contains("must yield one row"), "{}", reply.text());
            } else {
                assert_eq!(row(reply), by_key(n));
            }
        }
        assert_eq!(row(&get(&server.url("/many/1000")).await), json!({ "n": 1000 }));
    }
}

#[tokio::test]
async fn long_arguments_and_long_rows_pass() {
    let db = MariaDb::new("select 1");
    let sql = "select length(:t) as length, repeat('x', :id) as wide";
    let server = server(&db, QUEUE, &[("wide", sql)]).await;
    row(&get(&server.url("/wide/1?t=a")).await);
    let mut paths = Vec::new();
    for length in [0, 1, 1000, 15_000] {
        let mut path = format!("/wide/{}?t=", length * 50);
        (0..length).for_each(|_| path.write_char('a').expect("a string takes all"));
        paths.push((length, path));
    }
    let replies = get_all(&server, paths.iter().map(|(_, path)| path.clone())).await;
    for ((length, _), reply) in paths.iter().zip(&replies) {
        let row = row(reply);
        assert_eq!(row["length"], *length);
        assert_eq!(row["wide"].as_str().map(str::len), Some(length * 50));
    }
}

#[tokio::test]
async fn a_row_that_is_too_long_is_its_own_error() {
    let db = MariaDb::new(TABLE);
    let wide = "select n, repeat('x', if(n = 7, 200000, 1)) as x from t where n = :id";
    let settings = "max_row_bytes = 100000\npool = { waiting = 400 }";
    let server = server(&db, settings, &[("t", BY_KEY), ("wide", wide)]).await;
    row(&get(&server.url("/t/1")).await);
    row(&get(&server.url("/wide/1")).await);
    for _ in 0..3 {
        let paths = (1..=60).map(|n| if n == 30 { "/wide/7".to_owned() } else { format!("/t/{n}") });
        let replies = get_all(&server, paths).await;
        for (n, reply) in (1..).zip(&replies) {
            match n {
                30 => assert_eq!(reply.json()["code"], "row_too_large", "{}", reply.text()),
                n => assert_eq!(row(reply), by_key(n)),
            }
        }
    }
}

/// The place of the shared connection is kept, however many lists wait.
#[tokio::test]
async fn lookups_keep_their_connection_where_lists_have_all_others() {
    let db = MariaDb::new(TABLE);
    let settings = "pool = { max = 5, waiting = 100, acquire_timeout = \"20s\" }";
    let server = server(&db, settings, &[("t", BY_KEY)]).await;
    let mut lists = Vec::new();
    for _ in 0..3 {
        let mut list = Client::HTTP1.stream(&server.url("/endless.ndjson")).await;
        list.at_least(1000).await;
        lists.push(list);
    }
    let waiting: Vec<_> = (0..5)
        .map(|_| {
            let url = server.url("/endless.ndjson");
            tokio::spawn(async move { get(&url).await })
        })
        .collect();
    let deadline = Instant::now() + SOON * 4;
    while sample(&server, "waiting{source=\"db\"}").await < 5.0 {
        assert!(Instant::now() < deadline, "there are not five that wait");
    }
    for _ in 0..3 {
        all_are_right(&server, 50).await;
    }
    waiting.iter().for_each(tokio::task::JoinHandle::abort);
}

/// What is beyond the pool and its queue is refused at once, as it is on connections of their own.
#[tokio::test]
async fn too_many_are_refused() {
    let db = MariaDb::new(TABLE);
    let sql = "select n, if(n = 1, null, sleep(1)) as slept from t where n = :id";
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

/// Those that leave in the middle of a batch leave the others where they are.
#[tokio::test]
async fn clients_that_leave_take_no_answer_of_others() {
    let db = MariaDb::new(TABLE);
    let server = server(&db, QUEUE, &[("t", BY_KEY)]).await;
    row(&get(&server.url("/t/1")).await);
    for round in 0..10 {
        let mut leaving = JoinSet::new();
        for n in 1..=100 {
            let url = server.url(&format!("/t/{n}"));
            leaving.spawn(async move { drop(get(&url).await) });
        }
        tokio::time::sleep(Duration::from_millis(round)).await;
        leaving.abort_all();
        all_are_right(&server, 50).await;
    }
}

/// The connection that lookups share outlives a reload, and its end.
#[tokio::test]
async fn a_reload_loses_no_lookup() {
    let db = MariaDb::new(TABLE);
    let server = server(&db, QUEUE, &[("t", BY_KEY)]).await;
    row(&get(&server.url("/t/1")).await);
    let config = format!("[source.db]\nurl = \"{}\"\n", db.url());
    for waiting in [300, 300, 301, 302] {
        let text = format!("{config}pool = {{ waiting = {waiting} }}\n");
        std::fs::write(server.folder().join("rowstream.toml"), text).expect("a file");
        server.hang_up();
        for _ in 0..5 {
            all_are_right(&server, 50).await;
        }
    }
}

// --- Connections that fail -----------------------------------------------------------------------

#[tokio::test]
async fn answers_in_small_pieces_are_the_same() {
    let db = MariaDb::new(TABLE);
    let (proxy, server) = proxied(&db, &[("t", BY_KEY)]).await;
    row(&get(&server.url("/t/1")).await);
    for bytes in [1, 3, 7, 64] {
        let pieces = Some(Pieces { bytes, pause: Duration::ZERO });
        proxy.set_to_client(Faults { pieces, ..Faults::default() });
        proxy.cut_now(Cut::Close);
        // Which connections had ended is seen when the next one is needed.
        tokio::time::sleep(Duration::from_millis(20)).await;
        all_are_right(&server, 60).await;
    }
}

/// Wherever the connection is cut, in the login or in the middle of a batch, each request is
/// answered by its own row or by an error that says so.
#[tokio::test]
async fn a_connection_that_is_cut_anywhere_never_misleads() {
    let db = MariaDb::new(TABLE);
    let (proxy, server) = proxied(&db, &[("t", BY_KEY)]).await;
    row(&get(&server.url("/t/1")).await);
    let mut whole = 0;
    for round in 0..60_u64 {
        let how = if round % 2 == 0 { Cut::Close } else { Cut::Reset };
        proxy.set_to_client(Faults { cut: Some((200 + 97 * round, how)), ..Faults::default() });
        proxy.cut_now(how);
        let replies = get_all(&server, (1..=30).map(|n| format!("/t/{n}"))).await;
        for (n, reply) in (1..).zip(&replies) {
            match reply.status.as_u16() {
                503 => assert_eq!(reply.json()["code"], "source_unavailable"),
                _ => {
                    assert_eq!(row(reply), by_key(n));
                    whole += 1;
                }
            }
        }
    }
    assert!(whole > 100, "only {whole} of 1800 were answered");
    proxy.set_to_client(Faults::default());
    proxy.cut_now(Cut::Close);
    tokio::time::sleep(Duration::from_millis(20)).await;
    all_are_right(&server, 60).await;
}

/// A database that says nothing any more is no end for those who ask it again later.
#[tokio::test]
async fn a_stall_passes() {
    let db = MariaDb::new(TABLE);
    let (proxy, server) = proxied(&db, &[("t", BY_KEY)]).await;
    all_are_right(&server, 60).await;
    for _ in 0..3 {
        proxy.stall();
        let asking = get_all(&server, (1..=60).map(|n| format!("/t/{n}")));
        let resuming = async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            proxy.resume();
        };
        let (replies, ()) = tokio::join!(asking, resuming);
        for (n, reply) in (1..).zip(&replies) {
            assert_eq!(row(reply), by_key(n));
        }
    }
}
