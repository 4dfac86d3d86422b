//! Judges responses. We know the bytes that the server sent, so every difference is due to a hop.

use std::fmt;
use std::io::Read as _;
use std::time::Duration;

use flate2::read::GzDecoder;
use serde::Deserialize;

use super::asking::{ProbeError, ProbeResponse};
use super::cures::Ailment;
use crate::completeness::digest::Digest;
use crate::respond::probe::TRICKLE;

/// The longest report about a request that we read, in bytes.
const LONGEST: u64 = 4096;

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Well,
    /// A feature doesn't work, but there's another way to get it.
    Note,
    Wrong,
}

impl Verdict {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Well => "well",
            Self::Note => "note",
            Self::Wrong => "wrong",
        }
    }
}

/// A line of the report.
#[derive(Debug)]
pub(super) struct Finding {
    pub(super) verdict: Verdict,
    pub(super) text: String,
    /// The problem, if it has cures.
    pub(super) ailment: Option<Ailment>,
}

impl Finding {
    fn well(text: impl Into<String>) -> Self {
        Self { verdict: Verdict::Well, text: text.into(), ailment: None }
    }

    fn note(text: impl Into<String>, ailment: Ailment) -> Self {
        Self { verdict: Verdict::Note, text: text.into(), ailment: Some(ailment) }
    }

    fn wrong(text: impl Into<String>, ailment: impl Into<Option<Ailment>>) -> Self {
        Self { verdict: Verdict::Wrong, text: text.into(), ailment: ailment.into() }
    }
}

/// The finding about a response, or about the lack of one.
pub(super) fn of(
    asked: Result<ProbeResponse, ProbeError>,
    judge: impl FnOnce(&ProbeResponse) -> Finding,
) -> Finding {
    match asked {
        Ok(response) if response.status == 200 => judge(&response),
        Ok(response) => Finding::wrong(format!("a probe has the status {}", response.status), None),
        Err(error) => Finding::wrong(format!("a probe has no answer: {error}"), None),
    }
}

/// The request as the server received it.
#[derive(Debug, Deserialize)]
pub(super) struct ReceivedRequest {
    version: String,
    te: Option<String>,
    accept_encoding: Option<String>,
}

impl ReceivedRequest {
    /// Reads the first probe. A hop may have compressed it.
    pub(super) fn read(response: &ProbeResponse) -> Result<Self, ProbeError> {
        let mut text = Vec::new();
        match response.header("content-encoding") {
            Some("gzip") => GzDecoder::new(&response.body[..]).take(LONGEST).read_to_end(&mut text)?,
            _ => (&response.body[..]).take(LONGEST).read_to_end(&mut text)?,
        };
        serde_json::from_slice(&text).map_err(|_| "no Rowstream answers there: its probe isn't JSON".into())
    }

    pub(super) fn finding(&self) -> Finding {
        match self.version.as_str() {
            "HTTP/1.0" | "HTTP/0.9" => Finding::wrong(
                "requests arrive at the server as HTTP/1.0, so each answer waits for its last row",
                Ailment::Http10,
            ),
            version => Finding::well(format!("requests arrive at the server as {version}")),
        }
    }
}

/// Checks that rows arrive as soon as they're sent.
pub(super) fn trickle(response: &ProbeResponse) -> Finding {
    if let Err(error) = &response.ended.1 {
        return Finding::wrong(format!("a stream fails: {error}"), None);
    }
    // A proxy may pass on the first record together with the head, and withhold the others.
    let at = [&[Duration::ZERO], response.pieces.as_slice()].concat();
    let longest = at.windows(2).map(|two| two[1].saturating_sub(two[0])).max().unwrap_or_default();
    let (records, pause) = TRICKLE;
    match longest > pause * records as u32 / 2 {
        true => Finding::wrong(
            format!(
                "rows are held back: one was sent every {}, but none arrived for {}",
                Seconds(pause),
                Seconds(longest)
            ),
            Ailment::Buffers,
        ),
        false => Finding::well("rows arrive as they are sent"),
    }
}

