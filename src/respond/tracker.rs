//! Collects the facts about a request, for the log and the metrics at its end.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use http::{HeaderMap, Request};
use rowstream_core::Error;
use rowstream_core::pool::Waiter;

use super::app::App;
use super::arrival::{self, Arrival};
use super::body::AnswerBody;
use super::signed::SentSignature;
use super::streaming::ActiveStream;
use crate::access_log::{LogEntry, LogNames};
use crate::admission::Permit;
use crate::auth::Credentials;
use crate::completeness::streams::{EndProof, Stream};
use crate::endpoint::Endpoint;
use crate::metrics::{self, ExemplarIds, Meter, SERVER_TIMING, Subject};
use crate::outcome::{Outcome, OutcomeName, Times};
use crate::rate_limit::{self, Quotas};
use crate::source::SourceKind;
use crate::stream::RowStream;
use crate::traces::{self, Span, TRACEPARENT};
use crate::watchdog::Watchdog;

/// The facts about a request. They're logged when this is dropped, however the request ends.
pub(super) struct RequestTracker {
    pub(super) entry: LogEntry,
    pub(super) meter: Meter,
    pub(super) outcome: Option<Outcome>,
    /// The credentials that it sent.
    pub(super) credentials: Credentials,
    /// True if its URL is signed, so that its headers have no credentials.
    pub(super) is_signed: bool,
    /// The seconds for which it requests a signed URL, as they were sent.
    pub(super) sign: Option<Box<str>>,
    /// The rest of its client's quotas.
    pub(super) quotas: Quotas,
    /// The public state of a stream, until it has ended.
    pub(super) stream: Option<Arc<Stream>>,
    /// The permit that it holds until the last byte.
    pub(super) permit: Option<Permit>,
    /// The memory of the parameters in its body, in bytes; 0 if memory has no limit.
    pub(super) body_memory: usize,
    /// Measures its waits for connections.
    pub(super) waiter: Waiter,
    pub(super) watchdog: Arc<Watchdog>,
    /// Its span, if it's recorded.
    span: Option<Box<Span>>,
    pub(super) app: Arc<App>,
}

impl RequestTracker {
    /// Boxed, because it's passed on many times with the headers and the body, and would be moved
    /// each time.
    pub(super) fn new(app: Arc<App>, request: &Request<Arrival>, held: Option<Permit>) -> Box<Self> {
        let span = app.config.traces.as_ref().and_then(|traces| Span::begin(traces, request.headers()));
        let mut entry = LogEntry::new(request);
        if app.config.log.access || span.is_some() {
            entry = entry.keep(request, arrival::address(&app.config.limits.proxies, request));
        }
        if let Some(span) = &span {
            entry.in_trace(span.trace);
        }
        Box::new(Self {
            entry,
            meter: Meter::new(request.version()),
            outcome: None,
            credentials: Credentials::None,
            is_signed: request.extensions().get::<SentSignature>().is_some(),
            sign: None,
            quotas: Quotas::default(),
            stream: None,
            permit: held,
            body_memory: 0,
            waiter: Waiter::default(),
            watchdog: Watchdog::current(),
            span: span.map(Box::new),
            app,
        })
    }

    pub(super) fn note(&mut self, stream: &RowStream) {
        self.entry.rows = stream.counts();
        self.entry.times = stream.times();
    }

    pub(super) fn note_streaming(&mut self, streaming: &ActiveStream) {
        self.note(&streaming.stream);
        self.entry.rows = streaming.rows();
        self.entry.spilled = streaming.spill.as_ref().map_or(0, |spill| spill.spilled());
    }

    /// Records that so many further bytes were handed over.
    pub(super) fn note_bytes(&mut self, bytes: usize) {
        self.entry.bytes += bytes as u64;
        if let Some(stream) = &self.stream {
            stream.note(self.entry.rows, self.entry.bytes, &self.entry.times);
        }
        if self.meter.is_due(&self.entry) {
            self.meter.count(self.app.series(self.meter.subject), &self.entry);
        }
    }

    /// Records the time when the headers are known.
    pub(super) fn note_head(&mut self) {
        if let Some(span) = &mut self.span {
            span.head = Some(self.entry.elapsed());
        }
    }

    /// Records the statement that runs, for its span: with a filter or without an optional part, it
    /// isn't the one of the file.
    pub(super) fn note_statement(&mut self, endpoint: &Endpoint) {
        if let Some(span) = &mut self.span {
            span.statement = endpoint.statements().first().map(|statement| Arc::clone(&statement.query.sql));
        }
    }

    /// Adds its span to the headers of a request to an upstream.
    pub(super) fn pass_trace(&self, headers: &mut HeaderMap) {
        if let Some(span) = &self.span {
            headers.insert(TRACEPARENT, span.traceparent());
        }
    }

