//! Checks the certificates of servers: databases, upstreams, and the servers that commands call.
//!
//! webpki is strict about certificates. Those of database servers are often unusual: version 1,
//! self-signed, or with keys that ring doesn't support. So we read keys with x509-cert, and errors
//! explain the defect of a certificate.

use std::error::Error;
use std::fmt::Write as _;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{
    CertificateDer, PrivateKeyDer, ServerName, SignatureVerificationAlgorithm, UnixTime,
};
use rustls::server::ParsedCertificate;
use rustls::{
    AlertDescription, CertificateError, ClientConfig, DigitallySignedStruct, PeerMisbehaved, RootCertStore,
    SignatureScheme,
};
use sha2::{Digest as _, Sha256, Sha384, Sha512};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use x509_cert::certificate::{CertificateInner, Raw};
use x509_cert::der::asn1::ObjectIdentifier;
use x509_cert::der::{Decode as _, Encode};
use x509_cert::ext::pkix::SubjectAltName;

use super::{certificates_of, private_key, roots_of, system_roots, validity};

/// The servers that we accept.
#[derive(Debug)]
pub enum Trust {
    /// Any server. TLS then protects only against eavesdroppers.
    Anybody,
    /// A server whose certificate is signed by these roots, for any host.
    AnyHost(Roots),
    /// A server whose certificate is signed by these roots, for its host.
    Host(Roots),
}

/// The certificates that sign servers' certificates.
#[derive(Debug)]
pub struct Roots {
    store: RootCertStore,
    /// The certificates of the user's file. A server with one of them is trusted, even if it isn't
    /// an authority's.
    pinned: Vec<CertificateDer<'static>>,
}

impl Roots {
    /// Reads a PEM file, or the system's certificates.
    ///
    /// # Errors
    /// The file can't be read, or there are no certificates.
    pub fn read(file: Option<&Path>) -> Result<Self, Box<dyn Error>> {
        Ok(match file {
            Some(path) => Self { store: roots_of(path)?, pinned: certificates_of(path)? },
            None => Self { store: system_roots()?, pinned: Vec::new() },
        })
    }
}

/// The certificate that a client presents, with its key.
pub struct ClientCertificate(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

impl ClientCertificate {
    /// Reads PEM files.
    ///
    /// # Errors
    /// A file can't be read or lacks its content, or the key is encrypted.
    pub fn read(certificate: &Path, key: &Path) -> Result<Self, Box<dyn Error>> {
        Ok(Self(certificates_of(certificate)?, private_key(key)?))
    }
}

/// The configuration of a client that trusts these servers.
///
/// # Errors
/// The provider lacks a cipher suite for some version.
pub fn client(trust: Trust) -> Result<ClientConfig, rustls::Error> {
    client_as(None, trust)
}

/// Like [`client`], for a client that logs in with a certificate.
///
/// # Errors
/// The key doesn't belong to the certificate.
pub fn client_as(client: Option<ClientCertificate>, trust: Trust) -> Result<ClientConfig, rustls::Error> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider));
    let builder = builder.with_safe_default_protocol_versions()?.dangerous();
    let verifier = Arc::new(Verifier { trust, provider });
    let builder = builder.with_custom_certificate_verifier(verifier);
    match client {
        Some(ClientCertificate(certificates, key)) => {
            builder.with_client_auth_cert(certificates, key).map_err(|error| match error {
                rustls::Error::InconsistentKeys(_) => {
                    rustls::Error::General("the key isn't that of the certificate".to_owned())
                }
                error => error,
            })
        }
        None => Ok(builder.with_no_client_auth()),
    }
}

/// Opens TLS on `stream`. Errors are rewritten by [`in_words`].
pub async fn connect<S: AsyncRead + AsyncWrite + Unpin>(
    tls: &TlsConnector,
    name: ServerName<'static>,
    stream: S,
) -> io::Result<TlsStream<S>> {
    tls.connect(name, stream).await.map_err(in_words)
}

