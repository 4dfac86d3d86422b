//! Fetches the rows of a statement.
//!
//! We fetch many rows at once if the driver can later read values that didn't fit their buffer
//! ([`Fetch::Positioned`]), or if all columns are short ([`Fetch::Declared`]). The buffer of a
//! column is as wide as its longest value so far, up to a limit. So few values don't fit, and a
//! fetch has many rows.

use std::mem;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::Schema;

use super::super::super::frame::{Failed, Fault};
use super::Fetch;
use super::api::{Code, NULL_DATA, Statement, Target};
use super::columns::{ReadType, Values};

/// The most rows of a fetch.
const MOST_ROWS: usize = 10_000;
/// The rows of the first fetch. It's small, for a fast first byte.
const FIRST_ROWS: usize = 100;
/// The assumed width of a text before we have read one, in bytes.
const FIRST_WIDTH: usize = 128;
/// The widest buffer of a value. We read a longer value by itself.
const WIDEST: usize = 8 * 1024;
/// The bytes of a long value that we read at once.
const PIECE: usize = 64 * 1024;
/// The state that a fetch reports for a row that couldn't be read.
const ROW_ERROR: u16 = 5;

/// How rows are fetched.
#[derive(Debug, Clone, Copy)]
pub(super) struct Config {
    pub(super) fetch: Fetch,
    /// The most rows of a fetch; 0: as many as fit.
    pub(super) fetch_rows: usize,
    /// The size of a fetch, in bytes.
    pub(super) fetch_bytes: usize,
    /// The longest value, in bytes.
    pub(super) longest: usize,
}

/// The reason why rows couldn't be fetched.
pub(super) enum StartError {
    Failed(Failed),
    /// The driver can't position, although it says that it can.
    NotPositioned,
}

impl StartError {
    pub(super) fn failed(self) -> Failed {
        match self {
            Self::Failed(failed) => failed,
            Self::NotPositioned => unreadable("the driver does not read single values"),
        }
    }
}

impl From<Failed> for StartError {
    fn from(failed: Failed) -> Self {
        Self::Failed(failed)
    }
}

/// A column and its values.
struct Column {
    number: u16,
    read: ReadType,
    values: Values,
    /// The buffer of a fetch, with `width` bytes for each row. Empty if values are read one by one.
    width: usize,
    buffer: Vec<u8>,
    lengths: Vec<isize>,
    /// The longest value so far, in bytes.
    seen: usize,
}

/// The rows of a statement.
pub(super) struct Rows<'s> {
    statement: &'s Statement<'s>,
    config: Config,
    columns: Vec<Column>,
    /// How many rows the last fetch read, and the state of each. Boxed, because the driver keeps
    /// its address.
    fetched: Box<usize>,
    states: Vec<u16>,
    /// Buffers for a value that is read by itself.
    piece: Vec<u8>,
    value: Vec<u8>,
    /// The buffers are those of the first fetch, which is small.
    is_first: bool,
    /// The last row was read.
    is_done: bool,
}

impl<'s> Rows<'s> {
    /// Reads the rows of an executed statement.
    pub(super) fn new(
        statement: &'s Statement<'s>,
        reads: &[ReadType],
        mut config: Config,
    ) -> Result<Self, Failed> {
        let mut columns = Vec::new();
        for (number, read) in (1..).zip(reads) {
            let width = match read.fixed() {
                Some(width) => width,
                None if config.fetch == Fetch::Positioned => FIRST_WIDTH,
                None => declared(statement.describe(number)?.size),
            };
            let values = read.values();
            let (buffer, lengths) = (Vec::new(), Vec::new());
            columns.push(Column { number, read: *read, values, width, buffer, lengths, seen: 0 });
        }
        if config.fetch == Fetch::Declared && columns.iter().any(|column| column.width > WIDEST) {
            config.fetch = Fetch::ByValue;
        }
        Ok(Self {
            statement,
            config,
            columns,
            fetched: Box::new(0),
            states: Vec::new(),
            piece: vec![0; PIECE],
            value: Vec::new(),
            is_first: true,
            is_done: false,
        })
    }

