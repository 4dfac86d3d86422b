//! Chooses the refusals that have a line in the access log. Otherwise a server that refuses 20,000
//! requests per second would spend its time on as many lines.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rowstream_core::lock::Mutex;

/// The refusals per second that have a line.
const MOST: u64 = 100;
const SECOND: Duration = Duration::from_secs(1);

/// The refusals of a second.
pub(super) struct Refusals {
    second: Mutex<Second>,
    /// True while some of them have no line.
    has_further: AtomicBool,
}

struct Second {
    begun: Option<Instant>,
    refused: u64,
}

impl Refusals {
    pub(super) const fn new() -> Self {
        let second = Second { begun: None, refused: 0 };
        Self { second: Mutex::new(second), has_further: AtomicBool::new(false) }
    }

    /// Counts a refusal. Returns true if it has a line.
    pub(super) fn count(&self, now: Instant) -> bool {
        let mut second = self.second.lock();
        if second.begun.is_none_or(|begun| now >= begun + SECOND) {
            *second = Second { begun: Some(now), refused: 0 };
        }
        second.refused += 1;
        let has_line = second.refused <= MOST;
        if !has_line {
            self.has_further.store(true, Ordering::Relaxed);
        }
        has_line
    }

    /// The number of refusals without a line, once their second has ended. Each is reported once.
    pub(super) fn further(&self, now: Instant) -> Option<u64> {
        if !self.has_further.load(Ordering::Relaxed) {
            return None;
        }
        let mut second = self.second.lock();
        second.begun.filter(|begun| now >= *begun + SECOND)?;
        self.has_further.store(false, Ordering::Relaxed);
        let refused = std::mem::replace(&mut *second, Second { begun: None, refused: 0 }).refused;
        Some(refused.saturating_sub(MOST)).filter(|further| *further > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hundred_of_a_second_have_a_line_and_the_others_are_told_once() {
        let (refusals, now) = (Refusals::new(), Instant::now());
        let lines = |at: Instant, refused: usize| (0..refused).filter(|_| refusals.count(at)).count();
        assert_eq!((lines(now, 100), refusals.further(now + SECOND)), (100, None));
        assert_eq!((lines(now + SECOND, 20_000), refusals.further(now + SECOND * 3 / 2)), (100, None));
        let later = now + 2 * SECOND;
        assert_eq!((refusals.further(later), refusals.further(later)), (Some(19_900), None));
        assert_eq!((lines(later, 150), refusals.further(later + SECOND)), (100, Some(50)));
    }
}
