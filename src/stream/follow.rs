//! A stream that stays open for new rows: after its rows have ended, it waits without a connection
//! until there may be new ones, and continues after the last row.

use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rowstream_core::Error;
use rowstream_core::error::SOURCE_UNAVAILABLE;

use super::OpenedStatements;
use crate::stream::notifier::{Patience, Subscription, WakeReason};

/// How long a follower that got no connection waits before it tries again.
const BUSY: Duration = Duration::from_secs(1);

type FollowFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// The next reading, and the follower for the one after it.
type NextReading = (Box<Follower>, OpenedStatements);

/// Opens the rows after a cursor, or all of them.
pub(crate) type StreamOpening =
    Box<dyn Fn(Option<String>) -> FollowFuture<Result<OpenedStatements, Error>> + Send + Sync>;

/// Brings further rows after those of a stream have ended.
pub(crate) struct Follower {
    subscription: Subscription,
    reopen: StreamOpening,
    /// True while the first rows are read. If they fail, the stream fails, because the client may
    /// not have the headers yet.
    is_first: bool,
    /// The error of a reading that has lost its connection and should begin again.
    lost: Option<Error>,
    /// How long such readings may begin again without any new row.
    patience: Option<Patience>,
}

impl Follower {
    /// A follower that subscribed before the first rows were read.
    pub(crate) fn new(subscription: Subscription, reopen: StreamOpening) -> Self {
        Self { subscription, reopen, is_first: true, lost: None, patience: None }
    }

    /// Opens the rows after the cursor `after`, once there may be any, or `at_once`. `None`: the
    /// server is shutting down.
    async fn next(mut self, after: Option<String>, at_once: bool) -> Result<Option<NextReading>, Error> {
        self.is_first = false;
        if let Some(lost) = self.lost.take() {
            self.pause(lost).await?;
        } else {
            self.patience = None;
            if !at_once && self.subscription.wake().await? == WakeReason::Closing {
                return Ok(None);
            }
        }
        while !self.subscription.is_closing() {
            self.subscription.begin_reading();
            let turn = self.subscription.turn().await;
            let opened = (self.reopen)(after.clone()).await;
            drop(turn);
            match opened {
                // The pool is busy with other streams, and this one can wait.
                Err(error) if matches!(error.code(), "pool_full" | "pool_timeout") => {
                    tokio::time::sleep(BUSY).await;
                }
                // The source is unavailable. It may recover, as the poller also expects.
                Err(error) if error.code() == SOURCE_UNAVAILABLE => self.pause(error).await?,
                opened => return Ok(Some((Box::new(self), opened?))),
            }
        }
        Ok(None)
    }

    /// Waits before it tries a failed source again. Returns the error if the source has failed for
    /// too long.
    async fn pause(&mut self, error: Error) -> Result<(), Error> {
        let patience = self.patience.get_or_insert_with(|| self.subscription.patience());
        if patience.pause().await { Ok(()) } else { Err(error) }
    }
}

/// The state of a followed stream after its rows.
pub(super) struct FollowState {
    state: State,
    /// Ready if the poller no longer looks for new rows. That may happen while existing rows are
    /// read.
    failed: Option<FollowFuture<Error>>,
}

enum State {
    /// The stream's rows are read.
    Reading(Box<Follower>),
    /// It waits for new rows.
    Waiting(FollowFuture<Result<Option<NextReading>, Error>>),
    Over,
}

impl FollowState {
    /// For a stream that isn't followed.
    pub(super) fn not() -> Self {
        Self { state: State::Over, failed: None }
    }

    /// Followed by `follower`, once the first rows are read.
    pub(super) fn by(follower: Follower) -> Self {
        let failed = follower.subscription.failed();
        Self { state: State::Reading(Box::new(follower)), failed: Some(Box::pin(failed)) }
    }

    /// Lets a reading that failed after `rows` rows begin again, if it has lost its connection.
    ///
    /// On a busy database there's always some reading under way. So when all connections are lost,
    /// a reading usually loses one of them.
    ///
    /// # Errors
    /// The same error: the stream fails.
    pub(super) fn begin_again(&mut self, error: Error, rows: u64) -> Result<(), Error> {
        match &mut self.state {
            State::Reading(follower) if !follower.is_first && error.code() == SOURCE_UNAVAILABLE => {
                if rows > 0 {
                    follower.patience = None;
                }
                follower.lost = Some(error);
                Ok(())
            }
            _ => Err(error),
        }
    }

    /// True if no rows can follow.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.state, State::Over)
    }

    /// True if it waits for rows that may not exist yet.
    pub(super) fn is_waiting(&self) -> bool {
        matches!(self.state, State::Waiting(_))
    }

    /// The reason why no row can follow any more, once there's one.
    pub(super) fn poll_failed(&mut self, cx: &mut Context<'_>) -> Poll<Error> {
        match (&self.state, &mut self.failed) {
            (State::Over, _) | (_, None) => Poll::Pending,
            (_, Some(failed)) => failed.as_mut().poll(cx),
        }
    }

    /// Opens the next rows, if any exist. `None` if the stream should end. `after` returns the
    /// cursor before them, and true if some may exist already.
    pub(super) fn poll_next(
        &mut self,
        after: impl FnOnce() -> (Option<String>, bool),
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<OpenedStatements>, Error>> {
        if let State::Reading(_) = self.state
            && let State::Reading(follower) = mem::replace(&mut self.state, State::Over)
        {
            let (after, at_once) = after();
            self.state = State::Waiting(Box::pin(follower.next(after, at_once)));
        }
        let State::Waiting(next) = &mut self.state else { return Poll::Ready(Ok(None)) };
        let next = ready!(next.as_mut().poll(cx));
        self.state = State::Over;
        Poll::Ready(next.map(|next| {
            let (follower, opened) = next?;
            self.state = State::Reading(follower);
            Some(opened)
        }))
    }
}
