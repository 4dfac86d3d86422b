//! Our own accept loop: sockets and buffers of our sizes, HTTP/1.1 and HTTP/2 by the client's
//! preface, and the drain.
//!
//! Each core has a worker: a thread with a single-threaded runtime. A connection belongs to one
//! worker for its life, and all that its streams wait for is waited for there, so that a stream
//! does not move between cores, and many streams use all of them. The accept loop runs on a thread
//! of its own and gives each connection to the worker that has fewest.
//!
//! ```text
//! serving ──signal──► leaving ──drain_delay──► draining: nobody is accepted, responses go on ──all done──► ended
//!                        └── a second signal ──►─┴── drain_timeout, or a second signal ──► the rest is broken off ──► ended
//! ```
//!
//! Leaving is serving, but for `ready`, which says that it is over, and for HTTP/1 connections,
//! which end with their next response: so a proxy can turn to another replica before anything is
//! refused.

mod connections;
mod heap;
mod preparing;
mod reload;
mod signals;
mod socket;
mod watched;

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZero;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::header::{self, HeaderValue};
use http::{Request, Version};
use http_body::Body;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulConnection;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::io::Interest;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Handle};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, Sleep};

use self::connections::{Connections, Seat, Taken};
pub use self::preparing::Preparing;
pub(crate) use self::preparing::prepare;
pub use self::reload::Reload;
use self::reload::{Current, Reloader};
use self::signals::Signals;
pub use self::signals::ignore_user_signals;
use self::socket::{ClientSocket, Ends};
use self::watched::{PIECE, Streams, WatchedBody};
use crate::Error;
use crate::budget::{HTTP1_BUFFER, HTTP2_BUFFER, HTTP2_WINDOW};
use crate::client::network_of;
use crate::completeness::delivery::Delivery;
use crate::metrics::{self, Connected, Metrics, Observed as _};
use crate::respond::{Admin, App, NoHost, Peer, Remote, is_check};
use crate::watchdog::Watchdog;

/// What the kernel may hold of a response (it doubles the number). Left to itself it grows to
/// megabytes per slow reader; 64 KiB are as fast on one machine, more serves long distances.
const SEND_BUFFER: usize = 128 * 1024;
/// Requests are small.
const RECEIVE_BUFFER: usize = 32 * 1024;
/// Connections that the kernel completes before they are accepted: a thousand clients may come at
/// once.
const BACKLOG: i32 = 1024;
/// Connections to the port of the admin endpoints. They count apart: whoever looks after a server
/// gets in also when its clients have taken all of theirs.
const ADMIN_CONNECTIONS: usize = 64;
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
/// How long the end waits for statements to be cancelled; a database that does not answer does not
/// hold it longer.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(2);
/// Threads of a worker for what blocks: the files of slow clients and of `_wait=end`, and names to
/// be resolved. A disk is not faster with more of them, and each takes memory.
const BLOCKING_THREADS: usize = 16;
/// What a client may send of all bodies of an HTTP/2 connection, which nobody reads; HTTP/2 has no
/// less.
const HTTP2_CONNECTION_WINDOW: u32 = 65_535;
/// Streams of one HTTP/2 connection.
const HTTP2_STREAMS: u32 = 200;
/// All header fields of one HTTP/2 request.
const HTTP2_HEADERS: u32 = 16 * 1024;

/// Where a connection was accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Port {
    /// Where clients come.
    Public,
    /// Where only the admin endpoints are.
    Admin,
}

/// What connections are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Serving,
    Draining,
    Ended,
}

