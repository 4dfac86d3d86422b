//! Reports running and ended streams, for `GET /_rowstream/streams` and `streams/{id}`.
//!
//! Only streamed answers have an id. An answer with a `Content-Length` proves its own end, and
//! lookups would pay for an id that's never used. Invariants:
//!
//! 1. every running stream is known, and at most as many as admission allows are running;
//! 2. of the ended streams, at most [`KEPT`] are known, and each for at most [`KEPT_FOR`]. The
//!    first to end is the first to be forgotten;
//! 3. the lock is taken when a stream begins, ends, or is requested, but not for chunks.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use http::{HeaderName, StatusCode};
use jiff::Timestamp;
use rowstream_core::Error;
use rowstream_core::lock::Mutex;
use serde_json::{Value as Json, json};

use super::ResponseId;
use crate::compress::Coding;
use crate::outcome::{ListCount, Outcome, OutcomeName, RowCounts, Times};

/// The id of a streamed response.
pub(crate) const STREAM: HeaderName = HeaderName::from_static("rowstream-stream");
/// The most ended streams that are known.
const KEPT: usize = 10_000;
/// How long they're known.
const KEPT_FOR: Duration = Duration::from_secs(600);
/// The most streams of a list.
const LISTED: usize = 1_000;
/// The most characters of a database's error that are kept.
const LONGEST_DETAIL: usize = 200;

/// The streams of a server.
#[derive(Default)]
pub(crate) struct Streams {
    table: Mutex<StreamTable>,
}

#[derive(Default)]
struct StreamTable {
    streams: HashMap<ResponseId, Arc<Stream>>,
    /// The ended streams with the time of their end, the first to end first.
    ended: VecDeque<(Instant, ResponseId)>,
}

/// One stream.
pub(crate) struct Stream {
    id: ResponseId,
    endpoint: String,
    format: &'static str,
    started: Timestamp,
    rows: AtomicU64,
    /// Rows inside of others; `None` if it has no nested statements.
    nested_rows: Option<AtomicU64>,
    bytes: AtomicU64,
    /// How long it waited and worked, in milliseconds: see [`PHASES`].
    phases: [AtomicU64; 4],
    stop: StreamStopper,
    end: OnceLock<StreamEnd>,
}

/// Ends the stream of an id. False if it had ended already.
type StreamStopper = Box<dyn Fn(ResponseId) -> bool + Send + Sync>;

/// The phases of a stream's time, by their names in the access log.
const PHASES: [&str; 4] = ["pool", "database", "encode", "client"];

struct StreamEnd {
    state: &'static str,
    error: Option<Json>,
    at: Timestamp,
    proof: EndProof,
}

/// Facts about a complete stream, which its client can compare with the bytes that arrived.
#[derive(Debug, Default)]
pub(crate) struct EndProof {
    /// The digest of its bytes, if it was requested.
    pub(crate) digest: Option<String>,
    /// The coding of its bytes, if the server compressed them.
    pub(crate) coding: Option<Coding>,
    /// The rows of each list, if there are several.
    pub(crate) lists: Vec<ListCount>,
}

impl Streams {
    /// Registers a stream that begins, with `rows` of these kinds. `stop` ends it.
    ///
    /// # Errors
    /// See [`ResponseId::random`].
    pub(crate) fn begin(
        &self,
        endpoint: &str,
        format: &'static str,
        rows: RowCounts,
        stop: impl Fn(ResponseId) -> bool + Send + Sync + 'static,
    ) -> Result<Arc<Stream>, Error> {
        let stream = Arc::new(Stream {
            id: ResponseId::random()?,
            endpoint: endpoint.to_owned(),
            format,
            started: Timestamp::now(),
            rows: AtomicU64::new(0),
            nested_rows: rows.nested.map(|_| AtomicU64::new(0)),
            bytes: AtomicU64::new(0),
            phases: Default::default(),
            stop: Box::new(stop),
            end: OnceLock::new(),
        });
        self.table.lock().streams.insert(stream.id, Arc::clone(&stream));
        Ok(stream)
    }

    /// Records the end of a stream. Only the first call counts.
    pub(crate) fn end(&self, stream: &Stream, outcome: &Outcome, times: Times, proof: EndProof) {
        let error = match outcome {
            Outcome::Failed(error) => Some(kept(error)),
            Outcome::Complete
            | Outcome::Aborted
            | Outcome::Stalled
            | Outcome::TooSlow
            | Outcome::Shutdown => None,
        };
        // The stream has begun, so its status is that of a success.
        let state = OutcomeName::of(outcome, Some(StatusCode::OK)).name();
        stream.note_times(&times);
        let end = StreamEnd { state, error, at: Timestamp::now(), proof };
        if stream.end.set(end).is_ok() {
            self.table.lock().end(stream.id, Instant::now());
        }
    }

