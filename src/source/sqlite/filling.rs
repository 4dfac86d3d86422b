//! The batch that a worker fills, and when it is handed over.
//!
//! It is handed over when it is full; when the first rows of a statement are there, for the first byte; and when it has
//! been open for [`PATIENCE`], because then rows come slowly and each is worth its way. SQLite may compute for seconds
//! within one step, so the last of the three cannot be left to the loop over the rows: SQLite's progress handler looks at
//! the clock, every [`TICK`] instructions of its virtual machine, which costs nothing when rows are fast.
//!
//! The handlers run on the worker's own thread, inside `sqlite3_step`. That is why the state is thread-local: a lock
//! would be paid for each row.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::batch;
use super::handover::Link;
use crate::Error;

/// A full batch. A stream has two; twice as much cost the same time for a million rows.
const FULL: usize = 32 * 1024;
/// The first batch of a statement.
const FIRST: usize = 4 * 1024;
/// What a batch needs beyond [`FULL`] so that a usual last row does not make it grow.
const SLACK: usize = 4 * 1024;
/// How long rows may wait for others.
const PATIENCE: Duration = Duration::from_millis(5);
/// Virtual machine instructions between two looks at the clock: 10 to 50 microseconds of computing, some 50 rows.
pub(super) const TICK: i32 = 500;
/// How long a writer's lock is waited for.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

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

thread_local! {
    static FILLING: RefCell<Filling> = RefCell::new(Filling::new());
}

struct Filling {
    link: Arc<Link>,
    rows: Vec<u8>,
    /// Bytes at which the batch is handed over.
    enough: usize,
    /// When the first row of the batch was there.
    since: Instant,
    /// When the statement has run too long.
    deadline: Option<Instant>,
    expired: bool,
    busy_until: Instant,
}

/// Binds this thread to its hand-over; comes before all else.
pub(super) fn bind(link: &Arc<Link>) {
    FILLING.with_borrow_mut(|filling| filling.link = Arc::clone(link));
}

/// Begins a statement that may run for `timeout`.
pub(super) fn start(timeout: Option<Duration>) {
    FILLING.with_borrow_mut(|filling| filling.start(timeout));
}

/// Adds a row of `columns` values and at most `limit` bytes; hands the batch over when it is due, which may wait for the
/// session to read.
pub(super) fn push(row: &rusqlite::Row<'_>, columns: usize, limit: usize) -> Result<(), Stop> {
    FILLING.with_borrow_mut(|filling| filling.push(row, columns, limit))
}

/// Hands over what is left, with how the statement ended.
pub(super) fn finish(end: Result<(), Error>) {
    FILLING.with_borrow_mut(|filling| filling.finish(end));
}

/// Forgets the session: an idle connection keeps what a short answer needs, not what a long one did.
pub(super) fn rest() {
    FILLING.with_borrow_mut(|filling| {
        filling.deadline = None;
        filling.rows.clear();
        filling.rows.shrink_to(FIRST + SLACK);
    });
}

/// Whether the statement's time was up.
pub(super) fn expired() -> bool {
    FILLING.with_borrow(|filling| filling.expired)
}

/// SQLite's progress handler. Whether it is to interrupt the statement.
pub(super) fn tick() -> bool {
    FILLING.with_borrow_mut(Filling::tick)
}

/// SQLite's busy handler, `tries` counting from 0. Whether to try again. SQLite's own would wait on for a session that has
/// left, and beyond the statement's deadline.
pub(super) fn busy(tries: i32) -> bool {
    if tries == 0 {
        FILLING.with_borrow_mut(|filling| filling.busy_until = Instant::now() + BUSY_TIMEOUT);
    }
    std::thread::sleep(Duration::from_millis(tries.clamp(1, 20) as u64));
    FILLING.with_borrow_mut(|filling| !filling.tick() && Instant::now() < filling.busy_until)
}

impl Filling {
    fn new() -> Self {
        let now = Instant::now();
        Self {
            link: Arc::new(Link::new()),
            rows: Vec::new(),
            enough: FIRST,
            since: now,
            deadline: None,
            expired: false,
            busy_until: now,
        }
    }

    fn start(&mut self, timeout: Option<Duration>) {
        self.enough = FIRST;
        self.expired = false;
        self.deadline = timeout.map(|timeout| Instant::now() + timeout);
    }

    fn push(&mut self, row: &rusqlite::Row<'_>, columns: usize, limit: usize) -> Result<(), Stop> {
        if self.rows.is_empty() {
            self.open();
        }
        batch::push_row(row, columns, limit, &mut self.rows)?;
        if self.rows.len() < self.enough || self.hand_over(None) { Ok(()) } else { Err(Stop::Abandoned) }
    }

    fn open(&mut self) {
        self.since = Instant::now();
        if self.enough == FULL {
            self.rows.reserve_exact(FULL + SLACK);
        }
    }

    fn finish(&mut self, end: Result<(), Error>) {
        self.deadline = None;
        self.hand_over(Some(end));
    }

    /// Hands the batch over, waiting for the session. That wait is the client's, so it does not count as the
    /// statement's time.
    fn hand_over(&mut self, end: Option<Result<(), Error>>) -> bool {
        let before = self.deadline.map(|_| Instant::now());
        if !self.link.hand_over(&mut self.rows, end) {
            return false;
        }
        if let (Some(deadline), Some(before)) = (&mut self.deadline, before) {
            *deadline += before.elapsed();
        }
        self.fresh();
        true
    }

    fn tick(&mut self) -> bool {
        if self.link.abandoned() {
            return true;
        }
        let now = Instant::now();
        self.expired = self.deadline.is_some_and(|deadline| now >= deadline);
        if !self.rows.is_empty()
            && now.duration_since(self.since) >= PATIENCE
            && self.link.try_hand_over(&mut self.rows)
        {
            self.fresh();
        }
        self.expired
    }

    /// Goes on with the batch that came back. A huge row that was in it must not stay in memory.
    fn fresh(&mut self) {
        self.enough = FULL;
        self.rows.shrink_to(FULL + SLACK);
    }
}
