//! ODBC in driver processes, with Debian's drivers for PostgreSQL, MariaDB and SQLite.

#![expect(clippy::unwrap_used, reason = "the helpers of tests are tests, too")]

use std::fs;
use std::process::{Command, Output};
use std::time::Duration;

use crate::drivers::{assert_runs_once, batches};
use crate::support::arrow::columns;
use crate::support::{
    Client, Ended, Launch, MariaDb, MariaReplica, Reply, Server, TestDb, drivers, get, mariadb_port,
    peak_memory_bytes, pg_port, program, wait, wait_until,
};
use arrow_array::RecordBatch;
use futures_util::future::join_all;
use serde_json::{Value, json};

/// The database `name` of the private PostgreSQL.
fn postgres(name: &str) -> String {
    drivers::odbc_postgres(name, pg_port())
}

/// The database `name` of the private MariaDB.
fn mariadb(name: &str) -> String {
    drivers::odbc_mariadb(name, mariadb_port())
}

fn query(arguments: &[&str]) -> Output {
    Command::new(program()).arg("query").args(arguments).output().unwrap()
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
    String::from_utf8(output.stderr).unwrap()
}

/// A server with one source, and an endpoint for each statement.
async fn serve(url: &str, settings: &str, endpoints: &[(&str, &str)]) -> Server {
    let config = format!("[source.main]\nurl = {url:?}\n{settings}\n");
    let names: Vec<_> = endpoints.iter().map(|(name, _)| format!("endpoints/{name}.sql")).collect();
    let mut files = vec![("rowstream.toml", &*config)];
    files.extend(names.iter().map(String::as_str).zip(endpoints.iter().map(|(_, sql)| *sql)));
    Launch::files(&files).start().await
}