    /// Fetches the first rows. Returns false if the statement has no rows.
    pub(super) fn start(&mut self) -> Result<bool, StartError> {
        if self.config.fetch != Fetch::ByValue {
            self.bind(FIRST_ROWS)?;
        }
        let is_row = self.fetch_now()?;
        if is_row && self.config.fetch == Fetch::Positioned && self.statement.position(0).is_err() {
            return Err(StartError::NotPositioned);
        }
        Ok(is_row)
    }

    /// Fetches the next rows, after [`Rows::batch`]. Returns false after the last row.
    pub(super) fn fetch(&mut self) -> Result<bool, Failed> {
        if self.is_done {
            return Ok(false);
        }
        let is_second = mem::take(&mut self.is_first);
        if self.config.fetch == Fetch::Positioned {
            let mut is_other = is_second;
            for column in &mut self.columns {
                let wanted = column.wanted();
                is_other |= wanted > column.width;
                column.width = column.width.max(wanted);
            }
            if is_other {
                self.bind(MOST_ROWS)?;
            }
        } else if is_second && self.config.fetch != Fetch::ByValue {
            self.bind(MOST_ROWS)?;
        }
        self.fetch_now()
    }

    /// Creates and binds buffers for at most `rows` rows.
    fn bind(&mut self, rows: usize) -> Result<(), Failed> {
        let width: usize = self.columns.iter().map(|column| column.width + size_of::<isize>()).sum();
        let most = if self.config.fetch_rows == 0 { MOST_ROWS } else { self.config.fetch_rows };
        let rows = (self.config.fetch_bytes / width.max(1)).clamp(1, rows.min(most));
        self.states = vec![0; rows];
        #[expect(unsafe_code, reason = "the driver writes into buffers that were given before")]
        // SAFETY: `fetched` is boxed, and `states` and the buffers are vectors. We don't resize
        // them until they are bound again, or the statement has ended.
        unsafe {
            self.statement.fetch_many(&mut self.fetched, &mut self.states)?;
            for column in &mut self.columns {
                column.buffer = vec![0; column.width * rows];
                column.lengths = vec![0; rows];
                let mut target = Target {
                    c_type: column.read.c_type(),
                    width: column.width,
                    values: &mut column.buffer,
                    lengths: &mut column.lengths,
                };
                self.statement.bind_column(column.number, &mut target)?;
            }
        }
        Ok(())
    }

    fn fetch_now(&mut self) -> Result<bool, Failed> {
        let code = self.statement.fetch()?;
        if code == Code::NoData {
            return Ok(false);
        }
        // If only some of the rows failed, the driver returns a warning.
        let states = &self.states[..self.states.len().min(*self.fetched)];
        if code == Code::WithInfo && states.contains(&ROW_ERROR) {
            return Err(self.statement.diagnosis());
        }
        Ok(true)
    }

    /// Returns the fetched rows.
    pub(super) fn batch(&mut self, schema: &Arc<Schema>) -> Result<RecordBatch, Failed> {
        match self.config.fetch {
            Fetch::ByValue => self.read_by_value()?,
            _ => self.read_bound()?,
        }
        let arrays = self.columns.iter_mut().map(|column| column.values.finish()).collect();
        RecordBatch::try_new(Arc::clone(schema), arrays).map_err(super::super::of_rows)
    }

