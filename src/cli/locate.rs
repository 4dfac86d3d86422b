//! Finds the configuration that a user means. If there's none, suggests what to write instead.

use std::path::{Path, PathBuf};

use rowstream_core::diagnostic::shown;

use super::Failure;
use crate::config::Config;
use crate::database::{DatabaseFile, is_table_file};

/// The file name of a configuration.
const NAME: &str = "rowstream.toml";

/// `--config`, beside the position that a command has for the same.
#[derive(Debug, clap::Args)]
pub(super) struct ConfigArgs {
    /// The configuration file, or its folder: another way to write CONFIG.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl ConfigArgs {
    /// The file or folder that the user names, by position or by this flag. Otherwise the
    /// configuration in the current folder.
    pub(super) fn chosen(&self, given: Option<&PathBuf>) -> PathBuf {
        given.or(self.config.as_ref()).map_or_else(|| PathBuf::from(NAME), PathBuf::clone)
    }
}

/// The folder of the configuration at `given`. If `given` is a database, the current folder.
pub(super) fn folder(given: &Path) -> PathBuf {
    if given.is_dir() {
        return given.to_owned();
    }
    let text = given.to_string_lossy();
    let is_database = text.contains("://") || DatabaseFile::of(given).is_some() || is_table_file(&text);
    given.parent().filter(|_| !is_database).map_or_else(PathBuf::new, Path::to_owned)
}

/// The target that a user names.
pub(super) enum GivenTarget {
    /// A configuration file.
    Configuration(PathBuf),
    /// A database: its URL, or the path of its file.
    Database(String),
}

/// Finds the target at `given`: a file, a folder's configuration, or a database.
pub(super) fn target(given: &Path) -> Result<GivenTarget, Failure> {
    let text = given.to_string_lossy();
    let path = if given.is_dir() { given.join(NAME) } else { given.to_owned() };
    if path.exists() {
        return Ok(match DatabaseFile::of(&path).is_some() || is_table_file(&text) {
            true => GivenTarget::Database(text.into_owned()),
            false => GivenTarget::Configuration(path),
        });
    }
    if Config::shown_database(&text).is_some() {
        return Ok(GivenTarget::Database(text.into_owned()));
    }
    if let Some((message, hint)) = Config::lacking_database(&text) {
        return Err(Failure::Message(format!("{message}\n    hint: {hint}")));
    }
    if text.contains("://") {
        let hint = format!("name it in a {NAME}: `[source.NAME]` with its `url`");
        return Err(Failure::Message(format!("this is a URL, not a configuration\n    hint: {hint}")));
    }
    Err(missing(given, &text))
}

/// The configuration at `given`, for commands that can't use a database instead.
pub(super) fn configuration(given: &Path) -> Result<PathBuf, Failure> {
    let database = match target(given)? {
        GivenTarget::Configuration(path) => return Ok(path),
        GivenTarget::Database(database) => database,
    };
    // The URL itself isn't shown, because it may contain a password.
    let (what, url) = match Config::shown_database(&database) {
        Some(url) => ("this".to_owned(), url),
        None => {
            // DuckDB also reads files as tables.
            let kind = DatabaseFile::of(Path::new(&database)).unwrap_or(DatabaseFile::DuckDb);
            (shown(&database), format!("{}:{database}", kind.scheme()))
        }
    };
    let hint = format!(
        "`rowstream serve {url}` serves its tables, `rowstream init {url}` writes a configuration for it, \
         and `rowstream query {url} 'select …'` queries it"
    );
    Err(Failure::Message(format!("{what} is a database, not a configuration\n    hint: {hint}")))
}

/// The error if there's no file or folder at `given`.
fn missing(given: &Path, text: &str) -> Failure {
    let near = || Config::near_file(given).filter(|_| given != Path::new(NAME));
    let (message, hint) = if given.is_dir() {
        let hint = format!("`rowstream init --dir {text}` writes one with endpoints to change");
        (format!("there is no {NAME} in the folder {}", shown(text)), hint)
    } else if let Some(near) = near() {
        (
            format!("there is no file {}", shown(text)),
            format!("did you mean {}?", shown(&near.to_string_lossy())),
        )
    } else {
        let hint = "`rowstream init` writes a configuration with endpoints to change, `rowstream serve FILE.db` serves the tables of a database, and `rowstream demo` shows an example";
        (format!("there is no file {}", shown(text)), hint.to_owned())
    };
    Failure::Message(format!("{message}\n    hint: {hint}"))
}
