//! Rows of one table that several requests read from one snapshot, one part each (`_shard`).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rowstream_core::cursor::Signer;
use rowstream_core::params::ParamValue;
use rowstream_encode::{CsvDialect, ValueOptions};

use crate::parallel::{LocksAlone, SMALL, assert_is_one_state, server, sorted, until, write_on};
use crate::support::{Client, Ended, Reply, Server, TestDb, get, rowstream};

const SHARDS: &str = "/*\nshards = 8\n*/\nselect * from event";

fn token(reply: &Reply) -> &str {
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply.header("rowstream-snapshot").expect("a shard has its token")
}

fn code(reply: &Reply) -> (u16, String) {
    (reply.status.as_u16(), reply.json()["code"].as_str().unwrap_or_default().to_owned())
}

/// Ends the server's connections with a transaction, and waits until they're gone.
async fn end_keepers(db: &TestDb) {
    let ends = "select count(pg_terminate_backend(pid)) = 0 from pg_stat_activity
        where datname = current_database() and application_name = 'rowstream' and xact_start is not null";
    until(db, ends).await;
}

/// The shards `2/of` to `of/of` of the endpoint `/s`, in parallel.
async fn others(server: &Server, format: &str, of: u32, token: &str) -> Vec<Reply> {
    let shard = |shard| {
        let url = server.url(&format!("/s{format}?_shard={shard}/{of}&_snapshot={token}"));
        async move { get(&url).await }
    };
    futures_util::future::join_all((2..=of).map(shard)).await
}

#[tokio::test]
async fn the_shards_are_the_whole_in_every_format() {
    let db = TestDb::new().await;
    db.execute(SMALL).await;
    db.execute("delete from event where id % 7 = 0; update event set moved = 1 where id % 3 = 0").await;
    // A quarter of the pool can keep snapshots.
    let server = server(&db, 40, &[("s", SHARDS)]).await;
    for (format, header) in [(".ndjson", false), (".csv", true)] {
        let whole = get(&server.url(&format!("/s{format}"))).await;
        assert_eq!((&whole.ended, whole.header("rowstream-snapshot")), (&Ended::Complete, None));
        for of in [1, 3, 8] {
            let first = get(&server.url(&format!("/s{format}?_shard=1/{of}"))).await;
            let token = token(&first).to_owned();
            let mut replies = others(&server, format, of, &token).await;
            assert!(replies.iter().all(|reply| reply.header("rowstream-snapshot") == Some(&token)));
            assert!(replies.iter().chain([&first]).all(|reply| reply.ended == Ended::Complete));
            replies.push(first);
            let head = usize::from(header);
            let lines = replies.iter().flat_map(|reply| reply.text().lines().skip(head));
            let union = lines.collect::<Vec<_>>().join("\n");
            let rows = whole.text().lines().skip(head).collect::<Vec<_>>().join("\n");
            assert_eq!(sorted(&union), sorted(&rows), "{format}, {of} shards");
            assert!(of == 1 || replies.iter().all(|reply| reply.text().lines().count() < 4000), "parts");
            // A shard can be repeated. With a new snapshot, the token would be different.
            let again = get(&server.url(&format!("/s{format}?_shard=1/{of}&_snapshot={token}"))).await;
            assert_eq!(again.text(), replies[replies.len() - 1].text());
            let held =
                get(&server.url(&format!("/s{format}?_shard=1/{of}&_snapshot={token}&_wait=end"))).await;
            assert_eq!((held.header("rowstream-snapshot"), held.text()), (Some(&*token), again.text()));
        }
    }
    let framed = get(&server.url("/s.ndjson?_shard=1/1&_end=1")).await;
    let last = framed.text().lines().last().unwrap().to_owned();
    let end: serde_json::Value = serde_json::from_str(&last).unwrap();
    let is_record = |line: &&str| line.starts_with("{\"$rowstream\"");
    assert_eq!(end["end"]["rows"], framed.text().lines().filter(|line| !is_record(line)).count());
    assert_eq!(end["end"]["rows"], (1..=6000).filter(|id| id % 7 != 0).count());
}

