//! The formats side by side.

use rowstream_encode::{CsvEncoder, OptionsEncoder, RowEncoder};

use crate::Error;
use crate::source::Row;

/// What encodes the rows of one statement: chosen once, so that the loop over a row's values is compiled for its format.
pub(crate) enum Encoder {
    /// JSON, NDJSON and JSON sequences.
    Json(RowEncoder),
    /// The same with values by options.
    ByOptions(OptionsEncoder),
    /// CSV.
    Csv(CsvEncoder),
}

impl Encoder {
    /// Writes what stands before the first row.
    pub(crate) fn start(&mut self, out: &mut Vec<u8>) {
        match self {
            Self::Json(encoder) => encoder.start(out),
            Self::ByOptions(encoder) => encoder.start(out),
            Self::Csv(encoder) => encoder.start(out),
        }
    }

    /// Writes a row.
    ///
    /// # Errors
    /// A value that cannot be decoded; `out` then ends in half a row, which the caller removes.
    #[inline]
    pub(crate) fn encode(&mut self, row: Row<'_>, out: &mut Vec<u8>) -> Result<(), Error> {
        match self {
            Self::Json(encoder) => row.encode(encoder, out),
            Self::ByOptions(encoder) => row.encode(encoder, out),
            Self::Csv(encoder) => row.encode(encoder, out),
        }
    }

    /// Writes what stands after the last row.
    pub(crate) fn finish(&mut self, out: &mut Vec<u8>) {
        match self {
            Self::Json(encoder) => encoder.finish(out),
            Self::ByOptions(encoder) => encoder.finish(out),
            Self::Csv(_) => {}
        }
    }

    /// Rows begun so far.
    pub(crate) fn rows(&self) -> u64 {
        match self {
            Self::Json(encoder) => encoder.rows(),
            Self::ByOptions(encoder) => encoder.rows(),
            Self::Csv(encoder) => encoder.rows(),
        }
    }
}
