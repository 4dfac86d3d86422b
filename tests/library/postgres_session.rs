//! PostgreSQL sessions under all kinds of failures: fragmented bytes, connections cut anywhere,
//! futures dropped at every poll, cancelled statements, terminated backends, and peers that violate
//! the protocol.

#![expect(clippy::unwrap_used, reason = "the helpers of tests are tests, too")]

use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rowstream_core::Error;
use rowstream_core::params::{ParamType, ParamValue};
use rowstream_core::pool::Priority;

use crate::support::{
    Cut, Faults, Pieces, TcpProxy, TestDb, altered_conversations, logins, pg_port, polled, wait, wait_until,
};
use rowstream::config::Config;
use rowstream::database::{Session, Snapshot, Statement};
use rowstream::endpoint::Endpoint;
use rowstream::source::{Source, SourceConfig};
use rowstream::stream::RowStream;
use rowstream_encode::{Format, RowEncoder, Shape};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Several types, NULLs, and three statements in one body.
const BODY: &str = r#"/* body = { rows = "$rows", one = "$one", n = "$n" } */
-- name: rows :many
select n, n % 3 = 0 as b, repeat('x', n) as t, nullif(n, 3)::int8 as i, array[n, null] as a, '{"k": [1]}'::jsonb as j,
    timestamptz '2024-01-01' + n * interval '1 day' as at, n / 4::float8 as f
from generate_series(1, 5) n;
-- name: one :one
select null as nothing, 1.50 as price;
-- name: n :value
select 42
"#;

/// A connection is opened for each byte of the response, so it's short.
const SHORT: &str = r#"/* body = ["$a", "$b"] */
-- name: a :many
select n, nullif('x', 'x') as t from generate_series(1, 2) n;
-- name: b :value
select true
"#;

/// Produces rows for a long time. In `from`, the server would compute all of them before it sends
/// the first.
const ENDLESS: &str = "select generate_series(1, 1000000000) as n, repeat('x', 100) as x";

/// A source with an endpoint.
struct Asked {
    source: Source,
    endpoint: Endpoint,
}

impl Asked {
    /// A pool of one connection, unless `change` changes that.
    fn new(url: &str, sql: &str, change: impl FnOnce(&mut SourceConfig)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let toml = folder.path().join("rowstream.toml");
        std::fs::create_dir(folder.path().join("endpoints")).unwrap();
        std::fs::write(&toml, format!("[source.main]\nurl = \"{url}\"\n")).unwrap();
        std::fs::write(folder.path().join("endpoints/t.sql"), sql).unwrap();
        let mut config = Config::load(&toml).unwrap_or_else(|errors| panic!("{sql}: {errors:?}"));
        config.sources[0].pool.max = 1;
        change(&mut config.sources[0]);
        Self { source: Source::open(&config.sources[0]).unwrap(), endpoint: config.endpoints.remove(0) }
    }

    async fn open(&self, format: Format) -> Result<RowStream, Error> {
        RowStream::open(&self.endpoint, &self.source, format, Vec::new()).await
    }

    /// The complete body.
    async fn body(&self) -> Result<String, Error> {
        let mut stream = self.open(Format::Json).await?;
        let mut out = Vec::new();
        while let Some(chunk) = next(&mut stream).await? {
            out.extend_from_slice(&chunk);
        }
        Ok(String::from_utf8(out).unwrap())
    }
}

async fn next(stream: &mut RowStream) -> Result<Option<bytes::Bytes>, Error> {
    poll_fn(|cx| stream.poll_chunk(cx)).await.transpose()
}

fn endpoint(sql: &str) -> Endpoint {
    Config::single("postgres://unused", sql)
        .unwrap_or_else(|errors| panic!("{sql}: {errors:?}"))
        .endpoints
        .remove(0)
}

/// Runs a statement through a source, as NDJSON.
async fn run(source: &Source, sql: &str) -> Result<String, Error> {
    let mut stream = RowStream::open(&endpoint(sql), source, Format::Ndjson, Vec::new()).await?;
    let mut out = Vec::new();
    while let Some(chunk) = next(&mut stream).await? {
        out.extend_from_slice(&chunk);
    }
    Ok(String::from_utf8(out).unwrap())
}

/// The error of a statement.
async fn error_of(source: &Source, sql: &str) -> Error {
    match run(source, sql).await {
        Ok(rows) => panic!("{sql} yields {rows}"),
        Err(error) => error,
    }
}

/// Opens a stream and reads its first chunk.
async fn started(source: &Source, sql: &str) -> RowStream {
    let mut stream = RowStream::open(&endpoint(sql), source, Format::Ndjson, Vec::new()).await.unwrap();
    next(&mut stream).await.unwrap().unwrap();
    stream
}

fn source(url: &str) -> Source {
    Asked::new(url, "select 1", |_| {}).source
}

async fn backend(source: &Source) -> String {
    wait("a connection", run(source, "select pg_backend_pid() as pid")).await.unwrap()
}

/// The rows of the statement that runs in a session, as NDJSON.
async fn rows(session: &mut Session, columns: &[rowstream_encode::Column]) -> Result<String, Error> {
    let mut encoder = RowEncoder::new(Shape::Lines, columns);
    let mut out = Vec::new();
    while poll_fn(|cx| {
        session.poll_row(cx).map(|row| match row? {
            Some(row) => row.encode(&mut encoder, &mut out).map(|()| true),
            None => Ok(false),
        })
    })
    .await?
    {}
    Ok(String::from_utf8(out).unwrap())
}

fn statement(sql: &str, types: &[ParamType]) -> Statement {
    Statement { sql: Arc::from(sql), types: types.iter().map(|&kind| kind.into()).collect(), ad_hoc: false }
}

