//! Fills a worker's batches, and decides when to hand them over.
//!
//! A batch is handed over when it is full, when it contains the first rows of a statement (for a
//! fast first byte), and when it has been open for [`PATIENCE`]. In the last case rows arrive
//! slowly, so each of them is worth a hand-over. A library can compute for seconds within one step,
//! so the loop over the rows can't check the time. Instead, a library that calls back while it
//! works calls [`tick`], which does.
//!
//! Each hand-over puts two threads to sleep and wakes them, so batches grow while a statement runs,
//! up to its share of the source's memory ([`RunningCount`]). Few streams get large batches; many
//! streams use little memory.
//!
//! Callbacks run on the worker's own thread, inside the step. That's why the state is thread-local:
//! we would pay for a lock at each row.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rowstream_core::Error;

use super::batch;

/// The size of a statement's first batch, in bytes.
const FIRST: usize = 4 * 1024;
/// The size of a full batch when many statements run. A stream has two.
const SMALL: usize = 32 * 1024;
/// The size of a full batch when few statements run.
const LARGE: usize = 128 * 1024;
/// The memory that large batches of a source can use together. Beyond it, batches become small.
const SHARED: usize = 2 << 20;
/// The room beyond a full batch, so that a last row of usual size doesn't make it grow.
const SLACK: usize = 4 * 1024;
/// The largest capacity of a batch, not counting one row.
pub(super) const LARGEST: usize = LARGE + SLACK;
/// The capacity of a batch that an idle connection keeps.
const KEPT: usize = FIRST + SLACK;
/// How long rows can wait for more rows.
const PATIENCE: Duration = Duration::from_millis(5);

/// The reason why a statement ended before its last row.
pub(super) enum StopReason {
    /// The session has left, so no error is reported.
    Abandoned,
    /// The statement failed.
    Failed(Error),
}

impl From<Error> for StopReason {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// The hand-over, for the code that fills batches.
pub(super) trait BatchReceiver {
    /// Waits for the spare batch and hands `rows` over in exchange. Returns false if the session
    /// has left or the connection is closed.
    #[must_use]
    fn hand_over(&self, rows: &mut Vec<u8>, end: Option<Result<(), Error>>) -> bool;

    /// Hands `rows` over if the spare batch is there. Returns false if it isn't.
    fn try_hand_over(&self, rows: &mut Vec<u8>) -> bool;

    /// Returns true if the session has left, so that its statement must stop.
    fn abandoned(&self) -> bool;
}

/// Counts the running statements of a source.
#[derive(Default)]
pub(super) struct RunningCount(AtomicUsize);

impl RunningCount {
    /// The size of a full batch of each statement.
    fn batch(&self) -> usize {
        let batches = 2 * self.0.load(Ordering::Relaxed).max(1);
        (SHARED / batches).clamp(SMALL, LARGE)
    }
}

/// Counts a statement as running until it is dropped.
pub(super) struct RunningStatement<'a>(&'a RunningCount);

impl Drop for RunningStatement<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

thread_local! {
    static FILLING: RefCell<BatchFiller> = RefCell::new(BatchFiller::new());
}

struct BatchFiller {
    /// The hand-over of this thread's connection. The dynamic call happens once per batch, not per
    /// row.
    peer: Option<Arc<dyn BatchReceiver>>,
    /// The statements that share the memory of batches.
    running: Arc<RunningCount>,
    rows: Vec<u8>,
    /// The batch is handed over once it has this many bytes.
    enough: usize,
    /// When the batch or the portion got its first row.
    since: Instant,
    /// The portion has been open for longer than [`PATIENCE`].
    late: bool,
    /// When the statement exceeds its timeout.
    deadline: Option<Instant>,
    expired: bool,
}

/// Binds this thread to its hand-over. Must be called before all other functions here.
pub(super) fn bind<P: BatchReceiver + 'static>(peer: &Arc<P>, running: &Arc<RunningCount>) {
    FILLING.with_borrow_mut(|filling| {
        filling.peer = Some(Arc::<P>::clone(peer));
        filling.running = Arc::clone(running);
    });
}

/// Begins a statement. It runs until the returned value is dropped.
pub(super) fn start(running: &RunningCount, timeout: Option<Duration>) -> RunningStatement<'_> {
    running.0.fetch_add(1, Ordering::Relaxed);
    FILLING.with_borrow_mut(|filling| filling.start(timeout));
    RunningStatement(running)
}

/// Adds the row that `pack` writes. A batch that is due is handed over, which can wait for the
/// session to read.
#[inline]
pub(super) fn push(pack: impl FnOnce(&mut Vec<u8>) -> Result<(), Error>) -> Result<(), StopReason> {
    FILLING.with_borrow_mut(|filling| filling.push(pack))
}

/// A portion of the rows of an interleaved statement, which the session waits for. It ends when
/// it's full or, if rows arrive slowly, when it has been open for [`PATIENCE`].
pub(super) struct Portion {
    /// The rows, packed (see `batch.rs`).
    pub(super) rows: Vec<u8>,
    enough: usize,
}

