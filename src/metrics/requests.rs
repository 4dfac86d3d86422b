//! Counts the requests of one endpoint.
//!
//! Each worker has separate counts behind a lock that only a scrape contends for. So counting costs
//! a few nanoseconds, and no cache line moves between cores.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, MutexGuard};
use std::time::Duration;

use http::Version;
use rowstream_core::histogram::{ANSWERS, Histogram, WAITS};
use rowstream_core::lock::Mutex;
use rowstream_encode::Format;

use super::exemplars::{ExemplarIds, Exemplars};
use super::families::{self as family, Family};
use crate::outcome::OutcomeName;
use crate::outcome::Times;

/// The label for requests without an endpoint, without a format, or without a protocol yet. It's
/// never a path, because paths begin with a slash.
pub(super) const NONE: &str = "none";
/// The label of the admin endpoints.
pub(super) const ADMIN: &str = "/_rowstream/";

/// The HTTP version of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Protocol {
    Http10,
    Http11,
    Http2,
    Http3,
}

impl Protocol {
    pub(super) const ALL: [Self; 4] = [Self::Http10, Self::Http11, Self::Http2, Self::Http3];

    /// Maps the versions that we serve. hyper takes anything older than HTTP/1.1 for HTTP/1.0.
    pub(crate) fn of(version: Version) -> Self {
        match version {
            Version::HTTP_3 => Self::Http3,
            Version::HTTP_2 => Self::Http2,
            Version::HTTP_11 => Self::Http11,
            _ => Self::Http10,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Http10 => "HTTP/1.0",
            Self::Http11 => "HTTP/1.1",
            Self::Http2 => "HTTP/2",
            Self::Http3 => "HTTP/3",
        }
    }
}

/// The properties that divide an endpoint's requests into separate counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RequestKind {
    /// `None` if no format was chosen: the request failed earlier, or its method is `OPTIONS`.
    pub(super) format: Option<Format>,
    pub(super) protocol: Protocol,
}

impl RequestKind {
    pub(super) fn format_name(self) -> &'static str {
        self.format.map_or(NONE, Format::name)
    }
}

/// The counts of one kind.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Totals {
    /// By outcome.
    pub(super) requests: [u64; OutcomeName::ALL.len()],
    pub(super) streams: [u64; OutcomeName::ALL.len()],
    pub(super) rows: u64,
    pub(super) bytes: u64,
}

impl Totals {
    fn add(&mut self, other: &Self) {
        let (requests, streams) = (self.requests.iter_mut(), self.streams.iter_mut());
        requests.zip(other.requests).for_each(|(count, more)| *count += more);
        streams.zip(other.streams).for_each(|(count, more)| *count += more);
        self.rows += other.rows;
        self.bytes += other.bytes;
    }
}

/// The counts of an endpoint.
#[derive(Debug, Clone)]
pub(super) struct EndpointCounts {
    /// The kinds that were requested. There are few.
    pub(super) kinds: Vec<(RequestKind, Totals)>,
    pub(super) times: Times,
    /// The streams that have begun.
    begun: u64,
    /// For requests with a permit.
    pub(super) durations: Histogram,
    pub(super) first_rows: Histogram,
    /// Exemplars. `None` until a request has an id.
    pub(super) exemplars: Option<Box<Exemplars>>,
}

impl Default for EndpointCounts {
    fn default() -> Self {
        let (durations, first_rows) = (Histogram::new(ANSWERS), Histogram::new(WAITS));
        let (kinds, times) = (Vec::new(), Times::default());
        Self { kinds, times, begun: 0, durations, first_rows, exemplars: None }
    }
}

impl EndpointCounts {
    fn kind(&mut self, kind: RequestKind) -> &mut Totals {
        let index = self.kinds.iter().position(|(known, _)| *known == kind).unwrap_or_else(|| {
            self.kinds.push((kind, Totals::default()));
            self.kinds.len() - 1
        });
        &mut self.kinds[index].1
    }

    /// The number of buckets in a family of [`Exemplars::OF`].
    pub(super) fn buckets(&self, family: &Family) -> usize {
        if family.name == family::DURATION.name {
            self.durations.bucket_count()
        } else {
            self.first_rows.bucket_count()
        }
    }

    /// Makes a request the exemplar of its buckets.
    #[cold]
    fn exemplify(&mut self, ids: ExemplarIds, end: &RequestEnd) {
        let exemplars = self.exemplars.get_or_insert_default();
        exemplars.note(ids, &self.durations, &self.first_rows, end.duration, end.first_row);
    }

    fn add(&mut self, other: &Self) {
        for (kind, totals) in &other.kinds {
            self.kind(*kind).add(totals);
        }
        self.times += other.times;
        self.begun += other.begun;
        self.durations.add(&other.durations);
        self.first_rows.add(&other.first_rows);
        if let Some(other) = &other.exemplars {
            self.exemplars.get_or_insert_default().add(other);
        }
    }