/// Prepares and runs one statement with arguments.
async fn ask(source: &Source, sql: &str, types: &[ParamType], args: &[ParamValue]) -> Result<String, Error> {
    let mut session = source.acquire(Snapshot::Statement, Priority::Stream).await?;
    let columns = session.prepare(&statement(sql, types)).await?;
    session.execute(0, &args.iter().collect::<Vec<_>>());
    rows(&mut session, &columns).await
}

/// Waits until a query returns the number `wanted`.
async fn until(client: &tokio_postgres::Client, sql: &str, wanted: i64) {
    let look = async || {
        let got: i64 = client.query_one(sql, &[]).await.unwrap().get(0);
        if got == wanted { Ok(()) } else { Err(got) }
    };
    wait_until(&format!("{wanted}: {sql}"), look).await;
}

/// Counts our running statements in the client's database.
const ACTIVE: &str = "select count(*) from pg_stat_activity
    where datname = current_database() and application_name = 'rowstream' and state = 'active'";
const CONNECTED: &str = "select count(*) from pg_stat_activity
    where datname = current_database() and application_name = 'rowstream'";

/// A piece contains one or two rows.
const PIECES: Faults =
    Faults { pieces: Some(Pieces { bytes: 2048, pause: Duration::ZERO }), cut: None, stall_after: None };

async fn proxied(db: &TestDb, faults: Faults) -> (TcpProxy, String) {
    let target = SocketAddr::from(([127, 0, 0, 1], pg_port()));
    let proxy = TcpProxy::to_client(target, faults).await;
    let url = format!("postgres://postgres@{}/{}?sslmode=disable", proxy.address(), db.name());
    (proxy, url)
}

// --- Bytes ---------------------------------------------------------------------------------------

