//! The source for MySQL and MariaDB against a real MariaDB: values, parameters, errors, cancelled
//! statements, cut connections, and sessions dropped at bad moments.

#![expect(clippy::unwrap_used, reason = "the helpers of tests are tests, too")]

mod bits;
mod json;
mod keys;
mod logins;
mod settings;

use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rowstream_core::Error;
use rowstream_core::params::{BindType, ParamType, ParamValue};
use rowstream_core::pool::Priority;

use crate::support::{
    Client, Cut, Ended, Faults, Launch, MariaDb, MySqlDb, Pieces, Product, Server, TcpProxy, free_port, get,
    mariadb_ca, mariadb_socket, peak_memory_bytes, wait, wait_until, with_both,
};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use rowstream::config::Config;
use rowstream::database::{Session, Snapshot, Statement};
use rowstream::endpoint::Endpoint;
use rowstream::source::{Source, SourceConfig};
use rowstream::stream::RowStream;
use rowstream_encode::{Column, Format, RowEncoder, Shape};
use serde_json::json;
use tokio::task::JoinSet;

/// Produces rows for a long time.
const ENDLESS: &str = "select seq as n, repeat('x', 100) as x from seq_1_to_1000000000";

/// A source with at most one connection, unless `change` changes that.
fn source_with(url: &str, change: impl FnOnce(&mut SourceConfig)) -> Source {
    let mut config = Config::single(url, "select 1").unwrap().sources.remove(0);
    config.pool.max = 1;
    change(&mut config);
    Source::open(&config).unwrap()
}

fn source(url: &str) -> Source {
    source_with(url, |_| {})
}

/// The endpoint of a file.
fn endpoint(sql: &str) -> Endpoint {
    let folder = tempfile::tempdir().unwrap();
    let toml = folder.path().join("rowstream.toml");
    std::fs::create_dir(folder.path().join("endpoints")).unwrap();
    std::fs::write(&toml, "[source.main]\nurl = \"mysql://unused\"\n").unwrap();
    std::fs::write(folder.path().join("endpoints/t.sql"), sql).unwrap();
    let mut config = Config::load(&toml).unwrap_or_else(|errors| panic!("{sql}: {errors:?}"));
    config.endpoints.remove(0)
}

async fn next(stream: &mut RowStream) -> Result<Option<bytes::Bytes>, Error> {
    poll_fn(|cx| stream.poll_chunk(cx)).await.transpose()
}

async fn body(source: &Source, sql: &str, format: Format) -> Result<String, Error> {
    let mut stream = RowStream::open(&endpoint(sql), source, format, Vec::new()).await?;
    let mut out = Vec::new();
    while let Some(chunk) = next(&mut stream).await? {
        out.extend_from_slice(&chunk);
    }
    Ok(String::from_utf8(out).unwrap())
}

/// Runs a statement through a source, as NDJSON.
async fn run(source: &Source, sql: &str) -> Result<String, Error> {
    body(source, sql, Format::Ndjson).await
}

/// Opens a stream and reads its first chunk.
async fn started(source: &Source, sql: &str) -> RowStream {
    let mut stream = RowStream::open(&endpoint(sql), source, Format::Ndjson, Vec::new()).await.unwrap();
    next(&mut stream).await.unwrap().unwrap();
    stream
}

async fn connection_id(source: &Source) -> String {
    wait("a connection", run(source, "select connection_id() as id")).await.unwrap()
}

