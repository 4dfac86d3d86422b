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
//! ```
//!
//! Invariants:
//!
//! 1. A session has two batches, beside those of statements that are run by turns, each of which
//!    goes there and back with `Fetch` and `Rows`. The worker holds one and fills it; the other is
//!    in `reply`, with the session, or in `spare`. The worker hands over only in exchange for the
//!    spare one, so a session that does not read stops it.
//! 2. `abandoned` is set together with `leaving`, and cleared by the worker when it takes
//!    `leaving`. Only what the worker runs in between sees it, and the connection goes back to the
//!    pool after that: what interrupts one session's statement can never hit the next one's.
//!    (`sqlite3_interrupt` would need the same proof and still be lost when it comes just before a
//!    statement's first step, which clears it.)
//! 3. A place is in exactly one of: the session, `leaving`, the worker's cleaning. Whoever holds it
//!    when the worker is dead drops it, which frees it.
//! 4. A session that has taken the answers to all it asked, and has no transaction open, leaves
//!    nothing behind: the statement was reset before its end was handed over, `command`, `reply`
//!    and `waker` are empty, and both batches are where they were at first. Such a session gives
//!    its connection back itself, without the worker.
//! 5. `waiting` is set exactly while the worker sleeps or is about to, under the lock. Only then is
//!    it woken: a wake-up costs a system call, also when nobody sleeps.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use http::StatusCode;

use super::filling;
use super::known::Described;
use crate::Error;
use crate::database::Statement;
use crate::pool::Lease;

/// What a session asks of the worker.
pub(super) enum Command {
    /// Describe a statement; answered by `Described` or `Failed`.
    Describe(Statement),
    /// Run a statement that has been described; answered by `Rows` until one of them has an end.
    Execute {
        /// The statement.
        statement: Arc<Described>,
        /// The values of its placeholders.
        args: Vec<rusqlite::types::Value>,
        /// Whether it belongs to a transaction, which the first one opens.
        transaction: bool,
    },
    /// Begin statements that are run by turns, in one transaction, and fetch the first rows.
    ExecuteTogether(Vec<Run>, Fetch),
    /// Step one of these statements; answered by `Rows`, which has an end if the statement does.
    Fetch(Fetch),
    /// Panic, as a bug of ours would.
    #[cfg(test)]
    Panic,
}

/// A statement that is run by turns with others.
pub(super) struct Run {
    /// The statement.
    pub(super) statement: Arc<Described>,
    /// The values of its placeholders.
    pub(super) args: Vec<rusqlite::types::Value>,
}

/// Whose rows are wanted.
pub(super) struct Fetch {
    /// The statement's place among those that are run by turns.
    pub(super) which: usize,
    /// A batch that has been read, to be filled.
    pub(super) rows: Vec<u8>,
}

/// What the worker answers.
pub(super) enum Reply {
    /// The connection is open.
    Opened,
    /// What SQLite says of a statement.
    Described(Arc<Described>),
    /// Rows of the statement that runs.
    Rows(Batch),
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
pub(super) enum Work {
    /// It is asked for this.
    Command(Command),
    /// The session is gone: clean up and give the connection back.
    Leave(Leaving),
    /// The connection is closed.
    Close,
}

/// A connection on its way back to the pool.
pub(super) struct Leaving {
    /// The right to it.
    pub(super) place: Lease<Connection>,
    /// The connection itself.
    pub(super) connection: Connection,
}

impl Leaving {
    /// Gives the connection back to the pool.
    pub(super) fn give_back(self) {
        self.place.give_back(self.connection);
    }
}

/// An open connection, as the pool keeps it; dropping it ends the worker, which closes it.
pub struct Connection(Arc<Link>);

impl Connection {
    /// The connection whose worker has the other end of `link`.
    pub(super) fn new(link: Arc<Link>) -> Self {
        Self(link)
    }

