//! Asks the databases for facts that aren't in the files: if a database can be reached, and if it
//! accepts each statement.
//!
//! `rowstream check` prints the results. A server does the same at its start and at each reload.
//! Each source is checked on one connection that isn't in its pool, one statement after another.
//! The connection is closed after the last one. So the check doesn't wait for a busy pool, and
//! doesn't delay it. It never executes an endpoint's statement.
//!
//! An error belongs either to an endpoint or to its source. It's an endpoint's if the database
//! refuses a statement ([`StatementRefusal`]). It's the source's if the database can't be reached,
//! is too busy, or shuts down; it may succeed later. The check of a source ends at its first such
//! error, and the remaining statements can be checked later.

mod alike;
mod apart;
mod parts;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use rowstream_core::Error;
use rowstream_core::diagnostic::{Diagnostic, excerpt, list, place, shown};
use rowstream_core::params::ParamValue;
use rowstream_core::pool::Priority;
use rowstream_core::sql::Outline;
use rowstream_encode::{Column, Format};
use tokio::time::timeout;

use crate::database::{self, HostReport, ResultSet, RowSource, Session, Snapshot};
use crate::endpoint::{
    Endpoint, Handler, LinkTemplate, NestedStatement, Piece, ResultRead, RowKey, Statement, check_results,
    of_refcursor,
};
use crate::source::{Source, SourceConfig, SourceKind};

/// The time limit for one statement. The database exceeds it if, for example, a migration has
/// locked the statement's tables.
const PATIENCE: Duration = Duration::from_secs(5);

/// The findings about a source and its endpoints.
pub(crate) struct CheckResult<'a> {
    /// The checked endpoints, in their given order.
    pub(crate) endpoints: Vec<CheckedEndpoint<'a>>,
    /// The error that ended the check before the other endpoints.
    pub(crate) failed: Option<Error>,
}

impl CheckResult<'_> {
    /// The result for a source that can't be used at all.
    pub(crate) fn failed(error: Error) -> Self {
        Self { endpoints: Vec::new(), failed: Some(error) }
    }

    /// Returns true if we could connect to the source.
    pub(crate) fn is_reached(&self) -> bool {
        self.failed.is_none() || !self.endpoints.is_empty()
    }
}

/// The findings about an endpoint.
pub(crate) struct CheckedEndpoint<'a> {
    pub(crate) endpoint: &'a Endpoint,
    /// The columns of each of its statements. `None` for a refused statement.
    pub(crate) results: Vec<Option<Columns>>,
    /// Errors.
    pub(crate) refusals: Vec<StatementRefusal>,
    /// Mistakes that don't prevent serving the endpoint.
    pub(crate) oversights: Vec<StatementRefusal>,
    /// Possible mistakes.
    pub(crate) warnings: Vec<StatementRefusal>,
}

/// The columns of a statement's rows.
pub(crate) enum Columns {
    /// The statement's own columns.
    Own(Vec<Column>),
    /// The columns of a refcursor, which are unknown until it's open. These are those of the
    /// statement that opens it.
    Refcursor(Vec<Column>),
    /// The columns of a procedure's result, which are unknown until it's called.
    Result(ResultSet),
}

impl Columns {
    /// The statement's own columns. `None` if others are unknown until the statement runs.
    pub(crate) fn own(&self) -> Option<&[Column]> {
        match self {
            Self::Own(columns) => Some(columns),
            Self::Refcursor(_) | Self::Result(_) => None,
        }
    }
}

/// A statement that its database refuses, or whose columns don't fit its endpoint.
#[derive(Debug)]
pub(crate) struct StatementRefusal {
    /// The position and the message.
    pub(crate) diagnostic: Diagnostic,
    /// The error's code.
    pub(crate) code: &'static str,
    pub(crate) sqlstate: Option<String>,
    /// The endpoint's path.
    pub(crate) endpoint: String,
    /// The source's name.
    pub(crate) source: String,
    /// The line of the position, with a caret below it.
    excerpt: String,
}

