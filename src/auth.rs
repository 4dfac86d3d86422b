//! Who asks, and whether that is enough: bearer tokens (RFC 6750), and Basic (RFC 7617) for tools
//! that know nothing else. Tokens are stored as SHA-256, and compared in constant time.
//!
//! What is counted and logged of denials is not here: an [`Error`] carries its reason.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;
use http::header::{AUTHORIZATION, HeaderValue};
use sha2::{Digest, Sha256};
use subtle::{Choice, ConstantTimeEq};

use crate::Error;
use crate::client::Client;
use crate::config::Token;
use crate::endpoint::Authorization;
use crate::error::denial::Denial;

/// The tokens by name.
pub(crate) type Tokens = BTreeMap<String, Arc<Token>>;

/// What a request shows of who it is from.
#[derive(Debug, Clone, Default)]
pub(crate) enum Credentials {
    /// Nothing.
    #[default]
    None,
    /// What nobody has.
    Invalid,
    /// A token that was valid once.
    Expired(Arc<Token>),
    /// A token.
    Token(Arc<Token>),
}

/// How a token is shown.
struct Shown<'a> {
    token: &'a [u8],
    /// The name beside it, where it is a password.
    user: Option<&'a [u8]>,
}

impl Credentials {
    /// What the headers of a request show.
    pub(crate) fn read(headers: &HeaderMap, tokens: &Tokens) -> Self {
        let mut shown = headers.get_all(AUTHORIZATION).iter();
        match (shown.next(), shown.next()) {
            (None, _) => Self::None,
            (Some(value), None) => Self::of(value, tokens),
            // Another program on the way may have looked at another one of them.
            (Some(_), Some(_)) => Self::Invalid,
        }
    }

    fn of(value: &HeaderValue, tokens: &Tokens) -> Self {
        let value = value.as_bytes();
        if let Some(token) = of_scheme(value, b"Bearer ") {
            return Self::of_token(&Shown { token, user: None }, tokens);
        }
        let pair = of_scheme(value, b"Basic ").and_then(|pair| STANDARD.decode(pair).ok());
        let pair = pair.as_deref().unwrap_or_default();
        match pair.iter().position(|byte| *byte == b':') {
            Some(at) => Self::of_token(&Shown { token: &pair[at + 1..], user: Some(&pair[..at]) }, tokens),
            None => Self::Invalid,
        }
    }

    fn of_token(shown: &Shown<'_>, tokens: &Tokens) -> Self {
        let found = find(&Sha256::digest(shown.token).into(), tokens).filter(|_| !shown.token.is_empty());
        match found.filter(|found| shown.user.is_none_or(|user| user == found.name.as_bytes())) {
            None => Self::Invalid,
            Some(token) if token.has_expired() => Self::Expired(Arc::clone(token)),
            Some(token) => Self::Token(Arc::clone(token)),
        }
    }

    /// Checks that they are enough for `wanted`.
    ///
    /// # Errors
    /// 401 where other credentials would help; 403 where it is known who asks.
    pub(crate) fn authorize(&self, wanted: &Authorization) -> Result<(), Error> {
        let Authorization::Tokens(scopes) = wanted else { return Ok(()) };
        match self {
            Self::None => Err(Error::denied(Denial::Missing, "a bearer token is needed").hint(HOW)),
            Self::Invalid => Err(Error::denied(Denial::Invalid, "the bearer token is not valid").hint(HOW)),
            Self::Expired(_) => Err(Error::denied(Denial::Expired, "the bearer token has expired")
                .hint("ask who gave it to you for a new one")),
            Self::Token(token) if scopes.iter().any(|scope| token.has(scope)) => Ok(()),
            Self::Token(_) if scopes.is_empty() => {
                let message = "the configuration says of no token that it is for this admin endpoint";
                Err(Error::denied(Denial::Forbidden, message)
                    .hint("name it in `authorization` of `[admin]`, or open the endpoint by `public`"))
            }
            Self::Token(_) => Err(Error::denied(Denial::Forbidden, "this token is not for this endpoint")),
        }
    }

    /// The name of the token.
    pub(crate) fn name(&self) -> Option<&str> {
        match self {
            Self::None | Self::Invalid => None,
            Self::Expired(token) | Self::Token(token) => Some(&token.name),
        }
    }

    /// Who asks, where clients take turns; `None`: only the address tells.
    pub(crate) fn client(&self) -> Option<Client> {
        match self {
            Self::None | Self::Invalid | Self::Expired(_) => None,
            // Whichever of its hashes was shown.
            Self::Token(token) => token.hashes.first().copied().map(Client::Token),
        }
    }
}

const HOW: &str = "send `Authorization: Bearer <token>`";

/// What stands behind the name of a scheme, which may be written in any case.
fn of_scheme<'a>(value: &'a [u8], scheme: &[u8]) -> Option<&'a [u8]> {
    let (name, rest) = value.split_at_checked(scheme.len())?;
    name.eq_ignore_ascii_case(scheme).then(|| rest.trim_ascii())
}

/// The token with this hash. Every hash is compared, whichever matches: the time tells nothing.
fn find<'a>(hash: &[u8; 32], tokens: &'a Tokens) -> Option<&'a Arc<Token>> {
    tokens.values().fold(None, |found, token| {
        let matches = token.hashes.iter().fold(Choice::from(0), |any, known| any | known.ct_eq(hash));
        if bool::from(matches) { Some(token) } else { found }
    })
}

#[cfg(test)]
mod tests {
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
        let tokens = Tokens::from([
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
            let credentials = Credentials::read(&headers, &tokens);
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
