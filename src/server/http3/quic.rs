//! Adapts the connections and streams of quinn to h3.
//!
//! The bytes that a client can send on a stream are bounded here, because h3 buffers a whole frame
//! of any announced length. We also notice here that a client stops a stream while we send nothing
//! on it, because its statement has to be cancelled then, too.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use h3::error::Code;
use h3::quic::{self, ConnectionErrorIncoming, StreamErrorIncoming, StreamId, WriteBuf};
use quinn::{ConnectionError, ReadError, StoppedError, VarInt, WriteError};
use rowstream_core::lock::Mutex;

use super::HEADERS;
use crate::budget::QUIC_HEADS;

/// The longest header of a DATA frame: its type, and a length of eight bytes.
const FRAME: usize = 16;
/// The most bytes that we read of a request: its encoded headers, and the frames around them; and as
/// many as were taken of its body.
const REQUEST: usize = 2 * HEADERS;
/// The most bytes that we read of any other stream in its life: settings, and a few bytes for each
/// request with a changed priority. Beyond them the connection ends.
const CONTROL: usize = 64 * 1024;
/// The bytes read at a time.
const PIECE: usize = 2 * 1024;

type BoxedFuture<T> = Pin<Box<dyn Future<Output = T> + Send + Sync>>;

/// Ready when the client stops a stream, has acknowledged all of it, or is gone.
pub(super) type StopFuture = BoxedFuture<Result<Option<VarInt>, StoppedError>>;

/// The request accepted last.
pub(super) type LastRequest = Arc<Mutex<Option<AcceptedRequest>>>;

/// The parts of an accepted request that h3 doesn't know.
pub(super) struct AcceptedRequest {
    pub(super) stopped: StopFuture,
    pub(super) head: Arc<HeadBytes>,
}

/// The bytes of an incomplete head, which h3 buffers. All heads of a connection share
/// [`QUIC_HEADS`].
pub(super) struct HeadBytes {
    of_connection: Arc<AtomicUsize>,
    bytes: AtomicUsize,
    is_complete: AtomicBool,
    /// The bytes of the body that were taken since the last read.
    taken: AtomicUsize,
}

impl HeadBytes {
    fn new(of_connection: &Arc<AtomicUsize>) -> Self {
        let of_connection = Arc::clone(of_connection);
        Self {
            of_connection,
            bytes: AtomicUsize::new(0),
            is_complete: AtomicBool::new(false),
            taken: AtomicUsize::new(0),
        }
    }

    /// Adds bytes that were read. False if they exceed the limit.
    fn add(&self, bytes: usize) -> bool {
        if self.is_complete.load(Ordering::Relaxed) {
            return true;
        }
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.of_connection.fetch_add(bytes, Ordering::Relaxed) + bytes <= QUIC_HEADS
    }

    /// Notes that bytes of the body were taken, so that the client may send as many others. `frame` is
    /// the length of their DATA frame.
    pub(super) fn take(&self, frame: usize) {
        self.taken.fetch_add(frame + FRAME, Ordering::Relaxed);
    }

    /// Marks the head as complete or refused.
    pub(super) fn complete(&self) {
        self.is_complete.store(true, Ordering::Relaxed);
        self.of_connection.fetch_sub(self.bytes.swap(0, Ordering::Relaxed), Ordering::Relaxed);
    }
}

impl Drop for HeadBytes {
    fn drop(&mut self) {
        self.complete();
    }
}

/// A connection that accepts streams for h3.
pub(super) struct QuicConnection {
    opener: StreamOpener,
    requests: BoxedFuture<Result<(quinn::SendStream, quinn::RecvStream), ConnectionError>>,
    others: BoxedFuture<Result<quinn::RecvStream, ConnectionError>>,
    accepted: LastRequest,
    /// The bytes of incomplete heads.
    heads: Arc<AtomicUsize>,
}

/// Opens a connection's streams.
pub(super) struct StreamOpener {
    quic: quinn::Connection,
    opening: Option<BoxedFuture<Result<quinn::SendStream, ConnectionError>>>,
}

/// A request and its response.
pub(super) struct BidiStream {
    sent: SendStream,
    received: RecvStream,
}

/// The sending side of a stream.
pub(super) struct SendStream {
    stream: quinn::SendStream,
    writing: Option<WriteBuf<Bytes>>,
}

/// The receiving side of a stream.
pub(super) struct RecvStream {
    stream: quinn::RecvStream,
    /// The bytes that may still be read.
    left: usize,
    /// For a request.
    head: Option<Arc<HeadBytes>>,
}

