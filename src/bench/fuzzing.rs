//! See [`crate::fuzzing`].

use super::chunked::Chunked;
use super::count::{Counter, End};

/// What a body was, if it ends where its pieces do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counted {
    /// Its rows.
    pub rows: u64,
    /// Whether it can end there.
    pub can_end: bool,
    /// Whether its format marks the end, and the mark is there.
    pub proven: bool,
    /// The rows that were known after each piece.
    pub known: Vec<u64>,
}

/// Counts the rows of a body that comes in pieces.
pub fn count(content_type: &str, pieces: &[&[u8]]) -> Counted {
    let mut counter = Counter::for_content_type(content_type);
    let known = pieces.iter().map(|piece| {
        counter.feed(piece);
        counter.rows()
    });
    let known = known.collect();
    let document = counter.finish();
    let (can_end, proven) = (document.end != End::Broken, document.end == End::Proven);
    Counted { rows: document.rows, can_end, proven, known }
}

/// The data of a chunked body that comes in pieces, whether it ended, and the bytes that are not its own; `None` if it is malformed.
pub fn unchunk(pieces: &[&[u8]]) -> Option<(Vec<u8>, bool, Vec<u8>)> {
    let (mut chunked, mut data, mut left) = (Chunked::new(), Vec::new(), Vec::new());
    for piece in pieces {
        let mut bytes = *piece;
        while let Some(part) = chunked.next(&mut bytes).ok()? {
            data.extend_from_slice(part);
        }
        left.extend_from_slice(bytes);
    }
    Some((data, chunked.ended(), left))
}
