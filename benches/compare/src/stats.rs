//! Medians and ranges of few runs, and ratios of alternating runs.

/// The statistics of one measure over the runs of one target.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Spread {
    /// `None` without values.
    pub(crate) fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let middle = sorted.len() / 2;
        let median = if sorted.len() % 2 == 1 {
            sorted[middle]
        } else {
            f64::midpoint(sorted[middle - 1], sorted[middle])
        };
        Some(Self { median, min, max })
    }

    /// Divides each run by the other target's run of the same round. Slow changes of the machine
    /// cancel out, which they wouldn't in a ratio of medians.
    pub(crate) fn of_ratios(values: &[f64], bases: &[f64]) -> Option<Self> {
        let ratios: Vec<f64> = values.iter().zip(bases).map(|(value, base)| value / base).collect();
        Self::of(&ratios)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(Spread::of(&[]), None);
        assert_eq!(Spread::of(&[3.0, 1.0, 2.0]), Some(Spread { median: 2.0, min: 1.0, max: 3.0 }));
        assert_eq!(Spread::of(&[4.0, 1.0, 2.0, 9.0]), Some(Spread { median: 3.0, min: 1.0, max: 9.0 }));
    }

    #[test]
    fn a_ratio_is_of_neighbours() {
        // The machine was half as fast in the second round, but the ratio stays the same.
        let ratio = Spread::of_ratios(&[1.0, 2.0, 1.0], &[2.0, 4.0, 4.0]);
        assert_eq!(ratio, Some(Spread { median: 0.5, min: 0.25, max: 0.5 }));
    }
}
