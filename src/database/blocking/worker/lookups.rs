//! Lookups that share a connection: one after the other, each for itself.

use std::time::Instant;

use super::super::filling;
use super::super::lookups::{MAX_ROWS, Outcome, PATIENCE, Question};
use super::super::{Driver, DriverConnection as _, DriverRows as _, Failure, batch};
use super::Worker;

impl<D: Driver> Worker<'_, D> {
    /// Runs one of them.
    pub(super) fn look_up(&self, question: &Question<D>) -> Outcome {
        let statement = &question.statement;
        // One of the same batch may have found that out: one is enough that holds up the others.
        if statement.slow.is_slow() {
            return Outcome::Elsewhere;
        }
        let begun = Instant::now();
        let timeout = self.shared.statement_timeout.map_or(PATIENCE, |timeout| timeout.min(PATIENCE));
        let run = filling::start(&self.shared.running, Some(timeout));
        let ran = self.first_rows(question);
        let expired = filling::expired();
        filling::rest();
        drop(run);
        // Also one that waited for a disk, in which the library looks at no clock.
        if begun.elapsed() >= PATIENCE {
            statement.slow.note();
        }
        match ran {
            Ok(rows) => Outcome::Rows(rows),
            Err(_) if expired => Outcome::Elsewhere,
            Err(Failure::Failed(error)) => Outcome::Failed(error),
            // There it is described anew.
            Err(Failure::Outdated(_)) => {
                self.shared.known.forget(&statement.sql);
                Outcome::Elsewhere
            }
        }
    }

    /// Its first rows, packed. It is reset, and its locks are gone, when this returns.
    fn first_rows(&self, question: &Question<D>) -> Result<Vec<u8>, Failure> {
        let described = &*question.statement;
        let mut statement = self.connection.compile(described, &question.args)?;
        let mut rows = self.connection.rows(&mut statement, described);
        let mut packed = Vec::new();
        let mut is_row = rows.first()?;
        for left in (0..MAX_ROWS).rev() {
            if !is_row {
                break;
            }
            batch::push_row(&mut packed, |packed| rows.pack(self.shared.max_row_bytes, packed))?;
            is_row = left > 0 && rows.next()?;
        }
        Ok(packed)
    }
}
