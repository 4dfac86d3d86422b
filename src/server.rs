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
//!                        └── a second signal ──►─┴── drain_timeout, or a second signal ──► the rest is aborted ──► ended
//! ```
//!
//! Leaving is serving, but for `ready`, which says that it is over, and for HTTP/1 connections,
//! which end with their next response: so a proxy can turn to another replica before anything is
//! refused.

#[cfg(feature = "acme")]
mod acme;
mod connection;
mod connections;
mod consul;
mod date;
mod descriptors;
mod heap;
#[cfg_attr(not(feature = "http3"), path = "server/no_http3.rs")]
mod http3;
mod listener;
mod origin;
mod preparing;
pub(crate) mod proxy_protocol;
mod reload;
mod reporting;
mod signals;
mod socket;
mod systemd;
mod transport;
mod unread;
mod workers;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use socket2::{Domain, SockRef};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinSet;

use self::connections::{Connections, Seat, Taken};
use self::consul::Registration;
use self::descriptors::Descriptors;
use self::http3::{Arrived, Door};
pub use self::listener::Listener;
pub use self::origin::{Origin, Tables};
pub use self::preparing::Preparing;
pub(crate) use self::preparing::{OnRefusal, prepare};
pub use self::reload::Reload;
use self::reload::{Current, Reloader};
use self::signals::Signals;
pub use self::signals::ignore_user_signals;
pub use self::systemd::{Roles, inherited};
use self::workers::Workers;
use crate::access_log;
use crate::config::Config;
use crate::metrics::{Metrics, Observed as _, history};
use crate::respond::App;
use crate::traces;
use rowstream_core::client::{UNIX, network_of};
use rowstream_core::log;

/// What the kernel takes of a response before the bytes can leave. Left to itself it takes
/// megabytes of each slow reader's; more than 64 KiB make no stream faster. What has left and is
/// not acknowledged does not count, so a far client is sent all that its line takes.
const UNSENT: u32 = 64 * 1024;
/// What it takes in all where that cannot be said: of a Unix socket, where nothing is far, and on a
/// system that knows no such option (the kernel doubles the number).
const SEND_BUFFER: usize = 104 * 1024;
/// Requests are small.
const RECEIVE_BUFFER: usize = 32 * 1024;
/// Connections that the kernel completes before they are accepted: a thousand clients may come at
/// once.
const BACKLOG: i32 = 1024;
/// Connections to the port of the admin endpoints. They count apart: whoever looks after a server
/// gets in also when its clients have taken all of theirs.
const ADMIN_CONNECTIONS: usize = 64;

/// Where a connection was accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Port {
    /// Where clients come.
    Public,
    /// Where only the admin endpoints are.
    Admin,
    /// Where those who speak plain HTTP are led to this port, on which TLS is spoken.
    Redirect(u16),
}

/// What connections learn of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Serving,
    Draining,
    Ended,
}

/// Has a listening socket, and those that are accepted from it, behave as we rely on.
fn set_up(socket: &SockRef<'_>) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    // Accepted sockets inherit all of it.
    socket.set_recv_buffer_size(RECEIVE_BUFFER)?;
    let bounds_unsent = socket.domain()? != Domain::UNIX && socket.set_tcp_notsent_lowat(UNSENT).is_ok();
    if bounds_unsent { Ok(()) } else { socket.set_send_buffer_size(SEND_BUFFER) }
}

/// Where connections come from.
pub struct Listeners {
    /// From clients.
    pub public: Listener,
    /// From who asks for admin endpoints, where these have a port of their own.
    pub admin: Option<Listener>,
    /// From clients that speak plain HTTP where TLS is spoken.
    pub redirect: Option<Listener>,
}

