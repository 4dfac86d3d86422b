//! Runs statements up to the first chunk, or to the end if the client waits for that.

use std::borrow::Cow;
use std::ops::ControlFlow;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Response, header};
use rowstream_core::Error;
use rowstream_core::client::Client;
use rowstream_core::error::SOURCE_UNAVAILABLE;
use rowstream_core::lock::Mutex;
use rowstream_core::params::ParamValue;
use rowstream_core::pool::Waiter;

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
use crate::spool::whole;
use crate::stream::{self, Heartbeat, LookedUpRow, LookupResult, RowStream, RowsRequest};

/// A whole answer up to this length fits the buffers on its path, so no client can hold it up.
const LARGE: usize = 64 * 1024;

impl App {
    /// The most memory that a stream may use, in bytes; 0 if memory has no limit.
    pub(super) fn budget(&self, request: &StreamRequest<'_>) -> usize {
        if self.config.limits.memory.is_none() {
            return 0;
        }
        let source = self.config.source(&request.endpoint.source);
        let budget =
            memory::budget(request.endpoint, source, request.reading.format, request.coding(STREAMED));
        budget + if request.waits().is_some() { whole::IN_MEMORY } else { 0 }
    }

    /// Answers a request that was admitted. From now on the watchdog ends the answer if it takes
    /// too long or its client is too slow.
    pub(super) async fn answer_stream(
        &self,
        request: StreamRequest<'_>,
        tracker: &mut RequestTracker,
        mut begun: Instant,
        looked_up: Option<Box<LookupResult>>,
    ) -> Result<Response<AnswerBody>, Error> {
        let (total, slow_clients) = (request.timeout().total, request.endpoint.response.slow_clients);
        let answer = self.run(request, tracker, &mut begun, looked_up).await?;
        limit(tracker, &answer, begun, total);
        let comes_in_chunks = matches!(answer.body(), AnswerBody::Stream(_) | AnswerBody::File(_));
        if let (true, SlowClients::MinRate(rate)) = (comes_in_chunks, slow_clients) {
            tracker.watchdog.set_min_rate(rate);
        }
        Ok(answer)
    }

    /// Breaks with the answer of a lookup that failed, or whose row is the whole answer. Continues
    /// with the result of any other lookup.
    pub(super) fn answer_lookup(
        &self,
        request: &StreamRequest<'_>,
        tracker: &mut RequestTracker,
        begun: Instant,
        looked_up: Result<Option<LookupResult>, Error>,
    ) -> ControlFlow<Result<Response<AnswerBody>, Error>, Option<Box<LookupResult>>> {
        let looked_up = match looked_up {
            Ok(Some(LookupResult::Row(mut row))) => {
                match self.answer_row(request, tracker, begun, &mut row) {
                    Some(answer) => return ControlFlow::Break(answer),
                    None => Some(LookupResult::Row(row)),
                }
            }
            Ok(looked_up) => looked_up,
            Err(error) => return ControlFlow::Break(Err(error)),
        };
        ControlFlow::Continue(looked_up.map(Box::new))
    }

    /// Answers a lookup whose row has arrived; `None` if its answer needs more than the row.
    fn answer_row(
        &self,
        request: &StreamRequest<'_>,
        tracker: &mut RequestTracker,
        begun: Instant,
        row: &mut LookedUpRow,
    ) -> Option<Result<Response<AnswerBody>, Error>> {
        if request.asked.framed.is_some() {
            return None;
        }
        let written = row.body(request.endpoint, &request.reading)?;
        tracker.entry.times = row.times();
        tracker.meter.first_row(&row.times());
        let answer = written.and_then(|(body, rows)| {
            tracker.entry.rows = RowCounts::of(rows);
            let answer = whole_body(request, body, |took| {
                row.compressed(took);
                tracker.entry.times = row.times();
            })?;
            limit(tracker, &answer, begun, request.timeout().total);
            Ok(answer)
        });
        Some(answer)
    }

