//! Row writers that treat each column differently.
//!
//! A row passes its values one by one, without their columns. [`ColumnCounter`] counts the columns
//! for all writers that keep, add or omit some of them.

use rowstream_encode::{RowWriter, Value, ValueOptions};

/// Receives the values of a row, each with its column.
pub trait ColumnWriter {
    /// Begins a row.
    fn begin(&mut self, out: &mut Vec<u8>);

    /// Writes the value of a column. The first column is 0.
    fn value(&mut self, column: usize, value: Value<'_>, out: &mut Vec<u8>);

    /// Ends a row, which had `columns` values.
    fn end(&mut self, columns: usize, out: &mut Vec<u8>);

    /// See [`RowWriter::options`].
    #[inline]
    fn options(&self) -> ValueOptions {
        ValueOptions::DEFAULT
    }
}

/// Counts the columns of each row for a [`ColumnWriter`].
pub struct ColumnCounter<T> {
    taker: T,
    /// The column of the next value.
    column: usize,
}

impl<T> ColumnCounter<T> {
    /// Counts for `taker`.
    pub fn new(taker: T) -> Self {
        Self { taker, column: 0 }
    }

    /// Returns the wrapped [`ColumnWriter`].
    pub fn into_taker(self) -> T {
        self.taker
    }
}

impl<T: ColumnWriter> RowWriter for ColumnCounter<T> {
    #[inline]
    fn begin_row(&mut self, out: &mut Vec<u8>) {
        self.column = 0;
        self.taker.begin(out);
    }

    #[inline]
    fn value(&mut self, value: Value<'_>, out: &mut Vec<u8>) {
        let column = self.column;
        self.column += 1;
        self.taker.value(column, value, out);
    }

    #[inline]
    fn end_row(&mut self, out: &mut Vec<u8>) {
        self.taker.end(self.column, out);
    }

    #[inline]
    fn options(&self) -> ValueOptions {
        self.taker.options()
    }
}
