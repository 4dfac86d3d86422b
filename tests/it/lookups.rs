//! Lookups: many requests for one row each, which share a connection. A failure of one must never
//! affect another. PostgreSQL and MariaDB keep all of these promises. The modules
//! `postgres_lookups` and `mysql_lookups` test their differences.

#![expect(clippy::unwrap_used, reason = "the helpers of tests are tests, too")]

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::support::{
    Client, Cut, Ended, Faults, MariaDb, Pieces, Reply, Server, TcpProxy, TestDb, get, mariadb_port, pg_port,
    wait_until,
};
use serde_json::{Value, json};
use tokio::task::{JoinHandle, JoinSet, spawn_blocking};

/// A queue for all concurrent requests of these tests.
pub(crate) const QUEUE: &str = "pool = { waiting = 400 }";

/// After this time, a server on a busy machine has noticed that its connections were cut.
const NOTICED: Duration = Duration::from_millis(200);

/// A row of the table by number.
pub(crate) const BY_KEY: &str = "select n, text, maybe from t where n = :id";

// --- The databases -------------------------------------------------------------------------------

/// A database with a table of 1,000 rows. Each text contains the row's number.
pub(crate) enum Db {
    Postgres(TestDb),
    /// Its client runs on a separate thread.
    MariaDb(Arc<MariaDb>),
}

impl Db {
    pub(crate) async fn postgres() -> Self {
        let db = TestDb::new().await;
        db.execute(
            "create table t as select n, 'row ' || n as text, \
             case when n % 3 = 0 then null else array[n, -n] end as maybe from generate_series(1, 1000) n; \
             alter table t add primary key (n)",
        )
        .await;
        Self::Postgres(db)
    }

    pub(crate) async fn mariadb() -> Self {
        let filled = spawn_blocking(|| {
            MariaDb::new(
                "create table t (n int primary key, text varchar(40) not null, maybe json); \
                 insert into t select seq, concat('row ', seq), \
                 if(seq % 3 = 0, null, json_array(seq, -seq)) from seq_1_to_1000",
            )
        });
        Self::MariaDb(Arc::new(filled.await.unwrap()))
    }

    /// Another database of the same kind.
    async fn another(&self) -> Self {
        match self {
            Self::Postgres(_) => Self::postgres().await,
            Self::MariaDb(_) => Self::mariadb().await,
        }
    }

    pub(crate) fn url(&self) -> String {
        match self {
            Self::Postgres(db) => db.url(),
            Self::MariaDb(db) => db.url(),
        }
    }

    fn port(&self) -> u16 {
        match self {
            Self::Postgres(_) => pg_port(),
            Self::MariaDb(_) => mariadb_port(),
        }
    }

    pub(crate) async fn execute(&self, sql: &str) {
        match self {
            Self::Postgres(db) => db.execute(sql).await,
            Self::MariaDb(db) => {
                let (db, sql) = (Arc::clone(db), sql.to_owned());
                spawn_blocking(move || db.execute(&sql)).await.unwrap();
            }
        }
    }

    /// The number of the server's connections.
    async fn connections(&self) -> usize {
        match self {
            Self::Postgres(db) => {
                let sql = "select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()";
                let row = db.client().await.query_one(sql, &[]).await.unwrap();
                usize::try_from(row.get::<_, i64>(0)).unwrap()
            }
            Self::MariaDb(db) => connections(db).len(),
        }
    }

    /// Ends all connections of the server. One may have ended already.
    async fn end_connections(&self) {
        let sql = match self {
            Self::Postgres(_) => "select pg_terminate_backend(pid) from pg_stat_activity \
                 where datname = current_database() and pid <> pg_backend_pid()"
                .to_owned(),
            Self::MariaDb(db) => connections(db).into_iter().map(kill).collect(),
        };
        self.execute(&sql).await;
    }

    /// An expression that takes this long, and its value.
    fn sleep(&self, seconds: &str) -> (String, Value) {
        match self {
            Self::Postgres(_) => (format!("pg_sleep({seconds})::text"), json!("")),
            Self::MariaDb(_) => (format!("sleep({seconds})"), json!(0)),
        }
    }

