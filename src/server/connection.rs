//! One connection: its HTTP version, its requests, and its end.

use std::convert::Infallible;
use std::error::Error as StdError;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU16;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, Bytes};
use http::header::{self, HeaderValue};
use http::{Request, Response, Version};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulConnection;
use rowstream_core::Error;
use rowstream_core::client::UNIX;
use rowstream_core::log;
use rowstream_core::timer::Timer;
use tokio::io::{AsyncWriteExt as _, Interest};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::error::Elapsed;

use super::connections::{BusyRequest, ClientTimeouts, PassedTimeout, Seat};
use super::reload::CurrentApp;
use super::reporting::{PIECE, ReportingBody, StreamExecutor};
use super::socket::{ClientSocket, ConnectionEnd};
use super::transport::{HANDSHAKE, Transport};
use super::unread::{RefusingTransport, RequestRefuser};
use super::{Port, State, date, proxy_protocol};
use crate::budget::{HTTP1_BUFFER, HTTP2_BUFFER, HTTP2_WINDOW};
use crate::completeness::delivery::Delivery;
use crate::config::Tls;
use crate::metrics::{CountedConnection, MetricsSource as _};
use crate::respond::{App, Arrival, has_body, is_check};
use crate::watchdog::Watchdog;

/// The first bytes from an HTTP/2 client (RFC 9113, section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The response to a client that speaks HTTP on a TLS port.
const NOT_TLS: &[u8] = b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: 45\r\n\
    Connection: close\r\n\r\nHTTPS is spoken here: write https:// instead\n";
/// The first and the longest pause before we look at a partial preface again. An honest client
/// sends the rest at once.
const PREFACE_PAUSES: [Duration; 2] = [Duration::from_millis(10), Duration::from_secs(1)];
/// A connection that gives way has this long to answer requests in flight.
const GRACE: Duration = Duration::from_secs(1);
/// Bytes that a client sent before a drain arrive within this time.
pub(super) const DRAIN_GRACE: Duration = Duration::from_millis(50);
/// The most bytes of all bodies that a client can send on an HTTP/2 connection before we read them.
/// HTTP/2 doesn't allow a smaller window.
const HTTP2_CONNECTION_WINDOW: u32 = 65_535;
/// The most bytes that we read of a body over HTTP/2.
const HTTP2_BODY: usize = 64 * 1024;
/// The streams of one HTTP/2 connection.
const HTTP2_STREAMS: u32 = 200;
/// The streams of one HTTP/2 connection that the client has reset before we accepted them, and
/// those that we reset for the client's mistakes. Beyond either number the connection ends
/// (CVE-2023-44487).
const HTTP2_RESETS: usize = 20;
const HTTP2_MISTAKES: usize = 1024;
/// The most bytes of header fields in one HTTP/2 request.
const HTTP2_HEADERS: u32 = 16 * 1024;

/// A connection over TCP or a Unix socket. It speaks HTTP/1.1 or HTTP/2.
pub(super) struct TcpConnection {
    /// The other end of the socket. A proxy may connect for a client.
    peer: IpAddr,
    is_announcing_proxy: bool,
    port: Port,
    tls: Option<Tls>,
    seat: Seat,
    current: Arc<CurrentApp>,
    state: watch::Receiver<State>,
    timeouts: ClientTimeouts,
    write_timeout: Duration,
    ends: Arc<ConnectionEnd>,
    watchdog: Arc<Watchdog>,
}

impl TcpConnection {
    /// A connection that `port` has accepted.
    pub(super) fn new(
        peer: IpAddr,
        port: Port,
        seat: Seat,
        current: Arc<CurrentApp>,
        state: watch::Receiver<State>,
    ) -> Self {
        let app = current.get();
        let limits = &app.config().limits;
        Self {
            peer,
            is_announcing_proxy: port != Port::Admin && limits.proxies.announces(peer),
            port,
            tls: app.config().tls.clone().filter(|_| port == Port::Public),
            seat,
            state,
            timeouts: ClientTimeouts { header: limits.header_timeout, idle: limits.idle_timeout },
            write_timeout: limits.write_timeout,
            ends: Arc::default(),
            watchdog: Arc::default(),
            current,
        }
    }

    /// Serves requests until the connection or the server ends.
    pub(super) async fn serve(self, stream: TcpStream, connected: CountedConnection) {
        // Sends small responses at once. Otherwise they wait for the client's acknowledgement.
        let _ = stream.set_nodelay(true);
        let watchdog = Arc::clone(&self.watchdog);
        watchdog.scope(self.serve_http(stream, connected)).await;
    }

