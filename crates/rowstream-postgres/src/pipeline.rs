//! Pipelines lookups on one connection, as PostgreSQL does (its manual, "Pipelining"): each batch
//! ends with one Sync. [`rowstream_database::pipeline`] assigns lookups to connections and handles
//! their results.
//!
//! 1. If a statement of a batch fails, the server skips the rest of the batch;
//! 2. if we parse a statement here, we also describe it, and compare its columns with those that
//!    its readers know.

use std::collections::{BTreeMap, VecDeque};
use std::mem;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::BytesMut;
use fallible_iterator::FallibleIterator;
use postgres_protocol::message::backend::Message;
use postgres_protocol::message::frontend;
use rowstream_core::Error;
use rowstream_core::params::ParamValue;
use rowstream_core::pool::{Lease, Pool};
use rowstream_database::pipeline::{self, DelayRecord, MAX_ROWS, Pipeline, Refusal, ShareableStatement};

use super::SourceState;
use super::connect::Connection;
use super::error::DatabaseError;
use super::hosts::HostUse;
use super::session::{bind, settle_in_time, unsendable, write_describe};
use super::statement::{StatementDescription, close};
use super::wire::Frame;

type Lookup = pipeline::Lookup<Peer>;

/// The messages of queued lookups, without the Sync.
#[derive(Default)]
pub(super) struct Messages {
    bytes: BytesMut,
    /// The statements that are parsed on the connection, or will be by `bytes`, by their numbers.
    parsed: BTreeMap<u64, ParseRecord>,
}

/// A statement that is parsed on the connection.
struct ParseRecord {
    name: String,
    /// The version of the types when it was described.
    version: u64,
}

impl Messages {
    /// Closes the statements that were described before this version of the types. Other statements
    /// have replaced them.
    fn close_outdated(&mut self, version: u64) {
        let Self { bytes, parsed } = self;
        parsed.retain(|_, statement| {
            let is_current = statement.version >= version;
            if !is_current {
                close(&statement.name, bytes);
            }
            is_current
        });
    }
}

/// The state of one lookup.
pub(super) struct Note {
    /// True if its statement is parsed and described first.
    parses: bool,
    /// True once the server has read its arguments.
    is_bound: bool,
    /// True if its columns differ from the described ones.
    changed: bool,
}

/// One connection, with the replies that it expects.
pub(super) struct Peer {
    shared: Weak<SourceState>,
    pipeline: Arc<Pipeline<Self>>,
    connection: Connection,
    expected: VecDeque<ExpectedReply>,
    /// True if a statement of this batch has failed, so that the server skips the others.
    skipping: bool,
    /// The number of pending ReadyForQuery of lookups that we have refused.
    syncs: u32,
}

/// A reply that we expect.
enum ExpectedReply {
    Rows(Lookup),
    /// ReadyForQuery, the answer to a Sync.
    Ready,
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
    type Messages = Messages;
    type Note = Note;

    fn pool(shared: &SourceState) -> &Pool<Connection> {
        &shared.pool
    }

    async fn open(
        shared: &Arc<SourceState>,
        pipeline: &Arc<Pipeline<Self>>,
        place: Option<&Lease<Connection>>,
    ) -> Result<Self, Error> {
        let mut connection = shared.hosts.connection(place).await?;
        connection.host_use.iter_mut().for_each(HostUse::counts_no_more);
        if place.is_none() {
            pipeline.lock().messages.parsed.clear();
        }
        Ok(Self {
            shared: Arc::downgrade(shared),
            pipeline: Arc::clone(pipeline),
            connection,
            expected: VecDeque::new(),
            skipping: false,
            syncs: 0,
        })
    }

    fn into_connection(self) -> Connection {
        self.connection.unlent()
    }

    fn write(
        statement: &StatementDescription,
        args: &[&ParamValue],
        messages: &mut Messages,
    ) -> Result<Note, Error> {
        let parses = !messages.parsed.contains_key(&statement.number);
        if parses {
            messages.close_outdated(statement.version);
        }
        let begin = messages.bytes.len();
        if let Err(error) = write(statement, args, parses, &mut messages.bytes) {
            messages.bytes.truncate(begin);
            return Err(error);
        }
        if parses {
            let parsed = ParseRecord { name: statement.shared_name.clone(), version: statement.version };
            messages.parsed.insert(statement.number, parsed);
        }
        Ok(Note { parses, is_bound: false, changed: false })
    }

