//! SQLite: a file that is read in this process.
//!
//! The library blocks, so its threads, batches and hand-over are in [`rowstream_database::blocking`]. This
//! crate has only the parts specific to SQLite.
//!
//! ```
//! use rowstream_core::settings::SourceSettings;
//! use rowstream_database::Database as _;
//!
//! # let folder = tempfile::tempdir()?;
//! # let (script, file) = (folder.path().join("films.sql"), folder.path().join("films.db"));
//! std::fs::write(&script, "create table films (id integer primary key, title text)")?;
//! let mut settings = SourceSettings::new("films", format!("sqlite:{}", file.display()));
//! settings.create = vec![script];
//! assert!(rowstream_sqlite::Source::create_missing(&settings)?);
//! let films = rowstream_sqlite::Source::open(&settings)?;
//! # assert_eq!(films.name(), "films");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`rowstream_database`] shows how rows are read.
//!
//! | file | contents |
//! |---|---|
//! | [`connection`] | opens a file; describes, compiles and steps statements |
//! | [`rows`] | reads the values of a row by SQLite's C API |
//! | [`cells`] | packs values into bytes and reads them |
//! | [`plan`] | interprets values by the declared types of their columns |
//! | [`bind`] | converts parameters to values |
//! | [`dialect`] | SQLite's SQL, as data |
//! | [`changes`] | detects that there may be new rows |
//! | [`settings`] | the settings of a source that only SQLite has |
//! | [`create`] | fills a missing file from scripts |
//! | [`fault`] | SQLite's errors |
//! | [`library`] | limits SQLite's memory |
//! | [`number`] | a function of SQL that reads the numbers of rows |
//! | [`time`] | a function of SQL that compares times of all forms |

mod bind;
mod cells;
mod changes;
mod connection;
mod create;
mod dialect;
mod fault;
mod library;
mod number;
pub mod plan;
mod rows;
mod settings;
mod time;

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rowstream_encode::{Column, RowWriter};

pub use self::changes::Changes;
pub use self::dialect::DIALECT;

use rowstream_core::Error;
use rowstream_core::params::ParamValue;
use rowstream_core::settings::SourceSettings;
use rowstream_core::sql::Dialect;
use rowstream_database::blocking::{self, Driver, FileId, StatementDescription};
use rowstream_database::{DatabaseRow, HostReport, OwnSetting, RowLayout};

use self::connection::Connection;
use self::plan::Plan;

/// A SQLite file with its pool.
pub type Source = blocking::Source<Sqlite>;

/// One SQLite connection on its own thread, held by one response.
pub type Session = blocking::Session<Sqlite>;

/// A SQLite file and the settings of its connections.
pub struct Sqlite {
    /// The source's name, for errors.
    source: String,
    path: PathBuf,
    statement_cache: usize,
    /// The longest value or record that SQLite builds, in bytes.
    longest_value: usize,
    /// How many bytes of the file can be mapped into memory.
    mmap: usize,
}

/// Returns true if writers of a file lock out its readers, and readers its writers: its header has
/// the read version of rollback journals (SQLite's "Database File Format", section 1.3.3). No
/// connection of this process may read the file meanwhile, because closing it drops all the
/// process's locks on it (POSIX).
fn is_in_rollback_mode(path: &Path) -> bool {
    const READ_VERSION: usize = 19;
    let mut header = [0; READ_VERSION + 1];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut header));
    read.is_ok() && header[READ_VERSION] == 1
}

impl Sqlite {
    /// Converts SQLite's error to the one that a user sees.
    fn fault(&self, error: rusqlite::Error) -> Error {
        fault::of(&self.source, &self.path, error)
    }
}

impl Driver for Sqlite {
    type Connection = Connection;
    type Argument = rusqlite::types::Value;
    type Plan = Box<[Plan]>;
    type Row<'a> = Row<'a>;
    type Changes = Changes;

    const DIALECT: &'static Dialect = &DIALECT;
    // The thread, the page cache, the schema and compiled statements.
    const IDLE: usize = 512 * 1024;
    const SETTINGS: &'static [OwnSetting] = settings::OWN;
    // The progress handler and the busy handler call `tick`.
    const SHARES_LOOKUPS: bool = true;

    fn new(settings: &SourceSettings) -> Result<Self, Error> {
        if !settings.url.starts_with("sqlite:") {
            return Err(Error::endpoint(format!(
                "the URL of source `{}` isn't a URL of SQLite",
                settings.name
            )));
        }
        Ok(Self {
            source: settings.name.clone(),
            path: connection::path(&settings.url),
            statement_cache: settings.statement_cache,
            longest_value: connection::longest_value(settings.max_row_bytes),
            mmap: settings.mmap,
        })
    }

    fn create_missing(settings: &SourceSettings) -> Result<bool, Error> {
        create::create_missing(settings)
    }

    fn file(&self) -> Option<FileId> {
        blocking::file_id(&self.path)
    }

    fn caution(&self) -> Option<HostReport> {
        let said = "it isn't in WAL mode, so without `slow_clients = \"spill\"` no program can write it while a \
                    slow client reads a list; with `pragma journal_mode = wal` all can";
        let name = self.path.display().to_string();
        is_in_rollback_mode(&self.path).then(|| HostReport { name, said: Ok(said.to_owned()) })
    }

    /// A row is held twice, as its record and as values.
    fn held(settings: &SourceSettings) -> usize {
        connection::longest_value(settings.max_row_bytes).saturating_mul(2)
    }

    fn connect(self: &Arc<Self>) -> Result<Connection, Error> {
        Connection::open(self)
    }

    async fn changes(self: &Arc<Self>, _channel: Option<&str>, every: Duration) -> Result<Changes, Error> {
        Changes::new(Arc::clone(self), every).await
    }

    fn argument(param: &ParamValue) -> Result<rusqlite::types::Value, Error> {
        param.check_float()?;
        Ok(bind::value(param))
    }

    #[inline]
    fn row<'a>(described: &'a StatementDescription<Box<[Plan]>>, packed: &'a [u8]) -> Row<'a> {
        Row { values: packed, plans: &described.plan, columns: &described.columns }
    }
}

/// One row, in a batch of the worker.
pub struct Row<'a> {
    values: &'a [u8],
    plans: &'a [Plan],
    columns: &'a [Column],
}

impl DatabaseRow for Row<'_> {
    type Layout = Layout;

    #[inline]
    fn encode(self, encoder: &mut impl RowWriter, out: &mut Vec<u8>) -> Result<(), Error> {
        let mut values = self.values;
        encoder.begin_row(out);
        for (i, plan) in self.plans.iter().enumerate() {
            match plan.value(cells::next_cell(&mut values)) {
                Ok(value) => encoder.value(value, out),
                Err(_) => return Err(not_utf8(&self.columns[i])),
            }
        }
        encoder.end_row(out);
        Ok(())
    }

    fn layout(&self) -> Layout {
        Layout { plans: self.plans.into(), columns: self.columns.into() }
    }

    fn bytes(&self) -> &[u8] {
        self.values
    }
}

/// Reads rows that have left their batch.
pub struct Layout {
    plans: Box<[Plan]>,
    columns: Box<[Column]>,
}

impl RowLayout for Layout {
    type Row<'a> = Row<'a>;

    fn row<'a>(&'a mut self, values: &'a [u8]) -> Row<'a> {
        Row { values, plans: &self.plans, columns: &self.columns }
    }
}

#[cold]
fn not_utf8(column: &Column) -> Error {
    Error::bad_value(format!("a text in column `{}` is not UTF-8", column.name))
        .hint("select it as `cast(… as blob)` to see its bytes")
}
