//! Clients' tokens in a configuration.

use sha2::Digest as _;

/// The configuration's form of the token `text`.
pub fn sha256(text: &str) -> String {
    sha2::Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}
