//! Interleaves the rows of several statements on one connection.
//!
//! Each statement has a portal of its own in the transaction. We fetch its rows in portions, each
//! by an Execute with a limit of rows and a Sync. So the server answers the portions one after the
//! other, in the order of our requests. `asked` has that order:
//!
//! ```text
//!              ask                   PortalSuspended, ReadyForQuery
//!   bound ────────────► asked for ─────────────────────────────────► suspended ── ask ──► asked for
//!                           │
//!                           └──── CommandComplete, ReadyForQuery ──► complete
//! ```
//!
//! Invariants:
//! 1. if the caller wants rows of the portion that arrives, we lend them in place. Otherwise we
//!    copy and hold them;
//! 2. we ask for no more rows of a portal while some of its rows are held, so it holds at most one
//!    portion. That's some 64 KiB, estimated from earlier rows, and at most 1 MiB, or the limit of
//!    a row if that's larger ([`portions`]);
//! 3. a statement ends with `None` only after CommandComplete and ReadyForQuery.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::BytesMut;
use postgres_protocol::message::frontend;
use rowstream_core::Error;
use rowstream_core::params::ParamValue;
use rowstream_database::portions::{self, HeldRows, PortionSizer};

use super::super::statement::Prepared;
use super::super::value::Row;
use super::super::wire::Frame;
use super::{Isolation, Session, State, bind_prepared, out_of_order, unsendable};

/// The portals of one session.
#[derive(Default)]
pub(super) struct Portals {
    open: Vec<Portal>,
    /// Our messages that the server hasn't answered yet, in order.
    groups: VecDeque<MessageGroup>,
}

impl Portals {
    /// The number of pending ReadyForQuery messages.
    pub(super) fn in_flight(&self) -> u32 {
        u32::try_from(self.groups.len()).expect("a response has few statements")
    }

    /// The statement whose portion arrives.
    pub(super) fn coming(&self) -> Option<&Arc<Prepared>> {
        match self.groups.front() {
            Some(&MessageGroup::Portion(which)) => Some(&self.open[which].prepared),
            Some(MessageGroup::Begin) | None => None,
        }
    }

    /// The portal whose portion arrives, unless the portion has ended already.
    fn asked_portal(&mut self) -> Option<&mut Portal> {
        let Some(&MessageGroup::Portion(which)) = self.groups.front() else { return None };
        Some(&mut self.open[which]).filter(|portal| portal.state == PortalState::Asked)
    }

    /// Asks for a portion of a portal, unless one is pending. Returns false if the portal is
    /// complete.
    fn ask(&mut self, which: usize, limit: i32, write: &mut BytesMut) -> Result<bool, Error> {
        if self.groups.contains(&MessageGroup::Portion(which)) {
            return Ok(true);
        }
        if self.open[which].state == PortalState::Complete {
            return Ok(false);
        }
        self.open[which].ask(limit, write)?;
        self.groups.push_back(MessageGroup::Portion(which));
        Ok(true)
    }
}

/// A group of messages that the server answers with one ReadyForQuery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MessageGroup {
    /// The start of the transaction.
    Begin,
    /// A portion of the rows of a portal.
    Portion(usize),
}

/// One statement that is interleaved with others.
struct Portal {
    prepared: Arc<Prepared>,
    /// Its name on the server.
    name: String,
    state: PortalState,
    portion: PortionSizer,
    held: HeldRows,
}

/// How far the rows of a portal have got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PortalState {
    /// We have asked for a portion.
    Asked,
    /// The portion has ended, and there may be more rows.
    Suspended,
    /// The last row has arrived.
    Complete,
}

impl Portal {
    /// Binds a statement, without asking for its first portion.
    fn bind(
        index: usize,
        prepared: Arc<Prepared>,
        args: &[&ParamValue],
        write: &mut BytesMut,
    ) -> Result<Self, Error> {
        // A response runs each of its statements once, so names don't repeat in its transaction.
        let name = format!("p{index}");
        bind_prepared(&name, &prepared, args, write)?;
        let state = PortalState::Suspended;
        Ok(Self { prepared, name, state, portion: PortionSizer::default(), held: HeldRows::default() })
    }

    /// Asks for the next portion, of at most `limit` rows.
    fn ask(&mut self, limit: i32, write: &mut BytesMut) -> Result<(), Error> {
        frontend::execute(&self.name, self.portion.begin(limit), write).map_err(unsendable)?;
        frontend::sync(write);
        self.state = PortalState::Asked;
        Ok(())
    }

    /// Records the end of a portion.
    fn end(&mut self, state: PortalState) {
        self.state = state;
        self.prepared.note_run();
        self.portion.end();
    }
}

impl Session {
    /// See [`rowstream_database::DatabaseSession::execute_interleaved`].
    pub(super) fn begin_interleaved(&mut self, runs: &[(usize, Vec<&ParamValue>)]) {
        debug_assert_eq!(self.state.in_flight(), 0, "the statement before must have yielded its last row");
        debug_assert_eq!(self.isolation, Isolation::RepeatableRead, "a portal lives in a transaction");
        let opened = self.open_portals(runs);
        self.enter(opened.map(State::Interleaved));
    }

