//! Sends requests over HTTP/1.1, each on a new connection, and reads the responses.
//!
//! The peer isn't trusted: heads, trailers and problem documents have bounds, and the token is only
//! sent to the host of the URL.

use std::error::Error;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::{Pin, pin};
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{env, fs, io};

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::{Fuse, LocalBoxFuture};
use http::uri::{Authority, Uri};
use http::{HeaderMap, HeaderValue, Request, StatusCode, header};
use http_body::Body as _;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use rowstream_core::diagnostic::shown;
use rowstream_core::tls::servers;
use rowstream_encode::Format;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use serde_json::Value;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;

use super::super::Failure;
use super::super::ready::trust;
use super::Args;
use super::fault::Fault;
use super::output::Position;
use super::proof::Proof;
use crate::completeness::digest::WANT_CONTENT_DIGEST;
use crate::completeness::streams::STREAM;

const AGENT: &str = concat!("rowstream-get/", env!("CARGO_PKG_VERSION"));
/// The variable with the token.
const TOKEN: &str = "ROWSTREAM_TOKEN";
/// The hint after a wait for the head of a response.
const LONGER: &str = "if the statement needs longer until its first row, set --timeout";
/// The time limit for a connection, and for the body of an error.
const PATIENCE: Duration = Duration::from_secs(10);
/// After this silence, TCP checks that the peer is still there.
const KEEPALIVE: Duration = Duration::from_secs(30);
/// The longest body of an error, in bytes. The server sends at most 4 KB.
const LONGEST_PROBLEM: usize = 64 << 10;
/// The heartbeats that a silent connection may miss.
const MISSED_HEARTBEATS: f64 = 3.0;
/// The longest heartbeat interval that we believe, in seconds.
const LONGEST_HEARTBEAT: f64 = 3600.0;
/// The longest time to ask for the state of a stream, and the pause after each answer.
const LONGEST_ASKING: Duration = Duration::from_secs(5);
const ASKING_PAUSE: Duration = Duration::from_millis(200);
/// The characters of a cursor that a query can contain as they are.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The URL of an endpoint.
#[derive(Debug, Clone)]
pub(super) struct EndpointUrl {
    /// As it's written.
    pub(super) text: String,
    authority: Authority,
    is_https: bool,
    path: String,
    /// The parameters as they're written. Some may be empty, because a signature covers each `&`.
    parameters: Vec<String>,
}

impl FromStr for EndpointUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let no_url = "write http://HOST:PORT/PATH or https://HOST/PATH, percent-encoded";
        let url: Uri = text.parse().map_err(|_| no_url)?;
        let (Some(authority), Some(scheme @ ("http" | "https"))) = (url.authority(), url.scheme_str()) else {
            return Err(no_url.to_owned());
        };
        if authority.as_str().contains('@') {
            return Err(format!("a user in the URL isn't sent: leave it out, and set {TOKEN}"));
        }
        let parameters = url.query().into_iter().flat_map(|query| query.split('&'));
        let url = Self {
            text: text.to_owned(),
            authority: authority.clone(),
            is_https: scheme == "https",
            path: url.path().to_owned(),
            parameters: parameters.map(str::to_owned).collect(),
        };
        match url.parameter("_follow") {
            Some("1") => Err("a live tail has no end: read it with `curl -N`".to_owned()),
            _ => Ok(url),
        }
    }
}

impl EndpointUrl {
    /// The value of a parameter as it's written.
    pub(super) fn parameter(&self, name: &str) -> Option<&str> {
        let written = self.parameters.iter().rfind(|written| has_name(written, name))?;
        Some(written.split_once('=').map_or("", |(_, value)| value))
    }

    /// The path of the server's root, with a slash. `from_here` is the way to it, such as `../`,
    /// because a proxy may serve it below a prefix. Earlier servers don't send it. Anything but `./`
    /// and `../` could be another program's path.
    fn root(&self, from_here: Option<&str>) -> String {
        let is_up = |way: &str| !way.is_empty() && way.replace("../", "").is_empty();
        let Some(way) = from_here.filter(|way| *way == "./" || is_up(way)) else { return "/".to_owned() };
        let (folder, _) = self.path.rsplit_once('/').unwrap_or_default();
        let mut root = Vec::new();
        for segment in folder.split('/').skip(1).chain(way.split_terminator('/')) {
            match segment {
                "." => {}
                ".." => {
                    root.pop();
                }
                name => root.push(name),
            }
        }
        root.iter().fold("/".to_owned(), |path, name| path + name + "/")
    }

