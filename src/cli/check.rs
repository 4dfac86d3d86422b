//! `rowstream check`: reads everything, connects, prepares every statement, and shows what the server would serve.

use std::fmt::Write as _;
use std::path::PathBuf;

use rowstream_encode::{Column, Format};

use super::Failure;
use crate::Error;
use crate::config::Config;
use crate::endpoint::{Authorization, Cardinality, Endpoint, Key, Statement, Upstream};
use crate::fault::{Fault, place};
use crate::params::{Param, ParamPlace};
use crate::pool::Errand;
use crate::source::http::per_row::{self, PerRow, RowCall};
use crate::source::{Kind, Snapshot, Source, SourceConfig};
use crate::{capacity, memory};

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
    if let Some(capacity) = capacity::describe(config) {
        println!("{capacity}");
    }
    for warning in capacity::warnings(config) {
        eprintln!("{warning}");
    }
    for source in &config.sources {
        let endpoints = config.endpoints.iter().filter(|endpoint| endpoint.source == source.name);
        match connect(source).await {
            Ok(open) => {
                println!("source {}: connected{}, pool of {}", source.name, hosts(source), source.pool.max);
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

/// How many hosts were connected to, where there are several.
fn hosts(source: &SourceConfig) -> String {
    match &source.kind {
        Kind::Http(settings) if settings.hosts.len() > 1 => format!(" to {} hosts", settings.hosts.len()),
        Kind::Http(_) | Kind::Sql(_) => String::new(),
    }
}

async fn connect(config: &SourceConfig) -> Result<Source, Error> {
    let source = Source::open(config)?;
    source.reach().await?;
    Ok(source)
}

async fn check_endpoint(endpoint: &Endpoint, source: &Source) -> usize {
    if let Some(upstream) = &endpoint.upstream {
        println!("{}{}", describe(endpoint), describe_upstream(upstream));
        return 0;
    }
    let mut faults = 0;
    let mut results = Vec::new();
    let mut refused: Vec<&str> = Vec::new();
    for (index, statement) in endpoint.statements.iter().enumerate() {
        if statement.opener.as_deref().is_some_and(|opener| refused.contains(&opener)) {
            results.push(None);
            continue;
        }
        let prepared = prepare(endpoint, index, source).await;
        if let Err(error) = &prepared {
            faults += 1;
            eprintln!("{}", fault(endpoint, statement, error));
            if error.sqlstate_text().is_some() {
                // Those that read its other refcursors have the same text, and would be refused for the same reason.
                refused.extend(statement.opener.as_deref());
            }
        }
        results.push(prepared.ok());
    }
    if let Err(fault) = check_key(endpoint, &results, source).await {
        faults += 1;
        eprintln!("{fault}");
    }
    for fault in nesting_faults(endpoint, &results).into_iter().chain(unread_faults(endpoint, &results)) {
        faults += 1;
        eprintln!("{fault}");
    }
    let mut text = describe(endpoint);
    for (root, statement) in endpoint.statements.iter().enumerate() {
        if statement.nested.is_none() {
            describe_nest(endpoint, &results, root, 1, &mut text);
        }
    }
    text.extend(endpoint.per_row.iter().map(|plan| describe_calls(plan)));
    println!("{text}");
    faults
}

/// The columns of each statement that could be prepared.
type Results = [Option<Columns>];

/// What a statement's rows are made of.
enum Columns {
    /// Its own.
    Own(Vec<Column>),
    /// Those of a refcursor, which are known when it is open. These are the columns of the statement that opens it.
    Refcursor(Vec<Column>),
}

impl Columns {
    fn own(&self) -> Option<&[Column]> {
        match self {
            Self::Own(columns) => Some(columns),
            Self::Refcursor(_) => None,
        }
    }
}

/// Refcursors that nothing reads.
fn unread_faults(endpoint: &Endpoint, results: &Results) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (statement, columns) in endpoint.statements.iter().zip(results) {
        let readers = || endpoint.statements.iter().filter(|other| other.opener == statement.opener);
        let is_first = readers().next().is_some_and(|first| first.name == statement.name);
        if let (Some(opener), Some(Columns::Refcursor(columns)), true) =
            (&statement.opener, columns, is_first)
        {
            let unread = columns.iter().filter(|column| !readers().any(|reader| reader.name == column.name));
            faults.extend(unread.map(|column| fault(endpoint, statement, &not_read(opener, &column.name))));
        }
    }
    faults
}

fn not_read(opener: &str, name: &str) -> Error {
    Error::endpoint(format!("nothing reads the refcursor `{name}` of `{opener}`"))
        .hint(format!("write `-- name: {name} :many from {opener}`, or have it open fewer"))
}

/// Statements that are nested by columns that do not suit.
fn nesting_faults(endpoint: &Endpoint, results: &Results) -> Vec<Fault> {
    let fault = |(index, statement): (usize, &Statement)| {
        let nested = statement.nested.as_ref()?;
        let (columns, parent) = (results[index].as_ref()?.own()?, results[nested.parent].as_ref()?.own()?);
        let error = endpoint.join(index, columns, parent).err()?;
        Some(fault_at(endpoint, statement, nested.offset, &error))
    };
    endpoint.statements.iter().enumerate().filter_map(fault).collect()
}

/// Whether the statement of a key can be read in its order, and continued; not asked where it cannot be read at all.
async fn check_key(endpoint: &Endpoint, results: &Results, source: &Source) -> Result<(), Fault> {
    let Some(key) = &endpoint.key else { return Ok(()) };
    let Some(columns) = &results[key.statement] else { return Ok(()) };
    let fault = |error: &Error| fault_at(endpoint, &endpoint.statements[key.statement], key.offset, error);
    let columns = columns.own().ok_or_else(|| fault(&Key::of_refcursor()))?;
    key.check(columns).map_err(|error| fault(&error))?;
    for query in [&key.ordered, &key.rest, &key.nulls] {
        let prepared =
            async { source.acquire(Snapshot::Statement, Errand::LookUp).await?.prepare(query).await };
        prepared.await.map_err(|error| fault(&error))?;
    }
    Ok(())
}

async fn prepare(endpoint: &Endpoint, index: usize, source: &Source) -> Result<Columns, Error> {
    let statement = &endpoint.statements[index];
    let mut session = source.acquire(Snapshot::Statement, Errand::LookUp).await?;
    let columns = session.prepare(&statement.query).await?;
    let refcursors = session.refcursors(0);
    if endpoint.parent(index).is_some() || endpoint.children(index).next().is_some() {
        statement.check_nestable(refcursors)?;
    }
    if statement.refcursor(&columns, refcursors)?.is_some() {
        return Ok(Columns::Refcursor(columns.to_vec()));
    }
    statement.check_columns(&columns)?;
    if endpoint.per_row.is_some() && !refcursors.is_empty() {
        return Err(per_row::of_refcursor());
    }
    match endpoint.calls_for(index) {
        Some(plan) => Ok(Columns::Own(plan.bind(&columns, 0)?.columns.to_vec())),
        None => Ok(Columns::Own(columns.to_vec())),
    }
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
    if let Some(follow) = &endpoint.follow {
        let _ = write!(text, "  followed: every {:?}", follow.poll);
        if let Some(channel) = &follow.channel {
            let _ = write!(text, ", channel {channel}");
        }
    }
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

/// What is asked, and what becomes of the answers.
fn describe_upstream(upstream: &Upstream) -> String {
    let calls = match upstream {
        Upstream::Pass(_) => return "    passes the answer through\n".to_owned(),
        Upstream::Pages(pages) => {
            let columns = describe_columns(&pages.columns());
            return format!("    rows :many -> {columns}, of {} pages at most\n", pages.most);
        }
        Upstream::Calls(calls) => calls,
    };
    let columns = describe_columns(&calls.columns());
    format!("    rows :many -> {columns}, of {} calls at a time\n", calls.concurrency)
}

fn describe_columns(columns: &[Column]) -> String {
    let columns: Vec<_> =
        columns.iter().map(|column| format!("{} {}", column.name, column.type_name)).collect();
    columns.join(", ")
}

/// What is asked for each row.
fn describe_calls(plan: &PerRow) -> String {
    let describe = |call: &RowCall| {
        let source = &plan.upstreams[call.upstream].source;
        format!("    {}: a call of {source} for each row, {} at a time\n", call.name, call.concurrency)
    };
    plan.calls.iter().map(describe).collect()
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

fn describe_result(statement: &Statement, columns: &Columns) -> String {
    let kind = match statement.cardinality {
        Cardinality::Many => ":many",
        Cardinality::One => ":one",
        Cardinality::Value => ":value",
    };
    let pairs = statement.nested.iter().flat_map(|nested| &nested.on);
    let pairs: Vec<_> = pairs.map(|(own, other)| format!("{own} = {other}")).collect();
    let nested = if pairs.is_empty() { String::new() } else { format!(" nested on {}", pairs.join(" and ")) };
    let columns = match columns {
        Columns::Own(columns) => describe_columns(columns),
        Columns::Refcursor(_) => {
            let opener = statement.opener.as_ref().map(|opener| format!(" of {opener}")).unwrap_or_default();
            format!("a refcursor{opener}, whose columns are known once it is open")
        }
    };
    format!("{} {kind}{nested} -> {columns}\n", statement.name)
}
