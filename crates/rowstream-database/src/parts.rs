//! Parts of one table, which several sessions read in parallel from one snapshot.

use std::convert::Infallible;
use std::marker::PhantomData;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use rowstream_core::Error;
use rowstream_core::params::ParamValue;
use rowstream_encode::Column;

use super::{DatabaseRow, DatabaseSession, ShardRead, Statement, TableSnapshot};

/// The parts of a table that a response wants to read.
pub enum PartsRequest<'a> {
    /// All parts.
    All {
        /// The table as the statement names it.
        table: &'a str,
        /// The most sessions.
        most: usize,
    },
    /// One part.
    Shard(ShardRead<'a>),
}

/// The parts of a table that a response reads.
#[derive(Debug, Clone, Copy)]
pub enum PartsKind<'a> {
    /// All parts, by this number of sessions.
    All(usize),
    /// One part.
    Shard {
        /// The snapshot for reading the other shards.
        snapshot: &'a TableSnapshot,
        /// True if the rows are in the order of their places.
        is_by_place: bool,
    },
}

/// Sessions that read parts of one table. The calls are those of a [`DatabaseSession`] with one
/// statement.
pub trait TableParts {
    /// A row, lent until the next call.
    type Row<'a>: DatabaseRow
    where
        Self: 'a;

    /// The parts that the sessions read.
    fn kind(&self) -> PartsKind<'_>;

    /// See [`DatabaseSession::read_by`].
    fn read_by(&self) -> Option<Instant>;

    /// Prepares the statement for one part, whose bounds are its last two arguments.
    ///
    /// # Errors
    /// The database's error for the statement.
    fn prepare(&mut self, statement: &Statement) -> impl Future<Output = Result<Arc<[Column]>, Error>>;

    /// Starts the statement for each part, with `args` and the bounds.
    fn execute(&mut self, index: usize, args: &[&ParamValue]);

    /// The next row of any part, lent until the next call; `None` after the last row of all.
    ///
    /// # Errors
    /// A part or its connection failed. Nothing may be polled after an error.
    fn poll_row(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Self::Row<'_>>, Error>>;
}

/// The parts of a database that can't read any. The type has no values.
pub struct NoParts<S>(Infallible, PhantomData<fn() -> S>);

impl<S: DatabaseSession> TableParts for NoParts<S> {
    type Row<'a>
        = S::Row<'a>
    where
        S: 'a;

    fn kind(&self) -> PartsKind<'_> {
        match self.0 {}
    }

    fn read_by(&self) -> Option<Instant> {
        match self.0 {}
    }

    async fn prepare(&mut self, _statement: &Statement) -> Result<Arc<[Column]>, Error> {
        match self.0 {}
    }

    fn execute(&mut self, _index: usize, _args: &[&ParamValue]) {
        match self.0 {}
    }

    fn poll_row(&mut self, _cx: &mut Context<'_>) -> Poll<Result<Option<S::Row<'_>>, Error>> {
        match self.0 {}
    }
}
