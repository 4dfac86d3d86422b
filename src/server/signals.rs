//! The signals that the server knows. SIGHUP is the reloader's.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGTERM and SIGINT.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    pub(super) async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Has SIGUSR1 and SIGUSR2, on which other servers reopen their logs, do nothing: left alone they
/// end the process at once, with all its streams. A handler stays for as long as the process does.
///
/// # Errors
/// The handlers cannot be installed.
pub fn ignore_user_signals() -> io::Result<()> {
    drop((signal(SignalKind::user_defined1())?, signal(SignalKind::user_defined2())?));
    Ok(())
}
