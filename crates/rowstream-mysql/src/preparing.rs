//! The answer to COM_STMT_PREPARE, packet by packet, and the description of a statement that it
//! contains.
//!
//! ```text
//!   Head ─► the parameters, EOF ─► the columns, EOF ─► done
//!     │            (both are skipped for 0)
//!     └── ERR ──► failed
//! ```
//!
//! Newer servers don't send the EOFs.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rowstream_core::Error;
use rowstream_core::sql::limit_placeholders;
use rowstream_database::pipeline::DelayRecord;

use super::connect::Connection;
use super::error::DatabaseError;
use super::packet::{self, Definition, EOF, ERR, OK, Reader};
use super::routines::SessionEffect;
use super::session::{call, described};
use super::statement::{Prepared, StatementDescription, close};
use super::value::BitEncoding;
use super::wire::{Frame, out_of_order};
use super::{DIALECT, SourceState};

const COM_STMT_PREPARE: u8 = 22;

/// The command that prepares `sql`.
pub(super) fn command(sql: &str) -> Vec<u8> {
    [&[COM_STMT_PREPARE], sql.as_bytes()].concat()
}

/// A statement that the server prepares.
pub(super) struct Preparation {
    pub(super) sql: Arc<str>,
    /// True for the statement of a request, whose description isn't kept in the source.
    ad_hoc: bool,
    stage: PreparationStage,
    id: u32,
    parameters: u16,
    columns: u16,
    definitions: Vec<Definition>,
    packets: Vec<Box<[u8]>>,
    /// The bytes that the columns may still take: in all, no more than a row.
    left: usize,
}

/// The packets that we expect next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PreparationStage {
    Head,
    /// This many parameters, and an EOF if the server sends those. Their definitions say nothing before they are bound.
    Parameters(u16),
    /// This many columns, and an EOF if the server sends those.
    Columns(u16),
    Done,
}

/// The state after a packet.
pub(super) enum PreparationStep {
    /// More packets will follow.
    More,
    /// The answer is complete; [`Preparation::finish`] makes the statement.
    Done,
    /// The server couldn't prepare the statement.
    Failed(DatabaseError),
}

impl Preparation {
    /// For a connection whose longest packet has `limit` bytes.
    pub(super) fn new(sql: Arc<str>, ad_hoc: bool, limit: usize) -> Self {
        let (definitions, packets) = (Vec::new(), Vec::new());
        Self {
            sql,
            ad_hoc,
            stage: PreparationStage::Head,
            id: 0,
            parameters: 0,
            columns: 0,
            definitions,
            packets,
            left: limit,
        }
    }

    /// Handles the next packet.
    ///
    /// # Errors
    /// It can't be part of this answer.
    pub(super) fn take(&mut self, connection: &Connection, frame: &Frame) -> Result<PreparationStep, Error> {
        let body = connection.wire.body(frame);
        match self.stage {
            PreparationStage::Head if frame.tag == ERR => {
                return packet::error(body).map(PreparationStep::Failed).ok_or_else(out_of_order);
            }
            PreparationStage::Head => self.begin(body).ok_or_else(out_of_order)?,
            PreparationStage::Parameters(0) | PreparationStage::Columns(0) if frame.tag != EOF => {
                return Err(out_of_order());
            }
            PreparationStage::Parameters(0) => self.stage = self.behind_parameters(),
            PreparationStage::Parameters(1) if !connection.sends_eof => self.stage = self.behind_parameters(),
            PreparationStage::Parameters(left) => self.stage = PreparationStage::Parameters(left - 1),
            PreparationStage::Columns(0) | PreparationStage::Done => self.stage = PreparationStage::Done,
            PreparationStage::Columns(left) => {
                self.column(body, connection.has_extended_metadata)?;
                self.stage = match left {
                    1 if !connection.sends_eof => PreparationStage::Done,
                    _ => PreparationStage::Columns(left - 1),
                };
            }
        }
        Ok(if self.stage == PreparationStage::Done { PreparationStep::Done } else { PreparationStep::More })
    }

    fn begin(&mut self, body: &[u8]) -> Option<()> {
        let mut reader = Reader(body);
        (reader.u8()? == OK).then_some(())?;
        (self.id, self.columns, self.parameters) = (reader.u32()?, reader.u16()?, reader.u16()?);
        self.stage = match self.parameters {
            0 => self.behind_parameters(),
            count => PreparationStage::Parameters(count),
        };
        Some(())
    }

    fn behind_parameters(&self) -> PreparationStage {
        if self.columns == 0 { PreparationStage::Done } else { PreparationStage::Columns(self.columns) }
    }

    fn column(&mut self, body: &[u8], extended: bool) -> Result<(), Error> {
        self.left = self.left.checked_sub(body.len()).ok_or_else(too_many_columns)?;
        self.definitions.push(Definition::parse(body, extended).ok_or_else(out_of_order)?);
        self.packets.push(body.into());
        Ok(())
    }

    /// Keeps the statement on its connection, and its description in the source.
    ///
    /// # Errors
    /// It can't be run here. It's closed on the server then.
    pub(super) fn finish(
        self,
        shared: &SourceState,
        connection: &mut Connection,
    ) -> Result<Arc<Prepared>, Error> {
        let (id, ad_hoc) = (self.id, self.ad_hoc);
        match self.described(shared, connection) {
            Ok(described) => {
                let described = match ad_hoc {
                    true => Arc::new(described),
                    false => shared.descriptions.learn(described),
                };
                let prepared = Arc::new(Prepared { id, described });
                connection.statements.insert(Arc::clone(&prepared), ad_hoc, &mut connection.wire);
                Ok(prepared)
            }
            Err(error) => {
                close(id, &mut connection.wire);
                Err(error)
            }
        }
    }

    fn described(self, shared: &SourceState, connection: &Connection) -> Result<StatementDescription, Error> {
        let Self { sql, parameters, definitions, packets, .. } = self;
        let computed_bits = BitEncoding::by(&sql, &connection.product);
        let is_call = definitions.is_empty() && call::is_call(&sql);
        if definitions.is_empty() && !is_call {
            return Err(Error::endpoint("the statement has no result: only queries can be streamed"));
        }
        let (columns, decoders) = if is_call {
            ([call::result_set()].into(), Box::default())
        } else {
            described(shared.reading(computed_bits), &definitions)?
        };
        let effect = match shared.routines.effect_of(&sql) {
            // A procedure may change the session, or end its read-only transaction.
            _ if is_call => SessionEffect::Unreported,
            SessionEffect::Reported if !connection.reports_changes => SessionEffect::Unreported,
            effect => effect,
        };
        Ok(StatementDescription {
            effect,
            has_left_state: AtomicBool::new(false),
            columns,
            is_call,
            parameters: parameters.into(),
            limits: limit_placeholders(&sql, &DIALECT).into(),
            sql,
            decoders,
            packets: packets.into(),
            computed_bits,
            slow: DelayRecord::default(),
        })
    }
}

#[cold]
fn too_many_columns() -> Error {
    Error::protocol("the columns of the statement take more than `max_row_bytes`")
}
