//! Prepared statements: their cache on a connection, and the command that runs one.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::StatusCode;
use rowstream_core::Error;
use rowstream_core::error::INVALID_DATA;
use rowstream_core::lock::RwLock;
use rowstream_core::params::ParamValue;
use rowstream_core::sql::LimitPart;
use rowstream_database::pipeline::DelayRecord;
use rowstream_database::statements::Statements;
use rowstream_encode::Column;

use super::bind;
use super::routines::SessionEffect;
use super::value::{BitEncoding, Decoder};
use super::wire::Wire;

const COM_STMT_EXECUTE: u8 = 23;
const COM_STMT_CLOSE: u8 = 25;
const COM_STMT_FETCH: u8 = 28;

/// The delivery of a statement's rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cursor {
    /// All at once, as the server finds them.
    None,
    /// In portions, by [`Prepared::fetch`], from a table that the server has filled.
    ReadOnly,
}

/// The server's description of a statement. It's the same on all connections, until a migration.
#[derive(Debug)]
pub(super) struct StatementDescription {
    pub(super) sql: Arc<str>,
    pub(super) columns: Arc<[Column]>,
    /// One for each column.
    pub(super) decoders: Box<[Decoder]>,
    /// The server's packet for each column, so that we recognize the same column without parsing
    /// it.
    pub(super) packets: Box<[Box<[u8]>]>,
    /// True if it calls a procedure. Its columns are known only after the call.
    pub(super) is_call: bool,
    /// The number of its placeholders.
    pub(super) parameters: usize,
    /// The placeholders, counted from 0, that are a whole limit or a whole offset.
    pub(super) limits: Box<[(usize, LimitPart)]>,
    /// The encoding of a BIT that this statement computes.
    pub(super) computed_bits: BitEncoding,
    /// Its effect on its session.
    pub(super) effect: SessionEffect,
    /// True once the server has reported that it changed its session.
    pub(super) has_left_state: AtomicBool,
    /// Records when it delays other lookups.
    pub(super) slow: DelayRecord,
}

impl StatementDescription {
    /// Returns true if it uses functions or views that may change the session.
    pub(super) fn may_change(&self) -> bool {
        self.effect != SessionEffect::Nothing
    }

    /// Returns true if its connection has to be closed after it.
    pub(super) fn leaves_state(&self) -> bool {
        self.has_left_state.load(Ordering::Relaxed) || self.effect == SessionEffect::Unreported
    }
}

/// The statements of a source that connections have prepared.
#[derive(Debug, Default)]
pub(super) struct Descriptions(RwLock<HashMap<Arc<str>, Arc<StatementDescription>>>);

impl Descriptions {
    pub(super) fn get(&self, sql: &str) -> Option<Arc<StatementDescription>> {
        self.0.read().get(sql).cloned()
    }

    /// Keeps a description instead of another one of the same text. If a known description equals
    /// it, returns that one.
    pub(super) fn learn(&self, described: StatementDescription) -> Arc<StatementDescription> {
        let same = |known: &Arc<StatementDescription>| {
            known.columns == described.columns && known.decoders == described.decoders
        };
        if let Some(known) = self.get(&described.sql).filter(same) {
            return known;
        }
        let described = Arc::new(described);
        self.0.write().insert(Arc::clone(&described.sql), Arc::clone(&described));
        described
    }
}

/// A statement that the server has prepared on one connection.
#[derive(Debug)]
pub(super) struct Prepared {
    /// Its number on the server.
    pub(super) id: u32,
    pub(super) described: Arc<StatementDescription>,
}

impl Deref for Prepared {
    type Target = StatementDescription;

    #[inline]
    fn deref(&self) -> &StatementDescription {
        &self.described
    }
}

/// Appends the command that runs a statement. `id` is the statement's number on its connection.
///
/// # Errors
/// There are more or fewer arguments than placeholders, one for a limit is negative, a number is
/// too large, or a duration doesn't fit into a `time`.
pub(super) fn push_execute(
    statement: &StatementDescription,
    id: u32,
    args: &[&ParamValue],
    cursor: Cursor,
    command: &mut Vec<u8>,
) -> Result<(), Error> {
    if args.len() != statement.parameters {
        return Err(Error::endpoint("the numbers of placeholders and arguments differ"));
    }
    if statement.limits.iter().any(|(place, _)| is_negative(args[*place])) {
        return Err(negative_limit());
    }
    args.iter().try_for_each(|arg| arg.check_float())?;
    command.push(COM_STMT_EXECUTE);
    command.extend_from_slice(&id.to_le_bytes());
    command.push(match cursor {
        Cursor::None => 0,
        Cursor::ReadOnly => 1,
    });
    // The number of executions.
    command.extend_from_slice(&1_u32.to_le_bytes());
    bind::write(args, &statement.limits, command)
}

fn is_negative(arg: &ParamValue) -> bool {
    match arg {
        ParamValue::Integer(number) => *number < 0,
        ParamValue::Number(text) => text.starts_with('-'),
        _ => false,
    }
}

/// MariaDB treats such a limit as no limit at all.
#[cold]
fn negative_limit() -> Error {
    Error::new(INVALID_DATA, StatusCode::BAD_REQUEST, "a limit or an offset can't be negative")
}

impl Prepared {
    /// The command that runs it.
    ///
    /// # Errors
    /// Those of [`push_execute`].
    pub(super) fn execute(&self, args: &[&ParamValue], cursor: Cursor) -> Result<Vec<u8>, Error> {
        let mut command = Vec::new();
        push_execute(self, self.id, args, cursor, &mut command)?;
        Ok(command)
    }

    /// The command for the next `rows` rows of its cursor.
    pub(super) fn fetch(&self, rows: i32) -> [u8; 9] {
        let mut command = [COM_STMT_FETCH; 9];
        command[1..5].copy_from_slice(&self.id.to_le_bytes());
        command[5..].copy_from_slice(&rows.to_le_bytes());
        command
    }
}

/// The prepared statements of one connection.
#[derive(Debug)]
pub(super) struct StatementCache(Statements<Arc<str>, Prepared>);

impl StatementCache {
    pub(super) fn new(limit: usize) -> Self {
        Self(Statements::new(limit))
    }

    pub(super) fn get(&mut self, sql: &str) -> Option<Arc<Prepared>> {
        self.0.get(sql)
    }

    /// Keeps a statement. Evicted ones are closed on the server, with the next command.
    pub(super) fn insert(&mut self, prepared: Arc<Prepared>, ad_hoc: bool, wire: &mut Wire) {
        let sql = Arc::clone(&prepared.sql);
        self.0.insert(sql, prepared, ad_hoc, |gone| close(gone.id, wire));
    }

    /// Closes the least recently used statement, with the next command. Returns false if sessions
    /// use all statements.
    pub(super) fn close_oldest(&mut self, wire: &mut Wire) -> bool {
        let oldest = self.0.remove_oldest();
        oldest.iter().for_each(|gone| close(gone.id, wire));
        oldest.is_some()
    }

    /// Forgets a statement, and closes it on the server with the next command.
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
    wire.append_command(&command);
}
