//! Wakes the followers of an endpoint's rows.
//!
//! A change notifier is one poller for all followers of an endpoint. It has one connection in
//! addition to the pool, begins with the first follower and ends with the last. It reports that
//! there may be new rows, and each follower then reads its own after its cursor. So no follower has
//! a connection while it waits, and its rows don't depend on another follower.
//!
//! ```text
//!                          ┌─ follower: wait ── take a turn ── read the rows after the cursor ──┐
//!  poller ── a transaction ┤      ▲                                                             │
//!            has committed │      └─────────────────────────────────────────────────────────────┘
//!                          └─ follower …
//! ```
//!
//! Invariants:
//! 1. rows that are committed after a follower has read wake it, because its reading begins after
//!    it has noted the last change that it knows;
//! 2. a poller that loses its connection opens another one, which wakes all followers for the
//!    transactions in between. A poller that can't reconnect within its [`Patience`] ends all
//!    followers with an error, both those that read and those that wait. So no follower waits
//!    without a poller.

use std::sync::{Arc, Weak};
use std::time::Duration;

use rowstream_core::Error;
use tokio::sync::{Mutex, OwnedSemaphorePermit, watch};
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::database::{AnyDatabase, Changes};
use crate::endpoint::FollowSettings;

/// The pause before a lost connection is opened again. Each further pause is twice as long, up to
/// the last.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LAST_PAUSE: Duration = Duration::from_secs(2);
/// How long a source may be unavailable, in units of its `acquire_timeout`: 30 s by default, which
/// is enough for a database to restart.
const PATIENCE: u32 = 6;

/// How long to wait for an unavailable source.
pub(crate) struct Patience {
    until: Instant,
    pause: Duration,
}

impl Patience {
    /// Begins now, for a source with this `acquire_timeout`.
    fn begin(acquire_timeout: Duration) -> Self {
        Self { until: Instant::now() + acquire_timeout * PATIENCE, pause: FIRST_PAUSE }
    }

    /// Waits before the source is tried again; false if it has been unavailable for too long.
    pub(crate) async fn pause(&mut self) -> bool {
        let next = Instant::now() + self.pause;
        self.pause = (self.pause * 2).min(LAST_PAUSE);
        if next < self.until {
            sleep_until(next).await;
        }
        next < self.until
    }
}

/// The change notifiers of a configuration's endpoints, by their indices.
pub(crate) struct ChangeNotifiers(Vec<Mutex<Weak<ChangeNotifier>>>);

/// The notifier for the followers of one endpoint, as long as there are any.
struct ChangeNotifier {
    changes: watch::Receiver<Change>,
    source: AnyDatabase,
}

/// A message of a poller.
enum Change {
    /// There may be new rows.
    NewRows,
    /// It can't look for new rows any more, for this reason.
    Failed(String),
}

/// One follower's side of a change notifier.
pub(crate) struct Subscription {
    notifier: Arc<ChangeNotifier>,
    changes: watch::Receiver<Change>,
    closing: watch::Receiver<bool>,
}

/// The reason why a follower stops waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WakeReason {
    /// There may be new rows.
    NewRows,
    /// The server is shutting down.
    Closing,
}

impl ChangeNotifiers {
    /// Notifiers for this number of endpoints, without followers.
    pub(crate) fn new(endpoints: usize) -> Self {
        Self((0..endpoints).map(|_| Mutex::new(Weak::new())).collect())
    }

    /// Follows the endpoint of this index until `closing`.
    ///
    /// # Errors
    /// 503: the source can't be reached, or not within its `acquire_timeout`.
    pub(crate) async fn subscribe(
        &self,
        endpoint: usize,
        follow: &FollowSettings,
        source: &AnyDatabase,
        closing: watch::Receiver<bool>,
    ) -> Result<Subscription, Error> {
        let bound = source.acquire_timeout();
        let notifier = tokio::time::timeout(bound, self.notifier(endpoint, follow, source));
        let notifier = notifier
            .await
            .unwrap_or_else(|_| Err(Error::source_unavailable("the source does not answer")))?;
        let changes = notifier.changes.clone();
        Ok(Subscription { notifier, changes, closing })
    }

