//! A peer between a proxy and the server. It passes responses on, and damages some of them.
//!
//! The path `/RUN/rows` is the endpoint `/rows`, for this number of a run. The run determines the
//! fault and the places of it, so the same run meets the same faults again.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::Request;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::task::{JoinHandle, block_in_place};

use crate::support::{Client, Ended, Launch, Server, Streaming, wait_until};

/// The choices depend only on it, on the run, and on the number of the request.
pub(super) const SEED: u64 = 20_261_128;

/// A fault of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// The connection is closed within a chunk.
    Cut,
    /// It's reset within a chunk.
    Reset,
    /// The server reports an error, within a row.
    ErrorRecord,
    /// Everything arrives except the end record.
    MissingEnd,
    /// Nothing arrives any more.
    Stall,
    /// A proxy ends the body as if it were complete.
    CleanEnd,
    /// The server is killed, and starts again.
    Restart,
    /// The connection is closed, and the server refuses the cursor of the next request.
    RefusedCursor,
}

impl Fault {
    pub(super) const ALL: [Self; 8] = [
        Self::Cut,
        Self::Reset,
        Self::ErrorRecord,
        Self::MissingEnd,
        Self::Stall,
        Self::CleanEnd,
        Self::Restart,
        Self::RefusedCursor,
    ];

    pub(super) fn of(run: usize) -> Self {
        Self::ALL[run % Self::ALL.len()]
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Cut => "the connection is closed",
            Self::Reset => "it is reset",
            Self::ErrorRecord => "the server reports an error",
            Self::MissingEnd => "only the end record is missing",
            Self::Stall => "it stalls",
            Self::CleanEnd => "a proxy ends it cleanly",
            Self::Restart => "the server is restarted",
            Self::RefusedCursor => "the cursor is refused",
        }
    }

    /// The responses of a run that are damaged, one after another.
    fn times(self, random: &mut fastrand::Rng) -> usize {
        match self {
            Self::Stall | Self::Restart | Self::RefusedCursor => 1,
            _ => random.usize(1..4),
        }
    }
}

/// The events of a run.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Events {
    requests: usize,
    /// The responses that were damaged before their end.
    pub(super) faults: usize,
    /// The cursors that the server refused.
    pub(super) refused: usize,
}

