//! HTTP/3: QUIC connections whose streams are answered like those of HTTP/2.
//!
//! QUIC's flow control replaces the socket's buffers. A connection's [window](QUIC_WINDOW) bounds
//! the bytes that are sent but unacknowledged. Beyond it, or beyond the client's own limit, we
//! don't poll a body. A stream ends with FIN once its body has ended, and otherwise with
//! RESET_STREAM. quinn would send FIN for a stream that is just dropped, and half a response would
//! look complete.
//!
//! All streams of a connection are polled by the connection's task, each only after a wakeup, and
//! they end with it.

mod head;
mod quic;

use std::future::poll_fn;
use std::io;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use h3::error::{Code, StreamError};
use h3::proto::frame::Frame;
use h3::quic::{RecvStream as _, SendStream as _};
use h3::server::{RequestResolver, RequestStream};
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, Method, Request, Response, StatusCode, Version};
use http_body::{Body, Frame as BodyFrame};
use quinn::crypto::rustls::QuicServerConfig;
use quinn::{Endpoint, EndpointConfig, Incoming, ServerConfig, TokioRuntime, TransportConfig, VarInt};
use rowstream_core::lock::Mutex;
use rowstream_core::log;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{sleep, timeout};

use self::quic::{AcceptedRequest, BidiStream, HeadBytes, LastRequest, RecvStream, SendStream};
use super::connection::{ConnectionService, DRAIN_GRACE, in_time, is_remote};
use super::connections::{ClientTimeouts, Connections, Seat};
use super::reload::CurrentApp;
use super::reporting::ReportingBody;
use super::socket::ConnectionEnd;
use super::unread::RequestRefuser;
use super::{Listener, Port, State, take_in};
use crate::budget::{HTTP2_WINDOW, QUIC_RECEIVED, QUIC_WINDOW};
use crate::config::{Config, Tls};
use crate::metrics::MetricsSource as _;
use crate::respond::AbortError;
use crate::watchdog::Watchdog;

/// The most bytes of header fields in one request.
const HEADERS: usize = 16 * 1024;
/// The streams of one connection. RFC 9114, section 6.1, asks for at least 100.
const STREAMS: u32 = 100;
/// The streams of a connection that carry no request: settings, and two of QPACK's.
const OTHER_STREAMS: u32 = 8;
/// The requests that a client can stop before their responses, over a connection's life. One more
/// closes the connection (like CVE-2023-44487 of HTTP/2).
const STOPS: usize = 1000;
/// The handshakes in progress at a time.
const HANDSHAKES: usize = 256;
/// The connections that wait to be accepted, and the bytes that each, and all, may have sent.
const INCOMING: usize = 256;
const INCOMING_BYTES: u64 = 8 * 1024;
const ALL_INCOMING_BYTES: u64 = 1024 * 1024;
/// The idle timeout, and the interval of our keep-alive packets.
const IDLE: VarInt = VarInt::from_u32(30_000);
const KEEP_ALIVE: Duration = Duration::from_secs(10);
/// The time for a client to acknowledge everything sent before a reset.
const BEFORE_RESET: Duration = Duration::from_secs(2);
/// The time limit for writing GOAWAY, and at the end for telling clients that we close.
const LAST_WORD: Duration = Duration::from_secs(1);

/// The UDP socket that accepts QUIC connections.
pub(super) struct QuicPort {
    endpoint: Endpoint,
    /// The settings from the start, so the key for the tokens of Retry packets stays the same.
    settings: ServerConfig,
    handshakes: Arc<Semaphore>,
}

/// A connection before its handshake.
pub(super) struct ArrivedConnection {
    incoming: Incoming,
    handshake: OwnedSemaphorePermit,
}

