//! Results that a function or a procedure opens, and that are read in place of its own row:
//! refcursors, or the results of a procedure.
//!
//! The columns of a cursor, and so the encoder of its rows, are known only once it's open. So all
//! cursors are opened before the first chunk, and errors have a real status. They're opened after
//! every statement is prepared, because a statement that can't be prepared would end their
//! transaction.
//!
//! The results of a procedure arrive one after another, each after the rows of the previous one. We
//! wait for the first one here. The others are [awaited](AwaitedResult) when the body reaches them.

use std::collections::BTreeSet;
use std::future::poll_fn;

use rowstream_core::Error;
use rowstream_core::params::ParamValue;

use super::open::{WrittenForm, encoder, shape};
use super::steps::{AwaitedResult, Step};
use crate::database::{ResultSet, Session};
use crate::endpoint::{Endpoint, ResultRead, Statement, check_results};

/// The names of cursors in a row, by column.
type Names = Vec<Option<String>>;

/// Opens the results that `steps` read. A statement that opens several is called only once.
///
/// # Errors
/// The database's error for a statement; or an error for one that names no cursor, or whose cursor
/// doesn't fit its place in the body.
pub(super) async fn open(
    endpoint: &Endpoint,
    written: WrittenForm<'_>,
    session: &mut Session,
    steps: &mut [Step],
    values: &[ParamValue],
) -> Result<(), Error> {
    let mut called: Vec<(&str, Names)> = Vec::new();
    let mut read: BTreeSet<String> = BTreeSet::new();
    for at in 0..steps.len() {
        let Step::Rows(rows) = &steps[at] else { continue };
        let Some(reads) = rows.reads else { continue };
        let is_last = !steps[at + 1..].iter().any(|step| result(step).is_some());
        if called.is_empty() && reads.result().is_some() {
            check_order(endpoint, steps)?;
        }
        let Step::Rows(rows) = &mut steps[at] else { continue };
        let statement = &endpoint.statements()[rows.statement];
        let opener = statement.opened_by();
        let known = called.iter().position(|(known, _)| *known == opener);
        let place = match known {
            Some(place) => place,
            None => {
                // Boxed, as below, because few requests need it and all would carry it.
                let call = Box::pin(call(statement, rows.index, session, values));
                called.push((opener, call.await?));
                called.len() - 1
            }
        };
        let columns = match reads {
            ResultRead::Refcursor(column) => {
                let name = called[place].1.get(column).and_then(Option::as_deref);
                let name = name.ok_or_else(|| is_null(statement))?;
                if !read.insert(name.to_owned()) {
                    return Err(is_read_twice(statement));
                }
                Box::pin(session.open_refcursor(rows.index, name)).await?
            }
            ResultRead::Result(result) => {
                let result = ResultSet { is_last, ..result };
                if known.is_some() {
                    rows.awaited = Some(Box::new(awaited(result, written, statement)?));
                    continue;
                }
                poll_fn(|cx| session.poll_result(result, cx)).await?
            }
        };
        statement.check_columns(&columns)?;
        rows.encoder = encoder(written, statement.cardinality, &columns);
        rows.columns = columns.into();
    }
    Ok(())
}

/// The result that a step reads, if it reads one.
fn result(step: &Step) -> Option<ResultSet> {
    match step {
        Step::Rows(rows) => rows.reads.and_then(ResultRead::result),
        _ => None,
    }
}

fn check_order(endpoint: &Endpoint, steps: &[Step]) -> Result<(), Error> {
    let statement = |step: &Step| match step {
        Step::Rows(rows) => Some(rows.statement),
        Step::Nest(nest) => nest.counts().next().map(|(root, _)| root),
        _ => None,
    };
    let read = steps.iter().filter_map(|step| Some((&endpoint.statements()[statement(step)?], result(step))));
    check_results(read).map_err(|(_, error)| error)
}

fn awaited(
    result: ResultSet,
    WrittenForm { format, options, .. }: WrittenForm<'_>,
    statement: &Statement,
) -> Result<AwaitedResult, Error> {
    let shape = shape(format, statement.cardinality)
        .ok_or_else(|| Error::endpoint("this format supports the rows of only one statement"))?;
    Ok(AwaitedResult { result, shape, options })
}

/// Runs the statement that opens the cursor of `statement`. Returns its only row.
async fn call(
    statement: &Statement,
    index: usize,
    session: &mut Session,
    values: &[ParamValue],
) -> Result<Names, Error> {
    let args: Vec<&ParamValue> = statement.args.iter().map(|&arg| &values[arg]).collect();
    let mut rows = session.call(index, &args).await?;
    match (rows.pop(), rows.is_empty()) {
        (Some(row), true) => Ok(row),
        (None, _) => Err(Error::endpoint(format!("statement `{}` opens no cursor", statement.opened_by()))
            .hint("it must return one row with the refcursor, but returns none")),
        (Some(_), false) => Err(Error::endpoint(format!(
            "statement `{}` must return one row of refcursors, but returns more",
            statement.opened_by()
        ))
        .hint(
            "return several as columns of one row, and read each by its name: `-- name: opened :refcursors`",
        )),
    }
}

#[cold]
fn is_null(statement: &Statement) -> Error {
    let message = format!("the refcursor of statement `{}` is NULL", statement.name);
    Error::endpoint(message).hint("the function must open it and return it")
}

/// The first statement would take all rows of the cursor, and this one would be empty.
#[cold]
fn is_read_twice(statement: &Statement) -> Error {
    let message = format!("the refcursor of statement `{}` is that of another statement", statement.name);
    Error::endpoint(message).hint("the function must open a cursor for each")
}
