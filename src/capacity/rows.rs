//! Calls for the rows of a statement: how many rows a response can carry, and limits of theirs that contradict others.

use super::{Rate, Warning, ends_early, opens_anew, too_many};
use crate::config::Config;
use crate::endpoint::Endpoint;
use crate::source::SourceConfig;
use crate::source::http::per_row::RowCall;

/// The calls of an endpoint, for each row, of one source.
pub(super) struct OfRows<'a> {
    endpoint: &'a Endpoint,
    pub(super) source: &'a SourceConfig,
    calls: Vec<&'a RowCall>,
}

/// Those of all endpoints.
pub(super) fn all(config: &Config) -> impl Iterator<Item = OfRows<'_>> {
    config.endpoints.iter().flat_map(move |endpoint| {
        let plan = endpoint.per_row.as_deref();
        let upstreams = plan.into_iter().flat_map(|plan| {
            let calls = move |at| plan.calls.iter().filter(move |call| call.upstream == at).collect();
            plan.upstreams.iter().enumerate().map(move |(at, upstream)| (&upstream.source, calls(at)))
        });
        upstreams.filter_map(move |(name, calls)| {
            let source = config.sources.iter().find(|source| source.name == *name)?;
            Some(OfRows { endpoint, source, calls })
        })
    })
}

impl OfRows<'_> {
    /// How many places one response takes at a time.
    pub(super) fn width(&self) -> usize {
        let asked: usize = self.calls.iter().map(|call| call.concurrency).sum();
        asked.min(self.source.pool.max)
    }

    /// The rows a second of one response. Each takes all of its calls, and of each no more run than its own `concurrency`.
    pub(super) fn describe(&self) -> Option<String> {
        let duration = self.source.expected_duration?;
        let count = self.calls.len();
        let least = self.calls.iter().map(|call| call.concurrency).min()?;
        let parallel = least.saturating_mul(count).min(self.source.pool.max);
        let rate = Rate(parallel as f64 / (count as f64 * duration.as_secs_f64()));
        let calls = if count == 1 { "one call".to_owned() } else { format!("{count} calls") };
        let (path, name) = (&self.endpoint.path, &self.source.name);
        Some(format!("{path}: {rate} rows/s of {calls} of `{name}`, {duration:?} each on {parallel} places"))
    }

    pub(super) fn warnings(&self) -> Vec<Warning> {
        let (path, source) = (&self.endpoint.path, self.source);
        let wanted = self.calls.iter().filter_map(|call| call.wanted).max();
        let early = source.expected_duration.and_then(|duration| ends_early(path, source, duration));
        let of_limits = [too_many(path, source, wanted), opens_anew(path, source, self.width())];
        of_limits.into_iter().chain([early]).flatten().collect()
    }
}
