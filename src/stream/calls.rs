//! Several requests at a time for one response: each reply is a row, as soon as it has arrived.
//!
//! ```text
//! poll_row ──► running: at most `concurrency` requests, and no more than the pool has slots
//!    │            │ complete
//!    └── row ◄────┴── by completion: at once;  by input: after all rows before it
//! ```
//!
//! Invariants: the running requests and the replies that wait for earlier ones are together at most
//! `concurrency`; requests are sent and replies are read only when it's polled; dropping it drops
//! the requests. The pool admits all calls together, before the first: once a response has begun,
//! none of them is refused.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_util::Stream as _;
use futures_util::stream::FuturesUnordered;
use http::StatusCode;
use rowstream_core::Error;
use rowstream_core::error::POOL_TIMEOUT;
use rowstream_core::params::ParamValue;
use rowstream_encode::{Column, RowWriter, Value};
use rowstream_upstream::template::Values;
use rowstream_upstream::{Call, Group, Reply, Source, fields};
use serde::de::IgnoredAny;

use crate::endpoint::{Calls, ErrorTreatment, Order, RepeatCount};

/// Some upstreams write it before their JSON.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// The calls of one response.
pub(crate) struct CallRows {
    source: Source,
    calls: Arc<Calls>,
    values: Arc<[ParamValue]>,
    count: u64,
    /// The number of the next call to make, and that of the next row to return.
    next: u64,
    due: u64,
    /// The calls as the pool has admitted them; `None` before the first request.
    group: Option<Arc<Group>>,
    running: FuturesUnordered<RunningCall>,
    /// Replies that have to wait for earlier ones.
    waiting: BTreeMap<u64, CallOutcome>,
    /// The row that is lent to the caller.
    current: Option<CallOutcome>,
    /// An error for the next poll to report.
    failed: Option<Error>,
}

type RunningCall = Pin<Box<dyn Future<Output = CallOutcome> + Send>>;

/// The result of a call.
pub(super) struct CallOutcome {
    number: u64,
    duration: Duration,
    status: Option<StatusCode>,
    pub(super) body: Option<ReplyText>,
    pub(super) error: Option<Error>,
}

/// The body of a reply.
pub(super) enum ReplyText {
    Json(String),
    Plain(String),
}

impl ReplyText {
    pub(super) fn value(&self) -> Value<'_> {
        match self {
            Self::Json(text) => Value::Json(text),
            Self::Plain(text) => Value::Text(text),
        }
    }
}

impl CallOutcome {
    /// The outcome of a call that couldn't be made because of `error`.
    pub(super) fn unmade(number: u64, error: Error) -> Self {
        Self { number, duration: Duration::ZERO, status: None, body: None, error: Some(error) }
    }

    /// Writes the values of a reply's columns. The error's column exists only if rows report
    /// failures.
    pub(super) fn write(&self, on_error: ErrorTreatment, encoder: &mut dyn RowWriter, out: &mut Vec<u8>) {
        let Self { duration, status, body, error, .. } = self;
        encoder.value(status.map_or(Value::Null, |status| Value::Int4(status.as_u16().into())), out);
        let millis = (duration.as_secs_f64() * 1e4).round() / 1e1;
        encoder.value(if status.is_some() { Value::Float(millis) } else { Value::Null }, out);
        encoder.value(body.as_ref().map_or(Value::Null, ReplyText::value), out);
        if on_error == ErrorTreatment::Row {
            encoder.value(error.as_ref().map_or(Value::Null, |error| Value::Text(error.message())), out);
        }
    }
}

impl CallRows {
    /// True if the pool has admitted the calls and none of them has had a slot yet.
    pub(crate) fn waits_for_place(&self) -> bool {
        self.group.as_ref().is_some_and(|group| !group.has_begun())
    }

    /// The columns of its rows.
    pub(super) fn columns(&self) -> Arc<[Column]> {
        self.calls.columns()
    }

    /// The calls of a response. Sends nothing yet.
    pub(crate) fn new(source: &Source, calls: &Arc<Calls>) -> Self {
        Self {
            source: source.clone(),
            calls: Arc::clone(calls),
            values: Arc::default(),
            count: 0,
            next: 0,
            due: 0,
            group: None,
            running: FuturesUnordered::new(),
            waiting: BTreeMap::new(),
            current: None,
            failed: None,
        }
    }

    /// See [`crate::database::Session::execute`]. `args` are the values of all parameters of the
    /// endpoint.
    pub(crate) fn execute(&mut self, args: &[&ParamValue]) {
        self.values = args.iter().map(|&value| value.clone()).collect();
        match self.count() {
            Ok(count) => self.count = count,
            Err(error) => self.failed = Some(error),
        }
    }

    fn count(&self) -> Result<u64, Error> {
        let index = match self.calls.repeat {
            RepeatCount::Times(count) => return Ok(count),
            RepeatCount::Param(index) => index,
        };
        let wrong = |message: &str| {
            Error::invalid_parameters(vec![(self.calls.names[index].clone(), message.to_owned())])
        };
        match &self.values[index] {
            ParamValue::Integer(count) => u64::try_from(*count).map_err(|_| wrong("it is less than 0")),
            _ => Err(wrong("it isn't a number of calls")),
        }
    }

    /// See [`crate::database::Session::poll_row`].
    ///
    /// # Errors
    /// A call failed and rows don't report failures; or a 400 if no request can be made from the
    /// parameters.
    pub(crate) fn poll_row(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<CallRow<'_>>, Error>> {
        if let Some(error) = self.failed.take() {
            return Poll::Ready(Err(error));
        }
        let outcome = ready!(self.poll_outcome(cx))?;
        self.current = outcome;
        let on_error = self.calls.on_error;
        Poll::Ready(Ok(self.current.as_ref().map(|outcome| CallRow { outcome, on_error })))
    }

