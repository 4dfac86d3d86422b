//! Drivers in driver processes, with real ones: DuckDB, and PostgreSQL's ADBC driver.

#![expect(clippy::unwrap_used, reason = "the helpers of tests are tests, too")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::{Command, Output};
use std::time::Duration;

use crate::support::drivers::{adbc_postgres, duckdb};
use crate::support::upstream::{Asked, Speaks, Upstream, reply};
use crate::support::{
    Client, Cut, Ended, Launch, Reply, Server, TcpProxy, TestDb, get, peak_memory_bytes, pg_port, program,
    wait, wait_until,
};
use arrow_array::cast::AsArray as _;
use arrow_array::types::Int64Type;
use arrow_array::{Array as _, ArrayRef, RecordBatch};
use arrow_ipc::reader::StreamReader;
use arrow_schema::{DataType, SchemaRef};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::Request;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// The end of an Arrow stream.
const END: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];

/// The URL of a DuckDB in memory.
fn in_memory() -> String {
    format!("adbc:{}?entrypoint=duckdb_adbc_init", duckdb())
}

/// Runs `rowstream query`.
fn query(arguments: &[&str]) -> Output {
    Command::new(program()).arg("query").args(arguments).env("ROWSTREAM_DUCKDB", duckdb()).output().unwrap()
}

/// Returns its output.
fn rows(arguments: &[&str]) -> String {
    let output = query(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Returns its error.
fn refused(arguments: &[&str]) -> String {
    let output = query(arguments);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}");
    assert!(output.stdout.is_empty(), "{arguments:?}");
    String::from_utf8(output.stderr).unwrap()
}

/// A server of an in-memory DuckDB, with an endpoint for each statement.
async fn serve(settings: &str, endpoints: &[(&str, &str)]) -> Server {
    launch(settings, endpoints).start().await
}

fn launch(settings: &str, endpoints: &[(&str, &str)]) -> Launch {
    let config = format!("[source.duck]\nurl = {:?}\n{settings}\n", in_memory());
    let names: Vec<_> = endpoints.iter().map(|(name, _)| format!("endpoints/{name}.sql")).collect();
    let mut files = vec![("rowstream.toml", &*config)];
    files.extend(names.iter().map(String::as_str).zip(endpoints.iter().map(|(_, sql)| *sql)));
    Launch::files(&files)
}

/// The driver processes of a server.
fn workers(server: &Server) -> Vec<u32> {
    let is_child = |pid: &u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let after_name = stat.rsplit(')').next().unwrap_or_default();
        let mut fields = after_name.split_whitespace();
        // A zombie process doesn't count.
        fields.next().is_some_and(|state| state != "Z") && fields.next() == Some(&server.pid().to_string())
    };
    let pids =
        fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter(is_child).collect()
}

/// A process that has ended ignores it.
fn signal(pid: u32, name: &str) {
    Command::new("kill").args(["-s", name, &pid.to_string()]).output().unwrap();
}

/// A million rows.
const MANY: &str = "select range as i, 'row ' || range as text from range(1000000)";
/// More rows than any test reads.
const ENDLESS: &str = "select range as i, repeat('x', 100) as text from range(100000000000)";

/// DuckDB uses the host's time zone for sessions. Days, comparisons of instants with times without
/// an offset, and texts depended on the server's host.
#[test]
fn sessions_are_in_utc_whatever_the_host_is() {
    let folder = tempfile::tempdir().unwrap();
    let csv = folder.path().join("at.csv");
    fs::write(&csv, "t\n2024-01-01T23:30:00Z\n").unwrap();
    let sql = format!(
        "select cast(t as date)::text as day, t::text as text, t = timestamp '2024-01-01 23:30' as same,
             current_setting('TimeZone') as zone, cast(:x as timestamptz)::text as x from read_csv('{}')",
        csv.display()
    );
    for zone in ["Asia/Kolkata", "America/New_York", "UTC"] {
        let mut command = Command::new(program());
        command.args(["query", "duckdb:", &sql, "-p", "x:timestamp=2024-01-01T23:30:00Z"]);
        let ran = command.env("ROWSTREAM_DUCKDB", duckdb()).env("TZ", zone).output().unwrap();
        let row: Value = serde_json::from_slice(&ran.stdout).unwrap();
        let expected = json!({ "day": "2024-01-01", "text": "2024-01-01 23:30:00+00", "same": true, "zone": "UTC", "x": "2024-01-01 23:30:00+00" });
        assert_eq!(row, expected, "{zone}");
    }
}

#[test]
fn each_type_is_written_exactly() {
    for (sql, expected) in [
        ("null", json!(null)),
        ("true", json!(true)),
        ("(-128)::tinyint", json!(-128)),
        ("32767::smallint", json!(32767)),
        ("(-2147483648)::integer", json!(-2_147_483_648_i64)),
        ("9223372036854775807::bigint", json!(i64::MAX)),
        ("18446744073709551615::ubigint", json!(u64::MAX)),
        ("1.5::float", json!(1.5)),
        ("0.1::double", json!(0.1)),
        ("'nan'::double", json!("NaN")),
        ("'-infinity'::double", json!("-Infinity")),
        ("'é\"\n'", json!("é\"\n")),
        ("'ab'::blob", json!("\\x6162")),
        ("date '2024-02-29'", json!("2024-02-29")),
        ("date '0044-03-15 (BC)'", json!("0044-03-15 BC")),
        ("time '10:11:12.5'", json!("10:11:12.5")),
        ("timestamp '2024-01-01 10:00:00.5'", json!("2024-01-01T10:00:00.5")),
        ("timestamp_s '2024-01-01 10:00:00'", json!("2024-01-01T10:00:00")),
        ("timestamp_ms '2024-01-01 10:00:00.25'", json!("2024-01-01T10:00:00.25")),
        ("timestamp_ns '2024-01-01 10:00:00.123456789'", json!("2024-01-01T10:00:00.123456789")),
        ("timestamptz '2024-01-01 10:00:00+02'", json!("2024-01-01T08:00:00Z")),
        ("interval '14 months 3 days 4.5 seconds'", json!("P14M3DT4.5S")),
        ("uuid '6f1e3c8a-0000-4000-8000-000000000001'", json!("6f1e3c8a-0000-4000-8000-000000000001")),
        ("'b'::enum('a', 'b')", json!("b")),
        ("[1, 2, null]", json!([1, 2, null])),
        ("[date '2024-01-01']", json!(["2024-01-01"])),
        ("array_value(1, 2)", json!([1, 2])),
        ("{'a': 1, 'b': {'c': ['x']}}", json!({"a": 1, "b": {"c": ["x"]}})),
        ("map {'k': 1.50, 'l': null}", json!({"k": 1.5, "l": null})),
        ("map {1: 'a'}", json!({"1": "a"})),
        ("union_value(n := 7)", json!(7)),
    ] {
        let row: Value = rows(&["duckdb:", &format!("select {sql} as value")]).parse().unwrap();
        assert_eq!(row["value"], expected, "{sql}");
    }
    // More digits than a JSON library reads exactly.
    for (sql, expected) in [
        ("170141183460469231731687303715884105727::hugeint", "170141183460469231731687303715884105727"),
        ("(-0.0000000001)::decimal(38, 10)", "-0.0000000001"),
        ("1234567890123456.78::decimal(18, 2)", "1234567890123456.78"),
    ] {
        let row = rows(&["duckdb:", &format!("select {sql} as value")]);
        assert_eq!(row, format!("{{\"value\":{expected}}}\n"), "{sql}");
    }
}

