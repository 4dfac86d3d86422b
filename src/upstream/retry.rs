//! Requests that are sent again: only where nothing of an answer has come, and only as many as a
//! budget lets through, so that an upstream that is down is not asked many times as often as one
//! that is up.
//!
//! A GET may be sent again by what HTTP says of it (RFC 9110, section 9.2.2). A POST may not, and
//! has no retries.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// `retries = { … }` of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retries {
    /// How often a request is sent again at most.
    pub max: u32,
    /// About how long the first retry waits; each further one twice as long as the one before.
    pub backoff: Duration,
    /// Of a hundred requests, so many may be sent again.
    pub budget: usize,
}

impl Default for Retries {
    fn default() -> Self {
        Self { max: 2, backoff: Duration::from_millis(50), budget: 10 }
    }
}

/// What a retry takes of the budget; a request brings a hundredth of it for each percent.
const RETRY: u64 = 100;
/// The most that is saved up: ten retries in a row, also for a source that is seldom asked.
const MOST: u64 = 10 * RETRY;

/// The retries that a source may make.
pub(super) struct Budget {
    retries: Retries,
    saved: AtomicU64,
}

impl Budget {
    pub(super) fn new(retries: Retries) -> Self {
        Self { retries, saved: AtomicU64::new(MOST) }
    }

    /// A request is sent for the first time.
    pub(super) fn earn(&self) {
        let earned = self.retries.budget as u64;
        let add = |saved: u64| Some(saved.saturating_add(earned).min(MOST));
        // It never refuses.
        let _ = self.saved.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }

    /// How long to wait before a request is sent again that has been so `before`; `None` where it
    /// is not to be.
    pub(super) fn spend(&self, before: u32) -> Option<Duration> {
        if before >= self.retries.max {
            return None;
        }
        let take = |saved: u64| saved.checked_sub(RETRY);
        self.saved.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).ok()?;
        // Requests that failed together do not come again together.
        let jitter = 0.5 + fastrand::f64();
        Some(self.retries.backoff.saturating_mul(1 << before.min(16)).mul_f64(jitter))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_bounds_the_retries() {
        let budget = Budget::new(Retries { max: 3, backoff: Duration::from_millis(100), budget: 20 });
        let spent = |budget: &Budget, requests: u32| {
            (0..requests)
                .filter(|_| {
                    budget.earn();
                    budget.spend(0).is_some()
                })
                .count()
        };
        // Ten are saved up, and each request but the first brings a fifth of one.
        assert_eq!(spent(&budget, 1000), (10 * 5 + 999) / 5);
        assert_eq!(budget.spend(3), None);
    }

    #[test]
    fn each_retry_waits_longer_than_the_one_before() {
        let budget = Budget::new(Retries { max: 8, backoff: Duration::from_millis(100), budget: 100 });
        for (before, least, most) in [(0, 50, 150), (1, 100, 300), (2, 200, 600)] {
            let wait = budget.spend(before).expect("there is enough");
            assert!((least..=most).contains(&wait.as_millis()), "{before}: {wait:?}");
        }
    }
}
