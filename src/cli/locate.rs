//! Which configuration a user means, and what to write instead where it is none.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::Failure;
use crate::config::Config;
use crate::diagnostic::shown;

/// The name of a configuration in its folder.
const NAME: &str = "rowstream.toml";

/// With which a file of SQLite begins.
const SQLITE: &[u8] = b"SQLite format 3\0";

/// The file or folder that a user names, by its position or by `--config`, else that of the current
/// folder.
pub(super) fn chosen(given: Option<&PathBuf>, flag: Option<&PathBuf>) -> PathBuf {
    given.or(flag).map_or_else(|| PathBuf::from(NAME), PathBuf::clone)
}

/// The folder of the configuration at `given`; the current one, where that is a database.
pub(super) fn folder(given: &Path) -> PathBuf {
    if given.is_dir() {
        return given.to_owned();
    }
    let is_database = given.to_string_lossy().contains("://") || begins_as_sqlite(given);
    given.parent().filter(|_| !is_database).map_or_else(PathBuf::new, Path::to_owned)
}

/// What reads the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reader {
    Serve,
    Check,
}

impl Reader {
    /// What to do with a database, which is no configuration.
    fn instead(self, url: &str) -> String {
        match self {
            Self::Serve => format!("serve one statement of it: `rowstream serve {url} --sql 'select …'`"),
            Self::Check => {
                format!(
                    "try a statement: `rowstream query {url} 'select …'`; or write `url = \"{url}\"` into a {NAME}"
                )
            }
        }
    }
}

/// The configuration at `given`: a file, or the one of a folder.
pub(super) fn configuration(given: &Path, reader: Reader) -> Result<PathBuf, Failure> {
    let text = given.to_string_lossy();
    let path = if given.is_dir() { given.join(NAME) } else { given.to_owned() };
    if path.exists() {
        return match begins_as_sqlite(&path) {
            true => Err(database(&shown(&text), &format!("sqlite:{text}"), reader)),
            false => Ok(path),
        };
    }
    if let Some(url) = Config::shown_database(&text) {
        return Err(database("this", &url, reader));
    }
    if text.contains("://") {
        let hint = format!("name it in a {NAME}: `[source.NAME]` with its `url`");
        return Err(Failure::Message(format!("this URL is no configuration\n    hint: {hint}")));
    }
    let message = match given.is_dir() {
        true => format!("there is no {NAME} in the folder {}", shown(&text)),
        false => format!("there is no file {}", shown(&text)),
    };
    let hint = match given.is_dir() {
        true => format!("`rowstream demo --dir {text}` writes one with a database and endpoints to change"),
        false => "`rowstream demo` writes a configuration with a database and endpoints to change, in the folder rowstream-demo".to_owned(),
    };
    Err(Failure::Message(format!("{message}\n    hint: {hint}")))
}

fn database(what: &str, url: &str, reader: Reader) -> Failure {
    let hint = reader.instead(url);
    Failure::Message(format!("{what} is a database, and no configuration\n    hint: {hint}"))
}

/// A file that cannot be read is reported by whoever reads it.
fn begins_as_sqlite(path: &Path) -> bool {
    let mut begin = [0; SQLITE.len()];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut begin));
    read.is_ok() && begin == *SQLITE
}
