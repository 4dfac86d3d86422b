//! The programs that people read our Arrow streams with: pyarrow, polars and duckdb, each
//! separately.
//!
//! `cargo xtask test` installs them and sets the path of their Python. If they can't be installed,
//! it skips this test with a message.

#![expect(clippy::unwrap_used, reason = "the helpers of tests are tests, too")]

use std::process::Command;
use std::sync::Arc;

use crate::support::corpus::{self, Arrow, Line, POSTGRES_SETUP};
use crate::support::{Ended, Launch, Server, TestDb, get, program, repository};
use crate::worked;
use arrow_array::{ArrayRef, Decimal128Array, RecordBatch};
use arrow_ipc::writer::StreamWriter;
use serde_json::{Value, json};
use tempfile::NamedTempFile;

const LIBRARIES: [&str; 3] = ["pyarrow", "polars", "duckdb"];

/// The output of a script in `tests/readers` for a file.
fn seen(script: &str, words: &[&str], file: &NamedTempFile) -> Value {
    seen_or_refused(script, words, file).unwrap_or_else(|said| panic!("{words:?}: {said}"))
}

/// The same, or the script's error if it can't read the file.
fn seen_or_refused(script: &str, words: &[&str], file: &NamedTempFile) -> Result<Value, String> {
    let python = std::env::var_os("ROWSTREAM_TEST_PYTHON");
    let python = python.expect("ROWSTREAM_TEST_PYTHON is not set: run `cargo xtask test`");
    let script = repository().join("tests/readers").join(script);
    let ran = Command::new(python).arg(script).args(words).arg(file.path()).output().unwrap();
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    match ran.status.success() {
        true => serde_json::from_slice(&ran.stdout).map_err(|error| format!("{error}: {said}")),
        false => Err(said),
    }
}

/// A file with a complete stream.
async fn saved(server: &Server, path: &str) -> NamedTempFile {
    let reply = get(&server.url(path)).await;
    assert_eq!((reply.status.as_u16(), &reply.ended), (200, &Ended::Complete), "{path}: {}", reply.text());
    let file = NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &reply.body).unwrap();
    file
}

/// Each library's view of a stream.
async fn read(server: &Server, path: &str) -> [Value; 3] {
    let file = saved(server, path).await;
    LIBRARIES.map(|library| seen("read.py", &[library], &file))
}

