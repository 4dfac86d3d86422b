//! Ratios of two targets that were measured alternately.
//!
//! Each pair of neighbouring runs gives a ratio, and the result is the median over the pairs. If
//! the machine is slow for a while, that affects both sides of a few ratios, but not the result.

use super::tally::Phase;
use super::{Report, Run};

/// A measurement that is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Figure {
    Wall,
    RequestsPerSecond,
    RowsPerSecond,
    ServerCpu,
    PeakMemory,
    FirstByte,
}

impl Figure {
    pub(super) const ALL: [Self; 6] = [
        Self::Wall,
        Self::RequestsPerSecond,
        Self::RowsPerSecond,
        Self::ServerCpu,
        Self::PeakMemory,
        Self::FirstByte,
    ];

    /// Its name in reports.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Wall => "wall",
            Self::RequestsPerSecond => "requests_per_second",
            Self::RowsPerSecond => "rows_per_second",
            Self::ServerCpu => "server_cpu",
            Self::PeakMemory => "peak_memory",
            Self::FirstByte => "first_byte_p50",
        }
    }

    /// `None` if it wasn't measured.
    pub(super) fn of(self, run: &Run) -> Option<f64> {
        let first_byte = run.tally.latency(Phase::FirstByte);
        match self {
            Self::Wall => Some(run.wall.as_secs_f64()),
            Self::RequestsPerSecond => Some(run.per_second(run.tally.complete)),
            Self::RowsPerSecond => Some(run.per_second(run.tally.rows)),
            Self::ServerCpu => run.cost.map(|cost| cost.cpu_user + cost.cpu_system),
            Self::PeakMemory => run.cost.map(|cost| cost.peak_memory as f64),
            Self::FirstByte => (first_byte.count() > 0).then(|| first_byte.at(0.5)),
        }
    }
}

impl Run {
    /// `count` divided by the wall time.
    pub(super) fn per_second(&self, count: u64) -> f64 {
        count as f64 / self.wall.as_secs_f64().max(1e-9)
    }
}

/// The median and range of some values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Spread {
    pub(super) median: f64,
    pub(super) min: f64,
    pub(super) max: f64,
}

impl Spread {
    /// `None` without values.
    pub(super) fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let median =
            if values.len() % 2 == 1 { values[middle] } else { (values[middle - 1] + values[middle]) / 2.0 };
        Some(Self { median, min, max })
    }
}

impl Report {
    /// Target ÷ compared target. `None` if a figure wasn't measured, or if it's 0 for the compared
    /// target.
    pub(super) fn ratio(&self, figure: Figure) -> Option<Spread> {
        let [target, other] = self.targets.as_slice() else { return None };
        let ratios = target.runs.iter().zip(&other.runs).filter_map(|(run, other)| {
            let (value, other) = (figure.of(run)?, figure.of(other)?);
            (other > 0.0).then(|| value / other)
        });
        Spread::of(ratios.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spreads() {
        assert_eq!(Spread::of(vec![]), None);
        assert_eq!(Spread::of(vec![3.0, 1.0, 2.0]), Some(Spread { median: 2.0, min: 1.0, max: 3.0 }));
        assert_eq!(Spread::of(vec![4.0, 1.0]), Some(Spread { median: 2.5, min: 1.0, max: 4.0 }));
    }
}