    /// The statement of a request that is one lookup, which runs before everything else. With
    /// several hosts it doesn't, because another host may have to be tried with all its state.
    pub(super) fn lookup<'a>(&self, request: &StreamRequest<'a>) -> Option<&'a Statement> {
        let has_one = self.source(&request.endpoint.source).hosts() == 1;
        let wanted = || stream::lookup(request.endpoint, &request.reading);
        (has_one && request.followed == FollowMode::No).then(wanted).flatten()
    }

    /// Looks up the row of [a lookup](Self::lookup). Nothing else is created before that, because a
    /// thousand lookups may wait.
    pub(super) async fn look_up(
        &self,
        request: &StreamRequest<'_>,
        statement: &Statement,
        waiter: &Waiter,
        begun: Instant,
    ) -> Result<LookupResult, Error> {
        let source = self.source_as(&request.endpoint.source, request.actor.as_ref())?;
        let looked_up = stream::look_up(waiter.begun(begun.into()), &source, statement, &request.values);
        request.timeout().until_row(begun, pin!(looked_up)).await
    }

    /// Runs the statements up to the first chunk, or to the end if the client waits for that.
    async fn run(
        &self,
        mut request: StreamRequest<'_>,
        tracker: &mut RequestTracker,
        begun: &mut Instant,
        looked_up: Option<Box<LookupResult>>,
    ) -> Result<Response<AnswerBody>, Error> {
        let timeout = request.timeout();
        let values = std::mem::take(&mut request.values);
        let (mut stream, first) = match request.followed {
            // Boxed, like everything that few requests need, so that other requests don't carry its
            // state.
            FollowMode::ByLongPoll => Box::pin(self.long_poll(&request, &values, tracker, begun)).await?,
            FollowMode::No | FollowMode::Continuously => {
                match self.source(&request.endpoint.source).hosts() {
                    1 => {
                        let opened = pin!(self.open(&request, values, tracker, looked_up));
                        timeout.until_row(*begun, opened).await?
                    }
                    hosts => {
                        let opened = self.open_at_one_of(hosts, &request, values, tracker);
                        timeout.until_row(*begun, Box::pin(opened)).await?
                    }
                }
            }
        };
        if request.endpoint.has_only_total() {
            let mut response = head(&request, request.coding(STREAMED));
            tell_total(&request, &stream, response.headers_mut());
            return Ok(response.map(|()| AnswerBody::Nothing));
        }
        if stream.is_done() && stream.rows() == 0 && request.ends_events() {
            return Ok(no_more_events());
        }
        if stream.is_done() {
            return whole(&request, first, &mut stream, tracker);
        }
        let coding = request.coding(STREAMED);
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
            let held = Box::pin(self.hold(&request, waits, coding, streaming, tracker));
            return timeout.until_end(*begun, held).await;
        }
        self.begin_stream(&request, coding, streaming, tracker)
    }

    /// Begins the statements like [`open`](Self::open). If a host fails before the first chunk,
    /// tries another one, which is safe because statements only read.
    async fn open_at_one_of(
        &self,
        hosts: usize,
        request: &StreamRequest<'_>,
        values: Vec<ParamValue>,
        tracker: &mut RequestTracker,
    ) -> Result<(RowStream, Bytes), Error> {
        for _ in 1..hosts {
            match self.open(request, values.clone(), tracker, None).await {
                Err(error) if error.code() == SOURCE_UNAVAILABLE => {}
                opened => return opened,
            }
        }
        self.open(request, values, tracker, None).await
    }

    /// Begins the statements, and waits for the first chunk.
    pub(super) async fn open(
        &self,
        request: &StreamRequest<'_>,
        values: Vec<ParamValue>,
        tracker: &mut RequestTracker,
        looked_up: Option<Box<LookupResult>>,
    ) -> Result<(RowStream, Bytes), Error> {
        let source = self.source(&request.endpoint.source);
        let client = tracker.waiter.client();
        let upstream = match source {
            Source::Upstream(source) => {
                Some(Source::Upstream(source.on_behalf_of(client, request.forwarded())))
            }
            Source::Database(_) => None,
        };
        let source = match upstream {
            Some(upstream) => Cow::Owned(upstream),
            None => self.source_as(&request.endpoint.source, request.actor.as_ref())?,
        };
        let source = &*source;
        let follower = match request.followed {
            FollowMode::Continuously => Some(Box::pin(self.follower(request, &values, tracker)).await?),
            FollowMode::No | FollowMode::ByLongPoll => None,
        };
        let reading = RowsRequest { upstreams: self.upstreams(client, request)?, ..request.reading.clone() };
        let turn = if request.followed == FollowMode::No { None } else { source.turn().await };
        let mut stream =
            RowStream::open_for(&tracker.waiter, request.endpoint, source, reading, values, looked_up)
                .await?;
        stream.tell(self.detail, request.given());
        drop(turn);
        let heartbeat = Heartbeat::of(request.reading.format, request.endpoint.response.heartbeat);
        if let Some(follower) = follower {
            stream.follow(follower, heartbeat);
        }
        if let Some((framing, tag)) = request.asked.framed {
            let frames = Frames::new(framing, tag, request.reading.options);
            stream.frame(frames, request.asked.digest, heartbeat);
        }
        let first = opening::first_chunk(&mut stream, tracker).await?;
        Ok((stream, first))
    }

    /// The upstreams that are called for each row, on behalf of a client.
    fn upstreams(
        &self,
        client: Client,
        request: &StreamRequest<'_>,
    ) -> Result<Box<[rowstream_upstream::Source]>, Error> {
        let Some(calls) = request.endpoint.per_row() else { return Ok(Box::default()) };
        let open = |source: &SourceRef| {
            Ok(self.source(source).upstream()?.on_behalf_of(client, request.forwarded()))
        };
        calls.sources.iter().map(open).collect()
    }

    /// An answer that is sent while its rows arrive. It has an id, and trailers if the client
    /// accepts them.
    pub(super) fn begin_stream(
        &self,
        request: &StreamRequest<'_>,
        coding: Option<Coding>,
        mut streaming: ActiveStream,
        tracker: &mut RequestTracker,
    ) -> Result<Response<AnswerBody>, Error> {
        let mut response = head(request, coding);
        let watchdog = Arc::downgrade(&tracker.watchdog);
        let stop = move |id| watchdog.upgrade().is_some_and(|watchdog| watchdog.stop(id));
        let (path, format, rows) =
            (&request.endpoint.path, request.reading.format.name(), streaming.stream.counts());
        let stream = self.state.streams.begin(path, format, rows, stop)?;
        tracker.watchdog.stream(stream.id());
        stream.id().tell(STREAM, response.headers_mut());
        tell_root(request, response.headers_mut());
        wire::correct(&streaming.stream, response.headers_mut());
        tracker.entry.stream = Some(stream.id());
        tracker.stream = Some(stream);
        tracker.meter.begin_stream(self.series(tracker.meter.subject));
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
        streaming.spill = self.spill(request);
        let spills = streaming.spill.is_some();
        let streaming = Arc::new(Mutex::new(streaming));
        if spills {
            tracker.watchdog.spill(Arc::downgrade(&streaming));
        }
        Ok(response.map(|()| AnswerBody::Stream(streaming)))
    }

    /// Spills the rows of a stream whose client is behind. An upstream's rows aren't spilled unless
    /// the endpoint says so, because no request waits long for the upstream's connections.
    fn spill(&self, request: &StreamRequest<'_>) -> Option<Box<Spill>> {
        let endpoint = request.endpoint;
        let (spills, spare) = match (endpoint.response.slow_clients, &endpoint.handler) {
            (SlowClients::Spill, _) => (SpillTime::WhenSlow, 0),
            (SlowClients::Hold | SlowClients::MinRate(_), Handler::Sql(_)) => {
                (SpillTime::WhenWanted, self.spilled_budget(request))
            }
            (SlowClients::Hold | SlowClients::MinRate(_), _) => return None,
        };
        let (settings, used) = (&self.config.limits.spooling, &self.state.spooled);
        Some(Box::new(Spill::new(spills, settings, used, Box::new(self.admission.spare(spare)))))
    }

    /// The additional memory of a stream once it's spilled, in bytes; 0 if memory has no limit.
    fn spilled_budget(&self, request: &StreamRequest<'_>) -> usize {
        if self.config.limits.memory.is_none() {
            return 0;
        }
        let source = self.config.source(&request.endpoint.source);
        memory::spilled(request.endpoint, source, request.reading.format)
    }
}

