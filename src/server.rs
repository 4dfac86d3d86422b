//! Our own accept loop: sockets and buffers of our sizes, HTTP/1.1 and HTTP/2 by the client's preface, and the drain.
//!
//! ```text
//! serving ──signal──► draining: nobody is accepted, responses go on ──all done──► ended
//!                        └── drain_timeout, or a second signal ──► the rest is broken off ──► ended
//! ```

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use crate::respond::App;

/// What the kernel may hold of a response (it doubles the number). Left to itself it grows to megabytes per slow reader;
/// 64 KiB are as fast on one machine, more serves long distances.
const SEND_BUFFER: usize = 128 * 1024;
/// Requests are small.
const RECEIVE_BUFFER: usize = 32 * 1024;
/// What hyper may hold of a request's head or of a response, per connection; its default is about 400 KiB.
const HTTP_BUFFER: usize = 32 * 1024;
/// Connections that the kernel completes before they are accepted: a thousand clients may come at once.
const BACKLOG: i32 = 1024;
/// How long a client may take to send a request's head.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
/// Streams of one HTTP/2 connection.
const HTTP2_STREAMS: u32 = 200;
/// All header fields of one HTTP/2 request.
const HTTP2_HEADERS: u32 = 32 * 1024;

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

/// Serves until SIGTERM or SIGINT, then drains.
///
/// # Errors
/// The signal handlers cannot be installed.
pub async fn serve(listener: TcpListener, app: Arc<App>) -> io::Result<()> {
    let mut stop = Signals::new()?;
    for source in app.sources().cloned() {
        tokio::spawn(async move { source.reap().await });
    }
    let (state, watcher) = watch::channel(State::Serving);
    let mut connections = JoinSet::new();
    let room = Arc::new(Semaphore::new(app.config().limits.max_connections));
    loop {
        let accepted = tokio::select! {
            accepted = accept(&listener, &room) => accepted,
            Some(_) = connections.join_next() => continue,
            () = stop.next() => break,
        };
        let (stream, permit) = accepted;
        let connection = serve_connection(stream, Arc::clone(&app), watcher.clone());
        connections.spawn(async move {
            connection.await;
            drop(permit);
        });
    }
    drop(listener);
    state.send_replace(State::Draining);
    eprintln!("draining: {} connections, {} streams", connections.len(), app.admission().in_use());
    tokio::select! {
        () = all_done(&mut connections) => {}
        () = tokio::time::sleep(app.config().limits.drain_timeout) => eprintln!("the drain time is over: breaking off what still runs"),
        () = stop.next() => eprintln!("told twice: breaking off what still runs"),
    }
    app.end();
    state.send_replace(State::Ended);
    all_done(&mut connections).await;
    Ok(())
}

async fn all_done(connections: &mut JoinSet<()>) {
    while connections.join_next().await.is_some() {}
}

/// The next connection, once there is room for it.
async fn accept(listener: &TcpListener, room: &Arc<Semaphore>) -> (TcpStream, tokio::sync::OwnedSemaphorePermit) {
    let permit = Arc::clone(room).acquire_owned().await.expect("the semaphore is never closed");
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return (stream, permit),
            // Out of descriptors, or the client has gone again: neither is a reason to end, nor to spin.
            Err(error) => {
                eprintln!("a connection could not be accepted: {error}");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

/// Serves the requests of one connection until it ends, or the server does.
async fn serve_connection(stream: TcpStream, app: Arc<App>, mut state: watch::Receiver<State>) {
    // Small answers leave at once; without this they wait for the client's acknowledgement.
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request| {
        let app = Arc::clone(&app);
        async move { Ok::<_, Infallible>(app.respond(request).await) }
    });
    let builder = http_builder();
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    loop {
        tokio::select! {
            // What breaks a connection is told by the access log, request by request.
            _ = connection.as_mut() => return,
            Ok(()) = state.changed() => match *state.borrow() {
                State::Ended => return,
                State::Draining => connection.as_mut().graceful_shutdown(),
                State::Serving => {}
            },
        }
    }
}

fn http_builder() -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(HTTP_BUFFER);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(HTTP2_STREAMS)
        .max_header_list_size(HTTP2_HEADERS)
        .max_send_buf_size(HTTP_BUFFER)
        .keep_alive_interval(Duration::from_secs(30));
    builder
}

/// SIGTERM and SIGINT.
struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// The URL at which a listener is reached.
pub fn url_of(address: SocketAddr) -> String {
    format!("http://{address}")
}