    /// Binds all statements and asks for a portion of each, in one write.
    fn open_portals(&mut self, runs: &[(usize, Vec<&ParamValue>)]) -> Result<Portals, Error> {
        let limit = portions::longest(self.shared.fetch_rows);
        // Written to a separate buffer, so that arguments that can't be sent leave no unfinished
        // message.
        let mut messages = BytesMut::new();
        let mut portals = Portals::default();
        if self.write_begin(&mut messages)? {
            portals.groups.push_back(MessageGroup::Begin);
        }
        for (which, (index, args)) in runs.iter().enumerate() {
            let prepared = Arc::clone(&self.prepared[*index]);
            let mut portal = Portal::bind(*index, prepared, args, &mut messages)?;
            portal.ask(limit, &mut messages)?;
            portals.open.push(portal);
            portals.groups.push_back(MessageGroup::Portion(which));
        }
        self.connection().wire.write.unsplit(messages);
        Ok(portals)
    }

    /// See [`rowstream_database::DatabaseSession::poll_row_of`].
    #[inline]
    pub(super) fn poll_interleaved(
        &mut self,
        which: usize,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Row<'_>>, Error>> {
        loop {
            let limit = portions::longest(self.shared.fetch_rows);
            let (State::Interleaved(portals), Some((_, connection))) = (&mut self.state, &mut self.held)
            else {
                return Poll::Ready(Err(self.fail_unsent()));
            };
            if !portals.open[which].held.is_empty() {
                return Poll::Ready(self.held_row(which).map(Some));
            }
            if !portals.ask(which, limit, &mut connection.wire.write)? {
                return Poll::Ready(Ok(None));
            }
            let wanted = portals.groups.front() == Some(&MessageGroup::Portion(which));
            let frame = match ready!(connection.wire.poll_frame(cx)) {
                Ok(frame) => frame,
                Err(error) => return Poll::Ready(Err(self.broken(error))),
            };
            if frame.tag == b'D' && wanted {
                return Poll::Ready(self.row_in_place(which, &frame).map(Some));
            }
            self.take(&frame)?;
        }
    }

    #[inline]
    fn held_row(&mut self, which: usize) -> Result<Row<'_>, Error> {
        let State::Interleaved(portals) = &mut self.state else { return Err(out_of_order()) };
        let Portal { prepared, held, .. } = &mut portals.open[which];
        let data = held.take().ok_or_else(out_of_order)?;
        let Prepared { decoders, columns, .. } = &**prepared;
        Ok(Row { data, decoders, columns, scratch: &mut self.scratch })
    }

    #[inline]
    fn row_in_place(&mut self, which: usize, frame: &Frame) -> Result<Row<'_>, Error> {
        let in_place = matches!(&mut self.state, State::Interleaved(portals) if portals.open[which].state == PortalState::Asked);
        if !in_place {
            return Err(self.broken(out_of_order()));
        }
        let (Some((_, connection)), State::Interleaved(portals)) = (&self.held, &mut self.state) else {
            return Err(out_of_order());
        };
        let portal = &mut portals.open[which];
        let data = connection.wire.body(frame);
        portal.portion.note(data.len());
        let Prepared { decoders, columns, .. } = &*portal.prepared;
        Ok(Row { data, decoders, columns, scratch: &mut self.scratch })
    }

    /// Handles a message that isn't one of the wanted rows.
    fn take(&mut self, frame: &Frame) -> Result<(), Error> {
        let State::Interleaved(portals) = &mut self.state else {
            return Err(self.broken(out_of_order()));
        };
        let coming = portals.coming().is_some();
        match (frame.tag, portals.asked_portal()) {
            (b'D', Some(_)) => self.hold(frame),
            (b'C', Some(portal)) => {
                portal.end(PortalState::Complete);
                Ok(())
            }
            (b's', Some(portal)) => {
                portal.end(PortalState::Suspended);
                Ok(())
            }
            (b'Z', None) => self.note_answered(frame),
            (b'E', _) => Err(self.statement_error(frame)?),
            (b'C', None) if !coming => Ok(()),
            (b'1' | b'2' | b'3' | b'N' | b'S' | b'A', _) => Ok(()),
            _ => Err(self.broken(out_of_order())),
        }
    }

    /// Records that a group of messages was answered.
    fn note_answered(&mut self, frame: &Frame) -> Result<(), Error> {
        let answered = match &mut self.state {
            State::Interleaved(portals) => portals.groups.pop_front(),
            _ => None,
        };
        match answered {
            Some(_) => self.note_status(frame),
            None => Err(self.broken(out_of_order())),
        }
    }

    fn hold(&mut self, frame: &Frame) -> Result<(), Error> {
        let (Some((_, connection)), State::Interleaved(portals)) = (&self.held, &mut self.state) else {
            return Err(out_of_order());
        };
        let Some(portal) = portals.asked_portal() else { return Err(out_of_order()) };
        let row = connection.wire.body(frame);
        portal.portion.note(row.len());
        portal.held.push(row, connection.wire.limit())
    }
}
