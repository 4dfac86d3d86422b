//! Runs statements up to the first chunk, or to the end if the client waits for that.

use std::borrow::Cow;
use std::ops::ControlFlow;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, Response, header};
use rowstream_core::Error;
use rowstream_core::error::SOURCE_UNAVAILABLE;
use rowstream_core::lock::Mutex;
use rowstream_core::params::ParamValue;

use super::app::App;
use super::body::AnswerBody;
use super::head::{
    head, no_more_events, tell_digest, tell_if_empty, tell_page, tell_parts, tell_root, tell_total,
};
use super::request::{STREAMED, StreamRequest};
use super::streaming::{ActiveStream, ContentDigest};
use super::tracker::RequestTracker;
use super::{hold, opening, wire};
use crate::completeness::digest::Digest;
use crate::completeness::framing::Frames;
use crate::completeness::streams::STREAM;
use crate::completeness::trailers;
use crate::compress::{self, Coding, Compressor};
use crate::config::memory;
use crate::endpoint::{FollowMode, Handler, SlowClients, SourceRef, Statement};
use crate::outcome::RowCounts;
use crate::source::Source;
use crate::spool::spill::{Spill, SpillTime};
use crate::stream::{self, Heartbeat, LookedUpRow, LookupResult, RowStream, RowsRequest};

/// A whole answer up to this length fits the buffers on its path, so no client can hold it up.
const LARGE: usize = 64 * 1024;

/// An admitted request for rows. It runs the statements, and then holds their result or begins a stream.
pub(super) struct AdmittedRequest<'a> {
    pub(super) app: &'a App,
    pub(super) tracker: &'a mut RequestTracker,
    pub(super) request: &'a StreamRequest<'a>,
    /// The values of its parameters, until its statements have them.
    pub(super) values: Vec<ParamValue>,
    /// The query of its URL.
    pub(super) url_query: Option<&'a str>,
    /// When its time limits begin: at admission, or with the last reading of a long poll.
    pub(super) begun: Instant,
}

