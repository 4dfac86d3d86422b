//! Reads the rows of a statement: several endpoints in parallel.
//!
//! Each endpoint is a call, and the server fills the call's window before we read it. So the server
//! computes the endpoints in parallel. We take one message at a time. If rows are in the order of
//! the endpoints, it's from the first endpoint; otherwise from any that has bytes. Once a message
//! has begun, we read that endpoint until the message is complete. So we hold one message, no
//! matter how many endpoints there are.
//!
//! An endpoint ends when its call ends with status 0. The rows end when all endpoints have.

use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{SystemTime, UNIX_EPOCH};

use arrow_array::{ArrayRef, RecordBatch};
use arrow_buffer::Buffer;
use arrow_ipc::convert::try_fb_to_schema;
use arrow_ipc::reader::{read_dictionary, read_record_batch};
use arrow_ipc::{Message, MessageHeader, root_as_message};
use arrow_schema::{ArrowError, SchemaRef};
use bytes::Bytes;
use rowstream_database::login::ConnectError;
use rowstream_encode::Column;

use super::PARALLEL;
use super::connection::{Connector, FlightConnection, decoded};
use super::error::Failure;
use super::grpc::{Call, framed};
use super::message::{Endpoint, FlightData, FlightInfo, Ticket};
use super::url::Address;
use crate::arrow_rows::{self, is_described};

/// A location that means the connection we sent the statement on.
const SAME_CONNECTION: &str = "arrow-flight-reuse-connection:";

/// The endpoints of a statement.
pub(super) struct EndpointReader {
    connector: Arc<Connector>,
    columns: Arc<[Column]>,
    is_ordered: bool,
    /// The endpoints that we haven't opened yet.
    waiting: VecDeque<Endpoint>,
    open: VecDeque<Part>,
}

/// An open endpoint.
struct Part {
    place: Place,
    ticket: Ticket,
    /// `None` until the place is connected.
    call: Option<Call>,
    batches: BatchDecoder,
}

/// Decodes the Arrow IPC messages of one endpoint. Keeps its schema and dictionaries for the
/// batches.
#[derive(Default)]
pub(super) struct BatchDecoder {
    schema: Option<SchemaRef>,
    dictionaries: HashMap<i64, ArrayRef>,
    /// The size of the dictionaries, in bytes.
    held: usize,
}

/// The connection that an endpoint is read on.
enum Place {
    /// The session's own connection.
    Own,
    Connecting(Pin<Box<dyn Future<Output = Result<FlightConnection, ConnectError>> + Send>>),
    Other(Box<FlightConnection>),
}

impl EndpointReader {
    /// Reads the endpoints in `info`. Does no I/O.
    pub(super) fn new(connector: &Arc<Connector>, columns: &Arc<[Column]>, info: FlightInfo) -> Self {
        Self {
            connector: Arc::clone(connector),
            columns: Arc::clone(columns),
            is_ordered: info.is_ordered,
            waiting: info.endpoints.into(),
            open: VecDeque::new(),
        }
    }

