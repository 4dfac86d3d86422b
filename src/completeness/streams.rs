//! How streams go, and how they went: what `GET /_rowstream/streams/{id}` tells.
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
    end: OnceLock<End>,
}

struct End {
    state: &'static str,
    error: Option<Json>,
    at: Timestamp,
    times: Times,
    digest: Option<String>,
}

impl Streams {
    /// A stream begins.
    ///
    /// # Errors
    /// See [`Id::random`].
    pub(crate) fn begin(&self, endpoint: &str, format: &'static str) -> Result<Arc<Stream>, Error> {
        let stream = Arc::new(Stream {
            id: Id::random()?,
            endpoint: endpoint.to_owned(),
            format,
            started: Timestamp::now(),
            rows: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
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
        let end = End { state, error, at: Timestamp::now(), times, digest };
        if stream.end.set(end).is_ok() {
            self.known.lock().end(stream.id, Instant::now());
        }
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

    /// So much has been handed over.
    pub(crate) fn note(&self, rows: u64, bytes: u64) {
        self.rows.store(rows, Ordering::Relaxed);
        self.bytes.store(bytes, Ordering::Relaxed);
    }

    /// The template of its endpoint's path.
    pub(crate) fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// How it goes, as JSON.
    pub(crate) fn report(&self) -> String {
        let mut report = json!({
            "id": self.id.to_string(),
            "state": self.end.get().map_or("running", |end| end.state),
            "endpoint": self.endpoint,
            "format": self.format,
            "rows": self.rows.load(Ordering::Relaxed),
            "bytes": self.bytes.load(Ordering::Relaxed),
            "started": written(self.started),
        });
        if let Some(end) = self.end.get() {
            report["ended"] = json!(written(end.at));
            let Times { pool, database, encode, client, .. } = end.times;
            report["ms"] = json!({
                "pool": pool.as_millis(), "database": database.as_millis(),
                "encode": encode.as_millis(), "client": client.as_millis(),
            });
            for (name, value) in
                [("digest", end.digest.as_ref().map(|d| json!(d))), ("error", end.error.clone())]
            {
                if let Some(value) = value {
                    report[name] = value;
                }
            }
        }
        report.to_string() + "\n"
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

    fn state(streams: &Streams, id: Id) -> Option<String> {
        let report: Json = serde_json::from_str(&streams.find(&id.to_string())?.report()).unwrap();
        Some(report["state"].as_str().unwrap().to_owned())
    }

    #[test]
    fn the_first_to_end_is_forgotten_and_none_that_runs() {
        let streams = Streams::default();
        let runs = streams.begin("/a", "ndjson").unwrap();
        let ended: Vec<_> = (0..KEPT + 10)
            .map(|_| {
                let stream = streams.begin("/a", "csv").unwrap();
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
        let (runs, ended) = (streams.begin("/a", "csv").unwrap(), streams.begin("/a", "csv").unwrap());
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
        let stream = streams.begin("/a", "csv").unwrap();
        stream.note(3, 40);
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
}
