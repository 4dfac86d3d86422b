//! Splits JSON into rows while it arrives: the elements of an array in a document, or the lines of
//! NDJSON. Each row is available after its last byte.
//!
//! The splitter does no I/O, and doesn't interpret the elements. A document arrives in chunks,
//! which may be cut anywhere:
//!
//! ```text
//! begin ─► push ─► advance ──true──► element ─► advance …
//!           ▲        │ false
//!           └────────┴──► finish, after the last chunk; it may be the end of one more element
//! ```
//!
//! Invariants:
//!
//! 1. memory: the chunk, one element (at most `most` bytes), one scalar for each captured pointer
//!    (at most [`LONGEST_CAPTURE`] bytes), and a byte or two for each open container, at most
//!    [`DEPTH`] of them. Everything else is skipped;
//! 2. the cuts between chunks don't affect the elements or the final result;
//! 3. the whole document must be JSON (RFC 8259) and UTF-8, even the skipped parts. Otherwise
//!    [`Splitter::finish`] fails, so a truncated document never looks like a shorter one;
//! 4. names are compared after unescaping. If a pointer leads to two members with the same name,
//!    the document fails, because some parsers use the first and others the last.

#[cfg(test)]
mod tests;
mod track;

use std::fmt;
use std::mem;

use bytes::Bytes;
use memchr::memchr2;

use self::track::Track;
use crate::pointer::{self, Pointer};

/// The most nested containers. Documents have about ten, and few JSON parsers allow more than this.
pub const DEPTH: usize = 128;
/// A byte order mark, which may precede JSON (RFC 8259, section 8.1).
const MARK: &[u8] = "\u{feff}".as_bytes();
/// The longest captured scalar, in bytes. It's a URL, or the token of a page.
pub const LONGEST_CAPTURE: usize = 16 * 1024;

/// The layout of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// One JSON text that contains the array.
    Document,
    /// NDJSON: each line is an element.
    Lines,
}

/// The reason why a document can't be split.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SplitError {
    /// It isn't JSON; with the number of valid bytes before the error.
    NotJson(u64),
    /// It isn't UTF-8.
    NotUtf8,
    /// It's truncated.
    Cut,
    /// More than [`DEPTH`] containers are nested.
    TooDeep,
    /// An element has at least this many bytes.
    TooLarge(u64),
    /// A captured scalar is longer than [`LONGEST_CAPTURE`].
    LongScalar,
    /// There's another value in place of the array.
    NoArray,
    /// The array is missing.
    Missing,
    /// An object has two members with this name, and a pointer leads to it.
    Twice(String),
}

impl fmt::Display for SplitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotJson(at) => write!(f, "invalid JSON from byte {at} on"),
            Self::NotUtf8 => f.write_str("not UTF-8"),
            Self::Cut => f.write_str("truncated: its JSON doesn't end"),
            Self::TooDeep => write!(f, "nested more than {DEPTH} deep"),
            Self::TooLarge(bytes) => write!(f, "one with an element of {bytes} bytes or more"),
            Self::LongScalar => {
                write!(f, "one whose value at `next` or `error` has more than {LONGEST_CAPTURE} bytes")
            }
            Self::NoArray => f.write_str("without an array in the place of its rows"),
            Self::Missing => f.write_str("without rows: it has no value in their place"),
            Self::Twice(name) => {
                write!(
                    f,
                    "ambiguous: it contains {} twice in one object",
                    rowstream_core::diagnostic::shown(name)
                )
            }
        }
    }
}

/// The value at a captured pointer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CapturedValue<'a> {
    /// There's no value.
    Missing,
    /// A scalar, as it's written in the document.
    Scalar(&'a str),
    /// An array or an object.
    Container,
}

