//! Lookups: short statements of many requests, pipelined on one connection.
//!
//! On a connection of its own, a lookup costs a round trip in which the connection does nothing
//! else. Here the lookups of a worker share one: what has been asked by the time the worker gets to
//! it is sent together, and the replies come in the same order. What is sent and what comes, the
//! databases know ([`Peer`]).
//!
//! ```text
//! request ──look_up()──► asked ──Driver──► expected ──reply──► request
//!                                             │
//!        Again: asked once more               ◄── it was not answered, for the sake of another
//!        Elsewhere: a connection of its own   ◄── it stalled the others, or the connection was lost or could not be had
//! ```
//!
//! Statements only read, so whatever was not answered may be asked again. Invariants:
//!
//! 1. what is expected stands in the order of what is sent;
//! 2. every lookup gets an answer; one whose sender is dropped goes elsewhere;
//! 3. rows are taken for the described columns only if they are;
//! 4. a statement holds up the others for [`PATIENCE`] and a round trip at most, or for
//!    [`FULL_PATIENCE`] while it would have to wait for a place of its own. It is then cancelled, and
//!    runs on connections of its own until it is seen to be quick there ([`Slow`]). The place in the
//!    pool is kept for the others, however many streams wait for one;
//! 5. of a reply at most [`MAX_ROWS`] rows are held, of which the second is only the proof that
//!    there is one too many.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::mem;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::SharedLookups;
use super::lookups::{self, Links, connections};
use rowstream_core::Error;
use rowstream_core::histogram::Histogram;
use rowstream_core::lock::{Mutex, MutexGuard};
use rowstream_core::params::ParamValue;
use rowstream_core::pool::{Lease, Patience, Pool, PoolConfig, Priority, Waiter};
use rowstream_core::timer::Timer;

/// A connection that cannot be opened within this time is not tried a second time for the same
/// lookups. One that fails sooner is: its backend was terminated, say.
const LONG_WAIT: Duration = Duration::from_secs(1);
/// How long nothing may come while something is expected. A lookup by a key takes a hundredth of
/// it, but on a busy machine the database may have to wait for its turn.
pub(super) const PATIENCE: Duration = Duration::from_millis(50);
/// The same while no place of the pool is free: whoever leaves waits for one, and the machine is
/// often as busy as it gets.
const FULL_PATIENCE: Duration = Duration::from_millis(500);
/// One row, and a second one as proof that there is one too many.
pub(super) const MAX_ROWS: usize = 2;
/// How often a lookup is asked here before it gets a connection of its own.
const ATTEMPTS: usize = 3;
/// While more replies than this are awaited, what is asked waits and becomes one batch. Without
/// that, each reply wakes a worker that sends a batch of one, and the database, the server and the
/// clients spend their time on waking one another. Few clients lose more by waiting for a round
/// trip than they win.
const FEW: usize = 6;
/// Over a distance one more batch may be on its way for each such part of a round trip. What is asked
/// waits no longer than that, and replies wake a worker no more often.
const APART: Duration = Duration::from_micros(128);
/// And not more than these.
const MOST_BATCHES: u128 = 16;
/// Round trips in which a statement is cancelled and its connection can be used again.
const CANCELLING: u32 = 4;
/// How long a statement that held up others runs on connections of its own, at the least: one that
/// is slow for some arguments only would be back at once.
const SLOW_FOR: Duration = Duration::from_secs(1);
/// After which it may try again, quick or not: it may be that there is no connection of its own to
/// show it on, because streams have all of them, and that it was the machine that was busy. At
/// worst it holds up the others once in that time.
const SLOW_AT_MOST: Duration = Duration::from_secs(10);

/// The rows of a lookup: the bytes of at most [`MAX_ROWS`].
pub(super) type Rows = Vec<Box<[u8]>>;

/// Why a lookup has no rows.
#[derive(Debug)]
pub(super) enum Refused {
    /// The statement failed.
    Failed(Error),
    /// Nothing is known of it.
    Again,
    /// It belongs on a connection of its own.
    Elsewhere,
}

/// The reply to one lookup.
type Reply = Result<Rows, Refused>;

/// Since when a statement is known to hold up others; until it is seen to be quick, or for
/// [`SLOW_AT_MOST`], it runs on connections of its own.
#[derive(Debug, Default)]
pub(super) struct Slow(Mutex<Option<std::time::Instant>>);

