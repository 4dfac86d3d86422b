//! See [`crate::fuzzing`].

use rowstream_core::cursor::Signer;
use serde_json::{Map, Value as Json};

use super::jwt::UnverifiedToken;
use super::{Credentials, TokenMap, signed};
use crate::config::JwtSettings;
use crate::jwk::PublicKey;

/// The claims of a token, if it is signed by one of the keys and valid at the time `now`, in
/// seconds since 1970.
pub fn claims(
    token: &str,
    keys: &[PublicKey],
    settings: &JwtSettings,
    now: f64,
) -> Option<Map<String, Json>> {
    let token = UnverifiedToken::read(token, settings).ok()?;
    token.verify(keys, settings, now).ok().map(|claims| claims.all)
}

/// The signer for a URL with this secret.
pub fn url_signer(secret: &str, path: &str, query: &str) -> Signer {
    signed::signer(&Signer::new(secret, &[]), path, query)
}

/// The claims in the signature of a URL, if it's valid at the time `now`, in seconds since 1970.
/// `signer` is that of the URL.
pub fn signed_claims(
    signature: &str,
    signer: &Signer,
    settings: &JwtSettings,
    now: u64,
) -> Option<Map<String, Json>> {
    let credentials =
        Credentials::of_signature(signature, signer, &TokenMap::new(), Some(settings), now).ok()?;
    credentials.claims().map(|claims| claims.all.clone())
}
