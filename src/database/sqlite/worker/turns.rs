//! Statements that are run by turns, on one connection.
//!
//! A statement alone runs ahead of its session (see `filling.rs`). Of several, the worker cannot
//! know whose rows are wanted next: so the session asks for a portion of one of them, and waits for
//! it. They end with whatever else the session asks for, or with the session.

use std::sync::Arc;
use std::time::Instant;

use rusqlite::CachedStatement;

use super::super::filling::{self, Portion, Stop};
use super::super::handover::{Batch, Command, Fetch, Reply, Run, Work};
use super::super::known::Described;
use super::super::rows::Rows;
use super::{Worker, bind};

/// One of the statements.
struct Turn<'a> {
    described: Arc<Described>,
    rows: Rows<'a>,
    /// The bytes at which its last portion was full; `None` before the first.
    portion: Option<usize>,
    ended: bool,
}

impl Worker<'_> {
    /// Runs the statements, portion by portion. What is to be done after that.
    pub(super) fn execute_together(&self, runs: &[Run], first: Fetch) -> Work {
        let _run = filling::start(self.settings);
        let work = match self.compile_all(runs) {
            Ok(mut statements) => self.take_turns(runs, &mut statements, first),
            Err(stop) => {
                self.fail(stop);
                self.link.next()
            }
        };
        filling::rest();
        work
    }

    fn compile_all(&self, runs: &[Run]) -> Result<Vec<CachedStatement<'_>>, Stop> {
        self.begin()?;
        runs.iter().map(|run| self.compile_one(run)).collect()
    }

    fn compile_one(&self, run: &Run) -> Result<CachedStatement<'_>, Stop> {
        let mut statement = self.compile(&run.statement)?;
        bind(&mut statement, &run.args).map_err(|error| self.stop(error))?;
        Ok(statement)
    }

    /// Answers one Fetch after the other, until there is something else to do. The statements are
    /// reset when this returns.
    fn take_turns(&self, runs: &[Run], statements: &mut [CachedStatement<'_>], first: Fetch) -> Work {
        let runs = runs.iter().zip(statements);
        let mut turns: Vec<_> = runs.map(|(run, statement)| self.turn(run, statement)).collect();
        let mut fetch = first;
        loop {
            self.answer(&mut turns, fetch);
            let waiting = Instant::now();
            let work = self.link.next();
            filling::postpone(waiting.elapsed());
            match work {
                Work::Command(Command::Fetch(next)) => fetch = next,
                work => return work,
            }
        }
    }

    fn turn<'a>(&'a self, run: &Run, statement: &'a mut CachedStatement<'_>) -> Turn<'a> {
        let rows = Rows::new(self.connection, statement);
        Turn { described: Arc::clone(&run.statement), rows, portion: None, ended: false }
    }

    /// Steps one of the statements for a portion of its rows, and hands them over.
    fn answer(&self, turns: &mut [Turn<'_>], Fetch { which, rows }: Fetch) {
        if turns[which].portion.is_none() {
            let others = turns.iter().filter_map(|turn| turn.rows.handle()).collect();
            turns[which].rows.beside(others);
        }
        let turn = &mut turns[which];
        let mut portion = Portion::new(rows, turn.portion);
        let end = match self.fill(turn, &mut portion) {
            Ok(true) => Some(Ok(())),
            Ok(false) => None,
            Err(Stop::Failed(error)) => Some(Err(error)),
            // Nobody waits for an answer.
            Err(Stop::Abandoned) => return,
        };
        turn.portion = Some(portion.enough());
        self.link.reply(Reply::Rows(Batch { rows: portion.rows, end }));
    }

    /// Whether the statement has ended.
    fn fill(&self, turn: &mut Turn<'_>, portion: &mut Portion) -> Result<bool, Stop> {
        // Stepped again, a statement that has ended would begin anew.
        while !turn.ended {
            if !turn.rows.next().map_err(|error| self.stop(error))? {
                turn.ended = true;
                break;
            }
            if turn.portion.is_none() && portion.rows.is_empty() {
                self.check_columns(turn.rows.statement(), &turn.described)?;
            }
            if !portion.push(&turn.rows, self.settings.max_row_bytes)? {
                break;
            }
        }
        Ok(turn.ended)
    }

    fn fail(&self, stop: Stop) {
        if let Stop::Failed(error) = stop {
            self.link.reply(Reply::Failed(error));
        }
    }
}
