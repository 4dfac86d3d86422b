//! Arrow streams from real databases, read back by Arrow's own library: types, limits, slow rows,
//! and streams that fail.

#![expect(clippy::unwrap_used, reason = "the helpers of tests are tests, too")]

use std::future::poll_fn;

use rowstream_core::Error;

use crate::support::arrow::{columns, read};
use crate::support::{Client, Ended, Launch, Server, TestDb, curl, get, peak_memory_bytes, rowstream};
use arrow_array::cast::AsArray as _;
use arrow_array::types::Int32Type;
use arrow_array::{Array, RecordBatch};
use rowstream::config::Config;
use rowstream::source::Source;
use rowstream::stream::RowStream;
use rowstream_encode::Format;

/// The end-of-stream marker.
const END: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];
const ARROW: &str = "application/vnd.apache.arrow.stream";

/// The stream of one statement.
async fn stream(url: &str, sql: &str) -> Result<Vec<u8>, Error> {
    let config = Config::single(url, sql).unwrap_or_else(|errors| panic!("{sql}: {errors:?}"));
    let source = Source::open(&config.sources[0]).unwrap();
    let mut stream = RowStream::open(&config.endpoints[0], &source, Format::Arrow, Vec::new()).await?;
    let mut out = Vec::new();
    while let Some(chunk) = poll_fn(|cx| stream.poll_chunk(cx)).await {
        out.extend_from_slice(&chunk?);
    }
    assert!(out.ends_with(&END), "what ends well has its end");
    Ok(out)
}

fn rows(batches: &[RecordBatch]) -> usize {
    batches.iter().map(RecordBatch::num_rows).sum()
}

/// The bytes of a batch's columns, without unused space in the reader's buffers.
fn bytes(batch: &RecordBatch) -> usize {
    batch.columns().iter().map(|column| column.to_data().get_slice_memory_size().unwrap()).sum()
}

const POSTGRES: &[(&str, &str, &str)] = &[
    ("true", "Boolean", "true"),
    ("(-32768)::int2", "Int16", "-32768"),
    ("2147483647::int4", "Int32", "2147483647"),
    ("(-9223372036854775808)::int8", "Int64", "-9223372036854775808"),
    ("0.1::float4", "Float32", "0.1"),
    ("'NaN'::float8", "Float64", "NaN"),
    ("(-1.5e10)::float8", "Float64", "-15000000000"),
    ("12.5::numeric(10,2)", "Decimal128(10, 2)", "12.50"),
    ("(-99999999.99)::numeric(10,2)", "Decimal128(10, 2)", "-99999999.99"),
    ("12345::numeric(3,-2)", "Decimal128(5, 0)", "12300"),
    ("0.00123::numeric(3,5)", "Decimal128(5, 5)", "0.00123"),
    (
        "99999999999999999999999999999999999999::numeric(38)",
        "Decimal128(38, 0)",
        "99999999999999999999999999999999999999",
    ),
    (
        "(-1234567890123456789012345678901234567890.5)::numeric(50,1)",
        "Decimal256(50, 1)",
        "-1234567890123456789012345678901234567890.5",
    ),
    ("12.50::numeric", "Utf8", "12.50"),
    ("'NaN'::numeric", "Utf8", "NaN"),
    ("1::numeric(100,2)", "Utf8", "1.00"),
    ("12.5::numeric(10,2) * 2", "Utf8", "25.00"),
    ("12.5::positive", "Decimal128(10, 2)", "12.50"),
    ("'é \"x\"'", "Utf8", "é \"x\""),
    ("'abc'::char(5)", "Utf8", "abc  "),
    ("'hi'::mood", "Utf8", "hi"),
    ("'{\"a\": 1}'::json", "Utf8", "{\"a\": 1}"),
    ("'{\"a\":1}'::jsonb", "Utf8", "{\"a\": 1}"),
    ("array[1, null, 3]", "List(Int32)", "[1, NULL, 3]"),
    ("array['a, b', 'NULL', null, '\\\"']::text[]", "List(Utf8)", "[a, b, NULL, NULL, \\\"]"),
    ("'{}'::float8[]", "List(Float64)", "[]"),
    ("'{1.5,-2}'::numeric(10,2)[]", "List(Decimal128(10, 2))", "[1.50, -2.00]"),
    ("'{1.5,NaN}'::numeric[]", "List(Utf8)", "[1.5, NaN]"),
    ("'[5:6]={t,f}'::bool[]", "List(Boolean)", "[true, false]"),
    ("array['\\x00ff'::bytea, '']", "List(Binary)", "[00ff, ]"),
    ("'{2024-02-29,0044-03-15 BC}'::date[]", "List(Date32)", "[19782, -735160]"),
    ("array[timestamptz '1969-12-31 23:59:59.999999Z']", "List(Timestamp(µs, \"UTC\"))", "[-1]"),
    ("array['hi'::mood]", "List(Utf8)", "[hi]"),
    ("array[12.5::positive]", "List(Utf8)", "[12.50]"),
    ("array['1'::jsonb, 'null', null]", "Utf8", "[1,null,null]"),
    ("array[row(1, 'a')::pair]", "Utf8", "[{\"a\":1,\"b\":\"a\"}]"),
    ("int4range(1, 5)", "Utf8", "[1,5)"),
    ("interval '1 day 2 hours'", "Utf8", "1 day 02:00:00"),
    ("'\\x00ff'::bytea", "Binary", "00ff"),
    ("date '2024-02-29'", "Date32", "19782"),
    ("date '0044-03-15 BC'", "Date32", "-735160"),
    ("time '23:59:59.999999'", "Time64(µs)", "86399999999"),
    ("timestamp '2024-02-29 12:00:00.25'", "Timestamp(µs)", "1709208000250000"),
    ("timestamptz '2024-02-29 13:00:00.25+01'", "Timestamp(µs, \"UTC\")", "1709208000250000"),
    ("timestamptz '1969-12-31 23:59:59.999999Z'", "Timestamp(µs, \"UTC\")", "-1"),
    (
        "'abababab-abab-abab-abab-abababababab'::uuid",
        "FixedSizeBinary(16)",
        "abababababababababababababababab",
    ),
];

