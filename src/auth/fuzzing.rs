//! See [`crate::fuzzing`].

use serde_json::{Map, Value as Json};

use super::jwt::UnverifiedToken;
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
