//! JSON Web Tokens and their keys. The first line of the input is a token, the rest a set of keys.
//! Only signed tokens are accepted, and every set of keys is read to its end.

use rowstream::config::{JwtSettings, KeySource};
use rowstream::fuzzing::claims;
use rowstream::jwk::{Algorithm, PublicKey};
use serde_json::Value;

/// A key and tokens signed with it. The private key was destroyed.
const KEYS: &str = concat!(
    r#"{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"k","x":"2NG0Xe0clTlvODgpdlntxZ1qeXg"#,
    r#"y5YFwXUMpyJUOaDk"}]}"#,
);
const SIGNED: &str = concat!(
    "eyJhbGciOiJFZERTQSIsImtpZCI6ImsifQ.eyJpc3MiOiJodHRwczovL2kuZXhhbXBsZSIsImF1ZCI6I",
    "mEiLCJleHAiOjQxMDI0NDQ4MDAsIm5iZiI6MSwic3ViIjoidSIsInNjb3BlIjoicmVhZCBvdGhlciJ9.",
    "ipG2mDE7I3jr3WZZE9Tnj0-QUFIC1RCmHEcpyRugG_2_GFrXrhLXW2CfdYJeQ9A1iOM96Lz6XscXDdVJ",
    "MfsEDQ",
);
/// A time in 2023 when the token was valid.
const NOW: f64 = 1_700_000_000.0;

/// A token, and a set of keys.
pub fn jwt(data: &[u8]) {
    let settings = JwtSettings {
        issuer: "https://i.example".to_owned(),
        audience: vec!["a".to_owned()],
        keys: KeySource::Discovered,
        file: None,
        algorithms: Algorithm::ALL.to_vec(),
        scopes: vec!["read".to_owned()],
    };
    let own = PublicKey::read_set(KEYS.as_bytes()).expect("it is a set");
    assert!(claims(SIGNED, &own, &settings, NOW).is_some(), "what was signed is believed");
    let line = data.iter().position(|byte| *byte == b'\n').unwrap_or(data.len());
    let (token, set) = data.split_at(line);
    let Ok(token) = std::str::from_utf8(token) else { return };
    if claims(token, &own, &settings, NOW).is_some() {
        let signed = |token: &str| token.rsplit_once('.').map(|(message, _)| message.to_owned());
        assert_eq!(signed(token), signed(SIGNED), "nobody else has signed it");
    }
    let Some(keys) = PublicKey::read_set(set) else { return };
    assert!(keys.len() <= 100);
    if let Some(claims) = claims(token, &keys, &settings, NOW) {
        assert_eq!(claims.get("iss").and_then(Value::as_str), Some("https://i.example"));
        let end = claims.get("exp").and_then(Value::as_f64).expect("it has an end");
        assert!(end + 60.0 > NOW);
    }
    let never = JwtSettings { algorithms: Vec::new(), ..settings };
    assert!(claims(token, &keys, &never, NOW).is_none(), "by no algorithm");
}
