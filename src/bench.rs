//! The load tester: drives any HTTP URL, reads the bodies, counts rows, checks completeness, and tells the truth.
//!
//! ```text
//! pacer ─► attack (threads of connections) ─► http1, http2 ─► reply ─► count
//!             │            └─► tally (latencies, failures) ─┐
//!             └─► watch (/proc of the server) ──────────────┴─► report (text, JSON), page (HTML)
//! ```
//!
//! It knows nothing of the server: ours gets no other treatment than another's. Bodies over HTTP/1.1 are read by our own
//! reader, because a load tester that is slower than what it measures measures itself.

mod attack;
mod chunked;
mod connection;
mod count;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
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

use std::io;
use std::time::Duration;

use http::{HeaderName, HeaderValue};
use jiff::Timestamp;

pub(crate) use attack::Run;
pub(crate) use pacer::Extent;
pub(crate) use target::Target;

/// What each run does, whatever its target.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) connections: usize,
    pub(crate) threads: usize,
    pub(crate) extent: Extent,
    /// Requests per second over all connections: the open model. `None` is the closed one.
    pub(crate) rate: Option<f64>,
    /// Bytes per second that each connection reads.
    pub(crate) slow: Option<u64>,
    pub(crate) protocol: Protocol,
    /// Sent with every request, in the place of our own of the same name.
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    pub(crate) expect_rows: Option<u64>,
    /// How long a connection may bring nothing.
    pub(crate) timeout: Duration,
}

/// How HTTP is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Http1,
    /// Without TLS, by prior knowledge.
    Http2,
}

/// A target, and the server's process if it is to be watched.
#[derive(Debug, Clone)]
pub(crate) struct Subject {
    pub(crate) target: Target,
    pub(crate) pid: Option<u32>,
}

/// What a subject's runs measured.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) url: String,
    pub(crate) runs: Vec<Run>,
}

/// All that was measured.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) started: Timestamp,
    /// The target, and the one that it is compared with.
    pub(crate) targets: Vec<Measured>,
}

/// Why nothing could be measured.
pub(crate) enum Fault {
    Io(io::Error),
    Message(String),
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Drives the target once, or in turn with another one `pairs` times. `on_run` is told of each run that has ended.
///
/// # Errors
/// A host has no address, a process does not exist, or a thread cannot be started.
pub(crate) async fn measure(
    plan: &Plan,
    target: Subject,
    compare: Option<(Subject, u32)>,
    mut on_run: impl FnMut(&Subject, &Run),
) -> Result<Report, Fault> {
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

/// Who is driven when. Every other pair is turned round, so that what the machine does over time favours nobody.
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
    pub(crate) fn failed(&self) -> u64 {
        self.runs().map(|run| run.tally.failed()).sum()
    }

    /// Requests that ended, over all runs.
    pub(crate) fn requests(&self) -> u64 {
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
