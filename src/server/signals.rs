//! The signals that the server handles, except SIGHUP, which belongs to the reloader.

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

/// Ignores SIGUSR1 and SIGUSR2, which make other servers reopen their logs. By default they would
/// end the process at once, with all its streams. The handlers stay for the life of the process.
///
/// # Errors
/// The handlers can't be installed.
pub fn ignore_user_signals() -> io::Result<()> {
    drop((signal(SignalKind::user_defined1())?, signal(SignalKind::user_defined2())?));
    Ok(())
}
