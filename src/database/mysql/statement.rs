//! Prepared statements: their cache on a connection, and the command that runs one.

use std::sync::Arc;

use rowstream_encode::Column;

use super::super::statements::Statements;
use super::bind;
use super::value::Decoder;
use super::wire::Wire;
use crate::Error;
use crate::params::ParamValue;
use crate::sql::LimitPart;

const COM_STMT_EXECUTE: u8 = 23;
const COM_STMT_CLOSE: u8 = 25;
const COM_STMT_FETCH: u8 = 28;

/// How the rows of a statement come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cursor {
    /// All in one, as they are found.
    None,
    /// By [`Prepared::fetch`], from a table that the server has put them into.
    ReadOnly,
}

/// A statement that the server has prepared on one connection.
#[derive(Debug)]
pub(super) struct Prepared {
    /// Its number on the server.
    pub(super) id: u32,
    pub(super) sql: Arc<str>,
    pub(super) columns: Arc<[Column]>,
    /// One for each column.
    pub(super) decoders: Box<[Decoder]>,
    /// Whether it calls a procedure, whose columns are known when it has been called.
    pub(super) is_call: bool,
    /// How many placeholders it has.
    pub(super) parameters: usize,
    /// The placeholders that are all of a limit or of an offset, from 0.
    pub(super) limits: Box<[(usize, LimitPart)]>,
}

impl Prepared {
    /// The command that runs it.
    ///
    /// # Errors
    /// There are not as many arguments as placeholders.
    pub(super) fn execute(&self, args: &[&ParamValue], cursor: Cursor) -> Result<Vec<u8>, Error> {
        if args.len() != self.parameters {
            return Err(Error::endpoint(
                "the statement has another number of placeholders than of arguments",
            ));
        }
        let mut command = vec![COM_STMT_EXECUTE];
        command.extend_from_slice(&self.id.to_le_bytes());
        command.push(match cursor {
            Cursor::None => 0,
            Cursor::ReadOnly => 1,
        });
        // How often.
        command.extend_from_slice(&1_u32.to_le_bytes());
        bind::write(args, &self.limits, &mut command);
        Ok(command)
    }

    /// The command for the next so many rows of its cursor.
    pub(super) fn fetch(&self, rows: i32) -> [u8; 9] {
        let mut command = [COM_STMT_FETCH; 9];
        command[1..5].copy_from_slice(&self.id.to_le_bytes());
        command[5..].copy_from_slice(&rows.to_le_bytes());
        command
    }
}

/// The prepared statements of one connection.
#[derive(Debug)]
pub(super) struct StatementCache(Statements<Prepared>);

impl StatementCache {
    pub(super) fn new(limit: usize) -> Self {
        Self(Statements::new(limit))
    }

    pub(super) fn get(&mut self, sql: &str) -> Option<Arc<Prepared>> {
        self.0.get(sql)
    }

    /// Keeps a statement; those that have to go are closed on the server with the next command.
    pub(super) fn insert(&mut self, prepared: Arc<Prepared>, wire: &mut Wire) {
        let sql = Arc::clone(&prepared.sql);
        self.0.insert(&sql, prepared, |gone| close(gone.id, wire));
    }

    /// Forgets a statement, and closes it on the server with the next command. No answer may be on
    /// its way.
    pub(super) fn remove(&mut self, sql: &str, wire: &mut Wire) {
        if let Some(gone) = self.0.remove(sql) {
            close(gone.id, wire);
        }
    }
}

/// Closes a statement on the server, with the next command.
pub(super) fn close(id: u32, wire: &mut Wire) {
    let mut command = [COM_STMT_CLOSE; 5];
    command[1..].copy_from_slice(&id.to_le_bytes());
    wire.command_without_answer(&command);
}
