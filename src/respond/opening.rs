//! A response that waits for its first chunk. Its times are recorded even if it gets no further,
//! for example because its client leaves.

use std::future::poll_fn;

use bytes::Bytes;
use rowstream_core::Error;

use super::tracker::RequestTracker;
use crate::stream::RowStream;

/// Waits for the first chunk of a stream. It's empty if there's none.
///
/// # Errors
/// The error that ended the stream before it.
pub(super) async fn first_chunk(
    stream: &mut RowStream,
    tracker: &mut RequestTracker,
) -> Result<Bytes, Error> {
    let opening = OpeningStream { stream, tracker };
    let first = poll_fn(|cx| opening.stream.poll_chunk(cx)).await;
    drop(opening);
    tracker.note(stream);
    tracker.meter.first_row(&stream.times());
    Ok(first.transpose()?.unwrap_or_default())
}

/// A stream that hasn't returned a chunk yet.
struct OpeningStream<'a> {
    stream: &'a mut RowStream,
    tracker: &'a mut RequestTracker,
}

impl Drop for OpeningStream<'_> {
    fn drop(&mut self) {
        self.tracker.entry.times = self.stream.times_to_now();
    }
}
