//! Upstreams: real HTTP servers that respond as a test wants, and count their requests.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, Version};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Collected, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::net::TcpListener;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use super::wait_until;

/// A body as tests make it.
pub type Payload = UnsyncBoxBody<Bytes, io::Error>;

type Answer = Pin<Box<dyn Future<Output = Response<Payload>> + Send>>;
type Handler = dyn Fn(Arc<Seen>, Asked) -> Answer + Send + Sync;

/// A request that an upstream received.
#[derive(Debug, Clone)]
pub struct Asked {
    pub method: Method,
    pub version: Version,
    /// Path and query.
    pub target: String,
    /// The `Host` header or `:authority`.
    pub authority: String,
    pub headers: HeaderMap,
    pub body: String,
}

/// Records of an upstream.
pub struct Seen {
    asked: Mutex<Vec<Asked>>,
    connections: AtomicUsize,
    /// Requests that wait for their head, and the largest number at the same time.
    running: AtomicUsize,
    most: AtomicUsize,
    /// A request that waits for a permit is answered once the test adds one.
    pub gate: Semaphore,
}

impl Seen {
    /// The number of requests so far, including the current one.
    pub fn count(&self) -> usize {
        self.asked.lock().expect("no panic").len()
    }
}

/// Counts a request while it exists, even if its client disconnects.
struct Running(Arc<Seen>);

impl Running {
    fn enter(seen: &Arc<Seen>) -> Self {
        let running = seen.running.fetch_add(1, Ordering::SeqCst) + 1;
        seen.most.fetch_max(running, Ordering::SeqCst);
        Self(Arc::clone(seen))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The protocol of an upstream.
#[derive(Clone)]
pub enum Speaks {
    Http1,
    /// By prior knowledge, with this many concurrent streams per connection.
    H2c(u32),
    /// TLS, with one of these protocols chosen by ALPN.
    Tls(Certificate, &'static [&'static [u8]]),
}

/// A running upstream. Dropping it ends it and its connections.
pub struct Upstream {
    address: SocketAddr,
    pub seen: Arc<Seen>,
    accepting: JoinHandle<()>,
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Upstream {
    /// Answers every request with `handler`.
    pub async fn start<F>(
        speaks: Speaks,
        handler: impl Fn(Arc<Seen>, Asked) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Response<Payload>> + Send + 'static,
    {
        Self::start_on("127.0.0.1:0", speaks, handler).await
    }

    /// The same at a fixed address.
    pub async fn start_on<F>(
        address: &str,
        speaks: Speaks,
        handler: impl Fn(Arc<Seen>, Asked) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Response<Payload>> + Send + 'static,
    {
        let listener = TcpListener::bind(address).await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let seen = Arc::new(Seen {
            asked: Mutex::default(),
            connections: AtomicUsize::new(0),
            running: AtomicUsize::new(0),
            most: AtomicUsize::new(0),
            gate: Semaphore::new(0),
        });
        let handler: Arc<Handler> = Arc::new(move |seen, asked| Box::pin(handler(seen, asked)));
        let accepting = tokio::spawn(accept(listener, speaks, Arc::clone(&seen), handler));
        Self { address, seen, accepting }
    }

    /// Ends it and its connections. Its port then refuses connections.
    pub async fn stop(mut self) {
        self.accepting.abort();
        drop((&mut self.accepting).await);
    }

    /// `127.0.0.1:PORT`.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its requests, in order of arrival.
    pub fn asked(&self) -> Vec<Asked> {
        self.seen.asked.lock().expect("no panic").clone()
    }

    /// The number of requests whose target begins with this text.
    pub fn count(&self, target: &str) -> usize {
        self.asked().iter().filter(|asked| asked.target.starts_with(target)).count()
    }

    /// The number of accepted connections.
    pub fn connections(&self) -> usize {
        self.seen.connections.load(Ordering::SeqCst)
    }

    /// The number of requests that it's answering.
    pub fn running(&self) -> usize {
        self.seen.running.load(Ordering::SeqCst)
    }

    /// The largest number of requests that it answered at the same time.
    pub fn most(&self) -> usize {
        self.seen.most.load(Ordering::SeqCst)
    }

    /// Waits until it answers this many requests at the same time.
    pub async fn until_running(&self, count: usize) {
        until(count, "requests run", || self.running()).await;
    }

    /// Waits until it has accepted this many connections. A client can be connected before that.
    pub async fn until_connections(&self, count: usize) {
        until(count, "connections were taken", || self.connections()).await;
    }
}

async fn until(count: usize, what: &str, now: impl Fn() -> usize) {
    let look = async || if now() == count { Ok(()) } else { Err(now()) };
    wait_until(&format!("{count} {what}"), look).await;
}

/// A peer that answers with raw bytes. It ends with the test's runtime.
pub struct Scripted {
    pub url: String,
    sockets: Arc<Mutex<Vec<OwnedWriteHalf>>>,
}

impl Scripted {
    /// Answers requests with `script`, which gets the target and the number of earlier requests on
    /// the same connection.
    pub async fn start(script: impl Fn(&str, usize) -> Vec<u8> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("it is bound"));
        let sockets = Arc::<Mutex<Vec<OwnedWriteHalf>>>::default();
        let (accepted, script) = (Arc::clone(&sockets), Arc::new(script));
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let (reads, writes) = socket.into_split();
                accepted.lock().expect("no panic").push(writes);
                tokio::spawn(answer_raw(reads, Arc::clone(&accepted), Arc::clone(&script)));
            }
        });
        Self { url, sockets }
    }

