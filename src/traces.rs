//! Sends spans of requests to an OpenTelemetry collector: OTLP over HTTP, as JSON (OpenTelemetry
//! Protocol 1, "JSON Protobuf Encoding"), with the names from the semantic conventions for HTTP and
//! databases.
//!
//! ```text
//! GET /authors/{id}   ├──────────────────────────────┤    the request
//!   head              ├──────────┤                        until its head
//!   PostgreSQL shop       ├──────────────────────────┤    its statement, once it has a connection
//!   body                         ├───────────────────┤    from its head to its end
//! ```
//!
//! A request is sampled when it arrives: as its caller's `traceparent` says, or else at random. Its
//! span is built at its end, and waits to be sent with others. At most [`MOST`] bytes wait, so a
//! slow or absent collector loses spans and never delays a request.

mod context;

use std::net::IpAddr;
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::{HeaderMap, HeaderValue, StatusCode, Uri, Version, header};
use rowstream_core::fetch::{self, Failure};
use rowstream_core::lock::Mutex;
use rowstream_core::log;
use serde_json::{Value, json};

use crate::outcome::RowCounts;

pub(crate) use self::context::{Context, TRACEPARENT};

/// Spans are sent this often.
pub(crate) const EVERY: Duration = Duration::from_secs(1);
/// The most bytes of waiting spans. A request needs some 2 KB.
const MOST: usize = 4 << 20;
/// The size of a batch in bytes.
const BATCH: usize = 256 << 10;
/// The longest text of an attribute, in bytes.
const LONGEST: usize = 1024;
/// A longer phase becomes an event of its request.
const SLOW: Duration = Duration::from_secs(1);
/// The collector's path for spans.
const PATH: &str = "/v1/traces";

/// The `[traces]` section.
#[derive(Debug, Clone, PartialEq)]
pub struct TraceSettings {
    /// The URL of the collector, without a path.
    pub url: Uri,
    /// The fraction of requests without a trace that begin one, from 0 to 1.
    pub sample: f64,
    /// The name of this service.
    pub service: String,
    /// Further headers for the collector. They may contain secrets.
    pub headers: HeaderMap,
}

/// A recorded request.
#[derive(Debug)]
pub(crate) struct Span {
    /// Its trace.
    pub(crate) trace: NonZero<u128>,
    id: u64,
    /// The caller's span.
    parent: Option<u64>,
    began: SystemTime,
    /// The time until its head.
    pub(crate) head: Option<Duration>,
    /// The first statement that runs for it.
    pub(crate) statement: Option<Arc<str>>,
}

impl Span {
    /// The span of a new request. `None` if it isn't recorded.
    pub(crate) fn begin(settings: &TraceSettings, headers: &HeaderMap) -> Option<Self> {
        let context = Context::read(headers);
        let is_recorded = match &context {
            Some(context) => context.is_sampled,
            None => fastrand::f64() < settings.sample,
        };
        let trace = context.map_or_else(|| NonZero::new(fastrand::u128(1..)), |context| Some(context.trace));
        let parent = context.map(|context| context.parent);
        let span = Self {
            trace: trace?,
            id: new_id(),
            parent,
            began: SystemTime::now(),
            head: None,
            statement: None,
        };
        is_recorded.then_some(span)
    }

    /// The `traceparent` of requests made in this span (W3C Trace Context).
    pub(crate) fn traceparent(&self) -> HeaderValue {
        let text = format!("00-{:032x}-{:016x}-01", self.trace, self.id);
        HeaderValue::try_from(text).expect("digits and hyphens are a header")
    }
}

fn new_id() -> u64 {
    fastrand::u64(1..)
}

/// The properties of a request at its end.
pub(crate) struct Request<'a> {
    pub(crate) method: &'a str,
    pub(crate) version: Version,
    pub(crate) scheme: &'a str,
    pub(crate) path: &'a str,
    /// The endpoint's path template.
    pub(crate) route: Option<&'a str>,
    pub(crate) address: Option<IpAddr>,
    pub(crate) user_agent: Option<&'a str>,
    pub(crate) status: Option<StatusCode>,
    pub(crate) rows: RowCounts,
    pub(crate) bytes: u64,
    /// The id of its stream, if it's streamed.
    pub(crate) stream: Option<String>,
    pub(crate) took: Duration,
    pub(crate) phases: [(&'static str, Duration); 4],
    /// The outcome, as in the access log.
    pub(crate) ended: &'static str,
    /// True if all of it was handed over.
    pub(crate) is_whole: bool,
    /// The error's code.
    pub(crate) code: Option<&'a str>,
    pub(crate) sqlstate: Option<&'a str>,
    pub(crate) query: Option<Query<'a>>,
}

/// A database query.
pub(crate) struct Query<'a> {
    /// The name of the database's kind.
    pub(crate) system: &'a str,
    /// The first statement. It contains no values.
    pub(crate) text: &'a str,
    pub(crate) source: &'a str,
}

