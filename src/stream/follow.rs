//! A stream that stays open for new rows: when its rows have ended, it waits without a connection
//! until there may be others, and reads on after the last one.

use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rowstream_encode::Format;

use super::Opened;
use crate::Error;
use crate::error::SOURCE_UNAVAILABLE;
use crate::stream::notifier::{Patience, Subscription, Wake};

/// How long a follower waits that got no connection, before it asks again.
const BUSY: Duration = Duration::from_secs(1);

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A reading, and who brings the next one.
type Next = (Box<Follower>, Opened);

/// Opens what stands after a cursor, or all of it.
pub(crate) type Reopen = Box<dyn Fn(Option<String>) -> Boxed<Result<Opened, Error>> + Send + Sync>;

/// Where the rows of a stream come from once they have ended.
pub(crate) struct Follower {
    subscription: Subscription,
    reopen: Reopen,
    /// True while the first rows are read. The stream fails if they do, because the client may not
    /// have a head yet.
    is_first: bool,
    /// The error of a reading that has lost its connection and is to begin again.
    lost: Option<Error>,
    /// For how long such readings begin again, unless rows arrive.
    patience: Option<Patience>,
}

impl Follower {
    /// One that was subscribed before the first rows were read.
    pub(crate) fn new(subscription: Subscription, reopen: Reopen) -> Self {
        Self { subscription, reopen, is_first: true, lost: None, patience: None }
    }

    /// What stands after the cursor `after`, once there may be something, or `at_once`. `None`:
    /// the server is about to end.
    async fn next(mut self, after: Option<String>, at_once: bool) -> Result<Option<Next>, Error> {
        self.is_first = false;
        if let Some(lost) = self.lost.take() {
            self.pause(lost).await?;
        } else {
            self.patience = None;
            if !at_once && self.subscription.wake().await? == Wake::Closing {
                return Ok(None);
            }
        }
        while !self.subscription.is_closing() {
            self.subscription.begin_reading();
            let turn = self.subscription.turn().await;
            let opened = (self.reopen)(after.clone()).await;
            drop(turn);
            match opened {
                // The pool is busy with other streams: this one has time.
                Err(error) if matches!(error.code(), "pool_full" | "pool_timeout") => {
                    tokio::time::sleep(BUSY).await;
                }
                // It went away, and may come back, as it may for the poller.
                Err(error) if error.code() == SOURCE_UNAVAILABLE => self.pause(error).await?,
                opened => return Ok(Some((Box::new(self), opened?))),
            }
        }
        Ok(None)
    }

    /// Waits before it asks a source that has failed again; the error if it has failed for too long.
    async fn pause(&mut self, error: Error) -> Result<(), Error> {
        let patience = self.patience.get_or_insert_with(|| self.subscription.patience());
        if patience.pause().await { Ok(()) } else { Err(error) }
    }
}

/// The rest of a stream that follows.
pub(super) struct Following {
    state: State,
    /// Ready when nobody looks for new rows any more, also while those are read that are there.
    failed: Option<Boxed<Error>>,
}

enum State {
    /// Its rows are read.
    Reading(Box<Follower>),
    /// It waits for others.
    Waiting(Boxed<Result<Option<Next>, Error>>),
    /// It has ended.
    Over,
}

impl Following {
    /// Of a stream that does not.
    pub(super) fn not() -> Self {
        Self { state: State::Over, failed: None }
    }

    /// By `follower`, once the first rows are read.
    pub(super) fn by(follower: Follower) -> Self {
        let failed = follower.subscription.failed();
        Self { state: State::Reading(Box::new(follower)), failed: Some(Box::pin(failed)) }
    }

    /// Has a reading that failed after so many rows begin again if it has lost its connection.
    ///
    /// On a busy database readings run all the time, so when all connections are lost, one of them
    /// usually is a reading's.
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

    /// Whether no rows are to come.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.state, State::Over)
    }

    /// Whether it waits for rows that may not be there.
    pub(super) fn is_waiting(&self) -> bool {
        matches!(self.state, State::Waiting(_))
    }

    /// Why no row can come any more, if that is so.
    pub(super) fn poll_failed(&mut self, cx: &mut Context<'_>) -> Poll<Error> {
        match (&self.state, &mut self.failed) {
            (State::Over, _) | (_, None) => Poll::Pending,
            (_, Some(failed)) => failed.as_mut().poll(cx),
        }
    }

    /// The next rows, of which none may be there; `None` when the stream is to end. `after` says
    /// after which cursor they begin, and whether there may be some already.
    pub(super) fn poll_next(
        &mut self,
        after: impl FnOnce() -> (Option<String>, bool),
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Opened>, Error>> {
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

/// What says, in a format, that a stream is still there; no reader takes it for a row. `None`: the
/// format cannot say it.
pub(super) fn heartbeat(format: Format) -> Option<&'static [u8]> {
    match format {
        // A comment.
        Format::Sse => Some(b":\n\n"),
        // An empty line, as CouchDB's feeds have it.
        Format::Ndjson => Some(b"\n"),
        // Several separators in a row are as one (RFC 7464, section 2.1).
        Format::JsonSeq => Some(b"\x1e"),
        Format::Json | Format::Csv | Format::Arrow => None,
    }
}
