//! The statements of a stream, and the producer of their rows.

use std::mem;

use rowstream_core::Error;
use rowstream_core::params::ParamValue;

use super::counts::StatementRows;
use super::cursors::Cursors;
use super::encoder::Encoder;
use super::nest::Nest;
use super::per_row::Window;
use super::producer::Producer;
use super::steps::{AwaitedResult, EmptinessProbe, Rows, Step, TotalRow, prepared};

/// The statements that are being read.
pub(super) enum CurrentStatements {
    Nothing,
    Rows(Rows),
    /// Rows that arrive as record batches.
    Batches(Rows),
    /// Rows with the replies to calls for each of them.
    Enriched(Rows, Box<Window>),
    Nest(Box<Nest>),
    Probe(EmptinessProbe),
    Total(Box<TotalRow>),
    /// The columns of a procedure's next result haven't arrived yet.
    Awaited(Rows, AwaitedResult),
}

impl CurrentStatements {
    pub(super) fn rows(&self) -> Option<&Rows> {
        match self {
            Self::Rows(rows) | Self::Batches(rows) | Self::Enriched(rows, _) => Some(rows),
            Self::Nothing | Self::Nest(_) | Self::Probe(_) | Self::Total(_) | Self::Awaited(..) => None,
        }
    }

    /// The cursors after the rows so far, and the number of these. `None` within a row.
    pub(super) fn cursors(&self) -> Option<(&Cursors, u64)> {
        match self {
            Self::Nest(nest) => Some((nest.cursors()?, nest.count().rows)),
            _ => self.rows().and_then(|rows| Some((rows.cursors.as_deref()?, rows.encoder.rows()))),
        }
    }

    /// True if the rows have cursors.
    pub(super) fn has_cursors(&self) -> bool {
        match self {
            Self::Nest(nest) => nest.has_cursors(),
            _ => self.rows().is_some_and(|rows| rows.cursors.is_some()),
        }
    }

    /// True if a list is being read.
    pub(super) fn is_list(&self) -> bool {
        self.rows().is_some() || matches!(self, Self::Nest(_))
    }

    /// True if a row has begun and isn't complete.
    pub(super) fn is_within_row(&self) -> bool {
        matches!(self, Self::Nest(nest) if nest.is_within_row())
    }

    /// True if the encoder has rows that aren't in a chunk.
    pub(super) fn holds_rows(&self) -> bool {
        match self {
            Self::Nest(nest) => nest.holds_rows(),
            _ => self.rows().is_some_and(|rows| rows.encoder.holds_rows()),
        }
    }

    /// The rows encoded so far; `None` before the first statement and between two of them.
    pub(super) fn count(&self) -> Option<StatementRows> {
        match self {
            Self::Rows(rows) | Self::Batches(rows) | Self::Enriched(rows, _) => {
                Some(StatementRows::of(rows.cardinality, rows.encoder.rows()))
            }
            Self::Nest(nest) => Some(nest.count()),
            Self::Nothing | Self::Probe(_) | Self::Total(_) | Self::Awaited(..) => None,
        }
    }
}

/// The statements of a stream: those to come, and the current ones.
pub(super) struct Reading {
    /// `None` after the last row, so that the connection is free while the last chunks are being
    /// sent.
    pub(super) producer: Option<Producer>,
    pub(super) steps: std::vec::IntoIter<Step>,
    pub(super) current: CurrentStatements,
    values: Vec<ParamValue>,
}

impl Reading {
    /// Of prepared statements with these `values` of parameters.
    pub(super) fn new(producer: Producer, steps: Vec<Step>, values: Vec<ParamValue>) -> Self {
        let (producer, steps) = (Some(producer), steps.into_iter());
        Self { producer, steps, current: CurrentStatements::Nothing, values }
    }

    /// Without statements.
    pub(super) fn none() -> Self {
        Self {
            producer: None,
            steps: Vec::new().into_iter(),
            current: CurrentStatements::Nothing,
            values: Vec::new(),
        }
    }

    /// True if no statement is left.
    pub(super) fn is_done(&self) -> bool {
        matches!(self.current, CurrentStatements::Nothing) && self.steps.len() == 0
    }

    pub(super) fn holds_connection(&self) -> bool {
        self.producer.as_ref().is_some_and(Producer::holds_connection)
    }

    pub(super) fn waits_for_place(&self) -> bool {
        self.producer.as_ref().is_some_and(Producer::waits_for_place)
    }

    /// Takes the current statements, which have ended.
    pub(super) fn take_current(&mut self) -> CurrentStatements {
        mem::replace(&mut self.current, CurrentStatements::Nothing)
    }

    /// Runs the prepared statement `index`.
    fn execute(&mut self, index: usize, args: &[usize]) {
        let args: Vec<&ParamValue> = args.iter().map(|&arg| &self.values[arg]).collect();
        if let Some(producer) = &mut self.producer {
            producer.execute(index, &args);
        }
    }

    pub(super) fn execute_probe(&mut self, probe: EmptinessProbe) {
        self.execute(probe.index, &probe.args);
        self.current = CurrentStatements::Probe(probe);
    }

    pub(super) fn execute_total(&mut self, total: Box<TotalRow>) {
        self.execute(total.index, &total.args);
        self.current = CurrentStatements::Total(total);
    }

    pub(super) fn execute_rows(&mut self, rows: &Rows) {
        self.execute(rows.index, &rows.args);
    }

    pub(super) fn execute_nest(&mut self, mut nest: Box<Nest>, chunk: &mut Vec<u8>) {
        if let Some(Producer::Statements(session)) = &mut self.producer {
            nest.execute(session, &self.values, chunk);
        }
        self.current = CurrentStatements::Nest(nest);
    }

    /// Reads rows, whose encoder begins the list.
    ///
    /// # Errors
    /// Those of [`Window::new`].
    pub(super) fn begin_rows(&mut self, mut rows: Rows, chunk: &mut Vec<u8>) -> Result<(), Error> {
        rows.encoder.start(chunk);
        self.current = match (rows.calls.take(), &rows.encoder) {
            (Some(calls), _) => {
                CurrentStatements::Enriched(rows, Box::new(Window::new(*calls, &self.values)?))
            }
            (None, Encoder::Batches(_)) => CurrentStatements::Batches(rows),
            (None, _) => CurrentStatements::Rows(rows),
        };
        Ok(())
    }

    /// Notes the number of rows of a statement that has ended, for the placeholders after it.
    pub(super) fn note_count(&mut self, ended: usize, rows: u64) {
        for step in self.steps.as_mut_slice() {
            match step {
                Step::Count(count) if count.statement == ended => count.rows = rows,
                _ => {}
            }
        }
    }

    /// Drops the producer and the calls for its rows, because the rows can't be completed.
    pub(super) fn stop(&mut self) {
        self.producer = None;
        self.current = match self.take_current() {
            CurrentStatements::Enriched(rows, _) => CurrentStatements::Rows(rows),
            current => current,
        };
    }

    /// Drops the producer, and so frees its connection, if no statement is left.
    pub(super) fn free_producer(&mut self) {
        if prepared(self.steps.as_slice()) == 0 {
            self.producer = None;
        }
    }
}
