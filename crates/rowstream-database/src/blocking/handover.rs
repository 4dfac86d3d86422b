//! The hand-over between a session and the thread of its connection, the worker.
//!
//! ```text
//!   session              WorkerLink             worker
//!   send()        ─────►  command  ─────►  next()
//!   poll_reply()  ◄─────  reply    ◄─────  reply(), hand_over(), try_hand_over()
//!   give_spare()  ─────►  spare    ─────►  hand_over(), try_hand_over()
//!   leave()       ─────►  leaving  ─────►  next(), then ReturningConnection::give_back()
//!   drop(Connection) ──►  closed   ─────►  next()
//!                         dead     ◄─────  die()
//!                        interrupt ◄─────  opened()
//! ```
//!
//! Invariants:
//!
//! 1. A session has two batches, not counting those of interleaved statements, which travel with
//!    `Fetch` and `Rows`. The worker fills one batch; the other is in `reply`, with the session, or
//!    in `spare`. The worker hands its batch over only in exchange for the spare one, so a session
//!    that doesn't read stops it.
//! 2. `abandoned` is set together with `leaving`, and the worker clears it when it takes `leaving`.
//!    So only a call of that session can see it. The connection returns to the pool after that, so
//!    an interrupt of one session's statement can't hit the next one's. The same is true for
//!    [`Interrupt`]: it's called under the lock that the worker needs to take `leaving`.
//! 3. Exactly one owner has a lease: the session, `leaving`, or the worker's cleaning. If the
//!    worker is dead, the owner drops the lease, which frees it.
//! 4. A session without an open transaction that has taken all its replies leaves nothing behind.
//!    The statement was reset before its end was handed over. `command`, `reply` and `waker` are
//!    empty, and both batches are in their initial places. This session returns its connection
//!    itself, without the worker.
//! 5. `waiting` is set under the lock, exactly while the worker sleeps or is about to. We wake the
//!    worker only then, because a wake-up is a system call even if no thread sleeps.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard, OnceLock};
use std::task::{Context, Poll, Waker};

use http::StatusCode;
use rowstream_core::Error;
use rowstream_core::lock::{Condvar, Mutex};
use rowstream_core::pool::Lease;

use super::filling::{self, BatchReceiver};
use super::lookups::{LookupOutcome, LookupRequest};
use super::{Driver, DriverConnection, FileId, Interrupt, StatementDescription};
use crate::Statement;

/// A session's request to its worker.
pub(super) enum Command<D: Driver> {
    /// Describe a statement; answered by `Described` or `Failed`.
    Describe(Statement),
    /// Run a described statement; answered by `Rows` until one of them has an end.
    Execute {
        /// The statement.
        statement: Arc<StatementDescription<D::Plan>>,
        /// The values of its placeholders.
        args: Vec<D::Argument>,
        /// It belongs to a transaction, which the first statement opens.
        transaction: bool,
        /// How many columns are sent as batches; `None`: all are sent as rows.
        batches: Option<usize>,
    },
    /// Begin interleaved statements in one transaction, and fetch the first rows.
    Interleave(Vec<StatementRun<D>>, FetchRequest),
    /// Step one of these statements; answered by `Rows`, which has an end if the statement has
    /// ended.
    Fetch(FetchRequest),
    /// Run lookups, one after the other; answered by `LookedUp`.
    LookUp(Vec<LookupRequest<D>>),
}

/// A statement that is interleaved with others.
pub(super) struct StatementRun<D: Driver> {
    /// The statement.
    pub(super) statement: Arc<StatementDescription<D::Plan>>,
    /// The values of its placeholders.
    pub(super) args: Vec<D::Argument>,
}

/// A request for the next rows of one statement.
pub(super) struct FetchRequest {
    /// The statement's index among the interleaved ones.
    pub(super) which: usize,
    /// A batch that the session has read, to be filled again.
    pub(super) rows: Vec<u8>,
}

/// The worker's reply.
pub(super) enum WorkerReply<P> {
    /// The connection is open.
    Opened,
    /// The description of a statement.
    Described(Arc<StatementDescription<P>>),
    /// Rows of the running statement.
    Rows(RowBatch),
    /// The outcomes of the lookups, in their order.
    LookedUp(Vec<LookupOutcome>),
    /// The request failed. For a statement's rows, `RowBatch::end` has the error instead.
    Failed(Error),
}

/// Rows that are handed over together.
pub(super) struct RowBatch {
    /// The rows, packed (see `batch.rs`).
    pub(super) rows: Vec<u8>,
    /// The statement's result, in its last batch.
    pub(super) end: Option<Result<(), Error>>,
}

/// The worker's next task.
pub(super) enum Work<D: Driver> {
    /// A request of the session.
    Command(Command<D>),
    /// The session is gone: clean up and return the connection.
    Leave(ReturningConnection<D>),
    /// The connection is closed.
    Close,
}

/// A connection on its way back to the pool.
pub(super) struct ReturningConnection<D: Driver> {
    /// The lease of the connection.
    pub(super) place: Lease<Connection<D>>,
    /// The connection.
    pub(super) connection: Connection<D>,
}

