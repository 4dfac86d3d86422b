//! Requests that are sent again. That's only done if no byte of a response has arrived, and only
//! within a budget, so that a broken upstream doesn't get many times the requests of a working one.
//!
//! HTTP allows sending a GET again (RFC 9110, section 9.2.2). It doesn't allow that for a POST,
//! which is never sent again.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::host::Failure;

/// `retries = { … }` of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retries {
    /// The most times that a request is sent again.
    pub max: u32,
    /// The approximate wait before the first retry. Each further retry waits twice as long.
    pub backoff: Duration,
    /// The number of retries per hundred requests.
    pub budget: usize,
}

impl Default for Retries {
    fn default() -> Self {
        Self { max: 2, backoff: Duration::from_millis(50), budget: 10 }
    }
}

/// The cost of a retry. Each request earns one hundredth of it per percent of the budget.
const RETRY: u64 = 100;
/// The most that can be saved: ten retries in a row, even for a source with few requests.
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

    /// Records that a request is sent for the first time.
    pub(super) fn earn(&self) {
        let earned = self.retries.budget as u64;
        let add = |saved: u64| Some(saved.saturating_add(earned).min(MOST));
        // The closure never refuses.
        let _ = self.saved.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }

    /// The wait before a request is sent again, after `before` retries. `None` if it mustn't be
    /// sent again.
    pub(super) fn spend(&self, before: u32) -> Option<Duration> {
        if before >= self.retries.max {
            return None;
        }
        let take = |saved: u64| saved.checked_sub(RETRY);
        self.saved.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).ok()?;
        // Spreads the retries of requests that failed together.
        let jitter = 0.5 + fastrand::f64();
        Some(self.retries.backoff.saturating_mul(1 << before.min(16)).mul_f64(jitter))
    }
}

/// The next attempt after a failed one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NextAttempt {
    /// At once, at a host that wasn't tried. It needs no budget, because the failure cost no host
    /// any work.
    OtherHost,
    /// After a wait, within the budget.
    Retry,
    /// None: the client gets the error.
    Never,
}

impl NextAttempt {
    /// The next attempt after a failure. `is_passing` is true if its cause may be gone a moment
    /// later, and `has_time` if another host may be tried.
    pub(super) fn after(failure: Failure, is_passing: bool, has_time: bool) -> Self {
        match failure {
            Failure::NotSent { .. } | Failure::NotBegun if has_time => Self::OtherHost,
            // A host without an allowed address won't have one a moment later.
            Failure::NotSent { .. } if !is_passing => Self::Never,
            Failure::NotSent { .. } | Failure::NotBegun | Failure::Lost { .. } => Self::Retry,
            Failure::NoHead | Failure::Ours => Self::Never,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_has_its_next_attempt() {
        let (not_sent, lost) = (Failure::NotSent { is_known: false }, Failure::Lost { is_known: false });
        for (failure, is_passing, with_time, without) in [
            (not_sent, true, NextAttempt::OtherHost, NextAttempt::Retry),
            (not_sent, false, NextAttempt::OtherHost, NextAttempt::Never),
            (Failure::NotBegun, true, NextAttempt::OtherHost, NextAttempt::Retry),
            (Failure::NotBegun, false, NextAttempt::OtherHost, NextAttempt::Retry),
            (lost, true, NextAttempt::Retry, NextAttempt::Retry),
            (lost, false, NextAttempt::Retry, NextAttempt::Retry),
            (Failure::NoHead, true, NextAttempt::Never, NextAttempt::Never),
            (Failure::Ours, true, NextAttempt::Never, NextAttempt::Never),
        ] {
            for (has_time, expected) in [(true, with_time), (false, without)] {
                let next = NextAttempt::after(failure, is_passing, has_time);
                assert_eq!(next, expected, "{failure:?}, passing: {is_passing}, time: {has_time}");
            }
        }
    }

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
        // Ten retries are saved, and each request except the first adds a fifth of one.
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