/// The rows of the statement that runs in a session, as NDJSON.
async fn rows(session: &mut Session, columns: &[Column]) -> Result<String, Error> {
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

/// Prepares and runs one statement with arguments.
async fn ask(source: &Source, sql: &str, args: &[(BindType, ParamValue)]) -> Result<String, Error> {
    let mut session = source.acquire(Snapshot::Statement, Priority::Stream).await?;
    let types = args.iter().map(|(kind, _)| *kind).collect();
    let columns = session.prepare(&Statement { sql: Arc::from(sql), types, ad_hoc: false }).await?;
    session.execute(0, &args.iter().map(|(_, value)| value).collect::<Vec<_>>());
    rows(&mut session, &columns).await
}

/// Waits until a statement returns `wanted`.
async fn until(db: &MySqlDb, sql: &str, wanted: &str) {
    let look = async || {
        let got = db.ask(sql);
        if got.trim() == wanted { Ok(()) } else { Err(got) }
    };
    wait_until(&format!("{wanted}: {sql}"), look).await;
}

/// A statement that counts our running statements in the test's database.
fn active(db: &MySqlDb) -> String {
    format!(
        "select count(*) from information_schema.processlist where db = '{}' and command in ('Execute', 'Query', 'Fetch') \
         and id <> connection_id()",
        db.name()
    )
}

const PIECES: Faults =
    Faults { pieces: Some(Pieces { bytes: 2048, pause: Duration::ZERO }), cut: None, stall_after: None };

async fn proxied(db: &MySqlDb, faults: Faults) -> (TcpProxy, String) {
    let target = SocketAddr::from(([127, 0, 0, 1], db.product().port()));
    let proxy = TcpProxy::to_client(target, faults).await;
    let url = db.url_at(proxy.port());
    (proxy, url)
}

// --- Values --------------------------------------------------------------------------------------

/// A type, a value in SQL, and its JSON.
const VALUES: &[(&str, &str, &str)] = &[
    ("tinyint", "-128", "-128"),
    ("tinyint unsigned", "255", "255"),
    ("boolean", "true", "1"),
    ("smallint", "-32768", "-32768"),
    ("smallint unsigned", "65535", "65535"),
    ("mediumint", "-8388608", "-8388608"),
    ("mediumint unsigned", "16777215", "16777215"),
    ("int", "-2147483648", "-2147483648"),
    ("int unsigned", "4294967295", "4294967295"),
    ("int zerofill", "42", "42"),
    ("bigint", "-9223372036854775808", "-9223372036854775808"),
    ("bigint unsigned", "18446744073709551615", "18446744073709551615"),
    ("bigint unsigned", "7", "7"),
    ("float", "0.1", "0.1"),
    ("float", "-3.4028e38", "-3.4028e+38"),
    ("double", "0.1", "0.1"),
    ("double", "1e300", "1e+300"),
    ("decimal(10,2)", "-12.5", "-12.50"),
    ("decimal(10,2)", "0.05", "0.05"),
    ("decimal(10,2) zerofill", "1.5", "1.50"),
    (
        "decimal(65,30)",
        "-12345678901234567890123456789012345.123456789012345678901234567890",
        "-12345678901234567890123456789012345.123456789012345678901234567890",
    ),
    (
        "decimal(65,0)",
        "99999999999999999999999999999999999999999999999999999999999999999",
        "99999999999999999999999999999999999999999999999999999999999999999",
    ),
    ("bit(1)", "b'1'", "1"),
    ("bit(10)", "b'1000000001'", "513"),
    ("bit(64)", "0xffffffffffffffff", "18446744073709551615"),
    ("year", "2024", "2024"),
    ("date", "'2024-02-29'", "\"2024-02-29\""),
    ("date", "'9999-12-31'", "\"9999-12-31\""),
    ("date", "'1000-01-01'", "\"1000-01-01\""),
    ("datetime", "'2024-01-01 00:00:00'", "\"2024-01-01T00:00:00\""),
    ("datetime(6)", "'2024-01-01 12:34:56.000001'", "\"2024-01-01T12:34:56.000001\""),
    ("datetime(3)", "'1969-12-31 23:59:59.5'", "\"1969-12-31T23:59:59.5\""),
    ("timestamp(6) null", "'2024-01-01 12:34:56.25'", "\"2024-01-01T12:34:56.25Z\""),
    ("time", "'00:00:00'", "\"00:00:00\""),
    ("time(6)", "'-837:59:59.000001'", "\"-837:59:59.000001\""),
    ("time", "'838:59:59'", "\"838:59:59\""),
    ("time(2)", "'12:34:56.78'", "\"12:34:56.78\""),
    ("char(5)", "'ab'", "\"ab\""),
    ("varchar(20)", "'größe 🦀'", "\"größe 🦀\""),
    ("varchar(20) character set latin1", "'größe'", "\"größe\""),
    ("text", "'a\\\"b\\nc'", "\"a\\\"b\\nc\""),
    ("longtext", "''", "\"\""),
    ("binary(3)", "'ab'", "\"\\\\x616200\""),
    ("varbinary(9)", "x'00ff'", "\"\\\\x00ff\""),
    ("blob", "x'00ff'", "\"\\\\x00ff\""),
    ("enum('a','b')", "'b'", "\"b\""),
    ("set('a','b','c')", "'a,c'", "\"a,c\""),
    ("point", "point(1, 2)", "\"\\\\x000000000101000000000000000000f03f0000000000000040\""),
    ("int", "null", "null"),
    ("text", "null", "null"),
];

/// MariaDB's JSON is a text, and MySQL's a document whose numbers are floats or decimals.
const VALUES_OF_MARIADB: &[(&str, &str, &str)] = &[
    ("json", "'{\"b\": [1, 2.50]}'", "{\"b\": [1, 2.50]}"),
    ("uuid", "'123e4567-e89b-12d3-a456-426614174000'", "\"123e4567-e89b-12d3-a456-426614174000\""),
    ("inet6", "'::1'", "\"::1\""),
    ("time(6)", "'-838:59:59.999999'", "\"-838:59:59.999999\""),
];

const VALUES_OF_MYSQL: &[(&str, &str, &str)] = &[
    ("json", "'{\"b\": [1, 2.50], \"a\": \"ü\"}'", "{\"a\": \"ü\", \"b\": [1, 2.5]}"),
    (
        "json",
        "json_array(12.50, true, null, cast('2024-02-29' as date))",
        "[12.50, true, null, \"2024-02-29\"]",
    ),
    ("json", "'\"\\\\u0001\"'", "\"\\u0001\""),
    ("varchar(20) collate utf8mb4_0900_ai_ci", "'größe 🦀'", "\"größe 🦀\""),
    ("varchar(20) character set utf8mb3", "'größe'", "\"größe\""),
    (
        "binary(16)",
        "uuid_to_bin('123e4567-e89b-12d3-a456-426614174000')",
        "\"\\\\x123e4567e89b12d3a456426614174000\"",
    ),
    ("geometrycollection", "null", "null"),
];

async fn values_of_all_types(on: Product) {
    let own = match on {
        Product::MariaDb => VALUES_OF_MARIADB,
        Product::MySql8 => VALUES_OF_MYSQL,
    };
    let all = [VALUES, own].concat();
    let columns: Vec<_> = all.iter().enumerate().map(|(n, (kind, ..))| format!("c{n} {kind}")).collect();
    let values: Vec<_> = all.iter().map(|(_, value, _)| *value).collect();
    let db = on.database(&format!(
        "set time_zone = '+00:00'; create table t ({}); insert into t values ({})",
        columns.join(", "),
        values.join(", ")
    ));
    let source = source(&db.url());
    let row = run(&source, "select * from t").await.unwrap();
    for (n, (kind, value, expected)) in all.iter().enumerate() {
        let one = run(&source, &format!("select c{n} as v from t")).await.unwrap();
        assert_eq!(one, format!("{{\"v\":{expected}}}\n"), "{kind}: {value}");
        assert!(row.contains(&format!("\"c{n}\":{expected}")), "{kind}: {value} in {row}");
    }
    let arrow = body(&source, "select 1", Format::Csv).await.unwrap();
    assert_eq!(arrow, "1\r\n1\r\n");
}

/// Compares each row with the database's own form of it.
async fn many_rows_are_what_the_database_says(on: Product) {
    let sql = "select seq as i, cast(seq * 1.5 as decimal(12,3)) as d, if(seq % 3, concat('ä', seq), null) as t from seq_1_to_5000";
    let db = on.database("select 1");
    let ours = run(&source(&db.url()), sql).await.unwrap();
    let theirs = "concat('{\"i\":', i, ',\"d\":', d, ',\"t\":', ifnull(json_quote(t), 'null'), '}')";
    let theirs = db.ask(&format!("select {theirs} from ({sql}) x"));
    assert_eq!(ours.lines().count(), 5000);
    for (ours, theirs) in ours.lines().zip(theirs.lines()) {
        assert_eq!(ours, theirs);
    }
}

/// Marsaglia's xorshift.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// A number of random length with at most this many digits.
    fn digits(&mut self, most: u64) -> String {
        (0..=self.below(most)).map(|_| char::from(b'0' + self.below(10) as u8)).collect()
    }

    fn text(&mut self) -> String {
        const ODD: [char; 12] =
            ['"', '\\', '\'', '/', '\n', '\r', '\t', '\u{1}', '\u{7f}', 'ß', '\u{2028}', '😀'];
        let length = self.below(20);
        (0..length)
            .map(|_| match self.below(3) {
                0 => ODD[self.below(12) as usize],
                1 => char::from(b' ' + self.below(95) as u8),
                _ => char::from_u32(self.below(0x1_0000) as u32 + 1).unwrap_or('x'),
            })
            .collect()
    }

    /// The values of a row, in SQL.
    fn row(&mut self) -> String {
        let hex = |text: &str| text.bytes().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"));
        let sign = ["", "-"][self.below(2) as usize];
        let float = loop {
            let float = f64::from_bits(self.next());
            if float.is_finite() {
                break float;
            }
        };
        let json = json!({"k": [self.below(100), null, self.text()]}).to_string();
        let values = [
            (self.next() as i64).to_string(),
            self.next().to_string(),
            format!("{sign}{}.{}", self.digits(35), self.digits(30)),
            format!("{float:e}"),
            format!("_utf8mb4 x'{}'", hex(&self.text())),
            format!("_utf8mb4 x'{}'", hex(&json)),
        ];
        let values = values.map(|value| if self.below(8) == 0 { "null".to_owned() } else { value });
        format!("({})", values.join(", "))
    }
}

/// The members of an object: the contents of strings, and the JSON text of everything else.
fn members(object: &str) -> Vec<(String, String)> {
    let object: std::collections::BTreeMap<String, Box<serde_json::value::RawValue>> =
        serde_json::from_str(object).unwrap_or_else(|error| panic!("{object}: {error}"));
    let said = |(name, raw): (String, Box<serde_json::value::RawValue>)| match &*name {
        "f" => (name, format!("{:?}", serde_json::from_str::<Option<f64>>(raw.get()).unwrap())),
        "s" => (name, format!("{:?}", serde_json::from_str::<Option<String>>(raw.get()).unwrap())),
        "j" => (name, serde_json::from_str::<serde_json::Value>(raw.get()).unwrap().to_string()),
        _ => (name, raw.get().to_owned()),
    };
    object.into_iter().map(said).collect()
}

/// Random rows equal the output of MariaDB's own `json_object`.
async fn random_rows_are_those_of_json_object(on: Product) {
    let seed = std::env::var("ROWSTREAM_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64);
    println!("ROWSTREAM_TEST_SEED={seed}");
    let mut random = Random(seed | 1);
    let db = on.database(
        "create table t (id integer primary key auto_increment, i bigint, u bigint unsigned, n decimal(65, 30), f double,
           s varchar(40), j json)",
    );
    for _ in 0..10 {
        let rows: Vec<_> = (0..40).map(|_| random.row()).collect();
        db.execute(&format!("insert into t (i, u, n, f, s, j) values {}", rows.join(", ")));
    }
    let ours = run(&source(&db.url()), "select i, u, n, f, s, j from t order by id").await.unwrap();
    let theirs =
        db.ask("select hex(json_object('i', i, 'u', u, 'n', n, 'f', f, 's', s, 'j', j)) from t order by id");
    assert_eq!(ours.lines().count(), 400);
    assert_eq!(theirs.lines().count(), 400);
    for (ours, theirs) in ours.lines().zip(theirs.lines()) {
        let bytes =
            (0..theirs.len()).step_by(2).map(|at| u8::from_str_radix(&theirs[at..at + 2], 16).unwrap());
        let theirs = String::from_utf8(bytes.collect()).unwrap();
        assert_eq!(members(ours), members(&theirs), "{ours}\n{theirs}");
    }
}