/// Each column: its SQL, then for each library its type and its value in Python's form.
const TYPES: &[(&str, [&str; 3], [&str; 3])] = &[
    ("true", ["bool", "Boolean", "BOOLEAN"], ["True", "True", "true"]),
    ("(-2)::int2", ["int16", "Int16", "SMALLINT"], ["-2", "-2", "-2"]),
    ("3::int4", ["int32", "Int32", "INTEGER"], ["3", "3", "3"]),
    (
        "9223372036854775807::int8",
        ["int64", "Int64", "BIGINT"],
        ["9223372036854775807", "9223372036854775807", "9223372036854775807"],
    ),
    ("0.5::float4", ["float", "Float32", "FLOAT"], ["0.5", "0.5", "0.5"]),
    ("0.1::float8", ["double", "Float64", "DOUBLE"], ["0.1", "0.1", "0.1"]),
    (
        "(-12.5)::numeric(10,2)",
        ["decimal128(10, 2)", "Decimal(precision=10, scale=2)", "DECIMAL(10,2)"],
        ["-12.50", "-12.50", "-12.50"],
    ),
    ("12.50::numeric", ["string", "String", "VARCHAR"], ["12.50", "12.50", "12.50"]),
    ("'é'::text", ["string", "String", "VARCHAR"], ["é", "é", "é"]),
    (
        "'{\"a\": 1}'::jsonb",
        ["extension<arrow.json>", "Extension('arrow.json', String, '')", "JSON"],
        ["{\"a\": 1}", "{\"a\": 1}", "{\"a\": 1}"],
    ),
    ("'\\x6869'::bytea", ["binary", "Binary", "BLOB"], ["b'hi'", "b'hi'", "hi"]),
    ("date '2024-02-29'", ["date32[day]", "Date", "DATE"], ["2024-02-29", "2024-02-29", "2024-02-29"]),
    (
        "time '12:00:00.25'",
        ["time64[us]", "Time", "TIME"],
        ["12:00:00.250000", "12:00:00.250000", "12:00:00.25"],
    ),
    (
        "timestamp '2024-02-29 12:00'",
        ["timestamp[us]", "Datetime(time_unit='us', time_zone=None)", "TIMESTAMP"],
        ["2024-02-29 12:00:00", "2024-02-29 12:00:00", "2024-02-29 12:00:00"],
    ),
    (
        "timestamptz '2024-02-29 13:00+01'",
        ["timestamp[us, tz=UTC]", "Datetime(time_unit='us', time_zone='UTC')", "TIMESTAMP WITH TIME ZONE"],
        ["2024-02-29 12:00:00+00:00", "2024-02-29 12:00:00+00:00", "2024-02-29 12:00:00+00"],
    ),
    (
        "'abababab-abab-abab-abab-abababababab'::uuid",
        ["extension<arrow.uuid>", "Binary", "UUID"],
        [
            "abababab-abab-abab-abab-abababababab",
            "b'\\xab\\xab\\xab\\xab\\xab\\xab\\xab\\xab\\xab\\xab\\xab\\xab\\xab\\xab\\xab\\xab'",
            "abababab-abab-abab-abab-abababababab",
        ],
    ),
    (
        "array[1, null, -2147483648]",
        ["list<item: int32>", "List(Int32)", "INTEGER[]"],
        ["[1, None, -2147483648]", "[1, None, -2147483648]", "[1, NULL, -2147483648]"],
    ),
    (
        "'{a,NULL,\"b c\",\"\"}'::text[]",
        ["list<item: string>", "List(String)", "VARCHAR[]"],
        ["['a', None, 'b c', '']", "['a', None, 'b c', '']", "[a, NULL, b c, '']"],
    ),
    ("'{}'::date[]", ["list<item: date32[day]>", "List(Date)", "DATE[]"], ["[]", "[]", "[]"]),
    (
        "'{1.5,NULL}'::numeric(10,2)[]",
        ["list<item: decimal128(10, 2)>", "List(Decimal(precision=10, scale=2))", "DECIMAL(10,2)[]"],
        ["[Decimal('1.50'), None]", "[Decimal('1.50'), None]", "[1.50, NULL]"],
    ),
    (
        "'{abababab-abab-abab-abab-abababababab}'::uuid[]",
        ["list<item: extension<arrow.uuid>>", "List(Binary)", "UUID[]"],
        [
            "[UUID('abababab-abab-abab-abab-abababababab')]",
            "[b'\\xab\\xab\\xab\\xab\\xab\\xab\\xab\\xab\\xab\\xab\\xab\\xab\\xab\\xab\\xab\\xab']",
            "[abababab-abab-abab-abab-abababababab]",
        ],
    ),
];

#[tokio::test]
async fn python_reads_every_type() {
    let db = TestDb::new().await;
    let values = TYPES.iter().enumerate().map(|(i, (sql, ..))| format!("({sql}) as c{i}"));
    let values = values.collect::<Vec<_>>().join(", ");
    // NULLs are in the first row, with the same types.
    let sql =
        format!("select c.* from (select {values}) c right join generate_series(1, 2) n on n = 2 order by n");
    let config = format!("[source.db]\nurl = \"{}\"\n", db.url());
    let server = Server::start(&[("rowstream.toml", &config), ("endpoints/types.sql", &sql)]).await;
    for (index, seen) in read(&server, "/types.arrow").await.iter().enumerate() {
        assert_eq!(seen["rows"], 2, "{seen}");
        for (column, (sql, types, values)) in TYPES.iter().enumerate() {
            let expected = json!({"type": types[index], "nulls": 1, "last": values[index]});
            assert_eq!(seen["columns"][format!("c{column}")], expected, "{} of {sql}", LIBRARIES[index]);
        }
    }
}

