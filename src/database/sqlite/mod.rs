//! SQLite: a file that is read in this process.
//!
//! SQLite's library blocks, so each connection lives on a thread of its own, the worker
//! ([`worker`]). Between it and the session stands one bounded hand-over ([`handover`]): two
//! batches of packed rows ([`batch`]), so that a client that does not read stops the worker, and
//! what a stream holds is two batches: about 72 KB when many streams run, 270 KB when few do,
//! unless a row is larger ([`filling`]).
//!
//! The worker only steps and copies; what the values mean ([`plan`]) is decided where they are
//! read. So the two threads share the work, and the worker, which is the bound, has the lesser part
//! of it.

mod batch;
mod bind;
mod changes;
mod create;
mod dialect;
mod fault;
mod filling;
mod handover;
mod known;
pub(crate) mod plan;
mod probe;
mod rows;
#[cfg(test)]
mod tests;
mod turns;
mod worker;

use std::future::poll_fn;
use std::path::PathBuf;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rowstream_encode::{Column, RowWriter};

pub use self::changes::Changes;
pub use self::dialect::DIALECT;
pub use self::handover::Connection;
pub use self::probe::Probe;

use self::filling::Running;
use self::handover::{Batch, Command, Leaving, Link, Reply};
use self::known::{Described, Known};
use self::plan::Plan;
use self::turns::Turns;
use super::{Database, DatabaseRow, DatabaseSession, NoAnswer, RowLayout, Sizes, Snapshot, Statement};
use crate::Error;
use crate::params::ParamValue;
use crate::pool::{self, Lease, Patience, Pool, Priority};
use crate::settings::SourceSettings;
use crate::sql::Dialect;

/// A SQLite file with its pool.
#[derive(Clone)]
pub struct Source {
    pool: Pool<Connection>,
    settings: Arc<Settings>,
}

/// What a connection needs to know.
struct Settings {
    /// The source's name, for errors and the thread.
    source: String,
    path: PathBuf,
    statement_cache: usize,
    max_row_bytes: usize,
    statement_timeout: Option<Duration>,
    /// How much of the file is mapped into memory.
    mmap: usize,
    known: Known,
    running: Arc<Running>,
}

impl Settings {
    /// Begins to open a connection, whose first reply tells what came of it.
    fn open(self: &Arc<Self>) -> Result<Connection, Error> {
        worker::spawn(self).map(Connection::new).map_err(|error| {
            let source = &self.source;
            Error::source_unavailable(format!("no thread for a connection of source `{source}`")).cause(error)
        })
    }
}

impl Database for Source {
    type Connection = Connection;
    type Session = Session;
    type Answer = NoAnswer<Session>;
    type Changes = Changes;
    type Probe = Probe;

    const DIALECT: &'static Dialect = &DIALECT;
    const SIZES: Sizes = Sizes {
        // A thread, the page cache, the schema and compiled statements.
        idle: 512 * 1024,
        // Two batches, and twice the row in SQLite itself, as its record and as values.
        session: |row| {
            let own = worker::longest_value(row).saturating_mul(2);
            filling::LARGEST.saturating_add(row).saturating_mul(2).saturating_add(own)
        },
        portion: |row| filling::LARGEST.saturating_add(row),
    };

    /// Opens nothing: a file that is missing is an error of [`Database::acquire`], and may have
    /// come by then.
    fn open(config: &SourceSettings) -> Result<Self, Error> {
        if !config.url.starts_with("sqlite:") {
            return Err(Error::endpoint(format!("the URL of source `{}` is none of SQLite's", config.name)));
        }
        let settings = Settings {
            source: config.name.clone(),
            path: worker::path(&config.url),
            statement_cache: config.statement_cache,
            // The packed row's length is a u32.
            max_row_bytes: config.max_row_bytes.min(u32::MAX as usize),
            statement_timeout: config.statement_timeout,
            mmap: config.mmap,
            known: Known::new(config.statement_cache),
            running: Arc::default(),
        };
        Ok(Self { pool: Pool::new(&config.name, config.pool.clone()), settings: Arc::new(settings) })
    }

    fn create_missing(settings: &SourceSettings) -> Result<bool, Error> {
        create::create_missing(settings)
    }

    fn name(&self) -> &str {
        &self.settings.source
    }

    fn pool(&self) -> &Pool<Connection> {
        &self.pool
    }

    fn probe(&self) -> Probe {
        Probe::new(Arc::clone(&self.settings))
    }

    async fn acquire(
        &self,
        snapshot: Snapshot,
        priority: Priority,
        patience: Patience<'_>,
    ) -> Result<Session, Error> {
        let place = self.pool.acquire(priority, patience).await?;
        match place.take_idle().filter(|connection| !connection.link().is_dead()) {
            Some(connection) => Ok(self.session(connection, place, snapshot, Phase::Ready)),
            None => self.connect(place, snapshot).await,
        }
    }

