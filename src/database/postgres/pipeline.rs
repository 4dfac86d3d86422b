//! Lookups: short statements of many requests, pipelined on one connection.
//!
//! On a connection of its own, a lookup costs a round trip in which the connection does nothing
//! else. Here the lookups of a worker share one: what has been asked by the time the worker gets to
//! it is sent together, behind one Sync, and the replies come in the same order (PostgreSQL manual,
//! "Pipelining").
//!
//! ```text
//! request ──look_up()──► asked ──Driver──► expected ──reply──► request
//!                                             │
//!        Again: asked once more               ◄── an error before it in its batch (the server skips to the Sync), or a stall
//!        Elsewhere: a connection of its own   ◄── it stalled the others, or the connection was lost or could not be had
//! ```
//!
//! Statements only read, so whatever was not answered may be asked again. Invariants:
//!
//! 1. what is expected stands in the order of what is sent, and each batch ends in one Sync;
//! 2. every lookup gets an answer; one whose sender is dropped goes elsewhere;
//! 3. rows are taken for the described columns only if they are: a statement that is parsed here is
//!    described here too, and compared with what its readers know;
//! 4. a statement holds up the others for [`PATIENCE`] at most, or for [`FULL_PATIENCE`] while it
//!    would have to wait for a place of its own. It is then cancelled, and runs on connections of
//!    its own until it is seen to be quick there. The place in the pool is kept for the others,
//!    however many streams wait for one;
//! 5. of a reply at most two rows are held, of which the second is only the proof that there is one
//!    too many.

use std::collections::{HashSet, VecDeque};
use std::future::poll_fn;
use std::mem;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::BytesMut;
use fallible_iterator::FallibleIterator;
use postgres_protocol::message::backend::Message;
use postgres_protocol::message::frontend;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::Shared;
use super::connect::Connection;
use super::error::DatabaseError;
use super::hosts::Lent;
use super::session::{bind, settle_in_time, unsendable};
use super::statement::{Described, close};
use super::wire::Frame;
use crate::Error;
use crate::database::SharedLookups;
use crate::database::lookups::{self, Links, connections};
use crate::histogram::Histogram;
use crate::lock::Mutex;
use crate::params::ParamValue;
use crate::pool::{Lease, Patience, PoolConfig, Priority, Waiter};
use crate::timer::Timer;

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
const MAX_ROWS: i32 = 2;
/// How often a lookup is asked here before it gets a connection of its own.
const ATTEMPTS: usize = 3;
/// While more replies than this are awaited, what is asked waits and becomes one batch. Without
/// that, each reply wakes a worker that sends a batch of one, and the database, the server and the
/// clients spend their time on waking one another. Few clients lose more by waiting for a round
/// trip than they win.
const FEW: usize = 6;

/// The rows of a lookup: the bodies of at most [`MAX_ROWS`] DataRows.
pub(super) type Rows = Vec<Box<[u8]>>;

/// Why a lookup has no rows.
#[derive(Debug)]
enum Refused {
    /// The statement failed.
    Failed(Error),
    /// Nothing is known of it.
    Again,
    /// It belongs on a connection of its own.
    Elsewhere,
}

/// The pipelines of one source: one for each worker, as far as the size of its pool allows.
pub(super) struct Pipelines(Links<Pipeline>);