/// The driver processes of a server.
fn workers(server: &Server) -> Vec<u32> {
    let output =
        Command::new("ps").args(["-o", "pid=", "--ppid", &server.pid().to_string()]).output().unwrap();
    String::from_utf8_lossy(&output.stdout).split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

fn signal(pid: u32, name: &str) {
    Command::new("kill").args(["-s", name, &pid.to_string()]).output().unwrap();
}

/// Compares each expression with its JSON value. `{}` in `select` is replaced by the expression.
fn each_is(url: &str, select: &str, expected: &[(&str, Value)]) {
    for (sql, expected) in expected {
        let row = rows(&[url, &select.replace("{}", sql)]);
        let row: Value = row.parse().unwrap_or_else(|error| panic!("{sql}: {row}: {error}"));
        assert_eq!(row["value"], *expected, "{sql}");
    }
}

#[test]
fn values_of_postgresql() {
    let url = postgres("postgres");
    each_is(
        &url,
        "select {} as value",
        &[
            ("null::integer", json!(null)),
            ("true", json!(true)),
            ("32767::smallint", json!(32767)),
            ("(-2147483648)::integer", json!(-2_147_483_648_i64)),
            ("9223372036854775807::bigint", json!(i64::MAX)),
            ("1.5::real", json!(1.5)),
            ("0.1::float8", json!(0.1)),
            ("'nan'::float8", json!("NaN")),
            ("'NaN'::numeric", json!("NaN")),
            ("'é\"𝄞'", json!("é\"𝄞")),
            ("''", json!("")),
            ("'c'::char(3)", json!("c  ")),
            ("date '2024-02-29'", json!("2024-02-29")),
            ("time '10:11:12.5'", json!("10:11:12.5")),
            ("timestamp '2024-01-01 10:00:00.123456'", json!("2024-01-01T10:00:00.123456")),
            ("'\\x00ff'::bytea", json!("\\x00ff")),
            ("'\\x'::bytea", json!("\\x")),
            ("'6f1e3c8a-0000-4000-8000-000000000001'::uuid", json!("6f1e3c8a-0000-4000-8000-000000000001")),
            ("interval '1 day'", json!("1 day")),
            ("repeat('ä', 100000)", json!("ä".repeat(100_000))),
        ],
    );
    for number in ["12.50", "-0.0000000001", "123456789012345678901234567890.123456789"] {
        let row = rows(&[&url, &format!("select {number}::numeric as value")]);
        assert_eq!(row, format!("{{\"value\":{number}}}\n"));
    }
}

/// Rows arrive in arrays. Those of a `float` were wrong from the second row on, and the driver
/// crashed at the hundredth.
#[test]
fn rows_of_mariadb_are_those_of_its_own_protocol() {
    let db = MariaDb::new(
        "create table t (id int primary key, f float, d double, s smallint, b bigint, u bigint unsigned, n decimal(9, 2), day date, \
         c char(9), v varchar(90), t tinyint, m mediumint, y year);
         insert into t select seq, seq + 0.5, seq / 7, seq, seq * 4000000000, 18446744073709551615 - seq, seq / 4, \
         date '2024-01-01' + interval seq day, concat('c', seq), repeat('é', seq % 90), seq % 100, seq * 1000, 1980 + seq % 100 from seq_1_to_350;
         update t set f = null, d = null, n = null, v = null where id % 13 = 0; update t set f = 1.1 where id % 17 = 0",
    );
    for sql in [
        "select * from t order by id",
        "select f, id from t order by id",
        "select max(f) as f, avg(d) as d from t",
    ] {
        assert_eq!(rows(&[&mariadb(db.name()), sql]), rows(&[&db.url(), sql]), "{sql}");
    }
}

/// A server's `sql_select_limit` truncated each result, which looked complete: MariaDB's own
/// protocol was safe from it, but not its driver.
#[test]
fn settings_of_a_mariadb_server_change_no_rows() {
    let servers = MariaReplica::start();
    servers.ask(
        0,
        "set global sql_select_limit = 2; set global group_concat_max_len = 10; set global time_zone = '+05:00';
         set global completion_type = 1; set global max_recursive_iterations = 3; set global max_sort_length = 64",
    );
    let url = drivers::odbc_mariadb("mysql", servers.port(0));
    assert_eq!(rows(&[&url, "select seq as n from seq_1_to_100"]).lines().count(), 100);
    each_is(
        &url,
        "select {} as value",
        &[
            ("(select length(group_concat(seq)) from seq_1_to_4000)", json!(18_892)),
            ("(select length(json_arrayagg(seq)) from seq_1_to_4000)", json!(18_894)),
            ("from_unixtime(0)", json!("1970-01-01T00:00:00")),
            (
                "(with recursive r as (select 1 as n union all select n + 1 from r where n < 5000) select max(n) from r)",
                json!(5000),
            ),
        ],
    );
}

/// The driver uses libpq, which gets the zone from a variable.
#[tokio::test]
async fn instants_of_postgresql_are_in_utc_whatever_its_database_says() {
    let db = TestDb::new().await;
    db.execute(&format!("alter database {} set timezone = 'Asia/Kolkata'", db.name())).await;
    let url = postgres(db.name());
    let sql =
        "select timestamptz '2024-01-01 23:30Z' as value, (timestamptz '2024-01-01 23:30Z')::date as day";
    let row: Value = rows(&[&url, sql]).parse().unwrap();
    assert_eq!(row, json!({ "value": "2024-01-01T23:30:00", "day": "2024-01-01" }));
}

#[test]
fn values_of_mariadb() {
    each_is(
        &mariadb("mysql"),
        "select {} as value",
        &[
            ("null", json!(null)),
            ("-1", json!(-1)),
            ("cast(18446744073709551615 as unsigned)", json!(u64::MAX)),
            ("1.5e0", json!(1.5)),
            ("cast(12.5 as decimal(10, 1))", json!(12.5)),
            ("'é\"𝄞'", json!("é\"𝄞")),
            ("''", json!("")),
            ("date '2024-02-29'", json!("2024-02-29")),
            ("time '10:11:12.5'", json!("10:11:12.5")),
            ("timestamp '2024-01-01 10:00:00.123456'", json!("2024-01-01T10:00:00.123456")),
            ("x'00ff'", json!("\\x00ff")),
            ("repeat('ä', 100000)", json!("ä".repeat(100_000))),
        ],
    );
}

/// SQLite doesn't enforce the length of a column, so a longer value arrives complete.
#[test]
fn values_of_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("shop.db");
    rusqlite::Connection::open(&file)
        .unwrap()
        .execute_batch(
            "create table t(id integer, name varchar(3), price double, b blob, day date, at timestamp);
             insert into t values (1, 'é𝄞 is longer', 0.5, x'00ff', '2024-02-29', '2024-02-29 10:11:12.5');
             insert into t(id) values (2);",
        )
        .unwrap();
    let written =
        rows(&[&drivers::odbc_sqlite(&file), "select * from t where id <= :id order by id", "-p", "id=9"]);
    let first = json!({
        "id": 1, "name": "é𝄞 is longer", "price": 0.5, "b": "\\x00ff", "day": "2024-02-29", "at": "2024-02-29T10:11:12.5",
    });
    let lines: Vec<Value> = written.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(lines[0], first);
    assert_eq!(lines[1], json!({"id": 2, "name": null, "price": null, "b": null, "day": null, "at": null}));
}

