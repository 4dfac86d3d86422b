//! HTTP's side of the watchdog: bodies that report what their client takes, and tasks that end
//! when it says so.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::connections::Busy;
use super::socket::Ends;
use crate::respond::{Aborted, ResponseBody};
use crate::watchdog::Watchdog;

/// What an HTTP/2 stream is given at a time: a frame. A client is seen to take something once it
/// lets a whole piece go, and a chunk may hold a row of megabytes.
pub(super) const PIECE: usize = 16 * 1024;

/// A body that reports to its watchdog when the client is given something, and when it wants more.
pub(super) struct ReportingBody {
    body: ResponseBody,
    watchdog: Arc<Watchdog>,
    busy: Option<Busy>,
    /// Of HTTP/1, where what was handed over is seen to leave.
    ends: Option<Arc<Ends>>,
}

impl ReportingBody {
    pub(super) fn new(
        body: ResponseBody,
        watchdog: Arc<Watchdog>,
        busy: Busy,
        ends: Option<Arc<Ends>>,
    ) -> Self {
        // The head is something to take.
        watchdog.given(0);
        Self { body, watchdog, busy: Some(busy), ends }
    }
}

impl Drop for ReportingBody {
    fn drop(&mut self) {
        if let (Some(ends), Some(busy)) = (&self.ends, self.busy.take()) {
            ends.leave(busy);
        }
    }
}

impl Body for ReportingBody {
    type Data = Bytes;
    type Error = Aborted;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Aborted>>> {
        // Who has still to take the last of it does not want more.
        if !self.body.is_delivering() {
            self.watchdog.taken();
        }
        // A stream that is dropped is reset with CANCEL, which some clients take for an end (Node's
        // http2); one whose body fails is reset with INTERNAL_ERROR. Where nobody polls, because
        // the client takes nothing, it has to be dropped.
        if self.watchdog.is_late() {
            return Poll::Ready(Some(Err(Aborted)));
        }
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        if let Poll::Ready(frame) = &polled {
            let data = frame.as_ref().and_then(|frame| frame.as_ref().ok()?.data_ref());
            self.watchdog.given(data.map_or(0, Bytes::len));
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Runs the streams of one HTTP/2 connection, each as a task with a watchdog of its own. A stream
/// that is over is dropped: its statement is cancelled at once, and RST_STREAM follows what the
/// client has still to take.
#[derive(Clone)]
pub(super) struct Streams {
    pub(super) connection: Arc<Watchdog>,
    pub(super) write_timeout: Duration,
}

impl<F> hyper::rt::Executor<F> for Streams
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    fn execute(&self, stream: F) {
        tokio::spawn(self.connection.of_stream(self.write_timeout).watch(stream));
    }
}
