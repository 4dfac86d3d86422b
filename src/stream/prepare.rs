//! Prepares the statements of a response's body, in the order of its pieces.

use std::sync::Arc;

use rowstream_core::Error;
use rowstream_core::cursor::Signer;
use rowstream_core::error::{Reason, STATEMENT_FAILED};
use rowstream_core::params::ParamValue;
use rowstream_encode::{BatchEncoder, Column, Format, Shape, ValueOptions};
use rowstream_upstream::Source;

use super::cursors::Cursors;
use super::encoder::Encoder;
use super::nest::Nest;
use super::open::{Tail, WrittenForm, encoder, json};
use super::per_row::RowCalls;
use super::producer::Producer;
use super::steps::{EmptinessProbe, ProbeFinding, RowColumns, RowCount, Rows, Step, TotalRow, prepared};
use crate::database::{RowSource, Session, TableParts};
use crate::endpoint::{
    Cardinality, Endpoint, OneRow, Piece, RowKey, Statement, TotalReading, TotalStatement, of_refcursor,
};

/// Everything that the steps of a response depend on.
pub(super) struct StepPreparation<'a> {
    pub(super) endpoint: &'a Endpoint,
    pub(super) written: WrittenForm<'a>,
    /// The list with the endpoint's key, if the response has its cursors.
    pub(super) tail: Option<&'a Tail<'a>>,
    /// Signs the cursors of a shard.
    pub(super) shard_cursors: Option<&'a Signer>,
    /// The upstreams to call for each row.
    pub(super) upstreams: &'a [Source],
    pub(super) values: &'a [ParamValue],
}

