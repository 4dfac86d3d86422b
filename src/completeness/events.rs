//! The ids of events that make an `EventSource` stop.
//!
//! An `EventSource` connects again whenever its stream ends, for whatever reason, and sends the id
//! of its last event (HTML standard, "Server-sent events"). These ids belong to no row, and the
//! server answers them with 204, at which an `EventSource` stops for good:
//!
//! | id | sent | so that |
//! |---|---|---|
//! | [`END`] | after the last row | the list isn't read a second time |
//! | [`NOT_RESUMABLE`] | before the first row, if rows have no cursors | a cut list doesn't begin again, and no row arrives twice |
//!
//! They're sent in events without data, which reach no listener.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};

/// The id after the last row of a list.
const END: &str = "end";
/// The id of all rows of a list that can't be resumed.
const NOT_RESUMABLE: &str = "none";
/// The event with [`END`].
pub(crate) const END_EVENT: Bytes = Bytes::from_static(b"id: end\n\n");
/// The event with [`NOT_RESUMABLE`].
pub(crate) const NOT_RESUMABLE_EVENT: Bytes = Bytes::from_static(b"id: none\n\n");
/// The id of the last event that an `EventSource` received.
pub(crate) const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// True if a client asks for events after one that has none after it: an `EventSource` by its
/// header, others by the cursor `after`.
pub(crate) fn has_ended(headers: &HeaderMap, after: Option<&str>) -> bool {
    let is_last = |id: &[u8]| id == END.as_bytes() || id == NOT_RESUMABLE.as_bytes();
    let id = headers.get(LAST_EVENT_ID).map(HeaderValue::as_bytes).or(after.map(str::as_bytes));
    id.is_some_and(is_last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_have_these_ids() {
        for (event, id) in [(END_EVENT, END), (NOT_RESUMABLE_EVENT, NOT_RESUMABLE)] {
            assert_eq!(event, format!("id: {id}\n\n"));
            assert!(has_ended(&HeaderMap::from_iter([(LAST_EVENT_ID, id.parse().unwrap())]), None));
            assert!(has_ended(&HeaderMap::new(), Some(id)));
        }
        assert!(!has_ended(&HeaderMap::new(), None));
        assert!(!has_ended(&HeaderMap::from_iter([(LAST_EVENT_ID, "ended".parse().unwrap())]), Some(END)));
    }
}
