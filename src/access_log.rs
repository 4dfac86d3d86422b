//! The access log: one line per request, on stderr, made when the last byte was handed over or the
//! request ended otherwise. [`lines`] writes them.

mod lines;

use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::time::{Duration, Instant};

use http::{Method, StatusCode, Version};
use serde_json::json;

pub(crate) use self::lines::flush;
use crate::outcome::Times;
use crate::outcome::{Ended, Outcome};

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
    /// No access log.
    Off,
}

/// What is known of one request; [`Entry::end`] writes its line.
#[derive(Debug)]
pub struct Entry {
    format: LogFormat,
    method: Method,
    target: String,
    version: Version,
    started: Instant,
    /// The response's status; `None` while there is no head, also when the client leaves before it.
    pub status: Option<StatusCode>,
    /// Rows handed over.
    pub rows: u64,
    /// Body bytes handed over.
    pub bytes: u64,
    /// Of these and of those that were not handed over, bytes that went into a file because the
    /// client was slow.
    pub spilled: u64,
    /// Where the time went.
    pub times: Times,
}

impl Entry {
    /// The entry of a request that has just come.
    pub fn new<B>(format: LogFormat, request: &http::Request<B>) -> Self {
        Self {
            format,
            method: request.method().clone(),
            target: request.uri().path_and_query().map_or_else(String::new, ToString::to_string),
            version: request.version(),
            started: Instant::now(),
            status: None,
            rows: 0,
            bytes: 0,
            spilled: 0,
            times: Times::default(),
        }
    }

    /// How long ago the request came.
    pub(crate) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Makes the line, and has it written.
    pub fn end(&self, outcome: &Outcome) {
        match self.format {
            LogFormat::Text => lines::write(&self.text(outcome)),
            LogFormat::Json => lines::write(&self.json(outcome)),
            LogFormat::Off => {}
        }
    }

    fn text(&self, outcome: &Outcome) -> String {
        // Room for most lines, so that they are written in one piece of memory.
        let mut line = String::with_capacity(256);
        let _ = write!(
            line,
            "{:.3} {} {} {:?} {} {} rows={} bytes={} ms={}",
            jiff::Timestamp::now(),
            self.method,
            one_line(&self.target),
            self.version,
            self.status.as_ref().map_or("-", StatusCode::as_str),
            self.ended(outcome),
            self.rows,
            self.bytes,
            Milliseconds(self.started.elapsed()),
        );
        for (name, time) in self.phases() {
            let _ = write!(line, " {name}={}", Milliseconds(time));
        }
        if self.spilled > 0 {
            let _ = write!(line, " spilled={}", self.spilled);
        }
        if let Outcome::Failed(error) = outcome {
            let _ = write!(line, " error={}", one_line(&format!("{error:?}")));
        }
        line
    }

    fn json(&self, outcome: &Outcome) -> String {
        let mut line = json!({
            "time": format!("{:.3}", jiff::Timestamp::now()),
            "method": self.method.as_str(),
            "target": self.target,
            "version": format!("{:?}", self.version),
            "status": self.status.map(|status| status.as_u16()),
            "outcome": self.ended(outcome),
            "rows": self.rows,
            "bytes": self.bytes,
            "ms": number(self.started.elapsed()),
        });
        for (name, time) in self.phases() {
            line[format!("{name}_ms")] = number(time);
        }
        if self.spilled > 0 {
            line["spilled"] = json!(self.spilled);
        }
        if let Outcome::Failed(error) = outcome {
            line["code"] = json!(error.code());
            line["error"] = json!(format!("{error:?}"));
        }
        line.to_string()
    }

    /// The word for how it ended.
    fn ended(&self, outcome: &Outcome) -> &'static str {
        Ended::of(outcome, self.status).name()
    }

    fn phases(&self) -> [(&'static str, Duration); 4] {
        let Times { pool, database, encode, client, .. } = self.times;
        [("pool", pool), ("database", database), ("encode", encode), ("client", client)]
    }
}

/// Text from outside cannot begin a line of its own, nor a field, nor a terminal's command: targets
/// may hold what is beyond ASCII, which has controls and ends of lines too.
fn one_line(text: &str) -> Cow<'_, str> {
    let breaks = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
    match text.contains(breaks) {
        true => text.replace(breaks, "\u{fffd}").into(),
        false => text.into(),
    }
}

/// A time with one decimal. Whole numbers of 64 bits only: formatting a float, or five numbers of
/// 128 bits, costs more than the rest of the line.
struct Milliseconds(Duration);

impl fmt::Display for Milliseconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tenths = self.0.as_secs() * 10_000 + u64::from(self.0.subsec_micros() + 50) / 100;
        write!(f, "{}.{}", tenths / 10, tenths % 10)
    }
}

fn number(time: Duration) -> serde_json::Value {
    json!((time.as_secs_f64() * 1e4).round() / 1e1)
}
