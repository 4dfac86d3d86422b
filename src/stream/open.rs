//! Opens the statements of a stream on a connection, and chooses the encoders of their rows.

use std::ops::Range;
use std::time::Duration;

use rowstream_core::Error;
use rowstream_core::cursor::{self, KeyTypes, Signer};
use rowstream_core::params::{ParamValue, RequestedShard};
use rowstream_core::pool::{Priority, Waiter};
use rowstream_encode::{
    ArrowEncoder, Column, CsvDialect, CsvEncoder, Format, OptionsEncoder, RowEncoder, Shape, ValueOptions,
};

use super::calls::CallRows;
use super::clock::Clock;
use super::encoder::Encoder;
use super::lookup::{LookupResult, look_up};
use super::pages::PageRows;
use super::prepare::StepPreparation;
use super::producer::Producer;
use super::steps::{Step, pieces, prepared};
use super::{RowsRequest, SHORT_PAGE, refcursor};
use crate::completeness::events;
use crate::database::{self, PartsKind, PartsRequest, RowOrder, ShardRead, Snapshot, TableParts};
use crate::endpoint::{
    Cardinality, Endpoint, Handler, OneRow, ParallelRead, PartStatement, Piece, RowKey, Shards, Statement,
};
use crate::html::Page;
use crate::source::Source;

/// Statements that are ready to run.
pub(crate) struct OpenedStatements {
    pub(super) producer: Producer,
    pub(super) steps: Vec<Step>,
    /// The values of the request's parameters, followed by those of a cursor.
    pub(super) values: Vec<ParamValue>,
    pub(super) clock: Clock,
    /// The parts of a table that it reads, if it doesn't read all of it by one connection.
    pub(super) part: Option<ReadPart>,
    /// The cursor of a new page where the request's list begins; `None` at its first row.
    pub(super) begin: Option<String>,
}

/// The parts of a table that a response reads.
pub(crate) enum ReadPart {
    /// All parts, on this many connections.
    All(usize),
    /// A shard of the snapshot with this token.
    Shard(String),
}

impl OpenedStatements {
    /// Takes a connection, prepares the statements that `reading` needs, and calls those that open
    /// refcursors.
    ///
    /// # Errors
    /// Those of [`super::RowStream::open_with`].
    pub(crate) async fn open(
        waiter: &Waiter,
        endpoint: &Endpoint,
        source: &Source,
        reading: &RowsRequest,
        mut values: Vec<ParamValue>,
        looked_up: Option<Box<LookupResult>>,
    ) -> Result<Self, Error> {
        let csv = reading.csv.as_deref().unwrap_or(&endpoint.response.csv);
        let is_page = reading.format == Format::Html && !endpoint.has_only_total();
        let page = is_page.then(|| reading.page.clone().unwrap_or_default());
        let written = WrittenForm {
            format: reading.format,
            options: reading.options,
            csv,
            page: page.as_deref(),
            longest_row: endpoint.longest_row,
        };
        let tail = Tail::read(endpoint, reading, &mut values)?;
        let rows = only_rows(endpoint);
        let pieces = pieces(endpoint, reading.format, &rows);
        let probes = tail.as_ref().is_some_and(Tail::refuses_nulls);
        let begun = begin(waiter, endpoint, source, reading, probes, &values, looked_up);
        let (mut producer, clock) = begun.await?;
        let (part, shard_cursors) = match &producer {
            Producer::Parts(parts) => (
                Some(part(endpoint, reading, parts, &values)),
                shard_cursors(endpoint, reading, parts, &values),
            ),
            Producer::Statements(_) | Producer::Lookup(_) | Producer::Calls(_) | Producer::Pages(_) => {
                (None, None)
            }
        };
        let preparation = StepPreparation {
            endpoint,
            written,
            tail: tail.as_ref(),
            shard_cursors: shard_cursors.as_deref(),
            upstreams: &reading.upstreams,
            values: &values,
        };
        let mut steps = preparation.steps(pieces, &mut producer).await?;
        if let Producer::Statements(session) = &mut producer {
            if prepared(&steps) > 1 {
                Box::pin(session.begin()).await?;
            }
            refcursor::open(endpoint, written, session, &mut steps, &values).await?;
        }
        if reading.ends_events {
            end_events(endpoint, &mut steps);
        }
        steps.extend(page.map(Step::PageEnd));
        let begin = tail.and_then(|tail| tail.begin);
        Ok(Self { producer, steps, values, clock, part, begin })
    }
}

