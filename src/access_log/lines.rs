//! The lines of the access log on their way to stderr.
//!
//! A thread of its own writes what has come within [`COLLECT`]: a system call for each line would
//! take a tenth of a lookup. Lines stay whole and in their order. Who kills the process loses the
//! last of them; its orderly end [`flush`]es.

use std::io::Write as _;
use std::mem;
use std::sync::{Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// How long lines are collected before they are written.
const COLLECT: Duration = Duration::from_millis(20);
/// Bytes that may wait. Beyond, requests wait for whoever reads the log.
const MOST: usize = 1 << 20;
/// How long the end of the process waits for a log that nobody reads.
const FLUSH: Duration = Duration::from_secs(1);

static LINES: LazyLock<Lines> = LazyLock::new(|| {
    // Without the thread nothing is written, and nothing waits either.
    let is_running = thread::Builder::new().name("access log".into()).spawn(|| LINES.write_all()).is_ok();
    Lines {
        waiting: Mutex::new(Waiting { is_running, ..Waiting::default() }),
        come: Condvar::new(),
        gone: Condvar::new(),
    }
});

struct Lines {
    waiting: Mutex<Waiting>,
    /// There are lines.
    come: Condvar,
    /// There are fewer.
    gone: Condvar,
}

#[derive(Default)]
struct Waiting {
    text: Vec<u8>,
    /// Whether some were taken and are not written yet.
    is_writing: bool,
    is_running: bool,
}

impl Waiting {
    fn is_over(&self) -> bool {
        self.text.is_empty() && !self.is_writing
    }
}

/// Has a line written, which is without its end. A log that cannot be written stops no answer.
pub(super) fn write(line: &str) {
    let waiting = LINES.lock();
    if !waiting.is_running {
        return;
    }
    let full = |waiting: &mut Waiting| waiting.text.len() > MOST;
    let mut waiting = LINES.gone.wait_while(waiting, full).unwrap_or_else(PoisonError::into_inner);
    let is_first = waiting.text.is_empty();
    waiting.text.extend_from_slice(line.as_bytes());
    waiting.text.push(b'\n');
    drop(waiting);
    if is_first {
        LINES.come.notify_one();
    }
}

/// Waits until all lines are written.
pub(crate) fn flush() {
    let unwritten = |waiting: &mut Waiting| waiting.is_running && !waiting.is_over();
    let _ = LINES.gone.wait_timeout_while(LINES.lock(), FLUSH, unwritten);
}

impl Lines {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        // Nothing under this lock panics half way.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_all(&self) {
        let mut text = Vec::new();
        loop {
            let none = |waiting: &mut Waiting| waiting.text.is_empty();
            drop(self.come.wait_while(self.lock(), none).unwrap_or_else(PoisonError::into_inner));
            thread::sleep(COLLECT);
            let mut waiting = self.lock();
            mem::swap(&mut waiting.text, &mut text);
            waiting.is_writing = true;
            drop(waiting);
            self.gone.notify_all();
            let _ = std::io::stderr().lock().write_all(&text);
            text.clear();
            self.lock().is_writing = false;
            self.gone.notify_all();
        }
    }
}
