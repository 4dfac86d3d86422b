//! Runs lookups that share a connection, one after the other. A failure affects only its own
//! lookup.

use std::time::Instant;

use super::super::filling;
use super::super::lookups::{MAX_ROWS, Outcome, PATIENCE, Question};
use super::super::{Driver, DriverConnection as _, DriverRows as _, Failure, batch};
use super::Worker;

impl<D: Driver> Worker<'_, D> {
    /// Runs one lookup.
    pub(super) fn look_up(&self, question: &Question<D>) -> Outcome {
        let statement = &question.statement;
        // An earlier lookup of this batch may have found the statement slow. It shouldn't delay the
        // others again.
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
        // Includes a statement that waited for a disk, because the library doesn't call `tick`
        // meanwhile.
        if begun.elapsed() >= PATIENCE {
            statement.slow.note();
        }
        match ran {
            Ok(rows) => Outcome::Rows(rows),
            Err(_) if expired => Outcome::Elsewhere,
            Err(Failure::Failed(error)) => Outcome::Failed(error),
            // The other connection will describe it again.
            Err(Failure::Outdated(_)) => {
                self.shared.known.forget(&statement.sql);
                Outcome::Elsewhere
            }
        }
    }

    /// Returns its first rows, packed. On return, the statement is reset and its locks are
    /// released.
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
