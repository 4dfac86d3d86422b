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

use arrow_schema::{ArrowError, Schema};
use rowstream_core::Error;
use rowstream_database::{DatabaseRow, RowLayout};
use rowstream_encode::{Column, RowWriter};

pub(crate) use self::arguments::{Argument, argument};
pub(crate) use self::batches::{Pieces, piece, sent_schema};
#[cfg(any(feature = "adbc", feature = "flight"))]
pub(crate) use self::bind::batch;
pub(crate) use self::columns::Columns;
#[cfg(feature = "adbc")]
pub(crate) use self::values::BIGNUM;
#[cfg(feature = "odbc")]
pub(crate) use self::values::JSON;
#[cfg(feature = "worker")]
pub(crate) use self::values::KIND;
#[cfg(feature = "odbc")]
pub(crate) use self::values::NUMBER;
pub(crate) use self::values::column;

/// A packed row.
pub struct Row<'a> {
    values: &'a [u8],
    columns: usize,
}

impl<'a> Row<'a> {
    /// A row that [`Columns::pack`] has packed.
    #[inline]
    pub fn new(values: &'a [u8], columns: usize) -> Self {
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

/// Calls Arrow's reader, which panics on some bytes whose lengths are wrong.
///
/// # Errors
/// The reader failed or panicked.
pub(crate) fn checked<T>(read: impl FnOnce() -> Result<T, ArrowError>) -> Result<T, ArrowError> {
    let panicked = |_| Err(ArrowError::IpcError("its lengths don't match its values".to_owned()));
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(panicked)
}

/// Returns true if a received schema has the columns that were described.
pub(crate) fn is_described(schema: &Schema, described: &[Column]) -> bool {
    schema.fields().len() == described.len()
        && schema.fields().iter().zip(described).all(|(field, column)| {
            *field.name() == column.name && values::type_name(field) == column.type_name
        })
}
