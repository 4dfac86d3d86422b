//! `[traces]`: where the spans of requests are sent, and of which.

use http::Uri;

use super::discovery::read_url;
use super::read::read_sample;
use crate::diagnostic::reader::Value;
use crate::traces::TraceSettings;

pub(super) fn read(value: &Value<'_>) -> Option<TraceSettings> {
    let mut table = value.table("[traces]")?;
    let url = table.require("url", "that of a collector of OpenTelemetry: `url = \"http://127.0.0.1:4318\"`");
    let sample = table.take("sample").map_or(Some(0.01), |value| read_sample(&value));
    let service = table.take("service").map_or(Some("rowstream".to_owned()), |value| value.string());
    table.finish();
    let url: Uri = read_url(&url?, "http://127.0.0.1:4318")?;
    Some(TraceSettings { url, sample: sample?, service: service? })
}
