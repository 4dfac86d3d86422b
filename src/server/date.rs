//! The `Date` of responses (RFC 9110, section 6.6.1), written once a second by each worker.
//!
//! hyper keeps its text until the clock has passed it, so after a clock was set back, every
//! response was dated in the future. Our text is always that of the current second.

use std::cell::RefCell;
use std::time::SystemTime;

use http::HeaderValue;
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimePrinter;

/// The last text, and its second since 1970.
struct CachedDate {
    second: i64,
    value: HeaderValue,
}

thread_local! {
    static CACHED: RefCell<CachedDate> =
        const { RefCell::new(CachedDate { second: i64::MIN, value: HeaderValue::from_static("") }) };
}

/// The `Date` of a response that is made now.
pub(super) fn now() -> HeaderValue {
    CACHED.with_borrow_mut(|cached| cached.at(SystemTime::now()))
}

impl CachedDate {
    fn at(&mut self, now: SystemTime) -> HeaderValue {
        // A clock before 1970 or after 9999 isn't set.
        let now = Timestamp::try_from(now).unwrap_or_default();
        if now.as_second() != self.second {
            self.second = now.as_second();
            self.value = DateTimePrinter::new()
                .timestamp_to_rfc9110_string(&now)
                .ok()
                .and_then(|text| HeaderValue::try_from(text).ok())
                .unwrap_or(const { HeaderValue::from_static("Thu, 01 Jan 1970 00:00:00 GMT") });
        }
        self.value.clone()
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    /// A clock was set back by an hour, and for that hour every `Date` was the one from before.
    #[test]
    fn a_date_follows_the_clock() {
        let mut cached = CachedDate { second: i64::MIN, value: HeaderValue::from_static("") };
        for (millis, expected) in [
            (784_111_777_000, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (784_111_777_999, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (784_111_778_000, "Sun, 06 Nov 1994 08:49:38 GMT"),
            (784_108_177_000, "Sun, 06 Nov 1994 07:49:37 GMT"),
            (784_111_779_000, "Sun, 06 Nov 1994 08:49:39 GMT"),
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
        ] {
            assert_eq!(cached.at(UNIX_EPOCH + Duration::from_millis(millis)), expected, "{millis}");
        }
    }
}
