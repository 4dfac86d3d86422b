//! The hand-over between a session and the thread of its connection, the worker.
//!
//! ```text
//!   session                 Link                worker
//!   send()        ─────►  command  ─────►  next()
//!   poll_reply()  ◄─────  reply    ◄─────  reply(), hand_over(), try_hand_over()
//!   give_spare()  ─────►  spare    ─────►  hand_over(), try_hand_over()
//!   leave()       ─────►  leaving  ─────►  next(), then Leaving::give_back()
//!   drop(Connection) ──►  closed   ─────►  next()
//!                         dead     ◄─────  die()
//!                        interrupt ◄─────  opened()
//! ```
//!
//! Invariants:
//!
//! 1. A session has two batches, beside those of interleaved statements, each of which
//!    goes there and back with `Fetch` and `Rows`. The worker holds one and fills it; the other is
//!    in `reply`, with the session, or in `spare`. The worker hands over only in exchange for the
//!    spare one, so a session that does not read stops it.
//! 2. `abandoned` is set together with `leaving`, and cleared by the worker when it takes
//!    `leaving`. Only what the worker runs in between sees it, and the connection goes back to the
//!    pool after that: what interrupts one session's statement can never hit the next one's. So
//!    it is with [`Interrupt`], which is called under the lock that the worker takes `leaving`
//!    under.
//! 3. A place is in exactly one of: the session, `leaving`, the worker's cleaning. Whoever holds it
//!    when the worker is dead drops it, which frees it.
//! 4. A session that has taken the answers to all it asked, and has no transaction open, leaves
//!    nothing behind: the statement was reset before its end was handed over, `command`, `reply`
//!    and `waker` are empty, and both batches are where they were at first. Such a session gives
//!    its connection back itself, without the worker.
//! 5. `waiting` is set exactly while the worker sleeps or is about to, under the lock. Only then is
//!    it woken: a wake-up costs a system call, also when nobody sleeps.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard, OnceLock};
use std::task::{Context, Poll, Waker};

use http::StatusCode;

use super::filling::{self, Peer};
use super::lookups::{Outcome, Question};
use super::{Described, Driver, DriverConnection, FileId, Interrupt};
use crate::database::Statement;
use rowstream_core::Error;
use rowstream_core::lock::{Condvar, Mutex};
use rowstream_core::pool::Lease;

/// What a session asks of the worker.
pub(super) enum Command<D: Driver> {
    /// Describe a statement; answered by `Described` or `Failed`.
    Describe(Statement),
    /// Run a statement that has been described; answered by `Rows` until one of them has an end.
    Execute {
        /// The statement.
        statement: Arc<Described<D::Plan>>,
        /// The values of its placeholders.
        args: Vec<D::Argument>,
        /// Whether it belongs to a transaction, which the first one opens.
        transaction: bool,
        /// How many columns come as batches; `None`: all come as rows.
        batches: Option<usize>,
    },
    /// Begin statements that are interleaved, in one transaction, and fetch the first rows.
    Interleave(Vec<Run<D>>, Fetch),
    /// Step one of these statements; answered by `Rows`, which has an end if the statement does.
    Fetch(Fetch),
    /// Run lookups, one after the other; answered by `LookedUp`.
    LookUp(Vec<Question<D>>),
}

/// A statement that is interleaved with others.
pub(super) struct Run<D: Driver> {
    /// The statement.
    pub(super) statement: Arc<Described<D::Plan>>,
    /// The values of its placeholders.
    pub(super) args: Vec<D::Argument>,
}

/// Whose rows are wanted.
pub(super) struct Fetch {
    /// The statement's place among those that are interleaved.
    pub(super) which: usize,
    /// A batch that has been read, to be filled.
    pub(super) rows: Vec<u8>,
}

/// What the worker answers.
pub(super) enum Reply<P> {
    /// The connection is open.
    Opened,
    /// What the database says of a statement.
    Described(Arc<Described<P>>),
    /// Rows of the statement that runs.
    Rows(Batch),
    /// What became of the lookups, in their order.
    LookedUp(Vec<Outcome>),
    /// What was asked for failed; of a statement's rows, the batch tells it instead.
    Failed(Error),
}

/// Rows that are handed over together.
pub(super) struct Batch {
    /// The rows, packed (see `batch.rs`).
    pub(super) rows: Vec<u8>,
    /// How the statement ended, in its last batch.
    pub(super) end: Option<Result<(), Error>>,
}

/// What the worker does next.
pub(super) enum Work<D: Driver> {
    /// It is asked for this.
    Command(Command<D>),
    /// The session is gone: clean up and give the connection back.
    Leave(Leaving<D>),
    /// The connection is closed.
    Close,
}

/// A connection on its way back to the pool.
pub(super) struct Leaving<D: Driver> {
    /// The right to it.
    pub(super) place: Lease<Connection<D>>,
    /// The connection itself.
    pub(super) connection: Connection<D>,
}

impl<D: Driver> Leaving<D> {
    /// Gives the connection back to the pool.
    pub(super) fn give_back(self) {
        self.place.give_back(self.connection);
    }
}

/// An open connection, as the pool keeps it; dropping it ends the worker, which closes it.
pub struct Connection<D: Driver> {
    link: Arc<Link<D>>,
    file: Option<FileId>,
}

impl<D: Driver> Connection<D> {
    /// The connection to `file` whose worker has the other end of `link`.
    pub(super) fn new(link: Arc<Link<D>>, file: Option<FileId>) -> Self {
        Self { link, file }
    }

