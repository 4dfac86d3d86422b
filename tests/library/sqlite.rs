//! The SQLite source with real files: values, limits, snapshots, and sessions dropped at bad
//! moments.

// Helpers of tests may unwrap too, but clippy only recognises tests.
#![allow(clippy::unwrap_used)]

use crate::support::{corpus, repository, wait, wait_until};
use std::fmt::Write as _;
use std::future::poll_fn;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use corpus::{Arrow, Written};
use rowstream::config::Config;
use rowstream::stream::RowStream;
use rowstream_core::Error;
use rowstream_core::params::{ParamType, ParamValue};
use rowstream_core::pool::{PoolConfig, Priority, Waiter};
use rowstream_core::settings::SourceSettings;
use rowstream_database::{Database as _, DatabaseRow as _, DatabaseSession as _, Snapshot, Statement};
use rowstream_encode::{Format, RowEncoder, Shape, ValueOptions};
use rowstream_sqlite::{Session, Source};
use rusqlite::Connection;
use tempfile::TempDir;

/// A folder with a database filled by `sql`.
struct Database {
    folder: TempDir,
    writer: Connection,
}

impl Database {
    fn new(sql: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let writer = Connection::open(folder.path().join("test.db")).unwrap();
        writer.execute_batch("pragma journal_mode = wal").unwrap();
        writer.execute_batch(sql).unwrap();
        Self { folder, writer }
    }

    fn config(&self) -> SourceSettings {
        config(&self.folder.path().join("test.db"))
    }

    fn source(&self) -> Source {
        Source::open(&self.config()).unwrap()
    }

    fn with_pool(&self, pool: PoolConfig) -> Source {
        Source::open(&SourceSettings { pool, ..self.config() }).unwrap()
    }
}

fn config(file: &Path) -> SourceSettings {
    SourceSettings {
        pool: PoolConfig { max: 4, ..PoolConfig::default() },
        statement_cache: 10,
        max_row_bytes: 1 << 20,
        ..SourceSettings::new("test", format!("sqlite:{}", file.display()))
    }
}

fn statement(sql: &str, types: &[ParamType]) -> Statement {
    Statement { sql: Arc::from(sql), types: types.iter().map(|&kind| kind.into()).collect(), ad_hoc: false }
}

async fn acquire(source: &Source) -> Session {
    source.acquire(Snapshot::Statement, Priority::Stream, Waiter::default().begin()).await.unwrap()
}

/// A session that runs `sql`.
async fn started(source: &Source, sql: &str) -> Session {
    let mut session = acquire(source).await;
    session.prepare(&statement(sql, &[])).await.unwrap();
    session.execute(0, &[]);
    session
}

/// Returns true if there is another row.
async fn next(session: &mut Session) -> Result<bool, Error> {
    poll_fn(|cx| session.poll_row(cx).map_ok(|row| row.is_some())).await
}

/// Reads the rows of the statement that runs to the end.
async fn count(session: &mut Session) -> Result<usize, Error> {
    let mut rows = 0;
    while next(session).await? {
        rows += 1;
    }
    Ok(rows)
}

/// Runs one statement in a new session.
async fn run(source: &Source, sql: &str) -> Result<usize, Error> {
    let mut session =
        source.acquire(Snapshot::Statement, Priority::Stream, Waiter::default().begin()).await?;
    session.prepare(&statement(sql, &[])).await?;
    session.execute(0, &[]);
    count(&mut session).await
}

/// The rows of one statement as NDJSON.
async fn ndjson(source: &Source, sql: &str, args: &[(ParamType, ParamValue)]) -> Result<String, Error> {
    let mut session =
        source.acquire(Snapshot::Statement, Priority::Stream, Waiter::default().begin()).await?;
    let types: Vec<_> = args.iter().map(|(kind, _)| *kind).collect();
    let columns = session.prepare(&statement(sql, &types)).await?;
    let args: Vec<_> = args.iter().map(|(_, value)| value).collect();
    session.execute(0, &args);
    let mut encoder = RowEncoder::new(Shape::Lines, &columns);
    let mut out = Vec::new();
    encoder.start(&mut out);
    while encode_next(&mut session, &mut encoder, &mut out).await? {}
    encoder.finish(&mut out);
    Ok(String::from_utf8(out).unwrap())
}

