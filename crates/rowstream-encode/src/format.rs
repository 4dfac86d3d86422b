//! The formats: names, suffixes and media types.

/// How values become bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// One JSON document (RFC 8259): an array of objects, or a body template.
    Json,
    /// One JSON object a line.
    Ndjson,
}

impl Format {
    /// Every format, in the order in which they are listed to users.
    pub const ALL: [Self; 2] = [Self::Json, Self::Ndjson];

    /// The name in `_format`, in `formats = […]`, and as a path's suffix.
    pub fn name(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Ndjson => "ndjson",
        }
    }

    /// The format of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.name() == name)
    }

    /// The media type, as `Content-Type` gives it.
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Ndjson => "application/x-ndjson",
        }
    }
}
