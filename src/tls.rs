//! Root certificates, by which the servers of sources are known.

use std::error::Error;
use std::fs;
use std::path::Path;

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

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
    let pem = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        roots.add(certificate?)?;
    }
    match roots.is_empty() {
        true => Err(format!("{} holds no certificate", path.display()).into()),
        false => Ok(roots),
    }
}
