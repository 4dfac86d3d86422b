//! `rowstream check`: reads all files, connects, prepares every statement, and shows the endpoints
//! that the server would serve.
//!
//! Errors in some files don't prevent the check of the others. [`crate::check`] asks the databases;
//! this module prints the results.

mod against;
mod explain;
mod json;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rowstream_core::Error;
use rowstream_core::diagnostic::Diagnostic;
use rowstream_core::params::{Param, ParamPlace};
use rowstream_encode::{Column, Format};

use self::against::{Effect, ReleaseChange};
use self::explain::ExplainedRequest;
use super::Failure;
use super::locate::{ConfigArgs, configuration, folder};
use crate::capacity;
use crate::check::{self, CheckResult, CheckedEndpoint, Columns, StatementRefusal};
use crate::config::memory;
use crate::config::{Config, Tls};
use crate::database::HostReport;
use crate::endpoint::{Authorization, CallsPerRow, Cardinality, Endpoint, Handler, RowCall, Statement};
use crate::openapi;
use crate::source::{SourceConfig, SourceKind};

/// Checks a configuration: files, connections, statements.
#[derive(Debug, clap::Args)]
pub(super) struct CheckArgs {
    /// The configuration file, or its folder [default: rowstream.toml].
    #[arg(value_name = "CONFIG")]
    given: Option<PathBuf>,
    #[command(flatten)]
    config: ConfigArgs,
    /// The format of the results.
    #[arg(long, value_enum, default_value_t)]
    format: ReportFormat,
    /// Writes the endpoints to FILE as an OpenAPI document, if there is no error.
    #[arg(long, value_name = "FILE")]
    openapi: Option<PathBuf>,
    /// Compares with an older release's configuration in FOLDER, and lists the changes that break
    /// its clients.
    #[arg(long, value_name = "FOLDER")]
    against: Option<PathBuf>,
    /// Shows the statements that a request of TARGET would run, and the database's plans of them:
    /// `--explain '/orders?status=eq.PAID'`. It can be given several times.
    #[arg(long, value_name = "TARGET", value_parser = explain::read_target)]
    explain: Vec<String>,
}

/// The audience of the report.
#[derive(Debug, Clone, Copy, Default, clap::ValueEnum)]
enum ReportFormat {
    /// People: endpoints on stdout, errors on stderr.
    #[default]
    Text,
    /// Programs: one JSON document on stdout.
    Json,
}

impl CheckArgs {
    fn chosen(&self) -> PathBuf {
        self.config.chosen(self.given.as_ref())
    }

    /// The folder of `.env`.
    pub(super) fn folder(&self) -> PathBuf {
        folder(&self.chosen())
    }
}

pub(super) fn run(args: &CheckArgs) -> Result<(), Failure> {
    let older = args.against.as_deref().map(against::load).transpose()?;
    let (config, errors) = Config::load_partly(&configuration(&args.chosen())?);
    let mut report = Report::ask(config.as_ref(), errors.iter().collect())?;
    if let Some(older) = &older {
        report.changes = Some(against::compare(&Report::ask(Some(older), Vec::new())?, &report));
    }
    report.plans = match (report.errors(), config.as_ref()) {
        (0, Some(config)) if !args.explain.is_empty() => explain_in_folder(config, &args.explain)?,
        _ => args.explain.iter().map(|target| ExplainedRequest::not_asked(target)).collect(),
    };
    match args.format {
        ReportFormat::Text => report.print(),
        ReportFormat::Json => println!("{:#}", json::document(&report)),
    }
    if let (0, Some(file)) = (report.errors(), &args.openapi) {
        report.write_openapi(file)?;
    }
    match (report.errors(), report.breaks()) {
        (0, 0) => Ok(()),
        _ => Err(Failure::Reported),
    }
}

/// Explains requests. Database files that `create` would create are removed at the end.
fn explain_in_folder(config: &Config, targets: &[String]) -> Result<Vec<ExplainedRequest>, Failure> {
    let made = tempfile::tempdir()?;
    super::block_on(explain::explain(config, targets, made.path()))
}