impl fmt::Display for StatementRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Diagnostic { file, line, column, message, hint } = &self.diagnostic;
        write!(f, "{}:{line}:{column}: {message}\n{}", file.display(), self.excerpt)?;
        match hint {
            Some(hint) => write!(f, "\n    hint: {hint}"),
            None => Ok(()),
        }
    }
}

/// Connects to a source within `connect`, and checks each statement of these endpoints, which must
/// belong to the source.
pub(crate) async fn check<'a>(
    config: &SourceConfig,
    endpoints: impl Iterator<Item = &'a Endpoint>,
    connect: Duration,
) -> CheckResult<'a> {
    let source = match reach(config, connect).await {
        Ok(source) => source,
        Err(error) => return CheckResult::failed(error),
    };
    let mut checked = CheckResult { endpoints: Vec::new(), failed: None };
    for endpoint in endpoints {
        match check_forms(endpoint, &source).await {
            Ok(endpoint) => checked.endpoints.push(endpoint),
            Err(error) => return CheckResult { failed: Some(error), ..checked },
        }
    }
    checked
}

/// Checks an endpoint's statements, and then those without some of their optional parts.
///
/// # Errors
/// Those of the source.
async fn check_forms<'a>(endpoint: &'a Endpoint, source: &Source) -> Result<CheckedEndpoint<'a>, Error> {
    let mut checked = check_endpoint(endpoint, source).await?;
    for (index, form) in endpoint.forms().iter().enumerate() {
        let mut found = check_endpoint(form, source).await?;
        found.refusals.extend(other_columns(form, &found.results, &checked.results));
        add_new(&mut checked.oversights, found.oversights);
        add_new(&mut checked.warnings, found.warnings);
        for mut refusal in found.refusals {
            let is_known = |other: &StatementRefusal| other.diagnostic == refusal.diagnostic;
            if !checked.refusals.iter().any(is_known) {
                let left_out = list(endpoint.left_out(index));
                refusal.diagnostic.message =
                    format!("without the optional parts of {left_out}: {}", refusal.diagnostic.message);
                checked.refusals.push(refusal);
                return Ok(checked);
            }
        }
    }
    Ok(checked)
}

/// Adds the refusals that aren't among `known` yet.
fn add_new(known: &mut Vec<StatementRefusal>, found: Vec<StatementRefusal>) {
    for refusal in found {
        if !known.iter().any(|other| other.diagnostic == refusal.diagnostic) {
            known.push(refusal);
        }
    }
}

/// Finds a statement whose columns depend on its optional parts. Clients rely on them.
fn other_columns(
    form: &Endpoint,
    results: &[Option<Columns>],
    expected: &[Option<Columns>],
) -> Option<StatementRefusal> {
    let described = |columns: &Option<Columns>| {
        let columns = columns.as_ref().and_then(Columns::own)?;
        Some(columns.iter().map(|column| (column.name.clone(), column.type_name.clone())).collect::<Vec<_>>())
    };
    let is_other = |(one, other): (&Option<Columns>, &Option<Columns>)| matches!((described(one), described(other)), (Some(one), Some(other)) if one != other);
    let index = results.iter().zip(expected).position(is_other)?;
    let error = Error::endpoint("its columns are others")
        .hint("put only conditions, joins and orders into optional parts: all answers have the same columns");
    Some(refusal(form, &form.statements()[index], &error))
}

/// Opens the source with a pool of its own, which has one connection.
async fn reach(config: &SourceConfig, within: Duration) -> Result<Source, Error> {
    let mut alone = config.clone();
    if let SourceKind::Sql(_) = alone.kind {
        alone.pool.max = 1;
    }
    let source = Source::open(&alone)?;
    let reached = timeout(within, source.reach()).await;
    reached.unwrap_or_else(|_| Err(unanswered(&source, "it accepted no connection", within)))?;
    Ok(source)
}

