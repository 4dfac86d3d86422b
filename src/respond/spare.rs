//! Reuses the header map of an answered request for another response.
//!
//! A map for twelve headers is larger than an allocator provides quickly. For a lookup, allocating
//! it costs as much as writing the headers. hyper reuses the headers of a response for the next
//! request, so with this module the maps circulate.

use std::cell::Cell;

use http::HeaderMap;

/// Larger maps aren't kept, because few requests have so many headers.
const MOST: usize = 48;

thread_local! {
    /// An empty map with its capacity.
    static SPARE: Cell<HeaderMap> = Cell::default();
}

/// Keeps the map for a response of this thread.
pub(super) fn keep(mut headers: HeaderMap) {
    if headers.capacity() <= MOST {
        headers.clear();
        SPARE.set(headers);
    }
}

/// An empty map, with the kept capacity if there's any.
pub(super) fn take() -> HeaderMap {
    SPARE.take()
}
