//! The connections and the requests that share the rows of one table.

use rowstream_core::diagnostic::reader::Value;
use rowstream_core::sql::Dialect;

use super::Defaults;
use crate::endpoint::parallel;
use crate::endpoint::{Endpoint, ParallelRead, Shards};

/// The number of connections that read the rows of the endpoint. The rest of the endpoint must have
/// been read already.
pub(super) fn parallel(
    value: &Value<'_>,
    endpoint: &Endpoint,
    dialect: &'static Dialect,
    defaults: &Defaults<'_>,
) -> Option<ParallelRead> {
    let parts = value.count(2)?;
    let places = places(endpoint, defaults).unwrap_or(parallel::MOST);
    if parts > places.min(parallel::MOST) {
        let hint = match places < parallel::MOST {
            true => format!(
                "the pool of source `{}` has {places} connections (`pool.max`)",
                endpoint.source.name()
            ),
            false => format!("write at most {}", parallel::MOST),
        };
        value.error_with(format!("{parts} connections cannot read one response"), hint);
        return None;
    }
    match ParallelRead::new(endpoint, parts, dialect, value.offset()) {
        Ok(parallel) => Some(parallel),
        Err((message, hint)) => {
            value.error_with(message, hint);
            None
        }
    }
}

/// The number of requests that may read one part of the endpoint's rows each. The rest of the
/// endpoint must have been read already.
pub(super) fn shards(
    value: &Value<'_>,
    endpoint: &Endpoint,
    dialect: &'static Dialect,
    defaults: &Defaults<'_>,
) -> Option<Shards> {
    let most = u32::try_from(value.count(2)?.min(parallel::MOST_SHARDS + 1)).ok()?;
    if most as usize > parallel::MOST_SHARDS {
        value.error_with("there are too many shards", format!("write at most {}", parallel::MOST_SHARDS));
        return None;
    }
    if places(endpoint, defaults) == Some(1) {
        let name = endpoint.source.name();
        value.error_with(
            "shards need another connection that keeps their snapshot",
            format!("give the pool of source `{name}` at least 2 connections (`pool.max`)"),
        );
        return None;
    }
    match Shards::new(endpoint, most, dialect, defaults.cursor_secret, value.offset()) {
        Ok(shards) => Some(shards),
        Err((message, hint)) => {
            value.error_with(message, hint);
            None
        }
    }
}

/// The number of slots that the endpoint's source has, if it's known.
fn places(endpoint: &Endpoint, defaults: &Defaults<'_>) -> Option<usize> {
    let (_, source) = defaults.sources.iter().find(|(name, _)| name == endpoint.source.name())?;
    Some(source.as_ref()?.pool.max)
}
