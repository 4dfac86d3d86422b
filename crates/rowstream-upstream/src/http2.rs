//! HTTP/2: connections that requests share. Each request is a stream.
//!
//! We use the h2 library directly, although hyper would hide it. h2 reports how many streams the
//! upstream accepts at the same time, so that no request waits in a hidden queue. It also doesn't
//! treat a reset as the end of a response. Each connection has a task that reads and writes its
//! frames. The task ends when the connection has no references any more.
//!
//! The pool's slots count requests. A request with a slot uses a stream of the first connection
//! that has a free one. If there's none, it opens another connection, so there are never more
//! connections than slots.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use h2::client::SendRequest;
use h2::{Ping, Reason, RecvStream};
use http::{Request, Response};
use rowstream_core::lock::Mutex;

use super::connect::Io;
use super::host::Failure;

/// The flow-control window of a stream: the most bytes of a response that the upstream may send
/// before we read them.
pub(super) const WINDOW: u32 = 64 * 1024;
/// The longest header section of a response.
const HEADERS: u32 = 32 * 1024;

/// The open connections of a source.
pub(super) struct Connections {
    list: Mutex<ConnectionList>,
    /// Held by the request that opens a connection. Other requests wait for it and share the
    /// connection.
    pub(super) opening: tokio::sync::Mutex<()>,
    max_age: Option<Duration>,
    /// The flow-control window of a connection. It's large enough for all streams, so that no
    /// stream uses up the share of another.
    window: u32,
}

#[derive(Default)]
struct ConnectionList {
    open: Vec<SharedConnection>,
    next_id: u64,
}

/// A connection.
struct SharedConnection {
    id: u64,
    sender: SendRequest<Bytes>,
    /// The number of its requests.
    streams: usize,
    opened: Instant,
    /// The time of its last request's end.
    idle: Instant,
    /// True if it accepts no further requests. One of them wasn't answered in time, and the
    /// connection may be the cause.
    is_retired: bool,
    /// Set when its task has ended.
    is_over: Arc<AtomicBool>,
    /// Set by the first request that was lost with the connection.
    is_known_lost: Arc<AtomicBool>,
}

/// A stream of a connection, used by one request.
pub(super) struct Slot {
    connections: Arc<Connections>,
    id: u64,
    sender: SendRequest<Bytes>,
    is_known_lost: Arc<AtomicBool>,
}

impl Connections {
    /// An empty list, for a source with at most `max` requests at the same time.
    pub(super) fn new(max: usize, max_age: Option<Duration>) -> Self {
        let most = (1 << 31) - 1;
        let window = u32::try_from(max).unwrap_or(u32::MAX).saturating_mul(WINDOW).clamp(WINDOW, most);
        Self { list: Mutex::default(), opening: tokio::sync::Mutex::default(), max_age, window }
    }

    /// A free stream of an open connection.
    pub(super) fn take(self: &Arc<Self>) -> Option<Slot> {
        let mut list = self.list.lock();
        list.open.retain(|shared| !shared.is_over.load(Ordering::Relaxed));
        let has_one = |shared: &&mut SharedConnection| {
            shared.streams < shared.sender.current_max_send_streams() && !self.is_past(shared)
        };
        let shared = list.open.iter_mut().find(has_one)?;
        shared.streams += 1;
        Some(shared.slot(self))
    }

    /// Returns true if it accepts no further requests, and closes with the last of its own.
    fn is_past(&self, shared: &SharedConnection) -> bool {
        shared.is_retired || self.max_age.is_some_and(|most| shared.opened.elapsed() >= most)
    }

    /// Opens an HTTP/2 connection on `io`, and uses its first stream.
    pub(super) async fn open(self: &Arc<Self>, io: Box<dyn Io>) -> Result<Slot, h2::Error> {
        let mut builder = h2::client::Builder::new();
        builder.initial_window_size(WINDOW).initial_connection_window_size(self.window);
        builder.max_header_list_size(HEADERS).enable_push(false);
        let (sender, mut connection) = builder.handshake::<_, Bytes>(io).await?;
        let ping_pong = connection.ping_pong();
        let is_over = Arc::<AtomicBool>::default();
        let over = Arc::clone(&is_over);
        tokio::spawn(async move {
            // The streams on it get the connection's error.
            let _ = connection.await;
            over.store(true, Ordering::Relaxed);
        });
        // The answer to the ping follows the upstream's settings, so after it we know how many
        // streams it accepts.
        if let Some(mut ping_pong) = ping_pong {
            ping_pong.ping(Ping::opaque()).await?;
        }
        let now = Instant::now();
        let mut list = self.list.lock();
        let (id, is_known_lost) = (list.next_id, Arc::default());
        list.next_id += 1;
        let (opened, idle) = (now, now);
        let shared = SharedConnection {
            id,
            sender,
            streams: 1,
            opened,
            idle,
            is_retired: false,
            is_over,
            is_known_lost,
        };
        let slot = shared.slot(self);
        list.open.push(shared);
        Ok(slot)
    }

