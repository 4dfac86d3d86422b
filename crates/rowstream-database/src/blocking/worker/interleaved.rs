//! Runs interleaved statements on one connection.
//!
//! A single statement runs ahead of its session (see `filling.rs`). With several, the worker can't
//! know which rows the session wants next. So the session asks for a portion of one of them, and
//! waits for it. The statements end when the session sends any other request, or leaves.

use std::time::Instant;

use super::super::filling::{self, Portion, StopReason};
use super::super::handover::{Command, FetchRequest, RowBatch, StatementRun, Work, WorkerReply};
use super::super::{Driver, DriverConnection, DriverRows as _, StatementDescription};
use super::Worker;

/// A statement of a driver's connection.
type DriverStatement<'c, D> = <<D as Driver>::Connection as DriverConnection>::Statement<'c>;

/// One of the interleaved statements.
struct InterleavedRows<'r, D: Driver> {
    described: &'r StatementDescription<D::Plan>,
    rows: <D::Connection as DriverConnection>::Rows<'r>,
    progress: Progress,
    /// Its last portion was full once it had this many bytes; `None` before the first.
    portion: Option<usize>,
}

/// How far a statement has got.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Progress {
    /// Before its first row.
    Begins,
    /// Among its rows.
    Runs,
    /// After its last row. Another step would start it again.
    Ended,
}

impl<D: Driver> Worker<'_, D> {
    /// Runs the statements, portion by portion. Returns the next task.
    pub(super) fn interleave(&self, runs: &[StatementRun<D>], first: FetchRequest) -> Work<D> {
        let _run = filling::start(&self.shared.running, self.shared.statement_timeout);
        let work = match self.compile_all(runs) {
            Ok(mut statements) => self.fetch(runs, &mut statements, first),
            Err(stop) => {
                self.fail(stop);
                self.link.next()
            }
        };
        filling::rest();
        work
    }

    fn compile_all(&self, runs: &[StatementRun<D>]) -> Result<Vec<DriverStatement<'_, D>>, StopReason> {
        self.begin()?;
        runs.iter().map(|run| self.compile(&run.statement, &run.args)).collect()
    }

    /// Answers one [`FetchRequest`] after another, until the session asks for something else. On
    /// return, the statements are reset.
    fn fetch(
        &self,
        runs: &[StatementRun<D>],
        statements: &mut [DriverStatement<'_, D>],
        first: FetchRequest,
    ) -> Work<D> {
        let begin = |(run, statement)| self.begin_one(run, statement);
        let mut interleaved: Vec<_> = runs.iter().zip(statements).map(begin).collect();
        let mut fetch = first;
        loop {
            self.answer(&mut interleaved[fetch.which], fetch.rows);
            let waiting = Instant::now();
            let work = self.link.next();
            filling::postpone(waiting.elapsed());
            match work {
                Work::Command(Command::Fetch(next)) => fetch = next,
                work => return work,
            }
        }
    }

    fn begin_one<'r, 'c: 'r>(
        &'r self,
        run: &'r StatementRun<D>,
        statement: &'r mut DriverStatement<'c, D>,
    ) -> InterleavedRows<'r, D>
    where
        D::Connection: 'c,
    {
        let described = &*run.statement;
        let rows = self.connection.rows(statement, described);
        InterleavedRows { described, rows, progress: Progress::Begins, portion: None }
    }

    /// Steps one of the statements for a portion of its rows, and hands them over.
    fn answer(&self, statement: &mut InterleavedRows<'_, D>, rows: Vec<u8>) {
        let mut portion = Portion::new(rows, statement.portion);
        let end = match self.fill(statement, &mut portion) {
            Ok(()) => (statement.progress == Progress::Ended).then_some(Ok(())),
            Err(StopReason::Failed(error)) => Some(Err(error)),
            // The session has left and expects no reply.
            Err(StopReason::Abandoned) => return,
        };
        statement.portion = Some(portion.enough());
        self.link.reply(WorkerReply::Rows(RowBatch { rows: portion.rows, end }));
    }

    fn fill(&self, statement: &mut InterleavedRows<'_, D>, portion: &mut Portion) -> Result<(), StopReason> {
        let InterleavedRows { described, rows, progress, .. } = statement;
        let limit = self.shared.max_row_bytes;
        loop {
            let stepped = match progress {
                Progress::Begins => rows.first(),
                Progress::Runs => rows.next(),
                Progress::Ended => return Ok(()),
            };
            *progress = match stepped.map_err(|failure| self.stop(failure, described))? {
                true => Progress::Runs,
                false => Progress::Ended,
            };
            if *progress == Progress::Runs && !portion.push(|batch| rows.pack(limit, batch))? {
                return Ok(());
            }
        }
    }

    fn fail(&self, stop: StopReason) {
        if let StopReason::Failed(error) = stop {
            self.link.reply(WorkerReply::Failed(error));
        }
    }
}
