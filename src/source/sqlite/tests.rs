//! What cannot be seen from outside: the bound on batches, and a worker that panics.

use std::task::Waker;

use super::*;

const SERIES: &str =
    "with recursive n(i) as (select 1 union all select i + 1 from n where i < 300000) select i, 'row' from n";

/// A source of one connection, and the folder that its file is in.
fn source() -> (tempfile::TempDir, Source) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("test.db");
    rusqlite::Connection::open(&path).unwrap().execute_batch("create table t (v)").unwrap();
    let settings = Settings {
        source: "test".to_owned(),
        path,
        statement_cache: 10,
        max_row_bytes: 1 << 20,
        statement_timeout: None,
    };
    let pool = Pool::new("test", crate::pool::PoolConfig { max: 1, ..Default::default() });
    (folder, Source { pool, settings: Arc::new(settings) })
}

async fn started(source: &Source) -> Session {
    let mut session = source.acquire(Snapshot::Statement).await.unwrap();
    let statement = Statement { sql: SERIES.into(), types: Vec::new() };
    session.prepare(&statement).await.unwrap();
    session.execute(0, &[]);
    session
}

/// A client that does not read: the worker packs two batches and stops, and what it holds is bounded.
#[tokio::test]
async fn a_session_that_does_not_read_stops_the_worker() {
    let (_folder, source) = source();
    let mut session = started(&source).await;
    assert!(poll_fn(|cx| session.poll_row(cx).map(|row| row.unwrap().is_some())).await);
    tokio::time::sleep(Duration::from_millis(200)).await;
    let first = session.batch.as_ref().unwrap().rows.len();
    assert!((4096..8192).contains(&first), "the first batch is small: {first}");

    let mut cx = Context::from_waker(Waker::noop());
    let reply = session.link().poll_reply(&mut cx);
    assert!(reply.is_pending(), "a third batch was made while the first is still read");

    let (mut rows, mut largest) = (1, 0);
    while poll_fn(|cx| session.poll_row(cx).map(|row| row.unwrap().is_some())).await {
        rows += 1;
        largest = largest.max(session.batch.as_ref().unwrap().rows.capacity());
    }
    assert_eq!(rows, 300_000);
    assert!(largest <= 36 * 1024, "a batch grew to {largest} bytes");
}

#[tokio::test]
async fn a_panic_of_the_worker_is_an_error_and_frees_the_place() {
    let (_folder, source) = source();
    let mut session = started(&source).await;
    while poll_fn(|cx| session.poll_row(cx).map(|row| row.unwrap().is_some())).await {}
    session.phase = Phase::Streaming;
    session.link().send(Command::Panic);
    let error = poll_fn(|cx| session.poll_row(cx).map(Result::err)).await.unwrap();
    assert_eq!(error.code(), "internal");
    drop(session);
    assert_eq!(source.usage(), crate::pool::Usage { used: 0, idle: 0, waiting: 0 });
    drop(started(&source).await);
}

#[test]
fn urls_name_files() {
    for (url, path) in
        [("sqlite:shop.db", "shop.db"), ("sqlite:/a/b.db", "/a/b.db"), ("sqlite:///a/b.db", "/a/b.db")]
    {
        assert_eq!(worker::path(url), PathBuf::from(path));
    }
}
