//! `/_rowstream/probe/…`: answers whose bytes and timing are fixed, so that `rowstream doctor` sees
//! how the hops between the server and itself change them.
//!
//! A probe uses no source. Only a few run at a time, and only a silence and a trickle may take
//! long.

use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::header::{self, HeaderName, HeaderValue};
use http::{HeaderMap, Request, Response, StatusCode, Version};
use rowstream_core::Error;
use rowstream_core::params::{self, Param, ParamType, ParamValue};
use rowstream_core::timer::Timer;
use serde_json::json;

use super::body::AnswerBody;
use super::head::ask_not_to_buffer;
use crate::completeness::digest::{CONTENT_DIGEST, Digest};
use crate::completeness::trailers::{self, TrailerFields};
use crate::compress::{self, Coding};
use crate::outcome::RowCounts;

/// The most probes that run at a time.
const MOST: usize = 32;
/// Records of a [trickle](ProbePath::Trickle), and the time between two of them.
pub(crate) const TRICKLE: (usize, Duration) = (10, Duration::from_millis(200));
/// The seconds of a silence, or of a trickle: by default, and at most.
const SILENCE: (i64, i64) = (65, 600);
/// The records of a [whole](ProbePath::Plain) answer: enough for proxies to compress it.
const LINES: usize = 200;
/// The trailers of a probe have no further fields.
const FIELDS: TrailerFields = TrailerFields { nested: false, next: false, page: false, digest: false };

/// A path below `probe/`.
#[derive(Debug)]
pub(super) enum ProbePath {
    /// The request as it arrived here.
    Request(String),
    /// So many records, with this time between two of them.
    Trickle(usize, Duration),
    /// A record, so much time without a byte, and another record.
    Silence(Duration),
    /// Records, and trailers if the request accepts them.
    Trailers(bool),
    /// Records, and an abort instead of the end.
    Abort,
    /// A whole answer with its digest and a strong `ETag`.
    Plain,
    /// The same, compressed.
    Gzip,
}

impl ProbePath {
    /// The probe of this name; `None` if there isn't one.
    ///
    /// # Errors
    /// 400: the query is wrong.
    pub(super) fn read<B>(name: &str, request: &Request<B>) -> Option<Result<Self, Error>> {
        let (version, headers) = (request.version(), request.headers());
        Some(Ok(match name {
            "request" => Self::Request(seen(version, headers)),
            "trickle" if request.uri().query().is_none() => Self::Trickle(TRICKLE.0, TRICKLE.1),
            "trickle" => return Some(seconds(request.uri().query()).map(Self::flow)),
            "trailers" => Self::Trailers(trailers::are_taken(version, headers)),
            "abort" => Self::Abort,
            "plain" => Self::Plain,
            "gzip" => Self::Gzip,
            "silence" => return Some(seconds(request.uri().query()).map(Self::Silence)),
            _ => return None,
        }))
    }

    /// A record each second, for so long.
    fn flow(time: Duration) -> Self {
        Self::Trickle(time.as_secs() as usize + 1, Duration::from_secs(1))
    }

    /// Answers with the probe. Each probe that takes long keeps a clone of `running`.
    ///
    /// # Errors
    /// 503: too many probes run already.
    pub(super) fn answer(self, running: &Arc<()>) -> Result<Response<AnswerBody>, Error> {
        let (_, pause) = TRICKLE;
        match self {
            Self::Request(seen) => Ok(whole(seen.into(), None)),
            Self::Plain => Ok(whole(lines().into(), None)),
            Self::Gzip => {
                let body = compress::whole(Coding::Gzip, lines().as_bytes())?;
                Ok(whole(body, Some(Coding::Gzip)))
            }
            Self::Trickle(records, pause) => stream(records, pause, ScriptEnd::Clean, running),
            Self::Silence(time) => stream(2, time, ScriptEnd::Clean, running),
            Self::Trailers(true) => stream(2, pause, ScriptEnd::Trailers, running),
            Self::Trailers(false) => stream(2, pause, ScriptEnd::Clean, running),
            Self::Abort => stream(2, pause, ScriptEnd::Abort, running),
        }
    }
}

