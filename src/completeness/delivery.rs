//! Before a response is aborted, what was encoded reaches the client, as far as its connection
//! takes it.
//!
//! hyper aborts at once when a body fails, and drops what it still holds of it. So a body that
//! fails waits first, until what it has handed over is on its way:
//!
//! - HTTP/1: until the socket is flushed, which hyper does when it holds nothing more. Whoever
//!   limits how long a client may take to read limits this too;
//! - HTTP/2: until an empty frame after the data has been written, and not longer than
//!   [`PATIENCE`]: a client that reads nothing would have its reset as late as its data.
//!
//! A stream of HTTP/2 that is whole waits in the same way, for as long as its client may take,
//! before its end is sent: otherwise its last piece would wait for the client where nobody knows of
//! it. And one of HTTP/1 waits so before its next chunk while its client is not known to keep up:
//! otherwise hyper would hold several.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use crate::lock::Mutex;
use bytes::Bytes;
use tokio::sync::oneshot;
use tokio::time::Sleep;

/// How long a stream of HTTP/2 waits for its data to leave: a client that reads has had it by then,
/// on a busy machine too.
const PATIENCE: Duration = Duration::from_secs(2);

/// Its drop tells that what was waited for has happened, or never will.
type Fence = oneshot::Sender<Infallible>;

/// How the bytes of a body leave.
pub(crate) enum Delivery {
    /// Whoever polls the body takes care of that.
    Unknown,
    /// Over a socket that tells when it is flushed.
    Http1(Arc<Flush>),
    /// As frames of a stream.
    Http2,
}

/// Tells that a socket was flushed: until then all was written to it that had been handed over
/// before.
#[derive(Default)]
pub(crate) struct Flush {
    /// So that a flush that nobody waits for costs one look.
    awaited: AtomicBool,
    fence: Mutex<Option<Fence>>,
}

impl Flush {
    /// The socket is being flushed.
    pub(crate) fn flushed(&self) {
        if self.awaited.swap(false, Ordering::Relaxed) {
            self.put(None);
        }
    }

    fn wait(&self, fence: Fence) {
        self.put(Some(fence));
        self.awaited.store(true, Ordering::Relaxed);
    }

    fn put(&self, fence: Option<Fence>) {
        *self.fence.lock() = fence;
    }
}

/// The wait of a body for what it has given.
pub(crate) struct Wait {
    /// An empty frame, which holds the fence until it is written.
    frame: Option<Bytes>,
    delivered: oneshot::Receiver<Infallible>,
    patience: Option<Pin<Box<Sleep>>>,
}

impl Wait {
    /// The wait for all that was handed over until now.
    pub(crate) fn new(delivery: &Delivery) -> Self {
        let (fence, delivered) = oneshot::channel();
        let (frame, patience) = match delivery {
            Delivery::Unknown => (None, None),
            Delivery::Http1(flush) => {
                flush.wait(fence);
                (None, None)
            }
            Delivery::Http2 => {
                (Some(Bytes::from_owner(EmptyFrame(fence))), Some(Box::pin(tokio::time::sleep(PATIENCE))))
            }
        };
        Self { frame, delivered, patience }
    }

    /// The wait for the whole of a body, whose end is to follow; `None` where nobody needs to wait.
    pub(crate) fn before_end(delivery: &Delivery) -> Option<Self> {
        let Delivery::Http2 = delivery else { return None };
        Some(Self { patience: None, ..Self::new(delivery) })
    }

    /// Whether the client is waited for: all frames were given.
    pub(crate) fn is_waiting(&self) -> bool {
        self.frame.is_none()
    }

    /// The frame that is to be sent, if there is one; then `None` when the wait is over.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if let Some(frame) = self.frame.take() {
            return Poll::Ready(Some(frame));
        }
        let delivered = Pin::new(&mut self.delivered).poll(cx).is_ready();
        let patience = self.patience.as_mut().map_or(Poll::Pending, |patience| patience.as_mut().poll(cx));
        if delivered || patience.is_ready() { Poll::Ready(None) } else { Poll::Pending }
    }
}

struct EmptyFrame(#[expect(dead_code, reason = "held for its drop")] Fence);

impl AsRef<[u8]> for EmptyFrame {
    fn as_ref(&self) -> &[u8] {
        &[]
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    #[tokio::test]
    async fn http_1_waits_for_the_flush() {
        let mut cx = Context::from_waker(Waker::noop());
        let flush = Arc::new(Flush::default());
        flush.flushed();
        let mut wait = Wait::new(&Delivery::Http1(Arc::clone(&flush)));
        assert_eq!(wait.poll(&mut cx), Poll::Pending);
        flush.flushed();
        assert_eq!(wait.poll(&mut cx), Poll::Ready(None));
    }

    #[tokio::test]
    async fn http_2_waits_for_its_frame_or_for_its_time() {
        let mut cx = Context::from_waker(Waker::noop());
        let mut wait = Wait::new(&Delivery::Http2);
        let Poll::Ready(Some(frame)) = wait.poll(&mut cx) else { panic!("there is a frame") };
        assert!(frame.is_empty());
        assert_eq!(wait.poll(&mut cx), Poll::Pending);
        drop(frame);
        assert_eq!(wait.poll(&mut cx), Poll::Ready(None));

        let mut wait = Wait::new(&Delivery::Http2);
        let frame = wait.poll(&mut cx);
        assert_eq!(wait.poll(&mut cx), Poll::Pending);
        assert_eq!(std::future::poll_fn(|cx| wait.poll(cx)).await, None);
        drop(frame);
    }

    #[tokio::test]
    async fn a_whole_stream_of_http_2_waits_for_its_frame_alone() {
        let mut cx = Context::from_waker(Waker::noop());
        let mut wait = Wait::before_end(&Delivery::Http2).unwrap();
        assert!(!wait.is_waiting());
        let Poll::Ready(Some(frame)) = wait.poll(&mut cx) else { panic!("there is a frame") };
        assert!(wait.is_waiting() && wait.patience.is_none());
        assert_eq!(wait.poll(&mut cx), Poll::Pending);
        drop(frame);
        assert_eq!(wait.poll(&mut cx), Poll::Ready(None));
        assert!(Wait::before_end(&Delivery::Unknown).is_none());
        assert!(Wait::before_end(&Delivery::Http1(Arc::default())).is_none());
    }

    #[tokio::test]
    async fn nobody_is_waited_for_without_a_connection() {
        let mut wait = Wait::new(&Delivery::Unknown);
        assert_eq!(wait.poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(None));
    }
}
