//! The transactions that live tails wait for: rows after them aren't sent before they have ended.
//!
//! The metric has the longest wait of a source. The log has each wait that lasts, with the session or
//! the prepared transaction that it's for.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rowstream_core::lock::Mutex;
use rowstream_core::log;

/// How long a wait lasts before the log has it: most transactions end sooner.
const LASTS: Duration = Duration::from_secs(5);

/// The waits of a source's live tails, by their transactions.
#[derive(Debug, Default)]
pub(super) struct Waits(Mutex<BTreeMap<u64, AwaitedTransaction>>);

/// A transaction that live tails wait for.
#[derive(Debug)]
struct AwaitedTransaction {
    since: Instant,
    /// How many of the source's pollers have seen it.
    pollers: usize,
    is_logged: bool,
}

/// A poller's wait for a transaction, which ends when it's dropped.
#[derive(Debug)]
pub(super) struct Wait {
    waits: Arc<Waits>,
    source: String,
    pub(super) transaction: u64,
}

impl Waits {
    /// The longest of them.
    pub(super) fn longest(&self) -> Duration {
        self.0.lock().values().map(|awaited| awaited.since.elapsed()).max().unwrap_or_default()
    }
}

impl Wait {
    /// A wait for `transaction` from now on, unless another poller has begun it.
    pub(super) fn begin(waits: &Arc<Waits>, source: &str, transaction: u64) -> Self {
        let mut known = waits.0.lock();
        let new = || AwaitedTransaction { since: Instant::now(), pollers: 0, is_logged: false };
        known.entry(transaction).or_insert_with(new).pollers += 1;
        Self { waits: Arc::clone(waits), source: source.to_owned(), transaction }
    }

    /// True if the log is to have it, and doesn't yet.
    pub(super) fn is_due(&self) -> bool {
        let known = self.waits.0.lock();
        known
            .get(&self.transaction)
            .is_some_and(|awaited| !awaited.is_logged && awaited.since.elapsed() >= LASTS)
    }

    /// Logs it, with the holder of the transaction.
    pub(super) fn log(&self, holder: &str) {
        if let Some(awaited) = self.waits.0.lock().get_mut(&self.transaction) {
            awaited.is_logged = true;
        }
        let Self { source, transaction, .. } = self;
        log::warning!("source {source}: live tails wait for the end of transaction {transaction}: {holder}");
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        let mut known = self.waits.0.lock();
        let Some(awaited) = known.get_mut(&self.transaction) else { return };
        awaited.pollers -= 1;
        if awaited.pollers > 0 {
            return;
        }
        if awaited.is_logged {
            let (Self { source, transaction, .. }, seconds) = (&*self, awaited.since.elapsed().as_secs());
            log::info!(
                "source {source}: live tails wait no longer for transaction {transaction}, after {seconds} s"
            );
        }
        known.remove(&self.transaction);
    }
}
