//! A reader with a steady rate: a tenth of it every 100 ms. The rest of a tenth isn't carried over.

use std::time::{Duration, Instant};

const TICK: Duration = Duration::from_millis(100);

/// The bytes that may be read now.
pub(super) struct Throttle {
    /// Bytes per tick. `None` means no limit.
    per_tick: Option<usize>,
    /// The rest of this tick's bytes.
    left: usize,
    tick: Instant,
}

impl Throttle {
    /// `rate` is in bytes per second.
    pub(super) fn new(rate: Option<u64>) -> Self {
        let per_tick = rate.map(|rate| usize::try_from(rate / 10).unwrap_or(usize::MAX).max(1));
        Self { per_tick, left: per_tick.unwrap_or(usize::MAX), tick: Instant::now() }
    }

    /// Waits until bytes may be read, and returns their number.
    pub(super) async fn allowance(&mut self) -> usize {
        let Some(per_tick) = self.per_tick else { return usize::MAX };
        if self.left == 0 {
            tokio::time::sleep_until((self.tick + TICK).into()).await;
        }
        if self.tick.elapsed() >= TICK {
            self.tick = Instant::now();
            self.left = per_tick;
        }
        self.left
    }

    /// Records that this many bytes were read.
    pub(super) fn took(&mut self, bytes: usize) {
        if self.per_tick.is_some() {
            self.left = self.left.saturating_sub(bytes);
        }
    }
}