    async fn changes(&self, _channel: Option<&str>, every: Duration) -> Result<Changes, Error> {
        Changes::new(Arc::clone(&self.settings), every).await
    }
}

impl Source {
    async fn connect(&self, place: Lease<Connection>, snapshot: Snapshot) -> Result<Session, Error> {
        let connection = self.settings.open()?;
        // A session from the start: dropped while the file is opened, it gives the connection to
        // the pool all the same.
        let mut session = self.session(connection, place, snapshot, Phase::Asking);
        match poll_fn(|cx| session.link().poll_reply(cx)).await {
            Reply::Failed(error) => Err(error),
            _ => {
                session.phase = Phase::Ready;
                session.held.iter().for_each(|held| held.place.opened());
                Ok(session)
            }
        }
    }

    fn session(
        &self,
        connection: Connection,
        place: Lease<Connection>,
        snapshot: Snapshot,
        phase: Phase,
    ) -> Session {
        Session {
            held: Some(Leaving { place, connection }),
            settings: Arc::clone(&self.settings),
            snapshot,
            phase,
            statements: Vec::new(),
            current: 0,
            batch: None,
            at: 0,
            turns: Turns::default(),
        }
    }

    /// What the pool holds.
    pub fn usage(&self) -> pool::Usage {
        self.pool.usage()
    }
}

/// One SQLite connection on its own thread, held by one response.
pub struct Session {
    /// `None` only while it is dropped.
    held: Option<Leaving>,
    settings: Arc<Settings>,
    snapshot: Snapshot,
    phase: Phase,
    statements: Vec<Arc<Described>>,
    /// The statement that was executed last.
    current: usize,
    /// The rows that are read, and where the next one begins.
    batch: Option<Batch>,
    at: usize,
    /// The statements that are read by turns.
    turns: Turns,
}

/// What a session waits for.
enum Phase {
    /// Nothing, and neither does the worker: the next statement may be prepared or executed.
    Ready,
    /// The connection, or what SQLite says of a statement.
    Asking,
    /// Rows.
    Streaming,
    /// Nothing any more: it failed, or its calls came in a wrong order, which the error says once.
    Failed(Option<Error>),
}

// The inherent methods of a session stand by subject in several files.
impl DatabaseSession for Session {
    type Row<'a> = Row<'a>;

    async fn prepare(&mut self, statement: &Statement) -> Result<Arc<[Column]>, Error> {
        self.prepare(statement).await
    }

    fn execute(&mut self, index: usize, args: &[&ParamValue]) {
        self.execute(index, args);
    }

    #[inline]
    fn poll_row(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Row<'_>>, Error>> {
        self.poll_row(cx)
    }

    fn execute_together(&mut self, runs: &[(usize, Vec<&ParamValue>)]) {
        self.execute_together(runs);
    }

    #[inline]
    fn poll_row_of(&mut self, which: usize, cx: &mut Context<'_>) -> Poll<Result<Option<Row<'_>>, Error>> {
        self.poll_row_of(which, cx)
    }
}

impl Session {
    fn link(&self) -> &Link {
        self.held.as_ref().expect("a session holds its connection until it is dropped").connection.link()
    }

    /// See [`crate::database::Session::prepare`].
    ///
    /// # Errors
    /// What SQLite says of the statement, with the place in its text; that it writes, or that its
    /// placeholders are not as many as its declared types.
    pub async fn prepare(&mut self, statement: &Statement) -> Result<Arc<[Column]>, Error> {
        if !matches!(self.phase, Phase::Ready) {
            return Err(out_of_order());
        }
        let known = self.settings.known.get(&statement.sql);
        let described = match known.filter(|known| known.placeholders == statement.types.len()) {
            Some(known) => known,
            None => self.describe(statement).await?,
        };
        let columns = Arc::clone(&described.columns);
        self.statements.push(described);
        Ok(columns)
    }

    async fn describe(&mut self, statement: &Statement) -> Result<Arc<Described>, Error> {
        self.phase = Phase::Asking;
        self.link().send(Command::Describe(statement.clone()));
        let reply = poll_fn(|cx| self.link().poll_reply(cx)).await;
        // A statement that cannot be prepared leaves the session as it was; `check` goes on with
        // the next one.
        self.phase = Phase::Ready;
        match reply {
            Reply::Described(described) => Ok(described),
            Reply::Failed(error) => Err(error),
            Reply::Opened | Reply::Rows(_) => Err(out_of_order()),
        }
    }

