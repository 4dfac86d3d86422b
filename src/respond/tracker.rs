//! What the log and the metrics learn of a request, at its end.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use http::{HeaderMap, Request};

use super::app::App;
use super::body::Answer;
use super::streaming::Streaming;
use crate::Error;
use crate::access_log::{Entry, Names};
use crate::admission::Permit;
use crate::auth::Credentials;
use crate::completeness::streams::Stream;
use crate::metrics::{self, Meter, SERVER_TIMING, Subject};
use crate::outcome::Outcome;
use crate::pool::Waiter;
use crate::stream::RowStream;
use crate::watchdog::Watchdog;

/// What the log will say of a request; says it when dropped, however the request ends.
pub(super) struct RequestTracker {
    pub(super) entry: Entry,
    pub(super) meter: Meter,
    pub(super) outcome: Option<Outcome>,
    /// What it showed of who it is from.
    pub(super) credentials: Credentials,
    /// What is reported of it, where it is streamed, until it has ended.
    pub(super) stream: Option<Arc<Stream>>,
    /// What it holds, to the last byte.
    pub(super) permit: Option<Permit>,
    /// Waits for connections on its behalf.
    pub(super) waiter: Waiter,
    pub(super) watchdog: Arc<Watchdog>,
    pub(super) app: Arc<App>,
}

impl RequestTracker {
    pub(super) fn new<B>(app: Arc<App>, request: &Request<B>, held: Option<Permit>) -> Self {
        let entry = match app.config.log.access {
            true => Entry::new(request).keep(request, app.address(request)),
            false => Entry::new(request),
        };
        Self {
            entry,
            meter: Meter::new(request.version()),
            outcome: None,
            credentials: Credentials::None,
            stream: None,
            permit: held,
            waiter: Waiter::default(),
            watchdog: Watchdog::current(),
            app,
        }
    }

    pub(super) fn note(&mut self, stream: &RowStream) {
        self.entry.rows = stream.rows();
        self.entry.times = stream.times();
    }

    pub(super) fn note_streaming(&mut self, streaming: &Streaming) {
        self.note(&streaming.stream);
        self.entry.rows = streaming.rows();
        self.entry.spilled = streaming.spill.as_ref().map_or(0, |spill| spill.spilled());
    }

    /// So many bytes more were handed over.
    pub(super) fn note_bytes(&mut self, bytes: usize) {
        self.entry.bytes += bytes as u64;
        if let Some(stream) = &self.stream {
            stream.note(self.entry.rows, self.entry.bytes);
        }
        if self.meter.is_due(&self.entry) {
            self.meter.count(self.app.series(self.meter.subject), &self.entry);
        }
    }

    /// Tells where the time went until the head, where something was waited for.
    pub(super) fn tell_timing(&self, headers: &mut HeaderMap) {
        let first_row = self.meter.until_first_row();
        if let Some(timing) =
            first_row.and_then(|first_row| metrics::server_timing(&self.entry.times, first_row))
        {
            headers.insert(SERVER_TIMING, timing);
        }
    }

    /// It has ended, unless it had already.
    pub(super) fn end(&mut self, outcome: Outcome, digest: Option<String>) {
        let outcome = self.outcome.get_or_insert(outcome);
        if let Some(stream) = self.stream.take() {
            self.app.state.streams.end(&stream, outcome, self.entry.times, digest);
        }
    }

    fn names(&self) -> Names<'_> {
        let config = &self.app.config;
        let endpoint = match self.meter.subject {
            Subject::Endpoint(index) => Some(config.endpoints[index].path.as_str()),
            Subject::None | Subject::Admin => None,
        };
        let credentials = &self.credentials;
        Names { endpoint, token: credentials.name(), subject: credentials.subject() }
    }

    pub(super) fn fail_before_head(&mut self, error: Error, document: Bytes) -> Answer {
        self.outcome = Some(Outcome::Failed(error));
        Answer::Whole(document)
    }
}

impl Drop for RequestTracker {
    fn drop(&mut self) {
        let ended = match (self.outcome.take(), self.watchdog.why()) {
            (Some(failed @ Outcome::Failed(_)), _) => failed,
            // Also where all was handed over: an HTTP/2 stream goes on until the client lets the
            // last of it go.
            (_, Some(over)) => over.outcome(),
            (Some(outcome), None) => outcome,
            (None, None) if self.app.state.ending.load(Ordering::Relaxed) => Outcome::Shutdown,
            (None, None) => Outcome::Aborted,
        };
        // Also where no stream came of it: no connection came, or its client left meanwhile.
        self.entry.times.pool = self.entry.times.pool.max(self.waiter.waited());
        self.end(ended, None);
        if let Some(outcome) = &self.outcome {
            self.app.state.metrics.denied.count(outcome);
            self.meter.end(self.app.series(self.meter.subject), &self.entry, outcome);
            self.entry.end(&self.app.config.log, outcome, || self.names());
        }
        self.watchdog.release(self.permit.take());
    }
}
