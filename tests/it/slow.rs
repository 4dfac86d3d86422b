//! Slow clients: `slow_clients = "spill"` frees the database and loses nothing, and `{ min_rate = …
//! }` only ends clients below that rate.

use std::fs;
use std::time::Duration;

use crate::support::{
    Client, Ended, Launch, Reply, Server, Streaming, TestDb, decode, get, open_descriptors, wait, wait_until,
};
use crate::support::{peak_memory_bytes, rowstream};
use bytes::Bytes;
use http::Request;
use sha2::{Digest as _, Sha256};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Some 22 MB, more than all buffers on the way can hold.
const ROWS: usize = 200_000;
const SQL: &str = "select generate_series(1, 200000) as n, repeat('x', 90) as t";
/// The same size, but megabytes even when compressed.
const HASHED: &str = "select n, md5(n::text) || md5((n + 1)::text) as t from generate_series(1, 200000) n";
/// Endless rows, sent as they're produced.
const ENDLESS: &str = "select generate_series(1, 2000000000) as n, repeat('x', 90) as t";
/// Both protocols, each with its own target.
const CLIENTS: [(Client, &str); 2] = [(Client::HTTP1, "/rows.ndjson?_end=0"), (Client::H2C, "/rows.ndjson")];

fn spilling(sql: &str) -> String {
    format!("/*\nslow_clients = \"spill\"\n*/\n{sql}")
}

/// The rows of [`SQL`] as NDJSON.
fn whole() -> String {
    (1..=ROWS).map(|n| format!("{{\"n\":{n},\"t\":\"{}\"}}\n", "x".repeat(90))).collect()
}

fn files(db: &TestDb, settings: &str, endpoints: &[(&str, &str)]) -> Vec<(String, String)> {
    let config = format!(
        "spool_folder = \"spool\"\n{settings}\n[source.db]\nurl = \"{}\"\npool = {{ max = 4, acquire_timeout = \"1m\" }}\nmax_row_bytes = \"64KiB\"\n",
        db.url()
    );
    let spool = ("spool/README".to_owned(), "files without names".to_owned());
    let endpoints = endpoints.iter().map(|(name, sql)| (format!("endpoints/{name}.sql"), (*sql).to_owned()));
    [("rowstream.toml".to_owned(), config), spool].into_iter().chain(endpoints).collect()
}

fn launch(files: &[(String, String)]) -> Launch {
    let files: Vec<_> = files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    Launch::files(&files)
}

/// A server with one database and four connections. `settings` precede its source.
async fn server(db: &TestDb, settings: &str, endpoints: &[(&str, &str)]) -> Server {
    launch(&files(db, settings, endpoints)).start().await
}

/// The number of the database's running statements, without this query.
async fn active(db: &TestDb) -> i64 {
    let sql = "select count(*) from pg_stat_activity
        where datname = current_database() and state <> 'idle' and pid <> pg_backend_pid()";
    db.client().await.query_one(sql, &[]).await.expect("it can be asked").get(0)
}

/// The lengths of a process's open files without names.
fn spill_files(server: &Server) -> Vec<u64> {
    let descriptors = fs::read_dir(format!("/proc/{}/fd", server.pid())).expect("the process is there");
    let spilled = descriptors.filter_map(|entry| {
        let path = entry.ok()?.path();
        let deleted = fs::read_link(&path).ok()?.to_string_lossy().ends_with(" (deleted)");
        deleted.then(|| fs::metadata(&path).map(|file| file.len()).ok())?
    });
    spilled.collect()
}

/// Waits until this many bytes of streams wait in files.
async fn until_spilled(server: &Server, bytes: u64) {
    wait_until("it is spilled", async || spill_files(server).iter().sum::<u64>() >= bytes).await;
}

async fn until_files_are_gone(server: &Server) {
    wait_until("the files are gone", async || spill_files(server).is_empty()).await;
}

/// A stream that has begun, and its first bytes.
async fn begun(client: Client, url: &str) -> (Streaming, Bytes) {
    let mut stream = client.receive_buffer(64 * 1024).stream(url).await;
    assert_eq!(stream.status, 200);
    let first = stream.at_least(1000).await;
    (stream, first)
}

/// Reads the rest, and returns the whole body.
async fn rest(stream: Streaming, first: &Bytes) -> (Vec<u8>, Reply) {
    let reply = stream.rest().await;
    ([first.as_ref(), &reply.body].concat(), reply)
}

/// Waits for a target's line in the access log.
async fn line_of(server: &Server, target: &str) -> String {
    let target = format!(" GET {target} HTTP/");
    server.wait_for_stdout(&target).await;
    let stdout = server.stdout();
    stdout.lines().find(|line| line.contains(&target)).expect("it is there").to_owned()
}

