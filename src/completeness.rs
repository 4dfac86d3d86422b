//! Completeness: how a client knows that it has everything, whatever is between it and the server.
//!
//! An abort alone isn't enough, because some proxies and clients turn it into a clean end. So each
//! answer has a positive proof of its end, and a client asks for one that reaches it:
//!
//! | module | proof |
//! |---|---|
//! | [`framing`] | records among the rows: the end, or the error |
//! | [`digest`] | the hash of the bytes |
//! | [`trailers`] | fields after the body |
//! | [`events`] | the id of an event, at which an `EventSource` stops |
//! | [`streams`] | another request, which reports how a stream ended |
//! | [`crate::spool`] | a length, because the whole result exists before its headers |
//! | [`delivery`] | everything that was encoded before a failure, and then the abort |

pub(crate) mod delivery;
pub mod digest;
pub(crate) mod events;
pub mod framing;
pub(crate) mod page;
pub(crate) mod streams;
pub(crate) mod trailers;

use std::fmt;

use http::{HeaderMap, HeaderName, HeaderValue, Request, StatusCode, Version};
use rowstream_core::Error;
use rowstream_core::params::completeness::{Controls, End};
use rowstream_encode::Format;

use self::framing::Framing;

/// The proofs of completeness that a request asks for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProofRequest {
    /// The form of records among the rows, and their tag.
    pub(crate) framed: Option<(Framing, ResponseId)>,
    /// A digest, at each place where it's known.
    pub(crate) digest: bool,
    /// Fields after the body.
    pub(crate) trailers: bool,
    /// Headers only once the end is known.
    pub(crate) wait: bool,
    /// A length, because the request's version of HTTP has no chunks.
    pub(crate) without_chunks: bool,
}

impl ProofRequest {
    /// Reads the proofs that a request asks for. Its answer is in `format`; `Accept` may have asked
    /// for the framed profile too.
    ///
    /// # Errors
    /// 400: the format can't contain records.
    pub(crate) fn read<B>(
        request: &Request<B>,
        controls: Controls,
        format: Format,
        framed_by_accept: bool,
    ) -> Result<Self, Error> {
        let framed = controls.end.map_or(framed_by_accept, |end| end == End::Framed);
        if framed && format == Format::Csv {
            return Err(no_records());
        }
        let framing = if framed { Framing::of(format) } else { None };
        Ok(Self {
            framed: framing.map(|framing| Ok::<_, Error>((framing, ResponseId::random()?))).transpose()?,
            digest: controls.digest.is_some() || digest::is_wanted(request.headers()),
            trailers: trailers::are_taken(request.version(), request.headers()),
            wait: controls.wait.is_some(),
            without_chunks: request.version() == Version::HTTP_10,
        })
    }
}

/// Refuses an end record in a format that can't contain one. Otherwise the client would take the
/// missing record for a failure, or a cut answer for a complete one.
fn no_records() -> Error {
    let message = "`csv` holds only rows".to_owned();
    Error::invalid_parameters(vec![("_end".to_owned(), message)]).hint(
        "use `ndjson`; or leave it out, and query `/_rowstream/streams/{id}` (the id is in the header \
         `Rowstream-Stream`)",
    )
}

/// 128 random bits that can't be guessed: the tag of a response, or the id of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct ResponseId(u128);

impl ResponseId {
    /// A new one.
    ///
    /// # Errors
    /// The system provides no random numbers.
    pub(crate) fn random() -> Result<Self, Error> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(|cause| {
            let message = "the system returns no random numbers";
            Error::new("no_randomness", StatusCode::INTERNAL_SERVER_ERROR, message).cause(cause)
        })?;
        Ok(Self(u128::from_ne_bytes(bytes)))
    }

    /// Adds it as a header.
    pub(crate) fn tell(self, name: HeaderName, headers: &mut HeaderMap) {
        // Hexadecimal digits are always a valid header value.
        if let Ok(value) = HeaderValue::try_from(self.to_string()) {
            headers.insert(name, value);
        }
    }

    /// Reads an id as [`ResponseId`] writes it.
    pub(crate) fn from_text(text: &str) -> Option<Self> {
        let is_own = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        let own = text.len() == 32 && text.bytes().all(is_own);
        if own { u128::from_str_radix(text, 16).ok().map(Self) } else { None }
    }
}

/// As 32 hexadecimal digits.
impl fmt::Display for ResponseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_as_they_are_written() {
        let id = ResponseId(0x0123_4567_89ab_cdef);
        assert_eq!(id.to_string(), "00000000000000000123456789abcdef");
        assert_eq!(ResponseId::from_text(&id.to_string()), Some(id));
        for text in ["", "0", "+0000000000000000123456789abcdef", "0000000000000000_123456789abcdef"] {
            assert_eq!(ResponseId::from_text(text), None, "{text}");
        }
        assert_eq!(ResponseId::from_text(&id.to_string().to_uppercase()), None);
    }

    #[test]
    fn ids_differ() {
        assert_ne!(ResponseId::random().unwrap(), ResponseId::random().unwrap());
    }
}
