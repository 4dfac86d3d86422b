//! What tells that there may be new rows: nobody does, so it is time that goes by.
//!
//! Neither MySQL nor MariaDB tells a session what others have committed, but to those that have the
//! privileges of a replica.

use std::time::Duration;

use crate::Error;
use crate::database::ChangeSource;

/// Says every so often that there may be new rows.
pub struct Changes {
    every: Duration,
    /// What the next wait is: none before the first call.
    pause: Duration,
}

impl Changes {
    pub(super) fn new(every: Duration) -> Self {
        Self { every, pause: Duration::ZERO }
    }
}

impl ChangeSource for Changes {
    const IS_LOST_FOR_GOOD: bool = false;

    async fn next(&mut self) -> Result<(), Error> {
        tokio::time::sleep(std::mem::replace(&mut self.pause, self.every)).await;
        Ok(())
    }
}
