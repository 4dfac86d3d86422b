//! `rowstream check`: reads everything, connects, prepares every statement, and shows what the server would serve.

use std::fmt::Write as _;
use std::path::PathBuf;

use rowstream_encode::{Column, Format};

use super::Failure;
use crate::Error;
use crate::config::Config;
use crate::endpoint::{Authorization, Cardinality, Endpoint, Statement};
use crate::fault::{Fault, place};
use crate::params::{Param, ParamPlace};
use crate::source::{Snapshot, Source, SourceConfig};

/// Checks a configuration: files, connections, statements.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The configuration file.
    #[arg(value_name = "CONFIG", default_value = "rowstream.toml")]
    config: PathBuf,
}

pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let config = Config::load(&args.config)?;
    let faults = super::block_on(async { Ok(check(&config).await) })?;
    match faults {
        0 => Ok(()),
        1 => Err(Failure::Message("1 fault".into())),
        n => Err(Failure::Message(format!("{n} faults"))),
    }
}

/// Prints each source with its endpoints, and each fault; tells how many there were.
async fn check(config: &Config) -> usize {
    let mut faults = 0;
    for source in &config.sources {
        let endpoints = config.endpoints.iter().filter(|endpoint| endpoint.source == source.name);
        match connect(source).await {
            Ok(open) => {
                println!("source {}: connected, pool of {}", source.name, source.pool.max);
                for endpoint in endpoints {
                    faults += check_endpoint(endpoint, &open).await;
                }
            }
            Err(error) => {
                faults += 1;
                eprintln!("source {}: {}", source.name, Failure::Error(error));
            }
        }
    }
    faults
}

async fn connect(config: &SourceConfig) -> Result<Source, Error> {
    let source = Source::open(config)?;
    source.acquire(Snapshot::Statement).await?;
    Ok(source)
}

async fn check_endpoint(endpoint: &Endpoint, source: &Source) -> usize {
    let mut faults = 0;
    let mut text = describe(endpoint);
    for (index, statement) in endpoint.statements.iter().enumerate() {
        match prepare(endpoint, index, source).await {
            Ok(columns) => text.push_str(&describe_result(statement, &columns)),
            Err(error) => {
                faults += 1;
                eprintln!("{}", fault(endpoint, statement, &error));
            }
        }
    }
    println!("{text}");
    faults
}

async fn prepare(endpoint: &Endpoint, index: usize, source: &Source) -> Result<Vec<Column>, Error> {
    let statement = &endpoint.statements[index];
    let columns = source.acquire(Snapshot::Statement).await?.prepare(&statement.query).await?;
    statement.check_columns(&columns)?;
    if endpoint.rows_statement() == Some(index) {
        endpoint.check_key(&columns)?;
    }
    Ok(columns.to_vec())
}

/// The fault at its place in the endpoint's file, where the database told one.
fn fault(endpoint: &Endpoint, statement: &Statement, error: &Error) -> Fault {
    let offset = statement.origin.file_offset(error.position_offset().unwrap_or_default());
    let (line, column) = place(&statement.origin.text, offset);
    Fault {
        file: endpoint.file.clone(),
        line,
        column,
        message: format!("statement `{}`: {error}", statement.name),
        hint: error.hint_text().map(str::to_owned),
    }
}

fn describe(endpoint: &Endpoint) -> String {
    let formats: Vec<_> = endpoint.formats.iter().copied().map(Format::name).collect();
    let mut text = format!("GET {}  [{}]", endpoint.path, formats.join(", "));
    if let Authorization::Tokens(tokens) = &endpoint.authorization {
        let _ = write!(text, "  tokens: {}", tokens.join(", "));
    }
    if let Some(summary) = &endpoint.summary {
        let _ = write!(text, "  {summary}");
    }
    text.push('\n');
    for param in &endpoint.params {
        text.push_str(&describe_param(param));
    }
    text
}

fn describe_param(param: &Param) -> String {
    let place = match &param.place {
        ParamPlace::Path => "path".to_owned(),
        ParamPlace::Query => "query".to_owned(),
        ParamPlace::Header(name) => format!("header {name}"),
    };
    let list = if param.list { "[]" } else { "" };
    let need = match &param.default {
        None => "required".to_owned(),
        Some(value) => {
            value.postgres_text().map_or_else(|| "optional".to_owned(), |text| format!("default {text}"))
        }
    };
    format!("    {} {}{list} ({place}, {need})\n", param.name, param.kind.name())
}

fn describe_result(statement: &Statement, columns: &[Column]) -> String {
    let kind = match statement.cardinality {
        Cardinality::Many => ":many",
        Cardinality::One => ":one",
        Cardinality::Value => ":value",
    };
    let columns: Vec<_> =
        columns.iter().map(|column| format!("{} {}", column.name, column.type_name)).collect();
    format!("    {} {kind} -> {}\n", statement.name, columns.join(", "))
}
