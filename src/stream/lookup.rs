//! Lookups: answers of at most one row. A request looks its row up first, because a thousand
//! requests may wait for theirs, and each would keep everything that it had made until then. Most
//! answers are written here, as soon as the row has arrived. All others are written by a stream,
//! whose parts cost more than the row.

use std::time::Duration;

use bytes::Bytes;
use rowstream_core::Error;
use rowstream_core::params::ParamValue;
use rowstream_core::pool::Patience;
use rowstream_encode::{Format, ValueOptions};

use super::RowsRequest;
use super::clock::{Clock, Phase};
use super::encoder::Encoder;
use super::open::{WantedStatements, WrittenForm, encoder};
use super::producer::Row;
use crate::database::Answer;
use crate::endpoint::{Endpoint, Handler, Piece, Statement};
use crate::outcome::Times;
use crate::source::Source;

/// The size of most lookups' bodies.
pub(super) const ROOM: usize = 512;

/// The result of an attempt to use a shared connection for a lookup.
pub(crate) enum LookupResult {
    /// The database's answer.
    Row(LookedUpRow),
    /// The lookup needs an exclusive connection. It has waited since this moment, and had waited
    /// for this long before.
    Elsewhere(tokio::time::Instant, Duration),
}

/// The row of a lookup, or the fact that there's none.
pub(crate) struct LookedUpRow {
    pub(super) answer: Answer,
    pub(super) clock: Clock,
}

/// The statement of an endpoint's answer, if that is one lookup.
pub(crate) fn lookup<'a>(endpoint: &'a Endpoint, reading: &RowsRequest) -> Option<&'a Statement> {
    match &endpoint.handler {
        Handler::Sql(_) => WantedStatements::of(endpoint, reading).lookup,
        Handler::Calls(_) | Handler::Pages(_) | Handler::Proxy(_) => None,
    }
}

/// Looks the row up.
///
/// # Errors
/// The database's error for the statement; 503 if too many lookups are under way.
pub(crate) async fn look_up(
    patience: Patience<'_>,
    source: &Source,
    statement: &Statement,
    values: &[ParamValue],
) -> Result<LookupResult, Error> {
    let before = patience.waited();
    let args: Box<[&ParamValue]> = statement.args.iter().map(|&arg| &values[arg]).collect();
    Ok(match source.database()?.look_up(&statement.query, &args, patience).await? {
        Some(answer) => {
            let clock = Clock::since(patience.since(), patience.waited() - before);
            LookupResult::Row(LookedUpRow { answer, clock })
        }
        None => LookupResult::Elsewhere(patience.begun(), before),
    })
}

impl LookedUpRow {
    /// The body and its number of rows. `None` if the body is more than the row and the template
    /// around it; then a [`RowStream`](super::RowStream) has to write it.
    ///
    /// # Errors
    /// The row doesn't fit its place, or a row is required and missing.
    pub(crate) fn body(
        &mut self,
        endpoint: &Endpoint,
        reading: &RowsRequest,
    ) -> Option<Result<(Bytes, u64), Error>> {
        let is_plain = |piece: &Piece| match piece {
            Piece::Literal(_) => true,
            Piece::Rows(index) => endpoint.statements()[*index].opener.is_none(),
            Piece::Count(_) | Piece::Next | Piece::Digest => false,
        };
        let is_enriched = endpoint.key().is_some() || endpoint.per_row().is_some();
        if reading.format != Format::Json || is_enriched || !endpoint.body.iter().all(is_plain) {
            return None;
        }
        self.clock.enter(false);
        let written = self.write(endpoint, reading.options);
        self.clock.leave(Phase::Client);
        Some(written)
    }

    fn write(&mut self, endpoint: &Endpoint, options: ValueOptions) -> Result<(Bytes, u64), Error> {
        let (mut body, mut rows) = (Vec::with_capacity(ROOM), 0);
        for piece in &endpoint.body {
            match piece {
                Piece::Rows(index) => {
                    let statement = &endpoint.statements()[*index];
                    rows += self.write_row(endpoint, statement, options, &mut body)?;
                }
                Piece::Literal(text) => body.extend_from_slice(text),
                // If these were left out, half an answer would look complete.
                Piece::Count(_) | Piece::Next | Piece::Digest => {
                    return Err(Error::endpoint("only a stream can write this body"));
                }
            }
        }
        Ok((body.into(), rows))
    }

    fn write_row(
        &mut self,
        endpoint: &Endpoint,
        statement: &Statement,
        options: ValueOptions,
        body: &mut Vec<u8>,
    ) -> Result<u64, Error> {
        let columns = self.answer.columns();
        let mut encoder = if options == ValueOptions::DEFAULT {
            Encoder::Json(statement.row_encoder(&columns)?)
        } else {
            statement.check_columns(&columns)?;
            let form = WrittenForm {
                format: Format::Json,
                options,
                csv: &endpoint.response.csv,
                page: None,
                longest_row: usize::MAX,
            };
            encoder(form, statement.cardinality, &columns)
        };
        encoder.start(body);
        while let Some(row) = self.answer.next_row() {
            if encoder.rows() > 0 {
                return Err(endpoint.one_row().repeated(&statement.name));
            }
            encoder.encode(Row::Database(row), body)?;
        }
        endpoint.one_row().check_end(encoder.rows())?;
        encoder.finish(body);
        Ok(encoder.rows())
    }

    /// Counts `took`, which has passed since the body was written, as encoding time: it was
    /// compressed.
    pub(crate) fn compressed(&mut self, took: Duration) {
        self.clock.times.encode += took;
    }

    /// How long the lookup waited and worked.
    pub(crate) fn times(&self) -> Times {
        self.clock.times
    }
}