    fn read_bound(&mut self) -> Result<(), Failed> {
        let rows = (*self.fetched).min(self.states.len());
        for column in &mut self.columns {
            for row in 0..rows {
                match column.lengths[row] {
                    NULL_DATA => column.values.push_null(),
                    length => match column.whole(row, length) {
                        Some(at) => column.values.push(&column.buffer[at])?,
                        None if self.config.fetch == Fetch::Positioned => {
                            self.statement.position(row)?;
                            let read = read(
                                self.statement,
                                column,
                                &mut self.piece,
                                &mut self.value,
                                self.config.longest,
                            )?;
                            if usize::try_from(length).is_ok_and(|length| length != read) {
                                return Err(unreadable(
                                    "the driver sent a value whose length differs from the announced one",
                                ));
                            }
                        }
                        None => {
                            return Err(unreadable("the driver sent a value that is longer than its column"));
                        }
                    },
                }
            }
        }
        Ok(())
    }

    /// Reads rows one by one, value by value, until the batch is full.
    fn read_by_value(&mut self) -> Result<(), Failed> {
        let most =
            if self.config.fetch_rows == 0 { MOST_ROWS } else { self.config.fetch_rows.min(MOST_ROWS) };
        let (mut rows, mut bytes) = (0, 0);
        loop {
            for column in &mut self.columns {
                bytes += read(self.statement, column, &mut self.piece, &mut self.value, self.config.longest)?;
            }
            rows += 1;
            if rows >= most || bytes >= self.config.fetch_bytes {
                return Ok(());
            }
            if !self.fetch_now()? {
                self.is_done = true;
                return Ok(());
            }
        }
    }
}

impl Column {
    /// Returns the position of a row's value in the buffer, if the buffer contains all of it.
    fn whole(&mut self, row: usize, length: isize) -> Option<Range<usize>> {
        let start = row * self.width;
        if let Some(width) = self.read.fixed() {
            return Some(start..start + width);
        }
        let length = usize::try_from(length).ok()?;
        self.seen = self.seen.max(length);
        let is_whole = length + self.read.terminator() <= self.width;
        is_whole.then(|| start..start + length)
    }

    /// Returns the width that its buffer should have.
    fn wanted(&self) -> usize {
        match self.read.fixed() {
            Some(width) => width,
            None => (self.seen + self.read.terminator()).next_power_of_two().min(WIDEST),
        }
    }
}

/// Returns the bytes of a value of `size` characters, each of at most two UTF-16 units. More than
/// [`WIDEST`] if the driver doesn't know the size.
fn declared(size: usize) -> usize {
    match size {
        0 => usize::MAX / 2,
        size => size.saturating_add(4).saturating_mul(4),
    }
}

/// Reads one value by itself, in pieces. Returns its length in bytes.
fn read(
    statement: &Statement<'_>,
    column: &mut Column,
    piece: &mut [u8],
    value: &mut Vec<u8>,
    longest: usize,
) -> Result<usize, Failed> {
    let terminator = column.read.terminator();
    // A text in UTF-16 has up to twice as many bytes as in UTF-8.
    let most = longest.saturating_mul(if terminator > 0 { 2 } else { 1 });
    value.clear();
    loop {
        let (code, length) = statement.get_data(column.number, column.read.c_type(), piece)?;
        if code == Code::NoData && value.is_empty() {
            return Err(unreadable("the driver announced a value, but has none"));
        }
        if length == NULL_DATA && code != Code::NoData {
            column.values.push_null();
            return Ok(1);
        }
        let room = piece.len() - terminator;
        let length = match usize::try_from(length) {
            // A driver may report the whole remaining length, or none. This piece has at most
            // `room` bytes.
            Ok(length) => column.read.fixed().unwrap_or(length).min(room),
            Err(_) => room,
        };
        if code != Code::NoData {
            value.extend_from_slice(&piece[..length]);
        }
        if value.len() > most {
            return Err(unreadable(&format!(
                "a value is longer than the {longest} bytes of `max_row_bytes`"
            )));
        }
        if code != Code::WithInfo || length < room {
            break;
        }
    }
    column.values.push(value)?;
    Ok(value.len())
}

fn unreadable(message: &str) -> Failed {
    Failed { fault: Fault::Data, message: message.to_owned(), sqlstate: None }
}
