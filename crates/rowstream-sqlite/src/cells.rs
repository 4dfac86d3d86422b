//! Packs the values of a row into bytes in the worker, so that the session can read them in place.
//!
//! ```text
//! value   = tag (u8), payload
//! payload = nothing (NULL) | i64 (INTEGER) | f64 (REAL) | length (u32), bytes (TEXT, BLOB)
//! ```
//!
//! Numbers are little-endian. Both the writer and the reader are in this file, so the reader trusts
//! the bytes and panics on broken ones.

use rowstream_core::Error;
use rusqlite::types::ValueRef;

use super::rows::Rows;

const NULL: u8 = 0;
const INTEGER: u8 = 1;
const REAL: u8 = 2;
const TEXT: u8 = 3;
const BLOB: u8 = 4;

/// One value as SQLite stores it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Cell<'a> {
    /// NULL.
    Null,
    /// INTEGER.
    Integer(i64),
    /// REAL.
    Real(f64),
    /// TEXT. SQLite doesn't check that it is UTF-8.
    Text(&'a [u8]),
    /// BLOB.
    Blob(&'a [u8]),
}

/// Appends the values of the current row of `rows` to `batch`.
///
/// # Errors
/// The values have more than `limit` bytes; `batch` then ends with some of them.
#[inline]
pub(super) fn push_values(rows: &Rows<'_>, limit: usize, batch: &mut Vec<u8>) -> Result<(), Error> {
    let mut room = limit;
    for column in 0..rows.columns() {
        let value = rows.value(column);
        let Some(left) = room.checked_sub(packed_len(value)) else {
            return Err(Error::row_too_large(row_len(rows), limit));
        };
        room = left;
        push_value(value, batch);
    }
    Ok(())
}

fn push_value(value: ValueRef<'_>, batch: &mut Vec<u8>) {
    match value {
        ValueRef::Null => batch.push(NULL),
        ValueRef::Integer(value) => push_fixed(INTEGER, value.to_le_bytes(), batch),
        ValueRef::Real(value) => push_fixed(REAL, value.to_le_bytes(), batch),
        ValueRef::Text(bytes) => push_bytes(TEXT, bytes, batch),
        ValueRef::Blob(bytes) => push_bytes(BLOB, bytes, batch),
    }
}

fn push_fixed(tag: u8, payload: [u8; 8], batch: &mut Vec<u8>) {
    let mut packed = [tag; 9];
    packed[1..].copy_from_slice(&payload);
    batch.extend_from_slice(&packed);
}

fn push_bytes(tag: u8, bytes: &[u8], batch: &mut Vec<u8>) {
    let length = u32::try_from(bytes.len()).expect("SQLite's values are below 2 GiB");
    let mut head = [tag; 5];
    head[1..].copy_from_slice(&length.to_le_bytes());
    batch.extend_from_slice(&head);
    batch.extend_from_slice(bytes);
}

fn packed_len(value: ValueRef<'_>) -> usize {
    match value {
        ValueRef::Null => 1,
        ValueRef::Integer(_) | ValueRef::Real(_) => 9,
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => 5 + bytes.len(),
    }
}

/// Returns the size of a row that is too large, for its error.
#[cold]
fn row_len(rows: &Rows<'_>) -> u64 {
    (0..rows.columns()).map(|column| packed_len(rows.value(column)) as u64).sum()
}

/// Removes the first of a row's values, and returns it.
#[inline]
pub(super) fn next_cell<'a>(values: &mut &'a [u8]) -> Cell<'a> {
    let (&tag, rest) = values.split_first().expect("a row has a value for each column");
    let (cell, rest) = match tag {
        NULL => (Cell::Null, rest),
        INTEGER => fixed(rest, |bytes| Cell::Integer(i64::from_le_bytes(bytes))),
        REAL => fixed(rest, |bytes| Cell::Real(f64::from_le_bytes(bytes))),
        TEXT => bytes(rest, Cell::Text),
        _ => bytes(rest, Cell::Blob),
    };
    *values = rest;
    cell
}

#[inline]
fn fixed<'a>(packed: &'a [u8], cell: impl FnOnce([u8; 8]) -> Cell<'a>) -> (Cell<'a>, &'a [u8]) {
    let (payload, rest) = packed.split_first_chunk().expect("a number has 8 bytes");
    (cell(*payload), rest)
}

#[inline]
fn bytes<'a>(packed: &'a [u8], cell: impl FnOnce(&'a [u8]) -> Cell<'a>) -> (Cell<'a>, &'a [u8]) {
    let (length, rest) = split_length(packed);
    let (payload, rest) = rest.split_at(length);
    (cell(payload), rest)
}

#[inline]
fn split_length(packed: &[u8]) -> (usize, &[u8]) {
    let (length, rest) = packed.split_first_chunk().expect("a length has 4 bytes");
    (u32::from_le_bytes(*length) as usize, rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_out_as_they_went_in() {
        let connection = rusqlite::Connection::open_in_memory().unwrap();
        let mut statement = connection
            .prepare("values (null, -9223372036854775808, 1.5, 'é', x'00ff'), (1, '', x'', 0, -0.5)")
            .unwrap();
        let mut rows = Rows::new(&connection, &mut statement);
        let mut packed = || {
            let mut row = Vec::new();
            assert!(rows.next().unwrap());
            push_values(&rows, 1000, &mut row).unwrap();
            row
        };
        let (first, second) = (packed(), packed());
        let (mut first, mut second) = (&*first, &*second);
        let cells: [Cell<'_>; 5] = std::array::from_fn(|_| next_cell(&mut first));
        let text = "é".as_bytes();
        let expected =
            [Cell::Null, Cell::Integer(i64::MIN), Cell::Real(1.5), Cell::Text(text), Cell::Blob(&[0, 255])];
        assert_eq!(cells, expected);
        let cells: [Cell<'_>; 5] = std::array::from_fn(|_| next_cell(&mut second));
        let expected =
            [Cell::Integer(1), Cell::Text(b""), Cell::Blob(b""), Cell::Integer(0), Cell::Real(-0.5)];
        assert_eq!(cells, expected);
        assert_eq!((first.len(), second.len()), (0, 0));
    }

    #[test]
    fn a_row_over_the_limit_is_an_error() {
        let connection = rusqlite::Connection::open_in_memory().unwrap();
        let mut statement = connection.prepare("select 'abc', zeroblob(100)").unwrap();
        let mut rows = Rows::new(&connection, &mut statement);
        assert!(rows.next().unwrap());
        let error = push_values(&rows, 112, &mut Vec::new()).unwrap_err();
        assert_eq!(error.message(), "a row of 113 bytes is over the limit of 112 bytes");
        push_values(&rows, 113, &mut Vec::new()).unwrap();
    }
}
