//! A library that counts: the smallest driver. It tests behaviour of the hand-over that clients
//! can't see: the bound on batches, a worker that panics, and a library that hangs.

use std::sync::Condvar;
use std::task::{Context, Poll, Waker};

use rowstream_core::lock::Mutex;
use rowstream_core::params::ParamType;
use rowstream_core::pool::{PoolConfig, Usage, Waiter};
use rowstream_core::sql::dialect::samples;
use rowstream_encode::{ColumnKind, RowWriter, Value};

use super::session::Phase;
use super::*;
use crate::{DatabaseSession as _, LookupAnswer as _, RowLayout};

/// The number of rows of a statement that isn't a number.
const MANY: usize = 300_000;

/// Counts. A statement that is a number returns that many rows, starting from its argument. `panic`
/// panics, `fail` fails, `slow` computes until it must stop, and `hang` hangs until it's
/// interrupted.
pub(super) struct Numbers;

/// True once the connection was interrupted.
#[derive(Clone, Default)]
pub(super) struct InterruptFlag(Arc<(Mutex<bool>, Condvar)>);

impl Interrupt for InterruptFlag {
    fn interrupt(&self) {
        *self.0.0.lock() = true;
        self.0.1.notify_all();
    }
}

pub(super) struct NumbersConnection(InterruptFlag);

pub(super) struct NumberRows<'r> {
    connection: &'r NumbersConnection,
    sql: &'r str,
    next: i64,
    end: i64,
}

pub(super) struct Row<'a>(&'a [u8]);

pub(super) struct Layout;

pub(super) struct NumbersChanges;

impl Driver for Numbers {
    type Connection = NumbersConnection;
    type Argument = i64;
    type Plan = ();
    type Row<'a> = Row<'a>;
    type Changes = NumbersChanges;

    const DIALECT: &'static Dialect = &samples::ANONYMOUS;
    const IDLE: usize = 0;
    const SHARES_LOOKUPS: bool = true;

    fn new(_: &SourceSettings) -> Result<Self, Error> {
        Ok(Self)
    }

    fn held(_: &SourceSettings) -> usize {
        0
    }

    fn connect(self: &Arc<Self>) -> Result<NumbersConnection, Error> {
        Ok(NumbersConnection(InterruptFlag::default()))
    }

    async fn changes(self: &Arc<Self>, _: Option<&str>, _: Duration) -> Result<NumbersChanges, Error> {
        Ok(NumbersChanges)
    }

    fn argument(param: &ParamValue) -> Result<i64, Error> {
        Ok(match param {
            ParamValue::Integer(number) => *number,
            _ => 0,
        })
    }

    fn row<'a>(_: &'a StatementDescription<()>, packed: &'a [u8]) -> Row<'a> {
        Row(packed)
    }
}

impl DriverConnection for NumbersConnection {
    type Driver = Numbers;
    type Interrupt = InterruptFlag;
    type Statement<'c> = i64;
    type Rows<'r> = NumberRows<'r>;

    fn interrupt(&self) -> InterruptFlag {
        self.0.clone()
    }

    fn describe(&self, statement: &Statement) -> Result<(Arc<[Column]>, ()), Error> {
        if statement.types.len() > 1 {
            return Err(Error::endpoint("numbers have one argument"));
        }
        Ok(([Column { name: "n".into(), type_name: "int".into(), kind: ColumnKind::Int64 }].into(), ()))
    }

    fn begin(&self) -> Result<(), Error> {
        Ok(())
    }

    fn compile(&self, _: &StatementDescription<()>, args: &[i64]) -> Result<i64, Failure> {
        Ok(args.first().copied().unwrap_or_default())
    }

    fn rows<'r, 'c: 'r>(
        &'r self,
        first: &'r mut i64,
        described: &'r StatementDescription<()>,
    ) -> NumberRows<'r> {
        let rows = described.statement.sql.parse().unwrap_or(MANY as i64);
        NumberRows { connection: self, sql: &described.statement.sql, next: *first - 1, end: *first + rows }
    }

    fn clean_up(&self) -> bool {
        *self.0.0.0.lock() = false;
        true
    }
}

