//! Statements that read a result that another statement opens: a refcursor in its row, or a result
//! of the procedure that it calls.

use rowstream_core::Error;
use rowstream_core::diagnostic::suggest;
use rowstream_encode::Column;

use super::Statement;
use crate::database::{ResultSet, RowSource};

/// The statement that opens results for others, as one of its readers sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opener {
    /// The opener's name.
    pub name: String,
    /// The number of its readers that precede this one in the file.
    pub place: usize,
    /// The number of its readers.
    pub readers: usize,
}

/// The rows that a statement reads instead of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResultRead {
    /// The cursor that this column of the opener's row names.
    Refcursor(usize),
    /// A result of the procedure that the opener calls.
    Result(ResultSet),
}

impl ResultRead {
    /// The procedure's result, if this is one.
    pub fn result(self) -> Option<ResultSet> {
        match self {
            Self::Refcursor(_) => None,
            Self::Result(result) => Some(result),
        }
    }
}

impl Statement {
    /// The name of the opener, or else the statement's own name.
    pub fn opened_by(&self) -> &str {
        self.opener.as_ref().map_or(&self.name, |opener| &opener.name)
    }

    /// Finds the rows that it reads. `columns` are those of the opener's row, and `rows` is the
    /// origin of the rows in the database. Returns `None` if `columns` belong to the statement's
    /// own rows.
    ///
    /// # Errors
    /// A statement that isn't an opener has a refcursor beside other columns. An opener has a
    /// column that isn't a refcursor, or no column with this statement's name.
    pub fn reads(&self, columns: &[Column], rows: RowSource<'_>) -> Result<Option<ResultRead>, Error> {
        match (&self.opener, rows, columns) {
            (None, RowSource::Own, _) => Ok(None),
            (None, RowSource::Results, _) => {
                Ok(Some(ResultRead::Result(ResultSet { place: 0, of: 1, is_last: true })))
            }
            (None, RowSource::Refcursors(_), [_]) => Ok(Some(ResultRead::Refcursor(0))),
            (None, RowSource::Refcursors(refcursors), _) => Err(self.beside_others(columns, refcursors)),
            (Some(Opener { place, readers, .. }), RowSource::Results, _) => {
                let (place, of) = (*place, *readers);
                Ok(Some(ResultRead::Result(ResultSet { place, of, is_last: place + 1 == of })))
            }
            (Some(opener), RowSource::Own, _) => self.refcursor_of(&opener.name, columns, &[]).map(Some),
            (Some(opener), RowSource::Refcursors(refcursors), _) => {
                self.refcursor_of(&opener.name, columns, refcursors).map(Some)
            }
        }
    }

    /// Checks that its rows can be merged with those of other statements. `rows` is their origin in
    /// the database.
    ///
    /// # Errors
    /// The rows are those of a refcursor, or of a procedure.
    pub fn check_nestable(&self, rows: RowSource<'_>) -> Result<(), Error> {
        let what = match rows {
            RowSource::Own if self.opener.is_none() => return Ok(()),
            RowSource::Results => "calls a procedure",
            RowSource::Own | RowSource::Refcursors(_) => "reads a refcursor",
        };
        let message = format!("statement `{}` {what}, so its rows can't be nested", self.name);
        Err(Error::endpoint(message).hint("nest queries, or functions that return a table"))
    }

    fn refcursor_of(
        &self,
        opener: &str,
        columns: &[Column],
        refcursors: &[usize],
    ) -> Result<ResultRead, Error> {
        // In the other columns, a procedure may report that it failed.
        if let Some(other) = (0..columns.len()).find(|column| !refcursors.contains(column)) {
            let Column { name, type_name, .. } = &columns[other];
            let message = format!(
                "statement `{opener}` has a column `{name}` of type {type_name} instead of refcursor"
            );
            return Err(Error::endpoint(message).hint("let it return only refcursors"));
        }
        let column = columns.iter().position(|column| column.name == self.name).ok_or_else(|| {
            let message = format!("statement `{opener}` opens no refcursor `{}`", self.name);
            let names = columns.iter().map(|column| column.name.as_str());
            Error::endpoint(message).hint(suggest("those that it opens are", &self.name, names))
        })?;
        Ok(ResultRead::Refcursor(column))
    }

    fn beside_others(&self, columns: &[Column], refcursors: &[usize]) -> Error {
        let refcursor = refcursors.first().map_or("", |&first| &columns[first].name);
        let message = format!("statement `{}` has a refcursor `{refcursor}` beside other columns", self.name);
        Error::endpoint(message).hint(format!(
            "for several, write `-- name: opened :refcursors` before it, and `-- name: {refcursor} :many from opened`; \
             to get the name of a cursor as a text, cast it"
        ))
    }
}

/// Checks that a response can read the results of a procedure, which arrive one after another as
/// soon as it's called. `read` has the response's statements in their order, with the results that
/// they read.
///
/// # Errors
/// Other statements precede the readers or are between them, or the readers are in another order.
pub(crate) fn check_results<'a>(
    read: impl Iterator<Item = (&'a Statement, Option<ResultSet>)>,
) -> Result<(), (&'a Statement, Error)> {
    let mut before: Option<(&Statement, Option<ResultSet>)> = None;
    for (statement, result) in read {
        let refused = match (result, before) {
            (None, _) | (Some(_), None) => None,
            (Some(_), Some((other, None))) => Some(behind_others(statement, other)),
            (Some(result), Some((other, Some(last)))) => match other.opened_by() == statement.opened_by() {
                false => Some(behind_others(statement, other)),
                true => (result.place < last.place).then(|| out_of_order(statement, other)),
            },
        };
        if let Some(error) = refused {
            return Err((statement, error));
        }
        before = Some((statement, result));
    }
    Ok(())
}

#[cold]
fn behind_others(statement: &Statement, other: &Statement) -> Error {
    let message = format!(
        "a procedure returns its rows when it's called, so `{}` must be first in the body, before `{}`",
        statement.name, other.name
    );
    Error::endpoint(message).hint("put it before other statements, and call one procedure in an endpoint")
}

#[cold]
fn out_of_order(statement: &Statement, other: &Statement) -> Error {
    let (name, other) = (&statement.name, &other.name);
    let message = format!(
        "`{}` returns its results in the order of the file, so `{name}` must precede `{other}` in the body",
        statement.opened_by()
    );
    Error::endpoint(message).hint(format!("place `${name}` before `${other}`"))
}
