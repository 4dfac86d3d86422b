//! What wakes those who follow the rows of an endpoint.
//!
//! A change notifier is one poller for all followers of an endpoint, with one connection beside the
//! pool; it begins with the first of them and ends with the last. It says that there may be new
//! rows, and each follower reads its own after its cursor: so none of them holds a connection
//! while it waits, and what it gets hangs on nobody else.
//!
//! ```text
//!                          ┌─ follower: wait ── take a turn ── read what is after the cursor ───┐
//!  poller ── something ────┤      ▲                                                             │
//!            was committed │      └─────────────────────────────────────────────────────────────┘
//!                          └─ follower …
//! ```
//!
//! Invariants:
//! 1. what is committed after a follower has read wakes it: its reading begins after it has noted
//!    which change it knows;
//! 2. a poller that loses its connection opens another one, and what was committed meanwhile wakes
//!    all followers then. One that cannot, within its [`Patience`], ends all of them with an error,
//!    those that read as well as those that wait. None waits for what nobody looks for.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::{Mutex, OwnedSemaphorePermit, watch};
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::Error;
use crate::database::{AnyDatabase, Changes};
use crate::endpoint::Follow;

/// The pause before a connection that was lost is opened again; each further one is twice as long,
/// up to the last.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LAST_PAUSE: Duration = Duration::from_secs(2);
/// How long a source may be away, in its `acquire_timeout`s: 30 s unless the file says otherwise,
/// in which a database starts again.
const PATIENCE: u32 = 6;

/// Until when a source is waited for that went away.
pub(crate) struct Patience {
    until: Instant,
    pause: Duration,
}

impl Patience {
    /// From now on, with a source that has this `acquire_timeout`.
    fn begin(acquire_timeout: Duration) -> Self {
        Self { until: Instant::now() + acquire_timeout * PATIENCE, pause: FIRST_PAUSE }
    }

    /// Waits before the source is tried again; false when it has been away for too long.
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

/// The followers of one endpoint, as long as there are any.
struct ChangeNotifier {
    changes: watch::Receiver<Change>,
    source: AnyDatabase,
}

/// What a poller says.
enum Change {
    /// There may be new rows.
    NewRows,
    /// It cannot look for them any more, for this reason.
    Failed(String),
}

/// One follower's side of a change notifier.
pub(crate) struct Subscription {
    notifier: Arc<ChangeNotifier>,
    changes: watch::Receiver<Change>,
    closing: watch::Receiver<bool>,
}

/// Why a follower does not wait any longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wake {
    /// There may be new rows.
    NewRows,
    /// The server is about to end.
    Closing,
}

impl ChangeNotifiers {
    /// Those of so many endpoints, none of them followed.
    pub(crate) fn new(endpoints: usize) -> Self {
        Self((0..endpoints).map(|_| Mutex::new(Weak::new())).collect())
    }

    /// Follows the endpoint of this index, until `closing` says otherwise.
    ///
    /// # Errors
    /// 503: the source cannot be reached, or not within its `acquire_timeout`.
    pub(crate) async fn subscribe(
        &self,
        endpoint: usize,
        (follow, source): (&Follow, &AnyDatabase),
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

    /// The notifier of the endpoint. One follower at a time has it begun; the others wait for what
    /// comes of that.
    async fn notifier(
        &self,
        endpoint: usize,
        follow: &Follow,
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
    fn begin(changes: Changes, follow: &Follow, source: &AnyDatabase) -> Self {
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

/// The changes of a source, which report the transactions that followers wait for.
async fn changes(source: &AnyDatabase, follow: &Follow) -> Result<Changes, Error> {
    let mut changes = source.changes(follow.channel.as_deref(), follow.poll).await?;
    if follow.transaction.is_some() {
        changes.report_waits();
    }
    Ok(changes)
}

/// What a poller asks.
struct Poller {
    source: AnyDatabase,
    follow: Follow,
}

impl Poller {
    /// Reports changes, until the source cannot be asked any more; why that is.
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
            // What the next connection reports first is a change, whatever has happened meanwhile.
            match self.again().await {
                Some(again) => changes = again,
                None => return lost,
            }
        }
    }

    /// Another connection, as soon as there can be one.
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
    /// What follows is a reading: what changes from now on is a change.
    pub(crate) fn begin_reading(&mut self) {
        self.changes.mark_unchanged();
    }

    /// Waits until there may be rows that were not there when the last reading began.
    ///
    /// # Errors
    /// The source cannot be asked any more.
    pub(crate) async fn wake(&mut self) -> Result<Wake, Error> {
        let changed = tokio::select! {
            _ = self.closing.wait_for(|closing| *closing) => return Ok(Wake::Closing),
            changed = self.changes.changed() => changed,
        };
        match &*self.changes.borrow_and_update() {
            Change::NewRows if changed.is_ok() => Ok(Wake::NewRows),
            Change::NewRows => Err(gone("the poller has ended")),
            Change::Failed(cause) => Err(gone(cause.as_str())),
        }
    }

    /// How long a reading may wait for the source to come back.
    pub(crate) fn patience(&self) -> Patience {
        Patience::begin(self.notifier.source.acquire_timeout())
    }

    /// Whether the server is about to end.
    pub(crate) fn is_closing(&self) -> bool {
        *self.closing.borrow()
    }

    /// Waits until the source cannot be asked any more; why that is.
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

    /// Waits for the turn to ask the pool for a connection. A thousand followers that are woken at
    /// once would fill its queue, to the harm of all others; so they do if they come at once, as
    /// after a restart.
    pub(crate) async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        self.notifier.source.turn().await
    }
}

fn gone(cause: &str) -> Error {
    Error::source_unavailable("the source does not say any more whether there are new rows").cause(cause)
}
