//! HTTP clients that report how a body ended.
//!
//! Each request has its own connection, so that dropping a response closes its socket. Nothing is
//! retried, redirected, decompressed or hidden.

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Method, Request, StatusCode, header};
use http_body::Body as _;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinHandle;

use super::{limit, wait};

/// How a body ended, according to its framing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// With the last chunk, the last promised byte or `END_STREAM`.
    Complete,
    /// In any other way, as the client saw it. This includes bodies that end only because the
    /// connection closes: that proves nothing.
    Broken(String),
}

/// A response that was read to its end.
#[derive(Debug, Clone)]
pub struct Reply {
    pub status: StatusCode,
    pub headers: HeaderMap,
    /// The received bytes, even if the body is truncated.
    pub body: Bytes,
    pub trailers: Option<HeaderMap>,
    pub ended: Ended,
}

impl Reply {
    /// The body as text.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("the body is UTF-8")
    }

    /// The body as JSON.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|fault| panic!("{fault}: {:?}", self.body))
    }

    /// The text of a header that occurs once.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().expect("the header is ASCII"))
    }
}

/// `GET` over HTTP/1.1.
pub async fn get(url: &str) -> Reply {
    Client::HTTP1.get(url).await
}

/// `GET` over HTTP/2 without TLS, by prior knowledge.
pub async fn get_h2c(url: &str) -> Reply {
    Client::H2C.get(url).await
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    Http1,
    H2c,
}

/// The way to connect.
#[derive(Debug, Clone, Copy)]
pub struct Client {
    version: Version,
    receive_buffer: Option<u32>,
}

impl Client {
    pub const HTTP1: Self = Self { version: Version::Http1, receive_buffer: None };
    pub const H2C: Self = Self { version: Version::H2c, receive_buffer: None };

    /// With a small receive buffer, so that the server soon notices a reader that stops. The
    /// kernel's default holds megabytes.
    pub const fn receive_buffer(self, bytes: u32) -> Self {
        Self { receive_buffer: Some(bytes), ..self }
    }

    pub async fn get(self, url: &str) -> Reply {
        self.send(request(url)).await
    }

    /// Sends a request with an absolute URL, and reads the whole response. The test fails if
    /// there's no head.
    pub async fn send(self, request: Request<String>) -> Reply {
        self.open(request).await.unwrap_or_else(|fault| panic!("no response: {fault}")).rest().await
    }

    /// Opens a stream. The test fails if there's no head.
    pub async fn stream(self, url: &str) -> Streaming {
        self.open(request(url)).await.unwrap_or_else(|fault| panic!("no response: {fault}"))
    }

    /// Sends a request with an absolute URL, and waits for the head of the response. The error says
    /// why there isn't one.
    pub async fn open(self, request: Request<String>) -> Result<Streaming, String> {
        let sent = async {
            let socket = self.connect(&request).await.map_err(|fault| format!("cannot connect: {fault}"))?;
            match self.version {
                Version::Http1 => over_http1(socket, request).await.map_err(|fault| chain(&fault)),
                Version::H2c => over_h2c(socket, request).await.map_err(|fault| chain(&fault)),
            }
        };
        wait("the head of the response", sent).await
    }

    async fn connect<B>(self, request: &Request<B>) -> std::io::Result<TcpStream> {
        let authority = request.uri().authority().expect("the URL is absolute");
        let address = (authority.host(), authority.port_u16().unwrap_or(80));
        let address = tokio::net::lookup_host(address).await?.next().expect("the host has an address");
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        if let Some(bytes) = self.receive_buffer {
            socket.set_recv_buffer_size(bytes)?;
        }
        socket.connect(address).await
    }
}

fn request(url: &str) -> Request<String> {
    Request::get(url).body(String::new()).expect("the URL is one")
}

async fn over_http1(socket: TcpStream, request: Request<String>) -> hyper::Result<Streaming> {
    let (mut sender, connection) = hyper::client::conn::http1::Builder::new()
        // The smallest buffer that hyper allows, so that the server notices a client that stops
        // reading.
        .max_buf_size(8192)
        .handshake(TokioIo::new(socket))
        .await?;
    let connection = tokio::spawn(async { drop(connection.await) });
    let method = request.method().clone();
    let response = sender.send_request(as_http1(request)).await?;
    let end = if tells_length(&method, &response) { End::Framed } else { End::Close };
    Ok(Streaming::new(response, connection, end))
}

async fn over_h2c(socket: TcpStream, request: Request<String>) -> hyper::Result<Streaming> {
    let builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
    let (mut sender, connection) = builder.handshake(TokioIo::new(socket)).await?;
    let connection = tokio::spawn(async { drop(connection.await) });
    let response = sender.send_request(request.map(Full::from)).await?;
    // The stream keeps the sender alive. Otherwise hyper closes the connection.
    let mut streaming = Streaming::new(response, connection, End::Flag);
    streaming.sender = Some(sender);
    Ok(streaming)
}

