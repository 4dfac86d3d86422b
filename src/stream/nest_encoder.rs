//! The formats of nested rows.
//!
//! A row is encoded when it's read, and placed in its list when its parent's row is open. Until then,
//! JSON keeps its bytes, and Arrow keeps it behind the other rows of its columns.

use http::StatusCode;
use rowstream_core::Error;
use rowstream_encode::{ListEncoder, NestedArrowEncoder, NestedMisfit, OptionsEncoder};

use super::encoder::no_place;
use super::key::KeyedRow;

/// The memory that a row's buffer keeps, in bytes. If a row needed more, the rest is freed.
const KEPT: usize = 16 * 1024;

/// The remedy for lists that are too long for Arrow.
const TOO_LONG: &str = "request `ndjson` if the endpoint offers it, because its lists have no bound; or nest \
     fewer rows, or raise `max_row_bytes` of the source";

/// The encoder of a statement and those nested in it. Each is named by its level.
pub(super) enum NestEncoder {
    /// JSON, NDJSON, JSON sequences and events.
    Json(Vec<JsonLevel>),
    /// Arrow IPC.
    Arrow(Box<NestedArrowEncoder>),
}

/// One statement in JSON.
pub(super) struct JsonLevel {
    encoder: OptionsEncoder,
    list: ListEncoder,
    /// The next row.
    row: Vec<u8>,
}

impl JsonLevel {
    pub(super) fn new(list: ListEncoder, encoder: OptionsEncoder) -> Self {
        Self { encoder, list, row: Vec::new() }
    }
}

impl NestEncoder {
    /// Encodes the next row of a level.
    ///
    /// # Errors
    /// A value can't be decoded, or has no form in the format.
    pub(super) fn read(&mut self, level: usize, row: KeyedRow<'_>) -> Result<(), Error> {
        match self {
            Self::Json(levels) => {
                let JsonLevel { encoder, row: bytes, .. } = &mut levels[level];
                bytes.clear();
                bytes.shrink_to(KEPT);
                row.encode(encoder, bytes)
            }
            Self::Arrow(encoder) => {
                row.encode(encoder.level(level), &mut Vec::new())?;
                encoder.misfit(level).map_or(Ok(()), |misfit| Err(error(&misfit)))
            }
        }
    }

    /// Writes the bytes before the first row.
    pub(super) fn start(&mut self, out: &mut Vec<u8>) {
        match self {
            Self::Json(levels) => levels[0].list.start(out),
            Self::Arrow(encoder) => encoder.start(out),
        }
    }

    /// Begins a list in the open row.
    pub(super) fn begin_list(&mut self, level: usize, out: &mut Vec<u8>) {
        match self {
            Self::Json(levels) => levels[level].list.start(out),
            Self::Arrow(_) => {}
        }
    }

    /// Places the next row in its list. It stays open.
    ///
    /// # Errors
    /// The format has a bound for lists.
    pub(super) fn place(&mut self, level: usize, out: &mut Vec<u8>) -> Result<(), Error> {
        match self {
            Self::Json(levels) => {
                let JsonLevel { list, row, .. } = &mut levels[level];
                list.row(row, out);
                Ok(())
            }
            Self::Arrow(encoder) => encoder.place(level).map_err(|misfit| error(&misfit)),
        }
    }

    /// Ends the open row of a level.
    pub(super) fn end_row(&mut self, level: usize, out: &mut Vec<u8>) {
        match self {
            Self::Json(levels) => levels[level].list.end_row(out),
            Self::Arrow(encoder) if level == 0 => encoder.end_row(out),
            Self::Arrow(_) => {}
        }
    }

    /// Ends a list in the open row.
    ///
    /// # Errors
    /// The format has a bound for lists.
    pub(super) fn end_list(&mut self, level: usize, out: &mut Vec<u8>) -> Result<(), Error> {
        match self {
            Self::Json(levels) => {
                levels[level].list.finish(out);
                Ok(())
            }
            Self::Arrow(encoder) => encoder.end_list(level).map_err(|misfit| error(&misfit)),
        }
    }

    /// Writes the bytes after the last row.
    ///
    /// # Errors
    /// A row doesn't fit, so the response has no end.
    pub(super) fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), Error> {
        match self {
            Self::Json(levels) => {
                levels[0].list.finish(out);
                Ok(())
            }
            Self::Arrow(encoder) => encoder.finish(out).map_err(|misfit| error(&misfit)),
        }
    }

    /// The placed rows of a level.
    pub(super) fn rows(&self, level: usize) -> u64 {
        match self {
            Self::Json(levels) => levels[level].list.rows(),
            Self::Arrow(encoder) => encoder.rows(level),
        }
    }

    /// True if a row is written before its lists end.
    pub(super) fn writes_open_rows(&self) -> bool {
        matches!(self, Self::Json(_))
    }

    /// True if complete rows aren't written yet.
    pub(super) fn holds_rows(&self) -> bool {
        match self {
            Self::Json(_) => false,
            Self::Arrow(encoder) => encoder.holds_rows(),
        }
    }

    /// Writes the complete rows.
    pub(super) fn flush(&mut self, out: &mut Vec<u8>) {
        match self {
            Self::Json(_) => {}
            Self::Arrow(encoder) => encoder.flush(out),
        }
    }
}

#[cold]
fn error(misfit: &NestedMisfit) -> Error {
    match misfit {
        NestedMisfit::Value(misfit) => no_place(misfit),
        NestedMisfit::TooLong { .. } => {
            Error::new("row_too_large", StatusCode::INTERNAL_SERVER_ERROR, misfit.to_string()).hint(TOO_LONG)
        }
    }
}
