//! Producers of rows from any origin. A response polls one of them.
//!
//! Most rows are those of a database, lent by its session. Others are made here from the answers of
//! upstreams: calls, pages of a list, and statement rows that calls have enriched. Each row costs a
//! match, but no virtual call.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use arrow_schema::Schema;
use rowstream_core::Error;
use rowstream_core::params::ParamValue;
use rowstream_encode::{Column, RowWriter};

use super::calls::{CallRow, CallRows};
use super::pages::{PageRow, PageRows};
use super::per_row::{EnrichedRow, EnrichedRows, ProducedRow};
use crate::database::{self, Batch, ResultSet, RowSource, Session, Statement, TableParts};
use crate::endpoint::PerRowCalls;

/// The producer of one response's rows.
pub(crate) enum Producer {
    /// Statements of a database.
    Statements(Session),
    /// A statement of one table, whose parts are read by several connections.
    Parts(TableParts),
    /// Requests to an HTTP service, whose replies are rows.
    Calls(Box<CallRows>),
    /// Pages of an HTTP service's list.
    Pages(Box<PageRows>),
    /// Statements, with calls for the rows of one of them.
    Enriched(Box<EnrichedRows>),
}

impl Producer {
    /// The session of its statements, if nothing else adds to their rows.
    ///
    /// # Errors
    /// It has none. That's a bug, because files that would need it are refused.
    fn session(&mut self) -> Result<&mut Session, Error> {
        match self {
            Self::Statements(session) => Ok(session),
            Self::Parts(_) | Self::Calls(_) | Self::Pages(_) | Self::Enriched(_) => {
                Err(Error::protocol("these rows aren't from statements alone"))
            }
        }
    }

    /// Adds the calls of `plan` to its statements, for a request with these values of its
    /// parameters. Sends nothing yet.
    ///
    /// # Errors
    /// It has no statements.
    pub(super) fn enriched(
        self,
        plan: &Arc<PerRowCalls>,
        upstreams: &[rowstream_upstream::Source],
        values: &[ParamValue],
    ) -> Result<Self, Error> {
        let inner = match self {
            Self::Statements(session) => session,
            Self::Parts(_) | Self::Calls(_) | Self::Pages(_) | Self::Enriched(_) => {
                return Err(Error::protocol("calls can be made only for rows of statements"));
            }
        };
        Ok(Self::Enriched(Box::new(EnrichedRows::new(inner, plan, upstreams, values))))
    }

    /// Makes calls for each row of the prepared statement `index`, and returns the columns that its
    /// rows then have. The last `keys` columns of the statement are those of a key, and stay the
    /// last.
    ///
    /// # Errors
    /// The calls don't fit the columns.
    pub(crate) fn call_per_row(&mut self, index: usize, keys: usize) -> Result<Arc<[Column]>, Error> {
        match self {
            Self::Enriched(session) => session.call_per_row(index, keys),
            Self::Statements(_) | Self::Parts(_) | Self::Calls(_) | Self::Pages(_) => {
                Err(Error::protocol("no calls are made for these rows"))
            }
        }
    }

    /// True if its pool has admitted it and it has had no connection yet.
    pub(crate) fn waits_for_place(&self) -> bool {
        match self {
            Self::Calls(session) => session.waits_for_place(),
            Self::Pages(session) => session.waits_for_place(),
            Self::Statements(_) | Self::Parts(_) | Self::Enriched(_) => false,
        }
    }

    /// True if it uses a connection of the pool.
    pub(crate) fn holds_connection(&self) -> bool {
        match self {
            Self::Statements(session) => session.holds_connection(),
            Self::Parts(_) | Self::Calls(_) | Self::Pages(_) => true,
            Self::Enriched(session) => session.holds_connection(),
        }
    }

    /// See [`Session::read_by`].
    pub(crate) fn read_by(&self) -> Option<Instant> {
        match self {
            Self::Statements(session) => session.read_by(),
            Self::Enriched(session) => session.read_by(),
            Self::Parts(parts) => parts.read_by(),
            Self::Calls(_) | Self::Pages(_) => None,
        }
    }

    /// The parts of a table that it reads. `None`: it reads all of it.
    pub(super) fn parts(&self) -> Option<&TableParts> {
        match self {
            Self::Parts(parts) => Some(parts),
            Self::Statements(_) | Self::Calls(_) | Self::Pages(_) | Self::Enriched(_) => None,
        }
    }

