//! What answers the requests of an endpoint.

use std::sync::Arc;

use super::{
    Calls, CallsPerRow, Cardinality, Divided, Endpoint, Follow, Key, Pages, Parallel, Proxy, Shards,
    Statement,
};

/// What answers the requests of an endpoint.
#[derive(Debug, Clone)]
#[allow(clippy::large_enum_variant, reason = "one per endpoint, and most are of statements")]
pub enum Handler {
    /// Statements of a database.
    Sql(Sql),
    /// One request to an upstream, whose answer is proxied as it comes.
    Proxy(Arc<Proxy>),
    /// Several requests to an upstream, whose replies are rows.
    Calls(Arc<Calls>),
    /// The pages of an upstream's list, whose elements are rows.
    Pages(Arc<Pages>),
}

/// Statements, and what becomes of their rows.
#[derive(Debug, Clone)]
pub struct Sql {
    /// The statements, in the order of the file.
    pub statements: Vec<Statement>,
    /// What is asked of upstreams for the rows of one of them.
    pub per_row: Option<CallsPerRow>,
    /// `result = "one"`: no row is a 404.
    pub not_found: bool,
    /// What orders and identifies the rows, for cursors.
    pub key: Option<Key>,
    /// How the rows are followed; `None`: not at all.
    pub follow: Option<Follow>,
    /// How several connections read the rows; `None`: one does.
    pub parallel: Option<Parallel>,
    /// How several requests read the rows, a part of them each; `None`: each reads all.
    pub shards: Option<Shards>,
}

impl Sql {
    /// Statements whose rows are sent as they are, once.
    pub(super) fn new(statements: Vec<Statement>) -> Self {
        Self {
            statements,
            per_row: None,
            not_found: false,
            key: None,
            follow: None,
            parallel: None,
            shards: None,
        }
    }
}

/// What only statements have; there is none of it where an upstream answers.
impl Endpoint {
    /// The statements.
    pub fn statements(&self) -> &[Statement] {
        self.sql().map_or(&[], |sql| &sql.statements)
    }

    /// What is asked of upstreams for the rows of a statement.
    pub fn per_row(&self) -> Option<&CallsPerRow> {
        self.sql()?.per_row.as_ref()
    }

    /// What orders and identifies the rows, for cursors.
    pub fn key(&self) -> Option<&Key> {
        self.sql()?.key.as_ref()
    }

    /// How the rows are followed.
    pub fn follow(&self) -> Option<&Follow> {
        self.sql()?.follow.as_ref()
    }

    /// How several connections read the rows.
    pub fn parallel(&self) -> Option<&Parallel> {
        self.sql()?.parallel.as_ref()
    }

    /// How several requests read the rows.
    pub fn shards(&self) -> Option<&Shards> {
        self.sql()?.shards.as_ref()
    }

    /// What reads a part of the rows, by whichever of the two.
    pub(crate) fn divided(&self) -> Option<&Divided> {
        let shards = || self.shards().map(|shards| &shards.divided);
        self.parallel().map(|parallel| &parallel.divided).or_else(shards)
    }

    /// Whether no row is a 404.
    pub fn not_found(&self) -> bool {
        self.sql().is_some_and(|sql| sql.not_found)
    }

    /// Whether requests for it make others.
    pub(crate) fn asks_upstreams(&self) -> bool {
        match &self.handler {
            Handler::Sql(sql) => sql.per_row.is_some(),
            Handler::Proxy(_) | Handler::Calls(_) | Handler::Pages(_) => true,
        }
    }

    /// Whether each answer of it is one lookup in a database.
    pub(crate) fn looks_up(&self) -> bool {
        matches!(self.statements(), [statement] if statement.cardinality != Cardinality::Many)
    }

    fn sql(&self) -> Option<&Sql> {
        match &self.handler {
            Handler::Sql(sql) => Some(sql),
            Handler::Proxy(_) | Handler::Calls(_) | Handler::Pages(_) => None,
        }
    }

    /// Has several connections read the rows from now on.
    pub(crate) fn read_in_parts(&mut self, parallel: Parallel) {
        if let Some(sql) = self.sql_mut() {
            sql.parallel = Some(parallel);
        }
    }

    /// The same, for its reader to complete.
    pub(super) fn sql_mut(&mut self) -> Option<&mut Sql> {
        match &mut self.handler {
            Handler::Sql(sql) => Some(sql),
            Handler::Proxy(_) | Handler::Calls(_) | Handler::Pages(_) => None,
        }
    }
}
