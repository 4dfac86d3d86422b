//! The batch that a worker fills, and when it is handed over.
//!
//! It is handed over when it is full; when the first rows of a statement are there, for the first
//! byte; and when it has been open for [`PATIENCE`], because then rows come slowly and each is
//! worth its way. A library may compute for seconds within one step, so the last of the three
//! cannot be left to the loop over the rows: where the library calls back while it works, it calls
//! [`tick`], which looks at the clock.
//!
//! Each hand-over costs two threads a sleep and a waking, so batches grow while a statement runs,
//! up to what its source's streams share ([`Running`]): few streams have large ones, and many
//! streams take little memory.
//!
//! What it calls runs on the worker's own thread, inside of the step. That is why the state is
//! thread-local: a lock would be paid for each row.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::batch;
use rowstream_core::Error;

/// The first batch of a statement.
const FIRST: usize = 4 * 1024;
/// A full batch when many statements run. A stream has two.
const SMALL: usize = 32 * 1024;
/// A full batch when few statements run.
const LARGE: usize = 128 * 1024;
/// What the batches of a source may take together before they become small.
const SHARED: usize = 2 << 20;
/// What a batch needs beyond its mark so that a usual last row does not make it grow.
const SLACK: usize = 4 * 1024;
/// What a batch takes, and at most one row more.
pub(super) const LARGEST: usize = LARGE + SLACK;
/// What an idle connection keeps of a batch.
const KEPT: usize = FIRST + SLACK;
/// How long rows may wait for others.
const PATIENCE: Duration = Duration::from_millis(5);

/// Why a statement ended before its last row.
pub(super) enum Stop {
    /// The session has left: nobody wants to know.
    Abandoned,
    /// It failed.
    Failed(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// The hand-over, to whoever fills batches.
pub(super) trait Peer {
    /// Hands `rows` over, in exchange for the spare batch, for which it waits. Whether it did: not
    /// when the session has left.
    #[must_use]
    fn hand_over(&self, rows: &mut Vec<u8>, end: Option<Result<(), Error>>) -> bool;

    /// Hands `rows` over if the spare batch is there. Whether it did.
    fn try_hand_over(&self, rows: &mut Vec<u8>) -> bool;

    /// Whether the session has left, and what runs for it is to stop.
    fn abandoned(&self) -> bool;
}

/// How many statements of a source run at this moment.
#[derive(Default)]
pub(super) struct Running(AtomicUsize);

impl Running {
    /// A full batch of each.
    fn batch(&self) -> usize {
        let batches = 2 * self.0.load(Ordering::Relaxed).max(1);
        (SHARED / batches).clamp(SMALL, LARGE)
    }
}

/// A statement that runs, until it is dropped.
pub(super) struct Run<'a>(&'a Running);

impl Drop for Run<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

thread_local! {
    static FILLING: RefCell<Filling> = RefCell::new(Filling::new());
}

struct Filling {
    /// The hand-over of this thread's connection; a call of it is one per batch, not per row.
    peer: Option<Arc<dyn Peer>>,
    /// How many share the memory of batches.
    running: Arc<Running>,
    rows: Vec<u8>,
    /// Bytes at which the batch is handed over.
    enough: usize,
    /// When the first row of the batch, or of the portion, was there.
    since: Instant,
    /// Whether the portion has been open for long.
    late: bool,
    /// When the statement has run too long.
    deadline: Option<Instant>,
    expired: bool,
}

/// Binds this thread to its hand-over; comes before all else.
pub(super) fn bind<P: Peer + 'static>(peer: &Arc<P>, running: &Arc<Running>) {
    FILLING.with_borrow_mut(|filling| {
        filling.peer = Some(Arc::<P>::clone(peer));
        filling.running = Arc::clone(running);
    });
}

