//! Interleaves the rows of several statements on one connection.
//!
//! Each statement has a cursor of its own in the transaction: the server puts its rows into a
//! table, and we fetch them in portions. Only one command is pending at a time, for one of the
//! statements:
//!
//! ```text
//!            execute              Opened                  fetch
//!   bound ────────────► asked ─────────────► suspended ─────────► asked
//!                         │                       ▲                 │
//!                         │                       └── End ──────────┤
//!                         └── End, without a cursor ──► complete ◄──┘ End, of the last row
//! ```
//!
//! Invariants:
//! 1. if the caller wants rows of the portion that arrives, we lend them in place. Otherwise we
//!    copy and hold them;
//! 2. we ask for no more rows of a statement while some of its rows are held, so it holds at most
//!    one portion ([`portions`]);
//! 3. a statement ends with `None` only after the EOF that follows its last row.

use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rowstream_core::Error;
use rowstream_core::params::ParamValue;
use rowstream_database::Snapshot;
use rowstream_database::portions::{self, HeldRows, PortionSizer};

use super::super::answer::{Stage, Step};
use super::super::connect::query_command;
use super::super::packet::OK;
use super::super::statement::{Cursor, Prepared};
use super::super::value::Row;
use super::super::wire::{Frame, out_of_order};
use super::{Execution, PendingAnswers, PrefaceResult, Session, State, note_column, prefaced};

/// The interleaved statements of one session.
pub(super) struct InterleavedStatements {
    open: Vec<OpenStatement>,
    /// The command that the server hasn't answered yet.
    sent: Option<SentCommand>,
}

/// A command that we sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SentCommand {
    /// See [`Session::preface`].
    Preface,
    /// A statement, or the next portion of its rows.
    Of(usize, Stage, Command),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Command {
    Execute,
    Fetch,
}

/// One of the statements.
struct OpenStatement {
    execution: Execution,
    state: RowsState,
    portion: PortionSizer,
    held: HeldRows,
}

/// How far the rows of a statement have got.
enum RowsState {
    /// We haven't sent this command yet.
    Bound(Vec<u8>),
    /// The pending command belongs to this statement.
    Asked,
    /// There may be more rows.
    Suspended,
    /// The last row has arrived.
    Complete,
}

impl InterleavedStatements {
    /// The statement whose answer arrives.
    pub(super) fn coming(&self) -> Option<&Arc<Prepared>> {
        match self.sent {
            Some(SentCommand::Of(which, ..)) => Some(&self.open[which].execution.prepared),
            _ => None,
        }
    }

    /// The texts of the statements whose cursors are open.
    pub(super) fn unfinished(&self) -> impl Iterator<Item = &str> {
        let is_open = |one: &&OpenStatement| matches!(one.state, RowsState::Asked | RowsState::Suspended);
        self.open.iter().filter(is_open).map(|one| &*one.execution.prepared.sql)
    }

    /// Returns true if the statement of the pending command may change the session.
    pub(super) fn may_change(&self) -> bool {
        self.coming().is_some_and(|prepared| prepared.may_change())
    }

    /// The pending answers.
    pub(super) fn rest(&self) -> PendingAnswers {
        match self.sent {
            None => PendingAnswers::Nothing,
            Some(SentCommand::Preface) => PendingAnswers::Preface,
            Some(SentCommand::Of(_, stage, _)) => PendingAnswers::Answers(stage, 1),
        }
    }
}

impl Session {
    /// See [`rowstream_database::DatabaseSession::execute_interleaved`].
    pub fn execute_interleaved(&mut self, runs: &[(usize, Vec<&ParamValue>)]) {
        debug_assert_eq!(self.snapshot, Snapshot::Transaction, "cursors are of one snapshot");
        let open = |(index, args): &(usize, Vec<&ParamValue>)| {
            let prepared = Arc::clone(&self.prepared[*index]);
            let command = prepared.execute(args, Cursor::ReadOnly)?;
            let state = RowsState::Bound(command);
            let execution = Execution::new(prepared);
            Ok(OpenStatement {
                execution,
                state,
                portion: PortionSizer::default(),
                held: HeldRows::default(),
            })
        };
        let open = runs.iter().map(open).collect::<Result<_, _>>();
        self.enter(open.map(|open| State::Interleaved(InterleavedStatements { open, sent: None })));
    }

    /// See [`rowstream_database::DatabaseSession::poll_row_of`].
    ///
    /// # Errors
    /// A statement failed, the connection was lost, or the server broke the protocol.
    #[inline]
    pub fn poll_row_of(
        &mut self,
        which: usize,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Row<'_>>, Error>> {
        loop {
            let State::Interleaved(all) = &mut self.state else {
                return Poll::Ready(Err(self.fail_unsent()));
            };
            if !all.open[which].held.is_empty() {
                return Poll::Ready(self.held_row(which).map(Some));
            }
            if let RowsState::Complete = all.open[which].state {
                return Poll::Ready(Ok(None));
            }
            if all.sent.is_none() {
                self.ask(which)?;
            }
            let frame = match ready!(self.wire().poll_frame(cx)) {
                Ok(frame) => frame,
                Err(error) => return Poll::Ready(Err(self.broken(error))),
            };
            match self.take(&frame)? {
                Some(coming) if coming == which => {
                    return Poll::Ready(self.row_in_place(which, &frame).map(Some));
                }
                Some(coming) => self.hold(coming, &frame)?,
                None => {}
            }
        }
    }

