//! TLS to databases.

use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio_rustls::TlsConnector;

use crate::Error;
use crate::tls::{roots_of, system_roots};

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
    let provider = Arc::new(ring::default_provider());
    let builder =
        ClientConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions()?;
    let config = match (mode, roots) {
        (SslMode::VerifyCa | SslMode::VerifyFull, None) => builder.with_root_certificates(system_roots()?),
        (SslMode::VerifyCa, Some(path)) => {
            let verifier = Unnamed { roots: Some(roots_of(path)?), provider };
            builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier))
        }
        (_, Some(path)) if !matches!(mode, SslMode::Allow | SslMode::Prefer) => {
            builder.with_root_certificates(roots_of(path)?)
        }
        _ => {
            let verifier = Unnamed { roots: None, provider };
            builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier))
        }
    };
    Ok(TlsConnector::from(Arc::new(config.with_no_client_auth())))
}

/// Looks at no name. Without roots ([`SslMode::Prefer`], [`SslMode::Require`]) it is encryption
/// against listeners, whoever the server is; with them, [`SslMode::VerifyCa`]. The handshake's
/// signatures are always checked.
#[derive(Debug)]
struct Unnamed {
    roots: Option<RootCertStore>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Unnamed {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if let Some(roots) = &self.roots {
            verify_server_cert_signed_by_trust_anchor(
                &ParsedCertificate::try_from(end_entity)?,
                roots,
                intermediates,
                now,
                self.provider.signature_verification_algorithms.all,
            )?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(
            message,
            certificate,
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(
            message,
            certificate,
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
