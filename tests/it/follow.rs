//! Streams that stay open for new rows. None is missing or repeated, regardless of the order of
//! commits.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::net::Ipv4Addr;
use std::time::Duration;

use crate::support::{
    Browser, CODINGS, Client, Cut, Ended, Launch, MariaDb, Server, Streaming, TcpProxy, TestDb, decoder, get,
    pg_port, rowstream, wait_until,
};
use http::{Request, StatusCode};
use serde_json::{Value, json};
use tokio::task::JoinSet;

/// An endpoint that follows the transactions of `t`, with a polling interval for tests.
const SETTLED: &str = r#"/* key = ["tx", "id"]
    follow = { transaction = "tx", poll = "50ms" }
    heartbeat = "100ms" */
    select tx, id, note from t order by tx, id"#;

/// The table of `SETTLED`.
const TABLE: &str =
    "create table t (id bigserial primary key, tx xid8 not null default pg_current_xact_id(), note text);
    create index on t (tx, id)";

/// An endpoint for SQLite, whose commits are ordered.
const ORDERED: &str = r#"/* key = ["id"]
    follow = { poll = "20ms" }
    heartbeat = "100ms" */
    select id, note from t order by id"#;

fn launch(url: &str, rows: &str) -> Launch {
    let config = format!("[source.db]\nurl = \"{url}\"\npool = {{ max = 4 }}\n");
    Launch::files(&[("rowstream.toml", &config[..]), ("endpoints/rows.sql", rows)])
}

async fn server(url: &str, rows: &str) -> Server {
    launch(url, rows).start().await
}

/// A SQLite file with a table `t`, its URL, and a connection that writes.
fn sqlite() -> (tempfile::TempDir, String, rusqlite::Connection) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("test.db");
    let writer = rusqlite::Connection::open(&file).unwrap();
    writer.busy_timeout(Duration::from_secs(30)).unwrap();
    writer.pragma_update(None, "journal_mode", "wal").unwrap();
    writer.execute_batch("create table t (id integer primary key autoincrement, note text)").unwrap();
    (folder, format!("sqlite:{}", file.display()), writer)
}

/// A stream of lines that doesn't end by itself.
struct Lines {
    stream: Streaming,
    read: Vec<u8>,
    heartbeats: usize,
}

impl Lines {
    async fn open(url: &str) -> Self {
        let stream = Client::HTTP1.stream(url).await;
        assert_eq!(stream.status, StatusCode::OK, "{url}");
        Self { stream, read: Vec::new(), heartbeats: 0 }
    }

    /// The next line. An empty one is a heartbeat.
    async fn line(&mut self) -> Result<String, Ended> {
        loop {
            if let Some(end) = self.read.iter().position(|&byte| byte == b'\n') {
                let line = self.read.drain(..=end).collect::<Vec<_>>();
                return Ok(String::from_utf8(line).unwrap().trim_end().to_owned());
            }
            let chunk = self.stream.chunk().await?;
            self.read.extend_from_slice(&chunk);
        }
    }

    /// The next row.
    async fn row(&mut self) -> Result<Value, Ended> {
        loop {
            match self.line().await? {
                line if line.is_empty() => self.heartbeats += 1,
                line => return Ok(serde_json::from_str(&line).unwrap()),
            }
        }
    }

    /// The ids of the next rows.
    async fn ids(&mut self, rows: usize) -> Vec<u64> {
        let mut ids = Vec::new();
        while ids.len() < rows {
            let row = self.row().await.expect("the stream stays open");
            if row.get("columns").is_none() {
                ids.push(row["id"].as_u64().unwrap());
            }
        }
        ids
    }

    /// Waits for this many heartbeats without any row in between.
    async fn quiet(&mut self, heartbeats: usize) {
        for _ in 0..heartbeats {
            assert_eq!(self.line().await.expect("the stream stays open"), "");
        }
    }
}

#[tokio::test]
async fn rows_come_as_they_are_committed() {
    let (_folder, url, writer) = sqlite();
    writer.execute_batch("insert into t (note) values ('a'), ('b')").unwrap();
    let server = server(&url, ORDERED).await;
    let mut lines = Lines::open(&server.url("/rows.ndjson?_follow=1")).await;
    assert_eq!(lines.ids(2).await, [1, 2]);
    lines.quiet(2).await;
    writer
        .execute_batch("begin; insert into t (note) values ('c'); insert into t (note) values ('d'); commit")
        .unwrap();
    assert_eq!(lines.ids(2).await, [3, 4]);
    writer.execute_batch("begin; insert into t (note) values ('e'); rollback").unwrap();
    lines.quiet(2).await;
    writer.execute_batch("insert into t (id, note) values (9, 'f')").unwrap();
    assert_eq!(lines.row().await.unwrap(), serde_json::json!({"id": 9, "note": "f"}));
}

