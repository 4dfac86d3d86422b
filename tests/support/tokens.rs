//! Tokens of clients, as a configuration has them.

use sha2::Digest as _;

/// What a configuration has of the token `text`.
pub fn sha256(text: &str) -> String {
    sha2::Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}
