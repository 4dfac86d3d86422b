//! TLS to databases.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_rustls::TlsConnector;

use rowstream_core::Error;
use rowstream_core::tls::servers::{self, Roots, Shown, Trust};

/// Whether TLS is spoken, and with whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SslMode {
    /// Never TLS.
    Disable,
    /// TLS if the server wants it, whoever it is.
    Allow,
    /// TLS if the server has it, whoever it is.
    Prefer,
    /// TLS, whoever the server is; with root certificates of its own, its certificate must be
    /// signed by one of these.
    Require,
    /// TLS, and the certificate must be signed by one of the root certificates, whichever host it
    /// names. Asked for with root certificates of its own only: the system's sign for anybody.
    VerifyCa,
    /// TLS, and the certificate must be valid for the host.
    VerifyFull,
}

/// The certificate that a client logs in with, and its key: PEM files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ClientFiles {
    pub(super) certificate: Option<PathBuf>,
    pub(super) key: Option<PathBuf>,
}

/// What opens TLS to the servers of the source called `name`; `roots` is a PEM file.
///
/// # Errors
/// A file can't be read, or a certificate has no key.
pub(super) fn connector(
    name: &str,
    mode: SslMode,
    (roots, files): (Option<&Path>, &ClientFiles),
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
        (Some(certificate), Some(key)) => Some(Shown::read(certificate, key)?),
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
