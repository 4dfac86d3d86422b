//! The watchdog of a response: what ends it while nobody polls its body.
//!
//! An HTTP library does not poll a body whose client takes nothing, so a timer in the body would
//! never fire. The watchdog stands beside it: whoever drives the response polls [`Watchdog::over`]
//! as well, and drops the response once that is ready, which cancels its statements. It is over
//!
//! 1. when the response has lasted for the endpoint's `timeout.total`; over HTTP/1 also when hyper
//!    has all of it, and the socket has not ([`LastBytes`]);
//! 2. HTTP/2: when the client has left what it was given untaken for `write_timeout`. One stream's
//!    flow control is not seen on the socket, where the others go on. What stops on the socket is
//!    seen there ([`crate::server`]), and reported to [`Watchdog::stall`];
//! 3. when the client has taken less than the endpoint's minimum rate, seen in the same two places
//!    (`slow_clients = { min_rate = … }`);
//! 4. when somebody who may has stopped the stream ([`Watchdog::stop`]).
//!
//! For the same reason it has the rows of slow clients spilled ([`Watchdog::spill`]), is over where
//! they cannot be and [others wait for the connection](crate::pool::SlowReader), and keeps
//! what is left of a response's permit until its last byte has left this process.
//!
//! A connection of HTTP/1 has one watchdog for its responses, which follow each other, and each
//! stream of HTTP/2 has its own. A chunk costs a reading of the clock; the timer is made when there
//! is something to wait for, and set once in the time it waits.

mod credit;

use std::future::{Future, poll_fn};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use tokio::time::Instant;

use self::credit::Credit;
use crate::Error;
use crate::admission::Permit;
use crate::completeness::Id;
use crate::lock::Mutex;
use crate::outcome::Outcome;
use crate::timer::Timer;

/// How long an HTTP/2 stream that has lasted for too long is given to be reset as one that has
/// failed ([`Watchdog::is_late`]): one that is dropped is reset as one that is no longer needed.
const LAST_WORD: Duration = Duration::from_millis(500);

tokio::task_local! {
    static CURRENT: Arc<Watchdog>;
}

/// Why a response was ended from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Over {
    /// The client took nothing for `write_timeout`, or while others waited for its connection.
    Stalled,
    /// The client took less than the endpoint's minimum rate, or the least of all while others waited for
    /// its connection.
    TooSlow,
    /// The response lasted for so long, which is the endpoint's `timeout.total`.
    Total(Duration),
    /// Somebody stopped it.
    Stopped,
}

impl Over {
    /// How a response ended that was ended so.
    pub(crate) fn outcome(self) -> Outcome {
        match self {
            Self::Stalled => Outcome::Stalled,
            Self::TooSlow => Outcome::TooSlow,
            Self::Total(total) => Outcome::Failed(Error::total_timeout(total)),
            Self::Stopped => Outcome::Failed(Error::stream_stopped()),
        }
    }
}

/// A stream whose rows can be spilled while its client is slow. It is asked once a wake-up and not
/// once a row, so it need not be known which one it is.
pub(crate) trait Spilling: Send + Sync {
    /// Spills chunks for as long as the client is behind. When this is to be asked again, besides
    /// when it is woken.
    ///
    /// # Errors
    /// Why the stream has to end: others wait for its connection.
    fn poll_spill(&self, cx: &mut Context<'_>) -> Result<Option<Instant>, Over>;
}

/// What is left of a response once its body has gone: its last bytes, on their way to the socket.
/// Dropped, it was aborted.
pub(crate) trait LastBytes: Send {
    /// All of them have left this process.
    fn flushed(self: Box<Self>);

    /// They never will, for this reason if there is one.
    fn cut(self: Box<Self>, why: Option<Over>);
}

/// When a response will be over, and why.
type End = (Instant, Over);

/// Watches the responses of a connection, or the one of a stream.
#[derive(Default)]
pub(crate) struct Watchdog {
    state: Mutex<State>,
    /// How long the client may leave untaken what it was given; `None`: the socket tells.
    patience: Option<Duration>,
    /// Whether the connection's socket has taken nothing for too long; shared by all streams of the
    /// connection.
    stalled: Arc<AtomicBool>,
}

#[derive(Default)]
struct State {
    total: Option<(Instant, Duration)>,
    /// Since when the client has had something to take, and how many bytes.
    given: Option<(Instant, usize)>,
    /// How long the client may take less than the minimum rate, where there is one.
    credit: Option<Credit>,
    /// What is spilled if the client is slow.
    spill: Option<Weak<dyn Spilling>>,
    over: Option<Over>,
    /// The stream that may be stopped, and who then looks again.
    stoppable: Option<(Id, Waker)>,
    /// When it was.
    stopped: Option<Instant>,
    /// Of a response whose last bytes are on their way.
    permit: Option<Permit>,
    /// Responses of which that is so, and whose time is limited.
    last: Vec<Ending>,
}

/// A response whose last bytes are on their way, and until when they may be.
struct Ending {
    at: Instant,
    total: Duration,
    last: Box<dyn LastBytes>,
}

impl Watchdog {
    /// The watchdog of one HTTP/2 stream of the connection that `self` watches.
    pub(crate) fn of_stream(&self, patience: Duration) -> Arc<Self> {
        let stalled = Arc::clone(&self.stalled);
        Arc::new(Self { state: Mutex::default(), patience: Some(patience), stalled })
    }