    fn poll_outcome(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<CallOutcome>, Error>> {
        loop {
            if let Some(outcome) = self.waiting.remove(&self.due) {
                self.due += 1;
                return Poll::Ready(Ok(Some(outcome)));
            }
            self.start()?;
            let Some(mut outcome) = ready!(Pin::new(&mut self.running).poll_next(cx)) else {
                return Poll::Ready(Ok(None));
            };
            self.narrow();
            // If no call got a slot in time, the response hasn't begun, so no row reports this
            // error.
            let fails = |error: &mut Error| {
                self.calls.on_error == ErrorTreatment::Fail || error.code() == POOL_TIMEOUT
            };
            if let Some(error) = outcome.error.take_if(fails) {
                return Poll::Ready(Err(error));
            }
            match self.calls.order {
                Order::Completion => return Poll::Ready(Ok(Some(outcome))),
                Order::Input => drop(self.waiting.insert(outcome.number, outcome)),
            }
        }
    }

    /// Tells the pool when fewer calls are left than may run at a time.
    fn narrow(&self) {
        let left = usize::try_from(self.count - self.next).unwrap_or(usize::MAX);
        if let Some(group) = &self.group {
            group.resize(self.running.len().saturating_add(left));
        }
    }

    /// Admits the calls to the pool, before the first of them.
    fn group(&mut self) -> Result<Arc<Group>, Error> {
        if let Some(group) = &self.group {
            return Ok(Arc::clone(group));
        }
        let count = usize::try_from(self.count).unwrap_or(usize::MAX);
        let group = Arc::new(self.source.enter(self.calls.concurrency.min(count))?);
        Ok(Arc::clone(self.group.insert(group)))
    }

    /// Starts as many calls as may run.
    fn start(&mut self) -> Result<(), Error> {
        while self.next < self.count && self.running.len() + self.waiting.len() < self.calls.concurrency {
            let values = Values { names: &self.calls.names, values: &self.values, number: self.next };
            let mut call = self.calls.template.fill(&values)?;
            let mut headers = self.source.own_fields();
            fields::put(&mut headers, &call.headers);
            call.headers = headers;
            let (source, group, most) = (self.source.clone(), self.group()?, self.calls.max_reply);
            self.running.push(Box::pin(run(source, group, call, self.next, most)));
            self.next += 1;
        }
        Ok(())
    }
}

/// Makes a call, and reads its whole reply.
pub(super) async fn run(
    source: Source,
    group: Arc<Group>,
    call: Call,
    number: u64,
    most: usize,
) -> CallOutcome {
    let mut outcome = CallOutcome { number, duration: Duration::ZERO, status: None, body: None, error: None };
    let answered = source.send_in(&group, &call).await;
    let read = match answered {
        Ok((mut reply, waited)) => {
            outcome.status = Some(reply.head.status);
            let read = read(&mut reply, &source, most).await;
            outcome.duration = waited.begun.elapsed();
            read
        }
        Err(error) => Err(error),
    };
    match read {
        Ok(body) => outcome.body = Some(body),
        Err(error) => outcome.error = Some(error),
    }
    if let Some(status) = outcome.status.filter(|status| !status.is_success()) {
        let message = format!("source `{}` answered call {number} with {status}", source.name());
        outcome.error = Some(Error::upstream_status(status, message));
    }
    outcome
}

/// Reads the body of a reply.
async fn read(reply: &mut Reply, source: &Source, most: usize) -> Result<ReplyText, Error> {
    let mut body = Vec::new();
    while let Some(data) = poll_fn(|cx| reply.poll_data(cx)).await {
        let data = data?;
        let length = body.len() + data.len();
        if length > most {
            return Err(Error::row_too_large(length as u64, most));
        }
        body.extend_from_slice(&data);
    }
    let unreadable = |what: &str| {
        let message = format!("a reply of source `{}` is {what}", source.name());
        Error::new("upstream_reply", StatusCode::BAD_GATEWAY, message)
    };
    if fields::is_coded(&reply.head.headers) {
        return Err(unreadable("compressed, although the request didn't allow that"));
    }
    let mut text = String::from_utf8(body).map_err(|_| unreadable("not UTF-8"))?;
    if text.is_empty() {
        reply.ended_empty()?;
    }
    if !fields::is_json(&reply.head.headers) || text.is_empty() {
        return Ok(ReplyText::Plain(text));
    }
    if text.starts_with(BYTE_ORDER_MARK) {
        text.drain(..BYTE_ORDER_MARK.len_utf8());
    }
    match serde_json::from_str::<IgnoredAny>(&text) {
        Ok(_) => Ok(ReplyText::Json(one_line(text))),
        Err(_) => Err(unreadable("declared as JSON, but invalid")),
    }
}

/// JSON without line ends. They're only blanks between its tokens, because strings have them
/// escaped. Formats with a row per line allow none within a row.
fn one_line(mut json: String) -> String {
    json.truncate(json.trim_end().len());
    if json.contains(['\n', '\r']) { json.replace(['\n', '\r'], " ") } else { json }
}

/// The row of one call.
pub(crate) struct CallRow<'a> {
    outcome: &'a CallOutcome,
    on_error: ErrorTreatment,
}

impl CallRow<'_> {
    /// See [`crate::database::Row::encode`].
    pub(crate) fn encode(self, encoder: &mut impl RowWriter, out: &mut Vec<u8>) {
        let number = i64::try_from(self.outcome.number).unwrap_or(i64::MAX);
        encoder.begin_row(out);
        encoder.value(Value::Int(number), out);
        self.outcome.write(self.on_error, encoder, out);
        encoder.end_row(out);
    }
}
