//! Ends a response from outside of its body.
//!
//! An HTTP library doesn't poll a body whose client reads nothing, so a timer in the body would
//! never fire. The watchdog runs beside it: the task that drives the response also polls
//! [`Watchdog::over`]. Once that is ready, it drops the response, which cancels its statements. A
//! response is over
//!
//! 1. when it has lasted for the endpoint's `timeout.total`. With HTTP/1 this includes the time in
//!    which hyper has the whole response but the socket hasn't ([`LastBytes`]);
//! 2. with HTTP/2, when the client hasn't read the bytes that it was given for `write_timeout`. The
//!    socket doesn't show the flow control of one stream, because the others continue. Clients that
//!    stop the whole socket are noticed there ([`crate::server`]) and reported to
//!    [`Watchdog::stall`];
//! 3. when the client reads slower than the endpoint's minimum rate (`slow_clients = { min_rate = …
//!    }`), noticed in the same two ways;
//! 4. when an authorized user has stopped the stream ([`Watchdog::stop`]).
//!
//! For the same reason the watchdog spills the rows of slow clients ([`Watchdog::spill`]). If it
//! can't, and [requests wait for the connection](rowstream_core::pool::SlowReader), the response is over. It
//! also keeps the rest of a response's permit until the last byte has left this process.
//!
//! An HTTP/1 connection has one watchdog for all its responses, which follow one another. Each HTTP/2
//! stream has its own. A chunk costs one look at the clock: it moves the deadline, but doesn't reset
//! the timer, which is created when there's something to wait for.

mod credit;

use std::future::{Future, poll_fn};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use rowstream_core::Error;
use rowstream_core::lock::Mutex;
use rowstream_core::timer::Timer;
use tokio::time::Instant;

use self::credit::Credit;
use crate::admission::Permit;
use crate::completeness::ResponseId;
use crate::outcome::Outcome;

/// How long the server tries to reset an HTTP/2 stream as failed ([`Watchdog::is_late`]) after it has
/// lasted too long. A stream that is dropped instead is reset as no longer needed.
const LAST_WORD: Duration = Duration::from_millis(500);

tokio::task_local! {
    static CURRENT: Arc<Watchdog>;
}

/// The reason why a response was ended from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EndReason {
    /// The client read nothing for `write_timeout`, or while requests waited for its connection.
    Stalled,
    /// The client was slower than the endpoint's minimum rate, or the slowest one while requests
    /// waited for its connection.
    TooSlow,
    /// The response lasted for this long, the endpoint's `timeout.total`.
    Total(Duration),
    /// A user stopped it.
    Stopped,
}

impl EndReason {
    /// The outcome of a response that was ended for this reason.
    pub(crate) fn outcome(self) -> Outcome {
        match self {
            Self::Stalled => Outcome::Stalled,
            Self::TooSlow => Outcome::TooSlow,
            Self::Total(total) => Outcome::Failed(Error::total_timeout(total)),
            Self::Stopped => Outcome::Failed(Error::stream_stopped()),
        }
    }
}

/// A stream whose rows can be spilled while its client is slow. The watchdog calls it once per
/// wake-up, not once per row, so dynamic dispatch is cheap enough.
pub(crate) trait SpillingStream: Send + Sync {
    /// Spills chunks for as long as the client is behind. Returns when to call this again, apart
    /// from wake-ups.
    ///
    /// # Errors
    /// The reason why the stream has to end: other requests wait for its connection.
    fn poll_spill(&self, cx: &mut Context<'_>) -> Result<Option<Instant>, EndReason>;
}

/// The end of a response whose last bytes are on their way to the socket. If this is dropped, the
/// response was aborted.
pub(crate) trait LastBytes: Send {
    /// All of its bytes have left this process.
    fn flushed(self: Box<Self>);

