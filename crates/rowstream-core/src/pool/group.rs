//! Groups: the calls of one response, which the pool admits as a whole.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};

use super::lease::Lease;
use super::sites::{Sites, UniformSites};
use super::stats::WaitClock;
use super::{AdmissionCount, LeaseReceiver, Pool, Priority, SlotReply, SlotRequest};
use crate::Error;
use crate::client::Client;

/// The calls of one response, which are admitted together. They take slots as other requests do,
/// but none of them is refused. Once one call has had a slot, the others wait without a time limit.
pub struct Group<C, S: Sites = UniformSites> {
    entry: AdmissionCount<C, S>,
    pub(super) client: Client,
    has_begun: AtomicBool,
}

impl<C: Send + 'static, S: Sites> Pool<C, S> {
    /// Admits calls that use up to `width` slots at a time, on behalf of `client`.
    ///
    /// # Errors
    /// 503 at once if the pool and its queue are full.
    pub fn enter(&self, width: usize, client: Client) -> Result<Group<C, S>, Error> {
        let state = self.0.state();
        if !self.0.has_room(&state.queue) {
            return Err(self.0.refused());
        }
        let entry = AdmissionCount::new(&self.0, width);
        Ok(Group { entry, client, has_begun: AtomicBool::new(false) })
    }
}

impl<C, S: Sites> Group<C, S> {
    /// Waits for a slot for one of the calls, at a site that suits.
    ///
    /// # Errors
    /// 504 if no call of the group has had a slot after `acquire_timeout`; and an error if no site
    /// suits.
    pub async fn acquire(&self, wish: S::Wish) -> Result<Lease<C, S>, Error> {
        let shared = &self.entry.shared;
        let request = SlotRequest { priority: Priority::Lookup, client: self.client, wish };
        let place = match shared.ask(request, Some(AdmissionCount::new(shared, 0)))? {
            SlotReply::Lease(place) => place,
            SlotReply::Queued(receiver) => self.wait(receiver).await?,
        };
        self.begin();
        Ok(place)
    }

    pub(super) async fn wait(&self, mut receiver: LeaseReceiver<C, S>) -> Result<Lease<C, S>, Error> {
        let shared = &self.entry.shared;
        let _clock = WaitClock::begin(shared);
        let mut place = pin!(receiver.wait());
        match tokio::time::timeout(shared.config.acquire_timeout, &mut place).await {
            Ok(place) => place,
            // The response is under way. An error now would waste the work that was done for it.
            Err(_) if self.has_begun() => place.await,
            Err(_) => Err(shared.too_late()),
        }
    }

    /// True if one of the calls has had a slot.
    pub fn has_begun(&self) -> bool {
        self.has_begun.load(Ordering::Relaxed)
    }

    /// Records that the response has begun: from now on its calls wait without a time limit.
    pub fn begin(&self) {
        self.has_begun.store(true, Ordering::Relaxed);
    }

    /// Sets the number of calls at a time to `width`. If it's lower than before, other requests may
    /// use the difference.
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
        // The next group finds three slots counted as inside. Its own width counts too, although it
        // hasn't made a call yet.
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
        // The other group, which has had no slot, gives up meanwhile.
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
