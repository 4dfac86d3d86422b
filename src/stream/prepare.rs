//! Prepares the statements of a response's body, in the order of its pieces.

use std::sync::Arc;

use rowstream_core::Error;
use rowstream_core::cursor::Signer;
use rowstream_core::error::STATEMENT_FAILED;
use rowstream_core::params::ParamValue;
use rowstream_encode::{BatchEncoder, Column, Format, Shape, ValueOptions};

use super::cursors::Cursors;
use super::encoder::Encoder;
use super::nest::Nest;
use super::open::{Tail, WrittenForm, encoder, json};
use super::producer::Producer;
use super::steps::{EmptinessProbe, ProbeFinding, RowColumns, RowCount, Rows, Step, TotalRow, prepared};
use crate::database::{self, RowSource};
use crate::endpoint::{
    Cardinality, Endpoint, Handler, OneRow, PartStatement, Piece, RowKey, TotalReading, TotalStatement,
};

/// Everything that the steps of a response depend on.
pub(super) struct StepPreparation<'a> {
    pub(super) endpoint: &'a Endpoint,
    pub(super) written: WrittenForm<'a>,
    /// The list with the endpoint's key, if the response has its cursors.
    pub(super) tail: Option<&'a Tail<'a>>,
    /// Signs the cursors of a shard.
    pub(super) shard_cursors: Option<&'a Signer>,
    pub(super) values: &'a [ParamValue],
}

impl StepPreparation<'_> {
    /// The steps of a body, after the statements that find its total.
    ///
    /// # Errors
    /// The database's, or a statement doesn't fit its place in the body.
    pub(super) async fn steps(&self, pieces: &[Piece], session: &mut Producer) -> Result<Vec<Step>, Error> {
        let mut steps = Vec::with_capacity(pieces.len());
        for total in self.endpoint.total().into_iter().flat_map(|total| &total.statements) {
            let row = Box::pin(TotalRow::prepare(total, session, prepared(&steps))).await?;
            steps.extend(row.map(|row| Step::Total(Box::new(row))));
        }
        for piece in pieces {
            if let Some(tail) = self.tail.filter(|tail| tail.refuses_nulls_of(piece)) {
                // Boxed, like nests, because few requests need it and all would carry it.
                let ahead = Box::pin(EmptinessProbe::ahead(self.endpoint, tail, session, prepared(&steps)));
                steps.extend(ahead.await?.map(Step::Probe));
                let nulls = Box::pin(EmptinessProbe::prepare(self.endpoint, tail, session, prepared(&steps)));
                steps.push(Step::Probe(nulls.await?));
            }
            steps.push(match piece {
                Piece::Literal(text) => Step::Literal(text.clone()),
                Piece::Rows(statement) => self.rows(*statement, session, prepared(&steps)).await?,
                Piece::Count(statement) => Step::Count(RowCount { statement: *statement, rows: 0 }),
                Piece::Next => Step::Next,
                Piece::Digest => Step::Digest,
            });
        }
        Ok(steps)
    }

    /// The rows of a statement, after `before` others.
    async fn rows(&self, statement: usize, session: &mut Producer, before: usize) -> Result<Step, Error> {
        let tail = self.tail.filter(|tail| tail.key.statement == statement);
        if self.endpoint.children(statement).next().is_some() {
            let WrittenForm { format, options, .. } = self.written;
            let nest = Nest::prepare(self.endpoint, statement, format, options, tail, session, before);
            return Ok(Step::Nest(Box::new(Box::pin(nest).await?)));
        }
        let rows = match &self.endpoint.handler {
            Handler::Calls(calls) => self.upstream_rows(statement, calls.columns()),
            Handler::Pages(pages) => self.upstream_rows(statement, pages.columns()),
            Handler::Sql(_) | Handler::Proxy(_) => {
                let order = match (tail, self.shard_cursors) {
                    (Some(tail), _) => ReadOrder::ByKey(tail),
                    (None, Some(signer)) => ReadOrder::ByPlace(signer),
                    (None, None) => ReadOrder::Any,
                };
                let rows = self.statement_rows(statement, order, session, before).await?;
                Rows { page: self.endpoint.page_of(statement, self.values), ..rows }
            }
        };
        Ok(Step::Rows(Box::new(rows)))
    }

    /// The rows of an upstream. Its requests use all parameters.
    fn upstream_rows(&self, index: usize, columns: Arc<[Column]>) -> Rows {
        Rows {
            index: 0,
            statement: index,
            name: Endpoint::ONLY.into(),
            args: (0..self.endpoint.params.len()).collect(),
            cardinality: Cardinality::Many,
            one_row: OneRow::Optional,
            reads: None,
            awaited: None,
            page: None,
            encoder: encoder(self.written, Cardinality::Many, &columns),
            columns: columns.into(),
            cursors: None,
        }
    }

    async fn statement_rows(
        &self,
        index: usize,
        order: ReadOrder<'_>,
        session: &mut Producer,
        before: usize,
    ) -> Result<Rows, Error> {
        let (endpoint, written) = (self.endpoint, self.written);
        let statement = &endpoint.statements()[index];
        let tail = order.tail();
        let divided = session.parts().and_then(|_| endpoint.divided());
        let query = order.query(divided).unwrap_or(&statement.query);
        let described = session.prepare(query).await?;
        let described = match endpoint.calls_for(index) {
            Some(_) => {
                let keys = tail.map_or(0, |tail| tail.key.columns.len());
                session.call_per_row(before, keys)?
            }
            None => described,
        };
        let opened = session.rows_of(before);
        let (cursors, columns) = match order {
            ReadOrder::ByKey(_) if opened != RowSource::Own => return Err(RowKey::of_refcursor()),
            ReadOrder::ByKey(tail) => {
                let ids = written.format == Format::Sse;
                let (cursors, columns) = Cursors::new(tail, &described, ids)?;
                (Some(Box::new(cursors)), columns)
            }
            ReadOrder::ByPlace(signer) => {
                let (cursors, columns) = Cursors::of_shard(signer.clone(), &described);
                (Some(Box::new(cursors)), columns)
            }
            ReadOrder::Any => (None, &*described),
        };
        let reads = statement.reads(columns, opened)?;
        let is_json = (written.format, written.options) == (Format::Json, ValueOptions::DEFAULT);
        let is_lookup = is_json && statement.is_lookup() && tail.is_none() && reads.is_none();
        match written.format {
            _ if reads.is_some() || is_lookup => {}
            Format::Csv => statement.check_count(columns)?,
            _ => statement.check_columns(columns)?,
        }
        let args = tail.map_or_else(|| statement.args.as_slice().into(), |tail| tail.args().into());
        let batches = match written.format {
            Format::Arrow => session.as_batches(before, columns.len()),
            _ => None,
        };
        let encoder = match batches {
            Some(schema) => Encoder::Batches(Box::new(BatchEncoder::new(schema))),
            None if is_lookup => Encoder::Json(statement.row_encoder(&described)?),
            None => encoder(written, statement.cardinality, columns),
        };
        let columns = RowColumns::first(columns.len(), Arc::clone(&described));
        Ok(Rows {
            index: before,
            statement: index,
            name: statement.name.as_str().into(),
            args,
            cardinality: statement.cardinality,
            one_row: endpoint.one_row(),
            reads,
            awaited: None,
            page: None,
            columns,
            encoder,
            cursors,
        })
    }
}

