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

use super::filling::{self, Peer as _, Stop};
use super::handover::{Command, Link, Reply, Work};
use super::lookups::Slow;
use super::{Described, Driver, DriverConnection as _, DriverRows as _, Failure, Shared};
use crate::Statement;

/// Starts the thread of a new connection. Its first reply is `Opened` or `Failed`.
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

/// Runs the thread. A panic ends only this connection: unwinding drops the driver's types, and the
/// hand-over has no half-done states.
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
    // The panic hook has already written the message to stderr.
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
            // The interleaved statements have ended, which the session should have known.
            Command::Interleave(..) | Command::Fetch(_) => {
                self.link.reply(Reply::Failed(Error::protocol("no statements are interleaved")));
            }
        }
    }

    /// Describes a statement, for this session and later ones.
    fn describe(&self, statement: &Statement) -> Result<Arc<Described<D::Plan>>, Error> {
        let (columns, plan) = self.connection.describe(statement)?;
        let (sql, placeholders) = (Arc::clone(&statement.sql), statement.types.len());
        let described = Arc::new(Described { sql, placeholders, columns, plan, slow: Slow::default() });
        self.shared.known.learn(&described);
        Ok(described)
    }

    /// Runs a statement until it or its session ends. Sends its rows and its result to the session.
    fn execute(&self, described: &Described<D::Plan>, args: &[D::Argument], how: (bool, Option<usize>)) {
        let _run = filling::start(&self.shared.running, self.shared.statement_timeout);
        match self.stream(described, args, how) {
            Ok(()) => filling::finish(Ok(())),
            Err(Stop::Failed(error)) => filling::finish(Err(error)),
            Err(Stop::Abandoned) => {}
        }
    }

    /// Steps through the rows. On return, the statement is reset and its locks are released.
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

    /// The reason why the statement stopped.
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

    /// Maps an error to its reason. An interrupted call failed for a reason that the library
    /// doesn't know.
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