/// Splits documents, one after another.
#[derive(Debug)]
pub struct Splitter {
    layout: Layout,
    state: State,
    stack: Vec<Frame>,
    track: Track,
    /// The node of the array, and the number of containers around it.
    rows: usize,
    rows_depth: usize,
    /// True once the array has begun, and true until it ends.
    found: bool,
    is_open: bool,
    element: CollectedBytes,
    /// True if `element` is complete.
    is_whole: bool,
    name: CollectedBytes,
    captures: Vec<Capture>,
    chunk: Bytes,
    /// The read position in `chunk`, and the end of its valid UTF-8.
    at: usize,
    valid: usize,
    /// The bytes of the document before `chunk`.
    before: u64,
    utf8: Utf8,
}

/// The syntax that's expected next.
#[derive(Debug, Clone, Copy)]
enum State {
    /// The rest of a byte order mark, or the first value.
    Mark(&'static [u8]),
    Value,
    ValueOrClose,
    NameOrClose,
    Name,
    Colon,
    /// After a value in a container.
    CommaOrClose,
    /// After the last value.
    End,
    Text(StringRole, Escape),
    Number(Digits),
    /// The rest of `true`, `false` or `null`.
    Literal(&'static [u8]),
}

/// The role of a string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StringRole {
    Name,
    Value,
}

/// The position in a string's escape.
#[derive(Debug, Clone, Copy)]
enum Escape {
    None,
    Backslash,
    /// The number of missing hexadecimal digits.
    Hex(u8),
}

/// The last part of a number that was read.
#[derive(Debug, Clone, Copy)]
enum Digits {
    Minus,
    Zero,
    Whole,
    Point,
    Fraction,
    E,
    Sign,
    Exponent,
}

/// An open container.
#[derive(Debug, Clone, Copy)]
enum Frame {
    Object,
    /// The number of elements that have begun.
    Array(u64),
}

/// A pointer's node, and the value there.
#[derive(Debug)]
struct Capture {
    node: usize,
    text: CollectedBytes,
    is_container: bool,
}

impl Splitter {
    /// Splits off the elements of the array at `rows`, each at most `most` bytes long. Captures the
    /// values at the pointers of `captures`.
    pub fn new<'a>(rows: &'a Pointer, captures: impl IntoIterator<Item = &'a Pointer>, most: usize) -> Self {
        let track = Track::new([rows].into_iter().chain(captures).cloned());
        let capture =
            |&node| Capture { node, text: CollectedBytes::new(LONGEST_CAPTURE), is_container: false };
        // Each byte of a name may be escaped, which needs six bytes.
        let longest = 6 * track.longest_name();
        Self {
            layout: Layout::Document,
            state: State::Mark(MARK),
            stack: Vec::new(),
            rows: track.ends()[0],
            rows_depth: rows.tokens().len(),
            found: false,
            is_open: false,
            element: CollectedBytes::new(most),
            is_whole: false,
            name: CollectedBytes::new(longest),
            captures: track.ends()[1..].iter().map(capture).collect(),
            track,
            chunk: Bytes::new(),
            at: 0,
            valid: 0,
            before: 0,
            utf8: Utf8::default(),
        }
    }

    /// Begins another document.
    pub fn begin(&mut self, layout: Layout) {
        self.layout = layout;
        self.state = State::Mark(MARK);
        self.stack.clear();
        self.track.reset();
        self.is_open = layout == Layout::Lines;
        self.found = self.is_open;
        self.element.from = None;
        self.is_whole = false;
        for capture in &mut self.captures {
            capture.text.drop_text();
            capture.is_container = false;
        }
        (self.chunk, self.at, self.valid, self.before) = (Bytes::new(), 0, 0, 0);
        self.utf8 = Utf8::default();
    }

    /// Continues with `chunk`. [`Splitter::advance`] must have returned false for the previous one.
    pub fn push(&mut self, chunk: Bytes) {
        self.before += self.chunk.len() as u64;
        self.valid = self.utf8.check(&chunk);
        (self.chunk, self.at) = (chunk, 0);
        self.captures.iter_mut().for_each(|capture| capture.text.go_on());
        self.element.go_on();
        self.name.go_on();
    }

    /// Returns true if another element is complete, and false if that needs more bytes.
    ///
    /// # Errors
    /// The document can't be split. Don't continue with it.
    pub fn advance(&mut self) -> Result<bool, SplitError> {
        self.drop_element();
        let chunk = mem::take(&mut self.chunk);
        let scanned = self.scan(&chunk);
        self.chunk = chunk;
        scanned
    }