/// DuckDB exports a value without an Arrow type as the nearest one. Infinities became dates, a time
/// lost its zone, bits and numbers became bytes, and a large `uhugeint` became negative.
#[test]
fn values_that_arrow_does_not_have_are_written_exactly() {
    const SHAPES: [&str; 8] = [
        "v",
        "max(v)",
        "coalesce(max(v), max(v))",
        "case when count(*) > 0 then max(v) end",
        "(select v from t union all select v from t limit 1)",
        "first(v)",
        "[max(v)]",
        "{'a': max(v), 'b': [union_value(n := max(v))]}",
    ];
    const LARGEST: &str = "340282366920938463463374607431768211455";
    let long = format!("-{}", "9876543210".repeat(30));
    for (sql, is_number, text) in [
        ("date 'infinity'", false, "infinity"),
        ("date '-infinity'", false, "-infinity"),
        ("date '5881580-07-10'", false, "5881580-07-10"),
        ("timestamp 'infinity'", false, "infinity"),
        ("timestamp '-infinity'", false, "-infinity"),
        ("timestamptz 'infinity'", false, "infinity"),
        ("timestamptz '-infinity'", false, "-infinity"),
        ("timestamp_s 'infinity'", false, "infinity"),
        ("timestamp_s '-infinity'", false, "-infinity"),
        ("timestamp_ms 'infinity'", false, "infinity"),
        ("timestamp_ms '-infinity'", false, "-infinity"),
        ("timestamp_ns 'infinity'", false, "infinity"),
        ("timestamp_ns '-infinity'", false, "-infinity"),
        ("timestamp_ns '2262-04-11 23:47:16.854775806'", false, "2262-04-11T23:47:16.854775806"),
        ("timestamp_ns '1677-09-22 00:00:00.000000001'", false, "1677-09-22T00:00:00.000000001"),
        ("timetz '12:00:00+05:30'", false, "12:00:00+05:30"),
        ("timetz '23:59:59.25-15:59:59'", false, "23:59:59.25-15:59:59"),
        ("timetz '00:00:00+00'", false, "00:00:00+00"),
        ("time_ns '12:00:00.123456789'", false, "12:00:00.123456789"),
        ("time '24:00:00'", false, "24:00:00"),
        ("bit '101010'", false, "101010"),
        ("bit '0000000011'", false, "0000000011"),
        ("0::bignum", true, "0"),
        ("(-256)::bignum", true, "-256"),
        ("18446744073709551616::bignum", true, "18446744073709551616"),
        (&*format!("'{long}'::bignum"), true, &*long),
        (&*format!("{LARGEST}::uhugeint"), true, LARGEST),
        (
            "(-170141183460469231731687303715884105728)::hugeint",
            true,
            "-170141183460469231731687303715884105728",
        ),
        ("true", true, "true"),
        ("false", true, "false"),
    ] {
        let columns: Vec<_> =
            SHAPES.iter().enumerate().map(|(n, shape)| format!("{shape} as c{n}")).collect();
        let all = format!(
            "with t as materialized (select {sql} as v) select {}, max(v)::text as text, max(null::int) as n from t group by v",
            columns.join(", ")
        );
        let written = rows(&["duckdb:", &all]);
        let value = if is_number { text.to_owned() } else { format!("\"{text}\"") };
        // In lists and structs, which no metadata describe, it's a text.
        let nested = if sql.ends_with("bignum") { format!("\"{text}\"") } else { value.clone() };
        let mut expected: Vec<_> = (0..6).map(|n| format!("\"c{n}\":{value}")).collect();
        expected.push(format!("\"c6\":[{nested}]"));
        expected.push(format!("\"c7\":{{\"a\":{nested},\"b\":[{nested}]}}"));
        let own = text.replace('T', " ");
        assert_eq!(written, format!("{{{},\"text\":\"{own}\",\"n\":null}}\n", expected.join(",")), "{sql}");
        let none = rows(&[
            "duckdb:",
            &format!("select v, [v] as list from (select {sql} as v union all select null) where v is null"),
        ]);
        assert_eq!(none, "{\"v\":null,\"list\":[null]}\n", "{sql}");
    }
}

#[test]
fn parameters_are_bound_with_their_types() {
    for (sql, param) in [
        (":x = 7", "x=7"),
        ("12.50::decimal(10, 2) = :x", "x:number=12.5"),
        (":x = 'it''s'", "x=it's"),
        (":x::boolean", "x:boolean=true"),
        ("date '2024-01-01' < :x", "x:date=2024-01-02"),
        ("timestamptz '2024-01-01 00:00:00Z' = :x", "x:timestamp=2024-01-01T00:00:00Z"),
        ("list_contains(:x, 2)", "x:integer[]=1,2"),
        ("list_contains(:x, 'b')", "x:text[]=b"),
        (":x is null", "x:integer="),
        ("typeof(:x) = 'BIGINT'", "x:integer=7"),
    ] {
        assert_eq!(
            rows(&["duckdb:", &format!("select ({sql}) as value"), "-p", param]),
            "{\"value\":true}\n",
            "{sql}"
        );
    }
    // A parameter as a column keeps its type.
    assert_eq!(rows(&["duckdb:", "select :x as x", "-p", "x:integer=7"]), "{\"x\":7}\n");
    let twice = rows(&["duckdb:", "select (:b || :a || :b)::varchar as value", "-p", "a=1x", "-p", "b=2x"]);
    assert_eq!(twice, "{\"value\":\"2x1x2x\"}\n");
}