impl QuicPort {
    /// Binds the listener's port for UDP, if HTTP/3 is configured.
    ///
    /// # Errors
    /// The listener has no port, or it's in use for UDP.
    pub(super) fn open(listener: &Listener, config: &Config) -> io::Result<Option<Self>> {
        let Some(tls) = config.tls.as_ref().filter(|tls| tls.http3) else { return Ok(None) };
        let failed = |error| io::Error::other(format!("HTTP/3: {error}"));
        let address = listener.address().map_err(failed)?;
        let socket = std::net::UdpSocket::bind(address).map_err(failed)?;
        let (settings, runtime) = (server_config(tls), Arc::new(TokioRuntime));
        let endpoint = Endpoint::new(EndpointConfig::default(), Some(settings.clone()), socket, runtime);
        let endpoint = endpoint.map_err(failed)?;
        log::info!("HTTP/3: listening on UDP port {}", address.port());
        Ok(Some(Self { endpoint, settings, handshakes: Arc::new(Semaphore::new(HANDSHAKES)) }))
    }

    /// Accepts the next connection. Never ready without an open port.
    ///
    /// Each client first has to show that packets to its address arrive there (RFC 9000, 8.1.2).
    /// Until then, three bytes may be sent for each one received. quinn looks only at the first byte
    /// of a datagram, so a handshake that is sent again exceeds this.
    pub(super) async fn accept(door: Option<&Self>) -> ArrivedConnection {
        let Some(Self { endpoint, handshakes, .. }) = door else { return std::future::pending().await };
        while let Some(incoming) = endpoint.accept().await {
            if !incoming.remote_address_validated() {
                // A Retry is always possible for an address that isn't validated.
                let _ = incoming.retry();
                continue;
            }
            match Arc::clone(handshakes).try_acquire_owned() {
                Ok(handshake) => return ArrivedConnection { incoming, handshake },
                Err(_) => incoming.refuse(),
            }
        }
        std::future::pending().await
    }

    /// Makes new connections use the certificate of `config`.
    pub(super) fn renew(&self, config: &Config) {
        if let Some(tls) = &config.tls {
            let mut settings = self.settings.clone();
            settings.crypto = crypto(tls);
            self.endpoint.set_server_config(Some(settings));
        }
    }

    /// Refuses new connections. Open ones stay.
    pub(super) fn close(&self) {
        self.endpoint.set_server_config(None);
    }

    /// Waits until clients know that their connections are closed.
    pub(super) async fn ended(self) {
        let _ = timeout(LAST_WORD, self.endpoint.wait_idle()).await;
    }
}

fn crypto(tls: &Tls) -> Arc<QuicServerConfig> {
    let mut config = (*tls.identity.config).clone();
    config.alpn_protocols = vec![b"h3".to_vec()];
    // A TLS session from TCP can't be resumed over QUIC.
    config.session_storage = rustls::server::ServerSessionMemoryCache::new(256);
    Arc::new(QuicServerConfig::try_from(config).expect("ring has the first packets' cipher"))
}

fn server_config(tls: &Tls) -> ServerConfig {
    let mut server = ServerConfig::with_crypto(crypto(tls));
    server
        .transport_config(Arc::new(transport()))
        // A client is counted by its address, so it keeps that one.
        .migration(false)
        .max_incoming(INCOMING)
        .incoming_buffer_size(INCOMING_BYTES)
        .incoming_buffer_size_total(ALL_INCOMING_BYTES);
    server
}

fn transport() -> TransportConfig {
    let mut transport = TransportConfig::default();
    transport
        .max_concurrent_bidi_streams(STREAMS.into())
        .max_concurrent_uni_streams(OTHER_STREAMS.into())
        .stream_receive_window(HTTP2_WINDOW.into())
        .receive_window(QUIC_RECEIVED.into())
        .send_window(QUIC_WINDOW)
        .max_idle_timeout(Some(IDLE.into()))
        .keep_alive_interval(Some(KEEP_ALIVE))
        .datagram_receive_buffer_size(None);
    transport
}

