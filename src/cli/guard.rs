//! `--token` and `--token-file`: the bearer token that clients need if a server has no
//! configuration.

use std::fs;
use std::path::{Path, PathBuf};

use rowstream_core::diagnostic::shown;
use sha2::{Digest as _, Sha256};

use super::Failure;
use crate::config::Token;

/// The token's name in the access log.
const NAME: &str = "reader";

/// The token that each request needs.
#[derive(Debug, clap::Args)]
pub(super) struct GuardArgs {
    /// The bearer token that each request needs, for a server without a configuration. Other users
    /// of this machine can read it here, but not in the variable or in a file.
    #[arg(long, value_name = "TOKEN", conflicts_with = "token_file")]
    token: Option<String>,
    /// The file that contains the token.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

impl GuardArgs {
    /// True if a token was given.
    pub(super) fn is_given(&self) -> bool {
        self.token.is_some() || self.token_file.is_some()
    }

    /// Reads the token, and returns its hash.
    ///
    /// # Errors
    /// The file can't be read, or a header can't contain the text.
    pub(super) fn read(&self) -> Result<Option<Token>, Failure> {
        match (&self.token, &self.token_file) {
            (Some(token), _) => of_text(token.trim(), "--token").map(Some),
            (None, Some(file)) => of_file(file).map(Some),
            (None, None) => Ok(None),
        }
    }
}

fn of_file(file: &Path) -> Result<Token, Failure> {
    let place = shown(&file.to_string_lossy());
    let text = fs::read_to_string(file)
        .map_err(|error| Failure::Message(format!("the token in {place} cannot be read: {error}")))?;
    of_text(text.trim_start_matches('\u{feff}').trim(), &place)
}

/// Hashes a token. Errors don't show it, because it's a secret.
fn of_text(text: &str, place: &str) -> Result<Token, Failure> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(Failure::Message(format!(
            "{place} has no token: a token is one word of ASCII\n    hint: `rowstream token` makes one"
        )));
    }
    Ok(Token {
        name: NAME.to_owned(),
        hashes: vec![Sha256::digest(text).into()],
        expires: None,
        scopes: Vec::new(),
    })
}