/// Gives the watchdog a time limit. An answer that fits the buffers on its path needs none.
fn limit(tracker: &RequestTracker, answer: &Response<AnswerBody>, begun: Instant, total: Option<Duration>) {
    let is_long = match answer.body() {
        AnswerBody::Stream(_) | AnswerBody::File(_) => true,
        AnswerBody::Whole(bytes) => bytes.len() > LARGE,
        _ => false,
    };
    if let Some(total) = total.filter(|_| is_long) {
        tracker.watchdog.limit(begun.into(), total);
    }
}

/// Answers with a result that is complete.
fn whole(
    request: &StreamRequest<'_>,
    body: Bytes,
    stream: &mut RowStream,
    tracker: &mut RequestTracker,
) -> Result<Response<AnswerBody>, Error> {
    let mut response = whole_body(request, body, |took| {
        stream.compressed(took);
        tracker.note(stream);
    })?;
    tell_page(request, stream, response.headers_mut());
    tell_total(request, stream, response.headers_mut());
    tell_parts(stream, response.headers_mut());
    Ok(response)
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

    /// The bytes of the future that `_call` makes.
    fn size_of<A, B, C, D, E, F: Future>(_call: impl FnOnce(A, B, C, D, E) -> F) -> usize {
        std::mem::size_of::<F>()
    }

    /// Each request moves its future. A lookup once moved ten kilobytes, most of them for opening a
    /// connection.
    #[test]
    fn what_a_request_carries_is_small() {
        let size = size_of(App::answer_stream);
        assert!(size <= 4 * 1024, "{size}");
    }

    /// For larger allocations, glibc searches its free memory, which costs several times as much.
    #[test]
    fn what_a_lookup_waits_in_is_small() {
        fn size_of_request<A, B, C, F: Future>(_call: impl FnOnce(A, B, C) -> F) -> usize {
            std::mem::size_of::<F>()
        }
        let sizes = [size_of_request(App::respond_within::<Incoming>), size_of(App::look_up)];
        assert!(sizes.iter().all(|size| *size <= 1000), "{sizes:?}");
    }
}
