//! Pipelines lookups on one connection: the server reads the commands one after the other, and
//! answers each. [`rowstream_database::pipeline`] assigns lookups to connections and handles their
//! results.
//!
//! ```text
//!   asked ── the statement is prepared here ──────────────────► executed ─► answered
//!     │                                                            ▲
//!     └── it is not ──► parked ── COM_STMT_PREPARE is answered ────┘
//! ```
//!
//! 1. The expected answers have the order of the commands, and we read each answer to its end. An
//!    ERR ends one answer, and doesn't affect the others;
//! 2. each parked lookup waits for an expected answer to a COM_STMT_PREPARE;
//! 3. the server sends the columns with each answer, and we compare them with the columns that the
//!    lookup's readers know. If they differ, the statement runs on a connection of its own.

use std::collections::VecDeque;
use std::mem;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rowstream_core::Error;
use rowstream_core::params::ParamValue;
use rowstream_core::pool::{Lease, Pool};
use rowstream_database::pipeline::{self, DelayRecord, MAX_ROWS, Pipeline, Refusal, ShareableStatement};

use super::SourceState;
use super::answer::{Stage, Step};
use super::connect::Connection;
use super::error::DatabaseError;
use super::packet::Definition;
use super::preparing::{self, Preparation};
use super::session::{PendingAnswers, settle_in_time};
use super::statement::{Cursor, Prepared, StatementDescription, push_execute};
use super::value::Decoder;
use super::wire::{Frame, HEADER, LONGEST};

type Lookup = pipeline::Lookup<Peer>;

/// If a lookup has more rows than we hold, we read and drop this many. If there are still more, we
/// close the connection, which costs less than reading them all.
const DROPPED_AT_MOST: usize = 100;
/// The place of the statement's number in the packet of a COM_STMT_EXECUTE.
const STATEMENT: std::ops::Range<usize> = HEADER + 1..HEADER + 5;

/// The state of one lookup.
#[derive(Default)]
pub(super) struct Note {
    /// The length of its packet in bytes.
    length: usize,
    /// The number of its columns that have arrived.
    columns: usize,
    /// True if they differ from the described ones.
    changed: bool,
    /// The number of rows that we have dropped.
    dropped: usize,
}

/// One connection, with the answers that it expects.
pub(super) struct Peer {
    shared: Weak<SourceState>,
    connection: Connection,
    expected: VecDeque<ExpectedAnswer>,
    /// The stage of the first expected answer, if that belongs to a lookup.
    stage: Stage,
    parked: Vec<ParkedLookup>,
    /// The pending answers of lookups that we have refused.
    pending: PendingAnswers,
}

/// An answer that we expect.
enum ExpectedAnswer {
    Rows(Lookup),
    Prepared(Preparation),
}

/// A lookup whose statement is being prepared.
struct ParkedLookup {
    look_up: Lookup,
    packet: Box<[u8]>,
}

impl ShareableStatement for StatementDescription {
    fn slow(&self) -> &DelayRecord {
        &self.slow
    }
}

impl pipeline::Peer for Peer {
    type SourceState = SourceState;
    type Connection = Connection;
    type Statement = StatementDescription;
    /// Packets of COM_STMT_EXECUTE without the number of the statement, which differs between
    /// connections.
    type Messages = Vec<u8>;
    type Note = Note;

    fn pool(shared: &SourceState) -> &Pool<Connection> {
        &shared.pool
    }

    async fn open(
        shared: &Arc<SourceState>,
        _pipeline: &Arc<Pipeline<Self>>,
        place: Option<&Lease<Connection>>,
    ) -> Result<Self, Error> {
        let connection = match place {
            Some(place) => shared.connect(place).await?,
            None => shared.connector.connect().await.map_err(|cause| cause.of_source(&shared.name))?,
        };
        Ok(Self {
            shared: Arc::downgrade(shared),
            connection,
            expected: VecDeque::new(),
            stage: Stage::Head,
            parked: Vec::new(),
            pending: PendingAnswers::Nothing,
        })
    }

    fn into_connection(self) -> Connection {
        self.connection
    }

    fn write(
        statement: &StatementDescription,
        args: &[&ParamValue],
        packets: &mut Vec<u8>,
    ) -> Result<Note, Error> {
        let begin = packets.len();
        packets.extend_from_slice(&[0; HEADER]);
        let written = push_execute(statement, 0, args, Cursor::None, packets);
        let length = packets.len() - begin;
        if let Err(error) = written.and_then(|()| one_packet(length)) {
            packets.truncate(begin);
            return Err(error);
        }
        packets[begin..begin + 3].copy_from_slice(&((length - HEADER) as u32).to_le_bytes()[..3]);
        Ok(Note { length, ..Note::default() })
    }

