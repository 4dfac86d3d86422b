//! Exemplars (OpenMetrics 1.0, "Exemplars"): for each bucket of an endpoint's histograms, the last
//! request that can be found by its trace or its stream.

use std::fmt::Write as _;
use std::num::NonZero;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rowstream_core::histogram::{BUCKETS, Histogram};

use super::families::{self as family, Family};
use crate::completeness::ResponseId;

/// A request's ids in other tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ExemplarIds {
    /// The trace that recorded it.
    pub(crate) trace: Option<NonZero<u128>>,
    /// For a streamed response.
    pub(crate) stream: Option<ResponseId>,
}

impl ExemplarIds {
    /// `None` if it has neither id.
    pub(super) fn any(self) -> Option<Self> {
        (self.trace.is_some() || self.stream.is_some()).then_some(self)
    }
}

/// A request that represents its bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Exemplar {
    ids: ExemplarIds,
    took: Duration,
    at: SystemTime,
}

/// The exemplars of a histogram, by bucket.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct BucketExemplars([Option<Exemplar>; BUCKETS]);

impl BucketExemplars {
    fn add(&mut self, other: &Self) {
        for (mine, other) in self.0.iter_mut().zip(other.0) {
            if mine.is_none_or(|mine| other.is_some_and(|other| mine.at < other.at)) {
                *mine = other;
            }
        }
    }
}

/// The exemplars of an endpoint.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Exemplars {
    durations: BucketExemplars,
    first_rows: BucketExemplars,
}

impl Exemplars {
    /// The families with exemplars.
    pub(super) const OF: [&Family; 2] = [&family::FIRST_ROW, &family::DURATION];

    /// Records a request with its duration, and its time until the first row, in the buckets of
    /// these histograms.
    pub(super) fn note(
        &mut self,
        ids: ExemplarIds,
        durations: &Histogram,
        first_rows: &Histogram,
        took: Option<Duration>,
        first_row: Option<Duration>,
    ) {
        let at = SystemTime::now();
        let of = [(&mut self.durations, durations, took), (&mut self.first_rows, first_rows, first_row)];
        for (buckets, histogram, took) in of {
            if let Some(took) = took {
                buckets.0[histogram.bucket(took)] = Some(Exemplar { ids, took, at });
            }
        }
    }

    /// Keeps the later exemplar of each bucket.
    pub(super) fn add(&mut self, other: &Self) {
        self.durations.add(&other.durations);
        self.first_rows.add(&other.first_rows);
    }

    /// The exemplars of a family in [`Exemplars::OF`].
    pub(super) fn of(&self, family: &Family) -> &[Option<Exemplar>] {
        match family.name == family::DURATION.name {
            true => &self.durations.0,
            false => &self.first_rows.0,
        }
    }
}

/// Adds exemplars to the buckets in a text. The library that wrote it supports them only for its
/// own histograms.
pub(super) fn insert(
    open_metrics: &str,
    mut exemplars: [(String, impl Iterator<Item = Option<Exemplar>>); Exemplars::OF.len()],
) -> String {
    let mut out = String::with_capacity(open_metrics.len() + open_metrics.len() / 8);
    for line in open_metrics.lines() {
        out.push_str(line);
        let family = exemplars.iter_mut().find(|(begin, _)| line.starts_with(begin.as_str()));
        if let Some(exemplar) = family.and_then(|(_, exemplars)| exemplars.next().flatten()) {
            exemplar.write(&mut out);
        }
        out.push('\n');
    }
    out
}

impl Exemplar {
    fn write(&self, out: &mut String) {
        let trace = self.ids.trace.map(|id| format!("trace_id=\"{id:032x}\""));
        let stream = self.ids.stream.map(|id| format!("stream_id=\"{id}\""));
        let ids: Vec<_> = trace.into_iter().chain(stream).collect();
        let at = self.at.duration_since(UNIX_EPOCH).unwrap_or_default();
        let _ = write!(out, " # {{{}}} {} {:.3}", ids.join(","), self.took.as_secs_f64(), at.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use rowstream_core::histogram::{ANSWERS, WAITS};

    use super::*;

    fn ids(trace: u128) -> ExemplarIds {
        ExemplarIds { trace: NonZero::new(trace), stream: None }
    }

    #[test]
    fn a_bucket_has_the_last_request_that_was_in_it() {
        let (durations, first_rows) = (Histogram::new(ANSWERS), Histogram::new(WAITS));
        let micros = |micros| Some(Duration::from_micros(micros));
        let (mut one, mut other) = (Exemplars::default(), Exemplars::default());
        one.note(ids(1), &durations, &first_rows, micros(10), None);
        one.note(ids(2), &durations, &first_rows, micros(2_000), None);
        std::thread::sleep(Duration::from_millis(2));
        other.note(ids(3), &durations, &first_rows, micros(20), None);
        let mut sum = one.clone();
        sum.add(&other);
        let mut reversed = other;
        reversed.add(&one);
        assert_eq!(sum, reversed);
        let traces = sum.of(&family::DURATION).iter().map(|found| found.map(|one| one.ids));
        assert_eq!(traces.take(3).collect::<Vec<_>>(), [Some(ids(3)), Some(ids(2)), None]);
        assert!(sum.of(&family::FIRST_ROW).iter().all(Option::is_none));
    }

    #[test]
    fn they_stand_behind_the_buckets_of_their_families() {
        let exemplar = Exemplar { ids: ids(0xab), took: Duration::from_millis(7), at: UNIX_EPOCH };
        let text =
            "# TYPE a histogram\na_sum 1\na_bucket{le=\"1.0\"} 1\na_bucket{le=\"+Inf\"} 1\nb 2\n# EOF\n";
        let of = [("a_bucket{".to_owned(), [None, Some(exemplar)]), ("b_bucket{".to_owned(), [None, None])];
        let of = of.map(|(begin, all)| (begin, all.into_iter()));
        let expected = format!(
            "# TYPE a histogram\na_sum 1\na_bucket{{le=\"1.0\"}} 1\n\
             a_bucket{{le=\"+Inf\"}} 1 # {{trace_id=\"{:032x}\"}} 0.007 0.000\nb 2\n# EOF\n",
            0xab
        );
        assert_eq!(insert(text, of), expected);
    }
}