/// Adds the events that make an `EventSource` stop after all rows, or after a cut if it can't
/// resume.
fn end_events(endpoint: &Endpoint, steps: &mut Vec<Step>) {
    match endpoint.key() {
        Some(_) => steps.push(Step::Literal(events::END_EVENT)),
        None => steps.insert(0, Step::Literal(events::NOT_RESUMABLE_EVENT)),
    }
}

/// How the statement with the response's key is read if there are cursors.
pub(super) struct Tail<'a> {
    pub(super) key: &'a RowKey,
    /// The arguments of the statement with the key.
    own: &'a [usize],
    pub(super) query: &'a database::Statement,
    pub(super) signer: Signer,
    /// The positions of the values that [`RowKey::rest`] needs.
    pub(super) after: Range<usize>,
    /// The types that the key had when the cursor was made.
    types: Option<KeyTypes>,
    /// The cursor of a new page at the place of the request's cursor.
    begin: Option<String>,
    /// The most rows of the list, if that's known.
    pub(super) page: Option<u64>,
    /// How many rows of the list the client has already.
    pub(super) before: u64,
    /// True if cursors within the list contain the number of rows before them.
    pub(super) counts_rows: bool,
}

impl<'a> Tail<'a> {
    /// True if the list would leave out rows with a NULL in their key: it begins after a cursor, or
    /// contains only settled rows.
    pub(super) fn refuses_nulls(&self) -> bool {
        !self.after.is_empty() || self.key.committed_only
    }

    /// `None` if the response neither begins after a cursor nor contains any. The values of a
    /// cursor are appended to `values`.
    fn read(
        endpoint: &'a Endpoint,
        reading: &RowsRequest,
        values: &mut Vec<ParamValue>,
    ) -> Result<Option<Self>, Error> {
        let Some(key) = endpoint.key() else { return Ok(None) };
        let page = endpoint.page_of(key.statement, values);
        // Nested statements read the parents in the order of the key.
        let is_needed = key.committed_only || !key.nested.is_empty() || reading.gives_cursors(endpoint, page);
        if reading.after.is_none() && !is_needed {
            return Ok(None);
        }
        let mut tail = Self {
            key,
            own: &endpoint.statements()[key.statement].args,
            query: &key.ordered,
            signer: key.signer(values),
            after: values.len()..values.len(),
            types: None,
            begin: None,
            page,
            before: 0,
            // A live tail reads one list after the other, so a limit is only the size of a reading.
            counts_rows: !reading.followed && key.counts_rows(page),
        };
        if let Some(cursor) = &reading.after {
            tail.begin_after(cursor, values)?;
        }
        Ok(Some(tail))
    }

    /// The statement to run instead of the endpoint's own with this index, and its arguments.
    pub(super) fn read_of(&self, statement: usize) -> Option<(&'a database::Statement, Vec<usize>)> {
        if statement == self.key.statement {
            return Some((self.query, self.args()));
        }
        self.key.nested_read(statement, self.own, self.after.clone())
    }

    /// The arguments of `query`, as indices into the values of the request.
    pub(super) fn args(&self) -> Vec<usize> {
        match self.after.is_empty() {
            true => self.own.to_vec(),
            false => self.key.rest_args(self.own, self.after.clone()).collect(),
        }
    }

    fn begin_after(&mut self, cursor: &str, values: &mut Vec<ParamValue>) -> Result<(), Error> {
        let columns = self.key.columns.len();
        let position = self.signer.position(cursor, columns)?;
        if !self.key.may_hold(&position.key) {
            return Err(cursor::changed());
        }
        self.begin = Some(position.at_end.clone());
        let place = self.key.list_position(position, self.page, self.counts_rows);
        (self.types, self.before) = (Some(place.types), place.before);
        values.extend(place.values);
        (self.query, self.after.end) = (&self.key.rest, values.len());
        Ok(())
    }

    /// The types of the key's columns, which are among these of the result.
    ///
    /// # Errors
    /// 400: the cursor was made when they were others.
    pub(super) fn key_types(&self, columns: &[Column]) -> Result<KeyTypes, Error> {
        let types = self.key.types(columns);
        if self.types.is_some_and(|then| then != types) { Err(cursor::other_types()) } else { Ok(types) }
    }
}

impl RowsRequest {
    /// True if the answer of an endpoint with a key contains cursors.
    fn gives_cursors(&self, endpoint: &Endpoint, page: Option<u64>) -> bool {
        match self.format {
            _ if self.cursors || page.is_some_and(|rows| rows <= SHORT_PAGE) => true,
            Format::Sse => true,
            Format::Json => endpoint.body.contains(&Piece::Next),
            // A page links to the next one.
            Format::Html => page.is_some(),
            Format::Ndjson | Format::Csv | Format::JsonSeq | Format::Arrow => false,
        }
    }

