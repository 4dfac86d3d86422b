//! Cursors: opaque tokens that a client resumes a list with.
//!
//! A cursor contains the key of a row, and a signature over that key, the endpoint and its
//! parameters. So it's valid only for the request that it was issued for. The server keeps no
//! state, so every replica with the same `cursor_secret` accepts it, even after a restart or a
//! deploy. There are two kinds: at the end of a page, a cursor begins a new one. Within a list, it
//! continues up to the limit of that list.
//!
//! ```text
//! base64url( 2 | HMAC-SHA-256, its first 16 bytes | types of the key, 4 bytes | rows? | key )
//!
//! rows   how many rows of the list precede the cursor, in decimal digits; only within a list
//! key    a JSON array
//! ```

use std::fmt;
use std::io::Write as _;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use http::StatusCode;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use crate::Error;
use crate::params::ParamValue;

/// The version of a cursor's bytes, which is its first byte.
const VERSION: u8 = 2;
/// The bytes of the signature: half of an HMAC-SHA-256, as RFC 2104 (section 5) allows.
const SIGNATURE: usize = 16;
/// The bytes of the types.
const TYPES: usize = 4;

/// Signs tokens for one endpoint.
#[derive(Clone)]
pub struct Signer {
    mac: Hmac<Sha256>,
}

impl Signer {
    /// A signer for `parts`, for example a path. If any of them changes, earlier tokens become
    /// invalid. Without a secret, anyone who knows the parts could forge a token. It would lead
    /// only to rows that the client can read anyway.
    ///
    /// # Panics
    /// Never: HMAC accepts keys of any length.
    pub fn new(secret: &str, parts: &[&str]) -> Self {
        let mac = Hmac::new_from_slice(secret.as_bytes()).expect("HMAC takes keys of any length");
        Self { mac }.for_parts(parts)
    }

    /// A signer for further parts.
    #[must_use]
    pub fn for_parts(&self, parts: &[&str]) -> Self {
        let mut this = self.clone();
        parts.iter().for_each(|part| this.feed(Some(part)));
        this
    }

    /// A signer for the tokens of one response, which depend on these parameters: their names and
    /// values.
    #[must_use]
    pub fn bind<'a>(&self, parameters: impl Iterator<Item = (&'a str, &'a ParamValue)>) -> Self {
        let mut bound = self.clone();
        for (name, value) in parameters {
            bound.feed(Some(name));
            bound.feed(value.postgres_text().as_deref());
        }
        bound
    }

    /// Adds a text or its absence to the signature. The length separates it from its neighbours.
    fn feed(&mut self, text: Option<&str>) {
        let length = text.map_or(u64::MAX, |text| text.len() as u64);
        self.mac.update(&length.to_le_bytes());
        self.mac.update(text.unwrap_or_default().as_bytes());
    }

    /// Writes a token with these bytes.
    pub fn seal(&self, content: &[&[u8]], out: &mut Vec<u8>) {
        let mut mac = self.mac.clone();
        content.iter().for_each(|part| mac.update(part));
        let signature = mac.finalize().into_bytes();
        let mut token = vec![VERSION];
        token.extend_from_slice(&signature[..SIGNATURE]);
        content.iter().for_each(|part| token.extend_from_slice(part));
        out.extend_from_slice(BASE64_URL_SAFE_NO_PAD.encode(token).as_bytes());
    }

    /// The bytes of a token. `None` if this signer didn't make it.
    pub fn open(&self, token: &str) -> Option<Vec<u8>> {
        let token = SignedToken::read(token)?;
        self.verifies(&token).then(|| token.content().to_vec())
    }

    fn verifies(&self, token: &SignedToken) -> bool {
        let mac = self.mac.clone().chain_update(token.content());
        mac.verify_truncated_left(&token.bytes[1..=SIGNATURE]).is_ok()
    }
}

/// Signers are equal if each accepts the cursors of the other.
impl PartialEq for Signer {
    fn eq(&self, other: &Self) -> bool {
        self.mac.clone().finalize() == other.mac.clone().finalize()
    }
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Signer")
    }
}

/// A token whose signature hasn't been checked.
struct SignedToken {
    bytes: Vec<u8>,
}

impl SignedToken {
    fn read(token: &str) -> Option<Self> {
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(token).ok()?;
        let is_whole = bytes.len() > SIGNATURE && bytes[0] == VERSION;
        is_whole.then_some(Self { bytes })
    }

    fn content(&self) -> &[u8] {
        &self.bytes[1 + SIGNATURE..]
    }
}

