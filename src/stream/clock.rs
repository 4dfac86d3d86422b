//! Measures how a stream spends its time.

use std::mem;
use std::time::{Duration, Instant};

use crate::outcome::Times;

/// The reason why a stream waits between two polls.
#[derive(Debug, Clone, Copy)]
pub(super) enum Phase {
    /// For a slot, before the first request to an upstream.
    Pool,
    Database,
    Client,
    /// For rows that haven't been written to the database yet. This time isn't counted.
    Changes,
}

/// Counts time: between polls for the reason of the wait, and within polls as encoding.
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

    /// A clock for a lookup that has waited for the database since `begun`, except for the time
    /// `pool` that it waited for a connection.
    pub(super) fn since(begun: Instant, pool: Duration) -> Self {
        Self { times: Times { pool, ..Times::default() }, last: begun + pool, waits_for: Phase::Database }
    }

    fn lap(&mut self) -> Duration {
        let now = Instant::now();
        now - mem::replace(&mut self.last, now)
    }

    /// Counts and returns the time since `leave`, with or without a connection.
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