    async fn serve_http(&self, stream: TcpStream, connected: CountedConnection) {
        let own = stream.local_addr().ok();
        let begun = tokio::select! {
            // Boxed, because otherwise this future would take most of a connection's memory for its
            // whole life.
            begun = Box::pin(in_time(self.begin(stream), self.timeouts.header, self.state.clone())) => begun,
            () = self.seat.gives_way() => Ok(None),
        };
        let is_late = match begun {
            Err(_) => true,
            Ok(None) => false,
            Ok(Some((transport, version, peer))) => {
                let service = self.service(peer, own, connected);
                if version == Version::HTTP_2 {
                    // Boxed, because an HTTP/2 connection is larger. It serves many requests.
                    let mut connection = Box::pin(self.http2(transport, &service));
                    self.serve_until_end(connection.as_mut()).await
                } else {
                    self.serve_until_end(pin!(self.http1(transport, &service))).await
                }
            }
        };
        if is_late {
            self.current.get().metrics().connections.time_out();
        }
        self.ends.left();
        let mut state = self.state.clone();
        tokio::select! {
            () = self.ends.linger(self.write_timeout) => {}
            _ = state.wait_for(|state| *state == State::Ended) => {}
        }
    }

    /// The connection's transport, HTTP version and client. `None` if there's nothing to serve.
    async fn begin(&self, mut stream: TcpStream) -> Option<(Transport, Version, IpAddr)> {
        // Boxed: few connections need it, and all would carry it.
        let peer = match self.is_announcing_proxy {
            true => Box::pin(client_of(&mut stream, self.peer)).await?,
            false => self.peer,
        };
        let Some(tls) = &self.tls else {
            let version = version(&stream).await?;
            return Some((Transport::Plain(self.socket(stream)), version, peer));
        };
        let begun = self.begin_tls(stream, tls).await;
        if begun.is_err() {
            self.current.get().metrics().connections.fail_tls();
        }
        let (transport, version) = begun.ok().flatten()?;
        Some((transport, version, peer))
    }

    /// Performs the TLS handshake, or explains to a client without TLS that this port needs it.
    /// `None` if it was an ACME authority, which now has its proof.
    ///
    /// # Errors
    /// The client doesn't speak TLS, or the handshake failed.
    async fn begin_tls(&self, stream: TcpStream, tls: &Tls) -> io::Result<Option<(Transport, Version)>> {
        let mut first = [0];
        if stream.peek(&mut first).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut socket = self.socket(stream);
        if first == [HANDSHAKE] {
            // A client whose handshake fails has left or was sent an alert, which it can still read.
            self.ends.lingers.store(true, Ordering::Relaxed);
            let config = Arc::clone(&tls.identity.config);
            let accepted = match &tls.acme {
                Some(acme) => Transport::accept_or_prove(socket, config, &acme.issued).await,
                None => Transport::accept(socket, config).await.map(Some),
            };
            self.ends.lingers.store(false, Ordering::Relaxed);
            return accepted;
        }
        // Keep reading, so that a reset doesn't destroy the response.
        self.ends.lingers.store(true, Ordering::Relaxed);
        let _ = socket.write_all(NOT_TLS).await;
        Err(io::ErrorKind::InvalidData.into())
    }

    fn socket(&self, stream: TcpStream) -> ClientSocket {
        ClientSocket::new(stream, Arc::clone(&self.ends), Arc::clone(&self.watchdog), self.write_timeout)
    }

