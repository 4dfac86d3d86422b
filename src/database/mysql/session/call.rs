//! Rows of procedures: `call p(…)`.
//!
//! Which columns the result of a procedure has is known only once it has been called, and then its
//! rows come, whether or not anybody wants them. So it is called before the first chunk, as the
//! openers of refcursors are ([`crate::database::Session::call`]); its columns are read, and nothing
//! else runs before its last row has come:
//!
//! ```text
//!                  call                   columns                  poll_row
//!   prepared ────────────────► Called ──────────────► Described ───────────► rows ─► OK
//! ```
//!
//! One result is read. A second one has no place in a response, and is an error.

use std::sync::Arc;

use rowstream_encode::{Column, ColumnKind};

use super::super::packet::Definition;
use super::super::statement::Prepared;
use super::{DIALECT, Session, Shared, State, described};
use crate::Error;
use crate::database::Snapshot;
use crate::params::ParamValue;
use crate::sql::Outline;

/// Columns of a result at most, which is also what a table may have.
const COLUMNS_AT_MOST: usize = 4096;

/// How far a procedure has come.
#[derive(Debug)]
pub(super) enum Call {
    /// The columns of its result are to come; these are here.
    Called(Vec<Definition>),
    /// They are known, and the rows come.
    Described,
}

impl Default for Call {
    fn default() -> Self {
        Self::Called(Vec::new())
    }
}

impl Call {
    /// A result begins.
    pub(super) fn begin_result(&self) -> Result<(), Error> {
        match self {
            Self::Called(_) => Ok(()),
            Self::Described => Err(Error::endpoint("the procedure has more than one result")
                .hint("have it end with one `select`: what stands in a response is one result")),
        }
    }

    pub(super) fn column(&mut self, definition: Definition) -> Result<(), Error> {
        match self {
            Self::Called(definitions) if definitions.len() < COLUMNS_AT_MOST => {
                definitions.push(definition);
                Ok(())
            }
            _ => Err(Error::protocol("the database sent more columns than a result can have")),
        }
    }

    /// All columns have come: what reads the rows of `prepared`, now that it has been called.
    pub(super) fn described(&mut self, shared: &Shared, prepared: &Prepared) -> Result<Prepared, Error> {
        let Self::Called(definitions) = std::mem::replace(self, Self::Described) else {
            return Err(Error::protocol("the database described a result twice"));
        };
        let (columns, decoders) = described(shared, &definitions)?;
        let Prepared { id, parameters, is_call, .. } = *prepared;
        let (sql, limits) = (Arc::clone(&prepared.sql), prepared.limits.clone());
        Ok(Prepared { id, sql, columns, decoders, is_call, parameters, limits })
    }
}

/// Whether a statement calls a procedure.
pub(super) fn is_call(sql: &str) -> bool {
    Outline::new(sql, &DIALECT).is_some_and(|outline| outline.begins_with("call"))
}

/// What stands for the columns of a procedure's result until they are known.
pub(super) fn result_set() -> Column {
    Column { name: "result".to_owned(), type_name: "result".to_owned(), kind: ColumnKind::Text }
}

impl Session {
    /// Whether a procedure was called whose rows come.
    pub(super) fn is_called(&self) -> bool {
        matches!(&self.state, State::Running(running) if running.execution.call.is_some())
    }

    /// See [`crate::database::Session::refcursors`].
    pub(in super::super) fn results(&self, index: usize) -> &[usize] {
        if self.prepared.get(index).is_some_and(|prepared| prepared.is_call) { &[0] } else { &[] }
    }

    /// See [`crate::database::Session::call`]. The only result has no name.
    pub(in super::super) fn call_procedure(
        &mut self,
        index: usize,
        args: &[&ParamValue],
    ) -> Result<Vec<Vec<Option<String>>>, Error> {
        if index > 0 || self.is_called() {
            let message =
                "the rows of a procedure come when it is called, so it must stand first in the body";
            return Err(
                Error::endpoint(message).hint("put it before other statements, and call one in an endpoint")
            );
        }
        self.snapshot = Snapshot::Transaction;
        let sent = self.execute_statement(index, args);
        self.enter(sent.map(State::Running));
        Ok(vec![vec![Some(String::new())]])
    }

    /// See [`crate::database::Session::open_refcursor`]: waits for the columns of the result.
    pub(in super::super) async fn describe_result(&mut self) -> Result<Arc<[Column]>, Error> {
        loop {
            if let State::Running(running) = &self.state
                && let Some(Call::Described) = running.execution.call
            {
                return Ok(Arc::clone(&running.execution.prepared.columns));
            }
            if !self.is_called() {
                return Err(self.fail_unsent());
            }
            let frame = self.frame().await?;
            if self.control(&frame)? {
                return Err(Error::endpoint("the procedure has no result")
                    .hint("have it end with a `select`, whose rows are the answer"));
            }
        }
    }
}