/// Asks the database if an endpoint's statement can be read by several connections.
///
/// # Errors
/// The error of the database, or the reason why the statement can't be read in parts.
pub(crate) async fn parts(endpoint: &Endpoint, source: &Source) -> Result<(), Error> {
    let Some(divided) = endpoint.divided() else { return Ok(()) };
    prepare(endpoint, 0, source).await?;
    parts::reason(divided, source).await?.map_or(Ok(()), Err)
}

/// Each host's report about itself.
pub(crate) async fn inspect(config: &SourceConfig) -> Vec<HostReport> {
    match Source::open(config) {
        Ok(source) => source.inspect().await,
        Err(_) => Vec::new(),
    }
}

fn unanswered(source: &Source, what: &str, within: Duration) -> Error {
    Error::source_unavailable(format!("source `{}` does not answer", source.name()))
        .cause(format!("{what} within {within:?}"))
}

/// Checks an endpoint's statements.
///
/// # Errors
/// Those of the source.
async fn check_endpoint<'a>(endpoint: &'a Endpoint, source: &Source) -> Result<CheckedEndpoint<'a>, Error> {
    let mut checked = CheckedEndpoint {
        endpoint,
        results: Vec::new(),
        refusals: Vec::new(),
        oversights: Vec::new(),
        warnings: Vec::new(),
    };
    let Handler::Sql(_) = endpoint.handler else {
        return Ok(checked);
    };
    let mut refused: Vec<&str> = Vec::new();
    for (index, statement) in endpoint.statements().iter().enumerate() {
        let opener = statement.opener.as_ref().map(|opener| &*opener.name);
        if opener.is_some_and(|opener| refused.contains(&opener)) {
            checked.results.push(None);
            continue;
        }
        let prepared = of_endpoint(prepare(endpoint, index, source).await)?;
        checked.results.push(match prepared {
            Ok(columns) => Some(columns),
            Err(error) => {
                checked.refusals.push(refusal(endpoint, statement, &error));
                if error.sqlstate_text().is_some() {
                    // The opener's other readers have the same text, so the database would refuse
                    // them for the same reason.
                    refused.extend(opener);
                }
                None
            }
        });
    }
    checked.refusals.extend(check_key(endpoint, &checked.results, source).await?);
    checked.refusals.extend(check_refined(endpoint, &checked.results, source).await?);
    checked.refusals.extend(check_links(endpoint, &checked.results));
    checked.refusals.extend(parts::refused(endpoint, &checked.results, source).await?);
    checked.refusals.extend(nesting_refusals(endpoint, &checked.results));
    checked.refusals.extend(misplaced(endpoint, &checked.results));
    checked.oversights.extend(unread(endpoint, &checked.results));
    checked.warnings = apart::repeatable(endpoint, &checked.results, source).await?;
    checked.warnings.extend(apart::tied(endpoint, &checked.results, source).await?);
    checked.warnings.extend(alike::mismatches(endpoint, &checked.results, source));
    checked.warnings.extend(lapses(endpoint, source).await?);
    Ok(checked)
}

/// Separates the errors of an endpoint, in the inner result, from those of its source.
fn of_endpoint<T>(asked: Result<T, Error>) -> Result<Result<T, Error>, Error> {
    match asked {
        Err(error) if error.is_of_source() => Err(error),
        asked => Ok(asked),
    }
}

async fn session(source: &Source, snapshot: Snapshot) -> Result<Session, Error> {
    source.acquire(snapshot, Priority::Lookup).await
}

/// The snapshot that a response of the endpoint may need.
fn snapshot(endpoint: &Endpoint) -> Snapshot {
    match endpoint.statements() {
        [_] if endpoint.key().is_none() => Snapshot::Statement,
        _ => Snapshot::Transaction,
    }
}

