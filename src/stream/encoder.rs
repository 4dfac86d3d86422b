//! The formats side by side.

use rowstream_encode::{
    ArrowEncoder, BatchEncoder, CsvEncoder, Misfit, OptionsEncoder, RowEncoder, RowWriter, Value,
    ValueOptions,
};

use super::producer::Row;
use crate::Error;

/// What encodes the rows of one statement: chosen once, so that the loop over a row's values is
/// compiled for its format.
pub(crate) enum Encoder {
    /// JSON, NDJSON and JSON sequences.
    Json(RowEncoder),
    /// The same with values by options.
    ByOptions(OptionsEncoder),
    /// CSV.
    Csv(CsvEncoder),
    /// Arrow IPC.
    Arrow(Box<ArrowEncoder>),
    /// The same of rows that come as batches, and are written by [`Encoder::batch`].
    Batches(Box<BatchEncoder>),
}

impl Encoder {
    /// Writes what stands before the first row.
    pub(crate) fn start(&mut self, out: &mut Vec<u8>) {
        match self {
            Self::Json(encoder) => encoder.start(out),
            Self::ByOptions(encoder) => encoder.start(out),
            Self::Csv(encoder) => encoder.start(out),
            Self::Arrow(encoder) => encoder.start(out),
            Self::Batches(encoder) => encoder.start(out),
        }
    }

    /// Writes rows that have come as a message.
    ///
    /// # Errors
    /// Rows were to come one by one.
    pub(crate) fn batch(&mut self, rows: u64, message: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        match self {
            Self::Batches(encoder) => {
                encoder.batch(rows, message, out);
                Ok(())
            }
            _ => Err(Error::protocol("a batch came where rows were asked for")),
        }
    }

    /// Writes a row.
    ///
    /// # Errors
    /// A value that cannot be decoded, or that the format cannot hold; `out` then ends in half a
    /// row, which the caller removes, and nothing more may be written.
    #[inline]
    pub(crate) fn encode(&mut self, row: Row<'_>, out: &mut Vec<u8>) -> Result<(), Error> {
        match self {
            Self::Json(encoder) => row.encode(encoder, out),
            Self::ByOptions(encoder) => row.encode(encoder, out),
            Self::Csv(encoder) => row.encode(encoder, out),
            Self::Arrow(encoder) => {
                row.encode(&mut **encoder, out)?;
                self.check_row()
            }
            Self::Batches(_) => Err(Error::protocol("a row came where batches were asked for")),
        }
    }

    /// Checks that the format could hold the row that was written last; [`Encoder::encode`] does so
    /// itself.
    ///
    /// # Errors
    /// A value that it could not.
    pub(crate) fn check_row(&self) -> Result<(), Error> {
        match self {
            Self::Json(_) | Self::ByOptions(_) | Self::Csv(_) | Self::Batches(_) => Ok(()),
            Self::Arrow(encoder) => encoder.misfit().map_or(Ok(()), |misfit| Err(no_place(misfit))),
        }
    }

    /// Whether there are rows that have been taken and not written: those of a batch that is not
    /// full yet.
    pub(crate) fn holds_rows(&self) -> bool {
        match self {
            Self::Json(_) | Self::ByOptions(_) | Self::Csv(_) | Self::Batches(_) => false,
            Self::Arrow(encoder) => encoder.holds_rows(),
        }
    }

    /// Writes these rows.
    pub(crate) fn flush(&mut self, out: &mut Vec<u8>) {
        match self {
            Self::Json(_) | Self::ByOptions(_) | Self::Csv(_) | Self::Batches(_) => {}
            Self::Arrow(encoder) => encoder.flush(out),
        }
    }

    /// Writes what stands after the last row.
    pub(crate) fn finish(&mut self, out: &mut Vec<u8>) {
        match self {
            Self::Json(encoder) => encoder.finish(out),
            Self::ByOptions(encoder) => encoder.finish(out),
            Self::Csv(_) => {}
            Self::Arrow(encoder) => encoder.finish(out),
            Self::Batches(encoder) => encoder.finish(out),
        }
    }

    /// Rows begun so far.
    pub(crate) fn rows(&self) -> u64 {
        match self {
            Self::Json(encoder) => encoder.rows(),
            Self::ByOptions(encoder) => encoder.rows(),
            Self::Csv(encoder) => encoder.rows(),
            Self::Arrow(encoder) => encoder.rows(),
            Self::Batches(encoder) => encoder.rows(),
        }
    }
}

/// Were they taken and not written, an answer would end well without them.
const NO_ROWS: &str = "rows that come as batches are never written value by value";

/// Value by value, for whom [`Encoder::encode`] does not suit because a row has more than is
/// written. It is slower.
impl RowWriter for Encoder {
    fn begin_row(&mut self, out: &mut Vec<u8>) {
        match self {
            Self::Json(encoder) => encoder.begin_row(out),
            Self::ByOptions(encoder) => encoder.begin_row(out),
            Self::Csv(encoder) => encoder.begin_row(out),
            Self::Arrow(encoder) => encoder.begin_row(out),
            Self::Batches(_) => unreachable!("{NO_ROWS}"),
        }
    }

    fn value(&mut self, value: Value<'_>, out: &mut Vec<u8>) {
        match self {
            Self::Json(encoder) => encoder.value(value, out),
            Self::ByOptions(encoder) => encoder.value(value, out),
            Self::Csv(encoder) => encoder.value(value, out),
            Self::Arrow(encoder) => encoder.value(value, out),
            Self::Batches(_) => unreachable!("{NO_ROWS}"),
        }
    }

    fn end_row(&mut self, out: &mut Vec<u8>) {
        match self {
            Self::Json(encoder) => encoder.end_row(out),
            Self::ByOptions(encoder) => encoder.end_row(out),
            Self::Csv(encoder) => encoder.end_row(out),
            Self::Arrow(encoder) => encoder.end_row(out),
            Self::Batches(_) => unreachable!("{NO_ROWS}"),
        }
    }

    fn options(&self) -> ValueOptions {
        match self {
            Self::Json(encoder) => encoder.options(),
            Self::ByOptions(encoder) => encoder.options(),
            Self::Csv(encoder) => encoder.options(),
            Self::Arrow(encoder) => encoder.options(),
            Self::Batches(_) => unreachable!("{NO_ROWS}"),
        }
    }
}

#[cold]
fn no_place(misfit: &Misfit) -> Error {
    Error::bad_value(misfit.to_string()).hint("select it as text: `cast(… as text)`")
}