    /// The complete element.
    ///
    /// # Errors
    /// Never, because its bytes are valid UTF-8.
    pub fn element(&self) -> Result<&str, SplitError> {
        std::str::from_utf8(&self.element.text).map_err(|_| SplitError::NotUtf8)
    }

    /// Ends the document. Returns true if that completes another element. Read the element, then
    /// call this again.
    ///
    /// # Errors
    /// The document is incomplete.
    pub fn finish(&mut self) -> Result<bool, SplitError> {
        self.drop_element();
        if let State::Number(digits) = self.state
            && digits.can_end()
            && self.stack.is_empty()
        {
            let chunk = mem::take(&mut self.chunk);
            let ended = self.end_value(&chunk);
            self.chunk = chunk;
            return ended;
        }
        let is_end = match (self.layout, self.state) {
            (_, State::End) => true,
            (Layout::Lines, State::Mark(rest)) => rest.len() == MARK.len(),
            (Layout::Lines, State::Value) => self.stack.is_empty(),
            _ => false,
        };
        if is_end { Ok(false) } else { Err(SplitError::Cut) }
    }

    /// Returns true if the array has begun.
    pub fn has_rows(&self) -> bool {
        self.found
    }

    /// The value at the captured pointer with index `which`. It's final once the document has
    /// ended.
    ///
    /// # Errors
    /// Never, because its bytes are valid UTF-8.
    pub fn captured(&self, which: usize) -> Result<CapturedValue<'_>, SplitError> {
        let Some(capture) = self.captures.get(which) else { return Ok(CapturedValue::Missing) };
        match (capture.is_container, &capture.text.text[..]) {
            (true, _) => Ok(CapturedValue::Container),
            (false, []) => Ok(CapturedValue::Missing),
            (false, text) => {
                std::str::from_utf8(text).map(CapturedValue::Scalar).map_err(|_| SplitError::NotUtf8)
            }
        }
    }

    fn drop_element(&mut self) {
        if mem::take(&mut self.is_whole) {
            self.element.drop_text();
        }
    }

    /// Reads up to the end of an element or of the chunk.
    fn scan(&mut self, chunk: &[u8]) -> Result<bool, SplitError> {
        let valid = &chunk[..self.valid];
        while self.at < valid.len() {
            let ended = match self.state {
                State::Text(text, escape) => self.read_text(valid, text, escape),
                State::Number(digits) => self.read_number(valid, digits),
                State::Literal(rest) => self.read_literal(valid, rest),
                State::Mark(rest) => self.read_mark(valid, rest),
                _ => self.read_token(valid),
            };
            if ended? {
                return Ok(true);
            }
        }
        if valid.len() < chunk.len() {
            return Err(SplitError::NotUtf8);
        }
        self.element.save(chunk, chunk.len()).map_err(SplitError::TooLarge)?;
        for capture in &mut self.captures {
            capture.text.save(chunk, chunk.len()).map_err(|_| SplitError::LongScalar)?;
        }
        if self.name.save(chunk, chunk.len()).is_err() {
            // It's longer than all names in the tree.
            self.name.drop_text();
        }
        Ok(false)
    }

    #[cold]
    fn not_json(&self) -> SplitError {
        SplitError::NotJson(self.before + self.at as u64)
    }

    /// Reads a byte of the mark, if there is one.
    fn read_mark(&mut self, chunk: &[u8], rest: &'static [u8]) -> Result<bool, SplitError> {
        self.state = match rest.split_first() {
            Some((first, rest)) if *first == chunk[self.at] => {
                self.at += 1;
                if rest.is_empty() { State::Value } else { State::Mark(rest) }
            }
            _ if rest.len() == MARK.len() => State::Value,
            _ => return Err(self.not_json()),
        };
        Ok(false)
    }

    /// Reads a byte between scalars.
    fn read_token(&mut self, chunk: &[u8]) -> Result<bool, SplitError> {
        let byte = chunk[self.at];
        match (self.state, byte) {
            (_, b' ' | b'\t' | b'\r') => {}
            (_, b'\n') => self.read_line_end()?,
            (State::ValueOrClose, b']') | (State::NameOrClose, b'}') => return self.close(chunk),
            (State::Value | State::ValueOrClose, _) => self.begin_value(byte)?,
            (State::Name | State::NameOrClose, b'"') => self.begin_name(),
            (State::Colon, b':') => self.state = State::Value,
            (State::CommaOrClose, _) => match (self.stack.last(), byte) {
                (Some(Frame::Object), b',') => self.state = State::Name,
                (Some(Frame::Array(_)), b',') => self.state = State::Value,
                (Some(Frame::Object), b'}') | (Some(Frame::Array(_)), b']') => return self.close(chunk),
                _ => return Err(self.not_json()),
            },
            _ => return Err(self.not_json()),
        }
        self.at += 1;
        Ok(false)
    }

    /// Ends a line. With NDJSON, its value must be complete.
    fn read_line_end(&mut self) -> Result<(), SplitError> {
        match (self.layout, self.state) {
            (Layout::Document, _) => {}
            (Layout::Lines, State::End) => self.state = State::Value,
            (Layout::Lines, State::Value) if self.stack.is_empty() => {}
            (Layout::Lines, _) => return Err(self.not_json()),
        }
        Ok(())
    }

    fn begin_value(&mut self, byte: u8) -> Result<(), SplitError> {
        let state = match byte {
            b'{' => State::NameOrClose,
            b'[' => State::ValueOrClose,
            b'"' => State::Text(StringRole::Value, Escape::None),
            b'-' => State::Number(Digits::Minus),
            b'0' => State::Number(Digits::Zero),
            b'1'..=b'9' => State::Number(Digits::Whole),
            b't' => State::Literal(b"rue"),
            b'f' => State::Literal(b"alse"),
            b'n' => State::Literal(b"ull"),
            _ => return Err(self.not_json()),
        };
        self.step_into_element();
        if self.is_element(self.stack.len()) {
            self.element.begin(self.at);
        }
        if self.layout == Layout::Document {
            self.note_value(byte)?;
        }
        match byte {
            b'{' => self.open(Frame::Object)?,
            b'[' => self.open(Frame::Array(0))?,
            _ => {}
        }
        self.state = state;
        Ok(())
    }

    /// Checks if the value that begins with `byte` is at a pointer.
    fn note_value(&mut self, byte: u8) -> Result<(), SplitError> {
        let depth = self.stack.len();
        let here = self.track.here(depth);
        for capture in self.captures.iter_mut().filter(|capture| here == Some(capture.node)) {
            capture.is_container = matches!(byte, b'{' | b'[');
            if !capture.is_container {
                capture.text.begin(self.at);
            }
        }
        match byte {
            _ if here != Some(self.rows) => {}
            b'[' => (self.found, self.is_open) = (true, true),
            // `null` counts as a missing array.
            b'n' => {}
            _ => return Err(SplitError::NoArray),
        }
        Ok(())
    }

    /// Returns true if a value inside `depth` containers is an element.
    fn is_element(&self, depth: usize) -> bool {
        let within = match self.layout {
            Layout::Document => self.rows_depth + 1,
            Layout::Lines => 0,
        };
        self.is_open && depth == within
    }

    /// Counts the elements of an array, because pointers contain their indices.
    fn step_into_element(&mut self) {
        let depth = self.stack.len();
        let Some(Frame::Array(begun)) = self.stack.last_mut() else { return };
        let number = *begun;
        *begun += 1;
        self.track.step_into_element(depth, number);
    }

    fn begin_name(&mut self) {
        self.state = State::Text(StringRole::Name, Escape::None);
        let depth = self.stack.len();
        let is_wanted = !self.track.steps(depth).is_empty();
        self.name.drop_text();
        if is_wanted {
            self.name.begin(self.at + 1);
        }
    }

    /// Ends the name at the read position.
    fn end_name(&mut self, chunk: &[u8]) -> Result<(), SplitError> {
        self.state = State::Colon;
        let known = self.name.from.is_some() && self.name.end(chunk, self.at).is_ok();
        let name = mem::take(&mut self.name.text);
        let (depth, is_document) = (self.stack.len(), self.layout == Layout::Document);
        let mut steps = self.track.steps(depth).iter();
        let step = if known { steps.find(|(wanted, _)| pointer::names(&name, wanted)) } else { None };
        let node = step.map(|(_, node)| *node);
        if !self.track.step_into_member(depth, node) && is_document {
            return Err(SplitError::Twice(String::from_utf8_lossy(&name).into_owned()));
        }
        self.name.text = name;
        Ok(())
    }

    fn open(&mut self, frame: Frame) -> Result<(), SplitError> {
        if self.stack.len() == DEPTH {
            return Err(SplitError::TooDeep);
        }
        self.stack.push(frame);
        let depth = self.stack.len();
        self.track.enter(depth);
        Ok(())
    }

    /// Closes the innermost container with the current byte.
    fn close(&mut self, chunk: &[u8]) -> Result<bool, SplitError> {
        self.stack.pop();
        let depth = self.stack.len();
        self.track.leave(depth);
        if self.layout == Layout::Document && depth <= self.rows_depth {
            self.is_open = false;
        }
        self.at += 1;
        self.end_value(chunk)
    }

    /// Ends a value at the read position. Returns true if it's an element.
    fn end_value(&mut self, chunk: &[u8]) -> Result<bool, SplitError> {
        let depth = self.stack.len();
        self.state = if depth == 0 { State::End } else { State::CommaOrClose };
        for capture in &mut self.captures {
            capture.text.end(chunk, self.at).map_err(|_| SplitError::LongScalar)?;
        }
        if self.is_element(depth) {
            self.element.end(chunk, self.at).map_err(SplitError::TooLarge)?;
            self.is_whole = true;
        }
        Ok(self.is_whole)
    }

    /// Continues a string.
    fn read_text(&mut self, chunk: &[u8], text: StringRole, escape: Escape) -> Result<bool, SplitError> {
        let escape = match (escape, chunk[self.at]) {
            (Escape::None, _) => return self.read_plain_text(chunk, text),
            (Escape::Backslash, b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Escape::None,
            (Escape::Backslash, b'u') => Escape::Hex(4),
            (Escape::Hex(left), byte) if byte.is_ascii_hexdigit() => match left {
                1 => Escape::None,
                left => Escape::Hex(left - 1),
            },
            _ => return Err(self.not_json()),
        };
        self.at += 1;
        self.state = State::Text(text, escape);
        Ok(false)
    }

    /// Reads up to the end of a string, or to its next escape.
    fn read_plain_text(&mut self, chunk: &[u8], text: StringRole) -> Result<bool, SplitError> {
        let rest = &chunk[self.at..];
        let plain = memchr2(b'"', b'\\', rest).unwrap_or(rest.len());
        if let Some(control) = rest[..plain].iter().position(|byte| *byte < b' ') {
            self.at += control;
            return Err(self.not_json());
        }
        self.at += plain;
        match (rest.get(plain), text) {
            (None, _) => {}
            (Some(b'\\'), _) => {
                self.at += 1;
                self.state = State::Text(text, Escape::Backslash);
            }
            (Some(_), StringRole::Name) => {
                self.end_name(chunk)?;
                self.at += 1;
            }
            (Some(_), StringRole::Value) => {
                self.at += 1;
                return self.end_value(chunk);
            }
        }
        Ok(false)
    }

    /// Continues a number. Only the byte after it shows its end.
    fn read_number(&mut self, chunk: &[u8], mut digits: Digits) -> Result<bool, SplitError> {
        while let Some(byte) = chunk.get(self.at) {
            match digits.then(*byte) {
                Some(next) => digits = next,
                None if digits.can_end() => return self.end_value(chunk),
                None => return Err(self.not_json()),
            }
            self.at += 1;
        }
        self.state = State::Number(digits);
        Ok(false)
    }

    /// Continues `true`, `false` or `null`. Its `rest` is missing.
    fn read_literal(&mut self, chunk: &[u8], rest: &'static [u8]) -> Result<bool, SplitError> {
        let Some((first, rest)) = rest.split_first() else { return self.end_value(chunk) };
        if chunk[self.at] != *first {
            return Err(self.not_json());
        }
        self.at += 1;
        self.state = State::Literal(rest);
        if rest.is_empty() { self.end_value(chunk) } else { Ok(false) }
    }
}