impl QuicConnection {
    pub(super) fn new(quic: &quinn::Connection, accepted: LastRequest) -> Self {
        let opener = StreamOpener { quic: quic.clone(), opening: None };
        let (requests, others) = (next_request(quic), next_other(quic));
        Self { opener, requests, others, accepted, heads: Arc::default() }
    }
}

fn next_request(
    quic: &quinn::Connection,
) -> BoxedFuture<Result<(quinn::SendStream, quinn::RecvStream), ConnectionError>> {
    let quic = quic.clone();
    Box::pin(async move { quic.accept_bi().await })
}

fn next_other(quic: &quinn::Connection) -> BoxedFuture<Result<quinn::RecvStream, ConnectionError>> {
    let quic = quic.clone();
    Box::pin(async move { quic.accept_uni().await })
}

impl quic::Connection<Bytes> for QuicConnection {
    type RecvStream = RecvStream;
    type OpenStreams = StreamOpener;

    fn poll_accept_recv(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<RecvStream, ConnectionErrorIncoming>> {
        let accepted = ready!(self.others.as_mut().poll(cx));
        self.others = next_other(&self.opener.quic);
        Poll::Ready(match accepted {
            Ok(stream) => Ok(RecvStream { stream, left: CONTROL, head: None }),
            Err(error) => Err(of_connection(error)),
        })
    }

    fn poll_accept_bidi(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<BidiStream, ConnectionErrorIncoming>> {
        let accepted = ready!(self.requests.as_mut().poll(cx));
        self.requests = next_request(&self.opener.quic);
        let (sent, received) = match accepted {
            Ok(streams) => streams,
            Err(error) => return Poll::Ready(Err(of_connection(error))),
        };
        let head = Arc::new(HeadBytes::new(&self.heads));
        *self.accepted.lock() =
            Some(AcceptedRequest { stopped: Box::pin(sent.stopped()), head: Arc::clone(&head) });
        let received = RecvStream { stream: received, left: REQUEST, head: Some(head) };
        Poll::Ready(Ok(BidiStream { sent: SendStream::new(sent), received }))
    }

    fn opener(&self) -> StreamOpener {
        StreamOpener { quic: self.opener.quic.clone(), opening: None }
    }
}

impl quic::OpenStreams<Bytes> for StreamOpener {
    type BidiStream = BidiStream;
    type SendStream = SendStream;

    /// Fails, because a server sends no requests.
    fn poll_open_bidi(&mut self, _: &mut Context<'_>) -> Poll<Result<BidiStream, StreamErrorIncoming>> {
        Poll::Ready(Err(StreamErrorIncoming::Unknown("a server asks nothing".into())))
    }

    fn poll_open_send(&mut self, cx: &mut Context<'_>) -> Poll<Result<SendStream, StreamErrorIncoming>> {
        let quic = &self.quic;
        let opening = self.opening.get_or_insert_with(|| {
            let quic = quic.clone();
            Box::pin(async move { quic.open_uni().await })
        });
        let opened = ready!(opening.as_mut().poll(cx));
        self.opening = None;
        Poll::Ready(opened.map(SendStream::new).map_err(lost))
    }

    fn close(&mut self, code: Code, reason: &[u8]) {
        self.quic.close(number(code.value()), reason);
    }
}

impl quic::OpenStreams<Bytes> for QuicConnection {
    type BidiStream = BidiStream;
    type SendStream = SendStream;

    fn poll_open_bidi(&mut self, cx: &mut Context<'_>) -> Poll<Result<BidiStream, StreamErrorIncoming>> {
        self.opener.poll_open_bidi(cx)
    }

    fn poll_open_send(&mut self, cx: &mut Context<'_>) -> Poll<Result<SendStream, StreamErrorIncoming>> {
        self.opener.poll_open_send(cx)
    }

    fn close(&mut self, code: Code, reason: &[u8]) {
        self.opener.close(code, reason);
    }
}

impl SendStream {
    fn new(stream: quinn::SendStream) -> Self {
        Self { stream, writing: None }
    }
}

impl quic::SendStream<Bytes> for SendStream {
    /// Ready when QUIC has accepted all data, which the client and its window limit.
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        let Some(writing) = &mut self.writing else { return Poll::Ready(Ok(())) };
        while writing.has_remaining() {
            let written = ready!(Pin::new(&mut self.stream).poll_write(cx, writing.chunk()));
            writing.advance(written.map_err(of_write)?);
        }
        self.writing = None;
        Poll::Ready(Ok(()))
    }

    fn send_data<T: Into<WriteBuf<Bytes>>>(&mut self, data: T) -> Result<(), StreamErrorIncoming> {
        self.writing = Some(data.into());
        Ok(())
    }

    fn poll_finish(&mut self, _: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        Poll::Ready(self.stream.finish().map_err(|error| StreamErrorIncoming::Unknown(Box::new(error))))
    }

    fn reset(&mut self, code: u64) {
        // Fails if the stream has ended already.
        let _ = self.stream.reset(number(code));
    }

    fn send_id(&self) -> StreamId {
        id(self.stream.id())
    }
}

impl quic::RecvStream for RecvStream {
    type Buf = Bytes;

    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, StreamErrorIncoming>> {
        let mut piece = [0; PIECE];
        let length = ready!(self.stream.poll_read(cx, &mut piece)).map_err(of_read)?;
        self.left += self.head.as_ref().map_or(0, |head| head.taken.swap(0, Ordering::Relaxed));
        let has_room = self.head.as_ref().is_none_or(|head| head.add(length));
        if length > self.left || !has_room {
            let error_code = Code::H3_EXCESSIVE_LOAD.value();
            return Poll::Ready(Err(StreamErrorIncoming::StreamTerminated { error_code }));
        }
        self.left -= length;
        Poll::Ready(Ok((length > 0).then(|| Bytes::copy_from_slice(&piece[..length]))))
    }