fn stream(
    records: usize,
    pause: Duration,
    end: ScriptEnd,
    running: &Arc<()>,
) -> Result<Response<AnswerBody>, Error> {
    let running = Arc::clone(running);
    // One reference is the server's own.
    if Arc::strong_count(&running) > MOST + 1 {
        return Err(too_many());
    }
    let script = Script { records, sent: 0, pause, end, timer: Timer::default(), _running: running };
    let mut response = Response::new(AnswerBody::Probe(Box::new(script)));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"));
    ask_not_to_buffer(headers);
    headers.append(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let (ScriptEnd::Trailers, Some(names)) = (end, trailers::announcement(FIELDS)) {
        headers.insert(header::TRAILER, names);
    }
    Ok(response)
}

/// A stream of records at their times.
pub(super) struct Script {
    records: usize,
    sent: usize,
    pause: Duration,
    end: ScriptEnd,
    timer: Timer,
    _running: Arc<()>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ScriptEnd {
    Clean,
    Trailers,
    Abort,
}

impl Script {
    pub(super) fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>> {
        // An abort waits once more, so that the last record has left.
        let is_over = self.sent == self.records;
        if self.sent > 0 && (!is_over || self.end == ScriptEnd::Abort) {
            self.timer.start(self.pause);
            ready!(self.timer.poll(cx));
            self.timer.stop();
        }
        if is_over {
            return Poll::Ready((self.end == ScriptEnd::Abort).then(|| Err(aborted())));
        }
        self.sent += 1;
        Poll::Ready(Some(Ok(format!("{{\"record\":{},\"of\":{}}}\n", self.sent, self.records).into())))
    }

    pub(super) fn trailers(&self) -> Option<HeaderMap> {
        (self.end == ScriptEnd::Trailers)
            .then(|| trailers::complete(RowCounts::of(self.sent as u64), None, None, None))
    }
}

/// The length of a probe.
fn seconds(query: Option<&str>) -> Result<Duration, Error> {
    let (default, most) = SILENCE;
    let param = Param {
        default: Some(ParamValue::Integer(default)),
        min: Some(ParamValue::Integer(1)),
        max: Some(ParamValue::Integer(most)),
        ..Param::new("seconds", ParamType::Integer)
    };
    let bound = params::bind(&[param], &[] as &[(&str, &str)], query, &HeaderMap::new())?;
    let seconds = match bound.values.first() {
        Some(ParamValue::Integer(seconds)) => *seconds,
        _ => default,
    };
    Ok(Duration::from_secs(seconds.unsigned_abs()))
}

/// The parts of the last hop's request that influence answers. It contains no header into which a
/// hop may have put a secret.
fn seen(version: Version, headers: &HeaderMap) -> String {
    let text = |name: HeaderName| {
        let lines: Vec<_> = headers.get_all(name).iter().filter_map(|line| line.to_str().ok()).collect();
        (!lines.is_empty()).then(|| lines.join(", "))
    };
    let seen = json!({
        "version": format!("{version:?}"),
        "te": text(header::TE),
        "accept_encoding": text(header::ACCEPT_ENCODING),
    });
    format!("{seen}\n")
}

fn lines() -> String {
    (1..=LINES).map(|n| format!("{{\"record\":{n},\"of\":{LINES}}}\n")).collect()
}

/// An answer whose headers reveal any change of it.
fn whole(body: Bytes, coding: Option<Coding>) -> Response<AnswerBody> {
    let digest = Digest::of(&body);
    let mut response = Response::new(AnswerBody::Whole(body));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-transform, no-store"));
    headers.insert(header::ETAG, HeaderValue::from_static("\"probe\""));
    headers.extend(HeaderValue::try_from(digest).ok().map(|digest| (CONTENT_DIGEST, digest)));
    if let Some(coding) = coding {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static(coding.name()));
    }
    response
}

fn too_many() -> Error {
    Error::new(
        "too_many_streams",
        StatusCode::SERVICE_UNAVAILABLE,
        format!("{MOST} probes are already running, which is the limit"),
    )
    .retry_after(Duration::from_secs(5))
}

fn aborted() -> Error {
    Error::new("probe_aborted", StatusCode::INTERNAL_SERVER_ERROR, "this probe is aborted, as requested")
}