    fn send(&mut self, packets: &mut Vec<u8>, lookups: &mut Vec<Lookup>) {
        if self.expected.is_empty() {
            self.connection.wire.expect_answer();
        }
        let mut rest = &packets[..];
        for look_up in lookups.drain(..) {
            let (packet, behind) = rest.split_at(look_up.note.length);
            rest = behind;
            match self.connection.statements.get(&look_up.statement.sql) {
                Some(prepared) => self.execute(&prepared, look_up, packet),
                None => self.park(look_up, packet),
            }
        }
        packets.clear();
    }

    fn expected(&self) -> usize {
        self.expected.len()
    }

    fn round_trip(&self) -> Duration {
        self.connection.wire.round_trip
    }

    fn poll_take(&mut self, cx: &mut Context<'_>) -> Poll<Option<()>> {
        Poll::Ready(match ready!(self.connection.wire.poll_frame(cx)) {
            Ok(frame) => self.take(&frame),
            Err(_) => None,
        })
    }

    fn refuse_expected(&mut self) {
        let (mut count, mut is_preparing) = (0, false);
        for (index, expected) in mem::take(&mut self.expected).into_iter().enumerate() {
            match expected {
                ExpectedAnswer::Rows(look_up) => {
                    count += 1;
                    self.connection.must_close |= look_up.statement.may_change();
                    refuse(look_up, index == 0);
                }
                ExpectedAnswer::Prepared(preparing) => {
                    is_preparing = true;
                    self.unpark(&preparing.sql).for_each(|parked| refuse(parked.look_up, index == 0));
                }
            }
        }
        let stage = mem::replace(&mut self.stage, Stage::Head);
        self.pending =
            if is_preparing { PendingAnswers::Unknown } else { PendingAnswers::Answers(stage, count) };
    }

    async fn settle(&mut self, shared: &Arc<SourceState>) -> bool {
        let pending = mem::replace(&mut self.pending, PendingAnswers::Nothing);
        settle_in_time(shared, &mut self.connection, pending).await && !self.connection.must_close
    }
}

fn one_packet(length: usize) -> Result<(), Error> {
    match length - HEADER < LONGEST {
        true => Ok(()),
        false => Err(Error::endpoint("the arguments are too long for one packet")),
    }
}

/// Refuses a lookup whose answer is late. `holds_up` is true if it delays the others.
fn refuse(look_up: Lookup, holds_up: bool) {
    if holds_up {
        look_up.statement.slow.note();
    }
    look_up.refuse(if holds_up { Refusal::Elsewhere } else { Refusal::Again });
}

impl Peer {
    /// Sends a lookup.
    fn execute(&mut self, prepared: &Prepared, look_up: Lookup, packet: &[u8]) {
        let write = &mut self.connection.wire.write;
        let begin = write.len();
        write.extend_from_slice(packet);
        write[begin..][STATEMENT].copy_from_slice(&prepared.id.to_le_bytes());
        self.expected.push_back(ExpectedAnswer::Rows(look_up));
    }

    /// Keeps a lookup until its statement is prepared. The first lookup of a statement prepares it.
    fn park(&mut self, look_up: Lookup, packet: &[u8]) {
        let sql = &look_up.statement.sql;
        if !self.parked.iter().any(|parked| parked.look_up.statement.sql == *sql) {
            let wire = &mut self.connection.wire;
            wire.append_command(&preparing::command(sql));
            self.expected.push_back(ExpectedAnswer::Prepared(Preparation::new(
                Arc::clone(sql),
                false,
                wire.limit(),
            )));
        }
        self.parked.push(ParkedLookup { look_up, packet: packet.into() });
    }

    /// Removes and returns the lookups that wait for a statement.
    fn unpark(&mut self, sql: &Arc<str>) -> impl Iterator<Item = ParkedLookup> + use<> {
        let is_waiting = |parked: &ParkedLookup| parked.look_up.statement.sql == *sql;
        let (waiting, others): (Vec<_>, Vec<_>) =
            mem::take(&mut self.parked).into_iter().partition(is_waiting);
        self.parked = others;
        waiting.into_iter()
    }

    /// Handles one packet. Returns `None` if the connection can't be used any more.
    fn take(&mut self, frame: &Frame) -> Option<()> {
        match self.expected.front_mut()? {
            ExpectedAnswer::Rows(look_up) => match self.stage.step(&mut self.connection, frame) {
                Step::Counted(columns) => {
                    look_up.note.changed = columns != look_up.statement.columns.len() as u64;
                    Some(())
                }
                Step::Column { .. } => self.compare_column(frame),
                Step::Described => Some(()),
                Step::Row => self.take_row(frame),
                Step::End { .. } => self.end_rows(),
                Step::Failed(error) => self.fail(error),
                Step::Another | Step::Done | Step::Opened | Step::Broken => None,
            },
            ExpectedAnswer::Prepared(preparing) => match preparing.take(&self.connection, frame).ok()? {
                preparing::PreparationStep::More => Some(()),
                preparing::PreparationStep::Done => self.prepared(),
                preparing::PreparationStep::Failed(_) => self.unprepared(),
            },
        }
    }

