//! Server-sent events (WHATWG HTML, section 9.2).

use serde::Serialize;

use super::StreamError;
use super::document::{Cut, RawJson, write_json};

/// An event of an [`Sse`](super::Sse) response: its data is an item as JSON, in one line.
///
/// ```
/// use rowstream_encode::axum::Event;
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

    /// Nothing that a client sees, but bytes that keep proxies from closing an idle connection.
    /// Mixed into the stream by a timer, every 15 seconds or so.
    pub fn heartbeat() -> Self {
        Self { data: None, id: None, name: None }
    }

    /// What a client that lost the connection sends as `Last-Event-ID` when it comes back. It may
    /// hold neither a line break nor a NUL: that aborts the response.
    #[must_use]
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// The name that listeners are registered for; without one it is `message`. It may not hold a
    /// line break: that aborts the response.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }
}

/// Appends an event without the blank line that ends it, and gives the streams in its data.
pub(super) fn write_event<T: Serialize>(
    event: &Event<T>,
    out: &mut Vec<u8>,
) -> Result<Vec<Cut>, StreamError> {
    write_field("event", event.name.as_deref(), out)?;
    write_field("id", event.id.as_deref(), out)?;
    match &event.data {
        Some(data) => {
            out.extend_from_slice(b"data: ");
            write_json(data, RawJson::OneLine, out)
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