async fn zero_dates_are_an_error_or_null(on: Product) {
    let db = on.database(
        "set sql_mode = ''; create table t (id int, d date, at datetime, ts timestamp null); \
         insert into t values (1, '0000-00-00', '2024-01-01', null), (2, '2024-02-00', '0000-00-00', '0000-00-00')",
    );
    for sql in ["select d from t", "select at from t where id = 2", "select ts from t where id = 2"] {
        let error = run(&source(&db.url()), sql).await.unwrap_err();
        assert_eq!(error.code(), "bad_value", "{error:?}");
        assert!(error.hint_text().unwrap().contains("zero-dates=null"), "{error:?}");
    }
    let source = source(&format!("{}&zero-dates=null", db.url()));
    assert_eq!(
        run(&source, "select d, at, ts from t where id = 2").await.unwrap(),
        "{\"d\":null,\"at\":null,\"ts\":null}\n"
    );
}

/// A row of more than 16 MB is sent in several packets.
async fn long_rows_are_joined_and_too_long_ones_refused(on: Product) {
    let db = on.database("create table t (v longtext); insert into t values (repeat('x', 12000000))");
    let source = source_with(&db.url(), |source| source.max_row_bytes = 40 << 20);
    let sql = "select concat(a.v) as a, b.v as b, c.v as c from t a, t b, t c";
    let row = run(&source, sql).await.unwrap();
    assert_eq!(row.len(), 3 * 12_000_000 + r#"{"a":"","b":"","c":""}"#.len() + 1);
    let source = source_with(&db.url(), |source| source.max_row_bytes = 1 << 20);
    assert_eq!(run(&source, "select v from t").await.unwrap_err().code(), "row_too_large");
    assert_eq!(run(&source, "select 1 as v").await.unwrap(), "{\"v\":1}\n");
}

// --- Parameters ----------------------------------------------------------------------------------

async fn parameters_of_all_types(on: Product) {
    let db = on.database(
        "create table t (at timestamp(6) null, d date); \
        insert into t values ('2024-01-02 03:04:05.000007', '2024-02-29')",
    );
    let source = source(&db.url());
    let one = |kind: ParamType, value| (BindType::One(kind), value);
    let text = |text: &str| text.to_owned();
    for (sql, arg, expected) in [
        ("select ? + 0 as v", one(ParamType::Integer, ParamValue::Integer(i64::MIN)), "-9223372036854775808"),
        ("select ? as v", one(ParamType::Text, ParamValue::Text(text("it's \\ ä"))), r#""it's \\ ä""#),
        ("select ? + 0 as v", one(ParamType::Number, ParamValue::Number(text("1.50"))), "1.50"),
        ("select ? + 0 as v", one(ParamType::Number, ParamValue::Number(text("1e3"))), "1000"),
        (
            "select ? + 0 as v",
            one(ParamType::Number, ParamValue::Number(text("18446744073709551615"))),
            "18446744073709551615",
        ),
        ("select ? as v", one(ParamType::Boolean, ParamValue::Boolean(true)), "1"),
        (
            "select d as v from t where d = ?",
            one(ParamType::Date, ParamValue::Date(jiff::civil::date(2024, 2, 29))),
            "\"2024-02-29\"",
        ),
        (
            "select 1 as v from t where at = ?",
            one(ParamType::Timestamp, ParamValue::Timestamp("2024-01-02T03:04:05.000007".parse().unwrap())),
            "1",
        ),
        ("select ? as v", one(ParamType::Duration, ParamValue::Duration(text("PT1S"))), "\"0:00:01.000000\""),
        ("select ? is null as v", one(ParamType::Text, ParamValue::Null), "1"),
        (
            "select sum(i) as v from json_table(?, '$[*]' columns (i bigint path '$')) j",
            (
                BindType::List(ParamType::Integer),
                ParamValue::List(vec![ParamValue::Integer(2), ParamValue::Integer(3)]),
            ),
            "5",
        ),
    ] {
        // Twice, because the second time the statement is already prepared.
        for _ in 0..2 {
            let got = ask(&source, sql, std::slice::from_ref(&arg)).await;
            assert_eq!(got.unwrap(), format!("{{\"v\":{expected}}}\n"), "{sql} {arg:?}");
        }
    }
    let long = "x".repeat(3_000_000);
    let arg = one(ParamType::Text, ParamValue::Text(long));
    assert_eq!(ask(&source, "select length(?) as v", &[arg]).await.unwrap(), "{\"v\":3000000}\n");
}

async fn a_limit_that_is_not_given_is_none(on: Product) {
    let db = on.database("create table t (n int); insert into t values (1), (2), (3)");
    let source = source(&db.url());
    let sql = "select n from t order by n limit ? offset ?";
    let number = |value| (BindType::One(ParamType::Integer), value);
    for (limit, offset, expected) in [
        (ParamValue::Null, ParamValue::Null, 3),
        (ParamValue::Integer(2), ParamValue::Null, 2),
        (ParamValue::Null, ParamValue::Integer(1), 2),
        (ParamValue::Integer(0), ParamValue::Null, 0),
    ] {
        let rows = ask(&source, sql, &[number(limit.clone()), number(offset.clone())]).await.unwrap();
        assert_eq!(rows.lines().count(), expected, "{limit:?} {offset:?}");
    }
}

/// MySQL converts a text that it compares with a number. Parameters are bound with their declared
/// type, and never become part of the statement.
async fn what_is_bound_is_never_sql(on: Product) {
    let db = on.database("create table t (v text); insert into t values ('a'), ('b')");
    let config = format!("[source.db]\nurl = \"{}\"\n", db.url());
    let sql = "/* [params]\nv = \"text\"\nmaxRows = { type = \"integer\", optional = true } */\n\
        select v from t where v = :v or v = concat(:v, '') limit :maxRows";
    let server = Server::start(&[("rowstream.toml", &config), ("endpoints/t.sql", sql)]).await;
    for (query, rows) in [
        ("v=a", json!([{"v": "a"}])),
        ("v=a&maxRows=0", json!([])),
        ("v=%27%20or%201%3D1%20--%20", json!([])),
        ("v=%5C%27%20or%201%3D1%20%23", json!([])),
    ] {
        let reply = get(&server.url(&format!("/t?{query}"))).await;
        assert_eq!(reply.ended, Ended::Complete, "{query}");
        assert_eq!(reply.json(), rows, "{query}");
    }
}

// --- Statements ----------------------------------------------------------------------------------

async fn statements_of_one_body_read_one_snapshot(on: Product) {
    let db = on.database("create table t (n int); insert into t values (1)");
    let source = source(&db.url());
    let sql = "/* body = { a = \"$a\", b = \"$b\" } */\n-- name: a :many\nselect n from t, seq_1_to_100000;\n\
        -- name: b :value\nselect count(*) from t";
    let mut stream = RowStream::open(&endpoint(sql), &source, Format::Json, Vec::new()).await.unwrap();
    let mut out = next(&mut stream).await.unwrap().unwrap().to_vec();
    db.execute("insert into t values (2)");
    while let Some(chunk) = next(&mut stream).await.unwrap() {
        out.extend_from_slice(&chunk);
    }
    drop(stream);
    assert!(out.ends_with(br#"{"n":1}],"b":1}"#), "{}", String::from_utf8_lossy(&out[out.len() - 50..]));
    // The transaction ended with its response.
    assert_eq!(run(&source, "select count(*) as n from t").await.unwrap(), "{\"n\":2}\n");
}

const NESTED: &str = "
-- name: authors :many
select id, name from author order by id;
-- name: books :many nested in authors on author_id = id
select author_id, title from book order by author_id, title;
-- name: prizes :many nested in authors on won_by = id
select won_by, year from prize order by won_by, year
";

async fn nested_statements_are_interleaved(on: Product) {
    let db = on.database(
        "create table author (id int primary key, name text); create table book (author_id int, title varchar(99));
         create table prize (won_by int, year int);
         insert into author select seq, concat('a', seq) from seq_1_to_3000;
         insert into book select seq % 3000 + 1, concat('t', seq) from seq_1_to_9000;
         insert into prize select seq * 1000, 2000 + seq from seq_1_to_3",
    );
    for fetch_rows in [0, 7] {
        let source = source_with(&db.url(), |source| source.fetch_rows = fetch_rows);
        let body = body(&source, NESTED, Format::Json).await.unwrap();
        let authors: serde_json::Value = serde_json::from_str(&body).unwrap();
        let authors = authors.as_array().unwrap();
        assert_eq!(authors.len(), 3000);
        let books = |author: &serde_json::Value| author["books"].as_array().unwrap().len();
        assert!(authors.iter().all(|author| books(author) == 3));
        assert_eq!(authors[999]["prizes"], json!([{"won_by": 1000, "year": 2001}]));
        assert_eq!(authors[0]["prizes"], json!([]));
        // Its only connection is free again, without an open cursor.
        assert_eq!(run(&source, "select 1 as v").await.unwrap(), "{\"v\":1}\n");
    }
}

async fn a_session_only_reads(on: Product) {
    let db = on.database("create table t (n int)");
    let source = source(&db.url());
    for sql in ["insert into t values (1) returning n", "select n from t for update"] {
        match run(&source, sql).await {
            Ok(rows) => assert_eq!(rows, "", "{sql}"),
            Err(error) => assert_eq!(error.code(), "statement_failed", "{sql}: {error:?}"),
        }
    }
    assert_eq!(db.ask("select count(*) from t").trim(), "0");
    let error = run(&source, "do 1").await.unwrap_err();
    assert!(error.to_string().contains("no result"), "{error:?}");
}

/// The meaning of quotes matches our lexer, whatever the server's default.
async fn a_session_has_the_quotes_of_mysql(on: Product) {
    let db = on.database("select 1");
    let source = source(&db.url());
    let row = run(&source, r#"select "a\"b" as a, 'c\'d' as c, `e` from (select 1 as `e`) x -- '"#).await;
    assert_eq!(row.unwrap(), "{\"a\":\"a\\\"b\",\"c\":\"c'd\",\"e\":1}\n");
}

async fn a_migration_is_noticed(on: Product) {
    let db = on.database("create table t (a int); insert into t values (1)");
    let source = source(&db.url());
    assert_eq!(run(&source, "select * from t").await.unwrap(), "{\"a\":1}\n");
    db.execute("alter table t modify a varchar(9)");
    assert_eq!(run(&source, "select * from t").await.unwrap(), "{\"a\":\"1\"}\n");
    assert_eq!(run(&source, "select * from t").await.unwrap(), "{\"a\":\"1\"}\n");
    db.execute("alter table t add b int default 2");
    let error = run(&source, "select * from t").await.unwrap_err();
    assert_eq!(error.code(), "statement_changed", "{error:?}");
    assert_eq!(run(&source, "select * from t").await.unwrap(), "{\"a\":\"1\",\"b\":2}\n");
}

async fn statements_beyond_the_cache_are_closed(on: Product) {
    let db = on.database("select 1");
    let source = source_with(&db.url(), |source| source.statement_cache = 3);
    for n in 0..20 {
        assert_eq!(run(&source, &format!("select {n} as n")).await.unwrap(), format!("{{\"n\":{n}}}\n"));
    }
    let closed = run(&source, "show session status like 'Com_stmt_close'").await.unwrap();
    assert_eq!(closed, "{\"Variable_name\":\"Com_stmt_close\",\"Value\":\"18\"}\n");
}

// --- Errors --------------------------------------------------------------------------------------

async fn errors_have_their_status_and_state(on: Product) {
    let db = on.database("create table t (n int)");
    let source = source(&db.url());
    for (sql, code, sqlstate) in [
        ("select n from missing", "statement_failed", Some("42S02")),
        ("select missing from t", "statement_failed", Some("42S22")),
        ("select n form t", "statement_failed", Some("42000")),
        ("select from t", "statement_failed", Some("42000")),
        ("select (select seq from seq_1_to_2) as n", "statement_failed", Some("21000")),
    ] {
        let error = run(&source, sql).await.unwrap_err();
        assert_eq!((error.code(), error.sqlstate_text()), (code, sqlstate), "{sql}: {error:?}");
        assert!(!error.message().contains("missing"), "clients are not told: {error:?}");
    }
    let error = run(&source, "select 1,\n  2 + from t").await.unwrap_err();
    assert_eq!(error.position_offset(), Some("select 1,\n  2 + ".len()), "{error:?}");
    assert_eq!(run(&source, "select 1 as v").await.unwrap(), "{\"v\":1}\n");
}

async fn a_statement_that_takes_too_long_is_ended(on: Product) {
    let db = on.database("select 1");
    let source = source_with(&db.url(), |source| source.statement_timeout = Some(Duration::from_millis(100)));
    let error = run(&source, "select sleep(1000) + count(*) as v from seq_1_to_2");
    let error = wait("it's ended", error).await;
    // MariaDB ends the sleep, and reports either an interruption or a timeout.
    assert_eq!(error.unwrap_err().code(), "statement_timeout");
    assert_eq!(run(&source, "select 1 as v").await.unwrap(), "{\"v\":1}\n");
}

// --- Logins --------------------------------------------------------------------------------------

const NATIVE: &str = "pä ss/w@rd:%";

fn native(password: &str) -> String {
    format!("native_user:{}", utf8_percent_encode(password, NON_ALPHANUMERIC))
}

#[tokio::test]
async fn users_log_in_over_tcp_tls_and_sockets() {
    let db = MariaDb::new("select 1");
    let ca = mariadb_ca();
    let ca = utf8_percent_encode(ca.to_str().unwrap(), NON_ALPHANUMERIC).to_string();
    let socket = mariadb_socket();
    let socket = utf8_percent_encode(socket.to_str().unwrap(), NON_ALPHANUMERIC).to_string();
    let cipher = "select (select variable_value from information_schema.session_status \
        where variable_name = 'Ssl_cipher') <> '' as tls";
    for (url, tls) in [
        (db.url_of(&native(NATIVE), "ssl-mode=disabled"), 0),
        (db.url_of(&native(NATIVE), ""), 1),
        (db.url_of(&native(NATIVE), "ssl-mode=required"), 1),
        (db.url_of("tls_user:tls", &format!("ssl-mode=VERIFY_IDENTITY&ssl-ca={ca}")), 1),
        (db.url_of(&native(NATIVE), &format!("socket={socket}")), 0),
        (format!("mariadb://root@{socket}/{}", db.name()), 0),
    ] {
        assert_eq!(run(&source(&url), cipher).await.unwrap(), format!("{{\"tls\":{tls}}}\n"), "{url}");
    }
}

#[tokio::test]
async fn what_cannot_be_reached_says_why() {
    let db = MariaDb::new("select 1");
    db.execute(&format!("create user {}@'%' identified by 's3cret'", db.name()));
    let ca = utf8_percent_encode(mariadb_ca().to_str().unwrap(), NON_ALPHANUMERIC).to_string();
    let closed = free_port().port();
    let address = format!("{}?ssl-mode=VERIFY_IDENTITY&ssl-ca={ca}", db.url().split('?').next().unwrap());
    for (url, sqlstate, cause) in [
        (
            db.url_of(&native("wr0ng-pass"), ""),
            Some("28000"),
            "Access denied; correct the user and the password",
        ),
        (
            db.url_of("tls_user:tls", "ssl-mode=disabled"),
            Some("28000"),
            "Access denied; leave `ssl-mode=disabled` out",
        ),
        (
            db.url().replace(db.name(), "no_such_database"),
            Some("42000"),
            "no_such_database; correct the database in the source's `url`, or create it",
        ),
        (
            db.url_of(&format!("{}:s3cret", db.name()), ""),
            Some("42000"),
            "Access denied; `grant select` on it",
        ),
        (db.url_at(closed), None, "refused; no server listens there"),
        ("mysql://u@no-such-host.invalid/d".to_owned(), None, "no-such-host.invalid; the host isn't known"),
        (address, None, "certificate; and write the host as in the certificate"),
        (db.url_of(&native(NATIVE), "ssl-mode=verify_identity"), None, "certificate; `ssl-ca` of MySQL"),
        (db.url_of("ed25519_user:ed25519", ""), None, "client_ed25519; "),
        ("mysql://u@/d?socket=/no/such/socket".to_owned(), None, "/no/such/socket; the socket doesn't exist"),
    ] {
        let error = wait("a refusal", run(&source(&url), "select 1")).await.unwrap_err();
        assert_eq!(
            (error.code(), error.sqlstate_text()),
            ("source_unavailable", sqlstate),
            "{url}: {error:?}"
        );
        let (cause, remedy) = cause.split_once("; ").unwrap_or((cause, ""));
        assert!(format!("{error:?}").contains(cause), "{url}: {error:?}");
        assert!(format!("{error:?}").contains(remedy), "{url}: {error:?}");
        assert!(
            !format!("{error:?}").contains("s3cret") && !format!("{error:?}").contains("wr0ng"),
            "{error:?}"
        );
    }
    db.execute(&format!("drop user {}@'%'", db.name()));
    // For an unknown user, the server requests a proof as if it knew the user, with any plugin.
    let error = run(&source(&db.url_of("no_such_user:s3cret", "")), "select 1").await.unwrap_err();
    assert_eq!(error.code(), "source_unavailable", "{error:?}");
    assert!(!format!("{error:?}").contains("s3cret"), "{error:?}");
    let postgres = crate::support::pg_url();
    let port = postgres.split([':', '/']).nth(4).unwrap();
    let url = format!("mysql://u@127.0.0.1:{port}/d?connect-timeout=1");
    assert_eq!(run(&source(&url), "select 1").await.unwrap_err().code(), "source_unavailable");
}

// --- Cancelling ----------------------------------------------------------------------------------

async fn a_dropped_stream_ends_in_the_database_and_its_connection_lives_on(on: Product) {
    let db = on.database("select 1");
    let source = source(&db.url());
    let id = connection_id(&source).await;
    let stream = started(&source, ENDLESS).await;
    until(&db, &active(&db), "1").await;
    drop(stream);
    until(&db, &active(&db), "0").await;
    assert_eq!(connection_id(&source).await, id);
}

async fn a_dropped_wait_ends_in_the_database_and_its_connection_lives_on(on: Product) {
    let db = on.database("select 1");
    let source = source(&db.url());
    let id = connection_id(&source).await;
    let waiting = "select sleep(1000) as v";
    let mut waits = Box::pin(run(&source, waiting));
    let active_one = active(&db);
    tokio::select! {
        done = &mut waits => panic!("{done:?}"),
        () = until(&db, &active_one, "1") => {}
    }
    drop(waits);
    until(&db, &active(&db), "0").await;
    assert_eq!(connection_id(&source).await, id);
}

const TWO: &str = "/* body = [\"$a\", \"$b\"] */
-- name: a :many
select seq as n, repeat('x', 3000) as x from seq_1_to_40;
-- name: b :many
select seq as n from seq_1_to_7";

const TURNS: &str = "
-- name: authors :many
select seq as id from seq_1_to_40;
-- name: books :many nested in authors on author = id
select seq as author, repeat('x', 900) as x from seq_1_to_40
";

/// Drops a response after each number of polls, and uses the pool's only connection each time.
async fn dropped_at_every_poll(on: Product, sql: &str, warm: bool) {
    let db = on.database("select 1");
    let (proxy, url) = proxied(&db, PIECES).await;
    let shared = source_with(&url, |source| source.fetch_rows = 3);
    let login = db.url_of(&native(NATIVE), "ssl-mode=disabled");
    let login = login.replace(&format!(":{}/", on.port()), &format!(":{}/", proxy.port()));
    for polls in 0.. {
        let source = if warm { shared.clone() } else { source(&login) };
        let done = proxy.polled(body(&source, sql, Format::Json), polls).await;
        let marker = format!("select {polls} as v");
        let answer = wait(&format!("a connection after a drop at poll {polls}"), run(&source, &marker)).await;
        assert_eq!(answer.unwrap(), format!("{{\"v\":{polls}}}\n"), "after a drop at poll {polls}");
        if let Some(done) = done {
            done.unwrap();
            assert!(polls > 12, "{polls} polls are no test");
            return;
        }
        assert!(polls < 5000, "the stream does not end");
    }
}

async fn a_response_may_be_dropped_at_every_poll(on: Product) {
    dropped_at_every_poll(on, TWO, true).await;
}

async fn a_new_connection_may_be_dropped_at_every_poll(on: Product) {
    dropped_at_every_poll(on, TWO, false).await;
}

async fn interleaved_statements_may_be_dropped_at_every_poll(on: Product) {
    dropped_at_every_poll(on, TURNS, true).await;
}

// --- Procedures ----------------------------------------------------------------------------------

const PROCEDURES: &str = "delimiter //
create procedure numbers(below int) begin
  declare doubled int default 2 * below;
  if below < 0 then signal sqlstate '45000' set message_text = 'below nothing'; end if;
  select seq as n, cast(seq / 2 as decimal(9, 1)) as half, doubled from seq_1_to_100000 where seq < below;
end //
create procedure endless() select seq as n, repeat('x', 100) as x from seq_1_to_1000000000 //
create procedure waits() begin do sleep(1000); select 1; end //
create procedure none() begin declare x int; select 1 into x; end //
create procedure two() begin select 1 as a; select 2 as b; end //
create procedure several(below int) begin
  declare d varchar(9) default 'x';
  if below < 0 then signal sqlstate '45000' set message_text = 'below nothing'; end if;
  select count(*) as total from seq_1_to_100000 where seq < below;
  set d = 'y';
  select seq as n, repeat(d, 9) as t from seq_1_to_100000 where seq < below;
  select 'last' as w, null as e, below as n;
end //
create procedure half_fails(early boolean) begin
  select 1 as a;
  if early then signal sqlstate '45000' set message_text = 'in between'; end if;
  select seq as b from seq_1_to_30000;
  signal sqlstate '45000' set message_text = 'late';
end //
create procedure then_endless() begin select 1 as a; select seq as b from seq_1_to_1000000000; select 2 as c; end //
create procedure writes() begin insert into t values (1); select 1 as a; end //
create procedure fails() begin select seq as n from seq_1_to_3; signal sqlstate '45000' set message_text = 'late'; end //
delimiter ;
create table t (a integer)";

const CALL_NUMBERS: &str = "/* body = { rows = \"$rows\", total = \"$total\" } */
-- name: rows :many
call numbers(4);
-- name: total :value
select count(*) from t";

async fn procedures_answer_with_the_rows_of_their_result(on: Product) {
    let db = on.script(PROCEDURES);
    let source = source(&db.url());
    for round in 0..3 {
        let rows = run(&source, "-- the rows\ncall numbers(3)").await.unwrap();
        assert_eq!(
            rows, "{\"n\":1,\"half\":0.5,\"doubled\":6}\n{\"n\":2,\"half\":1.0,\"doubled\":6}\n",
            "{round}"
        );
        assert_eq!(run(&source, "CALL numbers(0)").await.unwrap(), "", "{round}");
        assert_eq!(
            body(&source, "call numbers(2)", Format::Csv).await.unwrap(),
            "n,half,doubled\r\n1,0.5,4\r\n"
        );
        let both = body(&source, CALL_NUMBERS, Format::Json).await.unwrap();
        let rows =
            r#"{"n":1,"half":0.5,"doubled":8},{"n":2,"half":1.0,"doubled":8},{"n":3,"half":1.5,"doubled":8}"#;
        assert_eq!(both, format!("{{\"rows\":[{rows}],\"total\":0}}"));
    }
    let all = run(&source, "call numbers(100001)").await.unwrap();
    assert_eq!(all.lines().count(), 100_000);
    for (sql, code, says) in [
        ("call numbers(-1)", "invalid_data", "below nothing"),
        ("call none()", "endpoint", "no result"),
        ("call two()", "endpoint", "more than one result"),
        (SEVERAL_IN_DISORDER, "endpoint", "`total` must precede `items`"),
        (SEVERAL_AROUND, "endpoint", "`items` must be first in the body, before `plain`"),
        (ONE_OF_TWO, "endpoint", "statement `b` is a `:value`, so it must have one column"),
        ("call writes()", "statement_failed", ""),
        ("call fails()", "invalid_data", "late"),
        ("call nothing()", "statement_failed", ""),
        ("do 1", "endpoint", "no result"),
        (
            "/* body = [\"$a\", \"$b\"] */\n-- name: a :value\nselect 1;\n-- name: b :many\ncall numbers(3)",
            "endpoint",
            "first",
        ),
        (
            "/* body = [\"$a\", \"$b\"] */\n-- name: a :many\ncall numbers(3);\n-- name: b :many\ncall numbers(3)",
            "endpoint",
            "first",
        ),
    ] {
        let error = body(&source, sql, Format::Json).await.unwrap_err();
        assert_eq!(error.code(), code, "{sql}: {error:?}");
        assert!(error.to_string().contains(says), "{sql}: {error:?}");
        let after = wait("the connection lives on", run(&source, "select 1 as v")).await;
        assert_eq!(after.unwrap(), "{\"v\":1}\n", "{sql}");
    }
}

const SEVERAL: &str = "/* body = { total = \"$total\", items = \"$items\", count = \"$count(items)\", last = \"$last\", plain = \"$plain\" }
[params]
n = \"integer\" */
-- name: opened :refcursors
call several(:n);
-- name: total :value from opened
-- name: items :many from opened
-- name: last :one from opened
-- name: plain :value
select :n + 1 as v";

const SEVERAL_IN_DISORDER: &str = "/* body = { items = \"$items\", total = \"$total\" } */
-- name: opened :refcursors
call two();
-- name: total :value from opened
-- name: items :many from opened";

const SEVERAL_AROUND: &str = "/* body = { total = \"$total\", plain = \"$plain\", items = \"$items\" } */
-- name: opened :refcursors
call two();
-- name: total :value from opened
-- name: items :many from opened
-- name: plain :value
select 1";

const ONE_OF_TWO: &str = "/* body = { a = \"$a\", b = \"$b\" } */
-- name: opened :refcursors
call several(3);
-- name: a :value from opened
-- name: b :value from opened";

const HALF: &str = "/* body = { a = \"$a\", b = \"$b\" }
[params]
early = \"boolean\" */
-- name: opened :refcursors
call half_fails(:early);
-- name: a :one from opened
-- name: b :many from opened";

const FEWER: &str = "/* body = { a = \"$a\", b = \"$b\", c = \"$c\" } */
-- name: opened :refcursors
call two();
-- name: a :value from opened
-- name: b :value from opened
-- name: c :value from opened";

/// A server of endpoints with one connection. One endpoint is `well`. Nothing is checked at the
/// start.
async fn unchecked(db: &MySqlDb, endpoints: &[(&str, &str)]) -> Server {
    let config = format!(
        "write_timeout = \"1h\"\n[source.db]\nurl = \"{}\"\npool = {{ max = 1, acquire_timeout = \"10s\" }}\n",
        db.url()
    );
    let named: Vec<_> = endpoints.iter().map(|(name, sql)| (format!("endpoints/{name}.sql"), *sql)).collect();
    let mut files = vec![("rowstream.toml", config.as_str()), ("endpoints/well.sql", "select 1 as v")];
    files.extend(named.iter().map(|(name, sql)| (name.as_str(), *sql)));
    Launch::files(&files).argument("--no-check").start().await
}

/// Each result has its place in the body. A format without a place for one skips it.
async fn results_of_a_procedure_have_their_places(on: Product) {
    let db = on.script(PROCEDURES);
    let server = unchecked(&db, &[("several", SEVERAL)]).await;
    for n in [3, 1, 20_000, 2] {
        let items: Vec<_> = (1..n).map(|i| json!({"n": i, "t": "yyyyyyyyy"})).collect();
        let count = n - 1;
        let expected = json!({
            "total": count, "items": items, "count": count, "last": {"w": "last", "e": null, "n": n}, "plain": n + 1,
        });
        for _ in 0..2 {
            let reply = get(&server.url(&format!("/several?n={n}"))).await;
            assert_eq!((reply.status.as_u16(), &reply.ended), (200, &Ended::Complete), "{}", reply.text());
            assert!(reply.json() == expected, "{n}: {}", reply.text());
        }
        let lines = get(&server.url(&format!("/several.ndjson?n={n}"))).await;
        assert_eq!((lines.text().lines().count(), &lines.ended), (count, &Ended::Complete));
        let csv = get(&server.url(&format!("/several.csv?n={n}"))).await;
        assert_eq!((csv.text().lines().count(), csv.text().lines().next()), (n, Some("n,t")));
        let arrow = get(&server.url(&format!("/several.arrow?n={n}"))).await;
        assert_eq!((arrow.status.as_u16(), &arrow.ended), (200, &Ended::Complete));
    }
    let refused = get(&server.url("/several?n=-1")).await;
    assert_eq!((refused.status.as_u16(), refused.json()["detail"].as_str()), (400, Some("below nothing")));
}

/// A result that fails before anything is sent has a status. After that, it truncates the body. The
/// connection stays usable.
async fn results_that_fail_are_never_a_whole_body(on: Product) {
    let db = on.script(PROCEDURES);
    let unread = HALF.replace("a :one", "a :many").replace("b :many", "b :one");
    let endpoints =
        [("half", HALF), ("unread", &unread), ("fewer", FEWER), ("disorder", SEVERAL_IN_DISORDER)];
    let server = unchecked(&db, &endpoints).await;
    for _ in 0..3 {
        for (path, detail) in [
            ("/half?early=true", Some("in between")),
            ("/half.ndjson?early=true", Some("in between")),
            ("/half?early=false", None),
            ("/half.ndjson?early=false", None),
            ("/fewer", Some("the procedure has 2 results, but 3 are read")),
            ("/disorder", Some("`total` must precede `items`")),
        ] {
            let reply = get(&server.url(path)).await;
            let is_cut = reply.status == 200 && matches!(reply.ended, Ended::Broken(_));
            let is_as_wanted = match detail {
                Some(detail) => reply.status.as_u16() >= 400 && reply.text().contains(detail),
                None => is_cut,
            };
            assert!(is_as_wanted, "{path}: {reply:?}");
            assert_eq!(get(&server.url("/well")).await.text(), r#"[{"v":1}]"#, "{path}");
        }
        // The failure isn't in a row of this response, and happens after its only row.
        let reply = get(&server.url("/unread.ndjson?early=false")).await;
        assert!(reply.status == 400 || matches!(reply.ended, Ended::Broken(_)), "{reply:?}");
    }
}

/// A client that disconnects in the middle of a result ends the procedure.
async fn a_procedure_ends_with_the_reader_of_its_second_result(on: Product) {
    let db = on.script(PROCEDURES);
    let sql = HALF.replace("half_fails(:early)", "then_endless()").replace("early = \"boolean\"", "");
    let sql = sql.replace("[params]\n", "") + "\n-- name: c :value from opened";
    let sql = sql.replace("b = \"$b\"", "b = \"$b\", c = \"$c\"");
    let server = unchecked(&db, &[("endless", &sql)]).await;
    for _ in 0..3 {
        let mut stream = Client::HTTP1.stream(&server.url("/endless")).await;
        stream.at_least(100_000).await;
        drop(stream);
        assert_eq!(get(&server.url("/well")).await.text(), r#"[{"v":1}]"#);
        until(&db, &active(&db), "0").await;
    }
}

/// `check` refuses a body that can't be sent in the order of the results.
async fn check_says_where_results_must_stand(on: Product) {
    let db = on.script(PROCEDURES);
    let folder = tempfile::tempdir().unwrap();
    let config = format!("[source.db]\nurl = \"{}\"\n", db.url());
    std::fs::create_dir(folder.path().join("endpoints")).unwrap();
    std::fs::write(folder.path().join("rowstream.toml"), config).unwrap();
    let toml = folder.path().join("rowstream.toml");
    let product = if on == Product::MariaDb { ": MariaDB 10." } else { ": MySQL 8.0." };
    for (sql, is_well, says) in [
        (SEVERAL, true, product),
        (SEVERAL, true, "items :many -> a result of opened, whose columns are known once it has been called"),
        (CALL_NUMBERS, true, "rows :many -> a result, whose columns"),
        (SEVERAL_IN_DISORDER, false, "place `$total` before `$items`"),
        (SEVERAL_AROUND, false, "`items` must be first in the body, before `plain`"),
        ("-- name: opened :refcursors\ncall two();\n", false, "no statement reads the results of `opened`"),
        (
            "-- name: opened :refcursors\nselect 1;\n-- name: a :many from opened",
            false,
            "`opened` doesn't call a procedure",
        ),
    ] {
        std::fs::write(folder.path().join("endpoints/t.sql"), sql).unwrap();
        let output = crate::support::rowstream(&["check", toml.to_str().unwrap()]).await;
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        assert!(output.status.success() == is_well && said.contains(says), "{sql}: {said}");
    }
}

/// Parameters, a real status before the first row, and a truncated body after it.
async fn procedures_are_endpoints(on: Product) {
    let db = on.script(PROCEDURES);
    let config = format!("[source.db]\nurl = \"{}\"\npool.max = 1\n", db.url());
    let call = "/*\n[params]\nn = \"integer\"\n*/\ncall numbers(:n)";
    let server = Server::start(&[
        ("rowstream.toml", &config),
        ("endpoints/t.sql", call),
        ("endpoints/two.sql", "call two()"),
    ])
    .await;
    let reply = get(&server.url("/t?n=2")).await;
    assert_eq!(reply.json(), json!([{"n": 1, "half": 0.5, "doubled": 4}]));
    let reply = get(&server.url("/t?n=-1")).await;
    assert_eq!((reply.status.as_u16(), reply.json()["detail"].as_str()), (400, Some("below nothing")));
    let reply = get(&server.url("/two.ndjson")).await;
    assert!(reply.status == 500 || reply.ended != Ended::Complete, "{reply:?}");
    let reply = get(&server.url("/t?n=2")).await;
    assert_eq!(reply.json()[0]["n"], 1);
}

async fn a_procedure_that_nobody_reads_ends_in_the_database(on: Product) {
    let db = on.script(PROCEDURES);
    let source = source(&db.url());
    let stream = started(&source, "call endless()").await;
    until(&db, &active(&db), "1").await;
    drop(stream);
    until(&db, &active(&db), "0").await;
    let mut waits = Box::pin(run(&source, "call waits()"));
    let active_one = active(&db);
    tokio::select! {
        done = &mut waits => panic!("{done:?}"),
        () = until(&db, &active_one, "1") => {}
    }
    drop(waits);
    until(&db, &active(&db), "0").await;
}

async fn a_procedure_may_be_dropped_at_every_poll(on: Product) {
    dropped_procedure(on, CALL_NUMBERS).await;
}

async fn a_procedure_of_several_results_may_be_dropped_at_every_poll(on: Product) {
    dropped_procedure(on, &SEVERAL.replace("[params]\nn = \"integer\"", "").replace(":n", "300")).await;
}

async fn dropped_procedure(on: Product, sql: &str) {
    let db = on.script(PROCEDURES);
    let (proxy, url) = proxied(&db, PIECES).await;
    let shared = source(&url);
    for polls in 0.. {
        let done = proxy.polled(body(&shared, sql, Format::Json), polls).await;
        let answer = wait("a connection", run(&shared, "select 1 as v")).await;
        assert_eq!(answer.unwrap(), "{\"v\":1}\n", "after a drop at poll {polls}");
        if let Some(done) = done {
            done.unwrap();
            return;
        }
    }
}

// --- Bytes ---------------------------------------------------------------------------------------

/// A connection is opened for each byte of the response, so it's short.
const SHORT: &str = "/* body = [\"$a\", \"$b\"] */
-- name: a :many
select seq as n, nullif('x', 'x') as t from seq_1_to_2;
-- name: b :value
select 1";

async fn a_result_in_fragments_of_any_size_is_the_same(on: Product) {
    let db = Arc::new(on.database("select 1"));
    let whole = body(&source(&db.url()), SHORT, Format::Json).await.unwrap();
    let mut all = JoinSet::new();
    for bytes in (1..=16).chain([63, 64, 1000]) {
        let (db, whole) = (Arc::clone(&db), whole.clone());
        all.spawn(async move {
            let pieces = Some(Pieces { bytes, pause: Duration::ZERO });
            let (_proxy, url) = proxied(&db, Faults { pieces, ..Faults::default() }).await;
            let got = body(&source(&url), SHORT, Format::Json).await.unwrap();
            assert_eq!(got, whole, "in pieces of {bytes} bytes");
        });
    }
    while let Some(done) = all.join_next().await {
        done.unwrap();
    }
}

/// Wherever the server's response is cut, the stream ends with an error.
async fn a_connection_that_is_cut_anywhere_is_an_error(on: Product) {
    let db = Arc::new(on.database("select 1"));
    let (proxy, url) = proxied(&db, Faults::default()).await;
    let whole = body(&source(&url), SHORT, Format::Json).await.unwrap();
    assert_eq!(whole, r#"[[{"n":1,"t":null},{"n":2,"t":null}],1]"#);
    // The last response is the rollback's, which isn't awaited.
    let rollback = 11;
    let bytes = proxy.bytes_to_client() - rollback;
    let mut all = JoinSet::new();
    for at in 0..bytes {
        let db = Arc::clone(&db);
        if all.len() >= 16 {
            all.join_next().await.unwrap().unwrap();
        }
        all.spawn(async move {
            let how = if at % 2 == 0 { Cut::Close } else { Cut::Reset };
            let (_proxy, url) = proxied(&db, Faults { cut: Some((at, how)), ..Faults::default() }).await;
            match wait("its end", body(&source(&url), SHORT, Format::Json)).await {
                Err(error) => assert_eq!(error.code(), "source_unavailable", "cut at {at}: {error:?}"),
                Ok(body) => panic!("cut at {at} of {bytes}, and still {body}"),
            }
        });
    }
    while let Some(done) = all.join_next().await {
        done.unwrap();
    }
}

async fn an_idle_connection_that_was_ended_is_replaced(on: Product) {
    let db = on.database("select 1");
    let source = source(&db.url());
    let id = connection_id(&source).await;
    let number: u64 = id.trim_matches(|c: char| !c.is_ascii_digit()).parse().unwrap();
    db.execute(&format!("kill {number}"));
    until(&db, &format!("select count(*) from information_schema.processlist where id = {number}"), "0")
        .await;
    // The process list shows the connection after its socket is closed. This gives the runtime time
    // to notice that.
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_ne!(connection_id(&source).await, id);
}

// --- The server ----------------------------------------------------------------------------------

/// For keys of each type in a cursor, no row is repeated or omitted.
async fn rows_are_continued_from_behind_a_cursor(on: Product) {
    for kind in
        ["datetime(3)", "timestamp(6) null", "float", "double", "decimal(30,10)", "time(6)", "varchar(40)"]
    {
        continued(on, kind).await;
    }
}

async fn continued(on: Product, kind: &str) {
    let at = match kind {
        "float" | "double" | "decimal(30,10)" => "(seq div 10) / 7 + 12345",
        "time(6)" => "sec_to_time((seq div 10) / 7)",
        _ => "'2024-01-01' + interval (seq div 10) / 7 second",
    };
    let db = on.database(&format!(
        "set time_zone = '+00:00'; create table event (at {kind}, id bigint unsigned, name varchar(20), unique key (at, id));
         insert into event select {at}, seq + 18446744073709550000, concat('e', seq) from seq_1_to_1000",
    ));
    let config = format!("[source.db]\nurl = \"{}\"\n", db.url());
    let sql = "/* key = [\"at desc\", \"id\"]\nbody = { rows = \"$rows\", next = \"$next\" }\n\
        [params]\nn = { type = \"integer\", default = 77 } */\nselect * from event limit :n";
    let server = Server::start(&[("rowstream.toml", &config), ("endpoints/events.sql", sql)]).await;
    let (mut seen, mut after) = (Vec::new(), String::new());
    for page in 0.. {
        let reply = get(&server.url(&format!("/events{after}"))).await;
        assert_eq!(reply.ended, Ended::Complete);
        let json = reply.json();
        let rows = json["rows"].as_array().unwrap_or_else(|| panic!("{json}")).clone();
        seen.extend(rows.iter().map(|row| row["id"].as_u64().unwrap()));
        match json["next"].as_str() {
            Some(next) if !rows.is_empty() => after = format!("?_after={next}"),
            _ => break,
        }
        assert!(page < 20, "the pages do not end");
    }
    let expected = db.ask("select id from event order by at desc, id");
    let expected: Vec<u64> = expected.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(seen, expected, "{kind}");
}

async fn a_million_rows_take_little_memory(on: Product) {
    let db = on.database("select 1");
    let config = format!("[source.db]\nurl = \"{}\"\n", db.url());
    let sql = "select seq as id, concat('payment ', seq) as name, if(seq % 2, null, 'x') as note, \
        cast(seq / 8 as decimal(20,3)) as amount from seq_1_to_1000000";
    let files = [("rowstream.toml", config.as_str()), ("endpoints/t.sql", sql)];
    let server = Launch::files(&files).start().await;
    let mut streaming = Client::HTTP1.stream(&server.url("/t?_format=ndjson")).await;
    let (mut lines, mut bytes) = (0, 0);
    let ended = loop {
        match streaming.chunk().await {
            Ok(chunk) => {
                lines += chunk.iter().filter(|byte| **byte == b'\n').count();
                bytes += chunk.len();
            }
            Err(ended) => break ended,
        }
    };
    assert_eq!((lines, ended), (1_000_000, Ended::Complete));
    let peak = peak_memory_bytes(server.pid());
    assert!(bytes > 60_000_000 && peak < 80_000_000, "{peak} bytes of memory for {bytes}");
}

/// A test that panicked in a transaction blocked the whole run. Dropping its database waited for
/// the transaction, which never ended.
async fn a_test_that_panics_in_a_transaction_ends(on: Product) {
    let db = on.database("create table t (n int); insert into t values (7)");
    let source = source(&db.url());
    let mut session = source.acquire(Snapshot::Transaction, Priority::Stream).await.unwrap();
    let statement = Statement { sql: Arc::from("select n from t"), types: Vec::new(), ad_hoc: false };
    let columns = session.prepare(&statement).await.unwrap();
    session.execute(0, &[]);
    assert_eq!(rows(&mut session, &columns).await.unwrap(), "{\"n\":7}\n");
    let test = std::thread::spawn(move || {
        let _db = db;
        std::panic::resume_unwind(Box::new("as a test does"));
    });
    wait_until("its database is dropped", async || test.is_finished()).await;
    assert!(test.join().is_err());
    drop(session);
}

/// `check` prints the server's version, and its role if the user may see it.
async fn check_says_what_the_server_is(on: Product) {
    let db = on.database("select 1");
    let user = db.name();
    db.execute(&format!(
        "create user {user}@'%' identified by 's3cret'; grant select on {user}.* to {user}@'%'"
    ));
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("endpoints")).unwrap();
    std::fs::write(folder.path().join("endpoints/one.sql"), "select 1 as one").unwrap();
    let (product, privilege) = match on {
        Product::MariaDb => (": MariaDB 10.", "`grant slave monitor` lets this user see"),
        Product::MySql8 => (": MySQL 8.0.", "`grant replication client` lets this user see"),
    };
    // Its first login needs a secure connection with MySQL 8.
    let socket = utf8_percent_encode(on.socket().to_str().unwrap(), NON_ALPHANUMERIC).to_string();
    for (url, role) in [
        (db.url(), ", primary"),
        (db.url_of(&format!("{user}:s3cret"), &format!("socket={socket}")), privilege),
    ] {
        let toml = format!("[source.db]\nurl = \"{url}\"\n");
        std::fs::write(folder.path().join("rowstream.toml"), toml).unwrap();
        let output = crate::support::rowstream(&["check", folder.path().to_str().unwrap()]).await;
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{said}");
        let line = said.lines().find(|line| line.contains(product)).unwrap_or_else(|| panic!("{said}"));
        assert!(line.ends_with(role), "{said}");
    }
    db.execute(&format!("drop user {user}@'%'"));
}

/// `check` reports the database's errors for each endpoint.
async fn check_names_what_the_database_refuses(on: Product) {
    let db = on.database("create table t (n int primary key)");
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("endpoints")).unwrap();
    let toml = folder.path().join("rowstream.toml");
    std::fs::write(&toml, format!("[source.db]\nurl = \"{}\"\n", db.url())).unwrap();
    std::fs::write(folder.path().join("endpoints/well.sql"), "/* key = \"n\" */ select n from t").unwrap();
    std::fs::write(folder.path().join("endpoints/wrong.sql"), "select n from missing").unwrap();
    let output = crate::support::rowstream(&["check", toml.to_str().unwrap()]).await;
    let said =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(!output.status.success(), "{said}");
    assert!(said.contains("42S02") && said.contains("missing"), "{said}");
    std::fs::write(
        folder.path().join("endpoints/wrong.sql"),
        "/* follow = true\nkey = \"n\" */ select n from t",
    )
    .unwrap();
    let output = crate::support::rowstream(&["check", toml.to_str().unwrap()]).await;
    let said =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("commit in any order"), "{said}");
}

with_both! {
    values_of_all_types
    many_rows_are_what_the_database_says
    random_rows_are_those_of_json_object
    zero_dates_are_an_error_or_null
    long_rows_are_joined_and_too_long_ones_refused
    parameters_of_all_types
    a_limit_that_is_not_given_is_none
    what_is_bound_is_never_sql
    statements_of_one_body_read_one_snapshot
    nested_statements_are_interleaved
    a_session_only_reads
    a_session_has_the_quotes_of_mysql
    a_migration_is_noticed
    statements_beyond_the_cache_are_closed
    errors_have_their_status_and_state
    a_statement_that_takes_too_long_is_ended
    a_dropped_stream_ends_in_the_database_and_its_connection_lives_on
    a_dropped_wait_ends_in_the_database_and_its_connection_lives_on
    a_response_may_be_dropped_at_every_poll
    a_new_connection_may_be_dropped_at_every_poll
    interleaved_statements_may_be_dropped_at_every_poll
    procedures_answer_with_the_rows_of_their_result
    results_of_a_procedure_have_their_places
    results_that_fail_are_never_a_whole_body
    a_procedure_ends_with_the_reader_of_its_second_result
    check_says_where_results_must_stand
    procedures_are_endpoints
    a_procedure_that_nobody_reads_ends_in_the_database
    a_procedure_may_be_dropped_at_every_poll
    a_procedure_of_several_results_may_be_dropped_at_every_poll
    a_result_in_fragments_of_any_size_is_the_same
    a_connection_that_is_cut_anywhere_is_an_error
    an_idle_connection_that_was_ended_is_replaced
    rows_are_continued_from_behind_a_cursor
    a_million_rows_take_little_memory
    a_test_that_panics_in_a_transaction_ends
    check_says_what_the_server_is
    check_names_what_the_database_refuses
}
