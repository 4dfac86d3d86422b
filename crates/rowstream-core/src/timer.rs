//! A timer that can be restarted.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

/// A timer. It's stopped at first, and allocated when it's started.
#[derive(Debug, Default)]
pub struct Timer {
    sleep: Option<Pin<Box<Sleep>>>,
    runs: bool,
}

impl Timer {
    /// Starts the timer, unless it's running.
    pub fn start(&mut self, time: Duration) {
        if !self.runs {
            self.restart(time);
        }
    }

    /// Starts the timer again, from now on.
    pub fn restart(&mut self, time: Duration) {
        self.run_until(Instant::now() + time);
    }

    /// Sets the timer's end.
    pub fn run_until(&mut self, at: Instant) {
        self.runs = true;
        match &mut self.sleep {
            Some(sleep) if sleep.deadline() == at => {}
            Some(sleep) => sleep.as_mut().reset(at),
            None => self.sleep = Some(Box::pin(sleep_until(at))),
        }
    }

    /// Makes the timer end no later than `at`. An early end is cheaper than resetting the timer
    /// each time its end moves away.
    pub fn run_at_most_until(&mut self, at: Instant) {
        let ends_before = |sleep: &Pin<Box<Sleep>>| sleep.deadline() <= at && !sleep.is_elapsed();
        if !self.runs || !self.sleep.as_ref().is_some_and(ends_before) {
            self.run_until(at);
        }
    }

    /// Stops the timer. A task that waits for it can still be woken at the former end.
    pub fn stop(&mut self) {
        self.runs = false;
    }

    /// Ready from the timer's end until it's started again. Pending while it's stopped.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.sleep {
            Some(sleep) if self.runs => sleep.as_mut().poll(cx),
            _ => Poll::Pending,
        }
    }

    /// Waits like [`Timer::poll`].
    pub async fn elapsed(&mut self) {
        poll_fn(|cx| self.poll(cx)).await;
    }

    /// Returns true if the timer was started, even if it has ended.
    pub fn runs(&self) -> bool {
        self.runs
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    const TIME: Duration = Duration::from_secs(10);

    fn is_over(timer: &mut Timer) -> bool {
        timer.poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[tokio::test(start_paused = true)]
    async fn it_runs_from_its_start_to_its_stop() {
        let mut timer = Timer::default();
        assert!(!is_over(&mut timer) && !timer.runs());
        timer.start(TIME);
        tokio::time::advance(TIME / 2).await;
        timer.start(TIME);
        assert!(!is_over(&mut timer) && timer.runs());
        tokio::time::advance(TIME / 2).await;
        assert!(is_over(&mut timer), "the second start changed nothing");
        timer.stop();
        assert!(!is_over(&mut timer));
        timer.start(TIME);
        assert!(!is_over(&mut timer));
        tokio::time::advance(TIME).await;
        assert!(is_over(&mut timer));
        timer.restart(TIME);
        assert!(!is_over(&mut timer));
    }

    #[tokio::test(start_paused = true)]
    async fn an_end_moves_nearer_at_once_and_away_when_it_has_come() {
        let (begun, mut timer) = (Instant::now(), Timer::default());
        timer.run_at_most_until(begun + 2 * TIME);
        timer.run_at_most_until(begun + TIME);
        timer.run_at_most_until(begun + 3 * TIME);
        tokio::time::advance(TIME).await;
        assert!(is_over(&mut timer));
        timer.run_at_most_until(begun + 3 * TIME);
        tokio::time::advance(TIME).await;
        assert!(!is_over(&mut timer));
        tokio::time::advance(TIME).await;
        assert!(is_over(&mut timer));
    }
}