    /// Sends its spans, in their final state.
    fn end_span(&self, span: &Span, outcome: &Outcome) {
        let entry = &self.entry;
        let endpoint = match self.meter.subject {
            Subject::Admin => return,
            Subject::None => None,
            Subject::Endpoint(index) => Some(&self.app.config.endpoints[index]),
        };
        let error = match outcome {
            Outcome::Failed(error) => Some(error),
            _ => None,
        };
        let database = endpoint.filter(|_| !entry.times.database.is_zero()).and_then(|endpoint| {
            let SourceKind::Sql(kind) = self.app.config.source(&endpoint.source).kind else { return None };
            let text = span.statement.as_ref()?;
            Some(traces::Query { system: kind.dialect().name, text, source: endpoint.source.name() })
        });
        let Times { pool, database: waited, encode, client, .. } = entry.times;
        self.app.state.spans.push(
            span,
            &traces::Request {
                method: entry.method().as_str(),
                version: entry.version(),
                path: entry.path(),
                route: endpoint.map(|endpoint| endpoint.path.as_str()),
                scheme: if self.app.config.tls.is_some() { "https" } else { "http" },
                address: entry.address(),
                user_agent: entry.user_agent(),
                status: entry.status,
                rows: entry.rows,
                bytes: entry.bytes,
                stream: entry.stream.map(|id| id.to_string()),
                took: entry.elapsed(),
                phases: [("pool", pool), ("database", waited), ("encode", encode), ("client", client)],
                ended: OutcomeName::of(outcome, entry.status).name(),
                is_whole: matches!(outcome, Outcome::Complete),
                code: error.map(Error::code),
                sqlstate: error.and_then(Error::sqlstate_text),
                query: database,
            },
        );
    }

    /// Adds the times until the headers, if it had to wait for something.
    pub(super) fn tell_timing(&self, headers: &mut HeaderMap) {
        let first_row = self.meter.until_first_row();
        if let Some(timing) =
            first_row.and_then(|first_row| metrics::server_timing(&self.entry.times, first_row))
        {
            headers.insert(SERVER_TIMING, timing);
        }
    }

    /// Records its end, unless it has ended already.
    pub(super) fn end(&mut self, outcome: Outcome, proof: EndProof) {
        let outcome = self.outcome.get_or_insert(outcome);
        if let Some(stream) = self.stream.take() {
            self.app.state.streams.end(&stream, outcome, self.entry.times, proof);
        }
    }

    fn names(&self) -> LogNames<'_> {
        let config = &self.app.config;
        let endpoint = match self.meter.subject {
            Subject::Endpoint(index) => Some(config.endpoints[index].path.as_str()),
            Subject::None | Subject::Admin => None,
        };
        let credentials = &self.credentials;
        let (token, subject) = (credentials.name(), credentials.subject());
        LogNames { endpoint, token, subject, signed: self.is_signed }
    }

    pub(super) fn fail_before_head(&mut self, error: Error, document: Bytes) -> AnswerBody {
        self.outcome.get_or_insert(Outcome::Failed(error));
        AnswerBody::Whole(document)
    }
}

impl Drop for RequestTracker {
    fn drop(&mut self) {
        let ended = match (self.outcome.take(), self.watchdog.why()) {
            (Some(failed @ Outcome::Failed(_)), _) => failed,
            // This also applies if everything was handed over: an HTTP/2 stream lasts until the
            // client has accepted its last bytes.
            (_, Some(over)) => over.outcome(),
            (Some(outcome), None) => outcome,
            (None, None) if self.app.state.ending.load(Ordering::Relaxed) => Outcome::Shutdown,
            (None, None) => Outcome::Aborted,
        };
        // This also counts if there was no stream, because no connection arrived or the client
        // left.
        self.entry.times.pool = self.entry.times.pool.max(self.waiter.waited());
        self.end(ended, EndProof::default());
        if let Some(outcome) = &self.outcome {
            self.app.state.metrics.denied.count(outcome);
            if let Outcome::Failed(error) = outcome
                && let Some(by) = rate_limit::refused(error, &self.quotas)
            {
                self.app.state.metrics.rate_limited.count(by);
            }
            let ids =
                ExemplarIds { trace: self.span.as_ref().map(|span| span.trace), stream: self.entry.stream };
            self.meter.end(self.app.series(self.meter.subject), &self.entry, outcome, ids);
            self.entry.end(&self.app.config.log, outcome, || self.names());
            if let Some(span) = &self.span {
                self.end_span(span, outcome);
            }
        }
        self.watchdog.release(self.permit.take());
    }
}