#[test]
fn postgresql_by_wheel() {
    let url = adbc_postgres("postgres", pg_port());
    for (sql, expected) in [
        ("null::int", json!(null)),
        ("true", json!(true)),
        ("9223372036854775807::bigint", json!(i64::MAX)),
        ("1.5::real", json!(1.5)),
        ("'é\"'::text", json!("é\"")),
        ("date '2024-02-29'", json!("2024-02-29")),
        ("time '10:11:12.5'", json!("10:11:12.5")),
        ("timestamp '2024-01-01 10:00:00.123456'", json!("2024-01-01T10:00:00.123456")),
        ("timestamptz '2024-01-01 10:00:00+02'", json!("2024-01-01T08:00:00Z")),
        ("interval '14 months 3 days 4.5 seconds'", json!("P14M3DT4.5S")),
        ("array[1, 2, null]", json!([1, 2, null])),
        ("'6F1E3C8A-0000-4000-8000-000000000001'::uuid", json!("6f1e3c8a-0000-4000-8000-000000000001")),
        ("null::uuid", json!(null)),
        // The driver returns it as a text.
        ("12.50::numeric", json!("12.50")),
    ] {
        let row: Value = rows(&[&url, &format!("select {sql} as value")]).parse().unwrap();
        assert_eq!(row["value"], expected, "{sql}");
    }
    let bound = rows(&[&url, "select :x + 1 as x, :t::text as t", "-p", "x:integer=7", "-p", "t=it's"]);
    assert_eq!(bound, "{\"x\":8,\"t\":\"it's\"}\n");
    let arrow = query(&[&url, "select 'abababab-abab-abab-abab-abababababab'::uuid as u", "--format=arrow"]);
    let reader = StreamReader::try_new(&*arrow.stdout, None).unwrap();
    let schema = reader.schema();
    assert_eq!(
        (schema.field(0).data_type(), schema.field(0).extension_type_name()),
        (&DataType::FixedSizeBinary(16), Some("arrow.uuid"))
    );
    let batch = reader.last().unwrap().unwrap();
    assert_eq!(batch.column(0).as_fixed_size_binary().value(0), [0xab; 16]);
    let said = refused(&[&url, "select 1 from nothing"]);
    assert!(said.contains("relation \"nothing\" does not exist"), "{said}");
    // The driver has the same status for a division by zero and for a lost connection.
    let said = refused(&[&url, "select 1 / 0 as n"]);
    assert!(said.contains("division by zero") && !said.contains("cannot be reached"), "{said}");
    let many = rows(&[&url, "select n as i, 'row ' || n as text from generate_series(1, 100000) n"]);
    assert!(
        many.lines().zip(1..=100_000).all(|(line, n)| line == format!("{{\"i\":{n},\"text\":\"row {n}\"}}"))
    );
}

#[test]
fn files_are_tables() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    rows(&["duckdb:", &format!("copy (from range(1000) t(n)) to '{}'", path("sales.parquet"))]);
    fs::write(path("sales.csv"), "n,name\n1,a\n2,b\n").unwrap();
    fs::write(path("sales.ndjson"), "{\"n\":1}\n{\"n\":2}\n").unwrap();
    for (file, sql, expected) in [
        ("sales.parquet", "select sum(n)::bigint as sum from sales", "{\"sum\":499500}\n"),
        ("sales.parquet", "select n from sales where n > :after limit :most", "{\"n\":998}\n{\"n\":999}\n"),
        (
            "sales.csv",
            "select * from sales order by n",
            "{\"n\":1,\"name\":\"a\"}\n{\"n\":2,\"name\":\"b\"}\n",
        ),
        ("sales.ndjson", "select sum(n)::bigint as sum from sales", "{\"sum\":3}\n"),
    ] {
        let params: &[&str] = if sql.contains(':') && sql.contains("after") {
            &["-p", "after=997", "-p", "most:integer="]
        } else {
            &[]
        };
        assert_eq!(rows(&[&[&*path(file), sql], params].concat()), expected, "{file}: {sql}");
    }
}

#[tokio::test]
async fn a_file_is_served_as_a_table() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("sales.csv");
    fs::write(&file, "id,day\n1,2024-01-01\n2,2024-01-02\n").unwrap();
    let script = format!("exec \"$0\" serve {} --listen 127.0.0.1:0", file.display());
    let server =
        Launch::folder(folder.path()).shell(&script).variable("ROWSTREAM_DUCKDB", &duckdb()).start().await;
    assert_eq!(
        get(&server.url("/sales.ndjson")).await.text(),
        "{\"id\":1,\"day\":\"2024-01-01\"}\n{\"id\":2,\"day\":\"2024-01-02\"}\n"
    );
}

#[test]
fn what_is_wrong_is_said() {
    let url = in_memory();
    for (arguments, message) in [
        (["duckdb:", "select 1 from nothing"], "Table with name nothing does not exist"),
        (["duckdb:", "selct 1"], "syntax error at or near \"selct\""),
        (["duckdb:", "select cast('x' as integer)"], "Could not convert string 'x' to INT32"),
        (["duckdb:/no/such/folder/shop.duckdb", "select 1"], "cannot be reached"),
        (["adbc:/no/such/library.so", "select 1"], "cannot open shared object file"),
        (["adbc:/no/such/library.so", "select 1"], "hint: name its library: `adbc:/path/to/it.so"),
        (["adbc:nosuchdriver", "select 1"], "nosuchdriver"),
        (["adbc:?a=1", "select 1"], "names no driver"),
        ([&format!("{url}&path"), "select 1"], "has no value"),
        ([&format!("{url}&nonsense=secret"), "select 1"], "cannot be reached"),
    ] {
        let said = refused(&arguments);
        assert!(said.contains(message), "{arguments:?}: {said}");
    }
    let mut without = Command::new(program());
    without.args(["query", "duckdb:", "select 1"]).env_remove("ROWSTREAM_DUCKDB");
    let said = String::from_utf8(without.output().unwrap().stderr).unwrap();
    assert!(said.contains("the driver of source `database` cannot be loaded"), "{said}");
    assert!(said.contains("ROWSTREAM_DUCKDB=/path/to/libduckdb.so"), "{said}");
    let missing = refused(&["duckdb:", "select :x as x"]);
    assert!(missing.contains("`x`"), "{missing}");
}