    /// The format that it names.
    fn format(&self) -> Option<Format> {
        let suffix = || self.path.rsplit_once('.').map(|(_, suffix)| suffix);
        match self.parameter("_format").or_else(suffix)? {
            "jsonl" => Some(Format::Ndjson),
            name => Format::from_name(name),
        }
    }

    /// True if its signature would be invalid with other parameters.
    pub(super) fn is_signed(&self) -> bool {
        self.parameter("_signature").is_some()
    }

    /// True if it asks for records, or if it names a format that can contain them and we may ask for them.
    fn is_framed(&self) -> bool {
        match self.is_signed() {
            true => self.parameter("_end") == Some("1"),
            false => matches!(self.format(), Some(Format::Ndjson | Format::JsonSeq)),
        }
    }

    /// Checks that a response has the format that the URL names. A suffix can also be a part of a value,
    /// `/file/report.csv`, so any type is its own, except pages and none.
    pub(super) fn check_format(&self, content_type: &str) -> Result<(), Fault> {
        let Some(format) = self.format() else { return Ok(()) };
        let own = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        // A response can have a more exact type of JSON.
        let is_exact = own == format.media_type() || (format == Format::Json && own.ends_with("+json"));
        let is_value = self.parameter("_format").is_none() && !matches!(&*own, "" | "text/html");
        if is_exact || is_value {
            return Ok(());
        }
        let detail = format!(
            "the response has the content type {content_type:?}, but {} is {}",
            format.name(),
            format.media_type()
        );
        Err(Fault::lasting(
            detail,
            "it may be the page of a login, of a proxy or of another server: look at it with `curl -i`",
        ))
    }
}

#[derive(Clone)]
pub(super) struct Requests {
    pub(super) url: EndpointUrl,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    token: TokenSource,
    /// The longest wait for the head of a response.
    first_row: Duration,
    /// True if we ask for records among the rows.
    pub(super) is_framed: bool,
}

impl Requests {
    pub(super) fn new(args: &Args) -> Result<Self, Failure> {
        let url = args.url.clone();
        let tls = url.is_https.then(|| tls(&url.authority, args.ca.as_deref())).transpose();
        let tls = tls.map_err(|error| Failure::Message(format!("{}: {error}", url.authority)))?;
        let token = TokenSource::new(args.token_file.as_deref()).map_err(Failure::Message)?;
        let first_row = Duration::from_secs(args.timeout);
        Ok(Self { is_framed: url.is_framed(), url, tls, token, first_row })
    }

    /// Requests for one of `of` shards. The index begins at 0.
    pub(super) fn of_shard(&self, index: u32, of: u32) -> Self {
        let mut requests = self.clone();
        requests.url.parameters.push(format!("_shard={}/{of}", index + 1));
        requests
    }

    /// Requests CSV without a byte order mark from now on.
    pub(super) fn omit_mark(&mut self) {
        self.url.parameters.retain(|written| !has_name(written, "_csv_bom"));
        self.url.parameters.push("_csv_bom=0".to_owned());
    }

    /// The path and query for the rows after a position.
    fn target(&self, after: &Position) -> String {
        if self.url.is_signed() {
            return format!("{}?{}", self.url.path, self.url.parameters.join("&"));
        }
        let replaced = [("_after", &after.cursor), ("_snapshot", &after.snapshot)];
        let is_kept = |written: &&String| {
            !has_name(written, "_end")
                && replaced.iter().all(|(name, value)| value.is_none() || !has_name(written, name))
        };
        let mut parameters: Vec<_> = self.url.parameters.iter().filter(is_kept).cloned().collect();
        for (name, value) in replaced {
            parameters.extend(
                value.as_ref().map(|value| format!("{name}={}", utf8_percent_encode(value, ESCAPED))),
            );
        }
        parameters.extend(self.is_framed.then(|| "_end=1".to_owned()));
        match parameters.is_empty() {
            true => self.url.path.clone(),
            false => format!("{}?{}", self.url.path, parameters.join("&")),
        }
    }

