//! The cursors of rows, gathered while they are encoded.

use http::StatusCode;
use rowstream_encode::{Column, RowWriter, Value, ValueOptions, write_value};

use super::open::Tail;
use super::producer::Row;
use crate::Error;
use crate::by_column::{ByColumn, Counted};
use crate::completeness::page::PageEnd;
use crate::cursor::Signer;
use crate::stream::encoder::Encoder;

/// What to do about rows whose key has a NULL.
const LEAVE_OUT: &str = "leave such rows out (`where … is not null`), or take another key";

/// The same where it may also be of a transaction that was not this server's.
const FOREIGN: &str = "rows that came from another server, by a restored dump or by replication, have its transactions: give them one of this \
     server's, `update … set tx = pg_current_xact_id()`";

/// Gathers the key of each row, from which a stream can be resumed after it. The key's values
/// stand after the columns of the result, and are not written.
pub(super) struct Cursors {
    signer: Signer,
    /// The names of the key's columns.
    names: Vec<String>,
    /// Columns of the result.
    columns: usize,
    /// An infinite number as the database reads it.
    infinity: Option<&'static str>,
    /// The values of the row that came last, as a JSON array; empty before the first row.
    key: Vec<u8>,
    /// Whether each row ends in its cursor, as the id of an event.
    ids: bool,
    /// How many rows there are at most, if that is known.
    page: Option<u64>,
    has_limit: bool,
}

impl Cursors {
    /// Splits the columns of a statement into those of the result and those of the key.
    ///
    /// # Errors
    /// The key names none of the result's.
    pub(super) fn new<'a>(
        tail: &Tail<'_>,
        columns: &'a [Column],
        ids: bool,
    ) -> Result<(Self, &'a [Column]), Error> {
        let Tail { key, page, .. } = *tail;
        let names: Vec<_> = key.columns.iter().map(|column| column.name.clone()).collect();
        key.check_order(columns)?;
        let (columns, _) = columns.split_at(columns.len().saturating_sub(names.len()));
        key.check(columns)?;
        let (signer, has_limit) = (tail.signer.clone(), key.has_limit());
        let infinity = key.infinity;
        let key = Vec::new();
        Ok((Self { signer, names, columns: columns.len(), infinity, key, ids, page, has_limit }, columns))
    }

    /// Encodes a row.
    ///
    /// # Errors
    /// Those of [`Encoder::encode`], and a key that is NULL or is no text and no number.
    pub(super) fn encode(
        &mut self,
        encoder: &mut Encoder,
        row: Row<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        self.gather(encoder, row, out)?;
        encoder.check_row()?;
        if self.ids {
            // The event's last line is open again.
            out.pop();
            out.extend_from_slice(b"id: ");
            self.signer.seal(&self.key, out);
            out.extend_from_slice(b"\n\n");
        }
        Ok(())
    }

    /// Keeps the key of a row that was written with others.
    ///
    /// # Errors
    /// Those of [`Cursors::encode`].
    pub(super) fn keep(&mut self, row: Row<'_>) -> Result<(), Error> {
        self.gather(&mut Nowhere, row, &mut Vec::new())
    }

    fn gather(&mut self, encoder: &mut impl RowWriter, row: Row<'_>, out: &mut Vec<u8>) -> Result<(), Error> {
        let (columns, infinity) = (self.columns, self.infinity);
        let gathering = Gathering { columns, infinity, key: &mut self.key, misfit: None, encoder };
        let mut gathering = Counted::new(gathering);
        row.encode(&mut gathering, out)?;
        match gathering.into_taker().misfit {
            Some((index, misfit)) => Err(misfit.error(&self.names[index])),
            None => Ok(()),
        }
    }

    /// There is a row that would be left out; of the rows of a statement that `committed_only`, one
    /// may also be from another server.
    #[cold]
    pub(super) fn left_out(statement: &str, committed_only: bool) -> Error {
        let (which, hint) = match committed_only {
            false => ("NULL in its key", LEAVE_OUT),
            true => ("NULL in its key, or with a transaction that this server has yet to begin", FOREIGN),
        };
        Error::endpoint(format!("statement `{statement}` has a row with {which}: no cursor leads to it"))
            .hint(hint)
    }

    /// The list is to begin after a row that the database is yet to write.
    #[cold]
    pub(super) fn ahead() -> Error {
        let message = "the cursor is of a row that this database is yet to write";
        Error::new("cursor_ahead", StatusCode::GONE, message).hint(
            "its keys restarted: by a backup that was restored, a failover, or `restart identity`. Read from the beginning, \
             without a cursor",
        )
    }

    /// Whether the statement's limit may have kept others back after so many rows.
    pub(super) fn may_have_more(&self, rows: u64) -> bool {
        match self.page {
            Some(page) => PageEnd::of(page, rows) == Some(PageEnd::Full),
            None => self.has_limit && rows > 0,
        }
    }

    /// The cursor of the row that came last; `None` before the first one.
    pub(super) fn last(&self) -> Option<String> {
        if self.key.is_empty() {
            return None;
        }
        let mut cursor = Vec::new();
        self.signer.seal(&self.key, &mut cursor);
        String::from_utf8(cursor).ok()
    }
}

