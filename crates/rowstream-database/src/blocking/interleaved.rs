//! The session's side of interleaved statements. It asks the worker for a portion of a statement
//! once it has read the previous one. So it holds one portion of each, of some 32 KiB.

use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rowstream_core::Error;
use rowstream_core::params::ParamValue;

use super::handover::{Command, FetchRequest, RowBatch, StatementRun, WorkerReply};
use super::session::{Phase, Session, out_of_order};
use super::{Driver, StatementDescription, batch};
use crate::Snapshot;

/// The interleaved statements of one session.
pub(super) struct InterleavedStatements<D: Driver> {
    /// The statements, until we send them to the worker.
    runs: Option<Vec<StatementRun<D>>>,
    open: Vec<OpenStatement<D::Plan>>,
    /// The statement whose rows we have requested.
    asked: Option<usize>,
}

/// One interleaved statement.
struct OpenStatement<P> {
    statement: Arc<StatementDescription<P>>,
    /// The current portion, and the position of its next row in `at`.
    rows: Vec<u8>,
    at: usize,
    /// The statement's result, after these rows.
    end: Option<Result<(), Error>>,
}

impl<P> OpenStatement<P> {
    #[inline]
    fn has_row(&self) -> bool {
        self.at < self.rows.len()
    }
}

impl<D: Driver> InterleavedStatements<D> {
    /// For a session without interleaved statements.
    pub(super) fn none() -> Self {
        Self { runs: None, open: Vec::new(), asked: None }
    }
}

impl<D: Driver> Session<D> {
    pub(super) fn begin_interleaved(&mut self, runs: &[(usize, Vec<&ParamValue>)]) {
        debug_assert_eq!(self.snapshot, Snapshot::Transaction, "the worker opens a transaction");
        if !matches!(self.phase, Phase::Ready) {
            self.phase = Phase::Failed(Some(out_of_order::<D>()));
            return;
        }
        let statement = |index: &usize| Arc::clone(&self.statements[*index]);
        let open = runs.iter().map(|(index, _)| OpenStatement {
            statement: statement(index),
            rows: Vec::new(),
            at: 0,
            end: None,
        });
        let given = runs.iter().map(|(index, args)| {
            let args = args.iter().map(|arg| D::argument(arg)).collect::<Result<_, _>>()?;
            Ok(StatementRun { statement: statement(index), args })
        });
        match given.collect() {
            Ok(given) => {
                self.phase = Phase::Streaming;
                self.interleaved =
                    InterleavedStatements { runs: Some(given), open: open.collect(), asked: None };
            }
            Err(error) => self.phase = Phase::Failed(Some(error)),
        }
    }

    #[inline]
    pub(super) fn poll_interleaved(
        &mut self,
        which: usize,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<D::Row<'_>>, Error>> {
        if let Phase::Failed(error) = &mut self.phase {
            return Poll::Ready(Err(error.take().unwrap_or_else(out_of_order::<D>)));
        }
        while !self.interleaved.open[which].has_row() {
            match self.interleaved.open[which].end {
                None => ready!(self.poll_portion(which, cx))?,
                Some(Ok(())) => return Poll::Ready(Ok(None)),
                Some(Err(_)) => return Poll::Ready(Err(self.fail(which))),
            }
        }
        Poll::Ready(Ok(Some(self.row_of(which))))
    }

    #[inline]
    fn row_of(&mut self, which: usize) -> D::Row<'_> {
        let open = &mut self.interleaved.open[which];
        let (values, next) = batch::row_at(&open.rows, open.at);
        open.at = next;
        D::row(&open.statement, values)
    }

    /// Waits for the requested portion. If there's no request yet, asks for rows of statement
    /// `which`.
    fn poll_portion(&mut self, which: usize, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let asked = match self.interleaved.asked {
            Some(asked) => asked,
            None => self.ask(which),
        };
        let reply = ready!(self.link().poll_reply(cx));
        self.interleaved.asked = None;
        match reply {
            WorkerReply::Rows(RowBatch { rows, end }) => {
                let open = &mut self.interleaved.open[asked];
                (open.rows, open.at, open.end) = (rows, 0, end);
                if self.interleaved.open.iter().all(|open| matches!(open.end, Some(Ok(())))) {
                    self.phase = Phase::Ready;
                }
                Poll::Ready(Ok(()))
            }
            WorkerReply::Failed(error) => {
                self.phase = Phase::Failed(None);
                Poll::Ready(Err(error))
            }
            WorkerReply::Opened | WorkerReply::Described(_) | WorkerReply::LookedUp(_) => {
                self.phase = Phase::Failed(None);
                Poll::Ready(Err(out_of_order::<D>()))
            }
        }
    }

    fn ask(&mut self, which: usize) -> usize {
        let open = &mut self.interleaved.open[which];
        open.at = 0;
        let fetch = FetchRequest { which, rows: std::mem::take(&mut open.rows) };
        self.interleaved.asked = Some(which);
        let command = match self.interleaved.runs.take() {
            Some(runs) => Command::Interleave(runs, fetch),
            None => Command::Fetch(fetch),
        };
        self.link().send(command);
        which
    }

    /// Returns the error of statement `which`.
    #[cold]
    fn fail(&mut self, which: usize) -> Error {
        self.phase = Phase::Failed(None);
        match self.interleaved.open[which].end.take() {
            Some(Err(error)) => error,
            _ => out_of_order::<D>(),
        }
    }
}
