//! The load tester's counters: every cut of a body gives the same result as the whole, and as other
//! readers if they accept it.

use rowstream_bench::{ChunkDecoder, Counter, Document, End};
use serde_json::value::RawValue;

use crate::json::Members;

const TYPES: [&str; 7] = [
    "application/json",
    "application/x-ndjson",
    "text/csv",
    "text/csv; header=absent",
    "text/event-stream",
    "application/json-seq",
    "application/vnd.apache.arrow.stream",
];

/// The first byte chooses the format, or the chunked coding. The second one cuts the rest.
pub fn count(data: &[u8]) {
    let [kind, cut, body @ ..] = data else { return };
    let pieces = pieces(body, *cut);
    let Some(content_type) = TYPES.get(usize::from(*kind) % (TYPES.len() + 1)) else {
        return assert_unchunked(body, &pieces);
    };
    let whole = counted(content_type, &[body]);
    assert_eq!(whole, counted(content_type, &pieces));
    match *content_type {
        "application/json" => {
            if let Ok(json) = serde_json::from_slice::<&RawValue>(body) {
                assert_ne!(whole.end, End::Broken);
                assert_eq!(whole.rows, elements(json).unwrap_or(1));
            }
        }
        "application/x-ndjson" => {
            let lines = body.split(|byte| *byte == b'\n').rev().skip(1);
            let filled = lines.filter(|line| !line.is_empty() && *line != b"\r");
            assert_eq!(whole.rows, filled.count() as u64);
        }
        _ => {}
    }
}

/// The result for a body that arrives in these pieces.
fn counted(content_type: &str, pieces: &[&[u8]]) -> Document {
    let mut counter = Counter::for_content_type(content_type);
    for piece in pieces {
        let known = counter.rows();
        counter.feed(piece);
        assert!(known <= counter.rows(), "a row is never taken back");
    }
    counter.finish()
}

/// Alternating pieces of `step` bytes and of one byte. If `step` is 0, everything at once.
fn pieces(body: &[u8], step: u8) -> Vec<&[u8]> {
    let (mut pieces, mut rest) = (Vec::new(), body);
    while !rest.is_empty() {
        let length = match (step, pieces.len() % 2) {
            (0, _) => rest.len(),
            (step, 0) => usize::from(step),
            _ => 1,
        };
        let piece;
        (piece, rest) = rest.split_at(length.min(rest.len()));
        pieces.push(piece);
    }
    pieces
}

/// Elements of the outermost arrays; `None` if there is no array.
fn elements(json: &RawValue) -> Option<u64> {
    let text = json.get();
    match text.as_bytes().first() {
        Some(b'[') => serde_json::from_str::<Vec<&RawValue>>(text).ok().map(|elements| elements.len() as u64),
        Some(b'{') => {
            let members: Members<'_> = serde_json::from_str(text).ok()?;
            members.0.iter().filter_map(|(_, member)| elements(member)).reduce(|a, b| a + b)
        }
        _ => None,
    }
}

/// The data of a chunked body in these pieces, if it ended, and the bytes after it. `None` if it's
/// malformed.
fn unchunk(pieces: &[&[u8]]) -> Option<(Vec<u8>, bool, Vec<u8>)> {
    let (mut chunked, mut data, mut left) = (ChunkDecoder::default(), Vec::new(), Vec::new());
    for piece in pieces {
        let mut bytes = *piece;
        while let Some(part) = chunked.next(&mut bytes).ok()? {
            data.extend_from_slice(part);
        }
        left.extend_from_slice(bytes);
    }
    Some((data, chunked.ended(), left))
}

fn assert_unchunked(body: &[u8], pieces: &[&[u8]]) {
    let whole = unchunk(&[body]);
    assert_eq!(whole, unchunk(pieces));
    if let Some((data, ended, left)) = whole {
        assert!(data.len() + left.len() <= body.len());
        assert!(ended || left.is_empty());
    }
}
