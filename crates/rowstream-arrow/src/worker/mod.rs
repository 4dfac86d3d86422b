//! Databases with third-party drivers (ADBC, ODBC), in a separate process.
//!
//! A driver is a library of native code that we haven't checked. It can crash, hang or leak, so it
//! runs in a driver process ([`process`]), one for each source. A crash fails only that source's
//! streams, and the next request starts a new process. The process is this program ([`child`]). It
//! sends Arrow IPC over a socket ([`frame`]), whose buffer provides the back-pressure.
//!
//! The server treats a connection to it as a library that blocks. Threads, batches and the
//! hand-over are in [`rowstream_database::blocking`], rows in [`crate::arrow_rows`].
//!
//! | file | contents |
//! |---|---|
//! | `adbc` | the URLs `adbc:…` and `duckdb:…`, with the feature `adbc` |
//! | `odbc` | the URL `odbc:…`, with the feature `odbc` |
//! | [`process`] | starts, restarts and ends the driver process |
//! | [`frame`] | the messages on the socket |
//! | [`connection`] | a connection, and the rows of its statement |
//! | `connection_string` | the connection strings of ODBC |
//! | [`settings`] | the settings of a source that only drivers have |
//! | [`dialect`] | the SQL that drivers' databases have in common, as data |
//! | `child` | the driver process itself |

#[cfg(feature = "adbc")]
pub mod adbc;
pub mod child;
mod connection;
#[cfg(feature = "odbc")]
mod connection_string;
mod dialect;
mod frame;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
#[cfg(feature = "odbc")]
pub mod odbc;
mod process;
mod settings;

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use crate::arrow_rows::{Argument, Row, argument, piece, sent_schema};
use arrow_schema::Schema;
use rowstream_core::Error;
use rowstream_core::params::ParamValue;
use rowstream_core::settings::SourceSettings;
use rowstream_core::sql::Dialect;
use rowstream_database::blocking::{Driver, FileId, StatementDescription, file_id};
use rowstream_database::credentials::CredentialSource;
use rowstream_database::password_command::PasswordCommand;
use rowstream_database::{Batch, NoChanges, OwnSetting};

use self::connection::ProcessConnection;
use self::frame::Opening;
use self::process::Process;

/// A kind of drivers, as the server sees it.
pub trait DriverKind: Send + Sync + 'static {
    /// The SQL of their databases.
    const DIALECT: &'static Dialect;

    /// See [`Driver::SETTINGS`].
    const SETTINGS: &'static [OwnSetting];

    /// True if a connection is still usable after a statement was cancelled.
    const SURVIVES: bool;

    /// Reads the settings of the database to open.
    ///
    /// # Errors
    /// The URL isn't of this kind. The error never quotes it, because it may contain a password.
    fn opening(settings: &SourceSettings) -> Result<Opening, Error>;

    /// Reads the URL again, with its files as they are now. Returns `None` if that's impossible, or if
    /// the URL has no credentials.
    fn opening_now(settings: &SourceSettings) -> Option<Opening>;
}

/// A database whose driver runs in a driver process, with the settings of its connections.
pub struct ForeignDriver<K> {
    /// The source's name, for errors.
    source: String,
    /// The path of the database's file, if it has one.
    file: Option<String>,
    credentials: CredentialSource<Opening>,
    fetch_bytes: usize,
    process: Process,
    kind: PhantomData<K>,
}

impl<K: DriverKind> Driver for ForeignDriver<K> {
    type Connection = ProcessConnection<K>;
    type Argument = Argument;
    type Plan = connection::Plan;
    type Row<'a> = Row<'a>;
    type Changes = NoChanges;

    const DIALECT: &'static Dialect = K::DIALECT;
    // Our thread. The driver's memory belongs to its process.
    const IDLE: usize = 64 * 1024;
    const SETTINGS: &'static [OwnSetting] = K::SETTINGS;

    fn new(settings: &SourceSettings) -> Result<Self, Error> {
        let opening = K::opening(settings)?;
        let file = match &opening {
            Opening::Adbc(opening) => opening.file.clone(),
            Opening::Odbc(_) => None,
        };
        let again = settings.clone();
        let read = move || K::opening_now(&again);
        Ok(Self {
            source: settings.name.clone(),
            file,
            credentials: CredentialSource::new(opening, PasswordCommand::of(settings), read),
            fetch_bytes: settings.fetch_bytes,
            process: Process::new(&settings.name, settings.worker_memory),
            kind: PhantomData,
        })
    }

    fn file(&self) -> Option<FileId> {
        file_id(self.file.as_ref()?)
    }

    /// A received batch, and a packed row or a piece in the types that we send.
    fn held(settings: &SourceSettings) -> usize {
        settings.fetch_bytes.max(settings.max_row_bytes).saturating_mul(2)
    }

    fn connect(self: &Arc<Self>) -> Result<ProcessConnection<K>, Error> {
        ProcessConnection::open(self)
    }

    async fn changes(self: &Arc<Self>, _channel: Option<&str>, _every: Duration) -> Result<NoChanges, Error> {
        Err(Error::endpoint("the database of a driver has no live tail"))
    }

    fn leaves_state(sql: &str) -> bool {
        dialect::leaves_state(sql, K::DIALECT)
    }

    fn argument(param: &ParamValue) -> Result<Argument, Error> {
        Ok(argument(param))
    }

    #[inline]
    fn row<'a>(described: &'a StatementDescription<connection::Plan>, packed: &'a [u8]) -> Row<'a> {
        Row::new(packed, described.columns.len())
    }

    fn as_batches(described: &StatementDescription<connection::Plan>, columns: usize) -> Option<Schema> {
        Some(sent_schema(&described.plan, columns))
    }

    fn batch<'a>(
        described: &'a StatementDescription<connection::Plan>,
        packed: &'a [u8],
    ) -> Batch<'a, Row<'a>> {
        piece(packed, described.columns.len())
    }
}
