//! A response of an upstream: its head, and a body that's read only when it's polled.
//!
//! The body keeps its slot of the pool, and its connection if that's HTTP/1.1. Both are returned
//! after the last byte. If a body is dropped before, that closes the connection or resets the
//! stream, and frees the slot.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Method, StatusCode, Version, header};
use http_body::Body as _;
use rowstream_core::Error;
use tokio::time::Sleep;

use super::host::IncomingBody;
use super::http1::{Http1, IdleState};
use super::http2::{self, Slot};
use super::{Call, RequestLease, Source, error, fields};

/// The connection or stream of a request.
pub(super) enum Carrier {
    Http1(Box<Http1>),
    Http2(Slot),
}

/// A body, and its connection or stream until that's returned.
pub(super) struct Body {
    pub(super) carrier: Option<Carrier>,
    pub(super) incoming: IncomingBody,
}

/// A response whose body is still arriving.
pub struct Reply {
    /// The status and the header fields.
    pub head: http::response::Parts,
    body: Body,
    /// Bytes that were read before the body was polled.
    first: Option<Bytes>,
    is_to_head: bool,
    place: Option<RequestLease>,
    host: usize,
    source: Source,
    /// The time limit: the time when it ends, and its length.
    deadline: Option<(Pin<Box<Sleep>>, Duration)>,
}

impl Reply {
    /// The response to a request that began at `begun`.
    ///
    /// # Errors
    /// 502 if it's a redirect, if it doesn't fit the request, or if its end couldn't be told from a
    /// broken connection.
    pub(super) fn new(
        head: http::response::Parts,
        body: Body,
        place: RequestLease,
        source: &Source,
        call: &Call,
        begun: Instant,
    ) -> Result<Self, Error> {
        if head.status.is_redirection() && head.headers.contains_key(header::LOCATION) {
            let location = head.headers.get(header::LOCATION).and_then(|location| location.to_str().ok());
            return Err(error::redirect(source.name(), head.status, location));
        }
        if let Some(what) = source.unasked(head.status, call) {
            return Err(error::unasked(source.name(), head.status, what));
        }
        if head.version != Version::HTTP_2 && !body.incoming.is_over() && !tells_end(&head) {
            return Err(error::endless(source.name()));
        }
        let total = source.shared.settings.timeouts.total;
        let deadline = total.map(|total| (Box::pin(tokio::time::sleep_until((begun + total).into())), total));
        let host = place.host();
        let (source, is_to_head) = (source.clone(), call.method == Method::HEAD);
        let mut reply =
            Self { head, body, first: None, is_to_head, place: Some(place), host, source, deadline };
        if reply.body.incoming.is_over() {
            reply.give_back()?;
        }
        Ok(reply)
    }

