//! Fetches of a statement's rows.
//!
//! Many rows come at once where the driver can give what did not fit its buffer afterwards
//! ([`Fetch::Positioned`]), or where all columns are short ([`Fetch::Declared`]). The buffer of a
//! column is as wide as the values that it had so far, so that few do not fit and many rows do.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::Schema;

use super::super::super::frame::{Failed, Fault};
use super::Fetch;
use super::api::{Code, NULL_DATA, Statement, Target};
use super::columns::{Read, Values};

/// The most rows of one.
const MOST_ROWS: usize = 10_000;
/// The rows of the first one, for the first byte.
const FIRST_ROWS: usize = 100;
/// How wide a text is taken for before any was read, in bytes.
const FIRST_WIDTH: usize = 128;
/// The widest buffer of a value; one that is longer is read by itself.
const WIDEST: usize = 8 * 1024;
/// What is read of a long value at once.
const PIECE: usize = 64 * 1024;
/// A row that could not be read, in the states that a fetch writes.
const ROW_ERROR: u16 = 5;

/// How rows are fetched.
#[derive(Debug, Clone, Copy)]
pub(super) struct Config {
    pub(super) fetch: Fetch,
    /// The most rows of a fetch; 0: as many as fit.
    pub(super) fetch_rows: usize,
    /// What a fetch may take, in bytes.
    pub(super) fetch_bytes: usize,
    /// The longest value, in bytes.
    pub(super) longest: usize,
}

/// Why rows could not be started.
pub(super) enum Start {
    Failed(Failed),
    /// The driver does not position although it says so.
    NotPositioned,
}

impl Start {
    pub(super) fn failed(self) -> Failed {
        match self {
            Self::Failed(failed) => failed,
            Self::NotPositioned => unreadable("the driver does not read single values"),
        }
    }
}

impl From<Failed> for Start {
    fn from(failed: Failed) -> Self {
        Self::Failed(failed)
    }
}

/// A column: how it is read, and what was.
struct Column {
    number: u16,
    read: Read,
    values: Values,
    /// The buffer of a fetch: `width` bytes for each row; empty where values are read one by one.
    width: usize,
    buffer: Vec<u8>,
    lengths: Vec<isize>,
    /// The longest value that was seen, in bytes.
    seen: usize,
}

/// The rows of a statement.
pub(super) struct Rows<'s> {
    statement: &'s Statement<'s>,
    config: Config,
    columns: Vec<Column>,
    /// How many rows the last fetch read, and the state of each. Boxed, as the driver has its
    /// address.
    fetched: Box<usize>,
    states: Vec<u16>,
    /// Of a value that is read by itself.
    piece: Vec<u8>,
    value: Vec<u8>,
    /// Whether the last row was read.
    is_done: bool,
}

impl<'s> Rows<'s> {
    /// The rows of a statement that was executed.
    pub(super) fn new(
        statement: &'s Statement<'s>,
        reads: &[Read],
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
            is_done: false,
        })
    }

    /// Fetches the first rows. Whether there are any.
    pub(super) fn start(&mut self) -> Result<bool, Start> {
        if self.config.fetch != Fetch::ByValue {
            self.bind(FIRST_ROWS)?;
        }
        let is_row = self.fetch_now()?;
        if is_row && self.config.fetch == Fetch::Positioned && self.statement.position(0).is_err() {
            return Err(Start::NotPositioned);
        }
        Ok(is_row)
    }

    /// Fetches the next rows, after [`Rows::batch`]. Whether there are any.
    pub(super) fn fetch(&mut self) -> Result<bool, Failed> {
        if self.is_done {
            return Ok(false);
        }
        if self.config.fetch == Fetch::Positioned {
            let mut is_other = self.states.len() == FIRST_ROWS;
            for column in &mut self.columns {
                let wanted = column.wanted();
                is_other |= wanted > column.width;
                column.width = column.width.max(wanted);
            }
            if is_other {
                self.bind(MOST_ROWS)?;
            }
        } else if self.states.len() == FIRST_ROWS {
            self.bind(MOST_ROWS)?;
        }
        self.fetch_now()
    }

    /// Makes buffers for so many rows, at most, and binds them.
    fn bind(&mut self, rows: usize) -> Result<(), Failed> {
        let width: usize = self.columns.iter().map(|column| column.width + size_of::<isize>()).sum();
        let most = if self.config.fetch_rows == 0 { MOST_ROWS } else { self.config.fetch_rows };
        let rows = (self.config.fetch_bytes / width.max(1)).clamp(1, rows.min(most));
        self.states = vec![0; rows];
        #[expect(unsafe_code, reason = "the driver writes into buffers that were given before")]
        // SAFETY: `fetched` is boxed, and `states` and the buffers are vectors that nobody changes
        // before they are bound anew, or the statement is done.
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
        // A row that failed beside others that did not is a warning to the driver.
        let states = &self.states[..self.states.len().min(*self.fetched)];
        if code == Code::WithInfo && states.contains(&ROW_ERROR) {
            return Err(self.statement.diagnosis());
        }
        Ok(true)
    }

    /// The rows that were fetched.
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
                                    "the driver sent a value of another length than it said",
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

    /// Reads rows one by one, value by value, until there are as many as a batch has.
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
    /// Where the value of a row is in the buffer, if all of it is.
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

    /// How wide its buffer should be.
    fn wanted(&self) -> usize {
        match self.read.fixed() {
            Some(width) => width,
            None => (self.seen + self.read.terminator()).next_power_of_two().min(WIDEST),
        }
    }
}

/// Bytes of a value of so many characters, each of at most two units of two bytes; more than
/// [`WIDEST`] where the driver does not know.
fn declared(size: usize) -> usize {
    match size {
        0 => usize::MAX / 2,
        size => size.saturating_add(4).saturating_mul(4),
    }
}

/// Reads one value by itself, in pieces. How many bytes it has.
fn read(
    statement: &Statement<'_>,
    column: &mut Column,
    piece: &mut [u8],
    value: &mut Vec<u8>,
    longest: usize,
) -> Result<usize, Failed> {
    let terminator = column.read.terminator();
    // A text in UTF-16 has up to twice the bytes that it has in UTF-8.
    let most = longest.saturating_mul(if terminator > 0 { 2 } else { 1 });
    value.clear();
    loop {
        let (code, length) = statement.get_data(column.number, column.read.c_type(), piece)?;
        if code == Code::NoData && value.is_empty() {
            return Err(unreadable("the driver has no value where it said that there is one"));
        }
        if length == NULL_DATA && code != Code::NoData {
            column.values.push_null();
            return Ok(1);
        }
        let room = piece.len() - terminator;
        let length = match usize::try_from(length) {
            // How long it is, the driver knows or does not: no more than there is room for is here.
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
