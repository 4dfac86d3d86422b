//! Asks the databases what the files cannot tell: whether they can be reached, and whether they
//! take each statement.
//!
//! `rowstream check` prints what is found; a server asks at its start and at each reload. A source
//! is asked on one connection beside its pool, one statement after another, and the connection is
//! closed after the last one: a pool that is busy neither waits for it nor holds it up. No
//! statement of an endpoint is executed.
//!
//! An error is either an endpoint's, because the database refuses a statement ([`Refusal`]), or its
//! source's, which another try may mend: it cannot be reached, is too busy, or shuts down. The
//! first error of a source ends the asking; what was not asked by then can be asked later.

mod apart;
mod parts;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use rowstream_encode::{Column, Format};
use tokio::time::timeout;

use crate::Error;
use crate::database::{self, HostSaid, ResultSet, RowsOf, Session, Snapshot};
use crate::diagnostic::{Diagnostic, excerpt, place};
use crate::endpoint::{Endpoint, Handler, Key, Piece, Reads, Statement, check_results, of_refcursor};
use crate::params::ParamValue;
use crate::pool::Priority;
use crate::source::{Kind, Source, SourceConfig};

/// How long a database may take for one statement. One that a migration has locked the tables of
/// takes longer.
const PATIENCE: Duration = Duration::from_secs(5);

/// The findings about a source and its endpoints.
pub(crate) struct Checked<'a> {
    /// The endpoints that were asked for, in the order in which they were given.
    pub(crate) endpoints: Vec<CheckedEndpoint<'a>>,
    /// The error that kept the others from being checked.
    pub(crate) failed: Option<Error>,
}

impl Checked<'_> {
    /// A source that can't be asked for anything.
    pub(crate) fn failed(error: Error) -> Self {
        Self { endpoints: Vec::new(), failed: Some(error) }
    }

    /// Whether the source let anybody in.
    pub(crate) fn is_reached(&self) -> bool {
        self.failed.is_none() || !self.endpoints.is_empty()
    }
}

/// What was found of an endpoint.
pub(crate) struct CheckedEndpoint<'a> {
    /// The endpoint.
    pub(crate) endpoint: &'a Endpoint,
    /// The columns of each of its statements.
    pub(crate) results: Vec<Option<Columns>>,
    /// What is wrong with them.
    pub(crate) refusals: Vec<Refusal>,
    /// What is wrong with them too, and is no reason not to answer.
    pub(crate) oversights: Vec<Refusal>,
    /// What may be wrong with them, and is no error.
    pub(crate) warnings: Vec<Refusal>,
}

/// What a statement's rows are made of.
pub(crate) enum Columns {
    /// Its own.
    Own(Vec<Column>),
    /// Those of a refcursor, which are known when it is open. These are the columns of the
    /// statement that opens it.
    Refcursor(Vec<Column>),
    /// Those of a procedure's result, which are known when it has been called.
    Result(ResultSet),
}

impl Columns {
    fn own(&self) -> Option<&[Column]> {
        match self {
            Self::Own(columns) => Some(columns),
            Self::Refcursor(_) | Self::Result(_) => None,
        }
    }
}

/// A statement that its database refuses, or whose columns do not suit its endpoint.
#[derive(Debug)]
pub(crate) struct Refusal {
    /// Where, and what.
    pub(crate) diagnostic: Diagnostic,
    /// The code of the error.
    pub(crate) code: &'static str,
    /// The database's SQLSTATE.
    pub(crate) sqlstate: Option<String>,
    /// The path of the endpoint.
    pub(crate) endpoint: String,
    /// The name of its source.
    pub(crate) source: String,
    /// The line of the place, and a caret below it.
    excerpt: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Diagnostic { file, line, column, message, hint } = &self.diagnostic;
        write!(f, "{}:{line}:{column}: {message}\n{}", file.display(), self.excerpt)?;
        match hint {
            Some(hint) => write!(f, "\n    hint: {hint}"),
            None => Ok(()),
        }
    }
}