#[tokio::test]
async fn a_result_in_fragments_of_any_size_is_the_same() {
    let db = TestDb::new().await;
    let whole = Asked::new(&db.url(), BODY, |_| {}).body().await.unwrap();
    assert!(whole.ends_with(r#""n":42}"#), "{whole}");
    let db = Arc::new(db);
    let mut all = JoinSet::new();
    for bytes in 1..=64 {
        let db = Arc::clone(&db);
        all.spawn(async move {
            let pieces = Some(Pieces { bytes, pause: Duration::ZERO });
            let (_proxy, url) = proxied(&db, Faults { pieces, ..Faults::default() }).await;
            (bytes, Asked::new(&url, BODY, |source| source.fetch_rows = bytes % 3).body().await)
        });
    }
    while let Some(done) = all.join_next().await {
        let (bytes, body) = done.unwrap();
        assert_eq!(body.unwrap(), whole, "in pieces of {bytes} bytes");
    }
}

/// Wherever the server's response is cut, the stream ends with an error.
#[tokio::test]
async fn a_connection_that_is_cut_anywhere_is_an_error() {
    let db = Arc::new(TestDb::new().await);
    let (proxy, url) = proxied(&db, Faults::default()).await;
    let whole = Asked::new(&url, SHORT, |_| {}).body().await.unwrap();
    let bytes = proxy.bytes_to_client();
    let mut all = JoinSet::new();
    for at in 0..bytes {
        let (db, whole) = (Arc::clone(&db), whole.clone());
        if all.len() >= 32 {
            all.join_next().await.unwrap().unwrap();
        }
        all.spawn(async move {
            let how = if at % 2 == 0 { Cut::Close } else { Cut::Reset };
            let (_proxy, url) = proxied(&db, Faults { cut: Some((at, how)), ..Faults::default() }).await;
            match wait("its end", Asked::new(&url, SHORT, |_| {}).body()).await {
                Err(error) => assert_eq!(error.code(), "source_unavailable", "cut at {at}: {error:?}"),
                Ok(body) => panic!("cut at {at} of {bytes}, and still {body} of {whole}"),
            }
        });
    }
    while let Some(done) = all.join_next().await {
        done.unwrap();
    }
}

// --- Dropped futures -----------------------------------------------------------------------------

/// Drops a response after each number of polls, and uses the pool's only connection each time. On a
/// busy machine, where one poll found many rows, there were once only 5 polls.
async fn dropped_at_every_poll(proxy: &TcpProxy, url: &str, warm: bool, change: fn(&mut SourceConfig)) {
    let sql = "/* body = [\"$a\", \"$b\"] */
        -- name: a :many
        select n, repeat('x', 3000) as x, pg_sleep(0.0005)::text as s from generate_series(1, 12) n;
        -- name: b :many
        select n from generate_series(1, 7) n";
    let shared = Asked::new(url, sql, change);
    for polls in 0.. {
        let own;
        let asked = if warm {
            &shared
        } else {
            own = Asked::new(url, sql, change);
            &own
        };
        let done = proxy.polled(asked.body(), polls).await;
        let marker = format!("select {polls} as v");
        let what = format!("a connection after a drop at poll {polls}");
        let answer = wait(&what, run(&asked.source, &marker)).await;
        assert_eq!(answer.unwrap(), format!("{{\"v\":{polls}}}\n"), "after a drop at poll {polls}");
        if let Some(done) = done {
            done.unwrap();
            assert!(polls > 12, "{polls} polls are no test");
            return;
        }
        assert!(polls < 5000, "the stream does not end");
    }
}

#[tokio::test]
async fn a_new_connection_may_be_dropped_at_every_poll() {
    let db = TestDb::new().await;
    let (proxy, _) = proxied(&db, PIECES).await;
    let url = db.url_of(&logins::SCRAM, "sslmode=require");
    let url = url.replace(&format!(":{}/", pg_port()), &format!(":{}/", proxy.port()));
    dropped_at_every_poll(&proxy, &url, false, |_| {}).await;
}

#[tokio::test]
async fn a_response_may_be_dropped_at_every_poll() {
    let db = TestDb::new().await;
    let (proxy, url) = proxied(&db, PIECES).await;
    dropped_at_every_poll(&proxy, &url, true, |_| {}).await;
}

#[tokio::test]
async fn a_response_in_portions_may_be_dropped_at_every_poll() {
    let db = TestDb::new().await;
    let (proxy, url) = proxied(&db, PIECES).await;
    dropped_at_every_poll(&proxy, &url, true, |source| source.fetch_rows = 3).await;
}

// --- Cancelling ----------------------------------------------------------------------------------

#[tokio::test]
async fn a_dropped_stream_ends_in_the_database_and_its_connection_lives_on() {
    let db = TestDb::new().await;
    let (source, client) = (source(&db.url()), db.client().await);
    let pid = backend(&source).await;
    let stream = started(&source, ENDLESS).await;
    until(&client, ACTIVE, 1).await;
    drop(stream);
    until(&client, ACTIVE, 0).await;
    assert_eq!(backend(&source).await, pid);
}

#[tokio::test]
async fn a_dropped_wait_ends_in_the_database_and_its_connection_lives_on() {
    let db = TestDb::new().await;
    let (source, client) = (source(&db.url()), db.client().await);
    let pid = backend(&source).await;
    let mut waits = Box::pin(run(&source, "select pg_sleep(1000)::text as v"));
    let active = until(&client, ACTIVE, 1);
    tokio::select! {
        done = &mut waits => panic!("{done:?}"),
        () = active => {}
    }
    drop(waits);
    until(&client, ACTIVE, 0).await;
    assert_eq!(backend(&source).await, pid);
}

#[tokio::test]
async fn a_hundred_drops_leave_a_pool_of_two_as_it_was() {
    let db = TestDb::new().await;
    let asked = Asked::new(&db.url(), "select 1", |source| source.pool.max = 2);
    for n in 0..100 {
        let sql = format!("{ENDLESS} /* {n} */");
        drop(wait(&format!("drop {n}"), started(&asked.source, &sql)).await);
    }
    for n in 0..4 {
        let answer = wait("a connection", run(&asked.source, &format!("select {n} as v"))).await;
        assert_eq!(answer.unwrap(), format!("{{\"v\":{n}}}\n"));
    }
    let client = db.client().await;
    until(&client, ACTIVE, 0).await;
    let connected: i64 = client.query_one(CONNECTED, &[]).await.unwrap().get(0);
    assert!(connected <= 2, "{connected}");
}

// --- Backends that end ---------------------------------------------------------------------------

const TERMINATE: &str = "select count(pg_terminate_backend(pid)) from pg_stat_activity
    where datname = current_database() and application_name = 'rowstream'";

#[tokio::test]
async fn a_backend_that_is_terminated_in_mid_stream_is_an_error_and_is_replaced() {
    let db = TestDb::new().await;
    let (source, client) = (source(&db.url()), db.client().await);
    let pid = backend(&source).await;
    let mut stream = started(&source, ENDLESS).await;
    until(&client, TERMINATE, 1).await;
    let ended = async {
        loop {
            match next(&mut stream).await {
                Ok(Some(_)) => {}
                Ok(None) => panic!("a cut result ended as a whole one"),
                Err(error) => break error,
            }
        }
    };
    let error = wait("the stream ends", ended).await;
    assert_eq!((error.code(), error.status().as_u16()), ("source_unavailable", 503), "{error:?}");
    drop(stream);
    assert_ne!(backend(&source).await, pid);
}

#[tokio::test]
async fn an_idle_connection_that_was_terminated_is_not_used_again() {
    let db = TestDb::new().await;
    let (source, client) = (source(&db.url()), db.client().await);
    for _ in 0..5 {
        let pid = backend(&source).await;
        until(&client, TERMINATE, 1).await;
        until(&client, CONNECTED, 0).await;
        assert_ne!(backend(&source).await, pid);
    }
}

// --- Snapshots and portions ----------------------------------------------------------------------

#[tokio::test]
async fn the_statements_of_a_response_read_one_snapshot() {
    let db = TestDb::new().await;
    db.execute("create table t as select 1 as n").await;
    for fetch_rows in [0, 1] {
        let asked = Asked::new(&db.url(), "select 1", |source| source.fetch_rows = fetch_rows);
        let mut session = asked.source.acquire(Snapshot::Transaction, Priority::Stream).await.unwrap();
        let first = session.prepare(&statement("select count(*) as a from t", &[])).await.unwrap();
        let second = session.prepare(&statement("select count(*) as a, 2 as b from t", &[])).await.unwrap();
        session.execute(0, &[]);
        let before = rows(&mut session, &first).await.unwrap();
        db.execute("insert into t values (2)").await;
        session.execute(1, &[]);
        let after = rows(&mut session, &second).await.unwrap();
        assert_eq!(after, before.replace("}", ",\"b\":2}"));
        drop(session);
        let later = wait("a connection", run(&asked.source, "select count(*) as a from t")).await.unwrap();
        assert_ne!(later, before);
    }
}

#[tokio::test]
async fn portions_hold_every_row_once_and_in_order() {
    let db = TestDb::new().await;
    let sql = "/* body = [\"$a\", \"$b\", \"$c\"] */
        -- name: a :many
        select n from generate_series(1, 1005) n;
        -- name: b :many
        select n from generate_series(1, 10) n;
        -- name: c :many
        select n from generate_series(1, 0) n";
    let list = |to: u32| (1..=to).map(|n| format!("{{\"n\":{n}}}")).collect::<Vec<_>>().join(",");
    let expected = format!("[[{}],[{}],[]]", list(1005), list(10));
    for fetch_rows in [0, 1, 10, 1004, 1005, 1006] {
        let asked = Asked::new(&db.url(), sql, |source| source.fetch_rows = fetch_rows);
        for _ in 0..2 {
            assert_eq!(asked.body().await.unwrap(), expected, "{fetch_rows}");
        }
        let lines = run(&asked.source, "select n from generate_series(1, 1005) n").await.unwrap();
        assert_eq!(lines, list(1005).replace("},{", "}\n{") + "\n");
        let error = error_of(&asked.source, "select 1 / (n - 900) from generate_series(1, 1005) n").await;
        assert_eq!(error.sqlstate_text(), Some("22012"));
    }
}

// --- Prepared statements -------------------------------------------------------------------------

/// The number of statements that the server keeps for the source's only connection, including this
/// one.
async fn prepared(source: &Source) -> u64 {
    let line = run(source, "select count(*)::int as v from pg_prepared_statements").await.unwrap();
    line.trim_start_matches("{\"v\":").trim_end_matches("}\n").parse().unwrap()
}

#[tokio::test]
async fn the_statement_cache_is_bounded_on_both_sides() {
    let db = TestDb::new().await;
    for limit in [0, 1, 2] {
        let asked = Asked::new(&db.url(), "select 1", |source| source.statement_cache = limit);
        for round in 0..10 {
            for n in 0..5 {
                assert_eq!(
                    run(&asked.source, &format!("select {n} as v")).await.unwrap(),
                    format!("{{\"v\":{n}}}\n")
                );
            }
            let kept = prepared(&asked.source).await;
            assert!(kept <= 3, "{kept} statements in round {round} under a limit of {limit}");
        }
    }
}

/// A response with more statements than the cache closed its first ones before it executed them.
#[tokio::test]
async fn a_response_may_have_more_statements_than_the_cache() {
    let db = TestDb::new().await;
    let names = ["a", "b", "c", "d", "e"];
    let body = names.map(|name| format!("\"${name}\"")).join(", ");
    let statements = names.map(|name| format!("-- name: {name} :value\nselect '{name}'")).join(";\n");
    let sql = format!("/* body = [{body}] */\n{statements}");
    let asked = Asked::new(&db.url(), &sql, |source| source.statement_cache = 2);
    for _ in 0..3 {
        assert_eq!(asked.body().await.unwrap(), r#"["a","b","c","d","e"]"#);
    }
    for n in 0..3 {
        run(&asked.source, &format!("select {n} as v")).await.unwrap();
    }
    let kept = prepared(&asked.source).await;
    assert!(kept <= 3, "{kept} statements are kept");
}

/// A statement that was parsed but couldn't be used stayed on the server as long as the connection.
#[tokio::test]
async fn a_statement_that_fails_after_it_was_parsed_does_not_stay() {
    let db = TestDb::new().await;
    db.execute("create table t (n int)").await;
    let source = Asked::new(&db.url(), "select 1", |source| source.statement_cache = 2).source;
    for _ in 0..20 {
        assert_eq!(error_of(&source, "insert into t values (1)").await.code(), "endpoint");
    }
    let kept = prepared(&source).await;
    assert!(kept <= 2, "{kept} statements are kept");
    for n in 0..40 {
        let sql = format!("select {n} as v, null::text as t");
        for polls in 1..3 {
            drop(polled(run(&source, &sql), polls, || {}).await);
            backend(&source).await;
        }
    }
    let kept = prepared(&source).await;
    assert!(kept <= 2, "{kept} statements are kept");
}

#[tokio::test]
async fn a_column_whose_type_changes_is_never_misread() {
    let db = TestDb::new().await;
    db.execute("create table t as select 7 as v").await;
    let source = source(&db.url());
    let sql = "select * from t";
    assert_eq!(run(&source, sql).await.unwrap(), "{\"v\":7}\n");
    for (change, expected) in [
        ("alter table t alter v type text using 'x' || v", "{\"v\":\"x7\"}\n"),
        ("alter table t alter v type float8 using 0.5", "{\"v\":0.5}\n"),
        ("alter table t add w int default 1", "{\"v\":0.5,\"w\":1}\n"),
        ("alter table t rename v to u", "{\"u\":0.5,\"w\":1}\n"),
        ("drop table t; create table t as select '{1}'::int[] as a", "{\"a\":[1]}\n"),
    ] {
        db.execute(change).await;
        match run(&source, sql).await {
            Ok(line) => assert_eq!(line, expected),
            Err(error) => {
                assert_eq!((error.code(), error.status().as_u16()), ("statement_changed", 503), "{error:?}");
            }
        }
        assert_eq!(run(&source, sql).await.unwrap(), expected, "after {change}");
    }
    // Acts like a pooler: the session's statements are gone.
    let error =
        error_of(&source, "select 1 as v from t where pg_notify('x', '') is null and 1 / 0 = 1").await;
    assert!(error.sqlstate_text().is_some());
}

// --- What statements may do ----------------------------------------------------------------------

#[tokio::test]
async fn statements_cannot_write() {
    let db = TestDb::new().await;
    db.execute("create table t (n int); create sequence s; create function w() returns int language sql as 'insert into t values (1) returning n'").await;
    for fetch_rows in [0, 10] {
        let source = Asked::new(&db.url(), "select 1", |source| source.fetch_rows = fetch_rows).source;
        for sql in [
            "insert into t values (1) returning n",
            "with w as (insert into t values (1) returning n) select * from w",
            "select w()",
            "select nextval('s')",
            "update t set n = 2 returning n",
            "delete from t returning n",
        ] {
            let error = error_of(&source, sql).await;
            assert_eq!(
                (error.sqlstate_text(), error.code()),
                (Some("25006"), "statement_failed"),
                "{sql}: {error:?}"
            );
        }
        assert_eq!(run(&source, "select count(*) as v from t").await.unwrap(), "{\"v\":0}\n");
    }
}

#[tokio::test]
async fn a_statement_has_its_time() {
    let db = TestDb::new().await;
    let asked = Asked::new(&db.url(), "select 1", |source| {
        source.statement_timeout = Some(Duration::from_millis(200));
    });
    let pid = backend(&asked.source).await;
    let error = wait("an error", error_of(&asked.source, "select pg_sleep(1000)")).await;
    assert_eq!((error.code(), error.status().as_u16()), ("statement_timeout", 504), "{error:?}");
    assert_eq!(backend(&asked.source).await, pid);
}

#[tokio::test]
async fn a_parameter_that_cannot_be_inferred_has_its_declared_type() {
    let db = TestDb::new().await;
    let source = source(&db.url());
    let text = |text: &str| text.to_owned();
    for (kind, value, name) in [
        (ParamType::Integer, ParamValue::Integer(-5), "bigint"),
        (ParamType::Number, ParamValue::Number(text("-12.50")), "numeric"),
        (ParamType::Text, ParamValue::Text(text("é'\"")), "text"),
        (ParamType::Boolean, ParamValue::Boolean(true), "boolean"),
        (ParamType::Date, ParamValue::Date("2024-02-29".parse().unwrap()), "date"),
        (
            ParamType::Timestamp,
            ParamValue::Timestamp("2024-02-29T12:00:00".parse().unwrap()),
            "timestamp with time zone",
        ),
        (ParamType::Duration, ParamValue::Duration(text("P1DT2H")), "interval"),
        (ParamType::Uuid, ParamValue::Uuid(text("01234567-89ab-cdef-0123-456789abcdef")), "uuid"),
        (ParamType::Json, ParamValue::Json(text("{\"a\": 1}")), "jsonb"),
    ] {
        for value in [value, ParamValue::Null] {
            let sql = "select pg_typeof($1)::text as v";
            // A cached statement would keep the type of the previous one.
            let sql = format!("{sql} /* {name} */");
            let line = ask(&source, &sql, &[kind], &[value]).await.unwrap();
            assert_eq!(line, format!("{{\"v\":\"{name}\"}}\n"));
        }
    }
    // The statement's own type takes precedence over the declared one.
    let line = ask(
        &source,
        "select pg_typeof($1::int2)::text as v",
        &[ParamType::Integer],
        &[ParamValue::Integer(1)],
    )
    .await;
    assert_eq!(line.unwrap(), "{\"v\":\"smallint\"}\n");
    let optional = "select count(*) as v from generate_series(1, 9) n where $1 is null or n > $1";
    for (value, expected) in [(ParamValue::Null, 9), (ParamValue::Integer(7), 2)] {
        let line = ask(&source, optional, &[ParamType::Integer], &[value]).await.unwrap();
        assert_eq!(line, format!("{{\"v\":{expected}}}\n"));
    }
    let error = ask(&source, "select $1::int2 as v", &[ParamType::Integer], &[ParamValue::Integer(70_000)])
        .await
        .unwrap_err();
    assert_eq!((error.sqlstate_text(), error.status().as_u16()), (Some("22003"), 400), "{error:?}");
    assert_eq!(run(&source, "select 1 as v").await.unwrap(), "{\"v\":1}\n");
    // Without a known type, we don't guess.
    for sql in ["select pg_typeof(:a) as v", "select :a + :b as v", "select array_agg(x) from unnest(:a) x"] {
        let error = error_of(&source, sql).await;
        let hint = error.hint_text().unwrap_or_default();
        assert!(hint.contains("`--param NAME:integer`"), "{sql}: {error:?} {hint}");
    }
    assert_eq!(run(&source, "select 1 as v").await.unwrap(), "{\"v\":1}\n");
}

#[tokio::test]
async fn lists_are_arrays_whatever_their_elements_hold() {
    let db = TestDb::new().await;
    let source = source(&db.url());
    let texts = [
        "a",
        "",
        "NULL",
        "null",
        "a b",
        " ",
        "\"",
        "\\",
        "\\\"",
        "{",
        "}",
        "{}",
        "{a,b}",
        ",",
        "a,b",
        "'",
        "\n\t",
        "é😀",
        "[1:2]={a,b}",
    ];
    let list = || ParamValue::List(texts.iter().map(|text| ParamValue::Text((*text).to_owned())).collect());
    let lines =
        ask(&source, "select v from unnest($1::text[]) v", &[ParamType::Text], &[list()]).await.unwrap();
    let expected: String =
        texts.iter().map(|text| format!("{}\n", serde_json::json!({ "v": text }))).collect();
    assert_eq!(lines, expected);
    for text in texts {
        let sql = "select $2 = any($1::text[]) as v, $2 = any($3) as w";
        let one = ParamValue::List(vec![ParamValue::Text(text.to_owned())]);
        let args = [list(), ParamValue::Text(text.to_owned()), one];
        let line = ask(&source, sql, &[ParamType::Text; 3], &args).await.unwrap();
        assert_eq!(line, "{\"v\":true,\"w\":true}\n", "{text:?}");
    }
    let ids = ParamValue::List([3, 1, -9].map(ParamValue::Integer).to_vec());
    let sql = "select n from generate_series(1, 5) n where n = any($1) order by n";
    assert_eq!(ask(&source, sql, &[ParamType::Integer], &[ids]).await.unwrap(), "{\"n\":1}\n{\"n\":3}\n");
    assert_eq!(ask(&source, sql, &[ParamType::Integer], &[ParamValue::List(Vec::new())]).await.unwrap(), "");
}

#[tokio::test]
async fn an_error_tells_its_place_in_the_users_file() {
    let db = TestDb::new().await;
    for (sql, place) in [
        ("select 1,\n  'é', nowhere", (2, 8)),
        ("selec 1", (1, 1)),
        ("select 1\nfrom   missing_table", (2, 8)),
    ] {
        let asked = Asked::new(&db.url(), sql, |_| {});
        let values = vec![ParamValue::Null; asked.endpoint.params.len()];
        let opened = RowStream::open(&asked.endpoint, &asked.source, Format::Json, values).await;
        let error = opened.err().unwrap_or_else(|| panic!("{sql} runs"));
        let position = error.position_offset().unwrap_or_else(|| panic!("{sql}: {error:?}"));
        assert_eq!(asked.endpoint.statements()[0].origin.place(position), place, "{sql}: {error:?}");
    }
}

#[tokio::test]
async fn a_row_has_its_limit() {
    let db = TestDb::new().await;
    let asked = Asked::new(&db.url(), "select 1", |source| source.max_row_bytes = 100_000);
    let row = |bytes: usize| format!("select repeat('x', {bytes}) as v");
    assert_eq!(run(&asked.source, &row(99_900)).await.unwrap().len(), 99_900 + 9);
    for bytes in [100_001, 3_000_000] {
        let error = error_of(&asked.source, &row(bytes)).await;
        assert_eq!(error.code(), "row_too_large", "{error:?}");
    }
    assert_eq!(run(&asked.source, "select 1 as v").await.unwrap(), "{\"v\":1}\n");

    let default = source(&db.url());
    let sql = "select repeat(chr(64 + n), 3000000) as v from generate_series(1, 5) n";
    let body = run(&default, sql).await.unwrap();
    let expected: String = ["A", "B", "C", "D", "E"]
        .map(|letter| format!("{{\"v\":\"{}\"}}\n", letter.repeat(3_000_000)))
        .concat();
    assert!(body == expected, "{} bytes", body.len());
}

// --- Peers that do not keep to the protocol ------------------------------------------------------

/// A message: tag, length, body.
fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).unwrap().to_be_bytes();
    [&[tag][..], &length, body].concat()
}

/// A message with a wrong length.
fn lying(tag: u8, length: u32, body: &[u8]) -> Vec<u8> {
    [&[tag][..], &length.to_be_bytes(), body].concat()
}

fn ready() -> Vec<u8> {
    message(b'Z', b"I")
}

/// A RowDescription with these columns and types.
fn description(columns: &[(&str, u32)]) -> Vec<u8> {
    let mut body = u16::try_from(columns.len()).unwrap().to_be_bytes().to_vec();
    for (name, oid) in columns {
        body.extend_from_slice(name.as_bytes());
        body.extend_from_slice(&[0, 0, 0, 0, 0, 0, 0]);
        body.extend_from_slice(&oid.to_be_bytes());
        body.extend_from_slice(&[0, 4, 0xff, 0xff, 0xff, 0xff, 0, 0]);
    }
    message(b'T', &body)
}

/// A DataRow with these fields, given by length and bytes.
fn data_row(count: u16, fields: &[(i32, &[u8])]) -> Vec<u8> {
    let mut body = count.to_be_bytes().to_vec();
    for (length, bytes) in fields {
        body.extend_from_slice(&length.to_be_bytes());
        body.extend_from_slice(bytes);
    }
    message(b'D', &body)
}

const INT4: u32 = 23;
const TEXT: u32 = 25;

/// A peer's answers to the client's steps: the start-up, the settings, the description, the rows.
type Script = [Vec<u8>; 4];

/// A correct conversation: two rows with a number and a text.
fn good() -> Script {
    let row = |n: u8, text: &[u8]| data_row(2, &[(4, &[0, 0, 0, n]), (text.len() as i32, text)]);
    let start = [
        message(b'R', &[0, 0, 0, 0]),
        message(b'S', b"server_version\x0015.0\0"),
        message(b'K', &[0, 0, 0, 1, 0, 0, 0, 2]),
        ready(),
    ];
    let described =
        [message(b'1', b""), message(b't', &[0, 0]), description(&[("n", INT4), ("t", TEXT)]), ready()];
    let rows =
        [message(b'2', b""), row(7, b"seven"), row(8, "é".as_bytes()), message(b'C', b"SELECT 2\0"), ready()];
    [start.concat(), [message(b'C', b"SET\0"), ready()].concat(), described.concat(), rows.concat()]
}

const GOOD_ROWS: &str = "{\"n\":7,\"t\":\"seven\"}\n{\"n\":8,\"t\":\"é\"}\n";

/// The peer's behaviour after its last answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum After {
    Close,
    /// Sends the last answer repeatedly.
    Repeat,
    /// Sends nothing until the client disconnects.
    Wait,
}

