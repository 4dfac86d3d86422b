//! Record batches for clients that want batches. Each is cut into pieces, and a piece is a message
//! of an Arrow stream.
//!
//! A piece is as large as a batch that we make of rows. So the code after it needs the same memory
//! for both, and the first byte is as early. Its layout:
//!
//! ```text
//! piece = rows (u32), length of the row (u32), row, message
//! ```
//!
//! The row is packed by [`super::cells`]. It's present only if the last columns are a key, which
//! isn't sent: a stream resumes after this row. Numbers are little-endian. Both ends are in this
//! file, so the reader trusts the bytes and panics on broken ones.

use std::mem;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{Array as _, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_ipc::MetadataVersion;
use arrow_ipc::writer::{IpcWriteOptions, StreamWriter};
use arrow_schema::{ArrowError, Schema, SchemaRef};
use rowstream_core::Error;
use rowstream_database::Batch;
use rowstream_encode::{ArrowEncoder, Column};

use super::{Columns, Row, checked, sent};

/// The first piece is small, so that the first byte is early. Each later one is twice as large.
const FIRST: usize = 4 * 1024;
/// The limit of rows in the first piece.
const FIRST_ROWS: usize = 64;
/// Lengths in messages are multiples of this.
const ALIGNMENT: usize = 8;

/// The schema of a statement's first `columns` columns, as clients receive it.
pub(crate) fn sent_schema(schema: &Schema, columns: usize) -> Schema {
    sent::schema(schema, columns)
}

/// Cuts batches into pieces and encodes them.
pub(crate) struct Pieces {
    /// The columns that we send; any after them are a key.
    schema: SchemaRef,
    options: RecordBatchOptions,
    writer: StreamWriter<Vec<u8>>,
    /// A piece is full at this many bytes.
    full: usize,
    /// An estimate of the rows that fit in a piece.
    rows: usize,
}

impl Pieces {
    /// Pieces of the first `columns` columns of batches of `schema`.
    ///
    /// # Errors
    /// Arrow can't encode the schema.
    pub(crate) fn new(schema: &Schema, columns: usize) -> Result<Self, Error> {
        let schema = sent::schema(schema, columns);
        // The writer also writes the schema, but the stream already has it.
        let writer = writer(&schema).map_err(sent::unlike)?;
        let options = RecordBatchOptions::new().with_match_field_names(false);
        Ok(Self { schema: Arc::new(schema), options, writer, full: FIRST, rows: FIRST_ROWS })
    }

    /// Appends a piece to `packed` with the first of these rows of a batch. Returns its number of
    /// rows.
    ///
    /// # Errors
    /// A row is longer than `limit`, or one of its values can't be written.
    pub(crate) fn pack(
        &mut self,
        arrays: &[ArrayRef],
        rows: Range<usize>,
        columns: &[Column],
        limit: usize,
        packed: &mut Vec<u8>,
    ) -> Result<usize, Error> {
        let start = packed.len();
        let written = checked_piece(|| {
            let count = self.cut(arrays, rows.clone(), limit)?;
            let piece = rows.start..rows.start + count;
            self.write(arrays, piece, columns, limit, packed).map(|()| count)
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

    /// The number of the first of these rows that make a piece.
    fn cut(&self, arrays: &[ArrayRef], rows: Range<usize>, limit: usize) -> Result<usize, Error> {
        let size = |count| {
            arrays.iter().map(|array| sent::size(array, rows.start, count)).fold(0, usize::saturating_add)
        };
        // If the piece is no longer than `limit`, neither is any of its rows.
        let full = self.full.min(limit).max(1);
        let mut count = self.rows.clamp(1, rows.len());
        loop {
            match size(count) {
                bytes if bytes <= full => return Ok(count),
                bytes if count > 1 => count = (count * full / bytes).clamp(1, count - 1),
                bytes if bytes > limit => return Err(Error::row_too_large(bytes as u64, limit)),
                _ => return Ok(1),
            }
        }
    }

    fn write(
        &mut self,
        arrays: &[ArrayRef],
        rows: Range<usize>,
        columns: &[Column],
        limit: usize,
        packed: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let sent = arrays.iter().zip(self.schema.fields());
        let sent =
            sent.map(|(array, field)| sent::array(&array.slice(rows.start, rows.len()), field.data_type()));
        let sent = sent.collect::<Result<Vec<_>, _>>()?;
        let piece = RecordBatch::try_new_with_options(Arc::clone(&self.schema), sent, &self.options);
        let piece = piece.map_err(sent::unlike)?;
        let count = u32::try_from(rows.len()).map_err(|_| Error::protocol("a piece has 4 billion rows"))?;
        packed.extend_from_slice(&count.to_le_bytes());
        packed.extend_from_slice(&[0; 4]);
        let start = packed.len();
        if let Some(row) = self.key_row(arrays, rows) {
            Columns::of(arrays).pack(row, columns, limit, packed)?;
        }
        let length = u32::try_from(packed.len() - start).expect("a row is below 4 GiB");
        packed[start - 4..start].copy_from_slice(&length.to_le_bytes());
        // Written directly to its destination.
        mem::swap(self.writer.get_mut(), packed);
        let written = self.writer.write(&piece);
        mem::swap(self.writer.get_mut(), packed);
        written.map_err(sent::unlike)
    }

    /// The row whose key the piece carries: the first row without a key, otherwise the last row.
    fn key_row(&self, arrays: &[ArrayRef], mut rows: Range<usize>) -> Option<usize> {
        let keys = arrays.get(self.schema.fields().len()..).filter(|keys| !keys.is_empty())?;
        let is_null = |row: &usize| keys.iter().any(|key| key.is_null(*row));
        let last = rows.end - 1;
        Some(rows.find(is_null).unwrap_or(last))
    }
}

fn writer(schema: &Schema) -> Result<StreamWriter<Vec<u8>>, ArrowError> {
    let options = IpcWriteOptions::try_new(ALIGNMENT, false, MetadataVersion::V5)?;
    let mut writer = StreamWriter::try_new_with_options(Vec::new(), schema, options)?;
    *writer.get_mut() = Vec::new();
    Ok(writer)
}

/// Calls `make`. Arrow panics on data that is too long for its offsets.
fn checked_piece<T>(make: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    checked(|| Ok(make())).map_err(sent::unlike)?
}

/// Reads a piece that [`Pieces::pack`] packed, of a statement with this many columns.
pub(crate) fn piece(packed: &[u8], columns: usize) -> Batch<'_, Row<'_>> {
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