#[tokio::test]
async fn a_million_rows_take_little_memory() {
    let server = serve("", &[("many", MANY)]).await;
    let reply = get(&server.url("/many.ndjson")).await;
    assert_eq!((reply.status.as_u16(), reply.ended.clone()), (200, Ended::Complete));
    let mut lines = reply.text().lines();
    for i in 0..1_000_000 {
        assert_eq!(lines.next(), Some(&*format!("{{\"i\":{i},\"text\":\"row {i}\"}}")));
    }
    assert_eq!(lines.next(), None);
    let peak = peak_memory_bytes(server.pid());
    assert!(peak < 48 << 20, "the server took {peak} bytes");
    let (_, batches) = batches(&get(&server.url("/many.arrow")).await);
    assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 1_000_000);
    let ids = batches.iter().flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec());
    assert!(ids.eq(0..1_000_000));
    let bytes = |column: &ArrayRef| column.to_data().get_slice_memory_size().unwrap();
    let largest = batches.iter().map(|batch| batch.columns().iter().map(bytes).sum::<usize>()).max();
    // DuckDB's own batches have 2048 rows.
    assert!((32_000..66 * 1024).contains(&largest.unwrap()), "{largest:?}");
    assert!(batches[0].num_rows() < 300, "the first bytes come soon: {}", batches[0].num_rows());
    let peak = peak_memory_bytes(server.pid());
    assert!(peak < 48 << 20, "the server took {peak} bytes");
}

/// A driver's batches are split if they're longer than a driver process may send, so fewer rows
/// wait in it.
#[tokio::test]
async fn fetch_bytes_cuts_the_batches_of_a_driver() {
    let sql = "select range as n from range(100000)";
    let mut longest = Vec::new();
    for settings in ["", "fetch_bytes = \"4KiB\""] {
        let server = serve(settings, &[("rows", sql)]).await;
        let (_, batches) = batches(&get(&server.url("/rows.arrow")).await);
        let rows: Vec<_> = batches.iter().map(RecordBatch::num_rows).collect();
        assert_eq!(rows.iter().sum::<usize>(), 100_000);
        longest.push(rows.into_iter().max().unwrap());
    }
    // DuckDB's own batches have 2048 rows, and a number has 8 bytes.
    assert_eq!(longest[0], 2048);
    assert!((1..=512).contains(&longest[1]), "{longest:?}");
}

/// The rows of a complete Arrow stream.
pub(crate) fn batches(reply: &Reply) -> (SchemaRef, Vec<RecordBatch>) {
    assert_eq!((reply.status.as_u16(), &reply.ended), (200, &Ended::Complete), "{} bytes", reply.body.len());
    assert!(reply.body.ends_with(&END), "what ends well has its end");
    let reader = StreamReader::try_new(&*reply.body, None).unwrap();
    (reader.schema(), reader.map(Result::unwrap).collect())
}

/// Types are the database's, except if they refer to values elsewhere.
#[tokio::test]
async fn batches_keep_their_types() {
    let columns = [
        ("true", "Boolean"),
        ("1::utinyint", "UInt8"),
        ("18446744073709551615::ubigint", "UInt64"),
        ("1.5::float", "Float32"),
        ("12.50::decimal(10, 2)", "Decimal128(10, 2)"),
        ("'é'", "Utf8"),
        ("'ab'::blob", "Binary"),
        ("date '2024-02-29'", "Date32"),
        ("time '10:11:12.5'", "Time64(µs)"),
        ("timestamp '2024-01-01 10:00:00.5'", "Timestamp(µs)"),
        ("timestamp_s '2024-01-01 10:00:00'", "Timestamp(s)"),
        ("timestamp_ns '2024-01-01 10:00:00.123456789'", "Timestamp(ns)"),
        ("timestamptz '2024-01-01 10:00:00+02'", "Timestamp(µs, \"UTC\")"),
        ("interval '14 months 3 days 4.5 seconds'", "Interval(MonthDayNano)"),
        ("'b'::enum('a', 'b')", "Utf8"),
        ("[1, 2, null]", "List(Int32, field: 'l')"),
        ("array_value(1, 2)", "FixedSizeList(2 x Int32, field: '')"),
        ("{'a': 1, 'b': ['x']}", "Struct(\"a\": Int32, \"b\": List(Utf8, field: 'l'))"),
        ("union_value(n := 7)", "Utf8"),
    ];
    let list: Vec<_> = columns.iter().enumerate().map(|(i, (sql, _))| format!("{sql} as c{i}")).collect();
    let sql = format!("select {} union all by name select null as c0", list.join(", "));
    let server = serve("", &[("types", &sql)]).await;
    let (schema, batches) = batches(&get(&server.url("/types.arrow")).await);
    let told = schema.fields().iter().map(|field| field.data_type().to_string());
    // The zone is the machine's.
    let told: Vec<_> = told.map(|told| told.replace("Etc/", "")).collect();
    assert_eq!(told, columns.map(|(_, data_type)| data_type));
    assert!(
        schema
            .fields()
            .iter()
            .all(|field| field.is_nullable() && field.metadata().get("rowstream.kind").is_none())
    );
    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
    let nulls = |column: usize| batches.iter().map(|batch| batch.column(column).null_count()).sum::<usize>();
    assert_eq!(
        (rows, (0..columns.len() - 1).map(nulls).collect::<Vec<_>>()),
        (2, vec![1; columns.len() - 1])
    );
    let documents = batches.iter().flat_map(|batch| {
        let documents = batch.column(columns.len() - 1).as_string::<i32>().iter();
        documents.map(|document| document.map(str::to_owned)).collect::<Vec<_>>()
    });
    assert_eq!(documents.collect::<Vec<_>>(), [Some("7".to_owned()), None]);
}