impl DriverRows for NumberRows<'_> {
    fn first(&mut self) -> Result<bool, Failure> {
        match self.sql {
            "panic" => panic!("as a bug of ours would"),
            "fail" => Err(Error::protocol("as a statement does").into()),
            "slow" => {
                while !tick() {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(Error::protocol("stopped").into())
            }
            "hang" => {
                let (interrupted, woken) = &*self.connection.0.0;
                let _held = woken.wait_while(interrupted.lock(), |interrupted| !*interrupted);
                Err(Error::protocol("interrupted").into())
            }
            _ => DriverRows::next(self),
        }
    }

    fn next(&mut self) -> Result<bool, Failure> {
        self.next += 1;
        Ok(self.next < self.end)
    }

    /// Packs a number and some text, for a row of some twenty bytes.
    fn pack(&self, _: usize, batch: &mut Vec<u8>) -> Result<(), Error> {
        batch.extend_from_slice(&self.next.to_le_bytes());
        batch.extend_from_slice(b"a number.");
        Ok(())
    }
}

impl DatabaseRow for Row<'_> {
    type Layout = Layout;

    fn encode(self, encoder: &mut impl RowWriter, out: &mut Vec<u8>) -> Result<(), Error> {
        encoder.begin_row(out);
        encoder.value(Value::Int(self.number()), out);
        encoder.end_row(out);
        Ok(())
    }

    fn layout(&self) -> Layout {
        Layout
    }

    fn bytes(&self) -> &[u8] {
        self.0
    }
}

impl Row<'_> {
    fn number(&self) -> i64 {
        i64::from_le_bytes(*self.0.first_chunk().unwrap())
    }
}

impl RowLayout for Layout {
    type Row<'a> = Row<'a>;

    fn row<'a>(&'a mut self, bytes: &'a [u8]) -> Row<'a> {
        Row(bytes)
    }
}

impl ChangeSource for NumbersChanges {
    const IS_LOST_FOR_GOOD: bool = false;

    async fn next(&mut self) -> Result<(), Error> {
        std::future::pending().await
    }
}

/// Makes a source with one connection.
fn source() -> Source<Numbers> {
    // On a busy machine, the thread that we wait for may be scheduled late.
    let pool = PoolConfig { max: 1, acquire_timeout: Duration::from_secs(60), ..PoolConfig::default() };
    Source::open(&SourceSettings { pool, ..SourceSettings::new("numbers", "") }).unwrap()
}

async fn session(source: &Source<Numbers>, snapshot: Snapshot) -> Session<Numbers> {
    source.acquire(snapshot, Priority::Stream, Waiter::default().begin()).await.unwrap()
}

async fn started(source: &Source<Numbers>, sql: &str) -> Session<Numbers> {
    let mut session = session(source, Snapshot::Statement).await;
    session.prepare(&Statement { sql: sql.into(), types: Vec::new(), ad_hoc: false }).await.unwrap();
    session.execute(0, &[]);
    session
}

/// Returns the number of the next row.
async fn next(session: &mut Session<Numbers>) -> Option<i64> {
    poll_fn(|cx| session.poll_row(cx).map(|row| row.unwrap().map(|row| row.number()))).await
}

/// Reads to the end. Returns the number of rows and the capacity of the largest batch.
async fn read(session: &mut Session<Numbers>) -> (usize, usize) {
    let (mut rows, mut largest) = (0, 0);
    while next(session).await.is_some() {
        rows += 1;
        largest = largest.max(session.batch.as_ref().unwrap().rows.capacity());
    }
    (rows, largest)
}

/// If the client doesn't read, the worker packs two batches and stops, so its memory is bounded.
#[tokio::test]
async fn a_session_that_does_not_read_stops_the_worker() {
    let source = source();
    let mut session = started(&source, "many").await;
    assert_eq!(next(&mut session).await, Some(0));
    tokio::time::sleep(Duration::from_millis(200)).await;
    let first = session.batch.as_ref().unwrap().rows.len();
    assert!((4096..8192).contains(&first), "the first batch is small: {first}");

    let mut cx = Context::from_waker(Waker::noop());
    let reply = session.link().poll_reply(&mut cx);
    assert!(reply.is_pending(), "a third batch was made while the first is still read");

    let (rows, largest) = read(&mut session).await;
    assert_eq!(rows, MANY - 1);
    assert!((128 * 1024..=132 * 1024).contains(&largest), "a batch of {largest} bytes while one stream runs");
    let kept = session.link().spare_capacity();
    assert!(kept <= 8 * 1024, "an idle connection keeps {kept} bytes of a batch");
}

