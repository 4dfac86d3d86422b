//! Server-sent events (WHATWG HTML, section 9.2).

use serde::Serialize;

use super::StreamError;
use super::document::{ListCut, Whitespace, write_json};

/// An event of an [`Sse`](super::Sse) response. Its data is an item as JSON, on one line.
///
/// ```
/// use rowstream_encode::responses::Event;
///
/// let event = Event::new("Lovelace").id("1815").name("author");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event<T> {
    data: Option<T>,
    id: Option<String>,
    name: Option<String>,
}

impl<T> Event<T> {
    /// An event with `data`.
    pub fn new(data: T) -> Self {
        Self { data: Some(data), id: None, name: None }
    }

    /// A comment that clients ignore, but that keeps proxies from closing an idle connection. Mix
    /// it into the stream with a timer, about every 15 seconds.
    pub fn heartbeat() -> Self {
        Self { data: None, id: None, name: None }
    }

    /// The id that a client sends as `Last-Event-ID` when it reconnects. A line break or a NUL in
    /// it aborts the response.
    #[must_use]
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// The name that listeners register for; the default is `message`. A line break in it aborts
    /// the response.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }
}

/// Appends an event without its final blank line, and returns the streams in its data.
pub(super) fn write_event<T: Serialize>(
    event: &Event<T>,
    whitespace: Whitespace,
    out: &mut Vec<u8>,
) -> Result<Vec<ListCut>, StreamError> {
    write_field("event", event.name.as_deref(), out)?;
    write_field("id", event.id.as_deref(), out)?;
    match &event.data {
        Some(data) => {
            out.extend_from_slice(b"data: ");
            write_json(data, whitespace, out)
        }
        None => {
            out.push(b':');
            Ok(Vec::new())
        }
    }
}

fn write_field(field: &str, value: Option<&str>, out: &mut Vec<u8>) -> Result<(), StreamError> {
    let Some(value) = value else { return Ok(()) };
    if value.contains(['\r', '\n', '\0']) {
        let error = format!("the {field} of an event holds a line break or a NUL: {value:?}");
        return Err(StreamError::unserialisable(error));
    }
    for part in [field, ": ", value, "\n"] {
        out.extend_from_slice(part.as_bytes());
    }
    Ok(())
}