impl Portion {
    /// Makes an empty portion in `rows`. `before` is the size of the statement's last full portion,
    /// or `None` for its first.
    pub(super) fn new(mut rows: Vec<u8>, before: Option<usize>) -> Self {
        let enough = before.map_or(FIRST, |before| (2 * before).min(SMALL));
        rows.clear();
        // A huge row that was in it must not keep its memory.
        rows.shrink_to(enough + SLACK);
        Self { rows, enough }
    }

    /// It is full once it has this many bytes.
    pub(super) fn enough(&self) -> usize {
        self.enough
    }

    /// Adds the row that `pack` writes. Returns true if there is room and time for another.
    #[inline]
    pub(super) fn push(
        &mut self,
        pack: impl FnOnce(&mut Vec<u8>) -> Result<(), Error>,
    ) -> Result<bool, Error> {
        if self.rows.is_empty() {
            FILLING.with_borrow_mut(BatchFiller::open_portion);
        }
        batch::push_row(&mut self.rows, pack)?;
        Ok(self.rows.len() < self.enough && !FILLING.with_borrow(|filling| filling.late))
    }
}

/// Extends the deadline of the running statements by the time that they waited for the session.
pub(super) fn postpone(waited: Duration) {
    FILLING.with_borrow_mut(|filling| {
        if let Some(deadline) = &mut filling.deadline {
            *deadline += waited;
        }
    });
}

/// Hands over the remaining rows with the statement's result.
pub(super) fn finish(end: Result<(), Error>) {
    FILLING.with_borrow_mut(|filling| filling.finish(end));
}

/// Discards rows that no session will read.
pub(super) fn rest() {
    FILLING.with_borrow_mut(BatchFiller::rest);
}

/// Empties a batch that no statement fills. An idle connection keeps enough memory for a short
/// answer, not for the longest one so far.
pub(super) fn empty(rows: &mut Vec<u8>) {
    rows.clear();
    rows.shrink_to(KEPT);
}

/// Returns true if the statement exceeded its timeout.
pub(super) fn expired() -> bool {
    FILLING.with_borrow(|filling| filling.expired)
}

/// Checks the clock and the session. Returns true if the running statement must stop.
pub fn tick() -> bool {
    FILLING.with_borrow_mut(BatchFiller::tick)
}

impl BatchFiller {
    fn new() -> Self {
        let now = Instant::now();
        Self {
            peer: None,
            running: Arc::default(),
            rows: Vec::new(),
            enough: FIRST,
            since: now,
            late: false,
            deadline: None,
            expired: false,
        }
    }

    fn start(&mut self, timeout: Option<Duration>) {
        self.enough = FIRST;
        self.expired = false;
        self.deadline = timeout.map(|timeout| Instant::now() + timeout);
    }

    #[inline]
    fn push(&mut self, pack: impl FnOnce(&mut Vec<u8>) -> Result<(), Error>) -> Result<(), StopReason> {
        if self.rows.is_empty() {
            self.open();
        }
        batch::push_row(&mut self.rows, pack)?;
        if self.rows.len() < self.enough || self.hand_over(None) {
            Ok(())
        } else {
            Err(StopReason::Abandoned)
        }
    }

    fn open_portion(&mut self) {
        self.since = Instant::now();
        self.late = false;
    }

    fn open(&mut self) {
        self.since = Instant::now();
        if self.enough > FIRST {
            self.rows.reserve_exact(self.enough + SLACK);
        }
    }

    fn finish(&mut self, end: Result<(), Error>) {
        self.deadline = None;
        self.hand_over(Some(end));
        self.rest();
    }

    fn rest(&mut self) {
        self.deadline = None;
        empty(&mut self.rows);
    }

    /// Hands the batch over, and waits for the session if necessary. The client causes that wait,
    /// so it doesn't count towards the statement's timeout.
    fn hand_over(&mut self, end: Option<Result<(), Error>>) -> bool {
        let before = self.deadline.map(|_| Instant::now());
        if !self.peer.as_ref().is_some_and(|peer| peer.hand_over(&mut self.rows, end)) {
            return false;
        }
        if let (Some(deadline), Some(before)) = (&mut self.deadline, before) {
            *deadline += before.elapsed();
        }
        self.fresh();
        true
    }

    fn tick(&mut self) -> bool {
        let Some(peer) = &self.peer else { return false };
        if peer.abandoned() {
            return true;
        }
        let now = Instant::now();
        self.expired = self.deadline.is_some_and(|deadline| now >= deadline);
        self.late = now.duration_since(self.since) >= PATIENCE;
        if !self.rows.is_empty() && self.late && peer.try_hand_over(&mut self.rows) {
            self.fresh();
        }
        self.expired
    }

    /// Continues with the batch that the session gave back. A huge row that was in it must not keep
    /// its memory.
    fn fresh(&mut self) {
        self.enough = (2 * self.enough).max(SMALL).min(self.running.batch());
        self.rows.shrink_to(self.enough + SLACK);
    }
}
