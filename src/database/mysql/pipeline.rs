//! Lookups pipelined on one connection: the server reads one command after the other, and answers
//! each. How they are shared out, and what becomes of them, is [`crate::database::pipeline`]'s.
//!
//! ```text
//!   asked ── the statement is prepared here ──────────────────► executed ─► answered
//!     │                                                            ▲
//!     └── it is not ──► parked ── COM_STMT_PREPARE is answered ────┘
//! ```
//!
//! 1. What is expected stands in the order of what is sent, and an answer is read to its end: an
//!    ERR ends one answer and says nothing of the others;
//! 2. whatever is parked waits for a COM_STMT_PREPARE that is expected;
//! 3. the server tells the columns with each answer, and they are compared with what the lookup's
//!    readers know. A statement whose columns differ runs on a connection of its own.

use std::collections::VecDeque;
use std::mem;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use super::Shared;
use super::answer::{Stage, Step};
use super::connect::Connection;
use super::error::DatabaseError;
use super::packet::Definition;
use super::preparing::{self, Preparing};
use super::session::{Rest, settle_in_time};
use super::statement::{Cursor, Described, Prepared, push_execute};
use super::value::Decoder;
use super::wire::{Frame, HEADER, LONGEST};
use crate::Error;
use crate::database::pipeline::{self, MAX_ROWS, Pipeline, Refused, Shareable, Slow};
use crate::params::ParamValue;
use crate::pool::{Lease, Pool};

type Lookup = pipeline::Lookup<Peer>;

/// So many rows more than are held are read and dropped; behind them the connection is closed,
/// which costs less than what may follow.
const DROPPED_AT_MOST: usize = 100;
/// Where the number of its statement stands in the packet of a COM_STMT_EXECUTE.
const STATEMENT: std::ops::Range<usize> = HEADER + 1..HEADER + 5;

/// What is known of a lookup.
#[derive(Default)]
pub(super) struct Note {
    /// The bytes of its packet.
    length: usize,
    /// How many of its columns have come.
    columns: usize,
    /// Whether they are no longer the described ones.
    changed: bool,
    /// How many rows were dropped.
    dropped: usize,
}

/// One connection with the answers that are to come.
pub(super) struct Peer {
    shared: Weak<Shared>,
    connection: Connection,
    expected: VecDeque<Expected>,
    /// How far the answer of the first expected one has come, if that is a lookup.
    stage: Stage,
    parked: Vec<Parked>,
    /// What is to come of what was refused.
    rest: Rest,
}

/// An answer that is to come.
enum Expected {
    Rows(Lookup),
    Prepared(Preparing),
}

/// A lookup whose statement is being prepared.
struct Parked {
    look_up: Lookup,
    packet: Box<[u8]>,
}

impl Shareable for Described {
    fn slow(&self) -> &Slow {
        &self.slow
    }
}

impl pipeline::Peer for Peer {
    type Shared = Shared;
    type Connection = Connection;
    type Statement = Described;
    /// Packets of COM_STMT_EXECUTE, which lack the number of the statement: each connection has
    /// another.
    type Messages = Vec<u8>;
    type Note = Note;

    fn pool(shared: &Shared) -> &Pool<Connection> {
        &shared.pool
    }

    async fn open(
        shared: &Arc<Shared>,
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
            rest: Rest::Nothing,
        })
    }

    fn into_connection(self) -> Connection {
        self.connection
    }

    fn write(statement: &Described, args: &[&ParamValue], packets: &mut Vec<u8>) -> Result<Note, Error> {
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
                Expected::Rows(look_up) => {
                    count += 1;
                    refuse(look_up, index == 0);
                }
                Expected::Prepared(preparing) => {
                    is_preparing = true;
                    self.unpark(&preparing.sql).for_each(|parked| refuse(parked.look_up, index == 0));
                }
            }
        }
        let stage = mem::replace(&mut self.stage, Stage::Head);
        self.rest = if is_preparing { Rest::Unknown } else { Rest::Answers(stage, count) };
    }

    async fn settle(&mut self, shared: &Arc<Shared>) -> bool {
        let rest = mem::replace(&mut self.rest, Rest::Nothing);
        settle_in_time(shared, &mut self.connection, rest).await
    }
}

fn one_packet(length: usize) -> Result<(), Error> {
    match length - HEADER < LONGEST {
        true => Ok(()),
        false => Err(Error::endpoint("the arguments are too long for one packet")),
    }
}

/// Refuses one whose answer does not come; it may be the one that holds up the others.
fn refuse(look_up: Lookup, holds_up: bool) {
    if holds_up {
        look_up.statement.slow.note();
    }
    look_up.refuse(if holds_up { Refused::Elsewhere } else { Refused::Again });
}

