//! Bytes as hexadecimal digits.

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

/// Appends the digits of `bytes`, without the `\x` of PostgreSQL's form: a format may have to escape it.
pub(crate) fn write_hex(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend(bytes.iter().flat_map(|&byte| digits(byte)));
}

/// Appends a UUID in its hyphenated form (RFC 9562, section 4).
pub(crate) fn write_uuid(uuid: [u8; 16], out: &mut Vec<u8>) {
    let mut text = [b'-'; 36];
    let places = [0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34];
    for (byte, place) in uuid.into_iter().zip(places) {
        [text[place], text[place + 1]] = digits(byte);
    }
    out.extend_from_slice(&text);
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
        let mut out = Vec::new();
        write_uuid(0x00112233_4455_6677_8899_aabbccddeeff_u128.to_be_bytes(), &mut out);
        assert_eq!(out, b"00112233-4455-6677-8899-aabbccddeeff");
    }
}
