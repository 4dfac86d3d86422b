//! Entry points to private code, for the properties in `fuzz/`.

use arrow_ipc::reader::StreamDecoder;
use rowstream_database::DatabaseRow as _;
use rowstream_encode::{RowEncoder, Shape};

use super::connection::decode_piece;
use crate::arrow_rows::{Columns, Row, column};

/// The longest row that we accept, in bytes.
const LONGEST: usize = 64 * 1024;
/// How many rows of a batch we read. A batch that contains only NULLs can claim any number of rows.
const MOST: usize = 200;

/// Reads the rows of a driver process.
#[derive(Default)]
pub struct DriverBatches(StreamDecoder);

impl DriverBatches {
    /// Returns the rows in a piece of an Arrow stream as lines of JSON. `None`: it isn't a valid
    /// piece, or one of its rows can't be written as JSON.
    pub fn read(&mut self, piece: Vec<u8>) -> Option<Vec<Vec<u8>>> {
        let Some(batch) = decode_piece(&mut self.0, piece).ok()? else { return Some(Vec::new()) };
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
