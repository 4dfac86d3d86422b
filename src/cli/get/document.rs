//! A response that can't be resumed, such as JSON, CSV or Arrow, and the evidence of its end.

use http::{HeaderMap, header};
use rowstream_bench::{Counter, End};

use super::fault::Fault;
use super::proof::Proof;
use crate::completeness::digest::{CONTENT_DIGEST, Digest};

/// The event that ends a stream of events.
const LAST_EVENT: &[u8] = b"id: end\n\n";

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
    /// The last bytes of a stream of events.
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
        Self { kind, counter, digest, tail: Vec::new() }
    }

    pub(super) fn feed(&mut self, bytes: &[u8]) {
        self.counter.feed(bytes);
        if let Some(digest) = &mut self.digest {
            digest.update(bytes);
        }
        if self.kind == Kind::Events {
            self.tail.extend_from_slice(&bytes[bytes.len().saturating_sub(LAST_EVENT.len())..]);
            self.tail.drain(..self.tail.len().saturating_sub(LAST_EVENT.len()));
        }
    }

    pub(super) fn rows(&self) -> u64 {
        self.counter.rows()
    }

    /// Checks a body whose end was reported by HTTP. Returns the proof that nothing is missing.
    ///
    /// # Errors
    /// A proof is missing that the server announced, or that the format has.
    pub(super) fn finish(&self, headers: &HeaderMap, trailers: &HeaderMap) -> Result<Proof, Fault> {
        let document = self.counter.finish();
        if document.end == End::Broken {
            return Err(Fault::cut(format!("the body breaks off after {} rows", document.rows)));
        }
        if let Some(digest) = headers.get(CONTENT_DIGEST).or(trailers.get(CONTENT_DIGEST))
            && let Some(own) = &self.digest
        {
            return match digest == own.text().as_str() {
                true => Ok(Proof::Digest),
                false => Err(Fault::cut("the digest differs")),
            };
        }
        let announced = headers.get(header::TRAILER).and_then(|names| names.to_str().ok());
        if announced.is_some_and(|names| names.to_ascii_lowercase().contains("rowstream-status")) {
            return self.check_trailers(trailers, document.rows);
        }
        let has_length = headers.contains_key(header::CONTENT_LENGTH);
        match self.kind {
            _ if document.end == End::Proven => Ok(Proof::Format),
            _ if has_length => Ok(Proof::Length),
            Kind::Events if self.tail == LAST_EVENT => Ok(Proof::LastEvent),
            // Only events with ids have a last one.
            Kind::Events if headers.get("rowstream-resume").is_some_and(|resume| resume == "ids") => {
                Err(Fault::cut("the last event is missing"))
            }
            _ if headers.contains_key(header::TRANSFER_ENCODING) => Ok(Proof::LastChunk),
            _ => Err(Fault::lasting(
                "nothing proves that the body is complete: it ends with its connection",
                "a proxy speaks HTTP/1.0: let it speak HTTP/1.1, or request NDJSON",
            )),
        }
    }

    fn check_trailers(&self, trailers: &HeaderMap, rows: u64) -> Result<Proof, Fault> {
        let trailer = |name: &str| trailers.get(name).and_then(|value| value.to_str().ok());
        if trailer("rowstream-status") != Some("complete") {
            return Err(Fault::cut("the trailers don't report a complete response"));
        }
        match trailer("rowstream-rows") {
            Some(sent) if self.kind == Kind::Rows && sent.parse() != Ok(rows) => {
                Err(Fault::cut(format!("the server sent {sent} rows, but {rows} arrived")))
            }
            _ => Ok(Proof::Trailers),
        }
    }
}
