//! Whether a host is asked: passive health checks, which cost no request of their own. What is
//! counted is whether requests get the head of an answer.
//!
//! ```text
//!        `failures` in a row                     the rest is over, and a request comes
//!   up ───────────────────────► set aside ────────────────────────────────────────────► tried by that request
//!   ▲                            ▲  ▲  failed: the next rest is twice as long              │  │
//!   │                            │  └──────────────────────────────────────────────────────┘  │
//!   │                            └─ it left before there was an answer: the next one tries ───┤
//!   └──────────────────────────────────────────────── answered ───────────────────────────────┘
//! ```
//!
//! 1. While a host is tried, no other request goes there, unless that takes longer than a request
//!    may.
//! 2. Each change begins an epoch, and what is told of a request of an earlier one changes nothing:
//!    those that were on their way when their host was set aside neither readmit it nor lengthen
//!    its rest.

use std::time::{Duration, Instant};

use http::StatusCode;

/// `health = { … }` of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// After so many failures in a row a host is set aside.
    pub failures: usize,
    /// For how long, the first time.
    pub rest: Duration,
    /// Answers that are failures of the host, too.
    pub statuses: Vec<StatusCode>,
}

impl Default for Health {
    fn default() -> Self {
        Self { failures: 5, rest: Duration::from_secs(10), statuses: Vec::new() }
    }
}

/// How often a rest is doubled: the longest is sixteen times the first.
const DOUBLED: u32 = 4;

/// What is known of one host.
#[derive(Debug)]
pub(super) struct Breaker {
    /// `None`: it is always asked.
    health: Option<Health>,
    /// How long a request may take that tries the host. Then another may: who reads its answer may
    /// have stopped to.
    trial: Duration,
    state: State,
    epoch: Epoch,
}

/// Since which change of its host a request is on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Epoch(u64);

#[derive(Debug)]
enum State {
    Up {
        /// In a row.
        failures: usize,
    },
    Aside {
        until: Instant,
        /// How often trials have failed.
        trials: u32,
    },
    Tried {
        since: Instant,
        trials: u32,
    },
}

impl Breaker {
    /// A host that is up.
    pub(super) fn new(health: Option<Health>, trial: Duration) -> Self {
        Self { health, trial, state: State::Up { failures: 0 }, epoch: Epoch(0) }
    }

    /// Whether it was not set aside, or was readmitted.
    pub(super) fn is_up(&self) -> bool {
        matches!(self.state, State::Up { .. })
    }

    /// Whether a request may be sent to it.
    pub(super) fn lets_through(&self, now: Instant) -> bool {
        match self.state {
            State::Up { .. } => true,
            State::Aside { until, .. } => until <= now,
            State::Tried { since, .. } => since + self.trial <= now,
        }
    }

    /// Until when it rests, or is tried at most; `None` where it does not.
    pub(super) fn rests_until(&self, now: Instant) -> Option<Instant> {
        match self.state {
            State::Aside { until, .. } if until > now => Some(until),
            State::Tried { since, .. } if since + self.trial > now => Some(since + self.trial),
            State::Aside { .. } | State::Up { .. } | State::Tried { .. } => None,
        }
    }

    /// A request is sent that is [let through](Self::lets_through).
    pub(super) fn begin(&mut self, now: Instant) -> Epoch {
        if let State::Aside { trials, .. } | State::Tried { trials, .. } = self.state {
            self.change_to(State::Tried { since: now, trials });
        }
        self.epoch
    }

    /// A request was answered; whether that readmits the host.
    pub(super) fn answered(&mut self, epoch: Epoch) -> bool {
        if epoch != self.epoch {
            return false;
        }
        match &mut self.state {
            State::Up { failures } => *failures = 0,
            State::Tried { .. } => {
                self.change_to(State::Up { failures: 0 });
                return true;
            }
            State::Aside { .. } => {}
        }
        false
    }

    /// A request failed by the host; whether, and for how long, that sets it aside which was up.
    pub(super) fn failed(&mut self, epoch: Epoch, now: Instant) -> Option<Duration> {
        let health = self.health.as_ref().filter(|_| epoch == self.epoch)?;
        let (most, rest) = (health.failures, health.rest);
        match &mut self.state {
            State::Up { failures } => {
                *failures += 1;
                if *failures < most {
                    return None;
                }
                self.change_to(State::Aside { until: now + rest, trials: 0 });
                Some(rest)
            }
            State::Tried { trials, .. } => {
                let trials = *trials + 1;
                let rest = rest.saturating_mul(1 << trials.min(DOUBLED));
                self.change_to(State::Aside { until: now + rest, trials });
                None
            }
            State::Aside { .. } => None,
        }
    }

