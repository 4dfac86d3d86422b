//! Lookups: answers of at most one row. A request asks for the row first: a thousand may wait, and
//! each would keep what it has made by then. Most answers are written here as soon as the row has
//! come. The parts of a stream, which write all others, cost more than the row.

use std::time::Duration;

use bytes::Bytes;
use rowstream_encode::{Format, ValueOptions};

use super::Reading;
use super::clock::{Clock, Phase};
use super::encoder::Encoder;
use super::open::{Wanted, encoder};
use super::producer::Row;
use crate::Error;
use crate::database::Answer;
use crate::endpoint::{Endpoint, Handler, Piece, Statement};
use crate::outcome::Times;
use crate::params::ParamValue;
use crate::pool::Patience;
use crate::source::Source;

/// Room for the bodies of most lookups.
pub(super) const ROOM: usize = 512;

/// What came of asking for the row of a lookup where lookups share connections.
pub(crate) enum LookedUp {
    /// What it answered with.
    Row(LookedUpRow),
    /// It needs a connection of its own. Who asks waits since then, and had waited for so long
    /// before.
    Elsewhere(tokio::time::Instant, Duration),
}

/// The row of a lookup, unless there is none.
pub(crate) struct LookedUpRow {
    pub(super) answer: Answer,
    pub(super) clock: Clock,
}

/// The statement of an endpoint's answer, where that is one lookup.
pub(crate) fn lookup<'a>(endpoint: &'a Endpoint, reading: &Reading) -> Option<&'a Statement> {
    match &endpoint.handler {
        Handler::Sql(_) => Wanted::of(endpoint, reading).lookup,
        Handler::Calls(_) | Handler::Pages(_) | Handler::Proxy(_) => None,
    }
}

/// Asks for the row of a lookup.
///
/// # Errors
/// What the database says of the statement; 503 when too many lookups are on their way.
pub(crate) async fn look_up(
    patience: Patience<'_>,
    source: &Source,
    statement: &Statement,
    values: &[ParamValue],
) -> Result<LookedUp, Error> {
    let before = patience.waited();
    let args: Box<[&ParamValue]> = statement.args.iter().map(|&arg| &values[arg]).collect();
    Ok(match source.database()?.look_up(&statement.query, &args, patience).await? {
        Some(answer) => {
            let clock = Clock::since(patience.since(), patience.waited() - before);
            LookedUp::Row(LookedUpRow { answer, clock })
        }
        None => LookedUp::Elsewhere(patience.begun(), before),
    })
}

impl LookedUpRow {
    /// The body, with how many rows it has; `None` where it is more than the row and the template
    /// around it, which is for a [`RowStream`](super::RowStream) to write.
    ///
    /// # Errors
    /// The row does not fit its place, or there is none and has to be one.
    pub(crate) fn body(
        &mut self,
        endpoint: &Endpoint,
        reading: &Reading,
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
                    rows += self.write_row((endpoint, statement), options, &mut body)?;
                }
                Piece::Literal(text) => body.extend_from_slice(text),
                // Left out, it would be half an answer that looks whole.
                Piece::Count(_) | Piece::Next | Piece::Digest => {
                    return Err(Error::endpoint("this body is for a stream to write"));
                }
            }
        }
        Ok((body.into(), rows))
    }

    fn write_row(
        &mut self,
        (endpoint, statement): (&Endpoint, &Statement),
        options: ValueOptions,
        body: &mut Vec<u8>,
    ) -> Result<u64, Error> {
        let columns = self.answer.columns();
        let mut encoder = if options == ValueOptions::DEFAULT {
            Encoder::Json(statement.row_encoder(&columns)?)
        } else {
            statement.check_columns(&columns)?;
            encoder(endpoint, (Format::Json, options), statement.cardinality, &columns)
        };
        encoder.start(body);
        while let Some(row) = self.answer.next_row() {
            if encoder.rows() > 0 {
                return Err(Error::several_rows(&statement.name));
            }
            encoder.encode(Row::Database(row), body)?;
        }
        if encoder.rows() == 0 && endpoint.not_found() {
            return Err(Error::no_such_row());
        }
        encoder.finish(body);
        Ok(encoder.rows())
    }

    /// Attributes `took`, which has passed since the body was written, to encoding: it was
    /// compressed.
    pub(crate) fn compressed(&mut self, took: Duration) {
        self.clock.times.encode += took;
    }

    /// Where the time went.
    pub(crate) fn times(&self) -> Times {
        self.clock.times
    }
}
