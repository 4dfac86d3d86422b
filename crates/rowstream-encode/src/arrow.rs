//! Rows as an Arrow IPC stream (Apache Arrow, "Columnar Format", "IPC Streaming Format"): the
//! schema, record batches, the end.
//!
//! Columns have types here, so a value may not fit ([`Misfit`]). Then the stream gets no end, and
//! no byte of that row is written. Rows are turned into columns as they arrive, and wait in the
//! open batch until it's full, or until [`ArrowEncoder::flush`]. There are no dictionaries and no
//! compression, so a reader needs only the current batch. A library writes the messages around the
//! columns' bytes. We don't use its arrays, because they would be allocated for each batch and
//! copied twice.

mod array;
mod batches;
mod column;
mod decimal;
mod element;
mod level;
mod list;
mod message;
mod nested;
mod times;

use std::fmt;

use flatbuffers::FlatBufferBuilder;

use crate::rows::RowWriter;
use crate::{Column, ColumnKind, Value};
use column::ColumnArray;

pub use batches::BatchEncoder;
pub use decimal::units as decimal_units;
pub use level::ArrowLevel;
pub use nested::{NestedArrowEncoder, NestedColumns, NestedMisfit};

/// The size of a full batch in bytes. Each stream briefly holds one twice. Measured: pyarrow and
/// polars read a million rows 5 to 8 ms sooner in batches of 1 MiB, and 40 to 80 ms later in
/// batches of 8 KiB.
const BATCH: usize = 64 * 1024;
/// The size of the first batch, which is smaller so that the first byte leaves early. Each later
/// batch is twice the size of the one before.
const FIRST_BATCH: usize = 4 * 1024;

/// Writes the rows of one statement as an Arrow IPC stream.
///
/// The calls are those of [`crate::RowEncoder`]. After each `end_row`, check
/// [`ArrowEncoder::misfit`]. Once it returns a value, no call writes anything.
pub struct ArrowEncoder {
    columns: Box<[Column]>,
    /// The columns of the open batch.
    arrays: Box<[ColumnArray]>,
    /// The rows of the open batch.
    waiting: usize,
    /// The size in bytes of a full batch.
    full: usize,
    rows: u64,
    /// The column of the next value.
    column: usize,
    /// The most bytes of the lists of a row, and those that are left for the open row.
    longest_lists: usize,
    room: usize,
    misfit: Option<Misfit>,
    metadata: FlatBufferBuilder<'static>,
}

/// A value that doesn't fit the Arrow type of its column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Misfit {
    /// The column's name.
    pub column: String,
    /// A description of the value.
    pub value: &'static str,
    /// The column's type in Arrow.
    pub data_type: String,
}

impl Misfit {
    fn of(Column { name, kind, .. }: &Column, array: &ColumnArray, value: Value<'_>) -> Self {
        Self {
            column: name.clone(),
            value: array.misfit().unwrap_or_else(|| what(value, *kind)),
            data_type: message::data_type(*kind).to_string(),
        }
    }
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { column, value, data_type } = self;
        write!(f, "column `{column}` holds {value}, which its Arrow type {data_type} cannot")
    }
}

impl ArrowEncoder {
    /// The largest record batch, as columns or as bytes, not counting its last row.
    pub const BATCH: usize = BATCH;

    /// An encoder for rows of `columns`.
    pub fn new(columns: &[Column]) -> Self {
        Self {
            columns: columns.into(),
            arrays: columns.iter().map(|column| ColumnArray::new(column.kind)).collect(),
            waiting: 0,
            full: FIRST_BATCH,
            rows: 0,
            column: 0,
            longest_lists: usize::MAX,
            room: usize::MAX,
            misfit: None,
            metadata: FlatBufferBuilder::new(),
        }
    }

    /// Bounds the elements of the lists of each row, in bytes of their columns. `0,` in JSON may take
    /// 32 bytes there, so a bound on the row in JSON says little.
    #[must_use]
    pub fn with_longest_lists(self, bytes: usize) -> Self {
        Self { longest_lists: bytes, ..self }
    }

