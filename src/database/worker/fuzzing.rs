//! See [`crate::fuzzing`].

use arrow_ipc::reader::StreamDecoder;
use rowstream_encode::{RowEncoder, Shape};

use super::super::arrow_rows::{Columns, Row, column, decode};
use crate::database::DatabaseRow as _;

/// The longest row that is taken, in bytes.
const LONGEST: usize = 64 * 1024;
/// How many rows of a batch are looked at: one of nothing but NULL may claim any number of them.
const MOST: usize = 200;

/// What is read of a worker's rows.
#[derive(Default)]
pub struct Batches(StreamDecoder);

impl Batches {
    /// The rows in a piece of an Arrow stream as lines of JSON; `None`: it is no such piece, or a
    /// row of it has no JSON.
    pub fn read(&mut self, piece: Vec<u8>) -> Option<Vec<Vec<u8>>> {
        let Some(batch) = decode(&mut self.0, piece).ok()? else { return Some(Vec::new()) };
        let columns: Vec<_> = batch.schema().fields().iter().map(|field| column(field)).collect();
        let (values, mut lines) = (Columns::of(batch.columns()), Vec::new());
        for row in 0..batch.num_rows().min(MOST) {
            let (mut packed, mut line) = (Vec::new(), Vec::new());
            values.pack(row, &columns, LONGEST, &mut packed).ok()?;
            let mut encoder = RowEncoder::new(Shape::Lines, &columns);
            Row::new(&packed, columns.len()).encode(&mut encoder, &mut line).ok()?;
            lines.push(line);
        }
        Some(lines)
    }
}
