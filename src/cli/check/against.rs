//! `rowstream check --against`: compares a configuration with an older release's, and lists the
//! changes that clients notice.
//!
//! We compare what clients send and receive, not SQL: a better join or a comment changes nothing for
//! them. Endpoints are partners if their paths match the same requests. Changes of an older
//! endpoint's contract are listed in its own order; additions that clients can ignore aren't.
//!
//! | module | compares |
//! |---|---|
//! | [`requests`] | paths, parameters and formats |
//! | [`responses`] | bodies, rows and their types |
//! | [`cursors`] | everything that a cursor is bound to |

mod cursors;
mod requests;
mod responses;

use std::collections::HashMap;
use std::fmt;
use std::path::Path;

use rowstream_encode::Column;

use super::{Failure, Report, configuration};
use crate::check::{CheckedEndpoint, Columns};
use crate::config::Config;
use crate::endpoint::{Endpoint, Handler};
use crate::route;

/// The remedy for all breaking changes.
pub(super) const REMEDY: &str =
    "keep the old form until clients have moved, for example beside the new one at another path";

/// The contract that a change breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// Requests that worked fail now.
    Requests,
    /// Responses lack something, or have it in another form.
    Responses,
    /// Cursors from earlier responses are refused.
    Cursors,
    /// Nothing, but some clients may notice it.
    Note,
}

impl Effect {
    /// The broken contract. `None` for a note.
    pub(super) fn broken(self) -> Option<&'static str> {
        match self {
            Self::Requests => Some("requests"),
            Self::Responses => Some("responses"),
            Self::Cursors => Some("cursors"),
            Self::Note => None,
        }
    }
}

/// A difference that clients may notice.
pub(super) struct ReleaseChange {
    /// The older endpoint's path. `None` for all endpoints.
    pub(super) endpoint: Option<String>,
    pub(super) effect: Effect,
    pub(super) message: String,
    /// The clients that notice it. `None` if that isn't known.
    pub(super) affected: Option<String>,
}

impl fmt::Display for ReleaseChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.effect.broken() {
            Some(broken) => write!(f, "breaks {broken}: ")?,
            None => f.write_str("note: ")?,
        }
        match &self.endpoint {
            Some(path) => write!(f, "GET {path}: {}", self.message)?,
            None => write!(f, "all endpoints: {}", self.message)?,
        }
        match &self.affected {
            Some(affected) => write!(f, "\n    affects: {affected}"),
            None => Ok(()),
        }
    }
}

/// The changes of one endpoint, or of all.
struct ReleaseChanges<'a> {
    endpoint: Option<&'a str>,
    found: &'a mut Vec<ReleaseChange>,
}

impl ReleaseChanges<'_> {
    fn push(&mut self, effect: Effect, message: impl Into<String>, affected: impl Into<String>) {
        self.add(effect, message.into(), Some(affected.into()));
    }

    /// Adds a note about a comparison that isn't possible.
    fn lack(&mut self, message: String) {
        self.add(Effect::Note, message, None);
    }

    fn add(&mut self, effect: Effect, message: String, affected: Option<String>) {
        let endpoint = self.endpoint.map(str::to_owned);
        self.found.push(ReleaseChange { endpoint, effect, message, affected });
    }

    /// Adds a change if two texts differ.
    fn differ(&mut self, effect: Effect, what: &str, [was, is]: [&str; 2], affected: &str) {
        if was != is {
            self.push(effect, format!("{what} was {was}, and is {is}"), affected);
        }
    }
}

/// An endpoint in one of the two releases.
struct ReleasedEndpoint<'a> {
    endpoint: &'a Endpoint,
    /// The findings of its database, or the reason if it has none.
    checked: Result<&'a CheckedEndpoint<'a>, String>,
}

impl<'a> ReleasedEndpoint<'a> {
    fn new(endpoint: &'a Endpoint, report: &'a Report<'_>) -> Self {
        let name = endpoint.source.name();
        let reason = || match report.failed().find(|(source, _)| *source == name) {
            Some((_, error)) => error.for_operators(),
            None => format!("source {name} wasn't checked"),
        };
        Self { endpoint, checked: report.checked(endpoint).ok_or_else(reason) }
    }

    /// The columns of a statement's rows, or the reason why they're unknown.
    fn columns(&self, statement: usize) -> Result<Vec<Column>, String> {
        match &self.endpoint.handler {
            Handler::Sql(_) => {}
            Handler::Calls(calls) => return Ok(calls.columns().to_vec()),
            Handler::Pages(pages) => return Ok(pages.columns().to_vec()),
            Handler::Proxy(_) => return Ok(Vec::new()),
        }
        let checked = self.checked.as_ref().map_err(Clone::clone)?;
        match checked.results.get(statement) {
            Some(Some(columns)) => {
                columns.own().map(<[Column]>::to_vec).ok_or_else(|| unopened(columns).to_owned())
            }
            _ => Err(checked
                .refusals
                .first()
                .map_or_else(String::new, |first| first.diagnostic.message.clone())),
        }
    }
}

fn unopened(columns: &Columns) -> &'static str {
    match columns {
        Columns::Result(_) => "a procedure's result is known once it has been called",
        Columns::Own(_) | Columns::Refcursor(_) => "a refcursor's columns are known once it is open",
    }
}

/// Reads the configuration of the older release in `folder`.
pub(super) fn load(folder: &Path) -> Result<Config, Failure> {
    let message =
        |reason: &dyn fmt::Display| Failure::Message(format!("--against {}: {reason}", folder.display()));
    let path = configuration(folder).map_err(|failure| match failure {
        Failure::Message(reason) => message(&reason),
        other => other,
    })?;
    Config::load(&path).map_err(|errors| {
        message(&format_args!("the older release has errors, so nothing can be compared with it\n{errors}"))
    })
}

/// The changes from an older release to a newer one.
pub(super) fn compare(older: &Report<'_>, newer: &Report<'_>) -> Vec<ReleaseChange> {
    let mut found = Vec::new();
    let mut all = ReleaseChanges { endpoint: None, found: &mut found };
    let (Some(old), Some(new), true) = (older.config, newer.config, newer.errors.is_empty()) else {
        all.lack("they are compared once the files have no errors".to_owned());
        return found;
    };
    if old.cursor_signer != new.cursor_signer && old.endpoints.iter().any(cursors::has_tokens) {
        all.push(Effect::Cursors, "`cursor_secret` differs", cursors::AFFECTED);
    }
    let partners: HashMap<_, _> =
        new.endpoints.iter().map(|endpoint| (route::shape(&endpoint.path), endpoint)).collect();
    for endpoint in &old.endpoints {
        let mut changes = ReleaseChanges { endpoint: Some(&endpoint.path), found: &mut found };
        match partners.get(&route::shape(&endpoint.path)) {
            Some(partner) => {
                let versions =
                    [ReleasedEndpoint::new(endpoint, older), ReleasedEndpoint::new(partner, newer)];
                requests::compare(&versions, &mut changes);
                responses::compare(&versions, &mut changes);
                cursors::compare(&versions, &mut changes);
            }
            None => requests::gone(endpoint, new, &mut changes),
        }
    }
    found
}
