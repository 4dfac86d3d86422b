//! A TCP proxy on loopback with configurable faults in each direction.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::{JoinHandle, JoinSet};

/// The faults of one direction. Counts are per connection.
#[derive(Debug, Clone, Copy, Default)]
pub struct Faults {
    pub pieces: Option<Pieces>,
    /// Cuts both directions once this many bytes have passed in this one. Each connection counts
    /// separately.
    pub cut: Option<(u64, Cut)>,
    /// Passes this many bytes, then nothing until [`TcpProxy::resume`].
    pub stall_after: Option<u64>,
}

/// Writes of at most `bytes` each. The receiver's kernel joins unread bytes, so only a pause makes
/// it read each piece alone.
#[derive(Debug, Clone, Copy)]
pub struct Pieces {
    pub bytes: usize,
    pub pause: Duration,
}

/// How a connection is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// An orderly close (FIN), like that of a process that ended.
    Close,
    /// A reset (RST), as if a machine or a firewall lost the connection. Bytes that the other end
    /// hasn't received are lost.
    Reset,
    /// Nothing passes any more, but there's no end, as if a machine lost its power. The target is
    /// reset once the client has disconnected.
    Stall,
}

/// A running proxy. Dropping it closes its port and its connections.
pub struct TcpProxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

struct Shared {
    target: SocketAddr,
    to_target: Direction,
    to_client: Direction,
    connections: AtomicU64,
    /// Signals existing connections how to end.
    cut: watch::Sender<Cut>,
}

struct Direction {
    /// Faults of future connections.
    faults: Mutex<Faults>,
    passed: AtomicU64,
    /// True while bytes pass. A stall sets it to false.
    open: watch::Sender<bool>,
    steps: Steps,
}

/// Passes pieces one at a time while `holds` is true.
struct Steps {
    holds: AtomicBool,
    permits: Semaphore,
}

impl Steps {
    /// More connections than ever wait for a step at the same time.
    const MANY: usize = 1000;
    /// After this time a piece passes without a step, because the pool opens connections in
    /// separate tasks, which the test doesn't poll.
    const LONGEST: Duration = Duration::from_millis(20);

    fn hold(&self) {
        self.permits.forget_permits(usize::MAX);
        self.holds.store(true, Ordering::SeqCst);
    }

    fn step(&self) {
        self.permits.add_permits(1);
    }

    fn release(&self) {
        self.holds.store(false, Ordering::SeqCst);
        self.permits.add_permits(Self::MANY);
    }

    async fn wait(&self) {
        if !self.holds.load(Ordering::SeqCst) {
            return;
        }
        if let Ok(Ok(permit)) = tokio::time::timeout(Self::LONGEST, self.permits.acquire()).await {
            permit.forget();
        }
    }
}

impl Direction {
    fn new(faults: Faults) -> Self {
        let steps = Steps { holds: AtomicBool::new(false), permits: Semaphore::new(0) };
        Self { faults: Mutex::new(faults), passed: AtomicU64::new(0), open: watch::Sender::new(true), steps }
    }

    fn faults(&self) -> MutexGuard<'_, Faults> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn wait_until_open(&self) {
        // The sender lives as long as we do, so this can't fail.
        drop(self.open.subscribe().wait_for(|open| *open).await);
    }
}

impl TcpProxy {
    /// A proxy without faults, which counts and can stall.
    pub async fn transparent(target: SocketAddr) -> Self {
        Self::start(target, Faults::default(), Faults::default()).await
    }

    /// With faults in the direction of the client, which is that of rows and responses.
    pub async fn to_client(target: SocketAddr, faults: Faults) -> Self {
        Self::start(target, Faults::default(), faults).await
    }

    pub async fn start(target: SocketAddr, to_target: Faults, to_client: Faults) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("a bound address");
        let (to_target, to_client) = (Direction::new(to_target), Direction::new(to_client));
        let (connections, cut) = (AtomicU64::new(0), watch::Sender::new(Cut::Close));
        let shared = Arc::new(Shared { target, to_target, to_client, connections, cut });
        let accepting = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Self { address, shared, accepting }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Stops both directions.
    pub fn stall(&self) {
        self.set_open(false);
    }

    /// Passes bytes again, including those that `stall_after` held.
    pub fn resume(&self) {
        self.set_open(true);
    }

    fn set_open(&self, open: bool) {
        self.shared.to_target.open.send_replace(open);
        self.shared.to_client.open.send_replace(open);
    }

    /// Polls a future at most `polls` times, then drops it. Returns its output if it was ready.
    ///
    /// Each poll allows one piece to pass to the client. So the number of polls depends on the
    /// bytes that the future reads, and not on the machine.
    pub async fn polled<T>(&self, future: impl Future<Output = T>, polls: usize) -> Option<T> {
        let steps = &self.shared.to_client.steps;
        steps.hold();
        let output = polled(future, polls, || steps.step()).await;
        steps.release();
        output
    }

    /// Sets the faults in the direction of the client for future connections.
    pub fn set_to_client(&self, faults: Faults) {
        *self.shared.to_client.faults() = faults;
    }

    /// Cuts all existing connections.
    pub fn cut_now(&self, how: Cut) {
        self.shared.cut.send_replace(how);
    }

