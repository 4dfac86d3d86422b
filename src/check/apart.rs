//! Checks that the rows of a statement are unique in the columns that nest other statements in them, and in those
//! of a key.
//!
//! The merge of nested statements knows only the current row, and no earlier one (see
//! [`crate::stream`]). If two rows have the same key and follow each other, it refuses the second
//! one. If other rows are between them, the second one may get an empty list.

use std::future::poll_fn;

use rowstream_core::Error;
use rowstream_core::diagnostic::{list, shown};
use rowstream_core::params::{BindType, ParamType, ParamValue};
use rowstream_core::sql::Outline;
use rowstream_core::sql::dialect::Functions;
use tokio::time::timeout;

use super::{Columns, PATIENCE, StatementRefusal, of_endpoint, refusal_at, session, unanswered};
use crate::database::{self, Snapshot};
use crate::endpoint::{Cardinality, Endpoint};
use crate::source::Source;

/// The words of statements whose rows may not be rows of their table.
const COMBINES_ROWS: [&str; 4] = ["distinct", "distinctrow", "group", "having"];

/// Finds nested statements whose parent columns may not be unique.
///
/// # Errors
/// Those of the source.
pub(super) async fn repeatable(
    endpoint: &Endpoint,
    results: &[Option<Columns>],
    source: &Source,
) -> Result<Vec<StatementRefusal>, Error> {
    let mut found = Vec::new();
    for (index, statement) in endpoint.statements().iter().enumerate() {
        // Below a key, each row has a path to its parent.
        let has_path = endpoint.key().is_some_and(|key| key.has_nested(index));
        let Some(nested) = statement.nested.as_ref().filter(|_| !has_path) else { continue };
        let parent = &endpoint.statements()[nested.parent];
        let own = |index: usize| results[index].as_ref().and_then(Columns::own);
        let (Some(own), Some(columns), Cardinality::Many) =
            (own(index), own(nested.parent), parent.cardinality)
        else {
            continue;
        };
        let Ok(on) = endpoint.join(index, own, columns) else { continue };
        let names: Vec<_> = columns.iter().map(|column| column.name.as_str()).collect();
        let key: Vec<_> = on.into_iter().map(|(_, column)| column).collect();
        if !is_told_apart(&parent.query.sql, &names, &key, source).await? {
            let key: Vec<_> = key.iter().map(|&column| format!("`{}`", names[column])).collect();
            let error = repeated(&statement.name, &parent.name, &key.join(", "));
            found.push(refusal_at(endpoint, statement, nested.offset, &error));
        }
    }
    Ok(found)
}

fn repeated(name: &str, parent: &str, key: &str) -> Error {
    let message = format!(
        "{key} may not be unique in `{parent}`: if two rows with the same value had others between them, the \
         second could get an empty list of `{name}`"
    );
    Error::endpoint(message).hint(format!(
        "order `{parent}` by {key} first, so that such rows are an error, or select it from one table by its \
         primary key"
    ))
}

/// Finds a key that isn't unique: the statement selects from one table, none of whose unique keys is within the
/// key's columns and those of the condition. After a page that ends among rows with the same key, the others
/// would be skipped.
///
/// # Errors
/// Those of the source.
pub(super) async fn tied(
    endpoint: &Endpoint,
    results: &[Option<Columns>],
    source: &Source,
) -> Result<Option<StatementRefusal>, Error> {
    let Some(key) = endpoint.key() else { return Ok(None) };
    let statement = &endpoint.statements()[key.statement];
    let dialect = source.database()?.dialect();
    let (Some(columns), Some(unique), Some(outline)) = (
        results[key.statement].as_ref().and_then(Columns::own),
        &dialect.unique_keys,
        Outline::new(&statement.query.sql, dialect),
    ) else {
        return Ok(None);
    };
    let names: Vec<_> = columns.iter().map(|column| column.name.as_str()).collect();
    let origin = |name: &str| outline.origin(&names, names.iter().position(|other| *other == name)?);
    let origins: Option<Vec<_>> = key.columns.iter().map(|column| origin(&column.name)).collect();
    let (Some(table), Some(mut within), false) =
        (outline.table_name(unique.table), origins, outline.has_outside(&COMBINES_ROWS))
    else {
        return Ok(None);
    };
    let error = not_unique(&within, &table);
    within.extend(outline.condition_names());
    let args = [ParamValue::Text(table), texts(within)];
    // Without an answer in time we don't know, and a warning isn't worth an error.
    let Ok(asked) = timeout(PATIENCE, has_row(unique.missing, &args, source)).await else { return Ok(None) };
    // Another server that speaks PostgreSQL's protocol may have another catalog.
    let is_missing = of_endpoint(asked)?.unwrap_or(false);
    Ok(is_missing.then(|| refusal_at(endpoint, statement, key.offset, &error)))
}

fn not_unique(columns: &[String], table: &str) -> Error {
    let message = format!(
        "the key may not be unique: {} has no primary key or unique index within {}. If several rows have the same \
         key, those after the end of a page or a cut are skipped",
        shown(table),
        list(columns.iter().map(String::as_str))
    );
    Error::endpoint(message)
        .hint("add columns that make the key unique, such as `key = [\"created\", \"id\"]`, or create a unique index")
}

/// Returns true if the statement or the database proves that rows with the same values in the
/// columns `key` can't have other rows between them.
async fn is_told_apart(sql: &str, columns: &[&str], key: &[usize], source: &Source) -> Result<bool, Error> {
    let Ok(database) = source.database() else { return Ok(true) };
    let dialect = database.dialect();
    let Some(outline) = Outline::new(sql, dialect) else { return Ok(false) };
    if outline.is_ordered_by(columns, key) {
        return Ok(true);
    }
    let Some(unique) = &dialect.unique_keys else { return Ok(false) };
    let Some(table) = outline.table_name(unique.table) else { return Ok(false) };
    let origins = key.iter().filter_map(|&column| outline.origin(columns, column)).collect();
    let mut args = vec![ParamValue::Text(table), texts(origins)];
    if unique.functions == Functions::RepeatRows {
        args.push(texts(outline.functions()));
    }
    let asked = timeout(PATIENCE, has_row(unique.query, &args, source)).await;
    let asked = asked.unwrap_or_else(|_| Err(unanswered(source, "it reported no index", PATIENCE)));
    // A server that speaks PostgreSQL's protocol, but isn't PostgreSQL, may have another catalog.
    // Then we can't know.
    Ok(of_endpoint(asked)?.unwrap_or(false))
}

pub(super) fn texts(list: Vec<String>) -> ParamValue {
    ParamValue::List(list.into_iter().map(ParamValue::Text).collect())
}

/// Runs a query of our own, whose arguments are texts and lists of texts. Returns true if it has a
/// row.
pub(super) async fn has_row(sql: &str, args: &[ParamValue], source: &Source) -> Result<bool, Error> {
    let kind = |arg: &ParamValue| match arg {
        ParamValue::List(_) => BindType::List(ParamType::Text),
        _ => BindType::One(ParamType::Text),
    };
    let types = args.iter().map(kind).collect();
    let mut session = session(source, Snapshot::Statement).await?;
    session.prepare(&database::Statement { sql: sql.into(), types, ad_hoc: false }).await?;
    session.execute(0, &args.iter().collect::<Vec<_>>());
    let mut has_row = false;
    while poll_fn(|cx| session.poll_row(cx).map_ok(|row| row.is_some())).await? {
        has_row = true;
    }
    Ok(has_row)
}
