//! The server's TLS certificate: from files, or issued by an authority while the server runs
//! ([`issued`]).
//!
//! The handshakes are in `server::transport`.

pub(crate) mod issued;

use std::error::Error;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use rowstream_core::tls::{HTTP2, certificates_of, private_key, roots_of, validity};
use rustls::crypto::ring;
use rustls::server::{WantsServerCert, WebPkiClientVerifier};
use rustls::{ConfigBuilder, ServerConfig};

use self::issued::IssuedCertificate;

/// The versions of HTTP that we accept over TLS, with the preferred one first (RFC 7301).
const PROTOCOLS: [&[u8]; 2] = [HTTP2, b"http/1.1"];

/// The server's certificate, and the clients that it accepts.
#[derive(Clone)]
pub struct Identity {
    /// The configuration of handshakes.
    pub config: Arc<ServerConfig>,
    /// The files that it was read from.
    pub files: Vec<PathBuf>,
    until: Expiry,
}

/// The expiry of a certificate.
#[derive(Clone)]
enum Expiry {
    At(SystemTime),
    /// The expiry of the certificate that was issued last.
    Issued(Arc<IssuedCertificate>),
}

impl fmt::Debug for Identity {
    /// Omits the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("files", &self.files).finish_non_exhaustive()
    }
}

impl Identity {
    /// Reads PEM files: the server's certificates, its own first, and its key. If clients need
    /// certificates, `clients` contains the authorities that sign those.
    ///
    /// # Errors
    /// A file can't be read, or lacks its content, or the key belongs to another certificate.
    pub fn read(certificate: &Path, key: &Path, clients: Option<&Path>) -> Result<Self, Box<dyn Error>> {
        let certificates = certificates_of(certificate)?;
        let private = private_key(key)?;
        let (_, until) =
            validity(&certificates[0]).map_err(|error| format!("{}: {error}", certificate.display()))?;
        let config = letting_in(clients)?
            .with_single_cert(certificates, private)
            .map_err(|error| unusable(&error, certificate, key))?;
        Ok(Self::of(config, Expiry::At(until), &[Some(certificate), Some(key), clients]))
    }

    /// Like [`Identity::read`], with the current certificate of `issued`.
    ///
    /// # Errors
    /// The file of authorities can't be read, or contains none.
    pub fn issued(issued: Arc<IssuedCertificate>, clients: Option<&Path>) -> Result<Self, Box<dyn Error>> {
        let config = letting_in(clients)?.with_cert_resolver(Arc::clone(&issued) as _);
        Ok(Self::of(config, Expiry::Issued(issued), &[clients]))
    }

    /// The expiry of the certificate; `None` if there isn't one yet.
    pub fn until(&self) -> Option<SystemTime> {
        match &self.until {
            Expiry::At(time) => Some(*time),
            Expiry::Issued(issued) => issued.until(),
        }
    }

    fn of(mut config: ServerConfig, until: Expiry, files: &[Option<&Path>]) -> Self {
        config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).into();
        let files = files.iter().flatten().map(|file| (*file).to_owned()).collect();
        Self { config: Arc::new(config), files, until }
    }
}

/// Begins a configuration. If `clients` is given, clients need certificates from its authorities.
fn letting_in(
    clients: Option<&Path>,
) -> Result<ConfigBuilder<ServerConfig, WantsServerCert>, Box<dyn Error>> {
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
    let builder = builder.with_safe_default_protocol_versions()?;
    Ok(match clients {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let roots = Arc::new(roots_of(path)?);
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider).build()?;
            builder.with_client_cert_verifier(verifier)
        }
    })
}

/// The error message for an unusable certificate or key.
fn unusable(error: &rustls::Error, certificate: &Path, key: &Path) -> String {
    match error {
        rustls::Error::InconsistentKeys(_) => {
            format!("the key of {} is not the key of {}", key.display(), certificate.display())
        }
        _ => format!("{} and {} cannot be used: {error}", certificate.display(), key.display()),
    }
}