/// Each column: its SQL, its type in Arrow, and its value as `arrow.rs` shows it.
type Columns = &'static [(&'static str, &'static str, &'static str)];

const POSTGRES: Columns = &[
    ("true", "Boolean", "true"),
    ("(-32768)::smallint", "Int16", "-32768"),
    ("2147483647::integer", "Int32", "2147483647"),
    ("(-9223372036854775808)::bigint", "Int64", "-9223372036854775808"),
    ("1.5::real", "Float32", "1.5"),
    ("0.1::float8", "Float64", "0.1"),
    // The driver describes columns with types that their values don't have.
    ("(-12.5)::numeric(10,2)", "Utf8", "-12.50"),
    ("'é𝄞'::text", "Utf8", "é𝄞"),
    ("'\\x00ff'::bytea", "Binary", "00ff"),
    ("date '2024-02-29'", "Date32", "19782"),
    ("timestamp '2024-01-01 10:00:00.123456'", "Timestamp(µs)", "1704103200123456"),
    ("'6F1E3C8A-0000-4000-8000-000000000001'::uuid", "Utf8", "6f1e3c8a-0000-4000-8000-000000000001"),
    // The driver describes it as a text.
    ("'{\"a\": 1}'::jsonb", "Utf8", "{\"a\": 1}"),
];

const MARIADB: Columns = &[
    ("cast(-1 as signed)", "Int32", "-1"),
    ("cast(-9223372036854775808 as signed)", "Int64", "-9223372036854775808"),
    ("cast(18446744073709551615 as unsigned)", "UInt64", "18446744073709551615"),
    ("1.5e0", "Float64", "1.5"),
    ("cast(-12.5 as decimal(10, 2))", "Decimal128(10, 2)", "-12.50"),
    (
        "cast('12345678901234567890123456789012345678901.123' as decimal(60, 10))",
        "Decimal256(60, 10)",
        "12345678901234567890123456789012345678901.1230000000",
    ),
    ("'é𝄞'", "Utf8", "é𝄞"),
    ("x'00ff'", "Binary", "00ff"),
    ("date '2024-02-29'", "Date32", "19782"),
    ("timestamp '2024-01-01 10:00:00.123456'", "Timestamp(µs)", "1704103200123456"),
    ("time '10:11:12.5'", "Utf8", "10:11:12.5"),
];

/// A driver's types reach a client that requests batches, including NULLs.
#[tokio::test]
async fn batches_keep_their_types() {
    for (url, expected) in [(postgres("postgres"), POSTGRES), (mariadb("mysql"), MARIADB)] {
        let named = expected.iter().enumerate().map(|(i, (sql, ..))| format!("{sql} as c{i}"));
        let sql = format!(
            "select {} from (select 1 as n union all select 2) r left join (select 2 as k, {}) c on k = n order by n",
            (0..expected.len()).map(|i| format!("c{i}")).collect::<Vec<_>>().join(", "),
            named.collect::<Vec<_>>().join(", "),
        );
        let server = serve(&url, "", &[("types", &sql)]).await;
        let reply = get(&server.url("/types.arrow")).await;
        let (schema, _) = batches(&reply);
        assert!(schema.fields().iter().all(|field| field.is_nullable() && field.metadata().is_empty()));
        for ((sql, data_type, value), (found, values)) in expected.iter().zip(columns(&reply.body)) {
            assert_eq!(
                (&*found, &*values),
                (*data_type, &["NULL".to_owned(), (*value).to_owned()][..]),
                "{sql}"
            );
        }
    }
}

