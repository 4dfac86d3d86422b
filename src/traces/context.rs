//! The trace of a request, from its `traceparent` (W3C Trace Context).

use std::num::NonZero;

use http::HeaderMap;
use http::header::HeaderName;

pub(crate) const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// The trace context of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Context {
    /// The trace.
    pub(crate) trace: NonZero<u128>,
    /// The caller's span.
    pub(crate) parent: u64,
    /// True if that span is recorded.
    pub(crate) is_sampled: bool,
}

impl Context {
    /// Reads a request's context. `None` if the header is missing, repeated or malformed.
    pub(crate) fn read(headers: &HeaderMap) -> Option<Self> {
        let mut values = headers.get_all(TRACEPARENT).iter();
        let (value, None) = (values.next()?, values.next()) else { return None };
        let text = value.to_str().ok()?;
        let (version, rest) = (hex(text, 0..2)?, text.get(2..)?);
        let (trace, parent, flags) = (hex(rest, 1..33)?, hex(rest, 34..50)?, hex(rest, 51..53)?);
        let has_dashes = [0, 33, 50].iter().all(|&at| rest.as_bytes().get(at) == Some(&b'-'));
        // Future versions may add fields after a dash.
        let ends = match rest.as_bytes().get(53) {
            None => true,
            Some(next) => version > 0 && *next == b'-',
        };
        let is_well = version != 0xff && parent != 0 && has_dashes && ends;
        let trace = NonZero::new(trace).filter(|_| is_well)?;
        Some(Self { trace, parent: u64::try_from(parent).ok()?, is_sampled: flags & 1 == 1 })
    }
}

/// Parses hexadecimal digits, only lower-case ones, as the standard requires.
fn hex(text: &str, range: std::ops::Range<usize>) -> Option<u128> {
    let digits = text.get(range)?;
    let are_small = digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    are_small.then(|| u128::from_str_radix(digits, 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

    #[test]
    fn only_well_formed_ids_count() {
        let with = |value: String| {
            let headers = HeaderMap::from_iter([(TRACEPARENT, value.parse().unwrap())]);
            Context::read(&headers).map(|context| format!("{:032x}", context.trace))
        };
        for good in [
            format!("00-{ID}-00f067aa0ba902b7-01"),
            format!("00-{ID}-00f067aa0ba902b7-00"),
            format!("01-{ID}-00f067aa0ba902b7-01"),
            format!("01-{ID}-00f067aa0ba902b7-01-more"),
        ] {
            assert_eq!(with(good.clone()).as_deref(), Some(ID), "{good}");
        }
        for bad in [
            String::new(),
            ID.to_owned(),
            format!("00-{ID}-00f067aa0ba902b7"),
            format!("00-{ID}-00f067aa0ba902b7-0"),
            format!("00-{ID}-00f067aa0ba902b7-01-more"),
            format!("01-{ID}-00f067aa0ba902b7-01more"),
            format!("ff-{ID}-00f067aa0ba902b7-01"),
            format!("00-{}-00f067aa0ba902b7-01", ID.to_uppercase()),
            format!("00-{}-00f067aa0ba902b7-01", "0".repeat(32)),
            format!("00-{ID}-{}-01", "0".repeat(16)),
            format!("00_{ID}-00f067aa0ba902b7-01"),
            format!("00-{}g-00f067aa0ba902b7-01", &ID[1..]),
            format!("00-+{}-00f067aa0ba902b7-01", &ID[1..]),
            format!("00-{ID}\u{e4}-00f067aa0ba902b7-01"),
        ] {
            assert_eq!(with(bad.clone()), None, "{bad}");
        }
        let twice = ["1", "2"].map(|end| format!("00-{ID}-00f067aa0ba902b{end}-01"));
        let mut headers = HeaderMap::new();
        for value in twice {
            headers.append(TRACEPARENT, value.parse().unwrap());
        }
        assert_eq!(headers.len(), 2);
        assert_eq!(Context::read(&headers), None);
    }
}