impl AdmittedRequest<'_> {
    /// Answers with the row of a lookup, or else with the rows of all statements.
    pub(super) async fn answer(&mut self) -> Result<Response<AnswerBody>, Error> {
        let looked_up = match self.lookup() {
            Some(lookup) => Some(Box::pin(self.look_up(lookup)).await?),
            None => None,
        };
        let looked_up = match self.answer_lookup(looked_up) {
            ControlFlow::Break(answer) => return answer,
            ControlFlow::Continue(looked_up) => looked_up,
        };
        // Boxed, so that lookups and idle connections don't carry the state of statements.
        Box::pin(self.answer_stream(looked_up)).await
    }

    /// The statement of a request that is one lookup, which runs before everything else. With
    /// several hosts it doesn't, because another host may have to be tried with all its state.
    fn lookup(&self) -> Option<&Statement> {
        let request = self.request;
        let has_one = self.app.source(&request.endpoint.source).hosts() == 1;
        let wanted = || stream::lookup(request.endpoint, &request.reading);
        (has_one && request.followed == FollowMode::No).then(wanted).flatten()
    }

    /// Looks up the row of [a lookup](Self::lookup). Nothing else is created before that, because a
    /// thousand lookups may wait.
    async fn look_up(&self, statement: &Statement) -> Result<LookupResult, Error> {
        let Self { app, request, begun, .. } = *self;
        let source = app.source_as(&request.endpoint.source, request.actor.as_ref())?;
        let patience = self.tracker.waiter.begun(begun.into());
        let looked_up = stream::look_up(patience, &source, statement, &self.values);
        request.timeout().until_row(begun, pin!(looked_up)).await
    }

    /// Breaks with the answer of a lookup whose row is the whole answer. Continues with the result
    /// of any other lookup.
    fn answer_lookup(
        &mut self,
        looked_up: Option<LookupResult>,
    ) -> ControlFlow<Result<Response<AnswerBody>, Error>, Option<Box<LookupResult>>> {
        let looked_up = match looked_up {
            Some(LookupResult::Row(mut row)) => match self.answer_row(&mut row) {
                Some(answer) => return ControlFlow::Break(answer),
                None => Some(LookupResult::Row(row)),
            },
            looked_up => looked_up,
        };
        ControlFlow::Continue(looked_up.map(Box::new))
    }

    /// Answers a lookup whose row has arrived; `None` if its answer needs more than the row.
    fn answer_row(&mut self, row: &mut LookedUpRow) -> Option<Result<Response<AnswerBody>, Error>> {
        let request = self.request;
        if request.asked.framed.is_some() {
            return None;
        }
        let written = row.body(request.endpoint, &request.reading)?;
        self.tracker.entry.times = row.times();
        self.tracker.meter.first_row(&row.times());
        let answer = written.and_then(|(body, rows)| {
            self.tracker.entry.rows = RowCounts::of(rows);
            let answer = whole_body(request, body, |took| {
                row.compressed(took);
                self.tracker.entry.times = row.times();
            })?;
            self.limit(&answer);
            Ok(answer)
        });
        Some(answer)
    }

    /// Runs the statements. From now on the watchdog ends the answer if it takes too long or its
    /// client is too slow.
    async fn answer_stream(
        &mut self,
        looked_up: Option<Box<LookupResult>>,
    ) -> Result<Response<AnswerBody>, Error> {
        let answer = self.run(looked_up).await?;
        self.limit(&answer);
        let comes_in_chunks = matches!(answer.body(), AnswerBody::Stream(_) | AnswerBody::File(_));
        if let (true, SlowClients::MinRate(rate)) =
            (comes_in_chunks, self.request.endpoint.response.slow_clients)
        {
            self.tracker.watchdog.set_min_rate(rate);
        }
        Ok(answer)
    }

    /// Gives the watchdog a time limit. An answer that fits the buffers on its path needs none.
    fn limit(&self, answer: &Response<AnswerBody>) {
        let is_long = match answer.body() {
            AnswerBody::Stream(_) | AnswerBody::File(_) => true,
            AnswerBody::Whole(bytes) => bytes.len() > LARGE,
            _ => false,
        };
        if let Some(total) = self.request.timeout().total.filter(|_| is_long) {
            self.tracker.watchdog.limit(self.begun.into(), total);
        }
    }

    /// Runs the statements up to the first chunk, or to the end if the client waits for that.
    async fn run(&mut self, looked_up: Option<Box<LookupResult>>) -> Result<Response<AnswerBody>, Error> {
        let Self { app, request, begun, .. } = *self;
        let timeout = request.timeout();
        let (mut stream, first) = match request.followed {
            // Boxed, like everything that few requests need, so that other requests don't carry its
            // state.
            FollowMode::ByLongPoll => Box::pin(self.long_poll()).await?,
            FollowMode::No | FollowMode::Continuously => {
                let values = std::mem::take(&mut self.values);
                match app.source(&request.endpoint.source).hosts() {
                    1 => timeout.until_row(begun, pin!(self.open(values, looked_up))).await?,
                    hosts => timeout.until_row(begun, Box::pin(self.open_at_one_of(hosts, values))).await?,
                }
            }
        };
        let coding = request.coding(STREAMED);
        if request.endpoint.has_only_total() {
            let mut response = head(request, coding);
            tell_total(request, &stream, response.headers_mut());
            return Ok(response.map(|()| AnswerBody::Nothing));
        }
        if stream.is_done() && stream.rows() == 0 && request.ends_events() {
            return Ok(no_more_events());
        }
        if stream.is_done() {
            return self.answer_whole(first, &mut stream);
        }
        let (first, compressor) = match coding {
            Some(coding) => (None, Some(Compressor::new(coding, first)?)),
            None => (Some(first), None),
        };
        let is_of_rows = compressor.is_none() && stream.has_digest();
        let digest = request.asked.digest.then(|| match is_of_rows {
            true => ContentDigest::OfRows,
            false => ContentDigest::OfSent(Box::default()),
        });
        let streaming = ActiveStream {
            ahead: None,
            first,
            stream,
            compressor,
            failed: None,
            spill: None,
            digest,
            trailers: false,
        };
        if let Some(waits) = request.waits() {
            let begun = self.begun;
            let held = Box::pin(self.hold(waits, coding, streaming));
            return timeout.until_end(begun, held).await;
        }
        self.begin_stream(coding, streaming)
    }

    /// Begins the statements like [`open`](Self::open). If a host fails before the first chunk,
    /// tries another one, which is safe because statements only read.
    async fn open_at_one_of(
        &mut self,
        hosts: usize,
        values: Vec<ParamValue>,
    ) -> Result<(RowStream, Bytes), Error> {
        for _ in 1..hosts {
            match self.open(values.clone(), None).await {
                Err(error) if error.code() == SOURCE_UNAVAILABLE => {}
                opened => return opened,
            }
        }
        self.open(values, None).await
    }

    /// Begins the statements, and waits for the first chunk.
    pub(super) async fn open(
        &mut self,
        values: Vec<ParamValue>,
        looked_up: Option<Box<LookupResult>>,
    ) -> Result<(RowStream, Bytes), Error> {
        let Self { app, request, .. } = *self;
        let source = app.source(&request.endpoint.source);
        let client = self.tracker.waiter.client();
        let upstream = match source {
            Source::Upstream(source) => {
                Some(Source::Upstream(source.on_behalf_of(client, request.forwarded())))
            }
            Source::Database(_) => None,
        };
        let source = match upstream {
            Some(upstream) => Cow::Owned(upstream),
            None => app.source_as(&request.endpoint.source, request.actor.as_ref())?,
        };
        let source = &*source;
        let follower = match request.followed {
            FollowMode::Continuously => Some(Box::pin(self.follower(&values)).await?),
            FollowMode::No | FollowMode::ByLongPoll => None,
        };
        let reading = RowsRequest { upstreams: self.upstreams()?, ..request.reading.clone() };
        let turn = if request.followed == FollowMode::No { None } else { source.turn().await };
        let waiter = &self.tracker.waiter;
        let mut stream =
            RowStream::open_for(waiter, request.endpoint, source, reading, values, looked_up).await?;
        stream.tell(app.detail, request.given());
        drop(turn);
        let heartbeat = Heartbeat::of(request.reading.format, request.endpoint.response.heartbeat);
        if let Some(follower) = follower {
            stream.follow(follower, heartbeat);
        }
        if let Some((framing, tag)) = request.asked.framed {
            let frames = Frames::new(framing, tag, request.reading.options);
            stream.frame(frames, request.asked.digest, heartbeat);
        }
        let first = opening::first_chunk(&mut stream, self.tracker).await?;
        Ok((stream, first))
    }

    /// The upstreams that are called for each row, on behalf of the client.
    fn upstreams(&self) -> Result<Box<[rowstream_upstream::Source]>, Error> {
        let Some(calls) = self.request.endpoint.per_row() else { return Ok(Box::default()) };
        let client = self.tracker.waiter.client();
        let open = |source: &SourceRef| {
            Ok(self.app.source(source).upstream()?.on_behalf_of(client, self.request.forwarded()))
        };
        calls.sources.iter().map(open).collect()
    }

    /// Answers with a result that is complete.
    fn answer_whole(&mut self, body: Bytes, stream: &mut RowStream) -> Result<Response<AnswerBody>, Error> {
        let mut response = whole_body(self.request, body, |took| {
            stream.compressed(took);
            self.tracker.note(stream);
        })?;
        self.tell_result(stream, response.headers_mut());
        Ok(response)
    }

    /// Adds the headers that are known after the last row.
    pub(super) fn tell_result(&self, stream: &RowStream, headers: &mut HeaderMap) {
        tell_page(self.url_query, stream, headers);
        tell_total(self.request, stream, headers);
        tell_parts(stream, headers);
    }

    /// An answer that is sent while its rows arrive. It has an id, and trailers if the client
    /// accepts them.
    pub(super) fn begin_stream(
        &mut self,
        coding: Option<Coding>,
        mut streaming: ActiveStream,
    ) -> Result<Response<AnswerBody>, Error> {
        let Self { app, request, .. } = *self;
        let spill = self.spill();
        let tracker = &mut *self.tracker;
        let mut response = head(request, coding);
        let watchdog = Arc::downgrade(&tracker.watchdog);
        let stop = move |id| watchdog.upgrade().is_some_and(|watchdog| watchdog.stop(id));
        let (path, format, rows) =
            (&request.endpoint.path, request.reading.format.name(), streaming.stream.counts());
        let stream = app.state.streams.begin(path, format, rows, stop)?;
        tracker.watchdog.stream(stream.id());
        stream.id().tell(STREAM, response.headers_mut());
        tell_root(request, response.headers_mut());
        wire::correct(&streaming.stream, response.headers_mut());
        tracker.entry.stream = Some(stream.id());
        tracker.stream = Some(stream);
        tracker.meter.begin_stream(app.series(tracker.meter.subject));
        tell_parts(&streaming.stream, response.headers_mut());
        tell_total(request, &streaming.stream, response.headers_mut());
        streaming.trailers = request.asked.trailers;
        if streaming.trailers {
            let stream = &streaming.stream;
            let next = stream.has_cursors() || stream.cursor().is_some();
            let page = request.page.is_some();
            let nested = rows.nested.is_some();
            let fields = trailers::TrailerFields { nested, next, page, digest: request.asked.digest };
            if let Some(names) = trailers::announcement(fields) {
                response.headers_mut().insert(header::TRAILER, names);
            }
        }
        hold::tell_streamed(request, &mut response);
        streaming.spill = spill;
        let spills = streaming.spill.is_some();
        let streaming = Arc::new(Mutex::new(streaming));
        if spills {
            tracker.watchdog.spill(Arc::downgrade(&streaming));
        }
        Ok(response.map(|()| AnswerBody::Stream(streaming)))
    }

    /// Spills the rows of a stream whose client is behind. An upstream's rows aren't spilled unless
    /// the endpoint says so, because no request waits long for the upstream's connections.
    fn spill(&self) -> Option<Box<Spill>> {
        let (app, endpoint) = (self.app, self.request.endpoint);
        let (spills, spare) = match (endpoint.response.slow_clients, &endpoint.handler) {
            (SlowClients::Spill, _) => (SpillTime::WhenSlow, 0),
            (SlowClients::Hold | SlowClients::MinRate(_), Handler::Sql(_)) => {
                (SpillTime::WhenWanted, self.spilled_budget())
            }
            (SlowClients::Hold | SlowClients::MinRate(_), _) => return None,
        };
        let (settings, used) = (&app.config.limits.spooling, &app.state.spooled);
        Some(Box::new(Spill::new(spills, settings, used, Box::new(app.admission.spare(spare)))))
    }

    /// The additional memory of a stream once it's spilled, in bytes; 0 if memory has no limit.
    fn spilled_budget(&self) -> usize {
        let (config, endpoint) = (&self.app.config, self.request.endpoint);
        if config.limits.memory.is_none() {
            return 0;
        }
        memory::spilled(endpoint, config.source(&endpoint.source), self.request.reading.format)
    }
}