/// Converts the URL to a path and a Host, as hyper's HTTP/1 client requires.
fn as_http1(request: Request<String>) -> Request<Full<Bytes>> {
    let (mut head, body) = request.into_parts();
    let authority = head.uri.authority().expect("the URL is absolute").as_str();
    let host = authority.parse().expect("an authority is a header value");
    head.headers.entry(header::HOST).or_insert(host);
    let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
    head.uri = path.parse().expect("part of a URL is a URL");
    Request::from_parts(head, Full::from(body))
}

/// The event that completes a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// HTTP/1.1 with a length or chunks. hyper reports everything else as an error.
    Framed,
    /// HTTP/1.1 without either.
    Close,
    /// `END_STREAM` of HTTP/2. hyper treats a reset with `NO_ERROR` as an end too, but a truncated
    /// stream must not count as complete.
    Flag,
}

fn tells_length<B>(method: &Method, response: &http::Response<B>) -> bool {
    let no_body = method == Method::HEAD || matches!(response.status().as_u16(), 204 | 304);
    let headers = response.headers();
    no_body || headers.contains_key(header::CONTENT_LENGTH) || headers.contains_key(header::TRANSFER_ENCODING)
}

/// A response whose body the test reads at its own pace. Only the socket and 8 KiB are read ahead.
/// Dropping it closes the connection.
pub struct Streaming {
    pub status: StatusCode,
    pub headers: HeaderMap,
    body: Incoming,
    trailers: Option<HeaderMap>,
    end: End,
    connection: JoinHandle<()>,
    sender: Option<hyper::client::conn::http2::SendRequest<Full<Bytes>>>,
}

impl Streaming {
    fn new(response: http::Response<Incoming>, connection: JoinHandle<()>, end: End) -> Self {
        let (head, body) = response.into_parts();
        let (status, headers) = (head.status, head.headers);
        Self { status, headers, body, trailers: None, end, connection, sender: None }
    }

    /// Returns the next bytes as they arrive. After the end, always returns how it ended.
    pub async fn chunk(&mut self) -> Result<Bytes, Ended> {
        loop {
            match wait("the next frame of the body", self.body.frame()).await {
                None => return Err(self.end()),
                Some(Err(fault)) => return Err(Ended::Broken(chain(&fault))),
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(bytes) if bytes.is_empty() => {}
                    Ok(bytes) => return Ok(bytes),
                    Err(frame) => self.trailers = frame.into_trailers().ok(),
                },
            }
        }
    }

    fn end(&self) -> Ended {
        match self.end {
            End::Framed => Ended::Complete,
            End::Flag if self.body.is_end_stream() => Ended::Complete,
            End::Flag => Ended::Broken("the stream was reset with NO_ERROR".into()),
            End::Close => Ended::Broken("the connection closed, and nothing had told the length".into()),
        }
    }

    /// Reads at least this many bytes, or up to the end.
    pub async fn at_least(&mut self, bytes: usize) -> Bytes {
        let mut read = BytesMut::new();
        while read.len() < bytes {
            match self.chunk().await {
                Ok(chunk) => read.extend_from_slice(&chunk),
                Err(_) => break,
            }
        }
        read.freeze()
    }

    /// Reads up to the end.
    pub async fn rest(mut self) -> Reply {
        let mut body = BytesMut::new();
        let ended = loop {
            match self.chunk().await {
                Ok(chunk) => body.extend_from_slice(&chunk),
                Err(ended) => break ended,
            }
        };
        let (headers, trailers) = (std::mem::take(&mut self.headers), self.trailers.take());
        Reply { status: self.status, headers, body: body.freeze(), trailers, ended }
    }
}

impl Drop for Streaming {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

/// An error with its causes, which contain the actual reason.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |cause| cause.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// The result of curl.
#[derive(Debug)]
pub struct Curl {
    /// 0 for success, 18 for a truncated body, 56 for a reset, 92 for an HTTP/2 stream reset.
    pub code: i32,
    pub stdout: Vec<u8>,
    pub stderr: String,
}

/// Runs curl: it prints only errors, ignores proxies, and has a time limit.
pub async fn curl(arguments: &[&str]) -> Curl {
    let mut command = std::process::Command::new("curl");
    let patience = limit().as_secs().to_string();
    command.args(["--silent", "--show-error", "--noproxy", "*", "--max-time", &patience]).args(arguments);
    let ran = tokio::task::spawn_blocking(move || command.output()).await.expect("no panic");
    let output = ran.expect("curl is installed: run `cargo xtask test`");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    Curl { code: output.status.code().unwrap_or(-1), stdout: output.stdout, stderr }
}