    /// Requests the rows after a position.
    pub(super) async fn open(&self, after: &Position) -> Result<Response, Fault> {
        let mut response = self.send(&self.target(after), !self.url.is_signed()).await?;
        if response.status == StatusCode::OK {
            return Ok(response);
        }
        let body = timeout(PATIENCE, response.text()).await.unwrap_or_default();
        let fault = Fault::of_status(response.status, &response.headers, &body);
        match (response.status, &self.token) {
            (StatusCode::UNAUTHORIZED, TokenSource::Nowhere) => {
                Err(fault.or_hint("set the variable ROWSTREAM_TOKEN, or use --token-file FILE"))
            }
            _ => Err(fault),
        }
    }

    /// The server's own reason why a response was cut. `None` if it doesn't know or say it.
    pub(super) async fn reason(&self, headers: &HeaderMap) -> Option<Fault> {
        let state = self.stream_state(headers).await?;
        state.get("error").filter(|error| error.is_object()).map(Fault::of_server)
    }

    /// The server's state of a stream, once the stream has ended. `None` if the server can't be asked.
    /// Another `proof` of its end makes the state optional.
    pub(super) async fn ended_state(&self, headers: &HeaderMap, proof: Option<Proof>) -> Option<Value> {
        headers.get(STREAM)?;
        let began = Instant::now();
        loop {
            let left = LONGEST_ASKING.saturating_sub(began.elapsed());
            let state = timeout(left, self.stream_state(headers)).await.ok().flatten();
            let has_ended = state.as_ref().map_or(proof.is_some(), |state| state["state"] != "running");
            if has_ended || began.elapsed() >= LONGEST_ASKING {
                return state;
            }
            // The server may notice the end later than we do, and another replica may answer next.
            sleep(ASKING_PAUSE).await;
        }
    }

    async fn stream_state(&self, headers: &HeaderMap) -> Option<Value> {
        let id = headers.get(STREAM)?.to_str().ok()?;
        let root = headers.get("rowstream-root").and_then(|root| root.to_str().ok());
        let target =
            format!("{}_rowstream/streams/{}", self.url.root(root), utf8_percent_encode(id, ESCAPED));
        let asking = async {
            let mut response = self.send(&target, true).await.ok()?;
            Some(response.text().await).filter(|_| response.status == StatusCode::OK)
        };
        serde_json::from_slice(&timeout(PATIENCE, asking).await.ok()??).ok()
    }

    /// Requests a path and query. A signed URL mustn't have the token, too.
    async fn send(&self, target: &str, with_token: bool) -> Result<Response, Fault> {
        let mut request = Request::get(target)
            .header(header::HOST, self.url.authority.as_str())
            .header(header::USER_AGENT, AGENT)
            .header(header::ACCEPT, "*/*")
            .header(header::TE, "trailers")
            .header(WANT_CONTENT_DIGEST, "sha-256=1")
            .header(header::CONNECTION, "TE, close")
            .body(String::new())
            .map_err(Fault::cut)?;
        if with_token && let Some(authorization) = self.token.header().map_err(Fault::cut)? {
            request.headers_mut().insert(header::AUTHORIZATION, authorization);
        }
        let stream =
            self.connect().await.map_err(|error| Fault::cut(format!("{}: {error}", self.url.authority)))?;
        let Some((tls, name)) = &self.tls else { return exchange(stream, request, self.first_row).await };
        let shaking = servers::connect(tls, name.clone(), stream);
        let stream = timeout(PATIENCE, shaking).await.map_err(|_| Fault::cut("no TLS handshake in time"))?;
        exchange(stream.map_err(|error| of_handshake(&error))?, request, self.first_row).await
    }

    async fn connect(&self) -> io::Result<TcpStream> {
        let host = self.url.authority.host().trim_matches(['[', ']']);
        let port = self.url.authority.port_u16().unwrap_or(if self.url.is_https { 443 } else { 80 });
        let addresses: Vec<SocketAddr> = tokio::net::lookup_host((host, port)).await?.collect();
        let mut failed = io::Error::other("the name has no address");
        for address in addresses {
            match timeout(PATIENCE, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => {
                    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE);
                    SockRef::from(&stream).set_tcp_keepalive(&keepalive)?;
                    return Ok(stream);
                }
                Ok(Err(error)) => failed = error,
                Err(_) => failed = io::ErrorKind::TimedOut.into(),
            }
        }
        Err(failed)
    }
}

