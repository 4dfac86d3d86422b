//! How streams go, and how they went: what `GET /_rowstream/streams` and `streams/{id}` report.
//!
//! Only what is streamed has an id: an answer with a `Content-Length` proves its own end, and
//! lookups would pay for an id that nobody asks for. Invariants:
//!
//! 1. a stream that runs is known; there are no more of them than streams are admitted;
//! 2. of those that have ended, at most [`KEPT`] are known, none for longer than [`KEPT_FOR`]; the
//!    first to end is the first to be forgotten;
//! 3. the lock is taken when a stream begins, ends, or is asked for, and for no chunk.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use http::{HeaderName, StatusCode};
use jiff::Timestamp;
use serde_json::{Value as Json, json};

use super::Id;
use crate::Error;
use crate::lock::Mutex;
use crate::outcome::Times;
use crate::outcome::{Ended, Outcome};

/// The id of a streamed response.
pub(crate) const STREAM: HeaderName = HeaderName::from_static("rowstream-stream");
/// How many ended streams are known.
const KEPT: usize = 10_000;
/// For how long they are.
const KEPT_FOR: Duration = Duration::from_secs(600);
/// The most streams of a list.
const LISTED: usize = 1_000;
/// How much is kept of what a database says of an error, in characters.
const LONGEST_DETAIL: usize = 200;

/// The streams of a server.
#[derive(Default)]
pub(crate) struct Streams {
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    streams: HashMap<Id, Arc<Stream>>,
    /// Those that have ended, and when, the first to end in front.
    ended: VecDeque<(Instant, Id)>,
}

/// One stream.
pub(crate) struct Stream {
    id: Id,
    endpoint: String,
    format: &'static str,
    started: Timestamp,
    rows: AtomicU64,
    bytes: AtomicU64,
    /// Where its time has gone, in milliseconds: see [`PHASES`].
    phases: [AtomicU64; 4],
    stop: Stop,
    end: OnceLock<End>,
}

/// Ends the stream of an id. Whether it was still there.
type Stop = Box<dyn Fn(Id) -> bool + Send + Sync>;

/// Where a stream's time goes, by the names of the access log.
const PHASES: [&str; 4] = ["pool", "database", "encode", "client"];

struct End {
    state: &'static str,
    error: Option<Json>,
    at: Timestamp,
    digest: Option<String>,
}

impl Streams {
    /// A stream begins, which `stop` ends.
    ///
    /// # Errors
    /// See [`Id::random`].
    pub(crate) fn begin(
        &self,
        endpoint: &str,
        format: &'static str,
        stop: impl Fn(Id) -> bool + Send + Sync + 'static,
    ) -> Result<Arc<Stream>, Error> {
        let stream = Arc::new(Stream {
            id: Id::random()?,
            endpoint: endpoint.to_owned(),
            format,
            started: Timestamp::now(),
            rows: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            phases: Default::default(),
            stop: Box::new(stop),
            end: OnceLock::new(),
        });
        self.known.lock().streams.insert(stream.id, Arc::clone(&stream));
        Ok(stream)
    }

    /// A stream has ended. What is said of it later does not count.
    pub(crate) fn end(&self, stream: &Stream, outcome: &Outcome, times: Times, digest: Option<String>) {
        let error = match outcome {
            Outcome::Failed(error) => Some(kept(error)),
            Outcome::Complete
            | Outcome::Aborted
            | Outcome::Stalled
            | Outcome::TooSlow
            | Outcome::Shutdown => None,
        };
        // A stream has begun, with the head of a success.
        let state = Ended::of(outcome, Some(StatusCode::OK)).name();
        stream.note_times(&times);
        let end = End { state, error, at: Timestamp::now(), digest };
        if stream.end.set(end).is_ok() {
            self.known.lock().end(stream.id, Instant::now());
        }
    }

    /// Those that run, as JSON: the first to begin in front, and how many more there are than are
    /// listed.
    pub(crate) fn list(&self) -> String {
        let known = self.known.lock();
        let mut running: Vec<_> =
            known.streams.values().filter(|stream| stream.end.get().is_none()).map(Arc::clone).collect();
        drop(known);
        running.sort_unstable_by_key(|stream| stream.started);
        let more = running.len().saturating_sub(LISTED);
        let streams: Vec<_> = running.iter().take(LISTED).map(|stream| stream.json()).collect();
        json!({"streams": streams, "more": more}).to_string() + "\n"
    }

    /// The stream with this id; `None` if it is not known.
    pub(crate) fn find(&self, id: &str) -> Option<Arc<Stream>> {
        let id = Id::from_text(id)?;
        let mut known = self.known.lock();
        known.forget(Instant::now());
        known.streams.get(&id).map(Arc::clone)
    }
}

impl Known {
    fn end(&mut self, id: Id, now: Instant) {
        self.ended.push_back((now, id));
        self.forget(now);
    }

