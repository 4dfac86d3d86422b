//! Requests that were denied, by the reason.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::denial::Denial;
use crate::outcome::Outcome;

/// A count for each reason, in their order.
#[derive(Debug, Default)]
pub(crate) struct Denied([AtomicU64; Denial::ALL.len()]);

impl Denied {
    /// Counts a request that ended so, if it was denied.
    pub(crate) fn count(&self, outcome: &Outcome) {
        if let Outcome::Failed(error) = outcome
            && let Some(denial) = error.denial()
        {
            self.0[denial as usize].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The counts, with what they are of.
    pub(super) fn counts(&self) -> [(Denial, u64); Denial::ALL.len()] {
        Denial::ALL.map(|denial| (denial, self.0[denial as usize].load(Ordering::Relaxed)))
    }
}
