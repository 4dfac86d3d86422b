//! Values of BIT that the server has computed.
//!
//! The server sends a column's value as bits, and also each value that it reads from a temporary
//! table. MariaDB declares other values, such as `max(x)`, as BIT too, but sends the digits of
//! their number. MySQL does so with some functions. The columns of a result don't distinguish these
//! cases, but both servers mark a value that isn't a column's as binary.

use rowstream_core::sql::Outline;

use super::BadField;
use crate::DIALECT;
use crate::look::is_mariadb;
use crate::packet::Definition;

/// The flag for bytes. A BIT column of a table doesn't have it.
const BINARY: u16 = 1 << 7;

/// MariaDB's functions that send a computed BIT as bits: window functions, and `last_value` of
/// several values.
const AS_BITS: [&str; 2] = ["over", "last_value"];

/// The encoding of a computed BIT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum BitEncoding {
    /// As digits.
    Digits,
    /// As bits or as digits. A value that can be either is refused.
    Either,
}

impl BitEncoding {
    /// The encoding of a statement's computed BITs by `product`. A procedure's results depend on
    /// statements that we don't see.
    pub(in super::super) fn by(sql: &str, product: &str) -> Self {
        let is_plain = |outline: Outline<'_>| !outline.has_any(&AS_BITS) && !outline.begins_with("call");
        match is_mariadb(product) && Outline::new(sql, &DIALECT).is_some_and(is_plain) {
            true => Self::Digits,
            false => Self::Either,
        }
    }
}

/// A column of computed BITs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct ComputedBits {
    /// The most bits of a value.
    bits: u8,
    sent: BitEncoding,
}

impl ComputedBits {
    /// `None` if the values belong to a column. If a view computes them, we don't see its
    /// functions.
    pub(super) fn of(column: &Definition, sent: BitEncoding) -> Option<Self> {
        let bits = u8::try_from(column.length.clamp(1, 64)).unwrap_or(64);
        let sent = if column.has_table { BitEncoding::Either } else { sent };
        (column.flags & BINARY != 0).then_some(Self { bits, sent })
    }

    /// The number of a value.
    pub(super) fn read(self, field: &[u8]) -> Result<u64, BadField> {
        let is_as_long = field.len() == usize::from(self.bits).div_ceil(8);
        let as_bits = is_as_long.then(|| number(field)).filter(|number| self.holds(*number));
        let as_digits = digits(field).filter(|number| self.holds(*number));
        match (as_digits, as_bits) {
            (Some(_), Some(_)) if self.sent == BitEncoding::Either => Err(BadField::UnclearBits),
            (Some(number), _) | (None, Some(number)) => Ok(number),
            // MySQL 8 converts the bits of some functions, such as `if`, as if they were a text.
            (None, None) => Err(BadField::UnclearBits),
        }
    }

    fn holds(self, number: u64) -> bool {
        u64::BITS - number.leading_zeros() <= u32::from(self.bits)
    }
}

/// The number of up to eight bytes of bits, the first byte the highest.
pub(super) fn number(bits: &[u8]) -> u64 {
    bits.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// The number that digits are, if the server writes it so.
fn digits(text: &[u8]) -> Option<u64> {
    let is_number = text.iter().all(u8::is_ascii_digit) && (text == b"0" || !text.starts_with(b"0"));
    std::str::from_utf8(text).ok().filter(|_| is_number)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_read_if_it_can_be_one_number_only() {
        for (bits, field, digits, either) in [
            (1, &b"1"[..], Some(1), Some(1)),
            (1, b"\x01", Some(1), Some(1)),
            (1, b"2", None, None),
            (5, b"9", Some(9), Some(9)),
            (8, b"9", Some(9), None),
            (8, b"200", Some(200), Some(200)),
            (8, b"300", None, None),
            (8, b"\xc8", Some(200), Some(200)),
            (16, b"07", Some(0x3037), Some(0x3037)),
            (17, b"100", Some(100), Some(100)),
            (64, b"12345678", Some(12_345_678), None),
            (64, b"18446744073709551615", Some(u64::MAX), Some(u64::MAX)),
            (64, b"18446744073709551616", None, None),
            (64, &[0xff; 8], Some(u64::MAX), Some(u64::MAX)),
            (64, b"", None, None),
        ] {
            for (sent, expected) in [(BitEncoding::Digits, digits), (BitEncoding::Either, either)] {
                let read = ComputedBits { bits, sent }.read(field);
                assert_eq!(read.ok(), expected, "{bits} {field:?} {sent:?}");
            }
        }
    }

    #[test]
    fn a_statement_says_how_its_bits_are_sent() {
        for (sql, product, sent) in [
            ("select max(x) from b", "MariaDB 10.11.6", BitEncoding::Digits),
            ("select max(x) as `over` from b", "MariaDB 10.11.6", BitEncoding::Digits),
            ("select (max(x) Over ()) from b", "MariaDB 10.11.6", BitEncoding::Either),
            ("select last_value(a, x) from b", "MariaDB 10.11.6", BitEncoding::Either),
            ("call p()", "MariaDB 10.11.6", BitEncoding::Either),
            ("select max(x) from b", "MySQL 8.4.0", BitEncoding::Either),
        ] {
            assert_eq!(BitEncoding::by(sql, product), sent, "{sql} {product}");
        }
    }
}