impl Digits {
    /// The state after `byte`; `None` if it isn't part of the number.
    fn then(self, byte: u8) -> Option<Self> {
        Some(match (self, byte) {
            (Self::Minus, b'0') => Self::Zero,
            (Self::Minus, b'1'..=b'9') | (Self::Whole, b'0'..=b'9') => Self::Whole,
            (Self::Zero | Self::Whole, b'.') => Self::Point,
            (Self::Point | Self::Fraction, b'0'..=b'9') => Self::Fraction,
            (Self::Zero | Self::Whole | Self::Fraction, b'e' | b'E') => Self::E,
            (Self::E, b'+' | b'-') => Self::Sign,
            (Self::E | Self::Sign | Self::Exponent, b'0'..=b'9') => Self::Exponent,
            _ => return None,
        })
    }

    fn can_end(self) -> bool {
        matches!(self, Self::Zero | Self::Whole | Self::Fraction | Self::Exponent)
    }
}

/// Bytes that are collected from one or more chunks.
#[derive(Debug)]
struct CollectedBytes {
    text: Vec<u8>,
    /// The start of the next bytes in the current chunk; `None` if no more are collected.
    from: Option<usize>,
    most: usize,
}

impl CollectedBytes {
    fn new(most: usize) -> Self {
        Self { text: Vec::new(), from: None, most }
    }

