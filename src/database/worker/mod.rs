//! Databases whose drivers are others' (ADBC, ODBC), in a process of their own.
//!
//! A driver is a library of native code that nobody here has checked. It may crash, hang or leak,
//! so it runs in a worker process ([`process`]), one for each source: what it does fails that
//! source's streams and no others, and the next request finds a new process. The process is this
//! program ([`child`]), and speaks Arrow IPC over a socket ([`frame`]), whose buffer is the
//! back-pressure.
//!
//! For the server, such a connection is a library that blocks: threads, batches and hand-over are
//! those of [`super::blocking`], and rows are those of [`super::arrow_rows`].
//!
//! | file | what it holds |
//! |---|---|
//! | `adbc` | `adbc:…` and `duckdb:…`: what is opened, with the feature `adbc` |
//! | `odbc` | `odbc:…`: what is opened, with the feature `odbc` |
//! | [`process`] | the process: started, started again, ended |
//! | [`frame`] | what goes over the socket |
//! | [`connection`] | a connection, and the rows of its statement |
//! | [`dialect`] | what drivers' databases have in common in SQL, as data |
//! | `child` | the process itself |

#[cfg(feature = "adbc")]
pub mod adbc;
pub(crate) mod child;
mod connection;
mod dialect;
mod frame;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
#[cfg(feature = "odbc")]
pub mod odbc;
mod process;

use std::convert::Infallible;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use super::arrow_rows::{Argument, Row, argument, piece, sent_schema};
use arrow_schema::Schema;

use self::connection::Connection;
use self::frame::Opening;
use self::process::Process;
use super::blocking::{Described, Driver, FileId};
use super::{Batch, ChangeSource};
use rowstream_core::Error;
use rowstream_core::params::ParamValue;
use rowstream_core::settings::SourceSettings;
use rowstream_core::sql::Dialect;

/// What the kinds of drivers differ in, for the server.
pub trait Kind: Send + Sync + 'static {
    /// The SQL of their databases.
    const DIALECT: &'static Dialect;

    /// True if a connection can be used after a statement that was cancelled.
    const SURVIVES: bool;

    /// What a worker opens.
    ///
    /// # Errors
    /// The URL is none of this kind. The error never quotes it, which may hold a password.
    fn opening(settings: &SourceSettings) -> Result<Opening, Error>;
}

/// A database whose driver runs in a worker process, as its connections know it.
pub struct Foreign<K> {
    /// The source's name, for errors.
    source: String,
    opening: Opening,
    fetch_bytes: usize,
    process: Process,
    kind: PhantomData<K>,
}

impl<K: Kind> Driver for Foreign<K> {
    type Connection = Connection<K>;
    type Argument = Argument;
    type Plan = connection::Plan;
    type Row<'a> = Row<'a>;
    type Changes = Changes;

    const DIALECT: &'static Dialect = K::DIALECT;
    // A thread of ours; what the driver takes is its process's.
    const IDLE: usize = 64 * 1024;

    fn new(settings: &SourceSettings) -> Result<Self, Error> {
        Ok(Self {
            source: settings.name.clone(),
            opening: K::opening(settings)?,
            fetch_bytes: settings.fetch_bytes,
            process: Process::new(&settings.name, settings.worker_memory),
            kind: PhantomData,
        })
    }

    fn file(&self) -> Option<FileId> {
        match &self.opening {
            Opening::Adbc(opening) => opening.file_id(),
            Opening::Odbc(_) => None,
        }
    }

    /// A batch as it came, and the row that is packed, or the piece that is sent as other types.
    fn held(settings: &SourceSettings) -> usize {
        settings.fetch_bytes.max(settings.max_row_bytes).saturating_mul(2)
    }

    fn connect(self: &Arc<Self>) -> Result<Connection<K>, Error> {
        Connection::open(self)
    }

    async fn changes(self: &Arc<Self>, _channel: Option<&str>, _every: Duration) -> Result<Changes, Error> {
        Err(Error::endpoint("the database of a driver cannot be followed"))
    }

    fn argument(param: &ParamValue) -> Argument {
        argument(param)
    }

    #[inline]
    fn row<'a>(described: &'a Described<connection::Plan>, packed: &'a [u8]) -> Row<'a> {
        Row::new(packed, described.columns.len())
    }

    fn as_batches(described: &Described<connection::Plan>, columns: usize) -> Option<Schema> {
        Some(sent_schema(&described.plan, columns))
    }

    fn batch<'a>(described: &'a Described<connection::Plan>, packed: &'a [u8]) -> Batch<'a, Row<'a>> {
        piece(packed, described.columns.len())
    }
}

/// Nothing notices that a driver's database has changed.
pub struct Changes(Infallible);

impl ChangeSource for Changes {
    const IS_LOST_FOR_GOOD: bool = true;

    async fn next(&mut self) -> Result<(), Error> {
        match self.0 {}
    }
}