#[tokio::test]
async fn every_type_of_postgres_has_its_own() {
    let db = TestDb::new().await;
    db.execute(
        "create type mood as enum ('hi'); create domain positive as numeric(10,2) check (value > 0);
        create type pair as (a int, b text)",
    )
    .await;
    let values = POSTGRES.iter().enumerate().map(|(i, (sql, ..))| format!("({sql}) as c{i}"));
    let values = values.collect::<Vec<_>>().join(", ");
    // The second row is all NULL.
    let sql =
        format!("select c.* from (select {values}) c right join generate_series(1, 2) n on n = 1 order by n");
    let told = columns(&stream(&db.url(), &sql).await.unwrap());
    assert_eq!(told.len(), POSTGRES.len());
    for ((sql, data_type, value), (told_type, told)) in POSTGRES.iter().zip(&told) {
        assert_eq!(told_type, data_type, "{sql}");
        assert_eq!(told, &[*value, "NULL"], "{sql}");
    }
}

#[tokio::test]
async fn what_arrow_cannot_hold_is_an_error() {
    let db = TestDb::new().await;
    for (sql, words) in [
        ("'infinity'::date", "an infinite date"),
        ("'-infinity'::timestamp", "an infinite timestamp"),
        ("'infinity'::timestamptz", "an infinite timestamp"),
        ("time '24:00:00'", "the time 24:00:00"),
        ("'NaN'::numeric(10,2)", "NaN or an infinity"),
        ("timestamp '294276-12-31 23:59:59'", "a text"),
        ("array[[1, 2], [3, 4]]", "an array of several dimensions"),
        ("'{2024-02-29,infinity}'::date[]", "an infinite date"),
    ] {
        let error = stream(&db.url(), &format!("select 1 as a, {sql} as b")).await.unwrap_err();
        assert_eq!((error.code(), error.status().as_u16()), ("bad_value", 500), "{sql}");
        let start = format!("column `b` holds {words}, which its Arrow type ");
        assert!(error.message().starts_with(&start), "{sql}: {}", error.message());
        let as_text = format!("select ({sql})::text as b");
        assert_eq!(columns(&stream(&db.url(), &as_text).await.unwrap())[0].0, "Utf8", "{sql}");
    }
}

/// A database with a table `t` of one row. Each value is in the column of that name.
fn sqlite(folder: &std::path::Path, columns: &str, values: &str) -> String {
    let file = folder.join("test.db");
    let connection = rusqlite::Connection::open(&file).unwrap();
    connection.execute_batch(&format!("create table t({columns}); insert into t values {values}")).unwrap();
    format!("sqlite:{}", file.display())
}

