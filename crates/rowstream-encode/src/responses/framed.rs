//! The records of a framed response, and the rows between them.
//!
//! A client takes the first line for a row or a record by its first bytes. So each row has to be a JSON
//! object, and each event has to contain one.

use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value as Json, json};

use super::StreamError;
use crate::{Column, Framing, ValueOptions};

const TAG: HeaderName = HeaderName::from_static("rowstream-tag");
const WIRE: HeaderName = HeaderName::from_static("rowstream-wire");
const RESUME: HeaderName = HeaderName::from_static("rowstream-resume");

/// The error for a row that a client couldn't tell from something else.
const OTHER_ROW: &str = "the rows of a framed response must be structs or maps, and its events have no names";

/// The records of one response.
pub(super) struct RecordWriter {
    framing: Framing,
    tag: String,
    columns: Json,
    /// No row is incomplete.
    at_start: bool,
}

impl RecordWriter {
    /// The records of a response whose rows have these columns.
    ///
    /// # Errors
    /// The system returns no random numbers.
    pub(super) fn new(framing: Framing, columns: &[Column]) -> Result<Self, StreamError> {
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(StreamError::no_randomness)?;
        let tag = format!("{:032x}", u128::from_ne_bytes(random));
        let describe = |column: &Column| {
            let word = column.type_word(ValueOptions::DEFAULT);
            json!({"name": column.name, "type": word})
        };
        let columns = columns.iter().map(describe).collect();
        Ok(Self { framing, tag, columns, at_start: true })
    }

    pub(super) fn add_headers(&self, headers: &mut HeaderMap) {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(self.framing.media_type()));
        headers.insert(WIRE, HeaderValue::from_static("1"));
        headers.insert(RESUME, HeaderValue::from_static("none"));
        // Hexadecimal digits are always a valid value.
        if let Ok(tag) = HeaderValue::from_str(&self.tag) {
            headers.insert(TAG, tag);
        }
    }

    /// Checks the `bytes` of a piece.
    ///
    /// # Errors
    /// They begin a row that isn't an object.
    pub(super) fn check(&mut self, bytes: &[u8]) -> Result<(), StreamError> {
        let Some(last) = bytes.last() else { return Ok(()) };
        if self.at_start && !begins_row(self.framing, bytes) {
            return Err(StreamError::unserialisable(OTHER_ROW));
        }
        self.at_start = *last == b'\n';
        Ok(())
    }

    /// Describes the columns, before the first row.
    pub(super) fn write_columns(&self, out: &mut Vec<u8>) {
        self.framing.write_record(&self.tag, "columns", &self.columns, false, out);
    }

    /// Writes the end after so many rows.
    pub(super) fn write_end(&self, rows: u64, digest: Option<&str>, out: &mut Vec<u8>) {
        let mut end = json!({"rows": rows});
        if let Some(digest) = digest {
            end["digest"] = digest.into();
        }
        self.framing.write_record(&self.tag, "end", &end, false, out);
    }

    /// Writes the error that aborts the response. Its cause isn't for clients.
    pub(super) fn write_error(&self, error: &StreamError, out: &mut Vec<u8>) {
        let members =
            json!({"status": 500, "detail": error.to_string(), "code": "stream_failed", "retry": false});
        self.framing.write_record(&self.tag, "error", &members, !self.at_start, out);
    }
}

fn begins_row(framing: Framing, bytes: &[u8]) -> bool {
    let Framing::Events = framing else { return bytes.starts_with(b"{") };
    let is_comment = bytes.starts_with(b":");
    let data = match bytes.strip_prefix(b"id: ") {
        Some(rest) => rest.iter().position(|&byte| byte == b'\n').map_or(rest, |end| &rest[end + 1..]),
        None => bytes,
    };
    is_comment || data.starts_with(b"data: {")
}
