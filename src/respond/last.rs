//! The rest of an HTTP/1 response once its body has gone: its last bytes, on their way to the
//! socket.
//!
//! hyper drops a body as soon as it has read it to its end, and may then buffer megabytes for a
//! client that reads nothing. If an answer has a time limit, its watchdog keeps this value until
//! the last byte has left the process, and notices until then when the time is over.

use super::tracker::RequestTracker;
use crate::completeness::streams::EndProof;
use crate::outcome::Outcome;
use crate::watchdog::{EndReason, LastBytes};

/// A response that was handed over and hasn't left yet. If this is dropped, the response was
/// aborted.
pub(super) struct LastResponse {
    tracker: Box<RequestTracker>,
    proof: EndProof,
}

impl LastResponse {
    /// Gives a response to its watchdog, which [outlives its
    /// body](crate::watchdog::Watchdog::outlives_body).
    pub(super) fn keep(mut tracker: Box<RequestTracker>, proof: EndProof) {
        // Without this, the two would keep each other alive.
        let watchdog = std::mem::take(&mut tracker.watchdog);
        watchdog.keep(Self { tracker, proof });
    }
}

impl LastBytes for LastResponse {
    fn flushed(mut self: Box<Self>) {
        self.tracker.end(Outcome::Complete, std::mem::take(&mut self.proof));
    }

    fn cut(mut self: Box<Self>, why: Option<EndReason>) {
        if let Some(over) = why {
            self.tracker.end(over.outcome(), EndProof::default());
        }
    }
}