/// A peer that plays a script on every connection. It closes once the client has been silent for a
/// while, because a client may correctly wait for bytes that never arrive.
async fn peer(script: Vec<Vec<u8>>, after: After) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let script = Arc::new(script);
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let script = Arc::clone(&script);
            // The client may disconnect at any time.
            tokio::spawn(async move { drop(play(socket, &script, after).await) });
        }
    });
    format!("postgres://u@{address}/d?sslmode=disable&connect_timeout=1")
}

async fn play(mut socket: TcpStream, script: &[Vec<u8>], after: After) -> std::io::Result<()> {
    let silence = Duration::from_millis(150);
    for (index, answer) in script.iter().enumerate() {
        match timeout(silence, sending(&mut socket, index == 0)).await {
            Ok(Ok(true)) => socket.write_all(answer).await?,
            _ => return Ok(()),
        }
    }
    match after {
        After::Close => Ok(()),
        After::Repeat => loop {
            socket.write_all(script.last().unwrap()).await?;
            tokio::task::yield_now().await;
        },
        After::Wait => socket.read_to_end(&mut Vec::new()).await.map(drop),
    }
}

/// Reads up to a message that requires an answer: the start-up, a password, a query, or a Sync.
/// Returns false for a cancel request.
async fn sending(socket: &mut TcpStream, startup: bool) -> std::io::Result<bool> {
    loop {
        let tag = if startup { b'Q' } else { socket.read_u8().await? };
        let length = socket.read_u32().await? as usize;
        let mut body = vec![0; length - 4];
        socket.read_exact(&mut body).await?;
        if startup {
            return Ok(body[..4] == [0, 3, 0, 0]);
        }
        if matches!(tag, b'Q' | b'S' | b'p') {
            return Ok(true);
        }
    }
}