    /// Its bytes will never leave, for this reason if there's one.
    fn cut(self: Box<Self>, why: Option<EndReason>);
}

/// When a response will be over, and why.
type WatchedEnd = (Instant, EndReason);

/// Watches the responses of a connection, or the one response of a stream.
#[derive(Default)]
pub(crate) struct Watchdog {
    state: Mutex<State>,
    /// How long the client may leave bytes unread. `None` if the socket shows that.
    patience: Option<Duration>,
    /// True if the connection's socket has accepted nothing for too long. All streams of the
    /// connection share it.
    stalled: Arc<AtomicBool>,
}

#[derive(Default)]
struct State {
    total: Option<(Instant, Duration)>,
    /// When the client was given bytes that it hasn't read yet, and their number.
    given: Option<(Instant, usize)>,
    /// How long the client may still be slower than the minimum rate, if there's one.
    credit: Option<Credit>,
    /// The stream to spill if the client is slow.
    spill: Option<Weak<dyn SpillingStream>>,
    over: Option<EndReason>,
    /// The stream that may be stopped, and the waker that makes its task check for that.
    stoppable: Option<(ResponseId, Waker)>,
    /// When it was stopped.
    stopped: Option<Instant>,
    /// The permit of a response whose last bytes are on their way.
    permit: Option<Permit>,
    /// Responses whose last bytes are on their way, and whose time is limited.
    last: Vec<EndingResponse>,
}

/// A response whose last bytes are on their way, and the end of its time.
struct EndingResponse {
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

    /// The watchdog of the current task; or, if it has none, a new one that isn't polled.
    pub(crate) fn current() -> Arc<Self> {
        CURRENT.try_with(Arc::clone).unwrap_or_default()
    }

    /// Runs `future` until it ends or is [`over`](Self::over).
    pub(crate) fn watch(self: Arc<Self>, future: impl Future) -> impl Future<Output = ()> {
        // Boxed, because a future that is passed by value is stored once for each function.
        let (over, mut future) = (Arc::clone(&self), Box::pin(future));
        let watched = async move {
            tokio::select! {
                // The future is polled first, because it sets the deadlines that the watchdog then
                // waits for.
                biased;
                _ = &mut future => {}
                () = over.over() => {}
            }
        };
        self.scope(watched)
    }

    /// Runs `future` with this watchdog as the current one. The caller polls [`over`](Self::over)
    /// after each poll of it.
    pub(crate) fn scope<T>(self: Arc<Self>, future: impl Future<Output = T>) -> impl Future<Output = T> {
        CURRENT.scope(self, future)
    }

    /// Limits the response to `total`, counted from `begun`.
    pub(crate) fn limit(&self, begun: Instant, total: Duration) {
        self.state.lock().total = Some((begun + total, total));
    }

    /// Sets the rate at which the response's client has to read, in bytes per second.
    pub(crate) fn set_min_rate(&self, rate: usize) {
        self.state.lock().credit = Some(Credit::new(rate));
    }

    /// Spills the response's rows when its client is slow.
    pub(crate) fn spill(&self, stream: Weak<impl SpillingStream + 'static>) {
        self.state.lock().spill = Some(stream);
    }

    /// Sets the id under which the response may be stopped.
    pub(crate) fn stream(&self, id: ResponseId) {
        self.state.lock().stoppable = Some((id, Waker::noop().clone()));
    }

    /// Ends the stream of this id. False if it's no longer the current one: an HTTP/1 connection
    /// may have reached its next response.
    pub(crate) fn stop(&self, id: ResponseId) -> bool {
        let mut state = self.state.lock();
        let Some((_, waker)) = state.stoppable.take_if(|(stream, _)| *stream == id) else { return false };
        state.stopped = Some(Instant::now());
        drop(state);
        waker.wake();
        true
    }

    /// Records that the client was given so many bytes.
    pub(crate) fn given(&self, bytes: usize) {
        if self.patience.is_some() {
            self.state.lock().given = Some((Instant::now(), bytes));
        }
    }

    /// Records that the client wants more.
    pub(crate) fn taken(&self) {
        if self.patience.is_some() {
            let mut state = self.state.lock();
            if let (Some((since, bytes)), Some(credit)) = (state.given.take(), &mut state.credit) {
                credit.pass(since.elapsed(), bytes as u64);
            }
        }
    }

    /// Records that bytes waited in the socket for so long, and that its client read so many.
    /// Returns how long the client may still read nothing; `None` if there's no minimum rate.
    pub(crate) fn waited(&self, waited: Duration, taken: u64) -> Option<Duration> {
        let mut state = self.state.lock();
        let credit = state.credit.as_mut()?;
        credit.pass(waited, taken);
        Some(credit.left())
    }

    /// Records that the body has gone and that no time limit is left. The rest of its permit is
    /// kept until the bytes have been [`flushed`](Self::flushed), or the connection or the stream
    /// ends.
    pub(crate) fn release(&self, permit: Option<Permit>) {
        let mut state = self.state.lock();
        (state.total, state.given, state.permit) = (None, None, permit);
        (state.credit, state.spill) = (None, None);
        (state.stoppable, state.stopped) = (None, None);
    }

