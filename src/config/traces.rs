//! `[traces]`: the collector that receives the spans of requests, and the share of requests to
//! trace.

use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use percent_encoding::percent_decode_str;
use rowstream_core::diagnostic::reader::Value;

use super::discovery::read_url;
use super::read::read_sample;
use crate::traces::TraceSettings;

/// Variable with further headers for the collector, such as a token.
const HEADERS: &str = "OTEL_EXPORTER_OTLP_HEADERS";

pub(super) fn read(value: &Value<'_>) -> Option<TraceSettings> {
    let mut table = value.table("[traces]")?;
    let url =
        table.require("url", "the URL of an OpenTelemetry collector: `url = \"http://127.0.0.1:4318\"`");
    let sample = table.take("sample").map_or(Some(0.01), |value| read_sample(&value));
    let service = table.take("service").map_or(Some("rowstream".to_owned()), |value| value.string());
    table.finish();
    let headers = value.variable(HEADERS).map(|text| read_headers(value, &text)).unwrap_or_default();
    let url: Uri = read_url(&url?, "http://127.0.0.1:4318")?;
    Some(TraceSettings { url, sample: sample?, service: service?, headers })
}

/// Reads the variable: percent-encoded names and values, as specified for OpenTelemetry's OTLP
/// exporter. They may be secret, so errors don't show them.
fn read_headers(value: &Value<'_>, text: &str) -> HeaderMap {
    let pairs = text.split(',').filter(|pair| !pair.trim().is_empty());
    let header = |pair: &str| {
        let (name, text) = pair.split_once('=')?;
        let mut content =
            HeaderValue::try_from(&*percent_decode_str(text.trim()).decode_utf8().ok()?).ok()?;
        content.set_sensitive(true);
        Some((name.trim().parse::<HeaderName>().ok()?, content))
    };
    let headers: Option<HeaderMap> = pairs.map(header).collect();
    if headers.is_none() {
        let hint = "write name=value,name=value, and percent-encode other characters, as in `Bearer%20…`";
        value.error_with(format!("the variable {HEADERS} isn't a list of headers"), hint);
    }
    headers.unwrap_or_default()
}
