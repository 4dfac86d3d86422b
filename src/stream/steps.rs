//! The pieces of a response's body.

use std::sync::Arc;

use bytes::Bytes;
use rowstream_core::Error;
use rowstream_core::filter::MOST_COUNTED;
use rowstream_encode::{Column, Format, Shape, ValueOptions};

use super::cursors::Cursors;
use super::encoder::Encoder;
use super::nest::Nest;
use super::open::json;
use super::per_row::RowCalls;
use super::producer::Row;
use crate::database::{self, Batch, ResultSet};
use crate::endpoint::{Cardinality, Endpoint, OneRow, Piece, ResultRead, TotalReading, check_columns};
use crate::html::Page;
use crate::outcome::RowTotal;

/// The next piece that a response sends.
pub(super) enum Step {
    Literal(Bytes),
    Probe(EmptinessProbe),
    Total(Box<TotalRow>),
    Rows(Box<Rows>),
    Nest(Box<Nest>),
    Count(RowCount),
    Next,
    /// The digest of all bytes before it.
    Digest,
    /// The end of a page for browsers.
    PageEnd(Box<Page>),
}

/// The number of rows of a statement that was sent before.
pub(super) struct RowCount {
    /// The statement's index in the endpoint.
    pub(super) statement: usize,
    pub(super) rows: u64,
}

impl TotalReading {
    /// The total after a statement whose first value is `value`, in JSON, if the statements before it
    /// found `before`. `None` if the plan has no number.
    ///
    /// # Errors
    /// The value isn't a number of rows.
    pub(super) fn total(self, value: &[u8], before: Option<RowTotal>) -> Result<Option<RowTotal>, Error> {
        match self {
            Self::Count => counted(value).map(|rows| Some(RowTotal { rows, is_planned: false })),
            Self::BoundedCount => {
                counted(value).map(|rows| Some(RowTotal { rows, is_planned: rows > MOST_COUNTED }))
            }
            // All rows were counted.
            Self::Plan(_) if before.is_some_and(|counted| !counted.is_planned) => Ok(before),
            Self::Plan(estimate) => {
                let plan: Option<String> = serde_json::from_slice(value).ok();
                let rows = plan.and_then(|plan| (estimate.rows)(&plan));
                let counted = before.map_or(0, |counted| counted.rows);
                Ok(rows.map(|rows| RowTotal { rows: rows.max(counted), is_planned: true }).or(before))
            }
        }
    }
}

/// The number of rows that a database counted.
fn counted(value: &[u8]) -> Result<u64, Error> {
    let rows = std::str::from_utf8(value).ok().and_then(|text| text.trim_matches('"').parse().ok());
    rows.ok_or_else(|| Error::protocol("the number of rows isn't one"))
}

/// A statement that finds the number of all rows of a list.
pub(super) struct TotalRow {
    /// The statement's position in the session.
    pub(super) index: usize,
    pub(super) args: Box<[usize]>,
    pub(super) reads: TotalReading,
    /// Writes the value of the first row as JSON.
    pub(super) encoder: Encoder,
    /// True after the first row.
    pub(super) is_read: bool,
}

/// A statement that must find no row. If it does, the list after it would leave rows out.
pub(super) struct EmptinessProbe {
    /// The statement's position in the session.
    pub(super) index: usize,
    /// The name of the statement whose rows they are.
    pub(super) name: Box<str>,
    pub(super) args: Box<[usize]>,
    pub(super) finds: ProbeFinding,
}

/// The meaning of the row of an [`EmptinessProbe`].
#[derive(Debug, Clone, Copy)]
pub(super) enum ProbeFinding {
    /// No cursor leads to a row. Its key has a NULL; or, if the list is `committed_only`, its
    /// transaction hasn't begun yet.
    LeftOut { committed_only: bool },
    /// The list begins after a key that the database hasn't issued yet.
    Ahead,
}

/// A result of a procedure in a JSON body. It arrives after the previous result has been read.
#[derive(Debug, Clone, Copy)]
pub(super) struct AwaitedResult {
    pub(super) result: ResultSet,
    pub(super) shape: Shape,
    pub(super) options: ValueOptions,
}

/// The columns of a statement's result.
pub(super) struct RowColumns {
    all: Arc<[Column]>,
    /// The number of those that are members of the rows. The columns of a key follow them.
    shown: usize,
}

