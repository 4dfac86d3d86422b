//! Entry points to private code, for the properties in `fuzz/`.

use std::sync::Arc;

use bytes::Bytes;
use rowstream_database::DatabaseRow as _;
use rowstream_encode::{Column, RowEncoder, Shape};

use super::connection::decoded;
use super::grpc::Frames;
use super::message::{
    FlightInfo, HandshakeResponse, Outcome, PreparedStatement, PutResult, SchemaResult, from_any,
};
use super::reading;
use super::session::schema;
use super::url::Address;
use crate::arrow_rows::{Columns, Row, column};

/// The longest message and the longest row, in bytes.
const LONGEST: usize = 64 * 1024;
/// The rows that we read of a batch. A batch of only NULLs can claim any number.
const MOST: usize = 200;

/// Reads the messages of an endpoint.
pub struct EndpointBatches {
    frames: Frames,
    batches: reading::BatchDecoder,
    columns: Arc<[Column]>,
}

impl EndpointBatches {
    /// Reads the endpoint of a statement with this schema. Returns `None` if the schema is invalid.
    pub fn new(described: Vec<u8>) -> Option<Self> {
        let schema = schema(&described.into()).ok()??;
        let columns = schema.fields().iter().map(|field| column(field)).collect();
        Some(Self { frames: Frames::new(LONGEST), batches: reading::BatchDecoder::default(), columns })
    }

    /// Reads the messages that end in this piece. Returns their rows as lines of JSON, or `None` if
    /// the piece is invalid or a row has no JSON.
    pub fn read(&mut self, piece: &[u8]) -> Option<Vec<Vec<u8>>> {
        self.frames.push(piece);
        let mut lines = Vec::new();
        while let Some(message) = self.frames.message().ok()? {
            assert!(message.len() <= LONGEST, "a message of {} bytes", message.len());
            let Some(batch) = self.batches.read(message, &self.columns, LONGEST).ok()? else { continue };
            let values = Columns::of(batch.columns());
            for row in 0..batch.num_rows().min(MOST) {
                let (mut packed, mut line) = (Vec::new(), Vec::new());
                values.pack(row, &self.columns, LONGEST, &mut packed).ok()?;
                let mut encoder = RowEncoder::new(Shape::Lines, &self.columns);
                Row::new(&packed, self.columns.len()).encode(&mut encoder, &mut line).ok()?;
                lines.push(line);
            }
        }
        Some(lines)
    }
}

/// Decodes an answer as each kind of message that a server sends.
pub fn answer(bytes: &[u8]) {
    let bytes = Bytes::copy_from_slice(bytes);
    if let Ok(info) = decoded::<FlightInfo>(bytes.clone()) {
        let _ = schema(&info.schema);
        for location in info.endpoints.iter().flat_map(|endpoint| &endpoint.locations) {
            let _ = Address::of_location(&location.uri);
        }
    }
    if let Ok(answer) = decoded::<SchemaResult>(bytes.clone()) {
        let _ = schema(&answer.schema);
    }
    if let Ok(outcome) = decoded::<Outcome>(bytes.clone())
        && let Ok(prepared) = from_any::<PreparedStatement>(outcome.body)
    {
        let _ = (schema(&prepared.columns), schema(&prepared.parameters));
    }
    let _ = (decoded::<HandshakeResponse>(bytes.clone()), decoded::<PutResult>(bytes));
}
