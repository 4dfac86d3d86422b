//! Endpoint files: a path template, its parameters, and the statements behind it.
//!
//! What is here is what a response needs, read and checked; how files are read is in the modules
//! below.

mod calls;
pub(crate) mod compression;
pub(crate) mod csv;
mod explain;
mod follow;
mod handler;
mod key;
mod lookup;
mod nesting;
mod pages;
pub(crate) mod parallel;
mod params;
mod path;
mod per_row;
pub(crate) mod read;
mod refcursor;
pub(crate) mod slow_clients;
mod source_ref;
pub(crate) mod timeout;
pub(crate) mod upstream;
pub(crate) mod values;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rowstream_encode::{Column, CsvDialect, Format, ValueOptions};

pub(crate) use self::calls::reply_columns;
pub use self::calls::{Calls, OnError, Order, Repeat};
pub use self::compression::Compression;
pub use self::follow::Follow;
pub use self::handler::{Handler, Sql};
pub use self::key::{Key, KeyColumn};
pub use self::pages::{Absent, CURSOR, Next, Pages};
pub use self::parallel::{Divided, Parallel, Shards};
pub(crate) use self::per_row::{Bound, LONGEST, of_refcursor};
pub use self::per_row::{Form, PerRow, RowCall};
pub(crate) use self::refcursor::check_results;
pub use self::refcursor::{Opener, Reads};
pub use self::slow_clients::SlowClients;
pub use self::source_ref::SourceRef;
pub use self::timeout::Timeout;
pub use self::upstream::Proxy;
use crate::Error;
use crate::database;
pub use crate::params::{CouchFeed, Followed};
use crate::params::{Param, ParamValue};
use crate::route::{Route, Suffixes};
pub use crate::sql::Cardinality;

/// A path template with its parameters and the statements behind it, read and checked.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// The path template (`/authors/{id}`).
    pub path: String,
    /// One line for people.
    pub summary: Option<String>,
    /// Its source.
    pub source: SourceRef,
    /// Its parameters, in the order of the file.
    pub params: Vec<Param>,
    /// What answers its requests.
    pub handler: Handler,
    /// The body of a JSON answer: the template, cut at its placeholders. Empty where an answer is
    /// proxied.
    pub body: Vec<Piece>,
    /// The formats it answers in; the first is the default.
    pub formats: Vec<Format>,
    /// How it writes CSV.
    pub csv: CsvDialect,
    /// How it writes values; a request may choose otherwise.
    pub options: ValueOptions,
    /// Whether its answers are compressed.
    pub compression: Compression,
    /// Its streams in flight; beyond: 503. `None`: as many as the server has.
    pub max_streams: Option<usize>,
    /// How long its answers may take.
    pub timeout: Timeout,
    /// How long a call of its source holds a place, as those who wrote it expect; `None`: as long
    /// as the source says.
    pub expected_duration: Option<Duration>,
    /// What becomes of clients that are slower than its rows.
    pub slow_clients: SlowClients,
    /// How long a stream of server-sent events says nothing, before it says that it is still there.
    pub heartbeat: Duration,
    /// Who may call it.
    pub authorization: Authorization,
    /// What answers with its statements and their plans; `None`: nobody may see them.
    pub explained: Option<Box<Endpoint>>,
    /// The file it was read from.
    pub file: PathBuf,
}

impl Endpoint {
    /// The name of the rows that have no other.
    pub(crate) const ONLY: &str = "rows";

    /// The calls that are made for the rows of `statement`.
    pub fn calls_for(&self, statement: usize) -> Option<&Arc<PerRow>> {
        self.per_row().map(|calls| &calls.plan).filter(|plan| plan.statement.0 == statement)
    }

    /// How the router finds it.
    pub fn route(&self) -> Route<'_> {
        let suffixes = match &self.handler {
            // The upstream's answers have a type of their own.
            Handler::Proxy(_) => Suffixes::Data,
            _ => Suffixes::of(&self.path, &self.params),
        };
        Route { path: &self.path, suffixes }
    }

    /// How many rows of `statement` come at most, where they are those of the key and that is known
    /// without asking the database.
    pub fn page_of(&self, statement: usize, values: &[ParamValue]) -> Option<u64> {
        let key = self.key().filter(|key| key.statement == statement)?;
        key.page(&self.statements()[statement], values)
    }

    /// How many rows stand in the body for [`Piece::Rows`].
    fn cardinality(&self, rows: usize) -> Cardinality {
        match &self.handler {
            Handler::Sql(sql) => sql.statements[rows].cardinality,
            Handler::Proxy(_) | Handler::Calls(_) | Handler::Pages(_) => Cardinality::Many,
        }
    }

    /// The statement whose rows are the rows of a format that holds rows and nothing else (NDJSON,
    /// CSV): the only `:many` of the body, or its only statement. `None` when there are several.
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

