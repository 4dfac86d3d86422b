//! Reads the rows of a database through the contract alone. The drivers' tests share it.

use std::future::poll_fn;
use std::sync::Arc;

use rowstream_core::Error;
use rowstream_core::params::{ParamType, ParamValue};
use rowstream_core::pool::{Priority, Waiter};
use rowstream_core::settings::SourceSettings;
use rowstream_database::{Database, DatabaseRow, DatabaseSession, Snapshot, Statement};
use rowstream_encode::{RowEncoder, Shape};

/// The rows of one statement as lines of JSON.
async fn lines<D: Database>(
    source: &D,
    sql: &str,
    args: &[(ParamType, ParamValue)],
) -> Result<String, Error> {
    let waiter = Waiter::default();
    let mut session = source.acquire(Snapshot::Statement, Priority::Stream, waiter.begin()).await?;
    let types = args.iter().map(|&(kind, _)| kind.into()).collect();
    let columns = session.prepare(&Statement { sql: Arc::from(sql), types, ad_hoc: false }).await?;
    let args: Vec<_> = args.iter().map(|(_, value)| value).collect();
    session.execute(0, &args);
    let (mut encoder, mut out) = (RowEncoder::new(Shape::Lines, &columns), Vec::new());
    encoder.start(&mut out);
    let mut encode_next = async || {
        poll_fn(|cx| {
            session.poll_row(cx).map(|row| match row? {
                Some(row) => row.encode(&mut encoder, &mut out).map(|()| true),
                None => Ok(false),
            })
        })
        .await
    };
    while encode_next().await? {}
    encoder.finish(&mut out);
    Ok(String::from_utf8(out).expect("JSON is UTF-8"))
}

/// Runs `sql`, whose arguments are 2 and `ü`, on the server that the environment variable `url`
/// names, and expects `rows`. Without that variable there's no server, and this says so.
pub(crate) async fn reads_rows<D: Database>(url: &str, sql: &str, rows: &str) {
    let Ok(server) = std::env::var(url) else {
        eprintln!("{url} isn't set, so no server was tested");
        return;
    };
    let source = D::open(&SourceSettings::new("test", server)).expect("a valid URL");
    let args =
        [(ParamType::Integer, ParamValue::Integer(2)), (ParamType::Text, ParamValue::Text("ü".into()))];
    assert_eq!(lines(&source, sql, &args).await.expect("rows"), rows);
    let error = lines(&source, "select nothing from nowhere", &[]).await.expect_err("no such table");
    assert_eq!(error.code(), "statement_failed");
    // The session that failed has returned its connection.
    assert_eq!(lines(&source, "select 1 as one", &[]).await.expect("rows"), "{\"one\":1}\n");
}
