//! The session's side of the hand-over: a response that uses one connection on its own thread.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use arrow_schema::Schema;
use rowstream_core::Error;
use rowstream_core::params::ParamValue;
use rowstream_core::pool::Lease;
use rowstream_encode::Column;

use super::handover::{Command, Connection, ReturningConnection, RowBatch, WorkerLink, WorkerReply};
use super::interleaved::InterleavedStatements;
use super::lookups::{LookupOutcome, LookupRequest};
use super::{Driver, SourceState, StatementDescription, batch};
use crate::{DatabaseSession, Snapshot, Statement};

/// One connection on its own thread, held by one response.
pub struct Session<D: Driver> {
    /// `None` only during `drop`.
    held: Option<ReturningConnection<D>>,
    shared: Arc<SourceState<D>>,
    pub(super) snapshot: Snapshot,
    pub(super) phase: Phase,
    pub(super) statements: Vec<Arc<StatementDescription<D::Plan>>>,
    /// The statement that was executed last.
    current: usize,
    /// One of the executed statements has left something in the connection.
    leaves_state: bool,
    /// The index of the statement that is read as batches, and the number of columns in them.
    batches: Option<(usize, usize)>,
    /// The current batch, and the position of its next row in `at`.
    pub(super) batch: Option<RowBatch>,
    at: usize,
    pub(super) interleaved: InterleavedStatements<D>,
}

/// The reply that a session waits for.
pub(super) enum Phase {
    /// None, and the worker is idle: the next statement can be prepared or executed.
    Ready,
    /// The connection, a statement's description, or the outcomes of lookups.
    Asking,
    /// Rows.
    Streaming,
    /// None: the session failed, or its methods were called in the wrong order. The error is
    /// returned once.
    Failed(Option<Error>),
}

impl<D: Driver> DatabaseSession for Session<D> {
    type Row<'a> = D::Row<'a>;

    async fn prepare(&mut self, statement: &Statement) -> Result<Arc<[Column]>, Error> {
        if !matches!(self.phase, Phase::Ready) {
            return Err(out_of_order::<D>());
        }
        let described = match self.shared.statements.get(statement) {
            Some(known) => known,
            None => self.describe(statement).await?,
        };
        let columns = Arc::clone(&described.columns);
        self.statements.push(described);
        Ok(columns)
    }

    fn execute(&mut self, index: usize, args: &[&ParamValue]) {
        let (Phase::Ready, Some(statement)) = (&self.phase, self.statements.get(index)) else {
            self.phase = Phase::Failed(Some(out_of_order::<D>()));
            return;
        };
        let statement = Arc::clone(statement);
        let args = match args.iter().map(|arg| D::argument(arg)).collect() {
            Ok(args) => args,
            Err(error) => {
                self.phase = Phase::Failed(Some(error));
                return;
            }
        };
        self.phase = Phase::Streaming;
        self.current = index;
        self.leaves_state |= statement.leaves_state;
        self.link().send(Command::Execute {
            statement,
            args,
            transaction: self.snapshot == Snapshot::Transaction,
            batches: self.batches.and_then(|(of, columns)| (of == index).then_some(columns)),
        });
    }

    #[inline]
    fn poll_row(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<D::Row<'_>>, Error>> {
        if !self.has_row() && !ready!(self.poll_packed(cx))? {
            return Poll::Ready(Ok(None));
        }
        Poll::Ready(Ok(Some(self.next_row())))
    }

    fn as_batches(&mut self, index: usize, columns: usize) -> Option<Schema> {
        let schema = D::as_batches(self.statements.get(index)?, columns);
        if schema.is_some() {
            self.batches = Some((index, columns));
        }
        schema
    }

