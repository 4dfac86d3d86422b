//! Limits a pool's queue to the requests that it can serve in time.
//!
//! A queue that never empties makes every request late: at ten times the load that a database can
//! carry, each one would wait for the whole queue. So once a queue has been busy for 500 ms, we
//! measure how many requests leave it per second, and admit only as many as that rate serves within
//! a fifth of `acquire_timeout`. The rest are refused at once. A queue that empties now and then
//! keeps its configured length, because it exists for bursts. (Nichols and Jacobson, "Controlling
//! Queue Delay", ACM Queue 10(5), tell good queues from bad ones this way.)
//!
//! An overload may fill the queue before the first rate is known. Each refused request then evicts
//! the last waiter too, until the queue is short enough. Under sustained load that takes a moment;
//! a burst that ends is still served completely.
//!
//! With too few samples (lists that take half a minute each, say) there's no rate and no limit.

use std::time::Duration;

use tokio::time::Instant;

use super::PoolConfig;
use super::queue::Priority;

/// A queue that has been busy for less isn't limited. Rates are measured over at least this long.
const STANDING: Duration = Duration::from_millis(500);
/// The fewest requests that make a rate.
const ENOUGH: u32 = 10;
/// Waiters should be served within `acquire_timeout / PART`.
const PART: u32 = 5;

/// The load of the queue, by priority.
#[derive(Default)]
pub(super) struct Pressure([PriorityLoad; Priority::ALL.len()]);

/// The load of one priority.
#[derive(Default)]
struct PriorityLoad {
    /// When the queue last became non-empty.
    since: Option<Instant>,
    /// When we began to count `served`.
    counted_since: Option<Instant>,
    served: u32,
    /// Requests per second in the last measurement.
    rate: Option<f64>,
}

impl Pressure {
    /// The number of requests that may wait.
    pub(super) fn most(&self, priority: Priority, config: &PoolConfig, now: Instant) -> usize {
        let line = &self.0[priority as usize];
        match (line.since, line.rate) {
            (Some(since), Some(rate)) if now - since >= STANDING => in_time(rate, config).min(config.waiting),
            _ => config.waiting,
        }
    }

    /// Records that a request joined the queue.
    pub(super) fn waits(&mut self, priority: Priority, now: Instant) {
        let line = &mut self.0[priority as usize];
        line.since.get_or_insert(now);
        line.counted_since.get_or_insert(now);
    }

    /// Records that a waiter got a slot.
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

    /// Records that the queue is empty.
    pub(super) fn ends(&mut self, priority: Priority) {
        self.0[priority as usize] = PriorityLoad::default();
    }
}

/// The number of requests that can be served in time: within a part of `acquire_timeout`, or within
/// the time for which two requests in a row keep their slots, if that's longer. By Little's law,
/// each keeps its slot for slots / rate.
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

    /// Records a queue that serves `rate` requests per second, for so many milliseconds.
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
        // Ten slots. A request keeps each for half a second.
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