/// SQLite's driver reports the declared type, but values needn't have it. A different value is an
/// error.
#[tokio::test]
async fn batches_of_sqlite_have_the_declared_types() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("shop.db");
    let script =
        "create table t(id integer, name varchar(3), price double, paid decimal(10,2), b blob, day date);
        insert into t values (1, 'é𝄞 is longer', 0.5, 12.5, x'00ff', '2024-02-29');
        insert into t(id) values (2);";
    rusqlite::Connection::open(&file).unwrap().execute_batch(script).unwrap();
    let server = serve(&drivers::odbc_sqlite(&file), "", &[("t", "select * from t order by id")]).await;
    let reply = get(&server.url("/t.arrow")).await;
    batches(&reply);
    let expected = [
        ("Int32", ["1", "2"]),
        ("Utf8", ["é𝄞 is longer", "NULL"]),
        ("Float64", ["0.5", "NULL"]),
        ("Utf8", ["12.5", "NULL"]),
        ("Binary", ["00ff", "NULL"]),
        ("Date32", ["19782", "NULL"]),
    ];
    let expected =
        expected.map(|(data_type, values)| (data_type.to_owned(), values.map(str::to_owned).to_vec()));
    assert_eq!(columns(&reply.body), expected);
}

/// MariaDB's driver frees the rows of a cancelled statement, even while another thread fetches
/// them. That sometimes crashed the driver process with all of its requests.
#[tokio::test]
async fn clients_that_leave_while_rows_are_fetched_end_no_worker() {
    let columns: Vec<_> = (0..40).map(|number| format!("seq * 1.5 as c{number}")).collect();
    let wide = format!("select {} from seq_1_to_20000", columns.join(", "));
    let endpoints = [("wide", &*wide), ("well", "select 1 as v")];
    let server = serve(&mariadb("mysql"), "pool = { max = 1 }", &endpoints).await;
    let mut worker = Vec::new();
    for round in 1..=20 {
        let mut streaming = Client::HTTP1.stream(&server.url("/wide.ndjson")).await;
        streaming.at_least(round * 10_000).await;
        drop(streaming);
        assert_eq!(get(&server.url("/well")).await.text(), "[{\"v\":1}]");
        worker.push(workers(&server));
    }
    worker.dedup();
    assert_eq!(worker.len(), 1, "{worker:?}");
}

/// The key's name is an SQL keyword with all kinds of quotes in it. Each driver accepts it in the
/// quotes that the driver reports.
#[tokio::test]
async fn keys_stand_in_the_quotes_of_the_driver() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("shop.db");
    let script = "create table t(\"order\" integer); insert into t values (1), (2), (3), (4), (5);";
    rusqlite::Connection::open(&file).unwrap().execute_batch(script).unwrap();
    let numbers =
        "(select 1 as n union all select 2 union all select 3 union all select 4 union all select 5) t";
    for (url, column, quoted, from) in [
        (postgres("postgres"), "order", "n as \"order\"", numbers),
        (postgres("postgres"), "or\\\"d`e'r", "n as \"or\"\"d`e'r\"", numbers),
        (mariadb("mysql"), "order", "n as `order`", numbers),
        (mariadb("mysql"), "or\\\"d`e'r", "n as `or\"d``e'r`", numbers),
        (drivers::odbc_sqlite(&file), "order", "\"order\"", "t"),
    ] {
        let sql = format!(
            "/* key = [\"{column}\"]\n[params]\nmost = {{ type = \"integer\", default = 2 }} */\n\
             select {quoted} from {from} limit :most"
        );
        let server = serve(&url, "", &[("page", &sql)]).await;
        let (mut path, mut seen) = ("/page.csv".to_owned(), Vec::new());
        loop {
            let reply = get(&server.url(&path)).await;
            assert_eq!((reply.status.as_u16(), &reply.ended), (200, &Ended::Complete), "{}", reply.text());
            seen.extend(reply.text().lines().skip(1).map(|line| line.parse::<u64>().unwrap()));
            let Some(next) = reply.header("link") else { break };
            let after = next.split_once("_after=").unwrap().1.split(['>', '&']).next().unwrap();
            path = format!("/page.csv?_after={after}");
        }
        assert_eq!(seen, [1, 2, 3, 4, 5], "{url}: {column}");
    }
}

