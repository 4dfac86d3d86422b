//! A certificate that an authority issues while the server runs (ACME, RFC 8555). It includes the
//! proofs that a name belongs to this server (TLS-ALPN-01, RFC 8737).
//!
//! `server::acme` talks to the authority and stores the results here. Handshakes read them.

// Without the feature, this code isn't used.
#![cfg_attr(not(feature = "acme"), allow(dead_code))]

use std::collections::HashMap;
use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

#[cfg(feature = "acme")]
use rcgen::{CertificateParams, CustomExtension, KeyPair};
use rowstream_core::lock::RwLock;
use rowstream_core::tls::{parse_certificate, times};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;

/// The protocol of an authority's request for a proof (RFC 8737, section 4).
const PROOF: &[u8] = b"acme-tls/1";

type BoxedError = Box<dyn Error + Send + Sync>;

/// The issued certificate and the proofs, for handshakes.
#[derive(Default)]
pub struct IssuedCertificate {
    /// `None` if there's no certificate yet. Handshakes fail until then.
    certificate: RwLock<Option<Certificate>>,
    /// The proofs that the authority may ask for now, by name.
    proofs: RwLock<HashMap<String, Arc<ServerConfig>>>,
}

impl IssuedCertificate {
    /// Uses this certificate in later handshakes.
    pub fn set(&self, certificate: Certificate) {
        *self.certificate.write() = Some(certificate);
    }

    /// The expiry of the current certificate; `None` if there isn't one.
    pub fn until(&self) -> Option<SystemTime> {
        self.certificate.read().as_ref().map(|certificate| certificate.until)
    }

    /// Answers requests for a proof of this name with `proof`.
    pub fn prove(&self, name: &str, proof: Arc<ServerConfig>) {
        self.proofs.write().insert(name.to_owned(), proof);
    }

    /// Removes all proofs.
    pub fn forget_proofs(&self) {
        self.proofs.write().clear();
    }

    /// The purpose of a handshake that begins with `hello`.
    pub fn asked(&self, hello: &ClientHello<'_>) -> HandshakePurpose {
        if !hello.alpn().is_some_and(|mut names| names.any(|name| name == PROOF)) {
            return HandshakePurpose::Connection;
        }
        let proof = hello.server_name().and_then(|name| self.proofs.read().get(name).cloned());
        proof.map_or(HandshakePurpose::UnknownProof, HandshakePurpose::Proof)
    }
}

/// The purpose of a handshake.
pub enum HandshakePurpose {
    /// An ordinary connection.
    Connection,
    /// A proof that we have. The handshake is all that the authority needs.
    Proof(Arc<ServerConfig>),
    /// A proof that we don't have.
    UnknownProof,
}

impl fmt::Debug for IssuedCertificate {
    /// Omits the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Issued").field("until", &self.until()).finish_non_exhaustive()
    }
}

impl ResolvesServerCert for IssuedCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.certificate.read().as_ref().map(|certificate| Arc::clone(&certificate.key))
    }
}

/// A certificate, its chain to the authority, and its key.
pub struct Certificate {
    key: Arc<CertifiedKey>,
    /// The certificate's names.
    names: Vec<String>,
    from: SystemTime,
    /// The expiry.
    pub until: SystemTime,
}

impl Certificate {
    /// Reads the certificates and the key from one PEM text.
    ///
    /// # Errors
    /// A part is missing or invalid.
    pub fn read(pem: &[u8]) -> Result<Self, BoxedError> {
        let key = PrivateKeyDer::from_pem_slice(pem).map_err(|_| "it contains no private key")?;
        let chain = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>()?;
        let first = chain.first().ok_or("it contains no certificate")?;
        let parsed = parse_certificate(first)?;
        let names = match parsed.tbs_certificate().get_extension::<SubjectAltName>()? {
            Some((_, SubjectAltName(names))) => names.iter().filter_map(dns_name).collect(),
            None => Vec::new(),
        };
        let (from, until) = times(parsed.tbs_certificate().validity());
        let key = Arc::new(CertifiedKey::from_der(chain, key, &ring::default_provider())?);
        Ok(Self { key, names, from, until })
    }

    /// Returns true if the certificate is for all of these names, which must be in lower case.
    pub fn is_for(&self, names: &[String]) -> bool {
        names.iter().all(|name| self.names.contains(name))
    }

    /// The time to renew the certificate: after two thirds of its lifetime, as authorities
    /// recommend.
    pub fn renewal(&self) -> SystemTime {
        let whole = self.until.duration_since(self.from).unwrap_or_default();
        self.from + whole * 2 / 3
    }
}

fn dns_name(name: &GeneralName) -> Option<String> {
    match name {
        GeneralName::DnsName(name) => Some(name.as_str().to_ascii_lowercase()),
        _ => None,
    }
}

/// The handshake that proves to an authority that `name` is ours. It has a self-signed certificate
/// with the expected digest (RFC 8737, section 3).
///
/// # Errors
/// A certificate can't have this name.
#[cfg(feature = "acme")]
pub(crate) fn proof(name: &str, digest: &[u8]) -> Result<Arc<ServerConfig>, BoxedError> {
    use rustls::crypto::ring::sign::any_supported_type;
    use rustls::pki_types::PrivatePkcs8KeyDer;
    use rustls::sign::SingleCertAndKey;

    let mut parameters = CertificateParams::new([name.to_owned()])?;
    parameters.custom_extensions = vec![CustomExtension::new_acme_identifier(digest)];
    let key = KeyPair::generate()?;
    let certificate = parameters.self_signed(&key)?.der().clone();
    let key = PrivatePkcs8KeyDer::from(key.serialize_der());
    let key = any_supported_type(&key.into())?;
    // `with_single_cert` would refuse the extension that makes this a proof.
    let resolver = SingleCertAndKey::from(CertifiedKey::new(vec![certificate], key));
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions()?.with_no_client_auth();
    let mut config = builder.with_cert_resolver(Arc::new(resolver));
    config.alpn_protocols = vec![PROOF.to_vec()];
    Ok(Arc::new(config))
}
