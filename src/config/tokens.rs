//! `[token.NAME]`: the bearer tokens, stored as hashes.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use rowstream_core::diagnostic::reader::{Table, Value};

use crate::endpoint::read::ClientIdentification;

/// A token of the configuration. It may have several valid texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// The token's name.
    pub name: String,
    /// The SHA-256 of each valid text. There are two while a new text replaces an old one.
    pub hashes: Vec<[u8; 32]>,
    /// The time when its last text expires.
    pub expires: Option<Timestamp>,
    /// Further scopes that the token has, beside its name.
    pub scopes: Vec<String>,
}

impl Token {
    /// Returns true if the token has `scope`. Its name counts as one.
    pub(crate) fn has(&self, scope: &str) -> bool {
        self.name == scope || self.scopes.iter().any(|own| own == scope)
    }

    pub(crate) fn has_expired(&self) -> bool {
        self.expires.is_some_and(|expires| expires <= Timestamp::now())
    }
}

/// The tokens of a file.
#[derive(Default)]
pub(super) struct TokenSettings {
    /// The tokens without an error.
    pub(super) read: BTreeMap<String, Arc<Token>>,
    /// The names that `authorization` may use. They include the names of tokens with an error, so
    /// that their uses aren't reported too.
    pub(super) identification: ClientIdentification,
}

const HINT: &str = "`rowstream token` makes a token and prints the hash to put here";

/// Reads `[token]`.
pub(super) fn read(value: Option<Value<'_>>) -> TokenSettings {
    let mut tokens = TokenSettings::default();
    let entries = value.and_then(|value| value.table("[token]")).map(Table::entries).unwrap_or_default();
    for (_, name, value) in entries {
        let token = read_token(&name, &value);
        let scopes = token.iter().flat_map(|token| &token.scopes).cloned();
        tokens.identification.asks = true;
        tokens.identification.scopes.extend(std::iter::once(name.clone()).chain(scopes));
        tokens.read.extend(token.map(|token| (name, Arc::new(token))));
    }
    tokens
}

fn read_token(name: &str, value: &Value<'_>) -> Option<Token> {
    let mut table = value.table(format!("[token.{name}]"))?;
    let hashes = table.require("sha256", HINT);
    let expires = table.take("expires").map(|value| read_expiry(&value));
    let scopes = table.take("scopes").map(|value| read_scopes(&value)).unwrap_or_default();
    table.finish();
    let hashes = read_hashes(&hashes?)?;
    let expires = match expires {
        Some(expires) => Some(expires?),
        None => None,
    };
    Some(Token { name: name.to_owned(), hashes, expires, scopes })
}

/// The names of scopes, for use in `authorization`.
pub(super) fn read_scopes(value: &Value<'_>) -> Vec<String> {
    value.strings().unwrap_or_default().into_iter().map(|(scope, _)| scope).collect()
}

fn read_hashes(value: &Value<'_>) -> Option<Vec<[u8; 32]>> {
    if !value.is_list() {
        return read_hash(value, &value.string()?).map(|hash| vec![hash]);
    }
    let texts = value.strings()?;
    if texts.is_empty() {
        value.error_with("`sha256` has no hash", HINT);
        return None;
    }
    texts.iter().map(|(text, item)| read_hash(item, text)).collect()
}

fn read_hash(value: &Value<'_>, text: &str) -> Option<[u8; 32]> {
    let hash = parse_hash(text);
    if hash.is_none() {
        // The user may have written the token itself here, so the text isn't shown.
        value.error_with("`sha256` must be 64 hexadecimal digits", HINT);
    }
    hash
}

fn parse_hash(text: &str) -> Option<[u8; 32]> {
    if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let mut hash = [0; 32];
    for (i, byte) in hash.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * i..2 * i + 2], 16).ok()?;
    }
    Some(hash)
}

/// An instant, or a day. On that day itself, the token is no longer valid.
fn read_expiry(value: &Value<'_>) -> Option<Timestamp> {
    let text = if value.is_string() { value.string() } else { value.scalar_text() };
    let text = text.unwrap_or_default();
    let instant = text.parse().ok().or_else(|| {
        let day: Date = text.parse().ok().filter(|_| text.len() == "2027-01-01".len())?;
        Some(day.to_zoned(TimeZone::UTC).ok()?.timestamp())
    });
    if instant.is_none() {
        let message = format!("`expires` cannot be {}", value.shown(&text));
        value.error_with(
            message,
            "write a day or an instant: \"2027-01-01\" (from its beginning in UTC), \"2027-01-01T12:00:00Z\"",
        );
    }
    instant
}
