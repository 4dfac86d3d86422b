//! Reads arbitrary bytes as responses of an Arrow Flight SQL server.

use rowstream_arrow::flight::fuzzing::{self, EndpointBatches as FlightBatches};
use serde::de::IgnoredAny;

/// Reads a response of any kind.
pub fn flight_answer(data: &[u8]) {
    fuzzing::answer(data);
}

/// Reads a schema and then the pieces of a stream, each after its length (u32, little-endian). The
/// result is lines of JSON, or nothing.
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
