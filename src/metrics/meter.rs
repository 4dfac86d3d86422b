//! Collects one request's contribution to the metrics.

use std::time::Duration;

use http::Version;
use rowstream_encode::Format;

use super::exemplars::ExemplarIds;
use super::requests::{Contribution, Protocol, RequestEnd, RequestKind, Series};
use crate::access_log::LogEntry;
use crate::outcome::Times;
use crate::outcome::{Outcome, OutcomeName};

/// The interval between counts of a stream's progress. Otherwise a stream of hours would only show
/// at its end.
const COUNTED_EACH: Duration = Duration::from_secs(1);

/// The counts that a request adds to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subject {
    /// The counts of requests without an endpoint.
    None,
    /// The counts of the admin endpoints.
    Admin,
    /// The counts of the endpoint with this index.
    Endpoint(usize),
}

/// Meters one request.
#[derive(Debug)]
pub(crate) struct Meter {
    pub(crate) subject: Subject,
    kind: RequestKind,
    /// True if it had a permit.
    admitted: bool,
    first_row: Option<Duration>,
    /// For a stream: the part that is counted already, and the time of that count since its start.
    counted: Option<Box<Contribution>>,
    counted_at: Duration,
}

impl Meter {
    /// The meter of a new request.
    pub(crate) fn new(version: Version) -> Self {
        Self {
            subject: Subject::None,
            kind: RequestKind { format: None, protocol: Protocol::of(version) },
            admitted: false,
            first_row: None,
            counted: None,
            counted_at: Duration::ZERO,
        }
    }

    /// Records its format.
    pub(crate) fn format(&mut self, format: Format) {
        self.kind.format = Some(format);
    }

    /// Records that it has a permit.
    pub(crate) fn admit(&mut self) {
        self.admitted = true;
    }

    /// Records the time of its first row, or of the end of an empty result.
    pub(crate) fn first_row(&mut self, times: &Times) {
        self.first_row = Some(times.total());
    }

    /// The time from the request to its first row, if there was one.
    pub(crate) fn until_first_row(&self) -> Option<Duration> {
        self.first_row
    }

    /// Records that its rows are streamed.
    pub(crate) fn begin_stream(&mut self, series: &Series) {
        self.counted = Some(Box::default());
        series.begin_stream();
    }

    /// True if a stream's progress should be counted now.
    #[inline]
    pub(crate) fn is_due(&self, entry: &LogEntry) -> bool {
        self.counted.is_some() && entry.elapsed() >= self.counted_at + COUNTED_EACH
    }

    /// Counts the progress since the last count.
    #[cold]
    pub(crate) fn count(&mut self, series: &Series, entry: &LogEntry) {
        self.counted_at = entry.elapsed();
        let part = self.part(entry);
        series.add(self.kind, part);
    }

    /// Counts its end, with its ids for an exemplar.
    pub(crate) fn end(&mut self, series: &Series, entry: &LogEntry, outcome: &Outcome, ids: ExemplarIds) {
        let duration = self.admitted.then(|| entry.elapsed());
        let (streamed, first_row) = (self.counted.is_some(), self.first_row);
        let part = self.part(entry);
        let ended = OutcomeName::of(outcome, entry.status);
        series.end(self.kind, part, RequestEnd { ended, streamed, duration, first_row, ids: ids.any() });
    }

    /// Takes the part that isn't counted yet.
    fn part(&mut self, entry: &LogEntry) -> Contribution {
        let now = Contribution { rows: entry.rows.all(), bytes: entry.bytes, times: entry.times };
        let Some(counted) = &mut self.counted else { return now };
        let before = std::mem::replace(&mut **counted, now);
        Contribution {
            rows: now.rows.saturating_sub(before.rows),
            bytes: now.bytes.saturating_sub(before.bytes),
            times: now.times - before.times,
        }
    }
}