impl ArrivedConnection {
    /// Serves a connection until it ends or has to end.
    pub(super) async fn serve(
        self,
        room: &Arc<Connections>,
        current: Arc<CurrentApp>,
        state: watch::Receiver<State>,
    ) {
        let app = current.get();
        let (limits, metrics) = (&app.config().limits, app.metrics());
        let connected = metrics.connections.accept();
        let (peer, own) = (self.incoming.remote_address().ip(), self.incoming.local_ip());
        let shaken = async { Some(self.incoming.accept().ok()?.await) };
        let shaken = in_time(shaken, limits.header_timeout, state.clone()).await;
        drop(self.handshake);
        let quic = match shaken {
            Ok(Some(Ok(quic))) => quic,
            Ok(Some(Err(_))) => return metrics.connections.fail_tls(),
            Ok(None) => return,
            Err(_) => return metrics.connections.time_out(),
        };
        let seat = take_in(room, &app, peer, Port::Public);
        let timeouts = ClientTimeouts { header: limits.header_timeout, idle: limits.idle_timeout };
        let write_timeout = limits.write_timeout;
        let (tls, ends) = (app.config().tls.clone(), Arc::<ConnectionEnd>::default());
        let remote = own.is_none_or(|own: IpAddr| is_remote(peer, own));
        drop(app);
        let answers = ConnectionService {
            port: Port::Public,
            peer,
            remote,
            is_unix: false,
            tls: tls.as_ref(),
            alt_svc: None,
            seat: &seat,
            current,
            connected,
            ends: &ends,
        };
        let served = ServedConnection {
            quic,
            answers: &answers,
            seat: &seat,
            timeouts,
            write_timeout,
            stops: AtomicUsize::new(0),
            narrowed: tokio::sync::Mutex::default(),
        };
        served.serve_until_end(state).await;
    }
}

/// A connection in service.
struct ServedConnection<'a> {
    quic: quinn::Connection,
    answers: &'a ConnectionService<'a>,
    seat: &'a Seat,
    timeouts: ClientTimeouts,
    write_timeout: Duration,
    /// The requests that the client stopped before their responses.
    stops: AtomicUsize,
    /// Held by the stream that has [narrowed](Self::until_taken) the window.
    narrowed: tokio::sync::Mutex<()>,
}

