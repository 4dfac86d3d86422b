//! Requests that wait for future rows: streams that stay open, and long polls.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use rowstream_core::Error;
use rowstream_core::params::{ParamValue, RequestValues};
use rowstream_core::pool::Waiter;
use rowstream_encode::Format;

use super::run::AdmittedRequest;
use crate::completeness::ProofRequest;
use crate::endpoint::{CouchFeed, Endpoint, FollowMode};
use crate::stream::notifier::{Subscription, WakeReason};
use crate::stream::{Follower, OpenedStatements, RowStream, RowsRequest, StreamOpening};

/// How long a long poll waits for its first row. Most proxies wait a minute for response headers,
/// and this is less.
const LONG_POLL: Duration = Duration::from_secs(30);

/// Reads if a request waits for rows. CouchDB's parameter for that also chooses a format, unless
/// the request chooses another.
///
/// # Errors
/// 400: the endpoint can't be followed, or both parameters are there.
pub(super) fn read(endpoint: &Endpoint, bound: &mut RequestValues) -> Result<FollowMode, Error> {
    let (name, followed) = match (bound.follow, bound.feed) {
        (None | Some(FollowMode::No), None) => return Ok(FollowMode::No),
        (Some(followed), None) => ("_follow", followed),
        (None, Some(feed)) => ("feed", feed.followed()),
        (Some(_), Some(_)) => return Err(wrong("feed", "`_follow` already selects it")),
    };
    if endpoint.follow().is_none() {
        let error = wrong(name, "this endpoint has no live tail");
        return Err(error.hint("request the rows after the last cursor again, if the endpoint has a `key`"));
    }
    if let (None, Some(format)) = (&bound.format, bound.feed.and_then(CouchFeed::format)) {
        bound.format = Some(format.name().to_owned());
    }
    Ok(followed)
}

/// Refuses to follow rows that have another order than that of the key, or another beginning, or
/// that are counted.
///
/// # Errors
/// 400: the request waits for rows.
pub(super) fn refuse(bound: &RequestValues) -> Result<(), Error> {
    let name = match (bound.follow, bound.feed) {
        (None | Some(FollowMode::No), None) => return Ok(()),
        (Some(_), _) => "_follow",
        (None, Some(_)) => "feed",
    };
    Err(wrong(
        name,
        "a live tail has the order of its key, and no total: leave out `order`, `offset` and `_count`",
    ))
}

/// Checks that a stream that stays open can do all that is requested.
///
/// # Errors
/// 400: the format or a parameter needs an end, which such a stream doesn't have.
pub(super) fn check(followed: FollowMode, format: Format, asked: &ProofRequest) -> Result<(), Error> {
    if followed != FollowMode::Continuously {
        return Ok(());
    }
    if asked.wait {
        return Err(wrong("_wait", "a live tail has no end to wait for"));
    }
    if stays_open(&format) {
        return Ok(());
    }
    let message = format!("`{}` can't stay open for new rows", format.name());
    Err(wrong("_follow", &message).hint("use `ndjson`, `sse` or `json-seq`, or a `longpoll`"))
}

/// The formats among which `Accept` chooses for a stream that stays open: those that can stay open,
/// if there are any.
pub(super) fn formats(endpoint: &Endpoint) -> Vec<Format> {
    let open: Vec<_> = endpoint.formats.iter().copied().filter(stays_open).collect();
    if open.is_empty() { endpoint.formats.clone() } else { open }
}

/// True if rows of the format are meaningful before its end.
fn stays_open(format: &Format) -> bool {
    match format {
        Format::Ndjson | Format::Sse | Format::JsonSeq => true,
        Format::Json | Format::Csv | Format::Arrow | Format::Html => false,
    }
}

fn wrong(name: &str, message: &str) -> Error {
    Error::invalid_parameters(vec![(name.to_owned(), message.to_owned())])
}

impl AdmittedRequest<'_> {
    /// Answers a long poll: with existing rows, or else with the first new ones, or with none after
    /// [`LONG_POLL`]. Time limits then begin with the last reading, because they don't count the wait.
    pub(super) async fn long_poll(&mut self) -> Result<(RowStream, Bytes), Error> {
        let deadline = tokio::time::Instant::now() + LONG_POLL;
        let mut subscription = self.subscribe().await?;
        loop {
            subscription.begin_reading();
            let (timeout, begun) = (self.request.endpoint.response.timeout, self.begun);
            let values = self.values.clone();
            let (stream, first) = timeout.until_row(begun, pin!(self.open(values, None))).await?;
            // The rows of other statements always exist.
            if !stream.is_done() || stream.has_moved() {
                return Ok((stream, first));
            }
            let wake = tokio::time::timeout_at(deadline, subscription.wake()).await;
            if wake.unwrap_or(Ok(WakeReason::Closing))? == WakeReason::Closing {
                return Ok((stream, first));
            }
            self.begun = Instant::now();
        }
    }

    /// The follower that brings the rows of a stream after the existing ones.
    pub(super) async fn follower(&mut self, values: &[ParamValue]) -> Result<Follower, Error> {
        let mut subscription = self.subscribe().await?;
        subscription.begin_reading();
        Ok(Follower::new(subscription, self.reopen(values)))
    }

    async fn subscribe(&mut self) -> Result<Subscription, Error> {
        let Self { app, request, .. } = *self;
        let follow = request.endpoint.follow().ok_or_else(|| wrong("_follow", "it cannot be followed"))?;
        let source = app.source(&request.endpoint.source).database()?;
        app.notifiers.subscribe(request.index, follow, source, app.state.closing.subscribe()).await
    }

    /// Repeats the reading of the request after a cursor. It outlives the request, and keeps the
    /// configuration with which it began.
    fn reopen(&self, values: &[ParamValue]) -> StreamOpening {
        let request = self.request;
        let (app, client) = (Arc::clone(&self.tracker.app), self.tracker.waiter.client());
        let actor = request.actor.clone();
        // That of a request with filters belongs to the request.
        let is_own = std::ptr::eq(request.endpoint, &app.config.endpoints[request.index]);
        let refined = (!is_own).then(|| Arc::new(request.endpoint.clone()));
        let (index, reading, values) = (request.index, request.reading.clone(), values.to_vec());
        Box::new(move |after| {
            let (app, actor, refined) = (Arc::clone(&app), actor.clone(), refined.clone());
            let (reading, values) = (RowsRequest { after, ..reading.clone() }, values.clone());
            Box::pin(async move {
                let endpoint = refined.as_deref().unwrap_or(&app.config.endpoints[index]);
                let source = app.source_as(&endpoint.source, actor.as_ref())?;
                OpenedStatements::open(&Waiter::new(client), endpoint, &source, &reading, values, None).await
            })
        })
    }
}
