//! Drivers of ADBC: reads the URLs `adbc:DRIVER?key=value…` and `duckdb:FILE`.

use std::path::Path;

use percent_encoding::percent_decode_str;
use rowstream_core::Error;
use rowstream_core::settings::SourceSettings;
use rowstream_core::sql::Dialect;
use rowstream_database::OwnSetting;
use rowstream_database::blocking;
use rowstream_database::table_files::is_table_file;

use super::dialect::{self, DUCKDB_LIBRARY};
use super::frame::{AdbcOpening, Opening};
use super::settings::{FETCH_BYTES, WORKER_MEMORY};
use super::{DriverKind, ForeignDriver};

pub use crate::arrow_rows::{Layout, Row};

/// A database with a driver of ADBC, and its pool.
pub type Source = blocking::Source<ForeignDriver<Adbc>>;

/// Drivers of ADBC.
pub struct Adbc;

impl DriverKind for Adbc {
    const DIALECT: &'static Dialect = &dialect::ADBC;
    const SETTINGS: &'static [OwnSetting] = &[FETCH_BYTES, WORKER_MEMORY];
    const SURVIVES: bool = true;

    fn opening(settings: &SourceSettings) -> Result<Opening, Error> {
        let library = settings.variables.get(DUCKDB_LIBRARY).cloned();
        let mut opening = opening(&settings.url, library)?;
        if settings.url.starts_with("duckdb:") {
            let below = settings.worker_memory / 5 * 4;
            opening.options.push(("memory_limit".to_owned(), format!("{below}B")));
        }
        Ok(Opening::Adbc(opening))
    }

    /// Only the driver's options can change. DuckDB has no logins.
    fn opening_now(settings: &SourceSettings) -> Option<Opening> {
        let (scheme, parsed) = settings.url.split_once(':')?;
        let url = settings.url_now()?;
        let (_, rest) = url.split_once(':')?;
        let options = adbc(rest).ok()?.options;
        let is_adbc = scheme == "adbc";
        is_adbc.then(|| Some(Opening::Adbc(AdbcOpening { options, ..adbc(parsed).ok()? })))?
    }
}

/// The name of DuckDB's library if the variable doesn't have its path.
const DUCKDB: &str = "duckdb";
const DUCKDB_ENTRYPOINT: &str = "duckdb_adbc_init";

/// Reads a URL. `library` is the path of DuckDB's library, if known.
///
/// # Errors
/// The URL isn't one of a driver. The error never quotes it, because it may contain a password.
fn opening(url: &str, library: Option<String>) -> Result<AdbcOpening, Error> {
    match url.split_once(':') {
        Some(("duckdb", file)) => Ok(duckdb(file, library)),
        Some(("adbc", rest)) => adbc(rest),
        _ => Err(Error::endpoint("this URL isn't a URL of a driver")),
    }
}

/// The option that makes DuckDB name types that Arrow doesn't have.
fn lossless() -> (String, String) {
    ("arrow_lossless_conversion".to_owned(), "true".to_owned())
}

fn duckdb(file: &str, library: Option<String>) -> AdbcOpening {
    let mut opening = AdbcOpening {
        driver: library.unwrap_or_else(|| DUCKDB.to_owned()),
        entrypoint: Some(DUCKDB_ENTRYPOINT.to_owned()),
        options: vec![lossless()],
        first: Vec::new(),
        file: (!file.is_empty()).then(|| file.to_owned()),
    };
    if is_table_file(file) {
        let name = Path::new(file).file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
        let name = name.split('.').next().unwrap_or_default().replace('"', "\"\"");
        let path = file.replace('\'', "''");
        opening.first.push(format!("create view \"{name}\" as select * from '{path}'"));
    } else if !file.is_empty() {
        opening.options.push(("path".to_owned(), file.to_owned()));
        opening.options.push(("access_mode".to_owned(), "READ_ONLY".to_owned()));
    }
    opening
}

fn adbc(rest: &str) -> Result<AdbcOpening, Error> {
    let (driver, query) = rest.split_once('?').unwrap_or((rest, ""));
    let mut opening = AdbcOpening {
        driver: decoded(driver)?,
        entrypoint: None,
        options: Vec::new(),
        first: Vec::new(),
        file: None,
    };
    if opening.driver.is_empty() {
        return Err(Error::endpoint("this URL names no driver").hint("write `adbc:DRIVER?key=value`"));
    }
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').ok_or_else(|| {
            Error::endpoint("an option of this URL has no value").hint("write `adbc:DRIVER?key=value`")
        })?;
        match (decoded(key)?, decoded(value)?) {
            (key, value) if key == "entrypoint" => opening.entrypoint = Some(value),
            option => opening.options.push(option),
        }
    }
    if opening.entrypoint.as_deref() == Some(DUCKDB_ENTRYPOINT) {
        opening.options.push(lossless());
    }
    Ok(opening)
}

fn decoded(text: &str) -> Result<String, Error> {
    let decoded = percent_decode_str(text).decode_utf8();
    decoded.map(Into::into).map_err(|_| Error::endpoint("this URL is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_name_drivers() {
        let options = |pairs: &[(&str, &str)]| -> Vec<_> {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        for (url, driver, entrypoint, given) in [
            ("adbc:/opt/libx.so", "/opt/libx.so", None, options(&[])),
            ("adbc:x?uri=postgres%3A%2F%2Fh%2Fd", "x", None, options(&[("uri", "postgres://h/d")])),
            ("adbc:x?entrypoint=Init&a=1&b=", "x", Some("Init"), options(&[("a", "1"), ("b", "")])),
            (
                "duckdb:/data/shop.duckdb",
                "duckdb",
                Some("duckdb_adbc_init"),
                options(&[
                    ("arrow_lossless_conversion", "true"),
                    ("path", "/data/shop.duckdb"),
                    ("access_mode", "READ_ONLY"),
                ]),
            ),
            (
                "duckdb:",
                "duckdb",
                Some("duckdb_adbc_init"),
                options(&[("arrow_lossless_conversion", "true")]),
            ),
        ] {
            let found = opening(url, None).unwrap();
            assert_eq!(
                (&*found.driver, found.entrypoint.as_deref(), found.options),
                (driver, entrypoint, given),
                "{url}"
            );
        }
        for url in ["adbc:", "adbc:?a=1", "adbc:x?a", "odbc:x"] {
            assert!(opening(url, None).is_err(), "{url}");
        }
    }

    #[test]
    fn a_file_is_a_view_of_its_name() {
        let found = opening("duckdb:/data/it's.2026.parquet", Some("/opt/libduckdb.so".into())).unwrap();
        assert_eq!(found.driver, "/opt/libduckdb.so");
        assert_eq!(found.first, ["create view \"it's\" as select * from '/data/it''s.2026.parquet'"]);
    }
}