/// Connects to a source within `connect`, and asks it for each statement of these endpoints, which
/// are its own.
pub(crate) async fn check<'a>(
    config: &SourceConfig,
    endpoints: impl Iterator<Item = &'a Endpoint>,
    connect: Duration,
) -> Checked<'a> {
    let source = match reach(config, connect).await {
        Ok(source) => source,
        Err(error) => return Checked::failed(error),
    };
    let mut checked = Checked { endpoints: Vec::new(), failed: None };
    for endpoint in endpoints {
        match check_endpoint(endpoint, &source).await {
            Ok(endpoint) => checked.endpoints.push(endpoint),
            Err(error) => return Checked { failed: Some(error), ..checked },
        }
    }
    checked
}

/// The source with a pool of its own, which has one connection.
async fn reach(config: &SourceConfig, within: Duration) -> Result<Source, Error> {
    let mut alone = config.clone();
    if let Kind::Sql(_) = alone.kind {
        alone.pool.max = 1;
    }
    let source = Source::open(&alone)?;
    let reached = timeout(within, source.reach()).await;
    reached.unwrap_or_else(|_| Err(unanswered(&source, "it let nobody in", within)))?;
    Ok(source)
}

/// Asks the database for the statement of an endpoint that several connections are to read.
///
/// # Errors
/// What the database says of it; why it cannot be read in parts.
pub(crate) async fn parts(endpoint: &Endpoint, source: &Source) -> Result<(), Error> {
    let Some(divided) = endpoint.divided() else { return Ok(()) };
    prepare(endpoint, 0, source).await?;
    parts::reason(divided, source).await?.map_or(Ok(()), Err)
}

/// What each host of a source says of itself.
pub(crate) async fn inspect(config: &SourceConfig) -> Vec<HostSaid> {
    match Source::open(config) {
        Ok(source) => source.inspect().await,
        Err(_) => Vec::new(),
    }
}

fn unanswered(source: &Source, what: &str, within: Duration) -> Error {
    Error::source_unavailable(format!("source `{}` does not answer", source.name()))
        .cause(format!("{what} within {within:?}"))
}

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
                    // Those that read what else it opens have the same text, and would be refused
                    // for the same reason.
                    refused.extend(opener);
                }
                None
            }
        });
    }
    checked.refusals.extend(check_key(endpoint, &checked.results, source).await?);
    checked.refusals.extend(parts::refused(endpoint, &checked.results, source).await?);
    checked.refusals.extend(nesting_refusals(endpoint, &checked.results));
    checked.refusals.extend(misplaced(endpoint, &checked.results));
    checked.oversights.extend(unread(endpoint, &checked.results));
    checked.warnings = apart::repeatable(endpoint, &checked.results, source).await?;
    checked.warnings.extend(lapses(endpoint, source).await?);
    Ok(checked)
}

/// Tells the errors of an endpoint from those of its source.
fn of_endpoint<T>(asked: Result<T, Error>) -> Result<Result<T, Error>, Error> {
    match asked {
        Err(error) if error.is_of_source() => Err(error),
        asked => Ok(asked),
    }
}

/// A session in which a statement can be prepared.
async fn session(source: &Source, snapshot: Snapshot) -> Result<Session, Error> {
    source.acquire(snapshot, Priority::Lookup).await
}

/// What a response of the endpoint may need.
fn snapshot(endpoint: &Endpoint) -> Snapshot {
    match endpoint.statements() {
        [_] if endpoint.key().is_none() => Snapshot::Statement,
        _ => Snapshot::Transaction,
    }
}