    /// See [`Session::prepare`].
    ///
    /// # Errors
    /// The database's error for the statement, or an error if it has no statements.
    pub(crate) async fn prepare(&mut self, statement: &Statement) -> Result<Arc<[Column]>, Error> {
        match self {
            Self::Statements(session) => session.prepare(statement).await,
            // Boxed, because few requests need it and all would carry it.
            Self::Parts(parts) => Box::pin(parts.prepare(statement)).await,
            Self::Calls(_) | Self::Pages(_) => Err(Error::protocol("these rows have no statement")),
            Self::Enriched(session) => session.prepare(statement).await,
        }
    }

    /// See [`Session::begin`].
    ///
    /// # Errors
    /// The connection failed, or a table can't be read now.
    pub(super) async fn begin(&mut self) -> Result<(), Error> {
        match self {
            Self::Statements(session) => session.begin().await,
            Self::Enriched(session) => session.begin().await,
            Self::Parts(_) | Self::Calls(_) | Self::Pages(_) => Ok(()),
        }
    }

    /// See [`Session::rows_of`].
    pub(crate) fn rows_of(&self, index: usize) -> RowSource<'_> {
        match self {
            Self::Statements(session) => session.rows_of(index),
            Self::Parts(_) | Self::Calls(_) | Self::Pages(_) | Self::Enriched(_) => RowSource::Own,
        }
    }

    /// See [`Session::as_batches`]. Only the rows of plain statements have any.
    pub(super) fn as_batches(&mut self, index: usize, columns: usize) -> Option<Schema> {
        self.session().ok()?.as_batches(index, columns)
    }

    /// See [`Session::poll_batch`].
    ///
    /// # Errors
    /// The statement failed, or the connection. Nothing may be polled after an error.
    pub(super) fn poll_batch(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Batch<'_, Row<'_>>>, Error>> {
        self.session()?.poll_batch(cx).map_ok(|batch| batch.map(|batch| batch.map(Row::Database)))
    }

    /// See [`Session::call`].
    ///
    /// # Errors
    /// The statement failed, or the connection did.
    pub(super) async fn call(
        &mut self,
        index: usize,
        args: &[&ParamValue],
    ) -> Result<Vec<Vec<Option<String>>>, Error> {
        self.session()?.call(index, args).await
    }

    /// See [`Session::open_refcursor`].
    ///
    /// # Errors
    /// The cursor doesn't exist, or the connection failed.
    pub(super) async fn open_refcursor(&mut self, index: usize, name: &str) -> Result<Arc<[Column]>, Error> {
        self.session()?.open_refcursor(index, name).await
    }

    /// See [`Session::poll_result`].
    ///
    /// # Errors
    /// The result doesn't exist, or the procedure or the connection failed.
    pub(super) fn poll_result(
        &mut self,
        result: ResultSet,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Arc<[Column]>, Error>> {
        self.session()?.poll_result(result, cx)
    }

    /// See [`Session::execute_interleaved`]. If the rows aren't those of plain statements, polling
    /// reports it.
    pub(super) fn execute_interleaved(&mut self, runs: &[(usize, Vec<&ParamValue>)]) {
        if let Ok(session) = self.session() {
            session.execute_interleaved(runs);
        }
    }

    /// See [`Session::poll_row_of`].
    ///
    /// # Errors
    /// One of the statements failed, or the connection did. Nothing may be polled after an error.
    #[inline]
    pub(super) fn poll_row_of(
        &mut self,
        which: usize,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Row<'_>>, Error>> {
        self.session()?.poll_row_of(which, cx).map_ok(|row| row.map(Row::Database))
    }

    /// See [`Session::execute`].
    pub(crate) fn execute(&mut self, index: usize, args: &[&ParamValue]) {
        match self {
            Self::Statements(session) => session.execute(index, args),
            Self::Parts(parts) => parts.execute(index, args),
            Self::Calls(session) => session.execute(args),
            Self::Pages(session) => session.execute(args),
            Self::Enriched(session) => session.execute(index, args),
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
            Self::Parts(parts) => parts.poll_row(cx).map_ok(|row| row.map(Row::Database)),
            Self::Calls(session) => session.poll_row(cx).map_ok(|row| row.map(Row::Call)),
            Self::Pages(session) => session.poll_row(cx).map_ok(|row| row.map(Row::Page)),
            Self::Enriched(session) => session.poll_row(cx).map_ok(|row| row.map(Row::from)),
        }
    }
}

/// One row, lent by its producer.
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

impl<'a> From<ProducedRow<'a>> for Row<'a> {
    fn from(row: ProducedRow<'a>) -> Self {
        match row {
            ProducedRow::Plain(row) => Self::Database(row),
            ProducedRow::Enriched(row) => Self::Enriched(row),
        }
    }
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