#[test]
fn parameters_are_bound_with_their_types() {
    for url in [postgres("postgres"), mariadb("mysql")] {
        for (sql, params) in [
            (":x = 7", &["x:integer=7"][..]),
            (":x = 12.50", &["x:number=12.5"]),
            (":x = 'it''s é'", &["x=it's é"]),
            ("date '2024-01-01' < :x", &["x:date=2024-01-02"]),
            ("timestamp '2024-01-01 00:00:00.5' = :x", &["x:timestamp=2024-01-01T00:00:00.5Z"]),
            ("cast(:x as char(1)) is null", &["x:integer="]),
            (":a < :b and :b > :a", &["a:integer=1", "b:integer=2"]),
        ] {
            let sql = format!("select case when {sql} then 1 else 0 end as value");
            let params: Vec<_> = params.iter().flat_map(|param| ["-p", param]).collect();
            assert_eq!(rows(&[&[&*url, &sql], &*params].concat()), "{\"value\":1}\n", "{url}: {sql}");
        }
    }
    let list = refused(&[&postgres("postgres"), "select 1 as n where 1 = any(:x)", "-p", "x:integer[]=1,2"]);
    assert!(list.contains("ODBC has no lists"), "{list}");
}

#[test]
fn what_is_wrong_is_said_without_passwords() {
    let at_nobody =
        "odbc:Driver={PostgreSQL Unicode};Server=127.0.0.1;Port=1;Database=d;UID=u;PWD=hush".to_owned();
    for (url, sql, message) in [
        (postgres("postgres"), "select 1 from nothing", "relation \"nothing\" does not exist"),
        (postgres("postgres"), "select 1 / (1 - n) as x from generate_series(1, 1) n", "division by zero"),
        (mariadb("mysql"), "selct 1", "You have an error in your SQL syntax"),
        (at_nobody, "select 1", "cannot be reached"),
        ("odbc:Driver=/no/such/driver.so;PWD=hush".to_owned(), "select 1", "cannot be reached"),
        ("odbc:nonsense".to_owned(), "select 1", "has no connection string"),
        // SQL Server's driver exists, but there's no server.
        (
            "odbc:Driver=FreeTDS;Server=127.0.0.1;Port=1;UID=u;PWD=hush".to_owned(),
            "select 1",
            "cannot be reached",
        ),
    ] {
        let said = refused(&[&url, sql]);
        assert!(said.contains(message), "{sql}: {said}");
        assert!(!said.contains("hush"), "{said}");
    }
}

#[tokio::test]
async fn an_error_after_rows_is_no_end() {
    let sql = "select n, 1 / (50000 - n) as x from generate_series(1, 60000) n";
    let server = serve(&postgres("postgres"), "", &[("late", sql), ("one", "select 1 as n")]).await;
    let reply = get(&server.url("/late.ndjson")).await;
    assert_eq!(reply.status.as_u16(), 200);
    assert!(matches!(reply.ended, Ended::Broken(_)), "{:?}", reply.ended);
    assert_eq!(get(&server.url("/one")).await.json(), json!([{"n": 1}]));
}

#[tokio::test]
async fn procedures_have_results() {
    let database = MariaDb::script(
        "create table event(n int, status varchar(20));
         insert into event values (1, 'new'), (2, 'paid'), (3, 'sent');
         delimiter //
         create procedure events(after_no int) begin
           insert into event values (99, 'side effect');
           select n, status from event where n > after_no and n < 99 order by n;
         end//
         create procedure two() begin select 1 as n; select 2 as n; end//
         create procedure none() begin set @x = 1; end//",
    );
    let url = mariadb(database.name());
    assert_eq!(
        rows(&[&url, "{call events(:after)}", "-p", "after:integer=1"]),
        "{\"n\":2,\"status\":\"paid\"}\n{\"n\":3,\"status\":\"sent\"}\n"
    );
    assert_eq!(
        database.ask("select count(*) from event where n = 99"),
        "1\n",
        "what it was described by is undone"
    );
    for (call, message) in [("{call two()}", "several results"), ("{call none()}", "has no rows")] {
        let said = refused(&[&url, call]);
        assert!(said.contains(message), "{call}: {said}");
    }
}

