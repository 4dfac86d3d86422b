//! Ends an answer that isn't a stream, if its client leaves it unread over HTTP/2 or HTTP/3 while
//! other requests are refused for lack of memory. A client that continues to read may take as long
//! as it needs.

use std::sync::Arc;
use std::task::Context;
use std::time::Duration;

use rowstream_core::lock::Mutex;
use tokio::time::Instant;

use crate::admission::{Admission, Shortage};
use crate::watchdog::{EndReason, SpillingStream, Watchdog};

/// How long an answer may be left unread during a shortage. It's also the length of a shortage
/// after a refusal.
const PATIENCE: Duration = Duration::from_secs(1);

/// An answer that its client has still to read.
pub(super) struct UnreadAnswer {
    shortage: Shortage,
    /// When the client was last given a piece.
    since: Mutex<Instant>,
}

impl UnreadAnswer {
    /// Registers the current answer with its watchdog, which checks it as long as the result is
    /// kept.
    pub(super) fn begin(admission: &Admission) -> Arc<Self> {
        let unread = Arc::new(Self { shortage: admission.shortage(), since: Mutex::new(Instant::now()) });
        Watchdog::current().spill(Arc::downgrade(&unread));
        unread
    }

    /// Records that the client has read everything so far, and is given more.
    pub(super) fn given(&self) {
        *self.since.lock() = Instant::now();
    }
}

impl SpillingStream for UnreadAnswer {
    fn poll_spill(&self, _: &mut Context<'_>) -> Result<Option<Instant>, EndReason> {
        let gives_way = self.since.lock().elapsed() >= PATIENCE && self.shortage.was_within(PATIENCE);
        if gives_way { Err(EndReason::Stalled) } else { Ok(Some(Instant::now() + PATIENCE)) }
    }
}