#[tokio::test]
async fn declared_types_of_sqlite_are_kept() {
    for (declared, values, data_type, shown) in [
        (
            "integer",
            "(1), (-9223372036854775808), (null)",
            "Int64",
            &["1", "-9223372036854775808", "NULL"][..],
        ),
        ("varchar(10)", "('a'), (5), (x'ff'), (null)", "Utf8", &["a", "5", "\\xff", "NULL"]),
        ("real", "(0.5), (2), (null)", "Float64", &["0.5", "2", "NULL"]),
        ("blob", "(x'00ff'), (null)", "Binary", &["00ff", "NULL"]),
        ("boolean", "(0), (1), (null)", "Boolean", &["false", "true", "NULL"]),
        ("date", "('2024-02-29'), (null)", "Date32", &["19782", "NULL"]),
        ("datetime", "('2024-02-29 12:00:00.25'), (null)", "Timestamp(µs)", &["1709208000250000", "NULL"]),
        (
            "timestamptz",
            "('2024-02-29 12:00:00.25'), ('2024-02-29T13:00:00.25+01:00'), (null)",
            "Timestamp(µs, \"UTC\")",
            &["1709208000250000", "1709208000250000", "NULL"],
        ),
        (
            "decimal(10,2)",
            "(12), (12.5), ('-99999999.99'), (8999.99), (null)",
            "Decimal128(10, 2)",
            &["12.00", "12.50", "-99999999.99", "8999.99", "NULL"],
        ),
        ("decimal", "(12), (12.5), (null)", "Utf8", &["12", "12.5", "NULL"]),
        ("json", "('{\"a\":1}'), ('x'), (5), (null)", "Utf8", &["{\"a\":1}", "\"x\"", "5", "NULL"]),
        ("", "(1), (0.5), ('x'), (null)", "Utf8", &["1", "0.5", "x", "NULL"]),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let url = sqlite(folder.path(), &format!("v {declared}"), values);
        let told = columns(&stream(&url, "select v from t order by rowid").await.unwrap());
        assert_eq!(told[0].0, data_type, "{declared}");
        assert_eq!(told[0].1, shown, "{declared}");
    }
    let folder = tempfile::tempdir().unwrap();
    let url = sqlite(folder.path(), "n integer", "(1); create view v as select count(*) as m from t");
    for (sql, expected) in [
        ("select n + 1 as a, 'x' as b, count(*) + 1 as c from t", &["Utf8", "Utf8", "Utf8"][..]),
        ("select count(*) as a, avg(n) as b, sum(n) as c from t order by 1", &["Int64", "Float64", "Utf8"]),
        ("select *, row_number() over () as a, 7 as b from t", &["Int64", "Int64", "Int64"]),
        (
            "select cast(n as integer) as a, cast(n as real) as b, cast(n as text) as c from t",
            &["Int64", "Float64", "Utf8"],
        ),
        (
            "select cast('1' as blob) as a, length(null) as b, m from (select count(*) as m from t) as x",
            &["Binary", "Int64", "Int64"],
        ),
        // A view's columns aren't known, but its casts are.
        ("select m, cast(m as int) as n, total(m) as o from v", &["Utf8", "Int64", "Float64"]),
    ] {
        let told = columns(&stream(&url, sql).await.unwrap());
        let types: Vec<_> = told.iter().map(|(data_type, _)| data_type.as_str()).collect();
        assert_eq!(types, expected, "{sql}");
    }
}

