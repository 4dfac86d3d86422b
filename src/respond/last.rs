//! What is left of a response over HTTP/1 once its body has gone: its last bytes, on their way to
//! the socket.
//!
//! hyper drops a body as soon as it has all of it, and may then hold megabytes of it for a client
//! that takes nothing. Where the time of an answer is limited, its watchdog keeps this until all
//! has left the process, and knows until then when the time is over.

use super::tracker::RequestTracker;
use crate::outcome::Outcome;
use crate::watchdog::{LastBytes, Over};

/// A response that was handed over and has not left yet. Dropped, it was aborted.
pub(super) struct Last {
    tracker: Box<RequestTracker>,
    digest: Option<String>,
}

impl Last {
    /// Of a response whose watchdog [outlives its body](crate::watchdog::Watchdog::outlives_body),
    /// in the care of that.
    pub(super) fn keep(mut tracker: Box<RequestTracker>, digest: Option<String>) {
        // It must not keep the one that keeps it.
        let watchdog = std::mem::take(&mut tracker.watchdog);
        watchdog.keep(Self { tracker, digest });
    }
}

impl LastBytes for Last {
    fn flushed(mut self: Box<Self>) {
        self.tracker.end(Outcome::Complete, self.digest.take());
    }

    fn cut(mut self: Box<Self>, why: Option<Over>) {
        if let Some(over) = why {
            self.tracker.end(over.outcome(), None);
        }
    }
}
