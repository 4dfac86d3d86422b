//! HTTP/1.1: a connection that serves one request at a time.
//!
//! hyper speaks the protocol. Its driver, which reads and writes the socket, isn't a task of its
//! own. The request that waits for the response polls it. So we read no bytes before they're
//! needed, and dropping the connection closes it.

use std::error::Error as _;
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

use super::connect::{Io, KernelReads};

/// The longest head of a response, and the size of a read from its body.
const BUFFER: usize = 32 * 1024;

/// The memory of an idle connection: hyper's buffers, and those of TLS.
pub(super) const IDLE: usize = 64 * 1024;

/// A connection, either idle or in a request.
pub(crate) struct Http1 {
    sender: SendRequest<String>,
    kernel_reads: KernelReads,
    /// The number of requests sent on it.
    sent: usize,
    driver: Driver,
    opened: Instant,
    /// The number of its host. It serves no other one.
    host: usize,
    /// The thread whose runtime waits for the socket.
    home: ThreadId,
}

impl Http1 {
    /// A connection on an opened socket. `looks` makes its reads ask the kernel.
    pub(super) async fn new(io: Box<dyn Io>, kernel_reads: KernelReads, host: usize) -> hyper::Result<Self> {
        let (sender, driver) = Builder::new().max_buf_size(BUFFER).handshake(TokioIo::new(io)).await?;
        let (opened, home) = (Instant::now(), thread::current().id());
        Ok(Self { sender, kernel_reads, sent: 0, driver: Driver::Runs(Box::new(driver)), opened, host, home })
    }

    pub(super) fn host(&self) -> usize {
        self.host
    }

    /// Returns true if the current runtime waits for its socket.
    pub(super) fn is_home(&self) -> bool {
        self.home == thread::current().id()
    }

    pub(super) fn age(&self) -> Duration {
        self.opened.elapsed()
    }

    /// Returns true if it can serve a request: the upstream hasn't closed it, and hasn't sent
    /// unexpected bytes.
    pub(super) fn is_ready(&mut self) -> bool {
        self.rest() == IdleState::Ready
    }

    /// The state of the connection between two requests.
    pub(super) fn rest(&mut self) -> IdleState {
        // No task waits for an idle connection, so there's none to wake.
        let guard = self.kernel_reads.begin();
        self.driver.poll(&mut Context::from_waker(Waker::noop()));
        drop(guard);
        match self.driver {
            Driver::Runs(_) if self.sender.is_ready() => IdleState::Ready,
            Driver::Runs(_) | Driver::Ended => IdleState::Over,
            Driver::Surplus => IdleState::Surplus,
        }
    }

    /// Returns true if the last request wasn't its first one. Then unexpected bytes may have been
    /// read as the response to that request.
    pub(super) fn is_reused(&self) -> bool {
        self.sent > 1
    }

    /// Sends a request, and waits for the head of its response.
    pub(super) async fn send(&mut self, request: Request<String>) -> hyper::Result<Response<Incoming>> {
        self.sent += 1;
        let mut answer = pin!(self.sender.send_request(request));
        std::future::poll_fn(|cx| {
            if let Poll::Ready(answer) = answer.as_mut().poll(cx) {
                return Poll::Ready(answer);
            }
            self.driver.poll(cx);
            answer.as_mut().poll(cx)
        })
        .await
    }

    /// The next bytes of the body of a response on this connection.
    pub(super) fn poll_data(
        &mut self,
        body: &mut Incoming,
        cx: &mut Context<'_>,
    ) -> Poll<Option<hyper::Result<Bytes>>> {
        loop {
            let mut polled = Pin::new(&mut *body).poll_frame(cx);
            if polled.is_pending() {
                self.driver.poll(cx);
                polled = Pin::new(&mut *body).poll_frame(cx);
            }
            match ready!(polled) {
                None => return Poll::Ready(None),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                // We don't pass on trailers.
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) if !data.is_empty() => return Poll::Ready(Some(Ok(data))),
                    _ => {}
                },
            }
        }
    }
}

/// The state of a connection between two requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IdleState {
    /// It can serve a request.
    Ready,
    /// It has ended, or can't be used again.
    Over,
    /// The upstream sent unexpected bytes. We can't know any longer which response belongs to which
    /// request.
    Surplus,
}

/// Reads and writes the socket.
enum Driver {
    Runs(Box<Connection<TokioIo<Box<dyn Io>>, String>>),
    /// Ended. A request that it didn't begin with fails because it's gone.
    Ended,
    /// Ended because of unexpected bytes.
    Surplus,
}

impl Driver {
    /// Polls the driver unless it has ended. If it ends, the request that waits for a response gets
    /// the error.
    fn poll(&mut self, cx: &mut Context<'_>) {
        let Self::Runs(connection) = self else { return };
        match Pin::new(connection).poll(cx) {
            Poll::Pending => {}
            Poll::Ready(Err(error)) if is_surplus(&error) => *self = Self::Surplus,
            Poll::Ready(_) => *self = Self::Ended,
        }
    }
}

/// Returns true if hyper found bytes on a connection without a request. hyper's kind for this error
/// is private. Everything else that can end an idle connection is an error of the socket.
fn is_surplus(error: &hyper::Error) -> bool {
    error.source().is_none_or(|cause| !cause.is::<std::io::Error>())
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// An upstream closed an idle connection after we found it ready, and before the request was
    /// written. hyper's driver then ended without looking at the request, which waited until its
    /// timeout.
    #[tokio::test]
    async fn a_connection_that_ends_tells_the_request_that_it_did_not_begin_with() {
        let (near, mut far) = tokio::io::duplex(1024);
        let mut connection = Http1::new(Box::new(near), KernelReads::default(), 0).await.unwrap();
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
        let error = sent.await.expect("it learns it").expect_err("there is no answer");
        assert!(error.is_canceled(), "{error}");
    }

    /// A surplus response arrived while a connection was idle, and the runtime thread hadn't looked
    /// for events since. The connection was found ready, and the next request got the surplus
    /// response.
    #[tokio::test]
    async fn a_connection_with_a_surplus_answer_is_not_ready() {
        const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n1";
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = tokio::net::TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (mut far, _) = listener.accept().unwrap();
        let (near, kernel_reads) = super::super::checked_socket::CheckedSocket::new(stream);
        let mut connection = Http1::new(Box::new(near), kernel_reads, 0).await.unwrap();
        std::io::Write::write_all(&mut far, ANSWER).unwrap();
        // Bytes that arrive before the first request aren't a response either.
        assert_eq!(connection.rest(), IdleState::Surplus);
        assert!(!connection.is_ready());
    }
}
