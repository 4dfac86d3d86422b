//! HTTP/1.1: a connection that one request has at a time.
//!
//! hyper speaks the protocol. Its driver, which reads and writes the socket, is no task of its own but is polled by whoever waits
//! for the answer: nothing is read that nobody takes, and dropping the connection closes it.

use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker, ready};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body as _;
use hyper::body::Incoming;
use hyper::client::conn::http1::{Builder, Connection, SendRequest};
use hyper_util::rt::TokioIo;

use super::connect::Io;

/// The longest head of an answer, and what is read of a body at a time.
const BUFFER: usize = 32 * 1024;

/// What an idle connection takes: hyper's buffers, and those of TLS.
pub(super) const IDLE: usize = 64 * 1024;

/// A connection, between requests or in one.
pub(super) struct Http1 {
    sender: SendRequest<String>,
    /// `None` once it has ended: what it did not begin with is told so by its end.
    driver: Option<Connection<TokioIo<Box<dyn Io>>, String>>,
    opened: Instant,
    /// The number of its host: it serves no other.
    host: usize,
    /// The thread whose runtime waits for the socket.
    home: ThreadId,
}

impl Http1 {
    pub(super) async fn new(io: Box<dyn Io>, host: usize) -> hyper::Result<Self> {
        let (sender, driver) = Builder::new().max_buf_size(BUFFER).handshake(TokioIo::new(io)).await?;
        let (opened, home) = (Instant::now(), thread::current().id());
        Ok(Self { sender, driver: Some(driver), opened, host, home })
    }

    pub(super) fn host(&self) -> usize {
        self.host
    }

    /// Whether the runtime that runs now waits for its socket.
    pub(super) fn is_home(&self) -> bool {
        self.home == thread::current().id()
    }

    pub(super) fn age(&self) -> Duration {
        self.opened.elapsed()
    }

    /// Whether it can take a request: the upstream has closed nothing, as far as that is known.
    pub(super) fn is_ready(&mut self) -> bool {
        // Nobody waits for an idle connection.
        self.drive(&mut Context::from_waker(Waker::noop()));
        self.driver.is_some() && self.sender.is_ready()
    }

    fn drive(&mut self, cx: &mut Context<'_>) {
        drive(&mut self.driver, cx);
    }

    /// Sends a request, and waits for the head of its answer.
    pub(super) async fn send(&mut self, request: Request<String>) -> hyper::Result<Response<Incoming>> {
        let mut answer = pin!(self.sender.send_request(request));
        std::future::poll_fn(|cx| {
            if let Poll::Ready(answer) = answer.as_mut().poll(cx) {
                return Poll::Ready(answer);
            }
            drive(&mut self.driver, cx);
            answer.as_mut().poll(cx)
        })
        .await
    }

    /// The next bytes of the body of an answer that came on this connection.
    pub(super) fn poll_data(
        &mut self,
        body: &mut Incoming,
        cx: &mut Context<'_>,
    ) -> Poll<Option<hyper::Result<Bytes>>> {
        loop {
            let mut polled = Pin::new(&mut *body).poll_frame(cx);
            if polled.is_pending() {
                self.drive(cx);
                polled = Pin::new(&mut *body).poll_frame(cx);
            }
            match ready!(polled) {
                None => return Poll::Ready(None),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                // Trailers are not handed on.
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) if !data.is_empty() => return Poll::Ready(Some(Ok(data))),
                    _ => {}
                },
            }
        }
    }
}

/// Polls the driver, unless it has ended. What ended it is told to whoever waits for the answer.
fn drive(driver: &mut Option<Connection<TokioIo<Box<dyn Io>>, String>>, cx: &mut Context<'_>) {
    if driver.as_mut().is_some_and(|driver| Pin::new(driver).poll(cx).is_ready()) {
        *driver = None;
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// An upstream closed a connection that was idle, after that was found ready and before the request was written. hyper's driver
    /// ends then without having looked at the request, which waited for its time-out.
    #[tokio::test]
    async fn a_connection_that_ends_tells_the_request_that_it_did_not_begin_with() {
        let (near, mut far) = tokio::io::duplex(1024);
        let mut connection = Http1::new(Box::new(near), 0).await.unwrap();
        let answer = async {
            far.read_u8().await.unwrap();
            far.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.unwrap();
        };
        let (answered, ()) = tokio::join!(connection.send(Request::new(String::new())), answer);
        assert_eq!(answered.unwrap().status(), 204);
        assert!(connection.is_ready());
        drop(far);
        let sent =
            tokio::time::timeout(Duration::from_secs(20), connection.send(Request::new(String::new())));
        let error = sent.await.expect("it is told").expect_err("there is no answer");
        assert!(error.is_canceled(), "{error}");
    }
}
