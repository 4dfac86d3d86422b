//! Portions of the rows of interleaved statements, and a buffer for rows that arrive early.

use http::StatusCode;
use rowstream_core::Error;

/// The rows of a statement's first portion. Short results are complete after one round trip.
const FIRST: i32 = 32;
/// The most rows of a portion. The round trip is then a small part of its time.
const LONGEST: i32 = 512;
/// The target size of a portion, in bytes.
const HELD: usize = 64 * 1024;
/// The bytes of rows that may be held, even if a single row is limited to less.
pub const HELD_AT_MOST: usize = 1024 * 1024;
/// The bytes of a held row's length.
const HEAD: usize = 4;

/// The most rows of a portion: the source's `fetch_rows`, if that's less. 0 means no limit.
pub fn longest(fetch_rows: i32) -> i32 {
    match fetch_rows {
        0 => LONGEST,
        rows => rows.min(LONGEST),
    }
}

/// Chooses the length of a statement's portions.
pub struct PortionSizer {
    /// The number of rows to request.
    rows: i32,
    /// The number of rows received in this portion, and their bytes.
    came: usize,
    bytes: usize,
}

impl Default for PortionSizer {
    fn default() -> Self {
        Self { rows: FIRST, came: 0, bytes: 0 }
    }
}

impl PortionSizer {
    /// Begins the next portion. Returns the number of rows to request, at most `limit`.
    pub fn begin(&mut self, limit: i32) -> i32 {
        (self.came, self.bytes) = (0, 0);
        self.rows.min(limit)
    }

    /// Records a received row.
    #[inline]
    pub fn note(&mut self, bytes: usize) {
        self.came += 1;
        self.bytes += bytes;
    }

    /// Returns true if no row of the portion was received.
    pub fn is_empty(&self) -> bool {
        self.came == 0
    }

    /// Ends the portion. If its rows were short, the next portion is longer.
    pub fn end(&mut self) {
        let fitting = HELD / (self.bytes / self.came.max(1)).max(1);
        let fitting = i32::try_from(fitting).unwrap_or(LONGEST);
        self.rows = (2 * self.rows).min(fitting).clamp(1, LONGEST);
    }
}

/// Rows that arrived while another statement's rows were requested. Each has its length before it.
#[derive(Default)]
pub struct HeldRows {
    rows: Vec<u8>,
    /// The start of the next row.
    at: usize,
}

impl HeldRows {
    /// Returns true if all rows were taken.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.at == self.rows.len()
    }

    /// The bytes of the rows that weren't taken yet.
    fn bytes(&self) -> usize {
        self.rows.len() - self.at
    }

    /// Appends a row.
    ///
    /// # Errors
    /// All rows together have more than `limit` bytes, and more than [`HELD_AT_MOST`].
    pub fn push(&mut self, row: &[u8], limit: usize) -> Result<(), Error> {
        let limit = limit.max(HELD_AT_MOST);
        if self.bytes() + row.len() > limit {
            return Err(too_much_held(limit));
        }
        if self.is_empty() {
            self.rows.clear();
            self.rows.shrink_to(2 * HELD);
            self.at = 0;
        }
        let length = u32::try_from(row.len()).expect("a message's length has 32 bits");
        self.rows.extend_from_slice(&length.to_ne_bytes());
        self.rows.extend_from_slice(row);
        Ok(())
    }

    /// Takes the next row, which is lent.
    #[inline]
    pub fn take(&mut self) -> Option<&[u8]> {
        let (length, rest) = self.rows[self.at..].split_first_chunk::<HEAD>()?;
        let length = u32::from_ne_bytes(*length) as usize;
        self.at += HEAD + length;
        rest.get(..length)
    }
}

#[cold]
fn too_much_held(limit: usize) -> Error {
    let message = format!("rows that wait for those of another statement take more than {limit} bytes");
    Error::new("row_too_large", StatusCode::INTERNAL_SERVER_ERROR, message)
        .hint("set `fetch_rows` of the source to fewer rows, or raise `max_row_bytes`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_held_in_their_order() {
        let mut held = HeldRows::default();
        for round in 0..3 {
            for row in [&b"abc"[..], b"", b"defgh"] {
                held.push(row, 0).unwrap();
            }
            assert_eq!(held.take(), Some(&b"abc"[..]), "{round}");
            held.push(b"late", 0).unwrap();
            for row in [&b""[..], b"defgh", b"late"] {
                assert!(!held.is_empty());
                assert_eq!(held.take(), Some(row), "{round}");
            }
            assert!(held.is_empty());
            assert_eq!(held.take(), None);
        }
        held.push(&[0; 10 * HELD], 0).unwrap();
        held.take();
        held.push(b"x", 0).unwrap();
        assert!(held.rows.capacity() <= 2 * HELD, "what a large row took is given back");
    }
}
