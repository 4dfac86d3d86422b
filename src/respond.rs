//! One request to one response: route, authorize, negotiate, bind, admit, and hold the headers
//! until the first chunk.
//!
//! Requests share an [`App`]. An [`Exchange`] answers one of them, and an
//! [`AdmittedRequest`](run::AdmittedRequest) runs its statements.
//!
//! An error on this path becomes a problem document with its real status. After the headers, an
//! error can only abort the response, which [`ResponseBody`] does: hyper closes the connection
//! (HTTP/1.1: without a last chunk) or resets the stream (HTTP/2).

mod admin;
mod app;
mod arrival;
mod body;
mod columns;
mod console;
mod cors;
mod documents;
mod exchange;
mod follow;
mod head;
mod hold;
mod host;
mod index;
mod last;
mod opening;
pub(crate) mod probe;
mod proxy;
mod range;
mod refine;
mod request;
mod request_body;
mod run;
mod signed;
mod spare;
mod streaming;
mod tracker;
mod unread;
mod wire;

use std::error::Error as StdError;
use std::net::IpAddr;
use std::sync::Arc;

use bytes::{Buf, Bytes};
use futures_util::future::Either;
use http::{Method, Request, Response, Version, header};
use http_body::Body;
use rowstream_core::Error;
use rowstream_core::client::UNIX;

use self::admin::holder;
pub(crate) use self::admin::is_check;
pub use self::app::App;
pub use self::arrival::Arrival;
use self::body::AnswerBody;
pub use self::body::{AbortError, ResponseBody};
use self::exchange::Exchange;
use self::head::{complete_head, problem};
pub(crate) use self::request::PlanAsJson;
pub(crate) use self::request_body::has_body;
use self::signed::SentSignature;
pub(crate) use self::signed::take_signature;
use self::tracker::RequestTracker;
use crate::access_log::{LogEntry, LogNames};
use crate::admission::Permit;
use crate::metrics::{ExemplarIds, Meter, Subject};
use crate::outcome::Outcome;

impl App {
    /// Answers a request. Its memory is reserved now, before the future is polled, because many
    /// requests may arrive at the same time.
    pub fn respond<B: Body<Data: Buf, Error: StdError + 'static> + Unpin>(
        self: Arc<Self>,
        arrival: Arrival,
        request: Request<B>,
    ) -> impl Future<Output = Response<ResponseBody>> + use<B> {
        self.respond_unless(None, arrival, request)
    }

    /// Answers a request, or refuses it.
    pub(crate) fn respond_unless<B: Body<Data: Buf, Error: StdError + 'static> + Unpin>(
        self: Arc<Self>,
        refused: Option<Error>,
        arrival: Arrival,
        mut request: Request<B>,
    ) -> impl Future<Output = Response<ResponseBody>> + use<B> {
        if let Some(signature) = take_signature(request.uri_mut()) {
            request.extensions_mut().insert(SentSignature(signature));
        }
        let (head, body) = request.into_parts();
        let mut request = Request::from_parts(head, arrival);
        let proxies = &self.config.limits.proxies;
        let held = match refused {
            Some(error) => Err(error),
            None => self.admission.hold(holder(&request), || arrival::network(proxies, &request)),
        };
        // A connection has room for one check.
        let is_lone_check = is_check(&request) && request.body().is_alone;
        let held = held.or_else(|error| if is_lone_check { Ok(None) } else { Err(error) });
        // Boxed here, so that the request is moved as few times as possible.
        match held {
            Ok(held) => Either::Left(Box::pin(respond_within(self, request, body, held))),
            Err(error) => Either::Right(Box::pin(async move {
                let response = respond_without_room(&self, &mut request, error);
                // It must not be closed before the answer.
                drop(body);
                response
            })),
        }
    }

    /// The answer to a request whose head can't be read. It's logged and counted like any other.
    pub(crate) fn refuse_unread(&self, version: Version, peer: IpAddr, error: Error) -> Response<Bytes> {
        let mut response = problem(&self.config, Subject::None, &error);
        complete_head(self.config.cors.as_ref(), None, response.headers_mut());
        let mut entry = LogEntry::unread(version, Some(peer).filter(|peer| *peer != UNIX));
        (entry.status, entry.bytes) = (Some(response.status()), response.body().len() as u64);
        let (outcome, ids) = (Outcome::Failed(error), ExemplarIds { trace: None, stream: None });
        Meter::new(version).end(self.series(Subject::None), &entry, &outcome, ids);
        entry.end(&self.config.log, &outcome, LogNames::default);
        response
    }
}

#[expect(clippy::manual_async_fn, reason = "an `async fn` stores its arguments twice")]
fn respond_within<B: Body<Data: Buf, Error: StdError + 'static> + Unpin>(
    app: Arc<App>,
    mut request: Request<Arrival>,
    mut body: B,
    held: Option<Permit>,
) -> impl Future<Output = Response<ResponseBody>> + use<B> {
    async move {
        let cors = app.config.cors.as_ref();
        let origin = cors::origin(cors, &request);
        let mut tracker = RequestTracker::new(Arc::clone(&app), &request, held);
        let mut exchange = Exchange { app: &app, request: &mut request, tracker: &mut tracker };
        let mut response = match exchange.answer(&mut body).await {
            Ok(response) => response,
            Err(error) => {
                let error = error.in_detail(app.detail);
                problem(&app.config, tracker.meter.subject, &error)
                    .map(|bytes| tracker.fail_before_head(error, bytes))
            }
        };
        // A client that has left sees no status.
        if !matches!(tracker.outcome, Some(Outcome::Aborted)) {
            tracker.entry.status = Some(response.status());
        }
        tracker.note_head();
        tracker.tell_timing(response.headers_mut());
        if let Some(rates) = &app.rates {
            rates.tell(&tracker.quotas, response.headers_mut());
        }
        complete_head(cors, origin.as_ref(), response.headers_mut());
        if tracker.is_signed {
            signed::keep_private(response.headers_mut());
        }
        if *request.method() == Method::HEAD {
            *response.body_mut() = AnswerBody::Nothing;
        }
        response.map(|answer| ResponseBody::new(answer, tracker))
    }
}

/// The answer to a request when there's no room for it. Over HTTP/2 and HTTP/3 it has no body
/// if many such answers wait, because a client that opens no window would leave them unread
/// too.
fn respond_without_room(
    app: &Arc<App>,
    request: &mut Request<Arrival>,
    error: Error,
) -> Response<ResponseBody> {
    let (held, has_room) = app.admission.hold_short(arrival::network(&app.config.limits.proxies, request));
    let is_told = has_room || request.version() < Version::HTTP_2;
    let mut tracker = RequestTracker::new(Arc::clone(app), request, held);
    let mut exchange = Exchange { app, request, tracker: &mut tracker };
    let answered = exchange.answer_without_room().unwrap_or(Err(error));
    let mut response = answered.unwrap_or_else(|error| {
        problem(&app.config, tracker.meter.subject, &error)
            .map(|bytes| tracker.fail_before_head(error, bytes))
    });
    tracker.entry.status = Some(response.status());
    let cors = app.config.cors.as_ref();
    complete_head(cors, cors::origin(cors, request).as_ref(), response.headers_mut());
    if tracker.is_signed {
        signed::keep_private(response.headers_mut());
    }
    if !is_told {
        *response.body_mut() = AnswerBody::Nothing;
        response.headers_mut().remove(header::CONTENT_TYPE);
    }
    response.map(|answer| ResponseBody::new(answer, tracker))
}