pub(super) struct Peer {
    pub(super) address: SocketAddr,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

struct Shared {
    folder: tempfile::TempDir,
    /// The address of the server, which it keeps.
    server_address: String,
    server: tokio::sync::Mutex<Server>,
    /// The bytes of the longest response.
    length: u64,
    runs: Mutex<HashMap<usize, Events>>,
}

/// The damage of one response.
#[derive(Clone, Copy)]
struct Damage {
    run: usize,
    fault: Fault,
    /// The bytes of the body before it.
    at: u64,
}

/// A request, without its run.
struct Asked {
    run: Option<usize>,
    target: String,
}

impl Peer {
    /// Starts the server of a folder, and a peer in front of it.
    pub(super) async fn start(folder: tempfile::TempDir, target: &str) -> Self {
        let server = Launch::folder(folder.path()).argument("--log-format=off").start().await;
        let whole = crate::support::get(&server.url(target)).await;
        let shared = Arc::new(Shared {
            folder,
            server_address: server.address().to_owned(),
            server: server.into(),
            length: whole.body.len() as u64,
            runs: Mutex::default(),
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("a bound address");
        let accepting = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Self { address, shared, accepting }
    }

    pub(super) fn events(&self, run: usize) -> Events {
        self.shared.of_run(run, |events| *events)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = tokio::task::JoinSet::new();
    while let Ok((socket, _)) = listener.accept().await {
        let shared = Arc::clone(&shared);
        connections.spawn(async move { drop(shared.answer(socket).await) });
    }
}

impl Shared {
    fn of_run<T>(&self, run: usize, change: impl FnOnce(&mut Events) -> T) -> T {
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        change(runs.entry(run).or_default())
    }

    /// Answers one request, and closes the connection.
    async fn answer(&self, mut socket: TcpStream) -> io::Result<()> {
        socket.set_nodelay(true)?;
        let Some(mut asked) = read_request(&mut socket).await? else { return Ok(()) };
        let damage = asked.run.and_then(|run| self.damage(run, &mut asked));
        let request = Request::get(format!("http://{}{}", self.server_address, asked.target));
        let request = request.body(String::new()).map_err(io::Error::other)?;
        // Without a response, the proxy answers with a 502.
        let Ok(stream) = Client::HTTP1.open(request).await else { return Ok(()) };
        if let Some(run) = asked.run.filter(|_| stream.status == 400) {
            self.of_run(run, |events| events.refused += 1);
        }
        write_head(&mut socket, &stream).await?;
        let Some(damage) = damage.filter(|_| stream.status == 200) else {
            return pass(&mut socket, stream, u64::MAX).await.map(drop);
        };
        self.befall(socket, stream, damage).await
    }

    /// Chooses the damage of the next response of a run.
    fn damage(&self, run: usize, asked: &mut Asked) -> Option<Damage> {
        let request = self.of_run(run, |events| {
            events.requests += 1;
            events.requests
        });
        let fault = Fault::of(run);
        let times = fault.times(&mut fastrand::Rng::with_seed(SEED ^ run as u64));
        if fault == Fault::RefusedCursor && asked.target.contains("_after=") {
            asked.target = asked.target.replace("_after=", "_after=x");
        }
        let seed = (run as u64) << 16 | request as u64;
        let at = fastrand::Rng::with_seed(SEED ^ seed).u64(..self.length);
        (request <= times).then_some(Damage { run, fault, at })
    }

    /// Passes the beginning of a response on. Then the fault happens, unless the response ended
    /// before.
    async fn befall(&self, mut socket: TcpStream, stream: Streaming, damage: Damage) -> io::Result<()> {
        let tag = stream.headers.get("rowstream-tag").and_then(|tag| tag.to_str().ok()).unwrap_or_default();
        let record = format!("{{\"$rowstream\":\"{tag}\",");
        if damage.fault == Fault::MissingEnd {
            self.count(damage);
            return pass_without_end(&mut socket, stream, &record).await;
        }
        let Some(rest) = pass(&mut socket, stream, damage.at).await? else { return Ok(()) };
        self.count(damage);
        match damage.fault {
            Fault::ErrorRecord => {
                let error = "\"code\":\"source_unavailable\",\"status\":503,\"detail\":\"the connection was lost\",\"retry\":true";
                let error = format!("\n{record}\"error\":{{{error}}}}}\n");
                write_chunk(&mut socket, error.as_bytes()).await?;
            }
            Fault::CleanEnd => socket.write_all(b"0\r\n\r\n").await?,
            Fault::Stall => {
                tokio::io::copy(&mut socket, &mut tokio::io::sink()).await?;
            }
            // Its future isn't `Send`, so it can't be part of a task.
            Fault::Restart => block_in_place(|| Handle::current().block_on(self.restart())),
            Fault::Cut | Fault::Reset | Fault::RefusedCursor => {
                socket.write_all(format!("{:x}\r\n", rest.len() + 1).as_bytes()).await?;
                socket.write_all(&rest).await?;
                if damage.fault == Fault::Reset {
                    socket.set_zero_linger()?;
                }
            }
            Fault::MissingEnd => unreachable!("it has its own way"),
        }
        Ok(())
    }

    fn count(&self, damage: Damage) {
        self.of_run(damage.run, |events| events.faults += 1);
    }

    async fn restart(&self) {
        let mut server = self.server.lock().await;
        server.kill();
        server.wait_exit().await;
        // Another test's new connection may use the port for a moment.
        *server = wait_until("it starts again", async || {
            let launch = Launch::folder(self.folder.path()).argument("--log-format=off");
            launch.listen(&self.server_address).try_start().await.map_err(|exit| exit.stderr)
        })
        .await;
    }
}

async fn read_request(socket: &mut TcpStream) -> io::Result<Option<Asked>> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() > 64 * 1024 || socket.read_buf(&mut head).await? == 0 {
            return Ok(None);
        }
    }
    let head = String::from_utf8(head).map_err(io::Error::other)?;
    let path = head.split(' ').nth(1).unwrap_or_default();
    let (first, rest) = path[1..].split_once('/').unwrap_or_default();
    Ok(Some(match first.parse() {
        Ok(run) => Asked { run: Some(run), target: format!("/{rest}") },
        Err(_) => Asked { run: None, target: path.to_owned() },
    }))
}

/// Passes the status and the headers on. The body has chunks of our own.
async fn write_head(socket: &mut TcpStream, stream: &Streaming) -> io::Result<()> {
    let mut head = format!("HTTP/1.1 {} Status\r\n", stream.status.as_u16()).into_bytes();
    for (name, value) in &stream.headers {
        if !["transfer-encoding", "content-length", "connection", "trailer"].contains(&name.as_str()) {
            head.extend([name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat());
        }
    }
    head.extend_from_slice(b"transfer-encoding: chunked\r\nconnection: close\r\n\r\n");
    socket.write_all(&head).await
}

/// Passes up to `most` bytes of the body on. Returns the rest of the bytes that arrived, or `None`
/// if the body ended before.
async fn pass(socket: &mut TcpStream, mut stream: Streaming, most: u64) -> io::Result<Option<Bytes>> {
    let mut left = most;
    loop {
        match stream.chunk().await {
            Ok(mut bytes) if bytes.len() as u64 > left => {
                let rest = bytes.split_off(left as usize);
                write_chunk(socket, &bytes).await?;
                return Ok(Some(rest));
            }
            Ok(bytes) => {
                write_chunk(socket, &bytes).await?;
                left -= bytes.len() as u64;
            }
            Err(Ended::Complete) => {
                socket.write_all(b"0\r\n\r\n").await?;
                return Ok(None);
            }
            Err(Ended::Broken(reason)) => return Err(io::Error::other(reason)),
        }
    }
}

/// Passes a body on except its end record, and ends it as if it were complete.
async fn pass_without_end(socket: &mut TcpStream, stream: Streaming, record: &str) -> io::Result<()> {
    let whole = stream.rest().await;
    let end = whole.text().rfind(&format!("{record}\"end\":")).ok_or(io::ErrorKind::InvalidData)?;
    write_chunk(socket, &whole.body[..end]).await?;
    socket.write_all(b"0\r\n\r\n").await
}

async fn write_chunk(socket: &mut TcpStream, bytes: &[u8]) -> io::Result<()> {
    if bytes.is_empty() {
        return Ok(());
    }
    let chunk = [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat();
    socket.write_all(&chunk).await
}
