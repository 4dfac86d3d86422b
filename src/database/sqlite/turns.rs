//! Statements that are read by turns: the session's side. It asks the worker for a portion of one
//! of them when the rows that it has of that one have been read, so it holds a portion of each, of
//! some 32 KiB.

use std::sync::Arc;
use std::task::{Context, Poll, ready};

use super::handover::{Batch, Command, Fetch, Reply, Run};
use super::known::Described;
use super::{Phase, Row, Session, batch, bind, out_of_order};
use crate::Error;
use crate::database::Snapshot;
use crate::params::ParamValue;

/// The statements of one session that are read by turns.
#[derive(Default)]
pub(super) struct Turns {
    /// What the worker has not been told yet.
    runs: Option<Vec<Run>>,
    open: Vec<Turn>,
    /// Whose rows have been asked for.
    asked: Option<usize>,
}

/// One of them.
struct Turn {
    statement: Arc<Described>,
    /// The rows that are read, and where the next one begins.
    rows: Vec<u8>,
    at: usize,
    /// How the statement ended, if it has, behind these rows.
    end: Option<Result<(), Error>>,
}

impl Turn {
    #[inline]
    fn has_row(&self) -> bool {
        self.at < self.rows.len()
    }
}

impl Session {
    /// See [`crate::database::Session::execute_together`].
    pub fn execute_together(&mut self, runs: &[(usize, Vec<&ParamValue>)]) {
        debug_assert_eq!(self.snapshot, Snapshot::Transaction, "the worker opens a transaction");
        if !matches!(self.phase, Phase::Ready) {
            self.phase = Phase::Failed(Some(out_of_order()));
            return;
        }
        self.phase = Phase::Streaming;
        let statement = |index: &usize| Arc::clone(&self.statements[*index]);
        let open = runs.iter().map(|(index, _)| Turn {
            statement: statement(index),
            rows: Vec::new(),
            at: 0,
            end: None,
        });
        let told = runs.iter().map(|(index, args)| Run {
            statement: statement(index),
            args: args.iter().map(|arg| bind::value(arg)).collect(),
        });
        self.turns = Turns { runs: Some(told.collect()), open: open.collect(), asked: None };
    }

    /// See [`crate::database::Session::poll_row_of`].
    ///
    /// # Errors
    /// The statement failed, after the rows before.
    #[inline]
    pub fn poll_row_of(
        &mut self,
        which: usize,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Row<'_>>, Error>> {
        if let Phase::Failed(error) = &mut self.phase {
            return Poll::Ready(Err(error.take().unwrap_or_else(out_of_order)));
        }
        while !self.turns.open[which].has_row() {
            match self.turns.open[which].end {
                None => ready!(self.poll_portion(which, cx))?,
                Some(Ok(())) => return Poll::Ready(Ok(None)),
                Some(Err(_)) => return Poll::Ready(Err(self.fail(which))),
            }
        }
        Poll::Ready(Ok(Some(self.row_of(which))))
    }

    #[inline]
    fn row_of(&mut self, which: usize) -> Row<'_> {
        let turn = &mut self.turns.open[which];
        let (values, next) = batch::row_at(&turn.rows, turn.at);
        turn.at = next;
        let Described { columns, plans, .. } = &*turn.statement;
        Row { values, plans, columns }
    }

    /// Waits for what has been asked for, and asks for rows of statement `which` if nothing has.
    fn poll_portion(&mut self, which: usize, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let asked = match self.turns.asked {
            Some(asked) => asked,
            None => self.ask(which),
        };
        let reply = ready!(self.link().poll_reply(cx));
        self.turns.asked = None;
        match reply {
            Reply::Rows(Batch { rows, end }) => {
                let turn = &mut self.turns.open[asked];
                (turn.rows, turn.at, turn.end) = (rows, 0, end);
                if self.turns.open.iter().all(|turn| matches!(turn.end, Some(Ok(())))) {
                    self.phase = Phase::Ready;
                }
                Poll::Ready(Ok(()))
            }
            Reply::Failed(error) => {
                self.phase = Phase::Failed(None);
                Poll::Ready(Err(error))
            }
            Reply::Opened | Reply::Described(_) => {
                self.phase = Phase::Failed(None);
                Poll::Ready(Err(out_of_order()))
            }
        }
    }

    fn ask(&mut self, which: usize) -> usize {
        let fetch = Fetch { which, rows: std::mem::take(&mut self.turns.open[which].rows) };
        self.turns.open[which].at = 0;
        self.turns.asked = Some(which);
        let command = match self.turns.runs.take() {
            Some(runs) => Command::ExecuteTogether(runs, fetch),
            None => Command::Fetch(fetch),
        };
        self.link().send(command);
        which
    }

    /// The error with which statement `which` ended.
    #[cold]
    fn fail(&mut self, which: usize) -> Error {
        self.phase = Phase::Failed(None);
        match self.turns.open[which].end.take() {
            Some(Err(error)) => error,
            _ => out_of_order(),
        }
    }
}