    /// Sends unsolicited bytes on all connections. They're in the sockets when this returns.
    pub fn push(&self, bytes: &[u8]) {
        for socket in self.sockets.lock().expect("no panic").iter() {
            // A closed connection is skipped.
            drop(socket.try_write(bytes));
        }
    }

    /// The number of accepted connections.
    pub fn connections(&self) -> usize {
        self.sockets.lock().expect("no panic").len()
    }
}

async fn answer_raw(
    mut reads: OwnedReadHalf,
    sockets: Arc<Mutex<Vec<OwnedWriteHalf>>>,
    script: Arc<impl Fn(&str, usize) -> Vec<u8>>,
) {
    let peer = reads.peer_addr().expect("it is connected");
    let (mut unread, mut before) = (Vec::new(), 0);
    while reads.read_buf(&mut unread).await.is_ok_and(|read| read > 0) {
        let text = String::from_utf8_lossy(&unread).into_owned();
        let Some((head, _)) = text.split_once("\r\n\r\n") else { continue };
        let bytes = script(head.split(' ').nth(1).expect("a target"), before);
        before += 1;
        unread.clear();
        let sockets = sockets.lock().expect("no panic");
        let socket = sockets.iter().find(|socket| socket.peer_addr().is_ok_and(|of| of == peer));
        let written = socket.map(|socket| socket.try_write(&bytes));
        assert!(written.is_some_and(|written| written.is_ok_and(|written| written == bytes.len())));
    }
}

/// A complete body of this type.
pub fn reply(status: u16, kind: &str, body: impl Into<Bytes>) -> Response<Payload> {
    let body = Full::new(body.into()).map_err(|never| match never {});
    let response = Response::builder().status(status).header("content-type", kind);
    response.body(body.boxed_unsync()).expect("a response")
}

/// A body that sends these pieces as they arrive. An error truncates it.
pub fn stream<S>(pieces: S) -> Response<Payload>
where
    S: futures_util::Stream<Item = io::Result<Bytes>> + Send + 'static,
{
    use futures_util::StreamExt;
    Response::new(StreamBody::new(pieces.map(|piece| piece.map(Frame::data))).boxed_unsync())
}

async fn accept(listener: TcpListener, speaks: Speaks, seen: Arc<Seen>, handler: Arc<Handler>) {
    let mut connections = tokio::task::JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        seen.connections.fetch_add(1, Ordering::SeqCst);
        // Otherwise the last bytes of a head wait for an acknowledgement.
        stream.set_nodelay(true).expect("a socket");
        let (speaks, seen, handler) = (speaks.clone(), Arc::clone(&seen), Arc::clone(&handler));
        connections.spawn(async move {
            match speaks {
                Speaks::Http1 => serve_http1(stream, seen, handler).await,
                Speaks::H2c(streams) => serve_http2(stream, streams, seen, handler).await,
                Speaks::Tls(certificate, protocols) => {
                    let Ok(stream) = certificate.acceptor(protocols).accept(stream).await else { return };
                    match stream.get_ref().1.alpn_protocol() {
                        Some(b"h2") => serve_http2(stream, 100, seen, handler).await,
                        _ => serve_http1(stream, seen, handler).await,
                    }
                }
            }
        });
    }
}

