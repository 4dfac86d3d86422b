//! TLS to databases.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rowstream_core::Error;
use rowstream_core::tls::servers::{self, ClientCertificate, Roots, Trust};
use tokio_rustls::TlsConnector;

/// The use of TLS, and the checks of the server's certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SslMode {
    /// Never TLS.
    Disable,
    /// TLS if the server requires it, with any certificate.
    Allow,
    /// TLS if the server supports it, with any certificate.
    Prefer,
    /// Always TLS. If the source has its own root certificates, the server's certificate must be
    /// valid for the host and signed by one of these.
    Require,
    /// Always TLS. The certificate must be signed by one of the source's own root certificates, for
    /// any host. The system's root certificates aren't allowed here, because they sign for anyone.
    VerifyCa,
    /// Always TLS. The certificate must be valid for the host.
    VerifyFull,
}

/// The certificate that a client logs in with, and its key: PEM files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientFiles {
    /// The certificate.
    pub certificate: Option<PathBuf>,
    /// Its private key.
    pub key: Option<PathBuf>,
}

/// Prepares TLS to the servers of the source `name`; `roots` is a PEM file.
///
/// # Errors
/// A file can't be read, or a certificate has no key.
pub fn connector(
    name: &str,
    mode: SslMode,
    roots: Option<&Path>,
    files: &ClientFiles,
) -> Result<TlsConnector, Error> {
    client(mode, roots, files)
        .map_err(|cause| Error::endpoint(format!("source `{name}`: TLS can't be set up: {cause}")))
}

fn client(
    mode: SslMode,
    roots: Option<&Path>,
    files: &ClientFiles,
) -> Result<TlsConnector, Box<dyn std::error::Error>> {
    let identity = match (&files.certificate, &files.key) {
        (Some(certificate), Some(key)) => Some(ClientCertificate::read(certificate, key)?),
        (None, None) => None,
        _ => return Err("a client's certificate needs its key, and the key its certificate".into()),
    };
    let trust = match (mode, roots) {
        (SslMode::Disable | SslMode::Allow | SslMode::Prefer, _) | (SslMode::Require, None) => Trust::Anybody,
        (SslMode::VerifyCa, Some(_)) => Trust::AnyHost(Roots::read(roots)?),
        (SslMode::Require | SslMode::VerifyCa | SslMode::VerifyFull, _) => Trust::Host(Roots::read(roots)?),
    };
    Ok(TlsConnector::from(Arc::new(servers::client_as(identity, trust)?)))
}
