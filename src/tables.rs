//! Turns a database's tables and views into endpoints, for users who haven't written any: a list
//! for each, pages and single rows by its primary key, and for each foreign key the rows that refer
//! to a row.
//!
//! [`mod@write`] generates the endpoints as the files that a user would have written. They're then
//! read like endpoint files.

mod catalog;
mod links;
mod write;

use std::path::PathBuf;

use rowstream_core::Error;
use rowstream_core::diagnostic::{Diagnostic, shown};
use rowstream_encode::Format;

pub(crate) use self::catalog::{CatalogTables, Table, read};
use self::links::Links;
use self::write::FileNames;
use crate::config::{Config, Token};
use crate::source::SourceConfig;

/// An endpoint file: its path below the folder of endpoints, and its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EndpointFile {
    /// The path that it would have.
    pub(crate) path: PathBuf,
    /// Its text.
    pub(crate) text: String,
}

/// The endpoints of all tables.
pub(crate) fn endpoints(tables: &[Table]) -> Vec<EndpointFile> {
    endpoints_of(tables, &tables.iter().collect::<Vec<_>>())
}

/// The endpoints of the `chosen` ones among all tables.
pub(crate) fn endpoints_of(tables: &[Table], chosen: &[&Table]) -> Vec<EndpointFile> {
    let (links, mut names) = (Links::new(tables, chosen), FileNames::default());
    chosen.iter().flat_map(|table| write::files(table, &links, &mut names)).collect()
}

/// The configuration that serves `tables` of a source, and warnings of the endpoints that it lacks.
/// If there's a token, requests need it.
///
/// # Errors
/// None of `tables` can be served.
pub(crate) fn configuration(
    source: SourceConfig,
    token: Option<Token>,
    tables: &[Table],
) -> Result<(Config, Vec<String>), Error> {
    let (mut config, refused) = of_files(source, &endpoints(tables));
    if config.endpoints.is_empty() {
        return Err(none_served("serve a statement: `--sql 'select …'`"));
    }
    if let Some(token) = token {
        config.require(token);
    }
    Ok((config, refused.iter().map(left_out).collect()))
}

/// The configuration of a source with these endpoints, in their order. Those that can't be served are
/// left out, and returned with the reason.
pub(crate) fn of_files(source: SourceConfig, files: &[EndpointFile]) -> (Config, Vec<Diagnostic>) {
    let files: Vec<_> = files.iter().map(|file| (file.path.clone(), file.text.clone())).collect();
    Config::of_endpoints(source, &files)
}

/// The warning of a generated endpoint that can't be served.
pub(crate) fn left_out(refused: &Diagnostic) -> String {
    let (file, why) = (shown(&refused.file.to_string_lossy()), &refused.message);
    format!("warning: the endpoint {file} is left out: {why}\n    hint: write an endpoint file for it")
}

/// The error if no table can become an endpoint. A view can give a table a name that is valid in a
/// path.
pub(crate) fn none_served(instead: &str) -> Error {
    let message = "this database has no readable table or view whose name can be a path";
    let hint = format!("make a table, or a view (`create view NAME as select …`), or {instead}");
    Error::endpoint(message).hint(hint)
}

/// The reason why a name can't be the last segment of a path; `None` if it can.
fn unserved(name: &str) -> Option<String> {
    let is_refused = |c: &char| matches!(c, '/' | '%' | '?' | '#' | '\\' | '{' | '}') || c.is_control();
    if matches!(name, "" | "." | "..") {
        return Some("a path can't have such a segment".to_owned());
    }
    if let Some(c) = name.chars().find(is_refused) {
        return Some(format!("a segment of a path can't contain {}", shown(&c.to_string())));
    }
    if name == "_rowstream" {
        return Some("the path is the server's own".to_owned());
    }
    let suffix = name.rsplit_once('.').map(|(_, suffix)| suffix);
    let is_format = suffix.and_then(Format::from_name).is_some();
    is_format.then(|| "the path ends in a format".to_owned())
}
