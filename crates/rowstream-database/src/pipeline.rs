//! Lookups: short statements of many requests, pipelined on one connection.
//!
//! A lookup with a connection of its own costs a round trip, and the connection does nothing else
//! during that time. Here the lookups of a worker thread share a connection. When the worker polls
//! the pipeline, it sends all waiting lookups together. The replies arrive in the same order. The
//! messages themselves are up to each database ([`Peer`]).
//!
//! ```text
//! request ──look_up()──► batch ──driver──► expected ──reply──► request
//!                                             │
//!        Again: it's sent once more           ◄── it wasn't answered, because of another lookup
//!        Elsewhere: a connection of its own   ◄── it stalled the others, or the connection was lost or unavailable
//! ```
//!
//! Statements only read, so an unanswered lookup can be sent again. Invariants:
//!
//! 1. replies are expected in the order in which lookups were sent;
//! 2. every lookup gets an answer; if its sender is dropped, it moves to another connection;
//! 3. rows are used with the described columns only if those still apply;
//! 4. a statement delays the others by [`PATIENCE`] and a round trip at most, or by
//!    [`FULL_PATIENCE`] while the pool has no free slot for it. Then it's cancelled. It runs on
//!    connections of its own until it's quick there ([`DelayRecord`]). The pipeline keeps its slot
//!    for the other lookups, even if streams wait for one;
//! 5. at most [`MAX_ROWS`] rows of a reply are held. The second one only proves that there are too
//!    many.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::mem;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use rowstream_core::Error;
use rowstream_core::histogram::Histogram;
use rowstream_core::lock::{Mutex, MutexGuard};
use rowstream_core::params::ParamValue;
use rowstream_core::pool::{Lease, Patience, Pool, PoolConfig, Priority, Waiter};
use rowstream_core::timer::Timer;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::SharedLookups;
use super::lookups::{self, Links, connections};

/// If opening a connection takes this long and fails, the waiting lookups fail too. If it fails
/// sooner (its backend was terminated, say), they try connections of their own.
const LONG_WAIT: Duration = Duration::from_secs(1);
/// The longest silence while replies are expected. A lookup by key needs a hundredth of it, but on
/// a busy machine the database may have to wait for a CPU.
pub const PATIENCE: Duration = Duration::from_millis(50);
/// The same while the pool has no free slot: a lookup that leaves would wait for one, and the
/// machine is probably busy.
const FULL_PATIENCE: Duration = Duration::from_millis(500);
/// One row, and a second one that proves there are too many.
pub const MAX_ROWS: usize = 2;
/// The number of times that a lookup is sent here before it gets its own connection.
const ATTEMPTS: usize = 3;
/// While more replies than this are expected, new lookups wait and become one batch. Otherwise each
/// reply would wake a worker that sends a batch of one. The database, the server and the clients
/// would then spend their time waking each other. With few clients, waiting for a round trip costs
/// more than it saves.
const FEW: usize = 6;
/// For a distant database, one more batch may be in flight for each such part of a round trip. So
/// lookups wait no longer than this, and replies wake a worker no more often.
const APART: Duration = Duration::from_micros(128);
/// The limit for batches in flight.
const MOST_BATCHES: u128 = 16;
/// The round trips needed to cancel a statement and reuse its connection.
const CANCELLING: u32 = 4;
/// The shortest time that a slow statement runs on connections of its own. Otherwise a statement
/// that is slow only for some arguments would be back at once.
const SLOW_FOR: Duration = Duration::from_secs(1);
/// After this time it may try again, even if it never proved to be quick. Streams may hold all the
/// connections that it could prove it on, or perhaps only the machine was busy. At worst it delays
/// the others once in this time.
const SLOW_AT_MOST: Duration = Duration::from_secs(10);

/// The rows of a lookup: the bytes of at most [`MAX_ROWS`].
pub type Rows = Vec<Box<[u8]>>;

