//! Requests for the rows of a statement: `[enrich.NAME]` adds a member to each row, and `each` of
//! `[upstream]` adds the columns of a reply.
//!
//! ```text
//! poll_row ──► statement ──► window: no more rows than there may be calls ──► a row with its replies
//!                              │ the requests of a row          ▲
//!                              └──► lanes ──► running ──────────┘
//! ```
//!
//! | file | contents |
//! |---|---|
//! | [`window`] | the rows in memory, and their calls |
//! | [`row`] | a copied row, which is read for requests and written with its replies |
//!
//! Invariants:
//!
//! 1. at most [`PerRowCalls::rows`] rows are in memory, and each has at most one call of each kind.
//!    So the memory of a response doesn't depend on the number of its rows;
//! 2. for each upstream, a response has at most as many requests in flight as its pool has slots,
//!    so its own number never causes a refusal. The pool admits it before the first row, and counts
//!    the requests in flight;
//! 3. rows are read and requests are sent only when it's polled. While calls run, rows are polled
//!    if the window has room for them;
//! 4. dropping it drops the calls.

mod row;
mod window;

use std::sync::Arc;

use rowstream_core::Error;
use rowstream_encode::Column;
use rowstream_upstream::Source;

pub(crate) use self::row::EnrichedRow;
pub(super) use self::window::Window;
use crate::endpoint::{FittedCalls, PerRowCalls};

/// The calls for the rows of a prepared statement, before the first of them.
pub(super) struct RowCalls {
    plan: Arc<PerRowCalls>,
    fitted: FittedCalls,
    /// The upstreams, in the order of the calls' indices.
    upstreams: Box<[Source]>,
}

impl RowCalls {
    /// The calls of `plan` for rows of these columns. The last `keys` columns are those of a key,
    /// and stay the last.
    ///
    /// # Errors
    /// The calls don't fit the columns.
    pub(super) fn new(
        plan: &Arc<PerRowCalls>,
        columns: &[Column],
        keys: usize,
        upstreams: &[Source],
    ) -> Result<Self, Error> {
        let fitted = plan.bind(columns, keys)?;
        Ok(Self { plan: Arc::clone(plan), fitted, upstreams: upstreams.into() })
    }

    /// The columns of the rows with their replies.
    pub(super) fn columns(&self) -> Arc<[Column]> {
        Arc::clone(&self.fitted.columns)
    }
}