/// The SQLSTATE of MySQL's and MariaDB's refusal to explain a statement (`ER_VIEW_NO_EXPLAIN`).
const UNEXPLAINED: &str = "HY000";

impl TotalRow {
    /// `None` if the database doesn't explain the statement to this user: MySQL and MariaDB need rights
    /// on the tables of a view for that.
    async fn prepare(
        total: &TotalStatement,
        session: &mut Producer,
        before: usize,
    ) -> Result<Option<Self>, Error> {
        let columns = match (session.prepare(&total.query).await, total.reads) {
            (Err(error), TotalReading::Plan(_)) if error.sqlstate_text() == Some(UNEXPLAINED) => {
                return Ok(None);
            }
            (columns, _) => columns?,
        };
        // A plan of several columns has its text in the first one.
        let encoder = json(Shape::Scalar, ValueOptions::DEFAULT, columns.get(..1).unwrap_or_default());
        let args = total.args.as_slice().into();
        Ok(Some(Self { index: before, args, reads: total.reads, encoder, is_read: false }))
    }
}

impl EmptinessProbe {
    async fn prepare(
        endpoint: &Endpoint,
        tail: &Tail<'_>,
        session: &mut Producer,
        before: usize,
    ) -> Result<Self, Error> {
        let statement = &endpoint.statements()[tail.key.statement];
        session.prepare(&tail.key.nulls).await?;
        Ok(Self {
            index: before,
            name: statement.name.as_str().into(),
            args: tail.key.own_args(&statement.args).into(),
            finds: ProbeFinding::LeftOut { committed_only: tail.key.committed_only },
        })
    }

    /// Detects a list that begins after a key that the database hasn't issued yet.
    async fn ahead(
        endpoint: &Endpoint,
        tail: &Tail<'_>,
        session: &mut Producer,
        before: usize,
    ) -> Result<Option<Self>, Error> {
        let Some(question) = tail.key.ahead.as_ref().filter(|_| !tail.after.is_empty()) else {
            return Ok(None);
        };
        match session.prepare(question).await {
            Ok(_) => {}
            // SQLite creates its table of counters with the first counter.
            Err(error) if error.code() == STATEMENT_FAILED => return Ok(None),
            Err(error) => return Err(error),
        }
        let args = question.types.iter().map(|_| tail.after.start).collect();
        let name = endpoint.statements()[tail.key.statement].name.as_str().into();
        Ok(Some(Self { index: before, name, args, finds: ProbeFinding::Ahead }))
    }
}

/// The order in which rows are read.
enum ReadOrder<'a> {
    /// That of the statement.
    Any,
    /// That of the endpoint's key.
    ByKey(&'a Tail<'a>),
    /// That of the places of a shard, whose cursors this signs.
    ByPlace(&'a Signer),
}

impl<'a> ReadOrder<'a> {
    fn tail(&self) -> Option<&'a Tail<'a>> {
        match self {
            Self::ByKey(tail) => Some(tail),
            Self::Any | Self::ByPlace(_) => None,
        }
    }

    /// The statement to run instead of the endpoint's own.
    fn query(&self, divided: Option<&'a PartStatement>) -> Option<&'a database::Statement> {
        match self {
            Self::Any => divided.map(|divided| &divided.query),
            Self::ByKey(tail) => Some(tail.query),
            Self::ByPlace(_) => divided.map(|divided| &divided.placed),
        }
    }
}