/// The promises for rows apply to batches too.
#[tokio::test]
async fn batches_keep_what_is_promised_of_rows() {
    let rows = "select range as n, 'text ' || range as t from range(:rows)";
    let list = format!(
        "/* key = [\"n\"]\ncompression = \"on\"\n[params]\nrows = {{ type = \"integer\", default = 5000 }} */\n{rows} order by n"
    );
    let server = serve(
        "max_row_bytes = \"100KiB\"\n",
        &[
            ("list", &list),
            (
                "page",
                "/* key = [\"n\"]\n[params]\nmost = { type = \"integer\", default = 10 } */\n\
                 select range as n from range(100) order by n limit :most",
            ),
            ("one", "/* result = \"one\"\n[params]\nrows = \"integer\" */\nselect range as n from range(:rows)"),
            ("wide", "select repeat('x', case range when 5000 then 200000 else 10 end::bigint) as t from range(10000)"),
            ("fails", "select case when range = 50000 then error('no') else range::varchar end as n from range(100000)"),
        ],
    )
    .await;
    let request = |path: &str| {
        Request::get(server.url(path)).header("te", "trailers").header("want-content-digest", "sha-256=1")
    };
    for client in [Client::HTTP1, Client::H2C] {
        for coding in ["identity", "zstd", "gzip"] {
            let request =
                request("/list.arrow").header("accept-encoding", coding).body(String::new()).unwrap();
            let reply = client.send(request).await;
            let trailers = reply.trailers.clone().expect("trailers");
            let digest = format!("sha-256=:{}:", BASE64_STANDARD.encode(Sha256::digest(&reply.body)));
            let told = ["rowstream-status", "rowstream-rows", "content-digest"].map(|name| &trailers[name]);
            assert_eq!(told, ["complete", "5000", &digest], "{coding}");
            let id = reply.header("rowstream-stream").unwrap();
            let told = get(&server.url(&format!("/_rowstream/streams/{id}"))).await.json();
            assert_eq!((&told["state"], &told["rows"]), (&json!("complete"), &json!(5000)), "{told}");
        }
    }
    let whole = get(&server.url("/list.arrow")).await;
    let waited = get(&server.url("/list.arrow?_wait=end")).await;
    assert_eq!(waited.header("content-length"), Some(&*whole.body.len().to_string()));
    assert_eq!(batches(&whole).1, batches(&waited).1);

    // The key isn't sent twice, and pages are consecutive.
    let (mut path, mut seen) = ("/page.arrow".to_owned(), Vec::new());
    for _ in 0..3 {
        let reply = Client::HTTP1.send(request(&path).body(String::new()).unwrap()).await;
        let (schema, batches) = batches(&reply);
        assert_eq!(schema.fields().len(), 1);
        seen.extend(
            batches.iter().flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec()),
        );
        let next = reply.header("link").expect("a next page").split_once("_after=").unwrap().1;
        path = format!("/page.arrow?_after={}", next.split(['>', '&']).next().unwrap());
    }
    assert_eq!(seen, (0..30).collect::<Vec<_>>());

    let (_, one) = batches(&get(&server.url("/one.arrow?rows=1")).await);
    assert_eq!(one[0].num_rows(), 1);
    let (schema, none) = batches(&get(&server.url("/list.arrow?rows=0")).await);
    assert_eq!((schema.fields().len(), none.len()), (2, 0));
    for (path, status, code) in
        [("/one.arrow?rows=0", 404, "not_found"), ("/one.arrow?rows=2", 500, "endpoint")]
    {
        let reply = get(&server.url(path)).await;
        assert_eq!((reply.status.as_u16(), &reply.json()["code"]), (status, &json!(code)), "{path}");
    }
    for (path, code) in [("/wide.arrow", "row_too_large"), ("/fails.arrow", "bad_value")] {
        let reply = get(&server.url(path)).await;
        assert!(!reply.body.ends_with(&END), "{path}: there is an end");
        match reply.status.as_u16() {
            200 => assert!(matches!(reply.ended, Ended::Broken(_)), "{path}: {:?}", reply.ended),
            _ => assert_eq!(reply.json()["code"], code, "{path}"),
        }
    }
}

/// If an upstream adds a column, batches become rows. Their columns then have the types of rows,
/// and not the driver's.
#[tokio::test]
async fn enriched_rows_are_batches_of_the_types_of_rows() {
    let upstream = Upstream::start(Speaks::Http1, |_, asked: Asked| async move {
        reply(200, "application/json", format!("{{\"path\": \"{}\"}}", asked.target))
    })
    .await;
    let columns = [
        ("n", "Int64"),
        ("200::utinyint", "Int16"),
        ("18446744073709551615::ubigint", "Decimal128(20, 0)"),
        ("12.50::decimal(10, 2)", "Decimal128(10, 2)"),
        ("'é'", "Utf8"),
        ("'ab'::blob", "Binary"),
        ("date '2024-02-29'", "Date32"),
        ("time '10:11:12.5'", "Time64(µs)"),
        ("timestamp '2024-01-01 10:00:00.5'", "Timestamp(µs)"),
        ("timestamptz '2024-01-01 10:00:00+02'", "Timestamp(µs, \"UTC\")"),
        ("[1, null]", "Utf8"),
        ("{'a': 1}", "Utf8"),
    ];
    let list = |null: bool| {
        let sql = columns.iter().enumerate();
        let sql = sql.map(
            |(i, (sql, _))| if null && i > 0 { format!("null as c{i}") } else { format!("{sql} as c{i}") },
        );
        sql.collect::<Vec<_>>().join(", ")
    };
    let sql = format!(
        "/* [enrich.added]\nsource = \"up\"\nrequest = \"GET /a/{{c0}}\" */\n\
         select {} from (select 1::bigint as n) union all by name select {} from (select 2::bigint as n) order by c0",
        list(false),
        list(true)
    );
    let config = format!(
        "[source.duck]\nurl = {:?}\n[source.up]\nurl = \"http://{}\"\n",
        in_memory(),
        upstream.address()
    );
    let sql = sql.replacen("/* ", "/* source = \"duck\"\n", 1);
    let server = Launch::files(&[("rowstream.toml", &*config), ("endpoints/rows.sql", &*sql)]).start().await;
    let reply = get(&server.url("/rows.arrow")).await;
    let (schema, _) = batches(&reply);
    let told: Vec<_> = schema.fields().iter().map(|field| field.data_type().to_string()).collect();
    let types: Vec<_> = columns.iter().map(|(_, data_type)| *data_type).chain(["Utf8"]).collect();
    assert_eq!(told, types);
    let documents = schema.fields().iter().filter(|field| field.extension_type_name() == Some("arrow.json"));
    let documents: Vec<_> = documents.map(|field| field.name().as_str()).collect();
    assert_eq!(documents, ["c10", "c11", "added"]);
    let found: Vec<_> =
        crate::support::arrow::columns(&reply.body).into_iter().map(|(_, values)| values).collect();
    let expected = [
        "1",
        "200",
        "18446744073709551615",
        "12.50",
        "é",
        "6162",
        "19782",
        "36672500000",
        "1704103200500000",
        "1704096000000000",
        "[1,null]",
        "{\"a\":1}",
        "{\"path\": \"/a/1\"}",
    ];
    for (i, (values, expected)) in found.iter().zip(expected).enumerate() {
        let second = match i {
            0 => "2",
            12 => "{\"path\": \"/a/2\"}",
            _ => "NULL",
        };
        assert_eq!(values, &[expected, second], "{}", schema.field(i).name());
    }
}

