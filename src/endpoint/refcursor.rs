//! Which refcursor of a row a statement reads.

use rowstream_encode::Column;

use super::Statement;
use crate::Error;
use crate::diagnostic::suggest;

impl Statement {
    /// The name of the statement that opens its refcursor, if it reads one: another's, or its own.
    pub fn opened_by(&self) -> &str {
        self.opener.as_deref().unwrap_or(&self.name)
    }

    /// Where in a row of the opener's `columns` the refcursor stands whose rows are the
    /// statement's; `refcursors` are the columns that are such. `None`: the statement reads none,
    /// and the columns are those of its own rows.
    ///
    /// # Errors
    /// A refcursor beside other columns of a statement that is no opener; an opener's column that
    /// is no refcursor; no column of the statement's name.
    pub fn refcursor(&self, columns: &[Column], refcursors: &[usize]) -> Result<Option<usize>, Error> {
        match (&self.opener, refcursors, columns) {
            (None, [], _) => Ok(None),
            (None, _, [_]) => Ok(Some(0)),
            (None, [first, ..], _) => Err(self.beside_others(&columns[*first])),
            (Some(opener), _, _) => self.refcursor_of(opener, columns, refcursors).map(Some),
        }
    }

    /// Checks that its rows can be merged with those of others; `refcursors` are its columns that
    /// are such.
    ///
    /// # Errors
    /// They would be those of a refcursor.
    pub fn check_nestable(&self, refcursors: &[usize]) -> Result<(), Error> {
        if refcursors.is_empty() && self.opener.is_none() {
            return Ok(());
        }
        let message = format!("statement `{}` reads a refcursor, and its rows cannot be nested", self.name);
        Err(Error::endpoint(message).hint("nest queries, or functions that return a table"))
    }

    fn refcursor_of(&self, opener: &str, columns: &[Column], refcursors: &[usize]) -> Result<usize, Error> {
        // What a procedure says beside its cursors may be that it failed.
        if let Some(other) = (0..columns.len()).find(|column| !refcursors.contains(column)) {
            let Column { name, type_name, .. } = &columns[other];
            let message = format!(
                "statement `{opener}` has a column `{name}` of type {type_name}, and not of refcursor"
            );
            return Err(Error::endpoint(message).hint("have it yield refcursors alone"));
        }
        columns.iter().position(|column| column.name == self.name).ok_or_else(|| {
            let message = format!("statement `{opener}` opens no refcursor `{}`", self.name);
            let names = columns.iter().map(|column| column.name.as_str());
            Error::endpoint(message).hint(suggest("those that it opens are", &self.name, names))
        })
    }

    fn beside_others(&self, column: &Column) -> Error {
        let Column { name: refcursor, .. } = column;
        let message = format!("statement `{}` has a refcursor `{refcursor}` beside other columns", self.name);
        Error::endpoint(message).hint(format!(
            "for several, write `-- name: opened :refcursors` before it, and `-- name: {refcursor} :many from opened`; \
             for the name of a cursor as a text, cast it"
        ))
    }
}