    /// Polls for the next batch that has rows. Returns `None` when all endpoints have ended.
    pub(super) fn poll_batch(
        &mut self,
        own: &mut FlightConnection,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<RecordBatch>, Failure>> {
        loop {
            self.open_more(own)?;
            own.poll_drive(cx);
            let (at, message) = match ready!(self.poll_message(own, cx)) {
                Some((at, message)) => (at, message?),
                None => return Poll::Ready(Ok(None)),
            };
            let Some(message) = message else {
                let part = self.open.remove(at);
                // Without a schema we can't check the columns.
                if part.is_none_or(|part| part.batches.schema.is_none()) {
                    return Poll::Ready(Err(Failure::broken("an endpoint ended before its schema")));
                }
                continue;
            };
            let batch = self.open[at].batches.read(message, &self.columns, self.connector.limit)?;
            if let Some(batch) = batch.filter(|batch| batch.num_rows() > 0) {
                return Poll::Ready(Ok(Some(batch)));
            }
        }
    }

    /// Opens endpoints, up to the limit.
    fn open_more(&mut self, own: &mut FlightConnection) -> Result<(), Failure> {
        while self.open.len() < PARALLEL
            && let Some(endpoint) = self.waiting.pop_front()
        {
            self.open.push_back(Part::open(&self.connector, own, endpoint)?);
        }
        Ok(())
    }

    /// Polls for the next message or end of an endpoint, with the endpoint's index. Returns `None`
    /// when all have ended.
    #[expect(clippy::type_complexity, reason = "each part of it is described above")]
    fn poll_message(
        &mut self,
        own: &mut FlightConnection,
        cx: &mut Context<'_>,
    ) -> Poll<Option<(usize, Result<Option<Bytes>, Failure>)>> {
        if self.open.is_empty() {
            return Poll::Ready(None);
        }
        let begun = self.open.iter().position(|part| part.call.as_ref().is_some_and(Call::is_amid_message));
        let readable = match begun {
            Some(at) => at..at + 1,
            None if self.is_ordered => 0..1,
            None => 0..self.open.len(),
        };
        for at in readable {
            if let Poll::Ready(message) = self.open[at].poll_message(&self.connector, own, cx) {
                return Poll::Ready(Some((at, message)));
            }
            // A message that has begun is read to its end first.
            if self.open[at].call.as_ref().is_some_and(Call::is_amid_message) {
                break;
            }
        }
        Poll::Pending
    }
}

impl Part {
    fn open(
        connector: &Arc<Connector>,
        own: &mut FlightConnection,
        endpoint: Endpoint,
    ) -> Result<Self, Failure> {
        if endpoint.expires.is_some_and(|expires| expires.seconds <= now()) {
            return Err(Failure::Expired);
        }
        let ticket = endpoint.ticket.ok_or_else(|| Failure::broken("an endpoint has no ticket"))?;
        let uris: Vec<_> = endpoint.locations.into_iter().map(|location| location.uri).collect();
        let mut part =
            Self { place: place(connector, &uris)?, ticket, call: None, batches: BatchDecoder::default() };
        if let Place::Own = part.place {
            part.call = Some(get(connector, own, &part.ticket)?);
        }
        Ok(part)
    }

    /// Polls for the next message. Returns `None` when the endpoint has ended.
    fn poll_message(
        &mut self,
        connector: &Connector,
        own: &mut FlightConnection,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, Failure>> {
        if let Place::Connecting(connecting) = &mut self.place {
            let unreachable = |error: ConnectError| Failure::Lost(error.of_source("of rows").to_string());
            let mut other = ready!(connecting.as_mut().poll(cx)).map_err(unreachable)?;
            self.call = Some(get(connector, &mut other, &self.ticket)?);
            self.place = Place::Other(Box::new(other));
        }
        let connection = match &mut self.place {
            Place::Other(other) => other,
            Place::Own | Place::Connecting(_) => own,
        };
        match &mut self.call {
            Some(call) => connection.poll_message(call, cx),
            None => Poll::Ready(Err(Failure::broken("an endpoint was read before it was opened"))),
        }
    }
}

impl BatchDecoder {
    /// Decodes a message. Returns its batch, if it has one.
    pub(super) fn read(
        &mut self,
        message: Bytes,
        columns: &[Column],
        limit: usize,
    ) -> Result<Option<RecordBatch>, Failure> {
        let data: FlightData = decoded(message)?;
        // A message can carry only metadata of an application.
        if data.header.is_empty() {
            return Ok(None);
        }
        let message = root_as_message(&data.header).map_err(|error| Failure::broken(error.to_string()))?;
        if usize::try_from(message.bodyLength()).ok() != Some(data.body.len()) {
            return Err(Failure::broken("the body of a message is not as long as its header says"));
        }
        let uncompressed = uncompressed(&message, &data.body);
        // A stream's budget covers a message and its batch. LZ4's decoder holds a second copy of
        // each.
        let decoding = if uncompressed > 0 { uncompressed.saturating_add(data.body.len()) } else { 0 };
        if decoding > limit {
            return Err(Failure::TooLong(decoding as u64));
        }
        match (message.header_type(), &self.schema) {
            (MessageHeader::Schema, None) => self.begin(message, columns).map(|()| None),
            (MessageHeader::DictionaryBatch, Some(schema)) => {
                // Dictionaries are kept until the endpoint has been read.
                self.held += data.body.len().max(uncompressed);
                if self.held > limit {
                    return Err(Failure::TooLong(self.held as u64));
                }
                let (schema, dictionaries) = (Arc::clone(schema), &mut self.dictionaries);
                checked(|| {
                    let batch = message.header_as_dictionary_batch().ok_or_else(nothing)?;
                    let body = buffer(data.body, uncompressed);
                    read_dictionary(&body, batch, &schema, dictionaries, &message.version())
                })
                .map(|()| None)
            }
            (MessageHeader::RecordBatch, Some(schema)) => checked(|| {
                let batch = message.header_as_record_batch().ok_or_else(nothing)?;
                let (body, schema) = (buffer(data.body, uncompressed), Arc::clone(schema));
                read_record_batch(&body, batch, schema, &self.dictionaries, None, &message.version())
            })
            .map(Some),
            _ => Err(Failure::broken("a message of Arrow arrived at the wrong place")),
        }
    }

