//! `[jwt]`: the issuer whose JSON Web Tokens the server accepts.

use std::path::{Path, PathBuf};

use http::Uri;
use rowstream_core::diagnostic::reader::Value;
use rowstream_core::diagnostic::{Collector, suggest};

use super::files;
use crate::jwk::{Algorithm, PublicKey, is_safe};

/// The path, below an issuer's URL, of its configuration (OpenID Connect Discovery 1.0, section 4).
pub(crate) const OIDC_CONFIGURATION: &str = "/.well-known/openid-configuration";

/// `[jwt]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JwtSettings {
    /// The issuer that a token must name (`iss`).
    pub issuer: String,
    /// A token must name one of these as its audience (`aud`).
    pub audience: Vec<String>,
    /// The source of the issuer's keys.
    pub keys: KeySource,
    /// The file with the keys.
    pub file: Option<PathBuf>,
    /// The algorithms that may sign a token.
    pub algorithms: Vec<Algorithm>,
    /// The values of a token's `scope` or `scp` that `authorization` may name.
    pub scopes: Vec<String>,
}

/// A source of the keys that verify tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeySource {
    /// These keys, from a file.
    File(Vec<PublicKey>),
    /// A JWK set at this URL.
    Url(Uri),
    /// The URL in the issuer's configuration.
    Discovered,
}

/// Reads `[jwt]`. The path of a file is relative to the folder `base`.
pub(super) fn read(value: &Value<'_>, base: &Path, errors: &Collector) -> Option<JwtSettings> {
    let mut table = value.table("[jwt]")?;
    let issuer = table.require("issuer", "the `iss` of its tokens: `issuer = \"https://login.example\"`");
    let audience = table.require("audience", "the `aud` of tokens for this server");
    let keys = table.take("keys");
    let algorithms = table.take("algorithms").map(|value| read_algorithms(&value));
    let scopes = table.take("scopes").map(|value| super::tokens::read_scopes(&value)).unwrap_or_default();
    table.finish();
    let issuer_value = issuer?;
    let issuer = issuer_value.string()?;
    let audience = audience?;
    let audience = match audience.is_list() {
        true => audience.strings()?.into_iter().map(|(name, _)| name).collect(),
        false => vec![audience.string()?],
    };
    let (keys, file) = match keys {
        Some(value) => read_keys(&value, base, errors)?,
        None => (discovered(&issuer_value, &issuer)?, None),
    };
    let algorithms = algorithms.unwrap_or_else(|| Some(Algorithm::ALL.to_vec()))?;
    Some(JwtSettings { issuer, audience, keys, file, algorithms, scopes })
}

fn discovered(value: &Value<'_>, issuer: &str) -> Option<KeySource> {
    if issuer.parse().is_ok_and(|url| is_safe(&url)) {
        return Some(KeySource::Discovered);
    }
    let message = format!("{} isn't an https URL, so its keys can't be found", value.shown(issuer));
    value.error_with(message, "name them: `keys = \"keys.json\"`, or an https URL");
    None
}

fn read_keys(value: &Value<'_>, base: &Path, errors: &Collector) -> Option<(KeySource, Option<PathBuf>)> {
    let text = value.string()?;
    if text.contains("://") {
        let url: Option<Uri> = text.parse().ok().filter(is_safe);
        if url.is_none() {
            let message = format!("{} isn't an https URL", value.shown(&text));
            value.error_with(message, "plain HTTP is allowed only on this machine");
        }
        return url.map(|url| (KeySource::Url(url), None));
    }
    let file = base.join(&text);
    let set = files::read_text(&file, errors)?;
    let keys = PublicKey::read_set(set.as_bytes()).filter(|keys| !keys.is_empty());
    if keys.is_none() {
        let message = format!("{} has no key for signatures", value.shown(&text));
        value.error_with(message, "it is a JWK set: `{\"keys\": [{\"kty\": \"RSA\", …}]}`");
    }
    keys.map(|keys| (KeySource::File(keys), Some(file)))
}

fn read_algorithms(value: &Value<'_>) -> Option<Vec<Algorithm>> {
    let names = value.strings()?;
    let algorithms: Option<Vec<_>> = names.iter().map(|(name, item)| read_algorithm(name, item)).collect();
    if names.is_empty() {
        value.error_with("`algorithms` is empty", "list some, or leave it out for all");
    }
    algorithms
}

fn read_algorithm(name: &str, item: &Value<'_>) -> Option<Algorithm> {
    let algorithm = Algorithm::from_name(name);
    if algorithm.is_none() {
        let hint = suggest("they are", name, Algorithm::ALL.map(Algorithm::name));
        item.error_with(format!("there is no algorithm {}", item.shown(name)), hint);
    }
    algorithm
}
