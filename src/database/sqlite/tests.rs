//! What cannot be seen from outside: the bound on batches, and a worker that panics.

use std::future::Future as _;
use std::task::Waker;

use super::*;
use crate::pool::Waiter;

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
        mmap: 0,
        known: Known::new(10),
        running: Arc::default(),
    };
    let pool = Pool::new("test", pool::PoolConfig { max: 1, ..Default::default() });
    (folder, Source { pool, settings: Arc::new(settings) })
}

async fn started(source: &Source) -> Session {
    let mut session =
        source.acquire(Snapshot::Statement, Priority::Stream, Waiter::default().begin()).await.unwrap();
    let statement = Statement { sql: SERIES.into(), types: Vec::new() };
    session.prepare(&statement).await.unwrap();
    session.execute(0, &[]);
    session
}

/// A client that does not read: the worker packs two batches and stops, and what it holds is
/// bounded.
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

    let (rows, largest) = read(&mut session).await;
    assert_eq!(rows, 299_999);
    assert!((128 * 1024..=132 * 1024).contains(&largest), "a batch of {largest} bytes while one stream runs");
    let kept = session.link().spare_capacity();
    assert!(kept <= 8 * 1024, "an idle connection keeps {kept} bytes of a batch");
}

/// Reads to the end: the rows, and the largest batch that they came in.
async fn read(session: &mut Session) -> (usize, usize) {
    let (mut rows, mut largest) = (0, 0);
    while poll_fn(|cx| session.poll_row(cx).map(|row| row.unwrap().is_some())).await {
        rows += 1;
        largest = largest.max(session.batch.as_ref().unwrap().rows.capacity());
    }
    (rows, largest)
}

#[tokio::test]
async fn batches_are_small_while_many_streams_run() {
    let (_folder, source) = source();
    let others: Vec<_> = (0..31).map(|_| filling::start(&source.settings)).collect();
    let (rows, largest) = read(&mut started(&source).await).await;
    assert_eq!(rows, 300_000);
    assert!(largest <= 36 * 1024, "a batch of {largest} bytes while 32 streams run");
    drop(others);
    let (_, largest) = read(&mut started(&source).await).await;
    assert!(largest >= 128 * 1024, "a batch of {largest} bytes while one stream runs");
}

/// What one session has learnt of a statement serves the next one without a word to the worker.
#[tokio::test]
async fn a_statement_that_is_known_is_prepared_without_the_worker() {
    let (_folder, source) = source();
    drop(started(&source).await);
    let mut session =
        source.acquire(Snapshot::Statement, Priority::Stream, Waiter::default().begin()).await.unwrap();
    let known = Statement { sql: SERIES.into(), types: Vec::new() };
    let columns = {
        let mut prepare = std::pin::pin!(session.prepare(&known));
        let Poll::Ready(columns) = prepare.as_mut().poll(&mut Context::from_waker(Waker::noop())) else {
            panic!("it waits for the worker")
        };
        columns.unwrap()
    };
    assert_eq!(columns.len(), 2);
    // The same text for another number of parameters is another statement, which is refused.
    let other = Statement { types: vec![crate::params::ParamType::Integer.into()], ..known };
    assert_eq!(session.prepare(&other).await.unwrap_err().code(), "endpoint");
}

/// A session that has read its last row leaves nothing to be cleaned up: its place is free at once.
#[tokio::test]
async fn a_session_that_has_ended_gives_its_connection_back_itself() {
    let (_folder, source) = source();
    for _ in 0..100 {
        let mut session =
            source.acquire(Snapshot::Statement, Priority::Stream, Waiter::default().begin()).await.unwrap();
        session.prepare(&Statement { sql: "select 1".into(), types: Vec::new() }).await.unwrap();
        session.execute(0, &[]);
        assert_eq!(read(&mut session).await.0, 1);
        drop(session);
        assert_eq!(source.usage(), pool::Usage { used: 0, idle: 1, waiting: 0 });
    }
}

#[tokio::test]
async fn a_panic_of_the_worker_is_an_error_and_frees_the_place() {
    let (_folder, source) = source();
    let mut session = started(&source).await;
    read(&mut session).await;
    session.phase = Phase::Streaming;
    session.link().send(Command::Panic);
    let error = poll_fn(|cx| session.poll_row(cx).map(Result::err)).await.unwrap();
    assert_eq!(error.code(), "internal");
    drop(session);
    assert_eq!(source.usage(), pool::Usage { used: 0, idle: 0, waiting: 0 });
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
