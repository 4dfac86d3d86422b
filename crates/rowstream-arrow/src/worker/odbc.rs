//! Drivers of ODBC: `odbc:DSN=shop`, or any other connection string after the colon.

use rowstream_core::Error;
use rowstream_core::settings::SourceSettings;
use rowstream_core::sql::Dialect;
use rowstream_database::{OwnSetting, blocking, password_command};

use super::connection_string::attributes;
use super::frame::{OdbcOpening, Opening};
use super::settings::{FETCH_BYTES, WORKER_MEMORY};
use super::{DriverKind, ForeignDriver, dialect};

pub use crate::arrow_rows::{Layout, Row};

/// A database with a driver of ODBC, and its pool.
pub type Source = blocking::Source<ForeignDriver<Odbc>>;

/// Drivers of ODBC.
pub struct Odbc;

impl DriverKind for Odbc {
    const DIALECT: &'static Dialect = &dialect::ODBC;
    const SETTINGS: &'static [OwnSetting] = &[password_command::SETTING, FETCH_BYTES, WORKER_MEMORY];
    // After a cancellation, MariaDB's driver continues to read in the middle of a row, as long as
    // we ask.
    const SURVIVES: bool = false;

    fn opening(settings: &SourceSettings) -> Result<Opening, Error> {
        let opening = opening(&settings.url, settings);
        if !opening.connection.contains('=') {
            return Err(Error::endpoint("this URL has no connection string")
                .hint("write `odbc:DSN=NAME` or `odbc:Driver={NAME};Server=…`"));
        }
        // Drivers differ in which of two passwords they use.
        if !settings.password_command.is_empty() && has_password(&opening.connection) {
            return Err(Error::endpoint("this source has a password in its URL, and a `password_command`")
                .hint("leave out `PWD=…` of the connection string, or the command"));
        }
        Ok(Opening::Odbc(opening))
    }

    fn opening_now(settings: &SourceSettings) -> Option<Opening> {
        Some(Opening::Odbc(opening(&settings.url_now()?, settings)))
    }
}

fn opening(url: &str, settings: &SourceSettings) -> OdbcOpening {
    OdbcOpening {
        connection: url.split_once(':').map_or("", |(_, connection)| connection).to_owned(),
        password: None,
        fetch_rows: settings.fetch_rows,
        longest: settings.max_row_bytes,
    }
}

fn has_password(connection: &str) -> bool {
    attributes(connection).any(|(key, _)| ["pwd", "password"].contains(&&*key.to_ascii_lowercase()))
}