    fn stop_sending(&mut self, code: u64) {
        // Fails if the stream has ended already.
        let _ = self.stream.stop(number(code));
    }

    fn recv_id(&self) -> StreamId {
        id(self.stream.id())
    }
}

impl quic::SendStream<Bytes> for BidiStream {
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.sent.poll_ready(cx)
    }

    fn send_data<T: Into<WriteBuf<Bytes>>>(&mut self, data: T) -> Result<(), StreamErrorIncoming> {
        self.sent.send_data(data)
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.sent.poll_finish(cx)
    }

    fn reset(&mut self, code: u64) {
        self.sent.reset(code);
    }

    fn send_id(&self) -> StreamId {
        self.sent.send_id()
    }
}

impl quic::BidiStream<Bytes> for BidiStream {
    type SendStream = SendStream;
    type RecvStream = RecvStream;

    fn split(self) -> (SendStream, RecvStream) {
        (self.sent, self.received)
    }
}

impl quic::RecvStream for BidiStream {
    type Buf = Bytes;

    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, StreamErrorIncoming>> {
        self.received.poll_data(cx)
    }

    fn stop_sending(&mut self, code: u64) {
        self.received.stop_sending(code);
    }

    fn recv_id(&self) -> StreamId {
        self.received.recv_id()
    }
}

fn number(code: u64) -> VarInt {
    VarInt::from_u64(code).unwrap_or(VarInt::MAX)
}

fn id(id: quinn::StreamId) -> StreamId {
    StreamId::try_from(VarInt::from(id).into_inner()).expect("QUIC's own number is one")
}

fn lost(error: ConnectionError) -> StreamErrorIncoming {
    StreamErrorIncoming::ConnectionErrorIncoming { connection_error: of_connection(error) }
}

fn of_connection(error: ConnectionError) -> ConnectionErrorIncoming {
    match error {
        ConnectionError::TimedOut => ConnectionErrorIncoming::Timeout,
        ConnectionError::ApplicationClosed(close) => {
            ConnectionErrorIncoming::ApplicationClose { error_code: close.error_code.into_inner() }
        }
        error => ConnectionErrorIncoming::Undefined(Arc::new(error)),
    }
}

fn of_read(error: ReadError) -> StreamErrorIncoming {
    match error {
        ReadError::Reset(code) => StreamErrorIncoming::StreamTerminated { error_code: code.into_inner() },
        ReadError::ConnectionLost(error) => lost(error),
        error => StreamErrorIncoming::Unknown(Box::new(error)),
    }
}

fn of_write(error: WriteError) -> StreamErrorIncoming {
    match error {
        WriteError::Stopped(code) => StreamErrorIncoming::StreamTerminated { error_code: code.into_inner() },
        WriteError::ConnectionLost(error) => lost(error),
        error => StreamErrorIncoming::Unknown(Box::new(error)),
    }
}
