//! Tables and views of a database as endpoints, for whoever has written none: a list of each, and
//! by its primary key pages and single rows.
//!
//! What the endpoints are stands in [`mod@write`] as the texts that a user would have written, and they
//! are read as endpoint files are.

mod catalog;
mod write;

use std::path::PathBuf;

use rowstream_encode::Format;

pub(crate) use self::catalog::{Found, Table, read};
use self::write::{list, lookup};
use crate::Error;
use crate::config::Config;
use crate::source::SourceConfig;

/// An endpoint file: its path below the folder of endpoints, and its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EndpointFile {
    /// Where it would stand.
    pub(crate) path: PathBuf,
    /// What it says.
    pub(crate) text: String,
}

/// The endpoints of tables.
pub(crate) fn endpoints(tables: &[Table]) -> Vec<EndpointFile> {
    tables.iter().flat_map(|table| [Some(list(table)), lookup(table)]).flatten().collect()
}

/// The configuration that serves `tables` of a source.
///
/// # Errors
/// There is none of them, or one cannot be served.
pub(crate) fn configuration(source: SourceConfig, tables: &[Table]) -> Result<Config, Error> {
    if tables.is_empty() {
        let message = "there is no table in this database that may be read, and no view";
        return Err(Error::endpoint(message).hint("make one, or serve a statement: `--sql 'select …'`"));
    }
    let files: Vec<_> = endpoints(tables).into_iter().map(|file| (file.path, file.text)).collect();
    Config::of_endpoints(source, &files).map_err(|errors| Error::endpoint(errors.to_string()))
}

/// Why a table can have no path; `None`: it can.
fn unserved(table: &Table) -> Option<&'static str> {
    let is_one_segment = |c: char| !matches!(c, '/' | '%' | '?' | '#' | '\\' | '{' | '}') && !c.is_control();
    if matches!(table.name.as_str(), "" | "." | "..") {
        return Some("a path cannot have such a segment");
    }
    if !table.name.chars().all(is_one_segment) {
        return Some("a path cannot have one of its characters");
    }
    if table.name == "_rowstream" {
        return Some("the path is the server's own");
    }
    let suffix = table.name.rsplit_once('.').map(|(_, suffix)| suffix);
    let is_format = suffix.and_then(Format::from_name).is_some();
    is_format.then_some("the path ends in a format")
}