/// The spans of each request as JSON, separated by commas. As `Value`s they would need ten times
/// the memory.
#[derive(Debug, Default)]
struct WaitingSpans {
    requests: Vec<String>,
    bytes: usize,
}

/// The spans that wait to be sent.
#[derive(Debug, Default)]
pub(crate) struct Spans {
    waiting: Mutex<WaitingSpans>,
    /// The number of requests whose spans were dropped for lack of room.
    dropped: AtomicU64,
    /// The error of the last attempt, if it failed.
    failing: Mutex<Option<String>>,
}

impl Spans {
    /// Adds the spans of a request that has ended.
    pub(crate) fn push(&self, span: &Span, request: &Request<'_>) {
        let spans: Vec<_> = describe(span, request).iter().map(Value::to_string).collect();
        let spans = spans.join(",");
        let mut waiting = self.waiting.lock();
        if waiting.bytes + spans.len() > MOST {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        waiting.bytes += spans.len();
        waiting.requests.push(spans);
    }
}

/// The waiting spans, and their destination.
pub(crate) struct SpanSender {
    pub(crate) spans: Arc<Spans>,
    /// `None` if tracing is off.
    pub(crate) to: Option<TraceSettings>,
}

impl SpanSender {
    /// Sends the waiting spans. Refused ones are lost, because an overloaded collector shouldn't
    /// get them twice. Logs only a changed result.
    pub(crate) async fn send(&self) {
        let waiting = std::mem::take(&mut *self.spans.waiting.lock());
        let Some(to) = &self.to else { return };
        let mut outcome = None;
        let mut requests = waiting.requests.into_iter().peekable();
        while requests.peek().is_some() {
            let mut batch = String::new();
            while batch.len() < BATCH
                && let Some(spans) = requests.next()
            {
                batch.push_str(if batch.is_empty() { "" } else { "," });
                batch.push_str(&spans);
            }
            outcome = Some(post(to, &batch).await.map_err(|cause| cause.to_string()));
        }
        let dropped = self.spans.dropped.swap(0, Ordering::Relaxed);
        if dropped > 0 {
            log::warning!("traces: the spans of {dropped} requests are lost, because the buffer was full");
        }
        let Some(outcome) = outcome else { return };
        let mut failing = self.spans.failing.lock();
        match (&outcome, failing.is_some()) {
            (Ok(()), true) => log::info!("traces: {} accepts spans again", to.url),
            (Err(cause), _) if failing.as_ref() != Some(cause) => {
                log::warning!("traces: {} doesn't accept spans: {cause}", to.url);
            }
            _ => {}
        }
        *failing = outcome.err();
    }
}

async fn post(to: &TraceSettings, spans: &str) -> Result<(), Failure> {
    let version = env!("CARGO_PKG_VERSION");
    let resource =
        json!({"attributes": [text("service.name", &to.service), text("service.version", version)]});
    let scope = json!({"name": "rowstream", "version": version});
    let document = format!(
        "{{\"resourceSpans\":[{{\"resource\":{resource},\"scopeSpans\":[{{\"scope\":{scope},\"spans\":[{spans}]}}]}}]}}"
    );
    let mut url = to.url.clone().into_parts();
    url.path_and_query = Some(PATH.parse()?);
    let request = http::Request::post(Uri::from_parts(url)?);
    let mut request = request.body(document)?;
    let headers = request.headers_mut();
    headers.extend(to.headers.clone());
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    match fetch::send(request).await? {
        (status, _) if status.is_success() => Ok(()),
        (status, _) => Err(format!("the answer is {status}").into()),
    }
}

/// The kinds of spans, and the status of a failed one (`trace.proto`).
const INTERNAL: u8 = 1;
const SERVER: u8 = 2;
const CLIENT: u8 = 3;
const ERROR: u8 = 2;

/// The spans of a request.
fn describe(span: &Span, request: &Request<'_>) -> Vec<Value> {
    let part = |name: &str, kind, from: Duration, to: Duration| {
        let mut part = described(span, new_id(), name, kind, from, to);
        part["parentSpanId"] = hex(span.id).into();
        part
    };
    let name = format!("{} {}", request.method, request.route.unwrap_or_default());
    let mut whole = described(span, span.id, name.trim_end(), SERVER, Duration::ZERO, request.took);
    if let Some(parent) = span.parent {
        whole["parentSpanId"] = hex(parent).into();
    }
    whole["attributes"] = of_http(request);
    let slow = request.phases.iter().filter(|(_, time)| *time > SLOW);
    let end = nanos(span.began + request.took);
    let event = |(phase, time): &(&str, Duration)| {
        let attributes = [text("rowstream.phase", phase), float("rowstream.seconds", time.as_secs_f64())];
        json!({"timeUnixNano": end, "name": "slow phase", "attributes": attributes})
    };
    whole["events"] = slow.map(event).collect();
    // By the conventions, a client's mistake isn't an error of the server.
    let is_error = match request.status {
        Some(status) if status.is_success() => !request.is_whole,
        Some(status) => status.is_server_error(),
        None => false,
    };
    if is_error {
        whole["status"] = json!({"code": ERROR, "message": request.ended});
    }
    let mut spans = vec![whole];
    if let Some(head) = span.head {
        spans.push(part("head", INTERNAL, Duration::ZERO, head));
        spans.push(part("body", INTERNAL, head, request.took));
    }
    if let Some(query) = &request.query {
        let [(_, pool), ..] = request.phases;
        let mut asked = part(&format!("{} {}", query.system, query.source), CLIENT, pool, request.took);
        let mut attributes = vec![
            text("db.system.name", &query.system.to_ascii_lowercase()),
            text("db.query.text", query.text),
            int("db.response.returned_rows", request.rows.all()),
            text("rowstream.source", query.source),
        ];
        if let Some(sqlstate) = request.sqlstate {
            attributes.push(text("db.response.status_code", sqlstate));
            attributes.push(text("error.type", sqlstate));
            asked["status"] = json!({"code": ERROR});
        }
        asked["attributes"] = attributes.into();
        spans.push(asked);
    }
    spans
}

fn described(span: &Span, id: u64, name: &str, kind: u8, from: Duration, to: Duration) -> Value {
    json!({
        "traceId": format!("{:032x}", span.trace),
        "spanId": hex(id),
        "name": name,
        "kind": kind,
        "startTimeUnixNano": nanos(span.began + from),
        "endTimeUnixNano": nanos(span.began + to.max(from)),
    })
}

/// The attributes of an HTTP server's span, and our own.
fn of_http(request: &Request<'_>) -> Value {
    let version = match request.version {
        Version::HTTP_3 => "3",
        Version::HTTP_2 => "2",
        Version::HTTP_10 => "1.0",
        _ => "1.1",
    };
    let address = request.address.map(|address| address.to_string());
    let texts = [
        ("http.request.method", Some(request.method)),
        ("url.scheme", Some(request.scheme)),
        ("url.path", Some(request.path)),
        ("http.route", request.route),
        ("network.protocol.version", Some(version)),
        ("client.address", address.as_deref()),
        ("user_agent.original", request.user_agent),
        ("error.type", request.code),
        ("rowstream.ended", Some(request.ended)),
        ("rowstream.stream.id", request.stream.as_deref()),
    ];
    let mut attributes: Vec<_> =
        texts.into_iter().filter_map(|(name, value)| Some(text(name, value?))).collect();
    attributes.extend(request.status.map(|status| int("http.response.status_code", status.as_u16().into())));
    attributes.push(int("http.response.body.size", request.bytes));
    attributes.push(int("rowstream.rows", request.rows.rows));
    attributes.extend(request.rows.nested.map(|nested| int("rowstream.nested_rows", nested)));
    let phase = |(name, time): &(&str, Duration)| float(&format!("rowstream.{name}"), time.as_secs_f64());
    attributes.extend(request.phases.iter().map(phase));
    attributes.into()
}

fn text(name: &str, value: &str) -> Value {
    let end = value.floor_char_boundary(LONGEST);
    json!({"key": name, "value": {"stringValue": &value[..end]}})
}

/// JSON encodes 64-bit integers as strings.
fn int(name: &str, value: u64) -> Value {
    json!({"key": name, "value": {"intValue": value.to_string()}})
}

fn float(name: &str, value: f64) -> Value {
    json!({"key": name, "value": {"doubleValue": value}})
}

fn hex(id: u64) -> String {
    format!("{id:016x}")
}

fn nanos(time: SystemTime) -> String {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos().to_string()
}
