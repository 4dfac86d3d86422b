//! Serves a database without a configuration: its tables and views become endpoints.

use std::path::Path;
use std::time::Duration;

use rowstream_core::diagnostic::shown;
use rowstream_core::log;
use rowstream_core::settings::Pooler;
use rowstream_core::sql::dialect::Location;

use super::{Failure, block_on};
use crate::check::{self, CheckedEndpoint};
use crate::config::{Config, Token};
use crate::database::is_csv;
use crate::server::EndpointOrigin;
use crate::source::{Source, SourceConfig, SourceKind};
use crate::tables::{self, CatalogTables, EndpointFile, Table};

/// `--pooler`: how a pooler hands out its server's connections.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(super) enum PoolerMode {
    /// For one transaction.
    Transaction,
    /// For as long as a client stays connected, as if there were no pooler.
    Session,
}

/// The configuration for the database at `url`, and the origin that a reload reads.
pub(super) fn configuration(
    url: &str,
    pooler: Option<PoolerMode>,
    token: Option<Token>,
) -> Result<(Config, EndpointOrigin), Failure> {
    let mut source = Config::database(url)?;
    set_pooler(&mut source, pooler)?;
    let tables = read(&source).map_err(|failure| of_csv(url, failure))?;
    let (config, warnings) = tables::configuration(source.clone(), token.clone(), &tables)?;
    for warning in warnings {
        log::warning!("{warning}");
    }
    Ok((config, EndpointOrigin::tables(source, token, &tables)))
}

/// Improves the error if DuckDB can't read a file, because a CSV can be served without it.
fn of_csv(url: &str, failure: Failure) -> Failure {
    match failure {
        Failure::Error(error) if is_csv(url) && Path::new(url).is_file() => {
            let hint = Config::csv_hint(url, error.hint_text().unwrap_or("correct the file"));
            Failure::Error(error.hint(hint))
        }
        failure => failure,
    }
}

/// The tables and views whose names can be paths. Warns of the others.
pub(super) fn read(source: &SourceConfig) -> Result<Vec<Table>, Failure> {
    refuse_missing(source)?;
    let CatalogTables { tables, warnings } =
        block_on(async { Ok(tables::read(source, &Source::open(source)?).await?) })?;
    for warning in warnings {
        log::warning!("{warning}");
    }
    Ok(tables)
}

/// The files whose statements the database accepts. Warns of the others, as `serve` does.
pub(super) fn accepted(
    source: &SourceConfig,
    files: Vec<EndpointFile>,
) -> Result<Vec<EndpointFile>, Failure> {
    let (config, refused) = tables::of_files(source.clone(), &files);
    for refused in &refused {
        log::warning!("{}", tables::left_out(refused));
    }
    let is_read = |file: &EndpointFile| !refused.iter().any(|refused| refused.file == file.path);
    let checked = block_on(async { Ok(check::check(source, config.endpoints.iter(), Duration::MAX).await) })?;
    if let Some(error) = checked.failed {
        return Err(error.into());
    }
    let is_accepted = |checked: &CheckedEndpoint<'_>| {
        if let Some(refusal) = checked.refusals.first() {
            log::warning!("warning: {} is left out: {}", refusal.endpoint, refusal.diagnostic.message);
        }
        checked.refusals.is_empty()
    };
    let checked = files.into_iter().filter(is_read).zip(&checked.endpoints);
    let accepted: Vec<_> =
        checked.filter(|(_, checked)| is_accepted(checked)).map(|(file, _)| file).collect();
    if accepted.is_empty() {
        let hint =
            "correct the table, or choose others: `--table NAME`, or `--all` without those that are refused";
        let message =
            format!("the database refuses to read the table, so nothing was written\n    hint: {hint}");
        return Err(Failure::Message(message));
    }
    Ok(accepted)
}

/// Sets the pooler's mode if the user gave one.
pub(super) fn set_pooler(source: &mut SourceConfig, pooler: Option<PoolerMode>) -> Result<(), Failure> {
    let Some(pooler) = pooler else { return Ok(()) };
    if !matches!(source.kind, SourceKind::Sql(database) if database.has("pooler")) {
        return Err(Failure::Message("`--pooler` is for PostgreSQL".to_owned()));
    }
    source.pooler = match pooler {
        PoolerMode::Transaction => Pooler::Transaction,
        PoolerMode::Session => Pooler::Session,
    };
    Ok(())
}

/// Reports an error if a database file doesn't exist. We don't create it, because its name may be a
/// mistake.
pub(super) fn refuse_missing(source: &SourceConfig) -> Result<(), Failure> {
    let SourceKind::Sql(database) = source.kind else { return Ok(()) };
    let (_, file) = source.url.split_once(':').unwrap_or_default();
    let path = Path::new(file);
    if database.dialect().urls.location != Location::File || path.exists() {
        return Ok(());
    }
    let near = Config::near_file(path)
        .map(|near| format!("\n    hint: did you mean {}?", shown(&near.to_string_lossy())));
    Err(Failure::Message(format!("there is no file {}{}", shown(file), near.unwrap_or_default())))
}
