//! The cursors of rows, collected while the rows are encoded.

use std::io::Write as _;

use http::StatusCode;
use rowstream_core::Error;
use rowstream_core::cursor::{KeyTypes, Signer};
use rowstream_core::params::INFINITY;
use rowstream_core::sql::dialect::Infinities;
use rowstream_encode::{Column, RowWriter, Value, ValueOptions, write_value};
use rowstream_upstream::by_column::{ColumnCounter, ColumnWriter};

use super::open::Tail;
use super::producer::Row;
use crate::completeness::page::PageEnd;
use crate::database::RowPlace;
use crate::endpoint::{KeyColumn, KeyNulls, Shards};
use crate::stream::encoder::Encoder;

/// The hint for rows that have a NULL in their key.
const LEAVE_OUT: &str = "leave such rows out (`where … is not null`), or use another key";

/// The hint for rows whose transaction may be another server's.
const FOREIGN: &str = "rows from another server (a restored dump, or replication) keep its transaction \
    numbers: give them one of this server's with `update … set tx = pg_current_xact_id()`";

/// Collects the key of each row, so that a stream can be resumed after it. The key's values follow
/// the columns of the result, and aren't written.
pub(super) struct Cursors {
    signer: Signer,
    types: KeyTypes,
    /// The names of the key's columns, and if they may be NULL.
    names: Vec<(String, bool)>,
    /// The number of the result's columns.
    columns: usize,
    /// The form of infinite numbers in a key.
    infinities: Infinities,
    /// The key of the last row, as a JSON array; empty before the first row.
    key: Vec<u8>,
    /// True if each row ends with its cursor, as the id of an event.
    ids: bool,
    /// How many rows of the list the client has already.
    before: u64,
    /// True if cursors within the list contain the number of rows before them.
    counts_rows: bool,
    /// The largest possible number of rows, if it's known.
    page: Option<u64>,
    has_limit: bool,
    order: KeyOrder,
}

/// The order that the rows have by their keys.
enum KeyOrder {
    /// That of an endpoint's key, which the database sorts by.
    Sorted,
    /// That of the places in a shard, with the last row's place. No row follows the last one.
    Places(Option<RowPlace>),
}

impl Cursors {
    /// Splits the columns of a shard's statement into those of the result and the place of each
    /// row.
    pub(super) fn of_shard(signer: Signer, columns: &[Column]) -> (Self, &[Column]) {
        let (columns, _) = columns.split_at(columns.len().saturating_sub(1));
        let cursors = Self {
            signer,
            types: Shards::place_type(),
            names: vec![("rowstream_place".to_owned(), false)],
            columns: columns.len(),
            infinities: Infinities::Refused,
            key: Vec::new(),
            ids: false,
            before: 0,
            counts_rows: false,
            page: None,
            has_limit: false,
            order: KeyOrder::Places(None),
        };
        (cursors, columns)
    }