    fn begin(&mut self, at: usize) {
        self.text.clear();
        self.from = Some(at);
    }

    fn drop_text(&mut self) {
        self.text.clear();
        self.from = None;
    }

    /// Saves the bytes before `end`.
    ///
    /// # Errors
    /// The length, if that's too long.
    fn save(&mut self, chunk: &[u8], end: usize) -> Result<(), u64> {
        let Some(from) = self.from else { return Ok(()) };
        let (more, length) = (&chunk[from..end], self.text.len() + end - from);
        if length > self.most {
            return Err(length as u64);
        }
        if length > self.text.capacity() {
            // The capacity doubles each time, up to the limit.
            let room = (2 * self.text.len()).clamp(length, self.most);
            self.text.reserve_exact(room - self.text.len());
        }
        self.text.extend_from_slice(more);
        self.from = Some(end);
        Ok(())
    }

    fn end(&mut self, chunk: &[u8], end: usize) -> Result<(), u64> {
        let saved = self.save(chunk, end);
        self.from = None;
        saved
    }

    /// Continues with the next chunk.
    fn go_on(&mut self) {
        self.from = self.from.map(|_| 0);
    }
}

/// Checks that chunks are UTF-8. Characters can be split between chunks.
#[derive(Debug, Default)]
struct Utf8 {
    /// The beginning of a character that ends in the next chunk.
    begun: [u8; 4],
    length: usize,
}

impl Utf8 {
    /// The end of the part of a chunk that can be valid UTF-8.
    fn check(&mut self, chunk: &[u8]) -> usize {
        let mut at = 0;
        while let (true, Some(byte)) = (self.length > 0, chunk.get(at)) {
            self.begun[self.length] = *byte;
            self.length += 1;
            at += 1;
            match std::str::from_utf8(&self.begun[..self.length]) {
                Ok(_) => self.length = 0,
                Err(error) if error.error_len().is_none() => {}
                Err(_) => return 0,
            }
        }
        let Err(error) = std::str::from_utf8(&chunk[at..]) else { return chunk.len() };
        let valid = at + error.valid_up_to();
        if error.error_len().is_some() {
            return valid;
        }
        self.length = chunk.len() - valid;
        self.begun[..self.length].copy_from_slice(&chunk[valid..]);
        chunk.len()
    }
}
