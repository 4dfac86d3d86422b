//! Accepts connections, serves HTTP/1.1 or HTTP/2 on them, depending on the client's preface, and
//! drains them at the end.
//!
//! Each core has a worker: a thread with a single-threaded runtime. A connection stays on one
//! worker for its whole life, and everything that its streams wait for is polled there. So no
//! stream moves between cores, and many streams use all of them. The accept loop runs on a separate
//! thread and gives each connection to the worker with the fewest.
//!
//! ```text
//! serving ──signal──► leaving ──drain_delay──► draining: no new connections, responses continue ──all done──► ended
//!                        └── a second signal ──►─┴── drain_timeout, or a second signal ──► the rest is aborted ──► ended
//! ```
//!
//! While the server is leaving it still serves, with two differences: `ready` fails, and HTTP/1
//! connections close after their next response. So a proxy can switch to another replica before we
//! refuse anything.

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

use rowstream_core::client::{UNIX, network_of};
use rowstream_core::log;
use socket2::{Domain, SockRef};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinSet;

use self::connection::TcpConnection;
use self::connections::{Connections, Seat, SeatKind};
use self::consul::Registration;
use self::descriptors::Descriptors;
use self::http3::{ArrivedConnection, QuicPort};
pub use self::listener::Listener;
pub use self::origin::{EndpointOrigin, Tables};
pub use self::preparing::PreparationTime;
pub(crate) use self::preparing::{RefusalTreatment, prepare};
pub use self::reload::ReloadSettings;
use self::reload::{CurrentApp, Reloader};
use self::signals::Signals;
pub use self::signals::ignore_user_signals;
pub use self::systemd::{Roles, inherited};
use self::workers::Workers;
use crate::access_log;
use crate::config::Config;
use crate::metrics::{Metrics, MetricsSource as _, history};
use crate::respond::App;
use crate::traces;

/// The bytes of a response that the kernel may hold unsent (`TCP_NOTSENT_LOWAT`). By default it
/// buffers megabytes for each slow client, and more than 64 KiB makes no stream faster. Bytes in
/// flight don't count, so a distant client still fills its line.
const UNSENT: u32 = 64 * 1024;
/// The kernel's send buffer if the unsent bytes can't be bounded: for Unix sockets, and on systems
/// without that option. The kernel doubles this number.
const SEND_BUFFER: usize = 104 * 1024;
/// Requests are small.
const RECEIVE_BUFFER: usize = 32 * 1024;
/// Connections that the kernel completes before we accept them. A thousand clients may connect at
/// once.
const BACKLOG: i32 = 1024;
/// Connections to the admin port. They have a separate limit, so an operator can still connect when
/// clients have used up theirs.
const ADMIN_CONNECTIONS: usize = 64;

/// The port that accepted a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Port {
    /// For clients.
    Public,
    /// For admin endpoints only.
    Admin,
    /// Redirects plain HTTP to this port, which speaks TLS.
    Redirect(u16),
}

/// The server's state, as connections see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Serving,
    Draining,
    Ended,
}

/// Sets the options of a listening socket that we rely on.
fn set_up(socket: &SockRef<'_>) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    // Accepted sockets inherit these options.
    socket.set_recv_buffer_size(RECEIVE_BUFFER)?;
    let bounds_unsent = socket.domain()? != Domain::UNIX && socket.set_tcp_notsent_lowat(UNSENT).is_ok();
    if bounds_unsent { Ok(()) } else { socket.set_send_buffer_size(SEND_BUFFER) }
}

/// The server's listening sockets.
pub struct Listeners {
    /// For clients.
    pub public: Listener,
    /// For admin endpoints, if they have a separate port.
    pub admin: Option<Listener>,
    /// For clients that speak plain HTTP although the server speaks TLS.
    pub redirect: Option<Listener>,
}