/// A fingerprint of the types of a key's columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyTypes([u8; TYPES]);

impl KeyTypes {
    /// The fingerprint of these names of types.
    pub fn of<'a>(types: impl Iterator<Item = &'a str>) -> Self {
        let mut hash = Sha256::new();
        for name in types {
            hash.update(name.as_bytes());
            hash.update([0]);
        }
        let hash = hash.finalize();
        Self([hash[0], hash[1], hash[2], hash[3]])
    }
}

/// A row of a list that a client has.
#[derive(Debug, Clone, PartialEq)]
pub struct Position {
    /// The types that the key's columns had.
    pub types: KeyTypes,
    /// How many rows of the list precede the position. `None`: a new page begins there.
    pub rows: Option<u64>,
    /// The values of the row's key.
    pub key: Vec<ParamValue>,
    /// The cursor that begins a new page there.
    pub at_end: String,
}

impl Signer {
    /// Writes the cursor that begins a new page after the row with this `key`, a JSON array.
    pub fn seal_end(&self, types: KeyTypes, key: &[u8], out: &mut Vec<u8>) {
        self.seal(&[&types.0, key], out);
    }

    /// Writes the cursor that continues a list after `rows` rows. The last one has this `key`.
    pub fn seal_within(&self, types: KeyTypes, rows: u64, key: &[u8], out: &mut Vec<u8>) {
        // Each event has a cursor, so this doesn't allocate.
        let mut digits = [0; 20];
        let mut rest = &mut digits[..];
        let unused = match write!(rest, "{rows}") {
            Ok(()) => rest.len(),
            Err(_) => 0,
        };
        let written = digits.len() - unused;
        self.seal(&[&types.0, &digits[..written], key], out);
    }

    /// The position of a cursor whose key has `columns` values.
    ///
    /// # Errors
    /// 400: it isn't a cursor of this endpoint with these parameters.
    pub fn position(&self, cursor: &str, columns: usize) -> Result<Position, Error> {
        let token = SignedToken::read(cursor).ok_or_else(|| refusal(cursor))?;
        let (types, rest) = token.content().split_first_chunk().ok_or_else(changed)?;
        let types = KeyTypes(*types);
        if !self.verifies(&token) {
            return Err(changed());
        }
        let (digits, key) = rest.split_at(digits(rest));
        let rows = match digits {
            [] => None,
            digits => {
                Some(str::from_utf8(digits).ok().and_then(|rows| rows.parse().ok()).ok_or_else(changed)?)
            }
        };
        let mut at_end = Vec::new();
        self.seal_end(types, key, &mut at_end);
        let at_end = String::from_utf8(at_end).map_err(|_| changed())?;
        let key = values(key).filter(|values| values.len() == columns).ok_or_else(changed)?;
        Ok(Position { types, rows, key, at_end })
    }
}

/// The number of digits at the beginning.
fn digits(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|byte| byte.is_ascii_digit()).count()
}

/// The values of a JSON array of strings, numbers and nulls.
pub fn values(array: &[u8]) -> Option<Vec<ParamValue>> {
    let values: Vec<&RawValue> = serde_json::from_slice(array).ok()?;
    values.into_iter().map(|value| param_value(value.get())).collect()
}

/// A value of a key: a string, a number, a boolean or null. The values of float columns have an exponent.
fn param_value(json: &str) -> Option<ParamValue> {
    match json.as_bytes().first()? {
        b'"' => serde_json::from_str(json).ok().map(ParamValue::Text),
        b'n' => Some(ParamValue::Null),
        b't' => Some(ParamValue::Boolean(true)),
        b'f' => Some(ParamValue::Boolean(false)),
        _ => match json.parse() {
            Ok(float) if json.contains(['e', 'E']) && f64::is_finite(float) => Some(ParamValue::Float(float)),
            _ => Some(ParamValue::Number(json.to_owned())),
        },
    }
}

/// Explains why a text isn't a cursor. Before version 2, cursors were a signature and a key.
fn refusal(cursor: &str) -> Error {
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(cursor).unwrap_or_default();
    match bytes.split_at_checked(SIGNATURE) {
        Some((_, key)) if values(key).is_some() => {
            invalid("the cursor is from an earlier release, whose cursors this server can't read")
        }
        _ => changed(),
    }
}

/// The error for a cursor that its signer didn't make.
pub fn changed() -> Error {
    invalid(
        "the cursor was changed or cut, or it's for another endpoint, other parameters or another `cursor_secret`",
    )
}

