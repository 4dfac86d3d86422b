//! A response that can't be resumed, such as JSON, CSV or Arrow, and the evidence of its end.

use http::{HeaderMap, header};
use rowstream_bench::{Counter, End};
use serde_json::Value;

use super::fault::Fault;
use super::proof::Proof;
use crate::completeness::digest::{CONTENT_DIGEST, Digest};
use crate::completeness::streams::STREAM;

/// The event that ends a stream of events.
const LAST_EVENT: &[u8] = b"id: end\n\n";
/// The trailer with the outcome.
const STATUS: &str = "rowstream-status";

/// The format, as far as its end matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A JSON body may contain lists that the server doesn't count.
    Json,
    Events,
    /// The counts of ours and of the server are the same.
    Rows,
    /// We can't count its rows.
    Opaque,
}

pub(super) struct Document {
    kind: Kind,
    counter: Counter,
    /// Of the body, if the request asks for it.
    digest: Option<Digest>,
    bytes: u64,
    /// The last bytes.
    tail: Vec<u8>,
}

impl Document {
    pub(super) fn new(content_type: &str, digest: Option<Digest>) -> Self {
        let counter = Counter::for_content_type(content_type);
        let kind = match counter {
            Counter::Opaque => Kind::Opaque,
            Counter::Json(_) => Kind::Json,
            Counter::Events(_) => Kind::Events,
            Counter::Lines(_) | Counter::Csv(_) | Counter::Sequence(_) | Counter::Arrow(_) => Kind::Rows,
        };
        Self { kind, counter, digest, bytes: 0, tail: Vec::new() }
    }

    pub(super) fn feed(&mut self, bytes: &[u8]) {
        self.counter.feed(bytes);
        if let Some(digest) = &mut self.digest {
            digest.update(bytes);
        }
        self.bytes += bytes.len() as u64;
        self.tail.extend_from_slice(&bytes[bytes.len().saturating_sub(LAST_EVENT.len())..]);
        self.tail.drain(..self.tail.len().saturating_sub(LAST_EVENT.len()));
    }

    pub(super) fn rows(&self) -> u64 {
        self.counter.rows()
    }

    /// Checks a body whose end was reported by HTTP. Returns the proof that nothing is missing. `None`: only
    /// the server's state of the stream can prove it.
    ///
    /// # Errors
    /// Something is missing, or nothing proves that the body is complete.
    pub(super) fn finish(&self, headers: &HeaderMap, trailers: &HeaderMap) -> Result<Option<Proof>, Fault> {
        let document = self.counter.finish();
        if document.end == End::Broken {
            return Err(Fault::cut(format!("the body breaks off after {} rows", document.rows)));
        }
        if let Some(own) = &self.digest {
            let sent = headers.get(CONTENT_DIGEST).or(trailers.get(CONTENT_DIGEST));
            return sent.and_then(|sent| sent.to_str().ok()).map(|sent| compare(own, sent)).transpose();
        }
        if trailers.contains_key(STATUS) {
            return self.check_trailers(trailers, document.rows).map(Some);
        }
        let announced = headers.get(header::TRAILER).and_then(|names| names.to_str().ok());
        let has_length = headers.contains_key(header::CONTENT_LENGTH);
        match self.kind {
            _ if document.end == End::Proven => Ok(Some(Proof::Format)),
            _ if has_length => Ok(Some(Proof::Length)),
            Kind::Events if self.tail == LAST_EVENT => Ok(Some(Proof::LastEvent)),
            // Only events with ids have a last one.
            Kind::Events if headers.get("rowstream-resume").is_some_and(|resume| resume == "ids") => {
                Err(Fault::cut("the last event is missing"))
            }
            _ if headers.contains_key(STREAM) => Ok(None),
            _ if announced.is_some_and(|names| names.to_ascii_lowercase().contains(STATUS)) => {
                Err(Fault::cut("the trailers are missing"))
            }
            _ if headers.contains_key(header::TRANSFER_ENCODING) => Ok(Some(Proof::LastChunk)),
            _ => Err(Fault::lasting(
                "nothing proves that the body is complete: it ends with its connection",
                "a proxy speaks HTTP/1.0: let it speak HTTP/1.1, or request NDJSON",
            )),
        }
    }

