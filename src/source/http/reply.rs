//! An answer of an upstream: its head, and a body that is polled. What is not polled is not read.
//!
//! The body holds its place of the pool, and over HTTP/1.1 its connection. Both are given back at its last byte; a body that is
//! dropped before closes the connection, or resets the stream, and frees the place.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Version, header};
use http_body::Body as _;
use tokio::time::Sleep;

use super::host::Incoming;
use super::http1::Http1;
use super::http2::{self, Slot};
use super::{Place, Source, error};
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
    place: Option<Place>,
    host: usize,
    source: Source,
    /// When it is late, and after how long.
    deadline: Option<(Pin<Box<Sleep>>, Duration)>,
}

impl Reply {
    /// The answer to a request that was `begun` then.
    ///
    /// # Errors
    /// 502 when it leads elsewhere, or when its end could not be told from a break.
    pub(super) fn new(
        head: http::response::Parts,
        body: Body,
        place: Place,
        source: &Source,
        begun: Instant,
    ) -> Result<Self, Error> {
        if head.status.is_redirection() && head.headers.contains_key(header::LOCATION) {
            let location = head.headers.get(header::LOCATION).and_then(|location| location.to_str().ok());
            return Err(error::redirect(source.name(), head.status, location));
        }
        if head.version != Version::HTTP_2 && !body.incoming.is_over() && !tells_end(&head) {
            return Err(error::endless(source.name()));
        }
        let total = source.shared.settings.timeouts.total;
        let deadline = total.map(|total| (Box::pin(tokio::time::sleep_until((begun + total).into())), total));
        let host = place.host();
        let mut reply = Self { head, body, place: Some(place), host, source: source.clone(), deadline };
        if reply.body.incoming.is_over() {
            reply.give_back();
        }
        Ok(reply)
    }

    /// The next bytes of the body; `None` after the last of a whole one.
    ///
    /// # Errors
    /// 502 when it breaks off, 504 when it is late.
    pub fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>> {
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
            self.give_back();
        }
        polled
    }

    fn poll_deadline(&mut self, cx: &mut Context<'_>) -> Poll<Error> {
        let Some((sleep, total)) = &mut self.deadline else { return Poll::Pending };
        ready!(sleep.as_mut().poll(cx));
        Poll::Ready(error::no_end(self.source.name(), *total))
    }

    /// Which host of the source it came from, by its number.
    pub(super) fn host(&self) -> usize {
        self.host
    }

    /// Whether the last byte has come.
    pub fn is_over(&self) -> bool {
        self.body.carrier.is_none()
    }

    /// Its body has come: another request may have the connection, if that is good for one, and the place.
    fn give_back(&mut self) {
        let (carrier, place) = (self.body.carrier.take(), self.place.take());
        if let (Some(Carrier::Http1(mut connection)), Some(place)) = (carrier, place)
            && connection.is_ready()
        {
            place.give_back(connection);
        }
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

/// Whether the framing of an HTTP/1 answer says where it ends: with a transfer coding other than chunks, of which none is undone here, it
/// ends with its connection (RFC 9112, section 6.3).
fn tells_end(head: &http::response::Parts) -> bool {
    let mut codings = head.headers.get_all(header::TRANSFER_ENCODING).iter();
    match (codings.next(), codings.next()) {
        (None, _) => head.headers.contains_key(header::CONTENT_LENGTH),
        (Some(coding), None) => coding.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked"),
        (Some(_), Some(_)) => false,
    }
}
