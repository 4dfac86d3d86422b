//! Drivers of ODBC: `odbc:DSN=shop`, or any other connection string after the colon.

use rowstream_core::Error;
use rowstream_core::settings::SourceSettings;
use rowstream_core::sql::Dialect;
use rowstream_database::blocking;

use super::frame::{OdbcOpening, Opening};
use super::{DriverKind, ForeignDriver, dialect};

pub use crate::arrow_rows::{Layout, Row};

/// A database with a driver of ODBC, and its pool.
pub type Source = blocking::Source<ForeignDriver<Odbc>>;

/// Drivers of ODBC.
pub struct Odbc;

impl DriverKind for Odbc {
    const DIALECT: &'static Dialect = &dialect::ODBC;
    // After a cancellation, MariaDB's driver continues to read in the middle of a row, as long as
    // we ask.
    const SURVIVES: bool = false;

    fn opening(settings: &SourceSettings) -> Result<Opening, Error> {
        let connection = settings.url.split_once(':').map_or("", |(_, connection)| connection);
        if !connection.contains('=') {
            return Err(Error::endpoint("this URL has no connection string")
                .hint("write `odbc:DSN=NAME` or `odbc:Driver={NAME};Server=…`"));
        }
        Ok(Opening::Odbc(OdbcOpening {
            connection: connection.to_owned(),
            fetch_rows: settings.fetch_rows,
            longest: settings.max_row_bytes,
        }))
    }
}
