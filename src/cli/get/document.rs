//! A response that can't be resumed, such as JSON, CSV or Arrow, and the evidence of its end.

use http::{HeaderMap, header};
use rowstream_bench::{Counter, End};
use serde_json::Value;

use super::fault::Fault;
use super::proof::{DigestNeed, Proof};
use crate::completeness::digest::{CONTENT_DIGEST, Digest};
use crate::completeness::streams::STREAM;

/// The event that ends a stream of events.
const LAST_EVENT: &[u8] = b"id: end\n\n";
/// The trailer with the outcome.
const STATUS: &str = "rowstream-status";

/// The hint for a body that a proxy may have decompressed.
const KEEP_CODING: &str = "a proxy may decompress it and keep `Content-Digest`: let it pass on `Accept-Encoding` and the \
    compressed body (nginx: `gunzip off;`), or set `compression = \"off\"` at the server";

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
    /// Of the body.
    digest: Digest,
    digest_need: DigestNeed,
    bytes: u64,
    /// The last bytes.
    tail: Vec<u8>,
}

impl Document {
    pub(super) fn new(content_type: &str, digest_need: DigestNeed) -> Self {
        let counter = Counter::for_content_type(content_type);
        let kind = match counter {
            Counter::Opaque => Kind::Opaque,
            Counter::Json(_) => Kind::Json,
            Counter::Events(_) => Kind::Events,
            Counter::Lines(_) | Counter::Csv(_) | Counter::Sequence(_) | Counter::Arrow(_) => Kind::Rows,
        };
        Self { kind, counter, digest: Digest::default(), digest_need, bytes: 0, tail: Vec::new() }
    }

