//! One connection: its version of HTTP, its requests, and how it ends.

use std::convert::Infallible;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use http::header::{self, HeaderValue};
use http::{Request, Version};
use http_body::Body;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulConnection;
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::connections::Seat;
use super::reload::Current;
use super::socket::{ClientSocket, Ends};
use super::watched::{PIECE, Streams, WatchedBody};
use super::{Port, State};
use crate::Error;
use crate::budget::{HTTP1_BUFFER, HTTP2_BUFFER, HTTP2_WINDOW};
use crate::completeness::delivery::Delivery;
use crate::metrics::{Connected, Observed as _};
use crate::respond::{Admin, NoHost, Peer, Remote, is_check};
use crate::timer::Timer;
use crate::watchdog::Watchdog;

/// With which a client of HTTP/2 begins (RFC 9113, section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Between two looks at a part of it, at first and at most: the rest comes at once, or from nobody
/// who means well.
const PREFACE_PAUSES: [Duration; 2] = [Duration::from_millis(10), Duration::from_secs(1)];
/// In which a connection that gives way may answer what was on its way to it.
const GRACE: Duration = Duration::from_secs(1);
/// In which what a client has sent before a drain is known to be there.
const DRAIN_GRACE: Duration = Duration::from_millis(50);
/// How long a client may take to say anything, and then to send the head of each request.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
/// What a client may send of all bodies of an HTTP/2 connection, which nobody reads; HTTP/2 has no
/// less.
const HTTP2_CONNECTION_WINDOW: u32 = 65_535;
/// Streams of one HTTP/2 connection.
const HTTP2_STREAMS: u32 = 200;
/// All header fields of one HTTP/2 request.
const HTTP2_HEADERS: u32 = 16 * 1024;

/// Serves the requests of one connection until it ends, or the server does.
pub(super) async fn serve_connection(
    stream: TcpStream,
    port: Port,
    seat: Seat,
    current: Arc<Current>,
    state: watch::Receiver<State>,
    connected: Connected,
) {
    // Small answers leave at once; without this they wait for the client's acknowledgement.
    let _ = stream.set_nodelay(true);
    let watchdog = Arc::<Watchdog>::default();
    Arc::clone(&watchdog).scope(serve_http(stream, port, seat, current, state, watchdog, connected)).await;
}

