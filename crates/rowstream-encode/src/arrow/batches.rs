//! An Arrow stream of record batches that whoever has them has encoded: rows that came as batches
//! need not become rows in between.

use arrow_schema::Schema;
use flatbuffers::FlatBufferBuilder;

use super::message;

/// Writes what stands around record batches: the schema and the end.
///
/// The messages are others', so the schema is what they have to agree with. Without
/// [`BatchEncoder::finish`] the stream has no end, as that of [`crate::ArrowEncoder`].
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

    /// Writes what stands before the first batch.
    pub fn start(&self, out: &mut Vec<u8>) {
        message::write_schema(&mut FlatBufferBuilder::new(), &self.schema, out);
    }

    /// Writes a batch of `rows` rows, which is a whole message.
    pub fn batch(&mut self, rows: u64, message: &[u8], out: &mut Vec<u8>) {
        self.rows += rows;
        // The last message is followed by the end.
        out.reserve(message.len() + message::END.len());
        out.extend_from_slice(message);
    }

    /// Writes what stands after the last batch.
    pub fn finish(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&message::END);
    }
}
