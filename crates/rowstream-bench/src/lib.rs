//! The load tester: drives any HTTP URL, reads the bodies, counts rows, checks completeness, and
//! tells the truth.
//!
//! ```text
//! pacer ─► attack (threads of connections) ─► http1, http2 ─► reply ─► count
//!             │            └─► tally (latencies, failures) ─┐
//!             └─► watch (/proc of the server) ──────────────┴─► report (text, JSON), page (HTML)
//! ```
//!
//! It knows nothing of the server: ours gets no other treatment than another's. Our own reader
//! reads bodies over HTTP/1.1, because a load tester that is slower than what it measures measures
//! itself. The command line is not here: `rowstream bench` reads it, and writes the reports.

// Tests may unwrap; what runs in production may not.
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
pub use chunked::{Chunked, Malformed};
pub use count::{Counter, Document, End};
pub use pacer::Extent;
pub use target::Target;

/// What each run does, whatever its target.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Each has one request at a time.
    pub connections: usize,
    /// Between which the connections are divided.
    pub threads: usize,
    /// How much is asked for.
    pub extent: Extent,
    /// Requests per second over all connections: the open model. `None` is the closed one.
    pub rate: Option<f64>,
    /// Bytes per second that each connection reads.
    pub slow: Option<u64>,
    /// How HTTP is spoken.
    pub protocol: Protocol,
    /// Sent with every request, in the place of our own of the same name.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// The rows that each answer has to hold.
    pub expect_rows: Option<u64>,
    /// How long a connection may bring nothing.
    pub timeout: Duration,
}

/// How HTTP is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2 without TLS, by prior knowledge.
    Http2,
}

/// A target, and the server's process if it is to be watched.
#[derive(Debug, Clone)]
pub struct Subject {
    /// What is driven.
    pub target: Target,
    /// The server's process.
    pub pid: Option<u32>,
}

/// What a subject's runs measured.
#[derive(Debug)]
pub struct Measured {
    /// The target's URL as it was given.
    pub url: String,
    /// In the order in which they were made.
    pub runs: Vec<Run>,
}

/// All that was measured.
#[derive(Debug)]
pub struct Report {
    /// When the first run began.
    pub started: Timestamp,
    /// The target, and the one that it is compared with.
    pub targets: Vec<Measured>,
}

/// Why nothing could be measured.
#[derive(Debug)]
pub enum Error {
    /// A thread or its runtime could not be started.
    Io(io::Error),
    /// What the message says.
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

/// Drives the target once, or in turn with another one `pairs` times. Calls `on_run` with each run
/// that has ended.
///
/// # Errors
/// A host has no address, a process does not exist, or a thread cannot be started.
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
    let mut targets: Vec<Measured> = subjects
        .iter()
        .map(|subject| Measured { url: subject.target.url.clone(), runs: Vec::new() })
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

/// Who is driven when. Every other pair is turned round, so that what the machine does over time
/// favours nobody.
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
