//! What goes over the socket between the server and a worker process.
//!
//! ```text
//! frame   = kind (u8), length (u32, little-endian), payload
//! ```
//!
//! The server asks ([`Request`]), and the worker answers each request but [`Request::Cancel`] with
//! frames of which the last one is [`END`] or [`FAILED`]. What is not Arrow's is JSON.

use std::io::{self, Write};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::super::arrow_rows::Argument;
use super::super::blocking::{FileId, file_id};

/// A [`Request`].
const REQUEST: u8 = b'?';
/// A piece of an Arrow IPC stream: a batch each, the schema before the first, and the end.
pub(super) const ARROW: u8 = b'A';
/// What was asked for is done.
pub(super) const END: u8 = b'.';
/// It failed: a [`Failed`].
pub(super) const FAILED: u8 = b'!';

/// The longest frame, in bytes: one row of `max_row_bytes` fits many times over, and what a broken
/// driver sends ends here.
pub(super) const LONGEST: usize = 256 << 20;

/// What precedes a payload.
pub(super) const HEADER: usize = 5;

/// What the server asks of a connection.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Request {
    /// Connect. The first request, and no other.
    Open {
        /// To what.
        opening: Opening,
        /// What a batch of rows may have, in bytes. A larger one is cut, down to one row.
        fetch_bytes: usize,
    },
    /// Prepare this statement, and answer with its schema alone.
    Describe {
        /// Its text.
        sql: String,
        /// What is bound where a driver knows the columns only of what runs: a NULL of each type.
        arguments: Vec<Argument>,
    },
    /// Run this statement, and answer with its rows.
    Execute {
        /// Its text.
        sql: String,
        /// What is bound to its placeholders.
        arguments: Vec<Argument>,
    },
    /// Begin a transaction, if none is open.
    Begin,
    /// End the transaction.
    RollBack,
    /// End what runs; not answered by itself.
    Cancel,
}

/// What a worker opens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Opening {
    /// A driver of ADBC.
    Adbc(AdbcOpening),
    /// A driver of ODBC.
    Odbc(OdbcOpening),
}

/// Which driver of ADBC is loaded, and what it connects to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdbcOpening {
    /// The driver: the path of a library, or its name.
    pub(super) driver: String,
    /// The function in the library that describes the driver; `None`: as its name says.
    pub(super) entrypoint: Option<String>,
    /// What the driver is given when the database is opened.
    pub(super) options: Vec<(String, String)>,
    /// Statements that are run once, when the database has been opened.
    pub(super) first: Vec<String>,
    /// The path of its file, if it's one.
    pub(super) file: Option<String>,
}

impl AdbcOpening {
    /// The file that is at its path now.
    pub(super) fn file_id(&self) -> Option<FileId> {
        file_id(self.file.as_ref()?)
    }
}

/// What ODBC's driver manager connects to, and how rows are fetched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OdbcOpening {
    /// The connection string, as the driver manager reads it.
    pub(super) connection: String,
    /// The most rows of a fetch; 0: as many as fit.
    pub(super) fetch_rows: usize,
    /// The longest value, in bytes.
    pub(super) longest: usize,
}

/// Why the worker could not do what was asked.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Failed {
    /// Whose fault it is.
    pub(super) fault: Fault,
    /// What the driver says.
    pub(super) message: String,
    /// The SQLSTATE, where the driver gives one.
    pub(super) sqlstate: Option<String>,
}

#[cfg(feature = "odbc")]
impl Failed {
    /// Returns true if it may be about more than the statement: its SQLSTATE is that of a connection,
    /// of an operator who ended it, or of the driver itself, or it has none. MariaDB's driver has
    /// HY001 for a connection that has died.
    pub(super) fn may_be_of_connection(&self) -> bool {
        let classes = ["HY", "08", "57P", "70"];
        self.sqlstate.as_deref().is_none_or(|state| classes.iter().any(|class| state.starts_with(class)))
    }
}

/// Whose fault a failure is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Fault {
    /// The library of the driver cannot be loaded.
    Driver,
    /// The driver cannot connect.
    Connection,
    /// The database refused the statement.
    Statement,
    /// The values do not fit it.
    Data,
    /// The statement was cancelled.
    Cancelled,
    /// A file changed while the statement read it.
    Changed,
}

/// Writes a frame.
///
/// # Errors
/// The other end has gone.
pub(super) fn write(out: &mut impl Write, kind: u8, payload: &[u8]) -> io::Result<()> {
    let too_long = |_| io::Error::other("a frame is longer than 4 GiB");
    let length = u32::try_from(payload.len()).map_err(too_long)?;
    let mut header = [kind; HEADER];
    header[1..].copy_from_slice(&length.to_le_bytes());
    out.write_all(&header)?;
    out.write_all(payload)
}

/// The kind of a frame, and the length of its payload.
///
/// # Errors
/// It is longer than any may be.
pub(super) fn header(header: [u8; HEADER]) -> io::Result<(u8, usize)> {
    let [kind, length @ ..] = header;
    let length = u32::from_le_bytes(length) as usize;
    if length > LONGEST {
        return Err(io::Error::other(format!("a frame of {length} bytes is over the limit of {LONGEST}")));
    }
    Ok((kind, length))
}

impl Request {
    /// Sends it.
    ///
    /// # Errors
    /// The worker has gone.
    pub(super) fn write(&self, out: &mut impl Write) -> io::Result<()> {
        write(out, REQUEST, &serde_json::to_vec(self)?)
    }

    /// The next one; `None`: the server has gone.
    pub(super) fn read(from: &mut impl io::Read) -> io::Result<Option<Self>> {
        let mut bytes = [0; HEADER];
        match from.read_exact(&mut bytes) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            read => read?,
        }
        let (_, length) = header(bytes)?;
        let mut payload = vec![0; length];
        from.read_exact(&mut payload)?;
        Ok(Some(parse(&payload)?))
    }
}

/// What a payload of JSON says.
///
/// # Errors
/// It is none.
pub(super) fn parse<T: DeserializeOwned>(payload: &[u8]) -> io::Result<T> {
    Ok(serde_json::from_slice(payload)?)
}
