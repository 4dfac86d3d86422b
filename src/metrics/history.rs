//! Keeps the last few minutes for an operator who has only just begun to look.
//!
//! Prometheus keeps the numbers that it scrapes, but often none is at hand when something is wrong.
//! So we keep a few numbers of the whole server, and of each pool and host, under the names of
//! their metrics.
//!
//! Invariants:
//!
//! 1. memory is bounded: [`MOMENTS`] of [`SERIES`] numbers, at most some 400 kB. Series beyond that
//!    are left out;
//! 2. nothing is counted for the history: a moment consists of a few sums of existing counts, taken
//!    every [`EVERY`].

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rowstream_core::lock::Mutex;
use serde_json::json;

use super::families::Family;

/// The interval between two moments.
pub(crate) const EVERY: Duration = Duration::from_secs(3);
/// Fifteen minutes of moments.
const MOMENTS: usize = 300;
/// Seven for the server, three for each source, and one for each of its hosts.
const SERIES: usize = 160;

/// The last moments of a server.
#[derive(Debug, Default)]
pub(crate) struct History(Mutex<SeriesHistory>);

#[derive(Debug, Default)]
struct SeriesHistory {
    series: Vec<SeriesKey>,
    moments: VecDeque<Moment>,
}

/// A series: a metric's name, with its labels in Prometheus' text format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SeriesKey {
    name: &'static str,
    labels: String,
}

#[derive(Debug)]
struct Moment {
    /// In milliseconds since 1970.
    at: u64,
    /// In the order of the series. Later series are missing, and series that have ended are NaN.
    values: Box<[f64]>,
}

impl SeriesKey {
    /// Lists the labels in the given order.
    pub(super) fn new(family: &Family, labels: &[(&str, &str)]) -> Self {
        let mut text = String::new();
        for (name, value) in labels {
            let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let comma = if text.is_empty() { "" } else { "," };
            // Writing to a `String` can't fail.
            let _ = write!(text, "{comma}{name}=\"{value}\"");
        }
        Self { name: family.name, labels: text }
    }
}

/// In milliseconds since 1970.
pub(super) fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

impl History {
    /// Adds a moment.
    pub(super) fn add(&self, at: u64, seen: impl IntoIterator<Item = (SeriesKey, f64)>) {
        let mut kept = self.0.lock();
        let mut values = vec![f64::NAN; kept.series.len()];
        for (key, value) in seen {
            if let Some(known) = kept.series.iter().position(|known| *known == key) {
                values[known] = value;
            } else if kept.series.len() < SERIES {
                kept.series.push(key);
                values.push(value);
            }
        }
        if kept.moments.len() == MOMENTS {
            kept.moments.pop_front();
        }
        kept.moments.push_back(Moment { at, values: values.into() });
    }

    /// The moments after `at`, as JSON.
    pub(crate) fn after(&self, at: u64) -> String {
        let (now, kept) = (now(), self.0.lock());
        let series: Vec<_> =
            kept.series.iter().map(|key| json!({"name": key.name, "labels": key.labels})).collect();
        let moments: Vec<_> = kept
            .moments
            .iter()
            .filter(|moment| moment.at > at)
            .map(|moment| json!({"at": moment.at, "values": *moment.values}))
            .collect();
        json!({"now": now, "series": series, "moments": moments}).to_string() + "\n"
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value as Json;

    use super::super::families as family;
    use super::*;

    fn read(history: &History, after: u64) -> Json {
        let mut read: Json = serde_json::from_str(&history.after(after)).unwrap();
        assert!(read["now"].take().as_u64() > Some(1_700_000_000_000));
        read
    }

    #[test]
    fn series_come_and_go() {
        let history = History::default();
        let key = |source: &str| SeriesKey::new(&family::POOL_USED, &[("source", source)]);
        history.add(1000, [(key("a"), 1.0)]);
        history.add(4000, [(key("a"), 2.0), (key("say \"b\""), 0.5)]);
        history.add(7000, [(key("say \"b\""), 3.0)]);
        assert_eq!(
            read(&history, 1000),
            json!({
                "now": null,
                "series": [
                    {"name": "rowstream_pool_used", "labels": "source=\"a\""},
                    {"name": "rowstream_pool_used", "labels": "source=\"say \\\"b\\\"\""},
                ],
                "moments": [{"at": 4000, "values": [2.0, 0.5]}, {"at": 7000, "values": [null, 3.0]}],
            })
        );
        assert_eq!(read(&history, 0)["moments"][0], json!({"at": 1000, "values": [1.0]}));
        assert_eq!(read(&history, 7000)["moments"], json!([]));
    }

    /// A server that runs for years, with very many sources.
    #[test]
    fn it_is_bounded() {
        let history = History::default();
        for moment in 0..2 * MOMENTS as u64 {
            let seen = (0..2 * SERIES).map(|number| {
                let key = SeriesKey::new(&family::POOL_USED, &[("source", &format!("source-{number}"))]);
                (key, number as f64)
            });
            history.add(moment, seen);
        }
        let kept = history.0.lock();
        assert_eq!((kept.series.len(), kept.moments.len()), (SERIES, MOMENTS));
        assert!(kept.moments.iter().all(|moment| moment.values.len() == SERIES));
        assert_eq!(kept.moments[0].at, MOMENTS as u64);
    }
}
