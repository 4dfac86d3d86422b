//! Rejects malformed HTTP/3 requests (RFC 9114, sections 4.2 and 4.3).
//!
//! h3 keeps the last of several equal pseudo-headers, ignores their order, and passes on headers of
//! the connection. So we read the names in an encoded field section before h3 decodes it, and check
//! the headers afterwards. We leave the values to h3.

use http::header::{CONNECTION, HeaderName, TE, TRANSFER_ENCODING, UPGRADE};
use http::{Method, Request};

/// The headers of a connection. HTTP/3 forbids them.
const OF_A_CONNECTION: [HeaderName; 5] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    TRANSFER_ENCODING,
    UPGRADE,
];

/// True if a decoded request has a header that HTTP/3 forbids, or lacks a pseudo-header.
pub(super) fn is_malformed<B>(request: &Request<B>) -> bool {
    let headers = request.headers();
    let is_connect = request.method() == Method::CONNECT;
    OF_A_CONNECTION.iter().any(|name| headers.contains_key(name))
        || headers.get_all(TE).iter().any(|value| value != "trailers")
        || is_connect == request.uri().scheme().is_some()
}

/// True if an encoded field section has only the pseudo-headers of requests, each once, and all
/// before the other headers. A section that can't be read isn't sound.
pub(super) fn is_sound(section: &[u8]) -> bool {
    let mut lines = FieldLines(section);
    let (mut seen, mut has_header) = ([false; 4], false);
    if lines.prefix().is_none() {
        return false;
    }
    while !lines.0.is_empty() {
        match lines.line() {
            Some((Name::Header, _)) => has_header = true,
            Some((Name::Pseudo(name), Value::Present)) if !has_header && !seen[name as usize] => {
                seen[name as usize] = true;
            }
            _ => return false,
        }
    }
    true
}

/// The name of a field.
enum Name {
    /// A pseudo-header of requests.
    Pseudo(PseudoHeader),
    /// Another pseudo-header: one of responses, or one that we don't support.
    OtherPseudo,
    Header,
}

#[derive(Clone, Copy)]
enum PseudoHeader {
    Authority,
    Method,
    Path,
    Scheme,
}

enum Value {
    Empty,
    Present,
}

impl Name {
    /// Reads an index of QPACK's static table (RFC 9204, appendix A).
    fn of_index(index: u64) -> Self {
        match index {
            0 => Self::Pseudo(PseudoHeader::Authority),
            1 => Self::Pseudo(PseudoHeader::Path),
            15..=21 => Self::Pseudo(PseudoHeader::Method),
            22..=23 => Self::Pseudo(PseudoHeader::Scheme),
            24..=28 | 63..=71 => Self::OtherPseudo,
            _ => Self::Header,
        }
    }

    fn of_literal(name: &[u8]) -> Self {
        match name {
            b":authority" => Self::Pseudo(PseudoHeader::Authority),
            b":method" => Self::Pseudo(PseudoHeader::Method),
            b":path" => Self::Pseudo(PseudoHeader::Path),
            b":scheme" => Self::Pseudo(PseudoHeader::Scheme),
            [b':', ..] => Self::OtherPseudo,
            _ => Self::Header,
        }
    }

    /// Reads a Huffman-coded name (RFC 7541, appendix B). Each name has exactly one encoding.
    fn of_huffman(name: &[u8]) -> Self {
        /// The code of `:`, in the upper seven bits.
        const COLON: u8 = 0xb8;
        match name {
            b"\xb8\x3b\x53\x39\xec\x32\x7d\x7f" => Self::Pseudo(PseudoHeader::Authority),
            b"\xb9\x49\x53\x39\xe4" => Self::Pseudo(PseudoHeader::Method),
            b"\xb9\x58\xd3\x3f" => Self::Pseudo(PseudoHeader::Path),
            b"\xb8\x82\x4e\x5a\x4b" => Self::Pseudo(PseudoHeader::Scheme),
            [first, ..] if first & !1 == COLON => Self::OtherPseudo,
            _ => Self::Header,
        }
    }
}

/// The rest of an encoded field section (RFC 9204, section 4.5), without references to a dynamic
/// table, because we don't offer one.
struct FieldLines<'a>(&'a [u8]);

impl<'a> FieldLines<'a> {
    /// The required insert count and the base.
    fn prefix(&mut self) -> Option<()> {
        self.integer(8)?;
        self.integer(7)?;
        Some(())
    }

    fn line(&mut self) -> Option<(Name, Value)> {
        let first = *self.0.first()?;
        match first {
            // Indexed, from the static table. Only `:authority` has no value there.
            0b1100_0000.. => match self.integer(6)? {
                0 => Some((Name::of_index(0), Value::Empty)),
                index => Some((Name::of_index(index), Value::Present)),
            },
            // Literal with a name from the static table.
            0b0100_0000..0b1000_0000 if first & 0b0001_0000 != 0 => {
                let name = Name::of_index(self.integer(4)?);
                Some((name, self.value()?))
            }
            // Literal with a literal name.
            0b0010_0000..0b0100_0000 => {
                let is_huffman = first & 0b1000 != 0;
                let length = self.integer(3)?;
                let name = self.bytes(length)?;
                let name = if is_huffman { Name::of_huffman(name) } else { Name::of_literal(name) };
                Some((name, self.value()?))
            }
            _ => None,
        }
    }

    fn value(&mut self) -> Option<Value> {
        let length = self.integer(7)?;
        let value = self.bytes(length)?;
        Some(if value.is_empty() { Value::Empty } else { Value::Present })
    }

    fn bytes(&mut self, length: u64) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(usize::try_from(length).ok()?)?;
        self.0 = rest;
        Some(bytes)
    }

    /// An integer in the last bits of a byte, continued in further bytes (RFC 7541, section 5.1).
    fn integer(&mut self, bits: u32) -> Option<u64> {
        let largest = u8::MAX >> (8 - bits);
        let mut value = u64::from(self.byte()? & largest);
        if value < u64::from(largest) {
            return Some(value);
        }
        for shift in (0..63).step_by(7) {
            let byte = self.byte()?;
            value = value.checked_add(u64::from(byte & 0x7f) << shift)?;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }
}