impl ServedConnection<'_> {
    async fn serve_until_end(&self, mut state: watch::Receiver<State>) {
        let (watchdog, last) = (Arc::<Watchdog>::default(), LastRequest::default());
        let mut settings = h3::server::builder();
        settings.max_field_section_size(HEADERS as u64).send_grease(false);
        let connection = quic::QuicConnection::new(&self.quic, Arc::clone(&last));
        let built = timeout(self.timeouts.header, settings.build(connection)).await;
        let Ok(Ok(mut http)) = built else { return };
        let mut streams = FuturesUnordered::new();
        let mut gives_way = pin!(self.seat.gives_way());
        let mut times_out = pin!(self.seat.times_out(self.timeouts));
        let mut leaves = false;
        loop {
            tokio::select! {
                biased;
                Some(()) = streams.next() => {}
                accepted = http.accept() => {
                    let Ok(Some(request)) = accepted else { break };
                    let Some(accepted) = last.lock().take() else { break };
                    let stream = self.answer(request, accepted);
                    streams.push(watchdog.of_stream(self.write_timeout).watch(stream));
                }
                () = gives_way.as_mut(), if !leaves => {
                    leaves = true;
                    let _ = timeout(LAST_WORD, http.shutdown(0)).await;
                }
                _ = times_out.as_mut(), if !leaves => {
                    leaves = true;
                    self.answers.current.get().metrics().connections.time_out();
                    let _ = timeout(LAST_WORD, http.shutdown(0)).await;
                }
                Ok(()) = state.changed() => {
                    let now = *state.borrow();
                    match now {
                        State::Serving => {}
                        State::Draining => {
                            leaves = true;
                            let _ = timeout(LAST_WORD, http.shutdown(0)).await;
                        }
                        State::Ended => break,
                    }
                }
                () = sleep(DRAIN_GRACE), if leaves && streams.is_empty() => break,
            }
        }
        if !streams.is_empty() {
            self.quic.close(number(Code::H3_INTERNAL_ERROR), b"");
        }
    }

    /// Records that a client stopped a stream. After too many stops we close the connection.
    fn note_stop(&self, is_answered: bool) {
        if !is_answered && self.stops.fetch_add(1, Ordering::Relaxed) >= STOPS {
            self.quic.close(number(Code::H3_EXCESSIVE_LOAD), b"");
        }
    }

    /// Answers one request, unless its client stops the stream first.
    async fn answer(&self, request: RequestResolver<quic::QuicConnection, Bytes>, accepted: AcceptedRequest) {
        let AcceptedRequest { mut stopped, head } = accepted;
        let received = self.receive(request).await;
        head.complete();
        let Some((request, stream)) = received else { return };
        let (stream, body) = stream.split();
        let body = ReceivedBody { stream: Arc::new(Mutex::new(body)), head };
        let received = Arc::clone(&body.stream);
        let request = request.map(|()| body);
        let mut stream = UnfinishedStream(stream);
        let is_answered = AtomicBool::new(false);
        let answered = async {
            let is_head = request.method() == Method::HEAD;
            let Ok(response) = self.answers.answer(request).await;
            is_answered.store(true, Ordering::Relaxed);
            send(&mut stream.0, response, is_head).await
        };
        let sent = tokio::select! {
            biased;
            _ = &mut stopped => return self.note_stop(is_answered.load(Ordering::Relaxed)),
            sent = answered => sent,
        };
        match sent {
            Ok(()) => {
                // The client doesn't have to send the rest of its body.
                received.lock().stop_sending(Code::H3_NO_ERROR);
                let _ = timeout(self.write_timeout, stopped).await;
            }
            Err(SendFailure::Aborted) => self.until_taken(&mut stream.0).await,
            Err(SendFailure::Gone) => {}
        }
    }

    /// Receives the head of a request. If it's malformed or doesn't arrive, resets its stream and
    /// returns `None`. Also returns `None` if h3 has refused it.
    async fn receive(
        &self,
        mut request: RequestResolver<quic::QuicConnection, Bytes>,
    ) -> Option<(Request<()>, RequestStream<BidiStream, Bytes>)> {
        let frames = &mut request.frame_stream;
        let frame = timeout(self.timeouts.header, poll_fn(|cx| frames.poll_next(cx))).await;
        if !matches!(frame, Ok(Ok(_))) {
            frames.reset(Code::H3_REQUEST_INCOMPLETE.value());
            frames.stream.stop_sending(Code::H3_REQUEST_INCOMPLETE.value());
        }
        let frame = frame.ok()?;
        let is_sound = !matches!(&frame, Ok(Some(Frame::Headers(section))) if !head::is_sound(section));
        let resolved = request.accept_with_frame(frame).ok()?.resolve();
        let resolved = timeout(self.write_timeout, resolved).await.ok()?;
        // h3 has already answered, without a body.
        if let Err(StreamError::HeaderTooBig { .. }) = &resolved {
            let unread =
                RequestRefuser { current: Arc::clone(&self.answers.current), peer: self.answers.peer };
            unread.refuse(Version::HTTP_3, StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
        }
        let (request, mut stream) = resolved.ok()?;
        if is_sound && !head::is_malformed(&request) {
            return Some((request, stream));
        }
        stream.stop_stream(Code::H3_MESSAGE_ERROR);
        stream.stop_sending(Code::H3_MESSAGE_ERROR);
        self.note_stop(false);
        None
    }

    /// Waits until the client has acknowledged everything that was sent. A reset makes QUIC drop
    /// the bytes that it still holds, and the last of them are the error record.
    ///
    /// quinn doesn't report acknowledgements. But with a window of one byte, a write has to wait
    /// for them. We write an empty DATA frame, which has no meaning (RFC 9114, section 7.2.1).
    async fn until_taken(&self, stream: &mut RequestStream<SendStream, Bytes>) {
        let taken = async {
            let _narrowed = self.narrowed.lock().await;
            self.quic.set_send_window(1);
            let _widened = WidenedWindow(&self.quic);
            // Fails if the client has left.
            let _ = stream.send_data(Bytes::new()).await;
        };
        // Bytes that aren't acknowledged in time are lost, and the reset shows that.
        let _ = timeout(BEFORE_RESET, taken).await;
    }
}