    /// The notifier of the endpoint. The first follower starts it; others wait for the result of
    /// that.
    async fn notifier(
        &self,
        endpoint: usize,
        follow: &FollowSettings,
        source: &AnyDatabase,
    ) -> Result<Arc<ChangeNotifier>, Error> {
        let mut notifier = self.0[endpoint].lock().await;
        let running = notifier.upgrade().filter(|notifier| notifier.changes.has_changed().is_ok());
        if let Some(running) = running {
            return Ok(running);
        }
        let changes = changes(source, follow).await?;
        let begun = Arc::new(ChangeNotifier::begin(changes, follow, source));
        *notifier = Arc::downgrade(&begun);
        Ok(begun)
    }
}

impl ChangeNotifier {
    fn begin(changes: Changes, follow: &FollowSettings, source: &AnyDatabase) -> Self {
        let (sender, receiver) = watch::channel(Change::NewRows);
        let poller = Poller { source: source.clone(), follow: follow.clone() };
        tokio::spawn(async move {
            tokio::select! {
                error = poller.poll(changes, &sender) => {
                    sender.send_replace(Change::Failed(format!("{error:?}")));
                }
                () = sender.closed() => {}
            }
        });
        Self { changes: receiver, source: source.clone() }
    }
}

/// The changes of a source. They also report the transactions that followers wait for.
async fn changes(source: &AnyDatabase, follow: &FollowSettings) -> Result<Changes, Error> {
    let mut changes = source.changes(follow.channel.as_deref(), follow.poll).await?;
    if follow.transaction.is_some() {
        changes.report_waits();
    }
    Ok(changes)
}

/// The poller of a change notifier.
struct Poller {
    source: AnyDatabase,
    follow: FollowSettings,
}

impl Poller {
    /// Reports changes, until it can't reach the source any more. Returns the reason.
    async fn poll(&self, mut changes: Changes, sender: &watch::Sender<Change>) -> Error {
        loop {
            let lost = match changes.next().await {
                Ok(()) => {
                    sender.send_replace(Change::NewRows);
                    continue;
                }
                Err(error) if changes.is_lost_for_good() => return error,
                Err(error) => error,
            };
            // The next connection always reports a change first, in case something has changed
            // meanwhile.
            match self.again().await {
                Some(again) => changes = again,
                None => return lost,
            }
        }
    }

    /// Opens another connection, as soon as that's possible.
    async fn again(&self) -> Option<Changes> {
        let mut patience = Patience::begin(self.source.acquire_timeout());
        while patience.pause().await {
            let opened = changes(&self.source, &self.follow);
            if let Ok(Ok(changes)) = timeout_at(patience.until, opened).await {
                return Some(changes);
            }
        }
        None
    }
}

impl Subscription {
    /// Begins a reading: later changes will wake the follower.
    pub(crate) fn begin_reading(&mut self) {
        self.changes.mark_unchanged();
    }

    /// Waits until there may be rows that didn't exist when the last reading began.
    ///
    /// # Errors
    /// The poller can't reach the source any more.
    pub(crate) async fn wake(&mut self) -> Result<WakeReason, Error> {
        let changed = tokio::select! {
            _ = self.closing.wait_for(|closing| *closing) => return Ok(WakeReason::Closing),
            changed = self.changes.changed() => changed,
        };
        match &*self.changes.borrow_and_update() {
            Change::NewRows if changed.is_ok() => Ok(WakeReason::NewRows),
            Change::NewRows => Err(gone("the poller has ended")),
            Change::Failed(cause) => Err(gone(cause.as_str())),
        }
    }

    /// How long a reading may wait for the source to recover.
    pub(crate) fn patience(&self) -> Patience {
        Patience::begin(self.notifier.source.acquire_timeout())
    }

    /// True if the server is shutting down.
    pub(crate) fn is_closing(&self) -> bool {
        *self.closing.borrow()
    }

    /// Waits until the poller can't reach the source any more. Returns the reason.
    pub(crate) fn failed(&self) -> impl Future<Output = Error> + use<> {
        let mut changes = self.changes.clone();
        async move {
            let failed = changes.wait_for(|change| matches!(change, Change::Failed(_))).await;
            match failed.as_deref() {
                Ok(Change::Failed(cause)) => gone(cause.as_str()),
                _ => gone("the poller has ended"),
            }
        }
    }

    /// Waits for permission to ask the pool for a connection. A thousand followers that are woken
    /// at once would otherwise fill its queue and keep out other requests. So would followers that
    /// all arrive at once, as they do after a restart.
    pub(crate) async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        self.notifier.source.turn().await
    }
}

fn gone(cause: &str) -> Error {
    Error::source_unavailable("the source no longer reports new rows").cause(cause)
}
