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

use super::super::frame::{Failed, Fault};
use super::{ChildConnection, EndReason, Run, Transaction};
use crate::arrow_rows::Argument;

/// A driver's connection that can die.
pub(super) trait MortalConnection: ChildConnection {
    /// Returns true if the connection must not be used after this failure.
    fn may_be_dead(failed: &Failed) -> bool {
        failed.fault == Fault::Connection
    }

    /// Returns true if a statement calls a procedure, which may write.
    fn is_call(_sql: &str) -> bool {
        false
    }

    /// Tests the connection before a call.
    ///
    /// # Errors
    /// The connection has died.
    fn ping(&mut self) -> Result<(), Failed> {
        Ok(())
    }
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
                    && failed.fault == Fault::Connection
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

    /// A procedure may write, so we never call it twice. We test the connection before the call
    /// instead.
    fn execute(&mut self, sql: &str, arguments: &[Argument], run: &Run<'_>) -> Result<(), EndReason> {
        let is_call = C::is_call(sql);
        if is_call && self.transaction != Transaction::Reading {
            self.call(|connection| Ok(connection.ping()?), || true)?;
        }
        let ended = self
            .call(|connection| connection.execute(sql, arguments, run), || !is_call && run.can_begin_again());
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
