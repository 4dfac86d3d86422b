//! Arrow IPC streams: messages, each with a head, metadata and a body. The metadata of a record
//! batch contain its number of rows.
//!
//! We keep metadata until they're complete, because they can't be read before. Bodies are skipped.

use std::mem;

use super::{Document, End};

/// The bytes before the length of the metadata.
const CONTINUATION: [u8; 4] = [0xff; 4];
/// The longest metadata. No schema or batch needs more, so a larger length must be wrong.
const MOST_METADATA: usize = 16 << 20;

/// Counts the rows of record batches.
#[derive(Default)]
pub struct Arrow {
    rows: u64,
    part: Part,
}

/// The current part of the stream.
enum Part {
    /// The bytes so far of the continuation and the length of the metadata.
    Head(Vec<u8>),
    /// The length of the metadata, and their bytes so far.
    Metadata(usize, Vec<u8>),
    /// The rest of a body, and the rows that it completes.
    Body { left: u64, rows: u64 },
    /// The stream has ended.
    End,
    /// It isn't an Arrow stream, or it continues after its end.
    Broken,
}

impl Default for Part {
    fn default() -> Self {
        Self::Head(Vec::new())
    }
}

impl Arrow {
    pub(super) fn feed(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let part = mem::take(&mut self.part);
            self.part = self.step(part, &mut bytes);
        }
    }

    /// Moves the bytes of `part` off the front of `bytes`, and returns the next part.
    fn step(&mut self, part: Part, bytes: &mut &[u8]) -> Part {
        match part {
            Part::Head(mut head) => {
                take(8, &mut head, bytes);
                if head.len() < 8 { Part::Head(head) } else { after_head(&head) }
            }
            Part::Metadata(length, mut metadata) => {
                take(length, &mut metadata, bytes);
                if metadata.len() < length {
                    return Part::Metadata(length, metadata);
                }
                let Some((left, rows)) = read_metadata(&metadata) else { return Part::Broken };
                self.after_body(left, rows)
            }
            Part::Body { left, rows } => {
                let passing = bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                *bytes = &bytes[passing..];
                self.after_body(left - passing as u64, rows)
            }
            Part::End | Part::Broken => {
                *bytes = &[];
                Part::Broken
            }
        }
    }

    fn after_body(&mut self, left: u64, rows: u64) -> Part {
        if left > 0 {
            return Part::Body { left, rows };
        }
        self.rows += rows;
        Part::default()
    }

    pub(super) fn rows(&self) -> u64 {
        self.rows
    }

    pub(super) fn finish(&self) -> Document {
        let end = if matches!(self.part, Part::End) { End::Proven } else { End::Broken };
        Document { rows: self.rows, end }
    }
}

/// Moves bytes from the front of `bytes` to `part`, until it has `length` bytes.
fn take(length: usize, part: &mut Vec<u8>, bytes: &mut &[u8]) {
    let (taken, rest) = bytes.split_at(bytes.len().min(length - part.len()));
    part.extend_from_slice(taken);
    *bytes = rest;
}

/// Metadata of length 0 end the stream.
fn after_head(head: &[u8]) -> Part {
    match head.split_first_chunk() {
        Some((&CONTINUATION, &[0, 0, 0, 0])) => Part::End,
        Some((&CONTINUATION, &[a, b, c, d])) => match u32::from_le_bytes([a, b, c, d]) as usize {
            length @ ..=MOST_METADATA => Part::Metadata(length, Vec::new()),
            _ => Part::Broken,
        },
        _ => Part::Broken,
    }
}

/// The length of a message's body, and its rows. `None` if it isn't a message.
fn read_metadata(metadata: &[u8]) -> Option<(u64, u64)> {
    let message = arrow_ipc::root_as_message(metadata).ok()?;
    let rows = message.header_as_record_batch().map_or(0, |batch| batch.length());
    Some((message.bodyLength().try_into().ok()?, rows.try_into().ok()?))
}