    fn endless(&self) -> &'static str {
        match self {
            Self::Postgres(_) => "select generate_series(1, 1000000000000) as n, repeat('x', 100) as text",
            Self::MariaDb(_) => "select seq as n, repeat('x', 100) as text from seq_1_to_1000000000",
        }
    }

    /// Statements that turn the text into a number (500 for row 5) and rename it to `words`, with
    /// the minimum number of 20 requests that see each.
    fn migrations(&self) -> [(&'static str, usize); 2] {
        match self {
            Self::Postgres(_) => [
                ("alter table t alter column text type integer using n * 100", 15),
                ("alter table t rename column text to words", 10),
            ],
            Self::MariaDb(_) => [
                ("alter table t drop column text, add column text int not null default 500", 20),
                ("alter table t change column text words int not null", 10),
            ],
        }
    }
}

/// The ids of the connections to a MariaDB database.
fn connections(db: &MariaDb) -> Vec<u64> {
    let sql = format!(
        "select id from information_schema.processlist where db = '{}' and id <> connection_id()",
        db.name()
    );
    db.ask(&sql).lines().map(|line| line.parse().expect("a number")).collect()
}

fn kill(id: u64) -> String {
    format!(
        "set @kill = (select if(count(*), 'kill {id}', 'do 0') from information_schema.processlist \
         where id = {id}); execute immediate @kill;"
    )
}

// --- The server ----------------------------------------------------------------------------------

/// A server with the database at `url`, an endpoint with one row for each statement, and an endless
/// list.
async fn server_at(url: &str, db: &Db, settings: &str, endpoints: &[(&str, &str)]) -> Server {
    let config = format!("[source.db]\nurl = \"{url}\"\n{settings}\n");
    let file = |(name, sql): &(&str, &str)| {
        let text = if sql.contains(":t)") { "t = \"text\"\n" } else { "" };
        let head = format!("/*\nresult = \"one\"\n[params]\nid = \"integer\"\n{text}*/\n");
        (format!("endpoints/{name}/{{id}}.sql"), head + sql)
    };
    let files: Vec<_> = endpoints.iter().map(file).collect();
    let files = files.iter().map(|(name, sql)| (name.as_str(), sql.as_str()));
    let own = [
        ("rowstream.toml", config),
        ("endpoints/endless.sql", db.endless().to_owned()),
        ("endpoints/list.sql", format!("select {} as slept", db.sleep("0.3").0)),
    ];
    let own = own.iter().map(|(name, text)| (*name, text.as_str()));
    Server::start(&own.chain(files).collect::<Vec<_>>()).await
}

pub(crate) async fn server(db: &Db, settings: &str, endpoints: &[(&str, &str)]) -> Server {
    server_at(&db.url(), db, settings, endpoints).await
}

/// A server whose connection to the database can get faults, after its check.
async fn proxied(db: &Db) -> (TcpProxy, Server) {
    let proxy = TcpProxy::transparent(SocketAddr::from(([127, 0, 0, 1], db.port()))).await;
    let url = db.url().replace(&format!(":{}/", db.port()), &format!(":{}/", proxy.port()));
    // A busy machine takes seconds for a login in pieces of one byte.
    let settings = "pool = { waiting = 400, acquire_timeout = \"60s\" }";
    let server = server_at(&url, db, settings, &[("t", BY_KEY)]).await;
    (proxy, server)
}

/// Requests all `paths` at once. Returns the responses in their order.
pub(crate) async fn get_all(server: &Server, paths: impl IntoIterator<Item = String>) -> Vec<Reply> {
    let mut requests = JoinSet::new();
    for (index, path) in paths.into_iter().enumerate() {
        let url = server.url(&path);
        requests.spawn(async move { (index, get(&url).await) });
    }
    let mut replies = requests.join_all().await;
    replies.sort_by_key(|(index, _)| *index);
    replies.into_iter().map(|(_, reply)| reply).collect()
}

pub(crate) fn row(reply: &Reply) -> Value {
    assert_eq!((reply.status.as_u16(), &reply.ended), (200, &Ended::Complete), "{}", reply.text());
    reply.json()
}

pub(crate) fn by_key(n: usize) -> Value {
    let maybe = if n.is_multiple_of(3) { Value::Null } else { json!([n, -(n as i64)]) };
    json!({ "n": n, "text": format!("row {n}"), "maybe": maybe })
}

