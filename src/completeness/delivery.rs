//! Delivers the bytes that were encoded before a failure, as far as the client's connection accepts
//! them, before the response is aborted.
//!
//! When a body fails, hyper aborts at once and drops the bytes that it still buffers. So a body
//! that fails first waits until the bytes that it has handed over have left:
//!
//! - HTTP/1: until the socket is flushed, which hyper does once its buffer is empty. The limit on
//!   how long a client may take to read limits this wait too;
//! - HTTP/2: until an empty frame after the data has been written, but at most for [`PATIENCE`]:
//!   otherwise a client that reads nothing would get its reset as late as its data.
//!
//! A complete HTTP/2 stream waits in the same way before its end is sent, for as long as its client
//! may take. Otherwise its last bytes would wait for the client unnoticed. An HTTP/1 stream waits
//! like this before each chunk while its client isn't known to keep up. Otherwise hyper would
//! buffer several.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use rowstream_core::lock::Mutex;
use tokio::sync::oneshot;
use tokio::time::Sleep;

/// How long an HTTP/2 stream waits for its data to leave. A client that reads has the data by then,
/// even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(2);

/// It's dropped when the bytes have left, or never will.
type Fence = oneshot::Sender<Infallible>;

/// How the bytes of a body leave.
pub(crate) enum Delivery {
    /// The task that polls the body takes care of it.
    Unknown,
    /// Over a socket that reports when it's flushed.
    Http1(Arc<Flush>),
    /// As frames of a stream.
    Http2,
}

/// Reports that a socket was flushed: all bytes that were handed over before have been written to
/// it.
#[derive(Default)]
pub(crate) struct Flush {
    /// Makes a flush cheap if no body waits for it.
    awaited: AtomicBool,
    fence: Mutex<Option<Fence>>,
}

impl Flush {
    /// Called when the socket has been flushed.
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

/// A body's wait for the bytes that it has handed over.
pub(crate) struct DeliveryWait {
    /// An empty frame, which contains the fence until it's written.
    frame: Option<Bytes>,
    delivered: oneshot::Receiver<Infallible>,
    patience: Option<Pin<Box<Sleep>>>,
}

impl DeliveryWait {
    /// Waits for all bytes that have been handed over until now.
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

    /// Waits for the bytes of a complete body, before its end. `None` if that isn't necessary.
    pub(crate) fn before_end(delivery: &Delivery) -> Option<Self> {
        let Delivery::Http2 = delivery else { return None };
        Some(Self { patience: None, ..Self::new(delivery) })
    }

    /// True while it waits for the client, because all frames were given.
    pub(crate) fn is_waiting(&self) -> bool {
        self.frame.is_none()
    }

    /// The frame to send, if there's one; then `None` when the wait is over.
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
        let mut wait = DeliveryWait::new(&Delivery::Http1(Arc::clone(&flush)));
        assert_eq!(wait.poll(&mut cx), Poll::Pending);
        flush.flushed();
        assert_eq!(wait.poll(&mut cx), Poll::Ready(None));
    }

    #[tokio::test]
    async fn http_2_waits_for_its_frame_or_for_its_time() {
        let mut cx = Context::from_waker(Waker::noop());
        let mut wait = DeliveryWait::new(&Delivery::Http2);
        let Poll::Ready(Some(frame)) = wait.poll(&mut cx) else { panic!("there is a frame") };
        assert!(frame.is_empty());
        assert_eq!(wait.poll(&mut cx), Poll::Pending);
        drop(frame);
        assert_eq!(wait.poll(&mut cx), Poll::Ready(None));

        let mut wait = DeliveryWait::new(&Delivery::Http2);
        let frame = wait.poll(&mut cx);
        assert_eq!(wait.poll(&mut cx), Poll::Pending);
        assert_eq!(std::future::poll_fn(|cx| wait.poll(cx)).await, None);
        drop(frame);
    }

    #[tokio::test]
    async fn a_whole_stream_of_http_2_waits_for_its_frame_alone() {
        let mut cx = Context::from_waker(Waker::noop());
        let mut wait = DeliveryWait::before_end(&Delivery::Http2).unwrap();
        assert!(!wait.is_waiting());
        let Poll::Ready(Some(frame)) = wait.poll(&mut cx) else { panic!("there is a frame") };
        assert!(wait.is_waiting() && wait.patience.is_none());
        assert_eq!(wait.poll(&mut cx), Poll::Pending);
        drop(frame);
        assert_eq!(wait.poll(&mut cx), Poll::Ready(None));
        assert!(DeliveryWait::before_end(&Delivery::Unknown).is_none());
        assert!(DeliveryWait::before_end(&Delivery::Http1(Arc::default())).is_none());
    }

    #[tokio::test]
    async fn nobody_is_waited_for_without_a_connection() {
        let mut wait = DeliveryWait::new(&Delivery::Unknown);
        assert_eq!(wait.poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(None));
    }
}