/// Answers with this body. It's compressed if that's worthwhile, and `compressed` then gets the
/// time that this took.
fn whole_body(
    request: &StreamRequest<'_>,
    mut body: Bytes,
    compressed: impl FnOnce(Duration),
) -> Result<Response<AnswerBody>, Error> {
    let coding = request.coding(body.len());
    if let Some(coding) = coding {
        let begun = Instant::now();
        body = compress::whole(coding, &body)?;
        compressed(begun.elapsed());
    }
    let mut response = head(request, coding);
    tell_if_empty(response.headers_mut(), body.len() as u64);
    if request.asked.digest {
        tell_digest(response.headers_mut(), Some(&Digest::of(&body)));
    }
    Ok(response.map(|()| AnswerBody::Whole(body)))
}

#[cfg(test)]
mod tests {
    use hyper::body::Incoming;

    use super::*;
    use crate::respond::respond_within;

    /// The bytes of the future that `_call` makes.
    fn bytes<A, B, F: Future>(_call: impl FnOnce(A, B) -> F) -> usize {
        size_of::<F>()
    }

    /// Each request moves its future. A lookup once moved ten kilobytes, most of them for opening a
    /// connection.
    #[test]
    fn what_a_request_carries_is_small() {
        let size = bytes(AdmittedRequest::answer_stream);
        assert!(size <= 4 * 1024, "{size}");
    }

    /// For larger allocations, glibc searches its free memory, which costs several times as much.
    #[test]
    fn what_a_lookup_waits_in_is_small() {
        fn bytes_of_request<A, B, C, D, F: Future>(_call: impl FnOnce(A, B, C, D) -> F) -> usize {
            size_of::<F>()
        }
        let sizes = [bytes_of_request(respond_within::<Incoming>), bytes(AdmittedRequest::look_up)];
        assert!(sizes.iter().all(|size| *size <= 1000), "{sizes:?}");
    }
}
