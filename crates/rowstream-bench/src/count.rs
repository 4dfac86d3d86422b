//! Counts the rows of a body while it passes, and tells whether the document is whole.
//!
//! Counters are state machines over bytes. They take slices that are cut anywhere, and keep nothing
//! but what says how many rows come. They do not validate: a counter follows its format as far as
//! counting needs it, because it must be faster than the socket.

mod arrow;
mod bits;
mod csv;
mod events;
mod json;
mod lines;
mod sequence;
#[cfg(test)]
mod tests;

use arrow::Arrow;
use csv::Csv;
use events::Events;
use json::Json;
use lines::Lines;
use sequence::Sequence;

/// The counter of one body, by its format.
pub enum Counter {
    /// A format that has no rows to us: only its framing tells whether it is whole.
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

/// What a body holds, once it has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Document {
    /// Its rows; where it is broken, those before.
    pub rows: u64,
    /// What its end proves.
    pub end: End,
}

/// What the end of a document proves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The format marks its end, and the mark is there and last.
    Proven,
    /// It may end here, but the format marks no end: the framing has to tell.
    Possible,
    /// It cannot end here.
    Broken,
}

impl End {
    /// For formats without an end mark.
    fn possible_if(possible: bool) -> Self {
        if possible { Self::Possible } else { Self::Broken }
    }
}

impl Counter {
    /// By the `Content-Type` of the response.
    pub fn for_content_type(value: &str) -> Self {
        let mut parts = value.split(';').map(|part| part.trim().to_ascii_lowercase());
        match parts.next().unwrap_or_default().as_str() {
            "application/json" => Self::Json(Json::default()),
            "application/x-ndjson" | "application/jsonl" | "application/x-jsonlines" => {
                Self::Lines(Lines::default())
            }
            "text/csv" => Self::Csv(Csv::new(!parts.any(|part| part == "header=absent"))),
            "text/event-stream" => Self::Events(Events::default()),
            "application/json-seq" => Self::Sequence(Sequence::default()),
            "application/vnd.apache.arrow.stream" => Self::Arrow(Arrow::default()),
            _ => Self::Opaque,
        }
    }

    /// Takes the next bytes of the body.
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

    /// The rows that have come whole.
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

    /// What it was, if the body ends here.
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