impl StepPreparation<'_> {
    /// The steps of a body, after the statements that find its total.
    ///
    /// # Errors
    /// The database's, or a statement doesn't fit its place in the body.
    pub(super) async fn steps(&self, pieces: &[Piece], producer: &mut Producer) -> Result<Vec<Step>, Error> {
        let mut steps = Vec::with_capacity(pieces.len());
        if let Producer::Statements(session) = producer {
            for total in self.endpoint.total().into_iter().flat_map(|total| &total.statements) {
                let row = Box::pin(TotalRow::prepare(total, session, prepared(&steps))).await?;
                steps.extend(row.map(|row| Step::Total(Box::new(row))));
            }
        }
        for piece in pieces {
            let step = match (piece, &mut *producer) {
                (Piece::Rows(statement), Producer::Statements(session)) => {
                    self.probe(*statement, session, &mut steps).await?;
                    self.rows(*statement, session, prepared(&steps)).await?
                }
                (Piece::Rows(statement), Producer::Lookup(answer)) => {
                    let rows = self.statement_rows(*statement, None, answer.columns(), None, 0)?;
                    Step::Rows(Box::new(rows))
                }
                // Boxed, like nests, because few requests need it and all would carry it.
                (Piece::Rows(statement), Producer::Parts(parts)) => {
                    Box::pin(self.part_rows(*statement, parts)).await?
                }
                (Piece::Rows(_), Producer::Calls(calls)) => self.upstream_rows(calls.columns()),
                (Piece::Rows(_), Producer::Pages(pages)) => self.upstream_rows(pages.columns()),
                (Piece::Literal(text), _) => Step::Literal(text.clone()),
                (Piece::Count(statement), _) => Step::Count(RowCount { statement: *statement, rows: 0 }),
                (Piece::Next, _) => Step::Next,
                (Piece::Digest, _) => Step::Digest,
            };
            steps.push(step);
        }
        Ok(steps)
    }

    /// The list with the endpoint's key, if it's that of `statement`.
    fn tail_of(&self, statement: usize) -> Option<&Tail<'_>> {
        self.tail.filter(|tail| tail.key.statement == statement)
    }

    /// Adds the probes for rows that the list of a statement would leave out.
    async fn probe(
        &self,
        statement: usize,
        session: &mut Session,
        steps: &mut Vec<Step>,
    ) -> Result<(), Error> {
        if let Some(tail) = self.tail_of(statement).filter(|tail| tail.refuses_nulls()) {
            // Boxed, like nests, because few requests need it and all would carry it.
            let ahead = Box::pin(EmptinessProbe::ahead(self.endpoint, tail, session, prepared(steps)));
            steps.extend(ahead.await?.map(Step::Probe));
            let nulls = Box::pin(EmptinessProbe::prepare(self.endpoint, tail, session, prepared(steps)));
            steps.push(Step::Probe(nulls.await?));
        }
        Ok(())
    }

    /// The rows of a statement, after `before` others.
    async fn rows(&self, statement: usize, session: &mut Session, before: usize) -> Result<Step, Error> {
        let tail = self.tail_of(statement);
        if self.endpoint.children(statement).next().is_some() {
            let WrittenForm { format, options, .. } = self.written;
            let nest = Nest::prepare(self.endpoint, statement, format, options, tail, session, before);
            return Ok(Step::Nest(Box::new(Box::pin(nest).await?)));
        }
        let query = tail.map_or(&self.endpoint.statements()[statement].query, |tail| tail.query);
        let described = session.prepare(query).await?;
        let rows = self.statement_rows(statement, tail, described, Some(session), before)?;
        Ok(Step::Rows(Box::new(rows)))
    }

    /// The rows of an upstream. Its requests use all parameters.
    fn upstream_rows(&self, columns: Arc<[Column]>) -> Step {
        let args = (0..self.endpoint.params.len()).collect();
        Step::Rows(Box::new(self.list(Endpoint::ONLY, args, columns.into())))
    }

    /// The rows of the endpoint's only statement, for each part of its table.
    async fn part_rows(&self, index: usize, parts: &mut TableParts) -> Result<Step, Error> {
        let statement = &self.endpoint.statements()[index];
        let query = match (self.endpoint.divided(), self.shard_cursors) {
            (Some(divided), Some(_)) => &divided.placed,
            (Some(divided), None) => &divided.query,
            (None, _) => &statement.query,
        };
        let described = parts.prepare(query).await?;
        let (cursors, shown) = match self.shard_cursors {
            Some(signer) => {
                let (cursors, shown) = Cursors::of_shard(signer.clone(), &described);
                (Some(Box::new(cursors)), shown)
            }
            None => (None, &*described),
        };
        self.check(statement, shown)?;
        let columns = RowColumns::first(shown.len(), Arc::clone(&described));
        let rows = self.list(&statement.name, statement.args.as_slice().into(), columns);
        Ok(Step::Rows(Box::new(Rows { cursors, ..rows })))
    }

    /// The list that is a producer's only one.
    fn list(&self, name: &str, args: Box<[usize]>, columns: RowColumns) -> Rows {
        Rows {
            index: 0,
            statement: 0,
            name: name.into(),
            args,
            cardinality: Cardinality::Many,
            one_row: OneRow::Optional,
            reads: None,
            calls: None,
            awaited: None,
            page: None,
            encoder: encoder(self.written, Cardinality::Many, columns.shown()),
            columns,
            cursors: None,
        }
    }

    /// Checks that the columns fit the place of the rows.
    fn check(&self, statement: &Statement, columns: &[Column]) -> Result<(), Error> {
        match self.written.format {
            Format::Csv => statement.check_count(columns),
            _ => statement.check_columns(columns),
        }
    }

    /// The rows of a statement with these columns. `session` has prepared it after `before` others;
    /// a lookup has none.
    fn statement_rows(
        &self,
        index: usize,
        tail: Option<&Tail<'_>>,
        mut described: Arc<[Column]>,
        session: Option<&mut Session>,
        before: usize,
    ) -> Result<Rows, Error> {
        let (endpoint, written) = (self.endpoint, self.written);
        let statement = &endpoint.statements()[index];
        let opened = session.as_ref().map_or(RowSource::Own, |session| session.rows_of(before));
        if endpoint.per_row().is_some() && opened != RowSource::Own {
            return Err(of_refcursor());
        }
        let mut calls = None;
        if let Some(plan) = endpoint.calls_for(index) {
            let keys = tail.map_or(0, |tail| tail.key.columns.len());
            let fitted = RowCalls::new(plan, &described, keys, self.upstreams)?;
            described = fitted.columns();
            calls = Some(Box::new(fitted));
        }
        let (cursors, columns) = match tail {
            Some(_) if opened != RowSource::Own => return Err(RowKey::of_refcursor()),
            Some(tail) => {
                let ids = written.format == Format::Sse;
                let (cursors, columns) = Cursors::new(tail, &described, ids)?;
                (Some(Box::new(cursors)), columns)
            }
            None => (None, &*described),
        };
        let reads = statement.reads(columns, opened)?;
        let is_json = (written.format, written.options) == (Format::Json, ValueOptions::DEFAULT);
        let is_lookup = is_json && statement.is_lookup() && tail.is_none() && reads.is_none();
        if reads.is_none() && !is_lookup {
            self.check(statement, columns)?;
        }
        let args = tail.map_or_else(|| statement.args.as_slice().into(), |tail| tail.args().into());
        let batches = match written.format {
            Format::Arrow if calls.is_none() => {
                session.and_then(|session| session.as_batches(before, columns.len()))
            }
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
            calls,
            awaited: None,
            page: endpoint.page_of(index, self.values),
            columns,
            encoder,
            cursors,
        })
    }
}

impl TotalRow {
    /// `None` if the database doesn't explain the statement to this user: MySQL and MariaDB need rights
    /// on the tables of a view for that.
    async fn prepare(
        total: &TotalStatement,
        session: &mut Session,
        before: usize,
    ) -> Result<Option<Self>, Error> {
        let columns = match (session.prepare(&total.query).await, total.reads) {
            (Err(error), TotalReading::Plan(_)) if error.reason() == Some(Reason::Unexplained) => {
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
        session: &mut Session,
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
        session: &mut Session,
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
