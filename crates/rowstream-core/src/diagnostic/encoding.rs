//! Decodes files as UTF-8, with or without the byte order mark that editors on Windows write.

use super::place;

const MARK: &[u8] = "\u{feff}".as_bytes();

/// The reason why bytes aren't UTF-8 text.
#[derive(Debug, PartialEq, Eq)]
pub enum EncodingError {
    /// They're UTF-16.
    Utf16,
    /// They're UTF-8 up to this line and column.
    From(usize, usize),
}

/// The text of a file's bytes, without a byte order mark.
pub fn read_utf8(mut bytes: Vec<u8>) -> Result<String, EncodingError> {
    if is_utf16(&bytes) {
        return Err(EncodingError::Utf16);
    }
    if bytes.starts_with(MARK) {
        bytes.drain(..MARK.len());
    }
    String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        let (line, column) = place(&String::from_utf8_lossy(&error.as_bytes()[..valid]), valid);
        EncodingError::From(line, column)
    })
}

/// Returns true for a UTF-16 mark, or a zero byte beside a non-zero one at the start. A UTF-8 text
/// contains no NUL.
pub fn is_utf16(bytes: &[u8]) -> bool {
    match bytes {
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => true,
        [first, second, ..] => (*first == 0) != (*second == 0),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_utf8() {
        for (bytes, expected) in [
            (&b""[..], Ok("")),
            (b"a", Ok("a")),
            ("é\n".as_bytes(), Ok("é\n")),
            (b"\xef\xbb\xbfselect 1", Ok("select 1")),
            (b"\xef\xbb\xbf\xef\xbb\xbfa", Ok("\u{feff}a")),
            (b"\xff\xfes\0", Err(EncodingError::Utf16)),
            (b"\xfe\xff\0s", Err(EncodingError::Utf16)),
            (b"s\0e\0", Err(EncodingError::Utf16)),
            (b"\0s\0e", Err(EncodingError::Utf16)),
            (b"a\n\xc3\xa9\xff", Err(EncodingError::From(2, 2))),
            (b"\xef\xbb\xbfa\xff", Err(EncodingError::From(1, 2))),
        ] {
            assert_eq!(read_utf8(bytes.to_vec()), expected.map(str::to_owned), "{bytes:?}");
        }
    }
}
