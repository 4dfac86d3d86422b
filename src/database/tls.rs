//! TLS to databases.

use std::path::Path;
use std::sync::Arc;

use tokio_rustls::TlsConnector;

use crate::Error;
use crate::tls::servers::{self, Roots, Trust};

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

/// What opens TLS to the servers of the source called `name`; `roots` is a PEM file.
///
/// # Errors
/// The root certificates cannot be read.
pub(super) fn connector(name: &str, mode: SslMode, roots: Option<&Path>) -> Result<TlsConnector, Error> {
    client(mode, roots).map_err(|cause| {
        Error::endpoint(format!("source `{name}`: the root certificates cannot be read: {cause}"))
    })
}

fn client(mode: SslMode, roots: Option<&Path>) -> Result<TlsConnector, Box<dyn std::error::Error>> {
    let trust = match (mode, roots) {
        (SslMode::Disable | SslMode::Allow | SslMode::Prefer, _) | (SslMode::Require, None) => Trust::Anybody,
        (SslMode::VerifyCa, Some(_)) => Trust::AnyHost(Roots::read(roots)?),
        (SslMode::Require | SslMode::VerifyCa | SslMode::VerifyFull, _) => Trust::Host(Roots::read(roots)?),
    };
    Ok(TlsConnector::from(Arc::new(servers::client(trust)?)))
}