/// Opens a listening socket.
///
/// # Errors
/// The address cannot be resolved or is taken.
pub async fn listen(address: &str) -> io::Result<TcpListener> {
    let address = tokio::net::lookup_host(address).await?.next();
    let address = address.ok_or_else(|| io::Error::other("the address names no host"))?;
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    // Accepted sockets inherit both.
    socket.set_send_buffer_size(SEND_BUFFER)?;
    socket.set_recv_buffer_size(RECEIVE_BUFFER)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// Serves until SIGTERM or SIGINT, then drains. What `reload` names is read again on SIGHUP. Where
/// there is an `admin` listener, the admin endpoints are asked for there.
///
/// # Errors
/// The signal handlers cannot be installed.
pub async fn serve(
    listener: TcpListener,
    admin: Option<TcpListener>,
    app: Arc<App>,
    reload: Option<Reload>,
) -> io::Result<()> {
    let mut stop = Signals::new()?;
    heap::keep_small()?;
    let mut serving = Serving::new((listener, admin), app, reload)?;
    serving.accept_until(stop.next()).await;
    // Nothing of it is kept: what holds the app at the end holds its connections, and the end would
    // wait for them.
    serving.current.get().leave();
    let delay = serving.current.get().config().limits.drain_delay;
    let told_twice = serving.accept_while_leaving(delay, &mut stop).await;
    // What was reloaded meanwhile counts.
    let app = serving.current.get();
    let Serving { listener, admin, mut connections, state, workers, mut tasks, current, .. } = serving;
    drop((listener, admin));
    app.stop_following();
    state.send_replace(State::Draining);
    eprintln!("draining: {} connections, {} streams", connections.len(), app.admission().in_use());
    tokio::select! {
        () = std::future::ready(()), if told_twice => eprintln!("told twice: breaking off what still runs"),
        () = all_done(&mut connections) => {}
        () = tokio::time::sleep(app.config().limits.drain_timeout) => eprintln!("the drain time is over: breaking off what still runs"),
        () = stop.next() => eprintln!("told twice: breaking off what still runs"),
    }
    app.end();
    state.send_replace(State::Ended);
    all_done(&mut connections).await;
    tasks.shutdown().await;
    drop((app, current));
    workers.finish().await;
    Ok(())
}

/// A server that takes connections.
struct Serving {
    listener: TcpListener,
    /// For the admin endpoints, where they have a port of their own.
    admin: Option<TcpListener>,
    current: Arc<Current>,
    reloader: Option<Reloader>,
    tasks: JoinSet<()>,
    connections: JoinSet<()>,
    room: Arc<Connections>,
    admin_room: Arc<Connections>,
    state: watch::Sender<State>,
    workers: Workers,
}

impl Serving {
    fn new(
        (listener, admin): (TcpListener, Option<TcpListener>),
        app: Arc<App>,
        reload: Option<Reload>,
    ) -> io::Result<Self> {
        let reloader = reload.map(|reload| Reloader::new(reload, app.config())).transpose()?;
        let mut tasks = JoinSet::new();
        spawn_tasks(&mut tasks, &app, None);
        let room = Connections::new(app.config().limits.max_connections);
        let admin_room = Connections::new(ADMIN_CONNECTIONS);
        let (state, workers) = (watch::Sender::new(State::Serving), Workers::start(app.metrics())?);
        let (current, connections) = (Arc::new(Current::new(app)), JoinSet::new());
        Ok(Self { listener, admin, current, reloader, tasks, connections, room, admin_room, state, workers })
    }

    /// Accepts connections, and reloads, until `end` is there.
    async fn accept_until(&mut self, end: impl Future<Output = ()>) {
        let mut end = pin!(end);
        loop {
            tokio::select! {
                (stream, peer) = accept(&self.listener, &self.room) => self.begin(stream, peer, Port::Public),
                (stream, peer) = accept_admin(self.admin.as_ref(), &self.admin_room) => {
                    self.begin(stream, peer, Port::Admin);
                }
                Some(_) = self.connections.join_next() => {}
                before = reloaded(&mut self.reloader, &self.current) => {
                    spawn_tasks(&mut self.tasks, &self.current.get(), Some(&before));
                }
                () = end.as_mut() => return,
            }
        }
    }

    /// Goes on accepting for `delay`, so that those who ask `ready` turn elsewhere first. Whether a
    /// second signal cut it short.
    async fn accept_while_leaving(&mut self, delay: Duration, stop: &mut Signals) -> bool {
        if delay.is_zero() {
            return false;
        }
        eprintln!("leaving: `ready` says so, and connections are accepted for {delay:?} more");
        let mut told_twice = false;
        let end = async {
            tokio::select! {
                () = tokio::time::sleep(delay) => {}
                () = stop.next() => told_twice = true,
            }
        };
        self.accept_until(end).await;
        told_twice
    }

    /// Has a worker serve a connection.
    fn begin(&mut self, stream: std::net::TcpStream, peer: IpAddr, port: Port) {
        let (worker, load) = self.workers.least_loaded();
        let (current, state) = (Arc::clone(&self.current), self.state.subscribe());
        let app = current.get();
        let connected = app.metrics().connections.accept();
        let (seat, taken) = match port {
            Port::Public => {
                let limits = &app.config().limits;
                // A proxy that is believed has its connections for others.
                let most = limits.max_connections_per_client.filter(|_| !limits.proxies.trusts(peer));
                self.room.take(network_of(peer), most)
            }
            Port::Admin => self.admin_room.take(network_of(peer), None),
        };
        if taken == Taken::InPlace {
            app.metrics().connections.give_way();
        }
        let connection = async move {
            // It fails only without descriptors; the client then sees its connection closed.
            if let Ok(stream) = TcpStream::from_std(stream) {
                serve_connection(stream, port, seat, current, state, connected).await;
            }
            drop(load);
        };
        self.connections.spawn_on(connection, worker);
    }
}

/// Has the idle connections closed of sources that the app before did not have, and statements
/// prepared that are not. A task ends with its source or its app.
fn spawn_tasks(tasks: &mut JoinSet<()>, app: &Arc<App>, before: Option<&App>) {
    while tasks.try_join_next().is_some() {}
    for source in app.new_sources(before) {
        tasks.spawn(source.reap());
    }
    preparing::spawn(tasks, app);
}

/// Waits until there is another app, and gives that of before; for ever where nothing can be read
/// again.
async fn reloaded(reloader: &mut Option<Reloader>, current: &Current) -> Arc<App> {
    match reloader {
        Some(reloader) => reloader.reloaded(current).await,
        None => std::future::pending().await,
    }
}

async fn all_done(connections: &mut JoinSet<()>) {
    while connections.join_next().await.is_some() {}
}

/// The next connection, and who it comes from; it belongs to no runtime yet. Others wait in the
/// kernel for no longer than this takes.
async fn accept(listener: &TcpListener, room: &Connections) -> (std::net::TcpStream, IpAddr) {
    loop {
        match listener.accept().await.and_then(|(stream, peer)| Ok((stream.into_std()?, peer.ip()))) {
            Ok(accepted) => return accepted,
            // Out of descriptors, or the client has gone again: neither is a reason to end, nor to
            // spin.
            Err(error) => {
                eprintln!("a connection could not be accepted: {error}");
                if matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE)) {
                    room.make_room();
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

/// The same for the port of the admin endpoints; for ever where there is none.
async fn accept_admin(listener: Option<&TcpListener>, room: &Connections) -> (std::net::TcpStream, IpAddr) {
    match listener {
        Some(listener) => accept(listener, room).await,
        None => std::future::pending().await,
    }
}

/// The workers, one for each core that this process may use.
struct Workers {
    workers: Vec<Worker>,
    /// Ends the threads when it is dropped.
    _running: watch::Sender<()>,
}

/// One worker; its thread drives the runtime until the end of all of them, because a database
/// connection that was opened on one worker may serve a stream of another.
struct Worker {
    runtime: Handle,
    connections: Arc<AtomicUsize>,
}

/// One connection of a worker; counted until it is dropped.
struct Load(Arc<AtomicUsize>);

impl Load {
    fn add(connections: &Arc<AtomicUsize>) -> Self {
        connections.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(connections))
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Workers {
    fn start(metrics: &Metrics) -> io::Result<Self> {
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        let (running, ended) = watch::channel(());
        let worker = |number| {
            let mut builder = Builder::new_current_thread();
            let runtime = builder.enable_all().max_blocking_threads(BLOCKING_THREADS).build()?;
            let handle = runtime.handle().clone();
            let connections = Arc::default();
            let measured = metrics::Worker::new(&handle, &connections);
            let (mut ended, delay) = (ended.clone(), measured.delay());
            let run = async move {
                tokio::select! {
                    () = async { while ended.changed().await.is_ok() {} } => {}
                    () = delay.measure() => {}
                }
            };
            let run = move || runtime.block_on(run);
            std::thread::Builder::new().name(format!("worker {number}")).spawn(run)?;
            metrics.workers.add(measured);
            Ok(Worker { runtime: handle, connections })
        };
        let workers = (0..cores).map(worker).collect::<io::Result<_>>()?;
        Ok(Self { workers, _running: running })
    }

    /// The runtime for the next connection, and what counts it there.
    fn least_loaded(&self) -> (&Handle, Load) {
        let load = |worker: &&Worker| worker.connections.load(Ordering::Relaxed);
        let worker = self.workers.iter().min_by_key(load).expect("there is a worker for each core");
        (&worker.runtime, Load::add(&worker.connections))
    }

    /// Waits until the statements that were broken off are cancelled in their databases, which
    /// tasks of their own do: a database goes on with a statement whose client has just gone. Then
    /// ends the workers.
    async fn finish(self) {
        let deadline = Instant::now() + CANCEL_TIMEOUT;
        let busy = |worker: &Worker| worker.runtime.metrics().num_alive_tasks() > 0;
        while self.workers.iter().any(busy) && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// Serves the requests of one connection until it ends, or the server does.
async fn serve_connection(
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
    let mut grace: Option<Pin<Box<Sleep>>> = None;
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
            () = gives_way.as_mut(), if grace.is_none() => {
                connection.as_mut().graceful_shutdown();
                grace = Some(Box::pin(tokio::time::sleep(GRACE)));
            }
            () = passed(&mut grace) => {
                if seat.is_idle() {
                    return;
                }
                grace = Some(Box::pin(tokio::time::sleep(GRACE)));
            }
            Ok(()) = state.changed() => match *state.borrow() {
                State::Ended => return,
                State::Draining => connection.as_mut().graceful_shutdown(),
                State::Serving => {}
            },
        }
    }
}

/// Ready when a time is over that has begun.
async fn passed(time: &mut Option<Pin<Box<Sleep>>>) {
    match time {
        Some(time) => time.await,
        None => std::future::pending().await,
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

/// The URL at which a listener is reached.
pub fn url_of(address: SocketAddr) -> String {
    format!("http://{address}")
}

#[cfg(test)]
mod tests {
    use std::mem::MaybeUninit;

    use tokio::io::AsyncWriteExt;

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
