//! Records among the rows of formats that don't have an end of their own.
//!
//! `docs/src/reference/wire.md` describes them for clients.

use serde_json::Value as Json;

use crate::Format;

/// The bytes before a record in a stream of events.
const EVENT: &[u8] = b"event: rowstream\ndata: ";

/// The form of records among the rows of a format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// As lines.
    Lines,
    /// Each after a record separator (RFC 7464).
    Sequence,
    /// As the data of events, which have their own type.
    Events,
}

impl Framing {
    /// The framing of a format. `None` if the format has an end of its own, or may contain only
    /// rows.
    pub fn of(format: Format) -> Option<Self> {
        match format {
            Format::Ndjson => Some(Self::Lines),
            Format::JsonSeq => Some(Self::Sequence),
            Format::Sse => Some(Self::Events),
            Format::Json | Format::Csv | Format::Arrow | Format::Html => None,
        }
    }

    /// The media type of a framed response.
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Lines => "application/x-ndjson; profile=framed",
            Self::Sequence => "application/json-seq; profile=framed",
            // Browsers accept it with parameters, too.
            Self::Events => "text/event-stream; profile=framed",
        }
    }

    /// Appends the record `kind` of the response with this `tag`. Both are written as they are, so
    /// they contain only letters and digits.
    ///
    /// `begun`: the row before it isn't complete. An event that has begun stays open, because its
    /// end would deliver it. Then there's no record.
    pub fn write_record(self, tag: &str, kind: &str, value: &Json, begun: bool, out: &mut Vec<u8>) {
        match self {
            Self::Lines if begun => out.push(b'\n'),
            Self::Lines => {}
            Self::Sequence => out.push(0x1e),
            Self::Events if begun => return,
            Self::Events => out.extend_from_slice(EVENT),
        }
        let record = format!("{{\"$rowstream\":\"{tag}\",\"{kind}\":{value}}}\n");
        out.extend_from_slice(record.as_bytes());
        if self == Self::Events {
            out.push(b'\n');
        }
    }
}
