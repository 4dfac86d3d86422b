//! The rows of one statement as they stand in a body.
use crate::{Column, Value};

/// How the rows of one statement stand in a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// A JSON array of objects, `[]` when there are none.
    Array,
    /// One JSON object, `null` when there is no row.
    Object,
    /// The first column of one row, `null` when there is no row.
    Scalar,
    /// NDJSON: one object a line.
    Lines,
}

/// Writes the rows of one statement.
#[derive(Debug)]
pub struct RowEncoder {
    shape: Shape,
    rows: u64,
}

impl RowEncoder {
    /// An encoder for rows of `columns`; the keys are escaped here, once.
    pub fn new(shape: Shape, _columns: &[Column]) -> Self {
        Self { shape, rows: 0 }
    }
    /// Rows begun so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }
    /// The shape that this encoder writes.
    pub fn shape(&self) -> Shape {
        self.shape
    }
    /// Writes what stands before the first row.
    pub fn start(&mut self, _out: &mut Vec<u8>) {
        unimplemented!()
    }
    /// Begins a row.
    pub fn begin_row(&mut self, _out: &mut Vec<u8>) {
        unimplemented!()
    }
    /// Writes the next value of the row.
    pub fn value(&mut self, _value: Value<'_>, _out: &mut Vec<u8>) {
        unimplemented!()
    }
    /// Ends the row.
    pub fn end_row(&mut self, _out: &mut Vec<u8>) {
        unimplemented!()
    }
    /// Writes what stands after the last row.
    pub fn finish(&mut self, _out: &mut Vec<u8>) {
        unimplemented!()
    }
}
