//! The messages between the server and a driver process.
//!
//! ```text
//! frame   = kind (u8), length (u32, little-endian), payload
//! ```
//!
//! The server sends requests ([`Request`]). The driver process answers each, except
//! [`Request::Cancel`], with frames that end with [`END`] or [`FAILED`]. All payloads are JSON,
//! except Arrow's.

use std::io::{self, Write};

use rowstream_database::credentials::Credentials;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::arrow_rows::Argument;

/// A [`Request`].
const REQUEST: u8 = b'?';
/// A piece of an Arrow IPC stream: a batch, with the schema before the first one, or the stream's
/// end.
pub(super) const ARROW: u8 = b'A';
/// The request succeeded.
pub(super) const END: u8 = b'.';
/// The request failed: a [`Failed`].
pub(super) const FAILED: u8 = b'!';

/// The longest frame, in bytes. A row of `max_row_bytes` fits many times; the limit protects us
/// from a broken driver.
pub(super) const LONGEST: usize = 256 << 20;

/// The number of bytes before a payload.
pub(super) const HEADER: usize = 5;

/// A request to a connection of the driver process.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Request {
    /// Connect. Always the first request. A later one replaces the connection.
    Open {
        /// The database to open.
        opening: Opening,
        /// The size of a batch of rows, in bytes. A larger batch is cut, down to one row.
        fetch_bytes: usize,
    },
    /// Prepare this statement, and answer only with its schema.
    Describe {
        /// Its text.
        sql: String,
        /// A NULL of each type, to bind if the driver must run a statement to describe its columns.
        arguments: Vec<Argument>,
    },
    /// Run this statement, and answer with its rows.
    Execute {
        /// Its text.
        sql: String,
        /// The values of its placeholders.
        arguments: Vec<Argument>,
    },
    /// Begin a transaction, if none is open.
    Begin,
    /// End the transaction.
    RollBack,
    /// Cancel the running statement; has no answer.
    Cancel,
}

/// The database to open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Opening {
    /// A database with a driver of ADBC.
    Adbc(AdbcOpening),
    /// A database with a driver of ODBC.
    Odbc(OdbcOpening),
}

impl Credentials for Opening {
    fn password(&self) -> Option<&str> {
        match self {
            Self::Adbc(_) => None,
            Self::Odbc(opening) => opening.password.as_deref(),
        }
    }

    /// A driver of ADBC has its own options for passwords, so its dialect has no command.
    fn with_password(self, password: String) -> Self {
        match self {
            Self::Adbc(_) => self,
            Self::Odbc(opening) => Self::Odbc(OdbcOpening { password: Some(password), ..opening }),
        }
    }
}

/// The driver of ADBC to load, and its database.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdbcOpening {
    /// The driver: the path of a library, or its name.
    pub(super) driver: String,
    /// The function in the library that describes the driver; `None`: the default for its name.
    pub(super) entrypoint: Option<String>,
    /// The options to open the database with.
    pub(super) options: Vec<(String, String)>,
    /// Statements to run once, after the database has been opened.
    pub(super) first: Vec<String>,
    /// The path of its file, if it has one.
    pub(super) file: Option<String>,
}

/// The database that ODBC's driver manager connects to, and how rows are fetched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OdbcOpening {
    /// The connection string, as the driver manager reads it.
    pub(super) connection: String,
    /// The password, if the connection string has none.
    pub(super) password: Option<String>,
    /// The most rows of a fetch; 0: as many as fit.
    pub(super) fetch_rows: usize,
    /// The longest value, in bytes.
    pub(super) longest: usize,
}

/// The reason why a request failed.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Failed {
    /// The cause of the failure.
    pub(super) fault: Fault,
    /// The driver's message.
    pub(super) message: String,
    /// The SQLSTATE, if the driver reports one.
    pub(super) sqlstate: Option<String>,
}

impl Failed {
    /// Returns true if the connection can't be used any more. Its session may have expired, even if its
    /// credentials are still valid.
    pub(super) fn is_of_connection(&self) -> bool {
        matches!(self.fault, Fault::Connection | Fault::Login)
    }

    /// Returns true if the failure may affect more than the statement: its SQLSTATE is that of a
    /// connection, of an operator who ended it, or of the driver itself, or there's no SQLSTATE.
    /// MariaDB's driver reports HY001 for a dead connection.
    pub(super) fn may_be_of_connection(&self) -> bool {
        let classes = ["HY", "08", "57P", "70"];
        self.sqlstate.as_deref().is_none_or(|state| classes.iter().any(|class| state.starts_with(class)))
    }
}

/// The cause of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Fault {
    /// The driver's library can't be loaded.
    Driver,
    /// The driver can't connect, or has lost its connection.
    Connection,
    /// The request hasn't run, because the driver can't connect again, or because the database
    /// refuses the connection's credentials. They may have changed.
    Login,
    /// The database refused the statement.
    Statement,
    /// The values are invalid for the statement.
    Data,
    /// The statement was cancelled.
    Cancelled,
    /// A file changed while the statement read it.
    Changed,
}

/// Writes a frame.
///
/// # Errors
/// The other end has closed the socket.
pub(super) fn write(out: &mut impl Write, kind: u8, payload: &[u8]) -> io::Result<()> {
    let too_long = |_| io::Error::other("a frame is longer than 4 GiB");
    let length = u32::try_from(payload.len()).map_err(too_long)?;
    let mut header = [kind; HEADER];
    header[1..].copy_from_slice(&length.to_le_bytes());
    out.write_all(&header)?;
    out.write_all(payload)
}

/// Returns the kind of a frame and the length of its payload.
///
/// # Errors
/// The payload is longer than [`LONGEST`].
pub(super) fn header(header: [u8; HEADER]) -> io::Result<(u8, usize)> {
    let [kind, length @ ..] = header;
    let length = u32::from_le_bytes(length) as usize;
    if length > LONGEST {
        return Err(io::Error::other(format!("a frame of {length} bytes is over the limit of {LONGEST}")));
    }
    Ok((kind, length))
}

impl Request {
    /// Sends the request.
    ///
    /// # Errors
    /// The driver process has closed the socket.
    pub(super) fn write(&self, out: &mut impl Write) -> io::Result<()> {
        write(out, REQUEST, &serde_json::to_vec(self)?)
    }

    /// Reads the next request; `None`: the server has closed the socket.
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

/// Parses a JSON payload.
///
/// # Errors
/// The payload isn't valid.
pub(super) fn parse<T: DeserializeOwned>(payload: &[u8]) -> io::Result<T> {
    Ok(serde_json::from_slice(payload)?)
}