    /// The running streams as JSON, the first to begin first, and the number of those that aren't
    /// listed.
    pub(crate) fn list(&self) -> String {
        let table = self.table.lock();
        let mut running: Vec<_> =
            table.streams.values().filter(|stream| stream.end.get().is_none()).map(Arc::clone).collect();
        drop(table);
        running.sort_unstable_by_key(|stream| stream.started);
        let more = running.len().saturating_sub(LISTED);
        let streams: Vec<_> = running.iter().take(LISTED).map(|stream| stream.json()).collect();
        json!({"streams": streams, "more": more}).to_string() + "\n"
    }

    /// The stream with this id; `None` if it isn't known.
    pub(crate) fn find(&self, id: &str) -> Option<Arc<Stream>> {
        let id = ResponseId::from_text(id)?;
        let mut table = self.table.lock();
        table.forget(Instant::now());
        table.streams.get(&id).map(Arc::clone)
    }
}

impl StreamTable {
    fn end(&mut self, id: ResponseId, now: Instant) {
        self.ended.push_back((now, id));
        self.forget(now);
    }

    /// Forgets streams that ended too long ago, or that are too many.
    fn forget(&mut self, now: Instant) {
        while let Some(&(ended, id)) = self.ended.front()
            && (self.ended.len() > KEPT || now.saturating_duration_since(ended) > KEPT_FOR)
        {
            self.ended.pop_front();
            self.streams.remove(&id);
        }
    }
}

impl Stream {
    pub(crate) fn id(&self) -> ResponseId {
        self.id
    }

    /// Records the rows and bytes that were handed over, and the times.
    pub(crate) fn note(&self, rows: RowCounts, bytes: u64, times: &Times) {
        self.rows.store(rows.rows, Ordering::Relaxed);
        if let (Some(noted), Some(nested)) = (&self.nested_rows, rows.nested) {
            noted.store(nested, Ordering::Relaxed);
        }
        self.bytes.store(bytes, Ordering::Relaxed);
        self.note_times(times);
    }

