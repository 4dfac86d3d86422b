//! The reason why a response is incomplete, and if another attempt makes sense.

use std::fmt;
use std::time::Duration;

use http::{HeaderMap, HeaderName, StatusCode, header};
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;
use rowstream_core::log::text::{bounded, one_line};
use serde_json::Value;

/// The longest text of a server that we show, in bytes.
const MOST_SHOWN: usize = 1000;
/// The longest pause that a server can request.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
/// The most shards of an endpoint, in the answer to a request for more.
const SHARDS: HeaderName = HeaderName::from_static("rowstream-shards");
/// The codes of a refused cursor, which is of no use any more.
const REFUSED_CURSOR: [&str; 3] = ["invalid_cursor", "cursor_ahead", "snapshot_expired"];

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fault {
    /// The server's code, if it explained the failure.
    code: Option<String>,
    detail: String,
    hint: Option<String>,
    /// The first parameter that the server refused.
    parameter: Option<String>,
    /// The most shards of the endpoint, if the request named more.
    pub(super) shards: Option<u32>,
    /// `None` if the same request would fail again. Otherwise the least pause before it.
    pub(super) retry: Option<Duration>,
}

impl Fault {
    /// A connection or a response that broke off.
    pub(super) fn cut(detail: impl fmt::Display) -> Self {
        Self { retry: Some(Duration::ZERO), ..Self::new(shown(&detail.to_string())) }
    }

    /// A failure that another attempt doesn't cure.
    pub(super) fn lasting(detail: impl fmt::Display, hint: &str) -> Self {
        Self { hint: Some(hint.to_owned()), ..Self::new(shown(&detail.to_string())) }
    }

    /// The URL requests a digest, and it doesn't arrive.
    pub(super) fn no_digest() -> Self {
        Self::lasting(
            "the URL requests a digest, but the response has none",
            "a proxy may drop `Content-Digest`: let it pass trailers, or leave out `_digest`",
        )
    }

    /// The bytes that arrived aren't those that were sent.
    pub(super) fn other_digest() -> Self {
        Self::cut("the digest differs")
            .or_hint("a proxy changes the response: `rowstream doctor --via URL` checks the way")
    }

    fn new(detail: String) -> Self {
        Self { code: None, detail, hint: None, parameter: None, shards: None, retry: None }
    }

    /// The members of an error record or a problem document.
    pub(super) fn of_server(members: &Value) -> Self {
        let text = |name: &str| members[name].as_str().map(shown);
        let after = Duration::from_secs(members["retry_after"].as_u64().unwrap_or(0));
        let retry = members["retry"] == true && after <= LONGEST_PAUSE;
        let detail = text("detail").unwrap_or_else(|| "the server failed without a detail".to_owned());
        Self {
            code: text("code"),
            hint: text("hint"),
            parameter: members["parameters"][0]["name"].as_str().map(shown),
            retry: retry.then_some(after),
            ..Self::new(detail)
        }
    }

    /// A status other than 200. A proxy's has no problem document.
    pub(super) fn of_status(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Self {
        let header = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
        let is_problem =
            header(header::CONTENT_TYPE).is_some_and(|kind| kind.starts_with("application/problem+json"));
        if let Some(members) = serde_json::from_slice(body).ok().filter(|_| is_problem) {
            let shards = header(SHARDS).and_then(|text| text.parse().ok());
            return Self { shards, ..Self::of_server(&members) };
        }
        if status.is_redirection() {
            let to = header(header::LOCATION).unwrap_or("another URL");
            return Self::lasting(
                format!("status {status}: the URL redirects to {to}"),
                "`get` sends tokens nowhere else: request the new URL if you trust it",
            );
        }
        let after = header(header::RETRY_AFTER).and_then(pause).unwrap_or_default();
        let passes = matches!(status.as_u16(), 408 | 429 | 502 | 503 | 504);
        Self {
            hint: Some("it may be a proxy's: `rowstream doctor --via URL` checks the way".to_owned()),
            retry: Some(after).filter(|after| passes && *after <= LONGEST_PAUSE),
            ..Self::new(format!("status {status}, without a reason"))
        }
    }

    /// True if the server has refused a cursor, so that a download can only begin from the start.
    pub(super) fn is_refused_cursor(&self) -> bool {
        // An endpoint that has lost its `key` refuses the parameter.
        self.code.as_deref().is_some_and(|code| REFUSED_CURSOR.contains(&code)) || self.is_about("_after")
    }

    /// True if the server has refused this parameter.
    pub(super) fn is_about(&self, parameter: &str) -> bool {
        self.code.as_deref() == Some("invalid_parameter") && self.parameter.as_deref() == Some(parameter)
    }

    /// The same fault with another hint.
    pub(super) fn with_hint(self, hint: &str) -> Self {
        Self { hint: Some(hint.to_owned()), ..self }
    }

    /// The same fault with a hint, if it has none.
    pub(super) fn or_hint(mut self, hint: &str) -> Self {
        self.hint.get_or_insert_with(|| hint.to_owned());
        self
    }
}

/// The code and the detail. The alternate form (`{:#}`) adds the hint on a line of its own.
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(code) = &self.code {
            write!(f, "{code}: ")?;
        }
        f.write_str(&self.detail)?;
        match &self.hint {
            Some(hint) if f.alternate() => write!(f, "\n    hint: {hint}"),
            _ => Ok(()),
        }
    }
}

/// The pause that a `Retry-After` asks for, in seconds or until a date (RFC 9110, section 10.2.3).
fn pause(text: &str) -> Option<Duration> {
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = DateTimeParser::new().parse_timestamp(text).ok()?;
    Some(date.duration_since(Timestamp::now()).try_into().unwrap_or_default())
}

/// A text from outside, as a single line for a terminal.
fn shown(text: &str) -> String {
    one_line(bounded(text, MOST_SHOWN)).into_owned()
}

#[cfg(test)]
mod tests {
    use jiff::fmt::rfc2822::DateTimePrinter;

    use super::*;

    /// A date counted as no pause at all.
    #[test]
    fn a_proxy_asks_for_a_pause_in_seconds_or_until_a_date() {
        let retry = |text: &str| {
            let headers = HeaderMap::from_iter([(header::RETRY_AFTER, text.parse().unwrap())]);
            Fault::of_status(StatusCode::SERVICE_UNAVAILABLE, &headers, b"").retry
        };
        let date = |seconds: i64| {
            let at = Timestamp::from_second(Timestamp::now().as_second() + seconds).unwrap();
            DateTimePrinter::new().timestamp_to_rfc9110_string(&at).unwrap()
        };
        assert_eq!(retry("120"), Some(Duration::from_secs(120)));
        let until = retry(&date(120)).unwrap();
        assert!((Duration::from_secs(60)..=Duration::from_secs(120)).contains(&until), "{until:?}");
        for (text, pause) in [(&*date(-120), Some(Duration::ZERO)), ("soon", Some(Duration::ZERO))] {
            assert_eq!(retry(text), pause, "{text}");
        }
        for text in ["301", &date(400)] {
            assert_eq!(retry(text), None, "{text}");
        }
    }
}