impl Slow {
    /// Whether the statement is to run on connections of its own.
    pub(super) fn is_slow(&self) -> bool {
        let mut since = self.0.lock();
        since.take_if(|since| since.elapsed() >= SLOW_AT_MOST);
        since.is_some()
    }

    /// Notes that it held up others.
    pub(super) fn note(&self) {
        *self.0.lock() = Some(std::time::Instant::now());
    }

    /// Notes that it took so long on a connection of its own.
    pub(super) fn note_time(&self, time: Duration) {
        if time < PATIENCE / 2 {
            self.0.lock().take_if(|since| since.elapsed() >= SLOW_FOR);
        }
    }
}

/// A statement as its lookups know it.
pub(super) trait Shareable: Send + Sync + 'static {
    /// Whether it holds up others.
    fn slow(&self) -> &Slow;
}

/// One connection as its database pipelines lookups: what it sends, and what is to come.
pub(super) trait Peer: Sized + Send + 'static {
    /// What all connections of a source share.
    type Shared: Send + Sync + 'static;
    /// A connection as the pool keeps it.
    type Connection: Send + 'static;
    /// What is known of a statement.
    type Statement: Shareable;
    /// What is asked and not sent yet.
    type Messages: Default + Send;
    /// What is known of a lookup beside its statement.
    type Note: Send;

    /// The pool of the source.
    fn pool(shared: &Self::Shared) -> &Pool<Self::Connection>;

    /// The connection of a pipeline: an idle one of `place` or a new one; without a place, a new
    /// one that takes the place of another.
    ///
    /// # Errors
    /// The database cannot be reached.
    fn open(
        shared: &Arc<Self::Shared>,
        pipeline: &Arc<Pipeline<Self>>,
        place: Option<&Lease<Self::Connection>>,
    ) -> impl Future<Output = Result<Self, Error>> + Send;

    /// The connection for the pool; nothing is expected on it.
    fn into_connection(self) -> Self::Connection;

    /// Appends what asks `statement`.
    ///
    /// # Errors
    /// The arguments cannot be sent; what was appended does not matter.
    fn write(
        statement: &Self::Statement,
        args: &[&ParamValue],
        messages: &mut Self::Messages,
    ) -> Result<Self::Note, Error>;

    /// Sends what was asked as one batch, and leaves both empty.
    fn send(&mut self, messages: &mut Self::Messages, lookups: &mut Vec<Lookup<Self>>);

    /// How much is expected.
    fn expected(&self) -> usize;

    /// How long a packet takes to the database and back.
    fn round_trip(&self) -> Duration;

    /// Whether the connection leads where it should.
    fn is_welcome(&self) -> bool {
        true
    }

    /// Takes one message; `None` when the connection can no longer be used.
    fn poll_take(&mut self, cx: &mut Context<'_>) -> Poll<Option<()>>;

    /// Tells those whose replies do not come what to do: the first holds up the others.
    fn refuse_expected(&mut self);

    /// Cancels what runs, and takes what [`refuse_expected`](Self::refuse_expected) expects no
    /// more. Whether the connection can be used on.
    fn settle(&mut self, shared: &Arc<Self::Shared>) -> impl Future<Output = bool> + Send;
}

/// The pipelines of one source: one for each worker, as far as the size of its pool allows.
pub(super) struct Pipelines<P: Peer>(Links<Pipeline<P>>);

impl<P: Peer> Pipelines<P> {
    pub(super) fn new(pool: &PoolConfig) -> Self {
        Self(Links::new(pool, connections(pool.max)))
    }

    /// The rows of `statement` for `args`; `None`: it has to be asked on a connection of its own.
    ///
    /// # Errors
    /// The statement failed, or the database cannot be reached, or too many lookups are on their
    /// way.
    pub(super) async fn look_up(
        &self,
        shared: &Arc<P::Shared>,
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
            // Also where another request has just found that out: one is enough that holds up the
            // others.
            if statement.slow().is_slow() {
                break;
            }
            let pipeline = links.of_thread(|| Pipeline::open(shared, Arc::clone(&links.batches)));
            let (reply, link) = pipeline.ask(statement, args)?;
            let reply = match link {
                Link::Connection => reply.await,
                Link::None | Link::Lease => {
                    let _wait = patience.wait();
                    pipeline.reply_within(reply, patience.until(pool.acquire_timeout())).await
                }
            };
            match reply.unwrap_or(Err(Refused::Elsewhere)) {
                Ok(rows) => return Ok(Some(rows)),
                Err(Refused::Failed(error)) => return Err(error),
                Err(Refused::Elsewhere) => break,
                Err(Refused::Again) => {}
            }
        }
        Ok(None)
    }

    pub(super) fn seen(&self) -> SharedLookups {
        self.0.seen()
    }
}