    /// Drops connections that have been idle for this long.
    pub(super) fn close_idle(&self, idle_timeout: Duration) {
        self.list.lock().open.retain(|shared| shared.streams > 0 || shared.idle.elapsed() < idle_timeout);
    }
}

impl SharedConnection {
    /// A stream that's already counted.
    fn slot(&self, connections: &Arc<Connections>) -> Slot {
        Slot {
            connections: Arc::clone(connections),
            id: self.id,
            sender: self.sender.clone(),
            is_known_lost: Arc::clone(&self.is_known_lost),
        }
    }
}

impl Slot {
    /// Stops using the connection for further requests.
    pub(super) fn retire(&self) {
        let mut list = self.connections.list.lock();
        if let Some(shared) = list.open.iter_mut().find(|shared| shared.id == self.id) {
            shared.is_retired = true;
        }
    }

    /// Waits until a request can be sent. If the connection can't send one, it isn't used again.
    pub(super) async fn ready(&mut self) -> Result<(), h2::Error> {
        let ready = self.sender.clone().ready().await;
        self.sender = ready.inspect_err(|_| self.retire())?;
        Ok(())
    }

    /// Sends a request with its body, if there is one, and waits for the head of the response.
    /// Dropping this future, or the response's body, resets the stream.
    ///
    /// # Errors
    /// How far the request got, and the cause.
    pub(super) async fn send(
        &mut self,
        request: Request<()>,
        body: Option<&str>,
    ) -> Result<Response<RecvStream>, (Failure, h2::Error)> {
        let sent = self.sender.send_request(request, body.is_none());
        let (answer, mut stream) = sent.map_err(|error| (self.failure(&error), error))?;
        if let Some(body) = body {
            // h2 buffers the bytes that the upstream doesn't accept yet. The body's length is
            // limited by the endpoint file and its parameters.
            let sent = stream.send_data(Bytes::copy_from_slice(body.as_bytes()), true);
            sent.map_err(|error| (self.failure(&error), error))?;
        }
        answer.await.map_err(|error| (self.failure(&error), error))
    }

    fn failure(&self, error: &h2::Error) -> Failure {
        // A connection that goes away does so for all its requests, but it may stay open for
        // responses that still arrive. The requests that it rejects weren't begun (RFC 9113,
        // section 6.8).
        if error.is_go_away() && error.is_remote() && error.reason() == Some(Reason::NO_ERROR) {
            self.retire();
            return Failure::NotBegun;
        }
        if error.is_go_away() || error.is_io() {
            self.retire();
            return Failure::Lost { is_known: self.is_known_lost.swap(true, Ordering::Relaxed) };
        }
        match error.reason() {
            Some(Reason::REFUSED_STREAM) => Failure::Lost { is_known: false },
            _ => Failure::NoHead,
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut list = self.connections.list.lock();
        let Some(at) = list.open.iter().position(|shared| shared.id == self.id) else { return };
        let shared = &mut list.open[at];
        shared.streams -= 1;
        shared.idle = Instant::now();
        if shared.streams == 0 && self.connections.is_past(&list.open[at]) {
            list.open.remove(at);
        }
    }
}

/// The next bytes of a body. Reading them lets the upstream send as many again.
pub(super) fn poll_data(
    body: &mut RecvStream,
    cx: &mut Context<'_>,
) -> Poll<Option<Result<Bytes, h2::Error>>> {
    loop {
        match ready!(body.poll_data(cx)) {
            // Only END_STREAM ends a body. Every reset is an error, even one without an error code.
            None => return Poll::Ready(None),
            Some(Err(error)) => return Poll::Ready(Some(Err(error))),
            Some(Ok(data)) => {
                body.flow_control().release_capacity(data.len())?;
                if !data.is_empty() {
                    return Poll::Ready(Some(Ok(data)));
                }
            }
        }
    }
}
