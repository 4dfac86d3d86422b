//! The headers of a request that has been answered make those of another response.
//!
//! Twelve headers take more than an allocator hands out quickly: for a lookup, their room costs as
//! much as writing them. hyper has the headers of a response serve the next request, so with this
//! the room goes round.

use std::cell::Cell;

use http::HeaderMap;

/// More room than this is given back: few requests have so many headers.
const MOST: usize = 48;

thread_local! {
    /// Empty, with its room.
    static SPARE: Cell<HeaderMap> = Cell::default();
}

/// Keeps the room of these headers for a response of this thread.
pub(super) fn keep(mut headers: HeaderMap) {
    if headers.capacity() <= MOST {
        headers.clear();
        SPARE.set(headers);
    }
}

/// No headers, with room if there is any.
pub(super) fn take() -> HeaderMap {
    SPARE.take()
}
