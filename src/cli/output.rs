//! Output of commands. A reader that leaves early (`| head`) isn't a failure, and never causes a
//! panic.

use std::fmt::Arguments;
use std::io::{self, ErrorKind, Write};
use std::process;

/// Standard output, for results longer than a line.
pub(super) struct ResultOutput(io::Stdout);

impl ResultOutput {
    pub(super) fn new() -> Self {
        Self(io::stdout())
    }
}

impl Write for ResultOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).map_err(left)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().map_err(left)
    }
}

/// The reader of standard output has left. Other broken pipes, such as connections, are failures.
#[derive(Debug)]
struct ReaderGone;

impl std::fmt::Display for ReaderGone {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the reader of standard output is gone")
    }
}

impl std::error::Error for ReaderGone {}

fn left(error: io::Error) -> io::Error {
    if error.kind() == ErrorKind::BrokenPipe {
        io::Error::new(ErrorKind::BrokenPipe, ReaderGone)
    } else {
        error
    }
}

/// Returns true if an error means that the reader of standard output has left.
pub(super) fn is_left(error: &io::Error) -> bool {
    let source = error.get_ref();
    source.and_then(|source| source.downcast_ref::<ReaderGone>()).is_some()
}

/// Writes a line to standard output. If its reader has left, ends the process successfully.
pub(super) fn line(text: Arguments<'_>) {
    let mut out = io::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::BrokenPipe => process::exit(0),
        Err(error) => {
            say(format_args!("error: standard output cannot be written: {error}"));
            process::exit(1);
        }
    }
}

/// Writes a line to standard error. If its reader has left, the command continues.
pub(super) fn say(text: Arguments<'_>) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}
