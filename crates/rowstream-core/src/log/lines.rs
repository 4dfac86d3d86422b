//! Lines on their way to standard output or standard error.
//!
//! A thread of its own writes what has come: a system call for each line of the access log would
//! take a tenth of a lookup, and a reader that is slow would hold up whoever has something to say.
//! Lines stay whole and in their order. Beyond [`MOST`] bytes that wait, lines are dropped and
//! counted: no reader of a log stops the server. Who kills the process loses the last of them; its
//! orderly end [flushes](Lines::flush).

use std::io::{self, Write as _};
use std::mem;
use std::sync::MutexGuard;
use std::thread;
use std::time::Duration;

use crate::lock::{Condvar, Mutex};

/// Bytes that may wait.
const MOST: usize = 1 << 20;
/// How long the end of the process waits for a log that nobody reads.
const FLUSH: Duration = Duration::from_secs(1);

/// The access log.
pub static ACCESS: Lines = Lines::new(Output::Access);
/// What else the server says.
pub(crate) static MESSAGES: Lines = Lines::new(Output::Messages);

/// Where lines go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Output {
    /// Standard output.
    Access,
    /// Standard error.
    Messages,
}

impl Output {
    /// How long lines are collected before they are written.
    fn collect(self) -> Duration {
        match self {
            Self::Access => Duration::from_millis(20),
            Self::Messages => Duration::ZERO,
        }
    }

    fn thread(self) -> &'static str {
        match self {
            Self::Access => "access log",
            Self::Messages => "messages",
        }
    }

    fn write(self, text: &[u8]) -> io::Result<()> {
        match self {
            Self::Access => {
                let mut out = io::stdout().lock();
                out.write_all(text).and_then(|()| out.flush())
            }
            Self::Messages => io::stderr().lock().write_all(text),
        }
    }
}

/// One of the two logs: lines that a thread of their own writes to an output.
pub struct Lines {
    output: Output,
    waiting: Mutex<Waiting>,
    /// There are lines.
    come: Condvar,
    /// There are fewer.
    gone: Condvar,
}

struct Waiting {
    text: Vec<u8>,
    /// Whether some were taken and are not written yet.
    is_writing: bool,
    writer: Writer,
    /// Lines for which there was no room, or that could not be written.
    dropped: u64,
}

/// The thread that writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Writer {
    /// It begins with the first line.
    None,
    Runs,
    /// There is no such thread. Nothing is written, and nothing waits either.
    Failed,
}

impl Waiting {
    fn is_over(&self) -> bool {
        self.text.is_empty() && !self.is_writing
    }
}

impl Lines {
    const fn new(output: Output) -> Self {
        let waiting = Waiting { text: Vec::new(), is_writing: false, writer: Writer::None, dropped: 0 };
        Self { output, waiting: Mutex::new(waiting), come: Condvar::new(), gone: Condvar::new() }
    }

    /// Has a line written, which is without its end. A log that cannot be written stops nothing.
    pub fn write(&'static self, line: &str) {
        let mut waiting = self.waiting.lock();
        if waiting.writer == Writer::None {
            waiting.writer = self.start();
        }
        if waiting.text.len() > MOST || waiting.writer == Writer::Failed {
            return self.drop_lines(waiting, 1);
        }
        let is_first = waiting.text.is_empty();
        waiting.text.extend_from_slice(line.as_bytes());
        waiting.text.push(b'\n');
        drop(waiting);
        if is_first {
            self.come.notify_one();
        }
    }

    /// Lines that were not written, since the process began.
    pub fn dropped(&self) -> u64 {
        self.waiting.lock().dropped
    }

    /// Waits until all lines are written.
    pub fn flush(&self) {
        let unwritten = |waiting: &mut Waiting| waiting.writer == Writer::Runs && !waiting.is_over();
        drop(self.gone.wait_timeout_while(self.waiting.lock(), FLUSH, unwritten));
    }

    /// Counts lines that are not written, and says so once.
    #[cold]
    fn drop_lines(&self, mut waiting: MutexGuard<'_, Waiting>, lines: usize) {
        let is_first = waiting.dropped == 0;
        waiting.dropped += lines as u64;
        drop(waiting);
        if is_first && self.output == Output::Access {
            super::warning!(
                "lines of the access log are dropped: nobody reads standard output, or too slowly; \
                 `rowstream_access_log_dropped_lines_total` counts them"
            );
        }
    }

    fn start(&'static self) -> Writer {
        let thread = thread::Builder::new().name(self.output.thread().into());
        thread.spawn(|| self.write_all()).map_or(Writer::Failed, |_| Writer::Runs)
    }

    fn write_all(&self) {
        let mut text = Vec::new();
        loop {
            let none = |waiting: &mut Waiting| waiting.text.is_empty();
            drop(self.come.wait_while(self.waiting.lock(), none));
            thread::sleep(self.output.collect());
            let mut waiting = self.waiting.lock();
            mem::swap(&mut waiting.text, &mut text);
            waiting.is_writing = true;
            drop(waiting);
            if self.output.write(&text).is_err() {
                self.drop_lines(self.waiting.lock(), text.iter().filter(|byte| **byte == b'\n').count());
            }
            text.clear();
            self.waiting.lock().is_writing = false;
            self.gone.notify_all();
        }
    }
}
