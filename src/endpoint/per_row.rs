//! Upstream calls for the rows of a statement. `[enrich.NAME]` adds a member to each row; `each` of
//! `[upstream]` adds a description of the reply.
//!
//! This module has the settings, and fits them to the statement's columns. [`crate::stream`] makes
//! the calls.

use std::sync::Arc;

use rowstream_core::Error;
use rowstream_core::diagnostic::suggest;
use rowstream_encode::{Column, ColumnKind};
use rowstream_upstream::pointer::Pointer;
use rowstream_upstream::template::Template;

use super::calls::{ErrorTreatment, Order, reply_budget, reply_columns};

/// The most bytes for all values in one request. Percent-encoding makes three bytes of one, so this
/// is as much as servers usually accept.
pub(crate) const LONGEST: usize = 4 * 1024;

/// The calls that an endpoint makes for the rows of one of its statements.
#[derive(Debug, Clone)]
pub struct PerRowCalls {
    /// The index of the statement in the endpoint, and its name.
    pub statement: (usize, String),
    /// The names of the endpoint's parameters, followed by those of the columns that requests use.
    pub names: Vec<String>,
    /// The number of parameters in `names`.
    pub params: usize,
    /// The slots in the pool of each upstream.
    pub places: Vec<usize>,
    /// The calls for each row.
    pub calls: Vec<RowCall>,
    /// How replies become part of the rows.
    pub form: ReplyForm,
}

/// One of the calls for each row.
#[derive(Debug, Clone)]
pub struct RowCall {
    /// The name of the member that it adds.
    pub name: String,
    /// The index of the upstream.
    pub upstream: usize,
    /// The request.
    pub template: Template,
    /// The part of the reply to use.
    pub pointer: Option<Pointer>,
    /// The most calls at the same time.
    pub concurrency: usize,
    /// The concurrency in the file, which may be more than the pool has slots. `None`: the file
    /// doesn't set it, so it's the number of slots.
    pub wanted: Option<usize>,
    /// The treatment of a failed call.
    pub on_error: ErrorTreatment,
    /// The longest reply, in bytes.
    pub max_reply: usize,
}

/// How replies become part of the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyForm {
    /// A reply is a member of its row, with the call's name. Rows with the same request share a
    /// call, and rows keep their order.
    Enrich,
    /// Each row has its own call, and columns that describe the reply.
    Each(Order),
}

/// Calls that fit the columns of a statement.
pub(crate) struct FittedCalls {
    /// The columns of the rows, with the added ones.
    pub(crate) columns: Arc<[Column]>,
    /// The index of the first added column.
    pub(crate) at: usize,
    /// The columns that requests use, in their order, each with the index of its name.
    pub(crate) wanted: Vec<(usize, usize)>,
}

impl PerRowCalls {
    /// The most rows that are held at the same time.
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
            ReplyForm::Enrich => self.calls.iter().map(json).collect(),
            ReplyForm::Each(_) => self.calls.iter().flat_map(|call| reply_columns(call.on_error)).collect(),
        }
    }

    /// Fits the calls to the columns of the statement. The last `keys` columns are those of a key.
    ///
    /// # Errors
    /// A request uses a column that doesn't exist, or a column has the name of an added one.
    pub(crate) fn bind(&self, columns: &[Column], keys: usize) -> Result<FittedCalls, Error> {
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
        Ok(FittedCalls { columns, at: own.len(), wanted })
    }

    fn named_twice(&self, name: &str) -> Error {
        let statement = &self.statement.1;
        let message = match self.form {
            ReplyForm::Enrich => {
                format!(
                    "statement `{statement}` already has a column `{name}`, so `[enrich.{name}]` can't add it"
                )
            }
            ReplyForm::Each(_) => {
                format!(
                    "statement `{statement}` has a column `{name}`, but that name is used for a part of each \
                     reply"
                )
            }
        };
        Error::endpoint(message).hint("rename the column with `as`")
    }

    fn no_column(&self, name: &str, columns: &[Column]) -> Error {
        let statement = &self.statement.1;
        let message = format!(
            "a request uses `{{{name}}}`, which is neither a parameter nor a column of `{statement}`"
        );
        let names = columns.iter().map(|column| column.name.as_str());
        Error::endpoint(message).hint(suggest("the columns are", name, names))
    }

    /// The most bytes that replies add to a row.
    pub(crate) fn longest_replies(&self) -> usize {
        self.calls.iter().map(|call| call.max_reply).fold(0, usize::saturating_add)
    }

    /// The most memory for the held rows and their calls, if a row has at most `row` bytes.
    pub(crate) fn budget(&self, row: usize) -> usize {
        // A request exists three times: as the key that finds equal requests, with its values
        // filled in, and as it's sent. Each time it's percent-encoded.
        let calls = self.calls.iter().map(|call| reply_budget(call.max_reply).saturating_add(12 * LONGEST));
        let held = calls.fold(row, usize::saturating_add).saturating_mul(self.rows());
        // One row is borrowed, and one is copied. From the copy, the columns for requests are
        // copied as text.
        held.saturating_add(row.saturating_mul(3))
    }
}

/// The error for refcursors. Their rows are those of other statements than the one that we
/// prepared.
pub(crate) fn of_refcursor() -> Error {
    Error::endpoint("calls can't be combined with a refcursor")
        .hint("write a query, or a function that returns a table")
}
