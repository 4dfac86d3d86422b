//! `[token.NAME]`: the bearer tokens, as their hashes.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

use crate::diagnostic::reader::{Table, Value};
use crate::endpoint::read::Known;

/// What is known of a token, and of those that take its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// Its name.
    pub name: String,
    /// The SHA-256 of each text that is valid: of two, while one takes the place of the other.
    pub hashes: Vec<[u8; 32]>,
    /// From when on none of them is.
    pub expires: Option<Timestamp>,
    /// What it opens besides what its name does.
    pub scopes: Vec<String>,
}

impl Token {
    /// Whether it opens what is for `scope`.
    pub(crate) fn has(&self, scope: &str) -> bool {
        self.name == scope || self.scopes.iter().any(|own| own == scope)
    }

    /// Whether it is valid no more.
    pub(crate) fn has_expired(&self) -> bool {
        self.expires.is_some_and(|expires| expires <= Timestamp::now())
    }
}

/// The tokens of a file.
#[derive(Default)]
pub(super) struct Tokens {
    /// Those without an error.
    pub(super) read: BTreeMap<String, Arc<Token>>,
    /// What `authorization` may name; also of tokens with an error, because the name counts all the
    /// same.
    pub(super) known: Known,
}

const HINT: &str = "`rowstream token` makes a token and prints the hash to put here";

/// Reads `[token]`.
pub(super) fn read(value: Option<Value<'_>>) -> Tokens {
    let mut tokens = Tokens::default();
    let entries = value.and_then(|value| value.table("[token]")).map(Table::entries).unwrap_or_default();
    for (_, name, value) in entries {
        let token = read_token(&name, &value);
        let scopes = token.iter().flat_map(|token| &token.scopes).cloned();
        tokens.known.asks = true;
        tokens.known.scopes.extend(std::iter::once(name.clone()).chain(scopes));
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

/// Names that `authorization` may hold.
pub(super) fn read_scopes(value: &Value<'_>) -> Vec<String> {
    value.strings().unwrap_or_default().into_iter().map(|(scope, _)| scope).collect()
}

/// One hash, or several.
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
        // What stands here by mistake may be the token itself, and is not shown.
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

/// A day, which is no longer in it, or an instant.
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
