//! Reports possible new rows at regular intervals.
//!
//! Neither MySQL nor MariaDB tells a session about the commits of others, unless the session has
//! the privileges of a replica.

use std::time::Duration;

use rowstream_core::Error;
use rowstream_database::ChangeSource;

/// Reports at each interval that there may be new rows.
pub struct Changes {
    every: Duration,
    /// The next wait; zero before the first call.
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