async fn serve_http1(
    io: impl AsyncRead + AsyncWrite + Unpin + 'static,
    seen: Arc<Seen>,
    handler: Arc<Handler>,
) {
    let service = service_fn(move |request| answer(request, Arc::clone(&seen), Arc::clone(&handler)));
    drop(hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(io), service).await);
}

async fn serve_http2(
    io: impl AsyncRead + AsyncWrite + Unpin + 'static,
    streams: u32,
    seen: Arc<Seen>,
    handler: Arc<Handler>,
) {
    let service = service_fn(move |request| answer(request, Arc::clone(&seen), Arc::clone(&handler)));
    let mut builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    drop(builder.max_concurrent_streams(streams).serve_connection(TokioIo::new(io), service).await);
}

async fn answer(
    request: Request<Incoming>,
    seen: Arc<Seen>,
    handler: Arc<Handler>,
) -> Result<Response<Payload>, Infallible> {
    let _running = Running::enter(&seen);
    let (head, body) = request.into_parts();
    // The body is empty if the client disconnects.
    let body = body.collect().await.map(Collected::to_bytes).unwrap_or_default();
    let body = String::from_utf8_lossy(&body).into_owned();
    let target = head.uri.path_and_query().map(ToString::to_string).unwrap_or_default();
    let host = head.headers.get("host").map(|host| host.to_str().unwrap_or_default().to_owned());
    let authority = head.uri.authority().map(ToString::to_string).or(host).unwrap_or_default();
    let (method, version, headers) = (head.method, head.version, head.headers);
    let asked = Asked { method, version, target, authority, headers, body };
    seen.asked.lock().expect("no panic").push(asked.clone());
    Ok(handler(Arc::clone(&seen), asked).await)
}

/// A certificate for `localhost` and 127.0.0.1, and the CA that signed it.
#[derive(Clone)]
pub struct Certificate(Arc<tempfile::TempDir>);

impl Certificate {
    /// Creates it with openssl.
    pub fn new() -> Self {
        const SCRIPT: &str = "set -e
            new='-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes'
            openssl req -x509 -subj /CN=ca -days 2 $new -keyout ca.key -out ca.crt
            openssl req -new -subj /CN=localhost $new -keyout server.key -out server.csr
            printf 'subjectAltName=DNS:localhost,IP:127.0.0.1' > names
            openssl x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 -extfile names -out server.crt";
        let folder = tempfile::tempdir().expect("a temporary folder");
        let output = Command::new("sh").args(["-c", SCRIPT]).current_dir(folder.path()).output();
        let output = output.expect("a shell");
        assert!(output.status.success(), "openssl: {}", String::from_utf8_lossy(&output.stderr));
        Self(Arc::new(folder))
    }

    /// The PEM file of the CA.
    pub fn ca(&self) -> PathBuf {
        self.path("ca.crt")
    }

    /// The PEM file of the certificate.
    pub fn certificate(&self) -> PathBuf {
        self.path("server.crt")
    }

    /// The PEM file of its key.
    pub fn key(&self) -> PathBuf {
        self.path("server.key")
    }

    fn path(&self, name: &str) -> PathBuf {
        Path::join(self.0.path(), name)
    }

    /// A TLS acceptor with this certificate and these protocols.
    pub fn acceptor(&self, protocols: &[&[u8]]) -> TlsAcceptor {
        let certificate = CertificateDer::from_pem_file(self.path("server.crt")).expect("openssl made it");
        let key = PrivateKeyDer::from_pem_file(self.path("server.key")).expect("openssl made it");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let builder = builder.expect("there are versions").with_no_client_auth();
        let mut config = builder.with_single_cert(vec![certificate], key).expect("they belong together");
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        TlsAcceptor::from(Arc::new(config))
    }
}
