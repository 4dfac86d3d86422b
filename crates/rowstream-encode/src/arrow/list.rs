//! The lists of one column of the open batch.
//!
//! Sources lend a list as a JSON array, because all other formats write it so. We read it back,
//! element by element. A kind has only one form in JSON, so no value changes. In a list of JSON,
//! `null` is NULL.

use super::array::{Array, push_bit, shrink, split_bits, split_ends, unset_bits};
use super::{element, what};
use crate::{ScalarKind, Value};

/// Describes a list in a list.
const DIMENSIONS: &str = "an array of several dimensions";
/// Describes JSON that isn't a list.
const NO_LIST: &str = "JSON that isn't a list";
/// Describes a list beyond the bound.
const TOO_LONG: &str = "a list of more elements than a row may have";

/// The lists of one column.
pub(super) struct ListArray {
    kind: ScalarKind,
    nulls: usize,
    validity: Vec<u8>,
    /// The number of elements up to the end of each list, after a 0.
    ends: Vec<u8>,
    /// The elements of all lists.
    elements: Array,
    count: usize,
    scratch: element::Scratch,
    misfit: Option<&'static str>,
}

impl ListArray {
    pub(super) fn new(kind: ScalarKind) -> Self {
        let mut list = Self {
            kind,
            nulls: 0,
            validity: Vec::new(),
            ends: Vec::new(),
            elements: Array::new(kind),
            count: 0,
            scratch: element::Scratch::default(),
            misfit: None,
        };
        list.clear();
        list
    }

    /// Removes all lists.
    pub(super) fn clear(&mut self) {
        (self.nulls, self.count) = (0, 0);
        self.elements.clear();
        self.scratch.clear();
        shrink([&mut self.validity, &mut self.ends]);
        self.ends.extend_from_slice(&0_i32.to_le_bytes());
    }

    /// See [`Array::split_off`].
    pub(super) fn split_off(&mut self, row: usize, rows: usize) -> Self {
        let mut tail = Self::new(self.kind);
        tail.validity = split_bits(&mut self.validity, row, rows);
        tail.nulls = unset_bits(&tail.validity, rows - row);
        self.nulls -= tail.nulls;
        let start;
        (start, tail.ends) = split_ends(&mut self.ends, row);
        tail.elements = self.elements.split_off(start, self.count);
        tail.count = self.count - start;
        self.count = start;
        tail
    }

    /// The number of lists that are NULL.
    pub(super) fn nulls(&self) -> usize {
        self.nulls
    }

    /// The elements, and their number.
    pub(super) fn elements(&self) -> (&Array, usize) {
        (&self.elements, self.count)
    }

    /// The memory of the lists.
    pub(super) fn bytes(&self) -> usize {
        self.validity.len() + self.ends.len() + self.elements.bytes()
    }

    /// See [`Array::bits`].
    pub(super) fn bits(&self, rows: usize) -> usize {
        rows + 8 * (self.ends.len() - size_of::<i32>()) + self.elements.bits(self.count)
    }

    /// The buffers before those of the elements. The first is empty if no list is NULL.
    pub(super) fn buffers(&self) -> [&[u8]; 2] {
        let validity = if self.nulls == 0 { &[][..] } else { &self.validity };
        [validity, &self.ends]
    }

    /// Describes the value that didn't fit.
    pub(super) fn misfit(&self) -> Option<&'static str> {
        self.misfit
    }

    /// Adds the list of row `row`, counted in the batch from 0, and takes its bytes from `room`.
    /// Returns false if an element doesn't fit, or if there's no room; then no more lists may be added.
    pub(super) fn push(&mut self, row: usize, value: Value<'_>, room: &mut usize) -> bool {
        push_bit(&mut self.validity, row, !matches!(value, Value::Null));
        let pushed = match value {
            Value::Null => {
                self.nulls += 1;
                Ok(())
            }
            Value::Json(text) => self.push_elements(text, room),
            value => Err(what(value, self.kind.into())),
        };
        self.misfit = pushed.and_then(|()| self.end_list()).err();
        self.misfit.is_none()
    }

    fn push_elements(&mut self, text: &str, room: &mut usize) -> Result<(), &'static str> {
        let most = self.elements.bits(self.count).saturating_add(room.saturating_mul(8));
        let text = text.trim_ascii().strip_prefix('[').and_then(|text| text.strip_suffix(']'));
        let mut rest = text.ok_or(NO_LIST)?.trim_ascii();
        while !rest.is_empty() {
            let (token, behind) = split_token(rest).ok_or(NO_LIST)?;
            if token.starts_with('[') && self.kind != ScalarKind::Json {
                return Err(DIMENSIONS);
            }
            let value = element::value(self.kind, token, &mut self.scratch).ok_or(NO_LIST)?;
            if !self.elements.push(self.count, value) {
                return Err(what(value, self.kind.into()));
            }
            self.count += 1;
            rest = behind;
            if self.elements.bits(self.count) > most {
                return Err(TOO_LONG);
            }
        }
        *room = (most - self.elements.bits(self.count)) / 8;
        Ok(())
    }

    /// Ends the list. The offsets have 32 bits.
    fn end_list(&mut self) -> Result<(), &'static str> {
        let end = i32::try_from(self.count).map_err(|_| "too many elements")?;
        self.ends.extend_from_slice(&end.to_le_bytes());
        Ok(())
    }
}

/// Splits the elements of a JSON array after the first one. The document is valid, because its
/// source has promised it, but nothing here relies on that.
fn split_token(text: &str) -> Option<(&str, &str)> {
    let bytes = text.as_bytes();
    let (mut at, mut depth) = (0, 0_usize);
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => at = quote_end(bytes, at)?,
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.checked_sub(1)?,
            b',' if depth == 0 => {
                let behind = text[at + 1..].trim_ascii_start();
                return Some((text[..at].trim_ascii_end(), behind)).filter(|_| !behind.is_empty());
            }
            _ => {}
        }
        at += 1;
    }
    (depth == 0).then_some((text.trim_ascii_end(), ""))
}

/// The place of the quote that ends the text that begins at `start`.
fn quote_end(bytes: &[u8], start: usize) -> Option<usize> {
    let mut at = start + 1;
    loop {
        match bytes.get(at)? {
            b'"' => return Some(at),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}
