//! Whether those who wait for a place can be served in time.
//!
//! A queue that never empties only makes everybody late: at ten times the load that a database
//! carries, all who were served would have waited as long as the queue is. So the queue is kept as
//! short as can be served in a part of `acquire_timeout`, by the rate at which it has been served
//! lately, and whoever comes beyond is refused at once. A queue that empties now and then is as
//! long as it is configured: a burst is what it is for. (Nichols and Jacobson, "Controlling Queue
//! Delay", ACM Queue 10(5), tell a good queue from a bad one by that.)
//!
//! Until a rate is known, such a load has filled the queue with more than can be served in time. So
//! whoever is refused takes one more along, the last of those who wait, until the queue is as short
//! as it has to be. Under a load that goes on that is a matter of a moment, and a burst after which
//! few come is served as a whole.
//!
//! It acts on evidence alone: where few are served, such as lists that take half a minute each, it
//! knows no rate, and limits nothing.

use std::time::Duration;

use tokio::time::Instant;

use super::PoolConfig;
use super::queue::Priority;

/// How long a queue has to stand, and how long a rate is measured at least.
const STANDING: Duration = Duration::from_millis(500);
/// How many have to be served for a rate.
const ENOUGH: u32 = 10;
/// The part of `acquire_timeout` in which those who wait are to be served.
const PART: u32 = 5;

/// What is known of each priority.
#[derive(Default)]
pub(super) struct Pressure([Line; Priority::ALL.len()]);

/// Those of one priority.
#[derive(Default)]
struct Line {
    /// Since when somebody has always waited.
    since: Option<Instant>,
    /// Since when it is counted who is served.
    counted_since: Option<Instant>,
    served: u32,
    /// How many were served in a second, lately.
    rate: Option<f64>,
}

impl Pressure {
    /// How many may wait.
    pub(super) fn most(&self, priority: Priority, config: &PoolConfig, now: Instant) -> usize {
        let line = &self.0[priority as usize];
        match (line.since, line.rate) {
            (Some(since), Some(rate)) if now - since >= STANDING => in_time(rate, config).min(config.waiting),
            _ => config.waiting,
        }
    }

    /// Somebody waits.
    pub(super) fn waits(&mut self, priority: Priority, now: Instant) {
        let line = &mut self.0[priority as usize];
        line.since.get_or_insert(now);
        line.counted_since.get_or_insert(now);
    }

    /// Somebody who waited has a place.
    pub(super) fn serves(&mut self, priority: Priority, now: Instant) {
        let line = &mut self.0[priority as usize];
        let Some(since) = line.counted_since else { return };
        line.served += 1;
        let elapsed = now - since;
        if elapsed >= STANDING {
            let enough = line.served >= ENOUGH;
            line.rate = enough.then(|| f64::from(line.served) / elapsed.as_secs_f64());
            (line.counted_since, line.served) = (Some(now), 0);
        }
    }

    /// Nobody waits any more.
    pub(super) fn ends(&mut self, priority: Priority) {
        self.0[priority as usize] = Line::default();
    }
}

/// How many can be served in time: in a part of `acquire_timeout`, or in what two places in turn
/// take, if that is longer (by Little's law: places / rate is how long each is held).
fn in_time(rate: f64, config: &PoolConfig) -> usize {
    let part = config.acquire_timeout / PART;
    let two_turns = 2.0 * config.max as f64 / rate;
    let patience = part.as_secs_f64().max(two_turns).min(config.acquire_timeout.as_secs_f64());
    (rate * patience) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: Priority = Priority::Stream;

    fn config() -> PoolConfig {
        PoolConfig {
            max: 10,
            waiting: 2000,
            acquire_timeout: Duration::from_secs(5),
            ..PoolConfig::default()
        }
    }

    /// A line that is served so often in each second, for so many milliseconds.
    fn served(pressure: &mut Pressure, begun: Instant, rate: u32, milliseconds: u32) -> Instant {
        pressure.waits(STREAM, begun);
        let last = rate * milliseconds / 1000;
        for number in 1..=last {
            pressure.serves(STREAM, begun + Duration::from_secs(1) * number / rate);
        }
        begun + Duration::from_millis(milliseconds.into())
    }

    #[test]
    fn a_queue_that_stands_is_as_long_as_can_be_served_in_time() {
        let (mut pressure, begun) = (Pressure::default(), Instant::now());
        let now = served(&mut pressure, begun, 100, 400);
        assert_eq!(pressure.most(STREAM, &config(), now), 2000, "it may be a burst");
        let now = served(&mut pressure, now, 100, 2000);
        let most = pressure.most(STREAM, &config(), now);
        assert!((99..=101).contains(&most), "{most}: what is served in a second");
        assert_eq!(pressure.most(Priority::Lookup, &config(), now), 2000);
        pressure.ends(STREAM);
        assert_eq!(pressure.most(STREAM, &config(), now), 2000);
    }

    #[test]
    fn slow_places_have_a_longer_queue() {
        let (mut pressure, begun) = (Pressure::default(), Instant::now());
        // Ten places of half a second each.
        let now = served(&mut pressure, begun, 20, 3000);
        let most = pressure.most(STREAM, &config(), now);
        assert!((19..=20).contains(&most), "{most}: twice as many as there are places");
    }

    #[test]
    fn without_evidence_nothing_is_limited() {
        let (mut pressure, begun) = (Pressure::default(), Instant::now());
        let now = served(&mut pressure, begun, 2, 60_000);
        assert_eq!(pressure.most(STREAM, &config(), now), 2000);
    }

    #[test]
    fn never_more_wait_than_are_configured() {
        let (mut pressure, begun) = (Pressure::default(), Instant::now());
        let now = served(&mut pressure, begun, 50_000, 2000);
        assert_eq!(pressure.most(STREAM, &config(), now), 2000);
    }
}
