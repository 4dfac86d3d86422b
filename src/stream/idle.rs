//! The timer of a stream whose source has nothing ready.

use std::task::{Context, Poll};
use std::time::Duration;

use rowstream_core::timer::Timer;
use rowstream_encode::Format;

/// How long rows may wait for further ones once the source has nothing ready. If each empty read
/// flushed them, there would be a chunk per 8 KiB.
const FLUSH_AFTER: Duration = Duration::from_millis(1);

/// Bytes that keep an idle response alive, and that no reader mistakes for a row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Heartbeat {
    /// The idle time before them.
    pub(super) pause: Duration,
    pub(super) bytes: &'static [u8],
}

impl Heartbeat {
    /// The heartbeat of a format after an idle `pause`. `None` if the format doesn't allow one.
    pub(crate) fn of(format: Format, pause: Duration) -> Option<Self> {
        let bytes: &[u8] = match format {
            Format::Sse => b":\n\n",
            // An empty line, as in CouchDB's feeds.
            Format::Ndjson => b"\n",
            // Several separators in a row count as one (RFC 7464, section 2.1).
            Format::JsonSeq => b"\x1e",
            Format::Json | Format::Csv | Format::Arrow | Format::Html => return None,
        };
        Some(Self { pause, bytes })
    }
}

/// The reason why the timer runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TimerPurpose {
    Flush,
    Heartbeat,
}

/// Measures how long the source has had nothing ready.
#[derive(Default)]
pub(super) struct IdleTimer {
    timer: Timer,
    /// `None` since the last chunk.
    purpose: Option<TimerPurpose>,
    /// `None` if the format doesn't allow one.
    pub(super) heartbeat: Option<Heartbeat>,
}

impl IdleTimer {
    pub(super) fn with(heartbeat: Option<Heartbeat>) -> Self {
        Self { heartbeat, ..Self::default() }
    }

    /// Ready when waiting bytes should be sent.
    pub(super) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.poll(TimerPurpose::Flush, FLUSH_AFTER, cx)
    }

    /// Ready when a heartbeat should be sent, after this pause.
    pub(super) fn poll_heartbeat(&mut self, pause: Duration, cx: &mut Context<'_>) -> Poll<()> {
        self.poll(TimerPurpose::Heartbeat, pause, cx)
    }

    fn poll(&mut self, purpose: TimerPurpose, after: Duration, cx: &mut Context<'_>) -> Poll<()> {
        if self.purpose.replace(purpose) != Some(purpose) {
            self.timer.restart(after);
        }
        self.timer.poll(cx)
    }

    /// Begins again after a chunk.
    pub(super) fn reset(&mut self) {
        self.purpose = None;
    }
}