    /// Forgets what has been known for long enough, or is too much.
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
    /// What is reported of its response.
    pub(crate) fn id(&self) -> Id {
        self.id
    }

    /// So much has been handed over, and that is where the time went.
    pub(crate) fn note(&self, rows: u64, bytes: u64, times: &Times) {
        self.rows.store(rows, Ordering::Relaxed);
        self.bytes.store(bytes, Ordering::Relaxed);
        self.note_times(times);
    }

    fn note_times(&self, times: &Times) {
        let Times { pool, database, encode, client, .. } = *times;
        for (phase, time) in self.phases.iter().zip([pool, database, encode, client]) {
            phase.store(u64::try_from(time.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
        }
    }

    /// Ends it, visibly for its client, and with it its statements.
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

    /// How it goes, as a line of JSON.
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
            "bytes": self.bytes.load(Ordering::Relaxed),
            "started": written(self.started),
        });
        let end = self.end.get();
        if let Some(end) = end {
            report["ended"] = json!(written(end.at));
        }
        report["ms"] = Json::Object(ms.collect());
        if let Some(end) = end {
            for (name, value) in
                [("digest", end.digest.as_ref().map(|d| json!(d))), ("error", end.error.clone())]
            {
                if let Some(value) = value {
                    report[name] = value;
                }
            }
        }
        report
    }
}

fn written(time: Timestamp) -> String {
    format!("{time:.3}")
}

/// What is kept of an error: what it is, and not all that a database may say of it.
fn kept(error: &Error) -> Json {
    let detail: String = error.message().chars().take(LONGEST_DETAIL).collect();
    let mut kept = json!({"code": error.code(), "detail": detail});
    if let Some(sqlstate) = error.sqlstate_text() {
        kept["sqlstate"] = json!(sqlstate);
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begin(streams: &Streams, format: &'static str) -> Result<Arc<Stream>, Error> {
        streams.begin("/a", format, |_| false)
    }

    fn state(streams: &Streams, id: Id) -> Option<String> {
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
                streams.end(&stream, &Outcome::Complete, Times::default(), None);
                stream.id()
            })
            .collect();
        assert_eq!(streams.known.lock().streams.len(), KEPT + 1);
        assert_eq!(state(&streams, runs.id()).as_deref(), Some("running"));
        assert_eq!(state(&streams, ended[9]), None);
        assert_eq!(state(&streams, ended[10]).as_deref(), Some("complete"));
    }

    #[test]
    fn streams_are_forgotten_with_time() {
        let streams = Streams::default();
        let (runs, ended) = (begin(&streams, "csv").unwrap(), begin(&streams, "csv").unwrap());
        let now = Instant::now();
        streams.end(&ended, &Outcome::Aborted, Times::default(), None);
        streams.known.lock().forget(now + KEPT_FOR);
        assert_eq!(state(&streams, ended.id()).as_deref(), Some("aborted"));
        streams.known.lock().forget(now + KEPT_FOR + Duration::from_secs(60));
        assert_eq!(state(&streams, ended.id()), None);
        assert_eq!(state(&streams, runs.id()).as_deref(), Some("running"));
    }

    #[test]
    fn an_end_is_reported_once_and_in_bounds() {
        let streams = Streams::default();
        let stream = begin(&streams, "csv").unwrap();
        stream.note(3, 40, &Times::default());
        let error = Error::endpoint("ä".repeat(5000)).sqlstate("22012");
        streams.end(&stream, &Outcome::Failed(error), Times::default(), Some("d".to_owned()));
        streams.end(&stream, &Outcome::Complete, Times::default(), None);
        let report: Json = serde_json::from_str(&stream.report()).unwrap();
        assert_eq!(
            (&report["state"], &report["rows"], &report["bytes"]),
            (&json!("failed"), &json!(3), &json!(40))
        );
        assert_eq!((&report["digest"], &report["error"]["sqlstate"]), (&json!("d"), &json!("22012")));
        assert_eq!(report["error"]["detail"].as_str().unwrap().chars().count(), LONGEST_DETAIL);
        assert_eq!(streams.known.lock().ended.len(), 1);
    }

    #[test]
    fn those_that_run_are_listed_and_no_more_than_a_thousand() {
        let streams = Streams::default();
        let running: Vec<_> = (0..LISTED + 5).map(|_| begin(&streams, "csv").unwrap()).collect();
        let list = || serde_json::from_str::<Json>(&streams.list()).unwrap();
        assert_eq!((list()["streams"].as_array().unwrap().len(), &list()["more"]), (LISTED, &json!(5)));
        for stream in &running[1..] {
            streams.end(stream, &Outcome::Complete, Times::default(), None);
        }
        let list = list();
        assert_eq!(list["streams"].as_array().unwrap().len(), 1);
        assert_eq!(list["streams"][0]["id"], json!(running[0].id().to_string()));
    }
}
