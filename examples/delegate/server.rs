//! The measured server, as a separate process, and a client with one connection per request.

use std::error::Error;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use http::{Request, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

pub(crate) type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The body of a response that must succeed.
pub(crate) async fn get(address: &str, target: &str) -> Result<Bytes> {
    let (status, body) = ask(address, target).await?;
    if !status.is_success() {
        return Err(format!("{status}: {}", String::from_utf8_lossy(&body)).into());
    }
    Ok(body)
}

/// The status of a response, and its whole body.
pub(crate) async fn ask(address: &str, target: &str) -> Result<(StatusCode, Bytes)> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let connection = tokio::spawn(connection);
    let request = Request::get(target).header("host", address).body(Empty::<Bytes>::new())?;
    let response = sender.send_request(request).await?;
    let status = response.status();
    let body = response.into_body().collect().await?.to_bytes();
    connection.abort();
    Ok((status, body))
}

/// `target/…/rowstream`, next to the folder `examples` that contains this program.
pub(crate) fn beside() -> Result<PathBuf> {
    let own = std::env::current_exe()?;
    let program = own.parent().and_then(Path::parent).map(|folder| folder.join("rowstream"));
    program.filter(|program| program.is_file()).ok_or_else(|| {
        "there is no `rowstream` beside this program: `cargo build` it in the same profile first".into()
    })
}

/// A server that runs until it is dropped.
pub(crate) struct Server {
    child: Child,
    /// `HOST:PORT`.
    pub(crate) address: String,
}

impl Server {
    /// Starts the server with one of the example's configurations, and waits until it listens.
    pub(crate) fn start(program: &Path, config: &str, upstream: &str) -> Result<Self> {
        let config = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/delegate").join(config);
        let mut command = Command::new(program);
        command.arg("serve").arg(config).args(["--listen", "127.0.0.1:0", "--log-format", "off"]);
        command.env("DELEGATE_URL", upstream).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let stderr = BufReader::new(child.stderr.take().ok_or("it is piped")?);
        for line in stderr.lines() {
            if let Some(address) = line?.strip_prefix("listening on http://") {
                return Ok(Self { child, address: address.trim_end_matches('/').to_owned() });
            }
        }
        Err("the server did not start".into())
    }

    /// Resident memory in bytes: now, and the peak so far.
    pub(crate) fn memory(&self) -> Result<(u64, u64)> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let of = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok()).map(|kib| kib * 1024)
        };
        of("VmRSS").zip(of("VmHWM")).ok_or_else(|| "this system does not tell of memory".into())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