/// Why a value cannot be a part of a key.
#[derive(Debug, Clone, Copy)]
enum Misfit {
    Null,
    Infinite,
    Kind,
}

impl Misfit {
    #[cold]
    fn error(self, column: &str) -> Error {
        match self {
            Self::Null => {
                Error::endpoint(format!("a row has NULL in `{column}`, which is a column of the key"))
                    .hint(LEAVE_OUT)
            }
            Self::Infinite => {
                let message =
                    format!("a row has an infinite number in `{column}`, which is a column of the key");
                Error::endpoint(message).hint("leave such rows out, or take another key")
            }
            Self::Kind => {
                Error::endpoint(format!("a row has bytes in `{column}`, which is a column of the key"))
                    .hint("take a key of texts or numbers")
            }
        }
    }
}

/// Writes nothing.
struct Nowhere;

impl RowWriter for Nowhere {
    fn begin_row(&mut self, _out: &mut Vec<u8>) {}

    fn value(&mut self, _value: Value<'_>, _out: &mut Vec<u8>) {}

    fn end_row(&mut self, _out: &mut Vec<u8>) {}

    fn options(&self) -> ValueOptions {
        ValueOptions::DEFAULT
    }
}

/// Hands the values of the result to the encoder, and keeps those of the key.
struct Gathering<'a, E> {
    encoder: &'a mut E,
    columns: usize,
    infinity: Option<&'static str>,
    key: &'a mut Vec<u8>,
    misfit: Option<(usize, Misfit)>,
}

impl<E> Gathering<'_, E> {
    fn keep(&mut self, index: usize, value: Value<'_>) {
        self.key.push(if index == 0 { b'[' } else { b',' });
        match value {
            Value::Text(_) | Value::Int(_) | Value::Int4(_) | Value::Number(_) => {
                write_value(value, self.key);
            }
            Value::Date(_) | Value::Time(_) | Value::Timestamp(_) => write_value(value, self.key),
            // Sessions are in UTC, so a zone says nothing; and not every database reads one.
            Value::TimestampTz(micros) => write_value(Value::Timestamp(micros), self.key),
            // All digits: compared with the shortest ones, the column itself could be greater.
            Value::Float4(float) if float.is_finite() => write_value(Value::Float(float.into()), self.key),
            Value::Float(float) | Value::Real(float) if float.is_finite() => write_value(value, self.key),
            Value::Float(float) | Value::Real(float)
                if let Some(infinity) = self.infinity.filter(|_| float.is_infinite()) =>
            {
                let sign = if float < 0.0 { "-" } else { "" };
                self.key.extend_from_slice(sign.as_bytes());
                self.key.extend_from_slice(infinity.as_bytes());
            }
            Value::Float(_) | Value::Float4(_) => self.misfit = Some((index, Misfit::Infinite)),
            Value::Null => self.misfit = Some((index, Misfit::Null)),
            _ => self.misfit = Some((index, Misfit::Kind)),
        }
    }
}

impl<E: RowWriter> ByColumn for Gathering<'_, E> {
    fn begin(&mut self, out: &mut Vec<u8>) {
        self.key.clear();
        self.encoder.begin_row(out);
    }

    #[inline]
    fn value(&mut self, column: usize, value: Value<'_>, out: &mut Vec<u8>) {
        match column.checked_sub(self.columns) {
            None => self.encoder.value(value, out),
            Some(index) => self.keep(index, value),
        }
    }

    fn end(&mut self, _columns: usize, out: &mut Vec<u8>) {
        self.key.push(b']');
        self.encoder.end_row(out);
    }

    fn options(&self) -> ValueOptions {
        self.encoder.options()
    }
}
