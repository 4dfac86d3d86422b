//! Logs and counts requests with an unreadable head, and sends a problem document over HTTP/1.
//!
//! hyper answers such a head by itself, without a body, and doesn't call the service. It does so
//! only while no request of the connection is being answered, so nothing else is written then.
//! [`RefusingTransport`] recognizes that write and sends a problem document in its place. h2
//! answers 431 to a head that is too long, and doesn't report it.

use std::io::{self, IoSlice};
use std::net::IpAddr;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, Bytes};
use http::header::DATE;
use http::{Response, StatusCode, Version};
use rowstream_core::Error;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::date;
use super::reload::CurrentApp;
use super::transport::Transport;

/// The position of the status in hyper's head: after `HTTP/1.`, the minor version and a space.
const STATUS: Range<usize> = 2..5;

/// The transport of an HTTP/1 connection.
pub(super) struct RefusingTransport {
    transport: Transport,
    /// Boxed like the answer, because few connections need either.
    unread: Box<RequestRefuser>,
    /// Our answer in place of hyper's. It's the last one of its connection.
    answer: Option<Box<Bytes>>,
}

/// Refuses requests of one client.
pub(super) struct RequestRefuser {
    pub(super) current: Arc<CurrentApp>,
    pub(super) peer: IpAddr,
}

impl RequestRefuser {
    /// The response to a request that HTTP refuses with `status`.
    pub(super) fn refuse(&self, version: Version, status: StatusCode) -> Response<Bytes> {
        let error = match status {
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => Error::headers_too_long(),
            _ => Error::malformed_request(),
        };
        let mut response = self.current.get().refuse_unread(version, self.peer, error);
        response.headers_mut().insert(DATE, date::now());
        response
    }
}

impl RefusingTransport {
    pub(super) fn new(transport: Transport, unread: RequestRefuser) -> Self {
        Self { transport, unread: Box::new(unread), answer: None }
    }

    /// Replaces hyper's write if it's hyper's own answer. True if it was.
    fn replaces(&mut self, head: &[u8]) -> bool {
        if !self.transport.is_idle() {
            return false;
        }
        let head = head.strip_prefix(b"HTTP/1.");
        let status = head.and_then(|head| StatusCode::from_bytes(head.get(STATUS)?).ok());
        if let Some(status) = status {
            self.answer = Some(Box::new(written(&self.unread.refuse(Version::HTTP_11, status))));
        }
        status.is_some()
    }

    fn poll_answer(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(rest) = &mut self.answer {
            let bytes = ready!(Pin::new(&mut self.transport).poll_write(cx, rest))?;
            rest.advance(bytes);
            if !rest.has_remaining() {
                self.answer = None;
            }
        }
        Poll::Ready(Ok(()))
    }
}

/// The bytes of a response that closes its connection.
fn written(response: &Response<Bytes>) -> Bytes {
    let (status, body) = (response.status(), response.body());
    let length = body.len();
    let mut bytes =
        format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n").into_bytes();
    for (name, value) in response.headers() {
        bytes.extend([name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat());
    }
    bytes.extend([b"\r\n", &body[..]].concat());
    bytes.into()
}

impl AsyncRead for RefusingTransport {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.transport).poll_read(cx, buf)
    }
}

impl AsyncWrite for RefusingTransport {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.replaces(buf) {
            true => Poll::Ready(Ok(buf.len())),
            false => Pin::new(&mut self.transport).poll_write(cx, buf),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.replaces(bufs.first().map_or(&[][..], |head| head)) {
            true => Poll::Ready(Ok(bufs.iter().map(|buf| buf.len()).sum())),
            false => Pin::new(&mut self.transport).poll_write_vectored(cx, bufs),
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.transport.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_answer(cx))?;
        Pin::new(&mut self.transport).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_answer(cx))?;
        Pin::new(&mut self.transport).poll_shutdown(cx)
    }
}
