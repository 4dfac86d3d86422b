//! JSON Web Tokens (RFC 7519): checks their signature, audience and validity period.
//!
//! A token's contents aren't trusted before its signature is verified. Its header only chooses
//! among the configured keys and algorithms, and can't add any.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value as Json};

use crate::config::JwtSettings;
use crate::jwk::{Algorithm, PublicKey};

/// The largest difference of clocks that we accept, in seconds.
const LEEWAY: f64 = 60.0;
/// Beyond it a float doesn't represent all integers, so two of them may be equal: 2^53.
const INEXACT: f64 = 9_007_199_254_740_992.0;

/// The claims of a verified token.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Claims {
    /// The claims, as they were signed.
    pub(crate) all: Map<String, Json>,
    /// The scopes that it has here.
    scopes: Vec<String>,
}

impl Claims {
    /// Accepts claims whose signature is verified, if they're valid for this server at the time
    /// `now`, in seconds since 1970.
    pub(super) fn accept(
        all: Map<String, Json>,
        settings: &JwtSettings,
        now: f64,
    ) -> Result<Self, TokenRefusal> {
        check(&all, settings, now)?;
        Ok(Self::new(all, &settings.scopes))
    }

    /// Keeps only scopes that are `known`, because another of the issuer's scopes may be the name
    /// of a bearer token.
    fn new(all: Map<String, Json>, known: &[String]) -> Self {
        let mut scopes = Vec::new();
        for name in ["scope", "scp"] {
            match all.get(name) {
                // RFC 8693, section 4.2.
                Some(Json::String(text)) => scopes.extend(text.split_ascii_whitespace().map(str::to_owned)),
                Some(Json::Array(items)) => {
                    scopes.extend(items.iter().filter_map(Json::as_str).map(str::to_owned));
                }
                _ => {}
            }
        }
        scopes.retain(|scope| known.contains(scope));
        Self { all, scopes }
    }

    /// True if the token has this scope.
    pub(crate) fn has(&self, scope: &str) -> bool {
        self.scopes.iter().any(|own| own == scope)
    }

    /// A claim that is a text.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.all.get(name).and_then(Json::as_str)
    }
}

/// A token whose signature hasn't been checked yet.
pub(super) struct UnverifiedToken<'a> {
    algorithm: Algorithm,
    /// The name of the key that it claims to be signed with.
    key: Option<String>,
    /// The bytes that were signed.
    message: &'a [u8],
    payload: &'a str,
    signature: Vec<u8>,
}

/// The reason why a token isn't accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TokenRefusal {
    /// It isn't a token, or its algorithm isn't allowed.
    Malformed,
    /// It names a key that the issuer doesn't have.
    UnknownKey,
    /// None of the keys has signed it.
    Signature,
    /// It has no time of expiry, or another claim isn't as required.
    Claim(&'static str),
    /// It has a number with more digits than we keep.
    Inexact,
    /// It isn't valid yet.
    Early,
    /// It has expired.
    Expired,
}

impl TokenRefusal {
    /// The message for its client.
    pub(super) fn message(self) -> &'static str {
        match self {
            Self::Malformed => "this server doesn't accept the bearer token",
            Self::UnknownKey => "the token is signed with a key that its issuer doesn't list",
            Self::Signature => "the signature of the token is not valid",
            Self::Claim("iss") => "the token is from another issuer (`iss`)",
            Self::Claim("aud") => "the token is for another server (`aud`)",
            Self::Claim("exp") => "the token has no expiry time (`exp`)",
            Self::Claim(_) => "the token has an invalid start time (`nbf`)",
            Self::Inexact => {
                "a number in the token has more than 64 bits: its issuer has to write it as a text"
            }
            Self::Early => "the token is not valid yet (`nbf`)",
            Self::Expired => "the token has expired (`exp`)",
        }
    }
}

