//! Waits until the last bytes of a failed response have left.
//!
//! When a body fails, hyper aborts at once and drops the bytes that it still buffers. So the body waits
//! before it fails, until hyper has dropped its last chunk, and once more, so that a copy of it is
//! flushed.

use std::mem;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;

/// The state of a chunk that was handed over.
#[derive(Debug)]
enum ChunkState {
    Held(Option<Waker>),
    Dropped,
}

/// A chunk that reports when it's dropped.
struct TrackedChunk {
    bytes: Vec<u8>,
    state: Arc<Mutex<ChunkState>>,
}

impl AsRef<[u8]> for TrackedChunk {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for TrackedChunk {
    fn drop(&mut self) {
        let Ok(mut state) = self.state.lock() else { return };
        if let ChunkState::Held(Some(waker)) = mem::replace(&mut *state, ChunkState::Dropped) {
            waker.wake();
        }
    }
}

/// A wait for the bytes that were handed over.
#[derive(Debug)]
pub(super) struct DeliveryWait {
    state: Arc<Mutex<ChunkState>>,
    has_yielded: bool,
}

impl DeliveryWait {
    /// The last chunk, and the wait for it.
    pub(super) fn of(bytes: Vec<u8>) -> (Bytes, Self) {
        let state = Arc::new(Mutex::new(ChunkState::Held(None)));
        let chunk = Bytes::from_owner(TrackedChunk { bytes, state: Arc::clone(&state) });
        (chunk, Self { state, has_yielded: false })
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Ok(mut state) = self.state.lock()
            && let ChunkState::Held(waker) = &mut *state
        {
            *waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        if mem::replace(&mut self.has_yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_for_the_chunk_and_once_more() {
        let mut cx = Context::from_waker(Waker::noop());
        let (chunk, mut wait) = DeliveryWait::of(b"last".to_vec());
        assert_eq!(chunk, "last");
        for _ in 0..3 {
            assert!(wait.poll(&mut cx).is_pending());
        }
        drop(chunk);
        assert!(wait.poll(&mut cx).is_pending());
        assert!(wait.poll(&mut cx).is_ready());
    }
}
