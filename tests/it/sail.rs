//! Arrow Flight SQL with a real engine: Sail, as one process and as a local cluster of two workers,
//! with Parquet files that it writes itself.

#![expect(clippy::unwrap_used, reason = "the helpers of tests are tests, too")]

use serde_json::{Value, json};

use crate::support::{Client, Ended, Launch, Sail, SailMode, Server, get, rowstream};
use crate::worked;

/// Writes this many readings of the example as Parquet.
async fn write_readings(sail: &Sail, rows: usize) {
    let sql = std::fs::read_to_string(worked::example("lake").join("data/readings.sql")).unwrap();
    let sql = sql.replace("10000000", &rows.to_string());
    assert_eq!(sail.rows(&sql).await, format!("{{\"count\":{rows}}}\n"));
}

/// The example with this engine.
async fn example(sail: &Sail) -> Server {
    Launch::folder(worked::example("lake")).variable("LAKE_URL", &sail.url()).start().await
}

#[tokio::test]
async fn each_type_is_written_exactly() {
    let sail = Sail::start(SailMode::Local);
    for (sql, expected) in [
        ("null", json!(null)),
        ("true", json!(true)),
        ("cast(-128 as tinyint)", json!(-128)),
        ("cast(32767 as smallint)", json!(32767)),
        ("-2147483648", json!(-2_147_483_648_i64)),
        ("9223372036854775807", json!(i64::MAX)),
        ("cast(1.5 as float)", json!(1.5)),
        ("cast('nan' as double)", json!("NaN")),
        ("cast('1.25' as decimal(12, 2))", json!(1.25)),
        ("'é'", json!("é")),
        ("X'ff00'", json!("\\xff00")),
        ("date '2024-02-29'", json!("2024-02-29")),
        ("timestamp_ntz '2024-01-01 10:00:00.5'", json!("2024-01-01T10:00:00.5")),
        ("timestamp_seconds(1704103200)", json!("2024-01-01T10:00:00Z")),
        ("interval '1-2' year to month", json!("P14M")),
        ("interval 3 days", json!("PT259200S")),
        ("array(1, 2, null)", json!([1, 2, null])),
        ("map('k', 1)", json!({"k": 1})),
        ("named_struct('a', 1, 'b', array('x'))", json!({"a": 1, "b": ["x"]})),
    ] {
        let row: Value = sail.rows(&format!("select {sql} as value")).await.parse().unwrap();
        assert_eq!(row["value"], expected, "{sql}");
    }
    // More digits than a JSON library reads exactly.
    let digits = "12345678901234567890123456789012345.678";
    let row = sail.rows(&format!("select cast('{digits}' as decimal(38, 3)) as value")).await;
    assert_eq!(row, format!("{{\"value\":{digits}}}\n"));
}

#[tokio::test]
async fn errors_name_what_is_wrong() {
    let sail = Sail::start(SailMode::Local);
    for (sql, words) in [
        ("selec 1", "parse error"),
        ("select * from nope", "nope"),
        ("select raise_error('in the middle')", "in the middle"),
    ] {
        let output = rowstream(&["query", &sail.url(), sql]).await;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{sql}");
        assert!(said.contains(words), "{sql}: {said}");
    }
}

/// The example works as its README says, with fewer rows: it's complete in every format, and
/// unchanged after a client disconnects in the middle.
#[tokio::test]
async fn the_example_serves_the_rows_of_a_cluster() {
    let sail = Sail::start(SailMode::Cluster);
    write_readings(&sail, 400_000).await;
    let checked = rowstream_checks(&sail).await;
    assert!(checked.contains("celsius") && checked.contains("/sensors"), "{checked}");
    let server = example(&sail).await;
    let mut left = Client::HTTP1.stream(&server.url("/readings.ndjson")).await;
    left.at_least(100_000).await;
    drop(left);
    let reply = get(&server.url("/readings.ndjson")).await;
    assert_eq!((reply.status.as_u16(), &reply.ended), (200, &Ended::Complete), "{}", reply.text());
    let ids = reply.text().lines().map(|line| line.parse::<Value>().unwrap()["id"].as_u64().unwrap());
    let mut ids: Vec<_> = ids.collect();
    ids.sort_unstable();
    assert!(ids.into_iter().eq(0..400_000));
    let csv = get(&server.url("/readings.csv")).await;
    assert_eq!((csv.text().lines().count(), &csv.ended), (400_001, &Ended::Complete));
    let sensors = get(&server.url("/sensors")).await.json();
    let first = &sensors["sensors"][0];
    assert_eq!((&first["sensor"], &first["readings"]), (&json!("sensor-0"), &json!(4000)));
    assert_eq!(sensors["sensors"].as_array().unwrap().len(), 100);
}

async fn rowstream_checks(sail: &Sail) -> String {
    let config = std::fs::read_to_string(worked::example("lake").join("rowstream.toml")).unwrap();
    let folder = worked::copy("lake");
    let file = folder.path().join("rowstream.toml");
    std::fs::write(&file, config.replace("flightsql://127.0.0.1:32010", &sail.url())).unwrap();
    let output = rowstream(&["check", file.to_str().unwrap()]).await;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The cluster is killed while its rows are read, and the response never looks complete.
#[tokio::test]
async fn a_cluster_that_is_killed_in_mid_query_fails_visibly() {
    let mut sail = Sail::start(SailMode::Cluster);
    write_readings(&sail, 2_000_000).await;
    assert!(sail.folder().join("lake/readings").is_dir(), "the cluster reads files");
    let server = example(&sail).await;
    let mut stream = Client::HTTP1.stream(&server.url("/readings.ndjson")).await;
    stream.at_least(1 << 20).await;
    sail.kill();
    let reply = stream.rest().await;
    assert_ne!(reply.ended, Ended::Complete);
    // The next request gets an error.
    let reply = get(&server.url("/sensors")).await;
    assert_eq!((reply.status.as_u16(), &reply.json()["code"]), (503, &json!("source_unavailable")));
}

/// For an engine without prepared statements, the check of an endpoint reports that.
#[tokio::test]
async fn parameters_are_refused_with_the_reason() {
    let sail = Sail::start(SailMode::Local);
    let config = format!("[source.lake]\nurl = \"{}\"\n", sail.url());
    let sql = "/*\n[params]\nleast = { type = 'integer' }\n*/\nselect id from range(10) where id > :least";
    let launch = Launch::files(&[("rowstream.toml", &config), ("endpoints/rows.sql", sql)]);
    let output = rowstream(&["check", launch.path().join("rowstream.toml").to_str().unwrap()]).await;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1));
    assert!(said.contains("rows.sql") && said.contains("doesn't prepare statements"), "{said}");
}
