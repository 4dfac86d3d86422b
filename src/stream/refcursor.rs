//! Refcursors: what a function or procedure opens is read in the place of its own row.
//!
//! The columns of a cursor are known only once it is open, and with them what encodes its rows. So
//! all of them are opened before the first chunk, once every statement is prepared: a statement
//! that cannot be prepared would end their transaction. What fails here has a real status.

use rowstream_encode::{Format, ValueOptions};

use super::open::encoder;
use super::producer::Producer;
use super::steps::Step;
use crate::Error;
use crate::endpoint::{Endpoint, Statement};
use crate::params::ParamValue;

/// The names of cursors in a row, by column.
type Names = Vec<Option<String>>;

/// Opens the cursors that `steps` read: each statement that opens some is called once, however many
/// are read of it.
///
/// # Errors
/// What the database says of a statement; one that names no cursor, or whose cursor does not fit
/// its place in the body.
pub(super) async fn open(
    endpoint: &Endpoint,
    written: (Format, ValueOptions),
    session: &mut Producer,
    steps: &mut [Step],
    values: &[ParamValue],
) -> Result<(), Error> {
    let mut called: Vec<(&str, Names)> = Vec::new();
    for step in steps {
        let Step::Rows(rows) = step else { continue };
        let Some(column) = rows.refcursor else { continue };
        let statement = &endpoint.statements()[rows.statement];
        let opener = statement.opened_by();
        if !called.iter().any(|(known, _)| *known == opener) {
            // Boxed, as below: each request would carry what few need.
            let call = Box::pin(call(statement, rows.index, session, values));
            called.push((opener, call.await?));
        }
        let names = called.iter().find(|(known, _)| *known == opener).map(|(_, names)| names);
        let name = names.and_then(|names| names.get(column)?.as_deref());
        let name = name.ok_or_else(|| is_null(statement))?;
        let columns = Box::pin(session.open_refcursor(rows.index, name)).await?;
        statement.check_columns(&columns)?;
        rows.encoder = encoder(endpoint, written, statement.cardinality, &columns);
    }
    Ok(())
}

/// Runs the statement that opens the cursor of `statement`; its only row.
async fn call(
    statement: &Statement,
    index: usize,
    session: &mut Producer,
    values: &[ParamValue],
) -> Result<Names, Error> {
    let args: Vec<&ParamValue> = statement.args.iter().map(|&arg| &values[arg]).collect();
    let mut rows = session.call(index, &args).await?;
    match (rows.pop(), rows.is_empty()) {
        (Some(row), true) => Ok(row),
        (None, _) => Err(Error::endpoint(format!("statement `{}` opens no cursor", statement.opened_by()))
            .hint("it must yield one row with the refcursor, and yields none")),
        (Some(_), false) => Err(Error::endpoint(format!(
            "statement `{}` must yield one row of refcursors, and yields more",
            statement.opened_by()
        ))
        .hint("have it yield several as columns of one row, and read each by its name: `-- name: opened :refcursors`")),
    }
}

#[cold]
fn is_null(statement: &Statement) -> Error {
    let message = format!("the refcursor of statement `{}` is NULL", statement.name);
    Error::endpoint(message).hint("the function has to open it, and to return it")
}