async fn serve_http(
    stream: TcpStream,
    port: Port,
    seat: Seat,
    current: Arc<Current>,
    mut state: watch::Receiver<State>,
    watchdog: Arc<Watchdog>,
    connected: Connected,
) {
    // Who has no address any more has gone already.
    let peer = stream.peer_addr().map(|peer| peer.ip()).ok();
    let remote = match (peer, stream.local_addr()) {
        (Some(peer), Ok(own)) => is_remote(peer, own.ip()),
        _ => false,
    };
    let version = tokio::select! {
        version = version(&stream, state.clone()) => version,
        () = seat.gives_way() => None,
    };
    let Some(version) = version else { return };
    let write_timeout = current.get().config().limits.write_timeout;
    let ends = Arc::<Ends>::default();
    let activity = (version == Version::HTTP_11).then(|| seat.activity());
    let stream = ClientSocket::new(stream, Arc::clone(&ends), Arc::clone(&watchdog), write_timeout, activity);
    let ends_of_body = Arc::clone(&ends);
    let seat = &seat;
    let service = service_fn(move |mut request: Request<Incoming>| {
        connected.speaks(request.version());
        if port == Port::Admin {
            request.extensions_mut().insert(Admin);
        }
        if remote {
            request.extensions_mut().insert(Remote);
        }
        if !names_host(&request) {
            request.extensions_mut().insert(NoHost);
        }
        let (app, ends) = (current.get(), Arc::clone(&ends_of_body));
        if let Some(peer) = peer {
            request.extensions_mut().insert(Peer(peer));
        }
        let version = request.version();
        let busy = seat.busy();
        let refused = (!is_check(&request) && !seat.is_common()).then(|| {
            app.metrics().connections.refuse();
            Error::too_many_connections()
        });
        let is_reserved = seat.is_reserved();
        let answer = Arc::clone(&app).respond_unless(refused, request);
        async move {
            let mut response = answer.await;
            let streamed = response.body().size_hint().exact().is_none();
            if streamed {
                response.body_mut().deliver(match version {
                    Version::HTTP_2 => Delivery::Http2,
                    _ => Delivery::Http1(Arc::clone(&ends.flush)),
                });
            }
            if (app.is_leaving() || is_reserved) && version != Version::HTTP_2 {
                response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            ends.reset.store(version == Version::HTTP_10 && streamed, Ordering::Relaxed);
            if version == Version::HTTP_2 {
                response.body_mut().in_pieces(PIECE);
            }
            let ends = (version != Version::HTTP_2).then_some(ends);
            let watch = |body| WatchedBody::new(body, Watchdog::current(), busy, ends);
            Ok::<_, Infallible>(response.map(watch))
        }
    });
    if version == Version::HTTP_2 {
        let builder = http2_builder(Streams { connection: Arc::clone(&watchdog), write_timeout });
        // Boxed: one of HTTP/2 is larger, and is for many requests.
        let mut connection = Box::pin(builder.serve_connection(TokioIo::new(stream), service));
        serve_until_end(connection.as_mut(), seat, &ends, &watchdog, &mut state).await;
    } else {
        let connection = pin!(http1_builder().serve_connection(TokioIo::new(stream), service));
        serve_until_end(connection, seat, &ends, &watchdog, &mut state).await;
    }
    ends.left();
    tokio::select! {
        () = ends.linger(write_timeout) => {}
        _ = state.wait_for(|state| *state == State::Ended) => {}
    }
}

/// Which version of HTTP a connection begins with. `None`: the client says nothing, or not in time,
/// or the server is told to end before.
///
/// What has to be known is looked at and not taken: hyper would get it as a first piece, and the
/// rest would then make its buffer twice as long, for the life of the connection.
async fn version(stream: &TcpStream, mut state: watch::Receiver<State>) -> Option<Version> {
    let begun = async {
        let mut bytes = [0; PREFACE.len()];
        let [mut pause, longest] = PREFACE_PAUSES;
        loop {
            let length = stream.peek(&mut bytes).await.ok().filter(|length| *length > 0)?;
            match PREFACE.strip_prefix(&bytes[..length]) {
                None => return Some(Version::HTTP_11),
                Some([]) => return Some(Version::HTTP_2),
                Some(_) if stream.ready(Interest::READABLE).await.ok()?.is_read_closed() => return None,
                // It can be read, so that nothing tells of what comes behind it.
                Some(_) => tokio::time::sleep(pause).await,
            }
            pause = longest.min(pause * 2);
        }
    };
    let drained = async {
        // Without a sender, the server has ended.
        let _ = state.wait_for(|state| *state != State::Serving).await;
        tokio::time::sleep(DRAIN_GRACE).await;
    };
    tokio::select! {
        biased;
        version = tokio::time::timeout(HEADER_TIMEOUT, begun) => version.ok().flatten(),
        () = drained => None,
    }
}

/// Serves a connection until it ends, or has to.
async fn serve_until_end(
    mut connection: Pin<&mut impl GracefulConnection>,
    seat: &Seat,
    ends: &Ends,
    watchdog: &Watchdog,
    state: &mut watch::Receiver<State>,
) {
    let mut over = pin!(watchdog.over());
    let mut gives_way = pin!(seat.gives_way());
    // Since when it does, and may still answer what is on its way to it.
    let mut grace = Timer::default();
    loop {
        tokio::select! {
            // In this order: what is waited for is known once the connection has been polled.
            biased;
            // What breaks a connection is told by the access log, request by request.
            ended = connection.as_mut() => {
                if ended.is_ok() {
                    ends.reset.store(false, Ordering::Relaxed);
                }
                ends.lingers.store(true, Ordering::Relaxed);
                return;
            }
            () = over.as_mut() => return,
            () = gives_way.as_mut(), if !grace.runs() => {
                connection.as_mut().graceful_shutdown();
                grace.start(GRACE);
            }
            () = grace.elapsed() => {
                if seat.is_idle() {
                    return;
                }
                grace.restart(GRACE);
            }
            Ok(()) = state.changed() => match *state.borrow() {
                State::Ended => return,
                State::Draining => connection.as_mut().graceful_shutdown(),
                State::Serving => {}
            },
        }
    }
}

/// Whether a request says which host it is for as its version of HTTP has it (RFC 9112, section
/// 3.2; RFC 9113, section 8.3.1).
fn names_host<B>(request: &Request<B>) -> bool {
    match (request.version(), request.headers().get_all(header::HOST).iter().count()) {
        (Version::HTTP_11, hosts) => hosts == 1,
        (_, hosts) => hosts <= 1,
    }
}

/// Whether the client of a connection is on another machine, as far as its addresses tell.
fn is_remote(peer: IpAddr, own: IpAddr) -> bool {
    !peer.to_canonical().is_loopback() && peer != own
}

fn http1_builder() -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT).max_buf_size(HTTP1_BUFFER);
    builder
}

fn http2_builder(streams: Streams) -> http2::Builder<Streams> {
    let mut builder = http2::Builder::new(streams);
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(HTTP2_STREAMS)
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

    /// Of a connection whose client says `first`, and `then` what follows. Time flies where nothing
    /// happens.
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
        tokio::join!(version(&stream, state.subscribe()), rest).0
    }

    /// Waits for what was sent, in which no time flies.
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
            // For ever, if nobody looked at the clock.
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
        assert_eq!(version(&stream, state.subscribe()).await, None);
        assert!(begun.elapsed() < HEADER_TIMEOUT, "{:?}", begun.elapsed());
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
        let (version, sent) = tokio::join!(version(&stream, state.subscribe()), drain);
        sent.unwrap();
        assert_eq!((version, begun.elapsed().as_secs()), (None, 1));
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