/// A stream from a killed driver process never looks complete.
#[tokio::test]
async fn batches_of_a_worker_that_dies_have_no_end() {
    let server = serve("", &[("endless", ENDLESS)]).await;
    let mut stream = Client::HTTP1.stream(&server.url("/endless.arrow")).await;
    stream.at_least(1 << 20).await;
    for pid in workers(&server) {
        signal(pid, "KILL");
    }
    let reply = wait("the stream ends", stream.rest()).await;
    assert!(matches!(reply.ended, Ended::Broken(_)), "{:?}", reply.ended);
    assert!(!reply.body.ends_with(&END), "there is an end");
}

#[tokio::test]
async fn a_client_that_does_not_read_stops_the_driver() {
    let server = serve("", &[("endless", ENDLESS)]).await;
    let mut slow = Client::HTTP1.receive_buffer(16 * 1024).stream(&server.url("/endless.ndjson")).await;
    slow.at_least(1000).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let [worker] = workers(&server)[..] else { panic!("one worker: {:?}", workers(&server)) };
    // DuckDB has its own memory. The rows of two seconds would be gigabytes.
    assert!(peak_memory_bytes(server.pid()) < 48 << 20);
    assert!(peak_memory_bytes(worker) < 400 << 20, "the worker took {} bytes", peak_memory_bytes(worker));
}

#[tokio::test]
async fn a_client_that_leaves_ends_its_statement() {
    // It never ends: the aggregate runs for minutes before its only row.
    let long = "select count(*) as n from range(100000000000) where hash(range) % 7 = 0";
    let server =
        serve("pool = { max = 1 }", &[("endless", ENDLESS), ("long", long), ("one", "select 1 as n")]).await;
    for path in ["/endless.ndjson", "/endless.csv"] {
        let mut left = Client::HTTP1.stream(&server.url(path)).await;
        left.at_least(1000).await;
        drop(left);
        assert_eq!(get(&server.url("/one")).await.json(), json!([{"n": 1}]), "{path}");
    }
    let before = workers(&server);
    let waiting = tokio::spawn(get_in_time(server.url("/long"), Duration::from_millis(500)));
    assert!(waiting.await.unwrap().is_none(), "the statement is long");
    assert_eq!(get(&server.url("/one")).await.json(), json!([{"n": 1}]));
    assert_eq!(workers(&server), before, "DuckDB was interrupted, and no process ended");
}

async fn get_in_time(url: String, time: Duration) -> Option<u16> {
    tokio::time::timeout(time, get(&url)).await.ok().map(|reply| reply.status.as_u16())
}