#[tokio::test]
async fn the_shards_are_of_one_snapshot_while_others_write() {
    let db = TestDb::new().await;
    db.execute(SMALL).await;
    db.execute("alter table event add primary key (id)").await;
    let server = server(&db, 40, &[("s", SHARDS)]).await;
    let stop = Arc::new(AtomicBool::new(false));
    let writers = [write_on(&db, 0, &stop), write_on(&db, 2500, &stop)];
    for of in [2, 3, 4, 5, 6, 7, 8] {
        let first = get(&server.url(&format!("/s?_shard=1/{of}"))).await;
        // Meanwhile the table grows and its rows move.
        until(&db, "select max(moved) > 0 from event").await;
        let token = token(&first).to_owned();
        let mut replies = others(&server, "", of, &token).await;
        replies.push(first);
        assert_is_one_state(&replies);
    }
    stop.store(true, Ordering::Relaxed);
    for writer in writers {
        assert!(writer.await.unwrap() > 10, "it was written meanwhile");
    }
}

#[tokio::test]
async fn what_names_no_shard_is_refused() {
    let db = TestDb::new().await;
    db.execute(SMALL).await;
    let of_values =
        "/*\nshards = 8\n[params]\nleast = \"integer\"\n*/\nselect id from event where id > :least";
    let endpoints = [("s", SHARDS), ("t", SHARDS), ("v", of_values), ("whole", "select * from event")];
    let server = server(&db, 40, &endpoints).await;
    let first = get(&server.url("/s?_shard=1/3")).await;
    let token = token(&first);
    let of_v = get(&server.url("/v?least=1&_shard=1/3")).await;
    let token_of_v = of_v.header("rowstream-snapshot").expect("it has one");
    for (path, name, why) in [
        ("/s?_shard=", "_shard", "write `i/n`"),
        ("/s?_shard=0/3", "_shard", "write `i/n`"),
        ("/s?_shard=4/3", "_shard", "write `i/n`"),
        ("/s?_shard=1/9", "_shard", "at most 8 shards"),
        ("/s?_shard=1/3&_shard=2/3", "_shard", "more than once"),
        ("/s?_shard=2/3", "_snapshot", "request `_shard=1/n` first"),
        ("/s?_shard=2/3&_snapshot=", "_snapshot", "isn't a token of this endpoint"),
        ("/s?_shard=2/3&_snapshot=00000003-0000001B-1", "_snapshot", "isn't a token of this endpoint"),
        (&format!("/s?_shard=2/3&_snapshot={token}A"), "_snapshot", "isn't a token of this endpoint"),
        (&format!("/s?_shard=2/4&_snapshot={token}"), "_snapshot", "this number of shards"),
        (&format!("/t?_shard=2/3&_snapshot={token}"), "_snapshot", "isn't a token of this endpoint"),
        (&format!("/v?least=2&_shard=2/3&_snapshot={token_of_v}"), "_snapshot", "with these parameters"),
        (&format!("/s?_snapshot={token}"), "_snapshot", "which is missing"),
        ("/whole?_shard=1/3", "_shard", "has no `shards`"),
        ("/s?_after=x", "_after", "only the shards"),
        ("/s?_shard=1/3&_after=x", "_snapshot", "`_after` continues a shard of a snapshot"),
        ("/whole?_after=x", "_after", "has no `key`"),
    ] {
        let reply = get(&server.url(path)).await;
        assert_eq!(code(&reply), (400, "invalid_parameter".to_owned()), "{path}: {}", reply.text());
        let parameters = &reply.json()["parameters"][0];
        assert_eq!(parameters["name"], name, "{path}: {}", reply.text());
        assert!(reply.text().contains(why), "{path}: {}", reply.text());
    }
    // The failed ones haven't affected the others.
    assert_eq!(others(&server, "", 3, token).await.iter().filter(|reply| reply.status == 200).count(), 2);
}