async fn encode_next(
    session: &mut Session,
    encoder: &mut RowEncoder,
    out: &mut Vec<u8>,
) -> Result<bool, Error> {
    poll_fn(|cx| {
        session.poll_row(cx).map(|row| match row? {
            Some(row) => row.encode(encoder, out).map(|()| true),
            None => Ok(false),
        })
    })
    .await
}

/// Waits until the pool has no connection in use.
async fn freed(source: &Source) {
    wait_until("the place is free", async || source.usage().used == 0).await;
}

/// A statement that computes for hours before its first row.
const HEAVY: &str = "with recursive n(i) as (select 1 union all select i + 1 from n where i < 1000000000000)
    select count(*) from n";

/// A statement of `n` rows.
fn series(n: u32) -> String {
    format!(
        "with recursive n(i) as (select 1 union all select i + 1 from n where i < {n}) select i, 'row ' || i from n"
    )
}

/// The rows of one statement in the server's form.
async fn body(
    database: &Database,
    sql: &str,
    format: Format,
    options: ValueOptions,
) -> Result<Vec<u8>, Error> {
    let config = Config::single(&database.config().url, sql).unwrap();
    let source = rowstream::source::Source::open(&config.sources[0]).unwrap();
    let mut stream =
        RowStream::open_with(&config.endpoints[0], &source, (format, options), Vec::new()).await?;
    let mut body = Vec::new();
    while let Some(chunk) = poll_fn(|cx| stream.poll_chunk(cx)).await {
        body.extend_from_slice(&chunk?);
    }
    Ok(body)
}

