//! The access log: one line per request on standard output. A line is made when the last byte was
//! handed over, or the request ended in another way. [`log::lines`](rowstream_core::log) writes the lines.
//!
//! Before a request ends, we keep only the parts of its head that a failure would need: target,
//! address, user agent and trace. If it succeeds, we decide whether it has a line before we format
//! one.

mod refusals;
mod settings;

use std::borrow::Cow;
use std::net::IpAddr;
use std::num::NonZero;
use std::time::{Duration, Instant};

use http::header::USER_AGENT;
use http::{Method, Request, StatusCode, Version};
use rowstream_core::log;
use rowstream_core::log::LogFormat;
use rowstream_core::log::lines::ACCESS;
use rowstream_core::log::text::{Line, Milliseconds, Object, bounded, one_line};

use self::refusals::Refusals;
pub use self::settings::{LogFlag, LogSettings};
use crate::completeness::ResponseId;
use crate::outcome::{Outcome, OutcomeName, RowCounts, Times};
use crate::traces::Context;

/// The longest target, in bytes. Clients can invent longer ones, which would tell us nothing new.
const MAX_TARGET: usize = 2048;
/// The longest user agent, in bytes. Those of browsers have half as many.
const MAX_USER_AGENT: usize = 256;
/// The method and the target of a request whose head can't be read.
const UNREAD: &str = "-";

/// The refusals of all requests.
static REFUSALS: Refusals = Refusals::new();

/// Warns about the refusals without a line, if their second is over at `now`.
pub(crate) fn tell_refusals(now: Instant) {
    if let Some(further) = REFUSALS.further(now) {
        log::warning!(
            "{further} more requests were refused within a second, without lines in the access log"
        );
    }
}

/// The data of a request for its line, which [`LogEntry::end`] writes.
#[derive(Debug)]
pub struct LogEntry {
    method: Method,
    version: Version,
    started: Instant,
    head: RequestHead,
    /// The response's status; `None` without a response head, for example if the client leaves
    /// early.
    pub status: Option<StatusCode>,
    /// Rows handed over.
    pub rows: RowCounts,
    /// Body bytes handed over.
    pub bytes: u64,
    /// Body bytes that went into a file because the client was slow, including those that were
    /// never handed over.
    pub spilled: u64,
    /// The time spent in each phase.
    pub times: Times,
    /// The id of its stream, if the response is streamed.
    pub(crate) stream: Option<ResponseId>,
}

/// The parts of the request's head that the line needs, because the head is gone by then. Empty if
/// there's no access log.
#[derive(Debug, Default)]
struct RequestHead {
    /// The target, followed by the user agent, so that both share one allocation.
    text: String,
    target: usize,
    address: Option<IpAddr>,
    trace_id: Option<NonZero<u128>>,
}

/// The configured names of the request's endpoint and client.
#[derive(Debug, Clone, Copy, Default)]
pub struct LogNames<'a> {
    /// The template of the endpoint's path.
    pub endpoint: Option<&'a str>,
    /// The name of the client's token.
    pub token: Option<&'a str>,
    /// The subject of the token.
    pub subject: Option<&'a str>,
    /// True if the request's URL was signed, which its target doesn't show.
    pub signed: bool,
}

impl LogEntry {
    /// The entry of a request that has just arrived.
    pub fn new<B>(request: &Request<B>) -> Self {
        Self::begun(request.method().clone(), request.version(), RequestHead::default())
    }

    /// The entry of a request from `address` whose head can't be read. Its method and its target
    /// are `-`.
    pub(crate) fn unread(version: Version, address: Option<IpAddr>) -> Self {
        let head = RequestHead { text: UNREAD.to_owned(), target: UNREAD.len(), address, trace_id: None };
        Self::begun(Method::from_bytes(UNREAD.as_bytes()).unwrap_or_default(), version, head)
    }

    fn begun(method: Method, version: Version, head: RequestHead) -> Self {
        Self {
            method,
            version,
            started: Instant::now(),
            head,
            status: None,
            rows: RowCounts::default(),
            bytes: 0,
            spilled: 0,
            times: Times::default(),
            stream: None,
        }
    }

    /// Keeps the parts of the request's head that the line needs, and the client's `address`.
    #[must_use]
    pub fn keep<B>(self, request: &Request<B>, address: Option<IpAddr>) -> Self {
        Self { head: RequestHead::read(request, address), ..self }
    }

    /// Sets the trace of the request, if the client has sent none.
    pub(crate) fn in_trace(&mut self, trace: NonZero<u128>) {
        self.head.trace_id = Some(trace);
    }

    /// The method.
    pub(crate) fn method(&self) -> &Method {
        &self.method
    }

