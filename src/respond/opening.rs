//! A response whose first chunk is waited for: where its time went is known also if it gets no
//! further, such as where its client leaves.

use std::future::poll_fn;

use bytes::Bytes;

use super::tracker::RequestTracker;
use crate::Error;
use crate::stream::RowStream;

/// Waits for the first chunk of a stream, which is empty where there is none.
///
/// # Errors
/// What failed before it.
pub(super) async fn first_chunk(
    stream: &mut RowStream,
    tracker: &mut RequestTracker,
) -> Result<Bytes, Error> {
    let opening = Opening { stream, tracker };
    let first = poll_fn(|cx| opening.stream.poll_chunk(cx)).await;
    drop(opening);
    tracker.note(stream);
    tracker.meter.first_row(&stream.times());
    Ok(first.transpose()?.unwrap_or_default())
}

/// A stream that has given nothing yet.
struct Opening<'a> {
    stream: &'a mut RowStream,
    tracker: &'a mut RequestTracker,
}

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        self.tracker.entry.times = self.stream.times_to_now();
    }
}
