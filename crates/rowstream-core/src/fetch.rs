//! The server's own small requests, for example to Consul or an ACME authority. Each uses HTTP/1.1
//! on a new connection, has a time limit, and doesn't follow redirects.
//!
//! The requests of endpoints are in `upstream/`.

use std::future::poll_fn;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http::uri::PathAndQuery;
use http::{HeaderValue, Request, Response, StatusCode, Uri, header};
use http_body::Body;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;

use crate::tcp;
use crate::tls::servers::{self, Roots, Trust};

/// The time limit of a request.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The longest response, in bytes. The keys of large issuers have some 10 KB.
const LONGEST: usize = 256 * 1024;

/// The reason why a request has no usable response.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Sends a request with an absolute URL, and waits for its response.
///
/// # Errors
/// The request fails or times out, or its response is too long.
pub async fn send(request: Request<String>) -> Result<(StatusCode, Vec<u8>), Failure> {
    let response = send_trusting(request, None).await?;
    Ok((response.status(), response.into_body()))
}

/// Like [`send`], with the response's headers. The server's certificate must be signed by an
/// authority in the file `roots`, or by one that the system knows.
///
/// # Errors
/// As in [`send`], or the file can't be read.
pub async fn send_trusting(
    request: Request<String>,
    roots: Option<&Path>,
) -> Result<Response<Vec<u8>>, Failure> {
    tokio::time::timeout(TIMEOUT, ask(request, roots)).await.map_err(|_| "no answer in time")?
}

async fn ask(mut request: Request<String>, roots: Option<&Path>) -> Result<Response<Vec<u8>>, Failure> {
    let url = request.uri().clone();
    let authority = url.authority().ok_or("a URL without a host")?;
    let host = authority.host().trim_matches(['[', ']']);
    *request.uri_mut() = Uri::from(url.path_and_query().cloned().unwrap_or(PathAndQuery::from_static("/")));
    let headers = request.headers_mut();
    headers.insert(header::HOST, HeaderValue::try_from(authority.as_str())?);
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    let is_tls = url.scheme_str() == Some("https");
    let port = url.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
    let addresses: Vec<_> = tokio::net::lookup_host((host, port)).await?.collect();
    let stream = tcp::connect(addresses, TIMEOUT).await.map_err(tcp::ConnectFailure::into_named_cause)?;
    if !is_tls {
        return exchange(stream, request).await;
    }
    let name = ServerName::try_from(host.to_owned())?;
    let stream = servers::connect(&connector(roots)?, name, stream).await?;
    exchange(stream, request).await
}

fn connector(roots: Option<&Path>) -> Result<TlsConnector, Failure> {
    let roots = Roots::read(roots).map_err(|error| error.to_string())?;
    Ok(Arc::new(servers::client(Trust::Host(roots))?).into())
}

async fn exchange(
    io: impl AsyncRead + AsyncWrite + Unpin,
    request: Request<String>,
) -> Result<Response<Vec<u8>>, Failure> {
    let (mut sender, connection) = http1::handshake::<_, String>(TokioIo::new(io)).await?;
    let answer = async {
        let (head, body) = sender.send_request(request).await?.into_parts();
        Ok(Response::from_parts(head, read(body).await?))
    };
    tokio::pin!(answer, connection);
    // The connection has to be polled until the response is complete.
    let mut is_over = false;
    poll_fn(|cx| {
        if !is_over {
            is_over = connection.as_mut().poll(cx).is_ready();
        }
        answer.as_mut().poll(cx)
    })
    .await
}

async fn read(mut body: Incoming) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        if let Ok(data) = frame?.into_data() {
            bytes.extend_from_slice(&data);
        }
        if bytes.len() > LONGEST {
            return Err(io::Error::other(format!("the answer has more than {LONGEST} bytes")).into());
        }
    }
    Ok(bytes)
}
