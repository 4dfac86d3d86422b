//! Writes metrics as OpenMetrics to clients that accept it, and in Prometheus' own text format to
//! all others, people included.

use std::fmt::Write as _;

use http::{HeaderMap, header};
use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;

use super::exemplars;
use super::snapshot::Snapshot;

const OPEN_METRICS: &str = "application/openmetrics-text";

/// The text format of metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exposition {
    /// OpenMetrics 1.0, which ends with `# EOF`.
    OpenMetrics,
    /// The text format 0.0.4 of Prometheus, which every scraper reads.
    Text,
}

impl Exposition {
    /// The format that a scraper asks for. Prometheus lists every format it reads, the best one
    /// first.
    pub(crate) fn choose(headers: &HeaderMap) -> Self {
        let lines = headers.get_all(header::ACCEPT).iter().filter_map(|line| line.to_str().ok());
        match lines.flat_map(|line| line.split(',')).any(|range| range.trim_start().starts_with(OPEN_METRICS))
        {
            true => Self::OpenMetrics,
            false => Self::Text,
        }
    }

    pub(crate) fn media_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
        }
    }

    /// Writes a snapshot.
    pub(super) fn write(self, snapshot: Snapshot) -> String {
        let mut registry = Registry::default();
        let exemplars = snapshot.exemplars();
        registry.register_collector(Box::new(snapshot));
        let mut out = String::new();
        // Writing to a `String` can't fail.
        let _ = text::encode(&mut out, &registry);
        match self {
            Self::OpenMetrics => exemplars::insert(&out, exemplars),
            Self::Text => without_open_metrics(&out),
        }
    }
}

/// Converts OpenMetrics to the text format. There a family has the name of its samples, and units,
/// infos and the end mark don't exist.
fn without_open_metrics(open_metrics: &str) -> String {
    let mut out = String::with_capacity(open_metrics.len());
    let mut help = ("", "");
    for line in open_metrics.lines() {
        if let Some(said) = line.strip_prefix("# HELP ") {
            help = said.split_once(' ').unwrap_or((said, ""));
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|said| said.split_once(' '))
        {
            let (suffix, kind) = match kind {
                "counter" => ("_total", "counter"),
                "info" => ("_info", "gauge"),
                kind => ("", kind),
            };
            let _ = writeln!(out, "# HELP {name}{suffix} {}\n# TYPE {name}{suffix} {kind}", help.1);
        } else if !line.starts_with('#') {
            out.push_str(line);
            out.push('\n');
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scrapers_get_what_they_read() {
        const PROMETHEUS: &str = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,\
            text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        for (accept, exposition) in [
            (PROMETHEUS, Exposition::OpenMetrics),
            ("text/plain;q=0.5, application/openmetrics-text", Exposition::OpenMetrics),
            ("text/plain;version=0.0.4;q=1,*/*;q=0.1", Exposition::Text),
            ("text/html,*/*", Exposition::Text),
            ("", Exposition::Text),
        ] {
            let headers = HeaderMap::from_iter([(header::ACCEPT, accept.parse().unwrap())]);
            assert_eq!(Exposition::choose(&headers), exposition, "{accept}");
        }
    }

    #[test]
    fn the_text_format_names_families_by_their_samples() {
        let open_metrics = "# HELP a_bytes What a is\n# TYPE a_bytes counter\n# UNIT a_bytes bytes\na_bytes_total{x=\"# y\"} 1\n\
            # HELP b B\n# TYPE b info\nb_info{v=\"1\"} 1\n# HELP c C\n# TYPE c gauge\nc 2\n# EOF\n";
        let text = "# HELP a_bytes_total What a is\n# TYPE a_bytes_total counter\na_bytes_total{x=\"# y\"} 1\n\
            # HELP b_info B\n# TYPE b_info gauge\nb_info{v=\"1\"} 1\n# HELP c C\n# TYPE c gauge\nc 2\n";
        assert_eq!(without_open_metrics(open_metrics), text);
    }
}