/// The number after ` NAME=` in a line of the log, or 0 without it.
fn number(line: &str, name: &str) -> u64 {
    let rest = line.split_once(&format!(" {name}=")).map_or("0", |(_, rest)| rest);
    rest.split(' ').next().expect("there is one").parse().expect("a number")
}

#[tokio::test]
async fn the_database_is_free_while_the_client_is_slow() {
    let db = TestDb::new().await;
    let server = server(&db, "", &[("rows", &spilling(SQL)), ("held", SQL)]).await;
    let whole = whole();
    for (client, target) in CLIENTS {
        let (stream, first) = begun(client, &server.url(target)).await;
        db.until_none_active().await;
        assert!(spill_files(&server).iter().sum::<u64>() > 10_000_000, "{:?}", spill_files(&server));
        let (body, reply) = rest(stream, &first).await;
        assert_eq!(reply.ended, Ended::Complete);
        assert!(body == whole.as_bytes(), "{} bytes, not {}", body.len(), whole.len());
        let line = line_of(&server, target).await;
        assert!(line.contains(" 200 complete ") && number(&line, "spilled") > 10_000_000, "{line}");
        assert_eq!(
            (number(&line, "rows"), number(&line, "bytes")),
            (ROWS as u64, whole.len() as u64),
            "{line}"
        );
        until_files_are_gone(&server).await;
    }
    // Without the setting, the rows wait in the database.
    let (stream, first) = begun(Client::HTTP1, &server.url("/held.ndjson")).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!((active(&db).await, spill_files(&server)), (1, Vec::new()));
    assert!(rest(stream, &first).await.0 == whole.as_bytes());
}

#[tokio::test]
async fn a_fast_client_never_touches_the_disk() {
    let db = TestDb::new().await;
    let slow_rows = "select n, repeat('x', 90) as t, pg_sleep(0.02) from generate_series(1, 200) n";
    let endpoints = [("rows", &*spilling(SQL)), ("slow", &*spilling(slow_rows))];
    let server = server(&db, "", &endpoints).await;
    for (client, target) in CLIENTS {
        assert!(client.get(&server.url(target)).await.body == whole().as_bytes());
        assert!(!line_of(&server, target).await.contains(" spilled="));
    }
    // Neither does a stream that waits for the database.
    let reply = get(&server.url("/slow.ndjson")).await;
    assert_eq!((reply.ended.clone(), reply.text().lines().count()), (Ended::Complete, 200));
    assert!(!line_of(&server, "/slow.ndjson").await.contains(" spilled="));
}

/// It never stops, but would hold its connection much longer than the database needs.
#[tokio::test]
async fn a_client_that_trickles_is_slow_too() {
    let db = TestDb::new().await;
    let server = server(&db, "", &[("rows", &spilling(SQL))]).await;
    let (mut stream, first) = begun(Client::HTTP1, &server.url("/rows.ndjson")).await;
    let mut body = first.to_vec();
    while active(&db).await > 0 {
        body.extend(stream.at_least(16 * 1024).await);
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(body.len() < 15_000_000, "the database was not free before");
    }
    let (body, reply) = rest(stream, &Bytes::from(body)).await;
    assert_eq!(reply.ended, Ended::Complete);
    assert!(body == whole().as_bytes(), "{} bytes", body.len());
}

