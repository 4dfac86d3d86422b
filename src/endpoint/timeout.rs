//! `timeout`: the time limits of a response, for an endpoint or as the default in the
//! configuration.

use std::time::{Duration, Instant};

use rowstream_core::Error;
use rowstream_core::diagnostic::reader::{Value, set};

/// The time limits of a response. Both begin with the request, so they include waiting for the pool
/// and for the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Timeout {
    /// Until the first row, or until the end of a result without rows. `None`: no limit.
    pub first_row: Option<Duration>,
    /// Until the last byte. `None`: no limit.
    pub total: Option<Duration>,
}

/// Makes the error of a response that exceeded this limit.
type LateError = fn(Duration) -> Error;

impl Timeout {
    /// Runs the part of a response before its first row; the request began at `begun`. Here and
    /// below, the caller has pinned `answer` elsewhere. By value, the future would be stored again
    /// in each function that passes it on.
    ///
    /// # Errors
    /// 504 if it takes too long.
    pub(crate) fn until_row<T>(
        self,
        begun: Instant,
        answer: impl Future<Output = Result<T, Error>> + Unpin,
    ) -> impl Future<Output = Result<T, Error>> {
        let first_row = self.first_row.map(|bound| (bound, Error::first_row_timeout as LateError));
        let total = self.total.map(|bound| (bound, Error::total_timeout as LateError));
        let least = first_row.into_iter().chain(total).min_by_key(|(bound, _)| *bound);
        bounded(least, begun, answer)
    }

    /// Runs the part of a response before its end.
    ///
    /// # Errors
    /// 504 if it takes too long.
    pub(crate) fn until_end<T>(
        self,
        begun: Instant,
        answer: impl Future<Output = Result<T, Error>> + Unpin,
    ) -> impl Future<Output = Result<T, Error>> {
        bounded(self.total.map(|bound| (bound, Error::total_timeout as LateError)), begun, answer)
    }
}

#[expect(clippy::manual_async_fn, reason = "an `async fn` stores its arguments twice")]
fn bounded<T>(
    bound: Option<(Duration, LateError)>,
    begun: Instant,
    answer: impl Future<Output = Result<T, Error>> + Unpin,
) -> impl Future<Output = Result<T, Error>> {
    async move {
        let Some((bound, late)) = bound else { return answer.await };
        tokio::time::timeout_at((begun + bound).into(), answer).await.unwrap_or_else(|_| Err(late(bound)))
    }
}

/// Reads a table `timeout`. Limits that it doesn't set stay those of `timeout`.
pub(crate) fn read(value: &Value<'_>, mut timeout: Timeout) -> Timeout {
    let hint = "write `timeout = { total = \"10s\" }`, or `first_row`";
    let Some(mut table) = value.table_like("`timeout`", hint) else { return timeout };
    let mut take = |key| table.take(key).and_then(|value| value.duration()).map(Some);
    set(&mut timeout.first_row, take("first_row"));
    set(&mut timeout.total, take("total"));
    table.finish();
    timeout
}
