//! Asks an issuer for its keys: one GET over HTTP/1.1, whose answer is small, quick, and no
//! redirect.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, StatusCode, Uri, header};
use http_body::Body;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;

use crate::config::OIDC_CONFIGURATION;
use crate::jwk::{self, Key};
use crate::tcp;
use crate::tls::system_roots;

/// How long each of the requests may take.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The longest answer, in bytes. Those of large issuers have some 10 KB.
const LONGEST: usize = 256 * 1024;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The keys of a JWK set.
///
/// # Errors
/// It cannot be had, or is none.
pub(super) async fn keys(url: &Uri) -> Result<Vec<Key>, Failure> {
    let set = get(url).await.map_err(|cause| format!("{url}: {cause}"))?;
    Ok(Key::read_set(&set).ok_or_else(|| format!("{url}: this is no JWK set"))?)
}

/// Where an issuer says that its keys are (OpenID Connect Discovery 1.0, section 4).
///
/// # Errors
/// It cannot be asked, is another one, or says none that is safe.
pub(super) async fn discover(issuer: &str) -> Result<Uri, Failure> {
    let url: Uri = format!("{}{OIDC_CONFIGURATION}", issuer.trim_end_matches('/')).parse()?;
    let document = get(&url).await.map_err(|cause| format!("{url}: {cause}"))?;
    let document: serde_json::Value =
        serde_json::from_slice(&document).map_err(|_| format!("{url}: this is no JSON"))?;
    if document["issuer"] != issuer {
        return Err(format!("{url}: this is the configuration of another issuer").into());
    }
    let keys = document["jwks_uri"].as_str().and_then(|text| text.parse().ok());
    Ok(keys.filter(jwk::is_safe).ok_or_else(|| format!("{url}: `jwks_uri` is no https URL"))?)
}

async fn get(url: &Uri) -> Result<Vec<u8>, Failure> {
    tokio::time::timeout(TIMEOUT, ask(url)).await.map_err(|_| "no answer in time")?
}

async fn ask(url: &Uri) -> Result<Vec<u8>, Failure> {
    let host = url.host().ok_or("a URL without a host")?.trim_matches(['[', ']']);
    let is_tls = url.scheme_str() == Some("https");
    let port = url.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
    let addresses: Vec<_> = tokio::net::lookup_host((host, port)).await?.collect();
    let stream = tcp::connect(addresses, TIMEOUT).await.map_err(tcp::Refused::into_named_cause)?;
    if !is_tls {
        return exchange(stream, url).await;
    }
    let name = ServerName::try_from(host.to_owned())?;
    let stream = connector()?.connect(name, stream).await?;
    exchange(stream, url).await
}

fn connector() -> Result<TlsConnector, Failure> {
    let roots = system_roots().map_err(|error| error.to_string())?;
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = builder.with_safe_default_protocol_versions()?;
    Ok(Arc::new(config.with_root_certificates(roots).with_no_client_auth()).into())
}

async fn exchange(io: impl AsyncRead + AsyncWrite + Unpin, url: &Uri) -> Result<Vec<u8>, Failure> {
    let (mut sender, connection) = http1::handshake::<_, String>(TokioIo::new(io)).await?;
    let path = url.path_and_query().map_or("/", |path| path.as_str());
    let host = url.authority().ok_or("a URL without a host")?.as_str();
    let request = Request::get(path)
        .header(header::HOST, host)
        .header(header::ACCEPT, "application/json")
        .header(header::CONNECTION, "close")
        .body(String::new())?;
    let answer = async {
        let response = sender.send_request(request).await?;
        match response.status() {
            StatusCode::OK => read(response.into_body()).await,
            status => Err(format!("the answer is {status}").into()),
        }
    };
    tokio::pin!(answer, connection);
    // The connection is driven as long as the answer is not there.
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
