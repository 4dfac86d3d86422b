//! HTTP's side of the watchdog: bodies that report their client's progress, and tasks that end when
//! the watchdog says so.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::connections::BusyRequest;
use super::socket::ConnectionEnd;
use crate::respond::{AbortError, ResponseBody};
use crate::watchdog::Watchdog;

/// The bytes that an HTTP/2 stream gets at a time: one frame. We see progress only once a client
/// takes a whole piece, and a chunk can contain a row of megabytes.
pub(super) const PIECE: usize = 16 * 1024;

/// A body that reports to its watchdog when it gives the client data, and when the client asks for
/// more.
pub(super) struct ReportingBody {
    body: ResponseBody,
    watchdog: Arc<Watchdog>,
    busy: Option<BusyRequest>,
    /// For HTTP/1, which shows when the data has left.
    ends: Option<Arc<ConnectionEnd>>,
}

impl ReportingBody {
    pub(super) fn new(
        body: ResponseBody,
        watchdog: Arc<Watchdog>,
        busy: BusyRequest,
        ends: Option<Arc<ConnectionEnd>>,
    ) -> Self {
        // The head counts as data.
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
    type Error = AbortError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, AbortError>>> {
        // A client that still has to take the last piece doesn't ask for more.
        if !self.body.is_delivering() {
            self.watchdog.taken();
        }
        // A failing body resets its stream with INTERNAL_ERROR. Dropping the stream resets it with
        // CANCEL, which some clients take for a normal end (Node's http2). If the stream isn't
        // polled because the client takes nothing, we can only drop it.
        if self.watchdog.is_late() {
            return Poll::Ready(Some(Err(AbortError)));
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

/// Runs the streams of one HTTP/2 connection, each as a task with its own watchdog. A late stream
/// is dropped. That cancels its statement at once, and RST_STREAM follows the data that the client
/// still has to take.
#[derive(Clone)]
pub(super) struct StreamExecutor {
    pub(super) connection: Arc<Watchdog>,
    pub(super) write_timeout: Duration,
}

impl<F> hyper::rt::Executor<F> for StreamExecutor
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    fn execute(&self, stream: F) {
        tokio::spawn(self.connection.of_stream(self.write_timeout).watch(stream));
    }
}
