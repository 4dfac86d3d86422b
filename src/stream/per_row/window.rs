//! The rows that wait for their calls, and these calls.

use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_util::Stream as _;
use futures_util::stream::FuturesUnordered;
use http::{HeaderMap, Method, StatusCode};
use rowstream_core::Error;
use rowstream_core::error::POOL_TIMEOUT;
use rowstream_core::params::ParamValue;
use rowstream_upstream::by_column::ColumnCounter;
use rowstream_upstream::pointer::Pointer;
use rowstream_upstream::template::Values;
use rowstream_upstream::{Call, Group, Source, fields};

use super::RowCalls;
use super::row::{ColumnKeeper, EnrichedRow};
use crate::database::{self, Layout};
use crate::endpoint::{ErrorTreatment, FittedCalls, LONGEST, Order, PerRowCalls, ReplyForm, RowCall};
use crate::stream::calls::{CallOutcome, ReplyText, run};
use crate::stream::producer::{Producer, Row};

/// The rows that wait for their calls, and these calls.
pub(in crate::stream) struct Window {
    plan: Arc<PerRowCalls>,
    fitted: FittedCalls,
    /// The values of the parameters, followed by the texts of the last row's columns.
    values: Vec<ParamValue>,
    lanes: Vec<Lane>,
    /// The requests of each upstream.
    requests: Vec<UpstreamRequests>,
    running: FuturesUnordered<RunningLaneCall>,
    replies: Replies,
    /// The layout of the rows, once there was one.
    layout: Option<Layout>,
    /// The waiting rows, by number.
    rows: HashMap<u64, HeldRow>,
    /// The number of the next row to arrive, and of the next one to return in order of input.
    next: u64,
    due: u64,
    /// The rows to return next, in order of completion.
    complete: VecDeque<u64>,
    /// The row that is lent to the caller.
    current: Option<HeldRow>,
    /// True if the statement has no more rows.
    has_ended: bool,
}

type RunningLaneCall = Pin<Box<dyn Future<Output = (usize, CallOutcome)> + Send>>;

/// One kind of calls, made once for each row: those that wait, and those that run.
struct Lane {
    source: Source,
    /// The header fields that every request has.
    own: HeaderMap,
    /// All header fields of each request, if no field contains a column.
    fields: Option<HeaderMap>,
    /// The columns that occur in its requests, by the indices of their names.
    columns: Vec<usize>,
    /// Calls that several waiting rows can share, by their request.
    known: HashMap<Arc<str>, usize>,
    waiting: VecDeque<usize>,
    running: usize,
}

/// The requests to one upstream.
struct UpstreamRequests {
    in_flight: usize,
    /// The requests as the pool has admitted them, before the first row. Once a response has begun,
    /// none of them is refused.
    group: Arc<Group>,
}

impl UpstreamRequests {
    /// A response counts as one request if it has none in flight, and otherwise as those in flight.
    fn enter(source: &Source) -> Result<Self, Error> {
        Ok(Self { in_flight: 0, group: Arc::new(source.enter(1)?) })
    }

    fn add(&mut self) {
        self.in_flight += 1;
        self.group.resize(self.in_flight);
    }

    fn end(&mut self) {
        self.in_flight -= 1;
        self.group.resize(self.in_flight.max(1));
    }
}

/// A row that waits for its calls.
pub(super) struct HeldRow {
    pub(super) data: Box<[u8]>,
    /// The index of each call's reply; `None` if a column is NULL, so that no call is made.
    pub(super) calls: Box<[Option<usize>]>,
}

/// The calls of the waiting rows.
#[derive(Default)]
pub(super) struct Replies {
    slots: Vec<Option<WindowCall>>,
    free: Vec<usize>,
}

/// One call.
struct WindowCall {
    lane: usize,
    /// The row that it was made for.
    row: u64,
    /// The number of waiting rows that share it.
    rows: usize,
    /// Its request, if other rows may share it.
    key: Option<Arc<str>>,
    /// Set until it's made.
    call: Option<Call>,
    /// Set once it has ended.
    outcome: Option<CallOutcome>,
}

impl Replies {
    fn add(&mut self, slot: WindowCall) -> usize {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        self.slots[index] = Some(slot);
        index
    }

    fn slot(&mut self, index: usize) -> Option<&mut WindowCall> {
        self.slots.get_mut(index)?.as_mut()
    }

