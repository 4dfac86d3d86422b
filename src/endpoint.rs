//! Endpoint files: a path template, its parameters, and the statements or upstream requests behind
//! it.
//!
//! This module has the settings that a response needs, read and checked. The modules below read the
//! files.

mod calls;
mod compression;
mod csv;
mod explain;
mod follow;
mod handler;
mod key;
mod links;
mod lookup;
mod nesting;
mod optional;
mod pages;
pub(crate) mod parallel;
mod params;
mod path;
mod per_row;
pub(crate) mod read;
mod refcursor;
mod refine;
mod response;
mod slow_clients;
mod source_ref;
mod timeout;
pub(crate) mod upstream;
mod values;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rowstream_core::Error;
use rowstream_core::params::{Param, ParamValue};
use rowstream_encode::{Column, Format};

pub(crate) use self::calls::reply_columns;
pub use self::calls::{Calls, ErrorTreatment, Order, RepeatCount};
pub use self::compression::Compression;
pub use self::follow::FollowSettings;
pub use self::handler::{Handler, OneRow, RequestedTotal, Sql, TotalReading, TotalStatement};
pub(crate) use self::key::order_of;
pub use self::key::{KeyColumn, KeyNulls, NestedStatement, RowKey};
pub use self::links::{LinkSegment, LinkTemplate};
pub use self::optional::OptionalSql;
pub use self::pages::{CURSOR, MissingRows, NextPage, Pages};
pub use self::parallel::{ParallelRead, PartStatement, Shards};
pub(crate) use self::params::or_colon;
pub(crate) use self::path::MOST_PARAMS;
pub(crate) use self::per_row::{FittedCalls, LONGEST, of_refcursor};
pub use self::per_row::{PerRowCalls, ReplyForm, RowCall};
pub(crate) use self::refcursor::check_results;
pub use self::refcursor::{Opener, ResultRead};
pub use self::refine::RefineSettings;
pub(crate) use self::refine::{FEED, refuses_order};
pub use self::response::ResponseSettings;
pub use self::slow_clients::SlowClients;
pub use self::source_ref::SourceRef;
pub use self::timeout::Timeout;
pub use self::upstream::ProxyHandler;
use crate::database;
use crate::route::{Route, Suffixes};
pub use rowstream_core::params::{CouchFeed, FollowMode};
pub use rowstream_core::sql::Cardinality;

/// An endpoint, read and checked: a path template, its parameters, and its handler.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// The path template (`/authors/{id}`).
    pub path: String,
    /// A line for people.
    pub summary: Option<String>,
    /// The source of its data.
    pub source: SourceRef,
    /// The parameters, in the order of the file.
    pub params: Vec<Param>,
    /// The statements or upstream requests that produce its responses.
    pub handler: Handler,
    /// The body of a JSON response: the template, cut at its placeholders. Empty if the response is
    /// proxied.
    pub body: Vec<Piece>,
    /// The formats of its responses. The first is the default.
    pub formats: Vec<Format>,
    /// How its responses are written and delivered.
    pub response: ResponseSettings,
    /// The most streams in flight. Further ones get a 503. `None`: only the server's limit applies.
    pub max_streams: Option<usize>,
    /// How long a call of its source usually occupies a slot, by the author's estimate. `None`: the
    /// source's own estimate applies.
    pub expected_duration: Option<Duration>,
    /// The clients that may call it.
    pub authorization: Authorization,
    /// The targets of links on pages for browsers.
    pub links: Vec<LinkTemplate>,
    /// The endpoint that returns this one's statements and their plans. `None`: plans aren't
    /// available.
    pub explained: Option<Box<Endpoint>>,
    /// The longest row of its source in a server, in bytes (`max_row_bytes`).
    pub longest_row: usize,
    /// The file that it was read from.
    pub file: PathBuf,
}

impl Endpoint {
    /// The name of the rows if the file gives them none.
    pub(crate) const ONLY: &str = "rows";

    /// The upstream calls that are made for the rows of `statement`.
    pub fn calls_for(&self, statement: usize) -> Option<&Arc<PerRowCalls>> {
        self.per_row().map(|calls| &calls.plan).filter(|plan| plan.statement.0 == statement)
    }

    /// True if an upstream's response is passed on.
    pub fn is_proxy(&self) -> bool {
        matches!(self.handler, Handler::Proxy(_))
    }

    /// The endpoint's entry in the router.
    pub fn route(&self) -> Route<'_> {
        let suffixes = match &self.handler {
            // The upstream chooses the media type of its response, so a suffix can't.
            Handler::Proxy(_) => Suffixes::Data,
            _ => Suffixes::of(&self.path, &self.params),
        };
        Route { path: &self.path, suffixes }
    }

    /// The most rows that `statement` returns. Known only for the statement of the key, and only if
    /// its limit is known without asking the database.
    pub fn page_of(&self, statement: usize, values: &[ParamValue]) -> Option<u64> {
        let key = self.key().filter(|key| key.statement == statement)?;
        key.page(&self.statements()[statement], values)
    }

    /// The number of rows that [`Piece::Rows`] puts into the body: one value, one row or a list.
    pub(crate) fn cardinality(&self, rows: usize) -> Cardinality {
        match &self.handler {
            Handler::Sql(sql) => sql.statements[rows].cardinality,
            Handler::Proxy(_) | Handler::Calls(_) | Handler::Pages(_) => Cardinality::Many,
        }
    }

    /// The statement that fills a format of rows alone (NDJSON, CSV). It's the only `:many` of the
    /// body, or the body's only statement. `None` if there are several.
    pub fn rows_statement(&self) -> Option<usize> {
        let placed = || self.body.iter().filter_map(Piece::statement);
        let mut lists = placed().filter(|&i| self.cardinality(i) == Cardinality::Many);
        match (lists.next(), lists.next()) {
            (Some(list), None) => Some(list),
            (Some(_), Some(_)) => None,
            (None, _) => {
                let mut all = placed();
                all.next().filter(|_| all.next().is_none())
            }
        }
    }
}

