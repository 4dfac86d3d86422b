//! Bytes as hexadecimal digits.

use crate::append::{Room, put};

/// The two lower-case digits of each byte.
static DIGITS: [[u8; 2]; 256] = {
    let mut digits = [[0; 2]; 256];
    let mut byte = 0;
    while byte < 256 {
        digits[byte] = [b"0123456789abcdef"[byte / 16], b"0123456789abcdef"[byte % 16]];
        byte += 1;
    }
    digits
};

/// The two lower-case digits of `byte`.
#[inline]
pub(crate) fn digits(byte: u8) -> [u8; 2] {
    DIGITS[usize::from(byte)]
}

/// Appends the digits of `bytes`, without the `\x` of PostgreSQL's form, which some formats must
/// escape.
pub(crate) fn write_hex(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend(bytes.iter().flat_map(|&byte| digits(byte)));
}

/// Puts a UUID in its hyphenated form (RFC 9562, section 4), with quotes, into `room`. Returns its
/// length.
#[inline]
pub(crate) fn put_uuid(uuid: [u8; 16], room: &mut Room) -> usize {
    const TEMPLATE: &[u8; 38] = b"\"00000000-0000-0000-0000-000000000000\"";
    const PLACES: [usize; 16] = [1, 3, 5, 7, 10, 12, 15, 17, 20, 22, 25, 27, 29, 31, 33, 35];
    put(TEMPLATE, 0, room);
    for (byte, place) in uuid.into_iter().zip(PLACES) {
        [room[place], room[place + 1]] = digits(byte);
    }
    TEMPLATE.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_every_byte_as_the_formatter_does() {
        for byte in 0..=u8::MAX {
            assert_eq!(digits(byte), *format!("{byte:02x}").as_bytes());
        }
    }

    #[test]
    fn hyphenates_a_uuid() {
        let mut room = [b'x'; size_of::<Room>()];
        let length = put_uuid(0x00112233_4455_6677_8899_aabbccddeeff_u128.to_be_bytes(), &mut room);
        assert_eq!(&room[..length], b"\"00112233-4455-6677-8899-aabbccddeeff\"");
    }
}
