//! Groups: the calls of one response, which the pool lets in as a whole.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};

use super::lease::Lease;
use super::sites::{Alike, Sites};
use super::stats::WaitClock;
use super::{Asked, Asks, Entry, Pool, Priority, Ticket};
use crate::Error;
use crate::client::Client;

/// The calls of one response, which are let in together. They take places as others do; none of
/// them is refused, and once one has had a place the others wait as long as it takes.
pub struct Group<C, S: Sites = Alike> {
    entry: Entry<C, S>,
    pub(super) client: Client,
    has_begun: AtomicBool,
}

impl<C: Send + 'static, S: Sites> Pool<C, S> {
    /// Lets calls in that take up to `width` places at a time, on behalf of `client`.
    ///
    /// # Errors
    /// 503 at once when `waiting` requests wait already.
    pub fn enter(&self, width: usize, client: Client) -> Result<Group<C, S>, Error> {
        let state = self.0.state();
        if !self.0.has_room(&state.queue) {
            return Err(self.0.refused());
        }
        let entry = Entry::new(&self.0, width);
        Ok(Group { entry, client, has_begun: AtomicBool::new(false) })
    }
}

impl<C, S: Sites> Group<C, S> {
    /// Waits for a place for one of the calls, at a site that suits.
    ///
    /// # Errors
    /// 504 when none of them has had one after `acquire_timeout`; and where there is no such site.
    pub(crate) async fn acquire(&self, wish: S::Wish) -> Result<Lease<C, S>, Error> {
        let shared = &self.entry.shared;
        let asks = Asks { priority: Priority::Lookup, client: self.client, wish };
        let place = match shared.ask(asks, Some(Entry::new(shared, 0)))? {
            Asked::Given(place) => place,
            Asked::Waits(ticket) => self.wait(ticket).await?,
        };
        self.begin();
        Ok(place)
    }

    pub(super) async fn wait(&self, mut ticket: Ticket<C, S>) -> Result<Lease<C, S>, Error> {
        let shared = &self.entry.shared;
        let _clock = WaitClock::begin(shared);
        let mut place = pin!(ticket.wait());
        match tokio::time::timeout(shared.config.acquire_timeout, &mut place).await {
            Ok(place) => place,
            // The response is on its way; failing it now would waste what was done for it.
            Err(_) if self.has_begun() => place.await,
            Err(_) => Err(shared.too_late()),
        }
    }

    /// Whether one of the calls has had a place.
    pub(crate) fn has_begun(&self) -> bool {
        self.has_begun.load(Ordering::Relaxed)
    }

    /// The response has begun: from now on its calls wait as long as it takes.
    pub(crate) fn begin(&self) {
        self.has_begun.store(true, Ordering::Relaxed);
    }

    /// From now on there are up to `width` calls at a time: others may come in for the rest.
    pub fn resize(&self, width: usize) {
        self.entry.resize(width);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::super::tests::code;
    use super::super::{PoolConfig, Usage, Waiter};
    use super::*;

    const PATIENCE: Duration = Duration::from_millis(50);

    fn pool(max: usize, waiting: usize) -> Pool<()> {
        Pool::new("test", PoolConfig { max, waiting, acquire_timeout: PATIENCE, ..PoolConfig::default() })
    }

    fn enter(pool: &Pool<()>, width: usize) -> Result<Group<()>, Error> {
        pool.enter(width, Client::Unknown)
    }

    async fn look_up(pool: &Pool<()>) -> Result<Lease<()>, Error> {
        pool.acquire(Priority::Lookup, Waiter::default().begin()).await
    }

    #[tokio::test]
    async fn a_group_is_let_in_as_a_whole() {
        let pool = pool(2, 2);
        let first = enter(&pool, 2).unwrap();
        let _places = (first.acquire(()).await.unwrap(), first.acquire(()).await.unwrap());
        // One more finds three inside; what it may take is inside with it, although it has asked
        // for nothing.
        let single = enter(&pool, 1).unwrap();
        let second = enter(&pool, 2).unwrap();
        assert_eq!(code(enter(&pool, 1)), "pool_full");
        drop(single);
        assert_eq!(code(enter(&pool, 1)), "pool_full");
        second.resize(1);
        assert_eq!(code(enter(&pool, 1)), "none");
        assert_eq!(pool.usage(), Usage { used: 2, idle: 0, waiting: 0 });
    }

    #[tokio::test]
    async fn nobody_is_refused_while_a_place_is_free() {
        let pool = pool(2, 0);
        let _idle = enter(&pool, 2).unwrap();
        let place = look_up(&pool).await.unwrap();
        assert_eq!(code(enter(&pool, 2)), "none");
        let _other = look_up(&pool).await.unwrap();
        assert_eq!((code(enter(&pool, 2)), code(look_up(&pool).await)), ("pool_full", "pool_full"));
        drop(place);
        assert_eq!(code(look_up(&pool).await), "none");
    }

    #[tokio::test]
    async fn a_group_that_has_begun_waits_for_as_long_as_it_takes() {
        let pool = pool(1, 2);
        let group = Arc::new(enter(&pool, 1).unwrap());
        let first = group.acquire(()).await.unwrap();
        let waits = tokio::spawn({
            let group = Arc::clone(&group);
            async move { group.acquire(()).await.is_ok() }
        });
        // The other one, which has had no place, gives up meanwhile.
        let other = enter(&pool, 1).unwrap();
        assert_eq!(code(other.acquire(()).await), "pool_timeout");
        tokio::time::sleep(2 * PATIENCE).await;
        assert!(!waits.is_finished());
        drop(first);
        assert!(waits.await.unwrap());
        drop((group, other));
        assert_eq!(pool.0.inside.load(Ordering::Relaxed), 0);
        assert_eq!(pool.usage(), Usage { used: 0, idle: 0, waiting: 0 });
    }
}
