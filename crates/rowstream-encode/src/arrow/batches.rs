//! An Arrow stream of record batches that the caller has already encoded. Sources that return
//! batches needn't convert them to rows.

use arrow_schema::Schema;
use flatbuffers::FlatBufferBuilder;

use super::message;

/// Writes the schema and the end around record batches.
///
/// The messages must match the schema. Like that of [`crate::ArrowEncoder`], the stream has no end
/// without [`BatchEncoder::finish`].
pub struct BatchEncoder {
    schema: Schema,
    rows: u64,
}

impl BatchEncoder {
    /// An encoder for batches of `schema`.
    pub fn new(schema: Schema) -> Self {
        Self { schema, rows: 0 }
    }

    /// Rows so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Writes the schema.
    pub fn start(&self, out: &mut Vec<u8>) {
        message::write_schema(&mut FlatBufferBuilder::new(), &self.schema, out);
    }

    /// Writes a batch of `rows` rows. `message` is a complete message.
    pub fn batch(&mut self, rows: u64, message: &[u8], out: &mut Vec<u8>) {
        self.rows += rows;
        // The end follows the last message, so we reserve space for it.
        out.reserve(message.len() + message::END.len());
        out.extend_from_slice(message);
    }

    /// Writes the end.
    pub fn finish(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&message::END);
    }
}