impl<D: Driver> ReturningConnection<D> {
    /// Returns the connection to the pool.
    pub(super) fn give_back(self) {
        self.place.give_back(self.connection);
    }
}

/// An open connection, as the pool keeps it. Dropping it ends the worker, which closes the
/// connection.
pub struct Connection<D: Driver> {
    link: Arc<WorkerLink<D>>,
    file: Option<FileId>,
}

impl<D: Driver> Connection<D> {
    /// Makes a connection to `file`, whose worker has the other end of `link`.
    pub(super) fn new(link: Arc<WorkerLink<D>>, file: Option<FileId>) -> Self {
        Self { link, file }
    }

    /// The session's end of the hand-over.
    pub(super) fn link(&self) -> &WorkerLink<D> {
        &self.link
    }

    /// See [`Driver::file`].
    pub(super) fn file(&self) -> Option<FileId> {
        self.file
    }
}

impl<D: Driver> Drop for Connection<D> {
    fn drop(&mut self) {
        let mut state = self.link.lock();
        state.closed = true;
        self.link.wake_worker(state);
    }
}

/// The hand-over of one connection; see the module's docs.
pub(super) struct WorkerLink<D: Driver> {
    state: Mutex<State<D>>,
    /// Interrupts the library's call for a session that has left. Set once the connection is open.
    interrupt: OnceLock<<D::Connection as DriverConnection>::Interrupt>,
    /// The worker waits here.
    work: Condvar,
    /// The session has left, and the worker hasn't noticed yet. The worker reads it without the
    /// lock while the library works.
    abandoned: AtomicBool,
}

struct State<D: Driver> {
    command: Option<Command<D>>,
    reply: Option<WorkerReply<D::Plan>>,
    spare: Option<Vec<u8>>,
    leaving: Option<ReturningConnection<D>>,
    waker: Option<Waker>,
    /// The worker sleeps.
    waiting: bool,
    closed: bool,
    dead: bool,
}

impl<D: Driver> State<D> {
    /// The state of a new connection.
    fn new() -> Self {
        Self {
            command: None,
            reply: None,
            spare: Some(Vec::new()),
            leaving: None,
            waker: None,
            waiting: false,
            closed: false,
            dead: false,
        }
    }
}

/// The session's side.
impl<D: Driver> WorkerLink<D> {
    /// Makes the hand-over of a connection that is about to be opened.
    pub(super) fn new() -> Self {
        Self {
            state: Mutex::new(State::new()),
            interrupt: OnceLock::new(),
            work: Condvar::new(),
            abandoned: AtomicBool::new(false),
        }
    }

    /// The capacity of the spare batch.
    #[cfg(test)]
    pub(super) fn spare_capacity(&self) -> usize {
        self.lock().spare.as_ref().map_or(0, Vec::capacity)
    }

    fn lock(&self) -> MutexGuard<'_, State<D>> {
        self.state.lock()
    }

    /// Sends a request to the worker. The reply to the previous one must have been taken.
    pub(super) fn send(&self, command: Command<D>) {
        let mut state = self.lock();
        state.command = Some(command);
        self.wake_worker(state);
    }

    /// Returns the worker's next reply.
    pub(super) fn poll_reply(&self, cx: &mut Context<'_>) -> Poll<WorkerReply<D::Plan>> {
        let mut state = self.lock();
        match state.reply.take() {
            Some(reply) => Poll::Ready(reply),
            None if state.dead => Poll::Ready(WorkerReply::Failed(worker_gone(D::DIALECT.name))),
            None => {
                state.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Gives a batch back after reading it, to be filled again.
    pub(super) fn give_spare(&self, mut rows: Vec<u8>) {
        rows.clear();
        let mut state = self.lock();
        state.spare = Some(rows);
        self.wake_worker(state);
    }

    /// Gives the last batch of a statement back. The worker isn't woken, because it waits for a
    /// command, not for the batch.
    pub(super) fn give_last(&self, mut rows: Vec<u8>) {
        filling::empty(&mut rows);
        self.lock().spare = Some(rows);
    }

    /// Returns true if the worker is gone, and the connection with it.
    pub(super) fn is_dead(&self) -> bool {
        self.lock().dead
    }

    /// Ends the session: the worker stops its statement, cleans up, and returns the connection. If
    /// the worker is gone, this drops the connection and its lease.
    pub(super) fn leave(leaving: ReturningConnection<D>) {
        let link = Arc::clone(&leaving.connection.link);
        let mut state = link.lock();
        if state.dead {
            // The drop of `Connection` takes the lock.
            drop(state);
            return drop(leaving);
        }
        link.abandoned.store(true, Ordering::Relaxed);
        state.leaving = Some(leaving);
        if let Some(interrupt) = link.interrupt.get().filter(|_| !state.waiting) {
            interrupt.interrupt();
        }
        link.wake_worker(state);
    }

    /// Wakes the worker if it sleeps. It will need the lock, so we release that first.
    fn wake_worker(&self, mut state: MutexGuard<'_, State<D>>) {
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        if waiting {
            self.work.notify_one();
        }
    }
}

/// The worker's side.
impl<D: Driver> WorkerLink<D> {
    /// Reports that the connection is open, and provides its interrupt.
    pub(super) fn opened(&self, interrupt: <D::Connection as DriverConnection>::Interrupt) {
        // The connection is opened only once.
        let _ = self.interrupt.set(interrupt);
        self.reply(WorkerReply::Opened);
    }

    /// Waits for the next task.
    pub(super) fn next(&self) -> Work<D> {
        let mut state = self.lock();
        loop {
            if let Some(leaving) = state.leaving.take() {
                self.reset(&mut state);
                return Work::Leave(leaving);
            }
            if state.closed {
                return Work::Close;
            }
            if let Some(command) = state.command.take() {
                return Work::Command(command);
            }
            state = self.wait(state);
        }
    }

    fn wait<'a>(&self, mut state: MutexGuard<'a, State<D>>) -> MutexGuard<'a, State<D>> {
        state.waiting = true;
        let mut state = self.work.wait(state);
        // A spurious wake-up is possible.
        state.waiting = false;
        state
    }

    /// Resets the state for the next session to that of a new connection.
    fn reset(&self, state: &mut State<D>) {
        *state = State::new();
        self.abandoned.store(false, Ordering::Relaxed);
    }

    /// Sends a reply to the session.
    pub(super) fn reply(&self, reply: WorkerReply<D::Plan>) {
        let waker = {
            let mut state = self.lock();
            state.reply = Some(reply);
            state.waker.take()
        };
        wake(waker);
    }

    /// Records that the worker is gone. A waiting session gets an error, and a lease in `leaving`
    /// is freed.
    pub(super) fn die(&self) {
        let (waker, leaving) = {
            let mut state = self.lock();
            state.dead = true;
            (state.waker.take(), state.leaving.take())
        };
        drop(leaving);
        wake(waker);
    }
}