    /// The streams that have begun and not ended. The result may be too low if streams end while
    /// the workers' counts are read.
    pub(super) fn running(&self) -> u64 {
        let ended = self.kinds.iter().flat_map(|(_, totals)| totals.streams).sum();
        self.begun.saturating_sub(ended)
    }
}

/// A request's contribution to the counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Contribution {
    pub(super) rows: u64,
    pub(super) bytes: u64,
    pub(super) times: Times,
}

/// The end of a request.
#[derive(Debug, Clone, Copy)]
pub(super) struct RequestEnd {
    pub(super) ended: OutcomeName,
    /// True if its rows were streamed.
    pub(super) streamed: bool,
    /// From the request to its last byte, if it had a permit.
    pub(super) duration: Option<Duration>,
    pub(super) first_row: Option<Duration>,
    /// Its ids for an exemplar, if it has any.
    pub(super) ids: Option<ExemplarIds>,
}

/// The counts of an endpoint, one for each worker.
pub(crate) struct Series(Box<[Mutex<EndpointCounts>]>);

impl Default for Series {
    fn default() -> Self {
        Self((0..*SHARDS).map(|_| Mutex::default()).collect())
    }
}

/// The number of workers.
static SHARDS: LazyLock<usize> =
    LazyLock::new(|| std::thread::available_parallelism().map_or(1, NonZero::get));

thread_local! {
    static NUMBER: usize = {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        NEXT.fetch_add(1, Ordering::Relaxed)
    };
}

impl Series {
    /// The counts of this thread.
    fn mine(&self) -> MutexGuard<'_, EndpointCounts> {
        // Threads that aren't workers share these counts. A thread that is ending uses the first.
        self.0[NUMBER.try_with(|number| *number).unwrap_or_default() % self.0.len()].lock()
    }

    /// Counts a stream that begins.
    pub(crate) fn begin_stream(&self) {
        self.mine().begun += 1;
    }

    /// Adds the progress of a running request.
    pub(super) fn add(&self, kind: RequestKind, part: Contribution) {
        let mut counts = self.mine();
        counts.times += part.times;
        let totals = counts.kind(kind);
        totals.rows += part.rows;
        totals.bytes += part.bytes;
    }

    /// Counts a request that ends.
    pub(super) fn end(&self, kind: RequestKind, part: Contribution, end: RequestEnd) {
        let mut counts = self.mine();
        counts.times += part.times;
        if let Some(duration) = end.duration {
            counts.durations.observe(duration);
        }
        if let Some(first_row) = end.first_row {
            counts.first_rows.observe(first_row);
        }
        if let Some(ids) = end.ids {
            counts.exemplify(ids, &end);
        }
        let totals = counts.kind(kind);
        totals.requests[end.ended as usize] += 1;
        totals.streams[end.ended as usize] += u64::from(end.streamed);
        totals.rows += part.rows;
        totals.bytes += part.bytes;
    }

    /// The sum of all workers' counts.
    pub(super) fn total(&self) -> EndpointCounts {
        let mut total = EndpointCounts::default();
        for shard in &self.0 {
            total.add(&shard.lock());
        }
        total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counts_of_all_threads_are_one() {
        let series = Series::default();
        let kinds =
            [Some(Format::Csv), None].map(|format| RequestKind { format, protocol: Protocol::Http11 });
        let part = Contribution { rows: 2, bytes: 30, ..Contribution::default() };
        std::thread::scope(|scope| {
            for _ in 0..5 {
                scope.spawn(|| {
                    series.begin_stream();
                    series.add(kinds[0], part);
                    let duration = Some(Duration::from_millis(7));
                    let (first_row, ids) = (None, None);
                    let end =
                        RequestEnd { ended: OutcomeName::Failed, streamed: true, duration, first_row, ids };
                    series.end(kinds[0], part, end);
                    series.begin_stream();
                    let end = RequestEnd {
                        ended: OutcomeName::ClientError,
                        streamed: false,
                        duration: None,
                        ..end
                    };
                    series.end(kinds[1], Contribution::default(), end);
                });
            }
        });
        let total = series.total();
        let of = |kind| total.kinds.iter().find(|(known, _)| *known == kind).expect("it was counted").1;
        let failed = OutcomeName::Failed as usize;
        assert_eq!((of(kinds[0]).requests[failed], of(kinds[0]).streams[failed]), (5, 5));
        assert_eq!((of(kinds[0]).rows, of(kinds[0]).bytes), (20, 300));
        assert_eq!(of(kinds[1]).requests.iter().sum::<u64>(), 5);
        assert_eq!((total.running(), total.durations.count(), total.first_rows.count()), (5, 5, 0));
    }
}
