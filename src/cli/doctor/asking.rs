//! Sends one request of the doctor on a new connection, and records the response and its times.
//!
//! The peer isn't trusted, so the length and the time of a response are limited.

use std::error::Error;
use std::future::poll_fn;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::uri::{Authority, Uri};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, Version, header};
use http_body::Body;
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rowstream_core::tcp;
use rowstream_core::tls::{HTTP2, servers};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::AbortHandle;
use tokio_rustls::TlsConnector;

use super::super::ready::trust;

/// The time limit for a connection. A response has this much time beyond its regular duration.
const PATIENCE: Duration = Duration::from_secs(20);
/// The longest response that we read, in bytes.
const MOST: usize = 1024 * 1024;

pub(super) type ProbeError = Box<dyn Error>;

/// The server, and the settings for requests to it.
pub(super) struct ProbedServer {
    /// `HOST` or `HOST:PORT` from the URL.
    authority: Authority,
    /// The prefix of the admin endpoints' paths, because a proxy may add one.
    folder: String,
    tls: Option<Arc<ClientConfig>>,
    headers: Vec<(HeaderName, HeaderValue)>,
}

/// A response.
pub(super) struct ProbeResponse {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
    pub(super) trailers: HeaderMap,
    /// The arrival times of the body's pieces, since the request.
    pub(super) pieces: Vec<Duration>,
    /// The time of the response's end, and its error if it was cut.
    pub(super) ended: (Duration, Result<(), String>),
}

impl ProbeResponse {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

impl ProbedServer {
    pub(super) fn read(
        url: &Uri,
        ca: Option<&PathBuf>,
        headers: Vec<(HeaderName, HeaderValue)>,
    ) -> Result<Self, ProbeError> {
        let authority = url.authority();
        if authority.is_some_and(|authority| authority.as_str().contains('@')) {
            let hint = "write https://HOST, and `-H 'Authorization: …'`";
            return Err(
                format!("the URL contains a user, which requests don't send\n    hint: {hint}").into()
            );
        }
        let (Some(authority), Some(scheme @ ("http" | "https"))) = (authority, url.scheme_str()) else {
            return Err(format!("{url} isn't the URL of a server\n    hint: write https://HOST").into());
        };
        let tls = (scheme == "https").then(|| trust(ca.map(PathBuf::as_path))).transpose()?;
        let folder = url.path().trim_end_matches('/').to_owned();
        Ok(Self { authority: authority.clone(), folder, tls, headers })
    }