/// Without a row there was no chunk, and so no head. An `EventSource` was only open after its first
/// event.
#[tokio::test]
async fn a_head_waits_for_no_row() {
    let (_folder, url, writer) = sqlite();
    let server = server(&url, ORDERED).await;
    for (suffix, type_, beat) in [
        ("ndjson", "application/x-ndjson", "\n"),
        ("sse", "text/event-stream", ":\n\n"),
        ("json-seq", "application/json-seq", "\u{1e}"),
    ] {
        let mut stream =
            Client::HTTP1.stream(&server.url(&format!("/rows?_format={suffix}&_follow=1"))).await;
        assert_eq!(
            (stream.status, stream.headers["content-type"].to_str().unwrap()),
            (StatusCode::OK, type_)
        );
        for _ in 0..2 {
            assert_eq!(stream.chunk().await.unwrap(), beat);
        }
    }
    let mut stream = Client::H2C.stream(&server.url("/rows.sse?_follow=1")).await;
    assert_eq!(stream.chunk().await.unwrap(), ":\n\n");
    writer.execute_batch("insert into t (note) values ('a')").unwrap();
    let event = loop {
        match stream.chunk().await.unwrap() {
            beat if beat == ":\n\n" => {}
            event => break String::from_utf8(event.to_vec()).unwrap(),
        }
    };
    assert!(event.starts_with("data: {\"id\":1,\"note\":\"a\"}\nid: "), "{event}");
}

#[tokio::test]
async fn compressed_rows_and_heartbeats_come_at_once() {
    let (_folder, url, writer) = sqlite();
    let server = server(&url, &ORDERED.replace("follow", "compression = \"on\"\n    follow")).await;
    for coding in CODINGS {
        let request = Request::get(server.url("/rows.ndjson?_follow=1")).header("accept-encoding", coding);
        let mut stream = Client::HTTP1.open(request.body(String::new()).unwrap()).await.unwrap();
        assert_eq!(stream.headers["content-encoding"], coding);
        writer.execute_batch("insert into t (note) values ('a')").unwrap();
        let (mut came, mut text) = (Vec::new(), Vec::new());
        while !text.ends_with(b"\n\n\n") {
            came.extend_from_slice(&stream.chunk().await.unwrap());
            text.clear();
            let mut decoder = decoder(coding, &mut text);
            decoder.write_all(&came).unwrap();
            decoder.flush().unwrap();
        }
        assert!(text.windows(10).any(|part| part == b"\"note\":\"a\""), "{coding}");
    }
}

#[tokio::test]
async fn a_row_waits_for_older_transactions() {
    let db = TestDb::new().await;
    db.execute(TABLE).await;
    let server = server(&db.url(), SETTLED).await;
    let mut lines = Lines::open(&server.url("/rows.ndjson?_follow=1")).await;
    let (older, younger) = (db.client().await, db.client().await);
    older.batch_execute("begin; insert into t (note) values ('older')").await.unwrap();
    younger.batch_execute("insert into t (note) values ('younger')").await.unwrap();
    lines.quiet(3).await;
    // Other requests don't see rows that can't be followed yet. Otherwise their cursors would skip
    // them.
    assert_eq!(get(&server.url("/rows.json")).await.text(), "[]");
    older.batch_execute("commit").await.unwrap();
    assert_eq!(lines.ids(2).await, [1, 2]);
    older.batch_execute("begin; insert into t (note) values ('never')").await.unwrap();
    younger.batch_execute("insert into t (note) values ('younger')").await.unwrap();
    lines.quiet(2).await;
    older.batch_execute("rollback").await.unwrap();
    assert_eq!(lines.ids(1).await, [4]);
}

/// A writer: transactions of a few rows, some rolled back, with pauses for commits of others.
/// Returns the committed ids.
async fn write(db: &TestDb, seed: u64, transactions: u32) -> Vec<u64> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut client = db.client().await;
    let mut committed = Vec::new();
    for _ in 0..transactions {
        let transaction = client.transaction().await.unwrap();
        let mut ids = Vec::new();
        for _ in 0..random.u32(1..4) {
            let row =
                transaction.query_one("insert into t (note) values ('x') returning id", &[]).await.unwrap();
            ids.push(u64::try_from(row.get::<_, i64>(0)).unwrap());
            tokio::time::sleep(Duration::from_millis(random.u64(0..40))).await;
        }
        match random.u32(0..5) {
            0 => transaction.rollback().await.unwrap(),
            _ => {
                transaction.commit().await.unwrap();
                committed.extend(ids);
            }
        }
        tokio::time::sleep(Duration::from_millis(random.u64(0..40))).await;
    }
    committed
}

/// Reads the ids of a followed stream up to `last`.
async fn follow_until(url: String, last: u64) -> Vec<u64> {
    let mut lines = Lines::open(&url).await;
    let mut ids = Vec::new();
    while ids.last() != Some(&last) {
        ids.extend(lines.ids(1).await);
    }
    ids
}

/// The same with a client that disconnects after every few rows and resumes after the last one.
async fn follow_in_parts(url: String, last: u64, seed: u64) -> Vec<u64> {
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut ids, mut after) = (Vec::new(), None);
    while ids.last() != Some(&last) {
        let mut request = Request::get(&url);
        if let Some(after) = &after {
            request = request.header("last-event-id", after);
        }
        let stream = Client::HTTP1.open(request.body(String::new()).unwrap()).await.unwrap();
        let mut lines = Lines { stream, read: Vec::new(), heartbeats: 0 };
        for _ in 0..random.u32(1..60) {
            let event = loop {
                let line = lines.line().await.unwrap();
                if let Some(data) = line.strip_prefix("data: ") {
                    break serde_json::from_str::<Value>(data).unwrap();
                }
            };
            ids.push(event["id"].as_u64().unwrap());
            let id = lines.line().await.unwrap();
            after = Some(id.strip_prefix("id: ").expect("each event has its cursor").to_owned());
            if ids.last() == Some(&last) {
                break;
            }
        }
    }
    ids
}