/// The reason why a lookup has no rows.
#[derive(Debug)]
pub enum Refusal {
    /// The statement failed.
    Failed(Error),
    /// The statement's outcome is unknown: send it again.
    Again,
    /// The lookup needs a connection of its own.
    Elsewhere,
}

/// The reply to one lookup.
type LookupReply = Result<Rows, Refusal>;

/// Records when a statement delayed others. It then runs on connections of its own until it's
/// quick, or for [`SLOW_AT_MOST`].
#[derive(Debug, Default)]
pub struct DelayRecord(Mutex<Option<std::time::Instant>>);

impl DelayRecord {
    /// Returns true if the statement should run on a connection of its own.
    pub fn is_slow(&self) -> bool {
        let mut since = self.0.lock();
        since.take_if(|since| since.elapsed() >= SLOW_AT_MOST);
        since.is_some()
    }

    /// Records that the statement delayed others.
    pub fn note(&self) {
        *self.0.lock() = Some(std::time::Instant::now());
    }

    /// Records the time that the statement took on a connection of its own.
    pub fn note_time(&self, time: Duration) {
        if time < PATIENCE / 2 {
            self.0.lock().take_if(|since| since.elapsed() >= SLOW_FOR);
        }
    }
}

/// A statement that lookups share.
pub trait ShareableStatement: Send + Sync + 'static {
    /// The record of delays it has caused.
    fn slow(&self) -> &DelayRecord;
}

/// A connection that pipelines lookups: the messages that it sends, and the replies that it
/// expects.
pub trait Peer: Sized + Send + 'static {
    /// The parts that all connections of a source share.
    type SourceState: Send + Sync + 'static;
    /// A connection in the pool.
    type Connection: Send + 'static;
    /// A prepared statement.
    type Statement: ShareableStatement;
    /// Encoded lookups that aren't sent yet.
    type Messages: Default + Send;
    /// More state of a lookup.
    type Note: Send;

    /// The pool of the source.
    fn pool(shared: &Self::SourceState) -> &Pool<Self::Connection>;

    /// Returns an idle connection of `place`, or opens a new one. Without `place` it opens one to
    /// replace another.
    ///
    /// # Errors
    /// The database can't be reached.
    fn open(
        shared: &Arc<Self::SourceState>,
        pipeline: &Arc<Pipeline<Self>>,
        place: Option<&Lease<Self::Connection>>,
    ) -> impl Future<Output = Result<Self, Error>> + Send;

    /// Returns the connection for the pool. No replies are expected on it.
    fn into_connection(self) -> Self::Connection;

    /// Appends the messages that run `statement`.
    ///
    /// # Errors
    /// The arguments can't be sent. The appended bytes can be ignored.
    fn write(
        statement: &Self::Statement,
        args: &[&ParamValue],
        messages: &mut Self::Messages,
    ) -> Result<Self::Note, Error>;

    /// Sends the waiting lookups as one batch, and empties both arguments.
    fn send(&mut self, messages: &mut Self::Messages, lookups: &mut Vec<Lookup<Self>>);

    /// The number of expected replies.
    fn expected(&self) -> usize;

    /// The round-trip time to the database.
    fn round_trip(&self) -> Duration;

    /// Returns false if the connection should move to a better host.
    fn is_welcome(&self) -> bool {
        true
    }

    /// Receives one message. Returns `None` if the connection can't be used any more.
    fn poll_take(&mut self, cx: &mut Context<'_>) -> Poll<Option<()>>;

    /// Refuses the lookups whose replies don't arrive. The first one delays the others.
    fn refuse_expected(&mut self);

    /// Cancels the running statement, and discards the replies to [refused](Self::refuse_expected)
    /// lookups. Returns true if the connection is still usable.
    fn settle(&mut self, shared: &Arc<Self::SourceState>) -> impl Future<Output = bool> + Send;
}