/// The same for DuckDB, whose batches are passed to clients.
const DUCKDB_TYPES: &[(&str, [&str; 3], [&str; 3])] = &[
    ("200::utinyint", ["uint8", "UInt8", "UTINYINT"], ["200", "200", "200"]),
    (
        "18446744073709551615::ubigint",
        ["uint64", "UInt64", "UBIGINT"],
        ["18446744073709551615", "18446744073709551615", "18446744073709551615"],
    ),
    (
        "1.50::decimal(10, 2)",
        ["decimal128(10, 2)", "Decimal(precision=10, scale=2)", "DECIMAL(10,2)"],
        ["1.50", "1.50", "1.50"],
    ),
    ("'é'", ["string", "String", "VARCHAR"], ["é", "é", "é"]),
    (
        "timestamp_ns '2024-02-29 12:00:00.123456'",
        ["timestamp[ns]", "Datetime(time_unit='ns', time_zone=None)", "TIMESTAMP_NS"],
        ["2024-02-29 12:00:00.123456", "2024-02-29 12:00:00.123456", "2024-02-29 12:00:00.123456"],
    ),
    ("'b'::enum('a', 'b')", ["string", "String", "VARCHAR"], ["b", "b", "b"]),
    ("[1, null]", ["list<l: int32>", "List(Int32)", "INTEGER[]"], ["[1, None]", "[1, None]", "[1, NULL]"]),
    (
        "array_value(1, 2)",
        ["fixed_size_list<: int32>[2]", "Array(Int32, shape=(2,))", "INTEGER[2]"],
        ["[1, 2]", "[1, 2]", "[1, 2]"],
    ),
    (
        "{'a': 1, 'b': ['x']}",
        [
            "struct<a: int32, b: list<l: string>>",
            "Struct({'a': Int32, 'b': List(String)})",
            "STRUCT(a INTEGER, b VARCHAR[])",
        ],
        ["{'a': 1, 'b': ['x']}", "{'a': 1, 'b': ['x']}", "{'a': 1, 'b': [x]}"],
    ),
    (
        "map {'k': 1}",
        ["map<string, int32>", "Map(String, Int32)", "MAP(VARCHAR, INTEGER)"],
        ["[('k', 1)]", "{'k': 1}", "{k=1}"],
    ),
];

#[tokio::test]
async fn python_reads_the_batches_of_drivers() {
    let library = std::env::var("ROWSTREAM_TEST_DUCKDB").expect("run `cargo xtask test`");
    let values = DUCKDB_TYPES.iter().enumerate().map(|(i, (sql, ..))| format!("{sql} as c{i}"));
    let sql = format!(
        "select c.* exclude (k) from range(1, 3) r(n) left join (select 2 as k, {}) c on k = n order by n",
        values.collect::<Vec<_>>().join(", ")
    );
    let config = format!("[source.duck]\nurl = \"adbc:{library}?entrypoint=duckdb_adbc_init\"\n");
    let server = Server::start(&[("rowstream.toml", &config), ("endpoints/types.sql", &sql)]).await;
    for (index, seen) in read(&server, "/types.arrow").await.iter().enumerate() {
        assert_eq!(seen["rows"], 2, "{seen}");
        for (column, (sql, types, values)) in DUCKDB_TYPES.iter().enumerate() {
            let expected = json!({"type": types[index], "nulls": 1, "last": values[index]});
            assert_eq!(seen["columns"][format!("c{column}")], expected, "{} of {sql}", LIBRARIES[index]);
        }
    }
}

/// Nested statements, with columns of several types.
#[tokio::test]
async fn python_reads_nested_lists() {
    let db = TestDb::new().await;
    let sql = "-- name: authors :many\nselect n as id from generate_series(1, 3) n order by n;
        -- name: books :many nested in authors on author = id
        select n % 2 + 1 as author, n::int8 as id, 1.5::numeric(5, 2) as price, date '2026-03-01' + n as day,
          array[n, null] as pages, '{\"a\": 1}'::jsonb as tags
        from generate_series(1, 4) n order by 1, 2;
        -- name: reviews :many nested in books on author = author and book = id
        select n % 2 + 1 as author, n::int8 as book, 'good' as words from generate_series(2, 4) n order by 1, 2";
    let config = format!("[source.db]\nurl = \"{}\"\n", db.url());
    let server = Server::start(&[("rowstream.toml", &config), ("endpoints/authors.sql", sql)]).await;
    let (table, types) = seen_nested(&saved(&server, "/authors.arrow").await);
    let book = |author: u8, id: u8, reviews: &Value| {
        json!({"author": author, "id": id, "price": "1.50", "day": format!("2026-03-{:02}", id + 1),
            "pages": [id, null], "tags": "{\"a\": 1}", "reviews": reviews})
    };
    let review = |author: u8, book: u8| json!([{"author": author, "book": book, "words": "good"}]);
    let expected = json!([
        {"id": 1, "books": [book(1, 2, &review(1, 2)), book(1, 4, &review(1, 4))]},
        {"id": 2, "books": [book(2, 1, &json!([])), book(2, 3, &review(2, 3))]},
        {"id": 3, "books": []},
    ]);
    assert_eq!(table, expected);
    let reviews = "list<item: struct<author: int32, book: int64, words: string>>";
    let books = format!(
        "list<item: struct<author: int32, id: int64, price: decimal128(5, 2), day: date32[day], \
         pages: list<item: int32>, tags: extension<arrow.json>, reviews: {reviews}>>"
    );
    assert_eq!(types, json!(["int32", books]));
    for seen in read(&server, "/authors.arrow").await {
        assert_eq!((&seen["rows"], &seen["columns"]["books"]["nulls"]), (&json!(3), &json!(0)), "{seen}");
    }
}

