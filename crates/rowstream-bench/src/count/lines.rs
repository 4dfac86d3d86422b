//! NDJSON: one row per line. Blank lines, which some servers send as keep-alives, aren't rows.

use super::{Document, End, Records};

/// Counts lines.
pub struct Lines {
    rows: u64,
    line: Line,
    /// Set if the response is framed.
    records: Option<Records>,
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
    pub(super) fn new(records: Option<Records>) -> Self {
        Self { rows: 0, line: Line::Empty, records }
    }

    pub(super) fn feed(&mut self, bytes: &[u8]) {
        let mut from = 0;
        for at in memchr::memchr_iter(b'\n', bytes) {
            self.part(&bytes[from..at]);
            let is_filled = std::mem::take(&mut self.line) == Line::Filled;
            self.rows += u64::from(is_filled && !self.ends_record());
            from = at + 1;
        }
        self.part(&bytes[from..]);
    }

    /// True if the line that ends is a record.
    #[inline]
    fn ends_record(&mut self) -> bool {
        let Some(records) = &mut self.records else { return false };
        let is_record = records.has_record();
        records.begin();
        is_record
    }

    #[inline]
    fn part(&mut self, part: &[u8]) {
        if let Some(records) = &mut self.records {
            records.part(part);
        }
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