async fn prepare(endpoint: &Endpoint, index: usize, source: &Source) -> Result<Columns, Error> {
    let statement = &endpoint.statements()[index];
    let mut session = session(source, snapshot(endpoint)).await?;
    let columns = ask(&mut session, &statement.query, source).await?;
    let opened = session.rows_of(0);
    if endpoint.parent(index).is_some() || endpoint.children(index).next().is_some() {
        statement.check_nestable(opened)?;
    }
    if endpoint.per_row().is_some() && opened != RowsOf::Own {
        return Err(of_refcursor());
    }
    match statement.reads(&columns, opened)? {
        Some(Reads::Refcursor(_)) => return Ok(Columns::Refcursor(columns.to_vec())),
        Some(Reads::Result(result)) => return Ok(Columns::Result(result)),
        None if endpoint.formats == [Format::Csv] => statement.check_count(&columns)?,
        None => statement.check_columns(&columns)?,
    }
    match endpoint.calls_for(index) {
        Some(plan) => Ok(Columns::Own(plan.bind(&columns, 0)?.columns.to_vec())),
        None => Ok(Columns::Own(columns.to_vec())),
    }
}

/// The columns of a statement, for which the database has [`PATIENCE`].
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

/// Whether the statement of a key can be read in its order, and continued; not asked where it
/// cannot be read at all.
///
/// # Errors
/// Those of the source.
async fn check_key(
    endpoint: &Endpoint,
    results: &[Option<Columns>],
    source: &Source,
) -> Result<Option<Refusal>, Error> {
    let Some(key) = endpoint.key() else { return Ok(None) };
    let Some(columns) = &results[key.statement] else { return Ok(None) };
    let refusal =
        |error: &Error| refusal_at(endpoint, &endpoint.statements()[key.statement], key.offset, error);
    let suits = columns
        .own()
        .ok_or_else(Key::of_refcursor)
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
    Ok(None)
}

/// Keys that a follower may have gone past before they are issued.
///
/// # Errors
/// Those of the source.
async fn lapses(endpoint: &Endpoint, source: &Source) -> Result<Option<Refusal>, Error> {
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

/// Statements that are nested by columns that do not suit.
fn nesting_refusals(endpoint: &Endpoint, results: &[Option<Columns>]) -> Vec<Refusal> {
    let refusal = |(index, statement): (usize, &Statement)| {
        let nested = statement.nested.as_ref()?;
        let (columns, parent) = (results[index].as_ref()?.own()?, results[nested.parent].as_ref()?.own()?);
        let error = endpoint.join(index, columns, parent).err()?;
        Some(refusal_at(endpoint, statement, nested.offset, &error))
    };
    endpoint.statements().iter().enumerate().filter_map(refusal).collect()
}

/// A body that places a procedure's results otherwise than they come.
fn misplaced(endpoint: &Endpoint, results: &[Option<Columns>]) -> Option<Refusal> {
    let result = |index: usize| match results[index] {
        Some(Columns::Result(result)) => Some(result),
        _ => None,
    };
    let placed = endpoint.body.iter().filter_map(Piece::statement);
    let read = placed.map(|index| (&endpoint.statements()[index], result(index)));
    check_results(read).err().map(|(statement, error)| refusal(endpoint, statement, &error))
}

/// Refcursors that nothing reads.
fn unread(endpoint: &Endpoint, results: &[Option<Columns>]) -> Vec<Refusal> {
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
    Error::endpoint(format!("nothing reads the refcursor `{name}` of `{opener}`"))
        .hint(format!("write `-- name: {name} :many from {opener}`, or have it open fewer"))
}

/// The refusal at its place in the endpoint's file, where the database named one.
fn refusal(endpoint: &Endpoint, statement: &Statement, error: &Error) -> Refusal {
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

/// The refusal at a place in the endpoint's file, in bytes.
fn refusal_at(endpoint: &Endpoint, statement: &Statement, offset: usize, error: &Error) -> Refusal {
    let text = &statement.origin.text;
    let (line, column) = place(text, offset);
    let diagnostic = Diagnostic {
        file: endpoint.file.clone(),
        line,
        column,
        message: format!("statement `{}`: {error}", statement.name),
        hint: error.hint_text().map(str::to_owned),
    };
    Refusal {
        diagnostic,
        code: error.code(),
        sqlstate: error.sqlstate_text().map(str::to_owned),
        endpoint: endpoint.path.clone(),
        source: endpoint.source.name().to_owned(),
        excerpt: excerpt(text, offset),
    }
}