/// pyarrow's rows of a stream, with dates and decimals as texts, and the types of its columns.
fn seen_nested(file: &NamedTempFile) -> (Value, Value) {
    let seen = seen("rows.py", &[], file);
    (seen["rows"].clone(), seen["types"].clone())
}

/// Each library's view of the column `c` in a file: its type and its last value. `None` if the
/// library can't read the file.
fn each_sees(file: &NamedTempFile) -> [Option<(String, String)>; 3] {
    LIBRARIES.map(|library| {
        let seen = seen_or_refused("read.py", &[library], file).ok()?;
        let [data_type, last] =
            ["type", "last"].map(|of| seen["columns"]["c"][of].as_str().map(str::to_owned));
        data_type.zip(last)
    })
}

fn some(data_type: &str, last: &str) -> Option<(String, String)> {
    Some((data_type.to_owned(), last.to_owned()))
}

/// Not every library reads every type of every driver. The expectations are those in `arrow.md`.
#[tokio::test]
async fn python_reads_rare_types_as_documented() {
    let library = std::env::var("ROWSTREAM_TEST_DUCKDB").expect("run `cargo xtask test`");
    let config = format!("[source.duck]\nurl = \"adbc:{library}?entrypoint=duckdb_adbc_init\"\n");
    let server = Server::start(&[
        ("rowstream.toml", &config),
        ("endpoints/interval.sql", "select interval '14 months 3 days 4.5 seconds' as c"),
        ("endpoints/union.sql", "select union_value(n := 7) as c"),
    ])
    .await;
    assert_eq!(
        each_sees(&saved(&server, "/interval.arrow").await),
        [
            some("month_day_nano_interval", "MonthDayNano(months=14, days=3, nanoseconds=4500000000)"),
            None,
            some("INTERVAL", "1 year 2 months 3 days 00:00:04.5"),
        ]
    );
    assert_eq!(
        each_sees(&saved(&server, "/union.arrow").await),
        [
            some("extension<arrow.json>", "7"),
            some("Extension('arrow.json', String, '')", "7"),
            some("JSON", "7"),
        ]
    );
    // No available database has this type.
    let numbers = Decimal128Array::from(vec![123]).with_precision_and_scale(5, -2).unwrap();
    let batch = RecordBatch::try_from_iter([("c", Arc::new(numbers) as ArrayRef)]).unwrap();
    let file = NamedTempFile::new().unwrap();
    let mut writer = StreamWriter::try_new(file.as_file(), &batch.schema()).unwrap();
    writer.write(&batch).and_then(|()| writer.finish()).unwrap();
    assert_eq!(each_sees(&file), [some("decimal128(5, -2)", "1.23E+4"), None, None]);
}

/// pyarrow's view of a query's only row: the type and the value of each column, in the corpus's
/// form.
async fn corpus_of(url: &str, query: &str) -> Value {
    let config = format!("[source.db]\nurl = \"{url}\"\n");
    let server = Server::start(&[("rowstream.toml", &config), ("endpoints/values.sql", query)]).await;
    seen("values.py", &[], &saved(&server, "/values.arrow").await)
}

/// Compares the results for each line. Floats are compared by value.
fn agree(lines: &[&Line], seen: &Value) {
    assert_eq!(seen.as_array().unwrap().len(), lines.len());
    for (line, seen) in lines.iter().zip(seen.as_array().unwrap()) {
        let Arrow::Value(type_name, value) = &line.arrow else { unreachable!("these have values") };
        assert_eq!(seen["type"], *type_name, "{}", line.name());
        let is_same = is_same(type_name, value.as_deref(), seen["value"].as_str());
        assert!(is_same, "{}: {seen} and not {value:?}", line.name());
    }
}

