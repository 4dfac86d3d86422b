//! The headers that tell a client in advance what it may rely on: the version of the wire contract,
//! if a cut answer can be resumed, and the longest silence.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use rowstream_encode::Format;

use super::request::StreamRequest;
use crate::stream::RowStream;

/// The version of the contract.
const WIRE: HeaderName = HeaderName::from_static("rowstream-wire");
/// It changes if a client of the earlier version would misread an answer.
const VERSION: HeaderValue = HeaderValue::from_static("1");
/// The cursors that resume an answer after a cut.
const RESUME: HeaderName = HeaderName::from_static("rowstream-resume");
/// The value of [`RESUME`] without cursors.
const NONE: HeaderValue = HeaderValue::from_static("none");
/// The longest silence after the headers, in seconds.
const HEARTBEAT: HeaderName = HeaderName::from_static("rowstream-heartbeat");

/// Adds the headers of an answer whose rows are useful before its end.
pub(super) fn tell(request: &StreamRequest<'_>, headers: &mut HeaderMap) {
    if !request.beats() {
        return;
    }
    headers.insert(WIRE, VERSION);
    headers.insert(RESUME, resumption(request));
    if let Ok(heartbeat) = HeaderValue::try_from(seconds(request.endpoint.response.heartbeat)) {
        headers.insert(HEARTBEAT, heartbeat);
    }
}

/// Corrects the headers of a shard without cursors, which is known only once it's being read.
pub(super) fn correct(stream: &RowStream, headers: &mut HeaderMap) {
    if headers.contains_key(RESUME) && stream.part().is_some() && !stream.has_cursors() {
        headers.insert(RESUME, NONE);
    }
}

/// The cursors among the rows of an answer.
fn resumption(request: &StreamRequest<'_>) -> HeaderValue {
    let has_marks = request.endpoint.key().is_some() || request.reading.shard.is_some();
    match request.reading.format {
        Format::Sse if request.endpoint.key().is_some() => HeaderValue::from_static("ids"),
        Format::Ndjson | Format::JsonSeq if request.asked.framed.is_some() && has_marks => {
            HeaderValue::from_static("marks")
        }
        Format::Ndjson
        | Format::JsonSeq
        | Format::Sse
        | Format::Json
        | Format::Csv
        | Format::Arrow
        | Format::Html => NONE,
    }
}

/// A time in seconds, with the digits that it needs.
fn seconds(time: Duration) -> String {
    time.as_secs_f64().to_string()
}

impl StreamRequest<'_> {
    /// True if the server sends something at least after each `heartbeat`.
    fn beats(&self) -> bool {
        match self.reading.format {
            Format::Sse => true,
            Format::Ndjson | Format::JsonSeq => self.asked.framed.is_some() || self.reading.followed,
            Format::Json | Format::Csv | Format::Arrow | Format::Html => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_have_no_needless_digits() {
        for (time, text) in [(15_000, "15"), (50, "0.05"), (1500, "1.5")] {
            assert_eq!(seconds(Duration::from_millis(time)), text);
        }
    }
}