/// The value that binds a login to TLS with this server's certificate (RFC 5929,
/// `tls-server-end-point`). `None` if its signature doesn't determine a hash function, as with
/// Ed25519.
pub fn end_point(certificate: &CertificateDer<'_>) -> Option<Vec<u8>> {
    const SHA_256: [&str; 6] = [
        // MD5 and SHA-1 with RSA and ECDSA, which SHA-256 replaces here.
        "1.2.840.113549.1.1.4",
        "1.2.840.113549.1.1.5",
        "1.2.840.10045.4.1",
        "1.2.840.113549.1.1.11",
        "1.2.840.10045.4.3.2",
        "2.16.840.1.101.3.4.3.2",
    ];
    let parsed = CertificateInner::<Raw>::from_der(certificate).ok()?;
    match &*parsed.signature_algorithm().oid.to_string() {
        oid if SHA_256.contains(&oid) => Some(Sha256::digest(certificate).to_vec()),
        "1.2.840.113549.1.1.12" | "1.2.840.10045.4.3.3" => Some(Sha384::digest(certificate).to_vec()),
        "1.2.840.113549.1.1.13" | "1.2.840.10045.4.3.4" => Some(Sha512::digest(certificate).to_vec()),
        _ => None,
    }
}

/// Rewrites an error of a handshake so that it suggests a remedy.
pub fn in_words(error: io::Error) -> io::Error {
    let tls = error.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>());
    match tls.and_then(words) {
        Some(words) => io::Error::new(error.kind(), words),
        None => error,
    }
}

const NOTHING_IN_COMMON: &str = "the server and Rowstream have no version or cipher suite of TLS in common: \
     Rowstream offers TLS 1.3, and TLS 1.2 with ECDHE and AES-GCM or ChaCha20-Poly1305; allow one of these in \
     the server's configuration";

/// webpki's and rustls' names for a certificate's defects, and our explanations.
const FAULTS: [(&str, &str); 4] = [
    (
        "UnsupportedCertVersion",
        "it's a version 1 certificate. Make one of version 3, which names the host in a subjectAltName (`openssl \
         x509 -req -extfile`), or put this one itself into the file of root certificates",
    ),
    ("UnsupportedCriticalExtension", "it has a critical extension that isn't supported. Make one without it"),
    (
        "CaUsedAsEndEntity",
        "it's self-signed, or an authority's own. Put this certificate itself into the file of root certificates",
    ),
    (
        "UnsupportedSignatureAlgorithm",
        "it's signed by an algorithm that isn't supported. Use a signing key of RSA, P-256, P-384 or Ed25519",
    ),
];

fn words(error: &rustls::Error) -> Option<String> {
    match error {
        rustls::Error::AlertReceived(
            AlertDescription::HandshakeFailure
            | AlertDescription::ProtocolVersion
            | AlertDescription::InsufficientSecurity,
        )
        | rustls::Error::PeerIncompatible(_) => Some(format!("{NOTHING_IN_COMMON} ({error})")),
        rustls::Error::General(words) => Some(words.clone()),
        rustls::Error::InvalidCertificate(fault) => {
            let fault = format!("{fault:?}");
            let known = FAULTS.iter().find(|(name, _)| fault.contains(name));
            known.map(|(_, words)| format!("the server's certificate isn't trusted: {words}"))
        }
        _ => None,
    }
}

/// Checks a server's certificate and the signature of its handshake.
#[derive(Debug)]
struct Verifier {
    trust: Trust,
    provider: Arc<CryptoProvider>,
}

impl Verifier {
    fn algorithms(&self, scheme: SignatureScheme) -> &[&'static dyn SignatureVerificationAlgorithm] {
        let mapping = self.provider.signature_verification_algorithms.mapping;
        mapping.iter().find(|(known, _)| *known == scheme).map_or(&[], |(_, algorithms)| algorithms)
    }

    /// Checks the certificate against `roots`, without the host's name.
    fn check(
        &self,
        roots: &Roots,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), rustls::Error> {
        if roots.pinned.contains(certificate) {
            return check_time(certificate, now);
        }
        verify_server_cert_signed_by_trust_anchor(
            &ParsedCertificate::try_from(certificate)?,
            &roots.store,
            intermediates,
            now,
            self.provider.signature_verification_algorithms.all,
        )
    }