impl Pipelines {
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
        shared: &Arc<Shared>,
        statement: &Arc<Described>,
        args: &[&ParamValue],
        patience: Patience<'_>,
    ) -> Result<Option<Rows>, Error> {
        let Self(links) = self;
        if links.is_empty() {
            return Ok(None);
        }
        let _pending = links.enter().ok_or_else(|| shared.pool.refuse(links.most))?;
        for _ in 0..ATTEMPTS {
            // Also where another request has just found that out: one is enough that holds up the
            // others.
            if statement.is_slow() {
                break;
            }
            let pipeline = links.of_thread(|| Pipeline::open(shared, Arc::clone(&links.batches)));
            let (reply, link) = pipeline.ask(statement, args)?;
            let reply = match link {
                Link::Connection => reply.await,
                Link::None | Link::Lease => {
                    let _wait = patience.wait();
                    pipeline.reply_within(reply, patience.until(shared.pool.acquire_timeout())).await
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
struct Pipeline(Mutex<Asked>);

/// What a pipeline has to send by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Link {
    /// Its place in the pool is waited for.
    #[default]
    None,
    /// A connection is being opened.
    Lease,
    Connection,
}

/// The reply to one lookup.
type Reply = Result<Rows, Refused>;

#[derive(Default)]
struct Asked {
    link: Link,
    /// The messages, without the Sync.
    messages: BytesMut,
    lookups: Vec<Lookup>,
    /// The statements that are parsed on the connection, or will be by `messages`.
    parsed: HashSet<u64>,
    driver: Option<Waker>,
    closed: bool,
}

/// One lookup, from its question to its reply.
struct Lookup {
    statement: Arc<Described>,
    /// Whether it is parsed and described first.
    parses: bool,
    /// Whether its columns are no longer the described ones.
    changed: bool,
    rows: Rows,
    reply: oneshot::Sender<Reply>,
}

impl Lookup {
    fn end(self, reply: Reply) {
        // A request that has gone needs no reply.
        let _ = self.reply.send(reply);
    }
}

impl Pipeline {
    /// A pipeline whose connection a task of this runtime opens and drives.
    fn open(shared: &Arc<Shared>, batches: Arc<Mutex<Histogram<u64>>>) -> Arc<Self> {
        let this = Arc::new(Self(Mutex::default()));
        tokio::spawn(drive(Arc::downgrade(shared), Arc::clone(&this), batches));
        this
    }

    /// Puts a lookup behind those before it; the sender is the present one.
    ///
    /// # Errors
    /// The arguments cannot be sent.
    fn ask(
        &self,
        statement: &Arc<Described>,
        args: &[&ParamValue],
    ) -> Result<(oneshot::Receiver<Reply>, Link), Error> {
        let (reply, receiver) = oneshot::channel();
        let mut asked = self.0.lock();
        if asked.closed {
            // Nobody answers any more, since this pipeline was found.
            return Ok((receiver, asked.link));
        }
        let parses = !asked.parsed.contains(&statement.number);
        let begin = asked.messages.len();
        if let Err(error) = write(statement, args, parses, &mut asked.messages) {
            asked.messages.truncate(begin);
            return Err(error);
        }
        asked.parsed.insert(statement.number);
        let statement = Arc::clone(statement);
        asked.lookups.push(Lookup { statement, parses, changed: false, rows: Rows::new(), reply });
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
            Err(_) if self.0.lock().link == Link::None => Ok(Err(Refused::Elsewhere)),
            Err(_) => reply.await,
        }
    }

    /// Ends the pipeline; what was not sent is refused.
    fn refuse(&self, refused: impl Fn() -> Refused) {
        let mut asked = self.0.lock();
        asked.closed = true;
        let (lookups, driver) = (mem::take(&mut asked.lookups), asked.driver.take());
        drop(asked);
        lookups.into_iter().for_each(|look_up| look_up.end(Err(refused())));
        driver.into_iter().for_each(Waker::wake);
    }
}

impl lookups::Link for Pipeline {
    fn is_closed(&self) -> bool {
        self.0.lock().closed
    }

    fn close(&self) {
        self.refuse(|| Refused::Elsewhere);
    }
}

/// Appends the messages of one lookup.
fn write(
    statement: &Described,
    args: &[&ParamValue],
    parses: bool,
    messages: &mut BytesMut,
) -> Result<(), Error> {
    let name = &statement.shared_name;
    if parses {
        // It may be there from a pipeline before, or from an attempt that failed after it; closing
        // none is no error.
        close(name, messages);
        frontend::parse(name, &statement.sql, statement.types.iter().copied(), messages)
            .map_err(unsendable)?;
        frontend::describe(b'S', name, messages).map_err(unsendable)?;
    }
    bind("", name, &statement.decoders, args, messages)?;
    frontend::execute("", MAX_ROWS, messages).map_err(unsendable)
}

/// Opens the connection of a pipeline and drives it to its end.
async fn drive(shared: Weak<Shared>, pipeline: Arc<Pipeline>, batches: Arc<Mutex<Histogram<u64>>>) {
    // Also when the runtime drops this task: nobody may ask where nobody answers.
    let open = CloseOnDrop(pipeline);
    let Some((place, connection)) = connect(&shared, &open.0).await else { return };
    let mut timer = Timer::default();
    timer.start(PATIENCE);
    let mut driver = Driver {
        pipeline: &open.0,
        connection,
        expected: VecDeque::new(),
        skipping: false,
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
                let syncs = driver.refuse_expected();
                let Some(shared) = shared.upgrade() else { return };
                let Some(next) = go_on(&shared, &open.0, &place, driver.connection, syncs).await else {
                    return;
                };
                driver.connection = next;
            }
        }
    }
    open.0.refuse(|| Refused::Again);
    place.give_back(driver.connection.unlent());
}