impl<'a> UnverifiedToken<'a> {
    /// Reads a token as far as that's possible without its key.
    pub(super) fn read(token: &'a str, settings: &JwtSettings) -> Result<Self, TokenRefusal> {
        let (message, signature) = token.rsplit_once('.').ok_or(TokenRefusal::Malformed)?;
        let (header, payload) = message.split_once('.').ok_or(TokenRefusal::Malformed)?;
        let header = object(header)?;
        let text = |name: &str| header.get(name).and_then(Json::as_str);
        let algorithm = text("alg").and_then(Algorithm::from_name);
        let algorithm = algorithm.filter(|algorithm| settings.algorithms.contains(algorithm));
        // Critical fields have to be understood (RFC 7515, section 4.1.11), and we support none.
        if header.contains_key("crit") {
            return Err(TokenRefusal::Malformed);
        }
        Ok(Self {
            algorithm: algorithm.ok_or(TokenRefusal::Malformed)?,
            key: text("kid").map(str::to_owned),
            message: message.as_bytes(),
            payload,
            signature: URL_SAFE_NO_PAD.decode(signature).map_err(|_| TokenRefusal::Malformed)?,
        })
    }

    /// True if one of the keys may have signed it.
    pub(super) fn knows(&self, keys: &[PublicKey]) -> bool {
        keys.iter().any(|key| key.is(self.key.as_deref(), self.algorithm))
    }

    /// Returns the claims, if one of the keys has signed the token and it's valid for this server
    /// at the time `now`, in seconds since 1970.
    pub(super) fn verify(
        &self,
        keys: &[PublicKey],
        settings: &JwtSettings,
        now: f64,
    ) -> Result<Claims, TokenRefusal> {
        if !self.knows(keys) {
            return Err(TokenRefusal::UnknownKey);
        }
        let mut own = keys.iter().filter(|key| key.is(self.key.as_deref(), self.algorithm));
        if !own.any(|key| key.has_signed(self.algorithm, self.message, &self.signature)) {
            return Err(TokenRefusal::Signature);
        }
        let claims = object(self.payload)?;
        if claims.values().any(is_inexact) {
            return Err(TokenRefusal::Inexact);
        }
        Claims::accept(claims, settings, now)
    }
}

/// Checks the issuer, the audience (RFC 7519, section 4.1), and the times.
fn check(claims: &Map<String, Json>, settings: &JwtSettings, now: f64) -> Result<(), TokenRefusal> {
    if claims.get("iss").and_then(Json::as_str) != Some(&settings.issuer) {
        return Err(TokenRefusal::Claim("iss"));
    }
    let is_own =
        |name: &Json| name.as_str().is_some_and(|name| settings.audience.iter().any(|own| own == name));
    let is_for_us = match claims.get("aud") {
        Some(Json::Array(names)) => names.iter().any(is_own),
        Some(name) => is_own(name),
        None => false,
    };
    if !is_for_us {
        return Err(TokenRefusal::Claim("aud"));
    }
    let time = |name| match claims.get(name) {
        Some(value) => value.as_f64().map(Some).ok_or(TokenRefusal::Claim(name)),
        None => Ok(None),
    };
    if time("exp")?.ok_or(TokenRefusal::Claim("exp"))? + LEEWAY <= now {
        return Err(TokenRefusal::Expired);
    }
    match time("nbf")? {
        Some(begin) if begin - LEEWAY > now => Err(TokenRefusal::Early),
        _ => Ok(()),
    }
}

/// True for an integer beyond 64 bits, which was read as a float. The ids of two users may be
/// the same float.
fn is_inexact(value: &Json) -> bool {
    match value {
        Json::Number(number) => {
            number.is_f64() && number.as_f64().is_some_and(|float| float.abs() >= INEXACT)
        }
        Json::Array(items) => items.iter().any(is_inexact),
        Json::Object(members) => members.values().any(is_inexact),
        _ => false,
    }
}

/// A part of a token: an object in base64url.
fn object(part: &str) -> Result<Map<String, Json>, TokenRefusal> {
    let bytes = URL_SAFE_NO_PAD.decode(part).map_err(|_| TokenRefusal::Malformed)?;
    serde_json::from_slice(&bytes).map_err(|_| TokenRefusal::Malformed)
}
