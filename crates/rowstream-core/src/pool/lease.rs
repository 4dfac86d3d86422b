//! Leases: the right to use one connection of the pool, and the operations on it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;

use super::group::Group;
use super::sites::{Sites, UniformSites};
use super::stats::WaitClock;
use super::streams::{ClientSlot, Streams};
use super::{AdmissionCount, IdleConnection, PoolCore, Priority, SlotReply, SlotRequest};
use crate::Error;
use crate::client::Client;

/// The right to use one connection of the pool; see [its invariants](super).
pub struct Lease<C, S: Sites = UniformSites> {
    // Dropped before the permit, so that no request is refused while a slot is free. A request
    // that's admitted in between may have to wait a moment for the slot.
    pub(super) entry: AdmissionCount<C, S>,
    pub(super) permit: Permit<C, S>,
}

/// One slot, which is freed when this is dropped.
pub(super) struct Permit<C, S: Sites> {
    pub(super) shared: Arc<PoolCore<C, S>>,
    priority: Priority,
    site: S::Site,
    /// Only for streams. Boxed, so that lookups don't carry its size.
    _stream: Option<Box<ClientSlot>>,
}

impl<C, S: Sites> Permit<C, S> {
    pub(super) fn new(
        shared: &Arc<PoolCore<C, S>>,
        priority: Priority,
        client: Client,
        site: S::Site,
    ) -> Self {
        let is_stream = priority == Priority::Stream;
        let stream = is_stream.then(|| Box::new(Streams::take(&shared.streams, client)));
        Self { shared: Arc::clone(shared), priority, site, _stream: stream }
    }
}

impl<C, S: Sites> Drop for Permit<C, S> {
    fn drop(&mut self) {
        let shared = Arc::clone(&self.shared);
        shared.change(|state| {
            state.queue.give(self.priority);
            state.sites.end(&self.site);
        });
    }
}

impl<C, S: Sites> Lease<C, S> {
    /// The host of this connection.
    pub fn site(&self) -> &S::Site {
        &self.permit.site
    }

    /// Changes the state of the sites, and serves the waiters that can now have a slot.
    pub fn change<T>(&mut self, change: impl FnOnce(&mut S, &mut S::Site) -> T) -> T {
        let shared = Arc::clone(&self.permit.shared);
        shared.change(|state| change(&mut state.sites, &mut self.permit.site))
    }

    /// Makes waiters look again, because a site may have room earlier than they expect.
    pub fn tell_of_room(&self) {
        self.permit.shared.rooms.notify_waiters();
    }

    /// Gives the slot up and waits for one at another site. It's served before lists and lookups,
    /// which have a lower priority.
    ///
    /// # Errors
    /// For a call of a group, those of [`Group::acquire`]; otherwise 504 after `acquire_timeout`.
    /// Also an error if no site suits.
    pub async fn move_on(mut self, wish: S::Wish, group: Option<&Group<C, S>>) -> Result<Self, Error> {
        let shared = Arc::clone(&self.permit.shared);
        let client = group.map_or(Client::Unknown, |group| group.client);
        let entry = std::mem::replace(&mut self.entry, AdmissionCount::new(&shared, 0));
        drop(self);
        let mut receiver =
            match shared.ask(SlotRequest { priority: Priority::Shared, client, wish }, Some(entry))? {
                SlotReply::Lease(place) => return Ok(place),
                SlotReply::Queued(receiver) => receiver,
            };
        if let Some(group) = group {
            return group.wait(receiver).await;
        }
        let _clock = WaitClock::begin(&shared);
        let given = tokio::time::timeout(shared.config.acquire_timeout, receiver.wait()).await;
        given.unwrap_or_else(|_| Err(shared.too_late()))
    }

    /// How long a connection may be idle before it's closed.
    pub fn idle_timeout(&self) -> Duration {
        self.entry.shared.config.idle_timeout
    }

    /// Counts a connection that was opened for this lease.
    pub fn opened(&self) {
        self.entry.shared.counts.opened.fetch_add(1, Ordering::Relaxed);
    }

    /// The most recently used idle connection, if there's one.
    pub fn take_idle(&self) -> Option<C> {
        self.take_idle_of(|_| true)
    }

    /// The most recently used idle connection for which `ours` is true, otherwise the most recently
    /// used one of all.
    pub fn take_idle_of(&self, ours: impl Fn(&C) -> bool) -> Option<C> {
        self.take_idle_among(|_| true, ours)
    }

    /// Like [`Lease::take_idle_of`], but only among the connections for which `serve` is true.
    pub fn take_idle_among(&self, serve: impl Fn(&C) -> bool, ours: impl Fn(&C) -> bool) -> Option<C> {
        let mut idle = self.entry.shared.idle();
        let both = |idle: &IdleConnection<C>| serve(&idle.connection) && ours(&idle.connection);
        let index = idle.iter().rposition(both);
        let index = index.or_else(|| idle.iter().rposition(|idle| serve(&idle.connection)))?;
        Some(idle.remove(index).connection)
    }

    /// Closes the least recently used idle connections if more than `max` would be open, counting
    /// one for each slot in use. This lease may have to open one, because perhaps no idle
    /// connection serves it.
    pub fn make_room(&self) {
        let shared = &self.entry.shared;
        let used = shared.state().queue.used();
        let mut idle = shared.idle();
        let most = shared.config.max.saturating_sub(used);
        let surplus = idle.len().saturating_sub(most);
        let closed: Vec<_> = idle.drain(..surplus).collect();
        drop(idle);
        drop(closed);
    }

    /// Gives a connection back, ready for its next user, and frees the slot. If enough connections
    /// are idle already, it's closed.
    pub fn give_back(self, connection: C) {
        self.keep_idle(connection);
    }

    /// Gives a connection back, but keeps the slot.
    pub fn keep_idle(&self, connection: C) {
        let mut idle = self.entry.shared.idle();
        if idle.len() < self.entry.shared.config.max_idle {
            idle.push(IdleConnection { connection, since: Instant::now() });
        }
    }
}
