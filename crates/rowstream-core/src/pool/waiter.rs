//! Measures how long requests wait for connections.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use crate::client::Client;

/// The client on whose behalf a request waits for connections, and how long it has waited so far.
/// The time is readable during the wait, so that the log can have it even if no connection arrives
/// or the client leaves.
#[derive(Debug, Default)]
pub struct Waiter {
    client: Client,
    nanoseconds: AtomicU64,
}

impl Waiter {
    /// A waiter on behalf of this client.
    pub fn new(client: Client) -> Self {
        Self { client, ..Self::default() }
    }

    /// Begins to wait for a connection now.
    pub fn begin(&self) -> Patience<'_> {
        self.begun(Instant::now())
    }

    /// Has been waiting for a connection since then.
    pub fn begun(&self, since: Instant) -> Patience<'_> {
        Patience { waiter: self, since }
    }

    /// The client whose request waits.
    pub fn client(&self) -> Client {
        self.client
    }

    /// How long it has waited for connections.
    pub fn waited(&self) -> Duration {
        Duration::from_nanos(self.nanoseconds.load(Ordering::Relaxed))
    }
}

/// The wait for one connection, whatever its source: timeouts count from one moment on.
#[derive(Debug, Clone, Copy)]
pub struct Patience<'a> {
    waiter: &'a Waiter,
    since: Instant,
}

impl<'a> Patience<'a> {
    /// The client whose request waits.
    pub fn client(self) -> Client {
        self.waiter.client
    }

    /// The moment when it began.
    pub fn begun(self) -> Instant {
        self.since
    }

    /// The same moment, as the standard library's type.
    pub fn since(self) -> std::time::Instant {
        self.since.into_std()
    }

    /// How long the request has waited for connections.
    pub fn waited(self) -> Duration {
        self.waiter.waited()
    }

    /// The moment when the wait has lasted for `timeout`.
    pub fn until(self, timeout: Duration) -> Instant {
        self.since + timeout
    }

    /// Counts the time from now on, until the result is dropped, as a wait for a connection.
    pub fn wait(self) -> Wait<'a> {
        Wait { waiter: self.waiter, since: Instant::now() }
    }
}

/// A wait for a connection. Its time is added to the waiter when it's dropped.
pub struct Wait<'a> {
    waiter: &'a Waiter,
    since: Instant,
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        let nanoseconds = u64::try_from(self.since.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.waiter.nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
    }
}
