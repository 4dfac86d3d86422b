//! Public keys for checking signatures (RFC 7517), with a fixed list of algorithms (RFC 8725).
//!
//! Shared secrets and their algorithms aren't supported, so a public key can't be misused as a
//! shared secret. ring checks the signatures.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::Uri;
use ring::signature::{self, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey};
use serde_json::Value as Json;

/// More keys than any issuer has at a time. Further ones are ignored.
const MOST_KEYS: usize = 100;

/// The algorithm of a token's signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    /// RSASSA-PKCS1-v1_5 with SHA-256.
    Rs256,
    /// RSASSA-PKCS1-v1_5 with SHA-384.
    Rs384,
    /// RSASSA-PKCS1-v1_5 with SHA-512.
    Rs512,
    /// RSASSA-PSS with SHA-256.
    Ps256,
    /// RSASSA-PSS with SHA-384.
    Ps384,
    /// RSASSA-PSS with SHA-512.
    Ps512,
    /// ECDSA on P-256 with SHA-256.
    Es256,
    /// ECDSA on P-384 with SHA-384.
    Es384,
    /// Ed25519.
    EdDsa,
}

impl Algorithm {
    /// All algorithms.
    pub const ALL: [Self; 9] = [
        Self::Rs256,
        Self::Rs384,
        Self::Rs512,
        Self::Ps256,
        Self::Ps384,
        Self::Ps512,
        Self::Es256,
        Self::Es384,
        Self::EdDsa,
    ];

    /// Its name (RFC 7518, RFC 8037).
    pub fn name(self) -> &'static str {
        match self {
            Self::Rs256 => "RS256",
            Self::Rs384 => "RS384",
            Self::Rs512 => "RS512",
            Self::Ps256 => "PS256",
            Self::Ps384 => "PS384",
            Self::Ps512 => "PS512",
            Self::Es256 => "ES256",
            Self::Es384 => "ES384",
            Self::EdDsa => "EdDSA",
        }
    }

    /// The algorithm with this name. RFC 9864 renames RFC 8037's EdDSA after its curve.
    pub fn from_name(name: &str) -> Option<Self> {
        let name = if name == "Ed25519" { "EdDSA" } else { name };
        Self::ALL.into_iter().find(|algorithm| algorithm.name() == name)
    }

    /// The parameters, if it's an RSA algorithm.
    fn rsa(self) -> Option<&'static RsaParameters> {
        match self {
            Self::Rs256 => Some(&signature::RSA_PKCS1_2048_8192_SHA256),
            Self::Rs384 => Some(&signature::RSA_PKCS1_2048_8192_SHA384),
            Self::Rs512 => Some(&signature::RSA_PKCS1_2048_8192_SHA512),
            Self::Ps256 => Some(&signature::RSA_PSS_2048_8192_SHA256),
            Self::Ps384 => Some(&signature::RSA_PSS_2048_8192_SHA384),
            Self::Ps512 => Some(&signature::RSA_PSS_2048_8192_SHA512),
            Self::Es256 | Self::Es384 | Self::EdDsa => None,
        }
    }
}

/// A public key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicKey {
    /// The key's name.
    id: Option<String>,
    /// The only algorithm that it may be used with. `None` allows all that fit its type.
    algorithm: Option<Algorithm>,
    material: Material,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Material {
    Rsa { n: Vec<u8>, e: Vec<u8> },
    P256(Vec<u8>),
    P384(Vec<u8>),
    Ed25519(Vec<u8>),
}

impl PublicKey {
    /// The keys of a JWK set, except those of unknown types or not for signatures. `None` if `text`
    /// isn't a set.
    pub fn read_set(text: &[u8]) -> Option<Vec<Self>> {
        let set: Json = serde_json::from_slice(text).ok()?;
        Some(set.get("keys")?.as_array()?.iter().filter_map(Self::read).take(MOST_KEYS).collect())
    }

    fn read(jwk: &Json) -> Option<Self> {
        let text = |name: &str| jwk.get(name).and_then(Json::as_str);
        let bytes = |name: &str| URL_SAFE_NO_PAD.decode(text(name)?).ok();
        if text("use").is_some_and(|purpose| purpose != "sig") {
            return None;
        }
        // A key for an unknown algorithm isn't used with other ones.
        let algorithm = match text("alg") {
            Some(name) => Some(Algorithm::from_name(name)?),
            None => None,
        };
        let material = match (text("kty")?, text("crv")) {
            ("RSA", _) => Material::Rsa { n: bytes("n")?, e: bytes("e")? },
            ("EC", Some("P-256")) => Material::P256(point(&bytes("x")?, &bytes("y")?)),
            ("EC", Some("P-384")) => Material::P384(point(&bytes("x")?, &bytes("y")?)),
            ("OKP", Some("Ed25519")) => Material::Ed25519(bytes("x")?),
            _ => return None,
        };
        Some(Self { id: text("kid").map(str::to_owned), algorithm, material })
    }

    /// Returns true if it can be the key of a token that names the key `id`.
    pub(crate) fn is(&self, id: Option<&str>, algorithm: Algorithm) -> bool {
        let is_named = id.is_none_or(|id| self.id.as_deref() == Some(id));
        is_named && self.algorithm.is_none_or(|own| own == algorithm)
    }

    /// Returns true if it has signed a message with `algorithm`. A key of another type never has.
    pub(crate) fn has_signed(&self, algorithm: Algorithm, message: &[u8], signed: &[u8]) -> bool {
        let verified = match (&self.material, algorithm) {
            (Material::Rsa { n, e }, _) => match algorithm.rsa() {
                Some(parameters) => RsaPublicKeyComponents { n, e }.verify(parameters, message, signed),
                None => return false,
            },
            (Material::P256(point), Algorithm::Es256) => {
                UnparsedPublicKey::new(&signature::ECDSA_P256_SHA256_FIXED, point).verify(message, signed)
            }
            (Material::P384(point), Algorithm::Es384) => {
                UnparsedPublicKey::new(&signature::ECDSA_P384_SHA384_FIXED, point).verify(message, signed)
            }
            (Material::Ed25519(key), Algorithm::EdDsa) => {
                UnparsedPublicKey::new(&signature::ED25519, key).verify(message, signed)
            }
            (Material::P256(_) | Material::P384(_) | Material::Ed25519(_), _) => return false,
        };
        verified.is_ok()
    }
}

/// Returns true if keys from a URL can be trusted: over TLS, or from this machine, because no other
/// host can replace them.
pub(crate) fn is_safe(url: &Uri) -> bool {
    let is_local = matches!(url.host(), Some("127.0.0.1" | "[::1]" | "localhost"));
    match url.scheme_str() {
        Some("https") => url.host().is_some(),
        Some("http") => is_local,
        _ => false,
    }
}

/// An uncompressed point of a curve (SEC 1, section 2.3.3).
fn point(x: &[u8], y: &[u8]) -> Vec<u8> {
    [&[4], x, y].concat()
}
