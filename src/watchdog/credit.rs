//! How long a client may still take less than a minimum rate (`slow_clients = { min_rate = … }`).
//!
//! It begins with [`PERIOD`]. What the client takes adds the time that it takes at the minimum
//! rate, and the time in which it lets something wait is taken off: one that keeps the rate never
//! comes to the end, one that takes nothing does after [`PERIOD`], and one that takes half of it
//! after twice that. Time in which nothing waits for the client does not count: a slow database
//! costs it nothing.

use std::time::Duration;

/// How long a client may take nothing. Shorter than that, a network that loses packets would look
/// like a slow client.
const PERIOD: Duration = Duration::from_secs(10);
/// What counts in favour of a client at most, if that is more than it takes in [`PERIOD`] at the
/// minimum rate. Buffers of clients are megabytes: one fills at once, and is emptied by half before
/// the client is seen to take anything more.
const BUFFERS: u64 = 4 << 20;

/// What one stream's client has left.
#[derive(Debug)]
pub(crate) struct Credit {
    /// Bytes a second.
    rate: usize,
    left: Duration,
}

impl Credit {
    pub(super) fn new(rate: usize) -> Self {
        Self { rate, left: PERIOD }
    }

    /// The client let something wait for so long, and took so many bytes.
    pub(super) fn pass(&mut self, waited: Duration, taken: u64) {
        let left = self.left.saturating_add(self.worth(taken)).saturating_sub(waited);
        self.left = left.min(PERIOD.max(self.worth(BUFFERS)));
    }

    /// How long it may let something wait without taking any of it.
    pub(super) fn left(&self) -> Duration {
        self.left
    }

    /// The time that so many bytes take at the minimum rate.
    fn worth(&self, bytes: u64) -> Duration {
        Duration::try_from_secs_f64(bytes as f64 / self.rate as f64).unwrap_or(Duration::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: usize = 1_000_000;
    const SECOND: Duration = Duration::from_secs(1);

    /// After how many seconds a client is out of credit that takes so many bytes in each.
    fn lasts(credit: &mut Credit, each: u64) -> Option<u32> {
        (1..1000).find(|_| {
            credit.pass(SECOND, each);
            credit.left().is_zero()
        })
    }

    #[test]
    fn who_keeps_the_rate_goes_on_and_who_does_not_has_an_end() {
        for (each, end) in [(0, Some(10)), (500_000, Some(20)), (900_000, Some(100)), (1_000_000, None)] {
            assert_eq!(lasts(&mut Credit::new(RATE), each), end, "{each}");
        }
    }

    #[test]
    fn time_in_which_nothing_waits_does_not_count() {
        let mut credit = Credit::new(RATE);
        for _ in 0..1000 {
            credit.pass(Duration::ZERO, 10);
        }
        assert_eq!(lasts(&mut credit, 0), Some(10));
    }

    #[test]
    fn what_was_taken_once_does_not_count_for_ever() {
        let mut credit = Credit::new(RATE);
        credit.pass(Duration::ZERO, 1 << 40);
        assert_eq!(lasts(&mut credit, 0), Some(10));
        // At a small rate it is what buffers hold.
        let mut credit = Credit::new(64 * 1024);
        credit.pass(Duration::ZERO, 1 << 40);
        assert_eq!(lasts(&mut credit, 0), Some(64));
    }
}
