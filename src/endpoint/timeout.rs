//! `timeout`: how long an answer may take, of an endpoint, and of the configuration for those that
//! do not say.

use std::time::{Duration, Instant};

use crate::Error;
use crate::diagnostic::reader::{Value, set};

/// How long an answer may take. Both count from the request, waiting for the pool and for the
/// client included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Timeout {
    /// To the first row, or the end of a result without any; `None`: as long as it takes.
    pub first_row: Option<Duration>,
    /// To the last byte; `None`: as long as it takes.
    pub total: Option<Duration>,
}

/// The error of an answer that took longer than its bound.
type Late = fn(Duration) -> Error;

impl Timeout {
    /// Runs what comes before the first row of the answer to a request that has `begun` then.
    /// `answer` is pinned elsewhere, here as below: handed on by value, it would be stored once for
    /// each hand.
    ///
    /// # Errors
    /// 504 when it takes too long.
    pub(crate) fn until_row<T>(
        self,
        begun: Instant,
        answer: impl Future<Output = Result<T, Error>> + Unpin,
    ) -> impl Future<Output = Result<T, Error>> {
        let first_row = self.first_row.map(|bound| (bound, Error::first_row_timeout as Late));
        let total = self.total.map(|bound| (bound, Error::total_timeout as Late));
        let least = first_row.into_iter().chain(total).min_by_key(|(bound, _)| *bound);
        bounded(least, begun, answer)
    }

    /// Runs what comes before the last row.
    ///
    /// # Errors
    /// 504 when it takes too long.
    pub(crate) fn until_end<T>(
        self,
        begun: Instant,
        answer: impl Future<Output = Result<T, Error>> + Unpin,
    ) -> impl Future<Output = Result<T, Error>> {
        bounded(self.total.map(|bound| (bound, Error::total_timeout as Late)), begun, answer)
    }
}

#[expect(clippy::manual_async_fn, reason = "an `async fn` holds what it is given twice")]
fn bounded<T>(
    bound: Option<(Duration, Late)>,
    begun: Instant,
    answer: impl Future<Output = Result<T, Error>> + Unpin,
) -> impl Future<Output = Result<T, Error>> {
    async move {
        let Some((bound, late)) = bound else { return answer.await };
        tokio::time::timeout_at((begun + bound).into(), answer).await.unwrap_or_else(|_| Err(late(bound)))
    }
}

/// The timeouts of a table `timeout`.
pub(crate) fn read(value: &Value<'_>, mut timeout: Timeout) -> Timeout {
    let hint = "write `timeout = { total = \"10s\" }`, or `first_row`";
    let Some(mut table) = value.table_like("`timeout`", hint) else { return timeout };
    let mut take = |key| table.take(key).and_then(|value| value.duration()).map(Some);
    set(&mut timeout.first_row, take("first_row"));
    set(&mut timeout.total, take("total"));
    table.finish();
    timeout
}
