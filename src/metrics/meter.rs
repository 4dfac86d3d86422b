//! What one request adds to the metrics.

use std::time::Duration;

use http::Version;
use rowstream_encode::Format;

use super::exemplars::Ids;
use super::requests::{End, Kind, Part, Protocol, Series};
use crate::access_log::Entry;
use crate::outcome::Times;
use crate::outcome::{Ended, Outcome};

/// A stream is counted on about as often: one that lasts for hours would else be seen at its end
/// alone.
const COUNTED_EACH: Duration = Duration::from_secs(1);

/// Whose counts a request adds to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subject {
    /// Those of no endpoint.
    None,
    /// Those of the admin endpoints.
    Admin,
    /// Those of the endpoint with this index.
    Endpoint(usize),
}

/// Meters one request.
#[derive(Debug)]
pub(crate) struct Meter {
    pub(crate) subject: Subject,
    kind: Kind,
    /// Whether it had a permit.
    admitted: bool,
    first_row: Option<Duration>,
    /// Of a stream, what has been counted already, and how long after its beginning.
    counted: Option<Box<Part>>,
    counted_at: Duration,
}

impl Meter {
    /// The meter of a request that has just come.
    pub(crate) fn new(version: Version) -> Self {
        Self {
            subject: Subject::None,
            kind: Kind { format: None, protocol: Protocol::of(version) },
            admitted: false,
            first_row: None,
            counted: None,
            counted_at: Duration::ZERO,
        }
    }

    /// Its format is known.
    pub(crate) fn format(&mut self, format: Format) {
        self.kind.format = Some(format);
    }

    /// It has a permit.
    pub(crate) fn admit(&mut self) {
        self.admitted = true;
    }

    /// Its first row is there, or the end of a result without any.
    pub(crate) fn first_row(&mut self, times: &Times) {
        self.first_row = Some(times.total());
    }

    /// When that was, from its request on, if it was.
    pub(crate) fn until_first_row(&self) -> Option<Duration> {
        self.first_row
    }

    /// It is sent as its rows come.
    pub(crate) fn begin_stream(&mut self, series: &Series) {
        self.counted = Some(Box::default());
        series.begin_stream();
    }

    /// Whether what has come of it since it was counted last is to be counted.
    #[inline]
    pub(crate) fn is_due(&self, entry: &Entry) -> bool {
        self.counted.is_some() && entry.elapsed() >= self.counted_at + COUNTED_EACH
    }

    /// Counts what has come of it since it was counted last.
    #[cold]
    pub(crate) fn count(&mut self, series: &Series, entry: &Entry) {
        self.counted_at = entry.elapsed();
        let part = self.part(entry);
        series.add(self.kind, part);
    }

    /// Counts its end, under what it is found elsewhere.
    pub(crate) fn end(&mut self, series: &Series, entry: &Entry, outcome: &Outcome, ids: Ids) {
        let duration = self.admitted.then(|| entry.elapsed());
        let (streamed, first_row) = (self.counted.is_some(), self.first_row);
        let part = self.part(entry);
        let ended = Ended::of(outcome, entry.status);
        series.end(self.kind, part, End { ended, streamed, duration, first_row, ids: ids.any() });
    }

    /// What has not been counted, which from now on it has.
    fn part(&mut self, entry: &Entry) -> Part {
        let now = Part { rows: entry.rows, bytes: entry.bytes, times: entry.times };
        let Some(counted) = &mut self.counted else { return now };
        let before = std::mem::replace(&mut **counted, now);
        Part {
            rows: now.rows.saturating_sub(before.rows),
            bytes: now.bytes.saturating_sub(before.bytes),
            times: now.times - before.times,
        }
    }
}
