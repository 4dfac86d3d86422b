//! Counts the rows of a body while it streams past, and detects an incomplete document.
//!
//! Counters are state machines over bytes. They accept arbitrary slices, and keep only the state
//! that they need for counting. They don't validate: a counter parses its format only as much as it
//! must, because it has to be faster than the socket.

mod arrow;
mod bits;
mod csv;
mod events;
mod json;
mod lines;
mod records;
mod sequence;
#[cfg(test)]
mod tests;

use arrow::Arrow;
use csv::Csv;
use events::Events;
use json::Json;
use lines::Lines;
use records::Records;
use sequence::Sequence;

/// The counter of one body, by format.
pub enum Counter {
    /// A format whose rows we can't count. Only the framing proves that it's complete.
    Opaque,
    /// `application/json`: the elements of the outermost arrays.
    Json(Json),
    /// NDJSON, by any of its names: the lines that are not empty.
    Lines(Lines),
    /// `text/csv`: the records after the header.
    Csv(Csv),
    /// `text/event-stream`: the events that are rows.
    Events(Events),
    /// `application/json-seq`: the texts.
    Sequence(Sequence),
    /// An Arrow stream: the rows of its batches.
    Arrow(Arrow),
}

/// The contents of a body that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Document {
    /// Its rows. If it's broken, those before the break.
    pub rows: u64,
    /// The evidence of its end.
    pub end: End,
}

/// The evidence that the end of a document provides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The format has an end mark, and the document ends with it.
    Proven,
    /// The document can end here, but the format has no end mark, so the framing decides.
    Possible,
    /// The document can't end here.
    Broken,
}

impl End {
    /// For formats without an end mark.
    fn possible_if(possible: bool) -> Self {
        if possible { Self::Possible } else { Self::Broken }
    }
}

impl Counter {
    /// Chooses a counter by the `Content-Type` of the response.
    pub fn for_content_type(value: &str) -> Self {
        Self::of_response(value, "")
    }

    /// Chooses a counter by the `Content-Type` and the `Rowstream-Tag` of the response. Records with
    /// this tag aren't rows. It's empty if the response isn't framed.
    pub fn of_response(content_type: &str, tag: &str) -> Self {
        let mut parts = content_type.split(';').map(|part| part.trim().to_ascii_lowercase());
        let records = || (!tag.is_empty()).then(|| Records::new(tag));
        match parts.next().unwrap_or_default().as_str() {
            "application/json" => Self::Json(Json::default()),
            "application/x-ndjson" | "application/jsonl" | "application/x-jsonlines" => {
                Self::Lines(Lines::new(records()))
            }
            "text/csv" => Self::Csv(Csv::new(!parts.any(|part| part == "header=absent"))),
            "text/event-stream" => Self::Events(Events::new(!tag.is_empty())),
            "application/json-seq" => Self::Sequence(Sequence::new(records())),
            "application/vnd.apache.arrow.stream" => Self::Arrow(Arrow::default()),
            _ => Self::Opaque,
        }
    }

    /// Reads the next bytes of the body.
    pub fn feed(&mut self, bytes: &[u8]) {
        match self {
            Self::Opaque => {}
            Self::Json(json) => json.feed(bytes),
            Self::Lines(lines) => lines.feed(bytes),
            Self::Csv(csv) => csv.feed(bytes),
            Self::Events(events) => events.feed(bytes),
            Self::Sequence(sequence) => sequence.feed(bytes),
            Self::Arrow(arrow) => arrow.feed(bytes),
        }
    }

    /// The complete rows so far.
    pub fn rows(&self) -> u64 {
        match self {
            Self::Opaque => 0,
            Self::Json(json) => json.rows(),
            Self::Lines(lines) => lines.rows(),
            Self::Csv(csv) => csv.rows(),
            Self::Events(events) => events.rows(),
            Self::Sequence(sequence) => sequence.rows(),
            Self::Arrow(arrow) => arrow.rows(),
        }
    }

    /// The result if the body ends here.
    pub fn finish(&self) -> Document {
        match self {
            Self::Opaque => Document { rows: 0, end: End::Possible },
            Self::Json(json) => json.finish(),
            Self::Lines(lines) => lines.finish(),
            Self::Csv(csv) => csv.finish(),
            Self::Events(events) => events.finish(),
            Self::Sequence(sequence) => sequence.finish(),
            Self::Arrow(arrow) => arrow.finish(),
        }
    }
}
