//! NDJSON: one row per line. Blank lines, which some servers send as keep-alives, aren't rows.

use super::{Document, End};

/// Counts lines.
#[derive(Default)]
pub struct Lines {
    rows: u64,
    line: Line,
}

/// The current line so far.
#[derive(Default, PartialEq, Eq)]
enum Line {
    #[default]
    Empty,
    /// Only a carriage return.
    Return,
    Filled,
}

impl Lines {
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        let mut from = 0;
        for at in memchr::memchr_iter(b'\n', bytes) {
            self.part(&bytes[from..at]);
            self.rows += u64::from(std::mem::take(&mut self.line) == Line::Filled);
            from = at + 1;
        }
        self.part(&bytes[from..]);
    }

    #[inline]
    fn part(&mut self, part: &[u8]) {
        self.line = match (&self.line, part) {
            (Line::Empty, b"") => Line::Empty,
            (Line::Empty, b"\r") | (Line::Return, b"") => Line::Return,
            _ => Line::Filled,
        };
    }

    pub(super) fn rows(&self) -> u64 {
        self.rows
    }

    pub(super) fn finish(&self) -> Document {
        Document { rows: self.rows, end: End::possible_if(self.line == Line::Empty) }
    }
}