    /// True if the answer of a shard contains marks, which have cursors.
    fn marks_shard(&self) -> bool {
        self.cursors && matches!(self.format, Format::Ndjson | Format::JsonSeq)
    }
}

/// The form in which rows are written.
#[derive(Clone, Copy)]
pub(super) struct WrittenForm<'a> {
    pub(super) format: Format,
    pub(super) options: ValueOptions,
    pub(super) csv: &'a CsvDialect,
    /// The page of the rows, if the format is HTML.
    pub(super) page: Option<&'a Page>,
    /// The longest row of the source, in bytes.
    pub(super) longest_row: usize,
}

/// The encoder for the rows of one of the endpoint's statements.
pub(super) fn encoder(form: WrittenForm<'_>, cardinality: Cardinality, columns: &[Column]) -> Encoder {
    let WrittenForm { format, options, csv, page, longest_row } = form;
    match shape(format, cardinality) {
        None if format == Format::Arrow => {
            // The budget of a stream counts rows of this length.
            Encoder::Arrow(Box::new(ArrowEncoder::new(columns).with_longest_lists(longest_row)))
        }
        None if let Some(page) = page => {
            Encoder::Html(Box::new(page.encoder(cardinality, columns).with_options(options)))
        }
        None => Encoder::Csv(CsvEncoder::new(csv.clone(), columns).with_options(options)),
        Some(shape) => json(shape, options, columns),
    }
}

/// The encoder of rows as JSON.
pub(super) fn json(shape: Shape, options: ValueOptions, columns: &[Column]) -> Encoder {
    if options == ValueOptions::DEFAULT {
        Encoder::Json(RowEncoder::new(shape, columns))
    } else {
        Encoder::ByOptions(OptionsEncoder::new(shape, options, columns))
    }
}

/// The form of rows in a JSON body; `None` for other formats.
pub(super) fn shape(format: Format, cardinality: Cardinality) -> Option<Shape> {
    Some(match (format, cardinality) {
        (Format::Csv | Format::Arrow | Format::Html, _) => return None,
        (Format::Ndjson, _) => Shape::Lines,
        (Format::Sse, _) => Shape::Event,
        (Format::JsonSeq, _) => Shape::Sequence,
        (Format::Json, Cardinality::Many) => Shape::Array,
        (Format::Json, Cardinality::One) => Shape::Object,
        (Format::Json, Cardinality::Value) => Shape::Scalar,
    })
}

/// The database statements that an answer needs.
pub(super) struct WantedStatements<'a> {
    /// The one statement, if it has at most one row.
    pub(super) lookup: Option<&'a Statement>,
    /// True if there are several.
    several: bool,
}

impl<'a> WantedStatements<'a> {
    pub(super) fn of(endpoint: &'a Endpoint, reading: &RowsRequest) -> Self {
        let rows = match reading.format {
            Format::Json => None,
            _ => Some(only_rows(endpoint)),
        };
        let pieces = rows.as_ref().map_or(&*endpoint.body, |rows| rows);
        let mut statements = pieces.iter().filter_map(Piece::statement);
        let (first, second) = (statements.next(), statements.next());
        let several = second.or(first.and_then(|root| endpoint.children(root).next())).is_some();
        let first = first.filter(|_| !several).map(|index| &endpoint.statements()[index]);
        // The search for a list's only row may take long, and lookups on its connection would wait.
        let is_short = |first: &Statement| {
            first.cardinality != Cardinality::Many && endpoint.one_row() != OneRow::Requested
        };
        Self { lookup: first.filter(|first| is_short(first)), several }
    }
}

/// The pieces of an answer that is only a list of rows.
fn only_rows(endpoint: &Endpoint) -> [Piece; 1] {
    [Piece::Rows(endpoint.rows_statement().unwrap_or_default())]
}

