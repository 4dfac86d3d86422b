//! Histograms of durations and sizes.

use std::ops::AddAssign;
use std::time::Duration;

const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// Bounds for waits: for a connection of a pool, for a first row.
pub const WAITS: &[Duration] =
    &[Duration::from_micros(250), ms(1), ms(5), ms(25), ms(100), ms(500), ms(2_500), ms(10_000), ms(60_000)];

/// Bounds for whole responses, which can last for hours.
pub const ANSWERS: &[Duration] = &[
    ms(1),
    ms(5),
    ms(25),
    ms(100),
    ms(500),
    ms(2_500),
    ms(10_000),
    ms(60_000),
    ms(300_000),
    ms(1_800_000),
    ms(7_200_000),
    ms(21_600_000),
];

/// Bounds for the delays of timers, which fire up to two milliseconds late on an idle worker.
pub const DELAYS: &[Duration] = &[ms(2), ms(5), ms(10), ms(25), ms(100), ms(500), ms(2_500)];

/// Bounds for the sizes of batches.
pub const SIZES: &[u64] = &[1, 2, 4, 8, 16, 32, 64, 128, 256];

/// The most bounds of any histogram.
const MOST: usize = 12;
/// The most buckets. The last one counts values beyond all bounds.
pub const BUCKETS: usize = MOST + 1;

/// The unit of a histogram: durations, or numbers.
pub trait Measure: Copy + PartialOrd + AddAssign + 'static {
    /// The zero value.
    const ZERO: Self;

    /// The value in the unit of the metrics.
    fn value(self) -> f64;
}

impl Measure for Duration {
    const ZERO: Self = Self::ZERO;

    /// The value in seconds.
    fn value(self) -> f64 {
        self.as_secs_f64()
    }
}

impl Measure for u64 {
    const ZERO: Self = 0;

    fn value(self) -> f64 {
        self as f64
    }
}

/// Counts of durations or numbers, by upper bounds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram<M: Measure = Duration> {
    bounds: &'static [M],
    counts: [u64; BUCKETS],
    sum: M,
}

impl<M: Measure> Histogram<M> {
    /// An empty histogram with at most [`MOST`] bounds, in ascending order.
    pub const fn new(bounds: &'static [M]) -> Self {
        assert!(bounds.len() <= MOST, "too many bounds");
        Self { bounds, counts: [0; BUCKETS], sum: M::ZERO }
    }

    /// Counts a value.
    pub fn observe(&mut self, measure: M) {
        self.counts[self.bucket(measure)] += 1;
        self.sum += measure;
    }

    /// The bucket of a value.
    pub fn bucket(&self, measure: M) -> usize {
        self.bounds.iter().position(|bound| measure <= *bound).unwrap_or(self.bounds.len())
    }

    /// The number of buckets.
    pub fn bucket_count(&self) -> usize {
        self.bounds.len() + 1
    }

    /// Counts `count` values of zero.
    pub(crate) fn add_instants(&mut self, count: u64) {
        self.counts[0] += count;
    }

    /// Adds another histogram with the same bounds.
    pub fn add(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(other.counts) {
            *count += more;
        }
        self.sum += other.sum;
    }

    /// The sum of all values.
    pub fn sum(&self) -> M {
        self.sum
    }

    /// The number of values.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The upper bounds in the unit of the metrics, with infinity as the last, and the count of
    /// each bucket alone.
    pub fn buckets(&self) -> Vec<(f64, u64)> {
        let bounds = self.bounds.iter().map(|bound| bound.value()).chain([f64::INFINITY]);
        bounds.zip(self.counts).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_belongs_to_its_bucket() {
        let mut histogram = Histogram::new(DELAYS);
        for time in [ms(0), ms(2), ms(2) + Duration::from_nanos(1), ms(5), ms(2_500), ms(2_501), ms(999_999)]
        {
            histogram.observe(time);
        }
        histogram.add_instants(3);
        let counts: Vec<u64> = histogram.buckets().iter().map(|(_, count)| *count).collect();
        assert_eq!(counts, [5, 2, 0, 0, 0, 0, 1, 2]);
        assert_eq!(histogram.buckets().last().map(|(bound, _)| *bound), Some(f64::INFINITY));
        assert_eq!(histogram.count(), 10);
        assert_eq!(histogram.sum(), Duration::from_nanos(1) + ms(2 + 2 + 5 + 2_500 + 2_501 + 999_999));
        let mut twice = histogram.clone();
        twice.add(&histogram);
        assert_eq!((twice.count(), twice.sum()), (20, histogram.sum() * 2));
    }

    #[test]
    fn bounds_are_in_order() {
        for bounds in [WAITS, ANSWERS, DELAYS] {
            assert!(bounds.len() <= MOST && bounds.is_sorted(), "{bounds:?}");
        }
    }
}
