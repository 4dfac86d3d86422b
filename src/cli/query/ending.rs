//! The end of a query before its last row: because of a signal, or because the reader of standard
//! output left.
//!
//! When a stream is dropped, its statements are cancelled in the background, as in the server. So
//! the query waits until its connections are clean or closed. If the process ended at once, the
//! database would continue to run the statements.

use std::future::pending;
use std::io;
use std::os::fd::AsFd as _;
use std::process::ExitCode;
use std::time::Duration;

use tokio::io::Interest;
use tokio::net::unix::pipe::Sender;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{sleep, timeout};

use crate::cli::Failure;
use crate::source::Source;

/// The time limit for cancelling. A database that cancels at all needs less.
const PATIENCE: Duration = Duration::from_secs(10);
/// The interval between two checks of the connections.
const INTERVAL: Duration = Duration::from_millis(2);

/// A signal that ends a query, or a download of `rowstream get`.
#[derive(Debug, Clone, Copy)]
pub(in crate::cli) enum EndSignal {
    /// The terminal was closed.
    Hangup,
    /// Ctrl-C.
    Interrupt,
    /// `kill`, or a shutdown.
    Terminate,
}

impl EndSignal {
    fn kind(self) -> SignalKind {
        match self {
            Self::Hangup => SignalKind::hangup(),
            Self::Interrupt => SignalKind::interrupt(),
            Self::Terminate => SignalKind::terminate(),
        }
    }

    pub(in crate::cli) fn name(self) -> &'static str {
        match self {
            Self::Hangup => "SIGHUP",
            Self::Interrupt => "SIGINT",
            Self::Terminate => "SIGTERM",
        }
    }

    /// The exit status that shells report for a command that a signal ended.
    pub(in crate::cli) fn status(self) -> ExitCode {
        let number = u8::try_from(self.kind().as_raw_value()).unwrap_or(0);
        ExitCode::from(128 + number)
    }
}

/// The signals that end a command. While this exists, they don't end the process themselves.
pub(in crate::cli) struct EndSignals {
    hangup: Signal,
    interrupt: Signal,
    terminate: Signal,
}

impl EndSignals {
    pub(in crate::cli) fn new() -> io::Result<Self> {
        let [hangup, interrupt, terminate] =
            [EndSignal::Hangup, EndSignal::Interrupt, EndSignal::Terminate].map(|which| signal(which.kind()));
        Ok(Self { hangup: hangup?, interrupt: interrupt?, terminate: terminate? })
    }

    pub(in crate::cli) async fn next(&mut self) -> EndSignal {
        tokio::select! {
            _ = self.hangup.recv() => EndSignal::Hangup,
            _ = self.interrupt.recv() => EndSignal::Interrupt,
            _ = self.terminate.recv() => EndSignal::Terminate,
        }
    }

    /// Drives a query until its end, or until a signal or `left`. Then its statements are
    /// cancelled. A second signal ends that too.
    pub(super) async fn drive(
        mut self,
        query: impl Future<Output = Result<(), Failure>>,
        left: impl Future<Output = ()>,
        source: &Source,
    ) -> Result<(), Failure> {
        // The branches drop `query` with its stream, before we wait for the connections.
        let ended = tokio::select! {
            biased;
            ended = query => ended,
            signal = self.next() => Err(Failure::Signalled(signal, "query")),
            () = left => Err(Failure::Silent),
        };
        if ended.is_err() {
            tokio::select! {
                _ = timeout(PATIENCE, all_connections_clean(source)) => {}
                _ = self.next() => {}
            }
        }
        ended
    }
}

/// Waits until no statement runs on a connection of the source.
async fn all_connections_clean(source: &Source) {
    while source.pool_stats().usage.used > 0 {
        sleep(INTERVAL).await;
    }
}

/// Waits until the reader of standard output has left. A file has no reader, so that's never.
pub(in crate::cli) async fn reader_left() {
    let output = io::stdout().as_fd().try_clone_to_owned();
    // Unchecked, because it may be a terminal. It also stays blocking for other processes that
    // write to it.
    let Ok(output) = output.and_then(Sender::from_owned_fd_unchecked) else { return pending().await };
    if output.ready(Interest::ERROR).await.is_err() {
        pending::<()>().await;
    }
}