/// Cancels what runs on a connection, and goes on with it; or, where that takes long, with another
/// one in its place: nobody waits for what others have asked. It is cancelled on meanwhile, and
/// closed. `None`: there is no other.
async fn go_on(
    shared: &Arc<Shared>,
    open: &Arc<Pipeline>,
    place: &Lease<Connection>,
    mut connection: Connection,
    syncs: u32,
) -> Option<Connection> {
    let settling = tokio::spawn({
        let shared = Arc::clone(shared);
        async move { settle_in_time(&shared, &mut connection, syncs, true).await.then_some(connection) }
    });
    if let Ok(Ok(Some(settled))) = tokio::time::timeout(PATIENCE, settling).await {
        return Some(settled);
    }
    let mut connection = shared.hosts.connection(None).await.ok()?;
    connection.lent.iter_mut().for_each(Lent::counts_no_more);
    place.opened();
    open.0.lock().parsed.clear();
    Some(connection)
}

/// The connection of a pipeline. Where none can be had after [`LONG_WAIT`], the lookups that wait
/// for it fail as it did: asked again on connections of their own, they would wait as long once
/// more.
async fn connect(shared: &Weak<Shared>, pipeline: &Pipeline) -> Option<(Lease<Connection>, Connection)> {
    let shared = shared.upgrade()?;
    let place = shared.pool.acquire(Priority::Shared, Waiter::default().begin()).await.ok()?;
    pipeline.0.lock().link = Link::Lease;
    let begun = Instant::now();
    match shared.hosts.connection(Some(&place)).await {
        Ok(mut connection) => {
            connection.lent.iter_mut().for_each(Lent::counts_no_more);
            pipeline.0.lock().link = Link::Connection;
            Some((place, connection))
        }
        Err(error) => {
            let was_long = begun.elapsed() >= LONG_WAIT;
            pipeline.refuse(|| if was_long { Refused::Failed(error.retold()) } else { Refused::Elsewhere });
            None
        }
    }
}

struct CloseOnDrop(Arc<Pipeline>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.refuse(|| Refused::Elsewhere);
    }
}

/// A reply that is to come.
enum Expected {
    Rows(Lookup),
    /// ReadyForQuery, the answer to a Sync.
    Ready,
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

/// Sends what is asked and tells the replies.
struct Driver<'a> {
    pipeline: &'a Pipeline,
    connection: Connection,
    expected: VecDeque<Expected>,
    /// Whether a statement of this batch has failed, so that the server skips the others.
    skipping: bool,
    /// When the server was last heard, or given something to do.
    heard: Instant,
    timer: Timer,
    shared: &'a Weak<Shared>,
    batches: &'a Mutex<Histogram<u64>>,
    idle_timeout: Duration,
}