    /// The outcome of a call, once it has ended.
    pub(super) fn get(&self, index: usize) -> Option<&CallOutcome> {
        self.slots.get(index)?.as_ref()?.outcome.as_ref()
    }

    /// Removes a row's use of a call. Returns the call if that was the last use.
    fn release(&mut self, index: usize) -> Option<WindowCall> {
        let slot = self.slot(index)?;
        slot.rows -= 1;
        if slot.rows > 0 {
            return None;
        }
        self.free.push(index);
        self.slots[index].take()
    }

    /// True if all calls of a row have ended.
    fn have_come(&self, held: &HeldRow) -> bool {
        held.calls.iter().flatten().all(|&slot| self.get(slot).is_some())
    }
}

impl Window {
    /// For a request whose first values are those of its parameters. Sends nothing yet.
    ///
    /// # Errors
    /// 400: a header field can't contain one of them. 503: too many requests wait for an upstream.
    pub(in crate::stream) fn new(calls: RowCalls, values: &[ParamValue]) -> Result<Self, Error> {
        let RowCalls { plan, fitted, upstreams } = calls;
        let mut values = values[..plan.params].to_vec();
        values.resize(plan.names.len(), ParamValue::Null);
        let lane = |call: &RowCall| Lane::new(&plan, call, &upstreams[call.upstream], &values);
        Ok(Self {
            lanes: plan.calls.iter().map(lane).collect::<Result<_, _>>()?,
            requests: upstreams.iter().map(UpstreamRequests::enter).collect::<Result<_, _>>()?,
            plan,
            fitted,
            values,
            running: FuturesUnordered::new(),
            replies: Replies::default(),
            layout: None,
            rows: HashMap::new(),
            next: 0,
            due: 0,
            complete: VecDeque::new(),
            current: None,
            has_ended: false,
        })
    }

    /// The next row of `producer` with its replies, lent until the next call; `None` after the last
    /// one.
    ///
    /// # Errors
    /// The statement's, or that of a call, if its row doesn't report it.
    pub(in crate::stream) fn poll_row(
        &mut self,
        producer: &mut Producer,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<EnrichedRow<'_>>, Error>> {
        ready!(self.poll(producer, cx))?;
        Poll::Ready(Ok(self.row()))
    }

    /// Advances to the next row to return, or to the end.
    fn poll(&mut self, producer: &mut Producer, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.release();
        loop {
            self.fill(producer, cx)?;
            self.start();
            // All that have ended, so that the rows to return make room for as many new ones.
            if let Poll::Ready(Some((slot, outcome))) = Pin::new(&mut self.running).poll_next(cx) {
                self.settle(slot, outcome)?;
                continue;
            }
            self.current = self.take_due();
            if self.current.is_some() {
                // The response has begun: its calls wait for a slot without a time limit.
                self.requests.iter().for_each(|requests| requests.group.begin());
            }
            return match (&self.current, self.has_ended && self.rows.is_empty()) {
                (None, false) => Poll::Pending,
                _ => Poll::Ready(Ok(())),
            };
        }
    }