/// The pipelines of a source: one for each worker thread, if the pool is large enough.
pub struct Pipelines<P: Peer>(Links<Pipeline<P>>);

impl<P: Peer> Pipelines<P> {
    /// The pipelines of a source with this pool. None has a connection yet.
    pub fn new(pool: &PoolConfig) -> Self {
        Self(Links::new(pool, connections(pool.max)))
    }

    /// The rows of `statement` for `args`. Returns `None` if it needs a connection of its own.
    ///
    /// # Errors
    /// The statement failed, the database can't be reached, or too many lookups are pending.
    pub async fn look_up(
        &self,
        shared: &Arc<P::SourceState>,
        statement: &Arc<P::Statement>,
        args: &[&ParamValue],
        patience: Patience<'_>,
    ) -> Result<Option<Rows>, Error> {
        let Self(links) = self;
        if links.is_empty() {
            return Ok(None);
        }
        let pool = P::pool(shared);
        let _pending = links.enter().ok_or_else(|| pool.refuse(links.most))?;
        for _ in 0..ATTEMPTS {
            // Checked before each attempt, because another lookup may have just found it slow.
            if statement.slow().is_slow() {
                break;
            }
            let pipeline = links.of_thread(|| Pipeline::open(shared, Arc::clone(&links.batches)));
            let (reply, link) = pipeline.ask(statement, args)?;
            let reply = match link {
                LinkState::Connection => reply.await,
                LinkState::None | LinkState::Lease => {
                    let _wait = patience.wait();
                    pipeline.reply_within(reply, patience.until(pool.acquire_timeout())).await
                }
            };
            match reply.unwrap_or(Err(Refusal::Elsewhere)) {
                Ok(rows) => return Ok(Some(rows)),
                Err(Refusal::Failed(error)) => return Err(error),
                Err(Refusal::Elsewhere) => break,
                Err(Refusal::Again) => {}
            }
        }
        Ok(None)
    }

    /// Statistics of the lookups.
    pub fn seen(&self) -> SharedLookups {
        self.0.seen()
    }
}

/// The lookups of one connection that aren't sent yet.
pub struct Pipeline<P: Peer>(Mutex<NextBatch<P>>);

/// The state of a pipeline's connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LinkState {
    /// The pipeline waits for its slot in the pool.
    None,
    /// A connection is being opened.
    Lease,
    Connection,
}

/// The lookups that wait for the next batch.
pub struct NextBatch<P: Peer> {
    link: LinkState,
    /// Their messages to the server.
    pub messages: P::Messages,
    lookups: Vec<Lookup<P>>,
    driver: Option<Waker>,
    closed: bool,
}

/// A lookup, from request to reply.
pub struct Lookup<P: Peer> {
    /// The prepared statement.
    pub statement: Arc<P::Statement>,
    /// The state that the protocol needs for the reply.
    pub note: P::Note,
    /// The rows received so far.
    pub rows: Rows,
    reply: oneshot::Sender<LookupReply>,
}

impl<P: Peer> Lookup<P> {
    /// Replies with the rows that were received.
    pub fn answer(mut self) {
        let rows = mem::take(&mut self.rows);
        self.end(Ok(rows));
    }

    /// Replies that there are no rows.
    pub fn refuse(self, refused: Refusal) {
        self.end(Err(refused));
    }

    fn end(self, reply: LookupReply) {
        // If the request is gone, it needs no reply.
        let _ = self.reply.send(reply);
    }
}

impl<P: Peer> Pipeline<P> {
    /// Creates a pipeline, and a task of this runtime that opens and drives its connection.
    fn open(shared: &Arc<P::SourceState>, batches: Arc<Mutex<Histogram<u64>>>) -> Arc<Self> {
        let next = NextBatch {
            link: LinkState::None,
            messages: P::Messages::default(),
            lookups: Vec::new(),
            driver: None,
            closed: false,
        };
        let this = Arc::new(Self(Mutex::new(next)));
        tokio::spawn(drive(Arc::downgrade(shared), Arc::clone(&this), batches));
        this
    }

