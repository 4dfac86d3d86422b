//! The messages of Arrow Flight and Flight SQL that we send or read, as in `Flight.proto` and
//! `FlightSql.proto`. Fields that we don't use are left out.

use bytes::Bytes;
use prost::Message;

/// The prefix of a Flight SQL message's name in an [`Any`].
const NAMESPACE: &str = "type.googleapis.com/arrow.flight.protocol.sql.";

#[derive(Clone, PartialEq, Message)]
pub(super) struct HandshakeRequest {
    #[prost(bytes = "bytes", tag = "2")]
    pub(super) payload: Bytes,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct HandshakeResponse {
    #[prost(bytes = "bytes", tag = "2")]
    pub(super) payload: Bytes,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Action {
    #[prost(string, tag = "1")]
    pub(super) kind: String,
    #[prost(bytes = "bytes", tag = "2")]
    pub(super) body: Bytes,
}

/// The answer to an [`Action`].
#[derive(Clone, PartialEq, Message)]
pub(super) struct Outcome {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) body: Bytes,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Descriptor {
    /// [`COMMAND`].
    #[prost(int32, tag = "1")]
    pub(super) kind: i32,
    #[prost(bytes = "bytes", tag = "2")]
    pub(super) command: Bytes,
}

/// The kind of a descriptor that contains a command, not a path.
pub(super) const COMMAND: i32 = 2;

#[derive(Clone, PartialEq, Message)]
pub(super) struct FlightInfo {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) schema: Bytes,
    #[prost(message, repeated, tag = "3")]
    pub(super) endpoints: Vec<Endpoint>,
    /// True if the rows are in the order of the endpoints.
    #[prost(bool, tag = "6")]
    pub(super) is_ordered: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct SchemaResult {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) schema: Bytes,
}

/// A part of the rows.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Endpoint {
    #[prost(message, optional, tag = "1")]
    pub(super) ticket: Option<Ticket>,
    /// The servers that have it. If empty, it's the server that we sent the statement to.
    #[prost(message, repeated, tag = "2")]
    pub(super) locations: Vec<Location>,
    #[prost(message, optional, tag = "3")]
    pub(super) expires: Option<Timestamp>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Ticket {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) ticket: Bytes,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Location {
    #[prost(string, tag = "1")]
    pub(super) uri: String,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Timestamp {
    /// Since 1970-01-01T00:00:00Z.
    #[prost(int64, tag = "1")]
    pub(super) seconds: i64,
}

/// A message of Arrow IPC.
#[derive(Clone, PartialEq, Message)]
pub(super) struct FlightData {
    #[prost(message, optional, tag = "1")]
    pub(super) descriptor: Option<Descriptor>,
    #[prost(bytes = "bytes", tag = "2")]
    pub(super) header: Bytes,
    #[prost(bytes = "bytes", tag = "1000")]
    pub(super) body: Bytes,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct PutResult {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) metadata: Bytes,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct CancelFlightInfo {
    /// A [`FlightInfo`]: protobuf encodes bytes and messages alike.
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) info: Bytes,
}

/// `google.protobuf.Any`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Any {
    #[prost(string, tag = "1")]
    pub(super) kind: String,
    #[prost(bytes = "bytes", tag = "2")]
    pub(super) value: Bytes,
}

/// `ActionCreatePreparedStatementRequest` and `CommandStatementQuery`, which share this field.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Query {
    #[prost(string, tag = "1")]
    pub(super) sql: String,
}

/// `ActionClosePreparedStatementRequest`, `CommandPreparedStatementQuery` and
/// `DoPutPreparedStatementResult`: each is a handle.
#[derive(Clone, PartialEq, Message)]
pub(super) struct StatementHandle {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) handle: Bytes,
}

/// `ActionCreatePreparedStatementResult`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct PreparedStatement {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) handle: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub(super) columns: Bytes,
    #[prost(bytes = "bytes", tag = "3")]
    pub(super) parameters: Bytes,
}

/// Wraps a message of Flight SQL, with its name.
pub(super) fn any(name: &str, message: &impl Message) -> Bytes {
    let any = Any { kind: format!("{NAMESPACE}{name}"), value: message.encode_to_vec().into() };
    any.encode_to_vec().into()
}

/// Decodes an answer of Flight SQL, with or without an [`Any`] around it.
pub(super) fn from_any<M: Message + Default>(bytes: Bytes) -> Result<M, prost::DecodeError> {
    match Any::decode(bytes.clone()) {
        Ok(any) if any.kind.starts_with(NAMESPACE) => M::decode(any.value),
        _ => M::decode(bytes),
    }
}

/// The descriptor that requests the rows of a command.
pub(super) fn command(name: &str, message: &impl Message) -> Descriptor {
    Descriptor { kind: COMMAND, command: any(name, message) }
}