#[tokio::test]
async fn a_value_that_breaks_the_promise_of_its_column_is_an_error() {
    for (declared, values, words) in [
        ("integer", "(1), ('x')", "holds a text, which its Arrow type Int64 cannot"),
        ("integer", "(1), (0.5)", "holds a float, which its Arrow type Int64 cannot"),
        ("boolean", "(1), (2)", "holds an integer, which its Arrow type Boolean cannot"),
        ("date", "('2024-02-29'), (1709208000)", "holds an integer, which its Arrow type Date32 cannot"),
        (
            "datetime",
            "('2024-02-29 12:00'), ('2024-02-29 12:00Z')",
            "holds a timestamp with a time zone, which its Arrow type Timestamp(µs) cannot",
        ),
        ("decimal(4,2)", "(1), (1.005)", "holds a float, which its Arrow type Decimal128(4, 2) cannot"),
        ("blob", "(x'00'), ('x')", "holds a text, which its Arrow type Binary cannot"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let url = sqlite(folder.path(), &format!("v {declared}"), values);
        let error = stream(&url, "select v from t order by rowid").await.unwrap_err();
        assert_eq!(error.message(), format!("column `v` {words}"), "{declared}");
        assert!(stream(&url, "select cast(v as text) as v from t").await.is_ok(), "{declared}");
    }
}

#[tokio::test]
async fn an_empty_result_is_a_stream() {
    let db = TestDb::new().await;
    let (schema, batches) = read(&stream(&db.url(), "select 1 as n, 'x' as t where false").await.unwrap());
    assert_eq!((schema.fields().len(), batches.len()), (2, 0));
}

fn source(url: &str, settings: &str) -> String {
    format!("[source.db]\nurl = \"{url}\"\n{settings}\n")
}

#[tokio::test]
async fn arrow_is_negotiated_like_the_others() {
    let db = TestDb::new().await;
    let two = "/*\nbody = { a = \"$a\", b = \"$b\" }\n*/\n-- name: a :many\nselect 1 as n;\n-- name: b :many\nselect 2 as n;";
    let only = "/*\nformats = [\"arrow\"]\n*/\nselect 1 as n";
    let template = "/*\nbody = { list = \"$rows\", end = 1 }\n*/\nselect generate_series(1, 3) as n";
    let config = source(&db.url(), "");
    let server = Server::start(&[
        ("rowstream.toml", &config),
        ("endpoints/list.sql", template),
        ("endpoints/one.sql", "/*\nresult = \"one\"\n*/\nselect 7 as n"),
        ("endpoints/two.sql", two),
        ("endpoints/only.sql", only),
    ])
    .await;
    for (path, accept, expected) in [
        ("/list.arrow", "*/*", 3),
        ("/list?_format=arrow", "*/*", 3),
        ("/list?_download=a.arrow", ARROW, 3),
        ("/one.arrow", "*/*", 1),
        ("/only", "*/*", 1),
    ] {
        for client in [Client::HTTP1, Client::H2C] {
            let request = http::Request::get(server.url(path)).header("accept", accept);
            let reply = client.send(request.body(String::new()).unwrap()).await;
            assert_eq!((reply.status.as_u16(), &reply.ended), (200, &Ended::Complete), "{path}");
            assert_eq!(reply.header("content-type"), Some(ARROW), "{path}");
            assert_eq!(reply.header("content-disposition").is_some(), path.contains("_download"), "{path}");
            assert!(reply.body.ends_with(&END), "{path}");
            assert_eq!(rows(&read(&reply.body).1), expected, "{path}");
        }
    }
    let refused = get(&server.url("/two.arrow")).await;
    assert_eq!(refused.status, 406, "{}", refused.text());
}

#[tokio::test]
async fn query_writes_arrow() {
    let folder = tempfile::tempdir().unwrap();
    let url = sqlite(folder.path(), "n integer", "(1), (2), (3)");
    let file = folder.path().join("out.arrow");
    let ran =
        rowstream(&["query", &url, "select n from t", "--format", "arrow", "-o", file.to_str().unwrap()])
            .await;
    assert!(ran.status.success(), "{ran:?}");
    let told = columns(&std::fs::read(file).unwrap());
    assert_eq!(told, [("Int64".to_owned(), vec!["1".to_owned(), "2".to_owned(), "3".to_owned()])]);
}

#[tokio::test]
async fn bench_counts_the_rows_of_batches() {
    let db = TestDb::new().await;
    let config = source(&db.url(), "");
    let sql = "select n, 'x' as t from generate_series(1, 50000) n";
    let files =
        [("rowstream.toml", config.as_str()), ("endpoints/rows.sql", sql), ("endpoints/fails.sql", FAILS)];
    let server = Server::start(&files).await;
    for (path, code, rows, failures) in [("/rows.arrow", 0, 150_000, 0), ("/fails.arrow", 1, 0, 3)] {
        let ran = rowstream(&["bench", "--format", "json", "-n", "3", "-c", "1", &server.url(path)]).await;
        assert_eq!(ran.status.code(), Some(code), "{path}: {ran:?}");
        let report: serde_json::Value = serde_json::from_slice(&ran.stdout).unwrap();
        let run = &report["targets"][0]["runs"][0];
        assert_eq!(
            (&run["rows"], run["failures"]["cut"].as_u64().unwrap_or(0)),
            (&rows.into(), failures),
            "{run:#}"
        );
    }
}

/// A slow batch isn't held back: each row arrives before the next one is produced.
#[tokio::test]
async fn slow_rows_arrive_one_by_one() {
    let db = TestDb::new().await;
    let config = source(&db.url(), "fetch_rows = 1");
    let sql = "select n, case when n > 1 then pg_advisory_xact_lock(n)::text end as locked from generate_series(1, 4) n";
    let server = Server::start(&[("rowstream.toml", &config), ("endpoints/slow.sql", sql)]).await;
    let locks = db.client().await;
    locks.batch_execute("select pg_advisory_lock(n) from generate_series(2, 4) n").await.unwrap();
    let mut stream = Client::HTTP1.stream(&server.url("/slow.arrow")).await;
    assert_eq!(stream.status, 200);
    let mut body = Vec::new();
    for row in 1..=4 {
        while body.is_empty() || rows(&read(&body).1) < row {
            body.extend_from_slice(&stream.chunk().await.unwrap());
        }
        assert_eq!(rows(&read(&body).1), row);
        assert!(!body.ends_with(&END) || row == 4);
        locks.batch_execute(&format!("select pg_advisory_unlock({})", row + 1)).await.unwrap();
    }
    let rest = stream.rest().await;
    assert_eq!(rest.ended, Ended::Complete);
    body.extend_from_slice(&rest.body);
    assert!(body.ends_with(&END));
    assert_eq!(rows(&read(&body).1), 4);
}

/// Fails at row 500,000, in the database.
const FAILS: &str = "select n, 1 / (500000 - n) as q from (select generate_series(1, 600000) as n) s";
/// The database accepts this value, but Arrow doesn't.
const MISFITS: &str = "select n, case when n = 500000 then 'infinity' else date '2024-01-01' end as d
    from (select generate_series(1, 600000) as n) s";
/// Fails before the first row, so the status reports it.
const FAILS_FIRST: &str = "select 1 as n, 'infinity'::date as d";

#[tokio::test]
async fn a_stream_that_fails_has_no_end() {
    let db = TestDb::new().await;
    let config = source(&db.url(), "");
    let server = Server::start(&[
        ("rowstream.toml", &config),
        ("endpoints/fails.sql", FAILS),
        ("endpoints/misfits.sql", MISFITS),
        ("endpoints/first.sql", FAILS_FIRST),
    ])
    .await;
    for (path, version, codes) in [
        ("/fails.arrow", "--http1.1", &[18, 56][..]),
        ("/fails.arrow", "--http2-prior-knowledge", &[92]),
        ("/misfits.arrow", "--http1.1", &[18, 56]),
        ("/misfits.arrow", "--http2-prior-knowledge", &[92]),
    ] {
        let ran = curl(&[version, &server.url(path)]).await;
        assert!(codes.contains(&ran.code), "{path} {version}: {} {}", ran.code, ran.stderr);
        assert!(!ran.stdout.ends_with(&END), "{path} {version}: there is an end");
        let rows = rows(&read(&ran.stdout).1);
        assert!((1..500_000).contains(&rows), "{path} {version}: {rows} rows");
    }
    let refused = get(&server.url("/first.arrow")).await;
    assert_eq!((refused.status.as_u16(), refused.ended.clone()), (500, Ended::Complete));
    let problem = refused.json();
    assert_eq!(problem["detail"], "column `d` holds an infinite date, which its Arrow type Date32 cannot");
    assert!(problem["hint"].as_str().unwrap().contains("as text"), "{problem}");
    assert_eq!(get(&server.url("/first")).await.text(), r#"[{"n":1,"d":"infinity"}]"#);
}

/// The README's memory limit applies to this format too, although it builds batches in addition to
/// its chunks.
#[tokio::test]
async fn a_million_rows_come_in_bounded_batches() {
    const ROWS: usize = 1_000_000;
    const CEILING: u64 = 32 * 1000 * 1000;
    let db = TestDb::new().await;
    let sql = format!(
        "select n as id, 'a text of row ' || n as t, timestamptz '2024-01-01Z' + n * interval '1 second' as at,
            case when n % 7 > 0 then n * 0.01 end::numeric(12,2) as amount from generate_series(1, {ROWS}) n"
    );
    let config = source(&db.url(), "");
    let files = [("rowstream.toml", config.as_str()), ("endpoints/rows.sql", sql.as_str())];
    let server = Launch::files(&files).release().start().await;
    let reply = get(&server.url("/rows.arrow")).await;
    assert_eq!(reply.ended, Ended::Complete);
    assert!(reply.body.ends_with(&END));
    let (_, batches) = read(&reply.body);
    assert_eq!(rows(&batches), ROWS);
    let largest = batches.iter().map(bytes).max().unwrap();
    assert!(largest < 66 * 1024, "a batch of {largest} bytes");
    let ids = batches.iter().flat_map(|batch| batch.column(0).as_primitive::<Int32Type>().values().to_vec());
    assert!(ids.eq(1..=i32::try_from(ROWS).unwrap()));
    let amounts = batches.iter().map(|batch| batch.column(3).null_count()).sum::<usize>();
    assert_eq!(amounts, ROWS / 7);
    let peak = peak_memory_bytes(server.pid());
    println!("peak memory: {:.1} MB, {} batches", peak as f64 / 1e6, batches.len());
    assert!(peak < CEILING, "the server took {peak} bytes");
}