    /// Sends the command for the next rows of a statement.
    fn ask(&mut self, which: usize) -> Result<(), Error> {
        let preface = self.preface();
        let limit = portions::longest(self.shared.fetch_rows);
        let (State::Interleaved(all), Some((_, connection))) = (&mut self.state, &mut self.held) else {
            return Err(out_of_order());
        };
        if let Some(preface) = preface {
            connection.wire.command(&query_command(&preface));
            all.sent = Some(SentCommand::Preface);
            return Ok(());
        }
        let open = &mut all.open[which];
        let (stage, command) = match &open.state {
            RowsState::Bound(command) => {
                connection.wire.command(command);
                (Stage::Head, Command::Execute)
            }
            _ => {
                let rows = open.portion.begin(limit);
                connection.wire.command(&open.execution.prepared.fetch(rows));
                (Stage::Rows, Command::Fetch)
            }
        };
        open.state = RowsState::Asked;
        all.sent = Some(SentCommand::Of(which, stage, command));
        Ok(())
    }

    /// Handles a packet. If it's a row, returns the index of its statement.
    #[inline]
    fn take(&mut self, frame: &Frame) -> Result<Option<usize>, Error> {
        match &self.state {
            State::Interleaved(InterleavedStatements {
                sent: Some(SentCommand::Of(which, Stage::Rows, _)),
                ..
            }) if frame.tag == OK => Ok(Some(*which)),
            _ => self.control_of(frame).map(|()| None),
        }
    }

    fn control_of(&mut self, frame: &Frame) -> Result<(), Error> {
        let (State::Interleaved(all), Some((_, connection))) = (&mut self.state, &mut self.held) else {
            return Err(self.broken(out_of_order()));
        };
        let InterleavedStatements { open, sent } = all;
        let (which, step, command) = match sent {
            Some(SentCommand::Of(which, stage, command)) => (*which, stage.step(connection, frame), *command),
            Some(SentCommand::Preface) => match prefaced(connection, frame) {
                PrefaceResult::Yes => {
                    *sent = None;
                    return Ok(());
                }
                PrefaceResult::No(step) => (0, step, Command::Execute),
            },
            None => return Err(self.broken(out_of_order())),
        };
        let open = &mut open[which];
        match step {
            Step::Counted(columns) => open.execution.count(columns).map_err(|error| self.stale(error))?,
            Step::Column { last } => {
                let noted = note_column(&mut open.execution, &self.shared, connection, frame, last);
                noted.map_err(|error| self.stale(error))?;
            }
            Step::Described => {
                open.execution.settle(&self.shared)?;
            }
            Step::Opened => {
                open.execution.settle(&self.shared)?;
                open.state = RowsState::Suspended;
                *sent = None;
            }
            Step::End { opened: true, .. } if command == Command::Execute => {
                open.state = RowsState::Suspended;
                *sent = None;
            }
            // A portion without rows must be the last one. Otherwise they could continue for ever.
            Step::End { last: false, .. } if command == Command::Fetch && open.portion.is_empty() => {
                return Err(self.broken(out_of_order()));
            }
            Step::End { last, .. } => {
                open.portion.end();
                let complete = last || command == Command::Execute;
                open.state = if complete { RowsState::Complete } else { RowsState::Suspended };
                *sent = None;
            }
            Step::Failed(error) => return Err(self.failed(error)),
            Step::Row | Step::Another | Step::Done | Step::Broken => return Err(self.broken(out_of_order())),
        }
        Ok(())
    }

    #[inline]
    fn held_row(&mut self, which: usize) -> Result<Row<'_>, Error> {
        let State::Interleaved(all) = &mut self.state else { return Err(out_of_order()) };
        let OpenStatement { execution, held, .. } = &mut all.open[which];
        let data = held.take().ok_or_else(out_of_order)?;
        Ok(execution.row(data, &mut self.scratch))
    }

    #[inline]
    fn row_in_place(&mut self, which: usize, frame: &Frame) -> Result<Row<'_>, Error> {
        let (Some((_, connection)), State::Interleaved(all)) = (&self.held, &mut self.state) else {
            return Err(out_of_order());
        };
        let open = &mut all.open[which];
        let data = connection.wire.body(frame);
        open.portion.note(data.len());
        Ok(open.execution.row(data, &mut self.scratch))
    }

    fn hold(&mut self, coming: usize, frame: &Frame) -> Result<(), Error> {
        let (Some((_, connection)), State::Interleaved(all)) = (&self.held, &mut self.state) else {
            return Err(out_of_order());
        };
        let open = &mut all.open[coming];
        let row = connection.wire.body(frame);
        open.portion.note(row.len());
        open.held.push(row, connection.wire.limit())
    }
}