/// The results of a check.
struct Report<'a> {
    /// The parts of the configuration that could be read.
    config: Option<&'a Config>,
    /// The errors of the files.
    errors: Vec<&'a Diagnostic>,
    sources: Vec<CheckedSource<'a>>,
    /// The changes since an older release. `None`: it isn't compared with any.
    changes: Option<Vec<ReleaseChange>>,
    /// The plans of requests, if there's no error.
    plans: Vec<ExplainedRequest>,
}

/// The results for a source.
struct CheckedSource<'a> {
    source: &'a SourceConfig,
    checked: CheckResult<'a>,
    /// The hosts' reports about themselves.
    hosts: Vec<HostReport>,
}

impl<'a> Report<'a> {
    /// Checks each source with the statements of its endpoints. If `create` would create a database
    /// file, it's created in a temporary folder instead.
    fn ask(config: Option<&'a Config>, errors: Vec<&'a Diagnostic>) -> Result<Self, Failure> {
        let made = tempfile::tempdir()?;
        super::block_on(async { Ok(Self::new(config, errors, made.path()).await) })
    }

    async fn new(config: Option<&'a Config>, errors: Vec<&'a Diagnostic>, made: &Path) -> Self {
        let mut sources = Vec::new();
        for source in config.iter().flat_map(|config| &config.sources) {
            let endpoints = config.iter().flat_map(|config| &config.endpoints);
            let endpoints = endpoints.filter(|endpoint| endpoint.source.name() == source.name);
            sources.push(match source.created_in(made) {
                Ok(asked) => {
                    let checked = check::check(&asked, endpoints, Duration::MAX).await;
                    CheckedSource { source, checked, hosts: check::inspect(&asked).await }
                }
                Err(error) => {
                    CheckedSource { source, checked: CheckResult::failed(error), hosts: Vec::new() }
                }
            });
        }
        Self { config, errors, sources, changes: None, plans: Vec::new() }
    }

    fn endpoints(&self) -> impl Iterator<Item = &CheckedEndpoint<'a>> {
        self.sources.iter().flat_map(|source| &source.checked.endpoints)
    }

    /// The findings about an endpoint of the configuration. `None` if its source failed first.
    fn checked(&self, endpoint: &Endpoint) -> Option<&CheckedEndpoint<'a>> {
        self.endpoints().find(|checked| std::ptr::eq(checked.endpoint, endpoint))
    }

    /// The statements that databases refuse, in the order of the files.
    fn refusals(&self) -> Vec<&StatementRefusal> {
        let found = self.endpoints();
        let mut refusals: Vec<_> =
            found.flat_map(|endpoint| endpoint.refusals.iter().chain(&endpoint.oversights)).collect();
        refusals.sort_by(|one, other| one.diagnostic.cmp(&other.diagnostic));
        refusals
    }

    /// Possible mistakes in statements, in the order of the files.
    fn warnings(&self) -> Vec<&StatementRefusal> {
        let mut warnings: Vec<_> = self.endpoints().flat_map(|endpoint| &endpoint.warnings).collect();
        warnings.sort_by(|one, other| one.diagnostic.cmp(&other.diagnostic));
        warnings
    }

    /// The sources whose check ended early.
    fn failed(&self) -> impl Iterator<Item = (&str, &Error)> {
        self.sources.iter().filter_map(|CheckedSource { source, checked, .. }| {
            Some((source.name.as_str(), checked.failed.as_ref()?))
        })
    }

    /// Writes all endpoints as an OpenAPI document.
    fn write_openapi(&self, file: &Path) -> Result<(), Failure> {
        let Some(config) = self.config else { return Ok(()) };
        // In the order of the configuration, as in the list that a server prints.
        let results = |endpoint| self.checked(endpoint).map(|found| &found.results[..]);
        let endpoints = config.endpoints.iter().map(|endpoint| (endpoint, results(endpoint)));
        let mut text = Vec::new();
        let written = openapi::write(&mut text, config, endpoints, openapi::DocumentOptions::default(), None)
            .and_then(|()| Ok(serde_json::from_slice::<serde_json::Value>(&text)?))
            .and_then(|document| std::fs::write(file, format!("{document:#}\n")));
        written.map_err(|error| Failure::Message(format!("{}: {error}", file.display())))
    }

    fn errors(&self) -> usize {
        let asked = self.errors.len() + self.refusals().len() + self.failed().count();
        match asked {
            0 => self.plans.iter().filter(|plan| plan.answer.is_err()).count(),
            errors => errors,
        }
    }

    /// The number of changes that break clients.
    fn breaks(&self) -> usize {
        self.changes.iter().flatten().filter(|change| change.effect != Effect::Note).count()
    }

    /// Prints each source with its endpoints, then the errors and changes, and their number.
    fn print(&self) {
        // If the files have errors, the limits aren't the intended ones.
        if let (Some(config), true) = (self.config, self.errors.is_empty()) {
            print_limits(config);
        }
        for unserved in self.config.iter().flat_map(|config| &config.unserved) {
            eprintln!("{unserved}");
        }
        for CheckedSource { source, checked, hosts: said } in &self.sources {
            if checked.is_reached() {
                println!("source {}: connected{}, pool of {}", source.name, hosts(source), source.pool.max);
            }
            print_hosts(source, said);
            for endpoint in &checked.endpoints {
                println!("{}", describe_checked(endpoint));
            }
        }
        for plan in &self.plans {
            print!("\n{plan}");
        }
        for warning in self.warnings() {
            eprintln!("warning: {warning}");
        }
        for error in &self.errors {
            eprintln!("{error}");
        }
        for refusal in self.refusals() {
            eprintln!("{refusal}");
        }
        for (source, error) in self.failed() {
            eprintln!("source {source}: {}", super::OperatorError(error));
        }
        for change in self.changes.iter().flatten() {
            eprintln!("{change}");
        }
        self.print_numbers();
    }

    fn print_numbers(&self) {
        let errors = count(self.errors(), "error");
        let breaks = count(self.breaks(), "breaking change");
        match (self.errors(), self.breaks()) {
            (0, 0) => println!("OK, {}", count(self.endpoints().count(), "endpoint")),
            (_, 0) => eprintln!("{errors}"),
            (0, _) => eprintln!("hint: {}\n{breaks}", against::REMEDY),
            (_, _) => eprintln!("hint: {}\n{errors}, {breaks}", against::REMEDY),
        }
    }
}

fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

fn print_limits(config: &Config) {
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
    if let Some(expired) = config.tls.as_ref().and_then(Tls::expired) {
        eprintln!("{expired}");
    }
}

/// Prints the hosts of a database. If a single host can't be reached, the source reports that.
fn print_hosts(source: &SourceConfig, said: &[HostReport]) {
    for HostReport { name, said: host } in said {
        match host {
            Ok(host) => println!("  {name}: {host}"),
            Err(error) if said.len() > 1 => {
                eprintln!("warning: source {}, host {name}: {}", source.name, error.for_operators());
            }
            Err(_) => {}
        }
    }
}

/// The number of connected hosts, if there are several.
fn hosts(source: &SourceConfig) -> String {
    match &source.kind {
        SourceKind::Http(settings) if settings.hosts.len() > 1 => {
            format!(" to {} hosts", settings.hosts.len())
        }
        SourceKind::Http(_) | SourceKind::Sql(_) => String::new(),
    }
}

/// An endpoint with its parameters, and with the columns of its rows.
fn describe_checked(checked: &CheckedEndpoint<'_>) -> String {
    let CheckedEndpoint { endpoint, results, .. } = checked;
    let mut text = describe(endpoint);
    let per_row = match &endpoint.handler {
        Handler::Sql(sql) => sql.per_row.as_ref(),
        Handler::Proxy(_) => return text + "    passes the answer through\n",
        Handler::Pages(pages) => {
            let columns = describe_columns(&pages.columns());
            return text + &format!("    rows :many -> {columns}, of {} pages at most\n", pages.most);
        }
        Handler::Calls(calls) => {
            let columns = describe_columns(&calls.columns());
            return text
                + &format!("    rows :many -> {columns}, of {} calls at a time\n", calls.concurrency);
        }
    };
    for (root, statement) in endpoint.statements().iter().enumerate() {
        if statement.nested.is_none() {
            describe_nest(endpoint, results, root, 1, &mut text);
        }
    }
    text.extend(per_row.map(describe_calls));
    text
}