/// While writers are active, the last row isn't known. So this row is written after they have
/// finished.
const LAST: u64 = 1_000_000;

#[tokio::test]
async fn hundreds_of_writers_lose_no_row_and_double_none() {
    const WRITERS: u64 = 200;
    let db = std::sync::Arc::new(TestDb::new().await);
    db.execute(TABLE).await;
    let server = server(&db.url(), SETTLED).await;
    let mut followers = JoinSet::new();
    for path in ["/rows.ndjson?_follow=1", "/rows?feed=continuous", "/rows.ndjson?_follow=1&_numbers=number"]
    {
        followers.spawn(follow_until(server.url(path), LAST));
    }
    for seed in 0..3 {
        followers.spawn(follow_in_parts(server.url("/rows?feed=eventsource"), LAST, seed));
    }
    let mut writers = JoinSet::new();
    // Other tests share the instance.
    let room = std::sync::Arc::new(tokio::sync::Semaphore::new(40));
    for seed in 0..WRITERS {
        let (db, room) = (std::sync::Arc::clone(&db), std::sync::Arc::clone(&room));
        writers.spawn(async move {
            let _connection = room.acquire().await.unwrap();
            write(&db, seed, 4).await
        });
    }
    let committed: Vec<_> = writers.join_all().await.into_iter().flatten().collect();
    db.execute(&format!("insert into t (id, note) values ({LAST}, 'last')")).await;
    let expected: BTreeSet<_> = committed.iter().copied().chain([LAST]).collect();
    let order = db.client().await.query("select id from t order by tx, id", &[]).await.unwrap();
    let order: Vec<_> = order.iter().map(|row| u64::try_from(row.get::<_, i64>(0)).unwrap()).collect();
    assert!(order.windows(2).any(|pair| pair[0] > pair[1]), "transactions were out of order");
    for ids in followers.join_all().await {
        assert_eq!(ids.iter().copied().collect::<BTreeSet<_>>(), expected);
        assert_eq!(ids, order);
    }
}

