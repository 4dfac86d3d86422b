//! The load tester: requests any HTTP URL, reads the bodies, counts rows, checks completeness, and
//! reports failures honestly.
//!
//! ```text
//! pacer ─► attack (threads of connections) ─► http1, http2 ─► reply ─► count
//!             │            └─► tally (latencies, failures) ─┐
//!             └─► watch (/proc of the server) ──────────────┴─► report (text, JSON), page (HTML)
//! ```
//!
//! It knows nothing about the server: ours gets the same treatment as any other. HTTP/1.1 bodies go
//! through our own reader, because a load tester that is slower than its target measures itself.
//! The command line isn't here: `rowstream bench` parses it and writes the reports.

// Tests may unwrap, but production code may not.
#![warn(clippy::unwrap_used)]

mod attack;
mod chunked;
mod connection;
mod count;
mod http1;
mod http2;
mod pacer;
mod page;
mod ratio;
mod reply;
mod report;
mod tally;
mod target;
mod throttle;
mod watch;

use std::time::Duration;
use std::{fmt, io};

use http::{HeaderName, HeaderValue};
use jiff::Timestamp;

pub use attack::Run;
pub use chunked::{ChunkDecoder, ChunkError};
pub use count::{Counter, Document, End};
pub use pacer::Extent;
pub use target::Target;

/// The settings of each run, for any target.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Each has one request at a time.
    pub connections: usize,
    /// The connections are divided between them.
    pub threads: usize,
    /// When a run ends.
    pub extent: Extent,
    /// Requests per second over all connections (the open model). `None` is the closed model.
    pub rate: Option<f64>,
    /// Bytes per second that each connection reads.
    pub slow: Option<u64>,
    /// The version of HTTP.
    pub protocol: Protocol,
    /// Sent with every request. They replace our own headers of the same name.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// The rows that each response must have.
    pub expect_rows: Option<u64>,
    /// The longest time that a connection may send nothing.
    pub timeout: Duration,
}

/// The version of HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2 without TLS, by prior knowledge.
    Http2,
}

/// A target, and optionally the server's process.
#[derive(Debug, Clone)]
pub struct Subject {
    /// The URL to test.
    pub target: Target,
    /// The server's process, if it should be watched.
    pub pid: Option<u32>,
}

/// The measurements of one subject.
#[derive(Debug)]
pub struct Measurements {
    /// The target's URL as given.
    pub url: String,
    /// Oldest first.
    pub runs: Vec<Run>,
}

/// All measurements.
#[derive(Debug)]
pub struct Report {
    /// When the first run began.
    pub started: Timestamp,
    /// The target, and the one it's compared with.
    pub targets: Vec<Measurements>,
}

/// The reason why the measurement failed.
#[derive(Debug)]
pub enum Error {
    /// A thread or its runtime couldn't be started.
    Io(io::Error),
    /// Any other reason, as a message.
    Message(String),
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::Message(message) => f.write_str(message),
        }
    }
}

impl std::error::Error for Error {}

/// Drives the target once, or alternates with another one for `pairs` rounds. Calls `on_run` after
/// each run.
///
/// # Errors
/// A host has no address, a process doesn't exist, or a thread can't be started.
pub async fn measure(
    plan: &Plan,
    target: Subject,
    compare: Option<(Subject, u32)>,
    mut on_run: impl FnMut(&Subject, &Run),
) -> Result<Report, Error> {
    let started = Timestamp::now();
    let (subjects, pairs) = match compare {
        None => (vec![target], 1),
        Some((other, pairs)) => (vec![target, other], pairs),
    };
    let mut targets: Vec<Measurements> = subjects
        .iter()
        .map(|subject| Measurements { url: subject.target.url.clone(), runs: Vec::new() })
        .collect();
    for place in order(subjects.len(), pairs) {
        let subject = &subjects[place];
        let run = attack::run(plan, &subject.target, subject.pid).await?;
        on_run(subject, &run);
        let interrupted = run.interrupted;
        targets[place].runs.push(run);
        if interrupted {
            break;
        }
    }
    Ok(Report { started, targets })
}

/// The order of the runs. Every other pair is reversed, so that a machine that gets slower over
/// time favours neither target.
fn order(subjects: usize, pairs: u32) -> Vec<usize> {
    (0..pairs)
        .flat_map(|pair| {
            let places = 0..subjects;
            if pair % 2 == 0 { places.collect::<Vec<_>>() } else { places.rev().collect() }
        })
        .collect()
}

impl Report {
    /// Requests that failed, over all runs.
    pub fn failed(&self) -> u64 {
        self.runs().map(|run| run.tally.failed()).sum()
    }

    /// Requests that ended, over all runs.
    pub fn requests(&self) -> u64 {
        self.runs().map(|run| run.tally.requests()).sum()
    }

    fn runs(&self) -> impl Iterator<Item = &Run> {
        self.targets.iter().flat_map(|target| &target.runs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_take_turns() {
        assert_eq!(order(1, 1), [0]);
        assert_eq!(order(2, 3), [0, 1, 1, 0, 0, 1]);
    }
}