/// Requests the first `count` rows at once, and checks each.
pub(crate) async fn all_are_right(server: &Server, count: usize) {
    let replies = get_all(server, (1..=count).map(|n| format!("/t/{n}"))).await;
    for (n, reply) in (1..).zip(&replies) {
        assert_eq!(row(reply), by_key(n));
    }
}

/// Checks that each reply is its own row or an error about the database. Returns the number of
/// rows.
fn all_are_right_or_unavailable(replies: &[Reply]) -> usize {
    let mut whole = 0;
    for (n, reply) in (1..).zip(replies) {
        if reply.status == 503 {
            assert_eq!(reply.json()["code"], "source_unavailable");
        } else {
            assert_eq!(row(reply), by_key(n));
            whole += 1;
        }
    }
    whole
}

/// Starts requests, and returns before their responses.
fn asking(server: &Server, path: &str, count: usize) -> Vec<JoinHandle<Reply>> {
    let asked = |_| {
        let url = server.url(path);
        tokio::spawn(async move { get(&url).await })
    };
    (0..count).map(asked).collect()
}

/// A sample of the pool's metrics.
async fn sample(server: &Server, name: &str) -> f64 {
    let metrics = get(&server.url("/_rowstream/metrics")).await;
    let line = metrics.text().lines().find_map(|line| line.strip_prefix(&format!("rowstream_pool_{name} ")));
    line.expect("a sample").parse().expect("a number")
}

/// Waits until this many requests wait for a connection.
async fn until_waiting(server: &Server, requests: usize) {
    wait_until(&format!("{requests} requests wait"), async || {
        sample(server, "waiting{source=\"db\"}").await >= requests as f64
    })
    .await;
}

// --- The promises --------------------------------------------------------------------------------

/// On a very busy machine, the database may not respond for a while. Then lookups use other
/// connections, which isn't an error.
async fn each_request_gets_its_own_row_over_few_connections(db: &Db) {
    let cores = std::thread::available_parallelism().unwrap().get();
    let mut took = Vec::new();
    while took.len() < 3 {
        let db = db.another().await;
        let server = server(&db, QUEUE, &[("t", BY_KEY)]).await;
        // The first request prepares and describes the statement.
        assert_eq!(row(&get(&server.url("/t/1")).await), by_key(1));
        for _ in 0..3 {
            all_are_right(&server, 300).await;
        }
        assert_eq!(get(&server.url("/t/1001")).await.status, 404);
        took.push(db.connections().await);
        if took.iter().any(|&connections| connections <= cores + 1) {
            return;
        }
    }
    panic!("300 requests at a time took {took:?} connections");
}

/// Batches had collapsed: each reply woke a runtime thread, which sent a batch of one.
async fn what_is_asked_while_replies_are_awaited_goes_into_one_batch(db: &Db) {
    let server = server(db, QUEUE, &[("t", BY_KEY)]).await;
    // It depends on chance which requests arrive while others wait, but some always do.
    for _ in 0..100 {
        all_are_right(&server, 200).await;
        let all = sample(&server, "batch_size_count{source=\"db\"}").await;
        assert!(sample(&server, "batch_size_sum{source=\"db\"}").await >= all);
        if sample(&server, "batch_size_bucket{le=\"8.0\",source=\"db\"}").await < all {
            return;
        }
    }
    panic!("no batch had more than eight lookups");
}

async fn an_error_is_of_its_own_request_alone(db: &Db) {
    let sql =
        "select n, case when n % 10 = 0 then (select o.n from t o) else -n end as q from t where n = :id";
    let server = server(db, QUEUE, &[("q", sql)]).await;
    row(&get(&server.url("/q/1")).await);
    for _ in 0..3 {
        let replies = get_all(&server, (1..=200).map(|n| format!("/q/{n}"))).await;
        for (n, reply) in (1..).zip(&replies) {
            if n % 10 == 0 {
                assert_eq!(reply.status, 500, "{n}: {}", reply.text());
                assert_eq!(reply.json()["sqlstate"], "21000");
            } else {
                assert_eq!(row(reply), json!({ "n": n, "q": -n }));
            }
        }
    }
}