    /// Answers the requests of the client `peer`, which reached us at `own`.
    fn service(
        &self,
        peer: IpAddr,
        own: Option<SocketAddr>,
        connected: CountedConnection,
    ) -> ConnectionService<'_> {
        let tls = self.tls.as_ref();
        ConnectionService {
            port: self.port,
            peer,
            remote: own.is_some_and(|own| is_remote(peer, own.ip())),
            is_unix: self.peer == UNIX,
            tls,
            alt_svc: tls.filter(|tls| tls.http3).and(own).map(alt_svc),
            seat: &self.seat,
            current: Arc::clone(&self.current),
            connected,
            ends: &self.ends,
        }
    }

    fn http1(
        &self,
        mut transport: Transport,
        service: &ConnectionService<'_>,
    ) -> impl GracefulConnection<Error = hyper::Error> {
        let mut builder = http1_builder();
        builder.half_close(transport.answers(self.seat.activity()));
        let unread = RequestRefuser { current: Arc::clone(&self.current), peer: service.peer };
        let transport = TokioIo::new(RefusingTransport::new(transport, unread));
        let answer = move |request: Request<Incoming>| {
            service.answer(request.map(|body| Http1Body::new(body, Arc::clone(&self.ends))))
        };
        builder.serve_connection(transport, service_fn(answer))
    }

    fn http2(
        &self,
        transport: Transport,
        service: &ConnectionService<'_>,
    ) -> impl GracefulConnection<Error = hyper::Error> {
        let streams =
            StreamExecutor { connection: Arc::clone(&self.watchdog), write_timeout: self.write_timeout };
        let answer = move |request: Request<Incoming>| {
            let is_read = has_body(request.method());
            let received = |body| Http2Body::new(body, self.timeouts.header, self.state.clone());
            service.answer(request.map(received).map(|body| body.discarded_unless(is_read)))
        };
        http2_builder(streams).serve_connection(TokioIo::new(transport), service_fn(answer))
    }

    /// Serves a connection until it ends or has to end. True if the client let a timeout pass.
    async fn serve_until_end(
        &self,
        mut connection: Pin<&mut impl GracefulConnection<Error = hyper::Error>>,
    ) -> bool {
        let (seat, ends, mut state) = (&self.seat, &self.ends, self.state.clone());
        let mut over = pin!(self.watchdog.over());
        let mut gives_way = pin!(seat.gives_way());
        let mut times_out = pin!(seat.times_out(self.timeouts));
        let mut is_late = false;
        // Runs once the connection has to end, while it may still answer requests in flight.
        let mut grace = Timer::default();
        loop {
            tokio::select! {
                // In this order, because the connection's progress shows only after it was polled.
                biased;
                // The access log records the cause, request by request.
                ended = connection.as_mut() => {
                    if ended.is_ok() {
                        ends.reset.store(false, Ordering::Relaxed);
                    }
                    ends.lingers.store(true, Ordering::Relaxed);
                    return is_late || ended.is_err_and(|error| error.is_timeout());
                }
                () = over.as_mut() => return false,
                () = gives_way.as_mut(), if !grace.runs() => {
                    connection.as_mut().graceful_shutdown();
                    grace.start(GRACE);
                }
                timeout = times_out.as_mut(), if !grace.runs() => {
                    is_late = true;
                    if timeout == PassedTimeout::Header {
                        ends.lingers.store(true, Ordering::Relaxed);
                        return true;
                    }
                    connection.as_mut().graceful_shutdown();
                    grace.start(GRACE);
                }
                () = grace.elapsed() => {
                    if seat.is_idle() {
                        return is_late;
                    }
                    grace.restart(GRACE);
                }
                Ok(()) = state.changed() => match *state.borrow() {
                    State::Ended => return false,
                    State::Draining => connection.as_mut().graceful_shutdown(),
                    State::Serving => {}
                },
            }
        }
    }
}

/// Answers the requests of one connection.
pub(super) struct ConnectionService<'a> {
    pub(super) port: Port,
    pub(super) peer: IpAddr,
    pub(super) remote: bool,
    pub(super) is_unix: bool,
    pub(super) tls: Option<&'a Tls>,
    /// Announces HTTP/3 on the same port (RFC 7838).
    pub(super) alt_svc: Option<HeaderValue>,
    pub(super) seat: &'a Seat,
    pub(super) current: Arc<CurrentApp>,
    pub(super) connected: CountedConnection,
    pub(super) ends: &'a Arc<ConnectionEnd>,
}

