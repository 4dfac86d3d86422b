//! The statements or upstream requests that produce an endpoint's responses.

use std::sync::Arc;

use rowstream_core::Error;
use rowstream_core::sql::dialect::Estimate;
use rowstream_encode::Format;

use super::{
    Calls, CallsPerRow, Cardinality, Endpoint, FollowSettings, OptionalSql, Pages, ParallelRead,
    PartStatement, ProxyHandler, RefineSettings, RowKey, Shards, Statement,
};
use crate::database;

/// Produces an endpoint's responses.
#[derive(Debug, Clone)]
#[allow(clippy::large_enum_variant, reason = "one per endpoint, and most are of statements")]
pub enum Handler {
    /// Runs the statements of a database.
    Sql(Sql),
    /// Makes one request to an upstream, and proxies its response unchanged.
    Proxy(Arc<ProxyHandler>),
    /// Makes several requests to an upstream. Each reply becomes a row.
    Calls(Arc<Calls>),
    /// Reads the pages of an upstream's list. Each element becomes a row.
    Pages(Arc<Pages>),
}

/// Statements, and how their rows are read.
#[derive(Debug, Clone)]
pub struct Sql {
    /// The statements, in the order of the file.
    pub statements: Vec<Statement>,
    /// The upstream calls for the rows of one of them.
    pub per_row: Option<CallsPerRow>,
    /// The rows that a `:one` may have.
    pub one_row: OneRow,
    /// The key that orders and identifies the rows, for cursors.
    pub key: Option<RowKey>,
    /// The refinements that requests may ask for. `None`: none.
    pub refine: Option<RefineSettings>,
    /// Counts all rows, for a request that asks for their number.
    pub total: Option<RequestedTotal>,
    /// How the rows are followed. `None`: they aren't.
    pub follow: Option<FollowSettings>,
    /// Reads the rows on several connections. `None`: on one.
    pub parallel: Option<ParallelRead>,
    /// Lets several requests read one part of the rows each. `None`: each request reads all rows.
    pub shards: Option<Shards>,
    /// The forms without some optional parts of the statements. `None`: there are no such parts.
    pub optional: Option<Box<OptionalSql>>,
}

/// The rows that a `:one` of an endpoint may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OneRow {
    /// None or one. A second one is the endpoint's error.
    Optional,
    /// One, because of `result = "one"`. Without it, the response is a 404.
    Required,
    /// One, because the request wants a list's only row. Otherwise the response is a 406.
    Requested,
}

impl OneRow {
    /// Checks the number of rows at their end.
    ///
    /// # Errors
    /// There's none, although one is required.
    pub(crate) fn check_end(self, rows: u64) -> Result<(), Error> {
        match self {
            Self::Required if rows == 0 => Err(Error::no_such_row()),
            Self::Requested if rows == 0 => Err(Error::not_the_only_row("0 rows")),
            Self::Optional | Self::Required | Self::Requested => Ok(()),
        }
    }

    /// The error if `statement` returns a second row.
    pub(crate) fn repeated(self, statement: &str) -> Error {
        match self {
            Self::Optional | Self::Required => Error::several_rows(statement),
            Self::Requested => Error::not_the_only_row("several rows"),
        }
    }
}

/// The number of a list's rows, which a request asks for.
#[derive(Debug, Clone)]
pub struct RequestedTotal {
    /// The statements that find it, in their order.
    pub statements: Vec<TotalStatement>,
    /// True if no rows are read beside it.
    pub is_alone: bool,
}

/// A statement that finds the number of a list's rows.
#[derive(Debug, Clone)]
pub struct TotalStatement {
    /// The statement.
    pub query: database::Statement,
    /// Its arguments, as indices of parameters.
    pub args: Vec<usize>,
    /// How to read the number from its first row.
    pub reads: TotalReading,
}

/// The meaning of the first row of a [`TotalStatement`].
#[derive(Debug, Clone, Copy)]
pub enum TotalReading {
    /// Its only column is the number of rows that were counted.
    Count,
    /// The same, but at most [`MOST_COUNTED`](rowstream_core::filter::MOST_COUNTED) and one were counted.
    BoundedCount,
    /// It's the beginning of a plan.
    Plan(&'static Estimate),
}

impl Sql {
    /// Statements whose rows are sent unchanged, once.
    pub(super) fn new(statements: Vec<Statement>) -> Self {
        Self {
            statements,
            per_row: None,
            one_row: OneRow::Optional,
            key: None,
            refine: None,
            total: None,
            follow: None,
            parallel: None,
            shards: None,
            optional: None,
        }
    }
}

/// Settings that only statements have. They're empty if the endpoint calls an upstream.
impl Endpoint {
    /// The statements.
    pub fn statements(&self) -> &[Statement] {
        self.sql().map_or(&[], |sql| &sql.statements)
    }