impl Peer {
    /// Sends a lookup.
    fn execute(&mut self, prepared: &Prepared, look_up: Lookup, packet: &[u8]) {
        let write = &mut self.connection.wire.write;
        let begin = write.len();
        write.extend_from_slice(packet);
        write[begin..][STATEMENT].copy_from_slice(&prepared.id.to_le_bytes());
        self.expected.push_back(Expected::Rows(look_up));
    }

    /// Keeps a lookup until its statement is prepared, which the first one has done.
    fn park(&mut self, look_up: Lookup, packet: &[u8]) {
        let sql = &look_up.statement.sql;
        if !self.parked.iter().any(|parked| parked.look_up.statement.sql == *sql) {
            let wire = &mut self.connection.wire;
            wire.append_command(&preparing::command(sql));
            self.expected.push_back(Expected::Prepared(Preparing::new(Arc::clone(sql), wire.limit())));
        }
        self.parked.push(Parked { look_up, packet: packet.into() });
    }

    /// Takes the lookups that wait for a statement.
    fn unpark(&mut self, sql: &Arc<str>) -> impl Iterator<Item = Parked> + use<> {
        let is_waiting = |parked: &Parked| parked.look_up.statement.sql == *sql;
        let (waiting, others): (Vec<_>, Vec<_>) =
            mem::take(&mut self.parked).into_iter().partition(is_waiting);
        self.parked = others;
        waiting.into_iter()
    }

    /// Takes one packet; `None` when the connection can no longer be used.
    fn take(&mut self, frame: &Frame) -> Option<()> {
        match self.expected.front_mut()? {
            Expected::Rows(look_up) => match self.stage.step(&self.connection.wire, frame) {
                Step::Counted(columns) => {
                    look_up.note.changed = columns != look_up.statement.columns.len() as u64;
                    Some(())
                }
                Step::Column => self.compare_column(frame),
                Step::Described => Some(()),
                Step::Row => self.take_row(frame),
                Step::End { .. } => self.end_rows(),
                Step::Failed(error) => self.fail(error),
                Step::Another | Step::Done | Step::Opened | Step::Broken => None,
            },
            Expected::Prepared(preparing) => match preparing.take(&self.connection, frame).ok()? {
                preparing::Step::More => Some(()),
                preparing::Step::Done => self.prepared(),
                preparing::Step::Failed(_) => self.unprepared(),
            },
        }
    }

    /// The answer that came first has ended.
    fn end_answer(&mut self) -> Option<Expected> {
        self.stage = Stage::Head;
        self.connection.wire.expect_answer();
        self.expected.pop_front()
    }

    fn take_current(&mut self) -> Option<Lookup> {
        match self.end_answer()? {
            Expected::Rows(look_up) => Some(look_up),
            Expected::Prepared(_) => None,
        }
    }

    fn compare_column(&mut self, frame: &Frame) -> Option<()> {
        let Some(Expected::Rows(look_up)) = self.expected.front_mut() else { return None };
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
        let Some(Expected::Rows(look_up)) = self.expected.front_mut() else { return None };
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

    fn end_rows(&mut self) -> Option<()> {
        end(self.take_current()?);
        Some(())
    }

    fn fail(&mut self, error: DatabaseError) -> Option<()> {
        if error.ends_connection() {
            return None;
        }
        let failed = self.take_current()?;
        if !error.is_stale_statement() {
            failed.refuse(Refused::Failed(error.into_error(None)));
            return Some(());
        }
        self.connection.statements.remove(&failed.statement.sql, &mut self.connection.wire);
        failed.refuse(Refused::Again);
        Some(())
    }

    /// A statement is prepared: what waits for it is sent.
    fn prepared(&mut self) -> Option<()> {
        let Expected::Prepared(preparing) = self.end_answer()? else { return None };
        let sql = Arc::clone(&preparing.sql);
        let shared = self.shared.upgrade()?;
        let prepared = preparing.finish(&shared, &mut self.connection);
        for Parked { look_up, packet } in self.unpark(&sql) {
            match &prepared {
                Ok(prepared) => self.execute(prepared, look_up, &packet),
                Err(_) => look_up.refuse(Refused::Elsewhere),
            }
        }
        Some(())
    }

    /// A statement cannot be prepared, which a connection of its own says better.
    fn unprepared(&mut self) -> Option<()> {
        let Expected::Prepared(preparing) = self.end_answer()? else { return None };
        self.unpark(&preparing.sql).for_each(|parked| parked.look_up.refuse(Refused::Elsewhere));
        Some(())
    }
}

/// The rows of a lookup have come.
fn end(look_up: Lookup) {
    if look_up.note.changed {
        // What it is run as elsewhere, its next description says.
        look_up.statement.slow.note();
        return look_up.refuse(Refused::Elsewhere);
    }
    look_up.answer();
}