#[tokio::test]
async fn proofs_of_the_end_hold_for_what_was_spilled() {
    let db = TestDb::new().await;
    let server = server(&db, "compression = \"on\"", &[("rows", &spilling(HASHED)), ("held", HASHED)]).await;
    let whole = get(&server.url("/held.ndjson")).await.body;
    for client in [Client::HTTP1, Client::H2C] {
        for coding in ["identity", "zstd"] {
            let request = Request::get(server.url("/rows.ndjson?_end=1"))
                .header("te", "trailers")
                .header("want-content-digest", "sha-256=1")
                .header("accept-encoding", coding);
            // A compressed response is small, so part of it has to remain for the file.
            let opened = client.receive_buffer(4096).open(request.body(String::new()).expect("a request"));
            let mut stream = opened.await.expect("there is a head");
            let first = stream.at_least(100).await;
            db.until_none_active().await;
            let id = stream.headers["rowstream-stream"].to_str().expect("it is one").to_owned();
            let told = async || get(&server.url(&format!("/_rowstream/streams/{id}"))).await.json();
            assert_eq!(told().await["state"], "running", "{coding}");
            let (body, reply) = rest(stream, &first).await;
            assert_eq!(reply.ended, Ended::Complete, "{coding}");
            let trailers = reply.trailers.expect("they were asked for");
            let digest = trailers["content-digest"].to_str().expect("it is one").to_owned();
            assert_eq!(
                (&trailers["rowstream-status"], &trailers["rowstream-rows"]),
                (&"complete".parse().unwrap(), &ROWS.into())
            );
            assert_eq!(digest, format!("sha-256=:{}:", base64(&body)), "{coding}");
            let plain = match coding {
                "identity" => body.clone(),
                _ => decode(coding, &body).expect("it is whole"),
            };
            let begin = plain.iter().position(|&byte| byte == b'\n').expect("it has lines") + 1;
            let (rows, end) = plain[begin..].split_at(whole.len());
            assert!(rows == whole, "{coding}");
            let end = String::from_utf8_lossy(end).into_owned();
            assert!(end.contains(&format!("\"end\":{{\"rows\":{ROWS}")), "{end}");
            let told = told().await;
            assert_eq!((&told["state"], &told["rows"]), (&"complete".into(), &ROWS.into()), "{told}");
            assert_eq!((&told["bytes"], &told["digest"]), (&body.len().into(), &digest.into()), "{told}");
        }
    }
    let is_spilled = |line: &&str| number(line, "spilled") > 0;
    wait_until("the log says of each that it was spilled", async || {
        server.stdout().lines().filter(is_spilled).count() == 4
    })
    .await;
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(Sha256::digest(bytes))
}

/// The behaviour of the readers in [`many_that_stop`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pace {
    Stops,
    Trickles,
}

const READERS: usize = 50;
const MANY: usize = 1_000_000;
/// The README's limit.
const CEILING: u64 = 32 * 1000 * 1000;

