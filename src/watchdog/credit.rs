//! How long a client may still be slower than a minimum rate (`slow_clients = { min_rate = … }`).
//!
//! A client begins with a credit of [`PERIOD`]. Bytes that it reads add the time that they take at
//! the minimum rate. Time in which bytes wait for it is subtracted. So a client that keeps the rate
//! never runs out, one that reads nothing does after [`PERIOD`], and one that reads half as fast
//! does after twice that. Time in which no bytes wait doesn't count: a slow database costs the
//! client nothing.

use std::time::Duration;

/// How long a client may read nothing. If this were shorter, a network that loses packets would
/// look like a slow client.
const PERIOD: Duration = Duration::from_secs(10);
/// The credit is at most the time of so many bytes, or [`PERIOD`] if that's longer. Clients have
/// buffers of megabytes. They fill a buffer at once, and then read nothing until it's half empty.
const BUFFERS: u64 = 4 << 20;

/// The credit of one stream's client.
#[derive(Debug)]
pub(crate) struct Credit {
    /// Bytes per second.
    rate: usize,
    left: Duration,
}

impl Credit {
    pub(super) fn new(rate: usize) -> Self {
        Self { rate, left: PERIOD }
    }

    /// Records that bytes waited for the client for so long, and that it read so many.
    pub(super) fn pass(&mut self, waited: Duration, taken: u64) {
        let left = self.left.saturating_add(self.worth(taken)).saturating_sub(waited);
        self.left = left.min(PERIOD.max(self.worth(BUFFERS)));
    }

    /// How long the client may let bytes wait without reading any.
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

    /// The seconds after which a client that reads `each` bytes per second has no credit left.
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
        // At a low rate, the limit is the size of the buffers.
        let mut credit = Credit::new(64 * 1024);
        credit.pass(Duration::ZERO, 1 << 40);
        assert_eq!(lasts(&mut credit, 0), Some(64));
    }
}
