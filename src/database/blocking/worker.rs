//! The thread of one connection: it opens the connection, serves session after session, and closes
//! it.

mod interleaved;
mod lookups;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;

use super::filling::{self, Peer as _, Stop};
use super::handover::{Command, Link, Reply, Work};
use super::lookups::Slow;
use super::{Described, Driver, DriverConnection as _, DriverRows as _, Failure, Shared};
use crate::database::Statement;
use rowstream_core::Error;
use rowstream_core::error::STATEMENT_TIMEOUT;

/// Starts the thread of a new connection, which answers `Opened` or `Failed` first.
///
/// # Errors
/// The system has no thread left.
pub(super) fn spawn<D: Driver>(shared: &Arc<Shared<D>>) -> std::io::Result<Arc<Link<D>>> {
    let link = Arc::new(Link::new());
    let (worker, shared) = (Arc::clone(&link), Arc::clone(shared));
    std::thread::Builder::new()
        .name(format!("{} {}", D::DIALECT.urls.schemes[0], shared.name))
        .spawn(move || run(&worker, &shared))?;
    Ok(link)
}

/// The thread. A panic ends the connection and nothing else: the driver's types are dropped by the
/// unwinding, and the hand-over has no half-done states.
fn run<D: Driver>(link: &Arc<Link<D>>, shared: &Shared<D>) {
    filling::bind(link, &shared.running);
    let ended = catch_unwind(AssertUnwindSafe(|| match shared.driver.connect() {
        Ok(connection) => {
            link.opened(connection.interrupt());
            let worker = Worker { link, shared, connection: &connection };
            while worker.serve() {}
        }
        Err(error) => link.reply(Reply::Failed(error)),
    }));
    // The panic's own message is on stderr already, from the panic hook.
    drop(ended);
    link.die();
}

/// A worker with its open connection.
struct Worker<'a, D: Driver> {
    link: &'a Link<D>,
    shared: &'a Shared<D>,
    connection: &'a D::Connection,
}

impl<D: Driver> Worker<'_, D> {
    /// Serves one session. Whether there can be a next one.
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
                Ok(described) => Reply::Described(described),
                Err(error) => Reply::Failed(error),
            }),
            Command::Execute { statement, args, transaction, batches } => {
                self.execute(&statement, &args, (transaction, batches));
            }
            Command::LookUp(questions) => {
                let outcomes = questions.iter().map(|question| self.look_up(question)).collect();
                self.link.reply(Reply::LookedUp(outcomes));
            }
            // Those that are interleaved have ended: their session has to know.
            Command::Interleave(..) | Command::Fetch(_) => {
                self.link.reply(Reply::Failed(Error::protocol("no statements are interleaved")));
            }
        }
    }

    /// What the database says of a statement, for this session and those to come.
    fn describe(&self, statement: &Statement) -> Result<Arc<Described<D::Plan>>, Error> {
        let (columns, plan) = self.connection.describe(statement)?;
        let (sql, placeholders) = (Arc::clone(&statement.sql), statement.types.len());
        let described = Arc::new(Described { sql, placeholders, columns, plan, slow: Slow::default() });
        self.shared.known.learn(&described);
        Ok(described)
    }

    /// Runs a statement to its end, or to the session's. Its rows go to the session, and how it
    /// ended.
    fn execute(&self, described: &Described<D::Plan>, args: &[D::Argument], how: (bool, Option<usize>)) {
        let _run = filling::start(&self.shared.running, self.shared.statement_timeout);
        match self.stream(described, args, how) {
            Ok(()) => filling::finish(Ok(())),
            Err(Stop::Failed(error)) => filling::finish(Err(error)),
            Err(Stop::Abandoned) => {}
        }
    }

    /// The step loop. The statement is reset, and its locks are gone, when this returns.
    fn stream(
        &self,
        described: &Described<D::Plan>,
        args: &[D::Argument],
        (transaction, batches): (bool, Option<usize>),
    ) -> Result<(), Stop> {
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

    fn begin(&self) -> Result<(), Stop> {
        self.connection.begin().map_err(|error| self.why(error))
    }

    fn compile<'c>(
        &'c self,
        described: &Described<D::Plan>,
        args: &[D::Argument],
    ) -> Result<<D::Connection as super::DriverConnection>::Statement<'c>, Stop> {
        self.connection.compile(described, args).map_err(|failure| self.stop(failure, described))
    }

    /// Why the statement stopped.
    #[cold]
    fn stop(&self, failure: Failure, described: &Described<D::Plan>) -> Stop {
        self.why(match failure {
            Failure::Failed(error) => error,
            Failure::Outdated(error) => {
                self.shared.known.forget(&described.sql);
                error
            }
        })
    }

    /// The same: what was interrupted failed for a reason that the library does not know.
    #[cold]
    fn why(&self, error: Error) -> Stop {
        if self.link.abandoned() {
            return Stop::Abandoned;
        }
        Stop::Failed(match (filling::expired(), self.shared.statement_timeout) {
            (true, Some(timeout)) => timed_out(&self.shared.name, timeout),
            _ => error,
        })
    }

    /// Makes the connection ready for its next session. Whether it is: a transaction that cannot be
    /// ended would show the next session an old state of the data.
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
