//! The rows of one statement in the open batch of nested rows.
//!
//! Invariants:
//! 1. a row is read before it's known which row it belongs to. So up to one row more is read than is
//!    placed, and it's the last one;
//! 2. the complete rows are the first ones, and belong to complete rows of the outermost statement.
//!    Only they are written. The others stay for the next batch;
//! 3. a row that waits for its parent isn't copied for each batch: its level has no complete rows then.
//!
//! ```text
//!   rows of the arrays:  0 ────────── complete ────────── placed ────────── read
//!                            written           in the open row      waits for its parent
//! ```

use std::mem;

use arrow_ipc::FieldNode;

use super::Misfit;
use super::array::split_ends;
use super::column::ColumnArray;
use crate::rows::RowWriter;
use crate::{Column, Value};

/// The rows of one statement in a [`NestedArrowEncoder`](super::NestedArrowEncoder).
///
/// The calls for each row are those of [`RowWriter`], which write nothing: the row becomes columns.
pub struct ArrowLevel {
    pub(super) name: String,
    pub(super) parent: Option<usize>,
    /// The levels whose lists are in its rows.
    pub(super) children: Vec<usize>,
    pub(super) columns: Box<[Column]>,
    arrays: Box<[ColumnArray]>,
    /// The number of its rows up to the end of each list, after a 0.
    ends: Vec<u8>,
    read: usize,
    placed: Extent,
    complete: Extent,
    /// The complete lists.
    complete_lists: usize,
    /// All rows placed so far.
    rows: u64,
    /// The column of the next value.
    column: usize,
    /// The most bytes of the arrays in a row, and those that are left for the row that is being read.
    longest_lists: usize,
    room: usize,
    pub(super) misfit: Option<Misfit>,
}

/// The size of a list's end, in bits.
pub(super) const LIST_BITS: usize = i32::BITS as usize;

/// The first rows of a level, and the size of their columns in bits.
#[derive(Debug, Clone, Copy, Default)]
struct Extent {
    rows: usize,
    bits: usize,
}

/// The rows that stay for the next batch.
pub(super) struct Remainder {
    arrays: Box<[ColumnArray]>,
    ends: Vec<u8>,
}

impl ArrowLevel {
    pub(super) fn new(name: &str, parent: Option<usize>, columns: &[Column], longest_lists: usize) -> Self {
        Self {
            name: name.to_owned(),
            parent,
            children: Vec::new(),
            columns: columns.into(),
            arrays: no_rows(columns),
            ends: 0_i32.to_le_bytes().to_vec(),
            read: 0,
            placed: Extent::default(),
            complete: Extent::default(),
            complete_lists: 0,
            rows: 0,
            column: 0,
            longest_lists,
            room: 0,
            misfit: None,
        }
    }

    pub(super) fn rows(&self) -> u64 {
        self.rows
    }

    /// The number of its rows that can be written.
    pub(super) fn complete(&self) -> usize {
        self.complete.rows
    }

    /// The size of the rows and lists that can be written, in bits.
    pub(super) fn complete_bits(&self) -> usize {
        self.complete.bits + LIST_BITS * self.complete_lists
    }

    /// Places the row that was read last in the open list. Returns its size in bits.
    pub(super) fn place(&mut self) -> usize {
        let before = self.placed.bits;
        let bits = self.arrays.iter().map(|array| array.bits(self.read)).sum();
        self.placed = Extent { rows: self.read, bits };
        self.rows += 1;
        bits - before
    }

    /// Ends the open list. Returns false if there are too many rows: the offsets have 32 bits.
    pub(super) fn end_list(&mut self) -> bool {
        let end = i32::try_from(self.placed.rows);
        self.ends.extend_from_slice(&end.unwrap_or_default().to_le_bytes());
        end.is_ok()
    }

    /// Notes that the outermost row is complete.
    pub(super) fn end_outermost_row(&mut self) {
        self.complete = self.placed;
        self.complete_lists = self.ends.len() / size_of::<i32>() - 1;
    }

    /// Removes all rows that aren't complete.
    pub(super) fn split_off(&mut self) -> Remainder {
        let (complete, read) = (self.complete.rows, self.read);
        let arrays = match complete {
            0 => mem::replace(&mut self.arrays, no_rows(&self.columns)),
            _ => self.arrays.iter_mut().map(|array| array.split_off(complete, read)).collect(),
        };
        let (_, ends) = split_ends(&mut self.ends, self.complete_lists);
        Remainder { arrays, ends }
    }

    /// Begins the next batch with the rows that weren't complete.
    pub(super) fn begin_batch(&mut self, Remainder { arrays, ends }: Remainder) {
        (self.arrays, self.ends) = (arrays, ends);
        self.read -= self.complete.rows;
        self.placed.rows -= self.complete.rows;
        self.placed.bits -= self.complete.bits;
        (self.complete, self.complete_lists) = (Extent::default(), 0);
    }

    /// The lengths and the numbers of NULLs of its columns.
    pub(super) fn nodes(&self) -> impl Iterator<Item = FieldNode> {
        self.arrays.iter().flat_map(|array| array.nodes(self.complete.rows))
    }

    /// The buffers of its columns.
    pub(super) fn buffers(&self) -> impl Iterator<Item = &[u8]> {
        self.arrays.iter().flat_map(ColumnArray::buffers)
    }

    /// The buffers before those of its columns: of its lists, and of the rows in them. No list and no
    /// row is NULL.
    pub(super) fn list_buffers(&self) -> [&[u8]; 3] {
        [&[], &self.ends, &[]]
    }

    #[cold]
    fn note_misfit(&mut self, column: usize, value: Value<'_>) {
        self.misfit.get_or_insert_with(|| Misfit::of(&self.columns[column], &self.arrays[column], value));
    }
}

/// These columns without rows.
fn no_rows(columns: &[Column]) -> Box<[ColumnArray]> {
    columns.iter().map(|column| ColumnArray::new(column.kind)).collect()
}

impl RowWriter for ArrowLevel {
    #[inline]
    fn begin_row(&mut self, _out: &mut Vec<u8>) {
        (self.column, self.room) = (0, self.longest_lists);
    }

    #[inline]
    fn value(&mut self, value: Value<'_>, _out: &mut Vec<u8>) {
        let column = self.column;
        let Some(array) = self.arrays.get_mut(column) else { return };
        self.column += 1;
        if !array.push(self.read, value, &mut self.room) {
            self.note_misfit(column, value);
        }
    }

    #[inline]
    fn end_row(&mut self, _out: &mut Vec<u8>) {
        self.read += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ColumnKind;

    /// A row of 10 MB that waited for its parent was copied for each batch.
    #[test]
    fn a_row_that_waits_is_not_copied() {
        let columns = [Column::new("title", ColumnKind::Text)];
        let mut level = ArrowLevel::new("books", Some(0), &columns, usize::MAX);
        level.begin_row(&mut Vec::new());
        level.value(Value::Text("a long title"), &mut Vec::new());
        level.end_row(&mut Vec::new());
        let title = level.buffers().last().map(<[u8]>::as_ptr_range);
        for _ in 0..3 {
            assert!(level.end_list());
            level.end_outermost_row();
            let remainder = level.split_off();
            assert_eq!(level.buffers().last(), Some(&[][..]), "the batch has no row");
            level.begin_batch(remainder);
            assert_eq!(level.buffers().last().map(<[u8]>::as_ptr_range), title);
        }
        assert_eq!((level.place(), level.complete()), (1 + 8 * (4 + 12), 0));
    }
}
