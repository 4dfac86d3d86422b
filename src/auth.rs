//! Identifies clients and checks their rights. A client sends a bearer token (RFC 6750): a text
//! whose SHA-256 is known and compared in constant time, or a JSON Web Token. Tools that know
//! nothing else can send the token with Basic (RFC 7617).
//!
//! This module doesn't count or log denials. An [`Error`] carries the reason for that.

mod fetch;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod jwt;
mod keys;
mod role;
pub(crate) mod signed;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::{AUTHORIZATION, HeaderValue};
use http::{HeaderMap, StatusCode};
use rowstream_core::Error;
use rowstream_core::client::Client;
use rowstream_core::error::denial::Denial;
use rowstream_core::params::{self, Param, ParamPlace};
use sha2::{Digest, Sha256};
use subtle::{Choice, ConstantTimeEq};

pub(crate) use self::jwt::Claims;
use self::jwt::TokenRefusal;
use self::keys::TokenError;
pub(crate) use self::keys::Verifier;
use crate::config::Token;
use crate::endpoint::Authorization;

/// The tokens by name.
pub(crate) type TokenMap = BTreeMap<String, Arc<Token>>;

/// The credentials of a request.
#[derive(Debug, Clone, Default)]
pub(crate) enum Credentials {
    /// Nothing.
    #[default]
    None,
    /// Credentials that aren't valid, and why.
    Invalid(&'static str),
    /// A token that was valid once. `None`: it isn't one of the configuration's.
    Expired(Option<Arc<Token>>),
    /// A token that can't be checked now.
    Unchecked,
    /// A valid token of the configuration.
    Token(Arc<Token>),
    /// A valid JSON Web Token.
    Jwt(Arc<Claims>),
}

/// A token as it was sent.
struct PresentedToken<'a> {
    token: &'a [u8],
    /// The user's name, if the token is sent as a password.
    user: Option<&'a [u8]>,
}

impl Credentials {
    /// The credentials in the headers of a request. An issuer's keys may have to be fetched.
    pub(crate) async fn read(
        headers: &HeaderMap,
        tokens: &TokenMap,
        verifier: Option<&Arc<Verifier>>,
    ) -> Self {
        let value = match only(headers) {
            Ok(Some(value)) => value,
            Ok(None) => return Self::None,
            Err(why) => return Self::Invalid(why),
        };
        let found = Self::of(value, tokens);
        match (&found, verifier, json_web_token(value)) {
            // Boxed, so that requests without such a token don't carry its state.
            (Self::Invalid(_), Some(verifier), Some(token)) => {
                Box::pin(Self::verified(token, verifier)).await
            }
            _ => found,
        }
    }

    async fn verified(token: &str, verifier: &Arc<Verifier>) -> Self {
        match verifier.verify(token).await {
            Ok(claims) => Self::Jwt(Arc::new(claims)),
            Err(TokenError::NoKeys) => Self::Unchecked,
            Err(TokenError::Refused(TokenRefusal::Expired)) => Self::Expired(None),
            Err(TokenError::Refused(refusal)) => Self::Invalid(refusal.message()),
        }
    }

    fn of(value: &HeaderValue, tokens: &TokenMap) -> Self {
        let value = value.as_bytes();
        if let Some(token) = of_scheme(value, b"Bearer ") {
            return Self::of_token(&PresentedToken { token, user: None }, tokens);
        }
        let pair = of_scheme(value, b"Basic ").and_then(|pair| STANDARD.decode(pair).ok());
        let pair = pair.as_deref().unwrap_or_default();
        match pair.iter().position(|byte| *byte == b':') {
            Some(at) => {
                Self::of_token(&PresentedToken { token: &pair[at + 1..], user: Some(&pair[..at]) }, tokens)
            }
            None => Self::Invalid(NOT_VALID),
        }
    }

    fn of_token(presented: &PresentedToken<'_>, tokens: &TokenMap) -> Self {
        let found =
            find(&Sha256::digest(presented.token).into(), tokens).filter(|_| !presented.token.is_empty());
        match found.filter(|found| presented.user.is_none_or(|user| user == found.name.as_bytes())) {
            None => Self::Invalid(NOT_VALID),
            Some(token) if token.has_expired() => Self::Expired(Some(Arc::clone(token))),
            Some(token) => Self::Token(Arc::clone(token)),
        }
    }

