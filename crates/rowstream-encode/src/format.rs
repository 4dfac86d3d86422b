//! The formats with their names, suffixes and media types.

/// How values become bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// One JSON document (RFC 8259): an array of objects, or a body template.
    Json,
    /// One JSON object per line.
    Ndjson,
    /// Records of values (RFC 4180).
    Csv,
    /// Server-sent events (HTML standard, "Server-sent events"). The data of each is one JSON
    /// object.
    Sse,
    /// A sequence of JSON objects, each after a record separator (RFC 7464).
    JsonSeq,
    /// Record batches of typed columns (the streaming format of Arrow IPC).
    Arrow,
    /// A page for browsers, with the rows as a table.
    Html,
}

impl Format {
    /// All formats, in the order of user-facing lists.
    pub const ALL: [Self; 7] =
        [Self::Json, Self::Ndjson, Self::Csv, Self::Sse, Self::JsonSeq, Self::Arrow, Self::Html];

    /// The name in `_format`, in `formats = […]`, and as a path's suffix.
    pub fn name(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Ndjson => "ndjson",
            Self::Csv => "csv",
            Self::Sse => "sse",
            Self::JsonSeq => "json-seq",
            Self::Arrow => "arrow",
            Self::Html => "html",
        }
    }

    /// The format of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.name() == name)
    }

    /// The media type, without parameters.
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Ndjson => "application/x-ndjson",
            Self::Csv => "text/csv",
            Self::Sse => "text/event-stream",
            Self::JsonSeq => "application/json-seq",
            Self::Arrow => "application/vnd.apache.arrow.stream",
            Self::Html => "text/html",
        }
    }
}