/// The worker's side, for the code that fills its batches.
impl<D: Driver> BatchReceiver for WorkerLink<D> {
    fn hand_over(&self, rows: &mut Vec<u8>, end: Option<Result<(), Error>>) -> bool {
        let mut state = self.lock();
        loop {
            if self.abandoned() || state.closed {
                return false;
            }
            if let Some(spare) = state.spare.take() {
                exchange(state, rows, spare, end);
                return true;
            }
            state = self.wait(state);
        }
    }

    fn try_hand_over(&self, rows: &mut Vec<u8>) -> bool {
        let mut state = self.lock();
        match state.spare.take() {
            Some(spare) => {
                exchange(state, rows, spare, None);
                true
            }
            None => false,
        }
    }

    fn abandoned(&self) -> bool {
        self.abandoned.load(Ordering::Relaxed)
    }
}

/// Moves `rows` into the reply and replaces it by `spare`. The session will need the lock, so we
/// release that before we wake it.
fn exchange<D: Driver>(
    mut state: MutexGuard<'_, State<D>>,
    rows: &mut Vec<u8>,
    spare: Vec<u8>,
    end: Option<Result<(), Error>>,
) {
    let rows = std::mem::replace(rows, spare);
    state.reply = Some(WorkerReply::Rows(RowBatch { rows, end }));
    let waker = state.waker.take();
    drop(state);
    wake(waker);
}

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

fn worker_gone(database: &str) -> Error {
    let message = format!("the thread of a {database} connection failed; its log line says why");
    Error::new("internal", StatusCode::INTERNAL_SERVER_ERROR, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocking::tests::Numbers;

    type NumbersLink = WorkerLink<Numbers>;

    fn poll(link: &NumbersLink) -> Poll<WorkerReply<()>> {
        link.poll_reply(&mut Context::from_waker(Waker::noop()))
    }

    fn rows(reply: Poll<WorkerReply<()>>) -> Vec<u8> {
        match reply {
            Poll::Ready(WorkerReply::Rows(batch)) => batch.rows,
            _ => panic!("no rows"),
        }
    }

    #[test]
    fn a_second_batch_waits_for_the_first_to_be_read() {
        let link = NumbersLink::new();
        let mut filling = vec![1];
        assert!(link.hand_over(&mut filling, None));
        filling.push(2);
        assert!(!link.try_hand_over(&mut filling), "the first batch has not been read");
        let read = rows(poll(&link));
        assert_eq!(read, [1]);
        assert!(!link.try_hand_over(&mut filling), "the first batch has not been given back");
        link.give_spare(read);
        assert!(link.try_hand_over(&mut filling));
        assert_eq!(rows(poll(&link)), [2]);
        assert!(poll(&link).is_pending());
    }

    #[test]
    fn a_dead_worker_is_an_error_after_what_it_had_handed_over() {
        let link = NumbersLink::new();
        assert!(link.hand_over(&mut vec![1], None));
        link.die();
        assert_eq!(rows(poll(&link)), [1]);
        assert!(matches!(poll(&link), Poll::Ready(WorkerReply::Failed(_))));
    }
}