    /// The upstream calls for the rows of a statement.
    pub fn per_row(&self) -> Option<&CallsPerRow> {
        self.sql()?.per_row.as_ref()
    }

    /// The key that orders and identifies the rows, for cursors.
    pub fn key(&self) -> Option<&RowKey> {
        self.sql()?.key.as_ref()
    }

    /// The refinements that requests may ask for.
    pub fn refine_settings(&self) -> Option<&RefineSettings> {
        self.sql()?.refine.as_ref()
    }

    /// See [`RefineSettings::allow_planned_totals`].
    pub(crate) fn allow_planned_totals(&mut self) {
        if let Some(settings) = self.sql_mut().and_then(|sql| sql.refine.as_mut()) {
            settings.allow_planned_totals();
        }
    }

    /// The forms without some optional parts of the statements.
    pub fn optional(&self) -> Option<&OptionalSql> {
        self.sql()?.optional.as_deref()
    }

    /// The number of all rows, if the request asks for it.
    pub(crate) fn total(&self) -> Option<&RequestedTotal> {
        self.sql()?.total.as_ref()
    }

    /// True if its rows are only counted, and none is read.
    pub(crate) fn has_only_total(&self) -> bool {
        self.total().is_some_and(|total| total.is_alone)
    }

    /// How the rows are followed.
    pub fn follow(&self) -> Option<&FollowSettings> {
        self.sql()?.follow.as_ref()
    }

    /// How several connections read the rows.
    pub fn parallel(&self) -> Option<&ParallelRead> {
        self.sql()?.parallel.as_ref()
    }

    /// How several requests read the rows.
    pub fn shards(&self) -> Option<&Shards> {
        self.sql()?.shards.as_ref()
    }

    /// The statement for one part of the rows, from `parallel` or from `shards`.
    pub(crate) fn divided(&self) -> Option<&PartStatement> {
        let shards = || self.shards().map(|shards| &shards.divided);
        self.parallel().map(|parallel| &parallel.divided).or_else(shards)
    }

    /// The rows that a `:one` may have.
    pub fn one_row(&self) -> OneRow {
        self.sql().map_or(OneRow::Optional, |sql| sql.one_row)
    }

    /// True if requests may ask for the only row of its list.
    pub(crate) fn returns_only_row(&self) -> bool {
        self.refine_settings().is_some() && self.formats.contains(&Format::Json)
    }

    /// True if the response is a 404 when there's no row.
    pub fn not_found(&self) -> bool {
        self.one_row() == OneRow::Required
    }

    /// Returns true if requests for it make upstream requests.
    pub(crate) fn asks_upstreams(&self) -> bool {
        match &self.handler {
            Handler::Sql(sql) => sql.per_row.is_some(),
            Handler::Proxy(_) | Handler::Calls(_) | Handler::Pages(_) => true,
        }
    }

    /// Returns true if each of its responses is one lookup in a database.
    pub(crate) fn looks_up(&self) -> bool {
        matches!(self.statements(), [statement] if statement.cardinality != Cardinality::Many)
    }

    fn sql(&self) -> Option<&Sql> {
        match &self.handler {
            Handler::Sql(sql) => Some(sql),
            Handler::Proxy(_) | Handler::Calls(_) | Handler::Pages(_) => None,
        }
    }

    /// Makes several connections read the rows.
    pub(crate) fn read_in_parts(&mut self, parallel: ParallelRead) {
        if let Some(sql) = self.sql_mut() {
            sql.parallel = Some(parallel);
        }
    }

    /// Like [`Endpoint::sql`], so that the reader of the file can complete it.
    pub(super) fn sql_mut(&mut self) -> Option<&mut Sql> {
        match &mut self.handler {
            Handler::Sql(sql) => Some(sql),
            Handler::Proxy(_) | Handler::Calls(_) | Handler::Pages(_) => None,
        }
    }
}
