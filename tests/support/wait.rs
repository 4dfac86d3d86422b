//! One time limit for everything that has to happen in a test.
//!
//! A test waits for an event, never for "long enough". So the limit costs time only if the test
//! fails, and it's long enough for a slow and busy machine. A test that distinguishes two outcomes
//! by time defines its own limit instead.

use std::fmt::Display;
use std::hash::{DefaultHasher, Hasher as _};
use std::hint::black_box;
use std::panic::Location;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use tokio::time::{sleep, timeout};

/// The limit on a quick machine.
const QUICK_LIMIT: Duration = Duration::from_secs(60);
/// The time that [`some_work`] needs there, in a debug build.
const QUICK_WORK: Duration = Duration::from_millis(3);
/// Keeps the limit at ten minutes or below. Statements that a test has to cancel run longer.
const MAX_FACTOR: f64 = 10.0;
/// The pause between two looks.
const INTERVAL: Duration = Duration::from_millis(10);

/// The longest that a test waits for something that has to happen.
pub fn limit() -> Duration {
    static LIMIT: LazyLock<Duration> = LazyLock::new(|| {
        let factor = some_work().as_secs_f64() / QUICK_WORK.as_secs_f64();
        QUICK_LIMIT.mul_f64(factor.clamp(1.0, MAX_FACTOR))
    });
    *LIMIT
}

fn some_work() -> Duration {
    let begun = Instant::now();
    let mut hasher = DefaultHasher::new();
    (0..100_000).for_each(|n| hasher.write_u32(black_box(n)));
    black_box(hasher.finish());
    begun.elapsed()
}

/// The output of a future. The test fails if it needs longer than the limit.
#[track_caller]
pub fn wait<F: Future>(what: &str, future: F) -> impl Future<Output = F::Output> {
    let place = Location::caller();
    async move {
        let output = timeout(limit(), future).await;
        output.unwrap_or_else(|_| panic!("{place}: {what}: not within {:?}", limit()))
    }
}

/// Looks until there's a value. The test fails with the result of the last look if this needs
/// longer than the limit.
#[track_caller]
pub fn wait_until<L: Look>(what: &str, mut look: impl AsyncFnMut() -> L) -> impl Future<Output = L::Value> {
    let place = Location::caller();
    async move {
        let mut seen = String::new();
        let looking = async {
            loop {
                match look().await.value() {
                    Ok(value) => return value,
                    Err(instead) => seen = instead,
                }
                sleep(INTERVAL).await;
            }
        };
        let value = timeout(limit(), looking).await;
        value.unwrap_or_else(|_| panic!("{place}: {what}: not within {:?}: {seen}", limit()))
    }
}

/// The same for a thread that may block.
#[track_caller]
pub fn wait_until_blocking<L: Look>(what: &str, mut look: impl FnMut() -> L) -> L::Value {
    let begun = Instant::now();
    loop {
        match look().value() {
            Ok(value) => return value,
            Err(seen) => assert!(begun.elapsed() < limit(), "{what}: not within {:?}: {seen}", limit()),
        }
        std::thread::sleep(INTERVAL);
    }
}

/// The result of a look: the value, or a text for the failure.
pub trait Look {
    type Value;

    fn value(self) -> Result<Self::Value, String>;
}

impl Look for bool {
    type Value = ();

    fn value(self) -> Result<(), String> {
        self.then_some(()).value()
    }
}

impl<T> Look for Option<T> {
    type Value = T;

    fn value(self) -> Result<T, String> {
        self.ok_or_else(String::new)
    }
}

impl<T, E: Display> Look for Result<T, E> {
    type Value = T;

    fn value(self) -> Result<T, String> {
        self.map_err(|seen| seen.to_string())
    }
}
