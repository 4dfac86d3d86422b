//! What TLS needs of files: root certificates, by which others are known, and the certificate by
//! which this server is, unless an authority issues that while the server runs ([`issued`]).
//!
//! It does no handshake: `server::transport`, `upstream::connect` and the databases do.

pub(crate) mod issued;
pub(crate) mod servers;

use std::error::Error;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{WantsServerCert, WebPkiClientVerifier};
use rustls::{ConfigBuilder, RootCertStore, ServerConfig};

use self::issued::Issued;

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
    until: Until,
}

/// When a certificate expires.
#[derive(Clone)]
enum Until {
    At(SystemTime),
    /// Whenever what was issued last does.
    Issued(Arc<Issued>),
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
        let private = private_key(key)?;
        let (_, until) = issued::validity(&certificates[0])
            .map_err(|error| format!("{}: {error}", certificate.display()))?;
        let config = letting_in(clients)?
            .with_single_cert(certificates, private)
            .map_err(|error| unusable(&error, certificate, key))?;
        Ok(Self::of(config, Until::At(until), &[Some(certificate), Some(key), clients]))
    }

    /// The same where the certificate is the one that `issued` has at each moment.
    ///
    /// # Errors
    /// The file of authorities cannot be read, or holds none.
    pub(crate) fn issued(issued: Arc<Issued>, clients: Option<&Path>) -> Result<Self, Box<dyn Error>> {
        let config = letting_in(clients)?.with_cert_resolver(Arc::clone(&issued) as _);
        Ok(Self::of(config, Until::Issued(issued), &[clients]))
    }

    /// When the certificate expires; `None`: there is none yet.
    pub(crate) fn until(&self) -> Option<SystemTime> {
        match &self.until {
            Until::At(time) => Some(*time),
            Until::Issued(issued) => issued.until(),
        }
    }

    fn of(mut config: ServerConfig, until: Until, files: &[Option<&Path>]) -> Self {
        config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).into();
        let files = files.iter().flatten().map(|file| (*file).to_owned()).collect();
        Self { config: Arc::new(config), files, until }
    }
}

/// The begin of a configuration that asks clients for certificates of these authorities, if any.
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

/// The private key of a PEM file.
fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, String> {
    let pem = read(path)?;
    let is_encrypted = String::from_utf8_lossy(&pem).contains("ENCRYPTED");
    PrivateKeyDer::from_pem_slice(&pem).map_err(|_| match is_encrypted {
        true => format!(
            "the key in {0} is encrypted: write it without its password, `openssl pkey -in {0} -out {0}.plain`",
            path.display()
        ),
        false => format!("{} holds no private key", path.display()),
    })
}

/// Those of the system.
///
/// # Errors
/// It has none.
fn system_roots() -> Result<RootCertStore, Box<dyn Error>> {
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
fn roots_of(path: &Path) -> Result<RootCertStore, Box<dyn Error>> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates_of(path)? {
        roots.add(certificate)?;
    }
    Ok(roots)
}