    fn poll_batch(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<crate::Batch<'_, D::Row<'_>>>, Error>> {
        if !self.has_row() && !ready!(self.poll_packed(cx))? {
            return Poll::Ready(Ok(None));
        }
        Poll::Ready(Ok(Some(self.next_batch())))
    }

    fn execute_interleaved(&mut self, runs: &[(usize, Vec<&ParamValue>)]) {
        self.begin_interleaved(runs);
    }

    #[inline]
    fn poll_row_of(&mut self, which: usize, cx: &mut Context<'_>) -> Poll<Result<Option<D::Row<'_>>, Error>> {
        self.poll_interleaved(which, cx)
    }
}

impl<D: Driver> Session<D> {
    /// Makes a session with an open connection.
    pub(super) fn new(
        shared: &Arc<SourceState<D>>,
        place: Lease<Connection<D>>,
        connection: Connection<D>,
        snapshot: Snapshot,
    ) -> Self {
        Self {
            held: Some(ReturningConnection { place, connection }),
            shared: Arc::clone(shared),
            snapshot,
            phase: Phase::Ready,
            statements: Vec::new(),
            current: 0,
            leaves_state: false,
            batches: None,
            batch: None,
            at: 0,
            interleaved: InterleavedStatements::none(),
        }
    }

    /// Records that its connection is being opened.
    pub(super) fn is_asking(&mut self) {
        self.phase = Phase::Asking;
    }

    /// Records that its connection is open.
    pub(super) fn is_open(&mut self) {
        self.phase = Phase::Ready;
        self.held.iter().for_each(|held| held.place.opened());
    }

    pub(super) fn link(&self) -> &WorkerLink<D> {
        self.held().connection.link()
    }

    /// How long its connection can be idle.
    pub(super) fn idle_timeout(&self) -> Duration {
        self.held().place.idle_timeout()
    }

    fn held(&self) -> &ReturningConnection<D> {
        self.held.as_ref().expect("a session holds its connection until it is dropped")
    }

    async fn describe(&mut self, statement: &Statement) -> Result<Arc<StatementDescription<D::Plan>>, Error> {
        self.phase = Phase::Asking;
        self.link().send(Command::Describe(statement.clone()));
        let reply = poll_fn(|cx| self.link().poll_reply(cx)).await;
        // If a statement can't be prepared, the session is still usable; `check` continues with the
        // next one.
        self.phase = Phase::Ready;
        match reply {
            WorkerReply::Described(described) => Ok(described),
            WorkerReply::Failed(error) => Err(error),
            WorkerReply::Opened | WorkerReply::Rows(_) | WorkerReply::LookedUp(_) => Err(out_of_order::<D>()),
        }
    }

    /// Runs lookups, one after the other. If this fails or is dropped, the session must be dropped.
    pub(super) async fn look_up(
        &mut self,
        requests: Vec<LookupRequest<D>>,
    ) -> Result<Vec<LookupOutcome>, Error> {
        self.phase = Phase::Asking;
        self.link().send(Command::LookUp(requests));
        match poll_fn(|cx| self.link().poll_reply(cx)).await {
            WorkerReply::LookedUp(outcomes) => {
                self.phase = Phase::Ready;
                Ok(outcomes)
            }
            WorkerReply::Failed(error) => Err(error),
            WorkerReply::Opened | WorkerReply::Described(_) | WorkerReply::Rows(_) => {
                Err(out_of_order::<D>())
            }
        }
    }

    #[inline]
    fn has_row(&self) -> bool {
        self.batch.as_ref().is_some_and(|batch| self.at < batch.rows.len())
    }

    #[inline]
    fn next_row(&mut self) -> D::Row<'_> {
        let batch = self.batch.as_ref().expect("there is a row");
        let (values, next) = batch::row_at(&batch.rows, self.at);
        self.at = next;
        D::row(&self.statements[self.current], values)
    }

    /// Returns the next rows as a batch.
    fn next_batch(&mut self) -> crate::Batch<'_, D::Row<'_>> {
        let batch = self.batch.as_ref().expect("there are rows");
        let (packed, next) = batch::row_at(&batch.rows, self.at);
        self.at = next;
        D::batch(&self.statements[self.current], packed)
    }

    /// Takes the next batch once the last one has been read. Returns false after the last row.
    #[cold]
    fn poll_packed(&mut self, cx: &mut Context<'_>) -> Poll<Result<bool, Error>> {
        loop {
            if let Some(ended) = self.end_batch() {
                return Poll::Ready(ended.map(|()| false));
            }
            match ready!(self.link().poll_reply(cx)) {
                WorkerReply::Rows(batch) => (self.batch, self.at) = (Some(batch), 0),
                WorkerReply::Failed(error) => self.phase = Phase::Failed(Some(error)),
                WorkerReply::Opened | WorkerReply::Described(_) | WorkerReply::LookedUp(_) => {
                    self.phase = Phase::Failed(Some(out_of_order::<D>()));
                }
            }
            if self.has_row() {
                return Poll::Ready(Ok(true));
            }
        }
    }

    /// Gives the batch back after reading it. Returns the statement's result if it has ended.
    fn end_batch(&mut self) -> Option<Result<(), Error>> {
        if let Some(RowBatch { rows, end }) = self.batch.take() {
            match end {
                None => self.link().give_spare(rows),
                Some(end) => {
                    self.link().give_last(rows);
                    self.phase = end.map_or_else(|error| Phase::Failed(Some(error)), |()| Phase::Ready);
                }
            }
        }
        match &mut self.phase {
            Phase::Ready => Some(Ok(())),
            Phase::Asking => Some(Err(out_of_order::<D>())),
            Phase::Failed(error) => Some(Err(error.take().unwrap_or_else(out_of_order::<D>))),
            Phase::Streaming => None,
        }
    }
}

impl<D: Driver> Drop for Session<D> {
    /// Leaves the connection to the worker, which stops its statement, cleans up, and returns the
    /// connection. If there's nothing to stop or to clean up, returns it at once (invariant 4 of
    /// the hand-over).
    fn drop(&mut self) {
        let Some(leaving) = self.held.take() else { return };
        match (&self.phase, self.snapshot) {
            (Phase::Ready, Snapshot::Statement) if !self.leaves_state => leaving.give_back(),
            _ => WorkerLink::leave(leaving),
        }
    }
}

/// The caller used a wrong order of calls: a bug of ours, never a user's error.
pub(super) fn out_of_order<D: Driver>() -> Error {
    let database = D::DIALECT.name;
    Error::protocol(format!("the calls of a {database} session arrived in the wrong order"))
}