impl Driver<'_> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        let mut heard = false;
        loop {
            // What reads at a host that another one is better than goes on there.
            if self.expected.len() <= FEW && !(self.connection.is_welcome() && self.take_asked(cx)) {
                return Poll::Ready(End::Lost);
            }
            match self.connection.wire.poll_frame(cx) {
                Poll::Ready(Ok(frame)) if self.take(&frame).is_some() => heard = true,
                Poll::Ready(Err(lost)) => {
                    self.connection.lent.iter().for_each(|lent| lent.failed(&lost));
                    return Poll::Ready(End::Lost);
                }
                Poll::Ready(Ok(_)) => return Poll::Ready(End::Lost),
                Poll::Pending => break,
            }
        }
        if heard {
            self.heard = Instant::now();
        }
        self.poll_patience(cx)
    }

    /// Takes what was asked as one batch. Whether the pipeline is still open.
    fn take_asked(&mut self, cx: &Context<'_>) -> bool {
        let mut asked = self.pipeline.0.lock();
        asked.driver = Some(cx.waker().clone());
        if !asked.lookups.is_empty() {
            if self.expected.is_empty() {
                self.heard = Instant::now();
                self.timer.run_until(self.heard + PATIENCE);
            }
            self.batches.lock().observe(asked.lookups.len() as u64);
            frontend::sync(&mut asked.messages);
            self.connection.wire.write.extend_from_slice(&asked.messages);
            asked.messages.clear();
            self.expected.extend(asked.lookups.drain(..).map(Expected::Rows));
            self.expected.push_back(Expected::Ready);
        }
        !asked.closed
    }

    /// Takes one message; `None` when the connection can no longer be used.
    fn take(&mut self, frame: &Frame) -> Option<()> {
        match frame.tag {
            b'D' => self.take_row(frame),
            b'C' | b's' => self.end_rows(),
            b'T' => self.compare_columns(frame),
            b'E' => self.fail(frame),
            b'Z' => self.take_ready(frame),
            b'1' | b'2' | b'3' | b't' | b'N' | b'S' | b'A' => Some(()),
            _ => None,
        }
    }

    /// The lookup whose reply comes.
    fn current(&mut self) -> Option<&mut Lookup> {
        match self.expected.front_mut() {
            Some(Expected::Rows(look_up)) if !self.skipping => Some(look_up),
            _ => None,
        }
    }

    fn take_current(&mut self) -> Option<Lookup> {
        match self.expected.pop_front() {
            Some(Expected::Rows(look_up)) => Some(look_up),
            _ => None,
        }
    }

    fn take_row(&mut self, frame: &Frame) -> Option<()> {
        let row = self.connection.wire.body(frame).into();
        self.current()?.rows.push(row);
        Some(())
    }

    fn end_rows(&mut self) -> Option<()> {
        self.current()?;
        let mut look_up = self.take_current()?;
        match look_up.changed {
            true => self.forget(look_up),
            false => {
                let rows = mem::take(&mut look_up.rows);
                look_up.end(Ok(rows));
            }
        }
        Some(())
    }

    fn compare_columns(&mut self, frame: &Frame) -> Option<()> {
        let Ok(Message::RowDescription(body)) = self.connection.wire.parse(frame) else { return None };
        let look_up = self.current()?;
        let mut described = look_up.statement.fields.iter();
        let same = body.fields().all(|field| Ok(described.next().is_some_and(|known| known.is(&field))));
        look_up.changed = !(same.ok()? && described.next().is_none());
        Some(())
    }

    /// The current statement failed; the server skips the rest of the batch.
    fn fail(&mut self, frame: &Frame) -> Option<()> {
        let Ok(Message::ErrorResponse(body)) = self.connection.wire.parse(frame) else { return None };
        let error = DatabaseError::new(&body);
        self.current().filter(|_| !error.fatal)?;
        let failed = self.take_current()?;
        self.skipping = true;
        let missing = error.is_missing_statement();
        if failed.parses || missing {
            self.pipeline.0.lock().parsed.remove(&failed.statement.number);
        }
        match error.is_stale_statement() {
            true if missing => failed.end(Err(Refused::Again)),
            true => self.forget(failed),
            false => failed.end(Err(Refused::Failed(error.into_error(None)))),
        }
        self.refuse_skipped();
        Some(())
    }

    fn refuse_skipped(&mut self) {
        while let Some(Expected::Rows(_)) = self.expected.front() {
            let Some(skipped) = self.take_current() else { return };
            self.refuse(skipped, Refused::Again);
        }
    }

    /// The statement is no longer what was described: a migration.
    fn forget(&self, look_up: Lookup) {
        self.pipeline.0.lock().parsed.remove(&look_up.statement.number);
        if let Some(shared) = self.shared.upgrade() {
            shared.descriptions.forget(&look_up.statement);
        }
        look_up.end(Err(Refused::Elsewhere));
    }

    fn take_ready(&mut self, frame: &Frame) -> Option<()> {
        self.connection.status = *self.connection.wire.body(frame).first()?;
        self.skipping = false;
        matches!(self.expected.pop_front(), Some(Expected::Ready)).then_some(())
    }

    /// Ready when nothing came, or nothing was asked, for too long. The timer is let run out and
    /// set anew, which is cheaper than moving it at each message; and it runs out early enough to
    /// see that a place has become free.
    fn poll_patience(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        loop {
            ready!(self.timer.poll(cx));
            let (limit, end) = match self.expected.is_empty() {
                true => (self.idle_timeout, End::Idle),
                false => (self.patience(), End::Stalled),
            };
            let (now, deadline) = (Instant::now(), self.heard + limit);
            if now >= deadline {
                return Poll::Ready(end);
            }
            let next = if self.expected.is_empty() { deadline } else { deadline.min(now + PATIENCE) };
            self.timer.run_until(next);
        }
    }

    fn patience(&self) -> Duration {
        let is_full = self.shared.upgrade().is_some_and(|shared| shared.pool.is_full());
        if is_full { FULL_PATIENCE } else { PATIENCE }
    }

    /// Tells those whose replies do not come what to do, and yields the number of ReadyForQuery
    /// still to come.
    fn refuse_expected(&mut self) -> u32 {
        let mut syncs = 0;
        for (index, expected) in mem::take(&mut self.expected).into_iter().enumerate() {
            match expected {
                Expected::Ready => syncs += 1,
                Expected::Rows(look_up) if index == 0 => {
                    look_up.statement.mark_slow();
                    self.refuse(look_up, Refused::Elsewhere);
                }
                Expected::Rows(look_up) => self.refuse(look_up, Refused::Again),
            }
        }
        self.skipping = false;
        syncs
    }

    /// Refuses one that was sent, and may have been skipped.
    fn refuse(&self, look_up: Lookup, refused: Refused) {
        if look_up.parses {
            self.pipeline.0.lock().parsed.remove(&look_up.statement.number);
        }
        look_up.end(Err(refused));
    }
}