    /// The lookups that wait, locked.
    pub fn lock(&self) -> MutexGuard<'_, NextBatch<P>> {
        self.0.lock()
    }

    /// Adds a lookup to the next batch. Also returns the current state of the connection.
    ///
    /// # Errors
    /// The arguments can't be sent.
    fn ask(
        &self,
        statement: &Arc<P::Statement>,
        args: &[&ParamValue],
    ) -> Result<(oneshot::Receiver<LookupReply>, LinkState), Error> {
        let (reply, receiver) = oneshot::channel();
        let mut next = self.lock();
        if next.closed {
            // The pipeline was closed after we found it. Because the sender is dropped, the lookup
            // gets another connection.
            return Ok((receiver, next.link));
        }
        let note = P::write(statement, args, &mut next.messages)?;
        next.lookups.push(Lookup { statement: Arc::clone(statement), note, rows: Rows::new(), reply });
        let (driver, link) = (next.driver.take(), next.link);
        drop(next);
        driver.into_iter().for_each(Waker::wake);
        Ok((receiver, link))
    }

    /// Waits for a reply. If the pipeline still waits for its slot at `until`, the lookup moves to
    /// another connection.
    async fn reply_within(
        &self,
        mut reply: oneshot::Receiver<LookupReply>,
        until: Instant,
    ) -> Result<LookupReply, oneshot::error::RecvError> {
        match tokio::time::timeout_at(until, &mut reply).await {
            Ok(reply) => reply,
            Err(_) if self.lock().link == LinkState::None => Ok(Err(Refusal::Elsewhere)),
            Err(_) => reply.await,
        }
    }

    /// Closes the pipeline and refuses the lookups that weren't sent.
    fn refuse(&self, refused: impl Fn() -> Refusal) {
        let mut next = self.lock();
        next.closed = true;
        let (lookups, driver) = (mem::take(&mut next.lookups), next.driver.take());
        drop(next);
        lookups.into_iter().for_each(|look_up| look_up.refuse(refused()));
        driver.into_iter().for_each(Waker::wake);
    }
}

impl<P: Peer> lookups::Link for Pipeline<P> {
    fn is_closed(&self) -> bool {
        self.lock().closed
    }

    fn close(&self) {
        self.refuse(|| Refusal::Elsewhere);
    }
}

/// Opens the connection of a pipeline and drives it to its end.
async fn drive<P: Peer>(
    shared: Weak<P::SourceState>,
    pipeline: Arc<Pipeline<P>>,
    batches: Arc<Mutex<Histogram<u64>>>,
) {
    // Closes the pipeline even if the runtime drops this task, so that no request waits forever.
    let open = PipelineCloser(pipeline);
    let Some((place, peer)) = connect(&shared, &open.0).await else { return };
    let mut timer = Timer::default();
    timer.start(PATIENCE);
    let mut driver = PipelineDriver {
        pipeline: &open.0,
        batches_sent: Batches::over(peer.round_trip()),
        peer,
        heard: Instant::now(),
        timer,
        shared: &shared,
        batches: &batches,
        idle_timeout: place.idle_timeout(),
    };
    loop {
        match poll_fn(|cx| driver.poll(cx)).await {
            End::Lost => return,
            End::Idle => break,
            End::Stalled => {
                driver.peer.refuse_expected();
                let Some(shared) = shared.upgrade() else { return };
                let Some(next) = go_on(&shared, &open.0, &place, driver.peer).await else {
                    return;
                };
                driver.batches_sent = Batches::over(next.round_trip());
                driver.peer = next;
            }
        }
    }
    open.0.refuse(|| Refusal::Again);
    place.give_back(driver.peer.into_connection());
}

