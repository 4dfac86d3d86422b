//! Producers of rows from any origin. A response polls one of them.
//!
//! Most rows are those of a database, lent by its session. Others are made here from the answers of
//! upstreams: calls, and pages of a list. All producers have rows one by one. If something exists
//! only for statements (nesting, record batches, refcursors), its code gets the [`Session`] itself.
//! Each row costs a match, but no virtual call.

use std::task::{Context, Poll};
use std::time::Instant;

use rowstream_core::Error;
use rowstream_core::params::ParamValue;
use rowstream_encode::RowWriter;

use super::calls::{CallRow, CallRows};
use super::pages::{PageRow, PageRows};
use super::per_row::EnrichedRow;
use crate::database::{self, Answer, Session, TableParts};

/// The producer of one response's rows.
pub(crate) enum Producer {
    /// Statements of a database.
    Statements(Session),
    /// The rows of a lookup. All have been received, and no connection is held for them.
    Lookup(Answer),
    /// A statement of one table, whose parts are read by several connections.
    Parts(TableParts),
    /// Requests to an HTTP service, whose replies are rows.
    Calls(Box<CallRows>),
    /// Pages of an HTTP service's list.
    Pages(Box<PageRows>),
}

impl Producer {
    /// True if its pool has admitted it and it has had no connection yet.
    pub(crate) fn waits_for_place(&self) -> bool {
        match self {
            Self::Calls(calls) => calls.waits_for_place(),
            Self::Pages(pages) => pages.waits_for_place(),
            Self::Statements(_) | Self::Lookup(_) | Self::Parts(_) => false,
        }
    }

    /// True if it uses a connection of the pool.
    pub(crate) fn holds_connection(&self) -> bool {
        match self {
            Self::Lookup(_) => false,
            Self::Statements(_) | Self::Parts(_) | Self::Calls(_) | Self::Pages(_) => true,
        }
    }

    /// See [`Session::read_by`].
    pub(crate) fn read_by(&self) -> Option<Instant> {
        match self {
            Self::Statements(session) => session.read_by(),
            Self::Parts(parts) => parts.read_by(),
            Self::Lookup(_) | Self::Calls(_) | Self::Pages(_) => None,
        }
    }

    /// See [`Session::execute`]. Calls and pages have only one list, so they don't need `index`.
    pub(crate) fn execute(&mut self, index: usize, args: &[&ParamValue]) {
        match self {
            Self::Statements(session) => session.execute(index, args),
            Self::Lookup(_) => {}
            Self::Parts(parts) => parts.execute(index, args),
            Self::Calls(calls) => calls.execute(args),
            Self::Pages(pages) => pages.execute(args),
        }
    }

    /// The next row, lent until the next call; `None` after the last one.
    ///
    /// # Errors
    /// The statement failed, a call did, or the connection. Nothing may be polled after an error.
    #[inline]
    pub(crate) fn poll_row(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Row<'_>>, Error>> {
        match self {
            Self::Statements(session) => session.poll_row(cx).map_ok(|row| row.map(Row::Database)),
            Self::Lookup(answer) => Poll::Ready(Ok(answer.next_row().map(Row::Database))),
            Self::Parts(parts) => parts.poll_row(cx).map_ok(|row| row.map(Row::Database)),
            Self::Calls(calls) => calls.poll_row(cx).map_ok(|row| row.map(Row::Call)),
            Self::Pages(pages) => pages.poll_row(cx).map_ok(|row| row.map(Row::Page)),
        }
    }
}

/// One row, lent by its producer or by the calls for it.
pub(crate) enum Row<'a> {
    /// A database's row.
    Database(database::Row<'a>),
    /// The reply to a request.
    Call(CallRow<'a>),
    /// An element of a list in a reply.
    Page(PageRow<'a>),
    /// The copy of a row, with the replies to its calls.
    Enriched(EnrichedRow<'a>),
}

impl Row<'_> {
    /// Writes the row's values to `out`.
    ///
    /// # Errors
    /// A value can't be decoded. `out` then ends in half a row, which the caller removes.
    #[inline]
    pub(crate) fn encode(self, encoder: &mut impl RowWriter, out: &mut Vec<u8>) -> Result<(), Error> {
        match self {
            Self::Database(row) => row.encode(encoder, out),
            Self::Call(row) => {
                row.encode(encoder, out);
                Ok(())
            }
            Self::Page(row) => row.encode(encoder, out),
            Self::Enriched(row) => row.encode(encoder, out),
        }
    }
}