/// The columns of one of an endpoint's statements, if they fit it.
pub(crate) async fn prepare(endpoint: &Endpoint, index: usize, source: &Source) -> Result<Columns, Error> {
    let statement = &endpoint.statements()[index];
    check_only_reads(&statement.query.sql, source)?;
    let mut session = session(source, snapshot(endpoint)).await?;
    let columns = ask(&mut session, &statement.query, source).await?;
    let opened = session.rows_of(0);
    if endpoint.parent(index).is_some() || endpoint.children(index).next().is_some() {
        statement.check_nestable(opened)?;
    }
    if endpoint.per_row().is_some() && opened != RowSource::Own {
        return Err(of_refcursor());
    }
    match statement.reads(&columns, opened)? {
        Some(ResultRead::Refcursor(_)) => return Ok(Columns::Refcursor(columns.to_vec())),
        Some(ResultRead::Result(result)) => return Ok(Columns::Result(result)),
        None if endpoint.formats == [Format::Csv] => statement.check_count(&columns)?,
        None => statement.check_columns(&columns)?,
    }
    match endpoint.calls_for(index) {
        Some(plan) => Ok(Columns::Own(plan.bind(&columns, 0)?.columns.to_vec())),
        None => Ok(Columns::Own(columns.to_vec())),
    }
}

/// Checks that a statement has no words that a read-only transaction refuses. PostgreSQL
/// prepares such a statement, and refuses only to execute it. MariaDB's message names no word.
fn check_only_reads(sql: &str, source: &Source) -> Result<(), Error> {
    let outline = Outline::new(sql, source.database()?.dialect());
    let Some(place) = outline.and_then(|outline| outline.write()) else { return Ok(()) };
    let words = shown(&sql[place.clone()]);
    Err(Error::endpoint(format!("the statement writes or locks rows with {words}, but Rowstream only reads"))
        .hint(format!("remove {words} with all that belongs to it"))
        .position(place.start))
}

/// The columns of a statement. The database has [`PATIENCE`] to report them.
async fn ask(
    session: &mut Session,
    query: &database::Statement,
    source: &Source,
) -> Result<Arc<[Column]>, Error> {
    let asked = async {
        let columns = session.prepare(query).await;
        session.let_go().await;
        columns
    };
    let asked = timeout(PATIENCE, asked).await;
    asked.unwrap_or_else(|_| Err(unanswered(source, "it prepared no statement", PATIENCE)))
}

/// Checks that the statement of a key can be read in the key's order, and after a row. Does nothing
/// if the statement itself was refused.
///
/// # Errors
/// Those of the source.
async fn check_key(
    endpoint: &Endpoint,
    results: &[Option<Columns>],
    source: &Source,
) -> Result<Option<StatementRefusal>, Error> {
    let Some(key) = endpoint.key() else { return Ok(None) };
    let Some(columns) = &results[key.statement] else { return Ok(None) };
    let refusal =
        |error: &Error| refusal_at(endpoint, &endpoint.statements()[key.statement], key.offset, error);
    let suits = columns
        .own()
        .ok_or_else(RowKey::of_refcursor)
        .and_then(|columns| key.check(columns).and_then(|()| key.check_bytes(columns, source)));
    if let Err(error) = suits {
        return Ok(Some(refusal(&error)));
    }
    for query in [&key.ordered, &key.rest, &key.nulls] {
        let mut session = session(source, snapshot(endpoint)).await?;
        let asked = of_endpoint(ask(&mut session, query, source).await)?;
        let asked = asked.map_err(|error| key.explain(error));
        if let Err(error) = asked.and_then(|columns| key.check_order(&columns)) {
            return Ok(Some(refusal(&error)));
        }
    }
    check_nested(endpoint, key, source).await
}