    /// The HTTP version.
    pub(crate) fn version(&self) -> Version {
        self.version
    }

    /// The requested path, if it's kept.
    pub(crate) fn path(&self) -> &str {
        self.head.target().split('?').next().unwrap_or_default()
    }

    /// The client's address, if it's kept.
    pub(crate) fn address(&self) -> Option<IpAddr> {
        self.head.address
    }

    /// The client's user agent, if it's kept.
    pub(crate) fn user_agent(&self) -> Option<&str> {
        self.head.user_agent()
    }

    /// The time since the request arrived.
    pub(crate) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Writes the line, if the log includes this request. It includes all failures, except refusals
    /// that are too many for their second.
    pub fn end<'a>(&self, log: &LogSettings, outcome: &Outcome, names: impl FnOnce() -> LogNames<'a>) {
        if !log.access {
            return;
        }
        let now = Instant::now();
        tell_refusals(now);
        let has_line = match OutcomeName::of(outcome, self.status) {
            OutcomeName::Complete => is_sampled(log.sample),
            OutcomeName::Refused => REFUSALS.count(now),
            _ if self.status == Some(StatusCode::TOO_MANY_REQUESTS) => REFUSALS.count(now),
            _ => true,
        };
        if !has_line {
            return;
        }
        match log.format {
            LogFormat::Text => self.text(outcome, names()).write(&ACCESS),
            LogFormat::Json => ACCESS.write(&self.json(outcome, names())),
        }
    }

    fn text(&self, outcome: &Outcome, names: LogNames<'_>) -> Line {
        let mut line = Line::begin();
        let status = self.status.as_ref().map_or("-", StatusCode::as_str);
        let (target, ended) = (one_line(self.head.target()), self.ended(outcome));
        for word in [self.method.as_str(), &target, version_name(self.version), status, ended] {
            line.push(" ");
            line.push(word);
        }
        line.field("rows");
        line.number(self.rows.rows);
        if let Some(nested) = self.rows.nested {
            line.field("nested_rows");
            line.number(nested);
        }
        line.field("bytes");
        line.number(self.bytes);
        line.field("ms");
        line.milliseconds(self.started.elapsed());
        let Times { pool, database, encode, client, .. } = self.times;
        line.field("pool");
        line.milliseconds(pool);
        line.field("database");
        line.milliseconds(database);
        line.field("encode");
        line.milliseconds(encode);
        line.field("client");
        line.milliseconds(client);
        if self.spilled > 0 {
            line.field("spilled");
            line.number(self.spilled);
        }
        if let Some(address) = self.head.address {
            line.field("address");
            line.address(address);
        }
        if let Some(id) = self.head.trace_id {
            line.field("trace_id");
            line.any(format_args!("{id:032x}"));
        }
        if let Some(id) = self.stream {
            line.field("stream_id");
            line.any(id);
        }
        for (name, text) in self.texts(names) {
            line.field(name);
            line.word(text);
        }
        if let Outcome::Failed(error) = outcome {
            line.field("error");
            line.push(&one_line(&format!("{error:?}")));
        }
        line
    }

    fn json(&self, outcome: &Outcome, names: LogNames<'_>) -> String {
        let mut line = Object::empty();
        line.raw("time", format_args!("\"{:.3}\"", jiff::Timestamp::now()));
        line.text("method", self.method.as_str());
        line.text("target", self.head.target());
        line.text("version", version_name(self.version));
        line.raw("status", self.status.as_ref().map_or("null", StatusCode::as_str));
        line.text("outcome", self.ended(outcome));
        line.raw("rows", self.rows.rows);
        if let Some(nested) = self.rows.nested {
            line.raw("nested_rows", nested);
        }
        line.raw("bytes", self.bytes);
        line.raw("ms", Milliseconds(self.started.elapsed()));
        let Times { pool, database, encode, client, .. } = self.times;
        line.raw("pool_ms", Milliseconds(pool));
        line.raw("database_ms", Milliseconds(database));
        line.raw("encode_ms", Milliseconds(encode));
        line.raw("client_ms", Milliseconds(client));
        if self.spilled > 0 {
            line.raw("spilled", self.spilled);
        }
        if let Some(address) = self.head.address {
            line.raw("address", format_args!("\"{address}\""));
        }
        if let Some(id) = self.head.trace_id {
            line.raw("trace_id", format_args!("\"{id:032x}\""));
        }
        if let Some(id) = self.stream {
            line.raw("stream_id", format_args!("\"{id}\""));
        }
        for (name, text) in self.texts(names) {
            line.text(name, text);
        }
        if let Outcome::Failed(error) = outcome {
            line.text("code", error.code());
            line.text("error", &format!("{error:?}"));
        }
        line.finish()
    }

    /// The name of the outcome.
    fn ended(&self, outcome: &Outcome) -> &'static str {
        OutcomeName::of(outcome, self.status).name()
    }

    /// The texts that are present.
    fn texts<'a>(&'a self, names: LogNames<'a>) -> impl Iterator<Item = (&'static str, &'a str)> {
        let texts = [
            ("endpoint", names.endpoint),
            ("token", names.token),
            ("subject", names.subject),
            ("credentials", names.signed.then_some("signed_url")),
            ("user_agent", self.head.user_agent()),
        ];
        texts.into_iter().filter_map(|(name, text)| Some((name, text?)))
    }
}