    /// The one that watches what runs now; where none does, one that nobody asks.
    pub(crate) fn current() -> Arc<Self> {
        CURRENT.try_with(Arc::clone).unwrap_or_default()
    }

    /// Runs `future` as what is watched, to its end or until it is [`over`](Self::over).
    pub(crate) fn watch(self: Arc<Self>, future: impl Future) -> impl Future<Output = ()> {
        // Handed on by value it would be stored once for each hand.
        let (over, mut future) = (Arc::clone(&self), Box::pin(future));
        let watched = async move {
            tokio::select! {
                // In this order: what is waited for is known once the future has been polled.
                biased;
                _ = &mut future => {}
                () = over.over() => {}
            }
        };
        self.scope(watched)
    }

    /// Runs `future` as what is watched; the caller asks [`over`](Self::over), after each of its
    /// polls.
    pub(crate) fn scope<T>(self: Arc<Self>, future: impl Future<Output = T>) -> impl Future<Output = T> {
        CURRENT.scope(self, future)
    }

    /// The response may last for `total`, from `begun`.
    pub(crate) fn limit(&self, begun: Instant, total: Duration) {
        self.state.lock().total = Some((begun + total, total));
    }

    /// The response's client has to take so many bytes a second.
    pub(crate) fn set_min_rate(&self, rate: usize) {
        self.state.lock().credit = Some(Credit::new(rate));
    }

    /// Has the response's rows spilled when its client is slow.
    pub(crate) fn spill(&self, stream: Weak<impl Spilling + 'static>) {
        self.state.lock().spill = Some(stream);
    }

    /// The response is the stream of this id, which may be stopped.
    pub(crate) fn stream(&self, id: Id) {
        self.state.lock().stoppable = Some((id, Waker::noop().clone()));
    }

    /// Ends the stream of this id. Whether it was still there: a connection of HTTP/1 may be at its
    /// next response.
    pub(crate) fn stop(&self, id: Id) -> bool {
        let mut state = self.state.lock();
        let Some((_, waker)) = state.stoppable.take_if(|(stream, _)| *stream == id) else { return false };
        state.stopped = Some(Instant::now());
        drop(state);
        waker.wake();
        true
    }

    /// The client was given so many bytes.
    pub(crate) fn given(&self, bytes: usize) {
        if self.patience.is_some() {
            self.state.lock().given = Some((Instant::now(), bytes));
        }
    }

    /// The client wants more.
    pub(crate) fn taken(&self) {
        if self.patience.is_some() {
            let mut state = self.state.lock();
            if let (Some((since, bytes)), Some(credit)) = (state.given.take(), &mut state.credit) {
                credit.pass(since.elapsed(), bytes as u64);
            }
        }
    }

    /// The socket had bytes wait for so long, and its client took so many. How long it may still
    /// take none; `None`: there is no minimum rate.
    pub(crate) fn waited(&self, waited: Duration, taken: u64) -> Option<Duration> {
        let mut state = self.state.lock();
        let credit = state.credit.as_mut()?;
        credit.pass(waited, taken);
        Some(credit.left())
    }

    /// The body has gone, and nothing is to be waited for any more. What is left of its permit is
    /// kept until what was handed over has been [`flushed`](Self::flushed), or the connection or
    /// the stream ends.
    pub(crate) fn release(&self, permit: Option<Permit>) {
        let mut state = self.state.lock();
        (state.total, state.given, state.permit) = (None, None, permit);
        (state.credit, state.spill) = (None, None);
        (state.stoppable, state.stopped) = (None, None);
    }

    /// Whether the time of what it watches goes on when the body has gone.
    pub(crate) fn outlives_body(&self) -> bool {
        self.patience.is_none() && self.state.lock().total.is_some()
    }

    /// The body has gone, and its time goes on until what was handed over has been
    /// [`flushed`](Self::flushed).
    pub(crate) fn keep(&self, last: impl LastBytes + 'static) {
        let mut state = self.state.lock();
        (state.given, state.credit, state.spill) = (None, None, None);
        (state.stoppable, state.stopped) = (None, None);
        if let Some((at, total)) = state.total.take() {
            state.last.push(Ending { at, total, last: Box::new(last) });
        }
    }