/// What has been asked on one connection and is not sent yet.
pub(super) struct Pipeline<P: Peer>(Mutex<Asked<P>>);

/// What a pipeline has to send by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Link {
    /// Its place in the pool is waited for.
    None,
    /// A connection is being opened.
    Lease,
    Connection,
}

pub(super) struct Asked<P: Peer> {
    link: Link,
    pub(super) messages: P::Messages,
    lookups: Vec<Lookup<P>>,
    driver: Option<Waker>,
    closed: bool,
}

/// One lookup, from its question to its reply.
pub(super) struct Lookup<P: Peer> {
    pub(super) statement: Arc<P::Statement>,
    pub(super) note: P::Note,
    pub(super) rows: Rows,
    reply: oneshot::Sender<Reply>,
}

impl<P: Peer> Lookup<P> {
    /// All its rows have come.
    pub(super) fn answer(mut self) {
        let rows = mem::take(&mut self.rows);
        self.end(Ok(rows));
    }

    pub(super) fn refuse(self, refused: Refused) {
        self.end(Err(refused));
    }

    fn end(self, reply: Reply) {
        // A request that has gone needs no reply.
        let _ = self.reply.send(reply);
    }
}

impl<P: Peer> Pipeline<P> {
    /// A pipeline whose connection a task of this runtime opens and drives.
    fn open(shared: &Arc<P::Shared>, batches: Arc<Mutex<Histogram<u64>>>) -> Arc<Self> {
        let asked = Asked {
            link: Link::None,
            messages: P::Messages::default(),
            lookups: Vec::new(),
            driver: None,
            closed: false,
        };
        let this = Arc::new(Self(Mutex::new(asked)));
        tokio::spawn(drive(Arc::downgrade(shared), Arc::clone(&this), batches));
        this
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Asked<P>> {
        self.0.lock()
    }

    /// Puts a lookup behind those before it; the sender is the present one.
    ///
    /// # Errors
    /// The arguments cannot be sent.
    fn ask(
        &self,
        statement: &Arc<P::Statement>,
        args: &[&ParamValue],
    ) -> Result<(oneshot::Receiver<Reply>, Link), Error> {
        let (reply, receiver) = oneshot::channel();
        let mut asked = self.lock();
        if asked.closed {
            // Nobody answers any more, since this pipeline was found.
            return Ok((receiver, asked.link));
        }
        let note = P::write(statement, args, &mut asked.messages)?;
        asked.lookups.push(Lookup { statement: Arc::clone(statement), note, rows: Rows::new(), reply });
        let (driver, link) = (asked.driver.take(), asked.link);
        drop(asked);
        driver.into_iter().for_each(Waker::wake);
        Ok((receiver, link))
    }

    /// The reply of a pipeline that may still wait for its place: nobody waits for that beyond
    /// `until`.
    async fn reply_within(
        &self,
        mut reply: oneshot::Receiver<Reply>,
        until: Instant,
    ) -> Result<Reply, oneshot::error::RecvError> {
        match tokio::time::timeout_at(until, &mut reply).await {
            Ok(reply) => reply,
            Err(_) if self.lock().link == Link::None => Ok(Err(Refused::Elsewhere)),
            Err(_) => reply.await,
        }
    }

    /// Ends the pipeline; what was not sent is refused.
    fn refuse(&self, refused: impl Fn() -> Refused) {
        let mut asked = self.lock();
        asked.closed = true;
        let (lookups, driver) = (mem::take(&mut asked.lookups), asked.driver.take());
        drop(asked);
        lookups.into_iter().for_each(|look_up| look_up.refuse(refused()));
        driver.into_iter().for_each(Waker::wake);
    }
}

impl<P: Peer> lookups::Link for Pipeline<P> {
    fn is_closed(&self) -> bool {
        self.lock().closed
    }