#[tokio::test]
async fn batches_are_small_while_many_streams_run() {
    let source = source();
    let others: Vec<_> = (0..31).map(|_| filling::start(&source.connections.shared.running, None)).collect();
    let (rows, largest) = read(&mut started(&source, "many").await).await;
    assert_eq!(rows, MANY);
    assert!(largest <= 36 * 1024, "a batch of {largest} bytes while 32 streams run");
    drop(others);
    let (_, largest) = read(&mut started(&source, "many").await).await;
    assert!(largest >= 128 * 1024, "a batch of {largest} bytes while one stream runs");
}

/// A statement that one session has described is prepared in the next one without the worker.
#[tokio::test]
async fn a_statement_that_is_known_is_prepared_without_the_worker() {
    let source = source();
    drop(started(&source, "many").await);
    let mut session = session(&source, Snapshot::Statement).await;
    let known = Statement { sql: "many".into(), types: Vec::new(), ad_hoc: false };
    let columns = {
        let mut prepare = std::pin::pin!(session.prepare(&known));
        let Poll::Ready(columns) = prepare.as_mut().poll(&mut Context::from_waker(Waker::noop())) else {
            panic!("it waits for the worker")
        };
        columns.unwrap()
    };
    assert_eq!(columns.len(), 1);
    // The same text with another number of parameters is another statement, and refused.
    let other = Statement { types: vec![ParamType::Integer.into(); 2], ..known };
    assert_eq!(session.prepare(&other).await.unwrap_err().code(), "endpoint");
}

/// A session that has read its last row needs no cleaning up: its connection is free at once.
#[tokio::test]
async fn a_session_that_has_ended_gives_its_connection_back_itself() {
    let source = source();
    for _ in 0..100 {
        let mut session = started(&source, "1").await;
        assert_eq!(read(&mut session).await.0, 1);
        drop(session);
        assert_eq!(source.usage(), Usage { used: 0, idle: 1, waiting: 0 });
    }
}

#[tokio::test]
async fn interleaved_statements_have_their_own_rows() {
    let source = source();
    let mut session = session(&source, Snapshot::Transaction).await;
    for sql in ["3000", "2000"] {
        let statement = Statement { sql: sql.into(), types: vec![ParamType::Integer.into()], ad_hoc: false };
        session.prepare(&statement).await.unwrap();
    }
    let (first, second) = (ParamValue::Integer(0), ParamValue::Integer(1_000_000));
    session.execute_interleaved(&[(0, vec![&first]), (1, vec![&second])]);
    let mut next = async |which| {
        poll_fn(|cx| session.poll_row_of(which, cx).map(|row| row.unwrap().map(|row| row.number()))).await
    };
    for i in 0..3000 {
        assert_eq!(next(0).await, Some(i));
        assert_eq!(next(1).await, (i < 2000).then_some(1_000_000 + i));
    }
    assert_eq!((next(0).await, next(1).await), (None, None));
    assert!(matches!(session.phase, Phase::Ready));
}

#[tokio::test]
async fn a_panic_of_the_worker_is_an_error_and_frees_the_place() {
    let source = source();
    let mut session = started(&source, "panic").await;
    let error = poll_fn(|cx| session.poll_row(cx).map(Result::err)).await.unwrap();
    assert_eq!(error.code(), "internal");
    drop(session);
    assert_eq!(source.usage(), Usage { used: 0, idle: 0, waiting: 0 });
    drop(started(&source, "1").await);
}

/// A library that never returns would keep the connection forever. The interrupt of one session
/// must not reach the next one's statement.
#[tokio::test]
async fn what_a_session_that_left_runs_is_interrupted() {
    let source = source();
    for _ in 0..100 {
        let mut hanging = started(&source, "hang").await;
        let mut cx = Context::from_waker(Waker::noop());
        assert!(hanging.poll_row(&mut cx).is_pending());
        drop(hanging);
        // The pool has one connection, and this session waits for it.
        let mut session = started(&source, "1").await;
        assert_eq!((next(&mut session).await, next(&mut session).await), (Some(0), None));
    }
}

/// Makes a source whose lookups share a connection, and which already knows these statements.
async fn sharing(statements: &[&str]) -> Source<Numbers> {
    let pool = PoolConfig { max: 4, acquire_timeout: Duration::from_secs(60), ..PoolConfig::default() };
    let source = Source::open(&SourceSettings { pool, ..SourceSettings::new("numbers", "") }).unwrap();
    let mut session = session(&source, Snapshot::Statement).await;
    for sql in statements {
        session.prepare(&look_up_of(sql)).await.unwrap();
    }
    source
}