    /// All that was handed over has left this process.
    pub(crate) fn flushed(&self) {
        let mut state = self.state.lock();
        state.permit = None;
        let last = std::mem::take(&mut state.last);
        drop(state);
        last.into_iter().for_each(|ending| ending.last.flushed());
    }

    /// The socket has taken nothing for too long.
    pub(crate) fn stall(&self) {
        self.stalled.store(true, Ordering::Relaxed);
    }

    /// The socket's client has taken less than the minimum rate.
    pub(crate) fn too_slow(&self) {
        self.state.lock().over = Some(Over::TooSlow);
    }

    /// Whether the response has lasted for longer than it may, or was stopped; then that is why it
    /// is over.
    pub(crate) fn is_late(&self) -> bool {
        let mut state = self.state.lock();
        let total = state.total.filter(|(at, _)| *at <= Instant::now()).map(|(_, total)| Over::Total(total));
        let late = state.stopped.map(|_| Over::Stopped).or(total);
        if late.is_some() {
            state.over = late;
        }
        late.is_some()
    }

    /// Why it is over, if it is.
    pub(crate) fn why(&self) -> Option<Over> {
        let stalled = || self.stalled.load(Ordering::Relaxed).then_some(Over::Stalled);
        self.state.lock().over.or_else(stalled)
    }

    /// Ready when the response has to end. To be polled after each poll of what it watches.
    pub(crate) async fn over(&self) {
        let mut timer = Timer::default();
        poll_fn(|cx| self.poll_over(&mut timer, cx)).await;
    }

    fn poll_over(&self, timer: &mut Timer, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let (end, stream) = self.next(cx.waker());
            let spilled = stream.map_or(Ok(None), |stream| stream.poll_spill(cx));
            let spill_at = match spilled {
                Ok(at) => at,
                Err(over) => {
                    self.state.lock().over = Some(over);
                    return Poll::Ready(());
                }
            };
            let mut end_at = None;
            if let Some((at, over)) = end {
                let (now, last) = (Instant::now(), at + self.last_word(over));
                if last <= now {
                    self.state.lock().over = Some(over);
                    return Poll::Ready(());
                }
                end_at = Some(if at <= now { last } else { at });
            }
            let Some(next) = end_at.into_iter().chain(spill_at).min() else { return Poll::Pending };
            // The time moves with every chunk.
            timer.run_at_most_until(next);
            ready!(timer.poll(cx));
        }
    }

    /// How long it goes on beyond its time, so that the body can say that it has failed when the
    /// client next takes something.
    fn last_word(&self, over: Over) -> Duration {
        match over {
            Over::Total(_) | Over::Stopped if self.patience.is_some() => LAST_WORD,
            _ => Duration::ZERO,
        }
    }

    /// When it will be over, and why; and what may have to be spilled until then. Whoever stops it
    /// before wakes `waker`.
    fn next(&self, waker: &Waker) -> (Option<End>, Option<Arc<dyn Spilling>>) {
        let mut state = self.state.lock();
        if let Some((_, woken)) = &mut state.stoppable {
            woken.clone_from(waker);
        }
        let last = state.last.iter().map(|ending| (ending.at, ending.total));
        let total = state.total.into_iter().chain(last).map(|(at, total)| (at, Over::Total(total)));
        let total = total.min_by_key(|(at, _)| *at);
        let since = state.given.map(|(since, _)| since);
        let stalled = since.zip(self.patience).map(|(since, patience)| (since + patience, Over::Stalled));
        let credit = state.credit.as_ref().map(Credit::left);
        let too_slow = since.zip(credit).map(|(since, left)| (since + left, Over::TooSlow));
        let stopped = state.stopped.map(|at| (at, Over::Stopped));
        let ends = [total, stalled, too_slow, stopped];
        let end = ends.into_iter().flatten().min_by_key(|(at, _)| *at);
        (end, state.spill.as_ref().and_then(Weak::upgrade))
    }
}

impl Drop for Watchdog {
    /// The connection has ended: what has not left by then never will.
    fn drop(&mut self) {
        let why = self.why();
        let last = std::mem::take(&mut self.state.lock().last);
        last.into_iter().for_each(|ending| ending.last.cut(why));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_stopped_once_and_not_another_of_its_connection() {
        let (first, second) = (Id::random().unwrap(), Id::random().unwrap());
        let watchdog = Watchdog::default();
        watchdog.stream(first);
        watchdog.release(None);
        watchdog.stream(second);
        assert!(!watchdog.stop(first) && !watchdog.is_late());
        assert!(watchdog.stop(second) && watchdog.is_late());
        assert!(!watchdog.stop(second));
    }
}