    /// The session's end of the hand-over.
    pub(super) fn link(&self) -> &Link {
        &self.0
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.closed = true;
        self.0.wake_worker(state);
    }
}

/// The hand-over of one connection; see the module's text.
pub(super) struct Link {
    state: Mutex<State>,
    /// The worker waits here.
    work: Condvar,
    /// Whether the session has left and the worker has not seen it yet; read without the lock while
    /// SQLite runs.
    abandoned: AtomicBool,
}

#[derive(Default)]
struct State {
    command: Option<Command>,
    reply: Option<Reply>,
    spare: Option<Vec<u8>>,
    leaving: Option<Leaving>,
    waker: Option<Waker>,
    /// Whether the worker sleeps.
    waiting: bool,
    closed: bool,
    dead: bool,
}

/// The session's side.
impl Link {
    /// The hand-over of a connection that is about to be opened.
    pub(super) fn new() -> Self {
        let state = State { spare: Some(Vec::new()), ..State::default() };
        Self { state: Mutex::new(state), work: Condvar::new(), abandoned: AtomicBool::new(false) }
    }

    /// What the spare batch takes.
    #[cfg(test)]
    pub(super) fn spare_capacity(&self) -> usize {
        self.lock().spare.as_ref().map_or(0, Vec::capacity)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing under this lock panics half way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the worker for something; the answer to what was asked before must have been taken.
    pub(super) fn send(&self, command: Command) {
        let mut state = self.lock();
        state.command = Some(command);
        self.wake_worker(state);
    }

    /// The worker's next answer.
    pub(super) fn poll_reply(&self, cx: &mut Context<'_>) -> Poll<Reply> {
        let mut state = self.lock();
        match state.reply.take() {
            Some(reply) => Poll::Ready(reply),
            None if state.dead => Poll::Ready(Reply::Failed(worker_gone())),
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
    pub(super) fn leave(leaving: Leaving) {
        let link = Arc::clone(&leaving.connection.0);
        let mut state = link.lock();
        if state.dead {
            // Connection's own drop takes the lock.
            drop(state);
            return drop(leaving);
        }
        link.abandoned.store(true, Ordering::Relaxed);
        state.leaving = Some(leaving);
        link.wake_worker(state);
    }

    /// Wakes the worker if it sleeps, after the lock, which it will want.
    fn wake_worker(&self, mut state: MutexGuard<'_, State>) {
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        if waiting {
            self.work.notify_one();
        }
    }
}

/// The worker's side.
impl Link {
    /// Waits for something to do.
    pub(super) fn next(&self) -> Work {
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

    fn wait<'a>(&self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        state.waiting = true;
        let mut state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
        // It may have woken by itself.
        state.waiting = false;
        state
    }

    /// Forgets the session that left: the next one finds what a new connection has.
    fn reset(&self, state: &mut State) {
        *state = State { spare: Some(Vec::new()), ..State::default() };
        self.abandoned.store(false, Ordering::Relaxed);
    }

    /// Answers what was asked.
    pub(super) fn reply(&self, reply: Reply) {
        let waker = {
            let mut state = self.lock();
            state.reply = Some(reply);
            state.waker.take()
        };
        wake(waker);
    }

    /// Hands `rows` over, in exchange for the spare batch, for which it waits. Whether it did: not
    /// when the session has left.
    #[must_use]
    pub(super) fn hand_over(&self, rows: &mut Vec<u8>, end: Option<Result<(), Error>>) -> bool {
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

    /// Hands `rows` over if the spare batch is there. Whether it did.
    pub(super) fn try_hand_over(&self, rows: &mut Vec<u8>) -> bool {
        let mut state = self.lock();
        match state.spare.take() {
            Some(spare) => {
                exchange(state, rows, spare, None);
                true
            }
            None => false,
        }
    }

    /// Whether the session has left, and what runs for it is to stop.
    pub(super) fn abandoned(&self) -> bool {
        self.abandoned.load(Ordering::Relaxed)
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

/// Puts `rows` into the reply and `spare` into its place. Wakes the session after the lock, which
/// it will want.
fn exchange(
    mut state: MutexGuard<'_, State>,
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

fn worker_gone() -> Error {
    Error::new(
        "internal",
        StatusCode::INTERNAL_SERVER_ERROR,
        "the thread of a SQLite connection failed; its log line says why",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn poll(link: &Link) -> Poll<Reply> {
        link.poll_reply(&mut Context::from_waker(Waker::noop()))
    }

    fn rows(reply: Poll<Reply>) -> Vec<u8> {
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