impl ConnectionService<'_> {
    /// Answers a request, and lets the watchdog observe the body.
    pub(super) fn answer<B: Body<Data: Buf, Error: StdError + 'static> + Unpin>(
        &self,
        request: Request<B>,
    ) -> impl Future<Output = Result<Response<ReportingBody>, Infallible>> + use<B> {
        self.connected.speaks(request.version());
        let app = self.current.get();
        let version = request.version();
        let has_streams = version >= Version::HTTP_2;
        let busy = self.seat.busy();
        let refused = self.refuse(&request, &app);
        let is_reserved = self.seat.is_reserved();
        let answer = Arc::clone(&app).respond_unless(refused, self.arrival(&request, &busy), request);
        let hsts = self.tls.and_then(|tls| tls.hsts.clone());
        let (alt_svc, ends) = (self.alt_svc.clone(), Arc::clone(self.ends));
        async move {
            let mut response = answer.await;
            response.headers_mut().entry(header::DATE).or_insert_with(date::now);
            let streamed = response.body().size_hint().exact().is_none();
            if streamed {
                response.body_mut().deliver(match has_streams {
                    true => Delivery::Http2,
                    false => Delivery::Http1(Arc::clone(&ends.flush)),
                });
            }
            let is_last = app.is_leaving() || is_reserved || ends.unread_body.load(Ordering::Relaxed);
            if is_last && !has_streams {
                response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
                // hyper adds `keep-alive` for a client of HTTP/1.0, unless the answer has its version.
                if version == Version::HTTP_10 {
                    *response.version_mut() = version;
                }
            }
            if let Some(hsts) = hsts {
                response.headers_mut().insert(header::STRICT_TRANSPORT_SECURITY, hsts);
            }
            if let Some(alt_svc) = alt_svc {
                response.headers_mut().insert(header::ALT_SVC, alt_svc);
            }
            ends.reset.store(version == Version::HTTP_10 && streamed, Ordering::Relaxed);
            if has_streams {
                response.body_mut().in_pieces(PIECE);
                if !streamed {
                    response.body_mut().give_way(app.admission());
                }
            }
            let ends = (!has_streams).then_some(ends);
            let watch = |body| ReportingBody::new(body, Watchdog::current(), busy, ends);
            Ok(response.map(watch))
        }
    }

    /// The reason for refusing a request.
    fn refuse<B>(&self, request: &Request<B>, app: &App) -> Option<Error> {
        if is_check(request) {
            return None;
        }
        if !self.seat.is_common() {
            app.metrics().connections.refuse();
            return Some(Error::too_many_connections());
        }
        // An HTTP/1.0 body can end with its connection, so a truncated one would look complete.
        // Only a TCP connection can be reset.
        (self.is_unix && request.version() == Version::HTTP_10).then(Error::no_http_1_0)
    }

    /// The properties of a request that its connection knows.
    fn arrival<B>(&self, request: &Request<B>, busy: &BusyRequest) -> Arrival {
        Arrival {
            peer: Some(self.peer),
            is_remote: self.remote,
            is_alone: busy.is_alone(),
            no_host: !names_host(request),
            to_admin: self.port == Port::Admin,
            to_https: match self.port {
                Port::Public | Port::Admin => None,
                Port::Redirect(port) => NonZeroU16::new(port),
            },
        }
    }
}

/// The client that a proxy connects for, or the proxy itself. `None` if it doesn't say; we don't
/// serve it then.
async fn client_of(stream: &mut TcpStream, proxy: IpAddr) -> Option<IpAddr> {
    match proxy_protocol::read(stream).await {
        Ok(client) => Some(client.unwrap_or(proxy)),
        // A check that the port is open.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => None,
        Err(error) => {
            let proxy = if proxy == UNIX { "the Unix socket".to_owned() } else { proxy.to_string() };
            log::warning!("a connection from {proxy}, which is in `proxy_protocol`, was closed: {error}");
            None
        }
    }
}

/// Waits for a client's first bytes. `None` if it leaves, or the server drains first.
///
/// # Errors
/// They don't arrive in time.
pub(super) async fn in_time<T>(
    begun: impl Future<Output = Option<T>>,
    time: Duration,
    mut state: watch::Receiver<State>,
) -> Result<Option<T>, Elapsed> {
    let drained = async {
        // Without a sender, the server has ended.
        let _ = state.wait_for(|state| *state != State::Serving).await;
        tokio::time::sleep(DRAIN_GRACE).await;
    };
    tokio::select! {
        biased;
        begun = tokio::time::timeout(time, begun) => begun,
        () = drained => Ok(None),
    }
}

/// The HTTP version of a connection, by its first bytes. `None` if the client has left.
///
/// We peek at the bytes and don't take them. hyper would get them as a first piece, and the rest
/// would double its buffer for the life of the connection.
async fn version(stream: &TcpStream) -> Option<Version> {
    let mut bytes = [0; PREFACE.len()];
    let [mut pause, longest] = PREFACE_PAUSES;
    loop {
        let length = stream.peek(&mut bytes).await.ok().filter(|length| *length > 0)?;
        match PREFACE.strip_prefix(&bytes[..length]) {
            None => return Some(Version::HTTP_11),
            Some([]) => return Some(Version::HTTP_2),
            Some(_) if stream.ready(Interest::READABLE).await.ok()?.is_read_closed() => return None,
            // The socket stays readable, so it doesn't signal further bytes.
            Some(_) => tokio::time::sleep(pause).await,
        }
        pause = longest.min(pause * 2);
    }
}

