//! Several requests at a time on behalf of one, whose replies are rows.
//!
//! What a file says of them; they are made in [`crate::stream`].

use std::sync::{Arc, LazyLock};

use rowstream_encode::{Column, ColumnKind};

use crate::upstream;
use crate::upstream::template::Template;

/// The requests that an endpoint makes for one of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Calls {
    /// What is asked, with the number of the call.
    pub template: Template,
    /// The names of the endpoint's parameters.
    pub names: Vec<String>,
    /// How many there are.
    pub repeat: Repeat,
    /// How many run at a time.
    pub concurrency: usize,
    /// How many the file has asked for, which may be more than there are places; `None`: as many as
    /// there are.
    pub wanted: Option<usize>,
    /// In which order their replies come.
    pub order: Order,
    /// What becomes of one that fails.
    pub on_error: OnError,
    /// The longest reply, in bytes.
    pub max_reply: usize,
}

/// How many requests are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeat {
    /// So many.
    Times(u64),
    /// As many as the parameter of this index says.
    Param(usize),
}

/// The order of replies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// As they come.
    #[default]
    Completion,
    /// As they were asked for.
    Input,
}

/// What becomes of a call that fails: without a reply, with a status that is none of success, or
/// with a reply that is not what it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnError {
    /// The response fails.
    #[default]
    Fail,
    /// It is reported in its row: by `error`, or by NULL where the reply is a member.
    Row,
}

impl Calls {
    /// The columns of the rows. `error` is there where failures are rows.
    pub fn columns(&self) -> Arc<[Column]> {
        static COLUMNS: LazyLock<[Arc<[Column]>; 2]> = LazyLock::new(|| {
            let number = || column(&("n", "integer", ColumnKind::Int64));
            [OnError::Fail, OnError::Row]
                .map(|on_error| std::iter::once(number()).chain(reply_columns(on_error)).collect())
        });
        Arc::clone(match self.on_error {
            OnError::Fail => &COLUMNS[0],
            OnError::Row => &COLUMNS[1],
        })
    }

    /// What the replies of one response may take, in bytes.
    pub(crate) fn budget(&self) -> usize {
        self.concurrency.saturating_mul(reply_budget(self.max_reply))
    }
}

/// What one call may take whose reply has `max_reply` bytes at most: it stands twice while its
/// buffer grows.
pub(crate) fn reply_budget(max_reply: usize) -> usize {
    max_reply.saturating_mul(2).saturating_add(upstream::budget())
}

/// What is reported of a reply: columns by their names, types and kinds. The last one is there
/// where failures are reported in their rows.
const REPLY: [(&str, &str, ColumnKind); 4] = [
    ("status", "integer", ColumnKind::Int32),
    ("duration_ms", "number", ColumnKind::Float64),
    ("body", "json or text", ColumnKind::Any),
    ("error", "text", ColumnKind::Text),
];

/// The columns of what is reported of a reply.
pub(crate) fn reply_columns(on_error: OnError) -> impl Iterator<Item = Column> {
    let columns = match on_error {
        OnError::Fail => &REPLY[..3],
        OnError::Row => &REPLY,
    };
    columns.iter().map(column)
}

fn column(&(name, type_name, kind): &(&str, &str, ColumnKind)) -> Column {
    Column { name: name.to_owned(), type_name: type_name.to_owned(), kind }
}