/// A certificate that isn't trusted stays so.
fn of_handshake(error: &io::Error) -> Fault {
    match error.kind() {
        io::ErrorKind::InvalidData => {
            Fault::lasting(error, "trust the authority of the server's certificate with --ca FILE")
        }
        _ => Fault::cut(error),
    }
}

async fn exchange(
    io: impl AsyncRead + AsyncWrite + Unpin + 'static,
    request: Request<String>,
    first_row: Duration,
) -> Result<Response, Fault> {
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(io)).await.map_err(|error| of_hyper(&error))?;
    let mut connection = connection.map(drop).boxed_local().fuse();
    let waiting = timeout(first_row, drive(&mut connection, sender.send_request(request))).await;
    let response = waiting
        .map_err(|_| Fault::cut(format!("no response in {} s", first_row.as_secs())).or_hint(LONGER))?;
    let (head, body) = response.map_err(|error| of_hyper(&error))?.into_parts();
    let heartbeat =
        head.headers.get("rowstream-heartbeat").and_then(|value| value.to_str().ok()?.parse().ok());
    let silence = heartbeat.filter(|seconds| *seconds > 0.0 && *seconds <= LONGEST_HEARTBEAT);
    Ok(Response {
        status: head.status,
        headers: head.headers,
        trailers: HeaderMap::new(),
        silence: silence.map(|seconds: f64| Duration::from_secs_f64(MISSED_HEARTBEATS * seconds)),
        body,
        connection,
    })
}

/// Waits for a part of an exchange. Meanwhile, its connection reads and writes.
async fn drive<T>(connection: &mut Connection, part: impl Future<Output = T>) -> T {
    let mut part = pin!(part);
    poll_fn(|cx| {
        let before = part.as_mut().poll(cx);
        if before.is_ready() {
            return before;
        }
        let _ = connection.poll_unpin(cx);
        part.as_mut().poll(cx)
    })
    .await
}

/// hyper's errors only say what it did. Their causes say what happened.
fn of_hyper(error: &hyper::Error) -> Fault {
    match error.source() {
        Some(cause) => Fault::cut(format!("the connection was lost: {cause}")),
        None => Fault::cut(format!("the connection was lost: {error}")),
    }
}

/// The work of a connection. A task of its own would switch twice for each piece of the body.
type Connection = Fuse<LocalBoxFuture<'static, ()>>;

pub(super) struct Response {
    status: StatusCode,
    pub(super) headers: HeaderMap,
    /// Those after the body, once it has ended.
    pub(super) trailers: HeaderMap,
    /// The longest silence.
    silence: Option<Duration>,
    body: Incoming,
    connection: Connection,
}

impl Response {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The next bytes of the body. `None` at its end, which HTTP has reported.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, Fault> {
        loop {
            let reading = drive(&mut self.connection, poll_fn(|cx| Pin::new(&mut self.body).poll_frame(cx)));
            let frame = match self.silence {
                None => reading.await,
                Some(silence) => timeout(silence, reading)
                    .await
                    .map_err(|_| Fault::cut(format!("nothing arrived for {} s", silence.as_secs_f64())))?,
            };
            match frame.transpose().map_err(|error| of_hyper(&error))?.map(hyper::body::Frame::into_data) {
                None => return Ok(None),
                Some(Ok(bytes)) => return Ok(Some(bytes)),
                Some(Err(frame)) => self.trailers.extend(frame.into_trailers().unwrap_or_default()),
            }
        }
    }

    /// The beginning of a body that is a short text.
    async fn text(&mut self) -> Vec<u8> {
        let mut text = Vec::new();
        while let Ok(Some(bytes)) = self.next().await {
            text.extend_from_slice(&bytes);
            if text.len() > LONGEST_PROBLEM {
                break;
            }
        }
        text
    }

