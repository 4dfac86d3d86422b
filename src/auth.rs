//! Bearer tokens (RFC 6750): stored as SHA-256, compared in constant time.

use std::collections::BTreeMap;

use http::header::AUTHORIZATION;
use http::{HeaderMap, StatusCode};
use sha2::{Digest, Sha256};
use subtle::{Choice, ConstantTimeEq};

use crate::Error;
use crate::endpoint::Authorization;

/// Checks that the request's token is one of those that the endpoint allows, and yields its hash;
/// `None` where none is needed.
///
/// # Errors
/// 401 without a token or with one that nobody has; 403 with one that is not for this endpoint.
pub fn authorize(
    wanted: &Authorization,
    tokens: &BTreeMap<String, [u8; 32]>,
    headers: &HeaderMap,
) -> Result<Option<[u8; 32]>, Error> {
    let Authorization::Tokens(allowed) = wanted else { return Ok(None) };
    let Some(token) = bearer(headers) else {
        return Err(unauthorized("a bearer token is needed"));
    };
    let hash: [u8; 32] = Sha256::digest(token).into();
    // Every hash is compared, whichever matches: the time tells nothing.
    let matches = |names: &mut dyn Iterator<Item = &[u8; 32]>| {
        bool::from(names.fold(Choice::from(0), |found, known| found | known.ct_eq(&hash)))
    };
    let (known, permitted) =
        (matches(&mut tokens.values()), matches(&mut allowed.iter().filter_map(|name| tokens.get(name))));
    match (known, permitted) {
        (_, true) => Ok(Some(hash)),
        (true, false) => {
            Err(Error::new("forbidden", StatusCode::FORBIDDEN, "this token is not for this endpoint"))
        }
        (false, false) => Err(unauthorized("the bearer token is not valid")),
    }
}

/// The hash of the token that a request shows, whoever has it.
pub(crate) fn shown(headers: &HeaderMap) -> Option<[u8; 32]> {
    bearer(headers).map(|token| Sha256::digest(token).into())
}

/// The name of the token with this hash.
pub(crate) fn name_of<'a>(hash: &[u8; 32], tokens: &'a BTreeMap<String, [u8; 32]>) -> Option<&'a str> {
    tokens.iter().find(|(_, known)| bool::from(known.ct_eq(hash))).map(|(name, _)| name.as_str())
}

fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let value = headers.get(AUTHORIZATION)?.as_bytes();
    let (scheme, token) = value.split_at_checked(b"Bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then(|| token.trim_ascii()).filter(|token| !token.is_empty())
}

fn unauthorized(message: &str) -> Error {
    Error::new("unauthorized", StatusCode::UNAUTHORIZED, message).hint("send `Authorization: Bearer <token>`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_opens_what_it_is_for() {
        let hash = |token: &str| Sha256::digest(token).into();
        let tokens = BTreeMap::from([("reader".to_owned(), hash("r")), ("other".to_owned(), hash("o"))]);
        let wanted = Authorization::Tokens(vec!["reader".into()]);
        let status = |header: Option<&str>| {
            let mut headers = HeaderMap::new();
            if let Some(header) = header {
                headers.insert(AUTHORIZATION, header.parse().unwrap());
            }
            authorize(&wanted, &tokens, &headers).map_or_else(|error| error.status().as_u16(), |_| 200)
        };
        for (header, expected) in [
            (Some("Bearer r"), 200),
            (Some("bearer r"), 200),
            (Some("Bearer o"), 403),
            (Some("Bearer x"), 401),
            (Some("Bearer "), 401),
            (Some("Basic r"), 401),
            (Some("Bear"), 401),
            (None, 401),
        ] {
            assert_eq!(status(header), expected, "{header:?}");
        }
        assert!(authorize(&Authorization::Public, &tokens, &HeaderMap::new()).is_ok());
    }
}