    /// See [`crate::database::Session::execute`].
    pub fn execute(&mut self, index: usize, args: &[&ParamValue]) {
        let (Phase::Ready, Some(statement)) = (&self.phase, self.statements.get(index)) else {
            self.phase = Phase::Failed(Some(out_of_order()));
            return;
        };
        let statement = Arc::clone(statement);
        self.phase = Phase::Streaming;
        self.current = index;
        self.link().send(Command::Execute {
            statement,
            args: args.iter().map(|arg| bind::value(arg)).collect(),
            transaction: self.snapshot == Snapshot::Transaction,
        });
    }

    /// See [`crate::database::Session::poll_row`].
    ///
    /// # Errors
    /// The statement failed, after the rows before.
    #[inline]
    pub fn poll_row(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Row<'_>>, Error>> {
        if !self.has_row() && !ready!(self.poll_batch(cx))? {
            return Poll::Ready(Ok(None));
        }
        Poll::Ready(Ok(Some(self.next_row())))
    }

    #[inline]
    fn has_row(&self) -> bool {
        self.batch.as_ref().is_some_and(|batch| self.at < batch.rows.len())
    }

    #[inline]
    fn next_row(&mut self) -> Row<'_> {
        let batch = self.batch.as_ref().expect("there is a row");
        let (values, next) = batch::row_at(&batch.rows, self.at);
        self.at = next;
        let Described { columns, plans, .. } = &*self.statements[self.current];
        Row { values, plans, columns }
    }

    /// Takes the next batch when the last one has been read. Whether it has a row.
    #[cold]
    fn poll_batch(&mut self, cx: &mut Context<'_>) -> Poll<Result<bool, Error>> {
        loop {
            if let Some(ended) = self.end_batch() {
                return Poll::Ready(ended.map(|()| false));
            }
            match ready!(self.link().poll_reply(cx)) {
                Reply::Rows(batch) => (self.batch, self.at) = (Some(batch), 0),
                Reply::Failed(error) => self.phase = Phase::Failed(Some(error)),
                Reply::Opened | Reply::Described(_) => self.phase = Phase::Failed(Some(out_of_order())),
            }
            if self.has_row() {
                return Poll::Ready(Ok(true));
            }
        }
    }

    /// Gives the batch that has been read back. How the statement ended, if it has.
    fn end_batch(&mut self) -> Option<Result<(), Error>> {
        if let Some(Batch { rows, end }) = self.batch.take() {
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
            Phase::Asking => Some(Err(out_of_order())),
            Phase::Failed(error) => Some(Err(error.take().unwrap_or_else(out_of_order))),
            Phase::Streaming => None,
        }
    }
}

impl Drop for Session {
    /// The worker stops what it runs, and gives the connection back once it is clean. When nothing
    /// runs and nothing is left to be cleaned up, the connection goes back at once (invariant 4 of
    /// the hand-over).
    fn drop(&mut self) {
        let Some(leaving) = self.held.take() else { return };
        match (&self.phase, self.snapshot) {
            (Phase::Ready, Snapshot::Statement) => leaving.give_back(),
            _ => Link::leave(leaving),
        }
    }
}

/// A caller that does not keep the order of calls: a fault of ours, never of a user.
fn out_of_order() -> Error {
    Error::protocol("the calls of a SQLite session came in a wrong order")
}

/// One row, in the batch that the worker handed over.
pub struct Row<'a> {
    values: &'a [u8],
    plans: &'a [Plan],
    columns: &'a [Column],
}

impl DatabaseRow for Row<'_> {
    type Layout = Layout;

    #[inline]
    fn encode(self, encoder: &mut impl RowWriter, out: &mut Vec<u8>) -> Result<(), Error> {
        let mut values = self.values;
        encoder.begin_row(out);
        for (i, plan) in self.plans.iter().enumerate() {
            match plan.value(batch::next_cell(&mut values)) {
                Ok(value) => encoder.value(value, out),
                Err(_) => return Err(not_utf8(&self.columns[i])),
            }
        }
        encoder.end_row(out);
        Ok(())
    }

    fn layout(&self) -> Layout {
        Layout { plans: self.plans.into(), columns: self.columns.into() }
    }

    fn bytes(&self) -> &[u8] {
        self.values
    }
}

/// What rows are read by that have left their batch.
pub struct Layout {
    plans: Box<[Plan]>,
    columns: Box<[Column]>,
}

impl RowLayout for Layout {
    type Row<'a> = Row<'a>;

    fn row<'a>(&'a mut self, values: &'a [u8]) -> Row<'a> {
        Row { values, plans: &self.plans, columns: &self.columns }
    }
}

#[cold]
fn not_utf8(column: &Column) -> Error {
    Error::bad_value(format!("a text in column `{}` is not UTF-8", column.name))
        .hint("select it as `cast(… as blob)` to see its bytes")
}