    /// Reads the end of a complete body, so that the server doesn't take the close of the
    /// connection for an abort.
    pub(super) async fn close(mut self) {
        let reading = async { while let Ok(Some(_)) = self.next().await {} };
        let _ = timeout(Duration::from_secs(1), reading).await;
    }
}

/// True if a parameter of a query has this name.
fn has_name(written: &str, name: &str) -> bool {
    let (written, _) = written.split_once('=').unwrap_or((written, ""));
    percent_decode_str(written).eq(name.bytes())
}

fn tls(
    authority: &Authority,
    ca: Option<&Path>,
) -> Result<(TlsConnector, ServerName<'static>), Box<dyn Error>> {
    let mut config = ClientConfig::clone(&*trust(ca)?);
    config.alpn_protocols = vec![b"http/1.1".into()];
    let name = ServerName::try_from(authority.host().trim_matches(['[', ']']).to_owned())?;
    Ok((TlsConnector::from(Arc::new(config)), name))
}

/// The place of the bearer token. No error shows the token.
#[derive(Clone)]
enum TokenSource {
    Nowhere,
    /// It was read at the start: from the variable, or from a pipe, which can't be read twice.
    Start(HeaderValue),
    /// It's read for each request, because a long download can outlive a token.
    File(PathBuf),
}

impl TokenSource {
    /// The token of `file`, otherwise of the variable.
    ///
    /// # Errors
    /// There's no token in it.
    fn new(file: Option<&Path>) -> Result<Self, String> {
        if let Some(file) = file {
            let header = of_file(file)?;
            return Ok(if file.is_file() { Self::File(file.to_owned()) } else { Self::Start(header) });
        }
        match env::var(TOKEN) {
            Ok(token) if !token.is_empty() => bearer(TOKEN, &token).map(Self::Start),
            _ => Ok(Self::Nowhere),
        }
    }

    /// The header of a request.
    fn header(&self) -> Result<Option<HeaderValue>, String> {
        match self {
            Self::Nowhere => Ok(None),
            Self::Start(header) => Ok(Some(header.clone())),
            Self::File(file) => of_file(file).map(Some),
        }
    }
}

/// The header with the token in a file.
fn of_file(file: &Path) -> Result<HeaderValue, String> {
    let place = shown(&file.to_string_lossy());
    let token = fs::read_to_string(file);
    let token = token.map_err(|error| format!("the token in {place} can't be read: {error}"))?;
    bearer(&place, &token)
}

/// The header with a token, which was read from `place`.
fn bearer(place: &str, token: &str) -> Result<HeaderValue, String> {
    let token = token.trim_start_matches('\u{feff}').trim();
    let is_word = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
    let header = HeaderValue::try_from(format!("Bearer {token}")).ok().filter(|_| is_word);
    let mut header = header
        .ok_or_else(|| format!("{place} has no token, which is one word of ASCII, without `Bearer`"))?;
    header.set_sensitive(true);
    Ok(header)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root<'a>(path: &str, from_here: impl Into<Option<&'a str>>) -> String {
        let url: EndpointUrl = format!("http://localhost{path}").parse().unwrap();
        url.root(from_here.into())
    }

    #[test]
    fn the_root_resolves_like_a_url() {
        for (path, from_here, expected) in [
            ("/api/orders.csv?n=1", "./", "/api/"),
            ("/api/orders/7", "../", "/api/"),
            ("/api//orders/7", "../../", "/api/"),
            ("/api//orders", "./", "/api//"),
            ("/api/./old/../orders/7", "../", "/api/"),
            ("/orders", "../../", "/"),
            ("", "./", "/"),
        ] {
            assert_eq!(root(path, from_here), expected, "{path} {from_here}");
        }
    }

    /// The token goes there, and an empty value meant the folder of the endpoint.
    #[test]
    fn another_way_to_the_root_is_ignored() {
        assert_eq!(root("/api/orders", None), "/");
        for wrong in [
            "",
            "/",
            "//evil/",
            "http://x/",
            "http://x/../",
            ".",
            "..",
            ".../",
            ".././",
            "./../",
            "../x/",
            "../ ",
        ] {
            assert_eq!(root("/api/deep/orders", wrong), "/", "{wrong}");
        }
    }
}
