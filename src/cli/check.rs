//! `rowstream check`: reads everything, connects, prepares every statement, and shows what the server would serve.

use std::fmt::Write as _;
use std::path::PathBuf;

use rowstream_encode::{Column, Format};

use super::Failure;
use crate::Error;
use crate::config::Config;
use crate::endpoint::{Authorization, Cardinality, Endpoint, Statement};
use crate::fault::{Fault, place};
use crate::memory;
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
    println!("{}", super::serve::bounds(config));
    if let Some(memory) = memory::describe(config) {
        println!("{memory}");
    }
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
    let mut results = Vec::new();
    for (index, statement) in endpoint.statements.iter().enumerate() {
        let prepared = prepare(endpoint, index, source).await;
        if let Err(error) = &prepared {
            faults += 1;
            eprintln!("{}", fault(endpoint, statement, error));
        }
        results.push(prepared.ok());
    }
    for fault in nesting_faults(endpoint, &results) {
        faults += 1;
        eprintln!("{fault}");
    }
    let mut text = describe(endpoint);
    for (root, statement) in endpoint.statements.iter().enumerate() {
        if statement.nested.is_none() {
            describe_nest(endpoint, &results, root, 1, &mut text);
        }
    }
    println!("{text}");
    faults
}

/// The columns of each statement that could be prepared.
type Results = [Option<Vec<Column>>];

/// Statements that are nested by columns that do not suit.
fn nesting_faults(endpoint: &Endpoint, results: &Results) -> Vec<Fault> {
    let fault = |(index, statement): (usize, &Statement)| {
        let nested = statement.nested.as_ref()?;
        let (columns, parent) = (results[index].as_ref()?, results[nested.parent].as_ref()?);
        let error = endpoint.join(index, columns, parent).err()?;
        Some(fault_at(endpoint, statement, nested.offset, &error))
    };
    endpoint.statements.iter().enumerate().filter_map(fault).collect()
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
    fault_at(endpoint, statement, offset, error)
}

/// The fault at a place in the endpoint's file, in bytes.
fn fault_at(endpoint: &Endpoint, statement: &Statement, offset: usize, error: &Error) -> Fault {
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

/// A statement with its columns, and below it, further to the right, those that are nested in it.
fn describe_nest(endpoint: &Endpoint, results: &Results, statement: usize, depth: usize, text: &mut String) {
    if let Some(columns) = &results[statement] {
        let _ = write!(text, "{:width$}", "", width = 4 * depth);
        text.push_str(&describe_result(&endpoint.statements[statement], columns));
    }
    for child in endpoint.children(statement) {
        describe_nest(endpoint, results, child, depth + 1, text);
    }
}

fn describe_result(statement: &Statement, columns: &[Column]) -> String {
    let kind = match statement.cardinality {
        Cardinality::Many => ":many",
        Cardinality::One => ":one",
        Cardinality::Value => ":value",
    };
    let pairs = statement.nested.iter().flat_map(|nested| &nested.on);
    let pairs: Vec<_> = pairs.map(|(own, other)| format!("{own} = {other}")).collect();
    let nested = if pairs.is_empty() { String::new() } else { format!(" nested on {}", pairs.join(" and ")) };
    let columns: Vec<_> =
        columns.iter().map(|column| format!("{} {}", column.name, column.type_name)).collect();
    format!("{} {kind}{nested} -> {}\n", statement.name, columns.join(", "))
}
