//! JSON text sequences (RFC 7464): a record separator before each text, a line feed after it.

use super::{Document, End, Records};

const SEPARATOR: u8 = 0x1e;

/// Counts texts.
pub struct Sequence {
    rows: u64,
    last: LastByte,
    /// The current text is counted.
    counted: bool,
    /// A text was truncated, or the body doesn't begin with a separator.
    broken: bool,
    /// Set if the response is framed.
    records: Option<Records>,
}

/// The last byte.
#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum LastByte {
    #[default]
    Nothing,
    Separator,
    Text,
    /// A line feed in a text. It's the end of the text if a separator or the end of the body
    /// follows.
    Feed,
}

impl Sequence {
    pub(super) fn new(records: Option<Records>) -> Self {
        Self { rows: 0, last: LastByte::Nothing, counted: false, broken: false, records }
    }

    pub(super) fn feed(&mut self, bytes: &[u8]) {
        let mut from = 0;
        for at in memchr::memchr_iter(SEPARATOR, bytes) {
            self.part(&bytes[from..at]);
            self.broken |= self.last == LastByte::Text;
            (self.last, self.counted) = (LastByte::Separator, false);
            self.records.iter_mut().for_each(Records::begin);
            from = at + 1;
        }
        self.part(&bytes[from..]);
    }

    /// Counts a text at its first line feed. That's too early for a text of several lines. But the
    /// next separator, the real proof, arrives with the next text, which is too late for the time
    /// to the first row.
    fn part(&mut self, part: &[u8]) {
        let Some(last) = part.last() else { return };
        self.broken |= self.last == LastByte::Nothing;
        if let Some(records) = &mut self.records {
            records.part(part);
        }
        if !self.counted && memchr::memchr(b'\n', part).is_some() {
            self.counted = true;
            self.rows += u64::from(!self.records.as_ref().is_some_and(Records::has_record));
        }
        self.last = if *last == b'\n' { LastByte::Feed } else { LastByte::Text };
    }

    pub(super) fn rows(&self) -> u64 {
        self.rows
    }

    pub(super) fn finish(&self) -> Document {
        let whole = !self.broken && matches!(self.last, LastByte::Nothing | LastByte::Feed);
        Document { rows: self.rows, end: End::possible_if(whole) }
    }
}