#[tokio::test]
async fn a_notification_wakes_followers_at_once() {
    let db = TestDb::new().await;
    db.execute(TABLE).await;
    let rows = r#"/* key = ["tx", "id"]
        follow = { transaction = "tx", channel = "new \"rows\"", poll = "1h" }
        heartbeat = "100ms" */
        select tx, id from t order by tx, id"#;
    let server = server(&db.url(), rows).await;
    let mut lines = Lines::open(&server.url("/rows.ndjson?_follow=1")).await;
    lines.quiet(1).await;
    let (older, younger) = (db.client().await, db.client().await);
    younger.batch_execute(r#"insert into t default values; notify "new ""rows""""#).await.unwrap();
    assert_eq!(lines.ids(1).await, [1]);
    // The older one doesn't notify, so we poll for notified rows until they can be read.
    older.batch_execute("begin; insert into t default values").await.unwrap();
    younger.batch_execute(r#"insert into t default values; notify "new ""rows""""#).await.unwrap();
    lines.quiet(3).await;
    older.batch_execute("rollback").await.unwrap();
    assert_eq!(lines.ids(1).await, [3]);
}

/// The number of backends in a database whose current or last statement matches.
async fn backends(db: &TestDb, like: &str) -> i64 {
    let sql = "select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid() and query like $1";
    db.client().await.query_one(sql, &[&like]).await.unwrap().get(0)
}

#[tokio::test]
async fn followers_share_a_poller_and_hold_no_connection() {
    let db = TestDb::new().await;
    db.execute(TABLE).await;
    let server = server(&db.url(), SETTLED).await;
    // They arrive at once, as after a restart. A refused `EventSource` doesn't reconnect, so the
    // pool's queue would be too short for them.
    let opening = (0..200).map(|_| {
        let url = server.url("/rows.ndjson?_follow=1");
        tokio::spawn(async move { Lines::open(&url).await })
    });
    let opening: Vec<_> = opening.collect();
    let mut followers = Vec::new();
    for lines in opening {
        followers.push(lines.await.unwrap());
    }
    for last in 1..=3 {
        db.execute("insert into t default values").await;
        for lines in &mut followers {
            assert_eq!(lines.ids(1).await, [last]);
        }
    }
    assert_eq!(backends(&db, "%pg_current_snapshot() as s").await, 1, "one poller");
    // The pool has four connections. With all these followers, a list still gets one at once.
    assert_eq!(get(&server.url("/rows.json")).await.json().as_array().unwrap().len(), 3);
    drop(followers);
    for _ in 0..200 {
        if backends(&db, "%pg_current_snapshot() as s").await == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the poller outlived its followers");
}

/// The poller's backend was terminated, and all followers of the endpoint ended with it.
#[tokio::test]
async fn followers_stay_when_their_poller_loses_its_connection() {
    let db = TestDb::new().await;
    db.execute(TABLE).await;
    let server = server(&db.url(), SETTLED).await;
    let url = server.url("/rows.ndjson?_follow=1");
    let mut followers = [Lines::open(&url).await, Lines::open(&url).await];
    let kill = "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and query like '%pg_current_snapshot() as s'";
    for last in 1..=3 {
        while db.client().await.query(kill, &[]).await.unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        // While there's no poller.
        db.execute("insert into t default values").await;
        for lines in &mut followers {
            assert_eq!(lines.ids(1).await, [last]);
        }
    }
}

/// The same if all connections are lost at once and can be opened again later, as with a firewall
/// that forgets them.
#[tokio::test]
async fn followers_stay_when_all_connections_are_lost() {
    let db = TestDb::new().await;
    db.execute(TABLE).await;
    let proxy = TcpProxy::transparent((Ipv4Addr::LOCALHOST, pg_port()).into()).await;
    let url = db.url().replace(&format!(":{}/", pg_port()), &format!(":{}/", proxy.port()));
    let server = server(&url, SETTLED).await;
    let mut lines = Lines::open(&server.url("/rows.ndjson?_follow=1")).await;
    for (last, how) in (1..).zip([Cut::Reset, Cut::Close]) {
        db.execute("insert into t default values").await;
        assert_eq!(lines.ids(1).await, [2 * last - 1]);
        // While it waits, it runs no statement. A cut statement would fail the stream.
        lines.quiet(1).await;
        proxy.cut_now(how);
        db.execute("insert into t default values").await;
        assert_eq!(lines.ids(1).await, [2 * last]);
    }
}

/// If many transactions end, a follower reads all the time. So its stream usually failed when all
/// connections were lost.
#[tokio::test]
async fn followers_stay_when_a_reading_loses_its_connection() {
    let db = TestDb::new().await;
    db.execute(TABLE).await;
    let proxy = TcpProxy::transparent((Ipv4Addr::LOCALHOST, pg_port()).into()).await;
    let url = db.url().replace(&format!(":{}/", pg_port()), &format!(":{}/", proxy.port()));
    let slow = SETTLED.replace("order by", "where (select pg_sleep(0.3)::text) = '' order by");
    let server = server(&url, &slow).await;
    let mut lines = Lines::open(&server.url("/rows.ndjson?_follow=1")).await;
    for last in 1..=3 {
        db.execute("insert into t default values").await;
        assert_eq!(lines.ids(1).await, [last]);
    }
    for (last, how) in (4..).zip([Cut::Reset, Cut::Close]) {
        db.execute("insert into t default values").await;
        wait_until("it reads", async || is_reading(&db).await).await;
        proxy.cut_now(how);
        assert_eq!(lines.ids(1).await, [last]);
    }
}

async fn is_reading(db: &TestDb) -> bool {
    let sql = "select count(*) > 0 from pg_stat_activity where datname = current_database() and state = 'active' and query like '%pg_sleep(0.3)%' and pid <> pg_backend_pid()";
    db.client().await.query_one(sql, &[]).await.unwrap().get(0)
}

/// A statement that always loses its connection must fail eventually.
#[tokio::test]
async fn a_reading_that_ends_its_connection_each_time_fails_the_stream() {
    let db = TestDb::new().await;
    db.execute(TABLE).await;
    let ends = "where id < 2 or pg_terminate_backend(pg_backend_pid()) order by";
    let config = format!("[source.db]\nurl = \"{}\"\npool = {{ acquire_timeout = \"300ms\" }}\n", db.url());
    let sql = SETTLED.replace("order by", ends);
    let server = Server::start(&[("rowstream.toml", &config), ("endpoints/rows.sql", &sql)]).await;
    let mut lines = Lines::open(&server.url("/rows.ndjson?_follow=1")).await;
    db.execute("insert into t default values").await;
    assert_eq!(lines.ids(1).await, [1]);
    db.execute("insert into t default values").await;
    let ended = loop {
        match lines.line().await {
            Ok(line) => assert_eq!(line, "", "a heartbeat"),
            Err(ended) => break ended,
        }
    };
    assert!(matches!(ended, Ended::Broken(_)), "{ended:?}");
    server.wait_for_stdout(" 200 failed ").await;
}

#[tokio::test]
async fn followers_of_a_source_that_went_away_for_good_are_broken_off_and_go_on() {
    let db = TestDb::new().await;
    db.execute(TABLE).await;
    let proxy = TcpProxy::transparent((Ipv4Addr::LOCALHOST, pg_port()).into()).await;
    let away = db.url().replace(&format!(":{}/", pg_port()), &format!(":{}/", proxy.port()));
    let config = |url: &str| {
        format!(
            "[source.db]\nurl = \"{url}\"\npool = {{ max = 4, waiting = 10, acquire_timeout = \"300ms\" }}\n"
        )
    };
    let launch = |url: &str| {
        Launch::files(&[("rowstream.toml", config(url).as_str()), ("endpoints/rows.sql", SETTLED)])
    };
    let server = launch(&away).start().await;
    db.execute("insert into t default values").await;
    let mut lines = Lines::open(&server.url("/rows.ndjson?_follow=1&_end=1")).await;
    assert_eq!(lines.ids(1).await, [1]);
    let mark = lines.row().await.unwrap();
    let after = mark["mark"]["next"].as_str().expect("a mark is the heartbeat of the framed profile");
    drop(proxy);
    let mut failed = false;
    let ended = loop {
        match lines.row().await {
            Ok(record) => failed |= record["error"]["code"] == "source_unavailable",
            Err(ended) => break ended,
        }
    };
    assert!(matches!(ended, Ended::Broken(_)) && failed, "{ended:?}");
    db.execute("insert into t default values").await;
    let server = launch(&db.url()).start().await;
    let mut lines = Lines::open(&server.url(&format!("/rows.ndjson?_follow=1&_after={after}"))).await;
    assert_eq!(lines.ids(1).await, [2]);
}

#[tokio::test]
async fn a_long_poll_waits_for_the_first_row() {
    let (_folder, url, writer) = sqlite();
    let server = server(&url, ORDERED).await;
    let (reply, ()) = tokio::join!(get_owned(server.url("/rows.json?_follow=longpoll")), async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        writer.execute_batch("insert into t (note) values ('a')").unwrap();
    });
    assert_eq!(
        (reply.status, reply.ended, reply.body),
        (StatusCode::OK, Ended::Complete, r#"[{"id":1,"note":"a"}]"#.into())
    );
    // Existing rows are returned without waiting.
    let reply = get(&server.url("/rows?feed=longpoll&_end=1&_format=ndjson")).await;
    let lines: Vec<Value> = reply.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let after = lines[2]["end"]["next"].as_str().unwrap();
    let (reply, ()) =
        tokio::join!(get_owned(server.url(&format!("/rows.csv?_follow=longpoll&_after={after}"))), async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            writer.execute_batch("insert into t (note) values ('b')").unwrap();
        });
    assert_eq!(reply.text(), "id,note\r\n2,b\r\n");
}

/// A total beside the list counted as a row, so every long poll returned at once.
#[tokio::test]
async fn a_long_poll_waits_for_a_row_of_the_list() {
    let (_folder, url, writer) = sqlite();
    let rows = "/* key = [\"id\"]
        follow = { poll = \"20ms\" }
        timeout = { first_row = \"20s\", total = \"20s\" }
        body = { rows = \"$rows\", total = \"$total\" } */
        -- name: rows :many
        select id from t order by id;
        -- name: total :value
        select count(*) as n from t";
    let server = server(&url, rows).await;
    let (reply, ()) = tokio::join!(get_owned(server.url("/rows?_follow=longpoll")), async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        writer.execute_batch("insert into t (note) values ('a')").unwrap();
    });
    assert_eq!(reply.text(), r#"{"rows":[{"id":1}],"total":1}"#);
}

/// Marks were only written while rows were being read, but a follower has finished reading when its
/// row is sent. The columns are described once, although each row is a reading.
#[tokio::test]
async fn framed_followers_have_marks() {
    let (_folder, url, writer) = sqlite();
    let server = server(&url, &ORDERED.replace("100ms", "1h")).await;
    let mut lines = Lines::open(&server.url("/rows.ndjson?_follow=1&_end=1")).await;
    let (mut marks, mut columns) = (0, Vec::new());
    for id in 1..=3 {
        writer.execute_batch("insert into t (note) values ('a')").unwrap();
        loop {
            let record = lines.row().await.unwrap();
            if record["id"] == id {
                break;
            }
            match record.get("columns") {
                Some(described) => columns.push(described.clone()),
                None => marks += 1,
            }
        }
        tokio::time::sleep(Duration::from_millis(1100)).await;
    }
    assert!(marks > 0, "a row a second has marks");
    let expected = json!([{"name": "id", "type": "int64"}, {"name": "note", "type": "string"}]);
    assert_eq!(columns, [expected]);
}

/// As long as there was another row, a follower with a limit never checked for a shutdown.
#[tokio::test]
async fn the_end_of_the_server_ends_a_follower_in_the_middle_of_pages() {
    let (_folder, url, writer) = sqlite();
    let rows = "with recursive n(i) as (select 1 union all select i + 1 from n where i < 200000) insert into t (note) select i from n";
    writer.execute_batch(rows).unwrap();
    let rows = "/* key = [\"id\"]
        follow = true */
        select id from t order by id limit 10";
    let mut server = server(&url, rows).await;
    let mut lines = Lines::open(&server.url("/rows.ndjson?_follow=1&_end=1")).await;
    lines.row().await.unwrap();
    server.terminate();
    let (mut last, mut end) = (Value::Null, Value::Null);
    let ended = loop {
        match lines.row().await {
            Ok(record) if record["end"].is_object() => end = record,
            Ok(record) if record["id"].is_u64() => last = record["id"].clone(),
            Ok(_) => {}
            Err(ended) => break ended,
        }
    };
    assert_eq!((ended, &end["end"]["rows"]), (Ended::Complete, &last));
    assert!(last.as_u64() < Some(200_000), "it ended before the last row");
    server.wait_drained().await;
}

/// New settings apply to new requests. Existing followers keep the old ones.
#[tokio::test]
async fn followers_go_on_over_a_reload() {
    let (_folder, url, writer) = sqlite();
    let server = server(&url, ORDERED).await;
    let mut old = Lines::open(&server.url("/rows.ndjson?_follow=1")).await;
    let renamed = ORDERED.replace("id, note", "id, note as text");
    std::fs::write(server.folder().join("endpoints/rows.sql"), renamed).unwrap();
    server.hang_up();
    server.wait_for_stderr("reloaded").await;
    let mut new = Lines::open(&server.url("/rows.ndjson?_follow=1")).await;
    writer.execute_batch("insert into t (note) values ('a')").unwrap();
    assert_eq!(old.row().await.unwrap(), serde_json::json!({"id": 1, "note": "a"}));
    assert_eq!(new.row().await.unwrap(), serde_json::json!({"id": 1, "text": "a"}));
}

#[tokio::test]
async fn followers_of_a_file_that_is_replaced_are_broken_off() {
    let (folder, url, writer) = sqlite();
    writer.execute_batch("insert into t (note) values ('a')").unwrap();
    let server = server(&url, ORDERED).await;
    let mut lines = Lines::open(&server.url("/rows.ndjson?_follow=1")).await;
    assert_eq!(lines.ids(1).await, [1]);
    let file = folder.path().join("test.db");
    std::fs::copy(&file, folder.path().join("new.db")).unwrap();
    std::fs::rename(folder.path().join("new.db"), &file).unwrap();
    while let Ok(line) = lines.line().await {
        assert_eq!(line, "");
    }
}

async fn get_owned(url: String) -> crate::support::Reply {
    get(&url).await
}

#[tokio::test]
async fn a_limit_is_that_of_one_reading() {
    let (_folder, url, writer) = sqlite();
    let insert = "with recursive n(i) as (select 1 union all select i + 1 from n where i < 10) insert into t (note) select i from n";
    writer.execute_batch(insert).unwrap();
    let rows = r#"/* key = ["id"]
        follow = { poll = "20ms" }
        [params]
        most = { type = "integer", optional = true } */
        select id from t order by id limit :most"#;
    let server = server(&url, rows).await;
    let mut lines = Lines::open(&server.url("/rows.ndjson?_follow=1&most=3")).await;
    assert_eq!(lines.ids(10).await, (1..=10).collect::<Vec<_>>());
    writer.execute_batch(insert).unwrap();
    assert_eq!(lines.ids(10).await, (11..=20).collect::<Vec<_>>());
}

#[tokio::test]
async fn the_end_of_the_server_ends_followers_with_their_cursor() {
    let (_folder, url, writer) = sqlite();
    writer.execute_batch("insert into t (note) values ('a')").unwrap();
    let mut server = server(&url, ORDERED).await;
    let mut lines = Lines::open(&server.url("/rows.ndjson?_follow=1&_end=1")).await;
    assert_eq!(lines.ids(1).await, [1]);
    writer.execute_batch("insert into t (note) values ('b')").unwrap();
    let mut ids = Vec::new();
    while ids.is_empty() {
        ids.extend(lines.row().await.unwrap()["id"].as_u64());
    }
    server.terminate();
    let end = loop {
        let record = lines.row().await.expect("an end record");
        if record["end"].is_object() {
            break record;
        }
    };
    assert_eq!(end["end"]["rows"], 2);
    assert!(end["end"]["next"].is_string(), "{end}");
    assert_eq!(lines.row().await, Err(Ended::Complete));
    server.wait_drained().await;
}

#[tokio::test]
async fn what_cannot_be_followed_says_why() {
    let (_folder, url, _writer) = sqlite();
    let config = format!("[source.db]\nurl = \"{url}\"\n");
    let plain = "/* key = [\"id\"] */ select id from t order by id";
    let own = "/* [params]\nfeed = \"text\" */ select :feed as feed";
    let files = [
        ("rowstream.toml", &config[..]),
        ("endpoints/rows.sql", ORDERED),
        ("endpoints/plain.sql", plain),
        ("endpoints/own.sql", own),
    ];
    let server = Server::start(&files).await;
    for (path, name, words) in [
        ("/rows.json?_follow=1", "_follow", "`json` can't stay open"),
        ("/rows?_format=csv&feed=continuous", "_follow", "`csv` can't stay open"),
        ("/rows?_follow=2", "_follow", "is not one of"),
        ("/rows?feed=eventsource&_follow=1", "feed", "`_follow` already selects it"),
        ("/rows.ndjson?_follow=1&_wait=end", "_wait", "no end to wait for"),
        ("/plain?_follow=1", "_follow", "has no live tail"),
        ("/plain?feed=normal", "feed", "has no live tail"),
    ] {
        let reply = get(&server.url(path)).await;
        assert_eq!(reply.status, StatusCode::BAD_REQUEST, "{path}");
        let problem = reply.json();
        assert_eq!(problem["parameters"][0]["name"], name, "{path}: {problem}");
        assert!(problem["detail"].as_str().unwrap().contains(words), "{path}: {problem}");
    }
    // An endpoint's own parameter has precedence. A request without a format gets one that can stay
    // open.
    assert_eq!(get(&server.url("/own?feed=normal")).await.json()[0]["feed"], "normal");
    assert_eq!(get(&server.url("/rows?feed=normal")).await.text(), "[]");
    let stream = Client::HTTP1.stream(&server.url("/rows?_follow=1")).await;
    assert_eq!(stream.headers["content-type"], "application/x-ndjson");
}

#[tokio::test]
async fn a_transaction_that_is_null_is_refused() {
    let db = TestDb::new().await;
    db.execute("create table t (id bigserial, tx xid8, note text); insert into t (note) values ('a')").await;
    let server = server(&db.url(), SETTLED).await;
    let reply = get(&server.url("/rows.json")).await;
    assert_eq!(reply.status, StatusCode::INTERNAL_SERVER_ERROR);
    assert!(reply.json()["detail"].as_str().unwrap().contains("NULL in its key"), "{}", reply.text());
}

/// Rows from a restored dump have transactions of another server. They were omitted until this
/// server had reached those transaction ids, and the response looked complete.
#[tokio::test]
async fn rows_of_another_server_are_refused() {
    let db = TestDb::new().await;
    db.execute(&format!(
        "{TABLE}; insert into t (note) values ('a'); insert into t (tx) values ('9000000000')"
    ))
    .await;
    let server = server(&db.url(), SETTLED).await;
    for path in ["/rows.json", "/rows.ndjson?_follow=1", "/rows?_follow=longpoll"] {
        let reply = get(&server.url(path)).await;
        assert_eq!(reply.status, StatusCode::INTERNAL_SERVER_ERROR, "{path}");
        assert!(reply.json()["detail"].as_str().unwrap().contains("hasn't begun yet"), "{}", reply.text());
    }
    db.execute("update t set tx = pg_current_xact_id() where tx = '9000000000'").await;
    let mut lines = Lines::open(&server.url("/rows.ndjson?_follow=1")).await;
    assert_eq!(lines.ids(2).await, [1, 2]);
}

/// The code that a page needs to follow a list. It doesn't know about cursors.
const EVENT_SOURCE: &str = "
    window.seen = { ids: [], opened: 0 };
    const source = new EventSource('/rows.sse?_follow=1');
    source.onopen = () => { seen.opened += 1; };
    source.onmessage = (event) => { seen.ids.push(JSON.parse(event.data).id); };";

#[tokio::test]
async fn an_event_source_follows_over_a_restart() {
    let (_folder, url, writer) = sqlite();
    let (mut server, browser) = tokio::join!(server(&url, ORDERED), Browser::start());
    let address = server.address().to_owned();
    browser.open(&format!("http://{address}/_rowstream/live")).await;
    browser.run(EVENT_SOURCE).await;
    let insert = "insert into t (note) values ('a')";
    writer.execute_batch(insert).unwrap();
    assert_eq!(seen(&browser, 1).await, [1]);
    server.terminate();
    server.wait_exit().await;
    writer.execute_batch(insert).unwrap();
    let _server = launch(&url, ORDERED).listen(&address).start().await;
    writer.execute_batch(insert).unwrap();
    assert_eq!(seen(&browser, 3).await, [1, 2, 3]);
    assert!(browser.run("return seen.opened;").await.as_u64() >= Some(2));
}

/// Waits until the page has seen this many ids, and returns them.
async fn seen(browser: &Browser, rows: usize) -> Vec<u64> {
    wait_until(&format!("the page sees {rows} rows"), async || {
        let seen = browser.run("return seen.ids;").await;
        let ids: Vec<_> = seen.as_array().unwrap().iter().filter_map(Value::as_u64).collect();
        if ids.len() >= rows { Ok(ids) } else { Err(seen) }
    })
    .await
}

/// The cursor of a list's last row.
async fn last_cursor(server: &Server) -> String {
    let events = get(&server.url("/rows.sse")).await;
    let mut ids = events.text().lines().rev().filter_map(|line| line.strip_prefix("id: "));
    assert_eq!(ids.next(), Some("end"));
    ids.next().expect("a row has a cursor").to_owned()
}

/// New rows had lower numbers than a follower's last one, so the follower waited forever.
async fn numbers_restart(url: &str, execute: impl AsyncFn(&'static str), restart: &'static str) {
    let rows = r#"/* key = ["id"]
        follow = { commits = "ordered", poll = "20ms" }
        heartbeat = "100ms" */
        select id, note from t"#;
    let server = server(url, rows).await;
    execute("insert into t (note) values ('a'), ('b'), ('c')").await;
    let mut lines = Lines::open(&server.url("/rows.ndjson?_follow=1")).await;
    assert_eq!(lines.ids(3).await, [1, 2, 3]);
    let after = last_cursor(&server).await;
    // An emptied table, such as an outbox, isn't refused.
    execute("delete from t").await;
    lines.quiet(3).await;
    assert_eq!(get(&server.url(&format!("/rows?_after={after}"))).await.text(), "[]");
    execute("insert into t (note) values ('d')").await;
    assert_eq!(lines.ids(1).await, [4]);
    let after = last_cursor(&server).await;
    // Neither is a table with rows beyond the counter.
    execute("insert into t (id, note) values (50, 'e')").await;
    assert_eq!(lines.ids(1).await, [50]);
    execute(restart).await;
    let ended = loop {
        if let Err(ended) = lines.line().await {
            break ended;
        }
    };
    assert!(matches!(ended, Ended::Broken(_)), "{ended:?}");
    for query in ["", "&_follow=1", "&_follow=longpoll"] {
        let reply = get(&server.url(&format!("/rows.ndjson?_after={after}{query}"))).await;
        assert_eq!((reply.status.as_u16(), &reply.json()["code"]), (410, &"cursor_ahead".into()), "{query}");
    }
    execute("insert into t (note) values ('f')").await;
    let mut lines = Lines::open(&server.url("/rows.ndjson?_follow=1")).await;
    assert_eq!(lines.ids(1).await, [1]);
}

#[tokio::test]
async fn a_sequence_that_restarts_ends_followers() {
    let db = TestDb::new().await;
    db.execute("create table t (id bigserial primary key, note text)").await;
    let execute = async |sql: &'static str| db.execute(sql).await;
    numbers_restart(&db.url(), execute, "truncate t restart identity").await;
}

#[tokio::test]
async fn a_counter_of_sqlite_that_restarts_ends_followers() {
    let (_folder, url, writer) = sqlite();
    let execute = async |sql: &'static str| writer.execute_batch(sql).unwrap();
    numbers_restart(&url, execute, "begin; delete from t; delete from sqlite_sequence; commit").await;
}

/// After `truncate`, followers waited until the new keys had passed their position.
#[tokio::test]
async fn a_counter_of_mariadb_that_restarts_ends_followers() {
    let db = MariaDb::new("create table t (id bigint auto_increment primary key, note varchar(9))");
    let execute = async |sql: &'static str| db.execute(sql);
    numbers_restart(&db.url(), execute, "truncate t").await;
}

/// After a failover or a restored backup, the transactions of a cursor haven't begun yet.
#[tokio::test]
async fn a_cursor_of_a_transaction_that_is_yet_to_begin_is_refused() {
    let db = TestDb::new().await;
    db.execute(TABLE).await;
    db.execute("insert into t (tx) values (pg_current_xact_id()), ('9223372036854775807')").await;
    let before = server(&db.url(), &SETTLED.replace("transaction = \"tx\"", "commits = \"ordered\"")).await;
    let after = last_cursor(&before).await;
    db.execute("delete from t where tx = '9223372036854775807'").await;
    let server = server(&db.url(), SETTLED).await;
    let reply = get(&server.url(&format!("/rows.ndjson?_after={after}&_follow=1"))).await;
    assert_eq!((reply.status.as_u16(), &reply.json()["code"]), (410, &"cursor_ahead".into()));
    assert!(reply.json()["hint"].as_str().unwrap().contains("failover"), "{}", reply.text());
    let after = last_cursor(&server).await;
    db.execute("delete from t").await;
    assert_eq!(get(&server.url(&format!("/rows?_after={after}"))).await.text(), "[]");
}

/// `check` warns about keys that a follower may already have passed.
#[tokio::test]
async fn keys_that_are_used_again_are_warned_of() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t.db");
    let sqlite = rusqlite::Connection::open(&file).unwrap();
    sqlite
        .execute_batch(
            "create table a (id integer primary key); create table b (id integer primary key autoincrement);
             create table c (id integer, x text primary key) without rowid",
        )
        .unwrap();
    let db = TestDb::new().await;
    db.execute(
        "create table a (id bigserial primary key); alter sequence a_id_seq cache 20; create table b (id bigserial primary key);
         create table c (id bigint primary key)",
    )
    .await;
    for (url, warning) in [
        (format!("sqlite:{}", file.display()), "integer primary key autoincrement"),
        (db.url(), "alter sequence"),
    ] {
        for (table, warned) in [("a", true), ("b", false), ("c", false)] {
            let rows =
                format!("/* key = [\"id\"]\nfollow = {{ commits = \"ordered\" }} */ select id from {table}");
            let launch = launch(&url, &rows);
            let config = launch.path().join("rowstream.toml");
            let output = rowstream(&["check", "--config", config.to_str().unwrap()]).await;
            let said = [output.stdout, output.stderr].concat();
            let said = String::from_utf8_lossy(&said);
            assert!(output.status.success(), "{url}: {table}: {said}");
            assert_eq!(said.contains(warning), warned, "{url}: {table}: {said}");
        }
    }
}

/// A tail that waits for a transaction looked like one without new rows. The metric and the log now
/// show it, with the session, or the name if it's prepared.
#[tokio::test]
async fn a_tail_that_waits_for_a_transaction_says_so() {
    let db = TestDb::new().await;
    db.execute(TABLE).await;
    let server = server(&db.url(), SETTLED).await;
    let mut lines = Lines::open(&server.url("/rows.ndjson?_follow=1")).await;
    let waited = async || {
        let metrics = get(&server.url("/_rowstream/metrics")).await;
        let text = metrics.text();
        let line = text.lines().find(|line| line.starts_with("rowstream_follow_wait_seconds{")).unwrap();
        let (labels, seconds) = line.split_once(' ').unwrap();
        assert_eq!(labels, "rowstream_follow_wait_seconds{source=\"db\"}");
        seconds.parse::<f64>().unwrap()
    };
    let writer = db.client().await;
    let pid: i32 = writer.query_one("select pg_backend_pid()", &[]).await.unwrap().get(0);
    writer.batch_execute("begin; insert into t (note) values ('a')").await.unwrap();
    db.execute("insert into t (note) values ('b')").await;
    server.wait_for_stderr(&format!("pid {pid} of user ")).await;
    assert!(waited().await > 0.0);
    lines.quiet(1).await;
    writer.batch_execute("prepare transaction 'two''s'").await.unwrap();
    assert!(waited().await > 0.0);
    lines.quiet(1).await;
    // A poller that begins later finds it prepared.
    let other = self::server(&db.url(), SETTLED).await;
    let mut later = Lines::open(&other.url("/rows.ndjson?_follow=1")).await;
    db.execute("insert into t (note) values ('c')").await;
    other.wait_for_stderr("prepared as 'two''s' by user ").await;
    writer.batch_execute("commit prepared 'two''s'").await.unwrap();
    assert_eq!(lines.ids(3).await, [1, 2, 3]);
    assert_eq!(later.ids(3).await, [1, 2, 3]);
    server.wait_for_stderr("live tails wait no longer for transaction ").await;
}