#[tokio::test]
async fn a_million_rows_take_little_memory() {
    let sql = "select n as i, 'row ' || n as text from generate_series(1, 1000000) n";
    let server = serve(&postgres("postgres"), "", &[("many", sql)]).await;
    let reply = get(&server.url("/many.ndjson")).await;
    assert_eq!((reply.status.as_u16(), reply.ended.clone()), (200, Ended::Complete));
    let mut lines = reply.text().lines();
    for i in 1..=1_000_000 {
        assert_eq!(lines.next(), Some(&*format!("{{\"i\":{i},\"text\":\"row {i}\"}}")));
    }
    assert_eq!(lines.next(), None);
    let peak = peak_memory_bytes(server.pid());
    assert!(peak < 48 << 20, "the server took {peak} bytes");
    let [worker] = workers(&server)[..] else { panic!("one worker") };
    let peak = peak_memory_bytes(worker);
    assert!(peak < 64 << 20, "the worker took {peak} bytes");
}

/// A driver process limits the size of its batches, and they aren't joined later. So clients that
/// request batches see the limit.
#[tokio::test]
async fn fetch_bytes_bounds_what_a_worker_sends() {
    let sql = "select n, repeat('x', 1000) as text from generate_series(1, 3000) n";
    let mut longest = Vec::new();
    for settings in ["", "fetch_bytes = \"16KiB\""] {
        let server = serve(&postgres("postgres"), settings, &[("rows", sql)]).await;
        let (_, batches) = batches(&get(&server.url("/rows.arrow")).await);
        let rows: Vec<_> = batches.iter().map(RecordBatch::num_rows).collect();
        assert_eq!(rows.iter().sum::<usize>(), 3000);
        longest.push(rows.into_iter().max().unwrap());
    }
    // 64 KiB, which a client gets at once.
    assert!((50..=66).contains(&longest[0]), "{longest:?}");
    assert!((1..=16).contains(&longest[1]), "{longest:?}");
}

/// Texts of all lengths. Some don't fit the buffer of the earlier ones.
#[test]
fn texts_that_grow_come_whole() {
    let database = MariaDb::new("create table t(n int, text longtext, name varchar(50))");
    database.execute(
        "insert into t select seq, repeat('é', seq * seq), concat('n', seq) from mysql.seq_1_to_120",
    );
    for (url, sql) in [
        (
            postgres("postgres"),
            "select n, repeat('é', n * n) as text, 'n' || n as name from generate_series(1, 120) n order by n",
        ),
        (mariadb(database.name()), "select n, text, name from t order by n"),
    ] {
        for (line, n) in rows(&[&url, sql]).lines().zip(1..=120) {
            let row: Value = line.parse().unwrap();
            let expected = json!({"n": n, "text": "é".repeat(n * n), "name": format!("n{n}")});
            assert!(row == expected, "{url}: row {n}");
        }
    }
}

#[tokio::test]
async fn a_client_that_leaves_ends_its_statement() {
    let database = TestDb::new().await;
    let endless = "select generate_series(1, 1000000000) as i, repeat('x', 100) as text";
    let long = "select count(*) as n from generate_series(1, 10000000000) n";
    let server = serve(
        &postgres(database.name()),
        "pool = { max = 1 }",
        &[("endless", endless), ("long", long), ("one", "select 1 as n")],
    )
    .await;
    let mut left = Client::HTTP1.stream(&server.url("/endless.ndjson")).await;
    left.at_least(1000).await;
    drop(left);
    assert_eq!(get(&server.url("/one")).await.json(), json!([{"n": 1}]));
    let before = workers(&server);
    let waiting = tokio::time::timeout(Duration::from_millis(500), get(&server.url("/long"))).await;
    assert!(waiting.is_err(), "the statement is long");
    assert_eq!(get(&server.url("/one")).await.json(), json!([{"n": 1}]));
    assert_eq!(workers(&server), before, "the statement was cancelled, and no process ended");
}

#[tokio::test]
async fn a_driver_that_hangs_or_dies_fails_its_streams_alone() {
    let endless = "select generate_series(1, 1000000000) as i, repeat('x', 100) as text";
    let server = serve(
        &postgres("postgres"),
        "statement_timeout = \"2s\"\npool = { max = 1 }",
        &[("endless", endless), ("one", "select 1 as n")],
    )
    .await;
    for name in ["KILL", "SEGV", "STOP"] {
        let mut stream = Client::HTTP1.stream(&server.url("/endless.ndjson")).await;
        stream.at_least(1000).await;
        let ended = workers(&server);
        // Rust ignores the first SEGV if no instruction caused it.
        wait_until(name, async || {
            ended.iter().for_each(|pid| signal(*pid, name));
            name == "STOP" || !ended.iter().any(|pid| is_alive(*pid))
        })
        .await;
        let reply = wait("the stream ends", stream.rest()).await;
        assert!(matches!(reply.ended, Ended::Broken(_)), "{name}: {:?}", reply.ended);
        let next = get(&server.url("/one")).await;
        assert_eq!(next.json(), json!([{"n": 1}]), "{name}: the next request is served");
        assert!(workers(&server).iter().all(|pid| !ended.contains(pid)), "{name}: a new process");
    }
}

