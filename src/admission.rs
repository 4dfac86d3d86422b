//! Admission: who may run a stream.
//!
//! A [`Permit`] is the right to run one stream, from before its first statement to its last byte. Beyond `max_streams`
//! the answer is 503 with `Retry-After`, at once: requests that wait do so in their source's pool, which is bounded too.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::Error;

/// Hands out the permits of a server.
#[derive(Debug, Clone)]
pub struct Admission {
    permits: Arc<Semaphore>,
    max_streams: usize,
}

/// The right to run one stream; given back when dropped.
#[derive(Debug)]
pub struct Permit(#[expect(dead_code, reason = "held for its drop")] OwnedSemaphorePermit);

impl Admission {
    /// Admission of up to `max_streams` streams at a time.
    pub fn new(max_streams: usize) -> Self {
        Self { permits: Arc::new(Semaphore::new(max_streams)), max_streams }
    }

    /// A permit.
    ///
    /// # Errors
    /// 503 when all are in use.
    pub fn admit(&self) -> Result<Permit, Error> {
        match Arc::clone(&self.permits).try_acquire_owned() {
            Ok(permit) => Ok(Permit(permit)),
            Err(_) => Err(Error::new(
                "too_many_streams",
                StatusCode::SERVICE_UNAVAILABLE,
                format!("{} streams run already", self.max_streams),
            )
            .retry_after(Duration::from_secs(1))),
        }
    }

    /// Permits in use.
    pub fn in_use(&self) -> usize {
        self.max_streams - self.permits.available_permits()
    }
}