/// Checks that the statements nested in that of a key can be read for the rows of a page.
///
/// # Errors
/// Those of the source.
async fn check_nested(
    endpoint: &Endpoint,
    key: &RowKey,
    source: &Source,
) -> Result<Option<StatementRefusal>, Error> {
    for nested in &key.nested {
        let statement = &endpoint.statements()[nested.statement];
        let offset = statement.nested.as_ref().map_or(key.offset, |nested| nested.offset);
        for query in [&nested.ordered, &nested.rest] {
            let mut session = session(source, snapshot(endpoint)).await?;
            if let Err(error) = of_endpoint(ask(&mut session, query, source).await)? {
                let error = nested.explain(&error);
                return Ok(Some(refusal_at(endpoint, statement, offset, &error)));
            }
        }
        let mut session = session(source, snapshot(endpoint)).await?;
        let collated = of_endpoint(ask(&mut session, &nested.collated, source).await)?;
        let parent =
            endpoint.parent(nested.statement).map_or("", |parent| &endpoint.statements()[parent].name);
        let explain = |error: Error| NestedStatement::explain_collations(&error, statement, parent);
        if let Some(error) = collated.err().and_then(explain) {
            return Ok(Some(refusal_at(endpoint, statement, offset, &error)));
        }
        // Its connection may be the only one.
        drop(session);
        for (collation, query) in &nested.other_collations {
            let nulls = vec![ParamValue::Null; query.types.len()];
            // Without an answer in time we don't know.
            let asked = timeout(PATIENCE, apart::has_row(&query.sql, &nulls, source)).await;
            if of_endpoint(asked.unwrap_or(Ok(false)))?.unwrap_or(false) {
                let error = NestedStatement::collations_differ(statement, parent, collation);
                return Ok(Some(refusal_at(endpoint, statement, offset, &error)));
            }
        }
    }
    Ok(None)
}

/// Checks that requests can filter, sort and select as the endpoint's file allows. Does nothing if
/// the statement itself was refused.
///
/// # Errors
/// Those of the source.
async fn check_refined(
    endpoint: &Endpoint,
    results: &[Option<Columns>],
    source: &Source,
) -> Result<Option<StatementRefusal>, Error> {
    let (Some(settings), [Some(columns)]) = (endpoint.refine_settings(), results) else { return Ok(None) };
    let Some(columns) = columns.own() else { return Ok(None) };
    let refusal = |error: &Error| refusal_at(endpoint, &endpoint.statements()[0], settings.offset, error);
    let examples = match settings.check(columns) {
        Ok(examples) => examples,
        Err(error) => return Ok(Some(refusal(&error))),
    };
    for example in &examples {
        let refined = settings.refine(endpoint, columns, example);
        let refined = match refined.and_then(|refined| refined.build(endpoint, columns)) {
            Ok(refined) => refined,
            Err(error) => return Ok(Some(refusal(&error))),
        };
        let mut session = session(source, snapshot(endpoint)).await?;
        let asked = of_endpoint(ask(&mut session, &refined.statements()[0].query, source).await)?;
        if let Err(error) = asked {
            return Ok(Some(refusal(&settings.explain(example, error))));
        }
    }
    Ok(None)
}

/// Checks that links name columns of the rows.
fn check_links(endpoint: &Endpoint, results: &[Option<Columns>]) -> Option<StatementRefusal> {
    let index = endpoint.rows_statement()?;
    let columns = results.get(index)?.as_ref()?.own()?;
    let refusal = |link: &LinkTemplate| {
        let error = link.check(columns).err()?;
        Some(refusal_at(endpoint, &endpoint.statements()[index], link.offset, &error))
    };
    endpoint.links.iter().find_map(refusal)
}

/// Warns of a counter that may issue keys which a follower has already passed.
///
/// # Errors
/// Those of the source.
async fn lapses(endpoint: &Endpoint, source: &Source) -> Result<Option<StatementRefusal>, Error> {
    let Some(key) = endpoint.key().filter(|key| !key.committed_only) else { return Ok(None) };
    let dialect = source.database()?.dialect();
    let (Some(_), Some(counters)) = (endpoint.follow(), &dialect.commits.counters) else { return Ok(None) };
    let statement = &endpoint.statements()[key.statement];
    let Some((table, column)) = key.counted(&statement.query.sql, counters, dialect) else { return Ok(None) };
    let (query, lapse) = counters.lapse;
    let args = [ParamValue::Text(table), ParamValue::Text(column)];
    let asked = timeout(PATIENCE, apart::has_row(query, &args, source)).await;
    let asked = asked.unwrap_or_else(|_| Err(unanswered(source, "it reported no counter", PATIENCE)));
    let is_lapse = of_endpoint(asked)?.unwrap_or(false);
    let error = || Error::endpoint(lapse.message).hint(lapse.hint);
    Ok(is_lapse.then(|| refusal_at(endpoint, statement, key.offset, &error())))
}