    /// Checks that the credentials are enough for `wanted`.
    ///
    /// # Errors
    /// 401 if other credentials would help; 403 if the client is known but lacks the right.
    pub(crate) fn authorize(&self, wanted: &Authorization) -> Result<(), Error> {
        let scopes = match wanted {
            Authorization::Public => return Ok(()),
            Authorization::Authenticated => None,
            Authorization::Tokens(scopes) => Some(scopes),
        };
        match self {
            Self::None => Err(Error::denied(Denial::Missing, "a bearer token is needed").hint(HOW)),
            Self::Invalid(why) => Err(Error::denied(Denial::Invalid, *why).hint(HOW)),
            Self::Expired(_) => Err(Error::denied(Denial::Expired, "the bearer token has expired")
                .hint("ask the issuer for a new one")),
            Self::Unchecked => Err(keys_unavailable()),
            Self::Token(_) | Self::Jwt(_) if scopes.is_none_or(|scopes| self.has_any(scopes)) => Ok(()),
            Self::Token(_) | Self::Jwt(_) if scopes.is_some_and(Vec::is_empty) => {
                let message = "the configuration allows no token for this admin endpoint";
                Err(Error::denied(Denial::Forbidden, message)
                    .hint("list one in `authorization` of `[admin]`, or open the endpoint with `public`"))
            }
            Self::Token(_) | Self::Jwt(_) => {
                Err(Error::denied(Denial::Forbidden, "this token is not for this endpoint"))
            }
        }
    }

    /// True if they have one of these scopes.
    fn has_any(&self, scopes: &[String]) -> bool {
        scopes.iter().any(|scope| match self {
            Self::None | Self::Invalid(_) | Self::Expired(_) | Self::Unchecked => false,
            Self::Token(token) => token.has(scope),
            Self::Jwt(claims) => claims.has(scope),
        })
    }

    /// The name of the token.
    pub(crate) fn name(&self) -> Option<&str> {
        match self {
            Self::None | Self::Invalid(_) | Self::Expired(None) | Self::Unchecked | Self::Jwt(_) => None,
            Self::Expired(Some(token)) | Self::Token(token) => Some(&token.name),
        }
    }

    /// The subject of a JSON Web Token (`sub`).
    pub(crate) fn subject(&self) -> Option<&str> {
        self.claims().and_then(|claims| claims.text("sub"))
    }

    /// The claims of a JSON Web Token.
    pub(crate) fn claims(&self) -> Option<&Arc<Claims>> {
        match self {
            Self::Jwt(claims) => Some(claims),
            _ => None,
        }
    }

    /// The claims that parameters are bound to.
    ///
    /// # Errors
    /// 403: the token lacks one of them.
    pub(crate) fn claims_for(&self, params: &[Param]) -> Result<Option<&params::Claims>, Error> {
        let claims = self.claims().map(|claims| &claims.all);
        let wanted =
            params.iter().filter(|param| param.place == ParamPlace::Claim && param.default.is_none());
        for param in wanted {
            if claims.is_none_or(|claims| params::claim(claims, &param.name).is_none()) {
                let name = param.name.trim_start_matches(params::CLAIMS);
                return Err(Error::denied(Denial::Claim, format!("the token has no claim `{name}`")));
            }
        }
        Ok(claims)
    }

    /// Identifies the client when clients take turns; `None` if only the address can.
    pub(crate) fn client(&self) -> Option<Client> {
        match self {
            Self::None | Self::Invalid(_) | Self::Expired(_) | Self::Unchecked => None,
            Self::Jwt(claims) => {
                let who = [claims.text("iss")?, claims.text("sub")?].join("\n");
                Some(Client::Token(Sha256::digest(who).into()))
            }
            // The first hash, even if the client sent the token of another one.
            Self::Token(token) => token.hashes.first().copied().map(Client::Token),
        }
    }
}

const NOT_VALID: &str = "the bearer token is not valid";
const HOW: &str = "send `Authorization: Bearer <token>`";

fn keys_unavailable() -> Error {
    let message = "the token can't be checked, because the keys of its issuer can't be fetched";
    Error::new("keys_unavailable", StatusCode::SERVICE_UNAVAILABLE, message)
        .retry_after(Duration::from_secs(30))
}

