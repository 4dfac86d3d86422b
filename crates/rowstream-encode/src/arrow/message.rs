//! The messages of a stream: a head with a length, metadata (a flatbuffer), and a body of buffers.
//!
//! All lengths are multiples of eight, so each message and each buffer is aligned to eight bytes
//! ("Encapsulated message format").

use std::collections::HashMap;
use std::sync::Arc;

use arrow_ipc::convert::IpcSchemaEncoder;
use arrow_ipc::{
    FieldNode, Message, MessageArgs, MessageHeader, MetadataVersion, RecordBatch, RecordBatchArgs,
};
use arrow_schema::extension::{EXTENSION_TYPE_METADATA_KEY, EXTENSION_TYPE_NAME_KEY};
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use flatbuffers::{FlatBufferBuilder, UnionWIPOffset, WIPOffset};

use super::array::MAX_DIGITS_128;
use crate::{Column, ColumnKind};

/// The bytes before the length of the metadata.
const CONTINUATION: [u8; 4] = [0xff; 4];
/// The end of a stream: a message without metadata.
pub(super) const END: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];
/// The name of the elements of lists, as the format recommends.
const ELEMENT: &str = "item";
/// The length of the continuation and the metadata's length.
const HEAD: usize = 8;
/// All lengths are multiples of this.
const ALIGNMENT: usize = 8;

/// The schema of rows of `columns`.
pub(super) fn schema(columns: &[Column]) -> Schema {
    Schema::new(columns.iter().map(field).collect::<Vec<_>>())
}

/// Appends a schema.
pub(super) fn write_schema(metadata: &mut FlatBufferBuilder<'_>, schema: &Schema, out: &mut Vec<u8>) {
    metadata.reset();
    let header = IpcSchemaEncoder::new().schema_to_fb_offset(metadata, schema);
    write_metadata(metadata, MessageHeader::Schema, header.as_union_value(), 0, out);
}

/// Appends a batch of `rows` rows. The nodes and buffers are those of all columns, in their order.
pub(super) fn write_batch(
    metadata: &mut FlatBufferBuilder<'_>,
    rows: usize,
    nodes: &[FieldNode],
    buffers: &[&[u8]],
    out: &mut Vec<u8>,
) {
    let mut length = 0;
    let mut place = |buffer: &[u8]| {
        let start = length;
        length += padded(buffer.len());
        arrow_ipc::Buffer::new(start as i64, buffer.len() as i64)
    };
    let places: Vec<_> = buffers.iter().map(|buffer| place(buffer)).collect();

    metadata.reset();
    let nodes = metadata.create_vector(nodes);
    let places = metadata.create_vector(&places);
    let batch = RecordBatchArgs {
        length: rows as i64,
        nodes: Some(nodes),
        buffers: Some(places),
        ..RecordBatchArgs::default()
    };
    let header = RecordBatch::create(metadata, &batch);
    write_metadata(metadata, MessageHeader::RecordBatch, header.as_union_value(), length, out);
    for buffer in buffers {
        write_padded(buffer, out);
    }
}

/// Finishes the metadata of a message, and appends everything before its body of `length` bytes.
/// Reserves space for the body.
fn write_metadata(
    metadata: &mut FlatBufferBuilder<'_>,
    header_type: MessageHeader,
    header: WIPOffset<UnionWIPOffset>,
    length: usize,
    out: &mut Vec<u8>,
) {
    let message = MessageArgs {
        version: MetadataVersion::V5,
        header_type,
        header: Some(header),
        bodyLength: length as i64,
        ..MessageArgs::default()
    };
    let message = Message::create(metadata, &message);
    metadata.finish(message, None);
    let metadata = metadata.finished_data();
    let size = i32::try_from(padded(metadata.len())).expect("the names of columns are far below 2 GiB");
    // The end follows the last message, so we reserve space for it.
    out.reserve(HEAD + padded(metadata.len()) + length + END.len());
    out.extend_from_slice(&CONTINUATION);
    out.extend_from_slice(&size.to_le_bytes());
    write_padded(metadata, out);
}

fn padded(length: usize) -> usize {
    length.next_multiple_of(ALIGNMENT)
}

fn write_padded(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(bytes);
    out.extend_from_slice(&[0; ALIGNMENT][..padded(bytes.len()) - bytes.len()]);
}

/// A column as a field. Databases don't report if a result can be NULL, so every field is nullable.
pub(super) fn field(column: &Column) -> Field {
    named_field(&column.name, column.kind)
}

/// A list of rows with these fields.
pub(super) fn list_field(name: &str, fields: Vec<Field>) -> Field {
    let row = Field::new(ELEMENT, DataType::Struct(fields.into()), true);
    Field::new(name, DataType::List(Arc::new(row)), true)
}

fn named_field(name: &str, kind: ColumnKind) -> Field {
    let field = Field::new(name, data_type(kind), true);
    match extension(kind) {
        Some(name) => field.with_metadata(HashMap::from([
            (EXTENSION_TYPE_NAME_KEY.to_owned(), name.to_owned()),
            (EXTENSION_TYPE_METADATA_KEY.to_owned(), String::new()),
        ])),
        None => field,
    }
}

/// The Arrow type of a column.
pub(super) fn data_type(kind: ColumnKind) -> DataType {
    match kind {
        ColumnKind::Bool => DataType::Boolean,
        ColumnKind::Int16 => DataType::Int16,
        ColumnKind::Int32 => DataType::Int32,
        ColumnKind::Int64 => DataType::Int64,
        ColumnKind::Float32 => DataType::Float32,
        ColumnKind::Float64 => DataType::Float64,
        ColumnKind::Decimal { precision: precision @ ..=MAX_DIGITS_128, scale } => {
            DataType::Decimal128(precision, scale.cast_signed())
        }
        ColumnKind::Decimal { precision, scale } => DataType::Decimal256(precision, scale.cast_signed()),
        // Kinds without an Arrow type are texts.
        ColumnKind::Number | ColumnKind::Text | ColumnKind::Any | ColumnKind::Json => DataType::Utf8,
        ColumnKind::List(element) => DataType::List(Arc::new(named_field(ELEMENT, element.into()))),
        ColumnKind::Bytes => DataType::Binary,
        ColumnKind::Date => DataType::Date32,
        ColumnKind::Time => DataType::Time64(TimeUnit::Microsecond),
        ColumnKind::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, None),
        ColumnKind::TimestampTz => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        ColumnKind::Uuid => DataType::FixedSizeBinary(16),
    }
}

/// The extension type of a column ("Canonical Extension Types"). A reader that doesn't know it uses
/// the plain type.
fn extension(kind: ColumnKind) -> Option<&'static str> {
    match kind {
        ColumnKind::Json => Some("arrow.json"),
        ColumnKind::Uuid => Some("arrow.uuid"),
        _ => None,
    }
}
