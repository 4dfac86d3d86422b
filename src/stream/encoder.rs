//! The formats side by side.

use rowstream_core::Error;
use rowstream_encode::html::HtmlEncoder;
use rowstream_encode::{
    ArrowEncoder, BatchEncoder, CsvEncoder, Misfit, OptionsEncoder, RowEncoder, RowWriter, Value,
    ValueOptions,
};

use super::producer::Row;

/// The encoder for the rows of one statement. It's chosen once, so that the loop over a row's
/// values is compiled for its format.
pub(crate) enum Encoder {
    /// JSON, NDJSON and JSON sequences.
    Json(RowEncoder),
    /// The same, with options for values.
    ByOptions(OptionsEncoder),
    /// CSV.
    Csv(CsvEncoder),
    /// Arrow IPC.
    Arrow(Box<ArrowEncoder>),
    /// A table of a page for browsers.
    Html(Box<HtmlEncoder>),
    /// Arrow IPC for rows that arrive as batches. They're written by [`Encoder::batch`].
    Batches(Box<BatchEncoder>),
}

impl Encoder {
    /// Writes the bytes before the first row.
    pub(crate) fn start(&mut self, out: &mut Vec<u8>) {
        match self {
            Self::Json(encoder) => encoder.start(out),
            Self::ByOptions(encoder) => encoder.start(out),
            Self::Csv(encoder) => encoder.start(out),
            Self::Arrow(encoder) => encoder.start(out),
            Self::Html(encoder) => encoder.start(out),
            Self::Batches(encoder) => encoder.start(out),
        }
    }

    /// Writes rows that arrived as a message.
    ///
    /// # Errors
    /// The rows should have arrived one by one.
    pub(crate) fn batch(&mut self, rows: u64, message: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        match self {
            Self::Batches(encoder) => {
                encoder.batch(rows, message, out);
                Ok(())
            }
            _ => Err(Error::protocol("a batch arrived, but rows were expected")),
        }
    }

    /// Writes a row.
    ///
    /// # Errors
    /// A value can't be decoded, or has no form in the format. `out` then ends in half a row, which
    /// the caller removes, and nothing more may be written.
    #[inline]
    pub(crate) fn encode(&mut self, row: Row<'_>, out: &mut Vec<u8>) -> Result<(), Error> {
        match self {
            Self::Json(encoder) => row.encode(encoder, out),
            Self::ByOptions(encoder) => row.encode(encoder, out),
            Self::Csv(encoder) => row.encode(encoder, out),
            Self::Html(encoder) => row.encode(&mut **encoder, out),
            Self::Arrow(encoder) => {
                row.encode(&mut **encoder, out)?;
                self.check_row()
            }
            Self::Batches(_) => Err(Error::protocol("a row arrived, but batches were expected")),
        }
    }

    /// Checks that the format could express the row that was written last. [`Encoder::encode`] does
    /// this itself.
    ///
    /// # Errors
    /// It couldn't express one of the values.
    pub(crate) fn check_row(&self) -> Result<(), Error> {
        match self {
            Self::Json(_) | Self::ByOptions(_) | Self::Csv(_) | Self::Html(_) | Self::Batches(_) => Ok(()),
            Self::Arrow(encoder) => encoder.misfit().map_or(Ok(()), |misfit| Err(no_place(misfit))),
        }
    }

    /// True if it has collected rows that aren't written yet, because their batch isn't full.
    pub(crate) fn holds_rows(&self) -> bool {
        match self {
            Self::Json(_) | Self::ByOptions(_) | Self::Csv(_) | Self::Html(_) | Self::Batches(_) => false,
            Self::Arrow(encoder) => encoder.holds_rows(),
        }
    }

    /// Writes the collected rows.
    pub(crate) fn flush(&mut self, out: &mut Vec<u8>) {
        match self {
            Self::Json(_) | Self::ByOptions(_) | Self::Csv(_) | Self::Html(_) | Self::Batches(_) => {}
            Self::Arrow(encoder) => encoder.flush(out),
        }
    }

    /// Writes the bytes after the last row.
    pub(crate) fn finish(&mut self, out: &mut Vec<u8>) {
        match self {
            Self::Json(encoder) => encoder.finish(out),
            Self::ByOptions(encoder) => encoder.finish(out),
            Self::Csv(_) | Self::Html(_) => {}
            Self::Arrow(encoder) => encoder.finish(out),
            Self::Batches(encoder) => encoder.finish(out),
        }
    }

    /// The number of rows begun so far.
    pub(crate) fn rows(&self) -> u64 {
        match self {
            Self::Json(encoder) => encoder.rows(),
            Self::ByOptions(encoder) => encoder.rows(),
            Self::Csv(encoder) => encoder.rows(),
            Self::Arrow(encoder) => encoder.rows(),
            Self::Html(encoder) => encoder.rows(),
            Self::Batches(encoder) => encoder.rows(),
        }
    }
}

/// If it accepted rows without writing them, an answer without them would look complete.
const NO_ROWS: &str = "rows that arrive in batches are never written value by value";

/// Writes value by value, for callers that can't use [`Encoder::encode`] because the row has more
/// values than are written. It's slower.
impl RowWriter for Encoder {
    fn begin_row(&mut self, out: &mut Vec<u8>) {
        match self {
            Self::Json(encoder) => encoder.begin_row(out),
            Self::ByOptions(encoder) => encoder.begin_row(out),
            Self::Csv(encoder) => encoder.begin_row(out),
            Self::Arrow(encoder) => encoder.begin_row(out),
            Self::Html(encoder) => encoder.begin_row(out),
            Self::Batches(_) => unreachable!("{NO_ROWS}"),
        }
    }

    fn value(&mut self, value: Value<'_>, out: &mut Vec<u8>) {
        match self {
            Self::Json(encoder) => encoder.value(value, out),
            Self::ByOptions(encoder) => encoder.value(value, out),
            Self::Csv(encoder) => encoder.value(value, out),
            Self::Arrow(encoder) => encoder.value(value, out),
            Self::Html(encoder) => encoder.value(value, out),
            Self::Batches(_) => unreachable!("{NO_ROWS}"),
        }
    }

    fn end_row(&mut self, out: &mut Vec<u8>) {
        match self {
            Self::Json(encoder) => encoder.end_row(out),
            Self::ByOptions(encoder) => encoder.end_row(out),
            Self::Csv(encoder) => encoder.end_row(out),
            Self::Arrow(encoder) => encoder.end_row(out),
            Self::Html(encoder) => encoder.end_row(out),
            Self::Batches(_) => unreachable!("{NO_ROWS}"),
        }
    }

    fn options(&self) -> ValueOptions {
        match self {
            Self::Json(encoder) => encoder.options(),
            Self::ByOptions(encoder) => encoder.options(),
            Self::Csv(encoder) => encoder.options(),
            Self::Arrow(encoder) => encoder.options(),
            Self::Html(encoder) => encoder.options(),
            Self::Batches(_) => unreachable!("{NO_ROWS}"),
        }
    }
}

/// The error for a value that the format has no form for.
#[cold]
pub(super) fn no_place(misfit: &Misfit) -> Error {
    let hint = match misfit.data_type.starts_with("List") {
        true => "select it as JSON: `to_jsonb(…)`",
        false => "select it as text: `cast(… as text)`",
    };
    Error::bad_value(misfit.to_string()).hint(hint)
}
