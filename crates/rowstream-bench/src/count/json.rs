//! JSON documents.
//!
//! Rows are the elements of the outermost arrays, the ones that are nested only in objects: the
//! list in `[…]`, in `{"events":[…]}` and in `{"_embedded":{"articles":[…]},"total":7}`. A document
//! without an array is one row.
//!
//! ```text
//! Before ──{ [──► Open ──last } ]──► After ──anything but blanks──► Broken
//!   └───scalar──► Scalar ──blank──────►┘
//! ```

use super::bits::{BLOCK, Block, between_pairs, range};
use super::{Document, End};

/// Counts the rows of one JSON document.
#[derive(Default)]
pub struct Json {
    state: State,
    /// Open objects and arrays.
    depth: u64,
    /// The depth of the open outermost array; 0 if none is open.
    list: u64,
    /// Commas of that array so far. Each of them ends an element.
    commas: u64,
    /// Its last element was an object or array, which is closed and not yet followed by a comma.
    closed_last: bool,
    /// It has an element.
    filled: bool,
    /// Elements of outermost arrays that are closed.
    done: u64,
    any_list: bool,
    /// All ones inside a string.
    string: u64,
    /// The next byte is escaped.
    escape: bool,
}

#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Before,
    Open,
    Scalar,
    After,
    Broken,
}

impl Json {
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

    pub(super) fn rows(&self) -> u64 {
        self.done + self.commas + u64::from(self.closed_last)
    }

    pub(super) fn finish(&self) -> Document {
        let (rows, end) = match self.state {
            State::After => (self.rows(), End::Proven),
            // A truncated number is also a number.
            State::Scalar if self.string == 0 => (1, End::Possible),
            _ => (self.rows(), End::Broken),
        };
        Document { rows, end }
    }

    /// Reads the first `len` bytes of a block. The others are blanks.
    fn block(&mut self, bytes: &[u8; BLOCK], len: usize) {
        let block = Block::new(bytes);
        let escaped = self.escaped(block.find(b'\\'), len);
        let strings = between_pairs(block.find(b'"') & !escaped) ^ self.string;
        self.string = 0_u64.wrapping_sub(strings >> (len - 1) & 1);
        // `[` and `{`, and `]` and `}`, differ only in this bit. No other byte becomes one of them.
        let braces = block.with_bit(0x20);
        let mut brackets = (braces.find(b'{') | braces.find(b'}')) & !strings;
        let commas = block.find(b',') & !strings;
        let mut from = 0;
        while brackets != 0 {
            let at = brackets.trailing_zeros();
            self.between(bytes, commas, strings, from, at);
            self.bracket(bytes[at as usize]);
            brackets &= brackets - 1;
            from = at + 1;
        }
        self.between(bytes, commas, strings, from, len as u32);
    }

    /// The bytes after a backslash that escapes them. Most blocks have none.
    fn escaped(&mut self, mut backslashes: u64, len: usize) -> u64 {
        let mut escaped = u64::from(std::mem::take(&mut self.escape));
        backslashes &= !escaped;
        while backslashes != 0 {
            let next = backslashes.trailing_zeros() + 1;
            if next as usize == len {
                self.escape = true;
                break;
            }
            escaped |= 1 << next;
            backslashes &= !range(0, next + 1);
        }
        escaped
    }

    /// Reads the bytes between two brackets.
    #[inline]
    fn between(&mut self, bytes: &[u8; BLOCK], commas: u64, strings: u64, from: u32, to: u32) {
        if self.depth == 0 {
            self.outside(bytes, strings, from, to);
        } else if self.depth == self.list {
            let commas = u64::from((commas & range(from, to)).count_ones());
            self.commas += commas;
            self.closed_last &= commas == 0;
            self.filled = self.filled || bytes[from as usize..to as usize].iter().any(|byte| !blank(*byte));
        }
    }

    /// Reads bytes before the document, in a scalar, or after the document.
    fn outside(&mut self, bytes: &[u8; BLOCK], strings: u64, from: u32, to: u32) {
        for at in from..to {
            let byte = bytes[at as usize];
            let blank = blank(byte) && strings >> at & 1 == 0;
            self.state = match (self.state, blank) {
                (State::Before, false) if begins_scalar(byte) => State::Scalar,
                (State::Before | State::After, false) => State::Broken,
                (State::Scalar, true) => {
                    self.done = 1;
                    State::After
                }
                (state, _) => state,
            };
        }
    }

    #[inline]
    fn bracket(&mut self, byte: u8) {
        match byte {
            b'{' | b'[' => self.open(byte),
            _ => self.close(byte),
        }
    }

    #[inline]
    fn open(&mut self, byte: u8) {
        match self.state {
            State::Open => {}
            State::Before => self.state = State::Open,
            State::Scalar | State::After | State::Broken => return self.state = State::Broken,
        }
        self.filled |= self.depth == self.list;
        self.depth += 1;
        if self.list == 0 && byte == b'[' {
            self.list = self.depth;
            self.filled = false;
            self.any_list = true;
        }
    }

    #[inline]
    fn close(&mut self, byte: u8) {
        // At this depth we know the open brackets: one array, inside objects.
        let fits = self.depth > self.list || byte == b']';
        if self.state != State::Open || !fits || (self.list == 0 && byte == b']') {
            return self.state = State::Broken;
        }
        if self.depth == self.list {
            self.done += self.commas + u64::from(self.filled);
            (self.list, self.commas, self.closed_last) = (0, 0, false);
        } else {
            self.closed_last |= self.depth == self.list + 1 && self.list > 0;
        }
        self.depth -= 1;
        if self.depth == 0 {
            self.state = State::After;
            self.done += u64::from(!self.any_list);
        }
    }
}

fn blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

fn begins_scalar(byte: u8) -> bool {
    matches!(byte, b'"' | b'-' | b'0'..=b'9' | b't' | b'f' | b'n')
}