    /// Requests a probe; `lasts` is the regular duration of its response.
    ///
    /// # Errors
    /// There's no response. If its body is cut, that isn't an error: [`ProbeResponse`] records it.
    pub(super) async fn ask(
        &self,
        version: Version,
        probe: &str,
        fields: &[(HeaderName, &'static str)],
        lasts: Duration,
    ) -> Result<ProbeResponse, ProbeError> {
        let begun = Instant::now();
        let asked = self.exchange(version, self.request(version, probe, fields)?);
        let (response, connection) =
            tokio::time::timeout(lasts + PATIENCE, asked).await.map_err(|_| "no answer in time")??;
        let (head, mut body) = response.into_parts();
        let mut response = ProbeResponse {
            status: head.status.as_u16(),
            headers: head.headers,
            body: Vec::new(),
            trailers: HeaderMap::new(),
            pieces: Vec::new(),
            ended: (Duration::ZERO, Ok(())),
        };
        let reading = tokio::time::timeout(lasts + PATIENCE, response.read(&mut body, begun));
        let ended = reading.await.unwrap_or_else(|_| Err("it does not end".to_owned()));
        drop(connection);
        response.ended = (begun.elapsed(), ended);
        Ok(response)
    }

    fn request(
        &self,
        version: Version,
        probe: &str,
        fields: &[(HeaderName, &'static str)],
    ) -> Result<Request<String>, ProbeError> {
        let target = format!("{}/_rowstream/probe/{probe}", self.folder);
        // HTTP/2 has the server's name in the URL; HTTP/1.1 has it in a header.
        let target = match version {
            Version::HTTP_2 => {
                let scheme = if self.tls.is_some() { "https" } else { "http" };
                format!("{scheme}://{}{target}", self.authority)
            }
            _ => target,
        };
        let mut request = Request::get(target).version(version).body(String::new())?;
        let headers = request.headers_mut();
        headers.extend(self.headers.iter().cloned());
        headers.extend(fields.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value))));
        headers.insert(header::USER_AGENT, HeaderValue::from_static("rowstream-doctor"));
        if version != Version::HTTP_2 {
            headers.insert(header::HOST, HeaderValue::try_from(self.authority.as_str())?);
            let names: Vec<_> = headers.get(header::TE).map(|_| "TE").into_iter().chain(["close"]).collect();
            headers.insert(header::CONNECTION, HeaderValue::try_from(names.join(", "))?);
        }
        Ok(request)
    }

    async fn exchange(
        &self,
        version: Version,
        request: Request<String>,
    ) -> Result<(Response<Incoming>, ConnectionGuard), ProbeError> {
        let host = self.authority.host().trim_matches(['[', ']']);
        let port = self.authority.port_u16().unwrap_or(if self.tls.is_some() { 443 } else { 80 });
        let addresses: Vec<_> = tokio::net::lookup_host((host, port)).await?.collect();
        let stream =
            tcp::connect(addresses, PATIENCE).await.map_err(tcp::ConnectFailure::into_named_cause)?;
        let Some(tls) = &self.tls else { return send(version, stream, request).await };
        let mut tls = ClientConfig::clone(tls);
        tls.alpn_protocols = vec![if version == Version::HTTP_2 { HTTP2.into() } else { b"http/1.1".into() }];
        let name = ServerName::try_from(host.to_owned())?;
        let stream = servers::connect(&TlsConnector::from(Arc::new(tls)), name, stream).await?;
        if version == Version::HTTP_2 && stream.get_ref().1.alpn_protocol() != Some(HTTP2) {
            return Err("HTTP/2 isn't supported there".into());
        }
        send(version, stream, request).await
    }
}

impl ProbeResponse {
    /// Reads the body to its end. Returns an error if it was cut.
    async fn read(&mut self, body: &mut Incoming, begun: Instant) -> Result<(), String> {
        while let Some(frame) = poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await {
            match frame.map_err(|error| named(&error))?.into_data() {
                Ok(data) => {
                    self.pieces.push(begun.elapsed());
                    self.body.extend_from_slice(&data);
                }
                Err(frame) => self.trailers.extend(frame.into_trailers().unwrap_or_default()),
            }
            if self.body.len() > MOST {
                return Err(format!("it has more than {MOST} bytes"));
            }
        }
        Ok(())
    }
}

/// The text of an error with its cause.
fn named(error: &dyn Error) -> String {
    error.source().map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"))
}

/// Closes a connection that a task drives.
struct ConnectionGuard(AbortHandle);

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn send(
    version: Version,
    io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<String>,
) -> Result<(Response<Incoming>, ConnectionGuard), ProbeError> {
    let io = TokioIo::new(io);
    if version == Version::HTTP_2 {
        let (mut sender, driven) = http2::handshake(TokioExecutor::new(), io).await?;
        let connection = ConnectionGuard(tokio::spawn(async { drop(driven.await) }).abort_handle());
        // The sender must live as long as the response. Without it, the connection would close.
        let response = sender.send_request(request).await?;
        return Ok((response, connection));
    }
    let (mut sender, driven) = http1::handshake(io).await?;
    let connection = ConnectionGuard(tokio::spawn(async { drop(driven.await) }).abort_handle());
    Ok((sender.send_request(request).await?, connection))
}