    /// The number of connections so far, including ended ones.
    pub fn connections(&self) -> u64 {
        self.shared.connections.load(Ordering::Relaxed)
    }

    pub fn bytes_to_target(&self) -> u64 {
        self.shared.to_target.passed.load(Ordering::Relaxed)
    }

    pub fn bytes_to_client(&self) -> u64 {
        self.shared.to_client.passed.load(Ordering::Relaxed)
    }
}

impl Drop for TcpProxy {
    /// The connections belong to the accepting task, so they end with it.
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Polls a future at most `polls` times, then drops it. Returns its output if it was ready. Calls
/// `pending` after each unsuccessful poll.
pub async fn polled<T>(
    future: impl Future<Output = T>,
    polls: usize,
    mut pending: impl FnMut(),
) -> Option<T> {
    let mut future = Box::pin(future);
    let mut done = 0;
    poll_fn(|cx| {
        if done == polls {
            return Poll::Ready(None);
        }
        done += 1;
        let polled = future.as_mut().poll(cx).map(Some);
        if polled.is_pending() {
            pending();
        }
        polled
    })
    .await
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        shared.connections.fetch_add(1, Ordering::Relaxed);
        let shared = Arc::clone(&shared);
        connections.spawn(async move { drop(carry(client, &shared).await) });
    }
}

/// Carries one connection until both directions end, or one of them cuts both.
async fn carry(mut client: TcpStream, shared: &Shared) -> io::Result<()> {
    let (mut cut, to_target_faults, to_client_faults) =
        (shared.cut.subscribe(), *shared.to_target.faults(), *shared.to_client.faults());
    let Ok(mut target) = TcpStream::connect(shared.target).await else {
        return reset(client);
    };
    client.set_nodelay(true)?;
    target.set_nodelay(true)?;
    let (from_client, to_client) = client.split();
    let (from_target, to_target) = target.split();
    let both = async {
        tokio::try_join!(
            pump(from_client, to_target, &shared.to_target, to_target_faults),
            pump(from_target, to_client, &shared.to_client, to_client_faults),
        )
    };
    let ended = tokio::select! {
        ended = both => ended.map(drop),
        _ = cut.changed() => Err(*cut.borrow()),
    };
    match ended {
        Ok(()) => Ok(()),
        Err(Cut::Reset) => reset(client).and(reset(target)),
        Err(Cut::Close) => tokio::try_join!(close(client), close(target)).map(drop),
        Err(Cut::Stall) => {
            drop(tokio::io::copy(&mut client, &mut tokio::io::sink()).await);
            reset(target)
        }
    }
}

/// Passes bytes on until this side ends or a cut. When this side ends, we end the other side too,
/// but its response can still arrive. An error of either socket is passed on as a reset.
async fn pump(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    direction: &Direction,
    faults: Faults,
) -> Result<(), Cut> {
    let reset = |_| Cut::Reset;
    let mut buffer = vec![0; 16 * 1024];
    let mut passed = 0;
    loop {
        hold(direction, &faults, passed).await?;
        let most = may_pass(&faults, passed).min(buffer.len());
        let read = from.read(&mut buffer[..most]).await.map_err(reset)?;
        // A stall that began while we waited for these bytes also holds them.
        direction.wait_until_open().await;
        direction.steps.wait().await;
        if read == 0 {
            return to.shutdown().await.map_err(reset);
        }
        to.write_all(&buffer[..read]).await.map_err(reset)?;
        passed += read as u64;
        direction.passed.fetch_add(read as u64, Ordering::Relaxed);
        if let Some(pieces) = faults.pieces {
            tokio::time::sleep(pieces.pause).await;
        }
    }
}

/// Stalls or cuts at the marks. Reads never pass a mark, so each is met exactly.
async fn hold(direction: &Direction, faults: &Faults, passed: u64) -> Result<(), Cut> {
    if faults.stall_after == Some(passed) {
        direction.open.send_replace(false);
        direction.wait_until_open().await;
    }
    match faults.cut {
        Some((after, cut)) if after == passed => Err(cut),
        _ => Ok(()),
    }
}

/// The number of bytes before the next mark.
fn may_pass(faults: &Faults, passed: u64) -> usize {
    let marks = [faults.cut.map(|(after, _)| after), faults.stall_after];
    let to_mark =
        marks.into_iter().flatten().filter_map(|mark| mark.checked_sub(passed)).filter(|bytes| *bytes > 0);
    let piece = faults.pieces.map_or(usize::MAX, |pieces| pieces.bytes.max(1));
    to_mark.min().map_or(piece, |bytes| piece.min(usize::try_from(bytes).unwrap_or(usize::MAX)))
}

/// Closing a socket without linger resets it.
fn reset(socket: TcpStream) -> io::Result<()> {
    socket.set_zero_linger()?;
    drop(socket);
    Ok(())
}

/// Ends our side and reads the remaining bytes, because closing with unread bytes would be a reset.
async fn close(mut socket: TcpStream) -> io::Result<()> {
    socket.shutdown().await?;
    tokio::io::copy(&mut socket, &mut tokio::io::sink()).await.map(drop)
}
