//! Waits until the last bytes of a failed response have left.
//!
//! When a body fails, hyper aborts at once and drops the bytes that it still buffers. So the body waits
//! before it fails, until hyper has dropped its last chunk, and once more, so that a copy of it is
//! flushed. A reader that collects a body keeps all of its chunks, so the wait has an end.

use std::mem;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use bytes::Bytes;

/// The longest wait for a chunk to be dropped.
const LONGEST: Duration = Duration::from_secs(2);

/// The most waits that have a thread for their time. Further ones end at once.
const MOST_THREADS: usize = 64;

/// The threads that count time. A body may be polled without a runtime that could do it.
static THREADS: AtomicUsize = AtomicUsize::new(0);

/// The state of a chunk that was handed over.
#[derive(Debug)]
enum ChunkState {
    Held(Option<Waker>),
    Dropped,
    /// It was held for too long.
    Expired,
}

impl ChunkState {
    fn become_and_wake(state: &Mutex<Self>, new: Self) {
        let Ok(mut state) = state.lock() else { return };
        if let Self::Held(Some(waker)) = mem::replace(&mut *state, new) {
            waker.wake();
        }
    }
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
        ChunkState::become_and_wake(&self.state, ChunkState::Dropped);
    }
}

/// A wait for the bytes that were handed over.
#[derive(Debug)]
pub(super) struct DeliveryWait {
    state: Arc<Mutex<ChunkState>>,
    is_timed: bool,
    has_yielded: bool,
}

impl DeliveryWait {
    /// The last chunk, and the wait for it.
    pub(super) fn of(bytes: Vec<u8>) -> (Bytes, Self) {
        let state = Arc::new(Mutex::new(ChunkState::Held(None)));
        let chunk = Bytes::from_owner(TrackedChunk { bytes, state: Arc::clone(&state) });
        (chunk, Self { state, is_timed: false, has_yielded: false })
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Ok(mut state) = self.state.lock() {
            match &mut *state {
                ChunkState::Held(_) if !mem::replace(&mut self.is_timed, true) && !expire(&self.state) => {
                    return Poll::Ready(());
                }
                ChunkState::Held(waker) => {
                    *waker = Some(cx.waker().clone());
                    return Poll::Pending;
                }
                ChunkState::Expired => return Poll::Ready(()),
                ChunkState::Dropped => {}
            }
        }
        if mem::replace(&mut self.has_yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// Ends a wait after [`LONGEST`]. Returns false if there's no thread for that.
fn expire(state: &Arc<Mutex<ChunkState>>) -> bool {
    if THREADS.fetch_add(1, Ordering::Relaxed) >= MOST_THREADS {
        THREADS.fetch_sub(1, Ordering::Relaxed);
        return false;
    }
    let state = Arc::clone(state);
    let timer = thread::Builder::new().name("rowstream-expiry".to_owned()).spawn(move || {
        thread::sleep(LONGEST);
        ChunkState::become_and_wake(&state, ChunkState::Expired);
        THREADS.fetch_sub(1, Ordering::Relaxed);
    });
    if timer.is_err() {
        THREADS.fetch_sub(1, Ordering::Relaxed);
    }
    timer.is_ok()
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
