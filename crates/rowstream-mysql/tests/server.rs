//! Rows of a server, read through the contract alone. Without `ROWSTREAM_TEST_MARIADB` there's no server, and the test
//! says so.

use std::future::poll_fn;
use std::sync::Arc;

use rowstream_core::Error;
use rowstream_core::params::{ParamType, ParamValue};
use rowstream_core::pool::{Priority, Waiter};
use rowstream_core::settings::SourceSettings;
use rowstream_database::{Database, DatabaseRow, Snapshot, Statement};
use rowstream_encode::{RowEncoder, Shape};
use rowstream_mysql::{Session, Source};

const URL: &str = "ROWSTREAM_TEST_MARIADB";

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

/// The rows of one statement as lines of JSON.
async fn lines(source: &Source, sql: &str, args: &[(ParamType, ParamValue)]) -> Result<String, Error> {
    let waiter = Waiter::default();
    let mut session = source.acquire(Snapshot::Statement, Priority::Stream, waiter.begin()).await?;
    let types = args.iter().map(|&(kind, _)| kind.into()).collect();
    let columns = session.prepare(&Statement { sql: Arc::from(sql), types }).await?;
    let args: Vec<_> = args.iter().map(|(_, value)| value).collect();
    session.execute(0, &args);
    let (mut encoder, mut out) = (RowEncoder::new(Shape::Lines, &columns), Vec::new());
    encoder.start(&mut out);
    while encode_next(&mut session, &mut encoder, &mut out).await? {}
    encoder.finish(&mut out);
    Ok(String::from_utf8(out).expect("JSON is UTF-8"))
}

#[tokio::test]
async fn rows_of_a_server() {
    let Ok(url) = std::env::var(URL) else {
        eprintln!("{URL} isn't set: no server was asked");
        return;
    };
    let source = Source::open(&SourceSettings::new("test", url)).expect("a valid URL");
    let args =
        [(ParamType::Integer, ParamValue::Integer(2)), (ParamType::Text, ParamValue::Text("ü".into()))];
    let rows = lines(&source, "select ? as n, 1.50 as price, ? as t, null as nothing", &args).await;
    assert_eq!(rows.expect("rows"), "{\"n\":2,\"price\":1.50,\"t\":\"ü\",\"nothing\":null}\n");
    let error = lines(&source, "select nothing from nowhere", &[]).await.expect_err("there is no such table");
    assert_eq!(error.code(), "statement_failed");
    // The session that failed gave its connection back.
    let rows = lines(&source, "select 1 as one", &[]).await;
    assert_eq!(rows.expect("rows"), "{\"one\":1}\n");
}