/// Serves until SIGTERM or SIGINT, then drains. SIGHUP reads the configuration of `reload` again.
///
/// # Errors
/// A signal handler or thread can't be set up, HTTP/3's port is in use, the address for Consul isn't
/// known, or the database of `reload` or the folder for ACME can't be opened.
pub async fn serve(listeners: Listeners, app: Arc<App>, reload: Option<ReloadSettings>) -> io::Result<()> {
    let mut stop = Signals::new()?;
    heap::keep_small()?;
    let registration = register(&listeners, app.config())?;
    let mut serving = RunningServer::new(listeners, app, reload)?;
    systemd::ready();
    serving.accept_until(stop.next()).await;
    systemd::stopping();
    // Runs during the drain. We wait for it only at the end.
    let deregistered = registration.map(|registration| tokio::spawn(registration.end()));
    // Don't keep this app in a variable: at the end we wait for its connections, which live as long
    // as the app does.
    serving.current.get().leave();
    let delay = serving.current.get().config().limits.drain_delay;
    let asked_twice = serving.accept_while_leaving(delay, &mut stop).await;
    // A reload may have replaced the app meanwhile.
    let app = serving.current.get();
    let RunningServer { listeners, http3, mut connections, state, workers, mut tasks, current, .. } = serving;
    drop(listeners);
    http3.iter().for_each(QuicPort::close);
    app.stop_following();
    state.send_replace(State::Draining);
    log::info!("draining: {} connections, {} streams", connections.len(), app.admission().in_use());
    tokio::select! {
        () = std::future::ready(()), if asked_twice => log::info!("second signal: aborting the remaining \
            streams"),
        () = all_done(&mut connections) => {}
        () = tokio::time::sleep(app.config().limits.drain_timeout) => log::warning!("the drain time is over: \
            aborting the remaining streams"),
        () = stop.next() => log::info!("second signal: aborting the remaining streams"),
    }
    app.end();
    state.send_replace(State::Ended);
    all_done(&mut connections).await;
    // Also reports the refusals of a second that isn't over yet.
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

/// Registers this replica for discovery, if configured.
fn register(listeners: &Listeners, config: &Config) -> io::Result<Option<Registration>> {
    if config.discovery.consul.is_none() {
        return Ok(None);
    }
    let admin = listeners.admin.as_ref().map(Listener::address).transpose()?;
    Registration::begin(config, listeners.public.address()?, admin).map_err(io::Error::other)
}

/// A server that accepts connections.
struct RunningServer {
    listeners: Listeners,
    http3: Option<QuicPort>,
    current: Arc<CurrentApp>,
    reloader: Option<Reloader>,
    tasks: JoinSet<()>,
    connections: JoinSet<()>,
    room: Arc<Connections>,
    admin_room: Arc<Connections>,
    descriptors: Option<Descriptors>,
    state: watch::Sender<State>,
    workers: Workers,
}

impl RunningServer {
    fn new(listeners: Listeners, app: Arc<App>, reload: Option<ReloadSettings>) -> io::Result<Self> {
        let reloader = reload.map(Reloader::new).transpose()?;
        let mut tasks = JoinSet::new();
        spawn_tasks(&mut tasks, &app, None);
        let room = Connections::new(app.config().limits.max_connections);
        let admin_room = Connections::new(ADMIN_CONNECTIONS);
        let http3 = QuicPort::open(&listeners.public, app.config())?;
        let (state, workers) = (watch::Sender::new(State::Serving), Workers::start(app.metrics())?);
        let (current, connections) = (Arc::new(CurrentApp::new(app)), JoinSet::new());
        tasks.spawn(send_spans(Arc::clone(&current)));
        tasks.spawn(keep_history(Arc::clone(&current)));
        #[cfg(feature = "acme")]
        if let Some(acme) = current.get().config().tls.as_ref().and_then(|tls| tls.acme.clone()) {
            let kept = acme::AcmeFiles::open(&acme).map_err(io::Error::other)?;
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

    /// Reserves descriptors for the sources of the current configuration.
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

    /// Accepts connections and reloads until `end` is ready.
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
                arrived = QuicPort::accept(self.http3.as_ref()) => self.begin_http3(arrived),
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

    /// Keeps accepting for `delay`, so that clients that poll `ready` can switch to another
    /// replica. Returns true if a second signal ended the delay early.
    async fn accept_while_leaving(&mut self, delay: Duration, stop: &mut Signals) -> bool {
        if delay.is_zero() {
            return false;
        }
        log::info!("leaving: `ready` reports it, and connections are accepted for another {delay:?}");
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

    /// Spawns a connection on a worker.
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
            // Fails only if descriptors run out. The client then sees a closed connection.
            if let Ok(stream) = TcpStream::from_std(stream) {
                let connection = TcpConnection::new(peer, port, seat, current, state);
                connection.serve(stream, connected).await;
            }
            drop(load);
        };
        self.connections.spawn_on(connection, worker);
    }

    /// Like [`Self::begin`], for a QUIC connection before its handshake.
    fn begin_http3(&mut self, arrived: ArrivedConnection) {
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

/// Takes a seat for a connection. Another connection may have to give way.
fn take_in(room: &Arc<Connections>, app: &App, peer: IpAddr, port: Port) -> Seat {
    let limits = &app.config().limits;
    // A trusted proxy's connections belong to many clients.
    let is_proxy = limits.proxies.trusts(peer) || limits.proxies.announces(peer) || peer == UNIX;
    let most = limits.max_connections_per_client.filter(|_| port != Port::Admin && !is_proxy);
    let (seat, taken) = room.take(network_of(peer), most);
    if taken == SeatKind::InPlace {
        app.metrics().connections.give_way();
    }
    seat
}

/// Spawns tasks that close the idle connections of sources new in this app, and that prepare its
/// unprepared statements. A task ends with its source or its app.
fn spawn_tasks(tasks: &mut JoinSet<()>, app: &Arc<App>, before: Option<&App>) {
    while tasks.try_join_next().is_some() {}
    for source in app.new_sources(before) {
        tasks.spawn(source.reap());
    }
    preparing::spawn(tasks, app);
}

/// Sends spans at intervals, each time with the current configuration.
async fn send_spans(current: Arc<CurrentApp>) {
    loop {
        tokio::time::sleep(traces::EVERY).await;
        let spans = current.get().spans();
        spans.send().await;
    }
}

/// Records the server's metrics at intervals, for their history.
async fn keep_history(current: Arc<CurrentApp>) {
    loop {
        Metrics::remember(current.get()).await;
        access_log::tell_refusals(Instant::now());
        tokio::time::sleep(history::EVERY).await;
    }
}

/// Waits for a reload and returns the previous app. Never ready without a reloader.
async fn reloaded(reloader: &mut Option<Reloader>, current: &CurrentApp) -> Arc<App> {
    match reloader {
        Some(reloader) => reloader.reloaded(current).await,
        None => std::future::pending().await,
    }
}

async fn all_done(connections: &mut JoinSet<()>) {
    while connections.join_next().await.is_some() {}
}

/// Accepts the next connection and returns it with the client's address. It belongs to no runtime
/// yet.
async fn accept(listener: &Listener, room: &Connections) -> (std::net::TcpStream, IpAddr) {
    loop {
        match listener.accept().await {
            Ok(accepted) => return accepted,
            // Descriptors ran out, or the client has left. We neither end nor spin.
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

/// Like [`accept`], for an optional port. Never ready without one.
async fn accept_if(listener: Option<&Listener>, room: &Connections) -> (std::net::TcpStream, IpAddr) {
    match listener {
        Some(listener) => accept(listener, room).await,
        None => std::future::pending().await,
    }
}

/// The URL of a listener, with scheme `http` or `https`.
pub fn url_of(scheme: &str, address: SocketAddr) -> String {
    format!("{scheme}://{address}")
}