/// Serves until SIGTERM or SIGINT, then drains. What `reload` names is read again on SIGHUP.
///
/// # Errors
/// The signal handlers cannot be installed.
pub async fn serve(listeners: Listeners, app: Arc<App>, reload: Option<Reload>) -> io::Result<()> {
    let mut stop = Signals::new()?;
    heap::keep_small()?;
    let registration = register(&listeners, app.config())?;
    let mut serving = Serving::new(listeners, app, reload)?;
    systemd::ready();
    serving.accept_until(stop.next()).await;
    systemd::stopping();
    // Beside the drain: nobody waits for it until the end.
    let deregistered = registration.map(|registration| tokio::spawn(registration.end()));
    // Nothing of it is kept: what holds the app at the end holds its connections, and the end would
    // wait for them.
    serving.current.get().leave();
    let delay = serving.current.get().config().limits.drain_delay;
    let asked_twice = serving.accept_while_leaving(delay, &mut stop).await;
    // What was reloaded meanwhile counts.
    let app = serving.current.get();
    let Serving { listeners, http3, mut connections, state, workers, mut tasks, current, .. } = serving;
    drop(listeners);
    http3.iter().for_each(Door::close);
    app.stop_following();
    state.send_replace(State::Draining);
    log::info!("draining: {} connections, {} streams", connections.len(), app.admission().in_use());
    tokio::select! {
        () = std::future::ready(()), if asked_twice => log::info!("asked twice: aborting what still runs"),
        () = all_done(&mut connections) => {}
        () = tokio::time::sleep(app.config().limits.drain_timeout) => log::warning!("the drain time is over: aborting what still runs"),
        () = stop.next() => log::info!("asked twice: aborting what still runs"),
    }
    app.end();
    state.send_replace(State::Ended);
    all_done(&mut connections).await;
    // Also of a second that isn't over.
    access_log::tell_refusals(Instant::now() + Duration::from_secs(1));
    if let Some(http3) = http3 {
        http3.ended().await;
    }
    tasks.shutdown().await;
    let spans = app.spans();
    drop((app, current));
    workers.finish().await;
    spans.send().await;
    if let Some(deregistered) = deregistered {
        let _ = deregistered.await;
    }
    Ok(())
}

/// Has others find this replica, where the configuration says so.
fn register(listeners: &Listeners, config: &Config) -> io::Result<Option<Registration>> {
    if config.discovery.consul.is_none() {
        return Ok(None);
    }
    let admin = listeners.admin.as_ref().map(Listener::address).transpose()?;
    Registration::begin(config, listeners.public.address()?, admin).map_err(io::Error::other)
}

/// A server that takes connections.
struct Serving {
    listeners: Listeners,
    http3: Option<Door>,
    current: Arc<Current>,
    reloader: Option<Reloader>,
    tasks: JoinSet<()>,
    connections: JoinSet<()>,
    room: Arc<Connections>,
    admin_room: Arc<Connections>,
    descriptors: Option<Descriptors>,
    state: watch::Sender<State>,
    workers: Workers,
}

impl Serving {
    fn new(listeners: Listeners, app: Arc<App>, reload: Option<Reload>) -> io::Result<Self> {
        let reloader = reload.map(Reloader::new).transpose()?;
        let mut tasks = JoinSet::new();
        spawn_tasks(&mut tasks, &app, None);
        let room = Connections::new(app.config().limits.max_connections);
        let admin_room = Connections::new(ADMIN_CONNECTIONS);
        let http3 = Door::open(&listeners.public, app.config())?;
        let (state, workers) = (watch::Sender::new(State::Serving), Workers::start(app.metrics())?);
        let (current, connections) = (Arc::new(Current::new(app)), JoinSet::new());
        tasks.spawn(send_spans(Arc::clone(&current)));
        tasks.spawn(keep_history(Arc::clone(&current)));
        #[cfg(feature = "acme")]
        if let Some(acme) = current.get().config().tls.as_ref().and_then(|tls| tls.acme.clone()) {
            let kept = acme::Kept::open(&acme).map_err(io::Error::other)?;
            tasks.spawn(acme::keep_certificate(acme, kept));
        }
        let descriptors = Descriptors::count();
        let mut serving = Self {
            listeners,
            http3,
            current,
            reloader,
            tasks,
            connections,
            room,
            admin_room,
            descriptors,
            state,
            workers,
        };
        serving.share_descriptors();
        Ok(serving)
    }

    /// Leaves descriptors to the sources of the current configuration.
    fn share_descriptors(&mut self) {
        let Some(descriptors) = &self.descriptors else { return };
        let app = self.current.get();
        let seats = descriptors.seats(app.config());
        self.room.limit(seats);
        app.metrics().connections.limit(seats);
        if let Some(warning) = descriptors.warning(app.config()) {
            log::warning!("{warning}");
        }
    }

