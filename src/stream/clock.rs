//! Where the time of a stream goes.

use std::mem;
use std::time::{Duration, Instant};

use crate::outcome::Times;

/// What a stream waits for between two polls.
#[derive(Debug, Clone, Copy)]
pub(super) enum Phase {
    /// A place for the first request to an upstream.
    Pool,
    Database,
    Client,
    /// Rows that nobody has written yet: nobody's time.
    Changes,
}

/// Attributes time: between polls to what was waited for, inside of polls to encoding.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    pub(super) times: Times,
    pub(super) last: Instant,
    pub(super) waits_for: Phase,
}

impl Clock {
    pub(super) fn new(pool: Duration) -> Self {
        Self { times: Times { pool, ..Times::default() }, last: Instant::now(), waits_for: Phase::Database }
    }

    /// The clock of one that has waited for the database from `begun` on, but for the time that it
    /// has waited for a connection.
    pub(super) fn since(begun: Instant, pool: Duration) -> Self {
        Self { times: Times { pool, ..Times::default() }, last: begun + pool, waits_for: Phase::Database }
    }

    fn lap(&mut self) -> Duration {
        let now = Instant::now();
        now - mem::replace(&mut self.last, now)
    }

    /// Attributes the time since `leave`, in which a connection was held or not, and gives it.
    pub(super) fn enter(&mut self, holds_connection: bool) -> Duration {
        let lap = self.lap();
        match self.waits_for {
            Phase::Pool => self.times.pool += lap,
            Phase::Database => self.times.database += lap,
            Phase::Client => {
                self.times.client += lap;
                self.times.held += if holds_connection { lap } else { Duration::ZERO };
            }
            Phase::Changes => {}
        }
        lap
    }

    pub(super) fn leave(&mut self, waits_for: Phase) {
        let lap = self.lap();
        self.times.encode += lap;
        self.waits_for = waits_for;
    }
}