/// Checks that a stream may be long, and that it may be silent. The stream without pauses shows if
/// a limit is on the whole response, or on the time without a byte.
pub(super) fn lasting(
    flowing: &Result<ProbeResponse, ProbeError>,
    silent: Result<ProbeResponse, ProbeError>,
    time: Duration,
) -> Finding {
    match flowing {
        Ok(ProbeResponse { status: 200, ended: (after, Err(_)), .. }) => Finding::wrong(
            format!("a response is cut after {}, although its rows flow", Seconds(*after)),
            Ailment::Limits,
        ),
        _ => of(silent, |response| silence(response, time)),
    }
}

/// Checks that a stream may be silent.
fn silence(response: &ProbeResponse, silence: Duration) -> Finding {
    let (after, ended) = &response.ended;
    let is_whole = String::from_utf8_lossy(&response.body).contains("\"record\":2");
    match ended {
        // A hop may have compressed it. Then we can't read it, and judge by its duration.
        Ok(()) if is_whole || *after >= silence => {
            Finding::well(format!("a stream may be silent for {}; longer wasn't tried", Seconds(silence)))
        }
        Ok(()) => Finding::wrong(
            format!("a silent stream is ended after {}, as if it were whole", Seconds(*after)),
            Ailment::TimesOut,
        ),
        Err(_) => {
            Finding::wrong(format!("a silent stream is cut after {}", Seconds(*after)), Ailment::TimesOut)
        }
    }
}

/// Checks that a response which the server aborts is an error here too.
pub(super) fn abort(response: &ProbeResponse) -> Finding {
    match response.ended.1 {
        Ok(()) => Finding::wrong(
            "a response that the server has aborted ends as if it were whole",
            Ailment::EndsCuts,
        ),
        Err(_) => Finding::well("a response that the server has aborted fails"),
    }
}

/// Checks that trailers arrive.
pub(super) fn trailers(response: &ProbeResponse, received: &ReceivedRequest) -> Finding {
    if response.trailers.contains_key("rowstream-status") {
        return Finding::well("trailers arrive");
    }
    match received.te {
        None => Finding::note("`TE: trailers` does not reach the server", Ailment::StripsTrailers),
        Some(_) => Finding::note("the trailers of answers are lost", Ailment::StripsTrailers),
    }
}

/// Checks that an uncompressed response arrives unchanged.
pub(super) fn plain(response: &ProbeResponse) -> Finding {
    if let Some(coding) = response.header("content-encoding") {
        let etag = match response.header("etag") {
            Some("\"probe\"") => "",
            Some(_) => ", and their `ETag` is weakened",
            None => ", and their `ETag` is lost",
        };
        return Finding::wrong(
            format!("answers are compressed on the way ({coding}) although they say `no-transform`{etag}"),
            Ailment::Recompresses,
        );
    }
    unchanged(response).unwrap_or_else(|| Finding::well("answers arrive byte by byte as they are sent"))
}

/// Checks that a compressed response arrives unchanged.
pub(super) fn gzip(response: &ProbeResponse, received: &ReceivedRequest) -> Finding {
    match response.header("content-encoding") {
        Some("gzip") => {}
        coding => {
            let coding = coding.unwrap_or("none");
            let text = format!("compressed answers get another coding on the way ({coding})");
            return Finding::wrong(text, Ailment::Recompresses);
        }
    }
    if let Some(changed) = unchanged(response) {
        return changed;
    }
    match received.accept_encoding {
        None => Finding::note(
            "`Accept-Encoding` does not reach the server, so it compresses nothing",
            Ailment::HidesEncoding,
        ),
        Some(_) => Finding::well("compressed answers arrive as they are sent"),
    }
}

/// `None` if the content is the one that was sent.
fn unchanged(response: &ProbeResponse) -> Option<Finding> {
    if let Err(error) = &response.ended.1 {
        return Some(Finding::wrong(format!("an answer fails: {error}"), None));
    }
    match response.header("content-digest") {
        Some(digest) if digest == Digest::of(&response.body) => {}
        Some(_) => return Some(Finding::wrong("the content is changed on the way", Ailment::Recompresses)),
        None => return Some(Finding::note("`Content-Digest` is lost", Ailment::StripsFields)),
    }
    match response.header("etag") {
        Some("\"probe\"") => None,
        _ => Some(Finding::note("the `ETag` is changed on the way", Ailment::StripsFields)),
    }
}

/// A duration for people.
struct Seconds(Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} s", self.0.as_secs_f64())
    }
}