fn is_same(type_name: &str, expected: Option<&str>, seen: Option<&str>) -> bool {
    let (Some(expected), Some(seen)) = (expected, seen) else { return expected == seen };
    if let Some(element) = type_name.strip_prefix("list<item: ").and_then(|rest| rest.strip_suffix('>')) {
        let list = |text| serde_json::from_str::<Vec<Option<String>>>(text).unwrap();
        let (expected, seen) = (list(expected), list(seen));
        let mut pairs = expected.iter().zip(&seen);
        return expected.len() == seen.len()
            && pairs.all(|(expected, seen)| is_same(element, expected.as_deref(), seen.as_deref()));
    }
    match type_name {
        "float" => {
            let (expected, seen): (f32, f64) = (expected.parse().unwrap(), seen.parse().unwrap());
            f64::from(expected).to_bits() == seen.to_bits()
        }
        "double" => {
            let (expected, seen): (f64, f64) = (expected.parse().unwrap(), seen.parse().unwrap());
            expected.to_bits() == seen.to_bits()
        }
        _ => expected == seen,
    }
}

fn with_values(lines: impl Iterator<Item = &'static Line>) -> Vec<&'static Line> {
    lines.filter(|line| matches!(line.arrow, Arrow::Value(..))).collect()
}

#[tokio::test]
async fn python_reads_the_corpus_from_postgres() {
    let db = TestDb::new().await;
    db.execute(POSTGRES_SETUP).await;
    let lines = with_values(corpus::postgres(db.version().await));
    let values: Vec<_> =
        (0..).zip(&lines).map(|(n, line)| format!("{} as c{n}", line.expression())).collect();
    agree(&lines, &corpus_of(&db.url(), &format!("select {}", values.join(", "))).await);
}

#[tokio::test]
async fn python_reads_the_corpus_from_sqlite() {
    let lines = with_values(corpus::sqlite());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("values.db");
    let connection = rusqlite::Connection::open(&file).unwrap();
    connection.execute_batch(&corpus::sqlite_table(&lines)).unwrap();
    agree(&lines, &corpus_of(&format!("sqlite:{}", file.display()), "select * from t").await);
}

/// The columns of the authors, with their types in each library.
const AUTHORS: &[(&str, [&str; 3])] = &[
    ("id", ["int64", "Int64", "BIGINT"]),
    ("firstName", ["string", "String", "VARCHAR"]),
    ("lastName", ["string", "String", "VARCHAR"]),
    ("email", ["string", "String", "VARCHAR"]),
    ("born", ["date32[day]", "Date", "DATE"]),
    ("country", ["string", "String", "VARCHAR"]),
    ("active", ["bool", "Boolean", "BOOLEAN"]),
    ("books", ["int64", "Int64", "BIGINT"]),
    ("royalties", ["decimal128(10, 2)", "Decimal(precision=10, scale=2)", "DECIMAL(10,2)"]),
    ("motto", ["string", "String", "VARCHAR"]),
    (
        "joined",
        ["timestamp[us, tz=UTC]", "Datetime(time_unit='us', time_zone='UTC')", "TIMESTAMP WITH TIME ZONE"],
    ),
];

#[tokio::test]
async fn python_reads_a_hundred_thousand_authors() {
    let folder = worked::filled("authors", program()).await;
    let server = Launch::folder(folder.path()).argument("--log-format=off").start().await;
    let lines = get(&server.url("/authors.ndjson")).await;
    let lines: Vec<Value> = lines.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let last = lines.last().unwrap();
    for (index, seen) in read(&server, "/authors.arrow").await.iter().enumerate() {
        assert_eq!(seen["rows"], 100_000, "{}", LIBRARIES[index]);
        assert_eq!(seen["columns"].as_object().unwrap().len(), AUTHORS.len());
        for (name, types) in AUTHORS {
            let (column, of) = (&seen["columns"][name], format!("{name}, {}", LIBRARIES[index]));
            let nulls = lines.iter().filter(|line| line[name].is_null()).count();
            assert_eq!((&column["type"], &column["nulls"]), (&json!(types[index]), &json!(nulls)), "{of}");
            if let Value::String(text) = &last[name]
                && *name != "joined"
            {
                assert_eq!(column["last"], text.as_str(), "{of}");
            }
        }
        assert_eq!(seen["columns"]["id"]["last"], last["id"].to_string());
    }
}
