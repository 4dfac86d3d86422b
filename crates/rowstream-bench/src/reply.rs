//! One response while it's read: when its parts arrived, and if it can be trusted at the end.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use super::count::{Counter, End};

/// The kinds of failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FailureKind {
    /// No connection could be opened.
    Connect,
    /// Nothing arrived for `--timeout`, or the request was still running that long after the end of
    /// the run.
    Timeout,
    /// A redirect; we don't follow it.
    Status3xx,
    Status4xx,
    Status5xx,
    /// The connection or stream ended early.
    Cut,
    /// The framing is complete, but the document isn't.
    Incomplete,
    /// The number of rows isn't `--expect-rows`.
    WrongRows,
    /// Not HTTP.
    Protocol,
}

impl FailureKind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Timeout => "timeout",
            Self::Status3xx => "status-3xx",
            Self::Status4xx => "status-4xx",
            Self::Status5xx => "status-5xx",
            Self::Cut => "cut",
            Self::Incomplete => "incomplete",
            Self::WrongRows => "wrong-rows",
            Self::Protocol => "protocol",
        }
    }

    /// The kind of failure of this status. `None` if it's a success.
    fn of_status(status: u16) -> Option<Self> {
        match status {
            200..300 => None,
            300..400 => Some(Self::Status3xx),
            400..500 => Some(Self::Status4xx),
            500..600 => Some(Self::Status5xx),
            _ => Some(Self::Protocol),
        }
    }
}

/// The reason why a request failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) kind: FailureKind,
    /// A description for people.
    pub(super) detail: String,
}

impl Failure {
    pub(super) fn new(kind: FailureKind, detail: impl Into<String>) -> Self {
        Self { kind, detail: detail.into() }
    }
}

/// How the framing of a body ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    /// By its own mark: the last byte of its length, the last chunk, or END_STREAM.
    Marked,
    /// By the end of the connection, as in HTTP/1.0. A crash of the server looks the same.
    Closed,
}

/// The counts of one thread so far, for the timeline. They include requests that fail later.
#[derive(Debug, Default)]
pub(super) struct LiveCounts {
    pub(super) requests: AtomicU64,
    pub(super) rows: AtomicU64,
    pub(super) bytes: AtomicU64,
}

/// The header field with the tag of the records in a framed response.
pub(super) const TAG: &str = "rowstream-tag";

/// The header fields that decide how rows are counted, each empty if it's missing.
#[derive(Default)]
pub(super) struct RowFields<'a> {
    pub(super) content_type: &'a str,
    pub(super) content_encoding: &'a str,
    /// That of [`TAG`].
    pub(super) tag: &'a str,
}

/// A response while it is read.
pub(super) struct Reply<'a> {
    live: &'a LiveCounts,
    pub(super) status: Option<u16>,
    /// When the first byte of the head arrived.
    pub(super) first_byte: Option<Instant>,
    /// When the first row was complete.
    pub(super) first_row: Option<Instant>,
    /// Of the body, without its framing.
    pub(super) bytes: u64,
    counter: Counter,
}

impl<'a> Reply<'a> {
    pub(super) fn new(live: &'a LiveCounts) -> Self {
        Self { live, status: None, first_byte: None, first_row: None, bytes: 0, counter: Counter::Opaque }
    }

    /// Records that bytes arrived.
    pub(super) fn arrived(&mut self) {
        self.first_byte.get_or_insert_with(Instant::now);
    }

    /// Records the head. Compressed bodies aren't counted.
    pub(super) fn head(&mut self, status: u16, fields: &RowFields<'_>) {
        self.status = Some(status);
        if matches!(fields.content_encoding, "" | "identity") && FailureKind::of_status(status).is_none() {
            self.counter = Counter::of_response(fields.content_type, fields.tag);
        }
    }

    /// Counts a piece of the body.
    pub(super) fn body(&mut self, bytes: &[u8]) {
        let before = self.counter.rows();
        self.counter.feed(bytes);
        let rows = self.counter.rows();
        if before == 0 && rows > 0 {
            self.first_row = Some(Instant::now());
        }
        self.bytes += bytes.len() as u64;
        self.live.bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        self.live.rows.fetch_add(rows - before, Ordering::Relaxed);
    }

    /// Returns the rows if the response is complete and has the expected number.
    pub(super) fn verdict(
        &self,
        ended: Result<Framing, Failure>,
        expected: Option<u64>,
    ) -> Result<u64, Failure> {
        if let Some(kind) = self.status.and_then(FailureKind::of_status) {
            return Err(Failure::new(kind, format!("status {}", self.status.unwrap_or_default())));
        }
        let framing = ended?;
        let document = self.counter.finish();
        let as_expected = expected == Some(document.rows);
        match (document.end, framing) {
            (End::Broken, _) => {
                let detail = format!("the document is truncated after {} rows", document.rows);
                return Err(Failure::new(FailureKind::Incomplete, detail));
            }
            (End::Possible, Framing::Closed) if !as_expected => {
                let detail = "only the close of the connection ended the body, which proves nothing";
                return Err(Failure::new(FailureKind::Cut, detail));
            }
            _ => {}
        }
        match expected {
            Some(rows) if !as_expected => {
                let detail = format!("{} rows instead of {rows}", document.rows);
                Err(Failure::new(FailureKind::WrongRows, detail))
            }
            _ => Ok(document.rows),
        }
    }
}