/// What is asked of upstreams for the rows of a statement.
#[derive(Debug, Clone)]
pub struct CallsPerRow {
    /// The calls.
    pub plan: Arc<PerRow>,
    /// Who is asked, as the calls number them.
    pub sources: Vec<SourceRef>,
}

/// A piece of a JSON body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// JSON text of the template.
    Literal(Bytes),
    /// Where the rows of statement `.0` stand, with those nested in them. The rows of an upstream
    /// are one list, and 0.
    Rows(usize),
    /// Where the number of rows of statement `.0` stands; its rows stand before.
    Count(usize),
    /// Where the cursor of the last row stands; the rows stand before.
    Next,
    /// Where the digest of all bytes before it stands.
    Digest,
}

impl Piece {
    /// The statement whose rows stand here.
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
    /// Its name (`rows` when it is the only one and has none).
    pub name: String,
    /// How many rows it answers with.
    pub cardinality: Cardinality,
    /// The statement as its source takes it.
    pub query: database::Statement,
    /// For each placeholder of the text, in order, the index of the parameter bound to it.
    pub args: Vec<usize>,
    /// In whose rows its own stand, if in any.
    pub nested: Option<Nested>,
    /// The statement, whose text is then its own too, that opens what it reads; `None`: it reads
    /// nothing of another's.
    pub opener: Option<Opener>,
    /// Where its text stands in the file.
    pub origin: Origin,
    /// What encodes its row, where it is a lookup.
    kept: lookup::Kept,
}

/// In whose rows the rows of a statement stand: as a list, a member under the statement's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nested {
    /// The index of the other statement, which stands before this one.
    pub parent: usize,
    /// The columns that are the same in a row and in the row that it stands in: the statement's
    /// own, and the other's.
    pub on: Vec<(String, String)>,
    /// Where the file says so, in bytes.
    pub offset: usize,
}

/// Where a statement's text came from, to turn a place that the database names into one that the
/// user can find.
#[derive(Debug, Clone)]
pub struct Origin {
    /// For each piece of the statement's text: where it begins there, and where in the file, in
    /// bytes.
    pub pieces: Vec<(usize, usize)>,
    /// The text of the whole file.
    pub text: Arc<str>,
}

impl Origin {
    /// The place in the file, in bytes, of a place in the statement's text. A place within a
    /// placeholder is within its parameter.
    pub fn file_offset(&self, position: usize) -> usize {
        let next = self.pieces.partition_point(|&(new, _)| new <= position);
        let Some(&(new, old)) = next.checked_sub(1).and_then(|i| self.pieces.get(i)) else { return 0 };
        let limit = self.pieces.get(next).map_or(self.text.len(), |&(_, old)| old);
        (old + (position - new)).min(limit)
    }

    /// Line and column in the file, from 1, of a place in the statement's text.
    pub fn place(&self, position: usize) -> (usize, usize) {
        crate::diagnostic::place(&self.text, self.file_offset(position))
    }
}

/// Who may call an endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Authorization {
    /// Everybody.
    Public,
    /// Whoever shows a token that is valid.
    Authenticated,
    /// Bearers of these tokens, by name, or of what opens these scopes.
    Tokens(Vec<String>),
}

impl Statement {
    /// Checks that the result's columns fit the statement's place in the body.
    ///
    /// # Errors
    /// A `:value` with other than one column; two columns of one name, which would be two members
    /// of one object.
    pub fn check_columns(&self, columns: &[Column]) -> Result<(), Error> {
        check_columns(&self.name, self.cardinality, columns)
    }

    /// The same for CSV, which keeps columns of one name.
    ///
    /// # Errors
    /// A `:value` with other than one column.
    pub fn check_count(&self, columns: &[Column]) -> Result<(), Error> {
        check_count(&self.name, self.cardinality, columns)
    }
}

/// [`Statement::check_columns`] of the statement `name`.
///
/// # Errors
/// The same.
pub(crate) fn check_columns(name: &str, cardinality: Cardinality, columns: &[Column]) -> Result<(), Error> {
    check_count(name, cardinality, columns)?;
    for (i, column) in columns.iter().enumerate() {
        if columns[..i].iter().any(|before| before.name == column.name) {
            let message = format!("statement `{name}` has two columns called `{}`", column.name);
            let hint = "name one of them otherwise with `as`; CSV alone keeps both";
            return Err(Error::endpoint(message).hint(hint));
        }
    }
    Ok(())
}

fn check_count(name: &str, cardinality: Cardinality, columns: &[Column]) -> Result<(), Error> {
    if cardinality == Cardinality::Value && columns.len() != 1 {
        return Err(Error::endpoint(format!(
            "statement `{name}` is a `:value` and must have one column, not {}",
            columns.len()
        )));
    }
    Ok(())
}
