//! An answer of an upstream: its head, and a body that is polled. What is not polled is not read.
//!
//! The body holds its place of the pool, and over HTTP/1.1 its connection. Both are given back at
//! its last byte; a body that is dropped before closes the connection, or resets the stream, and
//! frees the place.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Method, StatusCode, Version, header};
use http_body::Body as _;
use tokio::time::Sleep;

use super::host::Incoming;
use super::http1::{Http1, Rest};
use super::http2::{self, Slot};
use super::{Call, Lease, Source, error, fields};
use crate::Error;

/// What a request is sent on.
pub(super) enum Carrier {
    Http1(Box<Http1>),
    Http2(Slot),
}

/// A body with what it comes on, until that is given back.
pub(super) struct Body {
    pub(super) carrier: Option<Carrier>,
    pub(super) incoming: Incoming,
}

/// An answer whose body comes.
pub struct Reply {
    /// Status and header fields.
    pub head: http::response::Parts,
    body: Body,
    /// What was read of it before anyone has polled it.
    first: Option<Bytes>,
    is_to_head: bool,
    place: Option<Lease>,
    host: usize,
    source: Source,
    /// When it is late, and after how long.
    deadline: Option<(Pin<Box<Sleep>>, Duration)>,
}

impl Reply {
    /// The answer to a request that was `begun` then.
    ///
    /// # Errors
    /// 502 when it is a redirect, when it is one that nobody has asked for, or when its end could
    /// not be distinguished from a break.
    pub(super) fn new(
        head: http::response::Parts,
        body: Body,
        place: Lease,
        (source, call): (&Source, &Call),
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

    /// The next bytes of the body; `None` after the last of a whole one.
    ///
    /// # Errors
    /// 502 when it is truncated, 504 when it is late.
    pub fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(first)));
        }
        let Some(carrier) = &mut self.body.carrier else { return Poll::Ready(None) };
        let polled = match (carrier, &mut self.body.incoming) {
            (Carrier::Http1(connection), Incoming::Http1(body)) => {
                connection.poll_data(body, cx).map_err(|cause| error::broken(self.source.name(), cause))
            }
            (Carrier::Http2(_), Incoming::Http2(body)) => {
                http2::poll_data(body, cx).map_err(|cause| error::broken(self.source.name(), cause))
            }
            _ => Poll::Ready(Some(Err(error::broken(self.source.name(), "it came on another connection")))),
        };
        if polled.is_pending() {
            return self.poll_deadline(cx).map(|error| Some(Err(error)));
        }
        // Who has the last byte may not ask for more.
        if self.body.incoming.is_over() || matches!(polled, Poll::Ready(None)) {
            self.give_back()?;
        }
        polled
    }

    /// Waits for the first bytes of an answer that says that it is JSON, before anyone hears of
    /// it: then there have to be some.
    ///
    /// # Errors
    /// 502 where there are none; and as [`Reply::poll_data`].
    pub(crate) async fn begin(&mut self) -> Result<(), Error> {
        if !self.must_have_json() {
            return Ok(());
        }
        match std::future::poll_fn(|cx| self.poll_data(cx)).await {
            Some(first) => self.first = Some(first?),
            None => return self.ended_empty(),
        }
        Ok(())
    }

    /// It has ended without a byte.
    ///
    /// # Errors
    /// 502 where it says that it is JSON.
    pub(crate) fn ended_empty(&self) -> Result<(), Error> {
        if self.must_have_json() { Err(error::empty(self.source.name())) } else { Ok(()) }
    }

    /// Whether it says that it is JSON, and has a body by what HTTP says of its status: then it is
    /// one only with some.
    fn must_have_json(&self) -> bool {
        let has_body = !matches!(self.head.status, StatusCode::NO_CONTENT | StatusCode::RESET_CONTENT);
        self.head.status.is_success() && has_body && !self.is_to_head && fields::is_json(&self.head.headers)
    }

    fn poll_deadline(&mut self, cx: &mut Context<'_>) -> Poll<Error> {
        let Some((sleep, total)) = &mut self.deadline else { return Poll::Pending };
        ready!(sleep.as_mut().poll(cx));
        Poll::Ready(error::no_end(self.source.name(), *total))
    }

    /// Which host of the source it came from, by its number.
    pub(crate) fn host(&self) -> usize {
        self.host
    }

    /// Whether the last byte has come.
    pub fn is_over(&self) -> bool {
        self.body.carrier.is_none() && self.first.is_none()
    }

    /// Its body has come: another request may have the connection, if that is good for one, and the
    /// place.
    ///
    /// # Errors
    /// 502 when something follows that nobody has asked for, and it may have been the answer to an
    /// earlier request itself.
    fn give_back(&mut self) -> Result<(), Error> {
        let (carrier, place) = (self.body.carrier.take(), self.place.take());
        let (Some(Carrier::Http1(mut connection)), Some(place)) = (carrier, place) else { return Ok(()) };
        match connection.rest() {
            Rest::Ready => place.give_back(connection),
            Rest::Surplus if connection.is_reused() => {
                return Err(error::broken(
                    self.source.name(),
                    "more answers than requests have come on its connection",
                ));
            }
            Rest::Surplus | Rest::Over => {}
        }
        Ok(())
    }
}

impl Source {
    /// What an answer with this status is, where nobody has asked for it.
    fn unasked(&self, status: StatusCode, call: &Call) -> Option<&'static str> {
        match status {
            StatusCode::PARTIAL_CONTENT if !call.headers.contains_key(header::RANGE) && !self.has_range() => {
                Some("a part of what it has")
            }
            // 103 and its like come before an answer, and are skipped where it is read.
            _ if status.is_informational() => Some("another protocol"),
            _ => None,
        }
    }

    /// Whether its own header fields ask for a part.
    fn has_range(&self) -> bool {
        self.shared.settings.headers.iter().any(|(name, _)| name == header::RANGE)
    }
}

impl Incoming {
    fn is_over(&self) -> bool {
        match self {
            Self::Http1(body) => body.is_end_stream(),
            Self::Http2(body) => body.is_end_stream(),
        }
    }
}

/// Whether the framing of an HTTP/1 answer says where it ends: with a transfer coding other than
/// chunks, of which none is undone here, it ends with its connection (RFC 9112, section 6.3).
fn tells_end(head: &http::response::Parts) -> bool {
    let mut codings = head.headers.get_all(header::TRANSFER_ENCODING).iter();
    match (codings.next(), codings.next()) {
        (None, _) => head.headers.contains_key(header::CONTENT_LENGTH),
        (Some(coding), None) => coding.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked"),
        (Some(_), Some(_)) => false,
    }
}