/// Restores a connection's window when dropped, however the wait ends.
struct WidenedWindow<'a>(&'a quinn::Connection);

impl Drop for WidenedWindow<'_> {
    fn drop(&mut self) {
        self.0.set_send_window(QUIC_WINDOW);
    }
}

/// The body of a request, while it arrives.
struct ReceivedBody {
    stream: Arc<Mutex<RequestStream<RecvStream, Bytes>>>,
    head: Arc<HeadBytes>,
}

impl Body for ReceivedBody {
    type Data = Bytes;
    type Error = StreamError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<BodyFrame<Bytes>, StreamError>>> {
        let mut stream = self.stream.lock();
        let received = ready!(stream.poll_recv_data(cx)).transpose();
        Poll::Ready(received.map(|data| {
            let mut data = data?;
            let bytes = data.copy_to_bytes(data.remaining());
            self.head.take(bytes.len());
            Ok(BodyFrame::data(bytes))
        }))
    }
}

/// The reason why a response wasn't sent completely.
enum SendFailure {
    /// Its body failed.
    Aborted,
    /// The client has stopped the stream or left.
    Gone,
}

impl From<AbortError> for SendFailure {
    fn from(_: AbortError) -> Self {
        Self::Aborted
    }
}

impl From<StreamError> for SendFailure {
    fn from(_: StreamError) -> Self {
        Self::Gone
    }
}

/// A stream that is reset when dropped, unless its end was sent.
struct UnfinishedStream(RequestStream<SendStream, Bytes>);

impl Drop for UnfinishedStream {
    fn drop(&mut self) {
        self.0.stop_stream(Code::H3_INTERNAL_ERROR);
    }
}

/// Sends a complete response.
async fn send(
    stream: &mut RequestStream<SendStream, Bytes>,
    response: Response<ReportingBody>,
    is_head: bool,
) -> Result<(), SendFailure> {
    let (mut head, body) = response.into_parts();
    let length = body.size_hint().exact().filter(|length| *length > 0 || !is_head);
    complete(&mut head.headers, length.filter(|_| has_length(head.status)));
    stream.send_response(Response::from_parts(head, ())).await?;
    let mut body = pin!(body);
    while let Some(frame) = poll_fn(|cx| body.as_mut().poll_frame(cx)).await {
        match frame?.into_data() {
            Ok(data) if !data.is_empty() => stream.send_data(data).await?,
            // Dropping it reports that QUIC has the bytes before it.
            Ok(_) => {}
            Err(frame) => {
                if let Ok(trailers) = frame.into_trailers() {
                    stream.send_trailers(trailers).await?;
                }
                // Trailers are the last frame.
                break;
            }
        }
    }
    Ok(stream.finish().await?)
}

/// Adds the length, as hyper does for the other versions of HTTP.
fn complete(headers: &mut HeaderMap, length: Option<u64>) {
    if let Some(length) = length {
        headers.entry(CONTENT_LENGTH).or_insert_with(|| length.into());
    }
}

fn has_length(status: StatusCode) -> bool {
    status != StatusCode::NO_CONTENT && status != StatusCode::NOT_MODIFIED
}

fn number(code: Code) -> VarInt {
    VarInt::from_u64(code.value()).unwrap_or(VarInt::MAX)
}
