//! The origin of the served endpoints: reads it again, and checks it for changes.

use std::path::PathBuf;

use rowstream_core::Error;
use rowstream_core::log;

use super::preparing::RefusalTreatment;
use crate::config::{Config, Files, Token};
use crate::source::{Source, SourceConfig};
use crate::tables::{self, CatalogTables, EndpointFile, Table};

/// The origin of the served endpoints.
#[derive(Debug, Clone)]
pub enum EndpointOrigin {
    /// A configuration file and its endpoints.
    File(ConfigFile),
    /// The tables of a database.
    Tables(Tables),
}

/// A configuration file.
#[derive(Debug, Clone)]
pub struct ConfigFile {
    path: PathBuf,
    /// The files as they were at the start.
    files: Files,
}

/// The tables of a database.
#[derive(Debug, Clone)]
pub struct Tables {
    source: Box<SourceConfig>,
    /// The token that each request needs.
    token: Option<Token>,
    /// The endpoints at the start.
    endpoints: Vec<EndpointFile>,
}

/// The state at the last check.
pub(super) enum CheckedState {
    Files(Files),
    Tables {
        /// Separate from the pool that requests use. It keeps one connection.
        source: Source,
        endpoints: Vec<EndpointFile>,
    },
}

impl EndpointOrigin {
    /// The file that `config` was just read from. Later changes to its files are noticed.
    pub(crate) fn file(path: PathBuf, config: &Config) -> Self {
        let files = Files::of(&path, config);
        Self::File(ConfigFile { path, files })
    }

    /// The tables of a source. Each request needs the token, if there is one.
    pub(crate) fn tables(source: SourceConfig, token: Option<Token>, tables: &[Table]) -> Self {
        Self::Tables(Tables { source: Box::new(source), token, endpoints: tables::endpoints(tables) })
    }

    /// Returns the treatment of an endpoint that its database refuses.
    pub(crate) fn on_refusal(&self) -> RefusalTreatment {
        match self {
            Self::File(_) => RefusalTreatment::Stop,
            Self::Tables(_) => RefusalTreatment::LeaveOut,
        }
    }

    /// Reads the origin again.
    ///
    /// # Errors
    /// The reason why it can't be served, as it is shown.
    pub(super) async fn read(&self) -> Result<Config, String> {
        match self {
            Self::File(file) => Config::load(&file.path).map_err(|errors| errors.to_string()),
            Self::Tables(tables) => read_tables(tables).await.map_err(|error| shown(&error)),
        }
    }

    /// The state at the start.
    ///
    /// # Errors
    /// The source can't be opened.
    pub(super) fn seen(&self) -> Result<CheckedState, Error> {
        Ok(match self {
            Self::File(file) => CheckedState::Files(file.files.clone()),
            Self::Tables(Tables { source, endpoints, .. }) => {
                CheckedState::Tables { source: Source::open(source)?, endpoints: endpoints.clone() }
            }
        })
    }
}

impl CheckedState {
    /// Checks again. True if something has changed since the last check; false if the database
    /// can't be reached.
    pub(super) async fn has_changed(&mut self, origin: &EndpointOrigin, config: &Config) -> bool {
        match (self, origin) {
            (Self::Files(files), EndpointOrigin::File(file)) => {
                let before = std::mem::replace(files, Files::of(&file.path, config));
                before != *files
            }
            (Self::Tables { source, endpoints }, EndpointOrigin::Tables(of)) => {
                let Ok(CatalogTables { tables, .. }) = tables::read(&of.source, source).await else {
                    return false;
                };
                let before = std::mem::replace(endpoints, tables::endpoints(&tables));
                before != *endpoints
            }
            _ => unreachable!("the page is of its own origin"),
        }
    }

    /// Watches the files of `config` from now on, because its folder of endpoints is another one.
    pub(super) fn other_folder(&mut self, origin: &EndpointOrigin, config: &Config) {
        if let (Self::Files(files), EndpointOrigin::File(file)) = (self, origin) {
            *files = Files::of(&file.path, config);
        }
    }
}

async fn read_tables(Tables { source, token, .. }: &Tables) -> Result<Config, Error> {
    let CatalogTables { tables, warnings } = tables::read(source, &Source::open(source)?).await?;
    let (config, left_out) = tables::configuration((**source).clone(), token.clone(), &tables)?;
    for warning in warnings.into_iter().chain(left_out) {
        log::warning!("{warning}");
    }
    Ok(config)
}

fn shown(error: &Error) -> String {
    let hint = error.hint_text().map_or_else(String::new, |hint| format!("\n    hint: {hint}"));
    format!("{error}{hint}")
}
