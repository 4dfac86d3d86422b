//! What TLS needs of files: root certificates, by which others are known, and the certificate by
//! which this server is.
//!
//! It does no handshake: `server::tls`, `upstream::connect` and the databases do.

use std::error::Error;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};

/// The versions of HTTP that are spoken over TLS, the better one first (RFC 7301).
const PROTOCOLS: [&[u8]; 2] = [HTTP2, b"http/1.1"];
/// HTTP/2 over TLS (RFC 9113, section 3.2).
pub(crate) const HTTP2: &[u8] = b"h2";

/// By what this server is known, and whom it lets in.
#[derive(Clone)]
pub struct Identity {
    /// What a handshake needs.
    pub(crate) config: Arc<ServerConfig>,
    /// The files that it was read from.
    pub(crate) files: Vec<PathBuf>,
}

impl fmt::Debug for Identity {
    /// Without the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("files", &self.files).finish_non_exhaustive()
    }
}

impl Identity {
    /// Reads the certificates of this server, its own first, and its key; and where clients need
    /// certificates, the authorities that these must be of. All are PEM files.
    ///
    /// # Errors
    /// A file cannot be read, or holds nothing of its kind; the key is another certificate's.
    pub(crate) fn read(
        certificate: &Path,
        key: &Path,
        clients: Option<&Path>,
    ) -> Result<Self, Box<dyn Error>> {
        let certificates = certificates_of(certificate)?;
        let pem = read(key)?;
        let private = PrivateKeyDer::from_pem_slice(&pem)
            .map_err(|_| format!("{} holds no private key", key.display()))?;
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()?;
        let builder = match clients {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let roots = Arc::new(roots_of(path)?);
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider).build()?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let mut config = builder
            .with_single_cert(certificates, private)
            .map_err(|error| unusable(&error, certificate, key))?;
        config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).into();
        let files = [Some(certificate), Some(key), clients];
        let files = files.into_iter().flatten().map(Path::to_owned).collect();
        Ok(Self { config: Arc::new(config), files })
    }
}

/// Why a certificate and its key cannot be used.
fn unusable(error: &rustls::Error, certificate: &Path, key: &Path) -> String {
    match error {
        rustls::Error::InconsistentKeys(_) => {
            format!("the key of {} is not the key of {}", key.display(), certificate.display())
        }
        _ => format!("{} and {} cannot be used: {error}", certificate.display(), key.display()),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// The certificates of a PEM file, in their order; at least one.
fn certificates_of(path: &Path) -> Result<Vec<CertificateDer<'static>>, Box<dyn Error>> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&read(path)?).collect();
    match certificates {
        Err(error) => Err(format!("{}: {error}", path.display()).into()),
        Ok(certificates) if certificates.is_empty() => {
            Err(format!("{} holds no certificate", path.display()).into())
        }
        Ok(certificates) => Ok(certificates),
    }
}

/// Those of the system.
///
/// # Errors
/// It has none.
pub(super) fn system_roots() -> Result<RootCertStore, Box<dyn Error>> {
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    match added {
        0 => Err("this system has none; name a file of your own".into()),
        _ => Ok(roots),
    }
}

/// Those of a PEM file.
///
/// # Errors
/// The file cannot be read, or holds none.
pub(super) fn roots_of(path: &Path) -> Result<RootCertStore, Box<dyn Error>> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates_of(path)? {
        roots.add(certificate)?;
    }
    Ok(roots)
}