/// Gets the producer of an endpoint's rows. A lookup uses a shared connection, if it wasn't done
/// before. All other statements get a connection of their own.
async fn begin(
    waiter: &Waiter,
    endpoint: &Endpoint,
    source: &Source,
    reading: &RowsRequest,
    probes: bool,
    values: &[ParamValue],
    looked_up: Option<Box<LookupResult>>,
) -> Result<(Producer, Clock), Error> {
    match &endpoint.handler {
        Handler::Sql(_) => {}
        Handler::Calls(calls) => {
            let rows = CallRows::new(source.upstream()?, calls);
            return Ok((Producer::Calls(Box::new(rows)), Clock::new(Duration::ZERO)));
        }
        Handler::Pages(pages) => {
            let rows = PageRows::new(source.upstream()?, pages);
            return Ok((Producer::Pages(Box::new(rows)), Clock::new(Duration::ZERO)));
        }
        Handler::Proxy(_) => return Err(Error::endpoint("a response that is passed through has no rows")),
    }
    let database = source.database()?;
    let WantedStatements { lookup, several } = WantedStatements::of(endpoint, reading);
    let looked_up = match looked_up {
        Some(looked_up) => *looked_up,
        // Boxed, because few requests need it and all would carry it.
        None if let Some(statement) = lookup => {
            Box::pin(look_up(waiter.begin(), source, statement, values)).await?
        }
        None => LookupResult::Elsewhere(waiter.begin().begun(), waiter.waited()),
    };
    let (patience, before) = match looked_up {
        LookupResult::Row(row) => return Ok((Producer::Lookup(row.answer), row.clock)),
        LookupResult::Elsewhere(begun, before) => (waiter.begun(begun), before),
    };
    let counts_beside = endpoint.total().is_some_and(|total| !total.is_alone);
    let snapshot =
        if several || probes || counts_beside { Snapshot::Transaction } else { Snapshot::Statement };
    let priority = if lookup.is_some() { Priority::Lookup } else { Priority::Stream };
    let wait = patience.wait();
    let rows = match (&reading.shard, endpoint.parallel()) {
        (None, None) => Producer::Statements(database.acquire(snapshot, priority, patience).await?),
        // Boxed, because few requests need it and all would carry it.
        (None, Some(ParallelRead { parts, divided })) => {
            let read = PartsRequest::All { table: &divided.table, most: *parts };
            Producer::Parts(Box::pin(database.acquire_parts(read, priority, patience)).await?)
        }
        (Some(requested), _) => {
            let shards = endpoint.shards().ok_or_else(|| Error::endpoint("this endpoint has no shards"))?;
            let read = PartsRequest::Shard(shard_read(shards, requested, reading, values)?);
            Producer::Parts(Box::pin(database.acquire_parts(read, priority, patience)).await?)
        }
    };
    drop(wait);
    Ok((rows, Clock::new(waiter.waited() - before)))
}

/// The shard that a response reads, and where it begins.
///
/// # Errors
/// 400: the token isn't for this request, or the cursor isn't for this shard of its snapshot.
fn shard_read<'a>(
    shards: &'a Shards,
    RequestedShard { shard, snapshot }: &RequestedShard,
    reading: &RowsRequest,
    values: &[ParamValue],
) -> Result<ShardRead<'a>, Error> {
    let PartStatement { table, functions, .. } = &shards.divided;
    let open = |token: &String| shards.open(token, shard.of, values);
    let snapshot = snapshot.as_ref().map(open).transpose()?;
    let after = match (&reading.after, &snapshot) {
        (Some(cursor), Some(snapshot)) => Some(shards.place(cursor, *shard, snapshot, values)?),
        (Some(_), None) => return Err(cursor::changed()),
        (None, _) => None,
    };
    let order = if reading.marks_shard() { RowOrder::ByPlace { functions } } else { RowOrder::Any };
    Ok(ShardRead { table, shard: *shard, snapshot, after, order })
}

/// The signer of a shard's cursors, if its response contains any.
fn shard_cursors(
    endpoint: &Endpoint,
    reading: &RowsRequest,
    parts: &TableParts,
    values: &[ParamValue],
) -> Option<Box<Signer>> {
    let (shards, requested) = (endpoint.shards()?, reading.shard.as_ref()?);
    let PartsKind::Shard { snapshot, is_by_place: true } = parts.kind() else { return None };
    // Boxed, because few requests need it and all would carry it.
    Some(Box::new(shards.cursors(requested.shard, snapshot, values)))
}

/// The description of the parts that a response reads.
fn part(endpoint: &Endpoint, reading: &RowsRequest, parts: &TableParts, values: &[ParamValue]) -> ReadPart {
    match (endpoint.shards(), &reading.shard, parts.kind()) {
        (Some(shards), Some(asked), PartsKind::Shard { snapshot, .. }) => {
            ReadPart::Shard(shards.seal(snapshot, asked.shard.of, values))
        }
        (.., PartsKind::All(sessions)) => ReadPart::All(sessions),
        (.., PartsKind::Shard { .. }) => ReadPart::All(1),
    }
}
