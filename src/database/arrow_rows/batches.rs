//! Record batches that go to clients as such: cut into pieces, and each of them written as a
//! message of an Arrow stream.
//!
//! A piece is as large as the batches that are made of rows: so nothing behind it needs more memory
//! for the one than for the other, and the first byte is as early. It is packed as this:
//!
//! ```text
//! piece = rows (u32), length of the row (u32), row, message
//! ```
//!
//! The row is one of [`super::cells`], and there only where the last columns are those of a key,
//! which are not sent: it says after which row a stream is resumed. Numbers are little-endian. Both
//! ends are in this file, so the reader trusts the bytes and panics on broken ones.

use std::mem;
use std::sync::Arc;

use arrow_array::{Array as _, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_ipc::MetadataVersion;
use arrow_ipc::writer::{IpcWriteOptions, StreamWriter};
use arrow_schema::{ArrowError, Schema, SchemaRef};
use rowstream_encode::{ArrowEncoder, Column};

use super::{Columns, Row, checked, sent};
use crate::database::Batch;
use rowstream_core::Error;

/// A full piece at first, for the first byte; each after it has twice the size.
const FIRST: usize = 4 * 1024;
/// How many rows a piece may have at first.
const FIRST_ROWS: usize = 64;
/// What the lengths in messages are multiples of.
const ALIGNMENT: usize = 8;

/// The schema of the first `columns` columns of a statement, as clients get them.
pub(in crate::database) fn sent_schema(schema: &Schema, columns: usize) -> Schema {
    sent::schema(schema, columns)
}

/// Cuts batches into pieces, and writes them.
pub(in crate::database) struct Pieces {
    /// That of what is sent; the columns after it are those of a key.
    schema: SchemaRef,
    options: RecordBatchOptions,
    writer: StreamWriter<Vec<u8>>,
    /// The bytes at which a piece is full.
    full: usize,
    /// The rows that may fit into it.
    rows: usize,
}

impl Pieces {
    /// Pieces of the first `columns` columns of batches of `schema`.
    ///
    /// # Errors
    /// Arrow has no such schema.
    pub(in crate::database) fn new(schema: &Schema, columns: usize) -> Result<Self, Error> {
        let schema = sent::schema(schema, columns);
        // It writes the schema, which the stream has already.
        let writer = writer(&schema).map_err(sent::unlike)?;
        let options = RecordBatchOptions::new().with_match_field_names(false);
        Ok(Self { schema: Arc::new(schema), options, writer, full: FIRST, rows: FIRST_ROWS })
    }

    /// Packs a piece of a batch that begins with the row `from`, behind what is in `packed`. How
    /// many rows it has.
    ///
    /// # Errors
    /// A row is longer than `limit`, or a value of it cannot be written.
    pub(in crate::database) fn pack(
        &mut self,
        (arrays, from, rows): (&[ArrayRef], usize, usize),
        columns: &[Column],
        limit: usize,
        packed: &mut Vec<u8>,
    ) -> Result<usize, Error> {
        let start = packed.len();
        let written = checked_piece(|| {
            let rows = self.cut((arrays, from, rows), limit)?;
            self.write((arrays, from, rows), columns, limit, packed).map(|()| rows)
        });
        match written {
            Ok(rows) => {
                self.full = (2 * self.full).min(ArrowEncoder::BATCH);
                self.rows = 2 * rows;
                Ok(rows)
            }
            Err(error) => {
                packed.truncate(start);
                Err(error)
            }
        }
    }

    /// How many of the rows that begin with `from` are a piece.
    fn cut(&self, (arrays, from, rows): (&[ArrayRef], usize, usize), limit: usize) -> Result<usize, Error> {
        let size =
            |rows| arrays.iter().map(|array| sent::size(array, from, rows)).fold(0, usize::saturating_add);
        // Of a piece that is no longer than a row may be, no row is.
        let full = self.full.min(limit).max(1);
        let mut rows = self.rows.clamp(1, rows - from);
        loop {
            match size(rows) {
                bytes if bytes <= full => return Ok(rows),
                bytes if rows > 1 => rows = (rows * full / bytes).clamp(1, rows - 1),
                bytes if bytes > limit => return Err(Error::row_too_large(bytes as u64, limit)),
                _ => return Ok(1),
            }
        }
    }

    fn write(
        &mut self,
        (arrays, from, rows): (&[ArrayRef], usize, usize),
        columns: &[Column],
        limit: usize,
        packed: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let sent = arrays.iter().zip(self.schema.fields());
        let sent = sent.map(|(array, field)| sent::array(&array.slice(from, rows), field.data_type()));
        let sent = sent.collect::<Result<Vec<_>, _>>()?;
        let piece = RecordBatch::try_new_with_options(Arc::clone(&self.schema), sent, &self.options);
        let piece = piece.map_err(sent::unlike)?;
        let count = u32::try_from(rows).map_err(|_| Error::protocol("a piece has 4 billion rows"))?;
        packed.extend_from_slice(&count.to_le_bytes());
        packed.extend_from_slice(&[0; 4]);
        let start = packed.len();
        if let Some(row) = self.key_row((arrays, from, rows)) {
            Columns::of(arrays).pack(row, columns, limit, packed)?;
        }
        let length = u32::try_from(packed.len() - start).expect("a row is below 4 GiB");
        packed[start - 4..start].copy_from_slice(&length.to_le_bytes());
        // Written where it is to lie.
        mem::swap(self.writer.get_mut(), packed);
        let written = self.writer.write(&piece);
        mem::swap(self.writer.get_mut(), packed);
        written.map_err(sent::unlike)
    }

    /// The row whose key is that of the piece: the last one, unless another one has none.
    fn key_row(&self, (arrays, from, rows): (&[ArrayRef], usize, usize)) -> Option<usize> {
        let keys = arrays.get(self.schema.fields().len()..).filter(|keys| !keys.is_empty())?;
        let is_null = |row: &usize| keys.iter().any(|key| key.is_null(*row));
        Some((from..from + rows).find(is_null).unwrap_or(from + rows - 1))
    }
}

fn writer(schema: &Schema) -> Result<StreamWriter<Vec<u8>>, ArrowError> {
    let options = IpcWriteOptions::try_new(ALIGNMENT, false, MetadataVersion::V5)?;
    let mut writer = StreamWriter::try_new_with_options(Vec::new(), schema, options)?;
    *writer.get_mut() = Vec::new();
    Ok(writer)
}

/// What is made of a piece; Arrow panics at what its offsets cannot count.
fn checked_piece<T>(make: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    checked(|| Ok(make())).map_err(sent::unlike)?
}

/// What [`Pieces::pack`] has packed, of a statement with so many columns.
pub(in crate::database) fn piece(packed: &[u8], columns: usize) -> Batch<'_, Row<'_>> {
    let (rows, rest) = number(packed);
    let (length, rest) = number(rest);
    let (row, message) = rest.split_at(length as usize);
    let last = (length > 0).then(|| Row::new(row, columns));
    Batch { rows: rows.into(), message, last }
}

fn number(bytes: &[u8]) -> (u32, &[u8]) {
    let (number, rest) = bytes.split_first_chunk().expect("a number has 4 bytes");
    (u32::from_le_bytes(*number), rest)
}