/// Cancels the running statement and continues with the connection. If that takes too long, it
/// opens another one in the same slot, so that the other lookups don't wait. The old connection is
/// still settled in the background, then closed. Returns `None` if no other one can be opened.
async fn go_on<P: Peer>(
    shared: &Arc<P::SourceState>,
    pipeline: &Arc<Pipeline<P>>,
    place: &Lease<P::Connection>,
    mut peer: P,
) -> Option<P> {
    let patience = PATIENCE + CANCELLING * peer.round_trip();
    let settling = tokio::spawn({
        let shared = Arc::clone(shared);
        async move { peer.settle(&shared).await.then_some(peer) }
    });
    if let Ok(Ok(Some(settled))) = tokio::time::timeout(patience, settling).await {
        return Some(settled);
    }
    let peer = P::open(shared, pipeline, None).await.ok()?;
    place.opened();
    Some(peer)
}

/// Opens the connection of a pipeline. If that fails after [`LONG_WAIT`], the waiting lookups fail
/// with the same error. On connections of their own they would only wait as long again.
async fn connect<P: Peer>(
    shared: &Weak<P::SourceState>,
    pipeline: &Arc<Pipeline<P>>,
) -> Option<(Lease<P::Connection>, P)> {
    let shared = shared.upgrade()?;
    let place = P::pool(&shared).acquire(Priority::Shared, Waiter::default().begin()).await.ok()?;
    pipeline.lock().link = LinkState::Lease;
    let begun = Instant::now();
    match P::open(&shared, pipeline, Some(&place)).await {
        Ok(peer) => {
            pipeline.lock().link = LinkState::Connection;
            Some((place, peer))
        }
        Err(error) => {
            let was_long = begun.elapsed() >= LONG_WAIT;
            pipeline.refuse(|| if was_long { Refusal::Failed(error.retold()) } else { Refusal::Elsewhere });
            None
        }
    }
}

struct PipelineCloser<P: Peer>(Arc<Pipeline<P>>);

impl<P: Peer> Drop for PipelineCloser<P> {
    fn drop(&mut self) {
        self.0.refuse(|| Refusal::Elsewhere);
    }
}

/// The end of a pipeline.
enum End {
    /// The connection was lost, can't be trusted, or is no longer needed.
    Lost,
    /// No message arrived for too long.
    Stalled,
    /// No lookup was sent for the pool's `idle_timeout`.
    Idle,
}

/// Sends lookups and dispatches replies.
struct PipelineDriver<'a, P: Peer> {
    pipeline: &'a Pipeline<P>,
    peer: P,
    batches_sent: Batches,
    /// The last time that the server sent something or was given work.
    heard: Instant,
    timer: Timer,
    shared: &'a Weak<P::SourceState>,
    batches: &'a Mutex<Histogram<u64>>,
    idle_timeout: Duration,
}

