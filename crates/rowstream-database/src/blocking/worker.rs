//! The thread of one connection. It opens the connection, serves one session after another, and
//! closes the connection.

mod interleaved;
mod lookups;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use rowstream_core::Error;
use rowstream_core::error::STATEMENT_TIMEOUT;
use tokio::runtime::Handle;

use super::filling::{self, BatchReceiver as _, StopReason};
use super::handover::{Command, Work, WorkerLink, WorkerReply};
use super::lookups::DelayMark;
use super::{Driver, DriverConnection as _, DriverRows as _, Failure, SourceState, StatementDescription};
use crate::Statement;

/// Starts the thread of a new connection. Its first reply is `Opened` or `Failed`.
///
/// # Errors
/// The system has no thread left.
pub(super) fn spawn<D: Driver>(shared: &Arc<SourceState<D>>) -> std::io::Result<Arc<WorkerLink<D>>> {
    let link = Arc::new(WorkerLink::new());
    let (worker, shared) = (Arc::clone(&link), Arc::clone(shared));
    // Some drivers need it to read a password.
    let runtime = Handle::try_current();
    std::thread::Builder::new().name(format!("{} {}", D::DIALECT.urls.schemes[0], shared.name)).spawn(
        move || {
            let _entered = runtime.as_ref().map(Handle::enter);
            run(&worker, &shared);
        },
    )?;
    Ok(link)
}

/// Runs the thread. A panic ends only this connection: unwinding drops the driver's types, and the
/// hand-over has no half-done states.
fn run<D: Driver>(link: &Arc<WorkerLink<D>>, shared: &SourceState<D>) {
    filling::bind(link, &shared.running);
    let ended = catch_unwind(AssertUnwindSafe(|| match shared.driver.connect() {
        Ok(connection) => {
            link.opened(connection.interrupt());
            let worker = Worker { link, shared, connection: &connection };
            while worker.serve() {}
        }
        Err(error) => link.reply(WorkerReply::Failed(error)),
    }));
    // The panic hook has already written the message to stderr.
    drop(ended);
    link.die();
}

/// A worker with its open connection.
struct Worker<'a, D: Driver> {
    link: &'a WorkerLink<D>,
    shared: &'a SourceState<D>,
    connection: &'a D::Connection,
}

impl<D: Driver> Worker<'_, D> {
    /// Serves one session. Returns true if the connection can serve another.
    fn serve(&self) -> bool {
        let mut work = self.link.next();
        loop {
            work = match work {
                Work::Command(Command::Interleave(runs, first)) => self.interleave(&runs, first),
                Work::Command(command) => {
                    self.obey(command);
                    self.link.next()
                }
                Work::Close => return false,
                Work::Leave(leaving) => {
                    let clean = self.clean_up();
                    if clean {
                        leaving.give_back();
                    }
                    return clean;
                }
            }
        }
    }

    fn obey(&self, command: Command<D>) {
        match command {
            Command::Describe(statement) => self.link.reply(match self.describe(&statement) {
                Ok(described) => WorkerReply::Described(described),
                Err(error) => WorkerReply::Failed(error),
            }),
            Command::Execute { statement, args, transaction, batches } => {
                self.execute(&statement, &args, transaction, batches);
            }
            Command::LookUp(requests) => {
                let outcomes = requests.iter().map(|request| self.look_up(request)).collect();
                self.link.reply(WorkerReply::LookedUp(outcomes));
            }
            // The interleaved statements have ended, which the session should have known.
            Command::Interleave(..) | Command::Fetch(_) => {
                self.link.reply(WorkerReply::Failed(Error::protocol("no statements are interleaved")));
            }
        }
    }

    /// Describes a statement, for this session and later ones.
    fn describe(&self, statement: &Statement) -> Result<Arc<StatementDescription<D::Plan>>, Error> {
        let (columns, plan) = self.connection.describe(statement)?;
        let described = Arc::new(StatementDescription {
            leaves_state: D::leaves_state(&statement.sql),
            statement: statement.clone(),
            columns,
            plan,
            slow: DelayMark::default(),
        });
        if !statement.ad_hoc {
            self.shared.statements.learn(&described);
        }
        Ok(described)
    }

    /// Runs a statement until it or its session ends. Sends its rows and its result to the session.
    fn execute(
        &self,
        described: &StatementDescription<D::Plan>,
        args: &[D::Argument],
        transaction: bool,
        batches: Option<usize>,
    ) {
        let _run = filling::start(&self.shared.running, self.shared.statement_timeout);
        match self.stream(described, args, transaction, batches) {
            Ok(()) => filling::finish(Ok(())),
            Err(StopReason::Failed(error)) => filling::finish(Err(error)),
            Err(StopReason::Abandoned) => {}
        }
    }

    /// Steps through the rows. On return, the statement is reset and its locks are released.
    fn stream(
        &self,
        described: &StatementDescription<D::Plan>,
        args: &[D::Argument],
        transaction: bool,
        batches: Option<usize>,
    ) -> Result<(), StopReason> {
        if transaction {
            self.begin()?;
        }
        let mut statement = self.compile(described, args)?;
        let mut rows = self.connection.rows(&mut statement, described);
        if let Some(columns) = batches {
            rows.as_batches(columns)?;
        }
        let limit = self.shared.max_row_bytes;
        let mut is_row = rows.first().map_err(|failure| self.stop(failure, described))?;
        while is_row {
            filling::push(|batch| rows.pack(limit, batch))?;
            is_row = rows.next().map_err(|failure| self.stop(failure, described))?;
        }
        Ok(())
    }

    fn begin(&self) -> Result<(), StopReason> {
        self.connection.begin().map_err(|error| self.why(error))
    }

    fn compile<'c>(
        &'c self,
        described: &StatementDescription<D::Plan>,
        args: &[D::Argument],
    ) -> Result<<D::Connection as super::DriverConnection>::Statement<'c>, StopReason> {
        self.connection.compile(described, args).map_err(|failure| self.stop(failure, described))
    }

    /// The reason why the statement stopped.
    #[cold]
    fn stop(&self, failure: Failure, described: &StatementDescription<D::Plan>) -> StopReason {
        self.why(match failure {
            Failure::Failed(error) => error,
            Failure::Outdated(error) => {
                self.shared.statements.forget(&described.statement);
                error
            }
        })
    }

    /// Maps an error to its reason. An interrupted call failed for a reason that the library
    /// doesn't know.
    #[cold]
    fn why(&self, error: Error) -> StopReason {
        if self.link.abandoned() {
            return StopReason::Abandoned;
        }
        StopReason::Failed(match (filling::expired(), self.shared.statement_timeout) {
            (true, Some(timeout)) => timed_out(&self.shared.name, timeout),
            _ => error,
        })
    }

    /// Makes the connection ready for its next session. Returns false if the transaction couldn't
    /// be ended: the next session would read an old state of the data.
    fn clean_up(&self) -> bool {
        filling::rest();
        self.connection.clean_up()
    }
}

/// A statement ran longer than `statement_timeout`.
fn timed_out(source: &str, timeout: Duration) -> Error {
    Error::new(
        STATEMENT_TIMEOUT,
        StatusCode::GATEWAY_TIMEOUT,
        format!("the statement ran longer than {timeout:?} in source `{source}`"),
    )
    .hint("`statement_timeout` of the source is the limit")
}