#[tokio::test]
async fn a_snapshot_that_is_gone_is_said_to_be() {
    let db = TestDb::new().await;
    db.execute(SMALL).await;
    let server = server(&db, 5, &[("s", SHARDS)]).await;
    let first = get(&server.url("/s?_shard=1/2")).await;
    let second = server.url(&format!("/s?_shard=2/2&_snapshot={}", token(&first)));
    assert_eq!(get(&second).await.status, 200);
    // This pool has room for one snapshot.
    let refused = get(&server.url("/s?_shard=1/2")).await;
    assert_eq!(code(&refused), (503, "too_many_snapshots".to_owned()));
    // The snapshot was read just now, and is kept for a minute.
    let after = refused.json()["retry_after"].as_u64().unwrap();
    assert!(
        (2..=61).contains(&after) && refused.header("retry-after") == Some(&after.to_string()),
        "{after}"
    );
    end_keepers(&db).await;
    let gone = get(&second).await;
    assert_eq!(code(&gone), (410, "snapshot_expired".to_owned()), "{}", gone.text());
    assert!(gone.json()["hint"].as_str().unwrap().contains("start again"));
    // Its slot is soon free again, also for other requests.
    let mut again = get(&server.url("/s?_shard=1/2")).await;
    while again.status == 503 {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        again = get(&server.url("/s?_shard=1/2")).await;
    }
    assert_ne!(token(&again), token(&first));
}

