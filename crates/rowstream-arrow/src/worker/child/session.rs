//! A connection that is opened again after it has died.
//!
//! An idle connection in the pool dies with its database, or when a proxy or an operator ends it.
//! Its driver notices when the next request uses it. We serve that request on a new connection if
//! the client can't see the difference: before its first row, and before a transaction has read
//! anything. We do the same for the databases whose protocols we implement.
//!
//! A failure that may affect more than its statement also closes the connection. MariaDB's driver
//! would otherwise continue to read in the middle of a row, as long as we ask.

use arrow_schema::Schema;
use rowstream_core::sql::Dialect;

use super::super::dialect::may_run_twice;
use super::super::frame::{Failed, Fault};
use super::{ChildConnection, EndReason, Run, Transaction};
use crate::arrow_rows::Argument;

/// A driver's connection that can die.
pub(super) trait MortalConnection: ChildConnection {
    /// The SQL of its statements.
    const DIALECT: &'static Dialect;

    /// Returns true if the connection must not be used after this failure.
    fn may_be_dead(failed: &Failed) -> bool {
        failed.is_of_connection()
    }

    /// Runs `select 1`, so that the driver notices if the connection has died. Databases that don't
    /// know the statement answer with an error, which is ignored.
    ///
    /// # Errors
    /// The connection has died.
    fn ping(&mut self) -> Result<(), Failed>;
}

/// A connection of the server, with the driver's connection.
pub(super) struct Session<C> {
    /// Opens a connection.
    open: Box<dyn Fn() -> Result<C, Failed>>,
    /// `None`: the last one was closed after a failure.
    connection: Option<C>,
    transaction: Transaction,
}

impl<C: MortalConnection> Session<C> {
    /// Connects.
    ///
    /// # Errors
    /// Those of `open`.
    pub(super) fn open(open: impl Fn() -> Result<C, Failed> + 'static) -> Result<Self, Failed> {
        let connection = Some(open()?);
        Ok(Self { open: Box::new(open), connection, transaction: Transaction::None })
    }

    /// Calls the driver. If the connection has died since it was last used, calls it again on a new
    /// one, unless `can_repeat` forbids it.
    fn call<T>(
        &mut self,
        call: impl Fn(&mut C) -> Result<T, EndReason>,
        can_repeat: impl Fn() -> bool,
    ) -> Result<T, EndReason> {
        let was_open = self.connection.is_some();
        let ended = match self.call_once(&call) {
            Err(EndReason::Failed(failed))
                if was_open
                    && failed.is_of_connection()
                    && self.transaction != Transaction::Reading
                    && can_repeat() =>
            {
                self.call_once(&call)
            }
            ended => ended,
        };
        ended.map_err(|ended| self.transaction.failure(ended))
    }

    fn call_once<T>(&mut self, call: impl Fn(&mut C) -> Result<T, EndReason>) -> Result<T, EndReason> {
        let ended = call(self.connection()?);
        if let Err(EndReason::Failed(failed)) = &ended
            && C::may_be_dead(failed)
        {
            self.connection = None;
        }
        ended
    }

    /// Returns the connection. Opens it again if it was closed.
    fn connection(&mut self) -> Result<&mut C, Failed> {
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.open_again()?,
        };
        Ok(self.connection.insert(connection))
    }

    fn open_again(&self) -> Result<C, Failed> {
        if self.transaction == Transaction::Reading {
            let message = "the connection was lost, and its transaction with it".to_owned();
            return Err(Failed { fault: Fault::Connection, message, sqlstate: None });
        }
        let opened = (self.open)();
        let mut connection = opened.map_err(|failed| Failed { fault: Fault::Login, ..failed })?;
        if self.transaction == Transaction::Begun {
            connection.begin()?;
        }
        Ok(connection)
    }
}

impl<C: MortalConnection> ChildConnection for Session<C> {
    fn describe(&mut self, sql: &str, arguments: &[Argument]) -> Result<Schema, Failed> {
        let described = self.call(|connection| Ok(connection.describe(sql, arguments)?), || true);
        described.map_err(EndReason::failed)
    }

    /// A statement that may write never runs twice. We test the connection before it instead. If it
    /// reports a refused login after that, it may have run, so the server must not repeat it either.
    fn execute(&mut self, sql: &str, arguments: &[Argument], run: &Run<'_>) -> Result<(), EndReason> {
        let may_run_twice = may_run_twice(sql, C::DIALECT);
        if !may_run_twice && self.transaction != Transaction::Reading {
            self.call(|connection| Ok(connection.ping()?), || true)?;
        }
        let ended = self.call(
            |connection| connection.execute(sql, arguments, run),
            || may_run_twice && run.can_begin_again(),
        );
        let ended = ended.map_err(|ended| match ended {
            EndReason::Failed(failed) if !may_run_twice && failed.fault == Fault::Login => {
                EndReason::Failed(Failed { fault: Fault::Connection, ..failed })
            }
            ended => ended,
        });
        if !matches!(&ended, Err(EndReason::Failed(failed)) if failed.fault == Fault::Login) {
            self.transaction.has_run();
        }
        ended
    }