    fn send(&mut self, messages: &mut Messages, lookups: &mut Vec<Lookup>) {
        frontend::sync(&mut messages.bytes);
        self.connection.wire.write.extend_from_slice(&messages.bytes);
        messages.bytes.clear();
        self.expected.extend(lookups.drain(..).map(ExpectedReply::Rows));
        self.expected.push_back(ExpectedReply::Ready);
    }

    fn expected(&self) -> usize {
        self.expected.len()
    }

    fn round_trip(&self) -> Duration {
        self.connection.wire.round_trip
    }

    fn is_welcome(&self) -> bool {
        self.connection.is_welcome()
    }

    fn poll_take(&mut self, cx: &mut Context<'_>) -> Poll<Option<()>> {
        Poll::Ready(match ready!(self.connection.wire.poll_frame(cx)) {
            Ok(frame) => self.take(&frame),
            Err(lost) => {
                self.connection.host_use.iter().for_each(|host_use| host_use.failed(&lost));
                None
            }
        })
    }

    fn refuse_expected(&mut self) {
        for (index, expected) in mem::take(&mut self.expected).into_iter().enumerate() {
            match expected {
                ExpectedReply::Ready => self.syncs += 1,
                ExpectedReply::Rows(look_up) if index == 0 => {
                    look_up.statement.slow.note();
                    self.refuse(look_up, Refusal::Elsewhere);
                }
                ExpectedReply::Rows(look_up) => self.refuse(look_up, Refusal::Again),
            }
        }
        self.skipping = false;
    }

    async fn settle(&mut self, shared: &Arc<SourceState>) -> bool {
        let syncs = mem::take(&mut self.syncs);
        settle_in_time(shared, &mut self.connection, syncs, true).await
    }
}

/// Appends the messages of one lookup.
fn write(
    statement: &StatementDescription,
    args: &[&ParamValue],
    parses: bool,
    messages: &mut BytesMut,
) -> Result<(), Error> {
    let name = &statement.shared_name;
    if parses {
        // An earlier pipeline or a failed attempt may have left it there. If it isn't there, Close
        // is still no error.
        close(name, messages);
        write_describe(name, &statement.sent, messages)?;
    }
    bind("", name, &statement.sent, &statement.decoders, args, messages)?;
    frontend::execute("", MAX_ROWS as i32, messages).map_err(unsendable)
}

impl Peer {
    /// Handles one message. Returns `None` if the connection can't be used any more.
    fn take(&mut self, frame: &Frame) -> Option<()> {
        match frame.tag {
            b'D' => self.take_row(frame),
            b'C' | b's' => self.end_rows(),
            b'2' => self.take_bound(),
            b'T' => self.compare_columns(frame),
            b'E' => self.fail(frame),
            b'Z' => self.take_ready(frame),
            b'1' | b'3' | b't' | b'N' | b'S' | b'A' => Some(()),
            _ => None,
        }
    }

    /// The lookup whose reply arrives.
    fn current(&mut self) -> Option<&mut Lookup> {
        match self.expected.front_mut() {
            Some(ExpectedReply::Rows(look_up)) if !self.skipping => Some(look_up),
            _ => None,
        }
    }

    fn take_current(&mut self) -> Option<Lookup> {
        match self.expected.pop_front() {
            Some(ExpectedReply::Rows(look_up)) => Some(look_up),
            _ => None,
        }
    }

    fn take_bound(&mut self) -> Option<()> {
        self.current()?.note.is_bound = true;
        Some(())
    }

    fn take_row(&mut self, frame: &Frame) -> Option<()> {
        let row = self.connection.wire.body(frame).into();
        self.current()?.rows.push(row);
        Some(())
    }

    fn end_rows(&mut self) -> Option<()> {
        self.current()?;
        let look_up = self.take_current()?;
        match look_up.note.changed {
            true => self.forget(look_up),
            false => look_up.answer(),
        }
        Some(())
    }

