//! Writes lines to standard output and standard error on a separate thread.
//!
//! A system call for each line of the access log would cost a tenth of a lookup, and a slow reader
//! would block the writer of a message. Lines stay whole and in order. Once more than [`MOST`]
//! bytes wait, further lines are dropped and counted, so a log's reader can't stop the server. A
//! killed process loses its last lines. An orderly exit [flushes](Lines::flush) them.

use std::io::{self, Write as _};
use std::mem;
use std::sync::MutexGuard;
use std::thread;
use std::time::Duration;

use crate::lock::{Condvar, Mutex};

/// The number of bytes that may wait.
const MOST: usize = 1 << 20;
/// The time limit for the last lines at exit, if the log isn't read.
const FLUSH: Duration = Duration::from_secs(1);

/// The access log.
pub static ACCESS: Lines = Lines::new(Output::Access);
/// All other messages of the server.
pub(crate) static MESSAGES: Lines = Lines::new(Output::Messages);

/// The destination of lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Output {
    /// Standard output.
    Access,
    /// Standard error.
    Messages,
}

impl Output {
    /// The delay before a write, which then contains several lines.
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

/// One of the two logs. A thread writes its lines to its output.
pub struct Lines {
    output: Output,
    waiting: Mutex<LineBuffer>,
    /// Signals new lines.
    come: Condvar,
    /// Signals that lines were written.
    gone: Condvar,
}

struct LineBuffer {
    text: Vec<u8>,
    /// True while lines have been taken but not written yet.
    is_writing: bool,
    writer: Writer,
    /// Lines that didn't fit, or that couldn't be written.
    dropped: u64,
}

/// The state of the writing thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Writer {
    /// It starts with the first line.
    None,
    Runs,
    /// The thread couldn't be started. Lines are dropped, and `flush` doesn't wait.
    Failed,
}

impl LineBuffer {
    fn is_over(&self) -> bool {
        self.text.is_empty() && !self.is_writing
    }
}

impl Lines {
    const fn new(output: Output) -> Self {
        let waiting = LineBuffer { text: Vec::new(), is_writing: false, writer: Writer::None, dropped: 0 };
        Self { output, waiting: Mutex::new(waiting), come: Condvar::new(), gone: Condvar::new() }
    }

    /// Queues a line, which has no line end. A log that can't be written doesn't stop the server.
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

    /// The number of lines that weren't written since the process started.
    pub fn dropped(&self) -> u64 {
        self.waiting.lock().dropped
    }

    /// Waits until all lines are written, at most a second.
    pub fn flush(&self) {
        let unwritten = |waiting: &mut LineBuffer| waiting.writer == Writer::Runs && !waiting.is_over();
        drop(self.gone.wait_timeout_while(self.waiting.lock(), FLUSH, unwritten));
    }

    /// Counts dropped lines, and warns about the first ones.
    #[cold]
    fn drop_lines(&self, mut waiting: MutexGuard<'_, LineBuffer>, lines: usize) {
        let is_first = waiting.dropped == 0;
        waiting.dropped += lines as u64;
        drop(waiting);
        if is_first && self.output == Output::Access {
            super::warning!(
                "lines of the access log are dropped, because standard output isn't read, or too slowly; \
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
            let none = |waiting: &mut LineBuffer| waiting.text.is_empty();
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