    /// Reads the schema. Its columns have to be the described ones.
    fn begin(&mut self, message: Message<'_>, columns: &[Column]) -> Result<(), Failure> {
        let schema = checked(|| try_fb_to_schema(message.header_as_schema().ok_or_else(nothing)?))?;
        if !is_described(&schema, columns) {
            return Err(Failure::Changed);
        }
        self.schema = Some(Arc::new(schema));
        Ok(())
    }
}

/// The total length of a message's compressed buffers, according to their prefixes. We read it
/// before any buffer is decoded. Returns 0 if the message isn't compressed.
fn uncompressed(message: &Message<'_>, body: &[u8]) -> usize {
    let batch = message
        .header_as_record_batch()
        .or_else(|| message.header_as_dictionary_batch().and_then(|batch| batch.data()))
        .filter(|batch| batch.compression().is_some());
    let buffers = batch.and_then(|batch| batch.buffers());
    // A negative length marks an uncompressed buffer. Arrow's reader checks the others.
    let length = |at: i64| {
        let prefix = body.get(usize::try_from(at).ok()?..)?.first_chunk()?;
        usize::try_from(i64::from_le_bytes(*prefix)).ok()
    };
    let buffers = buffers.into_iter().flatten().filter(|buffer| buffer.length() > 0);
    let lengths = buffers.filter_map(|buffer| length(buffer.offset()));
    lengths.fold(0, usize::saturating_add)
}

/// The body of a message. If it isn't compressed, we copy it, so that its numbers are aligned.
fn buffer(body: Bytes, uncompressed: usize) -> Buffer {
    if uncompressed > 0 { Buffer::from(body) } else { body.to_vec().into() }
}

/// Calls Arrow's reader, with panics as failures.
fn checked<T>(read: impl FnOnce() -> Result<T, ArrowError>) -> Result<T, Failure> {
    arrow_rows::checked(read).map_err(|error| Failure::broken(error.to_string()))
}

fn nothing() -> ArrowError {
    ArrowError::IpcError("a message has no content".to_owned())
}

/// Starts the call that reads a ticket.
fn get(connector: &Connector, connection: &mut FlightConnection, ticket: &Ticket) -> Result<Call, Failure> {
    connection.call("DoGet", &[framed(ticket)], connector.statement_timeout)
}

/// Chooses the place to read an endpoint at. It's the session's server if that is listed, or if no
/// location is. Otherwise it's the first location that the configuration allows.
fn place(connector: &Arc<Connector>, uris: &[String]) -> Result<Place, Failure> {
    let own = &connector.target.address;
    let addresses: Vec<_> = uris.iter().filter_map(|uri| Address::of_location(uri)).collect();
    let is_own = uris.iter().any(|uri| uri.is_empty() || uri.starts_with(SAME_CONNECTION));
    if uris.is_empty() || is_own || addresses.contains(own) {
        return Ok(Place::Own);
    }
    let allowed = addresses.iter().find(|address| connector.target.allows(address));
    let Some(address) = allowed.cloned() else {
        let named = addresses.first().map_or_else(|| "a location of no known kind".to_owned(), Address::name);
        return Err(Failure::Elsewhere(named));
    };
    let connector = Arc::clone(connector);
    Ok(Place::Connecting(Box::pin(async move { connector.connect_to(&address).await })))
}

/// Seconds since 1970-01-01T00:00:00Z.
fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs().cast_signed())
}
