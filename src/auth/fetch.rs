//! Fetches the keys of an issuer.

use http::{Request, StatusCode, Uri, header};
use rowstream_core::fetch::{self, Failure};

use crate::config::OIDC_CONFIGURATION;
use crate::jwk::{self, PublicKey};

/// The keys of a JWK set.
///
/// # Errors
/// It can't be fetched, or isn't a JWK set.
pub(super) async fn keys(url: &Uri) -> Result<Vec<PublicKey>, Failure> {
    let set = get(url).await.map_err(|cause| format!("{url}: {cause}"))?;
    Ok(PublicKey::read_set(&set).ok_or_else(|| format!("{url}: this isn't a JWK set"))?)
}

/// The URL of an issuer's keys (OpenID Connect Discovery 1.0, section 4).
///
/// # Errors
/// The issuer can't be reached, the configuration is another issuer's, or it contains no safe URL.
pub(super) async fn discover(issuer: &str) -> Result<Uri, Failure> {
    let url: Uri = format!("{}{OIDC_CONFIGURATION}", issuer.trim_end_matches('/')).parse()?;
    let document = get(&url).await.map_err(|cause| format!("{url}: {cause}"))?;
    let document: serde_json::Value =
        serde_json::from_slice(&document).map_err(|_| format!("{url}: this isn't JSON"))?;
    if document["issuer"] != issuer {
        return Err(format!("{url}: this is the configuration of another issuer").into());
    }
    let keys = document["jwks_uri"].as_str().and_then(|text| text.parse().ok());
    Ok(keys.filter(jwk::is_safe).ok_or_else(|| format!("{url}: `jwks_uri` isn't an https URL"))?)
}

async fn get(url: &Uri) -> Result<Vec<u8>, Failure> {
    let request = Request::get(url).header(header::ACCEPT, "application/json").body(String::new())?;
    match fetch::send(request).await? {
        (StatusCode::OK, body) => Ok(body),
        (status, _) => Err(format!("the answer is {status}").into()),
    }
}