fn look_up_of(sql: &str) -> Statement {
    Statement { sql: sql.into(), types: vec![ParamType::Integer.into()], ad_hoc: false }
}

/// Returns the numbers of a lookup; `None`: it must run on its own connection.
async fn look_up(source: &Source<Numbers>, sql: &str, first: i64) -> Result<Option<Vec<i64>>, Error> {
    let (statement, first) = (look_up_of(sql), ParamValue::Integer(first));
    let waiter = Waiter::default();
    let answer = Database::look_up(source, &statement, &[&first], waiter.begin()).await?;
    Ok(answer.map(|mut answer| {
        std::iter::from_fn(|| answer.next_row().map(|row| row.number())).collect::<Vec<_>>()
    }))
}

/// Returns the number of batches, and of the lookups in them.
fn batches(source: &Source<Numbers>) -> (u64, u64) {
    let batches = Database::lookups(source).unwrap().batches;
    (batches.count(), batches.sum())
}

#[tokio::test]
async fn lookups_that_are_asked_together_run_together() {
    let source = sharing(&["0", "1", "many"]).await;
    let asked = (0..100).map(|i| look_up(&source, if i % 2 == 0 { "1" } else { "many" }, i));
    for (i, numbers) in (0..100).zip(futures_util::future::join_all(asked).await) {
        // If there are many rows, the answer has two, to prove that there are too many.
        let expected = if i % 2 == 0 { vec![i] } else { vec![i, i + 1] };
        assert_eq!(numbers.unwrap(), Some(expected));
    }
    assert_eq!(look_up(&source, "0", 7).await.unwrap(), Some(vec![]));
    assert_eq!(batches(&source), (2, 101));
    assert_eq!(look_up(&source, "2", 7).await.unwrap(), None, "it is not known");
    // They share one connection of the pool.
    assert_eq!(source.usage().used, 1);
    assert_eq!(Database::lookups(&source).unwrap().pending, 0);
}

#[tokio::test]
async fn what_a_lookup_meets_is_its_own() {
    let source = sharing(&["1", "fail", "panic", "slow"]).await;
    let (one, failed, slow, also_slow, other) = tokio::join!(
        look_up(&source, "1", 1),
        look_up(&source, "fail", 2),
        look_up(&source, "slow", 3),
        look_up(&source, "slow", 4),
        look_up(&source, "1", 5),
    );
    assert_eq!((one.unwrap(), other.unwrap()), (Some(vec![1]), Some(vec![5])));
    assert_eq!(failed.unwrap_err().code(), "source_protocol");
    assert_eq!((slow.unwrap(), also_slow.unwrap()), (None, None));
    assert_eq!(batches(&source), (1, 5));
    // It's known to be slow, so it doesn't share again.
    assert_eq!(look_up(&source, "slow", 3).await.unwrap(), None);
    assert_eq!(batches(&source), (1, 5));
    // A worker that panics loses its batch, so its lookups run elsewhere.
    let (before, panics, after) =
        tokio::join!(look_up(&source, "1", 1), look_up(&source, "panic", 2), look_up(&source, "1", 3));
    assert_eq!((before.unwrap(), panics.unwrap(), after.unwrap()), (None, None, None));
    assert_eq!(source.usage().used, 0);
    assert_eq!(look_up(&source, "1", 8).await.unwrap(), Some(vec![8]));
}

#[tokio::test]
async fn a_lookup_that_was_left_is_not_run() {
    let source = sharing(&["1", "many"]).await;
    {
        let mut left = std::pin::pin!(look_up(&source, "many", 1));
        let mut cx = Context::from_waker(Waker::noop());
        assert!(left.as_mut().poll(&mut cx).is_pending());
    }
    assert_eq!(look_up(&source, "1", 2).await.unwrap(), Some(vec![2]));
    assert_eq!(Database::lookups(&source).unwrap().pending, 0);
}

/// Once the source is gone, the connection returns to the pool, and no lookup waits for an answer.
#[tokio::test]
async fn a_source_that_is_gone_ends_its_lookups() {
    let source = sharing(&["1"]).await;
    assert_eq!(look_up(&source, "1", 1).await.unwrap(), Some(vec![1]));
    let pool = source.connections.pool.clone();
    assert_eq!(pool.usage().used, 1);
    drop(source);
    tokio::time::timeout(Duration::from_secs(20), async {
        while pool.usage().used > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await
    .expect("the place is given back");
}