    pub(super) fn feed(&mut self, bytes: &[u8]) {
        self.counter.feed(bytes);
        self.digest.update(bytes);
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
        let sent = headers.get(CONTENT_DIGEST).or(trailers.get(CONTENT_DIGEST));
        if let Some(sent) = sent.and_then(|sent| sha_256(sent.to_str().ok()?)) {
            let proof = self.compare(sent).map(Some);
            return proof.map_err(|differs| {
                if may_be_decompressed(headers) { differs.with_hint(KEEP_CODING) } else { differs }
            });
        }
        if self.digest_need == DigestNeed::Required {
            return Ok(None);
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

    /// Compares the body with the server's state of its stream. If the server can't be asked, or the
    /// stream still runs, there's only the `weaker` proof.
    ///
    /// # Errors
    /// See [`Self::finish`].
    pub(super) fn check_state(&self, state: Option<&Value>, weaker: Option<Proof>) -> Result<Proof, Fault> {
        let has_ended = state.is_some_and(|state| state["state"] != "running");
        if let Some(weaker) = weaker.filter(|_| !has_ended) {
            return Ok(weaker);
        }
        let state = state.ok_or_else(|| self.unproven())?;
        if state["error"].is_object() {
            return Err(Fault::of_server(&state["error"]));
        }
        if state["state"] != "complete" {
            return Err(Fault::cut(format!("the server's state of the stream is {}", state["state"])));
        }
        let proof = weaker.unwrap_or(Proof::StreamState).max(Proof::StreamState);
        match (state["digest"].as_str(), self.digest_need) {
            // A proxy let the server compress the body, and has decompressed it.
            (_, DigestNeed::Optional) if state["coding"].is_string() => match weaker {
                None if !self.has_all_rows(state) => Err(self.other_counts(state)),
                weaker => Ok(weaker.unwrap_or(proof)),
            },
            _ if state["bytes"] != self.bytes => Err(self.other_counts(state)),
            (Some(sent), _) => self.compare(sent),
            (None, DigestNeed::Required) => Err(Fault::no_digest()),
            (None, DigestNeed::Optional) => Ok(proof),
        }
    }

    fn has_all_rows(&self, state: &Value) -> bool {
        let has_rows = matches!(self.kind, Kind::Rows | Kind::Events) && self.tail.ends_with(b"\n");
        has_rows && state["rows"] == self.rows()
    }

    fn other_counts(&self, state: &Value) -> Fault {
        let (sent_rows, sent_bytes, rows, bytes) = (&state["rows"], &state["bytes"], self.rows(), self.bytes);
        Fault::cut(format!(
            "the server sent {sent_rows} rows in {sent_bytes} bytes, but {rows} rows in {bytes} bytes arrived"
        ))
    }

    /// Compares the digest of the body with the one that was sent.
    fn compare(&self, sent: &str) -> Result<Proof, Fault> {
        if self.digest.text() == sent { Ok(Proof::Digest) } else { Err(Fault::other_digest()) }
    }

    fn unproven(&self) -> Fault {
        if self.digest_need == DigestNeed::Required {
            return Fault::no_digest();
        }
        Fault::lasting(
            "nothing proves that the body is complete: a proxy drops the trailers, and the server's state of \
             the stream can't be read",
            "request .ndjson or `_wait=end`, or let the proxy pass on trailers or the path /_rowstream/streams/",
        )
    }
}

/// True if the server may have compressed the response, which arrived uncompressed. The digest is of the compressed
/// body, so a proxy that decompresses it should remove the header (RFC 9530, section 2).
fn may_be_decompressed(headers: &HeaderMap) -> bool {
    let varies = headers.get_all(header::VARY).iter().filter_map(|names| names.to_str().ok());
    let is_coded = headers.contains_key(header::CONTENT_ENCODING);
    !is_coded && varies.into_iter().any(|names| names.to_ascii_lowercase().contains("accept-encoding"))
}

/// The SHA-256 among the digests of a header. Other servers may send several.
fn sha_256(digests: &str) -> Option<&str> {
    digests.split(',').map(str::trim).find(|digest| digest.starts_with("sha-256="))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const FORM: &str = "text/csv; header=present";

    fn document(body: &str, need: DigestNeed) -> Document {
        let mut document = Document::new(FORM, need);
        document.feed(body.as_bytes());
        document
    }

    /// The proof of a CSV body, if the server's state has these counts.
    fn proof(body: &str, rows: u64, bytes: usize, coding: Option<&str>) -> Result<Proof, Fault> {
        let state = json!({"state": "complete", "rows": rows, "bytes": bytes, "coding": coding});
        document(body, DigestNeed::Optional).check_state(Some(&state), None)
    }

    /// A proxy that lets the server compress, and decompresses the body, changes its bytes.
    #[test]
    fn whole_rows_prove_a_body_that_was_compressed_on_its_way() {
        for (body, rows, bytes, coding) in [
            ("n\r\n12\r\n", 1, 40, Some("gzip")),
            ("n\r\n", 0, 23, Some("br")),
            ("n", 0, 1, None),
            ("", 0, 0, None),
        ] {
            assert_eq!(proof(body, rows, bytes, coding), Ok(Proof::StreamState), "{body}");
        }
        for (body, rows, bytes) in [
            ("n\r\n1", 1, 7),
            ("n\r\n12", 1, 7),
            ("n\r\n12\r", 1, 7),
            ("n\r\n12\r\n", 2, 11),
            ("n", 0, 3),
            ("", 0, 3),
        ] {
            assert!(proof(body, rows, bytes, Some("gzip")).is_err(), "{body}");
            assert!(proof(body, rows, bytes, None).is_err(), "{body}");
        }
    }

    /// A proxy lost bytes within a row: the number of rows was right.
    #[test]
    fn all_bytes_count_if_nothing_was_compressed() {
        assert!(proof("n\r\n12\r\n", 1, 40, None).is_err());
        let sent = Digest::of(b"n\r\n13\r\n");
        for need in [DigestNeed::Optional, DigestNeed::Required] {
            let state = json!({"state": "complete", "rows": 1, "bytes": 7, "digest": sent});
            let check = |body| document(body, need).check_state(Some(&state), Some(Proof::Format));
            assert_eq!(check("n\r\n12\r\n"), Err(Fault::other_digest()));
            assert_eq!(check("n\r\n13\r\n"), Ok(Proof::Digest));
        }
    }

    /// Other servers may send several digests, or none that we know.
    #[test]
    fn the_digest_may_be_in_the_headers_or_trailers() {
        let (body, none) = ("n\r\n12\r\n", HeaderMap::new());
        let fields = |value: String| HeaderMap::from_iter([(CONTENT_DIGEST, value.parse().unwrap())]);
        let right = fields(format!("sha-512=:eA==:, {}", Digest::of(body.as_bytes())));
        for need in [DigestNeed::Optional, DigestNeed::Required] {
            let document = document(body, need);
            assert_eq!(document.finish(&right, &none), Ok(Some(Proof::Digest)));
            assert_eq!(document.finish(&none, &right), Ok(Some(Proof::Digest)));
            assert_eq!(document.finish(&none, &fields(Digest::of(b"n"))), Err(Fault::other_digest()));
        }
        let mut unknown = fields("sha-512=:eA==:".to_owned());
        unknown.insert(header::CONTENT_LENGTH, "7".parse().unwrap());
        assert_eq!(document(body, DigestNeed::Optional).finish(&unknown, &none), Ok(Some(Proof::Length)));
        assert_eq!(document(body, DigestNeed::Required).finish(&unknown, &none), Ok(None));
    }

    #[test]
    fn only_a_complete_stream_proves_a_body() {
        let document = document("", DigestNeed::Optional);
        for (state, reason) in [
            (json!({"state": "running", "rows": 0, "bytes": 0}), "the stream is \"running\""),
            (json!({"state": "aborted", "rows": 0, "bytes": 0}), "the stream is \"aborted\""),
            (json!({"state": "failed", "bytes": 0, "error": {"code": "c", "detail": "d"}}), "c: d"),
        ] {
            let fault = document.check_state(Some(&state), None).unwrap_err();
            assert!(fault.to_string().contains(reason), "{fault}");
            // A proxy that cut the body may have counted it.
            let counted = document.check_state(Some(&state), Some(Proof::Length));
            assert_eq!(counted.is_ok(), state["state"] == "running", "{counted:?}");
        }
        assert_eq!(document.check_state(None, None), Err(document.unproven()));
        assert_eq!(document.check_state(None, Some(Proof::Format)), Ok(Proof::Format));
    }
}