/// Begins a statement, which runs until what is returned is dropped.
pub(super) fn start(running: &Running, timeout: Option<Duration>) -> Run<'_> {
    running.0.fetch_add(1, Ordering::Relaxed);
    FILLING.with_borrow_mut(|filling| filling.start(timeout));
    Run(running)
}

/// Adds the row that `pack` writes; hands the batch over when it is due, which may wait for the
/// session to read.
#[inline]
pub(super) fn push(pack: impl FnOnce(&mut Vec<u8>) -> Result<(), Error>) -> Result<(), Stop> {
    FILLING.with_borrow_mut(|filling| filling.push(pack))
}

/// A portion of the rows of one of several statements, which the session waits for. It ends when it
/// is full, or, as rows come slowly, when it has been open for [`PATIENCE`].
pub(super) struct Portion {
    /// The rows, packed (see `batch.rs`).
    pub(super) rows: Vec<u8>,
    enough: usize,
}

impl Portion {
    /// An empty portion in `rows`, of a statement whose last one was full at `before` bytes; `None`
    /// for its first.
    pub(super) fn new(mut rows: Vec<u8>, before: Option<usize>) -> Self {
        let enough = before.map_or(FIRST, |before| (2 * before).min(SMALL));
        rows.clear();
        // A huge row that was in it must not stay in memory.
        rows.shrink_to(enough + SLACK);
        Self { rows, enough }
    }

    /// The bytes at which it is full.
    pub(super) fn enough(&self) -> usize {
        self.enough
    }

    /// Adds the row that `pack` writes. Whether there is room and time for another.
    #[inline]
    pub(super) fn push(
        &mut self,
        pack: impl FnOnce(&mut Vec<u8>) -> Result<(), Error>,
    ) -> Result<bool, Error> {
        if self.rows.is_empty() {
            FILLING.with_borrow_mut(Filling::open_portion);
        }
        batch::push_row(&mut self.rows, pack)?;
        Ok(self.rows.len() < self.enough && !FILLING.with_borrow(|filling| filling.late))
    }
}

/// Lets the statements that run have so much more time: they waited for the session.
pub(super) fn postpone(waited: Duration) {
    FILLING.with_borrow_mut(|filling| {
        if let Some(deadline) = &mut filling.deadline {
            *deadline += waited;
        }
    });
}

/// Hands over what is left, with how the statement ended.
pub(super) fn finish(end: Result<(), Error>) {
    FILLING.with_borrow_mut(|filling| filling.finish(end));
}

/// Forgets the rows of a session that has left.
pub(super) fn rest() {
    FILLING.with_borrow_mut(Filling::rest);
}

/// Empties a batch that no statement fills: an idle connection keeps what a short answer needs, not
/// what a long one did.
pub(super) fn empty(rows: &mut Vec<u8>) {
    rows.clear();
    rows.shrink_to(KEPT);
}

/// Whether the statement's time was up.
pub(super) fn expired() -> bool {
    FILLING.with_borrow(|filling| filling.expired)
}

/// Looks at the clock and whether the session is there. Whether what runs is to stop.
pub(in crate::database) fn tick() -> bool {
    FILLING.with_borrow_mut(Filling::tick)
}

impl Filling {
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
    fn push(&mut self, pack: impl FnOnce(&mut Vec<u8>) -> Result<(), Error>) -> Result<(), Stop> {
        if self.rows.is_empty() {
            self.open();
        }
        batch::push_row(&mut self.rows, pack)?;
        if self.rows.len() < self.enough || self.hand_over(None) { Ok(()) } else { Err(Stop::Abandoned) }
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

    /// Hands the batch over, waiting for the session. That wait is the client's, so it does not
    /// count as the statement's time.
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

    /// Goes on with the batch that came back. A huge row that was in it must not stay in memory.
    fn fresh(&mut self) {
        self.enough = (2 * self.enough).max(SMALL).min(self.running.batch());
        self.rows.shrink_to(self.enough + SLACK);
    }
}
