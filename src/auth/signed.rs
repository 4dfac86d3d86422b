//! Signed URLs: each has the rights of the token that it was made with, for at most an hour. They
//! are for clients that can't send headers, such as `EventSource` and spreadsheets.
//!
//! The signature covers the path, the query and the claims, byte by byte. The claims of a JSON Web
//! Token are checked and used like those in a token. A token of the configuration is only named, so
//! its URLs end with it.
//!
//! ```text
//! signature   a token of `Signer` for `LABEL`, the path and the query
//! content     {"until": 1764270000, "token": "reader"}
//!             {"until": 1764270000, "claims": {"iss": "https://login.example", "sub": "7", …}}
//! ```

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use rowstream_core::Error;
use rowstream_core::cursor::Signer;
use rowstream_core::error::denial::Denial;
use rowstream_core::params::{CLAIMS, Param, ParamPlace};
use serde_json::{Map, Value as Json, json};

use super::jwt::Claims;
use super::{Credentials, TokenMap};
use crate::config::JwtSettings;

/// Separates these signatures from all others, even if the secrets are the same.
const LABEL: &str = "signed URL";
/// The claims that identify the client, tell if its token is for this server, and contain scopes.
const KEPT: [&str; 7] = ["iss", "aud", "exp", "nbf", "sub", "scope", "scp"];

/// The signer for one URL. `secret` is the signer of `url_secret`.
pub(crate) fn signer(secret: &Signer, path: &str, query: &str) -> Signer {
    secret.for_parts(&[LABEL, path, query])
}

/// A signature and the time when it expires, in seconds since 1970.
#[derive(Debug)]
pub(crate) struct UrlSignature {
    pub(crate) text: String,
    pub(crate) until: u64,
}

/// The claims of a token that an endpoint can use. A signature contains only these, because anyone
/// who has the URL can read them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UsedClaims<'a> {
    pub(crate) params: &'a [Param],
    /// True if its source has roles, because the database's policies may use every claim.
    pub(crate) has_roles: bool,
}

impl UsedClaims<'_> {
    /// A parameter `jwt.a.b` may be the claim `a.b`, or a member of the claim `a`.
    fn contain(self, name: &str) -> bool {
        let is_in =
            |path: &str| path.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
        let mut own = self.params.iter().filter(|param| param.place == ParamPlace::Claim);
        self.has_roles
            || KEPT.contains(&name)
            || own.any(|param| param.name.strip_prefix(CLAIMS).is_some_and(is_in))
    }
}

impl Credentials {
    /// Signs a URL for the time `valid`, but not beyond the end of the token. `now` is in seconds
    /// since 1970.
    ///
    /// # Errors
    /// 400: there's no token. 401: it has expired, and is only accepted because clocks differ.
    pub(crate) fn sign(
        &self,
        signer: &Signer,
        used: UsedClaims<'_>,
        valid: Duration,
        now: u64,
    ) -> Result<UrlSignature, Error> {
        let (kind, holder, end) = match self {
            Self::Jwt(claims) => {
                let kept = claims.all.iter().filter(|(name, _)| used.contain(name));
                let kept: Map<_, _> = kept.map(|(name, claim)| (name.clone(), claim.clone())).collect();
                ("claims", Json::Object(kept), claims.end())
            }
            Self::Token(token) => ("token", json!(token.name), token.expires.map(seconds)),
            Self::None | Self::Invalid(_) | Self::Expired(_) | Self::Unchecked => {
                let why = "this endpoint used no token for the request, so its URL needs no signature";
                return Err(Error::invalid_parameters(vec![("_sign".to_owned(), why.to_owned())]));
            }
        };
        let longest = now + valid.as_secs();
        let until = end.map_or(longest, |end| end.min(longest));
        if until <= now {
            let error = Error::denied(Denial::Expired, "the bearer token has expired");
            return Err(error.hint("ask the issuer for a new one"));
        }
        let content = json!({"until": until, kind: holder}).to_string();
        let mut text = Vec::new();
        signer.seal(&[content.as_bytes()], &mut text);
        Ok(UrlSignature { text: String::from_utf8(text).expect("base64 is ASCII"), until })
    }

    /// The credentials of a signed URL. `now` is in seconds since 1970.
    ///
    /// # Errors
    /// 403: the signature isn't valid for this URL, or not any more.
    pub(crate) fn of_signature(
        signature: &str,
        signer: &Signer,
        tokens: &TokenMap,
        jwt: Option<&JwtSettings>,
        now: u64,
    ) -> Result<Self, Error> {
        let content = signer.open(signature).ok_or_else(changed)?;
        let mut content: Map<String, Json> = serde_json::from_slice(&content).map_err(|_| changed())?;
        let until = content.get("until").and_then(Json::as_u64).ok_or_else(changed)?;
        if until <= now {
            return Err(refusal("the signature of the URL has expired"));
        }
        let found = match (content.remove("claims"), content.get("token").and_then(Json::as_str)) {
            (Some(Json::Object(claims)), None) => {
                let claims = jwt.and_then(|jwt| Claims::accept(claims, jwt, now as f64).ok());
                claims.map(|claims| Self::Jwt(Arc::new(claims)))
            }
            (None, Some(name)) => tokens
                .get(name)
                .filter(|token| !token.has_expired())
                .map(|token| Self::Token(Arc::clone(token))),
            _ => None,
        };
        found.ok_or_else(|| refusal("the token of the signed URL isn't valid any more"))
    }
}

impl Claims {
    /// The end of the token, in seconds since 1970.
    fn end(&self) -> Option<u64> {
        let end = self.all.get("exp").and_then(Json::as_f64)?;
        Duration::try_from_secs_f64(end).ok().map(|end| end.as_secs())
    }
}

fn seconds(time: Timestamp) -> u64 {
    u64::try_from(time.as_second()).unwrap_or_default()
}

fn changed() -> Error {
    refusal(
        "the URL was changed or cut after it was signed, or the signature is for another URL or of another `url_secret`",
    )
}

/// The error for a signature that isn't valid.
pub(crate) fn refusal(message: &str) -> Error {
    Error::denied(Denial::Signature, message)
        .hint("request a new one with a token and `_sign=SECONDS`, and don't change it")
}