    /// A request ended without telling anything of the host.
    pub(super) fn left(&mut self, epoch: Epoch, now: Instant) {
        if let State::Tried { trials, .. } = self.state
            && epoch == self.epoch
        {
            self.change_to(State::Aside { until: now, trials });
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

    const REST: Duration = Duration::from_secs(10);
    const TRIAL: Duration = Duration::from_secs(35);

    fn breaker() -> Breaker {
        Breaker::new(Some(Health { failures: 3, rest: REST, statuses: Vec::new() }), TRIAL)
    }

    /// One that was just set aside.
    fn aside(now: Instant) -> Breaker {
        let mut breaker = breaker();
        let epoch = breaker.begin(now);
        let rests = [(); 3].map(|()| breaker.failed(epoch, now));
        assert_eq!(rests, [None, None, Some(REST)]);
        breaker
    }

    #[test]
    fn only_failures_in_a_row_set_a_host_aside() {
        let now = Instant::now();
        let mut breaker = breaker();
        let epoch = breaker.begin(now);
        for _ in 0..9 {
            assert_eq!((breaker.failed(epoch, now), breaker.failed(epoch, now)), (None, None));
            assert!(!breaker.answered(epoch), "it was up");
        }
        assert!(breaker.is_up());
        assert!(!aside(now).is_up());
    }

    #[test]
    fn one_request_tries_a_host_whose_rest_is_over() {
        let now = Instant::now();
        let mut breaker = aside(now);
        assert!(!breaker.lets_through(now + REST / 2));
        assert_eq!(breaker.rests_until(now), Some(now + REST));
        assert!(breaker.lets_through(now + REST));
        let trial = breaker.begin(now);
        assert!(!breaker.lets_through(now + REST) && !breaker.is_up());
        assert!(breaker.answered(trial) && breaker.is_up() && breaker.lets_through(now + REST));
    }

    #[test]
    fn each_trial_that_fails_doubles_the_rest_up_to_a_bound() {
        let mut now = Instant::now();
        let mut breaker = aside(now);
        for times in [1, 2, 4, 8, 16, 16, 16] {
            assert_eq!(breaker.rests_until(now), Some(now + REST * times));
            now += REST * times;
            let trial = breaker.begin(now);
            assert_eq!(breaker.failed(trial, now), None, "it was set aside already");
        }
        now += REST * 16;
        let trial = breaker.begin(now);
        assert!(breaker.answered(trial));
        let epoch = breaker.begin(now);
        let rests = [(); 3].map(|()| breaker.failed(epoch, now));
        assert_eq!(rests, [None, None, Some(REST)], "it begins anew");
    }

    #[test]
    fn a_trial_whose_client_leaves_tells_nothing() {
        let now = Instant::now();
        let mut breaker = aside(now);
        let trial = breaker.begin(now);
        breaker.left(trial, now + REST);
        assert!(breaker.lets_through(now + REST) && !breaker.is_up());
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
        let trial = breaker.begin(now);
        assert!(!breaker.answered(early) && !breaker.is_up());
        breaker.left(early, now);
        assert!(!breaker.lets_through(now + REST), "the trial is on its way");
        assert!(breaker.answered(trial));
    }

    /// Who tries it may be a response whose client has stopped to read, of which nothing is polled
    /// any more.
    #[test]
    fn a_trial_that_does_not_end_is_followed_by_another() {
        let now = Instant::now();
        let mut breaker = aside(now);
        let (begun, over) = (now + REST, now + REST + TRIAL);
        let first = breaker.begin(begun);
        assert_eq!((breaker.lets_through(begun), breaker.rests_until(begun)), (false, Some(over)));
        assert_eq!((breaker.lets_through(over), breaker.rests_until(over)), (true, None));
        let second = breaker.begin(over);
        assert!(!breaker.lets_through(over));
        breaker.left(first, over);
        assert!(!breaker.answered(first) && breaker.failed(first, over).is_none());
        assert!(breaker.answered(second) && breaker.is_up());
    }

    #[test]
    fn without_health_no_host_is_set_aside() {
        let now = Instant::now();
        let mut breaker = Breaker::new(None, TRIAL);
        let epoch = breaker.begin(now);
        assert!((0..100).all(|_| breaker.failed(epoch, Instant::now()).is_none()) && breaker.is_up());
    }
}
