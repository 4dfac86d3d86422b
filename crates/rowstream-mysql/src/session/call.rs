//! Results of procedures: `call p(…)`.
//!
//! We learn the columns of a result only once the procedure has reached it. Then the server sends
//! its rows, even if the response doesn't read them, and after them the next result. So we call the
//! procedure before the first chunk, like the openers of refcursors
//! ([`rowstream_database::DatabaseSession::call`]), and read its results in their order. No other command runs
//! before it has ended:
//!
//! ```text
//!           call              poll_result              poll_row
//!   prepared ───► between ──────────────────► in rows ─────────► between ─► … ─► OK
//!                    └── a result that isn't read ────┘
//! ```
//!
//! We skip results that a response doesn't read, and we also read everything after its last result.
//! So an error anywhere in the procedure is an error of the response. The endpoint's file says how
//! many results there are, and another number is an error.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::task::{Context, Poll, ready};

use rowstream_core::Error;
use rowstream_core::params::ParamValue;
use rowstream_core::sql::Outline;
use rowstream_database::pipeline::DelayRecord;
use rowstream_database::{ResultSet, RowSource, Snapshot};
use rowstream_encode::{Column, ColumnKind};

use super::super::DIALECT;
use super::super::answer::Stage;
use super::super::packet::Definition;
use super::super::statement::{Prepared, StatementDescription};
use super::{Execution, Progress, RunningStatement, Session, SourceState, State, described};

/// The most columns of a result, and of a table.
const COLUMNS_AT_MOST: usize = 4096;

/// How far a procedure has got.
#[derive(Debug)]
pub(super) struct Call {
    /// The result that we read now, or read last.
    result: ResultSet,
    /// The number of results that have begun.
    begun: usize,
    /// The columns of the result that begins, as far as they have arrived.
    definitions: Vec<Definition>,
    /// True while its rows arrive.
    in_rows: bool,
}

impl Default for Call {
    fn default() -> Self {
        let result = ResultSet { place: 0, of: 1, is_last: true };
        Self { result, begun: 0, definitions: Vec::new(), in_rows: false }
    }
}

impl Call {
    /// Records the start of a result.
    pub(super) fn begin_result(&mut self) -> Result<(), Error> {
        if self.begun == self.result.of {
            return Err(too_many(self.result.of));
        }
        self.begun += 1;
        self.definitions.clear();
        Ok(())
    }

    pub(super) fn column(&mut self, definition: Definition) -> Result<(), Error> {
        if self.definitions.len() == COLUMNS_AT_MOST {
            return Err(Error::protocol("the database sent more columns than a result can have"));
        }
        self.definitions.push(definition);
        Ok(())
    }

    /// Ends the columns. Returns `prepared` with the columns and decoders of this result, or `None`
    /// if the response doesn't read it.
    pub(super) fn described(
        &mut self,
        shared: &SourceState,
        prepared: &Prepared,
    ) -> Result<Option<Prepared>, Error> {
        self.in_rows = true;
        if !self.is_read() {
            return Ok(None);
        }
        let StatementDescription { parameters, is_call, computed_bits, effect, .. } = *prepared.described;
        let (columns, decoders) = described(shared.reading(computed_bits), &self.definitions)?;
        let (sql, limits) = (Arc::clone(&prepared.sql), prepared.limits.clone());
        let (packets, slow) = (Box::default(), DelayRecord::default());
        let described = StatementDescription {
            sql,
            columns,
            decoders,
            packets,
            is_call,
            parameters,
            limits,
            computed_bits,
            effect,
            has_left_state: AtomicBool::new(false),
            slow,
        };
        Ok(Some(Prepared { id: prepared.id, described: Arc::new(described) }))
    }

    /// Returns true if the response reads the result that has begun last.
    fn is_read(&self) -> bool {
        self.begun == self.result.place + 1
    }
}

impl RunningStatement {
    /// Handles the last row of a result, after which the procedure continues. Returns true if that
    /// ends the rows that the response reads.
    pub(super) fn end_result(&mut self) -> bool {
        let Some(call) = &mut self.execution.call else { return false };
        call.in_rows = false;
        if call.is_read() && call.result.is_last {
            self.progress = Progress::Unread(Stage::Head);
        }
        call.is_read() && !call.result.is_last
    }
}

/// Returns true if a statement calls a procedure.
pub(in super::super) fn is_call(sql: &str) -> bool {
    Outline::new(sql, &DIALECT).is_some_and(|outline| outline.begins_with("call"))
}

/// A placeholder for the columns of a procedure's result until we know them.
pub(in super::super) fn result_set() -> Column {
    Column { name: "result".to_owned(), type_name: "result".to_owned(), kind: ColumnKind::Text }
}

#[cold]
fn too_many(of: usize) -> Error {
    let message = match of {
        1 => "the procedure has more than one result".to_owned(),
        _ => format!("the procedure has more results than the {of} that are read"),
    };
    Error::endpoint(message).hint(
        "read each with its own statement: write `-- name: opened :refcursors` before the `call`, and after it `-- name: NAME :many from opened` for each, in the procedure's order",
    )
}

#[cold]
fn too_few(begun: usize, result: ResultSet) -> Error {
    match (begun, result.of) {
        (0, _) => Error::endpoint("the procedure has no result")
            .hint("end it with a `select`, whose rows are the answer"),
        (_, of) => Error::endpoint(format!("the procedure has {begun} results, but {of} are read"))
            .hint("let it `select` for each statement that reads it, even if there are no rows"),
    }
}

impl Session {
    /// Returns true if a procedure was called and hasn't ended.
    pub(super) fn is_called(&self) -> bool {
        matches!(&self.state, State::Running(running) if running.execution.call.is_some())
    }

    /// See [`rowstream_database::DatabaseSession::rows_of`].
    pub(in super::super) fn rows_of(&self, index: usize) -> RowSource<'_> {
        let is_call = self.prepared.get(index).is_some_and(|prepared| prepared.is_call);
        if is_call { RowSource::Results } else { RowSource::Own }
    }

    /// See [`rowstream_database::DatabaseSession::call`].
    pub(in super::super) fn call_procedure(&mut self, index: usize, args: &[&ParamValue]) {
        self.snapshot = Snapshot::Transaction;
        let sent = self.execute_statement(index, args);
        self.enter(sent.map(State::Running));
    }

    /// See [`rowstream_database::DatabaseSession::poll_result`].
    pub(in super::super) fn poll_result(
        &mut self,
        result: ResultSet,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Arc<[Column]>, Error>> {
        loop {
            let State::Running(RunningStatement {
                execution: Execution { call: Some(call), prepared, .. },
                ..
            }) = &mut self.state
            else {
                return Poll::Ready(Err(self.fail_unsent()));
            };
            call.result = result;
            if call.in_rows && call.is_read() {
                return Poll::Ready(Ok(Arc::clone(&prepared.columns)));
            }
            let begun = call.begun;
            let frame = match ready!(self.wire().poll_frame(cx)) {
                Ok(frame) => frame,
                Err(error) => return Poll::Ready(Err(self.broken(error))),
            };
            self.control(&frame)?;
            if !self.is_called() {
                return Poll::Ready(Err(too_few(begun, result)));
            }
        }
    }
}
