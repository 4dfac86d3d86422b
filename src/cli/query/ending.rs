//! The end of a query before its last row: a signal, or a reader of standard output that has left.
//!
//! A dropped stream has its statements cancelled in the background, as it does in the server. So the
//! query waits until its connections are clean or closed; a process that ended at once would leave
//! the statements to the database.

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

/// Longer than any database needs for a statement that it cancels at all.
const PATIENCE: Duration = Duration::from_secs(10);
/// The pause between two looks at the connections.
const INTERVAL: Duration = Duration::from_millis(2);

/// A signal that ends a query.
#[derive(Debug, Clone, Copy)]
pub(in crate::cli) enum EndSignal {
    /// The terminal has gone.
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

    /// The exit status that shells give a command which a signal ended.
    pub(in crate::cli) fn status(self) -> ExitCode {
        let number = u8::try_from(self.kind().as_raw_value()).unwrap_or(0);
        ExitCode::from(128 + number)
    }
}

/// The signals that end a query. From here on they don't end the process by themselves.
pub(super) struct EndSignals {
    hangup: Signal,
    interrupt: Signal,
    terminate: Signal,
}

impl EndSignals {
    pub(super) fn new() -> io::Result<Self> {
        let [hangup, interrupt, terminate] =
            [EndSignal::Hangup, EndSignal::Interrupt, EndSignal::Terminate].map(|which| signal(which.kind()));
        Ok(Self { hangup: hangup?, interrupt: interrupt?, terminate: terminate? })
    }

    async fn next(&mut self) -> EndSignal {
        tokio::select! {
            _ = self.hangup.recv() => EndSignal::Hangup,
            _ = self.interrupt.recv() => EndSignal::Interrupt,
            _ = self.terminate.recv() => EndSignal::Terminate,
        }
    }

    /// Drives a query to its end, or until a signal or `left`, and then has its statements cancelled.
    /// A second signal ends that, too.
    pub(super) async fn drive(
        mut self,
        query: impl Future<Output = Result<(), Failure>>,
        left: impl Future<Output = ()>,
        source: &Source,
    ) -> Result<(), Failure> {
        // The branches drop `query`, and with it its stream, before the connections are waited for.
        let ended = tokio::select! {
            biased;
            ended = query => ended,
            signal = self.next() => Err(Failure::Signalled(signal)),
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

/// Waits until the reader of standard output has left. A file has no reader, so that's forever.
pub(super) async fn reader_left() {
    let output = io::stdout().as_fd().try_clone_to_owned();
    // Unchecked, as it may be a terminal, and it stays blocking for who else writes to it.
    let Ok(output) = output.and_then(Sender::from_owned_fd_unchecked) else { return pending().await };
    if output.ready(Interest::ERROR).await.is_err() {
        pending::<()>().await;
    }
}