#[tokio::test]
async fn a_worker_that_dies_fails_its_streams_alone() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("other.db");
    let other = rusqlite::Connection::open(&file).unwrap();
    other.execute_batch("create table t as with recursive c(n) as (select 1 union all select n + 1 from c limit 300000) select n from c").unwrap();
    let config = format!(
        "[source.duck]\nurl = {:?}\n[source.other]\nurl = \"sqlite:{}\"\n",
        in_memory(),
        file.display()
    );
    let server = Launch::files(&[
        ("rowstream.toml", &config),
        ("endpoints/endless.sql", &format!("/* source = \"duck\" */\n{ENDLESS}")),
        ("endpoints/one.sql", "/* source = \"duck\" */\nselect 1 as n"),
        ("endpoints/other.sql", "/* source = \"other\" */\nselect n from t"),
    ])
    .start()
    .await;
    for name in ["KILL", "SEGV"] {
        let mut beside = Client::HTTP1.receive_buffer(16 * 1024).stream(&server.url("/other.ndjson")).await;
        beside.at_least(1000).await;
        let mut stream = Client::HTTP1.stream(&server.url("/endless.ndjson")).await;
        stream.at_least(100_000).await;
        let killed: BTreeSet<_> = workers(&server).into_iter().collect();
        for pid in &killed {
            // Rust ignores the first SEGV if no instruction caused it.
            while is_alive(*pid) {
                signal(*pid, name);
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        let reply = wait("the stream ends", stream.rest()).await;
        assert!(matches!(reply.ended, Ended::Broken(_)), "{name}: {:?}", reply.ended);
        assert_eq!(
            get(&server.url("/one")).await.json(),
            json!([{"n": 1}]),
            "{name}: the next request is served"
        );
        assert!(workers(&server).iter().all(|pid| !killed.contains(pid)), "{name}: a new process");
        let other = beside.rest().await;
        assert_eq!(other.ended, Ended::Complete, "{name}: the other source's stream goes on");
    }
}

#[tokio::test]
async fn a_driver_that_hangs_is_ended_with_its_process() {
    let server = serve(
        "statement_timeout = \"1s\"\npool = { max = 1 }",
        &[("endless", ENDLESS), ("one", "select 1 as n")],
    )
    .await;
    let mut stream = Client::HTTP1.stream(&server.url("/endless.ndjson")).await;
    stream.at_least(1000).await;
    let hung = workers(&server);
    for pid in &hung {
        signal(*pid, "STOP");
    }
    let reply = wait("the timeout ends it", stream.rest()).await;
    assert!(matches!(reply.ended, Ended::Broken(_)), "{:?}", reply.ended);
    let next = get(&server.url("/one")).await;
    assert_eq!(next.json(), json!([{"n": 1}]));
    assert!(workers(&server).iter().all(|pid| !hung.contains(pid)), "a new process");
}

#[tokio::test]
async fn a_worker_ends_with_its_server() {
    let temporary = tempfile::tempdir().unwrap();
    let launch = launch("", &[("one", "select 1 as n")]);
    let mut server = launch.variable("TMPDIR", temporary.path().to_str().unwrap()).start().await;
    get(&server.url("/one")).await;
    let left = workers(&server);
    assert_eq!(left.len(), 1);
    server.kill();
    wait_until("the worker ends", async || !left.iter().any(|pid| is_alive(*pid))).await;
    assert_eq!(fs::read_dir(temporary.path()).unwrap().count(), 0, "its folder is left");
}

fn is_alive(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

#[tokio::test]
async fn several_statements_read_one_snapshot() {
    let body = "/* body = { list = \"$list\", total = \"$total\" } */\n\
        -- name: list :many\nselect range as n from range(3)\n-- name: total :value\nselect 3 as total";
    let server = serve("", &[("body", body)]).await;
    assert_eq!(
        get(&server.url("/body")).await.json(),
        json!({"list": [{"n": 0}, {"n": 1}, {"n": 2}], "total": 3})
    );
}

#[test]
fn what_drivers_cannot_do_is_refused() {
    let nested = "/* body = { a = \"$a\" } */\n-- name: a :many\nselect 1 as id\n\
        -- name: b :many nested in a on id = id\nselect 1 as id";
    let follow = "/* key = [\"n\"]\nfollow = true */\nselect 1 as n";
    // A driver has no text form of it to resume from.
    let uuid = "/* key = [\"id\"] */\nselect '6f1e3c8a-0000-4000-8000-000000000001'::uuid as id";
    for (url, sql, message) in [
        (in_memory(), nested, "one statement at a time"),
        (in_memory(), follow, "has no live tail"),
        (adbc_postgres("postgres", pg_port()), uuid, "`key` names `id`, whose values are bytes"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("endpoints")).unwrap();
        fs::write(folder.path().join("rowstream.toml"), format!("[source.main]\nurl = {url:?}\n")).unwrap();
        fs::write(folder.path().join("endpoints/t.sql"), sql).unwrap();
        let output = Command::new(program()).arg("check").arg(folder.path()).output().unwrap();
        let said =
            String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(message), "{said}");
    }
}

#[test]
fn nobody_calls_a_worker_by_hand() {
    let output = Command::new(program()).args(["worker", "1000000000"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("only the server can run a worker"));
}

/// A connection that had died with its database remained in the pool, so each request failed.
#[tokio::test]
async fn connections_that_died_while_idle_cost_no_request() {
    let db = TestDb::new().await;
    db.execute("create table paid (n int)").await;
    let two = "/*\nbody = { a = '$a', b = '$b' }\n*/\n-- name: a :many\nselect 1 as n\n-- name: b :many\nselect 2 as n";
    let config =
        format!("[source.main]\nurl = {:?}\npool = {{ max = 1 }}\n", adbc_postgres(db.name(), pg_port()));
    let server = Server::start(&[
        ("rowstream.toml", &config),
        ("endpoints/one.sql", "select 1 as n"),
        ("endpoints/two.sql", two),
        ("endpoints/paid.sql", "insert into paid values (1) returning n"),
    ])
    .await;
    for round in 0..3 {
        for target in ["/one", "/two", "/paid"] {
            assert_eq!(get(&server.url(target)).await.status, 200, "{round}: {}", server.stdout());
            let backends =
                format!("pg_stat_activity where datname = '{}' and pid <> pg_backend_pid()", db.name());
            db.execute(&format!("select pg_terminate_backend(pid, 10000) from {backends}")).await;
        }
    }
}

/// The driver reports a lost connection like most errors. If it was lost after the commit of a
/// statement with effects, we ran the statement again.
#[tokio::test]
async fn a_statement_that_may_write_runs_once() {
    assert_runs_once(adbc_postgres).await;
}

/// Cuts the connection of a statement that writes, and counts its runs. A sequence counts them even if
/// they're rolled back.
pub(crate) async fn assert_runs_once(url: fn(&str, u16) -> String) {
    const SLOW: &str = "insert into paid values (nextval('runs')) returning n, pg_sleep(2)::text as slept";
    const SLEEPING: &str = "select count(*) from pg_stat_activity
        where datname = current_database() and wait_event = 'PgSleep'";
    let db = TestDb::new().await;
    db.execute("create sequence runs; create table paid (n bigint)").await;
    let client = db.client().await;
    let number = async |sql: &'static str| client.query_one(sql, &[]).await.unwrap().get::<_, i64>(0);
    let proxy = TcpProxy::transparent(([127, 0, 0, 1], pg_port()).into()).await;
    let url = url(db.name(), proxy.port());
    let config = format!("[source.main]\nurl = {url:?}\npool = {{ max = 1 }}\n");
    let server = Server::start(&[("rowstream.toml", &config), ("endpoints/paid.sql", SLOW)]).await;
    let paid = server.url("/paid");
    let before = number("select nextval('runs')").await;
    let cut = async {
        wait_until("the statement runs", async || number(SLEEPING).await == 1).await;
        proxy.cut_now(Cut::Reset);
    };
    let (reply, ()) = tokio::join!(get(&paid), cut);
    assert!(reply.status.is_server_error(), "{}: {}", reply.status, reply.text());
    assert_eq!(number("select nextval('runs')").await, before + 2, "it ran once");
    let reply = get(&paid).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
}

/// DuckDB's statements were known by their texts, and with the types of the first endpoint that was
/// requested. The others answered 503, because "the tables changed".
#[tokio::test]
async fn endpoints_of_one_text_have_their_own_types() {
    let typed = |kind: &str| {
        format!("/*\n[params]\nx = {{ type = \"{kind}\", optional = true }}\n*/\nselect :x as x")
    };
    let kinds = ["integer", "boolean", "timestamp", "text", "number"];
    let texts = kinds.map(typed);
    let endpoints: Vec<_> = kinds.into_iter().zip(texts.iter().map(String::as_str)).collect();
    let server = serve("", &endpoints).await;
    for _ in 0..2 {
        for (path, expected) in [
            ("/integer?x=7", json!(7)),
            ("/boolean?x=true", json!(true)),
            ("/timestamp?x=2024-01-01T00:00:00Z", json!("2024-01-01T00:00:00Z")),
            ("/text?x=007", json!("007")),
            ("/number?x=5", json!(5)),
            ("/integer", json!(null)),
            ("/text", json!(null)),
        ] {
            let reply = get(&server.url(path)).await;
            assert_eq!(
                (reply.status.as_u16(), &reply.json()[0]["x"]),
                (200, &expected),
                "{path}: {}",
                reply.text()
            );
        }
        // The result has a scale before the value is known.
        let reply = get(&server.url("/number?x=1.10")).await;
        assert_eq!(
            (reply.status.as_u16(), &reply.json()["code"]),
            (500, &json!("endpoint")),
            "{}",
            reply.text()
        );
        assert!(reply.text().contains("`:x::decimal(18, 4)`"), "{}", reply.text());
    }
}

/// A boolean in a key was "bytes", so a list by it ended after its first page.
#[tokio::test]
async fn pages_may_be_sorted_by_booleans() {
    let sorted = "/*\nkey = [\"b\", \"id\"]\nsort = true\n*/\nselect range % 2 = 0 as b, range as id from range(8) order by b, id";
    let list = format!("{} limit 3", sorted.replace("sort = true\n", ""));
    let server = serve("", &[("list", &list), ("sorted", sorted)]).await;
    for (first, expected) in
        [("/list", [1, 3, 5, 7, 0, 2, 4, 6]), ("/sorted?order=b.desc,id&limit=3", [0, 2, 4, 6, 1, 3, 5, 7])]
    {
        let (mut path, mut ids) = (Some(first.to_owned()), Vec::new());
        while let Some(page) = path {
            let reply = get(&server.url(&page)).await;
            assert_eq!(reply.status, 200, "{page}: {}", reply.text());
            ids.extend(reply.json().as_array().unwrap().iter().map(|row| row["id"].as_i64().unwrap()));
            let link = reply.header("link");
            let query = |link: &str| link[1..].split_once('>').unwrap().0.to_owned();
            let list = first.split('?').next().unwrap();
            path = link.map(|link| format!("{list}{}", query(link)));
        }
        assert_eq!(ids, expected, "{first}");
    }
}

/// `like` ignored case if the column's collation did so. SQLite and MySQL regarded it.
#[tokio::test]
async fn like_regards_case_whatever_the_collation_is() {
    let list = "/*\nkey = [\"id\"]\nfilter = true\n*/\nselect id, v collate nocase as v, v::enum('ABC', 'abc', 'x') as e \
        from (values (1, 'ABC'), (2, 'abc'), (3, 'x')) t(id, v) order by id";
    let server = serve("", &[("list", list)]).await;
    for (query, expected) in [
        ("v=like.a*", vec!["abc"]),
        ("v=ilike.a*", vec!["ABC", "abc"]),
        ("v=eq.abc", vec!["ABC", "abc"]),
        ("e=like.a*", vec!["abc"]),
    ] {
        let reply = get(&server.url(&format!("/list?{query}"))).await;
        let found = reply.json();
        let found: Vec<_> = found.as_array().unwrap().iter().map(|row| row["v"].as_str().unwrap()).collect();
        assert_eq!(found, expected, "{query}");
    }
}

/// A decimal in a condition or a cursor became a float that differs in its last bit, so the row with the float
/// wasn't found, and pages repeated or lost it.
#[tokio::test]
async fn floats_of_a_response_are_found_again() {
    let floats = [
        "-0.9372444756493645",
        "-0.9144219413210801",
        "-0.38065989304732195",
        "-0.0036971821178827845",
        "0",
        "1.4051655394808904e-9",
        "0.0014485967658119047",
        "0.1",
        "0.44062250428827676",
        "0.9796120298431625",
        "16777216",
        "3.25e38",
    ];
    let values: Vec<_> = floats.iter().map(|float| format!("('{float}')")).collect();
    let list = format!(
        "/*\nkey = [\"d\"]\nfilter = true\n*/\nselect cast(v as real) as f, cast(v as double precision) as d \
         from (values {}) t(v) order by d limit 1",
        values.join(", ")
    );
    let server = serve("", &[("list", &list)]).await;
    let (mut path, mut seen) = (Some("/list".to_owned()), Vec::new());
    while let Some(page) = path {
        let reply = get(&server.url(&page)).await;
        assert_eq!(reply.status, 200, "{page}: {}", reply.text());
        let rows: Vec<Box<RawValue>> = serde_json::from_str(reply.text()).unwrap();
        seen.extend(rows);
        assert!(seen.len() <= floats.len(), "a row is repeated: {seen:?}");
        let query = |link: &str| link[1..].split_once('>').unwrap().0.to_owned();
        path = reply.header("link").map(|link| format!("/list{}", query(link)));
    }
    assert_eq!(seen.len(), floats.len(), "a row is missing: {seen:?}");
    for (row, float) in seen.iter().zip(floats) {
        // serde_json's own floats may differ in the last bit, too.
        let columns: BTreeMap<&str, &RawValue> = serde_json::from_str(row.get()).unwrap();
        assert_eq!(columns["d"].get().parse::<f64>().unwrap(), float.parse::<f64>().unwrap(), "{row}");
        for (column, value) in columns {
            let path = format!("/list?{column}=eq.{value}").replace('+', "%2B");
            assert_eq!(get(&server.url(&path)).await.text(), format!("[{row}]"), "{path}");
        }
    }
}
