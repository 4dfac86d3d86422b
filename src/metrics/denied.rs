//! Counts denied requests by their reason, and rate-limited ones by how their client is
//! identified.

use std::sync::atomic::{AtomicU64, Ordering};

use rowstream_core::error::denial::Denial;

use crate::outcome::Outcome;
use crate::rate_limit::ClientProperty;

/// A count for each reason, in the order of [`Denial::ALL`].
#[derive(Debug, Default)]
pub(crate) struct DenialCounts([AtomicU64; Denial::ALL.len()]);

impl DenialCounts {
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
pub(crate) struct RateLimitCounts([AtomicU64; ClientProperty::ALL.len()]);

impl RateLimitCounts {
    /// Counts a request.
    pub(crate) fn count(&self, by: ClientProperty) {
        self.0[by as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// The counts of all ways.
    pub(super) fn counts(&self) -> [(ClientProperty, u64); ClientProperty::ALL.len()] {
        ClientProperty::ALL.map(|by| (by, self.0[by as usize].load(Ordering::Relaxed)))
    }
}
