//! Lookups: short statements of many requests, which share a connection and its thread.
//!
//! On a connection of its own, a lookup wakes two threads and has them sleep again, which costs
//! more than its statement. Here the lookups of a server's thread share one: what has been asked by
//! the time its driver gets to it goes to the worker together, and the answers come back together.
//! While they are awaited, the next batch gathers.
//!
//! ```text
//! request ──look_up()──► asked ──drive()──► worker, one after the other ──► request
//!                                              │
//!       Elsewhere: a connection of its own    ◄── it held up the others, its columns have changed,
//!                                                 or the connection was lost or could not be had
//! ```
//!
//! Statements only read, so whatever was not answered may be asked again. Invariants:
//!
//! 1. every lookup gets an answer; one whose sender is dropped goes elsewhere;
//! 2. what one of them meets, an error or a lock, is its own;
//! 3. a statement holds up the others for [`PATIENCE`], as the library calls back while it works
//!    ([`Driver::SHARES_LOOKUPS`]). Then it is ended, and runs on connections of its own for
//!    [`SLOW_FOR`];
//! 4. of an answer at most two rows are held, of which the second is only the proof that there is
//!    one too many.

use std::future::poll_fn;
use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use rowstream_encode::Column;
use tokio::sync::oneshot;
use tokio::time::{timeout, timeout_at};

use super::{Connections, Described, Driver, FileId, Session, Source, batch};
use crate::database::lookups::{Link, Links};
use crate::database::{LookupAnswer, Snapshot};
use rowstream_core::Error;
use rowstream_core::histogram::Histogram;
use rowstream_core::lock::Mutex;
use rowstream_core::params::ParamValue;
use rowstream_core::pool::{Patience, Priority, Waiter};

/// How long a statement may run while others wait. A lookup by a key takes a thousandth of it.
pub(super) const PATIENCE: Duration = Duration::from_millis(50);
/// How long a statement that took longer runs on connections of its own.
const SLOW_FOR: Duration = Duration::from_secs(10);
/// One row, and a second one as proof that there is one too many.
pub(super) const MAX_ROWS: usize = 2;

/// The links of one source.
pub(super) type Lookups<D> = Links<Queue<D>>;

/// Since when a statement is known to hold up others.
#[derive(Debug, Default)]
pub(super) struct Slow(Mutex<Option<Instant>>);

impl Slow {
    /// Whether the statement is to run on connections of its own.
    pub(super) fn is_slow(&self) -> bool {
        let mut since = self.0.lock();
        since.take_if(|since| since.elapsed() >= SLOW_FOR);
        since.is_some()
    }

    /// It has held up others.
    pub(super) fn note(&self) {
        *self.0.lock() = Some(Instant::now());
    }
}

/// What the worker is asked.
pub(super) struct Question<D: Driver> {
    /// The statement.
    pub(super) statement: Arc<Described<D::Plan>>,
    /// The values of its placeholders.
    pub(super) args: Vec<D::Argument>,
}

/// What became of a lookup.
pub(super) enum Outcome {
    /// Its rows, packed (see `batch.rs`).
    Rows(Vec<u8>),
    /// The statement failed.
    Failed(Error),
    /// It belongs on a connection of its own.
    Elsewhere,
}

/// Asks `statement` on the connection that this thread's lookups share. `None`: it belongs on a
/// connection of its own.
///
/// # Errors
/// The statement failed, or too many lookups are on their way.
pub(super) async fn look_up<D: Driver>(
    source: &Source<D>,
    statement: Arc<Described<D::Plan>>,
    args: &[&ParamValue],
    patience: Patience<'_>,
) -> Result<Option<Answer<D>>, Error> {
    let lookups = &source.lookups;
    let _pending = lookups.enter().ok_or_else(|| source.connections.pool.refuse(lookups.most))?;
    let queue = lookups.of_thread(|| Queue::open(&source.connections, &lookups.batches));
    let args = args.iter().map(|arg| D::argument(arg)).collect();
    let (reply, is_connected) = queue.ask(Question { statement: Arc::clone(&statement), args });
    let outcome = match is_connected {
        true => reply.await,
        // Its place in the pool may still be waited for, and nobody waits for one any longer.
        false => {
            let _wait = patience.wait();
            let until = patience.until(source.connections.pool.acquire_timeout());
            timeout_at(until, reply).await.unwrap_or(Ok(Outcome::Elsewhere))
        }
    };
    match outcome.unwrap_or(Outcome::Elsewhere) {
        Outcome::Rows(rows) => Ok(Some(Answer { described: statement, rows, at: 0 })),
        Outcome::Failed(error) => Err(error),
        Outcome::Elsewhere => Ok(None),
    }
}