async fn a_slow_one_does_not_hold_up_the_others(db: &Db) {
    // The others need about a second.
    let (sleep, slept) = db.sleep("15");
    let slow = format!("select n, case when n = 7 then {sleep} end as slept from t where n = :id");
    let server = server(db, QUEUE, &[("t", BY_KEY), ("slow", &slow)]).await;
    row(&get(&server.url("/t/1")).await);
    row(&get(&server.url("/slow/1")).await);
    let sleeping = asking(&server, "/slow/7", 3);
    for _ in 0..5 {
        all_are_right(&server, 50).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(!sleeping.iter().any(JoinHandle::is_finished), "the others waited for a slow one");
    for reply in sleeping {
        assert_eq!(row(&reply.await.unwrap()), json!({ "n": 7, "slept": slept }));
    }
}

/// If the cache is too small, statements are prepared again and again.
async fn statements_beyond_the_cache_are_prepared_between_others(db: &Db) {
    let other = "select n * 2 as twice from t where n = :id";
    let settings = "pool = { waiting = 400 }\nstatement_cache = 1";
    let server = server(db, settings, &[("t", BY_KEY), ("twice", other)]).await;
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

async fn a_migration_is_never_misread(db: &Db) {
    let server = server(db, QUEUE, &[("t", "select * from t where n = :id")]).await;
    for _ in 0..3 {
        assert_eq!(row(&get(&server.url("/t/5")).await), by_key(5));
    }
    for ((sql, at_least), name) in db.migrations().into_iter().zip(["text", "words"]) {
        db.execute(sql).await;
        let mut renewed = 0;
        for _ in 0..20 {
            let reply = get(&server.url("/t/5")).await;
            if reply.status == 503 {
                assert_eq!(reply.json()["code"], "statement_changed");
            } else {
                assert_eq!(row(&reply), json!({ "n": 5, "maybe": [5, -5], (name): 500 }));
                renewed += 1;
            }
        }
        assert!(renewed >= at_least, "only {renewed} of 20 requests saw the new column: {sql}");
    }
}

async fn a_lost_connection_loses_no_request(db: &Db) {
    let server = server(db, QUEUE, &[("t", BY_KEY)]).await;
    row(&get(&server.url("/t/1")).await);
    for _ in 0..5 {
        let asked = get_all(&server, (1..=100).map(|n| format!("/t/{n}")));
        let (replies, ()) = tokio::join!(asked, db.end_connections());
        // A request whose own connection was ended gets a clear error.
        let whole = all_are_right_or_unavailable(&replies);
        assert!(whole >= 80, "only {whole} of 100 were answered");
    }
}

/// A few extra rows are read and discarded. With many, the connection is closed.
async fn a_second_row_is_an_error_and_is_not_held(db: &Db) {
    let server =
        server(db, QUEUE, &[("t", BY_KEY), ("many", "select n from t where n >= :id order by n")]).await;
    row(&get(&server.url("/many/1000")).await);
    row(&get(&server.url("/t/1")).await);
    for first in [999, 990, 1, 500, 998] {
        let paths = (1..=40).map(|n| if n == 20 { format!("/many/{first}") } else { format!("/t/{n}") });
        let replies = get_all(&server, paths).await;
        for (n, reply) in (1..).zip(&replies) {
            if n == 20 {
                assert_eq!(reply.status, 500);
                assert!(reply.text().contains("must return one row"), "{}", reply.text());
            } else {
                assert_eq!(row(reply), by_key(n));
            }
        }
        assert_eq!(row(&get(&server.url("/many/1000")).await), json!({ "n": 1000 }));
    }
}

async fn long_arguments_and_long_rows_pass(db: &Db) {
    let sql = "select length(:t) as length, repeat('x', :id) as wide";
    let server = server(db, QUEUE, &[("wide", sql)]).await;
    row(&get(&server.url("/wide/1?t=a")).await);
    let mut paths = Vec::new();
    for length in [0, 1, 1000, 15_000] {
        let mut path = format!("/wide/{}?t=", length * 50);
        (0..length).for_each(|_| path.write_char('a').unwrap());
        paths.push((length, path));
    }
    let replies = get_all(&server, paths.iter().map(|(_, path)| path.clone())).await;
    for ((length, _), reply) in paths.iter().zip(&replies) {
        let row = row(reply);
        assert_eq!(row["length"], *length);
        assert_eq!(row["wide"].as_str().map(str::len), Some(length * 50));
    }
}

async fn a_row_that_is_too_long_is_its_own_error(db: &Db) {
    let wide = "select n, repeat('x', case when n = 7 then 200000 else 1 end) as x from t where n = :id";
    let settings = "max_row_bytes = 100000\npool = { waiting = 400 }";
    let server = server(db, settings, &[("t", BY_KEY), ("wide", wide)]).await;
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

async fn lookups_keep_their_connection_where_lists_have_all_others(db: &Db) {
    const SLOW: usize = 4;
    let ((long, _), (short, _)) = (db.sleep("1000"), db.sleep("0.1"));
    let slow = format!(
        "select n, case when n = 7 then {long} when n = 3 then {short} end as slept from t where n = :id"
    );
    // Lists leave one connection to all lookups, and one to those that need their own.
    let settings = "pool = { max = 5, waiting = 100, acquire_timeout = \"20s\" }";
    let server = server(db, settings, &[("t", BY_KEY), ("slow", &slow)]).await;
    let mut lists = Vec::new();
    for _ in 0..3 {
        let mut list = Client::HTTP1.stream(&server.url("/endless.ndjson")).await;
        list.at_least(1000).await;
        lists.push(list);
    }
    let waiting = asking(&server, "/endless.ndjson", 5);
    until_waiting(&server, 5).await;
    // Each is described on the connection for that purpose, and then runs on the shared one.
    for path in ["/t/1", "/slow/1", "/t/2", "/slow/2"] {
        row(&get(&server.url(path)).await);
    }
    // Too slow for a shared connection.
    assert_eq!(row(&get(&server.url("/slow/3")).await)["n"], 3);
    let slow = asking(&server, "/slow/7", SLOW);
    // Some of them wait after several slow ones.
    all_are_right(&server, 50).await;
    // One of these has its own connection, for which the others wait.
    until_waiting(&server, 5 + SLOW - 1).await;
    waiting.iter().chain(&slow).for_each(JoinHandle::abort);
}

async fn a_lookup_waits_for_few_of_the_lists_that_wait(db: &Db) {
    const LISTS: usize = 30;
    // One connection, so none can be reserved.
    let settings = "pool = { max = 1, waiting = 100, acquire_timeout = \"20s\" }";
    let server = server(db, settings, &[("t", BY_KEY)]).await;
    let lists = asking(&server, "/list", LISTS);
    until_waiting(&server, LISTS - 1).await;
    assert_eq!(row(&get(&server.url("/t/1")).await), by_key(1));
    let ended = lists.iter().filter(|list| list.is_finished()).count();
    assert!(ended < LISTS / 2, "{ended} of {LISTS} lists had ended before the lookup");
    for list in lists {
        assert_eq!(list.await.unwrap().status, 200, "no list is forgotten");
    }
}

/// Requests beyond the pool and its queue are refused at once, as on separate connections.
async fn too_many_are_refused(db: &Db) {
    let sql =
        format!("select n, case when n <> 1 then {} end as slept from t where n = :id", db.sleep("1").0);
    let server = server(db, "pool = { max = 8, waiting = 4 }", &[("t", &sql)]).await;
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

/// Clients that disconnect in the middle of a batch don't affect the other requests.
async fn clients_that_leave_take_no_answer_of_others(db: &Db) {
    let server = server(db, QUEUE, &[("t", BY_KEY)]).await;
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

/// A reload loses no lookup on the shared connection.
async fn a_reload_loses_no_lookup(db: &Db) {
    let server = server(db, QUEUE, &[("t", BY_KEY)]).await;
    row(&get(&server.url("/t/1")).await);
    let config = format!("[source.db]\nurl = \"{}\"\n", db.url());
    for waiting in [300, 300, 301, 302] {
        let text = format!("{config}pool = {{ waiting = {waiting} }}\n");
        std::fs::write(server.folder().join("rowstream.toml"), text).unwrap();
        server.hang_up();
        for _ in 0..5 {
            all_are_right(&server, 50).await;
        }
    }
}

async fn answers_in_small_pieces_are_the_same(db: &Db) {
    let (proxy, server) = proxied(db).await;
    row(&get(&server.url("/t/1")).await);
    for bytes in [1, 3, 7, 64] {
        let pieces = Some(Pieces { bytes, pause: Duration::ZERO });
        proxy.set_to_client(Faults { pieces, ..Faults::default() });
        proxy.cut_now(Cut::Close);
        // Closed connections are noticed when the next one is needed.
        tokio::time::sleep(NOTICED).await;
        all_are_right(&server, 60).await;
    }
}

/// Wherever the connection is cut, in the login or in a batch, each request gets its own row or a
/// clear error.
async fn a_connection_that_is_cut_anywhere_never_misleads(db: &Db) {
    let (proxy, server) = proxied(db).await;
    row(&get(&server.url("/t/1")).await);
    let mut whole = 0;
    for round in 0..60_u64 {
        let how = if round % 2 == 0 { Cut::Close } else { Cut::Reset };
        proxy.set_to_client(Faults { cut: Some((200 + 97 * round, how)), ..Faults::default() });
        proxy.cut_now(how);
        let replies = get_all(&server, (1..=30).map(|n| format!("/t/{n}"))).await;
        whole += all_are_right_or_unavailable(&replies);
    }
    assert!(whole > 100, "only {whole} of 1800 were answered");
    proxy.set_to_client(Faults::default());
    proxy.cut_now(Cut::Close);
    tokio::time::sleep(NOTICED).await;
    all_are_right(&server, 60).await;
}

/// A database that stops responding must not block later requests.
async fn a_stall_passes(db: &Db) {
    let (proxy, server) = proxied(db).await;
    all_are_right(&server, 60).await;
    for _ in 0..3 {
        proxy.stall();
        let asking = get_all(&server, (1..=60).map(|n| format!("/t/{n}")));
        let resuming = async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            proxy.resume();
        };
        let (replies, ()) = tokio::join!(asking, resuming);
        assert_eq!(all_are_right_or_unavailable(&replies), 60);
    }
}

async fn the_end_of_the_server_waits_for_no_idle_connection(db: &Db) {
    /// Less than the two seconds that a server waits for busy connections (`CANCEL_TIMEOUT`).
    const AT_ONCE: Duration = Duration::from_millis(1500);
    let mut quickest = Duration::MAX;
    // A busy machine may be slow once.
    for _ in 0..3 {
        let mut server = server(db, QUEUE, &[("t", BY_KEY)]).await;
        for n in 1..=3 {
            row(&get(&server.url(&format!("/t/{n}"))).await);
        }
        server.terminate();
        let started = Instant::now();
        server.wait_drained().await;
        quickest = quickest.min(started.elapsed());
        if quickest < AT_ONCE {
            return;
        }
    }
    panic!("the end took {quickest:?} at least");
}

macro_rules! promises {
    ($($promise:ident)+) => {$(
        mod $promise {
            #[tokio::test]
            async fn postgres() {
                super::$promise(&super::Db::postgres().await).await;
            }

            #[tokio::test]
            async fn mariadb() {
                super::$promise(&super::Db::mariadb().await).await;
            }
        }
    )+};
}

promises! {
    each_request_gets_its_own_row_over_few_connections
    what_is_asked_while_replies_are_awaited_goes_into_one_batch
    an_error_is_of_its_own_request_alone
    a_slow_one_does_not_hold_up_the_others
    statements_beyond_the_cache_are_prepared_between_others
    a_migration_is_never_misread
    a_lost_connection_loses_no_request
    a_second_row_is_an_error_and_is_not_held
    long_arguments_and_long_rows_pass
    a_row_that_is_too_long_is_its_own_error
    lookups_keep_their_connection_where_lists_have_all_others
    a_lookup_waits_for_few_of_the_lists_that_wait
    too_many_are_refused
    clients_that_leave_take_no_answer_of_others
    a_reload_loses_no_lookup
    answers_in_small_pieces_are_the_same
    a_connection_that_is_cut_anywhere_never_misleads
    a_stall_passes
    the_end_of_the_server_waits_for_no_idle_connection
}
