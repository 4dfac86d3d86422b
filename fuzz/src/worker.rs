//! The server's handling of arbitrary bytes from a driver process, whose foreign driver may have
//! corrupted its memory.

use rowstream_arrow::worker::fuzzing::DriverBatches as WorkerBatches;
use serde::de::IgnoredAny;

/// Reads pieces of an Arrow stream, each after its length (u32, little-endian). The result is lines
/// of JSON, or nothing.
pub fn worker_batches(mut data: &[u8]) {
    let mut batches = WorkerBatches::default();
    while let Some((length, rest)) = data.split_first_chunk() {
        let (piece, rest) = rest.split_at(rest.len().min(u32::from_le_bytes(*length) as usize));
        data = rest;
        let Some(lines) = batches.read(piece.to_vec()) else { return };
        for line in lines {
            let read = serde_json::from_slice::<IgnoredAny>(&line);
            assert!(read.is_ok(), "{}", String::from_utf8_lossy(&line));
        }
    }
}