    /// Ends the first expected answer.
    fn end_answer(&mut self) -> Option<ExpectedAnswer> {
        self.stage = Stage::Head;
        self.connection.wire.expect_answer();
        self.expected.pop_front()
    }

    fn take_current(&mut self) -> Option<Lookup> {
        match self.end_answer()? {
            ExpectedAnswer::Rows(look_up) => Some(look_up),
            ExpectedAnswer::Prepared(_) => None,
        }
    }

    fn compare_column(&mut self, frame: &Frame) -> Option<()> {
        let Some(ExpectedAnswer::Rows(look_up)) = self.expected.front_mut() else { return None };
        let (statement, note) = (&look_up.statement, &mut look_up.note);
        let body = self.connection.wire.body(frame);
        let place = note.columns;
        note.columns += 1;
        if statement.packets.get(place).is_some_and(|known| **known == *body) {
            return Some(());
        }
        let definition = Definition::parse(body, self.connection.has_extended_metadata)?;
        let reading = self.shared.upgrade()?.reading(statement.computed_bits);
        let name = statement.columns.get(place).map(|column| &column.name);
        let decoder = statement.decoders.get(place).copied();
        note.changed |= name != Some(&definition.name) || decoder != Decoder::of(&definition, reading);
        Some(())
    }

    fn take_row(&mut self, frame: &Frame) -> Option<()> {
        let Some(ExpectedAnswer::Rows(look_up)) = self.expected.front_mut() else { return None };
        if look_up.rows.len() < MAX_ROWS {
            look_up.rows.push(self.connection.wire.body(frame).into());
            return Some(());
        }
        look_up.note.dropped += 1;
        if look_up.note.dropped <= DROPPED_AT_MOST {
            return Some(());
        }
        let endless = self.take_current()?;
        endless.statement.slow.note();
        end(endless);
        None
    }

    /// Ends the rows of a lookup. If it has changed the session, the lookups after it run again on other
    /// connections.
    fn end_rows(&mut self) -> Option<()> {
        let ended = self.take_current()?;
        let left_state = self.connection.must_close;
        ended.statement.has_left_state.fetch_or(left_state, Ordering::Relaxed);
        end(ended);
        (!left_state).then_some(())
    }

    fn fail(&mut self, error: DatabaseError) -> Option<()> {
        if error.ends_connection() {
            return None;
        }
        let failed = self.take_current()?;
        if failed.statement.may_change() {
            // The error hides a change of the session.
            failed.refuse(Refusal::Failed(error.into_error(None)));
            return None;
        }
        if !error.is_stale_statement() {
            failed.refuse(Refusal::Failed(error.into_error(None)));
            return Some(());
        }
        self.connection.statements.remove(&failed.statement.sql, &mut self.connection.wire);
        failed.refuse(Refusal::Again);
        Some(())
    }

    /// Handles the end of a COM_STMT_PREPARE: sends the lookups that wait for it.
    fn prepared(&mut self) -> Option<()> {
        let ExpectedAnswer::Prepared(preparing) = self.end_answer()? else { return None };
        let sql = Arc::clone(&preparing.sql);
        let shared = self.shared.upgrade()?;
        let prepared = preparing.finish(&shared, &mut self.connection);
        for ParkedLookup { look_up, packet } in self.unpark(&sql) {
            match &prepared {
                Ok(prepared) => self.execute(prepared, look_up, &packet),
                Err(_) => look_up.refuse(Refusal::Elsewhere),
            }
        }
        Some(())
    }

    /// Refuses the lookups of a statement that can't be prepared. They run again on a connection of
    /// their own, which reports the error better.
    fn unprepared(&mut self) -> Option<()> {
        let ExpectedAnswer::Prepared(preparing) = self.end_answer()? else { return None };
        self.unpark(&preparing.sql).for_each(|parked| parked.look_up.refuse(Refusal::Elsewhere));
        Some(())
    }
}

/// Ends the rows of a lookup.
fn end(look_up: Lookup) {
    if look_up.note.changed {
        // Its next description, on another connection, will have the new columns.
        look_up.statement.slow.note();
        return look_up.refuse(Refusal::Elsewhere);
    }
    look_up.answer();
}
