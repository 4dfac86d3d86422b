//! An answer that is no stream, and that its client leaves unread over HTTP/2 or HTTP/3: it ends when
//! others are refused for want of memory. A client that goes on reading, however long, is left alone.

use std::sync::Arc;
use std::task::Context;
use std::time::Duration;

use tokio::time::Instant;

use crate::admission::{Admission, Shortage};
use crate::lock::Mutex;
use crate::watchdog::{Over, Spilling, Watchdog};

/// How long an answer may be left unread during a shortage, and how long after a refusal there is
/// one.
const PATIENCE: Duration = Duration::from_secs(1);

/// An answer that its client has still to read.
pub(super) struct Unread {
    shortage: Shortage,
    /// When the client was given a piece last.
    since: Mutex<Instant>,
}

impl Unread {
    /// The answer that is watched now, from now on. The watchdog asks for as long as this is kept.
    pub(super) fn begin(admission: &Admission) -> Arc<Self> {
        let unread = Arc::new(Self { shortage: admission.shortage(), since: Mutex::new(Instant::now()) });
        Watchdog::current().spill(Arc::downgrade(&unread));
        unread
    }

    /// The client has taken what it was given, and is given more.
    pub(super) fn given(&self) {
        *self.since.lock() = Instant::now();
    }
}

impl Spilling for Unread {
    fn poll_spill(&self, _: &mut Context<'_>) -> Result<Option<Instant>, Over> {
        let gives_way = self.since.lock().elapsed() >= PATIENCE && self.shortage.was_within(PATIENCE);
        if gives_way { Err(Over::Stalled) } else { Ok(Some(Instant::now() + PATIENCE)) }
    }
}