    fn begin(&mut self) -> Result<(), Failed> {
        let begun = self.call(|connection| Ok(connection.begin()?), || true);
        begun.map_err(EndReason::failed)?;
        self.transaction = Transaction::Begun;
        Ok(())
    }

    /// A closed connection has nothing to roll back.
    fn roll_back(&mut self) -> Result<(), Failed> {
        self.transaction = Transaction::None;
        self.connection.as_mut().map_or(Ok(()), C::roll_back)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::os::unix::net::UnixStream;
    use std::rc::Rc;

    use super::super::super::dialect;
    use super::super::CurrentStatement;
    use super::*;

    /// A database whose calls have these results, from the last to the first. Later calls succeed.
    #[derive(Default)]
    struct Database {
        faults: RefCell<Vec<Option<Fault>>>,
        calls: RefCell<Vec<String>>,
    }

    impl Database {
        fn call(&self, name: &str) -> Result<(), Failed> {
            self.calls.borrow_mut().push(name.to_owned());
            match self.faults.borrow_mut().pop().flatten() {
                Some(fault) => Err(Failed { fault, message: String::new(), sqlstate: None }),
                None => Ok(()),
            }
        }
    }

    struct Connection(Rc<Database>);

    impl ChildConnection for Connection {
        fn describe(&mut self, sql: &str, _: &[Argument]) -> Result<Schema, Failed> {
            self.0.call(sql).map(|()| Schema::empty())
        }

        fn execute(&mut self, sql: &str, _: &[Argument], _: &Run<'_>) -> Result<(), EndReason> {
            Ok(self.0.call(sql)?)
        }

        fn begin(&mut self) -> Result<(), Failed> {
            self.0.call("begin")
        }

        fn roll_back(&mut self) -> Result<(), Failed> {
            self.0.call("rollback")
        }
    }

    impl MortalConnection for Connection {
        const DIALECT: &'static Dialect = &dialect::COMMON;

        fn ping(&mut self) -> Result<(), Failed> {
            self.0.call("ping")
        }
    }

    /// Runs a statement on an open connection. Asserts the calls of its database, which have the
    /// results `faults`, and the fault that we report.
    fn check(sql: &str, faults: &[Option<Fault>], calls: &str, fault: Option<Fault>) {
        let database = Rc::new(Database::default());
        let opened = Rc::clone(&database);
        let open = move || opened.call("open").map(|()| Connection(Rc::clone(&opened)));
        let mut session = Session::open(open).expect("it opens");
        database.calls.borrow_mut().clear();
        database.faults.borrow_mut().extend(faults.iter().rev());
        let (socket, _server) = UnixStream::pair().expect("a pair of sockets");
        let running = CurrentStatement::default();
        let (socket, running, has_rows) = (&socket, &running, Cell::new(false));
        let run = Run { socket, running, before: 0, fetch_bytes: 0, has_rows };
        let reported = session.execute(sql, &[], &run).err().map(|ended| ended.failed().fault);
        assert_eq!((database.calls.borrow().join(", "), reported), (calls.to_owned(), fault), "{sql}");
    }

    const LOST: Option<Fault> = Some(Fault::Connection);
    const EXPIRED: Option<Fault> = Some(Fault::Login);

    /// PostgreSQL's driver of ADBC reports a lost connection like most errors. `insert … returning`
    /// ran twice if the connection was lost after its commit.
    #[test]
    fn a_statement_that_may_write_runs_once() {
        check("select 1", &[LOST], "select 1, open, select 1", None);
        check("select 1", &[LOST, None, LOST], "select 1, open, select 1", LOST);
        let refused = Some(Fault::Statement);
        check("select 1", &[refused], "select 1", refused);
        for sql in ["call pay()", "insert into paid values (1) returning n"] {
            check(sql, &[], &format!("ping, {sql}"), None);
            check(sql, &[LOST], &format!("ping, open, ping, {sql}"), None);
            check(sql, &[None, LOST], &format!("ping, {sql}"), LOST);
            check(sql, &[None, EXPIRED], &format!("ping, {sql}"), LOST);
            check(sql, &[LOST, LOST], "ping, open", EXPIRED);
        }
    }

    /// The driver of Flight SQL reports an expired session as a refused login. Its connection remained
    /// in the pool, and each of its requests failed.
    #[test]
    fn an_expired_session_is_replaced() {
        check("select 1", &[EXPIRED], "select 1, open, select 1", None);
        check("call pay()", &[EXPIRED], "ping, open, ping, call pay()", None);
        // The server looks for other credentials.
        check("select 1", &[EXPIRED, LOST], "select 1, open", EXPIRED);
        check("select 1", &[EXPIRED, None, EXPIRED], "select 1, open, select 1", EXPIRED);
    }
}
