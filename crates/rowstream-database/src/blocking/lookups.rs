//! Lookups: short statements of many requests, which share a connection and its thread.
//!
//! On its own connection, a lookup puts two threads to sleep and wakes them, which costs more than
//! its statement. Here the lookups of a server's thread share one connection, which a task drives
//! (`drive`). When that task runs, it sends all queued lookups to the worker as one batch, and
//! their answers return together. Meanwhile, the next batch accumulates.
//!
//! ```text
//! request ──look_up()──► asked ──drive()──► worker, one after the other ──► request
//!                                              │
//!       Elsewhere: its own connection         ◄── it delayed the others, its columns have changed,
//!                                                 or the connection was lost or couldn't be opened
//! ```
//!
//! Statements only read, so an unanswered one can be run again. Invariants:
//!
//! 1. every lookup gets an answer; if its sender is dropped, it runs elsewhere;
//! 2. an error or a lock that a lookup meets affects only that lookup;
//! 3. a statement delays the others for at most [`PATIENCE`], because the library calls back while
//!    it works ([`Driver::SHARES_LOOKUPS`]). Then we end it, and run it on its own connections for
//!    [`SLOW_FOR`];
//! 4. an answer holds at most two rows. The second one only proves that there are too many.

use std::future::poll_fn;
use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use rowstream_core::Error;
use rowstream_core::histogram::Histogram;
use rowstream_core::lock::Mutex;
use rowstream_core::params::ParamValue;
use rowstream_core::pool::{Patience, Priority, Waiter};
use rowstream_encode::Column;
use tokio::sync::oneshot;
use tokio::time::{timeout, timeout_at};

use super::{Connections, Driver, FileId, Session, Source, StatementDescription, batch};
use crate::lookups::{Link, Links};
use crate::{LookupAnswer, Snapshot};

/// How long a statement can run while others wait. A lookup by a key needs a thousandth of it.
pub(super) const PATIENCE: Duration = Duration::from_millis(50);
/// How long a slow statement runs on its own connections.
const SLOW_FOR: Duration = Duration::from_secs(10);
/// One row, and a second one that proves that there are too many.
pub(super) const MAX_ROWS: usize = 2;

/// The links of one source.
pub(super) type LookupQueues<D> = Links<Queue<D>>;

/// When a statement was last found to delay others.
#[derive(Debug, Default)]
pub(super) struct DelayMark(Mutex<Option<Instant>>);

impl DelayMark {
    /// Returns true if the statement must run on its own connection.
    pub(super) fn is_slow(&self) -> bool {
        let mut since = self.0.lock();
        since.take_if(|since| since.elapsed() >= SLOW_FOR);
        since.is_some()
    }

    /// Records that it delayed others.
    pub(super) fn note(&self) {
        *self.0.lock() = Some(Instant::now());
    }
}

/// A lookup's request to the worker.
pub(super) struct LookupRequest<D: Driver> {
    /// The statement.
    pub(super) statement: Arc<StatementDescription<D::Plan>>,
    /// The values of its placeholders.
    pub(super) args: Vec<D::Argument>,
}

/// The outcome of a lookup.
pub(super) enum LookupOutcome {
    /// Its rows, packed (see `batch.rs`).
    Rows(Vec<u8>),
    /// The statement failed.
    Failed(Error),
    /// It must run on its own connection.
    Elsewhere,
}

/// Runs `statement` on the connection that this thread's lookups share. Returns `None` if it must
/// run on its own connection.
///
/// # Errors
/// The statement or an argument failed, or too many lookups are pending.
pub(super) async fn look_up<D: Driver>(
    source: &Source<D>,
    statement: Arc<StatementDescription<D::Plan>>,
    args: &[&ParamValue],
    patience: Patience<'_>,
) -> Result<Option<Answer<D>>, Error> {
    let lookups = &source.lookups;
    let _pending = lookups.enter().ok_or_else(|| source.connections.pool.refuse(lookups.most))?;
    let queue = lookups.of_thread(|| Queue::open(&source.connections, &lookups.batches));
    let args = args.iter().map(|arg| D::argument(arg)).collect::<Result<_, _>>()?;
    let (reply, is_connected) = queue.ask(LookupRequest { statement: Arc::clone(&statement), args });
    let outcome = match is_connected {
        true => reply.await,
        // The shared connection may still wait in the pool's queue. We wait for it no longer than
        // for our own connection.
        false => {
            let _wait = patience.wait();
            let until = patience.until(source.connections.pool.acquire_timeout());
            timeout_at(until, reply).await.unwrap_or(Ok(LookupOutcome::Elsewhere))
        }
    };
    match outcome.unwrap_or(LookupOutcome::Elsewhere) {
        LookupOutcome::Rows(rows) => Ok(Some(Answer { described: statement, rows, at: 0 })),
        LookupOutcome::Failed(error) => Err(error),
        LookupOutcome::Elsewhere => Ok(None),
    }
}

/// The lookups of one connection that aren't running yet.
pub(super) struct Queue<D: Driver> {
    state: Mutex<QueueState<D>>,
    driver: Arc<D>,
    /// See [`Driver::file`].
    file: Option<FileId>,
}