/// The body of an HTTP/1 request. If it isn't read to its end before the head of the response, its
/// connection closes: hyper reads nothing further, and the client may still send the rest, or wait
/// for `100 Continue` and never send it. So the next bytes could be a body or a request (RFC 9110,
/// section 10.1.1; RFC 9112, section 9.6).
struct Http1Body {
    body: Incoming,
    ends: Arc<ConnectionEnd>,
}

impl Http1Body {
    fn new(body: Incoming, ends: Arc<ConnectionEnd>) -> Self {
        ends.unread_body.store(!body.is_end_stream(), Ordering::Relaxed);
        Self { body, ends }
    }
}

impl Body for Http1Body {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        if matches!(polled, Poll::Ready(None)) {
            self.ends.unread_body.store(false, Ordering::Relaxed);
        }
        polled
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The body of an HTTP/2 request. The rest of it is read after it's dropped, during the response and
/// after it. h2 compares a body with `content-length` as it arrives, but forgets a stream whose body
/// is dropped early. A malformed body resets the stream (RFC 9113, section 8.1.1).
struct Http2Body {
    /// `None`: it's discarded.
    body: Option<Incoming>,
    /// The time for the rest.
    time: Duration,
    state: watch::Receiver<State>,
}

impl Http2Body {
    fn new(body: Incoming, time: Duration, state: watch::Receiver<State>) -> Self {
        Self { body: Some(body), time, state }
    }

    fn discarded_unless(mut self, is_read: bool) -> Self {
        if !is_read {
            self.discard();
        }
        self
    }

    fn discard(&mut self) {
        if let Some(body) = self.body.take().filter(|body| !body.is_end_stream()) {
            tokio::spawn(in_time(read(body), self.time, self.state.clone()));
        }
    }
}

impl Drop for Http2Body {
    fn drop(&mut self) {
        self.discard();
    }
}

impl Body for Http2Body {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match &mut self.body {
            Some(body) => Pin::new(body).poll_frame(cx),
            None => Poll::Ready(None),
        }
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(SizeHint::default, Incoming::size_hint)
    }
}

/// Reads a body to its end. `None` if it's longer than [its limit](HTTP2_BODY), or malformed.
async fn read(mut body: Incoming) -> Option<()> {
    let mut left = HTTP2_BODY;
    while let Some(frame) = body.frame().await {
        left = left.checked_sub(frame.ok()?.data_ref().map_or(0, Bytes::len))?;
    }
    Some(())
}

/// True if a request names its host as its HTTP version requires (RFC 9112, section 3.2; RFC 9113,
/// section 8.3.1).
fn names_host<B>(request: &Request<B>) -> bool {
    match (request.version(), request.headers().get_all(header::HOST).iter().count()) {
        (Version::HTTP_11, hosts) => hosts == 1,
        (_, hosts) => hosts <= 1,
    }
}

/// True if a connection's addresses show that the client is on another machine.
pub(super) fn is_remote(peer: IpAddr, own: IpAddr) -> bool {
    !peer.to_canonical().is_loopback() && peer != own
}

/// Announces HTTP/3 on our own port.
fn alt_svc(own: SocketAddr) -> HeaderValue {
    HeaderValue::try_from(format!("h3=\":{}\"; ma=86400", own.port())).expect("a number is a header")
}

/// Disables hyper's own timeout for heads, which would also close idle connections: it starts with
/// the previous response.
fn http1_builder() -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder.auto_date_header(false).header_read_timeout(None).max_buf_size(HTTP1_BUFFER);
    builder
}

fn http2_builder(streams: StreamExecutor) -> http2::Builder<StreamExecutor> {
    let mut builder = http2::Builder::new(streams);
    builder
        .timer(TokioTimer::new())
        .auto_date_header(false)
        .max_concurrent_streams(HTTP2_STREAMS)
        .max_pending_accept_reset_streams(HTTP2_RESETS)
        .max_local_error_reset_streams(HTTP2_MISTAKES)
        .max_header_list_size(HTTP2_HEADERS)
        .max_send_buf_size(HTTP2_BUFFER)
        .initial_stream_window_size(HTTP2_WINDOW)
        .initial_connection_window_size(HTTP2_CONNECTION_WINDOW)
        .keep_alive_interval(Duration::from_secs(30));
    builder
}