fn is_alive(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

#[tokio::test]
async fn a_driver_that_takes_too_much_memory_fails_its_streams_alone() {
    // Without `UseDeclareFetch`, the driver holds the whole result, which is a gigabyte.
    let url = postgres("postgres").replace("UseDeclareFetch=1", "UseDeclareFetch=0");
    let large = "select repeat('x', 1000) as text from generate_series(1, 1000000) n";
    let server =
        serve(&url, "worker_memory = \"200MB\"", &[("large", large), ("one", "select 1 as n")]).await;
    let reply = get(&server.url("/large.ndjson")).await;
    assert!(matches!(reply.status.as_u16(), 500 | 503), "{}: {}", reply.status, reply.text());
    assert!(workers(&server).into_iter().all(|worker| peak_memory_bytes(worker) < 250 << 20));
    let next = get(&server.url("/one")).await;
    assert_eq!(next.json(), json!([{"n": 1}]));
}

/// After that, MariaDB's driver reports everything as malformed.
#[tokio::test]
async fn a_connection_that_had_no_memory_is_not_used_again() {
    let large = "select repeat('x', 1000) as text from seq_1_to_1000000";
    let settings = "worker_memory = \"200MB\"\npool = { max = 1 }";
    let server = serve(&mariadb("mysql"), settings, &[("large", large), ("one", "select 1 as n")]).await;
    for _ in 0..2 {
        let reply = get(&server.url("/large.ndjson")).await;
        assert!(matches!(reply.status.as_u16(), 500 | 503), "{}: {}", reply.status, reply.text());
        let next = get(&server.url("/one")).await;
        assert_eq!(next.json(), json!([{"n": 1}]));
    }
}

/// Endpoints for both databases: rows, one row, several statements with one snapshot, and one that
/// keeps its connection until all others have theirs.
const SHAPES: &[(&str, &str)] = &[
    ("list", "select 1 as n union all select 2 order by n"),
    (
        "one",
        "/* result = \"one\"\n[params]\nid = { type = \"integer\", default = 7 } */\nselect n from (select 7 as n) t where n = :id",
    ),
    (
        "body",
        "/* body = { list = \"$list\", total = \"$total\" } */\n\
         -- name: list :many\nselect 1 as n\n-- name: total :value\nselect 3 as total",
    ),
];

/// Requests each path `times` times, all at once. Returns the responses that aren't complete.
async fn failures(server: &Server, paths: &[&str], times: usize) -> Vec<String> {
    let asked = paths.iter().cycle().take(paths.len() * times).map(|path| server.url(path));
    let answers = join_all(asked.map(async |url| (get(&url).await, url))).await;
    let is_wrong = |(reply, _): &(Reply, String)| reply.status != 200 || reply.ended != Ended::Complete;
    let shown = |(reply, url): (Reply, String)| format!("{url}: {} {}", reply.status, reply.text());
    answers.into_iter().filter(is_wrong).map(shown).collect()
}

/// A restart of the database cost as many requests as the pool had connections. PostgreSQL's driver
/// has one SQLSTATE for a dead connection and for most errors, and we didn't ask it for details.
#[tokio::test]
async fn connections_that_died_while_idle_cost_no_request() {
    const MAX: usize = 6;
    let settings = format!("pool = {{ max = {MAX} }}");
    let postgresql = TestDb::new().await;
    let mysql = MariaDb::script(
        "delimiter //
         create procedure events() begin select 1 as n; end//",
    );
    let all_of_mysql = format!(
        "select group_concat('kill ', id separator ';') from information_schema.processlist where db = '{}' and id <> connection_id()",
        mysql.name()
    );
    postgresql.execute("create table paid (n int)").await;
    let more =
        [("slow", "select pg_sleep(0.5)::text as n"), ("paid", "insert into paid values (1) returning n")];
    let on_postgresql = serve(&postgres(postgresql.name()), &settings, &[SHAPES, &more].concat()).await;
    let more = [("slow", "select sleep(0.5) as n"), ("call", "{call events()}")];
    let on_mysql = serve(&mariadb(mysql.name()), &settings, &[SHAPES, &more].concat()).await;
    for round in 0..3 {
        let (one, two) =
            tokio::join!(failures(&on_postgresql, &["/slow"], MAX), failures(&on_mysql, &["/slow"], MAX));
        assert_eq!([one, two].concat(), [""; 0], "{round}");
        let backends = format!(
            "from pg_stat_activity where datname = '{}' and pid <> pg_backend_pid()",
            postgresql.name()
        );
        postgresql.execute(&format!(
            "do $$ begin assert (select count(*) {backends}) > {MAX} / 2; perform pg_terminate_backend(pid, 10000) {backends}; end $$"
        )).await;
        let kills = mysql.ask(&all_of_mysql);
        assert!(kills.matches("kill").count() > MAX / 2, "{kills}");
        kills.trim().split(';').filter(|kill| !kill.is_empty()).for_each(|kill| drop(mysql.ask(kill)));
        let (one, two) = tokio::join!(
            failures(&on_postgresql, &["/list", "/one", "/body", "/paid"], 4),
            failures(&on_mysql, &["/list", "/one", "/body", "/call"], 4)
        );
        assert_eq!([one, two].concat(), [""; 0], "{round}");
    }
}

/// We ran `insert … returning` again, which may have been committed before its connection was lost.
#[tokio::test]
async fn a_statement_that_may_write_runs_once() {
    assert_runs_once(drivers::odbc_postgres).await;
}

/// A stream whose connection dies is aborted, and its slot serves the next request.
#[tokio::test]
async fn a_connection_that_dies_among_rows_ends_its_stream_alone() {
    let db = TestDb::new().await;
    let endless = "select generate_series(1, 1000000000) as i, repeat('x', 100) as text";
    let server =
        serve(&postgres(db.name()), "pool = { max = 1 }", &[("endless", endless), ("one", "select 1 as n")])
            .await;
    for _ in 0..2 {
        let mut stream = Client::HTTP1.stream(&server.url("/endless.ndjson")).await;
        stream.at_least(1000).await;
        db.execute("select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()").await;
        let reply = wait("the stream ends", stream.rest()).await;
        assert!(matches!(reply.ended, Ended::Broken(_)), "{:?}", reply.ended);
        assert_eq!(get(&server.url("/one")).await.json(), json!([{"n": 1}]));
    }
}

/// A statement whose result a driver can't handle fails, but the next one on its connection
/// succeeds.
#[tokio::test]
async fn a_statement_that_breaks_the_protocol_fails_alone() {
    let db = TestDb::new().await;
    db.execute("create table t (n integer); insert into t values (1)").await;
    let endpoints = [("copy", "copy t to stdout"), ("bad", "copy t from stdin"), ("one", "select n from t")];
    let config = format!("[source.main]\nurl = {:?}\npool = {{ max = 1 }}\n", postgres(db.name()));
    let names: Vec<_> = endpoints.iter().map(|(name, _)| format!("endpoints/{name}.sql")).collect();
    let mut files = vec![("rowstream.toml", &*config)];
    files.extend(names.iter().map(String::as_str).zip(endpoints.iter().map(|(_, sql)| *sql)));
    let server = Launch::files(&files).argument("--no-check").start().await;
    for path in ["/copy", "/bad", "/copy"] {
        let reply = get(&server.url(path)).await;
        assert!(matches!(reply.status.as_u16(), 500 | 503), "{path}: {}", reply.text());
        let reply = get(&server.url("/one")).await;
        assert_eq!((reply.status.as_u16(), reply.text()), (200, "[{\"n\":1}]"), "{path}");
    }
}

#[tokio::test]
async fn several_statements_read_one_snapshot() {
    let body = "/* body = { list = \"$list\", total = \"$total\" } */\n\
        -- name: list :many\nselect n from generate_series(0, 2) n\n-- name: total :value\nselect 3 as total";
    let server = serve(&postgres("postgres"), "", &[("body", body)]).await;
    for _ in 0..2 {
        assert_eq!(
            get(&server.url("/body")).await.json(),
            json!({"list": [{"n": 0}, {"n": 1}, {"n": 2}], "total": 3})
        );
    }
}