impl<P: Peer> PipelineDriver<'_, P> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        let mut heard = false;
        loop {
            // If another host is better now, a new pipeline will use that.
            if self.may_send() && !(self.peer.is_welcome() && self.take_asked(cx)) {
                return Poll::Ready(End::Lost);
            }
            match self.peer.poll_take(cx) {
                Poll::Ready(Some(())) => heard = true,
                Poll::Ready(None) => return Poll::Ready(End::Lost),
                Poll::Pending => break,
            }
        }
        if heard {
            self.heard = Instant::now();
        }
        self.poll_patience(cx)
    }

    fn may_send(&mut self) -> bool {
        let expected = self.peer.expected();
        expected <= FEW || self.batches_sent.leave_room(expected)
    }

    /// Sends the waiting lookups as one batch. Returns true if the pipeline is still open.
    fn take_asked(&mut self, cx: &Context<'_>) -> bool {
        let mut next = self.pipeline.lock();
        next.driver = Some(cx.waker().clone());
        if !next.lookups.is_empty() {
            let expected = self.peer.expected();
            if expected == 0 {
                self.heard = Instant::now();
                self.timer.run_until(self.heard + PATIENCE);
            }
            self.batches.lock().observe(next.lookups.len() as u64);
            let NextBatch { messages, lookups, .. } = &mut *next;
            self.peer.send(messages, lookups);
            self.batches_sent.note(expected, self.peer.expected().saturating_sub(expected));
        }
        !next.closed
    }

    /// Ready after too long without a message or a lookup. The timer runs out and is set again,
    /// because that's cheaper than moving it for each message. It runs out early enough to notice
    /// that a slot was freed.
    fn poll_patience(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        loop {
            ready!(self.timer.poll(cx));
            let is_idle = self.peer.expected() == 0;
            let (limit, end) = match is_idle {
                true => (self.idle_timeout, End::Idle),
                false => (self.patience(), End::Stalled),
            };
            let (now, deadline) = (Instant::now(), self.heard + limit);
            if now >= deadline {
                return Poll::Ready(end);
            }
            let next = if is_idle { deadline } else { deadline.min(now + PATIENCE) };
            self.timer.run_until(next);
        }
    }

    fn patience(&self) -> Duration {
        let is_full = self.shared.upgrade().is_some_and(|shared| P::pool(&shared).is_full());
        let patience = if is_full { FULL_PATIENCE } else { PATIENCE };
        patience + self.peer.round_trip()
    }
}

/// The batches in flight to a distant database.
struct Batches {
    /// The limit; 0 if the database is near.
    most: usize,
    /// The number of replies that each batch expects, in the order sent.
    sizes: VecDeque<usize>,
    sum: usize,
}

impl Batches {
    fn over(round_trip: Duration) -> Self {
        let most = (round_trip.as_micros() / APART.as_micros()).min(MOST_BATCHES);
        Self { most: most as usize, sizes: VecDeque::new(), sum: 0 }
    }

    /// Records a batch of `more` lookups, sent when `before` replies were expected.
    fn note(&mut self, before: usize, more: usize) {
        if self.most > 0 {
            self.forget_answered(before);
            self.sizes.push_back(more);
            self.sum += more;
        }
    }

    /// Returns true if another batch may be sent while this many replies are expected in all.
    fn leave_room(&mut self, expected: usize) -> bool {
        self.forget_answered(expected);
        self.sizes.len() < self.most
    }

    fn forget_answered(&mut self, expected: usize) {
        while let Some(first) = self.sizes.front()
            && self.sum - first >= expected
        {
            self.sum -= first;
            self.sizes.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_far_database_has_a_batch_for_each_part_of_the_way() {
        let most = |microseconds| Batches::over(Duration::from_micros(microseconds)).most;
        assert_eq!([0, 127, 128, 1000, 2048].map(most), [0, 0, 1, 7, 16]);
        assert_eq!(Batches::over(Duration::from_secs(3600)).most, 16);
    }

    #[test]
    fn a_batch_is_on_its_way_until_all_of_it_has_come() {
        let mut batches = Batches::over(3 * APART);
        for (before, size) in [(0, 4), (4, 3), (7, 2)] {
            assert!(batches.leave_room(before));
            batches.note(before, size);
        }
        assert!(!batches.leave_room(9));
        assert!(!batches.leave_room(6));
        assert!(batches.leave_room(5));
        batches.note(5, 7);
        assert!(!batches.leave_room(12));
        assert!(batches.leave_room(9));
    }

    #[test]
    fn what_was_answered_is_not_kept() {
        let mut far = Batches::over(3 * APART);
        let mut near = Batches::over(Duration::from_micros(30));
        for _ in 0..100 {
            far.note(0, 2);
            near.note(0, 2);
            assert!(!near.leave_room(2));
        }
        assert_eq!((far.sizes.len(), far.sum), (1, 2));
        assert!(near.sizes.is_empty());
    }
}
