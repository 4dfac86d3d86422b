//! Several upstream requests for one request of a client. Each reply becomes a row.
//!
//! This module has the settings; [`crate::stream`] makes the requests.

use std::sync::{Arc, LazyLock};

use rowstream_encode::{Column, ColumnKind};

use rowstream_upstream::template::Template;

/// The requests that an endpoint makes for each request of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Calls {
    /// The request. It may contain the number of the call.
    pub template: Template,
    /// The names of the endpoint's parameters.
    pub names: Vec<String>,
    /// The number of requests.
    pub repeat: RepeatCount,
    /// The most requests at the same time.
    pub concurrency: usize,
    /// The concurrency in the file, which may be more than the pool has slots. `None`: the file
    /// doesn't set it, so it's the number of slots.
    pub wanted: Option<usize>,
    /// The order of the rows.
    pub order: Order,
    /// The treatment of a failed request.
    pub on_error: ErrorTreatment,
    /// The longest reply, in bytes.
    pub max_reply: usize,
}

/// The number of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RepeatCount {
    /// This number.
    Times(u64),
    /// The value of the parameter with this index.
    Param(usize),
}

/// The order of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// Each reply as soon as it has arrived.
    #[default]
    Completion,
    /// In the order of the requests.
    Input,
}

/// The treatment of a failed call: one that gets no reply, a status that isn't a success, or a
/// reply that doesn't fit its declared type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ErrorTreatment {
    /// The whole response fails.
    #[default]
    Fail,
    /// The row reports it: in the column `error`, or as NULL if the reply is a member.
    Row,
}

impl Calls {
    /// The columns of the rows. There's a column `error` if rows report failures.
    pub fn columns(&self) -> Arc<[Column]> {
        static COLUMNS: LazyLock<[Arc<[Column]>; 2]> = LazyLock::new(|| {
            let number = || column(&("n", "integer", ColumnKind::Int64));
            [ErrorTreatment::Fail, ErrorTreatment::Row]
                .map(|on_error| std::iter::once(number()).chain(reply_columns(on_error)).collect())
        });
        Arc::clone(match self.on_error {
            ErrorTreatment::Fail => &COLUMNS[0],
            ErrorTreatment::Row => &COLUMNS[1],
        })
    }

    /// The most memory for the replies of one response, in bytes.
    pub(crate) fn budget(&self) -> usize {
        self.concurrency.saturating_mul(reply_budget(self.max_reply))
    }
}

/// The most memory for one call, in bytes, if its reply has at most `max_reply` bytes. The reply
/// counts twice because its buffer is copied while it grows.
pub(crate) fn reply_budget(max_reply: usize) -> usize {
    max_reply.saturating_mul(2).saturating_add(rowstream_upstream::budget())
}

/// The columns that describe a reply: their names, types and kinds. The last one exists only if
/// rows report failures.
const REPLY: [(&str, &str, ColumnKind); 4] = [
    ("status", "integer", ColumnKind::Int32),
    ("duration_ms", "number", ColumnKind::Float64),
    ("body", "json or text", ColumnKind::Any),
    ("error", "text", ColumnKind::Text),
];

/// The columns that describe a reply.
pub(crate) fn reply_columns(on_error: ErrorTreatment) -> impl Iterator<Item = Column> {
    let columns = match on_error {
        ErrorTreatment::Fail => &REPLY[..3],
        ErrorTreatment::Row => &REPLY,
    };
    columns.iter().map(column)
}

fn column(&(name, type_name, kind): &(&str, &str, ColumnKind)) -> Column {
    Column { name: name.to_owned(), type_name: type_name.to_owned(), kind }
}