fn describe(endpoint: &Endpoint) -> String {
    let formats: Vec<_> = endpoint.formats.iter().copied().map(Format::name).collect();
    let mut text = format!("GET {}  [{}]", endpoint.path, formats.join(", "));
    if let Some(follow) = endpoint.follow() {
        let _ = write!(text, "  followed: every {:?}", follow.poll);
        if let Some(channel) = &follow.channel {
            let _ = write!(text, ", channel {channel}");
        }
    }
    if let Some(parallel) = endpoint.parallel() {
        let _ = write!(text, "  by {} connections at most", parallel.parts);
    }
    if let Some(shards) = endpoint.shards() {
        let _ = write!(text, "  in {} shards at most", shards.most);
    }
    match &endpoint.authorization {
        Authorization::Public => {}
        Authorization::Authenticated => text.push_str("  any token"),
        Authorization::Tokens(tokens) => drop(write!(text, "  tokens: {}", tokens.join(", "))),
    }
    if let Some(summary) = &endpoint.summary {
        let _ = write!(text, "  {summary}");
    }
    text.push('\n');
    for param in &endpoint.params {
        text.push_str(&describe_param(param));
    }
    if let Some(settings) = endpoint.refine_settings() {
        let _ = writeln!(text, "    requests may use {}", settings.words().join(", "));
    }
    text
}

fn describe_columns(columns: &[Column]) -> String {
    let columns: Vec<_> =
        columns.iter().map(|column| format!("{} {}", column.name, column.type_name)).collect();
    columns.join(", ")
}

/// Describes the calls for each row.
fn describe_calls(CallsPerRow { plan, sources }: &CallsPerRow) -> String {
    let describe = |call: &RowCall| {
        let source = sources[call.upstream].name();
        format!("    {}: a call of {source} for each row, {} at a time\n", call.name, call.concurrency)
    };
    plan.calls.iter().map(describe).collect()
}

fn describe_param(param: &Param) -> String {
    let place = match &param.place {
        ParamPlace::Path => "path".to_owned(),
        ParamPlace::Query => "query".to_owned(),
        ParamPlace::Header { spelling, .. } => format!("header {spelling}"),
        ParamPlace::Claim => "token".to_owned(),
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

/// Describes a statement with its columns. The statements nested in it are below it, and indented.
fn describe_nest(
    endpoint: &Endpoint,
    results: &[Option<Columns>],
    statement: usize,
    depth: usize,
    text: &mut String,
) {
    if let Some(columns) = &results[statement] {
        let _ = write!(text, "{:width$}", "", width = 4 * depth);
        text.push_str(&describe_result(&endpoint.statements()[statement], columns));
    }
    for child in endpoint.children(statement) {
        describe_nest(endpoint, results, child, depth + 1, text);
    }
}

fn describe_result(statement: &Statement, columns: &Columns) -> String {
    let kind = rows(statement.cardinality);
    let pairs = statement.nested.iter().flat_map(|nested| &nested.on);
    let pairs: Vec<_> = pairs.map(|(own, other)| format!("{own} = {other}")).collect();
    let nested = if pairs.is_empty() { String::new() } else { format!(" nested on {}", pairs.join(" and ")) };
    let columns = match columns {
        Columns::Own(columns) => describe_columns(columns),
        Columns::Refcursor(_) => {
            format!("a refcursor{}, whose columns are known once it is open", opener(statement))
        }
        Columns::Result(_) => {
            format!("a result{}, whose columns are known once it has been called", opener(statement))
        }
    };
    format!("{} :{kind}{nested} -> {columns}\n", statement.name)
}

/// Names the opener of a statement that reads its result.
fn opener(statement: &Statement) -> String {
    statement.opener.as_ref().map(|opener| format!(" of {}", opener.name)).unwrap_or_default()
}

/// The cardinality of a statement, as files write it after a colon.
fn rows(cardinality: Cardinality) -> &'static str {
    match cardinality {
        Cardinality::Many => "many",
        Cardinality::One => "one",
        Cardinality::Value => "value",
    }
}