/// The rows that a client reads from a peer, or its error.
async fn meets(script: Vec<Vec<u8>>, after: After) -> Result<String, Error> {
    let source = source(&peer(script, after).await);
    wait("rows or an error", run(&source, "select n, t")).await
}

/// A script with one changed answer.
fn with(index: usize, answer: Vec<u8>) -> Vec<Vec<u8>> {
    let mut script = good().to_vec();
    script[index] = answer;
    script
}

#[tokio::test]
async fn the_scripted_peer_is_believed_when_it_keeps_to_the_protocol() {
    assert_eq!(meets(good().to_vec(), After::Close).await.unwrap(), GOOD_ROWS);
}

#[tokio::test]
async fn a_peer_that_breaks_the_protocol_is_an_error() {
    let row = || data_row(2, &[(4, &[0, 0, 0, 7]), (1, b"x")]);
    let end = || [message(b'C', b"SELECT 1\0"), ready()].concat();
    let rows: Vec<(&str, Vec<u8>)> = vec![
        ("a length of 3", lying(b'D', 3, &[0; 64])),
        ("a length of 0", lying(b'D', 0, &[0; 64])),
        ("a length of 2^31", lying(b'D', 1 << 31, &[0; 64])),
        ("a length of 2^32 - 1", lying(b'D', u32::MAX, &[0; 64])),
        ("a notice of 2^31", lying(b'N', 1 << 31, &[0; 64])),
        ("too many fields", data_row(3, &[(4, &[0; 4]), (0, b""), (0, b"")])),
        ("too few fields", data_row(1, &[(4, &[0; 4])])),
        ("65,535 fields", data_row(u16::MAX, &[(4, &[0; 4]), (0, b"")])),
        ("a field beyond the row", data_row(2, &[(4, &[0; 4]), (100, b"short")])),
        ("a field of 2^31 - 1", data_row(2, &[(4, &[0; 4]), (i32::MAX, b"short")])),
        ("a negative length", data_row(2, &[(4, &[0; 4]), (-2, b"")])),
        ("the least length", data_row(2, &[(i32::MIN, &[0; 4]), (0, b"")])),
        ("bytes after the last field", data_row(2, &[(4, &[0; 4]), (1, b"xyz")])),
        ("a row without a count", message(b'D', &[0])),
        ("an empty row", message(b'D', b"")),
        ("an int4 of three bytes", data_row(2, &[(3, &[0; 3]), (0, b"")])),
        ("an int4 of no bytes", data_row(2, &[(0, b""), (0, b"")])),
        ("text that is not UTF-8", data_row(2, &[(4, &[0; 4]), (2, &[0xff, 0xfe])])),
        ("half a letter", data_row(2, &[(4, &[0; 4]), (1, &[0xc3])])),
        ("an unknown tag", message(b'?', b"")),
        ("a tag of zero", message(0, b"")),
        ("an authentication", message(b'R', &[0, 0, 0, 0])),
        ("a description", description(&[("n", INT4)])),
        ("CopyData", message(b'd', b"x")),
        ("CopyOutResponse", message(b'H', &[0, 0, 0])),
        ("CopyInResponse", message(b'G', &[0, 0, 0])),
        ("CopyBothResponse", message(b'W', &[0, 0, 0])),
        ("EmptyQueryResponse", message(b'I', b"")),
        ("an error without fields", message(b'E', b"")),
        ("an error that is not terminated", message(b'E', b"SERROR")),
        ("ReadyForQuery alone", ready()),
        ("ReadyForQuery twice", [ready(), ready()].concat()),
        ("ReadyForQuery without a status", [message(b'C', b"SELECT 1\0"), message(b'Z', b"")].concat()),
        ("PortalSuspended without end", message(b's', b"")),
        ("a row after the end", [message(b'C', b"SELECT 0\0"), row()].concat()),
        ("two ends", message(b'C', b"SELECT 0\0")),
    ];
    for (what, answer) in rows {
        for answer in [[answer.clone(), end()].concat(), [row(), answer].concat()] {
            if let Ok(rows) = meets(with(3, answer), After::Close).await {
                panic!("{what} is taken for {rows:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_peer_that_breaks_the_protocol_before_the_rows_is_an_error() {
    let ok = || message(b'R', &[0, 0, 0, 0]);
    let sasl = || message(b'R', b"\0\0\0\x0aSCRAM-SHA-256\0\0");
    for (what, index, answer) in [
        ("nothing at the start", 0, Vec::new()),
        ("HTTP", 0, b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n".to_vec()),
        ("TLS", 0, vec![0x15, 3, 1, 0, 2, 2, 0x28]),
        ("rows instead of an authentication", 0, [data_row(1, &[(0, b"")]), ready()].concat()),
        ("an authentication without a kind", 0, message(b'R', b"")),
        ("an unknown authentication", 0, message(b'R', &[0, 0, 0, 99])),
        ("Kerberos", 0, message(b'R', &[0, 0, 0, 2])),
        ("md5 without a salt", 0, message(b'R', &[0, 0, 0, 5])),
        ("a password that the URL does not have", 0, message(b'R', &[0, 0, 0, 3])),
        ("SASL without a mechanism", 0, message(b'R', &[0, 0, 0, 10])),
        ("SASL without the end of its list", 0, message(b'R', b"\0\0\0\x0aSCRAM-SHA-256")),
        ("SASL without a password", 0, sasl()),
        ("an error at the start", 0, message(b'E', b"SFATAL\0C53300\0Mtoo many\0\0")),
        ("an end of the keys", 0, [ok(), message(b'K', &[0, 0, 0]), ready()].concat()),
        (
            "an error instead of the settings",
            1,
            [message(b'E', b"SERROR\0C42704\0Mno such\0\0"), ready()].concat(),
        ),
        ("a row before Bind", 2, [data_row(1, &[(4, &[0; 4])]), ready()].concat()),
        ("no description", 2, ready()),
        ("a description that ends early", 2, [message(b'T', &[0, 2, b'n']), ready()].concat()),
        ("a description of 65,535 columns", 2, [message(b'T', &[0xff, 0xff, b'n', 0]), ready()].concat()),
        (
            "a name that is not UTF-8",
            2,
            [message(b'T', b"\0\x01\xff\0\0\0\0\0\0\0\0\0\0\x17\0\x04\xff\xff\xff\xff\0\0"), ready()]
                .concat(),
        ),
        ("two columns of one name", 2, [description(&[("n", INT4), ("n", TEXT)]), ready()].concat()),
    ] {
        if let Ok(rows) = meets(with(index, answer), After::Close).await {
            panic!("{what} is taken for {rows:?}");
        }
    }
}

/// PostgreSQL sends keys of four bytes, other servers up to 256, and a proxy may send none. Without
/// a key we can't cancel a statement. We sent zeros instead, 17 times a second.
#[tokio::test]
async fn a_statement_is_cancelled_with_the_key_that_the_server_gave() {
    let start = |key: &[u8]| {
        let key = if key.is_empty() { Vec::new() } else { message(b'K', &[&[0, 0, 0, 1], key].concat()) };
        [message(b'R', &[0, 0, 0, 0]), key, ready()].concat()
    };
    for key in [&[7; 4][..], &[7; 32], &[7; 256], &[]] {
        let mut script = with(0, start(key));
        // The statement keeps running.
        script[3] = Vec::new();
        let url = peer(script, After::Wait).await;
        let (_, address) = url.split_once('@').unwrap();
        let address: SocketAddr = address.split('/').next().unwrap().parse().unwrap();
        let proxy = TcpProxy::transparent(address).await;
        let source = source(&url.replace(&address.to_string(), &proxy.address().to_string()));
        let left = timeout(Duration::from_millis(100), run(&source, "select n, t")).await;
        assert!(left.is_err(), "{left:?}");
        if key.is_empty() {
            tokio::time::sleep(Duration::from_millis(200)).await;
            assert_eq!(proxy.connections(), 1);
        } else {
            wait_until("it is cancelled", async || proxy.connections() > 1).await;
        }
    }
}

/// A pooler may have sent this temporary error, so it doesn't count against the statement.
#[tokio::test]
async fn an_internal_error_while_a_statement_is_prepared_is_the_servers() {
    let answer = [message(b'E', b"SERROR\0CXX000\0Mno server\0\0"), ready()].concat();
    let error = meets(with(2, answer), After::Close).await.unwrap_err();
    assert_eq!((error.code(), error.sqlstate_text()), ("source_unavailable", Some("XX000")));
}

#[tokio::test]
async fn a_peer_cannot_make_us_compute_for_ever() {
    let sasl = message(b'R', b"\0\0\0\x0aSCRAM-SHA-256\0\0");
    for first in [
        "r=x,s=c2FsdA==,i=4294967295",
        "r=x,s=c2FsdA==,i=0",
        "r=x,s=c2FsdA==,i=-1",
        "r=x",
        "",
        "r=x,s=?,i=4096",
        ",,,",
    ] {
        let continued = message(b'R', &[b"\0\0\0\x0b", first.as_bytes()].concat());
        let url = peer(vec![sasl.clone(), continued], After::Close).await;
        let source = source(&url.replace("u@", "u:p@"));
        let error = wait("an error", run(&source, "select 1")).await.unwrap_err();
        assert_eq!(error.code(), "source_unavailable", "{first}: {error:?}");
    }
}

#[tokio::test]
async fn endless_notices_end_with_the_time_of_the_connection() {
    let notices = message(b'N', b"SNOTICE\0C00000\0Mhello\0\0").repeat(50);
    for index in [0, 1] {
        let mut script = good()[..=index].to_vec();
        script[index] =
            [if index == 0 { message(b'R', &[0; 4]) } else { Vec::new() }, notices.clone()].concat();
        let error = if index == 0 {
            // The first message is an authentication, so the notices replace it.
            meets(vec![notices.clone()], After::Repeat).await.unwrap_err()
        } else {
            meets(script, After::Repeat).await.unwrap_err()
        };
        assert_eq!(error.code(), "source_unavailable", "{error:?}");
    }
}

/// A statement may run for any time, and notices show that it's alive. But its request must be able
/// to end at any time.
#[tokio::test]
async fn a_request_can_leave_a_peer_that_only_sends_notices() {
    tokio::join!(leave_notices(2), leave_notices(3));
}

async fn leave_notices(index: usize) {
    let mut script = good()[..=index].to_vec();
    script[index] = message(b'N', b"SNOTICE\0C00000\0Mhello\0\0").repeat(50);
    let source = source(&peer(script, After::Repeat).await);
    let answer = timeout(Duration::from_millis(300), run(&source, "select n, t")).await;
    assert!(answer.is_err(), "{answer:?}");
    // The connection's slot is free again: the next request gets as far as this one.
    drop(wait("a place", source.acquire(Snapshot::Statement, Priority::Stream)).await.unwrap());
}

/// Alters bytes of a correct conversation.
#[tokio::test]
async fn no_altered_conversation_makes_a_panic() {
    altered_conversations(&good(), |script| async { drop(meets(script, After::Close).await) }).await;
}