/// Finds nested statements whose columns don't fit their parent's.
fn nesting_refusals(endpoint: &Endpoint, results: &[Option<Columns>]) -> Vec<StatementRefusal> {
    let refusal = |(index, statement): (usize, &Statement)| {
        let nested = statement.nested.as_ref()?;
        let (columns, parent) = (results[index].as_ref()?.own()?, results[nested.parent].as_ref()?.own()?);
        let error = endpoint.join(index, columns, parent).err()?;
        Some(refusal_at(endpoint, statement, nested.offset, &error))
    };
    endpoint.statements().iter().enumerate().filter_map(refusal).collect()
}

/// Finds a procedure's result that the body places out of the order of arrival.
fn misplaced(endpoint: &Endpoint, results: &[Option<Columns>]) -> Option<StatementRefusal> {
    let result = |index: usize| match results[index] {
        Some(Columns::Result(result)) => Some(result),
        _ => None,
    };
    let placed = endpoint.body.iter().filter_map(Piece::statement);
    let read = placed.map(|index| (&endpoint.statements()[index], result(index)));
    check_results(read).err().map(|(statement, error)| refusal(endpoint, statement, &error))
}

/// Finds refcursors that no statement reads.
fn unread(endpoint: &Endpoint, results: &[Option<Columns>]) -> Vec<StatementRefusal> {
    let mut refusals = Vec::new();
    for (statement, columns) in endpoint.statements().iter().zip(results) {
        let readers =
            || endpoint.statements().iter().filter(|other| other.opened_by() == statement.opened_by());
        let is_first = readers().next().is_some_and(|first| first.name == statement.name);
        if let (Some(opener), Some(Columns::Refcursor(columns)), true) =
            (statement.opener.as_ref().map(|opener| &opener.name), columns, is_first)
        {
            let unread = columns.iter().filter(|column| !readers().any(|reader| reader.name == column.name));
            refusals
                .extend(unread.map(|column| refusal(endpoint, statement, &not_read(opener, &column.name))));
        }
    }
    refusals
}

fn not_read(opener: &str, name: &str) -> Error {
    Error::endpoint(format!("no statement reads the refcursor `{name}` of `{opener}`"))
        .hint(format!("write `-- name: {name} :many from {opener}`, or open fewer refcursors"))
}

/// A refusal at the position that the database reported, or else at the beginning of the statement.
fn refusal(endpoint: &Endpoint, statement: &Statement, error: &Error) -> StatementRefusal {
    let origin = &statement.origin;
    let offset = match error.position_offset() {
        Some(position) => origin.file_offset(position),
        None => {
            let start = origin.file_offset(0);
            let text = &origin.text[start..];
            start + text.len() - text.trim_start().len()
        }
    };
    refusal_at(endpoint, statement, offset, error)
}

/// A refusal at an offset in the endpoint's file, in bytes.
fn refusal_at(endpoint: &Endpoint, statement: &Statement, offset: usize, error: &Error) -> StatementRefusal {
    let text = &statement.origin.text;
    let (line, column) = place(text, offset);
    let diagnostic = Diagnostic {
        file: endpoint.file.clone(),
        line,
        column,
        message: format!("statement `{}`: {error}", statement.name),
        hint: error.hint_text().map(str::to_owned),
    };
    StatementRefusal {
        diagnostic,
        code: error.code(),
        sqlstate: error.sqlstate_text().map(str::to_owned),
        endpoint: endpoint.path.clone(),
        source: endpoint.source.name().to_owned(),
        excerpt: excerpt(text, offset),
    }
}