/// The header with the credentials.
///
/// # Errors
/// There are two. Another program on the path may have read the other one.
fn only(headers: &HeaderMap) -> Result<Option<&HeaderValue>, &'static str> {
    let mut sent = headers.get_all(AUTHORIZATION).iter();
    match (sent.next(), sent.next()) {
        (value, None) => Ok(value),
        (_, Some(_)) => Err("the request has two `Authorization` headers"),
    }
}

/// A bearer token, if it looks like a JSON Web Token.
fn json_web_token(value: &HeaderValue) -> Option<&str> {
    let token = str::from_utf8(of_scheme(value.as_bytes(), b"Bearer ")?).ok()?;
    (token.bytes().filter(|byte| *byte == b'.').count() == 2).then_some(token)
}

/// The credentials after the name of a scheme, which is case-insensitive.
fn of_scheme<'a>(value: &'a [u8], scheme: &[u8]) -> Option<&'a [u8]> {
    let (name, rest) = value.split_at_checked(scheme.len())?;
    name.eq_ignore_ascii_case(scheme).then(|| rest.trim_ascii())
}

/// The token with this hash. Every hash is compared, so that the time doesn't reveal which one
/// matched.
fn find<'a>(hash: &[u8; 32], tokens: &'a TokenMap) -> Option<&'a Arc<Token>> {
    tokens.values().fold(None, |found, token| {
        let matches = token.hashes.iter().fold(Choice::from(0), |any, known| any | known.ct_eq(hash));
        if bool::from(matches) { Some(token) } else { found }
    })
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    fn token(name: &str, texts: &[&str]) -> (String, Arc<Token>) {
        let hashes = texts.iter().map(|text| Sha256::digest(text).into()).collect();
        let token = Token { name: name.to_owned(), hashes, expires: None, scopes: vec!["s".to_owned()] };
        (name.to_owned(), Arc::new(token))
    }

    fn expiring(name: &str, text: &str, expires: &str) -> (String, Arc<Token>) {
        let (name, token) = token(name, &[text]);
        (name, Arc::new(Token { expires: Some(expires.parse().unwrap()), ..(*token).clone() }))
    }

    fn basic(pair: &str) -> String {
        format!("Basic {}", STANDARD.encode(pair))
    }

    #[test]
    fn a_token_opens_what_it_is_for() {
        let tokens = TokenMap::from([
            token("reader", &["r", "r2"]),
            token("other", &["o", ""]),
            expiring("old", "x", "2020-01-01T00:00:00Z"),
            expiring("young", "y", "9000-01-01T00:00:00Z"),
        ]);
        let status = |shown: &[&str], scopes: &[&str]| {
            let wanted = Authorization::Tokens(scopes.iter().map(ToString::to_string).collect());
            let mut headers = HeaderMap::new();
            for value in shown {
                headers.append(AUTHORIZATION, value.parse().unwrap());
            }
            let read = Credentials::read(&headers, &tokens, None).now_or_never();
            let credentials = read.expect("no keys are fetched");
            credentials.authorize(&wanted).map_or_else(|error| error.status().as_u16(), |()| 200)
        };
        for (shown, expected) in [
            ("Bearer r", 200),
            ("bearer r2", 200),
            ("Bearer o", 403),
            ("Bearer z", 401),
            ("Bearer x", 401),
            ("Bearer y", 200),
            (&basic("reader:r"), 200),
            (&basic("reader:r2"), 200),
            (&basic("other:r"), 401),
            (&basic(":r"), 401),
            (&basic("r"), 401),
            (&basic("reader:"), 401),
            (&basic("other:o"), 403),
            (&basic("old:x"), 401),
            ("Basic r", 401),
            ("Bear", 401),
            ("", 401),
        ] {
            assert_eq!(status(&[shown], &["reader", "old", "young"]), expected, "{shown}");
            assert_eq!(status(&[shown], &["s"]), if expected == 403 { 200 } else { expected }, "{shown}");
        }
        assert_eq!(status(&[], &["reader"]), 401);
        assert_eq!(status(&["Bearer r", "Bearer r"], &["reader"]), 401);
        assert!(Credentials::None.authorize(&Authorization::Public).is_ok());
    }
}