#[cfg(test)]
mod tests {
    use std::mem::MaybeUninit;

    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;
    use tokio::time::Instant;

    use super::*;

    const TIME: Duration = Duration::from_secs(30);

    /// The size in bytes of the future that `_call` returns.
    fn size_of<A, B, C, T: Future>(_call: impl FnOnce(A, B, C) -> T) -> usize {
        std::mem::size_of::<T>()
    }

    /// Each connection holds this future to its end. It was once 5.5 KB, for a TLS handshake, even
    /// without TLS.
    #[test]
    fn what_a_connection_holds_is_small() {
        let size = size_of(TcpConnection::serve);
        assert!(size <= 3584, "{size}");
    }

    /// The version of a connection whose client sends `first`, and later `then`. The paused clock
    /// skips idle time.
    async fn version_of(first: &str, then: &str) -> Option<Version> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        client.write_all(first.as_bytes()).await.unwrap();
        until_there(&stream, first.len());
        let state = watch::Sender::new(State::Serving);
        let rest = async {
            tokio::time::sleep(Duration::from_secs(5)).await;
            client.write_all(then.as_bytes()).await.unwrap();
            until_there(&stream, first.len() + then.len());
        };
        tokio::join!(in_time(version(&stream), TIME, state.subscribe()), rest).0.ok().flatten()
    }

    /// Waits for sent bytes without advancing the clock.
    fn until_there(stream: &TcpStream, length: usize) {
        let mut bytes = [MaybeUninit::uninit(); 64];
        let mut is_there =
            || socket2::SockRef::from(stream).peek(&mut bytes).is_ok_and(|there| there >= length);
        while length > 0 && !is_there() {
            std::thread::yield_now();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_bytes_tell_the_version() {
        for (first, then, expected) in [
            ("G", "", Some(Version::HTTP_11)),
            ("", "GET / HTTP/1.1", Some(Version::HTTP_11)),
            ("POST / HTTP/1.1\r\n", "", Some(Version::HTTP_11)),
            ("P", "OST / HTTP/1.1\r\n", Some(Version::HTTP_11)),
            ("PRI * HTTP/1.1\r\n", "", Some(Version::HTTP_11)),
            ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "", Some(Version::HTTP_2)),
            ("PRI * HTTP/2.0\r\n", "\r\nSM\r\n\r\nmore", Some(Version::HTTP_2)),
            // Only the timeout ends these.
            ("", "", None),
            ("PRI * HTTP/2.0\r\n", "", None),
        ] {
            assert_eq!(version_of(first, then).await, expected, "{first:?} {then:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_leaves_after_a_part_of_the_preface_is_not_waited_for() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        client.write_all(b"PRI").await.unwrap();
        drop(client);
        until_there(&stream, 3);
        let (state, begun) = (watch::Sender::new(State::Serving), Instant::now());
        assert_eq!(in_time(version(&stream), TIME, state.subscribe()).await, Ok(None));
        assert!(begun.elapsed() < TIME, "{:?}", begun.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_said_nothing_is_not_waited_for_at_the_end() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let (state, begun) = (watch::Sender::new(State::Serving), Instant::now());
        let drain = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            state.send(State::Draining)
        };
        let (version, sent) = tokio::join!(in_time(version(&stream), TIME, state.subscribe()), drain);
        sent.unwrap();
        assert_eq!((version, begun.elapsed().as_secs()), (Ok(None), 1));
    }

    #[test]
    fn addresses_tell_who_is_on_another_machine() {
        for (peer, own, remote) in [
            ("127.0.0.1", "127.0.0.1", false),
            ("127.0.0.2", "127.0.0.1", false),
            ("::1", "::1", false),
            ("::ffff:127.0.0.1", "::ffff:127.0.0.1", false),
            ("192.0.2.1", "192.0.2.1", false),
            ("2001:db8::1", "2001:db8::1", false),
            ("192.0.2.2", "192.0.2.1", true),
            ("::ffff:192.0.2.2", "::ffff:192.0.2.1", true),
            ("2001:db8::2", "2001:db8::1", true),
        ] {
            assert_eq!(is_remote(peer.parse().unwrap(), own.parse().unwrap()), remote, "{peer} {own}");
        }
    }
}
