//! Cursors: opaque tokens that a client resumes a stream with.
//!
//! A cursor contains the key of the last row, and a signature over that key, the endpoint and its
//! parameters. So it's valid only for the request that it was issued for. The server keeps no
//! state, so every replica with the same files and the same `cursor_secret` accepts it, even after
//! a restart.
//!
//! ```text
//! base64url( HMAC-SHA-256, its first 16 bytes | JSON array of the key's values )
//! ```

use std::fmt;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use http::StatusCode;
use serde_json::value::RawValue;
use sha2::Sha256;

use crate::Error;
use crate::params::ParamValue;

/// The bytes of the signature: half of an HMAC-SHA-256, as RFC 2104 (section 5) allows.
const SIGNATURE: usize = 16;

/// Signs the cursors of one endpoint.
#[derive(Clone)]
pub struct Signer {
    mac: Hmac<Sha256>,
}

impl Signer {
    /// A signer for `parts`: the endpoint, its statement and its key. If any of them changes,
    /// earlier cursors become invalid. Without a secret, anyone who knows the files could forge a
    /// cursor. It would lead only to rows that the client can read anyway.
    ///
    /// # Panics
    /// Never: HMAC accepts keys of any length.
    pub fn new(secret: &str, parts: &[&str]) -> Self {
        let mac = Hmac::new_from_slice(secret.as_bytes()).expect("HMAC takes keys of any length");
        let mut this = Self { mac };
        this.feed(Some("cursor 1"));
        parts.iter().for_each(|part| this.feed(Some(part)));
        this
    }

    /// A signer for the cursors of one response, which depend on its parameters.
    #[must_use]
    pub fn bind<'a>(&self, values: impl Iterator<Item = &'a ParamValue>) -> Self {
        let mut bound = self.clone();
        values.for_each(|value| bound.feed(value.postgres_text().as_deref()));
        bound
    }

    /// Adds a text or its absence to the signature. The length separates it from its neighbours.
    fn feed(&mut self, text: Option<&str>) {
        let length = text.map_or(u64::MAX, |text| text.len() as u64);
        self.mac.update(&length.to_le_bytes());
        self.mac.update(text.unwrap_or_default().as_bytes());
    }

    /// Writes the cursor of `key`, a JSON array.
    pub fn seal(&self, key: &[u8], out: &mut Vec<u8>) {
        let signature = self.mac.clone().chain_update(key).finalize().into_bytes();
        let cursor = [&signature[..SIGNATURE], key].concat();
        out.extend_from_slice(BASE64_URL_SAFE_NO_PAD.encode(cursor).as_bytes());
    }

    /// The values of a cursor's key, which has `columns` values.
    ///
    /// # Errors
    /// 400: it isn't a cursor of this endpoint with these parameters.
    pub fn open(&self, cursor: &str, columns: usize) -> Result<Vec<ParamValue>, Error> {
        self.values(cursor).filter(|values| values.len() == columns).ok_or_else(|| {
            let message = "the cursor is from another endpoint or from other parameters";
            Error::new("invalid_cursor", StatusCode::BAD_REQUEST, message)
                .hint("repeat the request that returned it, or start again without a cursor")
        })
    }

    fn values(&self, cursor: &str) -> Option<Vec<ParamValue>> {
        let cursor = BASE64_URL_SAFE_NO_PAD.decode(cursor).ok()?;
        let (signature, key) = cursor.split_at_checked(SIGNATURE)?;
        self.mac.clone().chain_update(key).verify_truncated_left(signature).ok()?;
        let values: Vec<&RawValue> = serde_json::from_slice(key).ok()?;
        values.into_iter().map(|value| param_value(value.get())).collect()
    }
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Signer")
    }
}

/// A value of a key: a string or a number.
fn param_value(json: &str) -> Option<ParamValue> {
    match json.starts_with('"') {
        true => serde_json::from_str(json).ok().map(ParamValue::Text),
        false => Some(ParamValue::Number(json.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed(signer: &Signer, key: &str) -> String {
        let mut out = Vec::new();
        signer.seal(key.as_bytes(), &mut out);
        String::from_utf8(out).unwrap()
    }

    fn signer() -> Signer {
        Signer::new("secret", &["/events", "select 1"])
    }

    #[test]
    fn a_cursor_gives_its_key_back() {
        let key = r#"[12345678901234567890.5,"a\"\né","2024-01-01 00:00:00"]"#;
        let cursor = sealed(&signer(), key);
        assert!(cursor.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')));
        let text = |text: &str| ParamValue::Text(text.to_owned());
        let number = ParamValue::Number("12345678901234567890.5".to_owned());
        assert_eq!(signer().open(&cursor, 3).unwrap(), [number, text("a\"\né"), text("2024-01-01 00:00:00")]);
    }

    #[test]
    fn a_cursor_is_bound_to_what_it_was_made_for() {
        let of = |signer: &Signer, values: &[ParamValue]| signer.bind(values.iter());
        let one = [ParamValue::Integer(1), ParamValue::Null];
        let cursor = sealed(&of(&signer(), &one), "[7]");
        assert!(of(&signer(), &one).open(&cursor, 1).is_ok());
        assert!(of(&signer(), &one).open(&cursor, 2).is_err(), "a key has its number of columns");
        let other_secret = Signer::new("", &["/events", "select 1"]);
        let other_statement = Signer::new("secret", &["/events", "select 2"]);
        let moved = Signer::new("secret", &["/eventss", "elect 1"]);
        for (other, values) in [
            (&other_secret, &one[..]),
            (&other_statement, &one),
            (&moved, &one),
            (&signer(), &[ParamValue::Integer(1)]),
            (&signer(), &[ParamValue::Integer(2), ParamValue::Null]),
            (&signer(), &[ParamValue::Integer(1), ParamValue::Text(String::new())]),
        ] {
            let error = of(other, values).open(&cursor, 1).unwrap_err();
            assert_eq!((error.code(), error.status()), ("invalid_cursor", StatusCode::BAD_REQUEST));
        }
    }

    #[test]
    fn what_was_altered_is_no_cursor() {
        let cursor = sealed(&signer(), "[7]");
        for i in 0..cursor.len() {
            let mut altered = cursor.clone().into_bytes();
            altered[i] = if altered[i] == b'A' { b'B' } else { b'A' };
            assert!(signer().open(std::str::from_utf8(&altered).unwrap(), 1).is_err(), "{i}");
            assert!(signer().open(&cursor[..i], 1).is_err(), "{i}");
        }
        for text in ["", "=", "ä", &format!("{cursor}="), &format!("{cursor}A")] {
            assert!(signer().open(text, 1).is_err(), "{text}");
        }
    }
}