/// The upstream calls for the rows of a statement.
#[derive(Debug, Clone)]
pub struct CallsPerRow {
    /// The calls.
    pub plan: Arc<PerRowCalls>,
    /// The upstreams, in the order of the calls' indices.
    pub sources: Vec<SourceRef>,
}

/// A piece of a JSON body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// JSON text of the template.
    Literal(Bytes),
    /// The rows of statement `.0`, with the rows that are nested in them. The rows of an upstream
    /// are a single list with the index 0.
    Rows(usize),
    /// The number of rows of statement `.0`, which must precede it in the body.
    Count(usize),
    /// The cursor of the last row. The rows must precede it in the body.
    Next,
    /// The digest of all bytes before it.
    Digest,
}

impl Piece {
    /// The statement whose rows this piece contains.
    pub fn statement(&self) -> Option<usize> {
        match self {
            Self::Literal(_) | Self::Count(_) | Self::Next | Self::Digest => None,
            Self::Rows(statement) => Some(*statement),
        }
    }
}

/// One statement of an endpoint.
#[derive(Debug, Clone)]
pub struct Statement {
    /// Its name. `rows` if it's the only statement and has no name.
    pub name: String,
    /// The kind of its result: a list, one row or one value.
    pub cardinality: Cardinality,
    /// The statement in the form that its source expects.
    pub query: database::Statement,
    /// For each placeholder of the text, in order, the index of the parameter bound to it.
    pub args: Vec<usize>,
    /// The parent statement, if its rows are nested in another statement's rows.
    pub nested: Option<NestedRows>,
    /// The opener, if this statement reads a refcursor or a result that another statement opens.
    /// The text of this statement is then the opener's.
    pub opener: Option<Opener>,
    /// The position of its text in the file.
    pub origin: Origin,
    /// The encoder of its row, if it's a lookup.
    kept: lookup::EncoderCache,
}

/// Nests the rows of a statement in the rows of another one, as a list with the statement's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NestedRows {
    /// The index of the other statement, which precedes this one.
    pub parent: usize,
    /// Pairs of columns that are equal in a nested row and in its parent row: this statement's
    /// column, and the parent's.
    pub on: Vec<(String, String)>,
    /// The setting's offset in the file, in bytes.
    pub offset: usize,
}

/// The origin of a statement's text. It maps a position that the database reports to one that the
/// user can find.
#[derive(Debug, Clone)]
pub struct Origin {
    /// For each piece of the statement's text: its offset there, and its offset in the file, in
    /// bytes.
    pub pieces: Vec<(usize, usize)>,
    /// The text of the whole file.
    pub text: Arc<str>,
}

impl Origin {
    /// The offset in the file of a position in the statement's text, both in bytes. A position
    /// within a placeholder is mapped to one within its parameter.
    pub fn file_offset(&self, position: usize) -> usize {
        let next = self.pieces.partition_point(|&(new, _)| new <= position);
        let Some(&(new, old)) = next.checked_sub(1).and_then(|i| self.pieces.get(i)) else { return 0 };
        let limit = self.pieces.get(next).map_or(self.text.len(), |&(_, old)| old);
        (old + (position - new)).min(limit)
    }

    /// The line and column in the file, from 1, of a position in the statement's text.
    pub fn place(&self, position: usize) -> (usize, usize) {
        rowstream_core::diagnostic::place(&self.text, self.file_offset(position))
    }
}

/// The clients that may call an endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Authorization {
    /// Every client.
    Public,
    /// Every client with a valid token.
    Authenticated,
    /// Clients with one of these tokens, by name, or with one of these scopes.
    Tokens(Vec<String>),
}

impl Statement {
    /// Checks that the result's columns fit the statement's use in the body.
    ///
    /// # Errors
    /// A `:value` doesn't have exactly one column, or two columns share a name, so an object would
    /// have two members with that name.
    pub fn check_columns(&self, columns: &[Column]) -> Result<(), Error> {
        check_columns(&self.name, self.cardinality, columns)
    }

    /// The same as [`Statement::check_columns`] for CSV, where columns may share a name.
    ///
    /// # Errors
    /// A `:value` doesn't have exactly one column.
    pub fn check_count(&self, columns: &[Column]) -> Result<(), Error> {
        check_count(&self.name, self.cardinality, columns)
    }
}

/// [`Statement::check_columns`] for the statement `name`.
///
/// # Errors
/// Those of [`Statement::check_columns`].
pub(crate) fn check_columns(name: &str, cardinality: Cardinality, columns: &[Column]) -> Result<(), Error> {
    check_count(name, cardinality, columns)?;
    for (i, column) in columns.iter().enumerate() {
        if columns[..i].iter().any(|before| before.name == column.name) {
            let message = format!("statement `{name}` has two columns called `{}`", column.name);
            let hint = "rename one of them with `as`; only CSV keeps both";
            return Err(Error::endpoint(message).hint(hint));
        }
    }
    Ok(())
}

fn check_count(name: &str, cardinality: Cardinality, columns: &[Column]) -> Result<(), Error> {
    if cardinality == Cardinality::Value && columns.len() != 1 {
        return Err(Error::endpoint(format!(
            "statement `{name}` is a `:value`, so it must have one column, not {}",
            columns.len()
        )));
    }
    Ok(())
}
