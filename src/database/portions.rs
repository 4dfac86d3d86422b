//! Portions of the rows of interleaved statements, and the rows of a portion that wait.

use http::StatusCode;

use rowstream_core::Error;

/// Rows of a statement's first portion: short answers come whole in one round trip.
const FIRST: i32 = 32;
/// Rows of a portion at most: a round trip is then a small part of its time.
const LONGEST: i32 = 512;
/// What the rows of a portion should take, in bytes.
const HELD: usize = 64 * 1024;
/// What rows that are held may take even where no single row may, in bytes.
pub(super) const HELD_AT_MOST: usize = 1024 * 1024;
/// The bytes of a held row's length.
const HEAD: usize = 4;

/// Rows of a portion at most: the source's own `fetch_rows`, 0 for none, where that is less.
pub(super) fn longest(fetch_rows: i32) -> i32 {
    match fetch_rows {
        0 => LONGEST,
        rows => rows.min(LONGEST),
    }
}

/// How long the portions of a statement are.
pub(super) struct Portion {
    /// Rows to be asked for.
    rows: i32,
    /// Rows of the portion that came, and their bytes.
    came: usize,
    bytes: usize,
}

impl Default for Portion {
    fn default() -> Self {
        Self { rows: FIRST, came: 0, bytes: 0 }
    }
}

impl Portion {
    /// Begins the next one, of at most `limit` rows: so many are to be asked for.
    pub(super) fn begin(&mut self, limit: i32) -> i32 {
        (self.came, self.bytes) = (0, 0);
        self.rows.min(limit)
    }

    /// Notes a row that came.
    #[inline]
    pub(super) fn note(&mut self, bytes: usize) {
        self.came += 1;
        self.bytes += bytes;
    }

    /// Whether none of its rows has come.
    pub(super) fn is_empty(&self) -> bool {
        self.came == 0
    }

    /// It has come: the next one is as long as its rows were short.
    pub(super) fn end(&mut self) {
        let fitting = HELD / (self.bytes / self.came.max(1)).max(1);
        let fitting = i32::try_from(fitting).unwrap_or(LONGEST);
        self.rows = (2 * self.rows).min(fitting).clamp(1, LONGEST);
    }
}

/// Rows that came while another statement's were wanted, each behind its length.
#[derive(Default)]
pub(super) struct Held {
    rows: Vec<u8>,
    /// Where the next one begins.
    at: usize,
}

impl Held {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.at == self.rows.len()
    }

    /// What is yet to be taken, in bytes.
    fn bytes(&self) -> usize {
        self.rows.len() - self.at
    }

    /// Holds another row.
    ///
    /// # Errors
    /// All rows then take more than `limit` bytes, and more than [`HELD_AT_MOST`].
    pub(super) fn push(&mut self, row: &[u8], limit: usize) -> Result<(), Error> {
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

    /// Takes the next row, lent.
    #[inline]
    pub(super) fn next(&mut self) -> Option<&[u8]> {
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
        let mut held = Held::default();
        for round in 0..3 {
            for row in [&b"abc"[..], b"", b"defgh"] {
                held.push(row, 0).unwrap();
            }
            assert_eq!(held.next(), Some(&b"abc"[..]), "{round}");
            held.push(b"late", 0).unwrap();
            for row in [&b""[..], b"defgh", b"late"] {
                assert!(!held.is_empty());
                assert_eq!(held.next(), Some(row), "{round}");
            }
            assert!(held.is_empty());
            assert_eq!(held.next(), None);
        }
        held.push(&[0; 10 * HELD], 0).unwrap();
        held.next();
        held.push(b"x", 0).unwrap();
        assert!(held.rows.capacity() <= 2 * HELD, "what a large row took is given back");
    }
}
