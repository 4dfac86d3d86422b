//! Server-sent events (HTML standard, 9.2) that have data. Comments and events with only an `id` or
//! `retry` aren't rows.

use super::{Document, End};

/// The type of the records of a framed response, which aren't rows.
const RECORD: &[u8; 16] = b"event: rowstream";

/// Counts events.
pub struct Events {
    rows: u64,
    /// True if the response is framed.
    framed: bool,
    /// The current event has data.
    data: bool,
    /// The current event is a record.
    record: bool,
    /// The start of the current line: one byte more than the longest text that matters.
    line: [u8; RECORD.len() + 1],
    length: usize,
    /// The last byte was a carriage return, so a line feed would belong to it.
    returned: bool,
}

impl Events {
    pub(super) fn new(framed: bool) -> Self {
        Self {
            rows: 0,
            framed,
            data: false,
            record: false,
            line: [0; RECORD.len() + 1],
            length: 0,
            returned: false,
        }
    }

    pub(super) fn feed(&mut self, mut bytes: &[u8]) {
        while let Some(&first) = bytes.first() {
            if std::mem::take(&mut self.returned) && first == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let Some(at) = memchr::memchr2(b'\n', b'\r', bytes) else {
                return self.part(bytes);
            };
            self.part(&bytes[..at]);
            self.returned = bytes[at] == b'\r';
            self.end_line();
            bytes = &bytes[at + 1..];
        }
    }

    fn part(&mut self, part: &[u8]) {
        let taken = part.len().min(self.line.len() - self.length);
        self.line[self.length..self.length + taken].copy_from_slice(&part[..taken]);
        self.length += taken;
    }

    fn end_line(&mut self) {
        match &self.line[..self.length] {
            b"" => {
                let is_record = std::mem::take(&mut self.record);
                self.rows += u64::from(std::mem::take(&mut self.data) && !is_record);
            }
            b"data" => self.data = true,
            line if line.starts_with(b"data:") => self.data = true,
            line if line == RECORD => self.record = self.framed,
            _ => {}
        }
        self.length = 0;
    }

    pub(super) fn rows(&self) -> u64 {
        self.rows
    }

    /// Readers drop an event without a blank line after it.
    pub(super) fn finish(&self) -> Document {
        Document { rows: self.rows, end: End::possible_if(self.length == 0 && !self.data) }
    }
}