impl RowColumns {
    /// The first `shown` columns of a result are members of its rows.
    pub(super) fn first(shown: usize, all: Arc<[Column]>) -> Self {
        Self { all, shown }
    }

    /// The members of the rows.
    pub(super) fn shown(&self) -> &[Column] {
        &self.all[..self.shown]
    }
}

/// All columns are members of the rows.
impl From<Arc<[Column]>> for RowColumns {
    fn from(all: Arc<[Column]>) -> Self {
        Self { shown: all.len(), all }
    }
}

/// The rows of one statement.
pub(super) struct Rows {
    /// The statement's position in the session.
    pub(super) index: usize,
    /// Its index in the endpoint.
    pub(super) statement: usize,
    pub(super) name: Box<str>,
    pub(super) args: Box<[usize]>,
    pub(super) cardinality: Cardinality,
    pub(super) one_row: OneRow,
    /// The result that another statement has opened, if these are its rows.
    pub(super) reads: Option<ResultRead>,
    /// The calls for each of its rows.
    pub(super) calls: Option<Box<RowCalls>>,
    /// The result that hasn't arrived yet. Its columns will arrive with it.
    pub(super) awaited: Option<Box<AwaitedResult>>,
    /// The largest possible number of rows, if they are those of the endpoint's key and it's known.
    pub(super) page: Option<u64>,
    /// Its columns. If it reads a cursor or a procedure's result, those of that, once it's open.
    pub(super) columns: RowColumns,
    pub(super) encoder: Encoder,
    pub(super) cursors: Option<Box<Cursors>>,
}

impl Rows {
    #[inline]
    pub(super) fn encode(&mut self, row: Row<'_>, out: &mut Vec<u8>) -> Result<(), Error> {
        match &mut self.cursors {
            None => self.encoder.encode(row, out),
            Some(cursors) => cursors.encode(&mut self.encoder, row, out),
        }
    }

    /// Writes rows that arrived as a batch.
    ///
    /// # Errors
    /// There are more rows than allowed, or the last one has no key.
    pub(super) fn batch(
        &mut self,
        batch: Batch<'_, database::Row<'_>>,
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let rows = self.encoder.rows() + batch.rows;
        if self.cardinality != Cardinality::Many && rows > 1 {
            return Err(self.one_row.repeated(&self.name));
        }
        if let (Some(cursors), Some(last)) = (&mut self.cursors, batch.last) {
            cursors.keep(Row::Database(last))?;
        }
        self.encoder.batch(batch.rows, batch.message, out)
    }

    /// Chooses the encoder, once the columns of an awaited result have arrived.
    ///
    /// # Errors
    /// They don't fit its place in the body.
    pub(super) fn describe(&mut self, awaited: AwaitedResult, columns: Arc<[Column]>) -> Result<(), Error> {
        check_columns(&self.name, self.cardinality, &columns)?;
        self.encoder = json(awaited.shape, awaited.options, &columns);
        self.columns = columns.into();
        Ok(())
    }

    /// Checks that one more row is allowed: only a `:many` may have a second one.
    #[inline]
    pub(super) fn admit_row(&self) -> Result<(), Error> {
        match self.cardinality {
            Cardinality::One | Cardinality::Value if self.encoder.rows() > 0 => {
                Err(self.one_row.repeated(&self.name))
            }
            _ => Ok(()),
        }
    }
}

/// The pieces of a body of `format`; `rows` if it contains nothing else.
pub(super) fn pieces<'a>(endpoint: &'a Endpoint, format: Format, rows: &'a [Piece]) -> &'a [Piece] {
    match format {
        _ if endpoint.has_only_total() => &[],
        Format::Json => &endpoint.body,
        Format::Ndjson | Format::Csv | Format::Sse | Format::JsonSeq | Format::Arrow | Format::Html => rows,
    }
}

/// The number of statements that the steps run. They were prepared in the same order.
pub(super) fn prepared(steps: &[Step]) -> usize {
    let statements = |step: &Step| match step {
        Step::Literal(_) | Step::Count(_) | Step::Next | Step::Digest | Step::PageEnd(_) => 0,
        Step::Rows(_) | Step::Probe(_) | Step::Total(_) => 1,
        Step::Nest(nest) => nest.len(),
    };
    steps.iter().map(statements).sum()
}