    fn note_times(&self, times: &Times) {
        let Times { pool, database, encode, client, .. } = *times;
        for (phase, time) in self.phases.iter().zip([pool, database, encode, client]) {
            phase.store(u64::try_from(time.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
        }
    }

    /// Ends the stream and its statements. Its client sees an abort.
    ///
    /// # Errors
    /// 409: it has ended by itself.
    pub(crate) fn stop(&self) -> Result<(), Error> {
        (self.stop)(self.id).then_some(()).ok_or_else(|| {
            let message = "the stream has ended already";
            Error::new("stream_ended", StatusCode::CONFLICT, message)
        })
    }

    /// The template of its endpoint's path.
    pub(crate) fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Its state, as a line of JSON.
    pub(crate) fn report(&self) -> String {
        self.json().to_string() + "\n"
    }

    fn json(&self) -> Json {
        let ms = PHASES.into_iter().zip(&self.phases);
        let ms = ms.map(|(name, ms)| (name.to_owned(), json!(ms.load(Ordering::Relaxed))));
        let mut report = json!({
            "id": self.id.to_string(),
            "state": self.end.get().map_or("running", |end| end.state),
            "endpoint": self.endpoint,
            "format": self.format,
            "rows": self.rows.load(Ordering::Relaxed),
        });
        let end = self.end.get();
        let lists = end.map(|end| &end.proof.lists).filter(|lists| !lists.is_empty());
        let ms = Json::Object(ms.collect());
        for (name, value) in [
            ("nested_rows", self.nested_rows.as_ref().map(|rows| json!(rows.load(Ordering::Relaxed)))),
            ("lists", lists.map(|lists| lists.iter().map(|list| (&*list.name, list.rows)).collect())),
            ("bytes", Some(json!(self.bytes.load(Ordering::Relaxed)))),
            ("coding", end.and_then(|end| end.proof.coding).map(|coding| json!(coding.name()))),
            ("started", Some(json!(written(self.started)))),
            ("ended", end.map(|end| json!(written(end.at)))),
            ("ms", Some(ms)),
            ("digest", end.and_then(|end| end.proof.digest.as_ref()).map(|digest| json!(digest))),
            ("error", end.and_then(|end| end.error.clone())),
        ] {
            if let Some(value) = value {
                report[name] = value;
            }
        }
        report
    }
}

fn written(time: Timestamp) -> String {
    format!("{time:.3}")
}

/// The part of an error that is kept: its code, the beginning of its message, and if a retry makes
/// sense.
fn kept(error: &Error) -> Json {
    let detail: String = error.message().chars().take(LONGEST_DETAIL).collect();
    let mut kept = json!({"code": error.code(), "detail": detail, "retry": error.may_pass()});
    if let Some(seconds) = error.retry_seconds() {
        kept["retry_after"] = json!(seconds);
    }
    if let Some(sqlstate) = error.sqlstate_text() {
        kept["sqlstate"] = json!(sqlstate);
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begin(streams: &Streams, format: &'static str) -> Result<Arc<Stream>, Error> {
        streams.begin("/a", format, RowCounts::default(), |_| false)
    }

    fn state(streams: &Streams, id: ResponseId) -> Option<String> {
        let report: Json = serde_json::from_str(&streams.find(&id.to_string())?.report()).unwrap();
        Some(report["state"].as_str().unwrap().to_owned())
    }

    #[test]
    fn the_first_to_end_is_forgotten_and_none_that_runs() {
        let streams = Streams::default();
        let runs = begin(&streams, "ndjson").unwrap();
        let ended: Vec<_> = (0..KEPT + 10)
            .map(|_| {
                let stream = begin(&streams, "csv").unwrap();
                streams.end(&stream, &Outcome::Complete, Times::default(), EndProof::default());
                stream.id()
            })
            .collect();
        assert_eq!(streams.table.lock().streams.len(), KEPT + 1);
        assert_eq!(state(&streams, runs.id()).as_deref(), Some("running"));
        assert_eq!(state(&streams, ended[9]), None);
        assert_eq!(state(&streams, ended[10]).as_deref(), Some("complete"));
    }

    #[test]
    fn streams_are_forgotten_with_time() {
        let streams = Streams::default();
        let (runs, ended) = (begin(&streams, "csv").unwrap(), begin(&streams, "csv").unwrap());
        let now = Instant::now();
        streams.end(&ended, &Outcome::Aborted, Times::default(), EndProof::default());
        streams.table.lock().forget(now + KEPT_FOR);
        assert_eq!(state(&streams, ended.id()).as_deref(), Some("aborted"));
        streams.table.lock().forget(now + KEPT_FOR + Duration::from_secs(60));
        assert_eq!(state(&streams, ended.id()), None);
        assert_eq!(state(&streams, runs.id()).as_deref(), Some("running"));
    }

    #[test]
    fn an_end_is_reported_once_and_in_bounds() {
        let streams = Streams::default();
        let stream = begin(&streams, "csv").unwrap();
        stream.note(RowCounts::of(3), 40, &Times::default());
        let error = Error::endpoint("ä".repeat(5000)).sqlstate("22012");
        let proof = EndProof { digest: Some("d".to_owned()), ..EndProof::default() };
        streams.end(&stream, &Outcome::Failed(error), Times::default(), proof);
        streams.end(&stream, &Outcome::Complete, Times::default(), EndProof::default());
        let report: Json = serde_json::from_str(&stream.report()).unwrap();
        assert_eq!(
            (&report["state"], &report["rows"], &report["bytes"]),
            (&json!("failed"), &json!(3), &json!(40))
        );
        assert_eq!((&report["digest"], &report["error"]["sqlstate"]), (&json!("d"), &json!("22012")));
        assert_eq!(report["error"]["detail"].as_str().unwrap().chars().count(), LONGEST_DETAIL);
        assert_eq!(streams.table.lock().ended.len(), 1);
    }

    #[test]
    fn a_failed_stream_says_if_a_retry_makes_sense() {
        let streams = Streams::default();
        let error_of = |error: Error| {
            let stream = begin(&streams, "csv").unwrap();
            streams.end(&stream, &Outcome::Failed(error), Times::default(), EndProof::default());
            serde_json::from_str::<Json>(&stream.report()).unwrap()["error"].clone()
        };
        let passing = error_of(Error::source_unavailable("m"));
        assert_eq!((&passing["retry"], &passing["retry_after"]), (&json!(true), &json!(1)));
        let lasting = error_of(Error::endpoint("m"));
        assert_eq!((&lasting["retry"], lasting.get("retry_after")), (&json!(false), None));
    }

    #[test]
    fn those_that_run_are_listed_and_no_more_than_a_thousand() {
        let streams = Streams::default();
        let running: Vec<_> = (0..LISTED + 5).map(|_| begin(&streams, "csv").unwrap()).collect();
        let list = || serde_json::from_str::<Json>(&streams.list()).unwrap();
        assert_eq!((list()["streams"].as_array().unwrap().len(), &list()["more"]), (LISTED, &json!(5)));
        for stream in &running[1..] {
            streams.end(stream, &Outcome::Complete, Times::default(), EndProof::default());
        }
        let list = list();
        assert_eq!(list["streams"].as_array().unwrap().len(), 1);
        assert_eq!(list["streams"][0]["id"], json!(running[0].id().to_string()));
    }
}
