//! CSV (RFC 4180): the records without the header. Line ends in quotes are data, and blank lines
//! aren't records.

use super::bits::{BLOCK, Block, between_pairs, range};
use super::{Document, End};

/// Counts records.
pub struct Csv {
    /// Records that have ended, including the header.
    records: u64,
    header: u64,
    /// All ones inside quotes. A doubled quote leaves them and enters them again.
    quoted: u64,
    /// A record has begun but not ended.
    open: bool,
}

impl Csv {
    /// `header` is true if the first record names the columns.
    pub(super) fn new(header: bool) -> Self {
        Self { records: 0, header: u64::from(header), quoted: 0, open: false }
    }

    pub(super) fn feed(&mut self, bytes: &[u8]) {
        let (blocks, rest) = bytes.as_chunks::<BLOCK>();
        for block in blocks {
            self.block(block, BLOCK);
        }
        if !rest.is_empty() {
            let mut block = [b' '; BLOCK];
            block[..rest.len()].copy_from_slice(rest);
            self.block(&block, rest.len());
        }
    }

    fn block(&mut self, bytes: &[u8; BLOCK], len: usize) {
        let block = Block::new(bytes);
        let quoted = between_pairs(block.find(b'"')) ^ self.quoted;
        self.quoted = 0_u64.wrapping_sub(quoted >> (len - 1) & 1);
        // `\r\n` and blank lines are runs of these bytes. A record ends at the first byte of a run.
        let ends = (block.find(b'\n') | block.find(b'\r')) & !quoted & range(0, len as u32);
        let after_end = ends << 1 | u64::from(!self.open);
        self.records += u64::from((ends & !after_end).count_ones());
        self.open = ends >> (len - 1) & 1 == 0;
    }

    pub(super) fn rows(&self) -> u64 {
        self.records.saturating_sub(self.header)
    }

    /// The last record needs no line end.
    pub(super) fn finish(&self) -> Document {
        let records = self.records + u64::from(self.open && self.quoted == 0);
        Document { rows: records.saturating_sub(self.header), end: End::possible_if(self.quoted == 0) }
    }
}