    fn check_trailers(&self, trailers: &HeaderMap, rows: u64) -> Result<Proof, Fault> {
        let trailer = |name: &str| trailers.get(name).and_then(|value| value.to_str().ok());
        if trailer(STATUS) != Some("complete") {
            return Err(Fault::cut("the trailers don't report a complete response"));
        }
        match trailer("rowstream-rows") {
            Some(sent) if self.kind == Kind::Rows && sent.parse() != Ok(rows) => {
                Err(Fault::cut(format!("the server sent {sent} rows, but {rows} arrived")))
            }
            _ => Ok(Proof::Trailers),
        }
    }

    /// Compares the body with the server's state of its stream. `None`: the server can't be asked.
    ///
    /// # Errors
    /// See [`Self::finish`].
    pub(super) fn check_state(&self, state: Option<&Value>) -> Result<Proof, Fault> {
        let Some(state) = state else {
            return Err(if self.digest.is_some() { Fault::no_digest() } else { unproven() });
        };
        if state["error"].is_object() {
            return Err(Fault::of_server(&state["error"]));
        }
        if state["state"] != "complete" {
            return Err(Fault::cut(format!("the server's state of the stream is {}", state["state"])));
        }
        if let Some(own) = &self.digest {
            return compare(own, state["digest"].as_str().ok_or_else(Fault::no_digest)?);
        }
        // The server counts compressed bytes, if a proxy lets it compress and decompresses them.
        let (rows, bytes) = (self.rows(), self.bytes);
        let has_rows = matches!(self.kind, Kind::Rows | Kind::Events) && self.tail.ends_with(b"\n");
        if state["bytes"] == bytes || (has_rows && state["rows"] == rows) {
            return Ok(Proof::StreamState);
        }
        let (sent_rows, sent_bytes) = (&state["rows"], &state["bytes"]);
        Err(Fault::cut(format!(
            "the server sent {sent_rows} rows in {sent_bytes} bytes, but {rows} rows in {bytes} bytes arrived"
        )))
    }
}

/// Compares the digest of a body with the one that was sent.
fn compare(own: &Digest, sent: &str) -> Result<Proof, Fault> {
    if own.text() == sent { Ok(Proof::Digest) } else { Err(Fault::cut("the digest differs")) }
}

fn unproven() -> Fault {
    Fault::lasting(
        "nothing proves that the body is complete: a proxy drops the trailers, and the server's state of the \
         stream can't be read",
        "request .ndjson or `_wait=end`, or let the proxy pass on trailers or the path /_rowstream/streams/",
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The proof of a CSV body, if the server's state has these counts.
    fn proof(body: &str, rows: u64, bytes: usize) -> Result<Proof, Fault> {
        let mut document = Document::new("text/csv; header=present", None);
        document.feed(body.as_bytes());
        document.check_state(Some(&json!({"state": "complete", "rows": rows, "bytes": bytes})))
    }

    /// A proxy that lets the server compress, and decompresses the body, changes its bytes.
    #[test]
    fn whole_rows_prove_a_body_that_was_compressed_on_its_way() {
        for (body, rows, bytes) in [("n\r\n12\r\n", 1, 40), ("n\r\n", 0, 23), ("n", 0, 1), ("", 0, 0)] {
            assert_eq!(proof(body, rows, bytes), Ok(Proof::StreamState), "{body}");
        }
        for (body, rows, bytes) in [
            ("n\r\n1", 1, 7),
            ("n\r\n12", 1, 7),
            ("n\r\n12\r", 1, 7),
            ("n\r\n12\r\n", 2, 11),
            ("n", 0, 3),
            ("", 0, 3),
        ] {
            assert!(proof(body, rows, bytes).is_err(), "{body}");
        }
    }

    #[test]
    fn only_a_complete_stream_proves_a_body() {
        let document = Document::new("text/csv", None);
        for (state, reason) in [
            (json!({"state": "running", "rows": 0, "bytes": 0}), "the stream is \"running\""),
            (json!({"state": "aborted", "rows": 0, "bytes": 0}), "the stream is \"aborted\""),
            (json!({"state": "failed", "bytes": 0, "error": {"code": "c", "detail": "d"}}), "c: d"),
        ] {
            let fault = document.check_state(Some(&state)).unwrap_err();
            assert!(fault.to_string().contains(reason), "{fault}");
        }
        assert_eq!(document.check_state(None), Err(unproven()));
    }
}
