//! Rows whose values go different ways by their columns while they are written.
//!
//! A row hands out its values one after the other and does not number them. One type counts them,
//! for all that keep, add or leave out the values of certain columns.

use rowstream_encode::{RowWriter, Value, ValueOptions};

/// Takes the values of a row, each with the number of its column.
pub(crate) trait ByColumn {
    /// A row begins.
    fn begin(&mut self, out: &mut Vec<u8>);

    /// The value of a column; the first column is 0.
    fn value(&mut self, column: usize, value: Value<'_>, out: &mut Vec<u8>);

    /// The row ends, which had so many columns.
    fn end(&mut self, columns: usize, out: &mut Vec<u8>);

    /// See [`RowWriter::options`].
    #[inline]
    fn options(&self) -> ValueOptions {
        ValueOptions::DEFAULT
    }
}

/// Counts the columns of each row for what takes its values.
pub(crate) struct Counted<T> {
    taker: T,
    /// The column of the next value.
    column: usize,
}

impl<T> Counted<T> {
    pub(crate) fn new(taker: T) -> Self {
        Self { taker, column: 0 }
    }

    /// What has taken the values.
    pub(crate) fn into_taker(self) -> T {
        self.taker
    }
}

impl<T: ByColumn> RowWriter for Counted<T> {
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
