//! What is read of any bytes that a server of Arrow Flight SQL sends.

use rowstream_arrow::flight::fuzzing::{self, Batches as FlightBatches};
use serde::de::IgnoredAny;

/// An answer of any kind.
pub fn flight_answer(data: &[u8]) {
    fuzzing::answer(data);
}

/// A schema as an endpoint is described, and what that sends, in pieces, each behind its length
/// (u32, little-endian): lines of JSON, or nothing.
pub fn flight_batches(data: &[u8]) {
    let mut rest = data;
    let Some(mut batches) = piece(&mut rest).and_then(|schema| FlightBatches::new(schema.to_vec())) else {
        return;
    };
    while let Some(piece) = piece(&mut rest) {
        let Some(lines) = batches.read(piece) else { return };
        for line in lines {
            let read = serde_json::from_slice::<IgnoredAny>(&line);
            assert!(read.is_ok(), "{}", String::from_utf8_lossy(&line));
        }
    }
}

fn piece<'a>(data: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, rest) = data.split_first_chunk()?;
    let (piece, rest) = rest.split_at(rest.len().min(u32::from_le_bytes(*length) as usize));
    *data = rest;
    Some(piece)
}