#[tokio::test]
async fn the_corpus_is_what_we_write() {
    let lines: Vec<_> = corpus::sqlite().collect();
    let database = Database::new(&corpus::sqlite_table(&lines));
    let (mut wrong, mut checked) = (String::new(), 0);
    for (n, line) in (0..).zip(lines) {
        let sql = format!("select c{n} as v, 'x' as e from t");
        for (options, expected) in line.expected() {
            let ndjson = body(&database, &sql, Format::Ndjson, options).await.unwrap();
            let csv = body(&database, &sql, Format::Csv, options).await.unwrap();
            let [ndjson, csv] = [ndjson, csv].map(|body| String::from_utf8(body).unwrap());
            let written = Written::in_bodies(&ndjson, &csv);
            if written != *expected {
                let by: Vec<_> = options.changes().collect();
                write!(wrong, "\n{} {by:?}\n  {written:?}\n  {expected:?}", line.name()).unwrap();
            }
            checked += 1;
        }
        // A test in `tests/it/python.rs` reads the other values with an Arrow library.
        if let Arrow::Error(code) = &line.arrow {
            let error = body(&database, &sql, Format::Arrow, ValueOptions::DEFAULT).await.unwrap_err();
            assert_eq!(error.code(), code, "{}", line.name());
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(checked > 600, "{checked}");
}

#[tokio::test]
async fn columns_have_names_and_declared_types() {
    let database =
        Database::new("create table t (id INTEGER PRIMARY KEY, name varchar(20), born Date, other)");
    let mut session = acquire(&database.source()).await;
    let sql = "select id, name as \"the Name\", born, other, 1 + 1 from t";
    let columns = session.prepare(&statement(sql, &[])).await.unwrap();
    let told: Vec<_> = columns.iter().map(|column| (&*column.name, &*column.type_name)).collect();
    let expected =
        [("id", "INTEGER"), ("the Name", "varchar(20)"), ("born", "Date"), ("other", ""), ("1 + 1", "")];
    assert_eq!(told, expected);
    session.execute(0, &[]);
    assert_eq!(count(&mut session).await.unwrap(), 0, "an empty result ends at once");
}

#[tokio::test]
async fn parameters_are_bound() {
    let database =
        Database::new("create table t (id integer primary key); insert into t values (1), (2), (3), (4)");
    let source = database.source();
    let noon = "2024-02-29T12:00:00".parse().unwrap();
    let ids = vec![ParamValue::Integer(2), ParamValue::Integer(4)];
    let injection = "'; drop table t --";
    let cases = [
        ("select ?1 as v", ParamType::Integer, ParamValue::Integer(i64::MAX), "9223372036854775807"),
        ("select ?1 as v", ParamType::Integer, ParamValue::Null, "null"),
        ("select typeof(?1) as v", ParamType::Boolean, ParamValue::Boolean(true), r#""integer""#),
        ("select ?1 as v", ParamType::Text, ParamValue::Text(injection.into()), r#""'; drop table t --""#),
        (
            "select ?1 = datetime('2024-02-29 12:00') as v",
            ParamType::Timestamp,
            ParamValue::Timestamp(noon),
            "1",
        ),
        (
            "select ?1 = date('2024-02-29') as v",
            ParamType::Date,
            ParamValue::Date(jiff::civil::date(2024, 2, 29)),
            "1",
        ),
        (
            "select sum(id) as v from t where id in (select value from json_each(?1))",
            ParamType::Integer,
            ParamValue::List(ids),
            "6",
        ),
    ];
    for (sql, kind, value, expected) in cases {
        let rows = ndjson(&source, sql, &[(kind, value)]).await.unwrap();
        assert_eq!(rows, format!("{{\"v\":{expected}}}\n"), "{sql}");
    }
}

#[tokio::test]
async fn text_that_is_not_utf8_is_an_error_that_names_its_column() {
    let database =
        Database::new("create table t (id, name); insert into t values (1, cast(x'66fc72' as text))");
    let error = ndjson(&database.source(), "select id, name from t", &[]).await.unwrap_err();
    assert_eq!(error.code(), "bad_value");
    assert_eq!(error.message(), "a text in column `name` is not UTF-8");
}

#[tokio::test]
async fn faults_of_a_statement_have_a_place() {
    let database = Database::new("create table t (id)");
    let mut session = acquire(&database.source()).await;
    let sql = "\n  select id, nome from t";
    let error = session.prepare(&statement(sql, &[])).await.unwrap_err();
    assert_eq!((error.code(), error.status().as_u16()), ("statement_failed", 500));
    assert_eq!(error.to_string(), "no such column: nome (SQLite code 1)");
    assert_eq!(error.position_offset(), sql.find("nome"));
    // The session stays usable, because `check` shows all errors of an endpoint.
    session.prepare(&statement("select id from t", &[])).await.unwrap();
}

#[tokio::test]
async fn a_statement_that_is_no_query_is_refused() {
    let database = Database::new("create table t (id)");
    let mut session = acquire(&database.source()).await;
    for (sql, message) in [
        ("insert into t values (1)", "the statement writes, but sources are read-only"),
        ("insert into t values (1) returning id", "the statement writes, but sources are read-only"),
        ("commit", "the statement has no columns, so it isn't a query"),
        ("attach 'other.db' as other", "the statement has no columns, so it isn't a query"),
        ("-- nothing", "the statement has no columns, so it isn't a query"),
        ("select ?1, ?2", "the statement has 2 placeholders, but 0 parameters are declared for it"),
        ("select 1; select 2", "the text contains several statements, but SQLite runs one at a time"),
    ] {
        let error = session.prepare(&statement(sql, &[])).await.unwrap_err();
        assert_eq!((error.code(), error.message()), ("endpoint", message), "{sql}");
    }
}

#[tokio::test]
async fn rows_before_a_failure_come_first() {
    let database = Database::new("create table t (v); insert into t values (1), (2), ('{')");
    let mut session = started(&database.source(), "select json(v) from t").await;
    assert!(next(&mut session).await.unwrap());
    assert!(next(&mut session).await.unwrap());
    let error = next(&mut session).await.unwrap_err();
    assert_eq!(
        (error.code(), error.to_string().as_str()),
        ("invalid_data", "malformed JSON (SQLite code 1)")
    );
}

#[tokio::test]
async fn a_file_that_is_missing_or_none_of_sqlites_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("missing.db");
    let source = Source::open(&config(&file)).unwrap();
    let error = run(&source, "select 1").await.unwrap_err();
    assert_eq!((error.code(), error.status().as_u16()), ("source_unavailable", 503));
    assert_eq!(error.message(), "the file of source `test` does not exist");
    assert!(!file.exists(), "it was created");
    std::fs::write(&file, "no database, but longer than the header of one".repeat(30)).unwrap();
    let error = run(&source, "select 1").await.unwrap_err();
    assert_eq!(error.to_string(), "source `test` cannot be read: file is not a database");
    freed(&source).await;
}

#[tokio::test]
async fn a_row_over_the_limit_is_an_error() {
    let database = Database::new("create table t (v)");
    let source = Source::open(&SourceSettings { max_row_bytes: 1000, ..database.config() }).unwrap();
    assert_eq!(run(&source, "select zeroblob(995)").await.unwrap(), 1);
    let error = run(&source, "select zeroblob(996)").await.unwrap_err();
    assert_eq!(error.message(), "a row of 1001 bytes is over the limit of 1000 bytes");
}

#[tokio::test]
async fn many_rows_arrive_each_once() {
    let database = Database::new("create table t (id integer primary key, name text)");
    database.writer.execute_batch(&format!("insert into t {}", series(300_000))).unwrap();
    let source = database.source();
    let mut session = acquire(&source).await;
    let sql = "select id, name from t order by id";
    let columns = session.prepare(&statement(sql, &[])).await.unwrap();
    // Twice, because the second statement of a session begins in the state that the first one left.
    for _ in 0..2 {
        session.execute(0, &[]);
        let mut encoder = RowEncoder::new(Shape::Lines, &columns);
        let mut out = Vec::new();
        for id in 1..=300_000 {
            out.clear();
            assert!(encode_next(&mut session, &mut encoder, &mut out).await.unwrap());
            assert_eq!(out, format!("{{\"id\":{id},\"name\":\"row {id}\"}}\n").into_bytes());
        }
        assert_eq!(count(&mut session).await.unwrap(), 0);
    }
}

#[tokio::test]
async fn slow_rows_do_not_wait_for_each_other() {
    // Three rows at once, then a fourth that needs hours.
    let sql = format!("select 1 union all select 2 union all select 3 union all select * from ({HEAVY})");
    let database = Database::new("create table t (v)");
    let source = database.source();
    let mut session = started(&source, &sql).await;
    for _ in 0..3 {
        assert!(wait("a row", next(&mut session)).await.unwrap());
    }
    drop(session);
    freed(&source).await;
}

#[tokio::test]
async fn a_session_dropped_in_mid_stream_frees_its_place_and_leaves_a_clean_connection() {
    let database = Database::new("create table t (v)");
    let source = database.with_pool(PoolConfig { max: 1, ..PoolConfig::default() });
    for snapshot in [Snapshot::Statement, Snapshot::Transaction] {
        let mut session =
            source.acquire(snapshot, Priority::Stream, Waiter::default().begin()).await.unwrap();
        session.prepare(&statement(&series(10_000_000), &[])).await.unwrap();
        session.execute(0, &[]);
        for _ in 0..1000 {
            assert!(next(&mut session).await.unwrap());
        }
        drop(session);
        freed(&source).await;
        assert_eq!(source.usage().idle, 1);
        assert_eq!(run(&source, &series(5)).await.unwrap(), 5, "the same connection works");
    }
}

#[tokio::test]
async fn a_session_dropped_at_any_moment_interrupts_nothing_but_its_own() {
    let database = Database::new("create table t (v)");
    let source = database.with_pool(PoolConfig { max: 1, ..PoolConfig::default() });
    for microseconds in (0..400).step_by(2) {
        let session = started(&source, HEAVY).await;
        std::thread::sleep(Duration::from_micros(microseconds));
        drop(session);
        assert_eq!(run(&source, &series(1000)).await.unwrap(), 1000, "after {microseconds} µs");
    }
    // Also without waiting for the result.
    for _ in 0..100 {
        let mut session = acquire(&source).await;
        drop(tokio::time::timeout(Duration::ZERO, session.prepare(&statement(HEAVY, &[]))).await);
        drop(session);
        drop(acquire(&source).await);
    }
    freed(&source).await;
    assert_eq!(source.usage().idle, 1);
}

#[tokio::test]
async fn a_heavy_statement_ends_with_its_session() {
    let database = Database::new("create table t (v)");
    let source = database.source();
    let mut session = started(&source, HEAVY).await;
    let first = tokio::time::timeout(Duration::from_millis(50), next(&mut session)).await;
    assert!(first.is_err(), "it was not heavy");
    drop(session);
    freed(&source).await;
}

#[tokio::test]
async fn a_transaction_reads_one_snapshot() {
    let database = Database::new("create table t (v); insert into t values (1)");
    let source = database.source();
    let mut session =
        source.acquire(Snapshot::Transaction, Priority::Stream, Waiter::default().begin()).await.unwrap();
    for _ in 0..2 {
        session.prepare(&statement("select v from t", &[])).await.unwrap();
    }
    session.execute(0, &[]);
    assert_eq!(count(&mut session).await.unwrap(), 1);
    database.writer.execute_batch("insert into t values (2)").unwrap();
    session.execute(1, &[]);
    assert_eq!(count(&mut session).await.unwrap(), 1, "what was committed in between is not seen");
    drop(session);
    freed(&source).await;
    assert_eq!(run(&source, "select v from t").await.unwrap(), 2, "the transaction ended with its session");
}

#[tokio::test]
async fn columns_that_changed_are_an_error() {
    let database = Database::new("create table t (a); insert into t values (1)");
    let source = database.source();
    let mut session = acquire(&source).await;
    session.prepare(&statement("select * from t", &[])).await.unwrap();
    database.writer.execute_batch("alter table t rename column a to b").unwrap();
    session.execute(0, &[]);
    let error = next(&mut session).await.unwrap_err();
    assert_eq!((error.code(), error.status().as_u16()), ("source_unavailable", 503));
    let columns = {
        drop(session);
        freed(&source).await;
        acquire(&source).await.prepare(&statement("select * from t", &[])).await.unwrap()
    };
    assert_eq!(columns[0].name, "b", "another try is worth it");
}

/// Statement metadata belong to the source. So changed columns must not fail once per connection.
#[tokio::test]
async fn columns_that_changed_fail_once_for_all_connections() {
    let database = Database::new("create table t (a BOOLEAN); insert into t values (1)");
    let source = database.source();
    let sql = "select * from t";
    let all = [started(&source, sql).await, started(&source, sql).await, started(&source, sql).await];
    for mut session in all {
        assert_eq!(count(&mut session).await.unwrap(), 1);
    }
    assert_eq!((source.usage().used, source.usage().idle), (0, 3));
    // The name stays the same, but the type changes: a 1 would be written as `true`.
    for (changed, expected) in [
        ("create table t (a INTEGER)", "{\"a\":1}\n"),
        ("create table t (a INTEGER, b default 2)", "{\"a\":1,\"b\":2}\n"),
    ] {
        database
            .writer
            .execute_batch(&format!("drop table t; {changed}; insert into t (a) values (1)"))
            .unwrap();
        let error = run(&source, sql).await.unwrap_err();
        assert_eq!((error.code(), error.status().as_u16()), ("source_unavailable", 503), "{changed}");
        freed(&source).await;
        let mut held = Vec::new();
        for _ in 0..3 {
            held.push(started(&source, sql).await);
        }
        for mut session in held {
            assert_eq!(count(&mut session).await.unwrap(), 1, "{changed}");
        }
        assert_eq!(ndjson(&source, sql, &[]).await.unwrap(), expected);
    }
    // Both with connections that have compiled the statement, and with one that hasn't.
    database.writer.execute_batch("drop table t").unwrap();
    let mut held = Vec::new();
    for _ in 0..4 {
        held.push(started(&source, sql).await);
    }
    for mut session in held {
        let error = count(&mut session).await.unwrap_err();
        assert_eq!(error.to_string(), "no such table: t (SQLite code 1)");
    }
}

/// Streams of one file don't wait for each other or for a writer, and the writer doesn't wait for
/// them.
#[tokio::test]
async fn streams_run_side_by_side_while_a_writer_commits() {
    const ROWS: usize = 100_000;
    let database = Database::new("create table t (id integer primary key, name text)");
    database.writer.execute_batch(&format!("insert into t {}", series(100_000))).unwrap();
    // Without waiting, so a lock would be an error here.
    database.writer.busy_timeout(Duration::ZERO).unwrap();
    let source = database.source();
    let mut streams = Vec::new();
    for _ in 0..4 {
        let mut stream = started(&source, "select id, name from t").await;
        assert!(next(&mut stream).await.unwrap(), "the first row, which takes the snapshot");
        streams.push(stream);
        database.writer.execute_batch("insert into t (name) values ('new'), ('new')").unwrap();
    }
    assert_eq!(source.usage().used, 4);
    // One row of each stream in turn, then the additional rows of the later ones.
    for _ in 1..ROWS {
        for stream in &mut streams {
            assert!(next(stream).await.unwrap());
        }
    }
    let mut more = Vec::new();
    for stream in &mut streams {
        more.push(count(stream).await.unwrap());
    }
    assert_eq!(more, [0, 2, 4, 6], "each reads the state of its first row");
}

#[tokio::test]
async fn a_mapped_file_reads_the_same() {
    let database = Database::new("create table t (id integer primary key, name text)");
    database
        .writer
        .execute_batch(&format!("insert into t {}; pragma wal_checkpoint(truncate)", series(50_000)))
        .unwrap();
    let mapped = Source::open(&SourceSettings { mmap: 64 << 20, ..database.config() }).unwrap();
    let sql = "select id, name from t order by id";
    let expected = ndjson(&database.source(), sql, &[]).await.unwrap();
    assert_eq!(expected.lines().count(), 50_000);
    assert_eq!(ndjson(&mapped, sql, &[]).await.unwrap(), expected);
    let maps = || std::fs::read_to_string("/proc/self/maps").unwrap();
    let file = database.folder.path().join("test.db");
    assert!(maps().lines().any(|line| line.ends_with(file.to_str().unwrap())), "the file is mapped");
}

#[tokio::test]
async fn a_pool_of_one_serialises() {
    let database = Database::new("create table t (v)");
    let acquire_timeout = Duration::from_millis(50);
    let source = database.with_pool(PoolConfig { max: 1, acquire_timeout, ..PoolConfig::default() });
    let session = acquire(&source).await;
    assert_eq!(
        source
            .acquire(Snapshot::Statement, Priority::Stream, Waiter::default().begin())
            .await
            .err()
            .unwrap()
            .code(),
        "pool_timeout"
    );
    drop(session);
    assert_eq!(run(&source, "select 1").await.unwrap(), 1);
}

#[tokio::test]
async fn a_statement_has_a_time_limit() {
    let database = Database::new("create table t (v)");
    let statement_timeout = Some(Duration::from_millis(100));
    let source = Source::open(&SourceSettings { statement_timeout, ..database.config() }).unwrap();
    let error = wait("an error", run(&source, HEAVY)).await.unwrap_err();
    assert_eq!((error.code(), error.status().as_u16()), ("statement_timeout", 504));
    assert_eq!(run(&source, "select 1").await.unwrap(), 1);
    // The client's time doesn't count as the statement's, which needs some milliseconds, or a
    // hundred on a busy machine.
    let statement_timeout = Some(Duration::from_secs(1));
    let source = Source::open(&SourceSettings { statement_timeout, ..database.config() }).unwrap();
    let mut session = started(&source, &series(20_000)).await;
    assert!(next(&mut session).await.unwrap());
    tokio::time::sleep(Duration::from_millis(1200)).await;
    assert_eq!(count(&mut session).await.unwrap(), 19_999);
}

#[tokio::test]
async fn a_writers_lock_is_503_and_does_not_hold_a_dropped_session() {
    let database =
        Database::new("pragma journal_mode = delete; create table t (v); insert into t values (1)");
    let sql = "select v from t";
    let statement_timeout = Some(Duration::from_millis(100));
    let limited = Source::open(&SourceSettings { statement_timeout, ..database.config() }).unwrap();
    let source = database.source();
    assert_eq!(run(&limited, sql).await.unwrap(), 1);
    assert_eq!(run(&source, sql).await.unwrap(), 1);
    database.writer.execute_batch("begin exclusive").unwrap();
    assert_eq!(run(&limited, sql).await.unwrap_err().code(), "statement_timeout");
    let waited = tokio::time::timeout(Duration::from_millis(50), run(&source, sql)).await;
    assert!(waited.is_err(), "it did not wait for the writer");
    freed(&source).await;
    let error = run(&source, sql).await.unwrap_err();
    assert_eq!((error.code(), error.status().as_u16()), ("source_unavailable", 503));
    database.writer.execute_batch("commit").unwrap();
    assert_eq!(run(&source, sql).await.unwrap(), 1);
}

#[tokio::test]
async fn idle_connections_are_closed() {
    let database = Database::new("create table t (v)");
    let idle_timeout = Duration::from_millis(50);
    let source = database.with_pool(PoolConfig { idle_timeout, ..PoolConfig::default() });
    let reaper = tokio::spawn({
        let source = source.clone();
        async move { source.pool().reap().await }
    });
    run(&source, "select 1").await.unwrap();
    freed(&source).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(source.usage().idle, 0);
    reaper.abort();
}

#[tokio::test]
async fn a_missing_file_is_created_whole() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("made.db");
    let (tables, rows) = (folder.path().join("tables.sql"), folder.path().join("rows.sql"));
    std::fs::write(&tables, "create table t (id integer primary key, name text);").unwrap();
    std::fs::write(&rows, format!("-- rows\ninsert into t {};\nslect 1;", series(1000))).unwrap();
    let config = SourceSettings { create: vec![tables, rows.clone()], ..config(&file) };
    // The new file must not use the log of a deleted file.
    std::fs::write(folder.path().join("made.db-wal"), "stale").unwrap();

    let error = Source::create_missing(&config).unwrap_err();
    assert_eq!(error.message(), format!("{}:3: near \"slect\": syntax error", rows.display()));
    assert!(!file.exists());
    std::fs::write(&rows, format!("insert into t {};", series(1000))).unwrap();
    assert!(Source::create_missing(&config).unwrap());
    assert!(!Source::create_missing(&config).unwrap(), "what exists is left alone");
    let source = Source::open(&config).unwrap();
    assert_eq!(run(&source, "select * from t").await.unwrap(), 1000);
    assert!(!folder.path().join("made.db.partial").exists());

    let writer = Connection::open(&file).unwrap();
    let mode: String = writer.query_row("pragma journal_mode", [], |row| row.get(0)).unwrap();
    assert_eq!(mode, "wal");
}

/// `cargo test --release --test sqlite -- --ignored --nocapture speed`: a million rows through a
/// session and an encoder, compared with a bare step loop that reads the same columns.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
#[ignore = "a measurement"]
async fn speed() {
    const SQL: &str = r#"select event_no as "eventNo", paymt_status as "paymentStatus",
        status_chg_rsn as "statusChangeReason", status_chg_date as "statusChanged"
        from payment_event where event_no > 0 order by event_no"#;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("events.db");
    let script = repository().join("examples/events/data/sqlite.sql");
    let config = SourceSettings { create: vec![script], ..config(&file) };
    Source::create_missing(&config).unwrap();
    let source = Source::open(&config).unwrap();
    for _ in 0..7 {
        // In a separate thread, so that a profile by thread compares the two loops.
        let bare = std::thread::Builder::new().name("bare".to_owned()).spawn({
            let file = file.clone();
            move || step_loop(&file, SQL)
        });
        let (bare, read) = bare.unwrap().join().unwrap();
        let begun = Instant::now();
        let written = encode_all(&source, SQL).await;
        let ours = begun.elapsed();
        let ratio = ours.as_secs_f64() / bare.as_secs_f64();
        println!(
            "step loop {bare:.3?} ({read} bytes), session and encoder {ours:.3?} ({written} bytes): {ratio:.2}"
        );
    }
}

fn step_loop(file: &Path, sql: &str) -> (Duration, usize) {
    let begun = Instant::now();
    let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY | rusqlite::OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(file, flags).unwrap();
    let mut statement = connection.prepare(sql).unwrap();
    let columns = statement.column_count();
    let mut rows = statement.query([]).unwrap();
    let mut bytes = 0;
    while let Some(row) = rows.next().unwrap() {
        for column in 0..columns {
            bytes += match row.get_ref(column).unwrap() {
                rusqlite::types::ValueRef::Text(text) => text.len(),
                rusqlite::types::ValueRef::Null => 0,
                _ => 8,
            };
        }
    }
    (begun.elapsed(), bytes)
}

async fn encode_all(source: &Source, sql: &str) -> usize {
    let mut session = acquire(source).await;
    let columns = session.prepare(&statement(sql, &[])).await.unwrap();
    session.execute(0, &[]);
    let mut encoder = RowEncoder::new(Shape::Lines, &columns);
    let (mut out, mut written) = (Vec::with_capacity(72 * 1024), 0);
    poll_fn(|cx| {
        loop {
            match std::task::ready!(session.poll_row(cx)).unwrap() {
                Some(row) => row.encode(&mut encoder, &mut out).unwrap(),
                None => return std::task::Poll::Ready(()),
            }
            if out.len() > 64 * 1024 {
                written += out.len();
                out.clear();
            }
        }
    })
    .await;
    written + out.len()
}
