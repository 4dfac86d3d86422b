//! Who waits for connections, for how long, and how long that was.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use crate::client::Client;

/// Who waits for connections on behalf of one request, and for how long it has. That is known while
/// it waits, so that it can be logged also where no connection came, or its client left meanwhile.
#[derive(Debug, Default)]
pub struct Waiter {
    client: Client,
    nanoseconds: AtomicU64,
}

impl Waiter {
    /// One that waits on behalf of this client.
    pub fn new(client: Client) -> Self {
        Self { client, ..Self::default() }
    }

    /// It wants a connection, from now on.
    pub fn begin(&self) -> Patience<'_> {
        self.begun(Instant::now())
    }

    /// It has wanted one since then.
    pub(crate) fn begun(&self, since: Instant) -> Patience<'_> {
        Patience { waiter: self, since }
    }

    /// On whose behalf it waits.
    pub(crate) fn client(&self) -> Client {
        self.client
    }

    /// How long it has waited for connections.
    pub(crate) fn waited(&self) -> Duration {
        Duration::from_nanos(self.nanoseconds.load(Ordering::Relaxed))
    }
}

/// How long somebody still waits for one connection, wherever that may come from: all of it counts
/// from one moment on.
#[derive(Debug, Clone, Copy)]
pub struct Patience<'a> {
    waiter: &'a Waiter,
    since: Instant,
}

impl<'a> Patience<'a> {
    pub(crate) fn client(self) -> Client {
        self.waiter.client
    }

    /// Since when.
    pub(crate) fn begun(self) -> Instant {
        self.since
    }

    /// The same, by the clock of the standard library.
    pub(crate) fn since(self) -> std::time::Instant {
        self.since.into_std()
    }

    /// How long who waits has waited for connections.
    pub(crate) fn waited(self) -> Duration {
        self.waiter.waited()
    }

    /// When it has waited for so long.
    pub(crate) fn until(self, timeout: Duration) -> Instant {
        self.since + timeout
    }

    /// What is waited for from now on, until the result is dropped, is a connection.
    pub(crate) fn wait(self) -> Wait<'a> {
        Wait { waiter: self.waiter, since: Instant::now() }
    }
}

/// A wait for a connection; it counts when it is dropped.
pub(crate) struct Wait<'a> {
    waiter: &'a Waiter,
    since: Instant,
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        let nanoseconds = u64::try_from(self.since.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.waiter.nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
    }
}
