//! `Server-Timing` (W3C): shows, for example in a browser's developer tools, how the time until the
//! response's head was spent.

use std::time::Duration;

use http::{HeaderName, HeaderValue};

use crate::outcome::Times;

pub(crate) const SERVER_TIMING: HeaderName = HeaderName::from_static("server-timing");

/// More than three times of twenty digits and their names.
const LONGEST: usize = 128;

/// The times known at the head, in milliseconds: the waits for a connection and for the database,
/// and the total until the first row. Written by hand on the stack, because lookups have this
/// header too, and formatting costs as much as the rest of their head.
pub(crate) fn server_timing(times: &Times, first_row: Duration) -> Option<HeaderValue> {
    let mut text = TimingText { bytes: [0; LONGEST], length: 0 };
    text.push(b"pool;dur=");
    text.push_milliseconds(times.pool);
    text.push(b", database;dur=");
    text.push_milliseconds(times.database);
    text.push(b", first_row;dur=");
    text.push_milliseconds(first_row);
    HeaderValue::from_bytes(&text.bytes[..text.length]).ok()
}

struct TimingText {
    bytes: [u8; LONGEST],
    length: usize,
}

impl TimingText {
    fn push(&mut self, part: &[u8]) {
        self.bytes[self.length..self.length + part.len()].copy_from_slice(part);
        self.length += part.len();
    }

    /// Writes whole microseconds, with a point before the last three digits.
    fn push_milliseconds(&mut self, time: Duration) {
        let micros = time.as_secs().saturating_mul(1_000_000).saturating_add(time.subsec_micros().into());
        let digit = |unit: u64| b'0' + (micros / unit % 10) as u8;
        self.push(itoa::Buffer::new().format(micros / 1000).as_bytes());
        self.push(&[b'.', digit(100), digit(10), digit(1)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_milliseconds() {
        for (micros, text) in [
            (0, "0.000"),
            (7, "0.007"),
            (999, "0.999"),
            (1_000, "1.000"),
            (12_345, "12.345"),
            (60_000_000, "60000.000"),
            (u64::MAX, "18446744073709551.615"),
        ] {
            let time = Duration::from_micros(micros);
            let times = Times { pool: time, database: time, ..Times::default() };
            let expected = format!("pool;dur={text}, database;dur={text}, first_row;dur={text}");
            assert_eq!(server_timing(&times, time).unwrap().to_str().unwrap(), expected);
        }
    }
}