    /// Splits the columns of a statement into those of the result and those of the key.
    ///
    /// # Errors
    /// The key names a column that the result doesn't have, or the request's cursor is for a key of
    /// other types.
    pub(super) fn new<'a>(
        tail: &Tail<'_>,
        columns: &'a [Column],
        ids: bool,
    ) -> Result<(Self, &'a [Column]), Error> {
        let Tail { key, page, before, counts_rows, .. } = *tail;
        let name = |column: &KeyColumn| (column.name.clone(), column.nulls != KeyNulls::Refused);
        let names: Vec<_> = key.columns.iter().map(name).collect();
        key.check_order(columns)?;
        let (columns, _) = columns.split_at(columns.len().saturating_sub(names.len()));
        key.check(columns)?;
        let cursors = Self {
            signer: tail.signer.clone(),
            types: tail.key_types(columns)?,
            names,
            columns: columns.len(),
            infinities: key.infinities,
            key: Vec::new(),
            ids,
            before,
            counts_rows,
            page,
            has_limit: key.has_limit(),
            order: KeyOrder::Sorted,
        };
        Ok((cursors, columns))
    }

    /// Encodes a row.
    ///
    /// # Errors
    /// Those of [`Encoder::encode`], and an error for a key that is NULL or neither a text nor a
    /// number.
    pub(super) fn encode(
        &mut self,
        encoder: &mut Encoder,
        row: Row<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        self.gather(encoder, row, out)?;
        encoder.check_row()?;
        self.end_event(encoder.rows(), out);
        Ok(())
    }

    /// Adds the cursor to the event of the row that was encoded last, if events have cursors.
    pub(super) fn end_event(&self, rows: u64, out: &mut Vec<u8>) {
        if self.ids {
            // This opens the event's last line again.
            out.pop();
            out.extend_from_slice(b"id: ");
            self.seal_within(rows, out);
            out.extend_from_slice(b"\n\n");
        }
    }

    /// Keeps the key of a row that was written as part of a batch.
    ///
    /// # Errors
    /// Those of [`Cursors::encode`].
    pub(super) fn keep(&mut self, row: Row<'_>) -> Result<(), Error> {
        self.gather(&mut NullWriter, row, &mut Vec::new())
    }

    /// Encodes a row with `encoder`, and keeps its key.
    fn gather(&mut self, encoder: &mut impl RowWriter, row: Row<'_>, out: &mut Vec<u8>) -> Result<(), Error> {
        self.gather_with(encoder, out, |encoder, out| row.encode(encoder, out))
    }

    /// The same for a row that `encode` encodes.
    ///
    /// # Errors
    /// Those of [`Cursors::encode`].
    pub(super) fn gather_with<E: RowWriter>(
        &mut self,
        encoder: &mut E,
        out: &mut Vec<u8>,
        encode: impl FnOnce(&mut ColumnCounter<KeyGatherer<'_, E>>, &mut Vec<u8>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (columns, infinities) = (self.columns, self.infinities);
        let (key, names) = (&mut self.key, &*self.names);
        let gathering = KeyGatherer { columns, infinities, key, names, misfit: None, encoder };
        let mut gathering = ColumnCounter::new(gathering);
        encode(&mut gathering, out)?;
        match gathering.into_taker().misfit {
            Some((index, misfit)) => Err(misfit.error(&self.names[index].0, self.names[index].1)),
            None => self.check_place(),
        }
    }

    /// Checks that the row of a shard has a later place than the one before it.
    fn check_place(&mut self) -> Result<(), Error> {
        let KeyOrder::Places(last) = &mut self.order else { return Ok(()) };
        let place =
            serde_json::from_slice(&self.key).ok().and_then(|[place]: [&str; 1]| RowPlace::read(place));
        if place <= *last {
            return Err(Error::endpoint(
                "the rows of the shard arrived in another order than that of the table",
            )
            .hint("request the shard without `_end=1`: then it has no cursors, and may have any order"));
        }
        *last = place;
        Ok(())
    }

    /// The error for a row that the list would leave out. If the statement is `committed_only`, the
    /// row may also be from another server.
    #[cold]
    pub(super) fn left_out(statement: &str, committed_only: bool) -> Error {
        let (which, hint) = match committed_only {
            false => ("NULL in its key", LEAVE_OUT),
            true => ("NULL in its key, or with a transaction that this server hasn't begun yet", FOREIGN),
        };
        Error::endpoint(format!("statement `{statement}` has a row with {which}, so no cursor can reach it"))
            .hint(hint)
    }

    /// The error for a list that should begin after a row that the database hasn't written yet.
    #[cold]
    pub(super) fn ahead() -> Error {
        let message = "the cursor points to a row that this database hasn't written yet";
        Error::new("cursor_ahead", StatusCode::GONE, message).hint(
            "its keys restarted, because of a restored backup, a failover or `restart identity`. Read from the beginning, without a cursor",
        )
    }

    /// True if the statement's limit may have cut off the rows after these.
    pub(super) fn may_have_more(&self, rows: u64) -> bool {
        match self.page {
            Some(page) => self.page_end(page, rows) == Some(PageEnd::Full),
            None => self.has_limit && rows > 0,
        }
    }

    /// The end of a list of at most `page` rows, after these.
    pub(super) fn page_end(&self, page: u64, rows: u64) -> Option<PageEnd> {
        PageEnd::of(page, self.before.saturating_add(rows))
    }

    /// The cursor that begins a new page after the last row; `None` before the first one, and if
    /// there are no pages.
    pub(super) fn at_end(&self) -> Option<String> {
        match self.order {
            KeyOrder::Sorted => self.sealed(|out| self.signer.seal_end(self.types, &self.key, out)),
            KeyOrder::Places(_) => None,
        }
    }

    /// The cursor that continues the list after these rows; `None` before the first one.
    pub(super) fn within(&self, rows: u64) -> Option<String> {
        self.sealed(|out| self.seal_within(rows, out))
    }

    fn seal_within(&self, rows: u64, out: &mut Vec<u8>) {
        match self.counts_rows {
            true => self.signer.seal_within(self.types, self.before.saturating_add(rows), &self.key, out),
            false => self.signer.seal_end(self.types, &self.key, out),
        }
    }

    fn sealed(&self, seal: impl FnOnce(&mut Vec<u8>)) -> Option<String> {
        if self.key.is_empty() {
            return None;
        }
        let mut cursor = Vec::new();
        seal(&mut cursor);
        String::from_utf8(cursor).ok()
    }
}

/// The reason why a value can't be part of a key.
#[derive(Debug, Clone, Copy)]
enum Misfit {
    Null,
    Infinite,
    Kind,
}

