//! A certificate that an authority issues while the server runs (ACME, RFC 8555), and the proofs by
//! which the authority sees that a name is this server's (TLS-ALPN-01, RFC 8737).
//!
//! It asks the authority for nothing: `server::acme` does, and handshakes read here what it got.

// Without the feature, nothing is issued.
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

/// The protocol by which an authority asks for a proof (RFC 8737, section 4).
const PROOF: &[u8] = b"acme-tls/1";

type Failure = Box<dyn Error + Send + Sync>;

/// What handshakes need of what was issued.
#[derive(Default)]
pub struct Issued {
    /// `None`: nothing was issued yet, so that no handshake succeeds.
    certificate: RwLock<Option<Certificate>>,
    /// The proofs that are wanted now, by their names.
    proofs: RwLock<HashMap<String, Arc<ServerConfig>>>,
}

impl Issued {
    /// Has handshakes to come see this certificate.
    pub fn set(&self, certificate: Certificate) {
        *self.certificate.write() = Some(certificate);
    }

    /// When the certificate expires that handshakes see; `None`: there is none.
    pub fn until(&self) -> Option<SystemTime> {
        self.certificate.read().as_ref().map(|certificate| certificate.until)
    }

    /// Whoever asks for a proof for this name gets this one.
    pub fn prove(&self, name: &str, proof: Arc<ServerConfig>) {
        self.proofs.write().insert(name.to_owned(), proof);
    }

    /// No proof is wanted any more.
    pub fn forget_proofs(&self) {
        self.proofs.write().clear();
    }

    /// What a client asks for that begins with this.
    pub fn asked(&self, hello: &ClientHello<'_>) -> Asked {
        if !hello.alpn().is_some_and(|mut names| names.any(|name| name == PROOF)) {
            return Asked::Connection;
        }
        let proof = hello.server_name().and_then(|name| self.proofs.read().get(name).cloned());
        proof.map_or(Asked::UnknownProof, Asked::Proof)
    }
}

/// What a handshake is for.
pub enum Asked {
    /// To ask for something over it.
    Connection,
    /// For the proof that is wanted for its name, which is all of it.
    Proof(Arc<ServerConfig>),
    /// For one that is not wanted.
    UnknownProof,
}

impl fmt::Debug for Issued {
    /// Without the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Issued").field("until", &self.until()).finish_non_exhaustive()
    }
}

impl ResolvesServerCert for Issued {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.certificate.read().as_ref().map(|certificate| Arc::clone(&certificate.key))
    }
}

/// A certificate, what leads from it to its authority, and its key.
pub struct Certificate {
    key: Arc<CertifiedKey>,
    /// The names that it is for.
    names: Vec<String>,
    from: SystemTime,
    /// When it expires.
    pub until: SystemTime,
}

impl Certificate {
    /// Reads all that from one text of PEM.
    ///
    /// # Errors
    /// Something is missing, or is not what it should be.
    pub fn read(pem: &[u8]) -> Result<Self, Failure> {
        let key = PrivateKeyDer::from_pem_slice(pem).map_err(|_| "there is no private key in it")?;
        let chain = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>()?;
        let first = chain.first().ok_or("there is no certificate in it")?;
        let parsed = parse_certificate(first)?;
        let names = match parsed.tbs_certificate().get_extension::<SubjectAltName>()? {
            Some((_, SubjectAltName(names))) => names.iter().filter_map(dns_name).collect(),
            None => Vec::new(),
        };
        let (from, until) = times(parsed.tbs_certificate().validity());
        let key = Arc::new(CertifiedKey::from_der(chain, key, &ring::default_provider())?);
        Ok(Self { key, names, from, until })
    }

    /// Whether it is for each of these names, which are in lower case.
    pub fn is_for(&self, names: &[String]) -> bool {
        names.iter().all(|name| self.names.contains(name))
    }

    /// From when on another one should be asked for: when two thirds of its time are over, which is
    /// what authorities recommend.
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

/// What an authority is to see that asks for a proof for `name`: a certificate of our own with the
/// digest that it expects (RFC 8737, section 3).
///
/// # Errors
/// The name is none that a certificate can have.
#[cfg(feature = "acme")]
pub(crate) fn proof(name: &str, digest: &[u8]) -> Result<Arc<ServerConfig>, Failure> {
    use rustls::crypto::ring::sign::any_supported_type;
    use rustls::pki_types::PrivatePkcs8KeyDer;
    use rustls::sign::SingleCertAndKey;

    let mut parameters = CertificateParams::new([name.to_owned()])?;
    parameters.custom_extensions = vec![CustomExtension::new_acme_identifier(digest)];
    let key = KeyPair::generate()?;
    let certificate = parameters.self_signed(&key)?.der().clone();
    let key = PrivatePkcs8KeyDer::from(key.serialize_der());
    let key = any_supported_type(&key.into())?;
    // Not `with_single_cert`: it refuses the extension that makes this a proof.
    let resolver = SingleCertAndKey::from(CertifiedKey::new(vec![certificate], key));
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions()?.with_no_client_auth();
    let mut config = builder.with_cert_resolver(Arc::new(resolver));
    config.alpn_protocols = vec![PROOF.to_vec()];
    Ok(Arc::new(config))
}
