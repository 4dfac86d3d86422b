//! Calls for the rows of a statement: `[enrich.NAME]` adds a member to each row, and `each` of
//! `[upstream]` what is reported of a reply.
//!
//! What a file says of them, and how it fits the statement's columns; they are made in
//! [`crate::stream`].

use std::sync::Arc;

use rowstream_encode::{Column, ColumnKind};

use super::calls::{OnError, Order, reply_budget, reply_columns};
use crate::Error;
use crate::diagnostic::suggest;
use crate::pointer::Pointer;
use crate::upstream::template::Template;

/// What the values in a request may take together, in bytes. Percent-encoded, which makes three of
/// one, it is as much as servers take.
pub(crate) const LONGEST: usize = 4 * 1024;

/// The calls that an endpoint makes for the rows of one of its statements.
#[derive(Debug, Clone)]
pub struct PerRow {
    /// The index of the statement in the endpoint, and its name.
    pub statement: (usize, String),
    /// The names of the endpoint's parameters, and after them those of the columns that stand in
    /// requests.
    pub names: Vec<String>,
    /// How many of them are parameters.
    pub params: usize,
    /// The places of the pool of each upstream that is asked.
    pub places: Vec<usize>,
    /// What is asked for each row.
    pub calls: Vec<RowCall>,
    /// What becomes of the replies.
    pub form: Form,
}

/// One of the calls that are made for each row.
#[derive(Debug, Clone)]
pub struct RowCall {
    /// The name of what it adds.
    pub name: String,
    /// The index of the upstream that is asked.
    pub upstream: usize,
    /// What is asked.
    pub template: Template,
    /// Which part of a reply is wanted.
    pub pointer: Option<Pointer>,
    /// How many run at a time.
    pub concurrency: usize,
    /// How many the file has asked for, which may be more than there are places; `None`: as many as
    /// there are.
    pub wanted: Option<usize>,
    /// What becomes of one that fails.
    pub on_error: OnError,
    /// The longest reply, in bytes.
    pub max_reply: usize,
}

/// What becomes of replies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Each is a member of its row, under the call's name. Rows that ask the same share a call, and
    /// keep their order.
    Enrich,
    /// There is one for each row, of which it is reported how it went.
    Each(Order),
}

/// How calls fit the columns of a statement.
pub(crate) struct Bound {
    /// The columns of the rows with what is added.
    pub(crate) columns: Arc<[Column]>,
    /// Before which column of the statement that stands.
    pub(crate) at: usize,
    /// The columns that stand in requests, in their order, each with the index of its name.
    pub(crate) wanted: Vec<(usize, usize)>,
}

impl PerRow {
    /// How many rows are held at most.
    pub fn rows(&self) -> usize {
        self.calls.iter().map(|call| call.concurrency).max().unwrap_or(1)
    }

    fn added(&self) -> Vec<Column> {
        let json = |call: &RowCall| Column {
            name: call.name.clone(),
            type_name: "json".to_owned(),
            kind: ColumnKind::Json,
        };
        match self.form {
            Form::Enrich => self.calls.iter().map(json).collect(),
            Form::Each(_) => self.calls.iter().flat_map(|call| reply_columns(call.on_error)).collect(),
        }
    }

    /// Fits the calls to the columns of the statement, of which the last `keys` are those of a key.
    ///
    /// # Errors
    /// A request names a column that is not there; or there is one of a name that is added.
    pub(crate) fn bind(&self, columns: &[Column], keys: usize) -> Result<Bound, Error> {
        let (own, key) = columns.split_at(columns.len().saturating_sub(keys));
        let added = self.added();
        if let Some(column) = own.iter().find(|column| added.iter().any(|added| added.name == column.name)) {
            return Err(self.named_twice(&column.name));
        }
        let place = |(index, name): (usize, &String)| {
            let found = own.iter().position(|column| column.name == *name);
            found.map(|column| (column, index)).ok_or_else(|| self.no_column(name, own))
        };
        let names = self.names.iter().enumerate().skip(self.params);
        let mut wanted = names.map(place).collect::<Result<Vec<_>, _>>()?;
        wanted.sort_unstable();
        let columns = own.iter().cloned().chain(added).chain(key.iter().cloned()).collect();
        Ok(Bound { columns, at: own.len(), wanted })
    }

    fn named_twice(&self, name: &str) -> Error {
        let statement = &self.statement.1;
        let message = match self.form {
            Form::Enrich => {
                format!("statement `{statement}` has a column `{name}`, and `[enrich.{name}]` adds another")
            }
            Form::Each(_) => {
                format!(
                    "statement `{statement}` has a column `{name}`, which is what a part of each reply is called"
                )
            }
        };
        Error::endpoint(message).hint("name the column otherwise with `as`")
    }

    fn no_column(&self, name: &str, columns: &[Column]) -> Error {
        let statement = &self.statement.1;
        let message =
            format!("a request names `{{{name}}}`, which is no parameter and no column of `{statement}`");
        let names = columns.iter().map(|column| column.name.as_str());
        Error::endpoint(message).hint(suggest("the columns are", name, names))
    }

    /// What replies add to a row, in bytes.
    pub(crate) fn longest_replies(&self) -> usize {
        self.calls.iter().map(|call| call.max_reply).fold(0, usize::saturating_add)
    }

    /// What the rows that are held and their calls may take, of rows of at most so many bytes.
    pub(crate) fn budget(&self, row: usize) -> usize {
        // A request stands as it is distinguished from others, as it was filled, and as it is sent; each
        // time percent-encoded.
        let calls = self.calls.iter().map(|call| reply_budget(call.max_reply).saturating_add(12 * LONGEST));
        let held = calls.fold(row, usize::saturating_add).saturating_mul(self.rows());
        // One is lent, one copied, and of that the columns are texts that stand in requests.
        held.saturating_add(row.saturating_mul(3))
    }
}

/// A refcursor's rows come from other statements than the one that was prepared.
pub(crate) fn of_refcursor() -> Error {
    Error::endpoint("no calls can be made for the rows of a refcursor, nor beside them")
        .hint("write a query, or a function that returns a table")
}