    fn close(&self) {
        self.refuse(|| Refused::Elsewhere);
    }
}

/// Opens the connection of a pipeline and drives it to its end.
async fn drive<P: Peer>(
    shared: Weak<P::Shared>,
    pipeline: Arc<Pipeline<P>>,
    batches: Arc<Mutex<Histogram<u64>>>,
) {
    // Also when the runtime drops this task: nobody may ask where nobody answers.
    let open = CloseOnDrop(pipeline);
    let Some((place, peer)) = connect(&shared, &open.0).await else { return };
    let mut timer = Timer::default();
    timer.start(PATIENCE);
    let mut driver = Driver {
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
    open.0.refuse(|| Refused::Again);
    place.give_back(driver.peer.into_connection());
}

/// Cancels what runs on a connection, and goes on with it; or, where that takes long, with another
/// one in its place: nobody waits for what others have asked. It is cancelled on meanwhile, and
/// closed. `None`: there is no other.
async fn go_on<P: Peer>(
    shared: &Arc<P::Shared>,
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

/// The connection of a pipeline. Where none can be had after [`LONG_WAIT`], the lookups that wait
/// for it fail as it did: asked again on connections of their own, they would wait as long once
/// more.
async fn connect<P: Peer>(
    shared: &Weak<P::Shared>,
    pipeline: &Arc<Pipeline<P>>,
) -> Option<(Lease<P::Connection>, P)> {
    let shared = shared.upgrade()?;
    let place = P::pool(&shared).acquire(Priority::Shared, Waiter::default().begin()).await.ok()?;
    pipeline.lock().link = Link::Lease;
    let begun = Instant::now();
    match P::open(&shared, pipeline, Some(&place)).await {
        Ok(peer) => {
            pipeline.lock().link = Link::Connection;
            Some((place, peer))
        }
        Err(error) => {
            let was_long = begun.elapsed() >= LONG_WAIT;
            pipeline.refuse(|| if was_long { Refused::Failed(error.retold()) } else { Refused::Elsewhere });
            None
        }
    }
}

struct CloseOnDrop<P: Peer>(Arc<Pipeline<P>>);

impl<P: Peer> Drop for CloseOnDrop<P> {
    fn drop(&mut self) {
        self.0.refuse(|| Refused::Elsewhere);
    }
}

/// How a pipeline ends.
enum End {
    /// The connection was lost, cannot be trusted, or is no longer needed.
    Lost,
    /// Nothing came for too long.
    Stalled,
    /// Nothing was asked for the pool's `idle_timeout`.
    Idle,
}

/// Sends what is asked and has the replies told.
struct Driver<'a, P: Peer> {
    pipeline: &'a Pipeline<P>,
    peer: P,
    batches_sent: Batches,
    /// When the server was last heard, or given something to do.
    heard: Instant,
    timer: Timer,
    shared: &'a Weak<P::Shared>,
    batches: &'a Mutex<Histogram<u64>>,
    idle_timeout: Duration,
}

impl<P: Peer> Driver<'_, P> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        let mut heard = false;
        loop {
            // What reads at a host that another one is better than goes on there.
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

    /// Takes what was asked as one batch. Whether the pipeline is still open.
    fn take_asked(&mut self, cx: &Context<'_>) -> bool {
        let mut asked = self.pipeline.lock();
        asked.driver = Some(cx.waker().clone());
        if !asked.lookups.is_empty() {
            let expected = self.peer.expected();
            if expected == 0 {
                self.heard = Instant::now();
                self.timer.run_until(self.heard + PATIENCE);
            }
            self.batches.lock().observe(asked.lookups.len() as u64);
            let Asked { messages, lookups, .. } = &mut *asked;
            self.peer.send(messages, lookups);
            self.batches_sent.note(expected, self.peer.expected().saturating_sub(expected));
        }
        !asked.closed
    }

    /// Ready when nothing came, or nothing was asked, for too long. The timer is let run out and
    /// set anew, which is cheaper than moving it at each message; and it runs out early enough to
    /// see that a place has become free.
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

/// The batches that are on their way to a database that is far.
struct Batches {
    /// How many there may be; none where the database is near.
    most: usize,
    /// How many replies each has asked for, in the order in which they were sent.
    sizes: VecDeque<usize>,
    sum: usize,
}

impl Batches {
    fn over(round_trip: Duration) -> Self {
        let most = (round_trip.as_micros() / APART.as_micros()).min(MOST_BATCHES);
        Self { most: most as usize, sizes: VecDeque::new(), sum: 0 }
    }

    /// One was sent: so much was expected before, and now so much more.
    fn note(&mut self, before: usize, more: usize) {
        if self.most > 0 {
            self.forget_answered(before);
            self.sizes.push_back(more);
            self.sum += more;
        }
    }

    /// Whether one more may be sent, where so much is expected of all together.
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