    /// Checks a signature. If we don't support its algorithm, it's an error only if the server must
    /// be trusted.
    fn check_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
        most_algorithms: usize,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let key = Key::of(certificate);
        let algorithms = self.algorithms(rsae(signed.scheme)).iter().take(most_algorithms);
        let fitting =
            algorithms.copied().find(|algorithm| key.as_ref().is_some_and(|key| key.is_for(*algorithm)));
        match (fitting, key, &self.trust) {
            (Some(algorithm), Some(key), _) => algorithm
                .verify_signature(&key.bits, message, signed.signature())
                .map(|()| HandshakeSignatureValid::assertion())
                .map_err(|_| CertificateError::BadSignature.into()),
            (_, _, Trust::Anybody) => Ok(HandshakeSignatureValid::assertion()),
            (_, key, _) => Err(rustls::Error::General(uncheckable(key))),
        }
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        match &self.trust {
            Trust::Anybody => {}
            Trust::AnyHost(roots) => self.check(roots, certificate, intermediates, now)?,
            Trust::Host(roots) => {
                self.check(roots, certificate, intermediates, now)?;
                check_name(certificate, server_name, roots.pinned.contains(certificate))?;
            }
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.check_signature(message, certificate, signature, usize::MAX)
    }

    /// In TLS 1.3 a scheme has one algorithm, the first in rustls' list. PKCS #1 v1.5 isn't allowed
    /// (RFC 8446, section 4.4.3).
    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        match signature.scheme {
            SignatureScheme::RSA_PKCS1_SHA256
            | SignatureScheme::RSA_PKCS1_SHA384
            | SignatureScheme::RSA_PKCS1_SHA512 => {
                Err(PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme.into())
            }
            _ => self.check_signature(message, certificate, signature, 1),
        }
    }

    /// Includes schemes that we can't check, at the end. Without them a server with such a key
    /// would end the handshake without a reason.
    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let mut schemes = self.provider.signature_verification_algorithms.supported_schemes();
        schemes.extend(RSA_PSS.map(|(scheme, _)| scheme));
        schemes.extend([SignatureScheme::ECDSA_NISTP521_SHA512, SignatureScheme::ED448]);
        schemes
    }
}

/// The schemes of keys for RSA-PSS only (`rsa_pss_pss_*`, which rustls has no names for), with the
/// schemes of the same signatures by general RSA keys (RFC 8446, section 4.2.3).
const RSA_PSS: [(SignatureScheme, SignatureScheme); 3] = [
    (SignatureScheme::Unknown(0x0809), SignatureScheme::RSA_PSS_SHA256),
    (SignatureScheme::Unknown(0x080a), SignatureScheme::RSA_PSS_SHA384),
    (SignatureScheme::Unknown(0x080b), SignatureScheme::RSA_PSS_SHA512),
];

fn rsae(scheme: SignatureScheme) -> SignatureScheme {
    RSA_PSS.iter().find(|(pss, _)| *pss == scheme).map_or(scheme, |(_, rsae)| *rsae)
}

/// The error if we need to trust a server, but can't check its signature.
fn uncheckable(key: Option<Key>) -> String {
    let name = key.map_or_else(|| "an unknown type".to_owned(), |key| key.name());
    format!(
        "the server's certificate isn't trusted: its key is of {name}, whose signatures aren't supported. \
         Give the server a key of RSA (2048 to 8192 bits), P-256, P-384 or Ed25519"
    )
}

const RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");
const RSA_PSS_ONLY: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.10");
/// The names of key types, by their algorithm or curve.
const KEYS: [(&str, &str); 8] = [
    ("1.2.840.113549.1.1.1", "RSA"),
    ("1.2.840.113549.1.1.10", "RSA-PSS"),
    ("1.2.840.10045.3.1.7", "P-256"),
    ("1.3.132.0.10", "secp256k1"),
    ("1.3.132.0.34", "P-384"),
    ("1.3.132.0.35", "P-521"),
    ("1.3.101.112", "Ed25519"),
    ("1.3.101.113", "Ed448"),
];
/// The length in bytes of an RSA key of 2048 to 8192 bits with its exponent. ring doesn't check
/// others.
const RSA_LENGTHS: std::ops::RangeInclusive<usize> = 260..=1050;

/// A certificate's public key.
struct Key {
    algorithm: ObjectIdentifier,
    /// The curve, for elliptic curves.
    curve: Option<ObjectIdentifier>,
    /// The contents of its AlgorithmIdentifier.
    id: Vec<u8>,
    bits: Vec<u8>,
}

