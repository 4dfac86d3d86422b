//! Reads rows from Arrow record batches, for all databases that send these: drivers in driver
//! processes, and Arrow Flight SQL.
//!
//! Each row is packed ([`cells`]) when it's reached, from the values of its columns ([`columns`],
//! [`values`]). If clients want batches too, there are no rows: batches are cut into pieces
//! ([`batches`]), with types that all readers know ([`sent`]). In the other direction, bound
//! parameters are a batch too (`bind`). This module does no I/O, and doesn't depend on the sender
//! of the batches.

mod arguments;
mod batches;
#[cfg(any(feature = "adbc", feature = "flight"))]
mod bind;
mod cells;
mod columns;
mod sent;
#[cfg(test)]
mod tests;
mod values;

use std::panic::{AssertUnwindSafe, catch_unwind};

use arrow_array::RecordBatch;
use arrow_ipc::reader::StreamDecoder;
use arrow_schema::{ArrowError, Schema};
use rowstream_core::Error;
use rowstream_encode::{Column, RowWriter};

pub(super) use self::arguments::{Argument, argument, null};
pub(super) use self::batches::{Pieces, piece, sent_schema};
#[cfg(any(feature = "adbc", feature = "flight"))]
pub(super) use self::bind::batch;
pub(super) use self::columns::Columns;
#[cfg(feature = "odbc")]
pub(super) use self::values::JSON;
pub(super) use self::values::column;
#[cfg(feature = "worker")]
pub(super) use self::values::{KIND, NUMBER};
use super::{DatabaseRow, RowLayout};

/// A packed row.
pub struct Row<'a> {
    values: &'a [u8],
    columns: usize,
}

impl<'a> Row<'a> {
    /// A row that [`Columns::pack`] has packed.
    #[inline]
    pub(super) fn new(values: &'a [u8], columns: usize) -> Self {
        Self { values, columns }
    }
}

impl DatabaseRow for Row<'_> {
    type Layout = Layout;

    #[inline]
    fn encode(self, encoder: &mut impl RowWriter, out: &mut Vec<u8>) -> Result<(), Error> {
        let mut values = self.values;
        encoder.begin_row(out);
        for _ in 0..self.columns {
            encoder.value(cells::next(&mut values), out);
        }
        encoder.end_row(out);
        Ok(())
    }

    fn layout(&self) -> Layout {
        Layout { columns: self.columns }
    }

    fn bytes(&self) -> &[u8] {
        self.values
    }
}

/// The layout of rows that no longer have a batch.
pub struct Layout {
    columns: usize,
}

impl RowLayout for Layout {
    type Row<'a> = Row<'a>;

    fn row<'a>(&'a mut self, values: &'a [u8]) -> Row<'a> {
        Row { values, columns: self.columns }
    }
}

/// Decodes a piece of an Arrow stream, and returns its batch, if it has one. A piece is one
/// message, after the dictionaries that it needs.
///
/// # Errors
/// The piece is invalid.
pub(super) fn decode(decoder: &mut StreamDecoder, piece: Vec<u8>) -> Result<Option<RecordBatch>, ArrowError> {
    checked(|| decoder.decode(&mut piece.into()))
}

/// Calls Arrow's reader, which panics on some bytes whose lengths are wrong.
///
/// # Errors
/// The reader failed or panicked.
pub(super) fn checked<T>(read: impl FnOnce() -> Result<T, ArrowError>) -> Result<T, ArrowError> {
    let panicked = |_| Err(ArrowError::IpcError("its lengths are not those of its values".to_owned()));
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(panicked)
}

/// Returns true if a received schema has the columns that were described.
pub(super) fn is_described(schema: &Schema, described: &[Column]) -> bool {
    schema.fields().len() == described.len()
        && schema.fields().iter().zip(described).all(|(field, column)| {
            *field.name() == column.name && field.data_type().to_string() == column.type_name
        })
}
