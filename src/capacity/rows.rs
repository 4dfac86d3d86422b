//! Calls for the rows of a statement: the rate of rows that a response can have, and contradictions
//! between limits.

use super::{Rate, Warning, ends_early, opens_anew, too_many};
use crate::config::Config;
use crate::endpoint::{CallsPerRow, Cardinality, Endpoint, RowCall};
use crate::source::SourceConfig;

/// The calls of an endpoint to one source, for each row.
pub(super) struct SourceCalls<'a> {
    endpoint: &'a Endpoint,
    pub(super) source: &'a SourceConfig,
    calls: Vec<&'a RowCall>,
    /// True if there can be more than one row.
    is_list: bool,
}

/// The calls of all endpoints.
pub(super) fn all(config: &Config) -> impl Iterator<Item = SourceCalls<'_>> {
    config.endpoints.iter().flat_map(|endpoint| of_endpoint(config, endpoint))
}

fn of_endpoint<'a>(config: &'a Config, endpoint: &'a Endpoint) -> impl Iterator<Item = SourceCalls<'a>> {
    endpoint.per_row().into_iter().flat_map(move |CallsPerRow { plan, sources }| {
        let is_list = endpoint.statements()[plan.statement.0].cardinality == Cardinality::Many;
        sources.iter().enumerate().map(move |(at, source)| {
            let calls = plan.calls.iter().filter(|call| call.upstream == at).collect();
            SourceCalls { endpoint, source: config.source(source), calls, is_list }
        })
    })
}

impl SourceCalls<'_> {
    /// The number of slots that one response uses at once.
    pub(super) fn width(&self) -> usize {
        let at_a_time = |call: &&RowCall| if self.is_list { call.concurrency } else { 1 };
        self.calls.iter().map(at_a_time).sum::<usize>().min(self.source.pool.max)
    }

    /// The rows per second of one list. Each row needs all of its calls, and each call is limited
    /// by its own `concurrency`.
    pub(super) fn describe(&self) -> Option<String> {
        let duration = self.source.expected_duration.filter(|_| self.is_list)?;
        let count = self.calls.len();
        let least = self.calls.iter().map(|call| call.concurrency).min()?;
        let parallel = least.saturating_mul(count).min(self.source.pool.max);
        let rate = Rate(parallel as f64 / (count as f64 * duration.as_secs_f64()));
        let calls = if count == 1 { "one call".to_owned() } else { format!("{count} calls") };
        let (path, name) = (&self.endpoint.path, &self.source.name);
        Some(format!("{path}: {rate} rows/s of {calls} of `{name}`, {duration:?} each on {parallel} slots"))
    }

    pub(super) fn warnings(&self) -> Vec<Warning> {
        let (path, source) = (&self.endpoint.path, self.source);
        let wanted = self.calls.iter().filter_map(|call| call.wanted).max();
        let early = source.expected_duration.and_then(|duration| ends_early(path, source, duration));
        let of_limits = [too_many(path, source, wanted), opens_anew(path, source, self.width())];
        of_limits.into_iter().chain([early]).flatten().collect()
    }
}
