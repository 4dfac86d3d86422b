//! Signed URLs: a signature leaves its URL whole, nothing can be made up, and only valid claims are
//! accepted, even if the server itself had signed others.

use http::Uri;
use rowstream::config::{JwtSettings, KeySource};
use rowstream::fuzzing::{signed_claims, take_signature, url_signer};
use rowstream::jwk::Algorithm;
use serde_json::{Map, Value};

/// A time in 2023.
const NOW: u64 = 1_700_000_000;

/// Uses the input as a URL, as a signature, and as its content.
pub fn signed_url(data: &[u8]) {
    let text = std::str::from_utf8(data).ok();
    if let Some(mut uri) = text.and_then(|text| text.parse::<Uri>().ok()) {
        leaves(&mut uri);
    }
    let settings = JwtSettings {
        issuer: "https://i.example".to_owned(),
        audience: vec!["a".to_owned()],
        keys: KeySource::Discovered,
        file: None,
        algorithms: Algorithm::ALL.to_vec(),
        scopes: vec!["read".to_owned()],
    };
    let own = url_signer("secret", "/orders", "status=PAID");
    if let Some(made_up) = text {
        assert!(signed_claims(made_up, &own, &settings, NOW).is_none(), "a signature can't be made up");
    }
    let mut sealed = Vec::new();
    own.seal(&[data], &mut sealed);
    let signature = String::from_utf8(sealed).expect("base64 is ASCII");
    let Some(found) = signed_claims(&signature, &own, &settings, NOW) else { return };
    let content: Map<String, Value> = serde_json::from_slice(data).expect("it was read");
    assert!(content["until"].as_u64() > Some(NOW), "it hasn't expired");
    assert_eq!(content["claims"].as_object(), Some(&found), "the claims as they were signed");
    assert_eq!(found["iss"], "https://i.example");
    assert!(found["exp"].as_f64().is_some_and(|end| end + 60.0 > NOW as f64), "its token hasn't expired");
    for (secret, path, query) in [
        ("other", "/orders", "status=PAID"),
        ("secret", "/orders", "status=PAI"),
        ("secret", "/ordersstatus=PAID", ""),
    ] {
        let other = url_signer(secret, path, query);
        assert!(signed_claims(&signature, &other, &settings, NOW).is_none(), "of another secret or URL");
    }
    for cut in 0..signature.len() {
        assert!(signed_claims(&signature[..cut], &own, &settings, NOW).is_none(), "{cut}");
    }
}

/// The other pairs stay as they are, in their order.
fn leaves(uri: &mut Uri) {
    let before = uri.clone();
    let is_signature = |pair: &&str| {
        let name = pair.split('=').next().unwrap_or_default().as_bytes();
        decoded(name) == b"_signature"
    };
    let pairs = |uri: &Uri| uri.query().unwrap_or_default().split('&').map(str::to_owned).collect::<Vec<_>>();
    let taken = take_signature(uri);
    let expected: Vec<_> = pairs(&before).into_iter().filter(|pair| !is_signature(&pair.as_str())).collect();
    assert_eq!(taken.is_some(), expected.len() < pairs(&before).len());
    assert_eq!(pairs(uri).join("&"), expected.join("&"));
    assert_eq!(
        (uri.path(), uri.authority(), uri.scheme()),
        (before.path(), before.authority(), before.scheme())
    );
}

/// A name with its escapes decoded. The name stays as it is if one of them is broken.
fn decoded(name: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = name;
    while let [first, after @ ..] = rest {
        match (first, after) {
            (b'%', [high, low, after @ ..]) => {
                let digits = [*high, *low];
                let digits =
                    digits.iter().all(u8::is_ascii_hexdigit).then(|| String::from_utf8_lossy(&digits));
                let Some(byte) = digits.and_then(|digits| u8::from_str_radix(&digits, 16).ok()) else {
                    return name.to_vec();
                };
                out.push(byte);
                rest = after;
            }
            (b'%', _) => return name.to_vec(),
            (byte, _) => {
                out.push(*byte);
                rest = after;
            }
        }
    }
    out
}