    /// Rows begun so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The value that made the last row fail.
    pub fn misfit(&self) -> Option<&Misfit> {
        self.misfit.as_ref()
    }

    /// Returns true if rows wait in the open batch.
    pub fn holds_rows(&self) -> bool {
        self.waiting > 0
    }

    /// Writes the schema.
    pub fn start(&mut self, out: &mut Vec<u8>) {
        message::write_schema(&mut self.metadata, &message::schema(&self.columns), out);
    }

    /// Writes the waiting rows as a batch.
    pub fn flush(&mut self, out: &mut Vec<u8>) {
        if self.waiting > 0 && self.misfit.is_none() {
            let nodes: Vec<_> = self.arrays.iter().flat_map(|array| array.nodes(self.waiting)).collect();
            let buffers: Vec<_> = self.arrays.iter().flat_map(ColumnArray::buffers).collect();
            message::write_batch(&mut self.metadata, self.waiting, &nodes, &buffers, out);
            self.arrays.iter_mut().for_each(ColumnArray::clear);
            self.waiting = 0;
        }
    }

    /// Writes the waiting rows and the end.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        self.flush(out);
        if self.misfit.is_none() {
            out.extend_from_slice(&message::END);
        }
    }

    #[cold]
    fn note_misfit(&mut self, column: usize, value: Value<'_>) {
        self.misfit.get_or_insert_with(|| Misfit::of(&self.columns[column], &self.arrays[column], value));
    }
}

impl RowWriter for ArrowEncoder {
    #[inline]
    fn begin_row(&mut self, _out: &mut Vec<u8>) {
        self.rows += 1;
        (self.column, self.room) = (0, self.longest_lists);
    }

    #[inline]
    fn value(&mut self, value: Value<'_>, _out: &mut Vec<u8>) {
        let column = self.column;
        let Some(array) = self.arrays.get_mut(column) else { return };
        self.column += 1;
        if !array.push(self.waiting, value, &mut self.room) {
            self.note_misfit(column, value);
        }
    }

    #[inline]
    fn end_row(&mut self, out: &mut Vec<u8>) {
        self.waiting += 1;
        if self.arrays.iter().map(ColumnArray::bytes).sum::<usize>() >= self.full {
            self.flush(out);
            self.full = (2 * self.full).min(BATCH);
        }
    }
}

/// Describes a value that doesn't fit, for people. It doesn't contain the value, because errors are
/// logged.
fn what(value: Value<'_>, kind: ColumnKind) -> &'static str {
    match value {
        Value::Null => "NULL",
        Value::Bool(_) => "a boolean",
        Value::Int(_) | Value::Int4(_) => "an integer",
        Value::Float(float) | Value::Real(float) if !float.is_finite() => "NaN or an infinity",
        Value::Text("NaN" | "Infinity" | "-Infinity") => "NaN or an infinity",
        Value::Float(_) | Value::Float4(_) | Value::Real(_) => "a float",
        Value::Number(_) if matches!(kind, ColumnKind::Decimal { .. }) => "a decimal of more digits",
        Value::Number(_) => "a decimal",
        Value::Text(_) => "a text",
        Value::Json(_) => "JSON",
        Value::Bytes(_) => "bytes",
        Value::Date(i32::MIN | i32::MAX) => "an infinite date",
        Value::Date(_) => "a date",
        Value::Time(array::DAY) => "the time 24:00:00",
        Value::Time(_) => "a time",
        Value::Timestamp(i64::MIN | i64::MAX) | Value::TimestampTz(i64::MIN | i64::MAX) => {
            "an infinite timestamp"
        }
        Value::Timestamp(_) => "a timestamp without a time zone",
        Value::TimestampTz(_) => "a timestamp with a time zone",
        Value::Uuid(_) => "a UUID",
    }
}
