//! Decides if requests may be sent to a host. These health checks are passive: they count the
//! requests that get response headers, and send none of their own.
//!
//! ```text
//!        `failures` in a row               the backoff ends, and a request arrives
//!   up ───────────────────────► ejected ───────────────────────────────────────────► probed by that request
//!   ▲                            ▲  ▲  failed: the next backoff is twice as long         │  │
//!   │                            │  └────────────────────────────────────────────────────┘  │
//!   │                            └─ cancelled before an answer: the next request probes ────┤
//!   └────────────────────────────────────── answered: restored ─────────────────────────────┘
//! ```
//!
//! 1. While a host is probed, no other request is sent there, unless the probe takes longer than a
//!    request may.
//! 2. Each change of state begins an epoch. A request of an earlier epoch changes nothing, however
//!    it ends: requests that were under way when their host was ejected neither restore it nor
//!    lengthen its backoff.

use std::time::{Duration, Instant};

use http::StatusCode;

/// `health = { … }` of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// The number of failures in a row that ejects a host.
    pub failures: usize,
    /// The length of the first ejection.
    pub backoff: Duration,
    /// The statuses that also count as failures of the host.
    pub statuses: Vec<StatusCode>,
}

impl Default for Health {
    fn default() -> Self {
        Self { failures: 5, backoff: Duration::from_secs(10), statuses: Vec::new() }
    }
}

/// The number of requests to a host, by their end.
#[derive(Debug, Clone, Copy, Default)]
pub struct HostCounts {
    /// Response headers arrived and weren't a failure; or, for a database, a connection was lent.
    pub answered: u64,
    /// They failed as a host does that is down.
    pub failed: u64,
    /// They ended before that, for example because the client left.
    pub aborted: u64,
    /// The number of ejections.
    pub ejected: u64,
}

/// The state of a host, for metrics.
#[derive(Debug)]
pub struct HostStats {
    /// Its host and port, as they're shown in metrics and the log.
    pub name: String,
    /// The number of requests that it answers now.
    pub in_flight: usize,
    /// False while it is ejected.
    pub is_up: bool,
    /// The number of requests so far.
    pub counts: HostCounts,
    /// How far a replica is known to be behind its primary.
    pub lag: Option<Duration>,
}

/// How many times a backoff is doubled: the longest is sixteen times the first.
const DOUBLED: u32 = 4;

/// The health of one host.
#[derive(Debug)]
pub struct Breaker {
    /// `None`: the host is never ejected.
    health: Option<Health>,
    /// The time limit of a probe. After that another request may probe, because the client of the
    /// first one may have stopped reading.
    probe: Duration,
    state: State,
    epoch: Epoch,
}

/// The period between two changes of its host's state in which a request was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Epoch(u64);

#[derive(Debug)]
enum State {
    Up {
        /// The number of failures in a row.
        failures: usize,
    },
    Ejected {
        until: Instant,
        /// The number of probes that have failed.
        probes: u32,
    },
    Probed {
        since: Instant,
        probes: u32,
    },
}

impl Breaker {
    /// The breaker of a host that is up.
    pub fn new(health: Option<Health>, probe: Duration) -> Self {
        Self { health, probe, state: State::Up { failures: 0 }, epoch: Epoch(0) }
    }

    /// True if the host isn't ejected or being probed.
    pub fn is_up(&self) -> bool {
        matches!(self.state, State::Up { .. })
    }

    /// True if a request may be sent to the host.
    pub fn lets_through(&self, now: Instant) -> bool {
        match self.state {
            State::Up { .. } => true,
            State::Ejected { until, .. } => until <= now,
            State::Probed { since, .. } => since + self.probe <= now,
        }
    }

    /// The end of the ejection, or the latest end of the probe. `None` if there is neither.
    pub fn ejected_until(&self, now: Instant) -> Option<Instant> {
        match self.state {
            State::Ejected { until, .. } if until > now => Some(until),
            State::Probed { since, .. } if since + self.probe > now => Some(since + self.probe),
            State::Ejected { .. } | State::Up { .. } | State::Probed { .. } => None,
        }
    }

    /// Records that a request is sent, which [`lets_through`](Self::lets_through) allowed.
    pub fn begin(&mut self, now: Instant) -> Epoch {
        if let State::Ejected { probes, .. } | State::Probed { probes, .. } = self.state {
            self.change_to(State::Probed { since: now, probes });
        }
        self.epoch
    }

    /// Records that a request was answered. Returns true if that restores the host.
    pub fn answered(&mut self, epoch: Epoch) -> bool {
        if epoch != self.epoch {
            return false;
        }
        match &mut self.state {
            State::Up { failures } => *failures = 0,
            State::Probed { .. } => {
                self.change_to(State::Up { failures: 0 });
                return true;
            }
            State::Ejected { .. } => {}
        }
        false
    }

    /// Records that a request failed because of the host. If that ejects a host that was up,
    /// returns for how long.
    pub fn failed(&mut self, epoch: Epoch, now: Instant) -> Option<Duration> {
        let health = self.health.as_ref().filter(|_| epoch == self.epoch)?;
        let (most, backoff) = (health.failures, health.backoff);
        match &mut self.state {
            State::Up { failures } => {
                *failures += 1;
                if *failures < most {
                    return None;
                }
                self.change_to(State::Ejected { until: now + backoff, probes: 0 });
                Some(backoff)
            }
            State::Probed { probes, .. } => {
                let probes = *probes + 1;
                let backoff = backoff.saturating_mul(1 << probes.min(DOUBLED));
                self.change_to(State::Ejected { until: now + backoff, probes });
                None
            }
            State::Ejected { .. } => None,
        }
    }