    /// The row to return.
    fn row(&mut self) -> Option<EnrichedRow<'_>> {
        let (held, layout) = (self.current.as_ref()?, self.layout.as_mut()?);
        Some(EnrichedRow { layout, held, replies: &self.replies, plan: &self.plan, at: self.fitted.at })
    }

    /// Drops the row that was lent, and those of its calls that no other row shares.
    fn release(&mut self) {
        let Some(held) = self.current.take() else { return };
        for &index in held.calls.iter().flatten() {
            if let Some(WindowCall { lane, key: Some(key), .. }) = self.replies.release(index) {
                self.lanes[lane].known.remove(&key);
            }
        }
    }

    /// Takes rows that the statement has ready, while there's room.
    fn fill(&mut self, producer: &mut Producer, cx: &mut Context<'_>) -> Result<(), Error> {
        while !self.has_ended && self.rows.len() < self.plan.rows() {
            match producer.poll_row(cx)? {
                Poll::Ready(Some(Row::Database(row))) => self.admit(&row)?,
                Poll::Ready(Some(_)) => return Err(Error::endpoint("only a database's rows have calls")),
                Poll::Ready(None) => self.has_ended = true,
                Poll::Pending => break,
            }
        }
        Ok(())
    }

    fn admit(&mut self, row: &database::Row<'_>) -> Result<(), Error> {
        let layout = self.layout.get_or_insert_with(|| row.layout());
        let data = Box::from(row.bytes());
        let keeping = ColumnKeeper { wanted: self.fitted.wanted.iter(), values: &mut self.values };
        layout.row(&data).encode(&mut ColumnCounter::new(keeping), &mut Vec::new())?;
        let number = self.next;
        self.next += 1;
        let calls = (0..self.lanes.len()).map(|lane| self.ask(lane, number)).collect::<Result<_, _>>()?;
        let held = HeldRow { data, calls };
        if self.replies.have_come(&held) {
            self.complete(number);
        }
        self.rows.insert(number, held);
        Ok(())
    }

    /// The call of a lane for the row that arrived last: a new one, or one with the same request.
    /// `None` if a column is NULL.
    fn ask(&mut self, lane: usize, row: u64) -> Result<Option<usize>, Error> {
        let (call, values) = (&self.plan.calls[lane], &self.values);
        let of_lane = &mut self.lanes[lane];
        if of_lane.columns.iter().any(|&column| values[column] == ParamValue::Null) {
            return Ok(None);
        }
        let slot = |key, call, outcome| WindowCall { lane, row, rows: 1, key, call, outcome };
        let made = match of_lane.make(&self.plan, call, values) {
            Ok(made) => made,
            Err(error) => {
                let error = of_column(&self.plan, call, error)?;
                let outcome = CallOutcome::unmade(row, in_row(call, error)?);
                return Ok(Some(self.replies.add(slot(None, None, Some(outcome)))));
            }
        };
        if self.plan.form != ReplyForm::Enrich {
            let index = self.replies.add(slot(None, Some(made), None));
            of_lane.waiting.push_back(index);
            return Ok(Some(index));
        }
        let key: Arc<str> = of_lane.key(&made).into();
        if let Some(&index) = of_lane.known.get(&key)
            && let Some(shared) = self.replies.slot(index)
        {
            shared.rows += 1;
            return Ok(Some(index));
        }
        let index = self.replies.add(slot(Some(Arc::clone(&key)), Some(made), None));
        of_lane.known.insert(key, index);
        of_lane.waiting.push_back(index);
        Ok(Some(index))
    }

    /// Starts as many calls as may run.
    fn start(&mut self) {
        for (of_lane, call) in self.lanes.iter_mut().zip(&self.plan.calls) {
            let requests = &mut self.requests[call.upstream];
            let places = self.plan.places[call.upstream];
            while of_lane.running < call.concurrency && requests.in_flight < places {
                let Some(index) = of_lane.waiting.pop_front() else { break };
                let Some(slot) = self.replies.slot(index) else { continue };
                let Some(made) = slot.call.take() else { continue };
                of_lane.running += 1;
                requests.add();
                let (source, row, most) = (of_lane.source.clone(), slot.row, call.max_reply);
                let group = Arc::clone(&requests.group);
                let pointer = call.pointer.clone();
                self.running.push(Box::pin(async move {
                    let mut outcome = run(source, group, made, row, most).await;
                    if let Some(pointer) = pointer {
                        narrow(&mut outcome, &pointer);
                    }
                    (index, outcome)
                }));
            }
        }
    }

    /// Notes the outcome of a call.
    fn settle(&mut self, index: usize, mut outcome: CallOutcome) -> Result<(), Error> {
        let Some(slot) = self.replies.slot(index) else { return Ok(()) };
        let (lane, row) = (slot.lane, slot.row);
        let call = &self.plan.calls[lane];
        self.lanes[lane].running -= 1;
        self.requests[call.upstream].end();
        if let Some(error) = outcome.error.take() {
            // If no call got a slot in time, the response hasn't begun, so no row reports this
            // error. Once it has begun, calls wait without a time limit.
            let kept = if error.code() == POOL_TIMEOUT { Err(error) } else { in_row(call, error) };
            outcome.error = Some(kept?);
        }
        slot.outcome = Some(outcome);
        self.complete(row);
        Ok(())
    }

    /// Notes that all calls of a row have ended, if the plan makes one call for each row.
    fn complete(&mut self, row: u64) {
        if self.plan.form == ReplyForm::Each(Order::Completion) {
            self.complete.push_back(row);
        }
    }

    fn take_due(&mut self) -> Option<HeldRow> {
        if self.plan.form == ReplyForm::Each(Order::Completion) {
            return self.complete.pop_front().and_then(|row| self.rows.remove(&row));
        }
        let held = self.rows.get(&self.due)?;
        if !self.replies.have_come(held) {
            return None;
        }
        self.due += 1;
        self.rows.remove(&(self.due - 1))
    }
}