/// Waits at its pace until all others have read a little, then reads to the end. Returns the digest
/// of the rows.
async fn read_many(
    mut stream: Streaming,
    first: Bytes,
    pace: Pace,
    mut go_on: watch::Receiver<bool>,
) -> String {
    let mut hash = Sha256::new();
    hash.update(&first);
    while pace == Pace::Trickles && !*go_on.borrow() {
        hash.update(&stream.at_least(1).await);
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    go_on.wait_for(|go_on| *go_on).await.expect("the test goes on");
    loop {
        match stream.chunk().await {
            Ok(chunk) => hash.update(&chunk),
            Err(ended) => {
                assert_eq!(ended, Ended::Complete);
                return format!("{:x?}", hash.finalize().as_slice());
            }
        }
    }
}

/// Many readers of 1,000,000 rows with a pool of eight connections, requests for `/one` from the
/// same pool in the meantime, and the cost of everything.
async fn many_that_stop(source: &str, rows: &str) {
    let config = format!(
        "spool_folder = \".\"\nwrite_timeout = \"1h\"\nmax_streams = {READERS}\n{source}\npool = {{ max = 8, acquire_timeout = \"5m\" }}\n"
    );
    let files = [
        ("rowstream.toml", config.as_str()),
        ("rows.sql", "create table t(n)"),
        ("endpoints/rows.sql", &spilling(rows)),
        ("endpoints/one.sql", "select 1 as n"),
    ];
    let server = Launch::files(&files).release().start().await;
    assert_eq!(get(&server.url("/one")).await.text(), "[{\"n\":1}]");
    let base = open_descriptors(server.pid());
    let (go, go_on) = watch::channel(false);
    let mut readers = JoinSet::new();
    for number in 0..READERS {
        let client = if number % 2 == 0 { Client::HTTP1 } else { Client::H2C };
        let pace = if number % 7 == 0 { Pace::Trickles } else { Pace::Stops };
        // It waits for a connection until an earlier stream is spilled.
        let (stream, first) = begun(client, &server.url("/rows.ndjson")).await;
        readers.spawn(read_many(stream, first, pace, go_on.clone()));
    }
    // No reader has finished: each still has its permit, so there are no more streams.
    let enough = (READERS * 5_000_000) as u64;
    wait_until("all are spilled", async || spill_files(&server).len() == READERS).await;
    wait_until("the rows are in files", async || spill_files(&server).iter().sum::<u64>() > enough).await;
    let refused = get(&server.url("/one")).await;
    assert_eq!((refused.status.as_u16(), &refused.json()["code"]), (503, &"too_many_streams".into()));
    go.send(true).expect("they wait");
    let mut expected = Sha256::new();
    for n in 1..=MANY {
        expected.update(format!("{{\"n\":{n}}}\n"));
    }
    let expected = format!("{:x?}", expected.finalize().as_slice());
    while let Some(hash) = readers.join_next().await {
        assert_eq!(hash.expect("it has read all"), expected);
    }
    until_files_are_gone(&server).await;
    // Only the pool's connections remain, with some descriptors each.
    wait_until("descriptors are given back", async || open_descriptors(server.pid()) < base + READERS).await;
    let peak = peak_memory_bytes(server.pid());
    println!("{READERS} spilled readers took {:.1} MB", peak as f64 / 1e6);
    assert!(peak < CEILING, "{peak} bytes");
    let is_told = |line: &&str| line.contains(" 200 complete ") && number(line, "spilled") > 0;
    wait_until("all are in the log", async || server.stdout().lines().filter(is_told).count() == READERS)
        .await;
}

#[tokio::test]
async fn many_readers_that_stop_do_not_hold_postgres() {
    let db = TestDb::new().await;
    let source = format!("[source.db]\nurl = \"{}\"", db.url());
    many_that_stop(&source, "select generate_series(1, 1000000) as n").await;
}

#[tokio::test]
async fn many_readers_that_stop_do_not_hold_sqlite() {
    let rows =
        "with recursive s(n) as (select 1 union all select n + 1 from s where n < 1000000) select n from s";
    many_that_stop("[source.db]\nurl = \"sqlite:rows.db\"\ncreate = [\"rows.sql\"]", rows).await;
}

/// A stopped reader whose rows didn't fit, and which then continues.
async fn holds_losslessly(db: &TestDb, server: &Server, client: Client, spilled: std::ops::Range<u64>) {
    let (stream, first) = begun(client, &server.url("/rows.ndjson")).await;
    until_spilled(server, spilled.start).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let files = spill_files(server).iter().sum::<u64>();
    assert!(spilled.contains(&files), "{files} bytes are in files");
    assert_eq!(active(db).await, 1, "the rest waits in the database");
    let (body, reply) = rest(stream, &first).await;
    assert_eq!(reply.ended, Ended::Complete);
    assert!(body == whole().as_bytes(), "{} bytes", body.len());
    until_files_are_gone(server).await;
}

#[tokio::test]
async fn what_a_file_may_not_take_waits_in_the_database() {
    let db = TestDb::new().await;
    for settings in ["spool_limit = \"2MiB\"", "spool_limit = \"2MiB\"\nspool_quota = \"2MiB\""] {
        let server = server(&db, settings, &[("rows", &spilling(SQL))]).await;
        for client in [Client::HTTP1, Client::H2C] {
            holds_losslessly(&db, &server, client, 1 << 20..(2 << 20) + 1).await;
        }
    }
}

#[tokio::test]
async fn files_that_cannot_be_made_hold_the_database() {
    let db = TestDb::new().await;
    let server = server(&db, "", &[("rows", &spilling(SQL))]).await;
    fs::remove_dir_all(server.folder().join("spool")).expect("it is there");
    let reading = holds_losslessly(&db, &server, Client::HTTP1, 0..1);
    let told = server.wait_for_stderr("can't be spilled");
    tokio::join!(reading, told);
}

/// Like a full disk, the system refuses to write beyond some length, after a partial write.
#[tokio::test]
async fn a_write_that_fails_half_way_loses_nothing() {
    let db = TestDb::new().await;
    let files = files(&db, "", &[("rows", &spilling(SQL))]);
    // In blocks of 512 bytes. Without the trap, the first failing write would end the process.
    let server = launch(&files).shell("trap '' XFSZ; ulimit -f 5000; exec \"$0\" \"$@\"").start().await;
    for client in [Client::HTTP1, Client::H2C] {
        holds_losslessly(&db, &server, client, 5000 * 512..5000 * 512 + 1).await;
    }
    wait_until("each is in the log", async || server.count_stderr("can't be spilled") == 2).await;
}

/// A server with one connection. The database ends its transactions if they're idle for `limit`.
/// Rows are read in portions, so a transaction is idle between two of them.
async fn idle_at_most(db: &TestDb, limit: &str, endpoints: &[(&str, &str)]) -> Server {
    let mut files = files(db, "", endpoints);
    let (_, config) = &mut files[0];
    let limited = format!("{}&options=-c%20idle_in_transaction_session_timeout={limit}", db.url());
    *config = config.replace(&db.url(), &limited) + "fetch_rows = 1000\n";
    launch(&files).start().await
}

/// If the database, the role or the URL had such a limit, slower clients were cut off.
#[tokio::test]
async fn a_slow_client_is_spilled_before_its_transaction_is_idle_for_too_long() {
    let db = TestDb::new().await;
    db.execute(
        "create function bulk() returns refcursor language plpgsql as $$ declare c refcursor; begin
            open c for select n, repeat('x', 90) as t from generate_series(1, 200000) n; return c; end $$",
    )
    .await;
    let nested = format!(
        "-- name: rows :many\n{SQL};\n-- name: parts :many nested in rows on n = n\nselect 0 as n where false"
    );
    let endpoints = [("rows", SQL), ("cursor", "select bulk()"), ("nested", &nested)];
    let server = idle_at_most(&db, "4s", &endpoints).await;
    let (whole, own) = (whole(), whole().replace("\"}\n", "\",\"parts\":[]}\n"));
    for (target, whole) in [("/rows.ndjson", &whole), ("/cursor.ndjson", &whole), ("/nested.ndjson", &own)] {
        let (stream, first) = begun(Client::H2C, &server.url(target)).await;
        db.until_none_active().await;
        let (body, reply) = rest(stream, &first).await;
        assert_eq!(reply.ended, Ended::Complete, "{target}");
        assert!(body == whole.as_bytes(), "{target}: {} bytes", body.len());
        assert!(number(&line_of(&server, target).await, "spilled") > 1_000_000, "{target}");
    }
}

/// A statement may run longer than its transaction may be idle, but that doesn't make its client
/// slow.
#[tokio::test]
async fn a_client_that_keeps_up_with_a_long_transaction_never_touches_the_disk() {
    let db = TestDb::new().await;
    let long = "select n, repeat('x', 20000) as t, pg_sleep(0.02) from generate_series(1, 200) n";
    let server = idle_at_most(&db, "2s", &[("long", long)]).await;
    for client in [Client::HTTP1, Client::H2C] {
        let reply = client.get(&server.url("/long.ndjson")).await;
        assert_eq!((reply.ended.clone(), reply.text().lines().count()), (Ended::Complete, 200));
    }
    server.wait_for_stdout("/long.ndjson HTTP/2").await;
    assert!(!server.stdout().contains(" spilled="), "{}", server.stdout());
}

/// Without space for the rows, the database ends the transaction. That isn't the endpoint's error.
#[tokio::test]
async fn a_transaction_that_is_idle_for_too_long_says_what_to_do() {
    let db = TestDb::new().await;
    let server = idle_at_most(&db, "1s", &[("rows", SQL)]).await;
    fs::remove_dir_all(server.folder().join("spool")).expect("it is there");
    let target = "/rows.ndjson?_end=1";
    let (stream, first) = begun(Client::HTTP1, &server.url(target)).await;
    db.until_none_active().await;
    let (body, reply) = rest(stream, &first).await;
    assert!(matches!(reply.ended, Ended::Broken(_)), "{:?}", reply.ended);
    let text = String::from_utf8(body).expect("it is text");
    let last = text.lines().next_back().expect("there are lines");
    let told =
        ["\"code\":\"source_unavailable\"", "25P03", "slow_clients"].iter().all(|word| last.contains(word));
    assert!(told, "{last}");
}

#[tokio::test]
async fn the_quota_is_one_for_all_that_waits() {
    let db = TestDb::new().await;
    let few = "select generate_series(1, 20000) as n, repeat('x', 90) as t";
    let settings = "spool_limit = \"3MiB\"\nspool_quota = \"4MiB\"";
    let server = server(&db, settings, &[("rows", &spilling(SQL)), ("few", few)]).await;
    assert_eq!(get(&server.url("/few?_wait=end")).await.status, 200);
    let (stream, _) = begun(Client::HTTP1, &server.url("/rows.ndjson")).await;
    until_spilled(&server, (5 << 20) / 2).await;
    let reply = get(&server.url("/few?_wait=end")).await;
    assert_eq!((reply.status.as_u16(), &reply.json()["code"]), (507, &"spool_full".into()));
    drop(stream);
    until_files_are_gone(&server).await;
    assert_eq!(get(&server.url("/few?_wait=end")).await.status, 200);
}

#[tokio::test]
async fn a_failure_while_rows_are_spilled_comes_behind_them() {
    let db = TestDb::new().await;
    let server = server(&db, "spool_limit = \"8GiB\"", &[("rows", &spilling(ENDLESS))]).await;
    for (client, target) in [(Client::HTTP1, "/rows.ndjson?_end=1"), (Client::H2C, "/rows.ndjson")] {
        let (stream, first) = begun(client, &server.url(target)).await;
        until_spilled(&server, 5_000_000).await;
        let kill = "select pg_terminate_backend(pid) from pg_stat_activity
            where datname = current_database() and pid <> pg_backend_pid()";
        db.execute(kill).await;
        db.until_none_active().await;
        let (body, reply) = rest(stream, &first).await;
        assert!(matches!(reply.ended, Ended::Broken(_)), "{:?}", reply.ended);
        let text = String::from_utf8(body).expect("it is text");
        assert!(text.len() > 5_000_000, "{} bytes", text.len());
        let rows = text.lines().filter(|line| !line.starts_with("{\"$rowstream\""));
        for (row, line) in (1..).zip(rows.take(50_000)) {
            assert!(line.starts_with(&format!("{{\"n\":{row},")), "{line}");
        }
        if target.ends_with("_end=1") {
            let last = text.lines().next_back().expect("there are lines");
            // The backend's last message may be lost with its connection.
            let told = last.contains("57P01") || last.contains("source_unavailable");
            assert!(last.contains("\"error\":{") && told, "{last}");
        }
        let line = line_of(&server, target).await;
        assert!(line.contains(" 200 failed ") && number(&line, "spilled") > 4_000_000, "{line}");
        until_files_are_gone(&server).await;
    }
}

#[tokio::test]
async fn a_client_that_leaves_ends_what_is_spilled_for_it() {
    let db = TestDb::new().await;
    let server = server(&db, "spool_limit = \"8GiB\"", &[("rows", &spilling(ENDLESS))]).await;
    for (client, target) in CLIENTS {
        let (stream, _) = begun(client, &server.url(target)).await;
        until_spilled(&server, 2_000_000).await;
        assert_eq!(active(&db).await, 1);
        drop(stream);
        db.until_none_active().await;
        until_files_are_gone(&server).await;
        let line = line_of(&server, target).await;
        assert!(line.contains(" 200 aborted ") && number(&line, "spilled") > 1_000_000, "{line}");
        // Rows that were read but not sent don't count.
        assert!(number(&line, "rows") * 90 < number(&line, "bytes") + 100_000, "{line}");
    }
}

#[tokio::test]
async fn who_takes_nothing_of_what_was_spilled_is_ended() {
    let db = TestDb::new().await;
    let server = server(&db, "write_timeout = \"4s\"", &[("rows", &spilling(SQL))]).await;
    for (client, target) in CLIENTS {
        let (stream, _) = begun(client, &server.url(target)).await;
        let line = line_of(&server, target).await;
        assert!(line.contains(" 200 client_stalled ") && number(&line, "spilled") > 1_000_000, "{line}");
        assert!(matches!(stream.rest().await.ended, Ended::Broken(_)));
        until_files_are_gone(&server).await;
    }
}

#[tokio::test]
async fn the_time_of_an_answer_ends_while_it_is_spilled() {
    let db = TestDb::new().await;
    let server = server(&db, "timeout = { total = \"8s\" }", &[("rows", &spilling(SQL))]).await;
    for (client, target) in CLIENTS {
        let (mut stream, _) = begun(client, &server.url(target)).await;
        while let Ok(chunk) = stream.chunk().await {
            tokio::time::sleep(Duration::from_millis(chunk.len() as u64 / 500)).await;
        }
        let line = line_of(&server, target).await;
        assert!(line.contains(" 200 failed ") && line.contains("error=total_timeout: "), "{line}");
        assert!(number(&line, "spilled") > 1_000_000, "{line}");
        until_files_are_gone(&server).await;
    }
}

#[tokio::test]
async fn what_is_spilled_is_sent_while_the_server_drains() {
    let db = TestDb::new().await;
    let mut server = server(&db, "drain_timeout = \"1h\"", &[("rows", &spilling(SQL))]).await;
    let mut streams = Vec::new();
    for client in [Client::HTTP1, Client::H2C] {
        streams.push(begun(client, &server.url("/rows.ndjson")).await);
    }
    db.until_none_active().await;
    server.terminate();
    server.wait_for_stderr("draining: 2 connections, 2 streams").await;
    for (stream, first) in streams {
        let (body, reply) = rest(stream, &first).await;
        assert_eq!(reply.ended, Ended::Complete);
        assert!(body == whole().as_bytes(), "{} bytes", body.len());
    }
    server.wait_drained().await;
}

/// Reads 16 KiB at a time with a pause after each, until the end or this many bytes.
async fn trickle(stream: &mut Streaming, pause: Duration, bytes: usize) -> Option<Ended> {
    let mut read = 0;
    while read < bytes {
        let mut piece = 0;
        while piece < 16 * 1024 {
            match stream.chunk().await {
                Ok(chunk) => piece += chunk.len(),
                Err(ended) => return Some(ended),
            }
        }
        read += piece;
        tokio::time::sleep(pause).await;
    }
    None
}

async fn a_client_below_the_rate_is_ended(client: Client, target: &str) {
    let db = TestDb::new().await;
    let file = format!("/*\nslow_clients = {{ min_rate = \"2MB/s\" }}\n*/\n{ENDLESS}");
    let server = server(&db, "", &[("rows", &file)]).await;
    let (mut stream, _) = begun(client, &server.url(target)).await;
    let id = stream.headers["rowstream-stream"].to_str().expect("it is one").to_owned();
    // It never stops, so `write_timeout` doesn't apply.
    let pause = Duration::from_millis(100);
    let ended = wait("it's ended", trickle(&mut stream, pause, usize::MAX)).await;
    assert!(matches!(ended, Some(Ended::Broken(_))), "{ended:?}");
    let line = line_of(&server, target).await;
    assert!(line.contains(" 200 client_shed "), "{line}");
    let told = get(&server.url(&format!("/_rowstream/streams/{id}"))).await.json();
    assert_eq!(told["state"], "client_shed");
    db.until_none_active().await;
}

#[tokio::test]
async fn a_client_of_http1_below_the_rate_is_ended() {
    a_client_below_the_rate_is_ended(Client::HTTP1, "/rows").await;
}

#[tokio::test]
async fn a_client_of_http2_below_the_rate_is_ended() {
    a_client_below_the_rate_is_ended(Client::H2C, "/rows").await;
}

/// Much slower than the database, and for longer than a client below the rate may be.
async fn a_client_that_keeps_the_rate_goes_on(client: Client) {
    let db = TestDb::new().await;
    let file = format!("/*\nslow_clients = {{ min_rate = \"50KB/s\" }}\n*/\n{ENDLESS}");
    let server = server(&db, "", &[("rows", &file)]).await;
    let (mut stream, _) = begun(client, &server.url("/rows")).await;
    assert_eq!(trickle(&mut stream, Duration::from_millis(100), 4_000_000).await, None);
    drop(stream);
    assert!(line_of(&server, "/rows").await.contains(" 200 aborted "));
}

#[tokio::test]
async fn a_client_of_http1_that_keeps_the_rate_goes_on() {
    a_client_that_keeps_the_rate_goes_on(Client::HTTP1).await;
}

#[tokio::test]
async fn a_client_of_http2_that_keeps_the_rate_goes_on() {
    a_client_that_keeps_the_rate_goes_on(Client::H2C).await;
}

#[tokio::test]
async fn a_slow_database_ends_nobody() {
    let db = TestDb::new().await;
    let slow = "select n, repeat('x', 20000) as t, pg_sleep(0.2) from generate_series(1, 75) n";
    let file = format!("/*\nslow_clients = {{ min_rate = \"100MB/s\" }}\n*/\n{slow}");
    let server = server(&db, "", &[("rows", &file)]).await;
    let url = server.url("/rows.ndjson");
    let (http1, http2) = tokio::join!(Client::HTTP1.get(&url), Client::H2C.get(&url));
    for reply in [http1, http2] {
        assert_eq!((reply.ended.clone(), reply.text().lines().count()), (Ended::Complete, 75));
    }
}

#[tokio::test]
async fn the_bounds_of_files_are_told() {
    let db = TestDb::new().await;
    let settings =
        "memory = \"256MB\"\nmax_connections = 500\nspool_quota = \"3GB\"\nspool_limit = \"1GB\"\n";
    let files = files(&db, settings, &[("held", SQL), ("rows", &spilling(SQL))]);
    let files: Vec<_> = files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let server = Launch::files(&files).start().await;
    let said = server.stderr();
    assert!(said.contains("; 3GB in temporary files"), "{said}");
    let path = server.folder().join("rowstream.toml").to_string_lossy().into_owned();
    let checked = String::from_utf8(rowstream(&["check", &path]).await.stdout).expect("it is text");
    assert!(checked.contains("; 3GB in temporary files"), "{checked}");
    // A stream that can be spilled has a larger budget.
    let each = |path: &str| {
        let line = said.lines().find(|line| line.trim_start().starts_with(path)).expect("it has a line");
        line.split(' ').nth(5).expect("a number").parse::<f64>().expect("a number")
    };
    assert!(each("/rows:") > each("/held:"), "{said}");
}

/// An HTTP/2 stream of `bytes` bytes, whose client's window excludes the last 100.
async fn all_but_the_end(server: &Server, target: &str, bytes: usize) -> h2::RecvStream {
    let socket = TcpStream::connect(server.address()).await.expect("it listens");
    let mut builder = h2::client::Builder::new();
    let window = u32::try_from(bytes - 100).expect("a window");
    builder.initial_window_size(window).initial_connection_window_size(16 << 20);
    let (sender, connection) = builder.handshake::<_, Bytes>(socket).await.expect("it speaks HTTP/2");
    tokio::spawn(async { drop(connection.await) });
    let request = Request::get(server.url(target)).body(()).expect("a request");
    let mut sender = sender.ready().await.expect("the connection is open");
    let (response, _) = sender.send_request(request, true).expect("it can be sent");
    let mut stream = response.await.expect("there is a head").into_body();
    let mut read = 0;
    while read < bytes - 100 {
        read += stream.data().await.expect("there is more").expect("it goes on").len();
    }
    stream
}

/// Reads the rest. Returns its size, and true if it was complete.
async fn the_end(mut stream: h2::RecvStream) -> (usize, bool) {
    stream.flow_control().release_capacity(1000).expect("it was taken");
    let mut read = 0;
    while let Some(chunk) = stream.data().await {
        match chunk {
            Ok(chunk) => read += chunk.len(),
            Err(_) => return (read, false),
        }
    }
    (read, true)
}

/// The last piece of an HTTP/2 stream wasn't tracked: the stream counted as complete, and no
/// timeout ended it.
#[tokio::test]
async fn the_last_piece_of_a_stream_counts_until_its_client_lets_it_go() {
    let db = TestDb::new().await;
    let few = "/*\nmax_streams = 1\n*/\nselect generate_series(1, 1000) as n, repeat('x', 100) as t";
    let patient = server(&db, "write_timeout = \"1h\"", &[("few", few)]).await;
    let bytes = get(&patient.url("/few")).await.body.len();
    let stream = all_but_the_end(&patient, "/few?_numbers=number", bytes).await;
    let refused = get(&patient.url("/few")).await;
    assert_eq!(refused.json()["code"], "too_many_streams_of_endpoint");
    assert_eq!(the_end(stream).await, (100, true));
    assert!(line_of(&patient, "/few?_numbers=number").await.contains(" 200 complete "));

    let server = server(&db, "write_timeout = \"500ms\"", &[("few", few)]).await;
    let stream = all_but_the_end(&server, "/few", bytes).await;
    let line = line_of(&server, "/few").await;
    assert!(line.contains(" 200 client_stalled "), "{line}");
    assert!(!the_end(stream).await.1, "it looks whole");
}

/// Over HTTP/1, the timing of a response ended when hyper had buffered the last of it, even if
/// megabytes were unread. The response counted as complete, and only `write_timeout` ended it.
#[tokio::test]
async fn the_time_of_an_answer_goes_on_until_its_last_byte_was_taken() {
    let db = TestDb::new().await;
    let one = "/*\nresult = \"one\"\n*/\nselect repeat('x', 8000000) as t";
    let settings = "timeout = { total = \"3s\" }\nwrite_timeout = \"1h\"";
    let files = files(&db, settings, &[("one", one)]);
    let files: Vec<_> =
        files.iter().map(|(name, text)| (name.clone(), text.replace("64KiB", "16MiB"))).collect();
    let server = launch(&files).start().await;
    for target in ["/one", "/one?_wait=end"] {
        for client in [Client::HTTP1, Client::H2C] {
            // A client that reads gets everything, and is distinguished from the one that doesn't.
            let read = client.get(&server.url(target)).await;
            assert_eq!((read.ended.clone(), read.body.len() > 8_000_000), (Ended::Complete, true));
        }
        let lines = || {
            let log = server.stdout();
            let lines = log.lines().filter(|line| line.contains(&format!(" GET {target} HTTP/1.1 ")));
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        let before = lines().len();
        assert_eq!(before, 1);
        let request = Request::get(server.url(target)).body(String::new()).expect("a request");
        let stream = Client::HTTP1.receive_buffer(64 * 1024).open(request).await.expect("there is a head");
        wait_until("its end is told", async || lines().len() > before).await;
        let line = lines().pop().expect("it is there");
        assert!(line.contains(" 200 failed ") && line.contains("error=total_timeout: "), "{line}");
        assert!(matches!(stream.rest().await.ended, Ended::Broken(_)));
    }
}

/// A client that disconnects before the end of a response has aborted it.
#[tokio::test]
async fn an_answer_whose_last_bytes_nobody_took_is_not_complete() {
    let db = TestDb::new().await;
    let one = "/*\nresult = \"one\"\n*/\nselect repeat('x', 8000000) as t";
    let files = files(&db, "timeout = { total = \"1h\" }\nmax_streams = 1", &[("one", one)]);
    let files: Vec<_> =
        files.iter().map(|(name, text)| (name.clone(), text.replace("64KiB", "16MiB"))).collect();
    let server = launch(&files).start().await;
    let stream = Client::HTTP1.receive_buffer(64 * 1024).stream(&server.url("/one")).await;
    drop(stream);
    let line = line_of(&server, "/one").await;
    assert!(line.contains(" 200 aborted "), "{line}");
}