/// The error for a cursor that was made when the key had other types. The order of its rows may
/// have changed with them.
pub fn other_types() -> Error {
    invalid("the columns of the key have other types than when the cursor was made")
}

fn invalid(message: &str) -> Error {
    Error::new("invalid_cursor", StatusCode::BAD_REQUEST, message).hint(
        "repeat the request that returned it, with the same parameters, or start again without a cursor",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &[u8] = b"[1.5,\"a\",\"2024-01-01\"]";

    fn signer() -> Signer {
        Signer::new("secret", &["/events", "id"])
    }

    fn of(signer: &Signer, values: &[(&str, ParamValue)]) -> Signer {
        signer.bind(values.iter().map(|(name, value)| (*name, value)))
    }

    fn types() -> KeyTypes {
        KeyTypes::of(["number"].into_iter())
    }

    fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_cursor_gives_its_position_back() {
        let key = "[12345678901234567890.5,\"a\\\"\\né\",\"2024-01-01 00:00:00\"]".as_bytes();
        let end = text(|out| signer().seal_end(types(), key, out));
        assert!(end.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')));
        let text_value = |text: &str| ParamValue::Text(text.to_owned());
        let number = ParamValue::Number("12345678901234567890.5".to_owned());
        let values = vec![number, text_value("a\"\né"), text_value("2024-01-01 00:00:00")];
        let position = Position { types: types(), rows: None, key: values, at_end: end.clone() };
        assert_eq!(signer().position(&end, 3).unwrap(), position);
        let within = text(|out| signer().seal_within(types(), 70, key, out));
        assert_eq!(signer().position(&within, 3).unwrap(), Position { rows: Some(70), ..position });
        let beyond = format!("{}0[7]", u64::MAX);
        let beyond = text(|out| signer().seal(&[&types().0, beyond.as_bytes()], out));
        assert!(signer().position(&beyond, 1).is_err(), "more rows than there can be");
    }

    #[test]
    fn a_cursor_is_bound_to_what_it_was_made_for() {
        let one = [("a", ParamValue::Integer(1)), ("b", ParamValue::Null)];
        let cursor = text(|out| of(&signer(), &one).seal_end(types(), b"[7]", out));
        assert!(of(&signer(), &one).position(&cursor, 1).is_ok());
        assert!(of(&signer(), &one).position(&cursor, 2).is_err(), "a key has its number of columns");
        let other_secret = Signer::new("", &["/events", "id"]);
        let other_key = Signer::new("secret", &["/events", "no"]);
        let moved = Signer::new("secret", &["/eventsi", "d"]);
        for (other, values) in [
            (&other_secret, &one[..]),
            (&other_key, &one),
            (&moved, &one),
            (&signer(), &[("a", ParamValue::Integer(1))]),
            (&signer(), &[("c", ParamValue::Integer(1)), ("b", ParamValue::Null)]),
            (&signer(), &[("a", ParamValue::Integer(2)), ("b", ParamValue::Null)]),
            (&signer(), &[("a", ParamValue::Integer(1)), ("b", ParamValue::Text(String::new()))]),
        ] {
            let error = of(other, values).position(&cursor, 1).unwrap_err();
            assert_eq!((error.code(), error.status()), ("invalid_cursor", StatusCode::BAD_REQUEST));
        }
    }

    #[test]
    fn what_was_altered_is_no_cursor() {
        for cursor in [
            text(|out| signer().seal_end(types(), b"[7]", out)),
            text(|out| signer().seal_within(types(), 12, b"[7]", out)),
        ] {
            for i in 0..cursor.len() {
                let mut altered = cursor.clone().into_bytes();
                altered[i] = if altered[i] == b'A' { b'B' } else { b'A' };
                assert!(signer().position(std::str::from_utf8(&altered).unwrap(), 1).is_err(), "{i}");
                assert!(signer().position(&cursor[..i], 1).is_err(), "{i}");
            }
            for text in ["", "=", "ä", &format!("{cursor}="), &format!("{cursor}A")] {
                assert!(signer().position(text, 1).is_err(), "{text}");
            }
        }
    }

    /// Release 0.1 wrote a signature and a key, without a version.
    #[test]
    fn cursors_of_an_earlier_release_are_named() {
        let old = BASE64_URL_SAFE_NO_PAD.encode([&[7; SIGNATURE], KEY].concat());
        let error = signer().position(&old, 3).unwrap_err();
        assert!(error.message().contains("an earlier release"), "{error}");
        let error = signer().position("AgAA", 3).unwrap_err();
        assert!(error.message().contains("changed or cut"), "{error}");
    }
}