impl Lane {
    fn new(
        plan: &PerRowCalls,
        call: &RowCall,
        source: &Source,
        values: &[ParamValue],
    ) -> Result<Self, Error> {
        let own = source.own_fields();
        let [target, headers] = call.template.params();
        let parameters: Vec<_> =
            target.iter().chain(&headers).copied().filter(|name| *name < plan.params).collect();
        check_length(plan, values, &parameters)?;
        let is_column = |name: &usize| *name >= plan.params;
        let fields = match headers.iter().any(is_column) {
            true => None,
            false => {
                let filled = call.template.fill_headers(&Values { names: &plan.names, values, number: 0 })?;
                Some(with(&own, &filled))
            }
        };
        Ok(Self {
            source: source.clone(),
            own,
            fields,
            columns: target.into_iter().chain(headers).filter(is_column).collect(),
            known: HashMap::new(),
            waiting: VecDeque::new(),
            running: 0,
        })
    }

    /// The request with these values.
    ///
    /// # Errors
    /// 400: it names the parameter or the column whose value isn't allowed at its place.
    fn make(&self, plan: &PerRowCalls, call: &RowCall, values: &[ParamValue]) -> Result<Call, Error> {
        check_length(plan, values, &self.columns)?;
        let values = Values { names: &plan.names, values, number: 0 };
        let target = call.template.fill_target(&values)?;
        let headers = match &self.fields {
            Some(fields) => fields.clone(),
            None => with(&self.own, &call.template.fill_headers(&values)?),
        };
        Ok(Call { method: Method::GET, target, headers, body: None })
    }

    /// The text that identifies a request within the lane.
    fn key(&self, call: &Call) -> String {
        let mut key = call.target.clone();
        if self.fields.is_none() {
            // Neither the target nor a field can contain a line end.
            for value in call.headers.values() {
                key.push('\n');
                key.push_str(&String::from_utf8_lossy(value.as_bytes()));
            }
        }
        key
    }
}

/// Refuses values that make a request longer than servers accept.
fn check_length(plan: &PerRowCalls, values: &[ParamValue], names: &[usize]) -> Result<(), Error> {
    let length = |name: &usize| match &values[*name] {
        ParamValue::Text(text) => text.len(),
        value => value.postgres_text().map_or(0, |text| text.len()),
    };
    if names.iter().map(length).sum::<usize>() <= LONGEST {
        return Ok(());
    }
    let longest = names.iter().copied().max_by_key(length).unwrap_or_default();
    let message = format!("the values for a row's request have more than {LONGEST} bytes together");
    Err(Error::invalid_parameters(vec![(plan.names[longest].clone(), message)]))
}

fn with(own: &HeaderMap, filled: &HeaderMap) -> HeaderMap {
    let mut headers = own.clone();
    fields::put(&mut headers, filled);
    headers
}

/// Keeps only the part of a reply that the pointer selects.
fn narrow(outcome: &mut CallOutcome, pointer: &Pointer) {
    if outcome.error.is_some() {
        return;
    }
    let found = match &outcome.body {
        Some(ReplyText::Json(text)) => pointer.find(text).map(|found| found.map(str::to_owned)).ok(),
        Some(ReplyText::Plain(_)) | None => None,
    };
    match found {
        Some(found) => outcome.body = found.map(ReplyText::Json),
        None => {
            let message = "`at` points into a reply that isn't JSON";
            outcome.error = Some(Error::new("upstream_reply", StatusCode::BAD_GATEWAY, message));
        }
    }
}

/// The error for the row, if a column is the reason why no request could be made; otherwise it's
/// the response's error.
fn of_column(plan: &PerRowCalls, call: &RowCall, error: Error) -> Result<Error, Error> {
    match error.parameters() {
        [(name, message)] if plan.names[plan.params..].contains(name) => {
            let message =
                format!("column `{name}` can't be used in the request of `{}`: {message}", call.name);
            Ok(Error::new("upstream_request", StatusCode::INTERNAL_SERVER_ERROR, message))
        }
        _ => Err(error),
    }
}

/// The error of a call, if its row reports it; otherwise it's the response's error.
fn in_row(call: &RowCall, error: Error) -> Result<Error, Error> {
    match call.on_error {
        ErrorTreatment::Fail => Err(error),
        ErrorTreatment::Row => Ok(error),
    }
}