struct QueueState<D: Driver> {
    lookups: Vec<QueuedLookup<D>>,
    driver: Option<Waker>,
    is_connected: bool,
    closed: bool,
}

/// A queued lookup and the channel for its answer.
struct QueuedLookup<D: Driver> {
    request: LookupRequest<D>,
    reply: oneshot::Sender<LookupOutcome>,
}

impl<D: Driver> Queue<D> {
    /// Opens a queue. A task of this runtime opens its connection and drives it.
    fn open(connections: &Connections<D>, batches: &Arc<Mutex<Histogram<u64>>>) -> Arc<Self> {
        let state = QueueState { lookups: Vec::new(), driver: None, is_connected: false, closed: false };
        let driver = Arc::clone(&connections.shared.driver);
        let file = driver.file();
        let this = Arc::new(Self { state: Mutex::new(state), driver, file });
        tokio::spawn(drive(connections.clone(), Arc::clone(&this), Arc::clone(batches)));
        this
    }

    /// Appends a lookup to the queue. The flag is true if the connection is open.
    fn ask(&self, request: LookupRequest<D>) -> (oneshot::Receiver<LookupOutcome>, bool) {
        let (reply, receiver) = oneshot::channel();
        let mut state = self.state.lock();
        let is_connected = state.is_connected;
        if state.closed {
            return (receiver, is_connected);
        }
        state.lookups.push(QueuedLookup { request, reply });
        let driver = state.driver.take();
        drop(state);
        driver.into_iter().for_each(Waker::wake);
        (receiver, is_connected)
    }

    /// Returns all queued lookups as one batch; `None`: the queue is closed.
    fn poll_batch(&self, cx: &Context<'_>) -> Poll<Option<Vec<QueuedLookup<D>>>> {
        let mut state = self.state.lock();
        if state.closed {
            return Poll::Ready(None);
        }
        if state.lookups.is_empty() {
            state.driver = Some(cx.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(Some(mem::take(&mut state.lookups)))
    }
}

impl<D: Driver> Link for Queue<D> {
    /// Also true once its file was replaced: lookups that we haven't sent yet run elsewhere, on the
    /// new file.
    fn is_closed(&self) -> bool {
        if self.driver.file() != self.file {
            self.close();
        }
        self.state.lock().closed
    }

    fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        let (lookups, driver) = (mem::take(&mut state.lookups), state.driver.take());
        drop(state);
        drop(lookups);
        driver.into_iter().for_each(Waker::wake);
    }
}

/// Closes the queue when its driving task ends or the runtime drops it, so that no lookup waits
/// forever.
struct QueueCloser<D: Driver>(Arc<Queue<D>>);

impl<D: Driver> Drop for QueueCloser<D> {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Opens the connection of a queue and drives it. Ends once no lookup has arrived for the pool's
/// `idle_timeout`, when the connection is lost, or when the source is gone.
async fn drive<D: Driver>(
    connections: Connections<D>,
    queue: Arc<Queue<D>>,
    batches: Arc<Mutex<Histogram<u64>>>,
) {
    let open = QueueCloser(queue);
    let waiter = Waiter::default();
    let acquired = connections.acquire(Snapshot::Statement, Priority::Shared, waiter.begin()).await;
    let Ok(mut session) = acquired else { return };
    open.0.state.lock().is_connected = true;
    let idle_timeout = session.idle_timeout();
    while let Ok(Some(lookups)) = timeout(idle_timeout, poll_fn(|cx| open.0.poll_batch(cx))).await {
        batches.lock().observe(lookups.len() as u64);
        if !run(&mut session, lookups).await {
            return;
        }
    }
}

/// Runs a batch. Returns true if the connection can run another.
async fn run<D: Driver>(session: &mut Session<D>, lookups: Vec<QueuedLookup<D>>) -> bool {
    // Skips requests that have left meanwhile.
    let live = lookups.into_iter().filter(|lookup| !lookup.reply.is_closed());
    let (requests, replies): (Vec<_>, Vec<_>) = live.map(|lookup| (lookup.request, lookup.reply)).unzip();
    let Ok(outcomes) = session.look_up(requests).await else { return false };
    for (reply, outcome) in replies.into_iter().zip(outcomes) {
        // The request may have left.
        let _ = reply.send(outcome);
    }
    true
}

/// The complete rows of a lookup.
pub struct Answer<D: Driver> {
    described: Arc<StatementDescription<D::Plan>>,
    rows: Vec<u8>,
    /// The position of the next row.
    at: usize,
}

impl<D: Driver> LookupAnswer for Answer<D> {
    type Row<'a> = D::Row<'a>;

    fn columns(&self) -> Arc<[Column]> {
        Arc::clone(&self.described.columns)
    }

    fn next_row(&mut self) -> Option<D::Row<'_>> {
        if self.at == self.rows.len() {
            return None;
        }
        let (values, next) = batch::row_at(&self.rows, self.at);
        self.at = next;
        Some(D::row(&self.described, values))
    }
}