    /// The session's end of the hand-over.
    pub(super) fn link(&self) -> &Link<D> {
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

/// The hand-over of one connection; see the module's text.
pub(super) struct Link<D: Driver> {
    state: Mutex<State<D>>,
    /// What ends what the library does for a session that has left; there once it is open.
    interrupt: OnceLock<<D::Connection as DriverConnection>::Interrupt>,
    /// The worker waits here.
    work: Condvar,
    /// Whether the session has left and the worker has not seen it yet; read without the lock while
    /// the library works.
    abandoned: AtomicBool,
}

struct State<D: Driver> {
    command: Option<Command<D>>,
    reply: Option<Reply<D::Plan>>,
    spare: Option<Vec<u8>>,
    leaving: Option<Leaving<D>>,
    waker: Option<Waker>,
    /// Whether the worker sleeps.
    waiting: bool,
    closed: bool,
    dead: bool,
}

impl<D: Driver> State<D> {
    /// What a new connection has.
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
impl<D: Driver> Link<D> {
    /// The hand-over of a connection that is about to be opened.
    pub(super) fn new() -> Self {
        Self {
            state: Mutex::new(State::new()),
            interrupt: OnceLock::new(),
            work: Condvar::new(),
            abandoned: AtomicBool::new(false),
        }
    }

    /// What the spare batch takes.
    #[cfg(test)]
    pub(super) fn spare_capacity(&self) -> usize {
        self.lock().spare.as_ref().map_or(0, Vec::capacity)
    }

    fn lock(&self) -> MutexGuard<'_, State<D>> {
        self.state.lock()
    }

    /// Asks the worker for something; the answer to what was asked before must have been taken.
    pub(super) fn send(&self, command: Command<D>) {
        let mut state = self.lock();
        state.command = Some(command);
        self.wake_worker(state);
    }

    /// The worker's next answer.
    pub(super) fn poll_reply(&self, cx: &mut Context<'_>) -> Poll<Reply<D::Plan>> {
        let mut state = self.lock();
        match state.reply.take() {
            Some(reply) => Poll::Ready(reply),
            None if state.dead => Poll::Ready(Reply::Failed(worker_gone(D::DIALECT.name))),
            None => {
                state.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Gives a batch that has been read back to be filled again.
    pub(super) fn give_spare(&self, mut rows: Vec<u8>) {
        rows.clear();
        let mut state = self.lock();
        state.spare = Some(rows);
        self.wake_worker(state);
    }

    /// Gives the last batch of a statement back: the worker waits for a command, not for this.
    pub(super) fn give_last(&self, mut rows: Vec<u8>) {
        filling::empty(&mut rows);
        self.lock().spare = Some(rows);
    }

    /// Whether the worker is gone, and the connection with it.
    pub(super) fn is_dead(&self) -> bool {
        self.lock().dead
    }

    /// Ends the session: the worker stops what it runs, cleans up, and gives the connection back.
    /// When the worker is gone, the connection is dropped and the place freed here.
    pub(super) fn leave(leaving: Leaving<D>) {
        let link = Arc::clone(&leaving.connection.link);
        let mut state = link.lock();
        if state.dead {
            // Connection's own drop takes the lock.
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

    /// Wakes the worker if it sleeps, after the lock, which it will want.
    fn wake_worker(&self, mut state: MutexGuard<'_, State<D>>) {
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        if waiting {
            self.work.notify_one();
        }
    }
}

/// The worker's side.
impl<D: Driver> Link<D> {
    /// Tells that the connection is open, and what interrupts it.
    pub(super) fn opened(&self, interrupt: <D::Connection as DriverConnection>::Interrupt) {
        // It is opened once.
        let _ = self.interrupt.set(interrupt);
        self.reply(Reply::Opened);
    }

    /// Waits for something to do.
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
        // It may have woken by itself.
        state.waiting = false;
        state
    }

    /// Forgets the session that left: the next one finds what a new connection has.
    fn reset(&self, state: &mut State<D>) {
        *state = State::new();
        self.abandoned.store(false, Ordering::Relaxed);
    }

    /// Answers what was asked.
    pub(super) fn reply(&self, reply: Reply<D::Plan>) {
        let waker = {
            let mut state = self.lock();
            state.reply = Some(reply);
            state.waker.take()
        };
        wake(waker);
    }

    /// Tells the session and the pool that the worker is gone: whoever waits gets an error, and a
    /// place that was left here is freed.
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

/// The worker's side, as what it fills sees it.
impl<D: Driver> Peer for Link<D> {
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

/// Puts `rows` into the reply and `spare` into its place. Wakes the session after the lock, which
/// it will want.
fn exchange<D: Driver>(
    mut state: MutexGuard<'_, State<D>>,
    rows: &mut Vec<u8>,
    spare: Vec<u8>,
    end: Option<Result<(), Error>>,
) {
    let rows = std::mem::replace(rows, spare);
    state.reply = Some(Reply::Rows(Batch { rows, end }));
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
    use crate::database::blocking::tests::Numbers;

    type Link = super::Link<Numbers>;

    fn poll(link: &Link) -> Poll<Reply<()>> {
        link.poll_reply(&mut Context::from_waker(Waker::noop()))
    }

    fn rows(reply: Poll<Reply<()>>) -> Vec<u8> {
        match reply {
            Poll::Ready(Reply::Rows(batch)) => batch.rows,
            _ => panic!("no rows"),
        }
    }

    #[test]
    fn a_second_batch_waits_for_the_first_to_be_read() {
        let link = Link::new();
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
        let link = Link::new();
        assert!(link.hand_over(&mut vec![1], None));
        link.die();
        assert_eq!(rows(poll(&link)), [1]);
        assert!(matches!(poll(&link), Poll::Ready(Reply::Failed(_))));
    }
}