    /// Records that a request ended without a result, for example because its client left.
    pub fn left(&mut self, epoch: Epoch, now: Instant) {
        if let State::Probed { probes, .. } = self.state
            && epoch == self.epoch
        {
            self.change_to(State::Ejected { until: now, probes });
        }
    }

    fn change_to(&mut self, state: State) {
        self.state = state;
        self.epoch = Epoch(self.epoch.0 + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BACKOFF: Duration = Duration::from_secs(10);
    const PROBE: Duration = Duration::from_secs(35);

    fn breaker() -> Breaker {
        Breaker::new(Some(Health { failures: 3, backoff: BACKOFF, statuses: Vec::new() }), PROBE)
    }

    /// A breaker whose host was just ejected.
    fn ejected(now: Instant) -> Breaker {
        let mut breaker = breaker();
        let epoch = breaker.begin(now);
        let backoffs = [(); 3].map(|()| breaker.failed(epoch, now));
        assert_eq!(backoffs, [None, None, Some(BACKOFF)]);
        breaker
    }

    #[test]
    fn only_failures_in_a_row_eject_a_host() {
        let now = Instant::now();
        let mut breaker = breaker();
        let epoch = breaker.begin(now);
        for _ in 0..9 {
            assert_eq!((breaker.failed(epoch, now), breaker.failed(epoch, now)), (None, None));
            assert!(!breaker.answered(epoch), "it was up");
        }
        assert!(breaker.is_up());
        assert!(!ejected(now).is_up());
    }

    #[test]
    fn one_request_probes_a_host_whose_backoff_is_over() {
        let now = Instant::now();
        let mut breaker = ejected(now);
        assert!(!breaker.lets_through(now + BACKOFF / 2));
        assert_eq!(breaker.ejected_until(now), Some(now + BACKOFF));
        assert!(breaker.lets_through(now + BACKOFF));
        let probe = breaker.begin(now);
        assert!(!breaker.lets_through(now + BACKOFF) && !breaker.is_up());
        assert!(breaker.answered(probe) && breaker.is_up() && breaker.lets_through(now + BACKOFF));
    }

    #[test]
    fn each_probe_that_fails_doubles_the_backoff_up_to_a_bound() {
        let mut now = Instant::now();
        let mut breaker = ejected(now);
        for times in [1, 2, 4, 8, 16, 16, 16] {
            assert_eq!(breaker.ejected_until(now), Some(now + BACKOFF * times));
            now += BACKOFF * times;
            let probe = breaker.begin(now);
            assert_eq!(breaker.failed(probe, now), None, "it was ejected already");
        }
        now += BACKOFF * 16;
        let probe = breaker.begin(now);
        assert!(breaker.answered(probe));
        let epoch = breaker.begin(now);
        let backoffs = [(); 3].map(|()| breaker.failed(epoch, now));
        assert_eq!(backoffs, [None, None, Some(BACKOFF)], "it begins anew");
    }

    #[test]
    fn a_probe_whose_client_leaves_says_nothing() {
        let now = Instant::now();
        let mut breaker = ejected(now);
        let probe = breaker.begin(now);
        breaker.left(probe, now + BACKOFF);
        assert!(breaker.lets_through(now + BACKOFF) && !breaker.is_up());
    }

    #[test]
    fn what_was_on_its_way_before_changes_nothing() {
        let now = Instant::now();
        let mut breaker = breaker();
        let early = breaker.begin(now);
        for _ in 0..3 {
            breaker.failed(early, now);
        }
        assert!(!breaker.answered(early) && !breaker.is_up());
        assert_eq!(breaker.failed(early, now), None);
        let probe = breaker.begin(now);
        assert!(!breaker.answered(early) && !breaker.is_up());
        breaker.left(early, now);
        assert!(!breaker.lets_through(now + BACKOFF), "the probe is on its way");
        assert!(breaker.answered(probe));
    }

    /// The client of a probe may stop reading. Its response then isn't polled any more, and never
    /// ends.
    #[test]
    fn a_probe_that_does_not_end_is_followed_by_another() {
        let now = Instant::now();
        let mut breaker = ejected(now);
        let (begun, over) = (now + BACKOFF, now + BACKOFF + PROBE);
        let first = breaker.begin(begun);
        assert_eq!((breaker.lets_through(begun), breaker.ejected_until(begun)), (false, Some(over)));
        assert_eq!((breaker.lets_through(over), breaker.ejected_until(over)), (true, None));
        let second = breaker.begin(over);
        assert!(!breaker.lets_through(over));
        breaker.left(first, over);
        assert!(!breaker.answered(first) && breaker.failed(first, over).is_none());
        assert!(breaker.answered(second) && breaker.is_up());
    }

    #[test]
    fn without_health_no_host_is_ejected() {
        let now = Instant::now();
        let mut breaker = Breaker::new(None, PROBE);
        let epoch = breaker.begin(now);
        assert!((0..100).all(|_| breaker.failed(epoch, Instant::now()).is_none()) && breaker.is_up());
    }
}