    /// The next bytes of the body. `None` after the last byte of a complete body.
    ///
    /// # Errors
    /// 502 if it's truncated, 504 if it's late.
    pub fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(first)));
        }
        let Some(carrier) = &mut self.body.carrier else { return Poll::Ready(None) };
        let polled = match (carrier, &mut self.body.incoming) {
            (Carrier::Http1(connection), IncomingBody::Http1(body)) => {
                connection.poll_data(body, cx).map_err(|cause| error::broken(self.source.name(), cause))
            }
            (Carrier::Http2(_), IncomingBody::Http2(body)) => {
                http2::poll_data(body, cx).map_err(|cause| error::broken(self.source.name(), cause))
            }
            _ => {
                Poll::Ready(Some(Err(error::broken(self.source.name(), "it arrived on another connection"))))
            }
        };
        if polled.is_pending() {
            return self.poll_deadline(cx).map(|error| Some(Err(error)));
        }
        // A caller that has the last byte may not poll again.
        if self.body.incoming.is_over() || matches!(polled, Poll::Ready(None)) {
            self.give_back()?;
        }
        polled
    }

    /// Waits for the first bytes of a response that claims to be JSON, before any of it is passed
    /// on: it can't be empty.
    ///
    /// # Errors
    /// 502 if it's empty, and those of [`Reply::poll_data`].
    pub async fn begin(&mut self) -> Result<(), Error> {
        if !self.must_have_json() {
            return Ok(());
        }
        match std::future::poll_fn(|cx| self.poll_data(cx)).await {
            Some(first) => self.first = Some(first?),
            None => return self.ended_empty(),
        }
        Ok(())
    }

    /// Checks a response that ended without a byte.
    ///
    /// # Errors
    /// 502 if it claims to be JSON.
    pub fn ended_empty(&self) -> Result<(), Error> {
        if self.must_have_json() { Err(error::empty(self.source.name())) } else { Ok(()) }
    }

    /// Returns true if it claims to be JSON, and its status implies a body. Then an empty body is
    /// an error.
    fn must_have_json(&self) -> bool {
        let has_body = !matches!(self.head.status, StatusCode::NO_CONTENT | StatusCode::RESET_CONTENT);
        self.head.status.is_success() && has_body && !self.is_to_head && fields::is_json(&self.head.headers)
    }

    fn poll_deadline(&mut self, cx: &mut Context<'_>) -> Poll<Error> {
        let Some((sleep, total)) = &mut self.deadline else { return Poll::Pending };
        ready!(sleep.as_mut().poll(cx));
        Poll::Ready(error::no_end(self.source.name(), *total))
    }

    /// The number of the host that sent it.
    pub fn host(&self) -> usize {
        self.host
    }

    /// Returns true if the last byte was read.
    pub fn is_over(&self) -> bool {
        self.body.carrier.is_none() && self.first.is_none()
    }

    /// Ends the body: returns its slot, and also its connection if another request can use it.
    ///
    /// # Errors
    /// 502 if unexpected bytes follow, and this response may itself have been the one to an earlier
    /// request.
    fn give_back(&mut self) -> Result<(), Error> {
        let (carrier, place) = (self.body.carrier.take(), self.place.take());
        let (Some(Carrier::Http1(mut connection)), Some(place)) = (carrier, place) else { return Ok(()) };
        match connection.rest() {
            IdleState::Ready => place.give_back(connection),
            IdleState::Surplus if connection.is_reused() => {
                return Err(error::broken(
                    self.source.name(),
                    "its connection has delivered more answers than requests",
                ));
            }
            IdleState::Surplus | IdleState::Over => {}
        }
        Ok(())
    }
}

impl Source {
    /// Describes a response that doesn't fit its request. `None` if it does.
    fn unasked(&self, status: StatusCode, call: &Call) -> Option<&'static str> {
        match status {
            StatusCode::PARTIAL_CONTENT if !call.headers.contains_key(header::RANGE) && !self.has_range() => {
                Some("a part of its content")
            }
            // 103 and similar ones precede a response, and the HTTP library skips them.
            _ if status.is_informational() => Some("another protocol"),
            _ => None,
        }
    }

    /// Returns true if the source's own header fields ask for a part.
    fn has_range(&self) -> bool {
        self.shared.settings.headers.iter().any(|(name, _)| name == header::RANGE)
    }
}

impl IncomingBody {
    fn is_over(&self) -> bool {
        match self {
            Self::Http1(body) => body.is_end_stream(),
            Self::Http2(body) => body.is_end_stream(),
        }
    }
}

/// Returns true if the framing of an HTTP/1 response marks its end. A transfer coding other than
/// chunks, which we never decode, ends with its connection (RFC 9112, section 6.3).
fn tells_end(head: &http::response::Parts) -> bool {
    let mut codings = head.headers.get_all(header::TRANSFER_ENCODING).iter();
    match (codings.next(), codings.next()) {
        (None, _) => head.headers.contains_key(header::CONTENT_LENGTH),
        (Some(coding), None) => coding.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked"),
        (Some(_), Some(_)) => false,
    }
}