    fn compare_columns(&mut self, frame: &Frame) -> Option<()> {
        let Ok(Message::RowDescription(body)) = self.connection.wire.parse(frame) else { return None };
        let look_up = self.current()?;
        let mut described = look_up.statement.fields.iter();
        let same = body.fields().all(|field| Ok(described.next().is_some_and(|known| known.is(&field))));
        look_up.note.changed = !(same.ok()? && described.next().is_none());
        Some(())
    }

    /// Handles an error of the current statement, after which the server skips the rest of the
    /// batch.
    fn fail(&mut self, frame: &Frame) -> Option<()> {
        let Ok(Message::ErrorResponse(body)) = self.connection.wire.parse(frame) else { return None };
        let error = DatabaseError::new(&body);
        self.current().filter(|_| !error.fatal)?;
        let failed = self.take_current()?;
        self.skipping = true;
        let Note { parses, is_bound, .. } = failed.note;
        // A parameter may have the type that an altered column had, so the statement is parsed again.
        let is_of_former_type = !parses && !is_bound && error.is_of_value();
        let is_sent_again = error.is_missing_statement() || is_of_former_type;
        if parses || is_sent_again {
            self.pipeline.lock().messages.parsed.remove(&failed.statement.number);
        }
        if is_sent_again {
            failed.refuse(Refusal::Again);
        } else if error.is_stale_statement() || !parses && error.is_refused_again() {
            self.forget(failed);
        } else {
            let error = error.into_error_of(&failed.statement.columns);
            failed.refuse(Refusal::Failed(error));
        }
        self.refuse_skipped();
        Some(())
    }

    fn refuse_skipped(&mut self) {
        while let Some(ExpectedReply::Rows(_)) = self.expected.front() {
            let Some(skipped) = self.take_current() else { return };
            self.refuse(skipped, Refusal::Again);
        }
    }

    /// Forgets a statement that differs from its description, because of a migration. Other
    /// statements may be outdated too.
    fn forget(&self, look_up: Lookup) {
        self.pipeline.lock().messages.parsed.remove(&look_up.statement.number);
        if let Some(shared) = self.shared.upgrade() {
            shared.outdate(look_up.statement.version);
            shared.descriptions.forget(&look_up.statement);
        }
        look_up.refuse(Refusal::Elsewhere);
    }

    fn take_ready(&mut self, frame: &Frame) -> Option<()> {
        self.connection.status = *self.connection.wire.body(frame).first()?;
        self.skipping = false;
        matches!(self.expected.pop_front(), Some(ExpectedReply::Ready)).then_some(())
    }

    /// Refuses a lookup that we sent, and that the server may have skipped.
    fn refuse(&self, look_up: Lookup, refused: Refusal) {
        if look_up.note.parses {
            self.pipeline.lock().messages.parsed.remove(&look_up.statement.number);
        }
        look_up.refuse(refused);
    }
}

#[cfg(test)]
mod tests {
    use rowstream_database::pipeline::Peer as _;

    use super::super::statement::{Descriptions, Prepared};
    use super::*;

    /// Each reload left another prepared statement on the connections that lookups share.
    #[test]
    fn a_statement_of_a_later_version_closes_the_earlier_ones() {
        let descriptions = Descriptions::default();
        let mut messages = Messages::default();
        let mut former = None;
        for version in 0..3 {
            let prepared = Prepared::of_test("select 1", version);
            descriptions.learn(&prepared, Vec::new());
            let described = descriptions.get(&prepared.statement).unwrap();
            for parses in [true, false] {
                messages.bytes.clear();
                assert_eq!(Peer::write(&described, &[], &mut messages).unwrap().parses, parses);
            }
            assert_eq!(messages.parsed.keys().copied().collect::<Vec<_>>(), [described.number]);
            former = Some(described);
        }
        messages.bytes.clear();
        messages.close_outdated(3);
        assert_eq!(&messages.bytes[5..], format!("S{}\0", former.unwrap().shared_name).as_bytes());
        assert!(messages.parsed.is_empty());
    }
}