    /// Accepts connections, and reloads, until `end` is there.
    async fn accept_until(&mut self, end: impl Future<Output = ()>) {
        let mut end = pin!(end);
        let https = self.listeners.public.address().map_or(0, |address| address.port());
        loop {
            let Listeners { public, admin, redirect } = &self.listeners;
            tokio::select! {
                (stream, peer) = accept(public, &self.room) => self.begin(stream, peer, Port::Public),
                (stream, peer) = accept_if(admin.as_ref(), &self.admin_room) => {
                    self.begin(stream, peer, Port::Admin);
                }
                (stream, peer) = accept_if(redirect.as_ref(), &self.room) => {
                    self.begin(stream, peer, Port::Redirect(https));
                }
                arrived = Door::accept(self.http3.as_ref()) => self.begin_http3(arrived),
                Some(_) = self.connections.join_next() => {}
                before = reloaded(&mut self.reloader, &self.current) => {
                    self.http3.iter().for_each(|http3| http3.renew(self.current.get().config()));
                    spawn_tasks(&mut self.tasks, &self.current.get(), Some(&before));
                    self.share_descriptors();
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
        log::info!("leaving: `ready` says so, and connections are accepted for {delay:?} more");
        let mut asked_twice = false;
        let end = async {
            tokio::select! {
                () = tokio::time::sleep(delay) => {}
                () = stop.next() => asked_twice = true,
            }
        };
        self.accept_until(end).await;
        asked_twice
    }

    /// Has a worker serve a connection.
    fn begin(&mut self, stream: std::net::TcpStream, peer: IpAddr, port: Port) {
        let (worker, load) = self.workers.least_loaded();
        let (current, state) = (Arc::clone(&self.current), self.state.subscribe());
        let app = current.get();
        let connected = app.metrics().connections.accept();
        let room = match port {
            Port::Public | Port::Redirect(_) => &self.room,
            Port::Admin => &self.admin_room,
        };
        let seat = take_in(room, &app, peer, port);
        let connection = async move {
            // It fails only without descriptors; the client then sees its connection closed.
            if let Ok(stream) = TcpStream::from_std(stream) {
                connection::serve_connection((stream, peer), port, seat, current, state, connected).await;
            }
            drop(load);
        };
        self.connections.spawn_on(connection, worker);
    }

    /// The same of one of QUIC, whose handshake is still to come.
    fn begin_http3(&mut self, arrived: Arrived) {
        let (worker, load) = self.workers.least_loaded();
        let (current, state) = (Arc::clone(&self.current), self.state.subscribe());
        let room = Arc::clone(&self.room);
        let connection = async move {
            arrived.serve(&room, current, state).await;
            drop(load);
        };
        self.connections.spawn_on(connection, worker);
    }
}

/// The room of a connection; another one may have to give way to it.
fn take_in(room: &Arc<Connections>, app: &App, peer: IpAddr, port: Port) -> Seat {
    let limits = &app.config().limits;
    // A proxy that is believed has its connections for others.
    let is_proxy = limits.proxies.trusts(peer) || limits.proxies.announces(peer) || peer == UNIX;
    let most = limits.max_connections_per_client.filter(|_| port != Port::Admin && !is_proxy);
    let (seat, taken) = room.take(network_of(peer), most);
    if taken == Taken::InPlace {
        app.metrics().connections.give_way();
    }
    seat
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

/// Sends spans every so often, to where the configuration says then.
async fn send_spans(current: Arc<Current>) {
    loop {
        tokio::time::sleep(traces::EVERY).await;
        let spans = current.get().spans();
        spans.send().await;
    }
}

/// Keeps what the server is like every so often, for who looks later.
async fn keep_history(current: Arc<Current>) {
    loop {
        Metrics::remember(current.get()).await;
        access_log::tell_refusals(Instant::now());
        tokio::time::sleep(history::EVERY).await;
    }
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
async fn accept(listener: &Listener, room: &Connections) -> (std::net::TcpStream, IpAddr) {
    loop {
        match listener.accept().await {
            Ok(accepted) => return accepted,
            // Out of descriptors, or the client has gone again: neither is a reason to end, nor to
            // spin.
            Err(error) => {
                log::warning!("a connection could not be accepted: {error}");
                if matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE)) {
                    room.make_room();
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

/// The same for a port that there need not be; for ever where there is none.
async fn accept_if(listener: Option<&Listener>, room: &Connections) -> (std::net::TcpStream, IpAddr) {
    match listener {
        Some(listener) => accept(listener, room).await,
        None => std::future::pending().await,
    }
}

/// The URL at which a listener is reached, by `http` or `https`.
pub fn url_of(scheme: &str, address: SocketAddr) -> String {
    format!("{scheme}://{address}")
}
