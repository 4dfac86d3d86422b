//! Adds and subtracts the times of a stream.

use std::ops::{AddAssign, Sub};
use std::time::Duration;

use crate::outcome::Times;

impl Times {
    /// The sum of all phases.
    #[inline]
    pub(crate) fn total(&self) -> Duration {
        self.pool + self.database + self.encode + self.client
    }
}

impl AddAssign for Times {
    fn add_assign(&mut self, other: Self) {
        self.pool += other.pool;
        self.database += other.database;
        self.encode += other.encode;
        self.client += other.client;
        self.held += other.held;
    }
}

/// The increase since `other`. Times never decrease.
impl Sub for Times {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self {
            pool: self.pool.saturating_sub(other.pool),
            database: self.database.saturating_sub(other.database),
            encode: self.encode.saturating_sub(other.encode),
            client: self.client.saturating_sub(other.client),
            held: self.held.saturating_sub(other.held),
        }
    }
}
