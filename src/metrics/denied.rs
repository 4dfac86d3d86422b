//! Counts denied requests by their reason, and rate-limited ones by how their client is
//! identified.

use std::sync::atomic::{AtomicU64, Ordering};

use rowstream_core::error::denial::Denial;

use crate::outcome::Outcome;
use crate::rate_limit::By;

/// A count for each reason, in the order of [`Denial::ALL`].
#[derive(Debug, Default)]
pub(crate) struct Denied([AtomicU64; Denial::ALL.len()]);

impl Denied {
    /// Counts a request if its outcome is a denial.
    pub(crate) fn count(&self, outcome: &Outcome) {
        if let Outcome::Failed(error) = outcome
            && let Some(denial) = error.denial()
        {
            self.0[denial as usize].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The counts of all reasons.
    pub(super) fn counts(&self) -> [(Denial, u64); Denial::ALL.len()] {
        Denial::ALL.map(|denial| (denial, self.0[denial as usize].load(Ordering::Relaxed)))
    }
}

/// A count for each way to identify a client.
#[derive(Debug, Default)]
pub(crate) struct RateLimited([AtomicU64; By::ALL.len()]);

impl RateLimited {
    /// Counts a request.
    pub(crate) fn count(&self, by: By) {
        self.0[by as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// The counts of all ways.
    pub(super) fn counts(&self) -> [(By, u64); By::ALL.len()] {
        By::ALL.map(|by| (by, self.0[by as usize].load(Ordering::Relaxed)))
    }
}
