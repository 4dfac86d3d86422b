//! A server with one response, and a client that detects how it ended.

use std::net::SocketAddr;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::IntoResponse;
use axum::routing::get;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Much longer than any test here needs.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// For tests with random values.
pub(crate) static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());

/// Serves until it is dropped.
pub(crate) struct Server {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Server {
    pub(crate) async fn start(app: Router) -> Self {
        Self::run(|listener| async move { axum::serve(listener, app).await.unwrap() }).await
    }

    /// Calls `serve` with a socket that listens.
    pub(crate) async fn run<F>(serve: impl FnOnce(TcpListener) -> F) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        Self { address, task: tokio::spawn(serve(listener)) }
    }

    /// Sends `response` to the first request.
    pub(crate) async fn of(response: impl IntoResponse) -> Self {
        let response = Arc::new(Mutex::new(Some(response.into_response())));
        let handler = move || async move { response.lock().unwrap().take().unwrap() };
        Self::start(Router::new().route("/", get(handler))).await
    }

    pub(crate) async fn open(&self, path: &str) -> Conversation {
        self.open_with(path, "").await
    }

    /// Sends a request with further header lines.
    pub(crate) async fn open_with(&self, path: &str, lines: &str) -> Conversation {
        let mut socket = TcpStream::connect(self.address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{lines}\r\n");
        socket.write_all(request.as_bytes()).await.unwrap();
        Conversation { socket, received: Vec::new() }
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.open(path).await.rest().await
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Serves `response` and reads it to its end.
pub(crate) async fn fetch(response: impl IntoResponse) -> Reply {
    Server::of(response).await.get("/").await
}

/// A request whose response is being read.
pub(crate) struct Conversation {
    socket: TcpStream,
    received: Vec<u8>,
}

impl Conversation {
    /// Reads until the body contains `text`.
    pub(crate) async fn until(&mut self, text: &str) {
        while !Reply::parse(&self.received).is_some_and(|reply| reply.text().contains(text)) {
            assert!(self.read().await, "the response ended before {text:?}");
        }
    }

    /// All bytes of the connection.
    pub(crate) async fn all(mut self) -> Vec<u8> {
        while self.read().await {}
        self.received
    }

    pub(crate) async fn rest(mut self) -> Reply {
        while self.read().await {}
        Reply::parse(&self.received).unwrap_or_else(|| Reply::cut_in_head(&self.received))
    }

    /// Reads the available bytes. Returns false at the end of the connection, which may be a reset.
    async fn read(&mut self) -> bool {
        let read = timeout(LIMIT, self.socket.read_buf(&mut self.received)).await.unwrap();
        read.is_ok_and(|length| length > 0)
    }
}

/// How a response ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResponseEnd {
    Complete,
    Broken,
}

#[derive(Debug)]
pub(crate) struct Reply {
    head: String,
    pub(crate) body: Vec<u8>,
    pub(crate) ended: ResponseEnd,
}

impl Reply {
    /// `None` while the head is incomplete.
    pub(crate) fn parse(received: &[u8]) -> Option<Self> {
        let end = received.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
        let head = str::from_utf8(&received[..end]).unwrap().to_ascii_lowercase();
        let mut reply = Self { head, body: received[end..].to_vec(), ended: ResponseEnd::Broken };
        match reply.header("content-length").map(|length| length.parse::<usize>().unwrap()) {
            Some(length) if reply.body.len() == length => reply.ended = ResponseEnd::Complete,
            Some(_) => {}
            None => {
                assert_eq!(reply.header("transfer-encoding"), Some("chunked"));
                (reply.body, reply.ended) = unchunked(&received[end..]);
            }
        }
        Some(reply)
    }

    /// The connection ended before the response began.
    fn cut_in_head(received: &[u8]) -> Self {
        let head = String::from_utf8_lossy(received).into_owned();
        Self { head, body: Vec::new(), ended: ResponseEnd::Broken }
    }

    pub(crate) fn status(&self) -> &str {
        self.head.split(' ').nth(1).unwrap_or_default()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut fields = self.head.lines().filter_map(|line| line.split_once(": "));
        fields.find_map(|(field, value)| (field == name).then_some(value))
    }

    pub(crate) fn text(&self) -> &str {
        str::from_utf8(&self.body).unwrap()
    }

    /// The text of a response that is complete.
    pub(crate) fn whole(&self) -> &str {
        assert_eq!((self.status(), self.ended), ("200", ResponseEnd::Complete), "{}", self.text());
        self.text()
    }
}

/// The data of complete chunks, and how the body ended (RFC 9112, section 7.1). Skips trailers.
fn unchunked(mut bytes: &[u8]) -> (Vec<u8>, ResponseEnd) {
    let mut data = Vec::new();
    while let Some(line) = bytes.windows(2).position(|window| window == b"\r\n") {
        let size = usize::from_str_radix(str::from_utf8(&bytes[..line]).unwrap(), 16).unwrap();
        if size == 0 {
            let is_complete = bytes[line..].ends_with(b"\r\n\r\n");
            return (data, if is_complete { ResponseEnd::Complete } else { ResponseEnd::Broken });
        }
        let Some(chunk) = bytes.get(line + 2..line + 2 + size + 2) else { break };
        assert!(chunk.ends_with(b"\r\n"));
        data.extend_from_slice(&chunk[..size]);
        bytes = &bytes[line + 2 + size + 2..];
    }
    (data, ResponseEnd::Broken)
}

/// The body of a response, without a socket.
pub(crate) fn body(response: impl IntoResponse) -> Body {
    response.into_response().into_body()
}

#[tokio::test]
async fn a_cut_response_is_not_a_whole_one() {
    let whole = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    let reply = Reply::parse(whole).unwrap();
    assert_eq!((reply.status(), reply.text(), reply.ended), ("200", "abc", ResponseEnd::Complete));
    for length in 0..whole.len() {
        assert!(
            Reply::parse(&whole[..length]).is_none_or(|reply| reply.ended == ResponseEnd::Broken),
            "{length}"
        );
    }
    let counted = Reply::parse(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nabc").unwrap();
    assert_eq!(counted.ended, ResponseEnd::Broken);
}
