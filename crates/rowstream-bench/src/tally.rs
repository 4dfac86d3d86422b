//! The measurements of requests, in constant memory.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::reply::{Failure, FailureKind};

/// The phases of a request that are timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Opening a connection, if one was opened.
    Connect,
    /// Until the first byte of the head.
    FirstByte,
    /// Until the first row is complete.
    FirstRow,
    /// From the first byte to the end.
    Transfer,
    /// The whole request.
    Total,
}

impl Phase {
    pub(super) const ALL: [Self; 5] =
        [Self::Connect, Self::FirstByte, Self::FirstRow, Self::Transfer, Self::Total];

    /// Its name in reports.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::FirstByte => "first_byte",
            Self::FirstRow => "first_row",
            Self::Transfer => "transfer",
            Self::Total => "total",
        }
    }
}

/// Durations in nanoseconds, to three digits.
#[derive(Debug, Clone)]
pub(super) struct Latency(Histogram<u64>);

impl Default for Latency {
    fn default() -> Self {
        Self(Histogram::new(3).expect("three digits are allowed"))
    }
}

impl Latency {
    fn record(&mut self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.0.record(nanos).expect("the histogram grows");
    }

    fn add(&mut self, other: &Self) {
        self.0.add(&other.0).expect("the histogram grows");
    }

    pub(super) fn count(&self) -> u64 {
        self.0.len()
    }

    /// In seconds. `quantile` is from 0 to 1.
    pub(super) fn at(&self, quantile: f64) -> f64 {
        seconds(self.0.value_at_quantile(quantile))
    }

    pub(super) fn min(&self) -> f64 {
        seconds(self.0.min())
    }

    pub(super) fn mean(&self) -> f64 {
        self.0.mean() / 1e9
    }

    pub(super) fn max(&self) -> f64 {
        seconds(self.0.max())
    }
}

fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}

/// The times of one request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    /// The time to open a connection.
    pub(super) connect: Option<Duration>,
    /// When it was due or began. Its connection may still have had to be opened.
    pub(super) begun: Instant,
    /// The start of the wait for the first byte and row. In the open model that's when the request
    /// was due, in the closed model when it was sent.
    pub(super) awaited: Instant,
    pub(super) first_byte: Option<Instant>,
    pub(super) first_row: Option<Instant>,
    pub(super) end: Instant,
}

/// Failures of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FailureTally {
    pub(super) count: u64,
    /// The description of the first one.
    pub(super) example: String,
}

/// The totals of requests that have ended. Failed ones are only counted.
#[derive(Debug, Clone, Default)]
pub(super) struct Tally {
    pub(super) complete: u64,
    pub(super) rows: u64,
    /// Bytes of bodies.
    pub(super) bytes: u64,
    pub(super) failures: BTreeMap<FailureKind, FailureTally>,
    /// All responses with a head.
    pub(super) statuses: BTreeMap<u16, u64>,
    pub(super) last_end: Option<Instant>,
    latencies: [Latency; Phase::ALL.len()],
}

impl Tally {
    pub(super) fn requests(&self) -> u64 {
        self.complete + self.failed()
    }

    pub(super) fn failed(&self) -> u64 {
        self.failures.values().map(|failed| failed.count).sum()
    }

    pub(super) fn latency(&self, phase: Phase) -> &Latency {
        &self.latencies[phase as usize]
    }

    /// Records the status of a response.
    pub(super) fn status(&mut self, status: u16) {
        *self.statuses.entry(status).or_default() += 1;
    }

    /// Records a complete request.
    pub(super) fn complete(&mut self, rows: u64, bytes: u64, times: &Times) {
        self.complete += 1;
        self.rows += rows;
        self.bytes += bytes;
        self.last_end = self.last_end.max(Some(times.end));
        for phase in Phase::ALL {
            if let Some(time) = times.of(phase) {
                self.latencies[phase as usize].record(time);
            }
        }
    }

    /// Records a failed request.
    pub(super) fn fail(&mut self, failure: Failure, end: Instant) {
        self.last_end = self.last_end.max(Some(end));
        self.add_failed(failure.kind, FailureTally { count: 1, example: failure.detail });
    }

    fn add_failed(&mut self, kind: FailureKind, failed: FailureTally) {
        let count = failed.count;
        self.failures.entry(kind).and_modify(|known| known.count += count).or_insert(failed);
    }

    /// Adds the measurements of another thread.
    pub(super) fn add(&mut self, other: Self) {
        self.complete += other.complete;
        self.rows += other.rows;
        self.bytes += other.bytes;
        self.last_end = self.last_end.max(other.last_end);
        for (kind, failed) in other.failures {
            self.add_failed(kind, failed);
        }
        for (status, count) in other.statuses {
            *self.statuses.entry(status).or_default() += count;
        }
        for (latency, other) in self.latencies.iter_mut().zip(&other.latencies) {
            latency.add(other);
        }
    }
}

impl Times {
    fn of(&self, phase: Phase) -> Option<Duration> {
        let until = |to: Option<Instant>, from: Instant| to.map(|to| to.saturating_duration_since(from));
        match phase {
            Phase::Connect => self.connect,
            Phase::FirstByte => until(self.first_byte, self.awaited),
            Phase::FirstRow => until(self.first_row, self.awaited),
            Phase::Transfer => self.first_byte.map(|first| self.end.saturating_duration_since(first)),
            Phase::Total => until(Some(self.end), self.begun),
        }
    }
}
