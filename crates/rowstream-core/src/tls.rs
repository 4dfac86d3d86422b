//! TLS to other servers ([`servers`]), and the PEM files for TLS.
//!
//! The databases and upstreams do the handshakes.

pub mod servers;

use std::error::Error;
use std::fs;
use std::path::Path;
use std::time::SystemTime;

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use x509_cert::certificate::{CertificateInner, Raw};
use x509_cert::der::Decode as _;
use x509_cert::time::Validity;

/// HTTP/2 over TLS (RFC 9113, section 3.2).
pub const HTTP2: &[u8] = b"h2";

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// The certificates of a PEM file, in their order. There's at least one.
///
/// # Errors
/// The file can't be read, or contains no certificate.
pub fn certificates_of(path: &Path) -> Result<Vec<CertificateDer<'static>>, Box<dyn Error>> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&read(path)?).collect();
    match certificates {
        Err(error) => Err(format!("{}: {error}", path.display()).into()),
        Ok(certificates) if certificates.is_empty() => {
            Err(format!("{} contains no certificate", path.display()).into())
        }
        Ok(certificates) => Ok(certificates),
    }
}

/// The private key of a PEM file.
///
/// # Errors
/// The file can't be read, or contains no key, or the key is encrypted.
pub fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, String> {
    let pem = read(path)?;
    let is_encrypted = String::from_utf8_lossy(&pem).contains("ENCRYPTED");
    PrivateKeyDer::from_pem_slice(&pem).map_err(|_| match is_encrypted {
        true => format!(
            "the key in {0} is encrypted: write it without its password, `openssl pkey -in {0} -out {0}.plain`",
            path.display()
        ),
        false => format!("{} contains no private key", path.display()),
    })
}

/// The system's root certificates.
///
/// # Errors
/// The system has none.
fn system_roots() -> Result<RootCertStore, Box<dyn Error>> {
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    match added {
        0 => Err("this system has none; name your own file".into()),
        _ => Ok(roots),
    }
}

/// The root certificates in a PEM file.
///
/// # Errors
/// The file can't be read, or contains no certificate.
pub fn roots_of(path: &Path) -> Result<RootCertStore, Box<dyn Error>> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates_of(path)? {
        roots.add(certificate)?;
    }
    Ok(roots)
}

/// The start and the end of a certificate's validity.
///
/// # Errors
/// `certificate` isn't an X.509 certificate.
pub fn validity(
    certificate: &CertificateDer<'_>,
) -> Result<(SystemTime, SystemTime), Box<dyn Error + Send + Sync>> {
    Ok(times(parse_certificate(certificate)?.tbs_certificate().validity()))
}

/// Parses a certificate by the rules of `Raw`, because real authorities have issued serial numbers that RFC 5280 forbids.
///
/// # Errors
/// It isn't an X.509 certificate.
pub fn parse_certificate(
    certificate: &CertificateDer<'_>,
) -> Result<CertificateInner<Raw>, Box<dyn Error + Send + Sync>> {
    Ok(CertificateInner::from_der(certificate)?)
}

/// The start and the end of a certificate's validity.
pub fn times(validity: &Validity<Raw>) -> (SystemTime, SystemTime) {
    (validity.not_before.to_system_time(), validity.not_after.to_system_time())
}
