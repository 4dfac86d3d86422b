//! HTTP/2 without TLS, by prior knowledge. A connection sends one request at a time, so that `-c`
//! means the same as over HTTP/1.1.

use bytes::Bytes;
use http::Request;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::connection::{Trouble, Wire, timed_out};
use super::reply::{Failure, FailureKind, Framing, Reply, RowFields, TAG};
use super::throttle::Throttle;

/// The receive window of the stream and of its connection.
const WINDOW: u32 = 1024 * 1024;
/// The protocol's initial window, which is the smallest. A slow reader buffers no more than it
/// must.
const SLOW_WINDOW: u32 = 65_535;

/// A connection, between requests or during one.
pub(super) struct Http2 {
    sender: h2::client::SendRequest<Bytes>,
    throttle: Throttle,
    /// Reads and writes frames while the connection is open.
    frames: JoinHandle<()>,
    used: bool,
    pub(super) reusable: bool,
}

impl Drop for Http2 {
    fn drop(&mut self) {
        self.frames.abort();
    }
}

impl Http2 {
    pub(super) async fn new(stream: TcpStream, throttle: Throttle, wire: &Wire) -> Result<Self, Failure> {
        let window = if wire.slow.is_some() { SLOW_WINDOW } else { WINDOW };
        let mut builder = h2::client::Builder::new();
        builder.initial_window_size(window).initial_connection_window_size(window).enable_push(false);
        let handshake = timeout(wire.timeout, builder.handshake::<_, Bytes>(stream)).await;
        let shaken = handshake.map_err(|_| timed_out(wire.timeout))?;
        let (sender, connection) =
            shaken.map_err(|error| Failure::new(FailureKind::Connect, error.to_string()))?;
        // We drop the connection's result, because its stream reports the error.
        let frames = tokio::task::spawn_local(async { drop(connection.await) });
        Ok(Self { sender, throttle, frames, used: false, reusable: false })
    }

    /// Sends a request and reads its response.
    pub(super) async fn exchange(
        &mut self,
        path: &str,
        wire: &Wire,
        reply: &mut Reply<'_>,
    ) -> Result<Framing, Trouble> {
        let used = std::mem::replace(&mut self.used, true);
        self.reusable = false;
        let response = match timeout(wire.timeout, self.send(path, wire)).await {
            Err(_) => return Err(Trouble::Failed(timed_out(wire.timeout))),
            // The server closed it while it was idle, so this request didn't fail.
            Ok(Err(error)) if used && (error.is_io() || error.is_go_away()) => return Err(Trouble::Stale),
            Ok(Err(error)) => return Err(Trouble::Failed(failure(&error))),
            Ok(Ok(response)) => response,
        };
        let read = self.read(response, wire, reply).await;
        self.reusable = read.is_ok();
        read.map_err(Trouble::Failed)
    }

    async fn send(&mut self, path: &str, wire: &Wire) -> Result<http::Response<h2::RecvStream>, h2::Error> {
        let uri = http::Uri::builder().scheme("http").authority(wire.authority.as_str()).path_and_query(path);
        let mut request = Request::new(());
        *request.version_mut() = http::Version::HTTP_2;
        // The target's parser has checked these parts.
        *request.uri_mut() = uri.build().expect("they are parts of a URL");
        for (name, value) in wire.headers.http2() {
            request.headers_mut().append(name, value.clone());
        }
        let mut sender = self.sender.clone().ready().await?;
        let (response, _) = sender.send_request(request, true)?;
        response.await
    }

    async fn read(
        &mut self,
        response: http::Response<h2::RecvStream>,
        wire: &Wire,
        reply: &mut Reply<'_>,
    ) -> Result<Framing, Failure> {
        reply.arrived();
        let field =
            |name| response.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let rows = RowFields {
            content_type: field("content-type"),
            content_encoding: field("content-encoding"),
            tag: field(TAG),
        };
        reply.head(response.status().as_u16(), &rows);
        let mut body = response.into_body();
        loop {
            let data = timeout(wire.timeout, body.data()).await.map_err(|_| timed_out(wire.timeout))?;
            // Here only END_STREAM ends a stream. Every reset is an error, even with NO_ERROR.
            let Some(data) = data else { return Ok(Framing::Marked) };
            let data = data.map_err(|error| failure(&error))?;
            reply.body(&data);
            self.release(&mut body, data.len()).await?;
        }
    }

    /// Allows the server to send as much again, at our rate.
    async fn release(&mut self, body: &mut h2::RecvStream, mut bytes: usize) -> Result<(), Failure> {
        while bytes > 0 {
            let part = self.throttle.allowance().await.min(bytes);
            self.throttle.took(part);
            body.flow_control().release_capacity(part).map_err(|error| failure(&error))?;
            bytes -= part;
        }
        Ok(())
    }
}

fn failure(error: &h2::Error) -> Failure {
    let broken = error.is_io() || error.is_reset() || error.is_go_away();
    // h2 reports errors that it detects itself as a local reset or GOAWAY.
    let kind = if broken && !error.is_library() { FailureKind::Cut } else { FailureKind::Protocol };
    Failure::new(kind, error.to_string())
}
