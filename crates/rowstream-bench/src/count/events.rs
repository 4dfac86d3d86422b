//! Server-sent events (HTML standard, 9.2) that have data. Comments and events with only an `id` or
//! `retry` aren't rows.

use super::{Document, End};

const DATA: &[u8; 4] = b"data";

/// Counts events.
#[derive(Default)]
pub struct Events {
    rows: u64,
    /// The current event has data.
    data: bool,
    /// The start of the current line: one byte more than the longest field name that matters.
    line: [u8; DATA.len() + 1],
    length: usize,
    /// The last byte was a carriage return, so a line feed would belong to it.
    returned: bool,
}

impl Events {
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
            b"" => self.rows += u64::from(std::mem::take(&mut self.data)),
            b"data" | b"data:" => self.data = true,
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