/// What has been asked on one connection and is not run yet.
pub(super) struct Queue<D: Driver> {
    asked: Mutex<Asked<D>>,
    driver: Arc<D>,
    /// See [`Driver::file`].
    file: Option<FileId>,
}

struct Asked<D: Driver> {
    lookups: Vec<Lookup<D>>,
    driver: Option<Waker>,
    is_connected: bool,
    closed: bool,
}

/// One lookup, from its question to its answer.
struct Lookup<D: Driver> {
    question: Question<D>,
    reply: oneshot::Sender<Outcome>,
}

impl<D: Driver> Queue<D> {
    /// A queue whose connection a task of this runtime opens and drives.
    fn open(connections: &Connections<D>, batches: &Arc<Mutex<Histogram<u64>>>) -> Arc<Self> {
        let asked = Asked { lookups: Vec::new(), driver: None, is_connected: false, closed: false };
        let driver = Arc::clone(&connections.shared.driver);
        let file = driver.file();
        let this = Arc::new(Self { asked: Mutex::new(asked), driver, file });
        tokio::spawn(drive(connections.clone(), Arc::clone(&this), Arc::clone(batches)));
        this
    }

    /// Puts a lookup after those before it. Whether the connection is open.
    fn ask(&self, question: Question<D>) -> (oneshot::Receiver<Outcome>, bool) {
        let (reply, receiver) = oneshot::channel();
        let mut asked = self.asked.lock();
        let is_connected = asked.is_connected;
        if asked.closed {
            return (receiver, is_connected);
        }
        asked.lookups.push(Lookup { question, reply });
        let driver = asked.driver.take();
        drop(asked);
        driver.into_iter().for_each(Waker::wake);
        (receiver, is_connected)
    }

    /// What was asked, as one batch; `None`: the queue is closed.
    fn poll_batch(&self, cx: &Context<'_>) -> Poll<Option<Vec<Lookup<D>>>> {
        let mut asked = self.asked.lock();
        if asked.closed {
            return Poll::Ready(None);
        }
        if asked.lookups.is_empty() {
            asked.driver = Some(cx.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(Some(mem::take(&mut asked.lookups)))
    }
}

impl<D: Driver> Link for Queue<D> {
    /// True also once its file was replaced: lookups that aren't sent yet go elsewhere, to the
    /// new file.
    fn is_closed(&self) -> bool {
        if self.driver.file() != self.file {
            self.close();
        }
        self.asked.lock().closed
    }

    fn close(&self) {
        let mut asked = self.asked.lock();
        asked.closed = true;
        let (lookups, driver) = (mem::take(&mut asked.lookups), asked.driver.take());
        drop(asked);
        drop(lookups);
        driver.into_iter().for_each(Waker::wake);
    }
}

/// Ends the queue with the task that drives it, also where the runtime drops that: nobody may ask
/// where nobody answers.
struct CloseOnDrop<D: Driver>(Arc<Queue<D>>);

impl<D: Driver> Drop for CloseOnDrop<D> {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Opens the connection of a queue, and drives it until nothing was asked for the pool's
/// `idle_timeout`, the connection is lost, or the source is gone.
async fn drive<D: Driver>(
    connections: Connections<D>,
    queue: Arc<Queue<D>>,
    batches: Arc<Mutex<Histogram<u64>>>,
) {
    let open = CloseOnDrop(queue);
    let waiter = Waiter::default();
    let acquired = connections.acquire(Snapshot::Statement, Priority::Shared, waiter.begin()).await;
    let Ok(mut session) = acquired else { return };
    open.0.asked.lock().is_connected = true;
    let idle_timeout = session.idle_timeout();
    while let Ok(Some(lookups)) = timeout(idle_timeout, poll_fn(|cx| open.0.poll_batch(cx))).await {
        batches.lock().observe(lookups.len() as u64);
        if !run(&mut session, lookups).await {
            return;
        }
    }
}

/// Runs a batch. Whether the connection can run another.
async fn run<D: Driver>(session: &mut Session<D>, lookups: Vec<Lookup<D>>) -> bool {
    // Whoever has left meanwhile wants no answer.
    let asked = lookups.into_iter().filter(|lookup| !lookup.reply.is_closed());
    let (questions, replies): (Vec<_>, Vec<_>) = asked.map(|lookup| (lookup.question, lookup.reply)).unzip();
    let Ok(outcomes) = session.look_up(questions).await else { return false };
    for (reply, outcome) in replies.into_iter().zip(outcomes) {
        // A request that has gone needs no answer.
        let _ = reply.send(outcome);
    }
    true
}

/// The rows of a lookup, which have all come.
pub struct Answer<D: Driver> {
    described: Arc<Described<D::Plan>>,
    rows: Vec<u8>,
    /// Where the next one begins.
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
