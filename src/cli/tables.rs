//! A database in the place of a configuration: its tables and views as endpoints.

use std::path::Path;

use super::{Failure, block_on};
use crate::config::Config;
use crate::diagnostic::shown;
use crate::log;
use crate::source::{Kind, SourceConfig};
use crate::sql::dialect::Location;
use crate::tables::{self, Table};

/// What is served of the database at `url`.
pub(super) fn configuration(url: &str) -> Result<Config, Failure> {
    let source = Config::database(url)?;
    let tables = read(&source)?;
    if tables.is_empty() {
        let message = "there is no table in this database that may be read, and no view";
        let hint = "make one, or serve a statement: `--sql 'select …'`";
        return Err(Failure::Message(format!("{message}\n    hint: {hint}")));
    }
    let files: Vec<_> = tables::endpoints(&tables).into_iter().map(|file| (file.path, file.text)).collect();
    Ok(Config::of_endpoints(source, &files)?)
}

/// The tables and views of a database that can have a path; others are reported.
pub(super) fn read(source: &SourceConfig) -> Result<Vec<Table>, Failure> {
    refuse_missing(source)?;
    let mut tables = block_on(async { Ok(tables::read(source).await?) })?;
    tables.retain(|table| match tables::unserved(table) {
        None => true,
        Some(why) => {
            let (kind, name) = (&table.kind, shown(&table.name));
            let hint = "write an endpoint file for it, with a `path` of its own";
            log::warning!("warning: the {kind} {name} is not served: {why}\n    hint: {hint}");
            false
        }
    });
    Ok(tables)
}

/// A file that is not there is not made, and its name may be a slip.
fn refuse_missing(source: &SourceConfig) -> Result<(), Failure> {
    let Kind::Sql(database) = source.kind else { return Ok(()) };
    let (_, file) = source.url.split_once(':').unwrap_or_default();
    let path = Path::new(file);
    if database.dialect().urls.location != Location::File || path.exists() {
        return Ok(());
    }
    let near = Config::near_file(path)
        .map(|near| format!("\n    hint: did you mean {}?", shown(&near.to_string_lossy())));
    Err(Failure::Message(format!("there is no file {}{}", shown(file), near.unwrap_or_default())))
}
