//! Runs lookups that share a connection, one after the other. A failure affects only its own
//! lookup.

use std::time::Instant;

use super::super::filling;
use super::super::lookups::{LookupOutcome, LookupRequest, MAX_ROWS, PATIENCE};
use super::super::{Driver, DriverConnection as _, DriverRows as _, Failure, batch};
use super::Worker;

impl<D: Driver> Worker<'_, D> {
    /// Runs one lookup.
    pub(super) fn look_up(&self, request: &LookupRequest<D>) -> LookupOutcome {
        let statement = &request.statement;
        // An earlier lookup of this batch may have found the statement slow. It shouldn't delay the
        // others again.
        if statement.slow.is_slow() {
            return LookupOutcome::Elsewhere;
        }
        let begun = Instant::now();
        let timeout = self.shared.statement_timeout.map_or(PATIENCE, |timeout| timeout.min(PATIENCE));
        let run = filling::start(&self.shared.running, Some(timeout));
        let ran = self.first_rows(request);
        let expired = filling::expired();
        filling::rest();
        drop(run);
        // Includes a statement that waited for a disk, because the library doesn't call `tick`
        // meanwhile.
        if begun.elapsed() >= PATIENCE {
            statement.slow.note();
        }
        match ran {
            Ok(rows) => LookupOutcome::Rows(rows),
            Err(_) if expired => LookupOutcome::Elsewhere,
            Err(Failure::Failed(error)) => LookupOutcome::Failed(error),
            // The other connection will describe it again.
            Err(Failure::Outdated(_)) => {
                self.shared.statements.forget(&statement.statement);
                LookupOutcome::Elsewhere
            }
        }
    }

    /// Returns its first rows, packed. On return, the statement is reset and its locks are
    /// released.
    fn first_rows(&self, request: &LookupRequest<D>) -> Result<Vec<u8>, Failure> {
        let described = &*request.statement;
        let mut statement = self.connection.compile(described, &request.args)?;
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