impl Misfit {
    #[cold]
    fn error(self, column: &str, is_requested: bool) -> Error {
        match self {
            // Only a column that a request sorts by may be NULL.
            Self::Infinite | Self::Kind if is_requested => {
                let why = format!(
                    "a row has bytes, a list, JSON or an infinite number in `{column}`, which a page can't be sorted by"
                );
                Error::invalid_parameters(vec![("order".to_owned(), why)])
            }
            Self::Null => {
                Error::endpoint(format!("a row has NULL in `{column}`, which is a column of the key"))
                    .hint(LEAVE_OUT)
            }
            Self::Infinite => {
                let message =
                    format!("a row has an infinite number in `{column}`, which is a column of the key");
                Error::endpoint(message).hint("leave such rows out, or use another key")
            }
            Self::Kind => Error::endpoint(format!(
                "a row has bytes, a list or JSON in `{column}`, which is a column of the key"
            ))
            .hint("use a key of texts or numbers"),
        }
    }
}

/// Writes nothing.
struct NullWriter;

impl RowWriter for NullWriter {
    fn begin_row(&mut self, _out: &mut Vec<u8>) {}

    fn value(&mut self, _value: Value<'_>, _out: &mut Vec<u8>) {}

    fn end_row(&mut self, _out: &mut Vec<u8>) {}

    fn options(&self) -> ValueOptions {
        ValueOptions::DEFAULT
    }
}

/// Passes the values of the result to the encoder, and keeps those of the key.
pub(super) struct KeyGatherer<'a, E> {
    encoder: &'a mut E,
    columns: usize,
    infinities: Infinities,
    key: &'a mut Vec<u8>,
    names: &'a [(String, bool)],
    misfit: Option<(usize, Misfit)>,
}

impl<E> KeyGatherer<'_, E> {
    fn keep(&mut self, index: usize, value: Value<'_>) {
        self.key.push(if index == 0 { b'[' } else { b',' });
        match value {
            Value::Text(_) | Value::Int(_) | Value::Int4(_) | Value::Number(_) => {
                write_value(value, self.key);
            }
            Value::Date(_) | Value::Timestamp(_) => keep_time(value, self.key),
            Value::Time(_) => write_value(value, self.key),
            Value::Bool(_) => write_value(value, self.key),
            // Sessions are in UTC, so a zone would add nothing, and some databases don't read one.
            Value::TimestampTz(micros) => keep_time(Value::Timestamp(micros), self.key),
            // All digits are needed: the column itself could be greater than its shortest form.
            Value::Float4(float) if float.is_finite() => keep_float(float.into(), self.key),
            Value::Float(float) | Value::Real(float) if float.is_finite() => keep_float(float, self.key),
            Value::Float4(float) if float.is_infinite() && self.infinities != Infinities::Refused => {
                keep_infinity(float.into(), self.key);
            }
            Value::Float(float) | Value::Real(float)
                if float.is_infinite() && self.infinities != Infinities::Refused =>
            {
                keep_infinity(float, self.key);
            }
            // NaN.
            Value::Float(_) | Value::Float4(_) if self.infinities == Infinities::Texts => {
                write_value(value, self.key);
            }
            Value::Float(_) | Value::Float4(_) => self.misfit = Some((index, Misfit::Infinite)),
            Value::Null if self.names[index].1 => write_value(value, self.key),
            Value::Null => self.misfit = Some((index, Misfit::Null)),
            _ => self.misfit = Some((index, Misfit::Kind)),
        }
    }
}

/// Keeps a float with an exponent, so that it's bound as a float: as a decimal, some databases convert it to a
/// slightly different one.
fn keep_float(float: f64, key: &mut Vec<u8>) {
    write!(key, "{float:e}").expect("a vector takes everything");
}

fn keep_infinity(float: f64, key: &mut Vec<u8>) {
    let sign = if float < 0.0 { "-" } else { "" };
    write!(key, "{sign}{INFINITY}").expect("a vector takes everything");
}

/// The end of a time before the year 1.
const BEFORE_CHRIST: &[u8] = b" BC\"";

/// Writes a time with its year as ISO 8601 has it. DuckDB reads `0044-03-15 BC` without its era.
fn keep_time(value: Value<'_>, key: &mut Vec<u8>) {
    let start = key.len();
    write_value(value, key);
    if key.ends_with(BEFORE_CHRIST) {
        number_year(start + 1, key);
    }
}

/// Replaces the year at `start` and its era by a number: 1 BC is 0, and 44 BC is -43.
#[cold]
fn number_year(start: usize, key: &mut Vec<u8>) {
    key.truncate(key.len() - BEFORE_CHRIST.len());
    let digits = key[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let year = key[start..start + digits].iter().fold(0, |year, digit| year * 10 + i64::from(digit - b'0'));
    let sign = if year > 1 { "-" } else { "" };
    key.splice(start..start + digits, format!("{sign}{:04}", year - 1).into_bytes());
    key.push(b'"');
}

impl<E: RowWriter> ColumnWriter for KeyGatherer<'_, E> {
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