impl Key {
    fn of(certificate: &CertificateDer<'_>) -> Option<Self> {
        let parsed = CertificateInner::<Raw>::from_der(certificate).ok()?;
        let key = parsed.tbs_certificate().subject_public_key_info();
        let algorithm = key.algorithm.oid;
        let parameters = key.algorithm.parameters.as_ref();
        let id = [algorithm.to_der().ok()?, parameters.map_or(Ok(Vec::new()), Encode::to_der).ok()?].concat();
        let curve = parameters.and_then(|any| any.decode_as().ok());
        Some(Self { algorithm, curve, id, bits: key.subject_public_key.as_bytes()?.to_owned() })
    }

    fn is_for(&self, algorithm: &dyn SignatureVerificationAlgorithm) -> bool {
        match self.algorithm {
            RSA_PSS_ONLY => self.has_length(),
            _ => {
                algorithm.public_key_alg_id().as_ref() == self.id
                    && (self.algorithm != RSA || self.has_length())
            }
        }
    }

    fn has_length(&self) -> bool {
        RSA_LENGTHS.contains(&self.bits.len())
    }

    fn name(&self) -> String {
        let oid = self.curve.unwrap_or(self.algorithm).to_string();
        let name = KEYS.iter().find(|(known, _)| *known == oid);
        let mut name = name.map_or_else(|| format!("the type {oid}"), |(_, name)| (*name).to_owned());
        if matches!(self.algorithm, RSA | RSA_PSS_ONLY) && !self.has_length() {
            let _ = write!(name, " (about {} bits)", self.bits.len() / 16 * 128);
        }
        name
    }
}

/// Checks that a pinned certificate is valid now.
fn check_time(certificate: &CertificateDer<'_>, now: UnixTime) -> Result<(), rustls::Error> {
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(now.as_secs());
    match validity(certificate) {
        Ok((from, _)) if now < from => Err(CertificateError::NotValidYet.into()),
        Ok((_, until)) if now > until => Err(CertificateError::Expired.into()),
        Ok(_) => Ok(()),
        Err(_) => Err(CertificateError::BadEncoding.into()),
    }
}

/// Checks that a certificate is for the host. For a pinned one without a subjectAltName (`openssl
/// req -x509` makes those), the common name counts.
fn check_name(
    certificate: &CertificateDer<'_>,
    host: &ServerName<'_>,
    is_pinned: bool,
) -> Result<(), rustls::Error> {
    if is_pinned && has_common_name(certificate, &host.to_str()).unwrap_or(false) {
        return Ok(());
    }
    match ParsedCertificate::try_from(certificate) {
        Ok(parsed) => verify_server_name(&parsed, host),
        Err(_) if is_pinned => {
            let expected = host.to_owned();
            Err(CertificateError::NotValidForNameContext { expected, presented: Vec::new() }.into())
        }
        Err(error) => Err(error),
    }
}

/// Returns true if the certificate has the host as its common name and no subjectAltName.
fn has_common_name(certificate: &CertificateDer<'_>, host: &str) -> Option<bool> {
    const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");
    let parsed = CertificateInner::<Raw>::from_der(certificate).ok()?;
    let parsed = parsed.tbs_certificate();
    if parsed.get_extension::<SubjectAltName>().ok()?.is_some() {
        return Some(false);
    }
    let names = parsed.subject().iter().filter(|attribute| attribute.oid == COMMON_NAME);
    let is_host = |bytes: &[u8]| bytes.eq_ignore_ascii_case(host.as_bytes());
    Some(names.last().is_some_and(|name| is_host(name.value.value())))
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ED25519};

    use super::*;

    #[test]
    fn a_login_is_bound_by_the_hash_of_the_certificates_signature() {
        for (algorithm, bytes) in
            [(&PKCS_ECDSA_P256_SHA256, Some(32)), (&PKCS_ECDSA_P384_SHA384, Some(48)), (&PKCS_ED25519, None)]
        {
            let key = KeyPair::generate_for(algorithm).expect("a key");
            let params = CertificateParams::new(["localhost".to_owned()]).expect("a name");
            let certificate = params.self_signed(&key).expect("a certificate");
            assert_eq!(end_point(certificate.der()).map(|hash| hash.len()), bytes);
        }
    }
}
