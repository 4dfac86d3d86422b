//! Snapshots that are kept for later responses, each by a session that reads nothing.
//!
//! A snapshot can be read while the transaction that exported it is open. Meanwhile the database
//! keeps each row that was deleted since then, and the table can't be altered. So we bound the
//! cost: at most a quarter of the pool's sessions keep snapshots, each session ends once its
//! snapshot hasn't been read for [`UNREAD`], and no snapshot lasts longer than [`AT_MOST`].

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::StatusCode;
use rowstream_core::Error;
use rowstream_core::lock::Mutex;
use rowstream_database::TableSnapshot;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::Session;

/// We keep a snapshot without readers for this long.
const UNREAD: Duration = Duration::from_secs(60);
/// We keep a snapshot for this long at most.
const AT_MOST: Duration = Duration::from_secs(3600);
/// How often we check the readers and the connection. PostgreSQL ends a session that is silent for
/// its `idle_in_transaction_session_timeout`.
const TICK: Duration = Duration::from_secs(1);
/// The clones of a [`Reader`] that don't belong to a response: in the map, and in [`hold`].
const OWN: usize = 2;

/// Each response that reads a snapshot has one.
pub(crate) type Reader = Arc<()>;

/// The snapshots that are kept for one source.
pub(crate) struct Snapshots {
    room: Arc<Semaphore>,
    most: usize,
    kept: Mutex<HashMap<String, Kept>>,
}

/// A snapshot that is kept.
struct Kept {
    reader: Reader,
    /// It's kept until then, or for longer if it's read meanwhile.
    expires: Instant,
}

impl Snapshots {
    /// Makes room for a pool of `max` connections. A pool with one connection keeps no snapshots.
    pub(crate) fn new(max: usize) -> Self {
        let most = if max > 1 { (max / 4).max(1) } else { 0 };
        Self { room: Arc::new(Semaphore::new(most)), most, kept: Mutex::default() }
    }

    /// The right to keep one more.
    ///
    /// # Errors
    /// 503 if too many are kept, with the time until one expires.
    pub(super) fn room(&self) -> Result<OwnedSemaphorePermit, Error> {
        Arc::clone(&self.room).try_acquire_owned().map_err(|_| {
            let message = format!("no more than {} snapshots may be kept for shards at a time", self.most);
            Error::new("too_many_snapshots", StatusCode::SERVICE_UNAVAILABLE, message)
                .retry_after(self.wait(Instant::now()))
                .hint("a snapshot is kept for a minute after its last reader: wait, or raise `pool.max`")
        })
    }

    /// The time until a snapshot expires, if none is read meanwhile. [`hold`] ends it a tick later.
    fn wait(&self, now: Instant) -> Duration {
        let next = self.kept.lock().values().map(|kept| kept.expires).min();
        next.map_or(Duration::ZERO, |next| next.saturating_duration_since(now)) + TICK
    }

    fn insert(&self, id: String, kept: Kept) {
        self.kept.lock().insert(id, kept);
    }

    fn renew(&self, id: &str, expires: Instant) {
        if let Some(kept) = self.kept.lock().get_mut(id) {
            kept.expires = expires;
        }
    }

    /// Marks the snapshot as read until the reader is dropped. `None` if this process doesn't keep
    /// the snapshot; another replica may keep it.
    pub(super) fn reader(&self, snapshot: &TableSnapshot) -> Option<Reader> {
        self.kept.lock().get(&snapshot.id).map(|kept| Arc::clone(&kept.reader))
    }
}

/// Keeps a snapshot that the session has exported. Returns its first reader.
pub(super) fn keep(session: Session, room: OwnedSemaphorePermit, snapshot: &TableSnapshot) -> Reader {
    let reader = Reader::default();
    let life = Life::new(Instant::now());
    let kept = Kept { reader: Arc::clone(&reader), expires: life.end() };
    session.shared.snapshots.insert(snapshot.id.clone(), kept);
    tokio::spawn(hold(session, room, snapshot.id.clone(), Arc::clone(&reader), life));
    reader
}

/// Holds the session until its snapshot expires.
async fn hold(mut session: Session, room: OwnedSemaphorePermit, id: String, readers: Reader, mut life: Life) {
    while life.goes_on(Instant::now(), Arc::strong_count(&readers) > OWN) {
        session.shared.snapshots.renew(&id, life.end());
        tokio::time::sleep(TICK).await;
        if session.run("select", 0).await.is_err() {
            break;
        }
    }
    session.shared.snapshots.kept.lock().remove(&id);
    drop((session, room));
}

/// The age of a snapshot, and when it was last read.
struct Life {
    begun: Instant,
    /// When we last saw a reader.
    read: Instant,
}

impl Life {
    fn new(now: Instant) -> Self {
        Self { begun: now, read: now }
    }

    /// Returns true if the snapshot is kept for longer.
    fn goes_on(&mut self, now: Instant, is_read: bool) -> bool {
        if is_read {
            self.read = now;
        }
        now < self.end()
    }

    /// The snapshot is kept until then, or for longer if it's read meanwhile.
    fn end(&self) -> Instant {
        (self.read + UNREAD).min(self.begun + AT_MOST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_is_kept_while_it_is_read_and_a_minute_longer_but_not_for_ever() {
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        let mut life = Life::new(begun);
        assert!(life.goes_on(at(59), false));
        assert!(!life.goes_on(at(60), false), "nobody has begun");
        let mut life = Life::new(begun);
        assert!((0..3600).all(|second| life.goes_on(at(second), true)));
        assert!(!life.goes_on(at(3600), true), "it holds up the database");
        let mut life = Life::new(begun);
        assert!(life.goes_on(at(100), true) && life.goes_on(at(159), false));
        assert!(!life.goes_on(at(160), false));
    }

    #[test]
    fn a_refusal_waits_for_the_next_snapshot_that_expires() {
        let snapshots = Snapshots::new(8);
        let begun = Instant::now();
        let keep = |id: &str, seconds| {
            let expires = begun + Duration::from_secs(seconds);
            snapshots.insert(id.to_owned(), Kept { reader: Reader::default(), expires });
        };
        assert_eq!(snapshots.wait(begun), TICK, "it's about to be kept");
        keep("a", 60);
        keep("b", 40);
        assert_eq!(snapshots.wait(begun), Duration::from_secs(41));
        snapshots.renew("b", begun + Duration::from_secs(70));
        assert_eq!(snapshots.wait(begun + Duration::from_secs(5)), Duration::from_secs(56));
        assert_eq!(snapshots.wait(begun + Duration::from_secs(80)), TICK);
        let mut life = Life::new(begun);
        assert_eq!(life.end(), begun + UNREAD);
        assert!(life.goes_on(begun + Duration::from_secs(3590), true));
        assert_eq!(life.end(), begun + AT_MOST);
    }

    #[test]
    fn a_quarter_of_the_pool_keeps_snapshots_at_most() {
        for (max, most) in [(1, 0), (2, 1), (7, 1), (20, 5)] {
            let snapshots = Snapshots::new(max);
            let rooms: Vec<_> = (0..most).map(|_| snapshots.room().unwrap()).collect();
            let refused = snapshots.room().unwrap_err();
            assert_eq!((refused.code(), refused.status().as_u16()), ("too_many_snapshots", 503));
            drop(rooms);
            assert_eq!(snapshots.room().is_ok(), most > 0);
        }
    }
}