    /// True if the time limit continues after the body has gone.
    pub(crate) fn outlives_body(&self) -> bool {
        self.patience.is_none() && self.state.lock().total.is_some()
    }

    /// Records that the body has gone, but keeps its time limit until the bytes have been
    /// [`flushed`](Self::flushed).
    pub(crate) fn keep(&self, last: impl LastBytes + 'static) {
        let mut state = self.state.lock();
        (state.given, state.credit, state.spill) = (None, None, None);
        (state.stoppable, state.stopped) = (None, None);
        if let Some((at, total)) = state.total.take() {
            state.last.push(EndingResponse { at, total, last: Box::new(last) });
        }
    }

    /// Records that all bytes have left this process.
    pub(crate) fn flushed(&self) {
        let mut state = self.state.lock();
        state.permit = None;
        let last = std::mem::take(&mut state.last);
        drop(state);
        last.into_iter().for_each(|ending| ending.last.flushed());
    }

    /// Records that the socket has accepted nothing for too long.
    pub(crate) fn stall(&self) {
        self.stalled.store(true, Ordering::Relaxed);
    }

    /// Records that the socket's client was slower than the minimum rate.
    pub(crate) fn too_slow(&self) {
        self.state.lock().over = Some(EndReason::TooSlow);
    }

    /// True if the response has exceeded its time or was stopped. That becomes the reason for its
    /// end.
    pub(crate) fn is_late(&self) -> bool {
        let mut state = self.state.lock();
        let total =
            state.total.filter(|(at, _)| *at <= Instant::now()).map(|(_, total)| EndReason::Total(total));
        let late = state.stopped.map(|_| EndReason::Stopped).or(total);
        if late.is_some() {
            state.over = late;
        }
        late.is_some()
    }

    /// The reason why it's over, if it is.
    pub(crate) fn why(&self) -> Option<EndReason> {
        let stalled = || self.stalled.load(Ordering::Relaxed).then_some(EndReason::Stalled);
        self.state.lock().over.or_else(stalled)
    }

    /// Ready when the response has to end. Poll it after each poll of the response.
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
            // Each chunk moves the deadline. A timer that ends too early is cheaper than a reset.
            timer.run_at_most_until(next);
            ready!(timer.poll(cx));
        }
    }

    /// The extra time after the deadline in which the body can report the failure, when the client
    /// next reads something.
    fn last_word(&self, over: EndReason) -> Duration {
        match over {
            EndReason::Total(_) | EndReason::Stopped if self.patience.is_some() => LAST_WORD,
            _ => Duration::ZERO,
        }
    }

    /// The next deadline with its reason, and the stream that may have to be spilled until then. If
    /// the stream is stopped earlier, `waker` is woken.
    fn next(&self, waker: &Waker) -> (Option<WatchedEnd>, Option<Arc<dyn SpillingStream>>) {
        let mut state = self.state.lock();
        if let Some((_, woken)) = &mut state.stoppable {
            woken.clone_from(waker);
        }
        let last = state.last.iter().map(|ending| (ending.at, ending.total));
        let total = state.total.into_iter().chain(last).map(|(at, total)| (at, EndReason::Total(total)));
        let total = total.min_by_key(|(at, _)| *at);
        let since = state.given.map(|(since, _)| since);
        let stalled =
            since.zip(self.patience).map(|(since, patience)| (since + patience, EndReason::Stalled));
        let credit = state.credit.as_ref().map(Credit::left);
        let too_slow = since.zip(credit).map(|(since, left)| (since + left, EndReason::TooSlow));
        let stopped = state.stopped.map(|at| (at, EndReason::Stopped));
        let ends = [total, stalled, too_slow, stopped];
        let end = ends.into_iter().flatten().min_by_key(|(at, _)| *at);
        (end, state.spill.as_ref().and_then(Weak::upgrade))
    }
}

impl Drop for Watchdog {
    /// Reports the bytes that haven't left. They never will, because the connection has ended.
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
        let (first, second) = (ResponseId::random().unwrap(), ResponseId::random().unwrap());
        let watchdog = Watchdog::default();
        watchdog.stream(first);
        watchdog.release(None);
        watchdog.stream(second);
        assert!(!watchdog.stop(first) && !watchdog.is_late());
        assert!(watchdog.stop(second) && watchdog.is_late());
        assert!(!watchdog.stop(second));
    }
}