/// A snapshot determines the visible rows, but not their positions. If the table is rewritten, the
/// positions change. Here the token is forged, because a kept snapshot prevents rewriting the
/// table.
#[tokio::test]
async fn a_table_that_was_written_anew_is_not_read_by_the_places_of_before() {
    let db = TestDb::new().await;
    db.execute(SMALL).await;
    let server = server(&db, 5, &[("s", SHARDS)]).await;
    let exports = db.client().await;
    exports.batch_execute("begin isolation level repeatable read").await.unwrap();
    let row = exports
        .query_one(
            "select pg_export_snapshot(), pg_relation_filenode('event')::int8, current_database()",
            &[],
        )
        .await
        .unwrap();
    let (snapshot, file): (String, i64) = (row.get(0), row.get(1));
    let of_file = |file: i64| {
        let sql = "\nselect * from event where ctid >= $1::tid and ctid < $2::tid";
        let form = format!("{:?} {:?}", CsvDialect::default(), ValueOptions::DEFAULT);
        let signer =
            Signer::new("", &["shards", "/s", sql, &form]).bind([("", &ParamValue::Integer(1))].into_iter());
        let mut token = Vec::new();
        signer.seal(&[format!(r#"["{snapshot}","100","{file}"]"#).as_bytes()], &mut token);
        server.url(&format!("/s.ndjson?_shard=1/1&_snapshot={}", String::from_utf8(token).unwrap()))
    };
    let read = get(&of_file(file)).await;
    assert_eq!((read.status.as_u16(), read.text().lines().count()), (200, 6000), "{}", read.text());
    assert_eq!(code(&get(&of_file(file + 1)).await), (410, "snapshot_expired".to_owned()));
}

/// A shard doesn't wait for transactions that wait for an exclusive lock, because they wait for the
/// snapshot.
#[tokio::test]
async fn a_shard_waits_for_no_lock() {
    let db = TestDb::new().await;
    db.execute(SMALL).await;
    let server = server(&db, 5, &[("s", SHARDS)]).await;
    let first = get(&server.url("/s?_shard=1/2")).await;
    let second = server.url(&format!("/s?_shard=2/2&_snapshot={}", token(&first)));
    let locks = LocksAlone::begin(&db).await;
    let refused = get(&second).await;
    assert_eq!(code(&refused), (503, "source_unavailable".to_owned()), "{}", refused.text());
    end_keepers(&db).await;
    locks.end().await;
    assert_eq!(code(&get(&second).await), (410, "snapshot_expired".to_owned()));
}

#[tokio::test]
async fn a_shard_that_is_cut_is_read_again() {
    let db = TestDb::new().await;
    db.execute(
        "create table event as select n as id, repeat('x', 100) as t from generate_series(1, 200000) n",
    )
    .await;
    let server = server(&db, 5, &[("s", SHARDS)]).await;
    let mut cut = Client::HTTP1.receive_buffer(64 * 1024).stream(&server.url("/s.ndjson?_shard=1/2")).await;
    let token = cut.headers["rowstream-snapshot"].to_str().unwrap().to_owned();
    cut.at_least(10_000).await;
    drop(cut);
    db.execute("delete from event").await;
    let mut rows = 0;
    for shard in [1, 2] {
        let reply = get(&server.url(&format!("/s.ndjson?_shard={shard}/2&_snapshot={token}"))).await;
        assert_eq!((reply.status.as_u16(), &reply.ended), (200, &Ended::Complete));
        rows += reply.text().lines().count();
    }
    assert_eq!(rows, 200_000);
}

/// The framed shard `path`, whose connections are cut. Each is continued from its last mark.
struct CutShard<'a> {
    server: &'a Server,
    path: String,
    rows: Vec<String>,
    after: Option<String>,
}

impl<'a> CutShard<'a> {
    fn new(server: &'a Server, path: String) -> Self {
        Self { server, path, rows: Vec::new(), after: None }
    }

    /// Reads a connection that is cut after `bytes`. Keeps the rows before the last mark, and
    /// returns true at the end of the shard.
    async fn read(&mut self, bytes: usize) -> bool {
        let after = self.after.as_ref().map(|after| format!("&_after={after}")).unwrap_or_default();
        let mut stream = Client::HTTP1.stream(&self.server.url(&format!("{}{after}", self.path))).await;
        assert_eq!(stream.status, 200, "{}{after}", self.path);
        let tag = stream.headers["rowstream-tag"].to_str().unwrap().to_owned();
        let mut body = stream.at_least(bytes).await.to_vec();
        body.truncate(bytes);
        let whole = body.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
        let mut pending = Vec::new();
        for line in std::str::from_utf8(&body[..whole]).unwrap().lines() {
            let line = line.trim_start_matches('\x1e');
            let record: serde_json::Value = serde_json::from_str(line).unwrap();
            if record["$rowstream"] != *tag {
                pending.push(line.to_owned());
            } else if let Some(next) = record["mark"]["next"].as_str() {
                self.after = Some(next.to_owned());
                self.rows.append(&mut pending);
            } else if !record["columns"].is_array() {
                assert!(record["end"].is_object() && record["end"]["next"].is_null(), "{line}");
                self.rows.append(&mut pending);
                return true;
            }
        }
        false
    }
}

/// A table with free places on each page, and updated rows that stayed on their page or moved.
const HOLES: &str = "create table event with (fillfactor = 90) as
        select n as id, repeat('x', n % 100) as t, 0 as moved, now() as at
        from generate_series(1, 9000) n order by n * 7919 % 9000;
    alter table event add primary key (id);
    delete from event where id > 6000;
    update event set moved = 0 where id % 3 = 0";

/// Lets the planner prefer indexes and parallel workers, whose rows aren't by place.
const OTHER_PLANS: &str = "do $$ begin
    execute (select string_agg(format('alter database %I set %s = 0', current_database(), name), ';')
        from unnest(array['random_page_cost', 'cpu_index_tuple_cost', 'parallel_setup_cost',
            'parallel_tuple_cost', 'min_parallel_table_scan_size', 'min_parallel_index_scan_size']) name);
    end $$";
/// Prevents the scan of a range of places.
const NO_RANGES: &str =
    "do $$ begin execute format('alter database %I set enable_tidscan = off', current_database()); end $$";

/// Conditions that would otherwise be read by an index, or become a join.
const CONDITION: &str = "/*
shards = 8
[params]
most = \"integer\"
*/
select id, t, moved from event as e -- all of them
where id <= :most and id in (select id from event)";

/// Reads each shard of a new snapshot several times, with random cuts, and checks that it has the
/// rows of one state. Returns the number of cuts.
async fn read_with_cuts(server: &Server, path: &str, of: u32, random: &mut fastrand::Rng) -> usize {
    let first = get(&server.url(&format!("{path}_shard=1/{of}"))).await;
    let token = token(&first);
    let (mut ids, mut sum, mut cuts) = (Vec::new(), 0, 0);
    for shard in 1..=of {
        let shard = format!("{path}_shard={shard}/{of}&_snapshot={token}");
        let uncut = get(&server.url(&shard)).await;
        let uncut = uncut.text().replace('\x1e', "");
        for _ in 0..4 {
            let mut cut = CutShard::new(server, format!("{shard}&_end=1"));
            while !cut.read(random.usize(1..(8000 - cut.rows.len()) * 60)).await {
                cuts += 1;
            }
            assert_eq!(sorted(&cut.rows.join("\n")), sorted(&uncut), "{shard}");
        }
        for row in uncut.lines() {
            let row: serde_json::Value = serde_json::from_str(row).unwrap();
            ids.push(row["id"].as_i64().unwrap());
            sum += row["moved"].as_i64().unwrap();
        }
    }
    ids.sort_unstable();
    assert!(ids.into_iter().eq(1..=6000), "each row once");
    assert_eq!(sum, 0);
    cuts
}

#[tokio::test]
async fn a_shard_is_continued_after_any_cut_while_others_write() {
    let db = TestDb::new().await;
    db.execute(HOLES).await;
    db.execute("vacuum analyze event").await;
    db.execute("update event set moved = 0 where id % 5 = 0").await;
    let stop = Arc::new(AtomicBool::new(false));
    let writers = [write_on(&db, 0, &stop), write_on(&db, 2500, &stop)];
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let (mut random, mut cuts) = (fastrand::Rng::with_seed(seed), 0);
    for (plans, paths) in [
        (OTHER_PLANS, ["/s.ndjson?", "/c.ndjson?most=6000&"]),
        (NO_RANGES, ["/s.json-seq?", "/c.ndjson?most=6000&"]),
    ] {
        db.execute(plans).await;
        let server = server(&db, 40, &[("s", SHARDS), ("c", CONDITION)]).await;
        for (path, of) in paths.into_iter().flat_map(|path| [(path, 1), (path, 3)]) {
            cuts += read_with_cuts(&server, path, of, &mut random).await;
        }
    }
    stop.store(true, Ordering::Relaxed);
    for writer in writers {
        assert!(writer.await.unwrap() > 10, "it was written meanwhile");
    }
    println!("{cuts} cuts");
    assert!(cuts >= 50, "{cuts} cuts");
}

/// The cursor of a mark of a shard, and the number of rows before it.
async fn mark(server: &Server, path: &str) -> (String, usize) {
    let mut shard = CutShard::new(server, format!("{path}&_end=1"));
    assert!(!shard.read(30_000).await, "the shard isn't cut");
    (shard.after.expect("a shard has marks"), shard.rows.len())
}

#[tokio::test]
async fn a_cursor_is_for_its_shard_of_its_snapshot() {
    let db = TestDb::new().await;
    db.execute(SMALL).await;
    let of_values =
        "/*\nshards = 8\n[params]\nleast = \"integer\"\n*/\nselect id from event where id > :least";
    let ids = "/*\nshards = 8\n*/\nselect id from event";
    let server = server(&db, 40, &[("s", ids), ("t", ids), ("v", of_values)]).await;
    let snapshot = async |path: &str| token(&get(&server.url(path)).await).to_owned();
    let (one, other) = (snapshot("/s?_shard=1/2").await, snapshot("/s?_shard=1/2").await);
    let (four, of_t) = (snapshot("/s?_shard=1/4").await, snapshot("/t?_shard=1/2").await);
    let (of_1, of_2) = (snapshot("/v?least=1&_shard=1/2").await, snapshot("/v?least=2&_shard=1/2").await);
    let shard = format!("/s.ndjson?_shard=1/2&_snapshot={one}");
    let (cursor, before) = mark(&server, &shard).await;
    // The rest may have any format.
    let whole = get(&server.url(&shard)).await;
    let rest = get(&server.url(&format!("{}&_after={cursor}", shard.replace(".ndjson", ".csv")))).await;
    assert_eq!(rest.text().lines().count() - 1, whole.text().lines().count() - before, "{}", rest.text());
    let (of_value, _) = mark(&server, &format!("/v.ndjson?least=1&_shard=1/2&_snapshot={of_1}")).await;
    for path in [
        format!("/s?_shard=2/2&_snapshot={one}&_after={cursor}"),
        format!("/s?_shard=1/2&_snapshot={other}&_after={cursor}"),
        format!("/s?_shard=1/4&_snapshot={four}&_after={cursor}"),
        format!("/t?_shard=1/2&_snapshot={of_t}&_after={cursor}"),
        format!("/v?least=2&_shard=1/2&_snapshot={of_2}&_after={of_value}"),
        format!("/s?_shard=1/2&_snapshot={one}&_after={one}"),
        format!("/s?_shard=1/2&_snapshot={one}&_after={cursor}A"),
        format!("/s?_shard=1/2&_snapshot={one}&_after="),
    ] {
        let reply = get(&server.url(&path)).await;
        assert_eq!(code(&reply), (400, "invalid_cursor".to_owned()), "{path}: {}", reply.text());
    }
    end_keepers(&db).await;
    let gone = get(&server.url(&format!("{shard}&_after={cursor}"))).await;
    assert_eq!(code(&gone), (410, "snapshot_expired".to_owned()), "{}", gone.text());
}

/// A function that returns a set makes several rows of one, which have one place. Policies of row
/// security can be read by an index, so in another order than that of the places.
#[tokio::test]
async fn a_shard_whose_rows_may_not_be_by_place_has_no_cursors() {
    let db = TestDb::new().await;
    db.execute(SMALL).await;
    let plain = "/*\nshards = 2\n*/\nselect id from event";
    let sets = "/*\nshards = 2\n*/\nselect unnest(array[id, -id]) as id from event";
    let read = async |server: &Server, path: &str| {
        let mut shard = CutShard::new(server, format!("{path}?_shard=1/1&_end=1"));
        assert!(shard.read(usize::MAX).await);
        (shard.rows.len(), shard.after.is_some())
    };
    let all = server(&db, 40, &[("plain", plain), ("sets", sets)]).await;
    assert_eq!(read(&all, "/plain.ndjson").await, (6000, true));
    end_keepers(&db).await;
    assert_eq!(read(&all, "/sets.ndjson").await, (12_000, false));
    end_keepers(&db).await;
    db.execute(
        "alter table event enable row level security;
         create policy large on event using (id > 1000); create index on event (id)",
    )
    .await;
    let config = format!("[source.db]\nurl = \"{}&options=-c role=pg_read_all_data\"\n", db.url());
    let secured = Server::start(&[("rowstream.toml", &config), ("endpoints/plain.sql", plain)]).await;
    assert_eq!(read(&secured, "/plain.ndjson").await, (5000, false));
}

#[tokio::test]
async fn endpoints_that_have_no_shards_are_refused_with_their_place() {
    let db = TestDb::new().await;
    db.execute("create table event (id int primary key); create view seen as select * from event").await;
    let postgres = db.url();
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("endpoints")).unwrap();
    let lite = format!("sqlite:{}", folder.path().join("lite.db").display());
    rusqlite::Connection::open(folder.path().join("lite.db"))
        .unwrap()
        .execute_batch("create table event (id integer primary key)")
        .unwrap();
    for (url, pool, keys, sql, why) in [
        (&postgres, 5, "key = [\"id\"]", "select id from event", "a cursor needs an order"),
        (&postgres, 5, "result = \"one\"", "select id from event", "has no list of rows"),
        (&postgres, 5, "", "select id from event order by id", "it has `order`"),
        (&postgres, 5, "", "select id from seen", "only ordinary tables"),
        (&postgres, 5, "", "select count(*) from event", "an aggregate"),
        (&postgres, 1, "", "select id from event", "another connection that keeps their snapshot"),
        (&lite, 5, "", "select id from event", "connections of SQLite can't read one snapshot together"),
    ] {
        let config = format!("[source.db]\nurl = \"{url}\"\npool = {{ max = {pool} }}\n");
        std::fs::write(folder.path().join("rowstream.toml"), config).unwrap();
        let endpoint = format!("/*\n{keys}\nshards = 2\n*/\n{sql}");
        std::fs::write(folder.path().join("endpoints/e.sql"), endpoint).unwrap();
        let checked = rowstream(&["check", folder.path().join("rowstream.toml").to_str().unwrap()]).await;
        let said =
            String::from_utf8_lossy(&checked.stderr).into_owned() + &String::from_utf8_lossy(&checked.stdout);
        assert_eq!(checked.status.code(), Some(1), "{said}");
        assert!(said.contains(why) && said.contains("e.sql:") && said.contains("hint: "), "{why}: {said}");
    }
}

#[tokio::test]
async fn check_says_in_how_many_shards_an_endpoint_is_read() {
    let db = TestDb::new().await;
    db.execute("create table event (id int)").await;
    let server = server(&db, 5, &[("s", "/*\nparallel = 3\nshards = 8\n*/\nselect id from event")]).await;
    let checked = rowstream(&["check", server.folder().join("rowstream.toml").to_str().unwrap()]).await;
    let said = String::from_utf8_lossy(&checked.stdout);
    assert!(said.contains("by 3 connections at most  in 8 shards at most"), "{said}");
}