impl RequestHead {
    fn read<B>(request: &Request<B>, address: Option<IpAddr>) -> Self {
        let headers = request.headers();
        let target = request.uri().path_and_query().map_or("", |target| target.as_str());
        let target = bounded(target, MAX_TARGET);
        let agent = headers.get(USER_AGENT).map_or(&[][..], |agent| agent.as_bytes());
        let agent = &agent[..agent.len().min(MAX_USER_AGENT)];
        // Most are valid text. Checking that is cheaper than searching for invalid bytes.
        let agent = str::from_utf8(agent).map_or_else(|_| String::from_utf8_lossy(agent), Cow::Borrowed);
        let mut text = String::with_capacity(target.len() + agent.len());
        text.push_str(target);
        text.push_str(&agent);
        Self {
            text,
            target: target.len(),
            address,
            trace_id: Context::read(headers).map(|context| context.trace),
        }
    }

    fn target(&self) -> &str {
        &self.text[..self.target]
    }

    fn user_agent(&self) -> Option<&str> {
        Some(&self.text[self.target..]).filter(|agent| !agent.is_empty())
    }
}

/// Decides if a successful request has a line.
fn is_sampled(sample: f64) -> bool {
    sample >= 1.0 || fastrand::f64() < sample
}

/// The name of the version, as a client writes it (RFC 9112, section 2.3).
fn version_name(version: Version) -> &'static str {
    match version {
        Version::HTTP_10 => "HTTP/1.0",
        Version::HTTP_11 => "HTTP/1.1",
        Version::HTTP_2 => "HTTP/2.0",
        Version::HTTP_3 => "HTTP/3.0",
        _ => "HTTP/0.9",
    }
}

#[cfg(test)]
mod tests {
    use rowstream_core::Error;

    use super::*;

    fn failed() -> Outcome {
        Outcome::Failed(Error::new("not_found", StatusCode::NOT_FOUND, "no\nsuch"))
    }

    fn entry(target: &str, agent: &str) -> LogEntry {
        let request = Request::get(target).header(USER_AGENT, agent.as_bytes()).body(()).unwrap();
        LogEntry::new(&request).keep(&request, Some([192, 0, 2, 1].into()))
    }

    /// The client's texts imitate the end of the line and another line.
    #[test]
    fn what_clients_choose_stays_in_its_field() {
        let agent = "a\" status=200 \t\u{85}\u{9b}31m\u{2028}\u{202e}";
        let entry = entry("/t?ab\u{85}c\u{9b}d\u{2028}e", agent);
        let names = LogNames { endpoint: Some("/t"), token: Some("a b"), ..LogNames::default() };
        let text = entry.text(&failed(), names).finish();
        let json = entry.json(&failed(), names);
        for line in [&text, &json] {
            let is_hidden = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{202e}');
            assert!(!line.contains(is_hidden), "{line:?}");
        }
        let quoted = r#""a\" status=200 \t\u0085\u009b31m\u2028\u202e""#;
        let fields = format!(" address=192.0.2.1 endpoint=/t token=\"a b\" user_agent={quoted} error=");
        assert!(text.contains(&fields), "{text}");
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json["user_agent"], agent);
        assert_eq!((&json["address"], &json["token"]), (&"192.0.2.1".into(), &"a b".into()));
    }

    #[test]
    fn lines_are_bounded() {
        let entry = entry(&format!("/{}", "ä".repeat(5000)), &"ä".repeat(5000));
        for line in
            [entry.text(&failed(), LogNames::default()).finish(), entry.json(&failed(), LogNames::default())]
        {
            assert!(line.len() < MAX_TARGET + MAX_USER_AGENT + 512, "{}", line.len());
        }
    }

    #[test]
    fn samples_are_as_many_as_asked_for() {
        assert!(is_sampled(1.0) && !is_sampled(0.0));
        let sampled = (0..10_000).filter(|_| is_sampled(0.5)).count();
        assert!((4_000..6_000).contains(&sampled), "{sampled}");
    }
}
