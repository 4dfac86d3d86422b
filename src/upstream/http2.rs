//! HTTP/2: connections that requests share, each as a stream.
//!
//! By the h2 library itself, which hyper hides: it tells how many streams the upstream takes at a
//! time, so that none waits in a queue that nobody sees, and it takes no reset for an end. A task
//! of each connection reads and writes its frames; it ends once nothing refers to the connection
//! any more.
//!
//! Places of the pool count requests. One that has a place takes a stream of the first connection
//! that has one free, and opens another connection where none has: never more than there are
//! places.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use h2::client::SendRequest;
use h2::{Ping, Reason, RecvStream};
use http::{Request, Response};

use super::connect::Io;
use super::host::Failure;
use crate::lock::Mutex;

/// What an upstream may send of an answer that is not read.
pub(super) const WINDOW: u32 = 64 * 1024;
/// All header fields of one answer.
const HEADERS: u32 = 32 * 1024;

/// The open connections of a source.
pub(super) struct Connections {
    list: Mutex<List>,
    /// Held by whoever opens one: those that come meanwhile share it.
    pub(super) opening: tokio::sync::Mutex<()>,
    max_age: Option<Duration>,
    /// What the upstream may send of all answers of a connection that are not read: no stream's
    /// share is taken by another.
    window: u32,
}

#[derive(Default)]
struct List {
    open: Vec<Shared>,
    next_id: u64,
}

/// One connection.
struct Shared {
    id: u64,
    sender: SendRequest<Bytes>,
    /// Requests on it.
    streams: usize,
    opened: Instant,
    /// Since when there are none.
    idle: Instant,
    /// Whether it takes no more requests: one on it was not answered in time, and the connection
    /// may be why.
    is_retired: bool,
    /// Set when its task has ended.
    is_over: Arc<AtomicBool>,
    /// Set by the first of its requests that was lost with it.
    is_known_lost: Arc<AtomicBool>,
}

/// A stream of a connection, held by one request.
pub(super) struct Slot {
    connections: Arc<Connections>,
    id: u64,
    sender: SendRequest<Bytes>,
    is_known_lost: Arc<AtomicBool>,
}

impl Connections {
    /// None; of a source that has at most `max` requests at a time.
    pub(super) fn new(max: usize, max_age: Option<Duration>) -> Self {
        let most = (1 << 31) - 1;
        let window = u32::try_from(max).unwrap_or(u32::MAX).saturating_mul(WINDOW).clamp(WINDOW, most);
        Self { list: Mutex::default(), opening: tokio::sync::Mutex::default(), max_age, window }
    }

    /// A stream of a connection that is open and has one free.
    pub(super) fn take(self: &Arc<Self>) -> Option<Slot> {
        let mut list = self.list.lock();
        list.open.retain(|shared| !shared.is_over.load(Ordering::Relaxed));
        let has_one = |shared: &&mut Shared| {
            shared.streams < shared.sender.current_max_send_streams() && !self.is_past(shared)
        };
        let shared = list.open.iter_mut().find(has_one)?;
        shared.streams += 1;
        Some(shared.slot(self))
    }

    /// Whether it takes no more requests, and closes with the last of those that it has.
    fn is_past(&self, shared: &Shared) -> bool {
        shared.is_retired || self.max_age.is_some_and(|most| shared.opened.elapsed() >= most)
    }

    /// Makes a new connection of `io`, and takes its first stream.
    pub(super) async fn open(self: &Arc<Self>, io: Box<dyn Io>) -> Result<Slot, h2::Error> {
        let mut builder = h2::client::Builder::new();
        builder.initial_window_size(WINDOW).initial_connection_window_size(self.window);
        builder.max_header_list_size(HEADERS).enable_push(false);
        let (sender, mut connection) = builder.handshake::<_, Bytes>(io).await?;
        let ping_pong = connection.ping_pong();
        let is_over = Arc::<AtomicBool>::default();
        let over = Arc::clone(&is_over);
        tokio::spawn(async move {
            // The streams on it learn how it ended.
            let _ = connection.await;
            over.store(true, Ordering::Relaxed);
        });
        // The answer comes after the upstream's settings: from then on it is known how many
        // streams it takes.
        if let Some(mut ping_pong) = ping_pong {
            ping_pong.ping(Ping::opaque()).await?;
        }
        let now = Instant::now();
        let mut list = self.list.lock();
        let (id, is_known_lost) = (list.next_id, Arc::default());
        list.next_id += 1;
        let (opened, idle) = (now, now);
        let shared =
            Shared { id, sender, streams: 1, opened, idle, is_retired: false, is_over, is_known_lost };
        let slot = shared.slot(self);
        list.open.push(shared);
        Ok(slot)
    }

    /// Lets go of those that have had no request for so long.
    pub(super) fn close_idle(&self, idle_timeout: Duration) {
        self.list.lock().open.retain(|shared| shared.streams > 0 || shared.idle.elapsed() < idle_timeout);
    }
}

impl Shared {
    /// A stream that is counted already.
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
    /// Has the connection take no more requests.
    pub(super) fn retire(&self) {
        let mut list = self.connections.list.lock();
        if let Some(shared) = list.open.iter_mut().find(|shared| shared.id == self.id) {
            shared.is_retired = true;
        }
    }

    /// Waits until a request can be sent. A connection on which none can be takes no more of them.
    pub(super) async fn ready(&mut self) -> Result<(), h2::Error> {
        let ready = self.sender.clone().ready().await;
        self.sender = ready.inspect_err(|_| self.retire())?;
        Ok(())
    }

    /// Sends a request with its body, if it has one, and waits for the head of its answer. Dropping
    /// it, or the answer's body, resets the stream.
    ///
    /// # Errors
    /// How far the request came, and why no further.
    pub(super) async fn send(
        &mut self,
        request: Request<()>,
        body: Option<&str>,
    ) -> Result<Response<RecvStream>, (Failure, h2::Error)> {
        let sent = self.sender.send_request(request, body.is_none());
        let (answer, mut stream) = sent.map_err(|error| (self.failure(&error), error))?;
        if let Some(body) = body {
            // h2 keeps what the upstream does not take yet: the body is as long as an endpoint file
            // and its parameters make it.
            let sent = stream.send_data(Bytes::copy_from_slice(body.as_bytes()), true);
            sent.map_err(|error| (self.failure(&error), error))?;
        }
        answer.await.map_err(|error| (self.failure(&error), error))
    }

    fn failure(&self, error: &h2::Error) -> Failure {
        // One that goes away does so for all, and may live on for the answers that still come. What
        // it sends back, it has not begun with (RFC 9113, section 6.8).
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

/// The next bytes of a body. The upstream may send as much again as soon as they are taken.
pub(super) fn poll_data(
    body: &mut RecvStream,
    cx: &mut Context<'_>,
) -> Poll<Option<Result<Bytes, h2::Error>>> {
    loop {
        match ready!(body.poll_data(cx)) {
            // It ends here by END_STREAM alone: every reset is an error, also one without an error
            // code.
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
