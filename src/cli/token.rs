//! `rowstream token`: creates a bearer token, and its hash for the configuration.

use std::fs::File;
use std::io::Read;

use sha2::{Digest, Sha256};

use super::Failure;

/// Makes a bearer token, and the hash to put into the configuration.
#[derive(Debug, clap::Args)]
pub(super) struct TokenArgs {
    /// The token's name in the configuration.
    #[arg(default_value = "reader")]
    name: String,
}

pub(super) fn run(args: &TokenArgs) -> Result<(), Failure> {
    // 256 bits from the kernel are enough: a plain hash of them can't be reversed by guessing.
    let mut secret = [0; 32];
    File::open("/dev/urandom")?.read_exact(&mut secret)?;
    let token = hex(&secret);
    println!("{token}");
    eprintln!("\nThis is the token; it is shown once. Put its hash into the configuration:\n");
    eprintln!("{}", table(&args.name, &token));
    Ok(())
}

/// The token's table in the configuration.
fn table(name: &str, token: &str) -> String {
    format!("[token.{}]\nsha256 = \"{}\"", key(name), hex(&Sha256::digest(token)))
}

/// A name as a TOML key. It's quoted if it has other characters than letters, digits, `_` and `-`.
fn key(name: &str) -> String {
    let is_bare = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    match !name.is_empty() && name.bytes().all(is_bare) {
        true => name.to_owned(),
        // JSON strings are TOML's basic strings, except for one character.
        false => serde_json::Value::from(name).to_string().replace('\u{7f}', "\\u007f"),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `rowstream token 'my app'` once printed `[token.my app]`, which isn't TOML.
    #[test]
    fn what_is_printed_is_toml() {
        for name in
            ["reader", "my app", "a.b", "", "ä", "1-_", "say \"hi\"", "'", "a\\b\n\u{1b}", "\"\"\"'''"]
        {
            let printed = table(name, "t");
            let read: toml::Table = printed.parse().unwrap_or_else(|error| panic!("{printed}: {error}"));
            let entry = read["token"][name].as_table().unwrap();
            assert_eq!(entry["sha256"].as_str(), Some(hex(&Sha256::digest("t")).as_str()), "{printed}");
        }
        assert!(table("reader-1", "t").starts_with("[token.reader-1]\n"));
    }
}
