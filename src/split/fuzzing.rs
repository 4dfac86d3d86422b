//! See [`crate::fuzzing`].

use bytes::Bytes;

use super::{Fault, Layout, Pointer, Splitter, Watched};

/// What came of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Split {
    /// Its elements.
    pub elements: Vec<String>,
    /// The scalar that was watched.
    pub watched: Option<String>,
    /// Whether it is one.
    pub ended_well: bool,
}

/// Splits a document, or lines, which comes in pieces; the pointers are where its rows are, and what is watched.
pub fn split((rows, watched, lines): (&str, &str, bool), pieces: &[&[u8]]) -> Split {
    let pointer = |text| Pointer::parse(text).unwrap_or_default();
    let mut splitter = Splitter::new(&pointer(rows), [&pointer(watched)], usize::MAX);
    splitter.begin(if lines { Layout::Lines } else { Layout::Document });
    let mut elements = Vec::new();
    let ended_well = read(&mut splitter, pieces, &mut elements).is_ok();
    let watched = match splitter.watched(0) {
        Ok(Watched::Scalar(text)) => Some(text.to_owned()),
        _ => None,
    };
    Split { elements, watched, ended_well }
}

fn read(splitter: &mut Splitter, pieces: &[&[u8]], elements: &mut Vec<String>) -> Result<(), Fault> {
    for piece in pieces {
        splitter.push(Bytes::copy_from_slice(piece));
        while splitter.advance()? {
            elements.push(splitter.element()?.to_owned());
        }
    }
    while splitter.finish()? {
        elements.push(splitter.element()?.to_owned());
    }
    Ok(())
}
